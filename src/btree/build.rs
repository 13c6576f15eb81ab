//! Building a tree from rows that come in order, and how high such a tree is.
//!
//! Every level has one open node; a node is closed and appended when the next entry does not fit,
//! so the tree is as dense as its rows allow. This is what compaction writes, and what the height
//! of every other tree is measured against.
//!
//! Invariant: the builder holds one open node per level, whatever the number of rows.

use super::node::{Child, LEVEL_MAX, bytes_size, child_size, put_header, row_size};
use super::{HeightMemory, Root, Shape, Tree};
use crate::codec::{Reader, put_bytes};
use crate::error::{Error, Result};
use crate::file::{ChunkSink, ChunkSource, POINTER_BYTES, Pointer};

/// Builds a tree bottom-up from ascending rows.
///
/// The sink is handed in at each step, so that its owner can append other chunks in between.
///
/// ```
/// use rereduce::btree::{Builder, CachedNodes, NodeCache, Shape};
/// use rereduce::file::MemoryChunks;
/// let (mut chunks, shape) = (MemoryChunks::default(), Shape::default());
/// let mut builder = Builder::new(&shape);
/// builder.push(&mut chunks, b"a", b"1")?;
/// builder.push(&mut chunks, b"b", b"2")?;
/// assert!(builder.push(&mut chunks, b"b", b"again").is_err());
/// let tree = builder.finish(&mut chunks)?;
/// assert_eq!((tree.row_count(), tree.height()), (2, 1));
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Builder {
    shape: Shape,
    levels: Vec<OpenNode>,
    last_key: Vec<u8>,
    weight: u64,
    key_bytes_min: u64,
}

/// The node of one level that takes the next entry.
#[derive(Default)]
struct OpenNode {
    first_key: Vec<u8>,
    entries: Vec<u8>,
    count: usize,
    rows: u64,
    bytes: u64,
}

/// What a parent says about a node that was just closed.
struct Closed {
    first_key: Vec<u8>,
    pointer: Pointer,
    count: u64,
    rows: u64,
    bytes: u64,
    reduction: Vec<u8>,
}

impl Builder {
    /// A builder that has seen no row.
    pub fn new(shape: &Shape) -> Builder {
        let levels = vec![OpenNode::default()];
        let shape = shape.clone();
        Builder { shape, levels, last_key: Vec::new(), weight: 0, key_bytes_min: u64::MAX }
    }

    /// Adds a row behind the last one. Appends the nodes that are full.
    ///
    /// Errors: [`Error::BadInput`] if the key is not greater than the last one, else as the sink
    /// and the reducer say. After an error the builder is of no more use.
    pub fn push(&mut self, sink: &mut dyn ChunkSink, key: &[u8], value: &[u8]) -> Result<()> {
        let begun = self.key_bytes_min < u64::MAX;
        if begun && key <= self.last_key.as_slice() {
            let (what, expected) = ("key", "one greater than the key before it");
            return Err(Error::BadInput { what, got: key.escape_ascii().to_string(), expected });
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let size = row_size(key, value);
        self.weight += self.shape.row_weight(size);
        self.key_bytes_min = self.key_bytes_min.min(key.len() as u64);
        self.make_room(sink, 0, size)?;
        let leaf = &mut self.levels[0]; // `new` made it.
        if leaf.count == 0 {
            leaf.first_key.clear();
            leaf.first_key.extend_from_slice(key);
        }
        put_bytes(&mut leaf.entries, key);
        put_bytes(&mut leaf.entries, value);
        leaf.count += 1;
        leaf.rows += 1;
        leaf.bytes += size as u64;
        Ok(())
    }

    /// Closes what is open and returns the tree.
    pub fn finish(mut self, sink: &mut dyn ChunkSink) -> Result<Tree> {
        let mut level = 0;
        loop {
            if self.levels[level].count == 0 {
                // Only the leaf of a builder without rows: upper levels begin with an entry.
                return Ok(Tree::empty());
            }
            let closed = self.close(sink, level)?;
            if level + 1 < self.levels.len() {
                level += 1;
                self.add_child(sink, level, closed)?;
                continue;
            }
            let memory = HeightMemory {
                weight: self.weight,
                key_bytes_min: self.key_bytes_min,
                fresh_height: level as u64 + 1,
                trusted_edits: trust(closed.rows),
            };
            let Closed { pointer, count, rows, bytes, reduction, .. } = closed;
            let level = level as u8;
            return Ok(Tree {
                root: Some(Root { level, pointer, count, rows, bytes, reduction, memory }),
            });
        }
    }

    /// Closes the open node of `level` if an entry of `size` bytes does not fit.
    fn make_room(&mut self, sink: &mut dyn ChunkSink, level: usize, size: usize) -> Result<()> {
        let open = &self.levels[level];
        if open.count == 0
            || self.shape.fits(level as u8, open.count + 1, open.entries.len() + size)
        {
            return Ok(());
        }
        let closed = self.close(sink, level)?;
        self.add_child(sink, level + 1, closed)
    }

    fn add_child(&mut self, sink: &mut dyn ChunkSink, level: usize, closed: Closed) -> Result<()> {
        assert!(level <= usize::from(LEVEL_MAX), "each level halves the number of nodes");
        if level == self.levels.len() {
            self.levels.push(OpenNode::default());
        }
        let Closed { first_key, pointer, count, rows, bytes, reduction } = closed;
        let size = child_size(&first_key, count, rows, bytes, &reduction);
        self.make_room(sink, level, size)?;
        let open = &mut self.levels[level];
        let child = Child { key: &first_key, pointer, count, rows, bytes, reduction: &reduction };
        child.encode(&mut open.entries);
        if open.count == 0 {
            open.first_key = first_key;
        }
        open.count += 1;
        open.rows += rows;
        open.bytes += bytes;
        Ok(())
    }

    fn close(&mut self, sink: &mut dyn ChunkSink, level: usize) -> Result<Closed> {
        let open = std::mem::take(&mut self.levels[level]);
        let mut reader = Reader::new(&open.entries);
        let mut reduction = Vec::new();
        if level == 0 {
            let mut rows = Vec::with_capacity(open.count);
            while let (Some(key), Some(value)) = (reader.bytes(), reader.bytes()) {
                rows.push((key, value));
            }
            self.shape.reducer.reduce(&rows, &mut reduction)?;
        } else {
            let children = std::iter::from_fn(|| Child::decode(&mut reader));
            let parts: Vec<&[u8]> = children.map(|child| child.reduction).collect();
            self.shape.reducer.rereduce(&parts, &mut reduction)?;
        }
        let mut payload = Vec::with_capacity(open.entries.len() + 4);
        put_header(&mut payload, level as u8, open.count);
        payload.extend_from_slice(&open.entries);
        let pointer = sink.append(&payload)?;
        let OpenNode { first_key, count, rows, bytes, .. } = open;
        Ok(Closed { first_key, pointer, count: count as u64, rows, bytes, reduction })
    }
}

/// How many rows may change before an exact height is computed again: an eighth, so that
/// computing it costs each changed row the reading of at most eight others; none in a small tree,
/// where the exact height is cheap and a single row can matter.
pub(super) fn trust(rows: u64) -> u64 {
    if rows < 1024 { 0 } else { trusted_edits_max(rows) }
}

/// More edits than this are never trusted to leave the height of a fresh tree as it was, when
/// there are `rows` rows after them: each edit takes more from the trust than from the rows.
pub(super) fn trusted_edits_max(rows: u64) -> u64 {
    rows / 8
}

impl HeightMemory {
    /// The height of a fresh tree as far as it is still believed; 0 where it is not.
    pub(super) fn trusted_height(&self) -> u32 {
        // A damaged root may remember any height.
        let height = self.fresh_height.min(u64::from(LEVEL_MAX)) as u32;
        if self.trusted_edits > 0 { height } else { 0 }
    }
}

impl Shape {
    /// What a row of `size` bytes adds to the weight of a tree.
    pub(super) fn row_weight(&self, size: usize) -> u64 {
        size.min(self.room()) as u64
    }

    /// Bytes for entries in a node: the header is at least two bytes.
    fn room(&self) -> usize {
        self.options.node_bytes_max.saturating_sub(2).max(1)
    }

    /// A height that a tree built afresh has at least. No reads.
    ///
    /// A fresh leaf holds at most `room` bytes of weight (a larger row counts as `room`) and
    /// `fan_out` rows; a fresh inner node holds at most as many of the smallest possible children
    /// as fit. Exact where only the fan-out limits nodes. What was computed exactly counts for as
    /// long as it is trusted.
    pub(super) fn fresh_height_min(&self, rows: u64, memory: &HeightMemory) -> u32 {
        if rows == 0 {
            return 0;
        }
        let fan_out = self.options.fan_out_max.max(2) as u64;
        let key = memory.key_bytes_min.min(self.room() as u64) as usize;
        let child = bytes_size(key) + POINTER_BYTES + 3 + 1;
        let children = fan_out.min((self.room() / child) as u64).max(2);
        let mut nodes = rows.div_ceil(fan_out).max(memory.weight.div_ceil(self.room() as u64));
        let mut height = 1;
        while nodes > 1 {
            nodes = nodes.div_ceil(children);
            height += 1;
        }
        height.max(memory.trusted_height())
    }
}

/// A sink that writes nothing, to find out how high a tree would be.
pub(super) struct Nowhere;

impl ChunkSource for Nowhere {
    fn read(&self, pointer: Pointer) -> Result<std::sync::Arc<[u8]>> {
        Err(self.nonsense(pointer, "a chunk", "nothing was written"))
    }

    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error {
        crate::error::Corruption::new("nowhere", pointer.offset(), expected, got).into()
    }
}

impl ChunkSink for Nowhere {
    fn append(&mut self, payload: &[u8]) -> Result<Pointer> {
        Ok(Pointer { offset: 1, length: payload.len() as u32, checksum: 0 })
    }
}
