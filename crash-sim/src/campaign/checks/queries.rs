//! Queries over trees in memory against a fold over a sorted list, and design documents against
//! the reasons for which they are refused.
//!
//! ```text
//!   rows ──┬── tree of narrow nodes ── run ─────────> text
//!          └── sorted list ── kept, cut, counted ──> text     the same, or both refuse
//! ```
//!
//! The fold knows the model's comparison and nothing of places, bounds or ranks.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree, TreeOptions};
use rereduce::collate::Collation;
use rereduce::file::MemoryChunks;
use rereduce::reduce::{Count, Reducer, Row as StoredRow};
use rereduce::view::design::DesignDoc;
use rereduce::view::query::{QueryHeader, QueryRow, ViewQuery, run};
use rereduce::view::reducer::{ShownReducer, ViewReducer};
use rereduce::view::row::{RowPlace, ViewRow};
use rereduce::view::rows::TreeRows;
use rereduce::vocabulary::{Edit, Json};
use rereduce_model::compare_unicode;

use super::{Outcome, expect};
use crate::campaign::Context;
use crate::random::Random;

#[path = "../../../../tests/replay/compare.rs"]
#[allow(dead_code)] // what only the tests there use
mod compare;
#[path = "../../../../tests/replay/orders.rs"]
#[allow(dead_code)] // what only the tests there use
mod orders;
#[path = "../../../../tests/replay/play.rs"]
#[allow(dead_code)] // what only the tests there use
mod play;

/// Queries that are asked of each tree.
const QUERIES: usize = 400;
const TREES: usize = 10;

/// Keys that rows and parameters are made of; some collate alike.
const KEYS: [&str; 14] = [
    "null",
    "1",
    "1.0",
    "2",
    "\"a\"",
    "\"a\\u0000\"",
    "\"A\"",
    "\"b\"",
    "[]",
    "[1]",
    "[1,1]",
    "[1,2,3]",
    "[\"a\",2]",
    "{}",
];

struct Counting;

impl Reducer for Counting {
    fn reduce(&self, rows: &[StoredRow<'_>], out: &mut Vec<u8>) -> rereduce::Result<()> {
        Count.reduce(rows, out)
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> rereduce::Result<()> {
        Count.rereduce(parts, out)
    }
}

impl ShownReducer for Counting {
    fn show(&self, reduction: &[u8]) -> rereduce::Result<Json> {
        Ok(Json::unsigned(Count::decode(reduction).unwrap_or(0)))
    }
}

/// A row: its key, and the document that emitted it.
type Row = (Json, String);

fn json(text: &str) -> Json {
    text.parse().expect("the texts here are JSON")
}

/// Random trees and random queries of them.
pub(super) fn equal_folds(context: &Context) -> Outcome {
    let mut random = Random::new(context.seed);
    for _ in 0..TREES {
        let count = random.below(30);
        let mut rows: Vec<Row> = (0..count).map(|_| row(&mut random)).collect();
        rows.sort_by(order);
        rows.dedup_by(|one, two| order(one, two).is_eq());
        for _ in 0..QUERIES {
            let reduces = random.below(2) == 0;
            let query = query(&mut random);
            let told = answered(&rows, reduces, &query);
            let expected = folded(&rows, reduces, &query);
            let same = match (&told, &expected) {
                (Ok(told), Some(expected)) => told == expected,
                (Err(_), None) => true,
                _ => false,
            };
            let told = told.unwrap_or_else(|error| error.to_string());
            expect(same, format!("{query} of {rows:?}:\n  {told}\n  {expected:?}"))?;
        }
    }
    refused_designs()?;
    parameters_are_read()
}

/// Values that are read or refused, and which of two holds.
fn parameters_are_read() -> Outcome {
    let refused = ["skip=-1", "limit=-7", "limit=x", "group=1", "key=a", "stale=no"];
    for query in refused {
        expect(ViewQuery::read(pairs(query), None).is_err(), format!("{query} is read"))?;
    }
    let body = json(r#"{"limit":1,"skip":99999999999999999999,"descending":"TRUE"}"#);
    let query = ViewQuery::read(pairs("limit=5&limit=6"), Some(&body))?;
    let told = (query.limit, query.skip, query.descending);
    expect(told == (Some(6), u64::MAX, true), format!("{told:?}"))
}

fn row(random: &mut Random) -> Row {
    (key(random), format!("d{}", random.below(9)))
}

fn key(random: &mut Random) -> Json {
    json(KEYS[random.below(KEYS.len() as u64) as usize])
}

fn order(one: &Row, two: &Row) -> Ordering {
    compare_unicode(&one.0, &two.0).then_with(|| one.1.as_bytes().cmp(two.1.as_bytes()))
}

/// A query as the text behind a question mark, not escaped.
fn query(random: &mut Random) -> String {
    if random.below(6) == 0 {
        // Lists of keys come with few other parameters, or they are refused.
        let keys = Json::Array((0..2 + random.below(3)).map(|_| key(random)).collect());
        let [group, descending] = [random.below(2) == 0, random.below(2) == 0];
        let (skip, limit) = (random.below(3), random.below(5));
        return format!(
            "keys={keys}&group={group}&descending={descending}&skip={skip}&limit={limit}"
        );
    }
    let mut parts: Vec<String> = Vec::new();
    for name in [
        "startkey",
        "endkey",
        "startkey_docid",
        "endkey_docid",
        "inclusive_end",
        "descending",
        "skip",
        "limit",
        "group",
        "group_level",
        "reduce",
        "key",
        "keys",
    ] {
        let seldom = if name.contains("key") && !name.contains('_') { 3 } else { 2 };
        if random.below(seldom) > 0 {
            continue;
        }
        let value = match name {
            "startkey" | "endkey" => key(random).to_string(),
            "key" | "keys" if random.below(3) > 0 => continue,
            "key" => key(random).to_string(),
            "keys" => {
                let count = random.below(4);
                Json::Array((0..count).map(|_| key(random)).collect()).to_string()
            }
            "startkey_docid" | "endkey_docid" => format!("d{}", random.below(9)),
            "skip" | "limit" | "group_level" => random.below(4).to_string(),
            _ => (random.below(2) == 0).to_string(),
        };
        parts.push(format!("{name}={value}"));
    }
    parts.join("&")
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter_map(|pair| pair.split_once('='))
}

/// What the engine answers.
fn answered(rows: &[Row], reduces: bool, query: &str) -> rereduce::Result<String> {
    let query = ViewQuery::read(pairs(query), None)?;
    let collation = Collation::Unicode;
    let put = |(key, id): &Row| {
        let mut sort_key = Vec::new();
        collation.sort_key(key, &mut sort_key);
        let place = RowPlace { sort_key: &sort_key, id: id.into(), emit: 0 };
        Edit::put(place.encode(), ViewRow::encode(key, &Json::Null))
    };
    let edits: Vec<Edit> = rows.iter().map(put).collect();
    let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(1 << 16));
    let reducer = match reduces {
        true => ViewReducer::Some(Arc::new(Counting)),
        false => ViewReducer::None,
    };
    let options = TreeOptions { fan_out_max: 3, ..TreeOptions::default() };
    let shape = Shape { options, reducer: Arc::new(reducer.clone()) };
    let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits)?;
    let nodes = &CachedNodes::new(&chunks, &cache);
    let view = TreeRows { tree: &tree, nodes, shape: &shape, collation, reducer: &reducer };
    let mut shown: Vec<String> = Vec::new();
    let header = run(&view, None, &query, &mut |row| {
        shown.push(match row {
            QueryRow::Row { id, key, .. } => format!("{} {id}", String::from_utf8_lossy(key)),
            QueryRow::Group { key, value } => format!("{key}: {value}"),
        });
        Ok(ControlFlow::Continue(()))
    })?;
    if let QueryHeader::Rows { total_rows, offset } = header {
        shown.insert(0, format!("{offset} of {total_rows}"));
    }
    Ok(shown.join("; "))
}

/// The parameters as the fold reads them; the last of a name counts.
struct Asked<'a>(&'a str);

impl Asked<'_> {
    fn last(&self, names: &[&str]) -> Option<(&str, &str)> {
        pairs(self.0).filter(|(name, _)| names.contains(name)).last()
    }

    fn says(&self, name: &str) -> Option<bool> {
        self.last(&[name]).map(|(_, value)| value == "true")
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.last(&[name]).map(|(_, value)| value.parse().expect("a number was written"))
    }

    fn id(&self, name: &str) -> Option<&str> {
        self.last(&[name]).map(|(_, value)| value)
    }

    /// The key of an end. `key`, and `keys` of one, stand behind both in the text.
    fn end(&self, name: &str) -> Option<Json> {
        let named = |(found, _): &(&str, &str)| *found == name || ["key", "keys"].contains(found);
        let keys = pairs(self.0).filter(named).filter_map(|(found, value)| match json(value) {
            Json::Array(keys) if found == "keys" => match keys.as_slice() {
                [only] => Some(only.clone()),
                _ => None,
            },
            key => Some(key),
        });
        keys.last()
    }

    fn keys(&self) -> Option<Vec<Json>> {
        match self.last(&["keys"]).map(|(_, value)| json(value)) {
            Some(Json::Array(keys)) if keys.len() != 1 => Some(keys),
            _ => None,
        }
    }

    /// Whether a row is not before the start, and whether it is not behind the end.
    fn within(&self, row: &Row, start: Option<&Json>, end: Option<&Json>) -> (bool, bool) {
        let descending = self.says("descending") == Some(true);
        let turned = |order: Ordering| if descending { order.reverse() } else { order };
        let by_id = |id: &str| turned(row.1.as_bytes().cmp(id.as_bytes()));
        let after = start.is_none_or(|start| match turned(compare_unicode(&row.0, start)) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => self.id("startkey_docid").is_none_or(|id| by_id(id).is_ge()),
        });
        let inclusive = self.says("inclusive_end") != Some(false);
        let before = end.is_none_or(|end| match turned(compare_unicode(&row.0, end)) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match self.id("endkey_docid") {
                None => inclusive,
                Some(id) if inclusive => by_id(id).is_le(),
                Some(id) => by_id(id).is_lt(),
            },
        });
        (after, before)
    }
}

/// What the query answers, by looking at each row; `None` if it is refused.
fn folded(rows: &[Row], reduces: bool, query: &str) -> Option<String> {
    let asked = Asked(query);
    let (start, end, keys) = (asked.end("startkey"), asked.end("endkey"), asked.keys());
    let level = asked.number("group_level");
    if asked.says("group") == Some(false) && level.is_some_and(|level| level > 0) {
        return None;
    }
    let by_key = asked.says("group") == Some(true) && level.is_none();
    let level = if by_key { usize::MAX } else { level.unwrap_or(0) };
    if asked.says("reduce") == Some(true) && !reduces {
        return None;
    }
    let reduces = reduces && asked.says("reduce") != Some(false);
    let has_range = start.is_some() || end.is_some();
    if keys.as_ref().is_some_and(|keys| (reduces && !by_key) || (!keys.is_empty() && has_range))
        || (!reduces && level > 0)
    {
        return None;
    }
    let descending = asked.says("descending") == Some(true);
    if keys.is_none()
        && let (Some(start), Some(end)) = (&start, &end)
        && start != end
    {
        let ids = |name, none: &'static str| asked.id(name).unwrap_or(none);
        // What is no id stands before or behind all.
        let (first, last) = if descending { ("~", "") } else { ("", "~") };
        let order = compare_unicode(start, end)
            .then_with(|| ids("startkey_docid", first).cmp(ids("endkey_docid", last)));
        if if descending { order.is_lt() } else { order.is_ge() } {
            return None;
        }
    }
    let mut walked: Vec<&Row> = rows.iter().collect();
    if descending {
        walked.reverse();
    }
    let mut ranges = match &keys {
        Some(keys) => keys.iter().map(|key| (Some(key), Some(key))).collect(),
        None => vec![(start.as_ref(), end.as_ref())],
    };
    if descending && !reduces {
        ranges.reverse();
    }
    let (skip, limit) =
        (asked.number("skip").unwrap_or(0), asked.number("limit").unwrap_or(usize::MAX));
    Some(match reduces {
        true => groups(&asked, &walked, &ranges, level, keys.is_some(), (skip, limit)),
        false => listing(&asked, &walked, &ranges, (skip, limit)),
    })
}

type Ends<'a> = (Option<&'a Json>, Option<&'a Json>);

fn chosen<'a>(asked: &Asked<'_>, walked: &[&'a Row], (start, end): Ends<'_>) -> Vec<&'a Row> {
    let inside = |row: &&&Row| asked.within(row, start, end) == (true, true);
    walked.iter().filter(inside).copied().collect()
}

fn listing(
    asked: &Asked<'_>,
    walked: &[&Row],
    ranges: &[Ends<'_>],
    (skip, limit): (usize, usize),
) -> String {
    let mut shown = Vec::new();
    let (mut first, mut last) = (None, 0);
    for ends in ranges {
        let before = |row: &&&Row| !asked.within(row, ends.0, ends.1).0;
        last = walked.iter().filter(before).count();
        let rows = chosen(asked, walked, *ends);
        if !rows.is_empty() {
            first.get_or_insert(last);
        }
        shown.extend(rows.into_iter().map(|(key, id)| format!("{key} {id}")));
    }
    let offset = (first.unwrap_or(last) + skip).min(walked.len());
    let header = format!("{offset} of {}", walked.len());
    let rows = shown.into_iter().skip(skip).take(limit);
    std::iter::once(header).chain(rows).collect::<Vec<_>>().join("; ")
}

fn groups(
    asked: &Asked<'_>,
    walked: &[&Row],
    ranges: &[Ends<'_>],
    level: usize,
    by_keys: bool,
    (skip, limit): (usize, usize),
) -> String {
    let mut found: Vec<(Json, usize)> = Vec::new();
    for ends in ranges {
        let from = found.len();
        for (key, _) in chosen(asked, walked, *ends) {
            let key = match (ends.0, key, level) {
                (Some(key), _, _) if by_keys => key.clone(),
                (_, _, 0) => Json::Null,
                (_, Json::Array(items), level) => {
                    Json::Array(items.iter().take(level).cloned().collect())
                }
                (_, key, _) => key.clone(),
            };
            match found[from..].last_mut() {
                Some((group, count)) if compare_unicode(group, &key).is_eq() => *count += 1,
                _ => found.push((key, 1)),
            }
        }
    }
    let shown = found.into_iter().skip(skip).take(limit);
    shown.map(|(key, count)| format!("{key}: {count}")).collect::<Vec<_>>().join("; ")
}

/// Each member of the wrong form is refused, the options' too.
fn refused_designs() -> Outcome {
    for (design, place) in [
        (r#"{"views":1}"#, "`views`"),
        (r#"{"views":{"v":{"map":1}}}"#, "`views.v.map`"),
        (r#"{"options":[]}"#, "`options`"),
        (r#"{"options":{"local_seq":1}}"#, "`options.local_seq`"),
        (r#"{"filters":{"f":1}}"#, "`filters.f`"),
    ] {
        let told = DesignDoc::parse(&json(design)).err().map(|error| error.to_string());
        let is_named = told.as_deref().is_some_and(|told| told.starts_with(place));
        expect(is_named, format!("{design}: {told:?}"))?;
    }
    Ok(())
}

/// Requests, recorded ones too.
pub(super) fn requests(_: &Context) -> Outcome {
    let node = orders::node();
    for (method, target, body, expected) in orders::ASKED {
        let told = orders::asked(&node, method, target, body);
        expect(told == expected, format!("{method} {target}: {told}"))?;
    }
    let listed = orders::asked(&node, "GET", "/db/_all_docs", "");
    expect(!listed.contains(r#""id":"c""#), listed)?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/golden");
    for name in ["2-view-params", "2-view-errors", "7-libs"] {
        let tally = play::replay(&std::path::Path::new(folder).join(format!("{name}.json")));
        expect(tally.differences.is_empty(), tally.differences.join("\n"))?;
    }
    Ok(())
}
