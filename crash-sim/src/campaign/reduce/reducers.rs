//! The lawful reducers that queries are tried with: the built-ins, and one that forgets nothing.

use std::sync::Arc;

use rereduce::collate::Collation;
use rereduce::doc::write_stored;
use rereduce::reduce::{Reducer, Row};
use rereduce::view::builtin::Builtin;
use rereduce::view::limit::ReduceLimit;
use rereduce::view::reducer::{ShownReducer, ViewReducer};
use rereduce::view::row::ViewRow;
use rereduce::vocabulary::Json;
use rereduce_model::{ModelReducer, ModelRow, Unfit, without_reason};

/// Reducers by name. `list` is none of CouchDB's.
pub(super) const REDUCERS: [&str; 12] = [
    "list",
    "_count",
    "_sum",
    "_stats",
    "_approx_count_distinct",
    "_first",
    "_last",
    "_top_1",
    "_top_2",
    "_bottom_1",
    "_bottom_3",
    "_top_100",
];

/// Lists the values one behind the other, so that each row that is missing, doubled or in another
/// place shows.
struct List;

impl Reducer for List {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> rereduce::Result<()> {
        for (_, stored) in rows {
            out.extend(ViewRow::decode(stored).map_or(&b"?"[..], |row| row.value));
            out.push(b' ');
        }
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> rereduce::Result<()> {
        parts.iter().for_each(|part| out.extend_from_slice(part));
        Ok(())
    }
}

impl ShownReducer for List {
    fn show(&self, reduction: &[u8]) -> rereduce::Result<Json> {
        Ok(Json::String(String::from_utf8_lossy(reduction).into_owned()))
    }
}

/// The engine's reducer called `name`, without a limit.
pub(super) fn engine(name: &str) -> Result<ViewReducer, String> {
    if name == "list" {
        return Ok(ViewReducer::Some(Arc::new(List)));
    }
    let order = |one: &Json, two: &Json| Collation::Unicode.compare(one, two);
    match Builtin::parse(name).map_err(|error| error.to_string())? {
        Some(builtin) => {
            Ok(ViewReducer::Some(Arc::new(builtin.reducer(Arc::new(order), ReduceLimit::Off))))
        }
        None => Err(format!("unknown reducer {name:?}")),
    }
}

/// What the model makes of `rows` with the reducer called `name`.
pub(super) fn model(name: &str, rows: &[&ModelRow]) -> Result<Json, Unfit> {
    let count = |prefix| name.strip_prefix(prefix).and_then(|count: &str| count.parse().ok());
    let reducer = match name {
        "list" => {
            let mut text = Vec::new();
            for row in rows {
                write_stored(&row.value, &mut text);
                text.push(b' ');
            }
            return Ok(Json::String(String::from_utf8_lossy(&text).into_owned()));
        }
        "_count" => ModelReducer::Count,
        "_sum" => ModelReducer::Sum,
        "_stats" => ModelReducer::Stats,
        "_approx_count_distinct" => ModelReducer::Distinct,
        "_first" => ModelReducer::First,
        "_last" => ModelReducer::Last,
        _ => match (count("_top_"), count("_bottom_")) {
            (Some(count), _) => ModelReducer::Top(count),
            (_, Some(count)) => ModelReducer::Bottom(count),
            _ => return Err(Unfit),
        },
    };
    reducer.reduce(rows)
}

/// An estimate may be off by so many, and by a tenth: a few keys share a register with another one.
const DISTINCT_OFF: i64 = 2;

/// Whether what a query shows is what the model says. Estimates may be a little off.
pub(super) fn agree(name: &str, shown: &Json, expected: &Json) -> bool {
    let number = |json: &Json| json.to_string().parse::<i64>().ok();
    match (name, number(shown), number(expected)) {
        ("_approx_count_distinct", Some(shown), Some(expected)) => {
            (shown - expected).abs() <= DISTINCT_OFF + expected / 10
        }
        // Reasons are words for people.
        ("_sum" | "_stats", _, _) => without_reason(shown.clone()) == *expected,
        _ => shown == expected,
    }
}
