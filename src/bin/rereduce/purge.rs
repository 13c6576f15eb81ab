//! `purge`: removes leaf revisions as if they had never been.

use std::path::PathBuf;

use rereduce::vocabulary::{Json, Rev};

use crate::opening;
use crate::outcome::{Failure, Outcome};
use crate::output::{Output, number, object};

/// Forget leaf revisions of a document; prints those that went
///
/// Unlike a deletion a purge leaves no trace that would be replicated. The bytes go with the next
/// compaction.
#[derive(clap::Args)]
pub(crate) struct Purge {
    /// The database file
    db: PathBuf,
    /// The document
    id: String,
    /// A leaf to forget; may be given several times
    #[arg(long, required = true)]
    rev: Vec<Rev>,
}

impl Purge {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let db = opening::to_write(&self.db, false)?;
        // Asked first: a purge of nothing would still be remembered.
        let leaves = match db.snapshot()?.leaves(&self.id) {
            Ok(leaves) => leaves,
            Err(error) => {
                db.close()?;
                return Err(error.into());
            }
        };
        let named: Vec<Rev> =
            self.rev.into_iter().filter(|rev| leaves.iter().any(|(leaf, _)| leaf == rev)).collect();
        if named.is_empty() {
            db.close()?;
            let message = format!("no leaf of {:?} has this revision", self.id);
            return Err(Failure::no(format!("{message}; `get --leaves` lists them")));
        }
        let purged = db.purge(vec![(self.id, named)])?;
        db.close()?;
        let gone: Vec<Rev> = purged.removed.into_iter().flatten().collect();
        if out.is_json() {
            let gone = gone.iter().map(|rev| Json::String(rev.to_string())).collect();
            let purge_seq = number(purged.purge_seq);
            return out.json(&object([("purge_seq", purge_seq), ("purged", Json::Array(gone))]));
        }
        gone.iter().try_for_each(|rev| out.line(format_args!("{rev}")))
    }
}
