//! The updater: brings an index up to a snapshot of its database, one batch after another.
//!
//! ```text
//!   purges not seen ─┐
//!                    ├─> items of a batch, by id ──map──> rows ─┐
//!   by_seq behind ───┘                                          │   one commit
//!   the index                  id tree ── old places ───────────┴─> removed, put
//! ```
//!
//! Each batch is one commit of the index: the first takes all purges, each the next changes. A
//! commit says up to which sequence it goes and which state of the database it was made from, so
//! that an update goes on where a crash ended the one before.
//!
//! The writer is held only while the trees of a batch are written. A compaction may swap the file
//! between two batches, or between mapping a batch and writing it: a batch begins with the roots
//! that it finds under the writer's lock, never with roots from before it, so none of the old file
//! can be published after the swap.
//!
//! Invariant: a commit of the index is the view of its state of the database up to its sequence,
//! and of an older state behind it; rows of purged documents are nowhere.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use super::file::IndexFile;
use super::map::{DocumentRows, Item, Runners};
use super::roots::{IndexRoots, places};
use super::state::IndexShapes;
use super::{Progressing, Rebuilt, ViewsOptions};
use crate::btree::{CachedNodes, NodeCache};
use crate::db::DbSnapshot;
use crate::error::{Error, Result};
use crate::file::{ChunkSource, FileWriter};
use crate::mark;
use crate::store::committed::Committed;
use crate::view::design::DesignDoc;
use crate::vocabulary::{Direction, Edit};

/// Documents that are mapped between two looks at how large the batch is.
const DOCUMENTS_PER_LOOK: usize = 1024;

/// One update of one index.
pub(super) struct Update<'a> {
    pub(super) target: &'a DbSnapshot,
    pub(super) file: &'a IndexFile,
    pub(super) design: &'a DesignDoc,
    pub(super) shapes: &'a IndexShapes,
    pub(super) options: &'a ViewsOptions,
    pub(super) progress: &'a Progressing,
}

/// The rows of a batch by document, as far as it was mapped.
type Batch = BTreeMap<String, DocumentRows>;

/// Why the index cannot be brought up to `target` from where it stands, if so.
// spec: VIEW-2, VIEW-8
pub(super) fn in_the_way(
    roots: &IndexRoots,
    nothing: &IndexRoots,
    target: &DbSnapshot,
) -> Result<Option<Rebuilt>> {
    let Some(standing) = &roots.standing else { return Ok(None) };
    let same = |(one, other): (&super::roots::ViewRoots, &super::roots::ViewRoots)| {
        one.collation == other.collation
    };
    if roots.signature != nothing.signature || roots.views.len() != nothing.views.len() {
        return Ok(Some(Rebuilt::OtherViews));
    }
    if !roots.views.iter().zip(&nothing.views).all(same)
        && !mark::planted("view-collation-version-ignored")
    {
        return Ok(Some(Rebuilt::OtherCollation));
    }
    let known = match mark::planted("view-standing-is-a-number") {
        true => standing.commit <= target.number(),
        false => target.has(standing),
    };
    if !known && !mark::planted("view-standing-ignored") {
        let ahead = standing.commit > target.number();
        return Ok(Some(if ahead { Rebuilt::Ahead } else { Rebuilt::Beside }));
    }
    let purges = target.info().purge_seq.saturating_sub(roots.purge_seq);
    let remembered = target.purges(roots.purge_seq)?.len() as u64;
    let forgotten = remembered < purges && !mark::planted("view-purge-floor-ignored");
    Ok(forgotten.then_some(Rebuilt::PurgesForgotten))
}

/// Whether the index has all that `target` has.
pub(super) fn is_reached(roots: &IndexRoots, target: &DbSnapshot) -> bool {
    let info = target.info();
    let seqs = (roots.update_seq, roots.purge_seq);
    roots.finished && seqs == (info.update_seq, info.purge_seq)
}

impl Update<'_> {
    /// Brings the index, in whose way nothing is, up to the target.
    // spec: VIEW-1, VIEW-3
    pub(super) fn run(&self, runners: &mut Runners) -> Result<()> {
        let mut roots = self.file.current()?.roots.clone();
        if mark::planted("view-begins-anew-each-time") {
            roots.update_seq = 0;
        }
        let mut purged = match mark::planted("view-purges-skipped") {
            true => BTreeMap::new(),
            false => self.purged(&roots)?,
        };
        self.progress.total.store(
            self.target.pending_changes(roots.update_seq)? + purged.len() as u64,
            Ordering::Release,
        );
        while !is_reached(&roots, self.target) {
            let mut batch = Batch::new();
            let (mut seq, mut bytes, mut documents) = (roots.update_seq, 0, 0);
            let mut ended = false;
            while !ended
                && documents < self.options.batch_docs.max(1)
                && bytes <= self.options.batch_bytes
            {
                let room = self.options.batch_docs.max(1) - documents;
                let mut items = std::mem::take(&mut purged);
                let changes = self.changes_after(&mut seq, room.min(DOCUMENTS_PER_LOOK))?;
                ended = !changes.more;
                documents += changes.count;
                items.extend(changes.items);
                bytes += self.map_into(&mut batch, items, runners)?;
            }
            roots = self.commit(batch, &roots, seq, ended)?;
        }
        Ok(())
    }

    /// The documents of purges that the index has not seen. One that is left with other revisions
    /// is mapped again; one that comes among the changes later is taken out until then.
    // spec: VIEW-7
    fn purged(&self, roots: &IndexRoots) -> Result<BTreeMap<String, bool>> {
        let mut purged = BTreeMap::new();
        for (_, id, _) in self.target.purges(roots.purge_seq)? {
            let left = self.target.summary(&id)?;
            let maps = left.is_some_and(|left| !left.deleted && left.seq <= roots.update_seq);
            let maps = maps && !mark::planted("view-purged-document-is-gone");
            if self.concerns(&id) {
                purged.insert(id, maps);
            }
        }
        Ok(purged)
    }

    /// Whether the document may have rows.
    // spec: VIEW-4
    fn concerns(&self, id: &str) -> bool {
        let is_design = id.starts_with("_design/");
        !is_design || self.design.include_design || mark::planted("view-maps-design-documents")
    }

    /// The changes behind `seq`, which moves on, at most `room`.
    fn changes_after(&self, seq: &mut u64, room: usize) -> Result<Changes> {
        let mut changes = Changes { count: 0, items: BTreeMap::new(), more: false };
        self.target.changes(*seq, Direction::Ascending, &mut |change| {
            if changes.count == room {
                changes.more = true;
                return ControlFlow::Break(());
            }
            changes.count += 1;
            *seq = change.seq;
            let skips = change.deleted() && mark::planted("view-deletions-skipped");
            if self.concerns(&change.id) && !skips {
                changes.items.insert(change.id.clone(), !change.deleted());
            }
            ControlFlow::Continue(())
        })?;
        Ok(changes)
    }

    /// Maps `items` and puts their rows into the batch. Returns how many bytes they are.
    fn map_into(
        &self,
        batch: &mut Batch,
        items: BTreeMap<String, bool>,
        runners: &mut Runners,
    ) -> Result<usize> {
        let items: Vec<Item> = items.into_iter().map(|(id, maps)| Item { id, maps }).collect();
        let mapped = items.iter().filter(|item| item.maps).count() as u64;
        self.progress.mapped.fetch_add(mapped, Ordering::Relaxed);
        let rows = runners.map(self.target, &items)?;
        assert_eq!(rows.len(), items.len(), "each item has its rows, if only none");
        self.progress.done.fetch_add(items.len() as u64, Ordering::AcqRel);
        let bytes = rows.iter().map(|rows| rows.bytes).sum();
        batch.extend(items.into_iter().map(|item| item.id).zip(rows));
        Ok(bytes)
    }

    /// Commits a batch that goes up to `seq`, or to the end if it `ended`. The commit before it
    /// was `known` when it was mapped, and says the same now, but perhaps in another file.
    // spec: VIEW-3, VIEW-10
    fn commit(
        &self,
        batch: Batch,
        known: &IndexRoots,
        seq: u64,
        ended: bool,
    ) -> Result<IndexRoots> {
        let info = self.target.info();
        let ends = ended || mark::planted("view-sequence-ahead");
        self.file.write(|writer, before| {
            let here = match mark::planted("view-batch-on-roots-before-the-swap") {
                true => known,
                false => &before.roots,
            };
            let place = |roots: &IndexRoots| (roots.standing, roots.update_seq, roots.purge_seq);
            assert_eq!(place(here), place(known), "only the updater moves an index");
            let mut roots = match here.standing {
                Some(_) => here.clone(),
                None => self.file.nothing().clone(),
            };
            if before.roots.finished {
                roots.last_finished = before.number();
            }
            roots.standing = Some(self.target.standing());
            roots.update_seq = if ends { info.update_seq } else { seq };
            roots.purge_seq = info.purge_seq;
            roots.finished = ended;
            self.apply(writer, before, &mut roots, batch)?;
            Ok((Some(roots.clone()), roots))
        })
    }

    /// Takes the old rows of the batch's documents out of all trees and puts the new ones in, each
    /// tree in one pass.
    // spec: VIEW-1, VIEW-16
    fn apply(
        &self,
        writer: &mut FileWriter,
        before: &Committed<IndexRoots>,
        roots: &mut IndexRoots,
        batch: Batch,
    ) -> Result<()> {
        let cache = &before.cache;
        let old = self.old_rows(writer, cache, roots, &batch)?;
        let (mut by_id, mut views) = (Vec::with_capacity(batch.len()), old);
        for (id, rows) in batch {
            let value = (!rows.entry.is_empty()).then_some(rows.entry);
            by_id.push(Edit { key: id.into_bytes(), value });
            // Behind the removals, so that of one place the new row counts.
            for (edits, rows) in views.iter_mut().zip(rows.views) {
                edits.extend(rows);
            }
        }
        roots.by_id = roots.by_id.apply(writer, cache, &self.shapes.by_id, &by_id)?;
        let shapes = &self.shapes.views;
        for ((view, shape), edits) in roots.views.iter_mut().zip(shapes).zip(views) {
            view.tree = view.tree.apply(writer, cache, &shape.shape, &edits)?;
        }
        Ok(())
    }

    /// For each view the removals of the rows that documents of the batch have.
    fn old_rows(
        &self,
        source: &dyn ChunkSource,
        cache: &NodeCache,
        roots: &IndexRoots,
        batch: &Batch,
    ) -> Result<Vec<Vec<Edit>>> {
        let mut views = vec![Vec::new(); roots.views.len()];
        if mark::planted("view-old-rows-stay") {
            return Ok(views);
        }
        let ids: Vec<&[u8]> = batch.keys().map(String::as_bytes).collect();
        let entries = roots.by_id.get_many(&CachedNodes::new(source, cache), &ids)?;
        for (id, entry) in batch.keys().zip(entries) {
            let Some(entry) = entry else { continue };
            let wrong = || {
                let root = roots.by_id.root().unwrap_or_default();
                source.nonsense(root, "the places of a document's rows", "other bytes")
            };
            for (view, place) in places(id, &entry).ok_or_else(wrong)? {
                views.get_mut(view).ok_or_else(wrong)?.push(Edit::remove(place));
            }
        }
        Ok(views)
    }
}

/// Changes of a batch.
struct Changes {
    /// How many there were, those included that concern no view.
    count: usize,
    /// Documents, and whether they are mapped.
    items: BTreeMap<String, bool>,
    /// Whether others follow.
    more: bool,
}

/// Whether `error` leaves open what the file of the index holds now.
pub(super) fn leaves_doubt(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::Poisoned { .. })
}
