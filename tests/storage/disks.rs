//! A disk that calls back before each call, and may refuse it: for counting, for blocking, and for
//! doing something else at exactly this moment.
//!
//! Invariant: what the callback lets pass reaches the disk below unchanged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rereduce::Result;
use rereduce::env::{Access, Disk, DiskFile, DiskLock, FileIdentity};
use rereduce_crash_sim::Verb;

/// Called with what is about to happen and to which file.
pub(crate) type Hook = Arc<dyn Fn(Verb, &Path) -> Result<()> + Send + Sync>;

pub(crate) struct Hooked {
    pub(crate) below: Arc<dyn Disk>,
    pub(crate) hook: Hook,
}

struct HookedFile {
    below: Box<dyn DiskFile>,
    path: PathBuf,
    hook: Hook,
}

impl Hooked {
    pub(crate) fn new(
        below: impl Disk + 'static,
        hook: impl Fn(Verb, &Path) -> Result<()> + Send + Sync + 'static,
    ) -> Hooked {
        Hooked { below: Arc::new(below), hook: Arc::new(hook) }
    }

    fn file(&self, path: &Path, below: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(HookedFile { below, path: path.to_path_buf(), hook: self.hook.clone() })
    }
}

impl Disk for Hooked {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>> {
        (self.hook)(Verb::Open, path)?;
        Ok(self.file(path, self.below.open(path, access)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        (self.hook)(Verb::Create, path)?;
        Ok(self.file(path, self.below.create(path)?))
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn DiskLock>>> {
        (self.hook)(Verb::Lock, path)?;
        self.below.lock(path)
    }

    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        (self.hook)(Verb::Identify, path)?;
        self.below.identity(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        (self.hook)(Verb::List, directory)?;
        self.below.list(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        (self.hook)(Verb::Rename, to)?;
        self.below.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        (self.hook)(Verb::Remove, path)?;
        self.below.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        (self.hook)(Verb::SyncDir, path)?;
        self.below.sync_dir(path)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.below.create_dir(path)
    }
}

impl DiskFile for HookedFile {
    fn size(&self) -> Result<u64> {
        self.below.size()
    }

    fn append(&self, bytes: &[u8]) -> Result<u64> {
        (self.hook)(Verb::Append, &self.path)?;
        self.below.append(bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        (self.hook)(Verb::Read, &self.path)?;
        self.below.read_at(offset, buffer)
    }

    fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        (self.hook)(Verb::Rewrite, &self.path)?;
        self.below.rewrite_same(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        (self.hook)(Verb::Sync, &self.path)?;
        self.below.sync()
    }

    fn identity(&self) -> Result<FileIdentity> {
        (self.hook)(Verb::Identify, &self.path)?;
        self.below.identity()
    }

    fn copy_attributes(&self, other: &Path) -> Result<()> {
        self.below.copy_attributes(other)
    }
}
