//! What views promise: indexes and what queries answer from them.
//!
//! ```text
//! index_support  a database, its views, and their rows mapped again from nothing
//! index          what an update does: documents, batches, snapshots, errors
//! index_standing purges, restored backups, other databases: when an index is built anew
//! index_files    compaction, clean-up, damage, crashes, other processes
//! index_costs    what an update may cost
//! ```

mod index;
mod index_support;
