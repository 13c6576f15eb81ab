//! Numbers by exact value, at every border between their kinds and forms.

use crate::values::model;
use crate::{BOTH, hex, json, key};
use rereduce::collate::Collation;
use rereduce::vocabulary::Json;

/// Powers of two around which forms change, with their neighbours, and everything negated.
fn borders() -> Vec<Json> {
    let mut amounts: Vec<String> = vec!["0".into(), "0.0".into(), "5e-324".into(), "1e-323".into()];
    for power in [0, 1, 6, 7, 8, 13, 14, 15, 31, 32, 52, 53, 54, 62, 63, 64, 65, 100, 126] {
        let whole = 1_u128 << power;
        amounts.extend([whole - 1, whole, whole + 1].map(|whole| whole.to_string()));
        amounts.push(format!("{:e}", whole as f64));
        amounts.push(format!("{:e}", (whole as f64).next_up()));
        amounts.push(format!("{:e}", (whole as f64).next_down()));
        amounts.push(format!("{:e}", 1.0 / whole as f64));
    }
    for float in [f64::MIN_POSITIVE, f64::MIN_POSITIVE.next_down(), f64::MAX, 0.1, 0.2, 0.3] {
        amounts.push(format!("{float:e}"));
    }
    // 10^309 is beyond doubles; 10^9540 is the last power of ten with two bytes of exponent.
    for zeros in [309, 310, 9_540, 9_541, 12_000] {
        amounts.push(format!("1{}", "0".repeat(zeros)));
        amounts.push(format!("1{}1", "0".repeat(zeros - 1)));
    }
    let negated: Vec<String> = amounts.iter().map(|amount| format!("-{amount}")).collect();
    amounts.into_iter().chain(negated).map(|text| json(&text)).collect()
}

// spec: COLLATE-2
#[test]
fn numbers_of_every_kind_are_ordered_by_exact_value() {
    let numbers = borders();
    let collation = Collation::Unicode;
    let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(collation, number)).collect();
    let (mut pairs, mut equal) = (0, 0);
    for (one, left) in numbers.iter().zip(&keys) {
        for (two, right) in numbers.iter().zip(&keys) {
            let order = model(collation, one, two);
            assert_eq!(left.cmp(right), order, "{one} {two}");
            assert!(order.is_eq() || !right.starts_with(left), "{one} begins {two}");
            (pairs, equal) = (pairs + 1, equal + usize::from(order.is_eq()));
        }
        assert_eq!(collation.split(left), Some((&left[..], &[][..])), "{one}");
    }
    assert!(pairs > 80_000 && equal > numbers.len() + 100, "{pairs} pairs, {equal} equal");
}

// spec: COLLATE-2
#[test]
fn numbers_of_one_value_have_one_key() {
    let alike = [
        ["0", "-0.0", "0e5"],
        ["1", "1.0", "10e-1"],
        ["9223372036854775808", "9223372036854775808.0", "9.223372036854775808e18"],
        ["-18446744073709551616", "-18446744073709551616.0", "-1.8446744073709551616e19"],
    ];
    for collation in BOTH {
        for list in alike {
            let keys = list.map(|text| hex(&key(collation, &json(text))));
            assert!(keys.iter().all(|key| *key == keys[0]), "{list:?}: {keys:?}");
        }
    }
    // As doubles these two would be equal.
    let two = ["9007199254740992.0", "9007199254740993"].map(json);
    assert!(Collation::Unicode.compare(&two[0], &two[1]).is_lt());
}

/// The form is stored, so it must not change unnoticed.
// spec: COLLATE-2
#[test]
fn the_bytes_of_numbers_are_these() {
    let forms = [
        ("0", "148000"),
        ("1", "14843300"),
        ("-1", "147bccff"),
        ("2", "14843400"),
        ("7", "148435c0"),
        ("6.5", "148435a0"),
        ("-6.5", "147bca5f"),
        ("0.1", "14842f99cd673399cd6740"),
        ("5e-324", "14800100"),
        ("9007199254740993", "1484680101010101010110"),
    ];
    for (text, form) in forms {
        assert_eq!(hex(&key(Collation::Unicode, &json(text))), form, "{text}");
    }
}
