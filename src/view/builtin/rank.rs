//! `_first`, `_last`, `_top_N`, `_bottom_N`: values picked by the order of rows, or by their own.
//!
//! ```text
//!   _first, _last       nothing for no row; 1, and the value's text
//!   _top_N, _bottom_N   each value's text behind its length, best first
//! ```
//!
//! Invariant: the ranked values are distinct by the order that was handed in; of equal ones the row
//! that stands first in key order gave the one that stays.

use std::cmp::Ordering;

use super::{ValueOrder, broken, parse_value};
use crate::codec::{Reader, put_bytes};
use crate::error::Result;
use crate::mark;
use crate::vocabulary::Json;

/// The stored form of a row that was picked.
const PICKED: u8 = 1;

/// Appends the reduction that picks `value`.
pub(super) fn put_picked(value: &[u8], out: &mut Vec<u8>) {
    out.push(PICKED);
    out.extend_from_slice(value);
}

/// The value that was picked, if there was a row.
pub(super) fn show_picked(reduction: &[u8]) -> Result<Json> {
    match reduction {
        [] => Ok(Json::Null),
        [PICKED, value @ ..] => parse_value(value),
        _ => Err(broken("_first or _last")),
    }
}

/// The best values so far.
pub(super) struct Ranked<'a> {
    order: &'a dyn ValueOrder,
    highest_first: bool,
    count_max: usize,
    best: Vec<(Json, &'a [u8])>,
}

impl<'a> Ranked<'a> {
    pub(super) fn new(order: &'a dyn ValueOrder, highest_first: bool, count_max: u8) -> Ranked<'a> {
        Ranked { order, highest_first, count_max: usize::from(count_max), best: Vec::new() }
    }

    /// Takes a value in, given as JSON text, that stands behind all before it.
    // spec: REDUCE-10
    pub(super) fn add(&mut self, text: &'a [u8]) -> Result<()> {
        let value = parse_value(text)?;
        let (order, highest_first) = (self.order, self.highest_first);
        let found = self.best.binary_search_by(|(known, _)| {
            let ascending = order.compare(known, &value);
            if highest_first { ascending.reverse() } else { ascending }
        });
        match found {
            // An equal value of an earlier row is there.
            Ok(index) if mark::planted("rank-last-of-equals") => {
                self.best.splice(index..=index, [(value, text)]);
            }
            Ok(_) => mark::hit("rank-equal-values"),
            Err(index) if index < self.count_max => {
                self.best.insert(index, (value, text));
                self.best.truncate(self.count_max);
            }
            Err(_) => {}
        }
        Ok(())
    }

    /// Takes in the values of a reduction of rows behind all before them.
    pub(super) fn add_part(&mut self, part: &'a [u8]) -> Result<()> {
        let mut reader = Reader::new(part);
        while !reader.is_empty() {
            self.add(reader.bytes().ok_or_else(|| broken("_top or _bottom"))?)?;
        }
        Ok(())
    }

    /// Appends the stored form.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.best.iter().for_each(|(_, text)| put_bytes(out, text));
    }
}

/// The values in a reduction, best first.
pub(super) fn show_ranked(reduction: &[u8]) -> Result<Json> {
    let mut reader = Reader::new(reduction);
    let mut values = Vec::new();
    while !reader.is_empty() {
        values.push(parse_value(reader.bytes().ok_or_else(|| broken("_top or _bottom"))?)?);
    }
    Ok(Json::Array(values))
}

impl<F: Fn(&Json, &Json) -> Ordering + Send + Sync> ValueOrder for F {
    fn compare(&self, one: &Json, two: &Json) -> Ordering {
        self(one, two)
    }
}
