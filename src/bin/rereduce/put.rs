//! `put`: writes one document.

use std::io::Read;
use std::path::PathBuf;

use rereduce::db::DocEdit;
use rereduce::vocabulary::{Json, Rev, RevPath};

use crate::opening;
use crate::outcome::{Failure, Outcome};
use crate::output::{Output, object};

/// Write a document; prints its new revision
///
/// Makes the database if there is none.
#[derive(clap::Args)]
pub(crate) struct Put {
    /// The database file
    db: PathBuf,
    /// The document
    id: String,
    /// Its content, a JSON object; `-` (or nothing) reads standard input
    #[arg(value_name = "JSON")]
    document: Option<String>,
    /// The revision that it replaces, if `_rev` in the document does not say so
    #[arg(long)]
    rev: Option<Rev>,
}

impl Put {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let text = match self.document.as_deref() {
            Some("-") | None => {
                let mut text = Vec::new();
                let read = std::io::stdin().read_to_end(&mut text);
                read.map_err(|error| Failure::io("read", "standard input", error))?;
                text
            }
            Some(json) => json.as_bytes().to_vec(),
        };
        let mut edit = DocEdit::parse(&self.id, &text)?;
        if let Some(rev) = self.rev {
            edit.draft.path = RevPath::of(rev);
        }
        let db = opening::to_write(&self.db, true)?;
        write_one(&db, edit, out)
    }
}

/// Makes one edit, prints the new revision, and closes the database.
pub(crate) fn write_one(db: &rereduce::db::Database, edit: DocEdit, out: &mut Output) -> Outcome {
    let id = edit.id.to_string();
    let reply = db.edit(vec![edit])?.into_iter().next();
    db.close()?;
    let rev = reply.ok_or_else(|| Failure::no("nothing was written"))??;
    if out.is_json() {
        let rev = Json::String(rev.to_string());
        return out.json(&object([
            ("ok", Json::Bool(true)),
            ("id", Json::String(id)),
            ("rev", rev),
        ]));
    }
    out.line(format_args!("{rev}"))
}
