//! The seam between trees and what they sum up.
//!
//! A [`Reducer`] turns rows into a *reduction*, a short byte string that an inner node keeps for
//! each of its children, and merges reductions into one.
//!
//! Invariant (the laws): for all row sequences `a`, `b` and all ways to cut them into parts,
//! `rereduce([reduce(a), reduce(b)]) == reduce(a ++ b)`, and `reduce([])` is neutral.

use crate::error::Result;
use crate::mark;

/// One row as a reducer sees it: key and value, borrowed from a node.
pub type Row<'a> = (&'a [u8], &'a [u8]);

/// Sums rows up, in a way that can be continued.
///
/// Outputs are appended to `out`, which callers hand in empty. An error stops the operation that
/// needed the reduction and changes nothing.
///
/// ```
/// use rereduce::reduce::{Count, Reducer};
/// let (mut one, mut all) = (Vec::new(), Vec::new());
/// Count.reduce(&[(b"a", b"1"), (b"b", b"2")], &mut one).unwrap();
/// Count.rereduce(&[&one, &one], &mut all).unwrap();
/// assert_eq!(Count::decode(&all), Some(4));
/// ```
pub trait Reducer: Send + Sync {
    /// The reduction of `rows`, which are consecutive and in ascending key order.
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()>;

    /// The reduction of the concatenation of what `parts` are reductions of, in ascending order.
    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()>;
}

/// A law that a reducer does not keep, with the rows that show it.
///
/// ```
/// use rereduce::reduce::{Count, check_laws};
/// assert!(check_laws(&Count, &[(b"a", b"1"), (b"b", b"2")]).unwrap().is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokenLaw {
    /// `rereduce([reduce(a), reduce(b)])` is not `reduce(a ++ b)`.
    Split {
        /// How many rows `a` has.
        rows_before: usize,
    },
    /// A part that is the reduction of no rows makes a difference.
    Neutral {
        /// Before which part it stood, of the two halves and one behind them.
        place: usize,
    },
    /// Merging merged parts is not merging all at once.
    Bracketing {
        /// Where the rows were cut, in ascending order.
        cuts: (usize, usize),
    },
    /// `rereduce([x])` is not `x`.
    Alone {
        /// How many rows `x` is the reduction of.
        row_count: usize,
    },
}

/// Looks for a law that `reducer` does not keep on `rows`, which are in ascending key order.
///
/// Cuts the rows everywhere in two and in three. `Ok(None)` says that all held on these rows, not
/// that they always do: call it with many. Errors are those of the reducer. Time is that of
/// `O(rows^2)` reduce calls.
///
/// ```
/// use rereduce::reduce::{BrokenLaw, Reducer, Row, check_laws};
/// # use rereduce::Result;
/// /// Keeps the first row's value, and of parts the last.
/// struct Unlawful;
/// impl Reducer for Unlawful {
///     fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
///         Ok(out.extend(rows.first().map_or(&[][..], |row| row.1)))
///     }
///     fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
///         Ok(out.extend(*parts.last().unwrap_or(&&[][..])))
///     }
/// }
/// let broken = check_laws(&Unlawful, &[(b"a", b"1"), (b"b", b"2")]).unwrap();
/// assert_eq!(broken, Some(BrokenLaw::Neutral { place: 2 }));
/// ```
// spec: REDUCE-13
pub fn check_laws(reducer: &dyn Reducer, rows: &[Row<'_>]) -> Result<Option<BrokenLaw>> {
    let whole = reduce(reducer, rows)?;
    let nothing = reduce(reducer, &[])?;
    for rows_before in 0..=rows.len() {
        let (before, behind) = rows.split_at(rows_before);
        let (before, rest) = (reduce(reducer, before)?, reduce(reducer, behind)?);
        if rereduce(reducer, &[&before, &rest])? != whole {
            return Ok(Some(BrokenLaw::Split { rows_before }));
        }
        let places: [[&[u8]; 3]; 3] =
            [[&nothing, &before, &rest], [&before, &nothing, &rest], [&before, &rest, &nothing]];
        for (place, parts) in places.iter().enumerate() {
            if rereduce(reducer, parts)? != whole {
                return Ok(Some(BrokenLaw::Neutral { place }));
            }
        }
        if mark::planted("laws-cut-in-two-only") {
            continue;
        }
        for row_count in 0..behind.len() {
            let (middle, end) = behind.split_at(row_count);
            let (middle, end) = (reduce(reducer, middle)?, reduce(reducer, end)?);
            let cuts = (rows_before, rows_before + row_count);
            let left = rereduce(reducer, &[&before, &middle])?;
            let right = rereduce(reducer, &[&middle, &end])?;
            let ways: [&[&[u8]]; 3] =
                [&[&left, &end], &[&before, &right], &[&before, &middle, &end]];
            for parts in ways {
                if rereduce(reducer, parts)? != whole {
                    return Ok(Some(BrokenLaw::Bracketing { cuts }));
                }
            }
        }
    }
    Ok(None)
}

/// Like [`check_laws`], and looks whether `rereduce([x])` is `x`, as it is for CouchDB's built-ins.
///
/// ```
/// use rereduce::reduce::{NoReduce, check_builtin_laws};
/// assert!(check_builtin_laws(&NoReduce, &[(b"a", b"1")]).unwrap().is_none());
/// ```
pub fn check_builtin_laws(reducer: &dyn Reducer, rows: &[Row<'_>]) -> Result<Option<BrokenLaw>> {
    for row_count in 0..=rows.len() {
        let (some, _) = rows.split_at(row_count);
        let part = reduce(reducer, some)?;
        if rereduce(reducer, &[&part])? != part {
            return Ok(Some(BrokenLaw::Alone { row_count }));
        }
    }
    check_laws(reducer, rows)
}

fn reduce(reducer: &dyn Reducer, rows: &[Row<'_>]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    reducer.reduce(rows, &mut out)?;
    Ok(out)
}

fn rereduce(reducer: &dyn Reducer, parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    reducer.rereduce(parts, &mut out)?;
    Ok(out)
}

/// The reducer that keeps nothing: every reduction is empty.
///
/// ```
/// use rereduce::reduce::{NoReduce, Reducer};
/// let mut out = Vec::new();
/// NoReduce.reduce(&[(b"a", b"1")], &mut out).unwrap();
/// assert!(out.is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReduce;

impl Reducer for NoReduce {
    fn reduce(&self, _rows: &[Row<'_>], _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn rereduce(&self, _parts: &[&[u8]], _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

/// Counts rows; a reduction is the count as 8 little-endian bytes.
///
/// ```
/// use rereduce::reduce::Count;
/// assert_eq!(Count::decode(&7u64.to_le_bytes()), Some(7));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Count;

impl Count {
    /// The count in a reduction, or `None` if these bytes are not one.
    pub fn decode(reduction: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(reduction.try_into().ok()?))
    }
}

impl Reducer for Count {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        out.extend((rows.len() as u64).to_le_bytes());
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let sum = parts.iter().filter_map(|part| Count::decode(part)).fold(0, u64::wrapping_add);
        out.extend(sum.to_le_bytes());
        Ok(())
    }
}

/// Sums values that are decimal integers in text; any other value counts as zero. A reduction is
/// the wrapping sum as 8 little-endian bytes, so that the laws hold without exception.
///
/// ```
/// use rereduce::reduce::{Reducer, SumDecimal};
/// let mut out = Vec::new();
/// SumDecimal.reduce(&[(b"a", b"40"), (b"b", b"-2"), (b"c", b"x")], &mut out).unwrap();
/// assert_eq!(SumDecimal::decode(&out), Some(38));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SumDecimal;

impl SumDecimal {
    /// The sum in a reduction, or `None` if these bytes are not one.
    pub fn decode(reduction: &[u8]) -> Option<i64> {
        Some(i64::from_le_bytes(reduction.try_into().ok()?))
    }
}

impl Reducer for SumDecimal {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
        let sum = rows.iter().filter_map(|row| number(row.1)).fold(0, i64::wrapping_add);
        out.extend(sum.to_le_bytes());
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let sum =
            parts.iter().filter_map(|part| SumDecimal::decode(part)).fold(0, i64::wrapping_add);
        out.extend(sum.to_le_bytes());
        Ok(())
    }
}
