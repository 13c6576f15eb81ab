//! Values in the words of CouchDB's reasons, which print Erlang terms.
//!
//! ```text
//!   in a URL   x -> "x"   (nothing) -> []     é -> "é"     byte 7 -> [7]
//!   in a body  "x" -> <<"x">>   [65,66] -> "AB"   {"a":1} -> {[{<<"a">>,1}]}
//! ```
//!
//! Invariant: any value has a text; a term that Erlang would break over lines stands in one.

use crate::vocabulary::{Json, Number};

/// The text of a parameter of a URL, which Erlang sees as a list of bytes.
pub(super) fn of_text(text: &[u8]) -> String {
    let mut out = Vec::new();
    put_list_of_bytes(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// The text of a member of a JSON body.
pub(super) fn of_json(json: &Json) -> String {
    let mut out = Vec::new();
    put(json, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, 8..=13 | 27 | 32..=126 | 160..)
}

fn put_quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        let escaped = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            27 => b'e',
            plain => {
                out.push(*plain);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escaped]);
    }
    out.push(b'"');
}

fn put_numbers(bytes: &[u8], out: &mut Vec<u8>) {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    out.extend_from_slice(numbers.join(",").as_bytes());
}

fn put_list_of_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() && bytes.iter().all(|byte| is_printable(*byte)) {
        return put_quoted(bytes, out);
    }
    out.push(b'[');
    put_numbers(bytes, out);
    out.push(b']');
}

fn put_binary(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<<");
    match bytes.iter().all(|byte| is_printable(*byte)) {
        true => put_quoted(bytes, out),
        false => put_numbers(bytes, out),
    }
    out.extend_from_slice(b">>");
}

fn put(json: &Json, out: &mut Vec<u8>) {
    match json {
        Json::String(text) => put_binary(text.as_bytes(), out),
        Json::Array(items) => {
            let byte = |item: &Json| match item {
                Json::Number(Number::Integer(number)) => {
                    u8::try_from(*number).ok().filter(|byte| is_printable(*byte))
                }
                _ => None,
            };
            if let Some(bytes) = items.iter().map(byte).collect::<Option<Vec<u8>>>() {
                return put_list_of_bytes(&bytes, out);
            }
            out.push(b'[');
            put_joined(items, out, put);
            out.push(b']');
        }
        Json::Object(members) => {
            out.extend_from_slice(b"{[");
            put_joined(members, out, |(name, value), out| {
                out.push(b'{');
                put_binary(name.as_bytes(), out);
                out.push(b',');
                put(value, out);
                out.push(b'}');
            });
            out.extend_from_slice(b"]}");
        }
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}

fn put_joined<T>(items: &[T], out: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put(item, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_terms() {
        let texts: [(&[u8], &str); 5] = [
            (b"", "[]"),
            (b"a\"b", r#""a\"b""#),
            (b" 1", "\" 1\""),
            (b"\x07", "[7]"),
            ("é".as_bytes(), "\"é\""),
        ];
        for (text, expected) in texts {
            assert_eq!(of_text(text), expected);
        }
        for (json, expected) in [
            (r#""x""#, r#"<<"x">>"#),
            (r#""""#, r#"<<"">>"#),
            (r#""ก""#, "<<224,184,129>>"),
            ("-1", "-1"),
            ("1.5", "1.5"),
            ("[]", "[]"),
            ("[65,66]", "\"AB\""),
            ("[1,null]", "[1,null]"),
            (r#"{"a":[true]}"#, r#"{[{<<"a">>,[true]}]}"#),
        ] {
            assert_eq!(of_json(&json.parse().unwrap()), expected);
        }
    }
}
