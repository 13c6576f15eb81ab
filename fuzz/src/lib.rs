//! What every byte reader must survive: arbitrary bytes.
//!
//! Each target is a plain function of its input. `cargo test` replays the committed corpus and
//! simple mutations of it; the programs in `fuzz_targets/` give the same functions to libFuzzer.
//!
//! Invariant: a target never panics, never loops, and never allocates more than the size of its
//! input plus a constant, whatever the input is.

use std::path::Path;
use std::sync::Arc;

use rereduce::checksum::{Cover, crc32c};
use rereduce::codec::Reader;
use rereduce::doc::write_stored;
use rereduce::env::{Access, Entropy, Env, MemoryDisk};
use rereduce::file::{
    BLOCK_BYTES, ChunkSink, ChunkSource, FileId, MemoryChunks, OpenFile, POINTER_BYTES, Pointer,
    recover,
};
use rereduce::vocabulary::Json;
use rereduce::{ErrorClass, Result};

/// A target: a function of its input.
pub type Target = fn(&[u8]);

/// All targets by name; the corpus of `NAME` is in `fuzz/corpus/NAME`.
pub const TARGETS: [(&str, Target); 4] =
    [("chunk", chunk), ("file", file), ("footer", footer), ("json", json)];

/// A pointer made of the input's first bytes, into chunks that hold the rest of it: it is refused,
/// or it leads to exactly the bytes that it names. The rest itself is read back as it was written.
pub fn chunk(input: &[u8]) {
    let (stored, payload) = input.split_at(POINTER_BYTES.min(input.len()));
    let mut chunks = MemoryChunks::default();
    let written = chunks.append(payload).expect("the payload is far below the limit");
    if payload.is_empty() {
        return;
    }
    assert_eq!(&*chunks.read(written).expect("it was just written"), payload);
    let Some(pointer) = Pointer::decode(&mut Reader::new(stored)) else { return };
    let mut encoded = Vec::new();
    pointer.encode(&mut encoded);
    assert_eq!(encoded, stored, "a pointer has one stored form");
    match chunks.read(pointer) {
        Ok(found) => {
            assert_eq!(found.len(), pointer.length());
            assert_eq!(encoded[10..14], crc32c(&found).to_le_bytes());
        }
        Err(error) => assert!(error.is_corrupt(), "{error}"),
    }
}

/// The input as a whole file: opening and recovery answer or refuse, and write nothing.
pub fn file(input: &[u8]) {
    open_and_recover(input);
}

/// Footers with right checksums around whatever the input puts into their fields: structural lies.
pub fn footer(input: &[u8]) {
    open_and_recover(&file_of_footers(input));
}

/// A file that holds one pair of footers for each piece of the input, a few at most.
///
/// ```text
/// | header | pair of footers of piece 0 | pair of piece 1 | ...      a piece is 384 bytes of input
/// ```
///
/// The first byte of a piece says how much of its footer is put right: nothing but the checksum,
/// or (odd) also the number and an empty cover, so that the lie is deeper in. The rest of the
/// piece are the fields behind the offset.
pub fn file_of_footers(input: &[u8]) -> Vec<u8> {
    const PIECE_BYTES: usize = 384;
    const FIELDS: usize = 32;
    let mut bytes = empty_file();
    for (index, piece) in input.chunks(PIECE_BYTES).take(8).enumerate() {
        let offset = bytes.len() as u64;
        let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
        block.extend_from_slice(b"\xa5footer1");
        block.extend_from_slice(&ID.0);
        block.extend_from_slice(&offset.to_le_bytes());
        block.extend_from_slice(&piece[1..]);
        block.resize(BLOCK_BYTES as usize - 8, 0);
        if piece[0] % 2 == 1 {
            let number = index as u64 + 1;
            let cover = Cover::new(seed() ^ number.rotate_left(32)).finish();
            block[FIELDS..FIELDS + 8].copy_from_slice(&number.to_le_bytes());
            block[FIELDS + 16..FIELDS + 24].copy_from_slice(&offset.to_le_bytes());
            block[FIELDS + 24..FIELDS + 32].copy_from_slice(&cover.to_le_bytes());
        }
        let mut checksum = Cover::new(seed() ^ offset);
        checksum.update(&block);
        block.extend_from_slice(&checksum.finish().to_le_bytes());
        bytes.extend_from_slice(&block);
        bytes.extend_from_slice(&block);
    }
    bytes
}

/// JSON text is refused as bad input, or its value is read again from its stored form. What is
/// shown of it can be read too.
pub fn json(input: &[u8]) {
    match Json::parse(input) {
        Ok(value) => {
            let mut stored = Vec::new();
            write_stored(&value, &mut stored);
            let again = Json::parse(&stored).expect("what is stored can be read");
            assert_eq!(again, value);
            assert!(Json::parse(value.to_string().as_bytes()).is_ok(), "what is shown can be read");
        }
        Err(error) => assert_eq!(error.class(), ErrorClass::BadInput, "{error}"),
    }
}

fn open_and_recover(bytes: &[u8]) {
    let disk = MemoryDisk::new();
    let path = Path::new("fuzz.rereduce");
    disk.place(path, bytes.to_vec());
    let env = Env { disk: Arc::new(disk.clone()), ..Env::real() };
    let opened = OpenFile::open(&env, path, Access::Read);
    match opened.and_then(|file| Ok((file.is_unborn(), recover(&file)?.report))) {
        Ok((is_unborn, report)) => assert!(!is_unborn || report.number == 0),
        Err(error) => {
            let expected = [ErrorClass::Corrupt, ErrorClass::NotADatabase, ErrorClass::NewerFormat];
            assert!(expected.contains(&error.class()), "{error}");
        }
    }
    assert!(disk.bytes(path).is_some_and(|after| after == bytes), "opening wrote something");
}

/// The id of every file that is made here.
const ID: FileId = FileId(*b"fuzz fuzz fuzz !");

/// Randomness that is the same every time.
struct Same;

impl Entropy for Same {
    fn fill(&self, buffer: &mut [u8]) -> Result<()> {
        buffer.iter_mut().zip(ID.0).for_each(|(byte, same)| *byte = same);
        Ok(())
    }
}

/// A file without commits.
fn empty_file() -> Vec<u8> {
    let disk = MemoryDisk::new();
    let env = Env { disk: Arc::new(disk.clone()), entropy: Arc::new(Same), ..Env::real() };
    let path = Path::new("empty.rereduce");
    OpenFile::create(&env, path, ID).expect("a disk in memory does not fail");
    disk.bytes(path).expect("it was just created")
}

/// The number with which the checksums of a file's footers begin.
fn seed() -> u64 {
    let id = u128::from_le_bytes(ID.0);
    (id ^ (id >> 64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_that_tell_no_lie_are_commits() {
        let disk = MemoryDisk::new();
        let bytes = file_of_footers(include_bytes!("../corpus/footer/three-commits"));
        disk.place(Path::new("f"), bytes);
        let env = Env { disk: Arc::new(disk), ..Env::real() };
        let file = OpenFile::open(&env, Path::new("f"), Access::Read).unwrap();
        assert_eq!(recover(&file).unwrap().report.number, 3);
    }
}
