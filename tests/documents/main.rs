//! Documents as a database keeps them: CouchDB's recorded answers, and known faults of others.

mod recordings;
mod replay;
mod support;
