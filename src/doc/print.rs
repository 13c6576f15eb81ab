//! [`Json`] to text, the way CouchDB writes it.
//!
//! Compact, members in their order, strings with the fewest escapes. A double is written with the
//! fewest digits that read back as the same double, in whichever of two forms is shorter:
//!
//! ```text
//!   digits × 10^exponent      123e-2  1.23        1e2   100.0      1e3    1.0e3
//!                             123e-7  1.23e-5     1e-3  0.001      1e-4   1.0e-4
//! ```
//!
//! From 2^53 on, where doubles stop telling neighbouring whole numbers apart, it is always the form
//! with an exponent. (The rule is that of Erlang's shortest float text.)
//!
//! Invariant: [`write_stored`] and [`Json::parse`] are inverse; what is shown differs from what is
//! stored only in the sign of zero.

use std::fmt;

use crate::mark;
use crate::vocabulary::{Json, Number};

/// For each byte, whether it is escaped in a string.
const IS_ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        escaped[control] = true;
        control += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped
};

/// From here on a double is always written with an exponent.
const EXPONENT_MIN: f64 = 9_007_199_254_740_992.0;

/// Appends `json` as CouchDB shows it: `-0.0` loses its sign.
///
/// ```
/// use rereduce::doc::write_shown;
/// use rereduce::vocabulary::Json;
/// let mut out = Vec::new();
/// write_shown(&Json::from(-0.0), &mut out);
/// assert_eq!(out, b"0.0");
/// ```
// spec: DOC-5
pub fn write_shown(json: &Json, out: &mut Vec<u8>) {
    Printer { keeps_sign_of_zero: false }.value(json, out);
}

/// Appends `json` so that [`Json::parse`] gives back exactly the same value.
///
/// ```
/// use rereduce::doc::write_stored;
/// use rereduce::vocabulary::Json;
/// let mut out = Vec::new();
/// write_stored(&Json::from(-0.0), &mut out);
/// assert_eq!(out, b"-0.0");
/// assert_eq!(Json::parse(&out).unwrap(), Json::from(-0.0));
/// ```
// spec: DOC-6
pub fn write_stored(json: &Json, out: &mut Vec<u8>) {
    let keeps_sign_of_zero = !mark::planted("json-stored-zero-unsigned");
    Printer { keeps_sign_of_zero }.value(json, out);
}

/// Like [`write_stored`], for the members of an object.
pub fn write_stored_object(members: &[(String, Json)], out: &mut Vec<u8>) {
    let keeps_sign_of_zero = !mark::planted("json-stored-zero-unsigned");
    Printer { keeps_sign_of_zero }.object(members, out);
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        write_shown(self, &mut bytes);
        out.write_str(&String::from_utf8_lossy(&bytes))
    }
}

struct Printer {
    keeps_sign_of_zero: bool,
}

impl Printer {
    fn value(&self, json: &Json, out: &mut Vec<u8>) {
        match json {
            Json::Null => out.extend_from_slice(b"null"),
            Json::Bool(true) => out.extend_from_slice(b"true"),
            Json::Bool(false) => out.extend_from_slice(b"false"),
            Json::Number(Number::Integer(value)) => put_integer(*value, out),
            Json::Number(Number::Big(value)) => out.extend_from_slice(value.digits().as_bytes()),
            Json::Number(Number::Float(value)) => self.float(*value, out),
            Json::String(text) => write_string(text, out),
            Json::Array(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.value(item, out);
                }
                out.push(b']');
            }
            Json::Object(members) => self.object(members, out),
        }
    }

    fn object(&self, members: &[(String, Json)], out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (name, value)) in members.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            self.value(value, out);
        }
        out.push(b'}');
    }

    fn float(&self, value: f64, out: &mut Vec<u8>) {
        if value == 0.0 {
            let negative = self.keeps_sign_of_zero && value.is_sign_negative();
            out.extend_from_slice(if negative { b"-0.0" } else { b"0.0" });
            return;
        }
        if value.is_sign_negative() {
            out.push(b'-');
        }
        let mut buffer = [0; DIGITS_MAX];
        let (digits, exponent) = shortest(value.abs(), &mut buffer);
        let scientific = digits.len() as i64 + exponent - 1;
        // What an exponent adds: its sign and digits, the `e`, and the point.
        let exponent_cost = digit_count(scientific) + 2;
        if exponent < 0 && scientific >= 0 {
            let (whole, fraction) = digits.split_at(scientific as usize + 1);
            put_all(out, &[whole, b".", fraction]);
        } else if exponent < 0 && 1 - scientific <= exponent_cost {
            out.extend_from_slice(b"0.");
            put_zeros(-scientific - 1, out);
            out.extend_from_slice(digits);
        } else if exponent >= 0 && mark::planted("json-double-without-exponent")
            || exponent >= 0
                && exponent + 2 <= exponent_cost + i64::from(digits.len() == 1)
                && value.abs() < EXPONENT_MIN
        {
            out.extend_from_slice(digits);
            put_zeros(exponent, out);
            out.extend_from_slice(b".0");
        } else {
            let (first, rest) = digits.split_at(1.min(digits.len()));
            put_all(out, &[first, b".", if rest.is_empty() { b"0" } else { rest }, b"e"]);
            put_integer(scientific, out);
        }
    }
}

/// Bytes of the longest text that ryu writes for a double.
const DIGITS_MAX: usize = 24;

/// The shortest digits (without zeros at either end) and the exponent of ten with which they give
/// `value`, which is positive and finite.
fn shortest(value: f64, digits: &mut [u8; DIGITS_MAX]) -> (&[u8], i64) {
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value);
    let (mantissa, written) = text.split_once('e').unwrap_or((text, "0"));
    let mut exponent: i64 = written.parse().unwrap_or_default();
    let (mut length, mut behind_point) = (0, false);
    for byte in mantissa.bytes() {
        if byte == b'.' {
            behind_point = true;
            continue;
        }
        exponent -= i64::from(behind_point);
        // A zero in front is no digit. `length` stays below the bytes of ryu's text, which are at
        // most `DIGITS_MAX`.
        if byte != b'0' || length > 0 {
            digits[length] = byte;
            length += 1;
        }
    }
    while length > 1 && digits[length - 1] == b'0' {
        length -= 1;
        exponent += 1;
    }
    (&digits[..length], exponent)
}

/// Characters of `value` in decimal, its sign included; it is an exponent of a double.
fn digit_count(value: i64) -> i64 {
    let digits = match value.abs() {
        0..10 => 1,
        10..100 => 2,
        _ => 3,
    };
    digits + i64::from(value < 0)
}

fn put_zeros(count: i64, out: &mut Vec<u8>) {
    out.extend((0..count).map(|_| b'0'));
}

fn put_all(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

fn put_integer(value: i64, out: &mut Vec<u8>) {
    // An `i64` has at most 19 digits.
    let mut digits = [0; 19];
    let (mut at, mut rest) = (digits.len(), value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(index) = rest.iter().position(|&byte| IS_ESCAPED[usize::from(byte)]) {
        // `index` is a position in `rest`.
        let (byte, behind) = (rest[index], &rest[index + 1..]);
        out.extend_from_slice(&rest[..index]);
        rest = behind;
        let short = match byte {
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0c => b'f',
            0x0d => b'r',
            0x00..=0x1f => b'u',
            _ => byte,
        };
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            out.extend_from_slice(format!("{byte:04X}").as_bytes());
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: DOC-5
    #[test]
    fn doubles_are_written_in_the_shorter_form() {
        let cases: [(f64, &str); 30] = [
            (0.0, "0.0"),
            (-0.0, "0.0"),
            (1.0, "1.0"),
            (10.0, "10.0"),
            (100.0, "100.0"),
            (1000.0, "1.0e3"),
            (120.0, "120.0"),
            (1200.0, "1.2e3"),
            (12000.0, "1.2e4"),
            (-604276.0, "-604276.0"),
            (1010218.0, "1010218.0"),
            (1e10, "1.0e10"),
            (1e15, "1.0e15"),
            (12345678901234560.0, "1.234567890123456e16"),
            (9007199254740991.0, "9007199254740991.0"),
            (9007199254740992.0, "9.007199254740992e15"),
            (0.1, "0.1"),
            (0.01, "0.01"),
            (0.001, "0.001"),
            (0.0001, "1.0e-4"),
            (0.00123, "0.00123"),
            (0.000123, "1.23e-4"),
            (1.23e-5, "1.23e-5"),
            (2.5e-10, "2.5e-10"),
            (44.75, "44.75"),
            (123456789.125, "123456789.125"),
            (1e22, "1.0e22"),
            (1e308, "1.0e308"),
            (5e-324, "5.0e-324"),
            (f64::MAX, "1.7976931348623157e308"),
        ];
        for (value, text) in cases {
            assert_eq!(Json::from(value).to_string(), text);
        }
    }

    // spec: DOC-5
    #[test]
    fn strings_are_written_with_the_fewest_escapes() {
        let text = Json::from("\n\t\"\\/\u{8}\u{c}\r\u{0}\u{1f}\u{7f}\u{2028}é😀");
        let shown = "\"\\n\\t\\\"\\\\/\\b\\f\\r\\u0000\\u001F\u{7f}\u{2028}é😀\"";
        assert_eq!(text.to_string(), shown);
    }

    // spec: DOC-6
    #[test]
    fn what_is_stored_reads_back_as_the_same_value() {
        let text = r#"{"a":[-0.0,0.0,0,1.0,1,1e300,1e-320,18446744073709551616],"b":"é\u0000"}"#;
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut stored = Vec::new();
        write_stored(&json, &mut stored);
        assert_eq!(Json::parse(&stored).unwrap(), json);

        fn a_double_round_trips(bits: u64) -> bool {
            let value = f64::from_bits(bits);
            let mut stored = Vec::new();
            write_stored(&Json::from(value), &mut stored);
            !value.is_finite() || Json::parse(&stored).unwrap() == Json::from(value)
        }
        quickcheck::QuickCheck::new()
            .tests(20_000)
            .quickcheck(a_double_round_trips as fn(u64) -> bool);
    }
}
