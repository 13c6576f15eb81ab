//! What a group of write requests does to the trees.
//!
//! ```text
//!   requests ──► documents they touch, read once ──► changed in memory, request by request
//!            ──► by_id and by_seq edits of what changed ──► new roots
//! ```
//!
//! Invariant: a document that did not change keeps its entry in both trees, whatever was asked of
//! it; one that changed loses its old sequence and gets a new one, in the same commit.

mod resolve;
mod rows;

use std::collections::BTreeMap;

use crate::doc::{Attachment, DocId, Draft, EditParent, recreated_revision_id, revision_id};
use crate::error::{Error, ErrorClass, Result};
use crate::file::FileWriter;
use crate::mark;
use crate::store::committed::Committed;
use crate::vocabulary::{Edit, Json, Rev, RevId, RevPath};

use super::attach::Uploaded;
use super::load::Record;
use super::prepare::{Prepared, Ready};
use super::record::{DocTree, PurgeEntry, encode_local, put_seq_entry, seq_key};
use super::roots::DbRoots;
use super::{Database, DatabaseOptions, Shapes};
pub(crate) use rows::encode_record;
use rows::{NewRows, put_whole_record};

/// One document to be written.
///
/// ```
/// use rereduce::db::DocEdit;
/// let edit = DocEdit::parse("a", br#"{"_rev":"1-abc","v":2}"#)?;
/// assert_eq!(edit.draft.path.newest().unwrap().to_string(), "1-abc");
/// assert!(DocEdit::parse("_no", b"{}").is_err());
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct DocEdit {
    /// The document.
    pub id: DocId,
    /// Its content; the id in there is not looked at.
    pub draft: Draft,
    /// Content for those attachments of the draft that only promise it, by name.
    pub uploads: Vec<Uploaded>,
}

impl DocEdit {
    /// Reads a document as a client sends it.
    ///
    /// Errors: [`Error::BadInput`] for a bad id, for what is not JSON, and for members that
    /// CouchDB refuses.
    pub fn parse(id: &str, json: &[u8]) -> Result<DocEdit> {
        let draft = Draft::from_json(Json::parse(json)?)?;
        Ok(DocEdit { id: DocId::new(id)?, draft, uploads: Vec::new() })
    }

    /// Reads a document that carries its own `_id`.
    pub fn parse_with_id(json: &[u8]) -> Result<DocEdit> {
        let draft = Draft::from_json(Json::parse(json)?)?;
        let id = draft.id.clone().ok_or(Error::BadInput {
            what: "document id",
            got: String::new(),
            expected: "a member _id",
        })?;
        Ok(DocEdit { id, draft, uploads: Vec::new() })
    }

    /// The deletion of revision `rev` of a document.
    pub fn deletion(id: &str, rev: Rev) -> Result<DocEdit> {
        let draft = Draft {
            id: None,
            path: RevPath::of(rev),
            deleted: true,
            body: Vec::new(),
            attachments: Vec::new(),
        };
        Ok(DocEdit { id: DocId::new(id)?, draft, uploads: Vec::new() })
    }
}

/// What a purge removed.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::Env;
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// let rev = db.edit(vec![DocEdit::parse("a", b"{}")?])?.remove(0)?;
/// let purged = db.purge(vec![("a".into(), vec![rev.clone()])])?;
/// assert_eq!(purged.removed, [vec![rev]]);
/// assert_eq!(db.snapshot()?.info().doc_count, 0);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    /// The purge sequence after it.
    pub purge_seq: u64,
    /// For each document asked for, the leaves that were there and went.
    pub removed: Vec<Vec<Rev>>,
}

/// Something that changes the database.
pub(crate) enum Request {
    Edit { parts: Vec<Prepared>, replicated: bool },
    Purge(Vec<(String, Vec<Rev>)>),
    RevsLimit(u32),
    PurgeInfosLimit(u64),
}

/// The answer to a [`Request`].
pub(crate) enum Reply {
    Edited(Vec<Result<Rev>>),
    Purged(Purged),
    Done,
}

/// Does what a group of requests asks; new roots if anything changed.
pub(crate) fn run(
    writer: &mut FileWriter,
    before: &Committed<DbRoots>,
    db: &Database,
    group: &[Request],
) -> Result<(Option<DbRoots>, Vec<Reply>)> {
    let mut editing = Editing {
        documents: load_documents(before, group)?,
        locals: BTreeMap::new(),
        purges: Vec::new(),
        roots: before.roots.clone(),
        touched: Vec::new(),
        body: Vec::new(),
        writer,
        before,
        options: &db.options,
        shapes: &db.shapes,
    };
    let replies: Result<Vec<Reply>> =
        group.iter().map(|request| editing.request(request)).collect();
    let replies = replies?;
    let mut roots = editing.finish()?;
    let changed = roots != before.roots || mark::planted("rejected-group-commits");
    roots.timelines.enter(db.timeline(), before.number() + 1);
    Ok((changed.then_some(roots), replies))
}

/// A document while a group works on it.
struct Slot<'g> {
    id: &'g str,
    /// Its sequence in the committed trees.
    stored_seq: Option<u64>,
    tree: DocTree,
    seq: u64,
    changed: bool,
    /// The tree before the present request merged replicated revisions into it.
    unmerged: Option<DocTree>,
}

/// Reads every document that the group names, in one descent; they come out by id, each once.
fn load_documents<'g>(before: &Committed<DbRoots>, group: &'g [Request]) -> Result<Vec<Slot<'g>>> {
    let mut ids: Vec<&'g str> = Vec::new();
    for request in group {
        match request {
            Request::Edit { parts, .. } => {
                let edits = parts.iter().flat_map(Prepared::edits);
                ids.extend(edits.map(|ready| ready.edit.id.as_str()).filter(|id| !is_local(id)));
            }
            Request::Purge(revisions) => ids.extend(revisions.iter().map(|(id, _)| id.as_str())),
            Request::RevsLimit(_) | Request::PurgeInfosLimit(_) => {}
        }
    }
    ids.sort_unstable();
    ids.dedup();
    let keys: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes()).collect();
    let values = before.roots.by_id.get_many(&before.nodes(), &keys)?;
    let slot = |(id, value): (&'g str, Option<Vec<u8>>)| {
        let (stored_seq, tree) = match value {
            Some(value) => {
                let Record { seq, tree } = Record::load(before, id.as_bytes(), &value)?;
                (Some(seq), tree)
            }
            None => (None, DocTree::default()),
        };
        let seq = stored_seq.unwrap_or_default();
        Ok(Slot { id, stored_seq, tree, seq, changed: false, unmerged: None })
    };
    ids.into_iter().zip(values).map(slot).collect()
}

fn is_local(id: &str) -> bool {
    id.starts_with("_local/")
}

struct Editing<'a> {
    /// The documents that the group names, by id.
    documents: Vec<Slot<'a>>,
    /// Local documents that changed: the new value, or `None` for a removal.
    locals: BTreeMap<String, Option<Vec<u8>>>,
    purges: Vec<(u64, PurgeEntry)>,
    roots: DbRoots,
    /// Documents that the present request changed, as places in `documents`.
    touched: Vec<usize>,
    /// The chunk of the body at hand; kept, so that a batch allocates it once.
    body: Vec<u8>,
    writer: &'a mut FileWriter,
    before: &'a Committed<DbRoots>,
    options: &'a DatabaseOptions,
    shapes: &'a Shapes,
}

impl Editing<'_> {
    fn request(&mut self, request: &Request) -> Result<Reply> {
        match request {
            Request::Edit { parts, replicated } => {
                let edits = parts.iter().flat_map(Prepared::edits);
                let replies = edits.map(|ready| for_this_edit(self.edit(ready, *replicated)));
                let replies = replies.collect::<Result<_>>()?;
                self.end_edits();
                Ok(Reply::Edited(replies))
            }
            Request::Purge(revisions) => Ok(Reply::Purged(self.purge(revisions))),
            Request::RevsLimit(limit) => {
                self.roots.revs_limit = *limit;
                Ok(self.setting_changed())
            }
            Request::PurgeInfosLimit(limit) => {
                self.roots.purge_infos_limit = *limit;
                Ok(self.setting_changed())
            }
        }
    }

    /// A setting takes a sequence, even one that is set to what it was.
    // spec: DB-12
    fn setting_changed(&mut self) -> Reply {
        if !mark::planted("setting-without-sequence") {
            self.roots.update_seq += 1;
        }
        Reply::Done
    }

    fn edit(&mut self, ready: Ready<'_>, replicated: bool) -> Result<Rev> {
        let edit = ready.edit;
        if edit.id.as_bytes().len() > self.options.tree.key_bytes_max {
            let size = edit.id.as_bytes().len() as u64;
            let limit = self.options.tree.key_bytes_max as u64;
            return Err(Error::TooLarge { what: "document id", size, limit });
        }
        if edit.id.is_local() {
            return self.edit_local(ready);
        }
        let (size, limit) = (ready.text.len() as u64, self.options.document_bytes_max);
        if size > limit {
            return Err(Error::TooLarge { what: "document", size, limit });
        }
        let place = self.place(edit.id.as_str());
        match replicated {
            true => self.merge(ready, place),
            false => self.edit_interactively(ready, place),
        }
    }

    // spec: DB-1, REVTREE-10
    fn edit_interactively(&mut self, ready: Ready<'_>, place: usize) -> Result<Rev> {
        let edit = ready.edit;
        let DocEdit { id, draft, .. } = edit;
        let tree = &self.documents[place].tree; // from `place`
        let named = draft.path.newest();
        let mut recreated = false;
        let parent = match tree.parent_for_edit(named.as_ref(), draft.deleted) {
            EditParent::First => None,
            EditParent::Rev(parent) => Some(parent),
            EditParent::Recreated(winner) => {
                recreated = true;
                Some(winner)
            }
            EditParent::Conflict if mark::planted("stale-edit-accepted") => named.clone(),
            EditParent::Conflict => {
                // A sequence that changes hands for a rejected edit would vanish from the feed.
                if mark::planted("rejected-edit-loses-its-sequence") {
                    self.touched.push(place);
                }
                return Err(Error::Conflict { id: id.as_str().to_string() });
            }
        };
        let generation = parent.as_ref().map_or(0, |parent| parent.generation) + 1;
        // A document written again counts as new: no stubs, and attachments of generation 1.
        let base = parent.as_ref().filter(|_| !recreated);
        let base_body = base.and_then(|base| tree.find(base)?.data.copied());
        let revpos = if recreated { 1 } else { generation };
        let attachments = self.resolve(edit, tree, base_body, Some(revpos))?;
        let records: Vec<Attachment> =
            attachments.iter().map(|resolved| resolved.attachment.clone()).collect();
        let rev = match &parent {
            _ if mark::planted("revision-id-depends-on-place") => {
                let mut body = ready.body()?.into_owned();
                body.push((String::new(), Json::unsigned(self.writer.file().size()?)));
                revision_id(draft.deleted, parent.as_ref(), &body, &records)
            }
            Some(winner) if recreated => {
                recreated_revision_id(winner, &ready.body()?, records.len())
            }
            parent if records.is_empty() && *parent == named => ready.guess().cloned(),
            parent => revision_id(draft.deleted, parent.as_ref(), &ready.body()?, &records),
        };
        let rev = rev.ok_or_else(|| Error::Conflict { id: id.as_str().to_string() })?;
        let known = self.store(ready, attachments)?;
        let mut ids = Vec::with_capacity(2);
        ids.push(rev.id.clone());
        ids.extend(parent.map(|parent| parent.id));
        self.change(place, |tree| tree.merge(&RevPath { start: generation, ids }, known))?;
        Ok(rev)
    }

    // spec: DB-2
    fn merge(&mut self, ready: Ready<'_>, place: usize) -> Result<Rev> {
        let edit = ready.edit;
        let draft = &edit.draft;
        let rev = draft.path.newest().ok_or(Error::BadInput {
            what: "revision",
            got: String::new(),
            expected: "a _rev or _revisions for a replicated document",
        })?;
        if mark::planted("second-revision-of-a-batch-conflicts") && self.touched.contains(&place) {
            return Err(Error::Conflict { id: edit.id.as_str().to_string() });
        }
        let tree = &self.documents[place].tree; // from `place`
        if tree.find(&rev).is_some_and(|found| found.data.is_some())
            && !mark::planted("known-revision-is-a-change")
        {
            let mut older = tree.clone();
            let known = tree.find(&rev).and_then(|found| found.data.copied());
            // Its ancestors may be news even so.
            if let Some(known) = known
                && !older.merge(&draft.path, known)?.changed
            {
                return Ok(rev);
            }
            self.remember_unmerged(place);
            self.change(place, |tree| {
                *tree = older;
                Ok(())
            })?;
            return Ok(rev);
        }
        let ancestor = draft.path.revs().skip(1).find_map(|rev| tree.find(&rev)?.data.copied());
        let attachments = self.resolve(edit, tree, ancestor, None)?;
        let known = self.store(ready, attachments)?;
        self.remember_unmerged(place);
        self.change(place, |tree| tree.merge(&draft.path, known))?;
        Ok(rev)
    }

    /// Keeps the tree of the document at `place` as it was before the request merges into it.
    fn remember_unmerged(&mut self, place: usize) {
        let slot = &mut self.documents[place]; // from `place`
        slot.unmerged.get_or_insert_with(|| slot.tree.clone());
    }

    /// Changes the revision tree of the document at `place`, which then gets a new sequence.
    fn change<T>(
        &mut self,
        place: usize,
        change: impl FnOnce(&mut DocTree) -> Result<T>,
    ) -> Result<()> {
        change(&mut self.documents[place].tree)?; // from `place`
        self.touched.push(place);
        Ok(())
    }

    /// Gives each document that the request changed its new sequence, in the order of their ids.
    /// Where stemming takes away all that a merge brought, nothing changed.
    // spec: DB-3, DB-5, REVTREE-4
    fn end_edits(&mut self) {
        let limit = self.roots.revs_limit;
        // Documents stand by id, so their places are in the order of their ids.
        self.touched.sort_unstable();
        self.touched.dedup();
        if mark::planted("sequences-in-reverse") {
            self.touched.reverse();
        }
        for place in self.touched.drain(..) {
            let slot = &mut self.documents[place]; // from `place`
            if !mark::planted("merged-trees-not-stemmed") {
                slot.tree.stem(limit);
            }
            let as_before = slot.unmerged.take().is_some_and(|before| before == slot.tree);
            let counts_anyway = mark::planted("merge-without-effect-takes-a-sequence")
                || mark::planted("known-revision-is-a-change");
            if as_before && !counts_anyway {
                mark::hit("merge-stemmed-away");
                continue;
            }
            self.roots.update_seq += 1;
            (slot.seq, slot.changed) = (self.roots.update_seq, true);
        }
    }

    // spec: DB-8
    fn purge(&mut self, revisions: &[(String, Vec<Rev>)]) -> Purged {
        let before = self.roots.update_seq;
        let mut removed = Vec::with_capacity(revisions.len());
        for (id, revs) in revisions {
            let place = self.place(id);
            let slot = &mut self.documents[place];
            let gone = slot.tree.purge(revs);
            if !gone.is_empty() {
                slot.changed = true;
                if !slot.tree.is_empty() {
                    self.roots.update_seq += 1;
                    slot.seq = self.roots.update_seq;
                }
            }
            removed.push(gone);
            self.roots.purge_seq += 1;
            let entry = PurgeEntry { id: id.clone(), revs: revs.clone() };
            self.purges.push((self.roots.purge_seq, entry));
        }
        let keeps = mark::planted("purge-keeps-its-sequence");
        if self.roots.update_seq == before && !revisions.is_empty() && !keeps {
            self.roots.update_seq += 1;
        }
        Purged { purge_seq: self.roots.purge_seq, removed }
    }

    /// Local documents know no conflict: revision `0-N` is followed by `0-(N+1)`, whatever is
    /// there. Attachments are left out, as CouchDB does.
    // spec: DB-9
    fn edit_local(&mut self, ready: Ready<'_>) -> Result<Rev> {
        let DocEdit { id, draft, .. } = ready.edit;
        if draft.deleted {
            if self.has_local(id.as_str())? {
                self.locals.insert(id.as_str().to_string(), None);
            }
            return Ok(local_rev(0));
        }
        let number = match draft.path.newest() {
            None => 1,
            Some(_) if mark::planted("local-revision-stays") => 1,
            Some(base) => local_number(&base)? + 1,
        };
        let (size, limit) = (ready.text.len() as u64, self.options.document_bytes_max);
        if size > limit {
            return Err(Error::TooLarge { what: "document", size, limit });
        }
        self.locals.insert(id.as_str().to_string(), Some(encode_local(number, ready.text)));
        Ok(local_rev(number))
    }

    fn has_local(&self, id: &str) -> Result<bool> {
        match self.locals.get(id) {
            Some(value) => Ok(value.is_some()),
            None => {
                let value = self.before.roots.local.get(&self.before.nodes(), id.as_bytes())?;
                Ok(value.is_some())
            }
        }
    }

    /// Where a document stands in `documents`.
    fn place(&self, id: &str) -> usize {
        // A sorted batch takes one document after the other.
        let next = self.touched.last().map_or(0, |place| place + 1);
        if self.documents.get(next).is_some_and(|slot| slot.id == id) {
            return next;
        }
        let found = self.documents.binary_search_by(|slot| slot.id.cmp(id));
        // Every document of the group was loaded before the first request ran.
        found.unwrap_or_else(|_| unreachable!("a document that the group does not name"))
    }
}

impl Editing<'_> {
    /// Turns what changed into edits of the trees.
    // spec: DB-5, DB-6
    fn finish(self) -> Result<DbRoots> {
        let Editing { documents, locals, purges, mut roots, writer, before, shapes, .. } = self;
        let mut rows = NewRows::default();
        for slot in documents.iter().filter(|slot| slot.changed) {
            let Slot { id, stored_seq, tree, seq, .. } = slot;
            if let Some(seq) = stored_seq
                && !mark::planted("old-sequence-stays")
            {
                rows.by_seq.push((seq_key(*seq), None));
            }
            if tree.is_empty() {
                rows.by_id.push((id, None));
                continue;
            }
            let leaves = tree.leaves();
            let entry = rows.value(|out| {
                put_seq_entry(out, id, &leaves);
                Ok(())
            })?;
            rows.by_seq.push((seq_key(*seq), Some(entry)));
            let record = rows.value(|out| put_whole_record(out, tree, &leaves, *seq, writer))?;
            rows.by_id.push((id, Some(record)));
        }
        let (by_id, by_seq) = rows.changes();
        let cache = &*before.cache;
        roots.by_id = roots.by_id.apply_changes(writer, cache, &shapes.by_id, by_id)?;
        roots.by_seq = roots.by_seq.apply_changes(writer, cache, &shapes.by_seq, by_seq)?;
        let edit = |(id, value)| Edit { key: String::into_bytes(id), value };
        let locals: Vec<Edit> = locals.into_iter().map(edit).collect();
        roots.local = roots.local.apply(writer, cache, &shapes.plain, &locals)?;
        let put = |(seq, entry): (u64, PurgeEntry)| Edit::put(seq_key(seq), entry.encode());
        let purges: Vec<Edit> = purges.into_iter().map(put).collect();
        roots.purges = roots.purges.apply(writer, cache, &shapes.plain, &purges)?;
        Ok(roots)
    }
}

/// Separates what is wrong with one edit from what stops the whole group.
fn for_this_edit(result: Result<Rev>) -> Result<Result<Rev>> {
    match result {
        Err(error) => match error.class() {
            ErrorClass::Conflict
            | ErrorClass::BadInput
            | ErrorClass::Missing
            | ErrorClass::Cancelled
            | ErrorClass::Limit => Ok(Err(error)),
            _ => Err(error),
        },
        done => Ok(done),
    }
}

fn local_rev(number: u64) -> Rev {
    Rev::new(0, RevId::from_bytes(number.to_string().into_bytes()))
}

/// N of revision `0-N`.
fn local_number(rev: &Rev) -> Result<u64> {
    let digits = std::str::from_utf8(rev.id.as_bytes()).ok();
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|_| rev.generation == 0);
    number.ok_or_else(|| Error::BadInput {
        what: "revision",
        got: rev.to_string(),
        expected: "0-N for a local document",
    })
}
