//! `crash --nested`: the power fails again while the engine recovers, and again, to depth 3.
//!
//! Of every workload script some images of a first crash are drawn; each is opened and used, and
//! the power is cut at every crash point of that; and so on. `--target NAME` and `--workload NAME`
//! leave only these. The unit of `passed` is a distinct image at depth 1 or below: one that a crash
//! in recovery left.

use super::{Context, scripts, side_by_side, subject};
use crate::explore::Explorer;
use crate::fault::{FaultKind, FaultModel};
use crate::figures::Figures;
use crate::nested::{Met, NestedTally, NestedViolation, Nesting};
use crate::target::Workload;
use crate::targets;

/// Distinct images below the first crash that the quick form must reach.
const FLOOR: u64 = 10_000;

const QUICK: Nesting = Nesting { first: 6, choices: [2, 1, 1] };
const FULL: Nesting = Nesting { first: 32, choices: [4, 2, 1] };

/// What the descents showed.
#[derive(Default)]
struct Sum {
    tally: NestedTally,
    violations: Vec<(usize, NestedViolation)>,
}

pub(super) fn run(context: &Context, name: &'static str) -> Result<Figures, String> {
    let jobs = jobs(context)?;
    let explorer = Explorer { threads: 1, ..context.explorer(FaultModel::POWER) };
    let nesting = if context.quick { QUICK } else { FULL };
    let met = Met::default();
    let shown = |index: usize, (target, workload): &(&str, Workload)| {
        format!("{index} of {} workloads, now {target} {}", jobs.len(), workload.name)
    };
    let work = |index: usize, (target, workload): &(&str, Workload), sum: &mut Sum| {
        let (tally, violation) = subject(target)?.nest(&explorer, workload, nesting, &met)?;
        sum.tally.add(&tally);
        sum.violations.extend(violation.map(|violation| (index, violation)));
        Ok(())
    };
    let add = |sum: &mut Sum, other: Sum| {
        sum.tally.add(&other.tally);
        sum.violations.extend(other.violations);
    };
    let mut sum = side_by_side(context, &jobs, shown, work, add)?;
    sum.violations.sort_by_key(|(index, _)| *index);
    let failed = sum.violations.len() as u64;
    let first = sum.violations.into_iter().next().filter(|_| context.loud);
    if let Some((index, violation)) = first {
        let (target, workload) = &jobs[index];
        let less = subject(target)?.nest_less(&explorer, workload, QUICK, violation)?;
        context.say(format_args!("{less}\n"));
    }
    Ok(figures(context, name, &sum.tally, failed))
}

fn figures(context: &Context, name: &'static str, tally: &NestedTally, failed: u64) -> Figures {
    let mut figures = Figures::new(name, FLOOR);
    figures.count("workloads", tally.workloads);
    for (depth, distinct) in tally.distinct.iter().enumerate() {
        figures.count(format!("distinct images at depth {depth}"), *distinct);
    }
    figures.count("images", tally.images);
    let distinct: u64 = tally.distinct.iter().sum();
    figures.count("duplicates", tally.images - distinct);
    figures.count("openings that wrote nothing", tally.openings);
    figures.count(FaultKind::CrashInRecovery.name(), tally.in_recovery);
    figures.count("recoveries that wrote bytes again", tally.rewrites);
    figures.count("leftovers of compactions", tally.leftovers);
    figures.passed = tally.distinct.iter().skip(1).sum();
    figures.failed = failed;
    let hits = [tally.openings, tally.in_recovery, tally.rewrites, tally.leftovers];
    if hits.contains(&0) && !context.stopped() {
        context.say("something that this campaign is for never happened");
        figures.failed += 1;
    }
    figures.interrupted = context.stopped();
    figures
}

fn jobs(context: &Context) -> Result<Vec<(&'static str, Workload)>, String> {
    let wanted =
        |argument: &str, name: &str| context.argument(argument).is_none_or(|it| it == name);
    let mut jobs = Vec::new();
    for target in targets::CRASHED.iter().filter(|target| wanted("target", target)) {
        let workloads = scripts(context, target)?.into_iter();
        jobs.extend(workloads.filter(|it| wanted("workload", &it.name)).map(|it| (*target, it)));
    }
    match jobs.is_empty() {
        true => Err("there is no such --target and --workload".to_owned()),
        false => Ok(jobs),
    }
}
