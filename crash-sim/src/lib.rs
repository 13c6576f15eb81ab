//! crash-sim: a simulated disk, every state that a crash can leave of a run, and a judge.
//!
//! Read in this order: [`SimDisk`] records what an engine does to a disk ([`Entry`], [`Call`]); a
//! [`Scene`] is one crash point of that record; a [`Choice`] says what survives there, as far as a
//! [`FaultModel`] allows it; an [`Image`] is the outcome. An [`Explorer`] walks through all of them
//! for a [`Target`] and reports the first [`Violation`], which [`shrink`] makes small.
//!
//! Invariant: nothing here depends on time, on real randomness or on the number of threads; what
//! was found once is found again by its replay command.

// The golden scripts, which are part of this crate and of the root's tests, call it by its name.
extern crate self as rereduce_crash_sim;

mod cache;
mod campaign;
mod choices;
mod damage;
mod disk;
mod explore;
mod false_success;
mod fault;
mod figures;
mod forge;
mod image;
mod lies;
mod nested;
mod oracle;
mod plan;
mod planted;
mod random;
mod reading;
mod report;
mod rotten;
mod run;
mod scene;
mod shrink;
mod subject;
mod target;
mod targets;
mod trace;

pub use campaign::{
    Account, CAMPAIGNS, Campaign, Cell, Context, Rerun, ScopeTally, SentLog, Sequence, SmallScope,
    account, expected_cells, run_twice, same_on_any_threads,
};
pub use choices::{EXHAUSTIVE_UNITS, choices};
pub use damage::{AgedFile, Damage, Unit};
pub use disk::{SECTOR_BYTES, SimDisk};
pub use explore::{Crash, Distinct, Explorer, Tally, Violation};
pub use false_success::{Answered, Believed, class_of, record_believing, recover_believing};
pub use fault::{FaultClass, FaultKind, FaultModel, Gap, KindSet, Length, Survival};
pub use figures::Figures;
pub use image::Image;
pub use nested::{Met, NESTED_DEPTH, NestedTally, NestedViolation, Nesting};
pub use oracle::{DATABASE, environment, guarded, recover};
pub use plan::{Answer, Errno, Failure, Fault, Pages, Plan, PlanItem, Verb};
pub use planted::{PLANTED, Planted};
pub use random::{Random, SeededEntropy, StillClock};
pub use report::{Cost, Counts, Loss, Measure, Measured, Measures, Reply, Seen};
pub use run::{Doubt, Evidence, Recording, record, record_evidence};
pub use scene::{Choice, Scene};
pub use shrink::shrink;
pub use subject::{Subject, Traced};
pub use target::{Target, Workload};
pub use targets::{
    DatabaseOpener, DatabaseState, DatabaseTarget, DbStep, KvOpener, KvState, KvTarget,
    OpenDatabase, OpenKv, StoreOpener,
};
pub use trace::{Call, Entry};
