//! Crashes in recovery: the power fails, the engine opens what is left and works on, the power
//! fails again in the middle of that, and so on.
//!
//! ```text
//! workload ──cut──► image ──open, a commit──cut──► image ──open, a commit──cut──► image ...
//!                   depth 0                        depth 1                        depth 2, 3
//! ```
//!
//! What an engine does to recover it does between opening and its first commit: it writes a tail
//! again, goes on behind torn bytes, removes what a compaction left. Every crash point of that is a
//! scene of its own.
//!
//! Invariant: opening an existing database writes nothing, at any depth; and what is done at one
//! depth depends on the image alone, so that a list of crash points and choices replays.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::choices::draw;
use crate::disk::SimDisk;
use crate::explore::{Crash, Distinct, Explorer, Violation};
use crate::image::Image;
use crate::oracle::{DATABASE, environment, guarded};
use crate::plan::Plan;
use crate::random::Random;
use crate::run::record;
use crate::scene::{Choice, Scene};
use crate::shrink::fewest;
use crate::target::Target;
use crate::trace::Entry;

/// How deep crashes nest below the first.
pub const NESTED_DEPTH: usize = 3;

/// Operations among which one is sought that writes.
const WRITES_MAX: usize = 40;

/// How many images of one workload are looked into.
#[derive(Clone, Copy, Debug)]
pub struct Nesting {
    /// Images of the first crash.
    pub first: usize,
    /// Choices at each crash point of depth 1, 2 and 3.
    pub choices: [usize; NESTED_DEPTH],
}

/// What was looked into.
///
/// ```
/// assert_eq!(rereduce_crash_sim::NestedTally::default().distinct, [0; 4]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NestedTally {
    /// Workloads.
    pub workloads: u64,
    /// Distinct images of each depth.
    pub distinct: [u64; NESTED_DEPTH + 1],
    /// Images built at any depth.
    pub images: u64,
    /// Openings of an existing database, none of which wrote.
    pub openings: u64,
    /// Images of a crash that came before the first acknowledged operation after an opening.
    pub in_recovery: u64,
    /// Openings after which the first commit wrote bytes again.
    pub rewrites: u64,
    /// Images in which a compaction had left its file.
    pub leftovers: u64,
}

impl NestedTally {
    /// Adds another's counts.
    pub fn add(&mut self, other: &NestedTally) {
        self.workloads += other.workloads;
        for (mine, others) in self.distinct.iter_mut().zip(other.distinct) {
            *mine += others;
        }
        self.images += other.images;
        self.openings += other.openings;
        self.in_recovery += other.in_recovery;
        self.rewrites += other.rewrites;
        self.leftovers += other.leftovers;
    }
}

/// A violation below the first crash.
#[derive(Clone, Debug)]
pub struct NestedViolation {
    /// Workload, first crash, what was expected and found in the end.
    pub outer: Violation,
    /// The crashes that followed.
    pub inner: Vec<Crash>,
}

/// The hashes of the images met so far, by depth; clones share them.
#[derive(Clone, Default)]
pub struct Met(Arc<[Distinct; NESTED_DEPTH + 1]>);

/// What went wrong, and after which crashes.
struct Broken {
    crashes: Vec<Crash>,
    expected: String,
    found: String,
}

/// A descent at work.
struct Descent<'a, T: Target> {
    explorer: &'a Explorer,
    target: &'a T,
    nesting: Nesting,
    met: &'a Met,
    tally: NestedTally,
    crashes: Vec<Crash>,
}

/// A database that was opened after a crash and used.
struct Used<T: Target> {
    /// The states from the one found on, one for each operation.
    states: Vec<T::State>,
    trace: Vec<Entry>,
}

impl Explorer {
    /// Runs `ops`, cuts the power at some moments, and again and again in what follows. Returns the
    /// first violation.
    // spec: CRASH-13
    pub fn nest<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        nesting: Nesting,
        met: &Met,
    ) -> (NestedTally, Option<NestedViolation>) {
        let mut descent = Descent::new(self, target, nesting, met);
        let broken = descent.begin(ops).err();
        let violation = broken.map(|broken| self.nested_violation(target, ops, broken));
        (descent.tally, violation)
    }

    /// The same violation with fewer operations, if there is one.
    pub(crate) fn nest_less<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        nesting: Nesting,
        violation: NestedViolation,
    ) -> NestedViolation {
        fewest(target, ops, violation, |ops| self.nest(target, ops, nesting, &Met::default()).1)
    }

    /// Follows one chain of crash points and choices.
    ///
    /// # Errors
    ///
    /// If there is no such point, or a choice's text does not fit it.
    pub(crate) fn nest_again<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        chain: &[(usize, &str)],
    ) -> Result<Option<NestedViolation>, String> {
        let recording = record(target, ops, self.seed, &Plan::default())?;
        let nesting = Nesting { first: 0, choices: [0; NESTED_DEPTH] };
        let met = Met::default();
        let mut descent = Descent::new(self, target, nesting, &met);
        let mut used = Used { states: recording.states, trace: recording.trace };
        let mut image = Image::empty();
        for (point, choice) in chain {
            let scenes = Scene::all(&used.trace, &image, self.model);
            let scene =
                scenes.get(*point).ok_or_else(|| format!("there is no crash point {point}"))?;
            let choice = Choice::parse(choice, scene.unit_count())?;
            image = scene.image(&choice).0;
            descent.crashes.push(Crash::new(*point, scene, &used.trace, choice));
            let judged = descent.judge(&image, scene, &used.states);
            match judged.and_then(|found| descent.work_on(&image, found)) {
                Ok(next) => used = next,
                Err(broken) => return Ok(Some(self.nested_violation(target, ops, broken))),
            }
        }
        Ok(None)
    }

    fn nested_violation<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        broken: Broken,
    ) -> NestedViolation {
        let mut crashes = broken.crashes.into_iter();
        let outer = self.violation(target, ops, crashes.next(), broken.expected, broken.found);
        NestedViolation { outer, inner: crashes.collect() }
    }
}

impl<'a, T: Target> Descent<'a, T> {
    fn new(
        explorer: &'a Explorer,
        target: &'a T,
        nesting: Nesting,
        met: &'a Met,
    ) -> Descent<'a, T> {
        let tally = NestedTally { workloads: 1, ..NestedTally::default() };
        Descent { explorer, target, nesting, met, tally, crashes: Vec::new() }
    }

    fn begin(&mut self, ops: &[T::Op]) -> Result<(), Broken> {
        let recording = record(self.target, ops, self.explorer.seed, &Plan::default());
        let recording = recording
            .map_err(|found| self.broken("the model's state, without a crash".to_owned(), found))?;
        let used = Used { states: recording.states, trace: recording.trace };
        let scenes = Scene::all(&used.trace, &Image::empty(), self.explorer.model);
        let mut random = Random::new(self.explorer.seed ^ scenes.len() as u64);
        let first = self.nesting.first.max(1);
        // Evenly over the run, a little to and fro.
        for part in 0..first {
            let (from, to) = (part * scenes.len() / first, (part + 1) * scenes.len() / first);
            let point = from + random.below((to - from).max(1) as u64) as usize;
            if let Some(scene) = scenes.get(point) {
                self.cut(point, scene, &used, (1, scenes.len() as u64), 0)?;
            }
        }
        Ok(())
    }

    /// Cuts the power at `scene` in `count` ways, drawn by `salt`.
    fn cut(
        &mut self,
        point: usize,
        scene: &Scene,
        used: &Used<T>,
        (count, salt): (usize, u64),
        depth: usize,
    ) -> Result<(), Broken> {
        let Explorer { model, seed, .. } = *self.explorer;
        let mut random = Random::new(seed ^ salt.wrapping_add(point as u64));
        for _ in 0..count {
            let choice = draw(scene, model, &mut random);
            let (image, _) = scene.image(&choice);
            self.tally.images += 1;
            self.tally.in_recovery += u64::from(depth > 0 && scene.acknowledged == 0);
            self.crashes.push(Crash::brief(point, choice));
            self.descend(&image, scene, used, depth)
                .map_err(|broken| broken.with_trace(depth, &used.trace, scene))?;
            self.crashes.pop();
        }
        Ok(())
    }

    /// Opens what a crash left, judges it, and unless it was met before works on and cuts again.
    fn descend(
        &mut self,
        image: &Image,
        scene: &Scene,
        used: &Used<T>,
        depth: usize,
    ) -> Result<(), Broken> {
        let found = self.judge(image, scene, &used.states)?;
        let is_new = self.met.0[depth].insert(image.hash());
        self.tally.distinct[depth] += u64::from(is_new);
        let stopped = self.explorer.stop.load(Ordering::Relaxed);
        let count = self.nesting.choices.get(depth).filter(|_| is_new && !stopped).copied();
        let Some(count) = count else {
            return Ok(());
        };
        let used = self.work_on(image, found)?;
        for (point, scene) in Scene::all(&used.trace, image, self.explorer.model).iter().enumerate()
        {
            self.cut(point, scene, &used, (count, image.hash()), depth + 1)?;
        }
        Ok(())
    }

    /// The state that `image` opens with, which a crash at `scene` must allow.
    fn judge(
        &mut self,
        image: &Image,
        scene: &Scene,
        states: &[T::State],
    ) -> Result<T::State, Broken> {
        let allowed = &states[scene.acknowledged..=scene.begun];
        let expected = || format!("one of {allowed:?}, and nothing written by opening");
        let opened = guarded(|| {
            let disk = SimDisk::open_image(image);
            let env = environment(&disk, self.explorer.seed ^ image.hash());
            let handle = self.target.open(&env, Path::new(DATABASE));
            let handle = handle.map_err(|error| format!("open: {error}"))?;
            let exists = image.names().iter().any(|name| name == Path::new(DATABASE));
            if exists && disk.changes() > 0 {
                return Err(format!("opening changed the disk {} times", disk.changes()));
            }
            let found = self.target.state(&handle).map_err(|error| format!("read: {error}"))?;
            self.target.check(&handle).map_err(|error| format!("check: {error}"))?;
            Ok((found, exists))
        });
        match opened {
            Ok((found, exists)) if allowed.contains(&found) => {
                self.tally.openings += u64::from(exists);
                Ok(found)
            }
            Ok((found, _)) => Err(self.broken(expected(), format!("{found:?}"))),
            Err(found) => Err(self.broken(expected(), found)),
        }
    }

    /// Opens `image` on a disk that records, and does a few things that write.
    fn work_on(&mut self, image: &Image, found: T::State) -> Result<Used<T>, Broken> {
        let disk = SimDisk::recording(image);
        let env = environment(&disk, self.explorer.seed ^ image.hash());
        let mut states = vec![found];
        let leftover = image.names().len() > 1;
        self.tally.leftovers += u64::from(leftover);
        let worked = guarded(|| {
            let handle = self.target.open(&env, Path::new(DATABASE));
            let mut handle = handle.map_err(|error| format!("open: {error}"))?;
            for op in self.steps(image, &states[0], leftover) {
                let number = states.len();
                disk.note(Entry::Began(number));
                let done = self.target.apply(&mut handle, &op);
                done.map_err(|error| format!("after recovery, {op}: {error}"))?;
                disk.note(Entry::Acknowledged(number));
                states.push(self.target.expect(&states[number - 1], &op));
            }
            let shown = self.target.state(&handle).map_err(|error| format!("read: {error}"))?;
            let newest = &states[states.len() - 1];
            match shown == *newest {
                true => Ok(()),
                false => Err(format!("after recovery, expected {newest:?}, found {shown:?}")),
            }
        });
        let trace = disk.trace();
        let rewrote = |entry: &Entry| entry.to_string().starts_with("rewrite");
        self.tally.rewrites += u64::from(trace.iter().any(rewrote));
        match worked {
            Ok(()) => Ok(Used { states, trace }),
            Err(found) => Err(self.broken("it works on".to_owned(), found)),
        }
    }

    /// A commit; and, where a compaction left something or now and then, a compaction.
    fn steps(&self, image: &Image, found: &T::State, leftover: bool) -> Vec<T::Op> {
        let ops = self.target.generate(WRITES_MAX, image.hash());
        let writes = |op: &T::Op| self.target.expect(found, op) != *found;
        let mut steps: Vec<T::Op> = ops.into_iter().find(writes).into_iter().collect();
        // An engine that can compact calls it so.
        if let (true, Ok(compact)) = (leftover || image.hash().is_multiple_of(8), "compact".parse())
        {
            steps.push(compact);
        }
        steps
    }

    fn broken(&self, expected: String, found: String) -> Broken {
        Broken { crashes: self.crashes.clone(), expected, found }
    }
}

impl Broken {
    /// Adds the calls before the crash of this depth.
    fn with_trace(mut self, depth: usize, trace: &[Entry], scene: &Scene) -> Broken {
        if let Some(crash) = self.crashes.get_mut(depth) {
            *crash = Crash::new(crash.point, scene, trace, crash.choice.clone());
        }
        self
    }
}

impl NestedViolation {
    /// The command that shows this violation again.
    pub fn replay_command(&self) -> String {
        let inner = self.inner.iter().map(|crash| format!("{} {}", crash.point, crash.choice));
        let inner = inner.collect::<Vec<_>>().join("; ");
        format!("{} --inner '{inner}'", self.outer.replay_command())
    }
}

impl fmt::Display for NestedViolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.outer)?;
        for (index, crash) in self.inner.iter().enumerate() {
            writeln!(out, "crash {} in what followed, calls:", index + 2)?;
            for line in &crash.trace {
                writeln!(out, "  {line}")?;
            }
            writeln!(out, "crash: in point {}, {}: {}", crash.point, crash.call, crash.choice)?;
        }
        write!(out, "replay all: {}", self.replay_command())
    }
}
