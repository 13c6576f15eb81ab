//! One kind of fault at a time: a check for each of the 24, in which nothing but that kind decides.
//!
//! ```text
//! kinds  1 to 9   of all images that a crash can leave, those that show the kind
//!        10       a crash, and crashes at every point of the first commit after it
//!        11 14    a flush that lied, then a crash: every state is some commit's, or an error
//!        12 to 18 calls that fail one after the other, then a crash; 24: a quota
//!        19 to 23 a file at rest, damaged in that one way
//! ```
//!
//! Invariant: a check in which its kind never struck complains, so that none is silent for want of
//! faults.

use std::path::Path;

use rereduce::ErrorClass;
use rereduce::db::DocEdit;
use rereduce::store::StoreOptions;
use rereduce::vocabulary::Edit;

use super::crashes::explorer;
use super::{Outcome, disk, expect, open_store};
use crate::campaign::{Context, rot, subject};
use crate::choices::choices;
use crate::disk::SimDisk;
use crate::explore::Explorer;
use crate::fault::{FaultKind, FaultModel};
use crate::image::Image;
use crate::oracle::{DATABASE, environment, guarded, recover};
use crate::plan::{Errno, Failure, Fault, Pages, Plan, Verb};
use crate::run::{Recording, record};
use crate::scene::Scene;
use crate::target::{Target, Workload};
use crate::targets::{KvState, KvTarget, StoreOpener};
use crate::trace::Entry;

type Store = KvTarget<StoreOpener>;
type Op = <Store as Target>::Op;

/// A database is made, grows, is killed, compacted and written again.
const SCRIPT: &str = "commit a=1; commit b=k*1500 c=2; commit a=- d=3; crash; commit e=4; \
                      compact; commit f=5; commit a=6";

/// The same, shorter: many runs are made of it.
const SHORT: &str = "commit a=1; commit b=k*1500; crash; commit c=2; compact; commit d=3";

/// Sets of survivors at one crash point.
const SETS_MAX: usize = 40;

/// Calls of one verb that fail in turn.
const CALLS: u64 = 9;

/// Reads that fail in turn: most calls read.
const READS: u64 = 60;

pub(super) fn alone(context: &Context, kind: FaultKind) -> Outcome {
    match kind {
        FaultKind::CrashInRecovery => crash_after_crash(context),
        FaultKind::LyingSync => false_success(context, Failure::lie(), FaultModel::TORN),
        FaultKind::SyncErrorLate => {
            false_success(context, Failure::late(Errno::InputOutput), FaultModel::POWER)
        }
        _ if FaultKind::CRASH.contains(&kind) => crash(context, kind),
        _ if FaultKind::ROT.contains(&kind) => Ok(rot::check_kind(context, kind)?),
        FaultKind::ResourceLimit => {
            limits_are_kept(context)?;
            calls(context, kind)
        }
        _ => calls(context, kind),
    }
}

/// What is too deep or too large is refused, and nothing is changed by it.
fn limits_are_kept(context: &Context) -> Outcome {
    let options = StoreOptions { value_bytes_max: 1_000, ..StoreOptions::default() };
    let store = open_store(&disk(), context, options)?;
    for (size, taken) in [(1_000, true), (1_001, false)] {
        let done = store.commit(vec![Edit::put("k", vec![b'v'; size])]).is_ok();
        expect(done == taken, format!("a value of {size} bytes was taken: {done}"))?;
    }
    for (depth, taken) in [(1_000, true), (1_100, false)] {
        let text = format!("{{\"v\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        let done = DocEdit::parse("d", text.as_bytes()).is_ok();
        expect(done == taken, format!("{depth} levels of nesting were taken: {done}"))?;
    }
    Ok(())
}

fn prepared(script: &str) -> Result<(Store, Vec<Op>), String> {
    Workload::parse("kinds", script)?.prepare(&KvTarget(StoreOpener::default()))
}

/// The mildest disk on which a crash can show `kind`.
fn mildest(kind: FaultKind) -> FaultModel {
    match kind {
        FaultKind::CallBoundary => FaultModel::PROCESS_KILL,
        FaultKind::InsideCall | FaultKind::TornWrite => FaultModel::TORN,
        FaultKind::LengthWithoutData => FaultModel::ZEROS,
        FaultKind::DataWithoutLength => FaultModel::POWER,
        _ => FaultModel::REORDER,
    }
}

/// What cannot be told apart from `kind`: every crash falls somewhere, what the call in flight
/// would have done is missing, and a part of a write that is there means that another part is not.
fn companions(kind: FaultKind) -> &'static [FaultKind] {
    use FaultKind::{CallBoundary, DroppedWrite, InsideCall, LostName, LostRename, TornWrite};
    match kind {
        FaultKind::CallBoundary => &[DroppedWrite, LostName, LostRename],
        FaultKind::InsideCall => &[TornWrite],
        FaultKind::LostRename | FaultKind::LostName | FaultKind::DroppedWrite => {
            &[CallBoundary, InsideCall]
        }
        _ => &[CallBoundary, InsideCall, DroppedWrite, TornWrite],
    }
}

/// Opens each image that shows `kind` and no other, on the mildest disk that can leave one.
fn crash(context: &Context, kind: FaultKind) -> Outcome {
    let (target, ops) = prepared(SCRIPT)?;
    let Some(recording) = sound(&target, &ops, context) else { return Ok(()) };
    let model = mildest(kind);
    let mut images = 0;
    for scene in Scene::all(&recording.trace, &Image::empty(), model) {
        for choice in choices(&scene, model, context.seed, SETS_MAX) {
            let (image, kinds) = scene.image(&choice);
            let mut others = FaultKind::CRASH.into_iter().filter(|other| *other != kind);
            let mixed = others.any(|it| kinds.contains(it) && !companions(kind).contains(&it));
            if mixed || !kinds.contains(kind) {
                continue;
            }
            images += 1;
            let found = recover(&target, &image, context.seed, false)?;
            let (least, most) = (scene.acknowledged, scene.begun);
            let allowed = recording.states.get(least..=most).unwrap_or_default().contains(&found);
            expect(allowed, format!("{kind} after operation {least}: {found:?}"))?;
        }
    }
    // Every file is flushed before it is renamed, so that only a bug shows this one.
    let never = kind == FaultKind::RenameWithoutData;
    expect(images > 0 || never, format!("no image shows {kind}"))
}

/// A run without faults; `None` if it goes wrong by itself, which others notice.
fn sound(target: &Store, ops: &[Op], context: &Context) -> Option<Recording<Store>> {
    record(target, ops, context.seed, &Plan::default()).ok()
}

/// A crash after each operation but the first leaves any of what was in flight; the next commit is
/// interrupted by a second crash, at every point of it.
fn crash_after_crash(context: &Context) -> Outcome {
    let (target, ops) = prepared("commit a=1; commit b=k*1500; commit a=2")?;
    let Some(recording) = sound(&target, &ops, context) else { return Ok(()) };
    let model = FaultModel::TORN;
    let (mut images, op) = (0, "commit z=9".parse::<Op>()?);
    for scene in Scene::all(&recording.trace, &Image::empty(), model) {
        for choice in choices(&scene, model, context.seed, 8) {
            let first = scene.image(&choice).0;
            images += second_crash(context, &target, &op, &first)?;
        }
    }
    expect(images > 0, "no second crash left an image")
}

/// Recovers `first`, commits, and opens what a crash leaves at every point of that.
fn second_crash(
    context: &Context,
    target: &Store,
    op: &Op,
    first: &Image,
) -> Result<usize, Box<dyn std::error::Error>> {
    let before = recover(target, first, context.seed, false)?;
    let disk = SimDisk::recording(first);
    let mut handle = target.open(&environment(&disk, context.seed), Path::new(DATABASE))?;
    disk.note(Entry::Began(1));
    target.apply(&mut handle, op)?;
    disk.note(Entry::Acknowledged(1));
    drop(handle);
    let states = [before.clone(), target.expect(&before, op)];
    let mut images = 0;
    for scene in Scene::all(&disk.trace(), first, FaultModel::TORN) {
        for choice in choices(&scene, FaultModel::TORN, context.seed, 8) {
            images += 1;
            let found = recover(target, &scene.image(&choice).0, context.seed, false)?;
            let allowed = states.get(scene.acknowledged..=scene.begun).unwrap_or_default();
            let what = format!("a crash in the first commit after a crash left {found:?}");
            expect(allowed.contains(&found), what)?;
        }
    }
    Ok(images)
}

/// Each flush in turn answers that it succeeded, and did not. Then the power fails: what was
/// acknowledged may be lost, but what opens is the state of some commit, or an error.
fn false_success(context: &Context, failure: Failure, model: FaultModel) -> Outcome {
    let (target, ops) = prepared(SHORT)?;
    if sound(&target, &ops, context).is_none() {
        return Ok(());
    }
    let mut struck = 0;
    for nth in 1..=CALLS {
        let plan = Plan::default().and(Fault { verb: Verb::Sync, nth, failure, forever: false });
        let recording = record(&target, &ops, context.seed, &plan)?;
        struck += struck_calls(&recording);
        // The more lengths and gaps there are, the fewer sets.
        let sets = 100 / (model.lengths.len() * model.gaps.len());
        for scene in Scene::all(&recording.trace, &Image::empty(), model) {
            for choice in choices(&scene, model, context.seed, sets) {
                let image = scene.image(&choice).0;
                let found = opened(&target, &image, context.seed)?;
                let doubted = recording.doubts.iter().map(|doubt| &doubt.state);
                let known = |found: &KvState| {
                    recording.states.contains(found) || doubted.clone().any(|it| it == found)
                };
                let allowed = found.as_ref().is_none_or(known);
                expect(allowed, format!("{failure}, flush {nth}: {found:?}"))?;
            }
        }
    }
    expect(struck > 0, format!("no flush was struck by {failure}"))
}

fn struck_calls(recording: &Recording<Store>) -> usize {
    let struck = |entry: &&Entry| matches!(entry, Entry::Call(_, Some(_)));
    recording.trace.iter().filter(struck).count()
}

/// What is in the image, or `None` where the engine says that it is damaged.
fn opened(target: &Store, image: &Image, seed: u64) -> Result<Option<KvState>, String> {
    guarded(|| {
        let disk = SimDisk::open_image(image);
        let state = target
            .open(&environment(&disk, seed), Path::new(DATABASE))
            .and_then(|handle| target.state(&handle));
        match state {
            Ok(state) => Ok(Some(state)),
            Err(error) => match error.class() {
                ErrorClass::Corrupt | ErrorClass::NotADatabase => Ok(None),
                _ => Err(error.to_string()),
            },
        }
    })
}

/// The calls that `kind` strikes, how, and how many of them.
fn plans(kind: FaultKind) -> Vec<Plan> {
    let broken = Failure::new(Errno::InputOutput);
    let each = |verb, failure, calls| {
        (1..=calls)
            .map(move |nth| Plan::default().and(Fault { verb, nth, failure, forever: false }))
    };
    match kind {
        FaultKind::SyncErrorKept => each(Verb::Sync, broken, CALLS).collect(),
        FaultKind::SyncErrorReverted => {
            each(Verb::Sync, broken.pages(Pages::Reverted), CALLS).collect()
        }
        FaultKind::ReadError => each(Verb::Read, broken, READS).collect(),
        FaultKind::WriteError => each(Verb::Append, broken.written(700), CALLS).collect(),
        FaultKind::NoSpace => {
            each(Verb::Append, Failure::new(Errno::NoSpace).written(1), CALLS).collect()
        }
        FaultKind::ShortWrite => {
            let writes = each(Verb::Append, Failure::short_write(700), CALLS);
            writes.chain(each(Verb::Read, Failure::short_read(5), CALLS)).collect()
        }
        FaultKind::ResourceLimit => {
            (1..=CALLS).map(|step| Plan::default().quota(3_000 * step)).collect()
        }
        _ => Vec::new(),
    }
}

fn calls(context: &Context, kind: FaultKind) -> Outcome {
    let workload = Workload::parse("kinds", SHORT)?;
    let (target, ops) = prepared(SHORT)?;
    let (subject, mut struck) = (subject("store")?, 0);
    // What a power cut alone shows is no work of this kind.
    let alone = subject.find(&explorer(context, 6), &workload)?.1;
    if alone.is_some() {
        return Ok(());
    }
    for plan in plans(kind) {
        let recording = record(&target, &ops, context.seed, &plan)?;
        struck += struck_calls(&recording);
        let explorer = Explorer { plan, ..explorer(context, 6) };
        if let Some(violation) = subject.find(&explorer, &workload)?.1 {
            return Err(violation.to_string().into());
        }
    }
    expect(struck > 0, format!("{kind} struck no call"))
}
