//! Checks by the explorer: small workloads, every crash point, calls that fail.

use super::Outcome;
use crate::campaign::{Context, scripts, subject};
use crate::explore::Explorer;
use crate::fault::FaultModel;
use crate::plan::{Errno, Failure, Fault, Pages, Plan, Verb};
use crate::target::Workload;

/// Commits, replacements, removals, a kill, a clean close and a compaction.
const SCRIPT: &str = "commit a=1; commit b=k*3000; commit a=2 c=3; crash; commit a=-; reopen; \
                      commit d=4; compact; commit e=5";

/// Sets of survivors at one crash point.
const SETS_MAX: usize = 60;

/// The campaign tries several bugs at a time; each exploration has one thread.
pub(super) fn explorer(context: &Context, sets_max: usize) -> Explorer {
    Explorer { sets_max, threads: 1, ..context.explorer(FaultModel::POWER) }
}

fn workload(protocol: &str, script: &str) -> Result<Workload, String> {
    let mut workload = Workload::parse("check", script)?;
    workload.settings.push(("protocol".to_owned(), protocol.to_owned()));
    Ok(workload)
}

pub(super) fn power_cuts(context: &Context, protocol: &str) -> Outcome {
    let explorer = explorer(context, SETS_MAX);
    let (_, violation) = subject("store")?.find(&explorer, &workload(protocol, SCRIPT)?)?;
    violation.map_or(Ok(()), |violation| Err(violation.to_string().into()))
}

/// Every flush, append and read fails in turn, once; then the power fails too.
pub(super) fn failing_calls(context: &Context) -> Outcome {
    let script = "commit a=1; commit b=k*3000; crash; commit c=2; reopen; commit d=3";
    let (subject, workload) = (subject("store")?, workload("verified", script)?);
    let broken = Failure::new(Errno::InputOutput);
    let kinds = [
        (Verb::Sync, broken, 12),
        (Verb::Sync, broken.pages(Pages::Reverted), 12),
        (Verb::Append, Failure::new(Errno::NoSpace).written(700), 12),
        (Verb::Append, Failure::short_write(700), 12),
        (Verb::Read, Failure::short_read(5), 12),
        // Most calls read; those of an opening are among the first of every handle.
        (Verb::Read, broken, 120),
    ];
    for (verb, failure, last) in kinds {
        for nth in 1..=last {
            let plan = Plan::default().and(Fault { verb, nth, failure, forever: false });
            let explorer = Explorer { plan, ..explorer(context, 12) };
            if let Some(violation) = subject.find(&explorer, &workload)?.1 {
                return Err(violation.to_string().into());
            }
        }
    }
    Ok(())
}

/// Every script of the database, with the images that survive whole or not at all.
pub(super) fn workloads(context: &Context) -> Outcome {
    let (explorer, subject) = (explorer(context, 2), subject("db")?);
    for workload in scripts(context, "db")? {
        if let Some(violation) = subject.find(&explorer, &workload)?.1 {
            return Err(violation.to_string().into());
        }
    }
    Ok(())
}
