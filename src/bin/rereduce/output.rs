//! Standard output: lines, JSON, tables, and colours where somebody looks at them.
//!
//! Invariant: a reader that goes away ends the command quietly; colours and bars appear on a
//! terminal only, and never when `NO_COLOR` is set.

use std::fmt::{Arguments, Display};
use std::io::{BufWriter, IsTerminal, Stdout, Write, stdout};
use std::ops::ControlFlow;

use rereduce::vocabulary::{BigInteger, Json, Number};

use crate::outcome::{Failure, Outcome};

/// Standard output of one command.
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    json: bool,
    colours: bool,
    indent: usize,
}

/// How a piece of text is shown on a terminal.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Heading,
    Key,
    Good,
    Bad,
    Faint,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colours = stdout().is_terminal() && !no_color;
        Output { out: BufWriter::with_capacity(64 << 10, stdout()), json, colours, indent: 0 }
    }

    /// Whether a program reads this.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// From now on, lines begin with so many spaces.
    pub(crate) fn indent(&mut self, columns: usize) {
        self.indent = columns;
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.out.write_all(bytes).map_err(|error| Failure::io("write", "standard output", error))
    }

    /// Writes text that ends its own lines.
    pub(crate) fn text(&mut self, text: &dyn Display) -> Outcome {
        write!(self.out, "{text}").map_err(|error| Failure::io("write", "standard output", error))
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: Arguments<'_>) -> Outcome {
        let indent = self.indent;
        writeln!(self.out, "{:indent$}{line}", "")
            .map_err(|error| Failure::io("write", "standard output", error))
    }

    /// Writes one JSON value as a line.
    pub(crate) fn json(&mut self, json: &Json) -> Outcome {
        self.line(format_args!("{json}"))
    }

    /// Hands everything to the system.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.out.flush().map_err(|error| Failure::io("write", "standard output", error))
    }

    /// `text` in `style`, if anybody sees it.
    pub(crate) fn paint(&self, style: Style, text: impl Display) -> String {
        let code = match style {
            Style::Heading => "1",
            Style::Key => "36",
            Style::Good => "32",
            Style::Bad => "1;31",
            Style::Faint => "2",
        };
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Writes names and values, the values in one column.
    pub(crate) fn pairs<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Outcome {
        let pairs: Vec<_> = pairs.into_iter().collect();
        let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in pairs {
            let name = self.paint(Style::Key, format_args!("{name:width$}"));
            self.line(format_args!("{name}  {value}"))?;
        }
        Ok(())
    }

    /// Writes rows under headings; every column is as wide as it must be, numbers to the right.
    pub(crate) fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> Outcome {
        let cell = |row: &[String], at: usize| row.get(at).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..headings.len())
            .map(|at| {
                let cells = rows.iter().map(|row| cell(row, at).chars().count());
                cells.chain([headings[at].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        // Dates and revisions begin with digits too, and have dashes.
        let is_number = |text: &str| begins(text) && !text.contains('-');
        let right: Vec<bool> = (0..headings.len())
            .map(|at| !rows.is_empty() && rows.iter().all(|row| is_number(&cell(row, at))))
            .collect();
        let join = |row: &[String]| {
            let cells = widths.iter().zip(&right).enumerate().map(|(at, (width, right))| {
                let text = cell(row, at);
                if *right { format!("{text:>width$}") } else { format!("{text:width$}") }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        let headings: Vec<String> = headings.iter().map(|heading| heading.to_string()).collect();
        let heading = self.paint(Style::Heading, join(&headings));
        self.line(format_args!("{heading}"))?;
        rows.iter().try_for_each(|row| self.line(format_args!("{}", join(row))))
    }
}

/// A JSON object.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

/// A count as JSON.
pub(crate) fn number(count: u64) -> Json {
    match i64::try_from(count) {
        Ok(count) => Json::from(count),
        Err(_) => BigInteger::new(&count.to_string())
            .map_or(Json::Null, |digits| Json::Number(Number::Big(digits))),
    }
}

/// A count with its digits in groups of three.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `count` and a noun, which gets an `s` unless there is one of it.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// For visitors: goes on while all is well, and keeps the first failure.
pub(crate) fn go_on(result: Outcome, failed: &mut Outcome) -> ControlFlow<()> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => {
            *failed = Err(failure);
            ControlFlow::Break(())
        }
    }
}
