//! What a crash leaves of runs that the reported cases are about, image by image.
//!
//! Invariant: an image opens with all acknowledged writes and all or none of the one in flight,
//! and opening it writes nothing.

use std::fmt::Debug;
use std::path::Path;

use rereduce::Result;
use rereduce::db::{Database, DocEdit};
use rereduce::file::sibling;
use rereduce_crash_sim::{
    Entry, FaultKind, FaultModel, Image, Plan, Scene, SimDisk, choices, environment,
};

use crate::compaction::{attach, edit, merge, told};
use crate::support::{BLOCK, Handle, KINDS, Kind, PAIR, PATH, Rows};
use crate::torn::{Sample, sample};

/// The rows that an engine shows after a crash left `image`; opening it must write nothing.
pub(crate) fn snapshot_of(kind: Kind, image: &Image) -> Result<Rows> {
    let disk = SimDisk::open_image(image);
    let missing = image.bytes(Path::new(PATH)).is_none_or(|bytes| bytes.is_empty());
    let handle = kind.small().open(&environment(&disk, image.hash()))?;
    assert!(missing || disk.changes() == 0, "opening writes nothing");
    handle.rows()
}

/// The images that a crash may leave at the crash point of entry `entry`.
pub(crate) fn images_at(
    trace: &[Entry],
    start: &Image,
    model: FaultModel,
    sets_max: usize,
    entry: usize,
) -> Vec<Image> {
    let scenes = Scene::all(trace, start, model);
    let scene = scenes.iter().find(|scene| scene.entry == entry).unwrap();
    choices(scene, model, 1, sets_max).map(|choice| scene.image(&choice).0).collect()
}

/// A run whose acknowledged states are known: `states[n]` after `n` operations.
struct Run<S> {
    disk: SimDisk,
    states: Vec<S>,
}

impl<S: Clone + PartialEq + Debug> Run<S> {
    fn new(disk: SimDisk, state: S) -> Run<S> {
        Run { disk, states: vec![state] }
    }

    /// Does something that leaves the database as `state`, with notes for the judge.
    fn step(&mut self, state: S, work: impl FnOnce() -> Result<()>) {
        let number = self.states.len();
        self.disk.note(Entry::Began(number));
        work().unwrap();
        self.disk.note(Entry::Acknowledged(number));
        self.states.push(state);
    }

    fn same(&mut self, work: impl FnOnce() -> Result<()>) {
        self.step(self.states.last().unwrap().clone(), work);
    }

    /// Opens every image of every crash point; returns which kinds of fault were among them, and
    /// how many images there were.
    fn crash_everywhere(
        &self,
        start: &Image,
        sets_max: usize,
        open: &mut dyn FnMut(&Image) -> Result<S>,
    ) -> (Vec<FaultKind>, u64) {
        let model = FaultModel::POWER;
        let (mut seen, mut images) = (Vec::new(), 0);
        for scene in Scene::all(&self.disk.trace(), start, model) {
            for choice in choices(&scene, model, 1, sets_max) {
                let (image, kinds) = scene.image(&choice);
                let found = open(&image)
                    .unwrap_or_else(|error| panic!("entry {}, {choice}: {error}", scene.entry));
                let allowed = &self.states[scene.acknowledged..=scene.begun];
                assert!(
                    allowed.contains(&found),
                    "entry {}, {choice}: {found:?} is none of {allowed:?}",
                    scene.entry
                );
                images += 1;
                seen.extend(FaultKind::CRASH.into_iter().filter(|kind| kinds.contains(*kind)));
            }
        }
        (seen, images)
    }
}

impl Run<Rows> {
    fn put(&mut self, handle: &Handle, key: &str, value: &str) {
        let mut state = self.states.last().unwrap().clone();
        state.insert(key.to_owned(), value.to_owned());
        self.step(state, || handle.put(key, value).map(drop));
    }
}

// spec: RECOVER-1, RECOVER-2, RECOVER-4, RECOVER-5
// case: B02
#[test]
pub(crate) fn recovery_never_gives_a_torn_record_a_fresh_checksum() {
    let mut images = 0;
    for kind in KINDS {
        let Sample { bytes, commits } = sample(kind, &["a", "b"], false);
        let pair = bytes.len() - PAIR;
        // The fields end, the first sector ends, and none of it: of the first copy, with the place
        // of both there; then cut off.
        for landed in [1, 8, 33, 57, 353, 512, 1024, 2047] {
            // The copy ends with its checksum, and one in 256 ends with a zero: then nothing is
            // missing once the length is there.
            if bytes[pair + landed..pair + BLOCK].iter().all(|byte| *byte == 0) {
                continue;
            }
            for whole_length in [true, false] {
                let mut torn = bytes[..pair + landed].to_vec();
                torn.resize(if whole_length { bytes.len() } else { torn.len() }, 0);
                let start = Image::of_files([(PATH, &torn[..])]);
                let disk = SimDisk::recording(&start);
                let mut run = Run::new(disk.clone(), commits[1].0.clone());
                let handle = kind.small().open(&environment(&disk, 1)).unwrap();
                assert_eq!(disk.changes(), 0, "recovery writes nothing");
                assert_eq!(handle.rows().unwrap(), commits[1].0);
                run.put(&handle, "c", "3");
                let (_, count) = run.crash_everywhere(&start, 10, &mut |image| {
                    let left = image.bytes(Path::new(PATH)).unwrap();
                    assert!(left.starts_with(&torn), "torn bytes stay as they are");
                    snapshot_of(kind, image)
                });
                images += count;
            }
        }
    }
    assert!(images > 1_000, "{images} images");
}

// spec: COMPACT-2, COMPACT-3, FILE-4
// case: B11
#[test]
pub(crate) fn the_rename_of_a_compaction_is_durable_before_success_is_reported() {
    for kind in KINDS {
        for leftover in [false, true] {
            let disk = SimDisk::new();
            let env = environment(&disk, 1);
            let mut run = Run::new(disk.clone(), Rows::new());
            let handle = kind.small().open(&env).unwrap();
            run.put(&handle, "a", "1");
            run.put(&handle, "b", "2");
            if leftover {
                let file = env.disk.create(&sibling(Path::new(PATH), "compact")).unwrap();
                file.append(&[7; 3000]).unwrap();
            }
            run.same(|| handle.compact());
            run.put(&handle, "a", "3");
            run.same(|| handle.compact());
            run.put(&handle, "c", "4");
            run.same(|| handle.close());
            let (kinds, images) =
                run.crash_everywhere(&Image::empty(), 14, &mut |image| snapshot_of(kind, image));
            assert!(images > 500, "{images} images");
            for wanted in [FaultKind::LostRename, FaultKind::LostName, FaultKind::DroppedWrite] {
                assert!(kinds.contains(&wanted), "no image shows {wanted}");
            }
            assert!(!kinds.contains(&FaultKind::RenameWithoutData), "flushed before the rename");
        }
    }
}

/// A thousand rows, in a file that was closed.
fn thousand(kind: Kind) -> (Image, Rows) {
    let disk = SimDisk::new();
    let handle = kind.usual().open(&environment(&disk, 1)).unwrap();
    let keys: Vec<String> = (0..1_000).map(|row| format!("k{:03}", row * 7 % 1_000)).collect();
    for batch in keys.chunks(250) {
        let edits: Vec<(&str, Option<&str>)> =
            batch.iter().map(|key| (key.as_str(), Some("value"))).collect();
        handle.write(&edits).unwrap();
    }
    let rows = handle.rows().unwrap();
    handle.close().unwrap();
    (Image::of_files([(PATH, &disk.bytes(Path::new(PATH)).unwrap()[..])]), rows)
}

// spec: COMPACT-1, COMPACT-3
// case: B12
#[test]
pub(crate) fn a_compaction_that_died_at_any_write_is_done_again_and_skips_nothing() {
    for kind in KINDS {
        let (start, rows) = thousand(kind);
        assert_eq!(rows.len(), 1_000);
        let disk = SimDisk::recording(&start);
        let handle = kind.usual().open(&environment(&disk, 2)).unwrap();
        handle.compact().unwrap();
        let trace = disk.trace();
        let mut images = Vec::new();
        for (model, sets) in [(FaultModel::PROCESS_KILL, 6), (FaultModel::POWER, 5)] {
            for scene in Scene::all(&trace, &start, model) {
                let left = choices(&scene, model, 3, sets).map(|choice| scene.image(&choice).0);
                images.extend(left);
            }
        }
        images.sort_by_key(Image::hash);
        images.dedup_by_key(|image| image.hash());
        assert!(images.len() > 20, "{} images", images.len());
        for (index, image) in images.iter().enumerate() {
            let disk = SimDisk::open_image(image);
            let env = environment(&disk, 3);
            let handle = kind.usual().open(&env).unwrap();
            let mut expected = rows.clone();
            if index % 2 == 1 {
                let keys: Vec<String> = (0..50).map(|row| format!("k{:03}", row * 33)).collect();
                let edits: Vec<(&str, Option<&str>)> =
                    keys.iter().map(|key| (key.as_str(), Some("newer"))).collect();
                handle.write(&edits).unwrap();
                expected.extend(keys.into_iter().map(|key| (key, "newer".to_owned())));
            }
            assert_eq!(handle.view().unwrap().scan().unwrap(), expected, "image {index}");
            handle.compact().unwrap();
            assert_eq!(handle.rows().unwrap(), expected, "image {index}, compacted");
            drop(handle);
            let again = kind.usual().open(&env).unwrap();
            assert_eq!(again.view().unwrap().scan().unwrap(), expected, "image {index}, reopened");
            assert_eq!(disk.names(), [Path::new(PATH)], "image {index}");
        }
    }
}

// spec: FILE-4, COMMIT-1
#[test]
pub(crate) fn a_database_that_was_created_is_there_after_a_crash() {
    for kind in KINDS {
        let disk = SimDisk::new();
        let mut run = Run::new(disk.clone(), Rows::new());
        let handle = kind.small().open(&environment(&disk, 1)).unwrap();
        run.put(&handle, "a", "1");
        run.put(&handle, "a", "2");
        let (_, images) = run.crash_everywhere(&Image::empty(), 60, &mut |image| {
            let bytes = image.bytes(Path::new(PATH)).unwrap_or_default();
            assert!(bytes.is_empty() || bytes.len() >= BLOCK, "renamed when it was whole");
            snapshot_of(kind, image)
        });
        assert!(images > 100, "{images} images");
    }
}

// spec: FILE-5
#[test]
pub(crate) fn commits_into_a_file_whose_name_only_the_cache_had_survive_a_power_cut() {
    for kind in KINDS {
        // The flush of the directory fails: after the creation, then after a compaction.
        for (nth, existing) in [(1, false), (2, true)] {
            let disk = SimDisk::new();
            disk.set_plan(format!("sync_dir {nth} EIO").parse().unwrap());
            let env = environment(&disk, 1);
            let mut run = Run::new(disk.clone(), Rows::new());
            match kind.small().open(&env) {
                Ok(handle) => {
                    run.put(&handle, "a", "1");
                    handle.compact().unwrap_err();
                    handle.put("b", "1").unwrap_err();
                }
                Err(_) => assert!(!existing, "there was nothing to open"),
            }
            disk.set_plan(Plan::default());
            // Whoever opens it next sees the file, and cannot know that its name is not durable.
            let handle = kind.small().open(&env).unwrap();
            let before = disk.changes();
            run.put(&handle, "c", "1");
            assert_eq!(disk.trace()[disk.trace().len() - 4].to_string(), "sync_dir data");
            assert_eq!(disk.changes() - before, 3, "directory, append, flush");
            run.put(&handle, "d", "1");
            let start = Image::empty();
            run.crash_everywhere(&start, 40, &mut |image| snapshot_of(kind, image));
        }
    }
}

// spec: COMMIT-1, RECOVER-1, DB-5, DB-6, COMPACT-7
#[test]
pub(crate) fn every_kind_of_write_to_a_database_survives_a_crash_at_every_call() {
    let disk = SimDisk::new();
    let handle = Kind::Database.small().open(&environment(&disk, 1)).unwrap();
    let db = handle.database();
    let seen = |db: &Database| told(&db.snapshot().unwrap());
    let mut run = Run::new(disk.clone(), seen(db));
    // What each does is judged elsewhere; here it is what must be there, whole, or not at all.
    let mut step = |work: &dyn Fn()| {
        let number = run.states.len();
        disk.note(Entry::Began(number));
        work();
        disk.note(Entry::Acknowledged(number));
        run.states.push(seen(db));
    };
    step(&|| drop(attach(db, "a", None, "one", &[5; 1_500])));
    step(&|| drop(edit(db, "b", r#"{"v":1}"#)));
    step(&|| merge(db, "b", r#"{"_rev":"1-ff","conflict":true}"#));
    step(&|| drop(edit(db, "_local/seen", r#"{"n":1}"#)));
    step(&|| {
        let gone = DocEdit::deletion("b", "1-ff".parse().unwrap()).unwrap();
        db.edit(vec![gone]).unwrap().remove(0).unwrap();
    });
    step(&|| db.set_revs_limit(5).unwrap());
    step(&|| {
        let leaves = db.snapshot().unwrap().leaves("b").unwrap();
        db.purge(vec![("b".into(), vec![leaves[0].0.clone()])]).unwrap();
    });
    step(&|| handle.compact().unwrap());
    step(&|| {
        let base = db.snapshot().unwrap().leaves("a").unwrap().remove(0).0;
        attach(db, "a", Some(&base), "two", &[5; 1_500]);
    });
    step(&|| handle.close().unwrap());
    let (_, images) = run.crash_everywhere(&Image::empty(), 12, &mut |image| {
        let disk = SimDisk::open_image(image);
        let handle = Kind::Database.small().open(&environment(&disk, image.hash()))?;
        let snapshot = handle.database().snapshot()?;
        assert!(snapshot.check()?.is_sound());
        Ok(told(&snapshot))
    });
    assert!(images > 1_000, "{images} images");
}
