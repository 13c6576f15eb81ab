//! What the trees of a database hold: document records, sequence entries, purges, bodies.
//!
//! ```text
//!   by_id    id        -> flags, seq, sizes, revision tree (or a pointer to it if it is long)
//!   by_seq   seq       -> id, winner, leaves                (no pointers)
//!   local    id        -> revision number, body
//!   purges   purge_seq -> id, revisions
//!
//!   revision tree -> for each known revision: deleted, body chunk, sizes
//!   body chunk    -> JSON, attachment records, for each its data chunks (or where their list is)
//! ```
//!
//! Invariant: each form is the only one for its value, and reading never trusts a length.

use crate::codec::{Reader, put_bytes, put_varint};
use crate::doc::{Attachment, RevData, RevTree};
use crate::file::Pointer;
use crate::vocabulary::{Rev, RevId};

/// What a revision tree keeps of each revision whose body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) deleted: bool,
    pub(crate) body: Pointer,
    /// Bytes of body and attachments as a client sees them.
    pub(crate) external: u64,
    /// Bytes of the attachments' data chunks.
    pub(crate) attached: u64,
}

impl RevData for Known {
    fn is_deleted(&self) -> bool {
        self.deleted
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.deleted));
        self.body.encode(out);
        put_varint(out, self.external);
        put_varint(out, self.attached);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Known> {
        let deleted = flag(reader)?;
        let body = Pointer::decode(reader)?;
        Some(Known { deleted, body, external: reader.varint()?, attached: reader.varint()? })
    }
}

impl Known {
    /// Bytes that the revision takes in the file.
    pub(crate) fn stored(&self) -> u64 {
        self.body.length() as u64 + self.attached
    }
}

/// The revision tree of one document.
pub(crate) type DocTree = RevTree<Known>;

/// A revision tree longer than this lies in its own chunk.
pub(crate) const TREE_BYTES_MAX: usize = 512;

/// Where a record's revision tree is.
pub(crate) enum TreePlace<'a> {
    Inline(&'a [u8]),
    Chunk(Pointer),
}

/// A by_id value taken apart, the tree not yet read.
pub(crate) struct RecordParts<'a> {
    pub(crate) deleted: bool,
    pub(crate) seq: u64,
    pub(crate) sizes: Sizes,
    pub(crate) tree: TreePlace<'a>,
}

/// Bytes of all leaves of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// As a client sees them.
    pub(crate) external: u64,
    /// In the file.
    pub(crate) stored: u64,
}

impl Sizes {
    pub(crate) fn of(tree: &DocTree) -> Sizes {
        let mut sizes = Sizes::default();
        for (_, known) in tree.leaves() {
            sizes.external = sizes.external.saturating_add(known.external);
            sizes.stored = sizes.stored.saturating_add(known.stored());
        }
        sizes
    }
}

/// Appends a by_id value.
pub(crate) fn put_record(
    out: &mut Vec<u8>,
    deleted: bool,
    seq: u64,
    sizes: Sizes,
    tree: &TreePlace<'_>,
) {
    let in_chunk = matches!(tree, TreePlace::Chunk(_));
    out.push(u8::from(deleted) | u8::from(in_chunk) << 1);
    put_varint(out, sizes.external);
    put_varint(out, sizes.stored);
    put_varint(out, seq);
    match tree {
        TreePlace::Inline(bytes) => out.extend_from_slice(bytes),
        TreePlace::Chunk(pointer) => pointer.encode(out),
    }
}

/// Takes a by_id value apart; `None` for anything else.
pub(crate) fn take_record(value: &[u8]) -> Option<RecordParts<'_>> {
    let mut reader = Reader::new(value);
    let flags = reader.u8().filter(|flags| *flags < 4)?;
    let sizes = Sizes { external: reader.varint()?, stored: reader.varint()? };
    let seq = reader.varint()?;
    let tree = if flags & 2 == 0 {
        TreePlace::Inline(reader.take(reader.remaining())?)
    } else {
        TreePlace::Chunk(Pointer::decode(&mut reader)?)
    };
    Some(RecordParts { deleted: flags & 1 == 1, seq, sizes, tree })
}

/// The flags and sizes at the beginning of a by_id value, for its reduction.
pub(crate) fn take_summary(value: &[u8]) -> Option<(bool, Sizes)> {
    let mut reader = Reader::new(value);
    let flags = reader.u8()?;
    Some((flags & 1 == 1, Sizes { external: reader.varint()?, stored: reader.varint()? }))
}

/// One entry of the sequence index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeqEntry {
    pub(crate) id: String,
    /// Every leaf and whether it is deleted, the winner first.
    pub(crate) leaves: Vec<(Rev, bool)>,
}

/// The by_seq value of a document with these leaves, the winner first.
pub(crate) fn encode_seq_entry(id: &str, leaves: &[(&Rev, &Known)]) -> Vec<u8> {
    // A leaf is mostly a flag, a small generation and 16 bytes behind their length.
    let mut out = Vec::with_capacity(id.len() + 4 + leaves.len() * 20);
    put_bytes(&mut out, id.as_bytes());
    put_varint(&mut out, leaves.len() as u64);
    for (rev, known) in leaves {
        out.push(u8::from(known.deleted));
        put_rev(&mut out, rev);
    }
    out
}

impl SeqEntry {
    pub(crate) fn decode(value: &[u8]) -> Option<SeqEntry> {
        let mut reader = Reader::new(value);
        let id = take_id(&mut reader)?;
        let count = reader.varint()?;
        let mut leaves = Vec::new();
        for _ in 0..count {
            let deleted = flag(&mut reader)?;
            leaves.push((take_rev(&mut reader)?, deleted));
        }
        (reader.is_empty() && !leaves.is_empty()).then_some(SeqEntry { id, leaves })
    }
}

/// The key of sequence (or purge sequence) `seq`: big-endian, so that byte order is number order.
pub(crate) fn seq_key(seq: u64) -> [u8; 8] {
    seq.to_be_bytes()
}

/// The sequence of a key.
pub(crate) fn key_seq(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

/// One purge: which revisions of which document went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PurgeEntry {
    pub(crate) id: String,
    pub(crate) revs: Vec<Rev>,
}

impl PurgeEntry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, self.id.as_bytes());
        put_varint(&mut out, self.revs.len() as u64);
        self.revs.iter().for_each(|rev| put_rev(&mut out, rev));
        out
    }

    pub(crate) fn decode(value: &[u8]) -> Option<PurgeEntry> {
        let mut reader = Reader::new(value);
        let id = take_id(&mut reader)?;
        let mut revs = Vec::new();
        for _ in 0..reader.varint()? {
            revs.push(take_rev(&mut reader)?);
        }
        reader.is_empty().then_some(PurgeEntry { id, revs })
    }
}

/// Where the stored bytes of one attachment are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataPlace {
    /// In these chunks, in order.
    Chunks(Vec<Pointer>),
    /// In the chunks whose pointers this chunk lists.
    Listed(Pointer),
}

/// More data chunks than this are listed in a chunk of their own.
pub(crate) const DATA_POINTERS_MAX: usize = 8;

/// An attachment as a body chunk holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldAttachment {
    pub(crate) attachment: Attachment,
    pub(crate) data: DataPlace,
}

/// A body chunk taken apart.
pub(crate) struct BodyParts<'a> {
    pub(crate) json: &'a [u8],
    pub(crate) attachments: Vec<HeldAttachment>,
}

/// Appends a body chunk.
pub(crate) fn put_body(out: &mut Vec<u8>, json: &[u8], attachments: &[HeldAttachment]) {
    put_bytes(out, json);
    put_varint(out, attachments.len() as u64);
    for held in attachments {
        held.attachment.encode(out);
        match &held.data {
            DataPlace::Chunks(chunks) => {
                out.push(chunks.len() as u8);
                chunks.iter().for_each(|chunk| chunk.encode(out));
            }
            DataPlace::Listed(list) => {
                out.push(u8::MAX);
                list.encode(out);
            }
        }
    }
}

/// Takes a body chunk apart; every pointer in it must lie before `holder`.
// spec: CHUNK-2
pub(crate) fn decode_body<'a>(chunk: &'a [u8], holder: &Pointer) -> Option<BodyParts<'a>> {
    let mut reader = Reader::new(chunk);
    let json = reader.bytes()?;
    let mut attachments = Vec::new();
    for _ in 0..reader.varint()? {
        let attachment = Attachment::decode(&mut reader)?;
        let data = match reader.u8()? {
            u8::MAX => DataPlace::Listed(pointer_before(&mut reader, holder)?),
            count => {
                let mut chunks = Vec::new();
                for _ in 0..count {
                    chunks.push(pointer_before(&mut reader, holder)?);
                }
                DataPlace::Chunks(chunks)
            }
        };
        attachments.push(HeldAttachment { attachment, data });
    }
    reader.is_empty().then_some(BodyParts { json, attachments })
}

/// The pointers in a list of data chunks; each must lie before `holder`.
pub(crate) fn decode_list(chunk: &[u8], holder: &Pointer) -> Option<Vec<Pointer>> {
    let mut reader = Reader::new(chunk);
    let mut chunks = Vec::new();
    while !reader.is_empty() {
        chunks.push(pointer_before(&mut reader, holder)?);
    }
    Some(chunks)
}

fn pointer_before(reader: &mut Reader<'_>, holder: &Pointer) -> Option<Pointer> {
    Pointer::decode(reader).filter(|pointer| pointer.lies_before(holder))
}

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn take_id(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(reader.bytes()?.to_vec()).ok()
}

fn put_rev(out: &mut Vec<u8>, rev: &Rev) {
    put_varint(out, rev.generation);
    put_bytes(out, rev.id.as_bytes());
}

fn take_rev(reader: &mut Reader<'_>) -> Option<Rev> {
    let generation = reader.varint()?;
    Some(Rev::new(generation, RevId::from_bytes(reader.bytes()?)))
}

/// A local value: the number of its revision `0-N`, and its body.
pub(crate) fn encode_local(number: u64, json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + 4);
    put_varint(&mut out, number);
    out.extend_from_slice(json);
    out
}

/// Takes a local value apart.
pub(crate) fn decode_local(value: &[u8]) -> Option<(u64, &[u8])> {
    let mut reader = Reader::new(value);
    Some((reader.varint()?, reader.take(reader.remaining())?))
}
