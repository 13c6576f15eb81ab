//! Tails, footers and headers that are cut, torn or damaged.
//!
//! ```text
//! header | commit 1 | A B | commit 2 | A B |
//!    ^ any byte             ^ any length  ^ any byte
//! ```

use std::ops::Range;
use std::path::Path;

use rereduce::checksum::Cover;
use rereduce::db::DocEdit;
use rereduce::env::{Disk, MemoryDisk};
use rereduce::file::sibling;
use rereduce::{Error, ErrorClass, mark};

use crate::support::{
    BLOCK, KINDS, Kind, PAIR, PATH, Rows, bytes_of, class, disk_of, error, on, rows_of,
};

/// A file, and what it held and how long it was after each commit.
pub(crate) struct Sample {
    pub(crate) bytes: Vec<u8>,
    pub(crate) commits: Vec<(Rows, usize)>,
}

/// The file after one commit for each key in `keys`.
pub(crate) fn sample(kind: Kind, keys: &[&str], sealed: bool) -> Sample {
    let disk = MemoryDisk::new();
    let handle = kind.open(&disk).unwrap();
    let mut rows = Rows::new();
    let mut commits = vec![(rows.clone(), bytes_of(&disk).len())];
    for (index, key) in keys.iter().enumerate() {
        let value = (index + 1).to_string();
        handle.put(key, &value).unwrap();
        rows.insert(key.to_string(), value);
        commits.push((rows.clone(), bytes_of(&disk).len()));
    }
    if sealed {
        handle.close().unwrap();
    }
    Sample { bytes: bytes_of(&disk), commits }
}

fn flipped(bytes: &[u8], at: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    at.into_iter().for_each(|at| damaged[at] ^= 0x41);
    damaged
}

// spec: FOOTER-2, RECOVER-1, RECOVER-3
// case: B01
#[test]
pub(crate) fn one_bad_commit_record_does_not_hide_the_good_one() {
    for kind in KINDS {
        let Sample { bytes, commits } = sample(kind, &["a", "b"], false);
        let pair = bytes.len() - PAIR;
        for at in pair..bytes.len() {
            let handle = kind.open(&disk_of(flipped(&bytes, [at]))).unwrap();
            assert_eq!(handle.view().unwrap().scan().unwrap(), commits[2].0, "byte {at}");
        }
        for at in pair..pair + BLOCK {
            let handle = kind.open(&disk_of(flipped(&bytes, [at, at + BLOCK]))).unwrap();
            assert_eq!(handle.view().unwrap().scan().unwrap(), commits[1].0, "bytes {at} of both");
            assert!(handle.recovery().tail_bytes > 0, "the report says what was left behind");
            // Without its marker a block says nothing; with it, it is named.
            assert_eq!(handle.recovery().skipped.is_empty(), at == pair, "bytes {at} of both");
        }
        for length in pair..bytes.len() {
            let handle = kind.open(&disk_of(bytes[..length].to_vec())).unwrap();
            let expected = if length >= pair + BLOCK { 2 } else { 1 };
            assert_eq!(handle.number(), expected, "{length} bytes");
            assert_eq!(handle.view().unwrap().scan().unwrap(), commits[expected as usize].0);
        }
    }
}

// spec: RECOVER-3, RECOVER-6
// case: B01
#[test]
pub(crate) fn damage_to_a_witnessed_commit_is_named_and_older_commits_open_by_number() {
    for kind in KINDS {
        let Sample { bytes, commits } = sample(kind, &["a", "b", "c"], false);
        let second = commits[2].1 - PAIR;
        for at in (second..second + BLOCK).step_by(13) {
            // Commit 3 says that commit 2 was flushed, and bytes that 3 covers are damaged too.
            let disk = disk_of(flipped(&bytes, [at, at + BLOCK, commits[2].1 + 9]));
            let before = bytes_of(&disk);
            let refused = error(kind.open(&disk));
            assert_eq!(refused.class(), ErrorClass::Corrupt, "{refused}");
            assert!(refused.to_string().contains("commit 2"), "{refused}");
            let first = kind.small().commit_at(&on(&disk), 1).unwrap();
            assert_eq!(first.rows().unwrap(), commits[1].0);
            assert_eq!(bytes_of(&disk), before, "nothing was written");
        }
        // A sealed commit cannot be taken for a torn one either, though both its footers are gone.
        let Sample { bytes, commits } = sample(kind, &["a", "b"], true);
        let both = [commits[2].1 - 50, commits[2].1 - 50 - BLOCK];
        let handle = kind.open(&disk_of(flipped(&bytes, both))).unwrap();
        assert_eq!(handle.rows().unwrap(), commits[2].0, "the seal stands in");
    }
}

/// What holds after commit A, a torn commit B, and commits C and D behind it.
fn appended_behind_torn_tail(kind: Kind, lengths: impl Iterator<Item = usize>) {
    let Sample { bytes, commits } = sample(kind, &["a", "b"], false);
    let (start, end) = (commits[1].1, commits[2].1);
    for torn in lengths.filter(|torn| start + torn < end) {
        let image = bytes[..start + torn].to_vec();
        let disk = disk_of(image.clone());
        let mut expected = Rows::new();
        for (key, value) in [("c", "3"), ("d", "4")] {
            // Each is acknowledged, and the process dies without closing.
            let handle = kind.open(&disk).unwrap();
            expected = handle.view().unwrap().scan().unwrap();
            handle.put(key, value).unwrap();
            expected.insert(key.to_owned(), value.to_owned());
        }
        let handle = kind.open(&disk).unwrap();
        assert_eq!(handle.rows().unwrap(), expected, "{torn} bytes of commit B");
        for key in ["a", "c", "d"] {
            assert!(expected.contains_key(key), "{key} is lost behind {torn} bytes of commit B");
        }
        assert_eq!(expected.contains_key("b"), start + torn >= end - BLOCK, "B is whole or not");
        let after = bytes_of(&disk);
        assert!(after.starts_with(&image), "torn bytes stay as they are");
        let next = image.len().next_multiple_of(BLOCK);
        assert!(after[image.len()..next].iter().all(|byte| *byte == 0), "up to the next block");
    }
}

// spec: RECOVER-5
// case: B03
#[test]
pub(crate) fn what_is_appended_after_a_torn_tail_stays_reachable() {
    appended_behind_torn_tail(Kind::Database, 1..12_000);
    appended_behind_torn_tail(Kind::Store, 1..12_000);
}

// spec: RECOVER-1, FILE-1
// case: B05
#[test]
pub(crate) fn a_truncated_tail_loses_only_the_tail_and_a_cut_header_is_an_empty_database() {
    mark::reset();
    for kind in KINDS {
        let Sample { bytes, commits } = sample(kind, &["a", "b", "c", "d", "e"], false);
        for length in 0..=bytes.len() {
            let disk = disk_of(bytes[..length].to_vec());
            let whole = |(_, end): &&(Rows, usize)| end - BLOCK <= length;
            let (rows, _) = commits.iter().rev().find(whole).unwrap_or(&commits[0]);
            let handle = kind.open(&disk).unwrap();
            assert_eq!(handle.view().unwrap().scan().unwrap(), *rows, "{length} bytes");
            if length < BLOCK {
                handle.put("z", "9").unwrap();
                drop(handle);
                let again = kind.open(&disk).unwrap();
                assert_eq!(again.rows().unwrap(), rows_of([("z", "9")]), "{length} bytes");
            }
        }
    }
    assert!(mark::hits().contains_key("header-torn"));
}

// spec: COMMIT-3, FILE-1
#[test]
pub(crate) fn what_is_written_behind_a_cut_header_is_found_again() {
    // The footer must not claim to cover bytes of the header that were never there.
    for kind in KINDS {
        let header = sample(kind, &[], false).bytes;
        for length in [64, 1_000, 1_087, 1_088, 2_047] {
            let disk = disk_of(header[..length].to_vec());
            kind.open(&disk).unwrap().put("a", "1").unwrap();
            let again = kind.open(&disk).unwrap();
            assert_eq!(again.rows().unwrap(), rows_of([("a", "1")]), "{length} bytes of header");
        }
    }
}

// spec: FILE-3
// case: B05
#[test]
pub(crate) fn a_file_that_never_had_our_header_is_refused_and_not_touched() {
    let ours = sample(Kind::Store, &["a"], false).bytes;
    let newer = {
        let mut bytes = ours.clone();
        for copy in [0, 1024] {
            bytes[copy + 8] += 1;
            let mut checksum = Cover::new(0);
            checksum.update(&bytes[copy..copy + 56]);
            bytes[copy + 56..copy + 64].copy_from_slice(&checksum.finish().to_le_bytes());
        }
        bytes
    };
    let not_ours = ErrorClass::NotADatabase;
    for (bytes, expected) in [
        (b"x".to_vec(), not_ours),
        (b"id,name\n1,Ada\n".to_vec(), not_ours),
        (b"SQLite format 3\0".repeat(400), not_ours),
        (vec![0; 10_000], not_ours),
        (ours[BLOCK..].to_vec(), not_ours),
        (newer, ErrorClass::NewerFormat),
    ] {
        for kind in KINDS {
            let disk = disk_of(bytes.clone());
            assert_eq!(class(kind.open(&disk)), expected);
            assert_eq!(class(kind.small().read(&on(&disk))), expected);
            assert_eq!(bytes_of(&disk), bytes);
            assert_eq!(disk.list(Path::new("data")).unwrap(), [Path::new(PATH)]);
        }
    }
}

// spec: FILE-1
#[test]
pub(crate) fn either_copy_of_the_header_will_do() {
    for kind in KINDS {
        let Sample { bytes, commits } = sample(kind, &["a"], true);
        for at in 0..BLOCK {
            let handle = kind.open(&disk_of(flipped(&bytes, [at]))).unwrap();
            assert_eq!(handle.view().unwrap().scan().unwrap(), commits[1].0, "byte {at}");
        }
        let both = disk_of(flipped(&bytes, [20, 20 + 1024]));
        assert_eq!(class(kind.open(&both)), ErrorClass::Corrupt);
    }
}

// spec: FILE-2
#[test]
pub(crate) fn an_attachment_that_holds_this_very_file_cannot_forge_its_footers() {
    for shift in (0..BLOCK).step_by(97).chain([1, 2046, 2047, 2048]) {
        let disk = MemoryDisk::new();
        let handle = Kind::Database.open(&disk).unwrap();
        handle.put("a", "1").unwrap();
        handle.put("a", "2").unwrap();
        let mut content = vec![0xa5; shift];
        content.extend(bytes_of(&disk));
        let db = handle.database();
        let mut upload = db.upload("copy", "application/octet-stream");
        upload.write(&content).unwrap();
        let mut edit =
            DocEdit::parse("b", br#"{"_attachments":{"copy":{"follows":true}}}"#).unwrap();
        edit.uploads.push(upload.finish().unwrap());
        db.edit(vec![edit]).unwrap().remove(0).unwrap();
        let read = db.snapshot().unwrap().attachment("b", None, "copy").unwrap().read_all();
        assert!(read.unwrap() == content, "shift {shift}");
        // Without the footers of the last commit the newest one is commit 2, not a stored copy.
        let bytes = bytes_of(&disk);
        let torn = disk_of(bytes[..bytes.len() - PAIR].to_vec());
        let handle = Kind::Database.open(&torn).unwrap();
        assert_eq!(handle.rows().unwrap(), rows_of([("a", "2")]), "shift {shift}");
    }
}

// spec: COMMIT-6
#[test]
pub(crate) fn a_clean_close_seals_the_file_so_that_opening_reads_a_few_blocks() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let handle = kind.open(&disk).unwrap();
        for round in 0..20 {
            handle.put("a", &"k".repeat(9_000 + round)).unwrap();
        }
        let (id, rows) = (handle.view().unwrap().id(), handle.rows().unwrap());
        let before = bytes_of(&disk).len();
        handle.close().unwrap();
        handle.close().unwrap();
        let sealed = bytes_of(&disk);
        assert!((PAIR..=2 * PAIR).contains(&(sealed.len() - before)), "one pair, padded");
        assert_eq!(class(handle.put("a", "1")), ErrorClass::Refused);

        let again = kind.open(&disk).unwrap();
        let report = again.recovery();
        assert!(report.sealed && report.bytes_read <= PAIR as u64, "{report:?}");
        assert_eq!((again.view().unwrap().id(), again.rows().unwrap()), (id, rows));
        assert!(again.view().unwrap().is_witnessed().unwrap());
        assert_eq!(bytes_of(&disk), sealed, "opening writes nothing");
    }
}

/// The extents of the nodes in a picture of a tree: `@offset+length`, or `@offset` alone.
fn nodes_behind(picture: &str, start: usize) -> Vec<usize> {
    let words = picture.split_whitespace().filter_map(|word| word.strip_prefix('@'));
    let offsets = words.filter_map(|word| word.split('+').next()?.parse().ok());
    offsets.filter(|offset| *offset >= start).collect()
}

/// The pieces of `[from, to)` that begin at `cuts`; a cut at `from` or outside makes no piece.
fn pieces(from: usize, to: usize, mut cuts: Vec<usize>) -> Vec<Range<usize>> {
    cuts.retain(|cut| (from + 1..to).contains(cut));
    cuts.extend([from, to]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Reads everything in each possible way; every answer is the model's or damage that is named.
fn each_read_is_right_or_damage(view: &crate::support::View, expected: &Rows) -> bool {
    let mut damaged = false;
    let mut judge = |right: rereduce::Result<bool>| match right {
        Ok(right) => assert!(right, "a wrong answer"),
        Err(Error::Corrupt(_)) => damaged = true,
        Err(error) => panic!("{error}"),
    };
    for key in ["a", "b", "c", "d", "e", "f", "g", "nobody"] {
        judge(view.value(key).map(|value| value.as_ref() == expected.get(key)));
    }
    judge(view.scan().map(|rows| rows == *expected));
    judge(view.count().map(|count| count == expected.len() as u64));
    damaged
}

// spec: RECOVER-1, RECOVER-6, CHUNK-1, DB-11
// case: B07
#[test]
pub(crate) fn a_valid_footer_above_data_that_never_landed_gives_no_wrong_answer() {
    use rereduce::file::Protocol;
    let mut damaged_images = 0;
    for kind in KINDS {
        // The flush between data and footers lies under the first two; the last relies on none.
        for protocol in [Protocol::Barrier, Protocol::Guide, Protocol::Verified] {
            let setting = crate::support::Setting { protocol, ..kind.small() };
            let disk = MemoryDisk::new();
            let handle = setting.open(&on(&disk)).unwrap();
            let before = ["a", "b", "c", "d", "e", "f", "g"].map(|key| (key, Some("1")));
            handle.write(&before).unwrap();
            let (old, start) = (handle.rows().unwrap(), bytes_of(&disk).len());
            handle.write(&[("a", Some("2")), ("d", None), ("g", Some("3"))]).unwrap();
            let (new, bytes) = (handle.rows().unwrap(), bytes_of(&disk));
            let cuts = match kind {
                Kind::Database => {
                    nodes_behind(&handle.view().unwrap().database().draw().unwrap(), start)
                }
                Kind::Store => (start..bytes.len()).step_by(100).collect(),
            };
            drop(handle);
            let nodes = pieces(start, bytes.len() - PAIR, cuts);
            let nodes = &nodes[..nodes.len().min(9)];
            for missing in 0..1_u32 << nodes.len() {
                let mut image = bytes.clone();
                for (index, node) in nodes.iter().enumerate() {
                    if missing & (1 << index) != 0 {
                        image[node.clone()].fill(0);
                    }
                }
                let disk = disk_of(image.clone());
                let handle = setting.open(&on(&disk)).unwrap();
                let view = handle.view().unwrap();
                if protocol == Protocol::Verified {
                    let expected = if image == bytes { &new } else { &old };
                    assert_eq!(view.rows().unwrap(), *expected, "{kind:?}, {missing:#b}");
                    continue;
                }
                let damaged = each_read_is_right_or_damage(&view, &new);
                damaged_images += u64::from(damaged);
                let sound = view.is_sound().unwrap();
                assert!(!(damaged && sound), "{kind:?} {missing:#b}: the check is silent");
                let previous = setting.commit_at(&on(&disk), 1).unwrap();
                assert_eq!(previous.rows().unwrap(), old, "{kind:?} {missing:#b}");
            }
        }
    }
    assert!(damaged_images > 100, "{damaged_images} images were damaged");
}

// spec: FOOTER-1
#[test]
pub(crate) fn footers_of_another_file_do_not_count() {
    for kind in KINDS {
        let ours = sample(kind, &["a", "b"], false);
        let theirs = sample(kind, &["a", "b"], false);
        let pair = ours.bytes.len() - PAIR;
        let mut mixed = ours.bytes.clone();
        mixed[pair..].copy_from_slice(&theirs.bytes[pair..]);
        let handle = kind.open(&disk_of(mixed)).unwrap();
        assert_eq!(handle.rows().unwrap(), ours.commits[1].0);
    }
}

// spec: FILE-4
#[test]
pub(crate) fn leftovers_of_a_creation_are_in_nobodys_way() {
    for kind in KINDS {
        for leftover in [Vec::new(), vec![7; 5_000], sample(kind, &["x"], false).bytes] {
            let disk = MemoryDisk::new();
            disk.place(&sibling(Path::new(PATH), "create"), leftover);
            let handle = kind.open(&disk).unwrap();
            assert_eq!(handle.rows().unwrap(), Rows::new());
            handle.put("a", "1").unwrap();
            assert_eq!(disk.list(Path::new("data")).unwrap(), [Path::new(PATH)]);
        }
    }
}
