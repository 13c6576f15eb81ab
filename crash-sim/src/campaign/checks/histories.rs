//! Checks by the model: random histories without and with failing calls; each history is guarded
//! against panics by itself.

use super::Outcome;
use crate::campaign::Context;
use crate::campaign::model::PROFILES;

/// Histories for each profile, with and without failing calls.
const HISTORIES: u64 = 20;
const DB_HISTORIES: u64 = 40;

pub(super) fn of_the_store(context: &Context) -> Outcome {
    histories(context, "store", HISTORIES)
}

pub(super) fn of_the_database(context: &Context) -> Outcome {
    histories(context, "db", DB_HISTORIES)
}

fn histories(context: &Context, engine: &str, count: u64) -> Outcome {
    for profile in PROFILES.iter().filter(|profile| profile.engine == engine) {
        for faults in [false, true] {
            let report = profile.check(context.seed, count, faults);
            report.map_err(|violation| violation.to_string())?;
        }
    }
    Ok(())
}
