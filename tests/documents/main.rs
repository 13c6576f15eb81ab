//! Documents as a database keeps them: CouchDB's recorded answers, and known faults of others.

mod cases;
#[path = "../storage/disks.rs"]
mod disks;
mod recordings;
mod replay;
mod requirements;
mod support;
mod timelines;
