//! Numbers in sort keys: any whole number and any double, by exact value.
//!
//! ```text
//!   +6.5 = 1.101b * 2^2                              0 = 80 00, whatever its sign
//!
//!   | 8001 + 1074 + 2 | 1010000 0 |                  below zero: the same bytes, all bits turned
//!     sign, exponent    7 bits   └ 1 if more follow
//!     (2 bytes)         of the fraction
//!
//!   | ff ff | exponent (8 bytes) | ...               from 2^31692 on, where two bytes end
//! ```
//!
//! The fraction is what stands behind the leading 1, without the zeros at its end; so one value
//! has one form, and of two fractions the one that goes on is the greater.
//!
//! Invariant: the bytes of two numbers are equal exactly if their values are, otherwise in the
//! same order, and none begin with those of another.

use num_bigint::BigUint;

use crate::mark;
use crate::vocabulary::Number;

/// The exponent of the smallest double is -1074.
const EXPONENT_BIAS: i64 = 1074;

const ZERO: u16 = 0x8000;

/// What says that the exponent follows in eight bytes.
const FAR: u16 = 0xffff;

/// Appends `number`, which is finite. (What is not finite has some place beyond all doubles.)
// spec: COLLATE-2
pub(super) fn write(number: &Number, out: &mut Vec<u8>) {
    match number {
        Number::Integer(whole) => {
            scaled(*whole < 0, &whole.unsigned_abs().to_be_bytes(), 0, out);
        }
        Number::Float(float) => {
            let bits = float.to_bits();
            let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
            let (digits, scale) = match exponent {
                0 => (fraction, -EXPONENT_BIAS),
                _ => (fraction | 1 << 52, exponent - 1 - EXPONENT_BIAS),
            };
            if mark::planted("collate-zero-has-a-sign") && digits == 0 && float.is_sign_negative() {
                return out.extend_from_slice(&[0x7f, 0xff]);
            }
            scaled(float.is_sign_negative(), &digits.to_be_bytes(), scale, out);
        }
        Number::Big(whole) => {
            let digits = whole.digits().trim_start_matches('-');
            // A `BigInteger` is nothing but decimal digits.
            let digits: BigUint = digits.parse().expect("digits are a number");
            let mut digits = digits.to_bytes_be();
            if mark::planted("collate-big-as-double") {
                digits.iter_mut().skip(6).for_each(|byte| *byte = 0);
            }
            scaled(whole.is_negative(), &digits, 0, out);
        }
    }
}

/// Appends `digits`, a whole number with its most significant byte first, times `2^scale`.
fn scaled(negative: bool, digits: &[u8], scale: i64, out: &mut Vec<u8>) {
    let byte = |index: usize| digits.get(index).copied().unwrap_or(0);
    let is_set = |byte: &u8| *byte != 0;
    let (Some(first), Some(last)) =
        (digits.iter().position(is_set), digits.iter().rposition(is_set))
    else {
        return out.extend_from_slice(&ZERO.to_be_bytes());
    };
    // Bits are counted from the most significant one of the first byte.
    let leading = 8 * first + byte(first).leading_zeros() as usize;
    let end = 8 * (last + 1) - byte(last).trailing_zeros() as usize;
    let exponent = (8 * digits.len() - leading - 1) as i64 + scale;
    let start = out.len();
    // The exponent is not below that of the smallest double, so the sum is positive.
    match u16::try_from(i64::from(ZERO) + 1 + EXPONENT_BIAS + exponent) {
        Ok(near) if near < FAR => out.extend_from_slice(&near.to_be_bytes()),
        _ => {
            out.extend_from_slice(&FAR.to_be_bytes());
            out.extend_from_slice(&exponent.to_be_bytes());
        }
    }
    let mut at = leading + 1;
    loop {
        let pair = u16::from_be_bytes([byte(at / 8), byte(at / 8 + 1)]);
        let seven = (pair << (at % 8) >> 8) as u8 & 0xfe;
        at += 7;
        out.push(seven | u8::from(at < end));
        if at >= end {
            break;
        }
    }
    if negative {
        let planted = mark::planted("collate-fraction-not-turned");
        let turned = if planted { 2 } else { usize::MAX };
        out.iter_mut().skip(start).take(turned).for_each(|byte| *byte = !*byte);
    }
}

/// Where a number that begins at `at` ends, if one does.
pub(super) fn end(bytes: &[u8], at: usize) -> Option<usize> {
    let header = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
    let mut end = at + 2;
    let (header, turned) = if header < ZERO { (!header, 0xff) } else { (header, 0) };
    match header {
        ZERO => return Some(end),
        FAR => end += 8,
        _ => {}
    }
    let groups = bytes.get(end..)?;
    Some(end + groups.iter().position(|byte| (byte ^ turned) & 1 == 0)? + 1)
}
