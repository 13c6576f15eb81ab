//! Random histories: any limits, any keys, any batches.

use proptest::collection::vec;
use proptest::prelude::*;
use rereduce::btree::Builder;
use rereduce::mark;
use rereduce::vocabulary::{Edit, KeyRange};

use crate::support::{Counted, Pair, shape};

/// Keys of which many are equal, many share a beginning, and some are longer than a node.
pub(crate) fn key() -> impl Strategy<Value = Vec<u8>> {
    let letters = || prop::sample::select(b"abcd".to_vec());
    prop_oneof![
        8 => vec(letters(), 0..4),
        2 => vec(letters(), 4..40),
        1 => (letters(), 40usize..700).prop_map(|(letter, count)| vec![letter; count]),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let value = prop_oneof![8 => vec(any::<u8>(), 0..6), 1 => vec(any::<u8>(), 6..900)];
    (key(), prop::option::weighted(0.6, value)).prop_map(|(key, value)| Edit { key, value })
}

fn limits() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        (2usize..5, Just(1 << 20)),
        (Just(usize::MAX), 64usize..512),
        (2usize..8, 64usize..512),
    ]
}

pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config(256))]

    // spec: BTREE-1, BTREE-5, BTREE-6, BTREE-7, BTREE-8, BTREE-9, BTREE-10, BTREE-13
    #[test]
    fn random_histories_equal_the_map(
        (fan_out, bytes) in limits(),
        concatenate in any::<bool>(),
        cache_bytes in prop::sample::select(vec![0, 400, 1 << 20]),
        batches in vec(vec(edit(), 1..40), 1..25),
        bounds in vec(key(), 3),
    ) {
        let mut pair = Pair::new(shape(fan_out, bytes, concatenate), cache_bytes);
        for batch in &batches {
            pair.apply(batch);
            prop_assert!(pair.cache.used_bytes() <= cache_bytes);
        }
        let keys: Vec<Vec<u8>> = pair.map.keys().cloned().chain(bounds.iter().cloned()).collect();
        pair.check_lookups(&keys);
        pair.check_answers(&bounds);
        pair.check_range(&KeyRange::prefix(&bounds[0]));
    }
}

// spec: BTREE-10
#[test]
fn exact_heights_are_computed_rarely_in_a_large_tree_of_mixed_keys() {
    // The shortest key is far shorter than most, so it says little about a fresh tree's height.
    let mut pair = Pair::new(shape(usize::MAX, 256, false), 8 << 20);
    mark::reset();
    for batch in 0..400u32 {
        let row = |step: u32| {
            let number = (batch * 25 + step).wrapping_mul(2_654_435_761) >> 8;
            Edit::put(format!("{number:08}").repeat(1 + number as usize % 9), "v")
        };
        let edits: Vec<Edit> = (0..25).map(row).chain([Edit::put("", "v")]).collect();
        let tree = &pair.tree;
        pair.tree = tree.apply(&mut pair.sink, &pair.cache, &pair.shape, &edits).unwrap();
        pair.map.extend(edits.into_iter().map(|edit| (edit.key, edit.value.unwrap())));
    }
    pair.check_structure();
    let rebuilt = mark::hits().get("btree-rebuilt").copied().unwrap_or(0);
    let exact = mark::hits().get("btree-exact-height").copied().unwrap_or(0);
    // Below 1,024 rows each of 41 batches may ask; above, one for an eighth of the rows, and each
    // that made the tree higher.
    let figures = format!("{exact} exact heights, {rebuilt} rebuilds for 10,000 rows");
    assert!((1..=41 + 40).contains(&exact), "{figures}");
}

/// Rows of two to a leaf whose keys are long and short by turns, so that the keys in inner nodes
/// are all long or, after one more row in front, all short.
// spec: BTREE-10
#[test]
fn a_tree_follows_a_fresh_one_that_one_row_made_lower() {
    const ROWS: u32 = 2048;
    let mut pair = Pair::new(shape(usize::MAX, 256, false), 8 << 20);
    let row = |number: u32| match number % 2 {
        0 => Edit::put(format!("{number:04}{}", "k".repeat(100)), "v"),
        _ => Edit::put(format!("{number:04}"), "v".repeat(100)),
    };
    pair.apply(&(0..ROWS).map(row).collect::<Vec<_>>());
    let height = |pair: &Pair| {
        let mut fresh = Builder::new(&pair.shape);
        let mut sink = Counted::default();
        for (key, value) in &pair.map {
            fresh.push(&mut sink, key, value).unwrap();
        }
        (pair.tree.height(), fresh.finish(&mut sink).unwrap().height())
    };
    assert_eq!(height(&pair), (11, 11));
    // `apply` holds each tree against `check`, which must not take this one for damaged.
    let appended = pair.sink.appended;
    pair.apply(&[Edit::put("", "v".repeat(100))]);
    assert_eq!(height(&pair), (11, 5));
    assert!(pair.sink.appended - appended <= 2 * 11, "one row writes about one path");
    // Rows that change and leave the keys as they are; the last one ends the trust.
    let mut changed = 1;
    while height(&pair).0 == 11 {
        pair.apply(&[Edit::put(format!("{:04}", 2 * changed + 1), format!("{changed:0>100}"))]);
        changed += 1;
    }
    assert_eq!((changed, height(&pair)), (ROWS / 8, (5, 5)));
}
