//! `views`: random histories of a database and its views, against the model and fresh builds.
//!
//! ```text
//!   edits, deletions, conflicts, purges, compactions of either, restarts, backups put back,
//!   databases made anew, queries of every kind
//! ```
//!
//! After each query that wants the newest rows they are those of the model and of an index built
//! from nothing, no more documents were mapped than changed, and the index passes its own check.
//!
//! `--portions N` plays N times 50 histories. The unit of `passed` is a history.

use std::collections::BTreeMap;

use rereduce::vocabulary::ViewOp;
use rereduce_model::{CheckConfig, Report, Violation, check_views, check_views_history};

use super::{Context, side_by_side};
use crate::disk::SimDisk;
use crate::figures::Figures;
use crate::image::Image;
use crate::oracle::environment;
use crate::targets::{ViewsProfile, WithViews};

/// Histories that the quick form must play.
const FLOOR: u64 = 1_000;

/// Histories in one go, from one seed and in one profile.
const PORTION: u64 = 50;

/// Portions.
const QUICK_PORTIONS: u64 = 80;
const FULL_PORTIONS: u64 = 4_000;

/// The same for a check of planted bugs.
const SAMPLE_PORTIONS: u64 = 8;

/// Operations of a history at most, but for the first and the last.
const OPERATIONS_MAX: usize = 14;

/// Tiny nodes and batches, up to what users run with.
const PROFILES: [ViewsProfile; 4] = [
    ViewsProfile { fan_out: 2, batch_docs: 1, cache_bytes: 0 },
    ViewsProfile { fan_out: 3, batch_docs: 2, cache_bytes: 1_000 },
    ViewsProfile { fan_out: 4, batch_docs: 3, cache_bytes: 1 << 20 },
    ViewsProfile { fan_out: 1_000_000, batch_docs: 50_000, cache_bytes: 1 << 20 },
];

/// Some histories of one profile.
#[derive(Clone, Copy)]
struct Portion {
    number: u64,
    seed: u64,
}

impl Portion {
    fn profile(&self) -> usize {
        (self.number % PROFILES.len() as u64) as usize
    }

    fn play(&self) -> Result<Report, Box<Violation>> {
        let engine = engine(PROFILES[self.profile()], self.seed);
        let (histories, operations) = (PORTION, OPERATIONS_MAX);
        let config =
            CheckConfig { seed: self.seed, histories, operations, ..CheckConfig::default() };
        check_views(&engine, &config).map_err(Box::new)
    }

    /// A violation, and how to see it again.
    fn told(&self, violation: &Violation) -> String {
        let (profile, script) = (self.profile(), violation.script.join("; "));
        let script = script.replace('\'', r"'\''");
        format!("{violation}\nreplay: cargo oracle replay --views '{script}' --profile {profile}\n")
    }
}

/// Databases of which nothing is random and for which time stands still.
fn engine(profile: ViewsProfile, seed: u64) -> WithViews {
    WithViews::new(profile, &environment(&SimDisk::open_image(&Image::empty()), seed))
}

fn portions(seed: u64, count: u64) -> Vec<Portion> {
    let first = seed.wrapping_mul(1_000_003);
    (0..count).map(|number| Portion { number, seed: first.wrapping_add(number) }).collect()
}

/// Seconds' worth, for planted bugs.
pub(super) fn sample(context: &Context) -> Result<(), String> {
    let tell = |portion: Portion| portion.play().map_err(|violation| portion.told(&violation));
    portions(context.seed, SAMPLE_PORTIONS).into_iter().try_for_each(|it| tell(it).map(drop))
}

/// One history again, from the line that it was printed with.
pub(super) fn replay(context: &Context, script: &str) -> Result<Figures, String> {
    let operation = |line: &str| line.parse::<ViewOp>().map_err(|error| format!("{line}: {error}"));
    let lines = script.split(';').map(str::trim).filter(|line| !line.is_empty());
    let ops = lines.map(operation).collect::<Result<Vec<ViewOp>, String>>()?;
    let number: usize = context.argument("profile").unwrap_or("0").parse().unwrap_or(0);
    let profile = PROFILES.get(number).ok_or_else(|| format!("there is no profile {number}"))?;
    let mut figures = Figures::new("replay", 1);
    figures.count("history", 1);
    match check_views_history(&engine(*profile, context.seed), &ops) {
        Ok(_) => figures.passed = 1,
        Err(violation) => {
            figures.failed = 1;
            context.say(format_args!("{violation}\n"));
        }
    }
    Ok(figures)
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("views", FLOOR);
    let count = match context.argument("portions") {
        Some(count) => count.parse().map_err(|_| "--portions takes a number")?,
        None if context.quick => QUICK_PORTIONS,
        None => FULL_PORTIONS,
    };
    let portions = portions(context.seed, count);
    let shown = |index: usize, _: &Portion| {
        format!("{} of {} histories", index as u64 * PORTION, count * PORTION)
    };
    type Outcomes = (Report, BTreeMap<u64, String>);
    let work = |_: usize, portion: &Portion, (sum, violations): &mut Outcomes| {
        match portion.play() {
            Ok(report) => sum.add(&report),
            Err(violation) => {
                violations.insert(portion.number, portion.told(&violation));
            }
        }
        Ok(())
    };
    let add = |(all, told): &mut Outcomes, (some, more): Outcomes| {
        all.add(&some);
        told.extend(more);
    };
    let (report, violations) = side_by_side(context, &portions, shown, work, add)?;
    violations.values().for_each(|violation| context.say(violation));
    figures.count("operations", report.operations());
    for kind in ViewOp::KINDS {
        figures.count(kind, report.kinds.get(kind).copied().unwrap_or(0));
    }
    figures.passed = report.histories;
    figures.failed = violations.len() as u64;
    // A run in which some operation never occurred says nothing about it.
    if !context.stopped() && ViewOp::KINDS.iter().any(|kind| !report.kinds.contains_key(kind)) {
        context.say("some kind of operation never occurred");
        figures.failed += 1;
    }
    figures.interrupted = context.stopped();
    Ok(figures)
}
