//! Recordings of CouchDB, and what the tests do with them.

use std::path::PathBuf;

use rereduce::doc::{Attachment, AttachmentEncoder, AttachmentSource, Draft, revision_id};
use rereduce::vocabulary::{Json, Rev, RevPath};

/// The text of a file under `tests/data/`.
pub fn data(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The leaf documents of a recorded database file, as CouchDB answered them.
pub fn leaves_of(database: &str) -> Vec<String> {
    data(&format!("couch-files/{database}.ndjson")).lines().map(str::to_string).collect()
}

/// Whether a leaf's revision id follows from its content.
#[derive(Debug, PartialEq, Eq)]
pub enum LeafKind {
    Computed,
    Other,
}

/// Computes a leaf's revision from its body, its parent and its attachments' content.
pub fn leaf_kind(leaf: &str) -> LeafKind {
    let draft = Draft::from_json(Json::parse(leaf.as_bytes()).unwrap()).unwrap();
    let parent = parent_of(&draft.path);
    let attachments: Vec<Attachment> = draft.attachments.iter().map(|attachment| {
        let AttachmentSource::Inline(content) = &attachment.source else { panic!("{leaf}") };
        encode(&attachment.name, &attachment.content_type, content, 1).0
    }).collect();
    let computed = revision_id(draft.deleted, parent.as_ref(), &draft.body, &attachments);
    if computed == draft.path.newest() { LeafKind::Computed } else { LeafKind::Other }
}

/// The revision before the newest of a path.
pub fn parent_of(path: &RevPath) -> Option<Rev> {
    path.revs().nth(1)
}

/// The record and the stored bytes of content that came without an encoding.
pub fn encode(name: &str, content_type: &str, content: &[u8], revpos: u64) -> (Attachment, Vec<u8>) {
    let mut stored = Vec::new();
    let mut encoder = AttachmentEncoder::new(name, content_type);
    encoder.write(content, &mut stored);
    (encoder.finish(revpos, &mut stored), stored)
}
