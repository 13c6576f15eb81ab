//! Roots of any length, covers of bounded length, and the calls in their order.

use std::path::Path;
use std::sync::Arc;

use rereduce::ErrorClass;
use rereduce::checksum::Cover;
use rereduce::env::{Env, MemoryDisk};
use rereduce::file::{CommitId, Protocol, sibling};
use rereduce::reduce::{Reducer, Row};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Edit, KeyRange};
use rereduce_crash_sim::{Call, Entry, Plan, SimDisk, environment};

use crate::support::{BLOCK, KINDS, PAIR, PATH, bytes_of, disk_of, on};

/// Bytes that a footer keeps for roots; longer ones go into a chunk.
const FRAME: usize = 1_688;

/// A count, drawn out to a given length.
struct Wide(usize);

impl Reducer for Wide {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> rereduce::Result<()> {
        out.extend((rows.len() as u64).to_le_bytes());
        out.resize(self.0.max(8), 0x77);
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> rereduce::Result<()> {
        let count = |part: &&[u8]| u64::from_le_bytes(part[..8].try_into().unwrap());
        out.extend(parts.iter().map(count).sum::<u64>().to_le_bytes());
        out.resize(self.0.max(8), 0x77);
        Ok(())
    }
}

fn wide(env: Env, length: usize) -> Store {
    let options = StoreOptions { reducer: Arc::new(Wide(length)), ..StoreOptions::default() };
    Store::open(env, Path::new(PATH), options).unwrap()
}

// spec: FOOTER-3
// case: B09
#[test]
pub(crate) fn a_footer_payload_larger_than_its_frame_comes_back() {
    for length in (8..1_500).step_by(150).chain(1_500..2_100).chain((2_100..8_400).step_by(53)) {
        let disk = MemoryDisk::new();
        let store = wide(on(&disk), length);
        for key in ["a", "b", "c"] {
            store.commit(vec![Edit::put(key, "1")]).unwrap();
        }
        drop(store);
        let store = wide(on(&disk), length);
        let snapshot = store.snapshot().unwrap();
        let reduction = snapshot.reduce(&KeyRange::all()).unwrap();
        assert_eq!((reduction[0], reduction.len()), (3, length), "{length} bytes");
        assert!(snapshot.check().unwrap().violations.is_empty(), "{length} bytes");
        assert_eq!(store.snapshot_at(1).unwrap().row_count(), 1);
    }
}

// spec: PROCESS-4, RECOVER-2
#[test]
pub(crate) fn a_reader_whose_look_failed_looks_again() {
    let disk = SimDisk::new();
    let env = environment(&disk, 1);
    let store = wide(env.clone(), FRAME + 100);
    store.commit(vec![Edit::put("a", "1")]).unwrap();
    let options = StoreOptions { reducer: Arc::new(Wide(FRAME + 100)), ..StoreOptions::default() };
    let reader = Store::open_read_only(env, Path::new(PATH), options).unwrap();
    for nth in 1.. {
        let number = store.commit(vec![Edit::put("a", format!("{nth} ."))]).unwrap();
        let failures = disk.failures();
        disk.set_plan(format!("read {nth} EIO").parse().unwrap());
        let looked = reader.snapshot();
        let struck = disk.failures() > failures;
        disk.set_plan(Plan::default());
        if let Err(error) = &looked {
            assert!(struck && error.class() == ErrorClass::Io, "read {nth}: {error}");
        }
        assert_eq!(reader.snapshot().unwrap().number(), number, "read {nth}");
        if !struck {
            assert!(nth > 3, "footers, cover and roots are read");
            break;
        }
    }
}

/// Gives a copy of a footer the checksum of its fields.
fn sign(copy: &mut [u8]) {
    let word = |at: usize| u64::from_le_bytes(copy[at..at + 8].try_into().unwrap());
    let mut checksum = Cover::new(word(8) ^ word(16) ^ word(24));
    checksum.update(&copy[..BLOCK - 8]);
    copy[BLOCK - 8..].copy_from_slice(&checksum.finish().to_le_bytes());
}

// spec: CHUNK-2
#[test]
pub(crate) fn roots_that_lie_behind_their_footer_do_not_count() {
    let disk = MemoryDisk::new();
    let store = wide(on(&disk), FRAME + 100);
    store.commit(vec![Edit::put("a", "1")]).unwrap();
    store.commit(vec![Edit::put("b", "1")]).unwrap();
    drop(store);
    let mut bytes = bytes_of(&disk);
    let pair = bytes.len() - PAIR;
    // The payload of the footer is a pointer; a whole copy of what it points at is put behind.
    let pointer = pair + 352;
    let offset =
        u64::from_le_bytes([&bytes[pointer..pointer + 6], &[0, 0]].concat().try_into().unwrap());
    let length = u32::from_le_bytes(bytes[pointer + 6..pointer + 10].try_into().unwrap()) as usize;
    let mut roots = bytes[offset as usize..].to_vec();
    let first = (offset as usize).next_multiple_of(BLOCK) - offset as usize;
    if first < length {
        roots.remove(first);
    }
    roots.truncate(length);
    let behind = bytes.len() as u64 + 1;
    bytes.push(0x5a);
    bytes.extend(roots);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    for copy in [pair, pair + BLOCK] {
        bytes[copy + 352..copy + 358].copy_from_slice(&behind.to_le_bytes()[..6]);
        sign(&mut bytes[copy..copy + BLOCK]);
    }
    let snapshot = wide(on(&disk_of(bytes)), FRAME + 100).snapshot().unwrap();
    assert_eq!((snapshot.number(), snapshot.row_count()), (1, 1), "the commit before it stands");
}

// spec: COMMIT-4, COMMIT-2
#[test]
pub(crate) fn a_large_commit_flushes_its_data_before_its_footer() {
    for kind in KINDS {
        for (length, flushes) in [(1_000, 1), (900_000, 1), (1_049_000, 2), (3_000_000, 2)] {
            let disk = MemoryDisk::new();
            let handle = kind.open(&disk).unwrap();
            handle.put("a", "1").unwrap();
            let before = handle.counts().flushes;
            handle.put("a", &"k".repeat(length)).unwrap();
            assert_eq!(handle.counts().flushes - before, flushes, "{length} bytes");
            drop(handle);
            let handle = kind.open(&disk).unwrap();
            assert_eq!(handle.number(), 2, "{length} bytes");
            let read = handle.recovery().bytes_read;
            assert!(read <= (1 << 20) + 2 * PAIR as u64, "{read} bytes read to open");
        }
    }
}

/// The calls of a trace that change the disk.
fn changing(trace: &[Entry]) -> Vec<&Call> {
    let calls = trace.iter().filter_map(|entry| match entry {
        Entry::Call(call, None) if call.changes_the_disk() => Some(call),
        _ => None,
    });
    calls.collect()
}

// spec: RECOVER-2, RECOVER-4
#[test]
pub(crate) fn an_unsealed_tail_is_written_again_before_it_is_built_on() {
    for kind in KINDS {
        let disk = SimDisk::new();
        let handle = kind.small().open(&environment(&disk, 1)).unwrap();
        let size = || disk.bytes(Path::new(PATH)).unwrap().len() as u64;
        handle.put("a", "1").unwrap();
        let flushed = size();
        handle.put("b", "2").unwrap();
        drop(handle);
        let (before, end) = (disk.trace().len(), size());
        let handle = kind.small().open(&environment(&disk, 2)).unwrap();
        assert!(changing(&disk.trace()[before..]).is_empty(), "opening writes nothing");
        handle.put("c", "3").unwrap();
        handle.put("d", "4").unwrap();
        let trace = disk.trace();
        let calls = changing(&trace[before..]);
        // Commit 1 is the newest that a footer names as flushed; all behind its copy A is in doubt.
        let mut offset = flushed - BLOCK as u64;
        let mut rest = calls.iter();
        for call in rest.by_ref() {
            match call {
                Call::Rewrite { offset: at, length, .. } => {
                    assert_eq!(*at, offset);
                    offset += length;
                }
                Call::SyncDir { .. } => {}
                Call::Sync { .. } => break,
                other => panic!("{other} before the tail was flushed"),
            }
        }
        assert_eq!(offset, end, "all of the tail");
        let more = rest.map(|call| call.to_string()).collect::<Vec<_>>();
        assert_eq!(more.len(), 4, "two commits of one append and one flush: {more:?}");
    }
}

// spec: COMPACT-2
#[test]
pub(crate) fn a_compaction_flushes_renames_and_flushes_the_directory() {
    for kind in KINDS {
        let disk = SimDisk::new();
        let handle = kind.small().open(&environment(&disk, 1)).unwrap();
        handle.put("a", "1").unwrap();
        let before = disk.trace().len();
        handle.compact().unwrap();
        handle.put("a", "2").unwrap();
        let trace = disk.trace();
        let calls: Vec<String> =
            changing(&trace[before..]).iter().map(|call| call.to_string()).collect();
        let target = sibling(Path::new(PATH), "compact");
        let target = target.display();
        let rename = format!("rename {target} {PATH}");
        let renamed = calls.iter().position(|call| *call == rename).unwrap();
        assert_eq!(calls[renamed - 1], format!("sync {target}"), "{calls:#?}");
        assert_eq!(calls[renamed + 1], "sync_dir data", "{calls:#?}");
        let append = format!("append {target} ");
        let appends = calls.iter().filter(|call| call.starts_with(&append)).count();
        assert!(appends >= 2 && calls[renamed + 2].starts_with(&append), "{calls:#?}");
    }
}

// spec: HISTORY-1
#[test]
fn a_commit_keeps_its_identity_whoever_looks_and_however_it_was_written() {
    for kind in KINDS {
        for protocol in [Protocol::Guide, Protocol::Barrier, Protocol::Verified] {
            let disk = MemoryDisk::new();
            let mut ids: Vec<CommitId> = Vec::new();
            // Files may mix protocols.
            for round in 0..3 {
                let protocol = if round == 1 { Protocol::Verified } else { protocol };
                let setting = crate::support::Setting { protocol, ..kind.small() };
                let handle = setting.open(&on(&disk)).unwrap();
                handle.put("a", &round.to_string()).unwrap();
                ids.push(handle.view().unwrap().id().unwrap());
                if round == 0 {
                    handle.close().unwrap();
                }
            }
            let handle = kind.small().read(&on(&disk)).unwrap();
            for (index, id) in ids.iter().enumerate() {
                let view = handle.view_at(index as u64 + 1).unwrap();
                assert_eq!(view.id(), Some(*id), "{protocol:?}, commit {}", index + 1);
            }
        }
    }
}
