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
use crate::random::{SeededEntropy, StillClock};
use crate::target::Target;
use crate::trace::Entry;

/// Where the harness keeps the database on its simulated disks.
pub const DATABASE: &str = "data/db";

/// Operations that follow a recovery when it is tried in depth.
const FOLLOW_UP_OPERATIONS: usize = 20;

/// A run of a workload without faults.
///
/// `states[n]` is what the model holds after `n` operations.
pub struct Recording<T: Target> {
    /// All calls, with notes of what began and what was acknowledged.
    pub trace: Vec<Entry>,
    /// The model's states.
    pub states: Vec<T::State>,
}

/// An environment on `disk` in which nothing is random and time stands still.
pub fn environment(disk: &SimDisk, seed: u64) -> Env {
    Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(StillClock),
        entropy: Arc::new(SeededEntropy::new(seed)),
    }
}

/// Runs `ops` on an empty recording disk and compares with the model after each.
///
/// # Errors
///
/// What went wrong, for people: without a fault every operation must work.
pub fn record<T: Target>(target: &T, ops: &[T::Op], seed: u64) -> Result<Recording<T>, String> {
    guarded(|| {
        let disk = SimDisk::new();
        let env = environment(&disk, seed);
        let failed = |what: &str, error| format!("without any fault, {what}: {error}");
        let mut handle =
            target.open(&env, Path::new(DATABASE)).map_err(|error| failed("open", error))?;
        let mut states = vec![target.empty()];
        for (index, op) in ops.iter().enumerate() {
            disk.note(Entry::Began(index + 1));
            target.apply(&mut handle, op).map_err(|error| failed(&op.to_string(), error))?;
            disk.note(Entry::Acknowledged(index + 1));
            let expected = target.expect(&states[index], op);
            compare(target, &handle, &expected, &op.to_string())?;
            states.push(expected);
        }
        drop(handle);
        Ok(Recording { trace: disk.trace(), states })
    })
}

/// Opens `image` and returns the state found, having checked every invariant; in depth, also runs
/// more operations on it and opens it once more.
///
/// # Errors
///
/// What went wrong, for people. A panic of the engine is an error too.
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
