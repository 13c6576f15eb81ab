//! JSON texts on their way into and out of JavaScript.
//!
//! JavaScript knows doubles only, and writes one without a fraction and below 10^21 with all its
//! digits: such a number is whole, any other one is a float. A string in JavaScript may hold half a
//! surrogate pair, which JSON text shows as an escape and a document may not hold.
//!
//! Invariant: what comes out of JavaScript is JSON or an error, never half of it.

use std::borrow::Cow;

use crate::doc::write_stored;
use crate::error::{Error, Result};
use crate::mark;
use crate::view::functions::{Emitted, ReducedRow};
use crate::vocabulary::Json;

/// The name under which values fail that rows cannot hold.
const BAD_VALUE: &str = "map_runtime_error";

/// The text of a value, for JavaScript to parse.
pub(super) fn written(json: &Json) -> String {
    in_text(|text| write_stored(json, text))
}

/// `[[[key, id], ...], [value, ...]]`, the arguments of a reduce function.
// spec: JS-10
pub(super) fn arguments_of(rows: &[ReducedRow]) -> String {
    in_text(|text| {
        text.extend_from_slice(b"[[");
        for (index, (key, id, _)) in rows.iter().enumerate() {
            text.extend_from_slice(if index > 0 { b",[" } else { b"[" });
            if mark::planted("js-reduce-keys-without-ids") {
                write_stored(&Json::Null, text);
            } else {
                write_stored(key, text);
            }
            text.push(b',');
            write_stored(&Json::from(id.as_str()), text);
            text.push(b']');
        }
        text.extend_from_slice(b"],");
        put_list(rows.iter().map(|(_, _, value)| value), text);
        text.push(b']');
    })
}

/// `[value, ...]`.
pub(super) fn list_of<'a>(values: impl Iterator<Item = &'a Json>) -> String {
    in_text(|text| put_list(values, text))
}

fn put_list<'a>(values: impl Iterator<Item = &'a Json>, text: &mut Vec<u8>) {
    text.push(b'[');
    for (index, value) in values.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write_stored(value, text);
    }
    text.push(b']');
}

fn in_text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    write(&mut text);
    // Only JSON was written, which is UTF-8.
    String::from_utf8(text).unwrap_or_default()
}

/// What JavaScript wrote, as JSON.
// spec: JS-5, JS-6
pub(super) fn read(text: &str) -> Result<Json> {
    Json::parse(without_halves(text).as_bytes()).map_err(|error| Error::Function {
        name: BAD_VALUE.to_owned(),
        reason: format!("function gave a value that cannot be stored: {error}"),
    })
}

/// The rows in `[[[key, value], ...], ...]`, for so many functions. One that has no list has no
/// rows.
pub(super) fn rows_in(text: &str, function_count: usize) -> Result<Vec<Vec<Emitted>>> {
    let odd = || Error::Function {
        name: BAD_VALUE.to_owned(),
        reason: "function gave something else than rows".to_owned(),
    };
    let Json::Array(lists) = read(text)? else { return Err(odd()) };
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

/// The only value in `[value]`.
pub(super) fn only_value(text: &str) -> Result<Json> {
    match read(text)? {
        Json::Array(mut values) => Ok(values.pop().unwrap_or(Json::Null)),
        other => Ok(other),
    }
}

/// `text` with U+FFFD for each half of a surrogate pair. JavaScript escapes no whole pair.
fn without_halves(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find('\\') {
        let (before, escape) = rest.split_at(index);
        out.push_str(before);
        let digits = escape.strip_prefix("\\ud").and_then(|behind| behind.as_bytes().first());
        let is_half = digits.is_some_and(|digit| matches!(digit, b'8' | b'9' | b'a'..=b'f'));
        // An escape is ASCII: six bytes of a half, at least two of any other one.
        let length = if is_half { 6 } else { 2 };
        let (escape, behind) = escape.split_at_checked(length).unwrap_or((escape, ""));
        out.push_str(if is_half { "\u{fffd}" } else { escape });
        rest = behind;
    }
    out.push_str(rest);
    Cow::Owned(out)
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
        for text in ["5", "[5]", "[[5]]", "[[[1]]]", "[[[1,2,3]]]", "", "{"] {
            assert!(matches!(rows_in(text, 1), Err(Error::Function { .. })), "{text}");
        }
        assert_eq!(rows_in("[]", 2).unwrap(), [[], []]);
    }
}
