//! `dump`: all documents as NDJSON.

use rereduce::db::{DbSnapshot, DocSummary};
use rereduce::doc::Show;
use rereduce::vocabulary::{Direction, KeyRange};

use crate::get::with_attachments;
use crate::opening::Source;
use crate::outcome::Outcome;
use crate::output::{Output, go_on};

/// Print all documents, one a line, with their attachments
///
/// `load` reads it back; with --all into an equal database, without into one of the winners.
/// Local documents are not part of a dump (`backup` copies all).
#[derive(clap::Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    source: Source,
    /// All leaves instead of the winners, deleted ones too, with their ancestors
    #[arg(long)]
    all: bool,
}

impl Dump {
    // spec: CLI-5
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let snapshot = self.source.snapshot()?;
        let mut failed = Ok(());
        snapshot.all_docs(&KeyRange::all(), Direction::Ascending, &mut |summary| {
            go_on(self.print(&snapshot, &summary, out), &mut failed)
        })?;
        failed
    }

    fn print(&self, snapshot: &DbSnapshot, summary: &DocSummary, out: &mut Output) -> Outcome {
        if !self.all {
            if summary.deleted {
                return Ok(());
            }
            let document = snapshot.document(&summary.id, Some(&summary.rev))?;
            return out.json(&with_attachments(snapshot, &document, Show::default())?);
        }
        for leaf in snapshot.open_revs(&summary.id, None, false)?.iter().flatten() {
            let revisions = !rereduce::mark::planted("cli-dump-without-ancestors");
            let show = Show { revisions, ..Show::default() };
            out.json(&with_attachments(snapshot, leaf, show)?)?;
        }
        Ok(())
    }
}
