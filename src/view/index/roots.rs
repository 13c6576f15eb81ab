//! What one commit of an index says, and what its id tree holds.
//!
//! ```text
//!   by_id    id -> for each view with rows: its number, how many rows, their sort keys in the
//!                  order in which they were emitted
//!   views    place -> row, once for each view
//! ```
//!
//! A place is (sort key, id, emit number), so an entry of the id tree, which knows the id and the
//! order, needs the sort keys alone.
//!
//! Invariant: an entry names exactly the rows that its document has in the trees of the views.

use crate::btree::Tree;
use crate::codec::{Reader, put_bytes, put_varint};
use crate::db::Standing;
use crate::store::committed::Roots;
use crate::view::design::{DesignDoc, Signature};
use crate::view::row::RowPlace;

/// Everything that one commit of an index says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexRoots {
    /// Whose views these are.
    pub(crate) signature: Signature,
    /// The state of the database that it was made from; `None` before the first batch.
    pub(crate) standing: Option<Standing>,
    /// It has all changes up to this sequence.
    pub(crate) update_seq: u64,
    /// It has all purges up to this one.
    pub(crate) purge_seq: u64,
    /// It has all changes of that state.
    pub(crate) finished: bool,
    /// The newest commit of this index before this one that was finished; 0 if there is none.
    pub(crate) last_finished: u64,
    pub(crate) by_id: Tree,
    pub(crate) views: Vec<ViewRoots>,
}

/// One view in a commit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewRoots {
    /// The version of the collation that made the sort keys.
    pub(crate) collation: u64,
    pub(crate) tree: Tree,
}

impl IndexRoots {
    /// An index of these views that has seen nothing.
    pub(crate) fn nothing_of(design: &DesignDoc, signature: Signature) -> IndexRoots {
        let empty = |view: &crate::view::design::ViewDefinition| ViewRoots {
            collation: view.collation.version(),
            tree: Tree::empty(),
        };
        IndexRoots {
            signature,
            views: design.views.iter().map(empty).collect(),
            ..IndexRoots::empty()
        }
    }

    /// The tree of the view with this number; one that is not there has no rows.
    pub(crate) fn tree(&self, number: usize) -> Tree {
        self.views.get(number).map(|view| view.tree.clone()).unwrap_or_default()
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = &Tree> {
        std::iter::once(&self.by_id).chain(self.views.iter().map(|view| &view.tree))
    }

    /// Bytes of all rows in all trees.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.trees().map(Tree::row_bytes).sum()
    }
}

impl Roots for IndexRoots {
    fn empty() -> IndexRoots {
        IndexRoots {
            signature: Signature([0; 16]),
            standing: None,
            update_seq: 0,
            purge_seq: 0,
            finished: false,
            last_finished: 0,
            by_id: Tree::empty(),
            views: Vec::new(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.signature.0);
        put_bytes(out, &self.standing.map(|standing| standing.encode()).unwrap_or_default());
        for number in
            [self.update_seq, self.purge_seq, u64::from(self.finished), self.last_finished]
        {
            put_varint(out, number);
        }
        self.by_id.encode(out);
        put_varint(out, self.views.len() as u64);
        for view in &self.views {
            out.extend_from_slice(&view.collation.to_le_bytes());
            view.tree.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<IndexRoots> {
        let signature = Signature(reader.array()?);
        let standing = match reader.bytes()? {
            [] => None,
            bytes => Some(Standing::decode(bytes)?),
        };
        let (update_seq, purge_seq) = (reader.varint()?, reader.varint()?);
        let finished = match reader.varint()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (last_finished, by_id) = (reader.varint()?, Tree::decode(reader)?);
        let count = reader.varint()?;
        let mut views = Vec::new();
        for _ in 0..count {
            views.push(ViewRoots { collation: reader.u64()?, tree: Tree::decode(reader)? });
        }
        Some(IndexRoots {
            signature,
            standing,
            update_seq,
            purge_seq,
            finished,
            last_finished,
            by_id,
            views,
        })
    }

    fn lie_before(&self, offset: u64) -> bool {
        self.trees().all(|tree| tree.lie_before(offset))
    }
}

/// Appends what an entry of the id tree says about one view; nothing for a view without rows.
pub(crate) fn put_places<'k>(
    out: &mut Vec<u8>,
    view: usize,
    sort_keys: impl ExactSizeIterator<Item = &'k [u8]>,
) {
    if sort_keys.len() > 0 {
        put_varint(out, view as u64);
        put_varint(out, sort_keys.len() as u64);
        sort_keys.for_each(|sort_key| put_bytes(out, sort_key));
    }
}

/// The rows that an entry of the id tree names, as numbers of views and places in their trees;
/// `None` for bytes that are no entry.
pub(crate) fn places(id: &str, entry: &[u8]) -> Option<Vec<(usize, Vec<u8>)>> {
    let mut reader = Reader::new(entry);
    let mut places = Vec::new();
    while !reader.is_empty() {
        let view = usize::try_from(reader.varint()?).ok()?;
        let count = u32::try_from(reader.varint()?).ok()?;
        for emit in 0..count {
            let sort_key = reader.bytes()?;
            places.push((view, RowPlace { sort_key, id: id.into(), emit }.encode()));
        }
    }
    Some(places)
}
