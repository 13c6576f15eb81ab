//! The index of a design document's views: built, kept up to date, compacted, thrown away.
//!
//! ```text
//!   Views ── one for a database        NAME.rereduce.views/
//!     │
//!     └─ Index ── one for a signature     SIGNATURE      id tree, one tree for each view
//!          │
//!          ├─ update   by_seq behind the index, purges ──map──> rows ──> one commit a batch
//!          ├─ compact  trees built anew, caught up, swapped in
//!          └─ snapshot ──> IndexSnapshot ──> ViewSnapshot, which queries read
//! ```
//!
//! A query that wants the newest rows takes a snapshot of the database and brings the index up to
//! it; queries that come meanwhile wait and share what comes of it. Writers of the database go on.
//! Every answer is the view of one state of the database, also one that was not brought up to
//! date: while an index is being built such a query still sees the last one that was finished.
//!
//! | file | holds |
//! | --- | --- |
//! | `handle` | [`Index`]: who updates, who waits, what they get |
//! | `update`, `map` | one update: batches, purges, rows; mapping on several threads |
//! | `file`, `compact` | the file: opening, giving way, compaction |
//! | `roots`, `state` | what a commit says; what queries read |
//! | `check`, `info` | is everything as it should be; what an index says about itself |
//! | `rust` | design documents for functions in Rust |
//!
//! Invariant: an index is a copy of what is in the database. So whatever is wrong with it, it may
//! be built again, and nothing that goes wrong with it touches the database.

mod check;
mod compact;
mod file;
mod handle;
mod info;
mod map;
mod roots;
mod rust;
mod state;
mod update;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

pub use check::{IndexChecked, IndexRule, IndexViolation};
pub use handle::{Index, Update};
pub(crate) use info::Progressing;
pub use info::{IndexCounts, IndexInfo, Progress, Rebuilt};
pub use state::{IndexSnapshot, ViewSnapshot};

use crate::btree::TreeOptions;
use crate::db::Database;
use crate::env::{Access, Env};
use crate::error::{Error, Result};
use crate::file::{Protocol, sibling};
use crate::mark;
use crate::view::design::{DesignDoc, Signature};
use crate::view::functions::Language;
use crate::view::limit::ReduceLimit;

/// How the indexes of a database are kept.
///
/// ```
/// use rereduce::view::index::ViewsOptions;
/// let small = ViewsOptions { cache_bytes: 0, threads: 1, ..ViewsOptions::default() };
/// assert!(small.batch_docs > 1000);
/// ```
#[derive(Clone, Debug)]
pub struct ViewsOptions {
    /// Size and fan-out of tree nodes.
    pub tree: TreeOptions,
    /// Bytes of decoded nodes that each index keeps in memory.
    pub cache_bytes: usize,
    /// Documents of one batch, which is one commit; a crash loses at most the mapping of so many.
    pub batch_docs: usize,
    /// Bytes of rows from which on a batch is not made larger.
    pub batch_bytes: usize,
    /// What a commit does to be durable.
    pub protocol: Protocol,
    /// What becomes of reductions that do not shrink.
    pub reduce_limit: ReduceLimit,
    /// Threads that map documents of one index at the same time, the updater's own included.
    pub threads: usize,
    /// With [`Access::Read`] no index is ever written: one that is up to date is served.
    pub access: Access,
}

impl Default for ViewsOptions {
    fn default() -> ViewsOptions {
        ViewsOptions {
            // CouchDB takes keys of any length, and so does a view.
            tree: TreeOptions { key_bytes_max: usize::MAX, ..TreeOptions::default() },
            cache_bytes: 16 << 20,
            batch_docs: 50_000,
            batch_bytes: 32 << 20,
            protocol: Protocol::default(),
            reduce_limit: ReduceLimit::default(),
            threads: std::thread::available_parallelism().map_or(1, |threads| threads.get()),
            access: Access::Write,
        }
    }
}

/// All indexes of one database.
///
/// ```
/// # use std::sync::Arc;
/// use rereduce::db::{Database, DatabaseOptions};
/// use rereduce::env::Env;
/// use rereduce::view::design::DesignDoc;
/// use rereduce::view::functions::{Language, RustMaps};
/// use rereduce::view::index::{Views, ViewsOptions};
/// let (env, path) = (Env::memory(), "db".as_ref());
/// let db = Arc::new(Database::open(env.clone(), path, DatabaseOptions::default())?);
/// let views = Views::open(env, db, path, ViewsOptions::default())?;
/// let design = DesignDoc::of_rust("nothing-1", &[]);
/// let language: Arc<dyn Language> = Arc::new(RustMaps::new(vec![]));
/// let one = views.index(&design, &language)?;
/// assert!(Arc::ptr_eq(&one, &views.index(&design, &language)?), "one handle a signature");
/// views.close()?;
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Views {
    env: Env,
    db: Arc<Database>,
    directory: PathBuf,
    options: Arc<ViewsOptions>,
    indexes: Mutex<BTreeMap<Signature, Arc<Index>>>,
}

impl Views {
    /// The indexes of `db`, which is at `path`. Opens no file and writes none; an index that has
    /// no place on disk may be kept elsewhere, by an `env` of its own.
    pub fn open(env: Env, db: Arc<Database>, path: &Path, options: ViewsOptions) -> Result<Views> {
        let directory = sibling(path, "views");
        let options = Arc::new(options);
        Ok(Views { env, db, directory, options, indexes: Mutex::default() })
    }

    /// The index of the views of `design`, whose functions `language` runs: the one handle of this
    /// signature, which is made if there is none. Opens no file and compiles nothing.
    ///
    /// If there is a handle already it keeps the language that it was made with.
    pub fn index(&self, design: &DesignDoc, language: &Arc<dyn Language>) -> Result<Arc<Index>> {
        let signature = design.signature();
        let mut indexes = locked(&self.indexes);
        if let Some(index) = indexes.get(&signature) {
            return Ok(index.clone());
        }
        let path = self.directory.join(signature.to_string());
        let index = Index::new(&self.env, &self.db, path, self.options.clone(), design, language)?;
        let index = Arc::new(index);
        indexes.insert(signature, index.clone());
        Ok(index)
    }

    /// Closes and removes the indexes of all signatures but those `kept`, and answers which files
    /// went. What was read from them stays readable. Lock files stay, as everywhere, and so do
    /// indexes that another process writes.
    // spec: VIEW-13
    pub fn clean_up(&self, kept: &[Signature]) -> Result<Vec<PathBuf>> {
        let mut indexes = locked(&self.indexes);
        let old = indexes.keys().copied().filter(|signature| !kept.contains(signature));
        for signature in old.collect::<Vec<_>>() {
            if let Some(index) = indexes.remove(&signature) {
                index.close()?;
            }
        }
        let kept: Vec<String> = kept.iter().map(Signature::to_string).collect();
        let mut removed = Vec::new();
        for path in self.env.disk.list(&self.directory)? {
            let Some(signature) = signature_of(&path) else { continue };
            let is_lock = path.extension().is_some_and(|extension| extension == "lock");
            let is_kept = kept.iter().any(|kept| kept == signature);
            if is_lock || (is_kept && !mark::planted("view-clean-up-takes-all")) {
                continue;
            }
            let index = self.directory.join(signature);
            let Some(_lock) = self.env.disk.lock(&sibling(&index, "lock"))? else { continue };
            match self.env.disk.remove(&path) {
                Ok(()) => removed.push(path),
                Err(Error::NoSuchFile { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// Ends all updates and closes all files. A handle of an index that is still around refuses
    /// everything but what was read before.
    pub fn close(&self) -> Result<()> {
        let indexes = std::mem::take(&mut *locked(&self.indexes));
        let closed: Vec<Result<()>> = indexes.values().map(|index| index.close()).collect();
        closed.into_iter().collect()
    }
}

/// The signature that a file in the directory of the indexes belongs to, if it is one of ours.
fn signature_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let (signature, suffix) = name.split_at_checked(32)?;
    let is_hex = signature.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && (suffix.is_empty() || suffix.starts_with(".rereduce."))).then_some(signature)
}

/// What these locks guard is put in place whole, so a panic leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, if nobody holds it.
fn try_locked<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
