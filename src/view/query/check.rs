//! Which parameters may stand together, and what a query then asks for.
//!
//! Invariant: of several things that are wrong CouchDB's first one is named.

use crate::error::Result;
use crate::mark;
use crate::vocabulary::Json;

use super::ViewQuery;
use super::read::invalid;

/// What names the group of a row.
///
/// ```
/// use rereduce::view::query::GroupLevel;
/// assert_ne!(GroupLevel::Key, GroupLevel::Elements(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLevel {
    /// Its key: `group=true`.
    Key,
    /// So many elements of its key, or the key if that is no array. With 0 all rows are one group.
    Elements(usize),
}

/// What a query answers with.
///
/// ```
/// use rereduce::view::query::{GroupLevel, QueryKind, ViewQuery};
/// let query = ViewQuery { group_level: Some(2), ..ViewQuery::default() };
/// assert_eq!(query.check(true)?, QueryKind::Groups(GroupLevel::Elements(2)));
/// let refused = query.check(false).unwrap_err();
/// assert_eq!(refused.to_string(), "Invalid use of grouping on a map view.");
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// Rows.
    Rows,
    /// Reductions of groups of rows.
    Groups(GroupLevel),
}

impl ViewQuery {
    /// What the query asks of a view, which `has_reducer` or not.
    ///
    /// [`Error::InvalidQuery`](crate::Error::InvalidQuery) with CouchDB's reason if its parameters
    /// do not go together, or not with such a view.
    // spec: QUERY-4
    pub fn check(&self, has_reducer: bool) -> Result<QueryKind> {
        let level = self.level()?;
        let reduces = has_reducer && self.reduce != Some(false);
        if self.reduce == Some(true) && !has_reducer {
            return Err(invalid("Reduce is invalid for map-only views."));
        }
        if reduces && self.keys.is_some() && level != GroupLevel::Key {
            // What is no list is named below.
            if let Some(Json::Array(_)) = self.keys {
                return Err(invalid("Multi-key fetches for reduce views must use `group=true`"));
            }
        }
        match &self.keys {
            None => {}
            Some(Json::Array(keys)) => {
                let has_range = self.start_key.is_some() || self.end_key.is_some();
                if !keys.is_empty() && has_range && !mark::planted("keys-beside-a-range") {
                    let reason = "`keys` is incompatible with `key`, `start_key` and `end_key`";
                    return Err(invalid(reason));
                }
            }
            Some(_) => return Err(invalid("`keys` must be an array of strings.")),
        }
        if !reduces && level != GroupLevel::Elements(0) {
            return Err(invalid("Invalid use of grouping on a map view."));
        }
        if reduces && self.include_docs {
            return Err(invalid("`include_docs` is invalid for reduce"));
        }
        if reduces && self.conflicts.is_some() {
            return Err(invalid("`conflicts` is invalid for reduce views."));
        }
        if self.partition {
            let reason = "`partition` parameter is not supported in this design doc";
            return Err(invalid(reason));
        }
        Ok(if reduces { QueryKind::Groups(level) } else { QueryKind::Rows })
    }

    fn level(&self) -> Result<GroupLevel> {
        let elements = |level: u64| usize::try_from(level).unwrap_or(usize::MAX);
        match (self.group, self.group_level) {
            (Some(false), Some(1..)) => {
                let reason = "Can't specify group=false and group_level>0 at the same time";
                Err(invalid(reason))
            }
            (_, Some(level)) => Ok(GroupLevel::Elements(elements(level))),
            (Some(true), None) => Ok(GroupLevel::Key),
            (_, None) => Ok(GroupLevel::Elements(0)),
        }
    }
}
