//! A step of a database workload: an operation of the vocabulary, or what only several threads or
//! processes can do, in one schedule that is always the same.
//!
//! ```text
//! writers a@new=1 | b@new=2 c@new=3 | a@new=4      three writers, one commit; the third conflicts
//! compacting                                       a compaction copies, and stands still
//! edit b@winner=5                                  ... while others write
//! compact                                          it catches up, and swaps the files
//! reader                                           another process reads from here on
//! query                                            the index of the views is brought up to date
//! compactviews                                     ... and compacted
//! ```
//!
//! Invariant: all writers of a step saw the state before it, and their edits are made in the order
//! in which they stand there; where a thread of its own is at work, all others wait. So one script
//! leads to one sequence of disk calls.

use std::fmt;
use std::str::FromStr;

use rereduce::vocabulary::{DbOp, DocEdit};

/// One step of a workload of the database; prints and parses as one line of a script.
///
/// ```
/// use rereduce_crash_sim::DbStep;
/// let step: DbStep = "writers a@new=1 | b@new=2 c@new=3".parse().unwrap();
/// assert!(matches!(&step, DbStep::Writers(writers) if writers.len() == 2));
/// assert_eq!(step.to_string(), "writers a@new=1 | b@new=2 c@new=3");
/// assert_eq!("compact".parse::<DbStep>().unwrap().kind(), "compact");
/// assert!("writers".parse::<DbStep>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DbStep {
    /// One operation by one client.
    Op(DbOp),
    /// Writers that meet in one group commit, each with its own batch: `writers EDIT... | EDIT...`.
    Writers(Vec<Vec<DocEdit>>),
    /// Begins a compaction that stands still after copying; the next `compact` ends it, and a
    /// `reopen` or `crash` cancels it: `compacting`.
    Compacting,
    /// Opens a handle that reads, as another process would; it must show the newest commit after
    /// every later step: `reader`.
    Reader,
    /// Brings the index of the views up to date, and asks it: `query`.
    Query,
    /// Compacts the index of the views: `compactviews`.
    CompactViews,
}

impl DbStep {
    /// The verbs that change something or touch the disk: what a workload is made of. Reads are no
    /// part of it, as everything is read after every step.
    // spec: CRASH-20
    pub const KINDS: [&'static str; 18] = [
        "edit",
        "writers",
        "merge",
        "attach",
        "local",
        "purge",
        "revslimit",
        "purgelimit",
        "snapshot",
        "history",
        "release",
        "compacting",
        "compact",
        "reader",
        "query",
        "compactviews",
        "reopen",
        "crash",
    ];

    /// The verb, which is also the first word of the line.
    pub fn kind(&self) -> &'static str {
        match self {
            DbStep::Op(op) => op.kind(),
            DbStep::Writers(_) => "writers",
            DbStep::Compacting => "compacting",
            DbStep::Reader => "reader",
            DbStep::Query => "query",
            DbStep::CompactViews => "compactviews",
        }
    }
}

impl fmt::Display for DbStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writers = match self {
            DbStep::Op(op) => return write!(out, "{op}"),
            DbStep::Writers(writers) => writers,
            other => return out.write_str(other.kind()),
        };
        out.write_str("writers")?;
        for (index, edits) in writers.iter().enumerate() {
            let line = DbOp::Edit(edits.clone()).to_string();
            let edits = line.strip_prefix("edit").unwrap_or(&line);
            write!(out, "{}{edits}", if index == 0 { "" } else { " |" })?;
        }
        Ok(())
    }
}

impl FromStr for DbStep {
    type Err = rereduce::Error;

    fn from_str(text: &str) -> rereduce::Result<DbStep> {
        let writers = match text {
            "compacting" => return Ok(DbStep::Compacting),
            "reader" => return Ok(DbStep::Reader),
            "query" => return Ok(DbStep::Query),
            "compactviews" => return Ok(DbStep::CompactViews),
            _ => text.strip_prefix("writers "),
        };
        let Some(writers) = writers else { return text.parse().map(DbStep::Op) };
        let batch = |edits: &str| match format!("edit {}", edits.trim()).parse()? {
            DbOp::Edit(edits) => Ok(edits),
            _ => unreachable!("what begins with edit is an edit"),
        };
        writers.split('|').map(batch).collect::<rereduce::Result<_>>().map(DbStep::Writers)
    }
}

impl From<DbOp> for DbStep {
    fn from(op: DbOp) -> DbStep {
        DbStep::Op(op)
    }
}
