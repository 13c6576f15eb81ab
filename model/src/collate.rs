//! View collation as it is told: two values are looked at side by side, and no key is made.
//!
//! Numbers are compared as their decimal digits, written out in full; strings by the collator's
//! own comparison, where the engine uses its sort keys.

use std::cmp::Ordering;
use std::sync::LazyLock;

use icu_collator::CollatorBorrowed;
use rereduce::vocabulary::{Json, Number};

/// The order of a view that says nothing of its collation.
pub fn compare_unicode(one: &Json, two: &Json) -> Ordering {
    static ROOT: LazyLock<CollatorBorrowed<'static>> = LazyLock::new(|| {
        let root = CollatorBorrowed::try_new(Default::default(), Default::default());
        root.expect("the root collation is compiled in")
    });
    let place = |value: &Json| match value {
        Json::Null => 0,
        Json::Bool(false) => 1,
        Json::Bool(true) => 2,
        Json::Number(_) => 3,
        Json::String(_) => 4,
        Json::Array(_) => 5,
        Json::Object(_) => 6,
    };
    compare(one, two, &place, &|one, two| ROOT.compare(one, two))
}

/// The order of a view with `"collation": "raw"`.
pub fn compare_raw(one: &Json, two: &Json) -> Ordering {
    let place = |value: &Json| match value {
        Json::Number(_) => 0,
        Json::Bool(false) => 1,
        Json::Null => 2,
        Json::Bool(true) => 3,
        Json::Object(_) => 4,
        Json::Array(_) => 5,
        Json::String(_) => 6,
    };
    compare(one, two, &place, &|one, two| one.cmp(two))
}

fn compare(
    one: &Json,
    two: &Json,
    place: &dyn Fn(&Json) -> u8,
    strings: &dyn Fn(&str, &str) -> Ordering,
) -> Ordering {
    let values = |one: &Json, two: &Json| compare(one, two, place, strings);
    match (one, two) {
        (Json::Number(one), Json::Number(two)) => compare_numbers(one, two),
        (Json::String(one), Json::String(two)) => strings(one, two),
        (Json::Array(one), Json::Array(two)) => {
            let pairs = one.iter().zip(two).map(|(one, two)| values(one, two));
            pairs.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&two.len()))
        }
        (Json::Object(one), Json::Object(two)) => {
            let pairs = one.iter().zip(two).map(|((name, value), (other_name, other_value))| {
                strings(name, other_name).then_with(|| values(value, other_value))
            });
            pairs.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&two.len()))
        }
        _ => place(one).cmp(&place(two)),
    }
}

/// By value, whatever the kinds.
fn compare_numbers(one: &Number, two: &Number) -> Ordering {
    let ((one_below, one), (two_below, two)) = (digits(one), digits(two));
    // Longer whole parts are greater ones; the rest is as in a dictionary.
    let amounts = one.0.len().cmp(&two.0.len()).then_with(|| one.cmp(&two));
    match (one_below, two_below) {
        (false, false) => amounts,
        (true, true) => amounts.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// Whether a number is below zero, and its digits before and behind the point, without zeros at
/// either end. A double is a finite decimal fraction of at most 1,074 places.
fn digits(number: &Number) -> (bool, (String, String)) {
    let text = match number {
        Number::Integer(whole) => whole.to_string(),
        Number::Big(whole) => whole.digits().to_owned(),
        Number::Float(float) => format!("{float:.1074}"),
    };
    let amount = text.trim_start_matches('-');
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let amount = (whole.trim_start_matches('0').into(), fraction.trim_end_matches('0').into());
    let zero = amount == (String::new(), String::new());
    (text.starts_with('-') && !zero, amount)
}
