//! The changes feed: every document once, at the sequence of its newest change.

use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use crate::env::Access;
use crate::error::Result;
use crate::mark;
use crate::publish::Waited;
use crate::reduce::Count;
use crate::store::committed::Committed;
use crate::vocabulary::{Direction, KeyRange, Rev};

use super::load::{nonsense, nonsense_reduction};
use super::record::{SeqEntry, key_seq, seq_key};
use super::roots::DbRoots;
use super::{Database, DbSnapshot, Shapes};

/// One change.
///
/// ```
/// use rereduce::db::Change;
/// let leaf = ("1-a".parse().unwrap(), false);
/// let change = Change { seq: 1, id: "a".into(), leaves: vec![leaf] };
/// assert!(!change.deleted());
/// assert_eq!(change.winner().to_string(), "1-a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its sequence.
    pub seq: u64,
    /// The document.
    pub id: String,
    /// Every leaf and whether it is a deletion, the winner first; never empty.
    pub leaves: Vec<(Rev, bool)>,
}

impl Change {
    /// The winning leaf.
    pub fn winner(&self) -> &Rev {
        &self.leaves[0].0
    }

    /// Whether the winner is a deletion.
    pub fn deleted(&self) -> bool {
        self.leaves[0].1
    }

    pub(crate) fn visit(
        state: &Committed<DbRoots>,
        since: u64,
        direction: Direction,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<()> {
        let nodes = state.nodes();
        for row in state.roots.by_seq.iter(&nodes, after(since), direction) {
            let (key, value) = row?;
            let entry = key_seq(&key).zip(SeqEntry::decode(&value));
            let expected = "an entry of the sequence index";
            let wrong = || nonsense(state, &state.roots.by_seq, &key, expected);
            let (seq, SeqEntry { id, leaves }) = entry.ok_or_else(wrong)?;
            if visit(Change { seq, id, leaves }).is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn count_after(
        state: &Committed<DbRoots>,
        shapes: &Shapes,
        since: u64,
    ) -> Result<u64> {
        let by_seq = &state.roots.by_seq;
        let reduced = by_seq.reduce(&state.nodes(), &shapes.by_seq, &after(since))?;
        Count::decode(&reduced).ok_or_else(|| nonsense_reduction(state, by_seq))
    }
}

fn after(since: u64) -> KeyRange {
    KeyRange { start: Bound::Excluded(seq_key(since).to_vec()), end: Bound::Unbounded }
}

/// What to ask the feed for.
///
/// ```
/// use rereduce::db::ChangesOptions;
/// assert_eq!(ChangesOptions::default().limit, usize::MAX);
/// ```
#[derive(Clone, Debug)]
pub struct ChangesOptions {
    /// At most so many changes.
    pub limit: usize,
    /// Descending begins with the newest change and never waits.
    pub direction: Direction,
    /// How long to wait for a change if there is none; `None` does not wait.
    pub wait: Option<Duration>,
}

impl Default for ChangesOptions {
    fn default() -> ChangesOptions {
        ChangesOptions { limit: usize::MAX, direction: Direction::Ascending, wait: None }
    }
}

/// A piece of the feed.
///
/// ```
/// use rereduce::db::Changes;
/// let nothing = Changes { changes: vec![], last_seq: 0, pending: 0 };
/// assert_eq!(nothing.pending, 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The changes, in the direction asked for.
    pub changes: Vec<Change>,
    /// Where to go on: the sequence of the last change here, or what was asked for if there is
    /// none.
    pub last_seq: u64,
    /// How many changes were left out because of the limit.
    pub pending: u64,
}

/// How often a reader looks whether another process has written.
const POLL: Duration = Duration::from_millis(20);

impl Database {
    /// The changes after sequence `since`. If there is none and `options` say so, waits for one,
    /// until the time is over or the handle is closed.
    ///
    /// A commit at any moment between the look and the wait ends the wait.
    // spec: DB-10
    pub fn changes(&self, since: u64, options: &ChangesOptions) -> Result<Changes> {
        let start = self.file.now();
        loop {
            // The version comes before the look: what is committed after it is newer than it.
            let (state, version) = self.file.current_with_version()?;
            let snapshot = DbSnapshot::new(state, self.shapes.clone());
            let found = collect(&snapshot, since, options)?;
            let version = match mark::planted("version-after-the-look") {
                true => self.file.current_with_version()?.1,
                false => version,
            };
            let waits = options.direction == Direction::Ascending && options.limit > 0;
            let Some(wait) = options.wait.filter(|_| waits && found.changes.is_empty()) else {
                return Ok(found);
            };
            let Some(left) = wait.checked_sub(self.file.now().saturating_sub(start)) else {
                return Ok(found);
            };
            let polls = self.file.access() == Access::Read
                && !mark::planted("reader-waits-without-looking");
            let left = if polls { left.min(POLL) } else { left };
            if self.file.wait_newer(version, Some(left)) == Waited::Closed {
                return Ok(found);
            }
        }
    }
}

fn collect(snapshot: &DbSnapshot, since: u64, options: &ChangesOptions) -> Result<Changes> {
    let mut changes = Vec::new();
    if options.limit > 0 {
        snapshot.changes(since, options.direction, &mut |change| {
            changes.push(change);
            match changes.len() < options.limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
    }
    let last_seq = changes.last().map_or(since, |last: &Change| last.seq);
    let pending = snapshot.pending_changes(since)?.saturating_sub(changes.len() as u64);
    Ok(Changes { changes, last_seq, pending })
}
