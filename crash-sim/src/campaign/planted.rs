//! `planted`: switches one planted bug on after the other and runs the checks; each must notice
//! what it is named for, and none may complain about the engine as it is.
//!
//! `--bug NAME` runs that one alone. The unit of `passed` is a bug that was caught.

use std::time::Instant;

use rereduce::mark;

use super::{Context, Progress, checks};
use crate::figures::Figures;
use crate::oracle::guarded;
use crate::planted::{PLANTED, Planted};

/// Bugs that must be caught.
const FLOOR: u64 = 25;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("planted", FLOOR);
    let mut checks = checks::all();
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
        None => bug.shown_by.is_empty() || !context.quick,
    };
    for bug in PLANTED.iter().filter(wanted) {
        if context.stopped() {
            break;
        }
        progress.show(bug.name);
        let began = Instant::now();
        let catching = catching(context, bug, &checks);
        let missed = bug.checks.iter().any(|check| !catching.contains(check));
        let elsewhere = !bug.shown_by.is_empty() && catching.is_empty();
        let word = match (missed, elsewhere) {
            (true, _) => "MISSED",
            (false, true) => "not here",
            (false, false) => "caught",
        };
        let violates = bug.violates.join(" ");
        let by = if elsewhere { bug.shown_by.to_owned() } else { catching.join(" ") };
        let seconds = began.elapsed().as_secs_f64();
        context.say(format_args!("{}\t{violates}\t{word}\t{by}\t{seconds:.1} s", bug.name));
        figures.failed += u64::from(missed);
        caught += u64::from(!missed && !elsewhere);
        twice += u64::from(catching.len() >= 2);
    }
    drop(progress);
    figures.count("bugs", PLANTED.len() as u64);
    let elsewhere = PLANTED.iter().filter(|bug| !bug.shown_by.is_empty()).count();
    figures.count("left to tests", elsewhere as u64);
    figures.count("caught by two checks", twice);
    figures.count("false alarms", false_alarms);
    figures.passed = caught;
    figures.failed += false_alarms;
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// The checks that notice `bug`, among those named for it in the quick form, else among all.
fn catching(context: &Context, bug: &Planted, checks: &[checks::Check]) -> Vec<&'static str> {
    let before = mark::plant(Some(bug.name));
    let tried = checks.iter().filter(|check| !context.quick || bug.checks.contains(&check.name));
    let caught = tried.filter(|check| guarded(|| (check.run)(context)).is_err());
    let names = caught.map(|check| check.name).collect();
    mark::plant(before);
    names
}
