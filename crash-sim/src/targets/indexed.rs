//! An index of views beside the database of a workload, and what it must show.
//!
//! ```text
//!   query           brings the index up to date: it shows the newest state, as the model says
//!   any other step  leaves it as it is: it shows the state at which it stands, or nothing
//! ```
//!
//! Invariant: whatever became of the disk, the index stands at a state that the database was in,
//! and shows that one.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use rereduce::Result;
use rereduce::btree::TreeOptions;
use rereduce::db::{Database, DbSnapshot};
use rereduce::env::{Access, Env};
use rereduce::file::sibling;
use rereduce::view::index::{Index, IndexSnapshot, Update, Views, ViewsOptions};
use rereduce_model::{ShownView, State, shown_views};

use super::views::{design, language, shown};

/// Documents in one commit of the index, so that an update of a few takes several.
const BATCH_DOCS: usize = 2;

/// The index, and what keeps it.
pub(super) struct Indexed {
    db: Arc<Database>,
    views: Views,
    index: Arc<Index>,
}

impl Indexed {
    /// The index of `db`, which is at `path`. Touches no file.
    pub(super) fn open(
        db: &Arc<Database>,
        env: &Env,
        path: &Path,
        fan_out_max: usize,
        access: Access,
    ) -> Result<Indexed> {
        let tree = TreeOptions { fan_out_max, ..ViewsOptions::default().tree };
        let options = ViewsOptions {
            tree,
            cache_bytes: 0,
            batch_docs: BATCH_DOCS,
            threads: 1,
            access,
            ..ViewsOptions::default()
        };
        let views = Views::open(env.clone(), db.clone(), path, options)?;
        let index = views.index(&design("crash-1"), &language())?;
        Ok(Indexed { db: db.clone(), views, index })
    }

    /// Whether files of an index are beside the database at `path`.
    pub(super) fn is_beside(env: &Env, path: &Path) -> Result<bool> {
        Ok(!env.disk.list(&sibling(path, "views"))?.is_empty())
    }

    /// Brings the index up to date and asks it.
    ///
    /// # Panics
    /// If it shows something else than the views of the newest state.
    // spec: CRASH-23
    pub(super) fn query(&self, read: &dyn Fn(&DbSnapshot) -> Result<State>) -> Result<()> {
        let snapshot = self.index.snapshot(Update::True)?;
        let found = shown(&snapshot)?;
        let expected = shown_views(&read(&self.db.snapshot()?)?);
        assert!(found == expected, "the views are {expected:?}, and a query shows {found:?}");
        Ok(())
    }

    /// Compacts the index.
    pub(super) fn compact(&self) -> Result<()> {
        self.index.compact(&mut || ControlFlow::Continue(()))
    }

    /// Seals the index.
    pub(super) fn close(&self) -> Result<()> {
        self.views.close()
    }

    /// Looks whether the index is sound and shows a state that the database was in, or nothing.
    // spec: CRASH-23
    pub(super) fn check(
        &self,
        read: &dyn Fn(&DbSnapshot) -> Result<State>,
    ) -> std::result::Result<(), String> {
        let failed = |error: rereduce::Error| format!("the index: {error}");
        let checked = self.index.check().map_err(failed)?;
        if let Some(violation) = checked.violations.first() {
            return Err(format!("the index: {violation}"));
        }
        let look = |snapshot: &IndexSnapshot| -> Result<[Vec<ShownView>; 2]> {
            Ok([shown(snapshot)?, shown_views(&read(snapshot.db())?)])
        };
        let snapshot = self.index.snapshot(Update::False).map_err(failed)?;
        // Its state may have been compacted away, and then it is shown beside newer documents.
        if snapshot.update_seq() != snapshot.db().info().update_seq {
            return Ok(());
        }
        let [found, expected] = look(&snapshot).map_err(failed)?;
        if found == expected || found == shown_views(&State::default()) {
            return Ok(());
        }
        Err(format!("the index shows {found:?}, and stands where the views are {expected:?}"))
    }
}
