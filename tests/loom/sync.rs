//! What `src/sync.rs` is to the engine, in loom's types.

pub(crate) use std::collections::BTreeMap;
pub(crate) use std::mem;
pub(crate) use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
pub(crate) use std::time::Duration;

pub(crate) use loom::sync::{Arc, Condvar};

use std::ops::{Deref, DerefMut};

/// Marks and planted bugs of the thread that runs the model: loom runs all threads of a model on
/// that one.
pub(crate) mod mark {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    thread_local! {
        static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
        static HITS: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(crate) fn hit(name: &'static str) {
        HITS.with_borrow_mut(|hits| hits.insert(name));
    }

    pub(crate) fn was_hit(name: &str) -> bool {
        HITS.with_borrow(|hits| hits.contains(name))
    }

    pub(crate) fn planted(name: &str) -> bool {
        PLANTED.get() == Some(name)
    }

    pub(crate) fn plant(name: Option<&'static str>) -> Option<&'static str> {
        PLANTED.replace(name)
    }
}

/// A mutex whose guard knows it, so that a wait can let go of it without a condition variable.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: loom::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    MutexGuard { mutex, guard: mutex.0.lock().unwrap() }
}

/// Loom has no time. A wait with a timeout lets go of the lock once and is then over, which is one
/// of the things that a real one may do; loom tries how far the others come meanwhile.
pub(crate) fn wait_while<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<Duration>,
    mut condition: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    let MutexGuard { mutex, mut guard } = guard;
    if timeout.is_some() && condition(&mut guard) {
        drop(guard);
        return lock(mutex);
    }
    while condition(&mut guard) {
        guard = condvar.wait(guard).unwrap();
    }
    MutexGuard { mutex, guard }
}
