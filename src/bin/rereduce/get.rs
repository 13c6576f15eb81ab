//! `get`: one document, some of its revisions, or one of its attachments.

use rereduce::db::DbSnapshot;
use rereduce::doc::{AttachmentShown, Document, Show};
use rereduce::error::Error;
use rereduce::vocabulary::{Json, Rev};

use crate::opening::Source;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;

/// Print a document as JSON
#[derive(clap::Args)]
pub(crate) struct Get {
    #[command(flatten)]
    source: Source,
    /// The document
    id: String,
    /// Print this revision instead of the winner
    #[arg(long)]
    rev: Option<Rev>,
    /// Show the ancestors of the revision
    #[arg(long)]
    revs: bool,
    /// Show what is there of each ancestor
    #[arg(long)]
    revs_info: bool,
    /// Show the leaves that conflict with the winner, deleted ones too
    #[arg(long)]
    conflicts: bool,
    /// Show the sequence of the newest change
    #[arg(long)]
    local_seq: bool,
    /// Print every leaf, one a line, the winner first
    #[arg(long, conflicts_with = "rev")]
    leaves: bool,
    /// Show the content of attachments too, in base64
    #[arg(long)]
    attachments: bool,
    /// Print only the content of this attachment
    #[arg(long, value_name = "NAME", conflicts_with_all = ["leaves", "attachments"])]
    attachment: Option<String>,
}

impl Get {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let snapshot = self.source.snapshot()?;
        let (id, rev) = (self.id.as_str(), self.rev.as_ref());
        if let Some(name) = &self.attachment {
            return print_attachment(&snapshot, id, rev, name, out);
        }
        if id.starts_with("_local/") {
            let missing = || Error::Missing { what: "document", name: id.to_string() };
            let local = snapshot.local(id)?.ok_or_else(missing)?;
            let head = [("_id", id.to_string()), ("_rev", local.rev().to_string())];
            let head = head.map(|(name, value)| (name.to_string(), Json::String(value)));
            return out.json(&Json::Object(head.into_iter().chain(local.body).collect()));
        }
        if self.leaves {
            for (rev, _) in snapshot.leaves(id)? {
                let document = snapshot.document(id, Some(&rev))?;
                out.json(&self.show(&snapshot, &document)?)?;
            }
            return Ok(());
        }
        let document = snapshot.document(id, rev)?;
        out.json(&self.show(&snapshot, &document)?)
    }

    fn show(&self, snapshot: &DbSnapshot, document: &Document) -> Outcome<Json> {
        let mut show = Show { revisions: self.revs, ..Show::default() };
        if let Some(rev) = document.rev().filter(|_| self.revs_info) {
            show.revs_info = snapshot.revs_info(&self.id, &rev)?;
        }
        if self.conflicts {
            (show.conflicts, show.deleted_conflicts) = snapshot.conflicts(&self.id)?;
        }
        if self.local_seq {
            show.local_seq = Some(sequence(snapshot, &self.id)?);
        }
        if self.attachments {
            return with_attachments(snapshot, document, show);
        }
        Ok(document.to_json(&show))
    }
}

/// The document with the content of its attachments.
pub(crate) fn with_attachments(
    snapshot: &DbSnapshot,
    document: &Document,
    show: Show<'_>,
) -> Outcome<Json> {
    let (id, rev) = (document.id.as_str(), document.rev());
    let mut contents = Vec::new();
    for attachment in &document.attachments {
        contents.push(snapshot.attachment(id, rev.as_ref(), &attachment.name)?.read_all()?);
    }
    let inline = contents.iter().map(|content| AttachmentShown::Inline(content)).collect();
    Ok(document.to_json(&Show { attachments: inline, ..show }))
}

fn sequence(snapshot: &DbSnapshot, id: &str) -> Outcome<u64> {
    let range = rereduce::vocabulary::KeyRange::of(id..=id);
    let mut seq = 0;
    snapshot.all_docs(&range, rereduce::vocabulary::Direction::Ascending, &mut |summary| {
        seq = summary.seq;
        std::ops::ControlFlow::Break(())
    })?;
    Ok(seq)
}

fn print_attachment(
    snapshot: &DbSnapshot,
    id: &str,
    rev: Option<&Rev>,
    name: &str,
    out: &mut Output,
) -> Outcome {
    let content = snapshot.attachment(id, rev, name)?;
    let mut failed: Option<Failure> = None;
    let read = content.read(&mut |piece| {
        out.bytes(piece).map_err(|failure| {
            failed = Some(failure);
            Error::Cancelled { operation: "printing" }
        })
    });
    match failed {
        Some(failure) => Err(failure),
        None => Ok(read?),
    }
}
