//! A document store in memory, of maps and revision trees: no files, no indexes.

use std::collections::BTreeMap;

use rereduce::codec::{Reader, put_varint};
use rereduce::doc::{
    Attachment, AttachmentDraft, AttachmentEncoder, AttachmentSource, DocId, Document, Draft,
    EditParent, Encoding, OpenRev, RevData, RevTree, recreated_revision_id, revision_id,
};
use rereduce::vocabulary::{Json, Rev, RevPath};

use super::encode;

/// An answer: HTTP's status, and the JSON behind it.
pub(crate) type Answer = (u16, Json);

/// What the tree keeps of a revision: where its body is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) deleted: bool,
    pub(crate) body: usize,
}

impl RevData for Entry {
    fn is_deleted(&self) -> bool {
        self.deleted
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, (self.body as u64) << 1 | u64::from(self.deleted));
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Entry> {
        let packed = reader.varint()?;
        Some(Entry { deleted: packed & 1 == 1, body: (packed >> 1) as usize })
    }
}

/// Attachments with the bytes that are stored of each.
pub(crate) type Attachments = Vec<(Attachment, Vec<u8>)>;

#[derive(Default)]
struct Stored {
    body: Vec<(String, Json)>,
    attachments: Attachments,
}

/// All documents of one database.
pub(crate) struct Store {
    trees: BTreeMap<DocId, RevTree<Entry>>,
    /// The sequence of each document's last change.
    pub(crate) seqs: BTreeMap<DocId, u64>,
    bodies: Vec<Stored>,
    revs_limit: u32,
    seq: u64,
}

impl Default for Store {
    fn default() -> Store {
        let (trees, seqs) = (BTreeMap::new(), BTreeMap::new());
        Store { trees, seqs, bodies: Vec::new(), revs_limit: 1000, seq: 0 }
    }
}

pub(crate) fn error(status: u16, error: &str, reason: &str) -> Answer {
    let member = |name: &str, value: &str| (name.to_string(), Json::from(value));
    (status, Json::Object(vec![member("error", error), member("reason", reason)]))
}

pub(crate) fn conflict() -> Answer {
    error(409, "conflict", "Document update conflict.")
}

impl Store {
    pub(crate) fn ids(&self) -> impl Iterator<Item = &DocId> {
        self.trees.keys()
    }

    /// Sets the limit; CouchDB counts that as a change of the database.
    pub(crate) fn set_revs_limit(&mut self, limit: u32) {
        self.revs_limit = limit;
        self.seq += 1;
    }

    pub(crate) fn tree(&self, id: &DocId) -> RevTree<Entry> {
        self.trees.get(id).cloned().unwrap_or_default()
    }

    /// An interactive edit: the new revision, or why there is none.
    pub(crate) fn edit(
        &mut self,
        id: &DocId,
        base: Option<Rev>,
        draft: Draft,
    ) -> Result<Rev, Answer> {
        let tree = self.tree(id);
        let parent = tree.parent_for_edit(base.as_ref(), draft.deleted);
        if parent == EditParent::Conflict {
            return Err(conflict());
        }
        let older = match &parent {
            EditParent::Rev(rev) => self.attachments(&tree, rev),
            _ => Vec::new(),
        };
        let attachments = take_attachments(id, draft.attachments, &older, Some(revpos(&parent)))?;
        self.add_edit(id, parent, draft.deleted, draft.body, attachments)
    }

    /// An edit that replaces, adds or removes one attachment.
    pub(crate) fn edit_attachment(
        &mut self,
        id: &DocId,
        base: Option<Rev>,
        name: &str,
        new: Option<(&str, Encoding, &[u8])>,
    ) -> Result<Rev, Answer> {
        let tree = self.tree(id);
        let parent = tree.parent_for_edit(base.as_ref(), false);
        if parent == EditParent::Conflict {
            return Err(conflict());
        }
        // Without a base the document is written anew, with this attachment only.
        let older = base.and_then(|rev| Some(tree.find(&rev)?.data?.body));
        let (body, mut attachments) = older.map_or_else(Default::default, |body| {
            (self.bodies[body].body.clone(), self.bodies[body].attachments.clone())
        });
        let before = attachments.len();
        attachments.retain(|(attachment, _)| attachment.name != name);
        match new {
            Some((content_type, encoding, content)) => {
                let mut stored = Vec::new();
                let mut encoder = match encoding {
                    Encoding::Identity => AttachmentEncoder::new(name, content_type),
                    Encoding::Gzip => AttachmentEncoder::encoded(name, content_type, encoding),
                };
                encoder.write(content, &mut stored);
                attachments.insert(0, (encoder.finish(revpos(&parent), &mut stored), stored));
            }
            None if attachments.len() == before => {
                return Err(error(404, "not_found", "Document is missing attachment"));
            }
            None => {}
        }
        self.add_edit(id, parent, false, body, attachments)
    }

    fn add_edit(
        &mut self,
        id: &DocId,
        parent: EditParent,
        deleted: bool,
        body: Vec<(String, Json)>,
        attachments: Attachments,
    ) -> Result<Rev, Answer> {
        let records: Vec<Attachment> =
            attachments.iter().map(|(record, _)| record.clone()).collect();
        let (rev, parent) = match parent {
            EditParent::First => (revision_id(deleted, None, &body, &records), None),
            EditParent::Rev(rev) => (revision_id(deleted, Some(&rev), &body, &records), Some(rev)),
            EditParent::Recreated(rev) => {
                (recreated_revision_id(&rev, &body, records.len()), Some(rev))
            }
            EditParent::Conflict => return Err(conflict()),
        };
        let rev = rev.unwrap();
        let ids = [Some(rev.id.clone()), parent.map(|parent| parent.id)];
        let path = RevPath { start: rev.generation, ids: ids.into_iter().flatten().collect() };
        let entry = self.keep(deleted, body, attachments);
        self.merge(id, vec![(path, entry)]);
        Ok(rev)
    }

    /// Replicated revisions of one document, as one batch.
    pub(crate) fn replicate(&mut self, id: &DocId, drafts: Vec<Draft>) -> Result<(), Answer> {
        let mut revisions = Vec::new();
        for draft in drafts {
            let attachments = take_attachments(id, draft.attachments, &Vec::new(), None)?;
            revisions.push((draft.path, self.keep(draft.deleted, draft.body, attachments)));
        }
        self.merge(id, revisions);
        Ok(())
    }

    fn merge(&mut self, id: &DocId, revisions: Vec<(RevPath, Entry)>) {
        let before = self.tree(id);
        let mut tree = before.clone();
        tree.merge_all(revisions, self.revs_limit).unwrap();
        if tree != before {
            self.seq += 1;
            self.seqs.insert(id.clone(), self.seq);
            // Through bytes and back, as a database would have it.
            let mut bytes = Vec::new();
            tree.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            assert_eq!(RevTree::decode(&mut reader).as_ref(), Some(&tree));
            assert!(reader.is_empty());
        }
        self.trees.insert(id.clone(), tree);
    }

    /// Forgets the bodies of revisions that are no leaves.
    pub(crate) fn compact(&mut self) {
        for tree in self.trees.values_mut() {
            tree.map_data(|_, data, is_leaf| is_leaf.then(|| data.clone()));
        }
    }

    fn keep(
        &mut self,
        deleted: bool,
        body: Vec<(String, Json)>,
        attachments: Attachments,
    ) -> Entry {
        self.bodies.push(Stored { body, attachments });
        Entry { deleted, body: self.bodies.len() - 1 }
    }

    fn attachments(&self, tree: &RevTree<Entry>, rev: &Rev) -> Attachments {
        let found = tree.find(rev).and_then(|found| found.data);
        found.map(|entry| self.bodies[entry.body].attachments.clone()).unwrap_or_default()
    }

    /// One revision, with the stored bytes of its attachments.
    pub(crate) fn document(&self, id: &DocId, rev: &Rev) -> Option<(Document, Vec<Vec<u8>>)> {
        let tree = self.tree(id);
        let entry = tree.find(rev)?.data?.clone();
        let stored = &self.bodies[entry.body];
        let (attachments, bytes) = stored.attachments.iter().cloned().unzip();
        let (path, body) = (tree.path(rev)?, stored.body.clone());
        Some((Document { id: id.clone(), path, deleted: entry.deleted, body, attachments }, bytes))
    }

    /// The revisions to answer for `open_revs`, those found and those missing.
    pub(crate) fn open_revs(
        &self,
        id: &DocId,
        revs: Option<&[Rev]>,
        latest: bool,
    ) -> (Vec<Rev>, Vec<Rev>) {
        let tree = self.tree(id);
        let all: Vec<Rev> = tree.leaves().iter().map(|(rev, _)| (*rev).clone()).collect();
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for opened in tree.open_revs(revs.unwrap_or(&all), latest) {
            match opened {
                OpenRev::Found(rev, _) => found.push(rev.clone()),
                OpenRev::Missing(rev) => missing.push(rev),
            }
        }
        (found, missing)
    }
}

/// The generation at which an edit's own attachments come in.
fn revpos(parent: &EditParent) -> u64 {
    match parent {
        EditParent::Rev(rev) => rev.generation + 1,
        _ => 1,
    }
}

/// The attachments of a new revision: what was sent, and for stubs what the base has.
fn take_attachments(
    id: &DocId,
    drafts: Vec<AttachmentDraft>,
    older: &Attachments,
    generation: Option<u64>,
) -> Result<Attachments, Answer> {
    let take = |draft: AttachmentDraft| match draft.source {
        AttachmentSource::Inline { data, revpos } => {
            let revpos = generation.or(revpos).unwrap_or(0);
            Ok(encode(&draft.name, &draft.content_type, &data, revpos))
        }
        AttachmentSource::Stub { revpos, .. } => {
            let same = |(record, _): &&(Attachment, Vec<u8>)| {
                record.name == draft.name && revpos.is_none_or(|revpos| revpos == record.revpos)
            };
            let reason = format!("Invalid attachment stub in {id} for {}", draft.name);
            older.iter().find(same).cloned().ok_or_else(|| error(412, "missing_stub", &reason))
        }
        AttachmentSource::Follows { .. } => unreachable!("the parts were put in before"),
    };
    drafts.into_iter().map(take).collect()
}
