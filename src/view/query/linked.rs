//! Documents beside rows: the one that emitted a row, or the one that its value links to.
//!
//! Invariant: a document is read from the snapshot that the rows are of, so a row and its document
//! are of one state.

use crate::db::DbSnapshot;
use crate::doc::{AttachmentShown, Document, Show};
use crate::error::{Error, Result};
use crate::mark;
use crate::vocabulary::{Json, Rev};

use super::ViewQuery;

/// What to show of a document beside a row.
///
/// ```
/// use rereduce::view::query::DocShown;
/// assert!(!DocShown::default().conflicts);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocShown {
    /// Its conflicts.
    pub conflicts: bool,
    /// The content of its attachments.
    pub attachments: bool,
    /// How its attachments are encoded.
    pub att_encoding_info: bool,
}

impl DocShown {
    /// What `query` asks for.
    pub fn of(query: &ViewQuery) -> DocShown {
        DocShown {
            conflicts: query.conflicts == Some(true),
            attachments: query.attachments,
            att_encoding_info: query.att_encoding_info,
        }
    }
}

/// The document `id` as it is shown beside a row: its winner, or revision `rev` even if that is a
/// deletion. Null if it is not there, or if its winner is deleted and no revision was named.
///
/// Cost: that of [`DbSnapshot::document`], and the content of attachments if it is asked for.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::Env;
/// use rereduce::view::query::{DocShown, document_shown};
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// db.edit(vec![DocEdit::parse("a", br#"{"v":1}"#)?])?;
/// let shown = document_shown(&db.snapshot()?, "b", None, DocShown::default())?;
/// assert_eq!(shown.to_string(), "null");
/// # Ok::<(), rereduce::Error>(())
/// ```
pub fn document_shown(
    snapshot: &DbSnapshot,
    id: &str,
    rev: Option<&Rev>,
    shown: DocShown,
) -> Result<Json> {
    let document = match snapshot.document(id, rev) {
        Ok(document) => document,
        Err(Error::Missing { .. } | Error::Deleted { .. } | Error::BadInput { .. }) => {
            return Ok(Json::Null);
        }
        Err(error) => return Err(error),
    };
    let conflicts = match shown.conflicts {
        true => conflicts(snapshot, &document)?,
        false => Vec::new(),
    };
    let contents = match shown.attachments {
        true => contents(snapshot, &document)?,
        false => Vec::new(),
    };
    let show = Show {
        conflicts,
        attachments: contents.iter().map(|content| AttachmentShown::Inline(content)).collect(),
        encoding_info: shown.att_encoding_info,
        ..Show::default()
    };
    Ok(document.to_json(&show))
}

/// The live leaves beside the winner, for the winner alone.
fn conflicts(snapshot: &DbSnapshot, document: &Document) -> Result<Vec<Rev>> {
    let id = document.id.as_str();
    let winner = snapshot.summary(id)?.map(|summary| summary.rev);
    match winner == document.rev() {
        true => Ok(snapshot.conflicts(id)?.0),
        false => Ok(Vec::new()),
    }
}

fn contents(snapshot: &DbSnapshot, document: &Document) -> Result<Vec<Vec<u8>>> {
    let (id, rev) = (document.id.as_str(), document.rev());
    let read = |name: &str| snapshot.attachment(id, rev.as_ref(), name)?.read_all();
    document.attachments.iter().map(|attachment| read(&attachment.name)).collect()
}

/// The document beside a row that `id` emitted with `value`: another one if the value has an
/// `_id`, and a revision of it if it has a `_rev`.
// spec: QUERY-9
pub(super) fn beside(
    snapshot: &DbSnapshot,
    id: &str,
    value: &[u8],
    shown: DocShown,
) -> Result<Json> {
    // Most values are no objects; those need not be read.
    let is_object = value.first() == Some(&b'{') && !mark::planted("links-not-followed");
    let link = if is_object { Json::parse(value).ok() } else { None };
    let member = |name| link.as_ref().and_then(|link| link.member(name));
    let id = match member("_id") {
        Some(Json::String(linked)) => linked,
        Some(_) => return Ok(Json::Null),
        None => id,
    };
    match member("_rev").map(|rev| rev.as_str().map(str::parse::<Rev>)) {
        None => document_shown(snapshot, id, None, shown),
        Some(Some(Ok(rev))) => document_shown(snapshot, id, Some(&rev), shown),
        Some(_) => Ok(Json::Null),
    }
}
