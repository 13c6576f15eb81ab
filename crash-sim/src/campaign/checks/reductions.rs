//! The reductions that CouchDB answered, once more: the tests of the root that replay them.
//!
//! The bugs that this check is named for are shown in the tests by others: by sums of a table, by
//! laws, by names.

use super::Outcome;
use crate::campaign::Context;

#[path = "../../../../tests/reducers/golden.rs"]
#[allow(dead_code)] // what only the tests there use
mod golden;
#[path = "../../../../tests/reducers/support.rs"]
#[allow(dead_code)] // what only the tests there use
mod support;

/// Recordings that take a moment only.
const SHORT: [&str; 6] = [
    "2-reduce-dates",
    "2-view-errors",
    "2-view-incremental",
    "5-error-places",
    "5-kinds",
    "5-ranked",
];

/// The reductions of short recordings. They panic where something differs.
pub(super) fn reductions(_: &Context) -> Outcome {
    let mut recordings = golden::RECORDINGS.to_vec();
    recordings.retain(|(name, _)| SHORT.contains(name));
    golden::every_recorded_reduction_is_answered(&recordings);
    Ok(())
}
