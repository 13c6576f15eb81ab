//! A recorded request, taken apart.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rereduce::doc::{AttachmentSource, DocId, Draft};
use rereduce::vocabulary::{Json, Rev};
use serde_json::Value;

use super::answer::{Answer, bad_request};

/// What was asked.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Its path, database first, unescaped; `_design/x` and `_local/x` are one segment.
    pub(crate) segments: Vec<String>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn of(recorded: &Value) -> Request {
        let path = recorded["path"].as_str().unwrap().to_string();
        let (segments, query) = path.split_once('?').unwrap_or((&path, ""));
        let mut segments: Vec<String> = segments.split('/').skip(1).map(unescape).collect();
        let prefix = segments.get(1).filter(|first| ["_design", "_local"].contains(&&***first));
        if segments.len() > 2
            && let Some(prefix) = prefix.cloned()
        {
            let name = segments.remove(2);
            segments[1] = format!("{prefix}/{name}");
        }
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_string(), unescape(value))
        };
        let query = query.split('&').map(pair).collect();
        let header = |(name, value): (&String, &Value)| {
            (name.to_lowercase(), value.as_str().unwrap().to_string())
        };
        let headers = recorded["headers"].as_object().into_iter().flatten().map(header).collect();
        let body = bytes_of(recorded);
        let method = recorded["method"].as_str().unwrap().to_string();
        Request { method, segments, query, headers, body, path }
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.query(name) == Some("true")
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.query(name)?.parse().ok()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The revision that the request names beside its body.
    pub(crate) fn base(&self) -> Result<Option<Rev>, Answer> {
        let etag = self.header("if-match").map(|etag| etag.trim_matches('"'));
        let named = self.query("rev");
        if named.is_some() && etag.is_some() && named != etag {
            return Err(bad_request());
        }
        named.or(etag).map(|rev| rev.parse().map_err(|_| bad_request())).transpose()
    }

    pub(crate) fn json(&self) -> Result<Json, Answer> {
        Json::parse(&self.body).map_err(|_| bad_request())
    }

    /// The document in the body.
    pub(crate) fn draft(&self) -> Result<Draft, Answer> {
        let content_type = self.header("content-type").unwrap_or_default();
        match content_type.split_once("boundary=") {
            Some((_, boundary)) => multipart(&self.body, boundary.trim_matches('"')),
            None => draft_of(self.json()?),
        }
    }

    /// The document that a COPY writes, and the revision of it that goes.
    pub(crate) fn destination(&self) -> Result<(DocId, Option<Rev>), Answer> {
        let destination = unescape(self.header("destination").ok_or_else(bad_request)?);
        let (id, rev) = destination.split_once("?rev=").unzip();
        let id = id.unwrap_or(&destination).parse().map_err(|_| bad_request())?;
        Ok((id, rev.map(|rev| rev.parse().map_err(|_| bad_request())).transpose()?))
    }
}

pub(crate) fn draft_of(json: Json) -> Result<Draft, Answer> {
    Draft::from_json(json).map_err(|_| bad_request())
}

/// The bytes of a recorded body.
pub(crate) fn bytes_of(message: &Value) -> Vec<u8> {
    match message["body_b64"].as_str() {
        Some(encoded) => STANDARD.decode(encoded).unwrap(),
        None => message["body"].as_str().unwrap_or_default().into(),
    }
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&behind[..2]).unwrap(), 16).unwrap());
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// A document and its attachments in one body; the lengths must be as promised.
fn multipart(body: &[u8], boundary: &str) -> Result<Draft, Answer> {
    let separator = format!("\r\n--{boundary}");
    let body = [b"\r\n", body].concat();
    let mut parts = Vec::new();
    let mut rest = body.as_slice();
    while let Some(at) = rest.windows(separator.len()).position(|w| w == separator.as_bytes()) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    let content = |part: &[u8]| {
        let end = part.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        part[end + 4..].to_vec()
    };
    let mut parts = parts.into_iter().skip(1).map(content);
    let json = Json::parse(&parts.next().unwrap()).map_err(|_| bad_request())?;
    let mut draft = draft_of(json)?;
    for attachment in &mut draft.attachments {
        let AttachmentSource::Follows { length, revpos, .. } = attachment.source else { continue };
        let content = parts.next().ok_or_else(bad_request)?;
        if length != Some(content.len() as u64) {
            return Err(bad_request());
        }
        attachment.source = AttachmentSource::Inline { data: content, revpos };
    }
    Ok(draft)
}
