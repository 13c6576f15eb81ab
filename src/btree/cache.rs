//! Where decoded nodes come from: the file, through a cache with a byte budget.
//!
//! Nodes never change, so a cache needs no invalidation: what a pointer (offset, length and
//! checksum) names is the same bytes for ever. One cache serves all snapshots of one file.
//!
//! Invariant: the nodes held take at most the budget; a budget of 0 holds nothing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::node::Node;
use crate::error::{Error, Result};
use crate::file::{ChunkSource, Pointer};
use crate::mark;

/// Where a tree gets its nodes from.
///
/// ```
/// use rereduce::btree::{CachedNodes, NodeCache, NodeSource};
/// use rereduce::file::{ChunkSink, MemoryChunks};
/// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
/// let pointer = chunks.append(b"no node")?;
/// let nodes: &dyn NodeSource = &CachedNodes::new(&chunks, &cache);
/// assert!(nodes.node(pointer).unwrap_err().is_corrupt());
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait NodeSource {
    /// The node at `pointer`. At most one disk read.
    ///
    /// Errors: [`Error::Corrupt`] for bytes that are no node, [`Error::Io`] for bytes that could
    /// not be read.
    fn node(&self, pointer: Pointer) -> Result<Arc<Node>>;

    /// The error for a node that is well formed and still not what its parent says.
    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error;
}

/// The nodes of one file, through a cache.
///
/// ```
/// use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree};
/// use rereduce::{file::MemoryChunks, vocabulary::Edit};
/// let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(1 << 20));
/// let tree =
///     Tree::empty().apply(&mut chunks, &cache, &Shape::default(), &[Edit::put("k", "v")])?;
/// let nodes = CachedNodes::new(&chunks, &cache);
/// assert_eq!(tree.get(&nodes, b"k")?, Some(b"v".to_vec()));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct CachedNodes<'a> {
    source: &'a dyn ChunkSource,
    cache: &'a NodeCache,
}

impl<'a> CachedNodes<'a> {
    /// The nodes of `source`; `cache` must serve no other file.
    pub fn new(source: &'a dyn ChunkSource, cache: &'a NodeCache) -> CachedNodes<'a> {
        CachedNodes { source, cache }
    }
}

impl NodeSource for CachedNodes<'_> {
    fn node(&self, pointer: Pointer) -> Result<Arc<Node>> {
        if let Some(node) = self.cache.find(pointer) {
            return Ok(node);
        }
        self.cache.reads.fetch_add(1, Ordering::Relaxed);
        let raw = self.source.read(pointer)?;
        let Some(node) = Node::decode(pointer, raw) else {
            return Err(self.source.nonsense(pointer, "a node of a tree", "other bytes"));
        };
        let node = Arc::new(node);
        self.cache.insert(pointer, &node);
        Ok(node)
    }

    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error {
        self.source.nonsense(pointer, expected, got)
    }
}

/// Decoded nodes by pointer, for any number of threads.
///
/// Eviction is by a clock: a hand goes round the nodes and drops the first one that was not asked
/// for since it last passed.
///
/// ```
/// use rereduce::btree::NodeCache;
/// let cache = NodeCache::new(64 << 20);
/// assert_eq!((cache.reads(), cache.hits(), cache.used_bytes()), (0, 0, 0));
/// ```
#[derive(Debug)]
pub struct NodeCache {
    shards: Box<[Mutex<Shard>]>,
    shard_bytes_max: usize,
    reads: AtomicU64,
}

/// Budgets below this are kept in one shard, so that they hold what they say.
const ONE_SHARD_BELOW: usize = 1 << 20;

/// Shards of a larger cache: enough that threads rarely meet.
const SHARD_COUNT: usize = 16;

impl NodeCache {
    /// A cache that holds at most `bytes_max` bytes of nodes; 0 caches nothing.
    pub fn new(bytes_max: usize) -> NodeCache {
        let count = if bytes_max < ONE_SHARD_BELOW { 1 } else { SHARD_COUNT };
        NodeCache {
            shards: (0..count).map(|_| Mutex::default()).collect(),
            shard_bytes_max: bytes_max / count,
            reads: AtomicU64::new(0),
        }
    }

    /// Nodes that had to be read from the file so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Nodes that were found here so far.
    pub fn hits(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).hits).sum()
    }

    /// Bytes of the nodes held now.
    pub fn used_bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).used).sum()
    }

    // spec: BTREE-4
    fn find(&self, pointer: Pointer) -> Option<Arc<Node>> {
        if self.shard_bytes_max == 0 {
            return None;
        }
        let mut shard = lock(self.shard(pointer));
        let held = shard.held.get_mut(&name(pointer))?;
        held.asked_for = true;
        let node = held.node.clone();
        shard.hits += 1;
        Some(node)
    }

    /// Whether a node of `payload` bytes has a chance to be held.
    pub(super) fn takes(&self, payload: usize) -> bool {
        payload < self.shard_bytes_max
    }

    /// Holds `node`, which is the one at `pointer`, if the budget allows.
    // spec: BTREE-4
    pub(super) fn insert(&self, pointer: Pointer, node: &Arc<Node>) {
        let size = node.memory_bytes();
        if size > self.shard_bytes_max {
            return;
        }
        let mut shard = lock(self.shard(pointer));
        if shard.held.contains_key(&name(pointer)) {
            return;
        }
        while shard.used + size > self.shard_bytes_max && !mark::planted("cache-ignores-budget") {
            shard.evict_one();
        }
        shard.round.push(name(pointer));
        shard.held.insert(name(pointer), Held { node: node.clone(), asked_for: false });
        shard.used += size;
    }

    fn shard(&self, pointer: Pointer) -> &Mutex<Shard> {
        let mut hasher = PointerHasher::default();
        hasher.write_u64(pointer.offset());
        // The low bits choose the bucket of the map, so the shard takes others.
        &self.shards[(hasher.finish() >> 32) as usize % self.shards.len()]
    }
}

/// A pointer as the cache compares it: all of it, since a torn tail may be written again and then
/// holds other bytes at an offset that was used before.
fn name(pointer: Pointer) -> Pointer {
    let by_offset =
        mark::planted("cache-compares-offsets-only") || mark::planted("swap-keeps-the-cache");
    if by_offset {
        return Pointer { length: 0, checksum: 0, ..pointer };
    }
    pointer
}

/// A panic elsewhere leaves a shard as it was between two steps, and all steps are harmless.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Shard {
    held: HashMap<Pointer, Held, BuildHasherDefault<PointerHasher>>,
    /// The keys of `held`, in the order in which the hand visits them.
    round: Vec<Pointer>,
    hand: usize,
    used: usize,
    /// Nodes that were found here.
    hits: u64,
}

#[derive(Debug)]
struct Held {
    node: Arc<Node>,
    asked_for: bool,
}

impl Shard {
    /// Drops a node; there is one, since bytes are used.
    fn evict_one(&mut self) {
        loop {
            if self.hand >= self.round.len() {
                self.hand = 0;
            }
            match self.held.get_mut(&self.round[self.hand]) {
                Some(held) if held.asked_for => held.asked_for = false,
                _ => break,
            }
            self.hand += 1;
        }
        let name = self.round.swap_remove(self.hand);
        if let Some(gone) = self.held.remove(&name) {
            self.used -= gone.node.memory_bytes();
        }
    }
}

/// Mixes a pointer's few integers; nobody chooses offsets to make them collide.
#[derive(Default)]
struct PointerHasher(u64);

impl Hasher for PointerHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing, folded so that both halves depend on all bits.
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}
