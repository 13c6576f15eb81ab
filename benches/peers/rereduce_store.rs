//! rereduce's [`Store`]: one tree that counts its rows.

use std::ops::ControlFlow;
use std::path::Path;

use rereduce::env::Env;
use rereduce::reduce::Count;
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Direction, Edit, KeyRange};

use crate::{CACHE_BYTES, Engine, Row};

pub(crate) fn open(directory: &Path) -> Box<dyn Engine> {
    let options = StoreOptions { cache_bytes: CACHE_BYTES, ..StoreOptions::default() };
    Box::new(Store::open(Env::real(), &directory.join("rows.rereduce"), options).unwrap())
}

impl Engine for Store {
    fn put(&mut self, rows: &[Row]) {
        self.commit(rows.iter().map(|(key, value)| Edit::put(&key[..], &value[..])).collect())
            .unwrap();
    }

    fn get(&self, keys: &[Vec<u8>]) -> u64 {
        let snapshot = self.snapshot().unwrap();
        let size = |key: &Vec<u8>| snapshot.find(key).unwrap().map_or(0, |value| value.len());
        keys.iter().map(|key| size(key) as u64).sum()
    }

    fn scan(&self) -> u64 {
        let (mut rows, mut bytes) = (0, 0);
        let mut visit = |key: &[u8], value: &[u8]| {
            rows += 1;
            bytes += key.len() + value.len();
            ControlFlow::Continue(())
        };
        let snapshot = self.snapshot().unwrap();
        snapshot.scan(&KeyRange::all(), Direction::Ascending, &mut visit).unwrap();
        std::hint::black_box(bytes);
        rows
    }

    fn count(&self, from: &[u8], to: &[u8]) -> Option<u64> {
        let range = KeyRange::of(from..to);
        Count::decode(&self.snapshot().unwrap().reduce(&range).unwrap())
    }

    fn compact(&mut self) {
        Store::compact(self, &mut || ControlFlow::Continue(())).unwrap();
    }

    fn written(&self) -> Option<(u64, u64)> {
        let counts = self.counts();
        Some((counts.bytes_appended, counts.flushes))
    }
}
