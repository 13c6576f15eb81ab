//! Cheap checks, each of a few seconds at most, that planted bugs are tried on.
//!
//! Invariant: a check is silent about the engine as it is, and says what it found otherwise.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rereduce::Error;
use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::doc::{AttachmentDraft, AttachmentSource};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Edit, RevPath};

use super::model::PROFILES;
use super::{Context, collate, footer as footers, revtree, scripts, subject};
use crate::disk::SimDisk;
use crate::explore::Explorer;
use crate::fault::FaultModel;
use crate::image::Image;
use crate::oracle::{DATABASE, environment};
use crate::plan::{Errno, Failure, Fault, Pages, Plan, Verb};
use crate::target::Workload;

/// A check by name.
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) run: fn(&Context) -> Result<(), String>,
}

/// All checks.
pub(super) fn all() -> Vec<Check> {
    vec![
        Check { name: "crash", run: |context| crash(context, "verified") },
        Check { name: "barrier", run: |context| crash(context, "barrier") },
        Check { name: "failing", run: failing },
        Check { name: "footer", run: footer },
        Check { name: "model", run: model },
        Check { name: "database", run: database },
        Check { name: "workloads", run: workloads },
        Check { name: "sharing", run: sharing },
        Check { name: "compaction", run: compaction },
        Check { name: "writer", run: compaction_beside_a_writer },
        Check { name: "revtree", run: |_| revtree::check(REVTREE_NODES, &mut |_| true).map(drop) },
        Check { name: "collate", run: collate::sample },
    ]
}

/// Revisions of the largest trees.
const REVTREE_NODES: usize = 4;

/// Histories of the model checks, for each profile, with and without failing calls.
const HISTORIES: u64 = 20;
const DB_HISTORIES: u64 = 40;

/// Commits, replacements, removals, a kill, a clean close and a compaction.
const SCRIPT: &str = "commit a=1; commit b=k*3000; commit a=2 c=3; crash; commit a=-; reopen; \
                      commit d=4; compact; commit e=5";

/// Sets of survivors at one crash point.
const SETS_MAX: usize = 60;

fn workload(protocol: &str, script: &str) -> Result<Workload, String> {
    let mut workload = Workload::parse("check", script)?;
    workload.settings.push(("protocol".to_owned(), protocol.to_owned()));
    Ok(workload)
}

fn crash(context: &Context, protocol: &str) -> Result<(), String> {
    let explorer = Explorer { sets_max: SETS_MAX, ..context.explorer(FaultModel::POWER) };
    let (_, violation) = subject("store")?.find(&explorer, &workload(protocol, SCRIPT)?)?;
    violation.map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// Every flush, append and read fails in turn, once; then the power fails too.
fn failing(context: &Context) -> Result<(), String> {
    let script = "commit a=1; commit b=k*3000; crash; commit c=2; reopen; commit d=3";
    let (subject, workload) = (subject("store")?, workload("verified", script)?);
    let broken = Failure::new(Errno::InputOutput);
    let kinds = [
        (Verb::Sync, broken, 12),
        (Verb::Sync, broken.pages(Pages::Reverted), 12),
        (Verb::Append, Failure::new(Errno::NoSpace).written(700), 12),
        (Verb::Append, Failure::short_write(700), 12),
        (Verb::Read, Failure::short_read(5), 12),
        // Most calls read; those of an opening are among the first of every handle.
        (Verb::Read, broken, 120),
    ];
    for (verb, failure, last) in kinds {
        for nth in 1..=last {
            let plan = Plan::default().and(Fault { verb, nth, failure, forever: false });
            let mut explorer = context.explorer(FaultModel::POWER);
            (explorer.sets_max, explorer.plan) = (12, plan);
            if let Some(violation) = subject.find(&explorer, &workload)?.1 {
                return Err(violation.to_string());
            }
        }
    }
    Ok(())
}

fn footer(context: &Context) -> Result<(), String> {
    let figures = footers::run(&Context { loud: false, ..context.clone() })?;
    if figures.succeeded() { Ok(()) } else { Err(figures.to_string()) }
}

/// Histories without and with failing calls; each history is guarded against panics by itself.
fn model(context: &Context) -> Result<(), String> {
    histories(context, "store", HISTORIES)
}

/// The same for the document database.
fn database(context: &Context) -> Result<(), String> {
    histories(context, "db", DB_HISTORIES)
}

/// Every script of the database, with the images that survive whole or not at all.
fn workloads(context: &Context) -> Result<(), String> {
    let explorer = Explorer { sets_max: 2, ..context.explorer(FaultModel::POWER) };
    let subject = subject("db")?;
    for workload in scripts(context, "db")? {
        if let Some(violation) = subject.find(&explorer, &workload)?.1 {
            return Err(violation.to_string());
        }
    }
    Ok(())
}

/// One attachment in every revision of a document, under two names: stored once, compacted or not.
fn sharing(context: &Context) -> Result<(), String> {
    const CONTENT_BYTES: usize = 100_000;
    let disk = SimDisk::open_image(&Image::empty());
    let env = environment(&disk, context.seed);
    let failed = |error: Error| error.to_string();
    let db = Database::open(env, Path::new(DATABASE), DatabaseOptions::default());
    let db = db.map_err(failed)?;
    let content = vec![1; CONTENT_BYTES];
    let mut base = None;
    for number in 0..4 {
        let mut edit = DocEdit::parse("a", format!("{{\"v\":{number}}}").as_bytes());
        for made in edit.iter_mut() {
            made.draft.path = base.clone().map(RevPath::of).unwrap_or_default();
            for name in ["n", "m"] {
                made.draft.attachments.push(AttachmentDraft {
                    name: name.to_owned(),
                    content_type: "image/png".to_owned(),
                    source: AttachmentSource::Inline { data: content.clone(), revpos: None },
                });
            }
        }
        base = db.edit(vec![edit.map_err(failed)?]).map_err(failed)?.remove(0).ok();
    }
    for when in ["before", "after"] {
        let bytes = db.snapshot().map_err(failed)?.info().file_bytes;
        if bytes >= 2 * CONTENT_BYTES as u64 {
            return Err(format!("{when} a compaction one attachment takes {bytes} bytes"));
        }
        db.compact(&mut || ControlFlow::Continue(())).map_err(failed)?;
    }
    Ok(())
}

fn histories(context: &Context, engine: &str, count: u64) -> Result<(), String> {
    for profile in PROFILES.iter().filter(|profile| profile.engine == engine) {
        for faults in [false, true] {
            let report = profile.check(context.seed, count, faults);
            report.map_err(|violation| violation.to_string())?;
        }
    }
    Ok(())
}

/// Commits, a second compaction and a reader, all while a compaction copies.
fn compaction(context: &Context) -> Result<(), String> {
    let disk = SimDisk::new();
    let env = environment(&disk, context.seed);
    let failed = |error: Error| error.to_string();
    let path = Path::new(DATABASE);
    let store = Store::open(env.clone(), path, StoreOptions::default()).map_err(failed)?;
    let edit = |number: u32| Edit::put(format!("{:05}", number % 900), number.to_string());
    store.commit((0..900).map(edit).collect()).map_err(failed)?;
    let reader = Store::open_read_only(env, path, StoreOptions::default()).map_err(failed)?;
    let (mut commits, mut second, mut wrong) = (900, None, None);
    let watch = &mut || {
        if second.is_none() {
            second = Some(store.compact(&mut || ControlFlow::Continue(())).err());
        }
        if commits < 1000 {
            wrong = store.commit(vec![edit(commits)]).err().or(wrong.take());
            commits += 1;
        }
        ControlFlow::Continue(())
    };
    store.compact(watch).map_err(failed)?;
    if let Some(error) = wrong {
        return Err(format!("a commit during a compaction: {error}"));
    }
    if !matches!(second, Some(Some(Error::CompactionRunning { .. }))) {
        return Err(format!("a second compaction at once was not refused: {second:?}"));
    }
    store.commit(vec![Edit::put("last", "1")]).map_err(failed)?;
    let newest = |number: u32| commits - 1 - (commits - 1 - number) % 900;
    for (who, snapshot) in [("writer", store.snapshot()), ("reader", reader.snapshot())] {
        let snapshot = snapshot.map_err(failed)?;
        for number in 0..900 {
            let found = snapshot.get(&edit(number).key).map_err(failed)?;
            let expected = newest(number).to_string().into_bytes();
            if found.as_ref() != Some(&expected) {
                return Err(format!("after a compaction the {who} misses an edit of {number}"));
            }
        }
        if snapshot.get(b"last").map_err(failed)?.is_none() {
            return Err(format!("after a compaction the {who} misses the newest commit"));
        }
    }
    Ok(())
}

/// A thread commits without a pause while compactions follow each other: the last round of each has
/// something to catch up with.
fn compaction_beside_a_writer(context: &Context) -> Result<(), String> {
    const COMMITS: u64 = 2000;
    let disk = SimDisk::open_image(&Image::empty());
    let env = environment(&disk, context.seed);
    let failed = |error: Error| error.to_string();
    let store = Store::open(env, Path::new(DATABASE), StoreOptions::default()).map_err(failed)?;
    store.commit(vec![Edit::put("first", "1")]).map_err(failed)?;
    // Compactions go on until the writer is through, so that they surely meet.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let put = |number: u64| {
                store.commit(vec![Edit::put(number.to_be_bytes(), number.to_string())]).map(drop)
            };
            let written = (0..COMMITS).try_for_each(put).map_err(failed);
            done.store(true, Ordering::Release);
            written
        });
        let mut compacted = Ok(());
        while !done.load(Ordering::Acquire) && compacted.is_ok() {
            compacted = store.compact(&mut || ControlFlow::Continue(())).map_err(failed);
        }
        let written = writer.join().unwrap_or_else(|_| Err("the writer panicked".to_owned()));
        compacted.and(written)
    })?;
    let snapshot = store.snapshot().map_err(failed)?;
    if snapshot.row_count() != COMMITS + 1 {
        let found = snapshot.row_count();
        return Err(format!("{COMMITS} commits beside compactions left {found} rows"));
    }
    let checked = snapshot.check().map_err(failed)?;
    if checked.violations.is_empty() { Ok(()) } else { Err(format!("{:?}", checked.violations)) }
}
