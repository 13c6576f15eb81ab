//! Reductions of ranges, and of the groups in them.
//!
//! ```text
//! inner          [ A | B | C | D ]        range:   ......<============>.....
//!                  .   #   #   .                      A      B  C    D
//! ```
//! B and C lie wholly inside, so their reductions stand in the parent; only A and D are read, and
//! so on down: two nodes a level at most.
//!
//! Invariant: the parts are put together in key order and each row is in exactly one of them, so a
//! reducer that keeps to its laws gives what it gives for all rows at once; any other gives the
//! result of some bracketing of the range in order.

use std::ops::{Bound, ControlFlow};

use super::cache::NodeSource;
use super::node::Node;
use super::read::open;
use super::{Shape, Tree};
use crate::error::Result;
use crate::mark;
use crate::vocabulary::{Direction, KeyRange};

/// Called for each group with the key of its first row (in the direction of the query) and its
/// reduction; [`ControlFlow::Break`] ends the query.
pub type VisitGroup<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// A stretch of consecutive keys.
struct Window<'a> {
    /// The first entry of a node whose key is not before the stretch.
    first: &'a dyn Fn(&Node) -> usize,
    /// The first entry of a node whose key is behind the stretch.
    end: &'a dyn Fn(&Node) -> usize,
    /// Whether all keys below this one are inside as far as the high end is concerned.
    all_below: &'a dyn Fn(&[u8]) -> bool,
    /// Whether the stretch goes on to the last key of the tree, whatever that is.
    open_ended: bool,
}

/// The parts of a stretch, in key order: their reductions, one behind the other.
#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Parts {
    fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        // Reducers are handed an empty buffer.
        let mut part = Vec::new();
        fill(&mut part)?;
        self.bytes.extend_from_slice(&part);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn copy(&mut self, reduction: &[u8]) {
        self.bytes.extend_from_slice(reduction);
        self.ends.push(self.bytes.len());
    }

    fn finish(self, shape: &Shape) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match self.ends.len() {
            0 => shape.reducer.reduce(&[], &mut out)?,
            1 => return Ok(self.bytes),
            _ => {
                let starts = std::iter::once(0).chain(self.ends.iter().copied());
                let spans = starts.zip(self.ends.iter().copied());
                // Ends were pushed in ascending order, each the length at its time.
                let parts: Vec<&[u8]> = spans.map(|(start, end)| &self.bytes[start..end]).collect();
                shape.reducer.rereduce(&parts, &mut out)?;
            }
        }
        Ok(out)
    }
}

impl Tree {
    /// What the rows of `range` reduce to. Reads at most two nodes a level, and none that lie
    /// wholly inside.
    ///
    /// Errors: as the nodes and the reducer say.
    // spec: BTREE-5, BTREE-11
    pub fn reduce(
        &self,
        nodes: &dyn NodeSource,
        shape: &Shape,
        range: &KeyRange,
    ) -> Result<Vec<u8>> {
        if let (Some(root), Bound::Unbounded, Bound::Unbounded) =
            (&self.root, &range.start, &range.end)
        {
            return Ok(root.reduction.clone());
        }
        let window = Window {
            first: &|node| node.first_from(&range.start),
            end: &|node| node.first_behind(&range.end),
            all_below: &|key| all_below_are_before_end(range, key),
            open_ended: range.end == Bound::Unbounded,
        };
        self.fold(nodes, shape, &window)
    }

    fn fold(&self, nodes: &dyn NodeSource, shape: &Shape, window: &Window<'_>) -> Result<Vec<u8>> {
        let mut parts = Parts::default();
        if let Some(root) = self.open_root(nodes)? {
            fold_below(nodes, shape, &root, None, window, &mut parts)?;
        }
        parts.finish(shape)
    }

    /// Reduces the rows of `range` by groups: rows that follow one another and whose keys agree
    /// up to `cut`, which says how many bytes of a key name its group. Visits the groups in
    /// `direction`.
    ///
    /// Reads at most three nodes a level for each group. `cut` must keep groups together: keys of
    /// one group must follow one another in key order.
    // spec: BTREE-12
    pub fn groups(
        &self,
        nodes: &dyn NodeSource,
        shape: &Shape,
        range: &KeyRange,
        direction: Direction,
        cut: &dyn Fn(&[u8]) -> usize,
        visit: &mut VisitGroup<'_>,
    ) -> Result<()> {
        let group_of = |key: &[u8]| -> Vec<u8> { key.get(..cut(key)).unwrap_or(key).to_vec() };
        let same = |group: &[u8], key: &[u8]| key.get(..cut(key)).unwrap_or(key) == group;
        let mut next = match direction {
            Direction::Ascending => self.first_key(nodes, &|key| range.after_start(key))?,
            Direction::Descending => self.last_key(nodes, &|key| range.before_end(key))?,
        };
        while let Some(edge) = next.filter(|key| range.contains(key)) {
            let group = group_of(&edge);
            let here = |key: &[u8]| same(&group, key);
            let ends = |key: &[u8]| range.before_end(key) || mark::planted("group-leaves-range");
            // Groups are contiguous, so beyond the edge the group itself is the other bound.
            let reduction = match direction {
                Direction::Ascending => {
                    let inside = |key: &[u8]| key <= &edge[..] || (here(key) && ends(key));
                    let window = Window {
                        first: &|node| node.partition_point(|key| key < &edge[..]),
                        end: &|node| node.partition_point(inside),
                        all_below: &inside,
                        open_ended: false,
                    };
                    let reduction = self.fold(nodes, shape, &window)?;
                    next = self.first_key(nodes, &|key| !inside(key))?;
                    reduction
                }
                Direction::Descending => {
                    let inside =
                        |key: &[u8]| key >= &edge[..] || (here(key) && range.after_start(key));
                    let window = Window {
                        first: &|node| node.partition_point(|key| !inside(key)),
                        end: &|node| node.partition_point(|key| key <= &edge[..]),
                        all_below: &|key| key <= &edge[..],
                        open_ended: false,
                    };
                    let reduction = self.fold(nodes, shape, &window)?;
                    next = self.last_key(nodes, &|key| !inside(key))?;
                    reduction
                }
            };
            if visit(&edge, &reduction)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The smallest key for which `inside` holds, which turns from false to true along the keys.
    /// Reads at most one node a level: a child's key is the smallest below it.
    fn first_key(
        &self,
        nodes: &dyn NodeSource,
        inside: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        let mut next = self.open_root(nodes)?;
        while let Some(node) = next.take() {
            let index = node.partition_point(|key| !inside(key));
            if index < node.count() {
                found = Some(node.key(index).to_vec());
            }
            if !node.is_leaf() && index > 0 {
                next = Some(open(nodes, &node, index - 1)?);
            }
        }
        Ok(found)
    }

    /// The greatest key for which `inside` holds, which turns from true to false along the keys.
    /// Reads one node a level.
    fn last_key(
        &self,
        nodes: &dyn NodeSource,
        inside: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        let Some(mut node) = self.open_root(nodes)? else { return Ok(None) };
        loop {
            let Some(index) = node.partition_point(inside).checked_sub(1) else {
                return Ok(None);
            };
            if node.is_leaf() {
                return Ok(Some(node.key(index).to_vec()));
            }
            node = open(nodes, &node, index)?;
        }
    }
}

/// Whether every key smaller than `bound` is before the end of `range`.
fn all_below_are_before_end(range: &KeyRange, bound: &[u8]) -> bool {
    match &range.end {
        Bound::Included(end) | Bound::Excluded(end) => {
            if mark::planted("reduce-end-off-by-one") {
                return range.before_end(bound) || bound > end.as_slice();
            }
            bound <= end.as_slice()
        }
        Bound::Unbounded => true,
    }
}

/// Adds the parts of `window` that lie below `node`. `limit` is a key that all keys below the node
/// are smaller than, or `None` at the end of the tree.
fn fold_below(
    nodes: &dyn NodeSource,
    shape: &Shape,
    node: &Node,
    limit: Option<&[u8]>,
    window: &Window<'_>,
    parts: &mut Parts,
) -> Result<()> {
    let (first, end) = ((window.first)(node), (window.end)(node));
    if node.is_leaf() {
        if first < end {
            let rows: Vec<(&[u8], &[u8])> = (first..end).map(|index| node.row(index)).collect();
            parts.push(|part| shape.reducer.reduce(&rows, part))?;
        }
        return Ok(());
    }
    // The child before the first key inside may reach into the window, the last one beyond it. What
    // is between them is wholly inside, because the next child begins inside.
    for index in first.saturating_sub(1)..end {
        let ends_inside = index + 1 < end
            || match index + 1 < node.count() {
                true => (window.all_below)(node.key(index + 1)),
                false => limit.map_or(window.open_ended, window.all_below),
            };
        if index >= first && ends_inside {
            parts.copy(node.child(index).reduction);
        } else {
            let next = if index + 1 < node.count() { Some(node.key(index + 1)) } else { limit };
            let child = open(nodes, node, index)?;
            fold_below(nodes, shape, &child, next, window, parts)?;
        }
    }
    Ok(())
}
