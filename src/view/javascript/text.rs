//! Arguments and results as the driver takes and gives them: JSON texts.
//!
//! ```text
//!   document             -> map ->       [ [[key, value], ...], ... ]
//!   [ [[key, id], ...], [value, ...] ]   -> reduce ->   [value]
//!   [value, ...]                         -> rereduce -> [value]
//! ```
//!
//! Invariant: what comes out of JavaScript is JSON or an error, never half of it.

use crate::doc::write_stored;
use crate::error::Result;
use crate::mark;
use crate::view::functions::{Emitted, ReducedRow};
use crate::view::wire::{in_text, put_list, read, rows_of};
use crate::vocabulary::Json;

/// The text of a value.
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
            if mark::planted("js-reduce-keys-are-null") {
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

/// The rows in `[[[key, value], ...], ...]`, for so many functions. One that has no list has no
/// rows.
pub(super) fn rows_in(text: &str, function_count: usize) -> Result<Vec<Vec<Emitted>>> {
    rows_of(read(text)?, function_count)
}

/// The only value in `[value]`.
pub(super) fn only_value(text: &str) -> Result<Json> {
    match read(text)? {
        Json::Array(mut values) => Ok(values.pop().unwrap_or(Json::Null)),
        other => Ok(other),
    }
}
