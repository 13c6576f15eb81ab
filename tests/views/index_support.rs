//! A database and an index over it, and what its rows should be.
//!
//! Invariant: whenever rows are compared, they are compared with those of all documents mapped
//! again, and the index's own check must be silent.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rereduce::btree::TreeOptions;
use rereduce::collate::Collation;
use rereduce::db::{Database, DatabaseOptions, DbSnapshot, DocEdit};
use rereduce::env::{Disk, Env, MemoryDisk};
use rereduce::file::sibling;
use rereduce::view::builtin::Builtin;
use rereduce::view::design::{DesignDoc, Reduce};
use rereduce::view::functions::{
    Emitted, Language, ReducedRow, Runner, RustMaps, Sources, emitted_by,
};
use rereduce::view::index::{Index, IndexSnapshot, Update, Views, ViewsOptions};
use rereduce::view::limit::ReduceLimit;
use rereduce::view::reducer::ViewReducer;
use rereduce::view::row::{RowPlace, ViewRow};
use rereduce::view::rows::ViewRows;
use rereduce::vocabulary::{Direction, Json, KeyRange, Rev};
use rereduce::{Error, Result};

pub(crate) const PATH: &str = "data/db";

/// Sort key, id, emit number, key and value as text.
pub(crate) type ShownRow = (Vec<u8>, String, u32, String, String);

/// A database with one index.
pub(crate) struct Scene {
    pub(crate) env: Env,
    pub(crate) db: Arc<Database>,
    pub(crate) views: Views,
    pub(crate) index: Arc<Index>,
    pub(crate) kind: Kind,
}

/// How a scene is made.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) design: DesignDoc,
    pub(crate) language: Arc<dyn Language>,
    pub(crate) options: ViewsOptions,
}

/// Tiny nodes and no cache, so that every read goes to the disk.
pub(crate) fn tiny() -> ViewsOptions {
    ViewsOptions {
        tree: TreeOptions { fan_out_max: 3, ..ViewsOptions::default().tree },
        cache_bytes: 0,
        batch_docs: 4,
        threads: 2,
        reduce_limit: ReduceLimit::Off,
        ..ViewsOptions::default()
    }
}

/// Emits each element of `n`, or `n` itself, as key, with the revision as value.
pub(crate) fn by_n(document: &Json, emit: &mut dyn FnMut(Json, Json)) {
    let rev = || document.member("_rev").cloned().unwrap_or(Json::Null);
    match document.member("n") {
        Some(Json::Array(keys)) => keys.iter().for_each(|key| emit(key.clone(), rev())),
        Some(key) => emit(key.clone(), rev()),
        None => {}
    }
}

/// Emits the id of each document, and one.
pub(crate) fn by_id(document: &Json, emit: &mut dyn FnMut(Json, Json)) {
    emit(document.member("_id").cloned().unwrap_or(Json::Null), Json::from(1));
}

impl Kind {
    /// Two views: keys from `n` counted, ids summed up.
    pub(crate) fn usual() -> Kind {
        let reduce = |builtin| Some(Reduce::Builtin(builtin));
        let views = [("by_n", reduce(Builtin::Count)), ("by_id", reduce(Builtin::Sum))];
        let design = DesignDoc::of_rust("usual-1", &views);
        let maps = RustMaps::new(vec![Arc::new(by_n), Arc::new(by_id)]);
        Kind { design, language: Arc::new(maps), options: tiny() }
    }

    pub(crate) fn open(&self, env: &Env) -> Result<Scene> {
        let tree = TreeOptions { fan_out_max: 3, ..TreeOptions::default() };
        let options = DatabaseOptions { tree, cache_bytes: 0, ..DatabaseOptions::default() };
        let db = Arc::new(Database::open(env.clone(), PATH.as_ref(), options)?);
        self.over(env, db)
    }

    pub(crate) fn over(&self, env: &Env, db: Arc<Database>) -> Result<Scene> {
        let options = self.options.clone();
        let views = Views::open(env.clone(), db.clone(), PATH.as_ref(), options)?;
        let index = views.index(&self.design, &self.language)?;
        Ok(Scene { env: env.clone(), db, views, index, kind: self.clone() })
    }

    /// The file of the index.
    pub(crate) fn path(&self) -> PathBuf {
        sibling(Path::new(PATH), "views").join(self.design.signature().to_string())
    }
}

/// A disk and an environment on it.
pub(crate) fn on(disk: &(impl Disk + Clone + 'static)) -> Env {
    Env { disk: Arc::new(disk.clone()), ..Env::real() }
}

pub(crate) fn fresh() -> Scene {
    Kind::usual().open(&on(&MemoryDisk::new())).unwrap()
}

impl Scene {
    /// Closes everything as if the process had died, and opens it again.
    pub(crate) fn again(self) -> Scene {
        let Scene { env, db, views, index, kind } = self;
        drop((db, views, index));
        kind.open(&env).unwrap()
    }

    pub(crate) fn put(&self, id: &str, json: &str) -> Rev {
        let mut edit = DocEdit::parse(id, json.as_bytes()).unwrap();
        if let Some(winner) = self.db.snapshot().unwrap().winner(id).unwrap()
            && !winner.deleted
        {
            edit.draft.path = winner.path;
        }
        self.db.edit(vec![edit]).unwrap().remove(0).unwrap()
    }

    pub(crate) fn delete(&self, id: &str) {
        let rev = self.winner(id);
        self.db.edit(vec![DocEdit::deletion(id, rev).unwrap()]).unwrap().remove(0).unwrap();
    }

    pub(crate) fn winner(&self, id: &str) -> Rev {
        self.db.snapshot().unwrap().document(id, None).unwrap().rev().unwrap()
    }

    pub(crate) fn purge(&self, id: &str) {
        let leaves = self.db.snapshot().unwrap().leaves(id).unwrap();
        let revs = leaves.into_iter().map(|(rev, _)| rev).collect();
        self.db.purge(vec![(id.to_owned(), revs)]).unwrap();
    }

    pub(crate) fn compact_db(&self) {
        self.db.compact(&mut || ControlFlow::Continue(())).unwrap();
    }

    /// The newest state, compared with all documents mapped again.
    pub(crate) fn query(&self) -> IndexSnapshot {
        let snapshot = self.index.snapshot(Update::True).unwrap();
        self.kind.compare(&snapshot);
        assert_eq!(snapshot.update_seq(), self.db.snapshot().unwrap().info().update_seq);
        let checked = self.index.check().unwrap();
        assert!(checked.is_sound(), "{:?}", checked.violations);
        snapshot
    }

    /// Documents mapped by `work`.
    pub(crate) fn mapped<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        let before = self.index.counts().mapped;
        let value = work();
        (self.index.counts().mapped - before, value)
    }

    /// The ids that view 0 has rows of.
    pub(crate) fn ids(&self, update: Update) -> Vec<String> {
        ids(&self.index.snapshot(update).unwrap())
    }
}

pub(crate) fn ids(snapshot: &IndexSnapshot) -> Vec<String> {
    let mut ids: Vec<String> = rows(&snapshot.view(0).unwrap()).into_iter().map(|r| r.1).collect();
    ids.sort();
    ids.dedup();
    ids
}

impl Kind {
    /// Compares all views of a snapshot with its documents mapped again: rows and reductions.
    pub(crate) fn compare(&self, snapshot: &IndexSnapshot) {
        for number in 0..self.design.views.len() {
            let view = snapshot.view(number).unwrap();
            assert_eq!(rows(&view), self.expected(snapshot.db(), number), "view {number}");
            if let ViewReducer::Some(reducer) = view.reducer() {
                let stored = rows_as_stored(&view);
                let borrowed: Vec<_> = stored.iter().map(|(key, row)| (&**key, &**row)).collect();
                let mut whole = Vec::new();
                reducer.reduce(&borrowed, &mut whole).unwrap();
                let said = view.reduce(&KeyRange::all()).unwrap();
                assert_eq!(reducer.show(&said).unwrap(), reducer.show(&whole).unwrap());
            }
        }
    }

    /// The rows of a view, from nothing but the documents.
    pub(crate) fn expected(&self, db: &DbSnapshot, number: usize) -> Vec<ShownRow> {
        let view = &self.design.views[number];
        let mut runner = self.language.start(&self.design.sources).unwrap();
        let mut expected = Vec::new();
        let mut ids = Vec::new();
        db.changes(0, Direction::Ascending, &mut |change| {
            if !change.deleted()
                && (self.design.include_design || !change.id.starts_with("_design"))
            {
                ids.push(change.id.clone());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        for id in ids {
            let shown = db.document_for_maps(&id, self.design.local_seq).unwrap().unwrap();
            let emitted = runner.map(&shown).unwrap().swap_remove(view.map);
            for (emit, (key, value)) in emitted.into_iter().enumerate() {
                let mut sort_key = Vec::new();
                Collation::sort_key(view.collation, &key, &mut sort_key);
                let (key, value) = (key.to_string(), value.to_string());
                expected.push((sort_key, id.clone(), emit as u32, key, value));
            }
        }
        expected.sort();
        expected
    }
}

pub(crate) fn rows(view: &dyn ViewRows) -> Vec<ShownRow> {
    let text = |bytes: &[u8]| Json::parse(bytes).unwrap().to_string();
    let shown = |(place, row): &(Vec<u8>, Vec<u8>)| {
        let place = RowPlace::decode(view.collation(), place).unwrap();
        let row = ViewRow::decode(row).unwrap();
        let id = place.id.into_owned();
        (place.sort_key.to_vec(), id, place.emit, text(row.key), text(row.value))
    };
    rows_as_stored(view).iter().map(shown).collect()
}

fn rows_as_stored(view: &dyn ViewRows) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    view.scan(&KeyRange::all(), Direction::Ascending, &mut |place, row| {
        rows.push((place.to_vec(), row.to_vec()));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    assert_eq!(rows.len() as u64, view.total_rows());
    rows
}

/// The map function of `by_n`, which counts its calls and refuses documents with `fails`.
#[derive(Clone, Default)]
pub(crate) struct Failing(pub(crate) Arc<AtomicU64>);

impl Language for Failing {
    fn start(&self, _: &Sources) -> Result<Box<dyn Runner>> {
        Ok(Box::new(self.clone()))
    }
}

impl Runner for Failing {
    fn map(&mut self, document: &Json) -> Result<Vec<Vec<Emitted>>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if let Some(reason) = document.member("fails").and_then(Json::as_str) {
            let reason = reason.to_owned();
            return Err(Error::Function { name: "fatal".to_owned(), reason });
        }
        Ok(vec![emitted_by(&by_n, document)])
    }

    fn reduce(&mut self, _: usize, _: &[ReducedRow]) -> Result<Json> {
        Ok(Json::Null)
    }

    fn rereduce(&mut self, _: usize, _: &[Json]) -> Result<Json> {
        Ok(Json::Null)
    }
}

impl Kind {
    /// The same on a database with nodes and a cache as users have them.
    pub(crate) fn open_large(&self, env: &Env) -> Result<Scene> {
        let db = Database::open(env.clone(), PATH.as_ref(), DatabaseOptions::default())?;
        self.over(env, Arc::new(db))
    }
}
