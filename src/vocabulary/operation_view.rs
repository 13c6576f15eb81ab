//! Operations on a database and the views beside it, as plain data.
//!
//! Invariant: every operation on a database is one here too, and makes sense in every state.

use std::fmt;
use std::str::FromStr;

use super::DbOp;
use super::operation::Line;
use crate::error::{Error, Result};

/// Whether a query brings the views up to date.
///
/// ```
/// use rereduce::vocabulary::{ViewOp, ViewUpdate};
/// assert_eq!(ViewOp::Query(ViewUpdate::Lazy).to_string(), "query lazy");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViewUpdate {
    /// Before it answers.
    True,
    /// No.
    False,
    /// Behind it.
    Lazy,
}

/// One operation on a database and its views; prints and parses as one line of a script.
///
/// ```
/// use rereduce::vocabulary::{ViewOp, ViewUpdate};
/// for line in ["edit a@new=1", "query true", "compactviews", "restore"] {
///     assert_eq!(line.parse::<ViewOp>().unwrap().to_string(), line);
/// }
/// assert!("query maybe".parse::<ViewOp>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ViewOp {
    /// An operation on the database; one that reads does nothing here.
    Db(DbOp),
    /// Asks all views: `query true`, `query false`, `query lazy`.
    Query(ViewUpdate),
    /// Compacts the views: `compactviews`.
    CompactViews,
    /// Takes a copy of the database: `backup`.
    Backup,
    /// Puts the copy back, and leaves the views as they are: `restore`.
    Restore,
    /// Deletes the database, leaves the views, and creates it again: `recreate`.
    Recreate,
}

impl ViewOp {
    /// Every kind of operation that does something, by its verb.
    pub const KINDS: [&'static str; 13] = [
        "edit",
        "merge",
        "purge",
        "revslimit",
        "purgelimit",
        "compact",
        "reopen",
        "crash",
        "query",
        "compactviews",
        "backup",
        "restore",
        "recreate",
    ];

    /// The verb, which is also the first word of the line.
    pub fn kind(&self) -> &'static str {
        match self {
            ViewOp::Db(op) => op.kind(),
            ViewOp::Query(_) => "query",
            ViewOp::CompactViews => "compactviews",
            ViewOp::Backup => "backup",
            ViewOp::Restore => "restore",
            ViewOp::Recreate => "recreate",
        }
    }
}

// spec: MODEL-1
impl fmt::Display for ViewOp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewOp::Db(op) => write!(out, "{op}"),
            ViewOp::Query(ViewUpdate::True) => out.write_str("query true"),
            ViewOp::Query(ViewUpdate::False) => out.write_str("query false"),
            ViewOp::Query(ViewUpdate::Lazy) => out.write_str("query lazy"),
            other => out.write_str(other.kind()),
        }
    }
}

impl FromStr for ViewOp {
    type Err = Error;

    fn from_str(text: &str) -> Result<ViewOp> {
        let mut line = Line::new(text);
        let op = match line.name() {
            "query" if line.take_word("true") => ViewOp::Query(ViewUpdate::True),
            "query" if line.take_word("false") => ViewOp::Query(ViewUpdate::False),
            "query" if line.take_word("lazy") => ViewOp::Query(ViewUpdate::Lazy),
            "query" => return Err(line.refuse("query true, query false or query lazy")),
            "compactviews" => ViewOp::CompactViews,
            "backup" => ViewOp::Backup,
            "restore" => ViewOp::Restore,
            "recreate" => ViewOp::Recreate,
            _ => return text.parse().map(ViewOp::Db),
        };
        line.end(op)
    }
}
