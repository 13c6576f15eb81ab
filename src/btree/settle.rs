//! Settling: how lists of entries become nodes that keep to the limits.
//!
//! While a batch is applied, what changes lives in memory as a [`List`]: the entries that a node
//! should have, however many. Entries that were there before are named by where they stand
//! ([`Entry::Old`]), so nothing is copied before it is written.
//!
//! ```text
//! edited    [kept] [list: 9 entries] [kept] [list: 1 entry] [list: none] [kept]
//! split     [kept] [ 5 ] [ 4 ]       [kept] [ 1 ]                        [kept]
//! merged    [kept] [ 5 ] [ 4 ]       [kept  +  1 ]                       [kept]
//! ```
//!
//! Invariant: [`Applying::settle`] returns nodes within their limits of which no two neighbours
//! would fit into one. It ends, because a merge leaves one node fewer, and only a list that a
//! merge further down made larger is ever split again.

use std::sync::Arc;

use super::Shape;
use super::cache::{CachedNodes, NodeCache};
use super::node::{Child, Node, child_size, header_size, put_header, row_size};
use crate::codec::put_bytes;
use crate::error::Result;
use crate::file::{ChunkSink, Pointer};
use crate::mark;
use crate::vocabulary::Edit;

/// An entry of a node: a row or a child.
pub(super) enum Entry {
    /// Entry `index` of node `node` among those read, or edit `index` if `node` is [`EDITS`].
    Old { node: u32, index: u32 },
    /// A child that is not written yet.
    Fresh(Box<Fresh>),
}

/// A batch of so many edits is a lone writer's, who comes again soon.
const FEW_EDITS: usize = 4;

/// Room for the reduction of a node; most are a few numbers.
const REDUCTION_BYTES_EXPECTED: usize = 24;

/// Stands for the batch where a node is named.
pub(super) const EDITS: u32 = u32::MAX;

/// An edit that borrows its key and its value, so that a batch need not copy each of them.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a [u8],
    /// The new value, or `None` to remove the key.
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> From<&'a Edit> for Change<'a> {
    fn from(edit: &'a Edit) -> Change<'a> {
        Change { key: &edit.key, value: edit.value.as_deref() }
    }
}

/// The entries a node should have.
pub(super) struct List {
    pub(super) level: u8,
    pub(super) entries: Vec<Entry>,
    /// The sizes of the entries, added up.
    pub(super) size: usize,
    /// Whether everything new stands at the end of the tree: then a split fills nodes wholly,
    /// since the next batch goes on behind, else evenly, to leave room.
    pub(super) appending: bool,
}

/// A node in the making, and what its parent will say about it once it is settled.
pub(super) struct Fresh {
    pub(super) list: List,
    pub(super) summary: Option<Summary>,
}

/// What a parent says about a child, except for its key and its pointer.
pub(super) struct Summary {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) reduction: Vec<u8>,
    /// Bytes of the child's entry.
    entry_size: usize,
}

/// The state of one `apply`: the nodes read so far and the edits, which entries refer to.
pub(super) struct Applying<'a> {
    pub(super) sink: &'a mut dyn ChunkSink,
    pub(super) cache: &'a NodeCache,
    pub(super) shape: &'a Shape,
    pub(super) edits: Vec<Change<'a>>,
    pub(super) nodes: Vec<Arc<Node>>,
    /// The node that is being written; kept, so that a batch allocates it once.
    pub(super) payload: Vec<u8>,
    /// Where the children are that were written for nodes which are not written yet.
    pub(super) pointers: Vec<Pointer>,
    pub(super) weight_added: u64,
    pub(super) weight_removed: u64,
    pub(super) rows_changed: u64,
    pub(super) key_bytes_min: u64,
}

impl Applying<'_> {
    /// Makes nodes of `children`, all of one `level` and in key order: none empty, none over its
    /// limits, no two neighbours that would fit into one. Each comes out with its summary.
    // spec: BTREE-6, BTREE-7
    pub(super) fn settle(&mut self, level: u8, children: Vec<Entry>) -> Result<Vec<Entry>> {
        let mut settled = match self.are_settled(level, &children) {
            true => children,
            false => self.settle_lists(level, children)?,
        };
        for child in &mut settled {
            if let Entry::Fresh(fresh) = child
                && fresh.summary.is_none()
            {
                fresh.summary = Some(self.summarize(&fresh.list)?);
            }
        }
        Ok(settled)
    }

    /// Whether `children` are within their limits and no two neighbours would fit into one node,
    /// as after most single edits.
    fn are_settled(&self, level: u8, children: &[Entry]) -> bool {
        let sound = |child: &Entry| match child {
            Entry::Fresh(fresh) => !fresh.list.entries.is_empty() && self.fits(&fresh.list),
            Entry::Old { .. } => true,
        };
        children.iter().all(sound)
            && children.windows(2).all(|pair| match pair {
                [left, right] => !self.fit_together(level, left, right),
                _ => true,
            })
    }

    fn settle_lists(&mut self, level: u8, children: Vec<Entry>) -> Result<Vec<Entry>> {
        let mut settled = Vec::with_capacity(children.len() + 1);
        for child in children {
            match child {
                Entry::Fresh(fresh) if fresh.list.entries.is_empty() => {}
                Entry::Fresh(fresh) if !self.fits(&fresh.list) => {
                    mark::hit("btree-split");
                    for piece in self.split(fresh.list) {
                        self.push_merging(level, &mut settled, piece.into_entry())?;
                    }
                }
                child => self.push_merging(level, &mut settled, child)?,
            }
        }
        Ok(settled)
    }

    /// Adds a node behind `settled`, joined with the last ones for as long as they fit together.
    fn push_merging(
        &mut self,
        level: u8,
        settled: &mut Vec<Entry>,
        mut child: Entry,
    ) -> Result<()> {
        while let Some(last) = settled.last() {
            if !self.fit_together(level, last, &child) || mark::planted("neighbours-not-merged") {
                break;
            }
            let Some(last) = settled.pop() else { break };
            mark::hit("btree-merge");
            let joined = self.join(level, last, child)?;
            if !self.fits(&joined) {
                // Merging the children at the seam gave a longer entry than the two had: only a
                // reduction can do that.
                mark::hit("btree-merge-undone");
                let pieces = self.split(joined);
                for piece in pieces {
                    self.push_merging(level, settled, piece.into_entry())?;
                }
                return Ok(());
            }
            child = joined.into_entry();
        }
        settled.push(child);
        Ok(())
    }

    /// Whether two neighbours would fit into one node. No reads: their parent knows their sizes.
    fn fit_together(&self, level: u8, left: &Entry, right: &Entry) -> bool {
        if let (&Entry::Old { node, index }, &Entry::Old { node: other, index: next }) =
            (left, right)
            && node == other
            && index + 1 == next
        {
            // They were neighbours before, so they do not.
            return false;
        }
        let (left, right) = (self.extent(left), self.extent(right));
        // What a damaged parent states may be any number.
        let (count, size) = (left.0.saturating_add(right.0), left.1.saturating_add(right.1));
        self.shape.fits(level, count, size)
    }

    /// Entries in a child, and their sizes added up.
    fn extent(&self, child: &Entry) -> (usize, usize) {
        match child {
            &Entry::Old { node, index } => {
                let child = self.nodes[node as usize].child(index as usize);
                let count = child.count as usize;
                // `open` refuses a node whose count is not this one.
                (count, child.pointer.length().saturating_sub(header_size(count)))
            }
            Entry::Fresh(fresh) => (fresh.list.entries.len(), fresh.list.size),
        }
    }

    /// One list of the entries of two neighbours. Reads them if they are on disk, and joins their
    /// children at the seam if those have become neighbours that fit together.
    fn join(&mut self, level: u8, left: Entry, right: Entry) -> Result<List> {
        let (mut left, right) = (self.entries_of(left)?, self.entries_of(right)?);
        let seam_fits = level > 0
            && !mark::planted("seam-not-merged")
            && match (left.entries.last(), right.entries.first()) {
                (Some(last), Some(first)) => self.fit_together(level - 1, last, first),
                _ => false,
            };
        left.entries.extend(right.entries);
        left.size += right.size;
        left.appending = right.appending;
        if seam_fits {
            mark::hit("btree-seam-merged");
            left.entries = self.settle(level - 1, left.entries)?;
            left.size = left.entries.iter().map(|entry| self.entry_size(entry)).sum();
        }
        Ok(left)
    }

    /// The entries of a child as a list; read from disk if it is there.
    fn entries_of(&mut self, child: Entry) -> Result<List> {
        let (node, index) = match child {
            Entry::Fresh(fresh) => return Ok(fresh.list),
            Entry::Old { node, index } => (node as usize, index as usize),
        };
        let parent = self.nodes[node].clone();
        let (number, node) = self.open(&parent, index)?;
        let entries =
            (0..node.count() as u32).map(|index| Entry::Old { node: number, index }).collect();
        let size = node.size() - header_size(node.count());
        Ok(List { level: node.level(), entries, size, appending: false })
    }

    /// Reads child `index` of `parent`, and gives it a number that entries can name.
    pub(super) fn open(&mut self, parent: &Node, index: usize) -> Result<(u32, Arc<Node>)> {
        let node = super::read::open(&CachedNodes::new(self.sink, self.cache), parent, index)?;
        Ok((self.number(&node), node))
    }

    /// Gives `node` a number that entries can name.
    pub(super) fn number(&mut self, node: &Arc<Node>) -> u32 {
        self.nodes.push(node.clone());
        let number = (self.nodes.len() - 1) as u32;
        assert!(number < EDITS, "a batch touches fewer than 2^32 nodes");
        number
    }

    pub(super) fn fits(&self, list: &List) -> bool {
        self.shape.fits(list.level, list.entries.len(), list.size)
    }

    /// Cuts a list into pieces that fit: full ones if the list is appending, else even ones.
    // spec: BTREE-14
    fn split(&self, list: List) -> Vec<List> {
        let List { level, entries, size: mut size_left, appending } = list;
        let least = if level == 0 { 1 } else { 2 };
        let empty = || List { level, entries: Vec::new(), size: 0, appending };
        let evenly = !appending || mark::planted("appending-splits-evenly");
        let mut pieces_left = if !evenly { 1 } else { self.fewest_pieces(level, &entries) };
        let mut pieces = Vec::with_capacity(pieces_left);
        let mut piece = empty();
        for entry in entries {
            let (count, size) = (piece.entries.len(), self.entry_size(&entry));
            let full = count > 0 && !self.shape.fits(level, count + 1, piece.size + size);
            // Its share is what is left over the pieces left, to the nearest entry.
            let has_share = pieces_left > 1
                && count >= least
                && (piece.size + size / 2) * pieces_left > size_left;
            if full || has_share {
                size_left -= piece.size;
                pieces_left = pieces_left.max(2) - 1;
                pieces.push(std::mem::replace(&mut piece, empty()));
            }
            piece.size += size;
            piece.entries.push(entry);
        }
        pieces.push(piece);
        pieces
    }

    /// Into how many pieces entries must be cut at least.
    fn fewest_pieces(&self, level: u8, entries: &[Entry]) -> usize {
        let (mut pieces, mut count, mut size) = (1, 0, 0);
        for entry in entries {
            let entry_size = self.entry_size(entry);
            if count > 0 && !self.shape.fits(level, count + 1, size + entry_size) {
                (pieces, count, size) = (pieces + 1, 0, 0);
            }
            (count, size) = (count + 1, size + entry_size);
        }
        pieces
    }

    /// What the parent will say about a node.
    // spec: BTREE-5
    fn summarize(&self, list: &List) -> Result<Summary> {
        let (mut rows, mut bytes) = (0, 0);
        let mut reduction = Vec::with_capacity(REDUCTION_BYTES_EXPECTED);
        if list.level == 0 {
            let refer = |entry| self.row(entry);
            let mut all: Vec<(&[u8], &[u8])> = list.entries.iter().map(refer).collect();
            if mark::planted("reduction-misses-last-row") {
                all.pop();
            }
            self.shape.reducer.reduce(&all, &mut reduction)?;
            (rows, bytes) = (list.entries.len() as u64, list.size as u64);
        } else {
            let mut parts: Vec<&[u8]> = Vec::with_capacity(list.entries.len());
            for entry in &list.entries {
                let (child_rows, child_bytes, child_reduction) = self.totals(entry);
                rows = child_rows.saturating_add(rows);
                bytes = child_bytes.saturating_add(bytes);
                parts.push(child_reduction);
            }
            self.shape.reducer.rereduce(&parts, &mut reduction)?;
        }
        let count = list.entries.len() as u64;
        let entry_size = child_size(self.smallest_key(list), count, rows, bytes, &reduction);
        Ok(Summary { rows, bytes, reduction, entry_size })
    }

    /// Rows below a child of a settled list, their bytes, and their reduction.
    fn totals<'e>(&'e self, child: &'e Entry) -> (u64, u64, &'e [u8]) {
        match child {
            &Entry::Old { node, index } => {
                let child = self.nodes[node as usize].child(index as usize);
                (child.rows, child.bytes, child.reduction)
            }
            Entry::Fresh(fresh) => {
                let summary = fresh.settled();
                (summary.rows, summary.bytes, &summary.reduction)
            }
        }
    }

    /// The row that an entry of a leaf names.
    fn row(&self, entry: &Entry) -> (&[u8], &[u8]) {
        match *entry {
            Entry::Old { node: EDITS, index } => {
                let edit = self.edits[index as usize];
                (edit.key, edit.value.unwrap_or_default())
            }
            Entry::Old { node, index } => self.nodes[node as usize].row(index as usize),
            Entry::Fresh(_) => unreachable!("rows are never nodes"),
        }
    }

    /// The smallest key below a node.
    fn smallest_key(&self, list: &List) -> &[u8] {
        match &list.entries[0] {
            // Settled lists are not empty.
            &Entry::Old { node: EDITS, index } => self.edits[index as usize].key,
            &Entry::Old { node, index } => {
                let stale = list.level == 0 && mark::planted("separator-goes-stale");
                self.nodes[node as usize].key(if stale { 0 } else { index as usize })
            }
            Entry::Fresh(fresh) => self.smallest_key(&fresh.list),
        }
    }

    /// Bytes of an entry of a settled list, or of a row.
    pub(super) fn entry_size(&self, entry: &Entry) -> usize {
        match entry {
            &Entry::Old { node: EDITS, .. } => {
                let (key, value) = self.row(entry);
                row_size(key, value)
            }
            &Entry::Old { node, index } => self.nodes[node as usize].entry(index as usize).len(),
            Entry::Fresh(fresh) => fresh.settled().entry_size,
        }
    }

    /// Appends a node, behind those of its children that are new. Each is written once.
    pub(super) fn write(&mut self, list: &List) -> Result<Pointer> {
        let first = self.pointers.len();
        for entry in &list.entries {
            if let Entry::Fresh(fresh) = entry {
                let pointer = self.write(&fresh.list)?;
                self.pointers.push(pointer);
            }
        }
        let count = list.entries.len();
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        put_header(&mut payload, list.level, count);
        let mut next = first;
        for entry in &list.entries {
            match entry {
                &Entry::Old { node: EDITS, .. } => {
                    let (key, value) = self.row(entry);
                    put_bytes(&mut payload, key);
                    put_bytes(&mut payload, value);
                }
                &Entry::Old { node, index } => {
                    payload.extend_from_slice(self.nodes[node as usize].entry(index as usize));
                }
                Entry::Fresh(fresh) => {
                    // One was pushed for each fresh child.
                    let pointer = self.pointers[next];
                    next += 1;
                    let summary = fresh.settled();
                    Child {
                        key: self.smallest_key(&fresh.list),
                        pointer,
                        count: fresh.list.entries.len() as u64,
                        rows: summary.rows,
                        bytes: summary.bytes,
                        reduction: &summary.reduction,
                    }
                    .encode(&mut payload);
                }
            }
        }
        self.pointers.truncate(first);
        assert_eq!(payload.len(), header_size(count) + list.size, "sizes are added up exactly");
        let pointer = self.sink.append(&payload)?;
        self.remember(list, pointer, &payload);
        self.payload = payload;
        Ok(pointer)
    }

    /// Puts a node that was just written into the cache if the next batch is likely to begin with
    /// it: an inner node, or the last leaf of a tree that grows edit by edit at its end. Other
    /// leaves come in when they are read.
    fn remember(&self, list: &List, pointer: Pointer, payload: &[u8]) {
        let awaited = list.level > 0 || (list.appending && self.edits.len() <= FEW_EDITS);
        if awaited
            && self.cache.takes(payload.len())
            && let Some(node) = Node::decode(pointer, payload.into())
        {
            self.cache.insert(pointer, &Arc::new(node));
        }
    }
}

impl List {
    /// A node in the making, not settled yet.
    pub(super) fn into_entry(self) -> Entry {
        Entry::Fresh(Box::new(Fresh { list: self, summary: None }))
    }
}

impl Fresh {
    /// The summary of a settled node.
    pub(super) fn settled(&self) -> &Summary {
        self.summary.as_ref().unwrap_or_else(|| unreachable!("settle summarizes every node"))
    }
}
