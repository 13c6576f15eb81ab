//! A disk in memory that does something of the test's in the middle of a read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rereduce::Result;
use rereduce::env::{Access, Disk, DiskFile, DiskLock, FileIdentity, MemoryDisk};

/// What to do at the next read, once.
pub(crate) type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A [`MemoryDisk`] with a hook in its reads.
#[derive(Clone, Default)]
pub(crate) struct HookDisk {
    disk: MemoryDisk,
    pub(crate) hook: Hook,
}

struct HookFile {
    file: Box<dyn DiskFile>,
    hook: Hook,
}

impl HookDisk {
    fn hooked(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(HookFile { file, hook: self.hook.clone() })
    }
}

impl Disk for HookDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>> {
        Ok(self.hooked(self.disk.open(path, access)?))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        Ok(self.hooked(self.disk.create(path)?))
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

impl DiskFile for HookFile {
    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn append(&self, bytes: &[u8]) -> Result<u64> {
        self.file.append(bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        // Taken out first: what it does may read.
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.file.read_at(offset, buffer)
    }

    fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.rewrite_same(offset, bytes)
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
