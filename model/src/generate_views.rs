//! Generators of histories of a database and its views: short, and of few documents.
//!
//! Invariant: a history depends on nothing but the choices.

use rereduce::vocabulary::{DbOp, ViewOp, ViewUpdate};

use crate::choices::{Bytes, Choices, Seeded};
use crate::generate_db::{self, edits, replica};
use crate::verdict::CheckConfig;

/// The history of `config` with an index. It begins with an edit, and ends with a query.
pub(crate) fn view_history_of(config: &CheckConfig, index: u64) -> Vec<ViewOp> {
    let mut choices = Seeded::part(config.seed, index);
    let count = 1 + choices.below(config.operations as u64);
    let mut ops = vec![ViewOp::Db(DbOp::Edit(edits(&mut choices)))];
    ops.extend((0..count).map(|_| operation(&mut choices)));
    ops.push(ViewOp::Query(ViewUpdate::True));
    ops
}

/// A history for fuzzers: as many operations as `bytes` describe.
///
/// ```
/// assert!(rereduce_model::view_history_from_bytes(&[]).is_empty());
/// ```
pub fn view_history_from_bytes(bytes: &[u8]) -> Vec<ViewOp> {
    let mut choices = Bytes::new(bytes);
    let mut ops = Vec::new();
    while !choices.is_empty() {
        ops.push(operation(&mut choices));
    }
    ops
}

fn operation(choices: &mut impl Choices) -> ViewOp {
    match choices.below(64) {
        0..=15 => ViewOp::Db(DbOp::Edit(edits(choices))),
        16..=23 => {
            let count = 1 + choices.below(3);
            ViewOp::Db(DbOp::Merge((0..count).map(|_| replica(choices)).collect()))
        }
        24..=29 => {
            let (id, base) = (generate_db::id(choices), generate_db::base(choices));
            ViewOp::Db(DbOp::Purge { id, base })
        }
        30 => ViewOp::Db(DbOp::RevsLimit(1 + choices.below(4))),
        31 | 32 => ViewOp::Db(DbOp::PurgeLimit(1)),
        33 | 34 => ViewOp::Db(DbOp::Compact),
        35..=37 => ViewOp::Db(DbOp::Reopen),
        38 | 39 => ViewOp::Db(DbOp::Crash),
        40..=50 => ViewOp::Query(ViewUpdate::True),
        51..=53 => ViewOp::Query(ViewUpdate::False),
        54 | 55 => ViewOp::Query(ViewUpdate::Lazy),
        56..=58 => ViewOp::CompactViews,
        59 | 60 => ViewOp::Backup,
        61 | 62 => ViewOp::Restore,
        _ => ViewOp::Recreate,
    }
}

/// Operations that are simpler than `op` and of its kind, for the shrinker.
pub(crate) fn simpler(op: &ViewOp) -> Vec<ViewOp> {
    match op {
        ViewOp::Db(op) => generate_db::simpler(op).into_iter().map(ViewOp::Db).collect(),
        ViewOp::Query(ViewUpdate::Lazy) => vec![ViewOp::Query(ViewUpdate::True)],
        _ => Vec::new(),
    }
}
