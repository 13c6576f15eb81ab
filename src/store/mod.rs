//! The smallest whole engine: one file, one tree.
//!
//! A [`Store`] maps keys to values in byte order and keeps a reduction over every range. It has
//! all that makes the database durable (commit protocols, recovery, snapshots, history, online
//! compaction, group commit) and nothing else, so it is the place to learn how that works.
//!
//! ```text
//! Store ── commit queue ── CommittedFile ── FileWriter ── disk
//!   └ snapshot ── Tree ── NodeCache ── OpenFile ──┘
//! ```
//!
//! Invariant: after any crash the reopened store holds exactly the edits of all acknowledged
//! commits, and of the one in flight all or none.

pub(crate) mod committed;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::btree::{Checked, NodeCache, Rule, Shape, Tree, TreeOptions, Value, Violation};
use crate::codec::Reader;
use crate::commit_queue::CommitQueue;
use crate::env::{Access, Env};
use crate::error::{Corruption, Error, Result};
use crate::file::{CommitId, FileWriter, Pointer, Protocol, RecoveryReport, WriteCounts};
use crate::kv::{KvSnapshot, OrderedKv, Visit};
use crate::reduce::{Count, Reducer};
use crate::vocabulary::{Direction, Edit, KeyRange};
use committed::{Committed, CommittedFile, Copier, OpenOptions, Roots, Watch};

/// How a store is opened.
///
/// ```
/// use rereduce::store::StoreOptions;
/// let small = StoreOptions { cache_bytes: 1 << 20, ..StoreOptions::default() };
/// assert!(small.create);
/// ```
#[derive(Clone)]
pub struct StoreOptions {
    /// Make the file if there is none.
    pub create: bool,
    /// What a commit does to be durable.
    pub protocol: Protocol,
    /// Size and fan-out of tree nodes.
    pub tree: TreeOptions,
    /// What inner nodes sum up; a file must always be opened with the same.
    pub reducer: Arc<dyn Reducer>,
    /// Bytes of decoded nodes kept in memory.
    pub cache_bytes: usize,
    /// Largest value in bytes.
    pub value_bytes_max: usize,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            create: true,
            protocol: Protocol::default(),
            tree: TreeOptions::default(),
            reducer: Arc::new(Count),
            cache_bytes: 64 << 20,
            value_bytes_max: 64 << 20,
        }
    }
}

/// A durable ordered map in one file.
///
/// One handle writes at a time ([`Error::Locked`] for a second one, in any process); any number
/// may read. Handles are shared by reference between threads.
///
/// ```
/// use rereduce::env::Env;
/// use rereduce::store::{Store, StoreOptions};
/// use rereduce::vocabulary::{Edit, KeyRange};
/// use std::path::Path;
///
/// let env = Env::memory();
/// let store = Store::open(env.clone(), Path::new("db"), StoreOptions::default())?;
/// store.commit(vec![Edit::put("a", "1"), Edit::put("b", "2")])?;
/// let before = store.snapshot()?;
/// store.commit(vec![Edit::remove("a")])?;
/// assert_eq!(before.get(b"a")?, Some(b"1".to_vec()));
/// assert_eq!(store.snapshot()?.get(b"a")?, None);
/// store.close()?;
///
/// let again = Store::open(env, Path::new("db"), StoreOptions::default())?;
/// assert_eq!(again.snapshot()?.row_count(), 1);
/// assert_eq!(again.snapshot_at(1)?.row_count(), 2);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Store {
    file: CommittedFile<Tree>,
    queue: CommitQueue<Vec<Edit>, Result<u64>>,
    shape: Shape,
    value_bytes_max: usize,
}

impl Store {
    /// Opens the store at `path` for writing.
    ///
    /// Cost: a few reads for a store that was closed; after a crash, what the last commit covers
    /// and what lies behind it. Writes nothing to an existing file.
    ///
    /// Errors: [`Error::Locked`], [`Error::NoSuchFile`] unless `create`, [`Error::NotADatabase`],
    /// [`Error::NewerFormat`], [`Error::Corrupt`], [`Error::Io`].
    pub fn open(env: Env, path: &Path, options: StoreOptions) -> Result<Store> {
        Store::open_with(env, path, options, Access::Write)
    }

    /// Opens the store at `path` for reading: takes no lock and creates nothing, so it works
    /// beside a writer and on a read-only mount. Each snapshot looks for newer commits.
    pub fn open_read_only(env: Env, path: &Path, options: StoreOptions) -> Result<Store> {
        Store::open_with(env, path, options, Access::Read)
    }

    fn open_with(env: Env, path: &Path, options: StoreOptions, access: Access) -> Result<Store> {
        let StoreOptions { create, protocol, tree, reducer, cache_bytes, value_bytes_max } =
            options;
        let options = OpenOptions { access, create, protocol, cache_bytes };
        Ok(Store {
            file: CommittedFile::open(env, path, options)?,
            queue: CommitQueue::new(),
            shape: Shape { options: tree, reducer },
            value_bytes_max,
        })
    }

    /// Opens commit `number` of the file at `path` for reading, even where a newer commit is
    /// damaged and [`Store::open`] refuses.
    pub fn open_commit(
        env: &Env,
        path: &Path,
        number: u64,
        options: &StoreOptions,
    ) -> Result<StoreSnapshot> {
        let state = CommittedFile::open_commit(env, path, number, options.cache_bytes)?;
        let shape = Shape { options: options.tree.clone(), reducer: options.reducer.clone() };
        Ok(StoreSnapshot { state: Arc::new(state), shape })
    }

    /// Applies all of `edits`, or none, and returns the number of the commit that has them once it
    /// is durable. Of two edits of one key the last wins. Edits that change nothing make no commit.
    ///
    /// Writers that call this at the same time share one commit and one flush. Cost: O(edits x
    /// height) node reads, each changed node written once, one flush.
    ///
    /// Errors: [`Error::TooLarge`] and [`Error::ReadOnly`] change nothing; after [`Error::Io`] the
    /// handle answers [`Error::Poisoned`] to writers until [`Store::reopen`].
    // spec: COMMIT-1, COMMIT-7
    pub fn commit(&self, edits: Vec<Edit>) -> Result<u64> {
        for edit in &edits {
            self.check_sizes(edit)?;
        }
        let done = self.queue.submit(edits, |group| {
            let writers = group.len();
            let result = self.apply(group.into_iter().flatten().collect());
            vec![result; writers]
        });
        done.unwrap_or_else(|_| Err(Error::Poisoned { path: self.file.path().to_path_buf() }))
    }

    fn check_sizes(&self, edit: &Edit) -> Result<()> {
        let value = edit.value.as_ref().map_or(0, Vec::len);
        for (what, size, limit) in [
            ("key", edit.key.len(), self.shape.options.key_bytes_max),
            ("value", value, self.value_bytes_max),
        ] {
            if size > limit {
                return Err(Error::TooLarge { what, size: size as u64, limit: limit as u64 });
            }
        }
        Ok(())
    }

    fn apply(&self, edits: Vec<Edit>) -> Result<u64> {
        self.file.write(|writer, before| {
            let tree = before.roots.apply(writer, &before.cache, &self.shape, &edits)?;
            let changed = tree != before.roots;
            Ok((changed.then_some(tree), before.number() + u64::from(changed)))
        })
    }

    /// The newest committed state, which stays readable whatever happens to the store.
    pub fn snapshot(&self) -> Result<StoreSnapshot> {
        Ok(StoreSnapshot { state: self.file.current()?, shape: self.shape.clone() })
    }

    /// The state of commit `number`. Cost: O(log n) reads for n commits.
    ///
    /// Errors: [`Error::NoSuchCommit`], [`Error::Compacted`], [`Error::Corrupt`], [`Error::Io`].
    pub fn snapshot_at(&self, number: u64) -> Result<StoreSnapshot> {
        let state = Arc::new(self.file.current()?.at(number)?);
        Ok(StoreSnapshot { state, shape: self.shape.clone() })
    }

    /// Rewrites the store into a new file without history and garbage, as dense as a fresh sorted
    /// load, and swaps it in. Readers and writers go on; old snapshots stay readable; commit
    /// numbers go on. `watch` is called every so many rows and between rounds,
    /// and may cancel.
    ///
    /// Errors: [`Error::CompactionRunning`], [`Error::Cancelled`], [`Error::Corrupt`],
    /// [`Error::Io`]; after each of them the store is as it was.
    pub fn compact(&self, watch: &mut dyn FnMut() -> ControlFlow<()>) -> Result<()> {
        let mut copier = TreeCopier { shape: &self.shape, cache: NodeCache::new(COPY_CACHE_BYTES) };
        let hold = |last_round: &mut dyn FnMut() -> Result<()>| {
            let held = self.queue.exclusive(last_round);
            held.unwrap_or_else(|_| Err(Error::Poisoned { path: self.file.path().to_path_buf() }))
        };
        self.file.compact(&mut copier, &hold, watch)
    }

    /// After a failed write: recovers in place and takes writes again. The failed commit is there
    /// whole or not at all.
    pub fn reopen(&self) -> Result<RecoveryReport> {
        self.queue.revive(|| self.file.reopen())
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

impl Roots for Tree {
    fn empty() -> Tree {
        Tree::empty()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Tree::encode(self, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Tree> {
        Tree::decode(reader)
    }

    fn lie_before(&self, offset: u64) -> bool {
        self.root().is_none_or(|root| root.ends_before(offset))
    }
}

/// Bytes of the new file's nodes that a compaction keeps while it catches up.
pub(crate) const COPY_CACHE_BYTES: usize = 1 << 20;

struct TreeCopier<'a> {
    shape: &'a Shape,
    /// Nodes of the new file; those of the old one have their own cache.
    cache: NodeCache,
}

impl Copier<Tree> for TreeCopier<'_> {
    // spec: COMPACT-6
    fn copy(
        &mut self,
        from: &Committed<Tree>,
        into: &mut FileWriter,
        watch: &mut Watch<'_>,
    ) -> Result<Tree> {
        from.copy_tree(&from.roots, &KeyRange::all(), self.shape, into, watch)
    }

    fn catch_up(
        &mut self,
        old: &Committed<Tree>,
        new: &Committed<Tree>,
        copied: Tree,
        into: &mut FileWriter,
    ) -> Result<Tree> {
        let edits = new.changes_between(&old.roots, &new.roots)?;
        copied.apply(into, &self.cache, self.shape, &edits)
    }

    fn agree(&self, original: &Tree, copied: &Tree) -> bool {
        original.row_count() == copied.row_count() && original.reduction() == copied.reduction()
    }
}

/// A committed state of a [`Store`].
///
/// ```
/// use rereduce::env::Env;
/// use rereduce::reduce::Count;
/// use rereduce::store::{Store, StoreOptions};
/// use rereduce::vocabulary::{Edit, KeyRange};
/// let store = Store::open(Env::memory(), "db".as_ref(), StoreOptions::default())?;
/// store.commit((0..100u8).map(|key| Edit::put([key], "x")).collect())?;
/// let snapshot = store.snapshot()?;
/// let reduction = snapshot.reduce(&KeyRange::of([10u8]..[20u8]))?;
/// assert_eq!(Count::decode(&reduction), Some(10));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct StoreSnapshot {
    state: Arc<Committed<Tree>>,
    shape: Shape,
}

impl StoreSnapshot {
    /// The commit's number; 0 for a store without commits.
    pub fn number(&self) -> u64 {
        self.state.number()
    }

    /// The number of the oldest commit that can still be opened.
    pub fn oldest(&self) -> u64 {
        self.state.oldest()
    }

    /// The commit's identity; `None` for a store without commits.
    pub fn id(&self) -> Option<CommitId> {
        self.state.id()
    }

    /// Whether this commit is known to be flushed. A reader in another process may see one commit
    /// that is not yet.
    pub fn is_witnessed(&self) -> Result<bool> {
        self.state.is_witnessed()
    }

    /// The commit before this one; `None` for the first one in the file. Cost: one read.
    pub fn parent(&self) -> Result<Option<StoreSnapshot>> {
        let shape = self.shape.clone();
        Ok(self.state.parent()?.map(|state| StoreSnapshot { state: Arc::new(state), shape }))
    }

    /// Rows in the store.
    pub fn row_count(&self) -> u64 {
        self.state.roots.row_count()
    }

    /// The value of `key`. Cost: one node read for each level of the tree, less what is cached.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.state.roots.get(&self.state.nodes(), key)
    }

    /// The value of `key`, borrowed from the node that holds it. Cost: as [`StoreSnapshot::get`],
    /// without the copy.
    pub fn find(&self, key: &[u8]) -> Result<Option<Value>> {
        self.state.roots.find(&self.state.nodes(), key)
    }

    /// Visits the rows of `range` in `direction` until the range or the visitor ends.
    pub fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.state.roots.scan(&self.state.nodes(), range, direction, visit)
    }

    /// The reduction of the rows in `range`. Cost: at most two node reads for each level.
    pub fn reduce(&self, range: &KeyRange) -> Result<Vec<u8>> {
        self.state.roots.reduce(&self.state.nodes(), &self.shape, range)
    }

    /// Verifies everything under this commit: structure, order, sizes, reductions recomputed, and
    /// what the commit's footers say. Damage and broken rules are listed in the answer. Cost: reads
    /// every node.
    ///
    /// Errors: [`Error::Io`].
    // spec: ROT-4, ROT-5
    pub fn check(&self) -> Result<Checked> {
        let mut checked = self.state.roots.check(&self.state.nodes(), &self.shape)?;
        for wrong in self.state.check_twins()?.wrong {
            let pointer = Pointer::at(wrong.offset);
            checked.violations.push(Violation { pointer, rule: Rule::Damaged(wrong.into()) });
        }
        Ok(checked)
    }

    /// Copies of the header and of this commit's footers that are damaged while their twins are
    /// whole: nothing is lost yet. A crash during a commit can leave one too; the next commit
    /// writes a fresh pair. Cost: a few reads of a block.
    ///
    /// Errors: [`Error::Io`].
    // spec: ROT-4
    pub fn lost_copies(&self) -> Result<Vec<Corruption>> {
        Ok(self.state.check_twins()?.lost)
    }
}

impl KvSnapshot for StoreSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        StoreSnapshot::get(self, key)
    }

    fn scan(&self, range: &KeyRange, direction: Direction, visit: &mut Visit<'_>) -> Result<()> {
        StoreSnapshot::scan(self, range, direction, visit)
    }
}

impl OrderedKv for Store {
    fn commit(&self, edits: &[Edit]) -> Result<()> {
        Store::commit(self, edits.to_vec()).map(drop)
    }

    fn snapshot(&self) -> Result<Box<dyn KvSnapshot>> {
        Ok(Box::new(Store::snapshot(self)?))
    }
}
