//! The engine's `Database` as the model's checks and the explorer see it.
//!
//! Invariant: nodes are small, attachments lie in many chunks and the cache holds nothing unless a
//! workload asks otherwise, so that a few documents make trees of several levels.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rereduce::btree::{Rule, TreeOptions, Violation};
use rereduce::db::{Database, DatabaseOptions, DbRule, DbSnapshot, DocEdit};
use rereduce::doc::{Attachment, AttachmentDraft, AttachmentSource, Document, Encoding};
use rereduce::env::Env;
use rereduce::file::Protocol;
use rereduce::mark;
use rereduce::vocabulary::{Direction, Json, Rev, RevId, RevPath};
use rereduce::{Error, Result};
use rereduce_model::{DbChange, DbDocument, DbEdit, DbHandle, DbReplica, DbView, DbWanted};

use super::store::PROTOCOLS;

/// Opens `rereduce::db::Database`.
///
/// ```
/// use rereduce_crash_sim::DatabaseOpener;
/// let mut opener = DatabaseOpener::default();
/// opener.set("fan-out", "2").unwrap();
/// assert_eq!(opener.settings(), ["fan-out=2"]);
/// let env = rereduce::env::Env::memory();
/// assert_eq!(opener.open(&env, "db".as_ref())?.view()?.counts()?, (0, 0));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct DatabaseOpener {
    protocol: Protocol,
    fan_out_max: usize,
    cache_bytes: usize,
    attachment_chunk_bytes: usize,
}

const FAN_OUT_MAX: usize = 3;
const ATTACHMENT_CHUNK_BYTES: usize = 64;

impl Default for DatabaseOpener {
    fn default() -> DatabaseOpener {
        DatabaseOpener {
            protocol: Protocol::default(),
            fan_out_max: FAN_OUT_MAX,
            cache_bytes: 0,
            attachment_chunk_bytes: ATTACHMENT_CHUNK_BYTES,
        }
    }
}

impl DatabaseOpener {
    /// Sets `protocol`, `fan-out`, `cache` (bytes) or `chunk` (bytes of an attachment's chunk).
    ///
    /// # Errors
    ///
    /// A message for the user if there is no such option or value.
    pub fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
        let number = || value.parse().map_err(|_| format!("{key}={value}: not a number"));
        match key {
            "protocol" => {
                let found = PROTOCOLS.iter().find(|(name, _)| *name == value);
                let unknown = format!("protocol={value}: expected guide, barrier or verified");
                self.protocol = found.ok_or(unknown)?.1;
            }
            "fan-out" => self.fan_out_max = number()?,
            "cache" => self.cache_bytes = number()?,
            "chunk" => self.attachment_chunk_bytes = number()?,
            _ => return Err(format!("database has no option {key}")),
        }
        Ok(())
    }

    /// The options that differ from the default, as `KEY=VALUE`.
    pub fn settings(&self) -> Vec<String> {
        let mut settings = Vec::new();
        if self.protocol != Protocol::default() {
            let named = PROTOCOLS.iter().find(|(_, protocol)| *protocol == self.protocol);
            settings.push(format!("protocol={}", named.map_or("", |(name, _)| name)));
        }
        for (key, value, default) in [
            ("fan-out", self.fan_out_max, FAN_OUT_MAX),
            ("cache", self.cache_bytes, 0),
            ("chunk", self.attachment_chunk_bytes, ATTACHMENT_CHUNK_BYTES),
        ] {
            if value != default {
                settings.push(format!("{key}={value}"));
            }
        }
        settings
    }

    /// The options as the engine takes them.
    pub fn options(&self) -> DatabaseOptions {
        DatabaseOptions {
            protocol: self.protocol,
            tree: TreeOptions { fan_out_max: self.fan_out_max, ..TreeOptions::default() },
            cache_bytes: self.cache_bytes,
            attachment_chunk_bytes: self.attachment_chunk_bytes,
            ..DatabaseOptions::default()
        }
    }

    /// Opens the database at `path`, creating it if it is missing.
    ///
    /// # Errors
    ///
    /// Those of [`Database::open`].
    pub fn open(&self, env: &Env, path: &Path) -> Result<Box<dyn DbHandle>> {
        Ok(Box::new(self.open_writer(env, path)?))
    }

    pub(super) fn fan_out_max(&self) -> usize {
        self.fan_out_max
    }

    pub(super) fn open_writer(&self, env: &Env, path: &Path) -> Result<Handle> {
        Ok(Handle(Arc::new(Database::open(env.clone(), path, self.options())?)))
    }

    /// Opens the database at `path` as another process does that only reads.
    pub(super) fn open_reader(&self, env: &Env, path: &Path) -> Result<Handle> {
        Ok(Handle(Arc::new(Database::open_read_only(env.clone(), path, self.options())?)))
    }
}

pub(super) struct Handle(pub(super) Arc<Database>);

/// A compaction that copied everything and now stands still, until it is told to end or dropped.
///
/// It has a thread of its own; as that one waits whenever another one works, the disk sees one
/// order of calls only.
pub(super) struct StandingCompaction {
    go_on: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl StandingCompaction {
    /// Lets it catch up with what was written meanwhile, and swap.
    pub(super) fn finish(mut self) -> Result<()> {
        if let Some(go_on) = &self.go_on {
            // A thread that does not listen any more has failed, which joining it shows.
            let _ = go_on.send(());
        }
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        // Without a sender it is cancelled the next time it asks.
        self.go_on = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for StandingCompaction {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // It was cancelled, which is no news.
            let _ = self.join();
        }
    }
}

impl Handle {
    /// Edits of several writers in one group commit, each with its own results.
    pub(super) fn edit_together(&self, batches: &[Vec<DbEdit>]) -> Result<Vec<Vec<Result<Rev>>>> {
        let one = |batch: &Vec<DbEdit>| batch.iter().map(|one| edit(&self.0, one)).collect();
        let batches: Result<Vec<Vec<DocEdit>>> = batches.iter().map(one).collect();
        self.0.edit_together(batches?).into_iter().collect()
    }

    /// Begins a compaction and comes back once it stands still; `None` if there was nothing to do.
    pub(super) fn begin_compaction(&self) -> Result<Option<StandingCompaction>> {
        let (db, planted) = (self.0.clone(), mark::planted_here());
        let (copied, has_copied) = channel();
        let (go_on, may_go_on) = channel();
        let mut stood = false;
        let mut watch = move || {
            if !stood {
                stood = true;
                let _ = copied.send(());
                if may_go_on.recv().is_err() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let thread = std::thread::spawn(move || {
            mark::plant(planted);
            db.compact(&mut watch)
        });
        let mut standing = StandingCompaction { go_on: Some(go_on), thread: Some(thread) };
        match has_copied.recv() {
            Ok(()) => Ok(Some(standing)),
            // It ended by itself: there was nothing to copy, or it failed.
            Err(_) => standing.join().map(|()| None),
        }
    }
}

pub(super) struct View(pub(super) DbSnapshot);

/// An edit with its attachments as uploads, so that both ways in are used: what is short comes in
/// one piece, what is long in several.
fn edit(db: &Database, edit: &DbEdit) -> Result<DocEdit> {
    let mut made = DocEdit::parse(&edit.id, edit.body.as_bytes())?;
    made.draft.deleted = edit.deleted;
    made.draft.path = edit.base.clone().map(RevPath::of).unwrap_or_default();
    for attachment in &edit.attachments {
        let source = match &attachment.content {
            None => AttachmentSource::Stub { revpos: None, digest: None },
            Some(content) if content.len() % 2 == 0 => {
                AttachmentSource::Inline { data: content.clone(), revpos: None }
            }
            Some(content) => {
                let mut upload = db.upload(&attachment.name, &attachment.media);
                for piece in content.chunks(100) {
                    upload.write(piece)?;
                }
                made.uploads.push(upload.finish()?);
                AttachmentSource::Follows {
                    length: None,
                    encoding: Encoding::Identity,
                    revpos: None,
                    digest: None,
                }
            }
        };
        made.draft.attachments.push(AttachmentDraft {
            name: attachment.name.clone(),
            content_type: attachment.media.clone(),
            source,
        });
    }
    Ok(made)
}

impl DbHandle for Handle {
    fn view(&self) -> Result<Box<dyn DbView>> {
        Ok(Box::new(View(self.0.snapshot()?)))
    }

    fn edit(&self, edits: &[DbEdit]) -> Result<Vec<Result<Rev>>> {
        let edits: Result<Vec<DocEdit>> = edits.iter().map(|one| edit(&self.0, one)).collect();
        self.0.edit(edits?)
    }

    fn merge(&self, replicas: &[DbReplica]) -> Result<()> {
        let revision = |replica: &DbReplica| {
            let mut made = DocEdit::parse(&replica.id, replica.body.as_bytes())?;
            made.draft.deleted = replica.deleted;
            let start = replica.path.last().map_or(0, |rev| rev.generation);
            let ids = replica.path.iter().rev().map(|rev| rev.id.clone()).collect();
            made.draft.path = RevPath { start, ids };
            Ok(made)
        };
        let revisions: Result<Vec<DocEdit>> = replicas.iter().map(revision).collect();
        self.0.merge(revisions?)?.into_iter().try_for_each(|merged| merged.map(drop))
    }

    fn put_local(&self, id: &str, text: Option<&str>) -> Option<Result<()>> {
        let put = || {
            let mut made =
                DocEdit::parse(&format!("_local/{id}"), text.unwrap_or("{}").as_bytes())?;
            made.draft.deleted = text.is_none();
            match self.0.edit(vec![made])?.remove(0) {
                Err(Error::Missing { .. }) if text.is_none() => Ok(()),
                put => put.map(drop),
            }
        };
        Some(put())
    }

    fn purge(&self, id: &str, revs: &[Rev]) -> Option<Result<Vec<Rev>>> {
        let purged = self.0.purge(vec![(id.to_string(), revs.to_vec())]);
        Some(purged.map(|mut purged| purged.removed.remove(0)))
    }

    fn purges(&self) -> Option<Result<Vec<(String, Vec<Rev>)>>> {
        let purges = self.0.snapshot().and_then(|snapshot| snapshot.purges(0));
        Some(purges.map(|purges| purges.into_iter().map(|(_, id, revs)| (id, revs)).collect()))
    }

    fn set_revs_limit(&self, limit: u64) -> Option<Result<()>> {
        Some(self.0.set_revs_limit(limit as u32))
    }

    fn set_purge_limit(&self, limit: u64) -> Option<Result<()>> {
        Some(self.0.set_purge_infos_limit(limit))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }

    fn compact(&self) -> Option<Result<()>> {
        Some(self.0.compact(&mut || ControlFlow::Continue(())))
    }

    fn commit_number(&self) -> Option<u64> {
        self.0.snapshot().ok().map(|snapshot| snapshot.number())
    }

    fn open_commit(&self, number: u64) -> Option<Result<Box<dyn DbView>>> {
        let opened = self.0.snapshot_at(number);
        Some(opened.map(|snapshot| Box::new(View(snapshot)) as Box<dyn DbView>))
    }

    fn check(&self) -> Option<Result<()>> {
        let checked = self.0.snapshot().and_then(|snapshot| snapshot.check());
        Some(checked.and_then(|checked| {
            let damage = checked.violations.iter().find_map(|violation| match &violation.rule {
                DbRule::Damaged(error) => Some(error),
                DbRule::Tree(Violation { rule: Rule::Damaged(error), .. }) => Some(error),
                _ => None,
            });
            if let Some(error) = damage {
                return Err(error.clone());
            }
            assert!(checked.is_sound(), "rules broken: {:?}", checked.violations);
            Ok(())
        }))
    }
}

fn shown(document: Document) -> DbDocument {
    let attachment = |a: Attachment| (a.name, a.content_type, a.length);
    let mut history: Vec<Rev> = document.path.revs().collect();
    history.reverse();
    DbDocument {
        rev: document.rev().unwrap_or_else(|| Rev::new(0, RevId::from_bytes([]))),
        deleted: document.deleted,
        body: Json::Object(document.body).to_string(),
        history,
        attachments: document.attachments.into_iter().map(attachment).collect(),
    }
}

impl DbView for View {
    fn read(&self, id: &str, wanted: &DbWanted) -> Result<Vec<DbDocument>> {
        let one = |document: Result<Document>| Ok(vec![shown(document?)]);
        let missing = |rev: &Rev| Error::Missing { what: "revision", name: rev.to_string() };
        match wanted {
            DbWanted::Winner => match self.0.document(id, None) {
                Err(Error::Deleted { id }) => Err(Error::Missing { what: "document", name: id }),
                found => one(found),
            },
            DbWanted::Rev(rev) => one(self.0.document(id, Some(rev))),
            DbWanted::Leaves => {
                let opened = self.0.open_revs(id, None, false)?;
                opened
                    .into_iter()
                    .map(|leaf| leaf.map(shown).map_err(|rev| missing(&rev)))
                    .collect()
            }
            DbWanted::Latest(rev) => {
                let opened = self.0.open_revs(id, Some(std::slice::from_ref(rev)), true)?;
                if opened.iter().any(|leaf| leaf.is_ok()) {
                    let latest = self.0.latest(id, rev)?;
                    assert!(opened.contains(&Ok(latest)), "it is one of the leaves");
                }
                opened
                    .into_iter()
                    .map(|leaf| leaf.map(shown).map_err(|rev| missing(&rev)))
                    .collect()
            }
        }
    }

    fn changes(
        &self,
        since: u64,
        direction: Direction,
        limit: Option<u64>,
    ) -> Result<Vec<DbChange>> {
        let mut changes = Vec::new();
        let limit = limit.unwrap_or(u64::MAX);
        if limit == 0 {
            return Ok(changes);
        }
        self.0.changes(since, direction, &mut |change| {
            changes.push(DbChange {
                seq: change.seq,
                id: change.id.clone(),
                deleted: change.deleted(),
                winner: change.winner().clone(),
                leaves: change.leaves.iter().map(|(rev, _)| rev.clone()).collect(),
            });
            match (changes.len() as u64) < limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(changes)
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let info = self.0.info();
        Ok((info.doc_count, info.doc_del_count))
    }

    fn attachment(
        &self,
        id: &str,
        rev: &Rev,
        name: &str,
        range: Option<(u64, u64)>,
    ) -> Option<Result<Vec<u8>>> {
        let content = self.0.attachment(id, Some(rev), name);
        Some(content.and_then(|mut content| match range {
            Some((start, count)) => content.read_range(start..start.saturating_add(count)),
            None => content.read_all(),
        }))
    }

    fn local(&self, id: &str) -> Option<Result<Option<String>>> {
        let local = self.0.local(&format!("_local/{id}"));
        Some(local.map(|local| local.map(|local| Json::Object(local.body).to_string())))
    }

    fn locals(&self) -> Option<Result<BTreeMap<String, String>>> {
        let mut locals = BTreeMap::new();
        let listed = self.0.locals(&mut |local| {
            let id = local.id.trim_start_matches("_local/").to_owned();
            locals.insert(id, Json::Object(local.body).to_string());
            ControlFlow::Continue(())
        });
        Some(listed.map(|()| locals))
    }

    fn limits(&self) -> Option<(u64, u64)> {
        let info = self.0.info();
        Some((u64::from(info.revs_limit), info.purge_infos_limit))
    }
}
