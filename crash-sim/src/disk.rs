//! A disk in memory that records every call, fails by plan, and knows what a crash would leave.
//!
//! Invariant: a call that succeeds does exactly what the same call does on a real disk with a page
//! cache; nothing is random, so the same program leaves the same trace and the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use rereduce::env::{Access, Disk, DiskFile, DiskLock, FileIdentity, read_whole, write_whole};
use rereduce::{Error, Result};

use crate::cache::{PageCache, directory_of};
use crate::fault::FaultKind;
use crate::image::Image;
use crate::plan::{Answer, Errno, Failure, Plan};
use crate::trace::{Call, Entry};

/// Bytes of a sector, the smallest unit that a write leaves whole.
pub const SECTOR_BYTES: u64 = 512;

/// A simulated disk. Clones share the files.
///
/// ```
/// use rereduce::env::Disk;
/// use rereduce_crash_sim::SimDisk;
/// use std::path::Path;
/// let disk = SimDisk::new();
/// disk.create(Path::new("a"))?.append(b"bytes")?;
/// let lines: Vec<String> = disk.trace().iter().map(|entry| entry.to_string()).collect();
/// assert_eq!(lines, ["create a", "append a 0+5"]);
///
/// disk.set_plan("sync 1 EIO".parse().unwrap());
/// assert!(disk.open(Path::new("a"), rereduce::env::Access::Write)?.sync().is_err());
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// How a file came to be in doubt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Badly {
    /// An append to it, a rewrite or a flush failed.
    File,
    /// The flush of the directory failed after the file was renamed to where it is.
    Name,
}

struct State {
    cache: PageCache,
    plan: Plan,
    trace: Vec<Entry>,
    records: bool,
    changes: u64,
    failures: u64,
    /// How often each kind of fault struck a call, in the order of [`FaultKind::ALL`].
    struck: [u64; FaultKind::ALL.len()],
    /// What the next flush of a file will tell of one before it.
    late: BTreeMap<u64, Failure>,
    locked: BTreeSet<PathBuf>,
}

struct SimFile {
    inode: u64,
    path: Arc<Path>,
    access: Access,
    disk: SimDisk,
}

struct SimLock {
    path: PathBuf,
    disk: SimDisk,
}

impl SimDisk {
    /// An empty disk that records.
    pub fn new() -> SimDisk {
        SimDisk::with(PageCache::new(Some(SECTOR_BYTES)), true)
    }

    /// A disk that holds what a crash left, records, and can be crashed again.
    pub fn recording(image: &Image) -> SimDisk {
        let mut cache = PageCache::new(Some(SECTOR_BYTES));
        image.place_into(&mut cache);
        SimDisk::with(cache, true)
    }

    /// A disk that holds what a crash left and keeps no record; opening it copies only the bytes
    /// that the crash could have changed. It does not know what was flushed, so that a failed flush
    /// drops no pages here.
    pub fn open_image(image: &Image) -> SimDisk {
        let mut cache = PageCache::new(None);
        image.place_into(&mut cache);
        SimDisk::with(cache, false)
    }

    fn with(cache: PageCache, records: bool) -> SimDisk {
        let state = State {
            cache,
            plan: Plan::default(),
            trace: Vec::new(),
            records,
            changes: 0,
            failures: 0,
            struck: [0; FaultKind::ALL.len()],
            late: BTreeMap::new(),
            locked: BTreeSet::new(),
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Sets which calls go wrong from now on; [`Plan::default`] lifts all faults, also an error
    /// that a flush still had to report.
    pub fn set_plan(&self, plan: Plan) {
        let mut state = self.state();
        state.plan = plan;
        state.late.clear();
    }

    /// Writes a note into the trace.
    pub fn note(&self, entry: Entry) {
        let mut state = self.state();
        if state.records {
            state.trace.push(entry);
        }
    }

    /// Everything that happened so far.
    pub fn trace(&self) -> Vec<Entry> {
        self.state().trace.clone()
    }

    /// How many calls so far could change the disk; reading and locking do not count.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// How many calls so far failed by plan. A flush that lied did not fail, nor did a write that
    /// was cut short and gone on with.
    pub fn failures(&self) -> u64 {
        self.state().failures
    }

    /// How often a call so far suffered a fault of this kind, whether or not its caller could tell.
    /// Only the kinds of [`FaultKind::CALL`] strike calls; an append that met the end of a quota
    /// counts as [`FaultKind::ResourceLimit`] and as [`FaultKind::NoSpace`].
    // spec: DISK-13
    pub fn struck(&self, kind: FaultKind) -> u64 {
        self.state().struck[kind.number() - 1]
    }

    /// A copy of what reads of the file at `path` show, or `None` if there is none.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.cache.names.get(path)?;
        Some(state.cache.inodes.get(inode)?.content.to_vec())
    }

    /// The names on the disk, sorted.
    pub fn names(&self) -> Vec<PathBuf> {
        self.state().cache.names.keys().map(|path| path.to_path_buf()).collect()
    }

    /// Whether any call so far suffered a fault.
    pub(crate) fn is_struck(&self) -> bool {
        self.state().struck.iter().any(|count| *count > 0)
    }

    /// How many entries the trace has.
    pub(crate) fn entry_count(&self) -> usize {
        self.state().trace.len()
    }

    /// What failed, since the trace had `from` entries, that leaves in doubt what the file now at
    /// `path` holds or whether it stays there.
    pub(crate) fn written_badly_since(&self, from: usize, path: &Path) -> Option<Badly> {
        let state = self.state();
        let here = state.cache.names.get(path)?;
        let mut renamed = false;
        state.trace.get(from..)?.iter().find_map(|entry| {
            let Entry::Call(call, failure) = entry else { return None };
            let failed = failure.is_some_and(|failure| failure.is_seen_in(call));
            match call {
                Call::Append { inode, .. }
                | Call::Rewrite { inode, .. }
                | Call::Sync { inode, .. } => (failed && inode == here).then_some(Badly::File),
                Call::SyncDir { .. } => (failed && renamed).then_some(Badly::Name),
                Call::Rename { to, .. } => {
                    renamed |= !failed && **to == *path;
                    None
                }
                _ => None,
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of the engine under test leaves plain data behind.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::new()
    }
}

impl State {
    /// One call to the system: does it or what the plan leaves of it, and records which. Returns
    /// how many bytes a write wrote, or the most that a read may bring.
    // spec: DISK-7
    fn system(&mut self, mut call: Call) -> io::Result<u64> {
        let failure = self.strike(&call);
        let most = match failure.map(|failure| (failure.answer, failure.written)) {
            None | Some((Answer::Lie | Answer::Late(_), _)) => u64::MAX,
            Some((Answer::ShortRead(count), _)) => count,
            Some((Answer::ShortWrite | Answer::Error(_), written)) => written,
        };
        let count = call.cut(most);
        self.changes += u64::from(call.changes_the_disk());
        self.cache.apply(self.trace.len(), &call, failure);
        if self.records {
            self.trace.push(Entry::Call(call, failure));
        }
        match failure.and_then(|failure| failure.error()) {
            None => Ok(count),
            Some(errno) => Err(errno.to_io_error()),
        }
    }

    /// How `call` goes wrong, if it does: as an earlier flush left it to this one, as the plan has
    /// it, or because it would cross the quota.
    // spec: DISK-10, DISK-11
    fn strike(&mut self, call: &Call) -> Option<Failure> {
        let planned = self.plan.strike(call);
        if let Call::Sync { inode, .. } = call {
            if let Some(late) = self.late.remove(inode) {
                return Some(late);
            }
            if let Some(Failure { answer: Answer::Late(errno), pages, .. }) = planned {
                self.late.insert(*inode, Failure::new(errno).pages(pages));
            }
        }
        let failure = planned.or_else(|| self.crosses_quota(call));
        if let Some(failure) = failure {
            self.count(failure.kind(call));
        }
        failure
    }

    fn crosses_quota(&mut self, call: &Call) -> Option<Failure> {
        let (Call::Append { bytes, .. }, Some(quota)) = (call, self.plan.room()) else {
            return None;
        };
        let left = quota.saturating_sub(self.cache.named_bytes());
        if bytes.len() as u64 <= left {
            return None;
        }
        self.count(FaultKind::ResourceLimit);
        Some(Failure::new(Errno::NoSpace).written(left))
    }

    fn count(&mut self, kind: FaultKind) {
        self.struck[kind.number() - 1] += 1;
    }

    /// Does `call`, once more if it is interrupted and of the kind that the standard library makes
    /// once more.
    // spec: DISK-9
    fn perform(&mut self, call: Call, operation: &'static str, path: &Path) -> Result<()> {
        let result = loop {
            match self.system(call.clone()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted && call.is_restarted() => {
                }
                result => break result,
            }
        };
        self.shown(result, operation, path).map(drop)
    }

    /// What the caller of the seam sees of `result`.
    fn shown<T>(
        &mut self,
        result: io::Result<T>,
        operation: &'static str,
        path: &Path,
    ) -> Result<T> {
        self.failures += u64::from(result.is_err());
        result.map_err(|error| Error::io(operation, path, error))
    }

    fn find(&self, path: &Path) -> Result<u64> {
        let found = self.cache.names.get(path).copied();
        found.ok_or_else(|| Error::NoSuchFile { path: path.to_path_buf() })
    }

    fn size(&self, inode: u64) -> u64 {
        self.cache.inodes.get(&inode).map_or(0, |file| file.content.len())
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let (shared, write): (Arc<Path>, _) = (path.into(), access == Access::Write);
        state.perform(Call::Open { path: shared.clone(), write }, "open", path)?;
        let inode = state.find(path)?;
        Ok(Box::new(SimFile { inode, path: shared, access, disk: self.clone() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if state.cache.names.contains_key(path) {
            return Err(Error::io("create", path, io::ErrorKind::AlreadyExists.into()));
        }
        let (shared, inode): (Arc<Path>, _) = (path.into(), state.cache.next_inode());
        state.perform(Call::Create { path: shared.clone(), inode }, "create", path)?;
        Ok(Box::new(SimFile { inode, path: shared, access: Access::Write, disk: self.clone() }))
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn DiskLock>>> {
        let mut state = self.state();
        state.perform(Call::Lock { path: path.into() }, "lock", path)?;
        // The lock file itself is left out of the world: it holds nothing and a crash frees it.
        if !state.locked.insert(path.to_path_buf()) {
            return Ok(None);
        }
        Ok(Some(Box::new(SimLock { path: path.to_path_buf(), disk: self.clone() })))
    }

    fn identity(&self, path: &Path) -> Result<Option<FileIdentity>> {
        let mut state = self.state();
        state.perform(Call::Identify { path: path.into() }, "stat", path)?;
        let inode = state.cache.names.get(path).copied();
        Ok(inode.map(|inode| FileIdentity { device: 0, inode }))
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let mut state = self.state();
        state.perform(Call::List { directory: directory.into() }, "list", directory)?;
        let inside = |path: &&Arc<Path>| path.parent() == Some(directory);
        Ok(state.cache.names.keys().filter(inside).map(|path| path.to_path_buf()).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        let inode = state.find(from)?;
        state.perform(Call::Rename { from: from.into(), to: to.into(), inode }, "rename", from)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        state.find(path)?;
        state.perform(Call::Remove { path: path.into() }, "remove", path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let directory = directory_of(path);
        self.state().perform(Call::SyncDir { directory }, "flush directory", path)
    }
}

impl SimFile {
    fn must_be_writable(&self, operation: &'static str) -> Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => {
                Err(Error::io(operation, &self.path, io::ErrorKind::PermissionDenied.into()))
            }
        }
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> Result<u64> {
        Ok(self.disk.state().size(self.inode))
    }

    fn append(&self, bytes: &[u8]) -> Result<u64> {
        self.must_be_writable("append to")?;
        let mut state = self.disk.state();
        let (inode, end) = (self.inode, state.size(self.inode));
        let result = write_whole(bytes, |rest, before| {
            let (path, offset) = (self.path.clone(), end + before);
            let call = Call::Append { inode, path, offset, bytes: rest.into() };
            state.system(call).map(|count| count as usize)
        });
        state.shown(result, "append to", &self.path)?;
        Ok(end)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut state = self.disk.state();
        let result = read_whole(buffer, |rest, before| {
            let (path, offset, length) =
                (self.path.clone(), offset.saturating_add(before), rest.len() as u64);
            // The call that only finds the end of the file is nobody's to see.
            if before > 0 && offset >= state.size(self.inode) {
                return Ok(0);
            }
            let most = state.system(Call::Read { path, offset, length })?;
            let most = rest.len().min(most as usize);
            let file = state.cache.inodes.get(&self.inode);
            Ok(file.map_or(0, |file| file.content.read_at(offset, &mut rest[..most])))
        });
        state.shown(result, "read", &self.path)
    }

    fn rewrite_same(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.must_be_writable("rewrite")?;
        let mut held = vec![0; bytes.len()];
        let mut state = self.disk.state();
        let file = state.cache.inodes.get(&self.inode);
        let count = file.map_or(0, |file| file.content.read_at(offset, &mut held));
        assert!(
            held[..count] == *bytes,
            "rewrite_same was given other bytes than the file holds at {offset}"
        );
        let result = write_whole(bytes, |rest, before| {
            let (path, offset) = (self.path.clone(), offset + before);
            let (inode, length) = (self.inode, rest.len() as u64);
            let call = Call::Rewrite { inode, path, offset, length };
            state.system(call).map(|count| count as usize)
        });
        state.shown(result, "rewrite", &self.path)
    }

    fn sync(&self) -> Result<()> {
        let call = Call::Sync { inode: self.inode, path: self.path.clone() };
        self.disk.state().perform(call, "flush", &self.path)
    }

    fn identity(&self) -> Result<FileIdentity> {
        Ok(FileIdentity { device: 0, inode: self.inode })
    }

    fn copy_attributes(&self, _other: &Path) -> Result<()> {
        Ok(())
    }
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}
