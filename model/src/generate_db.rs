//! Generators of document histories: few documents, few revisions, so that they meet.
//!
//! Invariant: a history depends on nothing but the choices.

use rereduce::vocabulary::{Base, DbOp, Direction, DocEdit, Replica, Slot, Which};

use crate::choices::{Bytes, Choices, Seeded};
use crate::generator::{Generator, by_proptest, by_quickcheck};
use crate::verdict::CheckConfig;

/// The history of a seed.
pub fn db_history_of_seed(seed: u64, index: u64, count: usize, faults: bool) -> Vec<DbOp> {
    let mut choices = Seeded::part(seed, index);
    let uniform = choices.chance(15);
    db_history(&mut choices, uniform, count, faults)
}

/// The history of `config` with an index, by its generator.
pub(crate) fn db_history_of(config: &CheckConfig, index: u64) -> Vec<DbOp> {
    let CheckConfig { seed, operations, faults, .. } = *config;
    let DbHistory(mut ops) = match config.generator {
        Generator::Ours => return db_history_of_seed(seed, index, operations, faults),
        Generator::Quickcheck => by_quickcheck(2 * operations, seed, index),
        Generator::Proptest => by_proptest(DbHistory::strategy(2 * operations), seed, index),
    };
    ops.retain(|op| faults || !matches!(op, DbOp::Fault { .. }));
    ops
}

/// `count` operations from `choices`; if `uniform`, every kind is equally likely.
///
/// ```
/// use rereduce_model::{Seeded, db_history};
/// assert_eq!(db_history(&mut Seeded::new(1), false, 20, true).len(), 20);
/// ```
pub fn db_history(
    choices: &mut impl Choices,
    uniform: bool,
    count: usize,
    faults: bool,
) -> Vec<DbOp> {
    (0..count).map(|_| operation(choices, uniform, faults)).collect()
}

const WEIGHTS: [u64; 20] = [24, 18, 9, 12, 7, 4, 3, 5, 2, 7, 3, 3, 1, 4, 3, 1, 3, 4, 4, 4];

fn operation(choices: &mut impl Choices, uniform: bool, faults: bool) -> DbOp {
    let kinds = if faults { 20 } else { 19 };
    let weights = if uniform { &[1; 20][..kinds] } else { &WEIGHTS[..kinds] };
    let mut left = choices.below(weights.iter().sum());
    let mut kind = 0;
    while left >= weights[kind] {
        left -= weights[kind];
        kind += 1;
    }
    match DbOp::KINDS[kind] {
        "edit" => DbOp::Edit(edits(choices)),
        "merge" => {
            let count = 1 + choices.below(3);
            DbOp::Merge((0..count).map(|_| replica(choices)).collect())
        }
        "attach" => DbOp::Attach {
            id: id(choices),
            base: base(choices),
            name: name(choices),
            media: (*choices.pick(&["text/plain", "application/json", "image/png"])).to_owned(),
            seed: choices.below(4),
            size: *choices.pick(&[0, 1, 10, 63, 64, 65, 300, 2048, 5000]),
        },
        "get" => {
            let id = id(choices);
            let which = match choices.below(8) {
                0..=2 => Which::Winner,
                3 | 4 => Which::Rev(base(choices)),
                5 => Which::Latest(base(choices)),
                _ => Which::Leaves,
            };
            DbOp::Get { id, which, at: at(choices) }
        }
        "attachment" => {
            let (id, name) = (id(choices), name(choices));
            let ranged = choices.chance(40);
            let range = ranged.then(|| (choices.below(80), choices.below(400)));
            DbOp::Attachment { id, name, range, at: at(choices) }
        }
        "local" => DbOp::PutLocal { id: id(choices), body: body(choices) },
        "readlocal" => DbOp::ReadLocal { id: id(choices), at: at(choices) },
        "purge" => DbOp::Purge { id: id(choices), base: base(choices) },
        "purges" => DbOp::Purges,
        "changes" => {
            let descending = choices.chance(30);
            let direction = if descending { Direction::Descending } else { Direction::Ascending };
            let limit = if choices.chance(50) { Some(choices.below(5)) } else { None };
            DbOp::Changes { since: choices.below(6), direction, limit, at: at(choices) }
        }
        "info" => DbOp::Info { at: at(choices) },
        "revslimit" => DbOp::RevsLimit(*choices.pick(&[1, 2, 3, 4, 1000])),
        "purgelimit" => DbOp::PurgeLimit(1 + choices.below(4)),
        "snapshot" => DbOp::Snapshot(slot(choices)),
        "history" => DbOp::History { slot: slot(choices), back: choices.below(8) },
        "release" => DbOp::Release(slot(choices)),
        "compact" => DbOp::Compact,
        "reopen" => DbOp::Reopen,
        "crash" => DbOp::Crash,
        _ => DbOp::Fault { calls: choices.below(12) },
    }
}

pub(crate) fn edits(choices: &mut impl Choices) -> Vec<DocEdit> {
    let count = 1 + choices.below(4);
    let mut edits: Vec<DocEdit> = Vec::new();
    for _ in 0..count {
        let (id, base, body) = (id(choices), base(choices), body(choices));
        edits.push(DocEdit { id, base, body });
    }
    // CouchDB does not say what a deletion and a creation of one document in one batch mean.
    for index in 0..edits.len() {
        let twice = edits.iter().filter(|edit| edit.id == edits[index].id).count() > 1;
        if twice && edits[index].body.is_none() {
            edits[index].body = Some(0);
        }
    }
    edits
}

pub(crate) fn replica(choices: &mut impl Choices) -> Replica {
    let count = 1 + choices.below(3);
    Replica {
        id: id(choices),
        onto: base(choices),
        letters: (0..count).map(|_| b'a' + choices.below(3) as u8).collect(),
        ancestors: choices.below(5),
        body: body(choices),
    }
}

pub(crate) fn id(choices: &mut impl Choices) -> String {
    (*choices.pick(&["a", "b", "c", "d", "e\u{e9}", "f g"])).to_owned()
}

fn name(choices: &mut impl Choices) -> String {
    (*choices.pick(&["n", "n", "n", "m", "dir/file.txt"])).to_owned()
}

pub(crate) fn base(choices: &mut impl Choices) -> Base {
    match choices.below(12) {
        0..=4 => Base::Winner,
        5 | 6 => Base::New,
        7..=9 => Base::Leaf(choices.below(4)),
        10 => Base::Old(choices.below(4)),
        _ => Base::Unknown,
    }
}

fn body(choices: &mut impl Choices) -> Option<u64> {
    if choices.chance(25) { None } else { Some(choices.below(14)) }
}

fn slot(choices: &mut impl Choices) -> Slot {
    Slot(choices.below(3) as u8)
}

fn at(choices: &mut impl Choices) -> Option<Slot> {
    if choices.chance(30) { Some(slot(choices)) } else { None }
}

/// A history for quickcheck (uniform) and for fuzzers (weighted).
///
/// ```
/// let history = rereduce_model::DbHistory::from_bytes(&[0, 1, 2, 3]);
/// assert!(history.0.len() <= 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbHistory(pub Vec<DbOp>);

impl DbHistory {
    /// As many operations as `bytes` describe; no bytes, no operations.
    pub fn from_bytes(bytes: &[u8]) -> DbHistory {
        let mut choices = Bytes::new(bytes);
        let mut ops = Vec::new();
        while !choices.is_empty() {
            ops.push(operation(&mut choices, false, true));
        }
        DbHistory(ops)
    }

    /// Histories of up to about `count` operations for proptest; they shrink.
    pub fn strategy(count: usize) -> impl proptest::strategy::Strategy<Value = DbHistory> {
        use proptest::prelude::*;
        proptest::collection::vec(any::<u8>(), 0..=count * 8)
            .prop_map(|bytes| DbHistory::from_bytes(&bytes))
    }
}

impl quickcheck::Arbitrary for DbHistory {
    fn arbitrary(choices: &mut quickcheck::Gen) -> DbHistory {
        let count = choices.below(choices.size() as u64 + 1) as usize;
        DbHistory(db_history(choices, true, count, true))
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = DbHistory>> {
        let ops = self.0.clone();
        Box::new((0..ops.len()).map(move |index| {
            let mut fewer = ops.clone();
            fewer.remove(index);
            DbHistory(fewer)
        }))
    }
}

impl<'a> arbitrary::Arbitrary<'a> for DbHistory {
    fn arbitrary(bytes: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<DbHistory> {
        Ok(DbHistory::from_bytes(bytes.bytes(bytes.len())?))
    }
}

/// Operations that are simpler than `op` and of its kind, for the shrinker.
pub fn simpler(op: &DbOp) -> Vec<DbOp> {
    match op {
        DbOp::Edit(edits) => {
            let plainer = (0..edits.len()).filter(|index| edits[*index].body > Some(1));
            let plainer = plainer.map(|index| {
                let mut plainer = edits.clone();
                plainer[index].body = Some(1);
                plainer
            });
            without_one(edits).into_iter().chain(plainer).map(DbOp::Edit).collect()
        }
        DbOp::Merge(replicas) => {
            let fewer = without_one(replicas).into_iter();
            let shorter = (0..replicas.len()).filter(|index| replicas[*index].letters.len() > 1);
            let shorter = shorter.map(|index| {
                let mut shorter = replicas.clone();
                shorter[index].letters.pop();
                shorter
            });
            let plainer = (0..replicas.len()).filter(|index| replicas[*index].body > Some(1));
            let plainer = plainer.map(|index| {
                let mut plainer = replicas.clone();
                plainer[index].body = Some(1);
                plainer
            });
            fewer.chain(shorter).chain(plainer).map(DbOp::Merge).collect()
        }
        DbOp::Attach { id, base, name, media, seed, size } if *size > 1 => {
            let (id, name, media) = (id.clone(), name.clone(), media.clone());
            vec![DbOp::Attach { id, base: *base, name, media, seed: *seed, size: 1 }]
        }
        DbOp::History { slot, back } => {
            (0..*back).map(|back| DbOp::History { slot: *slot, back }).collect()
        }
        DbOp::Fault { calls } => (0..*calls).map(|calls| DbOp::Fault { calls }).collect(),
        _ => Vec::new(),
    }
}

fn without_one<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    (0..items.len())
        .map(|index| {
            let mut fewer = items.to_vec();
            fewer.remove(index);
            fewer
        })
        .collect()
}
