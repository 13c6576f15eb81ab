//! Reading what records point at: revision trees, bodies, attachment data.

use crate::btree::Tree;
use crate::error::{Error, Result};
use crate::file::{ChunkSource, Pointer};
use crate::mark;
use crate::store::committed::Committed;
use crate::vocabulary::Json;

use super::record::{
    BodyParts, DataPlace, DocTree, HeldAttachment, Sizes, TreePlace, decode_body, decode_list,
    take_record,
};
use super::roots::DbRoots;
use crate::codec::Reader;

/// One document as the by_id tree holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) seq: u64,
    pub(crate) tree: DocTree,
}

impl Record {
    /// Takes the by_id value of document `id` apart and reads the revision tree. Cost: one read if
    /// the tree is long.
    pub(crate) fn load(state: &Committed<DbRoots>, id: &[u8], value: &[u8]) -> Result<Record> {
        Record::load_from(&*state.file, state, id, value)
    }

    /// The same, with chunks read through `source`, which is the file of `state`.
    pub(crate) fn load_from(
        source: &dyn ChunkSource,
        state: &Committed<DbRoots>,
        id: &[u8],
        value: &[u8],
    ) -> Result<Record> {
        let wrong = |expected| nonsense(state, &state.roots.by_id, id, expected);
        let parts = take_record(value).ok_or_else(|| wrong("a document record"))?;
        let chunk;
        let bytes = match parts.tree {
            TreePlace::Inline(bytes) => bytes,
            TreePlace::Chunk(pointer) => {
                chunk = source.read(pointer)?;
                &chunk
            }
        };
        let mut reader = Reader::new(bytes);
        let tree = DocTree::decode(&mut reader).filter(|_| reader.is_empty());
        let tree = tree.filter(|tree| {
            tree.is_deleted() == parts.deleted && Sizes::of(&tree.leaves()) == parts.sizes
        });
        let tree = tree.ok_or_else(|| wrong("a revision tree that agrees with its record"))?;
        Ok(Record { seq: parts.seq, tree })
    }
}

/// A body chunk, read and taken apart.
pub(crate) struct Body {
    /// Bytes of its JSON.
    pub(crate) json_bytes: u64,
    pub(crate) members: Vec<(String, Json)>,
    pub(crate) attachments: Vec<HeldAttachment>,
}

impl Body {
    /// Reads the body at `pointer`. Cost: one read.
    pub(crate) fn load(source: &dyn ChunkSource, pointer: Pointer) -> Result<Body> {
        let chunk = source.read(pointer)?;
        let wrong = || source.nonsense(pointer, "a document body", "other bytes");
        let BodyParts { json, attachments } = decode_body(&chunk, &pointer).ok_or_else(wrong)?;
        match Json::parse(json) {
            Ok(Json::Object(members)) => {
                Ok(Body { json_bytes: json.len() as u64, members, attachments })
            }
            _ => Err(wrong()),
        }
    }

    /// Only the attachments of the body at `pointer`. Cost: one read.
    pub(crate) fn load_attachments(
        source: &dyn ChunkSource,
        pointer: Pointer,
    ) -> Result<Vec<HeldAttachment>> {
        let chunk = source.read(pointer)?;
        let parts = decode_body(&chunk, &pointer);
        let parts = parts.ok_or_else(|| source.nonsense(pointer, "a document body", "other bytes"));
        Ok(parts?.attachments)
    }
}

/// The data chunks of an attachment. Cost: one read if they are many.
pub(crate) fn data_chunks(source: &dyn ChunkSource, data: &DataPlace) -> Result<Vec<Pointer>> {
    match data {
        DataPlace::Chunks(chunks) => Ok(chunks.clone()),
        DataPlace::Listed(list) => {
            let chunk = source.read(*list)?;
            decode_list(&chunk, list)
                .ok_or_else(|| source.nonsense(*list, "a list of data chunks", "other bytes"))
        }
    }
}

/// The error for a value of `tree` that passed its node's checksum and still makes no sense. Goes
/// down the tree once more, to say in which leaf it lies.
// spec: ROT-3
pub(crate) fn nonsense(
    state: &Committed<DbRoots>,
    tree: &Tree,
    key: &[u8],
    expected: &str,
) -> Error {
    let leaf = match mark::planted("nonsense-without-a-place") {
        true => None,
        false => tree.find_leaf(&state.nodes(), key).ok().flatten(),
    };
    state.file.nonsense(leaf.unwrap_or_default(), expected, "other bytes")
}

/// The error for a reduction of `tree` that is none of ours.
pub(crate) fn nonsense_reduction(state: &Committed<DbRoots>, tree: &Tree) -> Error {
    state.file.nonsense(tree.root().unwrap_or_default(), "a reduction", "other bytes")
}
