//! Revision trees: which revisions of a document exist, and which of them descend from which.
//!
//! ```text
//!   1-a ─┬─ 2-b ─── 3-d        leaves 3-d, 2-c and 5-z; the winner is 5-z if it is live,
//!        └─ 2-c                then 3-d, then 2-c
//!               4-y ─── 5-z    a second root: its ancestors were never sent, or forgotten
//! ```
//!
//! A tree is kept as what it says: a set of revisions, a set of links from a revision to its
//! parent, and data for some of the revisions. To merge is to unite these sets, so merging is
//! idempotent, commutative and associative by construction, whatever arrives in which order, with
//! any number of roots; branches that were cut apart grow together when a path spans the gap.
//! (Histories that disagree about a revision's parent, which only a forger makes, keep both links;
//! the path of such a revision follows the greater parent.)
//!
//! Invariants: a revision is identified by its generation **and** its id, and stands once; a link
//! joins consecutive generations; every leaf has data. [`RevTree::decode`] refuses anything else.

mod codec;
mod edit;
mod merge;
mod query;

use crate::codec::Reader;
use crate::vocabulary::Rev;

pub use edit::EditParent;
pub use merge::{MergeKind, Merged};
pub use query::{Found, OpenRev};

/// What a database remembers of one revision, besides its place in the tree.
///
/// ```
/// use rereduce::codec::Reader;
/// use rereduce::doc::RevData;
/// /// Only whether the revision is a deletion.
/// #[derive(Clone, PartialEq)]
/// struct Deleted(bool);
/// impl RevData for Deleted {
///     fn is_deleted(&self) -> bool {
///         self.0
///     }
///     fn encode(&self, out: &mut Vec<u8>) {
///         out.push(u8::from(self.0));
///     }
///     fn decode(reader: &mut Reader<'_>) -> Option<Deleted> {
///         match reader.u8()? {
///             0 => Some(Deleted(false)),
///             1 => Some(Deleted(true)),
///             _ => None,
///         }
///     }
/// }
/// let mut bytes = Vec::new();
/// Deleted(true).encode(&mut bytes);
/// assert!(Deleted::decode(&mut Reader::new(&bytes)) == Some(Deleted(true)));
/// ```
pub trait RevData: Clone + PartialEq {
    /// Whether the revision is a deletion.
    fn is_deleted(&self) -> bool;

    /// Appends the data, so that [`RevData::decode`] finds its end.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads what [`RevData::encode`] wrote; `None` for other bytes. Must not allocate more than
    /// a constant times what the reader holds.
    fn decode(reader: &mut Reader<'_>) -> Option<Self>;
}

/// The revision tree of one document; a set of revisions and the links between them.
///
/// ```
/// use rereduce::codec::Reader;
/// use rereduce::doc::{RevData, RevTree};
/// use rereduce::vocabulary::RevPath;
/// # #[derive(Clone, Debug, PartialEq)]
/// # struct Live;
/// # impl RevData for Live {
/// #     fn is_deleted(&self) -> bool { false }
/// #     fn encode(&self, _: &mut Vec<u8>) {}
/// #     fn decode(_: &mut Reader<'_>) -> Option<Live> { Some(Live) }
/// # }
/// let path = |start, ids: &str| RevPath {
///     start,
///     ids: ids.split(' ').map(|id| id.parse().unwrap()).collect(),
/// };
/// let mut tree = RevTree::default();
/// tree.merge(&path(2, "b a"), Live).unwrap();
/// tree.merge(&path(2, "c a"), Live).unwrap();
/// assert_eq!(tree.winner().unwrap().0.to_string(), "2-c");
/// assert_eq!(tree.conflicts()[0].to_string(), "2-b");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevTree<L> {
    /// Ascending by revision, so a parent stands before its children.
    nodes: Vec<Node<L>>,
    /// Links (child, parent) as positions in `nodes`, ascending.
    links: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node<L> {
    rev: Rev,
    /// `None` for a revision of which only the existence is known.
    data: Option<L>,
}

impl<L> Default for RevTree<L> {
    fn default() -> RevTree<L> {
        RevTree { nodes: Vec::new(), links: Vec::new() }
    }
}

impl<L> RevTree<L> {
    /// Whether there is no revision at all.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many revisions are known.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    fn position(&self, rev: &Rev) -> Option<usize> {
        self.nodes.binary_search_by(|node| node.rev.cmp(rev)).ok()
    }

    /// The parents of the node at `child`: none, one, or several of a forged history.
    fn parents(&self, child: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let from = self.links.partition_point(|&(other, _)| (other as usize) < child);
        let links = self.links.get(from..).unwrap_or_default();
        let end = links.partition_point(|&(other, _)| other as usize == child);
        links.iter().take(end).map(|&(_, parent)| parent as usize)
    }

    /// For each node, whether it is a leaf.
    fn leaf_flags(&self) -> Vec<bool> {
        let mut leaves = vec![true; self.nodes.len()];
        for &(_, parent) in &self.links {
            // Links hold positions in `nodes`.
            leaves[parent as usize] = false;
        }
        leaves
    }

    /// Drops the nodes whose flag is not set, with their links.
    fn retain(&mut self, kept: &[bool]) {
        let mut moved = Vec::with_capacity(kept.len());
        let mut count = 0u32;
        for &keep in kept {
            moved.push(keep.then_some(count));
            count += u32::from(keep);
        }
        let mut flags = kept.iter();
        self.nodes.retain(|_| flags.next() == Some(&true));
        let target = |position: u32| moved.get(position as usize).copied().flatten();
        let links = self.links.iter();
        self.links = links.filter_map(|&(a, b)| Some((target(a)?, target(b)?))).collect();
    }
}
