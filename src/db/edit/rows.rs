//! The rows of by_id and by_seq that a group of requests leaves behind.
//!
//! Invariant: a row's value is encoded once, into the memory that the trees copy it from.

use std::ops::Range;

use crate::btree::Change;
use crate::db::record::{DocTree, Known, Sizes, TREE_BYTES_MAX, TreePlace, put_record};
use crate::error::Result;
use crate::file::ChunkSink;
use crate::vocabulary::Rev;

/// The new rows of by_id and by_seq; their values stand in one piece of memory.
#[derive(Default)]
pub(super) struct NewRows<'a> {
    pub(super) by_id: Vec<(&'a str, Option<Range<usize>>)>,
    pub(super) by_seq: Vec<([u8; 8], Option<Range<usize>>)>,
    values: Vec<u8>,
}

impl NewRows<'_> {
    /// Where the value that `put` appends is.
    pub(super) fn value(
        &mut self,
        put: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<Range<usize>> {
        let begin = self.values.len();
        put(&mut self.values)?;
        Ok(begin..self.values.len())
    }

    /// The edits that put the rows there.
    pub(super) fn changes(&self) -> (Vec<Change<'_>>, Vec<Change<'_>>) {
        // The ranges were taken from these values.
        let value = |place: &Option<Range<usize>>| Some(&self.values[place.clone()?]);
        let by_id = self.by_id.iter();
        let by_id = by_id.map(|(id, place)| Change { key: id.as_bytes(), value: value(place) });
        let by_seq = self.by_seq.iter();
        let by_seq = by_seq.map(|(key, place)| Change { key, value: value(place) });
        (by_id.collect(), by_seq.collect())
    }
}

/// The by_id value of a document; a long revision tree goes into a chunk before it.
pub(crate) fn encode_record(tree: &DocTree, seq: u64, into: &mut dyn ChunkSink) -> Result<Vec<u8>> {
    let mut record = Vec::new();
    put_whole_record(&mut record, tree, &tree.leaves(), seq, into)?;
    Ok(record)
}

/// Appends the by_id value of a document with these leaves, the winner first.
pub(super) fn put_whole_record(
    out: &mut Vec<u8>,
    tree: &DocTree,
    leaves: &[(&Rev, &Known)],
    seq: u64,
    into: &mut dyn ChunkSink,
) -> Result<()> {
    let deleted = leaves.first().is_some_and(|(_, winner)| winner.deleted);
    let (sizes, begin) = (Sizes::of(leaves), out.len());
    put_record(out, deleted, seq, sizes, &TreePlace::Inline(&[]));
    let tree_begin = out.len();
    tree.encode(out);
    if out.len() - tree_begin > TREE_BYTES_MAX {
        // `tree_begin` was the length before the tree.
        let chunk = into.append(&out[tree_begin..])?;
        out.truncate(begin);
        put_record(out, deleted, seq, sizes, &TreePlace::Chunk(chunk));
    }
    Ok(())
}
