//! The files of indexes: compaction, clean-up, damage, crashes, other handles.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use rereduce::checksum::Cover;
use rereduce::db::{Database, DatabaseOptions};
use rereduce::env::{Access, Env, MemoryDisk};
use rereduce::file::sibling;
use rereduce::mark;
use rereduce::view::design::DesignDoc;
use rereduce::view::functions::RustMaps;
use rereduce::view::index::{Index, IndexSnapshot, Rebuilt, Update, Views, ViewsOptions};
use rereduce::view::rows::ViewRows;
use rereduce::vocabulary::{Direction, Json, KeyRange};
use rereduce::{Error, Result};
use rereduce_crash_sim::{FaultModel, Image, Plan, Scene as CrashScene, SimDisk, choices};

use super::index_support::{Kind, PATH, Scene, by_n, fresh, ids, on, tiny};

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn numbered(scene: &Scene, numbers: std::ops::Range<usize>) {
    numbers.for_each(|n| drop(scene.put(&format!("d{n:02}"), &format!("{{\"n\":{}}}", n % 5))));
}

// spec: VIEW-10
// case: B13
#[test]
pub(crate) fn a_compacted_index_keeps_its_place() {
    let scene = fresh();
    numbered(&scene, 0..30);
    scene.query();
    numbered(&scene, 0..30);
    let before = scene.query();
    let bytes = scene.index.info().unwrap().file_bytes;
    let (mapped, after) = scene.mapped(|| {
        scene.index.compact(&mut go_on).unwrap();
        scene.query()
    });
    assert_eq!((mapped, after.update_seq()), (0, before.update_seq()));
    assert!(scene.index.info().unwrap().file_bytes < bytes);
    scene.kind.compare(&before);
    let scene = scene.again();
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 0, "behind a restart too");
    numbered(&scene, 30..31);
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 1);
}

/// An index whose map function does something with it at the fifth document of an update.
fn interrupted(work: impl Fn(&Index) + Send + Sync + 'static) -> Scene {
    let target: Arc<OnceLock<Weak<Index>>> = Arc::default();
    let index = target.clone();
    let map = move |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        if document.member("now").is_some()
            && let Some(index) = index.get().and_then(Weak::upgrade)
        {
            work(&index);
        }
        by_n(document, emit);
    };
    let language = Arc::new(RustMaps::new(vec![Arc::new(map)]));
    let design = DesignDoc::of_rust("interrupted-2", &[("v", None)]);
    let options = ViewsOptions { threads: 1, ..tiny() };
    let scene = Kind { design, language, options }.open(&on(&MemoryDisk::new())).unwrap();
    target.set(Arc::downgrade(&scene.index)).unwrap();
    scene
}

// spec: VIEW-10
// case: B15
#[test]
pub(crate) fn an_update_that_began_before_a_compaction_ends_in_the_new_file() {
    let scene = interrupted(|index| index.compact(&mut go_on).unwrap());
    numbered(&scene, 0..9);
    scene.query();
    // The file is swapped between the mapping of the second batch and its commit.
    numbered(&scene, 0..5);
    scene.put("d07", r#"{"n":9,"now":true}"#);
    numbered(&scene, 20..24);
    scene.query();
    assert_eq!(scene.index.info().unwrap().rebuilt, None);
    let scene = scene.again();
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (0, 13));
}

// spec: VIEW-10
#[test]
pub(crate) fn a_compaction_catches_up_with_updates() {
    let scene = fresh();
    numbered(&scene, 0..40);
    scene.query();
    let mut rounds = 0;
    mark::reset();
    scene
        .index
        .compact(&mut || {
            rounds += 1;
            if rounds < 4 {
                numbered(&scene, rounds * 3..rounds * 3 + 9);
                scene.delete(&format!("d{rounds:02}"));
                scene.query();
            }
            let again = scene.index.compact(&mut go_on);
            assert!(matches!(again, Err(Error::CompactionRunning { .. })), "{again:?}");
            assert!(scene.index.info().unwrap().compact_running);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(mark::hits().contains_key("compaction-caught-up"));
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 0);
    // One that is cancelled changes nothing.
    let cancelled = scene.index.compact(&mut || ControlFlow::Break(()));
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
    scene.query();
}

// spec: VIEW-9
#[test]
pub(crate) fn a_compaction_makes_way_for_an_index_that_is_built_anew() {
    let scene = fresh();
    scene.db.set_purge_infos_limit(1).unwrap();
    numbered(&scene, 0..9);
    scene.query();
    (0..4).for_each(|n| scene.purge(&format!("d{n:02}")));
    scene.compact_db();
    let planted = mark::planted_here();
    let ended = std::thread::scope(|scope| {
        let mut query = None;
        let ended = scene.index.compact(&mut || {
            query.get_or_insert_with(|| {
                scope.spawn(|| {
                    mark::plant(planted);
                    scene.query();
                })
            });
            ControlFlow::Continue(())
        });
        query.expect("a compaction asks at least once").join().unwrap();
        ended
    });
    // Either it made way, or it was through before the query began; never is a row lost.
    assert!(matches!(ended, Ok(()) | Err(Error::Cancelled { .. })), "{ended:?}");
    assert_eq!(ids(&scene.query()).len(), 5);
    assert_eq!(scene.index.info().unwrap().rebuilt, Some(Rebuilt::PurgesForgotten));
}

// spec: VIEW-13
#[test]
pub(crate) fn a_clean_up_takes_the_files_of_old_signatures_alone() {
    let disk = MemoryDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..5);
    scene.query();
    let design = DesignDoc::of_rust("old-1", &[("v", None)]);
    let language = Arc::new(RustMaps::new(vec![Arc::new(by_n)]));
    let old = Kind { design: design.clone(), language, ..Kind::usual() };
    let index = scene.views.index(&design, &old.language).unwrap();
    let snapshot = index.snapshot(Update::True).unwrap();
    // What crashed compactions and other programs left.
    let directory = sibling(Path::new(PATH), "views");
    let leftover = sibling(&directory.join("ab".repeat(16)), "compact");
    let foreign = directory.join("notes.txt");
    [&leftover, &foreign].iter().for_each(|path| disk.place(path, b"anything".to_vec()));
    let removed = scene.views.clean_up(&[scene.index.signature()]).unwrap();
    let mut expected = vec![old.path(), leftover];
    expected.sort();
    assert_eq!(removed, expected);
    assert!(disk.bytes(&foreign).is_some() && disk.bytes(&scene.kind.path()).is_some());
    assert!(matches!(index.snapshot(Update::True).map(drop), Err(Error::Closed { .. })));
    assert_eq!(snapshot.view(0).unwrap().total_rows(), 5, "what was read stays readable");
    old.compare(&snapshot);
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 0, "the other index is as it was");
    // An index that is to be kept stays also while nobody has it open.
    scene.views.close().unwrap();
    assert!(scene.views.clean_up(&[scene.index.signature()]).unwrap().is_empty());
    assert!(disk.bytes(&scene.kind.path()).is_some());
}

// spec: VIEW-13
#[test]
fn a_clean_up_leaves_what_another_handle_writes() {
    let disk = MemoryDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..5);
    scene.query();
    let other = Views::open(scene.env.clone(), scene.db.clone(), PATH.as_ref(), tiny()).unwrap();
    assert!(other.clean_up(&[]).unwrap().is_empty());
    scene.query();
    scene.views.close().unwrap();
    assert_eq!(other.clean_up(&[]).unwrap(), [scene.kind.path()]);
}

/// The index file with something done to it, and the scene opened again.
fn damaged(scene: Scene, disk: &MemoryDisk, damage: impl FnOnce(&mut Vec<u8>)) -> Scene {
    let (env, kind) = (scene.env.clone(), scene.kind.clone());
    drop(scene);
    let mut bytes = disk.bytes(&kind.path()).unwrap();
    damage(&mut bytes);
    disk.place(&kind.path(), bytes);
    kind.open(&env).unwrap()
}

// spec: VIEW-11
#[test]
pub(crate) fn a_damaged_file_is_built_anew() {
    let disk = MemoryDisk::new();
    let mut scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..20);
    scene.query();
    let damages: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes.iter_mut().for_each(|byte| *byte = 0x5a),
        |bytes| bytes.truncate(10),
        |bytes| bytes.truncate(0),
        // All but the header.
        |bytes| bytes.iter_mut().skip(2048).for_each(|byte| *byte ^= 0x10),
        // All but what opening reads: the footers at the end, and what they cover.
        |bytes| {
            let end = bytes.len().saturating_sub(6 * 2048);
            bytes.iter_mut().take(end).skip(2048 + 1).for_each(|byte| *byte ^= 0x10);
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        scene.views.close().unwrap();
        scene = damaged(scene, &disk, damage);
        let old = scene.index.snapshot(Update::False);
        assert!(old.is_ok(), "damage {number}: {:?}", old.map(drop));
        // The last kind is met by a query, which is told.
        let mut told = 0;
        while read(&scene.index.snapshot(Update::True).unwrap()).is_err() {
            told += 1;
        }
        assert_eq!(told, usize::from(number == 4), "damage {number}");
        assert_eq!(ids(&scene.query()).len(), 20, "damage {number}");
        numbered(&scene, number..number + 4);
        scene.query();
    }
}

/// Reads all rows of the first view.
fn read(snapshot: &IndexSnapshot) -> Result<()> {
    let view = snapshot.view(0).unwrap();
    view.scan(&KeyRange::all(), Direction::Ascending, &mut |_, _| Ok(ControlFlow::Continue(())))
}

// spec: VIEW-11
#[test]
pub(crate) fn damage_that_a_query_meets_is_gone_before_the_next_answer() {
    let disk = MemoryDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..40);
    scene.query();
    scene.views.close().unwrap();
    // The last leaf of a view is read by queries alone, while opening reads the footers.
    let scene = damaged(scene, &disk, |bytes| {
        let end = bytes.len() - 8 * 2048;
        bytes.iter_mut().take(end).skip(2049).for_each(|byte| *byte ^= 1);
    });
    let snapshot = scene.index.snapshot(Update::True).unwrap();
    assert!(matches!(read(&snapshot), Err(Error::Corrupt(_))), "this one is told");
    assert!(!scene.index.check().unwrap().is_sound());
    let (mapped, fresh) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 40);
    read(&fresh).unwrap();
    assert_eq!(scene.index.info().unwrap().rebuilt, Some(Rebuilt::Damaged));
    // Whoever reads the old file on and meets the damage again costs nobody anything.
    assert!(read(&snapshot).is_err());
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 0);
}

// spec: VIEW-11
#[test]
fn an_index_of_a_newer_format_is_left_alone() {
    let disk = MemoryDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..3);
    scene.query();
    scene.views.close().unwrap();
    let mut newer = disk.bytes(&scene.kind.path()).unwrap();
    for copy in [0, 1024] {
        newer[copy + 8] += 1;
        let mut checksum = Cover::new(0);
        checksum.update(&newer[copy..copy + 56]);
        newer[copy + 56..copy + 64].copy_from_slice(&checksum.finish().to_le_bytes());
    }
    disk.place(&scene.kind.path(), newer.clone());
    let index = scene.views.index(&scene.kind.design, &scene.kind.language).unwrap();
    let refused = index.snapshot(Update::True).map(drop);
    assert!(matches!(refused, Err(Error::NewerFormat { .. })), "{refused:?}");
    assert_eq!(disk.bytes(&scene.kind.path()), Some(newer));
}

// spec: VIEW-3, VIEW-9
#[test]
pub(crate) fn an_update_goes_on_where_a_crash_ended_it() {
    let disk = SimDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..9);
    scene.query();
    numbered(&scene, 4..13);
    scene.delete("d01");
    scene.purge("d02");
    let start = disk.trace().len();
    scene.query();
    let pending = 10;
    let trace = disk.trace();
    let (mut images, mut resumed) = (0, 0);
    for crash in CrashScene::all(&trace, &Image::empty(), FaultModel::POWER) {
        if crash.entry < start {
            continue;
        }
        for choice in choices(&crash, FaultModel::POWER, 1, 4) {
            let image = crash.image(&choice).0;
            let left = Kind::usual().open(&on(&SimDisk::open_image(&image))).unwrap();
            scene.kind.compare(&left.index.snapshot(Update::False).unwrap());
            let (mapped, _) = left.mapped(|| left.query());
            assert!(mapped <= pending, "only what was not committed: {mapped}");
            resumed += u64::from(mapped > 0 && mapped < pending);
            images += 1;
        }
    }
    assert!(images > 30 && resumed > 5, "{images} images, {resumed} in the midst of it");
}

// spec: VIEW-9
#[test]
pub(crate) fn a_crash_while_an_index_is_built_anew_loses_nothing_but_time() {
    let disk = SimDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    scene.db.set_purge_infos_limit(1).unwrap();
    numbered(&scene, 0..9);
    scene.query();
    (0..3).for_each(|n| scene.purge(&format!("d{n:02}")));
    scene.compact_db();
    let start = disk.trace().len();
    scene.query();
    assert_eq!(scene.index.info().unwrap().rebuilt, Some(Rebuilt::PurgesForgotten));
    let mut images = 0;
    for crash in CrashScene::all(&disk.trace(), &Image::empty(), FaultModel::POWER) {
        for choice in choices(&crash, FaultModel::POWER, 1, 3) {
            if crash.entry < start {
                break;
            }
            let image = crash.image(&choice).0;
            let left = Kind::usual().open(&on(&SimDisk::open_image(&image))).unwrap();
            let old = left.index.snapshot(Update::False).unwrap();
            // The compaction of the database has dropped the state of the old index.
            if old.update_seq() == old.db().info().update_seq {
                scene.kind.compare(&old);
            }
            assert_eq!(ids(&left.query()).len(), 6);
            images += 1;
        }
    }
    assert!(images > 30, "{images} images");
}

// spec: VIEW-3
#[test]
pub(crate) fn a_failed_write_ends_the_update_and_the_next_query_recovers() {
    for plan in ["sync 1 EIO", "append 1 ENOSPC", "append 2 EIO"] {
        let disk = SimDisk::new();
        let scene = Kind::usual().open(&on(&disk)).unwrap();
        numbered(&scene, 0..6);
        scene.query();
        numbered(&scene, 3..12);
        disk.set_plan(plan.parse().unwrap());
        let failed = scene.index.snapshot(Update::True).map(drop);
        assert!(matches!(failed, Err(Error::Io { .. })), "{plan}: {failed:?}");
        disk.set_plan(Plan::default());
        assert_eq!(ids(&scene.query()).len(), 12, "{plan}");
    }
}

/// The same database read by another handle, and its indexes.
fn reader(scene: &Scene, access: Access) -> Scene {
    let options = DatabaseOptions::default();
    let db = Database::open_read_only(scene.env.clone(), PATH.as_ref(), options).unwrap();
    let mut kind = scene.kind.clone();
    kind.options.access = access;
    kind.over(&scene.env, Arc::new(db)).unwrap()
}

// spec: VIEW-12
#[test]
pub(crate) fn an_index_that_another_handle_writes_is_served_if_it_is_up_to_date() {
    let scene = fresh();
    numbered(&scene, 0..7);
    scene.query();
    let other = reader(&scene, Access::Write);
    assert_eq!(ids(&other.query()).len(), 7);
    numbered(&scene, 7..9);
    let refused = other.index.snapshot(Update::True).map(drop);
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    assert_eq!(other.ids(Update::False).len(), 7);
    scene.query();
    assert_eq!(ids(&other.query()).len(), 9, "the writer has brought it up meanwhile");
    scene.index.compact(&mut go_on).unwrap();
    numbered(&scene, 9..10);
    scene.query();
    assert_eq!(ids(&other.query()).len(), 10, "also in another file");
    // Once nobody writes it, the other one does.
    scene.views.close().unwrap();
    numbered(&scene, 10..11);
    assert_eq!(ids(&other.query()).len(), 11);
}

// spec: VIEW-12
#[test]
pub(crate) fn whoever_only_reads_never_writes_an_index() {
    let disk = SimDisk::new();
    let scene = Kind::usual().open(&on(&disk)).unwrap();
    numbered(&scene, 0..5);
    let other = reader(&scene, Access::Read);
    let before = disk.changes();
    let refused = other.index.snapshot(Update::True).map(drop);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    assert!(other.ids(Update::False).is_empty());
    assert_eq!(disk.changes(), before);
    scene.query();
    scene.views.close().unwrap();
    assert_eq!(ids(&other.query()).len(), 5);
    numbered(&scene, 5..6);
    let refused = other.index.snapshot(Update::True).map(drop);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
}

// spec: VIEW-12
#[test]
fn an_index_of_a_database_that_is_only_read_can_be_kept_in_memory() {
    let scene = fresh();
    numbered(&scene, 0..5);
    let options = DatabaseOptions::default();
    let db = Database::open_read_only(scene.env.clone(), PATH.as_ref(), options).unwrap();
    let other = scene.kind.over(&Env::memory(), Arc::new(db)).unwrap();
    assert_eq!(ids(&other.query()).len(), 5);
    numbered(&scene, 5..6);
    assert_eq!(ids(&other.query()).len(), 6);
}

// spec: VIEW-12
#[test]
fn a_real_directory_is_made_and_one_without_rights_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db.rereduce");
    let db = Database::open(Env::real(), &path, DatabaseOptions::default()).unwrap();
    let db = Arc::new(db);
    let Kind { design, language, .. } = Kind::usual();
    let open = || {
        let views = Views::open(Env::real(), db.clone(), &path, tiny()).unwrap();
        (views.index(&design, &language).unwrap(), views)
    };
    db.edit(vec![rereduce::db::DocEdit::parse("a", br#"{"n":1}"#).unwrap()]).unwrap();
    let (index, views) = open();
    assert_eq!(ids(&index.snapshot(Update::True).unwrap()), ["a"]);
    let there = directory.path().join("db.rereduce.views").join(design.signature().to_string());
    assert!(there.is_file());
    views.close().unwrap();
    let (index, _views) = open();
    assert_eq!(index.snapshot(Update::True).unwrap().update_seq(), 1);
    assert_eq!(index.counts().mapped, 0);
    // A file where the directory should be.
    let other = directory.path().join("other.rereduce");
    let db = Database::open(Env::real(), &other, DatabaseOptions::default()).unwrap();
    std::fs::write(directory.path().join("other.rereduce.views"), b"in the way").unwrap();
    let views = Views::open(Env::real(), Arc::new(db), &other, tiny()).unwrap();
    let index = views.index(&design, &language).unwrap();
    let refused = index.snapshot(Update::True).map(drop);
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
}
