//! The seams to the outside: disk, clock, randomness.
//!
//! Everything the engine does to a file goes through [`Disk`] and [`DiskFile`], so a simulated
//! disk sees, and may fail, every call. There is no way to overwrite bytes with different ones:
//! files only grow.
//!
//! Invariant: outside this module the engine touches no file system, no clock, no random numbers.

mod memory;
mod real;
mod whole;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use memory::MemoryDisk;
pub use real::{RealClock, RealDisk, RealEntropy};
pub use whole::{read_whole, write_whole};

use crate::error::Result;

/// How a file is opened.
///
/// ```
/// assert_ne!(rereduce::env::Access::Read, rereduce::env::Access::Write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading only; works on a read-only mount.
    Read,
    /// Reading and appending.
    Write,
}

/// Tells whether two opens reached the same file, whatever its name is now. Device and inode on a
/// real disk.
///
/// ```
/// use rereduce::env::FileIdentity;
/// assert_ne!(FileIdentity { device: 1, inode: 2 }, FileIdentity { device: 1, inode: 3 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The file system.
    pub device: u64,
    /// The file within it.
    pub inode: u64,
}

/// A file system, as far as a database needs one.
///
/// Every method returns [`Error::Io`](crate::Error::Io) when the system refuses. Implement this
/// and [`DiskFile`] to run the engine (or your own) on a disk of your making.
///
/// ```
/// use rereduce::env::{Access, Disk, MemoryDisk};
/// use std::path::Path;
/// let disk = MemoryDisk::new();
/// let file = disk.create(Path::new("a"))?;
/// assert_eq!(file.append(b"bytes")?, 0);
/// file.sync()?;
/// disk.rename(Path::new("a"), Path::new("b"))?;
/// assert_eq!(disk.open(Path::new("b"), Access::Read)?.size()?, 5);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait Disk: Send + Sync {
    /// Opens an existing file. A missing one is [`Error::NoSuchFile`](crate::Error::NoSuchFile).
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>>;

    /// Creates an empty file for writing; one that exists is an error.
    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>>;

    /// Takes the exclusive lock on the lock file at `path`, which is created if it is missing and
    /// never removed. `None` if another holder, in this process or another, has it. Dropping the
    /// lock releases it.
    fn lock(&self, path: &Path) -> Result<Option<Box<dyn DiskLock>>>;

    /// Which file is at `path` now; `None` if there is none.
    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>>;

    /// The files in a directory, sorted by path. A missing directory has none.
    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>>;

    /// Renames a file, replacing what was at `to`. Durable after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file; a missing one is [`Error::NoSuchFile`](crate::Error::NoSuchFile).
    fn remove(&self, path: &Path) -> Result<()>;

    /// Makes creations, renames and removals in the directory of `path` durable.
    fn sync_dir(&self, path: &Path) -> Result<()>;

    /// Makes the directory at `path` if there is none; the directory above it exists. Durable after
    /// [`Disk::sync_dir`]. A disk whose files need no directories has nothing to do here.
    fn create_dir(&self, path: &Path) -> Result<()> {
        let _ = path;
        Ok(())
    }
}

/// A lock that is held until it is dropped.
///
/// ```
/// use rereduce::env::{Disk, MemoryDisk};
/// use std::path::Path;
/// let disk = MemoryDisk::new();
/// let lock = disk.lock(Path::new("l"))?.expect("nobody else holds it");
/// assert!(disk.lock(Path::new("l"))?.is_none());
/// drop(lock);
/// assert!(disk.lock(Path::new("l"))?.is_some());
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait DiskLock: Send + Sync {}

/// One open file that only grows.
///
/// ```
/// use rereduce::env::{Disk, DiskFile, MemoryDisk};
/// use std::path::Path;
/// let file = MemoryDisk::new().create(Path::new("f"))?;
/// file.append(b"hello ")?;
/// assert_eq!(file.append(b"world")?, 6);
/// let mut bytes = [0; 5];
/// assert_eq!(file.read_at(6, &mut bytes)?, 5);
/// assert_eq!(&bytes, b"world");
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait DiskFile: Send + Sync {
    /// Bytes in the file now.
    fn size(&self) -> Result<u64>;

    /// Writes all of `bytes` at the end and returns the offset where they begin. After an error
    /// any part of them may be there, and the handle must not be appended to again.
    fn append(&self, bytes: &[u8]) -> Result<u64>;

    /// Fills `buffer` from `offset` on and returns how many bytes there were; fewer than asked
    /// for only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Writes `bytes`, which the caller has just read from this place, once more: the next
    /// [`DiskFile::sync`] then brings them to the disk even if an earlier sync failed and the
    /// system took the pages for clean.
    fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Returns once everything appended or rewritten before is on the disk, size included.
    fn sync(&self) -> Result<()>;

    /// Which file this is, whatever its name is now.
    fn identity(&self) -> Result<FileIdentity>;

    /// Gives this file the permissions of the file at `other`, and its owner where allowed.
    fn copy_attributes(&self, other: &Path) -> Result<()>;
}

/// Tells the time.
///
/// ```
/// use rereduce::env::{Clock, RealClock};
/// assert!(RealClock.now().as_secs() > 1_600_000_000);
/// ```
pub trait Clock: Send + Sync {
    /// Time since the Unix epoch.
    fn now(&self) -> Duration;
}

/// A source of random bytes.
///
/// ```
/// use rereduce::env::{Entropy, RealEntropy};
/// let (mut a, mut b) = ([0; 16], [0; 16]);
/// RealEntropy.fill(&mut a)?;
/// RealEntropy.fill(&mut b)?;
/// assert_ne!(a, b);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait Entropy: Send + Sync {
    /// Fills `buffer` with random bytes.
    fn fill(&self, buffer: &mut [u8]) -> Result<()>;
}

/// All that a database needs from outside.
///
/// ```
/// use rereduce::env::{Env, MemoryDisk};
/// let real = Env::real();
/// let simulated = Env { disk: std::sync::Arc::new(MemoryDisk::new()), ..real };
/// # let _ = simulated;
/// ```
#[derive(Clone)]
pub struct Env {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl Env {
    /// The operating system's files, clock and randomness.
    pub fn real() -> Env {
        Env { disk: Arc::new(RealDisk), clock: Arc::new(RealClock), entropy: Arc::new(RealEntropy) }
    }

    /// A fresh disk in memory, with the real clock and randomness.
    pub fn memory() -> Env {
        Env { disk: Arc::new(MemoryDisk::new()), ..Env::real() }
    }
}
