//! Operations on an ordered key-value engine, as plain data.
//!
//! Invariant: an operation makes sense in every state (a slot that holds nothing, a key that is
//! not there), so any list of operations is a history, and any part of a history is one too.

use std::fmt;
use std::str::FromStr;

use super::operation::{Line, Slot, Word, write_range};
use super::{Direction, Edit, KeyRange};
use crate::error::{Error, Result};

/// One operation on an ordered key-value engine; prints and parses as one line of a script.
///
/// ```
/// use rereduce::vocabulary::{Edit, KvOp};
/// let op: KvOp = r#"commit a=1 b=- c="x y""#.parse().unwrap();
/// let edits = vec![Edit::put("a", "1"), Edit::remove("b"), Edit::put("c", "x y")];
/// assert_eq!(op, KvOp::Commit(edits));
/// assert_eq!(op.to_string(), r#"commit a=1 b=- c="x y""#);
/// assert!("scan c..=e desc limit 3 in s1".parse::<KvOp>().is_ok());
/// assert!("scan c".parse::<KvOp>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KvOp {
    /// Applies a batch: `commit KEY=VALUE KEY=-`.
    Commit(Vec<Edit>),
    /// Reads one key, of now or of a snapshot: `get KEY [in SLOT]`.
    Get {
        /// The key.
        key: Vec<u8>,
        /// The snapshot to read, or the newest state.
        at: Option<Slot>,
    },
    /// Reads a range: `scan RANGE [desc] [limit N] [in SLOT]`.
    Scan {
        /// The keys to visit.
        range: KeyRange,
        /// The way to walk.
        direction: Direction,
        /// Rows after which the visitor stops.
        limit: Option<u64>,
        /// The snapshot to read, or the newest state.
        at: Option<Slot>,
    },
    /// Counts the rows of a range and sums their decimal values up: `reduce RANGE`.
    Reduce {
        /// The keys to reduce over.
        range: KeyRange,
    },
    /// Opens a snapshot of the newest state into a slot: `snapshot SLOT`.
    Snapshot(Slot),
    /// Opens an older commit by its number into a slot: `history SLOT BACK`.
    History {
        /// The slot.
        slot: Slot,
        /// Which of the known commits, counted back from the newest.
        back: u64,
    },
    /// Empties a slot: `release SLOT`.
    Release(Slot),
    /// Compacts the storage: `compact`.
    Compact,
    /// Closes cleanly and opens again: `reopen`.
    Reopen,
    /// Drops the handle as a killed process does, and opens again: `crash`.
    Crash,
    /// Makes one of the next calls to the disk fail, once: `fault CALLS`.
    Fault {
        /// How many calls succeed before that.
        calls: u64,
    },
}

impl KvOp {
    /// Every kind of operation, by its verb.
    pub const KINDS: [&'static str; 11] = [
        "commit", "get", "scan", "reduce", "snapshot", "history", "release", "compact", "reopen",
        "crash", "fault",
    ];

    /// The verb, which is also the first word of the line.
    pub fn kind(&self) -> &'static str {
        match self {
            KvOp::Commit(_) => "commit",
            KvOp::Get { .. } => "get",
            KvOp::Scan { .. } => "scan",
            KvOp::Reduce { .. } => "reduce",
            KvOp::Snapshot(_) => "snapshot",
            KvOp::History { .. } => "history",
            KvOp::Release(_) => "release",
            KvOp::Compact => "compact",
            KvOp::Reopen => "reopen",
            KvOp::Crash => "crash",
            KvOp::Fault { .. } => "fault",
        }
    }
}

fn write_at(out: &mut fmt::Formatter<'_>, at: Option<Slot>) -> fmt::Result {
    at.map_or(Ok(()), |slot| write!(out, " in {slot}"))
}

// spec: MODEL-1
impl fmt::Display for KvOp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.kind())?;
        match self {
            KvOp::Commit(edits) => edits.iter().try_for_each(|edit| match &edit.value {
                Some(value) => write!(out, " {}={}", Word(&edit.key), Word(value)),
                None => write!(out, " {}=-", Word(&edit.key)),
            }),
            KvOp::Get { key, at } => {
                write!(out, " {}", Word(key))?;
                write_at(out, *at)
            }
            KvOp::Scan { range, direction, limit, at } => {
                out.write_str(" ")?;
                write_range(out, range)?;
                if *direction == Direction::Descending {
                    out.write_str(" desc")?;
                }
                limit.map_or(Ok(()), |limit| write!(out, " limit {limit}"))?;
                write_at(out, *at)
            }
            KvOp::Reduce { range } => {
                out.write_str(" ")?;
                write_range(out, range)
            }
            KvOp::Snapshot(slot) | KvOp::Release(slot) => write!(out, " {slot}"),
            KvOp::History { slot, back } => write!(out, " {slot} {back}"),
            KvOp::Compact | KvOp::Reopen | KvOp::Crash => Ok(()),
            KvOp::Fault { calls } => write!(out, " {calls}"),
        }
    }
}

impl FromStr for KvOp {
    type Err = Error;

    fn from_str(text: &str) -> Result<KvOp> {
        let mut line = Line::new(text);
        let op = match line.name() {
            "commit" => KvOp::Commit(parse_edits(&mut line)?),
            "get" => {
                let key = line.word()?;
                line.skip_blanks();
                KvOp::Get { key, at: line.at()? }
            }
            "scan" => KvOp::Scan {
                range: line.range()?,
                direction: line.direction(),
                limit: line.limit()?,
                at: line.at()?,
            },
            "reduce" => KvOp::Reduce { range: line.range()? },
            "snapshot" => KvOp::Snapshot(line.slot()?),
            "history" => KvOp::History { slot: line.slot()?, back: line.number()? },
            "release" => KvOp::Release(line.slot()?),
            "compact" => KvOp::Compact,
            "reopen" => KvOp::Reopen,
            "crash" => KvOp::Crash,
            "fault" => KvOp::Fault { calls: line.number()? },
            _ => return Err(line.refuse("a verb such as commit, get, scan, reopen or crash")),
        };
        line.end(op)
    }
}

fn parse_edits(line: &mut Line<'_>) -> Result<Vec<Edit>> {
    let mut edits = Vec::new();
    while !line.is_empty() {
        let key = line.word()?;
        if !line.take("=") {
            return Err(line.refuse("an edit such as a=1 or a=-"));
        }
        let value = if line.take_word("-") { None } else { Some(line.word()?) };
        line.skip_blanks();
        edits.push(Edit { key, value });
    }
    Ok(edits)
}
