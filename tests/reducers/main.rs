//! The built-in reducers: CouchDB's recorded answers, the laws, exact sums, planted bugs.

mod exact;
mod golden;
mod laws;
mod names;
mod planted;
mod support;
