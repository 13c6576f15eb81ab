//! Each bug planted in queries and in what answers requests must change an answer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rereduce::mark;

use crate::orders::{ASKED, asked, node};
use crate::path_of;
use crate::play::replay;
use crate::texts::characters_outside_the_basic_plane_come_back_as_they_were_written;

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
    !holds(bug, answers_are_right)
}

fn holds(bug: Option<&'static str>, check: impl FnOnce() -> bool) -> bool {
    let before = mark::plant(bug);
    let outcome = catch_unwind(AssertUnwindSafe(check));
    mark::plant(before);
    outcome.unwrap_or(false)
}

fn maps_are_right() -> bool {
    replay(&path_of("7-maps")).differences.is_empty()
}

fn texts_are_right() -> bool {
    characters_outside_the_basic_plane_come_back_as_they_were_written();
    true
}

#[test]
fn bugs_planted_in_javascript_change_an_answer() {
    assert!(holds(None, maps_are_right) && holds(None, texts_are_right));
    assert!(!holds(Some("js-first-function-counts"), maps_are_right));
    assert!(!holds(Some("js-half-pairs-pass"), texts_are_right));
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
