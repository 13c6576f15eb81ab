//! Blocks: the 2,048-byte grid that a file lies on, and the way chunks flow over it.
//!
//! ```text
//! block 0          block 1             block 2
//! |header pair ....|D chunk chunk chu|D nk chunk 0000|...
//!                   ^ marker byte, then 2,047 bytes of payload
//! ```
//!
//! Every block behind the header begins with a marker byte that says whether it holds data or one
//! copy of a footer. Chunk bytes flow around the markers, so nothing that is stored can look like
//! a footer: whatever byte a chunk would put at the beginning of a block lands behind the marker.
//!
//! Invariant: the first byte of a data block is [`DATA`], whatever is stored in it.

use crate::mark;

/// Bytes in a block, and in one copy of a footer.
pub const BLOCK_BYTES: u64 = 2048;

/// Marker of a block that holds chunks or padding.
// spec: FILE-2
pub(crate) const DATA: u8 = 0x5a;

/// Marker of a block that holds one copy of a footer; differs from [`DATA`] in every bit.
// spec: FILE-2
pub(crate) const FOOTER: u8 = 0xa5;

/// Payload bytes in a data block.
const ROOM: u64 = BLOCK_BYTES - 1;

/// The first offset at or behind `offset` that can hold a payload byte.
pub(crate) fn skip_marker(offset: u64) -> u64 {
    if offset.is_multiple_of(BLOCK_BYTES) { offset + 1 } else { offset }
}

/// The offset just behind a payload of `length` bytes that begins at `offset`, which is not the
/// beginning of a block; `None` if it lies beyond any file.
pub(crate) fn payload_end(offset: u64, length: u64) -> Option<u64> {
    let room = BLOCK_BYTES - offset % BLOCK_BYTES;
    let markers = if length > room { (length - room).div_ceil(ROOM) } else { 0 };
    offset.checked_add(length)?.checked_add(markers)
}

/// The first block boundary at or behind `offset`.
pub(crate) fn next_block(offset: u64) -> u64 {
    offset.next_multiple_of(BLOCK_BYTES)
}

/// Appends `payload` to `raw`, whose first byte lies at `base` in the file, with a marker wherever
/// a block begins. Returns the offset of the first payload byte.
pub(crate) fn push_payload(raw: &mut Vec<u8>, base: u64, payload: &[u8]) -> u64 {
    let start = skip_marker(base + raw.len() as u64);
    let mut rest = payload;
    while !rest.is_empty() {
        let offset = base + raw.len() as u64;
        if offset.is_multiple_of(BLOCK_BYTES) {
            let forged = mark::planted("marker-follows-content") && rest.first() == Some(&FOOTER);
            raw.push(if forged { FOOTER } else { DATA });
        }
        let room = BLOCK_BYTES - (base + raw.len() as u64) % BLOCK_BYTES;
        let count = rest.len().min(room as usize);
        raw.extend_from_slice(&rest[..count]);
        rest = &rest[count..];
    }
    start
}

/// Takes the markers out of `raw`, which begins at `offset` in the file. On a marker that is not
/// [`DATA`] returns the offset of that block.
// spec: FILE-2
pub(crate) fn strip_markers(offset: u64, mut raw: Vec<u8>) -> Result<Vec<u8>, u64> {
    let first = next_block(offset) - offset;
    let mut kept = raw.len().min(first as usize);
    let mut at = kept;
    while at < raw.len() {
        if raw[at] != DATA && !mark::planted("marker-not-checked") {
            return Err(offset + at as u64);
        }
        let count = (raw.len() - at - 1).min(ROOM as usize);
        raw.copy_within(at + 1..at + 1 + count, kept);
        kept += count;
        at += 1 + count;
    }
    raw.truncate(kept);
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_comes_back_wherever_it_begins_and_however_long_it_is() {
        for base in [2048, 2049, 4000, 4094, 4095] {
            for length in [1usize, 2, 46, 47, 48, 2046, 2047, 2048, 2049, 4093, 4094, 4095, 9000] {
                let payload: Vec<u8> = (0..length).map(|i| i as u8).collect();
                let mut raw = Vec::new();
                let start = push_payload(&mut raw, base, &payload);
                assert_eq!(payload_end(start, length as u64), Some(base + raw.len() as u64));
                let stored = raw[(start - base) as usize..].to_vec();
                assert_eq!(strip_markers(start, stored), Ok(payload), "at {base}, {length} bytes");
            }
        }
    }

    #[test]
    fn a_damaged_marker_is_found_at_its_block() {
        let mut raw = Vec::new();
        let start = push_payload(&mut raw, 4000, &[7; 5000]);
        raw[(6144 - start) as usize] = FOOTER;
        assert_eq!(strip_markers(start, raw), Err(6144));
    }

    #[test]
    fn the_markers_differ_in_at_least_four_bits() {
        assert!((DATA ^ FOOTER).count_ones() >= 4);
    }
}
