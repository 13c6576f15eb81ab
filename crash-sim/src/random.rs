//! Seeded numbers: small, fast, the same everywhere.

use std::time::Duration;

use rereduce::Result;
use rereduce::env::{Clock, Entropy};

/// SplitMix64: one 64-bit state, one output a step. Good enough to pick cases, not to keep secrets.
///
/// ```
/// use rereduce_crash_sim::Random;
/// let (mut a, mut b) = (Random::new(7), Random::new(7));
/// assert_eq!(a.next(), b.next());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Numbers from this seed on.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "never ends, so an iterator says too much")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below 0");
        self.next() % bound
    }
}

/// Randomness for an engine under test, from a seed.
///
/// ```
/// use rereduce::env::Entropy;
/// use rereduce_crash_sim::SeededEntropy;
/// let (mut a, mut b) = ([0; 16], [1; 16]);
/// SeededEntropy::new(3).fill(&mut a)?;
/// SeededEntropy::new(3).fill(&mut b)?;
/// assert_eq!(a, b);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct SeededEntropy(std::sync::Mutex<Random>);

impl SeededEntropy {
    /// Bytes from this seed on.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(std::sync::Mutex::new(Random::new(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, buffer: &mut [u8]) -> Result<()> {
        let mut random = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// A clock that stands still, so that runs repeat.
///
/// ```
/// use rereduce::env::Clock;
/// assert_eq!(rereduce_crash_sim::StillClock.now(), rereduce_crash_sim::StillClock.now());
/// ```
pub struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Duration {
        Duration::from_secs(1_500_000_000)
    }
}
