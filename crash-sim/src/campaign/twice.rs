//! `twice`: the same seed leads to the same disk calls, bytes and answers, every time.
//!
//! The unit of `passed` is a seed. All that crash-sim says rests on this: a violation that does not
//! come back cannot be shrunk, replayed or shown to be mended.
//!
//! Invariant: a run touches nothing but its own disk, and what differs is told by the first call in
//! which two runs part.

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::{Context, Progress};
use crate::explore::Explorer;
use crate::fault::FaultModel;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::random::Random;
use crate::subject::Subject;
use crate::target::{Target, Workload};
use crate::targets;
use crate::{DATABASE, Entry, SimDisk, environment, guarded};

/// Seeds that the quick form runs, and must pass.
const FLOOR: u64 = 20;

/// Seeds of the full form.
const SEEDS: u64 = 200;

/// One seed in so many is also explored on several threads.
const THREADS_EVERY: u64 = 5;

/// Sets of survivors at each crash point of such an exploration.
const SETS_MAX: usize = 12;

/// Operations of a workload, at most.
const OPERATIONS_MAX: u64 = 16;

/// Options that both targets know; each seed takes one line.
const SETTINGS: [&str; 6] = [
    "",
    "fan-out=2",
    "fan-out=4 cache=300",
    "fan-out=2 cache=1000000",
    "protocol=barrier",
    "fan-out=10000 cache=1000000",
];

/// What goes wrong in every other run: which calls, and how.
const FAULTS: [&str; 10] = [
    "append N EIO",
    "append N ENOSPC written=100",
    "sync N EIO",
    "sync N EIO pages=reverted",
    "sync_dir N EIO",
    "rewrite N EIO",
    "read N EIO",
    "any N EIO",
    "append N ENOSPC written=1 forever",
    "sync N EIO forever",
];

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let seeds = match context.argument("seeds") {
        Some(seeds) => seeds.parse().map_err(|_| format!("--seeds {seeds}: not a number"))?,
        None if context.quick => FLOOR,
        None => SEEDS,
    };
    let mut figures = Figures::new("twice", FLOOR.min(seeds));
    let (mut calls, mut bytes, mut failing, mut threaded) = (0, 0, 0, 0);
    let progress = Progress::new(context);
    let subjects = targets::all();
    for number in 0..seeds {
        if context.stopped() {
            break;
        }
        progress.show(format_args!("{number} of {seeds} seeds"));
        let seed = context.seed.wrapping_mul(10_007).wrapping_add(number);
        let subject = &*subjects[number as usize % subjects.len()];
        let (workload, plan) = draw(subject, seed);
        let mut run = || {
            let first = run_twice(subject, &workload, seed, &plan)?;
            calls += first.trace.len() as u64;
            bytes += first.files.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
            failing += u64::from(first.failures > 0);
            if number % THREADS_EVERY == 0 {
                threaded += 1;
                same_on_any_threads(subject, &workload, seed)?;
            }
            Ok::<(), String>(())
        };
        match run() {
            Ok(()) => figures.passed += 1,
            Err(found) => {
                figures.failed += 1;
                let (called, script) = (subject.called(), workload.lines.join("; "));
                context
                    .say(format_args!("{called}, seed {seed}, plan {plan}: {found}\n  {script}"));
            }
        }
    }
    drop(progress);
    figures.count("disk calls compared", calls);
    figures.count("bytes of files compared", bytes);
    figures.count("seeds with failing calls", failing);
    figures.count("seeds on 1, 2 and 3 threads", threaded);
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// The workload of a seed, and what fails in it; nothing in half of them.
fn draw(subject: &dyn Subject, seed: u64) -> (Workload, Plan) {
    let mut random = Random::new(seed);
    let count = 4 + random.below(OPERATIONS_MAX - 3) as usize;
    let mut workload = subject.workload(count, seed);
    let settings = SETTINGS[random.below(SETTINGS.len() as u64) as usize];
    let pairs = settings.split_whitespace().filter_map(|setting| setting.split_once('='));
    workload.settings = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if random.below(2) == 0 {
        return (workload, Plan::default());
    }
    let fault = FAULTS[random.below(FAULTS.len() as u64) as usize];
    let text = fault.replacen(" N", &format!(" {}", 1 + random.below(12)), 1);
    // The faults above are ones that plans know.
    (workload, text.parse().expect("a plan of known faults"))
}

/// All that a run did and showed.
///
/// ```
/// use rereduce_crash_sim::{KvTarget, Plan, Rerun, StoreOpener};
/// let ops = ["commit a=1".parse().unwrap()];
/// let run = Rerun::of(&KvTarget(StoreOpener::default()), &ops, 1, &Plan::default())?;
/// assert_eq!(run.files.len(), 1);
/// assert_eq!(run.failures, 0);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerun {
    /// Every call to the disk, reads too, with notes of what began and was acknowledged.
    pub trace: Vec<Entry>,
    /// The files in the end, by name.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// What each operation answered, and a hash of what readers saw then.
    pub answers: Vec<String>,
    /// How many calls failed by plan.
    pub failures: u64,
}

impl Rerun {
    /// Runs `ops` on an empty disk whose calls fail as `plan` says; then the faults are lifted and
    /// the database is opened and read once more. Nothing is compared with a model.
    ///
    /// # Errors
    ///
    /// If the engine panics.
    pub fn of<T: Target>(
        target: &T,
        ops: &[T::Op],
        seed: u64,
        plan: &Plan,
    ) -> Result<Rerun, String> {
        guarded(|| {
            let disk = SimDisk::new();
            disk.set_plan(plan.clone());
            let env = environment(&disk, seed);
            let mut answers = Vec::new();
            let see = |handle: &T::Handle| match target.state(handle) {
                Ok(state) => format!("{:016x}", xxh3_64(format!("{state:?}").as_bytes())),
                Err(error) => error.to_string(),
            };
            match target.open(&env, Path::new(DATABASE)) {
                Err(error) => answers.push(error.to_string()),
                Ok(mut handle) => {
                    for (number, op) in (1..).zip(ops) {
                        disk.note(Entry::Began(number));
                        let answer = match target.apply(&mut handle, op) {
                            Ok(()) => {
                                disk.note(Entry::Acknowledged(number));
                                "done".to_owned()
                            }
                            Err(error) => error.to_string(),
                        };
                        answers.push(format!("{op}: {answer}, then {}", see(&handle)));
                    }
                }
            }
            let failures = disk.failures();
            disk.set_plan(Plan::default());
            let reopened = target.open(&env, Path::new(DATABASE));
            answers.push(reopened.map_or_else(|error| error.to_string(), |handle| see(&handle)));
            let named = |path: PathBuf| disk.bytes(&path).map(|bytes| (path, bytes));
            let files = disk.names().into_iter().filter_map(named).collect();
            Ok(Rerun { trace: disk.trace(), files, answers, failures })
        })
    }
}

/// Runs a workload twice and gives the run, if both are the same in every call, byte and answer.
///
/// # Errors
///
/// Where the two part, or a panic.
// spec: CRASH-2
pub fn run_twice(
    subject: &dyn Subject,
    workload: &Workload,
    seed: u64,
    plan: &Plan,
) -> Result<Rerun, String> {
    let first = subject.rerun(workload, seed, plan)?;
    let second = subject.rerun(workload, seed, plan)?;
    if let Some((number, a, b)) = parting(&first.trace, &second.trace) {
        let shown = |entry: Option<&Entry>| entry.map_or("the end".to_owned(), Entry::to_string);
        let (a, b) = (shown(a), shown(b));
        let bytes = if a == b { ", with other bytes" } else { "" };
        return Err(format!("call {number}: first {a}, then {b}{bytes}"));
    }
    if let Some((_, a, b)) = parting(&first.answers, &second.answers) {
        return Err(format!("first {a:?}, then {b:?}"));
    }
    let names = |run: &Rerun| run.files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    if first.files != second.files {
        return Err(format!("other bytes in {:?} and {:?}", names(&first), names(&second)));
    }
    Ok(first)
}

/// The first place in which two lists differ.
fn parting<'a, V: PartialEq>(
    a: &'a [V],
    b: &'a [V],
) -> Option<(usize, Option<&'a V>, Option<&'a V>)> {
    let differs = |index: &usize| a.get(*index) != b.get(*index);
    let index = (0..a.len().max(b.len())).find(differs)?;
    Some((index, a.get(index), b.get(index)))
}

/// Explores a workload on one thread and on several: the same is tried, counted and found.
///
/// # Errors
///
/// What differs.
// spec: CRASH-2
pub fn same_on_any_threads(
    subject: &dyn Subject,
    workload: &Workload,
    seed: u64,
) -> Result<(), String> {
    let explored = |threads: usize| {
        let explorer =
            Explorer { threads, seed, sets_max: SETS_MAX, ..Explorer::new(FaultModel::POWER) };
        let (tally, violation) = subject.find(&explorer, workload)?;
        // How far the others came before they heard of a violation is chance.
        Ok::<_, String>((violation.is_none().then_some(tally), violation.map(|it| it.to_string())))
    };
    let one = explored(1)?;
    for threads in [2, 3] {
        let several = explored(threads)?;
        if several != one {
            return Err(format!("on one thread {one:?}, on {threads} {several:?}"));
        }
    }
    Ok(())
}
