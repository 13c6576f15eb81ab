//! Bytes read to open a file: after a clean close, after a kill, behind a torn tail.

use std::path::Path;

use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::Edit;

use super::disk::HoleDisk;
use super::documents::{body, id};

const PATH: &str = "db";

fn open(disk: &HoleDisk) -> Store {
    Store::open(disk.env(), Path::new(PATH), StoreOptions::default()).unwrap()
}

fn load(store: &Store, from: u64, rows: u64) {
    for first in (from..from + rows).step_by(1000) {
        let edits = (first..first + 1000).map(|n| Edit::put(id(n), body(n, 0)));
        store.commit(edits.collect()).unwrap();
    }
}

// spec: RECOVER-2, COMMIT-6
#[test]
fn opening_a_sealed_file_reads_a_few_blocks_whatever_its_size() {
    const HOLE: u64 = 10 << 30;
    let disk = HoleDisk::default();
    let store = open(&disk);
    load(&store, 0, 1000);
    store.close().unwrap();
    disk.take_bytes_read();
    drop(open(&disk));
    let small = disk.take_bytes_read();
    assert!(small <= 10 * 2048, "{small} bytes to open a small file");
    disk.make_hole(Path::new(PATH), HOLE);
    let store = open(&disk);
    let tail = disk.take_bytes_read();
    assert!((HOLE..HOLE + (2 << 20)).contains(&tail), "{tail} bytes: the tail, once");
    load(&store, 1000, 1000);
    store.close().unwrap();
    disk.take_bytes_read();
    let store = open(&disk);
    assert_eq!(disk.take_bytes_read(), small, "10 GiB make no difference");
    assert_eq!(store.snapshot().unwrap().row_count(), 2000);
}

// spec: RECOVER-2
#[test]
fn opening_after_a_kill_reads_the_cover_of_the_last_commit_and_the_tail() {
    let mut most = Vec::new();
    for rows in [2_000, 8_000, 32_000] {
        let disk = HoleDisk::default();
        let store = open(&disk);
        load(&store, 0, rows);
        drop(store);
        disk.take_bytes_read();
        let store = open(&disk);
        most.push(disk.take_bytes_read());
        assert_eq!(store.snapshot().unwrap().row_count(), rows);
    }
    // A batch of 1,000 rows is some 330 kB, and all of it is covered.
    assert!(most.iter().all(|&bytes| bytes < 1 << 19), "{most:?} bytes to open");
    let growth = super::exponent((2_000, most[0] as f64), (32_000, most[2] as f64));
    assert!(growth < 0.05, "grows with exponent {growth:.2}");
}

// spec: COMMIT-2
#[test]
fn a_large_commit_leaves_an_empty_cover() {
    let disk = HoleDisk::default();
    let store = open(&disk);
    store.commit((0..20_000).map(|n| Edit::put(id(n), body(n, 0))).collect()).unwrap();
    assert_eq!(store.counts().flushes, 2, "data first, then its footers");
    drop(store);
    disk.take_bytes_read();
    drop(open(&disk));
    let read = disk.take_bytes_read();
    assert!(read <= 10 * 2048, "{read} bytes to open behind 6 MB");
}
