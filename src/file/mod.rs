//! The append-only file.

pub(crate) mod block;
mod chunk;

pub use chunk::{ChunkSink, ChunkSource, MemoryChunks, POINTER_BYTES, Pointer};
