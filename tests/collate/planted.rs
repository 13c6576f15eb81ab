//! Each bug planted in the keys of views must be noticed, and the clean ones not be accused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rereduce::collate::{Collation, next_sibling};
use rereduce::mark;
use rereduce::vocabulary::Json;

use crate::recorded::recorded_answers_are_given;
use crate::values::model;
use crate::{BOTH, json, key};

const BUGS: [&str; 13] = [
    "collate-raw-is-unicode",
    "collate-big-as-double",
    "collate-zero-has-a-sign",
    "collate-fraction-not-turned",
    "collate-numbers-last",
    "collate-ties-by-bytes",
    "collate-string-without-end",
    "collate-longer-array-first",
    "collate-members-by-name",
    "collate-split-takes-the-rest",
    "collate-cut-one-too-long",
    "collate-sibling-too-near",
    "collate-version-without-data",
];

/// Each two of these, in both collations, and what the one makes of rows that the other follows.
const VALUES: [&str; 20] = [
    "null",
    "0",
    "-0.0",
    "-1.5",
    "-1.25",
    "18446744073709551616",
    "18446744073709551617",
    "\"\"",
    "\" \"",
    "\"a\"",
    "\"a\\u0000\"",
    "[]",
    "[\"\",1]",
    "[\" \",0]",
    "[\"\",1,2]",
    "[\"\",2]",
    "{\"b\":2,\"a\":1}",
    "{\"b\":2,\"c\":1}",
    "{\"a\":3}",
    "true",
];

fn pairs_are_right() {
    assert_ne!(Collation::Unicode.version(), Collation::Raw.version());
    for collation in BOTH {
        for (one, two) in VALUES.iter().flat_map(|one| VALUES.map(|two| (json(one), json(two)))) {
            let [left, right] = [&one, &two].map(|value| key(collation, value));
            let order = model(collation, &one, &two);
            assert_eq!(left.cmp(&right), order, "{one} {two}");
            let row = [&left[..], &right].concat();
            assert_eq!(collation.split(&row), Some((&left[..], &right[..])));
            let sibling = next_sibling(&left).unwrap();
            assert_eq!(left <= right && right < sibling, order.is_eq(), "{one} {two}");
            let array = key(collation, &Json::Array(vec![one, two]));
            let cut = collation.level_cut(&array, 1).unwrap();
            assert_eq!(cut[1..], left);
            assert!(array < next_sibling(cut).unwrap());
        }
    }
}

fn turns_red(bug: &'static str, check: fn()) -> bool {
    let before = mark::plant(Some(bug));
    let outcome = catch_unwind(AssertUnwindSafe(check));
    mark::plant(before);
    outcome.is_err()
}

#[test]
fn every_planted_bug_is_noticed() {
    pairs_are_right();
    let missed: Vec<&str> =
        BUGS.into_iter().filter(|bug| !turns_red(bug, pairs_are_right)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn the_recording_alone_notices_a_wrong_order() {
    let orders = [
        "collate-raw-is-unicode",
        "collate-fraction-not-turned",
        "collate-numbers-last",
        "collate-ties-by-bytes",
        "collate-longer-array-first",
        "collate-cut-one-too-long",
        "collate-members-by-name",
    ];
    for bug in orders {
        assert!(turns_red(bug, recorded_answers_are_given), "{bug}");
    }
}
