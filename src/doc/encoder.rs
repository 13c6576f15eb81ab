//! Attachments on their way in and out, piece by piece.
//!
//! Compressible types are stored as gzip, made by zlib at level 8 with an empty header, because
//! the digest of those very bytes is part of the revision id. Deflate's output does not depend on
//! how its input was cut, so neither does the digest.
//!
//! Invariant: memory is bounded by the compressor's window and one piece, not by the content.

use std::io::Write as _;

use flate2::write::{GzDecoder, GzEncoder};
use flate2::{Compression, GzBuilder};
use md5::{Digest as _, Md5};

use super::{Attachment, Digest, Encoding, is_compressible};
use crate::error::{Error, Result};
use crate::mark;

/// The level that CouchDB compresses attachments with.
const LEVEL: u32 = 8;

/// What a gzip header calls the system that wrote it: Unix, as zlib itself puts it there.
const GZIP_UNIX: u8 = 3;

/// Bytes of content that are compressed at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Turns content into the bytes to store, and at the end into an [`Attachment`].
///
/// ```
/// use rereduce::doc::{AttachmentEncoder, Encoding};
/// let mut stored = Vec::new();
/// let mut encoder = AttachmentEncoder::new("a.png", "image/png");
/// for piece in [b"ab", b"cd"] {
///     encoder.write(piece, &mut stored);
/// }
/// let attachment = encoder.finish(3, &mut stored);
/// assert_eq!((stored.as_slice(), attachment.encoding), (&b"abcd"[..], Encoding::Identity));
/// assert_eq!((attachment.length, attachment.revpos), (4, 3));
/// ```
#[derive(Debug)]
pub struct AttachmentEncoder {
    name: String,
    content_type: String,
    encoding: Encoding,
    /// `None` where bytes are stored as they come.
    gzip: Option<GzEncoder<Vec<u8>>>,
    md5: Md5,
    length: u64,
    encoded_length: u64,
}

impl AttachmentEncoder {
    /// An encoder for content that came without an encoding: gzip for compressible types.
    // spec: DOC-9
    pub fn new(name: impl Into<String>, content_type: impl Into<String>) -> AttachmentEncoder {
        let content_type = content_type.into();
        let compresses = is_compressible(&content_type);
        let encoding = if compresses { Encoding::Gzip } else { Encoding::Identity };
        let mut encoder = AttachmentEncoder::encoded(name, content_type, encoding);
        if compresses {
            let level = if mark::planted("attachment-default-level") { 6 } else { LEVEL };
            let header = GzBuilder::new().operating_system(GZIP_UNIX);
            encoder.gzip = Some(header.write(Vec::new(), Compression::new(level)));
        }
        encoder
    }

    /// An encoder for content that the client encoded already: bytes are stored as they come, and
    /// both lengths are theirs.
    pub fn encoded(
        name: impl Into<String>,
        content_type: impl Into<String>,
        encoding: Encoding,
    ) -> AttachmentEncoder {
        AttachmentEncoder {
            name: name.into(),
            content_type: content_type.into(),
            encoding,
            gzip: None,
            md5: Md5::new(),
            length: 0,
            encoded_length: 0,
        }
    }

    /// Takes the next piece of content and appends what there is to store by now to `out`.
    pub fn write(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.length += content.len() as u64;
        let Some(mut gzip) = self.gzip.take() else { return self.store(content, out) };
        for piece in content.chunks(PIECE_BYTES) {
            // Writing into memory does not fail.
            let written = gzip.write_all(piece);
            assert!(written.is_ok(), "zlib refused input: {written:?}");
            let ready = std::mem::take(gzip.get_mut());
            self.store(&ready, out);
        }
        self.gzip = Some(gzip);
    }

    /// Appends the rest and returns the record; `revpos` is the generation of the revision that
    /// brings this content in.
    pub fn finish(mut self, revpos: u64, out: &mut Vec<u8>) -> Attachment {
        if let Some(gzip) = self.gzip.take() {
            let rest = gzip.finish();
            assert!(rest.is_ok(), "zlib did not end its stream: {rest:?}");
            self.store(&rest.unwrap_or_default(), out);
        }
        Attachment {
            name: self.name,
            content_type: self.content_type,
            length: self.length,
            encoded_length: self.encoded_length,
            digest: Digest(self.md5.finalize().into()),
            revpos,
            encoding: self.encoding,
        }
    }

    fn store(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.md5.update(bytes);
        self.encoded_length += bytes.len() as u64;
        out.extend_from_slice(bytes);
    }
}

/// Turns stored bytes back into content.
///
/// ```
/// use rereduce::doc::{AttachmentDecoder, AttachmentEncoder};
/// let (mut stored, mut content) = (Vec::new(), Vec::new());
/// let mut encoder = AttachmentEncoder::new("a.txt", "text/plain");
/// encoder.write(b"hello", &mut stored);
/// let attachment = encoder.finish(1, &mut stored);
/// let mut decoder = AttachmentDecoder::new(attachment.encoding);
/// decoder.write(&stored, &mut content).unwrap();
/// decoder.finish(&mut content).unwrap();
/// assert_eq!(content, b"hello");
/// ```
#[derive(Debug)]
pub struct AttachmentDecoder {
    gzip: Option<GzDecoder<Vec<u8>>>,
}

impl AttachmentDecoder {
    /// A decoder for bytes stored with `encoding`.
    pub fn new(encoding: Encoding) -> AttachmentDecoder {
        let gzip = (encoding == Encoding::Gzip).then(|| GzDecoder::new(Vec::new()));
        AttachmentDecoder { gzip }
    }

    /// Takes the next stored bytes and appends the content they give to `out`: hand over small
    /// pieces, one byte may stand for a thousand. Fails with [`Error::BadInput`] if they are not
    /// gzip, which can be so only where a client sent them as such.
    pub fn write(&mut self, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let Some(gzip) = &mut self.gzip else {
            out.extend_from_slice(stored);
            return Ok(());
        };
        gzip.write_all(stored).map_err(not_gzip)?;
        out.append(gzip.get_mut());
        Ok(())
    }

    /// Appends the rest of the content; fails if the stored bytes ended too early.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<()> {
        if let Some(gzip) = self.gzip {
            out.append(&mut gzip.finish().map_err(not_gzip)?);
        }
        Ok(())
    }
}

fn not_gzip(error: std::io::Error) -> Error {
    Error::BadInput { what: "attachment", got: error.to_string(), expected: "whole gzip data" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(content_type: &str, pieces: &[&[u8]]) -> (Attachment, Vec<u8>) {
        let mut stored = Vec::new();
        let mut encoder = AttachmentEncoder::new("f", content_type);
        pieces.iter().for_each(|piece| encoder.write(piece, &mut stored));
        (encoder.finish(1, &mut stored), stored)
    }

    // spec: DOC-9
    #[test]
    fn compressible_content_is_stored_as_the_bytes_that_zlib_makes_at_level_8() {
        let (empty, stored) = encoded("application/json", &[]);
        assert_eq!(stored.len(), 20);
        assert_eq!(stored[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(empty.digest.to_string(), "md5-cCkGbCesb17xjWYNV0GXmg==");
        let bytes: Vec<u8> = (0..=255).collect();
        let (counted, _) = encoded("application/json", &[&bytes]);
        assert_eq!(counted.digest.to_string(), "md5-pgWz7R1wtl21XKY4yn1xvw==");
        assert_eq!((counted.length, counted.encoded_length), (256, 279));
        let (repeated, _) = encoded("text/plain", &["é".repeat(50).as_bytes()]);
        assert_eq!(repeated.digest.to_string(), "md5-FTtVy8FjjFCrddG96xzAtQ==");
        let (plain, stored) = encoded("image/png", &[b"hello"]);
        assert_eq!(plain.digest.to_string(), "md5-XUFAKrxLKna5cZ2REBfFkg==");
        assert_eq!(stored, b"hello");
    }

    // spec: DOC-9
    #[test]
    fn the_stored_bytes_do_not_depend_on_how_the_content_was_cut() {
        // Neither text nor noise: runs, so that matches cross the cuts.
        let content: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(n) >> 9) as u8).collect();
        let (whole, stored) = encoded("text/plain", &[&content]);
        for size in [1000, 4096, 65_536, 100_001] {
            let pieces: Vec<&[u8]> = content.chunks(size).collect();
            let (cut, cut_stored) = encoded("text/plain", &pieces);
            assert_eq!((&cut, &cut_stored), (&whole, &stored));
        }
        let mut back = Vec::new();
        let mut decoder = AttachmentDecoder::new(Encoding::Gzip);
        for piece in stored.chunks(777) {
            decoder.write(piece, &mut back).unwrap();
        }
        decoder.finish(&mut back).unwrap();
        assert_eq!(back, content);
    }

    #[test]
    fn bytes_that_are_no_gzip_are_refused() {
        let mut out = Vec::new();
        assert!(
            AttachmentDecoder::new(Encoding::Gzip).write(b"not gzip at all", &mut out).is_err()
        );
        let (_, stored) = encoded("text/plain", &[b"hello"]);
        let mut decoder = AttachmentDecoder::new(Encoding::Gzip);
        let cut = decoder.write(&stored[..15], &mut out);
        assert!(cut.is_err() || decoder.finish(&mut out).is_err());
    }
}
