//! What an index says about itself.
//!
//! Invariant: these are reports. Nothing here decides what an update does.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::file::WriteCounts;
use crate::view::design::Signature;

/// Why an index was built anew.
///
/// ```
/// use rereduce::view::index::Rebuilt;
/// assert_ne!(Rebuilt::Ahead, Rebuilt::Beside);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuilt {
    /// It was made from a newer state than the database has: an older copy was restored.
    Ahead,
    /// It was made from a state that the database never had: it is another one, or an older copy
    /// that went another way since.
    Beside,
    /// The database has forgotten purges that it had not seen.
    PurgesForgotten,
    /// Its keys were made under another version of the collation.
    OtherCollation,
    /// It holds other views than its name says.
    OtherViews,
    /// Its file was damaged.
    Damaged,
}

/// How far an update is.
///
/// ```
/// use rereduce::view::index::Progress;
/// let progress = Progress { done: 3, total: 4 };
/// assert!(progress.done < progress.total);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Changes and purges that it has looked at.
    pub done: u64,
    /// How many there were when it began.
    pub total: u64,
}

/// What a handle of an index did so far.
///
/// ```
/// use rereduce::view::index::IndexCounts;
/// assert_eq!(IndexCounts::default().mapped, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// Documents that were handed to the map functions.
    pub mapped: u64,
    /// Updates that began, those that had nothing to do not counted.
    pub updates: u64,
    /// Nodes that updates and queries read from the file that the index has now.
    pub nodes_read: u64,
    /// What was written.
    pub writes: WriteCounts,
}

/// What an index says about itself.
///
/// ```
/// use rereduce::view::index::IndexInfo;
/// fn is_current(info: &IndexInfo, update_seq: u64) -> bool {
///     info.update_seq == update_seq && !info.updater_running
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexInfo {
    /// What names it.
    pub signature: Signature,
    /// The language of its functions.
    pub language: String,
    /// It has all changes up to this sequence; those behind it as far as an update in progress
    /// has come.
    pub update_seq: u64,
    /// It has all purges up to this one.
    pub purge_seq: u64,
    /// Documents that have rows.
    pub documents: u64,
    /// Rows of each view.
    pub rows: Vec<u64>,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of all rows.
    pub active_bytes: u64,
    /// Whether it is being updated.
    pub updater_running: bool,
    /// Queries that wait for that.
    pub waiting_clients: u64,
    /// Whether it is being compacted.
    pub compact_running: bool,
    /// Why this handle built it anew the last time, if it did.
    pub rebuilt: Option<Rebuilt>,
}

/// The counters behind [`Progress`] and [`IndexCounts`].
#[derive(Default)]
pub(crate) struct Progressing {
    pub(crate) running: AtomicBool,
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
    pub(crate) mapped: AtomicU64,
    pub(crate) updates: AtomicU64,
}

impl Progressing {
    /// Says that an update runs, until what this returns is dropped.
    pub(crate) fn begin(&self) -> impl Drop + '_ {
        self.done.store(0, Ordering::Release);
        self.total.store(0, Ordering::Release);
        self.updates.fetch_add(1, Ordering::Relaxed);
        self.running.store(true, Ordering::Release);
        OnDrop(|| self.running.store(false, Ordering::Release))
    }

    pub(crate) fn now(&self) -> Option<Progress> {
        let (done, total) = (self.done.load(Ordering::Acquire), self.total.load(Ordering::Acquire));
        self.running.load(Ordering::Acquire).then_some(Progress { done: done.min(total), total })
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
