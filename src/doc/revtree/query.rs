//! What a revision tree answers: leaves, winner, conflicts, paths, what is missing.

use std::cmp::Reverse;

use super::{Node, RevData, RevTree};
use crate::doc::RevStatus;
use crate::mark;
use crate::vocabulary::{Rev, RevPath};

/// A revision that a tree knows.
///
/// ```
/// use rereduce::doc::Found;
/// let found: Found<'_, u8> = Found { data: None, is_leaf: false };
/// assert!(found.data.is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a, L> {
    /// Its data, unless only its existence is known.
    pub data: Option<&'a L>,
    /// Whether no other revision descends from it.
    pub is_leaf: bool,
}

/// One answer to the question for several revisions.
///
/// ```
/// use rereduce::doc::OpenRev;
/// let missing: OpenRev<'_, u8> = OpenRev::Missing("1-a".parse().unwrap());
/// assert!(matches!(missing, OpenRev::Missing(_)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenRev<'a, L> {
    /// A revision and its data.
    Found(&'a Rev, &'a L),
    /// A revision that was asked for and has no data here.
    Missing(Rev),
}

impl<L: RevData> RevTree<L> {
    /// All leaves, the winner first: live ones before deleted ones, then the higher generation,
    /// then the greater id by its bytes.
    // spec: REVTREE-5
    pub fn leaves(&self) -> Vec<(&Rev, &L)> {
        let leaves = self.leaf_flags();
        self.ranked((0..self.nodes.len()).filter(|&position| leaves[position]))
    }

    /// The leaf that a reader gets who names no revision; `None` for an empty tree.
    // spec: REVTREE-5
    pub fn winner(&self) -> Option<(&Rev, &L)> {
        if mark::planted("revtree-winner-on-the-leftmost-path") {
            return self.leftmost_leaf();
        }
        self.leaves().first().copied()
    }

    /// Whether all leaves are deletions; `false` for an empty tree.
    pub fn is_deleted(&self) -> bool {
        self.winner().is_some_and(|(_, data)| data.is_deleted())
    }

    /// The live leaves that are not the winner, the greatest first.
    // spec: REVTREE-6
    pub fn conflicts(&self) -> Vec<&Rev> {
        self.losers(false)
    }

    /// The deleted leaves that are not the winner, the greatest first.
    // spec: REVTREE-6
    pub fn deleted_conflicts(&self) -> Vec<&Rev> {
        self.losers(true)
    }

    /// Every revision that has data, with it, ascending; the flag says whether it is a leaf.
    pub fn revisions(&self) -> impl Iterator<Item = (&Rev, &L, bool)> {
        let leaves = self.leaf_flags();
        self.nodes
            .iter()
            .zip(leaves)
            .filter_map(|(node, leaf)| Some((&node.rev, node.data.as_ref()?, leaf)))
    }

    /// Changes the data of every revision that has some; `None` forgets an inner revision's. A
    /// leaf's data may be replaced but stays.
    pub fn map_data(&mut self, mut change: impl FnMut(&Rev, &L, bool) -> Option<L>) {
        let leaves = self.leaf_flags();
        for (node, leaf) in self.nodes.iter_mut().zip(leaves) {
            let Some(data) = &node.data else { continue };
            let changed = change(&node.rev, data, leaf);
            if !leaf || changed.is_some() {
                node.data = changed;
            }
        }
    }

    /// Looks one revision up.
    pub fn find(&self, rev: &Rev) -> Option<Found<'_, L>> {
        let position = self.position(rev)?;
        let is_leaf = !self.links.iter().any(|&(_, parent)| parent as usize == position);
        Some(Found { data: self.nodes.get(position)?.data.as_ref(), is_leaf })
    }

    /// The revision with all its known ancestors.
    // spec: REVTREE-2
    pub fn path(&self, rev: &Rev) -> Option<RevPath> {
        let mut position = Some(self.position(rev)?);
        let mut ids = Vec::new();
        while let Some(node) = position.and_then(|position| self.nodes.get(position)) {
            ids.push(node.rev.id.clone());
            position = position.and_then(|child| self.parents(child).next_back());
        }
        Some(RevPath { start: rev.generation, ids })
    }

    /// What is there of each revision on the path of `rev`, the newest first.
    pub fn revs_info(&self, rev: &Rev) -> Vec<(Rev, RevStatus)> {
        let path = self.path(rev).unwrap_or_default();
        let status = |rev: &Rev| match self.find(rev).and_then(|found| found.data) {
            None => RevStatus::Missing,
            Some(data) if data.is_deleted() => RevStatus::Deleted,
            Some(_) => RevStatus::Available,
        };
        path.revs().map(|rev| (rev.clone(), status(&rev))).collect()
    }

    /// The leaves that descend from `rev` or are it, the winner among them first; none if `rev`
    /// is not known.
    // spec: REVTREE-7
    pub fn leaves_from(&self, rev: &Rev) -> Vec<(&Rev, &L)> {
        self.ranked(self.leaf_positions_from(rev))
    }

    /// What is there of `revs`: those found ascending, then those missing ascending. With
    /// `latest`, each revision stands for all leaves that descend from it, and every leaf is
    /// answered once.
    // spec: REVTREE-7
    pub fn open_revs(&self, revs: &[Rev], latest: bool) -> Vec<OpenRev<'_, L>> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for rev in revs {
            let positions = if latest {
                self.leaf_positions_from(rev)
            } else {
                let has_data = |position: &usize| {
                    self.nodes.get(*position).is_some_and(|node| node.data.is_some())
                };
                self.position(rev).filter(has_data).into_iter().collect()
            };
            if positions.is_empty() {
                missing.push(rev.clone());
            }
            found.extend(positions);
        }
        found.sort_unstable();
        if !mark::planted("revtree-latest-doubles") {
            found.dedup();
        }
        missing.sort_unstable();
        missing.dedup();
        let opened = |position: usize| {
            let node = self.nodes.get(position)?;
            Some(OpenRev::Found(&node.rev, node.data.as_ref()?))
        };
        let missing = missing.into_iter().map(OpenRev::Missing);
        found.into_iter().filter_map(opened).chain(missing).collect()
    }

    /// Those of `revs` that the tree does not know, ascending; one asked for twice is there twice.
    // spec: REVTREE-9
    pub fn missing(&self, revs: &[Rev]) -> Vec<Rev> {
        let leaves_only = mark::planted("revtree-missing-knows-leaves-only");
        let unknown = revs.iter().filter(|rev| match self.find(rev) {
            Some(found) => leaves_only && !found.is_leaf,
            None => true,
        });
        let mut missing: Vec<Rev> = unknown.cloned().collect();
        missing.sort();
        missing
    }

    /// The leaves that may be ancestors of one of `missing`: those of a lower generation, the
    /// winner first.
    // spec: REVTREE-9
    pub fn possible_ancestors(&self, missing: &[Rev]) -> Vec<&Rev> {
        let newest = missing.iter().map(|rev| rev.generation).max().unwrap_or(0);
        let leaves = self.leaves().into_iter().map(|(rev, _)| rev);
        leaves.filter(|rev| rev.generation < newest).collect()
    }

    fn losers(&self, deleted: bool) -> Vec<&Rev> {
        let losers = self.leaves().into_iter().skip(1);
        let mixed = mark::planted("revtree-conflicts-with-deleted");
        losers
            .filter(|(_, data)| mixed || data.is_deleted() == deleted)
            .map(|(rev, _)| rev)
            .collect()
    }

    /// The nodes at these positions, which are leaves, the winner first.
    fn ranked(&self, positions: impl IntoIterator<Item = usize>) -> Vec<(&Rev, &L)> {
        let leaf = |position: usize| {
            let Node { rev, data } = self.nodes.get(position)?;
            Some((rev, data.as_ref()?))
        };
        let mut leaves: Vec<(&Rev, &L)> = positions.into_iter().filter_map(leaf).collect();
        leaves.sort_by_key(|&(rev, data)| {
            let live = !data.is_deleted() || mark::planted("revtree-winner-ignores-deleted");
            Reverse((live, rev))
        });
        leaves
    }

    fn leaf_positions_from(&self, rev: &Rev) -> Vec<usize> {
        let Some(position) = self.position(rev) else { return Vec::new() };
        let leaves = self.leaf_flags();
        let mut reached = vec![false; self.nodes.len()];
        reached[position] = true; // a position in `nodes`
        // Links are ascending by child, and a parent stands before its children; they hold
        // positions in `nodes`.
        for &(child, parent) in &self.links {
            if reached[parent as usize] {
                reached[child as usize] = true;
            }
        }
        let both = reached.into_iter().zip(leaves).enumerate();
        both.filter(|(_, flags)| *flags == (true, true)).map(|(position, _)| position).collect()
    }

    /// What the winner would be if only the first child of each node were looked at.
    fn leftmost_leaf(&self) -> Option<(&Rev, &L)> {
        let mut position = 0;
        while let Some(&(child, _)) =
            self.links.iter().find(|&&(_, parent)| parent as usize == position)
        {
            position = child as usize;
        }
        let node = self.nodes.get(position)?;
        Some((&node.rev, node.data.as_ref()?))
    }
}
