//! The attachments of a revision that is being written: where their content is, and storing it.
//!
//! Invariant: content that the document has already is not written again.

use super::{DocEdit, Editing};
use crate::db::attach::{self, Uploaded};
use crate::db::load::Body;
use crate::db::prepare::Ready;
use crate::db::record::{DocTree, HeldAttachment, Known, put_body};
use crate::doc::{Attachment, AttachmentDraft, AttachmentSource};
use crate::error::{Error, Result};
use crate::file::ChunkSink;
use crate::mark;

/// An attachment of the revision that is being written, its data perhaps not in the file yet.
pub(super) struct Resolved {
    pub(super) attachment: Attachment,
    data: ResolvedData,
}

enum ResolvedData {
    Held(HeldAttachment),
    New(Vec<u8>),
    Uploaded(Uploaded),
}

impl Editing<'_> {
    /// Finds the content of every attachment that the edit lists. `revpos` is that of content which
    /// an interactive edit brings in; a replicated revision says where its content came in.
    // spec: ATTACH-1, ATTACH-2
    pub(super) fn resolve(
        &self,
        edit: &DocEdit,
        tree: &DocTree,
        parent: Option<Known>,
        revpos: Option<u64>,
    ) -> Result<Vec<Resolved>> {
        if edit.draft.attachments.is_empty() {
            return Ok(Vec::new());
        }
        let of_parent = match parent {
            Some(known) => Body::load_attachments(&*self.writer, known.body)?,
            None => Vec::new(),
        };
        let mut of_document = of_parent.clone();
        for (_, known, _) in tree.revisions() {
            if Some(known.body) != parent.map(|known| known.body) {
                of_document.extend(Body::load_attachments(&*self.writer, known.body)?);
            }
        }
        let start = edit.draft.path.start;
        let resolve = |draft: &AttachmentDraft| {
            let mut resolved = self.resolve_one(draft, &edit.uploads, &of_parent, &of_document)?;
            if !matches!(draft.source, AttachmentSource::Stub { .. }) {
                let given = draft.source.revpos().filter(|revpos| *revpos <= start);
                resolved.attachment.revpos = revpos.or(given).unwrap_or(0);
            }
            Ok(resolved)
        };
        edit.draft.attachments.iter().map(resolve).collect()
    }

    fn resolve_one(
        &self,
        draft: &AttachmentDraft,
        uploads: &[Uploaded],
        of_parent: &[HeldAttachment],
        of_document: &[HeldAttachment],
    ) -> Result<Resolved> {
        let missing = |what| Error::Missing { what, name: draft.name.clone() };
        match &draft.source {
            AttachmentSource::Stub { revpos, .. } => {
                let fits = |held: &&HeldAttachment| {
                    held.attachment.name == draft.name
                        && revpos.is_none_or(|revpos| revpos == held.attachment.revpos)
                };
                let any = mark::planted("stub-of-any-revision");
                let held = if any { of_document } else { of_parent }.iter().find(fits);
                let held = held.ok_or_else(|| missing("attachment stub"))?.clone();
                let attachment = held.attachment.clone();
                Ok(Resolved { attachment, data: ResolvedData::Held(held) })
            }
            AttachmentSource::Inline { data, .. } => {
                let (size, limit) = (data.len() as u64, self.options.attachment_bytes_max);
                if size > limit {
                    return Err(Error::TooLarge { what: "attachment", size, limit });
                }
                let (attachment, stored) =
                    attach::encode_whole(&draft.name, &draft.content_type, data);
                Ok(shared_or(of_document, attachment, ResolvedData::New(stored)))
            }
            AttachmentSource::Follows { digest, .. } => {
                let named = |upload: &&Uploaded| upload.attachment.name == draft.name;
                let upload = uploads.iter().find(named);
                let upload = upload.ok_or_else(|| missing("attachment content"))?;
                let mut attachment = upload.attachment.clone();
                attachment.content_type.clone_from(&draft.content_type);
                if digest.is_some_and(|digest| digest != attachment.digest) {
                    return Err(Error::BadInput {
                        what: "attachment digest",
                        got: attachment.digest.to_string(),
                        expected: "the digest that was promised",
                    });
                }
                Ok(shared_or(of_document, attachment, ResolvedData::Uploaded(upload.clone())))
            }
        }
    }

    /// Appends the data that is new, and the body.
    pub(super) fn store(&mut self, ready: Ready<'_>, resolved: Vec<Resolved>) -> Result<Known> {
        let (mut external, mut attached) = (ready.text.len() as u64, 0);
        let mut held: Vec<HeldAttachment> = Vec::with_capacity(resolved.len());
        for Resolved { attachment, data } in resolved {
            external += attachment.length;
            attached += attachment.encoded_length;
            // Two attachments of one revision may have the same content.
            let data = match (attach::find_same(&held, &attachment), data) {
                (Some(same), _) => same,
                (None, ResolvedData::Held(held)) => held.data,
                (None, ResolvedData::New(stored)) => {
                    let chunk_bytes = self.options.attachment_chunk_bytes;
                    attach::put_stored(&stored, chunk_bytes, self.writer)?
                }
                (None, ResolvedData::Uploaded(upload)) => upload.take_in(self.writer)?,
            };
            held.push(HeldAttachment { attachment, data });
        }
        self.body.clear();
        put_body(&mut self.body, ready.text, &held);
        let body = self.writer.append(&self.body)?;
        Ok(Known { deleted: ready.edit.draft.deleted, body, external, attached })
    }
}

/// Content that the document has already is not written again.
fn shared_or(held: &[HeldAttachment], attachment: Attachment, data: ResolvedData) -> Resolved {
    match attach::find_same(held, &attachment) {
        Some(data) => {
            mark::hit("attachment-shared");
            let held = HeldAttachment { attachment: attachment.clone(), data };
            Resolved { attachment, data: ResolvedData::Held(held) }
        }
        None => Resolved { attachment, data },
    }
}
