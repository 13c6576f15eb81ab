//! What an update may cost, in nodes and bytes, at several sizes.

use std::ops::ControlFlow;

use rereduce::db::DocEdit;
use rereduce::env::MemoryDisk;
use rereduce::view::index::{Update, ViewsOptions};
use rereduce::view::limit::ReduceLimit;

use super::index_support::{Kind, Scene, on};

/// A scene with so many documents, as users have it but for the cache.
fn sized(documents: usize) -> Scene {
    let mut kind = Kind::usual();
    let usual = ViewsOptions::default();
    kind.options = ViewsOptions { cache_bytes: 0, reduce_limit: ReduceLimit::Off, ..usual };
    let scene = kind.open_large(&on(&MemoryDisk::new())).unwrap();
    for first in (0..documents).step_by(5000) {
        let edits = (first..documents.min(first + 5000)).map(|n| {
            // Keys of all documents lie scattered.
            let json = format!("{{\"n\":[{},\"{}\"]}}", n * 7919 % documents, n % 97);
            DocEdit::parse(&format!("document-{n:07}"), json.as_bytes()).unwrap()
        });
        scene.db.edit(edits.collect()).unwrap();
    }
    scene
}

// spec: VIEW-16
#[test]
pub(crate) fn one_changed_document_costs_a_few_nodes_a_level_at_any_size() {
    for documents in [1_000, 10_000, 100_000] {
        let scene = sized(documents);
        let snapshot = scene.index.snapshot(Update::True).unwrap();
        let counts = scene.index.counts();
        assert_eq!(
            (counts.mapped, counts.writes.commits),
            (documents as u64, { documents.div_ceil(scene.kind.options.batch_docs) as u64 })
        );
        // Of each tree one way down for each row that goes or comes, of which there are at most 4.
        let heights: u64 =
            (0..2).map(|view| u64::from(snapshot.view(view).unwrap().height())).sum();
        let node_bytes = scene.kind.options.tree.node_bytes_max as u64;
        for change in 0..8 {
            let before = scene.index.counts();
            scene.put(&format!("document-{:07}", change * 111), "{\"n\":[\"moved\",3]}");
            scene.index.snapshot(Update::True).unwrap();
            let after = scene.index.counts();
            assert_eq!(after.mapped - before.mapped, 1);
            let nodes = after.nodes_read - before.nodes_read;
            let bytes = after.writes.bytes_appended - before.writes.bytes_appended;
            assert!(nodes <= 8 * (heights + 3), "{documents}: {nodes} nodes, heights {heights}");
            let most = 6 * (heights + 3) * node_bytes + 4 * 2048;
            assert!(bytes <= most, "{documents}: {bytes} bytes of {most}");
            assert_eq!(after.writes.commits - before.writes.commits, 1);
        }
    }
}

// spec: VIEW-16
#[test]
pub(crate) fn a_build_appends_little_more_than_its_rows() {
    let scene = sized(20_000);
    scene.index.snapshot(Update::True).unwrap();
    let info = scene.index.info().unwrap();
    assert!(info.file_bytes < info.active_bytes * 5 / 4, "{info:?}");
    scene.index.compact(&mut || ControlFlow::Continue(())).unwrap();
    let compacted = scene.index.info().unwrap();
    // One pair of footers more, as every compaction seals what it wrote.
    assert!(compacted.file_bytes <= info.file_bytes + 2 * 2048, "{compacted:?} {info:?}");
}
