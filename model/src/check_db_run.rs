//! Plays one history against a document database and the model.
//!
//! Invariant: every answer is compared, and after whatever could lose data the whole state is.

mod check_reopen;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use rereduce::vocabulary::{Base, DbOp, DocEdit, Replica, Rev, Slot, Which};
use rereduce::{ErrorClass, Result as EngineResult};

use crate::check_db::{
    DbAttachment, DbDocument, DbEdit, DbEngine, DbHandle, DbReplica, DbView, DbWanted,
};
use crate::check_db_state::{self as whole, cut, known_document, open_document, same};
use crate::check_stop::{Stop, differs, may_fail};
use crate::db::{Attachment, Conflict, DbModel, Revision, State};
use crate::resolve::{body_text, content, replica_path, resolve, unknown};
use crate::verdict::{Mismatch, Report};

/// All that a revision's id may depend on: parent, deletion, body and attachments.
type Content = (Option<Rev>, Revision);

struct Run<'a> {
    engine: &'a dyn DbEngine,
    name: String,
    /// Gone only while a failed open waits to be repeated.
    handle: Option<Box<dyn DbHandle>>,
    model: DbModel,
    slots: BTreeMap<Slot, Box<dyn DbView>>,
    /// Which id the engine gave to which content, and back.
    ids: BTreeMap<Content, Rev>,
    contents: BTreeMap<Rev, Content>,
    /// States that failed writes may have left; batches of edits wait for the engine's ids.
    in_doubt: Vec<State>,
    edits_in_doubt: Vec<Vec<(DocEdit, Option<Rev>, Revision)>>,
    /// The model's state for each of the engine's commit numbers.
    numbers: BTreeMap<u64, usize>,
    /// Commits with smaller numbers may have been compacted away.
    floor: u64,
    /// The smallest number of purges that a compaction may have kept.
    purges_kept: u64,
    /// A failed compaction may or may not have dropped the bodies of old revisions.
    bodies_in_doubt: bool,
    /// Every local document that was ever written.
    locals: BTreeSet<String>,
    /// Whether a fault was armed since the last open: errors are explained by it.
    armed: bool,
}

pub(crate) fn run(
    engine: &dyn DbEngine,
    ops: &[DbOp],
    report: &mut Report,
) -> Result<(), Mismatch> {
    static DATABASES: AtomicU64 = AtomicU64::new(0);
    let name = format!("database-{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    engine.fail_disk(None);
    engine.remove(&name).map_err(|error| Stop::from(error).at(0))?;
    let mut run = Run {
        engine,
        name: name.clone(),
        handle: None,
        model: DbModel::default(),
        slots: BTreeMap::new(),
        ids: BTreeMap::new(),
        contents: BTreeMap::new(),
        in_doubt: Vec::new(),
        edits_in_doubt: Vec::new(),
        numbers: BTreeMap::new(),
        floor: 0,
        purges_kept: u64::MAX,
        bodies_in_doubt: false,
        locals: BTreeSet::new(),
        armed: false,
    };
    run.open().map_err(|stop| stop.at(0))?;
    for (step, op) in ops.iter().enumerate() {
        report.count(op.kind());
        match run.step(op) {
            Ok(true) => {}
            Ok(false) => {
                *report.kinds.entry(op.kind()).or_default() -= 1;
                report.kinds.retain(|_, count| *count > 0);
                report.not_offered.insert(op.kind());
            }
            Err(Stop::Failed(error)) if run.armed && may_fail(&error) => {
                report.failed_by_fault += 1;
            }
            Err(stop) => return Err(stop.at(step)),
        }
    }
    engine.fail_disk(None);
    run.reopen(true).map_err(|stop| stop.at(ops.len()))?;
    drop(run);
    engine.remove(&name).map_err(|error| Stop::from(error).at(ops.len()))
}

impl Run<'_> {
    fn handle(&self) -> &dyn DbHandle {
        self.handle.as_deref().expect("a database is open between two operations")
    }

    /// Plays one operation; `false` if the engine does not offer it.
    fn step(&mut self, op: &DbOp) -> Result<bool, Stop> {
        match op {
            DbOp::Edit(edits) => self.edit(edits)?,
            DbOp::Merge(replicas) => self.merge(replicas)?,
            DbOp::Attach { id, base, name, media, seed, size } => {
                let content = content(*seed, *size);
                let attachment = Attachment { name: name.clone(), media: media.clone(), content };
                self.attach(id, *base, attachment)?;
            }
            DbOp::Get { id, which, at } => self.get(id, *which, *at)?,
            DbOp::Attachment { id, name, range, at } => {
                return self.attachment(id, name, *range, *at);
            }
            DbOp::PutLocal { id, body } => return self.put_local(id, *body),
            DbOp::ReadLocal { id, at } => {
                let Some(state) = self.model.state(*at) else { return Ok(true) };
                let Some(found) = self.view(*at)?.get().local(id) else { return Ok(false) };
                same(&state.locals.get(id), &found?.as_ref())?;
            }
            DbOp::Purge { id, base } => return self.purge(id, *base),
            DbOp::Purges => return self.purges(),
            DbOp::Changes { since, direction, limit, at } => {
                if let Some(state) = self.model.state(*at) {
                    let view = self.view(*at)?;
                    whole::compare_changes(state, view.get(), *since, *direction, *limit)?;
                }
            }
            DbOp::Info { at } => {
                if let Some(state) = self.model.state(*at) {
                    same(&state.counts(), &self.view(*at)?.get().counts()?)?;
                }
            }
            DbOp::RevsLimit(_) | DbOp::PurgeLimit(_) => return self.limit(op),
            DbOp::Snapshot(slot) => {
                let view = self.handle().view()?;
                self.slots.insert(*slot, view);
                self.model.snapshot(*slot);
            }
            DbOp::History { slot, back } => return self.history(*slot, *back),
            DbOp::Release(slot) => {
                self.slots.remove(slot);
                self.model.release(*slot);
            }
            DbOp::Compact => return self.compact(),
            DbOp::Reopen => self.reopen(true)?,
            DbOp::Crash => self.reopen(false)?,
            DbOp::Fault { calls } => {
                if !self.engine.fail_disk(Some(*calls)) {
                    return Ok(false);
                }
                self.armed = true;
            }
        }
        Ok(true)
    }

    fn view(&self, at: Option<Slot>) -> Result<View<'_>, Stop> {
        match at.and_then(|slot| self.slots.get(&slot)) {
            Some(view) => Ok(View::Open(&**view)),
            None => Ok(View::Now(self.handle().view()?)),
        }
    }

    fn edit(&mut self, edits: &[DocEdit]) -> Result<(), Stop> {
        let revision = |edit: &DocEdit| Revision {
            deleted: edit.body.is_none(),
            body: body_text(edit.body),
            attachments: Vec::new(),
        };
        let batch: Vec<_> = edits
            .iter()
            .map(|edit| {
                let base = resolve(self.model.newest(), &edit.id, edit.base);
                (edit.clone(), base, revision(edit), Vec::new())
            })
            .collect();
        self.write(batch)
    }

    fn attach(&mut self, id: &str, base: Base, attachment: Attachment) -> Result<(), Stop> {
        let state = self.model.newest();
        let rev = resolve(state, id, base);
        let known = state.documents.get(id).zip(rev.as_ref());
        let known = known.filter(|(document, rev)| document.leaves().contains(rev));
        let known = known.and_then(|(document, rev)| document.revisions.get(rev));
        let mut revision = known.cloned().unwrap_or_default();
        if revision.body.is_empty() {
            revision.body = body_text(None);
        }
        revision.deleted = false;
        revision.attachments.retain(|kept| kept.name != attachment.name);
        let stubs = revision.attachments.iter().map(|kept| kept.name.clone()).collect();
        revision.attachments.push(attachment);
        let edit = DocEdit { id: id.to_owned(), base, body: Some(0) };
        self.write(vec![(edit, rev, revision, stubs)])
    }

    /// Writes a batch of edits: each with what it is based on, what it writes, and the names of
    /// the attachments that it keeps.
    // spec: MODEL-7
    fn write(
        &mut self,
        batch: Vec<(DocEdit, Option<Rev>, Revision, Vec<String>)>,
    ) -> Result<(), Stop> {
        let edits: Vec<DbEdit> = batch
            .iter()
            .map(|(edit, base, revision, stubs)| DbEdit {
                id: edit.id.clone(),
                base: base.clone(),
                deleted: revision.deleted,
                body: revision.body.clone(),
                attachments: revision.attachments.iter().map(|kept| sent(kept, stubs)).collect(),
            })
            .collect();
        let results = match self.handle().edit(&edits) {
            Ok(results) => results,
            Err(error) => {
                if error.class() != ErrorClass::Refused {
                    let batch = batch.into_iter();
                    let batch = batch.map(|(edit, base, revision, _)| (edit, base, revision));
                    self.edits_in_doubt.push(batch.collect());
                }
                return Err(error.into());
            }
        };
        if results.len() != batch.len() {
            return Err(differs(format!("{} results", batch.len()), results.len()));
        }
        let mut next = self.model.next();
        for ((edit, base, revision, _), result) in batch.into_iter().zip(results) {
            // Later edits of a batch see what the earlier ones did.
            let accepted = next.accept(&edit.id, base.as_ref(), revision.deleted);
            match (accepted, result) {
                (Err(Conflict), Err(error)) if error.class() == ErrorClass::Conflict => {}
                (Err(Conflict), Ok(rev)) => return Err(differs("a conflict", rev)),
                (Err(Conflict), Err(error)) => return Err(differs("a conflict", error)),
                (Ok(parent), Ok(rev)) => {
                    let recreated = base.is_none() && parent.is_some();
                    self.note_id(&rev, parent.clone(), &revision, recreated)?;
                    next.edit(&edit.id, parent, rev, revision);
                }
                (Ok(_), Err(error)) => {
                    let id = &edit.id;
                    return Err(differs(format!("the edit of {id:?} to be accepted"), error));
                }
            }
        }
        self.committed(next)
    }

    /// Checks a revision id that the engine made: one generation further, and a function of the
    /// content alone. Where a tombstone is `recreated`, attachments count by their number only.
    // spec: MODEL-10
    fn note_id(
        &mut self,
        rev: &Rev,
        parent: Option<Rev>,
        made: &Revision,
        recreated: bool,
    ) -> Result<(), Stop> {
        let generation = parent.as_ref().map_or(0, |parent| parent.generation) + 1;
        same(&generation, &rev.generation)?;
        let mut content = (parent, made.clone());
        if recreated {
            let nameless =
                Attachment { name: String::new(), media: String::new(), content: Vec::new() };
            content.1.attachments.fill(nameless);
        }
        if let Some(first) = self.ids.get(&content) {
            same(first, rev)?;
        }
        if let Some(other) = self.contents.get(rev)
            && *other != content
        {
            return Err(differs("another id for other content", rev));
        }
        self.contents.insert(rev.clone(), content.clone());
        self.ids.insert(content, rev.clone());
        Ok(())
    }

    // spec: MODEL-8
    fn merge(&mut self, replicas: &[Replica]) -> Result<(), Stop> {
        let state = self.model.newest();
        let replicas: Vec<DbReplica> = replicas
            .iter()
            .map(|replica| DbReplica {
                id: replica.id.clone(),
                path: replica_path(state, replica),
                deleted: replica.body.is_none(),
                body: body_text(replica.body),
            })
            .filter(|replica| !replica.path.is_empty())
            .collect();
        let mut next = self.model.next();
        let batch = replicas.iter().cloned().map(|DbReplica { id, path, deleted, body }| {
            (id, path, Revision { deleted, body, attachments: Vec::new() })
        });
        next.merge_all(batch.collect());
        let merged = self.handle().merge(&replicas);
        self.written(merged, next)
    }

    fn put_local(&mut self, id: &str, body: Option<u64>) -> Result<bool, Stop> {
        let body = body.map(|body| body_text(Some(body)));
        self.locals.insert(id.to_owned());
        let Some(written) = self.handle().put_local(id, body.as_deref()) else { return Ok(false) };
        let mut next = self.model.next();
        match body {
            Some(body) => next.locals.insert(id.to_owned(), body),
            None => next.locals.remove(id),
        };
        self.written(written, next).map(|()| true)
    }

    // spec: MODEL-9
    fn purge(&mut self, id: &str, base: Base) -> Result<bool, Stop> {
        let revs: Vec<Rev> = resolve(self.model.newest(), id, base).into_iter().collect();
        let Some(purged) = self.handle().purge(id, &revs) else { return Ok(false) };
        let mut next = self.model.next();
        let expected = next.purge(id, &revs);
        if let Ok(purged) = &purged {
            same(&expected, purged)?;
        }
        self.written(purged.map(|_| ()), next).map(|()| true)
    }

    fn purges(&mut self) -> Result<bool, Stop> {
        let Some(found) = self.handle().purges() else { return Ok(false) };
        let found = found?;
        let state = self.model.newest();
        match self.are_purges_of(&found, state) {
            true => Ok(true),
            false => Err(differs(format!("{:?}", state.purges), format!("{found:?}"))),
        }
    }

    /// The engine may forget older purges at any time, but never the newest ones that the limit
    /// keeps.
    fn are_purges_of(&self, found: &[(String, Vec<Rev>)], state: &State) -> bool {
        let kept = self.purges_kept.min(state.purge_limit);
        let least = state.purges.len().min(usize::try_from(kept).unwrap_or(usize::MAX));
        found.len() >= least && state.purges.ends_with(found)
    }

    /// Whether everything that can be read is as in `state`.
    fn fits(&self, state: &State, view: &dyn DbView) -> Result<bool, Stop> {
        if whole::compare(state, view, &self.locals).is_err() {
            return Ok(false);
        }
        match self.handle().purges() {
            Some(found) => Ok(self.are_purges_of(&found?, state)),
            None => Ok(true),
        }
    }

    fn limit(&mut self, op: &DbOp) -> Result<bool, Stop> {
        let mut next = self.model.next();
        let set = match op {
            DbOp::RevsLimit(limit) => {
                next.revs_limit = *limit;
                self.handle().set_revs_limit(*limit)
            }
            DbOp::PurgeLimit(limit) => {
                next.purge_limit = *limit;
                self.purges_kept = self.purges_kept.min(*limit);
                self.handle().set_purge_limit(*limit)
            }
            _ => None,
        };
        let Some(set) = set else { return Ok(false) };
        self.written(set, next).map(|()| true)
    }

    /// `next` was written, or is in doubt.
    fn written(&mut self, written: EngineResult<()>, next: State) -> Result<(), Stop> {
        match written {
            Ok(()) => self.committed(next),
            Err(error) => {
                if error.class() != ErrorClass::Refused {
                    self.in_doubt.push(next);
                }
                Err(error.into())
            }
        }
    }

    fn committed(&mut self, next: State) -> Result<(), Stop> {
        let before = self.model.newest().clone();
        self.in_doubt.clear();
        self.edits_in_doubt.clear();
        self.model.commit(next);
        self.number(Some(&before))
    }

    /// Notes which state the engine's newest commit number stands for. A commit that keeps the
    /// number must have kept the state.
    fn number(&mut self, before: Option<&State>) -> Result<(), Stop> {
        let Some(number) = self.handle().commit_number() else { return Ok(()) };
        let newest = self.numbers.keys().next_back().copied();
        let changed = before.is_some_and(|before| !before.holds_the_same_as(self.model.newest()));
        if newest > Some(number) || newest == Some(number) && changed {
            let after = newest.unwrap_or(0);
            return Err(differs(format!("a commit number after {after}"), number));
        }
        self.numbers.insert(number, self.model.commits() - 1);
        Ok(())
    }

    fn get(&mut self, id: &str, which: Which, at: Option<Slot>) -> Result<(), Stop> {
        let Some(state) = self.model.state(at) else { return Ok(()) };
        let document = state.documents.get(id);
        let (wanted, revs) = match which {
            Which::Winner => {
                let live = document.filter(|document| !document.deleted());
                (
                    DbWanted::Winner,
                    live.and_then(|document| document.winner()).into_iter().collect(),
                )
            }
            Which::Leaves => {
                (DbWanted::Leaves, document.map_or_else(Vec::new, |document| document.leaves()))
            }
            Which::Rev(base) => {
                let rev = resolve(state, id, base).unwrap_or_else(unknown);
                (DbWanted::Rev(rev.clone()), vec![rev])
            }
            Which::Latest(base) => {
                let rev = resolve(state, id, base).unwrap_or_else(unknown);
                let latest = document.map_or_else(Vec::new, |document| document.latest(&rev));
                (DbWanted::Latest(rev), latest)
            }
        };
        let expected: Vec<DbDocument> = revs
            .iter()
            .filter_map(|rev| document.and_then(|document| known_document(document, rev)))
            .collect();
        let found = open_document(self.view(at)?.get(), id, &wanted)?;
        let dropped = self.bodies_in_doubt && at.is_none() && found.is_empty();
        if dropped && matches!(wanted, DbWanted::Rev(_)) {
            return Ok(());
        }
        same(&expected, &found)
    }

    fn attachment(
        &mut self,
        id: &str,
        name: &str,
        range: Option<(u64, u64)>,
        at: Option<Slot>,
    ) -> Result<bool, Stop> {
        let Some(state) = self.model.state(at) else { return Ok(true) };
        let document = state.documents.get(id);
        let rev = document.and_then(|document| document.winner());
        let revision =
            document.zip(rev.as_ref()).and_then(|(document, rev)| document.revisions.get(rev));
        let kept = revision.and_then(|kept| kept.attachments.iter().find(|kept| kept.name == name));
        let expected = kept.map(|kept| cut(&kept.content, range));
        let rev = rev.unwrap_or_else(unknown);
        match self.view(at)?.get().attachment(id, &rev, name, range) {
            None => return Ok(false),
            Some(Err(error)) if error.class() == ErrorClass::Missing => same(&expected, &None)?,
            Some(found) => same(&expected, &Some(found?))?,
        }
        Ok(true)
    }

    fn history(&mut self, slot: Slot, back: u64) -> Result<bool, Stop> {
        let index = back as usize % self.numbers.len().max(1);
        let Some((number, commit)) = self.numbers.iter().rev().nth(index) else {
            return Ok(false);
        };
        match self.handle().open_commit(*number) {
            None => return Ok(false),
            Some(Ok(view)) => {
                self.model.history(slot, *commit);
                self.slots.insert(slot, view);
                self.compare_whole(Some(slot))?;
            }
            Some(Err(error)) if error.class() == ErrorClass::Missing && *number < self.floor => {
                self.model.release(slot);
                self.slots.remove(&slot);
            }
            Some(Err(error)) => return Err(error.into()),
        }
        Ok(true)
    }

    fn compact(&mut self) -> Result<bool, Stop> {
        let Some(compacted) = self.handle().compact() else { return Ok(false) };
        // Even a compaction that failed may have dropped the older commits and bodies.
        self.floor = self.handle().commit_number().unwrap_or(0);
        self.purges_kept = self.purges_kept.min(self.model.newest().purge_limit);
        if let Err(error) = compacted {
            self.bodies_in_doubt = true;
            return Err(error.into());
        }
        self.bodies_in_doubt = false;
        let mut next = self.model.newest().clone();
        next.compact();
        self.model.commit(next);
        self.number(None)?;
        self.compare_slots()?;
        self.compare_whole(None)?;
        self.check()?;
        Ok(true)
    }

    fn check(&self) -> Result<(), Stop> {
        self.handle().check().unwrap_or(Ok(())).map_err(Stop::from)
    }

    fn compare_slots(&self) -> Result<(), Stop> {
        self.slots.keys().try_for_each(|slot| self.compare_whole(Some(*slot)))
    }

    fn compare_whole(&self, at: Option<Slot>) -> Result<(), Stop> {
        let Some(state) = self.model.state(at) else { return Ok(()) };
        whole::compare(state, self.view(at)?.get(), &self.locals)
    }
}

enum View<'a> {
    Open(&'a dyn DbView),
    Now(Box<dyn DbView>),
}

impl View<'_> {
    fn get(&self) -> &dyn DbView {
        match self {
            View::Open(view) => *view,
            View::Now(view) => &**view,
        }
    }
}

fn sent(attachment: &Attachment, stubs: &[String]) -> DbAttachment {
    let Attachment { name, media, content } = attachment.clone();
    let content = if stubs.contains(&name) { None } else { Some(content) };
    DbAttachment { name, media, content }
}
