//! Databases with an index of a view, and what is counted of them. Included by path where needed.
//!
//! Invariant: indexes here keep nothing in memory, so every node that is needed is read, and
//! counted.
#![allow(dead_code, reason = "each file that includes this one uses its own part")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::env::Env;
use rereduce::view::builtin::Builtin;
use rereduce::view::design::{DesignDoc, Reduce};
use rereduce::view::functions::{Language, RustMaps};
use rereduce::view::index::{Index, Update, Views, ViewsOptions};
use rereduce::vocabulary::Json;

use super::documents::{Numbers, id};

/// A database in memory whose document `n` has the key `[n % 10, n % 100, n]`, and the view of
/// these keys with `_sum`.
pub(crate) struct Indexed {
    pub(crate) db: Arc<Database>,
    pub(crate) index: Arc<Index>,
    nodes: BTreeSet<u64>,
    rows: u64,
    _views: Views,
}

/// What one changed document cost the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) bytes: u64,
    pub(crate) mapped: u64,
    /// The heights of both trees, added up.
    pub(crate) heights: u64,
}

fn body(n: u64, value: u64, rev: &str) -> String {
    format!("{{{rev}\"k\":[{},{},{n}],\"v\":{value}}}", n % 10, n % 100)
}

impl Indexed {
    pub(crate) fn new(rows: u64) -> Indexed {
        let (env, path) = (Env::memory(), Path::new("db"));
        let db = Database::open(env.clone(), path, DatabaseOptions::default()).unwrap();
        let db = Arc::new(db);
        for first in (0..rows).step_by(1000) {
            let edit = |n| DocEdit::parse(&id(n), body(n, n, "").as_bytes()).unwrap();
            db.edit((first..rows.min(first + 1000)).map(edit).collect()).unwrap();
        }
        let map = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
            let member = |name| document.member(name).cloned().unwrap_or(Json::Null);
            emit(member("k"), member("v"));
        };
        let language: Arc<dyn Language> = Arc::new(RustMaps::new(vec![Arc::new(map)]));
        let options = ViewsOptions { cache_bytes: 0, ..ViewsOptions::default() };
        let views = Views::open(env, db.clone(), path, options).unwrap();
        let design = DesignDoc::of_rust("keys-1", &[("keys", Some(Reduce::Builtin(Builtin::Sum)))]);
        let index = views.index(&design, &language).unwrap();
        let nodes = index.snapshot(Update::True).unwrap().nodes().unwrap();
        Indexed { db, index, nodes, rows, _views: views }
    }

    /// Moves the row of one document to another place of the view, and brings the index up.
    pub(crate) fn change(&mut self, numbers: &mut Numbers) -> Cost {
        let (document, key) = (id(numbers.below(self.rows)), numbers.below(self.rows));
        let rev = self.db.snapshot().unwrap().document(&document, None).unwrap().rev().unwrap();
        let body = body(key, numbers.below(1000), &format!("\"_rev\":\"{rev}\","));
        self.db.edit(vec![DocEdit::parse(&document, body.as_bytes()).unwrap()]).unwrap();
        let before = self.index.counts();
        let state = self.index.snapshot(Update::True).unwrap();
        let after = self.index.counts();
        let nodes = state.nodes().unwrap();
        let written = nodes.difference(&self.nodes).count() as u64;
        self.nodes = nodes;
        Cost {
            written,
            read: after.nodes_read - before.nodes_read,
            bytes: after.writes.bytes_appended - before.writes.bytes_appended,
            mapped: after.mapped - before.mapped,
            heights: state.heights(),
        }
    }
}
