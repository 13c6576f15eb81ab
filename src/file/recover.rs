//! Recovery: finding the newest commit that can be believed. One rule for all commit protocols.
//!
//! ```text
//! header | ... commit n ... | A | B | ... commit n+1 ... | A | B | torn tail
//!                                                                ^ search goes back from here
//! ```
//!
//! Walk back over blocks. A block counts as a footer if it checks out; of the two copies either
//! will do. The first footer whose cover checks out is the newest commit. On the way, every whole
//! footer also *witnesses* what it names as flushed: falling back below a witnessed commit would
//! lose acknowledged data, so that is damage and not a torn tail.
//!
//! Invariant: only bytes that were read and fail their check mean "look further back". An error of
//! the operating system ends the search, and opening writes nothing.

use super::block::{BLOCK_BYTES, FOOTER, next_block};
use super::footer::{Footer, PAIR_BYTES};
use super::header::FileId;
use super::history;
use super::open::OpenFile;
use crate::error::{Error, Result};
use crate::mark;

/// What recovery decided, and why.
///
/// ```
/// use rereduce::env::{Access, Env};
/// use rereduce::file::{FileId, OpenFile, recover};
/// use std::path::Path;
/// let env = Env::memory();
/// let file = OpenFile::create(&env, Path::new("db"), FileId::random(&env)?)?;
/// let report = recover(&file)?.report;
/// assert_eq!((report.number, report.tail_bytes, report.skipped.len()), (0, 0, 0));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes in the file.
    pub file_bytes: u64,
    /// The commit that was found; 0 for a file without commits.
    pub number: u64,
    /// Whether the file was closed cleanly and nothing follows the seal.
    pub sealed: bool,
    /// Bytes behind the commit that belong to no commit.
    pub tail_bytes: u64,
    /// Footer blocks behind the commit, or of it, that do not count, newest first.
    pub skipped: Vec<SkippedFooter>,
    /// Bytes read to find all this.
    pub bytes_read: u64,
}

/// A block with a footer's marker that was passed over.
///
/// ```
/// use rereduce::file::{SkipReason, SkippedFooter};
/// let skipped = SkippedFooter { offset: 6144, reason: SkipReason::Torn };
/// assert_eq!(skipped.to_string(), "footer at byte 6144: torn or damaged");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedFooter {
    /// Offset of the block.
    pub offset: u64,
    /// Why it does not count.
    pub reason: SkipReason,
}

/// Why a footer does not count.
///
/// ```
/// assert_ne!(rereduce::file::SkipReason::Torn, rereduce::file::SkipReason::CoverDamaged);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The block fails its own checksum.
    Torn,
    /// The footer is whole, and bytes it covers are not what was written.
    CoverDamaged,
}

impl std::fmt::Display for SkippedFooter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = match self.reason {
            SkipReason::Torn => "torn or damaged",
            SkipReason::CoverDamaged => "whole, but bytes it covers are missing or damaged",
        };
        write!(out, "footer at byte {}: {reason}", self.offset)
    }
}

/// The outcome of [`recover`].
///
/// ```
/// use rereduce::env::Env;
/// use rereduce::file::{FileId, OpenFile, recover};
/// use std::path::Path;
/// let env = Env::memory();
/// let file = OpenFile::create(&env, Path::new("db"), FileId::random(&env)?)?;
/// assert_eq!(recover(&file)?.report.number, 0);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Recovered {
    /// The newest commit, or `None` for a file without commits.
    pub(crate) head: Option<Footer>,
    /// Everything before this offset is known to be flushed; it ends behind a footer's copy A.
    pub(crate) flushed_end: u64,
    /// Another file, of which a whole footer lies here at its own place.
    foreign: Option<FileId>,
    /// What was found on the way.
    pub report: RecoveryReport,
}

/// Finds the newest commit of `file`.
///
/// Cost: reads the bytes behind that commit, its footer, and what the footer covers (at most
/// 1 MiB): a few blocks for a sealed file of any size.
///
/// Errors: [`Error::Corrupt`] if a commit that some whole footer witnesses as flushed is damaged,
/// or if all footers are those of another file; [`Error::Io`] if anything could not be read.
// spec: RECOVER-1, RECOVER-2, RECOVER-3
pub fn recover(file: &OpenFile) -> Result<Recovered> {
    let (recovered, witnessed) = newest_whole(file)?;
    recovered.refuse_foreign(file)?;
    let found = recovered.report.number;
    if found < witnessed && !mark::planted("witness-ignored") {
        let damaged = recovered.report.skipped.last().map_or(0, |skipped| skipped.offset);
        let expected = format!("commit {witnessed}, which a later footer names as flushed");
        let got = format!("commit {found} as the newest whole one (open it by its number)");
        return Err(file.damage(damaged, &expected, &got));
    }
    Ok(recovered)
}

impl Recovered {
    /// A file without commits of its own in which another's lie has lost its header: to go on would
    /// lose all of them in silence.
    // spec: ROT-7
    pub(crate) fn refuse_foreign(&self, file: &OpenFile) -> Result<()> {
        match self.foreign.filter(|_| self.head.is_none()) {
            Some(other) if !mark::planted("foreign-header-taken") => {
                let expected = format!("the header of file {other}, whose footers lie behind it");
                Err(file.damage(0, &expected, &file.header().file.to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// Finds the newest footer that counts, and the newest commit that any whole footer behind it
/// names as flushed.
// spec: RECOVER-1
pub(crate) fn newest_whole(file: &OpenFile) -> Result<(Recovered, u64)> {
    let size = file.size()?;
    let mut blocks = BackwardBlocks::new(file, size);
    let mut report = RecoveryReport { file_bytes: size, ..RecoveryReport::default() };
    let mut witnessed = 0;
    let mut cover_bytes = 0;
    let (mut failed_cover, mut foreign) = (None, None);
    let mut head = None;
    while let Some((at, block)) = next_or_planted_skip(&mut blocks)? {
        if block.first() != Some(&FOOTER) {
            continue;
        }
        let Some(footer) = Footer::decode(file.header().file, at, block) else {
            mark::hit("footer-skipped");
            foreign = foreign.or_else(|| Footer::find_file(at, block));
            report.skipped.push(SkippedFooter { offset: at, reason: SkipReason::Torn });
            continue;
        };
        witnessed = witnessed.max(footer.flushed);
        // The other copy of a pair has the same cover: once is enough.
        if failed_cover != Some(footer.offset) {
            cover_bytes += footer.offset - footer.cover_from;
            if cover_checks_out(file, &footer)? {
                head = Some(footer);
                break;
            }
        }
        mark::hit("cover-failed");
        failed_cover = Some(footer.offset);
        report.skipped.push(SkippedFooter { offset: at, reason: SkipReason::CoverDamaged });
    }
    report.bytes_read = blocks.bytes_read + cover_bytes;
    let mut flushed_end = BLOCK_BYTES;
    match &head {
        Some(footer) => {
            report.number = footer.number;
            report.tail_bytes = size.saturating_sub(footer.end());
            report.sealed = footer.seal && report.tail_bytes == 0;
            let flushed = if footer.seal { footer.commit_offset } else { footer.previous };
            // Behind copy A: a crash may have cut copy B off, and then the next commit lies there.
            let sure = match mark::planted("rewrite-behind-the-twin") {
                true => PAIR_BYTES,
                false => BLOCK_BYTES,
            };
            flushed_end = flushed_end.max(if flushed == 0 { 0 } else { flushed + sure });
        }
        None => report.tail_bytes = size.saturating_sub(BLOCK_BYTES),
    }
    let head = head.map(|footer| history::sealed_commit(file, footer)).transpose()?;
    Ok((Recovered { head, flushed_end, foreign, report }, witnessed))
}

/// The newest footer of which a copy is whole, whether or not its cover is. Cost: reads the bytes
/// behind it.
///
/// Errors: [`Error::Io`].
pub(super) fn newest_footer(file: &OpenFile) -> Result<Option<Footer>> {
    let mut blocks = BackwardBlocks::new(file, file.size()?);
    while let Some((at, block)) = blocks.next()? {
        if let Some(footer) = Footer::decode(file.header().file, at, block) {
            return Ok(Some(footer));
        }
    }
    Ok(None)
}

fn next_or_planted_skip<'a>(blocks: &'a mut BackwardBlocks<'_>) -> Result<Option<(u64, &'a [u8])>> {
    if mark::planted("read-error-means-older-commit") {
        blocks.forgive_errors = true;
    }
    blocks.next()
}

/// Whether the bytes in the footer's cover are those that were written.
pub(super) fn cover_checks_out(file: &OpenFile, footer: &Footer) -> Result<bool> {
    if mark::planted("cover-not-checked") || mark::planted("checksums-of-data-ignored") {
        return Ok(true);
    }
    let mut cover = Footer::begin_cover(footer.file, footer.number);
    let length = (footer.offset - footer.cover_from) as usize;
    match file.read_exact(footer.cover_from, length) {
        Ok(bytes) => cover.update(&bytes),
        Err(Error::Corrupt(_)) => return Ok(false),
        Err(error) => return Err(error),
    }
    Ok(cover.finish() == footer.cover_checksum)
}

/// Whole blocks from the end of the file to the header, read in slabs that grow from one pair of
/// footers to 1 MiB.
struct BackwardBlocks<'a> {
    file: &'a OpenFile,
    /// Offset of `slab` in the file.
    base: u64,
    slab: Vec<u8>,
    /// Bytes of the slab that were not handed out yet.
    left: usize,
    bytes_read: u64,
    next_slab_bytes: u64,
    forgive_errors: bool,
}

impl<'a> BackwardBlocks<'a> {
    fn new(file: &'a OpenFile, size: u64) -> BackwardBlocks<'a> {
        BackwardBlocks {
            file,
            base: size - size % BLOCK_BYTES,
            slab: Vec::new(),
            left: 0,
            bytes_read: 0,
            next_slab_bytes: 2 * BLOCK_BYTES,
            forgive_errors: false,
        }
    }

    fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.left == 0 {
            let base = self.base.saturating_sub(self.next_slab_bytes).max(BLOCK_BYTES);
            if base >= self.base {
                return Ok(None);
            }
            let length = (self.base - base) as usize;
            self.slab = match self.file.read_exact(base, length) {
                Err(Error::Io { .. }) if self.forgive_errors => vec![0; length],
                read => read?,
            };
            self.bytes_read += length as u64;
            self.next_slab_bytes = (self.next_slab_bytes * 4).min(1 << 20);
            self.base = base;
            self.left = length;
        }
        self.left -= BLOCK_BYTES as usize;
        let block = self.slab.get(self.left..self.left + BLOCK_BYTES as usize);
        Ok(block.map(|block| (self.base + self.left as u64, block)))
    }
}

/// Where a writer's first append goes: the next block boundary at or behind the end of the file.
// spec: RECOVER-5
pub(crate) fn append_offset(size: u64) -> u64 {
    next_block(size).max(BLOCK_BYTES)
}
