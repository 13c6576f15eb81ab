//! Exact sums: known traps, and a naive sum of big integers as the judge.

use num_bigint::BigInt;
use quickcheck::{Arbitrary, Gen, QuickCheck};
use rereduce::mark;
use rereduce::reduce::Reducer;
use rereduce::vocabulary::{Json, Number};

use crate::support::{borrowed, json, reduce, reducer, reduction, rereduce, rows_of, shown};

// spec: REDUCE-2
pub(crate) fn nothing_is_lost_to_cancellation() {
    assert_eq!(shown("_sum", "1e16 0.1 -1e16 0.2"), "0.30000000000000004");
    assert_eq!(shown("_sum", "1e308 1e308 -1e308"), "1.0e308");
    assert_eq!(shown("_sum", "5e-324 1e308 -1e308"), "5.0e-324");
    assert_eq!(shown("_sum", "0.1 0.2 0.3"), "0.6", "rounded once, not twice");
    assert_eq!(shown("_sum", "100000000000000000000 0.5 -100000000000000000000"), "0.5");
    assert_eq!(shown("_sum", "9007199254740993 0.0"), "9.007199254740992e15", "ties go to even");
    assert_eq!(shown("_sum", "9007199254740995 0.0"), "9.007199254740996e15");
    assert_eq!(shown("_sum", "9007199254740993 5e-324"), "9.007199254740994e15", "no tie");
}

// spec: REDUCE-3
pub(crate) fn sums_keep_their_kind() {
    assert_eq!(shown("_sum", "1 2"), "3");
    assert_eq!(shown("_sum", "1.0 2"), "3.0");
    assert_eq!(shown("_sum", "-0.0"), "0.0");
    assert_eq!(shown("_sum", "0.5 -0.5"), "0.0");
    assert_eq!(shown("_sum", "9223372036854775807 1"), "9223372036854775808");
    assert_eq!(shown("_sum", "-170141183460469231731687303715884105728 -1"), {
        "-170141183460469231731687303715884105729"
    });
}

// spec: REDUCE-3
pub(crate) fn a_result_without_a_double_is_an_error_value() {
    for (name, values) in
        [("_sum", "1e308 1e308"), ("_sum", "[0,1e308] [1,1e308]"), ("_stats", "1e200")]
    {
        let shown = shown(name, values);
        assert!(shown.starts_with(r#"{"error":"builtin_reduce_error""#), "{name}: {shown}");
    }
}

// spec: REDUCE-4
pub(crate) fn squares_of_floats_are_rounded_each() {
    // The square of 0.1 as a double is 0.010000000000000002.
    let stats = shown("_stats", "0.1 0.1 0.1");
    assert!(stats.contains(r#""sumsqr":0.030000000000000006"#), "{stats}");
    let stats = shown("_stats", "3037000500 9007199254740993");
    let exact = BigInt::from(3037000500i64).pow(2) + BigInt::from(9007199254740993i64).pow(2);
    assert!(stats.contains(&format!(r#""sumsqr":{exact}}}"#)), "{stats}");
}

// spec: REDUCE-1
pub(crate) fn equal_sums_have_equal_bytes() {
    let bytes = |values: &str| {
        let values: Vec<Json> = values.split_whitespace().map(json).collect();
        reduction("_sum", &values)
    };
    assert_eq!(bytes("1 3"), bytes("4"));
    assert_eq!(bytes("0.5 0.5"), bytes("0.75 0.25"));
    assert_eq!(bytes("1 -1"), bytes("0"));
    assert_ne!(bytes("1.0"), bytes("1"), "the kind counts");
    assert_eq!(bytes("1e300 -1e300"), bytes("5e-324 -5e-324"));
}

/// A number of any size and kind, with some that meet at their ends.
#[derive(Clone, Debug)]
pub(crate) struct Addend(pub(crate) Number);

impl Arbitrary for Addend {
    fn arbitrary(source: &mut Gen) -> Addend {
        let digits = |source: &mut Gen| {
            let digits: String =
                (0..40).map(|_| char::from(b'0' + u8::arbitrary(source) % 10)).collect();
            format!("{}1{digits}", if bool::arbitrary(source) { "-" } else { "" })
        };
        let Json::Number(number) = (match u8::arbitrary(source) % 8 {
            0 => Json::from(i64::arbitrary(source)),
            1 => Json::from(i64::arbitrary(source) % 100),
            2 => json(&digits(source)),
            3 => Json::from((i64::arbitrary(source) % 1000) as f64 / 10.0),
            4 => Json::from(*source.choose(&[5e-324, -5e-324, f64::MAX, -f64::MAX, -0.0]).unwrap()),
            _ => Json::from(f64::from_bits(u64::arbitrary(source) & !(1 << 62))),
        }) else {
            unreachable!("only numbers are drawn");
        };
        Addend(number)
    }
}

/// The sum by big integers alone, in units of the smallest double, and whether floats are in it.
fn naive(addends: &[Addend]) -> (BigInt, bool) {
    let mut floats = false;
    let sum = addends.iter().map(|Addend(number)| match number {
        Number::Integer(value) => BigInt::from(*value) << 1074,
        Number::Big(value) => value.digits().parse::<BigInt>().unwrap() << 1074,
        Number::Float(value) => {
            floats = true;
            units(*value)
        }
    });
    (sum.sum(), floats)
}

/// A double in units of the smallest one: halved until nothing is left of it.
fn units(value: f64) -> BigInt {
    let (mut rest, mut scale) = (value, 0u32);
    while rest.fract() != 0.0 {
        // Doubling is exact below the largest double, and these have a fraction.
        rest *= 2.0;
        scale += 1;
    }
    // A whole double prints all its digits.
    let whole: BigInt = format!("{rest:.0}").parse().unwrap();
    whole << (1074 - scale)
}

/// Whether `shown` is the double nearest to `sum` units: no other one is nearer.
fn is_nearest(shown: f64, sum: &BigInt) -> bool {
    let distance = |value: f64| {
        let distance = units(value) - sum;
        if distance < BigInt::ZERO { -distance } else { distance }
    };
    let ours = distance(shown);
    let even = |value: f64| value.to_bits() & 1 == 0;
    [shown.next_up(), shown.next_down()].into_iter().filter(|other| other.is_finite()).all(
        |other| {
            let other_distance = distance(other);
            ours < other_distance || ours == other_distance && even(shown)
        },
    )
}

// spec: REDUCE-1, REDUCE-2, REDUCE-3
pub(crate) fn sums_are_those_of_big_integers() {
    fn holds(addends: Vec<Addend>) -> bool {
        let values: Vec<Json> =
            addends.iter().map(|addend| Json::Number(addend.0.clone())).collect();
        let (sum, floats) = naive(&addends);
        let shown = reducer("_sum").show(&reduction("_sum", &values)).unwrap();
        match shown {
            Json::Number(Number::Float(shown)) => floats && is_nearest(shown, &sum),
            Json::Number(shown) => {
                let shown = Json::Number(shown).to_string();
                !floats && shown.parse::<BigInt>().unwrap() << 1074 == sum
            }
            // Half a unit beyond the largest double is where it ends.
            _ => {
                let magnitude = if sum < BigInt::ZERO { -sum } else { sum };
                let end = (BigInt::from(1) << (1024 + 1074)) - (BigInt::from(1) << (970 + 1074));
                floats && magnitude >= end
            }
        }
    }
    QuickCheck::new().tests(2000).quickcheck(holds as fn(Vec<Addend>) -> bool);
}

// spec: REDUCE-1
pub(crate) fn sums_have_one_form_in_every_order_and_bracketing() {
    fn holds(addends: Vec<Addend>, keys: Vec<u64>, cut: usize) -> bool {
        let values: Vec<Json> =
            addends.iter().map(|addend| Json::Number(addend.0.clone())).collect();
        let mut other: Vec<(u64, Json)> =
            keys.iter().copied().chain(std::iter::repeat(7)).zip(values.clone()).collect();
        other.sort_by_key(|(key, _)| *key);
        let other: Vec<Json> = other.into_iter().map(|(_, value)| value).collect();
        let (sum, rows) = (reducer("_sum"), rows_of(&other));
        let rows = borrowed(&rows);
        let parts: Vec<Vec<u8>> =
            rows.chunks(cut % 5 + 1).map(|rows| reduce(&sum, rows).unwrap()).collect();
        rereduce(&sum, &parts).unwrap() == reduction("_sum", &values)
    }
    QuickCheck::new().tests(2000).quickcheck(holds as fn(Vec<Addend>, Vec<u64>, usize) -> bool);
}

/// A sum of real data stays short: a mantissa of at most 17 bytes.
pub(crate) fn stored_sums_are_short() {
    let values: Vec<Json> =
        (0..10_000).map(|n| Json::from((n * 7919 % 1000) as f64 / 10.0)).collect();
    let bytes = reduction("_sum", &values).len();
    assert!(bytes <= 24, "{bytes} bytes");
}

#[test]
fn exact_sums() {
    nothing_is_lost_to_cancellation();
    sums_keep_their_kind();
    a_result_without_a_double_is_an_error_value();
    squares_of_floats_are_rounded_each();
    equal_sums_have_equal_bytes();
    stored_sums_are_short();
}

#[test]
fn exact_sums_equal_naive_ones() {
    mark::reset();
    sums_are_those_of_big_integers();
    assert!(mark::hits().contains_key("exact-sum-grows"), "no sum went beyond 128 bits");
}

#[test]
fn exact_sums_are_free_of_order() {
    sums_have_one_form_in_every_order_and_bracketing();
    let sum = reducer("_sum");
    let mut out = Vec::new();
    sum.rereduce(&[], &mut out).unwrap();
    assert!(out.is_empty());
}
