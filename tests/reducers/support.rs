//! Rows, reducers and reductions, in few words.

use std::sync::Arc;

use rereduce::reduce::{Reducer, Row};
use rereduce::view::builtin::{Builtin, BuiltinReducer};
use rereduce::view::limit::ReduceLimit;
use rereduce::view::row::ViewRow;
use rereduce::vocabulary::Json;
use rereduce_model::compare_unicode;

/// A stored row: the bytes of its place, and its value's.
pub(crate) type Stored = (Vec<u8>, Vec<u8>);

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// The reducer called `name`, with `limit`.
pub(crate) fn limited(name: &str, limit: ReduceLimit) -> BuiltinReducer {
    let order = Arc::new(compare_unicode);
    Builtin::parse(name).unwrap().unwrap().reducer(order, limit)
}

/// The reducer called `name`, without a limit.
pub(crate) fn reducer(name: &str) -> BuiltinReducer {
    limited(name, ReduceLimit::Off)
}

/// Rows with these values, whose keys are their places.
pub(crate) fn rows_of(values: &[Json]) -> Vec<Stored> {
    let row = |(index, value): (usize, &Json)| {
        (index.to_be_bytes().to_vec(), ViewRow::encode(&Json::from(index as i64), value))
    };
    values.iter().enumerate().map(row).collect()
}

pub(crate) fn borrowed(rows: &[Stored]) -> Vec<Row<'_>> {
    rows.iter().map(|(key, value)| (&key[..], &value[..])).collect()
}

pub(crate) fn reduce(reducer: &dyn Reducer, rows: &[Row<'_>]) -> rereduce::Result<Vec<u8>> {
    let mut out = Vec::new();
    reducer.reduce(rows, &mut out).map(|()| out)
}

pub(crate) fn rereduce(reducer: &dyn Reducer, parts: &[Vec<u8>]) -> rereduce::Result<Vec<u8>> {
    let (parts, mut out): (Vec<&[u8]>, Vec<u8>) =
        (parts.iter().map(Vec::as_slice).collect(), vec![]);
    reducer.rereduce(&parts, &mut out).map(|()| out)
}

/// The reduction of these values.
pub(crate) fn reduction(name: &str, values: &[Json]) -> Vec<u8> {
    reduce(&reducer(name), &borrowed(&rows_of(values))).unwrap()
}

/// What a query shows for these values, given as JSON texts between blanks.
pub(crate) fn shown(name: &str, values: &str) -> String {
    let values: Vec<Json> = values.split_whitespace().map(json).collect();
    reducer(name).show(&reduction(name, &values)).unwrap().to_string()
}
