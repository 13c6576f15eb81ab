//! What operations cost, counted: flushes, bytes appended, nodes and bytes read. No clock.
//!
//! Counts do not depend on the machine, so they are asserted where times can only be reported
//! (`benches/README.md`). Sizes are moderate; that costs go on growing as the theory says is
//! asserted of their exponent, the k of cost ~ n^k between a small n and a large one.

#[path = "../../benches/documents.rs"]
mod documents;
#[path = "../../benches/indexes.rs"]
mod indexes;

mod database;
mod disk;
mod opening;
mod tree;
mod views;

/// The k for which cost ~ n^k between two measurements (n, cost).
fn exponent(small: (u64, f64), large: (u64, f64)) -> f64 {
    (large.1 / small.1).ln() / (large.0 as f64 / small.0 as f64).ln()
}
