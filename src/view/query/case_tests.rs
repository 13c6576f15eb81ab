//! Faults that others had, pinned on their smallest inputs, each in every combination.

use super::tests::View;

/// Twelve documents, three to a key from 4 to 7.
const ROWS: [(i64, &str); 12] = [
    (4, "a"),
    (4, "b"),
    (4, "c"),
    (5, "a"),
    (5, "b"),
    (5, "c"),
    (6, "a"),
    (6, "b"),
    (6, "c"),
    (7, "a"),
    (7, "b"),
    (7, "c"),
];

/// Ends of a range: none, a key, or a key and a document.
const ENDS: [Option<(i64, Option<&str>)>; 6] = [
    None,
    Some((4, None)),
    Some((5, Some("b"))),
    Some((6, None)),
    Some((6, Some("b"))),
    Some((7, Some("c"))),
];

/// Whether a row is inside, as one reads the parameters aloud.
fn is_inside(
    (key, id): (i64, &str),
    start: Option<(i64, Option<&str>)>,
    end: Option<(i64, Option<&str>)>,
    inclusive: bool,
    descending: bool,
) -> bool {
    let sign = if descending { -1 } else { 1 };
    let (at, by) = (key * sign, |end: i64| end * sign);
    let ids = |other: &str| if descending { other.cmp(id) } else { id.cmp(other) };
    let after = match start {
        None => true,
        Some((start, None)) => at >= by(start),
        Some((start, Some(first))) => at > by(start) || (key == start && ids(first).is_ge()),
    };
    let before = match (end, inclusive) {
        (None, _) => true,
        (Some((end, None)), true) => at <= by(end),
        (Some((end, None)), false) => at < by(end),
        (Some((end, Some(last))), true) => at < by(end) || (key == end && ids(last).is_le()),
        (Some((end, Some(last))), false) => at < by(end) || (key == end && ids(last).is_lt()),
    };
    after && before
}

// spec: QUERY-5, QUERY-8
// case: B23
#[test]
fn an_end_with_a_document_counts_under_reduce_however_it_is_asked() {
    let texts = ROWS.map(|(key, id)| (key.to_string(), id));
    let rows: Vec<(&str, &'static str)> = texts.iter().map(|(key, id)| (&**key, *id)).collect();
    let view = View::of(&rows).reduced();
    let mut asked = 0;
    for (start, end) in ENDS.iter().flat_map(|start| ENDS.iter().map(move |end| (*start, *end))) {
        for (inclusive, descending) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let mut query = format!("inclusive_end={inclusive}&descending={descending}");
            for (name, end) in [("startkey", start), ("endkey", end)] {
                if let Some((key, id)) = end {
                    query += &format!("&{name}={key}");
                    query += &id.map(|id| format!("&{name}_docid={id}")).unwrap_or_default();
                }
            }
            let inside = |row: &&(i64, &str)| is_inside(**row, start, end, inclusive, descending);
            let inside: Vec<i64> = ROWS.iter().filter(inside).map(|(key, _)| *key).collect();
            let mut keys: Vec<i64> = inside.clone();
            keys.dedup();
            if descending {
                keys.reverse();
            }
            let count = |key: &i64| inside.iter().filter(|found| *found == key).count();
            let groups: Vec<String> =
                keys.iter().map(|key| format!("{key} {}", count(key))).collect();
            let whole = match inside.len() {
                0 => String::new(),
                count => format!("null {count}"),
            };
            // Ends that are the wrong way round are refused, and nothing would be inside.
            let told = |group: &str| view.ask(&format!("{query}{group}")).unwrap_or_default();
            assert_eq!(told(""), whole, "{query}");
            assert_eq!(told("&group=true"), groups.join(", "), "{query}");
            assert_eq!(told("&group_level=1"), groups.join(", "), "{query}");
            asked += 3;
        }
    }
    assert_eq!(asked, 432);
}

// spec: QUERY-8
// case: B24
#[test]
fn skip_and_limit_count_groups_and_never_rows() {
    let keys = [r#""a""#, r#""a""#, r#""a""#, r#""b""#, r#""b""#, r#""c""#];
    let ids = ["1", "2", "3", "4", "5", "6"];
    let rows: Vec<(&str, &'static str)> = keys.into_iter().zip(ids).collect();
    let view = View::of(&rows).reduced();
    for descending in [false, true] {
        let mut groups = [r#""a" 3"#, r#""b" 2"#, r#""c" 1"#];
        if descending {
            groups.reverse();
        }
        for (skip, limit) in (0..5).flat_map(|skip| (0..5).map(move |limit| (skip, limit))) {
            let query = format!("group=true&skip={skip}&limit={limit}&descending={descending}");
            let shown: Vec<&str> = groups.into_iter().skip(skip).take(limit).collect();
            assert_eq!(view.ask(&query).unwrap(), shown.join(", "), "{query}");
        }
    }
}

// spec: QUERY-8
// case: B27
#[test]
fn keys_that_collate_alike_are_one_group() {
    let with = "\"\u{2708}\u{fe0f} New Arrivals\"";
    let without = "\"\u{2708} New Arrivals\"";
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let others = ["k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];
    let rows = ids.map(|id| (with, id)).into_iter().chain(others.map(|id| (without, id)));
    let rows: Vec<(&str, &'static str)> = rows.collect();
    let view = View::of(&rows).reduced();
    assert_eq!(view.ask("group=true").unwrap(), format!("{with} 20"));
    assert_eq!(view.ask("group=true&descending=true").unwrap(), format!("{without} 20"));
}
