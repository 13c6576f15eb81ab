//! The engines that campaigns run on.
//!
//! Invariant: adding an engine is adding a line here; nothing else names one, but for the campaigns
//! that compare commit protocols and the checks for planted bugs.

mod database;
mod documents;
mod indexed;
mod kv;
mod step;
mod store;
mod views;

pub use database::DatabaseOpener;
pub use documents::{DatabaseState, DatabaseTarget, OpenDatabase};
pub use kv::{KvOpener, KvState, KvTarget, OpenKv};
pub use step::DbStep;
pub use store::StoreOpener;

pub(crate) use kv::rows;
pub(crate) use store::PROTOCOLS;
pub(crate) use views::{ViewsProfile, WithViews};

use crate::subject::Subject;

/// Engines whose workload scripts `crash` runs.
pub(crate) const CRASHED: &[&str] = &["store", "db"];

/// All engines.
pub(crate) fn all() -> Vec<Box<dyn Subject>> {
    vec![Box::new(KvTarget(StoreOpener::default())), Box::new(DatabaseTarget::default())]
}
