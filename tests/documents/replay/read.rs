//! Requests that read.

use std::collections::BTreeSet;

use rereduce::db::{Change, ChangesOptions, Database, DbSnapshot, LocalDocument};
use rereduce::doc::{Attachment, AttachmentShown, DocId, Document, Encoding, Show};
use rereduce::vocabulary::{Direction, Json, Rev};

use super::answer::{
    Answer, Body, bad_request, failed, json, object, refused, rev_json, revs_json,
};
use super::request::Request;

pub(super) fn info(db: &Database) -> Answer {
    let info = db.snapshot().unwrap().info();
    let members = [
        ("doc_count", info.doc_count),
        ("doc_del_count", info.doc_del_count),
        ("update_seq", info.update_seq),
        ("purge_seq", info.purge_seq),
    ];
    json(200, object(members.map(|(name, value)| (name, Json::unsigned(value)))))
}

pub(super) fn limit(db: &Database, name: &str) -> Answer {
    let info = db.snapshot().unwrap().info();
    let limit = if name == "_revs_limit" { info.revs_limit.into() } else { info.purge_infos_limit };
    json(200, Json::unsigned(limit))
}

/// CouchDB lists what was purged once, by id.
pub(super) fn purged_infos(db: &Database) -> Answer {
    let purges = db.snapshot().unwrap().purges(0).unwrap();
    let purges: BTreeSet<(String, Vec<Rev>)> =
        purges.into_iter().map(|(_, id, revs)| (id, revs)).collect();
    let purge = |(id, revs): &(String, Vec<Rev>)| {
        object([("id", Json::from(id.as_str())), ("revs", revs_json(revs))])
    };
    json(200, object([("purged_infos", Json::Array(purges.iter().map(purge).collect()))]))
}

fn parse_revs(json: &Json) -> Result<Vec<Rev>, Answer> {
    let Json::Array(revs) = json else { return Err(bad_request()) };
    let revs: Option<Vec<Rev>> = revs.iter().map(|rev| rev.as_str()?.parse().ok()).collect();
    revs.ok_or_else(bad_request)
}

pub(super) fn revs_diff(
    db: &Database,
    request: &Request,
    with_ancestors: bool,
) -> Result<Answer, Answer> {
    let snapshot = db.snapshot().unwrap();
    let Json::Object(asked) = request.json()? else { return Err(bad_request()) };
    let mut found = Vec::new();
    for (id, revs) in asked {
        let missing = snapshot.missing_revs(&id, &parse_revs(&revs)?).unwrap();
        if missing.is_empty() {
            continue;
        }
        let mut members = vec![("missing".to_string(), revs_json(&missing))];
        let ancestors = snapshot.possible_ancestors(&id, &missing).unwrap();
        if !ancestors.is_empty() {
            members.push(("possible_ancestors".to_string(), revs_json(&ancestors)));
        }
        found.push((id, if with_ancestors { Json::Object(members) } else { revs_json(&missing) }));
    }
    let found = Json::Object(found);
    Ok(json(200, if with_ancestors { found } else { object([("missing_revs", found)]) }))
}

/// A document with what the query asks for beside its body.
pub(super) fn shown(snapshot: &DbSnapshot, document: &Document, request: &Request) -> Json {
    let (id, rev) = (document.id.as_str(), document.rev().unwrap());
    let is_winner = snapshot.leaves(id).unwrap()[0].0 == rev;
    let meta = request.is("meta");
    let (conflicts, deleted_conflicts) = snapshot.conflicts(id).unwrap();
    let revs = |asked: bool, revs| if asked && is_winner { revs } else { Vec::new() };
    let content = |attachment: &Attachment| {
        snapshot.attachment(id, Some(&rev), &attachment.name).unwrap().read_all().unwrap()
    };
    let contents: Vec<Vec<u8>> = document.attachments.iter().map(content).collect();
    // With `atts_since`, only what came in after the newest revision named is shown whole.
    let since = request.query("atts_since").map(|list| {
        let known = parse_revs(&Json::parse(list.as_bytes()).unwrap()).unwrap();
        let known = known.iter().filter(|rev| document.path.revs().any(|own| own == **rev));
        known.map(|rev| rev.generation).max().unwrap_or(0)
    });
    let whole = since.or(request.is("attachments").then_some(0));
    let attachments = document.attachments.iter().zip(&contents);
    let attachments = attachments.map(|(record, content)| match whole {
        Some(since) if record.revpos > since => AttachmentShown::Inline(content),
        _ => AttachmentShown::Stub,
    });
    let revs_info = match request.is("revs_info") || meta {
        true => snapshot.revs_info(id, &rev).unwrap(),
        false => Vec::new(),
    };
    let local_seq = || snapshot.summary(id).unwrap().map(|summary| summary.seq);
    let show = Show {
        revisions: request.is("revs"),
        revs_info,
        conflicts: revs(request.is("conflicts") || meta, conflicts),
        deleted_conflicts: revs(request.is("deleted_conflicts") || meta, deleted_conflicts),
        local_seq: if request.is("local_seq") { local_seq() } else { None },
        attachments: attachments.collect(),
        encoding_info: request.is("att_encoding_info"),
    };
    document.to_json(&show)
}

pub(super) fn document(db: &Database, id: &str, request: &Request) -> Result<Answer, Answer> {
    let snapshot = db.snapshot().unwrap();
    let fail = |error| failed(id, &error);
    if id.starts_with("_local/") {
        return local(&snapshot, id, request);
    }
    if let Some(list) = request.query("open_revs")
        && list != "[]"
    {
        let revs = match list {
            "all" => None,
            list => Some(parse_revs(&Json::parse(list.as_bytes()).map_err(|_| bad_request())?)?),
        };
        let opened = snapshot.open_revs(id, revs.as_deref(), request.is("latest")).unwrap();
        let (found, missing): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        let found = found.iter().flatten();
        let found = found.map(|found| object([("ok", shown(&snapshot, found, request))]));
        let missing = missing.iter().filter_map(|missing| missing.as_ref().err());
        let missing = missing.map(|rev| object([("missing", rev_json(rev))]));
        return Ok(json(200, Json::Array(found.chain(missing).collect())));
    }
    let rev = request.query("rev").map(|rev| rev.parse().map_err(|_| bad_request()));
    let document = match rev.transpose()? {
        // The newest of a known revision is the winner, whatever it descends from.
        Some(rev) if request.is("latest") => {
            if !snapshot.missing_revs(id, std::slice::from_ref(&rev)).unwrap().is_empty() {
                return Err(refused(404, "not_found", "missing"));
            }
            snapshot.document(id, None)
        }
        None if request.is("deleted") => return Ok(winner(&snapshot, id, request)),
        rev => snapshot.document(id, rev.as_ref()),
    };
    Ok(json(200, shown(&snapshot, &document.map_err(fail)?, request)))
}

fn winner(snapshot: &DbSnapshot, id: &str, request: &Request) -> Answer {
    match snapshot.winner(id).unwrap() {
        Some(document) => json(200, shown(snapshot, &document, request)),
        None => refused(404, "not_found", "missing"),
    }
}

/// A local document as it is shown.
pub(super) fn local_members(local: &LocalDocument) -> Vec<(String, Json)> {
    let id = ("_id".to_string(), Json::from(local.id.as_str()));
    let mut members = vec![id, ("_rev".to_string(), rev_json(&local.rev()))];
    members.extend(local.body.iter().cloned());
    members
}

fn local(snapshot: &DbSnapshot, id: &str, request: &Request) -> Result<Answer, Answer> {
    let missing = || refused(404, "not_found", "missing");
    let local = snapshot.local(id).unwrap().ok_or_else(missing)?;
    // A local document has no revisions to choose from.
    if request.query("rev").or(request.query("open_revs")).is_some() {
        return Err(missing());
    }
    let mut members = local_members(&local);
    if request.is("revs") {
        let ids = Json::Array(vec![Json::String(local.number.to_string())]);
        let revisions = object([("start", Json::from(0)), ("ids", ids)]);
        members.push(("_revisions".to_string(), revisions));
    }
    Ok(json(200, Json::Object(members)))
}

pub(super) fn attachment(
    db: &Database,
    id: &str,
    name: &str,
    request: &Request,
) -> Result<Answer, Answer> {
    let rev = request.base()?;
    let snapshot = db.snapshot().unwrap();
    let content = snapshot.attachment(id, rev.as_ref(), name);
    let mut content = content.map_err(|error| failed(id, &error))?;
    let length = content.record().length;
    let is_plain = content.record().encoding == Encoding::Identity;
    if !is_plain && request.header("accept-encoding") == Some("gzip") {
        let mut stored = Vec::new();
        let keep = &mut |piece: &[u8]| {
            stored.extend_from_slice(piece);
            Ok(())
        };
        content.read_stored(keep).unwrap();
        return Ok(Answer { status: 200, body: Body::Bytes(stored) });
    }
    let range = request.header("range").filter(|_| is_plain);
    let range = range.and_then(|range| parse_range(range.strip_prefix("bytes=")?, length));
    let (status, bytes) = match range {
        Some(range) if range.is_empty() => {
            let reason = "Requested range not satisfiable";
            return Err(refused(416, "requested_range_not_satisfiable", reason));
        }
        // All of it is no part of it.
        Some(range) if range != (0..length) || request.header("range") != Some("bytes=0-") => {
            (206, content.read_range(range).unwrap())
        }
        _ => (200, content.read_all().unwrap()),
    };
    Ok(Answer { status, body: Body::Bytes(bytes) })
}

/// The bytes that `A-B`, `A-` or `-COUNT` stands for; anything else is no range.
fn parse_range(text: &str, length: u64) -> Option<std::ops::Range<u64>> {
    let (from, to) = text.split_once('-')?;
    match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) => Some(from.min(to + 1)..(to + 1).min(length)),
        (Ok(from), Err(_)) if to.is_empty() => Some(from.min(length)..length),
        (Err(_), Ok(count)) if from.is_empty() => Some(length.saturating_sub(count)..length),
        _ => None,
    }
}

/// Each document asked for; `None` if the request is one that HTTP refuses.
pub(super) fn bulk_get(db: &Database, request: &Request) -> Option<Answer> {
    let snapshot = db.snapshot().unwrap();
    let body = request.json().ok()?;
    let Some(Json::Array(asked)) = body.member("docs") else { return None };
    let mut results = Vec::new();
    for one in asked {
        let id = one.member("id")?.as_str()?;
        id.parse::<DocId>().ok()?;
        let rev: Option<Rev> = match one.member("rev") {
            Some(rev) => Some(rev.as_str()?.parse().ok()?),
            None => None,
        };
        if let Some(since) = one.member("atts_since") {
            parse_revs(since).ok()?;
        }
        let opened =
            snapshot.open_revs(id, rev.as_ref().map(std::slice::from_ref), request.is("latest"));
        let mut opened = opened.unwrap();
        if opened.is_empty() {
            opened.push(Err("0-undefined".parse().unwrap()));
        }
        let row = |found: &Result<Document, Rev>| match found {
            Ok(document) => object([("ok", shown_plainly(&snapshot, document, request))]),
            Err(_) => {
                let rev = rev.as_ref().map_or(Json::from("undefined"), rev_json);
                let error = [
                    ("rev", rev),
                    ("reason", Json::from("missing")),
                    ("id", Json::from(id)),
                    ("error", Json::from("not_found")),
                ];
                object([("error", object(error))])
            }
        };
        let docs = Json::Array(opened.iter().map(row).collect());
        results.push(object([("id", Json::from(id)), ("docs", docs)]));
    }
    Some(json(200, object([("results", Json::Array(results))])))
}

/// As [`shown`], without conflicts, for which the bulk requests have no place.
fn shown_plainly(snapshot: &DbSnapshot, document: &Document, request: &Request) -> Json {
    let Json::Object(mut members) = shown(snapshot, document, request) else { unreachable!() };
    members.retain(|(name, _)| {
        !["_conflicts", "_deleted_conflicts", "_revs_info"].contains(&name.as_str())
    });
    Json::Object(members)
}

pub(super) fn changes(db: &Database, request: &Request) -> Option<Answer> {
    let direction = match request.is("descending") {
        true => Direction::Descending,
        false => Direction::Ascending,
    };
    let snapshot = db.snapshot().unwrap();
    let since = match request.query("since").or(request.query("last-event-id")) {
        None => 0,
        Some("now") => snapshot.info().update_seq,
        Some(since) => {
            since.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()?
        }
    };
    let limit = request.number("limit").map_or(usize::MAX, |limit| limit as usize);
    let options = ChangesOptions { limit, direction, wait: None };
    // Descending goes from the newest change down to the first, whatever `since` says.
    let from = if direction == Direction::Descending { 0 } else { since };
    let found = db.changes(from, &options).unwrap();
    let row = |change: &Change| {
        let count = if request.query("style") == Some("all_docs") { usize::MAX } else { 1 };
        let leaves = change.leaves.iter().take(count);
        let leaves = leaves.map(|(rev, _)| object([("rev", rev_json(rev))])).collect();
        let mut members = vec![
            ("seq".to_string(), Json::unsigned(change.seq)),
            ("id".to_string(), Json::from(change.id.as_str())),
            ("changes".to_string(), Json::Array(leaves)),
        ];
        if change.deleted() {
            members.push(("deleted".to_string(), Json::Bool(true)));
        }
        if request.is("include_docs") {
            let document = snapshot.winner(&change.id).unwrap().unwrap();
            members.push(("doc".to_string(), shown(&snapshot, &document, request)));
        }
        Json::Object(members)
    };
    Some(json(
        200,
        object([
            ("results", Json::Array(found.changes.iter().map(row).collect())),
            ("last_seq", Json::unsigned(found.last_seq)),
            ("pending", Json::unsigned(found.pending)),
        ]),
    ))
}
