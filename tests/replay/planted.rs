//! Each bug planted in queries and in what answers requests must change an answer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rereduce::mark;

use crate::orders::{ASKED, asked, node};
use crate::path_of;
use crate::play::replay;

const BUGS: [&str; 20] = [
    "allow-left-out",
    "body-after-url",
    "crossed-range-is-empty",
    "deleted-looks-missing",
    "docid-bounds-ignored",
    "end-always-included",
    "functions-not-compiled",
    "group-key-not-cut",
    "head-has-a-body",
    "keys-beside-a-range",
    "keys-not-reversed",
    "large-count-panics",
    "links-not-followed",
    "listing-shows-tombstones",
    "negative-counts-from-zero",
    "nothing-reduces-to-a-row",
    "offset-without-skip",
    "one-key-stays-a-list",
    "options-of-any-form",
    "parameters-before-the-design-document",
];

/// Short recordings, and the requests of this folder.
fn answers_are_right() -> bool {
    let recorded = ["2-view-params", "2-view-errors", "7-libs", "2-reduce-dates"];
    let recorded = recorded.iter().all(|name| replay(&path_of(name)).differences.is_empty());
    let node = node();
    let listed = !asked(&node, "GET", "/db/_all_docs", "").contains(r#""id":"c""#);
    let right = |(method, target, body, expected): &(&str, &str, &str, &str)| {
        asked(&node, method, target, body) == *expected
    };
    recorded && listed && ASKED.iter().all(right)
}

fn notices(bug: Option<&'static str>) -> bool {
    let before = mark::plant(bug);
    let outcome = catch_unwind(AssertUnwindSafe(answers_are_right));
    mark::plant(before);
    !outcome.unwrap_or(false)
}

#[test]
fn every_planted_bug_changes_an_answer() {
    assert!(!notices(None), "the engine as it is");
    let unnoticed: Vec<&str> = BUGS.into_iter().filter(|bug| !notices(Some(bug))).collect();
    assert_eq!(unnoticed, [""; 0]);
    for bug in ["reduced-keys-reversed", "validation-left-out"] {
        assert!(notices(Some(bug)), "{bug}");
    }
}
