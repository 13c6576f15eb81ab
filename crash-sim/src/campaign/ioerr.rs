//! `ioerr`: every disk call of every workload goes wrong in turn, once and from then on.
//!
//! A workload is run once to count its calls; then once for each call and each way in which that
//! call can go wrong. After each run the faults are lifted and it must open and work; after some,
//! the power is cut as well. `--target NAME` and `--workload NAME` leave only these, `--runs N`
//! chooses so many of the runs.
//!
//! Invariant: a run is chosen by the seed alone, and in every form each workload meets each kind of
//! fault that its calls can suffer. The unit of `passed` is a run.

use std::collections::BTreeMap;

use super::{Context, scripts, side_by_side, subject};
use crate::explore::{Explorer, Tally, Violation};
use crate::fault::{FaultKind, FaultModel};
use crate::figures::Figures;
use crate::plan::{Errno, Failure, Fault, Pages, Plan, PlanItem, Verb};
use crate::random::Random;
use crate::run::Evidence;
use crate::target::Workload;
use crate::targets;
use crate::trace::{Call, Entry};

/// Runs that the quick form must make.
const FLOOR: u64 = 5_000;

/// Runs that the quick form chooses.
const QUICK_RUNS: usize = 5_400;

/// One run in so many ends with power cuts.
const POWER_EVERY: usize = 16;

/// Sets of survivors at each crash point of such a run.
const POWER_SETS_MAX: usize = 3;

/// Sizes of the disk that a workload is tried on.
const QUOTAS: u64 = 24;

/// One workload, and what its calls can suffer.
struct Stage {
    target: &'static str,
    workload: Workload,
    /// For each of [`FaultKind::CALL`], what can go wrong in this way.
    faults: Vec<Vec<PlanItem>>,
}

/// One run to make.
struct Job<'a> {
    stage: &'a Stage,
    kind: usize,
    fault: &'a PlanItem,
    power: bool,
}

/// What the runs showed.
#[derive(Default)]
struct Sum {
    runs: u64,
    failed: u64,
    kinds: [u64; FaultKind::CALL.len()],
    evidence: Evidence,
    tally: Tally,
    /// Of each kind, the first job that failed.
    violations: [Option<(usize, Violation)>; FaultKind::CALL.len()],
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let stages = stages(context)?;
    let jobs = choose(context, &stages)?;
    let explorer =
        Explorer { sets_max: POWER_SETS_MAX, threads: 1, ..context.explorer(FaultModel::POWER) };
    let sum = work(context, &explorer, &jobs)?;
    let mut figures = Figures::new("ioerr", FLOOR);
    figures.count("runs", sum.runs);
    figures.count("workloads", stages.len() as u64);
    figures.failed = sum.failed;
    for (kind, count) in FaultKind::CALL.iter().zip(sum.kinds) {
        figures.count(kind.name(), count);
        if count == 0 && !context.stopped() {
            context.say(format_args!("no run met the fault kind {kind}"));
            figures.failed += 1;
        }
    }
    figures.count("calls failed", sum.evidence.failures);
    figures.count("power cuts", sum.tally.points);
    figures.count("distinct images", sum.tally.distinct);
    figures.count("handles tried after a failed write", sum.evidence.poisonings);
    figures.count("of them refused writes", sum.evidence.refusals);
    // Making them small is for people.
    let violations = sum.violations.into_iter().flatten().filter(|_| context.loud);
    for (index, violation) in violations {
        let Some(job) = jobs.get(index) else { continue };
        let plans = |nth| job.fault_at(nth);
        let (subject, workload) = (subject(job.stage.target)?, &job.stage.workload);
        let least = subject.endure_less(&explorer, workload, job.power, &plans, violation)?;
        context.report(&least);
    }
    figures.passed = sum.runs - sum.failed;
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// The workloads that are wanted, with all faults of their calls.
fn stages(context: &Context) -> Result<Vec<Stage>, String> {
    let wanted =
        |argument: &str, name: &str| context.argument(argument).is_none_or(|it| it == name);
    let mut stages = Vec::new();
    for target in targets::CRASHED.iter().filter(|target| wanted("target", target)) {
        let subject = subject(target)?;
        for workload in
            scripts(context, target)?.into_iter().filter(|it| wanted("workload", &it.name))
        {
            let trace = subject.traced(context.seed, &workload)?;
            stages.push(Stage { target, workload, faults: faults(&trace.entries) });
        }
    }
    if stages.is_empty() {
        return Err("there is no such --target and --workload".to_owned());
    }
    Ok(stages)
}

/// Everything that can go wrong with the calls of a trace, by kind.
fn faults(trace: &[Entry]) -> Vec<Vec<PlanItem>> {
    let mut seen: BTreeMap<Verb, u64> = BTreeMap::new();
    let mut faults = vec![Vec::new(); FaultKind::CALL.len()];
    let mut add = |kind: FaultKind, item: &PlanItem| {
        for (list, _) in faults.iter_mut().zip(FaultKind::CALL).filter(|(_, it)| *it == kind) {
            list.push(item.clone());
        }
    };
    let mut bytes_written = 0;
    for entry in trace {
        let Entry::Call(call, None) = entry else { continue };
        if let Call::Append { bytes, .. } = call {
            bytes_written += bytes.len() as u64;
        }
        let verb = Verb::of(call);
        let nth = *seen.entry(verb).and_modify(|count| *count += 1).or_insert(1);
        for failure in failures(call) {
            for forever in [false, true] {
                let fault = Fault { verb, nth, failure, forever };
                if fault.makes_sense().is_ok() {
                    add(failure.kind(call), &PlanItem::Fault(fault));
                }
            }
        }
    }
    for part in 0..QUOTAS {
        add(FaultKind::ResourceLimit, &PlanItem::Quota(bytes_written * part / QUOTAS));
    }
    faults
}

/// The ways in which `call` can go wrong.
fn failures(call: &Call) -> Vec<Failure> {
    let (broken, full) = (Failure::new(Errno::InputOutput), Failure::new(Errno::NoSpace));
    let (late, interrupted) = (Failure::late(Errno::InputOutput), Failure::new(Errno::Interrupted));
    let reverted = |failure: Failure| failure.pages(Pages::Reverted);
    match call {
        Call::Sync { .. } => {
            let lie = Failure::lie();
            vec![broken, reverted(broken), late, reverted(late), lie, interrupted]
        }
        Call::SyncDir { .. } => vec![broken, Failure::lie(), interrupted],
        Call::Append { bytes, .. } => {
            let (half, most) = (bytes.len() as u64 / 2, (bytes.len() as u64).saturating_sub(1));
            let short = Failure::short_write;
            let errors = [broken, broken.written(half), full, full.written(most)];
            let parts = [short(0), short(half), interrupted, interrupted.written(most)];
            [errors, parts].concat()
        }
        Call::Rewrite { length, .. } => {
            vec![broken, Failure::short_write(length / 2), interrupted]
        }
        Call::Create { .. } => vec![broken, full, interrupted],
        Call::Rename { .. } | Call::Remove { .. } => vec![broken, interrupted],
        Call::Read { length, .. } => {
            vec![broken, Failure::short_read((length / 2).max(1)), interrupted]
        }
        Call::Open { .. } | Call::Lock { .. } | Call::Identify { .. } | Call::List { .. } => {
            vec![broken, interrupted]
        }
    }
}

impl Job<'_> {
    /// The plan that lets the `nth` call fail in the way of this job; of a quota there is one.
    fn fault_at(&self, nth: u64) -> Option<Plan> {
        match *self.fault {
            PlanItem::Fault(fault) => Some(Plan::default().and(Fault { nth, ..fault })),
            PlanItem::Quota(bytes) => (nth == 1).then(|| Plan::default().quota(bytes)),
            // Damage at rest strikes no call.
            PlanItem::Damage(_) => None,
        }
    }

    fn plan(&self) -> Plan {
        match *self.fault {
            PlanItem::Fault(fault) => Plan::default().and(fault),
            PlanItem::Quota(bytes) => Plan::default().quota(bytes),
            PlanItem::Damage(_) => Plan::default(),
        }
    }
}

/// The runs to make: all of them, or as many as are wanted, spread evenly over workloads and kinds.
fn choose<'a>(context: &Context, stages: &'a [Stage]) -> Result<Vec<Job<'a>>, String> {
    let wanted = match context.argument("runs") {
        Some(runs) => runs.parse().map_err(|_| format!("--runs {runs}: not a number"))?,
        None if context.quick => QUICK_RUNS,
        None => usize::MAX,
    };
    let lists = || stages.iter().flat_map(|stage| stage.faults.iter());
    let most = lists().map(Vec::len).max().unwrap_or(0);
    // So many of each list make as many as are wanted, or all there are.
    let enough =
        |share: &usize| lists().map(|list| list.len().min(*share)).sum::<usize>() >= wanted;
    let share = (1..most).find(enough).unwrap_or(most);
    let mut random = Random::new(context.seed);
    let mut jobs = Vec::new();
    for stage in stages {
        for (kind, list) in stage.faults.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            let taken = share.min(list.len());
            let first = random.below(list.len() as u64) as usize;
            for index in 0..taken {
                let fault = &list[(first + index * list.len() / taken) % list.len()];
                let power = jobs.len() % POWER_EVERY == 0;
                jobs.push(Job { stage, kind, fault, power });
            }
        }
    }
    Ok(jobs)
}

/// Makes all runs.
fn work(context: &Context, explorer: &Explorer, jobs: &[Job<'_>]) -> Result<Sum, String> {
    let shown = |index: usize, job: &Job<'_>| {
        let (target, workload) = (job.stage.target, &job.stage.workload.name);
        format!("{index} of {} runs, now {target} {workload}", jobs.len())
    };
    let work = |index: usize, job: &Job<'_>, sum: &mut Sum| {
        let explorer = Explorer { plan: job.plan(), ..explorer.clone() };
        let subject = subject(job.stage.target)?;
        let kind = FaultKind::CALL[job.kind].number() - 1;
        let before = sum.evidence.struck[kind];
        let (tally, violation) =
            subject.endure(&explorer, &job.stage.workload, job.power, &mut sum.evidence)?;
        sum.runs += 1;
        sum.kinds[job.kind] += u64::from(sum.evidence.struck[kind] > before);
        sum.tally.add(&tally);
        if let Some(violation) = violation {
            sum.failed += 1;
            sum.violations[job.kind].get_or_insert((index, violation));
        }
        Ok(())
    };
    side_by_side(context, jobs, shown, work, Sum::add)
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.runs += other.runs;
        self.failed += other.failed;
        self.tally.add(&other.tally);
        self.evidence.add(other.evidence);
        for (mine, others) in self.kinds.iter_mut().zip(other.kinds) {
            *mine += others;
        }
        for (mine, others) in self.violations.iter_mut().zip(other.violations) {
            let found = [mine.take(), others].into_iter().flatten();
            *mine = found.min_by_key(|(index, _)| *index);
        }
    }
}
