//! Requests that functions of a design document decide, other than those of its views: filters of
//! the feed, shows, updates, and whether a document may be written.
//!
//! Invariant: a function is looked up and run in the state of its design document that the request
//! met.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::db::{Change, DbSnapshot};
use crate::doc::{DocId, Draft};
use crate::error::{Error, Result};
use crate::vocabulary::{Direction, Json, Rev};

use super::databases::{Ids, sequence};
use super::documents::write_one;
use super::node::{Functions, Node, OpenDatabase};
use super::refusal::{Outcome, Refusal};
use super::request::Request;
use super::response::{Response, object, rev_json};
use super::router::Answer;
use super::views::design_document;

/// The member `path` of a design document; CouchDB names the first that is missing.
fn member<'a>(design: &'a Json, path: [&str; 2]) -> Result<&'a Json> {
    path.into_iter().try_fold(design, |found, name| {
        let what = "member of a design document";
        found.member(name).ok_or_else(|| Error::Missing { what, name: name.to_owned() })
    })
}

/// What a function sees of a request.
fn request_json(node: &Node, open: &OpenDatabase, request: &Request, id: Json) -> Result<Json> {
    let text = |bytes: Vec<u8>| Json::String(String::from_utf8_lossy(&bytes).into_owned());
    let query = request.query().into_iter().map(|(name, value)| (name, text(value))).collect();
    let header = |(name, value): &(String, String)| (name.clone(), Json::from(value.as_str()));
    let headers = request.headers.iter().map(header).collect();
    let path = || Json::Array(request.path().into_iter().map(Json::String).collect());
    let info = open.database.snapshot()?.info();
    let info = object([
        ("db_name", Json::from(open.name.as_str())),
        ("doc_count", Json::unsigned(info.doc_count)),
        ("doc_del_count", Json::unsigned(info.doc_del_count)),
        ("update_seq", Json::unsigned(info.update_seq)),
    ]);
    Ok(object([
        ("info", info),
        ("id", id),
        ("uuid", Json::String(node.uuid()?)),
        ("method", Json::from(request.method.as_str())),
        ("requested_path", path()),
        ("path", path()),
        ("raw_path", Json::from(request.target.as_str())),
        ("query", Json::Object(query)),
        ("headers", Json::Object(headers)),
        ("body", text(request.body.clone())),
        ("peer", Json::from("127.0.0.1")),
        ("form", Json::Object(Vec::new())),
        ("cookie", Json::Object(Vec::new())),
        ("userCtx", user(open)),
        ("secObj", Json::Object(Vec::new())),
    ]))
}

/// Who asks: whoever has the database at hand may do everything with it.
fn user(open: &OpenDatabase) -> Json {
    object([
        ("db", Json::from(open.name.as_str())),
        ("name", Json::Null),
        ("roles", Json::Array(vec![Json::from("_admin")])),
    ])
}

/// The functions of a design document at work, and the one that is asked for.
fn functions(node: &Node, open: &OpenDatabase, id: &str, path: [&str; 2]) -> Result<Functions> {
    let design = design_document(open, id)?;
    member(&design, path)?;
    node.functions(&design)
}

/// The document that a show or an update is about, or null.
fn subject(open: &OpenDatabase, rest: &[&str]) -> Result<(Json, Json)> {
    let id = rest.join("/");
    if id.is_empty() {
        return Ok((Json::Null, Json::Null));
    }
    let document = match open.database.snapshot()?.document(&id, None) {
        Ok(document) => document.to_json(&Default::default()),
        Err(Error::Missing { .. } | Error::Deleted { .. }) => Json::Null,
        Err(error) => return Err(error),
    };
    Ok((Json::String(id), document))
}

/// A function's response as one of HTTP.
fn respond(status: u16, response: &Json) -> Response {
    let code = match response.member("code").map(Json::to_string) {
        Some(code) => code.parse().unwrap_or(status),
        None => status,
    };
    let mut answer = Response { status: code, headers: Vec::new(), body: Vec::new() };
    if let Some(Json::Object(headers)) = response.member("headers") {
        for (name, value) in headers {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            answer = answer.with(&name.to_lowercase(), value);
        }
    }
    let mut content_type = "text/html; charset=utf-8";
    match (response.member("json"), response.member("body")) {
        (Some(json), _) => {
            content_type = "application/json";
            answer.body = json.to_string().into_bytes();
        }
        (None, Some(Json::String(body))) => answer.body = body.clone().into_bytes(),
        (None, Some(other)) => answer.body = other.to_string().into_bytes(),
        (None, None) => {}
    }
    match answer.header("content-type") {
        Some(_) => answer,
        None => answer.with("content-type", content_type),
    }
}

/// `GET /db/_design/d/_show/s/doc`.
// spec: HTTP-5
pub(super) fn show(
    node: &Node,
    open: &OpenDatabase,
    id: &str,
    name: &str,
    rest: &[&str],
    request: &Request,
) -> Answer {
    let path = ["shows", name];
    let mut functions = functions(node, open, id, path)?;
    let (asked, document) = subject(open, rest)?;
    let request = request_json(node, open, request, asked)?;
    Ok(respond(200, &functions.show(&path, &document, &request)?))
}

/// `GET /db/_design/d/_list/l/v`: lists of rows are not made here yet.
pub(super) fn list(open: &OpenDatabase, id: &str, name: &str) -> Answer {
    member(&design_document(open, id)?, ["lists", name])?;
    Err(Refusal::new(501, "not_implemented", "list functions are not run"))
}

/// `POST /db/_design/d/_update/u`, and `PUT` below it for a document.
pub(super) fn update(
    node: &Node,
    open: &OpenDatabase,
    id: &str,
    name: &str,
    rest: &[&str],
    request: &Request,
) -> Answer {
    let path = ["updates", name];
    let mut functions = functions(node, open, id, path)?;
    let (asked, document) = subject(open, rest)?;
    let request = request_json(node, open, request, asked)?;
    let (document, response) = functions.update(&path, &document, &request)?;
    if document == Json::Null {
        return Ok(respond(200, &response));
    }
    let draft = Draft::from_json(document.clone())?;
    let id = match &draft.id {
        Some(id) => id.clone(),
        None => return Err(Refusal::bad_request("Document id must not be empty")),
    };
    let rev = write_one(node, open, &id, draft, &document, false)?;
    Ok(respond(201, &response).with("x-couch-update-newrev", rev.to_string()))
}

/// `GET /db/_changes`: once through the feed, with a filter if one is named.
pub(super) fn changes(node: &Node, open: &OpenDatabase, request: &Request) -> Answer {
    let snapshot = open.database.snapshot()?;
    let mut filter = match request.parameter("filter") {
        None => None,
        Some(name) => Some(Filter::find(node, open, &name, request)?),
    };
    let since = since(&snapshot, request)?;
    let limit = match request.parameter("limit").map(|limit| limit.parse::<usize>()) {
        None => usize::MAX,
        Some(Ok(limit)) => limit,
        Some(Err(_)) => return Err(Refusal::bad_request("`limit` is no number")),
    };
    let mut found: Vec<Change> = Vec::new();
    let mut outcome = Ok(());
    let mut last_seq = snapshot.info().update_seq;
    snapshot.changes(since, Direction::Ascending, &mut |change| {
        let passes = match &mut filter {
            None => Ok(true),
            Some(filter) => filter.passes(&snapshot, &change),
        };
        match passes {
            Ok(false) => {}
            Ok(true) if found.len() < limit => found.push(change),
            Ok(true) => {
                last_seq = found.last().map_or(since, |last| last.seq);
                return ControlFlow::Break(());
            }
            Err(error) => {
                outcome = Err(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    outcome?;
    let rows: Vec<Vec<u8>> = found.iter().map(|change| change_row(&snapshot, change)).collect();
    let mut body = b"{\"results\":[\n".to_vec();
    body.extend_from_slice(&rows.join(&b",\r\n"[..]));
    let pending = snapshot.pending_changes(last_seq)?;
    let last_seq = sequence(&snapshot, last_seq);
    let end = format!("\n],\n\"last_seq\":{last_seq},\"pending\":{pending}}}\n\n");
    body.extend_from_slice(end.as_bytes());
    Ok(Response::json_text(200, body))
}

/// Where the feed begins: at a sequence that was given out, at its beginning or its end.
fn since(snapshot: &DbSnapshot, request: &Request) -> Outcome<u64> {
    let newest = snapshot.info().update_seq;
    match request.parameter("since").as_deref() {
        None | Some("" | "0") => Ok(0),
        Some("now") => Ok(newest),
        Some(text) => {
            let seq = text.split('-').next().and_then(|number| number.parse().ok());
            let given = |seq: &u64| sequence(snapshot, *seq) == Json::from(text);
            let malformed =
                || Refusal::bad_request("Malformed sequence supplied in 'since' parameter.");
            seq.filter(given).ok_or_else(malformed)
        }
    }
}

fn change_row(snapshot: &DbSnapshot, change: &Change) -> Vec<u8> {
    let rev = object([("rev", rev_json(change.winner()))]);
    let mut members = vec![
        ("seq".to_owned(), sequence(snapshot, change.seq)),
        ("id".to_owned(), Json::from(change.id.as_str())),
        ("changes".to_owned(), Json::Array(vec![rev])),
    ];
    if change.deleted() {
        members.push(("deleted".to_owned(), Json::Bool(true)));
    }
    Json::Object(members).to_string().into_bytes()
}

/// A filter function of the feed.
struct Filter {
    functions: Functions,
    name: String,
    request: Json,
}

impl Filter {
    fn find(node: &Node, open: &OpenDatabase, named: &str, request: &Request) -> Outcome<Filter> {
        let Some((design, name)) = named.split_once('/') else {
            let reason = "filter parameter must be of the form `designname/filtername`";
            return Err(Refusal::bad_request(reason));
        };
        let functions = functions(node, open, &format!("_design/{design}"), ["filters", name])?;
        let request = request_json(node, open, request, Json::Null)?;
        Ok(Filter { functions, name: name.to_owned(), request })
    }

    fn passes(&mut self, snapshot: &DbSnapshot, change: &Change) -> Result<bool> {
        let Some(document) = snapshot.winner(&change.id)? else { return Ok(false) };
        let document = document.to_json(&Default::default());
        self.functions.filter(&["filters", &self.name], &document, &self.request)
    }
}

/// The functions of a database that decide whether a document may be written.
pub(super) struct Validators {
    snapshot: DbSnapshot,
    /// By the id of their design document.
    functions: BTreeMap<String, Functions>,
}

impl Validators {
    /// Those of all design documents. Cost: reads each of these.
    pub(super) fn of(node: &Node, open: &OpenDatabase) -> Result<Validators> {
        let snapshot = open.database.snapshot()?;
        let mut ids = Vec::new();
        snapshot.all_docs(&Ids::of_designs().range(), Direction::Ascending, &mut |summary| {
            if !summary.deleted {
                ids.push(summary.id);
            }
            ControlFlow::Continue(())
        })?;
        let mut functions = BTreeMap::new();
        for id in ids {
            let design = snapshot.document(&id, None)?.to_json(&Default::default());
            if design.member("validate_doc_update").is_some() {
                functions.insert(id, node.functions(&design)?);
            }
        }
        Ok(Validators { snapshot, functions })
    }

    /// Whether all of them let `json` be written as the document `id`.
    // spec: HTTP-5
    pub(super) fn check(
        &mut self,
        open: &OpenDatabase,
        id: &DocId,
        draft: &Draft,
        json: &Json,
    ) -> Outcome<()> {
        if self.functions.is_empty() {
            return Ok(());
        }
        let old = match self.snapshot.winner(id.as_str())? {
            Some(document) => document.to_json(&Default::default()),
            None => Json::Null,
        };
        let document = with_id(id, draft.path.newest(), json);
        for functions in self.functions.values_mut() {
            functions.validate(&document, &old, &user(open), &Json::Object(Vec::new()))?;
        }
        Ok(())
    }
}

/// A document as functions see it: its id and its revision before everything else.
fn with_id(id: &DocId, rev: Option<Rev>, json: &Json) -> Json {
    let mut members = vec![("_id".to_owned(), Json::from(id.as_str()))];
    members.extend(rev.map(|rev| ("_rev".to_owned(), rev_json(&rev))));
    if let Json::Object(own) = json {
        let own = own.iter().filter(|(name, _)| name != "_id" && name != "_rev");
        members.extend(own.cloned());
    }
    Json::Object(members)
}
