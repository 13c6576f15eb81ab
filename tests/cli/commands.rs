//! What each command does when all is well.

use std::io::{BufRead, BufReader};

use super::support::{Desk, data, signal};

#[test]
fn real_data_loads_from_every_format() {
    let desk = Desk::new();
    for (file, options, id, member) in [
        ("seattle-weather.csv", " --id date", "2015-12-31", r#""wind":3.5"#),
        ("birdstrikes-100.csv", "", "0000000001", r#""Effect Amount of damage":"None""#),
        ("earthquakes-40.json", "", "ci37868143", r#""place":"4km W of Castaic, CA""#),
        ("earthquakes-40.json", " --id properties.code", "37868143", r#""tz":-480"#),
        ("flights-200.json", "", "0000000002", r#""distance":2227"#),
    ] {
        let db = format!("{}.db", id);
        let said = desk.run(&format!("load {db} {}{options} --batch 64", data(file))).done();
        assert!(said.starts_with("loaded "), "{said}");
        let document = desk.run(&format!("get {db} {id}")).done();
        assert!(document.contains(member), "{file}: {document}");
        desk.run(&format!("check {db}")).done();
    }
    let said = desk.run("info 2015-12-31.db --json").done();
    assert!(said.contains(r#""doc_count":1461"#) && said.contains(r#""commit":23"#), "{said}");
}

#[test]
fn ndjson_loads_from_standard_input() {
    let desk = Desk::new();
    let lines = b"{\"_id\":\"a\",\"v\":1}\n\n{\"_id\":\"b\"}\n{\"v\":3}";
    let said = desk.run_with_input("load db - --json", lines).done();
    assert_eq!(said, "{\"loaded\":3,\"refused\":0,\"commits\":1,\"whole\":true}\n");
    assert!(desk.run("get db 0000000003").done().contains("\"v\":3"));
}

#[test]
fn a_document_is_put_read_changed_and_deleted() {
    let desk = Desk::new();
    let first = desk.run(r#"put db a {"v":1}"#).done();
    let first = first.trim();
    assert!(first.starts_with("1-"), "{first}");
    let second = desk.run_with_input(&format!("put db a - --rev {first} --json"), br#"{"v":2}"#);
    assert!(second.done().starts_with(r#"{"ok":true,"id":"a","rev":"2-"#));
    let second = desk.rev("db", "a");
    assert_eq!(
        desk.run("get db a").done(),
        format!("{{\"_id\":\"a\",\"_rev\":\"{second}\",\"v\":2}}\n")
    );
    assert!(desk.run(&format!("get db a --rev {first}")).done().contains("\"v\":1"));
    assert!(desk.run("get db a --commit 1").done().contains("\"v\":1"));
    let shown = desk.run("get db a --revs --revs-info --conflicts --local-seq").done();
    for member in ["\"_revisions\":{\"start\":2", "\"_revs_info\":[", "\"_local_seq\":2"] {
        assert!(shown.contains(member), "{shown}");
    }
    assert!(desk.run(&format!("delete db a --rev {second}")).done().starts_with("3-"));
    let changes = desk.run("changes db --json").done();
    assert!(changes.contains(r#""id":"a""#) && changes.contains(r#""deleted":true"#), "{changes}");
    assert_eq!(desk.run("history db --json").done().lines().count(), 3);
    assert_eq!(desk.run("history db --limit 2").done().lines().count(), 3, "a heading and two");
}

#[test]
fn local_documents_are_written_and_read() {
    let desk = Desk::new();
    assert_eq!(desk.run(r#"put db _local/a {"v":1}"#).done(), "0-1\n");
    assert_eq!(
        desk.run("get db _local/a").done(),
        "{\"_id\":\"_local/a\",\"_rev\":\"0-1\",\"v\":1}\n"
    );
}

#[test]
fn conflicts_are_listed_and_purged() {
    let desk = Desk::new();
    let lines =
        b"{\"_id\":\"a\",\"_rev\":\"1-aa\",\"v\":1}\n{\"_id\":\"a\",\"_rev\":\"1-bb\",\"v\":2}\n";
    desk.run_with_input("load db -", lines).done();
    let leaves = desk.run("get db a --leaves").done();
    assert_eq!(leaves.lines().count(), 2);
    assert!(
        leaves.starts_with("{\"_id\":\"a\",\"_rev\":\"1-bb\""),
        "the winner is first: {leaves}"
    );
    assert!(desk.run("get db a --conflicts").done().contains("\"_conflicts\":[\"1-aa\"]"));
    assert!(desk.run("changes db").done().contains("conflicts 1"));
    let purged = desk.run("purge db a --rev 1-bb --json").done();
    assert_eq!(purged, "{\"purge_seq\":1,\"purged\":[\"1-bb\"]}\n");
    assert!(desk.run("get db a").done().contains("\"v\":1"));
    desk.run("purge db a --rev 1-bb").fails(1, "no leaf");
}

#[test]
fn attachments_go_in_and_out() {
    let desk = Desk::new();
    let content: Vec<u8> = (0..300_000u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(desk.path("in"), &content).unwrap();
    let rev = desk.run("attach db a photo in --type image/png").done();
    let rev = desk.run(&format!("attach db a note in --type text/plain --rev {}", rev.trim()));
    let rev = rev.done();
    for name in ["photo", "note"] {
        let read = desk.command(["get", "db", "a", "--attachment", name]).output().unwrap();
        assert!(read.stdout == content, "{name}");
    }
    desk.run("check db").done();
    desk.run(&format!("detach db a note --rev {}", rev.trim())).done();
    desk.run("get db a --attachment note").fails(1, "missing");
    assert!(desk.run("get db a --attachments").done().contains("\"data\":\""));
}

/// Documents with conflicts, deletions and attachments.
pub(crate) fn fill(desk: &Desk, db: &str) {
    desk.run(&format!("load {db} {} --id date --batch 500", data("seattle-weather.csv"))).done();
    let rev = desk.rev(db, "2012-01-01");
    desk.run(&format!("delete {db} 2012-01-01 --rev {rev}")).done();
    let rev = desk.rev(db, "2012-01-02");
    let note = data("flights-200.json");
    let attach = format!("attach {db} 2012-01-02 note {note} --type text/plain --rev {rev}");
    desk.run(&attach).done();
    let other = br#"{"_id":"2012-01-03","_revisions":{"start":2,"ids":["bb","aa"]},"v":1}"#;
    desk.run_with_input(&format!("load {db} -"), other).done();
}

/// Every leaf with its ancestors, body and attachments, in the order of ids and revisions.
fn leaves(desk: &Desk, db: &str) -> Vec<String> {
    let snapshot = desk.open(db).unwrap().snapshot().unwrap();
    let mut ids = Vec::new();
    let all = rereduce::vocabulary::KeyRange::all();
    let ascending = rereduce::vocabulary::Direction::Ascending;
    let collect = &mut |summary: rereduce::db::DocSummary| {
        ids.push(summary.id);
        std::ops::ControlFlow::Continue(())
    };
    snapshot.all_docs(&all, ascending, collect).unwrap();
    let mut found = Vec::new();
    for id in ids {
        for leaf in snapshot.open_revs(&id, None, false).unwrap() {
            found.push(format!("{:?}", leaf.unwrap()));
        }
    }
    found
}

/// Whether what `dump --all` prints loads back into an equal database.
pub(crate) fn dump_loads_back(desk: &Desk) -> bool {
    fill(desk, "db");
    let dump = desk.run("dump db --all").done();
    assert_eq!(dump.lines().count(), 1462, "every leaf");
    desk.run_with_input("load copy - --batch 100", dump.as_bytes());
    leaves(desk, "copy") == leaves(desk, "db") && desk.run("dump copy --all").out == dump
}

// spec: CLI-5
#[test]
fn a_dump_loads_back_into_an_equal_database() {
    let desk = Desk::new();
    assert!(dump_loads_back(&desk));
    let again = desk.run("dump db --all").done();
    desk.run_with_input("load db -", again.as_bytes()).done();
    assert_eq!(desk.run("dump db --all").done(), again, "known revisions change nothing");
    let winners = desk.run("dump db").done();
    assert_eq!(winners.lines().count(), 1460);
    desk.run_with_input("load winners -", winners.as_bytes()).done();
    assert_eq!(desk.run("dump winners").done().lines().count(), 1460);
}

/// Whether a backup is the database at its newest commit.
pub(crate) fn backup_is_the_newest_commit(desk: &Desk) -> bool {
    fill(desk, "db");
    // The newest commit has a writer, is not sealed, and has half a commit behind it.
    let options = rereduce::db::DatabaseOptions::default();
    let env = rereduce::env::Env::real();
    let writer = rereduce::db::Database::open(env, &desk.path("db"), options).unwrap();
    let edit = rereduce::db::DocEdit::parse("new", b"{}").unwrap();
    writer.edit(vec![edit]).unwrap().remove(0).unwrap();
    let mut upload = writer.upload("waits", "image/png");
    upload.write(&[7; 3 << 20]).unwrap();
    let ran = desk.run("backup db copy");
    ran.code == Some(0)
        && desk.run("dump copy --all").out == desk.run("dump db --all").out
        && desk.run("history copy").out == desk.run("history db").out
        && desk.run("check copy").code == Some(0)
}

// spec: CLI-6
#[test]
fn a_backup_is_the_newest_commit_while_others_write() {
    let desk = Desk::new();
    assert!(backup_is_the_newest_commit(&desk));
    assert!(!desk.files().iter().any(|name| name.contains("part")), "{:?}", desk.files());
    desk.run("backup db copy").fails(3, "there already");
    desk.run(r#"put copy new2 {"a":1}"#).done();
}

// spec: CLI-6
#[test]
fn a_backup_of_a_closed_or_an_empty_database_is_one_too() {
    let desk = Desk::new();
    desk.run(r#"put db a {"v":1}"#).done();
    desk.run("backup db copy").done();
    assert_eq!(std::fs::read(desk.path("db")).unwrap(), std::fs::read(desk.path("copy")).unwrap());
    desk.run_with_input("load empty -", b"").done();
    desk.run("backup empty none").done();
    assert_eq!(desk.run("dump none").done(), "");
}

#[test]
fn compaction_shrinks_and_keeps_everything() {
    let desk = Desk::new();
    fill(&desk, "db");
    let before = desk.run("dump db --all").done();
    let said = desk.run("compact db --json").done();
    assert!(said.starts_with("{\"bytes_before\":"), "{said}");
    assert_eq!(desk.run("dump db --all").done(), before);
    assert_eq!(desk.run("history db --json").done().lines().count(), 1);
    desk.run("get db 2012-01-05 --commit 1").fails(1, "compacted away");
}

#[test]
fn changes_begin_anywhere_and_end_at_the_limit() {
    let desk = Desk::new();
    fill(&desk, "db");
    assert_eq!(desk.run("changes db").done().lines().count(), 1461);
    let some = desk.run("changes db --since 1461 --limit 2").done();
    assert_eq!(some.lines().count(), 2);
    assert!(some.contains("2012-01-01") && some.contains("deleted"), "{some}");
    let newest = desk.run("changes db --descending --limit 1 --json").done();
    assert!(newest.contains("\"seq\":1464"), "{newest}");
}

#[test]
fn followed_changes_come_as_others_make_them() {
    let desk = Desk::new();
    desk.run(r#"put db a {"v":1}"#).done();
    let mut follower = desk.start("changes db --follow --json");
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().contains("\"id\":\"a\""));
    for id in ["b", "c"] {
        desk.run(&format!(r#"put db {id} {{"v":1}}"#)).done();
        assert!(next().contains(&format!("\"id\":\"{id}\"")));
    }
    desk.run("compact db").done();
    desk.run(r#"put db d {"v":1}"#).done();
    assert!(next().contains("\"id\":\"d\""), "also behind a compaction");
    signal(&follower, "-INT");
    assert_eq!(follower.wait().unwrap().code(), Some(130));
    let limited = desk.run("changes db --follow --limit 2").done();
    assert_eq!(limited.lines().count(), 2);
}

#[test]
fn inspect_draws_footers_chunks_and_the_tree() {
    let desk = Desk::new();
    for id in ["a", "b"] {
        desk.run(&format!(r#"put db {id} {{"v":1}}"#)).done();
    }
    let shown = desk.run("inspect db").done();
    assert_eq!(shown.matches("verified").count(), 4, "two commits, two seals: {shown}");
    assert!(shown.contains("leaf @") && shown.contains("[a b]"), "{shown}");
    assert!(shown.contains("node of by_id, depth 0") && shown.contains("body"), "{shown}");
    let chunks = desk.run("inspect db --chunks").done();
    let bodies = chunks.lines().filter(|line| line.ends_with("  a") || line.ends_with("  b"));
    assert_eq!(bodies.count(), 2, "{chunks}");
    let json = desk.run("inspect db --json").done();
    assert_eq!(json.matches("\"seal\":true").count(), 2, "{json}");
    assert!(desk.run("inspect db --commit 1").done().contains("[a]"));
}

#[test]
fn the_version_says_whether_bugs_can_be_planted() {
    let desk = Desk::new();
    let said = desk.run("--version --json").done();
    let planted = cfg!(feature = "planted");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(said, format!("{{\"version\":\"{version}\",\"planted\":{planted}}}\n"));
    assert!(desk.run("-V").done().starts_with(&format!("rereduce {version}")));
}
