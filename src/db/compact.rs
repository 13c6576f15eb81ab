//! What a compaction copies of a database.
//!
//! ```text
//!   by_id   each record: leaf bodies and their attachments copied, bodies of inner revisions left
//!   by_seq  as it is (it holds no pointers)
//!   local   as it is
//!   purges  the newest ones
//! ```
//!
//! Invariant: attachments that revisions of a document share in the old file they share in the new
//! one.

use std::ops::{Bound, ControlFlow};

use crate::btree::{self, Builder, CachedNodes, NodeCache, Tree};
use crate::error::Result;
use crate::file::{ChunkSink, ChunkSource, FileWriter, ReadAhead};
use crate::mark;
use crate::store::committed::{Committed, Copier, Watch};
use crate::vocabulary::{Direction, Edit, KeyRange};

use super::Shapes;
use super::attach::copy_data;
use super::edit::encode_record;
use super::load::Record;
use super::record::{DataPlace, HeldAttachment, decode_body, put_body, seq_key};
use super::roots::DbRoots;

pub(crate) struct DbCopier<'a> {
    pub(crate) shapes: &'a Shapes,
    /// Nodes of the new file; those of the old one have their own cache.
    pub(crate) cache: NodeCache,
}

impl Copier<DbRoots> for DbCopier<'_> {
    // spec: COMPACT-6
    fn copy(
        &mut self,
        from: &Committed<DbRoots>,
        into: &mut FileWriter,
        watch: &mut Watch<'_>,
    ) -> Result<DbRoots> {
        let mut builder = Builder::new(&self.shapes.by_id);
        // Nodes and bodies each lie in the order in which they were written.
        let (nodes_ahead, bodies) = (ReadAhead::new(&from.file), ReadAhead::new(&from.file));
        let nodes = CachedNodes::new(&nodes_ahead, &from.cache);
        from.roots.by_id.try_scan(&nodes, &KeyRange::all(), &mut |id, value| {
            watch.row()?;
            let value = copy_record(&bodies, from, id, value, into)?;
            builder.push(into, id, &value)
        })?;
        let by_id = builder.finish(into)?;
        let kept = KeyRange { start: first_kept(&from.roots), end: Bound::Unbounded };
        let (by_seq, plain) = (&self.shapes.by_seq, &self.shapes.plain);
        Ok(DbRoots {
            by_id,
            by_seq: from.copy_tree(&from.roots.by_seq, &KeyRange::all(), by_seq, into, watch)?,
            local: from.copy_tree(&from.roots.local, &KeyRange::all(), plain, into, watch)?,
            purges: from.copy_tree(&from.roots.purges, &kept, plain, into, watch)?,
            ..from.roots.clone()
        })
    }

    fn catch_up(
        &mut self,
        old: &Committed<DbRoots>,
        new: &Committed<DbRoots>,
        copied: DbRoots,
        into: &mut FileWriter,
    ) -> Result<DbRoots> {
        let nodes = new.nodes();
        let mut by_id = Vec::new();
        btree::diff(&old.roots.by_id, &new.roots.by_id, &nodes, &mut |id, _, value| {
            let value =
                value.map(|value| copy_record(&*new.file, new, id, value, into)).transpose()?;
            by_id.push(Edit { key: id.to_vec(), value });
            Ok(ControlFlow::Continue(()))
        })?;
        let by_seq = new.changes_between(&old.roots.by_seq, &new.roots.by_seq)?;
        let local = new.changes_between(&old.roots.local, &new.roots.local)?;
        let purges = new.changes_between(&old.roots.purges, &new.roots.purges)?;
        let (shapes, cache) = (self.shapes, &self.cache);
        let purges = copied.purges.apply(into, cache, &shapes.plain, &purges)?;
        Ok(DbRoots {
            by_id: copied.by_id.apply(into, cache, &shapes.by_id, &by_id)?,
            by_seq: copied.by_seq.apply(into, cache, &shapes.by_seq, &by_seq)?,
            local: copied.local.apply(into, cache, &shapes.plain, &local)?,
            purges: self.forget_purges(purges, &new.roots, into)?,
            ..new.roots.clone()
        })
    }

    fn agree(&self, original: &DbRoots, copied: &DbRoots) -> bool {
        original.by_id.reduction() == copied.by_id.reduction()
            && original.by_id.row_count() == copied.by_id.row_count()
            && original.by_seq.row_count() == copied.by_seq.row_count()
            && original.local.row_count() == copied.local.row_count()
            && (original.update_seq, original.purge_seq) == (copied.update_seq, copied.purge_seq)
    }
}

impl DbCopier<'_> {
    /// Removes purges beyond the limit.
    // spec: DB-8
    fn forget_purges(&self, purges: Tree, roots: &DbRoots, into: &mut FileWriter) -> Result<Tree> {
        let end = match first_kept(roots) {
            Bound::Included(first) => Bound::Excluded(first),
            _ => return Ok(purges),
        };
        let range = KeyRange { start: Bound::Unbounded, end };
        let mut edits = Vec::new();
        let nodes = btree::CachedNodes::new(into, &self.cache);
        for row in purges.iter(&nodes, range, Direction::Ascending) {
            edits.push(Edit::remove(row?.0.to_vec()));
        }
        purges.apply(into, &self.cache, &self.shapes.plain, &edits)
    }
}

/// The first purge that is still remembered.
fn first_kept(roots: &DbRoots) -> Bound<Vec<u8>> {
    if mark::planted("purges-never-forgotten") {
        return Bound::Unbounded;
    }
    let forgotten = roots.purge_seq.saturating_sub(roots.purge_infos_limit);
    Bound::Included(seq_key(forgotten + 1).to_vec())
}

/// Copies one document: its leaves' bodies and attachments, and its revision tree.
// spec: COMPACT-7, ATTACH-1
fn copy_record(
    source: &dyn ChunkSource,
    from: &Committed<DbRoots>,
    id: &[u8],
    value: &[u8],
    into: &mut FileWriter,
) -> Result<Vec<u8>> {
    let mut record = Record::load_from(source, from, id, value)?;
    let mut copies: Vec<(DataPlace, DataPlace)> = Vec::new();
    let mut failed = None;
    record.tree.map_data(|_, known, is_leaf| {
        let dropped = known.deleted && mark::planted("compaction-drops-tombstones");
        let kept = is_leaf || mark::planted("inner-bodies-kept");
        if !kept || failed.is_some() || dropped {
            return None;
        }
        let mut copy = |into: &mut FileWriter| {
            let chunk = source.read(known.body)?;
            let parts = decode_body(&chunk, &known.body);
            let parts = parts
                .ok_or_else(|| source.nonsense(known.body, "a document body", "other bytes"))?;
            if parts.attachments.is_empty() {
                return into.append(&chunk);
            }
            let mut attachments = Vec::with_capacity(parts.attachments.len());
            for held in parts.attachments {
                let data = match copies.iter().find(|(old, _)| *old == held.data) {
                    Some((_, new)) if !mark::planted("compaction-copies-for-each-leaf") => {
                        new.clone()
                    }
                    _ => {
                        let new = copy_data(source, &held.data, into)?;
                        copies.push((held.data, new.clone()));
                        new
                    }
                };
                attachments.push(HeldAttachment { attachment: held.attachment, data });
            }
            let mut body = Vec::with_capacity(chunk.len());
            put_body(&mut body, parts.json, &attachments);
            into.append(&body)
        };
        match copy(into) {
            Ok(body) => Some(super::record::Known { body, ..*known }),
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => encode_record(&record.tree, record.seq, into),
    }
}
