//! Attachments on their way into the file.
//!
//! Content is encoded and cut into data chunks as it comes, so memory is bounded by one chunk. The
//! chunks wait in the file, pointed at by nothing, until an edit takes them; what no edit takes is
//! garbage that the next compaction leaves behind.
//!
//! Invariant: equal stored bytes of one document lie in the file once, whatever revisions and
//! names they have.

use std::sync::Arc;

use crate::doc::{Attachment, AttachmentEncoder};
use crate::error::{Error, Result};
use crate::file::{ChunkSink, ChunkSource, FileWriter, OpenFile, POINTER_BYTES, Pointer};
use crate::mark;

use super::Database;
use super::load::data_chunks;
use super::record::{DATA_POINTERS_MAX, DataPlace, HeldAttachment};

/// Takes the content of one attachment piece by piece.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::Env;
///
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// let mut upload = db.upload("note.txt", "text/plain");
/// upload.write(b"hello, ")?;
/// upload.write(b"world")?;
/// let mut edit = DocEdit::parse("a", br#"{"_attachments":{"note.txt":{"follows":true}}}"#)?;
/// edit.uploads.push(upload.finish()?);
/// db.edit(vec![edit])?[0].clone()?;
/// let content = db.snapshot()?.attachment("a", None, "note.txt")?.read_all()?;
/// assert_eq!(content, b"hello, world");
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Upload<'a> {
    db: &'a Database,
    encoder: AttachmentEncoder,
    ready: Vec<u8>,
    chunks: Vec<Pointer>,
    file: Option<Arc<OpenFile>>,
    length: u64,
}

/// Content that lies in the file and waits for an edit that names it.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions};
/// use rereduce::env::Env;
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// let uploaded = db.upload("a.png", "image/png").finish()?;
/// assert_eq!(uploaded.attachment().length, 0);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct Uploaded {
    pub(crate) attachment: Attachment,
    pub(crate) chunks: Vec<Pointer>,
    /// Where the chunks are; a compaction may swap the database's file before the edit comes.
    pub(crate) file: Option<Arc<OpenFile>>,
}

impl Uploaded {
    /// Its record; the edit that takes it sets `revpos`.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// Makes sure that the data is in the file of `writer`, and says where.
    pub(crate) fn take_in(self, writer: &mut FileWriter) -> Result<DataPlace> {
        let chunks = match &self.file {
            Some(file) if !Arc::ptr_eq(file, writer.file()) => {
                carry_over(file, &self.chunks, writer)?
            }
            _ => self.chunks,
        };
        place_chunks(&chunks, writer)
    }
}

impl<'a> Upload<'a> {
    pub(crate) fn new(db: &'a Database, encoder: AttachmentEncoder) -> Upload<'a> {
        Upload { db, encoder, ready: Vec::new(), chunks: Vec::new(), file: None, length: 0 }
    }

    /// Takes the next piece of content. Cost: encoding, and an append for each full chunk.
    ///
    /// Errors: [`Error::TooLarge`] once the content is over the limit, [`Error::Io`],
    /// [`Error::Poisoned`], and [`Error::Cancelled`] if a failed write has lost what was uploaded
    /// before the handle was reopened.
    pub fn write(&mut self, content: &[u8]) -> Result<()> {
        self.length += content.len() as u64;
        let limit = self.db.options().attachment_bytes_max;
        if self.length > limit {
            return Err(Error::TooLarge { what: "attachment", size: self.length, limit });
        }
        self.encoder.write(content, &mut self.ready);
        while self.ready.len() >= self.db.options().attachment_chunk_bytes {
            self.put_chunk(self.db.options().attachment_chunk_bytes)?;
        }
        Ok(())
    }

    /// Ends the content.
    pub fn finish(mut self) -> Result<Uploaded> {
        let encoder = std::mem::replace(&mut self.encoder, AttachmentEncoder::new("", ""));
        let attachment = encoder.finish(0, &mut self.ready);
        while !self.ready.is_empty() {
            self.put_chunk(self.db.options().attachment_chunk_bytes)?;
        }
        Ok(Uploaded { attachment, chunks: self.chunks, file: self.file })
    }

    fn put_chunk(&mut self, size: usize) -> Result<()> {
        let rest = self.ready.split_off(size.min(self.ready.len()));
        let chunk = std::mem::replace(&mut self.ready, rest);
        let (pointers, earlier) = (&mut self.chunks, &self.file);
        let (_, file) = self.db.append(|writer| {
            if let Some(earlier) = earlier
                && !Arc::ptr_eq(earlier, writer.file())
            {
                *pointers = carry_over(earlier, pointers, writer)?;
            }
            pointers.push(writer.append(&chunk)?);
            Ok(())
        })?;
        self.file = Some(file);
        Ok(())
    }
}

/// Brings chunks that were uploaded through an earlier handle of the file, or into the file before
/// a compaction, to where `writer` writes now.
///
/// What a failed write has lost of them is no damage to anything: the upload must be made again.
fn carry_over(
    earlier: &OpenFile,
    chunks: &[Pointer],
    writer: &mut FileWriter,
) -> Result<Vec<Pointer>> {
    mark::hit("upload-crossed-swap");
    copy_chunks(earlier, chunks, writer).map_err(|error| match error {
        Error::Corrupt(_) => Error::Cancelled { operation: "uploading an attachment" },
        error => error,
    })
}

/// Copies data chunks from one file into another and returns their new pointers.
pub(crate) fn copy_chunks(
    source: &dyn ChunkSource,
    chunks: &[Pointer],
    into: &mut FileWriter,
) -> Result<Vec<Pointer>> {
    chunks.iter().map(|chunk| into.append(&source.read(*chunk)?)).collect()
}

/// Where data of these chunks is from now on: few pointers stay with the record, many get a list.
pub(crate) fn place_chunks(chunks: &[Pointer], into: &mut FileWriter) -> Result<DataPlace> {
    if chunks.len() <= DATA_POINTERS_MAX {
        return Ok(DataPlace::Chunks(chunks.to_vec()));
    }
    let mut list = Vec::with_capacity(chunks.len() * POINTER_BYTES);
    chunks.iter().for_each(|chunk| chunk.encode(&mut list));
    Ok(DataPlace::Listed(into.append(&list)?))
}

/// Encodes content that came whole and says what its chunks will be, without writing any.
pub(crate) fn encode_whole(
    name: &str,
    content_type: &str,
    content: &[u8],
) -> (Attachment, Vec<u8>) {
    let mut encoder = AttachmentEncoder::new(name, content_type);
    let mut stored = Vec::new();
    encoder.write(content, &mut stored);
    let attachment = encoder.finish(0, &mut stored);
    (attachment, stored)
}

/// Cuts stored bytes into chunks and appends them.
pub(crate) fn put_stored(
    stored: &[u8],
    chunk_bytes: usize,
    into: &mut FileWriter,
) -> Result<DataPlace> {
    let pointers: Result<Vec<Pointer>> =
        stored.chunks(chunk_bytes.max(1)).map(|chunk| into.append(chunk)).collect();
    place_chunks(&pointers?, into)
}

/// The data of an attachment among `held` whose stored bytes are the same, if there is one.
// spec: ATTACH-1
pub(crate) fn find_same<'a>(
    held: impl IntoIterator<Item = &'a HeldAttachment>,
    attachment: &Attachment,
) -> Option<DataPlace> {
    let same = |other: &Attachment| {
        other.digest == attachment.digest && other.encoded_length == attachment.encoded_length
    };
    if mark::planted("attachments-not-shared") {
        return None;
    }
    held.into_iter().find(|held| same(&held.attachment)).map(|held| held.data.clone())
}

/// Copies the data of one attachment into another file.
pub(crate) fn copy_data(
    source: &dyn ChunkSource,
    data: &DataPlace,
    into: &mut FileWriter,
) -> Result<DataPlace> {
    let chunks = copy_chunks(source, &data_chunks(source, data)?, into)?;
    place_chunks(&chunks, into)
}
