//! CouchDB's recorded views over 170 keys, answered again from rows that are ordered by bytes.
//!
//! ```text
//!   recorded documents ──► what the map function emits ──► sort key, id ──► sorted by memcmp
//!                                                                              │ range, groups
//!   recorded answer  ═══════════════════ equal? ═══════════════════════════► answer
//! ```
//!
//! Every GET of the recording is answered and compared; a refused one by its status alone.

use std::collections::BTreeMap;
use std::path::Path;

use rereduce::collate::{Collation, next_sibling};
use rereduce::vocabulary::{Json, Number};
use serde_json::Value;

use crate::{json, key};

/// The answers of each case.
const ANSWERS: [(&str, usize); 4] = [
    ("collation-order", 15),
    ("collation-ranges", 286),
    ("collation-pairs", 484),
    ("docid-order", 33),
];

/// What `JSON.stringify` makes of a number, which JavaScript keeps as a double.
fn by_javascript(value: Json) -> Json {
    let deep = |list: Vec<Json>| list.into_iter().map(by_javascript).collect();
    match value {
        Json::Number(number) => {
            let double: f64 = match number {
                Number::Integer(whole) => whole as f64,
                Number::Big(whole) => whole.digits().parse().unwrap(),
                Number::Float(float) => float,
            };
            match double.fract() == 0.0 && double.abs() < 1e21 {
                // Zero loses its sign.
                true => json(&(double + 0.0).to_string()),
                false => Json::from(double),
            }
        }
        Json::Array(elements) => Json::Array(deep(elements)),
        Json::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, by_javascript(value)));
            Json::Object(members.collect())
        }
        other => other,
    }
}

/// A row: the key as it is shown, the document, and what the tree would order it by.
struct Row {
    bytes: Vec<u8>,
    shown: Json,
    id: String,
}

struct View {
    collation: Collation,
    rows: Vec<Row>,
}

type Query = BTreeMap<String, String>;

impl View {
    fn new(collation: Collation, emitted: impl Iterator<Item = (Json, String)>) -> View {
        let mut rows: Vec<Row> = emitted
            .map(|(shown, id)| {
                let mut bytes = key(collation, &shown);
                bytes.extend_from_slice(id.as_bytes());
                Row { bytes, shown, id }
            })
            .collect();
        rows.sort_by(|one, two| one.bytes.cmp(&two.bytes));
        View { collation, rows }
    }

    /// The rows of a range, in the query's direction, and how many stand before them. `None` if
    /// the range is the wrong way round.
    fn range(&self, query: &Query) -> Option<(Vec<&Row>, usize)> {
        let descending = flag(query, "descending", false);
        let bound = |name: &str| query.get(name).or(query.get("key"));
        let bound = |name: &str| bound(name).map(|text| key(self.collation, &json(text)));
        let (start, end) = (bound("startkey"), bound("endkey"));
        if let (Some(start), Some(end)) = (&start, &end) {
            let (first, last) = if descending { (end, start) } else { (start, end) };
            if first > last {
                return None;
            }
        }
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        if descending {
            rows.reverse();
        }
        // All rows of a key lie between it and its next sibling.
        let (start, inclusive) = (start.unwrap_or_default(), flag(query, "inclusive_end", true));
        let before = |row: &&&Row| match descending {
            false => row.bytes < start,
            true => next_sibling(&start).is_some_and(|above| row.bytes >= above),
        };
        let within = |row: &&&Row| match (&end, descending, inclusive) {
            (None, _, _) => true,
            (Some(end), false, true) => row.bytes < next_sibling(end).unwrap(),
            (Some(end), false, false) => row.bytes < *end,
            (Some(end), true, true) => row.bytes >= *end,
            (Some(end), true, false) => row.bytes >= next_sibling(end).unwrap(),
        };
        let skipped = rows.iter().take_while(before).count();
        let rows = rows.iter().skip(skipped).take_while(within).copied().collect();
        Some((rows, skipped))
    }

    /// The key of a row cut to `level`, as it is shown and as it groups.
    fn cut<'a>(&self, row: &'a Row, level: usize) -> (Json, &'a [u8]) {
        let shown = match &row.shown {
            Json::Array(elements) => Json::Array(elements.iter().take(level).cloned().collect()),
            other => other.clone(),
        };
        (shown, self.collation.level_cut(&row.bytes, level).unwrap())
    }

    /// The groups of a range. A group of a key that was asked for by itself shows that key, others
    /// show their first row's.
    fn reduced(&self, rows: &[&Row], level: usize, asked: Option<&Json>) -> Vec<Json> {
        if level == 0 {
            let count = Json::from(rows.len() as i64);
            let whole = object([("key", Json::Null), ("value", count)]);
            return rows.first().map(|_| whole).into_iter().collect();
        }
        let groups = rows.chunk_by(|one, two| self.cut(one, level).1 == self.cut(two, level).1);
        let group = |rows: &[&Row]| {
            let count = Json::from(rows.len() as i64);
            let key = asked.cloned().unwrap_or_else(|| self.cut(rows[0], level).0);
            object([("key", key), ("value", count)])
        };
        groups.map(group).collect()
    }

    /// The body of the answer, `None` for a refusal.
    fn answer(&self, query: &Query) -> Option<Json> {
        let mut ranges = Vec::new();
        match query.get("keys") {
            Some(keys) => {
                let Json::Array(keys) = json(keys) else { panic!("keys are an array") };
                for one in keys {
                    let mut query = query.clone();
                    query.insert("key".into(), one.to_string());
                    ranges.push((self.range(&query)?, Some(one)));
                }
            }
            None => ranges.push((self.range(query)?, None)),
        }
        if flag(query, "reduce", true) {
            let whole = if flag(query, "group", false) { usize::MAX } else { 0 };
            let level = query.get("group_level").map_or(whole, |level| level.parse().unwrap());
            let rows = ranges
                .iter()
                .flat_map(|((rows, _), asked)| self.reduced(rows, level, asked.as_ref()));
            return Some(object([("rows", Json::Array(rows.collect()))]));
        }
        let offset = ranges.first().map_or(0, |((_, offset), _)| *offset);
        let row = |row: &&Row| {
            let id = Json::String(row.id.clone());
            object([("id", id), ("key", row.shown.clone()), ("value", Json::Null)])
        };
        let rows = ranges.iter().flat_map(|((rows, _), _)| rows.iter().map(row)).collect();
        Some(object([
            ("total_rows", Json::from(self.rows.len() as i64)),
            ("offset", Json::from(offset as i64)),
            ("rows", Json::Array(rows)),
        ]))
    }
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
}

fn flag(query: &Query, name: &str, otherwise: bool) -> bool {
    query.get(name).map_or(otherwise, |text| text == "true")
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

fn query_of(path: &str) -> (String, Query) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (name.to_owned(), percent_decoded(value)));
    (percent_decoded(path), query.collect())
}

/// A case as it is replayed: its documents, and its views by their path below the database.
#[derive(Default)]
struct Case {
    documents: Vec<(String, Json)>,
    views: BTreeMap<String, View>,
    /// The map function's text and the collation of each view, before the documents are there.
    maps: BTreeMap<String, (String, Collation)>,
}

impl Case {
    /// Takes what a PUT or POST writes.
    fn write(&mut self, path: &str, body: &str) {
        let Json::Object(members) = json(body) else { panic!("{path}: a body is an object") };
        let body = Json::Object(members);
        if let Some(Json::Object(views)) = body.member("views") {
            for (name, view) in views {
                let map = view.member("map").and_then(Json::as_str).unwrap().to_owned();
                let raw = view.member("options").and_then(|options| options.member("collation"));
                let raw = raw.and_then(Json::as_str) == Some("raw");
                let collation = if raw { Collation::Raw } else { Collation::Unicode };
                self.maps.insert(format!("{path}/_view/{name}"), (map, collation));
            }
        }
        match body.member("docs") {
            Some(Json::Array(documents)) => {
                for document in documents {
                    let id = document.member("_id").and_then(Json::as_str).unwrap();
                    self.documents.push((id.to_owned(), document.clone()));
                }
            }
            _ => self.documents.push((path.to_owned(), body)),
        }
    }

    fn view(&mut self, path: &str) -> &View {
        if !self.views.contains_key(path) {
            let (map, collation) = &self.maps[path];
            let view =
                View::new(*collation, self.documents.iter().flat_map(|row| emitted(map, row)));
            self.views.insert(path.to_owned(), view);
        }
        &self.views[path]
    }

    /// The ids of all documents, as `_all_docs` lists them: by their bytes.
    fn all_docs(&self, query: &Query) -> (Vec<String>, usize) {
        let mut ids: Vec<String> = self.documents.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        if flag(query, "descending", false) {
            ids.reverse();
        }
        let bound = |name: &str| query.get(name).or(query.get("key"));
        let bound = |name: &str| bound(name).map(|text| json(text).as_str().unwrap().to_owned());
        let inclusive = flag(query, "inclusive_end", true);
        let before = |id: &&String| bound("startkey").is_some_and(|start| **id < start);
        let within = |id: &&String| {
            bound("endkey").is_none_or(|end| **id < end || (inclusive && **id == end))
        };
        let offset = ids.iter().take_while(before).count();
        (ids.iter().skip(offset).take_while(within).cloned().collect(), offset)
    }
}

/// What the recorded map functions emit for a document.
fn emitted(map: &str, (id, document): &(String, Json)) -> Vec<(Json, String)> {
    let keys = match (map, document.member("k")) {
        (map, _) if map.contains("emit(1, doc._id)") && !id.starts_with("_design/") => {
            vec![Json::from(1)]
        }
        (map, Some(k)) if map.contains("emit([doc.k, 1], null); emit([0, doc.k], null)") => {
            let k = by_javascript(k.clone());
            let one = Json::Array(vec![k.clone(), Json::from(1)]);
            vec![one, Json::Array(vec![Json::from(0), k])]
        }
        (map, Some(k)) if map.contains("emit(doc.k, null)") => vec![by_javascript(k.clone())],
        _ => Vec::new(),
    };
    keys.into_iter().map(|key| (key, id.clone())).collect()
}

/// The ids of the rows in an answer, in order, with its offset.
fn listed(answer: &Json) -> (Vec<String>, usize) {
    let Some(Json::Array(rows)) = answer.member("rows") else { panic!("no rows: {answer}") };
    let id = |row: &Json| row.member("id").and_then(Json::as_str).unwrap().to_owned();
    let offset = answer.member("offset").unwrap().to_string().parse().unwrap();
    (rows.iter().map(id).collect(), offset)
}

fn replay(case: &Value) -> (usize, Vec<String>) {
    let (mut replayed, mut right, mut differences) = (Case::default(), 0, Vec::new());
    for step in case["steps"].as_array().unwrap() {
        let (path, query) = query_of(step["request"]["path"].as_str().unwrap());
        let path = path.trim_start_matches("/g1-collation").trim_start_matches('/');
        if step["request"]["method"] != "GET" {
            if let Some(body) = step["request"]["body"].as_str() {
                replayed.write(path, body);
            }
            continue;
        }
        let recorded = json(step["response"]["body"].as_str().unwrap());
        let refused = step["response"]["status"] == 400;
        let same = match path {
            "_all_docs" => listed(&recorded) == replayed.all_docs(&query),
            path if path.ends_with("/same") => {
                let (rows, offset) = replayed.view(path).range(&query).unwrap();
                let ids = rows.into_iter().map(|row| row.id.clone()).collect();
                listed(&recorded) == (ids, offset)
            }
            path => match replayed.view(path).answer(&query) {
                Some(answer) => !refused && answer == recorded,
                None => refused,
            },
        };
        match same {
            true => right += 1,
            false => differences.push(format!("{path} {query:?}")),
        }
    }
    (right, differences)
}

pub(crate) fn recorded_answers_are_given() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/1-collation.json");
    let recording: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = recording["cases"].as_array().unwrap();
    assert_eq!(cases.len(), ANSWERS.len());
    for (case, (name, expected)) in cases.iter().zip(ANSWERS) {
        assert_eq!(case["name"], name);
        let (right, differences) = replay(case);
        println!("1-collation.json, {name}: {right} of {expected} answers");
        assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
        assert_eq!(right, expected, "{name}");
    }
}

// case: B27. spec: COLLATE-1, COLLATE-2, COLLATE-3, COLLATE-4, COLLATE-5, COLLATE-7, COLLATE-8
#[test]
fn recorded_orders_ranges_and_groups_come_out_of_the_bytes() {
    recorded_answers_are_given();
}
