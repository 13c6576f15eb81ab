//! The append-only file.
//!
//! ```text
//! | header | data ... | footer A | footer B | data ... | footer A | footer B | (torn tail)
//!   block 0             one commit                        the next commit
//! ```
//!
//! Rooms, bottom up: `block` (the 2,048-byte grid and its markers), `chunk` (checksummed byte
//! strings under checked pointers), `header` (whose file is this), `footer` (where are the roots),
//! `open` and `read_ahead` (reading), `recover` (which commit stands), `history` (older commits),
//! `writer` (the commit protocols), `twins` (are both copies there), `inspect` (what lies in a
//! file, for people).
//!
//! Invariant: bytes that were written are never changed; whatever a crash leaves behind the last
//! whole footer is garbage that later commits step over.

pub(crate) mod block;
mod chunk;
mod footer;
mod header;
pub(crate) mod history;
mod inspect;
mod open;
mod read_ahead;
mod recover;
mod twins;
mod writer;

#[cfg(test)]
mod tests;

pub use block::BLOCK_BYTES;
pub use chunk::{ChunkSink, ChunkSource, MemoryChunks, POINTER_BYTES, Pointer};
pub use footer::{COVER_BYTES_MAX, PAYLOAD_BYTES_MAX, Protocol};
pub(crate) use footer::{Footer, Payload};
pub use header::{FORMAT_VERSION, FileId, Header};
pub use inspect::{FileMap, FooterSeen};
pub use open::{OpenFile, sibling};
pub(crate) use read_ahead::ReadAhead;
pub(crate) use recover::newest_whole;
pub use recover::{Recovered, RecoveryReport, SkipReason, SkippedFooter, recover};
pub(crate) use twins::{TwinsChecked, check_twins};
pub(crate) use writer::FileWriter;
pub use writer::{CommitId, WriteCounts};
