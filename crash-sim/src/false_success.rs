//! The weaker judge: what an engine owes its users after a flush that falsely said it worked.
//!
//! ```text
//! A   record            ──► Recording   recover            ──► State
//! B   record_believing  ──► Believed    recover_believing  ──► Answered (a state or damage)
//! ```
//!
//! No engine keeps what the disk promised to have and did not. But no answer may be made up: each
//! is that of some commit, or an error that says something is damaged.
//!
//! Invariant: the two judges share no type, so that what only this one forgives never passes for
//! the promise of the other.

use std::path::Path;
use std::sync::atomic::Ordering;

use rereduce::{Error, ErrorClass};

use crate::choices::choices;
use crate::disk::SimDisk;
use crate::explore::{Crash, Explorer, Tally, Violation};
use crate::fault::FaultClass;
use crate::image::Image;
use crate::oracle::{DATABASE, environment, guarded};
use crate::plan::{Answer, Plan, PlanItem};
use crate::run::Evidence;
use crate::scene::{Choice, Scene};
use crate::target::Target;
use crate::trace::Entry;

/// What was owed.
const EXPECTED: &str = "the state of some commit, or an error that says what is damaged";

/// Operations that follow when the faults are lifted.
const AFTER_OPERATIONS: usize = 3;

/// The class by which a run under `plan` is judged: B if a flush falsely succeeds, else A.
///
/// ```
/// use rereduce_crash_sim::{FaultClass, class_of};
/// assert_eq!(class_of(&"sync 2 lies".parse().unwrap()), FaultClass::B);
/// assert_eq!(class_of(&"sync 2 EIO".parse().unwrap()), FaultClass::A);
/// ```
pub fn class_of(plan: &Plan) -> FaultClass {
    let false_success = |item: &PlanItem| match item {
        PlanItem::Fault(fault) => matches!(fault.failure.answer, Answer::Lie | Answer::Late(_)),
        PlanItem::Quota(_) | PlanItem::Damage(_) => false,
    };
    if plan.items().any(false_success) { FaultClass::B } else { FaultClass::A }
}

/// A run on a disk whose flushes may lie.
pub struct Believed<T: Target> {
    /// All calls.
    pub trace: Vec<Entry>,
    /// Every state that some commit may have had.
    pub commits: Vec<T::State>,
}

/// What an engine answered after a flush had lied.
///
/// ```
/// use rereduce_crash_sim::Answered;
/// assert_ne!(Answered::State(1), Answered::Damage("block 3".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered<S> {
    /// It opened and showed this.
    State(S),
    /// It said that something is damaged.
    Damage(String),
}

/// Runs `ops` on an empty recording disk, and compares every answer with all commits so far.
///
/// # Errors
///
/// What went wrong, for people: an answer of no commit, or an error that no call explains.
// spec: CRASH-12
pub fn record_believing<T: Target>(
    target: &T,
    ops: &[T::Op],
    seed: u64,
    plan: &Plan,
    evidence: &mut Evidence,
) -> Result<Believed<T>, String> {
    let disk = SimDisk::new();
    disk.set_plan(plan.clone());
    let recorded = guarded(|| {
        let commits = vec![target.empty()];
        let mut run = Run { target, disk: &disk, seed, handle: None, at: 0, commits };
        for op in ops {
            run.step(op)?;
        }
        run.handle = None;
        disk.set_plan(Plan::default());
        for op in target.generate(AFTER_OPERATIONS, seed) {
            run.step(&op)?;
        }
        run.handle = None;
        run.open()?;
        Ok(run.commits)
    });
    evidence.note(&disk);
    Ok(Believed { trace: disk.trace(), commits: recorded? })
}

/// Opens `image` and reads everything.
///
/// # Errors
///
/// What went wrong, for people: an error that speaks of no damage, or a panic.
// spec: CRASH-12
pub fn recover_believing<T: Target>(
    target: &T,
    image: &Image,
    seed: u64,
) -> Result<Answered<T::State>, String> {
    guarded(|| {
        let env = environment(&SimDisk::open_image(image), seed ^ image.hash());
        let read = target.open(&env, Path::new(DATABASE)).and_then(|handle| {
            let found = target.state(&handle)?;
            Ok((found, target.check(&handle)))
        });
        match read {
            Ok((found, Ok(()))) => Ok(Answered::State(found)),
            Ok((_, Err(complaint))) => Ok(Answered::Damage(complaint)),
            Err(error) if is_damage(&error) => Ok(Answered::Damage(error.to_string())),
            Err(error) => Err(format!("neither a state nor damage: {error}")),
        }
    })
}

/// Whether the error says that bytes are not what was written; of a header that never landed it can
/// only say that it is none.
fn is_damage(error: &Error) -> bool {
    matches!(error.class(), ErrorClass::Corrupt | ErrorClass::NotADatabase)
}

struct Run<'a, T: Target> {
    target: &'a T,
    disk: &'a SimDisk,
    seed: u64,
    handle: Option<T::Handle>,
    /// Which of the commits readers see.
    at: usize,
    commits: Vec<T::State>,
}

impl<T: Target> Run<'_, T> {
    fn open(&mut self) -> Result<(), String> {
        let (before, env) = (self.disk.failures(), environment(self.disk, self.seed));
        match self.target.open(&env, Path::new(DATABASE)) {
            Ok(handle) => self.handle = Some(handle),
            Err(error) => self.excuse("open", &error, before)?,
        }
        self.look("opening")
    }

    /// An error must come from a call that failed, from an earlier one, or from damage.
    fn excuse(&self, what: &str, error: &Error, before: u64) -> Result<(), String> {
        let struck = self.disk.is_struck();
        let refused = error.class() == ErrorClass::Refused;
        match self.disk.failures() > before || struck && (refused || is_damage(error)) {
            true => Ok(()),
            false => Err(format!("{what}, with no call failing and no damage: {error}")),
        }
    }

    fn step(&mut self, op: &T::Op) -> Result<(), String> {
        if self.handle.is_none() {
            self.open()?;
        }
        let Some(handle) = &mut self.handle else { return Ok(()) };
        let expected = self.target.expect(&self.commits[self.at], op);
        let before = self.disk.failures();
        let answer = self.target.apply(handle, op);
        self.commits.push(expected);
        match answer {
            Ok(()) => self.at = self.commits.len() - 1,
            Err(error) => self.excuse(&op.to_string(), &error, before)?,
        }
        self.look(&op.to_string())
    }

    /// Goes on from the commit that readers see, which must be one of those that were.
    fn look(&mut self, after: &str) -> Result<(), String> {
        let Some(handle) = &self.handle else { return Ok(()) };
        let before = self.disk.failures();
        let found = match self.target.state(handle) {
            Ok(found) => found,
            Err(error) => return self.excuse(&format!("after {after}, read"), &error, before),
        };
        // The newest equal one: what comes next builds on it.
        let known = self.commits.iter().rposition(|commit| *commit == found);
        self.at =
            known.ok_or_else(|| format!("after {after}, the state of no commit: {found:?}"))?;
        Ok(())
    }
}

impl Explorer {
    /// Runs `ops` once on a disk whose flushes lie as the plan says, and opens everything that a
    /// power cut after the first lie could have left. Returns the first violation.
    // spec: CRASH-12
    pub fn believe<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        evidence: &mut Evidence,
    ) -> (Tally, Option<Violation>) {
        let mut tally = Tally { workloads: 1, ..Tally::default() };
        let believed = match record_believing(target, ops, self.seed, &self.plan, evidence) {
            Ok(believed) => believed,
            Err(found) => {
                let expected = EXPECTED.to_owned();
                return (tally, Some(self.violation(target, ops, None, expected, found)));
            }
        };
        let struck = |entry: &Entry| matches!(entry, Entry::Call(_, Some(_)));
        let first = believed.trace.iter().position(struck).unwrap_or(0);
        let scenes = Scene::all(&believed.trace, &Image::empty(), self.model);
        let later = |(_, scene): &(usize, &Scene)| scene.entry >= first;
        for (point, scene) in scenes.iter().enumerate().filter(later) {
            tally.points += 1;
            for choice in choices(scene, self.model, self.seed, self.sets_max) {
                if self.stop.load(Ordering::Relaxed) {
                    return (tally, None);
                }
                let (image, _) = scene.image(&choice);
                tally.images += 1;
                if !self.distinct.insert(image.hash()) {
                    continue;
                }
                tally.distinct += 1;
                if let Some(found) = self.disbelieve(target, &believed, &image) {
                    let crash = Crash::new(point, scene, &believed.trace, choice);
                    let expected = EXPECTED.to_owned();
                    return (
                        tally,
                        Some(self.violation(target, ops, Some(crash), expected, found)),
                    );
                }
            }
        }
        (tally, None)
    }

    /// Looks at one choice at one crash point of such a run only.
    ///
    /// # Errors
    ///
    /// If there is no such point, or the choice's text does not fit it.
    pub(crate) fn believe_again<T: Target>(
        &self,
        target: &T,
        ops: &[T::Op],
        point: usize,
        choice: &str,
    ) -> Result<Option<Violation>, String> {
        let mut evidence = Evidence::default();
        let believed = record_believing(target, ops, self.seed, &self.plan, &mut evidence)?;
        let scenes = Scene::all(&believed.trace, &Image::empty(), self.model);
        let scene = scenes.get(point).ok_or_else(|| format!("there is no crash point {point}"))?;
        let choice = Choice::parse(choice, scene.unit_count())?;
        let image = scene.image(&choice).0;
        Ok(self.disbelieve(target, &believed, &image).map(|found| {
            let crash = Crash::new(point, scene, &believed.trace, choice);
            self.violation(target, ops, Some(crash), EXPECTED.to_owned(), found)
        }))
    }

    /// What is wrong with an image, even for a disk that lied.
    fn disbelieve<T: Target>(
        &self,
        target: &T,
        believed: &Believed<T>,
        image: &Image,
    ) -> Option<String> {
        match recover_believing(target, image, self.seed) {
            Ok(Answered::State(found)) if believed.commits.contains(&found) => None,
            Ok(Answered::State(found)) => Some(format!("the state of no commit: {found:?}")),
            Ok(Answered::Damage(_)) => None,
            Err(found) => Some(found),
        }
    }
}
