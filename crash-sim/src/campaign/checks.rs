//! Cheap checks, each of a few seconds at most, that planted bugs are tried on.
//!
//! Invariant: a check is silent about the engine as it is, and says what it found otherwise.

use super::{Context, subject};
use crate::explore::Explorer;
use crate::fault::FaultModel;
use crate::plan::{Errno, Failure, Fault, Pages, Plan, Verb};
use crate::target::Workload;

/// A check by name.
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) run: fn(&Context) -> Result<(), String>,
}

/// All checks.
pub(super) fn all() -> Vec<Check> {
    vec![
        Check { name: "crash", run: |context| crash(context, "verified") },
        Check { name: "barrier", run: |context| crash(context, "barrier") },
        Check { name: "failing", run: failing },
    ]
}

/// Commits, replacements, removals, a kill, a clean close and a compaction.
const SCRIPT: &str = "commit a=1; commit b=k*3000; commit a=2 c=3; crash; commit a=-; reopen; \
                      commit d=4; compact; commit e=5";

/// Sets of survivors at one crash point.
const SETS_MAX: usize = 60;

fn workload(protocol: &str, script: &str) -> Result<Workload, String> {
    let mut workload = Workload::parse("check", script)?;
    workload.settings.push(("protocol".to_owned(), protocol.to_owned()));
    Ok(workload)
}

fn crash(context: &Context, protocol: &str) -> Result<(), String> {
    let explorer = Explorer { sets_max: SETS_MAX, ..context.explorer(FaultModel::POWER) };
    let (_, violation) = subject("store")?.find(&explorer, &workload(protocol, SCRIPT)?)?;
    violation.map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// Every flush, append and read fails in turn, once; then the power fails too.
fn failing(context: &Context) -> Result<(), String> {
    let script = "commit a=1; commit b=k*3000; crash; commit c=2; reopen; commit d=3";
    let (subject, workload) = (subject("store")?, workload("verified", script)?);
    let broken = Failure::new(Errno::InputOutput);
    let kinds = [
        (Verb::Sync, broken),
        (Verb::Sync, broken.pages(Pages::Reverted)),
        (Verb::Append, Failure::new(Errno::NoSpace).written(700)),
        (Verb::Read, broken),
    ];
    for (verb, failure) in kinds {
        for nth in 1..=12 {
            let plan = Plan::default().and(Fault { verb, nth, failure, forever: false });
            let mut explorer = context.explorer(FaultModel::POWER);
            (explorer.sets_max, explorer.plan) = (12, plan);
            if let Some(violation) = subject.find(&explorer, &workload)?.1 {
                return Err(violation.to_string());
            }
        }
    }
    Ok(())
}
