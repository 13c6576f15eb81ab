//! Rows by their number: how many come before a key, and which one is the n-th.
//!
//! ```text
//! inner      [ "a" 3 rows | "k" 3 rows ]      rows before "p": 3, and 1 in the leaf of "k"
//! ```
//!
//! Invariant: one node a level is read, because each inner node says how many rows its children
//! have.

use std::ops::Bound;

use super::Tree;
use super::cache::NodeSource;
use super::read::open;
use crate::error::Result;
use crate::mark;

impl Tree {
    /// How many rows have a key smaller than `key`. Reads one node a level.
    ///
    /// ```
    /// use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
    /// use rereduce::{file::MemoryChunks, vocabulary::Edit};
    /// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
    /// let edits = ["a", "c", "e"].map(|key| Edit::put(key, ""));
    /// let tree = Tree::empty().apply(&mut chunks, &cache, &Shape::default(), &edits)?;
    /// let nodes = CachedNodes::new(&chunks, &cache);
    /// assert_eq!((tree.rows_before(&nodes, b"c")?, tree.rows_before(&nodes, b"d")?), (1, 2));
    /// assert_eq!(tree.key_at(&nodes, 2)?, Some(b"e".to_vec()));
    /// # Ok::<(), rereduce::Error>(())
    /// ```
    // spec: BTREE-15
    pub fn rows_before(&self, nodes: &dyn NodeSource, key: &[u8]) -> Result<u64> {
        let mut before = 0;
        let Some(mut node) = self.open_root(nodes)? else { return Ok(0) };
        while !node.is_leaf() {
            let index = node.route(key);
            before += (0..index).map(|index| node.child(index).rows).sum::<u64>();
            node = open(nodes, &node, index)?;
        }
        let here = node.first_from(&Bound::Included(key.to_vec()));
        let here = if mark::planted("rank-counts-the-key") { here + 1 } else { here };
        Ok(before + here as u64)
    }

    /// The key of the row that has `before` rows before it, or `None` if there are not so many.
    /// Reads one node a level.
    // spec: BTREE-15
    pub fn key_at(&self, nodes: &dyn NodeSource, mut before: u64) -> Result<Option<Vec<u8>>> {
        if before >= self.row_count() {
            return Ok(None);
        }
        let Some(mut node) = self.open_root(nodes)? else { return Ok(None) };
        while !node.is_leaf() {
            let mut index = 0;
            while index + 1 < node.count() && node.child(index).rows <= before {
                before -= node.child(index).rows;
                index += 1;
            }
            node = open(nodes, &node, index)?;
        }
        // The counts add up to the tree's, as `open` compared, so the leaf has the row.
        let index = usize::try_from(before).ok().filter(|index| *index < node.count());
        Ok(index.map(|index| node.key(index).to_vec()))
    }
}
