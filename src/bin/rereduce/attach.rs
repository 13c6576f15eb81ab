//! `attach` and `detach`: the attachments of a document.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use rereduce::db::{Database, DocEdit};
use rereduce::doc::{AttachmentDraft, AttachmentSource, DocId, Draft, Encoding};
use rereduce::error::Error;
use rereduce::vocabulary::{Rev, RevPath};

use crate::opening;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::put::write_one;

/// Attach a file to a document; prints the document's new revision
///
/// A document that is not there yet is made. `get --attachment NAME` prints the content.
#[derive(clap::Args)]
pub(crate) struct Attach {
    /// The database file
    db: PathBuf,
    /// The document
    id: String,
    /// The name of the attachment
    name: String,
    /// The file to attach; `-` is standard input
    file: PathBuf,
    /// Its MIME type
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    r#type: String,
    /// The revision of the document, if it exists
    #[arg(long)]
    rev: Option<Rev>,
}

/// Remove an attachment from a document; prints the document's new revision
#[derive(clap::Args)]
pub(crate) struct Detach {
    /// The database file
    db: PathBuf,
    /// The document
    id: String,
    /// The name of the attachment
    name: String,
    /// The revision of the document
    #[arg(long)]
    rev: Rev,
}

/// Bytes handed to the database at a time.
const PIECE_BYTES: usize = 64 << 10;

impl Attach {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let name = self.file.display().to_string();
        let mut input: Box<dyn Read> = match self.file.as_os_str() == "-" {
            true => Box::new(std::io::stdin()),
            false => {
                let file = File::open(&self.file);
                Box::new(file.map_err(|error| Failure::io("open", &name, error))?)
            }
        };
        let db = opening::to_write(&self.db, true)?;
        let mut edit = match self.rev {
            Some(rev) => edit_keeping_all(&db, &self.id, rev)?,
            None => DocEdit::parse(&self.id, b"{}")?,
        };
        let mut upload = db.upload(&self.name, &self.r#type);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count =
                input.read(&mut piece).map_err(|error| Failure::io("read", &name, error))?;
            match piece.get(..count) {
                Some([]) | None => break,
                Some(content) => upload.write(content)?,
            }
        }
        edit.uploads.push(upload.finish()?);
        edit.draft.attachments.retain(|attachment| attachment.name != self.name);
        edit.draft.attachments.push(AttachmentDraft {
            name: self.name,
            content_type: self.r#type,
            source: AttachmentSource::Follows {
                length: None,
                encoding: Encoding::Identity,
                revpos: None,
                digest: None,
            },
        });
        write_one(&db, edit, out)
    }
}

impl Detach {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let db = opening::to_write(&self.db, false)?;
        let mut edit = edit_keeping_all(&db, &self.id, self.rev)?;
        let before = edit.draft.attachments.len();
        edit.draft.attachments.retain(|attachment| attachment.name != self.name);
        if edit.draft.attachments.len() == before {
            return Err(Error::Missing { what: "attachment", name: self.name }.into());
        }
        write_one(&db, edit, out)
    }
}

/// An edit of revision `rev` that changes nothing yet.
fn edit_keeping_all(db: &Database, id: &str, rev: Rev) -> Outcome<DocEdit> {
    let document = db.snapshot()?.document(id, Some(&rev))?;
    let stub = |attachment: rereduce::doc::Attachment| AttachmentDraft {
        source: AttachmentSource::Stub { revpos: None, digest: None },
        name: attachment.name,
        content_type: attachment.content_type,
    };
    let draft = Draft {
        id: None,
        path: RevPath::of(rev),
        deleted: false,
        body: document.body,
        attachments: document.attachments.into_iter().map(stub).collect(),
    };
    Ok(DocEdit { id: DocId::new(id)?, draft, uploads: Vec::new() })
}
