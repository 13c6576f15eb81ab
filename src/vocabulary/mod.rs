//! Plain data that every layer, the model and the tests share: keys, ranges, edits, revisions,
//! operations.
//!
//! Invariant: nothing in here decides anything. Types compare, print and parse; whatever could be
//! right or wrong about a database lives elsewhere, so that the model shares words with the engine
//! but no algorithm.

mod json;
mod operation;
mod operation_db;
mod operation_kv;
mod operation_view;
mod path;
mod range;
mod revision;

pub use json::{BigInteger, Json, Number};
pub use operation::{Slot, Word};
pub use operation_db::{Base, DbOp, DocEdit, Replica, Which};
pub use operation_kv::KvOp;
pub use operation_view::{ViewOp, ViewUpdate};
pub use path::RevPath;
pub use range::{Direction, KeyRange};
pub use revision::{Rev, RevId};

/// One change to an ordered key-value tree.
///
/// ```
/// use rereduce::vocabulary::Edit;
/// let put = Edit::put("a", "1");
/// let remove = Edit::remove("a");
/// assert_eq!(put.key, remove.key);
/// assert!(remove.value.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edit {
    /// The key that changes.
    pub key: Vec<u8>,
    /// The new value, or `None` to remove the key; removing a missing key changes nothing.
    pub value: Option<Vec<u8>>,
}

impl Edit {
    /// Inserts `key`, or replaces its value.
    pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Edit {
        Edit { key: key.into(), value: Some(value.into()) }
    }

    /// Removes `key` if it is there.
    pub fn remove(key: impl Into<Vec<u8>>) -> Edit {
        Edit { key: key.into(), value: None }
    }
}
