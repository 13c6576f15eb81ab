//! Applying edits: which nodes change, from the leaves up.
//!
//! A batch goes down the tree once: every node takes the edits for its keys, every child that
//! changed comes back as a list of entries, and the lists are settled into nodes ([`settle`]).
//! Nothing is written before the new root stands, so each new node is written exactly once.
//!
//! [`settle`]: super::settle
//!
//! Invariant: the tree that comes out is within one level of the height of a tree built afresh
//! ([`Tree::bounded`]), and a batch that changes nothing appends nothing.
//!
//! # What the height bound costs
//! Two neighbours hold more than one node's worth, so nodes are a third full on average even in
//! the worst tree, and heights drift from the fresh one only slowly: with 30 children a node, up to
//! some 10^6 leaves by no more than the level that is allowed.
//! `fresh_height_min` gives a lower bound from a few
//! numbers that the root carries, without reading; it excludes nearly all trees. What is left (keys
//! of very mixed lengths, tiny fan-outs) is settled by streaming the rows through a builder that
//! writes nothing. A tree of at least 1,024 rows then trusts the outcome until an eighth of them
//! has changed, so a changed row costs at most the reading of eight others, and only in such trees.
//! A tree that is too high is built afresh, at the cost of writing it once. A fresh tree is two
//! levels away from that: with f children a node and height h its root splits twice after some
//! (f/2)^h edits, so building it costs an edit the writing of 2^h rows (32 at f = 30 and 7 million
//! leaves), if the worst case ever comes. At fan-outs of 2 or 3, which only tests use, it comes
//! every few batches.

use std::ops::Range;
use std::sync::Arc;

use super::build::{Builder, Nowhere, trust};
use super::cache::{CachedNodes, NodeCache, NodeSource};
use super::node::{LEVEL_MAX, Node, row_size};
use super::read::Cursor;
use super::settle::{Applying, Change, EDITS, Entry, List, Summary};
use super::{HeightMemory, Root, Shape, Tree};
use crate::error::{Error, Result};
use crate::file::ChunkSink;
use crate::mark;
use crate::vocabulary::{Direction, Edit, KeyRange};

/// The largest row: far below what a chunk can hold.
const ROW_BYTES_MAX: usize = 1 << 30;

impl Tree {
    /// The tree with `edits` made, in any order; if a key occurs twice, the last edit wins.
    ///
    /// Appends every node that changed exactly once, children before parents. A batch that changes
    /// nothing (missing keys removed, values replaced by equal ones) gives the same tree and
    /// appends nothing. `cache` must serve the file of `sink` and no other.
    ///
    /// Cost: reads the nodes on the way to each edit, and a neighbour only if it will be merged;
    /// see `apply.rs` for what the bound of the height adds.
    ///
    /// Errors: [`Error::TooLarge`] for a key over the limit, before anything was written; else as
    /// the sink and the reducer say. The tree itself never changes.
    // spec: BTREE-1, BTREE-8, BTREE-9
    pub fn apply(
        &self,
        sink: &mut dyn ChunkSink,
        cache: &NodeCache,
        shape: &Shape,
        edits: &[Edit],
    ) -> Result<Tree> {
        self.apply_changes(sink, cache, shape, edits.iter().map(Change::from).collect())
    }

    /// [`Tree::apply`] of edits that borrow what they say.
    pub(crate) fn apply_changes(
        &self,
        sink: &mut dyn ChunkSink,
        cache: &NodeCache,
        shape: &Shape,
        changes: Vec<Change<'_>>,
    ) -> Result<Tree> {
        let edits = ordered(changes, shape)?;
        if edits.is_empty() {
            return Ok(self.clone());
        }
        let mut applying = Applying {
            sink,
            cache,
            shape,
            edits,
            nodes: Vec::new(),
            payload: Vec::new(),
            pointers: Vec::new(),
            weight_added: 0,
            weight_removed: 0,
            rows_changed: 0,
            key_bytes_min: u64::MAX,
        };
        let all = 0..applying.edits.len();
        let root = self.open_root(&CachedNodes::new(applying.sink, cache))?;
        let changed = match root {
            Some(root) => {
                let number = applying.number(&root);
                applying.edit_node(number, &root, all, true)?
            }
            None => applying.edit_nothing(all),
        };
        match changed {
            Some(list) => {
                let tree = applying.root_of(list, self.root.as_ref())?;
                tree.bounded(sink, cache, shape)
            }
            None => Ok(self.clone()),
        }
    }

    /// This tree, or one built afresh from its rows if it is more than one level too high.
    // spec: BTREE-10
    fn bounded(
        mut self,
        sink: &mut dyn ChunkSink,
        cache: &NodeCache,
        shape: &Shape,
    ) -> Result<Tree> {
        let height = self.height();
        let Some(root) = &self.root else { return Ok(self) };
        let fresh_min = shape.fresh_height_min(root.rows, &root.memory);
        if height <= fresh_min + 1 || mark::planted("height-not-bounded") {
            return Ok(self);
        }
        mark::hit("btree-exact-height");
        let fresh = self.fresh_height(&CachedNodes::new(sink, cache), shape)?;
        if height <= fresh + 1 {
            if let Some(root) = &mut self.root {
                root.memory.fresh_height = u64::from(fresh);
                root.memory.trusted_edits = trust(root.rows);
            }
            return Ok(self);
        }
        mark::hit("btree-rebuilt");
        let mut builder = Builder::new(shape);
        let mut cursor = Cursor::new(self, KeyRange::all(), Direction::Ascending);
        while let Some(leaf) = cursor.leaf(&CachedNodes::new(sink, cache))? {
            let leaf = leaf.take_whole();
            for index in 0..leaf.count() {
                builder.push(sink, leaf.key(index), leaf.value(index))?;
            }
        }
        builder.finish(sink)
    }

    /// The height of a tree built afresh from the same rows. Reads all leaves, writes nothing.
    fn fresh_height(&self, nodes: &dyn NodeSource, shape: &Shape) -> Result<u32> {
        let mut builder = Builder::new(shape);
        let mut cursor = Cursor::new(self.clone(), KeyRange::all(), Direction::Ascending);
        while let Some(leaf) = cursor.leaf(nodes)? {
            let leaf = leaf.take_whole();
            for index in 0..leaf.count() {
                builder.push(&mut Nowhere, leaf.key(index), leaf.value(index))?;
            }
        }
        Ok(builder.finish(&mut Nowhere)?.height())
    }
}

/// The edits in key order, of each key the last one.
// spec: BTREE-8
fn ordered<'e>(mut edits: Vec<Change<'e>>, shape: &Shape) -> Result<Vec<Change<'e>>> {
    for edit in &edits {
        let limit = shape.options.key_bytes_max.min(ROW_BYTES_MAX);
        check_size("key", edit.key.len(), limit)?;
        let value = edit.value.map_or(0, <[u8]>::len);
        check_size("value", value, ROW_BYTES_MAX)?;
    }
    // Stable, so that of equal keys the last stays the last.
    edits.sort_by(|left, right| left.key.cmp(right.key));
    if !mark::planted("duplicates-kept-twice") {
        edits.dedup_by(|later, kept| {
            let same = later.key == kept.key;
            if same && !mark::planted("first-duplicate-wins") {
                *kept = *later;
            }
            same
        });
    }
    Ok(edits)
}

fn check_size(what: &'static str, size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what, size: size as u64, limit: limit as u64 })
}

impl Applying<'_> {
    /// The entries of `node`, which entries name by `number`, once `edits` were made below it, or
    /// `None` if they change nothing. `last` says that the node is the last of its level.
    fn edit_node(
        &mut self,
        number: u32,
        node: &Arc<Node>,
        edits: Range<usize>,
        last: bool,
    ) -> Result<Option<List>> {
        if node.is_leaf() {
            return Ok(self.edit_leaf(number, node, edits, last));
        }
        let mut entries = Vec::with_capacity(node.count() + 1);
        let old = |index: usize| Entry::Old { node: number, index: index as u32 };
        let (mut changed, mut appending) = (false, false);
        let mut next = edits.start;
        while next < edits.end {
            let index = node.route(self.edits[next].key);
            let is_last = index + 1 == node.count();
            let mut end = edits.end;
            if !is_last {
                let bound = node.key(index + 1);
                let rest = &self.edits[next..edits.end];
                end = next + rest.partition_point(|edit| edit.key < bound);
            }
            entries.extend((entries.len()..index).map(old));
            let (number_below, child) = self.open(node, index)?;
            match self.edit_node(number_below, &child, next..end, last && is_last)? {
                Some(list) => {
                    changed = true;
                    appending = is_last && list.appending;
                    entries.push(list.into_entry());
                }
                None => entries.push(old(index)),
            }
            next = end;
        }
        if !changed {
            return Ok(None);
        }
        entries.extend((entries.len()..node.count()).map(old));
        let entries = self.settle(node.level() - 1, entries)?;
        let size = entries.iter().map(|entry| self.entry_size(entry)).sum();
        Ok(Some(List { level: node.level(), entries, size, appending }))
    }

    /// The rows of a leaf merged with the edits for it, or `None` if they change nothing.
    fn edit_leaf(
        &mut self,
        number: u32,
        leaf: &Node,
        edits: Range<usize>,
        last: bool,
    ) -> Option<List> {
        let old = |index: usize| Entry::Old { node: number, index: index as u32 };
        let mut entries = Vec::with_capacity(leaf.count() + edits.len());
        let mut size = leaf.size() - super::node::header_size(leaf.count());
        let (mut changed, mut index) = (false, 0);
        let mut appending = last;
        for at in edits {
            let edit = self.edits[at];
            while index < leaf.count() && leaf.key(index) < edit.key {
                entries.push(old(index));
                index += 1;
            }
            let replaced = index < leaf.count() && leaf.key(index) == edit.key;
            if !replaced && edit.value.is_none() {
                continue;
            }
            if replaced
                && edit.value == Some(leaf.value(index))
                && !mark::planted("equal-value-is-a-change")
            {
                mark::hit("btree-equal-value");
                entries.push(old(index));
                index += 1;
                continue;
            }
            changed = true;
            self.rows_changed += 1;
            if replaced {
                let gone = leaf.entry(index).len();
                size -= gone;
                self.weight_removed += self.shape.row_weight(gone);
                index += 1;
            }
            if edit.value.is_some() {
                appending &= index == leaf.count();
                size += self.insert(at);
                entries.push(Entry::Old { node: EDITS, index: at as u32 });
            }
        }
        if !changed {
            return None;
        }
        entries.extend((index..leaf.count()).map(old));
        Some(List { level: 0, entries, size, appending })
    }

    /// The rows of a tree that had none, or `None` if it gets none.
    fn edit_nothing(&mut self, edits: Range<usize>) -> Option<List> {
        let mut list = List { level: 0, entries: Vec::new(), size: 0, appending: true };
        for at in edits {
            if self.edits[at].value.is_some() {
                self.rows_changed += 1;
                list.size += self.insert(at);
                list.entries.push(Entry::Old { node: EDITS, index: at as u32 });
            }
        }
        (!list.entries.is_empty()).then_some(list)
    }

    /// Counts a new row, and returns its size.
    fn insert(&mut self, at: usize) -> usize {
        let edit = self.edits[at];
        let size = row_size(edit.key, edit.value.unwrap_or_default());
        self.weight_added += self.shape.row_weight(size);
        self.key_bytes_min = self.key_bytes_min.min(edit.key.len() as u64);
        size
    }

    /// The tree whose root has the entries of `list`, however many: levels are added until one
    /// node is enough, and taken away while it has one child.
    // spec: BTREE-6
    fn root_of(&mut self, mut list: List, before: Option<&Root>) -> Result<Tree> {
        loop {
            if list.entries.is_empty() {
                return Ok(Tree::empty());
            }
            let single = list.level > 0 && list.entries.len() == 1;
            if single && !mark::planted("root-keeps-one-child") {
                match list.entries.pop() {
                    Some(Entry::Fresh(fresh)) => list = fresh.list,
                    Some(Entry::Old { node, index }) => {
                        mark::hit("btree-root-collapses-to-old-node");
                        let parent = self.nodes[node as usize].clone();
                        return self.old_root(parent, index as usize, before);
                    }
                    None => unreachable!("there was one entry"),
                }
                continue;
            }
            let level = list.level;
            let fits = self.fits(&list);
            let entries = self.settle(level, vec![list.into_entry()])?;
            if let (true, [Entry::Fresh(fresh)]) = (fits, entries.as_slice()) {
                return self.new_root(&fresh.list, fresh.settled(), before);
            }
            if level >= LEVEL_MAX {
                // Levels at least halve the number of nodes, so no tree of ours came this far.
                let Some(root) = before else { unreachable!("a batch has fewer than 2^63 rows") };
                let expected = "a tree of at most 64 levels";
                return Err(self.sink.nonsense(root.pointer, expected, "a higher one"));
            }
            let size = entries.iter().map(|entry| self.entry_size(entry)).sum();
            let appending =
                matches!(entries.last(), Some(Entry::Fresh(last)) if last.list.appending);
            list = List { level: level + 1, entries, size, appending };
        }
    }

    /// The tree whose root is a child that stands in the file already, or what is below it: an
    /// inner node may have one child, an inner root may not.
    fn old_root(
        &mut self,
        mut parent: Arc<Node>,
        mut index: usize,
        before: Option<&Root>,
    ) -> Result<Tree> {
        while parent.level() > 1 && parent.child(index).count == 1 {
            mark::hit("btree-root-collapses-twice");
            (_, parent) = self.open(&parent, index)?;
            index = 0;
        }
        let child = parent.child(index);
        let level = parent.level() - 1;
        let root = Root {
            level,
            pointer: child.pointer,
            count: child.count,
            rows: child.rows,
            bytes: child.bytes,
            reduction: child.reduction.to_vec(),
            memory: self.memory(before),
        };
        Ok(Tree { root: Some(root) })
    }

    fn new_root(&mut self, list: &List, summary: &Summary, before: Option<&Root>) -> Result<Tree> {
        let root = Root {
            level: list.level,
            pointer: self.write(list)?,
            count: list.entries.len() as u64,
            rows: summary.rows,
            bytes: summary.bytes,
            reduction: summary.reduction.clone(),
            memory: self.memory(before),
        };
        Ok(Tree { root: Some(root) })
    }

    /// What the root remembers about the height, after these edits.
    fn memory(&self, before: Option<&Root>) -> HeightMemory {
        let Some(before) = before else {
            let (weight, key_bytes_min) = (self.weight_added, self.key_bytes_min);
            return HeightMemory { weight, key_bytes_min, fresh_height: 0, trusted_edits: 0 };
        };
        let old = before.memory;
        HeightMemory {
            // A damaged root may have carried any number; it must not overflow.
            weight: old
                .weight
                .saturating_add(self.weight_added)
                .saturating_sub(self.weight_removed),
            key_bytes_min: old.key_bytes_min.min(self.key_bytes_min),
            fresh_height: old.fresh_height,
            trusted_edits: old.trusted_edits.saturating_sub(self.rows_changed),
        }
    }
}
