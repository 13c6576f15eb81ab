//! An open file: its identity, and reading from it.
//!
//! Invariant: no length found in the file leads to an allocation before it was compared with the
//! file's size.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::{self, BLOCK_BYTES};
use super::chunk::{ChunkSource, Pointer};
use super::header::{FORMAT_VERSION, FileId, Header, HeaderRead};
use crate::checksum::crc32c;
use crate::env::{Access, DiskFile, Env, FileIdentity};
use crate::error::{Corruption, Error, Result};
use crate::mark;

/// A file of ours that is open for reading or writing; shared by everyone who reads from it.
///
/// ```
/// use rereduce::env::{Access, Env};
/// use rereduce::file::{FileId, OpenFile};
/// use std::path::Path;
/// let env = Env::memory();
/// let file = OpenFile::create(&env, Path::new("db"), FileId::random(&env)?)?;
/// assert_eq!(OpenFile::open(&env, Path::new("db"), Access::Read)?.header(), file.header());
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct OpenFile {
    disk_file: Box<dyn DiskFile>,
    path: PathBuf,
    header: Header,
    /// The file is at least this long; it never shrinks.
    known_size: AtomicU64,
    /// Chunks read from the disk so far.
    chunks_read: AtomicU64,
}

impl OpenFile {
    /// Makes a new file with an empty history at `path`, over whatever is there, and makes its
    /// name durable. A crash leaves the old state or the new one.
    ///
    /// Cost: one small write, two flushes (file and directory).
    // spec: FILE-4
    pub fn create(env: &Env, path: &Path, database: FileId) -> Result<OpenFile> {
        let temporary = sibling(path, "create");
        let created = OpenFile::create_unnamed(env, &temporary, path, database)?;
        created.sync()?;
        env.disk.rename(&temporary, path)?;
        if !mark::planted("create-without-directory-sync") {
            env.disk.sync_dir(path)?;
        }
        Ok(created)
    }

    /// Makes a new file at `at`, over whatever is there, that will be renamed to `path` by the
    /// caller once it is complete and flushed.
    pub(crate) fn create_unnamed(
        env: &Env,
        at: &Path,
        path: &Path,
        database: FileId,
    ) -> Result<OpenFile> {
        let removed = match mark::planted("leftover-stays") {
            true => Ok(()),
            false => env.disk.remove(at),
        };
        match removed {
            Ok(()) | Err(Error::NoSuchFile { .. }) => {}
            Err(error) => return Err(error),
        }
        let header = Header { version: FORMAT_VERSION, file: FileId::random(env)?, database };
        let disk_file = env.disk.create(at)?;
        disk_file.append(&header.encode())?;
        Ok(OpenFile {
            disk_file,
            path: path.to_path_buf(),
            header,
            known_size: AtomicU64::new(BLOCK_BYTES),
            chunks_read: AtomicU64::new(0),
        })
    }

    /// Opens the file at `path`. Cost: one read.
    ///
    /// Errors: [`Error::NoSuchFile`], [`Error::NotADatabase`], [`Error::NewerFormat`],
    /// [`Error::Corrupt`] if both copies of the header are damaged, [`Error::Io`].
    pub fn open(env: &Env, path: &Path, access: Access) -> Result<OpenFile> {
        let disk_file = env.disk.open(path, access)?;
        let mut block = vec![0; BLOCK_BYTES as usize];
        let count = disk_file.read_at(0, &mut block)?;
        block.truncate(count);
        let header = match Header::decode(path, &block)? {
            HeaderRead::Found(header) => header,
            HeaderRead::Torn => {
                mark::hit("header-torn");
                Header { version: 0, file: FileId([0; 16]), database: FileId([0; 16]) }
            }
        };
        Ok(OpenFile {
            known_size: AtomicU64::new(disk_file.size()?),
            disk_file,
            path: path.to_path_buf(),
            header,
            chunks_read: AtomicU64::new(0),
        })
    }

    /// Whether the file is empty, or was cut off before its header was whole, so that there is
    /// nothing in it yet. It reads as an empty database; a writer makes it anew.
    // spec: FILE-1
    pub fn is_unborn(&self) -> bool {
        self.header.version == 0
    }

    /// What its header says.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The path it was opened under.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which file this is for the operating system.
    pub fn identity(&self) -> Result<FileIdentity> {
        self.disk_file.identity()
    }

    /// Bytes in the file now.
    pub fn size(&self) -> Result<u64> {
        let size = self.disk_file.size().map_err(|error| error.about(&self.path))?;
        self.known_size.fetch_max(size, Ordering::Relaxed);
        Ok(size)
    }

    /// Chunks read from the disk through this file so far.
    pub fn chunks_read(&self) -> u64 {
        self.chunks_read.load(Ordering::Relaxed)
    }

    /// Appends bytes; see [`DiskFile::append`]. Errors speak of the name that the file is for.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<u64> {
        let offset = self.disk_file.append(bytes).map_err(|error| error.about(&self.path))?;
        self.known_size.fetch_max(offset + bytes.len() as u64, Ordering::Relaxed);
        Ok(offset)
    }

    /// Writes the same bytes once more; see [`DiskFile::rewrite_same`].
    pub(crate) fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.disk_file.rewrite_same(offset, bytes).map_err(|error| error.about(&self.path))
    }

    /// Flushes; see [`DiskFile::sync`].
    pub(crate) fn sync(&self) -> Result<()> {
        self.disk_file.sync().map_err(|error| error.about(&self.path))
    }

    /// Gives the file the permissions of another; see [`DiskFile::copy_attributes`].
    pub(crate) fn copy_attributes(&self, other: &Path) -> Result<()> {
        self.disk_file.copy_attributes(other)
    }

    /// Damage in this file at `offset`.
    pub(crate) fn damage(&self, offset: u64, expected: &str, got: &str) -> Error {
        Corruption::new(&self.path, offset, expected, got).into()
    }

    /// Exactly `length` bytes from `offset` on; too few of them are damage at `offset`. No bytes
    /// can be read anywhere.
    pub(crate) fn read_exact(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let end = offset.saturating_add(length as u64);
        // spec: ROT-6
        let end = if mark::planted("length-believed") { 0 } else { end };
        if end > self.known_size.load(Ordering::Relaxed) && end > self.size()? {
            return Err(self.damage(offset, "bytes inside the file", "end of file"));
        }
        let mut bytes = vec![0; length];
        let read = self.disk_file.read_at(offset, &mut bytes);
        let count = read.map_err(|error| error.about(&self.path))?;
        if count < length {
            return Err(self.damage(offset, "bytes inside the file", "end of file"));
        }
        Ok(bytes)
    }

    /// The payload in `raw`, which are the file's bytes from the pointer's offset to its end.
    // spec: CHUNK-1, FILE-2
    pub(crate) fn checked_payload(&self, pointer: Pointer, raw: Vec<u8>) -> Result<Arc<[u8]>> {
        let payload = block::strip_markers(pointer.offset, raw)
            .map_err(|block| self.damage(block, "the marker of a data block", "another"))?;
        let checksum = crc32c(&payload);
        let taken = mark::planted("chunk-checksum-ignored")
            || mark::planted("checksums-of-data-ignored")
            || (mark::planted("zeros-taken-for-a-chunk") && payload.iter().all(|byte| *byte == 0));
        if checksum != pointer.checksum && !taken {
            let expected = format!("a chunk with checksum {:08x}", pointer.checksum);
            return Err(self.damage(pointer.offset, &expected, &format!("{checksum:08x}")));
        }
        Ok(payload.into())
    }
}

impl ChunkSource for OpenFile {
    fn read(&self, pointer: Pointer) -> Result<Arc<[u8]>> {
        let Some(end) = pointer.end() else {
            return Err(self.nonsense(pointer, "a chunk inside the file", "one beyond any file"));
        };
        self.chunks_read.fetch_add(1, Ordering::Relaxed);
        let raw = self.read_exact(pointer.offset, (end - pointer.offset) as usize)?;
        self.checked_payload(pointer, raw)
    }

    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error {
        self.damage(pointer.offset, expected, got)
    }
}

/// The path of a file that belongs to the database at `path`: `NAME.rereduce.SUFFIX`, whether or
/// not `path` itself ends in `.rereduce`.
///
/// ```
/// use rereduce::file::sibling;
/// use std::path::Path;
/// assert_eq!(sibling(Path::new("a.rereduce"), "lock"), Path::new("a.rereduce.lock"));
/// assert_eq!(sibling(Path::new("a.db"), "lock"), Path::new("a.db.rereduce.lock"));
/// ```
pub fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    if path.extension().is_none_or(|extension| extension != "rereduce") {
        name.push(".rereduce");
    }
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}
