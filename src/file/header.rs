//! The header: block 0, which says that this is one of our files, and which one.
//!
//! ```text
//! 0          8         12           16         32             48         56        64
//! | magic    | version | block size | file id  | database id  | zeros    | xxh3    |   copy A
//! ... zeros up to 1024, then the same 64 bytes as copy B, then zeros up to 2048
//! ```
//!
//! Invariant: a file whose header does not check out is never written to, and a header is never
//! written twice: a new file is made complete under another name and renamed into place.

use std::fmt;
use std::path::Path;

use super::block::BLOCK_BYTES;
use crate::checksum::Cover;
use crate::codec::Reader;
use crate::env::Env;
use crate::error::{Corruption, Error, Result};
use crate::mark;

/// The newest format version that this crate reads, and the one it writes.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"\x96rereduc";
const COPY_BYTES: usize = 64;
const COPY_B: usize = 1024;

/// 128 random bits that name one file for ever; a compaction makes a new file with a new id.
///
/// ```
/// use rereduce::file::FileId;
/// assert_eq!(FileId([0xab; 16]).to_string(), "ab".repeat(16));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub [u8; 16]);

impl FileId {
    /// A new random id.
    pub fn random(env: &Env) -> Result<FileId> {
        let mut id = [0; 16];
        env.entropy.fill(&mut id)?;
        Ok(FileId(id))
    }

    /// The id folded to 64 bits, as seed of checksums that must differ from file to file.
    pub(crate) fn seed(&self) -> u64 {
        let value = u128::from_le_bytes(self.0);
        (value ^ (value >> 64)) as u64
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// What block 0 says.
///
/// ```
/// use rereduce::file::{FORMAT_VERSION, FileId, Header};
/// let (file, database) = (FileId([1; 16]), FileId([2; 16]));
/// let header = Header { version: FORMAT_VERSION, file, database };
/// assert_ne!(header.file, header.database);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version of the file.
    pub version: u32,
    /// This file.
    pub file: FileId,
    /// The database it belongs to; compaction keeps it.
    pub database: FileId,
}

/// What the first bytes of a file turned out to be.
pub(crate) enum HeaderRead {
    /// One of our files.
    Found(Header),
    /// Empty, or cut off before the first copy of a header that began like ours.
    Torn,
}

impl Header {
    /// Block 0 with both copies.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(COPY_BYTES);
        copy.extend_from_slice(&MAGIC);
        copy.extend_from_slice(&self.version.to_le_bytes());
        copy.extend_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
        copy.extend_from_slice(&self.file.0);
        copy.extend_from_slice(&self.database.0);
        copy.extend_from_slice(&[0; 8]);
        let checksum = checksum(&copy);
        copy.extend_from_slice(&checksum.to_le_bytes());
        let mut block = vec![0; BLOCK_BYTES as usize];
        block[..COPY_BYTES].copy_from_slice(&copy);
        block[COPY_B..COPY_B + COPY_BYTES].copy_from_slice(&copy);
        block
    }

    /// Reads what the first block of `path` (`bytes`, fewer if the file is shorter) says.
    ///
    /// Errors: [`Error::NotADatabase`], [`Error::NewerFormat`], and [`Error::Corrupt`] if both
    /// copies were ours and are damaged, or both are whole and differ.
    // spec: FILE-1, FILE-3, ROT-7
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<HeaderRead> {
        let copy_b = match mark::planted("header-copy-b-ignored") {
            true => None,
            false => bytes.get(COPY_B..COPY_B + COPY_BYTES),
        };
        let copies = [bytes.get(..COPY_BYTES), copy_b];
        let mut whole = copies.into_iter().flatten().filter_map(decode_copy);
        if let Some(header) = whole.next() {
            // One of two that differ is of another time, and nothing says which.
            if whole.any(|other| other != header) && !mark::planted("header-copies-may-differ") {
                return Err(Corruption::new(path, 0, "two copies of one header", "two").into());
            }
            if header.version > FORMAT_VERSION {
                let (path, found) = (path.to_path_buf(), header.version);
                return Err(Error::NewerFormat { path, found, supported: FORMAT_VERSION });
            }
            return Ok(HeaderRead::Found(header));
        }
        let begun = bytes.len().min(MAGIC.len());
        if bytes.len() < COPY_BYTES && bytes[..begun] == MAGIC[..begun] {
            return Ok(HeaderRead::Torn);
        }
        if copies.into_iter().flatten().any(|copy| copy.starts_with(&MAGIC)) {
            return Err(Corruption::new(path, 0, "a header that checks out", "another").into());
        }
        Err(Error::NotADatabase { path: path.to_path_buf() })
    }
}

/// Offsets of the copies in block 0 (`bytes`, fewer if the file is shorter) that are not whole; a
/// file that ends inside its header has fewer copies. One that is newer than ours counts as whole.
pub(crate) fn lost_copies(bytes: &[u8]) -> Vec<u64> {
    let copy = |offset: usize| bytes.get(offset..offset + COPY_BYTES);
    let lost = |offset: &usize| copy(*offset).is_some_and(|copy| decode_copy(copy).is_none());
    [0, COPY_B].into_iter().filter(lost).map(|offset| offset as u64).collect()
}

fn decode_copy(copy: &[u8]) -> Option<Header> {
    let (fields, stored) = copy.split_at_checked(COPY_BYTES - 8)?;
    if checksum(fields).to_le_bytes() != stored {
        return None;
    }
    let mut reader = Reader::new(fields);
    if reader.array()? != MAGIC {
        return None;
    }
    let version = reader.u32()?;
    let block_bytes = reader.u32()?;
    if version == 0 || (version == FORMAT_VERSION && u64::from(block_bytes) != BLOCK_BYTES) {
        return None;
    }
    Some(Header { version, file: FileId(reader.array()?), database: FileId(reader.array()?) })
}

fn checksum(fields: &[u8]) -> u64 {
    let mut checksum = Cover::new(0);
    checksum.update(fields);
    checksum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    fn header() -> Header {
        Header { version: FORMAT_VERSION, file: FileId([1; 16]), database: FileId([2; 16]) }
    }

    fn read(bytes: &[u8]) -> Result<HeaderRead> {
        Header::decode(Path::new("db"), bytes)
    }

    // spec: FILE-1
    #[test]
    fn damage_to_any_one_byte_of_the_header_is_harmless() {
        let block = header().encode();
        for position in 0..block.len() {
            let mut damaged = block.clone();
            damaged[position] ^= 0xff;
            assert!(matches!(read(&damaged), Ok(HeaderRead::Found(found)) if found == header()));
        }
    }

    // spec: ROT-7
    #[test]
    fn two_whole_copies_that_differ_are_damage() {
        let other = Header { file: FileId([3; 16]), ..header() }.encode();
        for stale in [0..COPY_BYTES, COPY_B..COPY_B + COPY_BYTES] {
            let mut block = header().encode();
            block[stale.clone()].copy_from_slice(&other[stale]);
            assert!(read(&block).is_err_and(|error| error.is_corrupt()));
        }
        assert!(matches!(read(&other), Ok(HeaderRead::Found(_))));
    }

    // spec: FILE-3
    #[test]
    fn a_newer_version_is_named_as_such_and_not_as_damage() {
        let newer = Header { version: FORMAT_VERSION + 1, ..header() };
        let class = read(&newer.encode()).err().map(|error| error.class());
        assert_eq!(class, Some(ErrorClass::NewerFormat));
    }

    // spec: FILE-1
    #[test]
    fn every_prefix_of_a_header_is_torn_or_whole_and_never_foreign() {
        let block = header().encode();
        for length in 0..=block.len() {
            match read(&block[..length]) {
                Ok(HeaderRead::Torn) => assert!(length < COPY_BYTES),
                Ok(HeaderRead::Found(found)) => assert_eq!(found, header()),
                Err(error) => panic!("prefix of {length} bytes: {error}"),
            }
        }
    }

    // spec: FILE-3
    #[test]
    fn a_foreign_file_is_refused_however_short_it_is() {
        for foreign in [&b"x"[..], b"SQLite format 3\0", &[0; 2048], b"\x96sereduce"] {
            let class = read(foreign).err().map(|error| error.class());
            assert_eq!(class, Some(ErrorClass::NotADatabase));
        }
    }
}
