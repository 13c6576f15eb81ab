//! How commands end when not all is well: exit codes, one line, nothing left behind.

use std::io::{BufRead, BufReader, Read};

use rereduce::db::{Database, DatabaseOptions};
use rereduce::env::Env;

use super::commands::fill;
use super::support::{Desk, data};

/// Command lines, the code each must end with, and a word of what it must say.
const ENDINGS: [(&str, i32, &str); 36] = [
    ("get db nobody", 1, "missing"),
    ("get db 2012-01-01", 1, "--rev"),
    ("get db 2012-01-05 --rev 7-abc", 1, "missing"),
    ("get db 2012-01-05 --attachment nothing", 1, "missing"),
    ("get db _local/nobody", 1, "missing"),
    ("get db nobody --leaves", 1, "missing"),
    ("get db 2012-01-05 --commit 99", 1, "history"),
    ("put db 2012-01-05 {}", 1, "conflict"),
    ("put db 2012-01-05 {} --rev 1-abc", 1, "conflict"),
    ("delete db 2012-01-05 --rev 1-abc", 1, "conflict"),
    ("detach db 2012-01-02 nothing --rev 1-abc", 1, "missing"),
    ("purge db nobody --rev 1-abc", 1, "missing"),
    ("purge db 2012-01-05 --rev 1-abc", 1, "leaves"),
    ("frob db", 2, "--help"),
    ("get", 2, "--help"),
    ("get db", 2, "<ID>"),
    ("get db a --rev nonsense", 2, "GENERATION-ID"),
    ("delete db a", 2, "--rev"),
    ("load db weather.csv --batch 0", 2, "--batch"),
    ("load db weather.csv --format xml", 2, "possible values"),
    ("changes db --follow --descending", 2, "cannot be used"),
    ("put db a not-json", 2, "JSON"),
    ("put db a [1]", 2, "object"),
    ("put db _a {}", 2, "underscore"),
    ("put db a {\"_odd\":1}", 2, "special member"),
    ("load db broken.json", 2, "line 3"),
    ("get missing/db a", 3, "check the path"),
    ("compact missing", 3, "does not exist"),
    ("delete missing a --rev 1-abc", 3, "does not exist"),
    ("put file/db a {}", 3, "check the path"),
    ("get file/db a", 3, "check the path"),
    ("load db missing.csv", 3, "check the path"),
    ("load file/db weather.csv", 3, "check the path"),
    ("get file a", 4, "not a rereduce database"),
    ("put file a {}", 4, "not touched"),
    ("info newer", 4, "newer"),
];

/// The endings that are not as they must be.
pub(crate) fn wrong_endings(desk: &Desk) -> Vec<String> {
    fill(desk, "db");
    std::fs::copy(data("seattle-weather.csv"), desk.path("weather.csv")).unwrap();
    std::fs::write(desk.path("file"), "a letter to a friend").unwrap();
    std::fs::write(desk.path("broken.json"), "[{},\n{},\n{\"a\":}]").unwrap();
    std::fs::write(desk.path("newer"), newer_format()).unwrap();
    let wrong = ENDINGS.iter().filter_map(|(line, code, what)| {
        let ran = desk.run(line);
        (!ran.failed_with(*code, what)).then(|| format!("{line}: {ran:?}"))
    });
    wrong.collect()
}

/// A header of the next format version.
fn newer_format() -> Vec<u8> {
    let header = rereduce::file::Header {
        version: rereduce::file::FORMAT_VERSION + 1,
        file: rereduce::file::FileId([1; 16]),
        database: rereduce::file::FileId([2; 16]),
    };
    let mut block = vec![0; 2048];
    let mut copy = b"\x96rereduc".to_vec();
    copy.extend(header.version.to_le_bytes());
    copy.extend(2048u32.to_le_bytes());
    copy.extend(header.file.0);
    copy.extend(header.database.0);
    copy.resize(56, 0);
    let mut checksum = rereduce::checksum::Cover::new(0);
    checksum.update(&copy);
    copy.extend(checksum.finish().to_le_bytes());
    block[..64].copy_from_slice(&copy);
    block[1024..1088].copy_from_slice(&copy);
    block
}

// spec: CLI-1, CLI-2
#[test]
fn every_failure_has_its_code_and_one_line() {
    let desk = Desk::new();
    let before = {
        let wrong = wrong_endings(&desk);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        desk.files()
    };
    let letter = std::fs::read_to_string(desk.path("file")).unwrap();
    assert_eq!(letter, "a letter to a friend", "a foreign file is not touched");
    let strange = |name: &&String| name.contains("missing") || name.contains("create");
    assert_eq!(before.iter().find(strange), None, "nothing is left behind: {before:?}");
}

// spec: CLI-1
#[test]
fn help_is_no_failure() {
    let desk = Desk::new();
    for line in ["--help", "help load", "load --help"] {
        assert!(desk.run(line).done().contains("Usage:"), "{line}");
    }
    let nothing = desk.command::<&str>([]).output().unwrap();
    assert!(nothing.status.success());
}

// spec: CLI-1
#[test]
fn refused_records_are_counted_and_do_not_end_a_load() {
    let desk = Desk::new();
    let lines =
        b"{\"_id\":\"a\"}\n{\"_id\":\"a\"}\n{\"_id\":\"_b\"}\n{\"_x\":1}\n7\n{\"_id\":\"c\"}\n";
    let ran = desk.run_with_input("load db - --json", lines);
    ran.fails(1, "4 refused");
    assert_eq!(ran.out, "{\"loaded\":2,\"refused\":4,\"commits\":1,\"whole\":true}\n");
    desk.run("get db c").done();
    let ran = desk.run(&format!("load other {} --id weather", data("seattle-weather.csv")));
    ran.fails(1, "1,456 refused");
}

// spec: CLI-1
#[test]
fn input_that_breaks_off_leaves_the_batches_before_it() {
    let desk = Desk::new();
    let mut lines: Vec<u8> =
        (0..250).flat_map(|n| format!("{{\"n\":{n}}}\n").into_bytes()).collect();
    lines.extend(b"{\"n\":");
    let ran = desk.run_with_input("load db - --batch 100", &lines);
    ran.fails(2, "250 documents are durable");
    assert_eq!(desk.run("changes db").done().lines().count(), 250);
}

// spec: CLI-1
#[test]
fn damage_is_found_by_check_and_refused_by_opening() {
    let desk = Desk::new();
    fill(&desk, "db");
    let whole = std::fs::read(desk.path("db")).unwrap();
    let mut bytes = whole.clone();
    // The first document's body: nothing reads it on opening.
    let at = bytes
        .windows(8)
        .position(|window| window == b"snow\",\"w")
        .or_else(|| bytes.windows(7).position(|window| window == b"drizzle"));
    bytes[at.unwrap()] ^= 1;
    std::fs::write(desk.path("db"), &bytes).unwrap();
    let ran = desk.run("check db");
    ran.fails(1, "restore a copy");
    assert!(ran.out.contains("damaged"), "{ran:?}");
    assert!(desk.run("check db --json").out.contains("\"sound\":false"));
    std::fs::write(desk.path("db"), with_a_damaged_root(desk.run_inspect(&whole), &whole)).unwrap();
    let ran = desk.run("inspect db --tree --chunks");
    ran.fails(4, "damaged");
    assert!(ran.out.contains("verified") && ran.out.contains("documents, by id"), "{ran:?}");
    let mut bytes = whole.clone();
    bytes[..64].fill(7);
    bytes[1024..1088].fill(7);
    std::fs::write(desk.path("db"), &bytes).unwrap();
    assert_eq!(desk.run("check db").code, Some(4));
    // All footers but the first two commits': what a later one witnessed is gone.
    let map = desk.run_inspect(&whole);
    let mut bytes = whole;
    let (_, last) = map.split_at(2);
    for offset in &last[..last.len() - 1] {
        bytes[*offset + 1..*offset + 4096].fill(0);
    }
    let newest = *last.last().unwrap();
    bytes[newest + 1..newest + 2048].fill(0);
    bytes[newest + 2048 + 100] ^= 1;
    std::fs::write(desk.path("db"), &bytes).unwrap();
    let ran = desk.run("info db");
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    assert!(desk.run("inspect db").done().contains("torn"));
    desk.run("get db 2012-01-05 --commit 1").done();
}

/// The file with damage in the chunk before its last commit's footer: the last root written.
fn with_a_damaged_root(footers: Vec<usize>, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let commit = footers[footers.len() - 2];
    let last = bytes[..commit].iter().rposition(|byte| *byte != 0 && *byte != 0x5a).unwrap();
    for byte in &mut bytes[last - 400..=last] {
        *byte ^= 1;
    }
    bytes
}

impl Desk {
    /// The offsets of the footers in a file of these bytes.
    fn run_inspect(&self, bytes: &[u8]) -> Vec<usize> {
        std::fs::write(self.path("image"), bytes).unwrap();
        let json = self.run("inspect image --json").done();
        let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
        let footers = parsed["footers"].as_array().unwrap();
        footers.iter().map(|footer| footer["offset"].as_u64().unwrap() as usize).collect()
    }
}

// spec: CLI-1
#[test]
fn a_second_writer_is_told_to_wait_and_a_reader_is_not() {
    let desk = Desk::new();
    desk.run(r#"put db a {"v":1}"#).done();
    let held = Database::open(Env::real(), &desk.path("db"), DatabaseOptions::default()).unwrap();
    for line in ["put db b {}", "compact db", "delete db a --rev 1-abc"] {
        desk.run(line).fails(3, "wait");
    }
    desk.run(&format!("load db {}", data("flights-200.json"))).fails(3, "wait");
    for line in ["get db a", "info db", "check db", "dump db", "history db", "backup db copy"] {
        desk.run(line).done();
    }
    drop(held);
    desk.run("put db b {}").done();
}

/// Whether commands that read leave the directory as it is, and work while a writer holds the lock.
pub(crate) fn readers_leave_no_trace(desk: &Desk) -> bool {
    fill(desk, "first");
    desk.run("backup first db").done();
    std::fs::create_dir(desk.path("alone")).unwrap();
    std::fs::rename(desk.path("db"), desk.path("alone/db")).unwrap();
    let names = || std::fs::read_dir(desk.path("alone")).unwrap().count();
    let lines = [
        "get alone/db 2012-01-05",
        "changes alone/db",
        "info alone/db",
        "history alone/db",
        "check alone/db",
        "dump alone/db",
        "inspect alone/db",
        "backup alone/db copy",
    ];
    lines.iter().all(|line| desk.run(line).code == Some(0)) && names() == 1
}

// spec: CLI-4
#[test]
fn commands_that_read_create_nothing_and_take_no_lock() {
    assert!(readers_leave_no_trace(&Desk::new()));
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let desk = Desk::new();
    fill(&desk, "db");
    for line in ["dump db", "dump db --all", "changes db --json"] {
        let mut child = desk.start(line);
        let mut first = String::new();
        let mut out = BufReader::with_capacity(64, child.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        assert!(first.starts_with('{'));
        drop(out);
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*err), (Some(0), ""), "{line}");
    }
}

// spec: CLI-1
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let desk = Desk::new();
    fill(&desk, "db");
    if std::path::Path::new("/dev/full").exists() {
        desk.shell("\"$0\" dump db > /dev/full").fails(3, "standard output");
    }
    // A limit on file sizes stands in for a full disk, on every system.
    let ran = desk.shell("trap '' XFSZ; ulimit -f 8; \"$0\" dump db > out");
    ran.fails(3, "standard output");
}
