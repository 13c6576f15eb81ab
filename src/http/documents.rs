//! Requests about documents.
//!
//! ```text
//!   body ──> Draft ──> design document? its forms, its functions
//!                  ──> other: every `validate_doc_update` of the database
//!                  ──> Database::edit or Database::merge ──> revision
//! ```
//!
//! Invariant: a document that a function of the database refuses is not written.

use crate::db::DocEdit;
use crate::doc::{DocId, Draft};
use crate::error::Error;
use crate::mark;
use crate::view::design::DesignDoc;
use crate::view::query::{DocShown, document_shown};
use crate::vocabulary::{Json, Rev, RevPath};

use super::databases::located;
use super::design_functions::Validators;
use super::node::{Node, OpenDatabase};
use super::refusal::{Outcome, Refusal};
use super::request::{Request, escaped};
use super::response::{Response, object, rev_json};
use super::router::Answer;

/// `GET /db/doc`.
pub(super) fn read(open: &OpenDatabase, id: &str, request: &Request) -> Answer {
    let snapshot = open.database.snapshot()?;
    let rev = request.parameter("rev").map(|rev| rev.parse::<Rev>()).transpose()?;
    // Tells what is missing from what is deleted, which the document beside a row does not.
    let found = snapshot.document(id, rev.as_ref())?;
    let shown = DocShown {
        conflicts: request.says("conflicts"),
        attachments: request.says("attachments"),
        att_encoding_info: request.says("att_encoding_info"),
    };
    let document = document_shown(&snapshot, id, rev.as_ref(), shown)?;
    let response = Response::json(200, &document);
    Ok(match found.rev() {
        Some(rev) => response.with_rev(&rev),
        None => response,
    })
}

/// `GET /db/doc/attachment`.
pub(super) fn attachment(open: &OpenDatabase, id: &str, name: &str) -> Answer {
    let content = open.database.snapshot()?.attachment(id, None, name)?;
    let (content_type, digest) = {
        let record = content.record();
        (record.content_type.clone(), record.digest.to_string())
    };
    let body = content.read_all()?;
    let tag = digest.strip_prefix("md5-").unwrap_or(&digest);
    let response = Response { status: 200, headers: Vec::new(), body };
    Ok(response.with("content-type", content_type).with("etag", format!("\"{tag}\"")))
}

/// The revision that a request names in its query or as the tag that must match.
fn base(request: &Request) -> Outcome<Option<Rev>> {
    let tag = request.header("if-match").map(|tag| tag.trim_matches('"').to_owned());
    let named = request.parameter("rev");
    match (named, tag) {
        (Some(named), Some(tag)) if named != tag => {
            Err(Refusal::bad_request("Document rev and etag have different values"))
        }
        (named, tag) => Ok(named.or(tag).map(|rev| rev.parse::<Rev>()).transpose()?),
    }
}

fn written(request: &Request, open: &OpenDatabase, status: u16, id: &DocId, rev: &Rev) -> Response {
    let path = format!("/{}/{}", escaped(&open.name), escaped(id.as_str()));
    let response = Response::json(status, &written_row(id, rev)).with_rev(rev);
    response.with("location", located(request, &path))
}

fn written_row(id: &DocId, rev: &Rev) -> Json {
    object([("ok", Json::Bool(true)), ("id", Json::from(id.as_str())), ("rev", rev_json(rev))])
}

/// `PUT /db/doc`.
pub(super) fn write(node: &Node, open: &OpenDatabase, id: &DocId, request: &Request) -> Answer {
    let json = request.json()?;
    let mut draft = Draft::from_json(json.clone())?;
    let replicated = request.parameter("new_edits").as_deref() == Some("false");
    match base(request)? {
        Some(base) if draft.path.ids.is_empty() => draft.path = RevPath::of(base),
        Some(base) if draft.path.newest() != Some(base.clone()) => {
            let reason = "Document rev from request body and query string have different values";
            return Err(Refusal::bad_request(reason));
        }
        _ => {}
    }
    let status = if draft.deleted { 200 } else { 201 };
    let rev = write_one(node, open, id, draft, &json, replicated)?;
    Ok(written(request, open, status, id, &rev))
}

/// `DELETE /db/doc`.
pub(super) fn delete(node: &Node, open: &OpenDatabase, id: &DocId, request: &Request) -> Answer {
    open.database.snapshot()?.document(id.as_str(), None)?;
    let json = object([("_deleted", Json::Bool(true))]);
    let mut draft = Draft::from_json(json.clone())?;
    draft.path = base(request)?.map(RevPath::of).unwrap_or_default();
    let rev = write_one(node, open, id, draft, &json, false)?;
    Ok(Response::json(200, &written_row(id, &rev)).with_rev(&rev))
}

/// Writes one document, and gives its revision.
pub(super) fn write_one(
    node: &Node,
    open: &OpenDatabase,
    id: &DocId,
    draft: Draft,
    json: &Json,
    replicated: bool,
) -> Outcome<Rev> {
    check(node, open, &mut None, id, &draft, json)?;
    let edits = vec![DocEdit { id: id.clone(), draft, uploads: Vec::new() }];
    let replies = match replicated {
        true => open.database.merge(edits)?,
        false => open.database.edit(edits)?,
    };
    let reply = replies.into_iter().next();
    // One edit has one reply.
    reply.unwrap_or_else(|| Err(Error::Cancelled { operation: "write" })).map_err(Refusal::from)
}

/// Whether a document may be written, as far as design documents decide.
// spec: HTTP-5
fn check(
    node: &Node,
    open: &OpenDatabase,
    validators: &mut Option<Validators>,
    id: &DocId,
    draft: &Draft,
    json: &Json,
) -> Outcome<()> {
    if id.is_local() {
        return Ok(());
    }
    if id.is_design() {
        return if draft.deleted { Ok(()) } else { check_design(node, json) };
    }
    if validators.is_none() {
        *validators = Some(Validators::of(open)?);
    }
    match validators {
        Some(validators) => validators.check(node, open, id, draft, json),
        None => Ok(()),
    }
}

/// A design document must be one, and its functions must compile where anything can run them.
fn check_design(node: &Node, json: &Json) -> Outcome<()> {
    let design = DesignDoc::parse(json)?;
    if let Some(language) = node.language(&design.language)
        && !design.views.is_empty()
        && !mark::planted("functions-not-compiled")
    {
        design.check_functions(&**language).map_err(Refusal::of_write)?;
    }
    Ok(())
}

/// `POST /db/_bulk_docs`.
pub(super) fn write_many(node: &Node, open: &OpenDatabase, request: &Request) -> Answer {
    request.expect_json_type()?;
    let body = request.json_object()?;
    let documents = match body.member("docs") {
        Some(Json::Array(documents)) => documents,
        Some(_) => return Err(Refusal::bad_request("`docs` parameter must be an array.")),
        None => return Err(Refusal::bad_request("POST body must include `docs` parameter.")),
    };
    let replicated = body.member("new_edits") == Some(&Json::Bool(false));
    let mut validators = None;
    let mut edits = Vec::new();
    // For each document its id, and why it is not written.
    let mut refused: Vec<(DocId, Option<Refusal>)> = Vec::new();
    for document in documents {
        let draft = Draft::from_json(document.clone())?;
        if replicated && draft.path.ids.is_empty() {
            let reason = "When `new_edits: false`, the document needs `_rev` or `_revisions` \
                          specified";
            return Err(Refusal::bad_request(reason));
        }
        let id = match &draft.id {
            Some(id) => id.clone(),
            None => DocId::new(node.uuid()?)?,
        };
        let checked = check(node, open, &mut validators, &id, &draft, document);
        if checked.is_ok() {
            edits.push(DocEdit { id: id.clone(), draft, uploads: Vec::new() });
        }
        refused.push((id, checked.err()));
    }
    let replies = match replicated {
        true => open.database.merge(edits)?,
        false => open.database.edit(edits)?,
    };
    let mut replies = replies.into_iter();
    let row = |(id, refused): (DocId, Option<Refusal>)| {
        let outcome = match refused {
            Some(refusal) => Err(refusal),
            None => replies.next().map(|reply| reply.map_err(Refusal::from))?,
        };
        match outcome {
            // Of replicated documents only those that failed are named.
            Ok(_) if replicated => None,
            Ok(rev) => Some(written_row(&id, &rev)),
            Err(refusal) => Some(refusal.row(id.as_str())),
        }
    };
    Ok(Response::json(201, &Json::Array(refused.into_iter().filter_map(row).collect())))
}
