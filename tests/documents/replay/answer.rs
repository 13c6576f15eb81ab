//! Answers in CouchDB's words, made from what the database decided.

use rereduce::Error;
use rereduce::vocabulary::{Json, Rev};

/// HTTP's status, and what the body says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Body,
}

/// What a body says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Json(Json),
    /// The content of an attachment.
    Bytes(Vec<u8>),
}

pub(crate) fn json(status: u16, json: Json) -> Answer {
    Answer { status, body: Body::Json(json) }
}

pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

pub(crate) fn refused(status: u16, error: &str, reason: &str) -> Answer {
    json(status, object([("error", Json::from(error)), ("reason", Json::from(reason))]))
}

/// The reasons of a bad request are HTTP's; only that it is one is compared.
pub(crate) fn bad_request() -> Answer {
    refused(400, "bad_request", "")
}

pub(crate) fn rev_json(rev: &Rev) -> Json {
    Json::String(rev.to_string())
}

pub(crate) fn revs_json<'a>(revs: impl IntoIterator<Item = &'a Rev>) -> Json {
    Json::Array(revs.into_iter().map(rev_json).collect())
}

/// The answer to an edit of document `id` that failed.
pub(crate) fn failed(id: &str, error: &Error) -> Answer {
    match error {
        Error::Conflict { .. } => refused(409, "conflict", "Document update conflict."),
        Error::Deleted { .. } => refused(404, "not_found", "deleted"),
        Error::Missing { what: "attachment stub", name } => {
            let reason = format!("Invalid attachment stub in {id} for {name}");
            refused(412, "missing_stub", &reason)
        }
        Error::Missing { what: "attachment", .. } => {
            refused(404, "not_found", "Document is missing attachment")
        }
        Error::Missing { .. } => refused(404, "not_found", "missing"),
        Error::BadInput { .. } => bad_request(),
        other => panic!("{id}: {other}"),
    }
}
