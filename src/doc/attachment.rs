//! Attachments as values: what a document remembers of each.
//!
//! Invariant: a digest is over the bytes as they are stored. Text types are stored as gzip, so
//! their digest (and with it the revision id) depends on the compressor: see
//! [`AttachmentEncoder`](super::AttachmentEncoder).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::codec::{Reader, put_bytes, put_varint};
use crate::mark;
use crate::vocabulary::Json;

/// The record of one attachment; its bytes lie elsewhere, once for all revisions that share it.
///
/// ```
/// use rereduce::doc::AttachmentEncoder;
/// let mut stored = Vec::new();
/// let mut encoder = AttachmentEncoder::new("note.txt", "text/plain");
/// encoder.write(b"hello", &mut stored);
/// let attachment = encoder.finish(1, &mut stored);
/// assert_eq!(attachment.length, 5);
/// assert_eq!(attachment.digest.to_string(), "md5-iMaiC8wqiFlD2NjLTemvCQ==");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name within the document.
    pub name: String,
    /// The MIME type that the client gave.
    pub content_type: String,
    /// Bytes of the content. For content that the client sent compressed this is the compressed
    /// length, as CouchDB has it.
    pub length: u64,
    /// Bytes as stored.
    pub encoded_length: u64,
    /// MD5 of the bytes as stored.
    pub digest: Digest,
    /// Generation of the document at which this content came in.
    pub revpos: u64,
    /// How the stored bytes are encoded.
    pub encoding: Encoding,
}

impl Attachment {
    /// Appends the record in a form that [`Attachment::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.content_type.as_bytes());
        out.push(match self.encoding {
            Encoding::Identity => 0,
            Encoding::Gzip => 1,
        });
        put_varint(out, self.length);
        if self.encoding != Encoding::Identity {
            put_varint(out, self.encoded_length);
        }
        put_varint(out, self.revpos);
        out.extend_from_slice(&self.digest.0);
    }

    /// Reads what [`Attachment::encode`] wrote; `None` for other bytes.
    pub fn decode(reader: &mut Reader<'_>) -> Option<Attachment> {
        let name = String::from_utf8(reader.bytes()?.to_vec()).ok()?;
        let content_type = String::from_utf8(reader.bytes()?.to_vec()).ok()?;
        let encoding = match reader.u8()? {
            0 => Encoding::Identity,
            1 => Encoding::Gzip,
            _ => return None,
        };
        let length = reader.varint()?;
        let encoded_length =
            if encoding == Encoding::Identity { length } else { reader.varint()? };
        let (revpos, digest) = (reader.varint()?, Digest(reader.array()?));
        let lengths = (length, encoded_length);
        Some(Attachment {
            name,
            content_type,
            length: lengths.0,
            encoded_length: lengths.1,
            digest,
            revpos,
            encoding,
        })
    }

    /// The members that every JSON form of an attachment begins with.
    pub(super) fn members(&self) -> Vec<(String, Json)> {
        vec![
            ("content_type".into(), Json::from(self.content_type.as_str())),
            ("revpos".into(), Json::unsigned(self.revpos)),
            ("digest".into(), Json::from(self.digest.to_string().as_str())),
        ]
    }
}

/// How an attachment's bytes are stored.
///
/// ```
/// use rereduce::doc::Encoding;
/// assert_ne!(Encoding::Identity, Encoding::Gzip);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they came.
    Identity,
    /// As one gzip member.
    Gzip,
}

/// An MD5, shown as attachments show it.
///
/// ```
/// use rereduce::doc::Digest;
/// let digest = Digest::parse("md5-1B2M2Y8AsgTpgAmY7PhCfg==").unwrap();
/// assert_eq!(digest.to_string(), "md5-1B2M2Y8AsgTpgAmY7PhCfg==");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Reads `md5-` and 16 bytes in base64.
    pub fn parse(text: &str) -> Option<Digest> {
        let bytes = STANDARD.decode(text.strip_prefix("md5-")?).ok()?;
        Some(Digest(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "md5-{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// Whether content of this type is stored compressed: text, JSON, JavaScript and XML, by
/// CouchDB's default list, in any case and with any parameters.
///
/// ```
/// use rereduce::doc::is_compressible;
/// assert!(is_compressible("text/html; charset=utf-8") && is_compressible("Application/JSON"));
/// assert!(!is_compressible("image/png") && !is_compressible("application/jsonx"));
/// ```
// spec: DOC-10
pub fn is_compressible(content_type: &str) -> bool {
    let content_type = content_type.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let essence = content_type.split(';').next().unwrap_or_default().trim_end();
    let is_text = content_type.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"));
    if mark::planted("attachment-text-only") {
        return is_text;
    }
    is_text
        || ["application/javascript", "application/json", "application/xml"]
            .iter()
            .any(|listed| essence.eq_ignore_ascii_case(listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: DOC-10
    #[test]
    fn text_types_are_compressible_in_any_case_and_with_parameters() {
        for yes in ["text/plain", " TEXT/x", "text/", "application/xml ;q=1", "application/json"] {
            assert!(is_compressible(yes), "{yes}");
        }
        for no in ["", "text", "image/svg+xml", "application/json5", "x-text/plain", "te\u{301}xt/"]
        {
            assert!(!is_compressible(no), "{no}");
        }
    }

    #[test]
    fn a_record_round_trips_and_every_cut_is_refused() {
        for encoding in [Encoding::Identity, Encoding::Gzip] {
            let record = Attachment {
                name: "é".into(),
                content_type: "text/plain".into(),
                length: 300,
                encoded_length: if encoding == Encoding::Gzip { 20 } else { 300 },
                digest: Digest([7; 16]),
                revpos: 2,
                encoding,
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Attachment::decode(&mut Reader::new(&bytes)), Some(record));
            for cut in 0..bytes.len() {
                assert_eq!(Attachment::decode(&mut Reader::new(&bytes[..cut])), None);
            }
        }
    }
}
