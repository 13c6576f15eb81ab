//! Which chunks of the file one commit uses, and what for.
//!
//! Invariant: what is visited here is what a compaction would copy, bodies of inner revisions
//! included; everything else between the footers is garbage or belongs to older commits.

use std::ops::ControlFlow;

use crate::btree::Tree;
use crate::error::Result;
use crate::file::Pointer;
use crate::vocabulary::{Direction, KeyRange};

use super::DbSnapshot;
use super::load::{Body, Record, data_chunks, nonsense};
use super::record::{DataPlace, TreePlace, take_record};

/// What a chunk holds.
///
/// ```
/// use rereduce::db::ChunkKind;
/// assert_eq!(ChunkKind::Node { tree: "by_id", depth: 0 }.to_string(), "node of by_id, depth 0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkKind {
    /// A node of a tree.
    Node {
        /// The tree: `by_id`, `by_seq`, `local` or `purges`.
        tree: &'static str,
        /// Its distance from the root.
        depth: u32,
    },
    /// A revision tree that is too long for its row.
    RevisionTree,
    /// The body of a revision.
    Body,
    /// A piece of an attachment.
    AttachmentData,
    /// The list of the pieces of a long attachment.
    AttachmentList,
}

impl std::fmt::Display for ChunkKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChunkKind::Node { tree, depth } => write!(out, "node of {tree}, depth {depth}"),
            ChunkKind::RevisionTree => out.write_str("revision tree"),
            ChunkKind::Body => out.write_str("body"),
            ChunkKind::AttachmentData => out.write_str("attachment data"),
            ChunkKind::AttachmentList => out.write_str("attachment list"),
        }
    }
}

/// A chunk that a commit uses.
///
/// ```
/// use rereduce::db::{ChunkKind, Database, DatabaseOptions, DocEdit, UsedChunk};
/// use rereduce::env::Env;
/// use std::ops::ControlFlow;
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// db.edit(vec![DocEdit::parse("a", b"{}")?])?;
/// let mut chunks: Vec<UsedChunk> = Vec::new();
/// db.snapshot()?.chunks(&mut |chunk| {
///     chunks.push(chunk);
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(chunks.len(), 3, "a node by id, one by sequence, and a body");
/// assert_eq!((chunks[2].kind, chunks[2].owner.as_str()), (ChunkKind::Body, "a"));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedChunk {
    /// Where it is.
    pub pointer: Pointer,
    /// What it holds.
    pub kind: ChunkKind,
    /// The document it belongs to; empty for nodes.
    pub owner: String,
}

type VisitChunk<'a> = dyn FnMut(UsedChunk) -> ControlFlow<()> + 'a;

impl DbSnapshot {
    /// Visits the chunks that this commit uses: the nodes of each tree, then the chunks of each
    /// document in the order of ids. A chunk that revisions share is visited for each of them.
    ///
    /// Cost: reads everything but the data of attachments.
    ///
    /// Errors: [`Error::Corrupt`](crate::Error::Corrupt), [`Error::Io`](crate::Error::Io).
    pub fn chunks(&self, visit: &mut VisitChunk<'_>) -> Result<()> {
        let roots = &self.state.roots;
        let trees: [(&'static str, &Tree); 4] = [
            ("by_id", &roots.by_id),
            ("by_seq", &roots.by_seq),
            ("local", &roots.local),
            ("purges", &roots.purges),
        ];
        let mut ended = false;
        for (tree, root) in trees {
            root.walk(&self.state.nodes(), &mut |pointer, depth, _| {
                let kind = ChunkKind::Node { tree, depth };
                let flow = visit(UsedChunk { pointer, kind, owner: String::new() });
                ended |= flow.is_break();
                flow
            })?;
            if ended {
                return Ok(());
            }
        }
        let nodes = self.state.nodes();
        for row in roots.by_id.iter(&nodes, KeyRange::all(), Direction::Ascending) {
            let (key, value) = row?;
            let owner = String::from_utf8_lossy(&key).into_owned();
            for (pointer, kind) in self.chunks_of_document(&key, &value)? {
                if visit(UsedChunk { pointer, kind, owner: owner.clone() }).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn chunks_of_document(&self, id: &[u8], value: &[u8]) -> Result<Vec<(Pointer, ChunkKind)>> {
        let source = &*self.state.file;
        let mut found = Vec::new();
        let wrong = || nonsense(&self.state, &self.state.roots.by_id, id, "a document record");
        let parts = take_record(value).ok_or_else(wrong)?;
        if let TreePlace::Chunk(pointer) = parts.tree {
            found.push((pointer, ChunkKind::RevisionTree));
        }
        for (_, known, _) in Record::load(&self.state, id, value)?.tree.revisions() {
            found.push((known.body, ChunkKind::Body));
            for held in Body::load_attachments(source, known.body)? {
                if let DataPlace::Listed(list) = held.data {
                    found.push((list, ChunkKind::AttachmentList));
                }
                let data = data_chunks(source, &held.data)?;
                found.extend(data.into_iter().map(|chunk| (chunk, ChunkKind::AttachmentData)));
            }
        }
        Ok(found)
    }
}
