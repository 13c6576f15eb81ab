//! Cheap checks, each of a few seconds at most, that planted bugs are tried on.
//!
//! Invariant: a check is silent about the engine as it is, and says what it found otherwise.

use rereduce_model::{CheckConfig, check_kv};

use super::model::{OnSimDisk, PROFILES};
use super::{Context, footer as footers, revtree, subject};
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
        Check { name: "footer", run: footer },
        Check { name: "model", run: model },
        Check { name: "revtree", run: |_| revtree::check(REVTREE_NODES, &mut |_| true).map(drop) },
    ]
}

/// Revisions of the largest trees.
const REVTREE_NODES: usize = 4;

/// Histories of the model check.
const HISTORIES: u64 = 20;

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
        (Verb::Sync, broken, 12),
        (Verb::Sync, broken.pages(Pages::Reverted), 12),
        (Verb::Append, Failure::new(Errno::NoSpace).written(700), 12),
        // Most calls read; those of an opening are among the first of every handle.
        (Verb::Read, broken, 120),
    ];
    for (verb, failure, last) in kinds {
        for nth in 1..=last {
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

fn footer(context: &Context) -> Result<(), String> {
    let figures = footers::run(&Context { loud: false, ..context.clone() })?;
    if figures.succeeded() { Ok(()) } else { Err(figures.to_string()) }
}

/// Histories without and with failing calls; each history is guarded against panics by itself.
fn model(context: &Context) -> Result<(), String> {
    for (profile, faults) in PROFILES.iter().flat_map(|profile| [(profile, false), (profile, true)])
    {
        let engine = OnSimDisk::new(profile, context.seed, faults)?;
        let (seed, histories) = (context.seed, HISTORIES);
        let config = CheckConfig { seed, histories, faults, ..CheckConfig::default() };
        check_kv(&engine, &config).map_err(|violation| violation.to_string())?;
    }
    Ok(())
}
