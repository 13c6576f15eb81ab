//! `history`: the commits that can still be opened by number.

use std::ops::ControlFlow;

use crate::opening::Source;
use crate::outcome::Outcome;
use crate::output::{Output, Style, go_on, number, object};

/// List the commits since the last compaction, the newest first
///
/// Other commands read one of them with --commit.
#[derive(clap::Args)]
pub(crate) struct History {
    #[command(flatten)]
    source: Source,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl History {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let snapshot = self.source.snapshot()?;
        if !out.is_json() {
            let heading = format!("{:>10} {:>12} {:>12} {:>14}", "commit", "seq", "docs", "byte");
            let heading = out.paint(Style::Heading, heading);
            out.line(format_args!("{heading}"))?;
        }
        let (mut left, mut failed) = (self.limit.unwrap_or(u64::MAX), Ok(()));
        snapshot.history(&mut |commit| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            let (seq, docs) = (commit.update_seq, commit.doc_count);
            let printed = if out.is_json() {
                out.json(&object([
                    ("commit", number(commit.number)),
                    ("update_seq", number(seq)),
                    ("doc_count", number(docs)),
                    ("offset", number(commit.offset)),
                ]))
            } else {
                let (number, offset) = (commit.number, commit.offset);
                out.line(format_args!("{number:>10} {seq:>12} {docs:>12} {offset:>14}"))
            };
            go_on(printed, &mut failed)
        })?;
        failed
    }
}
