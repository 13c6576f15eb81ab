//! Sums of numbers without rounding.
//!
//! A sum is an integer mantissa times a power of two, and every double is one. While the mantissa
//! fits into 128 bits an addition is a shift and an add; beyond that it goes on with big integers.
//! Stored, the mantissa is odd and has as few bytes as it can (zero has none, and exponent 0), so
//! that equal sums have equal bytes:
//!
//! ```text
//!   varint     float addends
//!   varint     exponent of two, zigzag
//!   varint n   bytes of the mantissa
//!   n bytes    the mantissa, two's complement, the least byte first
//! ```
//!
//! Invariant: adding is commutative and associative, to the byte; rounding happens in
//! [`Exact::to_number`] alone, once.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use crate::codec::{Reader, put_bytes, put_varint};
use crate::mark;
use crate::vocabulary::{BigInteger, Number};

/// No stored sum has a higher exponent: a number has at most 100,000 digits, and its square twice
/// as many.
const EXPONENT_MAX: i64 = 700_000;

/// Nor a lower one: it is that of the square of the smallest double.
const EXPONENT_MIN: i64 = 2 * DOUBLE_EXPONENT_MIN;

/// Bits of a double's mantissa.
const DOUBLE_BITS: i64 = 53;

/// A double's mantissa can be shifted by less than this within 128 bits.
const SHIFT_MAX: i64 = 127 - DOUBLE_BITS;

/// The exponent of the smallest double above zero.
const DOUBLE_EXPONENT_MIN: i64 = -1074;

/// The exponent of the highest bit of the largest double.
const DOUBLE_EXPONENT_MAX: i64 = 1023;

/// An exact sum, and how many of its addends were floats.
///
/// ```
/// use rereduce::view::builtin::Exact;
/// use rereduce::vocabulary::Number;
/// let mut sum = Exact::default();
/// for addend in [1e16, 0.1, -1e16, 0.2] {
///     sum.add_number(&Number::Float(addend));
/// }
/// assert_eq!(sum.to_number(), Some(Number::Float(0.30000000000000004)));
/// ```
#[derive(Clone, Debug)]
pub struct Exact {
    mantissa: Mantissa,
    exponent: i64,
    float_count: u64,
}

#[derive(Clone, Debug)]
enum Mantissa {
    Small(i128),
    Big(Box<BigInt>),
}

impl Default for Exact {
    /// The sum of nothing, an integer.
    fn default() -> Exact {
        Exact { mantissa: Mantissa::Small(0), exponent: 0, float_count: 0 }
    }
}

impl From<&Number> for Exact {
    fn from(number: &Number) -> Exact {
        let mut sum = Exact::default();
        sum.add_number(number);
        sum
    }
}

impl Exact {
    /// Adds a number; floats are counted.
    #[inline]
    pub fn add_number(&mut self, number: &Number) {
        match number {
            Number::Integer(value) => self.add_small(i128::from(*value), 0),
            Number::Float(value) => self.add_float(*value),
            Number::Big(value) => self.add_big(&big(value), 0),
        }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Exact) {
        self.float_count += other.float_count;
        match &other.mantissa {
            Mantissa::Small(mantissa) => self.add_small(*mantissa, other.exponent),
            Mantissa::Big(mantissa) => self.add_big(mantissa, other.exponent),
        }
    }

    /// Adds the square of a number: an integer's exactly, a float's as the double nearest to it, or
    /// exactly where that is beyond the range of doubles.
    // spec: REDUCE-4
    pub fn add_square(&mut self, number: &Number) {
        match number {
            Number::Integer(value) => self.add_small(i128::from(*value) * i128::from(*value), 0),
            Number::Big(value) => {
                let value = big(value);
                self.add_big(&(&value * &value), 0);
            }
            Number::Float(value)
                if (value * value).is_finite() && !mark::planted("stats-square-unrounded") =>
            {
                self.add_float(value * value);
            }
            Number::Float(value) => {
                let (mantissa, exponent) = parts(*value);
                self.float_count += 1;
                // 53 bits times 53 bits are 106.
                self.add_small(mantissa * mantissa, 2 * exponent);
            }
        }
    }

    #[inline]
    fn add_float(&mut self, value: f64) {
        self.float_count += 1;
        if mark::planted("exact-sum-rounds") {
            let plain = self.to_double().unwrap_or(f64::MAX) + value;
            let (mantissa, exponent) = parts(if plain.is_finite() { plain } else { f64::MAX });
            (self.mantissa, self.exponent) = (Mantissa::Small(mantissa), exponent);
            return;
        }
        let (mantissa, exponent) = parts(value);
        // A shift that surely fits, for a mantissa of 53 bits.
        if let Mantissa::Small(sum) = &mut self.mantissa
            && let by @ 0..SHIFT_MAX = exponent - self.exponent
            && let Some(added) = sum.checked_add(mantissa << by)
        {
            *sum = added;
            return;
        }
        self.add_small(mantissa, exponent);
    }

    fn add_small(&mut self, mantissa: i128, exponent: i64) {
        if mantissa == 0 {
            return;
        }
        if let Mantissa::Small(sum) = &mut self.mantissa {
            if *sum == 0 {
                (*sum, self.exponent) = (mantissa, exponent);
                return;
            }
            let lower = exponent.min(self.exponent);
            if let Some(one) = shifted(*sum, self.exponent - lower)
                && let Some(two) = shifted(mantissa, exponent - lower)
                && let Some(added) = one.checked_add(two)
            {
                (*sum, self.exponent) = (added, lower);
                return;
            }
        }
        mark::hit("exact-sum-grows");
        if mark::planted("exact-sum-wraps") {
            return;
        }
        self.add_big(&BigInt::from(mantissa), exponent);
    }

    #[cold]
    fn add_big(&mut self, mantissa: &BigInt, exponent: i64) {
        let lower = exponent.min(self.exponent);
        let one = self.mantissa.to_big() << (self.exponent - lower);
        let sum = one + (mantissa << (exponent - lower));
        self.mantissa = match i128::try_from(&sum) {
            Ok(small) => Mantissa::Small(small),
            Err(_) => Mantissa::Big(Box::new(sum)),
        };
        self.exponent = if sum_is_zero(&self.mantissa) { 0 } else { lower };
    }

    /// How the sum compares with another, by value alone.
    pub fn compare(&self, other: &Exact) -> Ordering {
        let mut difference = self.clone();
        let negated = match &other.mantissa {
            // The one number without a negative in 128 bits needs one bit more.
            Mantissa::Small(value) => BigInt::from(*value) * -1,
            Mantissa::Big(value) => -(**value).clone(),
        };
        difference.add_big(&negated, other.exponent);
        match difference.mantissa {
            Mantissa::Small(value) => value.cmp(&0),
            Mantissa::Big(value) => match value.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    /// The sum as a number: an integer if no float was added, and otherwise the double nearest to
    /// it, of two equally near ones the even one. `None` beyond the range of doubles.
    // spec: REDUCE-2, REDUCE-3
    pub fn to_number(&self) -> Option<Number> {
        let whole_float = self.exponent >= 0 && mark::planted("exact-sum-forgets-kind");
        if self.float_count > 0 && !whole_float {
            return self.to_double().map(Number::Float);
        }
        if let Mantissa::Small(mantissa) = self.mantissa
            && let Some(whole) = shifted(mantissa, self.exponent)
            && let Ok(value) = i64::try_from(whole)
        {
            return Some(Number::Integer(value));
        }
        // Integers add up to integers, so the exponent is not negative; in damaged bytes it can be.
        let whole = self.mantissa.to_big() << self.exponent.max(0);
        match i64::try_from(&whole) {
            Ok(value) => Some(Number::Integer(value)),
            Err(_) => BigInteger::new(&whole.to_string()).map(Number::Big),
        }
    }

    fn to_double(&self) -> Option<f64> {
        if let Mantissa::Small(0) = self.mantissa {
            return Some(0.0);
        }
        let value = self.mantissa.to_big();
        let (negative, magnitude) = (value.sign() == Sign::Minus, value.magnitude());
        let bits = magnitude.bits() as i64;
        let highest = self.exponent + bits - 1;
        if highest > DOUBLE_EXPONENT_MAX {
            return None;
        }
        // What one unit in the last place of the double is.
        let unit = (highest - DOUBLE_BITS + 1).max(DOUBLE_EXPONENT_MIN);
        let dropped = unit - self.exponent;
        // At most 53 bits are kept, or 54 of them after rounding up.
        let kept = if dropped <= 0 {
            u64::try_from(magnitude << -dropped).ok()?
        } else {
            let kept = u64::try_from(magnitude >> dropped).ok()?;
            let half = (dropped - 1) as u64;
            let ties = magnitude.trailing_zeros() == Some(half);
            let odd = kept & 1 == 1 || mark::planted("exact-sum-half-up");
            kept + u64::from(magnitude.bit(half) && (odd || !ties))
        };
        // Both factors are exact, and so is their product: it has at most 53 bits above `unit`.
        let value = kept as f64 * power_of_two(unit);
        value.is_finite().then_some(if negative { -value } else { value })
    }

    /// Appends the stored form.
    // spec: REDUCE-1
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.float_count);
        match &self.mantissa {
            Mantissa::Small(0) => out.extend([0, 0]),
            Mantissa::Small(mantissa) => {
                let zeros = match mark::planted("exact-sum-not-canonical") {
                    true => 0,
                    false => mantissa.trailing_zeros(),
                };
                put_varint(out, zigzag(self.exponent + i64::from(zeros)));
                let bytes = (mantissa >> zeros).to_le_bytes();
                put_bytes(out, minimal(&bytes));
            }
            Mantissa::Big(mantissa) => {
                let zeros = mantissa.trailing_zeros().unwrap_or(0);
                put_varint(out, zigzag(self.exponent + zeros as i64));
                put_bytes(out, &(&**mantissa >> zeros).to_signed_bytes_le());
            }
        }
    }

    /// Reads a stored form; `None` for bytes that are none.
    pub fn decode(reader: &mut Reader<'_>) -> Option<Exact> {
        let float_count = reader.varint()?;
        let exponent = unzigzag(reader.varint()?);
        let bytes = reader.bytes()?;
        if !(EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
            return None;
        }
        let mantissa = if bytes.len() <= size_of::<i128>() {
            let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
            let mut whole = [if negative { 0xff } else { 0 }; size_of::<i128>()];
            whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            Mantissa::Small(i128::from_le_bytes(whole))
        } else {
            Mantissa::Big(Box::new(BigInt::from_signed_bytes_le(bytes)))
        };
        Some(Exact { mantissa, exponent, float_count })
    }
}

impl Mantissa {
    fn to_big(&self) -> BigInt {
        match self {
            Mantissa::Small(value) => BigInt::from(*value),
            Mantissa::Big(value) => (**value).clone(),
        }
    }
}

fn sum_is_zero(mantissa: &Mantissa) -> bool {
    matches!(mantissa, Mantissa::Small(0))
}

fn big(value: &BigInteger) -> BigInt {
    // A `BigInteger` holds decimal digits only.
    BigInt::parse_bytes(value.digits().as_bytes(), 10).unwrap_or_default()
}

/// Mantissa and exponent of a finite double, the mantissa odd or zero.
#[inline]
fn parts(value: f64) -> (i128, i64) {
    let bits = value.to_bits();
    let exponent = (bits >> (DOUBLE_BITS - 1)) as i64 & 0x7ff;
    let fraction = bits & ((1 << (DOUBLE_BITS - 1)) - 1);
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << (DOUBLE_BITS - 1) };
    if mantissa == 0 {
        return (0, 0);
    }
    let zeros = mantissa.trailing_zeros();
    let odd = i128::from(mantissa >> zeros);
    let signed = if value.is_sign_negative() { -odd } else { odd };
    (signed, exponent.max(1) + DOUBLE_EXPONENT_MIN - 1 + i64::from(zeros))
}

/// `mantissa` times two to the `by`, if that fits; `by` is not negative.
#[inline]
fn shifted(mantissa: i128, by: i64) -> Option<i128> {
    let spare = i64::from(mantissa.unsigned_abs().leading_zeros()) - 1;
    ((0..=spare).contains(&by) && by < 127).then(|| mantissa << by)
}

/// Two to the `exponent`, which lies between those of the smallest double and of the largest.
fn power_of_two(exponent: i64) -> f64 {
    const NORMAL_MIN: i64 = -1022;
    f64::from_bits(if exponent >= NORMAL_MIN {
        ((exponent + DOUBLE_EXPONENT_MAX) as u64) << (DOUBLE_BITS - 1)
    } else {
        1 << (exponent - DOUBLE_EXPONENT_MIN)
    })
}

/// `bytes` without those at the far end that only repeat the sign.
fn minimal(bytes: &[u8]) -> &[u8] {
    let mut bytes = bytes;
    while let [rest @ .., before, last] = bytes
        && (*last == 0 && *before < 0x80 || *last == 0xff && *before >= 0x80)
    {
        bytes = bytes.get(..rest.len() + 1).unwrap_or_default();
    }
    bytes
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
