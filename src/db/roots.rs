//! The roots of a database, and what its trees sum up.

use crate::btree::Tree;
use crate::codec::{Reader, put_varint};
use crate::error::Result;
use crate::mark;
use crate::reduce::{Reducer, Row};
use crate::store::committed::Roots;

use super::record::take_summary;
use super::timeline::Timelines;

/// CouchDB's default for how many revisions of a branch are remembered.
pub(crate) const REVS_LIMIT: u32 = 1000;

/// CouchDB's default for how many purges are remembered.
pub(crate) const PURGE_INFOS_LIMIT: u64 = 1000;

/// Everything that one commit of a database says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DbRoots {
    pub(crate) by_id: Tree,
    pub(crate) by_seq: Tree,
    pub(crate) local: Tree,
    pub(crate) purges: Tree,
    pub(crate) update_seq: u64,
    pub(crate) purge_seq: u64,
    pub(crate) revs_limit: u32,
    pub(crate) purge_infos_limit: u64,
    pub(crate) timelines: Timelines,
}

impl Roots for DbRoots {
    fn empty() -> DbRoots {
        DbRoots {
            by_id: Tree::empty(),
            by_seq: Tree::empty(),
            local: Tree::empty(),
            purges: Tree::empty(),
            update_seq: 0,
            purge_seq: 0,
            revs_limit: REVS_LIMIT,
            purge_infos_limit: PURGE_INFOS_LIMIT,
            timelines: Timelines::default(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let revs_limit = u64::from(self.revs_limit);
        for number in [self.update_seq, self.purge_seq, revs_limit, self.purge_infos_limit] {
            put_varint(out, number);
        }
        for tree in [&self.by_id, &self.by_seq, &self.local, &self.purges] {
            tree.encode(out);
        }
        self.timelines.encode(out);
    }

    fn lie_before(&self, offset: u64) -> bool {
        let trees = [&self.by_id, &self.by_seq, &self.local, &self.purges];
        trees.into_iter().all(|tree| tree.lie_before(offset))
    }

    fn decode(reader: &mut Reader<'_>) -> Option<DbRoots> {
        let (update_seq, purge_seq) = (reader.varint()?, reader.varint()?);
        let (revs_limit, purge_infos_limit) = (reader.varint()?.try_into().ok()?, reader.varint()?);
        if revs_limit == 0 || purge_infos_limit == 0 {
            return None;
        }
        Some(DbRoots {
            by_id: Tree::decode(reader)?,
            by_seq: Tree::decode(reader)?,
            local: Tree::decode(reader)?,
            purges: Tree::decode(reader)?,
            update_seq,
            purge_seq,
            revs_limit,
            purge_infos_limit,
            timelines: Timelines::decode(reader)?,
        })
    }
}

/// How many documents there are, and how large; what the by_id tree sums up.
///
/// ```
/// use rereduce::db::DocCounts;
/// let counts = DocCounts { live: 3, deleted: 1, external_bytes: 900, stored_bytes: 400 };
/// assert_eq!(DocCounts::decode(&counts.encode()), Some(counts));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocCounts {
    /// Documents whose winner is not deleted.
    pub live: u64,
    /// Documents whose winner is deleted.
    pub deleted: u64,
    /// Bytes of all leaf revisions and their attachments as clients see them.
    pub external_bytes: u64,
    /// Bytes that they take in the file.
    pub stored_bytes: u64,
}

impl DocCounts {
    /// The form in inner nodes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    fn put(&self, out: &mut Vec<u8>) {
        for number in [self.live, self.deleted, self.external_bytes, self.stored_bytes] {
            put_varint(out, number);
        }
    }

    /// Reads the form in inner nodes; empty bytes are the counts of nothing.
    pub fn decode(reduction: &[u8]) -> Option<DocCounts> {
        if reduction.is_empty() {
            return Some(DocCounts::default());
        }
        let mut reader = Reader::new(reduction);
        let counts = DocCounts {
            live: reader.varint()?,
            deleted: reader.varint()?,
            external_bytes: reader.varint()?,
            stored_bytes: reader.varint()?,
        };
        reader.is_empty().then_some(counts)
    }

    fn add(self, other: DocCounts) -> DocCounts {
        DocCounts {
            live: self.live.wrapping_add(other.live),
            deleted: self.deleted.wrapping_add(other.deleted),
            external_bytes: self.external_bytes.wrapping_add(other.external_bytes),
            stored_bytes: self.stored_bytes.wrapping_add(other.stored_bytes),
        }
    }
}

/// Sums [`DocCounts`] over by_id values. A value that is damaged counts as nothing here; reading
/// it reports the damage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountDocs;

impl Reducer for CountDocs {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        let mut sum = DocCounts::default();
        for (deleted, sizes) in rows.iter().filter_map(|row| take_summary(row.1)) {
            sum = sum.add(DocCounts {
                live: u64::from(!deleted || mark::planted("tombstones-count-as-live")),
                deleted: u64::from(deleted),
                external_bytes: sizes.external,
                stored_bytes: sizes.stored,
            });
        }
        sum.put(out);
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let parts = parts.iter().filter_map(|part| DocCounts::decode(part));
        parts.fold(DocCounts::default(), DocCounts::add).put(out);
        Ok(())
    }
}
