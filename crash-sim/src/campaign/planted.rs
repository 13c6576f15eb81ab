//! `planted`: switches one planted bug on after the other and runs the checks; each must notice
//! what it is named for, and none may complain about the engine as it is.
//!
//! `--bug NAME` runs that one alone, `--checks NAME,NAME` only these checks. The quick form runs
//! each check on the bugs that are named for it; the full form runs all on all, until two
//! independent ones (a test that plants the bug is one) have noticed. The unit of `passed` is a bug
//! that was caught here.

use std::time::Instant;

use rereduce::mark;

use super::{Context, Progress, checks};
use crate::figures::Figures;
use crate::oracle::guarded;
use crate::planted::{PLANTED, Planted};

/// Bugs that must be caught.
const FLOOR: u64 = 45;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("planted", FLOOR);
    let mut checks = checks::all();
    if let Some(names) = context.argument("checks") {
        checks.retain(|check| names.split(',').any(|name| name == check.name));
    }
    if let (true, Some(name)) = (context.quick, context.argument("bug")) {
        let named = PLANTED.iter().filter(|bug| bug.name == name);
        let named: Vec<&str> = named.flat_map(|bug| bug.checks()).collect();
        checks.retain(|check| named.contains(&check.name));
    }
    let mut false_alarms = 0;
    // A check that complains about everything notices nothing.
    checks.retain(|check| {
        let alarm = guarded(|| (check.run)(context)).err();
        if let Some(alarm) = &alarm {
            false_alarms += 1;
            context.say(format_args!("false alarm of {}: {alarm}", check.name));
        }
        alarm.is_none()
    });
    let (mut caught, mut twice) = (0, 0);
    let progress = Progress::new(context);
    let wanted = |bug: &&Planted| match context.argument("bug") {
        Some(name) => bug.name == name,
        None => bug.checks().next().is_some() || !context.quick,
    };
    for bug in PLANTED.iter().filter(wanted) {
        if context.stopped() {
            break;
        }
        progress.show(bug.name);
        let began = Instant::now();
        let catching = catching(context, bug, &checks);
        let missed = bug.checks().any(|named| !catching.contains(&named));
        let elsewhere = catching.is_empty() && !missed;
        let word = match (missed, elsewhere) {
            (true, _) => "MISSED",
            (false, true) => "not here",
            (false, false) => "caught",
        };
        let mut by = catching.clone();
        by.extend(Some(bug.shown_by).filter(|test| !test.is_empty()));
        let (by_all, seconds) = (by.join(" "), began.elapsed().as_secs_f64());
        context
            .say(format_args!("{}\t{}\t{word}\t{by_all}\t{seconds:.1} s", bug.name, bug.violates));
        figures.failed += u64::from(missed);
        caught += u64::from(!missed && !elsewhere);
        twice += u64::from(by.len() >= 2);
    }
    drop(progress);
    figures.count("bugs", PLANTED.len() as u64);
    let in_tests = PLANTED.iter().filter(|bug| !bug.shown_by.is_empty()).count();
    figures.count("planted by tests too", in_tests as u64);
    figures.count("noticed by two checks", twice);
    figures.count("false alarms", false_alarms);
    figures.passed = caught;
    figures.failed += false_alarms;
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// The checks that notice `bug`: in the quick form only those named for it are tried, in the full
/// form those first, and then others until two have noticed.
fn catching(context: &Context, bug: &Planted, checks: &[checks::Check]) -> Vec<&'static str> {
    let is_named = |check: &checks::Check| bug.checks().any(|name| name == check.name);
    let mut order: Vec<&checks::Check> = checks.iter().filter(|check| is_named(check)).collect();
    if !context.quick {
        order.extend(checks.iter().filter(|check| !is_named(check)));
    }
    let needed = if bug.shown_by.is_empty() { 2 } else { 1 };
    let mut names = Vec::new();
    let before = mark::plant(Some(bug.name));
    for check in order {
        if names.len() >= needed && !is_named(check) {
            break;
        }
        if guarded(|| (check.run)(context)).is_err() {
            names.push(check.name);
        }
    }
    mark::plant(before);
    names
}
