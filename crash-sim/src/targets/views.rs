//! The engine's database with an index beside it, as the model's check sees them.
//!
//! `fuzz` includes this file, too: it needs nothing of this crate.
//!
//! Invariant: nodes and batches are as small as a profile says, and one source of random numbers
//! serves all handles of a history, so that no two of them write the same timeline.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use rereduce::btree::TreeOptions;
use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::env::{Disk, Env, MemoryDisk};
use rereduce::file::sibling;
use rereduce::view::builtin::Builtin;
use rereduce::view::design::{DesignDoc, Reduce};
use rereduce::view::functions::{Language, MapFn, RustMaps};
use rereduce::view::index::{Index, IndexSnapshot, Update, Views, ViewsOptions};
use rereduce::view::limit::ReduceLimit;
use rereduce::view::query::{QueryRow, ViewQuery, run};
use rereduce::vocabulary::{Json, Number, Rev, RevPath, ViewUpdate};
use rereduce::{Error, Result};
use rereduce_model::{
    DbEdit, DbReplica, ModelRow, ShownView, VIEW_REDUCERS, ViewsEngine, ViewsHandle, emitted,
};

/// How databases and their views are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewsProfile {
    /// Entries of a node at most.
    pub(crate) fan_out: usize,
    /// Documents of a batch at most.
    pub(crate) batch_docs: usize,
    /// Bytes of nodes that are kept in memory.
    pub(crate) cache_bytes: usize,
}

/// Databases with views on a disk in memory.
pub(crate) struct WithViews {
    profile: ViewsProfile,
    disk: MemoryDisk,
    env: Env,
    copies: RefCell<BTreeMap<String, Vec<u8>>>,
}

impl WithViews {
    /// Databases on a disk of their own; clock and chance are those of `env`.
    pub(crate) fn new(profile: ViewsProfile, env: &Env) -> WithViews {
        let disk = MemoryDisk::new();
        let env = Env { disk: Arc::new(disk.clone()), ..env.clone() };
        WithViews { profile, disk, env, copies: RefCell::default() }
    }

    fn tree(&self) -> TreeOptions {
        TreeOptions { fan_out_max: self.profile.fan_out, ..ViewsOptions::default().tree }
    }

    fn views_options(&self) -> ViewsOptions {
        let ViewsProfile { batch_docs, cache_bytes, .. } = self.profile;
        ViewsOptions {
            tree: self.tree(),
            cache_bytes,
            batch_docs,
            reduce_limit: ReduceLimit::Off,
            threads: 1,
            ..ViewsOptions::default()
        }
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("data").join(name)
}

impl ViewsEngine for WithViews {
    fn open(&self, name: &str) -> Result<Box<dyn ViewsHandle>> {
        let cache_bytes = self.profile.cache_bytes;
        let options =
            DatabaseOptions { tree: self.tree(), cache_bytes, ..DatabaseOptions::default() };
        let db = Arc::new(Database::open(self.env.clone(), &path(name), options)?);
        let views = self.views_options();
        let views = Views::open(self.env.clone(), db.clone(), &path(name), views)?;
        let index = views.index(&design("model-1"), &language())?;
        let elsewhere = self.env.clone();
        Ok(Box::new(Opened { db, views, index, elsewhere, options: self.views_options() }))
    }

    fn backup(&self, name: &str) {
        if let Some(bytes) = self.disk.bytes(&path(name)) {
            self.copies.borrow_mut().insert(name.to_owned(), bytes);
        }
    }

    fn restore(&self, name: &str) {
        if let Some(bytes) = self.copies.borrow().get(name) {
            self.disk.place(&path(name), bytes.clone());
        }
    }

    fn remove(&self, name: &str, views: bool) {
        let mut gone = vec![path(name)];
        if views {
            self.copies.borrow_mut().remove(name);
            gone.extend(self.disk.list(&sibling(&path(name), "views")).unwrap_or_default());
        }
        for path in gone {
            match self.disk.remove(&path) {
                Ok(()) | Err(Error::NoSuchFile { .. }) => {}
                Err(error) => panic!("a disk in memory does not fail: {error}"),
            }
        }
    }
}

/// An open database with its views.
struct Opened {
    db: Arc<Database>,
    views: Views,
    index: Arc<Index>,
    /// Clock and chance of the views that are built afresh.
    elsewhere: Env,
    options: ViewsOptions,
}

/// The views of all histories, under a version.
pub(super) fn design(version: &str) -> DesignDoc {
    let names = ["by_value", "by_id"];
    // These two names are known.
    let reducer = |name: &str| Builtin::parse(name).ok().flatten().map(Reduce::Builtin);
    let views: Vec<(&str, Option<Reduce>)> =
        names.into_iter().zip(VIEW_REDUCERS.map(reducer)).collect();
    DesignDoc::of_rust(version, &views)
}

pub(super) fn language() -> Arc<dyn Language> {
    let map = |number: usize| -> Arc<dyn MapFn> {
        Arc::new(move |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
            let text = |name| document.member(name).and_then(Json::as_str).unwrap_or_default();
            let v = match document.member("v") {
                Some(Json::Number(Number::Integer(v))) => Some(*v),
                _ => None,
            };
            let rows = emitted(text("_id"), text("_rev"), v).into_iter().nth(number);
            rows.into_iter().flatten().for_each(|(key, value)| emit(key, value));
        })
    };
    Arc::new(RustMaps::new((0..VIEW_REDUCERS.len()).map(map).collect()))
}

/// What all views of a snapshot show.
pub(super) fn shown(snapshot: &IndexSnapshot) -> Result<Vec<ShownView>> {
    let mut views = Vec::new();
    for number in 0..VIEW_REDUCERS.len() {
        let view = snapshot.view(number).expect("the index has so many views");
        let mut shown = ShownView::default();
        let rows = ViewQuery { reduce: Some(false), ..ViewQuery::default() };
        let groups = ViewQuery { group_level: Some(1), ..ViewQuery::default() };
        for query in [rows, groups] {
            run(&view, None, &query, &mut |row| {
                match row {
                    QueryRow::Row { id, key, value, .. } => {
                        let (key, value) = (Json::parse(key)?, Json::parse(value)?);
                        shown.rows.push(ModelRow { key, id: id.to_owned(), value });
                    }
                    QueryRow::Group { key, value } => shown.groups.push((key, value)),
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        views.push(shown);
    }
    Ok(views)
}

impl ViewsHandle for Opened {
    fn edit(&self, edits: &[DbEdit]) -> Result<Vec<Result<Rev>>> {
        let edit = |edit: &DbEdit| {
            let mut made = DocEdit::parse(&edit.id, edit.body.as_bytes())?;
            made.draft.deleted = edit.deleted;
            if let Some(base) = &edit.base {
                made.draft.path = RevPath { start: base.generation, ids: vec![base.id.clone()] };
            }
            Ok(made)
        };
        self.db.edit(edits.iter().map(edit).collect::<Result<_>>()?)
    }

    fn merge(&self, replicas: &[DbReplica]) -> Result<()> {
        let revision = |replica: &DbReplica| {
            let mut made = DocEdit::parse(&replica.id, replica.body.as_bytes())?;
            made.draft.deleted = replica.deleted;
            let start = replica.path.last().map_or(0, |rev| rev.generation);
            let ids = replica.path.iter().rev().map(|rev| rev.id.clone()).collect();
            made.draft.path = RevPath { start, ids };
            Ok(made)
        };
        let merged = self.db.merge(replicas.iter().map(revision).collect::<Result<_>>()?)?;
        merged.into_iter().try_for_each(|merged| merged.map(drop))
    }

    fn purge(&self, id: &str, revs: &[Rev]) -> Result<()> {
        self.db.purge(vec![(id.to_owned(), revs.to_vec())]).map(drop)
    }

    fn set_revs_limit(&self, limit: u64) -> Result<()> {
        self.db.set_revs_limit(limit as u32)
    }

    fn set_purge_limit(&self, limit: u64) -> Result<()> {
        self.db.set_purge_infos_limit(limit)
    }

    fn compact(&self) -> Result<()> {
        self.db.compact(&mut || ControlFlow::Continue(()))
    }

    fn query(&self, update: ViewUpdate) -> Result<Vec<ShownView>> {
        shown(&self.index.snapshot(match update {
            ViewUpdate::True => Update::True,
            ViewUpdate::False => Update::False,
            ViewUpdate::Lazy => Update::Lazy,
        })?)
    }

    fn fresh(&self) -> Result<Vec<ShownView>> {
        let env = Env { disk: Arc::new(MemoryDisk::new()), ..self.elsewhere.clone() };
        let options = self.options.clone();
        let views = Views::open(env, self.db.clone(), &path("fresh"), options)?;
        let shown = shown(&views.index(&design("fresh-1"), &language())?.snapshot(Update::True)?);
        views.close()?;
        shown
    }

    fn settle(&self) {
        self.index.wait_for_lazy_update();
    }

    fn mapped(&self) -> u64 {
        self.index.counts().mapped
    }

    fn compact_views(&self) -> Result<()> {
        self.index.compact(&mut || ControlFlow::Continue(()))
    }

    fn check(&self) -> std::result::Result<(), String> {
        let checked = self.index.check().map_err(|error| error.to_string())?;
        match checked.violations.first() {
            None => Ok(()),
            Some(violation) => Err(violation.to_string()),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.views.close()?;
        self.db.close()
    }
}
