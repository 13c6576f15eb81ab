//! The laws, on all built-ins and on toys that break them.

use quickcheck::{Arbitrary, Gen, QuickCheck};
use rereduce::Result;
use rereduce::reduce::{
    BrokenLaw, Count, NoReduce, Reducer, Row, SumDecimal, check_builtin_laws, check_laws,
};
use rereduce::vocabulary::Json;

use crate::exact::Addend;
use crate::support::{borrowed, json, reducer, rows_of};

/// All built-ins, with short and long lists.
pub(crate) const BUILTINS: [&str; 9] = [
    "_count",
    "_sum",
    "_stats",
    "_approx_count_distinct",
    "_first",
    "_last",
    "_top_2",
    "_bottom_3",
    "_top_100",
];

/// Any value, mostly such as add up.
#[derive(Clone, Debug)]
struct Value(Json);

impl Arbitrary for Value {
    fn arbitrary(source: &mut Gen) -> Value {
        let number = |source: &mut Gen| Json::Number(Addend::arbitrary(source).0);
        let few = |source: &mut Gen| usize::arbitrary(source) % 4;
        Value(match u8::arbitrary(source) % 24 {
            0 => Json::Null,
            1 => Json::from("x"),
            2 => json(r#"{"error":"builtin_reduce_error","reason":"mine"}"#),
            3 => Json::Array(vec![number(source), Json::from("x"), number(source)]),
            4 => Json::Array(vec![Json::from("y")]),
            5..8 => Json::Array((0..few(source)).map(|_| number(source)).collect()),
            8..12 => {
                let names = ["b", "a", "é"].into_iter().take(few(source));
                Json::Object(
                    names
                        .map(|name| {
                            let value = match u8::arbitrary(source) % 6 {
                                0 => Json::from("z"),
                                1 => Json::Array(vec![number(source)]),
                                2 => Json::Object(vec![("c".into(), number(source))]),
                                _ => number(source),
                            };
                            (name.to_owned(), value)
                        })
                        .collect(),
                )
            }
            _ => number(source),
        })
    }
}

fn keeps_the_laws(name: &str, values: &[Json]) -> Option<BrokenLaw> {
    let rows = rows_of(values);
    check_builtin_laws(&reducer(name), &borrowed(&rows)).unwrap()
}

// spec: REDUCE-13
pub(crate) fn builtins_keep_the_laws() {
    fn holds(values: Vec<Value>, numbers: Vec<Addend>, mixed: bool) -> bool {
        let mut values: Vec<Json> = values.into_iter().map(|value| value.0).take(7).collect();
        let numbers: Vec<Json> =
            numbers.into_iter().map(|addend| Json::Number(addend.0)).take(7).collect();
        if !mixed {
            values = numbers.clone();
        }
        BUILTINS.iter().all(|name| {
            // Only numbers have statistics for sure.
            let values = if *name == "_stats" { &numbers } else { &values };
            keeps_the_laws(name, values).is_none()
        })
    }
    let check = holds as fn(Vec<Value>, Vec<Addend>, bool) -> bool;
    QuickCheck::new().tests(300).quickcheck(check);
}

// spec: REDUCE-8, REDUCE-10
pub(crate) fn equal_values_keep_the_laws() {
    let values: Vec<Json> = ["1", "1.0", "2", "2.0", "1.0", "1"].map(json).into();
    for name in BUILTINS {
        assert_eq!(keeps_the_laws(name, &values), None, "{name}");
    }
}

/// What the bad values of a sum are, and in which order, changes only the cause that is shown.
// spec: REDUCE-5, REDUCE-6
pub(crate) fn sums_of_odd_values_keep_the_laws() {
    let values: Vec<Json> =
        ["1", "[1,\"x\"]", "\"s\"", "[1,\"y\"]", "{\"a\":1}", "null", "2"].map(json).into();
    for start in 0..values.len() {
        for end in start..=values.len() {
            assert_eq!(keeps_the_laws("_sum", &values[start..end]), None, "{start}..{end}");
        }
    }
}

// spec: REDUCE-9
pub(crate) fn many_distinct_keys_keep_the_laws() {
    let values: Vec<Json> = (0..2000).map(Json::from).collect();
    let rows = rows_of(&values);
    let (distinct, rows) = (reducer("_approx_count_distinct"), borrowed(&rows));
    let (one, two) = rows.split_at(700);
    let parts = [one, two].map(|rows| crate::support::reduce(&distinct, rows).unwrap());
    let whole = crate::support::reduce(&distinct, &rows).unwrap();
    assert_eq!(crate::support::rereduce(&distinct, &parts).unwrap(), whole);
    let Json::Number(estimate) = distinct.show(&whole).unwrap() else { panic!("no number") };
    let estimate: f64 = Json::Number(estimate).to_string().parse().unwrap();
    assert!((estimate - 2000.0).abs() < 2000.0 * 0.07, "{estimate}");
}

/// Adds doubles as they come: what `_sum` would be without its care.
struct PlainSum;

impl Reducer for PlainSum {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        let value = |row: &Row<'_>| std::str::from_utf8(row.1).unwrap().parse::<f64>().unwrap();
        out.extend(rows.iter().map(value).fold(0.0, |sum: f64, value| sum + value).to_le_bytes());
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let part = |part: &&[u8]| f64::from_le_bytes((*part).try_into().unwrap());
        out.extend(parts.iter().map(part).fold(0.0, |sum: f64, part| sum + part).to_le_bytes());
        Ok(())
    }
}

/// Forgets a part of three.
struct Forgetful;

impl Reducer for Forgetful {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        Count.reduce(rows, out)
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        Count.rereduce(&parts[..parts.len().min(2)], out)
    }
}

/// Marks what it merges.
struct Marking;

impl Reducer for Marking {
    fn reduce(&self, _rows: &[Row<'_>], _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        out.extend(parts.iter().take(1).filter(|_| parts.len() == 1).map(|_| 1));
        Ok(())
    }
}

// spec: REDUCE-13
pub(crate) fn toys_are_found() {
    let rows: [Row<'_>; 3] = [(b"a", b"0.1"), (b"b", b"0.2"), (b"c", b"0.3")];
    let law = |reducer: &dyn Reducer| check_laws(reducer, &rows).unwrap();
    assert!(matches!(law(&PlainSum), Some(BrokenLaw::Bracketing { cuts: (0, 1) })));
    assert!(matches!(law(&Forgetful), Some(BrokenLaw::Neutral { place: 0 })));
    assert_eq!(law(&Marking), None);
    let alone = check_builtin_laws(&Marking, &rows).unwrap();
    assert_eq!(alone, Some(BrokenLaw::Alone { row_count: 0 }));
}

#[test]
fn unlawful_reducers_are_found() {
    toys_are_found();
}

#[test]
fn the_small_reducers_keep_the_laws() {
    let rows: [Row<'_>; 4] = [(b"a", b"1"), (b"b", b"x"), (b"c", b"-3"), (b"d", b"")];
    for reducer in [&NoReduce as &dyn Reducer, &Count, &SumDecimal] {
        assert_eq!(check_builtin_laws(reducer, &rows).unwrap(), None);
    }
}

#[test]
fn all_built_ins_keep_the_laws() {
    builtins_keep_the_laws();
    equal_values_keep_the_laws();
    sums_of_odd_values_keep_the_laws();
    many_distinct_keys_keep_the_laws();
}
