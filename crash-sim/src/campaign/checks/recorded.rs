//! What was written down once: the golden scripts, and the recordings of CouchDB.
//!
//! Both are tests of the root; the same files are part of this crate too, so that planted bugs can
//! be tried on them in one build.

use super::Outcome;
use crate::campaign::Context;

#[path = "../../../../tests/golden_revids.rs"]
#[allow(dead_code)] // what only the tests there use
mod golden_revids;
#[path = "../../../../tests/golden/main.rs"]
#[allow(dead_code)] // what only the tests there use
mod golden_scripts;

/// All golden scripts.
pub(super) fn golden(_: &Context) -> Outcome {
    let differences = golden_scripts::differences_in_all();
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
}

/// All recorded leaves and requests. They panic where something differs.
pub(super) fn recordings(_: &Context) -> Outcome {
    golden_revids::everything_is_as_recorded();
    Ok(())
}
