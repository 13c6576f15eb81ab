//! Documents as a database keeps them: CouchDB's recorded answers, and known faults of others.

mod cases;
mod hook;
mod recordings;
mod replay;
mod requirements;
mod support;
