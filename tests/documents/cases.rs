//! Known faults of systems of this kind, each as a small history that must not go wrong here.
//!
//! Invariant: what a test does is a function, so that a planted bug can be shown to turn it red.

use rereduce::Error;
use rereduce::db::DocEdit;
use rereduce::env::MemoryDisk;
use rereduce::vocabulary::Rev;

use crate::support::{TestDb, body, orders, replicate, rev, revision, turns_red};

fn edits(list: &[(&str, String)]) -> Vec<DocEdit> {
    list.iter().map(|(id, json)| DocEdit::parse(id, json.as_bytes()).unwrap()).collect()
}

// case: B08
// spec: DB-1, COMMIT-7
#[test]
fn a_group_in_which_every_edit_is_rejected_appends_and_flushes_nothing() {
    rejected_group();
}

fn rejected_group() {
    let db = TestDb::new();
    db.put("a", "{}").unwrap();
    let (counts, size) = (db.counts(), db.disk.bytes("db".as_ref()).unwrap().len());
    let stale = [("a", "{}".to_string()), ("a", r#"{"_rev":"3-q"}"#.to_string())];
    for reply in db.edit(edits(&stale)).unwrap() {
        assert!(matches!(reply, Err(Error::Conflict { .. })));
    }
    assert_eq!(db.counts(), counts, "nothing is appended, nothing flushed");
    assert_eq!(db.disk.bytes("db".as_ref()).unwrap().len(), size);
    // The queue is live, and what follows is durable: a crash now loses none of it.
    for n in 0..100 {
        db.put(&format!("later{n}"), "{}").unwrap();
    }
    let crashed = MemoryDisk::new();
    crashed.place("db".as_ref(), db.disk.bytes("db".as_ref()).unwrap());
    assert_eq!(TestDb::open(crashed).snap().info().doc_count, 101);
}

// case: B14
// spec: DB-8, COMPACT-7
#[test]
fn purges_beyond_the_limit_are_forgotten_and_the_rest_is_listed() {
    purges_beyond_the_limit();
}

fn purges_beyond_the_limit() {
    let mut db = TestDb::new();
    db.set_purge_infos_limit(3).unwrap();
    for n in 0..10 {
        let id = format!("d{n}");
        let rev = db.put(&id, "{}").unwrap();
        db.purge(vec![(id, vec![rev])]).unwrap();
    }
    assert_eq!(db.snap().purges(0).unwrap().len(), 10, "until a compaction all are there");
    db.compact_now();
    for _ in 0..2 {
        // From the beginning, and from where a reader stopped that is older than all that is left.
        for since in [0, 2] {
            let purges = db.snap().purges(since).unwrap();
            let seqs: Vec<(u64, &str)> =
                purges.iter().map(|(seq, id, _)| (*seq, id.as_str())).collect();
            assert_eq!(seqs, [(8, "d7"), (9, "d8"), (10, "d9")]);
        }
        assert_eq!(db.snap().info().purge_seq, 10);
        db.reopen();
    }
}

// case: B22
// spec: DB-3, DB-9
#[test]
fn one_key_twice_in_a_batch_has_one_entry() {
    let db = TestDb::new();
    let twice = [("_local/k", r#"{"v":1}"#), ("_local/k", r#"{"v":2}"#), ("k", r#"{"v":1}"#)];
    let twice = twice.map(|(id, json)| (id, json.to_string()));
    db.edit(edits(&twice)).unwrap();
    let mut locals = Vec::new();
    let visit = &mut |local: rereduce::db::LocalDocument| {
        locals.push(local);
        std::ops::ControlFlow::Continue(())
    };
    db.snap().locals(visit).unwrap();
    assert_eq!(locals.len(), 1, "a fold sees it once");
    assert_eq!(db.snap().local("_local/k").unwrap().as_ref(), locals.first(), "so does a lookup");
    assert_eq!(locals[0].body[0].1.to_string(), "2", "the last one wins");
    // Removed twice and written in one batch.
    let rev = db.snap().document("k", None).unwrap().rev().unwrap();
    let gone = format!(r#"{{"_rev":"{rev}","_deleted":true}}"#);
    let replies = db.edit(edits(&[("k", gone.clone()), ("k", gone), ("k", "{}".to_string())]));
    let replies = replies.unwrap();
    assert!(replies[0].is_ok() && replies[1].is_err() && replies[2].is_ok());
    assert_eq!(db.seqs(), [("k".to_string(), 2)], "one entry by sequence");
    assert_eq!(db.snap().info().doc_count, 1);
}

// case: B35
// spec: DB-5
#[test]
fn a_rejected_edit_keeps_the_documents_entry_by_sequence() {
    rejected_edit_keeps_entry();
}

fn rejected_edit_keeps_entry() {
    let db = TestDb::new();
    for id in ["a", "b", "d"] {
        db.put(id, "{}").unwrap();
    }
    let batch = [("d", r#"{"_rev":"1-stale"}"#.to_string()), ("e", "{}".to_string())];
    let replies = db.edit(edits(&batch)).unwrap();
    assert!(matches!(replies[0], Err(Error::Conflict { .. })) && replies[1].is_ok());
    let seqs = [("a", 1), ("b", 2), ("d", 3), ("e", 4)].map(|(id, seq)| (id.to_string(), seq));
    assert_eq!(db.seqs(), seqs);
    db.sound();
}

/// What happens to two databases that share a document.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    There,
    Back,
    EditBack,
    LimitThere(u32),
    LimitBack(u32),
}

// case: B36
// spec: REVTREE-4, DB-2, DB-5
#[test]
fn stemmed_histories_replicate_both_ways_in_every_order() {
    stemmed_histories_meet(&[Step::There, Step::Back, Step::EditBack, Step::There]);
    for limit in [1, 2, 5] {
        for change in [Step::LimitThere(limit), Step::LimitBack(limit)] {
            stemmed_histories_meet(&[Step::There, Step::Back, Step::EditBack, change]);
        }
    }
}

fn stemmed_histories_meet(steps: &[Step]) {
    for order in orders(steps) {
        let (here, there) = (TestDb::new(), TestDb::new());
        here.set_revs_limit(3).unwrap();
        there.set_revs_limit(3).unwrap();
        let mut newest = here.put("d", r#"{"v":0}"#).unwrap();
        for v in 1..10 {
            if v == 4 {
                replicate(&here, &there);
            }
            newest = here.put("d", &format!(r#"{{"_rev":"{newest}","v":{v}}}"#)).unwrap();
        }
        for step in &order {
            match step {
                Step::There => replicate(&here, &there),
                Step::Back => replicate(&there, &here),
                Step::EditBack => {
                    let base = there.snap().document("d", None).unwrap().rev().unwrap();
                    there.put("d", &format!(r#"{{"_rev":"{base}","v":"there"}}"#)).unwrap();
                }
                Step::LimitThere(limit) => here.set_revs_limit(*limit).unwrap(),
                Step::LimitBack(limit) => there.set_revs_limit(*limit).unwrap(),
            }
            for db in [&here, &there] {
                db.sound();
                assert_eq!(db.seqs().len(), 1, "{order:?}: one entry by sequence");
                assert_eq!(db.ids(), ["d"], "{order:?}: one entry by id");
            }
        }
        replicate(&here, &there);
        replicate(&there, &here);
        assert_eq!(here.leaves("d"), there.leaves("d"), "{order:?}: leaves, and the winner first");
        let (seq, limit) = (there.snap().info().update_seq, there.snap().info().revs_limit);
        replicate(&here, &there);
        assert_eq!(there.snap().info().update_seq, seq, "{order:?}: merging again is no change");
        let longest = there.paths("d").iter().map(Vec::len).max();
        assert!(longest <= Some(limit.max(3) as usize), "{order:?}: {:?}", there.paths("d"));
    }
}

// case: B37
// spec: REVTREE-1, REVTREE-5, DB-2
#[test]
fn every_branch_counts_for_merging_and_for_the_winner() {
    every_branch_counts();
}

fn every_branch_counts() {
    for order in orders(&["1-a", "1-b", "2-c a", "2-d b", "3-e d b"]) {
        let db = TestDb::new();
        for path in &order {
            db.merge_one("d", &revision(path)).unwrap();
        }
        assert_eq!(db.leaves("d"), ["3-e", "2-c"], "{order:?}");
        let winner = db.snap().document("d", None).unwrap();
        assert_eq!(body(winner), r#"{"v":"3-e"}"#, "{order:?}");
    }
    // A deleted leaf loses to a live one of a lower generation; a tie goes to the greater id.
    for order in orders(&["1-a", "2-b a", "2-c a", "4-x1 y a2 a"]) {
        let db = TestDb::new();
        for path in &order {
            db.merge_one("d", &revision(path)).unwrap();
        }
        assert_eq!(db.leaves("d"), ["2-c", "2-b", "4-x1-"], "{order:?}");
    }
}

// case: B38
// spec: REVTREE-7
#[test]
fn latest_of_an_ancestor_with_several_leaves_is_the_winner_among_them() {
    latest_of_an_ancestor();
}

fn latest_of_an_ancestor() {
    let db = TestDb::new();
    for path in ["1-a", "2-b a", "2-c a", "3-e q z"] {
        db.merge_one("d", &revision(path)).unwrap();
    }
    let ancestor = rev("1-a");
    let opened = |latest: &[Rev]| -> Vec<String> {
        let opened = db.snap().open_revs("d", Some(latest), true).unwrap();
        opened.into_iter().map(|found| found.unwrap().rev().unwrap().to_string()).collect()
    };
    assert_eq!(db.snap().latest("d", &ancestor).unwrap().rev(), Some(rev("2-c")));
    assert_eq!(opened(std::slice::from_ref(&ancestor)), ["2-b", "2-c"]);
    assert_eq!(opened(&[ancestor.clone(), rev("2-b"), ancestor.clone()]), ["2-b", "2-c"]);
    let gone = db.delete("d", &rev("2-c")).unwrap();
    assert_eq!(db.snap().latest("d", &ancestor).unwrap().rev(), Some(rev("2-b")));
    assert_eq!(opened(std::slice::from_ref(&ancestor)), ["2-b".to_string(), gone.to_string()]);
}

// case: B39
// spec: REVTREE-2, DB-2
#[test]
fn one_hash_at_two_depths_is_two_revisions() {
    one_hash_at_two_depths();
}

fn one_hash_at_two_depths() {
    let (db, onward) = (TestDb::new(), TestDb::new());
    db.merge_one("d", &revision("5-x t s r p")).unwrap();
    db.merge_one("d", &revision("6-x y s r2 r1 q")).unwrap();
    replicate(&db, &onward);
    for db in [&db, &onward] {
        let opened = db.snap().open_revs("d", None, false).unwrap();
        for document in opened.into_iter().map(Result::unwrap) {
            let newest = document.rev().unwrap();
            assert_eq!(document.path.start, newest.generation);
            assert_eq!(document.path.ids.len() as u64, newest.generation, "down to its root");
        }
        let paths = [
            vec!["6-x", "5-y", "4-s", "3-r2", "2-r1", "1-q"],
            vec!["5-x", "4-t", "3-s", "2-r", "1-p"],
        ];
        let mut found = db.paths("d");
        found.sort_by(|one, other| other.cmp(one));
        assert_eq!(found, paths);
    }
}

// case: B40
// spec: REVTREE-1, DB-2, DB-3
#[test]
fn two_revisions_of_one_document_in_one_batch_are_as_two_batches() {
    two_revisions_in_one_batch();
}

fn two_revisions_in_one_batch() {
    let (x, y) = (revision("2-b a"), revision("2-c a"));
    let document = |json: &String| ("foo", json.clone());
    let histories: [Vec<Vec<(&str, String)>>; 5] = [
        vec![vec![document(&x), document(&y)]],
        vec![vec![document(&x)], vec![document(&y)]],
        vec![vec![document(&x), document(&y)], vec![document(&x), document(&y)]],
        vec![vec![document(&y), document(&x), document(&y)]],
        vec![vec![document(&x)], vec![document(&y), document(&x)]],
    ];
    for history in histories {
        let db = TestDb::new();
        let mut changed = 0;
        for batch in history {
            let before = db.paths_or_none("foo");
            db.merge(edits(&batch)).unwrap().into_iter().for_each(|merged| drop(merged.unwrap()));
            changed += u64::from(db.paths_or_none("foo") != before);
            assert_eq!(db.snap().info().update_seq, changed, "one sequence for what is news");
        }
        assert_eq!(db.paths("foo"), [["2-b", "1-a"], ["2-c", "1-a"]]);
    }
    // With an edit of the document between.
    let db = TestDb::new();
    db.merge(edits(&[document(&x)])).unwrap();
    db.put("foo", r#"{"_rev":"2-b"}"#).unwrap();
    let merged = db.merge(edits(&[document(&x), document(&y)])).unwrap();
    assert!(merged.iter().all(Result::is_ok), "a replicated revision never conflicts");
    assert_eq!(db.leaves("foo").len(), 2);
    assert_eq!(db.snap().info().update_seq, 3);
}

// case: B43
// spec: DOC-8, DB-2, ATTACH-1
#[test]
fn equal_edits_make_equal_revisions_in_an_empty_a_full_and_a_compacted_database() {
    equal_edits_make_equal_revisions();
}

/// Edits with attachments, members in another order, a deletion and a new beginning.
fn life(db: &TestDb, compacts: bool) -> Vec<Rev> {
    let mut revs: Vec<Rev> = Vec::new();
    for (names_base, json) in [
        (
            false,
            r#""a":1,"b":{"c":2,"d":[1.0]},"_attachments":{"t":{"data":"aGVsbG8=","content_type":"text/plain"},"p":{"data":"AAEC"}}"#,
        ),
        (true, r#""b":2,"a":1,"_attachments":{"t":{"stub":true},"u":{"data":"AAEC"}}"#),
        (true, r#""a":1,"b":2,"_attachments":{"u":{"stub":true}}"#),
        (true, r#""_deleted":true"#),
        (false, r#""a":1,"b":2,"_attachments":{"u":{"data":"AAEC"}}"#),
    ] {
        let base = revs.last().filter(|_| names_base);
        let base = base.map(|base| format!(r#""_rev":"{base}","#)).unwrap_or_default();
        revs.push(db.put("d", &format!("{{{base}{json}}}")).unwrap());
        if compacts {
            db.compact_now();
        }
    }
    revs
}

fn equal_edits_make_equal_revisions() {
    let (empty, full, compacted) = (TestDb::new(), TestDb::new(), TestDb::new());
    for n in 0..50 {
        let json = r#"{"_attachments":{"t":{"data":"aGVsbG8=","content_type":"text/plain"}}}"#;
        full.put(&format!("other{n}"), json).unwrap();
    }
    let revs = life(&empty, false);
    assert_eq!(life(&full, false), revs);
    assert_eq!(life(&compacted, true), revs);
    let all = [&empty, &full, &compacted];
    for from in all {
        for to in all.into_iter().filter(|to| !std::ptr::eq(*to, from)) {
            let before = to.seqs().into_iter().find(|(id, _)| id == "d");
            replicate(from, to);
            assert_eq!(to.leaves("d"), [revs[4].to_string()], "no conflict");
            assert_eq!(to.seqs().into_iter().find(|(id, _)| id == "d"), before, "no news");
        }
    }
    // The order of members is part of the content.
    let swapped = TestDb::new();
    let first = swapped.put("d", r#"{"a":1,"b":2}"#).unwrap();
    assert_ne!(swapped.put("e", r#"{"b":2,"a":1}"#).unwrap(), first);
    assert_eq!(swapped.put("f", r#"{"a":1,"b":2}"#).unwrap(), first);
}

#[test]
fn planted_bugs_turn_the_cases_red() {
    let cases: [(&str, fn()); 14] = [
        ("rejected-group-commits", rejected_group),
        ("purges-never-forgotten", purges_beyond_the_limit),
        ("rejected-edit-loses-its-sequence", rejected_edit_keeps_entry),
        ("old-sequence-stays", || stemmed_histories_meet(&[Step::There, Step::Back])),
        ("merged-trees-not-stemmed", || stemmed_histories_meet(&[Step::There, Step::Back])),
        ("known-revision-is-a-change", two_revisions_in_one_batch),
        ("revtree-winner-ignores-deleted", every_branch_counts),
        ("revtree-winner-on-the-leftmost-path", every_branch_counts),
        ("revtree-first-root-only", every_branch_counts),
        ("revtree-latest-doubles", latest_of_an_ancestor),
        ("revtree-identity-by-hash", one_hash_at_two_depths),
        ("second-revision-of-a-batch-conflicts", two_revisions_in_one_batch),
        ("revision-id-depends-on-place", equal_edits_make_equal_revisions),
        ("sequences-in-reverse", crate::requirements::sequences_follow_ids),
    ];
    for (bug, case) in cases {
        assert!(turns_red(bug, case), "{bug} went unnoticed");
    }
}
