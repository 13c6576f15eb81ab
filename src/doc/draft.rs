//! What a client sends as a document: a JSON object with CouchDB's special members.
//!
//! ```text
//!   _id _rev _deleted            what they say
//!   _revisions                   the whole path; beats _rev, wherever it stands
//!   _attachments                 inline data, stubs, or a promise that data follows
//!   _revs_info _local_seq _conflicts _deleted_conflicts      dropped: answers have them
//!   _replication_id _replication_state ..._time ..._reason _replication_stats _access
//!                                part of the body
//!   any other _name              refused
//! ```
//!
//! Invariant: the body of a [`Draft`] holds no member that an answer would add again.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::id::shortened;
use super::{Digest, DocId, Encoding};
use crate::error::{Error, Result};
use crate::mark;
use crate::vocabulary::{Json, Number, Rev, RevId, RevPath};

/// A document as a client sent it.
///
/// ```
/// use rereduce::doc::Draft;
/// use rereduce::vocabulary::Json;
/// let body = br#"{"_id":"a","_rev":"1-abc","v":1}"#;
/// let draft = Draft::from_json(Json::parse(body).unwrap()).unwrap();
/// assert_eq!(draft.path.newest().unwrap().to_string(), "1-abc");
/// assert_eq!(Json::Object(draft.body).to_string(), r#"{"v":1}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The `_id`, if there is one; a request's path may say another, which wins.
    pub id: Option<DocId>,
    /// For an edit, the revision it is based on (its ancestors are not looked at); for a
    /// replicated revision, that revision with its ancestors. Empty if neither `_rev` nor
    /// `_revisions` is there.
    pub path: RevPath,
    /// Whether this is a deletion.
    pub deleted: bool,
    /// All other members, in their order.
    pub body: Vec<(String, Json)>,
    /// The attachments that the document is to have, in their order.
    pub attachments: Vec<AttachmentDraft>,
}

/// An attachment as a client sent it.
///
/// ```
/// use rereduce::doc::{AttachmentSource, Draft};
/// use rereduce::vocabulary::Json;
/// let body = br#"{"_attachments":{"a":{"data":"aGVsbG8="},"b":{"stub":true,"revpos":2}}}"#;
/// let draft = Draft::from_json(Json::parse(body).unwrap()).unwrap();
/// let hello = AttachmentSource::Inline { data: b"hello".to_vec(), revpos: None };
/// assert_eq!(draft.attachments[0].source, hello);
/// assert_eq!(draft.attachments[1].content_type, "application/octet-stream");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentDraft {
    /// Its name.
    pub name: String,
    /// Its MIME type; `application/octet-stream` if none was given.
    pub content_type: String,
    /// Where its bytes are.
    pub source: AttachmentSource,
}

/// Where the bytes of an [`AttachmentDraft`] are.
///
/// ```
/// use rereduce::doc::AttachmentSource;
/// let stub = AttachmentSource::Stub { revpos: None, digest: None };
/// assert_ne!(stub, AttachmentSource::Inline { data: Vec::new(), revpos: None });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachmentSource {
    /// Here.
    Inline {
        /// The content.
        data: Vec<u8>,
        /// The generation at which a replicated revision's content came in; an edit sets its own.
        revpos: Option<u64>,
    },
    /// In the revision that the edit is based on; `revpos` is to be compared with what is there,
    /// if it was given.
    Stub {
        /// The generation at which the content came in.
        revpos: Option<u64>,
        /// The digest of the stored bytes.
        digest: Option<Digest>,
    },
    /// Behind the JSON, in a part of the same request.
    Follows {
        /// Bytes that follow, if this was said: those of the encoded form.
        length: Option<u64>,
        /// How they are encoded.
        encoding: Encoding,
        /// The generation at which the content came in.
        revpos: Option<u64>,
        /// What their digest must be.
        digest: Option<Digest>,
    },
}

impl AttachmentSource {
    /// The generation at which the content came in, if this was said.
    pub fn revpos(&self) -> Option<u64> {
        match self {
            AttachmentSource::Inline { revpos, .. }
            | AttachmentSource::Stub { revpos, .. }
            | AttachmentSource::Follows { revpos, .. } => *revpos,
        }
    }
}

impl Draft {
    /// Takes a document apart.
    ///
    /// Fails with [`Error::BadInput`] for what CouchDB refuses, the first offending member first;
    /// `what` tells the kind: `document`, `document id`, `revision`, `special member`,
    /// `_revisions`, `attachment name` or `attachment data`.
    // spec: DOC-11
    pub fn from_json(json: Json) -> Result<Draft> {
        let Json::Object(members) = json else {
            return Err(bad("document", &json.to_string(), "a JSON object"));
        };
        let mut draft = Draft {
            id: None,
            path: RevPath::default(),
            deleted: false,
            body: Vec::new(),
            attachments: Vec::new(),
        };
        if !members.iter().any(|(name, _)| name.starts_with('_')) {
            return Ok(Draft { body: members, ..draft });
        }
        draft.body.reserve_exact(members.len());
        let mut has_revisions = false;
        for (name, value) in members {
            match (name.as_str(), value) {
                (plain, value) if !plain.starts_with('_') => draft.body.push((name, value)),
                ("_id", Json::String(id)) => draft.id = Some(DocId::new(id)?),
                ("_id", other) => return Err(bad("document id", &other.to_string(), "a string")),
                ("_rev", value) => {
                    if !has_revisions {
                        draft.path = RevPath::of(parse_rev(&value)?);
                    }
                }
                ("_revisions", value @ Json::Object(_)) => {
                    let path = parse_revisions(&value)?;
                    if draft.path.ids.is_empty() || !mark::planted("draft-rev-beats-revisions") {
                        draft.path = path;
                    }
                    has_revisions = true;
                }
                ("_deleted", Json::Bool(deleted)) => draft.deleted = deleted,
                ("_attachments", Json::Object(attachments)) => {
                    draft.attachments = parse_attachments(attachments)?;
                }
                ("_revs_info" | "_local_seq" | "_conflicts" | "_deleted_conflicts", _) => {}
                (
                    "_replication_id"
                    | "_replication_state"
                    | "_replication_state_time"
                    | "_replication_state_reason"
                    | "_replication_stats"
                    | "_access",
                    value,
                ) => draft.body.push((name, value)),
                _ => return Err(bad("special member", &name, "none of this name or type")),
            }
        }
        Ok(draft)
    }
}

fn parse_rev(value: &Json) -> Result<Rev> {
    match value {
        Json::String(text) => text.parse(),
        other => Err(bad("revision", &other.to_string(), "a string")),
    }
}

fn parse_revisions(value: &Json) -> Result<RevPath> {
    let start = match value.member("start") {
        Some(Json::Number(Number::Integer(start))) => u64::try_from(*start).ok(),
        _ => None,
    };
    let wrong = |expected| bad("_revisions", &value.to_string(), expected);
    let start = start.ok_or_else(|| wrong("an integer as start"))?;
    let Some(Json::Array(ids)) = value.member("ids") else { return Err(wrong("an array of ids")) };
    let ids: Result<Vec<RevId>> =
        ids.iter().map(|id| id.as_str().ok_or_else(|| wrong("strings as ids"))?.parse()).collect();
    let path = RevPath { start, ids: ids? };
    // CouchDB lets generations run below zero here; no history does.
    if !path.ids.is_empty() && path.oldest_generation().is_none() {
        return Err(wrong("no more ids than generations"));
    }
    Ok(path)
}

fn parse_attachments(members: Vec<(String, Json)>) -> Result<Vec<AttachmentDraft>> {
    let mut attachments = Vec::with_capacity(members.len());
    for (name, value) in members {
        // CouchDB passes over what is no object.
        if !matches!(value, Json::Object(_)) {
            continue;
        }
        if name.starts_with('_') {
            return Err(bad("attachment name", &name, "no leading underscore"));
        }
        let content_type = match value.member("content_type") {
            None => "application/octet-stream",
            Some(Json::String(content_type)) => content_type,
            Some(_) => return Err(bad("attachment data", &name, "a string as content_type")),
        };
        let source = parse_source(&name, &value)?;
        attachments.push(AttachmentDraft { content_type: content_type.into(), name, source });
    }
    Ok(attachments)
}

fn parse_source(name: &str, value: &Json) -> Result<AttachmentSource> {
    let number = |member| match value.member(member) {
        Some(Json::Number(Number::Integer(number))) => u64::try_from(*number).ok(),
        _ => None,
    };
    let says = |member| value.member(member) == Some(&Json::Bool(true));
    let digest = value.member("digest").and_then(Json::as_str).and_then(Digest::parse);
    let revpos = number("revpos");
    if says("stub") {
        return Ok(AttachmentSource::Stub { revpos, digest });
    }
    if says("follows") {
        let encoding = match value.member("encoding").map(Json::as_str) {
            None | Some(Some("identity")) => Encoding::Identity,
            Some(Some("gzip")) => Encoding::Gzip,
            _ => return Err(bad("attachment data", name, "gzip or identity as encoding")),
        };
        let length = number("length");
        let length = match encoding {
            Encoding::Identity => length,
            Encoding::Gzip => number("encoded_length").or(length),
        };
        return Ok(AttachmentSource::Follows { length, encoding, revpos, digest });
    }
    let data = value.member("data").and_then(Json::as_str).and_then(decode_base64);
    let data = data.ok_or_else(|| bad("attachment data", name, "data in base64"))?;
    Ok(AttachmentSource::Inline { data, revpos })
}

/// Base64 with white space between the digits and with whole padding, as CouchDB takes it.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    if !text.bytes().any(|byte| is_space(&byte)) {
        return ENGINE.decode(text).ok();
    }
    let digits: Vec<u8> = text.bytes().filter(|byte| !is_space(byte)).collect();
    ENGINE.decode(digits).ok()
}

fn bad(what: &'static str, got: &str, expected: &'static str) -> Error {
    Error::BadInput { what, got: shortened(got), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Draft> {
        Draft::from_json(Json::parse(text.as_bytes()).unwrap())
    }

    fn refused_for(text: &str) -> &'static str {
        match parsed(text) {
            Err(Error::BadInput { what, .. }) => what,
            other => panic!("{text}: {other:?}"),
        }
    }

    // spec: DOC-11
    #[test]
    fn special_members_are_taken_out_of_the_body() {
        let draft = parsed(
            r#"{"b":1,"_id":"x","_deleted":true,"_conflicts":1,"_revs_info":[],"_local_seq":1,
                "_deleted_conflicts":[],"_replication_id":"r","_access":[],"a":{"_z":1}}"#,
        );
        let draft = draft.unwrap();
        assert_eq!(draft.id.unwrap().as_str(), "x");
        assert!(draft.deleted && draft.path == RevPath::default());
        let body = r#"{"b":1,"_replication_id":"r","_access":[],"a":{"_z":1}}"#;
        assert_eq!(Json::Object(draft.body).to_string(), body);
    }

    // spec: DOC-11
    #[test]
    fn revisions_beat_rev_wherever_they_stand() {
        let revisions = r#""_revisions":{"start":2,"ids":["b","a"]}"#;
        for text in [
            format!(r#"{{"_rev":"7-x",{revisions}}}"#),
            format!(r#"{{{revisions},"_rev":"7-x"}}"#),
            format!("{{{revisions}}}"),
        ] {
            let revs: Vec<_> = parsed(&text).unwrap().path.revs().map(|r| r.to_string()).collect();
            assert_eq!(revs, ["2-b", "1-a"]);
        }
        assert_eq!(parsed(r#"{"_rev":"1-"}"#).unwrap().path.newest().unwrap().to_string(), "1-");
    }

    // spec: DOC-11
    #[test]
    fn what_couchdb_refuses_is_refused_with_its_kind() {
        for text in ["[]", "1", "null", "\"x\""] {
            assert_eq!(refused_for(text), "document");
        }
        for id in ["1", "null", "\"\"", "\"_x\""] {
            assert_eq!(refused_for(&format!("{{\"_id\":{id}}}")), "document id");
        }
        for rev in ["1", "\"\"", "null", "\"x\"", "\"1\"", "\"-1\"", "\"a-1\"", "\"1.5-a\"", "[]"] {
            assert_eq!(refused_for(&format!("{{\"_rev\":{rev}}}")), "revision");
        }
        for member in [
            "\"_foo\":1",
            "\"_\":1",
            "\"_deleted\":1",
            "\"_deleted\":null",
            "\"_attachments\":[]",
            "\"_attachments\":null",
            "\"_revisions\":1",
            "\"_names\":1",
        ] {
            assert_eq!(refused_for(&format!("{{{member}}}")), "special member");
        }
        for revisions in [
            "{}",
            r#"{"start":"1","ids":["a"]}"#,
            r#"{"start":1,"ids":[1]}"#,
            r#"{"start":1}"#,
            r#"{"start":-1,"ids":["a"]}"#,
            r#"{"start":1,"ids":["c","b","a"]}"#,
        ] {
            assert_eq!(refused_for(&format!("{{\"_revisions\":{revisions}}}")), "_revisions");
        }
        for attachment in ["{}", r#"{"data":1}"#, r#"{"data":"*"}"#, r#"{"data":"AA"}"#] {
            let text = format!("{{\"_attachments\":{{\"a\":{attachment}}}}}");
            assert_eq!(refused_for(&text), "attachment data");
        }
        let name = r#"{"_attachments":{"_a":{"data":"AAEC"}}}"#;
        assert_eq!(refused_for(name), "attachment name");
    }

    // spec: DOC-11
    #[test]
    fn attachments_come_inline_as_stubs_or_behind_the_document() {
        let draft = parsed(
            r#"{"_attachments":{"no":1,"":{"data":"A A\nEC","revpos":7},"s":{"stub":true,"data":"x"},
                "f":{"follows":true,"length":9,"encoding":"gzip","encoded_length":7}}}"#,
        );
        let [inline, stub, follows] = &draft.unwrap().attachments[..] else { panic!() };
        let expected = AttachmentSource::Inline { data: vec![0, 1, 2], revpos: Some(7) };
        assert_eq!(inline.source, expected);
        assert_eq!(stub.source, AttachmentSource::Stub { revpos: None, digest: None });
        let AttachmentSource::Follows { length, encoding, .. } = &follows.source else { panic!() };
        assert_eq!((*length, *encoding), (Some(7), Encoding::Gzip));
    }
}
