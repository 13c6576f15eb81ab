//! A disk with one file on it that nobody may change, parts of which come out damaged.
//!
//! Invariant: the bytes are shared by all images of one file; damage lies over them. The disk
//! counts what is read, so that a length found in damaged bytes shows when it is believed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rereduce::env::{Access, Disk, DiskFile, DiskLock, FileIdentity};
use rereduce::{Error, Result};

/// The disk. Clones share the counts.
#[derive(Clone)]
pub(crate) struct RottenDisk {
    path: &'static str,
    bytes: Arc<[u8]>,
    patches: Arc<[(u64, Vec<u8>)]>,
    size: u64,
    reads: Arc<Reads>,
}

/// What was read of a disk.
#[derive(Default)]
pub(crate) struct Reads {
    /// Bytes asked for by all reads.
    pub(crate) bytes: AtomicU64,
    /// Bytes asked for by the largest read.
    pub(crate) largest: AtomicU64,
    /// Calls that would have changed something.
    pub(crate) changes: AtomicU64,
}

struct RottenFile(RottenDisk);

struct NoLock;

impl RottenDisk {
    /// A disk with a file of these bytes at `path`, and `patches` laid over them; one that reaches
    /// beyond the end makes the file longer.
    pub(crate) fn new(
        path: &'static str,
        bytes: Arc<[u8]>,
        patches: Vec<(u64, Vec<u8>)>,
    ) -> RottenDisk {
        let end = |(offset, patch): &(u64, Vec<u8>)| offset + patch.len() as u64;
        let size = patches.iter().map(end).max().unwrap_or(0).max(bytes.len() as u64);
        RottenDisk { path, bytes, patches: patches.into(), size, reads: Arc::default() }
    }

    pub(crate) fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn refuse<T>(&self, operation: &'static str) -> Result<T> {
        self.reads.changes.fetch_add(1, Ordering::Relaxed);
        Err(Error::io(operation, self.path, io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    fn is_here(&self, path: &Path) -> bool {
        path == Path::new(self.path)
    }
}

impl Disk for RottenDisk {
    fn open(&self, path: &Path, _access: Access) -> Result<Box<dyn DiskFile>> {
        match self.is_here(path) {
            true => Ok(Box::new(RottenFile(self.clone()))),
            false => Err(Error::NoSuchFile { path: path.to_path_buf() }),
        }
    }

    fn create(&self, _path: &Path) -> Result<Box<dyn DiskFile>> {
        self.refuse("create")
    }

    fn lock(&self, _path: &Path) -> Result<Option<Box<dyn DiskLock>>> {
        Ok(Some(Box::new(NoLock)))
    }

    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        Ok(self.is_here(path).then_some(FileIdentity { device: 0, inode: 1 }))
    }

    fn list(&self, _directory: &Path) -> Result<Vec<PathBuf>> {
        Ok(vec![PathBuf::from(self.path)])
    }

    fn rename(&self, _from: &Path, _to: &Path) -> Result<()> {
        self.refuse("rename")
    }

    fn remove(&self, _path: &Path) -> Result<()> {
        self.refuse("remove")
    }

    fn sync_dir(&self, _path: &Path) -> Result<()> {
        self.refuse("flush directory")
    }
}

impl DiskFile for RottenFile {
    fn size(&self) -> Result<u64> {
        Ok(self.0.size)
    }

    fn append(&self, _bytes: &[u8]) -> Result<u64> {
        self.0.refuse("append to")
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let RottenDisk { bytes, patches, size, reads, .. } = &self.0;
        let wanted = buffer.len() as u64;
        reads.bytes.fetch_add(wanted, Ordering::Relaxed);
        reads.largest.fetch_max(wanted, Ordering::Relaxed);
        let count = size.saturating_sub(offset).min(wanted) as usize;
        let start = offset.min(bytes.len() as u64) as usize;
        let whole = count.min(bytes.len() - start);
        buffer[..whole].copy_from_slice(&bytes[start..start + whole]);
        buffer[whole..count].fill(0);
        let end = offset + count as u64;
        for (at, patch) in patches.iter() {
            let (from, to) = (offset.max(*at), end.min(*at + patch.len() as u64));
            if from < to {
                let patch = &patch[(from - at) as usize..(to - at) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(patch);
            }
        }
        Ok(count)
    }

    fn rewrite_same(&self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        self.0.refuse("rewrite")
    }

    fn sync(&self) -> Result<()> {
        self.0.refuse("flush")
    }

    fn identity(&self) -> Result<FileIdentity> {
        Ok(FileIdentity { device: 0, inode: 1 })
    }

    fn copy_attributes(&self, _other: &Path) -> Result<()> {
        self.0.refuse("copy attributes to")
    }
}

impl DiskLock for NoLock {}
