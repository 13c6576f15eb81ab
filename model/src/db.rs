//! The model of a document database: documents by id, each a set of histories and their bodies.
//!
//! Invariant: everything that can be computed from the documents (counts, changes, winners) is
//! computed from them each time.

use std::collections::{BTreeMap, BTreeSet};

use rereduce::vocabulary::{Rev, Slot};

use crate::revtree::{Path, Paths, contains, leaves, merge, stem, winner};

/// What was purged, the oldest first: a document and the revisions that the purge named.
pub type Purges = Vec<(String, Vec<Rev>)>;

/// An interactive edit that is not accepted.
///
/// ```
/// use rereduce_model::{Conflict, Revision, State, revtree::path};
/// let mut state = State::default();
/// state.merge("a", path("1-x"), Revision::default());
/// assert_eq!(state.accept("a", None, false), Err(Conflict));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict;

/// An attachment of a revision.
///
/// ```
/// use rereduce_model::Attachment;
/// let text = Attachment { name: "n".into(), media: "text/plain".into(), content: vec![65] };
/// assert_eq!(text.content.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// Its name within the document.
    pub name: String,
    /// Its media type.
    pub media: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// What one revision holds.
///
/// ```
/// assert!(!rereduce_model::Revision::default().deleted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    /// Whether it is a tombstone.
    pub deleted: bool,
    /// JSON text.
    pub body: String,
    /// Attachments in the order given.
    pub attachments: Vec<Attachment>,
}

/// A document.
///
/// ```
/// use rereduce_model::{Document, revtree::{Paths, path}};
/// let paths = Paths::from([path("1-a 2-b"), path("1-a 2-c")]);
/// let document = Document { paths, ..Document::default() };
/// assert_eq!(document.winner().unwrap().to_string(), "2-c");
/// assert_eq!(document.old(), path("1-a"));
/// assert_eq!(document.latest(&path("1-a")[0]).len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The history of each leaf.
    pub paths: Paths,
    /// What is known of the revisions; of every leaf at least.
    pub revisions: BTreeMap<Rev, Revision>,
    /// The commit that changed it last.
    pub changed: u64,
}

impl Document {
    fn is_deleted(&self, rev: &Rev) -> bool {
        self.revisions.get(rev).is_some_and(|revision| revision.deleted)
    }

    /// The winning leaf.
    pub fn winner(&self) -> Option<Rev> {
        winner(&self.paths, |rev| self.is_deleted(rev))
    }

    /// The leaves in ascending order.
    pub fn leaves(&self) -> Vec<Rev> {
        leaves(&self.paths).into_iter().collect()
    }

    /// Revisions that are known and no leaves, in ascending order.
    pub fn old(&self) -> Vec<Rev> {
        let all: BTreeSet<Rev> = self.paths.iter().flatten().cloned().collect();
        all.difference(&leaves(&self.paths)).cloned().collect()
    }

    /// Whether the winner is a tombstone.
    pub fn deleted(&self) -> bool {
        self.winner().is_some_and(|rev| self.is_deleted(&rev))
    }

    /// The known history of a revision, the oldest first.
    pub fn history(&self, rev: &Rev) -> Path {
        let path = self.paths.iter().find(|path| path.contains(rev)).cloned().unwrap_or_default();
        path.into_iter().filter(|other| other.generation <= rev.generation).collect()
    }

    /// The leaves that descend from a revision, itself included.
    pub fn latest(&self, rev: &Rev) -> Vec<Rev> {
        let paths = self.paths.iter().filter(|path| path.contains(rev)).cloned().collect();
        leaves(&paths).into_iter().collect()
    }
}

/// A whole database at one commit.
///
/// ```
/// use rereduce_model::{Revision, State, revtree::path};
/// let mut state = State::default();
/// state.begin();
/// state.merge("a", path("1-x"), Revision { deleted: true, ..Revision::default() });
/// assert_eq!(state.counts(), (0, 1));
/// assert_eq!(state.purge("a", &path("1-x")), path("1-x"));
/// assert!(state.documents.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The documents.
    pub documents: BTreeMap<String, Document>,
    /// The local documents' bodies.
    pub locals: BTreeMap<String, String>,
    /// What was purged, the oldest first: documents and the revisions that the purges named.
    pub purges: Purges,
    /// How many revisions of a history a write keeps.
    pub revs_limit: u64,
    /// How many purges a compaction keeps.
    pub purge_limit: u64,
    commit: u64,
}

impl Default for State {
    fn default() -> State {
        State {
            documents: BTreeMap::new(),
            locals: BTreeMap::new(),
            purges: Vec::new(),
            revs_limit: 1000,
            purge_limit: 1000,
            commit: 0,
        }
    }
}

impl State {
    /// Begins another commit: what it changes counts as changed together.
    pub fn begin(&mut self) {
        self.commit += 1;
    }

    /// Whether two states differ in nothing that can be read.
    pub fn holds_the_same_as(&self, other: &State) -> bool {
        State { commit: other.commit, ..self.clone() } == *other
    }

    /// Live and deleted documents.
    pub fn counts(&self) -> (u64, u64) {
        let deleted = self.documents.values().filter(|document| document.deleted()).count() as u64;
        (self.documents.len() as u64 - deleted, deleted)
    }

    /// Ids by the commit that changed them last, oldest first.
    pub fn changes(&self) -> BTreeMap<u64, BTreeSet<&str>> {
        let mut changes: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        for (id, document) in &self.documents {
            changes.entry(document.changed).or_default().insert(id);
        }
        changes
    }

    /// Whether an interactive edit is accepted, and then the revision that it continues.
    // spec: MODEL-7
    pub fn accept(
        &self,
        id: &str,
        base: Option<&Rev>,
        deletes: bool,
    ) -> Result<Option<Rev>, Conflict> {
        match (self.documents.get(id), base) {
            (None, base) => Ok(base.cloned()),
            // A tombstone is not edited by its name once all leaves are tombstones.
            (Some(document), Some(_)) if document.deleted() => Err(Conflict),
            (Some(document), Some(base)) => {
                if leaves(&document.paths).contains(base) {
                    Ok(Some(base.clone()))
                } else {
                    Err(Conflict)
                }
            }
            // A deleted document may be created again, on top of its tombstone.
            (Some(document), None) if document.deleted() && !deletes => Ok(document.winner()),
            (Some(_), None) => Err(Conflict),
        }
    }

    /// Writes a revision that continues `parent`.
    pub fn edit(&mut self, id: &str, parent: Option<Rev>, rev: Rev, revision: Revision) {
        let known = self.documents.get(id);
        let mut path = match (known, parent) {
            (_, None) => Path::new(),
            (None, Some(parent)) => vec![parent],
            (Some(document), Some(parent)) => document.history(&parent),
        };
        path.push(rev);
        self.merge(id, path, revision);
    }

    /// Writes one revision with its history, as a batch of one.
    pub fn merge(&mut self, id: &str, path: Path, revision: Revision) {
        self.merge_all(vec![(id.to_owned(), path, revision)]);
    }

    /// Writes revisions with their histories, the oldest first: never a conflict. A document is
    /// stemmed once, after the batch, and counts as changed if anything of it was news.
    // spec: MODEL-8
    pub fn merge_all(&mut self, batch: Vec<(String, Path, Revision)>) {
        let before = self.documents.clone();
        for (id, path, revision) in batch {
            let Some(rev) = path.last().cloned() else { continue };
            let document = self.documents.entry(id).or_default();
            merge(&mut document.paths, path);
            document.revisions.entry(rev).or_insert(revision);
        }
        for (id, document) in &mut self.documents {
            if before.get(id) == Some(document) {
                continue;
            }
            document.paths = stem(&document.paths, self.revs_limit);
            let paths = document.paths.clone();
            document.revisions.retain(|rev, _| contains(&paths, rev));
            if before.get(id) != Some(document) {
                document.changed = self.commit;
            }
        }
    }

    /// Forgets those of `revs` that are leaves, with the ancestors that no other leaf has, and
    /// answers which they were.
    // spec: MODEL-9
    pub fn purge(&mut self, id: &str, revs: &[Rev]) -> Vec<Rev> {
        self.purges.push((id.to_owned(), revs.to_vec()));
        let Some(document) = self.documents.get_mut(id) else { return Vec::new() };
        let all = document.leaves();
        let purged: Vec<Rev> = revs.iter().filter(|rev| all.contains(rev)).cloned().collect();
        if purged.is_empty() {
            return purged;
        }
        document.paths.retain(|path| path.last().is_none_or(|leaf| !purged.contains(leaf)));
        let paths = document.paths.clone();
        document.revisions.retain(|rev, _| contains(&paths, rev));
        document.changed = self.commit;
        if document.paths.is_empty() {
            self.documents.remove(id);
        }
        purged
    }

    /// Drops the bodies of revisions that are no leaves, and the purges beyond the limit.
    pub fn compact(&mut self) {
        for document in self.documents.values_mut() {
            let leaves = leaves(&document.paths);
            document.revisions.retain(|rev, _| leaves.contains(rev));
        }
        let beyond = self.purges.len().saturating_sub(self.purge_limit as usize);
        self.purges.drain(..beyond);
    }
}

/// What a document database should hold: a list of commits, each a whole [`State`].
///
/// ```
/// use rereduce_model::{DbModel, Revision, revtree::path};
/// let mut model = DbModel::default();
/// let mut next = model.next();
/// next.merge("a", path("1-x 2-y"), Revision::default());
/// model.commit(next);
/// assert_eq!(model.newest().counts(), (1, 0));
/// ```
#[derive(Clone, Debug)]
pub struct DbModel {
    commits: Vec<State>,
    slots: BTreeMap<Slot, State>,
}

impl Default for DbModel {
    fn default() -> DbModel {
        DbModel { commits: vec![State::default()], slots: BTreeMap::new() }
    }
}

impl DbModel {
    /// The newest state.
    pub fn newest(&self) -> &State {
        self.commits.last().expect("the empty state is always there")
    }

    /// A copy of the newest state, to be changed and handed to [`commit`](DbModel::commit).
    pub fn next(&self) -> State {
        let mut next = self.newest().clone();
        next.begin();
        next
    }

    /// `next` is the newest state from now on; if it changes nothing there is no commit.
    pub fn commit(&mut self, next: State) {
        if !next.holds_the_same_as(self.newest()) {
            self.commits.push(next);
        }
    }

    /// How many states there were, the empty one included.
    pub fn commits(&self) -> usize {
        self.commits.len()
    }

    /// The state as of a snapshot, or the newest one; `None` if the slot is empty.
    pub fn state(&self, at: Option<Slot>) -> Option<&State> {
        at.map_or_else(|| Some(self.newest()), |slot| self.slots.get(&slot))
    }

    /// Opens a snapshot of the newest state.
    pub fn snapshot(&mut self, slot: Slot) {
        self.slots.insert(slot, self.newest().clone());
    }

    /// Opens the commit with this index (0 is the empty state).
    pub fn history(&mut self, slot: Slot, commit: usize) {
        self.slots.insert(slot, self.commits[commit].clone());
    }

    /// Empties a slot.
    pub fn release(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }

    /// Empties all slots.
    pub fn release_all(&mut self) {
        self.slots.clear();
    }
}
