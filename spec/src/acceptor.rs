//! Trace validation: the disk calls of a real run, one by one, as events of the models.
//!
//! ```text
//! append db 6144+8192       Append(Data), Append(CopyA(3)), Append(CopyB(3))    commit
//!                           Commit                                              swap
//! sync db                   Sync                                                commit
//!                           Flush(0)                                            swap
//! rename db.compact db      Rename                                              swap
//! -- acknowledged           Acknowledge                                         both
//! ```
//!
//! A call is accepted if [`Machine::next`] allows its events in the state that the calls before it
//! led to: the very function that the tests explore. Bytes are read as far as the markers of
//! blocks and the fixed fields of footers; `src/file/block.rs` and `src/file/footer.rs` of the
//! engine draw both. Blocks of data that are appended together are one unit of the model.
//!
//! Invariant: nothing of the engine is used here, and nothing is believed of a run but its calls.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::commit::{self, Commits, Piece, Protocol, Said};
use crate::machine::Machine;
use crate::swap::{self, NAME, NEW, Step, Swaps};

const BLOCK_BYTES: u64 = 2048;
const DATA: u8 = 0x5a;
const FOOTER: u8 = 0xa5;
const MAGIC: &[u8] = b"footer1";
/// More data than this since the last flush is flushed before its footer.
const COVER_BYTES_MAX: u64 = (1 << 20) - 2 * BLOCK_BYTES;

/// A call to the disk, or what the caller was told. Files are known by numbers, as names move.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// The database was opened for writing.
    Open,
    /// A file was made under another name than the database's.
    Create {
        /// The file.
        file: u64,
    },
    /// Bytes were appended.
    Append {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// What they are.
        bytes: &'a [u8],
    },
    /// The same bytes were written once more.
    Rewrite {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// A file was flushed.
    Sync {
        /// The file.
        file: u64,
        /// Whether the system reported an error.
        failed: bool,
    },
    /// The new file got the database's name.
    Rename,
    /// The new file's name was removed.
    Remove,
    /// The directory was flushed.
    SyncDir,
    /// The caller was told that what it asked for is done.
    Acknowledge,
}

/// A file of the run as the model of commits sees it.
struct Mapped {
    /// Its index in the model of swaps.
    index: usize,
    state: commit::State,
    /// Where each unit begins.
    starts: Vec<u64>,
    /// Where the file ends.
    end: u64,
    /// Where a rewrite began that has not reached the end yet.
    rewriting: Option<u64>,
}

/// Holds calls against the models.
///
/// ```
/// use rereduce_spec::acceptor::{Acceptor, Call};
/// use rereduce_spec::commit::Protocol;
/// let mut acceptor = Acceptor::new(Protocol::Verified);
/// acceptor.accept(&Call::Open).unwrap();
/// acceptor.accept(&Call::Create { file: 7 }).unwrap();
/// acceptor.accept(&Call::Append { file: 7, offset: 0, bytes: &[0; 2048] }).unwrap();
/// let complaint = acceptor.accept(&Call::Rename).unwrap_err();
/// assert!(complaint.contains("Rename"), "it is not flushed yet: {complaint}");
/// ```
// spec: SPECMODEL-3
pub struct Acceptor {
    commits: Commits,
    swaps: Swaps,
    names: swap::State,
    files: BTreeMap<u64, Mapped>,
    /// A commit was begun of which nobody was told yet.
    owed: bool,
    /// Calls accepted so far.
    pub calls: u64,
    /// Events of the models that they meant.
    pub events: u64,
}

impl Acceptor {
    /// Knows an empty directory, and writers that follow `protocol`.
    pub fn new(protocol: Protocol) -> Acceptor {
        let commits = Commits { protocol, ..Commits::default() };
        let swaps = Swaps { readers: 0, ..Swaps::default() };
        let names = swaps.start();
        let files = BTreeMap::new();
        Acceptor { commits, swaps, names, files, owed: false, calls: 0, events: 0 }
    }

    /// Takes one call.
    ///
    /// # Errors
    ///
    /// What the models do not allow, for people. The state stays as it was before that event.
    // spec: SPECMODEL-3
    pub fn accept(&mut self, call: &Call<'_>) -> Result<(), String> {
        match *call {
            Call::Open => self.open()?,
            Call::Create { file } => self.create(file)?,
            Call::Append { file, offset, bytes } => self.append(file, offset, bytes)?,
            Call::Rewrite { file, offset, length } => self.rewrite(file, offset, length)?,
            Call::Sync { file, failed } => self.sync(file, failed)?,
            Call::Rename => self.swap(swap::Event::Rename)?,
            Call::Remove => self.swap(swap::Event::Remove)?,
            Call::SyncDir => self.sync_dir()?,
            Call::Acknowledge => self.acknowledge()?,
        }
        self.calls += 1;
        Ok(())
    }

    /// How many commits of the database's file were made and acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.names.acknowledged
    }

    fn swap(&mut self, event: swap::Event) -> Result<(), String> {
        let next = self.swaps.next(&self.names, &event);
        self.names = next.ok_or_else(|| refusal(&event, &self.names.process))?;
        self.events += 1;
        Ok(())
    }

    fn commit(&mut self, file: u64, event: commit::Event) -> Result<(), String> {
        let mapped = self.files.get_mut(&file).ok_or_else(|| format!("no file {file}"))?;
        let next = self.commits.next(&mapped.state, &event);
        mapped.state = next.ok_or_else(|| refusal(&event, &mapped.state.writer))?;
        self.events += 1;
        Ok(())
    }

    fn mapped(&self, file: u64) -> Result<&Mapped, String> {
        self.files.get(&file).ok_or_else(|| format!("no file {file}"))
    }

    fn at(&self, index: Option<usize>) -> Option<u64> {
        let mut files = self.files.iter();
        files.find(|(_, mapped)| Some(mapped.index) == index).map(|(file, _)| *file)
    }

    /// The file that commits go to.
    fn current(&self) -> Option<u64> {
        self.at(self.names.process?.file)
    }

    /// Whether `file` is being made.
    fn is_new(&self, file: u64) -> bool {
        self.at(self.names.names[NEW]) == Some(file)
    }

    fn step(&self) -> Step {
        self.names.process.map_or(Step::Idle, |process| process.step)
    }

    fn open(&mut self) -> Result<(), String> {
        self.owed = false;
        self.swap(swap::Event::Open)?;
        match self.current() {
            Some(file) => self.commit(file, commit::Event::Open),
            None => Ok(()),
        }
    }

    /// Of an operation that committed nothing nobody is promised anything.
    fn acknowledge(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.owed) {
            return Ok(());
        }
        if let Some(file) = self.current() {
            self.commit(file, commit::Event::Acknowledge)?;
        }
        self.swap(swap::Event::Acknowledge)
    }

    fn create(&mut self, file: u64) -> Result<(), String> {
        let index = self.names.files.len();
        self.swap(swap::Event::Create)?;
        // A compaction goes on writing to the file that it made; a new database is opened first.
        let state = match self.current() {
            Some(_) => commit::State::created(1),
            None => self.commits.start(),
        };
        let (starts, rewriting) = (Vec::new(), None);
        self.files.insert(file, Mapped { index, state, starts, end: 0, rewriting });
        Ok(())
    }

    fn append(&mut self, file: u64, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let end = self.mapped(file)?.end;
        if offset != end {
            return Err(format!("an append at {offset} of a file that ends at {end}"));
        }
        if offset == 0 {
            self.swap(swap::Event::Header)?;
            return self.grow(file, bytes.len() as u64);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = self.mapped(file)?.end;
            let length = match is_footer(at, rest) {
                true => BLOCK_BYTES as usize,
                false => data_length(at, rest)?,
            };
            let (piece, behind) = rest.split_at(length.min(rest.len()));
            match is_footer(at, rest) {
                true => self.copy(file, at, piece)?,
                false => self.data(file, at, piece.len() as u64)?,
            }
            self.grow(file, piece.len() as u64)?;
            rest = behind;
        }
        Ok(())
    }

    /// The unit, if any, was taken: the file is longer now.
    fn grow(&mut self, file: u64, length: u64) -> Result<(), String> {
        let mapped = self.files.get_mut(&file).ok_or_else(|| format!("no file {file}"))?;
        if mapped.starts.len() < mapped.state.units.len() {
            mapped.starts.push(mapped.end);
        }
        mapped.end += length;
        Ok(())
    }

    fn data(&mut self, file: u64, at: u64, length: u64) -> Result<(), String> {
        let mapped = self.mapped(file)?;
        let flushed = mapped.state.writer.map_or(0, |writer| writer.flushed_end);
        let flushed = mapped.starts.get(flushed).copied().unwrap_or(mapped.end);
        let large = at + length - flushed > COVER_BYTES_MAX;
        if self.is_new(file) {
            self.swap(swap::Event::Copy)?;
        }
        self.commit(file, commit::Event::Append(Piece::Data { large }))
    }

    /// One copy of a footer, at offset `at`.
    fn copy(&mut self, file: u64, at: u64, block: &[u8]) -> Result<(), String> {
        let mapped = self.mapped(file)?;
        let own = field(block, 24)?;
        let place = |offset: u64| {
            let found = mapped.starts.binary_search(&offset).ok();
            let end = (offset == mapped.end).then_some(mapped.starts.len());
            found.or(end).ok_or_else(|| format!("the footer at {at} names {offset}, inside a unit"))
        };
        let is_seal = block.get(65) == Some(&1);
        let said = Said {
            number: field(block, 32)?,
            witness: field(block, 40)?,
            cover_from: place(field(block, 48)?)?,
            previous: match field(block, 72)? {
                0 => None,
                offset => Some(place(offset)?),
            },
            seals: if is_seal { Some(place(field(block, 344)?)?) } else { None },
        };
        if own == at && !is_seal {
            self.commit_begins(file, said.number)?;
        }
        self.commit(
            file,
            commit::Event::Append(match own == at {
                true => Piece::CopyA(said),
                false => Piece::CopyB(said),
            }),
        )
    }

    /// The model of swaps hears of a commit when its first footer copy is appended.
    fn commit_begins(&mut self, file: u64, number: u64) -> Result<(), String> {
        self.owed = true;
        if !self.is_new(file) {
            self.swap(swap::Event::Commit)?;
            let expected = self.names.newest();
            let told = format!("commit {number} where {expected} is due");
            return if number == expected { Ok(()) } else { Err(told) };
        }
        // What holds the writer, and a copy of nothing, leave no trace on the disk.
        if self.step() == Step::Created {
            self.swap(swap::Event::Copy)?;
        }
        self.swap(swap::Event::Hold)?;
        self.swap(swap::Event::Copy)?;
        self.swap(swap::Event::Write(number))?;
        if let Some(mapped) = self.files.get_mut(&file) {
            mapped.state.first = number;
        }
        Ok(())
    }

    fn rewrite(&mut self, file: u64, offset: u64, length: u64) -> Result<(), String> {
        let mapped = self.files.get_mut(&file).ok_or_else(|| format!("no file {file}"))?;
        let from = *mapped.rewriting.get_or_insert(offset);
        if offset + length < mapped.end {
            return Ok(());
        }
        mapped.rewriting = None;
        let unit = mapped.starts.binary_search(&from);
        let from = unit.map_err(|_| format!("a rewrite from {from} on, inside a unit"))?;
        self.commit(file, commit::Event::Rewrite { from })
    }

    fn sync(&mut self, file: u64, failed: bool) -> Result<(), String> {
        let index = self.mapped(file)?.index;
        // Whoever makes a new database flushes its header before there is a writer.
        let has_writer = self.mapped(file)?.state.writer.is_some();
        if failed {
            self.owed = false;
            let fails = commit::Event::SyncFails(0);
            return if has_writer { self.commit(file, fails) } else { Ok(()) };
        }
        if has_writer {
            self.commit(file, commit::Event::Sync)?;
        }
        let writer = self.mapped(file)?.state.writer;
        if writer.is_none_or(|writer| writer.step == commit::Step::Idle) {
            self.swap(swap::Event::Flush(index))?;
        }
        Ok(())
    }

    fn sync_dir(&mut self) -> Result<(), String> {
        let is_first = self.names.process.is_some_and(|process| process.file.is_none());
        self.swap(swap::Event::SyncDir)?;
        match self.at(self.names.names[NAME]) {
            Some(file) if is_first => self.commit(file, commit::Event::Open),
            _ => Ok(()),
        }
    }
}

fn refusal(event: &impl Debug, who: &impl Debug) -> String {
    format!("{event:?} is not allowed to {who:?}")
}

fn is_footer(at: u64, bytes: &[u8]) -> bool {
    let is_marked = bytes.first() == Some(&FOOTER) && bytes.get(1..8) == Some(MAGIC);
    at.is_multiple_of(BLOCK_BYTES) && is_marked && bytes.len() >= BLOCK_BYTES as usize
}

/// How many bytes belong to blocks of data, from offset `at` on.
fn data_length(at: u64, bytes: &[u8]) -> Result<usize, String> {
    let mut length = 0;
    while length < bytes.len() {
        let offset = at + length as u64;
        if offset.is_multiple_of(BLOCK_BYTES) {
            if is_footer(offset, &bytes[length..]) {
                break;
            }
            if bytes[length] != DATA {
                return Err(format!("the block at {offset} is neither data nor a footer"));
            }
        }
        length += (BLOCK_BYTES - offset % BLOCK_BYTES) as usize;
    }
    Ok(length.min(bytes.len()))
}

/// A little-endian integer of a footer.
fn field(block: &[u8], at: usize) -> Result<u64, String> {
    let bytes = block.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(|| "a footer that is cut off".into())
}
