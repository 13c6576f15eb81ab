//! Reduce functions as reducers of a tree.

use std::sync::Arc;

use rereduce::ErrorClass;
use rereduce::collate::Collation;
use rereduce::mark;
use rereduce::reduce::{Reducer, Row};
use rereduce::view::function_reducer::FunctionReducer;
use rereduce::view::functions::Sources;
use rereduce::view::limit::ReduceLimit;
use rereduce::view::reducer::ShownReducer;
use rereduce::view::row::{RowPlace, ViewRow};
use rereduce::vocabulary::{Direction, Json};

use super::support::{json, language, recorded::turns_red, refusal};

fn reducer(source: &str, limit: ReduceLimit) -> FunctionReducer {
    let sources = Sources { reduces: vec![source.to_owned()], ..Sources::default() };
    let language = Arc::new(language());
    FunctionReducer::new(language, Arc::new(sources), 0, Collation::Unicode, limit)
}

/// Rows `0, 1, ...` of documents `d0, d1, ...` with these values.
fn rows(values: &[&str]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |(index, value): (usize, &&str)| {
        let key = Json::from(index as i64);
        let mut sort_key = Vec::new();
        Collation::Unicode.sort_key(&key, &mut sort_key);
        let id = format!("d{index}").into();
        let place = RowPlace { sort_key: &sort_key, id, emit: 0 };
        (place.encode(), ViewRow::encode(&key, &json(value)))
    };
    values.iter().enumerate().map(row).collect()
}

fn reduce(reducer: &dyn Reducer, values: &[&str]) -> Vec<u8> {
    let (rows, mut out) = (rows(values), Vec::new());
    let rows: Vec<Row<'_>> = rows.iter().map(|(place, row)| (&place[..], &row[..])).collect();
    reducer.reduce(&rows, &mut out).unwrap();
    out
}

fn shown(source: &str, values: &[&str]) -> String {
    let reducer = reducer(source, ReduceLimit::Error);
    reducer.show(&reduce(&reducer, values)).unwrap().to_string()
}

/// What planted bugs are tried on. It panics where something is not as it should be.
pub(crate) fn reducers_do_as_they_should() {
    functions_are_handed_pairs_against_the_direction();
    one_more_rereduce();
    an_overflow_absorbs();
}

// spec: JS-10
#[test]
fn bugs_planted_in_function_reducers_are_noticed() {
    for bug in [
        "js-reduce-rows-ascending",
        "js-reduce-keys-are-null",
        "js-last-rereduce-left-out",
        "js-overflow-does-not-absorb",
    ] {
        assert!(turns_red(bug, reducers_do_as_they_should), "{bug}");
    }
}

/// Keeps what it is handed.
const KEEPS: &str = "function(keys, values, again) { return again ? values[0] : [keys, values]; }";

fn functions_are_handed_pairs_against_the_direction() {
    let expected = r#"[[[1,"d1"],[0,"d0"]],["b","a"]]"#;
    assert_eq!(shown(KEEPS, &["\"a\"", "\"b\""]), expected);
    let descending = reducer(KEEPS, ReduceLimit::Off).towards(Direction::Descending).unwrap();
    let reduction = reduce(&*descending, &["\"a\"", "\"b\""]);
    let expected = r#"[[[0,"d0"],[1,"d1"]],["a","b"]]"#;
    assert_eq!(descending.show(&reduction).unwrap().to_string(), expected);
}

// spec: JS-10
#[test]
fn a_reduce_function_is_handed_pairs_of_key_and_id_against_the_direction() {
    functions_are_handed_pairs_against_the_direction();
}

fn one_more_rereduce() {
    let source = "(k, v, r) => r ? 'rereduce of ' + v + ', keys ' + k : 'reduce'";
    assert_eq!(shown(source, &["1", "2"]), r#""rereduce of reduce, keys null""#);
}

// spec: JS-10
#[test]
fn a_shown_value_went_through_one_more_rereduce() {
    one_more_rereduce();
}

// spec: JS-10
#[test]
fn parts_are_handed_on_against_the_direction_and_one_part_stays_as_it_is() {
    let source = "function(k, v, r) { return r ? v.join('') : 'x' + v; }";
    let reducer = reducer(source, ReduceLimit::Error);
    let (one, two) = (reduce(&reducer, &["1"]), reduce(&reducer, &["2"]));
    let mut both = Vec::new();
    reducer.rereduce(&[&one, &[], &two], &mut both).unwrap();
    assert_eq!(both, br#""x2x1""#);
    let mut alone = Vec::new();
    reducer.rereduce(&[&[], &one], &mut alone).unwrap();
    assert_eq!(alone, one);
    let mut nothing = Vec::new();
    reducer.rereduce(&[&[]], &mut nothing).unwrap();
    assert_eq!((nothing.len(), reducer.show(&[]).unwrap()), (0, Json::Null));
}

// spec: JS-7
#[test]
fn a_reduce_function_that_throws_gives_null() {
    assert_eq!(shown("function(k, v, r) { throw 'no'; }", &["1"]), "null");
    assert_eq!(shown("function(k, v, r) { return v.x.y; }", &["1"]), "null");
    assert_eq!(shown("function(k, v, r) { return NaN; }", &["1"]), "null");
    assert_eq!(shown("function(k, v, r) { }", &["1"]), "null");
}

const GROWS: &str = "function(k, v, r) { return v; }";

fn an_overflow_absorbs() {
    let long = format!("\"{}\"", "x".repeat(3000));
    let reducer = reducer(GROWS, ReduceLimit::Error);
    mark::reset();
    let over = reduce(&reducer, &[&long, &long]);
    assert!(mark::hits().contains_key("function-reduce-overflow"));
    let small = reduce(&reducer, &["1"]);
    let mut merged = Vec::new();
    reducer.rereduce(&[&small, &over, &small], &mut merged).unwrap();
    let shown = reducer.show(&merged).unwrap();
    assert_eq!(shown.member("error"), Some(&Json::from("reduce_overflow_error")));
    let reason = shown.member("reason").and_then(Json::as_str).unwrap();
    assert!(reason.starts_with("Reduce output must shrink more rapidly: input size: 60"));
}

// spec: REDUCE-11, JS-10
#[test]
fn a_reduction_that_does_not_shrink_is_an_error_that_absorbs() {
    an_overflow_absorbs();
}

// spec: REDUCE-11
#[test]
fn without_a_limit_a_reduction_may_grow() {
    let long = format!("\"{}\"", "x".repeat(3000));
    for (limit, count) in [(ReduceLimit::Off, 0), (ReduceLimit::Log, 2)] {
        let reducer = reducer(GROWS, limit);
        let reduction = reduce(&reducer, &[&long, &long]);
        assert!(reducer.show(&reduction).unwrap().to_string().len() > 6000);
        assert_eq!(reducer.over_limit_count(), count);
    }
}

// spec: JS-8
#[test]
fn a_reducer_goes_on_after_a_function_that_ran_wild() {
    let source = "function(k, v, r) { if (v[0] === 'deep') { (function f() { f(); })(); } \
                  if (v[0] === 'end') throw ['fatal', 'my_error', 'my reason']; return v.length; }";
    let reducer = reducer(source, ReduceLimit::Error);
    for (value, name) in [("\"deep\"", "os_process_error"), ("\"end\"", "my_error")] {
        let (rows, mut out) = (rows(&[value]), Vec::new());
        let error = reducer.reduce(&[(&rows[0].0, &rows[0].1)], &mut out).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Function);
        assert_eq!(refusal::<()>(Err(error)).0, name);
        assert_eq!(reduce(&reducer, &["1", "2"]), b"2");
    }
}

#[test]
fn a_reducer_serves_many_threads() {
    let reducer = reducer("function(k, v, r) { return sum(v); }", ReduceLimit::Error);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(reduce(&reducer, &["1", "2.5"]), b"3.5"));
        }
    });
}

#[test]
fn bytes_of_others_are_refused() {
    let reducer = reducer(GROWS, ReduceLimit::Error);
    for bytes in [&b"\x01"[..], b"\x01\x05", b"\x01\x05\x05\x05", b"{"] {
        assert_eq!(reducer.show(bytes).unwrap_err().class(), ErrorClass::BadInput);
    }
    let mut out = Vec::new();
    assert_eq!(reducer.reduce(&[(b"", b"")], &mut out).unwrap_err().class(), ErrorClass::BadInput);
}
