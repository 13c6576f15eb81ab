//! The explorer: every crash point of a workload, every image that a fault model allows there.
//!
//! Invariant: what is found does not depend on how many threads look for it.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rereduce::mark;

use crate::choices::choices;
use crate::fault::{FaultKind, FaultModel, Survival};
use crate::image::Image;
use crate::oracle::recover;
use crate::plan::Plan;
use crate::run::{Doubt, Evidence, Recording, record, record_evidence};
use crate::scene::{Choice, Scene};
use crate::target::Target;
use crate::trace::Entry;

/// How to explore.
///
/// ```
/// use rereduce_crash_sim::{Explorer, FaultModel};
/// let explorer = Explorer { sets_max: 100, ..Explorer::new(FaultModel::TORN) };
/// assert_eq!(explorer.in_depth_every, 16);
/// ```
#[derive(Clone)]
pub struct Explorer {
    /// What a crash may leave.
    pub model: FaultModel,
    /// Sets of survivors tried at one crash point at most.
    pub sets_max: usize,
    /// Which calls of the run fail.
    pub plan: Plan,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Threads at work.
    pub threads: usize,
    /// One image in so many is tried in depth (by its hash): more operations and a reopen.
    pub in_depth_every: u64,
    /// Ends the exploration early when set.
    pub stop: Arc<AtomicBool>,
    /// Hashes of all images opened so far; clones share them.
    pub distinct: Arc<Distinct>,
}

/// What was explored.
///
/// ```
/// let mut tally = rereduce_crash_sim::Tally::default();
/// tally.add(&rereduce_crash_sim::Tally { images: 3, ..Default::default() });
/// assert_eq!(tally.images, 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Workloads run.
    pub workloads: u64,
    /// Crash points: in each call that changes the disk, and at the end.
    pub points: u64,
    /// Images built.
    pub images: u64,
    /// Of these, images that no workload had led to before.
    pub distinct: u64,
    /// Distinct images tried in depth.
    pub in_depth: u64,
    /// Images built that show each kind of fault, in the order of [`FaultKind::CRASH`].
    pub kinds: [u64; FaultKind::CRASH.len()],
}

impl Tally {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Tally) {
        self.workloads += other.workloads;
        self.points += other.points;
        self.images += other.images;
        self.distinct += other.distinct;
        self.in_depth += other.in_depth;
        for (mine, others) in self.kinds.iter_mut().zip(other.kinds) {
            *mine += others;
        }
    }
}

/// Something an engine got wrong, small enough to look at.
///
/// Its text form is the script: workload, crash point, survivors, expected, found, replay.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The target's name.
    pub target: String,
    /// Options of the target, `KEY=VALUE`.
    pub settings: Vec<String>,
    /// The operations.
    pub ops: Vec<String>,
    /// The fault model's name.
    pub model: &'static str,
    /// Which calls failed, as a plan.
    pub plan: String,
    /// The seed of the run.
    pub seed: u64,
    /// Where the crash came; `None` if the run itself failed.
    pub crash: Option<Crash>,
    /// What was allowed.
    pub expected: String,
    /// What was there.
    pub found: String,
}

/// Where a crash came and what it left.
#[derive(Clone, Debug)]
pub struct Crash {
    /// Which crash point of the run, counted from 0.
    pub point: usize,
    /// The call that was interrupted.
    pub call: String,
    /// What survived.
    pub choice: Choice,
    /// The survivors, one line each.
    pub survivors: Vec<String>,
    /// The calls before, with notes of what was acknowledged.
    pub trace: Vec<String>,
}

/// Hashes of images, counted once.
pub struct Distinct {
    shards: [Shard<()>; SHARDS],
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct { shards: std::array::from_fn(|_| Shard::default()) }
    }
}

const SHARDS: usize = 64;

type Shard<V> = Mutex<HashMap<u64, V, BuildHasherDefault<Identity>>>;

/// Hashes are hashed already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only image hashes are stored, which are integers");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Distinct {
    /// Whether this hash is new.
    pub(crate) fn insert(&self, hash: u64) -> bool {
        locked(shard(&self.shards, hash)).insert(hash, ()).is_none()
    }
}

fn shard<V>(shards: &[Shard<V>; SHARDS], hash: u64) -> &Shard<V> {
    &shards[(hash % SHARDS as u64) as usize]
}

/// What opening an image showed: the class of its state, or what was wrong.
type Outcome = Result<usize, Arc<str>>;

/// One exploration at work.
struct Search<'a, T: Target> {
    explorer: &'a Explorer,
    target: &'a T,
    scenes: &'a [Scene],
    states: &'a [T::State],
    doubts: &'a [Doubt<T::State>],
    /// For each number of operations, the first number that has an equal state; then the same for
    /// each doubt.
    classes: Vec<usize>,
    outcomes: [Shard<Outcome>; SHARDS],
    next: AtomicUsize,
    /// The violation with the earliest crash point, and the first there.
    worst: Mutex<Option<(usize, Choice, String)>>,
    worst_point: AtomicUsize,
}

impl Explorer {
    /// Explores `model` without limits, on two threads.
    pub fn new(model: FaultModel) -> Explorer {
        Explorer {
            model,
            sets_max: usize::MAX,
            plan: Plan::default(),
            seed: 1,
            threads: 2,
            in_depth_every: 16,
            stop: Arc::default(),
            distinct: Arc::default(),
        }
    }

    /// Runs `ops` once and opens everything that a crash could have left of that run. Returns what
    /// was explored, and the violation with the earliest crash point if there is any.
    // spec: CRASH-2
    pub fn explore<T: Target>(&self, target: &T, ops: &[T::Op]) -> (Tally, Option<Violation>) {
        let mut tally = Tally { workloads: 1, ..Tally::default() };
        let recording = match record(target, ops, self.seed, &self.plan) {
            Ok(recording) => recording,
            Err(found) => {
                let expected = "the model's state, without a crash".to_owned();
                return (tally, Some(self.violation(target, ops, None, expected, found)));
            }
        };
        let (explored, violation) = self.cut(target, ops, &recording, 0);
        tally.add(&explored);
        (tally, violation)
    }

    /// Runs `ops` once with the calls failing that the plan names; with `power`, opens everything
    /// that a power cut after the first of them could have left.
    // spec: CRASH-10
    pub fn endure<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        power: bool,
        evidence: &mut Evidence,
    ) -> (Tally, Option<Violation>) {
        let tally = Tally { workloads: 1, ..Tally::default() };
        let recording = match record_evidence(target, ops, self.seed, &self.plan, evidence) {
            Ok(recording) if power => recording,
            Ok(_) => return (tally, None),
            Err(found) => {
                let expected = "the model's state, or an error where a call failed".to_owned();
                return (tally, Some(self.violation(target, ops, None, expected, found)));
            }
        };
        let failed = |entry: &Entry| matches!(entry, Entry::Call(_, Some(_)));
        let first = recording.trace.iter().position(failed).unwrap_or(0);
        let (mut explored, violation) = self.cut(target, ops, &recording, first);
        explored.add(&tally);
        (explored, violation)
    }

    /// Opens everything that a power cut from entry `first` of the recorded trace on could leave.
    fn cut<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        recording: &Recording<T>,
        first: usize,
    ) -> (Tally, Option<Violation>) {
        let mut tally = Tally::default();
        let scenes = Scene::all(&recording.trace, &Image::empty(), self.model);
        let search = Search::new(self, target, &scenes, recording);
        let skipped = scenes.partition_point(|scene| scene.entry < first);
        search.next.store(skipped, Ordering::Relaxed);
        tally.points = (scenes.len() - skipped) as u64;
        let planted = mark::planted_here();
        std::thread::scope(|scope| {
            let work = || {
                mark::plant(planted);
                search.work()
            };
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(work)).collect();
            tally.add(&search.work());
            for other in others {
                // A worker only panics where the explorer itself is wrong.
                tally.add(&other.join().expect("a worker of the explorer panicked"));
            }
        });
        let worst = locked(&search.worst).take();
        let violation = worst.map(|(point, choice, found)| {
            let scene = &scenes[point];
            let (choice, found) = search.fewest_survivors(scene, choice, found);
            let crash = Crash::new(point, scene, &recording.trace, choice);
            self.violation(target, ops, Some(crash), search.expected(scene), found)
        });
        (tally, violation)
    }

    /// Looks at one choice at one crash point only.
    ///
    /// # Errors
    ///
    /// If there is no such point, or the choice's text does not fit it.
    pub fn replay<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        point: usize,
        choice: &str,
    ) -> Result<Option<Violation>, String> {
        let recording = record(target, ops, self.seed, &self.plan)?;
        let scenes = Scene::all(&recording.trace, &Image::empty(), self.model);
        let scene = scenes
            .get(point)
            .ok_or_else(|| format!("there are {} crash points, not {point}", scenes.len()))?;
        let choice = Choice::parse(choice, scene.unit_count())?;
        let search = Search::new(self, target, &scenes, &recording);
        Ok(search.judge(scene, &choice).map(|found| {
            let crash = Crash::new(point, scene, &recording.trace, choice);
            self.violation(target, ops, Some(crash), search.expected(scene), found)
        }))
    }

    pub(crate) fn violation<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        crash: Option<Crash>,
        expected: String,
        found: String,
    ) -> Violation {
        Violation {
            target: target.name().to_owned(),
            settings: target.settings(),
            ops: ops.iter().map(|op| op.to_string()).collect(),
            model: self.model.name,
            plan: self.plan.to_string(),
            seed: self.seed,
            crash,
            expected,
            found,
        }
    }
}

impl<'a, T: Target> Search<'a, T> {
    fn new(
        explorer: &'a Explorer,
        target: &'a T,
        scenes: &'a [Scene],
        recording: &'a Recording<T>,
    ) -> Search<'a, T> {
        let (states, doubts) = (recording.states.as_slice(), recording.doubts.as_slice());
        let all = || states.iter().chain(doubts.iter().map(|doubt| &doubt.state));
        let class = |state| all().position(|other| other == state).unwrap_or(0);
        Search {
            explorer,
            target,
            scenes,
            states,
            doubts,
            classes: all().map(class).collect(),
            outcomes: std::array::from_fn(|_| Shard::default()),
            next: AtomicUsize::new(0),
            worst: Mutex::new(None),
            worst_point: AtomicUsize::new(usize::MAX),
        }
    }

    /// Takes one crash point after the other until there is none left.
    fn work(&self) -> Tally {
        let mut tally = Tally::default();
        loop {
            let point = self.next.fetch_add(1, Ordering::Relaxed);
            // Later points than the worst cannot matter any more.
            if point >= self.scenes.len() || point > self.worst_point.load(Ordering::Acquire) {
                return tally;
            }
            self.visit(point, &mut tally);
            if self.explorer.stop.load(Ordering::Relaxed) {
                return tally;
            }
        }
    }

    fn visit(&self, point: usize, tally: &mut Tally) {
        let (scene, explorer) = (&self.scenes[point], self.explorer);
        for choice in choices(scene, explorer.model, explorer.seed, explorer.sets_max) {
            let (image, kinds) = scene.image(&choice);
            tally.images += 1;
            for (count, kind) in tally.kinds.iter_mut().zip(FaultKind::CRASH) {
                *count += u64::from(kinds.contains(kind));
            }
            if explorer.distinct.insert(image.hash()) {
                tally.distinct += 1;
                tally.in_depth += u64::from(self.in_depth(&image));
            }
            if let Some(found) = self.verdict(scene, &image) {
                let mut worst = locked(&self.worst);
                if worst.as_ref().is_none_or(|(earliest, ..)| point < *earliest) {
                    *worst = Some((point, choice, found));
                    self.worst_point.store(point, Ordering::Release);
                }
                return;
            }
            if explorer.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn in_depth(&self, image: &Image) -> bool {
        image.hash().is_multiple_of(self.explorer.in_depth_every)
    }

    /// What is wrong with `image` after a crash at `scene`, or `None`.
    fn verdict(&self, scene: &Scene, image: &Image) -> Option<String> {
        let shard = shard(&self.outcomes, image.hash());
        let known = locked(shard).get(&image.hash()).cloned();
        let outcome = known.unwrap_or_else(|| {
            let outcome = self.open(image);
            locked(shard).insert(image.hash(), outcome.clone());
            outcome
        });
        match outcome {
            Err(found) => Some(found.to_string()),
            Ok(class) if self.allows(scene, class) => None,
            Ok(class) => Some(format!("an older or newer state: {:?}", self.state(class))),
        }
    }

    /// Whether a crash at `scene` may leave the state of this class.
    fn allows(&self, scene: &Scene, class: usize) -> bool {
        let (states, doubts) = self.classes.split_at(self.states.len());
        let between = &states[scene.acknowledged..=scene.begun];
        let mut doubts = doubts.iter().zip(self.doubts);
        between.contains(&class)
            || doubts.any(|(doubted, doubt)| {
                let open = doubt.operation <= scene.begun && scene.acknowledged < doubt.settled_by;
                *doubted == class && open
            })
    }

    fn state(&self, class: usize) -> &T::State {
        self.all_states().nth(class).unwrap_or(&self.states[0])
    }

    fn all_states(&self) -> impl Iterator<Item = &T::State> {
        self.states.iter().chain(self.doubts.iter().map(|doubt| &doubt.state))
    }

    fn open(&self, image: &Image) -> Outcome {
        let found = recover(self.target, image, self.explorer.seed, self.in_depth(image))?;
        let class = self.all_states().position(|state| *state == found);
        class.ok_or_else(|| format!("a state that never was: {found:?}").into())
    }

    fn judge(&self, scene: &Scene, choice: &Choice) -> Option<String> {
        self.verdict(scene, &scene.image(choice).0)
    }

    fn expected(&self, scene: &Scene) -> String {
        let (least, most) = (scene.acknowledged, scene.begun);
        let first = format!("the state after {least} operations: {:?}", self.states[least]);
        match least == most {
            true => first,
            false => format!("{first}, or after {most}: {:?}", self.states[most]),
        }
    }

    /// Drops survivors one by one, and oddities of length and gap, while the verdict stays bad.
    fn fewest_survivors(
        &self,
        scene: &Scene,
        mut choice: Choice,
        mut found: String,
    ) -> (Choice, String) {
        let model = self.explorer.model;
        let mut try_instead = |choice: &mut Choice, candidate: Choice| {
            if candidate != *choice
                && let Some(still) = self.judge(scene, &candidate)
            {
                (*choice, found) = (candidate, still);
            }
        };
        let plain = Choice { lengths: vec![model.lengths[0]], ..choice.clone() };
        try_instead(&mut choice, plain);
        let plain = Choice { gap: model.gaps[0], ..choice.clone() };
        try_instead(&mut choice, plain);
        if model.survival == Survival::Subset {
            for unit in 0..choice.keep.len() {
                let mut fewer = choice.clone();
                fewer.keep[unit] = false;
                try_instead(&mut choice, fewer);
            }
        }
        (choice, found)
    }
}

fn numbered(trace: &[Entry]) -> Vec<String> {
    let shown = trace.iter().enumerate().filter(|(_, entry)| match entry {
        Entry::Call(call, _) => call.changes_the_disk(),
        _ => true,
    });
    shown.map(|(index, entry)| format!("{index:>4} {entry}")).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done where a panic could strike.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Crash {
    /// The same without what came before and what survived, which cost something to write down.
    pub(crate) fn brief(point: usize, choice: Choice) -> Crash {
        let (call, survivors, trace) = (String::new(), Vec::new(), Vec::new());
        Crash { point, call, choice, survivors, trace }
    }

    pub(crate) fn new(point: usize, scene: &Scene, trace: &[Entry], choice: Choice) -> Crash {
        Crash {
            point,
            call: trace.get(scene.entry).map_or("the end".to_owned(), Entry::to_string),
            survivors: scene.describe(&choice.keep),
            choice,
            trace: numbered(&trace[..scene.entry]),
        }
    }
}

impl Violation {
    /// The command that shows this violation again.
    pub fn replay_command(&self) -> String {
        let mut command = format!("cargo oracle replay --target {}", self.target);
        for setting in &self.settings {
            command.push_str(&format!(" --set {setting}"));
        }
        command.push_str(&format!(" --seed {} --model {}", self.seed, self.model));
        if !self.plan.is_empty() {
            command.push_str(&format!(" --plan '{}'", self.plan));
        }
        if let Some(crash) = &self.crash {
            command.push_str(&format!(" --point {} --choice '{}'", crash.point, crash.choice));
        }
        command.push_str(&format!(" --script '{}'", self.ops.join("; ")));
        command
    }

    /// The script on one line, without the replay command.
    pub fn one_line(&self) -> String {
        let ops = self.ops.join("; ");
        match &self.crash {
            None => format!("{ops} | no crash"),
            Some(crash) => {
                format!("{ops} | crash in point {} ({}) {}", crash.point, crash.call, crash.choice)
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "violation: {} on a disk of kind {}", self.target, self.model)?;
        writeln!(out, "workload:")?;
        for op in &self.ops {
            writeln!(out, "  {op}")?;
        }
        if !self.plan.is_empty() {
            writeln!(out, "failing calls: {}", self.plan)?;
        }
        if let Some(crash) = &self.crash {
            writeln!(out, "calls:")?;
            for line in &crash.trace {
                writeln!(out, "  {line}")?;
            }
            writeln!(out, "crash: in point {}, {}", crash.point, crash.call)?;
            writeln!(out, "survivors: {}", crash.choice)?;
            for line in &crash.survivors {
                writeln!(out, "  {line}")?;
            }
        }
        writeln!(out, "expected: {}", self.expected)?;
        writeln!(out, "found: {}", self.found)?;
        write!(out, "replay: {}", self.replay_command())
    }
}
