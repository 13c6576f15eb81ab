//! The seam between a query and where the rows of a view are.
//!
//! Invariant: keys are those of [`RowPlace`](super::row::RowPlace), values those of
//! [`ViewRow`](super::row::ViewRow), and everything that one source answers is of one state.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::btree::{NodeSource, Shape, Tree, VisitGroup};
use crate::collate::Collation;
use crate::error::{Corruption, Error, Result};
use crate::view::reducer::ViewReducer;
use crate::vocabulary::{Direction, KeyRange};

/// Called for each row of a view with its place and its stored value; [`ControlFlow::Break`] ends
/// the scan, and so does an error.
pub type VisitViewRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// The rows of one view in one state, as a query reads them.
///
/// ```
/// use rereduce::view::rows::ViewRows;
/// fn is_empty(view: &dyn ViewRows) -> bool {
///     view.total_rows() == 0
/// }
/// ```
pub trait ViewRows {
    /// The order of the keys.
    fn collation(&self) -> Collation;

    /// How the rows are reduced.
    fn reducer(&self) -> &ViewReducer;

    /// How many rows there are. No reads.
    fn total_rows(&self) -> u64;

    /// How many rows have a place before `place`. Reads one node a level.
    fn rows_before(&self, place: &[u8]) -> Result<u64>;

    /// The place of the row that has so many rows before it. Reads one node a level.
    fn place_at(&self, before: u64) -> Result<Option<Vec<u8>>>;

    /// Visits the rows of `range` in `direction`. Reads the nodes that hold them, and one a level.
    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut VisitViewRow<'_>,
    ) -> Result<()>;

    /// What the rows of `range` reduce to, as stored. Reads at most two nodes a level.
    fn reduce(&self, range: &KeyRange) -> Result<Vec<u8>>;

    /// What the rows of `range` reduce to in a query of this direction: functions are handed rows
    /// against it. The same as [`ViewRows::reduce`] for every other reducer.
    fn reduce_towards(&self, range: &KeyRange, direction: Direction) -> Result<Vec<u8>> {
        let _ = direction;
        self.reduce(range)
    }

    /// The groups of the rows of `range`, in `direction`; `cut` says how many bytes of a place
    /// name its group. Visits the place of each group's first row in that direction and the
    /// group's stored reduction. Reads at most three nodes a level and group.
    fn groups(
        &self,
        range: &KeyRange,
        direction: Direction,
        cut: &dyn Fn(&[u8]) -> usize,
        visit: &mut VisitGroup<'_>,
    ) -> Result<()>;

    /// The error that the bytes of the row at `place` are not `expected`. A source that knows its
    /// file names it.
    fn damage(&self, place: &[u8], expected: &str) -> Error {
        Corruption::new("the index", 0, expected, place.escape_ascii().to_string()).into()
    }
}

/// The rows of a view in a B+tree.
///
/// ```
/// use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
/// use rereduce::collate::Collation;
/// use rereduce::file::MemoryChunks;
/// use rereduce::view::reducer::ViewReducer;
/// use rereduce::view::rows::{TreeRows, ViewRows};
/// let (chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let (tree, shape, reducer) = (Tree::empty(), Shape::default(), ViewReducer::None);
/// let nodes = &CachedNodes::new(&chunks, &cache);
/// let collation = Collation::Unicode;
/// let rows = TreeRows { tree: &tree, nodes, shape: &shape, collation, reducer: &reducer };
/// assert_eq!(rows.total_rows(), 0);
/// ```
pub struct TreeRows<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// Where its nodes are.
    pub nodes: &'a dyn NodeSource,
    /// How it is made; its reducer is `reducer`.
    pub shape: &'a Shape,
    /// The order of the keys.
    pub collation: Collation,
    /// How the rows are reduced.
    pub reducer: &'a ViewReducer,
}

impl TreeRows<'_> {
    /// How partial nodes are reduced in a query of this direction.
    fn shape_towards(&self, direction: Direction) -> Cow<'_, Shape> {
        let ViewReducer::Some(reducer) = self.reducer else { return Cow::Borrowed(self.shape) };
        match reducer.towards(direction) {
            None => Cow::Borrowed(self.shape),
            Some(reducer) => Cow::Owned(Shape {
                options: self.shape.options.clone(),
                reducer: Arc::new(ViewReducer::Some(reducer)),
            }),
        }
    }
}

impl ViewRows for TreeRows<'_> {
    fn collation(&self) -> Collation {
        self.collation
    }

    fn reducer(&self) -> &ViewReducer {
        self.reducer
    }

    fn total_rows(&self) -> u64 {
        self.tree.row_count()
    }

    fn rows_before(&self, place: &[u8]) -> Result<u64> {
        self.tree.rows_before(self.nodes, place)
    }

    fn place_at(&self, before: u64) -> Result<Option<Vec<u8>>> {
        self.tree.key_at(self.nodes, before)
    }

    fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        visit: &mut VisitViewRow<'_>,
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.tree.scan(self.nodes, range, direction, &mut |place, value| {
            visit(place, value).unwrap_or_else(|error| {
                outcome = Err(error);
                ControlFlow::Break(())
            })
        })?;
        outcome
    }

    fn reduce(&self, range: &KeyRange) -> Result<Vec<u8>> {
        self.tree.reduce(self.nodes, self.shape, range)
    }

    fn reduce_towards(&self, range: &KeyRange, direction: Direction) -> Result<Vec<u8>> {
        self.tree.reduce(self.nodes, &self.shape_towards(direction), range)
    }

    fn groups(
        &self,
        range: &KeyRange,
        direction: Direction,
        cut: &dyn Fn(&[u8]) -> usize,
        visit: &mut VisitGroup<'_>,
    ) -> Result<()> {
        let shape = self.shape_towards(direction);
        self.tree.groups(self.nodes, &shape, range, direction, cut, visit)
    }
}
