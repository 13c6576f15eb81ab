//! `planted`: switches one planted bug on after the other and runs the checks; each must be caught
//! by the checks it is named for, and none may complain about the engine as it is.
//!
//! `--bug NAME` runs that one alone, `--checks NAME,NAME` only these checks, `--clean N` tries the
//! clean engine under N seeds. The quick form runs each check on the bugs that are named for it.
//! The full form goes on with the others until two that share no code have noticed a bug, and runs
//! the clean engine 20 times (once for one bug). A line for each bug:
//!
//! ```text
//! NAME  WHAT IT VIOLATES  caught  CHECK SECONDS, CHECK SECONDS; TEST FILES THAT PLANT IT TOO
//! ```
//!
//! The unit of `passed` is a bug that was caught here.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rereduce::mark;

use super::checks::{CHECKS, Check};
use super::{Context, side_by_side};
use crate::figures::Figures;
use crate::oracle::guarded;
use crate::planted::{PLANTED, Planted};

/// Bugs that must be caught.
const FLOOR: u64 = 100;

/// Runs of the clean engine in the full form.
const CLEAN_RUNS: u64 = 20;

/// Of a hundred bugs, how many two independent checks must notice.
const TWICE_PERCENT: u64 = 80;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("planted", FLOOR);
    let bugs: Vec<&Planted> = match context.argument("bug") {
        Some(name) => PLANTED.iter().filter(|bug| bug.name == name).collect(),
        None => PLANTED.iter().collect(),
    };
    let checks = wanted_checks(context, &bugs);
    let (runs, alarmed) = clean_runs(context, &checks)?;
    // A check that complains about everything notices nothing.
    let checks: Vec<&Check> =
        checks.into_iter().filter(|check| !alarmed.contains(&check.name)).collect();
    let printed = Mutex::new((0, vec![None; bugs.len()]));
    let shown = |_: usize, bug: &&Planted| bug.name.to_owned();
    let work = |index: usize, bug: &&'static Planted, (): &mut ()| {
        let tried = Tried::new(context, bug, &checks);
        // Lines come in the order of the table, whoever finishes first.
        let (next, results) = &mut *locked(&printed);
        results[index] = Some(tried);
        while let Some(Some(tried)) = results.get(*next) {
            context.say(tried.line());
            *next += 1;
        }
        Ok(())
    };
    side_by_side(context, &bugs, shown, work, |(), ()| ())?;
    let (_, results) = printed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let tried: Vec<Tried> = results.into_iter().flatten().collect();
    let twice = tried.iter().filter(|tried| tried.kin().len() >= 2).count() as u64;
    let mut times: Vec<Duration> = tried.iter().map(|tried| tried.time).collect();
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    figures.count("bugs", tried.len() as u64);
    figures.count("noticed by two independent checks", twice);
    figures.count("ms a bug (median)", median.as_millis() as u64);
    figures.count("clean runs", runs);
    figures.count("false alarms", alarmed.len() as u64);
    figures.passed = tried.iter().filter(|tried| !tried.catching.is_empty()).count() as u64;
    figures.failed = tried.iter().filter(|tried| tried.is_missed()).count() as u64;
    figures.failed += alarmed.len() as u64;
    figures.interrupted = context.stopped();
    let whole = context.argument("bug").or(context.argument("checks")).is_none();
    if whole && !context.stopped() && twice * 100 < tried.len() as u64 * TWICE_PERCENT {
        context.say(format_args!("fewer than {TWICE_PERCENT} % were noticed by two checks"));
        figures.failed += 1;
    }
    figures.rows = tried.iter().map(Tried::row).collect();
    Ok(figures)
}

/// All checks, or those that were asked for; for one bug in the quick form, those it is named for.
fn wanted_checks(context: &Context, bugs: &[&Planted]) -> Vec<&'static Check> {
    let asked = |check: &Check| match context.argument("checks") {
        Some(names) => names.split(',').any(|name| name == check.name),
        None => true,
    };
    let named = |check: &Check| bugs.iter().any(|bug| bug.checks().any(|it| it == check.name));
    CHECKS.iter().filter(|check| asked(check) && (!context.quick || named(check))).collect()
}

/// Runs the checks on the clean engine under as many seeds as wanted. Returns how many whole runs
/// there were, and the checks that complained.
fn clean_runs(
    context: &Context,
    checks: &[&'static Check],
) -> Result<(u64, BTreeSet<&'static str>), String> {
    let runs = match context.argument("clean") {
        Some(text) => text.parse().map_err(|_| "--clean takes a number")?,
        None if context.quick || context.argument("bug").is_some() => 1,
        None => CLEAN_RUNS,
    };
    let jobs: Vec<(u64, &'static Check)> =
        (0..runs).flat_map(|run| checks.iter().map(move |check| (run, *check))).collect();
    let alarmed = Mutex::new(BTreeSet::new());
    let shown = |_: usize, (run, check): &(u64, &Check)| {
        format!("clean run {} of {runs}, {}", run + 1, check.name)
    };
    let work = |_: usize, (run, check): &(u64, &'static Check), done: &mut u64| {
        let context = Context { seed: context.seed + run, ..context.clone() };
        let outcome = tried(check, &context);
        // What an end from outside cut short says nothing.
        if context.stopped() {
            return Ok(());
        }
        *done += 1;
        if let Err(alarm) = outcome {
            let seed = context.seed;
            context.say(format_args!("false alarm of {}, seed {seed}: {alarm}", check.name));
            locked(&alarmed).insert(check.name);
        }
        Ok(())
    };
    let done = side_by_side(context, &jobs, shown, work, |sum: &mut u64, more| *sum += more)?;
    let runs = done / (checks.len() as u64).max(1);
    Ok((runs, alarmed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())))
}

/// Runs a check; what it found wrong is an error, and so is a panic.
fn tried(check: &Check, context: &Context) -> Result<(), String> {
    guarded(|| (check.run)(context).map_err(|wrong| wrong.to_string()))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done where a panic could strike.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A bug that was tried.
#[derive(Clone)]
struct Tried {
    bug: &'static Planted,
    /// The checks that noticed, with their kin and the time each took.
    catching: Vec<(&'static Check, Duration)>,
    /// Checks that should have noticed and did not.
    missing: Vec<&'static str>,
    /// How long all checks took.
    time: Duration,
}

impl Tried {
    /// Plants `bug` and runs the checks that it is named for; in the full form also the others,
    /// until two that share no code have noticed.
    fn new(context: &Context, bug: &'static Planted, checks: &[&'static Check]) -> Tried {
        let began = Instant::now();
        let is_named = |check: &&Check| bug.checks().any(|name| name == check.name);
        let (named, others): (Vec<&Check>, Vec<&Check>) =
            checks.iter().copied().partition(is_named);
        let (catching, missing) = (Vec::new(), Vec::new());
        let mut result = Tried { bug, catching, missing, time: Duration::ZERO };
        let before = mark::plant(Some(bug.name));
        for check in named {
            if !context.stopped() && !result.notices(context, check, check.tries) {
                result.missing.push(check.name);
            }
        }
        for check in others {
            if !context.quick && !context.stopped() && result.kin().len() < 2 {
                result.notices(context, check, 1);
            }
        }
        mark::plant(before);
        result.time = began.elapsed();
        result
    }

    /// Runs a check, at most `tries` times, until it notices; whether it did, or was cut short.
    fn notices(&mut self, context: &Context, check: &'static Check, tries: usize) -> bool {
        let began = Instant::now();
        let noticed = (0..tries).any(|_| tried(check, context).is_err());
        if noticed && !context.stopped() {
            self.catching.push((check, began.elapsed()));
        }
        noticed || context.stopped()
    }

    fn is_missed(&self) -> bool {
        !self.missing.is_empty() || self.catching.is_empty() && self.bug.shown_by.is_empty()
    }

    /// What noticed it, code that is shared counted once.
    fn kin(&self) -> BTreeSet<&'static str> {
        let here = self.catching.iter().map(|(check, _)| check.kin);
        here.chain(self.bug.tests()).collect()
    }

    fn verdict(&self) -> String {
        match (self.missing.is_empty(), self.catching.is_empty()) {
            (false, _) => format!("MISSED by {}", self.missing.join(" ")),
            (true, true) => "by tests".to_owned(),
            (true, false) => "caught".to_owned(),
        }
    }

    /// The checks that noticed, with the seconds each took.
    fn caught_by(&self) -> String {
        let shown = |(check, time): &(&Check, Duration)| {
            format!("{} {:.2} s", check.name, time.as_secs_f64())
        };
        let checks: Vec<String> = self.catching.iter().map(shown).collect();
        checks.join(", ")
    }

    fn line(&self) -> String {
        let Planted { name, violates, shown_by, .. } = self.bug;
        format!("{name}\t{violates}\t{}\t{}; {shown_by}", self.verdict(), self.caught_by())
    }

    fn row(&self) -> Vec<(&'static str, String)> {
        let Planted { name, violates, shown_by, .. } = self.bug;
        vec![
            ("bug", name.to_string()),
            ("violates", violates.to_string()),
            ("verdict", self.verdict()),
            ("checks", self.caught_by()),
            ("tests", shown_by.to_string()),
            ("kin", Vec::from_iter(self.kin()).join(" ")),
            ("seconds", format!("{:.2}", self.time.as_secs_f64())),
        ]
    }
}
