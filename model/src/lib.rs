//! The executable model of rereduce, and the functions that hold any implementation against it.

mod check_kv;
mod check_revtree;
mod choices;
mod generate_kv;
mod kv;
pub mod revtree;
mod verdict;

pub use check_kv::{KvEngine, KvHandle, check_kv, check_kv_history};
pub use check_revtree::{
    RevTreeCase, RevTreeFigures, RevTreeUnderTest, RevTreeViolation, forests, revtree_campaign,
};
pub use choices::{Bytes, Choices, Seeded};
pub use generate_kv::{KvHistory, Mix, kv_history, kv_history_of_seed};
pub use kv::{KvModel, Reduced, Rows};
pub use verdict::{CheckConfig, Report, Violation};
