//! rereduce: the storage system of Apache CouchDB, as a tested reference implementation.
//!
//! The modules are read from top to bottom; each imports only from modules above it.

pub mod error;
pub mod mark;
pub mod vocabulary;

pub mod env;

pub mod checksum;
pub mod codec;

pub mod kv;

pub mod file;
pub mod reduce;

pub mod btree;

pub use error::{Corruption, Error, ErrorClass, Result};
