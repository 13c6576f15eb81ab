//! The litmus table: under each kind of fault one program that falls, and one that stands.
//!
//! Invariant: the table of `spec/assumptions.md` lists every outcome that may be left of a program
//! and so forbids all others; what it lists is reached.

use std::collections::BTreeSet;

use rereduce_crash_sim::{
    Entry, FaultKind, FaultModel, Image, KindSet, Plan, Scene, SimDisk, choices,
};

use crate::crash_program::{calls, perform, show};
use crate::page::table;

/// One row of the table.
struct Row {
    kind: FaultKind,
    program: String,
    plan: String,
    /// What must be there: one of these, whole; each a list of `a=1`, and of `-b` for no such file.
    promise: Vec<Vec<String>>,
    /// All that may be left.
    left: BTreeSet<String>,
    stands: bool,
}

impl Row {
    fn parse(cells: &[String]) -> Row {
        let [kind, program, plan, promise, left, verdict] = cells else {
            panic!("a row has six cells: {cells:?}")
        };
        let alternatives = promise.split(" or ");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let outcomes = left.split_inclusive('}').map(|outcome| outcome.trim().to_owned());
        let stands = match verdict.as_str() {
            "stands" => true,
            "falls" => false,
            other => panic!("what is {other}?"),
        };
        Row {
            kind: kind.parse().unwrap(),
            program: program.clone(),
            plan: plan.clone(),
            promise: alternatives.map(words).collect(),
            left: outcomes.collect(),
            stands,
        }
    }

    /// Whether an outcome keeps the promise.
    fn keeps(&self, outcome: &str) -> bool {
        let files = outcome.trim_matches(['{', '}']);
        let is_there = |word: &str| match word.strip_prefix('-') {
            None => files.split(' ').any(|file| file == word),
            Some(gone) => !files.split(' ').any(|file| file.starts_with(&format!("{gone}="))),
        };
        self.promise.iter().any(|words| words.iter().all(|word| is_there(word)))
    }
}

/// What may be left of a program.
#[derive(Default)]
struct Seen {
    /// Every outcome, whether the program had promised something or not.
    left: BTreeSet<String>,
    /// Outcomes that break the promise.
    broken: BTreeSet<String>,
    /// The kinds that images show, or that struck calls.
    kinds: KindSet,
    /// The kinds of images that break the promise, and that struck calls.
    breaking: KindSet,
}

fn explore(row: &Row) -> Seen {
    let all = calls(&row.program);
    let stages: Vec<&[&str]> = all.split(|call| *call == "crash").collect();
    let (last, before) = stages.split_last().unwrap();
    let mut starts = vec![Image::empty()];
    for stage in before {
        starts = starts.iter().flat_map(|start| crash_at_the_end(start, stage)).collect();
        starts.sort_by_key(Image::hash);
        starts.dedup_by_key(|image| image.hash());
    }
    let mut seen = Seen::default();
    for start in &starts {
        explore_from(start, last, row, &mut seen);
    }
    if !before.is_empty() {
        seen.kinds.insert(FaultKind::CrashInRecovery);
        seen.breaking.insert(FaultKind::CrashInRecovery);
    }
    seen
}

fn crash_at_the_end(start: &Image, stage: &[&str]) -> Vec<Image> {
    let disk = SimDisk::recording(start);
    for call in stage {
        perform(&disk, call).unwrap();
    }
    let scenes = Scene::all(&disk.trace(), start, FaultModel::POWER);
    let scene = scenes.last().unwrap();
    choices(scene, FaultModel::POWER, 1, usize::MAX).map(|choice| scene.image(&choice).0).collect()
}

fn explore_from(start: &Image, stage: &[&str], row: &Row, seen: &mut Seen) {
    let disk = SimDisk::recording(start);
    let from_the_start = !stage.contains(&"/");
    let plan: Plan = row.plan.parse().unwrap();
    assert_eq!(plan.to_string(), row.plan);
    if from_the_start {
        disk.set_plan(plan.clone());
    }
    let mut from = 0;
    for call in stage {
        match *call {
            "/" => {
                disk.set_plan(plan.clone());
                from = disk.trace().len();
            }
            "ack" => disk.note(Entry::Acknowledged(1)),
            _ => {
                if perform(&disk, call).is_err() && call.ends_with('!') {
                    break;
                }
            }
        }
    }
    for kind in FaultKind::CALL.into_iter().filter(|kind| disk.struck(*kind) > 0) {
        seen.kinds.insert(kind);
        seen.breaking.insert(kind);
    }
    let promises_always = !stage.contains(&"ack");
    let scenes = Scene::all(&disk.trace(), start, FaultModel::POWER);
    for scene in scenes.iter().filter(|scene| scene.entry >= from) {
        for choice in choices(scene, FaultModel::POWER, 1, usize::MAX) {
            let (image, kinds) = scene.image(&choice);
            let outcome = show(&image);
            let promised = promises_always || scene.acknowledged > 0;
            let breaks = promised && !row.keeps(&outcome);
            for kind in FaultKind::CRASH.into_iter().filter(|kind| kinds.contains(*kind)) {
                seen.kinds.insert(kind);
                if breaks {
                    seen.breaking.insert(kind);
                }
            }
            if breaks {
                seen.broken.insert(outcome.clone());
            }
            seen.left.insert(outcome);
        }
    }
}

fn rows() -> Vec<Row> {
    table("| kind | program | plan |").iter().map(|cells| Row::parse(cells)).collect()
}

// spec: DISK-9, DISK-10, DISK-11, DISK-13
#[test]
fn every_program_leaves_what_the_litmus_table_says() {
    let mut wrong = Vec::new();
    for row in rows() {
        let seen = explore(&row);
        let Row { kind, program, plan, .. } = &row;
        let text =
            |outcomes: &BTreeSet<String>| outcomes.iter().cloned().collect::<Vec<_>>().join(" ");
        let mut complain = |what: String| wrong.push(format!("{kind} {program} ({plan}): {what}"));
        if seen.left != row.left {
            complain(format!("leaves {}", text(&seen.left)));
        }
        if seen.broken.is_empty() != row.stands {
            complain(format!("breaks its promise with [{}]", text(&seen.broken)));
        }
        // Who flushes before renaming never offers this one.
        let prevented = row.stands && *kind == FaultKind::RenameWithoutData;
        if !seen.kinds.contains(*kind) && !prevented {
            complain("no image and no call shows the kind".to_owned());
        }
        if !row.stands && !seen.breaking.contains(*kind) {
            complain("it falls, and not by this kind".to_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// spec: DISK-13
#[test]
fn under_each_kind_one_program_falls_and_one_stands() {
    let rows = rows();
    for kind in FaultKind::ALL.into_iter().filter(|kind| !FaultKind::ROT.contains(kind)) {
        for stands in [false, true] {
            let found = rows.iter().any(|row| row.kind == kind && row.stands == stands);
            assert!(found, "no program {} under {kind}", if stands { "stands" } else { "falls" });
        }
    }
}
