//! Requests about a database as a whole.

use std::ops::{Bound, ControlFlow};

use crate::db::{DbSnapshot, DocSummary};
use crate::mark;
use crate::view::query::{DocShown, ViewQuery, document_shown};
use crate::vocabulary::{Direction, Json, KeyRange};

use super::node::{Node, OpenDatabase};
use super::refusal::{Outcome, Refusal};
use super::request::{Request, escaped};
use super::response::{Response, object, rev_json};
use super::router::Answer;

/// `PUT /db`.
pub(super) fn create(node: &Node, name: &str, request: &Request) -> Answer {
    if !is_name(name) {
        let reason = format!(
            "Name: '{name}'. Only lowercase characters (a-z), digits (0-9), and any of the \
             characters _, $, (, ), +, -, and / are allowed. Must begin with a letter."
        );
        return Err(Refusal::new(400, "illegal_database_name", reason));
    }
    match node.create(name)? {
        Some(_) => {
            let place = located(request, &format!("/{}", escaped(name)));
            Ok(Response::ok(201).with("location", place))
        }
        None => {
            let reason = "The database could not be created, the file already exists.";
            Err(Refusal::new(412, "file_exists", reason))
        }
    }
}

fn is_name(name: &str) -> bool {
    let inside =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_$()+-/".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(inside)
}

/// A place as `location` names it: whole if the client said whom it asked.
pub(super) fn located(request: &Request, path: &str) -> String {
    match request.header("host") {
        Some(host) => format!("http://{host}{path}"),
        None => path.to_owned(),
    }
}

/// `POST /db/_compact`: the database.
pub(super) fn compact(open: &OpenDatabase, request: &Request) -> Answer {
    request.expect_json_type()?;
    open.database.compact(&mut || ControlFlow::Continue(()))?;
    Ok(Response::ok(202))
}

/// The sequence `seq` of a database, as the feed and queries show it.
pub(super) fn sequence(snapshot: &DbSnapshot, seq: u64) -> Json {
    let database = snapshot.standing().database;
    Json::String(format!("{seq}-{database}"))
}

/// Ids between two edges, which lie between ids.
pub(super) struct Ids {
    low: Vec<u8>,
    high: Vec<u8>,
}

impl Ids {
    /// Every id: none has a byte like the high edge.
    pub(super) fn all() -> Ids {
        Ids { low: Vec::new(), high: vec![0xff] }
    }

    /// Those of design documents; a zero comes behind the slash.
    pub(super) fn of_designs() -> Ids {
        Ids { low: b"_design/".to_vec(), high: b"_design0".to_vec() }
    }

    pub(super) fn range(&self) -> KeyRange {
        KeyRange {
            start: Bound::Included(self.low.clone()),
            end: Bound::Excluded(self.high.clone()),
        }
    }
}

/// The edge before or behind the id `key`. What is no string stands before or behind all ids.
fn edge(key: &Json, behind: bool) -> Vec<u8> {
    match key {
        Json::String(id) if behind => [id.as_bytes(), &[0]].concat(),
        Json::String(id) => id.as_bytes().to_vec(),
        Json::Array(_) | Json::Object(_) => vec![0xff],
        _ => Vec::new(),
    }
}

/// `GET /db/_all_docs`, and `_design_docs`, which are those of `within`.
// spec: HTTP-4
pub(super) fn all_docs(open: &OpenDatabase, request: &Request, within: &Ids) -> Answer {
    let query = request.query();
    let query = ViewQuery::read(query.iter().map(|(name, value)| (&**name, value)), None)?;
    // A listing of documents takes what a view without a reducer takes.
    query.check(false)?;
    let snapshot = open.database.snapshot()?;
    let listing = Listing { snapshot: &snapshot, query: &query };
    let (offset, rows) = match &query.keys {
        Some(Json::Array(keys)) => (Json::Null, listing.of_keys(keys)?),
        _ => listing.of_range(within)?,
    };
    let total = snapshot.count_docs(&within.range())?.live;
    let mut body = format!("{{\"total_rows\":{total},\"offset\":{offset},").into_bytes();
    if query.update_seq {
        let seq = sequence(&snapshot, snapshot.info().update_seq);
        body.extend_from_slice(format!("\"update_seq\":{seq},").as_bytes());
    }
    put_rows(&rows, &mut body);
    body.extend_from_slice(b"}\n");
    Ok(Response::json_text(200, body))
}

/// Appends rows as CouchDB lays them out, each on a line.
pub(super) fn put_rows(rows: &[Vec<u8>], body: &mut Vec<u8>) {
    body.extend_from_slice(b"\"rows\":[\r\n");
    body.extend_from_slice(&rows.join(&b",\r\n"[..]));
    body.extend_from_slice(b"\r\n]");
}

/// A listing of documents while it is made.
struct Listing<'a> {
    snapshot: &'a DbSnapshot,
    query: &'a ViewQuery,
}

impl Listing<'_> {
    /// The documents of a list, found or not.
    fn of_keys(&self, keys: &[Json]) -> Outcome<Vec<Vec<u8>>> {
        let mut keys: Vec<&Json> = keys.iter().collect();
        if self.query.descending {
            keys.reverse();
        }
        let skip = usize::try_from(self.query.skip).unwrap_or(usize::MAX);
        let limit = usize::try_from(self.query.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        for key in keys.into_iter().skip(skip).take(limit) {
            let summary = match key.as_str() {
                Some(id) => self.snapshot.summary(id)?,
                None => None,
            };
            let missing = || {
                let row = object([("key", key.clone()), ("error", Json::from("not_found"))]);
                Ok(row.to_string().into_bytes())
            };
            rows.push(summary.map_or_else(missing, |summary| self.row(&summary))?);
        }
        Ok(rows)
    }

    /// The documents of a range: how many live ones come before it, and the rows.
    fn of_range(&self, within: &Ids) -> Outcome<(Json, Vec<Vec<u8>>)> {
        let query = self.query;
        let edge_of = |key: &Option<Json>, behind| key.as_ref().map(|key| edge(key, behind));
        let start = edge_of(&query.start_key, query.descending);
        let end = edge_of(&query.end_key, query.inclusive_end != query.descending);
        let (low, high) = if query.descending { (end, start) } else { (start, end) };
        let low = low.map_or(within.low.clone(), |low| low.max(within.low.clone()));
        let high = high.map_or(within.high.clone(), |high| high.min(within.high.clone()));
        let (before, direction) = match query.descending {
            false => (Ids { low: within.low.clone(), high: low.clone() }, Direction::Ascending),
            true => (Ids { low: high.clone(), high: within.high.clone() }, Direction::Descending),
        };
        let (mut skip, mut summaries) = (query.skip, Vec::new());
        let limit = usize::try_from(query.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        self.snapshot.all_docs(&Ids { low, high }.range(), direction, &mut |summary| {
            if summaries.len() >= limit {
                return ControlFlow::Break(());
            }
            match summary.deleted && !mark::planted("listing-shows-tombstones") {
                true => {}
                false if skip > 0 => skip -= 1,
                false => summaries.push(summary),
            }
            ControlFlow::Continue(())
        })?;
        let total = self.snapshot.count_docs(&within.range())?.live;
        let before = self.snapshot.count_docs(&before.range())?.live;
        let offset = Json::unsigned(before.saturating_add(query.skip).min(total));
        let rows: Outcome<Vec<Vec<u8>>> =
            summaries.iter().map(|summary| self.row(summary)).collect();
        Ok((offset, rows?))
    }

    fn row(&self, summary: &DocSummary) -> Outcome<Vec<u8>> {
        let id = Json::from(summary.id.as_str());
        let mut value = vec![("rev".to_owned(), rev_json(&summary.rev))];
        if summary.deleted {
            value.push(("deleted".to_owned(), Json::Bool(true)));
        }
        let mut members = vec![
            ("id".to_owned(), id.clone()),
            ("key".to_owned(), id),
            ("value".to_owned(), Json::Object(value)),
        ];
        if self.query.include_docs {
            let shown = DocShown::of(self.query);
            let doc = document_shown(self.snapshot, &summary.id, None, shown)?;
            members.push(("doc".to_owned(), doc));
        }
        Ok(Json::Object(members).to_string().into_bytes())
    }
}
