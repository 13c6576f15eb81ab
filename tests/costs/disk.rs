//! A disk that counts what is read, and whose file can get a hole of any size at its end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rereduce::Result;
use rereduce::env::{Access, Disk, DiskFile, DiskLock, Env, FileIdentity, MemoryDisk};

/// A disk in memory for one database. Its file reads as if `hole` zeros stood where it ended when
/// the hole was made; they take no memory.
#[derive(Clone, Default)]
pub(crate) struct HoleDisk {
    disk: MemoryDisk,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    bytes_read: AtomicU64,
    /// Where the hole begins, and its length.
    hole: Mutex<Option<(u64, u64)>>,
}

struct HoleFile {
    file: Box<dyn DiskFile>,
    state: Arc<State>,
}

impl HoleDisk {
    /// An environment with this disk.
    pub(crate) fn env(&self) -> Env {
        Env { disk: Arc::new(self.clone()), ..Env::real() }
    }

    /// Puts a hole behind the file at `path`, which nobody has open.
    pub(crate) fn make_hole(&self, path: &Path, length: u64) {
        let end = self.disk.bytes(path).unwrap().len() as u64;
        *self.state.hole.lock().unwrap() = Some((end, length));
    }

    /// Bytes read since this was asked last.
    pub(crate) fn take_bytes_read(&self) -> u64 {
        self.state.bytes_read.swap(0, Ordering::Relaxed)
    }

    fn wrapped(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(HoleFile { file, state: self.state.clone() })
    }
}

impl HoleFile {
    fn hole(&self) -> (u64, u64) {
        self.state.hole.lock().unwrap().unwrap_or((u64::MAX, 0))
    }
}

impl Disk for HoleDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>> {
        Ok(self.wrapped(self.disk.open(path, access)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        Ok(self.wrapped(self.disk.create(path)?))
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn DiskLock>>> {
        self.disk.lock(path)
    }

    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        self.disk.identity(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        self.disk.list(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.disk.sync_dir(path)
    }
}

impl DiskFile for HoleFile {
    fn size(&self) -> Result<u64> {
        Ok(self.file.size()? + self.hole().1)
    }

    fn append(&self, bytes: &[u8]) -> Result<u64> {
        Ok(self.file.append(bytes)? + self.hole().1)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let (start, length) = self.hole();
        let end = start.saturating_add(length);
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let rest = &mut buffer[filled..];
            let until = |limit: u64| (limit - at).min(rest.len() as u64) as usize;
            let count = if at < start {
                let count = until(start);
                self.file.read_at(at, &mut rest[..count])?
            } else if at < end {
                let count = until(end);
                rest[..count].fill(0);
                count
            } else {
                self.file.read_at(at - length, rest)?
            };
            if count == 0 {
                break;
            }
            filled += count;
        }
        self.state.bytes_read.fetch_add(filled as u64, Ordering::Relaxed);
        Ok(filled)
    }

    fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (start, length) = self.hole();
        if offset >= start && offset < start.saturating_add(length) {
            return Ok(());
        }
        self.file.rewrite_same(offset, &bytes[..bytes.len().min((start - offset) as usize)])
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn identity(&self) -> Result<FileIdentity> {
        self.file.identity()
    }

    fn copy_attributes(&self, other: &Path) -> Result<()> {
        self.file.copy_attributes(other)
    }
}
