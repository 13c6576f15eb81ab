//! Files that were cut, damaged, forged or never ours, opened and built on.
//!
//! Invariant: every file here is made from the bytes of a sound one by a single change.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rereduce::checksum::Cover;
use rereduce::reduce::{Reducer, Row};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::Edit;
use rereduce::{Error, ErrorClass};

use super::{Outcome, disk, expect, open_store};
use crate::campaign::Context;
use crate::disk::SimDisk;
use crate::image::Image;
use crate::oracle::{DATABASE, environment};

const BLOCK: usize = 2048;
const PAIR: usize = 2 * BLOCK;

/// Roots of this many bytes do not fit into a footer.
pub(super) const WIDE: usize = 1_800;

/// Where a footer keeps its payload.
const PAYLOAD: usize = 352;

pub(super) fn are_read_and_built_on(context: &Context) -> Outcome {
    cut_files_are_built_on(context)?;
    either_header_copy_will_do(context)?;
    other_files_are_refused(context)?;
    chunks_are_checked(context)?;
    older_commits_open_by_number(context)?;
    long_roots_come_back(context)?;
    roots_behind_their_footer_do_not_count(context)
}

/// Adds up counts, drawn out to a given length.
struct Wide(usize);

impl Wide {
    fn put(&self, count: u64, out: &mut Vec<u8>) {
        out.extend(count.to_le_bytes());
        out.resize(self.0, 0x33);
    }
}

impl Reducer for Wide {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> rereduce::Result<()> {
        self.put(rows.len() as u64, out);
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> rereduce::Result<()> {
        let counts = parts.iter().filter_map(|part| part.first_chunk());
        self.put(counts.map(|count| u64::from_le_bytes(*count)).sum(), out);
        Ok(())
    }
}

pub(super) fn wide(length: usize) -> StoreOptions {
    StoreOptions { reducer: Arc::new(Wide(length)), ..StoreOptions::default() }
}

/// The bytes of a store after these commits, each of one row; it was killed, not closed.
fn killed(context: &Context, options: StoreOptions, keys: &[&str]) -> rereduce::Result<Vec<u8>> {
    let disk = disk();
    let store = open_store(&disk, context, options)?;
    for key in keys {
        store.commit(vec![Edit::put(*key, *key)])?;
    }
    drop(store);
    Ok(disk.bytes(Path::new(DATABASE)).unwrap_or_default())
}

fn holding(bytes: &[u8]) -> SimDisk {
    SimDisk::open_image(&Image::of_files([(DATABASE, bytes)]))
}

/// Flips bits of the byte at `at`, which lies in the file.
fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x55);
    bytes
}

/// A file that ends anywhere holds a commit; two more on it are there after a kill.
fn cut_files_are_built_on(context: &Context) -> Outcome {
    let bytes = killed(context, StoreOptions::default(), &["a", "b", "c"])?;
    let in_header: Range<usize> = 64..BLOCK;
    let lengths = in_header.step_by(248).chain(in_last(&bytes, 2 * PAIR).step_by(97));
    for length in lengths {
        let cut = bytes.get(..length).unwrap_or_default();
        let disk = holding(cut);
        let store = open_store(&disk, context, StoreOptions::default())?;
        let before = store.snapshot()?.number();
        for key in ["x", "y"] {
            store.commit(vec![Edit::put(key, "new")])?;
        }
        drop(store);
        let found = open_store(&disk, context, StoreOptions::default())?.snapshot()?;
        let rows = (found.get(b"x")?, found.get(b"y")?);
        let kept = rows == (Some(b"new".to_vec()), Some(b"new".to_vec()));
        let sound = found.check()?.violations.is_empty();
        let what = format!("cut to {length} bytes: commit {before}, then {}", found.number());
        expect(kept && sound && found.number() == before + 2, what)?;
        // What was torn stays as it is, and what follows begins with a block.
        let after = disk.bytes(Path::new(DATABASE)).unwrap_or_default();
        let gap = after.get(length..length.next_multiple_of(BLOCK)).unwrap_or_default();
        let untouched = after.starts_with(cut) && gap.iter().all(|byte| *byte == 0);
        expect(untouched, format!("cut to {length} bytes: built on in the middle of a block"))?;
    }
    Ok(())
}

/// The offsets of the last `count` bytes.
fn in_last(bytes: &[u8], count: usize) -> Range<usize> {
    bytes.len().saturating_sub(count)..bytes.len()
}

fn either_header_copy_will_do(context: &Context) -> Outcome {
    let bytes = killed(context, StoreOptions::default(), &["a", "b"])?;
    for at in (0..64).chain(1024..1088) {
        let store = open_store(&holding(&flipped(&bytes, at)), context, StoreOptions::default());
        let store = store.map_err(|error| format!("header byte {at} is damaged: {error}"))?;
        expect(store.snapshot()?.row_count() == 2, format!("header byte {at}: rows are missing"))?;
    }
    Ok(())
}

fn other_files_are_refused(context: &Context) -> Outcome {
    let texts = [b"x".to_vec(), b"name,age\n".repeat(900), vec![0; 9_000], vec![0xa5; 9_000]];
    for text in texts {
        let disk = holding(&text);
        let class = open_store(&disk, context, StoreOptions::default()).err().map(|it| it.class());
        let untouched = disk.bytes(Path::new(DATABASE)) == Some(text);
        let what = format!("a file that is not ours: {class:?}, untouched {untouched}");
        expect(class == Some(ErrorClass::NotADatabase) && untouched, what)?;
    }
    Ok(())
}

/// A chunk under a sealed commit that rotted is named, not believed: one byte of it, a marker
/// between its bytes, all of it.
fn chunks_are_checked(context: &Context) -> Outcome {
    const MARKER: &[u8] = b"this text is to rot";
    let disk = disk();
    let store = open_store(&disk, context, StoreOptions::default())?;
    store.commit(vec![Edit::put("k", [MARKER, &[b'v'; 5_000]].concat())])?;
    let end = disk.bytes(Path::new(DATABASE)).unwrap_or_default().len() - PAIR;
    store.close()?;
    let bytes = disk.bytes(Path::new(DATABASE)).unwrap_or_default();
    let at = bytes.windows(MARKER.len()).position(|window| window == MARKER);
    let at = at.ok_or("the value is nowhere in the file")?;
    let mut zeros = bytes.clone();
    for block in zeros.chunks_mut(BLOCK).take(end / BLOCK).skip(1) {
        block.iter_mut().skip(1).for_each(|byte| *byte = 0);
    }
    let rotten = [flipped(&bytes, at), flipped(&bytes, at.next_multiple_of(BLOCK)), zeros];
    for (bytes, what) in rotten.iter().zip(["a byte", "a marker", "all of it"]) {
        let store = open_store(&holding(bytes), context, StoreOptions::default())?;
        let read = store.snapshot()?.get(b"k");
        let what = format!("a chunk was read of which {what} rotted: {read:?}");
        expect(matches!(read, Err(Error::Corrupt(_))), what)?;
    }
    Ok(())
}

/// Where the newest commit was flushed and is damaged, opening says so, and the one before opens
/// by its number; every older one, too, also if one copy of a footer on the way is damaged.
fn older_commits_open_by_number(context: &Context) -> Outcome {
    let disk = disk();
    let store = open_store(&disk, context, StoreOptions::default())?;
    let bytes = || disk.bytes(Path::new(DATABASE)).unwrap_or_default();
    let mut footers = Vec::new();
    for key in ["a", "b", "c", "d"] {
        store.commit(vec![Edit::put(key, key)])?;
        footers.push(bytes().len() - PAIR);
    }
    let &[_, second, third, fourth] = &footers[..] else {
        return Err("four commits leave four footers".into());
    };
    // Commit 4 names commit 3 as flushed; then its data rots, and both copies of the footer of 3.
    let both = |bytes: &[u8], at: usize| flipped(&flipped(bytes, at + 9), at + BLOCK + 9);
    let damaged = flipped(&both(&bytes(), third), third + PAIR + 9);
    let refused = open_store(&holding(&damaged), context, StoreOptions::default()).err();
    let named = matches!(refused, Some(Error::Corrupt(_)));
    expect(named, format!("a flushed commit that rotted: {refused:?}"))?;
    let (path, options) = (Path::new(DATABASE), StoreOptions::default());
    let at = |bytes: &[u8], number| {
        let env = environment(&holding(bytes), context.seed);
        Store::open_commit(&env, path, number, &options)
    };
    // One copy of the footer of commit 2 is enough to come by it to commit 1.
    let one_copy = flipped(&bytes(), second + 9);
    for (bytes, newest) in [(damaged, 2), (one_copy, 4)] {
        for number in 1..=newest {
            let rows = at(&bytes, number).map(|snapshot| snapshot.row_count());
            let rows = rows.map_err(|error| format!("commit {number} by its number: {error}"))?;
            expect(rows == number, format!("commit {number} has {rows} rows"))?;
        }
    }
    // The same where nothing is damaged but the newest footer, which nothing witnessed.
    let torn = both(&bytes(), fourth);
    let found = open_store(&holding(&torn), context, StoreOptions::default())?.snapshot()?.number();
    expect(found == 3, format!("a torn footer leads to commit {found}"))
}

/// Roots of every length around what a footer holds.
fn long_roots_come_back(context: &Context) -> Outcome {
    for length in (8..1_400).step_by(348).chain((1_560..1_700).step_by(3)).chain([WIDE, 8_000]) {
        let disk = disk();
        let store = open_store(&disk, context, wide(length))?;
        store.commit(vec![Edit::put("a", "1"), Edit::put("b", "2")])?;
        drop(store);
        let snapshot = open_store(&disk, context, wide(length))?.snapshot()?;
        let found = snapshot.reduce(&rereduce::vocabulary::KeyRange::all())?;
        let sound = found.len() == length && found.first() == Some(&2);
        expect(sound, format!("a reduction of {length} bytes came back with {}", found.len()))?;
    }
    Ok(())
}

/// A footer, rightly signed, whose payload points behind it is no footer.
fn roots_behind_their_footer_do_not_count(context: &Context) -> Outcome {
    let mut bytes = killed(context, wide(WIDE), &["a", "b"])?;
    let pair = bytes.len() - PAIR;
    let field = |bytes: &[u8], from: usize, size: usize| {
        let part = bytes.get(from..from + size).unwrap_or_default();
        part.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let from = field(&bytes, pair + PAYLOAD, 6) as usize;
    let length = field(&bytes, pair + PAYLOAD + 6, 4) as usize;
    // The chunk once more, behind the footer; markers stand where blocks begin.
    let stored = bytes.get(from..).unwrap_or_default().iter().enumerate();
    let payload = stored.filter(|(at, _)| !(from + at).is_multiple_of(BLOCK));
    let payload: Vec<u8> = payload.map(|(_, byte)| *byte).take(length).collect();
    let behind = bytes.len() as u64 + 1;
    bytes.push(0x5a);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    for copy in bytes.chunks_mut(BLOCK).skip(pair / BLOCK).take(2) {
        let (fields, checksum) = copy.split_at_mut(BLOCK - 8);
        let place = fields.iter_mut().skip(PAYLOAD).zip(behind.to_le_bytes()).take(6);
        place.for_each(|(byte, new)| *byte = new);
        let seed = field(fields, 8, 8) ^ field(fields, 16, 8) ^ field(fields, 24, 8);
        let mut cover = Cover::new(seed);
        cover.update(fields);
        checksum.copy_from_slice(&cover.finish().to_le_bytes());
    }
    let snapshot = open_store(&holding(&bytes), context, wide(WIDE))?.snapshot()?;
    let what = format!("roots behind their footer: commit {} stands", snapshot.number());
    expect(snapshot.number() == 1 && snapshot.row_count() == 1, what)
}
