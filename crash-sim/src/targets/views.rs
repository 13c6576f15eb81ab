//! The engine's database with an index beside it, as the model's check sees them.
//!
//! Invariant: nodes and batches are as small as a profile says, and one source of random numbers
//! serves all handles of a history, so that no two of them write the same timeline.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use rereduce::btree::TreeOptions;
use rereduce::env::{Disk, Env, MemoryDisk};
use rereduce::file::sibling;
use rereduce::view::builtin::Builtin;
use rereduce::view::design::{DesignDoc, Reduce};
use rereduce::view::functions::{Language, MapFn, RustMaps};
use rereduce::view::index::{Index, IndexSnapshot, Update, Views, ViewsOptions};
use rereduce::view::limit::ReduceLimit;
use rereduce::view::query::{QueryRow, ViewQuery, run};
use rereduce::vocabulary::{Json, Number, ViewUpdate};
use rereduce::{Error, Result};
use rereduce_model::{
    DbHandle, ModelRow, ShownView, VIEW_REDUCERS, ViewsEngine, ViewsHandle, emitted,
};

use super::database::{DatabaseOpener, Handle};
use crate::random::{SeededEntropy, StillClock};

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
    pub(crate) fn new(profile: ViewsProfile, seed: u64) -> WithViews {
        let disk = MemoryDisk::new();
        let env = on(&disk, seed);
        WithViews { profile, disk, env, copies: RefCell::default() }
    }

    fn views_options(&self) -> ViewsOptions {
        let ViewsProfile { fan_out, batch_docs, cache_bytes } = self.profile;
        let plain = ViewsOptions::default();
        ViewsOptions {
            tree: TreeOptions { fan_out_max: fan_out, ..plain.tree },
            cache_bytes,
            batch_docs,
            reduce_limit: ReduceLimit::Off,
            threads: 1,
            ..plain
        }
    }
}

fn on(disk: &MemoryDisk, seed: u64) -> Env {
    Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(StillClock),
        entropy: Arc::new(SeededEntropy::new(seed)),
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("data").join(name)
}

impl ViewsEngine for WithViews {
    fn open(&self, name: &str) -> Result<Box<dyn ViewsHandle>> {
        let mut opener = DatabaseOpener::default();
        // Both are options of the opener.
        for (key, value) in [("fan-out", self.profile.fan_out), ("cache", self.profile.cache_bytes)]
        {
            opener.set(key, &value.to_string()).expect("an option of databases");
        }
        let db = opener.open_writer(&self.env, &path(name))?;
        let options = self.views_options();
        let views = Views::open(self.env.clone(), db.database().clone(), &path(name), options)?;
        let index = views.index(&design("model-1"), &language())?;
        Ok(Box::new(Opened { db, views, index, options: self.views_options() }))
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
    db: Handle,
    views: Views,
    index: Arc<Index>,
    options: ViewsOptions,
}

/// The views of all histories, under a version.
fn design(version: &str) -> DesignDoc {
    let names = ["by_value", "by_id"];
    // These two names are known.
    let reducer = |name: &str| Builtin::parse(name).ok().flatten().map(Reduce::Builtin);
    let views: Vec<(&str, Option<Reduce>)> =
        names.into_iter().zip(VIEW_REDUCERS.map(reducer)).collect();
    DesignDoc::of_rust(version, &views)
}

fn language() -> Arc<dyn Language> {
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
fn shown(snapshot: &IndexSnapshot) -> Result<Vec<ShownView>> {
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
    fn db(&self) -> &dyn DbHandle {
        &self.db
    }

    fn query(&self, update: ViewUpdate) -> Result<Vec<ShownView>> {
        shown(&self.index.snapshot(match update {
            ViewUpdate::True => Update::True,
            ViewUpdate::False => Update::False,
            ViewUpdate::Lazy => Update::Lazy,
        })?)
    }

    fn fresh(&self) -> Result<Vec<ShownView>> {
        let (env, db) = (on(&MemoryDisk::new(), 1), self.db.database().clone());
        let views = Views::open(env, db, &path("fresh"), self.options.clone())?;
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
        self.db.database().close()
    }
}
