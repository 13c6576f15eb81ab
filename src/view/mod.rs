//! Views: rows that map functions emit, and what they are reduced to.
//!
//! ```text
//!   document ──map──> rows ──stored──> tree of a view ──reductions──> shown value
//!                      │                                  │
//!                    [`row`]                          [`builtin`], [`limit`]
//! ```
//!
//! Invariant: nothing here decides in which order JSON values stand; who needs an order is handed
//! one.

pub mod builtin;
pub mod limit;
pub mod row;
