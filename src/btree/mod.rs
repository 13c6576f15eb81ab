//! The copy-on-write B+tree, as a value.
//!
//! A [`Tree`] is a few bytes: where its root is and what stands below it. Applying edits to one
//! appends the nodes that changed and returns another; the old one stays readable for as long as
//! its bytes are in the file, and both share all nodes that did not change.
//!
//! ```text
//! Tree { root @900, rows 6, reduction 21 }
//!    |
//!    v            smallest key, pointer, entries, rows, bytes, reduction
//! inner @900  [ "a" @300 3 .. 6 | "k" @700 3 .. 15 ]
//!                   |                  |
//!                   v                  v
//! leaf @300  [ a=1 b=2 c=3 ]   leaf @700  [ k=4 p=5 z=6 ]
//! ```
//!
//! Keys are ordered byte by byte. Every inner node keeps for each child what its rows reduce to,
//! so the reduction of any range takes the nodes along its two edges only.
//!
//! Invariants (`spec/btree.md`; [`Tree::check`] asserts them all):
//! - all leaves have the same depth, keys ascend, and a child's key is the smallest below it;
//! - counts and reductions are those of the rows below;
//! - a node is within its limits, or holds the fewest entries it can (leaf 1, inner 2);
//! - no two neighbours under one parent would fit into one node;
//! - the tree is at most one level higher than one built afresh from the same rows.
//!
//! | file | holds |
//! | --- | --- |
//! | `node` | the bytes of a node |
//! | `cache` | nodes by pointer |
//! | `read` | lookups, iteration, walks |
//! | `fold` | reductions of ranges, groups |
//! | `rank` | rows by their number |
//! | `build` | trees from sorted rows, and the height such a tree has |
//! | `apply`, `settle` | edits: which nodes change; how lists of entries become nodes |
//! | `diff` | what differs between two trees |
//! | `check`, `draw` | the invariants, and a picture |

mod apply;
mod build;
mod cache;
mod check;
mod diff;
mod draw;
mod fold;
mod node;
mod rank;
mod read;
mod settle;

use std::fmt;
use std::sync::Arc;

pub use build::Builder;
pub use cache::{CachedNodes, NodeCache, NodeSource};
pub use check::{Checked, Rule, Violation};
pub use diff::{VisitDifference, diff};
pub use draw::{Label, Labels};
pub use fold::VisitGroup;
pub use node::{Child, Node};
pub use read::{Rows, Value, VisitNode, VisitRow};
pub(crate) use settle::Change;

use crate::codec::{Reader, put_bytes, put_varint};
use crate::file::Pointer;
use crate::reduce::{NoReduce, Reducer};
use node::LEVEL_MAX;

/// The limits of a tree. All trees that follow one another by [`Tree::apply`] use the same.
///
/// ```
/// use rereduce::btree::TreeOptions;
/// let tiny = TreeOptions { fan_out_max: 2, ..TreeOptions::default() };
/// assert!(tiny.node_bytes_max > 1000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// Payload bytes of a node, unless it has the fewest entries it can.
    pub node_bytes_max: usize,
    /// Entries of a node; values below 2 count as 2.
    pub fan_out_max: usize,
    /// Bytes of a key; longer ones are refused.
    pub key_bytes_max: usize,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions { node_bytes_max: 1536, fan_out_max: usize::MAX, key_bytes_max: 8192 }
    }
}

/// How a tree is made: its limits and what it sums up.
///
/// ```
/// use rereduce::btree::Shape;
/// use rereduce::reduce::Count;
/// let shape = Shape::with_reducer(Count);
/// assert_eq!(shape.options, Shape::default().options);
/// ```
#[derive(Clone)]
pub struct Shape {
    /// The limits.
    pub options: TreeOptions,
    /// What inner nodes keep for each child.
    pub reducer: Arc<dyn Reducer>,
}

impl Shape {
    /// The default limits and this reducer.
    pub fn with_reducer(reducer: impl Reducer + 'static) -> Shape {
        Shape { options: TreeOptions::default(), reducer: Arc::new(reducer) }
    }

    /// Whether `count` entries of `bytes` bytes altogether may be one node of `level`.
    ///
    /// The fewest entries a node can have always may: one row, or two children, since with fewer
    /// the tree above would never end.
    // spec: BTREE-6
    fn fits(&self, level: u8, count: usize, bytes: usize) -> bool {
        let least = if level == 0 { 1 } else { 2 };
        let within = count <= self.options.fan_out_max.max(2)
            && node::header_size(count) + bytes <= self.options.node_bytes_max;
        within || count <= least
    }
}

impl Default for Shape {
    /// The default limits, and no reductions.
    fn default() -> Shape {
        Shape::with_reducer(NoReduce)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Shape").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A tree in a file, at one moment. A few words and one reduction; cloning it is cheap.
///
/// ```
/// use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
/// use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let shape = Shape::default();
/// let one = Tree::empty().apply(&mut chunks, &cache, &shape, &[Edit::put("a", "1")])?;
/// let two = one.apply(&mut chunks, &cache, &shape, &[Edit::put("b", "2"), Edit::remove("a")])?;
/// let nodes = CachedNodes::new(&chunks, &cache);
/// assert_eq!(one.get(&nodes, b"a")?, Some(b"1".to_vec()));
/// assert_eq!(two.get(&nodes, b"a")?, None);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    root: Option<Root>,
}

/// The root of a tree that is not empty, and what `apply` remembers to bound the height.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    level: u8,
    pointer: Pointer,
    count: u64,
    rows: u64,
    bytes: u64,
    reduction: Vec<u8>,
    memory: HeightMemory,
}

/// What bounds the height of a fresh tree from below without reading anything (see `build`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeightMemory {
    /// The sum over all rows of their bytes, each counted up to what a node holds.
    weight: u64,
    /// No key is shorter.
    key_bytes_min: u64,
    /// The height of a fresh tree when it was last computed, and how many more rows may change
    /// until that is believed no longer.
    fresh_height: u64,
    trusted_edits: u64,
}

impl Tree {
    /// The tree without rows, which takes no room in any file.
    pub fn empty() -> Tree {
        Tree::default()
    }

    /// Rows in the tree. No reads.
    pub fn row_count(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.rows)
    }

    /// Bytes of all rows as they are stored, lengths included. No reads.
    pub fn row_bytes(&self) -> u64 {
        self.root.as_ref().map_or(0, |root| root.bytes)
    }

    /// Nodes on the way from the root to any row: 0 for an empty tree, 1 for one leaf.
    pub fn height(&self) -> u32 {
        self.root.as_ref().map_or(0, |root| u32::from(root.level) + 1)
    }

    /// What all rows reduce to, or `None` for an empty tree (what that reduces to, the reducer
    /// knows: [`Tree::reduce`] asks it). No reads.
    pub fn reduction(&self) -> Option<&[u8]> {
        self.root.as_ref().map(|root| root.reduction.as_slice())
    }

    /// Where the root node is, or `None` for an empty tree.
    pub fn root(&self) -> Option<Pointer> {
        self.root.as_ref().map(|root| root.pointer)
    }

    /// Appends the stored form: one byte for an empty tree, else up to 90 bytes and the reduction.
    ///
    /// ```
    /// use rereduce::{btree::Tree, codec::Reader};
    /// let mut bytes = Vec::new();
    /// Tree::empty().encode(&mut bytes);
    /// assert_eq!(Tree::decode(&mut Reader::new(&bytes)), Some(Tree::empty()));
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.height() as u8);
        if let Some(root) = &self.root {
            root.pointer.encode(out);
            for number in [
                root.count,
                root.rows,
                root.bytes,
                root.memory.weight,
                root.memory.key_bytes_min,
                root.memory.fresh_height,
                root.memory.trusted_edits,
            ] {
                put_varint(out, number);
            }
            put_bytes(out, &root.reduction);
        }
    }

    /// Reads the stored form; `None` if it is none.
    // spec: BTREE-3
    pub fn decode(reader: &mut Reader<'_>) -> Option<Tree> {
        let height = reader.u8()?;
        let Some(level) = height.checked_sub(1) else {
            return Some(Tree::empty());
        };
        let root = Root {
            level,
            pointer: Pointer::decode(reader)?,
            count: reader.varint()?,
            rows: reader.varint()?,
            bytes: reader.varint()?,
            memory: HeightMemory {
                weight: reader.varint()?,
                key_bytes_min: reader.varint()?,
                fresh_height: reader.varint()?,
                trusted_edits: reader.varint()?,
            },
            reduction: reader.bytes()?.to_vec(),
        };
        (level <= LEVEL_MAX && root.count > 0 && root.rows > 0).then_some(Tree { root: Some(root) })
    }
}
