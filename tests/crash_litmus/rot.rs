//! Damage at rest: which way of reading notices which kind.
//!
//! ```text
//! file a    block 0        block 1        block 2          512 bytes each
//!           value 1        value 2        value 3
//! block     value (1) | place (1) | zeros | xxh3 of all before (8)
//! ```
//!
//! Invariant: each reader notices all that the one before it notices.

use std::collections::BTreeSet;
use std::path::Path;

use rereduce::env::{Access, Disk};
use rereduce_crash_sim::{FaultKind, Image, SimDisk};
use xxhash_rust::xxh3::xxh3_64;

use crate::page::table;

const BLOCK_BYTES: usize = 512;
const SUM_AT: usize = BLOCK_BYTES - 8;

/// How a file is read, from trusting to wary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reader {
    /// It believes what is there.
    Plain,
    /// It compares each block with the checksum inside it.
    Checked,
    /// It also asks whether the block says that it belongs there.
    Placed,
    /// It also compares with checksums that are kept elsewhere, as parents keep those of children.
    Pointed,
    /// It also asks whether the content obeys the rule that writers obey: values ascend.
    Ordered,
}

const READERS: [(&str, Reader); 5] = [
    ("plain", Reader::Plain),
    ("checked", Reader::Checked),
    ("placed", Reader::Placed),
    ("pointed", Reader::Pointed),
    ("ordered", Reader::Ordered),
];

fn block(value: u8, place: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    (block[0], block[1]) = (value, place);
    seal(&mut block);
    block
}

fn seal(block: &mut [u8]) {
    let sum = xxh3_64(&block[..SUM_AT]);
    block[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

fn sums(file: &[u8]) -> Vec<u64> {
    file.chunks(BLOCK_BYTES).map(xxh3_64).collect()
}

/// The file, the sums that are kept elsewhere, and both after the damage.
fn damaged(damage: &str) -> (Image, Vec<u64>) {
    let mut file = [block(1, 0), block(2, 1), block(3, 2)].concat();
    let mut kept = sums(&file);
    let words: Vec<&str> = damage.split(' ').collect();
    let number = |index: usize| words[index].parse::<usize>().unwrap();
    let range = |index: usize| number(index) * BLOCK_BYTES..(number(index) + 1) * BLOCK_BYTES;
    // What block 1 held before it was written last.
    let older = block(0, 1);
    match words[0] {
        "flip" => file[number(1) / 8] ^= 1 << (number(1) % 8),
        "zero" => file[range(1)].fill(0),
        "swap" => {
            let first = file[range(1)].to_vec();
            file.copy_within(range(2), range(1).start);
            file[range(2)].copy_from_slice(&first);
        }
        "misdirect" => {
            file.copy_within(range(1), range(2).start);
            file[range(1)].copy_from_slice(&older);
        }
        "stale" => file[range(1)].copy_from_slice(&older),
        "lie" => {
            file[range(1).start] = number(2) as u8;
            seal(&mut file[range(1)]);
            kept = sums(&file);
        }
        other => panic!("unknown damage {other}"),
    }
    (Image::of_files([("a", file.as_slice())]), kept)
}

/// The values that the reader sees, or which block it found damaged.
fn read(reader: Reader, image: &Image, kept: &[u64]) -> String {
    let file = SimDisk::open_image(image).open(Path::new("a"), Access::Read).unwrap();
    let mut values = Vec::new();
    for (index, kept) in kept.iter().enumerate() {
        let mut block = vec![0; BLOCK_BYTES];
        assert_eq!(file.read_at((index * BLOCK_BYTES) as u64, &mut block).unwrap(), BLOCK_BYTES);
        let sum = xxh3_64(&block[..SUM_AT]).to_le_bytes();
        let notices = [
            (Reader::Checked, block[SUM_AT..] != sum),
            (Reader::Placed, block[1] as usize != index),
            (Reader::Pointed, xxh3_64(&block) != *kept),
            (Reader::Ordered, values.last().is_some_and(|last| *last >= block[0])),
        ];
        if notices.into_iter().any(|(needed, wrong)| wrong && reader >= needed) {
            return format!("block {index} is damaged");
        }
        values.push(block[0]);
    }
    values.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
}

fn rows() -> Vec<(FaultKind, String, Reader, String, bool)> {
    let rows = table("| kind | damage | reader |").into_iter().map(|row| {
        let reader = READERS.iter().find(|(name, _)| *name == row[2]).unwrap().1;
        let stands = row[4] == "stands";
        assert!(stands || row[4] == "falls", "what is {}?", row[4]);
        (row[0].parse().unwrap(), row[1].clone(), reader, row[3].clone(), stands)
    });
    rows.collect()
}

// spec: DISK-13
#[test]
fn every_reader_notices_what_the_table_of_rot_says() {
    for (kind, damage, reader, answer, stands) in rows() {
        let (image, kept) = damaged(&damage);
        assert_eq!(read(reader, &image, &kept), answer, "{kind}: {damage}, read {reader:?}");
        let right = answer == "1 2 3" || answer.ends_with("is damaged");
        assert_eq!(right, stands, "{kind}: {damage}, read {reader:?}");
        // Whoever looks closer notices too.
        for (_, wary) in READERS.iter().filter(|(_, wary)| stands && *wary >= reader) {
            assert!(read(*wary, &image, &kept).ends_with("is damaged"), "{damage}: {wary:?}");
        }
    }
}

// spec: DISK-13
#[test]
fn under_each_kind_of_rot_one_reader_falls_and_one_stands() {
    let seen: BTreeSet<(FaultKind, bool)> =
        rows().into_iter().map(|(kind, _, _, _, stands)| (kind, stands)).collect();
    let expected = FaultKind::ROT.into_iter().flat_map(|kind| [(kind, false), (kind, true)]);
    assert_eq!(seen, expected.collect());
}
