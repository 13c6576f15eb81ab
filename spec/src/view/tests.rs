//! Explores the updater of views, and shows that each rule about every state can fail.
//!
//! The counts are pinned: a change of the model shows as a change of them, and belongs into
//! `spec/models.md` too.

use super::*;
use crate::explored::{explore, refute};

/// Enough commits for purges to be forgotten.
const FOUR_COMMITS: Views = Views {
    bounds: Counts { commits: 4, restores: 1, crashes: 1, compactions: 0, queries: 2 },
    slip: None,
};

/// With a compaction of the index.
const COMPACTED: Views = Views {
    bounds: Counts { commits: 3, restores: 1, crashes: 1, compactions: 1, queries: 2 },
    slip: None,
};

// spec: SPECMODEL-1
#[test]
fn a_query_is_answered_with_the_view_of_its_snapshot_whatever_became_of_the_database() {
    let found = explore("view, four commits", FOUR_COMMITS);
    assert!(found.broken.is_empty());
    assert_eq!(found.unreached, ["a compaction of the index has to catch up"]);
    assert_eq!((found.states, found.depth), (281_971, 16));
}

// spec: SPECMODEL-1
#[test]
fn an_index_is_compacted_while_it_is_brought_up() {
    let found = explore("view, compacted", COMPACTED);
    assert!(found.broken.is_empty());
    assert_eq!(found.unreached, ["an index that missed forgotten purges is built anew"]);
    assert_eq!((found.states, found.depth), (81_465, 16));
}

/// Shows that `machine` breaks `rule` with the slip.
fn breaks(slip: Slip, machine: Views, rule: &'static str) {
    refute(&format!("{slip:?}"), Views { slip: Some(slip), ..machine }, rule);
}

// spec: SPECMODEL-2
#[test]
fn each_wrong_transition_breaks_a_rule() {
    let up_to = "the index is its commit up to its sequence, and older behind it";
    breaks(Slip::NumberCompared, COMPACTED, up_to);
    breaks(Slip::BatchRecordsOldCommit, COMPACTED, up_to);
    breaks(Slip::PurgesSkipped, COMPACTED, "no row of a purged document is left");
    breaks(Slip::FloorIgnored, FOUR_COMMITS, "no row of a purged document is left");
    breaks(Slip::SequenceAhead, COMPACTED, up_to);
    breaks(Slip::CatchUpLeftOut, COMPACTED, "a compaction of the index loses no batch");
    breaks(Slip::OldRowsStay, COMPACTED, up_to);
}

// spec: SPECMODEL-2
#[test]
fn wrong_rows_in_the_index_reach_the_answer_of_a_query() {
    for slip in [Slip::NumberCompared, Slip::PurgesSkipped, Slip::SequenceAhead] {
        breaks(slip, COMPACTED, "a query is answered with the view of its snapshot");
    }
}
