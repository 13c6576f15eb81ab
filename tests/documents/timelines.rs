//! Which states a database recognises as its own past.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rereduce::db::{Database, Standing, TIMELINES_MAX};
use rereduce::env::{Env, MemoryDisk};
use rereduce::{Error, Result};
use rereduce_crash_sim::Verb;

use crate::disks::Hooked;
use crate::support::{TestDb, options, turns_red};

/// Writes one document, and says where the database stands then.
fn grow(db: &TestDb, id: &str) -> Standing {
    db.put(id, "{}").unwrap();
    db.snap().standing()
}

fn has(db: &TestDb, standing: &Standing) -> bool {
    db.snap().has(standing)
}

// spec: DB-13
#[test]
fn a_database_has_its_past_across_restarts_and_compactions() {
    let mut db = TestDb::new();
    let empty = db.snap().standing();
    let early = grow(&db, "a");
    db.reopen();
    let late = grow(&db, "b");
    assert!(!db.snapshot_at(1).unwrap().has(&late), "the past does not have the future");
    db.compact(&mut || ControlFlow::Continue(())).unwrap();
    db.reopen();
    grow(&db, "c");
    for standing in [&empty, &early, &late] {
        assert!(has(&db, standing), "{standing:?}");
    }
}

// spec: DB-13
#[test]
fn another_database_has_nothing_of_this_one() {
    others_past();
}

fn others_past() {
    let (one, other) = (TestDb::new(), TestDb::new());
    let empty = one.snap().standing();
    let standing = grow(&one, "a");
    grow(&other, "a");
    assert!(!has(&other, &standing) && !has(&other, &empty));
}

// spec: DB-13
#[test]
fn a_restored_backup_that_went_another_way_has_what_both_share_alone() {
    restored_backup();
}

fn restored_backup() {
    let path = Path::new("db");
    let db = TestDb::new();
    let shared = grow(&db, "a");
    let backup = db.disk.bytes(path).unwrap();
    let lost = [grow(&db, "b"), grow(&db, "c")];
    let restored = MemoryDisk::new();
    restored.place(path, backup);
    let restored = TestDb::open(restored);
    assert!(has(&restored, &shared) && !has(&restored, &lost[0]), "ahead");
    let ours = grow(&restored, "other");
    grow(&restored, "more");
    restored.compact(&mut || ControlFlow::Continue(())).unwrap();
    assert!(has(&restored, &shared) && has(&restored, &ours));
    assert!(lost.iter().all(|lost| !has(&restored, lost)), "beside");
    assert!(!has(&db, &ours));
}

// spec: DB-13
#[test]
fn what_follows_a_failed_commit_is_another_timeline() {
    failed_commit();
}

fn failed_commit() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    let disk = Hooked::new(MemoryDisk::new(), move |verb, path| match verb {
        Verb::Append if failing.load(Ordering::SeqCst) => {
            Err(Error::io("append", path, std::io::ErrorKind::StorageFull.into()))
        }
        _ => Ok(()),
    });
    let env = Env { disk: Arc::new(disk), ..Env::memory() };
    let db = Database::open(env, "db".as_ref(), options()).unwrap();
    let put = |id: &str| -> Result<Standing> {
        db.edit(vec![rereduce::db::DocEdit::parse(id, b"{}")?])?;
        Ok(db.snapshot()?.standing())
    };
    let before = put("a").unwrap();
    fails.store(true, Ordering::SeqCst);
    assert!(put("b").is_err());
    fails.store(false, Ordering::SeqCst);
    db.reopen().unwrap();
    let after = put("c").unwrap();
    assert_ne!(after.timeline, before.timeline, "a reader may have seen commit 2 of the first");
    let failed = Standing { commit: after.commit, ..before };
    assert!(db.snapshot().unwrap().has(&before) && !db.snapshot().unwrap().has(&failed));
}

// spec: DB-13
#[test]
fn so_many_timelines_are_remembered_and_the_roots_stay_in_their_footer() {
    let mut db = TestDb::new();
    let first = grow(&db, "a");
    for number in 1..TIMELINES_MAX {
        db.reopen();
        grow(&db, &format!("d{number}"));
        assert!(has(&db, &first), "{number}");
    }
    let chunks = db.snap().info().file_bytes;
    db.reopen();
    grow(&db, "one more");
    assert!(!has(&db, &first));
    assert!(db.snap().info().file_bytes - chunks <= 24 << 10, "no chunk for the roots");
}

#[test]
fn planted_bugs_turn_the_timelines_red() {
    let shown: [(&str, fn()); 3] = [
        ("timeline-never-ends", restored_backup),
        ("timeline-goes-on-after-reopen", failed_commit),
        ("any-database-will-do", others_past),
    ];
    for (bug, shown) in shown {
        assert!(turns_red(bug, shown), "{bug} went unnoticed");
    }
}
