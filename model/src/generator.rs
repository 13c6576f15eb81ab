//! Who makes histories: the generators of this crate, quickcheck, or proptest.
//!
//! Invariant: a history depends on the generator, the seed and its index alone.

use std::fmt;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use quickcheck::{Arbitrary, Gen};

use crate::choices::{Choices, Seeded};

/// Who makes the histories of a check: three, so that what one never thinks of another may.
///
/// ```
/// use rereduce_model::Generator;
/// assert_eq!(Generator::ALL.map(|generator| generator.to_string())[1], "quickcheck");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Generator {
    /// Ours: few keys and documents, so that operations meet; some histories without any bias.
    #[default]
    Ours,
    /// quickcheck's choices: every kind of operation equally likely, lengths from 0 on.
    Quickcheck,
    /// proptest's bytes, read as operations.
    Proptest,
}

impl Generator {
    /// All of them.
    pub const ALL: [Generator; 3] = [Generator::Ours, Generator::Quickcheck, Generator::Proptest];
}

impl fmt::Display for Generator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Generator::Ours => "ours",
            Generator::Quickcheck => "quickcheck",
            Generator::Proptest => "proptest",
        })
    }
}

/// What quickcheck makes of the `index`-th seed of a run; `size` bounds its length.
pub(crate) fn by_quickcheck<H: Arbitrary>(size: usize, seed: u64, index: u64) -> H {
    H::arbitrary(&mut Gen::from_size_and_seed(size, Seeded::part(seed, index).below(u64::MAX)))
}

/// What proptest makes of the `index`-th seed of a run.
pub(crate) fn by_proptest<S: Strategy>(strategy: S, seed: u64, index: u64) -> S::Value {
    let mut choices = Seeded::part(seed, index);
    let bytes: [u8; 32] = std::array::from_fn(|_| choices.below(256) as u8);
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    // Our strategies filter nothing, so a value always comes.
    let tree = strategy.new_tree(&mut runner).expect("a strategy without filters");
    tree.current()
}
