//! The stored bytes of a view's rows: their places, and the emitted keys and values.
//!
//! A view's tree orders rows by (sort key, docid, emit number), and those are the bytes of its
//! keys. A sort key cannot be turned back into JSON, so the value carries the key as emitted:
//!
//! ```text
//!   varint          length of the key's text
//!   text            the key, as JSON
//!   text            the value, as JSON
//! ```
//!
//! Both texts are as [`crate::doc::write_stored`] writes them, so that `-0.0` keeps its sign.
//!
//! Invariant: equal pairs of key and value have equal bytes.

use std::borrow::Cow;

use crate::codec::{Reader, put_bytes};
use crate::collate::Collation;
use crate::doc::write_stored;
use crate::vocabulary::Json;

/// What a row of a view holds beside its place in the order; borrowed from a node.
///
/// ```
/// use rereduce::view::row::ViewRow;
/// use rereduce::vocabulary::Json;
/// let bytes = ViewRow::encode(&Json::from("k"), &Json::from(1.5));
/// let row = ViewRow::decode(&bytes).unwrap();
/// assert_eq!((row.key, row.value), (&b"\"k\""[..], &b"1.5"[..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewRow<'a> {
    /// The emitted key, as JSON text.
    pub key: &'a [u8],
    /// The emitted value, as JSON text.
    pub value: &'a [u8],
}

impl<'a> ViewRow<'a> {
    /// The stored bytes of a row that was emitted with `key` and `value`.
    pub fn encode(key: &Json, value: &Json) -> Vec<u8> {
        let (mut text, mut out) = (Vec::new(), Vec::new());
        write_stored(key, &mut text);
        put_bytes(&mut out, &text);
        write_stored(value, &mut out);
        out
    }

    /// The two texts in stored bytes, or `None` if these are none. Neither is parsed.
    pub fn decode(bytes: &'a [u8]) -> Option<ViewRow<'a>> {
        let mut reader = Reader::new(bytes);
        let key = reader.bytes()?;
        let value = reader.take(reader.remaining())?;
        Some(ViewRow { key, value })
    }
}

/// The place of a row among the rows of a view: the bytes of its key in the tree.
///
/// ```text
///   sort key          of the emitted key, by the view's collation
///   document id       each zero byte followed by 0xff, so that order stays
///   00 00             the id ends
///   4 bytes           the emit number, the most significant byte first
/// ```
///
/// Memcmp orders such keys by (emitted key, id by bytes, emit number), and all rows of one emitted
/// key and document follow one another.
///
/// ```
/// use rereduce::collate::Collation;
/// use rereduce::view::row::RowPlace;
/// use rereduce::vocabulary::Json;
/// let place = |id: &str, emit| {
///     let mut key = Vec::new();
///     Collation::Unicode.sort_key(&Json::from(1), &mut key);
///     RowPlace { sort_key: &key, id: id.into(), emit }.encode()
/// };
/// assert!(place("a", 1) < place("a", 2) && place("a", 2) < place("a\0", 0));
/// let key = place("a\0", 7);
/// let found = RowPlace::decode(Collation::Unicode, &key).unwrap();
/// assert_eq!((&*found.id, found.emit), ("a\0", 7));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPlace<'a> {
    /// The sort key of the emitted key.
    pub sort_key: &'a [u8],
    /// The document that emitted the row.
    pub id: Cow<'a, str>,
    /// Which of its rows it is, over all keys, from 0.
    pub emit: u32,
}

const ID_END: [u8; 2] = [0, 0];
const ZERO_IN_ID: [u8; 2] = [0, 0xff];

impl<'a> RowPlace<'a> {
    /// The bytes of this place.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.sort_key.len() + self.id.len() + 6);
        RowPlace::put_begin(self.sort_key, &self.id, &mut out);
        out.extend_from_slice(&ID_END);
        out.extend_from_slice(&self.emit.to_be_bytes());
        out
    }

    /// Appends what all places begin with whose key is `sort_key` and whose id begins with `id`:
    /// the place at which a range by document id begins.
    pub fn put_begin(sort_key: &[u8], id: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(sort_key);
        for byte in id.bytes() {
            match byte {
                0 => out.extend_from_slice(&ZERO_IN_ID),
                _ => out.push(byte),
            }
        }
    }

    /// What stands in the bytes of a key of the tree, or `None` if they are none.
    pub fn decode(collation: Collation, bytes: &'a [u8]) -> Option<RowPlace<'a>> {
        let (sort_key, rest) = collation.split(bytes)?;
        let (escaped, emit) = rest.split_last_chunk::<4>()?;
        let id = escaped.strip_suffix(&ID_END)?;
        let id = match id.contains(&0) {
            false => Cow::Borrowed(std::str::from_utf8(id).ok()?),
            true => Cow::Owned(unescape(id)?),
        };
        Some(RowPlace { sort_key, id, emit: u32::from_be_bytes(*emit) })
    }
}

fn unescape(id: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(id.len());
    let mut rest = id.iter();
    while let Some(byte) = rest.next() {
        if *byte == 0 && rest.next() != Some(&0xff) {
            return None;
        }
        bytes.push(*byte);
    }
    String::from_utf8(bytes).ok()
}
