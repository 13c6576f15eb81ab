//! Nodes: what one chunk of a tree holds, and how it is read without copying.
//!
//! ```text
//! leaf    00 | count | key value | key value | ...
//! inner   LV | count | child     | child     | ...     LV = level, 1 just above the leaves
//!
//! key, value   length (varint), bytes
//! child        smallest key below (length, bytes), pointer (14), entries, rows, bytes, reduction
//! ```
//!
//! `entries` is the number of entries in the child node, `rows` and `bytes` are the rows below it
//! and the bytes of their leaf entries. The pointer holds the size of the child. So a parent knows,
//! without a read, whether two of its children would fit into one node: entries are stored whole
//! (no prefix is shared), and the size of a node is its header plus the sizes of its entries.
//!
//! Invariant: a [`Node`] exists only if its bytes were walked from end to end: every span lies
//! inside the payload, keys ascend strictly, and children lie before the node in the file. That
//! walk is the proof beside every index in this file.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::codec::{Reader, put_bytes, put_varint, varint_size};
use crate::file::{POINTER_BYTES, Pointer};
use crate::mark;

/// The highest level a node can have; a tree of fan-out 2 with 2^63 rows stays below it.
pub(super) const LEVEL_MAX: u8 = 63;

/// More rows or bytes than any file has: offsets have six bytes.
const COUNT_MAX: u64 = 1 << 48;

/// A decoded node: the chunk as it was read, and where its entries are. Immutable, shared by
/// pointer, and never larger than the chunk plus 9 bytes an entry.
///
/// ```
/// use rereduce::btree::{NodeCache, Shape, Tree, CachedNodes, NodeSource};
/// use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let shape = Shape::default();
/// let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &[Edit::put("k", "v")])?;
/// let root = CachedNodes::new(&chunks, &cache).node(tree.root().unwrap())?;
/// assert_eq!((root.key(0), root.value(0)), (&b"k"[..], &b"v"[..]));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Debug)]
pub struct Node {
    raw: Arc<[u8]>,
    level: u8,
    /// Where each entry begins in `raw`.
    starts: Box<[u32]>,
    /// How many bytes all keys begin with, and the first of those.
    shared: u32,
    prefix: [u8; PREFIX_BYTES],
    /// The four bytes behind those of each key, as [`head`] reads them, side by side: a search
    /// compares these first and hardly ever looks at a key that is not the one it wants. Empty for
    /// nodes of very short entries.
    heads: Box<[u32]>,
    rows: u64,
    bytes: u64,
    /// One bit for each child that was read and found to be what this node says it is: of the
    /// first 64, which is mostly all, in place.
    compared: AtomicU64,
    compared_more: Box<[AtomicU64]>,
}

/// One child of an inner node, borrowed from it.
///
/// ```
/// # use rereduce::btree::{NodeCache, Shape, Tree, TreeOptions, CachedNodes, NodeSource};
/// # use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// # let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let options = TreeOptions { fan_out_max: 2, ..TreeOptions::default() };
/// let shape = Shape { options, ..Shape::default() };
/// let edits = [Edit::put("a", "1"), Edit::put("b", "2"), Edit::put("c", "3")];
/// let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits)?;
/// let root = CachedNodes::new(&chunks, &cache).node(tree.root().unwrap())?;
/// assert_eq!((root.child(0).rows, root.child(1).key), (2, &b"c"[..]));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Child<'a> {
    /// The smallest key below the child.
    pub key: &'a [u8],
    /// Where the child is; its length is the child's size in bytes.
    pub pointer: Pointer,
    /// Entries in the child node.
    pub count: u64,
    /// Rows below the child.
    pub rows: u64,
    /// Bytes of the leaf entries below the child.
    pub bytes: u64,
    /// What the rows below the child reduce to.
    pub reduction: &'a [u8],
}

impl Node {
    /// Decodes the payload of the chunk at `pointer`.
    ///
    /// Returns `None` if the bytes are no node: the caller knows which file to blame. Allocates
    /// at most 4 bytes for every 2 bytes of payload, whatever the payload says.
    // spec: BTREE-2, BTREE-3
    pub fn decode(pointer: Pointer, raw: Arc<[u8]>) -> Option<Node> {
        u32::try_from(raw.len()).ok()?;
        let mut reader = Reader::new(&raw);
        let level = reader.u8()?;
        let count = usize::try_from(reader.varint()?).ok()?;
        let entry_min = if level == 0 { 2 } else { CHILD_BYTES_MIN };
        if level > LEVEL_MAX || count == 0 || count > reader.remaining() / entry_min {
            return None;
        }
        let mut starts = Vec::with_capacity(count);
        let (mut rows, mut bytes) = (0u64, 0u64);
        let mut last: Option<&[u8]> = None;
        for _ in 0..count {
            let start = raw.len() - reader.remaining();
            let key = reader.bytes()?;
            if last.is_some_and(|last| last >= key) {
                assert!(!mark::planted("decode-asserts-key-order"), "keys ascend");
                return None;
            }
            last = Some(key);
            if level == 0 {
                reader.bytes()?;
                rows += 1;
                bytes += (raw.len() - reader.remaining() - start) as u64;
            } else {
                let child = Child::decode_rest(key, &mut reader)?;
                let before =
                    child.pointer.lies_before(&pointer) || mark::planted("child-may-lie-behind");
                if !before || child.count == 0 {
                    return None;
                }
                rows = rows.checked_add(child.rows).filter(|rows| *rows <= COUNT_MAX)?;
                bytes = bytes.checked_add(child.bytes).filter(|bytes| *bytes <= COUNT_MAX)?;
            }
            starts.push(start as u32);
        }
        if !reader.is_empty() {
            return None;
        }
        let words = if level == 0 { 0 } else { count.div_ceil(64) - 1 };
        let mut node = Node {
            level,
            starts: starts.into(),
            shared: 0,
            prefix: [0; PREFIX_BYTES],
            heads: Box::default(),
            rows,
            bytes,
            compared: AtomicU64::new(0),
            compared_more: (0..words).map(|_| AtomicU64::new(0)).collect(),
            raw,
        };
        node.take_heads();
        Some(node)
    }

    fn take_heads(&mut self) {
        if self.raw.len() < ENTRY_BYTES_HEADED * self.count() {
            return;
        }
        // Keys ascend, so what the first and the last one share all have.
        let (first, last) = (self.key(0), self.key(self.count() - 1));
        let shared = first.iter().zip(last).take_while(|(one, two)| one == two).count();
        let heads = self.starts.iter().map(|start| head(&self.split(*start).0[shared..]));
        let heads = heads.collect();
        let mut prefix = [0; PREFIX_BYTES];
        prefix.iter_mut().zip(&first[..shared]).for_each(|(to, from)| *to = *from);
        (self.heads, self.prefix, self.shared) = (heads, prefix, shared as u32);
    }

    /// 0 for a leaf, else one more than the level of the children.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Whether the entries are rows.
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Entries in the node: rows of a leaf, children of an inner node. At least one.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Rows below the node.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the leaf entries below the node.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Payload bytes of the node's chunk.
    pub fn size(&self) -> usize {
        self.raw.len()
    }

    /// The key of entry `index`: of a row, or the smallest below a child.
    ///
    /// # Panics
    /// If `index` is not below [`Node::count`], as for every index below.
    pub fn key(&self, index: usize) -> &[u8] {
        self.split(self.starts[index]).0
    }

    /// The value of row `index` of a leaf.
    ///
    /// # Panics
    /// If this is no leaf.
    pub fn value(&self, index: usize) -> &[u8] {
        assert!(self.is_leaf(), "only leaves have values");
        let rest = self.split(self.starts[index]).1;
        Reader::new(rest).bytes().unwrap_or_else(|| unreachable!("decode walked over this value"))
    }

    /// Row `index` of a leaf.
    ///
    /// # Panics
    /// If this is no leaf.
    pub fn row(&self, index: usize) -> (&[u8], &[u8]) {
        (self.key(index), self.value(index))
    }

    /// Child `index` of an inner node.
    ///
    /// # Panics
    /// If this is a leaf.
    pub fn child(&self, index: usize) -> Child<'_> {
        assert!(!self.is_leaf(), "leaves have no children");
        let (key, rest) = self.split(self.starts[index]);
        Child::decode_rest(key, &mut Reader::new(rest))
            .unwrap_or_else(|| unreachable!("decode walked over this child"))
    }

    /// Where child `index` of an inner node is; the rest of the entry is not looked at.
    pub(super) fn child_pointer(&self, index: usize) -> Pointer {
        assert!(!self.is_leaf(), "leaves have no children");
        let rest = self.split(self.starts[index]).1;
        let pointer = rest.first_chunk().map(Pointer::from_stored);
        pointer.unwrap_or_else(|| unreachable!("decode walked over this child"))
    }

    /// Entry `index` as it is stored.
    pub(super) fn entry(&self, index: usize) -> &[u8] {
        let end = self.starts.get(index + 1).map_or(self.raw.len(), |start| *start as usize);
        &self.raw[self.starts[index] as usize..end]
    }

    /// The key of the entry that begins at `start`, and everything behind it.
    #[inline]
    fn split(&self, start: u32) -> (&[u8], &[u8]) {
        let entry = &self.raw[start as usize..];
        // Nearly all keys have a length of one byte.
        if let [length @ 0..0x80, rest @ ..] = entry {
            return rest.split_at(usize::from(*length));
        }
        let mut reader = Reader::new(entry);
        let key = reader.bytes().unwrap_or_else(|| unreachable!("decode walked over this key"));
        (key, &entry[entry.len() - reader.remaining()..])
    }

    /// Whether child `index` was compared with what this node says about it. Neither ever changes,
    /// so once is enough, and a lookup in cached nodes touches nothing but the keys it needs.
    pub(super) fn was_compared(&self, index: usize) -> bool {
        self.compared_word(index).load(Relaxed) >> (index % 64) & 1 == 1
    }

    /// Remembers that child `index` is what this node says it is.
    pub(super) fn set_compared(&self, index: usize) {
        self.compared_word(index).fetch_or(1 << (index % 64), Relaxed);
    }

    fn compared_word(&self, index: usize) -> &AtomicU64 {
        // `decode` made a word for every 64 children, the first in place.
        if index < 64 { &self.compared } else { &self.compared_more[index / 64 - 1] }
    }

    /// The first index whose key does not satisfy `inside`, which must hold for a prefix of the
    /// keys.
    pub(super) fn partition_point(&self, mut inside: impl FnMut(&[u8]) -> bool) -> usize {
        self.starts.partition_point(|start| inside(self.split(*start).0))
    }

    /// The index of `key`, or where it would be inserted.
    pub(super) fn search(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        let mut among = 0..self.count();
        if !self.heads.is_empty() {
            let shared = self.shared as usize;
            let (front, rest) = key.split_at(shared.min(key.len()));
            // All keys begin with the shared bytes of the first.
            let prefix = match self.prefix.get(..shared) {
                Some(prefix) => prefix,
                None => &self.key(0)[..shared],
            };
            match front.cmp(prefix) {
                Ordering::Less => return Err(0),
                Ordering::Greater => return Err(self.count()),
                Ordering::Equal => {}
            }
            let wanted = head(rest);
            let start = self.heads.partition_point(|head| *head < wanted);
            let same = self.heads[start..].iter().take_while(|head| **head == wanted).count();
            among = start..start + same;
        }
        let offset = among.start;
        let found = self.starts[among].binary_search_by(|start| self.split(*start).0.cmp(key));
        found.map(|index| index + offset).map_err(|index| index + offset)
    }

    /// The first index whose key is not before the start of a range.
    pub(super) fn first_from(&self, start: &Bound<Vec<u8>>) -> usize {
        match start {
            Bound::Included(key) => self.search(key).unwrap_or_else(|index| index),
            Bound::Excluded(key) => self.search(key).map_or_else(|index| index, |index| index + 1),
            Bound::Unbounded => 0,
        }
    }

    /// The first index whose key is behind the end of a range.
    pub(super) fn first_behind(&self, end: &Bound<Vec<u8>>) -> usize {
        match end {
            Bound::Included(key) => self.search(key).map_or_else(|index| index, |index| index + 1),
            Bound::Excluded(key) => self.search(key).unwrap_or_else(|index| index),
            Bound::Unbounded => self.count(),
        }
    }

    /// The child whose subtree holds `key` if any does.
    pub(super) fn route(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(index) => index,
            // A key below all separators is in no subtree; the first one has its place.
            Err(index) => index.saturating_sub(1),
        }
    }

    /// Bytes the node takes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let tables = (self.starts.len() + self.heads.len()) * 4 + self.compared_more.len() * 8;
        self.raw.len() + tables + size_of::<Node>() + 96
    }
}

/// Bytes of what all keys begin with that stand in the node itself.
const PREFIX_BYTES: usize = 16;

/// Nodes whose entries take at least so many bytes each keep heads.
const ENTRY_BYTES_HEADED: usize = 16;

/// The first four bytes of what is left of a key, zeros behind its end. Heads are in the order of
/// their keys, except that different keys may have one head.
fn head(rest: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    let count = rest.len().min(4);
    bytes[..count].copy_from_slice(&rest[..count]);
    u32::from_be_bytes(bytes)
}

/// The smallest bytes of a child entry: an empty key, three counts, an empty reduction.
pub(super) const CHILD_BYTES_MIN: usize = 1 + POINTER_BYTES + 3 + 1;

impl<'a> Child<'a> {
    /// Reads what follows the key of a child entry.
    fn decode_rest(key: &'a [u8], reader: &mut Reader<'a>) -> Option<Child<'a>> {
        let pointer = Pointer::decode(reader)?;
        let (count, rows, bytes) = (reader.varint()?, reader.varint()?, reader.varint()?);
        Some(Child { key, pointer, count, rows, bytes, reduction: reader.bytes()? })
    }

    /// Reads a child entry.
    pub(super) fn decode(reader: &mut Reader<'a>) -> Option<Child<'a>> {
        let key = reader.bytes()?;
        Child::decode_rest(key, reader)
    }

    /// Appends the entry.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.key);
        self.pointer.encode(out);
        put_varint(out, self.count);
        put_varint(out, self.rows);
        put_varint(out, self.bytes);
        put_bytes(out, self.reduction);
    }
}

/// Bytes of a string behind its length.
pub(super) fn bytes_size(length: usize) -> usize {
    varint_size(length as u64) + length
}

/// Bytes of a leaf entry.
pub(super) fn row_size(key: &[u8], value: &[u8]) -> usize {
    bytes_size(key.len()) + bytes_size(value.len())
}

/// Bytes of a child entry, whose pointer need not be known yet.
pub(super) fn child_size(key: &[u8], count: u64, rows: u64, bytes: u64, reduction: &[u8]) -> usize {
    bytes_size(key.len())
        + POINTER_BYTES
        + varint_size(count)
        + varint_size(rows)
        + varint_size(bytes)
        + bytes_size(reduction.len())
}

/// Bytes in front of the entries of a node.
pub(super) fn header_size(count: usize) -> usize {
    1 + varint_size(count as u64)
}

/// Appends what stands in front of the entries of a node.
pub(super) fn put_header(out: &mut Vec<u8>, level: u8, count: usize) {
    out.push(level);
    put_varint(out, count as u64);
}
