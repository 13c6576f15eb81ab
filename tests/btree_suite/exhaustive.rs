//! All trees of at most eight keys at fan-outs 2, 3 and 4: every form that any history of single
//! edits and of whole batches leads to, and every answer of each.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rereduce::btree::Tree;
use rereduce::mark;
use rereduce::vocabulary::Edit;

use crate::support::{Map, Pair, shape};

const KEYS: u8 = 8;

/// The form of a tree: depth and number of entries of each node, in the order of a walk.
type Form = Vec<(u32, usize)>;

/// Key number `index`, in two groups of four so that groups of one byte have several rows.
fn key(index: u8) -> Vec<u8> {
    vec![b'a' + index / 4, b'a' + index % 4]
}

fn form(pair: &Pair) -> Form {
    let mut form = Vec::new();
    pair.tree
        .walk(&pair.nodes(), &mut |_, depth, node| {
            form.push((depth, node.count()));
            ControlFlow::Continue(())
        })
        .unwrap();
    form
}

/// Batches to try on a tree with these rows: every single insert, removal and replacement, and, if
/// `all`, every set of keys flipped at once (present ones go, missing ones come).
fn batches(map: &Map, all: bool) -> Vec<Vec<Edit>> {
    let flip = |key: Vec<u8>| match map.contains_key(&key) {
        true => Edit::remove(key),
        false => Edit::put(key, "value"),
    };
    let sets = (1u32..1 << KEYS).filter(|set| all || set.is_power_of_two());
    let flips = sets.map(|set| {
        (0..KEYS).filter(|index| set >> index & 1 == 1).map(|index| flip(key(index))).collect()
    });
    let replacements = map.keys().map(|key| vec![Edit::put(key.clone(), "other")]);
    flips.chain(replacements).collect()
}

/// Walks from the empty tree to every (key set, form) that batches lead to. Every step is checked;
/// the first tree of each form is asked everything. Returns the number of forms and of steps.
fn explore(fan_out: usize) -> (usize, usize) {
    let mut pair = Pair::new(shape(fan_out, 1 << 20, true), 1 << 20);
    let mut forms = BTreeSet::new();
    let mut seen = BTreeSet::from([(Vec::new(), Form::new())]);
    let mut open = vec![(Tree::empty(), Map::new(), Form::new())];
    let mut steps = 0;
    while let Some((tree, map, its_form)) = open.pop() {
        let is_new = forms.insert(its_form);
        if is_new {
            (pair.tree, pair.map) = (tree.clone(), map.clone());
            // Bounds at every key and between any two.
            let between = map.keys().map(|key| [&key[..], b"!"].concat());
            let bounds: Vec<Vec<u8>> = map.keys().cloned().chain(between).collect();
            pair.check_answers(&bounds);
        }
        for batch in batches(&map, is_new) {
            steps += 1;
            (pair.tree, pair.map) = (tree.clone(), map.clone());
            pair.apply(&batch);
            let form = form(&pair);
            let keys: Vec<Vec<u8>> = pair.map.keys().cloned().collect();
            if seen.insert((keys, form.clone())) {
                open.push((pair.tree.clone(), pair.map.clone(), form));
            }
        }
    }
    (forms.len(), steps)
}

// spec: BTREE-1, BTREE-5, BTREE-6, BTREE-7, BTREE-10, BTREE-11, BTREE-12, BTREE-13
#[test]
fn all_trees_of_eight_keys_at_fan_out_2_answer_as_maps() {
    mark::reset();
    assert_eq!(explore(2), (63, 29_643));
    // A removal that leaves the root with one old child, which has one child itself.
    assert!(mark::hits().contains_key("btree-root-collapses-twice"));
}

#[test]
fn all_trees_of_eight_keys_at_fan_out_3_answer_as_maps() {
    assert_eq!(explore(3), (32, 15_391));
}

#[test]
fn all_trees_of_eight_keys_at_fan_out_4_answer_as_maps() {
    assert_eq!(explore(4), (21, 10_737));
}
