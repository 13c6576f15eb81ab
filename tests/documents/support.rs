//! What the tests of documents have in common.

/// Runs `check` with one planted bug and says whether it failed, as it must.
pub(crate) fn turns_red(bug: &'static str, check: impl Fn() + std::panic::UnwindSafe) -> bool {
    let before = rereduce::mark::plant(Some(bug));
    let outcome = std::panic::catch_unwind(check);
    rereduce::mark::plant(before);
    outcome.is_err()
}
