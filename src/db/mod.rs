//! The database: documents with revision trees, attachments, local documents and purges.
//!
//! ```text
//!   edit, merge, purge ──► commit queue ──► one group ──► trees ──► one commit, one flush
//!                                                           │
//!   by_id  id  -> record ──► revision tree ──► body ──► attachment data
//!   by_seq seq -> id, leaves                      (each document once, at its newest sequence)
//! ```
//!
//! Rooms: `record` (stored forms), `roots` (what a commit says), `load` (reading them), `edit`
//! (what a group of requests does), `prepare` (what need not wait for a group), `attach`
//! (attachments on their way in), `snapshot` and `content` (reading), `changes` (the feed),
//! `compact`, `check`, `chunks` (what of the file a commit uses), `timeline` (which states a
//! database descends from).
//!
//! Invariant: every document has exactly one entry in by_id and one in by_seq, they agree about
//! its leaves, and no sequence is above the update sequence.

mod attach;
mod changes;
mod check;
mod chunks;
mod compact;
mod content;
mod edit;
mod load;
mod prepare;
mod record;
mod roots;
mod snapshot;
mod timeline;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use attach::{Upload, Uploaded};
pub use changes::{Change, Changes, ChangesOptions};
pub use check::{DbChecked, DbRule, DbViolation};
pub use chunks::{ChunkKind, UsedChunk};
pub use content::AttachmentContent;
pub use edit::{DocEdit, Purged};
pub use roots::DocCounts;
pub use snapshot::{CommitInfo, DbInfo, DbSnapshot, DocSummary, LocalDocument};
pub use timeline::{Standing, TIMELINES_MAX};

use crate::btree::{NodeCache, Shape, TreeOptions};
use crate::commit_queue::CommitQueue;
use crate::doc::AttachmentEncoder;
use crate::env::{Access, Env};
use crate::error::{Error, Result};
use crate::file::{FileWriter, OpenFile, Protocol, RecoveryReport, WriteCounts};
use crate::mark;
use crate::reduce::{Count, NoReduce};
use crate::store::COPY_CACHE_BYTES;
use crate::store::committed::{CommittedFile, OpenOptions};
use crate::vocabulary::Rev;
use compact::DbCopier;
use edit::{Reply, Request};
use roots::{CountDocs, DbRoots};

/// How a database is opened.
///
/// ```
/// use rereduce::db::DatabaseOptions;
/// assert_eq!(DatabaseOptions::default().document_bytes_max, 8_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Make the file if there is none.
    pub create: bool,
    /// What a commit does to be durable.
    pub protocol: Protocol,
    /// Size and fan-out of tree nodes.
    pub tree: TreeOptions,
    /// Bytes of decoded nodes kept in memory.
    pub cache_bytes: usize,
    /// Largest document in bytes of its JSON, attachments not counted.
    pub document_bytes_max: u64,
    /// Largest attachment in bytes of its content.
    pub attachment_bytes_max: u64,
    /// Bytes of an attachment that are stored in one chunk.
    pub attachment_chunk_bytes: usize,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions {
            create: true,
            protocol: Protocol::default(),
            // Rows of its trees are short and a commit writes two paths: at a million documents
            // nodes of this size append a quarter less than those a store likes best.
            tree: TreeOptions { node_bytes_max: 1024, ..TreeOptions::default() },
            cache_bytes: 64 << 20,
            document_bytes_max: 8_000_000,
            attachment_bytes_max: 1 << 30,
            attachment_chunk_bytes: 64 << 10,
        }
    }
}

/// How each of the four trees is made.
#[derive(Clone)]
pub(crate) struct Shapes {
    by_id: Shape,
    by_seq: Shape,
    /// Local documents and purges: nothing is summed up.
    plain: Shape,
}

impl Shapes {
    fn new(options: &TreeOptions) -> Shapes {
        let options = options.clone();
        Shapes {
            by_id: Shape { options: options.clone(), reducer: Arc::new(CountDocs) },
            by_seq: Shape { options: options.clone(), reducer: Arc::new(Count) },
            plain: Shape { options, reducer: Arc::new(NoReduce) },
        }
    }
}

/// A document database in one file.
///
/// One handle writes at a time ([`Error::Locked`] for a second one, in any process); any number
/// may read. Handles are shared by reference between threads; threads that write at the same time
/// share one commit and one flush.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::Env;
///
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// let replies = db.edit(vec![DocEdit::parse("a", br#"{"v":1}"#)?])?;
/// assert_eq!(replies[0].as_ref().unwrap().generation, 1);
/// let replies = db.edit(vec![DocEdit::parse("a", br#"{"v":2}"#)?])?;
/// assert!(replies[0].is_err(), "an edit must name the revision that it replaces");
/// assert_eq!(db.snapshot()?.info().doc_count, 1);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Database {
    file: CommittedFile<DbRoots>,
    queue: CommitQueue<Request, Result<Reply>>,
    shapes: Arc<Shapes>,
    options: DatabaseOptions,
    /// What the commits of this handle are recognised by.
    timeline: AtomicU64,
}

impl Database {
    /// Opens the database at `path` for writing.
    ///
    /// Cost: a few reads for a file that was closed; after a crash, what the last commit covers
    /// and what lies behind it. Writes nothing to an existing file.
    ///
    /// Errors: [`Error::Locked`], [`Error::NoSuchFile`] unless `create`, [`Error::NotADatabase`],
    /// [`Error::NewerFormat`], [`Error::Corrupt`], [`Error::Io`].
    pub fn open(env: Env, path: &Path, options: DatabaseOptions) -> Result<Database> {
        Database::open_with(env, path, options, Access::Write)
    }

    /// Opens the database at `path` for reading: takes no lock and creates nothing, so it works
    /// beside a writer and on a read-only mount. Each snapshot looks for newer commits and follows
    /// a compaction.
    pub fn open_read_only(env: Env, path: &Path, options: DatabaseOptions) -> Result<Database> {
        Database::open_with(env, path, options, Access::Read)
    }

    fn open_with(
        env: Env,
        path: &Path,
        options: DatabaseOptions,
        access: Access,
    ) -> Result<Database> {
        let DatabaseOptions { create, protocol, cache_bytes, .. } = options;
        let open_options = OpenOptions { access, create, protocol, cache_bytes };
        let file = CommittedFile::open(env, path, open_options)?;
        let timeline = if access == Access::Write { file.random()? } else { 0 };
        Ok(Database {
            file,
            queue: CommitQueue::new(),
            shapes: Arc::new(Shapes::new(&options.tree)),
            options,
            timeline: AtomicU64::new(timeline),
        })
    }

    /// Opens commit `number` of the file at `path` for reading, even where a newer commit is
    /// damaged and [`Database::open`] refuses.
    pub fn open_commit(
        env: &Env,
        path: &Path,
        number: u64,
        options: &DatabaseOptions,
    ) -> Result<DbSnapshot> {
        let state = CommittedFile::open_commit(env, path, number, options.cache_bytes)?;
        Ok(DbSnapshot::new(Arc::new(state), Arc::new(Shapes::new(&options.tree))))
    }

    pub(crate) fn options(&self) -> &DatabaseOptions {
        &self.options
    }

    /// Writes documents as an editor does: each edit names the leaf that it replaces, or nothing
    /// for a new document, and gets a new revision or [`Error::Conflict`].
    ///
    /// Edits are made in order, so a later one sees what an earlier one of the same call did; each
    /// document that changed gets one new sequence, in the order of their ids. Ids that begin with
    /// `_local/` write local documents. All that succeeded is durable when this returns.
    ///
    /// Cost: bodies become text, and revision ids are computed, before this writer's turn comes; a
    /// call with 500 edits or more does that on several threads.
    ///
    /// Errors of one edit (its place in the answer): [`Error::Conflict`], [`Error::BadInput`],
    /// [`Error::TooLarge`], [`Error::Missing`] for a stub of an attachment that is not there.
    /// Errors of the whole call, which then changed nothing: [`Error::Io`], [`Error::Corrupt`],
    /// [`Error::Poisoned`], [`Error::ReadOnly`], [`Error::Closed`].
    // spec: DB-1, DB-3
    pub fn edit(&self, edits: Vec<DocEdit>) -> Result<Vec<Result<Rev>>> {
        self.submit_edits(edits, false)
    }

    /// Makes the edits of several writers in one commit: what [`Database::edit`] does for writers
    /// that call it at the same moment and meet in one group, in this order. For a server that has
    /// gathered requests itself, and for tests that need the same group every time.
    ///
    /// Each writer gets the answer that it would have got alone after those before it; a document
    /// that changed gets a new sequence from each writer that changed it.
    // spec: DB-4
    pub fn edit_together(&self, writers: Vec<Vec<DocEdit>>) -> Vec<Result<Vec<Result<Rev>>>> {
        let prepare = |edits| prepare::prepare(edits, false);
        let request = |edits| Request::Edit { parts: prepare(edits), replicated: false };
        let group: Vec<Request> = writers.into_iter().map(request).collect();
        if group.is_empty() {
            return Vec::new();
        }
        let held = self.queue.exclusive(|| self.run_group(&group));
        let replies = held.unwrap_or_else(|_| group.iter().map(|_| Err(self.poisoned())).collect());
        replies.into_iter().map(|reply| reply.map(edited)).collect()
    }

    /// Writes revisions that were made elsewhere, with their ancestors: they are merged into the
    /// revision trees and never conflict. A revision that is known changes nothing.
    ///
    /// Errors as for [`Database::edit`], less the conflicts.
    // spec: DB-2
    pub fn merge(&self, revisions: Vec<DocEdit>) -> Result<Vec<Result<Rev>>> {
        self.submit_edits(revisions, true)
    }

    fn submit_edits(&self, edits: Vec<DocEdit>, replicated: bool) -> Result<Vec<Result<Rev>>> {
        let parts = prepare::prepare(edits, replicated);
        self.submit(Request::Edit { parts, replicated }).map(edited)
    }

    /// Removes leaf revisions as if they had never been, with ancestors that no other leaf has.
    /// The newest commit does not show them any more; older commits do until the next compaction.
    /// Revisions that are no leaves are left alone.
    ///
    /// Each call advances the update sequence; each document asked for is remembered under its own
    /// purge sequence, as many as the limit says.
    // spec: DB-8
    pub fn purge(&self, revisions: Vec<(String, Vec<Rev>)>) -> Result<Purged> {
        match self.submit(Request::Purge(revisions))? {
            Reply::Purged(purged) => Ok(purged),
            _ => unreachable!("a purge is answered by what it removed"),
        }
    }

    /// Sets how many revisions of each branch are remembered; counts from the next edit of each
    /// document on. At least 1.
    pub fn set_revs_limit(&self, limit: u32) -> Result<()> {
        if limit == 0 {
            return Err(bad_limit("revs_limit"));
        }
        self.submit(Request::RevsLimit(limit)).map(drop)
    }

    /// Sets how many purges are remembered after a compaction. At least 1.
    pub fn set_purge_infos_limit(&self, limit: u64) -> Result<()> {
        if limit == 0 {
            return Err(bad_limit("purge_infos_limit"));
        }
        self.submit(Request::PurgeInfosLimit(limit)).map(drop)
    }

    /// Begins an attachment whose content comes in pieces; see [`Upload`].
    pub fn upload(&self, name: &str, content_type: &str) -> Upload<'_> {
        Upload::new(self, AttachmentEncoder::new(name, content_type))
    }

    /// Begins an attachment from an encoder of the caller's, for content that is encoded already.
    pub fn upload_with(&self, encoder: AttachmentEncoder) -> Upload<'_> {
        Upload::new(self, encoder)
    }

    fn submit(&self, request: Request) -> Result<Reply> {
        let done = self.queue.submit(request, |group| self.run_group(&group));
        done.unwrap_or_else(|_| Err(self.poisoned()))
    }

    /// Runs a group of requests as one commit. If that fails for a reason that may lie in one of
    /// them, each is tried by itself, so that nobody fails for somebody else's document.
    // spec: DB-4
    fn run_group(&self, group: &[Request]) -> Vec<Result<Reply>> {
        match self.run(group) {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(Error::Corrupt(_) | Error::TooLarge { .. })
                if group.len() > 1 && !mark::planted("group-fails-together") =>
            {
                mark::hit("group-taken-apart");
                let alone = |request: &Request| {
                    let replies = self.run(std::slice::from_ref(request))?;
                    replies.into_iter().next().ok_or_else(|| self.poisoned())
                };
                group.iter().map(alone).collect()
            }
            Err(error) => group.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn run(&self, group: &[Request]) -> Result<Vec<Reply>> {
        self.file.write(|writer, before| edit::run(writer, before, self, group))
    }

    /// Appends chunks outside of a commit.
    fn append<T>(
        &self,
        work: impl FnOnce(&mut FileWriter) -> Result<T>,
    ) -> Result<(T, Arc<OpenFile>)> {
        self.file.append(work)
    }

    /// What the commits of this handle are recognised by.
    fn timeline(&self) -> u64 {
        self.timeline.load(Ordering::Acquire)
    }

    fn poisoned(&self) -> Error {
        Error::Poisoned { path: self.file.path().to_path_buf() }
    }

    /// The newest committed state, which stays readable whatever happens to the database.
    pub fn snapshot(&self) -> Result<DbSnapshot> {
        Ok(DbSnapshot::new(self.file.current()?, self.shapes.clone()))
    }

    /// The state of commit `number`. Cost: O(log n) reads for n commits.
    ///
    /// Errors: [`Error::NoSuchCommit`], [`Error::Compacted`], [`Error::Corrupt`], [`Error::Io`].
    pub fn snapshot_at(&self, number: u64) -> Result<DbSnapshot> {
        let state = self.file.current()?.at(number)?;
        Ok(DbSnapshot::new(Arc::new(state), self.shapes.clone()))
    }

    /// Rewrites the database into a new file without history, garbage, bodies of inner revisions
    /// and purges beyond the limit, and swaps it in. Readers and writers go on; old snapshots stay
    /// readable; commit numbers go on. `watch` is called every so many rows and
    /// between rounds, and may cancel.
    ///
    /// Cost: reads and writes all live data; memory within the cache and one batch.
    ///
    /// Errors: [`Error::CompactionRunning`], [`Error::Cancelled`], [`Error::Corrupt`],
    /// [`Error::Io`]; after each of them the database is as it was.
    // spec: COMPACT-1
    pub fn compact(&self, watch: &mut dyn FnMut() -> ControlFlow<()>) -> Result<()> {
        let mut copier = DbCopier { shapes: &self.shapes, cache: NodeCache::new(COPY_CACHE_BYTES) };
        let hold = |last_round: &mut dyn FnMut() -> Result<()>| {
            self.queue.exclusive(last_round).unwrap_or_else(|_| Err(self.poisoned()))
        };
        self.file.compact(&mut copier, &hold, watch)
    }

    /// After a failed write: recovers in place and takes writes again. The failed commit is there
    /// whole or not at all.
    pub fn reopen(&self) -> Result<RecoveryReport> {
        self.queue.revive(|| {
            // The commit that failed may be there or not; those that follow go another way.
            if !mark::planted("timeline-goes-on-after-reopen") {
                self.timeline.store(self.file.random()?, Ordering::Release);
            }
            self.file.reopen()
        })
    }

    /// What the last recovery of this handle decided.
    pub fn recovery(&self) -> RecoveryReport {
        self.file.recovery()
    }

    /// What this handle wrote so far.
    pub fn counts(&self) -> WriteCounts {
        self.file.counts()
    }

    /// Seals the file, so that the next open reads a few blocks, and ends writing. A handle that
    /// is dropped instead loses nothing; the next open checks more.
    pub fn close(&self) -> Result<()> {
        self.file.close()
    }
}

fn edited(reply: Reply) -> Vec<Result<Rev>> {
    match reply {
        Reply::Edited(replies) => replies,
        _ => unreachable!("an edit is answered by its replies"),
    }
}

fn bad_limit(what: &'static str) -> Error {
    Error::BadInput { what, got: "0".to_string(), expected: "a positive integer" }
}
