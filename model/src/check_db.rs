//! What a document database must offer to be held against the model.
//!
//! Invariant: the traits speak in plain words (revisions, JSON text, bytes), so that any
//! implementation fits.

use std::collections::BTreeMap;

use rereduce::vocabulary::{DbOp, Direction, Rev};
use rereduce::{Error, Result as EngineResult};

use crate::check_db_run::run;
use crate::db::Purges;
use crate::generate_db::{db_history_of, simpler};
use crate::verdict::{CheckConfig, Report, Violation, check, check_history};

/// A place where databases live, such as a directory.
///
/// ```
/// use rereduce_model::{CheckConfig, DbEngine, DbHandle, check_db};
///
/// /// An engine whose disk is gone.
/// struct Broken;
///
/// impl DbEngine for Broken {
///     fn open(&self, name: &str) -> rereduce::Result<Box<dyn DbHandle>> {
///         Err(rereduce::Error::NoSuchFile { path: name.into() })
///     }
/// }
///
/// let violation = check_db(&Broken, &CheckConfig::default()).unwrap_err();
/// assert_eq!(violation.expected, "no error");
/// ```
pub trait DbEngine {
    /// Opens the database called `name` (a plain file name), and creates it if it is not there.
    /// All earlier handles of it are gone by then.
    fn open(&self, name: &str) -> EngineResult<Box<dyn DbHandle>>;

    /// The database called `name` is not needed any more.
    fn remove(&self, name: &str) -> EngineResult<()> {
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

/// An attachment in an edit.
///
/// ```
/// use rereduce_model::DbAttachment;
/// let kept = DbAttachment { name: "n".into(), media: "text/plain".into(), content: None };
/// assert!(kept.content.is_none(), "the base revision has it");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbAttachment {
    /// Its name.
    pub name: String,
    /// Its media type.
    pub media: String,
    /// Its bytes; `None` keeps the attachment of this name that the base revision has.
    pub content: Option<Vec<u8>>,
}

/// An interactive edit.
///
/// ```
/// use rereduce_model::DbEdit;
/// let (id, body) = ("a".to_owned(), r#"{"v":1}"#.to_owned());
/// let first = DbEdit { id, base: None, deleted: false, body, attachments: Vec::new() };
/// assert_eq!(first.base, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbEdit {
    /// The document.
    pub id: String,
    /// The revision that the edit is based on.
    pub base: Option<Rev>,
    /// Whether this is a deletion.
    pub deleted: bool,
    /// JSON text, an object without members of CouchDB's own.
    pub body: String,
    /// All attachments of the new revision.
    pub attachments: Vec<DbAttachment>,
}

/// A replicated revision.
///
/// ```
/// use rereduce_model::{DbReplica, revtree::path};
/// let (id, body) = ("a".to_owned(), "{}".to_owned());
/// let replica = DbReplica { id, path: path("1-a 2-b"), deleted: false, body };
/// assert_eq!(replica.path.last().unwrap().to_string(), "2-b");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbReplica {
    /// The document.
    pub id: String,
    /// The revision at the end, and before it what is known of its ancestors.
    pub path: Vec<Rev>,
    /// Whether it is a deletion.
    pub deleted: bool,
    /// JSON text.
    pub body: String,
}

/// A revision as it is read.
///
/// ```
/// use rereduce_model::{DbDocument, revtree::path};
/// let (history, body) = (path("1-a 2-b"), "{}".to_owned());
/// let rev = history[1].clone();
/// let read = DbDocument { rev, deleted: false, body, history, attachments: Vec::new() };
/// assert_eq!(read.history.last(), Some(&read.rev));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DbDocument {
    /// The revision.
    pub rev: Rev,
    /// Whether it is a deletion.
    pub deleted: bool,
    /// JSON text without spaces, without members of CouchDB's own.
    pub body: String,
    /// Its known history, the oldest first, itself included.
    pub history: Vec<Rev>,
    /// Name, media type and size in bytes of each attachment, in any order.
    pub attachments: Vec<(String, String, u64)>,
}

/// One entry of the changes.
///
/// ```
/// use rereduce_model::{DbChange, revtree::path};
/// let leaves = path("1-a");
/// let winner = leaves[0].clone();
/// let change = DbChange { seq: 1, id: "a".into(), deleted: false, winner, leaves };
/// assert!(change.leaves.contains(&change.winner));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbChange {
    /// Its sequence: rises from entry to entry.
    pub seq: u64,
    /// The document.
    pub id: String,
    /// Whether the winner is a deletion.
    pub deleted: bool,
    /// The winner.
    pub winner: Rev,
    /// All leaves, the winner included, in any order.
    pub leaves: Vec<Rev>,
}

/// Which revisions are read.
///
/// ```
/// use rereduce_model::{DbWanted, revtree::path};
/// assert_ne!(DbWanted::Latest(path("1-a").remove(0)), DbWanted::Leaves);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DbWanted {
    /// The winner; an error of class `Missing` if there is none or it is a deletion.
    Winner,
    /// One revision; an error of class `Missing` if it or its body is not known (any more).
    Rev(Rev),
    /// Every leaf, deleted or not; none if there is no document.
    Leaves,
    /// Every leaf that descends from this revision; `Missing` if it is not known.
    Latest(Rev),
}

/// A committed state. What answers with an `Option` is `None` if it is not offered.
pub trait DbView: Send {
    /// Reads revisions of a document, in any order.
    fn read(&self, id: &str, wanted: &DbWanted) -> EngineResult<Vec<DbDocument>>;

    /// The changes after `since`, each document once, at its last change. Descending lists them
    /// from the last one on.
    fn changes(
        &self,
        since: u64,
        direction: Direction,
        limit: Option<u64>,
    ) -> EngineResult<Vec<DbChange>>;

    /// How many documents there are whose winner is not deleted, and is.
    fn counts(&self) -> EngineResult<(u64, u64)>;

    /// The bytes of an attachment; a range (first byte, number of bytes) is cut to what is there.
    fn attachment(
        &self,
        id: &str,
        rev: &Rev,
        name: &str,
        range: Option<(u64, u64)>,
    ) -> Option<EngineResult<Vec<u8>>> {
        let _ = (id, rev, name, range);
        None
    }

    /// The body of a local document.
    fn local(&self, id: &str) -> Option<EngineResult<Option<String>>> {
        let _ = id;
        None
    }

    /// The bodies of all local documents.
    fn locals(&self) -> Option<EngineResult<BTreeMap<String, String>>> {
        None
    }

    /// How many revisions of a history, and how many purges, are kept.
    fn limits(&self) -> Option<(u64, u64)> {
        None
    }
}

/// An open database. What answers with an `Option` is `None` if it is not offered.
pub trait DbHandle {
    /// The committed state as of now.
    fn view(&self) -> EngineResult<Box<dyn DbView>>;

    /// Writes a batch of edits as one commit, each with its own result.
    fn edit(&self, edits: &[DbEdit]) -> EngineResult<Vec<EngineResult<Rev>>>;

    /// Writes replicated revisions as one commit.
    fn merge(&self, replicas: &[DbReplica]) -> EngineResult<()>;

    /// Writes a local document, or deletes it if there is no body.
    fn put_local(&self, id: &str, body: Option<&str>) -> Option<EngineResult<()>> {
        let _ = (id, body);
        None
    }

    /// Purges leaves and answers which of `revs` were some.
    fn purge(&self, id: &str, revs: &[Rev]) -> Option<EngineResult<Vec<Rev>>> {
        let _ = (id, revs);
        None
    }

    /// The purges that are still known, the oldest first.
    fn purges(&self) -> Option<EngineResult<Purges>> {
        None
    }

    /// Sets how many revisions of a history are kept by writes from now on.
    fn set_revs_limit(&self, limit: u64) -> Option<EngineResult<()>> {
        let _ = limit;
        None
    }

    /// Sets how many purges compactions keep from now on.
    fn set_purge_limit(&self, limit: u64) -> Option<EngineResult<()>> {
        let _ = limit;
        None
    }

    /// Closes cleanly.
    fn close(self: Box<Self>) -> EngineResult<()> {
        Ok(())
    }

    /// Ends as a killed process does, or as a power cut if the engine can play one.
    fn crash(self: Box<Self>) {}

    /// Compacts the database.
    fn compact(&self) -> Option<EngineResult<()>> {
        None
    }

    /// The number of the newest commit.
    fn commit_number(&self) -> Option<u64> {
        None
    }

    /// Opens a commit by its number. Those before the last compaction may be missing.
    fn open_commit(&self, number: u64) -> Option<EngineResult<Box<dyn DbView>>> {
        let _ = number;
        None
    }

    /// The engine's own check of its structure.
    fn check(&self) -> Option<Result<(), Error>> {
        None
    }
}

/// Holds `engine` against the model, over histories that depend on `config` alone.
///
/// # Errors
/// A [`Violation`] with the shortest history found.
// spec: MODEL-2
pub fn check_db(engine: &dyn DbEngine, config: &CheckConfig) -> Result<Report, Violation> {
    check(
        config,
        &DbOp::KINDS,
        |history| db_history_of(config, history),
        |ops, report| run(engine, ops, report),
        simpler,
    )
}

/// Holds `engine` against the model over one history.
///
/// # Errors
/// A [`Violation`] with the shortest history found.
pub fn check_db_history(engine: &dyn DbEngine, ops: &[DbOp]) -> Result<Report, Violation> {
    let mut report = Report::default();
    check_history(ops, &mut report, &|ops, report| run(engine, ops, report), &simpler)?;
    Ok(report)
}
