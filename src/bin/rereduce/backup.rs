//! `backup`: a copy of the newest commit, while others write.
//!
//! ```text
//! source: | header | ... commit n | A | B | being written ...
//!         `------------ copied -----------'
//! ```
//!
//! Files only grow, so these bytes do not change while they are copied. A compaction may swap the
//! file between the look and the copy; then the copy is not what was looked at, and is made anew.
//!
//! Invariant: a file of the name asked for appears only when it is whole, flushed, and opens at the
//! commit that was looked at.

use std::fs::{self, File};
use std::io::{Read, copy};
use std::path::{Path, PathBuf};

use rereduce::db::DbSnapshot;
use rereduce::file::{BLOCK_BYTES, CommitId, sibling};
use rereduce::vocabulary::Json;

use crate::opening;
use crate::outcome::{Failure, Outcome};
use crate::output::{Output, grouped, number, object};

/// Copy the newest commit to a new file, also while others write
#[derive(clap::Args)]
pub(crate) struct Backup {
    /// The database file
    db: PathBuf,
    /// The file to make
    to: PathBuf,
}

/// How often a compaction may come between.
const TRIES: usize = 5;

impl Backup {
    // spec: CLI-6
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let to = self.to.display().to_string();
        if self.to.try_exists().map_err(|error| Failure::io("look for", &to, error))? {
            return Err(Failure::Said {
                code: 3,
                message: format!("{to} is there already; remove it or name another file"),
            });
        }
        let part = sibling(&self.to, "part");
        for _ in 0..TRIES {
            let copied = self.copy_to(&part);
            match copied {
                Ok(Some((snapshot, bytes))) => {
                    put_in_place(&part, &self.to)?;
                    return report(&snapshot, bytes, &self.to, out);
                }
                Ok(None) => {}
                Err(failure) => {
                    // The failure is what counts; the part may not even be there.
                    let _ = fs::remove_file(&part);
                    return Err(failure);
                }
            }
        }
        let _ = fs::remove_file(&part);
        let message = "compactions came between again and again; try once more";
        Err(Failure::Said { code: 3, message: message.to_string() })
    }

    /// Copies the newest commit; `None` if the file was swapped meanwhile.
    fn copy_to(&self, part: &Path) -> Outcome<Option<(DbSnapshot, u64)>> {
        let db = opening::to_read(&self.db)?;
        let report = db.recovery();
        let snapshot = db.snapshot()?;
        // A seal stands behind the commit that it seals and belongs to the copy.
        let sealed = report.sealed && report.number == snapshot.number();
        let bytes = match snapshot.id() {
            Some(_) if sealed => report.file_bytes,
            Some(CommitId { offset, .. }) => offset + 2 * BLOCK_BYTES,
            None => BLOCK_BYTES.min(report.file_bytes),
        };
        let bytes = match rereduce::mark::planted("cli-backup-cuts-the-footer") {
            true => bytes - 2 * BLOCK_BYTES,
            false => bytes,
        };
        let (from, part_name) = (self.db.display().to_string(), part.display().to_string());
        let source = File::open(&self.db).map_err(|error| Failure::io("open", &from, error))?;
        let mut target =
            File::create(part).map_err(|error| Failure::io("create", &part_name, error))?;
        copy(&mut source.take(bytes), &mut target)
            .and_then(|_| target.sync_all())
            .map_err(|error| Failure::io("copy to", &part_name, error))?;
        let same = opening::to_read(part)?.snapshot()?.id() == snapshot.id()
            || rereduce::mark::planted("cli-backup-cuts-the-footer");
        Ok(same.then_some((snapshot, bytes)))
    }
}

fn put_in_place(part: &Path, to: &Path) -> Outcome {
    let name = to.display().to_string();
    let directory = match to.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::rename(part, to)
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(|error| Failure::io("rename to", &name, error))
}

fn report(snapshot: &DbSnapshot, bytes: u64, to: &Path, out: &mut Output) -> Outcome {
    if out.is_json() {
        return out.json(&object([
            ("commit", number(snapshot.number())),
            ("bytes", number(bytes)),
            ("to", Json::String(to.display().to_string())),
        ]));
    }
    let (commit, bytes) = (snapshot.number(), grouped(bytes));
    out.line(format_args!("commit {commit}, {bytes} bytes, to {}", to.display()))
}
