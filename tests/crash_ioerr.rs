//! The campaigns `ioerr` and `crash --nested` and the books of flushes in small; and that each of
//! them can fail.
//!
//! Invariant: a bug is planted for the test's thread, and the campaigns hand it on to theirs.

mod crash_toy;

use std::path::{Path, PathBuf};

use crash_toy::{Mistake, Toy, ToyOp};
use rereduce::mark;
use rereduce_crash_sim::{
    Account, CAMPAIGNS, Context, DATABASE, DatabaseTarget, Entry, Evidence, Explorer, FaultClass,
    FaultModel, Figures, KvTarget, Met, Nesting, Plan, SimDisk, StoreOpener, Subject, Target,
    Workload, account, class_of, environment,
};

/// Runs a campaign quickly and silently, with a bug planted if there is a name.
fn figures(name: &str, bug: Option<&'static str>, arguments: &[(&str, &str)]) -> Figures {
    let workloads = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads");
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let arguments = arguments.iter().map(own).collect();
    let context = Context { quick: true, loud: false, arguments, ..Context::new(workloads) };
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == name).unwrap();
    let before = mark::plant(bug);
    let figures = (campaign.run)(&context);
    mark::plant(before);
    figures.unwrap()
}

fn count(figures: &Figures, what: &str) -> u64 {
    figures.counts.iter().find(|(name, _)| name == what).unwrap().1
}

/// How many canonical scripts there are.
fn script_count() -> u64 {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads");
    let of = |target: &str| std::fs::read_dir(workloads.join(target)).unwrap().count() as u64;
    of("store") + of("db")
}

fn store() -> KvTarget<StoreOpener> {
    KvTarget(StoreOpener::default())
}

fn ops(script: &str) -> Vec<ToyOp> {
    script.split(';').map(|op| op.trim().parse().unwrap()).collect()
}

const TOY: &str = "add 1x20; add 2x900; reopen; add 3x20; copy; add 4x20";

// spec: CRASH-10, CRASH-11, COMMIT-5, RECOVER-2
#[test]
fn every_call_may_fail_and_nothing_is_wrong_afterwards() {
    let found = figures("ioerr", None, &[("runs", "1200")]);
    assert_eq!(found.failed, 0, "{found}");
    assert!(found.passed >= 1200, "{found}");
    assert_eq!(count(&found, "workloads"), script_count(), "{found}");
    let (tried, refused) = (
        count(&found, "handles tried after a failed write"),
        count(&found, "of them refused writes"),
    );
    assert!(tried > 300 && tried == refused, "{found}");
}

// spec: CRASH-10, CRASH-11, RECOVER-4, FILE-5
#[test]
fn bugs_that_show_only_when_calls_fail_are_noticed() {
    for bug in [
        "failed-write-not-poisoned",
        "read-error-means-older-commit",
        "unsealed-tail-not-rewritten",
        "found-name-trusted",
        "publish-before-flush",
    ] {
        let found = figures("ioerr", Some(bug), &[("target", "store"), ("runs", "2500")]);
        assert!(found.failed > 0, "{bug}: {found}");
    }
}

// spec: CRASH-11
#[test]
fn a_handle_that_writes_on_after_a_failure_is_found() {
    let endure = |mistake: Mistake, plan: &str| {
        let explorer = Explorer { plan: plan.parse().unwrap(), ..Explorer::new(FaultModel::POWER) };
        let mut evidence = Evidence::default();
        let (_, found) = explorer.endure(&Toy(mistake), &ops(TOY), false, &mut evidence);
        (evidence, found)
    };
    for plan in ["append 3 ENOSPC written=7", "sync 3 EIO", "sync 3 EIO forever"] {
        let (evidence, found) = endure(Mistake::None, plan);
        assert!(found.is_none(), "false alarm: {}", found.unwrap());
        assert!(evidence.poisonings > 0 && evidence.refusals == evidence.poisonings, "{plan}");
        let (evidence, found) = endure(Mistake::WritesOnAfterFailure, plan);
        assert!(evidence.refusals < evidence.poisonings, "{plan}");
        assert!(found.unwrap().found.contains("must refuse"), "{plan}");
    }
}

// spec: CRASH-5, CRASH-10
#[test]
fn a_violation_shrinks_to_the_earliest_call_and_its_replay_command_shows_it() {
    let before = mark::plant(Some("failed-write-not-poisoned"));
    let workload =
        Workload::parse("w", "commit a=1; commit b=2; snapshot s0; commit c=3; commit d=4")
            .unwrap();
    let plans = |nth| Some(format!("append {nth} EIO written=9").parse::<Plan>().unwrap());
    let explorer = Explorer { plan: plans(4).unwrap(), ..Explorer::new(FaultModel::POWER) };
    let endure = |explorer: &Explorer| {
        store().endure(explorer, &workload, false, &mut Evidence::default()).unwrap().1
    };
    let found = endure(&explorer).unwrap();
    let least = store().endure_less(&explorer, &workload, false, &plans, found).unwrap();
    mark::plant(before);
    assert_eq!((least.ops.len(), &*least.plan), (1, "append 2 EIO written=9"), "{least}");

    let script = least.ops.join("; ");
    let command = least.replay_command();
    assert!(command.contains("--target store") && command.contains(&script), "{command}");
    let arguments = [("target", "store"), ("script", &*script), ("plan", &*least.plan)];
    assert_eq!(figures("replay", Some("failed-write-not-poisoned"), &arguments).failed, 1);
    assert_eq!(figures("replay", None, &arguments).passed, 1);
}

// spec: CRASH-12
#[test]
fn after_a_flush_that_lied_an_answer_is_that_of_some_commit_or_damage() {
    let believe = |mistake: Mistake, plan: &str| {
        let plan: Plan = plan.parse().unwrap();
        assert_eq!(class_of(&plan), FaultClass::B);
        let explorer = Explorer { plan, sets_max: 40, ..Explorer::new(FaultModel::POWER) };
        explorer.believe(&Toy(mistake), &ops(TOY), &mut Evidence::default())
    };
    let mut wrong = 0;
    for nth in 1..=6 {
        for how in ["lies", "lies forever"] {
            let plan = format!("sync {nth} {how}");
            let (tally, found) = believe(Mistake::None, &plan);
            assert!(found.is_none(), "false alarm: {}", found.unwrap());
            assert!(tally.images > 0, "{plan}: the power was never cut");
            let (_, found) = believe(Mistake::UncheckedData, &plan);
            wrong += u64::from(found.is_some_and(|it| it.found.contains("no commit")));
        }
    }
    assert!(wrong > 0, "a checksum that covers too little shows what never was");
    // The stronger judge forgives neither a lie nor an engine that asks for no flush.
    let plan = "sync 3 lies forever".parse().unwrap();
    let explorer = Explorer { plan, sets_max: 40, ..Explorer::new(FaultModel::POWER) };
    assert!(explorer.explore(&Toy(Mistake::None), &ops(TOY)).1.is_some());
    let explorer = Explorer { plan: Plan::default(), ..explorer };
    assert!(explorer.explore(&Toy(Mistake::NoSync), &ops(TOY)).1.is_some());
}

// spec: CRASH-13, RECOVER-2, RECOVER-5, COMPACT-3
#[test]
fn crashes_in_recovery_leave_what_a_single_crash_may_leave() {
    for target in ["store", "db"] {
        let found = figures("nested", None, &[("target", target)]);
        assert_eq!(found.failed, 0, "{found}");
        assert!(count(&found, "distinct images at depth 3") > 500, "{found}");
        assert!(count(&found, "crash-in-recovery") > 500, "{found}");
    }
}

// spec: CRASH-13
#[test]
fn bugs_in_recovery_are_noticed_and_so_is_an_opening_that_writes() {
    for bug in ["leftover-stays", "cover-not-checked"] {
        let found = figures("nested", Some(bug), &[("target", "store")]);
        assert!(found.failed > 0, "{bug}: {found}");
    }
    let (explorer, nesting) =
        (Explorer::new(FaultModel::POWER), Nesting { first: 6, choices: [1, 1, 1] });
    let nest = |mistake| explorer.nest(&Toy(mistake), &ops(TOY), nesting, &Met::default()).1;
    // The toy writes its tail again when it opens.
    let found = nest(Mistake::None).unwrap();
    assert!(found.outer.found.contains("opening changed the disk"), "{found}");
}

// spec: CRASH-5, CRASH-13
#[test]
fn a_chain_of_crashes_replays_from_its_command() {
    let before = mark::plant(Some("leftover-stays"));
    let workload = Workload::parse("w", "commit a=1; commit b=2; compact; commit c=3").unwrap();
    let (explorer, nesting) =
        (Explorer::new(FaultModel::POWER), Nesting { first: 20, choices: [2, 1, 1] });
    let (_, found) = store().nest(&explorer, &workload, nesting, &Met::default()).unwrap();
    mark::plant(before);
    let found = found.unwrap();
    let (first, script) = (found.outer.crash.as_ref().unwrap(), found.outer.ops.join("; "));
    let (point, choice) = (first.point.to_string(), first.choice.to_string());
    let command = found.replay_command();
    let inner = command.rsplit_once("--inner '").unwrap().1.trim_end_matches('\'');
    let arguments = [
        ("target", "store"),
        ("script", &*script),
        ("point", &*point),
        ("choice", &*choice),
        ("inner", inner),
    ];
    assert_eq!(figures("replay", Some("leftover-stays"), &arguments).failed, 1, "{command}");
    assert_eq!(figures("replay", None, &arguments).passed, 1, "{command}");
}

/// The books of a run of `script` with this bug planted. Nothing else looks at the run: the
/// engine's own check would notice some bugs first.
fn books<T: Target>(target: &T, bug: Option<&'static str>, script: &str) -> Account {
    let (target, ops) = Workload::parse("w", script).unwrap().prepare(target).unwrap();
    let (disk, before) = (SimDisk::new(), mark::plant(bug));
    let mut handle = target.open(&environment(&disk, 1), Path::new(DATABASE)).unwrap();
    let (mut state, mut changed) = (target.empty(), Vec::new());
    for (number, op) in (1..).zip(&ops) {
        disk.note(Entry::Began(number));
        target.apply(&mut handle, op).unwrap();
        disk.note(Entry::Acknowledged(number));
        let next = target.expect(&state, op);
        changed.push(next != state);
        state = next;
    }
    drop(handle);
    mark::plant(before);
    account(&disk.trace(), &changed, Path::new(DATABASE))
}

const PROTOCOLS: [&str; 3] = ["guide", "barrier", "verified"];

// spec: CRASH-14, COMMIT-1, COMMIT-2, COMMIT-3, COMMIT-4, COMPACT-2, FILE-4, RECOVER-4
#[test]
fn every_acknowledged_commit_had_the_flushes_of_its_protocol() {
    let database = DatabaseTarget::default();
    for protocol in PROTOCOLS {
        let script = format!(
            "with protocol={protocol}
             commit a=1; commit b=k*3000; crash; commit c=2; compact; reopen
             commit d=p*1200000; compact"
        );
        let found = books(&store(), None, &script);
        assert_eq!(found.missing, [""; 0], "{protocol}");
        assert_eq!((found.commits, found.renames, found.creates), (6, 3, 3), "{found:?}");
        assert_eq!((found.tails, found.seals), (1, 2), "{found:?}");
        let script =
            format!("with protocol={protocol}\nedit a@new=1; crash; edit b@new=2; compact");
        let found = books(&database, None, &script);
        assert_eq!((found.missing.len(), found.commits), (0, 3), "{found:?}");
    }
}

// spec: CRASH-14
#[test]
fn a_flush_that_was_left_out_is_missing_in_the_books() {
    let script = |protocol: &str| {
        format!(
            "with protocol={protocol}
             commit a=1; commit b=2; crash; commit c=3; compact; commit d=4; crash
             commit e=p*1200000"
        )
    };
    for (bug, protocol, missing) in [
        ("commit-without-flush", "verified", "a flush of the footer"),
        ("swap-without-directory-sync", "verified", "a flush of the directory after the rename"),
        ("barrier-flush-left-out", "barrier", "a flush of the data of commit"),
        ("create-without-directory-sync", "verified", "a flush of the directory after the rename"),
        ("cover-starts-late", "verified", "a cover of all bytes"),
        ("large-commit-flushed-once", "verified", "the large commit"),
        ("unsealed-tail-not-rewritten", "verified", "again before the append"),
        ("found-name-trusted", "verified", "a flush of the directory before the append"),
        ("second-copy-left-out", "verified", "the second copy"),
    ] {
        let found = books(&store(), Some(bug), &script(protocol));
        assert!(found.missing.iter().any(|line| line.contains(missing)), "{bug}: {found:?}");
        let found = books(&store(), None, &script(protocol));
        assert_eq!(found.missing, [""; 0], "{protocol}");
    }
}
