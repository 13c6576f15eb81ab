//! CouchDB's HTTP interface as a function: a request goes in, a response comes out.
//!
//! ```text
//!   Request ──> router ──> databases │ documents │ views │ design_functions ──> Response
//!                 │            ╲           │           │            ╱
//!                 │             ╲──────── Node: databases, indexes, languages
//!                 └─ what is refused ──> refusal ──> status, error, reason
//! ```
//!
//! Nothing here knows of sockets: whatever reads requests from one calls [`handle`].
//!
//! Invariant: there is one router, and one table that turns errors into answers.

mod changes;
mod databases;
mod design_functions;
mod documents;
#[cfg(not(feature = "javascript"))]
mod no_functions;
mod node;
mod refusal;
mod request;
mod response;
mod router;
mod tag;
mod views;

pub use node::{Node, NodeOptions};
pub use request::Request;
pub use response::Response;
pub use router::handle;
