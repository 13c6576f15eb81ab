//! Operations on a document database, as plain data.
//!
//! Invariant: an operation names revisions by what they are at that moment (the winner, the k-th
//! leaf), so it makes sense in every state, and scripts stay readable.

use std::fmt;
use std::str::FromStr;

use super::Direction;
use super::operation::{Line, Slot, Word};
use crate::error::{Error, Result};

/// A revision by what it is: resolved against the document at the time of the operation.
///
/// ```
/// use rereduce::vocabulary::Base;
/// assert_eq!(Base::Leaf(2).to_string(), "leaf2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// No revision: the document is thought to be new.
    New,
    /// The winner; none if there is no document.
    Winner,
    /// The k-th leaf in ascending order, modulo their number.
    Leaf(u64),
    /// The k-th revision that is no leaf any more, modulo their number; unknown if there is none.
    Old(u64),
    /// A revision that nobody ever wrote.
    Unknown,
}

impl fmt::Display for Base {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Base::New => out.write_str("new"),
            Base::Winner => out.write_str("winner"),
            Base::Leaf(index) => write!(out, "leaf{index}"),
            Base::Old(index) => write!(out, "old{index}"),
            Base::Unknown => out.write_str("unknown"),
        }
    }
}

/// One edit of a batch: `ID@BASE=BODY`, or `ID@BASE=-` for a deletion.
///
/// ```
/// use rereduce::vocabulary::{Base, DbOp, DocEdit};
/// let edit = DocEdit { id: "a".into(), base: Base::Winner, body: None };
/// assert_eq!(DbOp::Edit(vec![edit]).to_string(), "edit a@winner=-");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DocEdit {
    /// The document.
    pub id: String,
    /// What the edit is based on.
    pub base: Base,
    /// Stands for a small JSON body; `None` deletes.
    pub body: Option<u64>,
}

/// One replicated revision: `ID@BASE+a+b~ANCESTORS=BODY`.
///
/// ```
/// use rereduce::vocabulary::{Base, DbOp, Replica};
/// let (id, letters) = ("a".to_owned(), b"xy".to_vec());
/// let replica = Replica { id, onto: Base::Old(0), letters, ancestors: 2, body: Some(1) };
/// assert_eq!(DbOp::Merge(vec![replica]).to_string(), "merge a@old0+x+y~2=1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The document.
    pub id: String,
    /// The revision that the new ones continue.
    pub onto: Base,
    /// One letter for each new revision; equal parents and letters make equal revisions.
    pub letters: Vec<u8>,
    /// How many known ancestors come along.
    pub ancestors: u64,
    /// Stands for a small JSON body; `None` deletes.
    pub body: Option<u64>,
}

/// Which revisions of a document are read.
///
/// ```
/// use rereduce::vocabulary::{Base, DbOp, Which};
/// let get = DbOp::Get { id: "a".into(), which: Which::Latest(Base::Old(1)), at: None };
/// assert_eq!(get.to_string(), "get a latest old1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// The winner, unless it is a deletion.
    Winner,
    /// One revision, deleted or not.
    Rev(Base),
    /// Every leaf, deleted or not.
    Leaves,
    /// Every leaf that descends from a revision.
    Latest(Base),
}

/// One operation on a document database; prints and parses as one line of a script.
///
/// ```
/// use rereduce::vocabulary::{Base, DbOp, DocEdit};
/// let op: DbOp = "edit a@winner=5 b@new=-".parse().unwrap();
/// let edit = |id: &str, base, body| DocEdit { id: id.into(), base, body };
/// assert_eq!(op, DbOp::Edit(vec![edit("a", Base::Winner, Some(5)), edit("b", Base::New, None)]));
/// let line = "merge a@leaf0+x+y~2=7";
/// assert_eq!(line.parse::<DbOp>().unwrap().to_string(), line);
/// assert!("edit a".parse::<DbOp>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DbOp {
    /// Interactive edits in one batch, each with its own result: `edit EDIT...`.
    Edit(Vec<DocEdit>),
    /// Replicated revisions in one batch: `merge REPLICA...`.
    Merge(Vec<Replica>),
    /// Adds an attachment by an edit: `attach ID@BASE NAME TYPE SEED SIZE`.
    Attach {
        /// The document.
        id: String,
        /// What the edit is based on; its body and other attachments stay.
        base: Base,
        /// The attachment's name.
        name: String,
        /// Its media type.
        media: String,
        /// What its bytes depend on.
        seed: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// Reads revisions: `get ID [rev BASE | leaves | latest BASE] [in SLOT]`.
    Get {
        /// The document.
        id: String,
        /// Which of its revisions.
        which: Which,
        /// The snapshot to read, or the newest state.
        at: Option<Slot>,
    },
    /// Reads an attachment of the winner: `attachment ID NAME [range START LENGTH] [in SLOT]`.
    Attachment {
        /// The document.
        id: String,
        /// The attachment's name.
        name: String,
        /// First byte and number of bytes, or all.
        range: Option<(u64, u64)>,
        /// The snapshot to read, or the newest state.
        at: Option<Slot>,
    },
    /// Writes or deletes a local document: `local ID=BODY`, `local ID=-`.
    PutLocal {
        /// Its id, without `_local/`.
        id: String,
        /// Stands for a small JSON body; `None` deletes.
        body: Option<u64>,
    },
    /// Reads a local document: `readlocal ID [in SLOT]`.
    ReadLocal {
        /// Its id, without `_local/`.
        id: String,
        /// The snapshot to read, or the newest state.
        at: Option<Slot>,
    },
    /// Purges one revision: `purge ID@BASE`.
    Purge {
        /// The document.
        id: String,
        /// The revision, which goes only if it is a leaf.
        base: Base,
    },
    /// Lists the purges that are still known: `purges`.
    Purges,
    /// Lists changes: `changes since N [desc] [limit N] [in SLOT]`.
    Changes {
        /// How many of the changes lie before the first one listed.
        since: u64,
        /// The way to walk; descending lists all.
        direction: Direction,
        /// The most to list.
        limit: Option<u64>,
        /// The snapshot to read, or the newest state.
        at: Option<Slot>,
    },
    /// Reads the counts: `info [in SLOT]`.
    Info {
        /// The snapshot to read, or the newest state.
        at: Option<Slot>,
    },
    /// Sets how many revisions of a history are kept: `revslimit N`.
    RevsLimit(u64),
    /// Sets how many purges are kept by compactions: `purgelimit N`.
    PurgeLimit(u64),
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
    /// Compacts the database: `compact`.
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

impl DbOp {
    /// Every kind of operation, by its verb.
    pub const KINDS: [&'static str; 20] = [
        "edit",
        "merge",
        "attach",
        "get",
        "attachment",
        "local",
        "readlocal",
        "purge",
        "purges",
        "changes",
        "info",
        "revslimit",
        "purgelimit",
        "snapshot",
        "history",
        "release",
        "compact",
        "reopen",
        "crash",
        "fault",
    ];

    /// The verb, which is also the first word of the line.
    pub fn kind(&self) -> &'static str {
        match self {
            DbOp::Edit(_) => "edit",
            DbOp::Merge(_) => "merge",
            DbOp::Attach { .. } => "attach",
            DbOp::Get { .. } => "get",
            DbOp::Attachment { .. } => "attachment",
            DbOp::PutLocal { .. } => "local",
            DbOp::ReadLocal { .. } => "readlocal",
            DbOp::Purge { .. } => "purge",
            DbOp::Purges => "purges",
            DbOp::Changes { .. } => "changes",
            DbOp::Info { .. } => "info",
            DbOp::RevsLimit(_) => "revslimit",
            DbOp::PurgeLimit(_) => "purgelimit",
            DbOp::Snapshot(_) => "snapshot",
            DbOp::History { .. } => "history",
            DbOp::Release(_) => "release",
            DbOp::Compact => "compact",
            DbOp::Reopen => "reopen",
            DbOp::Crash => "crash",
            DbOp::Fault { .. } => "fault",
        }
    }
}

/// `in SLOT`, or nothing.
struct Tail<'a>(&'a Option<Slot>);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |slot| write!(out, " in {slot}"))
    }
}

/// A number, or `-` for a deletion.
struct Body<'a>(&'a Option<u64>);

impl fmt::Display for Body<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(body) => write!(out, "{body}"),
            None => out.write_str("-"),
        }
    }
}

fn word(text: &str) -> Word<'_> {
    Word(text.as_bytes())
}

// spec: MODEL-1
impl fmt::Display for DbOp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.kind())?;
        match self {
            DbOp::Edit(edits) => edits.iter().try_for_each(|DocEdit { id, base, body }| {
                write!(out, " {}@{base}={}", word(id), Body(body))
            }),
            DbOp::Merge(replicas) => replicas.iter().try_for_each(|replica| {
                write!(out, " {}@{}", word(&replica.id), replica.onto)?;
                replica
                    .letters
                    .iter()
                    .try_for_each(|letter| write!(out, "+{}", Word(&[*letter])))?;
                write!(out, "~{}={}", replica.ancestors, Body(&replica.body))
            }),
            DbOp::Attach { id, base, name, media, seed, size } => {
                write!(out, " {}@{base} {} {} {seed} {size}", word(id), word(name), word(media))
            }
            DbOp::Get { id, which, at } => {
                write!(out, " {}", word(id))?;
                match which {
                    Which::Winner => Ok(()),
                    Which::Rev(base) => write!(out, " rev {base}"),
                    Which::Leaves => write!(out, " leaves"),
                    Which::Latest(base) => write!(out, " latest {base}"),
                }?;
                write!(out, "{}", Tail(at))
            }
            DbOp::Attachment { id, name, range, at } => {
                write!(out, " {} {}", word(id), word(name))?;
                range.map_or(Ok(()), |(start, length)| write!(out, " range {start} {length}"))?;
                write!(out, "{}", Tail(at))
            }
            DbOp::PutLocal { id, body } => write!(out, " {}={}", word(id), Body(body)),
            DbOp::ReadLocal { id, at } => write!(out, " {}{}", word(id), Tail(at)),
            DbOp::Purge { id, base } => write!(out, " {}@{base}", word(id)),
            DbOp::Changes { since, direction, limit, at } => {
                write!(out, " since {since}")?;
                if *direction == Direction::Descending {
                    out.write_str(" desc")?;
                }
                limit.map_or(Ok(()), |limit| write!(out, " limit {limit}"))?;
                write!(out, "{}", Tail(at))
            }
            DbOp::Info { at } => write!(out, "{}", Tail(at)),
            DbOp::RevsLimit(limit) | DbOp::PurgeLimit(limit) => write!(out, " {limit}"),
            DbOp::Snapshot(slot) | DbOp::Release(slot) => write!(out, " {slot}"),
            DbOp::History { slot, back } => write!(out, " {slot} {back}"),
            DbOp::Fault { calls } => write!(out, " {calls}"),
            DbOp::Purges | DbOp::Compact | DbOp::Reopen | DbOp::Crash => Ok(()),
        }
    }
}

impl FromStr for DbOp {
    type Err = Error;

    fn from_str(text: &str) -> Result<DbOp> {
        let mut line = Line::new(text);
        let op = match line.name() {
            "edit" => DbOp::Edit(list(&mut line, edit)?),
            "merge" => DbOp::Merge(list(&mut line, replica)?),
            "attach" => {
                let (id, base) = (line.text()?, at_base(&mut line)?);
                line.skip_blanks();
                let (name, media) = (spaced(&mut line)?, spaced(&mut line)?);
                DbOp::Attach { id, base, name, media, seed: line.number()?, size: line.number()? }
            }
            "get" => DbOp::Get { id: spaced(&mut line)?, which: which(&mut line)?, at: line.at()? },
            "attachment" => {
                let (id, name) = (spaced(&mut line)?, spaced(&mut line)?);
                let ranged = line.take_word("range");
                let range = if ranged { Some((line.number()?, line.number()?)) } else { None };
                DbOp::Attachment { id, name, range, at: line.at()? }
            }
            "local" => DbOp::PutLocal { id: line.text()?, body: body(&mut line)? },
            "readlocal" => DbOp::ReadLocal { id: spaced(&mut line)?, at: line.at()? },
            "purge" => DbOp::Purge { id: line.text()?, base: at_base(&mut line)? },
            "purges" => DbOp::Purges,
            "changes" => {
                let since = if line.take_word("since") { line.number()? } else { 0 };
                let (direction, limit) = (line.direction(), line.limit()?);
                DbOp::Changes { since, direction, limit, at: line.at()? }
            }
            "info" => DbOp::Info { at: line.at()? },
            "revslimit" => DbOp::RevsLimit(line.number()?),
            "purgelimit" => DbOp::PurgeLimit(line.number()?),
            "snapshot" => DbOp::Snapshot(line.slot()?),
            "history" => DbOp::History { slot: line.slot()?, back: line.number()? },
            "release" => DbOp::Release(line.slot()?),
            "compact" => DbOp::Compact,
            "reopen" => DbOp::Reopen,
            "crash" => DbOp::Crash,
            "fault" => DbOp::Fault { calls: line.number()? },
            _ => return Err(line.refuse("a verb such as edit, merge, get, changes or reopen")),
        };
        line.end(op)
    }
}

fn list<'a, T>(line: &mut Line<'a>, item: impl Fn(&mut Line<'a>) -> Result<T>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    while !line.is_empty() {
        items.push(item(line)?);
    }
    Ok(items)
}

fn spaced(line: &mut Line<'_>) -> Result<String> {
    let text = line.text()?;
    line.skip_blanks();
    Ok(text)
}

fn at_base(line: &mut Line<'_>) -> Result<Base> {
    if line.take("@") { base(line) } else { Err(line.refuse("a revision such as a@winner")) }
}

fn base(line: &mut Line<'_>) -> Result<Base> {
    if line.take("new") {
        Ok(Base::New)
    } else if line.take("winner") {
        Ok(Base::Winner)
    } else if line.take("unknown") {
        Ok(Base::Unknown)
    } else if line.take("leaf") {
        Ok(Base::Leaf(line.digits()?))
    } else if line.take("old") {
        Ok(Base::Old(line.digits()?))
    } else {
        Err(line.refuse("new, winner, leaf0, old0 or unknown"))
    }
}

fn body(line: &mut Line<'_>) -> Result<Option<u64>> {
    if !line.take("=") {
        return Err(line.refuse("a body such as =5 or =-"));
    }
    if line.take_word("-") { Ok(None) } else { line.number().map(Some) }
}

fn edit(line: &mut Line<'_>) -> Result<DocEdit> {
    Ok(DocEdit { id: line.text()?, base: at_base(line)?, body: body(line)? })
}

fn replica(line: &mut Line<'_>) -> Result<Replica> {
    let (id, onto) = (line.text()?, at_base(line)?);
    let mut letters = Vec::new();
    while line.take("+") {
        let word = line.word()?;
        let [letter] = word[..] else { return Err(line.refuse("one letter a revision")) };
        letters.push(letter);
    }
    if !line.take("~") {
        return Err(line.refuse("a number of ancestors such as ~2"));
    }
    Ok(Replica { id, onto, letters, ancestors: line.digits()?, body: body(line)? })
}

fn which(line: &mut Line<'_>) -> Result<Which> {
    let which = if line.take_word("leaves") {
        Which::Leaves
    } else if line.take_word("rev") {
        Which::Rev(base(line)?)
    } else if line.take_word("latest") {
        Which::Latest(base(line)?)
    } else {
        Which::Winner
    };
    line.skip_blanks();
    Ok(which)
}
