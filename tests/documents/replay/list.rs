//! Requests that list documents in the order of their ids.

use std::ops::{Bound, ControlFlow};

use rereduce::db::{Database, DbSnapshot, DocSummary, LocalDocument};
use rereduce::vocabulary::{Direction, Json, KeyRange};

use super::answer::{Answer, json, object, rev_json};
use super::read::{local_members, shown};
use super::request::Request;

/// A key of the listing; `None` if it is no string, which only HTTP can order.
fn key(request: &Request, names: [&str; 2]) -> Option<Option<Vec<u8>>> {
    match request.query(names[0]).or(request.query(names[1])) {
        None => Some(None),
        Some(text) => {
            let key = Json::parse(text.as_bytes()).ok()?;
            Some(Some(key.as_str()?.as_bytes().to_vec()))
        }
    }
}

pub(super) fn all_docs(db: &Database, request: &Request, design: bool) -> Option<Answer> {
    let snapshot = db.snapshot().unwrap();
    if let Some(keys) = request.query("keys") {
        let keys = Json::parse(keys.as_bytes()).ok().filter(|_| !design);
        let Some(Json::Array(keys)) = keys else { return None };
        return Some(listed_keys(&snapshot, keys, request));
    }
    let descending = request.is("descending");
    let one = key(request, ["key", "key"])?;
    let (mut start, mut end) =
        (key(request, ["startkey", "start_key"])?, key(request, ["endkey", "end_key"])?);
    if one.is_some() {
        (start, end) = (one.clone(), one);
    }
    if descending {
        (start, end) = (end, start);
    }
    let excluded = request.query("inclusive_end") == Some("false");
    let whole: KeyRange = match design {
        true => KeyRange {
            start: Bound::Included(b"_design/".to_vec()),
            end: Bound::Excluded(b"_design0".to_vec()),
        },
        false => KeyRange::all(),
    };
    let start = start.map_or(whole.start.clone(), Bound::Included);
    let end = match end {
        Some(end) if !design || end.starts_with(b"_design/") => match excluded {
            true => Bound::Excluded(end),
            false => Bound::Included(end),
        },
        _ => whole.end.clone(),
    };
    let range = KeyRange { start: start.clone(), end: end.clone() };
    let (direction, outside) = match descending {
        true => (Direction::Descending, KeyRange { start: behind(end), end: whole.end.clone() }),
        false => {
            (Direction::Ascending, KeyRange { start: whole.start.clone(), end: before(start) })
        }
    };
    let live = |range: &KeyRange| snapshot.count_docs(range).unwrap().live;
    let outside = match &outside {
        KeyRange { start: Bound::Unbounded, .. } if descending => 0,
        KeyRange { end: Bound::Unbounded, .. } if !descending => 0,
        outside => live(outside),
    };
    let skip = request.number("skip").unwrap_or(0);
    let limit = request.number("limit").unwrap_or(u64::MAX);
    let (mut rows, mut skipped) = (Vec::new(), 0);
    let visit = &mut |summary: DocSummary| {
        if rows.len() as u64 >= limit {
            return ControlFlow::Break(());
        }
        if !summary.deleted && skipped < skip {
            skipped += 1;
        } else if !summary.deleted {
            rows.push(row(&snapshot, &summary, request));
        }
        ControlFlow::Continue(())
    };
    snapshot.all_docs(&range, direction, visit).unwrap();
    let total = ("total_rows", Json::unsigned(live(&whole)));
    let offset = ("offset", Json::unsigned(outside + skipped));
    let rows = ("rows", Json::Array(rows));
    let update_seq = ("update_seq", Json::unsigned(snapshot.info().update_seq));
    // For design documents CouchDB's offset is always their number.
    let listing = match (request.is("update_seq"), design) {
        (true, _) => object([total, offset, update_seq, rows]),
        (false, true) => object([total, rows]),
        (false, false) => object([total, offset, rows]),
    };
    Some(json(200, listing))
}

/// Everything before the beginning of a range.
fn before(start: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match start {
        Bound::Included(key) => Bound::Excluded(key),
        Bound::Excluded(key) => Bound::Included(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Everything behind the end of a range.
fn behind(end: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    before(end)
}

/// Local documents, if all are asked for.
pub(super) fn local_docs(db: &Database, request: &Request) -> Option<Answer> {
    if !["/_local_docs", "/_local_docs?include_docs=true"]
        .iter()
        .any(|path| request.path.ends_with(path))
    {
        return None;
    }
    let mut rows = Vec::new();
    let visit = &mut |local| {
        rows.push(local_row(&local, request));
        ControlFlow::Continue(())
    };
    db.snapshot().unwrap().locals(visit).unwrap();
    let members = [("total_rows", Json::Null), ("offset", Json::Null), ("rows", Json::Array(rows))];
    Some(json(200, object(members)))
}

fn local_row(local: &LocalDocument, request: &Request) -> Json {
    let id = Json::from(local.id.as_str());
    let value = object([("rev", rev_json(&local.rev()))]);
    let members = [("id", id.clone()), ("key", id), ("value", value)];
    let Json::Object(mut members) = object(members) else { unreachable!() };
    if request.is("include_docs") {
        members.push(("doc".to_string(), Json::Object(local_members(local))));
    }
    Json::Object(members)
}

/// A list of keys in the body; `None` if it says anything else.
pub(super) fn some_docs(db: &Database, request: &Request) -> Option<Answer> {
    match request.json().ok()? {
        Json::Object(members) => match members.as_slice() {
            [(name, Json::Array(keys))] if name == "keys" => {
                Some(listed_keys(&db.snapshot().unwrap(), keys.clone(), request))
            }
            _ => None,
        },
        _ => None,
    }
}

fn row(snapshot: &DbSnapshot, summary: &DocSummary, request: &Request) -> Json {
    let id = Json::from(summary.id.as_str());
    let mut value = vec![("rev".to_string(), rev_json(&summary.rev))];
    if summary.deleted {
        value.push(("deleted".to_string(), Json::Bool(true)));
    }
    let mut members = vec![
        ("id".to_string(), id.clone()),
        ("key".to_string(), id),
        ("value".to_string(), Json::Object(value)),
    ];
    if request.is("include_docs") {
        let document = snapshot.document(&summary.id, None);
        let document = document.map(|document| shown(snapshot, &document, request));
        members.push(("doc".to_string(), document.unwrap_or(Json::Null)));
    }
    Json::Object(members)
}

/// The documents of a list, found or not.
fn listed_keys(snapshot: &DbSnapshot, mut keys: Vec<Json>, request: &Request) -> Answer {
    if request.is("descending") {
        keys.reverse();
    }
    let skip = request.number("skip").unwrap_or(0) as usize;
    let limit = request.number("limit").map_or(usize::MAX, |limit| limit as usize);
    let found = |key: &Json| {
        let id = key.as_str().unwrap_or_default();
        let missing = || object([("key", key.clone()), ("error", Json::from("not_found"))]);
        if let Some(local) = snapshot.local(id).unwrap() {
            return local_row(&local, request);
        }
        let summary = snapshot.summary(id).unwrap();
        summary.map_or_else(missing, |summary| row(snapshot, &summary, request))
    };
    let rows = keys.iter().skip(skip).take(limit).map(found).collect();
    let total = Json::unsigned(snapshot.info().doc_count);
    let members = [("total_rows", total), ("offset", Json::Null), ("rows", Json::Array(rows))];
    json(200, object(members))
}
