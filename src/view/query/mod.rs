//! Queries of views: their parameters, and what they answer from the rows of one state.
//!
//! ```text
//!   URL ──┐                          ┌─ check ──> rows, or groups of a level
//!   body ─┴─ read ──> ViewQuery ─────┤
//!                                    └─ bounds ─> ranges of places ──> scan   ──> rows
//!                                                                 └──> groups ──> reductions
//! ```
//!
//! A query never reads what lies before its first row: how many rows that are is counted from the
//! inner nodes, and rows that are skipped are passed over the same way.
//!
//! Invariant: what a query answers depends on its parameters and on one state of the view alone.

mod bounds;
#[cfg(test)]
mod case_tests;
mod check;
mod linked;
mod read;
mod run;
mod term;
#[cfg(test)]
mod tests;

pub use check::{GroupLevel, QueryKind};
pub use linked::{DocShown, document_shown};
pub use run::{QueryHeader, QueryRow, VisitQueryRow, run};

use crate::view::index::Update;
use crate::vocabulary::Json;

/// The parameters of a query, as CouchDB names and reads them.
///
/// ```
/// use rereduce::view::query::ViewQuery;
/// let query = ViewQuery::read([("startkey", "[2012]"), ("limit", "10")], None)?;
/// assert_eq!(query.limit, Some(10));
/// assert_eq!(query.start_key.unwrap().to_string(), "[2012]");
/// let refused = ViewQuery::read([("limit", "ten")], None).unwrap_err();
/// assert_eq!(refused.to_string(), r#"Invalid value for integer: "ten""#);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewQuery {
    /// Where the range begins, in the query's direction; `key` sets both ends.
    pub start_key: Option<Json>,
    /// Where the range ends.
    pub end_key: Option<Json>,
    /// Among the rows of `start_key`, the document to begin with.
    pub start_key_docid: Option<String>,
    /// Among the rows of `end_key`, the document to end with.
    pub end_key_docid: Option<String>,
    /// The only keys to look at, in this order. Anything but an array is refused when the query is
    /// checked, and so is an array beside a range.
    pub keys: Option<Json>,
    /// Whether the end of the range belongs to it.
    pub inclusive_end: bool,
    /// From the greatest key to the smallest.
    pub descending: bool,
    /// At most so many rows or groups.
    pub limit: Option<u64>,
    /// So many rows or groups are passed over.
    pub skip: u64,
    /// Whether each key is a group; `group_level` says more.
    pub group: Option<bool>,
    /// How many elements of an array name its group.
    pub group_level: Option<u64>,
    /// Whether to reduce; by default if the view has a reducer.
    pub reduce: Option<bool>,
    /// Whether rows show documents.
    pub include_docs: bool,
    /// Whether shown documents show their conflicts.
    pub conflicts: Option<bool>,
    /// Whether shown documents show the content of attachments.
    pub attachments: bool,
    /// Whether shown documents say how attachments are encoded.
    pub att_encoding_info: bool,
    /// Whether the answer says which state it is of.
    pub update_seq: bool,
    /// Accepted for CouchDB's clients; a query of one file is always sorted.
    pub sorted: bool,
    /// What happens to the index first.
    pub update: Update,
    /// Accepted for CouchDB's clients; there is one copy of an index, which is stable.
    pub stable: bool,
    /// Whether a partition was named, which only partitioned databases have.
    pub partition: bool,
}

impl Default for ViewQuery {
    fn default() -> ViewQuery {
        ViewQuery {
            start_key: None,
            end_key: None,
            start_key_docid: None,
            end_key_docid: None,
            keys: None,
            inclusive_end: true,
            descending: false,
            limit: None,
            skip: 0,
            group: None,
            group_level: None,
            reduce: None,
            include_docs: false,
            conflicts: None,
            attachments: false,
            att_encoding_info: false,
            update_seq: false,
            sorted: true,
            update: Update::True,
            stable: false,
            partition: false,
        }
    }
}
