//! `changes`: what happened since a sequence, and what happens from now on.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use rereduce::db::{Change, ChangesOptions, DbSnapshot};
use rereduce::vocabulary::{Direction, Json};

use crate::opening::{self, Source};
use crate::outcome::{Failure, Outcome};
use crate::output::{Output, Style, go_on, number, object};
use crate::signal;

/// List every document once, at its newest change
#[derive(clap::Args)]
pub(crate) struct Changes {
    /// The database file
    db: PathBuf,
    /// Only changes after this sequence
    #[arg(long, value_name = "SEQ", default_value = "0")]
    since: u64,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// The newest first
    #[arg(long, conflicts_with = "follow")]
    descending: bool,
    /// Go on with the changes that other processes make, until Ctrl-C
    #[arg(long, conflicts_with = "commit")]
    follow: bool,
    /// Read this commit instead of the newest
    #[arg(long, value_name = "N")]
    commit: Option<u64>,
}

/// How long to wait before looking whether somebody asked to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Changes taken at a time while following.
const PIECE: u64 = 1000;

impl Changes {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        if self.follow {
            return self.follow(out);
        }
        let source = Source { db: self.db.clone(), commit: self.commit };
        self.list(&source.snapshot()?, out)
    }

    fn list(&self, snapshot: &DbSnapshot, out: &mut Output) -> Outcome {
        let direction = if self.descending { Direction::Descending } else { Direction::Ascending };
        let (mut left, mut failed) = (self.limit.unwrap_or(u64::MAX), Ok(()));
        snapshot.changes(self.since, direction, &mut |change| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            go_on(print(&change, out), &mut failed)
        })?;
        failed
    }

    fn follow(&self, out: &mut Output) -> Outcome {
        signal::listen()?;
        let db = opening::to_read(&self.db)?;
        let (mut since, mut left) = (self.since, self.limit.unwrap_or(u64::MAX));
        while left > 0 {
            if signal::asked() {
                return Err(Failure::interrupted(format!("interrupted after sequence {since}")));
            }
            let limit = left.min(PIECE) as usize;
            let options = ChangesOptions { limit, wait: Some(PATIENCE), ..Default::default() };
            let found = db.changes(since, &options)?;
            for change in &found.changes {
                print(change, out)?;
            }
            out.flush()?;
            left -= found.changes.len() as u64;
            since = found.last_seq;
        }
        Ok(())
    }
}

fn print(change: &Change, out: &mut Output) -> Outcome {
    if out.is_json() {
        let rev = |leaf: &(rereduce::vocabulary::Rev, bool)| {
            object([("rev", Json::String(leaf.0.to_string()))])
        };
        let mut members = vec![
            ("seq", number(change.seq)),
            ("id", Json::from(change.id.as_str())),
            ("changes", Json::Array(change.leaves.iter().map(rev).collect())),
        ];
        if change.deleted() {
            members.push(("deleted", Json::Bool(true)));
        }
        return out.json(&object(members));
    }
    let mut notes = String::new();
    if change.deleted() {
        notes += "  deleted";
    }
    let conflicts = change.leaves.iter().skip(1).filter(|(_, deleted)| !deleted).count();
    if conflicts > 0 {
        notes += &format!("  conflicts {conflicts}");
    }
    let seq = out.paint(Style::Key, format_args!("{:>8}", change.seq));
    let winner = out.paint(Style::Faint, change.winner());
    out.line(format_args!("{seq}  {}  {winner}{notes}", change.id))
}
