//! Recorded requests, put to a [`Store`], and what differs from the recorded answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use rereduce::doc::{
    AttachmentDecoder, AttachmentShown, AttachmentSource, DocId, Draft, Encoding, Show,
};
use rereduce::vocabulary::{Json, Rev};

use super::data;
use super::store::{Answer, Store, error};

/// How a replay went.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Answers that equal the recorded ones.
    pub(crate) answers: usize,
    /// Revision ids among them that were computed here.
    pub(crate) revs: usize,
    /// What differed, in words.
    pub(crate) differences: Vec<String>,
    /// Requests that are not about documents or trees.
    pub(crate) passed_over: usize,
}

/// Replays one case of a recording, or all of them.
pub(crate) fn replay(file: &str) -> Tally {
    let recording: Value = serde_json::from_str(&data(file)).unwrap();
    let mut tally = Tally::default();
    for case in recording["cases"].as_array().unwrap() {
        let mut store = Store::default();
        for step in case["steps"].as_array().unwrap() {
            let request = Request::of(&step["request"]);
            let recorded = &step["response"];
            let status = recorded["status"].as_u64().unwrap() as u16;
            let crashed = step.get("crash").is_some() || status == 500;
            let Some((got_status, got)) =
                (if crashed { None } else { answer(&mut store, &request) })
            else {
                tally.passed_over += 1;
                continue;
            };
            let body = recorded["body"].as_str().unwrap_or_default();
            let expected = Json::parse(body.as_bytes()).unwrap_or(Json::Null);
            let same = if status == 400 {
                got_status == 400 // The reasons are HTTP's.
            } else if request.path.contains("/_") {
                (got_status, canonical(&got)) == (status, canonical(&expected))
            } else {
                // Documents and their like are the very same text.
                (got_status, got.to_string().as_str()) == (status, body.trim_end())
            };
            if same {
                tally.answers += 1;
                tally.revs += usize::from(request.computes_rev && got.member("rev").is_some());
            } else {
                let what = format!("{} {}", request.method, request.path);
                let line = format!("{what}\n  want {status} {expected}\n  got  {got_status} {got}");
                tally.differences.push(line);
            }
        }
    }
    tally
}

/// Answers whose members or elements come in no order, in one; sequences as their numbers.
fn canonical(json: &Json) -> String {
    let Json::Object(members) = json else { return json.to_string() };
    if let Some(Json::Array(results)) = json.member("results") {
        let row = |row: &Json| {
            let seq = row.member("seq").map(Json::to_string).unwrap_or_default();
            let number: String =
                seq.chars().filter(|c| *c != '"').take_while(char::is_ascii_digit).collect();
            let show = |name| row.member(name).map(Json::to_string).unwrap_or_default();
            format!(
                "{number} {} {} {} {}",
                show("id"),
                show("changes"),
                show("deleted"),
                show("doc")
            )
        };
        return results.iter().map(row).collect::<Vec<_>>().join("\n");
    }
    if members.iter().all(|(_, value)| value.member("missing").is_some()) {
        let mut lines: Vec<String> =
            members.iter().map(|(id, value)| format!("{id} {value}")).collect();
        lines.sort();
        return lines.join("\n");
    }
    match json.member("missing_revs") {
        Some(Json::Object(missing)) => {
            let mut lines: Vec<String> =
                missing.iter().map(|(id, revs)| format!("{id} {revs}")).collect();
            lines.sort();
            lines.join("\n")
        }
        _ => json.to_string(),
    }
}

struct Request {
    method: String,
    path: String,
    segments: Vec<String>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Whether the answer's `rev` is one that the store computed.
    computes_rev: bool,
}

impl Request {
    fn of(recorded: &Value) -> Request {
        let path = recorded["path"].as_str().unwrap().to_string();
        let (segments, query) = path.split_once('?').unwrap_or((&path, ""));
        let mut segments: Vec<String> = segments.split('/').skip(1).map(unescape).collect();
        if segments.get(1).is_some_and(|first| first == "_design") && segments.len() > 2 {
            let name = segments.remove(2);
            segments[1] = format!("_design/{name}");
        }
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_string(), unescape(value))
        };
        let query: Vec<(String, String)> = query.split('&').map(pair).collect();
        let header = |(name, value): (&String, &Value)| {
            (name.to_lowercase(), value.as_str().unwrap().to_string())
        };
        let headers = recorded["headers"].as_object().into_iter().flatten().map(header).collect();
        let body = match recorded["body_b64"].as_str() {
            Some(encoded) => STANDARD.decode(encoded).unwrap(),
            None => recorded["body"].as_str().unwrap_or_default().into(),
        };
        let computes_rev = !query.iter().any(|(name, _)| name == "new_edits");
        let method = recorded["method"].as_str().unwrap().to_string();
        Request { method, path: path.clone(), segments, query, headers, body, computes_rev }
    }

    fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn is(&self, name: &str) -> bool {
        self.query(name) == Some("true")
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn base(&self) -> Result<Option<Rev>, Answer> {
        let named = self.query("rev").or_else(|| Some(self.header("if-match")?.trim_matches('"')));
        named.map(|rev| rev.parse().map_err(|_| bad_request())).transpose()
    }
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&behind[..2]).unwrap(), 16).unwrap());
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn bad_request() -> Answer {
    error(400, "bad_request", "")
}

/// The store's answer, or `None` for a request that is not about documents.
fn answer(store: &mut Store, request: &Request) -> Option<Answer> {
    let parts: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    let answered = match (request.method.as_str(), parts.as_slice()) {
        ("PUT", [_]) => {
            *store = Store::default();
            return None;
        }
        ("PUT", [_, "_revs_limit"]) => {
            let limit = std::str::from_utf8(&request.body).ok()?.trim().parse::<u32>().ok()?;
            store.set_revs_limit(limit);
            return None;
        }
        ("POST", [_, "_bulk_docs"]) => bulk_docs(store, request),
        ("POST", [_, "_revs_diff"]) => revs_diff(store, request, true),
        ("POST", [_, "_missing_revs"]) => revs_diff(store, request, false),
        ("GET", [_, "_changes"]) => Ok(changes(store, request)),
        ("GET", [_, "_all_docs"]) => Ok(all_docs(store)),
        (_, [_, special, ..]) if special.starts_with('_') && !special.starts_with("_design/") => {
            return None;
        }
        ("PUT", [_, id]) => put(store, &id.parse().ok()?, request),
        ("DELETE", [_, id]) => delete(store, &id.parse().ok()?, request),
        ("GET", [_, id]) => get(store, &id.parse().ok()?, request),
        ("PUT" | "DELETE", [_, id, name @ ..]) => {
            edit_attachment(store, &id.parse().ok()?, &name.join("/"), request)
        }
        _ => return None,
    };
    Some(answered.unwrap_or_else(|refused| refused))
}

fn draft_of(json: Json) -> Result<Draft, Answer> {
    Draft::from_json(json).map_err(|_| bad_request())
}

fn put(store: &mut Store, id: &DocId, request: &Request) -> Result<Answer, Answer> {
    let draft = match request.header("content-type").and_then(|kind| kind.split_once("boundary=")) {
        Some((_, boundary)) => multipart(&request.body, boundary.trim_matches('"'))?,
        None => draft_of(Json::parse(&request.body).map_err(|_| bad_request())?)?,
    };
    let status = if draft.deleted { 200 } else { 201 };
    if request.query("new_edits") == Some("false") {
        let rev = draft.path.newest().ok_or_else(bad_request)?;
        store.replicate(id, vec![draft])?;
        return Ok(written(status, id, &rev));
    }
    let base = draft.path.newest().or(request.base()?);
    let rev = store.edit(id, base, draft)?;
    Ok(written(status, id, &rev))
}

/// A document and its attachments in one body; the lengths must be as promised.
fn multipart(body: &[u8], boundary: &str) -> Result<Draft, Answer> {
    let separator = format!("\r\n--{boundary}");
    let body = [b"\r\n", body].concat();
    let mut parts = Vec::new();
    let mut rest = body.as_slice();
    while let Some(at) = rest.windows(separator.len()).position(|w| w == separator.as_bytes()) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    let content = |part: &[u8]| {
        let end = part.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        part[end + 4..].to_vec()
    };
    let mut parts = parts.into_iter().skip(1).map(content);
    let json = Json::parse(&parts.next().unwrap()).map_err(|_| bad_request())?;
    let mut draft = draft_of(json)?;
    for attachment in &mut draft.attachments {
        let AttachmentSource::Follows { length, revpos, .. } = attachment.source else { continue };
        let content = parts.next().ok_or_else(bad_request)?;
        if length != Some(content.len() as u64) {
            return Err(bad_request());
        }
        attachment.source = AttachmentSource::Inline { data: content, revpos };
    }
    Ok(draft)
}

fn delete(store: &mut Store, id: &DocId, request: &Request) -> Result<Answer, Answer> {
    let tree = store.tree(id);
    if tree.is_empty() {
        return Err(error(404, "not_found", "missing"));
    }
    if tree.is_deleted() {
        return Err(error(404, "not_found", "deleted"));
    }
    let draft = draft_of(Json::parse(b"{\"_deleted\":true}").unwrap())?;
    let rev = store.edit(id, request.base()?, draft)?;
    Ok(written(200, id, &rev))
}

fn edit_attachment(
    store: &mut Store,
    id: &DocId,
    name: &str,
    request: &Request,
) -> Result<Answer, Answer> {
    if name.starts_with('_') {
        return Err(bad_request());
    }
    let encoding = match request.header("content-encoding") {
        None => Encoding::Identity,
        Some("gzip") => Encoding::Gzip,
        Some(_) => {
            let reason = "Only gzip and identity content-encodings are supported";
            return Err(error(415, "bad_content_type", reason));
        }
    };
    let content_type = request.header("content-type").unwrap_or("application/octet-stream");
    let base = request.base()?;
    if request.method == "PUT" {
        let content = Some((content_type, encoding, request.body.as_slice()));
        return Ok(written(201, id, &store.edit_attachment(id, base, name, content)?));
    }
    let rev = store.edit_attachment(id, base, name, None)?;
    Ok(written(200, id, &rev))
}

fn written(status: u16, id: &DocId, rev: &Rev) -> Answer {
    let rev = rev.to_string();
    let members = [
        ("ok", Json::Bool(true)),
        ("id", Json::from(id.as_str())),
        ("rev", Json::from(rev.as_str())),
    ];
    (status, object(members))
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

fn bulk_docs(store: &mut Store, request: &Request) -> Result<Answer, Answer> {
    let body = Json::parse(&request.body).map_err(|_| bad_request())?;
    assert_eq!(body.member("new_edits"), Some(&Json::Bool(false)), "only replication here");
    let Some(Json::Array(documents)) = body.member("docs") else { return Err(bad_request()) };
    let mut by_id: Vec<(DocId, Vec<Draft>)> = Vec::new();
    for document in documents {
        let draft = draft_of(document.clone())?;
        let id = draft.id.clone().unwrap();
        match by_id.iter_mut().find(|(other, _)| *other == id) {
            Some((_, drafts)) => drafts.push(draft),
            None => by_id.push((id, vec![draft])),
        }
    }
    for (id, drafts) in by_id {
        store.replicate(&id, drafts)?;
    }
    Ok((201, Json::Array(Vec::new())))
}

fn revs_json<'a>(revs: impl IntoIterator<Item = &'a Rev>) -> Json {
    Json::Array(revs.into_iter().map(|rev| Json::String(rev.to_string())).collect())
}

fn revs_diff(store: &Store, request: &Request, ancestors: bool) -> Result<Answer, Answer> {
    let Json::Object(asked) = Json::parse(&request.body).map_err(|_| bad_request())? else {
        return Err(bad_request());
    };
    let mut missing_by_id = Vec::new();
    for (id, revs) in asked {
        let Json::Array(revs) = revs else { return Err(bad_request()) };
        let parsed: Option<Vec<Rev>> = revs.iter().map(|rev| rev.as_str()?.parse().ok()).collect();
        let tree = id.parse().map(|id| store.tree(&id)).unwrap_or_default();
        let missing = tree.missing(&parsed.ok_or_else(bad_request)?);
        if missing.is_empty() {
            continue;
        }
        let mut members = vec![("missing".to_string(), revs_json(&missing))];
        let possible = tree.possible_ancestors(&missing);
        if !possible.is_empty() {
            members.push(("possible_ancestors".to_string(), revs_json(possible)));
        }
        let value = if ancestors { Json::Object(members) } else { revs_json(&missing) };
        missing_by_id.push((id, value));
    }
    let missing = Json::Object(missing_by_id);
    Ok((200, if ancestors { missing } else { object([("missing_revs", missing)]) }))
}

fn shown(store: &Store, id: &DocId, rev: &Rev, request: &Request) -> Json {
    let (document, stored) = store.document(id, rev).unwrap();
    let tree = store.tree(id);
    let is_winner = tree.winner().is_some_and(|(winner, _)| winner == rev);
    let revs = |asked: bool, revs: Vec<&Rev>| -> Vec<Rev> {
        if asked && is_winner { revs.into_iter().cloned().collect() } else { Vec::new() }
    };
    let decoded: Vec<Vec<u8>> = document
        .attachments
        .iter()
        .zip(&stored)
        .map(|(record, bytes)| {
            let mut content = Vec::new();
            let mut decoder = AttachmentDecoder::new(record.encoding);
            decoder.write(bytes, &mut content).unwrap();
            decoder.finish(&mut content).unwrap();
            content
        })
        .collect();
    // With `atts_since`, only what came in after the newest revision named is shown whole.
    let since = request.query("atts_since").map(|list| {
        let list = Json::parse(list.as_bytes()).unwrap();
        let Json::Array(list) = list else { panic!() };
        let known = list.iter().filter_map(|rev| rev.as_str()?.parse::<Rev>().ok());
        known
            .filter(|rev| {
                tree.path(&document.rev().unwrap()).unwrap().revs().any(|own| own == *rev)
            })
            .map(|rev| rev.generation)
            .max()
            .unwrap_or(0)
    });
    let whole = since.or(request.is("attachments").then_some(0));
    let attachments =
        document.attachments.iter().zip(&decoded).map(|(record, content)| match whole {
            Some(since) if record.revpos > since => AttachmentShown::Inline(content),
            _ => AttachmentShown::Stub,
        });
    let show = Show {
        revisions: request.is("revs"),
        revs_info: if request.is("revs_info") { tree.revs_info(rev) } else { Vec::new() },
        conflicts: revs(request.is("conflicts"), tree.conflicts()),
        deleted_conflicts: revs(request.is("deleted_conflicts"), tree.deleted_conflicts()),
        local_seq: None,
        attachments: attachments.collect(),
        encoding_info: request.is("att_encoding_info"),
    };
    document.to_json(&show)
}

fn get(store: &Store, id: &DocId, request: &Request) -> Result<Answer, Answer> {
    let (latest, tree) = (request.is("latest"), store.tree(id));
    if let Some(list) = request.query("open_revs") {
        let revs = match Json::parse(list.as_bytes()) {
            Ok(Json::Array(list)) => {
                let revs: Option<Vec<Rev>> =
                    list.iter().map(|rev| rev.as_str()?.parse().ok()).collect();
                Some(revs.ok_or_else(bad_request)?)
            }
            _ => None,
        };
        let (found, missing) = store.open_revs(id, revs.as_deref(), latest);
        let found = found.iter().map(|rev| object([("ok", shown(store, id, rev, request))]));
        let missing =
            missing.iter().map(|rev| object([("missing", Json::String(rev.to_string()))]));
        return Ok((200, Json::Array(found.chain(missing).collect())));
    }
    let missing = error(404, "not_found", "missing");
    if let Some(rev) = request.query("rev") {
        let rev: Rev = rev.parse().map_err(|_| bad_request())?;
        let found = tree.find(&rev).ok_or(missing.clone())?;
        if !latest {
            found.data.ok_or(missing)?;
            return Ok((200, shown(store, id, &rev, request)));
        }
        // The newest of a known revision is the winner, whatever it descends from.
    }
    let (rev, data) = tree.winner().ok_or(missing)?;
    if data.deleted {
        return Err(error(404, "not_found", "deleted"));
    }
    Ok((200, shown(store, id, rev, request)))
}

fn changes(store: &Store, request: &Request) -> Answer {
    let mut rows: Vec<(u64, Json)> = Vec::new();
    for (id, seq) in &store.seqs {
        let tree = store.tree(id);
        let count = if request.query("style") == Some("all_docs") { usize::MAX } else { 1 };
        let leaves = tree.leaves().into_iter().take(count);
        let change = |rev: &Rev| object([("rev", Json::String(rev.to_string()))]);
        let mut members = vec![
            ("seq".to_string(), Json::from(*seq as i64)),
            ("id".to_string(), Json::from(id.as_str())),
            ("changes".to_string(), Json::Array(leaves.map(|(rev, _)| change(rev)).collect())),
        ];
        if tree.is_deleted() {
            members.push(("deleted".to_string(), Json::Bool(true)));
        }
        if request.is("include_docs") {
            let winner = tree.winner().unwrap().0;
            members.push(("doc".to_string(), shown(store, id, winner, request)));
        }
        rows.push((*seq, Json::Object(members)));
    }
    rows.sort_by_key(|(seq, _)| *seq);
    (200, object([("results", Json::Array(rows.into_iter().map(|(_, row)| row).collect()))]))
}

fn all_docs(store: &Store) -> Answer {
    let request = Request::of(&serde_json::json!({"method": "GET", "path": "/?conflicts=true"}));
    let row = |id: &DocId| {
        let tree = store.tree(id);
        let rev = tree.winner().filter(|(_, data)| !data.deleted)?.0.clone();
        let value = object([("rev", Json::String(rev.to_string()))]);
        let (key, doc) = (Json::from(id.as_str()), shown(store, id, &rev, &request));
        Some(object([("id", key.clone()), ("key", key), ("value", value), ("doc", doc)]))
    };
    let rows: Vec<Json> = store.ids().filter_map(row).collect();
    let total = Json::from(rows.len() as i64);
    let rows = Json::Array(rows);
    (200, object([("total_rows", total), ("offset", Json::from(0)), ("rows", rows)]))
}
