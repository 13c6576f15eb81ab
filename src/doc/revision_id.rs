//! Revision ids, computed as CouchDB computes them.
//!
//! An id is the MD5 of `[Deleted, OldStart, OldRev, {Body}, Attachments]` in Erlang's external
//! term format (minor version 1). The term is written piece by piece into the hash:
//!
//! ```text
//!   131                          version
//!   108 <5>                      list of five
//!     100 "true" | "false"       atom
//!     integer                    generation of the parent, 0 for the first edit
//!     109 <16> bytes | 97 0      id of the parent, or 0
//!     104 1 body                 tuple of one: the object's list of members
//!     list of 104 3 {name, type, md5}, the last attachment first
//!   106                          end of list
//! ```
//!
//! What makes ids differ and is easily got wrong: an array of 1 to 65,535 integers from 0 to 255 is
//! a byte string (107), `1` is not `1.0`, `0.0` is not `-0.0`, and members keep their order.
//!
//! Invariant: the id depends on nothing but the arguments.

use md5::Digest as Hash;
use md5::Md5;
use num_bigint::BigUint;
use sha1::Sha1;

use super::Attachment;
use crate::mark;
use crate::vocabulary::{BigInteger, Json, Number, Rev, RevId};

/// The revision that an edit makes: one generation behind `parent`, with CouchDB's id.
///
/// `None` only where the generation would overflow, which no document reaches by edits.
/// Time is linear in the body, without a copy of it.
///
/// ```
/// use rereduce::doc::revision_id;
/// let rev = revision_id(false, None, &[], &[]).unwrap();
/// assert_eq!(rev.to_string(), "1-967a00dff5e02add41819138abb3284d");
/// ```
// spec: DOC-8
pub fn revision_id(
    deleted: bool,
    parent: Option<&Rev>,
    body: &[(String, Json)],
    attachments: &[Attachment],
) -> Option<Rev> {
    next_revision(deleted, parent, body, attachments.len(), |term| {
        for attachment in attachments.iter().rev() {
            term.bytes(&[SMALL_TUPLE, 3]);
            term.binary(attachment.name.as_bytes());
            term.binary(attachment.content_type.as_bytes());
            term.binary(&attachment.digest.0);
        }
    })
}

/// The revision that writes a deleted document again without naming a revision, behind `winner`,
/// its deleted winner.
///
/// CouchDB computes this id after it has forgotten what the attachments are: only their number
/// counts, each as three times `undefined`. The id still depends on content alone.
///
/// ```
/// use rereduce::doc::recreated_revision_id;
/// let winner = "2-eec205a9d413992850a6e32678485900".parse().unwrap();
/// assert_eq!(recreated_revision_id(&winner, &[], 0).unwrap().generation, 3);
/// ```
// spec: DOC-8
pub fn recreated_revision_id(
    winner: &Rev,
    body: &[(String, Json)],
    attachment_count: usize,
) -> Option<Rev> {
    next_revision(false, Some(winner), body, attachment_count, |term| {
        for _ in 0..attachment_count {
            term.bytes(&[SMALL_TUPLE, 3]);
            (0..3).for_each(|_| term.atom("undefined"));
        }
    })
}

/// Hashes the term; `attachments` writes the tuples of the attachments.
fn next_revision(
    deleted: bool,
    parent: Option<&Rev>,
    body: &[(String, Json)],
    attachment_count: usize,
    attachments: impl FnOnce(&mut TermHasher<Md5>),
) -> Option<Rev> {
    let parent_generation = parent.map_or(0, |rev| rev.generation);
    let generation = parent_generation.checked_add(1)?;
    let mut term = TermHasher::<Md5>::new();
    term.bytes(&[131]);
    term.list_header(5);
    term.atom(if deleted { "true" } else { "false" });
    term.unsigned(parent_generation);
    match parent {
        Some(rev) => term.binary(rev.id.as_bytes()),
        None => term.unsigned(0),
    }
    term.object(body);
    if attachment_count > 0 {
        term.list_header(attachment_count);
        attachments(&mut term);
    }
    term.bytes(&[NIL]);
    term.bytes(&[NIL]);
    Some(Rev::new(generation, RevId::from_bytes(term.finish())))
}

const NEW_FLOAT: u8 = 70;
const SMALL_INTEGER: u8 = 97;
const INTEGER: u8 = 98;
const ATOM: u8 = 100;
const SMALL_TUPLE: u8 = 104;
const NIL: u8 = 106;
const STRING: u8 = 107;
const LIST: u8 = 108;
const BINARY: u8 = 109;
const SMALL_BIG: u8 = 110;
const LARGE_BIG: u8 = 111;

/// Bytes collected before they go into the hash, which likes them in bulk.
const BUFFER_BYTES: usize = 1024;

/// The SHA-1 of `json` in the external term format, version byte included.
pub(crate) fn term_sha1(json: &Json) -> [u8; 20] {
    let mut term = TermHasher::<Sha1>::new();
    term.bytes(&[131]);
    term.value(json);
    term.finish()
}

struct TermHasher<H> {
    hash: H,
    buffer: [u8; BUFFER_BYTES],
    /// Bytes in the buffer.
    held: usize,
}

impl<H: Hash> TermHasher<H> {
    fn new() -> TermHasher<H> {
        TermHasher { hash: H::new(), buffer: [0; BUFFER_BYTES], held: 0 }
    }

    fn finish<const N: usize>(mut self) -> [u8; N]
    where
        [u8; N]: From<md5::digest::Output<H>>,
    {
        self.hash_buffer();
        self.hash.finalize().into()
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        match self.buffer.get_mut(self.held..self.held + bytes.len()) {
            Some(free) => {
                free.copy_from_slice(bytes);
                self.held += bytes.len();
            }
            None => self.hash_buffer_and(bytes),
        }
    }

    #[cold]
    fn hash_buffer_and(&mut self, bytes: &[u8]) {
        self.hash_buffer();
        if bytes.len() > BUFFER_BYTES {
            return self.hash.update(bytes);
        }
        self.bytes(bytes);
    }

    fn hash_buffer(&mut self) {
        self.hash.update(self.buffer.get(..self.held).unwrap_or_default());
        self.held = 0;
    }

    fn value(&mut self, json: &Json) {
        match json {
            Json::Null => self.atom("null"),
            Json::Bool(true) => self.atom("true"),
            Json::Bool(false) => self.atom("false"),
            Json::Number(Number::Integer(value)) => self.integer(*value),
            Json::Number(Number::Big(value)) => self.big(value),
            Json::Number(Number::Float(value)) => self.float(*value),
            Json::String(text) => self.binary(text.as_bytes()),
            Json::Array(items) => self.array(items),
            Json::Object(members) => self.object(members),
        }
    }

    fn object(&mut self, members: &[(String, Json)]) {
        self.bytes(&[SMALL_TUPLE, 1]);
        if !members.is_empty() {
            self.list_header(members.len());
            let mut order: Vec<&(String, Json)> = Vec::new();
            if mark::planted("revid-members-sorted") {
                order = members.iter().collect();
                order.sort_by(|one, two| one.0.cmp(&two.0));
            }
            for (index, member) in members.iter().enumerate() {
                let (name, value) = order.get(index).copied().unwrap_or(member);
                self.bytes(&[SMALL_TUPLE, 2]);
                self.binary(name.as_bytes());
                self.value(value);
            }
        }
        self.bytes(&[NIL]);
    }

    fn array(&mut self, items: &[Json]) {
        if items.is_empty() {
            return self.bytes(&[NIL]);
        }
        let byte = |item: &Json| match item {
            Json::Number(Number::Integer(value)) => u8::try_from(*value).ok(),
            _ => None,
        };
        if let Ok(length) = u16::try_from(items.len())
            && !mark::planted("revid-bytes-as-list")
            && let Some(string) = items.iter().map(byte).collect::<Option<Vec<u8>>>()
        {
            self.bytes(&[STRING]);
            self.bytes(&length.to_be_bytes());
            return self.bytes(&string);
        }
        self.list_header(items.len());
        for item in items {
            self.value(item);
        }
        self.bytes(&[NIL]);
    }

    fn list_header(&mut self, length: usize) {
        self.bytes(&[LIST]);
        self.length(length);
    }

    fn atom(&mut self, name: &str) {
        self.bytes(&[ATOM, 0, name.len() as u8]);
        self.bytes(name.as_bytes());
    }

    fn binary(&mut self, bytes: &[u8]) {
        self.bytes(&[BINARY]);
        self.length(bytes.len());
        self.bytes(bytes);
    }

    fn length(&mut self, length: usize) {
        // Documents are far below 4 GiB: the limit on their size is checked before.
        self.bytes(&(length as u32).to_be_bytes());
    }

    fn float(&mut self, value: f64) {
        // Adding a positive zero takes the sign off a negative one and changes nothing else.
        let value = if mark::planted("revid-zero-unsigned") { value + 0.0 } else { value };
        self.bytes(&[NEW_FLOAT]);
        self.bytes(&value.to_be_bytes());
    }

    fn unsigned(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.integer(value),
            Err(_) => self.magnitude(false, &value.to_le_bytes()),
        }
    }

    fn integer(&mut self, value: i64) {
        if let Ok(byte) = u8::try_from(value) {
            self.bytes(&[SMALL_INTEGER, byte]);
        } else if let Ok(word) = i32::try_from(value) {
            self.bytes(&[INTEGER]);
            self.bytes(&word.to_be_bytes());
        } else {
            self.magnitude(value < 0, &value.unsigned_abs().to_le_bytes());
        }
    }

    fn big(&mut self, value: &BigInteger) {
        let digits = value.digits().trim_start_matches('-');
        // A `BigInteger` holds decimal digits only.
        let magnitude = BigUint::parse_bytes(digits.as_bytes(), 10).unwrap_or_default();
        self.magnitude(value.is_negative(), &magnitude.to_bytes_le());
    }

    /// A big integer: sign, and bytes from the least on, without zeros at the far end.
    fn magnitude(&mut self, negative: bool, bytes: &[u8]) {
        let length = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        match u8::try_from(length) {
            Ok(length) => self.bytes(&[SMALL_BIG, length, u8::from(negative)]),
            Err(_) => {
                self.bytes(&[LARGE_BIG]);
                self.length(length);
                self.bytes(&[u8::from(negative)]);
            }
        }
        self.bytes(bytes.get(..length).unwrap_or_default());
    }
}
