//! `collate`: the sort keys of 220 values against the model's comparison, and the laws of order,
//! of cuts and of siblings on all their triples, in both collations.
//!
//! The unit of `passed` is a triple of values: the model's order is transitive on it, and so are
//! the keys; the key of the array of the three has the cuts that it shares with its neighbours.

use std::cmp::Ordering;
use std::ops::AddAssign;

use rereduce::collate::{Collation, next_sibling};
use rereduce::vocabulary::Json;
use rereduce_model::{compare_raw, compare_unicode};

use super::{Context, side_by_side};
use crate::figures::Figures;
use crate::oracle::guarded;

/// Triples that the quick form must try.
const FLOOR: u64 = 100_000;

/// Of so many triples one is tried, in the quick form and by the check of planted bugs. Primes, so
/// that each value comes to each place.
const QUICK_STEP: usize = 101;
const SAMPLE_STEP: usize = 1_009;

/// One JSON text a line: every type, numbers around every border of their kinds, strings that
/// collate alike or sort otherwise than their bytes, and what can be built of them.
const CORPUS: &str = include_str!("collate.txt");

/// What CouchDB's documentation shows, in ascending order: its table of types, and ASCII.
const DOCUMENTED: [&str; 2] = [
    r#"null false true 1 2 3.0 4 "a" "A" "aa" "b" "B" "ba" "bb" ["a"] ["b"] ["b","c"] ["b","c","a"]
       ["b","d"] ["b","d","e"] {"a":1} {"a":2} {"b":1} {"b":2} {"b":2,"a":1} {"b":2,"c":2}"#,
    r##""_" "-" "," ";" ":" "!" "?" "." "'" "\"" "(" ")" "[" "]" "{" "}" "@" "*" "/" "\\" "&" "#" "%"
       "`" "^" "+" "<" "=" ">" "|" "~" "$" "0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "a" "A" "b" "B"
       "c" "C" "d" "D" "e" "E" "f" "F" "g" "G" "h" "H" "i" "I" "j" "J" "k" "K" "l" "L" "m" "M" "n"
       "N" "o" "O" "p" "P" "q" "Q" "r" "R" "s" "S" "t" "T" "u" "U" "v" "V" "w" "W" "x" "X" "y" "Y"
       "z" "Z""##,
];

/// The same for the raw collation.
const DOCUMENTED_RAW: &str = r#"1 false null true {"a":1} ["a"] "a""#;

/// A value, and its sort key.
struct Value {
    json: Json,
    key: Vec<u8>,
}

/// One collation: the values with their keys, and how the model orders each two of them.
struct Table {
    collation: Collation,
    values: Vec<Value>,
    model: Vec<Ordering>,
}

impl Table {
    fn new(collation: Collation) -> Result<Table, String> {
        let values = CORPUS.lines().map(|text| value(collation, text));
        let values = values.collect::<Result<Vec<Value>, String>>()?;
        let row = |one: &Value| -> Vec<Ordering> {
            values.iter().map(|two| by_model(collation, &one.json, &two.json)).collect()
        };
        let model = values.iter().flat_map(row).collect();
        Ok(Table { collation, values, model })
    }

    fn order(&self, one: usize, two: usize) -> Ordering {
        self.model[one * self.values.len() + two]
    }

    fn complaint(&self, what: &str, places: &[usize]) -> String {
        let values: Vec<String> =
            places.iter().map(|place| self.values[*place].json.to_string()).collect();
        format!("{:?}: {what}: {}", self.collation, values.join("  "))
    }

    fn key(&self, json: &Json) -> Vec<u8> {
        let mut key = Vec::new();
        self.collation.sort_key(json, &mut key);
        key
    }

    /// Two values, each in one place: keys, the comparison and the model say the same.
    fn pair(&self, one: usize, two: usize) -> Result<(), String> {
        let (left, right, order) = (&self.values[one], &self.values[two], self.order(one, two));
        let holds = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(self.complaint(what, &[one, two])),
        };
        holds(order == self.order(two, one).reverse(), "the model is not antisymmetric")?;
        holds(left.key.cmp(&right.key) == order, "the keys are not in the model's order")?;
        let compared = self.collation.compare(&left.json, &right.json);
        holds(compared == order, "the comparison is not the model's")?;
        let begins = right.key.starts_with(&left.key);
        holds(!begins || order == Ordering::Equal, "a key begins another one")?;
        let row = [&left.key[..], &right.key].concat();
        let split = self.collation.split(&row);
        holds(split == Some((&left.key, &right.key)), "two keys in a row are not split")?;
        let sibling = next_sibling(&left.key).unwrap_or_default();
        holds(order.is_gt() || (right.key < sibling) == order.is_eq(), "a sibling is misplaced")
    }

    /// Three values, and the arrays that are made of them.
    fn triple(&self, place: [usize; 3], array: &mut Json) -> Result<(), String> {
        let holds = |holds: bool, what: &str| match holds {
            true => Ok(()),
            false => Err(self.complaint(what, &place)),
        };
        let [one, two, three] = place;
        let (first, second) = (self.order(one, two), self.order(two, three));
        if first == second || second.is_eq() {
            holds(self.order(one, three) == first, "the order is not transitive")?;
        }
        if let Json::Array(elements) = array {
            elements[2].clone_from(&self.values[three].json);
        }
        let key = self.key(array);
        let cut = |level| self.collation.level_cut(&key, level).unwrap_or_default();
        let (cut_1, cut_2, cut_3) = (cut(1), cut(2), cut(3));
        let begins = cut_1.ends_with(&self.values[one].key)
            && cut_2.ends_with(&self.values[two].key)
            && cut_3.ends_with(&self.values[three].key);
        holds(begins, "a cut ends elsewhere than the element")?;
        let sizes = [cut_1, cut_2, cut_3].map(<[u8]>::len);
        let [_, second, third] = place.map(|place| self.values[place].key.len());
        holds(sizes[1] == sizes[0] + second, "the second cut is not one element longer")?;
        holds(sizes[2] == sizes[1] + third, "the third cut is not one element longer")?;
        holds(cut(0).is_empty() && cut(4) == key, "a cut above or below the array is wrong")?;
        let above = |cut: &[u8]| next_sibling(cut).is_some_and(|sibling| key < sibling);
        holds(above(cut_1) && above(cut_2) && above(cut_3), "a sibling is not above its group")?;
        // The sibling of the cut [one, two] is not above [one, three] where three is above two.
        let sibling = next_sibling(cut_2).unwrap_or_default();
        let other = [cut_1, &self.values[three].key].concat();
        holds(second_is(self.order(two, three), &sibling, &other), "a group takes in another one")
    }

    /// All triples that begin with the value at `one`, `step` by `step`.
    fn triples(&self, one: usize, step: usize) -> Result<u64, String> {
        let count = self.values.len();
        let mut tried = 0;
        let mut array = Json::Array(vec![Json::Null; 3]);
        for two in 0..count {
            if let Json::Array(elements) = &mut array {
                elements[0].clone_from(&self.values[one].json);
                elements[1].clone_from(&self.values[two].json);
            }
            // Steps go on from row to row, so that each begins elsewhere.
            let before = (one * count + two) * count;
            let begin = before.next_multiple_of(step) - before;
            for three in (begin..count).step_by(step) {
                self.triple([one, two, three], &mut array)?;
                tried += 1;
            }
        }
        Ok(tried)
    }
}

/// Whether `sibling`, the end of a group, is above `other` exactly if `other` is not above the
/// group.
fn second_is(group_to_other: Ordering, sibling: &[u8], other: &[u8]) -> bool {
    (sibling <= other) == group_to_other.is_lt()
}

fn value(collation: Collation, text: &str) -> Result<Value, String> {
    let json = Json::parse(text.as_bytes()).map_err(|error| format!("{text}: {error}"))?;
    let mut key = Vec::new();
    collation.sort_key(&json, &mut key);
    Ok(Value { json, key })
}

fn by_model(collation: Collation, one: &Json, two: &Json) -> Ordering {
    match collation {
        Collation::Unicode => compare_unicode(one, two),
        Collation::Raw => compare_raw(one, two),
    }
}

/// The documented lists are in ascending order.
fn examples() -> Result<u64, String> {
    let lists = DOCUMENTED.map(|list| (Collation::Unicode, list));
    let mut count = 0;
    for (collation, list) in lists.into_iter().chain([(Collation::Raw, DOCUMENTED_RAW)]) {
        let values = list.split_whitespace().map(|text| value(collation, text));
        let values = values.collect::<Result<Vec<Value>, String>>()?;
        for pair in values.windows(2) {
            let [one, two] = pair else { continue };
            let (left, right) = (&one.json, &two.json);
            let by_model = by_model(collation, left, right);
            if one.key >= two.key || by_model.is_ge() {
                return Err(format!("{collation:?}, as documented: {left} before {right}"));
            }
        }
        count += values.len() as u64;
    }
    Ok(count)
}

/// What was tried.
#[derive(Default)]
struct Tried {
    examples: u64,
    pairs: u64,
    triples: u64,
}

impl AddAssign for Tried {
    fn add_assign(&mut self, other: Tried) {
        self.examples += other.examples;
        self.pairs += other.pairs;
        self.triples += other.triples;
    }
}

/// Examples, all pairs, and one of `step` triples.
fn check(context: &Context, step: usize) -> Result<Tried, String> {
    let examples = guarded(examples)?;
    let tables = guarded(|| {
        let [one, two] = [Collation::Unicode, Collation::Raw].map(Table::new);
        Ok([one?, two?])
    })?;
    if Collation::Unicode.version() == Collation::Raw.version() {
        return Err("two orders have one version".into());
    }
    let count = tables[0].values.len();
    let jobs: Vec<usize> = (0..count).collect();
    let shown = |index: usize, _: &usize| format!("{index} of {count} values");
    let work = |_: usize, one: &usize, sum: &mut Tried| {
        guarded(|| {
            for table in &tables {
                (0..count).try_for_each(|two| table.pair(*one, two))?;
            }
            let triples: Vec<u64> = tables
                .iter()
                .map(|table| table.triples(*one, step))
                .collect::<Result<_, String>>()?;
            // A triple counts once, after both collations.
            *sum += Tried { examples: 0, pairs: count as u64, triples: triples[0] };
            Ok(())
        })
    };
    let mut tried = side_by_side(context, &jobs, shown, work, |sum, part| *sum += part)?;
    tried.examples = examples;
    Ok(tried)
}

/// A second's worth, for planted bugs.
pub(super) fn sample(context: &Context) -> Result<(), String> {
    check(&Context { loud: false, ..context.clone() }, SAMPLE_STEP).map(drop)
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("collate", FLOOR);
    let step = if context.quick { QUICK_STEP } else { 1 };
    let tried = check(context, step).unwrap_or_else(|violation| {
        figures.failed = 1;
        context.say(violation);
        Tried::default()
    });
    figures.count("values", CORPUS.lines().count() as u64);
    figures.count("documented", tried.examples);
    figures.count("pairs", tried.pairs);
    figures.passed = tried.triples;
    figures.interrupted = context.stopped();
    Ok(figures)
}
