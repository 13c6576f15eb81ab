//! Compaction: copying the newest state into a new file and swapping it in.
//!
//! ```text
//!   copy a snapshot ──► catch up ──► catch up ──► hold the writer, last round
//!       writers go on      ...          ...          flush, rename, flush the directory
//! ```
//!
//! Invariant: at every moment the file's name means a file with all acknowledged commits, and
//! nothing is acknowledged between the last round and the flush of the directory.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Committed, CommittedFile, Roots, Writing, locked};
use crate::btree::{self, Builder, CachedNodes, NodeCache, Shape, Tree};
use crate::error::{Error, Result};
use crate::file::{FileWriter, OpenFile, ReadAhead, sibling};
use crate::mark;
use crate::vocabulary::{Edit, KeyRange};

/// Rows that a compaction copies between two questions whether to go on.
const ROWS_PER_QUESTION: u64 = 1024;

/// Asks the caller of a compaction whether to go on.
pub(crate) struct Watch<'a> {
    ask: &'a mut dyn FnMut() -> ControlFlow<()>,
    rows: u64,
}

impl Watch<'_> {
    /// Asks; [`Error::Cancelled`] if the caller wants to stop.
    // spec: COMPACT-3
    fn ask(&mut self) -> Result<()> {
        match (self.ask)() {
            ControlFlow::Break(()) if !mark::planted("cancelled-compaction-swaps") => {
                Err(Error::Cancelled { operation: "compaction" })
            }
            _ => Ok(()),
        }
    }

    /// Asks now and then, as rows go by.
    pub(crate) fn row(&mut self) -> Result<()> {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_PER_QUESTION) { self.ask() } else { Ok(()) }
    }
}

/// How a compaction copies states of one kind of roots.
pub(crate) trait Copier<R> {
    /// Writes all of `from` into an empty file.
    fn copy(
        &mut self,
        from: &Committed<R>,
        into: &mut FileWriter,
        watch: &mut Watch<'_>,
    ) -> Result<R>;

    /// Given that `copied` in the new file equals `old`, makes it equal to `new`, which is a later
    /// state of the same file as `old`. Cost: proportional to what changed.
    fn catch_up(
        &mut self,
        old: &Committed<R>,
        new: &Committed<R>,
        copied: R,
        into: &mut FileWriter,
    ) -> Result<R>;

    /// Whether the compacted roots hold as much as the originals: counts and reductions.
    fn agree(&self, original: &R, copied: &R) -> bool;
}

impl<R: Roots> Committed<R> {
    /// Writes the rows of `range` of one of this state's trees into another file, bottom up. The
    /// old nodes are read in the order in which they lie there.
    pub(crate) fn copy_tree(
        &self,
        tree: &Tree,
        range: &KeyRange,
        shape: &Shape,
        into: &mut FileWriter,
        watch: &mut Watch<'_>,
    ) -> Result<Tree> {
        let mut builder = Builder::new(shape);
        let ahead = ReadAhead::new(&self.file);
        let nodes = CachedNodes::new(&ahead, &self.cache);
        tree.try_scan(&nodes, range, &mut |key, value| {
            watch.row()?;
            builder.push(into, key, value)
        })?;
        builder.finish(into)
    }

    /// The edits that turn `before`, a tree of an earlier state, into `after`, one of this state.
    pub(crate) fn changes_between(&self, before: &Tree, after: &Tree) -> Result<Vec<Edit>> {
        let mut edits = Vec::new();
        btree::diff(before, after, &self.nodes(), &mut |key, _, value| {
            edits.push(Edit { key: key.to_vec(), value: value.map(<[u8]>::to_vec) });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(edits)
    }
}

/// Runs a compaction's last round where no commit can begin.
pub(crate) type Hold<'a> = dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<()> + 'a;

/// Rounds of catching up before the one that holds the writer.
const FREE_ROUNDS_MAX: usize = 8;

impl<R: Roots> CommittedFile<R> {
    /// Copies the newest state into a new file and swaps it in, while writers go on; `hold` runs
    /// the last round where no commit can begin.
    // spec: COMPACT-1, COMPACT-2, COMPACT-3, COMPACT-4
    pub(crate) fn compact(
        &self,
        copier: &mut dyn Copier<R>,
        hold: &Hold<'_>,
        watch: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<()> {
        // First, so that nobody waits for a swap only to be refused, or to begin anew after it.
        let _running = Running::begin(&self.compacting, &self.path)?;
        if self.writing(&mut locked(&self.writer))?.writer.is_poisoned() {
            return Err(Error::Poisoned { path: self.path.clone() });
        }
        let target = sibling(&self.path, "compact");
        let mut watch = Watch { ask: watch, rows: 0 };
        let result = self.compact_into(&target, copier, hold, &mut watch);
        if result.is_err() {
            // What is left of the attempt is of no use; the next one removes it if this fails.
            let _ = self.env.disk.remove(&target);
        }
        result
    }

    fn compact_into(
        &self,
        target: &Path,
        copier: &mut dyn Copier<R>,
        hold: &Hold<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let mut reached = self.published.load();
        if reached.footer.is_none() {
            return Ok(());
        }
        let database = reached.file.header().database;
        let file = OpenFile::create_unnamed(&self.env, target, &self.path, database)?;
        let mut into = FileWriter::begin(Arc::new(file), reached.number(), self.options.protocol);
        let mut copied = copier.copy(&reached, &mut into, watch)?;
        for _ in 0..FREE_ROUNDS_MAX {
            watch.ask()?;
            let now = self.published.load();
            if now.number() == reached.number() {
                break;
            }
            mark::hit("compaction-caught-up");
            copied = copier.catch_up(&reached, &now, copied, &mut into)?;
            reached = now;
        }
        let mut last = Some((copied, into));
        hold(&mut || {
            let Some((copied, into)) = last.take() else { return Ok(()) };
            self.swap(target, copier, &reached, copied, into)
        })
    }

    /// The last round: nothing commits while this runs.
    fn swap(
        &self,
        target: &Path,
        copier: &mut dyn Copier<R>,
        reached: &Committed<R>,
        copied: R,
        mut into: FileWriter,
    ) -> Result<()> {
        let mut guard = locked(&self.writer);
        let writing = self.writing(&mut guard)?;
        if writing.writer.is_poisoned() {
            return Err(Error::Poisoned { path: self.path.clone() });
        }
        // Uploads whose chunks wait for their edit take them from the old file.
        writing.writer.leave()?;
        let now = self.published.load();
        // The second bug is that nobody notices the first.
        let unfinished =
            mark::planted("last-round-left-out") || mark::planted("swap-without-agreement");
        let copied = match unfinished {
            true => copied,
            false => copier.catch_up(reached, &now, copied, &mut into)?,
        };
        if !copier.agree(&now.roots, &copied) && !mark::planted("swap-without-agreement") {
            let (expected, got) = ("as many rows as the compaction copied", "another number");
            return Err(now.file.damage(0, expected, got));
        }
        let mut payload = Vec::new();
        copied.encode(&mut payload);
        into.number_next(now.number());
        let early = mark::planted("rename-before-flush");
        if early {
            self.rename_over(target, writing, &now)?;
        }
        into.commit(&payload)?;
        into.seal()?;
        // spec: COMPACT-6
        if !mark::planted("permissions-not-kept") {
            into.file().copy_attributes(&self.path)?;
        }
        if !early {
            self.rename_over(target, writing, &now)?;
        }
        let cache = match mark::planted("swap-keeps-the-cache") {
            true => now.cache.clone(),
            false => Arc::new(NodeCache::new(self.options.cache_bytes)),
        };
        let synced = match mark::planted("swap-without-directory-sync") {
            true => Ok(()),
            false => self.env.disk.sync_dir(&self.path),
        };
        if synced.is_err() {
            // Nobody knows which file the name will mean after a crash.
            into.poison();
        }
        writing.earlier = writing.counts();
        self.publish_state(&into, &cache, copied);
        writing.writer = into;
        writing.name_flushed = synced.is_ok();
        synced
    }

    /// Renames the compacted file into place. If the system reports an error and the name does not
    /// mean the old file any more, the old writer must not go on.
    fn rename_over(&self, target: &Path, writing: &mut Writing, now: &Committed<R>) -> Result<()> {
        if mark::planted("swap-removes-first") {
            self.env.disk.remove(&self.path)?;
        }
        let renamed = self.env.disk.rename(target, &self.path);
        if renamed.is_err() {
            let old = now.file.identity().ok();
            let named = self.env.disk.identity(&self.path).ok().flatten();
            if old.is_none() || old != named {
                writing.writer.poison();
            }
        }
        renamed
    }
}

/// Says that a compaction runs, until it is dropped.
struct Running<'a>(&'a AtomicBool);

impl<'a> Running<'a> {
    // spec: COMPACT-5
    fn begin(flag: &'a AtomicBool, path: &Path) -> Result<Running<'a>> {
        if flag.swap(true, Ordering::AcqRel) && !mark::planted("two-compactions-at-once") {
            return Err(Error::CompactionRunning { path: path.to_path_buf() });
        }
        Ok(Running(flag))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
