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
    /// Of these leaves of a document, which are all.
    pub(crate) fn of(leaves: &[(&Rev, &Known)]) -> Sizes {
        let mut sizes = Sizes::default();
        for (_, known) in leaves {
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
    reader.is_empty().then_some(RecordParts { deleted: flags & 1 == 1, seq, sizes, tree })
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

/// Appends the by_seq value of a document with these leaves, the winner first.
pub(crate) fn put_seq_entry(out: &mut Vec<u8>, id: &str, leaves: &[(&Rev, &Known)]) {
    put_bytes(out, id.as_bytes());
    put_varint(out, leaves.len() as u64);
    for (rev, known) in leaves {
        out.push(u8::from(known.deleted));
        put_rev(out, rev);
    }
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
    out.reserve(json.len() + 8);
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

#[cfg(test)]
mod tests {
    use quickcheck::{Arbitrary, Gen, QuickCheck};

    use super::*;
    use crate::doc::{Digest, Encoding};

    /// A value of each kind that is stored, as some generator made it.
    #[derive(Clone, Debug)]
    enum Stored {
        Record {
            deleted: bool,
            seq: u64,
            sizes: Sizes,
            tree: std::result::Result<Vec<u8>, Pointer>,
        },
        Known(Known),
        Entry(SeqEntry),
        Purge(PurgeEntry),
        Body {
            json: Vec<u8>,
            attachments: Vec<HeldAttachment>,
        },
        List(Vec<Pointer>),
        Local(u64, Vec<u8>),
    }

    /// Lies behind all pointers that the generator makes.
    const HOLDER: Pointer = Pointer { offset: 1 << 41, length: 1, checksum: 0 };

    fn pointer(g: &mut Gen) -> Pointer {
        // Somewhere behind a block's marker, where a chunk can begin.
        let offset = u64::arbitrary(g) % (1 << 29) * 2048 + 1 + u64::arbitrary(g) % 2047;
        Pointer { offset, length: u32::arbitrary(g) % 100_000, checksum: u32::arbitrary(g) }
    }

    fn list<T>(g: &mut Gen, least: usize, one: impl Fn(&mut Gen) -> T) -> Vec<T> {
        let count = least + usize::arbitrary(g) % 4;
        (0..count).map(|_| one(g)).collect()
    }

    fn rev(g: &mut Gen) -> Rev {
        Rev::new(u64::arbitrary(g), RevId::from_bytes(Vec::<u8>::arbitrary(g)))
    }

    fn held(g: &mut Gen) -> HeldAttachment {
        let length = u64::arbitrary(g);
        let (encoding, encoded_length) = match bool::arbitrary(g) {
            true => (Encoding::Identity, length),
            false => (Encoding::Gzip, u64::arbitrary(g)),
        };
        let digest = Digest(std::array::from_fn(|_| u8::arbitrary(g)));
        let attachment = Attachment {
            name: String::arbitrary(g),
            content_type: String::arbitrary(g),
            length,
            encoded_length,
            digest,
            revpos: u64::arbitrary(g),
            encoding,
        };
        let data = match bool::arbitrary(g) {
            true => DataPlace::Chunks(list(g, 0, pointer)),
            false => DataPlace::Listed(pointer(g)),
        };
        HeldAttachment { attachment, data }
    }

    impl Arbitrary for Stored {
        fn arbitrary(g: &mut Gen) -> Stored {
            let leaf = |g: &mut Gen| (rev(g), bool::arbitrary(g));
            let id = String::arbitrary(g);
            match u8::arbitrary(g) % 7 {
                0 => Stored::Record {
                    deleted: bool::arbitrary(g),
                    seq: u64::arbitrary(g),
                    sizes: Sizes { external: u64::arbitrary(g), stored: u64::arbitrary(g) },
                    tree: match bool::arbitrary(g) {
                        true => Ok(Vec::arbitrary(g)),
                        false => Err(pointer(g)),
                    },
                },
                1 => Stored::Known(Known {
                    deleted: bool::arbitrary(g),
                    body: pointer(g),
                    external: u64::arbitrary(g),
                    attached: u64::arbitrary(g),
                }),
                2 => Stored::Entry(SeqEntry { id, leaves: list(g, 1, leaf) }),
                3 => Stored::Purge(PurgeEntry { id, revs: list(g, 0, rev) }),
                4 => Stored::Body { json: Vec::arbitrary(g), attachments: list(g, 0, held) },
                5 => Stored::List(list(g, 0, pointer)),
                _ => Stored::Local(u64::arbitrary(g), Vec::arbitrary(g)),
            }
        }
    }

    impl Stored {
        fn encode(&self) -> Vec<u8> {
            let mut out = Vec::new();
            match self {
                Stored::Record { deleted, seq, sizes, tree } => {
                    let place = match tree {
                        Ok(bytes) => TreePlace::Inline(bytes),
                        Err(pointer) => TreePlace::Chunk(*pointer),
                    };
                    put_record(&mut out, *deleted, *seq, *sizes, &place);
                }
                Stored::Known(known) => known.encode(&mut out),
                Stored::Entry(entry) => {
                    let known = |(_, deleted): &(Rev, bool)| Known {
                        deleted: *deleted,
                        body: Pointer::default(),
                        external: 0,
                        attached: 0,
                    };
                    let known: Vec<Known> = entry.leaves.iter().map(known).collect();
                    let revs = entry.leaves.iter().map(|(rev, _)| rev);
                    let leaves: Vec<(&Rev, &Known)> = revs.zip(&known).collect();
                    put_seq_entry(&mut out, &entry.id, &leaves);
                }
                Stored::Purge(entry) => return entry.encode(),
                Stored::Body { json, attachments } => put_body(&mut out, json, attachments),
                Stored::List(chunks) => chunks.iter().for_each(|chunk| chunk.encode(&mut out)),
                Stored::Local(number, json) => return encode_local(*number, json),
            }
            out
        }

        /// Reads bytes as a value of the same kind.
        fn decode_alike(&self, bytes: &[u8]) -> Option<Stored> {
            Some(match self {
                Stored::Record { .. } => {
                    let RecordParts { deleted, seq, sizes, tree } = take_record(bytes)?;
                    let tree = match tree {
                        TreePlace::Inline(bytes) => Ok(bytes.to_vec()),
                        TreePlace::Chunk(pointer) => Err(pointer),
                    };
                    assert_eq!(take_summary(bytes), Some((deleted, sizes)));
                    Stored::Record { deleted, seq, sizes, tree }
                }
                Stored::Known(_) => {
                    let mut reader = Reader::new(bytes);
                    Stored::Known(Known::decode(&mut reader).filter(|_| reader.is_empty())?)
                }
                Stored::Entry(_) => Stored::Entry(SeqEntry::decode(bytes)?),
                Stored::Purge(_) => Stored::Purge(PurgeEntry::decode(bytes)?),
                Stored::Body { .. } => {
                    let BodyParts { json, attachments } = decode_body(bytes, &HOLDER)?;
                    Stored::Body { json: json.to_vec(), attachments }
                }
                Stored::List(_) => Stored::List(decode_list(bytes, &HOLDER)?),
                Stored::Local(..) => {
                    let (number, json) = decode_local(bytes)?;
                    Stored::Local(number, json.to_vec())
                }
            })
        }

        fn same(&self, other: &Stored) -> bool {
            format!("{self:?}") == format!("{other:?}")
        }
    }

    fn check<T: quickcheck::Testable>(law: T) {
        QuickCheck::new().tests(5_000).quickcheck(law);
    }

    #[test]
    fn what_is_stored_reads_back_as_itself() {
        fn law(stored: Stored) -> bool {
            let read = stored.decode_alike(&stored.encode());
            read.is_some_and(|read| read.same(&stored))
        }
        check(law as fn(Stored) -> bool);
    }

    #[test]
    fn each_form_is_the_only_one_for_its_value() {
        /// One byte is changed, or some are cut off: what is read even so is written the same way.
        fn law(stored: Stored, at: usize, with: u8, cut: bool) -> bool {
            let mut bytes = stored.encode();
            match bytes.len() {
                0 => return true,
                length if cut => bytes.truncate(at % length),
                length => bytes[at % length] ^= with,
            }
            stored.decode_alike(&bytes).is_none_or(|read| read.encode() == bytes)
        }
        check(law as fn(Stored, usize, u8, bool) -> bool);
    }

    #[test]
    fn bytes_of_any_kind_are_read_without_a_panic() {
        fn law(kind: Stored, bytes: Vec<u8>) -> bool {
            kind.decode_alike(&bytes).is_none_or(|read| read.encode() == bytes)
        }
        check(law as fn(Stored, Vec<u8>) -> bool);
    }

    // spec: CHUNK-2
    #[test]
    fn a_pointer_to_what_lies_behind_its_holder_is_refused() {
        let chunk = Pointer { offset: 4097, length: 10, checksum: 1 };
        let (before, behind) =
            (Pointer { offset: 2049, ..chunk }, Pointer { offset: 8193, ..chunk });
        let mut list = Vec::new();
        chunk.encode(&mut list);
        assert_eq!(decode_list(&list, &behind), Some(vec![chunk]));
        assert_eq!(decode_list(&list, &before), None);
        assert_eq!(decode_list(&list, &chunk), None, "nor may it be the holder itself");
    }
}
