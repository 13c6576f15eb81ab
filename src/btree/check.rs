//! Checking a tree: every invariant, recomputed from the rows.
//!
//! Nothing that applying edits relies on is believed here: sizes, counts, keys and reductions are
//! computed again from the bottom up, and compared with what stands in the nodes.
//!
//! Invariant: damage ends the check of one subtree only, so everything else that is wrong under
//! this root is found too. Memory: one node per level.

use super::build::{Builder, Nowhere, trusted_edits_max};
use super::cache::NodeSource;
use super::node::{Node, header_size, row_size};
use super::{Shape, Tree};
use crate::error::{Error, Result};
use crate::file::Pointer;
use crate::mark;

/// What a check found.
///
/// ```
/// use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
/// use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let shape = Shape::default();
/// let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &[Edit::put("a", "1")])?;
/// let checked = tree.check(&CachedNodes::new(&chunks, &cache), &shape)?;
/// assert!(checked.violations.is_empty());
/// assert_eq!((checked.rows, checked.leaves, checked.inner_nodes), (1, 1, 0));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Rows found.
    pub rows: u64,
    /// Leaves found.
    pub leaves: u64,
    /// Inner nodes found.
    pub inner_nodes: u64,
    /// Payload bytes of all nodes found.
    pub node_bytes: u64,
    /// Everything that is not as it should be.
    pub violations: Vec<Violation>,
}

/// One broken rule, and where.
///
/// ```
/// # use rereduce::btree::{CachedNodes, NodeCache, Rule, Shape, Tree, TreeOptions};
/// # use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// # let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// # let shape = Shape::default();
/// let edits = [Edit::put("a", "1"), Edit::put("b", "2"), Edit::put("c", "3")];
/// let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits)?;
/// // Judged by other limits than it was made with, the tree is wrong.
/// let options = TreeOptions { fan_out_max: 2, ..TreeOptions::default() };
/// let strict = Shape { options, ..shape.clone() };
/// let checked = tree.check(&CachedNodes::new(&chunks, &cache), &strict)?;
/// assert!(matches!(checked.violations[0].rule, Rule::TooLarge { count: 3, .. }));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Violation {
    /// The node at which it shows.
    pub pointer: Pointer,
    /// What is wrong there.
    pub rule: Rule,
}

/// What can be wrong with a node.
///
/// ```
/// let rule = rereduce::btree::Rule::TooHigh { height: 5, fresh: 3 };
/// assert_eq!(format!("{rule:?}"), "TooHigh { height: 5, fresh: 3 }");
/// ```
#[derive(Clone, Debug)]
pub enum Rule {
    /// The bytes are no node, or not those that were written.
    Damaged(Error),
    /// The node is not on the level below its parent's.
    Level {
        /// The level it should be on.
        expected: u8,
        /// The level it says.
        got: u8,
    },
    /// A key is not greater than the one before it, or not smaller than the next separator.
    KeyOrder,
    /// The key that the parent has is not the smallest below the node.
    Separator,
    /// The parent's counts (entries, rows, bytes) are not those of the node.
    Counts,
    /// The parent's reduction is not that of the rows.
    Reduction,
    /// The node is over the limits, and has more entries than it needs.
    TooLarge {
        /// Entries in the node.
        count: usize,
        /// Its size in bytes.
        size: usize,
    },
    /// The node and the next under the same parent would fit into one.
    NeighboursFit,
    /// The root is an inner node with one child.
    OneChildRoot,
    /// The tree is more than one level higher than one built afresh, and should know.
    TooHigh {
        /// Its height.
        height: u32,
        /// The height of a tree built afresh.
        fresh: u32,
    },
    /// What the root remembers to bound its height (the weight of the rows, the shortest key, how
    /// long it trusts a height) is not so.
    Memory,
}

/// What was computed for a subtree.
struct Found {
    count: usize,
    entry_bytes: usize,
    rows: u64,
    bytes: u64,
    reduction: Vec<u8>,
}

struct Checking<'a> {
    nodes: &'a dyn NodeSource,
    shape: &'a Shape,
    checked: Checked,
    fresh: Builder,
    weight: u64,
    key_bytes_min: u64,
}

impl Tree {
    /// Checks every invariant of the tree. Reads every node.
    ///
    /// Damage is a finding, not an error: the check goes on behind it. Errors: [`Error::Io`], and
    /// what the reducer says.
    // spec: BTREE-5, BTREE-6, BTREE-7, BTREE-10
    pub fn check(&self, nodes: &dyn NodeSource, shape: &Shape) -> Result<Checked> {
        let mut checking = Checking {
            nodes,
            shape,
            checked: Checked::default(),
            fresh: Builder::new(shape),
            weight: 0,
            key_bytes_min: u64::MAX,
        };
        let Some(root) = &self.root else { return Ok(checking.checked) };
        let Some(found) = checking.subtree(root.pointer, root.level, None, None)? else {
            return Ok(checking.checked);
        };
        let pointer = root.pointer;
        if root.level > 0 && found.count == 1 {
            checking.report(pointer, Rule::OneChildRoot);
        }
        checking.compare(pointer, &found, (root.count, root.rows, root.bytes, &root.reduction));
        let memory = &root.memory;
        if memory.weight != checking.weight
            || memory.key_bytes_min > checking.key_bytes_min
            || memory.trusted_edits > trusted_edits_max(root.rows)
        {
            checking.report(pointer, Rule::Memory);
        }
        let Checking { mut checked, fresh, .. } = checking;
        let (height, fresh) = (self.height(), fresh.finish(&mut Nowhere)?.height());
        // What a fresh tree's height was is good enough for as long as it is trusted.
        if height > fresh.max(memory.trusted_height()) + 1 {
            let rule = Rule::TooHigh { height, fresh };
            checked.violations.push(Violation { pointer, rule });
        }
        Ok(checked)
    }
}

impl Checking<'_> {
    fn report(&mut self, pointer: Pointer, rule: Rule) {
        self.checked.violations.push(Violation { pointer, rule });
    }

    /// Checks the node at `pointer` and everything below it; `None` if something there cannot be
    /// believed, so that nothing can be said about its parents' numbers.
    ///
    /// Keys must begin at `smallest` and stay below `limit`. A node that does not is not entered:
    /// so no node is entered twice, whatever pointers say, and the check ends.
    fn subtree(
        &mut self,
        pointer: Pointer,
        level: u8,
        smallest: Option<&[u8]>,
        limit: Option<&[u8]>,
    ) -> Result<Option<Found>> {
        let node = match self.nodes.node(pointer) {
            Ok(node) => node,
            Err(error) if error.is_corrupt() => {
                self.report(pointer, Rule::Damaged(error));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if node.level() != level {
            self.report(pointer, Rule::Level { expected: level, got: node.level() });
            return Ok(None);
        }
        if smallest.is_some_and(|key| key != node.key(0)) {
            self.report(pointer, Rule::Separator);
            return Ok(None);
        }
        if limit.is_some_and(|limit| node.key(node.count() - 1) >= limit) {
            self.report(pointer, Rule::KeyOrder);
            return Ok(None);
        }
        self.checked.node_bytes += node.size() as u64;
        let found = match node.is_leaf() {
            true => Some(self.leaf(&node)?),
            false => self.inner(pointer, &node, limit)?,
        };
        if let Some(found) = &found {
            let (count, size) = (found.count, header_size(found.count) + found.entry_bytes);
            if !self.may_be_one(level, found.count, found.entry_bytes) {
                self.report(pointer, Rule::TooLarge { count, size });
            }
        }
        Ok(found)
    }

    fn leaf(&mut self, leaf: &Node) -> Result<Found> {
        self.checked.leaves += 1;
        let rows: Vec<(&[u8], &[u8])> = (0..leaf.count()).map(|index| leaf.row(index)).collect();
        let mut bytes = 0;
        for &(key, value) in &rows {
            self.checked.rows += 1;
            self.fresh.push(&mut Nowhere, key, value)?;
            let size = row_size(key, value);
            bytes += size;
            let most = self.shape.options.node_bytes_max.saturating_sub(2).max(1);
            self.weight += size.min(most) as u64;
            self.key_bytes_min = self.key_bytes_min.min(key.len() as u64);
        }
        let mut reduction = Vec::new();
        self.shape.reducer.reduce(&rows, &mut reduction)?;
        Ok(Found {
            count: rows.len(),
            entry_bytes: bytes,
            rows: rows.len() as u64,
            bytes: bytes as u64,
            reduction,
        })
    }

    fn inner(
        &mut self,
        pointer: Pointer,
        node: &Node,
        limit: Option<&[u8]>,
    ) -> Result<Option<Found>> {
        self.checked.inner_nodes += 1;
        let (mut rows, mut bytes, mut whole) = (0, 0, true);
        let mut reductions = Vec::with_capacity(node.count());
        let mut before: Option<(Pointer, usize, usize)> = None;
        for index in 0..node.count() {
            let child = node.child(index);
            let next = if index + 1 < node.count() { Some(node.key(index + 1)) } else { limit };
            let found = self.subtree(child.pointer, node.level() - 1, Some(child.key), next)?;
            if let (Some((pointer, count, size)), Some(found)) = (before, &found)
                && self.may_be_one(node.level() - 1, count + found.count, size + found.entry_bytes)
            {
                self.report(pointer, Rule::NeighboursFit);
            }
            before = found.as_ref().map(|found| (child.pointer, found.count, found.entry_bytes));
            let Some(found) = found else {
                whole = false;
                continue;
            };
            let stated = (child.count, child.rows, child.bytes, child.reduction);
            self.compare(child.pointer, &found, stated);
            rows += found.rows;
            bytes += found.bytes;
            reductions.push(found.reduction);
        }
        if !whole {
            return Ok(None);
        }
        let parts: Vec<&[u8]> = reductions.iter().map(Vec::as_slice).collect();
        let mut reduction = Vec::new();
        self.shape.reducer.rereduce(&parts, &mut reduction)?;
        let entry_bytes = pointer.length() - header_size(node.count());
        Ok(Some(Found { count: node.count(), entry_bytes, rows, bytes, reduction }))
    }

    /// Compares what a parent states about a node with what was found.
    fn compare(
        &mut self,
        pointer: Pointer,
        found: &Found,
        (count, rows, bytes, reduction): (u64, u64, u64, &[u8]),
    ) {
        if (found.count as u64, found.rows, found.bytes) != (count, rows, bytes) {
            self.report(pointer, Rule::Counts);
        }
        if found.reduction != reduction && !mark::planted("check-believes-reductions") {
            self.report(pointer, Rule::Reduction);
        }
    }

    /// Whether these entries may stand in one node, from the words of the rule.
    fn may_be_one(&self, level: u8, count: usize, entry_bytes: usize) -> bool {
        let options = &self.shape.options;
        if count <= 1 || (level > 0 && count == 2) {
            return true;
        }
        count <= options.fan_out_max.max(2)
            && header_size(count) + entry_bytes <= options.node_bytes_max
    }
}
