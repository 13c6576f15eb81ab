//! What CouchDB 3.5.2 answered, to the character: rows are made again from the recorded documents,
//! grouped naively, and reduced by the built-ins.
//!
//! The counts are committed, so no recording can fall silent. Left out are functions in JavaScript,
//! refusals, and parameters that a query, not a reducer, answers to (`NOT_HERE`).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rereduce::Error;
use rereduce::view::limit::ReduceLimit;
use rereduce::view::row::ViewRow;
use rereduce::vocabulary::{Json, Number};
use rereduce_model::compare_unicode;
use serde_json::Value;

use super::support::{Stored, borrowed, json, limited, reduce, reducer, rereduce};

/// Recordings, and how many of their answers are checked.
pub(crate) const RECORDINGS: [(&str, usize); 10] = [
    ("2-reduce-dates", 235),
    ("2-reduce-large", 108),
    ("2-reduce-random-1", 206),
    ("2-reduce-random-2", 120),
    ("2-reduce-random-3", 39),
    ("2-view-errors", 54),
    ("2-view-incremental", 63),
    ("5-error-places", 27),
    ("5-kinds", 40),
    ("5-ranked", 48),
];

const NOT_HERE: [&str; 8] = [
    "reduce",
    "startkey_docid",
    "endkey_docid",
    "update",
    "stale",
    "update_seq",
    "sorted",
    "include_docs",
];

/// Views whose sums are over the limit: their groups are reduced in one piece and under the limit.
const OVER_LIMIT: &str = "overflowsum";

type Emit<'a> = &'a mut dyn FnMut(Json, Json);

/// What a recorded map function does, by its source.
fn map(source: &str, doc: &Json, emit: Emit<'_>) -> bool {
    let member = |name: &str| doc.member(name).cloned().unwrap_or(Json::Null);
    let object = |members: &[(&str, Json)]| {
        Json::Object(
            members.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
        )
    };
    let number = |name: &str| match member(name) {
        Json::Number(number) => Json::Number(number).to_string().parse::<f64>().unwrap(),
        other => panic!("{name} is {other}"),
    };
    let odd = || number("n") % 2.0 != 0.0;
    let body = source.trim_start_matches("function(doc) { ").trim_end_matches(" }");
    match body {
        "emit(doc.at, doc.n);" => emit(member("at"), member("n")),
        "emit(doc.k, doc.n);" => emit(member("k"), member("n")),
        "emit(doc.k, doc.arr);" => emit(member("k"), member("arr")),
        "emit(doc.k, doc.obj);" => emit(member("k"), member("obj")),
        "emit(doc.k, [doc.n, 1]);" => emit(member("k"), Json::Array(vec![member("n"), json("1")])),
        "emit(doc.k, {sum: doc.n, count: 1, min: doc.n, max: doc.n, sumsqr: doc.n * doc.n});" => {
            let (n, square) = (member("n"), Json::from(number("n") * number("n")));
            let members =
                [("sum", &n), ("count", &json("1")), ("min", &n), ("max", &n), ("sumsqr", &square)];
            emit(member("k"), object(&members.map(|(name, value)| (name, value.clone()))));
        }
        "emit(doc.k, null);" => emit(member("k"), Json::Null),
        "emit(doc.k, doc.v);" => emit(member("k"), member("v")),
        "emit(doc.k, 1);" => emit(member("k"), json("1")),
        "emit(doc._id, doc.v);" => emit(member("_id"), member("v")),
        "emit(doc._id, 1);" => emit(member("_id"), json("1")),
        "emit(doc.n, doc.s);" => emit(member("n"), member("s")),
        "emit(doc.n, doc.n);" => emit(member("n"), member("n")),
        "emit(doc.n, null);" => emit(member("n"), Json::Null),
        "emit(doc.n, true);" => emit(member("n"), Json::Bool(true)),
        "emit(doc.n, 1);" => emit(member("n"), json("1")),
        "emit(doc.n, 2);" => emit(member("n"), json("2")),
        "emit(doc.n, [doc.n, 'x']);" => {
            emit(member("n"), Json::Array(vec![member("n"), Json::from("x")]));
        }
        "emit(doc.n, {a: 'x'});" => emit(member("n"), json(r#"{"a":"x"}"#)),
        "emit(doc.n, {a: null});" => emit(member("n"), json(r#"{"a":null}"#)),
        "emit(doc.n, doc.n % 2 ? [1, 2] : 3);" => {
            emit(member("n"), json(if odd() { "[1,2]" } else { "3" }));
        }
        "emit(doc.n, {sum: 1, count: 1, min: 1});" => {
            emit(member("n"), json(r#"{"sum":1,"count":1,"min":1}"#));
        }
        "emit(doc.n, {sum: 1, count: 1, min: 1, max: 'x', sumsqr: 1});" => {
            emit(member("n"), json(r#"{"sum":1,"count":1,"min":1,"max":"x","sumsqr":1}"#));
        }
        "var o = {}; for (var i = 0; i < 400; i++) o[doc._id + '-member-' + i] = 1; emit(doc.n, o);" =>
        {
            let id = member("_id");
            let name = |index| format!("{}-member-{index}", id.as_str().unwrap());
            let members = (0..400).map(|index| (name(index), json("1"))).collect();
            emit(member("n"), Json::Object(members));
        }
        "(doc.ks || []).forEach(function(k, i) { emit(k, i); });" => {
            if let Json::Array(keys) = member("ks") {
                keys.into_iter().zip(0..).for_each(|(key, index)| emit(key, Json::from(index)));
            }
        }
        "if (doc.n !== undefined) emit([doc.g, doc.n % 3], doc.n);" => {
            if doc.member("n").is_some() {
                let key = vec![member("g"), Json::from(number("n") % 3.0)];
                emit(Json::Array(key), member("n"));
            }
        }
        "" | "}" | "function(doc) {" => {}
        _ => match source {
            "function(d) { emit([d.a, d.b, d.c], d.n); }" => {
                emit(Json::Array(vec![member("a"), member("b"), member("c")]), member("n"));
            }
            "function(d) { emit(d.n, 1); emit(String(d.c), 1); }" => {
                emit(member("n"), json("1"));
                emit(Json::from(member("c").to_string().as_str()), json("1"));
            }
            _ => return false,
        },
    }
    true
}

/// A value as JavaScript hands it on: numbers are doubles, and whole ones are written as integers.
fn from_javascript(json: &Json) -> Json {
    match json {
        Json::Number(number) => {
            let value: f64 = Json::Number(number.clone()).to_string().parse().unwrap();
            match value.fract() == 0.0 && value.abs() < 1e21 {
                true => self::json(&format!("{}", value + 0.0)),
                false => Json::Number(Number::Float(value)),
            }
        }
        Json::Array(items) => Json::Array(items.iter().map(from_javascript).collect()),
        Json::Object(members) => {
            let member = |(name, value): &(String, Json)| (name.clone(), from_javascript(value));
            Json::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// A database and its views, as far as the recordings have told.
#[derive(Default)]
struct Recorded {
    /// The leaves of each document: a revision, and the body unless it is a deletion.
    docs: BTreeMap<String, Vec<(String, Option<Json>)>>,
    /// Map and reduce of `_design/DDOC/_view/NAME`.
    views: BTreeMap<String, (String, String)>,
}

/// The leaf that all see: a live one, of the highest generation, of the greatest id.
fn winner(leaves: &[(String, Option<Json>)]) -> Option<&(String, Option<Json>)> {
    leaves.iter().max_by_key(|(rev, doc)| {
        let (generation, id) = rev.split_once('-').unwrap_or((rev, ""));
        (doc.is_some(), generation.parse::<u64>().unwrap_or(0), id.to_owned())
    })
}

/// A row: its key, and its stored bytes.
type Emitted = (Json, Stored);

impl Recorded {
    /// Takes in an edit that became `rev`, in the place of `parent` or of the winner; a revision
    /// that was made elsewhere stands beside the others.
    fn write(&mut self, id: &str, doc: Json, rev: &str, parent: Option<&str>, elsewhere: bool) {
        if let (Some(ddoc), Some(Json::Object(views))) =
            (id.strip_prefix("_design/"), doc.member("views"))
        {
            for (name, view) in views {
                let text = |name| view.member(name).and_then(Json::as_str).unwrap_or("").to_owned();
                let path = format!("_design/{ddoc}/_view/{name}");
                self.views.insert(path, (text("map"), text("reduce")));
            }
            return;
        }
        let leaves = self.docs.entry(id.to_owned()).or_default();
        let winner = winner(leaves).map(|leaf| leaf.0.clone());
        let known = |rev: &&str| leaves.iter().any(|leaf| leaf.0 == **rev);
        let replaced = parent.filter(known).map(str::to_owned).or(winner);
        if !elsewhere {
            leaves.retain(|leaf| Some(&leaf.0) != replaced.as_ref());
        }
        let deleted = doc.member("_deleted") == Some(&Json::Bool(true));
        leaves.push((rev.to_owned(), (!deleted).then_some(doc)));
    }

    /// The rows of a view in ascending order, or `None` if its map function is not in the table.
    fn rows(&self, source: &str) -> Option<Vec<Emitted>> {
        let mut rows: Vec<(Json, &str, usize, Json)> = Vec::new();
        for (id, leaves) in &self.docs {
            let Some((_, Some(doc))) = winner(leaves) else { continue };
            let mut number = 0;
            let known = map(source, doc, &mut |key, value| {
                rows.push((from_javascript(&key), id, number, from_javascript(&value)));
                number += 1;
            });
            if !known {
                return None;
            }
        }
        rows.sort_by(|one, two| {
            compare_unicode(&one.0, &two.0).then_with(|| (one.1, one.2).cmp(&(two.1, two.2)))
        });
        let stored = |(index, (key, _, _, value)): (usize, (Json, &str, usize, Json))| {
            let bytes = ViewRow::encode(&key, &value);
            (key, (index.to_be_bytes().to_vec(), bytes))
        };
        Some(rows.into_iter().enumerate().map(stored).collect())
    }
}

/// The parameters of a query that matter here.
struct Query {
    parameters: BTreeMap<String, String>,
}

impl Query {
    fn parse(query: &str) -> Query {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), unescaped(value))
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Query { parameters: pairs.map(pair).collect() }
    }

    fn get(&self, names: &[&str]) -> Option<Json> {
        names.iter().find_map(|name| self.parameters.get(*name)).map(|text| json(text))
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.parameters.get(name).is_some_and(|found| found == value)
    }

    fn count(&self, name: &str, default: usize) -> usize {
        self.parameters.get(name).map_or(default, |value| value.parse().unwrap())
    }

    /// The groups of the answer, each with the key that it shows and its rows in ascending order.
    fn groups<'a>(&self, rows: &'a [Emitted]) -> Vec<(Json, Vec<&'a Emitted>)> {
        let whole = if self.is("group", "true") { usize::MAX } else { 0 };
        let level = self.count("group_level", whole);
        let descending = self.is("descending", "true");
        let mut key = self.get(&["key"]);
        if let Some(Json::Array(keys)) = self.get(&["keys"]) {
            // A list of one key is that key.
            if let [only] = &keys[..] {
                key = Some(only.clone());
            } else {
                let group = |key: &Json| {
                    let rows: Vec<_> =
                        rows.iter().filter(|row| compare_unicode(&row.0, key).is_eq()).collect();
                    rows.first().map(|row| row.0.clone()).map(|key| (key, rows))
                };
                return keys.iter().filter_map(group).collect();
            }
        }
        let (mut low, mut high) =
            (self.get(&["startkey", "start_key"]), self.get(&["endkey", "end_key"]));
        let end_is_in = !self.is("inclusive_end", "false");
        if descending {
            std::mem::swap(&mut low, &mut high);
        }
        if let Some(key) = key {
            (low, high) = (Some(key.clone()), Some(key));
        }
        let inside = |row: &&Emitted| {
            let above = low.as_ref().map_or(Ordering::Greater, |low| compare_unicode(&row.0, low));
            let below = high.as_ref().map_or(Ordering::Less, |high| compare_unicode(&row.0, high));
            let at_end = if descending { above } else { below };
            above.is_ge() && below.is_le() && (end_is_in || at_end.is_ne())
        };
        let mut chosen: Vec<&Emitted> = rows.iter().filter(inside).collect();
        if descending {
            chosen.reverse();
        }
        let mut groups: Vec<(Json, Vec<&Emitted>)> = Vec::new();
        for row in chosen {
            let key = cut(&row.0, level);
            match groups.last_mut() {
                Some((group, rows)) if compare_unicode(group, &key).is_eq() => rows.push(row),
                _ => groups.push((key, vec![row])),
            }
        }
        if descending {
            groups.iter_mut().for_each(|(_, rows)| rows.reverse());
        }
        groups
    }
}

fn cut(key: &Json, level: usize) -> Json {
    match (key, level) {
        (_, 0) => Json::Null,
        (Json::Array(items), level) => Json::Array(items.iter().take(level).cloned().collect()),
        (key, _) => key.clone(),
    }
}

fn unescaped(text: &str) -> String {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(if byte == b'+' { b' ' } else { byte });
            continue;
        }
        let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The reduction of a group: in one piece, and as every other bracketing must give it.
fn reduced(name: &str, view: &str, rows: &[&Emitted]) -> rereduce::Result<Json> {
    let stored: Vec<Stored> = rows.iter().map(|row| row.1.clone()).collect();
    let rows = borrowed(&stored);
    if view.contains(OVER_LIMIT) {
        let limited = limited(name, ReduceLimit::Error);
        return limited.show(&reduce(&limited, &rows)?);
    }
    let reducer = reducer(name);
    let whole = reduce(&reducer, &rows)?;
    for size in [1, 7, 40] {
        let parts = rows.chunks(size).map(|rows| reduce(&reducer, rows));
        let parts = parts.collect::<rereduce::Result<Vec<_>>>()?;
        assert_eq!(rereduce(&reducer, &parts)?, whole, "{name} of {view} in parts of {size}");
    }
    reducer.show(&whole)
}

/// Takes the reasons out of shown errors, where they hold sizes.
fn without_reasons(body: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    for row in value["rows"].as_array_mut().into_iter().flatten() {
        row["value"].as_object_mut().map(|value| value.remove("reason"));
    }
    value.to_string()
}

/// Replays one recording: how many answers were compared, and what differed.
pub(crate) fn replay(name: &str) -> (usize, Vec<String>) {
    let root = env!("CARGO_MANIFEST_DIR").trim_end_matches("crash-sim");
    let path = format!("{root}/tests/data/golden/{name}.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for case in file["cases"].as_array().unwrap() {
        let mut database = Recorded::default();
        for step in case["steps"].as_array().unwrap() {
            if step["crash"] == Value::Bool(true) {
                continue;
            }
            if let Some(difference) = database.step(step) {
                compared += 1;
                wrong.extend(difference.err());
            }
        }
    }
    (compared, wrong)
}

impl Recorded {
    /// Takes a step in; `None` if it asks nothing that is checked here.
    fn step(&mut self, step: &Value) -> Option<Result<(), String>> {
        let (request, response) = (&step["request"], &step["response"]);
        let path = request["path"].as_str()?;
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (_, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or((path, ""));
        let text = request["body"].as_str().unwrap_or("");
        let status = response["status"].as_u64()?;
        match request["method"].as_str()? {
            "PUT" if rest.is_empty() => *self = Recorded::default(),
            "POST" if rest == "_bulk_docs" => {
                let body = json(text);
                let Some(Json::Array(docs)) = body.member("docs") else { return None };
                let answer: Value = serde_json::from_str(response["body"].as_str()?).ok()?;
                for (doc, answer) in docs.iter().zip(answer.as_array()?) {
                    let id = doc.member("_id")?.as_str()?;
                    let parent = doc.member("_rev").and_then(Json::as_str);
                    if let Some(rev) = answer["rev"].as_str() {
                        self.write(id, doc.clone(), rev, parent, false);
                    }
                }
            }
            method @ ("PUT" | "DELETE") if status < 300 => {
                let members = match method {
                    "PUT" => json(text),
                    _ => json(r#"{"_deleted":true}"#),
                };
                let Json::Object(mut members) = members else { return None };
                let id = unescaped(rest);
                members.retain(|(name, _)| name != "_id");
                members.push(("_id".to_owned(), Json::from(id.as_str())));
                let doc = Json::Object(members);
                let query = Query::parse(query);
                let parent = doc.member("_rev").and_then(Json::as_str).map(str::to_owned);
                let parent = query.parameters.get("rev").cloned().or(parent);
                let answer: Value = serde_json::from_str(response["body"].as_str()?).ok()?;
                let rev = answer["rev"].as_str()?;
                self.write(&id, doc, rev, parent.as_deref(), query.is("new_edits", "false"));
            }
            method @ ("GET" | "POST") if rest.contains("/_view/") => {
                let mut query = Query::parse(query);
                if method == "POST" {
                    let keys = json(text).member("keys")?.to_string();
                    query.parameters.insert("keys".to_owned(), keys);
                }
                return self.answer(rest, &query, step);
            }
            _ => {}
        }
        None
    }

    fn answer(&self, view: &str, query: &Query, step: &Value) -> Option<Result<(), String>> {
        let (map, name) = self.views.get(view)?;
        if !name.starts_with('_')
            || NOT_HERE.iter().any(|name| query.parameters.contains_key(*name))
        {
            return None;
        }
        let rows = self.rows(map)?;
        let response = &step["response"];
        if response["status"] == 500 {
            let all: Vec<&Emitted> = rows.iter().collect();
            return match reduced(name, view, &all) {
                Err(Error::InvalidValue { .. }) => Some(Ok(())),
                // Another view of the same design document failed.
                _ => None,
            };
        }
        if response["status"] != 200 {
            return None;
        }
        let mut shown: Vec<String> = Vec::new();
        for (key, rows) in query.groups(&rows) {
            match reduced(name, view, &rows) {
                Ok(value) => shown.push(format!("{{\"key\":{key},\"value\":{value}}}")),
                Err(error) => return Some(Err(format!("{view}: {error}"))),
            }
        }
        let (skip, limit) = (query.count("skip", 0), query.count("limit", usize::MAX));
        let shown: Vec<String> = shown.into_iter().skip(skip).take(limit).collect();
        let mut got = format!("{{\"rows\":[\r\n{}\r\n]}}\n", shown.join(",\r\n"));
        let mut recorded = response["body"].as_str()?.to_owned();
        if step["volatile"].to_string().contains("reason") {
            (got, recorded) = (without_reasons(&got), without_reasons(&recorded));
        }
        Some(match got == recorded {
            true => Ok(()),
            false => Err(format!("{}\n  {recorded}\n  {got}", step["request"]["path"])),
        })
    }
}

// spec: REDUCE-2, REDUCE-3, REDUCE-5, REDUCE-6, REDUCE-7, REDUCE-8, REDUCE-9, REDUCE-10, REDUCE-11
#[test]
fn recorded_reductions_are_answered_to_the_character() {
    every_recorded_reduction_is_answered(&RECORDINGS);
}

pub(crate) fn every_recorded_reduction_is_answered(recordings: &[(&'static str, usize)]) {
    let mut answered = Vec::new();
    for (name, _) in recordings {
        let (compared, wrong) = replay(name);
        println!("{name}: {} of {compared}", compared - wrong.len());
        assert!(wrong.is_empty(), "{name}: {} differ, such as {}", wrong.len(), wrong[0]);
        answered.push((*name, compared - wrong.len()));
    }
    assert_eq!(answered, recordings);
}
