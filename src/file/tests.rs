//! Tests of the file by itself: commits whose roots are plain bytes.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::env::{Access, Disk, Env, MemoryDisk};
use crate::error::{Error, ErrorClass, Result};

const PATH: &str = "db";

fn disk_and_env() -> (MemoryDisk, Env) {
    let disk = MemoryDisk::new();
    let env = Env { disk: Arc::new(disk.clone()), ..Env::real() };
    (disk, env)
}

fn writer(env: &Env, protocol: Protocol) -> Result<FileWriter> {
    let path = Path::new(PATH);
    let file = match OpenFile::open(env, path, Access::Write) {
        Ok(file) if !file.is_unborn() => file,
        Ok(_) | Err(Error::NoSuchFile { .. }) => OpenFile::create(env, path, FileId([7; 16]))?,
        Err(error) => return Err(error),
    };
    let recovered = recover(&file)?;
    Ok(FileWriter::resume(Arc::new(file), &recovered, protocol))
}

/// The roots of the newest commit in a file of these bytes.
fn newest_roots(bytes: Vec<u8>) -> Result<Option<Vec<u8>>> {
    let (disk, env) = disk_and_env();
    disk.place(Path::new(PATH), bytes);
    let file = OpenFile::open(&env, Path::new(PATH), Access::Read)?;
    recover(&file)?.head.map(|footer| roots(&file, &footer)).transpose()
}

fn roots(file: &OpenFile, footer: &Footer) -> Result<Vec<u8>> {
    match &footer.payload {
        Payload::Inline(roots) => Ok(roots.clone()),
        Payload::Chunk(pointer) => Ok(file.read(*pointer)?.to_vec()),
    }
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Guide, Protocol::Barrier, Protocol::Verified];

/// Five commits, each with a chunk and roots that name it; the file's bytes after each.
fn five_commits(protocol: Protocol) -> Vec<Vec<u8>> {
    let (disk, env) = disk_and_env();
    let mut writer = writer(&env, protocol).unwrap();
    let mut images = vec![disk.bytes(Path::new(PATH)).unwrap()];
    for number in 1..=5u8 {
        writer.append(&vec![number; 700 * usize::from(number)]).unwrap();
        assert_eq!(writer.commit(&[number]).unwrap().number, u64::from(number));
        images.push(disk.bytes(Path::new(PATH)).unwrap());
    }
    images
}

// spec: RECOVER-1
// case: B05
#[test]
fn a_truncated_tail_loses_only_the_tail() {
    for protocol in PROTOCOLS {
        let images = five_commits(protocol);
        let whole = images.last().unwrap();
        for length in 0..=whole.len() {
            // A commit counts from the end of its first copy on.
            let expected = (1..=5u8)
                .rev()
                .find(|number| images[usize::from(*number)].len() - BLOCK_BYTES as usize <= length);
            let found = newest_roots(whole[..length].to_vec()).unwrap();
            assert_eq!(found, expected.map(|number| vec![number]), "{protocol:?}, {length} bytes");
        }
    }
}

// spec: RECOVER-5
// case: B03
#[test]
fn what_is_appended_behind_a_torn_tail_stays_reachable() {
    let images = five_commits(Protocol::Verified);
    let (torn_commit, base) = (&images[2], images[1].len());
    for torn in (1..torn_commit.len() - base).step_by(7).chain(2040..2060) {
        let (disk, env) = disk_and_env();
        disk.place(Path::new(PATH), torn_commit[..base + torn].to_vec());
        let found = newest_roots(disk.bytes(Path::new(PATH)).unwrap()).unwrap().unwrap()[0];
        for number in 0..2u8 {
            // No clean close in between: each reopening finds what the one before appended.
            let mut writer = writer(&env, Protocol::Verified).unwrap();
            let chunk = writer.append(b"chunk").unwrap();
            let id = writer.commit(&[100 + number]).unwrap().id();
            assert_eq!(id.number, u64::from(found) + 1 + u64::from(number));
            assert_eq!(&*writer.read(chunk).unwrap(), b"chunk");
        }
        let bytes = disk.bytes(Path::new(PATH)).unwrap();
        assert!(bytes.starts_with(&torn_commit[..base + torn]), "torn bytes stay as they are");
        assert_eq!(newest_roots(bytes).unwrap(), Some(vec![101]), "{torn} bytes of the tail");
        let file = OpenFile::open(&env, Path::new(PATH), Access::Read).unwrap();
        let head = recover(&file).unwrap().head.unwrap();
        for number in 1..=head.number {
            history::find_commit(&file, &head, number).unwrap();
        }
    }
}

// spec: FOOTER-3
// case: B09
#[test]
fn roots_of_every_length_come_back() {
    let (_, env) = disk_and_env();
    for length in (0..1600).step_by(160).chain(1600..2100).chain((2100..8400).step_by(61)) {
        let long: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let mut written = writer(&env, Protocol::Verified).unwrap();
        written.commit(&long).unwrap();
        let file = OpenFile::open(&env, Path::new(PATH), Access::Read).unwrap();
        let footer = recover(&file).unwrap().head.unwrap();
        assert_eq!(roots(&file, &footer).unwrap(), long, "{length} bytes");
    }
}

// spec: COMMIT-2, COMMIT-4
#[test]
fn each_protocol_flushes_as_often_as_it_says() {
    for (protocol, small, large) in
        [(Protocol::Guide, 2, 2), (Protocol::Barrier, 2, 2), (Protocol::Verified, 1, 2)]
    {
        let (_, env) = disk_and_env();
        let mut writer = writer(&env, protocol).unwrap();
        writer.append(b"chunk").unwrap();
        writer.commit(b"roots").unwrap();
        assert_eq!(writer.counts().flushes, small, "{protocol:?}, small commit");
        writer.append(&vec![1; 2 << 20]).unwrap();
        writer.commit(b"roots").unwrap();
        assert_eq!(writer.counts().flushes, small + large, "{protocol:?}, large commit");
    }
}

// spec: COMMIT-3, COMMIT-4
#[test]
fn a_footer_covers_what_was_written_since_the_last_flush_and_never_more_than_it_may() {
    let (_, env) = disk_and_env();
    let mut writer = writer(&env, Protocol::Verified).unwrap();
    for size in [1, 5_000, 900_000, 1_040_000, 1_044_000, 1_048_000, 1_060_000, 3_000_000] {
        let before = writer.head().map_or(BLOCK_BYTES, Footer::end);
        writer.append(&vec![3; size]).unwrap();
        writer.commit(b"roots").unwrap();
        let head = writer.head().unwrap();
        let cover = head.offset - head.cover_from;
        assert!(cover <= COVER_BYTES_MAX);
        assert!(cover == 0 && size > 1_000_000 || head.cover_from == before, "{size} bytes");
    }
}

// spec: COMMIT-6
#[test]
fn a_sealed_file_opens_with_a_few_reads_and_keeps_the_commits_identity() {
    let (disk, env) = disk_and_env();
    let mut open = writer(&env, Protocol::Verified).unwrap();
    open.append(&vec![9; 500_000]).unwrap();
    let id = open.commit(b"roots").unwrap().id();
    open.seal().unwrap();
    let sealed = disk.bytes(Path::new(PATH)).unwrap();
    open.seal().unwrap();
    assert_eq!(disk.bytes(Path::new(PATH)).unwrap(), sealed, "sealing twice appends once");
    let file = OpenFile::open(&env, Path::new(PATH), Access::Read).unwrap();
    let recovered = recover(&file).unwrap();
    assert!(recovered.report.sealed && recovered.report.bytes_read <= 2 * BLOCK_BYTES);
    assert_eq!(recovered.head.unwrap().id(), id);
    let mut again = writer(&env, Protocol::Verified).unwrap();
    assert_eq!(again.commit(b"more").unwrap().number, 2);
    assert_eq!(again.head().unwrap().previous, id.offset, "the chain does not need the seal");
}

// spec: RECOVER-3, RECOVER-6
#[test]
fn damage_to_a_witnessed_commit_is_an_error_and_to_an_unwitnessed_one_a_fall_back() {
    // Both footers of commit 5 are damaged: nothing says that it was ever flushed.
    let images = five_commits(Protocol::Verified);
    let mut torn = images[5].clone();
    let length = torn.len();
    torn[length - 100] ^= 1;
    torn[length - 100 - BLOCK_BYTES as usize] ^= 1;
    assert_eq!(newest_roots(torn).unwrap(), Some(vec![4]));

    // A whole footer of commit 5 names commit 4 as flushed, and bytes that 5 covers are gone: the
    // search passes 5 and must not go below 4.
    let mut lost = images[5].clone();
    let end = images[4].len();
    lost[end + 10] ^= 1;
    assert_eq!(newest_roots(lost.clone()).unwrap(), Some(vec![4]));
    lost[end - 100] ^= 1;
    lost[end - 100 - BLOCK_BYTES as usize] ^= 1;
    let error = newest_roots(lost.clone()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Corrupt);
    assert!(error.to_string().contains("commit 4"), "{error}");
}

// spec: HISTORY-1, HISTORY-2, FOOTER-2
#[test]
fn every_commit_opens_by_number_through_either_copy() {
    let images = five_commits(Protocol::Verified);
    for damaged_copy in [0, BLOCK_BYTES as usize] {
        let mut bytes = images[5].clone();
        for image in &images[1..] {
            bytes[image.len() - 2 * BLOCK_BYTES as usize + damaged_copy + 60] ^= 0x10;
        }
        let (disk, env) = disk_and_env();
        disk.place(Path::new(PATH), bytes);
        let file = OpenFile::open(&env, Path::new(PATH), Access::Read).unwrap();
        let head = recover(&file).unwrap().head.unwrap();
        for number in 1..=5u8 {
            let footer = history::find_commit(&file, &head, u64::from(number)).unwrap();
            assert_eq!(roots(&file, &footer).unwrap(), [number]);
        }
        let class = |number| history::find_commit(&file, &head, number).unwrap_err();
        assert!(matches!(class(6), Error::NoSuchCommit { asked: 6, newest: 5 }));
        assert!(matches!(class(0), Error::Compacted { asked: 0, oldest: 1 }));
    }
}

// spec: FILE-2
#[test]
fn a_stored_copy_of_the_file_itself_is_never_taken_for_its_footers() {
    let (disk, env) = disk_and_env();
    let mut open = writer(&env, Protocol::Verified).unwrap();
    open.commit(b"old").unwrap();
    let copy = disk.bytes(Path::new(PATH)).unwrap();
    for shift in 0..3 {
        // The copy lands at every alignment; a later commit then loses both its footers.
        let mut chunk = vec![0; shift];
        chunk.extend_from_slice(&copy);
        open.append(&chunk).unwrap();
        open.commit(b"new").unwrap();
        let mut torn = disk.bytes(Path::new(PATH)).unwrap();
        torn.truncate(torn.len() - 2 * BLOCK_BYTES as usize);
        let found = newest_roots(torn).unwrap().unwrap();
        assert_eq!(found, if shift == 0 { b"old" } else { b"new" });
    }
}

// spec: CHUNK-1
#[test]
fn a_pointer_that_leads_out_of_the_file_is_damage_and_allocates_nothing() {
    let (disk, env) = disk_and_env();
    let mut open = writer(&env, Protocol::Verified).unwrap();
    let chunk = open.append(b"chunk").unwrap();
    open.commit(b"roots").unwrap();
    let file = OpenFile::open(&env, Path::new(PATH), Access::Read).unwrap();
    assert_eq!(&*file.read(chunk).unwrap(), b"chunk");
    let size = disk.bytes(Path::new(PATH)).unwrap().len() as u64;
    for wrong in [
        Pointer { offset: size + 1, ..chunk },
        Pointer { length: u32::MAX, ..chunk },
        Pointer { offset: (1 << 48) - 1, length: u32::MAX, checksum: 0 },
        Pointer { checksum: !chunk.checksum, ..chunk },
    ] {
        assert_eq!(file.read(wrong).unwrap_err().class(), ErrorClass::Corrupt, "{wrong:?}");
    }
}

// spec: FILE-4
#[test]
fn a_file_whose_making_was_cut_off_is_made_anew() {
    let (disk, env) = disk_and_env();
    for length in [0, 3, 40, 63] {
        let whole = Header { version: 1, file: FileId([1; 16]), database: FileId([2; 16]) };
        disk.place(Path::new(PATH), whole.encode()[..length].to_vec());
        let mut open = writer(&env, Protocol::Verified).unwrap();
        open.commit(b"roots").unwrap();
        let bytes = disk.bytes(Path::new(PATH)).unwrap();
        assert_eq!(newest_roots(bytes).unwrap(), Some(b"roots".to_vec()));
    }
    let left = disk.list(Path::new("")).unwrap();
    assert_eq!(left, [Path::new(PATH)], "the temporary name is gone");
}

#[test]
fn errors_name_the_file_and_not_the_name_it_was_made_under() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let file = OpenFile::create(&Env::real(), &path, FileId([7; 16])).unwrap();
    // Writing behind the largest offset fails in the system.
    let error = file.rewrite_same(u64::MAX >> 1, b"x").unwrap_err();
    assert!(matches!(&error, Error::Io { path: named, .. } if *named == path), "{error}");
}
