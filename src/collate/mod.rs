//! View collation: JSON keys as bytes, so that trees, which know memcmp alone, hold them in the
//! order in which CouchDB's views show them.
//!
//! ```text
//!   ["a", 7, {}] in the Unicode collation
//!
//!   16 15 2b 01 05 01 05 00 14 84 35 c0 17 00 00
//!   │  └ string, ICU's key ┘└ number ─┘ │  │  └ the array ends
//!   └ array                             │  └ the object ends
//!                                       └ object
//!   └─── cut at level 1 ──┘                         16 15 2b 01 05 01 05 01 is its next sibling
//!   └─── cut at level 2 ──────────────┘
//! ```
//!
//! A value is a tag, which orders the types among themselves, and its content. What ends with a
//! zero byte has none inside, and every tag is above zero; so what begins another key sorts before
//! it, and the bytes of the first n elements of an array begin exactly the keys that share them.
//!
//! A key does not lead back to its value: strings that the collator holds for equal have one key,
//! and so have `1` and `1.0`. Whoever shows rows keeps the JSON beside it.
//!
//! Strings here hold no lone surrogates. A document that has one is refused ([`crate::doc`]), and
//! what makes a string out of a function's result puts U+FFFD in its place before it comes here.
//!
//! Invariant: two keys are equal exactly if their values collate alike, otherwise their order is
//! that of the values, and no key is the beginning of another one.

mod cut;
mod number;

use std::cmp::Ordering;
use std::sync::LazyLock;

use icu_collator::CollatorBorrowed;

use crate::checksum::Cover;
use crate::mark;
use crate::vocabulary::Json;

pub use cut::next_sibling;

/// The order in which a view shows its keys.
///
/// The sort keys of the two share no tag, so a key of one is none of the other.
///
/// ```
/// use std::cmp::Ordering;
/// use rereduce::collate::{Collation, next_sibling};
/// use rereduce::vocabulary::Json;
///
/// let json = |text: &str| Json::parse(text.as_bytes()).unwrap();
/// let key = |text: &str| {
///     let mut key = Vec::new();
///     Collation::Unicode.sort_key(&json(text), &mut key);
///     key
/// };
/// assert!(key("null") < key("-1e300") && key("-1e300") < key("\"a\""));
/// assert!(key("\"a\"") < key("\"B\""), "letters come before case");
/// assert_eq!(Collation::Raw.compare(&json("\"a\""), &json("\"B\"")), Ordering::Greater);
///
/// // All days of May 2012 lie between the cut at level 2 and its next sibling.
/// let day = key("[2012, 5, 17]");
/// let month = Collation::Unicode.level_cut(&day, 2).unwrap();
/// let end = next_sibling(month).unwrap();
/// assert!(month < key("[2012, 5]").as_slice() && key("[2012, 5, {}]") < end);
/// assert!(end < key("[2012, 6]"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// null, false, true, numbers, strings by the Unicode root collation, arrays, objects.
    #[default]
    Unicode,
    /// Numbers, false, null, true, objects, arrays, strings by their UTF-8 bytes: the option
    /// `"collation": "raw"` of a view.
    Raw,
}

/// What ends strings, arrays and objects. No tag, no sort key of ICU and no shifted UTF-8 has it.
const END: u8 = 0;

/// Raised with every change of the encoding.
const FORMAT: u64 = 1;

/// The first byte of each type of value; their order is the order of the types.
struct Tags {
    null: u8,
    no: u8,
    yes: u8,
    number: u8,
    string: u8,
    array: u8,
    object: u8,
}

/// In the order null, false, true, number, string, array, object.
const UNICODE_TAGS: Tags =
    Tags { null: 0x11, no: 0x12, yes: 0x13, number: 0x14, string: 0x15, array: 0x16, object: 0x17 };

/// In the order number, false, null, true, object, array, string.
const RAW_TAGS: Tags =
    Tags { number: 0x21, no: 0x22, null: 0x23, yes: 0x24, object: 0x25, array: 0x26, string: 0x27 };

/// The root collation as it comes: tertiary strength, spaces and punctuation not ignored; so does
/// CouchDB open its own. One serves all threads.
static ROOT: LazyLock<CollatorBorrowed<'static>> = LazyLock::new(|| {
    let root = CollatorBorrowed::try_new(Default::default(), Default::default());
    // The data are compiled into the library, and the root locale has no tailoring to look for.
    root.expect("the root collation is compiled in")
});

impl Collation {
    /// Appends the sort key of `value` to `out`: bytes whose memcmp order is this collation.
    ///
    /// Takes time and space in proportion to the value, a big integer's time grows with the square
    /// of its digits, and stack in proportion to its depth.
    // spec: COLLATE-1, COLLATE-4, COLLATE-5
    pub fn sort_key(self, value: &Json, out: &mut Vec<u8>) {
        let tags = self.tags();
        match value {
            Json::Null => out.push(tags.null),
            Json::Bool(false) => out.push(tags.no),
            Json::Bool(true) => out.push(tags.yes),
            Json::Number(number) => {
                let last = mark::planted("collate-numbers-last");
                out.push(if last { tags.object + 1 } else { tags.number });
                number::write(number, out);
            }
            Json::String(text) => self.string(text, out),
            Json::Array(elements) => {
                out.push(tags.array);
                for element in elements {
                    self.sort_key(element, out);
                }
                out.push(if mark::planted("collate-longer-array-first") { 0xff } else { END });
            }
            Json::Object(members) => {
                out.push(tags.object);
                let mut members: Vec<_> = members.iter().collect();
                if mark::planted("collate-members-by-name") {
                    members.sort_by_key(|(name, _)| name);
                }
                for (name, value) in members {
                    self.string(name, out);
                    self.sort_key(value, out);
                }
                out.push(END);
            }
        }
    }

    /// How two values stand to each other. Makes both sort keys: whoever compares a value more
    /// than once keeps its key.
    pub fn compare(self, one: &Json, two: &Json) -> Ordering {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        self.sort_key(one, &mut left);
        self.sort_key(two, &mut right);
        left.cmp(&right)
    }

    /// Names the order, its encoding and the data of the collator. Keys that were made under
    /// another version mean nothing: an index stores the version and is built anew under another.
    ///
    /// Costs nothing but for the first call of a process, which samples the collator's data in
    /// less than a millisecond.
    // spec: COLLATE-9
    pub fn version(self) -> u64 {
        static UNICODE: LazyLock<u64> = LazyLock::new(|| {
            let mut sample = Cover::new(FORMAT);
            let mut key = Vec::new();
            // A character that comes anew moves those behind it; so a sample notices.
            for character in (0..0x2_0000).step_by(61).filter_map(char::from_u32) {
                key.clear();
                Collation::Unicode.string(character.encode_utf8(&mut [0; 4]), &mut key);
                sample.update(&key);
            }
            sample.finish()
        });
        match self {
            Collation::Unicode if mark::planted("collate-version-without-data") => FORMAT,
            Collation::Unicode => *UNICODE,
            Collation::Raw => FORMAT,
        }
    }

    fn tags(self) -> &'static Tags {
        match self {
            Collation::Raw if mark::planted("collate-raw-is-unicode") => &UNICODE_TAGS,
            Collation::Unicode => &UNICODE_TAGS,
            Collation::Raw => &RAW_TAGS,
        }
    }

    /// A string, or the name of a member.
    // spec: COLLATE-3, COLLATE-5
    fn string(self, text: &str, out: &mut Vec<u8>) {
        out.push(self.tags().string);
        match self {
            Collation::Unicode => {
                let Ok(()) = ROOT.write_sort_key_to(text, out);
                if mark::planted("collate-ties-by-bytes") {
                    out.push(1);
                    out.extend(text.bytes().map(|byte| byte + 1));
                }
            }
            // UTF-8 has no byte above 0xf4; one more, and it has no zero either.
            Collation::Raw => out.extend(text.bytes().map(|byte| byte + 1)),
        }
        if !mark::planted("collate-string-without-end") {
            out.push(END);
        }
    }
}
