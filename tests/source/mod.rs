//! Reads the project's own files for the tests that judge them (`tidy`, `trace`).
//!
//! A Rust file is split into three texts of the same length and line structure: as it is, only its
//! code, only its comments; what does not belong is blanked out. So a word in a string is neither
//! code nor comment, and a byte offset means the same place in all three.

use std::fs;
use std::path::{Path, PathBuf};

/// One file, by its path from the top of the project.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text without comments and without what is inside of quotes.
    pub(crate) code: String,
    /// The comments alone.
    pub(crate) comments: String,
    /// The line at which the file's tests begin.
    pub(crate) tests_begin: usize,
}

impl Source {
    /// A Rust file.
    pub(crate) fn rust(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        let tests_begin = tests_begin(path, &code);
        Source { path: path.into(), text: text.into(), code, comments, tests_begin }
    }

    /// Whether the line with `index` belongs to a test: the file is one, or the line lies behind
    /// `#[cfg(test)]`, where the unit tests of a file stand.
    pub(crate) fn is_test(&self, index: usize) -> bool {
        index >= self.tests_begin
    }
}

/// The first line of a file's tests: 0 if all of it is a test, else the line of the
/// `#[cfg(test)]` that stands at a `mod` with a body.
fn tests_begin(path: &str, code: &str) -> usize {
    if path.split('/').any(|part| part == "tests") || path.ends_with("tests.rs") {
        return 0;
    }
    let lines: Vec<&str> = code.lines().collect();
    let at_body = |index: usize| {
        let below = lines.get(index + 1).map_or("", |line| line.trim());
        below.starts_with("mod ") && below.ends_with('{')
    };
    let marked = |index: &usize| lines[*index].starts_with("#[cfg(test)]") && at_body(*index);
    (0..lines.len()).find(marked).unwrap_or(usize::MAX)
}

/// The code alone and the comments alone.
fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = vec![b' '; bytes.len()];
    let mut comments = vec![b' '; bytes.len()];
    for (at, _) in text.match_indices('\n') {
        (code[at], comments[at]) = (b'\n', b'\n');
    }
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = string_length(rest) {
            code[at] = b'"';
            code[at + length - 1] = b'"';
            at += length;
            continue;
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            // A name is taken whole, so that the r of `for"` never begins a raw string.
            let is_name = |c: char| c.is_alphanumeric() || c == '_';
            let name = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let length = name.max(next);
            code[at..at + length].copy_from_slice(&bytes[at..at + length]);
            at += length;
            continue;
        };
        comments[at..at + length].copy_from_slice(&bytes[at..at + length]);
        at += length;
    }
    let text_of = |bytes| String::from_utf8(bytes).expect("whole characters were copied");
    (text_of(code), text_of(comments))
}

/// The length of the string or character at the beginning of `rest`, with its quotes.
fn string_length(rest: &str) -> Option<usize> {
    let raw = rest.trim_start_matches(['b', 'r']);
    let prefix = rest.len() - raw.len();
    if (1..=2).contains(&prefix) && rest[..prefix].ends_with('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let begin = prefix + hashes + 1;
            let end = rest[begin..].find(&close).map_or(rest.len(), |end| begin + end);
            return Some((end + close.len()).min(rest.len()));
        }
    }
    let quoted = rest.strip_prefix('b').unwrap_or(rest);
    let prefix = rest.len() - quoted.len();
    let quote = quoted.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let mut escaped = false;
    let mut characters = 0;
    for (at, c) in quoted.char_indices().skip(1) {
        characters += 1;
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(prefix + at + c.len_utf8()),
            // A lifetime: a quote that is not closed behind one character.
            _ if quote == '\'' && characters > 1 && !quoted[1..].starts_with('\\') => return None,
            _ => {}
        }
    }
    None
}

/// The top of the project.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files under `directory` (from the top of the project) whose names end with `ending`, sorted;
/// none if there is no such directory. Build output is left out.
pub(crate) fn files(directory: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(directory), ending, &mut found);
    found.sort();
    found
}

fn walk(directory: &Path, ending: &str, found: &mut Vec<(String, String)>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.expect("a directory of the project can be read").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, ending, found);
            }
        } else if path.to_string_lossy().ends_with(ending) {
            let text = fs::read_to_string(&path).expect("a source file is text");
            let name = path.strip_prefix(root()).expect("it was found below the top");
            found.push((name.to_string_lossy().into_owned(), text));
        }
    }
}

/// All Rust files under `directory`.
pub(crate) fn rust_files(directory: &str) -> Vec<Source> {
    let files = files(directory, ".rs");
    files.iter().map(|(path, text)| Source::rust(path, text)).collect()
}

/// Fails with all `complaints`, one a line.
pub(crate) fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn strings_and_comments_are_no_code() {
    let text =
        "let a = \"fs // b\"; // todo\nlet c = '\"'; let d: &'static str = r#\"x\"y\"#; /* e */ f";
    let source = Source::rust("src/a.rs", text);
    assert_eq!(
        source.code.split_whitespace().collect::<Vec<_>>(),
        [
            "let", "a", "=", "\"", "\";", "let", "c", "=", "\"", "\";", "let", "d:", "&'static",
            "str", "=", "\"", "\";", "f"
        ]
    );
    assert_eq!(
        source.comments.split_whitespace().collect::<Vec<_>>(),
        ["//", "todo", "/*", "e", "*/"]
    );
    assert_eq!(source.code.len(), text.len());
}

#[test]
fn a_unit_test_is_told_from_code() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
    let source = Source::rust("src/a.rs", text);
    assert_eq!(
        (0..4).map(|line| source.is_test(line)).collect::<Vec<_>>(),
        [false, true, true, true]
    );
    assert!(Source::rust("tests/a.rs", "").is_test(0));
    assert!(Source::rust("src/btree/tests.rs", "").is_test(0));
}
