//! What the store and the database promise about files, crashes, errors and processes: each
//! reported fault of systems of this kind, as a test named after what went wrong there.
//!
//! ```text
//! support    one handle for both engines      disks       disks that call back
//! torn       tails, footers, headers          errors      calls that fail
//! crashes    images a crash leaves            compaction  what is kept; swap: while others go on
//! groups     shared commits, waiting          processes   other handles, other processes
//! history    old commits                      layout      roots, covers, order of calls
//! planted    each of these can fail
//! ```

mod children;
mod compaction;
mod crashes;
mod disks;
mod errors;
mod groups;
mod history;
mod layout;
mod planted;
mod processes;
mod support;
mod swap;
mod torn;

use cap::Cap;
use std::alloc::System;

/// Counts what a child process that compacts has allocated.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);
