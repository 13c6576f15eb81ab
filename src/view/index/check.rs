//! The check of an index: its trees, and what they say about each other and the database.
//!
//! Invariant: nothing that an update relies on is believed here. What the check cannot know is
//! whether a row is what the map function emits; for that one maps again and compares.

use std::fmt;

use super::roots::{IndexRoots, places};
use super::state::{IndexShapes, ViewShape};
use crate::btree::{CachedNodes, Checked, Shape, Tree, Violation};
use crate::db::DbSnapshot;
use crate::error::{Error, Result};
use crate::mark;
use crate::reduce::{Reducer, Row};
use crate::store::committed::Committed;
use crate::view::builtin::Builtin;
use crate::view::design::{DesignDoc, Reduce};
use crate::view::row::{RowPlace, ViewRow};
use crate::vocabulary::{Direction, KeyRange};

/// What a check of an index found.
///
/// ```
/// use rereduce::view::index::IndexChecked;
/// assert!(IndexChecked::default().is_sound(), "an index that is not there has no faults");
/// ```
#[derive(Clone, Debug, Default)]
pub struct IndexChecked {
    /// Documents that have rows.
    pub documents: u64,
    /// Rows of all views.
    pub rows: u64,
    /// Tree nodes that were read.
    pub nodes: u64,
    /// Everything that is not as it should be.
    pub violations: Vec<IndexViolation>,
}

impl IndexChecked {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }

    /// What is said of a file that cannot be opened.
    pub(super) fn of(damage: Error) -> IndexChecked {
        let mut checked = IndexChecked::default();
        checked.report("index", IndexRule::Damaged(damage));
        checked
    }

    fn report(&mut self, subject: impl fmt::Display, rule: IndexRule) {
        self.violations.push(IndexViolation { subject: subject.to_string(), rule });
    }
}

/// One thing that is wrong, and where.
///
/// ```
/// use rereduce::view::index::{IndexRule, IndexViolation};
/// let violation = IndexViolation { subject: "document \"a\"".into(), rule: IndexRule::Entry };
/// assert!(violation.to_string().starts_with("document \"a\": "));
/// ```
#[derive(Clone, Debug)]
pub struct IndexViolation {
    /// The document, row, view or tree.
    pub subject: String,
    /// What is wrong with it.
    pub rule: IndexRule,
}

/// What can be wrong with an index.
///
/// ```
/// use rereduce::view::index::IndexRule;
/// assert!(matches!(IndexRule::Standing, IndexRule::Standing));
/// ```
#[derive(Clone, Debug)]
pub enum IndexRule {
    /// Something cannot be read, or is not what was written.
    Damaged(Error),
    /// A tree breaks a rule of trees.
    Tree(Violation),
    /// An entry of the id tree makes no sense.
    Entry,
    /// A row makes no sense.
    Row,
    /// The id tree names a row that is not there.
    RowMissing,
    /// A view has more rows than the id tree names.
    RowsUnknown {
        /// Rows of the view.
        rows: u64,
        /// Those that the id tree names.
        named: u64,
    },
    /// What all rows reduce to is not what the tree says.
    Reduction,
    /// It stands at a state that the database never had, or goes further than that.
    Standing,
}

impl fmt::Display for IndexViolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.subject)?;
        match &self.rule {
            IndexRule::Damaged(error) => write!(out, "{error}"),
            IndexRule::Tree(violation) => {
                write!(out, "node at byte {}: {:?}", violation.pointer.offset(), violation.rule)
            }
            IndexRule::Entry => out.write_str("its entry in the id tree makes no sense"),
            IndexRule::Row => out.write_str("its stored form makes no sense"),
            IndexRule::RowMissing => out.write_str("the id tree names a row that is not there"),
            IndexRule::RowsUnknown { rows, named } => {
                write!(out, "{rows} rows, of which the id tree names {named}")
            }
            IndexRule::Reduction => {
                out.write_str("what its rows reduce to is not what its tree says")
            }
            IndexRule::Standing => out.write_str("it stands at no state of its database"),
        }
    }
}

/// A state of an index and what it is made with.
struct Checking<'a> {
    state: &'a Committed<IndexRoots>,
    design: &'a DesignDoc,
    shapes: &'a IndexShapes,
    checked: IndexChecked,
}

/// Checks a committed state of the index of `design` against itself and against its database.
// spec: VIEW-15
pub(super) fn check(
    state: &Committed<IndexRoots>,
    design: &DesignDoc,
    shapes: &IndexShapes,
    database: &DbSnapshot,
) -> Result<IndexChecked> {
    let checked = IndexChecked::default();
    let mut checking = Checking { state, design, shapes, checked };
    checking.trees()?;
    checking.standing(database);
    if checking.checked.is_sound() {
        checking.rows_against_ids()?;
        checking.rows_by_view()?;
    }
    Ok(checking.checked)
}

impl Checking<'_> {
    fn trees(&mut self) -> Result<()> {
        let roots = &self.state.roots;
        let mut tree = |name: String, tree: &Tree, shape: &Shape| {
            let Checked { leaves, inner_nodes, violations, .. } =
                tree.check(&self.state.nodes(), shape)?;
            self.checked.nodes += leaves + inner_nodes;
            for violation in violations {
                self.checked.report(&name, IndexRule::Tree(violation));
            }
            Ok::<(), Error>(())
        };
        tree("id tree".to_owned(), &roots.by_id, &self.shapes.by_id)?;
        for (number, shape) in self.shapes.views.iter().enumerate() {
            tree(format!("view {number}"), &roots.tree(number), &shape.shape)?;
        }
        Ok(())
    }

    fn standing(&mut self, database: &DbSnapshot) {
        let roots = &self.state.roots;
        let info = database.info();
        let known = roots.standing.is_none_or(|standing| database.has(&standing));
        let within = roots.update_seq <= info.update_seq && roots.purge_seq <= info.purge_seq;
        if !(known && within) {
            self.checked.report("index", IndexRule::Standing);
        }
    }

    /// Every row that the id tree names is there, and there are no others.
    fn rows_against_ids(&mut self) -> Result<()> {
        let (roots, nodes) = (&self.state.roots, self.state.nodes());
        let mut named = vec![0; roots.views.len()];
        for row in roots.by_id.iter(&nodes, KeyRange::all(), Direction::Ascending) {
            let (key, entry) = row?;
            self.checked.documents += 1;
            let id = std::str::from_utf8(&key).ok();
            let Some((id, places)) = id.and_then(|id| Some((id, places(id, &entry)?))) else {
                let id = String::from_utf8_lossy(&key).into_owned();
                self.checked.report(format!("document {id:?}"), IndexRule::Entry);
                continue;
            };
            for (view, place) in places {
                let found = roots.tree(view).find(&nodes, &place)?.is_some();
                if let (true, Some(named)) = (found, named.get_mut(view)) {
                    *named += 1;
                } else {
                    let subject = format!("document {id:?}, view {view}");
                    self.checked.report(subject, IndexRule::RowMissing);
                }
            }
        }
        for (view, named) in named.into_iter().enumerate() {
            let rows = roots.tree(view).row_count();
            if rows != named && !mark::planted("view-check-counts-no-rows") {
                self.checked.report(format!("view {view}"), IndexRule::RowsUnknown { rows, named });
            }
        }
        Ok(())
    }

    /// Every row makes sense, and all of them reduce to what their tree says.
    fn rows_by_view(&mut self) -> Result<()> {
        for number in 0..self.shapes.views.len() {
            let tree = self.state.roots.tree(number);
            let reduced = self.reduce_rows(number, &tree)?;
            let said = tree.reduction().unwrap_or_default();
            if self.is_order_free(number) && reduced != said {
                self.checked.report(format!("view {number}"), IndexRule::Reduction);
            }
        }
        Ok(())
    }

    /// Whether the reducer keeps the laws: functions need not, and an overflow error stands where
    /// nodes happened to be cut.
    fn is_order_free(&self, number: usize) -> bool {
        let reduce = self.design.views.get(number).and_then(|view| view.reduce);
        matches!(reduce, Some(Reduce::Builtin(builtin)) if builtin != Builtin::Sum)
    }

    /// What the rows of a view reduce to, cut otherwise than in its tree.
    fn reduce_rows(&mut self, number: usize, tree: &Tree) -> Result<Vec<u8>> {
        let nodes: CachedNodes<'_> = self.state.nodes();
        let Some(ViewShape { collation, reducer, .. }) = self.shapes.views.get(number) else {
            return Ok(Vec::new());
        };
        let (mut rows, mut parts) = (Vec::new(), Vec::new());
        let reduce = |rows: &mut Vec<(Vec<u8>, Vec<u8>)>, parts: &mut Vec<Vec<u8>>| {
            let borrowed: Vec<Row<'_>> = rows.iter().map(|(key, row)| (&**key, &**row)).collect();
            let mut part = Vec::new();
            reducer.reduce(&borrowed, &mut part)?;
            parts.push(part);
            rows.clear();
            Ok::<(), Error>(())
        };
        for row in tree.iter(&nodes, KeyRange::all(), Direction::Ascending) {
            let (place, value) = row?;
            self.checked.rows += 1;
            let sound = RowPlace::decode(*collation, &place).is_some();
            if !sound || ViewRow::decode(&value).is_none() {
                let subject = format!("view {number}, row {}", place.escape_ascii());
                self.checked.report(subject, IndexRule::Row);
            }
            rows.push((place, value));
            if rows.len() >= ROWS_PER_PART {
                reduce(&mut rows, &mut parts)?;
            }
        }
        if !rows.is_empty() {
            reduce(&mut rows, &mut parts)?;
        }
        let mut whole = Vec::new();
        if !parts.is_empty() {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            reducer.rereduce(&parts, &mut whole)?;
        }
        Ok(whole)
    }
}

/// Rows that a check reduces at a time.
const ROWS_PER_PART: usize = 1000;
