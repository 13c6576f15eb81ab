//! What the tests of documents have in common: a database that checks itself, and replication.

use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

use rereduce::Result;
use rereduce::db::{Change, Database, DatabaseOptions, DbSnapshot, DocEdit};
use rereduce::doc::{Attachment, AttachmentDraft, AttachmentSource, Document, Draft, RevStatus};
use rereduce::env::{Env, MemoryDisk};
use rereduce::vocabulary::{Direction, Json, KeyRange, Rev};

/// A database in memory, of small nodes and chunks; it must be sound when its test ends.
pub(crate) struct TestDb {
    pub(crate) disk: MemoryDisk,
    db: Option<Database>,
}

pub(crate) fn options() -> DatabaseOptions {
    let mut options = DatabaseOptions {
        attachment_chunk_bytes: 64,
        cache_bytes: 2000,
        ..DatabaseOptions::default()
    };
    options.tree.fan_out_max = 3;
    options
}

pub(crate) fn on(disk: &MemoryDisk) -> Env {
    Env { disk: Arc::new(disk.clone()), ..Env::memory() }
}

impl TestDb {
    pub(crate) fn new() -> TestDb {
        TestDb::open(MemoryDisk::new())
    }

    pub(crate) fn open(disk: MemoryDisk) -> TestDb {
        let db = Database::open(on(&disk), "db".as_ref(), options()).unwrap();
        TestDb { disk, db: Some(db) }
    }

    /// Closes and opens again.
    pub(crate) fn reopen(&mut self) {
        self.db.take().unwrap().close().unwrap();
        *self = TestDb::open(self.disk.clone());
    }

    pub(crate) fn snap(&self) -> DbSnapshot {
        self.snapshot().unwrap()
    }

    /// Writes one document; its revision.
    pub(crate) fn put(&self, id: &str, json: &str) -> Result<Rev> {
        self.edit(vec![DocEdit::parse(id, json.as_bytes())?])?.remove(0)
    }

    /// Merges one replicated revision, which names its path in `_revisions` or `_rev`.
    pub(crate) fn merge_one(&self, id: &str, json: &str) -> Result<Rev> {
        self.merge(vec![DocEdit::parse(id, json.as_bytes())?])?.remove(0)
    }

    pub(crate) fn delete(&self, id: &str, rev: &Rev) -> Result<Rev> {
        self.edit(vec![DocEdit::deletion(id, rev.clone())?])?.remove(0)
    }

    pub(crate) fn compact_now(&self) {
        self.compact(&mut || ControlFlow::Continue(())).unwrap();
    }

    pub(crate) fn feed(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        let visit = &mut |change| {
            changes.push(change);
            ControlFlow::Continue(())
        };
        self.snap().changes(0, Direction::Ascending, visit).unwrap();
        changes
    }

    /// The documents' ids and the sequences at which the feed shows them.
    pub(crate) fn seqs(&self) -> Vec<(String, u64)> {
        self.feed().into_iter().map(|change| (change.id, change.seq)).collect()
    }

    /// The ids of all documents, deleted ones included.
    pub(crate) fn ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        let visit = &mut |summary: rereduce::db::DocSummary| {
            ids.push(summary.id);
            ControlFlow::Continue(())
        };
        self.snap().all_docs(&KeyRange::all(), Direction::Ascending, visit).unwrap();
        ids
    }

    /// Every leaf as text, the winner first; a deleted one with `-` behind it.
    pub(crate) fn leaves(&self, id: &str) -> Vec<String> {
        let leaves = self.snap().leaves(id).unwrap();
        let text =
            |(rev, deleted): &(Rev, bool)| format!("{rev}{}", if *deleted { "-" } else { "" });
        leaves.iter().map(text).collect()
    }

    /// The paths of all leaves, each the newest revision first.
    pub(crate) fn paths(&self, id: &str) -> Vec<Vec<String>> {
        let opened = self.snap().open_revs(id, None, false).unwrap();
        let path = |document: &Document| document.path.revs().map(|rev| rev.to_string()).collect();
        opened.iter().flatten().map(path).collect()
    }

    /// The paths, or nothing for a document that is not there.
    pub(crate) fn paths_or_none(&self, id: &str) -> Vec<Vec<String>> {
        self.snap().summary(id).unwrap().map(|_| self.paths(id)).unwrap_or_default()
    }

    /// What is there of the revisions from `rev` back.
    pub(crate) fn statuses(&self, id: &str, rev: &Rev) -> Vec<RevStatus> {
        let info = self.snap().revs_info(id, rev).unwrap();
        info.into_iter().map(|(_, status)| status).collect()
    }

    pub(crate) fn content(&self, id: &str, rev: Option<&Rev>, name: &str) -> Result<Vec<u8>> {
        self.snap().attachment(id, rev, name)?.read_all()
    }

    pub(crate) fn sound(&self) {
        let snapshot = self.snap();
        let checked = snapshot.check().unwrap();
        assert!(checked.is_sound(), "{:?}", checked.violations);
        assert_eq!(self.ids().len(), self.feed().len(), "one entry each, by id and by sequence");
    }
}

impl Deref for TestDb {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.db.as_ref().unwrap()
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.db.is_some() {
            self.sound();
        }
    }
}

/// What a replicator does: asks `to` which leaves it misses, and brings them with their paths and
/// attachments.
pub(crate) fn replicate(from: &TestDb, to: &TestDb) {
    let (source, target) = (from.snap(), to.snap());
    let mut revisions = Vec::new();
    for change in from.feed() {
        let leaves: Vec<Rev> = change.leaves.iter().map(|(rev, _)| rev.clone()).collect();
        let missing = target.missing_revs(&change.id, &leaves).unwrap();
        for document in source.open_revs(&change.id, Some(&missing), false).unwrap() {
            revisions.push(sent(&source, document.unwrap()));
        }
    }
    to.merge(revisions).unwrap().into_iter().for_each(|merged| drop(merged.unwrap()));
}

/// A document as a replicator sends it.
fn sent(source: &DbSnapshot, document: Document) -> DocEdit {
    let rev = document.rev().unwrap();
    let inline = |attachment: &Attachment| AttachmentDraft {
        name: attachment.name.clone(),
        content_type: attachment.content_type.clone(),
        source: AttachmentSource::Inline {
            data: source
                .attachment(document.id.as_str(), Some(&rev), &attachment.name)
                .and_then(|content| content.read_all())
                .unwrap(),
            revpos: Some(attachment.revpos),
        },
    };
    let draft = Draft {
        id: None,
        path: document.path.clone(),
        deleted: document.deleted,
        attachments: document.attachments.iter().map(inline).collect(),
        body: document.body.clone(),
    };
    DocEdit { id: document.id, draft, uploads: Vec::new() }
}

/// The JSON of a replicated revision with this path (`"3-c b a"`), deleted if its id begins with x.
pub(crate) fn revision(path: &str) -> String {
    let (newest, older) = path.split_once(' ').unwrap_or((path, ""));
    let (start, id) = newest.split_once('-').unwrap();
    let ids = std::iter::once(id).chain(older.split(' ').filter(|id| !id.is_empty()));
    let ids: Vec<String> = ids.map(|id| format!("\"{id}\"")).collect();
    let deleted = id.starts_with('x');
    let ids = ids.join(",");
    format!(
        r#"{{"_revisions":{{"start":{start},"ids":[{ids}]}},"_deleted":{deleted},"v":"{newest}"}}"#
    )
}

/// Every order of `items`.
pub(crate) fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

pub(crate) fn rev(text: &str) -> Rev {
    text.parse().unwrap()
}

/// A document's own members as text.
pub(crate) fn body(document: Document) -> String {
    Json::Object(document.body).to_string()
}

/// Runs `check` with one planted bug and says whether it failed, as it must.
pub(crate) fn turns_red(bug: &'static str, check: impl Fn() + std::panic::UnwindSafe) -> bool {
    let before = rereduce::mark::plant(Some(bug));
    let outcome = std::panic::catch_unwind(check);
    rereduce::mark::plant(before);
    outcome.is_err()
}
