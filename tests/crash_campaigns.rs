//! The campaigns of crash-sim in small: what `cargo oracle` would say about this engine.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use rereduce_crash_sim::{
    CAMPAIGNS, Context, FaultKind, Figures, PLANTED, Planted, expected_cells,
};

/// Runs a campaign quickly and silently, with arguments such as `--sets 30`.
fn figures(name: &str, seed: u64, arguments: &[(&str, &str)]) -> Figures {
    let workloads = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads");
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let context = Context {
        quick: true,
        loud: false,
        seed,
        arguments: arguments.iter().map(own).collect(),
        ..Context::new(workloads)
    };
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == name).unwrap();
    (campaign.run)(&context).unwrap()
}

// spec: COMMIT-2
#[test]
fn the_guide_protocol_loses_data_where_the_disk_reorders_writes() {
    for seed in 1..=5 {
        let found = figures("protocols", seed, &[("protocol", "guide"), ("model", "reorder")]);
        assert!(found.succeeded(), "seed {seed}: {found}");
        let cells = expected_cells().unwrap();
        let cell = cells.iter().find(|it| it.protocol == "guide" && it.model.name == "reorder");
        assert!(!cell.unwrap().survives, "the table says so");
    }
}

// spec: COMMIT-2
#[test]
fn the_guide_protocol_loses_nothing_where_the_disk_keeps_write_order() {
    for seed in 1..=5 {
        let found = figures("protocols", seed, &[("protocol", "guide"), ("model", "ordered")]);
        assert!(found.succeeded(), "seed {seed}: {found}");
        let cells = expected_cells().unwrap();
        let cell = cells.iter().find(|it| it.protocol == "guide" && it.model.name == "ordered");
        assert!(cell.unwrap().survives, "the table says so");
    }
}

#[test]
fn no_counter_example_for_the_guide_protocol_stands_in_the_source() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-sim");
    let (mut files, mut folders) = (Vec::new(), vec![root.join("src"), root.join("workloads")]);
    while let Some(path) = folders.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => folders.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => files.push(path),
        }
    }
    assert!(files.len() > 50, "{} files", files.len());
    let operation = |text: &str| text.contains("commit ") && text.contains('=');
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        let code: Vec<&str> = code.collect();
        let is_script = path.extension().is_some_and(|ending| ending == "txt");
        let names_guide = code.iter().any(|line| line.contains("protocol=guide"));
        assert!(!(is_script && names_guide), "{}: a script for it", path.display());
        if path.ends_with("campaign/protocols.rs") {
            let strings = code.iter().flat_map(|line| line.split('"').skip(1).step_by(2));
            let known = strings.filter(|text| operation(text) || text.contains("keep="));
            assert_eq!(known.count(), 0, "the campaign knows no operation and no survivors");
        }
    }
}

// spec: COMMIT-1, COMMIT-2, COMMIT-3
#[test]
fn every_commit_protocol_survives_the_disks_that_the_table_says() {
    let found = figures("protocols", 1, &[]);
    assert!(found.succeeded(), "{found}");
    assert_eq!(found.passed, 15);
}

// spec: COMMIT-1, RECOVER-1, RECOVER-5, COMPACT-2, FILE-4
// case: B02, B03, B07, B11, B12
#[test]
fn every_workload_survives_a_crash_at_every_call() {
    let found = figures("crash", 1, &[("sets", "40")]);
    assert_eq!(found.failed, 0, "{found}");
    assert!(found.passed > 10_000, "{found}");
}

// spec: FOOTER-1, FOOTER-2, RECOVER-1
// case: B01, B05
#[test]
fn footers_survive_every_damage_of_one_byte_every_cut_and_every_mix_of_sectors() {
    let found = figures("footer", 1, &[]);
    assert!(found.succeeded(), "{found}");
}

// spec: COMMIT-5, RECOVER-2, RECOVER-4
// case: B04, B06, B44
#[test]
fn bugs_planted_in_the_commit_path_are_caught_and_the_engine_as_it_is_raises_no_alarm() {
    for bug in ["commit-without-flush", "unsealed-tail-not-rewritten", "cover-not-checked"] {
        let found = figures("planted", 1, &[("bug", bug)]);
        assert_eq!((found.passed, found.failed), (1, 0), "{bug}: {found}");
        let said: serde_json::Value = serde_json::from_str(&found.to_json()).unwrap();
        let row = &said["rows"][0];
        assert_eq!((row["bug"].as_str(), row["verdict"].as_str()), (Some(bug), Some("caught")));
        let timed = row["checks"].as_str().is_some_and(|checks| checks.ends_with(" s"));
        assert!(timed, "which check caught it, and the seconds it took: {row}");
    }
}

// spec: REDUCE-15
#[test]
fn reductions_of_an_index_are_those_of_all_rows_at_once() {
    let found = figures("reduce", 1, &[("rows", "2"), ("sets", "400")]);
    assert!(found.succeeded(), "{found}");
}

// spec: MODEL-16, MODEL-17
#[test]
fn views_follow_their_database_through_every_history() {
    let found = figures("views", 1, &[("portions", "20")]);
    assert!(found.succeeded(), "{found}");
}

// spec: REDUCE-15, MODEL-14, MODEL-16, MODEL-17
#[test]
fn bugs_planted_in_views_turn_their_campaigns_red() {
    for (bug, check) in [
        ("reduction-misses-last-row", "reduce"),
        ("group-leaves-range", "reduce"),
        ("view-old-rows-stay", "view-histories"),
        ("view-purges-skipped", "view-histories"),
        ("view-standing-ignored", "view-histories"),
        ("view-begins-anew-each-time", "view-histories"),
    ] {
        let found = figures("planted", 1, &[("bug", bug), ("checks", check)]);
        assert_eq!(found.passed, 1, "{bug} goes unnoticed by {check}: {found}");
    }
}

/// The reported faults of which each has a bug that brings it back.
const CASES: [&str; 22] = [
    "B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B09", "B10", "B11", "B12", "B14",
    "B16", "B34", "B35", "B36", "B37", "B38", "B39", "B40", "B44",
];

#[test]
fn each_reported_fault_and_each_kind_of_fault_has_a_planted_bug() {
    let violated: BTreeSet<&str> =
        PLANTED.iter().flat_map(|bug| bug.violates.split_whitespace()).collect();
    let open: Vec<&str> = CASES.into_iter().filter(|case| !violated.contains(case)).collect();
    assert!(open.is_empty(), "no planted bug brings back {open:?}");
    for kind in FaultKind::ALL {
        let (id, check) = (format!("KIND-{}", kind.number()), format!("kind-{}", kind.number()));
        let under_it = |bug: &&Planted| bug.violates.split_whitespace().any(|it| it == id);
        let bugs: Vec<&Planted> = PLANTED.iter().filter(under_it).collect();
        assert!(!bugs.is_empty(), "no planted bug shows under {kind}, {id}");
        for bug in bugs {
            let noticed = bug.checks().any(|name| name == check);
            assert!(noticed, "{} says {id}, so the check {check} must notice it", bug.name);
        }
    }
}

#[test]
fn each_planted_bug_has_a_check_or_a_test_that_plants_it() {
    for bug in PLANTED {
        assert!(bug.checks().count() > 0 || !bug.shown_by.is_empty(), "{}", bug.name);
        assert!(!bug.violates.is_empty(), "{} violates nothing", bug.name);
    }
    let in_campaign = PLANTED.iter().filter(|bug| bug.checks().count() > 0).count();
    assert!(in_campaign >= 60, "the campaign tries {in_campaign} bugs");
}
