//! The one router: which request goes where.
//!
//! Invariant: what a path does not answer is refused with the methods that it has, or is missing.

use crate::doc::DocId;
use crate::error::Result;
use crate::mark;

use super::databases::{self, Ids};
use super::node::{Node, OpenDatabase};
use super::refusal::{Outcome, Refusal};
use super::request::Request;
use super::response::Response;
use super::{changes, design_functions, documents, views};

/// What a request is answered with.
pub(super) type Answer = Outcome<Response>;

/// Answers one request.
///
/// Does all of its work before it returns, reading and writing the node's databases; the answer is
/// whole. Requests may be handled by any number of threads at once. Never panics, whatever the
/// request is; what goes wrong is an answer of its own.
///
/// ```
/// use rereduce::env::Env;
/// use rereduce::http::{Node, NodeOptions, Request, handle};
/// let node = Node::open(Env::memory(), "data".as_ref(), NodeOptions::default());
/// handle(&node, Request::new("PUT", "/db"));
/// let response = handle(&node, Request::new("PUT", "/db/a").with_json(r#"{"v":1}"#));
/// assert_eq!(response.status, 201);
/// assert_eq!(handle(&node, Request::new("GET", "/db/b")).status, 404);
/// assert_eq!(handle(&node, Request::new("DELETE", "/db/_design/d/_view/v")).status, 405);
/// ```
// spec: HTTP-1, HTTP-2
pub fn handle(node: &Node, request: Request) -> Response {
    let is_head = request.method == "HEAD";
    let mut response = route(node, &request).unwrap_or_else(|refused| refused.response());
    if is_head && !mark::planted("head-has-a-body") {
        response.body.clear();
    }
    response
}

fn route(node: &Node, request: &Request) -> Answer {
    let path = request.path();
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    // An answer without its body is worked out like one with it.
    let method = if request.method == "HEAD" { "GET" } else { request.method.as_str() };
    let Some((name, parts)) = parts.split_first() else {
        return Err(Refusal::not_found("missing"));
    };
    if parts.is_empty() && method == "PUT" {
        return databases::create(node, name, request);
    }
    let open = node.database(name)?;
    match (method, parts) {
        ("POST", ["_bulk_docs"]) => documents::write_many(node, &open, request),
        ("GET", ["_all_docs"]) => databases::all_docs(&open, request, &Ids::all()),
        ("GET", ["_design_docs"]) => databases::all_docs(&open, request, &Ids::of_designs()),
        ("GET", ["_changes"]) => changes::changes(node, &open, request),
        ("POST", ["_compact"]) => databases::compact(&open, request),
        ("POST", ["_compact", design]) => views::compact(node, &open, design, request),
        ("POST", ["_view_cleanup"]) => views::clean_up(&open),
        (_, ["_temp_view"]) => {
            let reason = "Temporary views are not supported in CouchDB";
            Err(Refusal::new(410, "gone", reason))
        }
        (_, ["_design", design, rest @ ..]) => {
            of_design(node, &open, &format!("_design/{design}"), rest, request, method)
        }
        (_, [id, rest @ ..]) if id.starts_with("_design/") && id.len() > "_design/".len() => {
            of_design(node, &open, id, rest, request, method)
        }
        (_, [id, rest @ ..]) => of_document(node, &open, id, rest, request, method),
        (_, []) => Err(Refusal::not_found("missing")),
    }
}

/// Requests below a design document.
fn of_design(
    node: &Node,
    open: &OpenDatabase,
    id: &str,
    rest: &[&str],
    request: &Request,
    method: &str,
) -> Answer {
    match (method, rest) {
        ("GET" | "POST", ["_view", name]) => views::query(node, open, id, name, request),
        ("POST", ["_view", name, "queries"]) => views::queries(node, open, id, name, request),
        (_, ["_view", _, "queries"]) => Err(Refusal::method("POST")),
        (_, ["_view", ..]) => Err(Refusal::method("GET,POST,HEAD")),
        ("GET", ["_info"]) => views::info(node, open, id),
        (_, ["_info"]) => Err(Refusal::method("GET")),
        ("GET" | "POST", ["_show", name, rest @ ..]) => {
            design_functions::show(node, open, id, name, rest, request)
        }
        ("GET" | "POST", ["_list", name, ..]) => design_functions::list(open, id, name),
        ("POST" | "PUT", ["_update", name, rest @ ..]) => {
            design_functions::update(node, open, id, name, rest, request)
        }
        _ => of_document(node, open, id, rest, request, method),
    }
}

/// Requests of a document, or of an attachment below it.
fn of_document(
    node: &Node,
    open: &OpenDatabase,
    id: &str,
    rest: &[&str],
    request: &Request,
    method: &str,
) -> Answer {
    if !rest.is_empty() {
        return match method {
            "GET" => documents::attachment(open, id, &rest.join("/")),
            _ => Err(Refusal::method("GET,HEAD")),
        };
    }
    match method {
        "GET" => documents::read(open, id, request),
        "PUT" => documents::write(node, open, &document_id(id)?, request),
        "DELETE" => documents::delete(node, open, &document_id(id)?, request),
        _ => Err(Refusal::method("DELETE,GET,HEAD,PUT")),
    }
}

fn document_id(id: &str) -> Result<DocId> {
    id.parse()
}
