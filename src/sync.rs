//! Locks, and the few other things that `publish`, `commit_queue` and `single_flight` are built
//! from.
//!
//! Those files import from here and from nowhere else. The harness in `tests/loom` compiles the
//! same files beside a `sync` of its own, made of loom's types, and then runs them under
//! every interleaving.
//!
//! Invariant: no caller's code runs while one of these locks is held, so none is ever poisoned.

pub(crate) use std::collections::BTreeMap;
pub(crate) use std::mem;
pub(crate) use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::time::Duration;

pub(crate) use crate::mark;

use std::sync::PoisonError;

/// Locks `mutex`.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits at `condvar` until `condition` is false, or until `timeout` has passed. With a timeout
/// the caller looks at the condition again to learn which it was.
pub(crate) fn wait_while<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<Duration>,
    condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    match timeout {
        None => condvar.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner),
        Some(timeout) => {
            let waited = condvar.wait_timeout_while(guard, timeout, condition);
            waited.unwrap_or_else(PoisonError::into_inner).0
        }
    }
}
