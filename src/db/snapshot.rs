//! Reading one committed state of a database.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::doc::{DocId, Document, OpenRev, RevStatus, Show};
use crate::error::{Error, Result};
use crate::file::CommitId;
use crate::mark;
use crate::store::committed::Committed;
use crate::vocabulary::{Direction, Json, KeyRange, Rev};

use super::content::AttachmentContent;
use super::load::{Body, Record, nonsense, nonsense_reduction};
use super::record::{DocTree, Known, PurgeEntry, decode_local, key_seq};
use super::roots::{DbRoots, DocCounts};
use super::timeline::Standing;
use super::{Change, Shapes};

/// A committed state of a [`Database`](super::Database); stays as it is and stays readable.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::Env;
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// let rev = db.edit(vec![DocEdit::parse("a", br#"{"v":1}"#)?])?.remove(0)?;
/// let snapshot = db.snapshot()?;
/// db.edit(vec![DocEdit::deletion("a", rev.clone())?])?;
/// assert_eq!(snapshot.document("a", None)?.rev(), Some(rev));
/// assert!(matches!(db.snapshot()?.document("a", None), Err(rereduce::Error::Deleted { .. })));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct DbSnapshot {
    pub(crate) state: Arc<Committed<DbRoots>>,
    pub(crate) shapes: Arc<Shapes>,
}

/// What a database says about itself.
///
/// ```
/// use rereduce::db::DbInfo;
/// assert_eq!(DbInfo::default().doc_count, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbInfo {
    /// Documents whose winner is not deleted.
    pub doc_count: u64,
    /// Documents whose winner is deleted.
    pub doc_del_count: u64,
    /// Sequence of the newest change.
    pub update_seq: u64,
    /// Sequence of the newest purge.
    pub purge_seq: u64,
    /// How many revisions of a branch are remembered.
    pub revs_limit: u32,
    /// How many purges are remembered.
    pub purge_infos_limit: u64,
    /// The commit's number.
    pub commit: u64,
    /// The oldest commit that opens by number.
    pub oldest_commit: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the file that the newest commit uses: leaf bodies, attachments, rows of trees.
    pub active_bytes: u64,
    /// Bytes of all leaf revisions and attachments as clients see them.
    pub external_bytes: u64,
}

/// One commit in the history.
///
/// ```
/// use rereduce::db::CommitInfo;
/// let first = CommitInfo { number: 1, update_seq: 3, doc_count: 2, offset: 6144 };
/// assert_eq!(first.number, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// Its number.
    pub number: u64,
    /// Sequence of its newest change.
    pub update_seq: u64,
    /// Documents whose winner is not deleted.
    pub doc_count: u64,
    /// Byte offset of its footer.
    pub offset: u64,
}

/// One document in a listing.
///
/// ```
/// use rereduce::db::DocSummary;
/// let rev = "1-a".parse().unwrap();
/// let summary = DocSummary { id: "a".into(), rev, deleted: false, seq: 1 };
/// assert!(!summary.deleted);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocSummary {
    /// Its id.
    pub id: String,
    /// Its winner.
    pub rev: Rev,
    /// Whether the winner is a deletion.
    pub deleted: bool,
    /// The sequence of its newest change.
    pub seq: u64,
}

impl DocSummary {
    fn of(id: String, record: &Record) -> Option<DocSummary> {
        let (rev, known) = record.tree.winner()?;
        Some(DocSummary { id, rev: rev.clone(), deleted: known.deleted, seq: record.seq })
    }
}

/// A local document: one revision, never replicated.
///
/// ```
/// use rereduce::db::LocalDocument;
/// let local = LocalDocument { id: "_local/a".into(), number: 1, body: vec![] };
/// assert_eq!(local.rev().to_string(), "0-1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDocument {
    /// Its id, `_local/` included.
    pub id: String,
    /// N of its revision `0-N`.
    pub number: u64,
    /// Its members.
    pub body: Vec<(String, Json)>,
}

impl LocalDocument {
    /// Its revision, `0-N`.
    pub fn rev(&self) -> Rev {
        let id = crate::vocabulary::RevId::from_bytes(self.number.to_string().into_bytes());
        Rev::new(0, id)
    }
}

impl DbSnapshot {
    pub(crate) fn new(state: Arc<Committed<DbRoots>>, shapes: Arc<Shapes>) -> DbSnapshot {
        DbSnapshot { state, shapes }
    }

    fn roots(&self) -> &DbRoots {
        &self.state.roots
    }

    /// The commit's number; 0 for a database without commits.
    pub fn number(&self) -> u64 {
        self.state.number()
    }

    /// The commit's identity; `None` for a database without commits.
    pub fn id(&self) -> Option<CommitId> {
        self.state.id()
    }

    /// What this state is recognised by later, also after a compaction.
    ///
    /// ```
    /// use rereduce::db::{Database, DatabaseOptions};
    /// use rereduce::env::Env;
    /// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
    /// assert_eq!(db.snapshot()?.standing().commit, 0);
    /// # Ok::<(), rereduce::Error>(())
    /// ```
    pub fn standing(&self) -> Standing {
        Standing {
            database: self.state.file.header().database,
            timeline: self.roots().timelines.newest(),
            commit: self.number(),
        }
    }

    /// Whether this database once was in the state `standing` and went on from there. `false` for
    /// another database, for a newer state than this one, for a state that a restored backup does
    /// not have, and for one that more than [`TIMELINES_MAX`](super::TIMELINES_MAX) writing handles
    /// lie behind. No reads.
    // spec: DB-13
    pub fn has(&self, standing: &Standing) -> bool {
        let here = self.standing();
        let same = here.database == standing.database || mark::planted("any-database-will-do");
        let known = |timeline| self.roots().timelines.have(timeline, standing.commit, here.commit);
        same && (standing.commit == 0 || known(standing.timeline))
    }

    /// Whether this commit is known to be flushed. A reader in another process may see one commit
    /// that is not yet.
    pub fn is_witnessed(&self) -> Result<bool> {
        self.state.is_witnessed()
    }

    /// Counts and sizes. Cost: nothing but asking for the file's size.
    pub fn info(&self) -> DbInfo {
        let roots = self.roots();
        let counts = roots.by_id.reduction().and_then(DocCounts::decode).unwrap_or_default();
        let rows = [&roots.by_id, &roots.by_seq, &roots.local, &roots.purges];
        DbInfo {
            doc_count: counts.live,
            doc_del_count: counts.deleted,
            update_seq: roots.update_seq,
            purge_seq: roots.purge_seq,
            revs_limit: roots.revs_limit,
            purge_infos_limit: roots.purge_infos_limit,
            commit: self.number(),
            oldest_commit: self.state.oldest(),
            file_bytes: self.state.file.size().unwrap_or_default(),
            active_bytes: counts.stored_bytes
                + rows.iter().map(|tree| tree.row_bytes()).sum::<u64>(),
            external_bytes: counts.external_bytes,
        }
    }

    /// This commit and those before it, the newest first, until `visit` breaks or the file's first
    /// commit is reached. Cost: one read a commit.
    pub fn history(&self, visit: &mut dyn FnMut(CommitInfo) -> ControlFlow<()>) -> Result<()> {
        let mut next = Some(self.clone());
        while let Some(snapshot) = next {
            let Some(id) = snapshot.id() else { return Ok(()) };
            let info = snapshot.info();
            let commit = CommitInfo {
                number: id.number,
                update_seq: info.update_seq,
                doc_count: info.doc_count,
                offset: id.offset,
            };
            if visit(commit).is_break() {
                return Ok(());
            }
            next = snapshot.parent()?;
        }
        Ok(())
    }

    /// The commit before this one; `None` for the first one in the file. Cost: one read.
    pub fn parent(&self) -> Result<Option<DbSnapshot>> {
        let parent = self.state.parent()?;
        Ok(parent.map(|state| DbSnapshot::new(Arc::new(state), self.shapes.clone())))
    }

    pub(crate) fn record(&self, id: &str) -> Result<Option<Record>> {
        let value = self.roots().by_id.get(&self.state.nodes(), id.as_bytes())?;
        value.map(|value| Record::load(&self.state, id.as_bytes(), &value)).transpose()
    }

    fn found(&self, id: &str) -> Result<Record> {
        let missing = || Error::Missing { what: "document", name: id.to_string() };
        self.record(id)?.ok_or_else(missing)
    }

    /// A document: its winner, or revision `rev`, whose body is there until the next compaction
    /// even if it is no leaf. Cost: the height of the by_id tree and one or two reads.
    ///
    /// Errors: [`Error::Missing`], [`Error::Deleted`] if no revision was named and the winner is
    /// a deletion, [`Error::Corrupt`], [`Error::Io`].
    // spec: DB-7
    pub fn document(&self, id: &str, rev: Option<&Rev>) -> Result<Document> {
        let record = self.found(id)?;
        let (rev, known) = self.choose(id, &record, rev)?;
        self.load_document(id, &record.tree, &rev, known)
    }

    fn choose(&self, id: &str, record: &Record, rev: Option<&Rev>) -> Result<(Rev, Known)> {
        let missing = |name: String| Error::Missing { what: "revision", name };
        match rev {
            None => {
                let winner = record.tree.winner();
                let (rev, known) = winner.ok_or_else(|| missing(id.to_string()))?;
                match known.deleted {
                    true => Err(Error::Deleted { id: id.to_string() }),
                    false => Ok((rev.clone(), *known)),
                }
            }
            Some(rev) => {
                let found = record.tree.find(rev).and_then(|found| found.data.copied());
                Ok((rev.clone(), found.ok_or_else(|| missing(rev.to_string()))?))
            }
        }
    }

    fn load_document(&self, id: &str, tree: &DocTree, rev: &Rev, known: Known) -> Result<Document> {
        let body = Body::load(&*self.state.file, known.body)?;
        Ok(Document {
            id: DocId::new(id)?,
            path: tree.path(rev).unwrap_or_default(),
            deleted: known.deleted,
            body: body.members,
            attachments: body.attachments.into_iter().map(|held| held.attachment).collect(),
        })
    }

    /// The winner of a document even if it is a deletion, or `None` if there never was one.
    pub fn winner(&self, id: &str) -> Result<Option<Document>> {
        let Some(record) = self.record(id)? else { return Ok(None) };
        let Some((rev, known)) = record.tree.winner() else { return Ok(None) };
        self.load_document(id, &record.tree, rev, *known).map(Some)
    }

    /// A document as map functions see it: its winner with `_id` and `_rev`, stubs of its
    /// attachments, its conflicts if there are any, and with `local_seq` its sequence. `None` if
    /// there is no such document or its winner is a deletion. Cost: the height of the by_id tree
    /// and one or two reads.
    ///
    /// ```
    /// use rereduce::db::{Database, DatabaseOptions, DocEdit};
    /// use rereduce::env::Env;
    /// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
    /// db.edit(vec![DocEdit::parse("a", br#"{"v":1}"#)?])?;
    /// let shown = db.snapshot()?.document_for_maps("a", true)?.expect("it was just written");
    /// let names: Vec<&str> = match &shown {
    ///     rereduce::vocabulary::Json::Object(members) => members.iter().map(|m| &*m.0).collect(),
    ///     _ => vec![],
    /// };
    /// assert_eq!(names, ["_id", "_rev", "v", "_local_seq"]);
    /// # Ok::<(), rereduce::Error>(())
    /// ```
    // spec: VIEW-4
    pub fn document_for_maps(&self, id: &str, local_seq: bool) -> Result<Option<Json>> {
        let Some(record) = self.record(id)? else { return Ok(None) };
        let Some((rev, known)) = record.tree.winner() else { return Ok(None) };
        if known.deleted {
            return Ok(None);
        }
        let owned = |revs: Vec<&Rev>| match mark::planted("view-conflicts-left-out") {
            true => Vec::new(),
            false => revs.into_iter().cloned().collect(),
        };
        let show = Show {
            conflicts: owned(record.tree.conflicts()),
            deleted_conflicts: owned(record.tree.deleted_conflicts()),
            local_seq: local_seq.then_some(record.seq),
            ..Show::default()
        };
        let document = self.load_document(id, &record.tree, rev, *known)?;
        Ok(Some(document.to_json(&show)))
    }

    /// Every leaf of a document, the winner first, and whether it is deleted.
    ///
    /// Errors: [`Error::Missing`], [`Error::Corrupt`], [`Error::Io`].
    pub fn leaves(&self, id: &str) -> Result<Vec<(Rev, bool)>> {
        let leaves = self.found(id)?.tree;
        Ok(leaves.leaves().into_iter().map(|(rev, known)| (rev.clone(), known.deleted)).collect())
    }

    /// Several revisions of a document, or all its leaves if `revs` is `None`. With `latest` each
    /// revision stands for the leaves that descend from it, and each leaf is answered once.
    /// Revisions that are not there are answered by themselves.
    // spec: REVTREE-7
    pub fn open_revs(
        &self,
        id: &str,
        revs: Option<&[Rev]>,
        latest: bool,
    ) -> Result<Vec<std::result::Result<Document, Rev>>> {
        let record = match (self.record(id)?, revs) {
            (Some(record), _) => record,
            (None, Some(revs)) => return Ok(revs.iter().cloned().map(Err).collect()),
            (None, None) => return Ok(Vec::new()),
        };
        let leaves: Vec<Rev>;
        let revs = match revs {
            Some(revs) => revs,
            None => {
                leaves = record.tree.leaves().into_iter().map(|(rev, _)| rev.clone()).collect();
                &leaves
            }
        };
        let open = |opened| match opened {
            OpenRev::Found(rev, known) => self.load_document(id, &record.tree, rev, *known).map(Ok),
            OpenRev::Missing(rev) => Ok(Err(rev)),
        };
        record.tree.open_revs(revs, latest).into_iter().map(open).collect()
    }

    /// A document for which the caller named an ancestor: the winner among the leaves that
    /// descend from `rev`.
    ///
    /// Errors: as for [`DbSnapshot::document`].
    // spec: REVTREE-7
    pub fn latest(&self, id: &str, rev: &Rev) -> Result<Document> {
        let record = self.found(id)?;
        let leaf =
            record.tree.leaves_from(rev).first().map(|(rev, known)| ((*rev).clone(), **known));
        let missing = || Error::Missing { what: "revision", name: rev.to_string() };
        let (rev, known) = leaf.ok_or_else(missing)?;
        self.load_document(id, &record.tree, &rev, known)
    }

    /// Which leaves conflict with the winner: live ones, and deleted ones.
    pub fn conflicts(&self, id: &str) -> Result<(Vec<Rev>, Vec<Rev>)> {
        let tree = self.found(id)?.tree;
        let owned = |revs: Vec<&Rev>| revs.into_iter().cloned().collect();
        Ok((owned(tree.conflicts()), owned(tree.deleted_conflicts())))
    }

    /// What is there of each revision from `rev` back.
    pub fn revs_info(&self, id: &str, rev: &Rev) -> Result<Vec<(Rev, RevStatus)>> {
        Ok(self.found(id)?.tree.revs_info(rev))
    }

    /// Those of `revs` that the database does not know, ascending.
    pub fn missing_revs(&self, id: &str, revs: &[Rev]) -> Result<Vec<Rev>> {
        Ok(self.record(id)?.map(|record| record.tree).unwrap_or_default().missing(revs))
    }

    /// The leaves from which revisions that are missing here may descend, the winner first; a
    /// replicator that knows one of them need not send what lies below it.
    // spec: REVTREE-9
    pub fn possible_ancestors(&self, id: &str, missing: &[Rev]) -> Result<Vec<Rev>> {
        let tree = self.record(id)?.map(|record| record.tree).unwrap_or_default();
        Ok(tree.possible_ancestors(missing).into_iter().cloned().collect())
    }

    /// One document as a listing shows it, deleted or not. Cost: the height of the by_id tree.
    pub fn summary(&self, id: &str) -> Result<Option<DocSummary>> {
        Ok(self.record(id)?.and_then(|record| DocSummary::of(id.to_string(), &record)))
    }

    /// The content of an attachment, of the winner or of revision `rev`.
    ///
    /// Errors: [`Error::Missing`] for the document, the revision or the attachment.
    pub fn attachment(&self, id: &str, rev: Option<&Rev>, name: &str) -> Result<AttachmentContent> {
        let record = self.found(id)?;
        let (_, known) = self.choose(id, &record, rev)?;
        let held = Body::load_attachments(&*self.state.file, known.body)?;
        let held = held.into_iter().find(|held| held.attachment.name == name);
        let missing = || Error::Missing { what: "attachment", name: name.to_string() };
        AttachmentContent::new(self.state.file.clone(), held.ok_or_else(missing)?)
    }

    /// Visits documents in the order of their ids (by bytes), deleted ones included.
    pub fn all_docs(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(DocSummary) -> ControlFlow<()>,
    ) -> Result<()> {
        let nodes = self.state.nodes();
        for row in self.roots().by_id.iter(&nodes, range.clone(), direction) {
            let (key, value) = row?;
            let id = String::from_utf8(key.to_vec());
            let wrong = |_| nonsense(&self.state, &self.roots().by_id, &key, "a document id");
            let id = id.map_err(wrong)?;
            let record = Record::load(&self.state, &key, &value)?;
            let Some(summary) = DocSummary::of(id, &record) else { continue };
            if visit(summary).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// How many documents have an id in `range`, and how large they are. Cost: O(log n) reads.
    pub fn count_docs(&self, range: &KeyRange) -> Result<DocCounts> {
        let nodes = self.state.nodes();
        let reduction = self.roots().by_id.reduce(&nodes, &self.shapes.by_id, range)?;
        let by_id = &self.roots().by_id;
        DocCounts::decode(&reduction).ok_or_else(|| nonsense_reduction(&self.state, by_id))
    }

    /// Visits the changes after sequence `since`, each document at its newest one; descending, all
    /// of them from the newest down to `since`.
    // spec: DB-5
    pub fn changes(
        &self,
        since: u64,
        direction: Direction,
        visit: &mut dyn FnMut(Change) -> ControlFlow<()>,
    ) -> Result<()> {
        Change::visit(&self.state, since, direction, visit)
    }

    /// How many changes follow sequence `since`. Cost: O(log n) reads.
    pub fn pending_changes(&self, since: u64) -> Result<u64> {
        Change::count_after(&self.state, &self.shapes, since)
    }

    /// A local document; the id includes `_local/`.
    pub fn local(&self, id: &str) -> Result<Option<LocalDocument>> {
        let value = self.roots().local.get(&self.state.nodes(), id.as_bytes())?;
        value.map(|value| self.decode_local(id.to_string(), &value)).transpose()
    }

    /// All local documents in the order of their ids.
    pub fn locals(&self, visit: &mut dyn FnMut(LocalDocument) -> ControlFlow<()>) -> Result<()> {
        let nodes = self.state.nodes();
        for row in self.roots().local.iter(&nodes, KeyRange::all(), Direction::Ascending) {
            let (key, value) = row?;
            let id = String::from_utf8_lossy(&key).into_owned();
            if visit(self.decode_local(id, &value)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn decode_local(&self, id: String, value: &[u8]) -> Result<LocalDocument> {
        let local = &self.roots().local;
        let wrong = || nonsense(&self.state, local, id.as_bytes(), "a local document");
        let (number, json) = decode_local(value).ok_or_else(wrong)?;
        match Json::parse(json) {
            Ok(Json::Object(body)) => Ok(LocalDocument { id, number, body }),
            _ => Err(wrong()),
        }
    }

    /// The purges after purge sequence `since` that are still remembered, the oldest first:
    /// sequence, document id, and the revisions that the purge named.
    // spec: DB-8
    pub fn purges(&self, since: u64) -> Result<Vec<(u64, String, Vec<Rev>)>> {
        let range = KeyRange {
            start: std::ops::Bound::Excluded(since.to_be_bytes().to_vec()),
            end: std::ops::Bound::Unbounded,
        };
        let nodes = self.state.nodes();
        let mut purges = Vec::new();
        for row in self.roots().purges.iter(&nodes, range, Direction::Ascending) {
            let (key, value) = row?;
            let entry = key_seq(&key).zip(PurgeEntry::decode(&value));
            let wrong = || nonsense(&self.state, &self.roots().purges, &key, "a purge");
            let (seq, PurgeEntry { id, revs }) = entry.ok_or_else(wrong)?;
            purges.push((seq, id, revs));
        }
        Ok(purges)
    }

    /// The by_id tree as text, with its reductions; for people.
    ///
    /// Cost: reads every node.
    pub fn draw(&self) -> Result<String> {
        let labels = crate::btree::Labels {
            key: Box::new(|key| String::from_utf8_lossy(key).into_owned()),
            reduction: Box::new(describe_counts),
        };
        self.roots().by_id.draw(&self.state.nodes(), &labels)
    }
}

fn describe_counts(reduction: &[u8]) -> String {
    match DocCounts::decode(reduction) {
        Some(counts) => {
            format!(
                "{} live, {} deleted, {} bytes",
                counts.live, counts.deleted, counts.external_bytes
            )
        }
        None => "?".to_string(),
    }
}
