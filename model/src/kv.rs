//! The model of an ordered key-value engine: a list of commits, each a whole map.
//!
//! Invariant: `commits` only grows, and its last entry is the newest state.

use std::collections::BTreeMap;
use std::ops::Bound;

use rereduce::vocabulary::{Direction, Edit, KeyRange, Slot};

/// A state: every key with its value.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What `reduce` answers: how many rows, and the sum of those values that are decimal integers.
///
/// ```
/// let nothing = rereduce_model::Reduced::default();
/// assert_eq!((nothing.count, nothing.sum), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduced {
    /// Rows in the range.
    pub count: u64,
    /// Wrapping sum of the values that parse as `i64`; others count as zero.
    pub sum: i64,
}

/// What an ordered key-value engine should hold.
///
/// ```
/// use rereduce::vocabulary::Edit;
/// use rereduce_model::KvModel;
/// let mut model = KvModel::default();
/// model.commit(&[Edit::put("a", "1"), Edit::put("a", "2")]);
/// assert_eq!(model.get(None, b"a"), Some(b"2".to_vec()));
/// ```
#[derive(Clone, Debug)]
pub struct KvModel {
    commits: Vec<Rows>,
    /// Commits that failed: each may turn out to be the newest state after a reopen.
    in_doubt: Vec<Rows>,
    slots: BTreeMap<Slot, Rows>,
}

impl Default for KvModel {
    fn default() -> KvModel {
        KvModel { commits: vec![Rows::new()], in_doubt: Vec::new(), slots: BTreeMap::new() }
    }
}

impl KvModel {
    /// The newest state.
    pub fn newest(&self) -> &Rows {
        self.commits.last().expect("the empty state is always there")
    }

    /// The state as of a snapshot, or the newest one; `None` if the slot is empty.
    pub fn rows(&self, at: Option<Slot>) -> Option<&Rows> {
        at.map_or_else(|| Some(self.newest()), |slot| self.slots.get(&slot))
    }

    /// How many commits there were, the empty state included.
    pub fn commits(&self) -> usize {
        self.commits.len()
    }

    fn edited(&self, edits: &[Edit]) -> Rows {
        let mut rows = self.newest().clone();
        for edit in edits {
            match &edit.value {
                Some(value) => rows.insert(edit.key.clone(), value.clone()),
                None => rows.remove(&edit.key),
            };
        }
        rows
    }

    /// A commit that was acknowledged.
    pub fn commit(&mut self, edits: &[Edit]) {
        self.commits.push(self.edited(edits));
        self.in_doubt.clear();
    }

    /// A commit that failed: this handle must not show it, the next one may.
    // spec: MODEL-4
    pub fn doubt(&mut self, edits: &[Edit]) {
        self.in_doubt.push(self.edited(edits));
    }

    /// The storage was opened again and shows `found`; `false` if it must not.
    // spec: MODEL-4
    pub fn reopened(&mut self, found: &Rows) -> bool {
        self.slots.clear();
        let in_doubt = std::mem::take(&mut self.in_doubt);
        if in_doubt.contains(found) {
            self.commits.push(found.clone());
        }
        self.newest() == found
    }

    /// The value of `key`.
    pub fn get(&self, at: Option<Slot>, key: &[u8]) -> Option<Vec<u8>> {
        self.rows(at)?.get(key).cloned()
    }

    /// The rows of `range` in `direction`, at most `limit` of them.
    pub fn scan(
        &self,
        at: Option<Slot>,
        range: &KeyRange,
        direction: Direction,
        limit: Option<u64>,
    ) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let rows = self.rows(at)?.iter().filter(|(key, _)| inside(range, key));
        let mut rows: Vec<_> = rows.map(|(key, value)| (key.clone(), value.clone())).collect();
        if direction == Direction::Descending {
            rows.reverse();
        }
        rows.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        Some(rows)
    }

    /// Count and sum over `range`.
    pub fn reduce(&self, range: &KeyRange) -> Reduced {
        let mut reduced = Reduced::default();
        for (_, value) in self.newest().iter().filter(|(key, _)| inside(range, key)) {
            let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            reduced.count += 1;
            reduced.sum = reduced.sum.wrapping_add(number.unwrap_or(0));
        }
        reduced
    }

    /// Opens a snapshot of the newest state.
    pub fn snapshot(&mut self, slot: Slot) {
        self.slots.insert(slot, self.newest().clone());
    }

    /// Opens the commit with this index (0 is the empty state).
    pub fn history(&mut self, slot: Slot, commit: usize) {
        self.slots.insert(slot, self.commits[commit].clone());
    }

    /// Empties a slot.
    pub fn release(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }
}

fn inside(range: &KeyRange, key: &[u8]) -> bool {
    let starts = match &range.start {
        Bound::Unbounded => true,
        Bound::Included(start) => start.as_slice() <= key,
        Bound::Excluded(start) => start.as_slice() < key,
    };
    let ends = match &range.end {
        Bound::Unbounded => true,
        Bound::Included(end) => key <= end.as_slice(),
        Bound::Excluded(end) => key < end.as_slice(),
    };
    starts && ends
}
