//! The table of planted bugs: what each breaks, which checks should notice, which test plants it.
//!
//! Invariant: each name stands in the engine as `mark::planted("name")`, and every one there is
//! listed here; `tests/trace.rs` compares the two.

/// A deliberate mistake in the engine, switched on by name.
///
/// ```
/// let bugs = rereduce_crash_sim::PLANTED;
/// assert!(bugs.iter().all(|bug| bug.checks().count() > 0 || !bug.shown_by.is_empty()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The name that the engine asks for.
    pub name: &'static str,
    /// What it violates: ids of requirements and cases, separated by blanks. `KIND-4` says that
    /// the check `kind-4`, which knows only that kind of fault, notices it.
    pub violates: &'static str,
    checks: &'static str,
    /// The files or folders of the tests that plant it and see red, separated by blanks; empty if
    /// none does.
    pub shown_by: &'static str,
}

impl Planted {
    /// The checks of the campaign `planted` that must notice.
    pub fn checks(&self) -> impl Iterator<Item = &'static str> {
        self.checks.split_whitespace()
    }

    /// The tests that plant it, each by its file or folder.
    pub fn tests(&self) -> impl Iterator<Item = &'static str> {
        self.shown_by.split_whitespace()
    }
}

const fn bug(
    name: &'static str,
    violates: &'static str,
    checks: &'static str,
    shown_by: &'static str,
) -> Planted {
    Planted { name, violates, checks, shown_by }
}

/// All planted bugs.
pub const PLANTED: &[Planted] = &[
    // The file: blocks, chunks, footers, commits, recovery.
    bug("create-without-directory-sync", "FILE-4", "crash golden", "tests/storage"),
    bug(
        "chunk-checksum-ignored",
        "CHUNK-1 ROT-2 KIND-19 KIND-20",
        "kind-19 kind-20 files",
        "tests/crash_rot.rs",
    ),
    bug("history-reads-copy-a-only", "FOOTER-2", "files barrier", ""),
    bug("footer-of-any-file", "FOOTER-1 KIND-22", "kind-22", "tests/storage"),
    bug("footer-checksum-ignored", "FOOTER-1 B01 B02 KIND-21", "kind-21 golden", "tests/storage"),
    bug("second-copy-left-out", "FOOTER-2 B01", "golden files", "tests/storage"),
    bug("footer-names-itself-flushed", "RECOVER-3", "golden files", ""),
    bug("witness-ignored", "RECOVER-3", "golden", "tests/storage"),
    bug("barrier-flush-left-out", "COMMIT-2", "barrier golden", ""),
    bug("cover-starts-late", "COMMIT-3 B07", "crash golden", "tests/storage"),
    bug(
        "cover-not-checked",
        "RECOVER-1 B07 KIND-2 KIND-4 KIND-6",
        "kind-2 kind-4 kind-6 golden",
        "tests/storage",
    ),
    bug("checksums-of-data-ignored", "CHUNK-1 RECOVER-1 KIND-11", "kind-11 files", ""),
    bug(
        "commit-without-flush",
        "COMMIT-1 KIND-3 KIND-5 KIND-10 CRASH-14",
        "kind-3 kind-5 kind-10 costs",
        "tests/storage",
    ),
    bug(
        "failed-write-not-poisoned",
        "COMMIT-5 B04 B44 CRASH-11",
        "failing golden",
        "tests/storage",
    ),
    bug("old-end-trusted", "COMMIT-5 B04 KIND-16 KIND-17", "kind-16 kind-17 golden", ""),
    bug("flush-error-ignored", "COMMIT-1 COMMIT-5 KIND-13", "kind-13 golden", ""),
    bug("unsealed-tail-not-rewritten", "RECOVER-4 B44 KIND-12", "kind-12 golden", "tests/storage"),
    bug(
        "read-error-means-older-commit",
        "RECOVER-2 B06 KIND-15 CRASH-10",
        "kind-15 handles",
        "tests/storage",
    ),
    bug("marker-follows-content", "FILE-2", "writer", "tests/storage"),
    bug("history-goes-step-by-step", "HISTORY-1", "costs", "tests/storage"),
    bug("header-copy-b-ignored", "FILE-1", "files", "tests/storage"),
    bug("compacted-looks-like-damage", "HISTORY-2", "failing golden", "tests/storage"),
    bug("leftover-stays", "COMPACT-3 B10 CRASH-13", "crash golden", "tests/storage"),
    bug("close-without-seal", "COMMIT-6", "golden documents", "tests/storage"),
    bug("append-at-torn-end", "RECOVER-5 B03", "files", "tests/storage"),
    bug("cover-begins-in-cut-header", "FILE-1 COMMIT-3", "files", "tests/storage"),
    bug("roots-may-lie-behind", "CHUNK-2", "files", "tests/storage"),
    bug("long-roots-cut-off", "FOOTER-3 B09", "files", "tests/storage"),
    bug("pending-chunks-lost-at-swap", "COMPACT-1", "handles", "tests/storage"),
    bug("large-commit-flushed-once", "COMMIT-4", "costs", "tests/storage"),
    // Damage at rest.
    bug("tree-may-lie-behind-its-footer", "CHUNK-2", "rot", "tests/crash_rot.rs"),
    bug("marker-not-checked", "FILE-2 ROT-4", "files rot", "tests/crash_rot.rs"),
    bug("zeros-taken-for-a-chunk", "CHUNK-1 ROT-2", "kind-22", "tests/crash_rot.rs"),
    bug("footer-of-any-place", "FOOTER-1 ROT-2", "kind-21", "tests/crash_rot.rs"),
    bug("header-copies-may-differ", "ROT-7", "kind-22", "tests/crash_rot.rs"),
    bug("foreign-header-taken", "ROT-7", "kind-22", "tests/crash_rot.rs"),
    bug("check-skips-twins", "ROT-4 ROT-5", "kind-21", "tests/crash_rot.rs"),
    bug("check-believes-reductions", "BTREE-5 ROT-5 KIND-23", "kind-23", "tests/crash_rot.rs"),
    bug("check-skips-sizes", "ROT-5", "rot", "tests/crash_rot.rs"),
    bug("nonsense-without-a-place", "ROT-3", "rot", "tests/crash_rot.rs"),
    bug("length-believed", "ROT-6", "rot", "tests/crash_rot.rs"),
    bug(
        "flush-moved-before-the-append",
        "COMMIT-1 SPECMODEL-3",
        "kind-3",
        "tests/protocol_traces.rs",
    ),
    bug("footer-before-its-flush", "COMMIT-2", "golden", "tests/protocol_traces.rs"),
    bug(
        "rename-before-flush",
        "COMPACT-2 B11 KIND-8 KIND-14",
        "kind-8 kind-14",
        "tests/protocol_traces.rs",
    ),
    bug("rewrite-behind-the-twin", "RECOVER-4 B44", "golden", "tests/protocol_traces.rs"),
    bug("found-name-trusted", "FILE-5 B11", "golden", "tests/protocol_traces.rs"),
    // Handles, readers, compaction.
    bug("publish-before-flush", "COMMIT-1 COMMIT-5 B44 MODEL-4", "golden", "tests/storage"),
    bug("reader-stays-on-old-file", "PROCESS-4", "compaction handles", "tests/storage"),
    bug("last-round-left-out", "COMPACT-1 B12", "writer", "tests/storage"),
    bug("swap-without-agreement", "COMPACT-1 B12", "writer", "tests/storage"),
    bug("swap-without-directory-sync", "COMPACT-2 B11 KIND-7", "kind-7 golden", "tests/storage"),
    bug("swap-removes-first", "COMPACT-2 KIND-1 KIND-9", "kind-1 kind-9 golden", ""),
    bug("two-compactions-at-once", "COMPACT-5 B16", "compaction", "tests/storage"),
    bug("every-commit-is-witnessed", "PROCESS-3", "handles", "tests/storage"),
    bug("reader-takes-the-lock", "PROCESS-2", "compaction handles", "tests/storage"),
    bug("old-commits-need-a-sound-newest", "RECOVER-6", "files", "tests/storage"),
    bug("permissions-not-kept", "COMPACT-6", "handles", "tests/storage"),
    bug("second-writer-let-in", "PROCESS-1", "handles", "tests/storage"),
    bug("foreign-file-replaced", "FILE-3 B05", "files", "tests/storage"),
    bug("failed-look-remembered", "PROCESS-4", "handles", "tests/storage"),
    bug("cancelled-compaction-swaps", "COMPACT-3", "handles", "tests/storage"),
    bug("readers-look-side-by-side", "PROCESS-4", "handles", "tests/storage"),
    // The seam to the disk.
    bug("short-write-taken-for-whole", "DISK-9 KIND-18", "kind-18", "tests/crash_litmus"),
    bug("short-read-taken-for-end", "DISK-9", "failing", "tests/crash_litmus"),
    // Handing states to readers.
    bug("publish-torn", "PUBLISH-1", "", "tests/loom"),
    bug("publish-lost-wakeup", "PUBLISH-2 B34", "threads", "tests/loom"),
    bug("publish-silent-close", "PUBLISH-3", "threads", "tests/loom"),
    // Group commit.
    bug("queue-no-gathering", "QUEUE-3", "threads", "tests/loom"),
    bug("queue-lone-wait", "QUEUE-4", "threads", "tests/loom"),
    bug("queue-swapped-replies", "QUEUE-1", "threads", "tests/loom"),
    bug("queue-one-woken", "QUEUE-1", "threads", "tests/loom"),
    bug("queue-exclusive-beside", "QUEUE-2", "threads", "tests/loom"),
    bug("queue-panic-unnoticed", "QUEUE-5", "threads", "tests/loom"),
    // The tree.
    bug("reduce-end-off-by-one", "BTREE-11", "trees golden", "tests/btree_suite"),
    bug("group-leaves-range", "BTREE-12", "golden trees", "tests/btree_suite"),
    bug("rank-counts-the-key", "BTREE-15", "trees", "tests/btree_suite"),
    bug("get-many-skips-behind-missing", "BTREE-1 B18", "trees workloads", "tests/btree_suite"),
    bug("cache-ignores-budget", "BTREE-4", "trees", "tests/btree_suite"),
    bug("cache-compares-offsets-only", "BTREE-4", "trees", "tests/btree_suite"),
    bug("child-may-lie-behind", "BTREE-3 CHUNK-2", "trees", "tests/btree_suite"),
    bug("parent-is-not-compared", "BTREE-3", "trees", "tests/btree_suite"),
    bug("neighbours-not-merged", "BTREE-7", "crash golden", "tests/btree_suite"),
    bug("seam-not-merged", "BTREE-7", "barrier database", "tests/btree_suite"),
    bug("separator-goes-stale", "BTREE-1", "crash compaction", "tests/btree_suite"),
    bug("reduction-misses-last-row", "BTREE-5", "crash sharing", "tests/btree_suite"),
    bug("appending-splits-evenly", "BTREE-14", "golden", "tests/btree_suite"),
    bug("diff-skips-other-height", "BTREE-13", "trees", "tests/btree_suite"),
    bug("height-not-bounded", "BTREE-10", "model", "tests/btree_suite"),
    bug("duplicates-kept-twice", "BTREE-8 B22", "crash trees", "tests/btree_suite"),
    bug("first-duplicate-wins", "BTREE-8 B22", "crash golden", "tests/btree_suite"),
    bug("equal-value-is-a-change", "BTREE-9 COMMIT-7", "golden costs", "tests/btree_suite"),
    bug("root-keeps-one-child", "BTREE-6", "crash golden", "tests/btree_suite"),
    bug("decode-asserts-key-order", "BTREE-2", "trees", "tests/btree_suite"),
    bug("swap-keeps-the-cache", "COMPACT-4", "sharing", "tests/storage"),
    // The database.
    bug("attachments-not-shared", "ATTACH-1", "sharing golden", "tests/documents"),
    bug("purges-never-forgotten", "DB-8 B14", "documents golden", "tests/documents"),
    bug("old-sequence-stays", "DB-5 DB-8 MODEL-11", "workloads golden", "tests/documents"),
    bug("rejected-edit-loses-its-sequence", "DB-1 B35", "golden workloads", "tests/documents"),
    bug("stale-edit-accepted", "DB-1 MODEL-7", "golden workloads", "tests/documents"),
    bug("version-after-the-look", "DB-10 B34", "waits", "tests/documents"),
    bug("reader-waits-without-looking", "DB-10", "waits", "tests/storage"),
    bug("check-skips-attachments", "DB-11", "documents golden", "tests/documents"),
    bug("compaction-drops-tombstones", "COMPACT-7", "golden workloads", "tests/storage"),
    bug("inner-bodies-kept", "DB-7 COMPACT-7", "golden workloads", "tests/documents"),
    bug("range-takes-its-end", "ATTACH-3", "workloads golden", "tests/documents"),
    bug("rejected-group-commits", "COMMIT-7 B08 B35", "golden costs", "tests/documents"),
    bug("setting-without-sequence", "DB-12", "documents golden", "tests/documents"),
    bug(
        "revision-id-depends-on-place",
        "DOC-8 B43 MODEL-10",
        "workloads golden",
        "tests/documents",
    ),
    bug(
        "second-revision-of-a-batch-conflicts",
        "DB-3 B40",
        "workloads recordings",
        "tests/documents",
    ),
    bug(
        "known-revision-is-a-change",
        "DB-2 DB-5 B40 MODEL-8",
        "golden documents",
        "tests/documents",
    ),
    bug("merge-without-effect-takes-a-sequence", "DB-5", "documents", "tests/oracle"),
    bug("sequences-in-reverse", "DB-3", "golden documents", "tests/documents"),
    bug("merged-trees-not-stemmed", "REVTREE-4 B36", "golden workloads", "tests/documents"),
    bug("timeline-never-ends", "DB-13 B21", "documents", "tests/documents"),
    bug("timeline-goes-on-after-reopen", "DB-13", "documents", "tests/documents"),
    bug("any-database-will-do", "DB-13", "documents", "tests/documents"),
    bug("purge-keeps-its-sequence", "DB-8", "golden documents", "tests/documents"),
    bug("local-revision-stays", "DB-9", "documents golden", "tests/documents"),
    bug("stub-of-any-revision", "ATTACH-2", "documents", "tests/documents"),
    bug("group-fails-together", "DB-4", "waits", "tests/documents"),
    bug("tombstones-count-as-live", "DB-6", "golden workloads", "tests/documents"),
    bug("compaction-copies-for-each-leaf", "ATTACH-1", "sharing golden", "tests/storage"),
    // Revision trees.
    bug(
        "revtree-first-root-only",
        "REVTREE-1 B37 MODEL-6",
        "workloads golden",
        "tests/revtree_laws.rs",
    ),
    bug("revtree-identity-by-hash", "REVTREE-2 B39", "revtree documents", "tests/revtree_laws.rs"),
    bug("revtree-stem-before-merge", "REVTREE-4 B36", "revtree", "tests/revtree_laws.rs"),
    bug("revtree-stem-by-farthest-leaf", "REVTREE-4", "golden revtree", "tests/revtree_laws.rs"),
    bug(
        "revtree-winner-ignores-deleted",
        "REVTREE-5",
        "workloads revtree",
        "tests/revtree_laws.rs",
    ),
    bug(
        "revtree-winner-on-the-leftmost-path",
        "REVTREE-5 B37",
        "revtree workloads",
        "tests/revtree_laws.rs",
    ),
    bug("revtree-latest-doubles", "REVTREE-7 B38", "golden", "tests/revtree_laws.rs"),
    bug(
        "revtree-recreated-at-generation-1",
        "REVTREE-10",
        "golden workloads",
        "tests/golden_revids.rs",
    ),
    bug("revtree-bare-leaf-accepted", "REVTREE-11", "documents", "tests/revtree_laws.rs"),
    bug("revtree-merge-replaces-data", "REVTREE-3", "golden documents", "tests/revtree_laws.rs"),
    bug(
        "revtree-purge-takes-shared-ancestors",
        "REVTREE-8 MODEL-9",
        "golden database",
        "tests/revtree_laws.rs",
    ),
    bug("revtree-missing-knows-leaves-only", "REVTREE-9", "documents", "tests/golden_revids.rs"),
    bug("revtree-conflicts-with-deleted", "REVTREE-6", "golden", "tests/golden_revids.rs"),
    // Documents.
    bug("json-first-member-stays", "DOC-2", "golden texts", "tests/golden_revids.rs"),
    bug("json-stored-zero-unsigned", "DOC-6", "recordings texts", "tests/golden_revids.rs"),
    bug("revid-members-sorted", "DOC-8 B43", "golden texts", "tests/golden_revids.rs"),
    bug("revid-bytes-as-list", "DOC-8 B43", "texts recordings", "tests/golden_revids.rs"),
    bug("revid-zero-unsigned", "DOC-8 B43", "golden texts", "tests/golden_revids.rs"),
    bug("attachment-text-only", "DOC-10", "texts recordings", "tests/golden_revids.rs"),
    bug("answer-deleted-before-body", "DOC-12", "texts recordings", "tests/golden_revids.rs"),
    bug("draft-rev-beats-revisions", "DOC-11", "texts", "tests/golden_revids.rs"),
    bug("attachment-default-level", "DOC-9", "recordings texts", "tests/golden_revids.rs"),
    bug("doc-id-underscore-accepted", "DOC-7", "recordings texts", "tests/golden_revids.rs"),
    bug("json-depth-doubled", "DOC-1 KIND-24", "kind-24 recordings", "tests/golden_revids.rs"),
    bug("json-half-pair-replaced", "DOC-4", "golden texts", "tests/golden_revids.rs"),
    bug("json-big-as-double", "DOC-3", "golden texts", "tests/golden_revids.rs"),
    bug("json-double-without-exponent", "DOC-5", "golden texts", "tests/golden_revids.rs"),
    // The keys of views.
    bug("collate-raw-is-unicode", "COLLATE-5", "collate", "tests/collate"),
    bug("collate-big-as-double", "COLLATE-2", "collate", "tests/collate"),
    bug("collate-zero-has-a-sign", "COLLATE-2", "collate", "tests/collate"),
    bug("collate-fraction-not-turned", "COLLATE-2", "collate", "tests/collate"),
    bug("collate-numbers-last", "COLLATE-1", "collate", "tests/collate"),
    bug("collate-ties-by-bytes", "COLLATE-3 B27", "collate", "tests/collate"),
    bug("collate-string-without-end", "COLLATE-4 COLLATE-6 B29", "collate", "tests/collate"),
    bug("collate-longer-array-first", "COLLATE-4", "collate", "tests/collate"),
    bug("collate-members-by-name", "COLLATE-4", "collate", "tests/collate"),
    bug("collate-split-takes-the-rest", "COLLATE-6 B29", "collate", "tests/collate"),
    bug("collate-cut-one-too-long", "COLLATE-7 B29", "collate", "tests/collate"),
    bug("collate-sibling-too-near", "COLLATE-8", "collate", "tests/collate"),
    bug("collate-version-without-data", "COLLATE-9", "collate", "tests/collate"),
    // Built-in reducers.
    bug("exact-sum-rounds", "REDUCE-2", "reductions", "tests/reducers"),
    bug("exact-sum-half-up", "REDUCE-2", "", "tests/reducers"),
    bug("exact-sum-wraps", "REDUCE-2", "", "tests/reducers"),
    bug("exact-sum-forgets-kind", "REDUCE-3", "reductions", "tests/reducers"),
    bug("exact-sum-not-canonical", "REDUCE-1", "", "tests/reducers"),
    bug("stats-square-unrounded", "REDUCE-4", "reductions", "tests/reducers"),
    bug("stats-bad-value-skipped", "REDUCE-7", "reductions", "tests/reducers"),
    bug("stats-last-of-equals", "REDUCE-8", "", "tests/reducers"),
    bug("sum-number-drops-array", "REDUCE-5", "reductions", "tests/reducers"),
    bug("sum-first-cause-stands", "REDUCE-6", "reductions", "tests/reducers"),
    bug("sum-error-does-not-absorb", "REDUCE-6", "reductions", "tests/reducers"),
    bug("sum-trailing-bytes-ignored", "REDUCE-14", "", "tests/reducers"),
    bug("distinct-without-the-one", "REDUCE-9", "", "tests/reducers"),
    bug("distinct-bias-kept", "REDUCE-9", "", "tests/reducers"),
    bug("rank-last-of-equals", "REDUCE-10", "", "tests/reducers"),
    bug("last-is-first", "REDUCE-10", "reductions", "tests/reducers"),
    bug("reduce-limit-one-to-one", "REDUCE-11", "", "tests/reducers"),
    bug("reduce-names-match-whole", "REDUCE-12", "", "tests/reducers"),
    bug("laws-cut-in-two-only", "REDUCE-13", "", "tests/reducers"),
    // The command line.
    bug("cli-all-errors-are-one", "CLI-1", "", "tests/cli"),
    bug("cli-errors-of-many-lines", "CLI-2", "", "tests/cli"),
    bug("cli-counts-what-it-drops", "CLI-3", "", "tests/cli"),
    bug("cli-readers-lock", "CLI-4", "", "tests/cli"),
    bug("cli-dump-without-ancestors", "CLI-5", "", "tests/cli"),
    bug("cli-load-edits-revisions", "CLI-5", "", "tests/cli"),
    bug("cli-backup-cuts-the-footer", "CLI-6", "", "tests/cli"),
    bug("cli-tour-cuts-nothing", "CLI-7", "", "tests/cli"),
    bug("cli-view-locks-the-database", "CLI-9", "", "tests/cli"),
    bug("cli-view-deaf-to-ctrl-c", "CLI-10", "", "tests/cli"),
    bug("cli-acknowledges-early", "CLI-8 CRASH-22", "", "tests/crash_ace.rs"),
];
