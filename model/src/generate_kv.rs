//! Generators of key-value histories: mostly few keys, so that operations meet.
//!
//! Invariant: a history depends on nothing but the choices and the mix.

use std::ops::Bound;

use rereduce::vocabulary::{Direction, Edit, KeyRange, KvOp, Slot};

use crate::choices::{Bytes, Choices, Seeded};
use crate::generator::{Generator, by_proptest, by_quickcheck};
use crate::verdict::CheckConfig;

/// What a history is made of.
///
/// ```
/// use rereduce_model::{Mix, Seeded, kv_history};
/// assert_eq!(kv_history(&mut Seeded::new(1), Mix::FewKeys, 20, true).len(), 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// A dozen keys, so that operations meet.
    FewKeys,
    /// Hundreds of keys in large batches, so that trees grow and shrink.
    ManyKeys,
    /// Random bytes, every kind of operation equally likely.
    Uniform,
}

impl Mix {
    /// The mix of one history: most have few keys, some many, some no bias at all.
    pub fn choose(choices: &mut impl Choices) -> Mix {
        match choices.below(10) {
            0..=5 => Mix::FewKeys,
            6..=8 => Mix::ManyKeys,
            _ => Mix::Uniform,
        }
    }
}

const KEYS: [&[u8]; 14] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"f",
    b"aa",
    b"ab",
    b"a\0",
    b"",
    b"\xff",
    b"\xff\xff",
    b"z",
    &[b'k'; 90],
];

/// `count` operations from `choices`.
pub fn kv_history(choices: &mut impl Choices, mix: Mix, count: usize, faults: bool) -> Vec<KvOp> {
    (0..count).map(|_| operation(choices, mix, faults)).collect()
}

/// The history of a seed: [`Mix::choose`], then [`kv_history`].
pub fn kv_history_of_seed(seed: u64, index: u64, count: usize, faults: bool) -> Vec<KvOp> {
    let mut choices = Seeded::part(seed, index);
    let mix = Mix::choose(&mut choices);
    kv_history(&mut choices, mix, count, faults)
}

/// The history of `config` with an index, by its generator.
pub(crate) fn kv_history_of(config: &CheckConfig, index: u64) -> Vec<KvOp> {
    let CheckConfig { seed, operations, faults, .. } = *config;
    let KvHistory(mut ops) = match config.generator {
        Generator::Ours => return kv_history_of_seed(seed, index, operations, faults),
        Generator::Quickcheck => by_quickcheck(2 * operations, seed, index),
        Generator::Proptest => by_proptest(KvHistory::strategy(2 * operations), seed, index),
    };
    ops.retain(|op| faults || !matches!(op, KvOp::Fault { .. }));
    ops
}

fn operation(choices: &mut impl Choices, mix: Mix, faults: bool) -> KvOp {
    // How often each kind comes, in the order of `KvOp::KINDS`.
    let weights: [u64; 11] = match mix {
        Mix::Uniform => [1; 11],
        _ => [30, 14, 16, 12, 6, 4, 2, 3, 4, 4, 4],
    };
    let weights = &weights[..if faults { 11 } else { 10 }];
    let mut left = choices.below(weights.iter().sum());
    let mut kind = 0;
    while left >= weights[kind] {
        left -= weights[kind];
        kind += 1;
    }
    match KvOp::KINDS[kind] {
        "commit" => KvOp::Commit(edits(choices, mix)),
        "get" => KvOp::Get { key: key(choices, mix), at: at(choices) },
        "scan" => KvOp::Scan {
            range: range(choices, mix),
            direction: *choices.pick(&[Direction::Ascending, Direction::Descending]),
            limit: if choices.chance(40) { Some(choices.below(6)) } else { None },
            at: at(choices),
        },
        "reduce" => KvOp::Reduce { range: range(choices, mix) },
        "snapshot" => KvOp::Snapshot(slot(choices)),
        "history" => KvOp::History { slot: slot(choices), back: choices.below(8) },
        "release" => KvOp::Release(slot(choices)),
        "compact" => KvOp::Compact,
        "reopen" => KvOp::Reopen,
        "crash" => KvOp::Crash,
        _ => KvOp::Fault { calls: choices.below(12) },
    }
}

fn edits(choices: &mut impl Choices, mix: Mix) -> Vec<Edit> {
    let count = match mix {
        Mix::ManyKeys => 1 + choices.below(60),
        _ => choices.below(5),
    };
    (0..count).map(|_| Edit { key: key(choices, mix), value: value(choices) }).collect()
}

fn key(choices: &mut impl Choices, mix: Mix) -> Vec<u8> {
    match mix {
        Mix::FewKeys => choices.pick(&KEYS).to_vec(),
        Mix::ManyKeys => format!("k{:03}", choices.below(400)).into_bytes(),
        Mix::Uniform => {
            let length = choices.below(4);
            (0..length).map(|_| choices.below(256) as u8).collect()
        }
    }
}

fn value(choices: &mut impl Choices) -> Option<Vec<u8>> {
    match choices.below(20) {
        0..=10 => Some((choices.below(2000) as i64 - 1000).to_string().into_bytes()),
        11..=15 => None,
        16 => Some(i64::MAX.to_string().into_bytes()),
        17 => Some(b"text".to_vec()),
        18 => Some(Vec::new()),
        // Larger than a node, or than a block, or than two.
        _ => Some(vec![b'v'; *choices.pick(&[300, 2047, 2048, 5000])]),
    }
}

fn range(choices: &mut impl Choices, mix: Mix) -> KeyRange {
    let mut bound = || {
        let key = key(choices, mix);
        match choices.below(5) {
            0 | 1 => Bound::Included(key),
            2 | 3 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        }
    };
    KeyRange { start: bound(), end: bound() }
}

fn slot(choices: &mut impl Choices) -> Slot {
    Slot(choices.below(3) as u8)
}

fn at(choices: &mut impl Choices) -> Option<Slot> {
    if choices.chance(35) { Some(slot(choices)) } else { None }
}

/// A history for quickcheck (uniform, unbiased) and for fuzzers (few keys).
///
/// ```
/// let history = rereduce_model::KvHistory::from_bytes(&[0, 1, 2, 3]);
/// assert!(history.0.len() <= 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvHistory(pub Vec<KvOp>);

impl KvHistory {
    /// As many operations as `bytes` describe; no bytes, no operations.
    pub fn from_bytes(bytes: &[u8]) -> KvHistory {
        let mut choices = Bytes::new(bytes);
        let mut ops = Vec::new();
        while !choices.is_empty() {
            ops.push(operation(&mut choices, Mix::FewKeys, true));
        }
        KvHistory(ops)
    }

    /// Histories of up to about `count` operations for proptest; they shrink.
    pub fn strategy(count: usize) -> impl proptest::strategy::Strategy<Value = KvHistory> {
        use proptest::prelude::*;
        proptest::collection::vec(any::<u8>(), 0..=count * 6)
            .prop_map(|bytes| KvHistory::from_bytes(&bytes))
    }
}

impl quickcheck::Arbitrary for KvHistory {
    fn arbitrary(choices: &mut quickcheck::Gen) -> KvHistory {
        let count = choices.below(choices.size() as u64 + 1) as usize;
        KvHistory(kv_history(choices, Mix::Uniform, count, true))
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = KvHistory>> {
        let ops = self.0.clone();
        Box::new((0..ops.len()).map(move |index| {
            let mut fewer = ops.clone();
            fewer.remove(index);
            KvHistory(fewer)
        }))
    }
}

impl<'a> arbitrary::Arbitrary<'a> for KvHistory {
    fn arbitrary(bytes: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<KvHistory> {
        Ok(KvHistory::from_bytes(bytes.bytes(bytes.len())?))
    }
}

/// Operations that are simpler than `op` and of its kind, for the shrinker.
pub(crate) fn simpler(op: &KvOp) -> Vec<KvOp> {
    match op {
        KvOp::Commit(edits) => simpler_edits(edits).into_iter().map(KvOp::Commit).collect(),
        KvOp::Scan { range, direction, limit: Some(limit), at } => {
            let limits = std::iter::once(None).chain((0..*limit).map(Some));
            let (direction, at) = (*direction, *at);
            limits.map(|limit| KvOp::Scan { range: range.clone(), direction, limit, at }).collect()
        }
        KvOp::History { slot, back } => {
            (0..*back).map(|back| KvOp::History { slot: *slot, back }).collect()
        }
        KvOp::Fault { calls } => (0..*calls).map(|calls| KvOp::Fault { calls }).collect(),
        _ => Vec::new(),
    }
}

/// Half of the edits, one edit fewer, or one value that is just `1`.
fn simpler_edits(edits: &[Edit]) -> Vec<Vec<Edit>> {
    let mut simpler = Vec::new();
    if edits.len() >= 4 {
        let (one, two) = edits.split_at(edits.len() / 2);
        simpler.extend([one.to_vec(), two.to_vec()]);
    }
    for index in 0..edits.len() {
        let mut fewer = edits.to_vec();
        fewer.remove(index);
        simpler.push(fewer);
    }
    for (index, edit) in edits.iter().enumerate() {
        if edit.value.as_ref().is_some_and(|value| value.len() > 1) {
            let mut plainer = edits.to_vec();
            plainer[index] = Edit::put(edit.key.clone(), "1");
            simpler.push(plainer);
        }
    }
    simpler
}
