//! Views, recomputed from scratch: the rows that documents emit, put in order by looking at two of
//! them at a time, and all that a query may ask of them.
//!
//! Invariant: nothing is kept between two questions. A view is a function of the rows that each
//! document emits; whoever asks says what they are, and no function runs here.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rereduce::vocabulary::{Direction, Json};

use crate::views_reduce::Unfit;

/// How two keys stand to each other: [`compare_unicode`](crate::compare_unicode) or
/// [`compare_raw`](crate::compare_raw).
pub type KeyOrder = fn(&Json, &Json) -> Ordering;

/// The rows of each document, keys and values, in the order in which it emits them.
pub type Emits = BTreeMap<String, Vec<(Json, Json)>>;

/// Where a range begins or ends: at a key, or at a document's rows of that key.
pub type ViewBound = (Json, Option<String>);

/// A row of a view.
///
/// ```
/// use rereduce_model::ModelRow;
/// let row = ModelRow { key: "k".into(), id: "a".into(), value: 1.into() };
/// assert_eq!(row.id, "a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRow {
    /// The key as emitted.
    pub key: Json,
    /// The document that emitted it.
    pub id: String,
    /// The value as emitted.
    pub value: Json,
}

/// What a query asks for.
///
/// ```
/// use rereduce_model::ViewQuery;
/// let all = ViewQuery::default();
/// assert!(all.start.is_none() && all.inclusive_end && all.group_level == 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewQuery {
    /// Rows before it, in the query's direction, are left out.
    pub start: Option<ViewBound>,
    /// Rows behind it, in the query's direction, are left out.
    pub end: Option<ViewBound>,
    /// Whether the rows at the end are part of the range.
    pub inclusive_end: bool,
    /// The rows of these keys, in this order, instead of a range. Each is a group of its own.
    pub keys: Option<Vec<Json>>,
    /// The order of the rows.
    pub direction: Direction,
    /// How many rows, or groups, are passed over.
    pub skip: usize,
    /// How many there are at most.
    pub limit: Option<usize>,
    /// How many elements of an array name its group: none puts all rows into one group,
    /// `usize::MAX` makes whole keys the groups.
    pub group_level: usize,
}

impl Default for ViewQuery {
    fn default() -> ViewQuery {
        let (start, end, keys, limit) = (None, None, None, None);
        let (inclusive_end, direction) = (true, Direction::Ascending);
        ViewQuery { start, end, inclusive_end, keys, direction, skip: 0, limit, group_level: 0 }
    }
}

/// The rows of a view, in order.
///
/// ```
/// use rereduce_model::{Emits, ModelReducer, ModelView, ViewQuery, compare_unicode};
/// let row = |key: &str| vec![(key.into(), 1.into())];
/// let emits = Emits::from([("x".into(), row("b")), ("y".into(), row("a"))]);
/// let view = ModelView::new(compare_unicode, &emits);
/// assert_eq!(view.rows_of(&ViewQuery::default())[0].id, "y");
/// let sum = |rows: &[&_]| ModelReducer::Sum.reduce(rows);
/// let groups = view.groups_of(&ViewQuery::default(), &sum).unwrap();
/// assert_eq!(groups, [(rereduce::vocabulary::Json::Null, 2.into())]);
/// ```
#[derive(Clone, Debug)]
pub struct ModelView {
    order: KeyOrder,
    rows: Vec<ModelRow>,
}

impl ModelView {
    /// The rows of all documents, by key, then by document, then as they were emitted.
    // spec: MODEL-13
    pub fn new(order: KeyOrder, emits: &Emits) -> ModelView {
        let rows = emits.iter().flat_map(|(id, rows)| {
            let row = |(key, value): &(Json, Json)| (key.clone(), id.clone(), value.clone());
            rows.iter().map(row).map(|(key, id, value)| ModelRow { key, id, value })
        });
        let mut rows: Vec<ModelRow> = rows.collect();
        // Rows of equal keys stay in the order of ids and of emitting, in which they come.
        rows.sort_by(|one, two| order(&one.key, &two.key));
        ModelView { order, rows }
    }

    /// All rows, ascending.
    pub fn rows(&self) -> &[ModelRow] {
        &self.rows
    }

    /// Whether the ends of the query's range are the wrong way round, so that it is refused. A
    /// range of one key never is.
    // spec: MODEL-14
    pub fn refuses(&self, query: &ViewQuery) -> bool {
        let (Some((start, start_id)), Some((end, end_id))) = (&query.start, &query.end) else {
            return false;
        };
        let ascending = query.direction == Direction::Ascending;
        let ids = match (start_id, end_id) {
            (Some(start), Some(end)) => start.cmp(end),
            // All documents of a key lie between its ends.
            _ if ascending => Ordering::Less,
            _ => Ordering::Greater,
        };
        let order = (self.order)(start, end).then(ids);
        start != end && if ascending { order.is_ge() } else { order.is_lt() }
    }

    /// The rows that a query without a reducer shows.
    pub fn rows_of(&self, query: &ViewQuery) -> Vec<&ModelRow> {
        let mut ranges = self.ranges(query);
        if query.direction == Direction::Descending {
            ranges.reverse();
        }
        part(ranges.into_iter().flatten(), query).collect()
    }

    /// The groups that a query with a reducer shows: the key of each, as its first row has it, and
    /// what `reduce` makes of its rows, ascending.
    ///
    /// # Errors
    /// Those of `reduce`.
    // spec: MODEL-14
    pub fn groups_of(
        &self,
        query: &ViewQuery,
        reduce: &dyn Fn(&[&ModelRow]) -> Result<Json, Unfit>,
    ) -> Result<Vec<(Json, Json)>, Unfit> {
        let ranges = self.ranges(query).into_iter();
        let groups: Vec<(Json, Vec<&ModelRow>)> = match &query.keys {
            Some(keys) => keys.iter().cloned().zip(ranges).filter(|it| !it.1.is_empty()).collect(),
            None => ranges.flat_map(|rows| self.grouped(rows, query.group_level)).collect(),
        };
        let reduced = |(key, mut rows): (Json, Vec<&ModelRow>)| {
            if query.direction == Direction::Descending {
                rows.reverse();
            }
            Ok((key, reduce(&rows)?))
        };
        part(groups.into_iter(), query).map(reduced).collect()
    }

    /// Rows that follow one another and whose keys, cut to `level`, are equal.
    fn grouped<'a>(&self, rows: Vec<&'a ModelRow>, level: usize) -> Vec<(Json, Vec<&'a ModelRow>)> {
        let mut groups: Vec<(Json, Vec<&ModelRow>)> = Vec::new();
        for row in rows {
            let key = match &row.key {
                _ if level == 0 => Json::Null,
                Json::Array(elements) => {
                    Json::Array(elements.iter().take(level).cloned().collect())
                }
                other => other.clone(),
            };
            match groups.last_mut() {
                Some((last, rows)) if (self.order)(last, &key).is_eq() => rows.push(row),
                _ => groups.push((key, vec![row])),
            }
        }
        groups
    }

    /// The rows of the range, or of each key as a range of its own, in the query's direction.
    fn ranges(&self, query: &ViewQuery) -> Vec<Vec<&ModelRow>> {
        let at = |key: &Json| Some((key.clone(), None));
        match &query.keys {
            None => vec![self.range(query, &query.start, &query.end)],
            Some(keys) => keys.iter().map(|key| self.range(query, &at(key), &at(key))).collect(),
        }
    }

    fn range(
        &self,
        query: &ViewQuery,
        start: &Option<ViewBound>,
        end: &Option<ViewBound>,
    ) -> Vec<&ModelRow> {
        let ascending = query.direction == Direction::Ascending;
        // How a row stands to a bound, as one meets them on the way.
        let met = |row: &ModelRow, (key, id): &ViewBound| {
            let by_id = || id.as_ref().map_or(Ordering::Equal, |id| row.id.cmp(id));
            let order = (self.order)(&row.key, key).then_with(by_id);
            if ascending { order } else { order.reverse() }
        };
        let inside = |row: &&ModelRow| {
            let begun = start.as_ref().is_none_or(|start| met(row, start).is_ge());
            let at_end = end.as_ref().map_or(Ordering::Less, |end| met(row, end));
            begun && (at_end.is_lt() || query.inclusive_end && at_end.is_eq())
        };
        let mut rows: Vec<&ModelRow> = self.rows.iter().filter(inside).collect();
        if !ascending {
            rows.reverse();
        }
        rows
    }
}

/// What `skip` and `limit` leave.
fn part<'a, T>(
    items: impl Iterator<Item = T> + 'a,
    query: &ViewQuery,
) -> impl Iterator<Item = T> + 'a {
    items.skip(query.skip).take(query.limit.unwrap_or(usize::MAX))
}
