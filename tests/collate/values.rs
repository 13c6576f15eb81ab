//! Values that are drawn: few shapes and few contents, so that many of them are equal or nearly.

use std::cmp::Ordering;

use quickcheck::{Arbitrary, Gen};
use rereduce::collate::Collation;
use rereduce::vocabulary::Json;
use rereduce_model::{compare_raw, compare_unicode};

use crate::json;

/// How the model orders two values.
pub(crate) fn model(collation: Collation, one: &Json, two: &Json) -> Ordering {
    match collation {
        Collation::Unicode => compare_unicode(one, two),
        Collation::Raw => compare_raw(one, two),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Drawn(pub(crate) Json);

/// An array of up to four values.
#[derive(Clone, Debug)]
pub(crate) struct Elements(pub(crate) Vec<Json>);

impl Arbitrary for Drawn {
    fn arbitrary(g: &mut Gen) -> Drawn {
        Drawn(value(g, 3))
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Drawn>> {
        match &self.0 {
            Json::Array(elements) => Box::new(elements.clone().into_iter().map(Drawn)),
            Json::Object(members) => {
                Box::new(members.clone().into_iter().map(|(_, value)| Drawn(value)))
            }
            _ => Box::new(std::iter::empty()),
        }
    }
}

impl Arbitrary for Elements {
    fn arbitrary(g: &mut Gen) -> Elements {
        Elements((0..below(g, 5)).map(|_| value(g, 2)).collect())
    }
}

fn below(g: &mut Gen, limit: usize) -> usize {
    usize::arbitrary(g) % limit
}

fn value(g: &mut Gen, depth: usize) -> Json {
    let kinds = if depth == 0 { 6 } else { 10 };
    match below(g, kinds) {
        0 => Json::Null,
        1 => Json::Bool(bool::arbitrary(g)),
        2 | 3 => number(g),
        4 | 5 => Json::String(string(g)),
        6..8 => Json::Array((0..below(g, 4)).map(|_| value(g, depth - 1)).collect()),
        _ => {
            let mut members: Vec<(String, Json)> = Vec::new();
            for _ in 0..below(g, 4) {
                let name = string(g);
                if members.iter().all(|(other, _)| *other != name) {
                    members.push((name, value(g, depth - 1)));
                }
            }
            Json::Object(members)
        }
    }
}

/// A power of two or ten, or any double, and what stands close to it.
pub(crate) fn number(g: &mut Gen) -> Json {
    match below(g, 5) {
        0 => Json::from(i64::arbitrary(g) >> below(g, 64)),
        1 => Json::from(i64::from(i8::arbitrary(g)) / 64),
        2 => {
            let float = f64::from_bits(u64::arbitrary(g));
            Json::from(if float.is_finite() { float } else { 0.5 })
        }
        3 => {
            let float = (below(g, 140) as f64 - 70.0).exp2();
            let near = f64::from_bits(float.to_bits() + below(g, 3) as u64 - 1);
            Json::from(if bool::arbitrary(g) { near } else { -near })
        }
        _ => {
            let near = (1_u128 << below(g, 120)).saturating_add_signed(below(g, 3) as i128 - 1);
            let sign = if bool::arbitrary(g) && near > 0 { "-" } else { "" };
            json(&format!("{sign}{near}"))
        }
    }
}

/// Up to five characters, most of them from a few that collate alike, or combine.
pub(crate) fn string(g: &mut Gen) -> String {
    const FEW: [char; 16] = [
        'a', 'A', 'b', '\u{e1}', '\u{301}', '\u{323}', '\u{300}', '\0', '\u{1}', '\u{200d}', ' ',
        '-', '1', '\u{ac00}', '\u{1100}', '\u{ffff}',
    ];
    let character = |g: &mut Gen| match below(g, 5) {
        0 => char::arbitrary(g),
        _ => FEW[below(g, FEW.len())],
    };
    (0..below(g, 6)).map(|_| character(g)).collect()
}
