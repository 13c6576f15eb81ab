//! Revision ids and trees equal CouchDB's: what was sent is computed and answered again.
//!
//! The recordings under `data/` are answers of CouchDB 3.5.2. Counts are committed beside each
//! file; the tests print `N of N` and fail below them, so no recording can fall silent.

mod recorded;
#[path = "documents/replay/mod.rs"]
mod replay;

use recorded::{encode, leaves_of, revision_of};
use replay::{Tally, replay};
use rereduce::doc::write_stored;
use rereduce::vocabulary::Json;

/// Leaves in each recorded database file: all, and those among them that a replicator named (they
/// say `"w":"conflict"`, and their ids follow from nothing).
const COUCH_FILES: [(&str, usize, usize); 15] = [
    ("attachments", 6, 0),
    ("attachments-compacted", 6, 0),
    ("docs-1", 2, 0),
    ("docs-10", 11, 0),
    ("docs-100", 101, 0),
    ("docs-1000", 1001, 0),
    ("docs-1000-compacted", 1001, 0),
    ("empty", 0, 0),
    ("long-history", 2, 0),
    ("odds", 11, 0),
    ("rich-12-deflate6", 18, 5),
    ("rich-12-md5", 15, 2),
    ("rich-12-none", 18, 5),
    ("rich-15", 21, 5),
    ("rich-40-compacted", 51, 10),
];

/// Recordings of requests: answers compared, revision ids computed, requests passed over (they
/// are not about documents, or crashed the recorded server).
const REQUESTS: [(&str, usize, usize, usize); 4] = [
    ("3-invalid.json", 204, 26, 3),
    ("3-revids.json", 421, 199, 5),
    ("3-revtree.json", 608, 75, 13),
    ("documents/3-attachments.json", 100, 19, 3),
];

/// Says of each file how many of its leaves were computed.
fn recorded_leaves_are_computed() -> Vec<String> {
    let mut said = Vec::new();
    for (name, leaf_count, named_count) in COUCH_FILES {
        let leaves = leaves_of(name);
        let named = |leaf: &&String| leaf.contains(r#""w":"conflict""#);
        let computed: Vec<&String> = leaves.iter().filter(|leaf| !named(leaf)).collect();
        let right = computed.iter().filter(|leaf| {
            let (recorded, computed) = revision_of(leaf);
            recorded == computed
        });
        let right = right.count();
        said.push(format!("{name}: {right} of {}", computed.len()));
        assert_eq!((leaves.len(), leaves.len() - computed.len()), (leaf_count, named_count));
        assert_eq!(right, computed.len(), "{name}");
    }
    said
}

/// Says how many answers were compared.
fn recorded_requests_are_answered(
    file: &str,
    answers: usize,
    revs: usize,
    passed_over: usize,
) -> String {
    let tally = replay(file);
    let count = tally.answers + tally.differences.len();
    let expected = Tally { answers, revs, passed_over, differences: Vec::new() };
    assert_eq!(tally, expected, "{file}:\n{}", tally.differences.join("\n"));
    format!("{file}: {} of {count} answers, {} revision ids", tally.answers, tally.revs)
}

// spec: DOC-2, DOC-3, DOC-5, DOC-8, DOC-9
#[test]
fn every_leaf_of_the_recorded_databases_has_the_revision_id_of_its_content() {
    println!("{}", recorded_leaves_are_computed().join("\n"));
}

// spec: DOC-4, DOC-8, DOC-9, DOC-10, DOC-11, DOC-12
// spec: REVTREE-3, REVTREE-4, REVTREE-5, REVTREE-6, REVTREE-7, REVTREE-9, REVTREE-10
#[test]
fn every_recorded_request_is_answered_as_couchdb_answered_it() {
    for (file, answers, revs, passed_over) in REQUESTS {
        println!("{}", recorded_requests_are_answered(file, answers, revs, passed_over));
    }
}

/// No recorded content is compressed otherwise at another level. This one is: three letters from a
/// linear congruence, whose hash chains are long.
fn zlib_works_at_level_8() {
    let letters = (0..20_000).scan(1u32, |state, _| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(b'a' + ((*state >> 24) % 3) as u8)
    });
    let (attachment, _) = encode("f", "text/plain", &letters.collect::<Vec<u8>>(), 1);
    assert_eq!(attachment.digest.to_string(), "md5-tCqxXvp4hA+901zXmUElig==");
}

// spec: DOC-9
#[test]
fn compressed_content_is_what_zlib_makes_at_level_8() {
    zlib_works_at_level_8();
}

fn ids_are_refused() {
    for id in ["", "_x", "_design", "_local/"] {
        assert!(id.parse::<rereduce::doc::DocId>().is_err(), "{id}");
    }
}

fn too_deep_a_text_is_refused() {
    let too_deep = "[".repeat(1025) + "1" + &"]".repeat(1025);
    assert!(Json::parse(too_deep.as_bytes()).is_err());
}

fn a_stored_zero_keeps_its_sign() {
    let mut stored = Vec::new();
    write_stored(&Json::from(-0.0), &mut stored);
    assert_eq!(stored, b"-0.0");
}

/// All of the above, for `cargo oracle planted`.
pub(crate) fn everything_is_as_recorded() {
    ids_are_refused();
    too_deep_a_text_is_refused();
    a_stored_zero_keeps_its_sign();
    zlib_works_at_level_8();
    for (file, answers, revs, passed_over) in REQUESTS {
        recorded_requests_are_answered(file, answers, revs, passed_over);
    }
    recorded_leaves_are_computed();
}

// spec: DOC-1
#[test]
fn planted_bugs_turn_the_recordings_red() {
    for bug in [
        "revid-zero-unsigned",
        "revid-members-sorted",
        "revid-bytes-as-list",
        "json-first-member-stays",
        "json-big-as-double",
        "json-half-pair-replaced",
        "json-double-without-exponent",
        "doc-id-underscore-accepted",
        "attachment-text-only",
        "draft-rev-beats-revisions",
        "answer-deleted-before-body",
        "revtree-conflicts-with-deleted",
        "revtree-missing-knows-leaves-only",
        "revtree-winner-ignores-deleted",
        "revtree-winner-on-the-leftmost-path",
        "revtree-first-root-only",
        "revtree-latest-doubles",
        "revtree-recreated-at-generation-1",
    ] {
        let red = recorded::turns_red(bug, everything_is_as_recorded);
        assert!(red, "{bug} went unnoticed");
    }
    assert!(recorded::turns_red("revid-bytes-as-list", || drop(recorded_leaves_are_computed())));
    assert!(recorded::turns_red("attachment-default-level", zlib_works_at_level_8));
    too_deep_a_text_is_refused();
    assert!(recorded::turns_red("json-depth-doubled", too_deep_a_text_is_refused));
    a_stored_zero_keeps_its_sign();
    assert!(recorded::turns_red("json-stored-zero-unsigned", a_stored_zero_keeps_its_sign));
}
