//! Writing: chunks gather in memory, a commit appends them with its footers and flushes.
//!
//! ```text
//!           flushed_end          appended        appended + pending
//! ... commit n | A | B | chunks on disk | chunks in memory |
//!              `---- cover of the next footer -------------'
//! ```
//!
//! Invariant: nothing is acknowledged before a flush covered it, a footer covers every byte that
//! this handle does not know to be flushed, and after a failed append or flush the writer is
//! poisoned: it never writes again, because nobody knows what the disk holds.

use std::sync::Arc;

use super::block::{BLOCK_BYTES, DATA, push_payload, skip_marker};
use super::chunk::{ChunkSink, ChunkSource, Pointer};
use super::footer::{
    COVER_BYTES_MAX, Footer, PAIR_BYTES, PAYLOAD_BYTES_MAX, Payload, Protocol, SKIPS,
};
use super::open::OpenFile;
use super::recover::{Recovered, append_offset};
use crate::error::{Error, Result};
use crate::mark;

/// Pending bytes beyond which chunks go to the disk ahead of their commit, so that a commit of any
/// size needs this much memory.
const PENDING_BYTES_MAX: usize = 1 << 20;

/// Bytes read at a time: to rewrite an unsealed tail before building on it, and to cover bytes
/// that are on the disk already.
const REWRITE_BYTES: u64 = 1 << 20;

/// What tells one commit from every other, in this file and in any other.
///
/// ```
/// use rereduce::file::{CommitId, FileId};
/// let id = CommitId { file: FileId([0; 16]), number: 1, offset: 2048, checksum: 7 };
/// assert_ne!(id, CommitId { checksum: 8, ..id });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitId {
    /// The file it is in.
    pub file: super::FileId,
    /// Its number; commits of a database count from 1, also across compactions.
    pub number: u64,
    /// Where its footer is.
    pub offset: u64,
    /// The checksum of its footer.
    pub checksum: u64,
}

impl Footer {
    pub(crate) fn id(&self) -> CommitId {
        let checksum = self.checksum();
        CommitId { file: self.file, number: self.number, offset: self.offset, checksum }
    }
}

/// What a writer did so far; for benchmarks and for tests that count.
///
/// ```
/// assert_eq!(rereduce::file::WriteCounts::default().flushes, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Calls of [`DiskFile::sync`](crate::env::DiskFile::sync).
    pub flushes: u64,
    /// Bytes appended, footers and padding included.
    pub bytes_appended: u64,
    /// Commits made.
    pub commits: u64,
}

/// The one writer of a file.
pub(crate) struct FileWriter {
    file: Arc<OpenFile>,
    protocol: Protocol,
    head: Option<Footer>,
    /// Number of the first commit this file has or will have.
    oldest: u64,
    /// Everything before this offset is known to be flushed.
    flushed_end: u64,
    /// Everything before this offset was appended.
    appended: u64,
    /// Raw bytes that follow, with markers.
    pending: Vec<u8>,
    /// The end of the file that this writer found unsealed and has not built on yet.
    unsealed: Option<u64>,
    /// The file ends in a seal, or has no commit to be sealed.
    sealed: bool,
    poisoned: bool,
    counts: WriteCounts,
}

/// A point to which pending chunks can be taken back.
#[derive(Clone, Copy)]
pub(crate) struct Savepoint {
    end: u64,
}

impl FileWriter {
    /// A writer that goes on behind what recovery found.
    pub(crate) fn resume(file: Arc<OpenFile>, recovered: &Recovered, protocol: Protocol) -> Self {
        let size = recovered.report.file_bytes;
        let head = recovered.head.clone();
        let sealed = recovered.report.sealed || (head.is_none() && size == BLOCK_BYTES);
        FileWriter {
            file,
            protocol,
            oldest: head.as_ref().map_or(1, |head| head.oldest),
            head,
            flushed_end: if sealed { size } else { recovered.flushed_end },
            appended: size,
            pending: Vec::new(),
            unsealed: (!sealed).then_some(size),
            sealed,
            poisoned: false,
            counts: WriteCounts::default(),
        }
    }

    /// A writer for a file that was just created and whose first commit will have number `first`.
    pub(crate) fn begin(file: Arc<OpenFile>, first: u64, protocol: Protocol) -> Self {
        FileWriter {
            file,
            protocol,
            head: None,
            oldest: first,
            flushed_end: BLOCK_BYTES,
            appended: BLOCK_BYTES,
            pending: Vec::new(),
            unsealed: None,
            sealed: true,
            poisoned: false,
            counts: WriteCounts::default(),
        }
    }

    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    pub(crate) fn head(&self) -> Option<&Footer> {
        self.head.as_ref()
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        self.counts
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Takes no more writes: what is on the disk is in doubt.
    pub(crate) fn poison(&mut self) {
        self.poisoned = true;
    }

    /// Gives the first commit of a new file its number.
    pub(crate) fn number_next(&mut self, number: u64) {
        assert!(self.head.is_none(), "only a file without commits can begin at any number");
        self.oldest = number;
    }

    /// Appends chunks that are still in memory, so that whoever has their pointers can read them
    /// from the file when this writer is gone.
    pub(crate) fn leave(&mut self) -> Result<()> {
        match self.pending.is_empty() || mark::planted("pending-chunks-lost-at-swap") {
            true => Ok(()),
            false => self.guarded(FileWriter::append_pending),
        }
    }

    /// Where pending chunks can be cut off again.
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint { end: self.end() }
    }

    /// Forgets chunks appended since `savepoint`, as far as they are still in memory; those on the
    /// disk stay behind as garbage that no footer will mention.
    pub(crate) fn roll_back(&mut self, savepoint: Savepoint) {
        let keep = savepoint.end.saturating_sub(self.appended) as usize;
        self.pending.truncate(keep.min(self.pending.len()));
    }

    /// Makes everything appended since the last commit durable under the roots in `payload`.
    ///
    /// Errors: [`Error::Poisoned`], [`Error::Io`] (which poisons), [`Error::TooLarge`].
    // spec: COMMIT-1, COMMIT-2, COMMIT-3, COMMIT-4, FOOTER-3
    pub(crate) fn commit(&mut self, payload: &[u8]) -> Result<&Footer> {
        let payload = if payload.len() <= PAYLOAD_BYTES_MAX {
            Payload::Inline(payload.to_vec())
        } else if mark::planted("long-roots-cut-off") {
            Payload::Inline(payload[..PAYLOAD_BYTES_MAX].to_vec())
        } else {
            Payload::Chunk(self.append(payload)?)
        };
        let number = self.head.as_ref().map_or(self.oldest, |head| head.number + 1);
        let (previous, skips) = self.head.as_ref().map_or((0, [0; SKIPS]), Footer::links_of_child);
        let flushed =
            if mark::planted("footer-names-itself-flushed") { number } else { number - 1 };
        let footer = Footer {
            file: self.file.header().file,
            offset: 0,
            number,
            flushed: if self.head.is_some() { flushed } else { 0 },
            cover_from: 0,
            cover_checksum: 0,
            protocol: self.protocol,
            seal: false,
            previous,
            skips,
            oldest: self.oldest,
            commit_offset: 0,
            payload,
        };
        let footer = self.guarded(|writer| writer.write_footer(footer))?;
        self.counts.commits += 1;
        Ok(self.head.insert(footer))
    }

    /// Appends a seal: the next open need not check a cover, and a missing last commit can no
    /// longer pass for a torn one. Does nothing for a sealed or empty file.
    // spec: COMMIT-6
    pub(crate) fn seal(&mut self) -> Result<()> {
        let Some(head) = self.head.clone().filter(|_| !self.sealed) else { return Ok(()) };
        if mark::planted("close-without-seal") {
            return Ok(());
        }
        self.pending.clear();
        let seal = Footer { flushed: head.number, seal: true, ..head };
        self.guarded(|writer| writer.write_seal(seal))?;
        self.sealed = true;
        Ok(())
    }

    /// Writes what the protocol asks for and returns the footer as written.
    fn write_footer(&mut self, footer: Footer) -> Result<Footer> {
        let early = self.end().saturating_sub(self.flushed_end) > COVER_BYTES_MAX - PAIR_BYTES;
        let early = early && !mark::planted("large-commit-flushed-once");
        match self.protocol {
            Protocol::Guide => {
                self.pad_to_pair()?;
                let offset = self.end();
                let footer = Footer { offset, commit_offset: offset, cover_from: offset, ..footer };
                let footer = with_empty_cover(footer);
                let copy = footer.encode();
                self.pending.extend_from_slice(&copy);
                self.append_pending()?;
                self.flush()?;
                self.pending.extend_from_slice(&copy);
                self.append_pending()?;
                self.flush()?;
                Ok(footer)
            }
            Protocol::Barrier => self.write_after_flush(footer),
            Protocol::Verified if early => self.write_after_flush(footer),
            Protocol::Verified => self.write_verified(footer),
        }
    }

    /// Data, flush, both copies, flush: the cover is empty.
    fn write_after_flush(&mut self, footer: Footer) -> Result<Footer> {
        self.pad_to_pair()?;
        let offset = self.end();
        let footer = with_empty_cover(Footer {
            offset,
            commit_offset: offset,
            cover_from: offset,
            ..footer
        });
        let early = mark::planted("footer-before-its-flush");
        if early {
            self.push_pair(&footer);
        }
        self.append_pending()?;
        if !mark::planted("barrier-flush-left-out") {
            self.flush()?;
        }
        if !early {
            self.push_pair(&footer);
        }
        self.append_pending()?;
        self.flush()?;
        Ok(footer)
    }

    /// Data and both copies, flush: the footer covers all bytes since the last flush.
    fn write_verified(&mut self, footer: Footer) -> Result<Footer> {
        self.pad_to_pair()?;
        let offset = self.end();
        let cover_from = if mark::planted("cover-starts-late") { offset } else { self.flushed_end };
        let footer =
            self.with_cover_from(Footer { offset, commit_offset: offset, cover_from, ..footer })?;
        self.push_pair(&footer);
        if mark::planted("flush-moved-before-the-append") {
            self.flush()?;
            self.append_pending()?;
            return Ok(footer);
        }
        self.append_pending()?;
        if !mark::planted("commit-without-flush") {
            self.flush()?;
        }
        Ok(footer)
    }

    /// The footer with the checksum of all bytes from its `cover_from` on: those that went to the
    /// disk already are read back piece by piece, those in memory are hashed where they are.
    fn with_cover_from(&self, footer: Footer) -> Result<Footer> {
        let mut cover = Footer::begin_cover(footer.file, footer.number);
        let mut from = footer.cover_from;
        while from < self.appended {
            let length = (self.appended - from).min(REWRITE_BYTES);
            cover.update(&self.file.read_exact(from, length as usize)?);
            from += length;
        }
        let skipped = (from - self.appended) as usize;
        cover.update(self.pending.get(skipped..).unwrap_or_default());
        Ok(Footer { cover_checksum: cover.finish(), ..footer })
    }

    fn write_seal(&mut self, seal: Footer) -> Result<()> {
        self.pad_to_pair()?;
        let offset = self.end();
        self.push_pair(&with_empty_cover(Footer { offset, cover_from: offset, ..seal }));
        self.append_pending()?;
        self.flush()
    }

    /// Runs something that writes; an error of the system poisons the writer.
    // spec: COMMIT-5
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.poisoned {
            return Err(Error::Poisoned { path: self.file.path().to_path_buf() });
        }
        let result = self.build_on_tail().and_then(|()| work(self));
        let goes_on =
            mark::planted("failed-write-not-poisoned") || mark::planted("old-end-trusted");
        if result.is_err() && !goes_on {
            mark::hit("poisoned");
            self.poisoned = true;
        }
        result
    }

    /// Before the first append to a file with an unsealed tail: the same bytes once more and a
    /// flush, so that no new commit rests on pages that only the cache has.
    // spec: RECOVER-4, RECOVER-5
    fn build_on_tail(&mut self) -> Result<()> {
        let Some(size) = self.unsealed else { return Ok(()) };
        let mut offset = self.flushed_end;
        if mark::planted("unsealed-tail-not-rewritten") {
            offset = size;
        }
        while offset < size {
            let length = (size - offset).min(REWRITE_BYTES);
            let bytes = self.file.read_exact(offset, length as usize)?;
            self.file.rewrite_same(offset, &bytes)?;
            offset += length;
        }
        self.file.sync()?;
        self.counts.flushes += 1;
        // Of a header that was cut off the missing bytes are padding: no cover begins there.
        self.flushed_end = match mark::planted("cover-begins-in-cut-header") {
            true => size,
            false => size.max(BLOCK_BYTES),
        };
        self.unsealed = None;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        match self.file.sync() {
            Err(_) if mark::planted("flush-error-ignored") => {}
            flushed => flushed?,
        }
        self.counts.flushes += 1;
        self.flushed_end = self.appended;
        Ok(())
    }

    /// The end of the file once everything pending is appended.
    fn end(&self) -> u64 {
        self.appended + self.pending.len() as u64
    }

    /// Behind a torn tail, appending starts at the next block boundary: fills up to there.
    fn make_room(&mut self) {
        let torn = self.unsealed.is_some() && !mark::planted("append-at-torn-end");
        if torn && self.pending.is_empty() {
            let gap = append_offset(self.appended) - self.appended;
            self.pending.resize(gap as usize, 0);
        }
    }

    /// Fills with padding up to the next odd multiple of 2,048.
    fn pad_to_pair(&mut self) -> Result<()> {
        self.make_room();
        loop {
            let end = self.end();
            if end.is_multiple_of(BLOCK_BYTES) && end / BLOCK_BYTES % 2 == 1 {
                return Ok(());
            }
            if end.is_multiple_of(BLOCK_BYTES) {
                self.pending.push(DATA);
            }
            let room = BLOCK_BYTES - self.end() % BLOCK_BYTES;
            if room < BLOCK_BYTES {
                self.pending.resize(self.pending.len() + room as usize, 0);
            }
        }
    }

    fn push_pair(&mut self, footer: &Footer) {
        let copy = footer.encode();
        self.pending.extend_from_slice(&copy);
        if mark::planted("second-copy-left-out") {
            self.pending.resize(self.pending.len() + copy.len(), 0);
        } else {
            self.pending.extend_from_slice(&copy);
        }
    }

    fn append_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.sealed = false;
        let offset = self.file.append(&self.pending)?;
        if offset != self.appended && !mark::planted("old-end-trusted") {
            let expected = format!("to append at byte {}", self.appended);
            return Err(self.file.damage(offset, &expected, &format!("byte {offset}")));
        }
        self.counts.bytes_appended += self.pending.len() as u64;
        self.appended += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// The footer with the checksum of no bytes.
fn with_empty_cover(footer: Footer) -> Footer {
    let cover = Footer::begin_cover(footer.file, footer.number);
    Footer { cover_checksum: cover.finish(), ..footer }
}

impl ChunkSource for FileWriter {
    fn read(&self, pointer: Pointer) -> Result<Arc<[u8]>> {
        if pointer.offset < self.appended {
            return self.file.read(pointer);
        }
        let end = pointer.end().unwrap_or(u64::MAX).saturating_sub(self.appended) as usize;
        let raw = self.pending.get((pointer.offset - self.appended) as usize..end);
        let raw = raw
            .map(<[u8]>::to_vec)
            .ok_or_else(|| self.nonsense(pointer, "a chunk inside the file", "end of file"))?;
        self.file.checked_payload(pointer, raw)
    }

    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error {
        self.file.nonsense(pointer, expected, got)
    }
}

impl ChunkSink for FileWriter {
    fn append(&mut self, payload: &[u8]) -> Result<Pointer> {
        if u32::try_from(payload.len()).is_err() {
            let (size, limit) = (payload.len() as u64, u64::from(u32::MAX));
            return Err(Error::TooLarge { what: "chunk", size, limit });
        }
        if self.poisoned {
            return Err(Error::Poisoned { path: self.file.path().to_path_buf() });
        }
        self.make_room();
        let offset = push_payload(&mut self.pending, self.appended, payload);
        debug_assert_eq!(offset, skip_marker(offset));
        if self.pending.len() > PENDING_BYTES_MAX {
            self.guarded(FileWriter::append_pending)?;
        }
        Ok(Pointer::to(offset, payload))
    }
}
