//! The engines that campaigns run on.
//!
//! Invariant: adding an engine is adding a line here; nothing else names one, but for the campaign
//! that compares commit protocols.

mod kv;

pub use kv::{KvOpener, KvState, KvTarget, OpenKv};

use crate::subject::Subject;

/// Engines whose workload scripts `crash` runs.
pub(crate) const CRASHED: &[&str] = &[];

/// All engines.
pub(crate) fn all() -> Vec<Box<dyn Subject>> {
    vec![]
}
