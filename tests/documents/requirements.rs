//! What `spec/database.md` promises, each in a small history.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use rereduce::db::{ChangesOptions, Database, DatabaseOptions, DbRule, DocEdit};
use rereduce::doc::RevStatus::{Available, Missing};
use rereduce::env::{Env, MemoryDisk};
use rereduce::mark;
use rereduce::vocabulary::{KeyRange, Rev};
use rereduce::{Error, Result};
use rereduce_crash_sim::Verb;

use crate::disks::Hooked;
use crate::support::{TestDb, body, on, options, replicate, rev, revision, turns_red};

// spec: DB-1, REVTREE-10
#[test]
fn an_edit_names_a_leaf_or_conflicts() {
    let db = TestDb::new();
    let first = db.put("d", "{}").unwrap();
    assert!(matches!(db.put("d", "{}"), Err(Error::Conflict { .. })), "it is there");
    let second = db.put("d", &format!(r#"{{"_rev":"{first}"}}"#)).unwrap();
    let stale = db.put("d", &format!(r#"{{"_rev":"{first}","v":2}}"#));
    assert!(matches!(stale, Err(Error::Conflict { .. })), "it is no leaf any more");
    let gone = db.delete("d", &second).unwrap();
    let again = db.put("d", "{}").unwrap();
    assert_eq!((gone.generation, again.generation), (3, 4), "the history goes on");
    assert_eq!(db.seqs(), [("d".to_string(), 4)]);
}

// spec: DB-2
#[test]
fn a_replicated_revision_never_conflicts_and_a_known_one_changes_nothing() {
    known_revisions();
}

fn known_revisions() {
    let db = TestDb::new();
    db.put("d", "{}").unwrap();
    for path in ["1-a", "2-b a", "3-x c b"] {
        db.merge_one("d", &revision(path)).unwrap();
    }
    let (seq, counts) = (db.snap().info().update_seq, db.counts());
    for path in ["3-x c b", "1-a", "2-b a", "2-b"] {
        db.merge_one("d", &revision(path)).unwrap();
    }
    assert_eq!((db.snap().info().update_seq, db.counts()), (seq, counts));
    assert!(matches!(db.merge_one("d", "{}"), Err(Error::BadInput { .. })), "it has no revision");
}

// spec: DB-3
#[test]
fn sequences_follow_the_order_of_ids_and_later_edits_see_earlier_ones() {
    sequences_follow_ids();
}

pub(crate) fn sequences_follow_ids() {
    let db = TestDb::new();
    let first = TestDb::new().put("b", "{}").unwrap();
    let edit = |id: &str, json: &str| DocEdit::parse(id, json.as_bytes()).unwrap();
    let replies = db.edit(vec![
        edit("c", "{}"),
        edit("b", "{}"),
        edit("b", &format!(r#"{{"_rev":"{first}","v":2}}"#)),
        edit("b", "{}"),
        edit("a", "{}"),
    ]);
    let worked: Vec<bool> = replies.unwrap().iter().map(Result::is_ok).collect();
    assert_eq!(worked, [true, true, true, false, true]);
    let seqs = [("a", 1), ("b", 2), ("c", 3)].map(|(id, seq)| (id.to_string(), seq));
    assert_eq!(db.seqs(), seqs, "two edits of one call take one sequence");
    assert_eq!(db.snap().number(), 1, "one call is one commit");
}

// spec: DB-4
#[test]
fn nobody_fails_for_a_document_of_somebody_else() {
    mark::reset();
    damaged_document_in_a_group();
}

/// Four writers at a time, one of whom meets damage, until some of them shared a commit.
fn damaged_document_in_a_group() {
    let db = TestDb::new();
    let json = r#"{"v":"a body to be damaged","_attachments":{"t":{"data":"AAEC"}}}"#;
    let base = db.put("bad", json).unwrap();
    db.close().unwrap();
    let disk = MemoryDisk::new();
    disk.place("db".as_ref(), damaged(&db.disk, b"a body to be damaged"));
    // A flush takes until all four have come, so that those who come meanwhile share a commit.
    let come = Arc::new(AtomicUsize::new(0));
    let seen = come.clone();
    let slow = Hooked::new(disk, move |verb, _| {
        while verb == Verb::Sync && !seen.load(Ordering::SeqCst).is_multiple_of(4) {
            std::thread::yield_now();
        }
        (0..100).for_each(|_| std::thread::yield_now());
        Ok(())
    });
    let env = Env { disk: Arc::new(slow), ..Env::memory() };
    let db = Database::open(env, "db".as_ref(), options()).unwrap();
    let planted = mark::planted_here();
    let bad = format!(r#"{{"_rev":"{base}","_attachments":{{"t":{{"stub":true}}}}}}"#);
    for round in 0..10_000 {
        let barrier = Barrier::new(4);
        let write = |writer: usize| {
            let edit = match writer {
                0 => DocEdit::parse("bad", bad.as_bytes()),
                _ => DocEdit::parse(&format!("d{round}-{writer}"), b"{}"),
            };
            barrier.wait();
            come.fetch_add(1, Ordering::SeqCst);
            let before = mark::plant(planted);
            let replied = db.edit(vec![edit.unwrap()]);
            mark::plant(before);
            (writer, replied, mark::hits().contains_key("group-taken-apart"))
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4).map(|writer| scope.spawn(move || write(writer))).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        for (writer, replied, _) in &outcomes {
            match (writer, replied) {
                (0, Err(Error::Corrupt(_))) => {}
                (1.., Ok(_)) => {}
                wrong => panic!("{wrong:?}"),
            }
        }
        if outcomes.iter().any(|(_, _, apart)| *apart) {
            return;
        }
    }
    panic!("no two writers ever shared a commit");
}

/// The bytes of the database with one bit changed in the last place that holds `marker`.
fn damaged(disk: &MemoryDisk, marker: &[u8]) -> Vec<u8> {
    let mut bytes = disk.bytes("db".as_ref()).unwrap();
    let at = bytes.windows(marker.len()).rposition(|window| window == marker);
    bytes[at.expect("the marker is in the file")] ^= 1;
    bytes
}

// spec: DB-5, DB-6
#[test]
fn counts_at_the_root_are_those_of_the_documents() {
    counts_follow();
}

fn counts_follow() {
    let db = TestDb::new();
    let mut revs: Vec<Rev> =
        (0..20).map(|n| db.put(&format!("d{n:02}"), r#"{"v":"12345"}"#).unwrap()).collect();
    for n in (0..20).step_by(3) {
        revs[n] = db.delete(&format!("d{n:02}"), &revs[n]).unwrap();
    }
    let info = db.snap().info();
    assert_eq!((info.doc_count, info.doc_del_count), (13, 7));
    assert_eq!(info.external_bytes, 13 * 13 + 7 * 2, "bytes of the leaves' JSON");
    let some = db.snap().count_docs(&KeyRange::of("d05".as_bytes().."d10".as_bytes())).unwrap();
    assert_eq!((some.live, some.deleted), (3, 2));
    // A conflict is no document of its own, and its bytes count.
    db.merge_one("d01", &revision("1-zz")).unwrap();
    let more = db.snap().info();
    assert_eq!((more.doc_count, more.doc_del_count), (13, 7));
    assert!(more.external_bytes > info.external_bytes);
    db.purge(vec![("d00".into(), vec![revs[0].clone()])]).unwrap();
    assert_eq!(db.snap().info().doc_del_count, 6);
}

// spec: DB-7, COMPACT-7
#[test]
fn inner_bodies_are_there_until_a_compaction_and_leaves_stay() {
    inner_bodies();
}

fn inner_bodies() {
    let db = TestDb::new();
    let first = db.put("d", r#"{"v":1}"#).unwrap();
    let second = db.put("d", &format!(r#"{{"_rev":"{first}","v":2}}"#)).unwrap();
    db.merge_one("d", &revision("2-a")).unwrap();
    let gone = db.put("gone", "{}").unwrap();
    let gone = db.delete("gone", &gone).unwrap();
    db.put("_local/l", r#"{"v":3}"#).unwrap();
    assert_eq!(body(db.snap().document("d", Some(&first)).unwrap()), r#"{"v":1}"#);
    assert_eq!(db.statuses("d", &second), [Available, Available]);
    let (before, leaves) = (db.snap(), db.leaves("d"));
    db.compact_now();
    let inner = db.snap().document("d", Some(&first));
    assert!(matches!(inner, Err(Error::Missing { what: "revision", .. })), "{inner:?}");
    assert_eq!(db.statuses("d", &second), [Available, Missing]);
    assert_eq!(db.leaves("d"), leaves, "conflicts stay");
    assert_eq!(body(db.snap().document("d", Some(&second)).unwrap()), r#"{"v":2}"#);
    assert!(db.snap().document("gone", Some(&gone)).unwrap().deleted, "tombstones stay");
    assert_eq!(db.snap().local("_local/l").unwrap().unwrap().number, 1, "local documents stay");
    assert!(before.document("d", Some(&first)).is_ok(), "an old snapshot still has it");
}

// spec: DB-8, REVTREE-8
#[test]
fn a_purge_removes_leaves_and_is_remembered() {
    purge_removes_leaves();
}

fn purge_removes_leaves() {
    let db = TestDb::new();
    for path in ["2-b a", "3-d c a"] {
        db.merge_one("d", &revision(path)).unwrap();
    }
    db.put("e", "{}").unwrap();
    let ask = |id: &str, revs: &[&str]| {
        let revs = revs.iter().map(|text| rev(text)).collect();
        db.purge(vec![(id.to_string(), revs)]).unwrap().removed.remove(0)
    };
    assert!(ask("d", &["2-c", "1-a", "9-z"]).is_empty(), "these are no leaves");
    assert_eq!(db.seqs(), [("d".to_string(), 2), ("e".to_string(), 3)], "nothing moved");
    assert_eq!(db.snap().info().update_seq, 4, "and yet the sequence went on");
    assert_eq!(ask("d", &["3-d"]), [rev("3-d")]);
    assert_eq!(db.paths("d"), [["2-b", "1-a"]], "the shared ancestor stays");
    assert_eq!(db.seqs(), [("e".to_string(), 3), ("d".to_string(), 5)]);
    assert_eq!(ask("d", &["2-b"]), [rev("2-b")]);
    assert!(matches!(db.snap().document("d", None), Err(Error::Missing { .. })));
    assert_eq!(db.seqs(), [("e".to_string(), 3)]);
    let remembered: Vec<u64> =
        db.snap().purges(0).unwrap().iter().map(|(seq, _, _)| *seq).collect();
    assert_eq!(remembered, [1, 2, 3]);
    assert_eq!(db.put("d", "{}").unwrap().generation, 1, "as if it had never been");
}

// spec: DB-9
#[test]
fn a_local_document_knows_no_conflict_and_no_feed() {
    local_documents();
}

fn local_documents() {
    let mut db = TestDb::new();
    let put = |db: &TestDb, json: &str| db.put("_local/l", json).unwrap().to_string();
    assert_eq!(put(&db, "{}"), "0-1");
    assert_eq!(put(&db, r#"{"_rev":"0-7"}"#), "0-8", "any revision will do");
    assert_eq!(put(&db, r#"{"v":1}"#), "0-1", "and none");
    assert!(matches!(db.put("_local/l", r#"{"_rev":"1-a"}"#), Err(Error::BadInput { .. })));
    let with_attachment = r#"{"_rev":"0-1","v":2,"_attachments":{"a":{"data":"AAEC"}}}"#;
    assert_eq!(put(&db, with_attachment), "0-2", "attachments are left out");
    db.reopen();
    let local = db.snap().local("_local/l").unwrap().unwrap();
    assert_eq!((local.number, local.body[0].1.to_string().as_str()), (2, "2"));
    assert_eq!(put(&db, r#"{"_deleted":true}"#), "0-0");
    assert_eq!(db.snap().local("_local/l").unwrap(), None);
    let counts = db.counts();
    assert_eq!(put(&db, r#"{"_deleted":true}"#), "0-0", "it is gone already");
    assert_eq!(db.counts(), counts);
    let info = db.snap().info();
    assert_eq!((info.update_seq, info.doc_count, info.doc_del_count), (0, 0, 0));
    assert!(db.feed().is_empty() && db.ids().is_empty());
    let long = format!("_local/{}", "l".repeat(9000));
    let edit = |id: &str| DocEdit::parse(id, b"{}").unwrap();
    let replies = db.edit(vec![edit(&long), edit("d")]).unwrap();
    assert!(matches!(replies[0], Err(Error::TooLarge { .. })) && replies[1].is_ok());
    db.purge(vec![("d".into(), vec![replies[1].clone().unwrap()])]).unwrap();
}

// spec: DB-10
#[test]
fn a_reader_that_waits_is_woken_by_a_commit_after_its_look() {
    commit_between_look_and_wait();
}

/// A commit is made in the middle of the reader's look, which therefore does not see it.
fn commit_between_look_and_wait() {
    type Late = Option<Box<dyn FnOnce() + Send>>;
    let in_a_read: Arc<Mutex<Late>> = Arc::default();
    let waiting = in_a_read.clone();
    let disk = Hooked::new(MemoryDisk::new(), move |verb, _| {
        // Taken out first: what it does may read.
        let late = waiting.lock().unwrap().take_if(|_| verb == Verb::Read);
        late.into_iter().for_each(|late| late());
        Ok(())
    });
    let env = Env { disk: Arc::new(disk), ..Env::memory() };
    let options = DatabaseOptions { cache_bytes: 0, ..DatabaseOptions::default() };
    let db = Arc::new(Database::open(env, "db".as_ref(), options).unwrap());
    let edit = |id: &str| vec![DocEdit::parse(id, b"{}").unwrap()];
    db.edit(edit("a")).unwrap();
    let (writer, late) = (db.clone(), edit("b"));
    *in_a_read.lock().unwrap() = Some(Box::new(move || drop(writer.edit(late).unwrap())));
    let begun = Instant::now();
    let wait = Some(Duration::from_secs(3));
    let found = db.changes(1, &ChangesOptions { wait, ..ChangesOptions::default() }).unwrap();
    assert_eq!(found.changes.len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(2), "it was woken, and did not wait to the end");
}

// spec: DB-10
#[test]
fn a_waiting_reader_ends_with_the_change_or_with_the_handle() {
    let db = TestDb::new();
    let options =
        ChangesOptions { wait: Some(Duration::from_secs(600)), ..ChangesOptions::default() };
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| db.changes(0, &options).unwrap());
        db.put("a", "{}").unwrap();
        reader.join().unwrap()
    });
    assert_eq!((seen.changes.len(), seen.last_seq, seen.pending), (1, 1, 0));
    let nothing = std::thread::scope(|scope| {
        let reader = scope.spawn(|| db.changes(1, &options).unwrap());
        db.close().unwrap();
        reader.join().unwrap()
    });
    assert_eq!((nothing.changes.len(), nothing.last_seq), (0, 1));
}

// spec: DB-10
#[test]
fn a_feed_says_where_to_go_on_and_how_much_is_left() {
    let db = TestDb::new();
    for id in ["a", "b", "c", "d"] {
        db.put(id, "{}").unwrap();
    }
    let page = |since, limit, direction| {
        let options = ChangesOptions { limit, direction, wait: None };
        let page = db.changes(since, &options).unwrap();
        let seqs: Vec<u64> = page.changes.iter().map(|change| change.seq).collect();
        (seqs, page.last_seq, page.pending)
    };
    use rereduce::vocabulary::Direction::{Ascending, Descending};
    assert_eq!(page(0, 3, Ascending), (vec![1, 2, 3], 3, 1));
    assert_eq!(page(3, 3, Ascending), (vec![4], 4, 0));
    assert_eq!(page(4, 3, Ascending), (vec![], 4, 0));
    assert_eq!(page(1, 0, Ascending), (vec![], 1, 3));
    assert_eq!(page(0, 2, Descending), (vec![4, 3], 3, 2));
    assert_eq!(page(9, 2, Ascending), (vec![], 9, 0), "beyond the newest there is nothing");
}

// spec: DB-11
#[test]
fn a_check_reports_damage_wherever_it_is() {
    damage_is_reported();
}

fn damage_is_reported() {
    let db = TestDb::new();
    let first = db.put("d", r#"{"v":"an inner body"}"#).unwrap();
    let json = r#"{"v":"a leaf body","_attachments":{"t":{"data":"YW4gYXR0YWNobWVudA=="}}}"#;
    db.put("d", &json.replacen('{', &format!(r#"{{"_rev":"{first}","#), 1)).unwrap();
    db.put("_local/l", r#"{"v":"a local body"}"#).unwrap();
    db.purge(vec![("a purged id".into(), vec![rev("1-a")])]).unwrap();
    db.close().unwrap();
    for marker in ["an inner body", "a leaf body", "an attachment", "a local body", "a purged id"] {
        let disk = MemoryDisk::new();
        disk.place("db".as_ref(), damaged(&db.disk, marker.as_bytes()));
        let hurt = Database::open(on(&disk), "db".as_ref(), options()).unwrap();
        let checked = hurt.snapshot().unwrap().check().unwrap();
        let [violation] = checked.violations.as_slice() else { panic!("{marker}: {checked:?}") };
        let damaged = matches!(violation.rule, DbRule::Damaged(_) | DbRule::Tree(_));
        assert!(damaged, "{marker}: {violation}");
    }
}

// spec: DB-12
#[test]
fn a_setting_takes_a_sequence() {
    settings_take_sequences();
}

fn settings_take_sequences() {
    let mut db = TestDb::new();
    db.put("a", "{}").unwrap();
    db.set_revs_limit(1000).unwrap();
    db.set_purge_infos_limit(5).unwrap();
    db.put("b", "{}").unwrap();
    assert_eq!(db.seqs(), [("a".to_string(), 1), ("b".to_string(), 4)]);
    assert!(db.set_revs_limit(0).is_err() && db.set_purge_infos_limit(0).is_err());
    db.reopen();
    let info = db.snap().info();
    assert_eq!((info.update_seq, info.revs_limit, info.purge_infos_limit), (4, 1000, 5));
}

/// Content that does not compress, of which each half is another.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn attach(db: &TestDb, id: &str, base: Option<&Rev>, names: &[&str], content: &[u8]) -> Rev {
    let rev = base.map(|base| format!(r#""_rev":"{base}","#)).unwrap_or_default();
    let promise = |name: &&str| format!(r#""{name}":{{"follows":true}}"#);
    let promises = names.iter().map(promise).collect::<Vec<_>>().join(",");
    let json = format!(r#"{{{rev}"_attachments":{{{promises}}}}}"#);
    let mut edit = DocEdit::parse(id, json.as_bytes()).unwrap();
    for name in names {
        let mut upload = db.upload(name, "image/png");
        content.chunks(100).for_each(|piece| upload.write(piece).unwrap());
        edit.uploads.push(upload.finish().unwrap());
    }
    db.edit(vec![edit]).unwrap().remove(0).unwrap()
}

// spec: ATTACH-1
#[test]
fn equal_content_is_stored_once_for_a_document() {
    content_is_shared();
}

fn content_is_shared() {
    let db = TestDb::new();
    let content = noise(10_000);
    let size = |db: &TestDb| {
        db.compact_now();
        db.snap().info().file_bytes
    };
    let mut newest = attach(&db, "d", None, &["a"], &content);
    let one = size(&db);
    newest = attach(&db, "d", Some(&newest), &["a", "b"], &content);
    let other = TestDb::new();
    db.merge_one("d", &revision("1-zz")).unwrap();
    replicate(&db, &other);
    let two = size(&db);
    assert!(two < one + 5_000, "two names in one revision, {one} and {two} bytes");
    assert!(size(&other) < one + 5_000, "and where they were replicated to");
    assert_eq!(db.content("d", Some(&newest), "b").unwrap(), content);
    attach(&db, "e", None, &["a"], &content);
    assert!(size(&db) > two + 10_000, "another document has its own");
}

// spec: ATTACH-2
#[test]
fn a_stub_stands_for_the_attachment_of_its_base_or_is_refused() {
    stubs_stand_for_the_base();
}

fn stubs_stand_for_the_base() {
    let db = TestDb::new();
    let first = attach(&db, "d", None, &["a"], b"first");
    let edit = |base: &Rev, members: &str| {
        db.put("d", &format!(r#"{{"_rev":"{base}","_attachments":{{{members}}}}}"#))
    };
    let second = edit(&first, r#""a":{"stub":true},"b":{"data":"AAEC"}"#).unwrap();
    assert_eq!(db.content("d", None, "a").unwrap(), b"first");
    let third = edit(&second, r#""b":{"stub":true,"revpos":2}"#).unwrap();
    assert!(db.content("d", None, "a").is_err(), "what is not listed is gone");
    for members in [r#""a":{"stub":true}"#, r#""b":{"stub":true,"revpos":3}"#] {
        let refused = edit(&third, members);
        let missing = matches!(refused, Err(Error::Missing { what: "attachment stub", .. }));
        assert!(missing, "{members}: {refused:?}");
    }
    assert_eq!(db.leaves("d"), [third.to_string()]);
}

// spec: ATTACH-3
#[test]
fn a_range_of_an_attachment_is_its_bytes_there() {
    ranges_are_bytes();
}

fn ranges_are_bytes() {
    let db = TestDb::new();
    let content = noise(300);
    attach(&db, "plain", None, &["a"], &content);
    // The same through a compressed form.
    let text = r#"{"_attachments":{"a":{"follows":true,"content_type":"text/plain"}}}"#;
    let mut edit = DocEdit::parse("text", text.as_bytes()).unwrap();
    let mut upload = db.upload("a", "text/plain");
    upload.write(&content).unwrap();
    edit.uploads.push(upload.finish().unwrap());
    db.edit(vec![edit]).unwrap().remove(0).unwrap();
    for id in ["plain", "text"] {
        let mut attachment = db.snap().attachment(id, None, "a").unwrap();
        for start in [0, 1, 63, 64, 65, 128, 299, 300, 301] {
            for end in [0, 1, 64, 65, 200, 299, 300, 301, u64::MAX] {
                let wanted = content.get(start..(end.min(300) as usize)).unwrap_or_default();
                let got = attachment.read_range(start as u64..end).unwrap();
                assert_eq!(got, wanted, "{id} {start}..{end}");
            }
        }
        assert_eq!(attachment.read_all().unwrap(), content);
    }
}

#[test]
fn planted_bugs_turn_the_requirements_red() {
    let shown: [(&str, fn()); 14] = [
        ("known-revision-is-a-change", known_revisions),
        ("sequences-in-reverse", sequences_follow_ids),
        ("group-fails-together", damaged_document_in_a_group),
        ("tombstones-count-as-live", counts_follow),
        ("inner-bodies-kept", inner_bodies),
        ("old-sequence-stays", purge_removes_leaves),
        ("purge-keeps-its-sequence", purge_removes_leaves),
        ("local-revision-stays", local_documents),
        ("version-after-the-look", commit_between_look_and_wait),
        ("check-skips-attachments", damage_is_reported),
        ("setting-without-sequence", settings_take_sequences),
        ("attachments-not-shared", content_is_shared),
        ("stub-of-any-revision", stubs_stand_for_the_base),
        ("range-takes-its-end", ranges_are_bytes),
    ];
    for (bug, shown) in shown {
        assert!(turns_red(bug, shown), "{bug} went unnoticed");
    }
}
