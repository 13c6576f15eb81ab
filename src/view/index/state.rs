//! What queries read: one state of an index, and one of its views.
//!
//! Invariant: everything that is read through one snapshot is of one commit of the index, and the
//! documents beside it are those of the state of the database that this commit stands at.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::roots::IndexRoots;
use crate::btree::{CachedNodes, NodeCache, Shape, Tree, VisitGroup};
use crate::collate::Collation;
use crate::db::DbSnapshot;
use crate::error::{Corruption, Error, Result};
use crate::file::{ChunkSource, MemoryChunks};
use crate::mark;
use crate::store::committed::{Committed, Roots as _};
use crate::view::reducer::ViewReducer;
use crate::view::rows::{TreeRows, ViewRows, VisitViewRow};
use crate::vocabulary::{Direction, KeyRange};

/// Whether damage was met in the file of an index.
pub(crate) struct Damage {
    path: PathBuf,
    met: AtomicBool,
}

impl Damage {
    pub(crate) fn none_in(path: &Path) -> Damage {
        Damage { path: path.to_path_buf(), met: AtomicBool::new(false) }
    }

    /// Whether `error` is damage in this very file. The database may be damaged too, and that is
    /// nothing which an index built anew would mend.
    pub(crate) fn is(&self, error: &Error) -> bool {
        matches!(error, Error::Corrupt(damage) if damage.file == self.path)
    }

    /// Remembers `error` if it is damage in this file.
    // spec: VIEW-11
    pub(crate) fn report(&self, error: &Error) {
        if self.is(error) && !mark::planted("view-damage-forgotten") {
            self.met.store(true, Ordering::Release);
        }
    }

    pub(crate) fn was_met(&self) -> bool {
        self.met.load(Ordering::Acquire)
    }
}

/// How the trees of an index are made.
pub(crate) struct IndexShapes {
    pub(crate) by_id: Shape,
    pub(crate) views: Vec<ViewShape>,
}

/// How the tree of one view is made.
#[derive(Clone)]
pub(crate) struct ViewShape {
    pub(crate) collation: Collation,
    pub(crate) reducer: ViewReducer,
    pub(crate) shape: Shape,
}

/// A state of an index, and the state of the database that it was made from. Cheap to clone; stays
/// readable whatever happens to either.
///
/// ```
/// # use std::sync::Arc;
/// # use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// # use rereduce::env::Env;
/// # use rereduce::view::design::DesignDoc;
/// # use rereduce::view::functions::{Language, RustMaps};
/// # use rereduce::view::index::{Update, Views, ViewsOptions};
/// # use rereduce::view::rows::ViewRows;
/// # use rereduce::vocabulary::Json;
/// # let (env, path) = (Env::memory(), "db".as_ref());
/// # let db = Arc::new(Database::open(env.clone(), path, DatabaseOptions::default())?);
/// let by_id = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
///     emit(document.member("_id").cloned().unwrap_or(Json::Null), Json::Null);
/// };
/// let language: Arc<dyn Language> = Arc::new(RustMaps::new(vec![Arc::new(by_id)]));
/// let design = DesignDoc::of_rust("ids-1", &[("ids", None)]);
/// let views = Views::open(env, db.clone(), path, ViewsOptions::default())?;
/// db.edit(vec![DocEdit::parse("a", b"{}")?])?;
/// let index = views.index(&design, &language)?;
/// let snapshot = index.snapshot(Update::True)?;
/// assert_eq!(snapshot.view(0).expect("there is one").total_rows(), 1);
/// assert_eq!(snapshot.update_seq(), snapshot.db().info().update_seq);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct IndexSnapshot {
    db: DbSnapshot,
    held: Arc<Held>,
}

/// A commit of an index and all that is needed to read it.
pub(crate) struct Held {
    source: Arc<dyn ChunkSource>,
    cache: Arc<NodeCache>,
    pub(crate) roots: IndexRoots,
    shapes: Arc<IndexShapes>,
    damage: Arc<Damage>,
}

impl Held {
    pub(crate) fn of(
        state: &Committed<IndexRoots>,
        shapes: &Arc<IndexShapes>,
        damage: &Arc<Damage>,
    ) -> Held {
        Held {
            source: state.file.clone(),
            cache: state.cache.clone(),
            roots: state.roots.clone(),
            shapes: shapes.clone(),
            damage: damage.clone(),
        }
    }

    /// The state of an index that has seen nothing.
    pub(crate) fn nothing(shapes: &Arc<IndexShapes>, damage: &Arc<Damage>) -> Held {
        Held {
            source: Arc::new(MemoryChunks::default()),
            cache: Arc::new(NodeCache::new(0)),
            roots: IndexRoots::empty(),
            shapes: shapes.clone(),
            damage: damage.clone(),
        }
    }
}

impl IndexSnapshot {
    pub(crate) fn new(db: DbSnapshot, held: Held) -> IndexSnapshot {
        IndexSnapshot { db, held: Arc::new(held) }
    }

    pub(crate) fn roots(&self) -> &IndexRoots {
        &self.held.roots
    }

    /// The view with this number in [`DesignDoc::views`](crate::view::design::DesignDoc::views);
    /// `None` if there are fewer.
    pub fn view(&self, number: usize) -> Option<ViewSnapshot> {
        let shape = self.held.shapes.views.get(number)?.clone();
        Some(ViewSnapshot { tree: self.held.roots.tree(number), shape, held: self.held.clone() })
    }

    /// The sequence of the database up to which the views have all changes.
    pub fn update_seq(&self) -> u64 {
        self.held.roots.update_seq
    }

    /// The state of the database that the views are those of. A query that shows documents beside
    /// rows takes them from here.
    ///
    /// A view that was not brought up to date may stand at a state that a compaction of the
    /// database has dropped since the index was opened; then this is the newest state, and a
    /// document may be newer than its rows.
    // spec: VIEW-6
    pub fn db(&self) -> &DbSnapshot {
        &self.db
    }
}

/// The rows of one view in one state.
///
/// Damage that a read meets is returned, and remembered: the index is built anew before the next
/// answer that is up to date.
///
/// ```
/// use rereduce::view::index::ViewSnapshot;
/// use rereduce::view::rows::ViewRows;
/// fn rows(view: &ViewSnapshot) -> u64 {
///     view.total_rows()
/// }
/// ```
#[derive(Clone)]
pub struct ViewSnapshot {
    held: Arc<Held>,
    tree: Tree,
    shape: ViewShape,
}

impl ViewSnapshot {
    /// Nodes between the root of this view's tree and its rows, the root included.
    pub fn height(&self) -> u32 {
        self.tree.height()
    }

    /// Nodes that all readers of the index's file have read from the disk so far.
    pub fn nodes_read(&self) -> u64 {
        self.held.cache.reads()
    }

    fn read<T>(&self, work: impl FnOnce(&TreeRows<'_>) -> Result<T>) -> Result<T> {
        let nodes = CachedNodes::new(&*self.held.source, &self.held.cache);
        let ViewShape { collation, reducer, shape } = &self.shape;
        let collation = *collation;
        let rows = TreeRows { tree: &self.tree, nodes: &nodes, shape, collation, reducer };
        let result = work(&rows);
        if let Err(error) = &result {
            self.held.damage.report(error);
        }
        result
    }
}

impl ViewRows for ViewSnapshot {
    fn collation(&self) -> Collation {
        self.shape.collation
    }

    fn reducer(&self) -> &ViewReducer {
        &self.shape.reducer
    }

    fn total_rows(&self) -> u64 {
        self.tree.row_count()
    }

    fn rows_before(&self, place: &[u8]) -> Result<u64> {
        self.read(|rows| rows.rows_before(place))
    }

    fn place_at(&self, before: u64) -> Result<Option<Vec<u8>>> {
        self.read(|rows| rows.place_at(before))
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut VisitViewRow<'_>,
    ) -> Result<()> {
        self.read(|rows| rows.scan(range, direction, visit))
    }

    fn reduce(&self, range: &KeyRange) -> Result<Vec<u8>> {
        self.read(|rows| rows.reduce(range))
    }

    fn reduce_towards(&self, range: &KeyRange, direction: Direction) -> Result<Vec<u8>> {
        self.read(|rows| rows.reduce_towards(range, direction))
    }

    fn groups(
        &self,
        range: &KeyRange,
        direction: Direction,
        cut: &dyn Fn(&[u8]) -> usize,
        visit: &mut VisitGroup<'_>,
    ) -> Result<()> {
        self.read(|rows| rows.groups(range, direction, cut, visit))
    }

    fn damage(&self, place: &[u8], expected: &str) -> Error {
        let (damage, got) = (&self.held.damage, place.escape_ascii().to_string());
        let error = Corruption::new(&damage.path, 0, expected, got).into();
        damage.report(&error);
        error
    }
}
