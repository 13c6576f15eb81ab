//! The two checksums of the file format: CRC-32C for chunks, xxh3 for footers and their cover.

use xxhash_rust::xxh3::Xxh3;

/// CRC-32C (Castagnoli) of `bytes`, as every chunk pointer carries it. Cost: about a nanosecond
/// for 8 bytes where the processor has the instruction.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// A running 64-bit xxh3 over bytes that arrive in pieces, as footers use it for their cover.
///
/// ```
/// use rereduce::checksum::Cover;
/// let mut pieces = Cover::new(7);
/// pieces.update(b"ab");
/// pieces.update(b"c");
/// let mut whole = Cover::new(7);
/// whole.update(b"abc");
/// assert_eq!(pieces.finish(), whole.finish());
/// assert_ne!(whole.finish(), Cover::new(8).finish());
/// ```
pub struct Cover(Xxh3);

impl Cover {
    /// Begins a checksum with this seed.
    pub fn new(seed: u64) -> Cover {
        Cover(Xxh3::with_seed(seed))
    }

    /// Adds bytes behind those before.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}
