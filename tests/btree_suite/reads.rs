//! What the tree reads and writes, counted; and what it does with nodes that lie.

use std::ops::ControlFlow;

use rereduce::Result;
use rereduce::btree::{CachedNodes, NodeCache, NodeSource, Shape, Tree, diff};
use rereduce::codec::{Reader, put_bytes, put_varint};
use rereduce::file::{ChunkSink, ChunkSource, MemoryChunks, Pointer};
use rereduce::reduce::Count;
use rereduce::vocabulary::{Direction, Edit, KeyRange};

use crate::support::{Pair, shape};

fn key(number: u32) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

/// A tree of `count` rows with even numbers, inserted in a scattered order, and no cache.
fn scattered(shape: Shape, count: u32) -> Pair {
    let mut pair = Pair::new(shape, 0);
    let numbers: Vec<u32> = (0..count).map(|number| number * 7919 % count * 2).collect();
    for chunk in numbers.chunks(500) {
        let edits: Vec<Edit> =
            chunk.iter().map(|number| Edit::put(key(*number), format!("{number}"))).collect();
        pair.tree = pair.tree.apply(&mut pair.sink, &pair.cache, &pair.shape, &edits).unwrap();
        pair.map.extend(edits.into_iter().map(|edit| (edit.key, edit.value.unwrap())));
    }
    pair.check_structure();
    pair
}

fn shapes() -> [Shape; 3] {
    [shape(usize::MAX, 512, false), shape(3, 1 << 20, false), shape(16, 1 << 20, false)]
}

/// Nodes read by `ask`.
fn reads(pair: &Pair, ask: impl FnOnce(&CachedNodes<'_>)) -> u64 {
    let before = pair.cache.reads();
    ask(&pair.nodes());
    pair.cache.reads() - before
}

// spec: BTREE-1
#[test]
fn a_lookup_reads_one_node_a_level_and_many_read_each_node_once() {
    for shape in shapes() {
        let pair = scattered(shape, 1000);
        let height = u64::from(pair.tree.height());
        let keys: Vec<Vec<u8>> = (0..2000).map(key).collect();
        for key in &keys {
            let read = reads(&pair, |nodes| {
                assert_eq!(pair.tree.get(nodes, key).unwrap().as_ref(), pair.map.get(key));
            });
            assert_eq!(read, height);
        }
        let checked = pair.tree.check(&pair.nodes(), &pair.shape).unwrap();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let read = reads(&pair, |nodes| {
            let values = pair.tree.get_many(nodes, &keys).unwrap();
            assert_eq!(values.iter().flatten().count(), 1000);
        });
        assert_eq!(read, checked.leaves + checked.inner_nodes);
        assert_eq!(
            reads(&pair, |nodes| assert!(pair.tree.get_many(nodes, &keys[..1]).is_ok())),
            height
        );
    }
}

// spec: BTREE-11
#[test]
fn reducing_a_range_reads_at_most_two_nodes_a_level() {
    for shape in shapes() {
        let pair = scattered(shape, 2000);
        let height = u64::from(pair.tree.height());
        assert_eq!(
            reads(&pair, |nodes| {
                pair.tree.reduce(nodes, &pair.shape, &KeyRange::all()).unwrap();
            }),
            0
        );
        for step in 0..400u32 {
            let (start, end) = (step * 31 % 4000, step * 997 % 4000);
            let range = KeyRange::of(key(start)..key(end));
            let rows = end.div_ceil(2).saturating_sub(start.div_ceil(2));
            let read = reads(&pair, |nodes| {
                let reduced = pair.tree.reduce(nodes, &pair.shape, &range).unwrap();
                assert_eq!(Count::decode(&reduced), Some(u64::from(rows)));
            });
            assert!(read <= 2 * height, "{read} reads at height {height}");
            let open_end = KeyRange::of(key(start)..);
            let read = reads(&pair, |nodes| {
                pair.tree.reduce(nodes, &pair.shape, &open_end).unwrap();
            });
            assert!(read <= height, "only one edge is cut, {read} reads at height {height}");
        }
    }
}

// spec: BTREE-12
#[test]
fn groups_read_at_most_three_nodes_a_level_and_group() {
    for shape in shapes() {
        let pair = scattered(shape, 2000);
        let height = u64::from(pair.tree.height());
        for direction in [Direction::Ascending, Direction::Descending] {
            let mut groups = 0;
            let read = reads(&pair, |nodes| {
                let range = KeyRange::of(key(150)..key(3850));
                let mut visit = |_: &[u8], _: &[u8]| -> Result<ControlFlow<()>> {
                    groups += 1;
                    Ok(ControlFlow::Continue(()))
                };
                let tree = &pair.tree;
                tree.groups(nodes, &pair.shape, &range, direction, &|_| 4, &mut visit).unwrap();
            });
            assert_eq!(groups, 38);
            assert!(read <= (3 * groups + 1) * height, "{read} reads for {groups} groups");
        }
    }
}

// spec: BTREE-13
#[test]
fn a_difference_reads_only_what_changed() {
    for shape in shapes() {
        let mut pair = scattered(shape, 2000);
        let old = pair.tree.clone();
        pair.apply(&[Edit::put(key(1000), "other")]);
        let most = u64::from(old.height() + pair.tree.height());
        let read = reads(&pair, |nodes| {
            let mut found = 0;
            let mut visit = |_: &[u8], _: Option<&[u8]>, _: Option<&[u8]>| {
                found += 1;
                Ok(ControlFlow::Continue(()))
            };
            diff(&old, &pair.tree, nodes, &mut visit).unwrap();
            assert_eq!(found, 1);
        });
        assert_eq!(read, most);
        assert_eq!(
            reads(&pair, |nodes| {
                let mut visit = |_: &[u8], _: Option<&[u8]>, _: Option<&[u8]>| unreachable!();
                diff(&pair.tree, &pair.tree, nodes, &mut visit).unwrap();
            }),
            0
        );
    }
}

// spec: BTREE-9
#[test]
pub(crate) fn a_batch_writes_each_changed_node_once() {
    for shape in shapes() {
        let mut pair = scattered(shape, 2000);
        let before = pair.sink.appended;
        pair.apply(&[Edit::put(key(1000), "othr")]);
        assert_eq!(pair.sink.appended - before, u64::from(pair.tree.height()));
        let before = pair.sink.appended;
        pair.apply(&[Edit::put(key(1000), "othr"), Edit::remove(key(1001))]);
        assert_eq!(pair.sink.appended, before, "an equal value and a missing key change nothing");
        let everything: Vec<Edit> =
            pair.map.keys().map(|key| Edit::put(key.clone(), "x")).collect();
        let before = pair.sink.appended;
        pair.apply(&everything);
        let checked = pair.tree.check(&pair.nodes(), &pair.shape).unwrap();
        assert_eq!(pair.sink.appended - before, checked.leaves + checked.inner_nodes);
    }
}

// spec: BTREE-14
#[test]
pub(crate) fn a_sorted_load_makes_the_tree_that_a_build_makes() {
    for shape in shapes() {
        for batch in [1, 7, 1000] {
            let mut pair = Pair::new(shape.clone(), 1 << 20);
            let numbers: Vec<u32> = (0..3000).collect();
            for chunk in numbers.chunks(batch) {
                let edits: Vec<Edit> =
                    chunk.iter().map(|number| Edit::put(key(*number), "v")).collect();
                let tree = &pair.tree;
                pair.tree = tree.apply(&mut pair.sink, &pair.cache, &pair.shape, &edits).unwrap();
                pair.map.extend(edits.into_iter().map(|edit| (edit.key, edit.value.unwrap())));
            }
            pair.check_structure();
            let built = pair.built();
            assert_eq!(form(&pair, &pair.tree), form(&pair, &built), "batches of {batch}");
        }
    }
}

fn form(pair: &Pair, tree: &Tree) -> Vec<(u32, usize, usize)> {
    let mut form = Vec::new();
    tree.walk(&pair.nodes(), &mut |_, depth, node| {
        form.push((depth, node.count(), node.size()));
        ControlFlow::Continue(())
    })
    .unwrap();
    form
}

// spec: BTREE-14
#[test]
fn a_sorted_load_in_batches_of_a_thousand_appends_little_more_than_its_size() {
    let mut pair = Pair::new(Shape::with_reducer(Count), 8 << 20);
    for batch in 0..20 {
        let row = |number| Edit::put(format!("document-{number:07}"), vec![b'v'; 280]);
        let edits: Vec<Edit> = (batch * 1000..(batch + 1) * 1000).map(row).collect();
        let tree = &pair.tree;
        pair.tree = tree.apply(&mut pair.sink, &pair.cache, &pair.shape, &edits).unwrap();
        pair.map.extend(edits.into_iter().map(|edit| (edit.key, edit.value.unwrap())));
    }
    let loaded = pair.sink.bytes;
    let size = pair.tree.check(&pair.nodes(), &pair.shape).unwrap().node_bytes;
    assert!(loaded * 100 <= size * 115, "{loaded} bytes appended for {size}");
    let built = pair.built();
    assert_eq!(pair.sink.bytes - loaded, size, "a build writes exactly what the load left");
    assert_eq!(built.row_count(), 20_000);
}

// spec: BTREE-8
// case: B22
#[test]
pub(crate) fn duplicate_keys_in_one_batch_leave_one_row_and_the_last_wins() {
    let mut pair = Pair::new(shape(4, 1 << 20, true), 0);
    pair.apply(&[Edit::put("k", "1"), Edit::put("k", "2")]);
    assert_eq!(pair.tree.get(&pair.nodes(), b"k").unwrap(), Some(b"2".to_vec()));
    pair.check_answers(&[b"k".to_vec()]);
    pair.apply(&[Edit::remove("k"), Edit::put("k", "3")]);
    assert_eq!(pair.tree.reduction(), Some(&b"k=3;"[..]));
    pair.apply(&[Edit::put("k", "4"), Edit::remove("k")]);
    assert_eq!(pair.tree, Tree::empty());
}

// spec: BTREE-1
// case: B18
#[test]
pub(crate) fn a_batch_of_lookups_finds_keys_next_to_missing_ones() {
    let mut pair = Pair::new(shape(2, 1 << 20, true), 0);
    pair.apply(&[Edit::put("b", "1"), Edit::put("d", "2"), Edit::put("f", "3")]);
    let letters: Vec<Vec<u8>> = (b'a'..=b'g').map(|letter| vec![letter]).collect();
    for set in 0..1 << letters.len() {
        let some = letters.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1);
        pair.check_lookups(&some.map(|(_, key)| key.clone()).collect::<Vec<_>>());
    }
}

#[test]
fn a_key_over_the_limit_is_refused_before_anything_is_written() {
    let mut pair = Pair::new(Shape::default(), 0);
    let long = vec![b'k'; pair.shape.options.key_bytes_max + 1];
    let edits = [Edit::put("a", "1"), Edit::put(long, "2")];
    let error = pair.tree.apply(&mut pair.sink, &pair.cache, &pair.shape, &edits).unwrap_err();
    assert_eq!(error.class(), rereduce::ErrorClass::Limit);
    assert_eq!(pair.sink.appended, 0);
}

// spec: BTREE-4
#[test]
pub(crate) fn the_cache_keeps_to_its_budget_and_serves_hits_without_reads() {
    let pair = scattered(shape(usize::MAX, 512, false), 2000);
    for budget in [0, 700, 5_000, 2 << 20] {
        let cache = NodeCache::new(budget);
        let nodes = CachedNodes::new(&pair.sink, &cache);
        for (key, value) in &pair.map {
            assert_eq!(pair.tree.get(&nodes, key).unwrap().as_ref(), Some(value));
            assert!(cache.used_bytes() <= budget);
        }
        assert_eq!(cache.reads() + cache.hits(), 2000 * u64::from(pair.tree.height()));
        assert_eq!(cache.hits() > 0, budget > 0, "a budget of {budget} bytes");
    }
    let (before, again) = (NodeCache::new(2 << 20), pair.nodes());
    let nodes = CachedNodes::new(&pair.sink, &before);
    for _ in 0..2 {
        pair.tree
            .scan(&nodes, &KeyRange::all(), Direction::Ascending, &mut |_, _| {
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    let checked = pair.tree.check(&again, &pair.shape).unwrap();
    assert_eq!(
        before.reads(),
        checked.leaves + checked.inner_nodes,
        "the second scan read nothing"
    );
}

// spec: BTREE-4
#[test]
pub(crate) fn a_rewritten_tail_does_not_answer_from_the_cache() {
    let cache = NodeCache::new(1 << 20);
    let shape = Shape::default();
    for value in ["old", "new", "longer"] {
        // Each file begins anew, so the nodes lie at the same offset.
        let mut chunks = MemoryChunks::default();
        let edits = [Edit::put("k", value)];
        let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits).unwrap();
        let nodes = CachedNodes::new(&chunks, &cache);
        assert_eq!(tree.get(&nodes, b"k").unwrap().as_deref(), Some(value.as_bytes()));
    }
}

/// The tree whose root is the chunk at `root`, and which else is as `tree` says.
fn with_root(tree: &Tree, root: Pointer) -> Tree {
    let mut bytes = Vec::new();
    tree.encode(&mut bytes);
    let mut pointer = Vec::new();
    root.encode(&mut pointer);
    bytes[1..15].copy_from_slice(&pointer);
    Tree::decode(&mut Reader::new(&bytes)).unwrap()
}

/// Reads everything in every way; whatever stands there, the answers hang together or the error
/// is one of corruption.
fn read_everything(tree: &Tree, chunks: &dyn ChunkSource, shape: &Shape) -> bool {
    let cache = NodeCache::new(0);
    let nodes = CachedNodes::new(chunks, &cache);
    let mut sound = true;
    let mut corrupt = |result: Result<()>| match result {
        Ok(()) => {}
        Err(error) => {
            assert!(error.is_corrupt(), "{error}");
            sound = false;
        }
    };
    for direction in [Direction::Ascending, Direction::Descending] {
        let rows: Result<Vec<_>> = tree.iter(&nodes, KeyRange::all(), direction).collect();
        if let Ok(rows) = &rows {
            assert_eq!(rows.len() as u64, tree.row_count());
            for (key, value) in rows {
                assert_eq!(tree.get(&nodes, key).unwrap().as_ref(), Some(value));
            }
        }
        corrupt(rows.map(|_| ()));
    }
    corrupt(tree.reduce(&nodes, shape, &KeyRange::of("b"..)).map(|_| ()));
    corrupt(tree.walk(&nodes, &mut |_, _, _| ControlFlow::Continue(())));
    sound && tree.check(&nodes, shape).unwrap().violations.is_empty()
}

// spec: BTREE-2, BTREE-3
#[test]
pub(crate) fn nodes_that_lie_under_right_checksums_are_corruption_or_harmless() {
    let mut pair = Pair::new(shape(3, 1 << 20, false), 0);
    let edits: Vec<Edit> = (b'a'..=b'e').map(|letter| Edit::put([letter], [letter])).collect();
    pair.apply(&edits);
    assert_eq!(pair.tree.height(), 2);
    let root = pair.tree.root().unwrap();
    let node = pair.nodes().node(root).unwrap();
    let (mut lies, mut unnoticed) = (0, 0);
    let payload = pair.sink.read(root).unwrap();
    for (at, flip) in (0..payload.len()).flat_map(|at| [1, 0x80, 0xff].map(|flip| (at, flip))) {
        let (mut chunks, mut lie) = (pair.sink.chunks.clone(), payload.to_vec());
        lie[at] ^= flip;
        let pointer = chunks.append(&lie).unwrap();
        let tree = with_root(&pair.tree, pointer);
        let sound = read_everything(&tree, &chunks, &pair.shape);
        assert!(!sound, "byte {at} of an inner node was flipped by {flip:02x}");
        lies += 1;
    }
    for child in 0..node.count() {
        let told = node.child(child).pointer;
        let leaf = pair.sink.read(told).unwrap();
        for (at, flip) in (0..leaf.len()).flat_map(|at| [1, 0x80, 0xff].map(|flip| (at, flip))) {
            let (mut chunks, mut lie) = (pair.sink.chunks.clone(), leaf.to_vec());
            lie[at] ^= flip;
            let pointer = chunks.append(&lie).unwrap();
            let pointer = chunks.append(&replaced(&payload, told, pointer)).unwrap();
            let tree = with_root(&pair.tree, pointer);
            lies += 1;
            unnoticed += u32::from(read_everything(&tree, &chunks, &pair.shape));
        }
    }
    // What nobody can notice: 5 values with 3 flips each, and 2 flips of the last key that keep it
    // the last.
    assert_eq!((lies, unnoticed), (246, 17));
}

/// The payload with one pointer in place of another.
fn replaced(payload: &[u8], old: Pointer, new: Pointer) -> Vec<u8> {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    old.encode(&mut from);
    new.encode(&mut to);
    let at = payload.windows(from.len()).position(|window| window == from).unwrap();
    let mut payload = payload.to_vec();
    payload[at..at + to.len()].copy_from_slice(&to);
    payload
}

// spec: BTREE-3, CHUNK-2
#[test]
pub(crate) fn a_child_that_lies_behind_its_parent_is_corruption() {
    let mut pair = Pair::new(shape(3, 1 << 20, false), 0);
    let edits: Vec<Edit> = (b'a'..=b'e').map(|letter| Edit::put([letter], [letter])).collect();
    pair.apply(&edits);
    let root = pair.tree.root().unwrap();
    let child = pair.nodes().node(root).unwrap().child(0).pointer;
    let (payload, leaf) = (pair.sink.read(root).unwrap(), pair.sink.read(child).unwrap());
    // Where the leaf will lie does not depend on what its parent says, only on how long it is.
    let mut rehearsal = pair.sink.chunks.clone();
    rehearsal.append(&payload).unwrap();
    let behind = rehearsal.append(&leaf).unwrap();
    let mut chunks = pair.sink.chunks.clone();
    let root = chunks.append(&replaced(&payload, child, behind)).unwrap();
    assert_eq!(chunks.append(&leaf).unwrap(), behind);
    assert!(!read_everything(&with_root(&pair.tree, root), &chunks, &pair.shape));
}

// spec: BTREE-3
#[test]
fn nodes_that_share_all_their_children_do_not_keep_a_check_busy() {
    // 40 levels, each a node whose two children are the same: 2^40 ways down.
    let mut chunks = MemoryChunks::default();
    let mut pointer = chunks.append(b"\x00\x01\x01k\x01v").unwrap();
    let (mut count, mut rows) = (1u8, 1u64);
    for level in 1..=40u8 {
        let mut payload = vec![level, 2];
        for key in [b"k", b"l"] {
            put_bytes(&mut payload, key);
            pointer.encode(&mut payload);
            payload.push(count);
            put_varint(&mut payload, rows);
            put_varint(&mut payload, rows * 4);
            put_bytes(&mut payload, b"");
        }
        pointer = chunks.append(&payload).unwrap();
        (count, rows) = (2, rows * 2);
    }
    let mut bytes = vec![41];
    pointer.encode(&mut bytes);
    for number in [2, rows, rows * 4, rows * 4, 1, 0, 0] {
        put_varint(&mut bytes, number);
    }
    put_bytes(&mut bytes, b"");
    let tree = Tree::decode(&mut Reader::new(&bytes)).unwrap();
    let cache = NodeCache::new(0);
    let nodes = CachedNodes::new(&chunks, &cache);
    let checked = tree.check(&nodes, &Shape::default()).unwrap();
    assert!(!checked.violations.is_empty());
    let walked = tree.walk(&nodes, &mut |_, _, _| ControlFlow::Continue(()));
    assert!(walked.unwrap_err().is_corrupt());
    assert!(cache.reads() < 1000, "{} reads", cache.reads());
}

proptest::proptest! {
    #![proptest_config(crate::random::config(512))]

    // spec: BTREE-2
    #[test]
    fn any_bytes_decode_to_a_node_or_to_corruption(
        level in 0u8..3,
        count in 0u8..6,
        rest in proptest::collection::vec(proptest::prop_oneof![
            4 => 0u8..4, 1 => proptest::prelude::any::<u8>()
        ], 0..120),
    ) {
        let mut chunks = MemoryChunks::default();
        chunks.append(&[0; 300]).unwrap();
        let pointer = chunks.append(&[&[level, count], &rest[..]].concat()).unwrap();
        let cache = NodeCache::new(0);
        match CachedNodes::new(&chunks, &cache).node(pointer) {
            Ok(node) => {
                proptest::prop_assert_eq!(node.count(), usize::from(count));
                let keys: Vec<&[u8]> = (0..node.count()).map(|at| node.key(at)).collect();
                proptest::prop_assert!(keys.is_sorted_by(|left, right| left < right));
            }
            Err(error) => proptest::prop_assert!(error.is_corrupt()),
        }
        let _ = Tree::decode(&mut Reader::new(&rest));
    }
}
