//! JSON texts on their way to functions in other languages, and what those answer.
//!
//! ```text
//!   rows of all map functions    [ [[key, value], ...], ... ]
//!   arguments of a reduce        [ [[key, id], ...], [value, ...] ]
//! ```
//!
//! JavaScript knows doubles only, and writes one without a fraction and below 10^21 with all its
//! digits: such a number is whole, any other one is a float. Strings may hold half a surrogate
//! pair, which JSON text shows as an escape and a document may not hold.
//!
//! Invariant: what comes in is JSON or an error, never half of it.

use std::borrow::Cow;

use crate::doc::write_stored;
use crate::error::{Error, Result};
use crate::mark;
use crate::view::functions::Emitted;
use crate::vocabulary::Json;

/// The name under which values fail that rows cannot hold.
const BAD_VALUE: &str = "map_runtime_error";

/// `[value, ...]`.
pub(super) fn list_of<'a>(values: impl Iterator<Item = &'a Json>) -> String {
    in_text(|text| put_list(values, text))
}

/// Appends `[value, ...]`.
pub(super) fn put_list<'a>(values: impl Iterator<Item = &'a Json>, text: &mut Vec<u8>) {
    text.push(b'[');
    for (index, value) in values.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write_stored(value, text);
    }
    text.push(b']');
}

/// The text that `write` appends, which is JSON.
pub(super) fn in_text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    write(&mut text);
    // Only JSON was written, which is UTF-8.
    String::from_utf8(text).unwrap_or_default()
}

/// What a function's language wrote, as JSON.
// spec: JS-5, JS-6
pub(super) fn read(text: &str) -> Result<Json> {
    if mark::planted("js-exponent-lost") && text.contains("e+") {
        return read(&text.replace("e+", ""));
    }
    Json::parse(without_halves(text).as_bytes()).map_err(|error| Error::Function {
        name: BAD_VALUE.to_owned(),
        reason: format!("function gave a value that cannot be stored: {error}"),
    })
}

/// The rows in `[[[key, value], ...], ...]`, for so many functions. One that has no list has no
/// rows.
pub(super) fn rows_of(answer: Json, function_count: usize) -> Result<Vec<Vec<Emitted>>> {
    let odd = || Error::Function {
        name: BAD_VALUE.to_owned(),
        reason: "function gave something else than rows".to_owned(),
    };
    let Json::Array(lists) = answer else { return Err(odd()) };
    let mut all = Vec::with_capacity(function_count);
    for list in lists.into_iter().take(function_count) {
        let Json::Array(list) = list else { return Err(odd()) };
        let mut rows = Vec::with_capacity(list.len());
        for row in list {
            let Json::Array(row) = row else { return Err(odd()) };
            let [key, value] = <[Json; 2]>::try_from(row).map_err(|_| odd())?;
            rows.push((key, value));
        }
        all.push(rows);
    }
    all.resize(function_count, Vec::new());
    Ok(all)
}

/// `text` with U+FFFD for each half of a surrogate pair that has no other half.
fn without_halves(text: &str) -> Cow<'_, str> {
    if !(text.contains("\\ud") || text.contains("\\uD")) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find('\\') {
        let (before, escape) = rest.split_at(index);
        out.push_str(before);
        // An escape is ASCII: two bytes, or six of a surrogate.
        let (length, is_half) = match surrogate(escape) {
            Some(0xd800..0xdc00) => {
                let second = escape.get(6..).and_then(surrogate);
                let is_pair = second.is_some_and(|second| second >= 0xdc00);
                (if is_pair { 12 } else { 6 }, !is_pair)
            }
            Some(_) => (6, true),
            None => (2, false),
        };
        let (escape, behind) = escape.split_at_checked(length).unwrap_or((escape, ""));
        let is_half = is_half && !mark::planted("js-half-pairs-pass");
        out.push_str(if is_half { "\u{fffd}" } else { escape });
        rest = behind;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The half of a surrogate pair that `text` begins with an escape of.
fn surrogate(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let unit = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    (0xd800..0xe000).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: JS-6
    #[test]
    fn halves_of_surrogate_pairs_are_replaced_and_nothing_else() {
        let cases = [
            (r#""\ud800""#, "\"\u{fffd}\""),
            (r#""a\udfffx\ud83d""#, "\"a\u{fffd}x\u{fffd}\""),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\\\ud800\"""#, "\"\\\\\u{fffd}\\\"\""),
            (r#""\u0000\ud7ff""#, r#""\u0000\ud7ff""#),
            ("\"😀\"", "\"😀\""),
            (r#""\ud83d\ude00\uDE00""#, "\"\\ud83d\\ude00\u{fffd}\""),
            (r#""\ud83d\ud83d\ude00""#, "\"\u{fffd}\\ud83d\\ude00\""),
            (r#""\ud8"#, r#""\ud8"#),
        ];
        for (text, expected) in cases {
            assert_eq!(without_halves(text), expected);
        }
    }

    // spec: JS-5
    #[test]
    fn whole_numbers_below_ten_to_the_21_are_integers() {
        let numbers = "[1,-0,123456789012345680000,1e+21,1e-7,0.5]";
        let shown = "[1,0,123456789012345680000,1.0e21,1.0e-7,0.5]";
        assert_eq!(read(numbers).unwrap().to_string(), shown);
    }

    #[test]
    fn rows_of_any_other_shape_are_refused() {
        let rows_in = |text, count| rows_of(read(text)?, count);
        for text in ["5", "[5]", "[[5]]", "[[[1]]]", "[[[1,2,3]]]", "", "{"] {
            assert!(matches!(rows_in(text, 1), Err(Error::Function { .. })), "{text}");
        }
        assert_eq!(rows_in("[]", 2).unwrap(), [[], []]);
    }
}
