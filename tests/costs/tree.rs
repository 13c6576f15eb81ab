//! Nodes read by lookups, reductions and groups.

use std::ops::ControlFlow;

use rereduce::btree::{Builder, CachedNodes, NodeCache, Shape, Tree};
use rereduce::file::MemoryChunks;
use rereduce::reduce::Count;
use rereduce::vocabulary::{Direction, Edit, KeyRange};

use super::documents::{Numbers, id};
use super::exponent;

/// A tree that was built, or grew by batches in random order, and its chunks.
fn trees(rows: u64) -> [(Tree, MemoryChunks); 2] {
    let shape = Shape::with_reducer(Count);
    let mut chunks = MemoryChunks::default();
    let mut builder = Builder::new(&shape);
    for n in 0..rows {
        builder.push(&mut chunks, id(n).as_bytes(), &[7; 60]).unwrap();
    }
    let built = builder.finish(&mut chunks).unwrap();
    let (mut grown_chunks, cache) = (MemoryChunks::default(), NodeCache::new(64 << 20));
    let mut grown = Tree::empty();
    let mut order: Vec<u64> = (0..rows).collect();
    order.sort_by_key(|&n| Numbers::new(n).next());
    for batch in order.chunks(1000) {
        let edits: Vec<Edit> = batch.iter().map(|&n| Edit::put(id(n), [7; 60])).collect();
        grown = grown.apply(&mut grown_chunks, &cache, &shape, &edits).unwrap();
    }
    [(built, chunks), (grown, grown_chunks)]
}

/// Nodes that `work` reads, nothing being cached.
fn reads(chunks: &MemoryChunks, work: impl FnOnce(&CachedNodes<'_>)) -> u64 {
    let cache = NodeCache::new(0);
    work(&CachedNodes::new(chunks, &cache));
    cache.reads()
}

// spec: BTREE-1, BTREE-11, BTREE-12
#[test]
fn lookups_read_the_height_reductions_twice_and_groups_thrice_that() {
    let shape = Shape::with_reducer(Count);
    let mut reduction_reads = [Vec::new(), Vec::new()];
    for rows in [1_000, 10_000, 100_000] {
        for ((tree, chunks), means) in trees(rows).iter().zip(&mut reduction_reads) {
            let height = u64::from(tree.height());
            let mut numbers = Numbers::new(rows);
            let mut all_reads = 0;
            for _ in 0..200 {
                let (one, two) = (numbers.below(rows), numbers.below(rows));
                let (from, to) = (id(one.min(two)), id(one.max(two)));
                let gets = reads(chunks, |nodes| {
                    assert!(tree.get(nodes, from.as_bytes()).unwrap().is_some());
                });
                assert_eq!(gets, height, "every leaf has the same depth");
                let range = KeyRange::of(from.as_bytes()..to.as_bytes());
                let reductions = reads(chunks, |nodes| {
                    let count = Count::decode(&tree.reduce(nodes, &shape, &range).unwrap());
                    assert_eq!(count, Some(one.abs_diff(two)));
                });
                assert!(reductions <= 2 * height, "{reductions} reads at height {height}");
                all_reads += reductions;
            }
            means.push((rows, all_reads as f64 / 200.0));
            // 13 letters of an id: groups of ten.
            let mut groups = 0;
            let range = KeyRange::of(id(500).as_bytes()..id(700).as_bytes());
            let group_reads = reads(chunks, |nodes| {
                let mut visit = |_: &[u8], reduction: &[u8]| {
                    groups += 1;
                    assert_eq!(Count::decode(reduction), Some(10));
                    Ok(ControlFlow::Continue(()))
                };
                let ascending = Direction::Ascending;
                tree.groups(nodes, &shape, &range, ascending, &|_| 13, &mut visit).unwrap();
            });
            assert_eq!(groups, 20);
            assert!(group_reads <= 3 * height * (groups + 1), "{group_reads} for {groups} groups");
        }
    }
    for means in reduction_reads {
        let growth = exponent(means[0], means[2]);
        assert!(growth < 0.25, "reductions grow with exponent {growth:.2}, not like a logarithm");
    }
}
