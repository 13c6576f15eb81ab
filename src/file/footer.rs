//! Footers: the fixed-size records through which a file says where its trees are.
//!
//! A commit ends with two identical copies of its footer, each one block, the first at an odd
//! multiple of 2,048, so that the copies lie in different 4 KiB sectors of the disk:
//!
//! ```text
//!      4 KiB sector          4 KiB sector          4 KiB sector
//! |data data|data copy A|copy B data|data data|...
//!            ^ own offset            ^ the next chunk
//! ```
//!
//! One copy, byte by byte (integers little-endian):
//!
//! ```text
//!    0  marker 0xa5            56  checksum of the cover   336  oldest commit in file
//!    1  magic "footer1"        64  protocol, 65 kind       344  offset of the commit's footer
//!    8  file id (16)           66  payload length (2)      352  payload (up to 1,688):
//!   24  own offset             68  1 if payload is in a         the roots of the trees
//!   32  commit number              chunk, zeros           2040  checksum of [0, 2040)
//!   40  flushed                72  previous footer
//!   48  cover from             80  skip links (32 x 8)
//! ```
//!
//! A seal, written by a clean close, is one more footer for the last commit: number, roots and
//! links are the commit's, the cover is empty, and it names the commit itself as flushed.
//!
//! Invariant: a footer counts only if it checks out and the bytes it covers check out; then
//! everything it points at is there, and nothing else in the file needs to be believed.

use super::block::{BLOCK_BYTES, FOOTER};
use super::chunk::Pointer;
use super::header::FileId;
use crate::checksum::Cover;
use crate::codec::Reader;
use crate::mark;

/// Payload bytes that a footer holds by itself; a longer payload goes into a chunk before it.
pub const PAYLOAD_BYTES_MAX: usize = 1688;

/// Bytes that a footer may cover; a commit with more flushes its data before its footer.
pub const COVER_BYTES_MAX: u64 = 1 << 20;

/// Skip links in a footer: enough for 2^32 commits.
pub(crate) const SKIPS: usize = 32;

/// Bytes of both copies.
pub(crate) const PAIR_BYTES: u64 = 2 * BLOCK_BYTES;

const MAGIC: [u8; 7] = *b"footer1";
const CHECKED_BYTES: usize = BLOCK_BYTES as usize - 8;

/// What a writer does between the first byte of a commit and its acknowledgement.
///
/// | protocol | order of work | covers |
/// | --- | --- | --- |
/// | `Guide` | data and copy A, flush, copy B, flush | nothing, though it never earned that |
/// | `Barrier` | data, flush, both copies, flush | nothing: the data is flushed before |
/// | `Verified` | data and both copies, flush | every byte since the last flush |
///
/// `Guide` is the order that "CouchDB: The Definitive Guide" tells; it loses data where the disk
/// reorders writes inside one flush.
///
/// ```
/// assert_eq!(rereduce::file::Protocol::default(), rereduce::file::Protocol::Verified);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// As the CouchDB guide tells it. For experiments only.
    Guide,
    /// Two flushes, nothing to check on opening.
    Barrier,
    /// One flush; opening checks what the footer covers.
    #[default]
    Verified,
}

/// Where the roots are: in the footer, or in a chunk before it if they are too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Inline(Vec<u8>),
    Chunk(Pointer),
}

/// One footer, as both copies say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) file: FileId,
    /// Offset of copy A.
    pub(crate) offset: u64,
    pub(crate) number: u64,
    /// The newest commit known to be flushed when this was written.
    pub(crate) flushed: u64,
    pub(crate) cover_from: u64,
    pub(crate) cover_checksum: u64,
    pub(crate) protocol: Protocol,
    pub(crate) seal: bool,
    /// The footer of the commit before, or 0.
    pub(crate) previous: u64,
    /// Entry i: the newest ancestor whose number is a multiple of 2^i, or 0.
    pub(crate) skips: [u64; SKIPS],
    /// Number of the first commit in this file.
    pub(crate) oldest: u64,
    /// For a seal, the offset of the sealed commit's own footer; else the own offset.
    pub(crate) commit_offset: u64,
    pub(crate) payload: Payload,
}

impl Footer {
    /// The offset just behind both copies.
    pub(crate) fn end(&self) -> u64 {
        self.offset + PAIR_BYTES
    }

    /// The checksum that the footer's cover must have, over bytes that follow with `update`.
    pub(crate) fn begin_cover(file: FileId, number: u64) -> Cover {
        Cover::new(file.seed() ^ number.rotate_left(32))
    }

    /// One copy: exactly one block.
    ///
    /// The payload must not be longer than [`PAYLOAD_BYTES_MAX`]; the writer sees to that.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_BYTES as usize);
        out.push(FOOTER);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.file.0);
        for field in [self.offset, self.number, self.flushed, self.cover_from, self.cover_checksum]
        {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let mut pointer = Vec::new();
        let (payload, in_chunk) = match &self.payload {
            Payload::Inline(payload) => (payload, 0),
            Payload::Chunk(chunk) => {
                chunk.encode(&mut pointer);
                (&pointer, 1)
            }
        };
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "the writer puts long payloads into chunks");
        out.push(self.protocol as u8);
        out.push(u8::from(self.seal));
        out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        out.extend_from_slice(&[in_chunk, 0, 0, 0]);
        out.extend_from_slice(&self.previous.to_le_bytes());
        self.skips.iter().for_each(|skip| out.extend_from_slice(&skip.to_le_bytes()));
        out.extend_from_slice(&self.oldest.to_le_bytes());
        out.extend_from_slice(&self.commit_offset.to_le_bytes());
        out.extend_from_slice(payload);
        out.resize(CHECKED_BYTES, 0);
        let checksum = own_checksum(self.file, self.offset, &out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The footer of which `block`, found at offset `at` in file `file`, is one copy; `None` if it
    /// is anything else: data, a torn write, damage, or a copy of some other footer.
    // spec: FOOTER-1, FOOTER-2
    pub(crate) fn decode(file: FileId, at: u64, block: &[u8]) -> Option<Footer> {
        let (fields, stored) = block.split_at_checked(CHECKED_BYTES)?;
        let mut reader = Reader::new(fields);
        if reader.u8()? != FOOTER || reader.array()? != MAGIC {
            return None;
        }
        let own_file = FileId(reader.array()?);
        if own_file != file && !mark::planted("footer-of-any-file") {
            return None;
        }
        let offset = reader.u64()?;
        let in_place = at == offset
            || at == offset.checked_add(BLOCK_BYTES)?
            || mark::planted("footer-of-any-place");
        if !in_place || offset / BLOCK_BYTES % 2 != 1 || !offset.is_multiple_of(BLOCK_BYTES) {
            return None;
        }
        let right = own_checksum(own_file, offset, fields).to_le_bytes() == stored;
        if !right && !mark::planted("footer-checksum-ignored") {
            return None;
        }
        Footer::decode_fields(own_file, offset, reader)
    }

    /// The file whose footer `block`, found at offset `at`, is a copy of, if it is a whole one in
    /// its place.
    pub(crate) fn find_file(at: u64, block: &[u8]) -> Option<FileId> {
        let file = FileId(Reader::new(block.get(8..)?).array()?);
        Footer::decode(file, at, block).map(|footer| footer.file)
    }

    fn decode_fields(file: FileId, offset: u64, mut reader: Reader<'_>) -> Option<Footer> {
        let (number, flushed) = (reader.u64()?, reader.u64()?);
        let (cover_from, cover_checksum) = (reader.u64()?, reader.u64()?);
        let protocol = match reader.u8()? {
            0 => Protocol::Guide,
            1 => Protocol::Barrier,
            2 => Protocol::Verified,
            _ => return None,
        };
        let seal = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let payload_length = usize::from(u16::from_le_bytes(reader.array()?));
        let in_chunk = reader.u32()?;
        let previous = reader.u64()?;
        let mut skips = [0; SKIPS];
        for skip in &mut skips {
            *skip = reader.u64()?;
        }
        let (oldest, commit_offset) = (reader.u64()?, reader.u64()?);
        let payload = reader.take(payload_length)?;
        let payload = match in_chunk {
            0 => Payload::Inline(payload.to_vec()),
            1 => Payload::Chunk(Pointer::decode(&mut Reader::new(payload))?),
            _ => return None,
        };
        // spec: CHUNK-2
        let links_behind = previous < offset && skips.iter().all(|skip| *skip < offset);
        let payload_before = match &payload {
            Payload::Chunk(chunk) => {
                chunk.end()? <= offset || mark::planted("roots-may-lie-behind")
            }
            Payload::Inline(_) => true,
        };
        let cover_fits =
            (BLOCK_BYTES..=offset).contains(&cover_from) && offset - cover_from <= COVER_BYTES_MAX;
        let numbers_fit = (1..=number).contains(&oldest) && flushed <= number;
        let kind_fits = if seal { commit_offset < offset } else { commit_offset == offset };
        let sound = links_behind && payload_before && cover_fits && numbers_fit && kind_fits;
        sound.then_some(Footer {
            file,
            offset,
            number,
            flushed,
            cover_from,
            cover_checksum,
            protocol,
            seal,
            previous,
            skips,
            oldest,
            commit_offset,
            payload,
        })
    }

    /// The checksum that tells this footer from every other, also from one of the same number.
    pub(crate) fn checksum(&self) -> u64 {
        let copy = self.encode();
        own_checksum(self.file, self.offset, &copy[..CHECKED_BYTES])
    }

    /// The links of a commit whose parent is this one.
    pub(crate) fn links_of_child(&self) -> (u64, [u64; SKIPS]) {
        let mut skips = self.skips;
        for (exponent, skip) in skips.iter_mut().enumerate() {
            if self.number.is_multiple_of(1 << exponent) {
                *skip = self.commit_offset;
            }
        }
        (self.commit_offset, skips)
    }

    /// The footer offset of an ancestor whose number is at least `number`, as far back as one link
    /// reaches; 0 if there is none.
    pub(crate) fn link_towards(&self, number: u64) -> u64 {
        for (exponent, skip) in self.skips.iter().enumerate().rev() {
            if mark::planted("history-goes-step-by-step") {
                break;
            }
            let ancestor = ((self.number - 1) >> exponent) << exponent;
            if *skip != 0 && ancestor >= number {
                return *skip;
            }
        }
        self.previous
    }
}

fn own_checksum(file: FileId, offset: u64, fields: &[u8]) -> u64 {
    let mut checksum = Cover::new(file.seed() ^ offset);
    checksum.update(&fields[..CHECKED_BYTES.min(fields.len())]);
    checksum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer {
            file: FileId([3; 16]),
            offset: 6144,
            number: 5,
            flushed: 4,
            cover_from: 4096,
            cover_checksum: 77,
            protocol: Protocol::Verified,
            seal: false,
            previous: 2048,
            skips: [2048; SKIPS],
            oldest: 1,
            commit_offset: 6144,
            payload: Payload::Inline(b"roots".to_vec()),
        }
    }

    // spec: FOOTER-1
    #[test]
    fn a_footer_reads_back_from_either_place_and_from_no_other() {
        let copy = footer().encode();
        assert_eq!(copy.len() as u64, BLOCK_BYTES);
        for at in [6144, 8192] {
            assert_eq!(Footer::decode(FileId([3; 16]), at, &copy), Some(footer()));
        }
        assert_eq!(Footer::decode(FileId([3; 16]), 10240, &copy), None);
        assert_eq!(Footer::decode(FileId([4; 16]), 6144, &copy), None);
    }

    // spec: FOOTER-1
    #[test]
    fn a_change_of_any_byte_makes_a_footer_invalid() {
        let copy = footer().encode();
        for position in 0..copy.len() {
            let mut damaged = copy.clone();
            damaged[position] ^= 0x40;
            assert_eq!(Footer::decode(FileId([3; 16]), 6144, &damaged), None, "byte {position}");
        }
    }

    #[test]
    fn skip_links_reach_every_ancestor_in_logarithmically_many_steps() {
        // A chain of commits 1..=1000, commit n at offset n * 4096 + 2048.
        let mut chain = vec![Footer { number: 1, skips: [0; SKIPS], previous: 0, ..footer() }];
        for number in 2..=1000u64 {
            let (previous, skips) = chain[chain.len() - 1].links_of_child();
            let offset = number * 4096 + 2048;
            let commit_offset = offset;
            chain.push(Footer { number, offset, commit_offset, previous, skips, ..footer() });
        }
        for number in 1..=1000u64 {
            let (mut at, mut steps) = (1000u64, 0);
            while at != number {
                at = (chain[at as usize - 1].link_towards(number) - 2048) / 4096;
                assert!(at >= number);
                steps += 1;
            }
            assert!(steps <= 20, "{steps} steps to commit {number}");
        }
    }
}
