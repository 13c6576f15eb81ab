//! The executable model of rereduce, and the functions that hold any implementation against it.
//!
//! ```text
//!   vocabulary (KvOp, DbOp)  ──>  generate_*   histories from seeds, bytes, quickcheck, proptest
//!   kv, db, revtree          the model's states: maps, lists of commits, sets of paths
//!   collate                  the order of a view's keys
//!   views, views_reduce      the rows of views, queries, built-in reducers
//!   check_*                  play a history against an engine and the model, compare, shrink
//! ```
//!
//! Invariant: the model shares words with the engine, and no algorithm: its state files import
//! `rereduce::vocabulary` and `std` alone (the order of strings is the collator's), the checkers
//! also the seams and the error type.
//!
//! (spec: MODEL-5)
//!
//! # Plugging a key-value engine in
//! Implement [`OrderedKv`](rereduce::kv::OrderedKv) and [`KvSnapshot`](rereduce::kv::KvSnapshot),
//! say `impl KvHandle for MyEngine {}`, and hand over a closure that opens a storage by name:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//!
//! use rereduce::Result;
//! use rereduce::kv::{KvSnapshot, OrderedKv, Visit};
//! use rereduce::vocabulary::{Direction, Edit, KeyRange};
//! use rereduce_model::{CheckConfig, KvHandle, check_kv};
//!
//! #[derive(Clone, Default)]
//! struct Map(Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);
//!
//! impl KvHandle for Map {}
//!
//! impl OrderedKv for Map {
//!     fn commit(&self, edits: &[Edit]) -> Result<()> {
//!         let mut map = self.0.lock().unwrap();
//!         for edit in edits {
//!             match &edit.value {
//!                 Some(value) => map.insert(edit.key.clone(), value.clone()),
//!                 None => map.remove(&edit.key),
//!             };
//!         }
//!         Ok(())
//!     }
//!
//!     fn snapshot(&self) -> Result<Box<dyn KvSnapshot>> {
//!         Ok(Box::new(self.clone()))
//!     }
//! }
//!
//! impl KvSnapshot for Map {
//!     fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
//!         Ok(self.0.lock().unwrap().get(key).cloned())
//!     }
//!
//!     fn scan(&self, range: &KeyRange, way: Direction, visit: &mut Visit<'_>) -> Result<()> {
//!         let map = self.0.lock().unwrap();
//!         let mut rows: Vec<_> = map.iter().filter(|row| range.contains(row.0)).collect();
//!         if way == Direction::Descending {
//!             rows.reverse();
//!         }
//!         let _ = rows.into_iter().try_for_each(|(key, value)| visit(key, value));
//!         Ok(())
//!     }
//! }
//!
//! // This engine's snapshots are none: they show later commits. The check finds that out.
//! let storages = Mutex::new(BTreeMap::<String, Map>::new());
//! let open = |name: &str| -> Result<Box<dyn KvHandle>> {
//!     Ok(Box::new(storages.lock().unwrap().entry(name.to_owned()).or_default().clone()))
//! };
//! let violation = check_kv(&open, &CheckConfig::default()).unwrap_err();
//! assert!(violation.script.iter().any(|line| line.starts_with("snapshot ")), "{violation}");
//! ```
//!
//! What else the engine can do it offers by overriding default methods of [`KvHandle`] and
//! [`KvEngine`]: reduce, compact, open commits by number, play a power cut, fail its disk. A
//! document database implements [`DbEngine`], [`DbHandle`] and [`DbView`] and calls [`check_db`]; a
//! revision tree implements [`RevTreeUnderTest`] and calls [`revtree_campaign`]. After a panic of
//! the engine, opening another storage must still work: the shrinker goes on with fresh ones.

// spec: MODEL-5, MODEL-12
mod check_db;
mod check_db_run;
mod check_db_state;
mod check_kv;
mod check_revtree;
mod check_stop;
mod check_views;
mod choices;
mod collate;
mod db;
mod generate_db;
mod generate_kv;
mod generate_views;
mod generator;
mod kv;
mod resolve;
pub mod revtree;
mod verdict;
mod views;
mod views_reduce;

pub use check_db::{
    DbAttachment, DbChange, DbDocument, DbEdit, DbEngine, DbHandle, DbReplica, DbView, DbWanted,
    check_db, check_db_history,
};
pub use check_db_state::compare_db;
pub use check_kv::{KvEngine, KvHandle, check_kv, check_kv_history};
pub use check_revtree::{
    RevTreeCase, RevTreeFigures, RevTreeUnderTest, RevTreeViolation, forests, revtree_campaign,
    revtree_campaign_share,
};
pub use check_views::{
    ShownView, VIEW_REDUCERS, ViewsEngine, ViewsHandle, check_views, check_views_history, emitted,
    shown_views,
};
pub use choices::{Bytes, Choices, Seeded};
pub use collate::{compare_raw, compare_unicode};
pub use db::{Attachment, Conflict, DbModel, Document, Purges, Revision, State};
pub use generate_db::{DbHistory, db_history, db_history_of_seed, simpler as simpler_db};
pub use generate_kv::{KvHistory, Mix, kv_history, kv_history_of_seed};
pub use generate_views::view_history_from_bytes;
pub use generator::Generator;
pub use kv::{KvModel, Reduced, Rows};
pub use resolve::{body_text, content, replica_path, resolve};
pub use verdict::{CheckConfig, Report, Violation};
pub use views::{Emits, KeyOrder, ModelRow, ModelView, ViewBound, ViewQuery};
pub use views_reduce::{ModelReducer, Unfit, without_reason};
