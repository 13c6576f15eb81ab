//! What callers of the simulated disk see of faults that only delay, cut short or deceive.

use std::path::Path;
use std::sync::Arc;

use rereduce::env::{Access, Disk, DiskFile};
use rereduce::{ErrorClass, mark};
use rereduce_crash_sim::{FaultKind, SimDisk, guarded};

use crate::crash_program::run;

const A: &str = "a";

fn open(disk: &SimDisk) -> Box<dyn DiskFile> {
    disk.open(Path::new(A), Access::Write).unwrap()
}

/// A disk on which `a` holds `bytes`, all well.
fn holding(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    let file = disk.create(Path::new(A)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    disk
}

fn strike(disk: &SimDisk, plan: &str) {
    disk.set_plan(plan.parse().unwrap());
}

// spec: DISK-9
#[test]
fn a_short_or_interrupted_transfer_is_gone_on_with() {
    let plans = [
        "append 1 short written=3; append 2 EINTR; rewrite 1 short written=1; read 2 EINTR",
        "append 1 short written=1 forever; rewrite 1 short written=2 forever",
        "append 1 EINTR written=4; append 2 EINTR; read 1 short=1 forever",
        "any 1 EINTR; any 3 EINTR; any 5 EINTR; any 7 EINTR; any 9 EINTR",
        "open 1 EINTR; sync 1 EINTR; sync 2 EINTR; read 1 short=2; read 2 short=100",
    ];
    for plan in plans {
        let disk = holding(b"one ");
        strike(&disk, plan);
        let file = open(&disk);
        assert_eq!(file.append(b"hello").unwrap(), 4, "{plan}");
        assert_eq!(file.append(b"").unwrap(), 9, "{plan}");
        let mut bytes = [0; 20];
        assert_eq!(file.read_at(1, &mut bytes).unwrap(), 8, "{plan}");
        assert_eq!(&bytes[..9], b"ne hello\0", "{plan}");
        file.rewrite_same(4, b"hello").unwrap();
        file.sync().unwrap();
        assert_eq!(disk.bytes(Path::new(A)).unwrap(), b"one hello", "{plan}");
        assert!(disk.struck(FaultKind::ShortWrite) > 1, "{plan}");
        assert_eq!(disk.failures(), 0, "nobody saw a failure: {plan}");
    }
}

// spec: DISK-9
#[test]
fn bugs_planted_in_transfers_are_noticed() {
    for bug in ["short-write-taken-for-whole", "short-read-taken-for-end"] {
        let before = mark::plant(Some(bug));
        let outcome = guarded(|| {
            a_short_or_interrupted_transfer_is_gone_on_with();
            Ok(())
        });
        mark::plant(before);
        assert!(outcome.is_err(), "the bug {bug} was not noticed");
    }
}

// spec: DISK-9
#[test]
fn a_write_that_writes_nothing_is_an_error() {
    let disk = holding(b"one");
    strike(&disk, "append 2 short written=0; append 1 short written=1; rewrite 1 short written=0");
    let file = open(&disk);
    assert_eq!(file.append(b"two").unwrap_err().class(), ErrorClass::Io);
    assert_eq!(disk.bytes(Path::new(A)).unwrap(), b"onet");
    assert_eq!(file.rewrite_same(0, b"one").unwrap_err().class(), ErrorClass::Io);
    assert_eq!((disk.failures(), disk.struck(FaultKind::ShortWrite)), (2, 3));
}

/// A call that the standard library does not make again fails when it is interrupted.
// spec: DISK-9
#[test]
fn a_call_that_nobody_makes_again_fails_when_it_is_interrupted() {
    let calls = ["rename a b", "remove a"];
    for call in calls {
        let disk = holding(b"one");
        strike(&disk, "any 1 EINTR");
        assert_eq!(run(&disk, call).len(), 1, "{call}");
        assert_eq!(disk.names(), [Path::new(A)]);
    }
}

// spec: DISK-10
#[test]
fn a_late_error_is_told_by_the_next_flush_of_that_file_and_by_no_other() {
    for (plan, shown) in [("sync 1 EIO late", "onetwo"), ("sync 1 EIO late pages=reverted", "one")]
    {
        let disk = holding(b"one");
        run(&disk, "create b");
        let (file, other) = (open(&disk), disk.open(Path::new("b"), Access::Write).unwrap());
        strike(&disk, plan);
        file.append(b"two").unwrap();
        file.sync().unwrap();
        assert_eq!(disk.bytes(Path::new(A)).unwrap(), shown.as_bytes());
        other.sync().unwrap();
        assert_eq!(open(&disk).sync().unwrap_err().class(), ErrorClass::Io, "{plan}");
        file.sync().unwrap();
        assert_eq!((disk.failures(), disk.struck(FaultKind::SyncErrorLate)), (1, 1));
    }
    let disk = holding(b"one");
    strike(&disk, "sync 1 EIO late");
    open(&disk).sync().unwrap();
    strike(&disk, "");
    open(&disk).sync().unwrap();
}

// spec: DISK-11
#[test]
fn a_quota_is_about_all_named_files_together_and_what_is_freed_can_be_used() {
    let disk = holding(b"1234");
    strike(&disk, "quota 10");
    assert!(run(&disk, "create b; append b 12345; rewrite a; sync a").is_empty());
    assert_eq!(run(&disk, "append a 12").len(), 1);
    assert_eq!(disk.bytes(Path::new(A)).unwrap(), b"12341", "what fits was written");
    assert_eq!(run(&disk, "append a 1; append b 1; append b 1").len(), 3);
    assert_eq!(disk.struck(FaultKind::ResourceLimit), 4);
    assert_eq!(disk.struck(FaultKind::NoSpace), 4);
    // Files may be made, and a rename over another frees what that one held.
    assert!(run(&disk, "create c; rename c a; append a 12345").is_empty());
    assert_eq!(run(&disk, "append a 1").len(), 1);
    assert!(run(&disk, "remove b; append a 1").is_empty());
    // The smallest of several counts, and a disk that is fuller than allowed takes nothing.
    strike(&disk, "quota 100; quota 3");
    assert_eq!(run(&disk, "append a 1").len(), 1);
    assert_eq!(disk.bytes(Path::new(A)).unwrap().len(), 6);
}

// spec: DISK-13
#[test]
fn each_way_to_go_wrong_is_counted_under_its_kind() {
    let table = [
        ("sync 1 lies", FaultKind::LyingSync),
        ("sync_dir 1 lies", FaultKind::LyingSync),
        ("sync 1 EIO", FaultKind::SyncErrorKept),
        ("sync 1 ENOSPC", FaultKind::SyncErrorKept),
        ("sync_dir 1 EIO", FaultKind::SyncErrorKept),
        ("sync 1 EIO pages=reverted", FaultKind::SyncErrorReverted),
        ("sync 1 ENOSPC late", FaultKind::SyncErrorLate),
        ("read 1 EIO", FaultKind::ReadError),
        ("open 1 EIO", FaultKind::ReadError),
        ("list 1 EIO", FaultKind::ReadError),
        ("identify 1 EIO", FaultKind::ReadError),
        ("lock 1 EIO", FaultKind::ReadError),
        ("append 1 EIO written=1", FaultKind::WriteError),
        ("rewrite 1 EIO", FaultKind::WriteError),
        ("create 1 EIO", FaultKind::WriteError),
        ("rename 1 EIO", FaultKind::WriteError),
        ("remove 1 EIO", FaultKind::WriteError),
        ("append 1 ENOSPC", FaultKind::NoSpace),
        ("create 1 ENOSPC", FaultKind::NoSpace),
        ("append 1 EINTR", FaultKind::ShortWrite),
        ("read 1 short=1", FaultKind::ShortWrite),
        ("append 1 short written=1", FaultKind::ShortWrite),
    ];
    let mut seen = vec![FaultKind::ResourceLimit];
    for (plan, expected) in table {
        let disk = holding(b"one");
        strike(&disk, plan);
        let any: Arc<dyn Disk> = Arc::new(disk.clone());
        let _ = (any.list(Path::new("")), any.identity(Path::new(A)), any.lock(Path::new("l")));
        run(&disk, "append a 23; rewrite a; sync a; sync_dir a; create b; rename b c; remove c");
        for kind in FaultKind::ALL {
            assert_eq!(disk.struck(kind), u64::from(kind == expected), "{plan}: {kind}");
        }
        seen.push(expected);
    }
    for kind in FaultKind::CALL {
        assert!(seen.contains(&kind), "{kind}");
    }
}
