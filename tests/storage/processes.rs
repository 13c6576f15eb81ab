//! Other handles and other processes, on a real disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::env::{Disk, Env, MemoryDisk, RealDisk};
use rereduce::{Error, ErrorClass, mark};
use rereduce_crash_sim::{Call, Entry, SimDisk, Verb, environment};
use tempfile::TempDir;

use crate::children::{Task, Worker, rows_after};
use crate::disks::Hooked;
use crate::support::{Handle, KINDS, Kind, Rows, class, error, on, over, rows_of};

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db.rereduce");
    (directory, path)
}

/// Names, lengths and times of the last change of everything in a directory.
fn listing(directory: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            (entry.path(), metadata.len(), metadata.modified().unwrap())
        })
        .collect();
    entries.sort();
    entries
}

// spec: PROCESS-1
#[test]
pub(crate) fn a_second_writer_is_refused_in_this_process() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (_directory, path) = place();
        for (env, path) in [(on(&disk), Path::new("data/db")), (Env::real(), path.as_path())] {
            let first = kind.small().open_at(&env, path).unwrap();
            let second = error(kind.small().open_at(&env, path));
            assert!(matches!(second, Error::Locked { .. }), "{second}");
            first.put("a", "1").unwrap();
            first.close().unwrap();
            // A closed handle has given the lock back; one that is dropped too.
            let third = kind.small().open_at(&env, path).unwrap();
            assert_eq!(class(kind.small().open_at(&env, path)), ErrorClass::Busy);
            drop(third);
            kind.small().open_at(&env, path).unwrap();
        }
    }
}

// spec: PROCESS-1
#[test]
fn a_lock_is_free_when_it_is_dropped_though_children_are_being_started() {
    let (_directory, path) = place();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                // What it does is nothing; that it begins copies every open file for a moment.
                let child = std::process::Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "no test has this name"])
                    .stdout(std::process::Stdio::null())
                    .spawn();
                child.unwrap().wait().unwrap();
            }
        });
        let free = (0..20_000).all(|_| RealDisk.lock(&path).unwrap().is_some());
        done.store(true, Ordering::Release);
        assert!(free, "a lock that was dropped is still held");
    });
}

// spec: PROCESS-1
#[test]
fn a_second_writer_is_refused_in_another_process() {
    for kind in KINDS {
        let (_directory, path) = place();
        let handle = kind.small().open_at(&Env::real(), &path).unwrap();
        handle.put("a", "1").unwrap();
        let answer = Worker::begin(Task::Lock, kind, &path).answer();
        assert_eq!(answer.as_deref(), Some("Busy"));
        // Also after a compaction has put another file in place.
        handle.compact().unwrap();
        let answer = Worker::begin(Task::Lock, kind, &path).answer();
        assert_eq!(answer.as_deref(), Some("Busy"));
        handle.close().unwrap();
        let answer = Worker::begin(Task::Lock, kind, &path).answer();
        assert_eq!(answer.as_deref(), Some("opened"));
    }
}

// spec: PROCESS-3, PROCESS-4
#[test]
fn a_reader_in_another_process_follows_commits_and_a_compaction() {
    for kind in KINDS {
        let (_directory, path) = place();
        let handle = kind.small().open_at(&Env::real(), &path).unwrap();
        handle.put("a", "1").unwrap();
        let mut reader = Worker::begin(Task::Follow, kind, &path);
        assert_eq!(reader.ask("look"), r#"1 false {"a": "1"}"#);
        handle.put("a", "2").unwrap();
        assert_eq!(reader.ask("look"), r#"2 false {"a": "2"}"#);
        hold(&mut reader);
        handle.put("b", "3").unwrap();
        assert_eq!(reader.ask("held"), r#"2 true {"a": "2"}"#, "the next commit is its witness");
        handle.compact().unwrap();
        assert_eq!(reader.ask("look"), r#"3 true {"a": "2", "b": "3"}"#, "the new file is sealed");
        assert_eq!(reader.ask("held"), r#"2 true {"a": "2"}"#, "what it held stays readable");
        handle.put("c", "4").unwrap();
        assert_eq!(reader.ask("look"), r#"4 false {"a": "2", "b": "3", "c": "4"}"#);
        handle.close().unwrap();
        assert_eq!(reader.ask("look"), r#"4 true {"a": "2", "b": "3", "c": "4"}"#, "sealed");
    }
}

/// Asks the reader to hold what it sees; `look` answers, so that it has done so.
fn hold(reader: &mut Worker) {
    assert_eq!(reader.ask("hold\nlook"), r#"2 false {"a": "2"}"#);
}

// spec: PROCESS-3, PROCESS-4
#[test]
pub(crate) fn a_reading_handle_follows_commits_and_a_compaction() {
    for kind in KINDS {
        let env = on(&MemoryDisk::new());
        let handle = kind.small().open(&env).unwrap();
        let reader = kind.small().read(&env).unwrap();
        assert_eq!(reader.rows().unwrap(), Rows::new());
        for number in 1..=9 {
            handle.put("a", &number.to_string()).unwrap();
            let view = reader.view().unwrap();
            assert_eq!((view.number(), view.is_witnessed().unwrap()), (number, false));
            assert_eq!(view.rows().unwrap(), rows_of([("a", &number.to_string())]));
            if number % 3 == 0 {
                handle.compact().unwrap();
                let after = reader.view().unwrap();
                assert_eq!((after.number(), after.is_witnessed().unwrap()), (number, true));
                assert_ne!(after.id(), view.id(), "another file");
                assert_eq!(view.rows().unwrap(), after.rows().unwrap());
            }
        }
        assert_eq!(class(reader.put("a", "0")), ErrorClass::Refused);
        assert_eq!(class(reader.compact()), ErrorClass::Refused);
    }
}

// spec: PROCESS-4
#[test]
pub(crate) fn readers_that_look_at_the_same_time_never_go_back() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let writer = Arc::new(kind.small().open(&on(&disk)).unwrap());
        writer.put("a", "1").unwrap();
        let (shared, looks) = (Arc::new(OnceLock::<Handle>::new()), Arc::new(AtomicU64::new(9)));
        let other = Arc::new(Mutex::new(None));
        let (writes, reader, count, told) =
            (writer.clone(), shared.clone(), looks.clone(), other.clone());
        let planted = mark::planted_here();
        // Between asking for the identity of the name and that of the file, the world moves on:
        // a commit, a compaction, one more commit, and another thread that looks.
        let hooked = Hooked::new(disk.clone(), move |verb, _: &Path| {
            if verb == Verb::Identify && count.fetch_add(1, Ordering::AcqRel) == 1 {
                writes.put("a", "2").unwrap();
                writes.compact().unwrap();
                writes.put("a", "3").unwrap();
                let (done, wait) = mpsc::channel();
                let reader = reader.clone();
                std::thread::spawn(move || {
                    mark::plant(planted);
                    done.send(reader.get().unwrap().number())
                });
                // One that must wait for the first to end its look says nothing in this time.
                *told.lock().unwrap() = wait.recv_timeout(Duration::from_millis(200)).ok();
            }
            Ok(())
        });
        assert!(shared.set(kind.small().read(&over(hooked)).unwrap()).is_ok());
        let reader = shared.get().unwrap();
        looks.store(0, Ordering::Release);
        let seen = reader.number();
        if let Some(earlier) = *other.lock().unwrap() {
            assert!(seen >= earlier, "commit {earlier} was seen, and then commit {seen}");
        }
        assert_eq!(reader.number(), 3);
        assert_eq!(reader.rows().unwrap(), rows_of([("a", "3")]));
    }
}

// spec: PROCESS-2
#[test]
pub(crate) fn opening_for_reading_creates_nothing_and_takes_no_lock() {
    for kind in KINDS {
        // Only `read`, `open`, `stat` reach the disk, while a writer holds the lock.
        let disk = SimDisk::new();
        let env = environment(&disk, 1);
        let writer = kind.small().open(&env).unwrap();
        writer.put("a", "1").unwrap();
        let (before, changes) = (disk.trace().len(), disk.changes());
        let reader = kind.small().read(&env).unwrap();
        assert_eq!(reader.rows().unwrap(), rows_of([("a", "1")]));
        reader.close().unwrap();
        assert_eq!(disk.changes(), changes);
        let lock = |entry: &Entry| matches!(entry, Entry::Call(Call::Lock { .. }, _));
        let writes =
            |entry: &Entry| matches!(entry, Entry::Call(Call::Open { write: true, .. }, _));
        assert!(!disk.trace()[before..].iter().any(|entry| lock(entry) || writes(entry)));
        // A file that is missing stays missing.
        let missing = kind.small().read_at(&env, Path::new("data/none"));
        assert_eq!(class(missing), ErrorClass::Missing);
        assert_eq!(disk.changes(), changes);
    }
}

// spec: PROCESS-2
#[test]
pub(crate) fn opening_for_reading_works_where_nothing_can_be_written() {
    for kind in KINDS {
        let (directory, path) = place();
        let handle = kind.small().open_at(&Env::real(), &path).unwrap();
        handle.put("a", "1").unwrap();
        drop(handle);
        fs::remove_file(rereduce::file::sibling(&path, "lock")).unwrap();
        let mode = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode));
        mode(0o555).unwrap();
        let before = listing(directory.path());
        // Permissions do not bind every user, so a disk that refuses changes stands in between.
        let refusing = Hooked::new(RealDisk, |verb, path: &Path| match verb {
            Verb::Open | Verb::Read | Verb::Identify | Verb::List => Ok(()),
            _ => Err(Error::io("change", path, std::io::ErrorKind::ReadOnlyFilesystem.into())),
        });
        let reader = kind.small().read_at(&over(refusing), &path).unwrap();
        assert_eq!(reader.rows().unwrap(), rows_of([("a", "1")]));
        assert_eq!(reader.view_at(0).unwrap().rows().unwrap(), Rows::new());
        reader.close().unwrap();
        assert_eq!(listing(directory.path()), before);
        mode(0o755).unwrap();
    }
}

// spec: COMPACT-6
#[test]
pub(crate) fn a_compaction_keeps_the_permissions_of_the_file() {
    for kind in KINDS {
        let (_directory, path) = place();
        let handle = kind.small().open_at(&Env::real(), &path).unwrap();
        handle.put("a", "1").unwrap();
        for mode in [0o640, 0o604, 0o600] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            handle.compact().unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
        assert_eq!(handle.rows().unwrap(), rows_of([("a", "1")]));
    }
}

// spec: COMMIT-1, RECOVER-1, PROCESS-2
#[test]
fn a_plain_copy_of_a_live_file_is_a_valid_database_at_a_recent_commit() {
    for kind in KINDS {
        let (directory, path) = place();
        let handle = kind.small().open_at(&Env::real(), &path).unwrap();
        handle.put("k1", "1").unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let (mut copies, mut moved) = (0, 0);
        std::thread::scope(|scope| {
            let (handle, stop) = (&handle, done.clone());
            let writer = scope.spawn(move || {
                for number in 2.. {
                    if stop.load(Ordering::Acquire) {
                        return number - 1;
                    }
                    handle.put(&format!("k{}", number % 10), &number.to_string()).unwrap();
                    if number % 200 == 0 {
                        handle.compact().unwrap();
                    }
                }
                unreachable!("the loop ends when it is told to")
            });
            let copy = directory.path().join("copy.rereduce");
            // However slow the disk is, some commits are made between the copies.
            while copies < 100 || handle.number() <= 20 {
                let before = handle.number();
                fs::copy(&path, &copy).unwrap();
                let after = handle.number();
                let view = kind.small().read_at(&Env::real(), &copy).unwrap().view().unwrap();
                let number = view.number();
                // One commit may be in flight that nobody has acknowledged yet.
                assert!((before..=after + 1).contains(&number), "{before} <= {number} <= {after}");
                assert_eq!(view.rows().unwrap(), rows_after(number));
                copies += 1;
                moved += u64::from(number > before);
            }
            done.store(true, Ordering::Release);
            assert!(writer.join().unwrap() > 20);
        });
        println!("{copies} copies, {moved} of them newer than the commit before the copy");
    }
}

// spec: COMMIT-1, RECOVER-1, PROCESS-1
#[test]
fn after_a_kill_all_that_was_acknowledged_is_there() {
    for kind in KINDS {
        let (_directory, path) = place();
        let mut last = 0;
        for round in 1..=4 {
            let mut writer = Worker::begin(Task::Write, kind, &path);
            for _ in 0..5 * round {
                last = writer.answer().unwrap().parse().unwrap();
            }
            for answer in writer.kill() {
                last = last.max(answer.parse().unwrap_or(0));
            }
            let handle = kind.small().open_at(&Env::real(), &path).unwrap();
            let number = handle.number();
            assert!((last..=last + 1).contains(&number), "{last} acknowledged, {number} there");
            assert_eq!(handle.rows().unwrap(), rows_after(number));
            last = number;
        }
    }
}

// spec: COMPACT-6
#[test]
fn a_compaction_needs_no_more_memory_than_the_cache_and_a_batch() {
    let (_directory, path) = place();
    let db = Database::open(Env::real(), &path, DatabaseOptions::default()).unwrap();
    let filler = "x".repeat(900);
    for batch in 0..20 {
        let edits = (0..500).map(|row| {
            let json = format!(r#"{{"v":"{filler}","n":{row}}}"#);
            DocEdit::parse(&format!("d{batch:03}{row:04}"), json.as_bytes()).unwrap()
        });
        db.edit(edits.collect()).unwrap();
    }
    db.close().unwrap();
    drop(db);
    let bytes = Worker::begin(Task::Compact, Kind::Database, &path).answer().unwrap();
    let bytes: u64 = bytes.parse().unwrap();
    // The cache of the database, that of the copy, and chunks on their way to the disk.
    assert!(bytes < 6 << 20, "{bytes} bytes for 9 MB of documents");
    assert!(bytes > 1 << 16, "{bytes} bytes: nothing was counted");
}
