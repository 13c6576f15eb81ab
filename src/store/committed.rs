//! One file and its committed states: the part that every engine of this crate is built on.
//!
//! ```text
//!  writers ── lock ──► FileWriter ── commit ──► publish ──► readers
//!                          │                                (each keeps its state)
//!                       poisoned after a failed write, until `reopen`
//! ```
//!
//! A state is a set of tree roots. This module opens the file under the writer's lock, recovers,
//! hands states to readers, commits new ones, opens old ones by number, and (in `swap`) swaps the
//! file for a compacted one. What the roots mean is the caller's business ([`Roots`]).
//!
//! Invariant: a state is published after its flush and never changes; whatever goes wrong, the
//! published state is one that was acknowledged or recovered.

mod swap;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::btree::{CachedNodes, NodeCache};
use crate::codec::Reader;
use crate::env::{Access, DiskLock, Env};
use crate::error::{Error, Result};
use crate::file::{
    ChunkSource, CommitId, FileId, FileWriter, Footer, OpenFile, Payload, Protocol, Recovered,
    RecoveryReport, TwinsChecked, WriteCounts, check_twins, history, newest_whole, recover,
    sibling,
};
use crate::mark;
use crate::publish::{Published, Waited};
pub(crate) use swap::{Copier, Watch};

/// A set of tree roots, as a footer keeps it.
pub(crate) trait Roots: Clone + PartialEq + Send + Sync + 'static {
    /// The roots of an empty database.
    fn empty() -> Self;
    /// Appends the stored form.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads the stored form; `None` for anything else.
    fn decode(reader: &mut Reader<'_>) -> Option<Self>;
    /// Whether everything that the roots point at ends at or before `offset`.
    fn lie_before(&self, offset: u64) -> bool;
}

/// One committed state, and all that is needed to read it.
pub(crate) struct Committed<R> {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) cache: Arc<NodeCache>,
    pub(crate) roots: R,
    /// `None` before the first commit.
    footer: Option<Footer>,
    /// Known to be flushed when this state was made.
    flushed: bool,
}

impl<R: Roots> Committed<R> {
    /// Where trees of this state read their nodes.
    pub(crate) fn nodes(&self) -> CachedNodes<'_> {
        CachedNodes::new(&*self.file, &self.cache)
    }

    /// The commit's number; 0 before the first one.
    pub(crate) fn number(&self) -> u64 {
        self.footer.as_ref().map_or(0, |footer| footer.number)
    }

    /// The commit's identity, or `None` before the first one.
    pub(crate) fn id(&self) -> Option<CommitId> {
        self.footer.as_ref().map(Footer::id)
    }

    /// The number of the oldest commit in the same file, 0 if it has none.
    pub(crate) fn oldest(&self) -> u64 {
        self.footer.as_ref().map_or(0, |footer| footer.oldest)
    }

    /// Whether this commit is known to be flushed: this handle flushed it, or some whole footer
    /// says so. Cost: nothing in the first case, else a walk back from the end of the file.
    // spec: PROCESS-3
    pub(crate) fn is_witnessed(&self) -> Result<bool> {
        if self.flushed || self.footer.is_none() || mark::planted("every-commit-is-witnessed") {
            return Ok(true);
        }
        let (_, witnessed) = newest_whole(&self.file)?;
        Ok(witnessed >= self.number())
    }

    /// The state of an older commit of the same file; commit 0 is the empty state before the first
    /// one. Cost: O(log n) reads.
    // spec: HISTORY-1
    pub(crate) fn at(&self, number: u64) -> Result<Committed<R>> {
        let before_first = number == 0 && self.oldest() <= 1;
        let head = match &self.footer {
            Some(head) if !before_first => head,
            _ if before_first => return Ok(self.with_roots(R::empty(), None)),
            _ => return Err(Error::NoSuchCommit { asked: number, newest: 0 }),
        };
        let footer = history::find_commit(&self.file, head, number)?;
        self.with_footer(footer)
    }

    /// The state of the commit before this one; `None` for the first one in the file.
    pub(crate) fn parent(&self) -> Result<Option<Committed<R>>> {
        let Some(footer) = &self.footer else { return Ok(None) };
        history::find_parent(&self.file, footer)?.map(|parent| self.with_footer(parent)).transpose()
    }

    /// Both copies of the header and of this commit's footers, and the links of the commit.
    pub(crate) fn check_twins(&self) -> Result<TwinsChecked> {
        check_twins(&self.file, self.footer.as_ref())
    }

    fn with_footer(&self, footer: Footer) -> Result<Committed<R>> {
        Ok(self.with_roots(decode_roots(&self.file, &footer)?, Some(footer)))
    }

    fn with_roots(&self, roots: R, footer: Option<Footer>) -> Committed<R> {
        let older = footer.as_ref().is_none_or(|footer| footer.number < self.number());
        Committed {
            file: self.file.clone(),
            cache: self.cache.clone(),
            roots,
            footer,
            flushed: self.flushed || older,
        }
    }
}

/// How a file is opened.
#[derive(Clone, Debug)]
pub(crate) struct OpenOptions {
    pub(crate) access: Access,
    /// Make the file if there is none.
    pub(crate) create: bool,
    pub(crate) protocol: Protocol,
    pub(crate) cache_bytes: usize,
}

/// One file, open for one writer or for reading only.
pub(crate) struct CommittedFile<R> {
    env: Env,
    path: PathBuf,
    options: OpenOptions,
    published: Published<Committed<R>>,
    /// `None` for a handle that only reads, or after it was closed.
    writer: Mutex<Option<Writing>>,
    compacting: AtomicBool,
    closed: AtomicBool,
    recovery: Mutex<RecoveryReport>,
}

/// Room for the roots of one commit.
const PAYLOAD_BYTES_EXPECTED: usize = 256;

struct Writing {
    writer: FileWriter,
    /// Counts of writers before the last swap or reopen.
    earlier: WriteCounts,
    /// The directory was flushed since the file got its name.
    name_flushed: bool,
    _lock: Box<dyn DiskLock>,
}

impl<R: Roots> CommittedFile<R> {
    /// Opens the file at `path`, with the writer's lock if `options` ask for writing. Writes
    /// nothing to an existing file.
    // spec: PROCESS-1, PROCESS-2, RECOVER-2
    pub(crate) fn open(env: Env, path: &Path, options: OpenOptions) -> Result<CommittedFile<R>> {
        let lock = match options.access {
            Access::Read if mark::planted("reader-takes-the-lock") => {
                take_lock(&env, path)?;
                None
            }
            Access::Read => None,
            Access::Write => Some(take_lock(&env, path)?),
        };
        let (file, created) = open_or_create(&env, path, &options)?;
        let recovered = recover(&file)?;
        let report = recovered.report.clone();
        let file = Arc::new(file);
        let state = recovered_state(&file, &recovered, options.cache_bytes)?;
        let writer = lock.map(|lock| Writing {
            writer: FileWriter::resume(file, &recovered, options.protocol),
            earlier: WriteCounts::default(),
            name_flushed: created || mark::planted("found-name-trusted"),
            _lock: lock,
        });
        Ok(CommittedFile {
            env,
            path: path.to_path_buf(),
            options,
            published: Published::new(Arc::new(state)),
            writer: Mutex::new(writer),
            compacting: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            recovery: Mutex::new(report),
        })
    }

    /// Opens commit `number` of the file at `path` for reading, even if newer commits are damaged.
    // spec: RECOVER-6
    pub(crate) fn open_commit(
        env: &Env,
        path: &Path,
        number: u64,
        cache_bytes: usize,
    ) -> Result<Committed<R>> {
        let file = Arc::new(OpenFile::open(env, path, Access::Read)?);
        let recovered = match mark::planted("old-commits-need-a-sound-newest") {
            true => recover(&file)?,
            false => newest_whole(&file)?.0,
        };
        recovered.refuse_foreign(&file)?;
        recovered_state::<R>(&file, &recovered, cache_bytes)?.at(number)
    }

    /// Time by the clock of the environment.
    pub(crate) fn now(&self) -> Duration {
        self.env.clock.now()
    }

    /// 64 random bits of the environment.
    pub(crate) fn random(&self) -> Result<u64> {
        let mut bits = [0; 8];
        self.env.entropy.fill(&mut bits)?;
        Ok(u64::from_le_bytes(bits))
    }

    /// How this handle was opened.
    pub(crate) fn access(&self) -> Access {
        self.options.access
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the last recovery of this handle decided.
    pub(crate) fn recovery(&self) -> RecoveryReport {
        locked(&self.recovery).clone()
    }

    /// The newest committed state. A handle that only reads looks at the file first, and follows a
    /// compaction in another process.
    // spec: PROCESS-4
    pub(crate) fn current(&self) -> Result<Arc<Committed<R>>> {
        if self.options.access == Access::Read && !self.closed.load(Ordering::Acquire) {
            self.refresh()?;
        }
        Ok(self.published.load())
    }

    /// The newest state together with its version, for [`CommittedFile::wait_newer`].
    pub(crate) fn current_with_version(&self) -> Result<(Arc<Committed<R>>, u64)> {
        if self.options.access == Access::Read && !self.closed.load(Ordering::Acquire) {
            self.refresh()?;
        }
        Ok(self.published.load_with_version())
    }

    /// Waits for a state newer than version `seen`.
    pub(crate) fn wait_newer(&self, seen: u64, timeout: Option<Duration>) -> Waited {
        self.published.wait_newer(seen, timeout)
    }

    /// Counts of everything this handle wrote.
    pub(crate) fn counts(&self) -> WriteCounts {
        locked(&self.writer).as_ref().map_or(WriteCounts::default(), Writing::counts)
    }

    /// Runs `work` with the writer and the newest state. If it returns new roots they are
    /// committed and, once flushed, published; if it returns `None` nothing was changed and
    /// nothing is written. On an error chunks that are still in memory are forgotten.
    // spec: COMMIT-1, COMMIT-7
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&mut FileWriter, &Committed<R>) -> Result<(Option<R>, T)>,
    ) -> Result<T> {
        let mut guard = locked(&self.writer);
        let writing = self.writing(&mut guard)?;
        let writer = &mut writing.writer;
        if writer.is_poisoned() {
            return Err(Error::Poisoned { path: self.path.clone() });
        }
        let before = self.published.load();
        let savepoint = writer.savepoint();
        match work(writer, &before) {
            Ok((None, value)) => {
                writer.roll_back(savepoint);
                Ok(value)
            }
            Ok((Some(roots), value)) => {
                let mut payload = Vec::with_capacity(PAYLOAD_BYTES_EXPECTED);
                roots.encode(&mut payload);
                if let Err(error) = self.flush_name(&mut writing.name_flushed) {
                    writer.roll_back(savepoint);
                    return Err(error);
                }
                if mark::planted("publish-before-flush") {
                    self.publish_state(writer, &before.cache, roots.clone());
                }
                writer.commit(&payload)?;
                self.publish_state(writer, &before.cache, roots);
                Ok(value)
            }
            Err(error) => {
                writer.roll_back(savepoint);
                Err(error)
            }
        }
    }

    /// Appends chunks that a later commit will point at, without committing. Returns what `work`
    /// returns and the file it appended to.
    pub(crate) fn append<T>(
        &self,
        work: impl FnOnce(&mut FileWriter) -> Result<T>,
    ) -> Result<(T, Arc<OpenFile>)> {
        let mut guard = locked(&self.writer);
        let writing = self.writing(&mut guard)?;
        let value = work(&mut writing.writer)?;
        Ok((value, writing.writer.file().clone()))
    }

    /// Before the first commit to a file that this handle found: flushes the directory. Whoever
    /// renamed the file into place may have died before doing so, and a crash would then bring the
    /// file before it back, or none.
    // spec: FILE-5
    fn flush_name(&self, flushed: &mut bool) -> Result<()> {
        if !*flushed {
            self.env.disk.sync_dir(&self.path)?;
            *flushed = true;
        }
        Ok(())
    }

    fn publish_state(&self, writer: &FileWriter, cache: &Arc<NodeCache>, roots: R) {
        let file = writer.file().clone();
        let footer = writer.head().cloned();
        let cache = cache.clone();
        self.published.publish(Arc::new(Committed { file, cache, roots, footer, flushed: true }));
    }

    /// Recovers in place after a failed write: opens the file anew and publishes what is found.
    // spec: COMMIT-5
    pub(crate) fn reopen(&self) -> Result<RecoveryReport> {
        let mut guard = locked(&self.writer);
        self.writing(&mut guard)?;
        let file = Arc::new(OpenFile::open(&self.env, &self.path, Access::Write)?);
        let recovered = recover(&file)?;
        let state = recovered_state(&file, &recovered, self.options.cache_bytes)?;
        let writing = self.writing(&mut guard)?;
        writing.earlier = writing.counts();
        writing.writer = FileWriter::resume(file, &recovered, self.options.protocol);
        writing.name_flushed = false;
        *locked(&self.recovery) = recovered.report.clone();
        self.published.publish(Arc::new(state));
        Ok(recovered.report)
    }

    /// Seals the file and ends this handle; states that readers hold stay readable. Closing twice
    /// does nothing.
    // spec: COMMIT-6
    pub(crate) fn close(&self) -> Result<()> {
        let sealed = match locked(&self.writer).take() {
            Some(mut writing) if !writing.writer.is_poisoned() => writing.writer.seal(),
            _ => Ok(()),
        };
        self.closed.store(true, Ordering::Release);
        self.published.close();
        sealed
    }

    /// For a handle that only reads: looks whether the file grew or was swapped.
    fn refresh(&self) -> Result<()> {
        // Before the state: one thread at a time looks, so that none publishes what it saw before
        // another one found something newer.
        let first = (!mark::planted("readers-look-side-by-side")).then(|| locked(&self.recovery));
        let state = self.published.load();
        let here = self.env.disk.identity(&self.path)?;
        let swapped = here.is_some_and(|here| Some(here) != state.file.identity().ok());
        let swapped = swapped && !mark::planted("reader-stays-on-old-file");
        let mut report = first.unwrap_or_else(|| locked(&self.recovery));
        if !swapped && state.file.size()? == report.file_bytes {
            return Ok(());
        }
        let (file, cache) = if swapped {
            mark::hit("reader-followed-swap");
            let file = OpenFile::open(&self.env, &self.path, Access::Read)?;
            (Arc::new(file), Arc::new(NodeCache::new(self.options.cache_bytes)))
        } else if state.file.is_unborn() {
            let file = OpenFile::open(&self.env, &self.path, Access::Read)?;
            (Arc::new(file), state.cache.clone())
        } else {
            (state.file.clone(), state.cache.clone())
        };
        let recovered = recover(&file)?;
        if mark::planted("failed-look-remembered") {
            *report = recovered.report.clone();
        }
        let newer = recovered.head.as_ref().map(Footer::id) != state.id();
        if newer || swapped {
            let state = state_of(&file, cache, &recovered)?;
            self.published.publish(Arc::new(state));
        }
        // Last, so that a look that failed is not taken for one that found nothing.
        *report = recovered.report;
        Ok(())
    }

    fn writing<'a>(
        &self,
        guard: &'a mut MutexGuard<'_, Option<Writing>>,
    ) -> Result<&'a mut Writing> {
        let path = || self.path.clone();
        match guard.as_mut() {
            Some(writing) => Ok(writing),
            None if self.options.access == Access::Read => Err(Error::ReadOnly { path: path() }),
            None => Err(Error::Closed { path: path() }),
        }
    }
}

impl Writing {
    fn counts(&self) -> WriteCounts {
        let (now, earlier) = (self.writer.counts(), self.earlier);
        WriteCounts {
            flushes: earlier.flushes + now.flushes,
            bytes_appended: earlier.bytes_appended + now.bytes_appended,
            commits: earlier.commits + now.commits,
        }
    }
}

fn take_lock(env: &Env, path: &Path) -> Result<Box<dyn DiskLock>> {
    let lock = match env.disk.lock(&sibling(path, "lock"))? {
        None if mark::planted("second-writer-let-in") => {
            env.disk.lock(&sibling(path, "lock.second"))?
        }
        lock => lock,
    };
    lock.ok_or_else(|| Error::Locked { path: path.to_path_buf() })
}

/// The file at `path`, and whether it is new: a writer that may create makes it if it is missing
/// or unborn.
fn open_or_create(env: &Env, path: &Path, options: &OpenOptions) -> Result<(OpenFile, bool)> {
    let writes = options.access == Access::Write;
    let create = || Ok((OpenFile::create(env, path, FileId::random(env)?)?, true));
    match OpenFile::open(env, path, options.access) {
        Ok(file) if file.is_unborn() && writes => create(),
        Err(Error::NoSuchFile { .. }) if options.create && writes => create(),
        Err(Error::NotADatabase { .. }) if writes && mark::planted("foreign-file-replaced") => {
            create()
        }
        opened => Ok((opened?, false)),
    }
}

fn recovered_state<R: Roots>(
    file: &Arc<OpenFile>,
    recovered: &Recovered,
    cache_bytes: usize,
) -> Result<Committed<R>> {
    state_of(file, Arc::new(NodeCache::new(cache_bytes)), recovered)
}

fn state_of<R: Roots>(
    file: &Arc<OpenFile>,
    cache: Arc<NodeCache>,
    recovered: &Recovered,
) -> Result<Committed<R>> {
    let roots = match &recovered.head {
        Some(footer) => decode_roots(file, footer)?,
        None => R::empty(),
    };
    Ok(Committed {
        file: file.clone(),
        cache,
        roots,
        footer: recovered.head.clone(),
        flushed: recovered.report.sealed,
    })
}

fn decode_roots<R: Roots>(file: &OpenFile, footer: &Footer) -> Result<R> {
    let chunk;
    let payload: &[u8] = match &footer.payload {
        Payload::Inline(payload) => payload,
        Payload::Chunk(pointer) => {
            chunk = file.read(*pointer)?;
            &chunk
        }
    };
    let mut reader = Reader::new(payload);
    let roots = R::decode(&mut reader).filter(|_| reader.is_empty());
    // spec: CHUNK-2
    let before = |roots: &R| {
        roots.lie_before(footer.offset) || mark::planted("tree-may-lie-behind-its-footer")
    };
    let roots = roots.filter(before);
    roots.ok_or_else(|| file.damage(footer.offset, "the roots of our trees", "other bytes"))
}

/// Every change under these locks is one assignment, so a panic leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
