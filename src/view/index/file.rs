//! The file of an index: opened when it is needed, replaced when it is of no use.
//!
//! ```text
//!   NAME.rereduce.views/SIGNATURE                     the index
//!   NAME.rereduce.views/SIGNATURE.rereduce.lock       who writes it
//!   NAME.rereduce.views/SIGNATURE.rereduce.compact    a compaction in progress
//! ```
//!
//! An index can always be built again, so a file that cannot be opened, or in which damage was
//! met, gives way to an empty one. An index that must be built anew for another reason begins in a
//! fresh file too: one without commits is swapped in as a compaction does it, so that a crash
//! leaves the old file or the empty one, and whoever reads the old one goes on.
//!
//! Invariant: whatever this file's name means after a crash, it is damage, or an index that says
//! what it was made from.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::compact::{IndexCopier, Nothing};
use super::roots::IndexRoots;
use super::state::{Damage, IndexShapes};
use super::{locked, try_locked};
use crate::env::{Access, Env};
use crate::error::{Error, Result};
use crate::file::{FileWriter, Protocol, RecoveryReport, WriteCounts, sibling};
use crate::mark;
use crate::store::committed::{Committed, CommittedFile, OpenOptions};

/// The file of one index.
pub(crate) struct IndexFile {
    env: Env,
    path: PathBuf,
    access: Access,
    protocol: Protocol,
    cache_bytes: usize,
    /// The roots of an index of these views that has seen nothing.
    nothing: IndexRoots,
    /// Whether damage was met in the file that has the name now; another file, another answer.
    damage: Mutex<Arc<Damage>>,
    opened: Mutex<Option<Opened>>,
    /// Held by a compaction as long as it runs.
    compacting: Mutex<()>,
    /// Tells a compaction to make way for an index that is built anew.
    make_way: AtomicBool,
    closed: AtomicBool,
}

type Opened = Arc<CommittedFile<IndexRoots>>;

/// What becomes of a write: new roots, if there are any, and its answer.
type Written<T> = (Option<IndexRoots>, T);

impl IndexFile {
    pub(crate) fn new(
        env: &Env,
        path: PathBuf,
        options: &super::ViewsOptions,
        nothing: IndexRoots,
    ) -> IndexFile {
        IndexFile {
            env: env.clone(),
            damage: Mutex::new(Arc::new(Damage::none_in(&path))),
            path,
            access: options.access,
            protocol: options.protocol,
            cache_bytes: options.cache_bytes,
            nothing,
            opened: Mutex::new(None),
            compacting: Mutex::new(()),
            make_way: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn nothing(&self) -> &IndexRoots {
        &self.nothing
    }

    pub(crate) fn damage(&self) -> Arc<Damage> {
        locked(&self.damage).clone()
    }

    /// Another file has the name now.
    fn forget_damage(&self) {
        *locked(&self.damage) = Arc::new(Damage::none_in(&self.path));
    }

    /// Opens the file for writing, unless it is; says whether one that was of no use gave way.
    ///
    /// Errors: [`Error::Locked`] if another handle or process writes it, [`Error::Io`] where
    /// nothing can be written, [`Error::ReadOnly`] if `options` say so.
    // spec: VIEW-11, VIEW-12
    pub(crate) fn open_for_writing(&self) -> Result<bool> {
        let mut opened = locked(&self.opened);
        self.refuse_closed()?;
        if opened.as_ref().is_some_and(|file| file.access() == Access::Write) {
            return Ok(false);
        }
        if self.access == Access::Read {
            return Err(Error::ReadOnly { path: self.path.clone() });
        }
        self.make_directory()?;
        let (file, replaced) = match self.open(Access::Write) {
            Err(error) if self.is_of_no_use(&error) => {
                mark::hit("view-file-replaced");
                self.remove_damaged()?;
                (self.open(Access::Write)?, true)
            }
            file => (file?, false),
        };
        *opened = Some(file);
        Ok(replaced)
    }

    /// Opens the file for reading, unless it is open; `false` if there is none.
    pub(crate) fn open_for_reading(&self) -> Result<bool> {
        let mut opened = locked(&self.opened);
        self.refuse_closed()?;
        if opened.is_some() {
            return Ok(true);
        }
        match self.open(Access::Read) {
            Ok(file) => *opened = Some(file),
            Err(Error::NoSuchFile { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn open(&self, access: Access) -> Result<Opened> {
        let (protocol, cache_bytes) = (self.protocol, self.cache_bytes);
        let options = OpenOptions { access, create: true, protocol, cache_bytes };
        Ok(Arc::new(CommittedFile::open(self.env.clone(), &self.path, options)?))
    }

    /// Whether the file cannot be opened and never will. One of a newer version is left alone:
    /// the newer program wants it back.
    pub(crate) fn is_of_no_use(&self, error: &Error) -> bool {
        let foreign = matches!(error, Error::NotADatabase { .. });
        (foreign || self.damage().is(error)) && !mark::planted("view-damage-is-an-error")
    }

    /// Removes a file that cannot be opened, under its lock: nobody else writes it.
    fn remove_damaged(&self) -> Result<()> {
        let lock = self.env.disk.lock(&sibling(&self.path, "lock"))?;
        let _lock = lock.ok_or_else(|| Error::Locked { path: self.path.clone() })?;
        self.env.disk.remove(&self.path)
    }

    /// The directory of the indexes, whose own name must last as long as what is in it.
    fn make_directory(&self) -> Result<()> {
        let Some(directory) = self.path.parent() else { return Ok(()) };
        if self.env.disk.identity(directory)?.is_none() {
            self.env.disk.create_dir(directory)?;
            self.env.disk.sync_dir(directory)?;
        }
        Ok(())
    }

    /// [`Error::Closed`] once the index was closed.
    pub(crate) fn refuse_closed(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed { path: self.path.clone() }),
            false => Ok(()),
        }
    }

    fn opened(&self) -> Result<Opened> {
        self.refuse_closed()?;
        let opened = locked(&self.opened).clone();
        opened.ok_or_else(|| Error::NoSuchFile { path: self.path.clone() })
    }

    /// The newest committed state of the file, which was opened before.
    pub(crate) fn current(&self) -> Result<Arc<Committed<IndexRoots>>> {
        self.opened()?.current()
    }

    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&mut FileWriter, &Committed<IndexRoots>) -> Result<Written<T>>,
    ) -> Result<T> {
        self.opened()?.write(work)
    }

    /// After a failed write: recovers in place.
    pub(crate) fn reopen(&self) -> Result<RecoveryReport> {
        self.opened()?.reopen()
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        locked(&self.opened).as_ref().map_or(WriteCounts::default(), |file| file.counts())
    }

    /// Swaps a fresh file in, in which an index begins anew. A compaction is told to make way: of
    /// what it has copied nothing will be left.
    // spec: VIEW-9
    pub(crate) fn renew(&self) -> Result<()> {
        self.make_way.store(true, Ordering::Release);
        let _alone = locked(&self.compacting);
        self.make_way.store(false, Ordering::Release);
        let go_on = &mut || ControlFlow::Continue(());
        self.opened()?.compact(&mut Nothing, &|last_round| last_round(), go_on)?;
        self.forget_damage();
        Ok(())
    }

    /// Rewrites the file without garbage and history.
    pub(crate) fn compact(
        &self,
        shapes: &IndexShapes,
        watch: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<()> {
        let running = || Error::CompactionRunning { path: self.path.clone() };
        let _alone = try_locked(&self.compacting).ok_or_else(running)?;
        let mut copier = IndexCopier::new(shapes);
        let watch = &mut || match self.make_way.load(Ordering::Acquire) {
            true => ControlFlow::Break(()),
            false => watch(),
        };
        // The last round holds the writer by itself, and no queue stands before it.
        self.opened()?.compact(&mut copier, &|last_round| last_round(), watch)?;
        self.forget_damage();
        Ok(())
    }

    pub(crate) fn is_compacting(&self) -> bool {
        try_locked(&self.compacting).is_none()
    }

    /// Seals the file and lets it go. States that were read stay readable.
    pub(crate) fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        match locked(&self.opened).take() {
            Some(file) => file.close(),
            None => Ok(()),
        }
    }
}
