//! Any document comes back from JavaScript as it went in, but for what numbers become there.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rereduce::vocabulary::{BigInteger, Json, Number};

use super::support::{json, maps};

/// Any JSON value: numbers of every kind, every character, names that look like numbers.
fn any_json() -> impl Strategy<Value = Json> {
    let number = prop_oneof![
        any::<i64>().prop_map(Number::Integer),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Number::Float),
        (-1e24..1e24f64).prop_map(|value| Number::Float(value.trunc())),
        "-?[1-9][0-9]{19,40}".prop_map(|digits| Number::Big(BigInteger::new(&digits).unwrap())),
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number.prop_map(Json::Number),
        any::<String>().prop_map(Json::String),
    ];
    let name = prop_oneof![any::<String>(), "[a-z]{1,3}|__proto__|toString|length|constructor"];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// What a number is in JavaScript: a double, whole if it has no fraction and fewer than 22 digits.
fn as_double(value: f64) -> Json {
    if value.is_infinite() {
        return Json::Null;
    }
    if value.fract() != 0.0 || value.abs() >= 1e21 {
        return Json::from(value);
    }
    // The shortest digits that are read back as this double, filled up with zeros.
    let shown = format!("{:e}", value.abs());
    let (digits, exponent) = shown.split_once('e').unwrap();
    let digits = digits.replace('.', "");
    let width = exponent.parse::<usize>().unwrap() + 1;
    let sign = if value < 0.0 { "-" } else { "" };
    json(&format!("{sign}{digits:0<width$}"))
}

/// `value` as JavaScript hands it on.
fn through(value: &Json) -> Json {
    match value {
        Json::Number(number) => as_double(match number {
            Number::Integer(value) => *value as f64,
            Number::Big(digits) => digits.digits().parse().unwrap(),
            Number::Float(value) => *value,
        }),
        Json::Array(items) => Json::Array(items.iter().map(through).collect()),
        Json::Object(members) => {
            // Names that are indices come first, in their order.
            let index = |name: &str| {
                let index = name.parse::<u32>().ok().filter(|&index| index < u32::MAX);
                index.filter(|index| index.to_string() == name)
            };
            let mut members: Vec<_> =
                members.iter().map(|(name, value)| (name.clone(), through(value))).collect();
            members.sort_by_key(|(name, _)| index(name).map_or((1, 0), |index| (0, index)));
            Json::Object(members)
        }
        other => other.clone(),
    }
}

// spec: JS-5, JS-6
#[test]
fn any_document_passes_unchanged_but_for_its_numbers() {
    let runner = RefCell::new(maps(&["function(doc) { emit(doc, doc); }"], "null"));
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    )
    .run(&any_json(), |value| {
        let document = Json::Object(vec![("value".to_owned(), value)]);
        let rows = runner.borrow_mut().map(&document).unwrap();
        let expected = through(&document);
        prop_assert_eq!(&rows[0], &[(expected.clone(), expected)]);
        Ok(())
    })
    .unwrap();
}
