//! JSON text to [`Json`].
//!
//! Written by hand rather than on top of a library, for what documents need and none offers
//! together: whole numbers keep every digit without a marker that a document could forge, of
//! doubled members the last one stays at its own place, half surrogates and numbers beyond the
//! double range are refused. It accepts what RFC 8259 does, and nothing else.
//!
//! Invariant: containers stand on a stack of our own, so that input decides neither the depth of
//! our calls nor (beyond a constant times its own size) our memory; every error names a byte.

use std::collections::HashSet;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::mark;
use crate::vocabulary::{BigInteger, Json, Number};

/// Containers that may stand inside one another; printing, hashing and dropping recurse this deep.
pub const DEPTH_MAX: usize = 1024;

/// Digits that a whole number may have; what takes quadratic time stays short.
pub const DIGITS_MAX: usize = 100_000;

/// From this many members on, doubled names are looked for with a set instead of pair by pair.
const MEMBERS_HASHED_MIN: usize = 24;

/// Members for which the outermost object has room from the beginning; most documents have fewer.
const MEMBERS_EXPECTED: usize = 16;

/// For each byte, whether a string's text stops there: quote, backslash, control characters.
const ENDS_PLAIN_TEXT: [bool; 256] = {
    let mut ends = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        ends[control] = true;
        control += 1;
    }
    ends[b'"' as usize] = true;
    ends[b'\\' as usize] = true;
    ends
};

impl Json {
    /// Reads one JSON text, with white space around it.
    ///
    /// Errors are [`Error::BadInput`] for anything that is not JSON in UTF-8 and
    /// [`Error::TooLarge`] beyond [`DEPTH_MAX`] or [`DIGITS_MAX`]. Time is linear in the input.
    ///
    /// ```
    /// use rereduce::vocabulary::Json;
    /// let json = Json::parse(br#" {"a": 1, "b": 1e2, "a": -0} "#).unwrap();
    /// assert_eq!(json.to_string(), r#"{"b":100.0,"a":0}"#);
    /// assert!(Json::parse(br#""\ud800""#).is_err());
    /// assert!(Json::parse(b"1e400").is_err());
    /// ```
    // spec: DOC-1, DOC-2, DOC-3, DOC-4
    pub fn parse(text: &[u8]) -> Result<Json> {
        let mut parser = Parser { text, at: 0, open: Vec::new() };
        let value = parser.document()?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.bad("nothing behind the value"));
        }
        Ok(value)
    }
}

impl FromStr for Json {
    type Err = Error;

    fn from_str(text: &str) -> Result<Json> {
        Json::parse(text.as_bytes())
    }
}

/// A container that waits for its closing bracket.
enum Open {
    Array(Vec<Json>),
    /// Members so far, and the name whose value is being read.
    Object(Vec<(String, Json)>, String),
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    open: Vec<Open>,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Json> {
        loop {
            let mut value = match self.start_value()? {
                Some(value) => value,
                None => continue,
            };
            // Closing a container completes a value of the container around it.
            loop {
                match self.finish_value(value)? {
                    Finished::Whole(value) => return Ok(value),
                    Finished::Container(container) => value = container,
                    Finished::Member => break,
                }
            }
        }
    }

    /// Reads a scalar or an empty container, or opens a container and returns `None`.
    fn start_value(&mut self) -> Result<Option<Json>> {
        self.skip_space();
        Ok(Some(match self.peek() {
            Some(b'{') => {
                self.at += 1;
                self.skip_space();
                if self.take(b'}') {
                    return Ok(Some(Json::Object(Vec::new())));
                }
                let name = self.name()?;
                let room = if self.open.is_empty() { MEMBERS_EXPECTED } else { 0 };
                return self.push(Open::Object(Vec::with_capacity(room), name));
            }
            Some(b'[') => {
                self.at += 1;
                self.skip_space();
                if self.take(b']') {
                    return Ok(Some(Json::Array(Vec::new())));
                }
                return self.push(Open::Array(Vec::new()));
            }
            Some(b'"') => Json::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Json::Number(self.number()?),
            Some(b't') => self.word("true", Json::Bool(true))?,
            Some(b'f') => self.word("false", Json::Bool(false))?,
            Some(b'n') => self.word("null", Json::Null)?,
            _ => return Err(self.bad("a JSON value")),
        }))
    }

    fn push(&mut self, container: Open) -> Result<Option<Json>> {
        // An empty container may lie one level deeper; it takes no level of its own.
        let doubled = mark::planted("json-depth-doubled");
        if self.open.len() >= if doubled { 2 * DEPTH_MAX } else { DEPTH_MAX } {
            let (size, limit) = (DEPTH_MAX as u64 + 1, DEPTH_MAX as u64);
            return Err(Error::TooLarge { what: "JSON nesting (levels)", size, limit });
        }
        self.open.push(container);
        Ok(None)
    }

    /// Puts a finished value into the container around it, and closes that if it ends here.
    fn finish_value(&mut self, value: Json) -> Result<Finished> {
        let in_array = match self.open.last_mut() {
            None => return Ok(Finished::Whole(value)),
            Some(Open::Array(items)) => {
                items.push(value);
                true
            }
            Some(Open::Object(members, name)) => {
                members.push((std::mem::take(name), value));
                false
            }
        };
        self.skip_space();
        match (self.peek(), in_array) {
            (Some(b','), true) => self.at += 1,
            (Some(b','), false) => {
                self.at += 1;
                self.skip_space();
                let next = self.name()?;
                if let Some(Open::Object(_, name)) = self.open.last_mut() {
                    *name = next;
                }
            }
            (Some(b']'), true) | (Some(b'}'), false) => {
                self.at += 1;
                return Ok(match self.open.pop() {
                    Some(Open::Array(items)) => Finished::Container(Json::Array(items)),
                    Some(Open::Object(members, _)) => {
                        Finished::Container(Json::Object(keep_last(members)))
                    }
                    None => unreachable!("a container was open"),
                });
            }
            _ => return Err(self.bad("a comma or a closing bracket")),
        }
        Ok(Finished::Member)
    }

    /// A member's name and the colon behind it.
    fn name(&mut self) -> Result<String> {
        if self.peek() != Some(b'"') {
            return Err(self.bad("a member's name in quotes"));
        }
        let name = self.string()?;
        self.skip_space();
        if !self.take(b':') {
            return Err(self.bad("a colon behind a member's name"));
        }
        Ok(name)
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut string = self.plain_text()?.to_string();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                Some(_) => return Err(self.bad("no raw control character in a string")),
                None => return Err(self.bad("the end of a string")),
            }
            string.push_str(self.plain_text()?);
        }
    }

    /// Takes what stands in a string up to the next quote, backslash or control character.
    fn plain_text(&mut self) -> Result<&str> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let special = |&byte: &u8| ENDS_PLAIN_TEXT[usize::from(byte)];
        let length = rest.iter().position(special).unwrap_or(rest.len());
        match std::str::from_utf8(rest.get(..length).unwrap_or_default()) {
            Ok(text) => {
                self.at += length;
                Ok(text)
            }
            Err(error) => {
                self.at += error.valid_up_to();
                Err(self.bad("UTF-8"))
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        self.at += 1;
        let escaped = self.peek();
        self.at += usize::from(escaped.is_some());
        Ok(match escaped {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.bad("one of \"\\/bfnrtu behind a backslash")),
        })
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let first = self.hex4()?;
        if (0xd800..0xe000).contains(&first) && mark::planted("json-half-pair-replaced") {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let scalar = if (0xd800..0xdc00).contains(&first) {
            if !(self.take(b'\\') && self.take(b'u')) {
                return Err(self.bad("the second half of a surrogate pair"));
            }
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.bad("the second half of a surrogate pair"));
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(scalar).ok_or_else(|| self.bad("the first half of a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or_default();
        let value = digits.iter().try_fold(0, |value, &digit| {
            char::from(digit).to_digit(16).map(|digit| value * 16 + digit)
        });
        match value {
            Some(value) if digits.len() == 4 => {
                self.at += 4;
                Ok(value)
            }
            _ => Err(self.bad("four hexadecimal digits")),
        }
    }

    fn number(&mut self) -> Result<Number> {
        let from = self.at;
        self.take(b'-');
        let zero = self.peek() == Some(b'0');
        let digits = self.digits()?;
        if zero && digits > 1 {
            return Err(self.bad("no zero in front of other digits"));
        }
        let mut whole = true;
        if self.take(b'.') {
            whole = false;
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            whole = false;
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        // Only ASCII was taken, so this is text.
        let text = std::str::from_utf8(self.text.get(from..self.at).unwrap_or_default())
            .unwrap_or_default();
        if !whole {
            return match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(Number::Float(value)),
                _ => Err(self.bad("a number within the double range")),
            };
        }
        if digits > DIGITS_MAX {
            let (size, limit) = (digits as u64, DIGITS_MAX as u64);
            return Err(Error::TooLarge { what: "whole number (digits)", size, limit });
        }
        match text.parse::<i64>() {
            Ok(value) => Ok(Number::Integer(value)),
            Err(_) if mark::planted("json-big-as-double") => {
                Ok(Number::Float(text.parse().unwrap_or_default()))
            }
            Err(_) => {
                let big = BigInteger::new(text).ok_or_else(|| self.bad("a whole number"))?;
                Ok(Number::Big(big))
            }
        }
    }

    /// Takes decimal digits, at least one, and returns how many.
    fn digits(&mut self) -> Result<usize> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == from { Err(self.bad("a digit")) } else { Ok(self.at - from) }
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.bad("a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn bad(&self, expected: &'static str) -> Error {
        let near = self.text.get(self.at..).unwrap_or_default();
        let near = String::from_utf8_lossy(near.get(..20).unwrap_or(near));
        Error::BadInput { what: "JSON", got: format!("{near} (at byte {})", self.at), expected }
    }
}

/// What became of a finished value.
enum Finished {
    /// It was the outermost one.
    Whole(Json),
    /// It closed a container, which is now a finished value itself.
    Container(Json),
    /// It was put into a container that goes on.
    Member,
}

/// Of members with one name only the last stays, where it stands.
// spec: DOC-2
fn keep_last(mut members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let doubled = |index: usize, members: &[(String, Json)]| {
        let (earlier, rest) = members.split_at(index);
        let (name, _) = &rest[0]; // `index` is that of a member
        let others = if mark::planted("json-first-member-stays") { earlier } else { &rest[1..] };
        others.iter().any(|(other, _)| other == name)
    };
    if members.len() < MEMBERS_HASHED_MIN {
        if (0..members.len()).any(|index| doubled(index, &members)) {
            let dropped: Vec<bool> =
                (0..members.len()).map(|index| doubled(index, &members)).collect();
            let mut dropped = dropped.iter();
            members.retain(|_| dropped.next() == Some(&false));
        }
        return members;
    }
    let mut seen = HashSet::with_capacity(members.len());
    let kept: Vec<bool> =
        members.iter().rev().map(|(name, _)| seen.insert(name.as_str())).collect();
    if kept.contains(&false) {
        let mut kept = kept.iter().rev();
        members.retain(|_| kept.next() == Some(&true));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Json::parse(text.as_bytes()).map_or_else(|error| error.to_string(), |json| json.to_string())
    }

    // spec: DOC-2
    #[test]
    fn of_doubled_members_the_last_stays_at_its_own_place() {
        assert_eq!(shown(r#"{"a":1,"b":2,"a":3}"#), r#"{"b":2,"a":3}"#);
        assert_eq!(shown(r#"{"a":{"x":1,"\u0078":2}}"#), r#"{"a":{"x":2}}"#);
        let many: Vec<String> = (0..100).map(|n| format!("\"m{}\":{n}", n % 60)).collect();
        let read = shown(&format!("{{{}}}", many.join(",")));
        let kept: Vec<String> = (40..100).map(|n| format!("\"m{}\":{n}", n % 60)).collect();
        assert_eq!(read, format!("{{{}}}", kept.join(",")));
    }

    // spec: DOC-3
    #[test]
    fn whole_numbers_keep_every_digit_and_others_are_doubles() {
        for same in ["0", "-1", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(shown(same), same);
        }
        let googol = format!("1{}", "0".repeat(100));
        assert_eq!(shown(&googol), googol);
        assert_eq!(shown(&format!("-{googol}")), format!("-{googol}"));
        assert_eq!(shown("-0"), "0");
        assert_eq!(shown("[1e2,1E+2,1.50]"), "[100.0,100.0,1.5]");
        assert_eq!(shown("1e-400"), "0.0");
    }

    // spec: DOC-4
    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "\"",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[,1]",
            "{a:1}",
            "{'a':1}",
            "01",
            "-",
            ".5",
            "1.",
            "+1",
            "NaN",
            "Infinity",
            "1e",
            "1e+",
            "1e400",
            "-1e400",
            "tru",
            "truely",
            "1 x",
            "{}{}",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\udc00\\ud800\"",
            "\"\\ud83d\\u0041\"",
            "\"\\ud83dx\"",
            "/*c*/1",
            "\u{feff}{}",
            "{\"a\":1}\u{a0}",
            "1]",
            "{]",
            "[}",
        ] {
            let error = Json::parse(text.as_bytes()).expect_err(text);
            assert_eq!(error.class(), crate::ErrorClass::BadInput, "{text}");
        }
        let overlong: [&[u8]; 4] =
            [b"\"\xff\"", b"\"\xed\xa0\x80\"", b"\"\xc0\x80\"", b"\"\xf4\x90\x80\x80\""];
        for bytes in overlong {
            assert!(Json::parse(bytes).is_err(), "{bytes:?}");
        }
    }

    // spec: DOC-1
    #[test]
    fn nesting_beyond_the_limit_is_refused_at_any_depth_without_a_stack_overflow() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let deep = Json::parse(nested(DEPTH_MAX).as_bytes()).unwrap();
        assert_eq!(deep.to_string(), nested(DEPTH_MAX));
        assert_eq!(deep, deep.clone());
        for depth in [DEPTH_MAX + 1, 1_000_000] {
            let error = Json::parse(nested(depth).as_bytes()).unwrap_err();
            assert_eq!(error.class(), crate::ErrorClass::Limit);
            assert!(Json::parse("{\"a\":".repeat(depth).as_bytes()).is_err());
        }
        let digits = "9".repeat(DIGITS_MAX + 1);
        assert_eq!(Json::parse(digits.as_bytes()).unwrap_err().class(), crate::ErrorClass::Limit);
    }
}
