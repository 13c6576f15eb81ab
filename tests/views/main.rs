//! What views promise: indexes, and what queries answer from them.
//!
//! ```text
//! index_support   a database, its views, and their rows mapped again from nothing
//! index           what an update does: documents, batches, functions that fail
//! index_sharing   who waits, what is seen meanwhile
//! index_standing  purges, restored backups, other databases: when an index is built anew
//! index_files     compaction, clean-up, damage, crashes, other handles
//! index_costs     what an update may cost
//! index_planted   each of these can fail
//! numbers         what no double holds
//! ```

mod index;
mod index_costs;
mod index_files;
mod index_planted;
mod index_sharing;
mod index_standing;
mod index_support;
mod numbers;
