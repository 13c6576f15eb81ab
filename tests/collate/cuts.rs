//! Sort keys taken apart: splitting, cuts at a level, next siblings.

use quickcheck::{QuickCheck, TestResult};
use rereduce::collate::{Collation, next_sibling};
use rereduce::mark;
use rereduce::vocabulary::Json;

use crate::values::{Drawn, Elements, model};
use crate::{BOTH, hex, json, key};

/// Whatever the bytes are, what is answered is a part of them and stays the same when cut again.
fn takes_apart_or_refuses(bytes: &[u8]) -> bool {
    BOTH.into_iter().all(|collation| {
        let split = collation.split(bytes);
        let whole = split.is_none_or(|(key, rest)| {
            [key, rest].concat() == bytes && collation.split(key) == Some((key, &[]))
        });
        let cuts = (0..6).all(|level| match collation.level_cut(bytes, level) {
            Some(cut) => {
                let sibling = next_sibling(cut);
                bytes.starts_with(cut) && sibling.is_none_or(|sibling| bytes < sibling.as_slice())
            }
            None => split.is_none(),
        });
        whole && cuts
    })
}

// spec: COLLATE-6
#[test]
fn any_bytes_are_split_or_refused() {
    let any = |bytes: Vec<u8>| takes_apart_or_refuses(&bytes);
    QuickCheck::new().tests(20_000).quickcheck(any as fn(Vec<u8>) -> bool);
    // Bytes that look like keys: tags, ends and headers of numbers.
    let alike = |bytes: Vec<u8>| {
        const LIKELY: [u8; 16] =
            [0, 0x11, 0x14, 0x15, 0x16, 0x17, 0x21, 0x25, 0x26, 0x27, 0x80, 0x84, 0x7f, 0xff, 1, 0];
        let bytes: Vec<u8> = bytes.iter().map(|byte| LIKELY[usize::from(byte % 16)]).collect();
        takes_apart_or_refuses(&bytes)
    };
    QuickCheck::new().tests(50_000).quickcheck(alike as fn(Vec<u8>) -> bool);
    // A key that was damaged in one byte, or cut off.
    let damaged = |Drawn(value): Drawn, at: usize, byte: u8| {
        let mut bytes = key(Collation::Unicode, &value);
        let at = at % bytes.len();
        let cut_off = bytes[..at].to_vec();
        bytes[at] = byte;
        takes_apart_or_refuses(&bytes) && Collation::Unicode.split(&cut_off).is_none()
    };
    QuickCheck::new().tests(20_000).quickcheck(damaged as fn(Drawn, usize, u8) -> bool);
}

// spec: COLLATE-6
#[test]
fn a_million_open_arrays_do_not_overflow_the_stack() {
    let mut bytes = vec![0x16; 1_000_000];
    assert_eq!(Collation::Unicode.split(&bytes), None);
    bytes.resize(2_000_000, 0);
    assert_eq!(Collation::Unicode.split(&bytes).map(|(key, _)| key.len()), Some(2_000_000));
    assert_eq!(Collation::Unicode.level_cut(&bytes, 1).map(<[u8]>::len), Some(1_999_999));
}

// case: B29. spec: COLLATE-6
#[test]
fn a_key_is_split_from_what_stands_behind_it() {
    fn splits(Drawn(value): Drawn, rest: Vec<u8>) -> bool {
        BOTH.into_iter().all(|collation| {
            let key = key(collation, &value);
            let row = [&key[..], &rest].concat();
            collation.split(&row) == Some((&key, &rest))
        })
    }
    QuickCheck::new().tests(10_000).quickcheck(splits as fn(Drawn, Vec<u8>) -> bool);
    let foreign = key(Collation::Raw, &json("[1]"));
    assert_eq!(Collation::Unicode.split(&foreign), None);
}

/// The key of an array without the byte that ends it.
fn open(collation: Collation, elements: &[Json]) -> Vec<u8> {
    let mut key = key(collation, &Json::Array(elements.to_vec()));
    key.pop();
    key
}

// case: B29. spec: COLLATE-7
#[test]
fn a_cut_is_the_key_of_the_first_elements() {
    mark::reset();
    fn cuts(Elements(elements): Elements, rest: Vec<u8>) -> bool {
        BOTH.into_iter().all(|collation| {
            let whole = key(collation, &Json::Array(elements.clone()));
            let row = [&whole[..], &rest].concat();
            let cuts = (1..=elements.len()).all(|level| {
                collation.level_cut(&row, level) == Some(&open(collation, &elements[..level]))
            });
            let above = elements.len() + 1..elements.len() + 3;
            let whole_above =
                above.into_iter().all(|level| collation.level_cut(&row, level) == Some(&whole));
            cuts && whole_above && collation.level_cut(&row, 0) == Some(&[])
        })
    }
    QuickCheck::new().tests(5_000).quickcheck(cuts as fn(Elements, Vec<u8>) -> bool);
    assert!(mark::hits().contains_key("collate-array-shorter-than-level"));
    for text in ["null", "7", "\"a\"", r#"{"a":[1,2]}"#] {
        let key = key(Collation::Unicode, &json(text));
        assert_eq!(Collation::Unicode.level_cut(&key, 1), Some(&key[..]), "{text}");
    }
}

/// Two arrays that share some elements, or look as if: groups are ranges.
// spec: COLLATE-7, COLLATE-8
#[test]
fn a_group_lies_between_its_cut_and_the_next_sibling() {
    fn groups(
        Elements(one): Elements,
        Elements(two): Elements,
        shared: usize,
        level: usize,
    ) -> TestResult {
        let level = 1 + level % 4;
        let mut two = two;
        let shared = shared % 5;
        two.splice(0..shared.min(two.len()), one.iter().take(shared).cloned()).for_each(drop);
        for collation in BOTH {
            let [left, right] =
                [&one, &two].map(|array| key(collation, &Json::Array(array.clone())));
            let cut = collation.level_cut(&left, level).unwrap();
            let sibling = next_sibling(cut).unwrap();
            let inside = cut <= right.as_slice() && right < sibling;
            let [first, second] =
                [&one, &two].map(|array| Json::Array(array.iter().take(level).cloned().collect()));
            let one_group = model(collation, &first, &second).is_eq();
            if inside != one_group || (one_group && collation.level_cut(&right, level) != Some(cut))
            {
                return TestResult::failed();
            }
        }
        TestResult::passed()
    }
    let mut check = QuickCheck::new().tests(30_000);
    check.quickcheck(groups as fn(Elements, Elements, usize, usize) -> TestResult);
}

// spec: COLLATE-8
#[test]
fn the_next_sibling_of_nothing_and_of_all_ones_is_no_bytes() {
    assert_eq!(next_sibling(&[]), None);
    assert_eq!(next_sibling(&[0xff, 0xff]), None);
    assert_eq!(next_sibling(&[0x16, 0xff, 0xff]), Some(vec![0x17]));
}

/// The picture in `spec/collate.md`.
// spec: COLLATE-4, COLLATE-7, COLLATE-8
#[test]
fn the_bytes_of_the_example_are_those_of_the_picture() {
    let key = key(Collation::Unicode, &json(r#"["a", 7, {}]"#));
    assert_eq!(hex(&key), "16152b01050105001484 35c0170000".replace(' ', ""));
    let cut = |level| Collation::Unicode.level_cut(&key, level).unwrap();
    assert_eq!(hex(cut(1)), "16152b0105010500");
    assert_eq!(hex(cut(2)), "16152b0105010500148435c0");
    assert_eq!(hex(cut(4)), hex(&key));
    assert_eq!(hex(&next_sibling(cut(1)).unwrap()), "16152b0105010501");
}
