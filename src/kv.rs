//! The seams through which any ordered key-value engine can be used and judged.
//!
//! A stranger's engine implements [`OrderedKv`] and [`KvSnapshot`] and is then held against the
//! model by `rereduce_model::check_kv`.
//!
//! Invariant: keys are compared byte by byte (memcmp), always.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::vocabulary::{Direction, Edit, KeyRange};

/// Called for each row of a scan; [`ControlFlow::Break`] ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An engine that keeps keys in byte order and survives being closed.
///
/// ```
/// use rereduce::kv::{KvSnapshot, OrderedKv};
/// use rereduce::vocabulary::Edit;
///
/// fn put_and_read(kv: &dyn OrderedKv) -> rereduce::Result<Option<Vec<u8>>> {
///     kv.commit(&[Edit::put("k", "v")])?;
///     kv.snapshot()?.get(b"k")
/// }
/// ```
pub trait OrderedKv: Send + Sync {
    /// Applies all edits, or none, and returns once they are durable. If a key occurs twice, the
    /// last edit wins.
    fn commit(&self, edits: &[Edit]) -> Result<()>;

    /// The committed state as of now; later commits do not change it.
    fn snapshot(&self) -> Result<Box<dyn KvSnapshot>>;
}

/// A committed state that stays as it is.
///
/// ```
/// use rereduce::kv::KvSnapshot;
/// use rereduce::vocabulary::{Direction, KeyRange};
/// use std::ops::ControlFlow;
///
/// fn first_key(snapshot: &dyn KvSnapshot) -> rereduce::Result<Option<Vec<u8>>> {
///     let mut first = None;
///     snapshot.scan(&KeyRange::all(), Direction::Ascending, &mut |key, _| {
///         first = Some(key.to_vec());
///         ControlFlow::Break(())
///     })?;
///     Ok(first)
/// }
/// ```
pub trait KvSnapshot: Send {
    /// The value of `key`, or `None`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Visits the rows of `range` in `direction` until the range or the visitor ends.
    fn scan(&self, range: &KeyRange, direction: Direction, visit: &mut Visit<'_>) -> Result<()>;
}
