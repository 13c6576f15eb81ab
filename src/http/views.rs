//! Requests about views: queries, and what keeps their indexes.
//!
//! ```text
//!   design document ──> DesignDoc ──> Index ──snapshot──> rows and documents of one state
//!                                                   ╲
//!   URL, body ──> ViewQuery ──────────────────────── run ──> body, row by row
//! ```
//!
//! Invariant: what a query shows is of one state of the database: rows, documents and sequence.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::doc::write_shown;
use crate::error::{Error, Result};
use crate::mark;
use crate::view::design::{DesignDoc, Signature};
use crate::view::function_reducer::REDUCE_OVERFLOW_ERROR;
use crate::view::index::{Index, IndexSnapshot};
use crate::view::query::{QueryHeader, QueryRow, ViewQuery, run};
use crate::vocabulary::Json;

use super::databases::sequence;
use super::design_functions::Design;
use super::node::{Node, OpenDatabase};
use super::refusal::{Outcome, Refusal};
use super::request::Request;
use super::response::{Response, object};
use super::router::Answer;

/// The index of a design document, which nothing has been read of yet.
fn index_of(node: &Node, open: &OpenDatabase, design: &DesignDoc) -> Result<Arc<Index>> {
    let Some(language) = node.language(&design.language) else {
        let name = "unknown_query_language".to_owned();
        return Err(Error::Function { name, reason: design.language.clone() });
    };
    open.views.index(design, language)
}

/// A view that may be asked.
struct Asked {
    index: Arc<Index>,
    number: usize,
    reduces: bool,
}

impl Asked {
    fn find(node: &Node, open: &OpenDatabase, design: &Design, name: &str) -> Outcome<Asked> {
        let design = DesignDoc::parse(&design.json)?;
        let missing = || Error::Missing { what: "view", name: name.to_owned() };
        let number = design.view(name).ok_or_else(missing)?;
        let reduces = design.views.get(number).is_some_and(|view| view.reduce.is_some());
        let index = index_of(node, open, &design).map_err(Refusal::traced)?;
        Ok(Asked { index, number, reduces })
    }
}

/// `GET` and `POST /db/_design/d/_view/v`.
// spec: HTTP-6
pub(super) fn query(
    node: &Node,
    open: &OpenDatabase,
    id: &str,
    name: &str,
    request: &Request,
) -> Answer {
    let body = match request.method.as_str() {
        "POST" => {
            request.expect_json_type()?;
            Some(request.json_object()?)
        }
        _ => None,
    };
    // A design document that is not there is missed before anything that is asked of it.
    let early = match mark::planted("parameters-before-the-design-document") {
        true => None,
        false => Some(Design::find(open, id)?),
    };
    let parameters = request.query();
    let parameters = parameters.iter().map(|(name, value)| (&**name, value));
    let query = ViewQuery::read(parameters, body.as_ref())?;
    let design = early.map_or_else(|| Design::find(open, id), Ok)?;
    let asked = Asked::find(node, open, &design, name)?;
    let mut answer = Vec::new();
    answer_query(&asked, &query, &mut answer)?;
    answer.push(b'\n');
    Ok(Response::json_text(200, answer))
}

/// `POST /db/_design/d/_view/v/queries`.
pub(super) fn queries(
    node: &Node,
    open: &OpenDatabase,
    id: &str,
    name: &str,
    request: &Request,
) -> Answer {
    request.expect_json_type()?;
    let body = request.json_object()?;
    let asked = match body.member("queries") {
        Some(Json::Array(queries)) => queries,
        Some(_) => return Err(Refusal::bad_request("`queries` member must be an array.")),
        None => {
            let reason = "POST body must include `queries` parameter.";
            return Err(Refusal::bad_request(reason));
        }
    };
    let read = |body: &Json| ViewQuery::read(std::iter::empty::<(&str, &[u8])>(), Some(body));
    let queries = asked.iter().map(read).collect::<Result<Vec<ViewQuery>>>()?;
    let asked = Asked::find(node, open, &Design::find(open, id)?, name)?;
    let mut answers = Vec::new();
    for query in &queries {
        let mut answer = Vec::new();
        answer_query(&asked, query, &mut answer)?;
        answers.push(answer);
    }
    let mut body = b"{\"results\":[\r\n".to_vec();
    body.extend_from_slice(&answers.join(&b",\r\n"[..]));
    body.extend_from_slice(if answers.is_empty() { b"]}\n" } else { b"\r\n]}\n" });
    Ok(Response::json_text(200, body))
}

/// Appends what a query answers, without a line end behind it.
fn answer_query(asked: &Asked, query: &ViewQuery, out: &mut Vec<u8>) -> Outcome<()> {
    query.check(asked.reduces)?;
    let snapshot = asked.index.snapshot(query.update).map_err(Refusal::traced)?;
    put_answer(asked, &snapshot, query, out).map_err(Refusal::traced)
}

fn put_answer(
    asked: &Asked,
    snapshot: &IndexSnapshot,
    query: &ViewQuery,
    out: &mut Vec<u8>,
) -> Result<()> {
    let missing = || Error::Missing { what: "view", name: asked.number.to_string() };
    let view = snapshot.view(asked.number).ok_or_else(missing)?;
    let mut rows: Vec<u8> = Vec::new();
    let header = run(&view, Some(snapshot.db()), query, &mut |row| {
        if !rows.is_empty() {
            rows.extend_from_slice(b",\r\n");
        }
        put_row(&row, &mut rows)?;
        Ok(ControlFlow::Continue(()))
    })?;
    out.push(b'{');
    if let QueryHeader::Rows { total_rows, offset } = header {
        let numbers = format!("\"total_rows\":{total_rows},\"offset\":{offset},");
        out.extend_from_slice(numbers.as_bytes());
    }
    if query.update_seq {
        let seq = sequence(snapshot.db(), snapshot.update_seq());
        out.extend_from_slice(format!("\"update_seq\":{seq},").as_bytes());
    }
    out.extend_from_slice(b"\"rows\":[\r\n");
    out.extend_from_slice(&rows);
    out.extend_from_slice(b"\r\n]}");
    Ok(())
}

fn put_row(row: &QueryRow<'_>, out: &mut Vec<u8>) -> Result<()> {
    match row {
        QueryRow::Row { id, key, value, doc } => {
            out.extend_from_slice(b"{\"id\":");
            write_shown(&Json::from(*id), out);
            out.extend_from_slice(b",\"key\":");
            put_stored(key, out)?;
            out.extend_from_slice(b",\"value\":");
            put_stored(value, out)?;
            if let Some(doc) = doc {
                out.extend_from_slice(b",\"doc\":");
                write_shown(doc, out);
            }
        }
        QueryRow::Group { key, value } => {
            out.extend_from_slice(b"{\"key\":");
            write_shown(key, out);
            // An error of a function takes the place of the value, not a place in it.
            let overflow = Some(&Json::from(REDUCE_OVERFLOW_ERROR));
            match value {
                Json::Object(members) if value.member("error") == overflow => {
                    for (name, value) in members {
                        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                        write_shown(value, out);
                    }
                }
                _ => {
                    out.extend_from_slice(b",\"value\":");
                    write_shown(value, out);
                }
            }
        }
    }
    out.push(b'}');
    Ok(())
}

/// Appends stored JSON as it is shown, which is another text only where a zero has a sign.
fn put_stored(text: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if text.windows(4).any(|part| part == b"-0.0") {
        write_shown(&Json::parse(text)?, out);
    } else {
        out.extend_from_slice(text);
    }
    Ok(())
}

/// `GET /db/_design/d/_info`.
pub(super) fn info(node: &Node, open: &OpenDatabase, id: &str) -> Answer {
    let design = DesignDoc::parse(&Design::find(open, id)?.json)?;
    let index = index_of(node, open, &design).map_err(Refusal::traced)?;
    let info = index.info().map_err(Refusal::traced)?;
    let pending = open.database.snapshot()?.pending_changes(info.update_seq)?;
    let number = Json::unsigned;
    let pending = ["minimum", "preferred", "total"].map(|name| (name, number(pending)));
    let sizes = [("file", info.file_bytes), ("external", info.active_bytes)];
    let [file, external] = sizes.map(|(name, bytes)| (name, number(bytes)));
    let sizes = [file, external, ("active", number(info.active_bytes))];
    let view_index = object([
        ("updates_pending", object(pending)),
        ("waiting_commit", Json::Bool(false)),
        ("waiting_clients", number(info.waiting_clients)),
        ("updater_running", Json::Bool(info.updater_running)),
        ("update_seq", number(info.update_seq)),
        ("sizes", object(sizes)),
        ("signature", Json::String(info.signature.to_string())),
        ("purge_seq", number(info.purge_seq)),
        ("language", Json::from(info.language.as_str())),
        ("compact_running", Json::Bool(info.compact_running)),
        ("collator_versions", Json::Array(vec![Json::from(COLLATOR)])),
    ]);
    let name = id.strip_prefix("_design/").unwrap_or(id);
    let members = [("name", Json::from(name)), ("view_index", view_index)];
    Ok(Response::json(200, &object(members)))
}

/// The version by which ICU 72 calls the root collation, whose order this is.
const COLLATOR: &str = "153.120";

/// `POST /db/_compact/d`.
pub(super) fn compact(node: &Node, open: &OpenDatabase, design: &str, request: &Request) -> Answer {
    request.expect_json_type()?;
    let design = DesignDoc::parse(&Design::find(open, &format!("_design/{design}"))?.json)?;
    let index = index_of(node, open, &design).map_err(Refusal::traced)?;
    index.compact(&mut || ControlFlow::Continue(())).map_err(Refusal::traced)?;
    Ok(Response::ok(202))
}

/// `POST /db/_view_cleanup`.
pub(super) fn clean_up(open: &OpenDatabase) -> Answer {
    let designs = Design::all(&open.database.snapshot()?)?;
    // What is no design document has no index.
    let design = |design: &Design| DesignDoc::parse(&design.json).ok();
    let kept: Vec<Signature> =
        designs.iter().filter_map(design).map(|design| design.signature()).collect();
    open.views.clean_up(&kept)?;
    Ok(Response::ok(202))
}
