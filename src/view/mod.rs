//! Views: rows that map functions emit, and what they are reduced to.
//!
//! ```text
//!   design document ──> [`design`] ──> functions, run by whatever [`functions`] names
//!                                          │
//!   document ──map──> rows ──stored──> tree of a view ──reductions──> shown value
//!                      │                                  │
//!                    [`row`]                  [`reducer`]: [`builtin`], [`limit`]
//! ```
//!
//! Invariant: the rows of a view are those that its map function emits for the winners of one
//! state of the database, and each reduction is that of the rows below it.

pub mod builtin;
pub mod design;
pub mod function_reducer;
pub mod functions;
pub mod index;
#[cfg(feature = "javascript")]
pub mod javascript;
pub mod limit;
pub mod query;
pub mod reducer;
pub mod row;
pub mod rows;
pub mod server;
mod wire;
