//! The engine's `Database` as a target: operations and model are those of `rereduce-model`.
//!
//! Invariant: the state is all that can be read of the newest commit, in a form that does not say
//! which commit it was: documents count as changed in the order of the changes feed. A snapshot
//! that the workload holds must show what it showed first.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use rereduce::db::DbSnapshot;
use rereduce::doc::{AttachmentEncoder, recreated_revision_id, revision_id};
use rereduce::env::{Access, Env};
use rereduce::vocabulary::{Base, DbOp, Direction, DocEdit, Json, Replica, Rev, Slot};
use rereduce::{Error, ErrorClass, Result};
use rereduce_model::{
    Attachment, DbAttachment, DbDocument, DbEdit, DbHandle, DbReplica, DbView, DbWanted, Document,
    Revision, Seeded, State, body_text, compare_db, content, db_history, replica_path, resolve,
    simpler_db,
};

use super::database::{DatabaseOpener, Handle, StandingCompaction, View};
use super::indexed::Indexed;
use super::step::DbStep;
use crate::target::Target;

/// One in so many generated workloads asks the views.
const QUERY_EVERY: u64 = 4;

/// The database under test.
///
/// ```
/// use rereduce_crash_sim::{DatabaseTarget, Target};
/// let target = DatabaseTarget::default();
/// let once = target.expect(&target.empty(), &"edit a@new=1".parse().unwrap());
/// assert_eq!(once.0.counts(), (1, 0));
/// // What is based on nothing conflicts with what is there.
/// assert_eq!(target.expect(&once, &"edit a@new=2".parse().unwrap()), once);
/// ```
#[derive(Clone, Default)]
pub struct DatabaseTarget(pub DatabaseOpener);

/// An open database, with the snapshots that the workload holds.
pub struct OpenDatabase {
    env: Env,
    path: PathBuf,
    /// Ends before the engine does, as it works on it.
    compaction: Option<StandingCompaction>,
    /// The index of the views, once it was asked for; ends before the engine does, too.
    indexed: Option<Indexed>,
    /// Whether somebody has looked for an index that was there before.
    looked: Cell<bool>,
    engine: Option<Handle>,
    /// Another process that only reads, and stays.
    reader: Option<Handle>,
    /// The states that steps which failed on the disk would have left: one may be in the file, and
    /// then readers see it, though the writer never shows it.
    doubts: Vec<DatabaseState>,
    slots: BTreeMap<Slot, (Box<dyn DbView>, DatabaseState)>,
}

/// All that can be read, as the model holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseState(pub State);

impl fmt::Debug for DatabaseState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { documents, locals, purges, revs_limit, purge_limit, .. } = &self.0;
        out.write_str("{")?;
        for (id, document) in documents {
            write!(out, "{id:?} (change {}):", document.changed)?;
            for path in &document.paths {
                for rev in path {
                    write!(out, " {rev}")?;
                    if let Some(revision) = document.revisions.get(rev) {
                        let deleted = if revision.deleted { "deleted " } else { "" };
                        let body: String = revision.body.chars().take(40).collect();
                        write!(out, " [{deleted}{body}")?;
                        for Attachment { name, content, .. } in &revision.attachments {
                            write!(out, " {name}: {} bytes", content.len())?;
                        }
                        out.write_str("]")?;
                    }
                }
                out.write_str(",")?;
            }
            out.write_str(" ")?;
        }
        write!(out, "local {locals:?} purged {purges:?} limits {revs_limit} {purge_limit}}}")
    }
}

impl DatabaseState {
    /// The same, with the changes numbered in their order.
    fn numbered(state: &State) -> DatabaseState {
        let order: Vec<String> =
            state.changes().into_values().flatten().map(str::to_owned).collect();
        let mut numbered = State::default();
        numbered.locals.clone_from(&state.locals);
        numbered.purges.clone_from(&state.purges);
        (numbered.revs_limit, numbered.purge_limit) = (state.revs_limit, state.purge_limit);
        for (number, id) in (1..).zip(order) {
            numbered.begin();
            let mut document = state.documents[&id].clone();
            document.changed = number;
            numbered.documents.insert(id, document);
        }
        DatabaseState(numbered)
    }
}

/// An edit with everything that it stands for: what it is based on, what it writes, and which of
/// its attachments it keeps.
struct Planned {
    id: String,
    base: Option<Rev>,
    revision: Revision,
    stubs: BTreeSet<String>,
}

/// What a batch of edits writes if the documents are as in `state`.
fn planned_batch(state: &State, edits: &[DocEdit]) -> Vec<Planned> {
    let plan = |edit: &DocEdit| {
        let base = resolve(state, &edit.id, edit.base);
        let (deleted, body) = (edit.body.is_none(), body_text(edit.body));
        let revision = Revision { deleted, body, attachments: Vec::new() };
        Planned { id: edit.id.clone(), base, revision, stubs: BTreeSet::new() }
    };
    edits.iter().map(plan).collect()
}

/// What `op` writes if the documents are as in `state`; nothing for other operations.
fn planned(state: &State, op: &DbOp) -> Vec<Planned> {
    match op {
        DbOp::Edit(edits) => planned_batch(state, edits),
        DbOp::Attach { id, base, name, media, seed, size } => {
            let attachment = Attachment {
                name: name.clone(),
                media: media.clone(),
                content: content(*seed, *size),
            };
            vec![attached(state, id, *base, attachment)]
        }
        _ => Vec::new(),
    }
}

/// The edit that gives a leaf one more attachment and keeps the others.
fn attached(state: &State, id: &str, base: Base, attachment: Attachment) -> Planned {
    let base = resolve(state, id, base);
    let known = state.documents.get(id).zip(base.as_ref());
    let leaf = known.filter(|(document, rev)| document.leaves().contains(rev));
    let revision = leaf.and_then(|(document, rev)| document.revisions.get(rev));
    let mut revision = revision.cloned().unwrap_or_default();
    if revision.body.is_empty() {
        revision.body = body_text(None);
    }
    revision.deleted = false;
    revision.attachments.retain(|kept| kept.name != attachment.name);
    let stubs = revision.attachments.iter().map(|kept| kept.name.clone()).collect();
    revision.attachments.push(attachment);
    revision.attachments.sort();
    Planned { id: id.to_owned(), base, revision, stubs }
}

/// Makes the edits of one batch that are accepted.
fn accept_batch(next: &mut State, batch: Vec<Planned>) {
    for edit in batch {
        let deletes = edit.revision.deleted;
        let Ok(parent) = next.accept(&edit.id, edit.base.as_ref(), deletes) else { continue };
        if let Some(rev) = made(next, &edit.id, parent.as_ref(), &edit) {
            next.edit(&edit.id, parent, rev, edit.revision);
        }
    }
}

/// The revision that an accepted edit makes. Ids are a function of the content alone, which
/// CouchDB's recordings and `check_db` check; here the engine's function only names revisions.
fn made(state: &State, id: &str, parent: Option<&Rev>, edit: &Planned) -> Option<Rev> {
    let revision = &edit.revision;
    let body = match Json::parse(revision.body.as_bytes()) {
        Ok(Json::Object(members)) => members,
        _ => Vec::new(),
    };
    let recreated = edit.base.is_none() && state.documents.contains_key(id);
    if let Some(winner) = parent.filter(|_| recreated) {
        return recreated_revision_id(winner, &body, revision.attachments.len());
    }
    let encoded = |attachment: &Attachment| {
        let mut stored = Vec::new();
        let mut encoder = AttachmentEncoder::new(&*attachment.name, &*attachment.media);
        encoder.write(&attachment.content, &mut stored);
        encoder.finish(1, &mut stored)
    };
    let attachments: Vec<_> = revision.attachments.iter().map(encoded).collect();
    revision_id(revision.deleted, parent, &body, &attachments)
}

fn replica(state: &State, replica: &Replica) -> Option<DbReplica> {
    let path = replica_path(state, replica);
    let (deleted, body) = (replica.body.is_none(), body_text(replica.body));
    (!path.is_empty()).then(|| DbReplica { id: replica.id.clone(), path, deleted, body })
}

/// Everything that a view shows.
fn read(view: &dyn DbView) -> Result<State> {
    let changes = view.changes(0, Direction::Ascending, None)?;
    let mut state = State::default();
    if let Some((revs, purges)) = view.limits() {
        (state.revs_limit, state.purge_limit) = (revs, purges);
    }
    state.locals = view.locals().transpose()?.unwrap_or_default();
    for (number, change) in (1..).zip(changes) {
        state.begin();
        let document = Document { changed: number, ..read_document(view, &change.id)? };
        state.documents.insert(change.id, document);
    }
    Ok(state)
}

fn read_document(view: &dyn DbView, id: &str) -> Result<Document> {
    let mut document = Document::default();
    for leaf in view.read(id, &DbWanted::Leaves)? {
        document.paths.insert(leaf.history.clone());
        let revision = read_revision(view, id, &leaf)?;
        document.revisions.insert(leaf.rev, revision);
    }
    for rev in document.old() {
        match view.read(id, &DbWanted::Rev(rev.clone())) {
            Ok(found) => {
                for known in found {
                    let revision = read_revision(view, id, &known)?;
                    document.revisions.insert(rev.clone(), revision);
                }
            }
            Err(error) if error.class() == ErrorClass::Missing => {}
            Err(error) => return Err(error),
        }
    }
    Ok(document)
}

fn read_revision(view: &dyn DbView, id: &str, document: &DbDocument) -> Result<Revision> {
    let mut attachments = Vec::new();
    for (name, media, _) in &document.attachments {
        let content = view.attachment(id, &document.rev, name, None).unwrap_or(Ok(Vec::new()))?;
        attachments.push(Attachment { name: name.clone(), media: media.clone(), content });
    }
    attachments.sort();
    Ok(Revision { deleted: document.deleted, body: document.body.clone(), attachments })
}

/// A planned edit as it is sent to the engine.
fn sent(planned: Planned) -> DbEdit {
    let attachment = |Attachment { name, media, content }| {
        let content = (!planned.stubs.contains(&name)).then_some(content);
        DbAttachment { name, media, content }
    };
    DbEdit {
        id: planned.id,
        base: planned.base,
        deleted: planned.revision.deleted,
        body: planned.revision.body,
        attachments: planned.revision.attachments.into_iter().map(attachment).collect(),
    }
}

/// Whether an edit had to conflict shows in the state; everything else went wrong.
fn conflicts_are_answers(results: impl IntoIterator<Item = Result<Rev>>) -> Result<()> {
    for result in results {
        match result {
            Err(error) if error.class() != ErrorClass::Conflict => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl OpenDatabase {
    fn engine(&self) -> Result<&Handle> {
        self.engine.as_ref().ok_or_else(|| Error::Closed { path: self.path.clone() })
    }

    /// Compacts, or ends the compaction that stands still.
    fn compact(&mut self) -> Result<()> {
        match self.compaction.take() {
            Some(standing) => standing.finish(),
            None => self.engine()?.compact().unwrap_or(Ok(())),
        }
    }

    /// The documents named by an operation, as they are now.
    fn documents<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Result<State> {
        let view = self.engine()?.view()?;
        let mut state = State::default();
        for id in ids {
            let document = read_document(&*view, id)?;
            if !document.paths.is_empty() {
                state.documents.insert(id.to_owned(), document);
            }
        }
        Ok(state)
    }

    fn write(&self, op: &DbOp, state: &State) -> Result<()> {
        let edits: Vec<DbEdit> = planned(state, op).into_iter().map(sent).collect();
        conflicts_are_answers(self.engine()?.edit(&edits)?)
    }

    /// The writers ask for the revisions that they are based on, all of them, and then meet.
    fn write_together(&self, writers: &[Vec<DocEdit>]) -> Result<()> {
        let state = self.documents(writers.iter().flatten().map(|edit| &*edit.id))?;
        let batch =
            |edits: &Vec<DocEdit>| planned_batch(&state, edits).into_iter().map(sent).collect();
        let batches: Vec<Vec<DbEdit>> = writers.iter().map(batch).collect();
        let results = self.engine()?.edit_together(&batches)?;
        conflicts_are_answers(results.into_iter().flatten())
    }

    fn hold(&mut self, slot: Slot, view: Box<dyn DbView>) -> Result<()> {
        let shown = DatabaseState::numbered(&read(&*view)?);
        self.slots.insert(slot, (view, shown));
        Ok(())
    }

    fn history(&mut self, slot: Slot, back: u64) -> Result<()> {
        let Some(newest) = self.engine()?.commit_number() else { return Ok(()) };
        match self.engine()?.open_commit(newest.saturating_sub(back)) {
            Some(Ok(view)) => self.hold(slot, view),
            // Compacted away, or from before the first commit.
            Some(Err(error)) if error.class() == ErrorClass::Missing => Ok(()),
            Some(Err(error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// The documents of a state, as an index of it may have seen them.
fn of_snapshot(snapshot: &DbSnapshot) -> Result<State> {
    read(&View(snapshot.clone()))
}

/// Everything that the newest commit shows.
fn whole(database: &Handle) -> Result<DatabaseState> {
    let mut state = read(&*database.view()?)?;
    state.purges = database.purges().transpose()?.unwrap_or_default();
    Ok(DatabaseState::numbered(&state))
}

impl DatabaseTarget {
    fn take(&self, handle: &mut OpenDatabase, step: &DbStep) -> Result<()> {
        let op = match step {
            DbStep::Writers(writers) => return handle.write_together(writers),
            DbStep::Compacting => {
                if handle.compaction.is_none() {
                    handle.compaction = handle.engine()?.begin_compaction()?;
                }
                return Ok(());
            }
            DbStep::Reader => {
                handle.reader = Some(self.0.open_reader(&handle.env, &handle.path)?);
                return Ok(());
            }
            DbStep::Query => return self.indexed(handle)?.query(&of_snapshot),
            DbStep::CompactViews => return self.indexed(handle)?.compact(),
            DbStep::Op(op) => op,
        };
        match op {
            DbOp::Edit(edits) => {
                let state = handle.documents(edits.iter().map(|edit| &*edit.id))?;
                handle.write(op, &state)?;
            }
            DbOp::Attach { id, .. } => handle.write(op, &handle.documents([&**id])?)?,
            DbOp::Merge(replicas) => {
                let state = handle.documents(replicas.iter().map(|replica| &*replica.id))?;
                let replicas = replicas.iter().filter_map(|one| replica(&state, one));
                handle.engine()?.merge(&replicas.collect::<Vec<_>>())?;
            }
            DbOp::PutLocal { id, body } => {
                let body = body.map(|body| body_text(Some(body)));
                handle.engine()?.put_local(id, body.as_deref()).unwrap_or(Ok(()))?;
            }
            DbOp::Purge { id, base } => {
                let revs: Vec<Rev> =
                    resolve(&handle.documents([&**id])?, id, *base).into_iter().collect();
                handle.engine()?.purge(id, &revs).unwrap_or(Ok(Vec::new()))?;
            }
            DbOp::RevsLimit(limit) => {
                handle.engine()?.set_revs_limit(*limit).unwrap_or(Ok(()))?;
            }
            DbOp::PurgeLimit(limit) => {
                handle.engine()?.set_purge_limit(*limit).unwrap_or(Ok(()))?;
            }
            DbOp::Snapshot(slot) => {
                let view = handle.engine()?.view()?;
                handle.hold(*slot, view)?;
            }
            DbOp::History { slot, back } => handle.history(*slot, *back)?,
            DbOp::Release(slot) => drop(handle.slots.remove(slot)),
            DbOp::Compact => handle.compact()?,
            DbOp::Reopen | DbOp::Crash => {
                handle.slots.clear();
                handle.compaction = None;
                if let (Some(indexed), DbOp::Reopen) = (handle.indexed.take(), op) {
                    indexed.close()?;
                }
                if let (Some(engine), DbOp::Reopen) = (handle.engine.take(), op) {
                    Box::new(engine).close()?;
                }
                handle.engine = Some(self.0.open_writer(&handle.env, &handle.path)?);
                handle.looked.set(false);
            }
            // The whole state is read after every operation; the disk fails by plan only.
            _ => {}
        }
        Ok(())
    }

    /// The index of the views, which is opened if it is not.
    fn indexed<'a>(&self, handle: &'a mut OpenDatabase) -> Result<&'a Indexed> {
        let indexed = match handle.indexed.take() {
            Some(indexed) => indexed,
            None => self.open_index(handle, Access::Write)?,
        };
        Ok(handle.indexed.insert(indexed))
    }

    fn open_index(&self, handle: &OpenDatabase, access: Access) -> Result<Indexed> {
        let (db, fan_out_max) = (&handle.engine()?.0, self.0.fan_out_max());
        Indexed::open(db, &handle.env, &handle.path, fan_out_max, access)
    }

    /// Checks the index that the workload uses, or one that it found.
    fn check_index(&self, handle: &OpenDatabase) -> std::result::Result<(), String> {
        if let Some(indexed) = &handle.indexed {
            return indexed.check(&of_snapshot);
        }
        let failed = |error: Error| error.to_string();
        let found = !handle.looked.replace(true)
            && Indexed::is_beside(&handle.env, &handle.path).map_err(failed)?;
        match found {
            true => self.open_index(handle, Access::Read).map_err(failed)?.check(&of_snapshot),
            false => Ok(()),
        }
    }
}

impl Target for DatabaseTarget {
    type Op = DbStep;
    type State = DatabaseState;
    type Handle = OpenDatabase;

    fn name(&self) -> &'static str {
        "db"
    }

    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
        self.0.set(key, value)
    }

    fn settings(&self) -> Vec<String> {
        self.0.settings()
    }

    fn open(&self, env: &Env, path: &Path) -> Result<OpenDatabase> {
        let engine = Some(self.0.open_writer(env, path)?);
        let (env, path, slots) = (env.clone(), path.to_path_buf(), BTreeMap::new());
        let (compaction, indexed, reader) = (None, None, None);
        let (looked, doubts) = (Cell::new(false), Vec::new());
        Ok(OpenDatabase { env, path, compaction, indexed, looked, engine, reader, doubts, slots })
    }

    fn apply(&self, handle: &mut OpenDatabase, step: &DbStep) -> Result<()> {
        let done = self.take(handle, step);
        match &done {
            // What is refused never reaches the disk.
            Err(error) if error.class() != ErrorClass::Refused => {
                if let Ok(before) = self.state(handle) {
                    handle.doubts.push(self.expect(&before, step));
                }
            }
            _ => {}
        }
        done
    }

    fn state(&self, handle: &OpenDatabase) -> Result<DatabaseState> {
        whole(handle.engine()?)
    }

    fn check(&self, handle: &OpenDatabase) -> std::result::Result<(), String> {
        let failed = |error: Error| error.to_string();
        let engine = handle.engine().map_err(failed)?;
        engine.check().unwrap_or(Ok(())).map_err(failed)?;
        // The feed, the counts and the winners must agree with the documents.
        let view = engine.view().map_err(failed)?;
        let newest = read(&*view).map_err(failed)?;
        compare_db(&newest, &*view)?;
        self.check_index(handle)?;
        if let Some(reader) = &handle.reader {
            let seen = whole(reader).map_err(failed)?;
            let newest = whole(engine).map_err(failed)?;
            if seen != newest && !handle.doubts.contains(&seen) {
                return Err(format!("a reader beside the writer sees {seen:?}, not {newest:?}"));
            }
        }
        for (slot, (view, shown)) in &handle.slots {
            let shows = read(&**view).map_err(|error| format!("snapshot {slot}: {error}"))?;
            let shows = DatabaseState::numbered(&shows);
            if shows != *shown {
                return Err(format!("snapshot {slot} showed {shown:?} and now {shows:?}"));
            }
        }
        Ok(())
    }

    fn empty(&self) -> DatabaseState {
        DatabaseState(State::default())
    }

    fn expect(&self, state: &DatabaseState, step: &DbStep) -> DatabaseState {
        let mut next = state.0.clone();
        let op = match step {
            DbStep::Writers(writers) => {
                for edits in writers {
                    // Each writer's changes count as its own, though the commit is one.
                    next.begin();
                    accept_batch(&mut next, planned_batch(&state.0, edits));
                }
                return DatabaseState::numbered(&next);
            }
            DbStep::Op(op) => op,
            _ => return state.clone(),
        };
        next.begin();
        match op {
            DbOp::Edit(_) | DbOp::Attach { .. } => accept_batch(&mut next, planned(&state.0, op)),
            DbOp::Merge(replicas) => {
                let replicas = replicas.iter().filter_map(|one| replica(&state.0, one));
                let batch = replicas.map(|DbReplica { id, path, deleted, body }| {
                    (id, path, Revision { deleted, body, attachments: Vec::new() })
                });
                next.merge_all(batch.collect());
            }
            DbOp::PutLocal { id, body: Some(body) } => {
                next.locals.insert(id.clone(), body_text(Some(*body)));
            }
            DbOp::PutLocal { id, body: None } => drop(next.locals.remove(id)),
            DbOp::Purge { id, base } => {
                let revs: Vec<Rev> = resolve(&state.0, id, *base).into_iter().collect();
                next.purge(id, &revs);
            }
            DbOp::RevsLimit(limit) => next.revs_limit = *limit,
            DbOp::PurgeLimit(limit) => next.purge_limit = *limit,
            DbOp::Compact => next.compact(),
            _ => {}
        }
        DatabaseState::numbered(&next)
    }

    fn generate(&self, count: usize, seed: u64) -> Vec<DbStep> {
        let mut choices = Seeded::new(seed);
        let reads = |op: &DbOp| {
            matches!(
                op,
                DbOp::Get { .. }
                    | DbOp::Attachment { .. }
                    | DbOp::ReadLocal { .. }
                    | DbOp::Purges
                    | DbOp::Changes { .. }
                    | DbOp::Info { .. }
            )
        };
        let mut ops = Vec::new();
        while ops.len() < count {
            let history = db_history(&mut choices, false, 1, false).into_iter();
            ops.extend(history.filter(|op| !reads(op)).map(DbStep::Op));
        }
        // Now and then the views are asked in the end.
        if seed.is_multiple_of(QUERY_EVERY) {
            ops.push(DbStep::Query);
        }
        ops
    }

    fn simpler(&self, step: &DbStep) -> Vec<DbStep> {
        match step {
            DbStep::Op(op) => simpler_db(op).into_iter().map(DbStep::Op).collect(),
            DbStep::Writers(writers) => {
                let fewer = |index| {
                    let mut writers = writers.clone();
                    writers.remove(index);
                    writers
                };
                let fewer = (0..writers.len()).map(fewer).filter(|fewer| !fewer.is_empty());
                fewer.map(DbStep::Writers).collect()
            }
            _ => Vec::new(),
        }
    }
}
