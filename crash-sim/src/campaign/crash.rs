//! `crash`: every workload script, on a disk that can do all that a power cut can do.
//!
//! The unit of `passed` is a distinct image: a set of file bytes that no workload had led to
//! before, opened and found equal to the model at a commit that may stand there.

use std::collections::BTreeMap;
use std::path::Path;

use super::accounting::{Account, account};
use super::{Context, Progress, nested, scripts, subject};
use crate::explore::Tally;
use crate::fault::{FaultKind, FaultModel};
use crate::figures::Figures;
use crate::oracle::DATABASE;
use crate::target::Workload;
use crate::targets;

/// Distinct images that the quick form must reach.
const FLOOR: u64 = 50_000;

/// Sets of survivors at one crash point in the quick form.
const QUICK_SETS_MAX: usize = 160;

/// Operations of a generated workload.
const GENERATED_OPERATIONS: usize = 12;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    if context.argument("nested").is_some() {
        return nested::run(context, "crash");
    }
    let mut work = Vec::new();
    for target in targets::CRASHED {
        for workload in scripts(context, target)? {
            work.push((*target, workload));
        }
        let generated = if context.quick { 4 } else { 120 };
        for index in 0..generated {
            let seed = context.seed.wrapping_mul(1000) + index;
            work.push((*target, subject(target)?.workload(GENERATED_OPERATIONS, seed)));
        }
    }
    let sets_max = match context.argument("sets") {
        Some(sets) => sets.parse().map_err(|_| format!("--sets {sets}: not a number"))?,
        None if context.quick => QUICK_SETS_MAX,
        None => usize::MAX,
    };
    explore(context, &work, sets_max)
}

fn explore(
    context: &Context,
    work: &[(&str, Workload)],
    sets_max: usize,
) -> Result<Figures, String> {
    let mut explorer = context.explorer(FaultModel::POWER);
    explorer.sets_max = sets_max;
    let (mut sum, mut books, mut failed) = (Tally::default(), Account::default(), 0);
    let mut shares: BTreeMap<&str, Tally> = BTreeMap::new();
    let progress = Progress::new(context);
    for (target, workload) in work {
        if context.stopped() {
            break;
        }
        let done = format!("{} images, {} distinct", sum.images, sum.distinct);
        progress.show(format_args!("{done}, now {target} {}", workload.name));
        let (tally, violation) = subject(target)?.crash(&explorer, workload)?;
        // A run that went wrong by itself is a violation already.
        if let Ok(traced) = subject(target)?.traced(context.seed, workload) {
            let account = account(&traced.entries, &traced.changed, Path::new(DATABASE));
            for missing in &account.missing {
                context.say(format_args!("{target} {}: missing {missing}", workload.name));
            }
            books.add(account);
        }
        if context.argument("verbose").is_some() {
            context.say(format_args!("{target} {}: {tally:?}", workload.name));
        }
        sum.add(&tally);
        shares.entry(target).or_default().add(&tally);
        if let Some(violation) = violation {
            failed += 1;
            context.report(&violation);
        }
    }
    drop(progress);
    let mut figures = Figures::new("crash", FLOOR);
    figures.count("workloads", sum.workloads);
    for (target, share) in &shares {
        figures.count(format!("of {target}"), share.workloads);
        figures.count(format!("distinct images of {target}"), share.distinct);
    }
    figures.count("crash points", sum.points);
    figures.count("images", sum.images);
    figures.count("duplicates", sum.images - sum.distinct);
    figures.count("in depth", sum.in_depth);
    for (kind, count) in FaultKind::CRASH.iter().zip(sum.kinds) {
        figures.count(kind.to_string(), count);
        // A kind that never occurred was not tested. An engine that flushes before it renames
        // never offers the one that is left out.
        if count == 0 && *kind != FaultKind::RenameWithoutData {
            context.say(format_args!("no image shows the fault kind {kind}"));
            failed += 1;
        }
    }
    let missing = books.missing.len() as u64;
    context.say(format_args!(
        "commits accounted {}, seals {}, renames {}, creations {}, tails {}, missing {missing}",
        books.commits, books.seals, books.renames, books.creates, books.tails
    ));
    figures.count("commits accounted", books.commits);
    figures.count("missing flushes", missing);
    figures.passed = sum.distinct;
    figures.failed = failed + missing;
    figures.interrupted = context.stopped();
    Ok(figures)
}
