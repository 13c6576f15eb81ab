//! Explores the swap, and shows that each rule about every state can fail.
//!
//! The counts are pinned: a change of the model shows as a change of them, and belongs into
//! `spec/models.md` too.

use super::*;
use crate::explored::{explore, refute};

const ONE_READER: Swaps = Swaps {
    readers: 1,
    bounds: Counts { commits: 2, files: 3, crashes: 1, deaths: 1 },
    slip: None,
};

const TWO_READERS: Swaps = Swaps {
    readers: 2,
    bounds: Counts { commits: 2, files: 2, crashes: 0, deaths: 1 },
    slip: None,
};

const TWO_CRASHES: Swaps = Swaps {
    readers: 0,
    bounds: Counts { commits: 3, files: 3, crashes: 2, deaths: 1 },
    slip: None,
};

// spec: SPECMODEL-1, FILE-4, FILE-5, COMPACT-1, COMPACT-2, COMPACT-3, COMPACT-4, PROCESS-4
#[test]
fn a_swap_loses_nothing_and_readers_follow_it() {
    let found = explore("swap, one reader", ONE_READER);
    assert!(found.broken.is_empty());
    assert_eq!(found.unreached, [""; 0]);
    assert_eq!((found.states, found.depth), (295_661, 37));
}

// spec: SPECMODEL-1, COMPACT-4, PROCESS-4
#[test]
fn two_readers_follow_commits_and_a_swap_beside_each_other() {
    let found = explore("swap, two readers", TWO_READERS);
    assert!(found.broken.is_empty());
    assert_eq!((found.states, found.depth), (106_505, 33));
}

// spec: SPECMODEL-1, FILE-4, FILE-5, COMPACT-2
#[test]
fn two_compactions_survive_two_crashes_and_a_death() {
    let found = explore("swap, two crashes", TWO_CRASHES);
    assert!(found.broken.is_empty());
    assert_eq!((found.states, found.depth), (109_670, 36));
}

/// Shows that the model breaks `rule` with the slip.
fn breaks(slip: Slip, rule: &'static str) {
    let bounds = Counts { files: 2, ..ONE_READER.bounds };
    refute(&format!("{slip:?}"), Swaps { slip: Some(slip), bounds, ..ONE_READER }, rule);
}

// spec: SPECMODEL-2
#[test]
fn each_wrong_transition_breaks_a_rule() {
    breaks(Slip::RenameBeforeFlush, "the name means a whole file or nothing");
    breaks(Slip::DirectorySyncLeftOut, "an acknowledged commit is found by every opening");
    breaks(Slip::FoundNameTrusted, "an acknowledged commit is found by every opening");
    breaks(Slip::LastRoundLeftOut, "a file has the rows that its newest footer is about");
    breaks(Slip::WriterNotHeld, "a crash now would lose no acknowledged commit");
    breaks(Slip::WriterNotHeld, "a reader never goes back");
    breaks(Slip::ReaderKeepsRoots, "a reader shows one file");
    breaks(Slip::ReaderStays, "a reader shows what was acknowledged when it looked");
}
