//! The explorer on a toy engine: it finds each classic mistake, on the disks where it is one, and
//! raises no alarm over the engine that makes none.

mod crash_toy;

use crash_toy::{Mistake, Toy, ToyOp};
use rereduce_crash_sim::{
    Entry, Explorer, FaultKind, FaultModel, Scene, Tally, Target, Violation, record, shrink,
};

const SCRIPT: &str = "add 1x20; add 2x1200; copy; add 3x700; reopen; add 4x30";

fn ops(script: &str) -> Vec<ToyOp> {
    script.split(';').map(|op| op.trim().parse().unwrap()).collect()
}

/// The shrunk violation that `model` brings out of the toy with this mistake, if any.
fn violation(mistake: Mistake, model: FaultModel, script: &str) -> Option<Violation> {
    let (toy, ops) = (Toy(mistake), ops(script));
    let explorer = Explorer::new(model);
    let (_, found) = explorer.explore(&toy, &ops);
    found.map(|found| shrink(&explorer, &toy, &ops, found))
}

// spec: CRASH-3
#[test]
fn the_right_engine_survives_every_fault_model() {
    for model in FaultModel::ALL {
        let found = violation(Mistake::None, model, SCRIPT);
        assert!(found.is_none(), "false alarm: {}", found.unwrap());
    }
    let explorer = Explorer::new(FaultModel::POWER);
    for seed in 0..20 {
        let ops = Toy(Mistake::None).generate(6, seed);
        let (tally, found) = explorer.explore(&Toy(Mistake::None), &ops);
        assert!(found.is_none(), "false alarm: {}", found.unwrap());
        assert!(tally.images > 20, "seed {seed} explored {} images only", tally.images);
    }
}

// spec: CRASH-3, CRASH-4
#[test]
fn every_mistake_is_found_on_the_disks_where_it_is_one_and_on_no_other() {
    use FaultModel as M;
    let cells = [
        (Mistake::NoSync, vec![M::ORDERED, M::REORDER, M::TORN, M::ZEROS, M::POWER]),
        (Mistake::NoSyncDirAfterCreate, vec![M::ORDERED, M::REORDER, M::TORN, M::ZEROS, M::POWER]),
        (Mistake::NoSyncDirAfterRename, vec![M::ORDERED, M::REORDER, M::TORN, M::ZEROS, M::POWER]),
        (Mistake::RenameBeforeSync, vec![M::REORDER, M::TORN, M::ZEROS, M::POWER]),
        (Mistake::SyncBeforeFooter, vec![M::ORDERED, M::REORDER, M::TORN, M::ZEROS, M::POWER]),
        // The record of 1,213 bytes lies in one page, so that only a disk of sectors tears it.
        (Mistake::UncheckedData, vec![M::TORN, M::ZEROS, M::POWER]),
    ];
    for (mistake, models) in cells {
        for model in FaultModel::ALL {
            let found = violation(mistake, model, SCRIPT);
            let expected = models.contains(&model);
            assert_eq!(found.is_some(), expected, "{mistake:?} on {}: {found:?}", model.name);
        }
    }
}

// spec: CRASH-3
#[test]
fn appending_behind_a_torn_tail_is_found_by_working_on_after_recovery() {
    let found = violation(Mistake::AppendBehindTornTail, FaultModel::POWER, SCRIPT).unwrap();
    assert!(found.found.contains("after"), "{found}");
}

// spec: CRASH-5
#[test]
fn a_violation_shrinks_to_one_operation_and_few_survivors_and_replays() {
    let found = violation(Mistake::UncheckedData, FaultModel::TORN, SCRIPT).unwrap();
    assert_eq!(found.ops.len(), 1, "{found}");
    let crash = found.crash.as_ref().unwrap();
    assert!(crash.choice.survivors() <= 2, "{found}");

    let explorer = Explorer::new(FaultModel::TORN);
    let (toy, ops) = (Toy(Mistake::UncheckedData), ops(&found.ops.join("; ")));
    let choice = crash.choice.to_string();
    let again = explorer.replay(&toy, &ops, crash.point, &choice).unwrap().unwrap();
    assert_eq!(again.to_string(), found.to_string());
    assert!(found.to_string().ends_with(&found.replay_command()));

    let right = explorer.replay(&Toy(Mistake::None), &ops, crash.point, &choice).unwrap();
    assert!(right.is_none());
}

// spec: CRASH-2
#[test]
fn the_same_run_leaves_the_same_trace_and_the_same_images() {
    let toy = Toy(Mistake::None);
    let run = || {
        let recording = record(&toy, &ops(SCRIPT), 7, &Default::default()).unwrap();
        let lines: Vec<String> = recording.trace.iter().map(Entry::to_string).collect();
        let start = rereduce_crash_sim::Image::empty();
        let scenes = Scene::all(&recording.trace, &start, FaultModel::POWER);
        let hashes: Vec<u64> = scenes
            .iter()
            .flat_map(|scene| {
                let choices = rereduce_crash_sim::choices(scene, FaultModel::POWER, 7, 50);
                choices.map(|choice| scene.image(&choice).0.hash()).collect::<Vec<_>>()
            })
            .collect();
        (lines, hashes)
    };
    assert_eq!(run(), run());
}

// spec: CRASH-2
#[test]
fn what_is_found_does_not_depend_on_the_number_of_threads() {
    let (toy, ops) = (Toy(Mistake::NoSync), ops(SCRIPT));
    let found = |threads| {
        let explorer = Explorer { threads, ..Explorer::new(FaultModel::POWER) };
        explorer.explore(&toy, &ops).1.unwrap().to_string()
    };
    assert_eq!(found(1), found(4));
    let tally = |threads| {
        let explorer = Explorer { threads, ..Explorer::new(FaultModel::POWER) };
        explorer.explore(&Toy(Mistake::None), &ops).0
    };
    assert_eq!(tally(1), tally(4));
}

// spec: CRASH-4
#[test]
fn every_kind_of_fault_of_a_crash_occurs() {
    let explore = |mistake| Explorer::new(FaultModel::POWER).explore(&Toy(mistake), &ops(SCRIPT)).0;
    let count = |tally: &Tally, wanted| {
        FaultKind::CRASH.iter().zip(tally.kinds).find(|(kind, _)| **kind == wanted).unwrap().1
    };
    let right = explore(Mistake::None);
    for kind in FaultKind::CRASH {
        // An engine that flushes a copy before renaming it never offers this one.
        let impossible = kind == FaultKind::RenameWithoutData;
        assert_eq!(count(&right, kind) == 0, impossible, "{kind}");
    }
    assert!(count(&explore(Mistake::RenameBeforeSync), FaultKind::RenameWithoutData) > 0);
}

/// The violation of the toy with this mistake when these calls fail and then the power does.
fn failing(mistake: Mistake, plan: &str) -> Option<Violation> {
    let plan = plan.parse().unwrap();
    let explorer = Explorer { plan, ..Explorer::new(FaultModel::POWER) };
    let ops = ops("add 1x20; add 2x900; add 3x20; reopen; add 4x20; copy; add 5x20");
    explorer.explore(&Toy(mistake), &ops).1
}

// spec: CRASH-3, DISK-6, DISK-7
#[test]
fn every_failing_call_is_survived_by_the_right_engine_also_with_a_crash_on_top() {
    for verb in ["append", "sync", "read", "rename", "sync_dir", "rewrite", "open", "create"] {
        for nth in 1..=12 {
            for how in ["EIO", "EIO pages=reverted", "ENOSPC written=7", "EIO forever"] {
                let plan = format!("{verb} {nth} {how}");
                let found = failing(Mistake::None, &plan);
                assert!(found.is_none(), "false alarm: {}", found.unwrap());
            }
        }
    }
}

// spec: CRASH-3, DISK-6
#[test]
fn building_on_pages_that_a_failed_flush_left_in_the_cache_is_found() {
    let all = |mistake, how: &str| {
        (1..=8).filter_map(|nth| failing(mistake, &format!("sync {nth} {how}"))).next()
    };
    assert!(all(Mistake::NoRewriteOnOpen, "EIO").is_some());
    assert!(all(Mistake::WritesOnAfterFailure, "EIO").is_some());
    assert!((1..=8).any(|nth| {
        failing(Mistake::WritesOnAfterFailure, &format!("append {nth} ENOSPC written=7")).is_some()
    }));
}
