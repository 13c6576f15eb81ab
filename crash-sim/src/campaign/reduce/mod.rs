//! `reduce`: every reduction that an index gives is that of all its rows at once.
//!
//! ```text
//!   exhaustive   up to 4 rows, every way in which neighbours can differ; the keys of case B26
//!   sums         addends that plain sums get wrong, in every order
//!   random       rows of all kinds under all lawful reducers
//!       each x designs, fan-outs, orders of insertion x queries
//! ```
//!
//! Each query is asked of an index, of a fold over the rows, and of the model ([`three`]).
//! `--rows N` tries sets of at most so many rows, `--sets N` so many random ones.
//!
//! The unit of `passed` is a query on which the three ways agree.

mod case;
mod designs;
mod exhaustive;
mod random;
mod reducers;
mod sums;
mod three;

use std::ops::AddAssign;

use rereduce::vocabulary::Direction;
use rereduce_model::ViewQuery;

use super::{Context, side_by_side};
use crate::figures::Figures;
use crate::oracle::guarded;
use case::{Case, Kept};
use designs::DESIGNS;
use three::ThreeWays;

/// Queries that the quick form must try.
const FLOOR: u64 = 10_000;

/// Rows of the exhaustive part.
const QUICK_ROWS: usize = 3;
const FULL_ROWS: usize = 4;

/// Sets of rows of the random part.
const QUICK_SETS: u64 = 2_000;
const FULL_SETS: u64 = 80_000;

/// The same for a check of planted bugs.
const SAMPLE_SETS: u64 = 400;

/// Sets in one go.
const PORTION: u64 = 50;

/// What was tried.
#[derive(Clone, Debug, Default)]
struct Tried {
    /// Sets of rows, each kept in one way.
    exhaustive_sets: u64,
    exhaustive_queries: u64,
    sums: u64,
    random_sets: u64,
    random_queries: u64,
    /// Random queries that were drawn a second time for one set.
    doubled: u64,
}

impl Tried {
    fn queries(&self) -> u64 {
        self.exhaustive_queries + self.sums + self.random_queries
    }
}

impl AddAssign for Tried {
    fn add_assign(&mut self, other: Tried) {
        self.exhaustive_sets += other.exhaustive_sets;
        self.exhaustive_queries += other.exhaustive_queries;
        self.sums += other.sums;
        self.random_sets += other.random_sets;
        self.random_queries += other.random_queries;
        self.doubled += other.doubled;
    }
}

/// A part of the campaign.
enum Job {
    Exhaustive(Vec<exhaustive::Relation>),
    B26,
    Sums,
    /// Sets of rows from this seed on.
    Random(u64),
}

impl Job {
    fn run(&self) -> Result<Tried, String> {
        match self {
            Job::Exhaustive(relations) => exhaustive::relations(relations),
            Job::B26 => exhaustive::dates(),
            Job::Sums => sums::in_every_order(),
            Job::Random(seed) => random::sets(*seed, PORTION),
        }
    }
}

fn jobs(seed: u64, rows: usize, sets: u64) -> Vec<Job> {
    let mut jobs = vec![Job::B26, Job::Sums];
    jobs.extend(exhaustive::vectors(rows).into_iter().map(Job::Exhaustive));
    let first = seed.wrapping_mul(1_000_003);
    jobs.extend((0..sets / PORTION).map(|portion| Job::Random(first + portion * PORTION)));
    jobs
}

/// Asks `queries` of rows that are kept in one way; a violation is shrunk and says how to see it
/// again.
fn ask<'a>(kept: &Kept, queries: impl IntoIterator<Item = &'a ViewQuery>) -> Result<u64, String> {
    let shrunk = |query: &ViewQuery, violation: String| {
        let case = Case { kept: kept.clone(), query: query.clone() };
        let (case, violation) = case.shrunk(violation, check);
        let line = case.print().replace('\'', r"'\''");
        format!("{violation}\nreplay: cargo oracle replay --reduce '{line}'")
    };
    let three = guarded(|| ThreeWays::new(kept))
        .map_err(|violation| shrunk(&ViewQuery::default(), violation))?;
    let mut asked = 0;
    for query in queries {
        guarded(|| three.check(query)).map_err(|violation| shrunk(query, violation))?;
        asked += 1;
    }
    Ok(asked)
}

fn check(case: &Case) -> Result<(), String> {
    guarded(|| ThreeWays::new(&case.kept)?.check(&case.query))
}

/// `kept` in each design, with each of `fan_outs`.
fn in_all_designs(kept: &Kept, fan_outs: std::ops::RangeInclusive<usize>) -> Vec<Kept> {
    let mut all = Vec::new();
    for (name, _) in DESIGNS {
        for fan_out in fan_outs.clone() {
            all.push(Kept { design: (*name).to_owned(), fan_out, ..kept.clone() });
        }
    }
    all
}

/// Both directions of a query.
fn both_ways(query: ViewQuery) -> [ViewQuery; 2] {
    [Direction::Ascending, Direction::Descending]
        .map(|direction| ViewQuery { direction, ..query.clone() })
}

/// Seconds' worth, for planted bugs.
pub(super) fn sample(context: &Context) -> Result<(), String> {
    // The quickest to notice first.
    jobs(context.seed, 2, SAMPLE_SETS).iter().rev().try_for_each(|job| job.run().map(drop))
}

/// One case again, from the line that it was printed with.
pub(super) fn replay(context: &Context, text: &str) -> Result<Figures, String> {
    let case = Case::parse(text)?;
    let mut figures = Figures::new("replay", 1);
    figures.count("query", 1);
    match check(&case) {
        Ok(()) => figures.passed = 1,
        Err(violation) => {
            figures.failed = 1;
            context.say(format_args!("{violation}\n"));
        }
    }
    Ok(figures)
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("reduce", FLOOR);
    let (rows, sets) = match context.quick {
        true => (QUICK_ROWS, QUICK_SETS),
        false => (FULL_ROWS, FULL_SETS),
    };
    let number = |name: &str, otherwise: u64| match context.argument(name) {
        Some(count) => count.parse().map_err(|_| format!("--{name} takes a number")),
        None => Ok(otherwise),
    };
    let (rows, sets) = (number("rows", rows as u64)?, number("sets", sets)?);
    let jobs = jobs(context.seed, rows as usize, sets);
    let shown = |index: usize, _: &Job| format!("{index} of {} portions of queries", jobs.len());
    let work = |_: usize, job: &Job, (tried, violations): &mut (Tried, Vec<String>)| {
        match job.run() {
            Ok(more) => *tried += more,
            Err(violation) => violations.push(violation),
        }
        Ok(())
    };
    let add = |all: &mut (Tried, Vec<String>), mut some: (Tried, Vec<String>)| {
        all.0 += some.0;
        all.1.append(&mut some.1);
    };
    let (tried, violations) = side_by_side(context, &jobs, shown, work, add)?;
    for violation in &violations {
        context.say(format_args!("{violation}\n"));
    }
    figures.count("exhaustive cases", tried.exhaustive_sets);
    figures.count("exhaustive queries", tried.exhaustive_queries);
    figures.count("queries of sums", tried.sums);
    figures.count("random cases", tried.random_sets);
    figures.count("random queries", tried.random_queries);
    figures.count("drawn twice", tried.doubled);
    figures.count("reducers", reducers::REDUCERS.len() as u64);
    figures.count("designs", DESIGNS.len() as u64);
    figures.passed = tried.queries();
    figures.failed = violations.len() as u64;
    figures.interrupted = context.stopped();
    Ok(figures)
}
