//! rereduce's [`Database`]: rows are documents, values their JSON, which is read, hashed into a
//! revision id and put into a revision tree.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rereduce::db::{Change, Database, DatabaseOptions, DocEdit};
use rereduce::env::Env;
use rereduce::vocabulary::Direction;

use crate::{CACHE_BYTES, Engine, Row};

pub(crate) fn open(directory: &Path) -> Box<dyn Engine> {
    let options = DatabaseOptions { cache_bytes: CACHE_BYTES, ..DatabaseOptions::default() };
    let db = Database::open(Env::real(), &directory.join("rows.rereduce"), options).unwrap();
    Box::new(Documents { db, parsing: Duration::ZERO })
}

struct Documents {
    db: Database,
    parsing: Duration,
}

fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).unwrap()
}

impl Engine for Documents {
    fn put(&mut self, rows: &[Row]) {
        let edit = |(key, value): &Row| DocEdit::parse(text(key), value).unwrap();
        let begin = Instant::now();
        let edits = rows.iter().map(edit).collect();
        self.parsing += begin.elapsed();
        for reply in self.db.edit(edits).unwrap() {
            reply.unwrap();
        }
    }

    fn parsing(&self) -> Duration {
        self.parsing
    }

    fn get(&self, keys: &[Vec<u8>]) -> u64 {
        let snapshot = self.db.snapshot().unwrap();
        let size = |key: &Vec<u8>| {
            snapshot.document(text(key), None).map_or(0, |document| document.body.len())
        };
        keys.iter().map(|key| size(key) as u64).sum()
    }

    fn scan(&self) -> u64 {
        let mut rows = 0;
        let snapshot = self.db.snapshot().unwrap();
        let mut visit = |_: Change| {
            rows += 1;
            ControlFlow::Continue(())
        };
        snapshot.changes(0, Direction::Ascending, &mut visit).unwrap();
        rows
    }

    fn count(&self, _from: &[u8], _to: &[u8]) -> Option<u64> {
        Some(self.db.snapshot().unwrap().info().doc_count)
    }

    fn compact(&mut self) {
        self.db.compact(&mut || ControlFlow::Continue(())).unwrap();
    }

    fn written(&self) -> Option<(u64, u64)> {
        let counts = self.db.counts();
        Some((counts.bytes_appended, counts.flushes))
    }
}
