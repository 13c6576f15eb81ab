//! The place where the writer puts the newest committed state and readers take it from.
//!
//! ```text
//! writer   publish(a)     publish(b)               publish(c)
//! version      1              2                        3
//! reader          load: (a, 1)   scan a   wait_newer(1) returns at once: load: (b, 2)
//! ```
//!
//! Each state has a version. A reader that wants to follow the database takes a state together
//! with its version, works through the state, and then waits for a version newer than that one. A
//! commit that came while it worked has raised the version already, so it cannot be missed.
//!
//! Invariant: state and version change together under one lock, and the version only rises.
//! `tests/loom` runs this file under every interleaving.

use crate::sync::{Arc, Condvar, Duration, Mutex, lock, mark, mem, wait_while};

/// The newest committed state, shared by one writer and any number of readers.
///
/// States are handed out as they were published; a reader keeps the one it took for as long as it
/// likes, and neither side ever waits for the other to finish with one.
///
/// ```
/// use rereduce::publish::{Published, Waited};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let published = Published::new(Arc::new("empty"));
/// let (state, seen) = published.load_with_version();
/// published.publish(Arc::new("one document"));
/// assert_eq!(*state, "empty");
/// assert_eq!(published.wait_newer(seen, None), Waited::Newer);
///
/// let (state, seen) = published.load_with_version();
/// assert_eq!(*state, "one document");
/// assert_eq!(published.wait_newer(seen, Some(Duration::ZERO)), Waited::TimedOut);
/// ```
pub struct Published<T> {
    current: Mutex<Current<T>>,
    changed: Condvar,
}

struct Current<T> {
    state: Arc<T>,
    version: u64,
    closed: bool,
}

/// Why [`Published::wait_newer`] returned.
///
/// ```
/// use rereduce::publish::{Published, Waited};
/// let published = Published::new(std::sync::Arc::new(()));
/// published.close();
/// assert_eq!(published.wait_newer(published.version(), None), Waited::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// There is a newer state; load it.
    Newer,
    /// The time is over and there is none.
    TimedOut,
    /// There is none, and there never will be.
    Closed,
}

impl<T> Published<T> {
    /// Begins with `state`, which has version 0.
    pub fn new(state: Arc<T>) -> Published<T> {
        let current = Current { state, version: 0, closed: false };
        Published { current: Mutex::new(current), changed: Condvar::new() }
    }

    /// The newest state. Never waits for a commit in progress.
    pub fn load(&self) -> Arc<T> {
        lock(&self.current).state.clone()
    }

    /// The newest state and its version, which belong together. Take both **before** reading from
    /// the state, and pass the version to [`Published::wait_newer`] afterwards.
    // spec: PUBLISH-1
    pub fn load_with_version(&self) -> (Arc<T>, u64) {
        let current = lock(&self.current);
        (current.state.clone(), current.version)
    }

    /// The version of the newest state: how many were published since [`Published::new`].
    pub fn version(&self) -> u64 {
        lock(&self.current).version
    }

    /// Makes `state` the newest one, wakes all who wait for it, and returns its version. Only the
    /// writer calls this, after its flush.
    // spec: PUBLISH-1, PUBLISH-2
    pub fn publish(&self, state: Arc<T>) -> u64 {
        let mut current = lock(&self.current);
        current.version += 1;
        if mark::planted("publish-torn") {
            drop(current);
            current = lock(&self.current);
        }
        let version = current.version;
        let before = mem::replace(&mut current.state, state);
        drop(current);
        self.changed.notify_all();
        // The state before may end here and run the destructors of a whole cache: not in the lock.
        drop(before);
        version
    }

    /// Waits until there is a state newer than version `seen`: returns at once if there is one
    /// already, also after [`Published::close`]. `None` waits without a limit.
    // spec: PUBLISH-2, PUBLISH-3
    pub fn wait_newer(&self, seen: u64, timeout: Option<Duration>) -> Waited {
        let current = lock(&self.current);
        let seen = if mark::planted("publish-lost-wakeup") { current.version } else { seen };
        let current = wait_while(&self.changed, current, timeout, |current| {
            current.version <= seen && !current.closed
        });
        if current.version > seen {
            Waited::Newer
        } else if current.closed {
            Waited::Closed
        } else {
            Waited::TimedOut
        }
    }

    /// Says that nothing will be published any more and wakes all who wait. States can be loaded
    /// as before.
    // spec: PUBLISH-3
    pub fn close(&self) {
        lock(&self.current).closed = true;
        if !mark::planted("publish-silent-close") {
            self.changed.notify_all();
        }
    }
}
