//! `ioerr`: every disk call of every workload goes wrong in turn, once and from then on.
//!
//! A workload is run once to count its calls; then once for each call and each way in which that
//! call can go wrong. After each run the faults are lifted and it must open and work; after some,
//! the power is cut as well. `--target NAME` and `--workload NAME` leave only these, `--runs N`
//! chooses so many of the runs.
//!
//! Invariant: a run is chosen by the seed alone, and in every form each workload meets each kind of
//! fault that its calls can suffer. The unit of `passed` is a run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rereduce::mark;

use super::{Context, Progress, scripts, subject};
use crate::explore::{Explorer, Tally, Violation};
use crate::fault::FaultModel;
use crate::figures::Figures;
use crate::plan::{Errno, Failure, Fault, Pages, Plan, Verb};
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

/// The kinds of fault that this campaign injects, by number and name.
const KINDS: [(usize, &str); 5] = [
    (12, "sync-error-kept"),
    (13, "sync-error-reverted"),
    (15, "read-error"),
    (16, "write-error"),
    (17, "no-space"),
];

/// One workload, and what its calls can suffer.
struct Stage {
    target: &'static str,
    workload: Workload,
    /// For each kind, the faults of that kind.
    faults: Vec<Vec<Fault>>,
}

/// One run to make.
#[derive(Clone, Copy)]
struct Job<'a> {
    stage: &'a Stage,
    kind: usize,
    fault: Fault,
    power: bool,
}

/// What the runs showed.
#[derive(Default)]
struct Sum {
    runs: u64,
    failed: u64,
    kinds: [u64; KINDS.len()],
    evidence: Evidence,
    tally: Tally,
    /// Of each kind, the first job that failed.
    violations: [Option<(usize, Violation)>; KINDS.len()],
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
    for ((_, name), count) in KINDS.iter().zip(sum.kinds) {
        figures.count(*name, count);
        if count == 0 && !context.stopped() {
            context.say(format_args!("no run met the fault kind {name}"));
            figures.failed += 1;
        }
    }
    figures.count("calls failed", sum.evidence.failures);
    figures.count("power cuts", sum.tally.points);
    figures.count("distinct images", sum.tally.distinct);
    figures.count("handles tried after a failed write", sum.evidence.poisonings);
    figures.count("of them refused writes", sum.evidence.refusals);
    for (index, violation) in sum.violations.into_iter().flatten() {
        let Some(job) = jobs.get(index) else { continue };
        let plans = |nth| Some(Plan::default().and(Fault { nth, ..job.fault }));
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
        for workload in scripts(context, target)? {
            if wanted("workload", &workload.name) {
                let trace = subject(target)?.trace(context.seed, &workload)?;
                stages.push(Stage { target, workload, faults: faults(&trace.entries) });
            }
        }
    }
    if stages.is_empty() {
        return Err("there is no such --target and --workload".to_owned());
    }
    Ok(stages)
}

/// Everything that can go wrong with the calls of a trace, by kind.
fn faults(trace: &[Entry]) -> Vec<Vec<Fault>> {
    let mut seen: Vec<(Verb, u64)> = Vec::new();
    let mut faults = vec![Vec::new(); KINDS.len()];
    for entry in trace {
        let Entry::Call(call, None) = entry else { continue };
        let verb = verb(call);
        let index = seen.iter().position(|(other, _)| *other == verb).unwrap_or_else(|| {
            seen.push((verb, 0));
            seen.len() - 1
        });
        seen[index].1 += 1;
        for (kind, failure) in failures(call) {
            let Some(slot) = KINDS.iter().position(|(number, _)| *number == kind) else { continue };
            for forever in [false, true] {
                faults[slot].push(Fault { verb, nth: seen[index].1, failure, forever });
            }
        }
    }
    faults
}

/// The ways in which `call` can go wrong, by kind.
fn failures(call: &Call) -> Vec<(usize, Failure)> {
    let (broken, full) = (Failure::new(Errno::InputOutput), Failure::new(Errno::NoSpace));
    match call {
        Call::Sync { .. } => vec![(12, broken), (13, broken.pages(Pages::Reverted))],
        Call::SyncDir { .. } => vec![(12, broken)],
        Call::Append { bytes, .. } => {
            let (half, most) = (bytes.len() as u64 / 2, bytes.len() as u64 - 1);
            vec![(16, broken), (16, broken.written(half)), (17, full), (17, full.written(most))]
        }
        Call::Create { .. } => vec![(16, broken), (17, full)],
        Call::Rename { .. } | Call::Remove { .. } | Call::Rewrite { .. } => vec![(16, broken)],
        Call::Open { .. } | Call::Lock { .. } | Call::Identify { .. } => vec![(15, broken)],
        Call::List { .. } | Call::Read { .. } => vec![(15, broken)],
    }
}

fn verb(call: &Call) -> Verb {
    match call {
        Call::Open { .. } => Verb::Open,
        Call::Create { .. } => Verb::Create,
        Call::Lock { .. } => Verb::Lock,
        Call::Identify { .. } => Verb::Identify,
        Call::List { .. } => Verb::List,
        Call::Rename { .. } => Verb::Rename,
        Call::Remove { .. } => Verb::Remove,
        Call::SyncDir { .. } => Verb::SyncDir,
        Call::Append { .. } => Verb::Append,
        Call::Read { .. } => Verb::Read,
        Call::Rewrite { .. } => Verb::Rewrite,
        Call::Sync { .. } => Verb::Sync,
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
                let fault = list[(first + index * list.len() / taken) % list.len()];
                let power = jobs.len() % POWER_EVERY == 0;
                jobs.push(Job { stage, kind, fault, power });
            }
        }
    }
    Ok(jobs)
}

/// Makes all runs, on as many threads as an explorer uses.
fn work(context: &Context, explorer: &Explorer, jobs: &[Job<'_>]) -> Result<Sum, String> {
    let (next, sum) = (AtomicUsize::new(0), Mutex::new(Ok(Sum::default())));
    let progress = Progress::new(context);
    let planted = mark::planted_here();
    let worker = |shows: bool| {
        mark::plant(planted);
        let done = some_of(context, explorer, jobs, &next, shows.then_some(&progress));
        let mut sum = sum.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match (&mut *sum, done) {
            (Ok(sum), Ok(done)) => sum.add(done),
            (Ok(_), Err(error)) => *sum = Err(error),
            (Err(_), _) => {}
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..Explorer::new(explorer.model).threads {
            scope.spawn(|| worker(false));
        }
        worker(true);
    });
    sum.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes one run after the other until there is none left.
fn some_of(
    context: &Context,
    explorer: &Explorer,
    jobs: &[Job<'_>],
    next: &AtomicUsize,
    progress: Option<&Progress>,
) -> Result<Sum, String> {
    let mut sum = Sum::default();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(index).filter(|_| !context.stopped()) else { return Ok(sum) };
        if let (Some(progress), true) = (progress, index.is_multiple_of(64)) {
            let (target, workload) = (job.stage.target, &job.stage.workload.name);
            progress.show(format_args!("{index} of {} runs, now {target} {workload}", jobs.len()));
        }
        let explorer = Explorer { plan: Plan::default().and(job.fault), ..explorer.clone() };
        let (subject, workload) = (subject(job.stage.target)?, &job.stage.workload);
        let before = sum.evidence.failures;
        let (tally, violation) =
            subject.endure(&explorer, workload, job.power, &mut sum.evidence)?;
        sum.runs += 1;
        sum.kinds[job.kind] += u64::from(sum.evidence.failures > before);
        sum.tally.add(&tally);
        if let Some(violation) = violation {
            sum.failed += 1;
            sum.violations[job.kind].get_or_insert((index, violation));
        }
    }
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
