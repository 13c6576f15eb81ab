//! nebari: one tree, with or without versions.

use std::convert::Infallible;
use std::path::Path;

use nebari::io::fs::StdFile;
use nebari::tree::{Operation, Root, ScanEvaluation, Unversioned, Versioned};
use nebari::{ArcBytes, ChunkCache, Config, Roots, Tree};

use crate::{CACHE_BYTES, Engine, Row};

/// Chunks are a few kilobytes.
const CHUNK_BYTES: usize = 1 << 16;

struct Nebari<R: Root> {
    roots: Roots<StdFile>,
    tree: Tree<R, StdFile>,
    declare: fn() -> nebari::tree::TreeRoot<R, StdFile>,
    rows: fn(&R::ReducedIndex) -> u64,
}

fn roots(directory: &Path) -> Roots<StdFile> {
    let cache = ChunkCache::new(CACHE_BYTES / 4096, CHUNK_BYTES);
    Config::default_for(directory).cache(cache).open().unwrap()
}

pub(crate) fn open_unversioned(directory: &Path) -> Box<dyn Engine> {
    let roots = roots(directory);
    let declare = || Unversioned::tree("rows");
    let tree = roots.tree(declare()).unwrap();
    Box::new(Nebari::<Unversioned> { roots, tree, declare, rows: |index| index.alive_keys })
}

pub(crate) fn open_versioned(directory: &Path) -> Box<dyn Engine> {
    let roots = roots(directory);
    let declare = || Versioned::tree("rows");
    let tree = roots.tree(declare()).unwrap();
    Box::new(Nebari::<Versioned> { roots, tree, declare, rows: |index| index.alive_keys })
}

impl<R: Root + Clone + 'static> Engine for Nebari<R> {
    fn put(&mut self, rows: &[Row]) {
        let transaction = self.roots.transaction(&[(self.declare)()]).unwrap();
        let keys = rows.iter().map(|row| ArcBytes::from(row.0.clone())).collect();
        let values = rows.iter().map(|row| ArcBytes::from(row.1.clone())).collect();
        let mut tree = transaction.tree::<R>(0).unwrap();
        tree.modify(keys, Operation::SetEach(values)).unwrap();
        drop(tree);
        transaction.commit().unwrap();
    }

    fn get(&self, keys: &[Vec<u8>]) -> u64 {
        keys.iter()
            .map(|key| self.tree.get(key).unwrap().map_or(0, |value| value.len() as u64))
            .sum()
    }

    fn scan(&self) -> u64 {
        let (mut rows, mut bytes) = (0, 0);
        self.tree
            .scan::<Infallible, _, _, _, _>(
                &(..),
                true,
                |_, _, _| ScanEvaluation::ReadData,
                |_, _| ScanEvaluation::ReadData,
                |key, _, value| {
                    rows += 1;
                    bytes += key.len() + value.len();
                    Ok(())
                },
            )
            .unwrap();
        std::hint::black_box(bytes);
        rows
    }

    fn count(&self, from: &[u8], to: &[u8]) -> Option<u64> {
        Some((self.rows)(&self.tree.reduce(&(from..to)).unwrap()))
    }

    fn compact(&mut self) {
        self.tree.compact().unwrap();
    }
}
