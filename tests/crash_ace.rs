//! Small scopes, second runs and real deaths: the campaigns `ace`, `twice` and `kill` in small, and
//! that each of them can turn red; and the workload scripts that all campaigns share.

mod crash_toy;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crash_toy::{Mistake, Toy, ToyHandle, ToyOp};
use rereduce::Result;
use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::env::Env;
use rereduce_crash_sim::{
    CAMPAIGNS, Context, DatabaseTarget, DbStep, Explorer, FaultModel, Figures, KvTarget, Plan,
    SentLog, SmallScope, StoreOpener, Subject, Target, Workload, record, run_twice,
    same_on_any_threads,
};

/// Runs a campaign quickly and silently.
fn figures(name: &str, arguments: &[(&str, &str)]) -> Figures {
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let context = Context {
        quick: true,
        loud: false,
        arguments: arguments.iter().map(own).collect(),
        ..Context::new(scripts_of("").to_path_buf())
    };
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == name).unwrap();
    (campaign.run)(&context).unwrap()
}

fn scripts_of(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads").join(target)
}

fn workloads(target: &str) -> Vec<Workload> {
    let parsed = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        Workload::parse(name, &std::fs::read_to_string(&path).unwrap()).unwrap()
    };
    let entries = std::fs::read_dir(scripts_of(target)).unwrap();
    let mut all: Vec<Workload> = entries.map(|entry| parsed(entry.unwrap().path())).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// What the canonical workloads must show, and the scripts that show it.
const FEATURES: [(&str, &[&str]); 26] = [
    ("commits of every size", &["store/one_commit", "store/large_values", "store/deep_tree"]),
    ("commits without effect", &["store/nothing_changes", "db/nothing_changes"]),
    ("ending cleanly", &["store/clean_closes", "db/clean_closes"]),
    ("being killed", &["store/kills", "db/kills", "store/compact_and_kill"]),
    ("history reads", &["store/history", "db/history_reads", "store/history_across_compaction"]),
    ("snapshots held across a compaction", &["store/snapshots", "db/snapshot_across_compaction"]),
    ("compaction", &["store/compaction", "db/compaction", "db/compaction_twice"]),
    ("writes during a compaction", &["db/writes_during_compaction"]),
    ("writers during a compaction", &["db/writers_during_compaction"]),
    ("purges during a compaction", &["db/purge_during_compaction"]),
    ("compactions cut off", &["db/cancelled_compaction"]),
    ("a reader across the swap of files", &["db/reader_across_the_swap"]),
    ("eight writers in a group commit", &["db/eight_writers", "db/group_after_group"]),
    ("attachments", &["db/attachments", "db/long_attachment", "db/shared_attachments"]),
    ("attachments through a compaction", &["db/attachments_and_compaction"]),
    ("conflicts and their resolution", &["db/conflicts", "db/resolving_conflicts"]),
    ("being the target of a replication", &["db/replication_target"]),
    ("limits of revisions", &["db/stemming", "db/revision_limit_moves"]),
    ("purges", &["db/purges", "db/purge_and_compact"]),
    ("local documents", &["db/local_documents"]),
    ("refused edits", &["db/rejected"]),
    ("tombstones", &["db/tombstones"]),
    ("small nodes and caches", &["db/one_node_cached", "db/wide_nodes", "store/cached"]),
    ("views that follow their database", &["db/views", "db/views_and_conflicts"]),
    ("views under compactions", &["db/views_compacted", "db/views_and_compaction"]),
    ("the sizes that users run with", &["db/production", "store/production"]),
];

/// Titles, lengths, and that a target understands its scripts; the operations of all of them.
fn read_all<T: Target>(target: &T, folder: &str) -> Vec<T::Op> {
    let (mut ops, mut titles) = (Vec::new(), BTreeSet::new());
    for workload in workloads(folder) {
        let name = &workload.name;
        assert!(workload.title.ends_with('.'), "{folder}/{name}: the title is a sentence");
        assert!(titles.insert(workload.title.clone()), "{folder}/{name}: another has this title");
        let (_, parsed) = workload.prepare(target).unwrap();
        assert!((1..=40).contains(&parsed.len()), "{folder}/{name}: {} operations", parsed.len());
        let printed: Vec<String> = parsed.iter().map(T::Op::to_string).collect();
        assert_eq!(
            printed, workload.lines,
            "{folder}/{name}: operations print as they are written"
        );
        ops.extend(parsed);
    }
    ops
}

// spec: CRASH-20
#[test]
fn the_canonical_workloads_show_every_feature_and_use_every_operation() {
    let of_store = read_all(&KvTarget(StoreOpener::default()), "store");
    let of_db = read_all(&DatabaseTarget::default(), "db");
    assert!(workloads("store").len() + workloads("db").len() >= 40);

    let used: BTreeSet<&str> = of_db.iter().map(DbStep::kind).collect();
    assert_eq!(used, DbStep::KINDS.into_iter().collect::<BTreeSet<_>>());
    let used: BTreeSet<&str> = of_store.iter().map(|op| op.kind()).collect();
    // Everything is read after each operation, so a script holds no reads.
    let writes = ["commit", "snapshot", "history", "release", "compact", "reopen", "crash"];
    assert_eq!(used, BTreeSet::from(writes));

    for (feature, scripts) in FEATURES {
        for script in scripts {
            assert!(scripts_of(&format!("{script}.txt")).exists(), "{feature}: no {script}");
        }
    }
    let widest = of_db.iter().map(|step| match step {
        DbStep::Writers(writers) => writers.len(),
        _ => 1,
    });
    assert_eq!(widest.max(), Some(8), "eight writers meet");
}

// spec: CRASH-23
#[test]
fn a_script_that_asks_its_views_notices_what_is_wrong_with_them() {
    let target = DatabaseTarget::default();
    let goes_well = |bug: Option<&'static str>, name: &str| {
        let scripts = workloads("db");
        let script = scripts.iter().find(|workload| workload.name == name).unwrap();
        let (target, ops) = script.prepare(&target).unwrap();
        let before = rereduce::mark::plant(bug);
        let recorded = record(&target, &ops, 1, &Plan::default());
        rereduce::mark::plant(before);
        recorded.is_ok()
    };
    for (bug, name) in [
        ("view-old-rows-stay", "views"),
        ("view-any-finished-state-will-do", "views_and_conflicts"),
        ("view-purge-floor-ignored", "views_and_purges"),
    ] {
        assert!(goes_well(None, name), "{name}");
        assert!(!goes_well(Some(bug), name), "{bug} went unnoticed by {name}");
    }
}

// spec: DB-4
#[test]
fn writers_that_meet_share_one_commit_and_each_gets_its_own_answers() {
    let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default()).unwrap();
    let edit = |id: &str, v: u32| DocEdit::parse(id, format!("{{\"v\":{v}}}").as_bytes()).unwrap();
    let writers = vec![vec![edit("b", 1)], vec![edit("a", 2), edit("b", 3)], vec![edit("c", 4)]];
    let answers = db.edit_together(writers);
    let accepted = |answer: &Result<Vec<Result<_>>>| -> Vec<bool> {
        answer.as_ref().unwrap().iter().map(Result::is_ok).collect()
    };
    let accepted: Vec<_> = answers.iter().map(accepted).collect();
    assert_eq!(accepted, [vec![true], vec![true, false], vec![true]], "the second b conflicts");
    assert_eq!(db.counts().commits, 1);
    let info = db.snapshot().unwrap().info();
    assert_eq!((info.doc_count, info.update_seq), (3, 3), "a sequence for each change");
    assert!(db.edit_together(Vec::new()).is_empty());
}

// spec: CRASH-21
#[test]
fn a_mistake_that_needs_two_operations_is_found_in_the_sequences_of_two() {
    let letters = ["add 1x20", "copy", "reopen"];
    let explored = |mistake: Mistake| {
        let scope = SmallScope::parse(Toy(mistake), &letters).unwrap();
        let sequences = scope.sequences(1..=2);
        assert_eq!(sequences.len(), 3 + 9);
        let explorer = Explorer { sets_max: 20, ..Explorer::new(FaultModel::POWER) };
        scope.explore(&explorer, &sequences, &|_, _| ())
    };
    let found = explored(Mistake::RenameBeforeSync);
    // One value is added, and the copy that replaces the log gets its name before its bytes.
    assert_eq!(found.failed.keys().collect::<Vec<_>>(), [&vec![0, 1]], "{:?}", found.failed);
    let found = explored(Mistake::NoSync);
    assert!(found.failed.contains_key(&vec![0]), "one addition is enough: {:?}", found.failed);
    let found = explored(Mistake::None);
    assert_eq!((found.failed.len(), found.workloads), (0, 12));
    assert!(found.shared > 0 && found.distinct < found.images, "{found:?}");
}

// spec: CRASH-21
#[test]
fn crash_points_of_a_beginning_are_explored_once_and_none_is_left_out() {
    let scope = SmallScope::parse(Toy(Mistake::None), &["add 1x20", "copy"]).unwrap();
    let explorer = Explorer { sets_max: 8, ..Explorer::new(FaultModel::POWER) };
    let found = scope.explore(&explorer, &scope.sequences(1..=3), &|_, _| ());
    let (mut points, mut distinct) = (0, 0);
    let one_by_one = explorer.clone();
    for sequence in scope.sequences(1..=3) {
        let (tally, _) = one_by_one.explore(&Toy(Mistake::None), &scope.ops(&sequence));
        points += tally.points;
        distinct += tally.distinct;
    }
    assert_eq!(found.points + found.shared, points);
    assert_eq!(found.distinct, distinct, "the same images, however they are shared out");
}

// spec: CRASH-21
#[test]
fn the_database_survives_every_short_sequence_of_its_operations() {
    let found = figures("ace", &[("sets", "3")]);
    assert!(found.succeeded(), "{found}");
    assert_eq!(found.passed, 1_000);
}

/// The log of numbers, flushing once more at every n-th operation that any of its clones does.
#[derive(Clone)]
struct Fickle {
    toy: Toy,
    operations: Arc<AtomicU64>,
    every: u64,
}

impl Fickle {
    fn new(every: u64) -> Fickle {
        Fickle { toy: Toy(Mistake::None), operations: Arc::default(), every }
    }
}

impl Target for Fickle {
    type Op = ToyOp;
    type State = Vec<String>;
    type Handle = ToyHandle;

    fn name(&self) -> &'static str {
        "fickle"
    }

    fn open(&self, env: &Env, path: &Path) -> Result<ToyHandle> {
        self.toy.open(env, path)
    }

    fn apply(&self, handle: &mut ToyHandle, op: &ToyOp) -> Result<()> {
        self.toy.apply(handle, op)?;
        match self.operations.fetch_add(1, Ordering::Relaxed) % self.every {
            0 => self.toy.apply(handle, &ToyOp::Reopen),
            _ => Ok(()),
        }
    }

    fn state(&self, handle: &ToyHandle) -> Result<Vec<String>> {
        self.toy.state(handle)
    }

    fn check(&self, handle: &ToyHandle) -> std::result::Result<(), String> {
        self.toy.check(handle)
    }

    fn empty(&self) -> Vec<String> {
        self.toy.empty()
    }

    fn expect(&self, state: &Vec<String>, op: &ToyOp) -> Vec<String> {
        self.toy.expect(state, op)
    }

    fn generate(&self, count: usize, seed: u64) -> Vec<ToyOp> {
        self.toy.generate(count, seed)
    }
}

// spec: CRASH-2
#[test]
fn an_engine_that_is_not_the_same_twice_is_found_by_its_first_other_call() {
    let workload = Toy(Mistake::None).workload(5, 1);
    run_twice(&Toy(Mistake::None), &workload, 1, &Plan::default()).unwrap();
    same_on_any_threads(&Toy(Mistake::None), &workload, 1).unwrap();
    // At every operation it is the same each time; at every third of five it is not.
    run_twice(&Fickle::new(1), &workload, 1, &Plan::default()).unwrap();
    let found = run_twice(&Fickle::new(3), &workload, 1, &Plan::default()).unwrap_err();
    assert!(found.starts_with("call "), "{found}");
    let found = same_on_any_threads(&Fickle::new(7), &workload, 1).unwrap_err();
    assert!(found.contains("on one thread"), "{found}");
}

// spec: CRASH-2
#[test]
fn every_seed_gives_the_same_calls_bytes_and_answers_twice() {
    let found = figures("twice", &[("seeds", "10")]);
    assert!(found.succeeded(), "{found}");
    let count = |what: &str| found.counts.iter().find(|(name, _)| name == what).unwrap().1;
    assert!(count("seeds with failing calls") > 0, "{found}");
}

/// A log of three acknowledged batches and one in flight, and a dump that holds exactly that.
fn log_and_dump() -> (SentLog, Vec<String>) {
    let mut log = SentLog::new(5);
    let lines: Vec<String> = (0..4).flat_map(|_| log.next_batch(2)).collect();
    log.acknowledge(3);
    let dumped = |line: &String| {
        let rev = match line.split_once("\"start\":") {
            Some((_, rest)) => {
                let (start, rest) = rest.split_once(',').unwrap();
                format!("{start}-{}", rest.split('"').nth(3).unwrap())
            }
            None => "1-a".to_owned(),
        };
        line.trim_end().replacen('{', &format!("{{\"_rev\":\"{rev}\","), 1)
    };
    (log, lines.iter().map(dumped).collect())
}

// spec: CRASH-22
#[test]
fn the_log_of_a_killed_load_misses_every_acknowledged_document_that_is_gone() {
    let (log, dump) = log_and_dump();
    assert_eq!(log.judge(&dump.join("\n")), Ok(1), "the batch in flight may be there");
    assert_eq!(log.judge(&dump[..6].join("\n")), Ok(0), "or not");
    for gone in 0..6 {
        let mut fewer = dump[..6].to_vec();
        fewer.remove(gone);
        let found = log.judge(&fewer.join("\n")).unwrap_err();
        assert!(found.contains("missing"), "{found}");
    }
    log.judge(&dump[..7].join("\n")).expect_err("half of the batch in flight");
    let other = dump[0].replacen("\"text\":\"1", "\"text\":\"2", 1);
    log.judge(&[&[other], &dump[1..6]].concat().join("\n")).expect_err("another text");
    let more = r#"{"_rev":"1-a","_id":"x","text":"1"}"#.to_owned();
    log.judge(&[&dump[..6], &[more]].concat().join("\n")).expect_err("never sent");
    log.judge(&[&dump[..6], &dump[..1]].concat().join("\n")).expect_err("there twice");
}

// spec: CRASH-22, CLI-8
#[cfg(feature = "cli")]
#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    let program = env!("CARGO_BIN_EXE_rereduce");
    let found = figures("kill", &[("program", program), ("kills", "6")]);
    assert!(found.succeeded(), "{found}");
}

// spec: CRASH-22, CLI-8
#[cfg(feature = "cli")]
#[test]
fn a_program_that_acknowledges_too_early_is_found_by_killing_it() {
    let program = env!("CARGO_BIN_EXE_rereduce");
    let bug = "cli-acknowledges-early";
    let found = figures("kill", &[("program", program), ("kills", "6"), ("plant", bug)]);
    assert!(found.failed > 0, "{found}");
}

// spec: CLI-8
#[cfg(feature = "cli")]
#[test]
fn a_load_counts_what_is_durable_and_goes_on_when_nobody_reads_its_acknowledgements() {
    let directory = tempfile::tempdir().unwrap();
    let shell = |script: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_rereduce")]);
        String::from_utf8(command.current_dir(&directory).output().unwrap().stdout).unwrap()
    };
    let lines = r#"printf '{"_id":"a"}\n{"_id":"b"}\n{"_id":"a"}\n' >lines; "#;
    let printed = shell(&format!("{lines} \"$0\" load db lines --batch 2 --acknowledge"));
    let begin = "2 durable, 0 refused\n2 durable, 1 refused\nloaded 2 documents in 1 commit";
    assert!(printed.starts_with(begin), "{printed}");
    let many = "seq 500 | sed 's/.*/{\"n\":&}/' >many; ";
    shell(&format!("{many} \"$0\" load other many --batch 1 --acknowledge --json | true"));
    let info = shell("\"$0\" info other --json");
    assert!(info.contains("\"doc_count\":500"), "{info}");
}
