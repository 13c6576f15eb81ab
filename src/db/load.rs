//! Reading what records point at: revision trees, bodies, attachment data.

use crate::error::{Error, Result};
use crate::file::{ChunkSource, Pointer};
use crate::vocabulary::Json;

use super::record::{
    BodyParts, DataPlace, DocTree, HeldAttachment, Sizes, TreePlace, decode_body, decode_list,
    take_record,
};
use crate::codec::Reader;

/// One document as the by_id tree holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) seq: u64,
    pub(crate) tree: DocTree,
}

impl Record {
    /// Takes a by_id value apart and reads the revision tree. Cost: one read if the tree is long.
    pub(crate) fn load(source: &dyn ChunkSource, value: &[u8]) -> Result<Record> {
        let parts = take_record(value).ok_or_else(|| nonsense(source, "a document record"))?;
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
        let tree = tree.ok_or_else(|| nonsense(source, "a revision tree"))?;
        Ok(Record { seq: parts.seq, tree })
    }
}

/// A body chunk, read and taken apart.
pub(crate) struct Body {
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
            Ok(Json::Object(members)) => Ok(Body { members, attachments }),
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

/// The error for a tree value that passed its node's checksum and still makes no sense.
pub(crate) fn nonsense(source: &dyn ChunkSource, expected: &str) -> Error {
    source.nonsense(Pointer::default(), expected, "other bytes")
}
