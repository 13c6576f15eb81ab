//! Recordings of CouchDB: its files' leaves, and revision trees the naive way.

// Each test file uses a part of this.
#![allow(dead_code)]

pub(crate) mod paths;

use std::path::Path;

use rereduce::doc::{Attachment, AttachmentEncoder, AttachmentSource, Draft, revision_id};
use rereduce::vocabulary::{Json, Rev, RevPath};

/// The text of a file under `tests/data/`.
pub(crate) fn data(name: &str) -> String {
    // crash-sim reads this too, and its own folder lies below the one of the tests.
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = folders.map(|folder| folder.join("tests/data")).find(|path| path.is_dir());
    let path = found.unwrap().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The leaf documents of a recorded database file, as CouchDB answered them.
pub(crate) fn leaves_of(database: &str) -> Vec<String> {
    data(&format!("couch-files/{database}.ndjson")).lines().map(str::to_string).collect()
}

/// The revision of a leaf as recorded, and as computed from its body, parent and attachments.
pub(crate) fn revision_of(leaf: &str) -> (Rev, Rev) {
    let draft = Draft::from_json(Json::parse(leaf.as_bytes()).unwrap()).unwrap();
    let record = |name: &str, content_type: &str, source: &AttachmentSource| {
        let AttachmentSource::Inline { data: content, .. } = source else { panic!("{leaf}") };
        encode(name, content_type, content, 1).0
    };
    let attachments: Vec<Attachment> = draft
        .attachments
        .iter()
        .map(|draft| record(&draft.name, &draft.content_type, &draft.source))
        .collect();
    let parent = parent_of(&draft.path);
    let computed = revision_id(draft.deleted, parent.as_ref(), &draft.body, &attachments);
    (draft.path.newest().unwrap(), computed.unwrap())
}

/// The revision before the newest of a path.
pub(crate) fn parent_of(path: &RevPath) -> Option<Rev> {
    path.revs().nth(1)
}

/// The record and the stored bytes of content that came without an encoding.
pub(crate) fn encode(
    name: &str,
    content_type: &str,
    content: &[u8],
    revpos: u64,
) -> (Attachment, Vec<u8>) {
    let mut stored = Vec::new();
    let mut encoder = AttachmentEncoder::new(name, content_type);
    encoder.write(content, &mut stored);
    (encoder.finish(revpos, &mut stored), stored)
}

/// Runs `check` with one planted bug and says whether it failed, as it must.
pub(crate) fn turns_red(bug: &'static str, check: impl Fn() + std::panic::UnwindSafe) -> bool {
    let before = rereduce::mark::plant(Some(bug));
    let outcome = std::panic::catch_unwind(check);
    rereduce::mark::plant(before);
    outcome.is_err()
}
