//! What changes a revision tree: merging paths, forgetting old ancestors, purging leaves.

use std::cmp::Ordering;

use super::{Node, RevData, RevTree};
use crate::error::{Error, Result};
use crate::mark;
use crate::vocabulary::{Rev, RevPath};

/// What a merge did to a tree.
///
/// ```
/// use rereduce::doc::{MergeKind, Merged};
/// let merged = Merged { kind: MergeKind::Known, changed: false };
/// assert_ne!(merged.kind, MergeKind::NewLeaf);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// How the path's newest revision stands to what was there.
    pub kind: MergeKind,
    /// Whether the tree is another one now: a path whose revision is known may still bring its
    /// data or older ancestors.
    pub changed: bool,
}

/// How a merged revision stands to the tree as it was.
///
/// ```
/// use rereduce::doc::MergeKind;
/// assert_ne!(MergeKind::NewLeaf, MergeKind::NewBranch);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    /// It is new and extends a leaf, or is the first of all: no conflict arises.
    NewLeaf,
    /// It is new and extends an inner revision or nothing that is known: one more leaf.
    NewBranch,
    /// It was known before, as a leaf or as somebody's ancestor.
    Known,
}

impl<L: RevData> RevTree<L> {
    /// Adds a revision with its ancestors. Data that is there already stays.
    ///
    /// Fails with [`Error::BadInput`] for a path that is empty or has more ids than generations.
    /// Takes time linear in the tree and the path.
    // spec: REVTREE-1, REVTREE-2, REVTREE-3
    pub fn merge(&mut self, path: &RevPath, data: L) -> Result<Merged> {
        let (newest, other) = RevTree::of_path(path, data)?;
        let other = self.misread(other);
        let kind = self.kind_of(&newest, path);
        if self.is_empty() {
            // Most documents begin here, a thousand in a batch.
            *self = other;
            return Ok(Merged { kind, changed: true });
        }
        let changed = self.unite(&other);
        Ok(Merged { kind, changed })
    }

    /// Adds all revisions of one batch and only then forgets what lies beyond `revs_limit`: to
    /// forget in between would make the outcome depend on how revisions are batched.
    ///
    /// On an error the tree is unchanged.
    // spec: REVTREE-4
    pub fn merge_all(
        &mut self,
        revisions: impl IntoIterator<Item = (RevPath, L)>,
        revs_limit: u32,
    ) -> Result<Vec<Merged>> {
        // All are checked before the first one is merged.
        let mut checked = Vec::new();
        for (path, data) in revisions {
            let (newest, tree) = RevTree::of_path(&path, data)?;
            checked.push((newest, path, tree));
        }
        let stems_first = mark::planted("revtree-stem-before-merge");
        if stems_first {
            self.stem(revs_limit);
        }
        let outcomes = checked.into_iter().map(|(newest, path, tree)| {
            let tree = self.misread(tree);
            let kind = self.kind_of(&newest, &path);
            Merged { kind, changed: self.unite(&tree) }
        });
        let outcomes = outcomes.collect();
        if !stems_first {
            self.stem(revs_limit);
        }
        Ok(outcomes)
    }

    /// Adds everything that `other` knows, and returns whether that was news.
    // spec: REVTREE-1
    pub fn unite(&mut self, other: &RevTree<L>) -> bool {
        let (node_count, link_count) = (self.nodes.len(), self.links.len());
        let mut filled = false;
        let mut nodes = Vec::with_capacity(node_count + other.nodes.len());
        let (mut own_moved, mut other_moved) = (Vec::new(), Vec::new());
        let mut own = std::mem::take(&mut self.nodes).into_iter().peekable();
        let mut others = other.nodes.iter().peekable();
        loop {
            let order = match (own.peek(), others.peek()) {
                (Some(one), Some(two)) => one.rev.cmp(&two.rev),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            // A tree of 2^32 revisions would not fit into memory.
            let position = nodes.len() as u32;
            let mine = if order.is_le() { own.next() } else { None };
            let theirs = if order.is_ge() { others.next() } else { None };
            own_moved.extend(mine.is_some().then_some(position));
            other_moved.extend(theirs.is_some().then_some(position));
            let mut node = match (mine, theirs) {
                (Some(mine), _) => mine,
                (None, Some(theirs)) => theirs.clone(),
                (None, None) => break,
            };
            let replaces = mark::planted("revtree-merge-replaces-data");
            if let Some(Node { data: Some(data), .. }) = theirs
                && (node.data.is_none() || replaces)
            {
                filled = true;
                node.data = Some(data.clone());
            }
            nodes.push(node);
        }
        self.nodes = nodes;
        let moved = |map: &[u32], &(child, parent): &(u32, u32)| {
            Some((*map.get(child as usize)?, *map.get(parent as usize)?))
        };
        let mut links: Vec<(u32, u32)> =
            self.links.iter().filter_map(|link| moved(&own_moved, link)).collect();
        links.extend(other.links.iter().filter_map(|link| moved(&other_moved, link)));
        links.sort_unstable();
        links.dedup();
        self.links = links;
        // Each part only grows, so equal sizes mean equal parts. (New data for a revision that was
        // already there is the one change that sizes do not show.)
        filled || self.nodes.len() != node_count || self.links.len() != link_count
    }

    /// Forgets the revisions that are `revs_limit` or more generations above every leaf below
    /// them, and returns how many. Leaves always stay.
    // spec: REVTREE-4
    pub fn stem(&mut self, revs_limit: u32) -> usize {
        if self.nodes.len() <= revs_limit as usize {
            return 0;
        }
        let mut distances: Vec<Option<u32>> = vec![None; self.nodes.len()];
        // Children stand behind their parents, so going backwards every node is final when its
        // link is followed. (Links are ascending by child.)
        for &(child, parent) in self.links.iter().rev() {
            let through = distances.get(child as usize).copied().flatten().unwrap_or(0) + 1;
            if let Some(distance) = distances.get_mut(parent as usize) {
                let before = distance.unwrap_or(through);
                *distance = Some(if mark::planted("revtree-stem-by-farthest-leaf") {
                    before.max(through)
                } else {
                    before.min(through)
                });
            }
        }
        let limit = revs_limit.max(1);
        let kept: Vec<bool> =
            distances.iter().map(|distance| distance.unwrap_or(0) < limit).collect();
        let dropped = kept.iter().filter(|&&keep| !keep).count();
        if dropped > 0 {
            mark::hit("revtree-stemmed");
            self.retain(&kept);
        }
        dropped
    }

    /// Removes those of `revs` that are leaves, with all ancestors that no other leaf has, and
    /// returns them in the order given.
    // spec: REVTREE-8
    pub fn purge(&mut self, revs: &[Rev]) -> Vec<Rev> {
        let leaves = self.leaf_flags();
        let mut kept = leaves.clone();
        let mut purged = Vec::new();
        for rev in revs {
            let Some(position) = self.position(rev) else { continue };
            // A position in `nodes`, still set only for a leaf that was not purged yet.
            if std::mem::take(&mut kept[position]) {
                purged.push(rev.clone());
            }
        }
        if purged.is_empty() {
            return purged;
        }
        for &(child, parent) in self.links.iter().rev() {
            // Links hold positions in `nodes`.
            if kept[child as usize] && !mark::planted("revtree-purge-takes-shared-ancestors") {
                kept[parent as usize] = true;
            }
        }
        self.retain(&kept);
        purged
    }

    /// The tree of one path, with its newest revision.
    fn of_path(path: &RevPath, data: L) -> Result<(Rev, RevTree<L>)> {
        let (Some(newest), Some(_)) = (path.newest(), path.oldest_generation()) else {
            return Err(Error::BadInput {
                what: "revision path",
                got: format!("start {} with {} ids", path.start, path.ids.len()),
                expected: "at least one id and no more ids than generations",
            });
        };
        let mut nodes: Vec<Node<L>> = path.revs().map(|rev| Node { rev, data: None }).collect();
        if let Some(node) = nodes.first_mut() {
            node.data = Some(data);
        }
        nodes.reverse();
        let links = (1..nodes.len() as u32).map(|child| (child, child - 1)).collect();
        Ok((newest, RevTree { nodes, links }))
    }

    fn kind_of(&self, newest: &Rev, path: &RevPath) -> MergeKind {
        if self.position(newest).is_some() {
            return MergeKind::Known;
        }
        let attached = path.revs().find_map(|rev| self.position(&rev));
        match attached {
            Some(position) if self.leaf_flags().get(position) == Some(&true) => MergeKind::NewLeaf,
            None if self.is_empty() => MergeKind::NewLeaf,
            _ => MergeKind::NewBranch,
        }
    }

    /// What a merge with a planted bug takes the path for; the path itself otherwise.
    fn misread(&self, mut path: RevTree<L>) -> RevTree<L> {
        if mark::planted("revtree-first-root-only")
            && let Some(first) = self.nodes.first()
            && path.position(&first.rev).is_none()
        {
            let newest = path.nodes.len().saturating_sub(1);
            let kept: Vec<bool> = (0..path.nodes.len()).map(|index| index == newest).collect();
            path.retain(&kept);
        }
        if mark::planted("revtree-identity-by-hash") {
            let known = |rev: &Rev| self.nodes.iter().any(|node| node.rev.id == rev.id);
            let kept: Vec<bool> = path
                .nodes
                .iter()
                .map(|node| self.position(&node.rev).is_some() || !known(&node.rev))
                .collect();
            path.retain(&kept);
        }
        path
    }
}
