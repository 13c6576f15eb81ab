//! A disk in memory: every write is durable at once and nothing ever fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Access, Disk, DiskFile, DiskLock, FileIdentity};
use crate::error::{Error, Result};

/// A disk in memory. Clones share the files.
///
/// ```
/// use rereduce::env::{Disk, MemoryDisk};
/// use std::path::Path;
/// let disk = MemoryDisk::new();
/// disk.create(Path::new("dir/a"))?.append(b"x")?;
/// assert_eq!(disk.bytes(Path::new("dir/a")), Some(b"x".to_vec()));
/// assert_eq!(disk.list(Path::new("dir"))?.len(), 1);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<PathBuf, (FileIdentity, Bytes)>,
    locked: BTreeSet<PathBuf>,
    files_made: u64,
}

/// The bytes of one file, shared by its name and everyone who has it open.
type Bytes = Arc<Mutex<Vec<u8>>>;

struct MemoryFile {
    identity: FileIdentity,
    path: PathBuf,
    bytes: Bytes,
    access: Access,
}

struct MemoryLock {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// A copy of the file at `path`, or `None`.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        Some(locked(&locked(&self.state).names.get(path)?.1).clone())
    }

    /// Puts a file of these bytes at `path`, as a new file if one is there already.
    pub fn place(&self, path: &Path, bytes: Vec<u8>) {
        locked(&self.state).insert(path, bytes);
    }
}

impl State {
    fn insert(&mut self, path: &Path, bytes: Vec<u8>) -> (FileIdentity, Bytes) {
        self.files_made += 1;
        let identity = FileIdentity { device: 0, inode: self.files_made };
        let entry = (identity, Arc::new(Mutex::new(bytes)));
        self.names.insert(path.to_path_buf(), entry.clone());
        entry
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>> {
        match locked(&self.state).names.get(path) {
            Some((identity, bytes)) => Ok(Box::new(MemoryFile {
                identity: *identity,
                path: path.to_path_buf(),
                bytes: bytes.clone(),
                access,
            })),
            None => Err(Error::NoSuchFile { path: path.to_path_buf() }),
        }
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        let mut state = locked(&self.state);
        if state.names.contains_key(path) {
            return Err(Error::io("create", path, io::ErrorKind::AlreadyExists.into()));
        }
        let (identity, bytes) = state.insert(path, Vec::new());
        let path = path.to_path_buf();
        Ok(Box::new(MemoryFile { identity, path, bytes, access: Access::Write }))
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn DiskLock>>> {
        if !locked(&self.state).locked.insert(path.to_path_buf()) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock { path: path.to_path_buf(), state: self.state.clone() })))
    }

    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        Ok(locked(&self.state).names.get(path).map(|(identity, _)| *identity))
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let state = locked(&self.state);
        Ok(state.names.keys().filter(|path| path.parent() == Some(directory)).cloned().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = locked(&self.state);
        let Some(entry) = state.names.remove(from) else {
            return Err(Error::NoSuchFile { path: from.to_path_buf() });
        };
        state.names.insert(to.to_path_buf(), entry);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match locked(&self.state).names.remove(path) {
            Some(_) => Ok(()),
            None => Err(Error::NoSuchFile { path: path.to_path_buf() }),
        }
    }

    fn sync_dir(&self, _path: &Path) -> Result<()> {
        Ok(())
    }
}

impl MemoryFile {
    fn writable(&self, operation: &'static str) -> Result<MutexGuard<'_, Vec<u8>>> {
        match self.access {
            Access::Write => Ok(locked(&self.bytes)),
            Access::Read => {
                Err(Error::io(operation, &self.path, io::ErrorKind::PermissionDenied.into()))
            }
        }
    }
}

impl DiskFile for MemoryFile {
    fn size(&self) -> Result<u64> {
        Ok(locked(&self.bytes).len() as u64)
    }

    fn append(&self, bytes: &[u8]) -> Result<u64> {
        let mut file = self.writable("append to")?;
        let offset = file.len() as u64;
        file.extend_from_slice(bytes);
        Ok(offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let file = locked(&self.bytes);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
        let count = buffer.len().min(file.len() - start);
        buffer[..count].copy_from_slice(&file[start..start + count]);
        Ok(count)
    }

    fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.writable("rewrite")?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let same = file.get(start..).is_some_and(|rest| rest.starts_with(bytes));
        assert!(same, "rewrite_same was given other bytes than the file holds");
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn identity(&self) -> Result<FileIdentity> {
        Ok(self.identity)
    }

    fn copy_attributes(&self, _other: &Path) -> Result<()> {
        Ok(())
    }
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        locked(&self.state).locked.remove(&self.path);
    }
}

/// A panic while a lock is held leaves plain bytes behind, which are as good as before.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
