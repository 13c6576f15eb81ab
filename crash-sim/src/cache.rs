//! The page cache and the platter behind it: what programs see, what is surely on the disk, and
//! what is on its way there.
//!
//! ```text
//! content   [ sure ......................][ piece ][ piece ][ piece ]    what reads show
//! platter   [ sure ......................]                               what a sync left
//! pieces                                  [ dirty ][ limbo ][ dirty ]    may be there or not
//! ```
//!
//! A *piece* is one block (a sector or a page) of one write. A dirty piece goes to the platter with
//! the next good sync; one in limbo belongs to a sync that failed: the cache takes it for clean,
//! and no later sync writes it unless it is written again. Names work alike, per directory.
//!
//! Invariant: the simulated disk and the explorer run this same machine, so that the explorer's
//! idea of what was in flight at a call is what the disk had there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::plan::{Answer, Errno, Failure, Pages};
use crate::trace::Call;

/// Files and names as programs see them, and what of it would survive a crash.
pub(crate) struct PageCache {
    /// Bytes of a block, the unit in which writes reach the platter; `None` when nobody will ask
    /// what was in flight.
    block: Option<u64>,
    pub(crate) inodes: BTreeMap<u64, Inode>,
    pub(crate) names: Names,
    pub(crate) sure_names: Names,
    pub(crate) name_changes: Vec<NameChange>,
    inodes_made: u64,
}

/// Which file each name means.
pub(crate) type Names = BTreeMap<Arc<Path>, u64>;

/// One file.
#[derive(Default)]
pub(crate) struct Inode {
    pub(crate) content: Content,
    pub(crate) sure: Vec<u8>,
    pub(crate) pieces: Vec<Piece>,
    frozen: Option<Frozen>,
}

/// Bytes that share their beginning with others.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) base: Arc<[u8]>,
    pub(crate) rest: Vec<u8>,
}

/// A beginning of a file that no piece in flight reaches, with the hash of its bytes so far.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) base: Arc<[u8]>,
    pub(crate) hash: Xxh3,
}

/// One block of one write that a crash may lose.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The entry of the trace that wrote it.
    pub(crate) entry: usize,
    pub(crate) start: u64,
    pub(crate) bytes: Arc<[u8]>,
    dirty: bool,
}

/// A change of names that a crash may lose.
#[derive(Clone, Debug)]
pub(crate) struct NameChange {
    /// The entry of the trace that made it.
    pub(crate) entry: usize,
    pub(crate) kind: NameKind,
    unsynced: Vec<Arc<Path>>,
}

/// How names change.
#[derive(Clone, Debug)]
pub(crate) enum NameKind {
    Create { path: Arc<Path>, inode: u64 },
    Rename { from: Arc<Path>, to: Arc<Path>, inode: u64 },
    Remove { path: Arc<Path> },
}

impl PageCache {
    /// An empty disk; `block` is what a piece is at most.
    pub(crate) fn new(block: Option<u64>) -> PageCache {
        PageCache {
            block,
            inodes: BTreeMap::new(),
            names: Names::new(),
            sure_names: Names::new(),
            name_changes: Vec::new(),
            inodes_made: 0,
        }
    }

    /// Puts a file there as if it had always been.
    pub(crate) fn place(&mut self, path: Arc<Path>, inode: u64, content: Content) {
        self.inodes_made = self.inodes_made.max(inode);
        let sure = if self.block.is_some() { content.to_vec() } else { Vec::new() };
        self.inodes.insert(inode, Inode { content, sure, ..Inode::default() });
        self.names.insert(path.clone(), inode);
        self.sure_names.insert(path, inode);
    }

    /// Bytes of all files that have a name.
    pub(crate) fn named_bytes(&self) -> u64 {
        let sizes = self.names.values().filter_map(|inode| self.inodes.get(inode));
        sizes.map(|file| file.content.len()).sum()
    }

    /// The number that the next created file gets.
    pub(crate) fn next_inode(&self) -> u64 {
        self.inodes_made + 1
    }

    /// Does what `call` (entry number `entry` of the trace) does, or what is left of it when it
    /// fails in this way.
    // spec: DISK-8
    pub(crate) fn apply(&mut self, entry: usize, call: &Call, failure: Option<Failure>) {
        match (call, failure) {
            (Call::Append { inode, bytes, .. }, _) => self.append(entry, *inode, bytes),
            (Call::Rewrite { inode, offset, length, .. }, _) => {
                self.rewrite(entry, *inode, *offset, *length);
            }
            (Call::Sync { inode, .. }, failure) => self.sync(*inode, failure),
            (_, Some(_)) => {}
            (Call::Create { path, inode }, None) => {
                self.inodes_made = self.inodes_made.max(*inode);
                self.inodes.insert(*inode, Inode::default());
                self.rename(entry, NameKind::Create { path: path.clone(), inode: *inode });
            }
            (Call::Rename { from, to, inode }, None) => {
                let (from, to, inode) = (from.clone(), to.clone(), *inode);
                self.rename(entry, NameKind::Rename { from, to, inode });
            }
            (Call::Remove { path }, None) => {
                self.rename(entry, NameKind::Remove { path: path.clone() });
            }
            (Call::SyncDir { directory }, None) => self.sync_dir(directory),
            (_, None) => {}
        }
    }

    fn append(&mut self, entry: usize, inode: u64, bytes: &[u8]) {
        let Some(file) = self.inodes.get_mut(&inode) else { return };
        let start = file.content.len();
        file.content.rest.extend_from_slice(bytes);
        if let Some(block) = self.block {
            file.dirty(entry, block, start, bytes.len() as u64);
        }
    }

    fn rewrite(&mut self, entry: usize, inode: u64, offset: u64, length: u64) {
        let (Some(file), Some(block)) = (self.inodes.get_mut(&inode), self.block) else { return };
        if length == 0 {
            return;
        }
        // Only what a failed flush left in limbo is worth writing again; other bytes are on the
        // platter or on their way.
        let size = file.content.len();
        let end = offset.saturating_add(length).min(size);
        let mut start = offset - offset % block;
        while start < end {
            let limbo = |piece: &Piece| piece.start == start && !piece.dirty;
            if file.pieces.iter().any(limbo) {
                // Written in part or not, a block goes out whole.
                file.dirty(entry, block, start, block.min(size - start));
            }
            start += block;
        }
    }

    // spec: DISK-6, DISK-10
    fn sync(&mut self, inode: u64, failure: Option<Failure>) {
        let (Some(file), Some(_)) = (self.inodes.get_mut(&inode), self.block) else { return };
        match failure {
            None => file.settle(),
            // An interrupted flush is made once more, and finds the pages as they were.
            Some(Failure { answer: Answer::Lie | Answer::Error(Errno::Interrupted), .. }) => {}
            Some(failure) => {
                for piece in &mut file.pieces {
                    piece.dirty = false;
                }
                if failure.pages == Pages::Reverted {
                    file.content = Content { base: file.sure.clone().into(), rest: Vec::new() };
                }
            }
        }
    }

    fn rename(&mut self, entry: usize, kind: NameKind) {
        kind.apply(&mut self.names);
        if self.block.is_some() {
            let unsynced = kind.directories();
            self.name_changes.push(NameChange { entry, kind, unsynced });
        }
    }

    // spec: DISK-4
    fn sync_dir(&mut self, directory: &Path) {
        let sure_names = &mut self.sure_names;
        self.name_changes.retain_mut(|change| {
            change.unsynced.retain(|unsynced| **unsynced != *directory);
            if change.unsynced.is_empty() {
                change.kind.apply(sure_names);
            }
            !change.unsynced.is_empty()
        });
    }
}

impl Inode {
    /// Makes pieces of the bytes `[start, start + length)` of the content, which were just written.
    // spec: DISK-2
    fn dirty(&mut self, entry: usize, block: u64, start: u64, length: u64) {
        let end = start + length;
        let mut block_start = start - start % block;
        while block_start < end {
            let block_end = (block_start + block).min(end);
            // A block goes out whole: with it whatever earlier writes put at its beginning.
            let bytes = self.content.slice(block_start, block_end).into();
            self.pieces.push(Piece { entry, start: block_start, bytes, dirty: true });
            block_start += block;
        }
    }

    /// A good sync: every dirty piece is on the platter now, and so is the size.
    // spec: DISK-1
    fn settle(&mut self) {
        let size = self.content.len() as usize;
        if self.sure.len() < size {
            self.sure.resize(size, 0);
        }
        let (dirty, mut limbo): (Vec<Piece>, Vec<Piece>) =
            std::mem::take(&mut self.pieces).into_iter().partition(|piece| piece.dirty);
        for piece in dirty {
            let (start, end) = (piece.start as usize, piece.end() as usize);
            self.sure[start..end].copy_from_slice(&piece.bytes);
            limbo.retain(|old| old.start != piece.start || old.entry > piece.entry);
        }
        self.pieces = limbo;
    }

    /// The longest useful beginning of the sure bytes that no piece touches, shared between calls.
    pub(crate) fn freeze(&mut self) -> Frozen {
        /// Sure bytes behind the shared beginning that are still cheaper to copy into each image.
        const TAIL_MAX: usize = 8192;
        let lowest = self.pieces.iter().map(|piece| piece.start as usize).min();
        let low = lowest.unwrap_or(usize::MAX).min(self.sure.len());
        let frozen = match self.frozen.take() {
            Some(frozen) if frozen.base.len() <= low && low - frozen.base.len() <= TAIL_MAX => {
                frozen
            }
            _ => {
                let base: Arc<[u8]> = self.sure[..low].into();
                let mut hash = Xxh3::new();
                hash.update(&base);
                Frozen { base, hash }
            }
        };
        self.frozen = Some(frozen.clone());
        frozen
    }
}

impl Default for Content {
    fn default() -> Content {
        Content { base: Arc::new([]), rest: Vec::new() }
    }
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        (self.base.len() + self.rest.len()) as u64
    }

    /// Fills `buffer` from `offset`; returns how many bytes there were.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let start = offset.min(self.len()) as usize;
        let count = buffer.len().min(self.len() as usize - start);
        let from_base = self.base.len().saturating_sub(start).min(count);
        if from_base > 0 {
            buffer[..from_base].copy_from_slice(&self.base[start..start + from_base]);
        }
        let rest = (start + from_base).saturating_sub(self.base.len());
        let from_rest = count - from_base;
        buffer[from_base..count].copy_from_slice(&self.rest[rest..rest + from_rest]);
        count
    }

    fn slice(&self, start: u64, end: u64) -> Vec<u8> {
        let mut bytes = vec![0; (end - start) as usize];
        self.read_at(start, &mut bytes);
        bytes
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.slice(0, self.len())
    }
}

impl Piece {
    /// The offset just behind it.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl NameKind {
    pub(crate) fn apply(&self, names: &mut Names) {
        match self {
            NameKind::Create { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            // The new entry names the file even if the one it was created with never landed.
            NameKind::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            NameKind::Remove { path } => {
                names.remove(path);
            }
        }
    }

    /// The directories that must be flushed before the change is sure.
    fn directories(&self) -> Vec<Arc<Path>> {
        match self {
            NameKind::Create { path, .. } | NameKind::Remove { path } => vec![directory_of(path)],
            NameKind::Rename { from, to, .. } => {
                let mut directories = vec![directory_of(from), directory_of(to)];
                directories.dedup();
                directories
            }
        }
    }
}

/// The directory that holds the name `path`.
pub(crate) fn directory_of(path: &Path) -> Arc<Path> {
    path.parent().unwrap_or(Path::new("")).into()
}
