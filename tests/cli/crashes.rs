//! Loads that do not come to their end: Ctrl-C, kill, full disk.

use std::io::Write;
use std::process::Child;
use std::time::Duration;

use rereduce::db::ChangesOptions;

use super::support::{Desk, Ran, signal};

/// Starts a load from standard input and feeds it until at least `documents` are durable. Standard
/// input stays open, so the load does not end by itself.
fn begin_load(desk: &Desk, documents: u64) -> Child {
    let mut child = desk.start("load db - --batch 100");
    let stdin = child.stdin.as_mut().unwrap();
    for n in 0..documents + 250 {
        writeln!(stdin, "{{\"_id\":\"{n:06}\",\"text\":\"{}\"}}", "x".repeat(200)).unwrap();
    }
    stdin.flush().unwrap();
    // The file appears when the first record does.
    let db = loop {
        match desk.open("db") {
            Ok(db) => break db,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut durable = 0;
    while durable < documents {
        let options = ChangesOptions { wait: Some(Duration::from_secs(5)), ..Default::default() };
        db.changes(durable, &options).unwrap();
        durable = db.snapshot().unwrap().info().doc_count;
    }
    child
}

/// Whether an interrupted load reports what is there.
pub(crate) fn interrupted_load_reports_what_is_there(desk: &Desk) -> bool {
    let mut child = begin_load(desk, 1000);
    // Held open: the end of the input would be another reason to end.
    let _input = child.stdin.take();
    signal(&child, "-INT");
    let ran = Ran::of(child.wait_with_output().unwrap());
    let count = desk.open("db").unwrap().snapshot().unwrap().info().doc_count;
    count >= 1000 && ran.failed_with(130, &format!("interrupted; {} documents are", grouped(count)))
}

fn grouped(count: u64) -> String {
    format!("{},{:03}", count / 1000, count % 1000)
}

// spec: CLI-3
#[test]
fn ctrl_c_ends_a_load_between_two_batches_and_loses_nothing() {
    let desk = Desk::new();
    assert!(interrupted_load_reports_what_is_there(&desk));
    let snapshot = desk.open("db").unwrap().snapshot().unwrap();
    let count = snapshot.info().doc_count;
    assert_eq!(count % 100, 0, "whole batches");
    for n in 0..count {
        snapshot.document(&format!("{n:06}"), None).unwrap();
    }
    assert!(snapshot.check().unwrap().is_sound());
}

#[test]
fn a_load_that_is_killed_leaves_whole_batches() {
    let desk = Desk::new();
    let mut child = begin_load(&desk, 700);
    child.kill().unwrap();
    child.wait().unwrap();
    let snapshot = desk.open("db").unwrap().snapshot().unwrap();
    let count = snapshot.info().doc_count;
    assert!(count >= 700 && count.is_multiple_of(100), "{count}");
    desk.run("check db").done();
    desk.run(r#"put db after {"a":1}"#).done();
    desk.run("compact db").done();
    assert_eq!(desk.run("changes db").done().lines().count() as u64, count + 1);
}

#[test]
fn a_full_disk_ends_a_load_with_what_is_durable() {
    let desk = Desk::new();
    let lines: String = (0..5000)
        .map(|n| format!("{{\"_id\":\"{n:06}\",\"text\":\"{}\"}}\n", "x".repeat(200)))
        .collect();
    std::fs::write(desk.path("lines.ndjson"), lines).unwrap();
    // A limit on file sizes stands in for a full disk.
    let ran =
        desk.shell("trap '' XFSZ; ulimit -f 400; exec \"$0\" load db lines.ndjson --batch 100");
    let snapshot = desk.open("db").unwrap().snapshot().unwrap();
    let count = snapshot.info().doc_count;
    assert!(count > 0 && count < 5000 && count.is_multiple_of(100), "{count}");
    let durable = if count < 1000 { count.to_string() } else { grouped(count) };
    ran.fails(3, &format!("{durable} documents are durable"));
    desk.run("check db").done();
    desk.run(r#"put db after {"a":1}"#).done();
}
