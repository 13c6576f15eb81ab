//! Ctrl-C: the first one asks the command to end at the next safe place, the second ends it.
//!
//! Invariant: ending at any place is safe for the file; only the report of what was done is lost.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::outcome::{Failure, Outcome};

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C sets a flag.
pub(crate) fn listen() -> Outcome {
    let handler = || {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Said {
        code: 3,
        message: format!("cannot listen to Ctrl-C: {error}; try again"),
    })
}

/// Whether somebody asked to end.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
