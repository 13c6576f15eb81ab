//! Functions in JavaScript: CouchDB's recorded answers, limits, what functions see, values.

mod functions;
mod golden;
mod limits;
mod numbers;
mod reducer;
mod server;
mod support;
