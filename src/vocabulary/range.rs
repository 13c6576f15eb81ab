//! Ranges of keys, and the two ways to walk them.

use std::ops::{Bound, RangeBounds};

/// Which way a range is walked.
///
/// ```
/// use rereduce::vocabulary::Direction;
/// assert_eq!(Direction::Ascending.reversed(), Direction::Descending);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the smallest key to the largest.
    Ascending,
    /// From the largest key to the smallest.
    Descending,
}

impl Direction {
    /// The other direction.
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }
}

/// A set of keys between two bounds, in byte order. Bounds that cross make an empty range.
///
/// ```
/// use rereduce::vocabulary::KeyRange;
/// let range = KeyRange::of("b".."d");
/// assert!(range.contains(b"c") && !range.contains(b"d"));
/// assert!(KeyRange::all().contains(b""));
/// assert!(!KeyRange::of("d".."b").contains(b"c"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Where the range begins, in byte order.
    pub start: Bound<Vec<u8>>,
    /// Where the range ends, in byte order.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// The keys between two bounds, such as `KeyRange::of("b".."d")`.
    pub fn of<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> KeyRange {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        KeyRange { start: owned(range.start_bound()), end: owned(range.end_bound()) }
    }

    /// The keys that begin with `prefix`.
    ///
    /// ```
    /// use rereduce::vocabulary::KeyRange;
    /// let range = KeyRange::prefix(b"ab");
    /// assert!(range.contains(b"ab") && range.contains(b"ab\xff") && !range.contains(b"ac"));
    /// assert!(KeyRange::prefix(b"\xff").contains(b"\xff\xff"));
    /// ```
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        let end = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        KeyRange { start: Bound::Included(prefix.to_vec()), end }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.after_start(key) && self.before_end(key)
    }

    /// Whether `key` is not cut off by the start of the range.
    pub fn after_start(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Included(start) => key >= start.as_slice(),
            Bound::Excluded(start) => key > start.as_slice(),
            Bound::Unbounded => true,
        }
    }

    /// Whether `key` is not cut off by the end of the range.
    pub fn before_end(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key <= end.as_slice(),
            Bound::Excluded(end) => key < end.as_slice(),
            Bound::Unbounded => true,
        }
    }
}
