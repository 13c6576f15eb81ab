//! Random rows under all lawful reducers, and random queries of them.
//!
//! Invariant: what is drawn depends on the seed alone.

use rereduce::collate::Collation;
use rereduce::vocabulary::{Direction, Json};
use rereduce_model::{Choices, ModelRow, Seeded, ViewBound, ViewQuery};

use super::case::Kept;
use super::designs::DESIGNS;
use super::reducers::REDUCERS;
use super::three::ThreeWays;
use super::{Tried, ask};
use crate::oracle::guarded;

/// Queries of one set of rows.
const QUERIES: usize = 32;

/// Documents of a set.
const DOCUMENTS_MAX: u64 = 9;

/// Ids in ascending order; some begin like another one.
const IDS: [&str; 8] = ["a", "a\0", "a\0b", "a b", "ab", "b", "é", "\u{1f604}"];

/// Scalars of keys, of which some collate alike.
const SCALARS: &str = r#"[null, false, true, -1, 0, 0.0, 1, 1.0, 1.5, 2, 9007199254740993,
    9007199254740992.0, 18446744073709551616, "", "\u0000", "a", "a\u0000", "A", "b", "ab",
    "\u00e9", "e\u0301", "\ud83d\ude04"]"#;

/// Numbers that sums are made of.
const NUMBERS: &str = r#"[0, 1, 2, 3, -1, 7, 0.5, 1.0, 0.1, 0.2, -0.0, 1e16, -1e16, 1e308, -1e308,
    5e-324, 1.7976931348623157e308, 9223372036854775807, -9223372036854775808,
    18446744073709551616, -18446744073709551616, 1e200, 3e-170]"#;

/// Values that sums are seldom made of.
const ODD: &str = r#"[null, "x", [], [1,"x",2], ["y"], {}, {"a":"z"}, {"a":1}, {"b":[1,2],"a":1},
    {"a":{"c":0.1}}, {"b":0.2}, [[1]], {"error":"builtin_reduce_error","reason":"mine"}]"#;

/// The rows of `count` seeds, and queries of each.
pub(super) fn sets(seed: u64, count: u64) -> Result<Tried, String> {
    let pools = Pools::new()?;
    let mut tried = Tried::default();
    for seed in seed..seed + count {
        let mut choices = Seeded::new(seed);
        let kept = pools.kept(&mut choices);
        let mut queries: Vec<ViewQuery> = Vec::new();
        for _ in 0..QUERIES {
            let query = pools.query(&mut choices, &kept.rows);
            match queries.contains(&query) {
                true => tried.doubled += 1,
                false => queries.push(query),
            }
        }
        tried.random_queries += ask(&kept, &queries)?;
        tried.random_sets += 1;
        let order = kept.order ^ 3;
        let other = Kept { fan_out: 2 + kept.fan_out % 4, order, ..kept.clone() };
        let reduction = |kept: &Kept| guarded(|| ThreeWays::new(kept)?.reduction());
        if reduction(&kept)? != reduction(&other)? {
            return Err(format!("seed {seed}: {kept:?} and {other:?} reduce to other bytes"));
        }
    }
    Ok(tried)
}

/// What is drawn from.
struct Pools {
    scalars: Vec<Json>,
    numbers: Vec<Json>,
    odd: Vec<Json>,
}

impl Pools {
    fn new() -> Result<Pools, String> {
        let pool = |text: &str| match Json::parse(text.as_bytes()) {
            Ok(Json::Array(pool)) => Ok(pool),
            _ => Err(format!("no list: {text}")),
        };
        Ok(Pools { scalars: pool(SCALARS)?, numbers: pool(NUMBERS)?, odd: pool(ODD)? })
    }

    fn kept(&self, choices: &mut Seeded) -> Kept {
        let reducer = (*choices.pick(&REDUCERS)).to_owned();
        let (design, _) = choices.pick(DESIGNS);
        // How many numbers a value has, or that it is a number: for `_stats` all are alike.
        let elements = choices.below(4);
        let plain = choices.chance(50);
        let mut rows = Vec::new();
        for _ in 0..choices.below(DOCUMENTS_MAX + 1) {
            let id = *choices.pick(&IDS);
            for _ in 0..choices.below(4) {
                let key = self.key(choices);
                let value = match (&*reducer, elements) {
                    ("_stats", 0..2) => self.statistic(choices),
                    ("_stats", count) => {
                        Json::Array((1..count).map(|_| self.statistic(choices)).collect())
                    }
                    _ if plain || choices.chance(80) => choices.pick(&self.numbers).clone(),
                    _ => choices.pick(&self.odd).clone(),
                };
                rows.push(ModelRow { key, id: id.to_owned(), value });
            }
        }
        Kept {
            design: (*design).to_owned(),
            fan_out: *choices.pick(&[2, 2, 3, 3, 4, 5, 1000]),
            collation: if choices.chance(30) { Collation::Raw } else { Collation::Unicode },
            reducer,
            order: choices.below(1 << 20),
            rows,
        }
    }

    fn key(&self, choices: &mut Seeded) -> Json {
        let scalar = |choices: &mut Seeded| choices.pick(&self.scalars).clone();
        let small = |choices: &mut Seeded| Json::from(choices.below(3) as i64);
        match choices.below(10) {
            0..=4 => Json::Array((0..1 + choices.below(3)).map(|_| small(choices)).collect()),
            5 => Json::Array((0..choices.below(4)).map(|_| scalar(choices)).collect()),
            6 => Json::Object(vec![("a".to_owned(), scalar(choices))]),
            7 => Json::Array(vec![Json::Array(vec![small(choices)]), scalar(choices)]),
            _ => scalar(choices),
        }
    }

    /// A number, or what other numbers came to.
    fn statistic(&self, choices: &mut Seeded) -> Json {
        if choices.chance(85) {
            return choices.pick(&self.numbers).clone();
        }
        let names = ["count", "max", "min", "sum", "sumsqr"];
        let member = |name: &str| (name.to_owned(), choices.pick(&self.numbers).clone());
        Json::Object(names.map(member).into())
    }

    fn query(&self, choices: &mut Seeded, rows: &[ModelRow]) -> ViewQuery {
        let key = |choices: &mut Seeded| match rows {
            [_, ..] if choices.chance(75) => choices.pick(rows).key.clone(),
            _ => self.key(choices),
        };
        let bound = |choices: &mut Seeded| -> Option<ViewBound> {
            if choices.chance(40) {
                return None;
            }
            let key = key(choices);
            let with_id = choices.chance(40);
            Some((key, with_id.then(|| (*choices.pick(&IDS)).to_owned())))
        };
        let (start, end) = (bound(choices), bound(choices));
        let (descending, skips, limits) =
            (choices.chance(40), choices.chance(25), choices.chance(30));
        let mut query = ViewQuery {
            start,
            end,
            inclusive_end: choices.chance(65),
            keys: None,
            direction: if descending { Direction::Descending } else { Direction::Ascending },
            skip: if skips { choices.below(4) as usize } else { 0 },
            limit: limits.then(|| choices.below(5) as usize),
            group_level: *choices.pick(&[0, 1, 2, 3, usize::MAX, usize::MAX]),
        };
        if choices.chance(10) {
            // Keys stand for themselves alone, and each is a group.
            query.keys = Some((0..choices.below(4)).map(|_| key(choices)).collect());
            (query.start, query.end, query.group_level) = (None, None, usize::MAX);
        }
        query
    }
}
