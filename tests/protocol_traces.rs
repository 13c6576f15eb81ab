//! Trace validation: the disk calls that the engine makes are those that the models in `spec/`
//! allow, call by call, and those of an engine with a planted bug in its protocol are not.

use std::fs;
use std::path::{Path, PathBuf};

use rereduce::file::sibling;
use rereduce::mark;
use rereduce_crash_sim::{
    Call, Choice, DATABASE, DatabaseTarget, Entry, FaultModel, Image, KvTarget, Plan, Rerun, Scene,
    SimDisk, StoreOpener, Target, Workload, environment, record,
};
use rereduce_spec::acceptor::{self, Acceptor};
use rereduce_spec::commit::Protocol;

const PROTOCOLS: [(&str, Protocol); 3] =
    [("guide", Protocol::Guide), ("barrier", Protocol::Barrier), ("verified", Protocol::Verified)];

/// What the acceptor is told of `call`; reading, locking and the like mean nothing to it.
fn told(call: &Call, failed: bool) -> Option<acceptor::Call<'_>> {
    let database = Path::new(DATABASE);
    Some(match call {
        Call::Open { path, write: true } if **path == *database => acceptor::Call::Open,
        Call::Create { inode, .. } => acceptor::Call::Create { file: *inode },
        Call::Append { inode, offset, bytes, .. } => {
            acceptor::Call::Append { file: *inode, offset: *offset, bytes }
        }
        Call::Rewrite { inode, offset, length, .. } => {
            acceptor::Call::Rewrite { file: *inode, offset: *offset, length: *length }
        }
        Call::Sync { inode, .. } => acceptor::Call::Sync { file: *inode, failed },
        Call::Rename { .. } => acceptor::Call::Rename,
        Call::Remove { .. } => acceptor::Call::Remove,
        Call::SyncDir { .. } => acceptor::Call::SyncDir,
        Call::Open { .. }
        | Call::Lock { .. }
        | Call::Identify { .. }
        | Call::List { .. }
        | Call::Read { .. } => return None,
    })
}

/// Holds a trace against the models, and returns the acceptor at its end.
fn accept(protocol: Protocol, trace: &[Entry]) -> Result<Acceptor, String> {
    let mut acceptor = Acceptor::new(protocol);
    for (line, entry) in trace.iter().enumerate() {
        let call = match entry {
            Entry::Call(call, failure) => told(call, failure.is_some()),
            Entry::Acknowledged(_) => Some(acceptor::Call::Acknowledge),
            Entry::Began(_) => None,
        };
        let Some(call) = call else { continue };
        acceptor.accept(&call).map_err(|why| format!("line {line}, {entry}: {why}"))?;
    }
    Ok(acceptor)
}

/// The calls of the database alone: not those on the files of an index beside it, nor those that
/// its steps make on the directory in which both lie.
fn of_the_database(workload: &Workload, trace: Vec<Entry>) -> Vec<Entry> {
    let views = sibling(Path::new(DATABASE), "views");
    let mut step = "";
    let mut kept = Vec::new();
    for entry in trace {
        let in_index = match &entry {
            Entry::Began(number) => {
                step = workload.lines.get(number - 1).map_or("", String::as_str);
                false
            }
            Entry::Call(Call::SyncDir { directory }, _) => {
                directory.starts_with(&views) || matches!(step, "query" | "compactviews")
            }
            Entry::Call(call, _) => path_of(call).is_some_and(|path| path.starts_with(&views)),
            Entry::Acknowledged(_) => false,
        };
        if !in_index {
            kept.push(entry);
        }
    }
    kept
}

/// The file that a call changes.
fn path_of(call: &Call) -> Option<&Path> {
    match call {
        Call::Create { path, .. }
        | Call::Append { path, .. }
        | Call::Rewrite { path, .. }
        | Call::Sync { path, .. }
        | Call::Remove { path } => Some(path),
        Call::Rename { to, .. } => Some(to),
        _ => None,
    }
}

/// Runs a workload under `protocol`, whatever it asks for itself, on a disk that fails as `plan`
/// says.
fn run<T: Target>(target: &T, workload: &Workload, protocol: &str, plan: &str) -> Vec<Entry> {
    let mut workload = workload.clone();
    workload.settings.retain(|(key, _)| key != "protocol");
    workload.settings.push(("protocol".into(), protocol.into()));
    let (target, operations) = workload.prepare(target).unwrap();
    let plan: Plan = plan.parse().unwrap();
    record(&target, &operations, 1, &plan).unwrap().trace
}

fn run_store(text: &str, protocol: &str, plan: &str) -> Vec<Entry> {
    let workload = Workload::parse("given", text).unwrap();
    run(&KvTarget(StoreOpener::default()), &workload, protocol, plan)
}

/// The same when the engine is broken: nobody looks at what it shows.
fn run_broken_store(bug: &'static str, text: &str, protocol: &str, plan: &str) -> Vec<Entry> {
    let mut workload = Workload::parse("given", text).unwrap();
    workload.settings.push(("protocol".to_owned(), protocol.to_owned()));
    let (target, ops) = workload.prepare(&KvTarget(StoreOpener::default())).unwrap();
    let before = mark::plant(Some(bug));
    let run = Rerun::of(&target, &ops, 1, &plan.parse().unwrap());
    mark::plant(before);
    run.unwrap().trace
}

fn protocol_named(word: &str) -> Protocol {
    PROTOCOLS.iter().find(|(name, _)| *name == word).unwrap().1
}

/// The workloads of crash-sim in this folder.
fn workloads(folder: &str) -> Vec<Workload> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Workload::parse(&name, &fs::read_to_string(&path).unwrap()).unwrap()
    };
    entries.map(read).collect()
}

// spec: SPECMODEL-3, COMMIT-1, COMMIT-2, COMMIT-3, COMMIT-6, RECOVER-4, FILE-4, FILE-5, COMPACT-2
#[test]
fn every_disk_call_of_every_workload_is_one_that_the_models_allow() {
    let (mut traces, mut calls, mut events, mut commits) = (0, 0, 0, 0);
    for (word, protocol) in PROTOCOLS {
        let store = workloads("store");
        let store =
            store.iter().map(|it| (it, run(&KvTarget(StoreOpener::default()), it, word, "")));
        let database = workloads("db");
        let database =
            database.iter().map(|it| (it, run(&DatabaseTarget::default(), it, word, "")));
        for (workload, trace) in store.chain(database) {
            let accepted = accept(protocol, &of_the_database(workload, trace));
            let accepted = accepted.unwrap_or_else(|why| panic!("{} {word}: {why}", workload.name));
            traces += 1;
            calls += accepted.calls;
            events += accepted.events;
            commits += accepted.acknowledged();
        }
    }
    println!(
        "acceptor: {traces} traces, {calls} calls, {events} events, {commits} commits; 0 failed"
    );
    assert!(traces >= 3 * 38 && calls > 3_000, "{traces} traces, {calls} calls");
}

// spec: SPECMODEL-3, COMMIT-4
#[test]
fn a_large_commit_is_one_that_the_models_allow() {
    for (word, protocol) in PROTOCOLS {
        let trace = run_store(LARGE, word, "");
        accept(protocol, &trace).unwrap_or_else(|why| panic!("{word}: {why}"));
    }
}

// spec: SPECMODEL-3, COMMIT-5, RECOVER-4
#[test]
fn what_follows_a_failed_flush_is_what_the_models_allow() {
    for (word, protocol) in PROTOCOLS {
        for failing in 1..=9 {
            let trace = run_store(KILLS, word, &format!("sync {failing} EIO"));
            accept(protocol, &trace)
                .unwrap_or_else(|why| panic!("{word}, flush {failing} fails: {why}"));
        }
    }
}

const LARGE: &str = "commit a=1\ncommit b=x*1100000\ncommit c=2";
const KILLS: &str = "commit a=1\ncommit b=2\ncrash\ncommit c=3\ncrash\ncommit d=4";
const COMPACTION: &str = "commit a=1\ncommit b=2\ncompact\ncommit c=3";

/// Bugs in the protocol, and runs that show them.
const BUGS: [(&str, &str, &str, &str); 15] = [
    ("commit-without-flush", "verified", KILLS, ""),
    ("flush-moved-before-the-append", "verified", KILLS, ""),
    ("footer-before-its-flush", "barrier", KILLS, ""),
    ("barrier-flush-left-out", "barrier", KILLS, ""),
    ("rename-before-flush", "verified", COMPACTION, ""),
    ("swap-without-directory-sync", "verified", COMPACTION, ""),
    ("create-without-directory-sync", "verified", KILLS, ""),
    ("found-name-trusted", "verified", KILLS, ""),
    ("rewrite-behind-the-twin", "verified", KILLS, ""),
    ("unsealed-tail-not-rewritten", "verified", KILLS, ""),
    ("cover-starts-late", "verified", KILLS, ""),
    ("footer-names-itself-flushed", "verified", KILLS, ""),
    ("second-copy-left-out", "verified", KILLS, ""),
    ("large-commit-flushed-once", "verified", LARGE, ""),
    ("failed-write-not-poisoned", "verified", KILLS, "sync 2 EIO"),
];

// spec: SPECMODEL-3, COMMIT-1, COMMIT-2, COMMIT-3, COMMIT-4, COMMIT-5, RECOVER-4, FILE-4, COMPACT-2
// case: B11, B44
#[test]
fn the_calls_of_an_engine_with_a_bug_in_its_protocol_are_not_accepted() {
    for (bug, word, text, plan) in BUGS {
        let protocol = protocol_named(word);
        let sound = accept(protocol, &run_store(text, word, plan));
        assert!(sound.is_ok(), "{bug}: without it the run is accepted");
        let trace = run_broken_store(bug, text, word, plan);
        let Err(why) = accept(protocol, &trace) else { panic!("{bug} is accepted") };
        println!("{bug}: {why}");
    }
    println!("acceptor: {} planted bugs; {} rejected, 0 accepted", BUGS.len(), BUGS.len());
}

/// What an engine shows that opens `disk`, or why it does not open.
fn shown(disk: &SimDisk) -> Result<String, String> {
    let target = KvTarget(StoreOpener::default());
    let opened = target.open(&environment(disk, 9), Path::new(DATABASE));
    let state = opened.and_then(|handle| target.state(&handle));
    state.map(|state| format!("{state:?}")).map_err(|error| error.to_string())
}

/// What a power cut leaves of the disk if nothing that was not flushed survives.
fn after_power_cut(disk: &SimDisk, start: &Image) -> SimDisk {
    let scenes = Scene::all(&disk.trace(), start, FaultModel::TORN);
    let scene = scenes.last().unwrap();
    let nothing = Choice::parse("keep=none", scene.unit_count()).unwrap();
    SimDisk::open_image(&scene.image(&nothing).0)
}

fn commit(handle: &mut <KvTarget<StoreOpener> as Target>::Handle, text: &str) -> bool {
    let target = KvTarget(StoreOpener::default());
    target.apply(handle, &text.parse().unwrap()).is_ok()
}

/// A crash cut copy B of a footer off, the data of the next commit lies in its place, and the flush
/// of that commit fails: the model found that a commit on top of it could be lost.
// spec: RECOVER-4, COMMIT-5
// case: B44
#[test]
fn a_commit_in_the_place_of_a_lost_twin_is_written_anew_before_another_rests_on_it() {
    let found = |bug| {
        let target = KvTarget(StoreOpener::default());
        let disk = SimDisk::new();
        let mut handle = target.open(&environment(&disk, 1), Path::new(DATABASE)).unwrap();
        assert!(commit(&mut handle, "commit a=1"));
        let bytes = disk.bytes(Path::new(DATABASE)).unwrap();
        let image = Image::of_files([(DATABASE, &bytes[..bytes.len() - 2048])]);

        mark::plant(bug);
        let disk = SimDisk::recording(&image);
        let mut handle = target.open(&environment(&disk, 2), Path::new(DATABASE)).unwrap();
        // The first flush is that of the tail, the second one that of the commit.
        disk.set_plan("sync 2 EIO".parse().unwrap());
        assert!(!commit(&mut handle, "commit b=2 c=3 d=4 e=5"), "its flush failed");
        disk.set_plan(Plan::default());
        assert!(commit(&mut handle, "reopen"));
        assert!(commit(&mut handle, "commit z=6"), "acknowledged, and it shares a leaf with it");
        mark::plant(None);
        shown(&after_power_cut(&disk, &image))
    };
    assert_eq!(found(None).as_deref(), Ok("{a=1 b=2 c=3 d=4 e=5 z=6}"));
    let lost = found(Some("rewrite-behind-the-twin")).unwrap_err();
    assert!(lost.contains("damage"), "{lost}");
}

/// A process dies between renaming a file into place and flushing the directory; the next one
/// finds the file and commits.
// spec: FILE-5
// case: B11
#[test]
fn a_file_whose_maker_died_before_flushing_the_directory_keeps_its_commits() {
    let found = |bug| {
        let target = KvTarget(StoreOpener::default());
        let disk = SimDisk::new();
        let open = || target.open(&environment(&disk, 1), Path::new(DATABASE));
        disk.set_plan("sync_dir 1 EIO".parse().unwrap());
        assert!(open().is_err(), "the file has its name, and nobody knows for how long");
        disk.set_plan(Plan::default());
        mark::plant(bug);
        let mut handle = open().unwrap();
        assert!(commit(&mut handle, "commit a=1"), "acknowledged");
        drop(handle);
        mark::plant(None);
        shown(&after_power_cut(&disk, &Image::empty()))
    };
    assert_eq!(found(None).as_deref(), Ok("{a=1}"));
    assert_eq!(found(Some("found-name-trusted")).as_deref(), Ok("{}"));
}
