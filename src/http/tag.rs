//! The tag of an answer that a function made, which changes with what the function saw.
//!
//! ```text
//!   {tag of the design document, tag of the document or nil, Accept or undefined, roles, []}
//!        ──as an Erlang term──> 128 bits of xxh3 ──in base 36──> "8L4UJRET1O1B5U7E2327OZNPA"
//! ```
//!
//! Invariant: equal inputs have equal tags, and those are CouchDB's.

use xxhash_rust::xxh3::xxh3_128;

use crate::vocabulary::Rev;

const VERSION: u8 = 131;
const TUPLE: u8 = 104;
const ATOM: u8 = 100;
const BINARY: u8 = 109;
const STRING: u8 = 107;
const LIST: u8 = 108;
const NIL: u8 = 106;

/// The tag of what a function of the design document `design` says about `document`.
// spec: HTTP-2
pub(super) fn of_answer(design: &Rev, document: Option<&Rev>, accept: Option<&str>) -> String {
    let mut term = vec![VERSION, TUPLE, 5];
    put_rev(design, &mut term);
    match document {
        Some(rev) => put_rev(rev, &mut term),
        None => put_atom("nil", &mut term),
    }
    match accept {
        Some(accept) => put_short(STRING, accept, &mut term),
        None => put_atom("undefined", &mut term),
    }
    term.extend_from_slice(&[LIST, 0, 0, 0, 1]);
    put_binary("_admin", &mut term);
    term.extend_from_slice(&[NIL, NIL]);
    format!("\"{}\"", base_36(xxh3_128(&term)))
}

fn put_rev(rev: &Rev, out: &mut Vec<u8>) {
    put_binary(&format!("\"{rev}\""), out);
}

fn put_atom(name: &str, out: &mut Vec<u8>) {
    put_short(ATOM, name, out);
}

/// Text behind two bytes of its length; no header is longer.
fn put_short(tag: u8, text: &str, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_binary(text: &str, out: &mut Vec<u8>) {
    out.push(BINARY);
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn base_36(mut number: u128) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        // A remainder below 36 is a digit.
        let digit = char::from_digit((number % 36) as u32, 36).unwrap_or('0');
        digits.push(digit.to_ascii_uppercase());
        number /= 36;
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HTTP-2
    #[test]
    fn tags_are_couchdbs() {
        let design: Rev = "1-b7174ccdaef64306f4627f4a9ef77d10".parse().unwrap();
        assert_eq!(of_answer(&design, None, None), "\"8L4UJRET1O1B5U7E2327OZNPA\"");
        let other = of_answer(&design, Some(&design), None);
        assert_ne!(other, of_answer(&design, Some(&design), Some("text/html")));
        assert_eq!((base_36(0), base_36(36 * 36 - 1)), ("0".to_owned(), "ZZ".to_owned()));
    }
}
