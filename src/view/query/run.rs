//! Answering a query from the rows of a view.
//!
//! ```text
//!   rows of the view   . . . . . . [ . . . . . . . . . . ) . . . . .
//!                                  ^      ^         ^
//!                             rank: offset|         limit is met: no more is read
//!                                         place_at(offset + skip)
//! ```
//!
//! Invariant: neither the number of rows before a range nor the number of those skipped decides how
//! many nodes a query reads.

use std::ops::{Bound, ControlFlow};

use crate::collate::Collation;
use crate::db::DbSnapshot;
use crate::error::Result;
use crate::mark;
use crate::view::reducer::{ShownReducer, ViewReducer};
use crate::view::row::{RowPlace, ViewRow};
use crate::view::rows::ViewRows;
use crate::vocabulary::{Direction, Json, KeyRange};

use super::linked::{DocShown, beside};
use super::{GroupLevel, QueryKind, ViewQuery};

/// What an answer says beside its rows.
///
/// ```
/// use rereduce::view::query::QueryHeader;
/// assert_ne!(QueryHeader::Groups, QueryHeader::Rows { total_rows: 0, offset: 0 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryHeader {
    /// Of rows.
    Rows {
        /// Rows of the whole view.
        total_rows: u64,
        /// Rows before the first one here, in the direction of the query.
        offset: u64,
    },
    /// Of reductions, which have no numbers.
    Groups,
}

/// One row of an answer.
///
/// ```
/// use rereduce::view::query::QueryRow;
/// let row = QueryRow::Row { id: "a", key: b"1", value: b"null", doc: None };
/// assert!(matches!(row, QueryRow::Row { id: "a", .. }));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum QueryRow<'a> {
    /// A row of the view.
    Row {
        /// The document that emitted it.
        id: &'a str,
        /// The key as emitted, as JSON text in its stored form.
        key: &'a [u8],
        /// The value as emitted, likewise.
        value: &'a [u8],
        /// The document beside it, if documents were asked for; null if it is not there.
        doc: Option<Json>,
    },
    /// A group of rows.
    Group {
        /// What names the group; null if all rows are one.
        key: Json,
        /// What its rows reduce to.
        value: Json,
    },
}

/// Called for each row of an answer; [`ControlFlow::Break`] ends the query, and so does an error.
pub type VisitQueryRow<'a> = dyn FnMut(QueryRow<'_>) -> Result<ControlFlow<()>> + 'a;

/// Answers `query` from `rows`, with documents from `docs`, which are of the same state. Without
/// `docs` no row shows one.
///
/// Cost for a list of rows: three paths through the tree, and the nodes that hold the rows shown;
/// for each of `keys` two paths more. For reductions: at most three nodes a level for each group
/// up to the limit, two for the range as a whole.
///
/// Errors: [`Error::InvalidQuery`](crate::Error::InvalidQuery) as for [`ViewQuery::check`], and if
/// the ends of the range are the wrong way round; those of the reducer; those of reading.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
/// use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
/// use rereduce::collate::Collation;
/// use rereduce::file::MemoryChunks;
/// use rereduce::view::builtin::Builtin;
/// use rereduce::view::limit::ReduceLimit;
/// use rereduce::view::query::{QueryHeader, QueryRow, ViewQuery, run};
/// use rereduce::view::reducer::ViewReducer;
/// use rereduce::view::row::{RowPlace, ViewRow};
/// use rereduce::view::rows::TreeRows;
/// use rereduce::vocabulary::{Edit, Json};
///
/// let emitted = [("a", 1), ("a", 2), ("b", 3)];
/// let edits = emitted.into_iter().enumerate().map(|(number, (key, value))| {
///     let mut sort_key = Vec::new();
///     Collation::Unicode.sort_key(&Json::from(key), &mut sort_key);
///     let id = format!("doc{number}").into();
///     let place = RowPlace { sort_key: &sort_key, id, emit: 0 };
///     Edit::put(place.encode(), ViewRow::encode(&Json::from(key), &Json::from(value)))
/// });
/// let edits: Vec<Edit> = edits.collect();
/// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let order = |one: &Json, two: &Json| Collation::Unicode.compare(one, two);
/// let sum = Builtin::Sum.reducer(Arc::new(order), ReduceLimit::Off);
/// let reducer = ViewReducer::Some(Arc::new(sum));
/// let shape = Shape::with_reducer(reducer.clone());
/// let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits)?;
/// let nodes = &CachedNodes::new(&chunks, &cache);
/// let collation = Collation::Unicode;
/// let rows = TreeRows { tree: &tree, nodes, shape: &shape, collation, reducer: &reducer };
///
/// let mut sums = Vec::new();
/// let query = ViewQuery { group: Some(true), ..ViewQuery::default() };
/// run(&rows, None, &query, &mut |row| {
///     if let QueryRow::Group { key, value } = row {
///         sums.push(format!("{key}: {value}"));
///     }
///     Ok(ControlFlow::Continue(()))
/// })?;
/// assert_eq!(sums, [r#""a": 3"#, r#""b": 3"#]);
///
/// let query = ViewQuery { reduce: Some(false), skip: 2, ..ViewQuery::default() };
/// let header = run(&rows, None, &query, &mut |_| Ok(ControlFlow::Continue(())))?;
/// assert_eq!(header, QueryHeader::Rows { total_rows: 3, offset: 2 });
/// # Ok::<(), rereduce::Error>(())
/// ```
pub fn run(
    rows: &dyn ViewRows,
    docs: Option<&DbSnapshot>,
    query: &ViewQuery,
    visit: &mut VisitQueryRow<'_>,
) -> Result<QueryHeader> {
    let has_reducer = matches!(rows.reducer(), ViewReducer::Some(_));
    let kind = query.check(has_reducer)?;
    let mut answer = Answer {
        rows,
        query,
        docs: docs.filter(|_| query.include_docs),
        skip: query.skip,
        left: query.limit.unwrap_or(u64::MAX),
        visit,
    };
    match (kind, rows.reducer()) {
        (QueryKind::Groups(level), ViewReducer::Some(reducer)) => {
            answer.groups(level, &**reducer)?;
            Ok(QueryHeader::Groups)
        }
        _ => answer.list(),
    }
}

/// An answer while it is given.
struct Answer<'a, 'v> {
    rows: &'a dyn ViewRows,
    query: &'a ViewQuery,
    docs: Option<&'a DbSnapshot>,
    /// Rows or groups still to be passed over.
    skip: u64,
    /// Rows or groups that may still be shown.
    left: u64,
    visit: &'a mut VisitQueryRow<'v>,
}

impl Answer<'_, '_> {
    /// The ranges to look at, in their order, each with the key that it is for.
    fn ranges(&self, reversed: bool) -> Result<Vec<(Option<Json>, KeyRange)>> {
        let collation = self.rows.collation();
        let Some(Json::Array(keys)) = &self.query.keys else {
            return Ok(vec![(None, self.query.range(collation)?)]);
        };
        let range = |key: &Json| (Some(key.clone()), self.query.range_of_key(collation, key));
        Ok(match reversed {
            true => keys.iter().rev().map(range).collect(),
            false => keys.iter().map(range).collect(),
        })
    }

    /// The numbers of the rows of `range`: the first, and the one behind the last.
    fn span(&self, range: &KeyRange) -> Result<(u64, u64)> {
        let rank = |bound: &Bound<Vec<u8>>, unbounded| match bound {
            Bound::Included(edge) | Bound::Excluded(edge) => self.rows.rows_before(edge),
            Bound::Unbounded => Ok(unbounded),
        };
        let low = rank(&range.start, 0)?;
        Ok((low, rank(&range.end, self.rows.total_rows())?.max(low)))
    }

    /// Lists rows.
    // spec: QUERY-6, QUERY-7
    fn list(&mut self) -> Result<QueryHeader> {
        let total_rows = self.rows.total_rows();
        let descending = self.query.descending;
        let mut first = None;
        let mut last = 0;
        let ranges = self.ranges(descending && !mark::planted("keys-not-reversed"))?;
        for (_, range) in ranges {
            let (low, high) = self.span(&range)?;
            last = if descending { total_rows - high } else { low };
            if low == high {
                continue;
            }
            first.get_or_insert(last);
            if self.skip >= high - low {
                self.skip -= high - low;
            } else if self.left > 0 && self.list_range(range, (low, high))?.is_break() {
                break;
            }
        }
        let skipped = if mark::planted("offset-without-skip") { 0 } else { self.query.skip };
        let offset = first.unwrap_or(last).saturating_add(skipped).min(total_rows);
        Ok(QueryHeader::Rows { total_rows, offset })
    }

    /// Lists the rows of one range, whose numbers are given, from the first that is not skipped.
    fn list_range(
        &mut self,
        mut range: KeyRange,
        (low, high): (u64, u64),
    ) -> Result<ControlFlow<()>> {
        if self.skip > 0 {
            // The caller has more rows here than are skipped.
            let direction = self.query.direction();
            let from = match direction {
                Direction::Ascending => self.rows.place_at(low + self.skip)?,
                Direction::Descending => self.rows.place_at(high - 1 - self.skip)?,
            };
            let edge = from.map_or(Bound::Unbounded, Bound::Included);
            match direction {
                Direction::Ascending => range.start = edge,
                Direction::Descending => range.end = edge,
            }
            self.skip = 0;
        }
        let (rows, docs) = (self.rows, self.docs);
        let (shown, collation) = (DocShown::of(self.query), rows.collation());
        let (left, visit) = (&mut self.left, &mut *self.visit);
        let mut flow = ControlFlow::Continue(());
        rows.scan(&range, self.query.direction(), &mut |place, stored| {
            let damaged = || rows.damage(place, "a row of a view");
            let row = ViewRow::decode(stored).ok_or_else(damaged)?;
            let RowPlace { id, .. } = RowPlace::decode(collation, place).ok_or_else(damaged)?;
            let doc = docs.map(|docs| beside(docs, &id, row.value, shown)).transpose()?;
            *left -= 1;
            flow = visit(QueryRow::Row { id: &id, key: row.key, value: row.value, doc })?;
            if *left == 0 {
                flow = ControlFlow::Break(());
            }
            Ok(flow)
        })?;
        Ok(flow)
    }

    /// Shows reductions.
    // spec: QUERY-8
    fn groups(&mut self, level: GroupLevel, reducer: &dyn ShownReducer) -> Result<()> {
        let ranges =
            self.ranges(self.query.descending && mark::planted("reduced-keys-reversed"))?;
        for (asked, range) in ranges {
            if self.left == 0 {
                break;
            }
            let flow = match (asked, level) {
                (Some(key), _) => self.one_group(&range, reducer, key)?,
                (None, GroupLevel::Elements(0)) => self.one_group(&range, reducer, Json::Null)?,
                (None, level) => self.groups_of(&range, level, reducer)?,
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Shows the reduction of a whole range under `key`, unless it has no rows.
    fn one_group(
        &mut self,
        range: &KeyRange,
        reducer: &dyn ShownReducer,
        key: Json,
    ) -> Result<ControlFlow<()>> {
        let (low, high) = self.span(range)?;
        if low == high && !mark::planted("nothing-reduces-to-a-row") {
            return Ok(ControlFlow::Continue(()));
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        let value = reducer.show(&self.rows.reduce_towards(range, self.query.direction())?)?;
        self.left -= 1;
        (self.visit)(QueryRow::Group { key, value })
    }

    fn groups_of(
        &mut self,
        range: &KeyRange,
        level: GroupLevel,
        reducer: &dyn ShownReducer,
    ) -> Result<ControlFlow<()>> {
        let (rows, collation) = (self.rows, self.rows.collation());
        let cut = |place: &[u8]| group_bytes(collation, place, level);
        let (skip, left, visit) = (&mut self.skip, &mut self.left, &mut *self.visit);
        let mut flow = ControlFlow::Continue(());
        rows.groups(range, self.query.direction(), &cut, &mut |place, reduction| {
            if *skip > 0 {
                *skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            let key = cut_key(emitted_key(rows, place)?, level);
            *left -= 1;
            flow = visit(QueryRow::Group { key, value: reducer.show(reduction)? })?;
            // The next group would be reduced before anyone could say that it is not wanted.
            if *left == 0 {
                flow = ControlFlow::Break(());
            }
            Ok(flow)
        })?;
        Ok(flow)
    }
}

/// How many bytes of a place name its group.
fn group_bytes(collation: Collation, place: &[u8], level: GroupLevel) -> usize {
    let named = match level {
        GroupLevel::Key => collation.split(place).map(|(key, _)| key),
        GroupLevel::Elements(level) => collation.level_cut(place, level),
    };
    // A place that is none is a group of its own; it is found damaged when it is shown.
    named.map_or(place.len(), <[u8]>::len)
}

/// The key that the row at `place` was emitted with.
fn emitted_key(rows: &dyn ViewRows, place: &[u8]) -> Result<Json> {
    let only =
        KeyRange { start: Bound::Included(place.to_vec()), end: Bound::Included(place.to_vec()) };
    let mut key = None;
    rows.scan(&only, Direction::Ascending, &mut |_, stored| {
        key = ViewRow::decode(stored).and_then(|row| Json::parse(row.key).ok());
        Ok(ControlFlow::Break(()))
    })?;
    key.ok_or_else(|| rows.damage(place, "a row of a view"))
}

/// What a group of this level shows as its key.
fn cut_key(mut key: Json, level: GroupLevel) -> Json {
    if let (Json::Array(elements), GroupLevel::Elements(level)) = (&mut key, level)
        && !mark::planted("group-key-not-cut")
    {
        elements.truncate(level);
    }
    key
}
