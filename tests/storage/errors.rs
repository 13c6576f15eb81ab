//! Calls that fail: full disks, unreadable blocks, flushes that say no.
//!
//! Invariant: a failed call is an error of its class and never an answer; after a failed write the
//! handle refuses writes, readers stay where they were, and what is acknowledged is there when the
//! file is opened again.

use std::path::Path;

use rereduce::db::DocEdit;
use rereduce::env::Env;
use rereduce::{Error, ErrorClass, mark};
use rereduce_crash_sim::{
    Call, Entry, Errno, Failure, Fault, FaultModel, Image, Pages, Plan, SimDisk, Verb, environment,
};

use crate::crashes::{images_at, snapshot_of};
use crate::support::{Handle, KINDS, Kind, PATH, Rows, class, error, rows_of};

fn plan(verb: Verb, nth: u64, failure: Failure, forever: bool) -> Plan {
    Plan::default().and(Fault { verb, nth, failure, forever })
}

fn open(kind: Kind, env: &Env) -> rereduce::Result<Handle> {
    kind.small().open(env)
}

/// How many appends of a kind of handle there are in [`append_some`], and their lengths.
fn append_lengths(kind: Kind) -> Vec<u64> {
    let disk = SimDisk::new();
    append_some(kind, &disk);
    let length = |entry: &Entry| match entry {
        Entry::Call(Call::Append { bytes, .. }, _) => Some(bytes.len() as u64),
        _ => None,
    };
    disk.trace().iter().filter_map(length).collect()
}

/// Small commits, one that goes to the disk in pieces, a compaction, a reopening and a close.
/// Whatever fails is tried once; returns what is acknowledged, and what failed last.
fn append_some(kind: Kind, disk: &SimDisk) -> (Rows, Option<Rows>) {
    let env = environment(disk, 1);
    let (mut rows, mut in_doubt) = (Rows::new(), None);
    let large = "k".repeat(1_200_000);
    for (round, values) in [["1", "2", &large], ["4", "5", "6"]].into_iter().enumerate() {
        let handle = match open(kind, &env) {
            Ok(handle) => handle,
            Err(error) => {
                assert!(disk.failures() > 0 && error.class() == ErrorClass::Io, "{error}");
                open(kind, &env).unwrap()
            }
        };
        for (index, value) in values.into_iter().enumerate() {
            let key = format!("k{round}{index}");
            let mut next = rows.clone();
            next.insert(key.clone(), value.to_owned());
            match handle.put(&key, value) {
                Ok(_) => rows = next,
                Err(error) => {
                    assert!(disk.failures() > 0 && error.class() == ErrorClass::Io, "{error}");
                    in_doubt = Some(next);
                    poisoned(&handle, &rows, in_doubt.as_ref().unwrap());
                    rows = handle.rows().unwrap();
                }
            }
            assert_eq!(handle.rows().unwrap(), rows);
        }
        match handle.compact() {
            Ok(()) => {}
            Err(error) => assert_eq!(error.class(), ErrorClass::Io, "{error}"),
        }
        assert_eq!(handle.rows().unwrap(), rows, "whether or not the compaction failed");
        let _ = handle.close();
    }
    (rows, in_doubt)
}

/// A handle after a failed write: readers stay, writers are refused, reopening mends it.
fn poisoned(handle: &Handle, before: &Rows, after: &Rows) {
    let number = handle.number();
    for _ in 0..2 {
        let refused = error(handle.put("again", "1"));
        assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
        assert!(matches!(error(handle.compact()), Error::Poisoned { .. }));
        assert_eq!((handle.number(), handle.rows().unwrap()), (number, before.clone()));
    }
    handle.reopen().unwrap();
    let found = handle.rows().unwrap();
    assert!(found == *before || found == *after, "neither commit {number} nor the one after it");
}

// spec: COMMIT-5, RECOVER-5
// case: B04
#[test]
pub(crate) fn after_a_failed_append_nothing_trusts_the_old_end_of_file() {
    for kind in KINDS {
        mark::reset();
        let lengths = append_lengths(kind);
        assert!(lengths.len() >= 12, "{lengths:?}");
        for (index, length) in lengths.iter().enumerate() {
            for written in [0, 1, length - 1] {
                let disk = SimDisk::new();
                let failure = Failure::new(Errno::NoSpace).written(written);
                disk.set_plan(plan(Verb::Append, index as u64 + 1, failure, false));
                let (rows, _) = append_some(kind, &disk);
                let at = format!("append {} wrote {written} bytes", index + 1);
                assert!(disk.failures() == 1, "{at}");
                let handle = open(kind, &environment(&disk, 2)).unwrap();
                assert_eq!(handle.rows().unwrap(), rows, "{at}");
                for number in 1..=handle.number() {
                    match handle.view_at(number) {
                        Ok(view) => drop(view.rows().unwrap()),
                        Err(error) => assert_eq!(error.class(), ErrorClass::Missing, "{at}"),
                    }
                }
            }
        }
        assert!(mark::hits().contains_key("poisoned"));
    }
}

// spec: COMMIT-5
// case: B04
#[test]
pub(crate) fn an_append_that_fails_is_not_tried_again_at_the_same_place() {
    for kind in KINDS {
        for written in [0, 1, 700, 3_000] {
            let disk = SimDisk::new();
            let handle = open(kind, &environment(&disk, 1)).unwrap();
            handle.put("a", "1").unwrap();
            let failure = Failure::new(Errno::NoSpace).written(written);
            disk.set_plan(plan(Verb::Append, 1, failure, false));
            assert_eq!(class(handle.put("b", "2")), ErrorClass::Io);
            let size = disk.bytes(Path::new(PATH)).unwrap().len();
            assert!(matches!(error(handle.put("b", "2")), Error::Poisoned { .. }));
            assert_eq!(disk.bytes(Path::new(PATH)).unwrap().len(), size, "no retry");
            handle.reopen().unwrap();
            handle.put("c", "3").unwrap();
            drop(handle);
            let handle = open(kind, &environment(&disk, 2)).unwrap();
            assert_eq!(handle.rows().unwrap(), rows_of([("a", "1"), ("c", "3")]));
        }
    }
}

// spec: RECOVER-2
// case: B06
#[test]
pub(crate) fn a_read_error_is_not_a_torn_footer() {
    for kind in KINDS {
        for sealed in [false, true] {
            let disk = SimDisk::new();
            let handle = open(kind, &environment(&disk, 1)).unwrap();
            for number in 1..=10 {
                handle.put("a", &number.to_string()).unwrap();
            }
            if sealed {
                handle.close().unwrap();
            }
            drop(handle);
            let (bytes, names) = (disk.bytes(Path::new(PATH)), disk.names());
            let mut failed = 0;
            // Every read of an opening fails in turn, that of the newest footer among them.
            for nth in 1.. {
                for writes in [true, false] {
                    let env = environment(&disk, 2);
                    let attempt = || match writes {
                        true => open(kind, &env),
                        false => kind.small().read(&env),
                    };
                    let (changes, failures) = (disk.changes(), disk.failures());
                    disk.set_plan(plan(Verb::Read, nth, Failure::new(Errno::InputOutput), false));
                    let first = attempt();
                    disk.set_plan(Plan::default());
                    if disk.failures() > failures {
                        failed += 1;
                        let error = error(first);
                        assert_eq!(error.class(), ErrorClass::Io, "read {nth}: {error}");
                    } else {
                        assert_eq!(first.unwrap().number(), 10);
                    }
                    assert_eq!(disk.changes(), changes, "an opening writes nothing");
                    assert_eq!(
                        (disk.bytes(Path::new(PATH)), disk.names()),
                        (bytes.clone(), names.clone())
                    );
                    let second = attempt().unwrap();
                    assert_eq!(
                        (second.number(), second.rows().unwrap()),
                        (10, rows_of([("a", "10")]))
                    );
                }
                if failed < 2 * nth {
                    break;
                }
            }
            assert!(failed >= 4, "header and footers are read");
        }
    }
}

// spec: RECOVER-2
// case: B06
#[test]
pub(crate) fn a_read_that_fails_is_an_error_of_the_system_and_not_an_answer() {
    for kind in KINDS {
        let disk = SimDisk::new();
        let handle = open(kind, &environment(&disk, 1)).unwrap();
        let edits = ["a", "b", "c", "d", "e", "f"].map(|key| (key, Some("1")));
        handle.write(&edits).unwrap();
        let expected = handle.rows().unwrap();
        for nth in 1.. {
            let failures = disk.failures();
            disk.set_plan(plan(Verb::Read, nth, Failure::new(Errno::InputOutput), false));
            let view = handle.view().unwrap();
            let scanned = view.scan();
            let struck = disk.failures() > failures;
            disk.set_plan(Plan::default());
            match struck {
                true => assert_eq!(class(scanned), ErrorClass::Io, "read {nth}"),
                false => {
                    assert_eq!(scanned.unwrap(), expected);
                    assert!(nth > 3, "six rows in small nodes take more than {nth} reads");
                    break;
                }
            }
        }
        assert_eq!(handle.rows().unwrap(), expected, "nothing stays behind of the failures");
        handle.put("g", "2").unwrap();
    }
}

/// The kinds of flush that fail: once and for ever, with the pages kept and dropped.
fn failing_flushes() -> Vec<(Pages, bool)> {
    vec![
        (Pages::Kept, false),
        (Pages::Kept, true),
        (Pages::Reverted, false),
        (Pages::Reverted, true),
    ]
}

// spec: COMMIT-1, COMMIT-5, RECOVER-4
// case: B44
#[test]
pub(crate) fn a_failed_footer_fsync_leaves_no_half_visible_commit() {
    for kind in KINDS {
        for (pages, forever) in failing_flushes() {
            let disk = SimDisk::new();
            let env = environment(&disk, 1);
            let handle = open(kind, &env).unwrap();
            for number in 1..=3 {
                handle.write(&[("a", Some(&number.to_string())), ("b", Some("0"))]).unwrap();
            }
            let before = handle.rows().unwrap();
            let held = handle.view().unwrap();
            let failure = Failure::new(Errno::InputOutput).pages(pages);
            disk.set_plan(plan(Verb::Sync, 1, failure, forever));
            let edits = [("a", Some("4")), ("c", Some("5")), ("b", None)];
            let after = rows_of([("a", "4"), ("c", "5")]);
            assert_eq!(class(handle.write(&edits)), ErrorClass::Io);
            let retried = error(handle.write(&edits));
            assert!(matches!(retried, Error::Poisoned { .. }), "{retried}");
            assert_eq!((handle.number(), handle.rows().unwrap()), (3, before.clone()));
            assert_eq!(held.rows().unwrap(), before);

            // A crash now: each image opens at commit 3 or 4, whole.
            let trace = disk.trace();
            for image in images_at(&trace, &Image::empty(), FaultModel::POWER, 200, trace.len()) {
                let found = snapshot_of(kind, &image).unwrap();
                assert!(found == before || found == after, "{pages:?} {forever}: {found:?}");
            }

            // No crash: reopening in place finds one of the two, and a commit on top of it stays,
            // though the disk may lose whatever the failed flush left in the cache.
            disk.set_plan(Plan::default());
            handle.reopen().unwrap();
            let found = handle.rows().unwrap();
            assert!(found == before || found == after, "{pages:?} {forever}: {found:?}");
            assert_eq!(handle.number(), if found == after { 4 } else { 3 });
            handle.put("d", "6").unwrap();
            let mut expected = found.clone();
            expected.insert("d".into(), "6".into());
            let trace = disk.trace();
            for image in images_at(&trace, &Image::empty(), FaultModel::POWER, 200, trace.len()) {
                assert_eq!(snapshot_of(kind, &image).unwrap(), expected, "{pages:?} {forever}");
            }
        }
    }
}

// spec: PROCESS-3, COMMIT-5
// case: B44
#[test]
pub(crate) fn another_handle_can_tell_that_the_commit_it_sees_was_never_witnessed() {
    for kind in KINDS {
        let disk = SimDisk::new();
        let env = environment(&disk, 1);
        let handle = open(kind, &env).unwrap();
        handle.put("a", "1").unwrap();
        let reader = kind.small().read(&env).unwrap();
        disk.set_plan(plan(Verb::Sync, 1, Failure::new(Errno::InputOutput), false));
        assert_eq!(class(handle.put("a", "2")), ErrorClass::Io);
        let seen = reader.view().unwrap();
        assert_eq!((seen.number(), seen.is_witnessed().unwrap()), (2, false));
        assert!(reader.view_at(1).unwrap().is_witnessed().unwrap());
        // The next writer flushes it and names it as flushed.
        handle.reopen().unwrap();
        handle.put("a", "3").unwrap();
        assert!(seen.is_witnessed().unwrap());
    }
}

// spec: COMMIT-5, DB-4
#[test]
fn an_upload_that_a_failed_write_has_lost_is_cancelled_and_nothing_is_called_damaged() {
    for finished in [false, true] {
        let disk = SimDisk::new();
        let handle = open(Kind::Database, &environment(&disk, 1)).unwrap();
        let db = handle.database();
        let mut upload = db.upload("one", "application/octet-stream");
        upload.write(&[7; 100_000]).unwrap();
        let mut early = None;
        if finished {
            early = Some(upload.finish().unwrap());
            upload = db.upload("two", "application/octet-stream");
        }
        disk.set_plan(plan(Verb::Append, 1, Failure::new(Errno::NoSpace), false));
        assert_eq!(class(handle.put("a", "1")), ErrorClass::Io);
        handle.reopen().unwrap();
        let uploaded = match early {
            Some(uploaded) => uploaded,
            None => {
                let lost = error(upload.write(&[8; 100_000]));
                assert_eq!(lost.class(), ErrorClass::Cancelled, "{lost}");
                continue;
            }
        };
        let mut lost =
            DocEdit::parse("b", br#"{"_attachments":{"one":{"follows":true}}}"#).unwrap();
        lost.uploads.push(uploaded);
        let replies = db.edit(vec![lost, DocEdit::parse("c", b"{}").unwrap()]).unwrap();
        assert_eq!(class(replies[0].clone()), ErrorClass::Cancelled);
        assert!(replies[1].is_ok(), "nobody fails for another's upload");
        assert!(handle.view().unwrap().is_sound().unwrap());
    }
}

// spec: COMPACT-3
#[test]
pub(crate) fn a_compaction_that_fails_at_any_call_leaves_the_database_as_it_was() {
    for kind in KINDS {
        let mut failed = 0;
        for nth in 1.. {
            let disk = SimDisk::new();
            let handle = open(kind, &environment(&disk, 1)).unwrap();
            handle.write(&[("a", Some("1")), ("b", Some("1")), ("c", Some("1"))]).unwrap();
            handle.write(&[("a", Some("2")), ("b", None)]).unwrap();
            let expected = handle.rows().unwrap();
            disk.set_plan(plan(Verb::Any, nth, Failure::new(Errno::InputOutput), false));
            let before = disk.failures();
            let compacted = handle.compact();
            let struck = disk.failures() > before;
            disk.set_plan(Plan::default());
            if let Err(error) = &compacted {
                assert_eq!(error.class(), ErrorClass::Io, "call {nth}: {error}");
                failed += 1;
            }
            assert_eq!(handle.rows().unwrap(), expected, "call {nth}");
            assert_eq!(handle.number(), 2, "call {nth}");
            if class_of_put(&handle) == Some(ErrorClass::Refused) {
                handle.reopen().unwrap();
                assert_eq!(handle.rows().unwrap(), expected, "call {nth}");
                handle.put("d", "4").unwrap();
            }
            let mut more = expected.clone();
            more.insert("d".into(), "4".into());
            handle.compact().unwrap();
            drop(handle);
            assert_eq!(open(kind, &environment(&disk, 2)).unwrap().rows().unwrap(), more);
            assert_eq!(disk.names(), [Path::new(PATH)], "call {nth} left something behind");
            if !struck {
                break;
            }
        }
        assert!(failed >= 8, "{failed} calls");
    }
}

fn class_of_put(handle: &Handle) -> Option<ErrorClass> {
    handle.put("d", "4").err().map(|error| error.class())
}
