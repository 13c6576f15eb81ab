//! Records from a file: CSV, JSON arrays, NDJSON, GeoJSON; one at a time.
//!
//! ```text
//! bytes ──► one value's bytes ──► Json::parse ──► record
//!           (brackets and quotes are counted, nothing else is understood)
//! ```
//!
//! Invariant: at most one record is in memory, however large the file is.

use std::io::{BufRead, BufReader, Read};

use rereduce::vocabulary::Json;

use crate::outcome::{Failure, Outcome};

/// Bytes of one JSON value; a longer one is refused before it fills the memory.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// Bytes read at a time, and looked at to find out what a file is.
const BUFFER_BYTES: usize = 256 << 10;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated rows under a row of names
    Csv,
    /// Tab-separated rows under a row of names
    Tsv,
    /// One JSON array of objects
    Json,
    /// JSON objects one after the other
    Ndjson,
    /// The features of a GeoJSON FeatureCollection
    Geojson,
}

impl Format {
    /// What `name` and the first bytes of a file say about it.
    fn of(name: &str, head: &[u8]) -> Format {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match extension.as_deref() {
            Some("csv") => return Format::Csv,
            Some("tsv") => return Format::Tsv,
            Some("geojson") => return Format::Geojson,
            Some("ndjson" | "jsonl") => return Format::Ndjson,
            _ => {}
        }
        match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'[') => Format::Json,
            Some(b'{') if is_feature_collection(head) => Format::Geojson,
            Some(b'{') | None => Format::Ndjson,
            Some(_)
                if head.split(|byte| *byte == b'\n').next().unwrap_or(head).contains(&b'\t') =>
            {
                Format::Tsv
            }
            Some(_) => Format::Csv,
        }
    }
}

/// Whether the object at the beginning of `head` says so before anything else gets long.
fn is_feature_collection(head: &[u8]) -> bool {
    let mut values = Values::new(head);
    let mut visit =
        |name: &[u8], value: &[u8]| name == br#""type""# && value == br#""FeatureCollection""#;
    matches!(values.enter_features(&mut visit), Ok(true))
}

/// The records of one input, in order.
pub(crate) enum Records<R: Read> {
    Rows { reader: csv::Reader<BufReader<R>>, names: Vec<String>, keep_text: bool },
    Values { values: Values<BufReader<R>>, format: Format, begun: bool },
}

impl<R: Read> Records<R> {
    /// Begins to read `input`, which is called `name`. `keep_text` leaves the cells of tables
    /// strings.
    pub(crate) fn begin(
        input: R,
        name: &str,
        format: Option<Format>,
        keep_text: bool,
    ) -> Outcome<Records<R>> {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
        let head = input.fill_buf().map_err(|error| Failure::io("read", name, error))?;
        if head.starts_with(b"\xef\xbb\xbf") {
            input.consume(3);
        }
        let head = input.fill_buf().map_err(|error| Failure::io("read", name, error))?;
        let format = format.unwrap_or_else(|| Format::of(name, head));
        if !matches!(format, Format::Csv | Format::Tsv) {
            return Ok(Records::Values { values: Values::new(input), format, begun: false });
        }
        let delimiter = if format == Format::Tsv { b'\t' } else { b',' };
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(input);
        let names = reader.headers().map_err(bad_row)?;
        let names: Vec<String> = names.iter().map(String::from).collect();
        for (at, name) in names.iter().enumerate() {
            if names.iter().take(at).any(|other| other == name) {
                return Err(Failure::usage(format!("two columns are called {name:?}; rename one")));
            }
        }
        Ok(Records::Rows { reader, names, keep_text })
    }

    /// The format that was found or given.
    pub(crate) fn format(&self) -> Format {
        match self {
            Records::Rows { .. } => Format::Csv,
            Records::Values { format, .. } => *format,
        }
    }

    /// The next record, or `None` at the end.
    pub(crate) fn next_record(&mut self) -> Outcome<Option<Json>> {
        match self {
            Records::Rows { reader, names, keep_text } => {
                let mut row = csv::StringRecord::new();
                if !reader.read_record(&mut row).map_err(bad_row)? {
                    return Ok(None);
                }
                let cell = |text: &str| if *keep_text { Json::from(text) } else { typed(text) };
                let cells = row.iter().map(cell);
                Ok(Some(Json::Object(names.iter().cloned().zip(cells).collect())))
            }
            Records::Values { values, format, begun } => {
                if !std::mem::replace(begun, true) {
                    values.begin(*format)?;
                }
                let Some(text) = values.next_value()? else { return Ok(None) };
                Json::parse(text).map(Some).map_err(|error| {
                    let Failure::Said { code, message } = Failure::from(error) else {
                        return Failure::PipeClosed;
                    };
                    Failure::Said { code, message: format!("line {}: {message}", values.line) }
                })
            }
        }
    }
}

fn bad_row(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::io("read", "the table", error),
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.map_or(0, |pos| pos.line());
            Failure::usage(format!("line {line} has {len} cells and the first has {expected_len}"))
        }
        csv::ErrorKind::Utf8 { pos, .. } => {
            let line = pos.map_or(0, |pos| pos.line());
            Failure::usage(format!("line {line} is not UTF-8; convert the file"))
        }
        other => Failure::usage(format!("the table cannot be read: {other:?}")),
    }
}

/// What a cell means: a number or a truth value if it is written like one in JSON, nothing if it
/// is empty, and otherwise its text.
fn typed(text: &str) -> Json {
    match text {
        "" => Json::Null,
        "true" => Json::Bool(true),
        "false" => Json::Bool(false),
        _ if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            Json::parse(text.as_bytes()).unwrap_or_else(|_| Json::from(text))
        }
        _ => Json::from(text),
    }
}

/// JSON values cut out of a stream, unparsed.
pub(crate) struct Values<R> {
    input: R,
    /// Of the byte that comes next; counts from 1.
    line: u64,
    /// Inside an array, and whether an element was taken already.
    array: Option<bool>,
    /// Inside the object that holds the array.
    wrapped: bool,
    text: Vec<u8>,
}

impl<R: BufRead> Values<R> {
    fn new(input: R) -> Values<R> {
        Values { input, line: 1, array: None, wrapped: false, text: Vec::new() }
    }

    fn begin(&mut self, format: Format) -> Outcome {
        match format {
            Format::Json => {
                self.expect(b'[', "an array")?;
                self.array = Some(false);
            }
            Format::Geojson => {
                if !self.enter_features(&mut |_, _| false)? {
                    return Err(Failure::usage("there is no array called features in this file"));
                }
                self.expect(b'[', "an array of features")?;
                (self.array, self.wrapped) = (Some(false), true);
            }
            _ => {}
        }
        Ok(())
    }

    /// Goes through the members of an object to the array called `features`, or to the first
    /// member that `visit` accepts; `false` if there is neither.
    fn enter_features(&mut self, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Outcome<bool> {
        self.expect(b'{', "an object")?;
        loop {
            match self.skip_space()? {
                Some(b'"') => {}
                _ => return Ok(false),
            }
            self.take_value()?;
            let name = std::mem::take(&mut self.text);
            self.expect(b':', "a colon")?;
            if self.skip_space()? == Some(b'[') && name == br#""features""# {
                return Ok(true);
            }
            self.take_value()?;
            if visit(&name, &self.text) {
                return Ok(true);
            }
            match self.skip_space()? {
                Some(b',') => self.input.consume(1),
                _ => return Ok(false),
            }
        }
    }

    /// The bytes of the next value, or `None` at the end.
    fn next_value(&mut self) -> Outcome<Option<&[u8]>> {
        let next = self.skip_space()?;
        match (self.array, next) {
            (None, None) => return Ok(None),
            (None, Some(_)) => {}
            (Some(_), Some(b']')) => {
                self.input.consume(1);
                self.array = None;
                return self.end().map(|()| None);
            }
            (Some(true), _) => {
                self.expect(b',', "a comma or the end of the array")?;
                self.skip_space()?;
            }
            (Some(false), _) => self.array = Some(true),
        }
        self.take_value()?;
        Ok(Some(&self.text))
    }

    /// Behind the array: the rest of the object around it, then nothing.
    fn end(&mut self) -> Outcome {
        if std::mem::take(&mut self.wrapped) {
            while self.skip_space()? == Some(b',') {
                self.input.consume(1);
                self.skip_space()?;
                self.take_value()?;
                self.expect(b':', "a colon")?;
                self.skip_space()?;
                self.take_value()?;
            }
            self.expect(b'}', "the end of the object")?;
        }
        match self.skip_space()? {
            None => Ok(()),
            Some(_) => Err(self.wrong("the end of the file")),
        }
    }

    /// Takes the bytes of one value into `text`: up to the bracket or quote that closes it, or up
    /// to whatever cannot be part of a number or a word.
    fn take_value(&mut self) -> Outcome {
        self.text.clear();
        let (mut depth, mut in_string, mut escaped) = (0u64, false, false);
        loop {
            let buffer = fill(&mut self.input)?;
            if buffer.is_empty() {
                let whole = depth == 0 && !in_string && !self.text.is_empty();
                return if whole { Ok(()) } else { Err(self.wrong("more, but the file ends")) };
            }
            let mut taken = 0;
            let mut done = false;
            for &byte in buffer {
                if !in_string && depth == 0 && ends_word(byte) {
                    done = true;
                    break;
                }
                taken += 1;
                self.line += u64::from(byte == b'\n');
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    b'{' | b'[' if !in_string => depth += 1,
                    b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
                    _ => continue,
                }
                if depth == 0 && !in_string {
                    done = true;
                    break;
                }
            }
            self.text.extend_from_slice(buffer.get(..taken).unwrap_or_default());
            self.input.consume(taken);
            if self.text.len() > VALUE_BYTES_MAX {
                return Err(Failure::usage(format!("line {}: a value is over 1 GiB", self.line)));
            }
            if done {
                return if self.text.is_empty() { Err(self.wrong("a value")) } else { Ok(()) };
            }
        }
    }

    /// Passes white space, and says what comes behind it.
    fn skip_space(&mut self) -> Outcome<Option<u8>> {
        loop {
            let buffer = fill(&mut self.input)?;
            let Some(&first) = buffer.first() else { return Ok(None) };
            if !first.is_ascii_whitespace() {
                return Ok(Some(first));
            }
            self.line += u64::from(first == b'\n');
            self.input.consume(1);
        }
    }

    fn expect(&mut self, byte: u8, what: &str) -> Outcome {
        if self.skip_space()? != Some(byte) {
            return Err(self.wrong(what));
        }
        self.input.consume(1);
        Ok(())
    }

    fn wrong(&self, expected: &str) -> Failure {
        Failure::usage(format!("line {}: expected {expected}; check the file", self.line))
    }
}

fn fill(input: &mut impl BufRead) -> Outcome<&[u8]> {
    input.fill_buf().map_err(|error| Failure::io("read", "the input", error))
}

/// Whether a number or a word ends before this byte.
fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b':' | b']' | b'}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(name: &str, text: &str) -> Result<Vec<String>, String> {
        let told = |failure| match failure {
            Failure::Said { message, .. } => message,
            Failure::PipeClosed => "pipe".to_string(),
        };
        let mut records = Records::begin(text.as_bytes(), name, None, false).map_err(told)?;
        let mut found = Vec::new();
        while let Some(json) = records.next_record().map_err(told)? {
            found.push(json.to_string());
        }
        Ok(found)
    }

    #[test]
    fn every_format_is_known_by_its_content() {
        let two = Ok(vec![r#"{"a":1}"#.to_string(), r#"{"a":"x,]}\\\""}"#.to_string()]);
        for text in [
            "a\n1\n\"x,]}\\\"\"\"\n",
            r#"[{"a":1}, {"a":"x,]}\\\""}]"#,
            "{\"a\":1}\n\n{\"a\":\"x,]}\\\\\\\"\"}",
            r#"{"type": "FeatureCollection", "n": [1], "features": [{"a":1},{"a":"x,]}\\\""}], "z":{}}"#,
            "\u{feff} [ {\"a\":1},{\"a\":\"x,]}\\\\\\\"\"} ] ",
        ] {
            assert_eq!(records("-", text), two, "{text}");
        }
        assert_eq!(records("-", "a\tb\n1\t2\n"), Ok(vec![r#"{"a":1,"b":2}"#.to_string()]));
        assert_eq!(records("-", ""), Ok(vec![]));
        assert_eq!(records("-", " [ ] "), Ok(vec![]));
    }

    #[test]
    fn cells_are_what_they_look_like_in_json() {
        let row = records("t.csv", "a,b,c,d,e,f\n1.50,-3,007,,true,1e\n").unwrap().remove(0);
        assert_eq!(row, r#"{"a":1.5,"b":-3,"c":"007","d":null,"e":true,"f":"1e"}"#);
    }

    #[test]
    fn broken_input_is_told_by_its_line() {
        for (text, told) in [
            ("[{\"a\":1},\n{\"a\":", "line 2: expected more, but the file ends"),
            ("[{}\n{}]", "line 2: expected a comma or the end of the array"),
            ("[{}]\n x", "line 2: expected the end of the file"),
            ("{}\n\n,", "line 3: expected a value"),
            ("a,b\n1\n", "line 2 has 1 cells and the first has 2"),
            ("a,a\n1,2\n", "two columns are called \"a\""),
            ("{\"a\":1}\n{\"a\":tru}\n", "line 2: "),
        ] {
            let wrong = records("-", text).unwrap_err();
            assert!(wrong.starts_with(told), "{text:?}: {wrong}");
        }
        let features = records("x.geojson", "{\"type\":\"FeatureCollection\"}").unwrap_err();
        assert!(features.contains("features"), "{features}");
        let cut = r#"{"type":"FeatureCollection","features":[{}]"#;
        assert!(records("-", cut).unwrap_err().contains("the end of the object"));
    }

    #[test]
    fn a_value_may_lie_across_any_two_reads() {
        struct Bytewise<'a>(&'a [u8]);
        impl Read for Bytewise<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let count = self.0.len().min(1);
                self.0.read(&mut buffer[..count])
            }
        }
        let text = r#"[{"a":"\\\"]"}, 12, [[]], "x"]"#;
        let records = Records::begin(Bytewise(text.as_bytes()), "-", None, false);
        let mut records = records.unwrap_or_else(|_| panic!("an array"));
        let mut found = Vec::new();
        while let Some(json) = records.next_record().unwrap_or_else(|_| panic!("a value")) {
            found.push(json.to_string());
        }
        assert_eq!(found, [r#"{"a":"\\\"]"}"#, "12", "[[]]", r#""x""#]);
    }
}
