//! One index: who updates it, who waits for that, and what they get.
//!
//! ```text
//!   query 1   wants state 7 ─ updates to 7 ───────────────> reads 7
//!   query 2   wants state 7 ─ waits ──────────────────────> reads 7, updates nothing
//!   query 3   wants state 9 ─ waits ──────────────────────> updates to 9 ─> reads 9
//!   query 4   wants what there is ──> reads the last one that was finished
//! ```
//!
//! Invariant: one thread at a time updates, and whoever waited looks first whether the index has
//! reached what it wants.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::check::IndexChecked;
use super::file::IndexFile;
use super::info::{IndexCounts, IndexInfo, Progress, Progressing, Rebuilt};
use super::map::Runners;
use super::roots::IndexRoots;
use super::state::{Held, IndexShapes, IndexSnapshot, ViewShape};
use super::update::{self, in_the_way, is_reached, leaves_doubt};
use super::{ViewsOptions, locked};
use crate::btree::Shape;
use crate::collate::Collation;
use crate::db::{Database, DbSnapshot};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::mark;
use crate::reduce::NoReduce;
use crate::single_flight::SingleFlight;
use crate::store::committed::Committed;
use crate::view::design::{DesignDoc, Reduce, Signature};
use crate::view::function_reducer::FunctionReducer;
use crate::view::functions::Language;
use crate::view::limit::ReduceLimit;
use crate::view::reducer::{ShownReducer, ViewReducer};

/// Whether a query brings the index up to date.
///
/// ```
/// use rereduce::view::index::Update;
/// assert_eq!(Update::default(), Update::True);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// Before it reads.
    #[default]
    True,
    /// No: it reads what there is.
    False,
    /// It reads what there is, and an update begins behind it.
    Lazy,
}

/// The index of one design document's views. Shared by all who query them.
///
/// ```
/// # use std::sync::Arc;
/// # use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// # use rereduce::env::Env;
/// # use rereduce::view::design::DesignDoc;
/// # use rereduce::view::functions::{Language, RustMaps};
/// # use rereduce::view::index::{Update, Views, ViewsOptions};
/// # use rereduce::vocabulary::Json;
/// # let (env, path) = (Env::memory(), "db".as_ref());
/// # let db = Arc::new(Database::open(env.clone(), path, DatabaseOptions::default())?);
/// # let views = Views::open(env, db.clone(), path, ViewsOptions::default())?;
/// let all = |document: &Json, emit: &mut dyn FnMut(Json, Json)| emit(Json::Null, Json::Null);
/// let language: Arc<dyn Language> = Arc::new(RustMaps::new(vec![Arc::new(all)]));
/// let index = views.index(&DesignDoc::of_rust("all-1", &[("all", None)]), &language)?;
/// db.edit(vec![DocEdit::parse("a", b"{}")?, DocEdit::parse("b", b"{}")?])?;
/// index.snapshot(Update::True)?;
/// db.edit(vec![DocEdit::parse("c", b"{}")?])?;
/// assert_eq!(index.snapshot(Update::False)?.update_seq(), 2);
/// assert_eq!(index.snapshot(Update::True)?.update_seq(), 3);
/// assert_eq!(index.counts().mapped, 3, "each document once");
/// assert!(index.check()?.is_sound());
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Index {
    db: Arc<Database>,
    design: Arc<DesignDoc>,
    signature: Signature,
    options: Arc<ViewsOptions>,
    shapes: Arc<IndexShapes>,
    file: IndexFile,
    /// Who updates, and the newest state that was finished, as far as this handle knows.
    flights: SingleFlight<IndexSnapshot, Updater, Failure>,
    behind: Mutex<Option<JoinHandle<()>>>,
    rebuilt: Mutex<Option<Rebuilt>>,
    progress: Progressing,
}

/// What belongs to whoever updates.
struct Updater {
    runners: Runners,
    /// A write failed: what the file holds now must be looked up.
    in_doubt: bool,
}

/// Why an update failed.
#[derive(Clone)]
struct Failure {
    /// What it wanted to reach; `None` if it did not come so far.
    target: Option<DbSnapshot>,
    error: Error,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { target: None, error }
    }
}

impl Index {
    pub(super) fn new(
        env: &Env,
        db: &Arc<Database>,
        path: PathBuf,
        options: Arc<ViewsOptions>,
        design: &DesignDoc,
        language: &Arc<dyn Language>,
    ) -> Result<Index> {
        let signature = design.signature();
        let design = Arc::new(design.clone());
        let nothing = IndexRoots::nothing_of(&design, signature);
        let file = IndexFile::new(env, path, &options, nothing);
        let runners = Runners::new(&design, language, options.threads);
        Ok(Index {
            db: db.clone(),
            shapes: Arc::new(shapes(&design, language, &options)?),
            design,
            signature,
            options,
            file,
            flights: SingleFlight::new(Updater { runners, in_doubt: false }),
            behind: Mutex::new(None),
            rebuilt: Mutex::new(None),
            progress: Progressing::default(),
        })
    }

    /// What names this index.
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// The views that it is of.
    pub fn design(&self) -> &DesignDoc {
        &self.design
    }

    /// A state of the index to read from.
    ///
    /// [`Update::True`] gives the newest state of the database or a newer one; others may be
    /// updating already, and what comes of it is shared. The other two give the newest state that
    /// was finished, which is that of no documents if none was yet or the index is of no use.
    ///
    /// Cost: nothing but looking at the database if the index is up to date; else each document
    /// that changed is mapped once, and O(height) nodes of each tree are written for a few of
    /// them.
    ///
    /// Errors: [`Error::Function`] and [`Error::InvalidValue`] if a function cannot go on, with
    /// the index at its last commit; the same again at the next query until the document or the
    /// function is mended. [`Error::Locked`] if another process writes the index and it is not up
    /// to date; [`Error::Io`], [`Error::Corrupt`] of the database.
    pub fn snapshot(self: &Arc<Index>, update: Update) -> Result<IndexSnapshot> {
        self.file.refuse_closed()?;
        match update {
            Update::True => self.up_to_date(),
            Update::False => self.as_it_is(),
            Update::Lazy => {
                let found = self.as_it_is()?;
                self.update_behind();
                Ok(found)
            }
        }
    }

    // spec: VIEW-1, VIEW-14
    fn up_to_date(&self) -> Result<IndexSnapshot> {
        let wanted = self.db.snapshot()?;
        let reached = |finished: &IndexSnapshot| Ok(self.reaches(finished, &wanted)?);
        // The failure of an update that would have been enough is the answer.
        let shared = |failure: &Failure| {
            !mark::planted("view-waiting-query-updates-again")
                && failure.target.as_ref().is_some_and(|target| target.has(&wanted.standing()))
        };
        let brought = self.flights.bring_up(&reached, &shared, |updater| {
            // The newest one: others who wait want it, or will.
            let target = self.db.snapshot()?;
            self.update(updater, &target).map_err(|error| {
                updater.in_doubt |= leaves_doubt(&error);
                Failure { target: Some(target), error }
            })
        });
        brought.map_err(|failure| failure.error)
    }

    /// Whether a finished state is that of `wanted` or a newer one.
    fn reaches(&self, finished: &IndexSnapshot, wanted: &DbSnapshot) -> Result<bool> {
        if self.file.damage().was_met() {
            return Ok(false);
        }
        if mark::planted("view-any-finished-state-will-do") {
            return Ok(true);
        }
        let (newest, standing) = (finished.db(), finished.db().standing());
        // Newer than what is wanted is fine, unless the database has gone back since.
        Ok(newest.has(&wanted.standing())
            && (wanted.has(&standing) || self.db.snapshot()?.has(&standing)))
    }

    /// Brings the index up to `target`, whatever it is now.
    fn update(&self, updater: &mut Updater, target: &DbSnapshot) -> Result<IndexSnapshot> {
        match self.file.open_for_writing() {
            Ok(replaced) => self.note(replaced.then_some(Rebuilt::Damaged)),
            // Whoever holds the lock, or mounted the disk to be read, may have brought it up.
            Err(error @ (Error::Locked { .. } | Error::ReadOnly { .. } | Error::Io { .. }))
                if !mark::planted("view-locked-index-not-served") =>
            {
                return self.found_up_to_date(target)?.ok_or(error);
            }
            Err(error) => return Err(error),
        }
        if updater.in_doubt && !mark::planted("view-failed-write-not-recovered") {
            self.file.reopen()?;
            updater.in_doubt = false;
        }
        match self.try_update(updater, target) {
            Err(error) if self.file.damage().is(&error) => {
                mark::hit("view-rebuilt-after-damage");
                self.file.damage().report(&error);
                self.try_update(updater, target)
            }
            updated => updated,
        }
    }

    fn try_update(&self, updater: &mut Updater, target: &DbSnapshot) -> Result<IndexSnapshot> {
        let state = self.file.current()?;
        let why = match self.file.damage().was_met() {
            true => Some(Rebuilt::Damaged),
            false => in_the_way(&state.roots, self.file.nothing(), target)?,
        };
        if why.is_some() {
            mark::hit("view-built-anew");
            self.file.renew()?;
            self.note(why);
        }
        if why.is_some() || !is_reached(&state.roots, target) {
            let _running = self.progress.begin();
            let update = update::Update {
                target,
                file: &self.file,
                design: &self.design,
                shapes: &self.shapes,
                options: &self.options,
                progress: &self.progress,
            };
            update.run(&mut updater.runners)?;
        }
        Ok(self.finish(target.clone(), &*self.file.current()?))
    }

    /// A finished state.
    // spec: VIEW-6
    fn finish(&self, db: DbSnapshot, state: &Committed<IndexRoots>) -> IndexSnapshot {
        let db = match mark::planted("view-documents-of-the-newest-state") {
            true => self.db.snapshot().unwrap_or(db),
            false => db,
        };
        IndexSnapshot::new(db, self.held(state))
    }

    fn held(&self, state: &Committed<IndexRoots>) -> Held {
        Held::of(state, &self.shapes, &self.file.damage())
    }

    fn note(&self, why: Option<Rebuilt>) {
        if why.is_some() {
            *locked(&self.rebuilt) = why;
        }
    }

    /// The index as another process wrote it, if it is that of `target` and nothing is wrong.
    // spec: VIEW-12
    fn found_up_to_date(&self, target: &DbSnapshot) -> Result<Option<IndexSnapshot>> {
        let found = self.file.open_for_reading().and_then(|there| match there {
            true => self.file.current().map(Some),
            false => Ok(None),
        });
        let state = match found {
            Ok(Some(state)) => state,
            Ok(None) => return Ok(None),
            Err(error) if self.file.is_of_no_use(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let hindered = in_the_way(&state.roots, self.file.nothing(), target)?.is_some();
        let reached = !hindered && is_reached(&state.roots, target);
        Ok(reached.then(|| self.finish(target.clone(), &state)))
    }

    /// The newest finished state, of whatever state of the database.
    // spec: VIEW-6
    fn as_it_is(&self) -> Result<IndexSnapshot> {
        let now = self.db.snapshot()?;
        if let Some(finished) = self.flights.state()
            && now.has(&finished.db().standing())
        {
            return Ok(finished);
        }
        let found = self.find_finished(&now);
        match found {
            Ok(Some(found)) => Ok(found),
            Ok(None) => {
                Ok(IndexSnapshot::new(now, Held::nothing(&self.shapes, &self.file.damage())))
            }
            Err(error) if self.file.is_of_no_use(&error) => {
                self.file.damage().report(&error);
                Ok(IndexSnapshot::new(now, Held::nothing(&self.shapes, &self.file.damage())))
            }
            Err(error) => Err(error),
        }
    }

    /// The newest finished state in the file that `now` descends from.
    fn find_finished(&self, now: &DbSnapshot) -> Result<Option<IndexSnapshot>> {
        if !self.file.open_for_reading()? {
            return Ok(None);
        }
        let newest = self.file.current()?;
        let state = match newest.roots.finished || mark::planted("view-unfinished-state-served") {
            true => newest,
            false if newest.roots.last_finished == 0 => return Ok(None),
            // An update was cut short: the commit before it is still in the file, unless a
            // compaction of the index left it out.
            false => match newest.at(newest.roots.last_finished) {
                Ok(older) => Arc::new(older),
                Err(Error::Compacted { .. } | Error::NoSuchCommit { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let Some(standing) = state.roots.standing.filter(|standing| now.has(standing)) else {
            return Ok(None);
        };
        let nothing = self.file.nothing();
        let versions =
            |roots: &IndexRoots| roots.views.iter().map(|view| view.collation).collect::<Vec<_>>();
        if state.roots.signature != nothing.signature || versions(&state.roots) != versions(nothing)
        {
            return Ok(None);
        }
        let db = match self.db.snapshot_at(standing.commit) {
            Ok(db) => db,
            Err(Error::Compacted { .. } | Error::NoSuchCommit { .. }) => now.clone(),
            Err(error) => return Err(error),
        };
        Ok(Some(IndexSnapshot::new(db, self.held(&state))))
    }

    /// Starts an update that nobody waits for, unless one runs. What goes wrong is told to the
    /// next query that wants to be up to date, which meets it again.
    fn update_behind(self: &Arc<Index>) {
        let mut behind = locked(&self.behind);
        if behind.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        let (index, planted) = (self.clone(), mark::here());
        // A machine that has no thread to give away does without: the next query updates.
        *behind = thread::Builder::new()
            .spawn(move || {
                mark::take_over(planted);
                drop(index.up_to_date());
            })
            .ok();
    }

    /// Waits until the update that a query with [`Update::Lazy`] started has ended.
    pub fn wait_for_lazy_update(&self) {
        let behind = locked(&self.behind).take();
        if let Some(running) = behind {
            // A panic of a map function is that thread's alone; the next query meets it again.
            drop(running.join());
        }
    }

    /// How far the update that runs now is; `None` if none does. Costs nothing and never waits.
    pub fn progress(&self) -> Option<Progress> {
        self.progress.now()
    }

    /// Rewrites the index into a new file without garbage and swaps it in. Queries and updates go
    /// on; what was read before stays readable. `watch` is called every so many rows and may
    /// cancel.
    ///
    /// Errors: [`Error::CompactionRunning`], [`Error::Cancelled`] (also if the index is built anew
    /// meanwhile), [`Error::Locked`], [`Error::Corrupt`], [`Error::Io`]; after each of them the
    /// index is as it was.
    // spec: VIEW-10
    pub fn compact(&self, watch: &mut dyn FnMut() -> ControlFlow<()>) -> Result<()> {
        let replaced = self.file.open_for_writing()?;
        self.note(replaced.then_some(Rebuilt::Damaged));
        self.file.compact(&self.shapes, watch).inspect_err(|error| {
            self.file.damage().report(error);
        })?;
        let state = self.file.current()?;
        self.flights.replace(|snapshot| {
            // The same rows are in the new file now, unless an update was faster.
            let same = state.roots.finished && state.roots.standing == snapshot.roots().standing;
            same.then(|| IndexSnapshot::new(snapshot.db().clone(), self.held(&state)))
        });
        Ok(())
    }

    /// What the index says about itself.
    pub fn info(&self) -> Result<IndexInfo> {
        let there = self.file.open_for_reading();
        let state = match there {
            Ok(true) => Some(self.file.current()?),
            Ok(false) => None,
            Err(error) if self.file.is_of_no_use(&error) => None,
            Err(error) => return Err(error),
        };
        let roots = state.as_ref().map_or_else(|| self.file.nothing(), |state| &state.roots);
        let file_bytes = state.as_ref().map_or(Ok(0), |state| state.file.size())?;
        Ok(IndexInfo {
            signature: self.signature,
            language: self.design.language.clone(),
            update_seq: roots.update_seq,
            purge_seq: roots.purge_seq,
            documents: roots.by_id.row_count(),
            rows: (0..self.design.views.len()).map(|view| roots.tree(view).row_count()).collect(),
            file_bytes,
            active_bytes: roots.row_bytes(),
            updater_running: self.progress.now().is_some(),
            waiting_clients: self.flights.waiting(),
            compact_running: self.file.is_compacting(),
            rebuilt: *locked(&self.rebuilt),
        })
    }

    /// What this handle did so far.
    pub fn counts(&self) -> IndexCounts {
        let nodes_read = self.file.current().map_or(0, |state| state.cache.reads());
        IndexCounts {
            mapped: self.progress.mapped.load(Ordering::Relaxed),
            updates: self.progress.updates.load(Ordering::Relaxed),
            nodes_read,
            writes: self.file.counts(),
        }
    }

    /// Verifies the newest commit of the index: all trees, rows against the id tree, reductions,
    /// and where it stands. Updates nothing. Cost: reads everything.
    ///
    /// Errors: [`Error::Io`]. Damage is listed in the answer.
    pub fn check(&self) -> Result<IndexChecked> {
        let state = match self.file.open_for_reading() {
            Ok(true) => self.file.current(),
            Ok(false) => return Ok(IndexChecked::default()),
            Err(error) => Err(error),
        };
        let state = match state {
            Err(error) if self.file.is_of_no_use(&error) => return Ok(IndexChecked::of(error)),
            state => state?,
        };
        super::check::check(&state, &self.design, &self.shapes, &self.db.snapshot()?)
    }

    /// Waits for what runs, seals the file and lets it go.
    pub(super) fn close(&self) -> Result<()> {
        self.wait_for_lazy_update();
        self.flights.alone(|_| self.file.close())
    }
}

/// How the trees of these views are made.
fn shapes(
    design: &DesignDoc,
    language: &Arc<dyn Language>,
    options: &ViewsOptions,
) -> Result<IndexShapes> {
    let tree = &options.tree;
    let view = |view: &crate::view::design::ViewDefinition| {
        let reducer = match view.reduce {
            None => ViewReducer::None,
            Some(Reduce::Builtin(builtin)) => {
                let collation = view.collation;
                let order = Arc::new(move |one: &_, two: &_| collation.compare(one, two));
                ViewReducer::Some(Arc::new(builtin.reducer(order, options.reduce_limit)))
            }
            Some(Reduce::Function(number)) => {
                let limit = options.reduce_limit;
                ViewReducer::Some(function(design, language, number, view.collation, limit)?)
            }
        };
        let shape = Shape { options: tree.clone(), reducer: Arc::new(reducer.clone()) };
        Ok(ViewShape { collation: view.collation, reducer, shape })
    };
    Ok(IndexShapes {
        by_id: Shape { options: tree.clone(), reducer: Arc::new(NoReduce) },
        views: design.views.iter().map(view).collect::<Result<_>>()?,
    })
}

/// The reducer with this number: one that `language` has, or a function that it runs.
fn function(
    design: &DesignDoc,
    language: &Arc<dyn Language>,
    number: usize,
    collation: Collation,
    limit: ReduceLimit,
) -> Result<Arc<dyn ShownReducer>> {
    if let Some(reducer) = language.reducer(number) {
        return Ok(reducer);
    }
    if number >= design.sources.reduces.len() {
        return Err(Error::InvalidDesignDoc { reason: format!("there is no reducer {number}") });
    }
    let sources = Arc::new(design.sources.clone());
    Ok(Arc::new(FunctionReducer::new(language.clone(), sources, number, collation, limit)))
}
