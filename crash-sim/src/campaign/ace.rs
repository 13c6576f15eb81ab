//! `ace`: every short sequence of operations from a small alphabet, and every crash point of each.
//!
//! The unit of `passed` is a workload. Bugs of file systems and databases mostly need a few
//! operations only; so what random workloads may miss for years, this finds in minutes or not at
//! all, which is a statement too.
//!
//! ```text
//!            edit ── edit edit ── edit edit edit      a workload is looked at behind the end of
//!          /      \            \─ edit edit compact   its beginning only: the crash points before
//!   nothing        \─ edit compact ── ...             are those of the shorter workload
//!          \
//!            compact ── ...
//! ```
//!
//! Invariant: crash points that two workloads share are explored once, and an image that several
//! crash points can leave is opened once; both count where they are found first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rereduce::mark;
use xxhash_rust::xxh3::xxh3_64;

use super::{Context, Progress};
use crate::choices::choices;
use crate::explore::Explorer;
use crate::fault::FaultModel;
use crate::figures::Figures;
use crate::random::Random;
use crate::target::Target;
use crate::targets::DatabaseTarget;
use crate::{Entry, Image, Recording, Scene, record, recover, shrink};

/// Workloads that the quick form must pass; it stops there.
const FLOOR: u64 = 1_000;

/// Sets of survivors tried at one crash point: nothing, everything, and single survivors first.
const SETS_MAX: usize = 64;
const QUICK_SETS_MAX: usize = 20;

/// Failing workloads that are shrunk and printed.
const REPORTS_MAX: usize = 3;

/// What documents are made of, in 18 operations. The first eight are those that concern the file:
/// commits small and large, chunks, the swap, the ways to end, and what keeps old commits open.
const ALPHABET: [&str; 18] = [
    "edit a@winner=1",
    "edit b@new=2 c@new=3 d@new=4 e@new=6",
    "attach a@winner n text/plain 1 300",
    "compact",
    "reopen",
    "crash",
    "snapshot s0",
    "history s1 1",
    "edit a@winner=-",
    "writers a@winner=5 | b@winner=- | a@winner=6",
    "merge a@new+x+y~0=4",
    "merge a@winner+z~1=-",
    "edit a@leaf0=7",
    "edit a@unknown=8 b@new=5",
    "local l=1",
    "local l=-",
    "purge a@winner",
    "revslimit 1",
];

const STORAGE_OPERATIONS: usize = 8;

/// All sequences of up to so many operations.
const LENGTH_MAX: usize = 3;

/// With `--storage`: all sequences of exactly so many of the storage operations.
const STORAGE_LENGTH: usize = 4;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let storage = context.argument("storage").is_some();
    let letters = if storage { &ALPHABET[..STORAGE_OPERATIONS] } else { &ALPHABET[..] };
    let target = DatabaseTarget::default();
    let scope = SmallScope::parse(target, letters)?;
    let mut sequences = match storage {
        true => scope.sequences(STORAGE_LENGTH..=STORAGE_LENGTH),
        false => scope.sequences(1..=LENGTH_MAX),
    };
    if context.quick {
        keep_some(&mut sequences, FLOOR as usize, context.seed);
    }
    let sets_max = match context.argument("sets") {
        Some(sets) => sets.parse().map_err(|_| format!("--sets {sets}: not a number"))?,
        None if context.quick => QUICK_SETS_MAX,
        None => SETS_MAX,
    };
    let explorer = Explorer { sets_max, ..context.explorer(FaultModel::POWER) };
    let progress = Progress::new(context);
    let show = |done: usize, all: usize| progress.show(format_args!("{done} of {all} beginnings"));
    let explored = scope.explore(&explorer, &sequences, &show);
    drop(progress);
    for sequence in explored.failed.keys().take(REPORTS_MAX) {
        context.say(scope.explain(&explorer, sequence, &explored.failed[sequence]));
    }
    context.say(format_args!(
        "{} letters, {} crash points shared with shorter workloads",
        letters.len(),
        explored.shared
    ));
    let mut figures = Figures::new("ace", FLOOR);
    figures.count("workloads", explored.workloads);
    figures.count("crash points", explored.points);
    figures.count("images", explored.images);
    figures.count("distinct", explored.distinct);
    figures.failed = explored.failed.len() as u64;
    figures.passed = explored.workloads.saturating_sub(figures.failed);
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// Leaves `count` of the sequences: the short ones, and of the longest those that `seed` draws.
fn keep_some(sequences: &mut Vec<Sequence>, count: usize, seed: u64) {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let (mut kept, mut drawn): (Vec<_>, Vec<_>) =
        std::mem::take(sequences).into_iter().partition(|sequence| sequence.len() < longest);
    let mut random = Random::new(seed);
    while kept.len() < count && !drawn.is_empty() {
        kept.push(drawn.swap_remove(random.below(drawn.len() as u64) as usize));
    }
    *sequences = kept;
}

/// A workload as places in the alphabet.
pub type Sequence = Vec<usize>;

/// All short sequences of an alphabet of operations.
///
/// ```
/// use rereduce_crash_sim::{Explorer, FaultModel, KvTarget, SmallScope, StoreOpener};
/// let target = KvTarget(StoreOpener::default());
/// let scope = SmallScope::parse(target, &["commit a=1", "compact"])?;
/// let sequences = scope.sequences(1..=2);
/// assert_eq!(sequences.len(), 2 + 4);
/// let explorer = Explorer { sets_max: 3, ..Explorer::new(FaultModel::TORN) };
/// let explored = scope.explore(&explorer, &sequences, &|_, _| ());
/// assert_eq!((explored.workloads, explored.failed.len()), (6, 0));
/// # Ok::<(), String>(())
/// ```
pub struct SmallScope<T: Target> {
    target: T,
    alphabet: Vec<T::Op>,
}

/// What was explored of a small scope.
///
/// ```
/// assert_eq!(rereduce_crash_sim::ScopeTally::default().workloads, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeTally {
    /// Workloads run.
    pub workloads: u64,
    /// Their crash points, each counted where it occurs first.
    pub points: u64,
    /// Crash points that a workload has in common with its beginning.
    pub shared: u64,
    /// Images built.
    pub images: u64,
    /// Of these, images that nothing had led to before.
    pub distinct: u64,
    /// Workloads in which something went wrong, and what.
    pub failed: BTreeMap<Sequence, String>,
}

impl ScopeTally {
    fn add(&mut self, other: ScopeTally) {
        self.workloads += other.workloads;
        self.points += other.points;
        self.shared += other.shared;
        self.images += other.images;
        self.distinct += other.distinct;
        self.failed.extend(other.failed);
    }
}

impl<T: Target> SmallScope<T> {
    /// The scope over the operations that `letters` spell.
    ///
    /// # Errors
    ///
    /// A message naming a letter that is no operation.
    pub fn parse(target: T, letters: &[&str]) -> Result<SmallScope<T>, String> {
        let letter = |text: &&str| text.parse().map_err(|error| format!("{text:?}: {error}"));
        let alphabet = letters.iter().map(letter).collect::<Result<_, String>>()?;
        Ok(SmallScope { target, alphabet })
    }

    /// All sequences whose length lies in `lengths`, the shorter ones first.
    // spec: CRASH-21
    pub fn sequences(&self, lengths: std::ops::RangeInclusive<usize>) -> Vec<Sequence> {
        let (mut all, mut longest) = (Vec::new(), vec![Sequence::new()]);
        for length in 1..=*lengths.end() {
            let longer = |shorter: &Sequence| {
                let shorter = shorter.clone();
                (0..self.alphabet.len()).map(move |letter| [&shorter[..], &[letter]].concat())
            };
            longest = longest.iter().flat_map(longer).collect();
            if lengths.contains(&length) {
                all.extend(longest.iter().cloned());
            }
        }
        all
    }

    /// Runs each sequence and opens what a crash could have left of it, at each of its crash
    /// points; those that lie within a beginning of it are explored with that beginning, once.
    /// `progress` learns how many beginnings of how many are done.
    ///
    /// Cost: a run for each sequence, an opening for each distinct image.
    // spec: CRASH-21
    pub fn explore(
        &self,
        explorer: &Explorer,
        sequences: &[Sequence],
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> ScopeTally {
        let mut families: BTreeMap<Sequence, BTreeSet<usize>> = BTreeMap::new();
        for sequence in sequences {
            let mut beginning = &sequence[..];
            while let Some((last, shorter)) = beginning.split_last() {
                families.entry(shorter.to_vec()).or_default().insert(*last);
                beginning = shorter;
            }
        }
        let search = Search {
            scope: self,
            explorer,
            families: families.into_iter().collect(),
            chosen: sequences.iter().cloned().collect(),
            next: AtomicUsize::new(0),
            known: Known::default(),
        };
        let planted = mark::planted_here();
        std::thread::scope(|scope| {
            let work = || {
                mark::plant(planted);
                search.work(&|_, _| ())
            };
            let others: Vec<_> = (1..explorer.threads).map(|_| scope.spawn(work)).collect();
            let mut tally = search.work(progress);
            for other in others {
                // A worker only panics where the search itself is wrong.
                tally.add(other.join().expect("a worker of ace panicked"));
            }
            tally
        })
    }

    /// The operations of a sequence.
    pub fn ops(&self, sequence: &[usize]) -> Vec<T::Op> {
        sequence.iter().filter_map(|letter| self.alphabet.get(*letter)).cloned().collect()
    }

    /// What went wrong in a sequence, as a script that was shrunk where the explorer sees it too.
    fn explain(&self, explorer: &Explorer, sequence: &[usize], found: &str) -> String {
        let ops = self.ops(sequence);
        match explorer.explore(&self.target, &ops).1 {
            Some(violation) => format!("{}\n", shrink(explorer, &self.target, &ops, violation)),
            None => {
                let script: Vec<String> = ops.iter().map(T::Op::to_string).collect();
                format!("violation: {}: {found}\n", script.join("; "))
            }
        }
    }
}

/// One exploration at work.
struct Search<'a, T: Target> {
    scope: &'a SmallScope<T>,
    explorer: &'a Explorer,
    /// Beginnings, and the letters that follow each.
    families: Vec<(Sequence, BTreeSet<usize>)>,
    /// The workloads that were asked for; the other beginnings are explored and not counted.
    chosen: BTreeSet<Sequence>,
    next: AtomicUsize,
    known: Known<T::State>,
}

impl<T: Target> Search<'_, T> {
    /// Takes one beginning after the other until there is none left.
    fn work(&self, progress: &dyn Fn(usize, usize)) -> ScopeTally {
        let mut tally = ScopeTally::default();
        while let Some((beginning, letters)) =
            self.families.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            self.family(beginning, letters, &mut tally);
            if self.stopped() {
                break;
            }
            progress(self.next.load(Ordering::Relaxed), self.families.len());
        }
        tally
    }

    fn family(&self, beginning: &[usize], letters: &BTreeSet<usize>, tally: &mut ScopeTally) {
        // A beginning that goes wrong is told of where it is the workload.
        let begun = match beginning.is_empty() {
            true => Vec::new(),
            false => self.record(beginning).map_or(Vec::new(), |recording| recording.trace),
        };
        for letter in letters {
            let sequence = [beginning, &[*letter]].concat();
            tally.workloads += u64::from(self.chosen.contains(&sequence));
            if let Err(found) = self.workload(&sequence, &begun, tally) {
                tally.failed.insert(sequence, found);
            }
            if self.stopped() {
                return;
            }
        }
    }

    fn record(&self, sequence: &[usize]) -> Result<Recording<T>, String> {
        let ops = self.scope.ops(sequence);
        record(&self.scope.target, &ops, self.explorer.seed, &self.explorer.plan)
    }

    /// Explores one workload behind `begun`, the trace of its beginning.
    fn workload(
        &self,
        sequence: &[usize],
        begun: &[Entry],
        tally: &mut ScopeTally,
    ) -> Result<(), String> {
        let recording = self.record(sequence)?;
        if !recording.trace.starts_with(begun) {
            return Err("the same operations made other disk calls the second time".to_owned());
        }
        let scenes = Scene::all(&recording.trace, &Image::empty(), self.explorer.model);
        let shared = scenes.partition_point(|scene| scene.entry < begun.len());
        tally.shared += shared as u64;
        for scene in &scenes[shared..] {
            tally.points += 1;
            self.point(scene, &recording.states, tally)?;
        }
        Ok(())
    }

    fn point(
        &self,
        scene: &Scene,
        states: &[T::State],
        tally: &mut ScopeTally,
    ) -> Result<(), String> {
        let Explorer { model, seed, sets_max, .. } = self.explorer;
        for choice in choices(scene, *model, *seed, *sets_max) {
            if self.stopped() {
                return Ok(());
            }
            let (image, _) = scene.image(&choice);
            tally.images += 1;
            let (outcome, new) = self.known.outcome(image.hash(), || {
                let in_depth = image.hash().is_multiple_of(self.explorer.in_depth_every);
                recover(&self.scope.target, &image, *seed, in_depth)
            });
            tally.distinct += u64::from(new);
            let state = outcome.map_err(|found| format!("{}: {found}", at(scene)))?;
            if !states[scene.acknowledged..=scene.begun].contains(&*state) {
                return Err(format!("{}: an older or newer state: {state:?}", at(scene)));
            }
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.explorer.stop.load(Ordering::Relaxed)
    }
}

fn at(scene: &Scene) -> String {
    format!("crash in call {}, {} operations acknowledged", scene.entry, scene.acknowledged)
}

/// What opening an image showed.
type Outcome<S> = Result<Arc<S>, Arc<str>>;

/// What is known of images by their hash, over all workloads; equal states are held once.
struct Known<S> {
    outcomes: [Mutex<HashMap<u64, Outcome<S>>>; SHARDS],
    states: Mutex<HashMap<u64, Vec<Arc<S>>>>,
}

const SHARDS: usize = 64;

impl<S> Default for Known<S> {
    fn default() -> Known<S> {
        Known { outcomes: std::array::from_fn(|_| Mutex::default()), states: Mutex::default() }
    }
}

impl<S: Clone + Eq + Debug> Known<S> {
    /// What `open` says of the image with this hash, asked once; and whether it was new.
    fn outcome(&self, hash: u64, open: impl FnOnce() -> Result<S, String>) -> (Outcome<S>, bool) {
        let shard = &self.outcomes[(hash % SHARDS as u64) as usize];
        let known = locked(shard).get(&hash).cloned();
        if let Some(outcome) = known {
            return (outcome, false);
        }
        let outcome = open().map(|state| self.shared(state)).map_err(Arc::from);
        // Another worker may have been quicker; then it is the one that counts the image.
        let new = locked(shard).insert(hash, outcome.clone()).is_none();
        (outcome, new)
    }

    fn shared(&self, state: S) -> Arc<S> {
        // The text need not tell all states apart; it only finds the few to compare with.
        let key = xxh3_64(format!("{state:?}").as_bytes());
        let mut states = locked(&self.states);
        let alike = states.entry(key).or_default();
        if let Some(known) = alike.iter().find(|known| ***known == state) {
            return known.clone();
        }
        let state = Arc::new(state);
        alike.push(state.clone());
        state
    }
}

fn locked<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    // Nothing is left half done where a panic could strike.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
