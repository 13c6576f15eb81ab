//! The seam between trees and what they sum up.
//!
//! A [`Reducer`] turns rows into a *reduction*, a short byte string that an inner node keeps for
//! each of its children, and merges reductions into one.
//!
//! Invariant (the laws): for all row sequences `a`, `b` and all ways to cut them into parts,
//! `rereduce([reduce(a), reduce(b)]) == reduce(a ++ b)`, and `reduce([])` is neutral.

use crate::error::Result;

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
