//! Each bug planted in the tree must be noticed, and the clean tree must not be accused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rereduce::mark;
use rereduce::vocabulary::Edit;

use crate::reads;
use crate::support::{Pair, shape};

/// A fixed history over small nodes that takes every branch: growth, splits, merges, collapse.
fn history() {
    for (fan_out, bytes) in [(2, 1 << 20), (3, 1 << 20), (4, 1 << 20), (usize::MAX, 96)] {
        let mut pair = Pair::new(shape(fan_out, bytes, true), 2_000);
        let mut state = 1u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for round in 0..60 {
            let size = 1 + next(9);
            let removals = if round % 20 < 12 { 3 } else { 8 };
            let mut edits = Vec::new();
            for _ in 0..size {
                let number = next(60);
                let key = format!("{}", number * 7 % 60).repeat(1 + number as usize % 3);
                edits.push(match next(10) < removals {
                    true => Edit::remove(key),
                    false => Edit::put(key, format!("{}", next(4))),
                });
            }
            pair.apply(&edits);
            assert!(pair.cache.used_bytes() <= 2_000);
            if round % 6 == 0 {
                let bounds = [b"".to_vec(), b"21".to_vec(), b"35".to_vec(), b"5".to_vec()];
                pair.check_answers(&bounds);
            }
        }
    }
}

/// Everything a planted bug is held against.
const SUITE: [(&str, fn()); 9] = [
    ("history", history),
    ("duplicates", reads::duplicate_keys_in_one_batch_leave_one_row_and_the_last_wins),
    ("lookups", reads::a_batch_of_lookups_finds_keys_next_to_missing_ones),
    ("writes", reads::a_batch_writes_each_changed_node_once),
    ("sorted load", reads::a_sorted_load_makes_the_tree_that_a_build_makes),
    ("cache", reads::the_cache_keeps_to_its_budget_and_serves_hits_without_reads),
    ("rewritten tail", reads::a_rewritten_tail_does_not_answer_from_the_cache),
    ("child behind", reads::a_child_that_lies_behind_its_parent_is_corruption),
    ("lies", reads::nodes_that_lie_under_right_checksums_are_corruption_or_harmless),
];

const PLANTED: [&str; 20] = [
    "appending-splits-evenly",
    "cache-compares-offsets-only",
    "cache-ignores-budget",
    "child-may-lie-behind",
    "decode-asserts-key-order",
    "diff-skips-other-height",
    "duplicates-kept-twice",
    "equal-value-is-a-change",
    "first-duplicate-wins",
    "get-many-skips-behind-missing",
    "group-leaves-range",
    "height-not-bounded",
    "neighbours-not-merged",
    "parent-is-not-compared",
    "rank-counts-the-key",
    "reduce-end-off-by-one",
    "reduction-misses-last-row",
    "root-keeps-one-child",
    "separator-goes-stale",
    "seam-not-merged",
];

#[test]
fn each_bug_planted_in_the_tree_is_noticed() {
    SUITE.iter().for_each(|(_, test)| test());
    let mut missed = Vec::new();
    for bug in PLANTED {
        mark::plant(Some(bug));
        let fails = |test: fn()| catch_unwind(AssertUnwindSafe(test)).is_err();
        let red: Vec<&str> =
            SUITE.iter().filter(|(_, test)| fails(*test)).map(|(name, _)| *name).collect();
        mark::plant(None);
        println!("{bug}: {}", red.join(", "));
        if red.is_empty() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

// spec: BTREE-6, BTREE-7, BTREE-10, BTREE-13
#[test]
fn the_fixed_history_takes_every_branch() {
    mark::reset();
    history();
    let hits = mark::hits();
    for name in [
        "btree-split",
        "btree-merge",
        "btree-seam-merged",
        "btree-equal-value",
        "btree-exact-height",
        "btree-rebuilt",
        "btree-diff-skipped",
    ] {
        assert!(hits.contains_key(name), "{name} was not hit: {hits:?}");
    }
}
