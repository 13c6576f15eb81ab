//! Where generators take their choices from: a seed, a fuzzer's bytes, or quickcheck.
//!
//! Invariant: the same source gives the same choices, on every machine.

/// A source of small numbers.
///
/// ```
/// use rereduce_model::{Choices, Seeded};
/// let (mut one, mut two) = (Seeded::new(7), Seeded::new(7));
/// assert_eq!(one.below(1000), two.below(1000));
/// ```
pub trait Choices {
    /// A number less than `count`, which is at least 1.
    fn below(&mut self, count: u64) -> u64;

    /// Whether something that happens in `percent` of all cases happens now.
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of `items`, which is not empty.
    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T
    where
        Self: Sized,
    {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// Choices from a seed (SplitMix64).
///
/// ```
/// use rereduce_model::{Choices, Seeded};
/// assert!(Seeded::new(1).below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// Choices that depend on `seed` alone.
    pub fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

    /// A seed for the `index`-th part of a run, far from the seeds of the other parts.
    pub fn part(seed: u64, index: u64) -> Seeded {
        let mut parts = Seeded(seed ^ index.wrapping_mul(0xd134_2543_de82_ef95));
        Seeded(parts.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Choices for Seeded {
    fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }
}

/// Choices from bytes, as proptest and fuzzers give them; when they run out, every choice is 0,
/// the simplest one.
///
/// ```
/// use rereduce_model::{Bytes, Choices};
/// let mut choices = Bytes::new(&[7]);
/// assert_eq!((choices.below(4), choices.below(4)), (3, 0));
/// ```
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// Choices that depend on `bytes` alone.
    pub fn new(bytes: &[u8]) -> Bytes<'_> {
        Bytes(bytes)
    }

    /// Whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Choices for Bytes<'_> {
    fn below(&mut self, count: u64) -> u64 {
        let (mut number, mut left) = (0u64, count - 1);
        while left > 0 {
            let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
            number = number << 8 | u64::from(*byte);
            self.0 = rest;
            left >>= 8;
        }
        number % count
    }
}

impl Choices for quickcheck::Gen {
    fn below(&mut self, count: u64) -> u64 {
        <u64 as quickcheck::Arbitrary>::arbitrary(self) % count
    }
}

impl Choices for arbitrary::Unstructured<'_> {
    fn below(&mut self, count: u64) -> u64 {
        // Out of bytes means the simplest choice, as it does everywhere else.
        self.int_in_range(0..=count - 1).unwrap_or(0)
    }
}
