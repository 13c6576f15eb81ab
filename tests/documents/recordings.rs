//! Every recorded request that is the database's to answer, answered as CouchDB 3.5.2 did.

use crate::replay::{Tally, replay};
use crate::support::turns_red;

/// Recordings, with the answers that are compared in each, the revision ids computed in them, and
/// the requests that are passed over. (`tests/golden_revids.rs` replays some more.)
const RECORDINGS: [(&str, usize, usize, usize); 7] = [
    ("3-revtree.json", 608, 75, 13),
    ("documents/3-attachments.json", 100, 19, 3),
    ("documents/3-docs.json", 134, 29, 5),
    ("documents/3-bulk.json", 125, 77, 13),
    ("documents/3-changes.json", 92, 37, 5),
    ("documents/3-local-purge.json", 83, 29, 5),
    ("documents/3-alldocs.json", 92, 25, 31),
];

/// Answers that differ on purpose: each has its line in `spec/deviations.md`.
const DEVIATIONS: [(&str, &str); 2] = [
    // A copied attachment comes in with the copy.
    ("documents/3-docs.json", "GET /g3-docs/_all_docs?include_docs=true"),
    // Of two writes of one local document in one call the last stands.
    ("documents/3-local-purge.json", "GET /g3-local/_local_docs?include_docs=true"),
];

fn recorded_requests_are_answered(file: &str, answers: usize, revs: usize, passed_over: usize) {
    let mut tally = replay(file);
    for (_, request) in DEVIATIONS.iter().filter(|(differs, _)| *differs == file) {
        let before = tally.differences.len();
        tally.differences.retain(|difference| !difference.starts_with(request));
        assert_eq!(tally.differences.len(), before - 1, "{request} is as CouchDB does: say so");
    }
    let count = tally.answers + tally.differences.len();
    println!("{file}: {} of {count} answers, {} revision ids", tally.answers, tally.revs);
    let expected = Tally { answers, revs, passed_over, differences: Vec::new() };
    assert_eq!(tally, expected, "{file}:\n{}", tally.differences.join("\n"));
}

fn all_are_answered() {
    for (file, answers, revs, passed_over) in RECORDINGS {
        recorded_requests_are_answered(file, answers, revs, passed_over);
    }
}

// spec: DB-1, DB-2, DB-3, DB-5, DB-6, DB-7, DB-8, DB-9, DB-12, ATTACH-1, ATTACH-2, ATTACH-3
// spec: DOC-8, DOC-11, DOC-12, REVTREE-4, REVTREE-5, REVTREE-6, REVTREE-7, REVTREE-9, REVTREE-10
#[test]
fn every_recorded_request_is_answered_as_couchdb_answered_it() {
    all_are_answered();
}

#[test]
fn planted_bugs_turn_the_recordings_red() {
    for bug in [
        "setting-without-sequence",
        "old-sequence-stays",
        "stale-edit-accepted",
        "rejected-edit-loses-its-sequence",
        "revtree-winner-ignores-deleted",
        "revtree-winner-on-the-leftmost-path",
        "revtree-first-root-only",
        "revtree-latest-doubles",
        "revtree-recreated-at-generation-1",
        "merged-trees-not-stemmed",
        "known-revision-is-a-change",
        "second-revision-of-a-batch-conflicts",
        "local-revision-stays",
        "range-takes-its-end",
        "tombstones-count-as-live",
        "purge-keeps-its-sequence",
        "sequences-in-reverse",
        "revision-id-depends-on-place",
    ] {
        assert!(turns_red(bug, all_are_answered), "{bug} went unnoticed");
    }
}
