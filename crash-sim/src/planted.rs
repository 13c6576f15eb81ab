//! The table of planted bugs: what each breaks, and which checks should notice.
//!
//! Invariant: each name stands in the engine as `mark::planted("name")`, and every one there is
//! listed here; a test compares the two.

/// A deliberate mistake in the engine, switched on by name.
///
/// ```
/// let bugs = rereduce_crash_sim::PLANTED;
/// assert!(bugs.iter().all(|bug| !bug.violates.is_empty()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The name that the engine asks for.
    pub name: &'static str,
    /// Which requirements and cases it violates, by id.
    pub violates: &'static [&'static str],
    /// Which campaign checks should notice; each must.
    pub checks: &'static [&'static str],
}

/// All planted bugs.
pub const PLANTED: &[Planted] = &[
    Planted { name: "create-without-directory-sync", violates: &["FILE-4"], checks: &["crash"] },
    Planted { name: "commit-without-flush", violates: &["COMMIT-1"], checks: &["crash"] },
    Planted { name: "barrier-flush-left-out", violates: &["COMMIT-2"], checks: &["barrier"] },
    Planted { name: "cover-starts-late", violates: &["COMMIT-3", "B07"], checks: &["crash"] },
    Planted { name: "cover-not-checked", violates: &["RECOVER-1", "B07"], checks: &["crash"] },
    Planted { name: "footer-names-itself-flushed", violates: &["RECOVER-3"], checks: &["crash"] },
    Planted {
        name: "footer-checksum-ignored",
        violates: &["FOOTER-1", "B01", "B02"],
        checks: &["footer"],
    },
    Planted { name: "footer-of-any-file", violates: &["FOOTER-1"], checks: &["footer"] },
    Planted { name: "second-copy-left-out", violates: &["FOOTER-2", "B01"], checks: &["footer"] },
    Planted { name: "history-reads-copy-a-only", violates: &["FOOTER-2"], checks: &["footer"] },
    Planted { name: "chunk-checksum-ignored", violates: &["CHUNK-1"], checks: &["footer"] },
    Planted { name: "witness-ignored", violates: &["RECOVER-3"], checks: &["footer"] },
    Planted {
        name: "failed-write-not-poisoned",
        violates: &["COMMIT-5", "B04", "B44"],
        checks: &["failing"],
    },
    Planted {
        name: "unsealed-tail-not-rewritten",
        violates: &["RECOVER-4", "B44"],
        checks: &["failing"],
    },
    Planted {
        name: "read-error-means-older-commit",
        violates: &["RECOVER-2", "B06"],
        checks: &["failing"],
    },
    Planted { name: "publish-before-flush", violates: &["COMMIT-1", "B44"], checks: &["failing"] },
    Planted {
        name: "swap-without-directory-sync",
        violates: &["COMPACT-2", "B11"],
        checks: &["crash"],
    },
    Planted { name: "last-round-left-out", violates: &["COMPACT-1"], checks: &["model"] },
    Planted { name: "swap-without-agreement", violates: &["COMPACT-1", "B12"], checks: &["model"] },
    Planted { name: "reader-stays-on-old-file", violates: &["PROCESS-4"], checks: &["model"] },
    Planted {
        name: "two-compactions-at-once",
        violates: &["COMPACT-5", "B16"],
        checks: &["model"],
    },
    Planted { name: "reduce-end-off-by-one", violates: &["BTREE-11"], checks: &["model"] },
    Planted { name: "get-many-skips-behind-missing", violates: &["BTREE-1"], checks: &["model"] },
    Planted { name: "cache-ignores-budget", violates: &["BTREE-4"], checks: &["model"] },
    Planted { name: "cache-compares-offsets-only", violates: &["BTREE-4"], checks: &["model"] },
    Planted { name: "neighbours-not-merged", violates: &["BTREE-7"], checks: &["model"] },
    Planted { name: "separator-goes-stale", violates: &["BTREE-3"], checks: &["model"] },
    Planted { name: "diff-skips-other-height", violates: &["BTREE-13"], checks: &["model"] },
    Planted { name: "height-not-bounded", violates: &["BTREE-10"], checks: &["model"] },
    Planted { name: "duplicates-kept-twice", violates: &["BTREE-8"], checks: &["model"] },
    Planted { name: "first-duplicate-wins", violates: &["BTREE-8"], checks: &["model"] },
    Planted { name: "root-keeps-one-child", violates: &["BTREE-6"], checks: &["model"] },
    Planted { name: "json-first-member-stays", violates: &["TBD-1"], checks: &[] },
    Planted { name: "json-stored-zero-unsigned", violates: &["TBD-1"], checks: &[] },
    Planted { name: "publish-lost-wakeup", violates: &["TBD-1"], checks: &[] },
    Planted { name: "publish-silent-close", violates: &["TBD-1"], checks: &[] },
    Planted { name: "publish-torn", violates: &["TBD-1"], checks: &[] },
    Planted { name: "queue-exclusive-beside", violates: &["TBD-1"], checks: &[] },
    Planted { name: "queue-lone-wait", violates: &["TBD-1"], checks: &[] },
    Planted { name: "queue-no-gathering", violates: &["TBD-1"], checks: &[] },
    Planted { name: "queue-one-woken", violates: &["TBD-1"], checks: &[] },
    Planted { name: "queue-panic-unnoticed", violates: &["TBD-1"], checks: &[] },
    Planted { name: "queue-swapped-replies", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revid-bytes-as-list", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revid-members-sorted", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revid-zero-unsigned", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-first-root-only", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-identity-by-hash", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-latest-doubles", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-recreated-at-generation-1", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-stem-before-merge", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-stem-by-farthest-leaf", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-winner-ignores-deleted", violates: &["TBD-1"], checks: &[] },
    Planted { name: "revtree-winner-on-the-leftmost-path", violates: &["TBD-1"], checks: &[] },
];
