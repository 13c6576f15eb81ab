//! Looking at a file from outside: every footer that lies in it, whole or torn.
//!
//! Recovery stops at the first footer that counts; this reads on to the front of the file, for
//! people who want to see how it got there.
//!
//! Invariant: nothing here decides anything. What a footer is and when it counts stays with
//! `footer` and `recover`.

use std::collections::BTreeMap;

use super::block::{BLOCK_BYTES, FOOTER};
use super::footer::{Footer, Protocol};
use super::history;
use super::open::OpenFile;
use super::recover::{cover_checks_out, newest_whole};
use crate::error::Result;

/// One footer pair as it lies in the file.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::{Access, Env};
/// use rereduce::file::{FileMap, OpenFile};
/// let env = Env::memory();
/// let db = Database::open(env.clone(), "db".as_ref(), DatabaseOptions::default())?;
/// db.edit(vec![DocEdit::parse("a", b"{}")?])?;
/// db.close()?;
/// let map = FileMap::read(&OpenFile::open(&env, "db".as_ref(), Access::Read)?)?;
/// let seals: Vec<bool> = map.footers.iter().map(|footer| footer.seal).collect();
/// assert_eq!(seals, [false, true], "a commit, and the seal of a clean close");
/// assert!(map.footers.iter().all(|footer| footer.copies == [true, true] && footer.cover_whole));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FooterSeen {
    /// Offset of its first copy.
    pub offset: u64,
    /// The commit it speaks of.
    pub number: u64,
    /// Whether it is the seal of a clean close.
    pub seal: bool,
    /// What the writer did to make it durable.
    pub protocol: Protocol,
    /// The newest commit that was known to be flushed when this was written.
    pub flushed: u64,
    /// The bytes from here to `offset` are under its checksum.
    pub cover_from: u64,
    /// Which of its two copies are whole; at least one is.
    pub copies: [bool; 2],
    /// Whether the bytes it covers are those that were written.
    pub cover_whole: bool,
    /// Whether it belongs to the history of the newest commit (a seal: seals one of its commits).
    pub in_history: bool,
}

/// What lies in a file, block by block.
///
/// ```
/// use rereduce::env::Env;
/// use rereduce::file::{FileId, FileMap, OpenFile};
/// let env = Env::memory();
/// let file = OpenFile::create(&env, "db".as_ref(), FileId::random(&env)?)?;
/// let map = FileMap::read(&file)?;
/// assert_eq!((map.file_bytes, map.footers.len(), map.torn.len()), (2048, 0, 0));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMap {
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Every footer of which a copy is whole, in the order of their offsets.
    pub footers: Vec<FooterSeen>,
    /// Offsets of blocks that have a footer's marker and are no whole copy of any, and whose twin
    /// is none either.
    pub torn: Vec<u64>,
    /// Blocks that hold chunks or padding.
    pub data_blocks: u64,
}

impl FileMap {
    /// Looks at every block of `file`. Cost: reads the whole file, and what its footers cover once
    /// more; memory for the footers.
    ///
    /// Errors: [`Error::Io`](crate::Error::Io).
    pub fn read(file: &OpenFile) -> Result<FileMap> {
        let mut map = FileMap { file_bytes: file.size()?, ..FileMap::default() };
        let mut pairs: BTreeMap<u64, (Footer, [bool; 2])> = BTreeMap::new();
        let mut torn = Vec::new();
        let mut at = BLOCK_BYTES;
        while at + BLOCK_BYTES <= map.file_bytes {
            let slab = file.read_exact(at, slab_bytes(at, map.file_bytes))?;
            for block in slab.chunks_exact(BLOCK_BYTES as usize) {
                if block.first() != Some(&FOOTER) {
                    map.data_blocks += 1;
                } else if let Some(footer) = Footer::decode(file.header().file, at, block) {
                    let second = usize::from(at != footer.offset);
                    let (_, copies) = pairs.entry(footer.offset).or_insert((footer, [false; 2]));
                    copies[second] = true;
                } else {
                    torn.push(at);
                }
                at += BLOCK_BYTES;
            }
        }
        let has_twin = |at: u64| {
            pairs.contains_key(&at) || pairs.contains_key(&(at.wrapping_sub(BLOCK_BYTES)))
        };
        map.torn = torn.into_iter().filter(|at| !has_twin(*at)).collect();
        let history = offsets_of_history(file)?;
        for (offset, (footer, copies)) in pairs {
            map.footers.push(FooterSeen {
                offset,
                number: footer.number,
                seal: footer.seal,
                protocol: footer.protocol,
                flushed: footer.flushed,
                cover_from: footer.cover_from,
                copies,
                cover_whole: cover_checks_out(file, &footer)?,
                in_history: history.get(&footer.commit_offset) == Some(&footer.number),
            });
        }
        Ok(map)
    }
}

/// Bytes to read at once: whole blocks, at most 1 MiB of them.
fn slab_bytes(at: u64, file_bytes: u64) -> usize {
    let left = (file_bytes - at) / BLOCK_BYTES * BLOCK_BYTES;
    left.min(1 << 20) as usize
}

/// The footers that the newest commit reaches by `previous` links, and their numbers. Ends early
/// where a link leads to damage.
fn offsets_of_history(file: &OpenFile) -> Result<BTreeMap<u64, u64>> {
    let mut found = BTreeMap::new();
    let mut next = newest_whole(file)?.0.head;
    while let Some(footer) = next {
        found.insert(footer.commit_offset, footer.number);
        next = match history::find_parent(file, &footer) {
            Err(error) if error.is_corrupt() => None,
            parent => parent?,
        };
    }
    Ok(found)
}
