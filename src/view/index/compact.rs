//! What a compaction copies of an index, and the copier that copies nothing.
//!
//! Invariant: a compaction changes nothing that a query could see, nor where the index stands: the
//! first update after it maps what the one before it would have mapped, and no more.

use super::roots::{IndexRoots, ViewRoots};
use super::state::IndexShapes;
use crate::btree::{NodeCache, Shape, Tree};
use crate::error::Result;
use crate::file::FileWriter;
use crate::mark;
use crate::store::COPY_CACHE_BYTES;
use crate::store::committed::{Committed, Copier, Roots as _, Watch};
use crate::vocabulary::KeyRange;

/// Copies the trees of an index, row by row.
pub(super) struct IndexCopier<'a> {
    shapes: &'a IndexShapes,
    /// Nodes of the new file; those of the old one have their own cache.
    cache: NodeCache,
}

impl<'a> IndexCopier<'a> {
    pub(super) fn new(shapes: &'a IndexShapes) -> IndexCopier<'a> {
        IndexCopier { shapes, cache: NodeCache::new(COPY_CACHE_BYTES) }
    }
}

impl Copier<IndexRoots> for IndexCopier<'_> {
    // spec: VIEW-10
    fn copy(
        &mut self,
        from: &Committed<IndexRoots>,
        into: &mut FileWriter,
        watch: &mut Watch<'_>,
    ) -> Result<IndexRoots> {
        let all = KeyRange::all();
        let by_id = from.copy_tree(&from.roots.by_id, &all, &self.shapes.by_id, into, watch)?;
        let mut views = Vec::with_capacity(from.roots.views.len());
        for (view, shape) in from.roots.views.iter().zip(&self.shapes.views) {
            let tree = from.copy_tree(&view.tree, &all, &shape.shape, into, watch)?;
            views.push(ViewRoots { tree, ..*view });
        }
        Ok(standing_of(&from.roots, by_id, views))
    }

    fn catch_up(
        &mut self,
        old: &Committed<IndexRoots>,
        new: &Committed<IndexRoots>,
        copied: IndexRoots,
        into: &mut FileWriter,
    ) -> Result<IndexRoots> {
        if mark::planted("view-catch-up-left-out") {
            return Ok(standing_of(&new.roots, copied.by_id, copied.views));
        }
        let mut follow = |before: &Tree, after: &Tree, copied: &Tree, shape: &Shape| {
            let edits = new.changes_between(before, after)?;
            copied.apply(into, &self.cache, shape, &edits)
        };
        let (from, to) = (&old.roots, &new.roots);
        let by_id = follow(&from.by_id, &to.by_id, &copied.by_id, &self.shapes.by_id)?;
        let mut views = Vec::with_capacity(to.views.len());
        for (number, (view, shape)) in to.views.iter().zip(&self.shapes.views).enumerate() {
            let (before, copy) = (from.tree(number), copied.tree(number));
            let tree = follow(&before, &view.tree, &copy, &shape.shape)?;
            views.push(ViewRoots { tree, ..*view });
        }
        Ok(standing_of(to, by_id, views))
    }

    /// Reductions are left out: those of a reducer without laws depend on how nodes are cut.
    fn agree(&self, original: &IndexRoots, copied: &IndexRoots) -> bool {
        let size = |tree: &Tree| (tree.row_count(), tree.row_bytes());
        let views = |roots: &IndexRoots| {
            roots.views.iter().map(|view| size(&view.tree)).collect::<Vec<_>>()
        };
        size(&original.by_id) == size(&copied.by_id) && views(original) == views(copied)
    }
}

/// The trees of a copy under everything else that the original says.
fn standing_of(original: &IndexRoots, by_id: Tree, views: Vec<ViewRoots>) -> IndexRoots {
    let update_seq = match mark::planted("view-compaction-forgets-its-place") {
        true => 0,
        false => original.update_seq,
    };
    IndexRoots { by_id, views, update_seq, ..original.clone() }
}

/// Copies nothing: what comes of it is a fresh file for an index that begins anew. It reads
/// nothing of the old file either, which may be damaged.
pub(super) struct Nothing;

impl Copier<IndexRoots> for Nothing {
    fn copy(
        &mut self,
        _from: &Committed<IndexRoots>,
        _into: &mut FileWriter,
        _watch: &mut Watch<'_>,
    ) -> Result<IndexRoots> {
        Ok(IndexRoots::empty())
    }

    fn catch_up(
        &mut self,
        _old: &Committed<IndexRoots>,
        _new: &Committed<IndexRoots>,
        copied: IndexRoots,
        _into: &mut FileWriter,
    ) -> Result<IndexRoots> {
        Ok(copied)
    }

    fn agree(&self, _original: &IndexRoots, _copied: &IndexRoots) -> bool {
        true
    }
}
