//! `tour`: the whole engine on real data in a few seconds, with a check behind every sentence.
//!
//! ```text
//! load ─► documents ─► a tree that sums ─► a view ─► edits ─► damage ─► compaction ─► table
//!   └──────────┴──────── model: the tour's own maps, one for each commit ──────┘
//! ```
//!
//! Invariant: the tour ends with 0 only if everything it claims was compared with the model, or
//! computed a second time by hand, and agreed.

mod damage;
mod documents;
mod model;
mod stage;
mod sums;
mod views;

use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use stage::Stage;

/// See the engine at work: load, query, crash, recover, compact, and check all of it
#[derive(clap::Args)]
pub(crate) struct Tour {
    /// Leave the files in this directory, which the tour makes
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

impl Tour {
    // spec: CLI-7
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let directory = Directory::make(self.keep)?;
        let mut stage = Stage::new(out, directory.path.clone());
        stage.say("rereduce, a document database in one file. This tour loads real data,")?;
        stage.say("breaks it on purpose, and holds every claim against a model: maps that the")?;
        stage.say("tour keeps by itself, one for each commit.")?;
        let rows = model::weather()?;
        let mut scene = documents::load(&mut stage, &rows)?;
        documents::show(&mut stage, &scene)?;
        sums::show(&mut stage, &rows)?;
        views::show(&mut stage, &mut scene)?;
        documents::edit(&mut stage, &mut scene)?;
        damage::show(&mut stage, &scene)?;
        documents::compact(&mut stage, scene)?;
        if directory.keep {
            let kept = directory.path.display();
            stage.say(&format!("The files are in {kept}; try `inspect` on them."))?;
        }
        stage.finish()
    }
}

/// Where the tour keeps its files, which go when it ends unless somebody wants them.
struct Directory {
    path: PathBuf,
    keep: bool,
}

impl Directory {
    fn make(keep: Option<PathBuf>) -> Outcome<Directory> {
        let (path, keep) = match keep {
            Some(path) => (path, true),
            None => {
                (std::env::temp_dir().join(format!("rereduce-tour-{}", std::process::id())), false)
            }
        };
        let failed = |error| Failure::io("create directory", &path.display().to_string(), error);
        fs::create_dir(&path).map_err(failed)?;
        Ok(Directory { path, keep })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed lies in the system's temporary directory.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Reads a file of the tour.
fn read_file(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|error| Failure::io("read", &path.display().to_string(), error))
}

/// Writes a file of the tour.
fn write_file(path: &Path, bytes: &[u8]) -> Outcome {
    fs::write(path, bytes).map_err(|error| Failure::io("write", &path.display().to_string(), error))
}
