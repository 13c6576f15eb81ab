//! What every byte reader must survive: arbitrary bytes.
//!
//! Each target is a plain function of its input. `cargo test` replays the committed corpus and
//! simple mutations of it; the programs in `fuzz_targets/` give the same functions to libFuzzer.
//!
//! Invariant: a target never panics, never loops, and never allocates more than the size of its
//! input plus a constant, whatever the input is.

mod query;
#[path = "../../crash-sim/src/targets/views.rs"]
mod with_views;

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rereduce::btree::{CachedNodes, Node, NodeCache, Shape, Tree, TreeOptions};
use rereduce::checksum::{Cover, crc32c};
use rereduce::codec::Reader;
use rereduce::collate::{Collation, next_sibling};
use rereduce::db::{Database, DatabaseOptions, DbSnapshot};
use rereduce::doc::write_stored;
use rereduce::env::{Entropy, Env, MemoryDisk};
use rereduce::file::{
    BLOCK_BYTES, ChunkSink, ChunkSource, FileId, MemoryChunks, OpenFile, POINTER_BYTES, Pointer,
};
use rereduce::kv::{KvSnapshot, OrderedKv};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Direction, Edit, Json, KeyRange};
use rereduce::{ErrorClass, Result};
use rereduce_model::{
    KvEngine, KvHandle, KvHistory, check_kv_history, check_views_history, compare_raw,
    compare_unicode, view_history_from_bytes,
};

pub use query::query;
use with_views::{ViewsProfile, WithViews};

/// A target: a function of its input.
pub type Target = fn(&[u8]);

/// All targets by name; the corpus of `NAME` is in `fuzz/corpus/NAME`.
pub const TARGETS: [(&str, Target); 10] = [
    ("chunk", chunk),
    ("database", database),
    ("file", file),
    ("footer", footer),
    ("json", json),
    ("node", node),
    ("operations", operations),
    ("query", query),
    ("sort_key", sort_key),
    ("views", views),
];

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

/// Chunks with right checksums that hold whatever the input puts into the nodes of a tree: reading
/// the tree answers or refuses, and meets no row more than once.
///
/// ```text
/// | length | payload of chunk 0 | length | payload of chunk 1 | ... | length | root of the tree |
/// ```
///
/// In a payload the bytes `fe k` stand for the pointer to chunk k, if that is there already.
pub fn node(input: &[u8]) {
    let mut chunks = MemoryChunks::default();
    let mut pointers: Vec<Pointer> = Vec::new();
    let mut rest = input;
    let mut last = Vec::new();
    while let Some((&length, behind)) = rest.split_first() {
        let (piece, behind) = behind.split_at(usize::from(length).min(behind.len()));
        rest = behind;
        last = with_pointers(piece, &pointers);
        pointers.push(chunks.append(&last).expect("the payload is far below the limit"));
        let raw = last.as_slice().into();
        if let Some(node) = pointers.last().and_then(|pointer| Node::decode(*pointer, raw)) {
            assert!(node.count() > 0 && node.size() <= last.len());
        }
    }
    let Some(tree) = Tree::decode(&mut Reader::new(&last)) else { return };
    let cache = NodeCache::new(0);
    let nodes = CachedNodes::new(&chunks, &cache);
    let mut rows = 0;
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut first = None;
        rows = 0;
        let scanned = tree.scan(&nodes, &KeyRange::all(), direction, &mut |key, _| {
            first.get_or_insert_with(|| key.to_vec());
            rows += 1;
            assert!(rows <= input.len(), "a row was met twice");
            ControlFlow::Continue(())
        });
        assert_corrupt_or(scanned);
        if let Some(key) = first {
            assert_corrupt_or(tree.get(&nodes, &key));
        }
    }
    assert_corrupt_or(tree.reduce(&nodes, &Shape::default(), &KeyRange::all()));
    let checked = tree.check(&nodes, &Shape::default()).expect("damage is a finding");
    if checked.violations.is_empty() {
        assert_eq!(tree.row_count(), rows as u64, "the check found nothing wrong");
    }
}

/// `piece` with pointers to `chunks` in place of the bytes `fe k`.
fn with_pointers(piece: &[u8], chunks: &[Pointer]) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut rest = piece;
    while let Some((&byte, behind)) = rest.split_first() {
        let chunk = behind.first().and_then(|&index| chunks.get(usize::from(index)));
        match chunk.filter(|_| byte == 0xfe) {
            Some(pointer) => {
                pointer.encode(&mut payload);
                rest = &behind[1..];
            }
            None => {
                payload.push(byte);
                rest = behind;
            }
        }
    }
    payload
}

fn assert_corrupt_or<T>(result: Result<T>) {
    if let Err(error) = result {
        assert!(error.is_corrupt(), "{error}");
    }
}

/// A history of operations that the input describes, on a store in memory and on the model.
pub fn operations(input: &[u8]) {
    let engine = StoreInMemory { env: Env::memory() };
    let history = KvHistory::from_bytes(&input[..input.len().min(1000)]);
    if let Err(violation) = check_kv_history(&engine, &history.0) {
        panic!("{violation}");
    }
}

struct StoreInMemory {
    env: Env,
}

impl KvEngine for StoreInMemory {
    fn open(&self, name: &str) -> Result<Box<dyn KvHandle>> {
        let tree = TreeOptions { fan_out_max: 3, ..TreeOptions::default() };
        let options = StoreOptions { tree, cache_bytes: 1000, ..StoreOptions::default() };
        Ok(Box::new(OpenStore(Store::open(self.env.clone(), name.as_ref(), options)?)))
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.env.disk.remove(name.as_ref()) {
            Err(error) if error.class() != ErrorClass::Missing => Err(error),
            _ => Ok(()),
        }
    }
}

struct OpenStore(Store);

impl OrderedKv for OpenStore {
    fn commit(&self, edits: &[Edit]) -> Result<()> {
        OrderedKv::commit(&self.0, edits)
    }

    fn snapshot(&self) -> Result<Box<dyn KvSnapshot>> {
        OrderedKv::snapshot(&self.0)
    }
}

impl KvHandle for OpenStore {
    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }

    fn compact(&self) -> Option<Result<()>> {
        Some(self.0.compact(&mut || ControlFlow::Continue(())))
    }

    fn commit_number(&self) -> Option<u64> {
        Some(self.0.snapshot().map_or(0, |snapshot| snapshot.number()))
    }

    fn open_commit(&self, number: u64) -> Option<Result<Box<dyn KvSnapshot>>> {
        let opened = self.0.snapshot_at(number);
        Some(opened.map(|snapshot| Box::new(snapshot) as Box<dyn KvSnapshot>))
    }
}

/// The input as a whole file: opening it, checking it and reading all of it answers or refuses, and
/// writes nothing.
pub fn file(input: &[u8]) {
    open_and_read_all(input);
}

/// The input as a whole database file: opening it, checking it and reading every revision,
/// attachment, local document, purge and change of each commit answers or refuses, and writes
/// nothing.
pub fn database(input: &[u8]) {
    opens_and_writes_nothing(input, read_all_documents);
}

/// Footers with right checksums around whatever the input puts into their fields: structural lies.
pub fn footer(input: &[u8]) {
    open_and_read_all(&file_of_footers(input));
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

/// Lines of JSON text: the sort keys of each two values are in the order of the model. The input
/// itself, as if it were a sort key, is taken apart or refused.
pub fn sort_key(input: &[u8]) {
    let orders = [(Collation::Unicode, compare_unicode as Order), (Collation::Raw, compare_raw)];
    let lines = input.split(|byte| *byte == b'\n').filter_map(|line| Json::parse(line).ok());
    let values: Vec<Json> = lines.take(4).collect();
    for (collation, order) in orders {
        takes_apart(collation, input);
        let key = |value: &Json| {
            let mut key = Vec::new();
            collation.sort_key(value, &mut key);
            key
        };
        let keys: Vec<Vec<u8>> = values.iter().map(key).collect();
        for (one, left) in values.iter().zip(&keys) {
            for (two, right) in values.iter().zip(&keys) {
                assert_eq!(left.cmp(right), order(one, two), "{collation:?}: {one} {two}");
                let row = [&left[..], right].concat();
                assert_eq!(collation.split(&row), Some((&left[..], &right[..])));
                takes_apart(collation, &row);
            }
        }
    }
}

/// How a collation orders two values.
type Order = fn(&Json, &Json) -> Ordering;

/// A history of a database and its views, as the input describes it, against the model: what the
/// views show, how many documents they map for it, and their own check.
pub fn views(input: &[u8]) {
    /// Operations of a history at most; more find nothing that fewer do not.
    const OPERATIONS_MAX: usize = 24;
    let Some((profile, history)) = input.split_first() else { return };
    let profile = ViewsProfile {
        fan_out: 2 + usize::from(profile % 3),
        batch_docs: 1 + usize::from(profile / 3 % 3),
        cache_bytes: usize::from(profile / 9) << 8,
    };
    let mut ops = view_history_from_bytes(history);
    ops.truncate(OPERATIONS_MAX);
    let env = Env { entropy: Arc::new(Counting::default()), ..Env::real() };
    if let Err(violation) = check_views_history(&WithViews::new(profile, &env), &ops) {
        panic!("{violation}");
    }
}

/// Randomness that never comes twice, and is the same in every run.
#[derive(Default)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, buffer: &mut [u8]) -> Result<()> {
        for byte in buffer.chunks_mut(size_of::<u64>()) {
            let next = self.0.fetch_add(1, Relaxed).wrapping_add(1);
            byte.iter_mut().zip(next.to_le_bytes()).for_each(|(byte, next)| *byte = next);
        }
        Ok(())
    }
}

/// Bytes begin with a key or they do not; its cuts begin them too, and each ends below a sibling.
fn takes_apart(collation: Collation, bytes: &[u8]) {
    let split = collation.split(bytes);
    if let Some((key, rest)) = split {
        assert_eq!(key.len() + rest.len(), bytes.len());
        assert_eq!(collation.split(key), Some((key, &[][..])));
    }
    for level in 1..4 {
        let Some(cut) = collation.level_cut(bytes, level) else {
            assert!(split.is_none(), "a key has cuts");
            continue;
        };
        assert!(bytes.starts_with(cut));
        assert!(next_sibling(cut).is_some_and(|sibling| bytes < sibling.as_slice()));
    }
}

fn open_and_read_all(bytes: &[u8]) {
    opens_and_writes_nothing(bytes, read_all);
}

fn opens_and_writes_nothing(bytes: &[u8], read: fn(&Env, &Path, usize) -> Result<()>) {
    let disk = MemoryDisk::new();
    let path = Path::new("fuzz.rereduce");
    disk.place(path, bytes.to_vec());
    let env = Env { disk: Arc::new(disk.clone()), ..Env::real() };
    if let Err(error) = read(&env, path, bytes.len()) {
        let expected = [ErrorClass::Corrupt, ErrorClass::NotADatabase, ErrorClass::NewerFormat];
        assert!(expected.contains(&error.class()), "{error}");
    }
    assert!(disk.bytes(path).is_some_and(|after| after == bytes), "opening wrote something");
}

/// Walks the whole history of the database at `path`, newest commit first, and reads each commit.
fn read_all_documents(env: &Env, path: &Path, size: usize) -> Result<()> {
    let options = DatabaseOptions { cache_bytes: 0, ..DatabaseOptions::default() };
    let db = Database::open_read_only(env.clone(), path, options)?;
    let mut next = Some(db.snapshot()?);
    let mut commits = 0;
    while let Some(snapshot) = next {
        snapshot.check()?;
        // What is damaged in one place does not keep the rest from being read.
        let mut ids = Vec::new();
        let listed = snapshot.all_docs(&KeyRange::all(), Direction::Ascending, &mut |document| {
            ids.push(document.id);
            ControlFlow::Continue(())
        });
        let mut outcomes = vec![listed];
        outcomes.push(snapshot.changes(0, Direction::Descending, &mut go_on));
        outcomes.push(snapshot.locals(&mut go_on));
        outcomes.push(snapshot.purges(0).map(drop));
        for id in ids {
            outcomes.push(read_document(&snapshot, &id));
        }
        for outcome in outcomes {
            let kind = outcome.err().map(|error| error.class());
            assert!(matches!(kind, None | Some(ErrorClass::Corrupt)), "{kind:?}");
        }
        commits += 1;
        assert!(commits <= size + 1, "more commits than bytes, and the empty state");
        next = snapshot.parent()?;
    }
    Ok(())
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn read_document(snapshot: &DbSnapshot, id: &str) -> Result<()> {
    for leaf in snapshot.open_revs(id, None, false)?.into_iter().flatten() {
        for attachment in &leaf.attachments {
            let content = snapshot.attachment(id, leaf.rev().as_ref(), &attachment.name)?;
            content.read(&mut |_| Ok(()))?;
        }
    }
    Ok(())
}

/// Walks the whole history of the store at `path`, newest commit first, and reads each commit.
fn read_all(env: &Env, path: &Path, size: usize) -> Result<()> {
    let options = StoreOptions { cache_bytes: 0, ..StoreOptions::default() };
    let store = Store::open_read_only(env.clone(), path, options)?;
    let mut commits = 0;
    let mut next = Some(store.snapshot()?);
    while let Some(snapshot) = next {
        assert!(commits <= size / BLOCK_BYTES as usize, "a commit was met twice");
        commits += 1;
        let mut rows = 0;
        let scanned = snapshot.scan(&KeyRange::all(), Direction::Ascending, &mut |_, _| {
            rows += 1;
            assert!(rows <= size, "a row was met twice");
            ControlFlow::Continue(())
        });
        assert_corrupt_or(scanned);
        assert_corrupt_or(snapshot.check());
        next = snapshot.parent()?;
    }
    Ok(())
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
    use rereduce::env::Access;
    use rereduce::file::recover;

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
