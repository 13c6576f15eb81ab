//! Reading: single and many lookups, iteration both ways, and the walk over all nodes.
//!
//! Invariant: a node is used only after it was compared with what its parent says about it
//! ([`open`]), so an answer never comes from a node that belongs elsewhere; and a descent goes one
//! level down at each step, so it ends.

use std::ops::{Bound, ControlFlow, Deref};
use std::sync::Arc;

use super::Tree;
use super::cache::NodeSource;
use super::node::{Child, Node};
use crate::error::Result;
use crate::file::Pointer;
use crate::kv::Visit;
use crate::mark;
use crate::vocabulary::{Direction, KeyRange};

/// Called for each node of a walk with its pointer, its depth (0 for the root) and the node;
/// [`ControlFlow::Break`] ends the walk.
pub type VisitNode<'a> = dyn FnMut(Pointer, u32, &Node) -> ControlFlow<()> + 'a;

/// Called for each row of a scan with its key and its value; an error ends the scan.
pub type VisitRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// A value that borrows from its node.
///
/// ```
/// # use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
/// # use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// # let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// # let shape = Shape::default();
/// let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &[Edit::put("a", "1")])?;
/// let nodes = CachedNodes::new(&chunks, &cache);
/// assert_eq!(&*tree.find(&nodes, b"a")?.unwrap(), b"1");
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Value {
    leaf: Arc<Node>,
    index: usize,
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.leaf.value(self.index)
    }
}

/// Reads the child `index` of `parent`, and compares it with what the parent says, once.
// spec: BTREE-3
pub(super) fn open(nodes: &dyn NodeSource, parent: &Node, index: usize) -> Result<Arc<Node>> {
    let node = nodes.node(parent.child_pointer(index))?;
    if parent.was_compared(index) || mark::planted("parent-is-not-compared") {
        return Ok(node);
    }
    let child = parent.child(index);
    let below_next =
        index + 1 >= parent.count() || node.key(node.count() - 1) < parent.key(index + 1);
    if node.level() + 1 != parent.level() || node.key(0) != child.key || !below_next {
        return Err(nodes.nonsense(
            child.pointer,
            "a node with the keys its parent names",
            "other",
        ));
    }
    agrees(nodes, &node, child.pointer, (child.count, child.rows, child.bytes))?;
    parent.set_compared(index);
    Ok(node)
}

fn agrees(
    nodes: &dyn NodeSource,
    node: &Node,
    pointer: Pointer,
    (count, rows, bytes): (u64, u64, u64),
) -> Result<()> {
    if node.count() as u64 == count && node.rows() == rows && node.bytes() == bytes {
        return Ok(());
    }
    let got = format!("{}, {}, {}", node.count(), node.rows(), node.bytes());
    let expected = format!("a node of {count} entries, {rows} rows, {bytes} bytes");
    Err(nodes.nonsense(pointer, &expected, &got))
}

impl Tree {
    /// Reads the root, and compares it with what the tree says.
    // spec: BTREE-3
    pub(super) fn open_root(&self, nodes: &dyn NodeSource) -> Result<Option<Arc<Node>>> {
        let Some(root) = &self.root else { return Ok(None) };
        let node = nodes.node(root.pointer)?;
        if node.level() != root.level {
            let expected = format!("a node of level {}", root.level);
            return Err(nodes.nonsense(root.pointer, &expected, &node.level().to_string()));
        }
        agrees(nodes, &node, root.pointer, (root.count, root.rows, root.bytes))?;
        Ok(Some(node))
    }

    /// The value of `key`, borrowed from its leaf. Reads as many nodes as the tree is high.
    ///
    /// Errors: as [`NodeSource::node`], and [`crate::Error::Corrupt`] for nodes that do not fit
    /// together; so for every method that reads.
    // spec: BTREE-1
    pub fn find(&self, nodes: &dyn NodeSource, key: &[u8]) -> Result<Option<Value>> {
        let Some(mut node) = self.open_root(nodes)? else { return Ok(None) };
        while !node.is_leaf() {
            node = open(nodes, &node, node.route(key))?;
        }
        Ok(node.search(key).ok().map(|index| Value { leaf: node, index }))
    }

    /// Where the leaf is that holds `key`, if any does; `None` for a tree without rows. Reads as
    /// many nodes as the tree is high. For reports of damage.
    pub(crate) fn find_leaf(&self, nodes: &dyn NodeSource, key: &[u8]) -> Result<Option<Pointer>> {
        let Some(mut node) = self.open_root(nodes)? else { return Ok(None) };
        let mut at = self.root();
        while !node.is_leaf() {
            let index = node.route(key);
            at = Some(node.child_pointer(index));
            node = open(nodes, &node, index)?;
        }
        Ok(at)
    }

    /// The value of `key`. Reads as many nodes as the tree is high.
    pub fn get(&self, nodes: &dyn NodeSource, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.find(nodes, key)?.map(|value| value.to_vec()))
    }

    /// The values of `keys`, which ascend (repeats are fine): what [`Tree::get`] gives for each,
    /// but every node is read once.
    ///
    /// # Panics
    /// If the keys do not ascend.
    // spec: BTREE-1
    pub fn get_many(&self, nodes: &dyn NodeSource, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        assert!(keys.is_sorted(), "get_many takes its keys in ascending order");
        let mut values = Vec::with_capacity(keys.len());
        match self.open_root(nodes)? {
            Some(root) if !keys.is_empty() => get_below(nodes, &root, keys, &mut values)?,
            _ => values.resize(keys.len(), None),
        }
        Ok(values)
    }

    /// The rows of `range` in `direction`. Lazy: it holds one node per level and reads the next
    /// when it gets there. After an error it ends.
    // spec: BTREE-1
    pub fn iter<'a>(
        &self,
        nodes: &'a dyn NodeSource,
        range: KeyRange,
        direction: Direction,
    ) -> Rows<'a> {
        Rows { nodes, cursor: Cursor::new(self.clone(), range, direction) }
    }

    /// Visits the rows of `range` in `direction` until the range or the visitor ends. Copies
    /// nothing.
    pub fn scan(
        &self,
        nodes: &dyn NodeSource,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut cursor = Cursor::new(self.clone(), range.clone(), direction);
        while let Some(frame) = cursor.leaf(nodes)? {
            while let Some(index) = frame.step(direction) {
                let (key, value) = frame.node.row(index);
                if visit(key, value).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Visits the rows of `range`, ascending. The first error of the visitor ends it.
    pub fn try_scan(
        &self,
        nodes: &dyn NodeSource,
        range: &KeyRange,
        visit: &mut VisitRow<'_>,
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.scan(nodes, range, Direction::Ascending, &mut |key, value| {
            outcome = visit(key, value);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome
    }

    /// Visits every node: parents before children, children in key order. Reads each node once.
    pub fn walk(&self, nodes: &dyn NodeSource, visit: &mut VisitNode<'_>) -> Result<()> {
        let (Some(root), Some(pointer)) = (self.open_root(nodes)?, self.root()) else {
            return Ok(());
        };
        let _ = walk_below(nodes, &root, pointer, 0, visit)?;
        Ok(())
    }
}

fn get_below(
    nodes: &dyn NodeSource,
    node: &Node,
    mut keys: &[&[u8]],
    values: &mut Vec<Option<Vec<u8>>>,
) -> Result<()> {
    if node.is_leaf() {
        let mut missed = false;
        for key in keys {
            let found = node.search(key).ok().map(|index| node.value(index).to_vec());
            let skipped = missed && mark::planted("get-many-skips-behind-missing");
            missed = found.is_none();
            values.push(if skipped { None } else { found });
        }
        return Ok(());
    }
    while let Some(key) = keys.first() {
        let index = node.route(key);
        let end = match index + 1 < node.count() {
            true => keys.partition_point(|key| *key < node.key(index + 1)),
            false => keys.len(),
        };
        let (here, rest) = keys.split_at(end);
        get_below(nodes, &*open(nodes, node, index)?, here, values)?;
        keys = rest;
    }
    Ok(())
}

fn walk_below(
    nodes: &dyn NodeSource,
    node: &Node,
    pointer: Pointer,
    depth: u32,
    visit: &mut VisitNode<'_>,
) -> Result<ControlFlow<()>> {
    if visit(pointer, depth, node).is_break() {
        return Ok(ControlFlow::Break(()));
    }
    if !node.is_leaf() {
        for index in 0..node.count() {
            let Child { pointer, .. } = node.child(index);
            let child = open(nodes, node, index)?;
            if walk_below(nodes, &child, pointer, depth + 1, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The entries of one node that an iteration has yet to visit.
pub(super) struct Frame {
    node: Arc<Node>,
    next: usize,
    end: usize,
    /// Whether the range begins (ends) at or below the first (last) of the entries, so that the
    /// child there has to be cut too.
    cut_start: Option<usize>,
    cut_end: Option<usize>,
}

impl Frame {
    /// The entries of `node` that `range` may touch. Only nodes at its edges are searched.
    fn cut(node: Arc<Node>, range: &KeyRange, cut_start: bool, cut_end: bool) -> Frame {
        let mut next = 0;
        if cut_start {
            next = match &range.start {
                // The child that the start lies in, if anywhere.
                Bound::Included(start) | Bound::Excluded(start) if !node.is_leaf() => {
                    node.route(start)
                }
                start => node.first_from(start),
            };
        }
        let end = match cut_end {
            true => node.first_behind(&range.end),
            false => node.count(),
        };
        let edge = |cut: bool, index: usize| (cut && next < end).then_some(index);
        let (cut_start, cut_end) = (edge(cut_start, next), edge(cut_end, end.wrapping_sub(1)));
        Frame { node, next, end, cut_start, cut_end }
    }

    /// The node, of which nothing is left then.
    pub(super) fn take_whole(&mut self) -> Arc<Node> {
        self.next = self.end;
        self.node.clone()
    }

    /// The next entry in `direction`.
    fn step(&mut self, direction: Direction) -> Option<usize> {
        if self.next >= self.end {
            return None;
        }
        match direction {
            Direction::Ascending => {
                self.next += 1;
                Some(self.next - 1)
            }
            Direction::Descending => {
                self.end -= 1;
                Some(self.end)
            }
        }
    }
}

/// The rows of a range, lazily; see [`Tree::iter`].
///
/// ```
/// # use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
/// # use rereduce::{file::MemoryChunks, vocabulary::{Direction, Edit, KeyRange}};
/// # let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// # let shape = Shape::default();
/// let edits = [Edit::put("a", "1"), Edit::put("b", "2"), Edit::put("c", "3")];
/// let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits)?;
/// let nodes = CachedNodes::new(&chunks, &cache);
/// let mut rows = tree.iter(&nodes, KeyRange::of("a".."c"), Direction::Descending);
/// assert_eq!(rows.next().unwrap()?, (b"b".to_vec(), b"2".to_vec()));
/// assert_eq!(rows.next().unwrap()?, (b"a".to_vec(), b"1".to_vec()));
/// assert!(rows.next().is_none());
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Rows<'a> {
    nodes: &'a dyn NodeSource,
    cursor: Cursor,
}

/// A place in a range: one node per level, and what is left of each.
pub(super) struct Cursor {
    /// The tree, until its root was read.
    start: Option<Tree>,
    range: KeyRange,
    direction: Direction,
    frames: Vec<Frame>,
}

impl Cursor {
    pub(super) fn new(tree: Tree, range: KeyRange, direction: Direction) -> Cursor {
        Cursor { start: Some(tree), range, direction, frames: Vec::new() }
    }

    /// The leaf with the next row, or `None` at the end. `nodes` must be those of the tree at
    /// every call.
    pub(super) fn leaf(&mut self, nodes: &dyn NodeSource) -> Result<Option<&mut Frame>> {
        if let Some(tree) = self.start.take()
            && let Some(root) = tree.open_root(nodes)?
        {
            self.frames.push(Frame::cut(root, &self.range, true, true));
        }
        while let Some(frame) = self.frames.last_mut() {
            if frame.next >= frame.end {
                self.frames.pop();
            } else if frame.node.is_leaf() {
                break;
            } else if let Some(index) = frame.step(self.direction) {
                let child = open(nodes, &frame.node, index)?;
                let (start, end) = (frame.cut_start == Some(index), frame.cut_end == Some(index));
                self.frames.push(Frame::cut(child, &self.range, start, end));
            }
        }
        Ok(self.frames.last_mut())
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let direction = self.cursor.direction;
        match self.cursor.leaf(self.nodes) {
            Ok(frame) => {
                let frame = frame?;
                let index = frame.step(direction)?;
                let (key, value) = frame.node.row(index);
                Some(Ok((key.to_vec(), value.to_vec())))
            }
            Err(error) => {
                self.cursor.frames.clear();
                Some(Err(error))
            }
        }
    }
}
