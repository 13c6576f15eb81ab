//! Where the tour speaks, and where it keeps its checks.
//!
//! Invariant: every check is in the table at the end, and one that failed makes the tour fail.

use std::path::PathBuf;
use std::time::Instant;

use rereduce::vocabulary::Json;

use crate::outcome::{Failure, Outcome};
use crate::output::{Output, Style, grouped, number, object};

/// Columns that the tour's text takes at most.
const COLUMNS: usize = 80;
const INDENT: usize = 3;

/// One kind of check and how it went.
struct Check {
    what: &'static str,
    passed: u64,
    total: u64,
}

impl Check {
    /// A check of nothing shows nothing.
    fn holds(&self) -> bool {
        self.passed == self.total && self.total > 0
    }
}

/// The tour's voice.
pub(super) struct Stage<'a> {
    out: &'a mut Output,
    directory: PathBuf,
    checks: Vec<Check>,
    acts: u32,
    began: Instant,
}

impl<'a> Stage<'a> {
    pub(super) fn new(out: &'a mut Output, directory: PathBuf) -> Stage<'a> {
        out.indent(INDENT);
        Stage { out, directory, checks: Vec::new(), acts: 0, began: Instant::now() }
    }

    /// The path of a file of the tour.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Begins the next act.
    pub(super) fn act(&mut self, title: &str) -> Outcome {
        self.acts += 1;
        if self.out.is_json() {
            return Ok(());
        }
        self.out.indent(0);
        self.out.line(format_args!(""))?;
        let title = self.out.paint(Style::Heading, format_args!("{}  {title}", self.acts));
        self.out.line(format_args!("{title}"))?;
        self.out.indent(INDENT);
        // Somebody watches: show each act as it is done.
        self.out.flush()
    }

    /// Says a line.
    pub(super) fn say(&mut self, line: &str) -> Outcome {
        if self.out.is_json() {
            return Ok(());
        }
        if line.is_empty() {
            return self.out.text(&'\n');
        }
        self.out.line(format_args!("{line}"))
    }

    /// Shows lines that are data, cut where they would leave the screen.
    pub(super) fn show(&mut self, text: &str) -> Outcome {
        for line in text.lines() {
            let room = COLUMNS - INDENT - 2;
            let cut = line.chars().count() > room;
            let mut shown: String = line.chars().take(if cut { room - 1 } else { room }).collect();
            if cut {
                shown.push('…');
            }
            let shown = self.out.paint(Style::Key, shown);
            self.say(&format!("  {shown}"))?;
        }
        Ok(())
    }

    /// Shows a table.
    pub(super) fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> Outcome {
        if self.out.is_json() {
            return Ok(());
        }
        self.out.indent(INDENT + 2);
        self.out.table(headings, rows)?;
        self.out.indent(INDENT);
        Ok(())
    }

    /// Counts `passed` of `total` checks of one kind, and says how they went.
    pub(super) fn check(&mut self, what: &'static str, passed: u64, total: u64) -> Outcome {
        match self.checks.iter_mut().find(|check| check.what == what) {
            Some(check) => {
                (check.passed, check.total) = (check.passed + passed, check.total + total)
            }
            None => self.checks.push(Check { what, passed, total }),
        }
        let verdict = match passed == total && total > 0 {
            true => self.out.paint(Style::Good, "checked"),
            false => self.out.paint(Style::Bad, "WRONG"),
        };
        self.say(&format!("{verdict}: {what}, {} of {}", grouped(passed), grouped(total)))
    }

    /// The table of everything that was checked.
    pub(super) fn finish(mut self) -> Outcome {
        let failed = self.checks.iter().filter(|check| !check.holds()).count();
        let (passed, total) = self
            .checks
            .iter()
            .fold((0, 0), |sum, check| (sum.0 + check.passed, sum.1 + check.total));
        let seconds = self.began.elapsed().as_secs_f64();
        if self.out.is_json() {
            let row = |check: &Check| {
                object([
                    ("what", Json::from(check.what)),
                    ("passed", number(check.passed)),
                    ("total", number(check.total)),
                ])
            };
            let rows = self.checks.iter().map(row).collect();
            self.out.indent(0);
            self.out.json(&object([
                ("checks", Json::Array(rows)),
                ("passed", number(passed)),
                ("total", number(total)),
            ]))?;
        } else {
            self.act("What was checked")?;
            let row = |check: &Check| {
                let verdict = if check.holds() { "ok" } else { "WRONG" };
                let of = format!("{} of {}", grouped(check.passed), grouped(check.total));
                vec![check.what.to_string(), of, verdict.to_string()]
            };
            let mut rows: Vec<_> = self.checks.iter().map(row).collect();
            let of = format!("{} of {}", grouped(passed), grouped(total));
            let verdict = if failed == 0 { "ok" } else { "WRONG" };
            rows.push(vec!["all".to_string(), of, verdict.to_string()]);
            self.table(&["what", "checked", ""], &rows)?;
            self.say("")?;
            let (missed, passed) = (grouped(total - passed), grouped(passed));
            self.say(&format!("tour: {seconds:.1} s; {passed} passed, {missed} failed"))?;
        }
        match failed {
            0 => Ok(()),
            _ => Err(Failure::no("the tour found a mistake in the engine; please report it")),
        }
    }
}
