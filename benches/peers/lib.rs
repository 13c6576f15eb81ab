//! Other embedded engines behind one seam, to be measured beside rereduce in one process.
//!
//! Invariant: every engine gets the same rows, the same cache and the same promise to keep: what
//! [`Engine::put`] wrote is on the disk when it returns.

use std::path::Path;
use std::time::Duration;

mod nebari_tree;
mod redb_table;
mod rereduce_database;
mod rereduce_store;
mod sqlite_table;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Memory that each engine may use for what it has read.
pub const CACHE_BYTES: usize = 1 << 30;

/// An embedded engine that is open.
pub trait Engine {
    /// Writes rows whose keys ascend, in one durable transaction.
    fn put(&mut self, rows: &[Row]);

    /// Looks keys up and returns the bytes of the values found.
    fn get(&self, keys: &[Vec<u8>]) -> u64;

    /// Goes over all rows and returns their number.
    fn scan(&self) -> u64;

    /// How many rows lie between two keys, by a reduction; `None` if the engine has none.
    fn count(&self, from: &[u8], to: &[u8]) -> Option<u64>;

    /// Gives the room of what was replaced back.
    fn compact(&mut self);

    /// Of the time of all puts, that for reading JSON, which others get to store as it is.
    fn parsing(&self) -> Duration {
        Duration::ZERO
    }

    /// Bytes appended and flushes so far; `None` if the engine does not say.
    fn written(&self) -> Option<(u64, u64)> {
        None
    }
}

/// An engine that can be opened.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its name in the table.
    pub name: &'static str,
    /// Opens it in a directory, which may be empty.
    pub open: fn(&Path) -> Box<dyn Engine>,
}

/// rereduce's key-value store.
pub const STORE: Kind = Kind { name: "rereduce store", open: rereduce_store::open };
/// rereduce's document database: revision ids, revision trees, a sequence index.
pub const DATABASE: Kind = Kind { name: "rereduce db", open: rereduce_database::open };
/// redb.
pub const REDB: Kind = Kind { name: "redb", open: redb_table::open };
/// SQLite with a write-ahead log, flushed at each commit.
pub const SQLITE: Kind = Kind { name: "SQLite", open: sqlite_table::open };
/// nebari without versions.
pub const NEBARI: Kind = Kind { name: "nebari", open: nebari_tree::open_unversioned };
/// nebari with versions: an index by sequence beside the one by key.
pub const NEBARI_VERSIONED: Kind =
    Kind { name: "nebari versioned", open: nebari_tree::open_versioned };
