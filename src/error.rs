//! The one error type of the crate.
//!
//! Invariant: every error says which kind it is ([`Error::class`]) without anyone having to read
//! its message, and "was read and is wrong" ([`Error::Corrupt`]) is never mixed up with "could not
//! be read" ([`Error::Io`]): only the first may lead to an older commit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What every fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Anything that can go wrong, with the fields a program needs to react.
///
/// Cloning is cheap: writers that shared one failed flush each get their own copy.
///
/// ```
/// use rereduce::{Error, ErrorClass};
/// let error = Error::TooLarge { what: "document", size: 9_000_000, limit: 8_000_000 };
/// assert_eq!(error.class(), ErrorClass::Limit);
/// assert_eq!(
///     error.to_string(),
///     "document of 9000000 bytes is over the limit of 8000000 bytes; \
///      make it smaller or raise the limit"
/// );
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation; the data may be fine. Retry reads after mending
    /// the cause; after a failed write call `reopen`.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `open`, `read`, `append`, `flush`, ...
        operation: &'static str,
        /// The file or directory it was tried on.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },

    /// Bytes were read and are not what was written there. Restore from a copy, or open an older
    /// commit by its number.
    #[error("{0}")]
    Corrupt(Box<Corruption>),

    /// The file does not begin with a rereduce header; it was not touched.
    #[error("{} is not a rereduce database; check the path (the file was not touched)", path.display())]
    NotADatabase {
        /// The file that was looked at.
        path: PathBuf,
    },

    /// The file was written by a newer version of this crate; it was not touched.
    #[error(
        "{} has format version {found}, this program reads up to {supported}; use a newer program",
        path.display()
    )]
    NewerFormat {
        /// The file that was looked at.
        path: PathBuf,
        /// The version in its header.
        found: u32,
        /// The newest version this crate reads.
        supported: u32,
    },

    /// Another writer holds the database; readers may still open it.
    #[error(
        "{} is being written by another handle or process; open it read-only or wait for that to close",
        path.display()
    )]
    Locked {
        /// The database file.
        path: PathBuf,
    },

    /// An append or a flush failed earlier, so this handle takes no more writes. Reading goes on;
    /// `reopen` recovers in place.
    #[error("an earlier write to {} failed, so this handle refuses writes; call reopen", path.display())]
    Poisoned {
        /// The database file.
        path: PathBuf,
    },

    /// A write was asked of a handle that was opened for reading only.
    #[error("{} was opened read-only; open it for writing", path.display())]
    ReadOnly {
        /// The database file.
        path: PathBuf,
    },

    /// The handle was closed.
    #[error("{} was closed; open it again", path.display())]
    Closed {
        /// The database file.
        path: PathBuf,
    },

    /// Nothing exists at this path and the caller did not ask to create it.
    #[error("{} does not exist; check the path or create it", path.display())]
    NoSuchFile {
        /// The path that was looked for.
        path: PathBuf,
    },

    /// The commit asked for was dropped by a compaction.
    #[error("commit {asked} was compacted away; the oldest that can be opened is {oldest}")]
    Compacted {
        /// The commit number asked for.
        asked: u64,
        /// The oldest commit number in the file.
        oldest: u64,
    },

    /// No commit has this number yet.
    #[error("there is no commit {asked}; the newest is {newest}")]
    NoSuchCommit {
        /// The commit number asked for.
        asked: u64,
        /// The newest commit number in the file.
        newest: u64,
    },

    /// A compaction of this database is running already; wait for it or cancel it.
    #[error("a compaction of {} is running already; wait for it or cancel it", path.display())]
    CompactionRunning {
        /// The database file.
        path: PathBuf,
    },

    /// The caller cancelled the operation; nothing was changed.
    #[error("{operation} was cancelled; nothing was changed")]
    Cancelled {
        /// What was cancelled.
        operation: &'static str,
    },

    /// Something is larger than an option allows; nothing was written.
    #[error(
        "{what} of {size} bytes is over the limit of {limit} bytes; make it smaller or raise the limit"
    )]
    TooLarge {
        /// What is too large: `document`, `attachment`, `key`, ...
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },

    /// An argument cannot be used; nothing was written.
    #[error("{what} {got:?} is not valid: expected {expected}")]
    BadInput {
        /// What was given: `document id`, `revision`, `JSON`, ...
        what: &'static str,
        /// What was found, shortened for display.
        got: String,
        /// What would have been right.
        expected: &'static str,
    },

    /// The edit was based on a revision that is not a current leaf.
    #[error("document update conflict on {id:?}: read the current revision and edit that")]
    Conflict {
        /// The document's id.
        id: String,
    },

    /// The document, revision or attachment does not exist.
    #[error("{what} {name:?} is missing")]
    Missing {
        /// `document`, `revision`, `attachment`, ...
        what: &'static str,
        /// What was asked for.
        name: String,
    },

    /// A design document names something that does not exist, such as a reduce function.
    #[error("{reason}")]
    InvalidDesignDoc {
        /// CouchDB's words for it.
        reason: String,
    },

    /// A built-in reducer was given a value that it cannot take. The build of the views of that
    /// design document stops until a write mends the document or the function.
    #[error("{reason}")]
    InvalidValue {
        /// What is wrong with which value.
        reason: String,
    },

    /// A query has a parameter, or a combination of them, that means nothing.
    #[error("{reason}")]
    InvalidQuery {
        /// CouchDB's words for it.
        reason: String,
    },

    /// A function of a design document does not compile, ended for good or ran over a limit, or
    /// the server that runs it died. What its group has stored stays as it is; mend the function.
    #[error("{name}: {reason}")]
    Function {
        /// CouchDB's name of the error, such as `compilation_error`.
        name: String,
        /// What happened, in the words of whoever runs the function.
        reason: String,
    },

    /// The document exists, and its winning revision is a deletion.
    #[error("document {id:?} is deleted")]
    Deleted {
        /// The document's id.
        id: String,
    },
}

/// Where damage was found: which file, at which byte, and how the bytes differ from what they
/// should be.
///
/// ```
/// use rereduce::{Corruption, Error, ErrorClass};
/// let damage = Corruption::new("db.rereduce", 4096, "chunk checksum 00000001", "00000002");
/// let error = Error::from(damage);
/// assert_eq!(error.class(), ErrorClass::Corrupt);
/// assert!(error.to_string().contains("byte 4096"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is damaged at byte {offset}: expected {expected}, got {got}; restore a copy or open an older commit",
    file.display()
)]
pub struct Corruption {
    /// The damaged file.
    pub file: PathBuf,
    /// Byte offset of the block, chunk or footer that fails its check.
    pub offset: u64,
    /// What the bytes should have been.
    pub expected: String,
    /// What they are.
    pub got: String,
}

impl Corruption {
    /// Damage in `file` at byte `offset`.
    pub fn new(
        file: impl AsRef<Path>,
        offset: u64,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Corruption {
        Corruption {
            file: file.as_ref().to_path_buf(),
            offset,
            expected: expected.into(),
            got: got.into(),
        }
    }
}

impl From<Corruption> for Error {
    fn from(corruption: Corruption) -> Error {
        Error::Corrupt(Box::new(corruption))
    }
}

/// The kinds of error, for programs (and the model) that must not compare messages.
///
/// ```
/// use rereduce::ErrorClass;
/// assert!(ErrorClass::Corrupt != ErrorClass::Io);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The operating system refused.
    Io,
    /// Damage on disk.
    Corrupt,
    /// Not one of our files.
    NotADatabase,
    /// Written by a newer program.
    NewerFormat,
    /// Held by another writer, or by a running compaction.
    Busy,
    /// The handle refuses writes: poisoned, read-only or closed.
    Refused,
    /// A document, revision, attachment, commit or file does not exist.
    Missing,
    /// An edit conflicts.
    Conflict,
    /// Over a limit.
    Limit,
    /// Unusable argument.
    BadInput,
    /// A function of a design document failed.
    Function,
    /// Cancelled by the caller.
    Cancelled,
}

impl Error {
    /// An error of the operating system for `operation` on `path`.
    pub fn io(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Error {
        Error::Io { operation, path: path.as_ref().to_path_buf(), source: Arc::new(source) }
    }

    /// The same error, about `path` if it is one of the system: for a file that has another name by
    /// now than the one it was opened under.
    pub(crate) fn about(self, path: &Path) -> Error {
        match self {
            Error::Io { operation, source, .. } => {
                Error::Io { operation, path: path.to_path_buf(), source }
            }
            other => other,
        }
    }

    /// The kind of this error; two errors of one class ask the same reaction of the caller.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Io { .. } => ErrorClass::Io,
            Error::Corrupt(_) => ErrorClass::Corrupt,
            Error::NotADatabase { .. } => ErrorClass::NotADatabase,
            Error::NewerFormat { .. } => ErrorClass::NewerFormat,
            Error::Locked { .. } | Error::CompactionRunning { .. } => ErrorClass::Busy,
            Error::Poisoned { .. } | Error::ReadOnly { .. } | Error::Closed { .. } => {
                ErrorClass::Refused
            }
            Error::NoSuchFile { .. }
            | Error::Compacted { .. }
            | Error::NoSuchCommit { .. }
            | Error::Missing { .. }
            | Error::Deleted { .. } => ErrorClass::Missing,
            Error::Conflict { .. } => ErrorClass::Conflict,
            Error::TooLarge { .. } => ErrorClass::Limit,
            Error::BadInput { .. }
            | Error::InvalidDesignDoc { .. }
            | Error::InvalidQuery { .. }
            | Error::InvalidValue { .. } => ErrorClass::BadInput,
            Error::Function { .. } => ErrorClass::Function,
            Error::Cancelled { .. } => ErrorClass::Cancelled,
        }
    }

    /// Whether the bytes were read and failed a check (as opposed to: could not be read).
    pub fn is_corrupt(&self) -> bool {
        self.class() == ErrorClass::Corrupt
    }
}
