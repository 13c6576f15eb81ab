//! Writers that share a commit, and readers that wait for one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use rereduce::db::{ChangesOptions, Database, DatabaseOptions, DocEdit};
use rereduce::env::{Env, MemoryDisk};
use rereduce::vocabulary::{Edit, Rev};
use rereduce::{ErrorClass, mark};
use rereduce_crash_sim::Verb;

use crate::disks::Hooked;
use crate::support::{Handle, KINDS, PATH, bytes_of, class, disk_of, on, over, rows_of};

/// Long enough that no machine is too slow for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits about a millisecond, as a flush of a disk does.
fn as_long_as_a_flush() {
    let (mutex, never) = (Mutex::new(()), Condvar::new());
    drop(never.wait_timeout(mutex.lock().unwrap(), Duration::from_millis(1)).unwrap());
}

// spec: COMMIT-1, COMMIT-5
#[test]
pub(crate) fn a_commit_is_shown_to_nobody_before_its_flush() {
    for kind in KINDS {
        let shared = Arc::new(OnceLock::<Handle>::new());
        let (seen, flushes) = (shared.clone(), Arc::new(AtomicU64::new(0)));
        let count = flushes.clone();
        let disk = Hooked::new(MemoryDisk::new(), move |verb, _: &Path| {
            if verb == Verb::Sync
                && let Some(handle) = seen.get()
            {
                let flushed = count.fetch_add(1, Ordering::AcqRel);
                assert_eq!(handle.number(), flushed, "during flush {flushed}");
                assert_eq!(handle.rows().unwrap().len() as u64, flushed);
            }
            Ok(())
        });
        let handle = kind.small().open(&over(disk)).unwrap();
        assert!(shared.set(handle).is_ok());
        let handle = shared.get().unwrap();
        for number in 1..=5 {
            handle.put(&format!("k{number}"), "1").unwrap();
            assert_eq!(flushes.load(Ordering::Acquire), number, "one flush a commit");
            assert_eq!(handle.number(), number);
        }
    }
}

// spec: COMMIT-7
// case: B08
#[test]
pub(crate) fn edits_that_change_nothing_append_nothing_and_leave_the_queue_live() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let handle = kind.open(&disk).unwrap();
        handle.put("a", "1").unwrap();
        let (before, counts) = (bytes_of(&disk), handle.counts());
        match &handle {
            Handle::Store(store) => {
                let nothing = vec![Edit::put("a", "1"), Edit::remove("b")];
                assert_eq!(store.commit(nothing).unwrap(), 1);
                assert_eq!(store.commit(Vec::new()).unwrap(), 1);
            }
            Handle::Database(db) => {
                let stale = DocEdit::parse("a", br#"{"_rev":"1-0","v":2}"#).unwrap();
                let twice = DocEdit::parse("a", br#"{"v":2}"#).unwrap();
                for reply in db.edit(vec![stale, twice]).unwrap() {
                    assert_eq!(class(reply), ErrorClass::Conflict);
                }
                let document = db.snapshot().unwrap().document("a", None).unwrap();
                let known = format!(r#"{{"_rev":"{}","v":"1"}}"#, document.rev().unwrap());
                let known = DocEdit::parse("a", known.as_bytes()).unwrap();
                db.merge(vec![known]).unwrap().remove(0).unwrap();
                assert!(db.edit(Vec::new()).unwrap().is_empty());
            }
        }
        assert_eq!((bytes_of(&disk), handle.counts()), (before, counts));
        for number in 2..=20 {
            assert_eq!(handle.put("a", &number.to_string()).unwrap(), number);
        }
        drop(handle);
        assert_eq!(kind.open(&disk).unwrap().rows().unwrap(), rows_of([("a", "20")]));
    }
}

// spec: COMMIT-1, DB-4
#[test]
fn writers_that_come_together_share_flushes_and_all_that_is_acknowledged_is_there() {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 25;
    for kind in KINDS {
        let memory = MemoryDisk::new();
        let disk = Hooked::new(memory.clone(), |verb, _: &Path| {
            if verb == Verb::Sync {
                as_long_as_a_flush();
            }
            Ok(())
        });
        let handle = kind.usual().open(&over(disk)).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (handle, memory) = (&handle, &memory);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let key = format!("w{writer}-{round}");
                        handle.put(&key, "1").unwrap();
                        if round % 12 == 3 {
                            // What the disk holds now has it.
                            let image = disk_of(bytes_of(memory));
                            let found = kind.usual().read(&on(&image)).unwrap();
                            assert!(found.view().unwrap().value(&key).unwrap().is_some());
                        }
                    }
                });
            }
        });
        assert_eq!(handle.rows().unwrap().len() as u64, WRITERS * ROUNDS);
        let counts = handle.counts();
        assert_eq!(counts.flushes, counts.commits, "one flush a commit");
        assert!(
            counts.flushes * 2 <= WRITERS * ROUNDS,
            "{} flushes for {} writes of {WRITERS} writers",
            counts.flushes,
            WRITERS * ROUNDS
        );
    }
}

fn database(env: Env) -> Database {
    Database::open(env, Path::new(PATH), DatabaseOptions::default()).unwrap()
}

/// A closed database in which the revision tree of document `bad` is damaged, and nothing else.
fn with_damaged_document() -> Vec<u8> {
    let disk = MemoryDisk::new();
    let db = database(on(&disk));
    let path: Vec<String> = (0..60).map(|n| format!("\"{n:032x}\"")).collect();
    let json = format!(
        r#"{{"_rev":"60-{:032x}","_revisions":{{"start":60,"ids":[{}]}}}}"#,
        0,
        path.join(",")
    );
    let long = DocEdit::parse("bad", json.as_bytes()).unwrap();
    db.merge(vec![long]).unwrap().remove(0).unwrap();
    db.edit(vec![DocEdit::parse("good", b"{}").unwrap()]).unwrap();
    db.close().unwrap();
    drop(db);
    let bytes = bytes_of(&disk);
    // The tree is too long for its row, so that it lies in a chunk of its own.
    let damaged = (2_049..bytes.len() - 10_000).step_by(97).map(|at| {
        let mut image = bytes.clone();
        image[at] ^= 1;
        image
    });
    let only_bad = |image: &Vec<u8>| {
        let db = database(on(&disk_of(image.clone())));
        let bad = db.edit(vec![edit_of("bad")]);
        let good = db.edit(vec![edit_of("good")]);
        bad.is_err_and(|error| error.is_corrupt()) && good.is_ok()
    };
    damaged.into_iter().find(only_bad).unwrap()
}

fn edit_of(id: &str) -> DocEdit {
    let rev: Rev = "1-0".parse().unwrap();
    DocEdit::parse(id, format!(r#"{{"_rev":"{rev}","v":1}}"#).as_bytes()).unwrap()
}

// spec: DB-4
#[test]
pub(crate) fn a_damaged_document_fails_its_own_edit_and_nobody_elses() {
    let image = with_damaged_document();
    let planted = mark::planted_here();
    let mut shared_a_group = false;
    for _ in 0..300 {
        // A first writer is held in its flush until two more stand behind it.
        let arrived = Arc::new(AtomicU64::new(0));
        let (holds, others) = (Arc::new(AtomicBool::new(false)), arrived.clone());
        let hold = holds.clone();
        let disk = Hooked::new(disk_of(image.clone()), move |verb, _: &Path| {
            if verb == Verb::Sync && hold.swap(false, Ordering::AcqRel) {
                while others.load(Ordering::Acquire) < 2 {
                    as_long_as_a_flush();
                }
                as_long_as_a_flush();
            }
            Ok(())
        });
        let db = database(over(disk));
        holds.store(true, Ordering::Release);
        let write = |edit: DocEdit| {
            mark::plant(planted);
            mark::reset();
            arrived.fetch_add(1, Ordering::AcqRel);
            let reply = db.edit(vec![edit]);
            (reply, mark::hits().contains_key("group-taken-apart"))
        };
        let fresh = |id: &str| DocEdit::parse(id, b"{}").unwrap();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| db.edit(vec![fresh("first")]));
            while holds.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let bad = scope.spawn(|| write(edit_of("bad")));
            let new = scope.spawn(|| write(fresh("new")));
            let (bad, new) = (bad.join().unwrap(), new.join().unwrap());
            first.join().unwrap().unwrap().remove(0).unwrap();
            assert_eq!(class(bad.0), ErrorClass::Corrupt);
            new.0.unwrap().remove(0).unwrap();
            shared_a_group = bad.1 || new.1;
        });
        assert!(db.snapshot().unwrap().document("new", None).is_ok());
        if shared_a_group {
            break;
        }
    }
    assert!(shared_a_group, "the two never met in one group");
}

/// Waits for the change after each of `rounds` commits, from the moment before it.
fn waits_for_each(writer: &Database, reader: &Database, rounds: u64, wait: Duration) {
    let (ready, at_work) = mpsc::channel();
    std::thread::scope(|scope| {
        let planted = mark::planted_here();
        let waiter = scope.spawn(move || {
            mark::plant(planted);
            for seq in 0..rounds {
                ready.send(()).unwrap();
                let began = Instant::now();
                let options = ChangesOptions { wait: Some(wait), ..ChangesOptions::default() };
                let found = reader.changes(seq, &options).unwrap();
                assert!(began.elapsed() < wait, "change {} was not noticed", seq + 1);
                assert_eq!(found.changes[0].seq, seq + 1);
                assert!(found.last_seq > seq);
            }
        });
        for round in 0..rounds {
            // A waiter that saw too much already says nothing more.
            if at_work.recv().is_err() {
                break;
            }
            let edit = DocEdit::parse(&format!("d{round}"), b"{}").unwrap();
            writer.edit(vec![edit]).unwrap();
        }
        waiter.join().unwrap();
    });
}

// spec: DB-10
#[test]
pub(crate) fn a_wait_for_changes_ends_with_every_commit_also_in_another_handle() {
    let disk = MemoryDisk::new();
    let db = database(on(&disk));
    waits_for_each(&db, &db, 200, PATIENCE);

    let disk = MemoryDisk::new();
    let db = database(on(&disk));
    let options = DatabaseOptions::default();
    let reader = Database::open_read_only(on(&disk), Path::new(PATH), options).unwrap();
    waits_for_each(&db, &reader, 12, Duration::from_secs(3));
}

// spec: DB-10
#[test]
fn a_wait_ends_when_its_time_is_over_and_when_the_handle_is_closed() {
    let db = database(on(&MemoryDisk::new()));
    let wait = |wait| ChangesOptions { wait: Some(wait), ..ChangesOptions::default() };
    assert!(db.changes(0, &wait(Duration::from_millis(5))).unwrap().changes.is_empty());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| db.changes(0, &wait(PATIENCE)));
        as_long_as_a_flush();
        let began = Instant::now();
        db.close().unwrap();
        assert!(waiter.join().unwrap().is_ok_and(|found| found.changes.is_empty()));
        assert!(began.elapsed() < PATIENCE);
    });
}
