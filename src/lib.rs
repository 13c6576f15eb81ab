//! rereduce: the storage system of Apache CouchDB, as a tested reference implementation.
//!
//! Begin with [`db::Database`] (documents) or [`store::Store`] (keys and values). To see how it
//! works inside, read the modules from top to bottom; each imports only from modules above it:
//!
//! | module | owns |
//! | --- | --- |
//! | [`error`], [`mark`] | the one error type; named branches, and the switch for planted bugs |
//! | [`vocabulary`] | plain data without algorithms: all that engine and model share |
//! | [`mod@env`] | the seams to the outside: disk, clock, randomness |
//! | [`commit_queue`], [`publish`] | group commit; handing the committed state to readers |
//! | [`single_flight`] | one at a time updates, and all who wait share what comes of it |
//! | [`checksum`], [`codec`] | checksums; bounded reading and writing of integers and strings |
//! | [`collate`] | the keys of views as bytes, in CouchDB's order |
//! | [`kv`], [`reduce`] | the seams for other engines and for what trees sum up |
//! | [`mod@file`] | the append-only file: blocks, chunks, footers, protocols, recovery, history |
//! | [`btree`] | the copy-on-write B+tree with reductions, as a value |
//! | [`store`] | the smallest whole engine: one file, one tree |
//! | [`doc`] | documents, JSON, revision ids and trees, attachments |
//! | [`db`] | the database: edits, merges, purges, snapshots, changes, compaction, check |
//! | [`view`] | design documents, indexes that follow their database, CouchDB's reducers |
//! | [`http`] | CouchDB's HTTP interface as a function of a request |
//!
//! ```text
//!   Database ──┐                       one commit, one flush
//!              ├── trees ── chunks ── file ── Disk ──► real, in memory, simulated
//!   Store ─────┘                       └─ recovery, history
//! ```
//!
//! Invariant, of the whole: after any crash the reopened file holds exactly the edits of all
//! acknowledged commits, and of those in flight all or none.

pub mod error;
pub mod mark;
pub mod vocabulary;

pub mod env;

mod sync;

pub mod commit_queue;
pub mod publish;
pub mod single_flight;

pub mod checksum;
pub mod codec;

pub mod collate;

pub mod kv;
pub mod reduce;

pub mod file;

pub mod btree;

pub mod store;

pub mod doc;

pub mod db;

pub mod view;

pub mod http;

pub use error::{Corruption, Error, ErrorClass, Result};

/// The snippets of the README, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
