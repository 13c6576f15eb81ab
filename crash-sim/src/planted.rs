//! The table of planted bugs: what each breaks, and which checks should notice.
//!
//! Invariant: each name stands in the engine as `mark::planted("name")`, and every one there is
//! listed here; a test compares the two.

/// A deliberate mistake in the engine, switched on by name.
///
/// ```
/// let bugs = rereduce_crash_sim::PLANTED;
/// assert!(bugs.iter().all(|bug| !bug.breaks.is_empty()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The name that the engine asks for.
    pub name: &'static str,
    /// Which requirements and cases it breaks, by id.
    pub breaks: &'static [&'static str],
    /// Which campaign checks should notice; each must.
    pub checks: &'static [&'static str],
}

const fn bug(
    name: &'static str,
    breaks: &'static [&'static str],
    checks: &'static [&'static str],
) -> Planted {
    Planted { name, breaks, checks }
}

/// All planted bugs.
pub const PLANTED: &[Planted] = &[
    bug("create-without-directory-sync", &["FILE-4"], &["crash"]),
    bug("commit-without-flush", &["COMMIT-1"], &["crash"]),
    bug("barrier-flush-left-out", &["COMMIT-2"], &["barrier"]),
    bug("cover-starts-late", &["COMMIT-3", "B07"], &["crash"]),
    bug("cover-not-checked", &["RECOVER-1", "B07"], &["crash"]),
    bug("footer-names-itself-flushed", &["RECOVER-3"], &["crash"]),
    bug("footer-checksum-ignored", &["FOOTER-1", "B01", "B02"], &["crash"]),
    bug("failed-write-not-poisoned", &["COMMIT-5", "B04", "B44"], &["failing"]),
    bug("unsealed-tail-not-rewritten", &["RECOVER-4", "B44"], &["failing"]),
    bug("read-error-means-older-commit", &["RECOVER-2", "B06"], &["failing"]),
];
