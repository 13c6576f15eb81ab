//! Rows that can be asked in three ways: an index, a fold over the rows, the model.
//!
//! ```text
//!   rows ──> index ──range, cut──> stored reductions ─┐
//!     │                                               ├── the same bytes
//!     ├────> sorted list ──fold──> stored reductions ─┘
//!     │                                └──show──> values ─┐
//!     └────> model ────────────────────────────> values ──┴── the same values and keys
//! ```

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use rereduce::Error;
use rereduce::collate::{Collation, next_sibling};
use rereduce::reduce::Reducer;
use rereduce::view::query::{self, QueryHeader, QueryRow};
use rereduce::view::reducer::ViewReducer;
use rereduce::view::row::{RowPlace, ViewRow};
use rereduce::view::rows::ViewRows;
use rereduce::vocabulary::{Direction, Edit, Json, KeyRange};
use rereduce_model::{
    Choices, Emits, ModelRow, ModelView, Seeded, ViewBound, ViewQuery, compare_raw, compare_unicode,
};

use super::case::Kept;
use super::designs::{DESIGNS, Design, Plan};
use super::reducers;

/// Rows in all three forms.
pub(super) struct ThreeWays {
    kept: Kept,
    index: Box<dyn Design>,
    /// Stored rows by place.
    stored: BTreeMap<Vec<u8>, Vec<u8>>,
    reducer: ViewReducer,
    model: ModelView,
}

/// A group as it is stored: the place of its first row, and its reduction.
type StoredGroup = (Vec<u8>, Vec<u8>);

impl ThreeWays {
    pub(super) fn new(kept: &Kept) -> Result<ThreeWays, String> {
        let mut emits = Emits::new();
        let (mut stored, mut texts) = (BTreeMap::new(), Vec::new());
        for ModelRow { key, id, value } in &kept.rows {
            let rows = emits.entry(id.clone()).or_default();
            let emit = rows.len() as u32;
            let sort_key = sort_key(kept.collation, key);
            let place = RowPlace { sort_key: &sort_key, id: id.as_str().into(), emit }.encode();
            let row = ViewRow::encode(key, value);
            texts.push((place.clone(), row.clone()));
            stored.insert(place, row);
            rows.push((key.clone(), value.clone()));
        }
        let reducer = reducers::engine(&kept.reducer)?;
        let plan = Plan {
            collation: kept.collation,
            reducer: reducer.clone(),
            fan_out: kept.fan_out,
            // Every other order is tried without a cache.
            cache_bytes: if kept.order.is_multiple_of(2) { 1 << 20 } else { 0 },
            batches: batches(&texts, kept.order),
        };
        let design = DESIGNS.iter().find(|(name, _)| *name == kept.design);
        let (_, build) = design.ok_or_else(|| format!("unknown design {:?}", kept.design))?;
        let index = build(plan)?;
        index.check()?;
        let order = match kept.collation {
            Collation::Unicode => compare_unicode,
            Collation::Raw => compare_raw,
        };
        let model = ModelView::new(order, &emits);
        Ok(ThreeWays { kept: kept.clone(), index, stored, reducer, model })
    }

    /// What all rows reduce to, as stored.
    pub(super) fn reduction(&self) -> Result<Vec<u8>, String> {
        let mut reduction = Vec::new();
        self.index.ask(&mut |rows| {
            reduction = rows.reduce(&KeyRange::all()).map_err(|error| error.to_string())?;
            Ok(())
        })?;
        Ok(reduction)
    }

    /// Asks `query` in all three ways, for its rows and for its groups.
    pub(super) fn check(&self, query: &ViewQuery) -> Result<(), String> {
        self.index.ask(&mut |index| {
            self.check_rows(index, query)?;
            self.check_groups(index, query)
        })
    }

    fn check_rows(&self, index: &dyn ViewRows, query: &ViewQuery) -> Result<(), String> {
        let (mut found, parse) = (Vec::new(), |text: &[u8]| Json::parse(text));
        let plain = ViewQuery { group_level: 0, ..query.clone() };
        let asked = query::ViewQuery { reduce: Some(false), ..asked(&plain) };
        let answer = query::run(index, None, &asked, &mut |row| {
            if let QueryRow::Row { id, key, value, .. } = row {
                found.push(ModelRow { key: parse(key)?, id: id.to_owned(), value: parse(value)? });
            }
            Ok(ControlFlow::Continue(()))
        });
        let Some(header) = self.accepted(query, answer)? else { return Ok(()) };
        let expected = self.model.rows_of(query);
        if !found.iter().eq(expected.iter().copied()) {
            return Err(format!("rows: found {found:?}, the model says {expected:?}"));
        }
        let QueryHeader::Rows { total_rows, offset } = header else {
            return Err("rows have numbers".to_owned());
        };
        let all = self.model.rows();
        let total = all.len() as u64;
        match total_rows == total {
            true => {}
            false => return Err(format!("{total_rows} rows, the model has {total}")),
        }
        // The rows before the first one that is shown; of several keys each has its own.
        let first = expected.first().filter(|_| query.keys.is_none());
        let place = first.and_then(|first| all.iter().position(|row| std::ptr::eq(row, *first)));
        let before = place.map(|place| match query.direction {
            Direction::Ascending => place as u64,
            Direction::Descending => total - 1 - place as u64,
        });
        match before.is_none_or(|before| before == offset) {
            true => Ok(()),
            false => Err(format!("offset {offset}, the model says {before:?}")),
        }
    }

    /// What was answered; nothing if the model refuses the query, too.
    fn accepted<T>(
        &self,
        query: &ViewQuery,
        answer: rereduce::Result<T>,
    ) -> Result<Option<T>, String> {
        match (answer, self.model.refuses(query)) {
            (Ok(answer), false) => Ok(Some(answer)),
            (Err(Error::InvalidQuery { .. }), true) => Ok(None),
            (Ok(_), true) => Err("an impossible range was not refused".to_owned()),
            (Err(error), _) => Err(format!("the query failed: {error}")),
        }
    }

    fn check_groups(&self, index: &dyn ViewRows, query: &ViewQuery) -> Result<(), String> {
        self.check_stored_groups(index, query)?;
        let mut shown = Vec::new();
        let answer = query::run(index, None, &asked(query), &mut |row| {
            if let QueryRow::Group { key, value } = row {
                shown.push((key, value));
            }
            Ok(ControlFlow::Continue(()))
        });
        let Some(_) = self.accepted(query, answer)? else { return Ok(()) };
        let name = &*self.kept.reducer;
        let expected = self.model.groups_of(query, &|rows| reducers::model(name, rows));
        let expected = expected.map_err(|_| "the model has no such reduction".to_owned())?;
        let agree = shown.len() == expected.len()
            && shown
                .iter()
                .zip(&expected)
                .all(|(one, two)| one.0 == two.0 && reducers::agree(name, &one.1, &two.1));
        match agree {
            true => Ok(()),
            false => Err(format!("groups: found {shown:?}, the model says {expected:?}")),
        }
    }

    /// Holds the stored reductions of groups against those of the rows, to the byte.
    // spec: REDUCE-15
    fn check_stored_groups(&self, index: &dyn ViewRows, query: &ViewQuery) -> Result<(), String> {
        let (mut found, mut folded) = (Vec::new(), Vec::new());
        let cut = |place: &[u8]| self.cut(place, query.group_level);
        for range in &self.ranges(query) {
            let mut group = |place: &[u8], reduction: &[u8]| {
                found.push((place.to_vec(), reduction.to_vec()));
                Ok(ControlFlow::Continue(()))
            };
            let grouped = index.groups(range, query.direction, &cut, &mut group);
            grouped.map_err(|error| format!("groups: {error}"))?;
            folded.extend(self.folded(range, query)?);
            if query.group_level == 0 {
                let whole = index.reduce(range).map_err(|error| format!("reduce: {error}"))?;
                let rows: Vec<&[u8]> = Vec::from_iter(self.inside(range));
                same("the reduction of the range", &whole, &self.reduce(&rows)?)?;
            }
        }
        same("stored groups", &found, &folded)
    }

    /// The places in `range`, ascending.
    fn inside<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a [u8]> {
        self.stored.keys().map(Vec::as_slice).filter(|place| range.contains(place))
    }

    /// The groups of `range` as a fold over its rows gives them, each of all its rows at once.
    fn folded(&self, range: &KeyRange, query: &ViewQuery) -> Result<Vec<StoredGroup>, String> {
        let mut groups: Vec<Vec<&[u8]>> = Vec::new();
        let name =
            |place: &'_ [u8]| place.get(..self.cut(place, query.group_level)).map(<[u8]>::to_vec);
        for place in self.inside(range) {
            match groups.last_mut() {
                Some(rows) if rows.first().map(|first| name(first)) == Some(name(place)) => {
                    rows.push(place);
                }
                _ => groups.push(vec![place]),
            }
        }
        let descending = query.direction == Direction::Descending;
        if descending {
            groups.reverse();
        }
        let group = |rows: Vec<&[u8]>| {
            let first = if descending { rows.last() } else { rows.first() };
            let first = first.map(|place| place.to_vec()).unwrap_or_default();
            Ok((first, self.reduce(&rows)?))
        };
        groups.into_iter().map(group).collect()
    }

    /// What the rows at `places` reduce to, as stored, in one call.
    fn reduce(&self, places: &[&[u8]]) -> Result<Vec<u8>, String> {
        // All places are keys of `stored`.
        let stored = places.iter().filter_map(|place| self.stored.get_key_value(*place));
        let rows: Vec<(&[u8], &[u8])> = stored.map(|(place, row)| (&place[..], &row[..])).collect();
        let mut out = Vec::new();
        let reduced = self.reducer.reduce(&rows, &mut out);
        reduced.map(|()| out).map_err(|error| format!("the fold failed: {error}"))
    }

    /// How many bytes of a place name its group.
    fn cut(&self, place: &[u8], level: usize) -> usize {
        let cut = match level {
            usize::MAX => self.kept.collation.split(place).map(|(key, _)| key),
            level => self.kept.collation.level_cut(place, level),
        };
        cut.map_or(place.len(), <[u8]>::len)
    }

    /// The places that a query is about: a range, or one for each key.
    fn ranges(&self, query: &ViewQuery) -> Vec<KeyRange> {
        let of = |start: &Option<ViewBound>, end: &Option<ViewBound>| {
            range(self.kept.collation, start, end, query.inclusive_end, query.direction)
        };
        let at = |key: &Json| Some((key.clone(), None));
        match &query.keys {
            None => vec![of(&query.start, &query.end)],
            Some(keys) => keys.iter().map(|key| of(&at(key), &at(key))).collect(),
        }
    }
}

/// The query in the engine's words.
fn asked(query: &ViewQuery) -> query::ViewQuery {
    let bound = |bound: &Option<ViewBound>| bound.clone().unzip();
    let ((start_key, start_id), (end_key, end_id)) = (bound(&query.start), bound(&query.end));
    let (group, group_level) = match query.group_level {
        usize::MAX => (Some(true), None),
        level => (None, Some(level as u64)),
    };
    query::ViewQuery {
        start_key,
        end_key,
        start_key_docid: start_id.flatten(),
        end_key_docid: end_id.flatten(),
        keys: query.keys.clone().map(Json::Array),
        inclusive_end: query.inclusive_end,
        descending: query.direction == Direction::Descending,
        limit: query.limit.map(|limit| limit as u64),
        skip: query.skip as u64,
        group,
        group_level,
        ..query::ViewQuery::default()
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, folded: &T) -> Result<(), String> {
    match found == folded {
        true => Ok(()),
        false => Err(format!("{what}: the index says {found:?}, the rows {folded:?}")),
    }
}

fn sort_key(collation: Collation, key: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    collation.sort_key(key, &mut out);
    out
}

/// The places between two bounds of a query.
fn range(
    collation: Collation,
    start: &Option<ViewBound>,
    end: &Option<ViewBound>,
    inclusive_end: bool,
    direction: Direction,
) -> KeyRange {
    // All places of a bound lie between the two.
    let span = |(key, id): &ViewBound| {
        let mut first = sort_key(collation, key);
        if let Some(id) = id {
            let key = std::mem::take(&mut first);
            // Behind the id stand two zeros; with them no longer id begins alike.
            let place = RowPlace { sort_key: &key, id: id.as_str().into(), emit: 0 }.encode();
            first.extend(&place[..place.len() - size_of::<u32>()]);
        }
        let behind = next_sibling(&first).unwrap_or_default();
        (first, behind)
    };
    let ascending = direction == Direction::Ascending;
    let first = |bound: &ViewBound, inclusive: bool| {
        let (first, behind) = span(bound);
        Bound::Included(if inclusive { first } else { behind })
    };
    let last = |bound: &ViewBound, inclusive: bool| {
        let (first, behind) = span(bound);
        Bound::Excluded(if inclusive { behind } else { first })
    };
    let (low, high) = if ascending { (start, end) } else { (end, start) };
    KeyRange {
        start: low
            .as_ref()
            .map_or(Bound::Unbounded, |bound| first(bound, ascending || inclusive_end)),
        end: high
            .as_ref()
            .map_or(Bound::Unbounded, |bound| last(bound, !ascending || inclusive_end)),
    }
}

/// Batches after which exactly `rows` are there. Order 0 puts them all at once; others mix them,
/// and let some come with another's value first, or bring one that goes again.
fn batches(rows: &[(Vec<u8>, Vec<u8>)], order: u64) -> Vec<Vec<Edit>> {
    let put = |(place, row): &(Vec<u8>, Vec<u8>)| Edit::put(place.clone(), row.clone());
    if order == 0 {
        return vec![rows.iter().map(put).collect()];
    }
    let mut choices = Seeded::new(order);
    let mut left: Vec<&(Vec<u8>, Vec<u8>)> = rows.iter().collect();
    let (mut batches, mut batch, mut strangers) = (Vec::new(), Vec::new(), Vec::<Vec<u8>>::new());
    while !left.is_empty() {
        let row = left.swap_remove(choices.below(left.len() as u64) as usize);
        match choices.below(6) {
            0 => {
                // A row of the same key and id, that is none in the end.
                let mut stranger = row.0.clone();
                stranger.extend_from_slice(&[0]);
                batch.push(Edit::put(stranger.clone(), row.1.clone()));
                strangers.push(stranger);
            }
            1 => batch.push(Edit::put(row.0.clone(), choices.pick(rows).1.clone())),
            _ => {}
        }
        if choices.chance(60) {
            batches.push(std::mem::take(&mut batch));
            batch.extend(strangers.drain(..).map(Edit::remove));
        }
        batch.push(put(row));
    }
    batches.push(batch);
    batches.push(strangers.into_iter().map(Edit::remove).collect());
    batches
}
