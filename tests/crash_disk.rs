//! The simulated disk, held against a table of what a crash may and may not leave.
//!
//! Each program ends in a crash. The table lists every outcome that may be seen and so forbids all
//! others. `tests/crash_program` says how programs and outcomes are written.

mod crash_program;

use std::collections::BTreeSet;
use std::path::Path;

use crash_program::{run, show};
use rereduce::env::{Disk, MemoryDisk};
use rereduce_crash_sim::{FaultModel, Image, Random, Scene, SimDisk, choices};

/// Every outcome of a crash at the very end of `program`.
fn outcomes(program: &str, plan: &str, model: FaultModel) -> BTreeSet<String> {
    let disk = SimDisk::new();
    disk.set_plan(plan.parse().unwrap());
    run(&disk, program);
    let scenes = Scene::all(&disk.trace(), &Image::empty(), model);
    let last = scenes.last().unwrap();
    choices(last, model, 1, usize::MAX).map(|choice| show(&last.image(&choice).0)).collect()
}

fn check(model: FaultModel, program: &str, plan: &str, allowed: &[&str]) {
    let allowed: BTreeSet<String> = allowed.iter().map(|outcome| outcome.to_string()).collect();
    assert_eq!(outcomes(program, plan, model), allowed, "{program} on {}", model.name);
}

// spec: CRASH-1, DISK-1, DISK-2, DISK-3, DISK-4
#[test]
fn a_power_cut_leaves_exactly_what_the_litmus_table_allows() {
    let two = |program: &str| format!("two; {program}");
    let table: &[(&str, &[&str])] = &[
        ("create a", &["{}", "{a=}"]),
        ("create a; append a 1", &["{}", "{a=}", "{a=.}", "{a=1}"]),
        // A file's flush does not make its name sure, nor a directory's flush the file.
        ("create a; append a 1; sync a", &["{}", "{a=1}"]),
        ("create a; append a 1; sync_dir a", &["{a=}", "{a=.}", "{a=1}"]),
        ("create a; append a 1; sync a; sync_dir a", &["{a=1}"]),
        // Flushing another directory is no help.
        ("create d/a; sync d/a; sync_dir a", &["{}", "{d/a=}"]),
        (&two("rename a c"), &["{a=1 b=2}", "{b=2 c=1}"]),
        (&two("rename a c; sync_dir c"), &["{b=2 c=1}"]),
        (&two("rename a b"), &["{a=1 b=2}", "{b=1}"]),
        // Two renames land in either order.
        (&two("rename a c; rename b d"), &["{a=1 b=2}", "{b=2 c=1}", "{a=1 d=2}", "{c=1 d=2}"]),
        (&two("rename a c; rename b c"), &["{a=1 b=2}", "{b=2 c=1}", "{a=1 c=2}", "{c=2}"]),
        (&two("remove a"), &["{a=1 b=2}", "{b=2}"]),
        (&two("remove a; rename b a"), &["{a=1 b=2}", "{b=2}", "{a=2}"]),
        // A rename may be there before the data of the file.
        (
            "create b; sync_dir b; append b 2; rename b a",
            &["{a=}", "{a=.}", "{a=2}", "{b=}", "{b=.}", "{b=2}"],
        ),
        ("create b; sync_dir b; append b 2; sync b; rename b a; sync_dir a", &["{a=2}"]),
        // Files are independent of each other.
        (
            &two("append a 3; append b 4"),
            &[
                "{a=1 b=2}",
                "{a=1 b=24}",
                "{a=1 b=2.}",
                "{a=13 b=2}",
                "{a=13 b=24}",
                "{a=13 b=2.}",
                "{a=1. b=2}",
                "{a=1. b=24}",
                "{a=1. b=2.}",
            ],
        ),
        (&two("append a 3; append b 4; sync b"), &["{a=1 b=24}", "{a=13 b=24}", "{a=1. b=24}"]),
        (&two("append a 3; append b 4; sync b; sync a"), &["{a=13 b=24}"]),
        // A later append to the same sector carries the earlier one with it.
        (
            "create a; sync_dir a; append a 1; append a 2",
            &["{a=}", "{a=.*2}", "{a=1}", "{a=1.}", "{a=12}"],
        ),
    ];
    for (program, allowed) in table {
        check(FaultModel::POWER, program, "", allowed);
    }
}

// spec: CRASH-1, DISK-1, DISK-5
#[test]
fn each_disk_allows_exactly_its_own_outcomes_of_two_pages() {
    let program = "create a; sync_dir a; append a x*4096; append a y*4096";
    let table: &[(FaultModel, &[&str])] = &[
        (FaultModel::PROCESS_KILL, &["{a=x*4096y*4096}"]),
        (FaultModel::REORDER, &["{a=}", "{a=x*4096}", "{a=.*4096y*4096}", "{a=x*4096y*4096}"]),
    ];
    for (model, allowed) in table {
        check(*model, program, "", allowed);
    }
    // In order means by sector: 16 of them, each a beginning longer than the one before.
    let ordered = outcomes(program, "", FaultModel::ORDERED);
    assert_eq!(ordered.len(), 17);
    assert!(ordered.contains("{a=x*4096y*512}") && !ordered.contains("{a=.*4096y*4096}"));
    assert!(ordered.is_subset(&outcomes(program, "", FaultModel::TORN)));
    assert!(outcomes(program, "", FaultModel::TORN).contains("{a=x*512.*512x*512}"));
    // Old bytes may stand in a gap.
    let program = "create a; append a x*4096; sync a; sync_dir a; append a y*4096";
    let zeros = outcomes(program, "", FaultModel::ZEROS);
    assert!(zeros.contains("{a=x*8192}") && zeros.contains("{a=x*4096.*4096}"));
    assert!(!zeros.contains("{a=x*4096}"), "the length always lands on this disk");
}

// spec: DISK-1
#[test]
fn whatever_a_special_disk_leaves_the_general_one_leaves_too() {
    let program =
        "create a; append a 1*700; sync a; append a 2*900; rename a b; create c; append c 3";
    let power = outcomes(program, "", FaultModel::POWER);
    for model in FaultModel::ALL {
        let special = outcomes(program, "", model);
        assert!(special.is_subset(&power), "{}: {special:?}", model.name);
    }
}

// spec: DISK-6
#[test]
fn pages_kept_by_a_failed_flush_are_never_flushed_again_unless_rewritten() {
    let fails = "sync 1 EIO";
    let start = "create a; sync_dir a; append a 1;";
    let later = |rest: &str| format!("{start} {rest}");
    check(FaultModel::POWER, &later("sync a; sync a"), fails, &["{a=.}", "{a=1}"]);
    check(FaultModel::POWER, &later("sync a; rewrite a; sync a"), fails, &["{a=1}"]);
    // What is appended to the same sector afterwards takes it along.
    check(FaultModel::POWER, &later("sync a; append a 2; sync a"), fails, &["{a=12}"]);
    let far = later("sync a; append a 2*1023; sync a");
    check(FaultModel::POWER, &far, fails, &["{a=12*1023}"]);
}

// spec: DISK-6
#[test]
fn pages_reverted_by_a_failed_flush_are_gone_from_reads_and_may_be_on_the_disk() {
    let disk = SimDisk::new();
    disk.set_plan("sync 1 EIO pages=reverted".parse().unwrap());
    let failures = run(&disk, "create a; append a 1; sync a");
    assert_eq!(failures.len(), 1);
    assert_eq!(disk.bytes(Path::new("a")), Some(Vec::new()));
    let allowed = ["{a=}", "{a=.}", "{a=1}"];
    let program = "create a; sync_dir a; append a 1; sync a";
    check(FaultModel::POWER, program, "sync 1 EIO pages=reverted", &allowed);
}

// spec: DISK-7
#[test]
fn a_full_disk_writes_a_part_and_says_so() {
    let disk = SimDisk::new();
    disk.set_plan("append 2 ENOSPC written=3".parse().unwrap());
    let failures = run(&disk, "create a; append a 1; append a abcdef; append a 2");
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(disk.bytes(Path::new("a")), Some(b"1abc2".to_vec()));

    disk.set_plan("append 1 ENOSPC forever; rename 1 EIO".parse().unwrap());
    let failures = run(&disk, "append a 3; append a 4; rename a b; rename a b");
    assert_eq!(failures.len(), 3, "{failures:?}");
    assert_eq!(disk.names(), [Path::new("b")]);
    disk.set_plan(Default::default());
    assert!(run(&disk, "append b 5").is_empty());
}

/// Without faults the simulated disk and the plain one in memory cannot be told apart.
// spec: DISK-8
#[test]
fn without_faults_it_behaves_as_any_other_disk() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (simulated, plain) = (SimDisk::new(), MemoryDisk::new());
        for _ in 0..40 {
            let mut name = || ["a", "b", "d/c"][random.below(3) as usize];
            let (first, second) = (name(), name());
            let line = match random.below(7) {
                0 => format!("create {first}"),
                1 => format!("rename {first} {second}"),
                2 => format!("remove {first}"),
                3 => format!("sync {first}"),
                _ => format!("append {first} {}*{}", random.below(10), random.below(2000)),
            };
            assert_eq!(run(&simulated, &line), run(&plain, &line), "seed {seed}, {line}");
        }
        for path in ["a", "b", "d/c"].map(Path::new) {
            assert_eq!(simulated.bytes(path), plain.bytes(path), "seed {seed}");
            assert_eq!(simulated.identity(path).unwrap(), plain.identity(path).unwrap());
        }
        // A crash that loses nothing leaves the same files too.
        let scenes = Scene::all(&simulated.trace(), &Image::empty(), FaultModel::POWER);
        let last = scenes.last().unwrap();
        let all = rereduce_crash_sim::Choice::all(last.unit_count());
        let image = last.image(&all).0;
        for path in image.names() {
            assert_eq!(image.bytes(&path), plain.bytes(&path), "seed {seed}");
        }
    }
}

// spec: DISK-8
#[test]
fn the_trace_lists_every_call_as_it_was_made() {
    let disk = SimDisk::new();
    disk.set_plan("sync 1 EIO".parse().unwrap());
    run(&disk, "create d/a; append d/a 1*600; sync d/a; rename d/a d/b; sync_dir d/b; remove d/b");
    let lines: Vec<String> = disk.trace().iter().map(|entry| entry.to_string()).collect();
    let expected = [
        "create d/a",
        "open d/a write",
        "append d/a 0+600",
        "open d/a write",
        "sync d/a failed: EIO",
        "rename d/a d/b",
        "sync_dir d",
        "remove d/b",
    ];
    assert_eq!(lines, expected);
}

/// An image that is opened and appended to leaves its sisters alone.
// spec: CRASH-2
#[test]
fn images_share_bytes_and_not_writes() {
    let disk = SimDisk::new();
    run(&disk, "create a; sync_dir a; append a x*5000; sync a; append a y*600");
    let scenes = Scene::all(&disk.trace(), &Image::empty(), FaultModel::POWER);
    let last = scenes.last().unwrap();
    let all: Vec<_> = choices(last, FaultModel::POWER, 1, 100).collect();
    let images: Vec<Image> = all.iter().map(|choice| last.image(choice).0).collect();
    let before: Vec<String> = images.iter().map(show).collect();
    for image in &images {
        let opened = SimDisk::open_image(image);
        assert!(run(&opened, "append a z*3000; sync a; rename a b").is_empty());
        assert_eq!(opened.bytes(Path::new("b")).unwrap().len() as u64, {
            image.bytes(Path::new("a")).unwrap().len() as u64 + 3000
        });
    }
    assert_eq!(images.iter().map(show).collect::<Vec<_>>(), before);
    let hashes: BTreeSet<u64> = images.iter().map(Image::hash).collect();
    assert_eq!(hashes.len(), before.iter().collect::<BTreeSet<_>>().len());
}
