//! `planted`: switches one planted bug on after the other and runs the checks; each must notice
//! what it is named for, and none may complain about the engine as it is.
//!
//! The unit of `passed` is a bug that was caught.

use std::time::Instant;

use rereduce::mark;

use super::{Context, Progress, checks};
use crate::figures::Figures;
use crate::planted::{PLANTED, Planted};

/// Bugs that must be caught.
const FLOOR: u64 = 25;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("planted", FLOOR);
    let checks = checks::all();
    let mut false_alarms = 0;
    for check in &checks {
        if let Err(alarm) = (check.run)(context) {
            false_alarms += 1;
            context.say(format_args!("false alarm of {}: {alarm}", check.name));
        }
    }
    let (mut caught, mut twice) = (0, 0);
    let progress = Progress::new(context);
    for bug in PLANTED {
        if context.stopped() {
            break;
        }
        progress.show(bug.name);
        let began = Instant::now();
        let catching = catching(context, bug, &checks);
        let missed = bug.checks.iter().any(|check| !catching.contains(check));
        let word = if missed { "MISSED" } else { "caught" };
        let (breaks, by) = (bug.breaks.join(" "), catching.join(" "));
        let seconds = began.elapsed().as_secs_f64();
        context.say(format_args!("{}\t{breaks}\t{word}\t{by}\t{seconds:.1} s", bug.name));
        if missed {
            figures.failed += 1;
        } else {
            caught += 1;
        }
        twice += u64::from(catching.len() >= 2);
    }
    drop(progress);
    figures.count("bugs", PLANTED.len() as u64);
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
    let caught = tried.filter(|check| (check.run)(context).is_err());
    let names = caught.map(|check| check.name).collect();
    mark::plant(before);
    names
}
