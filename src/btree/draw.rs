//! Drawing a tree as text, for inspection and for tests that read as a story.
//!
//! ```text
//! inner @26 rows 3 reduction 3
//! ├─ leaf @1 [a b]
//! └─ leaf @12 [c]
//! ```
//!
//! Invariant: equal trees in equal files give equal pictures.

use std::fmt::Write;

use super::Tree;
use super::cache::NodeSource;
use super::node::Node;
use super::read::open;
use crate::error::Result;
use crate::file::Pointer;

/// Turns stored bytes into text.
pub type Label = dyn Fn(&[u8]) -> String;

/// How a picture shows keys and reductions.
///
/// ```
/// use rereduce::btree::Labels;
/// let labels = Labels::default();
/// assert_eq!((labels.key)(b"a\x00"), "a\\x00");
/// ```
pub struct Labels {
    /// The text for a key.
    pub key: Box<Label>,
    /// The text for a reduction; an empty one is left out.
    pub reduction: Box<Label>,
}

impl Default for Labels {
    /// Keys as escaped text, reductions left out.
    fn default() -> Labels {
        Labels {
            key: Box::new(|key| key.escape_ascii().to_string()),
            reduction: Box::new(|_| String::new()),
        }
    }
}

impl Tree {
    /// The tree as text, one line a node. Reads every node.
    ///
    /// ```
    /// use rereduce::btree::{CachedNodes, Labels, NodeCache, Shape, Tree};
    /// use rereduce::{file::MemoryChunks, vocabulary::Edit};
    /// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
    /// let edits = [Edit::put("a", "1"), Edit::put("b", "2")];
    /// let tree = Tree::empty().apply(&mut chunks, &cache, &Shape::default(), &edits)?;
    /// let picture = tree.draw(&CachedNodes::new(&chunks, &cache), &Labels::default())?;
    /// assert_eq!(picture, "leaf @1 [a b]\n");
    /// assert_eq!(
    ///     Tree::empty().draw(&CachedNodes::new(&chunks, &cache), &Labels::default())?,
    ///     "empty\n"
    /// );
    /// # Ok::<(), rereduce::Error>(())
    /// ```
    pub fn draw(&self, nodes: &dyn NodeSource, labels: &Labels) -> Result<String> {
        let mut out = String::new();
        match (self.open_root(nodes)?, &self.root) {
            (Some(node), Some(root)) => {
                draw_node(nodes, labels, &node, root.pointer, &root.reduction, "", &mut out)?;
            }
            _ => out.push_str("empty\n"),
        }
        Ok(out)
    }
}

fn draw_node(
    nodes: &dyn NodeSource,
    labels: &Labels,
    node: &Node,
    pointer: Pointer,
    reduction: &[u8],
    indent: &str,
    out: &mut String,
) -> Result<()> {
    let mut line = format!("@{}", pointer.offset());
    if !node.is_leaf() {
        line += &format!(" rows {}", node.rows());
    }
    let reduction = (labels.reduction)(reduction);
    if !reduction.is_empty() {
        line += &format!(" reduction {reduction}");
    }
    if node.is_leaf() {
        let keys: Vec<String> = (0..node.count()).map(|at| (labels.key)(node.key(at))).collect();
        let _ = writeln!(out, "leaf {line} [{}]", keys.join(" "));
        return Ok(());
    }
    let _ = writeln!(out, "inner {line}");
    for index in 0..node.count() {
        let last = index + 1 == node.count();
        let child = node.child(index);
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let _ = write!(out, "{indent}{branch}");
        let below = format!("{indent}{below}");
        let opened = open(nodes, node, index)?;
        draw_node(nodes, labels, &opened, child.pointer, child.reduction, &below, out)?;
    }
    Ok(())
}
