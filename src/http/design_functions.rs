//! Requests that functions of a design document decide, other than those of its views: shows,
//! updates, and whether a document may be written.
//!
//! Invariant: a function is looked up and run in the state of its design document that the request
//! met.

use std::ops::ControlFlow;

use crate::db::DbSnapshot;
use crate::doc::{DocId, Draft};
use crate::error::{Error, Result};
use crate::mark;
use crate::vocabulary::{Direction, Json, Rev};

use super::databases::Ids;
use super::documents::write_one;
use super::node::{Node, OpenDatabase};
use super::refusal::{Outcome, Refusal};
use super::request::Request;
use super::response::{Response, object, rev_json};
use super::router::Answer;
use super::tag;

/// A design document in one state.
pub(super) struct Design {
    pub(super) id: String,
    pub(super) rev: Option<Rev>,
    pub(super) json: Json,
}

impl Design {
    /// The design document `id` as it is now.
    pub(super) fn find(open: &OpenDatabase, id: &str) -> Result<Design> {
        Design::in_state(&open.database.snapshot()?, id)
    }

    fn in_state(snapshot: &DbSnapshot, id: &str) -> Result<Design> {
        let document = snapshot.document(id, None)?;
        let json = document.to_json(&Default::default());
        Ok(Design { id: id.to_owned(), rev: document.rev(), json })
    }

    /// Every design document of a state. Cost: reads each of them.
    pub(super) fn all(snapshot: &DbSnapshot) -> Result<Vec<Design>> {
        let mut ids = Vec::new();
        snapshot.all_docs(&Ids::of_designs().range(), Direction::Ascending, &mut |summary| {
            if !summary.deleted {
                ids.push(summary.id);
            }
            ControlFlow::Continue(())
        })?;
        ids.iter().map(|id| Design::in_state(snapshot, id)).collect()
    }

    /// The member at `path`; CouchDB names the first that is missing.
    pub(super) fn member(&self, path: [&str; 2]) -> Result<&Json> {
        path.into_iter().try_fold(&self.json, |found, name| {
            let what = "member of a design document";
            found.member(name).ok_or_else(|| Error::Missing { what, name: name.to_owned() })
        })
    }
}

/// What a function sees of a request.
pub(super) fn request_json(
    node: &Node,
    open: &OpenDatabase,
    request: &Request,
    id: Json,
) -> Result<Json> {
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

/// The document that a show or an update is about, if one is named and there.
struct Subject {
    id: Json,
    rev: Option<Rev>,
    json: Json,
}

impl Subject {
    fn find(open: &OpenDatabase, rest: &[&str]) -> Result<Subject> {
        let id = rest.join("/");
        if id.is_empty() {
            return Ok(Subject { id: Json::Null, rev: None, json: Json::Null });
        }
        let (rev, json) = match open.database.snapshot()?.document(&id, None) {
            Ok(document) => (document.rev(), document.to_json(&Default::default())),
            Err(Error::Missing { .. } | Error::Deleted { .. }) => (None, Json::Null),
            Err(error) => return Err(error),
        };
        Ok(Subject { id: Json::String(id), rev, json })
    }
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
    let design = Design::find(open, id)?;
    design.member(path)?;
    let Subject { id, rev, json } = Subject::find(open, rest)?;
    let accept = request.header("accept");
    let tag = design.rev.as_ref().map(|design| tag::of_answer(design, rev.as_ref(), accept));
    let request = request_json(node, open, request, id)?;
    let shown = open.call(node, &design, |functions| functions.show(&path, &json, &request))?;
    let response = respond(200, &shown);
    Ok(match tag {
        Some(tag) => response.with("etag", tag),
        None => response,
    })
}

/// `GET /db/_design/d/_list/l/v`: lists of rows are not made here yet.
pub(super) fn list(open: &OpenDatabase, id: &str, name: &str) -> Answer {
    Design::find(open, id)?.member(["lists", name])?;
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
    let design = Design::find(open, id)?;
    design.member(path)?;
    let Subject { id, json, .. } = Subject::find(open, rest)?;
    let request = request_json(node, open, request, id)?;
    let (document, response) =
        open.call(node, &design, |functions| functions.update(&path, &json, &request))?;
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

/// The design documents of a database that decide whether a document may be written.
pub(super) struct Validators {
    snapshot: DbSnapshot,
    designs: Vec<Design>,
}

impl Validators {
    /// Those of the newest state. Cost: reads every design document.
    pub(super) fn of(open: &OpenDatabase) -> Result<Validators> {
        let snapshot = open.database.snapshot()?;
        let mut designs = Design::all(&snapshot)?;
        designs.retain(|design| design.json.member("validate_doc_update").is_some());
        Ok(Validators { snapshot, designs })
    }

    /// Whether all of them let `json` be written as the document `id`.
    // spec: HTTP-5
    pub(super) fn check(
        &self,
        node: &Node,
        open: &OpenDatabase,
        id: &DocId,
        draft: &Draft,
        json: &Json,
    ) -> Outcome<()> {
        if self.designs.is_empty() || mark::planted("validation-left-out") {
            return Ok(());
        }
        let old = match self.snapshot.winner(id.as_str())? {
            Some(document) => document.to_json(&Default::default()),
            None => Json::Null,
        };
        let document = with_id(id, draft.path.newest(), json);
        let (user, security) = (user(open), Json::Object(Vec::new()));
        for design in &self.designs {
            open.call(node, design, |functions| {
                functions.validate(&document, &old, &user, &security)
            })?;
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
