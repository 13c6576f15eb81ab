//! What differs between two trees of one file.
//!
//! Trees that followed from one another share all nodes that did not change. Both are walked side
//! by side; where they hold the same pointer, everything below is equal and nothing is read.
//!
//! Invariant: of the two walks the one that is behind moves, and a node is opened only if the other
//! walk does not stand at the very same node. So what is read is what changed, and its neighbours
//! in the same parents.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Tree;
use super::cache::NodeSource;
use super::node::Node;
use super::read::open;
use crate::error::Result;
use crate::file::Pointer;
use crate::mark;

/// Called for each key that differs, in key order, with the old and the new value;
/// [`ControlFlow::Break`] ends the comparison.
pub type VisitDifference<'a> =
    dyn FnMut(&[u8], Option<&[u8]>, Option<&[u8]>) -> Result<ControlFlow<()>> + 'a;

/// Visits each key whose value differs between `old` and `new`, ascending: with both values if it
/// was replaced, with one if it was added or removed.
///
/// Both trees must lie in the file of `nodes`. Cost: proportional to the nodes that differ, and
/// their heights may differ too.
///
/// ```
/// use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree, diff};
/// use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// use std::ops::ControlFlow;
/// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let shape = Shape::default();
/// let old = Tree::empty().apply(&mut chunks, &cache, &shape, &[Edit::put("a", "1")])?;
/// let new = old.apply(&mut chunks, &cache, &shape, &[Edit::put("b", "2")])?;
/// let mut seen = Vec::new();
/// diff(&old, &new, &CachedNodes::new(&chunks, &cache), &mut |key, old, new| {
///     seen.push((key.to_vec(), old.is_some(), new.is_some()));
///     Ok(ControlFlow::Continue(()))
/// })?;
/// assert_eq!(seen, [(b"b".to_vec(), false, true)]);
/// # Ok::<(), rereduce::Error>(())
/// ```
// spec: BTREE-13
pub fn diff(
    old: &Tree,
    new: &Tree,
    nodes: &dyn NodeSource,
    visit: &mut VisitDifference<'_>,
) -> Result<()> {
    if old.root() == new.root() {
        return Ok(());
    }
    let (mut old, mut new) = (Walk::begin(old, nodes)?, Walk::begin(new, nodes)?);
    loop {
        let order = match (old.at(), new.at()) {
            (None, None) => return Ok(()),
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(left), Some(right)) => left.key.cmp(right.key),
        };
        let step = match order {
            Ordering::Less => old.step_alone(nodes, |key, value| visit(key, Some(value), None))?,
            Ordering::Greater => {
                new.step_alone(nodes, |key, value| visit(key, None, Some(value)))?
            }
            Ordering::Equal => step_together(&mut old, &mut new, nodes, visit)?,
        };
        if step.is_break() {
            return Ok(());
        }
    }
}

/// Both walks stand at the same key: skips what is the same node, opens what is higher, compares
/// rows.
fn step_together(
    old: &mut Walk,
    new: &mut Walk,
    nodes: &dyn NodeSource,
    visit: &mut VisitDifference<'_>,
) -> Result<ControlFlow<()>> {
    let (Some(left), Some(right)) = (old.at(), new.at()) else {
        return Ok(ControlFlow::Continue(()));
    };
    match left.level().cmp(&right.level()) {
        Ordering::Greater => {
            if mark::planted("diff-skips-other-height") {
                old.skip();
            } else {
                old.open(nodes)?;
            }
        }
        Ordering::Less => new.open(nodes)?,
        Ordering::Equal if left.below.is_some() => {
            if left.below == right.below {
                mark::hit("btree-diff-skipped");
                old.skip();
                new.skip();
            } else {
                old.open(nodes)?;
                new.open(nodes)?;
            }
        }
        Ordering::Equal => {
            let mut step = ControlFlow::Continue(());
            if left.value != right.value {
                step = visit(left.key, Some(left.value), Some(right.value))?;
            }
            old.skip();
            new.skip();
            return Ok(step);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A walk over a tree that can pass by whole subtrees.
struct Walk {
    /// The way down from the root: nodes, and where in each the walk stands.
    frames: Vec<(Arc<Node>, usize)>,
}

/// Where a walk stands: at a row, or in front of a subtree whose smallest key is `key`.
struct At<'a> {
    key: &'a [u8],
    value: &'a [u8],
    /// The subtree's root and its level, which is that of the rows plus one or more.
    below: Option<(Pointer, u8)>,
}

impl At<'_> {
    fn level(&self) -> u8 {
        self.below.map_or(0, |(_, level)| level)
    }
}

impl Walk {
    fn begin(tree: &Tree, nodes: &dyn NodeSource) -> Result<Walk> {
        Ok(Walk { frames: tree.open_root(nodes)?.map(|root| (root, 0)).into_iter().collect() })
    }

    fn at(&self) -> Option<At<'_>> {
        let (node, index) = self.frames.last()?;
        Some(if node.is_leaf() {
            let (key, value) = node.row(*index);
            At { key, value, below: None }
        } else {
            let child = node.child(*index);
            At { key: child.key, value: &[], below: Some((child.pointer, node.level())) }
        })
    }

    /// Goes on behind the row or the subtree.
    fn skip(&mut self) {
        while let Some((node, index)) = self.frames.last_mut() {
            *index += 1;
            if *index < node.count() {
                return;
            }
            self.frames.pop();
        }
    }

    /// Goes down into the subtree.
    fn open(&mut self, nodes: &dyn NodeSource) -> Result<()> {
        let Some((node, index)) = self.frames.last() else { return Ok(()) };
        let child = open(nodes, node, *index)?;
        self.frames.push((child, 0));
        Ok(())
    }

    /// Visits the row, or goes down into the subtree: the other walk is further on.
    fn step_alone(
        &mut self,
        nodes: &dyn NodeSource,
        visit: impl FnOnce(&[u8], &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let Some(at) = self.at() else { return Ok(ControlFlow::Continue(())) };
        if at.below.is_some() {
            self.open(nodes)?;
            return Ok(ControlFlow::Continue(()));
        }
        let step = visit(at.key, at.value)?;
        self.skip();
        Ok(step)
    }
}
