//! Strings: what the collator holds for equal, what its sort keys may hold, and its version.

use quickcheck::{Arbitrary, Gen, QuickCheck};
use rereduce::checksum::Cover;
use rereduce::collate::Collation;
use rereduce::vocabulary::Json;

use crate::values::{model, string};
use crate::{BOTH, hex, json, key};

/// Over the sort keys of all characters. If this differs, so do the collator's data: put in the
/// new number, and the version's below.
const ALL_CHARACTERS: u64 = 884_466_682_802_707_090;

const VERSIONS: [u64; 2] = [2_244_703_278_302_305_810, 1];

fn unicode(text: &str) -> Vec<u8> {
    key(Collation::Unicode, &Json::from(text))
}

// spec: COLLATE-3, COLLATE-6
#[test]
fn no_character_puts_a_zero_into_a_sort_key() {
    let mut all = Cover::new(0);
    let mut characters = 0;
    for character in '\0'..=char::MAX {
        for collation in BOTH {
            let key = key(collation, &Json::String(character.into()));
            let zeros = key.iter().filter(|byte| **byte == 0).count();
            assert!(zeros == 1 && key.ends_with(&[0]), "{character:?}: {}", hex(&key));
        }
        all.update(&unicode(character.encode_utf8(&mut [0; 4])));
        characters += 1;
    }
    assert_eq!((characters, all.finish()), (1_112_064, ALL_CHARACTERS));
}

// spec: COLLATE-9
#[test]
fn the_version_is_that_of_this_encoding_and_these_data() {
    assert_eq!(BOTH.map(Collation::version), VERSIONS);
}

#[derive(Clone, Debug)]
struct Text(String);

impl Arbitrary for Text {
    fn arbitrary(g: &mut Gen) -> Text {
        Text(string(g) + &string(g))
    }
}

// spec: COLLATE-3
#[test]
fn sort_keys_and_the_collators_comparison_agree_on_strings() {
    fn agree(Text(one): Text, Text(two): Text) -> bool {
        let (one, two) = (Json::String(one), Json::String(two));
        BOTH.into_iter().all(|collation| {
            key(collation, &one).cmp(&key(collation, &two)) == model(collation, &one, &two)
        })
    }
    QuickCheck::new().tests(50_000).quickcheck(agree as fn(Text, Text) -> bool);
}

// case: B27. spec: COLLATE-3
#[test]
fn strings_that_the_collator_holds_for_equal_have_one_key() {
    let alike = [
        ["", "\0", "\u{200d}"],
        ["a", "a\0", "\u{ad}a"],
        ["\u{e1}", "a\u{301}", "a\u{301}\u{1}"],
        ["\u{ac00}", "\u{1100}\u{1161}", "\u{1100}\u{1161}\u{200d}"],
        ["\u{2708} New", "\u{2708}\u{fe0f} New", "\u{2708}\u{fe0f}\u{200d} New"],
    ];
    for [one, two, three] in alike {
        let keys = [one, two, three].map(unicode);
        assert!(keys[0] == keys[1] && keys[1] == keys[2], "{one:?} {two:?} {three:?}");
        let raw = [one, two].map(|text| key(Collation::Raw, &Json::from(text)));
        assert_ne!(raw[0], raw[1], "{one:?} {two:?}");
    }
    let apart = ["a", "A", "\u{e1}", "\u{c1}", "aa", "b"].map(unicode);
    assert!(apart.is_sorted_by(|one, two| one < two));
}

/// CouchDB takes the marks as they come; the deviation stands in `spec/deviations.md`.
#[test]
fn a_string_that_is_not_in_fcd_form_equals_its_normal_form() {
    let [grave, dot] = ["o\u{300}\u{300}\u{323}", "o\u{323}\u{300}\u{300}"].map(unicode);
    assert_eq!(grave, dot);
    assert_eq!(grave, unicode("\u{1ecd}\u{300}\u{300}"));
    // Taken as they come, a grave and a dot would be these two the other way round.
    assert_ne!(grave, unicode("o\u{300}\u{300}"));
    assert!(unicode("o\u{300}\u{300}") < grave && grave < unicode("o\u{323}\u{300}\u{300}a"));
}

// spec: COLLATE-5
#[test]
fn raw_strings_are_ordered_by_their_bytes() {
    let list = [
        "\"\"",
        "\"\\u0000\"",
        "\"\\u0000a\"",
        "\"A\"",
        "\"a\"",
        "\"\u{e1}\"",
        "\"\u{ffff}\"",
        "\"\u{1f600}\"",
    ];
    let keys = list.map(|text| key(Collation::Raw, &json(text)));
    assert!(keys.is_sorted_by(|one, two| one < two));
}
