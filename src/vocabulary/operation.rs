//! The script language of operations: how keys, values, ranges and slots are written in a line.
//!
//! ```text
//!   commit a=1 b=- c="x y" d=z*3000       a word is bare, quoted with \xNN escapes, or repeated;
//!   scan a..c desc limit 3 in s1          `-` removes; `a..c`, `a..=c`, `a<..c`, `..` are ranges
//! ```
//!
//! Invariant: what `Display` writes, `FromStr` reads back as the same operation.

use std::fmt::{self, Write};
use std::ops::Bound;

use super::{Direction, KeyRange};
use crate::error::{Error, Result};

/// A named place for an open snapshot, written `s0`, `s1`, ...
///
/// ```
/// use rereduce::vocabulary::Slot;
/// assert_eq!(Slot(3).to_string(), "s3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl fmt::Display for Slot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "s{}", self.0)
    }
}

/// Writes bytes as one word of a script.
///
/// ```
/// use rereduce::vocabulary::Word;
/// assert_eq!(Word(b"a-1").to_string(), "a-1");
/// assert_eq!(Word(b"x y\xff").to_string(), r#""x y\xff""#);
/// assert_eq!(Word(&[b'z'; 3000]).to_string(), "z*3000");
/// assert_eq!(Word(b"-").to_string(), r#""-""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a>(pub &'a [u8]);

const REPEATED_BYTES_MIN: usize = 40;

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/')
}

impl fmt::Display for Word<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [first, rest @ ..] = self.0
            && self.0.len() >= REPEATED_BYTES_MIN
            && is_bare(*first)
            && rest.iter().all(|byte| byte == first)
        {
            return write!(out, "{}*{}", char::from(*first), self.0.len());
        }
        if !self.0.is_empty() && self.0 != b"-" && self.0.iter().all(|byte| is_bare(*byte)) {
            return self.0.iter().try_for_each(|byte| out.write_char(char::from(*byte)));
        }
        out.write_char('"')?;
        for byte in self.0 {
            match byte {
                b'"' | b'\\' => write!(out, "\\{}", char::from(*byte))?,
                b' '..=b'~' => out.write_char(char::from(*byte))?,
                _ => write!(out, "\\x{byte:02x}")?,
            }
        }
        out.write_char('"')
    }
}

/// Writes a range as `START..END`.
pub(super) fn write_range(out: &mut fmt::Formatter<'_>, range: &KeyRange) -> fmt::Result {
    match &range.start {
        Bound::Included(key) => write!(out, "{}", Word(key))?,
        Bound::Excluded(key) => write!(out, "{}<", Word(key))?,
        Bound::Unbounded => {}
    }
    out.write_str("..")?;
    match &range.end {
        Bound::Included(key) => write!(out, "={}", Word(key)),
        Bound::Excluded(key) => write!(out, "{}", Word(key)),
        Bound::Unbounded => Ok(()),
    }
}

/// Reads one line from left to right; every method skips the blanks before what it reads.
pub(super) struct Line<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn new(line: &'a str) -> Line<'a> {
        Line { whole: line, rest: line.trim_start() }
    }

    /// The error for this line.
    pub(super) fn refuse(&self, expected: &'static str) -> Error {
        let got = self.whole.chars().take(80).collect();
        Error::BadInput { what: "operation", got, expected }
    }

    /// Takes `text` if it comes next, and nothing else of a word behind it.
    pub(super) fn take_word(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) if rest.is_empty() || rest.starts_with(' ') => {
                self.rest = rest.trim_start();
                true
            }
            _ => false,
        }
    }

    /// Takes `text` if it comes next, without skipping the blanks behind it.
    pub(super) fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// The next run of bare characters; empty if there is none.
    fn bare(&mut self) -> &'a str {
        let end = self.rest.bytes().position(|byte| !is_bare(byte)).unwrap_or(self.rest.len());
        // Bare bytes are ASCII, so `end` is a character boundary.
        let (bare, rest) = self.rest.split_at(end);
        self.rest = rest;
        bare
    }

    /// A verb or another plain name.
    pub(super) fn name(&mut self) -> &'a str {
        let name = self.bare();
        self.skip_blanks();
        name
    }

    /// The bytes of a word, or `None` if no word comes next.
    pub(super) fn find_word(&mut self) -> Result<Option<Vec<u8>>> {
        if self.rest.starts_with('"') {
            return self.quoted().map(Some);
        }
        let bare = self.bare();
        if bare.is_empty() {
            return Ok(None);
        }
        if !self.take("*") {
            return Ok(Some(bare.as_bytes().to_vec()));
        }
        let count: usize = self.digits()?;
        if bare.len() != 1 || !(REPEATED_BYTES_MIN..=1 << 24).contains(&count) {
            return Err(self.refuse("a repeated word such as z*3000"));
        }
        Ok(Some(bare.as_bytes().repeat(count)))
    }

    /// The bytes of a word.
    pub(super) fn word(&mut self) -> Result<Vec<u8>> {
        let word = self.find_word()?;
        word.ok_or_else(|| self.refuse("a word: bare, \"quoted\" or z*3000"))
    }

    /// A word that is text.
    pub(super) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.word()?).map_err(|_| self.refuse("a word that is text"))
    }

    fn quoted(&mut self) -> Result<Vec<u8>> {
        let expected = "a quoted word such as \"x y\\xff\"";
        let mut word = Vec::new();
        let mut bytes = self.rest.bytes().enumerate().skip(1);
        while let Some((index, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.rest = self.rest.get(index + 1..).unwrap_or("");
                    return Ok(word);
                }
                b'\\' => match bytes.next() {
                    Some((_, escaped @ (b'"' | b'\\'))) => word.push(escaped),
                    Some((_, b'x')) => {
                        let mut digit =
                            || bytes.next().and_then(|(_, digit)| char::from(digit).to_digit(16));
                        match (digit(), digit()) {
                            // Two hexadecimal digits are at most 255.
                            (Some(high), Some(low)) => word.push((high * 16 + low) as u8),
                            _ => return Err(self.refuse(expected)),
                        }
                    }
                    _ => return Err(self.refuse(expected)),
                },
                _ => word.push(byte),
            }
        }
        Err(self.refuse(expected))
    }

    /// A decimal number.
    pub(super) fn digits<N: std::str::FromStr>(&mut self) -> Result<N> {
        let end =
            self.rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits.parse().map_err(|_| self.refuse("a number"))
    }

    /// A decimal number that ends its word.
    pub(super) fn number<N: std::str::FromStr>(&mut self) -> Result<N> {
        let number = self.digits()?;
        self.skip_blanks();
        Ok(number)
    }

    /// A slot such as `s3`.
    pub(super) fn slot(&mut self) -> Result<Slot> {
        if !self.take("s") {
            return Err(self.refuse("a slot such as s3"));
        }
        self.number().map(Slot)
    }

    /// `in SLOT`, if it comes next.
    pub(super) fn at(&mut self) -> Result<Option<Slot>> {
        if self.take_word("in") { self.slot().map(Some) } else { Ok(None) }
    }

    /// `desc`, or nothing for ascending.
    pub(super) fn direction(&mut self) -> Direction {
        if self.take_word("desc") { Direction::Descending } else { Direction::Ascending }
    }

    /// `limit N`, if it comes next.
    pub(super) fn limit(&mut self) -> Result<Option<u64>> {
        if self.take_word("limit") { self.number().map(Some) } else { Ok(None) }
    }

    /// A range such as `a..c`, `a..=c`, `a<..c` or `..`.
    pub(super) fn range(&mut self) -> Result<KeyRange> {
        let start = match self.find_word()? {
            None => Bound::Unbounded,
            Some(key) if self.take("<") => Bound::Excluded(key),
            Some(key) => Bound::Included(key),
        };
        if !self.take("..") {
            return Err(self.refuse("a range such as a..c, a..=c, a<..c or .."));
        }
        let end = if self.take("=") {
            Bound::Included(self.word()?)
        } else {
            self.find_word()?.map_or(Bound::Unbounded, Bound::Excluded)
        };
        self.skip_blanks();
        Ok(KeyRange { start, end })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Asserts that nothing is left of the line.
    pub(super) fn end<T>(self, value: T) -> Result<T> {
        if self.rest.is_empty() { Ok(value) } else { Err(self.refuse("nothing after this")) }
    }
}
