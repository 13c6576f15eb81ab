//! What a simulated disk saw: every call with its outcome, in order, and notes of who acknowledged
//! what in between.
//!
//! Invariant: replaying the calls of a trace through a fresh [`PageCache`](crate::PageCache) gives
//! the very state the recording disk had; the trace is all that the explorer needs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::plan::Failure;

/// One call to the disk, with what a replay needs of it.
///
/// ```
/// use rereduce_crash_sim::Call;
/// let call = Call::SyncDir { directory: std::path::Path::new("d").into() };
/// assert_eq!(call.to_string(), "sync_dir d");
/// assert!(call.changes_the_disk());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// An existing file was opened, for writing or not.
    Open {
        /// Its name.
        path: Arc<Path>,
        /// Whether for writing.
        write: bool,
    },
    /// An empty file was made.
    Create {
        /// Its name.
        path: Arc<Path>,
        /// The file, by its number on this disk.
        inode: u64,
    },
    /// The lock was asked for.
    Lock {
        /// The lock file.
        path: Arc<Path>,
    },
    /// A name's identity was asked for.
    Identify {
        /// The name.
        path: Arc<Path>,
    },
    /// A directory was listed.
    List {
        /// The directory.
        directory: Arc<Path>,
    },
    /// A name was moved, replacing what was there.
    Rename {
        /// The old name.
        from: Arc<Path>,
        /// The new name.
        to: Arc<Path>,
        /// The file.
        inode: u64,
    },
    /// A name was removed.
    Remove {
        /// The name.
        path: Arc<Path>,
    },
    /// A directory was flushed.
    SyncDir {
        /// The directory.
        directory: Arc<Path>,
    },
    /// Bytes were appended.
    Append {
        /// The file.
        inode: u64,
        /// The name it was opened by.
        path: Arc<Path>,
        /// Where the bytes begin.
        offset: u64,
        /// What was written, even if the call failed part-way.
        bytes: Arc<[u8]>,
    },
    /// Bytes were read.
    Read {
        /// The name it was opened by.
        path: Arc<Path>,
        /// Where.
        offset: u64,
        /// How many were asked for.
        length: u64,
    },
    /// Bytes were written once more over themselves.
    Rewrite {
        /// The file.
        inode: u64,
        /// The name it was opened by.
        path: Arc<Path>,
        /// Where.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// A file was flushed.
    Sync {
        /// The file.
        inode: u64,
        /// The name it was opened by.
        path: Arc<Path>,
    },
}

impl Call {
    /// Whether the call can change what a crash leaves. Reading, listing and locking cannot.
    pub fn changes_the_disk(&self) -> bool {
        match self {
            Call::Create { .. }
            | Call::Rename { .. }
            | Call::Remove { .. }
            | Call::SyncDir { .. }
            | Call::Append { .. }
            | Call::Rewrite { .. }
            | Call::Sync { .. } => true,
            Call::Open { .. }
            | Call::Lock { .. }
            | Call::Identify { .. }
            | Call::List { .. }
            | Call::Read { .. } => false,
        }
    }
}

impl Call {
    /// Whether the standard library makes the call once more when a signal interrupts it.
    pub(crate) fn is_restarted(&self) -> bool {
        match self {
            Call::Open { .. }
            | Call::Create { .. }
            | Call::SyncDir { .. }
            | Call::Append { .. }
            | Call::Read { .. }
            | Call::Rewrite { .. }
            | Call::Sync { .. } => true,
            Call::Lock { .. }
            | Call::Identify { .. }
            | Call::List { .. }
            | Call::Rename { .. }
            | Call::Remove { .. } => false,
        }
    }

    /// Leaves at most `most` bytes of a write, and says how many bytes it, or a read, is about.
    pub(crate) fn cut(&mut self, most: u64) -> u64 {
        match self {
            Call::Append { bytes, .. } => {
                if (bytes.len() as u64) > most {
                    *bytes = bytes[..most as usize].into();
                }
                bytes.len() as u64
            }
            Call::Rewrite { length, .. } => {
                *length = most.min(*length);
                *length
            }
            Call::Read { length, .. } => most.min(*length),
            _ => 0,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Open { path, write } => {
                write!(out, "open {} {}", path.display(), if *write { "write" } else { "read" })
            }
            Call::Create { path, .. } => write!(out, "create {}", path.display()),
            Call::Lock { path } => write!(out, "lock {}", path.display()),
            Call::Identify { path } => write!(out, "identify {}", path.display()),
            Call::List { directory } => write!(out, "list {}", directory.display()),
            Call::Rename { from, to, .. } => {
                write!(out, "rename {} {}", from.display(), to.display())
            }
            Call::Remove { path } => write!(out, "remove {}", path.display()),
            Call::SyncDir { directory } => write!(out, "sync_dir {}", directory.display()),
            Call::Append { path, offset, bytes, .. } => {
                write!(out, "append {} {offset}+{}", path.display(), bytes.len())
            }
            Call::Read { path, offset, length } => {
                write!(out, "read {} {offset}+{length}", path.display())
            }
            Call::Rewrite { path, offset, length, .. } => {
                write!(out, "rewrite {} {offset}+{length}", path.display())
            }
            Call::Sync { path, .. } => write!(out, "sync {}", path.display()),
        }
    }
}

/// One line of a trace.
///
/// ```
/// use rereduce_crash_sim::Entry;
/// assert_eq!(Entry::Acknowledged(3).to_string(), "-- operation 3 acknowledged");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A call, and how it went wrong if it did. A write lists only the bytes that it wrote. A
    /// transfer that was cut short or interrupted is followed by the call that goes on with it.
    Call(Call, Option<Failure>),
    /// The workload began this operation (counted from 1).
    Began(usize),
    /// The engine said that this operation is done.
    Acknowledged(usize),
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Call(call, None) => write!(out, "{call}"),
            Entry::Call(call, Some(failure)) if failure.error().is_some() => {
                write!(out, "{call} failed: {failure}")
            }
            Entry::Call(call, Some(failure)) => write!(out, "{call} answered: {failure}"),
            Entry::Began(number) => write!(out, "-- operation {number} began"),
            Entry::Acknowledged(number) => write!(out, "-- operation {number} acknowledged"),
        }
    }
}
