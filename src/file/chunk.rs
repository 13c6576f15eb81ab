//! Chunks: checksummed byte strings, and the pointers that reach them.
//!
//! A chunk has no frame of its own. Its pointer says where it is, how long it is and what its
//! CRC-32C is, so a swapped, misdirected or stale chunk does not pass, and reading one is one read.
//!
//! Invariant: a pointer is only ever stored in a chunk (or footer) that lies wholly behind the
//! bytes it points at; [`Pointer::lies_before`] asserts this on every read, so that a walk along
//! pointers ends whatever the file holds.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::block;
use crate::checksum::crc32c;
use crate::codec::Reader;
use crate::error::{Corruption, Error, Result};

/// Bytes in a stored pointer.
pub const POINTER_BYTES: usize = 14;

/// Where a chunk is and what it must be. Outside `file` the offset means nothing but "behind" and
/// "before".
///
/// ```
/// use rereduce::file::{ChunkSink, ChunkSource, MemoryChunks};
/// let mut chunks = MemoryChunks::default();
/// let first = chunks.append(b"one")?;
/// let second = chunks.append(b"two")?;
/// assert!(first.lies_before(&second) && !second.lies_before(&first));
/// assert_eq!(&*chunks.read(first)?, b"one");
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Pointer {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) checksum: u32,
}

impl Pointer {
    /// A pointer to `payload`, whose first byte lies at `offset`.
    pub(crate) fn to(offset: u64, payload: &[u8]) -> Pointer {
        Pointer { offset, length: payload.len() as u32, checksum: crc32c(payload) }
    }

    /// A pointer to nothing at `offset`, for reports of damage.
    pub(crate) fn at(offset: u64) -> Pointer {
        Pointer { offset, ..Pointer::default() }
    }

    /// Payload bytes of the chunk.
    pub fn length(&self) -> usize {
        self.length as usize
    }

    /// The file offset of the chunk's first payload byte, for display and for reports of damage.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the chunk lies wholly before the one at `holder`, as every pointer stored in
    /// `holder` must.
    // spec: CHUNK-2
    pub fn lies_before(&self, holder: &Pointer) -> bool {
        self.ends_before(holder.offset)
    }

    /// Whether the chunk ends at or before `offset`.
    pub(crate) fn ends_before(&self, offset: u64) -> bool {
        self.end().is_some_and(|end| end <= offset)
    }

    /// The offset just behind the chunk, or `None` if it cannot lie in any file.
    pub(crate) fn end(&self) -> Option<u64> {
        block::payload_end(self.offset, u64::from(self.length))
    }

    /// Appends the stored form, [`POINTER_BYTES`] long: offset (6), length (4), CRC-32C (4).
    ///
    /// ```
    /// use rereduce::codec::Reader;
    /// use rereduce::file::{ChunkSink, MemoryChunks, Pointer};
    /// let pointer = MemoryChunks::default().append(b"x")?;
    /// let mut bytes = Vec::new();
    /// pointer.encode(&mut bytes);
    /// assert_eq!(Pointer::decode(&mut Reader::new(&bytes)), Some(pointer));
    /// # Ok::<(), rereduce::Error>(())
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes()[..6]);
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// The stored form read once more, where [`Pointer::decode`] accepted it before.
    pub(crate) fn from_stored(bytes: &[u8; POINTER_BYTES]) -> Pointer {
        let [a, b, c, d, e, f, rest @ ..] = *bytes;
        let [g, h, i, j, k, l, m, n] = rest;
        Pointer {
            offset: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            length: u32::from_le_bytes([g, h, i, j]),
            checksum: u32::from_le_bytes([k, l, m, n]),
        }
    }

    /// Reads the stored form; `None` if there are too few bytes or if no chunk can begin there.
    pub fn decode(reader: &mut Reader<'_>) -> Option<Pointer> {
        let pointer = Pointer::from_stored(reader.take(POINTER_BYTES)?.first_chunk()?);
        let offset = pointer.offset;
        (block::skip_marker(offset) == offset && pointer.end().is_some()).then_some(pointer)
    }
}

impl Hash for Pointer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Hardly ever do two chunks begin at one place.
        state.write_u64(self.offset);
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "@{}+{}", self.offset, self.length)
    }
}

/// Where chunks are read from.
///
/// ```
/// use rereduce::file::{ChunkSink, ChunkSource, MemoryChunks};
/// let mut chunks = MemoryChunks::default();
/// let pointer = chunks.append(b"abc")?;
/// assert_eq!(&*chunks.read(pointer)?, b"abc");
/// assert!(chunks.nonsense(pointer, "a node", "abc").is_corrupt());
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait ChunkSource: Send + Sync {
    /// The payload of the chunk at `pointer`, checked against its checksum. One disk read.
    ///
    /// Errors: [`Error::Corrupt`] if the bytes are not what the pointer says (or end too early),
    /// [`Error::Io`] if they could not be read.
    fn read(&self, pointer: Pointer) -> Result<Arc<[u8]>>;

    /// The error for a chunk that passes its checksum and still makes no sense.
    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error;
}

/// Where chunks are appended, and can be read at once.
///
/// ```
/// use rereduce::Result;
/// use rereduce::file::{ChunkSink, MemoryChunks, Pointer};
/// fn append_all(sink: &mut dyn ChunkSink, payloads: &[&[u8]]) -> Result<Vec<Pointer>> {
///     payloads.iter().map(|payload| sink.append(payload)).collect()
/// }
/// let pointers = append_all(&mut MemoryChunks::default(), &[b"one", b"two"])?;
/// assert!(pointers[0].lies_before(&pointers[1]));
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait ChunkSink: ChunkSource {
    /// Appends a chunk, which becomes durable with the next commit.
    ///
    /// Errors: [`Error::TooLarge`] for a payload of 4 GiB or more, else as the file says.
    fn append(&mut self, payload: &[u8]) -> Result<Pointer>;
}

/// Chunks in memory, for trees that need no file.
///
/// ```
/// use rereduce::file::{ChunkSink, MemoryChunks};
/// let mut chunks = MemoryChunks::default();
/// assert_eq!(chunks.append(b"abc")?.length(), 3);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryChunks {
    raw: Vec<u8>,
}

impl ChunkSource for MemoryChunks {
    fn read(&self, pointer: Pointer) -> Result<Arc<[u8]>> {
        let end = pointer.end().and_then(|end| usize::try_from(end).ok());
        let span = end.and_then(|end| self.raw.get(pointer.offset as usize..end));
        let Some(span) = span else {
            return Err(self.nonsense(pointer, "a chunk inside the file", "end of file"));
        };
        match block::strip_markers(pointer.offset, span.to_vec()) {
            Ok(payload) if crc32c(&payload) == pointer.checksum => Ok(payload.into()),
            _ => Err(self.nonsense(pointer, "the checksum of its pointer", "another")),
        }
    }

    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error {
        Corruption::new("memory", pointer.offset, expected, got).into()
    }
}

impl ChunkSink for MemoryChunks {
    fn append(&mut self, payload: &[u8]) -> Result<Pointer> {
        if u32::try_from(payload.len()).is_err() {
            let (size, limit) = (payload.len() as u64, u64::from(u32::MAX));
            return Err(Error::TooLarge { what: "chunk", size, limit });
        }
        let offset = block::push_payload(&mut self.raw, 0, payload);
        Ok(Pointer::to(offset, payload))
    }
}
