//! `rot`: one file with everything in it, and every way in which a medium may damage it.
//!
//! ```text
//! script ──► file, unsealed and sealed ──► every bit flipped, every block and sector zeroed,
//!                                          swapped, misdirected, stale; every lie
//!                each image: open, ask everything, check ──► right | error with its place | wrong
//! ```
//!
//! A sealed file must answer as the model does or name the damage. An unsealed one may also be at
//! the commit before its last, which nothing witnesses, if its recovery report says so. `check`
//! must speak of all damage under the current root. Readers may believe a lie whose checksums are
//! right where only its neighbours know better; then `check` must notice.
//!
//! The unit of `passed` is a distinct damaged image.

mod judge;
mod patient;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Context, scripts};
use crate::damage::Damage;
use crate::fault::FaultKind;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::target::Workload;
use judge::Outcome;
use patient::Patient;

const FLOOR: u64 = 10_000;

/// Which images are made.
#[derive(Clone, Copy)]
struct Extent {
    /// One bit of so many.
    bits: u64,
    /// Pairs of units drawn for swaps, and as many for misdirected writes; all if `None`.
    pairs: Option<u64>,
}

const FULL: Extent = Extent { bits: 1, pairs: None };
const QUICK: Extent = Extent { bits: 64, pairs: Some(400) };
const SMALL: Extent = Extent { bits: 32, pairs: Some(40) };

/// Small enough for a check that many bugs are tried on, and something of everything.
const SMALL_SCRIPT: &str = "with fan-out=3 chunk=64 cache=0; \
    edit a@new=1 b@new=2 c@new=6 d@new=4 e@new=5; merge a@winner+a~1=2 a@winner+b~1=3; \
    attach b@winner n image/png 1 150; attach c@winner t text/plain 2 900; local l=1; \
    purge d@winner; compact; edit a@winner=7 e@winner=-; edit f@new=8";

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let workload = workload_of(context)?;
    let extent = if context.quick { QUICK } else { FULL };
    explore(context, &workload, extent)
}

/// The small form, as a check for planted bugs.
pub(super) fn check(context: &Context) -> Result<(), String> {
    let context = Context { loud: false, arguments: Vec::new(), ..context.clone() };
    let figures = explore(&context, &Workload::parse("small", SMALL_SCRIPT)?, SMALL)?;
    if figures.failed == 0 { Ok(()) } else { Err(figures.to_string()) }
}

/// The small form of one kind of damage.
pub(super) fn check_kind(context: &Context, kind: FaultKind) -> Result<(), String> {
    let context = Context { loud: false, arguments: Vec::new(), ..context.clone() };
    let mut tally = Tally::default();
    for sealed in [false, true] {
        let patient = Patient::grow(&context, &Workload::parse("small", SMALL_SCRIPT)?, sealed)?;
        let mut damages = patient.damages(context.seed, SMALL);
        damages.retain(|damage| damage.kind() == kind);
        tally.add(patient.all(&context, &damages, kind.name())?);
    }
    match (tally.passed, tally.failed) {
        (0, 0) => Err(format!("no image shows {kind}")),
        (_, 0) => Ok(()),
        (_, failed) => Err(format!("{kind}: {failed} images are judged wrong")),
    }
}

/// One image again, from the command that it was printed with.
pub(super) fn replay(context: &Context, damage: &str) -> Result<Figures, String> {
    let workload = workload_of(context)?;
    let sealed = match context.argument("form") {
        Some("sealed") => true,
        Some("unsealed") | None => false,
        Some(form) => return Err(format!("--form {form}: expected sealed or unsealed")),
    };
    let patient = Patient::grow(context, &workload, sealed)?;
    let mut figures = Figures::new("replay", 1);
    figures.count("image", 1);
    let plan: Plan = damage.parse()?;
    let damages: Vec<Damage> = plan.damages().collect();
    if damages.len() != plan.items().count() {
        return Err(format!("{damage:?}: only {} rot", Damage::WORDS.join(", ")));
    }
    let outcome = patient.judge(&damages)?.ok_or("nothing in the file is damaged then")?;
    match &outcome.failure {
        Some(failure) => {
            context.say(failure);
            figures.failed = 1;
        }
        None => {
            context.say(outcome.describe());
            figures.passed = 1;
        }
    }
    Ok(figures)
}

/// The script that was given, or that of the directory.
fn workload_of(context: &Context) -> Result<Workload, String> {
    let mut workload = match context.argument("script") {
        Some(script) => Workload::parse("script", script)?,
        None => scripts(context, "rot")?.into_iter().next().ok_or("there is no script to rot")?,
    };
    for (name, value) in &context.arguments {
        if let ("set", Some((key, value))) = (name.as_str(), value.split_once('=')) {
            workload.settings.push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(workload)
}

fn explore(context: &Context, workload: &Workload, extent: Extent) -> Result<Figures, String> {
    let mut figures = Figures::new("rot", FLOOR);
    let mut tally = Tally::default();
    for sealed in [false, true] {
        let form = if sealed { "sealed" } else { "unsealed" };
        let patient = Patient::grow(context, workload, sealed)?;
        let damages = patient.damages(context.seed, extent);
        let found = patient.all(context, &damages, form)?;
        figures.count(format!("bytes {form}"), patient.file.bytes.len() as u64);
        tally.add(found);
    }
    for kind in Damage::WORDS {
        let hits = tally.kinds.get(kind).copied().unwrap_or(0);
        figures.count(kind, hits);
        // Nobody lies to a store, and where its file was shorter a stale block is one of zeros.
        let has_all = context.argument("target").unwrap_or("db") == "db";
        if hits == 0 && has_all && !context.stopped() {
            context.say(format_args!("no image of kind {kind}"));
            tally.failed += 1;
        }
    }
    for (what, count) in [
        ("duplicates", tally.duplicates),
        ("answered in full", tally.whole),
        ("with answers refused", tally.partial),
        ("refused on opening", tally.refused),
        ("at the commit before", tally.fell_back),
        ("reachable", tally.reachable),
        ("reported", tally.reported),
        ("in garbage", tally.garbage),
        ("lies that readers notice", tally.noticed.len() as u64),
        ("that only check does", tally.only_check.len() as u64),
        ("ms for the slowest", tally.slowest.as_millis() as u64),
    ] {
        figures.count(what, count);
    }
    for (by, names) in [("readers", &tally.noticed), ("only check", &tally.only_check)] {
        for (name, what) in names {
            context.say(format_args!("lie\t{name}\t{by}\t{what}"));
        }
    }
    (figures.passed, figures.failed) = (tally.passed, tally.failed);
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// Sums of outcomes.
#[derive(Default)]
struct Tally {
    kinds: BTreeMap<&'static str, u64>,
    passed: u64,
    failed: u64,
    duplicates: u64,
    whole: u64,
    partial: u64,
    refused: u64,
    fell_back: u64,
    reachable: u64,
    reported: u64,
    garbage: u64,
    slowest: Duration,
    /// Lies by name, and what was noticed.
    noticed: BTreeMap<String, String>,
    only_check: BTreeMap<String, String>,
}

impl Tally {
    fn count(&mut self, damage: &Damage, outcome: Outcome) {
        match outcome.failure {
            Some(_) => self.failed += 1,
            None => self.passed += 1,
        }
        *self.kinds.entry(damage.word()).or_default() += 1;
        self.slowest = self.slowest.max(outcome.took);
        self.refused += u64::from(outcome.refused.is_some());
        self.fell_back += u64::from(outcome.fell_back);
        let complete = outcome.errors.is_empty() && outcome.refused.is_none();
        self.whole += u64::from(complete);
        self.partial += u64::from(!outcome.errors.is_empty());
        self.reachable += u64::from(outcome.reachable);
        self.reported += u64::from(outcome.reachable && outcome.reported);
        self.garbage += u64::from(!outcome.reachable);
        if let Damage::Lie(name) = damage {
            let mut by: Vec<&str> = outcome.errors.iter().map(|(topic, _)| *topic).collect();
            by.dedup();
            let noticed = match (&outcome.refused, outcome.fell_back) {
                (Some(_), _) => Some("opening".to_owned()),
                (None, true) => Some("recovery".to_owned()),
                (None, false) => (!by.is_empty()).then(|| by.join(", ")),
            };
            match noticed {
                Some(by) => self.noticed.insert((*name).to_owned(), by),
                None => {
                    let mut misled = outcome.misled;
                    misled.dedup();
                    let misled = match misled.is_empty() {
                        true => "answers are right".to_owned(),
                        false => format!("misleads {}", misled.join(", ")),
                    };
                    self.only_check.insert((*name).to_owned(), misled)
                }
            };
        }
    }

    fn add(&mut self, other: Tally) {
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        for (sum, more) in [
            (&mut self.passed, other.passed),
            (&mut self.failed, other.failed),
            (&mut self.duplicates, other.duplicates),
            (&mut self.whole, other.whole),
            (&mut self.partial, other.partial),
            (&mut self.refused, other.refused),
            (&mut self.fell_back, other.fell_back),
            (&mut self.reachable, other.reachable),
            (&mut self.reported, other.reported),
            (&mut self.garbage, other.garbage),
        ] {
            *sum += more;
        }
        self.slowest = self.slowest.max(other.slowest);
        self.noticed.extend(other.noticed);
        self.only_check.extend(other.only_check);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under these locks is a bug of the campaign; sums stay sums.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
