//! A revision of a document as a database holds it and as CouchDB answers it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Attachment, DocId, Encoding};
use crate::mark;
use crate::vocabulary::{Json, Rev, RevPath};

/// One revision of one document.
///
/// ```
/// use rereduce::doc::{Document, Show};
/// use rereduce::vocabulary::{Json, RevPath};
/// let document = Document {
///     id: "a".parse().unwrap(),
///     path: RevPath::of("1-abc".parse().unwrap()),
///     deleted: false,
///     body: vec![("v".into(), Json::from(1))],
///     attachments: vec![],
/// };
/// let shown = document.to_json(&Show::default());
/// assert_eq!(shown.to_string(), r#"{"_id":"a","_rev":"1-abc","v":1}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its id.
    pub id: DocId,
    /// The revision and its ancestors.
    pub path: RevPath,
    /// Whether this revision is a deletion.
    pub deleted: bool,
    /// The members that are the user's.
    pub body: Vec<(String, Json)>,
    /// Its attachments, in their order.
    pub attachments: Vec<Attachment>,
}

/// What to show of a document besides its body.
///
/// ```
/// use rereduce::doc::Show;
/// let show = Show { revisions: true, ..Show::default() };
/// assert!(show.conflicts.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Show<'a> {
    /// Whether to show the path as `_revisions`.
    pub revisions: bool,
    /// `_revs_info`: the revisions on the path, the newest first; left out if empty.
    pub revs_info: Vec<(Rev, RevStatus)>,
    /// `_conflicts`; left out if empty.
    pub conflicts: Vec<Rev>,
    /// `_deleted_conflicts`; left out if empty.
    pub deleted_conflicts: Vec<Rev>,
    /// `_local_seq`.
    pub local_seq: Option<u64>,
    /// One entry an attachment, or none at all: then all are stubs.
    pub attachments: Vec<AttachmentShown<'a>>,
    /// Whether to say how attachments are encoded.
    pub encoding_info: bool,
}

/// How one attachment is shown.
///
/// ```
/// use rereduce::doc::AttachmentShown;
/// assert_eq!(AttachmentShown::default(), AttachmentShown::Stub);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachmentShown<'a> {
    /// By its record alone.
    #[default]
    Stub,
    /// With this content (decoded) in base64.
    Inline(&'a [u8]),
    /// By its record; the bytes follow in another part of the answer.
    Follows,
}

/// What a database has of a revision.
///
/// ```
/// use rereduce::doc::RevStatus;
/// assert_eq!(RevStatus::Available.as_str(), "available");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevStatus {
    /// Its body.
    Available,
    /// Its body, which is a deletion.
    Deleted,
    /// Only that it exists.
    Missing,
}

impl RevStatus {
    /// CouchDB's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RevStatus::Available => "available",
            RevStatus::Deleted => "deleted",
            RevStatus::Missing => "missing",
        }
    }
}

impl Document {
    /// This revision; `None` for a document that was never written.
    pub fn rev(&self) -> Option<Rev> {
        self.path.newest()
    }

    /// The document as CouchDB answers it: `_id`, `_rev`, the body, and behind it whatever else
    /// applies, in CouchDB's order.
    // spec: DOC-12
    pub fn to_json(&self, show: &Show<'_>) -> Json {
        let mut members = vec![("_id".to_string(), Json::from(self.id.as_str()))];
        let mut add = |name: &str, value: Json| members.push((name.to_string(), value));
        if let Some(rev) = self.rev() {
            add("_rev", rev_json(&rev));
        }
        let deleted_first = self.deleted && mark::planted("answer-deleted-before-body");
        if deleted_first {
            add("_deleted", Json::Bool(true));
        }
        for (name, value) in &self.body {
            add(name, value.clone());
        }
        if self.deleted && !deleted_first {
            add("_deleted", Json::Bool(true));
        }
        if show.revisions && !self.path.ids.is_empty() {
            let ids = self.path.ids.iter().map(|id| Json::from(id.to_string().as_str())).collect();
            let start = ("start".to_string(), Json::unsigned(self.path.start));
            add("_revisions", Json::Object(vec![start, ("ids".to_string(), Json::Array(ids))]));
        }
        if !show.revs_info.is_empty() {
            let entry = |(rev, status): &(Rev, RevStatus)| {
                let status = ("status".to_string(), Json::from(status.as_str()));
                Json::Object(vec![("rev".to_string(), rev_json(rev)), status])
            };
            add("_revs_info", Json::Array(show.revs_info.iter().map(entry).collect()));
        }
        for (name, revs) in
            [("_conflicts", &show.conflicts), ("_deleted_conflicts", &show.deleted_conflicts)]
        {
            if !revs.is_empty() {
                add(name, Json::Array(revs.iter().map(rev_json).collect()));
            }
        }
        if let Some(seq) = show.local_seq {
            add("_local_seq", Json::unsigned(seq));
        }
        if !self.attachments.is_empty() {
            let shown = |(index, attachment): (usize, &Attachment)| {
                let form = show.attachments.get(index).copied().unwrap_or_default();
                let members = attachment_members(attachment, form, show.encoding_info);
                (attachment.name.clone(), Json::Object(members))
            };
            add(
                "_attachments",
                Json::Object(self.attachments.iter().enumerate().map(shown).collect()),
            );
        }
        Json::Object(members)
    }
}

fn attachment_members(
    attachment: &Attachment,
    form: AttachmentShown<'_>,
    encoding_info: bool,
) -> Vec<(String, Json)> {
    let mut members = attachment.members();
    let mut add = |name: &str, value: Json| members.push((name.to_string(), value));
    match form {
        AttachmentShown::Inline(content) => {
            add("data", Json::String(STANDARD.encode(content)));
        }
        AttachmentShown::Stub => {
            add("length", Json::unsigned(attachment.length));
            add("stub", Json::Bool(true));
        }
        AttachmentShown::Follows => {
            add("length", Json::unsigned(attachment.length));
            add("follows", Json::Bool(true));
        }
    }
    if encoding_info && attachment.encoding == Encoding::Gzip {
        add("encoding", Json::from("gzip"));
        add("encoded_length", Json::unsigned(attachment.encoded_length));
    }
    members
}

fn rev_json(rev: &Rev) -> Json {
    Json::String(rev.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::AttachmentEncoder;

    // spec: DOC-12
    #[test]
    fn an_answer_has_couchdbs_members_in_couchdbs_order() {
        let mut stored = Vec::new();
        let mut encoder = AttachmentEncoder::new("t", "text/plain");
        encoder.write(b"hello", &mut stored);
        let rev: Rev = "2-b".parse().unwrap();
        let document = Document {
            id: "a".parse().unwrap(),
            path: RevPath { start: 2, ids: vec!["b".parse().unwrap(), "a".parse().unwrap()] },
            deleted: true,
            body: vec![("v".into(), Json::from(-0.0))],
            attachments: vec![encoder.finish(1, &mut stored)],
        };
        let show = Show {
            revisions: true,
            revs_info: vec![(rev.clone(), RevStatus::Deleted)],
            conflicts: vec![rev.clone()],
            deleted_conflicts: vec![rev],
            local_seq: Some(7),
            attachments: vec![AttachmentShown::Inline(b"hello")],
            encoding_info: true,
        };
        let expected = concat!(
            r#"{"_id":"a","_rev":"2-b","v":0.0,"_deleted":true,"#,
            r#""_revisions":{"start":2,"ids":["b","a"]},"#,
            r#""_revs_info":[{"rev":"2-b","status":"deleted"}],"#,
            r#""_conflicts":["2-b"],"_deleted_conflicts":["2-b"],"_local_seq":7,"#,
            r#""_attachments":{"t":{"content_type":"text/plain","revpos":1,"#,
            r#""digest":"md5-iMaiC8wqiFlD2NjLTemvCQ==","data":"aGVsbG8=","#,
            r#""encoding":"gzip","encoded_length":25}}}"#,
        );
        assert_eq!(document.to_json(&show).to_string(), expected);
    }
}
