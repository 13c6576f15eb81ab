//! `delete`: puts a tombstone on a revision.

use std::path::PathBuf;

use rereduce::db::DocEdit;
use rereduce::vocabulary::Rev;

use crate::opening;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::put::write_one;

/// Delete a document; prints the revision of its tombstone
#[derive(clap::Args)]
pub(crate) struct Delete {
    /// The database file
    db: PathBuf,
    /// The document
    id: String,
    /// The revision to delete
    #[arg(long)]
    rev: Rev,
}

impl Delete {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let edit = DocEdit::deletion(&self.id, self.rev)?;
        let db = opening::to_write(&self.db, false)?;
        write_one(&db, edit, out)
    }
}
