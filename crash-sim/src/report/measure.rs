//! Measuring one workload: every image that every fault model allows, opened and sorted by what
//! the engine answered.
//!
//! ```text
//! image ── opens and reads? ── no ──────────────────────────── detected damage
//!              └ yes ── the state of which commit? ── none ─── undetected damage
//!                            ├ acknowledged or begun ───────── survivor (or detected by the check)
//!                            └ an older one ────────────────── older: fallen back too far
//! ```
//!
//! Invariant: every image is counted once, whatever was found before; the explorer stops at the
//! first violation, this goes on.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::costs::{self, Cost};
use crate::choices::choices;
use crate::disk::SimDisk;
use crate::fault::FaultModel;
use crate::image::Image;
use crate::oracle::{DATABASE, environment, guarded};
use crate::plan::Plan;
use crate::run::{Recording, record};
use crate::scene::{Choice, Scene};
use crate::target::{Target, Workload};
use crate::trace::Entry;

/// How to measure.
#[derive(Clone, Copy)]
pub struct Measures<'a> {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Sets of survivors at one crash point.
    pub sets_max: usize,
    /// Whether to end early.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
}

/// Images, by what the engine answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub images: u64,
    /// Opened, and at or behind the last acknowledged commit.
    pub survivors: u64,
    /// Opened at an older commit.
    pub older: u64,
    /// Opening, reading or checking failed.
    pub detected: u64,
    /// The answers are those of no commit, and there was no error.
    pub undetected: u64,
    /// Of all these, images that do not show a commit which was acknowledged.
    pub lost_acknowledged: u64,
}

/// An image that lost something.
#[derive(Clone)]
pub struct Loss {
    /// Operations begun.
    pub begun: usize,
    /// The crash point, counted from 0.
    pub point: usize,
    /// What survived.
    pub choice: Choice,
}

/// What one fault model leaves of one workload.
#[derive(Default)]
pub struct Seen {
    /// Crash points.
    pub points: u64,
    /// Images by outcome.
    pub counts: Counts,
    /// Their hashes.
    pub hashes: HashSet<u64>,
    /// The shortest case that lost anything.
    pub loss: Option<Loss>,
    /// The shortest case that lost a commit which was acknowledged.
    pub acknowledged_loss: Option<Loss>,
}

/// A workload, measured.
pub struct Measured {
    /// By fault model, in the order of [`FaultModel::ALL`].
    pub seen: Vec<Seen>,
    /// What each commit cost.
    pub costs: Vec<Cost>,
    /// Flushes of the whole run: those of commits, of opening, closing and compaction.
    pub flushes: u64,
}

/// What the report asks of an engine; every [`Target`] answers.
pub trait Measure {
    /// Runs the workload once and opens what crashes could leave of it.
    ///
    /// # Errors
    ///
    /// If the workload does not parse, or failed without a crash.
    fn measure(&self, workload: &Workload, how: &Measures<'_>) -> Result<Measured, String>;

    /// The calls of a run without a crash.
    ///
    /// # Errors
    ///
    /// The same.
    fn trace(&self, workload: &Workload, seed: u64) -> Result<Vec<Entry>, String>;

    /// What the engine answers when it is given this image: its state, or its error.
    ///
    /// # Errors
    ///
    /// The same.
    fn answer(&self, workload: &Workload, seed: u64, image: &Image) -> Result<Reply, String>;
}

/// A state or an error, for people.
pub type Reply = Result<String, String>;

impl<T: Target> Measure for T {
    fn measure(&self, workload: &Workload, how: &Measures<'_>) -> Result<Measured, String> {
        let (target, ops) = workload.prepare(self)?;
        let recording = record(&target, &ops, how.seed, &Plan::default())
            .map_err(|error| format!("{}, without a crash: {error}", workload.name))?;
        let mut run = Run::new(&target, &recording, how);
        let seen = FaultModel::ALL.into_iter().map(|model| run.explore(model)).collect();
        let changes = |number: usize| recording.states[number] != recording.states[number - 1];
        let costs = Cost::of_trace(&recording.trace, &changes);
        Ok(Measured { seen, costs, flushes: costs::flushes(&recording.trace) })
    }

    fn trace(&self, workload: &Workload, seed: u64) -> Result<Vec<Entry>, String> {
        let (target, ops) = workload.prepare(self)?;
        Ok(record(&target, &ops, seed, &Plan::default())?.trace)
    }

    fn answer(&self, workload: &Workload, seed: u64, image: &Image) -> Result<Reply, String> {
        let (target, _) = workload.prepare(self)?;
        Ok(open(&target, image, seed).and_then(|(state, checked)| {
            checked?;
            Ok(format!("{state:?}"))
        }))
    }
}

/// The state that readers see in `image`, and whether the engine's check finds it sound. An error
/// or a panic on the way is an error.
fn open<T: Target>(
    target: &T,
    image: &Image,
    seed: u64,
) -> Result<(T::State, Result<(), String>), String> {
    guarded(|| {
        let disk = SimDisk::open_image(image);
        let env = environment(&disk, seed ^ image.hash());
        let opened = target.open(&env, Path::new(DATABASE));
        let handle = opened.map_err(|error| format!("open: {error}"))?;
        let state = target.state(&handle).map_err(|error| format!("read: {error}"))?;
        let checked = target.check(&handle).map_err(|error| format!("check: {error}"));
        Ok((state, checked))
    })
}

/// What an image holds, whatever crash led to it.
#[derive(Clone, Copy)]
enum Outcome {
    /// The state after so many operations, the smallest such number.
    State(usize),
    Unknown,
    Error,
}

struct Run<'a, T: Target> {
    target: &'a T,
    recording: &'a Recording<T>,
    how: &'a Measures<'a>,
    /// For each number of operations, the first number that has an equal state.
    classes: Vec<usize>,
    outcomes: HashMap<u64, Outcome>,
}

impl<'a, T: Target> Run<'a, T> {
    fn new(target: &'a T, recording: &'a Recording<T>, how: &'a Measures<'a>) -> Self {
        let states = &recording.states;
        let class = |state| states.iter().position(|other| other == state).unwrap_or(0);
        let classes = states.iter().map(class).collect();
        Run { target, recording, how, classes, outcomes: HashMap::new() }
    }

    // spec: REPORT-1
    fn explore(&mut self, model: FaultModel) -> Seen {
        let mut seen = Seen::default();
        let scenes = Scene::all(&self.recording.trace, &Image::empty(), model);
        for (point, scene) in scenes.iter().enumerate() {
            if (self.how.stopped)() {
                break;
            }
            seen.points += 1;
            for choice in choices(scene, model, self.how.seed, self.how.sets_max) {
                let (image, _) = scene.image(&choice);
                let outcome = self.outcome(&image);
                seen.hashes.insert(image.hash());
                self.count(scene, outcome, &mut seen, || Loss {
                    begun: scene.begun,
                    point,
                    choice: choice.clone(),
                });
            }
        }
        seen
    }

    fn outcome(&mut self, image: &Image) -> Outcome {
        if let Some(known) = self.outcomes.get(&image.hash()) {
            return *known;
        }
        let outcome = match open(self.target, image, self.how.seed) {
            Err(_) => Outcome::Error,
            Ok((state, checked)) => {
                let class = self.recording.states.iter().position(|other| *other == state);
                match (class, checked) {
                    (None, _) => Outcome::Unknown,
                    (Some(_), Err(_)) => Outcome::Error,
                    (Some(class), Ok(())) => Outcome::State(class),
                }
            }
        };
        self.outcomes.insert(image.hash(), outcome);
        outcome
    }

    fn count(&self, scene: &Scene, outcome: Outcome, seen: &mut Seen, loss: impl Fn() -> Loss) {
        let counts = &mut seen.counts;
        counts.images += 1;
        let allowed = &self.classes[scene.acknowledged..=scene.begun];
        match outcome {
            Outcome::State(class) if allowed.contains(&class) => {
                counts.survivors += 1;
                return;
            }
            // A state that comes later in the run is the state of no commit yet.
            Outcome::State(class) if class > scene.begun => counts.undetected += 1,
            Outcome::State(_) => counts.older += 1,
            Outcome::Unknown => counts.undetected += 1,
            Outcome::Error => counts.detected += 1,
        }
        keep_shorter(&mut seen.loss, &loss);
        // An operation that changes nothing has nothing to lose.
        if self.classes[..=scene.acknowledged].iter().any(|class| *class != 0) {
            seen.counts.lost_acknowledged += 1;
            keep_shorter(&mut seen.acknowledged_loss, &loss);
        }
    }
}

/// Fewest operations, then the fewest survivors, then the earliest.
fn keep_shorter(known: &mut Option<Loss>, loss: &impl Fn() -> Loss) {
    let found = loss();
    if known.as_ref().is_none_or(|known| found.size() < known.size()) {
        *known = Some(found);
    }
}

impl Loss {
    /// What makes one case shorter than another.
    pub fn size(&self) -> (usize, usize, usize) {
        (self.begun, self.choice.survivors(), self.point)
    }
}

impl Counts {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Counts) {
        self.images += other.images;
        self.survivors += other.survivors;
        self.older += other.older;
        self.detected += other.detected;
        self.undetected += other.undetected;
        self.lost_acknowledged += other.lost_acknowledged;
    }
}
