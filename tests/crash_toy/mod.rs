//! A whole engine in a page, and the classic mistakes it can be told to make: what crash-sim is
//! tried on, and an example of a [`Target`].
//!
//! ```text
//! record: value (1) | count (4) | value, count times | xxh3 of all before (8)
//! ```
//!
//! Invariant of the right one: the file is records that check out, then nothing; a torn tail is
//! left behind by copying the good records into a new file, which replaces the old one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rereduce::env::{Access, Env};
use rereduce::{Error, Result};
use rereduce_crash_sim::{Random, Target};

/// How the engine is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// It is right.
    None,
    /// It acknowledges without a flush.
    NoSync,
    /// It never flushes the directory of a file it created.
    NoSyncDirAfterCreate,
    /// It never flushes the directory after the rename of a copy.
    NoSyncDirAfterRename,
    /// It renames the copy before flushing it.
    RenameBeforeSync,
    /// The checksum covers the head of a record alone.
    UncheckedData,
    /// It flushes the data of a record and not the rest.
    SyncBeforeFooter,
    /// It appends behind a torn tail.
    AppendBehindTornTail,
    /// It goes on writing after an append or a flush failed.
    WritesOnAfterFailure,
    /// It builds on what the cache shows without writing it again.
    NoRewriteOnOpen,
}

/// The log of numbers.
#[derive(Clone)]
pub(crate) struct Toy(pub(crate) Mistake);

/// An open log.
pub(crate) struct ToyHandle {
    env: Env,
    path: PathBuf,
    file: Box<dyn rereduce::env::DiskFile>,
    /// Records that readers see: what a failed write may have left is none.
    shown: usize,
    failed: bool,
}

/// What one can do with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToyOp {
    /// Adds a value, so many times.
    Add(u8, u32),
    /// Copies the log into a new file.
    Copy,
    /// Opens it once more.
    Reopen,
}

impl fmt::Display for ToyOp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToyOp::Add(value, count) => write!(out, "add {value}x{count}"),
            ToyOp::Copy => write!(out, "copy"),
            ToyOp::Reopen => write!(out, "reopen"),
        }
    }
}

impl FromStr for ToyOp {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<ToyOp, String> {
        match text {
            "copy" => return Ok(ToyOp::Copy),
            "reopen" => return Ok(ToyOp::Reopen),
            _ => {}
        }
        let run = text.strip_prefix("add ").and_then(|run| run.split_once('x'));
        let (value, count) = run.ok_or("expected add VALUExCOUNT, copy or reopen")?;
        let number = |text: &str| text.parse::<u32>().map_err(|error| error.to_string());
        Ok(ToyOp::Add(number(value)? as u8, number(count)?))
    }
}

impl Toy {
    fn records(&self, bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
        let (mut records, mut start) = (Vec::new(), 0);
        loop {
            let rest = &bytes[start..];
            let Some(count) = rest.get(1..5) else { break };
            let count = u32::from_le_bytes(count.try_into().unwrap()) as usize;
            let Some(found) = rest.get(5 + count..13 + count) else { break };
            let covered = if self.0 == Mistake::UncheckedData { 5 } else { 5 + count };
            if xxhash_rust::xxh3::xxh3_64(&rest[..covered]).to_le_bytes() != found {
                break;
            }
            records.push(rest[5..5 + count].to_vec());
            start += 13 + count;
        }
        (records, start)
    }

    fn encode(&self, data: &[u8]) -> Vec<u8> {
        let mut record = vec![data[0]];
        record.extend_from_slice(&(data.len() as u32).to_le_bytes());
        record.extend_from_slice(data);
        let covered = if self.0 == Mistake::UncheckedData { 5 } else { record.len() };
        let hash = xxhash_rust::xxh3::xxh3_64(&record[..covered]);
        record.extend_from_slice(&hash.to_le_bytes());
        record
    }

    fn read(&self, file: &dyn rereduce::env::DiskFile) -> Result<(Vec<Vec<u8>>, bool)> {
        let mut bytes = vec![0; file.size()? as usize];
        file.read_at(0, &mut bytes)?;
        let (records, end) = self.records(&bytes);
        Ok((records, end < bytes.len()))
    }

    fn copy(&self, env: &Env, path: &Path, records: &[Vec<u8>]) -> Result<()> {
        let copy = path.with_extension("copy");
        match env.disk.remove(&copy) {
            Ok(()) | Err(Error::NoSuchFile { .. }) => {}
            Err(error) => return Err(error),
        }
        let file = env.disk.create(&copy)?;
        for record in records {
            file.append(&self.encode(record))?;
        }
        if self.0 != Mistake::RenameBeforeSync {
            file.sync()?;
        }
        env.disk.rename(&copy, path)?;
        if self.0 == Mistake::RenameBeforeSync {
            file.sync()?;
        }
        if self.0 != Mistake::NoSyncDirAfterRename {
            env.disk.sync_dir(path)?;
        }
        Ok(())
    }
}

impl Toy {
    fn attempt(&self, handle: &mut ToyHandle, op: &ToyOp) -> Result<()> {
        match op {
            ToyOp::Add(value, count) => {
                let record = self.encode(&vec![*value; *count as usize]);
                let (data, footer) = record.split_at(record.len() - 8);
                handle.file.append(data)?;
                if self.0 == Mistake::SyncBeforeFooter {
                    handle.file.sync()?;
                }
                handle.file.append(footer)?;
                if !matches!(self.0, Mistake::NoSync | Mistake::SyncBeforeFooter) {
                    handle.file.sync()?;
                }
                handle.shown += 1;
            }
            ToyOp::Copy => {
                let (records, _) = self.read(&*handle.file)?;
                self.copy(&handle.env, &handle.path, &records)?;
                handle.file = handle.env.disk.open(&handle.path, Access::Write)?;
            }
            ToyOp::Reopen => *handle = self.open(&handle.env.clone(), &handle.path.clone())?,
        }
        Ok(())
    }
}

impl Target for Toy {
    type Op = ToyOp;
    type State = Vec<String>;
    type Handle = ToyHandle;

    fn name(&self) -> &'static str {
        "toy"
    }

    fn open(&self, env: &Env, path: &Path) -> Result<ToyHandle> {
        let file = match env.disk.open(path, Access::Write) {
            Err(Error::NoSuchFile { .. }) => env.disk.create(path)?,
            other => other?,
        };
        // The name may be one that a failed flush of the directory left in view.
        if self.0 != Mistake::NoSyncDirAfterCreate {
            env.disk.sync_dir(path)?;
        }
        let (records, torn) = self.read(&*file)?;
        let file = if torn && self.0 != Mistake::AppendBehindTornTail {
            self.copy(env, path, &records)?;
            env.disk.open(path, Access::Write)?
        } else {
            file
        };
        // The cache may show what a crash of the machine would lose, and after a failed flush a
        // second one does not help: write it again.
        if self.0 != Mistake::NoRewriteOnOpen {
            let mut bytes = vec![0; file.size()? as usize];
            file.read_at(0, &mut bytes)?;
            file.rewrite_same(0, &bytes)?;
        }
        file.sync()?;
        let shown = records.len();
        Ok(ToyHandle { env: env.clone(), path: path.to_path_buf(), file, shown, failed: false })
    }

    fn apply(&self, handle: &mut ToyHandle, op: &ToyOp) -> Result<()> {
        if handle.failed && *op != ToyOp::Reopen {
            return Err(Error::Poisoned { path: handle.path.clone() });
        }
        let result = self.attempt(handle, op);
        handle.failed |= result.is_err() && self.0 != Mistake::WritesOnAfterFailure;
        result
    }
    fn state(&self, handle: &ToyHandle) -> Result<Vec<String>> {
        let records = self.read(&*handle.file)?.0;
        Ok(records.iter().take(handle.shown).map(|record| runs(record)).collect())
    }

    fn check(&self, _handle: &ToyHandle) -> std::result::Result<(), String> {
        Ok(())
    }

    fn empty(&self) -> Vec<String> {
        Vec::new()
    }

    fn expect(&self, state: &Vec<String>, op: &ToyOp) -> Vec<String> {
        let mut state = state.clone();
        if let ToyOp::Add(value, count) = op {
            state.push(format!("{value}x{count}"));
        }
        state
    }

    fn generate(&self, count: usize, seed: u64) -> Vec<ToyOp> {
        let mut random = Random::new(seed);
        let mut op = || match random.below(6) {
            0 => ToyOp::Copy,
            1 => ToyOp::Reopen,
            _ => ToyOp::Add(1 + random.below(200) as u8, 1 + random.below(1500) as u32),
        };
        (0..count).map(|_| op()).collect()
    }

    fn simpler(&self, op: &ToyOp) -> Vec<ToyOp> {
        match op {
            ToyOp::Add(value, count) if *count > 1 => {
                vec![ToyOp::Add(*value, 1), ToyOp::Add(*value, count / 2)]
            }
            _ => Vec::new(),
        }
    }
}

/// `7x3+0x2` for 7, 7, 7, 0, 0.
fn runs(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|a, b| a == b).map(|run| format!("{}x{}", run[0], run.len()));
    runs.collect::<Vec<_>>().join("+")
}
