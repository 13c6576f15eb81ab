//! The operating system's disk, clock and randomness.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    Access, Clock, Disk, DiskFile, DiskLock, Entropy, FileIdentity, read_whole, write_whole,
};
use crate::error::{Error, Result};

/// The file system of the machine (Linux and macOS; no network file systems).
///
/// ```no_run
/// use rereduce::env::{Disk, RealDisk};
/// let files = RealDisk.list(std::path::Path::new("/tmp"))?;
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile {
    file: File,
    path: PathBuf,
    /// Where the next append goes. One writer per file, so nobody else moves it.
    end: AtomicU64,
}

struct RealLock {
    file: File,
}

impl DiskLock for RealLock {}

impl Drop for RealLock {
    /// Unlocks by name. Closing is not enough: a process that is being started holds copies of all
    /// open files for a moment, and the lock with them.
    fn drop(&mut self) {
        // If the system refuses, closing still unlocks it a little later.
        let _ = self.file.unlock();
    }
}

impl RealFile {
    fn boxed(file: File, path: &Path) -> Result<Box<dyn DiskFile>> {
        let end = file.metadata().map_err(|error| Error::io("stat", path, error))?.len();
        Ok(Box::new(RealFile { file, path: path.to_path_buf(), end: AtomicU64::new(end) }))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_whole(bytes, |rest, before| self.file.write_at(rest, offset + before))
    }

    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> Error + '_ {
        move |error| Error::io(operation, &self.path, error)
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .open(path)
            .map_err(|error| missing_or_io("open", path, error))?;
        RealFile::boxed(file, path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| Error::io("create", path, error))?;
        RealFile::boxed(file, path)
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn DiskLock>>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| Error::io("open lock file", path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(RealLock { file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", path, error)),
        }
    }

    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(FileIdentity { device: found.dev(), inode: found.ino() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("stat", path, error)),
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let failed = |error| Error::io("list", directory, error);
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.sort();
        Ok(paths)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(|error| missing_or_io("rename", from, error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|error| missing_or_io("remove", path, error))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let directory = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| Error::io("flush directory", directory, error))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(missing_or_io("create directory", path, error))
            }
            _ => Ok(()),
        }
    }
}

impl DiskFile for RealFile {
    fn size(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(self.failed("stat"))?.len())
    }

    fn append(&self, bytes: &[u8]) -> Result<u64> {
        let offset = self.end.load(Ordering::Acquire);
        self.write_at(offset, bytes).map_err(self.failed("append to"))?;
        self.end.store(offset + bytes.len() as u64, Ordering::Release);
        Ok(offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_whole(buffer, |rest, before| self.file.read_at(rest, offset + before))
            .map_err(self.failed("read"))
    }

    fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(offset, bytes).map_err(self.failed("rewrite"))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(self.failed("flush"))
    }

    fn identity(&self) -> Result<FileIdentity> {
        let found = self.file.metadata().map_err(self.failed("stat"))?;
        Ok(FileIdentity { device: found.dev(), inode: found.ino() })
    }

    fn copy_attributes(&self, other: &Path) -> Result<()> {
        let failed = |error| Error::io("copy permissions of", other, error);
        let wanted = std::fs::metadata(other).map_err(failed)?;
        let here = self.file.metadata().map_err(failed)?;
        self.file.set_permissions(wanted.permissions()).map_err(failed)?;
        if (wanted.uid(), wanted.gid()) != (here.uid(), here.gid()) {
            // Only root may give a file away; anyone else keeps what they create.
            match fchown(&self.file, Some(wanted.uid()), Some(wanted.gid())) {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                    return Err(failed(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn missing_or_io(operation: &'static str, path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NoSuchFile { path: path.to_path_buf() },
        _ => Error::io(operation, path, error),
    }
}

/// The system's wall clock.
///
/// ```
/// use rereduce::env::{Clock, RealClock};
/// assert!(RealClock.now() > std::time::Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Duration {
        // A clock before 1970 counts as 1970.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// The system's random numbers.
///
/// ```
/// use rereduce::env::{Entropy, RealEntropy};
/// let mut id = [0; 16];
/// RealEntropy.fill(&mut id)?;
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RealEntropy;

impl Entropy for RealEntropy {
    fn fill(&self, buffer: &mut [u8]) -> Result<()> {
        let path = Path::new("/dev/urandom");
        File::open(path)
            .and_then(|mut file| file.read_exact(buffer))
            .map_err(|error| Error::io("read", path, error))
    }
}
