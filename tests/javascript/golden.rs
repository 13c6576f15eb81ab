//! What CouchDB 3.5.2 answered, mapped again: rows of every recorded map function, and which design
//! documents compile.
//!
//! The counts are committed, so no recording can fall silent.

use std::collections::BTreeMap;

use rereduce::Error;
use rereduce::view::design::DesignDoc;
use rereduce::view::functions::Language;
use rereduce::vocabulary::Json;
use serde_json::Value;

use super::support::{json, language, recorded};

/// Recordings; how many views were mapped, and how many design documents compiled or refused.
const RECORDINGS: [(&str, usize, usize); 7] = [
    ("2-reduce-dates", 4, 2),
    ("2-view-errors", 22, 66),
    ("2-view-incremental", 4, 1),
    ("2-view-params", 26, 4),
    ("5-error-places", 9, 9),
    ("7-libs", 24, 26),
    ("7-maps", 103, 138),
];

/// The recorded attachments, as map functions see them.
const STUBS: [&str; 2] = [
    r#"{"t.txt":{"content_type":"text/plain","revpos":1,"digest":"md5-iMaiC8wqiFlD2NjLTemvCQ==","length":5,"stub":true}}"#,
    r#"{"a.bin":{"content_type":"application/octet-stream","revpos":1,"digest":"md5-uV9n9h67A2GWIteY9F/C0w==","length":3,"stub":true}}"#,
];

/// One database at one moment of a recording.
#[derive(Default)]
struct State {
    /// Documents by id, as map functions see them, in the order of their last writes.
    documents: Vec<(String, Json)>,
    designs: BTreeMap<String, Json>,
    /// Whether a document may have conflicts, which only the database could tell.
    has_conflicts: bool,
}

impl State {
    fn write(&mut self, id: &str, rev: &str, body: &Json) {
        let Json::Object(members) = body else { panic!("{body}") };
        let mut seen =
            vec![("_id".to_owned(), Json::from(id)), ("_rev".to_owned(), Json::from(rev))];
        let own = members.iter().filter(|(name, _)| !name.starts_with('_'));
        seen.extend(own.cloned());
        if let Some(Json::Object(attachments)) = body.member("_attachments") {
            let name = &attachments[0].0;
            let stub = STUBS.into_iter().find(|stub| stub.contains(name)).unwrap();
            seen.push(("_attachments".to_owned(), json(stub)));
        }
        self.documents.retain(|(other, _)| other != id);
        self.designs.remove(id.trim_start_matches("_design/"));
        if body.member("_deleted") == Some(&Json::Bool(true)) {
            return;
        }
        match id.strip_prefix("_design/") {
            Some(name) => drop(self.designs.insert(name.to_owned(), body.clone())),
            None => self.documents.push((id.to_owned(), Json::Object(seen))),
        }
    }
}

/// Rows in any order, as one text each.
fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Whether the rows of a view are as recorded; `false` if this is for a query to answer.
fn check_view(state: &State, path: &str, step: &Value) -> bool {
    // Where CouchDB's engine died, ours need not.
    if step["crash"] == true {
        return false;
    }
    let response = &step["response"];
    let Some((design, view)) = path.split_once("/_view/") else { return false };
    let (view, query) = view.split_once('?').unwrap_or((view, ""));
    let Some(design) = state.designs.get(design) else { return false };
    let design = DesignDoc::parse(design).unwrap();
    let view = view.replace("%2F", "/").replace("%20", " ").replace("%C3%A9", "é");
    let Some(view) = design.view(&view).map(|number| &design.views[number]) else { return false };
    let body = response["body"].as_str().unwrap_or_default();
    let status = response["status"].as_u64().unwrap();
    let asks_for_more = state.has_conflicts
        || design.include_design
        || design.local_seq
        || status == 405
        || design.language != "javascript";
    let are_rows = match query {
        "" => view.reduce.is_none(),
        _ => query == "reduce=false",
    };
    if !are_rows || asks_for_more {
        return false;
    }
    let mut runner = language().start(&design.sources).unwrap();
    let mut rows = Vec::new();
    for (id, document) in &state.documents {
        match runner.map(document) {
            Ok(mut lists) => {
                let list = lists.swap_remove(view.map);
                rows.extend(list.iter().map(|(key, value)| format!("{id} {key} {value}")));
            }
            Err(error) => {
                assert_eq!(status, 500, "{path}: {error}");
                return true;
            }
        }
    }
    assert_eq!(status, 200, "{path}: {body}");
    let answer = json(body);
    let Some(Json::Array(expected)) = answer.member("rows") else { panic!("{path}: {body}") };
    let expected = expected.iter().map(|row| {
        let member = |name| row.member(name).unwrap();
        format!("{} {} {}", member("id").as_str().unwrap(), member("key"), member("value"))
    });
    assert_eq!(sorted(rows), sorted(expected.collect()), "{path}");
    true
}

/// Whether a design document's functions compile, as recorded.
fn check_design(path: &str, body: &Json, response: &Value) -> bool {
    let status = response["status"].as_u64().unwrap();
    let Ok(design) = DesignDoc::parse(body) else { return false };
    if design.language != "javascript" || !matches!(status, 201 | 400 | 404) {
        return false;
    }
    let answer = json(response["body"].as_str().unwrap());
    if answer.member("error") == Some(&Json::from("invalid_design_doc")) {
        return false;
    }
    match language().check(&design) {
        Ok(()) => assert_eq!(status, 201, "{path}: {answer}"),
        Err(Error::Function { name, reason }) => {
            assert_eq!(
                answer.member("error"),
                Some(&Json::from(name.as_str())),
                "{path}: {reason}"
            );
            // Behind this the engine's own words begin.
            let recorded = answer.member("reason").and_then(Json::as_str).unwrap();
            let own = recorded.find(" failed: ").map_or(recorded.len(), |at| at + 9);
            assert_eq!(reason.get(..own), recorded.get(..own), "{path}");
            if recorded.contains("Expression does not eval") {
                assert_eq!(reason, recorded, "{path}");
            }
        }
        Err(other) => panic!("{path}: {other}"),
    }
    true
}

fn replay(name: &str) -> (usize, usize) {
    let recording: Value =
        serde_json::from_str(&recorded::data(&format!("golden/{name}.json"))).unwrap();
    let (mut views, mut designs) = (0, 0);
    for case in recording["cases"].as_array().unwrap() {
        let mut state = State::default();
        for step in case["steps"].as_array().unwrap() {
            let (request, response) = (&step["request"], &step["response"]);
            let path = request["path"].as_str().unwrap();
            let inside = path.trim_start_matches('/').split_once('/').map_or("", |(_, rest)| rest);
            let id = inside.split('?').next().unwrap_or_default();
            let body = request["body"].as_str().and_then(|body| Json::parse(body.as_bytes()).ok());
            let answer = response["body"].as_str();
            let answer = answer.and_then(|body| Json::parse(body.as_bytes()).ok());
            match (request["method"].as_str().unwrap(), body) {
                ("PUT", Some(body)) if !inside.is_empty() => {
                    if inside.starts_with("_design/") && inside.matches('/').count() == 1 {
                        designs += usize::from(check_design(path, &body, response));
                    }
                    let rev = answer.as_ref().and_then(|answer| answer.member("rev"));
                    state.has_conflicts |= inside.contains("new_edits=false");
                    if let Some(rev) = rev.and_then(Json::as_str) {
                        state.write(id, rev, &body);
                    }
                }
                ("POST", Some(body)) if inside == "_bulk_docs" => {
                    let Some(Json::Array(documents)) = body.member("docs") else { continue };
                    let Some(Json::Array(answers)) = &answer else { continue };
                    for (document, answer) in documents.iter().zip(answers) {
                        let member = |name| answer.member(name).and_then(Json::as_str);
                        if let (Some(id), Some(rev)) = (member("id"), member("rev")) {
                            state.write(id, rev, document);
                        }
                    }
                }
                ("DELETE", _) => {
                    state.write(id, "", &json(r#"{"_deleted":true}"#));
                }
                ("GET", _) => {
                    if let Some(view) = inside.strip_prefix("_design/") {
                        views += usize::from(check_view(&state, view, step));
                    }
                }
                _ => {}
            }
        }
    }
    (views, designs)
}

// spec: JS-1, JS-2, JS-3, JS-4, JS-5, JS-6, JS-7, JS-11
#[test]
fn every_recorded_map_function_gives_the_recorded_rows() {
    let found = RECORDINGS.map(|(name, _, _)| {
        let (views, designs) = replay(name);
        (name, views, designs)
    });
    assert_eq!(found, RECORDINGS);
}
