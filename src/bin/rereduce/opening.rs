//! Opening databases as commands need them.
//!
//! Invariant: a command that only reads opens read-only, so it takes no lock, creates nothing, and
//! works beside a writer and on a read-only mount.

use std::path::{Path, PathBuf};

use rereduce::db::{Database, DatabaseOptions, DbSnapshot};
use rereduce::env::Env;
use rereduce::error::Error;

use crate::outcome::Outcome;

/// The database a command reads, and at which commit.
#[derive(clap::Args)]
pub(crate) struct Source {
    /// The database file
    pub(crate) db: PathBuf,
    /// Read this commit instead of the newest (`history` lists them)
    #[arg(long, value_name = "N")]
    pub(crate) commit: Option<u64>,
}

impl Source {
    /// The state to read.
    // spec: CLI-4
    pub(crate) fn snapshot(&self) -> Outcome<DbSnapshot> {
        match self.commit {
            // Opens also where a newer commit is damaged and the database as a whole refuses.
            Some(number) => {
                let options = DatabaseOptions::default();
                Ok(Database::open_commit(&Env::real(), &self.db, number, &options)?)
            }
            None => Ok(to_read(&self.db)?.snapshot()?),
        }
    }
}

/// Opens for reading.
// spec: CLI-4
pub(crate) fn to_read(path: &Path) -> Outcome<Database> {
    let options = DatabaseOptions::default();
    if rereduce::mark::planted("cli-readers-lock") {
        return Ok(Database::open(Env::real(), path, options)?);
    }
    Ok(Database::open_read_only(Env::real(), path, options)?)
}

/// Opens for writing; `create` makes the file if there is none.
pub(crate) fn to_write(path: &Path, create: bool) -> Outcome<Database> {
    // Without this, a missing database would leave its lock file behind.
    if !create && matches!(path.try_exists(), Ok(false)) {
        return Err(Error::NoSuchFile { path: path.to_path_buf() }.into());
    }
    let options = DatabaseOptions { create, ..DatabaseOptions::default() };
    Ok(Database::open(Env::real(), path, options)?)
}
