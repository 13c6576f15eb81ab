//! Document ids.
//!
//! Invariant: a [`DocId`] is an id that CouchDB would take, so nothing behind it checks again.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::mark;

/// The id of a document: not empty, and with a leading `_` only in `_design/...` and `_local/...`.
///
/// Order is byte order, the order of `_all_docs`.
///
/// ```
/// use rereduce::doc::DocId;
/// let id: DocId = "_design/weather".parse().unwrap();
/// assert!(id.is_design() && !id.is_local());
/// for refused in ["", "_x", "_design", "_design/", "_local/"] {
///     assert!(refused.parse::<DocId>().is_err());
/// }
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocId(String);

impl DocId {
    /// Takes `id` if it is one; [`Error::BadInput`] says what is wrong with it.
    // spec: DOC-7
    pub fn new(id: impl Into<String>) -> Result<DocId> {
        let id = id.into();
        let expected = match id.as_str() {
            "" => "a document id that is not empty",
            "_design/" | "_local/" => "a name behind the slash",
            other if !other.starts_with('_') => return Ok(DocId(id)),
            _ if mark::planted("doc-id-underscore-accepted") => return Ok(DocId(id)),
            other if other.starts_with("_design/") || other.starts_with("_local/") => {
                return Ok(DocId(id));
            }
            _ => "no leading underscore except in _design/ and _local/",
        };
        Err(Error::BadInput { what: "document id", got: shortened(&id), expected })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes, as trees order them.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether this is a `_local/` document: not replicated, no history.
    pub fn is_local(&self) -> bool {
        self.0.starts_with("_local/")
    }

    /// Whether this is a design document.
    pub fn is_design(&self) -> bool {
        self.0.starts_with("_design/")
    }
}

impl FromStr for DocId {
    type Err = Error;

    fn from_str(id: &str) -> Result<DocId> {
        DocId::new(id)
    }
}

impl fmt::Display for DocId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for DocId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.0)
    }
}

/// The beginning of `text`, for an error.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: DOC-7
    #[test]
    fn only_reserved_ids_begin_with_an_underscore() {
        for id in ["a", "A b", "\0", "é", "a_", "_design/x", "_design//x", "_local/x/y", "..", "-"]
        {
            assert_eq!(DocId::new(id).unwrap().as_str(), id);
        }
        for id in ["", "_", "_a", "_design", "_local", "_design/", "_local/", "_designx/y"] {
            assert_eq!(DocId::new(id).unwrap_err().class(), crate::ErrorClass::BadInput, "{id}");
        }
    }
}
