//! How a view reduces its rows, whatever language its reducer is written in.
//!
//! Invariant: a view without a reducer keeps empty reductions.

use std::sync::Arc;

use crate::error::Result;
use crate::reduce::{NoReduce, Reducer, Row};
use crate::view::builtin::BuiltinReducer;
use crate::vocabulary::{Direction, Json};

/// A reducer whose stored reductions can be shown as values of a query.
///
/// ```
/// use rereduce::reduce::{Count, Reducer, Row};
/// use rereduce::view::reducer::ShownReducer;
/// use rereduce::vocabulary::Json;
/// # use rereduce::Result;
/// /// Counts rows by tens.
/// struct Tens;
/// impl Reducer for Tens {
///     fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
///         Count.reduce(rows, out)
///     }
///     fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
///         Count.rereduce(parts, out)
///     }
/// }
/// impl ShownReducer for Tens {
///     fn show(&self, reduction: &[u8]) -> Result<Json> {
///         Ok(Json::unsigned(Count::decode(reduction).unwrap_or(0) / 10))
///     }
/// }
/// assert_eq!(Tens.show(&42u64.to_le_bytes()).unwrap(), Json::from(4));
/// ```
pub trait ShownReducer: Reducer {
    /// The value of a query whose rows reduce to `reduction`, which is one of this reducer, or
    /// empty for the reduction of no rows.
    ///
    /// For a reducer in JavaScript this is where the last rereduce happens.
    fn show(&self, reduction: &[u8]) -> Result<Json>;

    /// The reducer to put partial nodes together with in a query of this direction, if it is
    /// another one: functions are handed rows against the direction of the query.
    fn towards(&self, _direction: Direction) -> Option<Arc<dyn ShownReducer>> {
        None
    }
}

impl ShownReducer for BuiltinReducer {
    fn show(&self, reduction: &[u8]) -> Result<Json> {
        BuiltinReducer::show(self, reduction)
    }
}

/// The reducer of a view, or none.
///
/// ```
/// use rereduce::reduce::Reducer;
/// use rereduce::view::reducer::ViewReducer;
/// let mut out = Vec::new();
/// ViewReducer::None.reduce(&[(b"k", b"v")], &mut out).unwrap();
/// assert!(out.is_empty());
/// ```
#[derive(Clone, Default)]
pub enum ViewReducer {
    /// The view has rows only.
    #[default]
    None,
    /// A reducer.
    Some(Arc<dyn ShownReducer>),
}

impl Reducer for ViewReducer {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        match self {
            ViewReducer::None => NoReduce.reduce(rows, out),
            ViewReducer::Some(reducer) => reducer.reduce(rows, out),
        }
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        match self {
            ViewReducer::None => NoReduce.rereduce(parts, out),
            ViewReducer::Some(reducer) => reducer.rereduce(parts, out),
        }
    }
}
