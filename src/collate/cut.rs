//! Taking sort keys apart: where a key ends, where its first elements end, and what comes behind
//! all keys that begin alike.
//!
//! ```text
//!   [1, 7]
//!
//!   16 14 84 33 00 14 84 35 c0 00 | document's id
//!   └──── split: the key ───────┘   the rest
//!   └ cut at level 1 ┘              its next sibling: 16 14 84 33 01
//! ```
//!
//! Invariant: whatever the bytes are, nothing here panics, recurses, or looks at a byte twice.

use crate::mark;

use super::{Collation, END, number};

impl Collation {
    /// The sort key with which `bytes` begin, and what stands behind it. `None` if they begin with
    /// none of this collation.
    ///
    /// Finds where a key ends and does not look into it: bytes that are built like a key are taken
    /// for one, though no value may have it. Reads each byte of the key once.
    ///
    /// ```
    /// use rereduce::collate::Collation;
    /// use rereduce::vocabulary::Json;
    /// let mut row = Vec::new();
    /// Collation::Unicode.sort_key(&Json::from("a"), &mut row);
    /// let length = row.len();
    /// row.extend_from_slice(b"document");
    /// let (key, id) = Collation::Unicode.split(&row).unwrap();
    /// assert_eq!((key.len(), id), (length, &b"document"[..]));
    /// assert_eq!(Collation::Raw.split(&row), None);
    /// ```
    // spec: COLLATE-6
    pub fn split(self, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        if mark::planted("collate-split-takes-the-rest") {
            return Some((bytes, &[]));
        }
        bytes.split_at_checked(self.value_end(bytes, 0)?)
    }

    /// What all keys share that are one group at `group_level=level` with the key at the beginning
    /// of `bytes`; more may stand behind it. `None` if that is no key of this collation.
    ///
    /// Of an array the bytes of its first `level` elements, without its end; of an array that has
    /// fewer, and of anything else, the whole key; at level 0, where all rows are one group,
    /// nothing, without a look at `bytes`. Reads each byte of the cut once.
    // spec: COLLATE-7
    pub fn level_cut(self, bytes: &[u8], level: usize) -> Option<&[u8]> {
        if level == 0 {
            return Some(&[]);
        }
        let level = level + usize::from(mark::planted("collate-cut-one-too-long"));
        if bytes.first() != Some(&self.tags().array) {
            return self.split(bytes).map(|(key, _)| key);
        }
        let mut at = 1;
        for _ in 0..level {
            if bytes.get(at) == Some(&END) {
                mark::hit("collate-array-shorter-than-level");
                return bytes.get(..=at);
            }
            at = self.value_end(bytes, at)?;
        }
        bytes.get(..at)
    }

    /// Where the value that begins at `at` ends.
    fn value_end(self, bytes: &[u8], mut at: usize) -> Option<usize> {
        let tags = self.tags();
        let mut depth = 0_usize;
        loop {
            let tag = *bytes.get(at)?;
            at += 1;
            if tag == END {
                depth = depth.checked_sub(1)?;
            } else if tag == tags.array || tag == tags.object {
                depth += 1;
            } else if tag == tags.number {
                at = number::end(bytes, at)?;
            } else if tag == tags.string {
                at += bytes.get(at..)?.iter().position(|byte| *byte == END)? + 1;
            } else if ![tags.null, tags.no, tags.yes].contains(&tag) {
                return None;
            }
            if depth == 0 {
                return Some(at);
            }
        }
    }
}

/// The least bytes that are above everything that begins with `prefix`: where a scan that has seen
/// enough of a group goes on. `None` if nothing is above, as after the cut at level 0.
///
/// ```
/// use rereduce::collate::next_sibling;
/// assert_eq!(next_sibling(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(next_sibling(b"a\xff"), Some(b"b".to_vec()));
/// assert_eq!(next_sibling(b""), None);
/// ```
// spec: COLLATE-8
pub fn next_sibling(prefix: &[u8]) -> Option<Vec<u8>> {
    if mark::planted("collate-sibling-too-near") {
        return Some([prefix, &[1]].concat());
    }
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut sibling = prefix.get(..=last)?.to_vec();
    *sibling.last_mut()? += 1;
    Some(sibling)
}
