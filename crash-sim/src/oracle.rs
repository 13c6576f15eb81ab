//! The judge: runs a workload, opens what a crash left of it, and compares with the model.
//!
//! Invariant: a verdict depends on the image alone (engine, options and seeds being equal), so
//! images with one hash are opened once.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Once};

use rereduce::env::Env;

use crate::disk::SimDisk;
use crate::image::Image;
use crate::plan::Plan;
use crate::random::{SeededEntropy, StillClock};
use crate::target::Target;
use crate::trace::Entry;

/// Where the harness keeps the database on its simulated disks.
pub const DATABASE: &str = "data/db";

/// Operations that follow a recovery when it is tried in depth.
const FOLLOW_UP_OPERATIONS: usize = 20;

/// Operations that a run makes after its last one if calls failed before.
const AFTER_FAILURE_OPERATIONS: usize = 3;

/// A run of a workload, and what may be found at each point of it.
pub struct Recording<T: Target> {
    /// All calls, with notes of what began and what was acknowledged.
    pub trace: Vec<Entry>,
    /// The model's states: `states[n]` is what it holds after `n` operations.
    pub states: Vec<T::State>,
    /// States that failed operations may have left.
    pub doubts: Vec<Doubt<T::State>>,
}

/// What an operation that failed may have left behind.
pub struct Doubt<S> {
    /// The operation, counted from 1.
    pub operation: usize,
    /// The first later operation that changed something and was acknowledged: then the doubt ends.
    pub settled_by: usize,
    /// The state as if it had worked.
    pub state: S,
}

/// An environment on `disk` in which nothing is random and time stands still.
pub fn environment(disk: &SimDisk, seed: u64) -> Env {
    Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(StillClock),
        entropy: Arc::new(SeededEntropy::new(seed)),
    }
}

/// Runs `ops` on an empty recording disk whose calls fail as `plan` says, and compares with the
/// model after each operation.
///
/// After a failure the faults are lifted at the end, the database is opened once more, and a few
/// more operations must work.
///
/// # Errors
///
/// What went wrong, for people: an operation failed though no call had, or something was wrong.
pub fn record<T: Target>(
    target: &T,
    ops: &[T::Op],
    seed: u64,
    plan: &Plan,
) -> Result<Recording<T>, String> {
    guarded(|| {
        let disk = SimDisk::new();
        disk.set_plan(plan.clone());
        let env = environment(&disk, seed);
        let states = vec![target.empty()];
        let mut run = Run { target, disk, env, handle: None, states, doubts: Vec::new() };
        if run.open()? {
            for op in ops {
                run.step(op)?;
            }
        }
        if run.disk.failures() > 0 {
            run.handle = None;
            run.disk.set_plan(Plan::default());
            run.open()?;
            let found = run.found("opening after a failure")?;
            run.adopt(&found, "opening after a failure")?;
            for op in target.generate(AFTER_FAILURE_OPERATIONS, seed) {
                run.step(&op)?;
            }
        }
        run.handle = None;
        Ok(Recording { trace: run.disk.trace(), states: run.states, doubts: run.doubts })
    })
}

/// A recording at work.
struct Run<'a, T: Target> {
    target: &'a T,
    disk: SimDisk,
    env: Env,
    handle: Option<T::Handle>,
    states: Vec<T::State>,
    doubts: Vec<Doubt<T::State>>,
}

impl<T: Target> Run<'_, T> {
    /// Opens the database; `false` if a planned failure kept it from opening.
    fn open(&mut self) -> Result<bool, String> {
        let before = self.disk.failures();
        match self.target.open(&self.env, Path::new(DATABASE)) {
            Ok(handle) => self.handle = Some(handle),
            Err(_) if self.disk.failures() > before => return Ok(false),
            Err(error) => return Err(format!("open, with no call failing: {error}")),
        }
        Ok(true)
    }

    fn step(&mut self, op: &T::Op) -> Result<(), String> {
        let number = self.states.len();
        self.disk.note(Entry::Began(number));
        let Some(handle) = &mut self.handle else { return Ok(()) };
        let expected = self.target.expect(&self.states[number - 1], op);
        let settles = expected != self.states[number - 1];
        match self.target.apply(handle, op) {
            Ok(()) => {
                self.disk.note(Entry::Acknowledged(number));
                self.states.push(expected);
                // A read may be what fails next; then the reopen in the end has to show.
                let before = self.disk.failures();
                match self.found(&op.to_string()) {
                    Err(_) if self.disk.failures() > before => {}
                    found => self.adopt(&found?, &op.to_string())?,
                }
                if settles {
                    for doubt in &mut self.doubts {
                        doubt.settled_by = doubt.settled_by.min(number);
                    }
                }
            }
            Err(_) if self.disk.failures() > 0 => {
                let settled_by = usize::MAX;
                self.doubts.push(Doubt { operation: number, settled_by, state: expected });
                self.states.push(self.states[number - 1].clone());
            }
            Err(error) => return Err(format!("{op}, with no call failing: {error}")),
        }
        Ok(())
    }

    /// The state that readers see now, with every invariant checked.
    fn found(&self, after: &str) -> Result<T::State, String> {
        let Some(handle) = &self.handle else { return Err(format!("{after}: not open")) };
        let read = |error| format!("after {after}, read: {error}");
        let found = self.target.state(handle).map_err(read)?;
        self.target.check(handle).map_err(|error| format!("after {after}, check: {error}"))?;
        Ok(found)
    }

    /// Goes on from `found`, if it is the newest state or one in doubt.
    fn adopt(&mut self, found: &T::State, after: &str) -> Result<(), String> {
        let doubted =
            |doubt: &Doubt<T::State>| doubt.settled_by == usize::MAX && doubt.state == *found;
        let newest = self.states.len() - 1;
        if self.states[newest] == *found {
            return Ok(());
        }
        if self.doubts.iter().any(doubted) {
            // The state as it was stays possible until something settles it.
            let state = std::mem::replace(&mut self.states[newest], found.clone());
            self.doubts.push(Doubt { operation: newest, settled_by: usize::MAX, state });
            return Ok(());
        }
        Err(format!("after {after}: expected {:?}, found {found:?}", self.states[newest]))
    }
}

/// Opens `image` and returns the state found, having checked every invariant; in depth, also runs
/// more operations on it and opens it once more.
///
/// # Errors
///
/// What went wrong, for people. A panic of the engine is an error too.
// spec: CRASH-3
pub fn recover<T: Target>(
    target: &T,
    image: &Image,
    seed: u64,
    in_depth: bool,
) -> Result<T::State, String> {
    guarded(|| {
        let disk = SimDisk::open_image(image);
        let env = environment(&disk, seed ^ image.hash());
        let open = || target.open(&env, Path::new(DATABASE)).map_err(|e| format!("open: {e}"));
        let mut handle = open()?;
        let found = target.state(&handle).map_err(|error| format!("read: {error}"))?;
        target.check(&handle).map_err(|error| format!("check: {error}"))?;
        if in_depth {
            let mut expected = found.clone();
            for op in target.generate(FOLLOW_UP_OPERATIONS, image.hash()) {
                let failed = |error| format!("after recovery, {op}: {error}");
                target.apply(&mut handle, &op).map_err(failed)?;
                expected = target.expect(&expected, &op);
            }
            compare(target, &handle, &expected, "more operations")?;
            drop(handle);
            compare(target, &open()?, &expected, "more operations and a reopen")?;
        }
        Ok(found)
    })
}

fn compare<T: Target>(
    target: &T,
    handle: &T::Handle,
    expected: &T::State,
    after: &str,
) -> Result<(), String> {
    let found = target.state(handle).map_err(|error| format!("after {after}, read: {error}"))?;
    if found != *expected {
        return Err(format!("after {after}: expected {expected:?}, found {found:?}"));
    }
    target.check(handle).map_err(|error| format!("after {after}, check: {error}"))
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `body`; a panic in it becomes an error that says where, and prints nothing.
pub fn guarded<R>(body: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if GUARDED.get() {
                PANIC.set(Some(panic.to_string()));
            } else {
                before(panic);
            }
        }));
    });
    let outside = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    GUARDED.set(outside);
    result.unwrap_or_else(|_| Err(PANIC.take().unwrap_or_else(|| "panicked".to_owned())))
}
