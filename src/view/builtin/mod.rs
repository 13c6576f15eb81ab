//! CouchDB's built-in reducers.
//!
//! A reduction is stored so that it can be merged and compared, which is seldom how it is shown:
//! sums are exact, a count of distinct keys is its registers. [`BuiltinReducer::show`] turns one
//! into the value of a query.
//!
//! ```text
//!   rows ──reduce──> stored reduction ──rereduce──> stored reduction ──show──> JSON
//! ```
//!
//! Nothing is the reduction of no rows, for all of them. Each module draws its stored form.
//!
//! Invariant: all built-ins keep the laws of [`crate::reduce`] and, with the limit off,
//! `rereduce([x]) == x`, to the byte.

mod distinct;
mod exact;
mod rank;
mod stats;
mod sum;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

pub use exact::Exact;

use crate::doc::term_sha1;
use crate::error::{Error, Result};
use crate::mark;
use crate::reduce::{Count, Reducer, Row};
use crate::view::limit::ReduceLimit;
use crate::view::row::ViewRow;
use crate::vocabulary::Json;
use distinct::Distinct;
use rank::{Ranked, put_picked, show_picked, show_ranked};
use stats::Stats;
use sum::{Sum, plain_number};

/// The most values that `_top_N` and `_bottom_N` keep.
pub const RANK_MAX: u8 = 100;

/// The order of JSON values, for `_top_N` and `_bottom_N`.
///
/// It must be total; values that compare as equal count as one. Closures are orders.
///
/// ```
/// use std::cmp::Ordering;
/// use rereduce::view::builtin::ValueOrder;
/// use rereduce::vocabulary::Json;
/// let by_text = |one: &Json, two: &Json| one.to_string().cmp(&two.to_string());
/// assert_eq!(ValueOrder::compare(&by_text, &Json::from(1), &Json::from(2)), Ordering::Less);
/// ```
pub trait ValueOrder: Send + Sync {
    /// How `one` stands to `two`.
    fn compare(&self, one: &Json, two: &Json) -> Ordering;
}

/// Which built-in reducer a design document names.
///
/// ```
/// use rereduce::view::builtin::Builtin;
/// assert_eq!(Builtin::parse("_top_3").unwrap(), Some(Builtin::Top(3)));
/// assert_eq!(Builtin::parse("_countx").unwrap(), Some(Builtin::Count), "prefixes count");
/// assert_eq!(Builtin::parse("function(k, v) { return 1; }").unwrap(), None);
/// let error = Builtin::parse("_nothing").unwrap_err();
/// assert_eq!(error.to_string(), "`_nothing` is not a supported reduce function.");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// `_count`: how many rows.
    Count,
    /// `_sum`: numbers, arrays and objects of them, added up.
    Sum,
    /// `_stats`: sum, count, smallest, largest, sum of squares.
    Stats,
    /// `_approx_count_distinct`: about how many different keys.
    ApproxCountDistinct,
    /// `_first`: the value of the row with the smallest key and id.
    First,
    /// `_last`: the value of the row with the largest key and id.
    Last,
    /// `_top_N`: the largest different values, at most so many.
    Top(u8),
    /// `_bottom_N`: the smallest different values, at most so many.
    Bottom(u8),
}

impl Builtin {
    /// The built-in reducer that `source` names, or `None` if it does not begin with `_`, as the
    /// source of a function does.
    ///
    /// Names are known by how they begin, as in CouchDB; what stands behind `_top_` and `_bottom_`
    /// must be a number from 1 to [`RANK_MAX`]. [`Error::InvalidDesignDoc`] for any other name.
    // spec: REDUCE-12
    pub fn parse(source: &str) -> Result<Option<Builtin>> {
        if !source.starts_with('_') {
            return Ok(None);
        }
        let known = [
            ("_approx_count_distinct", Builtin::ApproxCountDistinct),
            ("_count", Builtin::Count),
            ("_first", Builtin::First),
            ("_last", Builtin::Last),
            ("_stats", Builtin::Stats),
            ("_sum", Builtin::Sum),
        ];
        let named = |name: &str| match mark::planted("reduce-names-match-whole") {
            true => source == name,
            false => source.starts_with(name),
        };
        if let Some((_, builtin)) = known.into_iter().find(|(name, _)| named(name)) {
            return Ok(Some(builtin));
        }
        if let Some(count) = source.strip_prefix("_top_") {
            return rank(count).map(Builtin::Top).map(Some);
        }
        if let Some(count) = source.strip_prefix("_bottom_") {
            return rank(count).map(Builtin::Bottom).map(Some);
        }
        let reason = format!("`{source}` is not a supported reduce function.");
        Err(Error::InvalidDesignDoc { reason })
    }

    /// The reducer itself. `order` is asked by `_top_N` and `_bottom_N` alone, `limit` concerns
    /// `_sum` alone: of the built-ins only its reductions can grow with their rows.
    pub fn reducer(self, order: Arc<dyn ValueOrder>, limit: ReduceLimit) -> BuiltinReducer {
        BuiltinReducer { builtin: self, order, limit, over_limit: AtomicU64::new(0) }
    }
}

/// The number behind `_top_` or `_bottom_`.
fn rank(count: &str) -> Result<u8> {
    let digits = count.strip_prefix(['+', '-']).unwrap_or(count);
    let invalid = |reason: &str| Error::InvalidDesignDoc { reason: reason.to_owned() };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid("invalid rank reducer"));
    }
    match count.parse::<u8>() {
        Ok(count) if (1..=RANK_MAX).contains(&count) => Ok(count),
        _ => Err(invalid("rank value must be between 1 and 100")),
    }
}

/// A built-in reducer over rows whose values are stored as [`ViewRow`]s.
///
/// ```
/// use std::sync::Arc;
/// use rereduce::reduce::Reducer;
/// use rereduce::view::builtin::Builtin;
/// use rereduce::view::limit::ReduceLimit;
/// use rereduce::view::row::ViewRow;
/// use rereduce::vocabulary::Json;
/// let order = Arc::new(|one: &Json, two: &Json| one.to_string().cmp(&two.to_string()));
/// let sum = Builtin::Sum.reducer(order, ReduceLimit::Error);
/// let row = ViewRow::encode(&Json::from("k"), &Json::from(0.1));
/// let mut out = Vec::new();
/// sum.reduce(&[(b"k1", &row), (b"k2", &row)], &mut out).unwrap();
/// assert_eq!(sum.show(&out).unwrap(), Json::from(0.2));
/// ```
pub struct BuiltinReducer {
    builtin: Builtin,
    order: Arc<dyn ValueOrder>,
    limit: ReduceLimit,
    over_limit: AtomicU64,
}

impl fmt::Debug for BuiltinReducer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} with {:?}", self.builtin, self.limit)
    }
}

impl BuiltinReducer {
    /// The value that a query shows for a reduction, which may be that of no rows.
    ///
    /// [`Error::BadInput`] for bytes that this reducer never made.
    pub fn show(&self, reduction: &[u8]) -> Result<Json> {
        match self.builtin {
            Builtin::Count if reduction.is_empty() => Ok(Json::from(0)),
            Builtin::Count => {
                Count::decode(reduction).map(Json::unsigned).ok_or_else(|| broken("_count"))
            }
            Builtin::Sum => Ok(Sum::decode(reduction)?.show()),
            Builtin::Stats => Ok(Stats::decode(reduction)?.show()),
            Builtin::ApproxCountDistinct => {
                let mut distinct = Distinct::new();
                distinct.add_part(reduction)?;
                Ok(Json::from(distinct.estimate()))
            }
            Builtin::First | Builtin::Last => show_picked(reduction),
            Builtin::Top(_) | Builtin::Bottom(_) => show_ranked(reduction),
        }
    }

    /// How many reductions were over the limit and stand all the same, under [`ReduceLimit::Log`].
    pub fn over_limit_count(&self) -> u64 {
        self.over_limit.load(Memory::Relaxed)
    }

    fn ranked(&self) -> Ranked<'_> {
        match self.builtin {
            Builtin::Bottom(count) => Ranked::new(&*self.order, false, count),
            Builtin::Top(count) => Ranked::new(&*self.order, true, count),
            _ => Ranked::new(&*self.order, true, RANK_MAX),
        }
    }

    /// Appends a sum, or what takes its place under the limit.
    // spec: REDUCE-11
    fn put_sum(&self, sum: &Sum, input_bytes: usize, out: &mut Vec<u8>) {
        let before = out.len();
        sum.encode(out);
        let output_bytes = out.len() - before;
        if sum.is_error() || !ReduceLimit::exceeds(input_bytes, output_bytes) {
            return;
        }
        match self.limit {
            ReduceLimit::Off => {}
            ReduceLimit::Log => {
                self.over_limit.fetch_add(1, Memory::Relaxed);
            }
            ReduceLimit::Error => {
                mark::hit("reduce-over-limit");
                out.truncate(before);
                Sum::overflow(input_bytes, output_bytes).encode(out);
            }
        }
    }
}

impl Reducer for BuiltinReducer {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let value = |row| decode(row).map(|row| row.value);
        match self.builtin {
            Builtin::Count => Count.reduce(rows, out)?,
            Builtin::Sum => {
                let (mut sum, mut input_bytes) = (Sum::default(), 0);
                for row in rows {
                    sum.add_row(value(row)?)?;
                    input_bytes += row.1.len();
                }
                self.put_sum(&sum, input_bytes, out);
            }
            Builtin::Stats => {
                let mut stats = Stats::default();
                for row in rows {
                    stats.add_row(value(row)?)?;
                }
                stats.encode(out);
            }
            Builtin::ApproxCountDistinct => {
                let mut distinct = Distinct::new();
                for row in rows {
                    distinct.add_hash(&term_sha1(&parse_value(decode(row)?.key)?));
                }
                distinct.encode(out);
            }
            // Rows come in ascending order, whatever the direction of the query.
            Builtin::First => {
                if let Some(row) = rows.first() {
                    put_picked(value(row)?, out);
                }
            }
            Builtin::Last => {
                if let Some(row) = rows.last() {
                    put_picked(value(row)?, out);
                }
            }
            Builtin::Top(_) | Builtin::Bottom(_) => {
                let mut ranked = self.ranked();
                for row in rows {
                    ranked.add(value(row)?)?;
                }
                ranked.encode(out);
            }
        }
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let mut filled = parts.iter().filter(|part| !part.is_empty());
        match self.builtin {
            Builtin::Count if filled.next().is_none() => {}
            Builtin::Count => Count.rereduce(parts, out)?,
            Builtin::Sum => {
                let (mut sum, mut input_bytes) = (Sum::default(), 0);
                for part in parts {
                    sum.add(Sum::decode(part)?);
                    input_bytes += part.len();
                }
                self.put_sum(&sum, input_bytes, out);
            }
            Builtin::Stats => {
                let mut stats = Stats::default();
                for part in parts {
                    stats.add(Stats::decode(part)?)?;
                }
                stats.encode(out);
            }
            Builtin::ApproxCountDistinct => {
                let mut distinct = Distinct::new();
                for part in parts {
                    distinct.add_part(part)?;
                }
                distinct.encode(out);
            }
            // spec: REDUCE-10
            Builtin::First => out.extend_from_slice(filled.next().unwrap_or(&&[][..])),
            Builtin::Last if mark::planted("last-is-first") => {
                out.extend_from_slice(filled.next().unwrap_or(&&[][..]));
            }
            Builtin::Last => out.extend_from_slice(filled.next_back().unwrap_or(&&[][..])),
            Builtin::Top(_) | Builtin::Bottom(_) => {
                let mut ranked = self.ranked();
                for part in parts {
                    ranked.add_part(part)?;
                }
                ranked.encode(out);
            }
        }
        Ok(())
    }
}

fn decode<'a>(row: &Row<'a>) -> Result<ViewRow<'a>> {
    ViewRow::decode(row.1).ok_or_else(|| Error::BadInput {
        what: "stored row",
        got: format!("{} bytes", row.1.len()),
        expected: "the key's text behind its length, then the value's",
    })
}

/// A value from its text in a row or a reduction.
#[inline]
fn parse_value(text: &[u8]) -> Result<Json> {
    match plain_number(text) {
        Some(number) => Ok(Json::Number(number)),
        None => Json::parse(text),
    }
}

/// The error for bytes that the reducer called `name` never made.
fn broken(name: &'static str) -> Error {
    Error::BadInput {
        what: "stored reduction",
        got: format!("of {name}"),
        expected: "what the reducer wrote",
    }
}
