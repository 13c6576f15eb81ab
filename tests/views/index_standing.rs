//! Where an index stands: purges, restored backups, other databases, other collations.

use std::path::Path;

use rereduce::db::DocEdit;
use rereduce::env::{Disk, MemoryDisk};
use rereduce::mark;
use rereduce::view::index::{Rebuilt, Update};
use rereduce::vocabulary::RevPath;

use super::index_support::{Kind, PATH, Scene, fresh, ids, on};

fn rebuilt(scene: &Scene) -> Option<Rebuilt> {
    scene.index.info().unwrap().rebuilt
}

fn numbered(scene: &Scene, numbers: std::ops::Range<usize>) {
    numbers.for_each(|n| drop(scene.put(&format!("d{n:02}"), &format!("{{\"n\":{n}}}"))));
}

// spec: VIEW-7
// case: B20
#[test]
pub(crate) fn a_purge_takes_the_rows_of_its_document() {
    let scene = fresh();
    scene.put("only", r#"{"n":1}"#);
    assert_eq!(ids(&scene.query()), ["only"]);
    scene.purge("only");
    assert!(ids(&scene.query()).is_empty());
    numbered(&scene, 0..9);
    scene.query();
    scene.purge("d03");
    scene.purge("d07");
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (0, 7));
    scene.purge("d04");
    scene.compact_db();
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (0, 6), "the index goes on behind a compaction");
    // Gone and written again between two queries; purged while it waits to be mapped.
    scene.purge("d05");
    scene.put("d05", r#"{"n":50}"#);
    scene.put("d06", r#"{"n":60}"#);
    scene.purge("d06");
    assert_eq!(ids(&scene.query()).len(), 5);
    assert_eq!(rebuilt(&scene), None);
}

// spec: VIEW-7
#[test]
pub(crate) fn a_purged_branch_leaves_the_rows_of_the_other() {
    let scene = fresh();
    let merge = |id: &str, json: &str| {
        let mut edit = DocEdit::parse("d", json.as_bytes()).unwrap();
        let ids = [id, "a"].iter().map(|id| id.parse().unwrap()).collect();
        edit.draft.path = RevPath { start: 2, ids };
        scene.db.merge(vec![edit]).unwrap().remove(0).unwrap()
    };
    merge("b", r#"{"n":"b"}"#);
    let winner = merge("c", r#"{"n":"c"}"#);
    numbered(&scene, 0..6);
    scene.query();
    scene.db.purge(vec![("d".to_owned(), vec![winner])]).unwrap();
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (1, 7));
    // A purge of what is no leaf is remembered too, and changes nothing.
    scene.db.purge(vec![("d03".to_owned(), vec!["1-ab".parse().unwrap()])]).unwrap();
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (1, 7));
}

// spec: VIEW-8, VIEW-7
// case: B14
#[test]
pub(crate) fn purges_that_were_forgotten_build_the_index_anew() {
    let scene = fresh();
    scene.db.set_purge_infos_limit(3).unwrap();
    numbered(&scene, 0..14);
    scene.query();
    // As many as are remembered: they are applied.
    (0..3).for_each(|n| scene.purge(&format!("d{n:02}")));
    scene.compact_db();
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!((mapped, rebuilt(&scene)), (0, None));
    (3..11).for_each(|n| scene.purge(&format!("d{n:02}")));
    scene.compact_db();
    assert_eq!(scene.db.snapshot().unwrap().purges(0).unwrap().len(), 3);
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!(ids(&snapshot), ["d11", "d12", "d13"]);
    assert_eq!((mapped, rebuilt(&scene)), (3, Some(Rebuilt::PurgesForgotten)));
}

/// The file of the database.
fn copy_of(disk: &MemoryDisk) -> Vec<u8> {
    disk.bytes(Path::new(PATH)).unwrap()
}

/// Ends a scene and puts another file where its database was.
fn restored(scene: Scene, disk: &MemoryDisk, bytes: Vec<u8>) -> Scene {
    let (env, kind) = (scene.env.clone(), scene.kind.clone());
    drop(scene);
    disk.remove(Path::new(PATH)).unwrap();
    disk.place(Path::new(PATH), bytes);
    kind.open(&env).unwrap()
}

// spec: VIEW-2
// case: B21
#[test]
pub(crate) fn an_index_ahead_of_its_database_is_built_anew() {
    let disk = MemoryDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..5);
    let backup = copy_of(&disk);
    numbered(&scene, 5..10);
    scene.query();
    // Restored, and nothing written yet: the index knows more than the database.
    let scene = restored(scene, &disk, backup.clone());
    assert!(scene.ids(Update::False).is_empty(), "rows of another state are not served either");
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (5, 5));
    assert_eq!(rebuilt(&scene), Some(Rebuilt::Ahead));
    // Written to as often, so that numbers and sequences are the same: another history.
    numbered(&scene, 5..10);
    scene.query();
    let scene = restored(scene, &disk, backup.clone());
    numbered(&scene, 20..25);
    assert!(scene.ids(Update::False).is_empty());
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (10, 10));
    assert_eq!(rebuilt(&scene), Some(Rebuilt::Beside));
    // Written to less often than before: numbers alone would say that the index is ahead.
    let scene = restored(scene, &disk, backup);
    numbered(&scene, 30..32);
    assert_eq!(ids(&scene.query()).len(), 7);
}

// spec: VIEW-2
// case: B21
#[test]
pub(crate) fn an_index_of_another_database_is_built_anew() {
    let disk = MemoryDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..7);
    scene.query();
    let (env, kind) = (scene.env.clone(), scene.kind.clone());
    drop(scene);
    disk.remove(Path::new(PATH)).unwrap();
    let scene = kind.open(&env).unwrap();
    assert!(ids(&scene.query()).is_empty(), "re-created, and still empty");
    numbered(&scene, 50..57);
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (7, 7));
}

// spec: VIEW-8
// case: B28
#[test]
pub(crate) fn another_version_of_the_collation_builds_the_index_anew() {
    // Under this name the collation calls itself by another version.
    let before = mark::plant(Some("collate-version-without-data"));
    let scene = fresh();
    numbered(&scene, 0..6);
    scene.query();
    let scene = scene.again();
    let (mapped, _) = scene.mapped(|| scene.query());
    mark::plant(before);
    assert_eq!(mapped, 0);
    let scene = scene.again();
    assert!(scene.ids(Update::False).is_empty(), "keys of the other order are not served");
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (6, 6));
    assert_eq!(rebuilt(&scene), Some(Rebuilt::OtherCollation));
}
