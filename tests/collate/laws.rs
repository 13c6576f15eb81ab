//! The laws of an order, and the model's comparison beside the keys'.

use std::cmp::Ordering;

use quickcheck::QuickCheck;

use crate::values::{Drawn, model};
use crate::{BOTH, json, key};

/// Two values in both collations; whether they are equal in some.
fn keys_are_in_the_models_order(Drawn(one): Drawn, Drawn(two): Drawn) -> bool {
    BOTH.into_iter().all(|collation| {
        let (left, right) = (key(collation, &one), key(collation, &two));
        let order = left.cmp(&right);
        order == model(collation, &one, &two)
            && order == collation.compare(&one, &two)
            && (order.is_eq() || (!left.starts_with(&right) && !right.starts_with(&left)))
    })
}

// spec: COLLATE-1, COLLATE-2, COLLATE-3, COLLATE-4, COLLATE-5
#[test]
fn sort_keys_are_in_the_order_of_the_models_comparison() {
    let mut check = QuickCheck::new().tests(30_000);
    check.quickcheck(keys_are_in_the_models_order as fn(Drawn, Drawn) -> bool);
}

#[test]
fn the_models_order_is_total() {
    fn is_antisymmetric(Drawn(one): Drawn, Drawn(two): Drawn) -> bool {
        BOTH.into_iter().all(|collation| {
            model(collation, &one, &one).is_eq()
                && model(collation, &one, &two) == model(collation, &two, &one).reverse()
        })
    }
    fn is_transitive(Drawn(one): Drawn, Drawn(two): Drawn, Drawn(three): Drawn) -> bool {
        BOTH.into_iter().all(|collation| {
            let mut three = [&one, &two, &three];
            three.sort_by(|one, two| model(collation, one, two));
            model(collation, three[0], three[2]).is_le()
        })
    }
    let check = || QuickCheck::new().tests(10_000);
    check().quickcheck(is_antisymmetric as fn(Drawn, Drawn) -> bool);
    check().quickcheck(is_transitive as fn(Drawn, Drawn, Drawn) -> bool);
}

// spec: COLLATE-1, COLLATE-5
#[test]
fn types_are_in_the_order_that_the_collation_names() {
    let unicode = ["null", "false", "true", "-1e300", "1e300", "\"\"", "[]", "{}"];
    let raw = ["-1e300", "1e300", "false", "null", "true", "{}", "[]", "\"\""];
    for (collation, list) in BOTH.into_iter().zip([unicode, raw]) {
        let keys: Vec<Vec<u8>> = list.iter().map(|text| key(collation, &json(text))).collect();
        assert!(keys.is_sorted_by(|one, two| one < two), "{collation:?}");
    }
}

// spec: COLLATE-4
#[test]
fn members_count_as_they_stand_the_name_before_the_value() {
    let list = [r#"{}"#, r#"{"a":{}}"#, r#"{"b":1}"#, r#"{"b":2,"a":1}"#, r#"{"b":2,"c":0}"#];
    for collation in BOTH {
        let keys: Vec<Vec<u8>> = list.iter().map(|text| key(collation, &json(text))).collect();
        assert!(keys.is_sorted_by(|one, two| one < two), "{collation:?}");
    }
}

// case: B29. spec: COLLATE-4, COLLATE-6
#[test]
fn a_string_that_begins_another_sorts_before_it_whatever_stands_behind() {
    let list = [r#"["",1]"#, r#"[" ",0]"#, r#"["a",2]"#, r#"["ab",0]"#, r#"["b"]"#];
    for collation in BOTH {
        let keys: Vec<Vec<u8>> = list.iter().map(|text| key(collation, &json(text))).collect();
        assert!(keys.is_sorted_by(|one, two| one < two), "{collation:?}");
    }
    let [unicode, raw] =
        BOTH.map(|collation| collation.compare(&json(r#"["a\u0000",1]"#), &json(r#"["a",2]"#)));
    // U+0000 counts for nothing in the one order and for a byte in the other.
    assert_eq!((unicode, raw), (Ordering::Less, Ordering::Greater));
}
