//! Trees against the map they should equal: every change from one small set of keys to another, and
//! nodes that lie.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use rereduce::btree::{CachedNodes, Node, NodeCache, Shape, Tree, TreeOptions, diff};
use rereduce::codec::{Reader, put_bytes, put_varint};
use rereduce::file::{ChunkSink, MemoryChunks, Pointer};
use rereduce::reduce::{Reducer, Row};
use rereduce::vocabulary::{Direction, Edit, KeyRange};

use super::{Outcome, expect};
use crate::campaign::Context;

/// Keys of the exhaustive part: all sets of them are gone from and to.
const KEYS: u8 = 6;

/// Bytes of the cache that all trees of one shape share.
const CACHE_BYTES: usize = 700;

pub(super) fn equal_maps(_: &Context) -> Outcome {
    equal_offsets_in_two_files()?;
    lies_are_found()?;
    for fan_out in [2, 3] {
        let shape = shape(fan_out);
        let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(CACHE_BYTES));
        for from in 0..1u32 << KEYS {
            let (old, before) = step(&mut chunks, &cache, &shape, &Tree::empty(), 0, from)?;
            for to in 0..1u32 << KEYS {
                let (new, after) = step(&mut chunks, &cache, &shape, &old, from, to)?;
                let nodes = CachedNodes::new(&chunks, &cache);
                equal(&nodes, &shape, &new, &after)
                    .and_then(|()| differ(&nodes, (&old, &before), (&new, &after)))
                    .map_err(|wrong| format!("fan-out {fan_out}, {from:b} to {to:b}: {wrong}"))?;
                expect(cache.used_bytes() <= CACHE_BYTES, "the cache is over its budget")?;
            }
        }
    }
    heights_are_bounded()
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Puts the rows it stands for side by side: anything doubled, missing or out of order shows.
struct Listing;

impl Reducer for Listing {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> rereduce::Result<()> {
        rows.iter().for_each(|(key, value)| out.extend([key, &b":"[..], value].concat()));
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> rereduce::Result<()> {
        out.extend(parts.concat());
        Ok(())
    }
}

fn shape(fan_out_max: usize) -> Shape {
    let options = TreeOptions { fan_out_max, ..TreeOptions::default() };
    Shape { options, reducer: Arc::new(Listing) }
}

fn key(number: u8) -> Vec<u8> {
    // Two keys a group.
    vec![b'a' + number / 2, b'0' + number]
}

/// The tree with the keys of set `to`, made in one batch from one with those of `from`: of keys in
/// both sets every second gets another value. Removals of what is not there are part of it, and a
/// key that stands there twice keeps the last.
fn step(
    chunks: &mut MemoryChunks,
    cache: &NodeCache,
    shape: &Shape,
    old: &Tree,
    from: u32,
    to: u32,
) -> rereduce::Result<(Tree, Map)> {
    let (mut edits, mut map) = (Vec::new(), Map::new());
    for number in 0..KEYS {
        let (was, is) = (from >> number & 1 == 1, to >> number & 1 == 1);
        let value = if was && number % 2 == 0 { "other" } else { "v" };
        if is {
            edits.extend([Edit::put(key(number), "early"), Edit::put(key(number), value)]);
            map.insert(key(number), value.into());
        } else {
            edits.push(Edit::remove(key(number)));
        }
    }
    Ok((old.apply(chunks, cache, shape, &edits)?, map))
}

/// Every question about `tree` is answered as the map answers it.
fn equal(nodes: &CachedNodes<'_>, shape: &Shape, tree: &Tree, map: &Map) -> Outcome {
    let checked = tree.check(nodes, shape)?;
    expect(checked.violations.is_empty(), format!("{:?}", checked.violations))?;
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let many: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let found = tree.get_many(nodes, &many)?;
    let expected: Vec<Option<Vec<u8>>> = keys.iter().map(|key| map.get(key).cloned()).collect();
    expect(found == expected, format!("looked up {found:?}"))?;
    for key in &keys {
        expect(tree.get(nodes, key)?.as_ref() == map.get(key), format!("get {key:?}"))?;
        let before = map.range(..key.clone()).count();
        expect(tree.rows_before(nodes, key)? == before as u64, format!("rows before {key:?}"))?;
        let found = tree.key_at(nodes, before as u64)?;
        expect(found.as_ref() == map.keys().nth(before), format!("key at {before}"))?;
    }
    for start in 0..=KEYS {
        for end in start..=KEYS {
            let range = KeyRange::of(key(start)..key(end));
            let rows: Vec<(&Vec<u8>, &Vec<u8>)> = map.range(key(start)..key(end)).collect();
            for direction in [Direction::Ascending, Direction::Descending] {
                let mut seen = Vec::new();
                tree.scan(nodes, &range, direction, &mut |key, value| {
                    seen.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                })?;
                if direction == Direction::Descending {
                    seen.reverse();
                }
                let same = seen.iter().map(|(key, value)| (key, value)).eq(rows.iter().copied());
                expect(same, format!("{start}..{end} {direction:?}: {seen:?}"))?;
                groups(nodes, shape, tree, &range, direction, &rows)?;
            }
            let reduced = tree.reduce(nodes, shape, &range)?;
            expect(reduced == listing(&rows), format!("{start}..{end} reduces to {reduced:?}"))?;
        }
    }
    Ok(())
}

fn listing(rows: &[(&Vec<u8>, &Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    rows.iter().for_each(|(key, value)| out.extend([&key[..], b":", &value[..]].concat()));
    out
}

fn groups(
    nodes: &CachedNodes<'_>,
    shape: &Shape,
    tree: &Tree,
    range: &KeyRange,
    direction: Direction,
    rows: &[(&Vec<u8>, &Vec<u8>)],
) -> Outcome {
    // A group is named by its first row in the direction of the question.
    let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for row in rows {
        match expected.last_mut().filter(|(group, _)| group.first() == row.0.first()) {
            Some((group, listed)) => {
                listed.extend(listing(&[*row]));
                if direction == Direction::Descending {
                    group.clone_from(row.0);
                }
            }
            None => expected.push((row.0.clone(), listing(&[*row]))),
        }
    }
    let mut found = Vec::new();
    tree.groups(nodes, shape, range, direction, &|_| 1, &mut |group, reduced| {
        found.push((group.to_vec(), reduced.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    if direction == Direction::Descending {
        found.reverse();
    }
    expect(found == expected, format!("groups {found:?}"))
}

/// The difference of two trees is that of their maps.
fn differ(nodes: &CachedNodes<'_>, old: (&Tree, &Map), new: (&Tree, &Map)) -> Outcome {
    let mut found = Vec::new();
    diff(old.0, new.0, nodes, &mut |key, before, after| {
        found.push((key.to_vec(), before.map(<[u8]>::to_vec), after.map(<[u8]>::to_vec)));
        Ok(ControlFlow::Continue(()))
    })?;
    let keys: BTreeSet<&Vec<u8>> = old.1.keys().chain(new.1.keys()).collect();
    let pairs = keys.into_iter().map(|key| (key, old.1.get(key), new.1.get(key)));
    let expected = pairs.filter(|(_, before, after)| before != after);
    let expected = expected.map(|(key, old, new)| (key.clone(), old.cloned(), new.cloned()));
    expect(expected.eq(found.iter().cloned()), format!("differs in {found:?}"))
}

/// A tree that loses most of its rows one by one is soon as low as a fresh one, plus one.
fn heights_are_bounded() -> Outcome {
    let (shape, cache) = (shape(3), NodeCache::new(1 << 20));
    let mut chunks = MemoryChunks::default();
    let edit = |number: u32| format!("{:04}", number.wrapping_mul(7_919) % 1_000);
    let rows = (0..1_000).map(|number| Edit::put(edit(number), "v")).collect::<Vec<_>>();
    let mut tree = Tree::empty().apply(&mut chunks, &cache, &shape, &rows)?;
    for number in 0..1_000 {
        tree = tree.apply(&mut chunks, &cache, &shape, &[Edit::remove(edit(number))])?;
        if number % 10 == 0 {
            let checked = tree.check(&CachedNodes::new(&chunks, &cache), &shape)?;
            let what = format!("after {number} removals: {:?}", checked.violations);
            expect(checked.violations.is_empty(), what)?;
        }
    }
    expect(tree == Tree::empty(), "a tree without rows is not the empty one")
}

/// One cache serves files in which different nodes lie at one offset.
fn equal_offsets_in_two_files() -> Outcome {
    let (shape, cache) = (shape(4), NodeCache::new(1 << 20));
    for value in ["one", "two", "three"] {
        let mut chunks = MemoryChunks::default();
        let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &[Edit::put("k", value)])?;
        let found = tree.get(&CachedNodes::new(&chunks, &cache), b"k")?;
        let what = format!("the cache answers {found:?} for {value}");
        expect(found.as_deref() == Some(value.as_bytes()), what)?;
    }
    Ok(())
}

/// A leaf of the given keys, each with the value `v`.
fn leaf(keys: &[&str]) -> Vec<u8> {
    let mut payload = vec![0];
    put_varint(&mut payload, keys.len() as u64);
    for key in keys {
        put_bytes(&mut payload, key.as_bytes());
        put_bytes(&mut payload, b"v");
    }
    payload
}

/// An inner node over leaves of one row, which says of each how its key begins.
fn parent(children: &[(&str, Pointer)]) -> Vec<u8> {
    let mut payload = vec![1];
    put_varint(&mut payload, children.len() as u64);
    for (key, pointer) in children {
        put_bytes(&mut payload, key.as_bytes());
        pointer.encode(&mut payload);
        // One entry, one row, two lengths with a key and a value of one byte each.
        [1, 1, 4].iter().for_each(|number| put_varint(&mut payload, *number));
        put_bytes(&mut payload, format!("{key}:v").as_bytes());
    }
    payload
}

/// A tree of two rows under the root at `pointer`.
fn tree_at(pointer: Pointer) -> Option<Tree> {
    let mut bytes = vec![2];
    pointer.encode(&mut bytes);
    // Entries, rows, bytes, and what bounds the height.
    [2, 2, 8, 8, 1, 2, 0].iter().for_each(|number| put_varint(&mut bytes, *number));
    put_bytes(&mut bytes, b"a:vb:v");
    Tree::decode(&mut Reader::new(&bytes))
}

/// Nodes whose checksums are right and whose words are not.
fn lies_are_found() -> Outcome {
    let mut chunks = MemoryChunks::default();
    for keys in [["b", "a"], ["a", "a"]] {
        let payload = leaf(&keys);
        let pointer = chunks.append(&payload)?;
        let decoded = Node::decode(pointer, payload.into()).is_some();
        expect(!decoded, format!("a leaf of {keys:?} counts as a node"))?;
    }
    let (a, b, c) = (leaf(&["a"]), leaf(&["b"]), leaf(&["c"]));
    let (a, b, c) = (chunks.append(&a)?, chunks.append(&b)?, chunks.append(&c)?);
    let right = chunks.append(&parent(&[("a", a), ("b", b)]))?;
    let wrong_key = chunks.append(&parent(&[("a", a), ("b", c)]))?;
    // A child behind its parent: where it will lie follows from how long the parent is.
    let mut rehearsal = chunks.clone();
    rehearsal.append(&parent(&[("a", a), ("b", b)]))?;
    let behind = rehearsal.append(&leaf(&["b"]))?;
    let child_behind = chunks.append(&parent(&[("a", a), ("b", behind)]))?;
    chunks.append(&leaf(&["b"]))?;
    for (root, sound) in [(right, true), (wrong_key, false), (child_behind, false)] {
        let cache = NodeCache::new(0);
        let nodes = CachedNodes::new(&chunks, &cache);
        let tree = tree_at(root).ok_or("a tree of two rows does not decode")?;
        let (mut rows, range) = (0, KeyRange::all());
        let scanned = tree.scan(&nodes, &range, Direction::Ascending, &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        });
        let found = tree.get(&nodes, b"b");
        let answered = scanned.is_ok() && found.is_ok();
        let what = format!("sound {sound}: {rows} rows, {scanned:?}, {found:?}");
        expect(answered == sound && (!sound || rows == 2), what)?;
    }
    Ok(())
}
