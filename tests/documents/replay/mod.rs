//! Recorded requests, put to a [`Database`], and what differs from the recorded answers.
//!
//! ```text
//!   recorded request ──► Request ──► calls of Database and DbSnapshot ──► Answer
//!                                                                          ║ equal?
//!   recorded answer ──────────────────────────────────────────────────► Answer
//! ```
//!
//! Compared is what the database decides: statuses, documents, revisions, sequences, counts. A
//! request that only HTTP understands (filters, view queries, its own refusals) is passed over, and
//! counted.

mod answer;
mod list;
mod read;
mod request;
mod write;

use std::path::Path;

use rereduce::db::{Database, DatabaseOptions};
use rereduce::env::Env;
use rereduce::vocabulary::Json;
use serde_json::Value;

use answer::{Answer, Body};
use request::{Request, bytes_of};

/// How a replay went.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Answers that equal the recorded ones.
    pub(crate) answers: usize,
    /// Revision ids in them that were computed here.
    pub(crate) revs: usize,
    /// Requests that are not the database's.
    pub(crate) passed_over: usize,
    /// What differed, in words.
    pub(crate) differences: Vec<String>,
}

/// Replays all cases of a recording, each with a new database, which must be sound at its end.
pub(crate) fn replay(file: &str) -> Tally {
    // crash-sim reads this too, and its own folder lies below the one of the tests.
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let path = folders.map(|folder| folder.join("tests/data").join(file)).find(|it| it.exists());
    let path = path.unwrap();
    let recording: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut tally = Tally::default();
    for case in recording["cases"].as_array().unwrap() {
        let db = Database::open(Env::memory(), "db".as_ref(), options()).unwrap();
        for step in case["steps"].as_array().unwrap() {
            replay_step(&db, step, &mut tally);
        }
        let checked = db.snapshot().unwrap().check().unwrap();
        assert!(checked.is_sound(), "{file}, {}: {:?}", case["name"], checked.violations);
    }
    tally
}

/// Small nodes and chunks, so that trees have inner nodes and attachments several chunks.
fn options() -> DatabaseOptions {
    let mut options = DatabaseOptions { attachment_chunk_bytes: 64, ..DatabaseOptions::default() };
    options.tree.fan_out_max = 4;
    options
}

fn replay_step(db: &Database, step: &Value, tally: &mut Tally) {
    let request = Request::of(&step["request"]);
    let recorded = &step["response"];
    let status = recorded["status"].as_u64().unwrap() as u16;
    let crashed = step.get("crash").is_some() || status == 500;
    let known = Json::parse(&bytes_of(recorded)).ok();
    let answered = if crashed { None } else { answer(db, &request, known.as_ref()) };
    let Some(got) = answered else {
        tally.passed_over += 1;
        return;
    };
    let want = match &got.body {
        Body::Bytes(_) => Answer { status, body: Body::Bytes(bytes_of(recorded)) },
        Body::Json(_) => answer::json(status, known.unwrap_or(Json::Null)),
    };
    let same = match &got.body {
        _ if status == 400 => got.status == 400,
        // Documents and their like are the very same text.
        Body::Json(json) if !request.path.contains("/_") && !is_info(json) => {
            let text = String::from_utf8(bytes_of(recorded)).unwrap();
            got.status == status && json.to_string() == text.trim_end()
        }
        _ => compared(&got) == compared(&want),
    };
    if same {
        tally.answers += 1;
        tally.revs += computed_revs(&request, &got);
    } else {
        let (got, want) = (compared(&got), compared(&want));
        let asked = format!("{} {}", request.method, request.path);
        let body = String::from_utf8_lossy(&request.body).into_owned();
        tally.differences.push(format!("{asked} {body}\n  want {want}\n  got  {got}"));
    }
}

/// What a database says about itself, of which only the counts are compared.
fn is_info(json: &Json) -> bool {
    json.member("doc_count").is_some()
}

/// How many revisions an answer to an edit names.
fn computed_revs(request: &Request, answer: &Answer) -> usize {
    let replicated = request.query("new_edits").is_some()
        || request.json().is_ok_and(|body| body.member("new_edits").is_some());
    let names_rev = |row: &Json| usize::from(row.member("rev").is_some());
    match &answer.body {
        _ if request.method == "GET" || replicated => 0,
        Body::Json(Json::Array(rows)) => rows.iter().map(names_rev).sum(),
        Body::Json(json) => names_rev(json),
        Body::Bytes(_) => 0,
    }
}

/// An answer as text: members that come in no order sorted, of sequences only the number.
fn compared(answer: &Answer) -> String {
    let status = answer.status;
    match &answer.body {
        Body::Bytes(bytes) => format!("{status} {}", bytes.escape_ascii()),
        Body::Json(json) if is_info(json) => {
            // Of what a database says about itself, the counts.
            let counts = ["doc_count", "doc_del_count", "update_seq", "purge_seq"];
            let value = |name| numbered(answer.member(name).unwrap_or(&Json::Null));
            format!("{status} {:?}", counts.map(|name| value(name).to_string()))
        }
        Body::Json(json) => format!("{status} {}", ordered(json)),
    }
}

impl Answer {
    fn member(&self, name: &str) -> Option<&Json> {
        match &self.body {
            Body::Json(json) => json.member(name),
            Body::Bytes(_) => None,
        }
    }
}

/// Maps from document ids come in no order.
fn ordered(json: &Json) -> Json {
    match json {
        Json::Object(members) => {
            let member = |(name, value): &(String, Json)| {
                let value = match name.as_str() {
                    "seq" | "last_seq" | "update_seq" => numbered(value),
                    _ => ordered(value),
                };
                (name.clone(), value)
            };
            let mut members: Vec<(String, Json)> = members.iter().map(member).collect();
            let by_id = members.iter().all(|(_, value)| {
                matches!(value, Json::Array(_)) || value.member("missing").is_some()
            });
            if by_id {
                members.sort_by(|one, other| one.0.cmp(&other.0));
            }
            Json::Object(members)
        }
        Json::Array(items) => Json::Array(items.iter().map(ordered).collect()),
        other => other.clone(),
    }
}

/// The number in front of a sequence's dash.
fn numbered(seq: &Json) -> Json {
    let text = seq.to_string();
    let digits = text.chars().filter(|c| *c != '"').take_while(char::is_ascii_digit);
    Json::String(digits.collect())
}

/// The database's answer, or `None` for a request that is none of its business. Ids that the
/// recorded server invented are taken from what it answered.
fn answer(db: &Database, request: &Request, known: Option<&Json>) -> Option<Answer> {
    let parts: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    let answered = match (request.method.as_str(), parts.as_slice()) {
        ("PUT", [_]) => return None,
        ("GET", [_]) => Ok(read::info(db)),
        ("POST", [_]) => write::post(db, request, known),
        ("PUT", [_, limit @ ("_revs_limit" | "_purged_infos_limit")]) => {
            write::limit(db, limit, request)
        }
        ("GET", [_, limit @ ("_revs_limit" | "_purged_infos_limit")]) => Ok(read::limit(db, limit)),
        ("POST", [_, "_bulk_docs"]) => write::bulk_docs(db, request, known),
        ("POST", [_, "_purge"]) => write::purge(db, request),
        ("POST", [_, "_compact"]) => write::compact(db),
        ("GET", [_, "_purged_infos"]) => Ok(read::purged_infos(db)),
        ("POST", [_, "_bulk_get"]) => return read::bulk_get(db, request),
        ("POST", [_, "_revs_diff"]) => read::revs_diff(db, request, true),
        ("POST", [_, "_missing_revs"]) => read::revs_diff(db, request, false),
        ("GET", [_, "_changes"]) => return read::changes(db, request),
        ("GET", [_, list @ ("_all_docs" | "_design_docs")]) => {
            return list::all_docs(db, request, *list == "_design_docs");
        }
        ("POST", [_, "_all_docs"]) => return list::some_docs(db, request),
        ("GET", [_, "_local_docs"]) => return list::local_docs(db, request),
        (_, [_, special, ..])
            if special.starts_with('_')
                && !special.starts_with("_design/")
                && !special.starts_with("_local/") =>
        {
            return None;
        }
        ("PUT", [_, id]) => write::put(db, &id.parse().ok()?, request),
        ("DELETE", [_, id]) => write::delete(db, &id.parse().ok()?, request),
        ("COPY", [_, id]) => write::copy(db, id, request),
        ("GET", [_, id]) => read::document(db, id, request),
        ("PUT" | "DELETE", [_, id, name @ ..]) if !id.starts_with("_local/") => {
            write::edit_attachment(db, &id.parse().ok()?, &name.join("/"), request)
        }
        ("GET", [_, id, name @ ..]) => read::attachment(db, id, &name.join("/"), request),
        _ => return None,
    };
    Some(answered.unwrap_or_else(|refused| refused))
}
