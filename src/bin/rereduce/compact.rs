//! `compact`: rewrites a database without history and garbage.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::opening;
use crate::outcome::Outcome;
use crate::output::{Output, grouped, number, object};
use crate::signal;

/// Rewrite the database without its history; Ctrl-C leaves it as it was
#[derive(clap::Args)]
pub(crate) struct Compact {
    /// The database file
    db: PathBuf,
}

impl Compact {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        signal::listen()?;
        let db = opening::to_write(&self.db, false)?;
        let before = db.snapshot()?.info().file_bytes;
        db.compact(&mut || match signal::asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })?;
        db.close()?;
        let after = db.snapshot()?.info().file_bytes;
        if out.is_json() {
            return out
                .json(&object([("bytes_before", number(before)), ("bytes_after", number(after))]));
        }
        out.line(format_args!("{} bytes became {}", grouped(before), grouped(after)))
    }
}
