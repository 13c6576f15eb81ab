//! A naive order of JSON values, good enough for the strings in the recordings.

use std::cmp::Ordering;

use rereduce::vocabulary::{Json, Number};

fn class(json: &Json) -> u8 {
    match json {
        Json::Null => 0,
        Json::Bool(false) => 1,
        Json::Bool(true) => 2,
        Json::Number(_) => 3,
        Json::String(_) => 4,
        Json::Array(_) => 5,
        Json::Object(_) => 6,
    }
}

/// The number as a double; those of JavaScript are.
fn double(number: &Number) -> f64 {
    Json::Number(number.clone()).to_string().parse().unwrap()
}

pub(crate) fn compare(one: &Json, two: &Json) -> Ordering {
    match (one, two) {
        (Json::Number(one), Json::Number(two)) => double(one).total_cmp(&(double(two) + 0.0)),
        (Json::String(one), Json::String(two)) => strings(one, two),
        (Json::Array(one), Json::Array(two)) => {
            let mut pairs = one.iter().zip(two);
            let differ = pairs.find_map(|(one, two)| Some(compare(one, two)).filter(|o| o.is_ne()));
            differ.unwrap_or(one.len().cmp(&two.len()))
        }
        (Json::Object(one), Json::Object(two)) => {
            let mut pairs = one.iter().zip(two);
            let member = |(one, two): (&(String, Json), &(String, Json))| {
                let order = strings(&one.0, &two.0).then_with(|| compare(&one.1, &two.1));
                Some(order).filter(|order| order.is_ne())
            };
            pairs.find_map(member).unwrap_or(one.len().cmp(&two.len()))
        }
        _ => class(one).cmp(&class(two)),
    }
}

/// Letters first, then accents, then case; a soft hyphen is nothing.
fn strings(one: &str, two: &str) -> Ordering {
    let level = |text: &str, level: fn(char) -> u32| -> Vec<u32> {
        text.chars().filter(|&letter| letter != '\u{ad}').map(level).collect()
    };
    let letter = |letter: char| match letter {
        'á' => 'a' as u32,
        'é' => 'e' as u32,
        'ё' => 'е' as u32,
        other => other.to_ascii_lowercase() as u32,
    };
    let accent = |letter: char| u32::from(matches!(letter, 'á' | 'é' | 'ё'));
    let case = |letter: char| u32::from(letter.is_uppercase());
    level(one, letter)
        .cmp(&level(two, letter))
        .then_with(|| level(one, accent).cmp(&level(two, accent)))
        .then_with(|| level(one, case).cmp(&level(two, case)))
}
