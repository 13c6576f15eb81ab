//! From keys and document ids to ranges of places.
//!
//! ```text
//!   places of one key    K            K id1 00 00 n       K id2 00 00 n           K ff
//!                        ^            ^         ^                                 ^
//!                  before all     before id1    behind id1                   behind all
//! ```
//!
//! Invariant: an edge lies between places, never on one, so every range includes its low edge and
//! excludes its high one.

use std::ops::Bound;

use crate::collate::Collation;
use crate::error::Result;
use crate::mark;
use crate::view::row::RowPlace;
use crate::vocabulary::{Direction, Json, KeyRange};

use super::ViewQuery;
use super::read::invalid;

/// Where among the rows of a key an edge lies.
enum Among<'a> {
    BeforeAll,
    BeforeId(&'a str),
    BehindId(&'a str),
    BehindAll,
}

fn edge(collation: Collation, key: &Json, among: Among<'_>) -> Vec<u8> {
    let mut edge = Vec::new();
    collation.sort_key(key, &mut edge);
    let sort_key = edge.clone();
    match among {
        Among::BeforeAll => {}
        // No byte of an id is so large.
        Among::BehindAll => edge.push(0xff),
        Among::BeforeId(id) => {
            edge.clear();
            RowPlace::put_begin(&sort_key, id, &mut edge);
        }
        Among::BehindId(id) => {
            edge.clear();
            RowPlace::put_begin(&sort_key, id, &mut edge);
            // Behind 00 00 and any number, before 00 ff, with which a longer id may go on.
            edge.extend_from_slice(&[0, 1]);
        }
    }
    edge
}

impl ViewQuery {
    /// The direction in which rows are walked.
    pub(super) fn direction(&self) -> Direction {
        match self.descending {
            true => Direction::Descending,
            false => Direction::Ascending,
        }
    }

    /// The places between two keys, of which each may be missing.
    // spec: QUERY-5
    fn range_of(&self, collation: Collation, start: Option<&Json>, end: Option<&Json>) -> KeyRange {
        let ids = !mark::planted("docid-bounds-ignored");
        let start_id = self.start_key_docid.as_deref().filter(|_| ids);
        let end_id = self.end_key_docid.as_deref().filter(|_| ids);
        let start_among = match (start_id, self.descending) {
            (None, false) => Among::BeforeAll,
            (None, true) => Among::BehindAll,
            (Some(id), false) => Among::BeforeId(id),
            (Some(id), true) => Among::BehindId(id),
        };
        let inclusive = self.inclusive_end || mark::planted("end-always-included");
        let end_among = match (end_id, self.descending, inclusive) {
            (None, false, true) | (None, true, false) => Among::BehindAll,
            (None, false, false) | (None, true, true) => Among::BeforeAll,
            // An end before all ids turns into one behind all ids when it is excluded, as
            // CouchDB has it for an id that was not given.
            (Some(""), _, false) => Among::BehindAll,
            (Some(id), false, true) | (Some(id), true, false) => Among::BehindId(id),
            (Some(id), false, false) | (Some(id), true, true) => Among::BeforeId(id),
        };
        let start = start.map(|key| edge(collation, key, start_among));
        let end = end.map(|key| edge(collation, key, end_among));
        let (low, high) = if self.descending { (end, start) } else { (start, end) };
        KeyRange {
            start: low.map_or(Bound::Unbounded, Bound::Included),
            end: high.map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// The one range of a query without `keys`.
    ///
    /// [`Error::InvalidQuery`](crate::Error::InvalidQuery) if its ends are the wrong way round.
    // spec: QUERY-4, QUERY-5
    pub(super) fn range(&self, collation: Collation) -> Result<KeyRange> {
        let (start, end) = (self.start_key.as_ref(), self.end_key.as_ref());
        if let (Some(start), Some(end)) = (start, end)
            && start != end
        {
            let order = collation.compare(start, end).then_with(|| self.order_of_ids());
            let crossed = if self.descending { order.is_lt() } else { order.is_ge() };
            if crossed && !mark::planted("crossed-range-is-empty") {
                let other = !self.descending;
                return Err(invalid(&format!(
                    "No rows can match your key range, reverse your start_key and end_key \
                     or set descending={other}"
                )));
            }
        }
        Ok(self.range_of(collation, start, end))
    }

    /// How the ids of two ends with one key stand to each other.
    fn order_of_ids(&self) -> std::cmp::Ordering {
        // No id has such a byte.
        const BEHIND_ALL: &[u8] = &[0xff];
        let (start, end): (&[u8], &[u8]) = match self.descending {
            true => (BEHIND_ALL, b""),
            false => (b"", BEHIND_ALL),
        };
        let start = self.start_key_docid.as_deref().map_or(start, str::as_bytes);
        let end = self.end_key_docid.as_deref().map_or(end, str::as_bytes);
        start.cmp(end)
    }

    /// The range of one of several `keys`.
    pub(super) fn range_of_key(&self, collation: Collation, key: &Json) -> KeyRange {
        self.range_of(collation, Some(key), Some(key))
    }
}
