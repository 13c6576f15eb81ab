//! The table of planted bugs: what each breaks, and which checks should notice.
//!
//! Invariant: each name stands in the engine as `mark::planted("name")`, and every one there is
//! listed here; a test compares the two.

/// A deliberate mistake in the engine, switched on by name.
///
/// ```
/// let bugs = rereduce_crash_sim::PLANTED;
/// assert!(bugs.iter().all(|bug| bug.checks.is_empty() != bug.shown_by.is_empty()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The name that the engine asks for.
    pub name: &'static str,
    /// Which requirements and cases it violates, by id.
    pub violates: &'static [&'static str],
    /// Which checks of the campaign `planted` must notice.
    pub checks: &'static [&'static str],
    /// For a bug that no such check can notice (it needs loom, a second handle, or recordings): the
    /// test that plants it and sees red. Else empty.
    pub shown_by: &'static str,
}

/// All planted bugs.
pub const PLANTED: &[Planted] = &[
    Planted {
        name: "create-without-directory-sync",
        violates: &["FILE-4"],
        checks: &["crash"],
        shown_by: "",
    },
    Planted {
        name: "chunk-checksum-ignored",
        violates: &["CHUNK-1"],
        checks: &["footer"],
        shown_by: "",
    },
    Planted {
        name: "history-reads-copy-a-only",
        violates: &["FOOTER-2"],
        checks: &["footer"],
        shown_by: "",
    },
    Planted {
        name: "footer-of-any-file",
        violates: &["FOOTER-1"],
        checks: &["footer"],
        shown_by: "",
    },
    Planted {
        name: "footer-checksum-ignored",
        violates: &["FOOTER-1", "B01", "B02"],
        checks: &["footer"],
        shown_by: "",
    },
    Planted {
        name: "second-copy-left-out",
        violates: &["FOOTER-2", "B01"],
        checks: &["footer"],
        shown_by: "",
    },
    Planted {
        name: "footer-names-itself-flushed",
        violates: &["RECOVER-3"],
        checks: &["crash"],
        shown_by: "",
    },
    Planted {
        name: "witness-ignored",
        violates: &["RECOVER-3"],
        checks: &["footer"],
        shown_by: "",
    },
    Planted {
        name: "barrier-flush-left-out",
        violates: &["COMMIT-2"],
        checks: &["barrier"],
        shown_by: "",
    },
    Planted {
        name: "cover-starts-late",
        violates: &["COMMIT-3", "B07"],
        checks: &["crash"],
        shown_by: "",
    },
    Planted {
        name: "cover-not-checked",
        violates: &["RECOVER-1", "B07"],
        checks: &["crash"],
        shown_by: "",
    },
    Planted {
        name: "commit-without-flush",
        violates: &["COMMIT-1"],
        checks: &["crash"],
        shown_by: "",
    },
    Planted {
        name: "failed-write-not-poisoned",
        violates: &["COMMIT-5", "B04", "B44"],
        checks: &["failing"],
        shown_by: "",
    },
    Planted {
        name: "unsealed-tail-not-rewritten",
        violates: &["RECOVER-4", "B44"],
        checks: &["failing"],
        shown_by: "",
    },
    Planted {
        name: "read-error-means-older-commit",
        violates: &["RECOVER-2", "B06"],
        checks: &["failing"],
        shown_by: "",
    },
    Planted {
        name: "publish-before-flush",
        violates: &["COMMIT-1", "COMMIT-5", "B44"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "reader-stays-on-old-file",
        violates: &["PROCESS-4"],
        checks: &["compaction"],
        shown_by: "",
    },
    Planted {
        name: "last-round-left-out",
        violates: &["COMPACT-1", "B12"],
        checks: &["writer"],
        shown_by: "",
    },
    Planted {
        name: "swap-without-agreement",
        violates: &["COMPACT-1", "B12"],
        checks: &[],
        shown_by: "tests/oracle",
    },
    Planted {
        name: "swap-without-directory-sync",
        violates: &["COMPACT-2", "B11"],
        checks: &["crash"],
        shown_by: "",
    },
    Planted {
        name: "two-compactions-at-once",
        violates: &["COMPACT-5", "B16"],
        checks: &["compaction"],
        shown_by: "",
    },
    Planted {
        name: "reduce-end-off-by-one",
        violates: &["BTREE-11"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "group-leaves-range",
        violates: &["BTREE-12"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "get-many-skips-behind-missing",
        violates: &["BTREE-1", "B18"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "cache-ignores-budget",
        violates: &["BTREE-4"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "cache-compares-offsets-only",
        violates: &["BTREE-4"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "child-may-lie-behind",
        violates: &["BTREE-3", "CHUNK-2"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "parent-is-not-compared",
        violates: &["BTREE-3"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "neighbours-not-merged",
        violates: &["BTREE-7"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "seam-not-merged",
        violates: &["BTREE-7"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "separator-goes-stale",
        violates: &["BTREE-1"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "reduction-misses-last-row",
        violates: &["BTREE-5"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "appending-splits-evenly",
        violates: &["BTREE-14"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "diff-skips-other-height",
        violates: &["BTREE-13"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "height-not-bounded",
        violates: &["BTREE-10"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "duplicates-kept-twice",
        violates: &["BTREE-8", "B22"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "first-duplicate-wins",
        violates: &["BTREE-8", "B22"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "equal-value-is-a-change",
        violates: &["BTREE-9", "COMMIT-7"],
        checks: &[],
        shown_by: "tests/btree_suite",
    },
    Planted {
        name: "root-keeps-one-child",
        violates: &["BTREE-6"],
        checks: &["model"],
        shown_by: "",
    },
    Planted {
        name: "json-first-member-stays",
        violates: &["DOC-2"],
        checks: &[],
        shown_by: "tests/golden_revids",
    },
    Planted {
        name: "json-stored-zero-unsigned",
        violates: &["DOC-6"],
        checks: &[],
        shown_by: "tests/golden_revids",
    },
    Planted {
        name: "revid-members-sorted",
        violates: &["DOC-8", "B43"],
        checks: &[],
        shown_by: "tests/golden_revids",
    },
    Planted {
        name: "revid-bytes-as-list",
        violates: &["DOC-8", "B43"],
        checks: &[],
        shown_by: "tests/golden_revids",
    },
    Planted {
        name: "revid-zero-unsigned",
        violates: &["DOC-8", "B43"],
        checks: &[],
        shown_by: "tests/golden_revids",
    },
    Planted {
        name: "revtree-first-root-only",
        violates: &["REVTREE-1", "B37"],
        checks: &["revtree"],
        shown_by: "",
    },
    Planted {
        name: "revtree-identity-by-hash",
        violates: &["REVTREE-2", "B39"],
        checks: &["revtree"],
        shown_by: "",
    },
    Planted {
        name: "revtree-stem-before-merge",
        violates: &["REVTREE-4", "B36"],
        checks: &["revtree"],
        shown_by: "",
    },
    Planted {
        name: "revtree-stem-by-farthest-leaf",
        violates: &["REVTREE-4"],
        checks: &["revtree"],
        shown_by: "",
    },
    Planted {
        name: "revtree-winner-ignores-deleted",
        violates: &["REVTREE-5"],
        checks: &["revtree"],
        shown_by: "",
    },
    Planted {
        name: "revtree-winner-on-the-leftmost-path",
        violates: &["REVTREE-5", "B37"],
        checks: &["revtree"],
        shown_by: "",
    },
    Planted {
        name: "revtree-latest-doubles",
        violates: &["REVTREE-7", "B38"],
        checks: &[],
        shown_by: "tests/revtree_laws",
    },
    Planted {
        name: "revtree-recreated-at-generation-1",
        violates: &["REVTREE-10"],
        checks: &[],
        shown_by: "tests/golden_revids",
    },
    Planted {
        name: "queue-no-gathering",
        violates: &["QUEUE-3"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted {
        name: "queue-lone-wait",
        violates: &["QUEUE-4"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted {
        name: "queue-swapped-replies",
        violates: &["QUEUE-1"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted {
        name: "queue-one-woken",
        violates: &["QUEUE-1"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted {
        name: "queue-exclusive-beside",
        violates: &["QUEUE-2"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted {
        name: "queue-panic-unnoticed",
        violates: &["QUEUE-5"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted { name: "publish-torn", violates: &["PUBLISH-1"], checks: &[], shown_by: "tests/loom" },
    Planted {
        name: "publish-lost-wakeup",
        violates: &["PUBLISH-2", "B34"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted {
        name: "publish-silent-close",
        violates: &["PUBLISH-3"],
        checks: &[],
        shown_by: "tests/loom",
    },
    Planted {
        name: "attachments-not-shared",
        violates: &["ATTACH-1"],
        checks: &[],
        shown_by: "tests/oracle",
    },
    Planted {
        name: "purges-never-forgotten",
        violates: &["B14"],
        checks: &[],
        shown_by: "tests/oracle",
    },
    Planted {
        name: "old-sequence-stays",
        violates: &["DB-1"],
        checks: &[],
        shown_by: "tests/oracle",
    },
    Planted {
        name: "rejected-edit-loses-its-sequence",
        violates: &["B35"],
        checks: &[],
        shown_by: "tests/oracle",
    },
    Planted {
        name: "stale-edit-accepted",
        violates: &["DB-1"],
        checks: &[],
        shown_by: "tests/oracle",
    },
    Planted {
        name: "cli-all-errors-are-one",
        violates: &["CLI-1"],
        checks: &[],
        shown_by: "tests/cli",
    },
    Planted {
        name: "cli-errors-of-many-lines",
        violates: &["CLI-2"],
        checks: &[],
        shown_by: "tests/cli",
    },
    Planted {
        name: "cli-counts-what-it-drops",
        violates: &["CLI-3"],
        checks: &[],
        shown_by: "tests/cli",
    },
    Planted { name: "cli-readers-lock", violates: &["CLI-4"], checks: &[], shown_by: "tests/cli" },
    Planted {
        name: "cli-dump-without-ancestors",
        violates: &["CLI-5"],
        checks: &[],
        shown_by: "tests/cli",
    },
    Planted {
        name: "cli-load-edits-revisions",
        violates: &["CLI-5"],
        checks: &[],
        shown_by: "tests/cli",
    },
    Planted {
        name: "cli-backup-cuts-the-footer",
        violates: &["CLI-6"],
        checks: &[],
        shown_by: "tests/cli",
    },
    Planted {
        name: "cli-tour-cuts-nothing",
        violates: &["CLI-7"],
        checks: &[],
        shown_by: "tests/cli",
    },
];
