//! Every set of a few rows, as far as an index can tell them apart, and every query of it.
//!
//! What an index sees of rows is how each differs from the one before it: in the first, the second
//! or the third component of its key, in its document alone, or in nothing but how its key is
//! written.

use rereduce::vocabulary::Json;
use rereduce_model::{ModelRow, ViewBound, ViewQuery};

use super::case::Kept;
use super::{Tried, ask, both_ways, in_all_designs};

/// Entries of a node.
const FAN_OUTS: std::ops::RangeInclusive<usize> = 2..=4;

/// Levels of grouping: none, as many as keys have components, and whole keys.
const LEVELS: [usize; 5] = [0, 1, 2, 3, usize::MAX];

/// How a row stands to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// Its key differs at the first, the second or the third component, numbered from 0.
    DiffersAt(usize),
    /// Its key is the same.
    Equal,
    /// Its key collates alike and is written otherwise.
    Alike,
}

const RELATIONS: [Relation; 5] = [
    Relation::DiffersAt(0),
    Relation::DiffersAt(1),
    Relation::DiffersAt(2),
    Relation::Equal,
    Relation::Alike,
];

/// All lists of relations for up to `rows` rows; the empty list is a row alone.
pub(super) fn vectors(rows: usize) -> Vec<Vec<Relation>> {
    let mut all = vec![Vec::new()];
    let mut longest = all.clone();
    for _ in 1..rows {
        let longer =
            |vector: &Vec<Relation>| RELATIONS.map(|relation| [&vector[..], &[relation]].concat());
        longest = longest.iter().flat_map(longer).collect();
        all.extend(longest.iter().cloned());
    }
    all
}

/// Rows whose neighbours stand so to each other, and all queries of them. The empty list is tried
/// without a row, too.
pub(super) fn relations(relations: &[Relation]) -> Result<Tried, String> {
    let mut tried = Tried::default();
    if relations.is_empty() {
        tried += everything(Vec::new())?;
    }
    let (mut components, mut as_float) = ([1, 1, 1], false);
    let mut rows = vec![row(components, as_float, 0)];
    for (index, relation) in relations.iter().enumerate() {
        match relation {
            Relation::DiffersAt(place) => {
                for (at, component) in components.iter_mut().enumerate() {
                    match at.cmp(place) {
                        std::cmp::Ordering::Less => {}
                        std::cmp::Ordering::Equal => *component += 1,
                        std::cmp::Ordering::Greater => *component = 1,
                    }
                }
            }
            Relation::Equal => {}
            Relation::Alike => as_float = !as_float,
        }
        rows.push(row(components, as_float, index + 1));
    }
    tried += everything(rows)?;
    Ok(tried)
}

fn row(components: [i64; 3], as_float: bool, index: usize) -> ModelRow {
    let [one, two, three] = components.map(Json::from);
    let last = if as_float { Json::from(components[2] as f64) } else { three };
    let key = Json::Array(vec![one, two, last]);
    ModelRow { key, id: format!("d{index}"), value: Json::from(1i64 << index) }
}

/// The keys of case B26, with one power of two each.
pub(super) fn dates() -> Result<Tried, String> {
    let keys = [
        [2017, 3, 1],
        [2017, 4, 1],
        [2017, 4, 15],
        [2018, 3, 1],
        [2018, 4, 1],
        [2019, 3, 1],
        [2019, 4, 1],
        [2019, 5, 1],
    ];
    let row = |(index, key): (usize, [i64; 3])| row(key, false, index);
    everything(keys.into_iter().enumerate().map(row).collect())
}

/// All queries of `rows` in every design and fan-out.
fn everything(rows: Vec<ModelRow>) -> Result<Tried, String> {
    let queries = all_queries(&rows);
    let mut tried = Tried::default();
    // A sum says whether all rows are in, a list also whether they are in order.
    for reducer in ["_sum", "list"] {
        let kept = Kept { reducer: reducer.to_owned(), rows: rows.clone(), ..Kept::default() };
        for mut kept in in_all_designs(&kept, FAN_OUTS) {
            // Every other way to keep them meets them in another order than that of their keys.
            kept.order = 2 * (kept.fan_out as u64 % 2) * (1 + rows.len() as u64);
            tried.exhaustive_queries += ask(&kept, &queries)?;
            tried.exhaustive_sets += 1;
        }
    }
    Ok(tried)
}

/// Each range between the places of `rows`, under each end rule, level and direction.
fn all_queries(rows: &[ModelRow]) -> Vec<ViewQuery> {
    let at_keys = rows.iter().map(|row| Some((row.key.clone(), None)));
    let at_documents = rows.iter().map(|row| Some((row.key.clone(), Some(row.id.clone()))));
    let mut bounds: Vec<Option<ViewBound>> = at_keys.chain(at_documents).collect();
    bounds.push(None);
    // Rows of one key have one bound by key.
    bounds.dedup();
    let mut queries = Vec::new();
    for (start, end) in bounds.iter().flat_map(|start| bounds.iter().map(move |end| (start, end))) {
        for inclusive_end in [true, false] {
            if end.is_none() && !inclusive_end {
                continue;
            }
            for group_level in LEVELS {
                let (start, end) = (start.clone(), end.clone());
                let query =
                    ViewQuery { start, end, inclusive_end, group_level, ..Default::default() };
                queries.extend(both_ways(query));
            }
        }
    }
    queries
}
