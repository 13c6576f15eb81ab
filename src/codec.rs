//! Bounded reading and writing of integers and byte strings.
//!
//! A [`Reader`] walks over bytes that may be anything: each step says `None` instead of reading
//! past the end, and no length found in the bytes is believed before it was compared with what is
//! left. Integers are little-endian; those that are mostly small are LEB128 varints in their one
//! shortest form, so that equal values have equal bytes.
//!
//! Invariant: a reader never allocates; what it returns borrows from its input.

/// Walks over bytes that may be damaged.
///
/// ```
/// use rereduce::codec::{Reader, put_bytes, put_varint};
/// let mut bytes = Vec::new();
/// put_varint(&mut bytes, 300);
/// put_bytes(&mut bytes, b"key");
/// let mut reader = Reader::new(&bytes);
/// assert_eq!(reader.varint(), Some(300));
/// assert_eq!(reader.bytes(), Some(&b"key"[..]));
/// assert!(reader.is_empty() && reader.u8().is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    /// A little-endian integer of 4 bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    /// A little-endian integer of 8 bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    /// A varint of at most 10 bytes; a form that is longer than needed is refused.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return (byte != 0 || shift == 0).then_some(value);
            }
        }
        None
    }

    /// A byte string behind its length (a varint).
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.take(length)
    }
}

/// Appends `value` as a varint: 1 byte below 128, at most 10.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_varint`] appends for `value`.
pub fn varint_size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends `bytes` behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width_and_have_the_stated_size() {
        for bits in 0..64 {
            for value in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(bytes.len(), varint_size(value));
                assert_eq!(Reader::new(&bytes).varint(), Some(value));
            }
        }
    }

    #[test]
    fn a_varint_in_a_longer_form_than_needed_is_refused() {
        assert_eq!(Reader::new(&[0x80, 0x00]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
    }

    #[test]
    fn a_length_beyond_the_input_is_refused() {
        assert_eq!(Reader::new(&[5, 1, 2]).bytes(), None);
    }
}
