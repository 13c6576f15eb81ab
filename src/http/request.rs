//! A request, and how its path and its query are taken apart.
//!
//! ```text
//!   /db/_design/d/_view/a%2Fb?key=%22x%22&limit=1
//!   path     db, _design, d, _view, a/b          empty parts count for nothing
//!   query    key = "x", limit = 1                bytes, since escapes may hold any
//! ```
//!
//! Invariant: any target can be taken apart; an escape that is none stands for itself.

use crate::error::Result;
use crate::vocabulary::Json;

use super::refusal::{Outcome, Refusal};

/// An HTTP request.
///
/// ```
/// use rereduce::http::Request;
/// let request = Request::new("PUT", "/db/a").with_json(r#"{"v":1}"#);
/// assert_eq!(request.header("content-type"), Some("application/json"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `PUT`, ...
    pub method: String,
    /// The path and the query, with their escapes.
    pub target: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, empty if there is none.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: &str, target: &str) -> Request {
        Request { method: method.into(), target: target.into(), ..Request::default() }
    }

    /// The same request with one header more.
    pub fn with_header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same request with a JSON body and its type.
    pub fn with_json(mut self, body: &str) -> Request {
        self.body = body.into();
        self.with_header("content-type", "application/json")
    }

    /// The value of a header, whose name is matched in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The parts of the path, unescaped.
    pub(super) fn path(&self) -> Vec<String> {
        let path = self.target.split(['?', '#']).next().unwrap_or_default();
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.map(|part| String::from_utf8_lossy(&unescaped(part, false)).into_owned()).collect()
    }

    /// The parameters of the query in their order, unescaped.
    pub(super) fn query(&self) -> Vec<(String, Vec<u8>)> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = String::from_utf8_lossy(&unescaped(name, true)).into_owned();
            (name, unescaped(value, true))
        };
        query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect()
    }

    /// The text of one parameter, the last of its name.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let found = self.query().into_iter().rev().find(|(found, _)| found == name);
        found.map(|(_, value)| String::from_utf8_lossy(&value).into_owned())
    }

    /// Whether a parameter says `true`.
    pub(super) fn says(&self, name: &str) -> bool {
        self.parameter(name).as_deref() == Some("true")
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Json> {
        Json::parse(&self.body)
    }

    /// The body as a JSON object; one that is empty counts as `{}`.
    pub(super) fn json_object(&self) -> Outcome<Json> {
        let body = if self.body.is_empty() { Json::Object(Vec::new()) } else { self.json()? };
        match body {
            Json::Object(_) => Ok(body),
            _ => Err(Refusal::bad_request("Request body must be a JSON object")),
        }
    }

    /// Refuses a body that is not said to be JSON.
    pub(super) fn expect_json_type(&self) -> Outcome<()> {
        let essence = self.header("content-type").unwrap_or_default().split(';').next();
        match essence.map(str::trim) {
            Some(found) if found.eq_ignore_ascii_case("application/json") => Ok(()),
            _ => {
                let reason = "Content-Type must be application/json";
                Err(Refusal::new(415, "bad_content_type", reason))
            }
        }
    }
}

/// Bytes without their `%` escapes; in a query a plus is a blank.
fn unescaped(text: &str, plus_is_blank: bool) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) => match (digit(*high), digit(*low)) {
                // Two digits of four bits are a byte.
                (Some(high), Some(low)) => {
                    out.push((high << 4 | low) as u8);
                    rest = behind;
                }
                _ => out.push(b'%'),
            },
            (b'+', _) if plus_is_blank => out.push(b' '),
            (plain, _) => out.push(*plain),
        }
    }
    out
}

/// A document's id in a `location`: everything escaped but letters, digits and `-_.:`.
pub(super) fn escaped(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let escape = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    id.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: HTTP-1
    #[test]
    fn a_target_comes_apart_whatever_stands_in_it() {
        let request =
            Request::new("GET", "/db//_design/a%2Fb/?key=%22+x%22&limit=1&limit&%zz=%e9#f");
        assert_eq!(request.path(), ["db", "_design", "a/b"]);
        let query = request.query();
        let names: Vec<&str> = query.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["key", "limit", "limit", "%zz"]);
        assert_eq!(query[0].1, b"\" x\"");
        assert_eq!(query[3].1, b"\xe9");
        assert_eq!(request.parameter("limit").as_deref(), Some(""));
        assert_eq!(escaped("_design/é b:c"), "_design%2F%C3%A9%20b:c");
    }
}
