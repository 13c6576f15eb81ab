//! Attachments on their way out: piece by piece, whole, or a range.

use std::ops::Range;
use std::sync::Arc;

use crate::doc::{Attachment, AttachmentDecoder};
use crate::error::{Error, Result};
use crate::file::{ChunkSource, OpenFile, Pointer};
use crate::mark;

use super::load::data_chunks;
use super::record::HeldAttachment;

/// Stored bytes that are decoded at a time: they become at most about a thousand times as many.
pub(super) const DECODED_BYTES: usize = 1024;

/// The content of one attachment. Reading needs memory for one chunk, whatever the length.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::Env;
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// let json = br#"{"_attachments":{"a.txt":{"content_type":"text/plain","data":"aGVsbG8="}}}"#;
/// db.edit(vec![DocEdit::parse("a", json)?])?.remove(0)?;
/// let mut content = db.snapshot()?.attachment("a", None, "a.txt")?;
/// assert_eq!(content.record().length, 5);
/// assert_eq!(content.read_range(1..4)?, b"ell");
/// assert_eq!(content.read_all()?, b"hello");
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct AttachmentContent {
    file: Arc<OpenFile>,
    attachment: Attachment,
    chunks: Vec<Pointer>,
}

impl AttachmentContent {
    pub(crate) fn new(file: Arc<OpenFile>, held: HeldAttachment) -> Result<AttachmentContent> {
        let chunks = data_chunks(&*file, &held.data)?;
        let stored: u64 = chunks.iter().map(|chunk| chunk.length() as u64).sum();
        if stored != held.attachment.encoded_length {
            let offset = chunks.first().map_or(0, Pointer::offset);
            let expected = format!("{} bytes of data", held.attachment.encoded_length);
            return Err(file.damage(offset, &expected, &format!("{stored}")));
        }
        Ok(AttachmentContent { file, attachment: held.attachment, chunks })
    }

    /// What the document remembers of it.
    pub fn record(&self) -> &Attachment {
        &self.attachment
    }

    /// Hands the content to `visit` piece by piece.
    ///
    /// Errors: those of `visit`, [`Error::Corrupt`], [`Error::Io`].
    pub fn read(&self, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut decoder = AttachmentDecoder::new(self.attachment.encoding);
        let mut piece = Vec::new();
        for chunk in &self.chunks {
            for stored in self.file.read(*chunk)?.chunks(DECODED_BYTES) {
                decoder.write(stored, &mut piece)?;
                visit(&piece)?;
                piece.clear();
            }
        }
        decoder.finish(&mut piece)?;
        if piece.is_empty() { Ok(()) } else { visit(&piece) }
    }

    /// Hands the bytes as they are stored to `visit`, chunk by chunk.
    pub fn read_stored(&self, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.chunks.iter().try_for_each(|chunk| visit(&self.file.read(*chunk)?))
    }

    /// The whole content.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        self.read(&mut |piece| {
            content.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(content)
    }

    /// The bytes of the content in `range`, cut off at its end. Cost: the chunks that the range
    /// touches; for content that is stored compressed, all chunks up to the range's end.
    // spec: ATTACH-3
    pub fn read_range(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        let range = match mark::planted("range-takes-its-end") {
            true => range.start..range.end.saturating_add(1),
            false => range,
        };
        let mut wanted = Vec::new();
        let mut at = 0u64;
        if self.attachment.encoding == crate::doc::Encoding::Identity {
            for chunk in &self.chunks {
                let end = at + chunk.length() as u64;
                if end > range.start && at < range.end {
                    cut(&self.file.read(*chunk)?, at, &range, &mut wanted);
                }
                at = end;
            }
            return Ok(wanted);
        }
        let read = self.read(&mut |piece| {
            cut(piece, at, &range, &mut wanted);
            at += piece.len() as u64;
            match at < range.end {
                true => Ok(()),
                false => Err(Error::Cancelled { operation: "reading a range" }),
            }
        });
        match read {
            Err(error) if !matches!(error, Error::Cancelled { .. }) => Err(error),
            _ => Ok(wanted),
        }
    }
}

/// Appends the part of `piece`, which begins at `at`, that lies in `range`.
fn cut(piece: &[u8], at: u64, range: &Range<u64>, wanted: &mut Vec<u8>) {
    let end = at + piece.len() as u64;
    let (from, to) = (range.start.max(at), range.end.min(end));
    if from < to {
        // Both lie within the piece, whose length is a usize.
        wanted.extend_from_slice(&piece[(from - at) as usize..(to - at) as usize]);
    }
}
