//! Holds an ordered key-value engine against [`KvModel`].
//!
//! Invariant: every operation's answer is compared, and after whatever could lose data (reopen,
//! crash, compaction, the end) the whole state is, in both directions.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use rereduce::kv::{KvSnapshot, OrderedKv};
use rereduce::vocabulary::{Direction, Edit, KeyRange, KvOp, Slot, Word};
use rereduce::{Error, ErrorClass};

use crate::check_stop::{Stop, differs, may_fail};
use crate::generate_kv::{kv_history_of, simpler};
use crate::kv::{KvModel, Reduced, Rows};
use crate::verdict::{CheckConfig, Mismatch, Report, Violation, check, check_history};

type Result<T, E = Error> = std::result::Result<T, E>;

/// A place where storages live, such as a directory: what a stranger implements to be checked.
pub trait KvEngine {
    /// Opens the storage called `name` (a plain file name), and creates it if it is not there.
    /// All earlier handles of it are gone by then.
    fn open(&self, name: &str) -> Result<Box<dyn KvHandle>>;

    /// The storage called `name` is not needed any more.
    fn remove(&self, name: &str) -> Result<()> {
        let _ = name;
        Ok(())
    }

    /// Arms a fault: after `calls` more calls to the disk, one fails. `None` lifts it. Answers
    /// whether faults are offered.
    fn fail_disk(&self, calls: Option<u64>) -> bool {
        let _ = calls;
        false
    }
}

/// An engine that offers nothing but opening is plugged in as a closure.
impl<F: Fn(&str) -> Result<Box<dyn KvHandle>>> KvEngine for F {
    fn open(&self, name: &str) -> Result<Box<dyn KvHandle>> {
        self(name)
    }
}

/// An open storage. All methods but those of [`OrderedKv`] have a default, which says that the
/// capability is not offered (`None`); the report lists those.
pub trait KvHandle: OrderedKv {
    /// Closes cleanly.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    /// Ends as a killed process does, or as a power cut if the engine can play one.
    fn crash(self: Box<Self>) {}

    /// Count and sum over a range of the newest state.
    fn reduce(&self, range: &KeyRange) -> Option<Result<Reduced>> {
        let _ = range;
        None
    }

    /// Compacts the storage.
    fn compact(&self) -> Option<Result<()>> {
        None
    }

    /// The number of the newest commit.
    fn commit_number(&self) -> Option<u64> {
        None
    }

    /// Opens a commit by its number. Those before the last compaction may be missing.
    fn open_commit(&self, number: u64) -> Option<Result<Box<dyn KvSnapshot>>> {
        let _ = number;
        None
    }

    /// The engine's own check of its structure.
    fn check(&self) -> Option<Result<()>> {
        None
    }
}

/// Holds `engine` against the model, over histories that depend on `config` alone.
///
/// # Errors
/// A [`Violation`] with the shortest history found.
// spec: MODEL-2
pub fn check_kv(engine: &dyn KvEngine, config: &CheckConfig) -> Result<Report, Violation> {
    check(
        config,
        &KvOp::KINDS,
        |history| kv_history_of(config, history),
        |ops, report| run(engine, ops, report),
        simpler,
    )
}

/// Holds `engine` against the model over one history.
///
/// # Errors
/// A [`Violation`] with the shortest history found.
pub fn check_kv_history(engine: &dyn KvEngine, ops: &[KvOp]) -> Result<Report, Violation> {
    let mut report = Report::default();
    check_history(ops, &mut report, &|ops, report| run(engine, ops, report), &simpler)?;
    Ok(report)
}

/// What an operation answers.
#[derive(Debug, PartialEq)]
enum Answer {
    Done,
    EmptySlot,
    Value(Option<Vec<u8>>),
    Rows(Vec<(Vec<u8>, Vec<u8>)>),
    Reduced(Reduced),
}

impl Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Done => out.write_str("done"),
            Answer::EmptySlot => out.write_str("no snapshot in this slot"),
            Answer::Value(None) => out.write_str("nothing"),
            Answer::Value(Some(value)) => write!(out, "{}", Word(value)),
            Answer::Rows(rows) if rows.is_empty() => out.write_str("no rows"),
            Answer::Rows(rows) => rows.iter().enumerate().try_for_each(|(index, (key, value))| {
                let blank = if index == 0 { "" } else { " " };
                write!(out, "{blank}{}={}", Word(key), Word(value))
            }),
            Answer::Reduced(Reduced { count, sum }) => write!(out, "count {count} sum {sum}"),
        }
    }
}

struct Run<'a> {
    engine: &'a dyn KvEngine,
    name: String,
    /// Gone only while a failed open waits to be repeated.
    handle: Option<Box<dyn KvHandle>>,
    model: KvModel,
    slots: BTreeMap<Slot, Box<dyn KvSnapshot>>,
    /// The model's commit for each of the engine's commit numbers.
    numbers: BTreeMap<u64, usize>,
    /// Commits with smaller numbers may have been compacted away.
    floor: u64,
    /// Whether a fault was armed since the last open: errors are explained by it.
    armed: bool,
}

fn run(engine: &dyn KvEngine, ops: &[KvOp], report: &mut Report) -> Result<(), Mismatch> {
    let at = |step: usize| move |stop: Stop| stop.at(step);
    static STORAGES: AtomicU64 = AtomicU64::new(0);
    let name = format!("history-{}", STORAGES.fetch_add(1, Ordering::Relaxed));
    engine.fail_disk(None);
    engine.remove(&name).map_err(|error| at(0)(error.into()))?;
    let mut run = Run {
        engine,
        name: name.clone(),
        handle: None,
        model: KvModel::default(),
        slots: BTreeMap::new(),
        numbers: BTreeMap::new(),
        floor: 0,
        armed: false,
    };
    run.open().map_err(at(0))?;
    for (step, op) in ops.iter().enumerate() {
        report.count(op.kind());
        match run.step(op) {
            Ok(true) => {}
            Ok(false) => {
                *report.kinds.entry(op.kind()).or_default() -= 1;
                report.kinds.retain(|_, count| *count > 0);
                report.not_offered.insert(op.kind());
            }
            Err(Stop::Failed(error)) if run.armed && may_fail(&error) => {
                report.failed_by_fault += 1;
            }
            Err(stop) => return Err(at(step)(stop)),
        }
    }
    let last = ops.len();
    engine.fail_disk(None);
    run.reopen(true).map_err(at(last))?;
    engine.remove(&name).map_err(|error| at(last)(error.into()))
}

impl Run<'_> {
    fn handle(&self) -> &dyn KvHandle {
        self.handle.as_deref().expect("a storage is open between two operations")
    }

    /// Plays one operation; `false` if the engine does not offer it.
    fn step(&mut self, op: &KvOp) -> Result<bool, Stop> {
        match op {
            KvOp::Commit(edits) => self.commit(edits)?,
            KvOp::Get { .. } | KvOp::Scan { .. } => self.read(op)?,
            KvOp::Reduce { range } => {
                let Some(reduced) = self.handle().reduce(range) else { return Ok(false) };
                same(Answer::Reduced(self.model.reduce(range)), Answer::Reduced(reduced?))?;
            }
            KvOp::Snapshot(slot) => {
                let snapshot = self.handle().snapshot()?;
                self.slots.insert(*slot, snapshot);
                self.model.snapshot(*slot);
            }
            KvOp::History { slot, back } => return self.history(*slot, *back),
            KvOp::Release(slot) => {
                self.slots.remove(slot);
                self.model.release(*slot);
            }
            KvOp::Compact => return self.compact(),
            KvOp::Reopen => self.reopen(true)?,
            KvOp::Crash => self.reopen(false)?,
            KvOp::Fault { calls } => {
                if !self.engine.fail_disk(Some(*calls)) {
                    return Ok(false);
                }
                self.armed = true;
            }
        }
        Ok(true)
    }

    fn commit(&mut self, edits: &[Edit]) -> Result<(), Stop> {
        match self.handle().commit(edits) {
            Ok(()) => {
                let before = self.model.newest().clone();
                self.model.commit(edits);
                self.number(Some(&before))
            }
            Err(error) => {
                // A refused commit never reached the disk; any other may be found there.
                if error.class() != ErrorClass::Refused {
                    self.model.doubt(edits);
                }
                Err(error.into())
            }
        }
    }

    /// Notes which state the engine's newest commit number stands for. A commit that keeps the
    /// number must have kept the state.
    fn number(&mut self, before: Option<&Rows>) -> Result<(), Stop> {
        let Some(number) = self.handle().commit_number() else { return Ok(()) };
        let newest = self.numbers.keys().next_back().copied();
        let kept = newest == Some(number);
        if newest > Some(number) || kept && before.is_some_and(|rows| rows != self.model.newest()) {
            let after = newest.unwrap_or(0);
            return Err(differs(format!("a commit number after {after}"), number));
        }
        self.numbers.insert(number, self.model.commits() - 1);
        Ok(())
    }

    fn read(&self, op: &KvOp) -> Result<(), Stop> {
        let now;
        let (KvOp::Get { at, .. } | KvOp::Scan { at, .. }) = op else { return Ok(()) };
        let snapshot = match at {
            None => {
                now = self.handle().snapshot()?;
                Some(&*now)
            }
            Some(slot) => self.slots.get(slot).map(|snapshot| &**snapshot),
        };
        let Some(snapshot) = snapshot else {
            let expected = self.model.rows(*at).map_or(Answer::EmptySlot, |_| Answer::Done);
            return same(expected, Answer::EmptySlot);
        };
        match op {
            KvOp::Scan { range, direction, limit, .. } => {
                let expected = self.model.scan(*at, range, *direction, *limit);
                let found = scan(snapshot, range, *direction, *limit)?;
                same(expected.map_or(Answer::EmptySlot, Answer::Rows), Answer::Rows(found))
            }
            KvOp::Get { key, .. } => {
                same(Answer::Value(self.model.get(*at, key)), Answer::Value(snapshot.get(key)?))
            }
            _ => Ok(()),
        }
    }

    fn history(&mut self, slot: Slot, back: u64) -> Result<bool, Stop> {
        let index = back as usize % self.numbers.len().max(1);
        let Some((number, commit)) = self.numbers.iter().rev().nth(index) else {
            return Ok(false);
        };
        match self.handle().open_commit(*number) {
            None => return Ok(false),
            Some(Ok(snapshot)) => {
                self.model.history(slot, *commit);
                self.slots.insert(slot, snapshot);
                self.compare_whole(Some(slot))?;
            }
            Some(Err(error)) if error.class() == ErrorClass::Missing && *number < self.floor => {
                self.model.release(slot);
                self.slots.remove(&slot);
            }
            Some(Err(error)) => return Err(error.into()),
        }
        Ok(true)
    }

    fn compact(&mut self) -> Result<bool, Stop> {
        let Some(compacted) = self.handle().compact() else { return Ok(false) };
        // Even a compaction that failed may have dropped the older commits.
        self.floor = self.handle().commit_number().unwrap_or(0);
        compacted?;
        self.number(None)?;
        let slots: Vec<Slot> = self.slots.keys().copied().collect();
        slots.into_iter().try_for_each(|slot| self.compare_whole(Some(slot)))?;
        self.compare_whole(None)?;
        self.check()?;
        Ok(true)
    }

    fn check(&self) -> Result<(), Stop> {
        self.handle().check().unwrap_or(Ok(())).map_err(Stop::from)
    }

    fn open(&mut self) -> Result<(), Stop> {
        let opened = self.engine.open(&self.name);
        self.engine.fail_disk(None);
        let handle = match opened {
            // The fault hit the recovery: it must have changed nothing.
            Err(error) if self.armed && may_fail(&error) => self.engine.open(&self.name)?,
            opened => opened?,
        };
        self.armed = false;
        self.handle = Some(handle);
        let snapshot = self.handle().snapshot()?;
        let found = scan(&*snapshot, &KeyRange::all(), Direction::Ascending, None)?;
        let found: Rows = found.into_iter().collect();
        let expected = self.model.newest().clone();
        if !self.model.reopened(&found) {
            let rows = |rows: Rows| Answer::Rows(rows.into_iter().collect());
            return Err(differs(rows(expected), rows(found)));
        }
        self.number(None)?;
        self.compare_whole(None)?;
        self.check()
    }

    fn reopen(&mut self, cleanly: bool) -> Result<(), Stop> {
        let slots: Vec<Slot> = self.slots.keys().copied().collect();
        let compared = slots.into_iter().try_for_each(|slot| self.compare_whole(Some(slot)));
        match compared {
            Err(Stop::Failed(error)) if self.armed && may_fail(&error) => {}
            compared => compared?,
        }
        self.slots.clear();
        if let Some(handle) = self.handle.take() {
            let closed = if cleanly {
                handle.close()
            } else {
                handle.crash();
                Ok(())
            };
            match closed {
                Err(error) if self.armed && may_fail(&error) => {}
                closed => closed?,
            }
        }
        self.open()
    }

    /// Compares a whole state, both ways, and its reduction.
    fn compare_whole(&self, at: Option<Slot>) -> Result<(), Stop> {
        for direction in [Direction::Ascending, Direction::Descending] {
            self.read(&KvOp::Scan { range: KeyRange::all(), direction, limit: None, at })?;
        }
        match self.handle().reduce(&KeyRange::all()) {
            Some(found) if at.is_none() => {
                let expected = self.model.reduce(&KeyRange::all());
                same(Answer::Reduced(expected), Answer::Reduced(found?))
            }
            _ => Ok(()),
        }
    }
}

fn same(expected: Answer, found: Answer) -> Result<(), Stop> {
    if expected == found { Ok(()) } else { Err(differs(expected, found)) }
}

/// All rows that the snapshot visits; a visitor that is called after it broke off shows as a row
/// too many.
fn scan(
    snapshot: &dyn KvSnapshot,
    range: &KeyRange,
    direction: Direction,
    limit: Option<u64>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut rows, mut broke) = (Vec::new(), false);
    snapshot.scan(range, direction, &mut |key, value| {
        if limit != Some(0) || broke {
            rows.push((key.to_vec(), value.to_vec()));
        }
        broke = limit.is_some_and(|limit| rows.len() as u64 >= limit);
        if broke { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(rows)
}
