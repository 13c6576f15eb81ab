//! A tree beside the map it should equal, and the one `check` that holds them together.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use rereduce::btree::{Builder, CachedNodes, NodeCache, Shape, Tree, TreeOptions, diff};
use rereduce::codec::Reader;
use rereduce::file::{ChunkSink, ChunkSource, MemoryChunks, Pointer};
use rereduce::reduce::{Count, Reducer, Row};
use rereduce::vocabulary::{Direction, Edit, KeyRange};
use rereduce::{Error, Result};

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key with its old and its new value.
pub(crate) type Difference = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

/// Chunks that count what is appended.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) chunks: MemoryChunks,
    pub(crate) appended: u64,
    pub(crate) bytes: u64,
}

impl ChunkSource for Counted {
    fn read(&self, pointer: Pointer) -> Result<Arc<[u8]>> {
        self.chunks.read(pointer)
    }

    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error {
        self.chunks.nonsense(pointer, expected, got)
    }
}

impl ChunkSink for Counted {
    fn append(&mut self, payload: &[u8]) -> Result<Pointer> {
        self.appended += 1;
        self.bytes += payload.len() as u64;
        self.chunks.append(payload)
    }
}

/// Concatenates keys, so that any row missed, doubled or out of order shows, and reductions are
/// as long as what they stand for.
pub(crate) struct Concatenate;

impl Reducer for Concatenate {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        for (key, value) in rows {
            out.extend_from_slice(key);
            out.push(b'=');
            out.extend_from_slice(value);
            out.push(b';');
        }
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        parts.iter().for_each(|part| out.extend_from_slice(part));
        Ok(())
    }
}

pub(crate) fn shape(fan_out_max: usize, node_bytes_max: usize, concatenate: bool) -> Shape {
    let options = TreeOptions { fan_out_max, node_bytes_max, ..TreeOptions::default() };
    let reducer: Arc<dyn Reducer> =
        if concatenate { Arc::new(Concatenate) } else { Arc::new(Count) };
    Shape { options, reducer }
}

/// A tree and the map it should equal.
pub(crate) struct Pair {
    pub(crate) sink: Counted,
    pub(crate) cache: NodeCache,
    pub(crate) shape: Shape,
    pub(crate) tree: Tree,
    pub(crate) map: Map,
}

impl Pair {
    pub(crate) fn new(shape: Shape, cache_bytes: usize) -> Pair {
        Pair {
            sink: Counted::default(),
            cache: NodeCache::new(cache_bytes),
            shape,
            tree: Tree::empty(),
            map: Map::new(),
        }
    }

    pub(crate) fn nodes(&self) -> CachedNodes<'_> {
        CachedNodes::new(&self.sink, &self.cache)
    }

    /// Applies the batch to both, and checks the tree's structure and that the old tree still is
    /// what it was.
    pub(crate) fn apply(&mut self, edits: &[Edit]) {
        let before = (self.tree.clone(), self.map.clone());
        let appended = self.sink.appended;
        self.tree = self.tree.apply(&mut self.sink, &self.cache, &self.shape, edits).unwrap();
        for Edit { key, value } in edits {
            match value {
                Some(value) => self.map.insert(key.clone(), value.clone()),
                None => self.map.remove(key),
            };
        }
        if self.map == before.1 {
            assert_eq!(self.tree, before.0, "nothing changed, so the tree is the same");
            assert_eq!(self.sink.appended, appended, "nothing changed, so nothing is written");
        }
        self.check_structure();
        self.check_diff(&before.0, &before.1);
    }

    pub(crate) fn check_structure(&self) {
        let checked = self.tree.check(&self.nodes(), &self.shape).unwrap();
        assert!(checked.violations.is_empty(), "{:?}\n{}", checked.violations, self.draw());
        assert_eq!(checked.rows, self.map.len() as u64);
        assert_eq!(self.tree.row_count(), self.map.len() as u64);
        let mut bytes = Vec::new();
        self.tree.encode(&mut bytes);
        assert_eq!(Tree::decode(&mut Reader::new(&bytes)).as_ref(), Some(&self.tree));
    }

    pub(crate) fn draw(&self) -> String {
        self.tree.draw(&self.nodes(), &Default::default()).unwrap()
    }

    /// Everything that can be asked about the rows between `keys`.
    pub(crate) fn check_answers(&self, keys: &[Vec<u8>]) {
        self.check_lookups(keys);
        for range in ranges(keys) {
            self.check_range(&range);
        }
    }

    pub(crate) fn check_lookups(&self, keys: &[Vec<u8>]) {
        let nodes = self.nodes();
        for key in keys {
            assert_eq!(self.tree.get(&nodes, key).unwrap().as_ref(), self.map.get(key), "{key:?}");
        }
        let mut sorted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        sorted.sort_unstable();
        let expected: Vec<_> = sorted.iter().map(|key| self.map.get(*key).cloned()).collect();
        assert_eq!(self.tree.get_many(&nodes, &sorted).unwrap(), expected);
        self.check_ranks(keys);
    }

    // spec: BTREE-15
    fn check_ranks(&self, keys: &[Vec<u8>]) {
        let nodes = self.nodes();
        for key in keys {
            let before = self.map.range(..key.clone()).count();
            assert_eq!(self.tree.rows_before(&nodes, key).unwrap(), before as u64, "{key:?}");
            let found = self.tree.key_at(&nodes, before as u64).unwrap();
            assert_eq!(found.as_ref(), self.map.keys().nth(before), "{key:?}");
        }
        assert_eq!(self.tree.key_at(&nodes, self.map.len() as u64).unwrap(), None);
    }

    pub(crate) fn check_range(&self, range: &KeyRange) {
        let nodes = self.nodes();
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (key, value) in &self.map {
            if range.contains(key) {
                expected.push((key.clone(), value.clone()));
            }
        }
        let rows: Vec<Row<'_>> =
            expected.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let reduced = self.tree.reduce(&nodes, &self.shape, range).unwrap();
        assert_eq!(reduced, self.reduce(&rows), "{range:?}\n{}", self.draw());
        for direction in [Direction::Ascending, Direction::Descending] {
            let walked: Result<Vec<_>> = self.tree.iter(&nodes, range.clone(), direction).collect();
            assert_eq!(walked.unwrap(), expected, "{range:?} {direction:?}\n{}", self.draw());
            let mut scanned = Vec::new();
            let mut visit = |key: &[u8], value: &[u8]| {
                scanned.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            self.tree.scan(&nodes, range, direction, &mut visit).unwrap();
            assert_eq!(scanned, expected);
            self.check_groups(range, direction, &expected);
            expected.reverse();
        }
    }

    /// Groups by the first byte, by two bytes, and by the whole key; `expected` stands in
    /// `direction`.
    fn check_groups(
        &self,
        range: &KeyRange,
        direction: Direction,
        expected: &[(Vec<u8>, Vec<u8>)],
    ) {
        for level in [1, 2, usize::MAX] {
            let cut = |key: &[u8]| key.len().min(level);
            let mut groups = Vec::new();
            for chunk in expected.chunk_by(|(a, _), (b, _)| a[..cut(a)] == b[..cut(b)]) {
                let mut rows: Vec<Row<'_>> =
                    chunk.iter().map(|(key, value)| (&key[..], &value[..])).collect();
                rows.sort_unstable();
                groups.push((chunk[0].0.clone(), self.reduce(&rows)));
            }
            let mut got = Vec::new();
            let mut visit = |key: &[u8], reduction: &[u8]| {
                got.push((key.to_vec(), reduction.to_vec()));
                Ok(ControlFlow::Continue(()))
            };
            let nodes = self.nodes();
            self.tree.groups(&nodes, &self.shape, range, direction, &cut, &mut visit).unwrap();
            assert_eq!(got, groups, "{range:?} {direction:?} level {level}\n{}", self.draw());
        }
    }

    /// The differences from an older tree, and to it.
    pub(crate) fn check_diff(&self, old: &Tree, old_map: &Map) {
        let mut expected = Vec::new();
        let mut keys: Vec<_> = old_map.keys().chain(self.map.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            if old_map.get(key) != self.map.get(key) {
                expected.push((key.clone(), old_map.get(key).cloned(), self.map.get(key).cloned()));
            }
        }
        assert_eq!(self.differences(old, &self.tree), expected);
        expected.iter_mut().for_each(|(_, old, new)| std::mem::swap(old, new));
        assert_eq!(self.differences(&self.tree, old), expected);
    }

    fn differences(&self, old: &Tree, new: &Tree) -> Vec<Difference> {
        let mut found = Vec::new();
        diff(old, new, &self.nodes(), &mut |key, old, new| {
            found.push((key.to_vec(), old.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec)));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        found
    }

    fn reduce(&self, rows: &[Row<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        self.shape.reducer.reduce(rows, &mut out).unwrap();
        out
    }

    /// A tree built afresh from the same rows.
    pub(crate) fn built(&mut self) -> Tree {
        let mut builder = Builder::new(&self.shape);
        for (key, value) in &self.map {
            builder.push(&mut self.sink, key, value).unwrap();
        }
        builder.finish(&mut self.sink).unwrap()
    }
}

/// Every range with bounds at `keys`: open, included, excluded on either side.
pub(crate) fn ranges(keys: &[Vec<u8>]) -> Vec<KeyRange> {
    let mut bounds = vec![Bound::Unbounded];
    for key in keys {
        bounds.extend([Bound::Included(key.clone()), Bound::Excluded(key.clone())]);
    }
    let mut ranges = Vec::new();
    for start in &bounds {
        for end in &bounds {
            ranges.push(KeyRange { start: start.clone(), end: end.clone() });
        }
    }
    ranges
}
