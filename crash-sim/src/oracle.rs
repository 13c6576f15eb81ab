//! The judge: opens what a crash left, and compares with the model.
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

/// Where the harness keeps the database on its simulated disks.
pub const DATABASE: &str = "data/db";

/// Operations that follow a recovery when it is tried in depth.
const FOLLOW_UP_OPERATIONS: usize = 20;

/// An environment on `disk` in which nothing is random and time stands still.
pub fn environment(disk: &SimDisk, seed: u64) -> Env {
    Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(StillClock),
        entropy: Arc::new(SeededEntropy::new(seed)),
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
