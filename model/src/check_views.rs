//! What a database with views must offer to be held against the model, and the check itself.
//!
//! ```text
//!   winners of the model ──emitted──> rows, from scratch ──┐
//!   engine: index, brought up to date ──> rows, groups ────┼── equal
//!   engine: index, built afresh ──> rows, groups ──────────┘
//! ```
//!
//! Both sides are handed one map function, [`emitted`]; what becomes of its rows is compared.
//!
//! Invariant: after whatever happened, a query that wants the newest rows gets those of the newest
//! state, and no document was mapped for it but those that changed.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use rereduce::Result as EngineResult;
use rereduce::vocabulary::{DbOp, DocEdit, Json, Replica, Rev, ViewOp, ViewUpdate};

use crate::check_db::{DbEdit, DbReplica};
use crate::check_stop::{Stop, differs};
use crate::collate::compare_unicode;
use crate::db::{Revision, State};
use crate::generate_views::{simpler, view_history_of};
use crate::resolve::{body_text, replica_path, resolve};
use crate::verdict::{CheckConfig, Mismatch, Report, Violation, check, check_history};
use crate::views::{Emits, ModelRow, ModelView, ViewQuery};
use crate::views_reduce::ModelReducer;

/// A place where databases live, each with its views.
///
/// ```
/// use rereduce_model::{CheckConfig, ViewsEngine, ViewsHandle, check_views};
///
/// /// An engine whose disk is gone.
/// struct Broken;
///
/// impl ViewsEngine for Broken {
///     fn open(&self, name: &str) -> rereduce::Result<Box<dyn ViewsHandle>> {
///         Err(rereduce::Error::NoSuchFile { path: name.into() })
///     }
///     fn backup(&self, _: &str) {}
///     fn restore(&self, _: &str) {}
///     fn remove(&self, _: &str, _: bool) {}
/// }
///
/// let violation = check_views(&Broken, &CheckConfig::default()).unwrap_err();
/// assert_eq!(violation.expected, "no error");
/// ```
pub trait ViewsEngine {
    /// Opens the database called `name` with its views, and creates it if it is not there. All
    /// earlier handles are gone by then.
    fn open(&self, name: &str) -> EngineResult<Box<dyn ViewsHandle>>;

    /// Keeps a copy of the database as it is on the disk, without its views, in place of any copy
    /// before. It may be open.
    fn backup(&self, name: &str);

    /// Puts the copy in the database's place. Nobody has it open.
    fn restore(&self, name: &str);

    /// Removes the database and, if `views`, its views and its copy. Nobody has it open.
    fn remove(&self, name: &str, views: bool);
}

/// An open database with its views: one for each list that [`emitted`] returns, by
/// [`VIEW_REDUCERS`].
pub trait ViewsHandle {
    /// Writes a batch of edits without attachments as one commit, each with its own result.
    fn edit(&self, edits: &[DbEdit]) -> EngineResult<Vec<EngineResult<Rev>>>;

    /// Writes replicated revisions as one commit.
    fn merge(&self, replicas: &[DbReplica]) -> EngineResult<()>;

    /// Purges those of `revs` that are leaves.
    fn purge(&self, id: &str, revs: &[Rev]) -> EngineResult<()>;

    /// Sets how many revisions of a history are kept by writes from now on.
    fn set_revs_limit(&self, limit: u64) -> EngineResult<()>;

    /// Sets how many purges compactions keep from now on.
    fn set_purge_limit(&self, limit: u64) -> EngineResult<()>;

    /// Compacts the database.
    fn compact(&self) -> EngineResult<()>;

    /// What all views show.
    fn query(&self, update: ViewUpdate) -> EngineResult<Vec<ShownView>>;

    /// The same of views that are built anew from the newest state, elsewhere.
    fn fresh(&self) -> EngineResult<Vec<ShownView>>;

    /// Waits until an update behind a query has ended.
    fn settle(&self);

    /// How many documents this handle has mapped so far.
    fn mapped(&self) -> u64;

    /// Compacts the views.
    fn compact_views(&self) -> EngineResult<()>;

    /// The engine's own check of its views' structure.
    fn check(&self) -> Result<(), String>;

    /// Closes cleanly.
    fn close(self: Box<Self>) -> EngineResult<()>;
}

/// What a view shows to two queries: for all its rows, and for its groups at level 1.
///
/// ```
/// assert!(rereduce_model::ShownView::default().rows.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownView {
    /// The rows.
    pub rows: Vec<ModelRow>,
    /// The groups.
    pub groups: Vec<(Json, Json)>,
}

/// The reducers of the views.
pub const VIEW_REDUCERS: [&str; 2] = ["_sum", "_count"];

/// The rows that a document emits in each view: by the winner's member `v`, and by its id and
/// revision with two rows of one key.
///
/// ```
/// let [by_value, by_id] = rereduce_model::emitted("a", "1-x", Some(4));
/// assert_eq!((by_value.len(), by_id.len()), (1, 3));
/// ```
pub fn emitted(id: &str, rev: &str, v: Option<i64>) -> [Vec<(Json, Json)>; 2] {
    let by_value = v.map(|v| (Json::Array(vec![Json::from(v % 3), Json::from(v)]), Json::from(v)));
    let by_id = [
        (Json::from("all"), Json::from(rev)),
        (Json::from(id), Json::Null),
        (Json::from("all"), Json::from(id)),
    ];
    [by_value.into_iter().collect(), by_id.into()]
}

/// Holds `engine` against the model, over histories that depend on `config` alone.
///
/// # Errors
/// A [`Violation`] with the shortest history found.
// spec: MODEL-2, MODEL-16
pub fn check_views(engine: &dyn ViewsEngine, config: &CheckConfig) -> Result<Report, Violation> {
    check(
        config,
        // A few histories need not meet every kind: whoever counts them looks at that.
        &[],
        |history| view_history_of(config, history),
        |ops, report| run(engine, ops, report),
        simpler,
    )
}

/// Holds `engine` against the model over one history.
///
/// # Errors
/// A [`Violation`] with the shortest history found.
pub fn check_views_history(engine: &dyn ViewsEngine, ops: &[ViewOp]) -> Result<Report, Violation> {
    let mut report = Report::default();
    check_history(ops, &mut report, &|ops, report| run(engine, ops, report), &simpler)?;
    Ok(report)
}

/// A state of the database, as it came to be.
#[derive(Clone)]
struct Moment {
    /// No other moment has it, so that a copy that goes another way is told apart.
    number: u64,
    state: State,
    /// How many purges there were before.
    purges: usize,
}

struct Run<'a> {
    engine: &'a dyn ViewsEngine,
    name: String,
    /// Gone only while it is opened again.
    handle: Option<Box<dyn ViewsHandle>>,
    /// What the database descends from, its newest state last.
    past: Vec<Moment>,
    copy: Option<Vec<Moment>>,
    /// The moment that the views show, if they show any.
    indexed: Option<Moment>,
    moments: u64,
}

fn run(engine: &dyn ViewsEngine, ops: &[ViewOp], report: &mut Report) -> Result<(), Mismatch> {
    static DATABASES: AtomicU64 = AtomicU64::new(0);
    let name = format!("views-{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let (handle, past) = (None, Vec::new());
    let mut run = Run { engine, name, handle, past, copy: None, indexed: None, moments: 0 };
    run.begin().map_err(|stop| stop.at(0))?;
    for (step, op) in ops.iter().enumerate() {
        report.count(op.kind());
        run.step(op).map_err(|stop| stop.at(step))?;
    }
    run.query(ViewUpdate::True).map_err(|stop| stop.at(ops.len()))?;
    run.handle = None;
    engine.remove(&run.name, true);
    Ok(())
}

impl Run<'_> {
    fn handle(&self) -> &dyn ViewsHandle {
        self.handle.as_deref().expect("a database is open between two operations")
    }

    fn newest(&self) -> &Moment {
        self.past.last().expect("the empty state is always there")
    }

    /// Creates a database that has seen nothing.
    fn begin(&mut self) -> Result<(), Stop> {
        self.past.clear();
        self.push(State::default(), 0);
        self.handle = Some(self.engine.open(&self.name)?);
        Ok(())
    }

    fn push(&mut self, state: State, purges: usize) {
        self.moments += 1;
        self.past.push(Moment { number: self.moments, state, purges });
    }

    /// The database has another state.
    fn wrote(&mut self, next: State, purges: usize) {
        let purges = self.newest().purges + purges;
        self.push(next, purges);
    }

    fn next(&self) -> State {
        let mut next = self.newest().state.clone();
        next.begin();
        next
    }

    fn step(&mut self, op: &ViewOp) -> Result<(), Stop> {
        match op {
            ViewOp::Db(DbOp::Edit(edits)) => self.edit(edits)?,
            ViewOp::Db(DbOp::Merge(replicas)) => self.merge(replicas)?,
            ViewOp::Db(DbOp::Purge { id, base }) => {
                let mut next = self.next();
                let revs: Vec<Rev> = resolve(&next, id, *base).into_iter().collect();
                let before = next.purges.len();
                next.purge(id, &revs);
                let made = next.purges.len() - before;
                self.handle().purge(id, &revs)?;
                self.wrote(next, made);
            }
            ViewOp::Db(DbOp::RevsLimit(limit)) => {
                let mut next = self.next();
                next.revs_limit = *limit;
                self.handle().set_revs_limit(*limit)?;
                self.wrote(next, 0);
            }
            ViewOp::Db(DbOp::PurgeLimit(limit)) => {
                let mut next = self.next();
                next.purge_limit = *limit;
                self.handle().set_purge_limit(*limit)?;
                self.wrote(next, 0);
            }
            ViewOp::Db(DbOp::Compact) => {
                self.handle().compact()?;
                // It drops bodies and purges, and makes no other state.
                if let Some(newest) = self.past.last_mut() {
                    newest.state.compact();
                }
            }
            ViewOp::Db(DbOp::Reopen) => self.reopen(true, |_| ())?,
            ViewOp::Db(DbOp::Crash) => self.reopen(false, |_| ())?,
            ViewOp::Db(_) => {}
            ViewOp::Query(update) => self.query(*update)?,
            ViewOp::CompactViews => {
                self.handle().compact_views()?;
                // One of another database fails its check, and rightly.
                if self.indexed.as_ref().is_none_or(|indexed| self.knows(indexed) == Some(true)) {
                    self.checked()?;
                }
            }
            ViewOp::Backup => {
                self.engine.backup(&self.name);
                self.copy = Some(self.past.clone());
            }
            ViewOp::Restore => {
                if let Some(copy) = self.copy.clone() {
                    self.reopen(true, |run| run.engine.restore(&run.name))?;
                    self.past = copy;
                }
            }
            ViewOp::Recreate => {
                self.reopen(true, |run| run.engine.remove(&run.name, false))?;
                self.past.clear();
                self.push(State::default(), 0);
            }
        }
        Ok(())
    }

    /// Closes, or just drops everything, and opens again after `between`.
    fn reopen(&mut self, cleanly: bool, between: impl FnOnce(&Self)) -> Result<(), Stop> {
        if let Some(handle) = self.handle.take()
            && cleanly
        {
            handle.close()?;
        }
        between(self);
        self.handle = Some(self.engine.open(&self.name)?);
        Ok(())
    }

    fn edit(&mut self, edits: &[DocEdit]) -> Result<(), Stop> {
        let mut next = self.next();
        let resolved: Vec<(DbEdit, Revision)> = edits
            .iter()
            .map(|DocEdit { id, base, body }| {
                let (deleted, text) = (body.is_none(), body_text(*body));
                let (id, base) = (id.clone(), resolve(&next, id, *base));
                let attachments = Vec::new();
                let revision = Revision { deleted, body: text.clone(), attachments };
                let attachments = Vec::new();
                (DbEdit { id, base, deleted, body: text, attachments }, revision)
            })
            .collect();
        let sent: Vec<DbEdit> = resolved.iter().map(|(edit, _)| edit.clone()).collect();
        let results = self.handle().edit(&sent)?;
        for ((edit, revision), result) in resolved.into_iter().zip(results) {
            let accepted = next.accept(&edit.id, edit.base.as_ref(), edit.deleted);
            match (accepted, result) {
                (Ok(parent), Ok(rev)) => next.edit(&edit.id, parent, rev, revision),
                (Err(_), Err(_)) => {}
                (accepted, result) => {
                    return Err(differs(format!("{accepted:?}"), format!("{result:?}")));
                }
            }
        }
        self.wrote(next, 0);
        Ok(())
    }

    fn merge(&mut self, replicas: &[Replica]) -> Result<(), Stop> {
        let mut next = self.next();
        let replicas = replicas.iter().map(|replica| DbReplica {
            id: replica.id.clone(),
            path: replica_path(&next, replica),
            deleted: replica.body.is_none(),
            body: body_text(replica.body),
        });
        let replicas: Vec<DbReplica> =
            replicas.filter(|replica| !replica.path.is_empty()).collect();
        self.handle().merge(&replicas)?;
        let batch = replicas.into_iter().map(|DbReplica { id, path, deleted, body }| {
            (id, path, Revision { deleted, body, attachments: Vec::new() })
        });
        next.merge_all(batch.collect());
        self.wrote(next, 0);
        Ok(())
    }

    /// Asks all views, and looks how many documents were mapped for the answer.
    // spec: MODEL-16, MODEL-17
    fn query(&mut self, update: ViewUpdate) -> Result<(), Stop> {
        let before = self.handle().mapped();
        let found = self.handle().query(update)?;
        self.handle().settle();
        let mapped = self.handle().mapped() - before;
        if update != ViewUpdate::True {
            self.is_older_answer(&found)?;
        }
        if update == ViewUpdate::False {
            return same("documents mapped by a query that updates nothing", &0, &mapped);
        }
        let allowed = self.changed();
        if !allowed.contains(&mapped) {
            let expected = format!("{allowed:?} documents to be mapped");
            return Err(differs(expected, format!("{mapped} mapped")));
        }
        let newest = self.newest().clone();
        let expected = shown_views(&newest.state);
        match update {
            ViewUpdate::True => same("an answer", &expected, &found)?,
            _ => same(
                "what a lazy update left",
                &expected,
                &self.handle().query(ViewUpdate::False)?,
            )?,
        }
        same("a fresh build", &expected, &self.handle().fresh()?)?;
        self.indexed = Some(newest);
        self.checked()
    }

    fn checked(&self) -> Result<(), Stop> {
        self.handle().check().map_err(|found| differs("a sound index", found))
    }

    /// A query that updates nothing shows the state that was shown last, or nothing if the database
    /// does not descend from it.
    // spec: MODEL-17
    fn is_older_answer(&self, found: &[ShownView]) -> Result<(), Stop> {
        let nothing = shown_views(&State::default());
        let Some(indexed) = &self.indexed else { return same("no rows", &*nothing, found) };
        let rows = shown_views(&indexed.state);
        match self.knows(indexed) {
            Some(true) => same("the last finished rows", &*rows, found),
            Some(false) => same("no rows of another database", &*nothing, found),
            None if *found == *rows => Ok(()),
            None => same("no rows, or those of an equal state", &*nothing, found),
        }
    }

    /// Whether the database descends from a moment. An engine need not tell states apart that are
    /// equal.
    fn knows(&self, moment: &Moment) -> Option<bool> {
        if self.past.iter().any(|past| past.number == moment.number) {
            return Some(true);
        }
        let equal = self.past.iter().any(|past| past.state.holds_the_same_as(&moment.state));
        if equal { None } else { Some(false) }
    }

    /// How many documents an update may map: those that changed and are not deleted; all, if the
    /// index is of no use.
    // spec: MODEL-17
    fn changed(&self) -> BTreeSet<u64> {
        let newest = self.newest();
        let live = || newest.state.documents.iter().filter(|(_, document)| !document.deleted());
        let all = live().count() as u64;
        let Some(indexed) = &self.indexed else { return BTreeSet::from([all]) };
        let purged = newest.purges.saturating_sub(indexed.purges);
        let remembered = &newest.state.purges;
        let known = self.knows(indexed);
        if known == Some(false) || known == Some(true) && purged > remembered.len() {
            return BTreeSet::from([all]);
        }
        let seen = remembered.len().saturating_sub(purged);
        let is_changed = |id: &String, changed: u64| {
            let before = indexed.state.documents.get(id).map(|document| document.changed);
            before != Some(changed) || remembered[seen..].iter().any(|(purged, _)| purged == id)
        };
        let some = live().filter(|(id, document)| is_changed(id, document.changed)).count() as u64;
        if known.is_none() { BTreeSet::from([some, all]) } else { BTreeSet::from([some]) }
    }
}

/// What all views show of a state: rows and groups of each, made from nothing.
///
/// ```
/// let nothing = rereduce_model::shown_views(&rereduce_model::State::default());
/// assert!(nothing.iter().all(|view| view.rows.is_empty()));
/// ```
pub fn shown_views(state: &State) -> Vec<ShownView> {
    let mut emits = vec![Emits::new(); VIEW_REDUCERS.len()];
    for (id, document) in &state.documents {
        let Some(rev) = document.winner().filter(|_| !document.deleted()) else { continue };
        let body = document.revisions.get(&rev).map(|revision| revision.body.as_str());
        let rows = emitted(id, &rev.to_string(), body.and_then(value));
        for (emits, rows) in emits.iter_mut().zip(rows) {
            emits.insert(id.clone(), rows);
        }
    }
    let reducers = [ModelReducer::Sum, ModelReducer::Count];
    let views = emits.iter().zip(reducers).map(|(emits, reducer)| {
        let view = ModelView::new(compare_unicode, emits);
        let query = ViewQuery { group_level: 1, ..ViewQuery::default() };
        let groups = view.groups_of(&query, &|rows| reducer.reduce(rows)).unwrap_or_default();
        ShownView { rows: view.rows().to_vec(), groups }
    });
    views.collect()
}

/// The member `v` of a body that [`body_text`] made.
fn value(body: &str) -> Option<i64> {
    let digits = body.strip_prefix(r#"{"v":"#)?;
    digits.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

fn same<T: PartialEq + Debug + ?Sized>(what: &str, expected: &T, found: &T) -> Result<(), Stop> {
    match expected == found {
        true => Ok(()),
        false => Err(differs(format!("{what}: {expected:?}"), format!("{found:?}"))),
    }
}
