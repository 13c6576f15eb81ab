//! A revision together with its ancestors, as replication hands them over.

use super::{Rev, RevId};

/// One revision and what is known of its history: ids from the newest to the oldest.
///
/// ```text
///   { "start": 3, "ids": ["c", "b", "a"] }      3-c ── 2-b ── 1-a
/// ```
///
/// A path may end before generation 1: older ancestors were forgotten. The empty path is the
/// history of a document that was never written.
///
/// ```
/// use rereduce::vocabulary::RevPath;
/// let path = RevPath { start: 3, ids: vec!["c".parse().unwrap(), "b".parse().unwrap()] };
/// assert_eq!(path.newest().unwrap().to_string(), "3-c");
/// assert_eq!(path.oldest_generation(), Some(2));
/// assert_eq!(path.revs().map(|rev| rev.to_string()).collect::<Vec<_>>(), ["3-c", "2-b"]);
/// assert_eq!(RevPath::default().newest(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevPath {
    /// Generation of the newest revision.
    pub start: u64,
    /// Ids, the newest first; at most `start + 1` of them.
    pub ids: Vec<RevId>,
}

impl RevPath {
    /// The path of one revision without known ancestors.
    pub fn of(rev: Rev) -> RevPath {
        RevPath { start: rev.generation, ids: vec![rev.id] }
    }

    /// The revision whose path this is.
    pub fn newest(&self) -> Option<Rev> {
        Some(Rev::new(self.start, self.ids.first()?.clone()))
    }

    /// The generation at which the known history begins; `None` for an empty path and for one
    /// with more ids than generations.
    pub fn oldest_generation(&self) -> Option<u64> {
        self.start.checked_sub((self.ids.len() as u64).checked_sub(1)?)
    }

    /// Every revision on the path, the newest first.
    pub fn revs(&self) -> impl Iterator<Item = Rev> + '_ {
        (0..=self.start)
            .rev()
            .zip(&self.ids)
            .map(|(generation, id)| Rev::new(generation, id.clone()))
    }
}
