//! The report: every commit protocol on every disk under every workload, in tables and one page.
//!
//! ```text
//! measure ── costs ─┐
//! evidence ─────────┼── csv ── page (html, svg) ── index.html
//! recovery ─────────┘     └─────────────────────── *.csv
//! ```
//!
//! Invariant: equal seeds give equal files, to the byte, on any number of threads; so there are
//! counts in it and no times.

mod costs;
mod csv;
mod evidence;
mod html;
mod measure;
mod page;
mod plot;
mod recovery;
mod svg;
mod tables;

use std::path::Path;

pub(crate) use evidence::{Evidence, Found, PROTOCOL, under};
pub(crate) use tables::{Cell, Tables, Verdict};

pub use costs::Cost;
pub use measure::{Counts, Loss, Measure, Measured, Measures, Reply, Seen};

/// Writes the page and its tables into `directory`, which is made if it is missing.
///
/// # Errors
///
/// A message naming the file that could not be written.
// spec: REPORT-1
pub(crate) fn write(tables: &Tables, directory: &Path) -> Result<(), String> {
    let failed = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let mut files = vec![("index.html", page::render(tables))];
    files.extend(tables.all().map(|table| (table.name, table.to_csv())));
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
