//! Cheap checks, each of a second or two at most, that planted bugs are tried on.
//!
//! Two checks are independent if they are different code, not the same code with other parameters:
//! each belongs to a kin, and a test file of the root that runs the same code is of its kin too.
//!
//! Invariant: a check is silent about the engine as it is, and says what it found otherwise.

mod compactions;
mod costs;
mod crashes;
mod documents;
mod files;
mod handles;
mod histories;
mod javascript;
mod kinds;
mod queries;
mod recorded;
mod reductions;
mod texts;
mod threads;
mod trees;
mod views;
mod waits;

use std::fmt::Display;
use std::path::Path;

use rereduce::db::{Database, DatabaseOptions};
use rereduce::store::{Store, StoreOptions};

use super::{Context, collate, footer, revtree, rot};
use crate::disk::SimDisk;
use crate::fault::FaultKind;
use crate::image::Image;
use crate::oracle::{DATABASE, environment};

/// What a check found wrong, if anything.
pub(super) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A check by name.
pub(super) struct Check {
    pub(super) name: &'static str,
    /// What it shares its code with: checks of one kin count as one.
    pub(super) kin: &'static str,
    pub(super) run: fn(&Context) -> Outcome,
    /// How often it is tried before it counts as silent: more than once where threads must meet.
    pub(super) tries: usize,
}

const fn check(name: &'static str, kin: &'static str, run: fn(&Context) -> Outcome) -> Check {
    Check { name, kin, run, tries: 1 }
}

/// A check that sees a bug only if the scheduler lets threads meet.
const fn race(name: &'static str, kin: &'static str, run: fn(&Context) -> Outcome) -> Check {
    Check { name, kin, run, tries: RACES }
}

/// How often threads are given the chance to meet.
const RACES: usize = 20;

/// All checks.
pub(super) const CHECKS: &[Check] = &[
    check("crash", "explorer", |context| crashes::power_cuts(context, "verified")),
    check("barrier", "explorer", |context| crashes::power_cuts(context, "barrier")),
    check("failing", "explorer", crashes::failing_calls),
    check("workloads", "explorer", crashes::workloads),
    check("footer", "footer", footers),
    check("rot", "tests/crash_rot.rs", |context| Ok(rot::check(context)?)),
    check("model", "tests/oracle", histories::of_the_store),
    check("database", "tests/oracle", histories::of_the_database),
    check("revtree", "revtree", revision_trees),
    check("sharing", "sharing", compactions::sharing),
    check("compaction", "compaction", compactions::beside_readers),
    race("writer", "writer", compactions::beside_a_writer),
    check("golden", "tests/golden", recorded::golden),
    check("recordings", "tests/golden_revids.rs", recorded::recordings),
    check("files", "files", files::are_read_and_built_on),
    race("handles", "handles", handles::keep_to_their_place),
    check("trees", "trees", trees::equal_maps),
    check("costs", "costs", costs::are_as_stated),
    check("documents", "documents", documents::obey_their_rules),
    check("texts", "texts", texts::read_and_print),
    race("threads", "threads", threads::queue_and_publish),
    race("waits", "waits", waits::end_with_every_commit),
    check("reductions", "reductions", reductions::reductions),
    check("javascript", "tests/javascript", javascript::functions),
    check("views", "views", views::follow_their_database),
    check("queries", "queries", queries::equal_folds),
    check("requests", "tests/replay", queries::requests),
    check("collate", "collate", |context| Ok(collate::sample(context)?)),
    check("kind-1", "explorer", |context| kinds::alone(context, FaultKind::CallBoundary)),
    check("kind-2", "explorer", |context| kinds::alone(context, FaultKind::InsideCall)),
    check("kind-3", "explorer", |context| kinds::alone(context, FaultKind::DroppedWrite)),
    check("kind-4", "explorer", |context| kinds::alone(context, FaultKind::TornWrite)),
    check("kind-5", "explorer", |context| kinds::alone(context, FaultKind::LengthWithoutData)),
    check("kind-6", "explorer", |context| kinds::alone(context, FaultKind::DataWithoutLength)),
    check("kind-7", "explorer", |context| kinds::alone(context, FaultKind::LostRename)),
    check("kind-8", "explorer", |context| kinds::alone(context, FaultKind::RenameWithoutData)),
    check("kind-9", "explorer", |context| kinds::alone(context, FaultKind::LostName)),
    check("kind-10", "explorer", |context| kinds::alone(context, FaultKind::CrashInRecovery)),
    check("kind-11", "explorer", |context| kinds::alone(context, FaultKind::LyingSync)),
    check("kind-12", "explorer", |context| kinds::alone(context, FaultKind::SyncErrorKept)),
    check("kind-13", "explorer", |context| kinds::alone(context, FaultKind::SyncErrorReverted)),
    check("kind-14", "explorer", |context| kinds::alone(context, FaultKind::SyncErrorLate)),
    check("kind-15", "explorer", |context| kinds::alone(context, FaultKind::ReadError)),
    check("kind-16", "explorer", |context| kinds::alone(context, FaultKind::WriteError)),
    check("kind-17", "explorer", |context| kinds::alone(context, FaultKind::NoSpace)),
    check("kind-18", "explorer", |context| kinds::alone(context, FaultKind::ShortWrite)),
    check("kind-19", "tests/crash_rot.rs", |context| kinds::alone(context, FaultKind::BitFlip)),
    check("kind-20", "tests/crash_rot.rs", |context| kinds::alone(context, FaultKind::ZeroedBlock)),
    check("kind-21", "tests/crash_rot.rs", |context| {
        kinds::alone(context, FaultKind::MisdirectedWrite)
    }),
    check("kind-22", "tests/crash_rot.rs", |context| kinds::alone(context, FaultKind::StaleBlock)),
    check("kind-23", "tests/crash_rot.rs", |context| kinds::alone(context, FaultKind::Lie)),
    check("kind-24", "explorer", |context| kinds::alone(context, FaultKind::ResourceLimit)),
];

/// Revisions of the largest trees.
const REVTREE_NODES: usize = 4;

fn footers(context: &Context) -> Outcome {
    let figures = footer::run(&Context { loud: false, ..context.clone() })?;
    if figures.succeeded() { Ok(()) } else { Err(figures.to_string().into()) }
}

fn revision_trees(_: &Context) -> Outcome {
    revtree::check(REVTREE_NODES, &mut |_| true)?;
    Ok(())
}

/// Complains with `what` unless `holds`.
fn expect(holds: bool, what: impl Display) -> Outcome {
    if holds { Ok(()) } else { Err(what.to_string().into()) }
}

/// An empty disk in memory that keeps no record.
fn disk() -> SimDisk {
    SimDisk::open_image(&Image::empty())
}

fn open_store(disk: &SimDisk, context: &Context, options: StoreOptions) -> rereduce::Result<Store> {
    Store::open(environment(disk, context.seed), Path::new(DATABASE), options)
}

fn open_database(
    disk: &SimDisk,
    context: &Context,
    options: DatabaseOptions,
) -> rereduce::Result<Database> {
    Database::open(environment(disk, context.seed), Path::new(DATABASE), options)
}
