//! rereduce: the storage system of Apache CouchDB, as a tested reference implementation.
//!
//! The modules are read from top to bottom; each imports only from modules above it.

pub mod error;
pub mod mark;
pub mod vocabulary;

pub mod env;

mod sync;

pub mod commit_queue;
pub mod publish;

pub mod checksum;
pub mod codec;

pub mod kv;
pub mod reduce;

pub mod file;

pub mod btree;

pub mod store;

pub mod doc;

pub mod db;

pub use error::{Corruption, Error, ErrorClass, Result};
