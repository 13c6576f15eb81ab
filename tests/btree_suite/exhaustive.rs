//! All trees of at most eight keys at fan-outs 2, 3 and 4: every shape that any history of single
//! edits and of whole batches leads to, and every answer of each.

use std::collections::{BTreeMap, BTreeSet};

use rereduce::btree::Tree;
use rereduce::mark;
use rereduce::vocabulary::Edit;

use crate::support::{Map, Pair, shape};

const KEYS: u8 = 8;

/// Key number `index`, in two groups of four so that groups of one byte have several rows.
fn key(index: u8) -> Vec<u8> {
    vec![b'a' + index / 4, b'a' + index % 4]
}

/// The form of a tree: how many entries each node has, by walking it.
fn form(pair: &Pair) -> Vec<(u32, usize)> {
    let mut form = Vec::new();
    pair.tree
        .walk(&pair.nodes(), &mut |_, depth, node| {
            form.push((depth, node.count()));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    form
}

/// Finds every (key set, form) that single inserts and removals lead to, checking each step.
/// Returns one tree for each form.
fn all_forms(pair: &mut Pair) -> BTreeMap<Vec<(u32, usize)>, (Tree, Map)> {
    let mut forms = BTreeMap::new();
    let mut seen = BTreeSet::from([(Vec::new(), Vec::new())]);
    let mut open = vec![(Tree::empty(), Map::new())];
    while let Some((tree, map)) = open.pop() {
        for index in 0..KEYS {
            let key = key(index);
            let edits = match map.contains_key(&key) {
                true => vec![Edit::remove(key.clone()), Edit::put(key, "other")],
                false => vec![Edit::put(key, "value")],
            };
            for edit in edits {
                (pair.tree, pair.map) = (tree.clone(), map.clone());
                pair.apply(std::slice::from_ref(&edit));
                let replaced = edit.value == Some(b"other".to_vec());
                let form = form(pair);
                let keys: Vec<Vec<u8>> = pair.map.keys().cloned().collect();
                if !replaced && seen.insert((keys, form.clone())) {
                    open.push((pair.tree.clone(), pair.map.clone()));
                    forms.entry(form).or_insert((pair.tree.clone(), pair.map.clone()));
                }
            }
        }
    }
    forms
}

fn explore(fan_out: usize, forms_expected: usize) {
    let mut pair = Pair::new(shape(fan_out, 1 << 20, true), 1 << 20);
    let forms = all_forms(&mut pair);
    for (form, (tree, map)) in &forms {
        (pair.tree, pair.map) = (tree.clone(), map.clone());
        assert_eq!(pair.tree.row_count(), map.len() as u64, "{form:?}");
        // Bounds at every key and between any two.
        let between = map.keys().map(|key| [&key[..], b"!"].concat());
        let bounds: Vec<Vec<u8>> = map.keys().cloned().chain(between).collect();
        pair.check_answers(&bounds);
        batches(&mut pair, tree, map);
    }
    assert_eq!(forms.len(), forms_expected, "forms at fan-out {fan_out}");
}

#[test]
fn an_inner_root_with_one_child_does_not_stay_whatever_it_was_before() {
    // Found by the exhaustive search: the last of two children of the root is a node with one
    // child, which stands in the file already when the first one goes.
    mark::reset();
    let mut pair = Pair::new(shape(2, 1 << 20, true), 0);
    all_forms(&mut pair);
    assert!(mark::hits().contains_key("btree-root-collapses-twice"));
}

/// From one tree, every batch that flips a set of keys: present ones go, missing ones come.
fn batches(pair: &mut Pair, tree: &Tree, map: &Map) {
    for set in 1u32..1 << KEYS {
        let flipped = (0..KEYS).filter(|index| set >> index & 1 == 1).map(key);
        let edits: Vec<Edit> = flipped
            .map(|key| match map.contains_key(&key) {
                true => Edit::remove(key),
                false => Edit::put(key, "new"),
            })
            .collect();
        (pair.tree, pair.map) = (tree.clone(), map.clone());
        pair.apply(&edits);
    }
}

// spec: BTREE-1, BTREE-5, BTREE-6, BTREE-7, BTREE-10, BTREE-11, BTREE-12, BTREE-13
#[test]
fn all_trees_of_eight_keys_at_fan_out_2_answer_as_maps() {
    explore(2, 0);
}

#[test]
fn all_trees_of_eight_keys_at_fan_out_3_answer_as_maps() {
    explore(3, 0);
}

#[test]
fn all_trees_of_eight_keys_at_fan_out_4_answer_as_maps() {
    explore(4, 20);
}
