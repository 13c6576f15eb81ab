//! A flush fails and the machine stays up: what the page cache shows afterwards may never reach the
//! disk, and no commit may rest on it.
//!
//! Invariant: nothing acknowledged after a failed flush, in the same boot, is lost by a power cut
//! later on; without `rewrite_same` it would be, and the shortest script that shows it is found.

use std::path::Path;

use rereduce::env::{Access, Disk};
use rereduce::mark;
use rereduce_crash_sim::{
    DATABASE, Explorer, FaultKind, FaultModel, Image, KvTarget, Scene, SimDisk, StoreOpener,
    Target, Violation, choices, environment, recover, shrink,
};

type Op = <KvTarget<StoreOpener> as Target>::Op;

fn target() -> KvTarget<StoreOpener> {
    KvTarget(StoreOpener::default())
}

fn ops(script: &str) -> Vec<Op> {
    script.split(';').map(|op| op.trim().parse().unwrap()).collect()
}

/// Every state that a power cut at the end of what `disk` saw may leave, as text; `damaged` stands
/// for a file that does not open.
fn left(disk: &SimDisk) -> Vec<String> {
    let scenes = Scene::all(&disk.trace(), &Image::empty(), FaultModel::POWER);
    let scene = scenes.last().unwrap();
    let images = choices(scene, FaultModel::POWER, 1, 300).map(|choice| scene.image(&choice).0);
    let mut states: Vec<String> = images
        .map(|image| match recover(&target(), &image, 1, false) {
            Ok(state) => format!("{state:?}"),
            Err(error) => {
                assert!(error.contains("damaged"), "{error}");
                "damaged".to_owned()
            }
        })
        .collect();
    states.sort();
    states.dedup();
    states
}

/// Carries out one operation after the other; returns whether the last one was acknowledged, and
/// the rows that readers see then.
fn perform(disk: &SimDisk, script: &str) -> (bool, String) {
    let (target, env) = (target(), environment(disk, 1));
    let mut handle = target.open(&env, Path::new(DATABASE)).unwrap();
    let mut acknowledged = true;
    for op in ops(script) {
        acknowledged = target.apply(&mut handle, &op).is_ok();
    }
    (acknowledged, format!("{:?}", target.state(&handle).unwrap()))
}

/// A disk on which `a=1` was acknowledged, the flush of the next commit failed so, and the process
/// died. That commit is a tree of several nodes, most of which a later one would refer to.
fn after_a_failed_flush(plan: &str) -> SimDisk {
    let disk = SimDisk::new();
    assert!(perform(&disk, "commit a=1; crash").0);
    disk.set_plan(plan.parse().unwrap());
    assert_eq!(
        perform(&disk, "commit b=2 c=3 d=4 e=5"),
        (false, "{a=1}".to_owned()),
        "readers stay"
    );
    disk.set_plan(Default::default());
    disk
}

/// The first flush of a handle on an unsealed file is that of the tail; the second is the commit's.
const KEPT: &str = "sync 2 EIO";
const REVERTED: &str = "sync 2 EIO pages=reverted";

// spec: RECOVER-4, DISK-6
// case: B44
#[test]
fn the_cache_may_show_a_commit_that_the_disk_will_never_hold() {
    let disk = after_a_failed_flush(KEPT);
    assert_eq!(disk.struck(FaultKind::SyncErrorKept), 1);
    let changes = disk.changes();
    let (_, shown) = perform(&disk, "get a");
    assert_eq!(shown, "{a=1 b=2 c=3 d=4 e=5}", "the cache shows the commit, whole");
    assert_eq!(disk.changes(), changes, "opening writes nothing");
    // No flush, however often, brings it to the disk, for its pages count as clean.
    let file = disk.open(Path::new(DATABASE), Access::Write).unwrap();
    for _ in 0..3 {
        file.sync().unwrap();
        assert_eq!(left(&disk), ["{a=1 b=2 c=3 d=4 e=5}", "{a=1}"]);
    }
}

// spec: COMMIT-5, RECOVER-4, DISK-6
// case: B44
#[test]
fn what_is_acknowledged_on_top_of_such_a_commit_stays() {
    let disk = after_a_failed_flush(KEPT);
    assert_eq!(perform(&disk, "commit z=9"), (true, "{a=1 b=2 c=3 d=4 e=5 z=9}".to_owned()));
    assert_eq!(left(&disk), ["{a=1 b=2 c=3 d=4 e=5 z=9}"]);

    let disk = after_a_failed_flush(REVERTED);
    assert_eq!(disk.struck(FaultKind::SyncErrorReverted), 1);
    assert_eq!(
        left(&disk),
        ["{a=1 b=2 c=3 d=4 e=5}", "{a=1}"],
        "it may have reached the disk all the same"
    );
    assert_eq!(perform(&disk, "get a").1, "{a=1}", "the cache shows the commit before");
    assert_eq!(perform(&disk, "commit z=9"), (true, "{a=1 z=9}".to_owned()));
    assert_eq!(left(&disk), ["{a=1 z=9}"]);
}

/// The shrunk violation that a failed flush, and then a power cut, brings out of the engine.
fn violation(how: &str, script: &str, sets_max: usize) -> Option<Violation> {
    let (target, ops) = (target(), ops(script));
    (1..=6).find_map(|nth| {
        let plan = format!("sync {nth} {how}").parse().unwrap();
        let in_depth_every = u64::MAX;
        let explorer =
            Explorer { plan, sets_max, in_depth_every, ..Explorer::new(FaultModel::POWER) };
        let (_, found) = explorer.explore(&target, &ops);
        found.map(|found| shrink(&explorer, &target, &ops, found))
    })
}

const SCRIPT: &str = "commit a=1; commit b=2 c=3 d=4 e=5; crash; commit z=9; commit z=8";

// spec: COMMIT-5, RECOVER-4, CRASH-3
// case: B44
#[test]
fn no_failed_flush_costs_an_acknowledged_commit() {
    for how in ["EIO", "EIO pages=reverted", "EIO forever", "EIO pages=reverted forever"] {
        let found = violation(how, SCRIPT, 20);
        assert!(found.is_none(), "{how}: {}", found.unwrap());
    }
}

// spec: RECOVER-4, DISK-6
// case: B44
#[test]
fn without_rewriting_the_tail_an_acknowledged_commit_rests_on_nothing() {
    let before = mark::plant(Some("unsealed-tail-not-rewritten"));
    let disk = after_a_failed_flush(KEPT);
    let acknowledged = perform(&disk, "commit z=9");
    let (kept, disk) = (left(&disk), after_a_failed_flush(REVERTED));
    let reverted = (perform(&disk, "commit z=9"), left(&disk));
    mark::plant(before);
    assert_eq!(acknowledged, (true, "{a=1 b=2 c=3 d=4 e=5 z=9}".to_owned()));
    assert_eq!(kept, ["damaged", "{a=1 b=2 c=3 d=4 e=5 z=9}"]);
    // Where the pages are dropped, nothing that could be built upon stays in sight.
    assert_eq!(reverted, ((true, "{a=1 z=9}".to_owned()), vec!["{a=1 z=9}".to_owned()]));
}

/// The shortest script stands in `spec/assumptions.md`.
// spec: RECOVER-4, CRASH-5
// case: B44
#[test]
fn the_explorer_finds_that_by_itself_and_prints_the_shortest_script() {
    let before = mark::plant(Some("unsealed-tail-not-rewritten"));
    let found = violation("EIO", SCRIPT, 120).expect("the planted bug loses a commit");
    mark::plant(before);
    println!("{found}");
    let crash = found.crash.as_ref().unwrap();
    assert!(crash.trace.iter().any(|line| line.contains("failed: EIO")), "{found}");
    assert!(found.to_string().ends_with(&found.replay_command()));
    let script = format!("    {} ({})\n", found.ops.join("; "), found.plan);
    assert!(include_str!("../spec/assumptions.md").contains(&script), "the page lacks {script}");
}
