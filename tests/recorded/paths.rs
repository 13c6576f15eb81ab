//! Revision trees the naive way, for the engine's to be judged by: a list of paths.

use std::collections::BTreeSet;

use rereduce::codec::{Reader, put_varint};
use rereduce::doc::RevData;
use rereduce::vocabulary::{Rev, RevPath};

/// What the tree keeps of a revision: where its body is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) deleted: bool,
    pub(crate) body: usize,
}

impl RevData for Entry {
    fn is_deleted(&self) -> bool {
        self.deleted
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, (self.body as u64) << 1 | u64::from(self.deleted));
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Entry> {
        let packed = reader.varint()?;
        Some(Entry { deleted: packed & 1 == 1, body: (packed >> 1) as usize })
    }
}

/// Data that follows from the revision: in these tests an id that begins with `x` is a deletion.
pub(crate) fn entry(rev: &Rev) -> Entry {
    let deleted = rev.id.as_bytes().first() == Some(&b'x');
    Entry { deleted, body: rev.generation as usize }
}

/// A tree as the paths to its leaves, newest first: what the engine's trees are judged by.
#[derive(Clone, Default)]
pub(crate) struct Paths(pub(crate) Vec<Vec<Rev>>);

impl Paths {
    pub(crate) fn merge(&mut self, path: &RevPath, limit: usize) {
        self.0.push(path.revs().collect());
        self.grow();
        self.drop_covered();
        let near: BTreeSet<Rev> =
            self.0.iter().flat_map(|path| path.iter().take(limit).cloned()).collect();
        for path in &mut self.0 {
            let far = path.iter().position(|rev| !near.contains(rev));
            path.truncate(far.unwrap_or(path.len()));
        }
        self.0.sort();
    }

    /// Continues each path where another one knows more ancestors.
    fn grow(&mut self) {
        loop {
            let known = self.0.clone();
            for path in &mut self.0 {
                let oldest = path.last().unwrap().clone();
                for other in &known {
                    let at = other.iter().position(|rev| *rev == oldest);
                    let more = at.map(|at| &other[at + 1..]).unwrap_or_default();
                    if *path.last().unwrap() == oldest {
                        path.extend_from_slice(more);
                    }
                }
            }
            if self.0 == known {
                return;
            }
        }
    }

    /// Drops paths that end on another one.
    fn drop_covered(&mut self) {
        let known = self.0.clone();
        let mut seen = BTreeSet::new();
        self.0.retain(|path| {
            let inner = known.iter().any(|other| other[1..].contains(&path[0]));
            !inner && seen.insert(path[0].clone())
        });
    }

    pub(crate) fn winner(&self) -> &Rev {
        let rank = |path: &&Vec<Rev>| (!entry(&path[0]).deleted, path[0].clone());
        &self.0.iter().max_by_key(rank).unwrap()[0]
    }
}
