//! The feed of a database, with a filter function if one is named.
//!
//! Invariant: the feed and the documents that its filter sees are of one state.

use std::ops::ControlFlow;

use crate::db::{Change, DbSnapshot};
use crate::error::Result;
use crate::vocabulary::{Direction, Json};

use super::databases::sequence;
use super::design_functions::{Design, request_json};
use super::node::{Node, OpenDatabase};
use super::refusal::{Outcome, Refusal};
use super::request::Request;
use super::response::{Response, object, rev_json};
use super::router::Answer;

/// `GET /db/_changes`: once through the feed, with a filter if one is named.
pub(super) fn changes(node: &Node, open: &OpenDatabase, request: &Request) -> Answer {
    let snapshot = open.database.snapshot()?;
    let filter = match request.parameter("filter") {
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
        let passes = match &filter {
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
struct Filter<'a> {
    node: &'a Node,
    open: &'a OpenDatabase,
    design: Design,
    name: String,
    request: Json,
}

impl Filter<'_> {
    fn find<'a>(
        node: &'a Node,
        open: &'a OpenDatabase,
        named: &str,
        request: &Request,
    ) -> Outcome<Filter<'a>> {
        let Some((design, name)) = named.split_once('/') else {
            let reason = "filter parameter must be of the form `designname/filtername`";
            return Err(Refusal::bad_request(reason));
        };
        let design = Design::find(open, &format!("_design/{design}"))?;
        design.member(["filters", name])?;
        let request = request_json(node, open, request, Json::Null)?;
        Ok(Filter { node, open, design, name: name.to_owned(), request })
    }

    fn passes(&self, snapshot: &DbSnapshot, change: &Change) -> Result<bool> {
        let Some(document) = snapshot.winner(&change.id)? else { return Ok(false) };
        let document = document.to_json(&Default::default());
        self.open.call(self.node, &self.design, |functions| {
            functions.filter(&["filters", &self.name], &document, &self.request)
        })
    }
}
