//! The stored bytes of a view row's value: the emitted key, and the emitted value.
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

use crate::codec::{Reader, put_bytes};
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
