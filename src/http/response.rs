//! A response, and the forms that most of them have.
//!
//! Invariant: an answer in JSON ends with a line end and says its type.

use crate::doc::write_shown;
use crate::vocabulary::{Json, Rev};

/// An HTTP response.
///
/// ```
/// use rereduce::env::Env;
/// use rereduce::http::{Node, NodeOptions, Request, handle};
/// let node = Node::open(Env::memory(), "data".as_ref(), NodeOptions::default());
/// let response = handle(&node, Request::new("PUT", "/db"));
/// assert_eq!((response.status, response.body.as_slice()), (201, &b"{\"ok\":true}\n"[..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// 200, 404, ...
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// An answer in JSON.
    pub(super) fn json(status: u16, json: &Json) -> Response {
        let mut body = Vec::new();
        write_shown(json, &mut body);
        body.push(b'\n');
        Response::json_text(status, body)
    }

    /// An answer in JSON that is text already.
    pub(super) fn json_text(status: u16, body: Vec<u8>) -> Response {
        let response = Response { status, headers: Vec::new(), body };
        response.with("content-type", "application/json").with("cache-control", "must-revalidate")
    }

    /// `{"ok":true}`.
    pub(super) fn ok(status: u16) -> Response {
        Response::json(status, &object([("ok", Json::Bool(true))]))
    }

    /// The same answer with one header more.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Response {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same answer with a revision as its tag.
    pub(super) fn with_rev(self, rev: &Rev) -> Response {
        self.with("etag", format!("\"{rev}\""))
    }
}

/// An object of these members.
pub(super) fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A revision as JSON.
pub(super) fn rev_json(rev: &Rev) -> Json {
    Json::String(rev.to_string())
}
