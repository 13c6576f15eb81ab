//! What a compaction keeps, leaves out, and costs.

use std::ops::ControlFlow;
use std::path::Path;

use rereduce::db::{Database, DatabaseOptions, DbSnapshot, DocEdit};
use rereduce::doc::Show;
use rereduce::env::{Disk, MemoryDisk};
use rereduce::file::sibling;
use rereduce::vocabulary::{Direction, Rev};
use rereduce::{Error, ErrorClass, mark};

use crate::support::{KINDS, PATH, bytes_of, class, error, on, rows_of, unwatched};
use crate::torn::sample;

// spec: COMPACT-3
// case: B10
#[test]
pub(crate) fn a_leftover_compaction_file_is_ignored_by_opening_and_removed_by_the_next() {
    for kind in KINDS {
        let older = sample(kind, &["a"], true).bytes;
        let foreign = sample(kind, &["x", "y"], true).bytes;
        let noise: Vec<u8> = (0..9_000_u32).map(|n| (n.wrapping_mul(97) >> 3) as u8).collect();
        let mut leftovers = vec![Vec::new(), noise, foreign.clone(), older.clone()];
        leftovers.extend([1, 63, 64, 2048, 2049, 5_000].map(|cut| foreign[..cut].to_vec()));
        for leftover in leftovers {
            let disk = MemoryDisk::new();
            let handle = kind.open(&disk).unwrap();
            handle.write(&[("a", Some("1")), ("b", Some("2"))]).unwrap();
            handle.put("a", "3").unwrap();
            let expected = rows_of([("a", "3"), ("b", "2")]);
            drop(handle);
            let place = sibling(Path::new(PATH), "compact");
            disk.place(&place, leftover.clone());

            let handle = kind.open(&disk).unwrap();
            assert_eq!(handle.rows().unwrap(), expected);
            assert_eq!(disk.bytes(&place), Some(leftover), "opening leaves it alone");
            handle.compact().unwrap();
            assert_eq!((handle.rows().unwrap(), handle.number()), (expected.clone(), 2));
            assert_eq!(disk.list(Path::new("data")).unwrap(), [Path::new(PATH)]);
            drop(handle);
            assert_eq!(kind.open(&disk).unwrap().rows().unwrap(), expected);
        }
    }
}

// spec: COMPACT-3
#[test]
pub(crate) fn a_cancelled_compaction_changes_nothing() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let handle = kind.open(&disk).unwrap();
        handle.put("a", "1").unwrap();
        handle.put("a", "2").unwrap();
        let (bytes, counts) = (bytes_of(&disk), handle.counts());
        let cancelled = error(handle.compact_watched(&mut || ControlFlow::Break(())));
        assert!(matches!(cancelled, Error::Cancelled { .. }), "{cancelled}");
        assert_eq!((bytes_of(&disk), handle.counts()), (bytes, counts));
        assert_eq!(disk.list(Path::new("data")).unwrap(), [Path::new(PATH)]);
        handle.put("b", "3").unwrap();
        handle.compact().unwrap();
        assert_eq!(handle.rows().unwrap(), rows_of([("a", "2"), ("b", "3")]));
    }
}

// spec: COMPACT-1, COMPACT-4, HISTORY-2
#[test]
pub(crate) fn old_snapshots_stay_readable_and_numbers_go_on_across_a_compaction() {
    for kind in KINDS {
        // With a cache: what it held of the old file must not answer for the new one.
        let disk = MemoryDisk::new();
        let setting = crate::support::Setting { cache_bytes: 1 << 20, ..kind.small() };
        let handle = setting.open(&on(&disk)).unwrap();
        let mut held = Vec::new();
        for number in 1..=12 {
            handle.put(&format!("k{}", number % 5), &number.to_string()).unwrap();
            let view = handle.view().unwrap();
            let rows = view.rows().unwrap();
            held.push((view, rows));
            if number % 3 == 0 {
                handle.compact().unwrap();
                assert_eq!(handle.number(), number, "the compacted state keeps its number");
                assert_eq!(handle.rows().unwrap(), held.last().unwrap().1);
                let gone = error(handle.view_at(number - 1));
                assert!(
                    matches!(gone, Error::Compacted { asked, oldest }
                        if asked == number - 1 && oldest == number),
                    "{gone}"
                );
            }
            for (view, rows) in &held {
                assert_eq!(view.rows().unwrap(), *rows, "commit {}", view.number());
            }
        }
        handle.close().unwrap();
        for (view, rows) in &held {
            assert_eq!(view.rows().unwrap(), *rows, "after the close");
        }
    }
}

fn open(disk: &MemoryDisk) -> Database {
    let options = DatabaseOptions { attachment_chunk_bytes: 1_000, ..DatabaseOptions::default() };
    Database::open(on(disk), Path::new(PATH), options).unwrap()
}

pub(crate) fn edit(db: &Database, id: &str, json: &str) -> Rev {
    db.edit(vec![DocEdit::parse(id, json.as_bytes()).unwrap()]).unwrap().remove(0).unwrap()
}

pub(crate) fn merge(db: &Database, id: &str, json: &str) {
    db.merge(vec![DocEdit::parse(id, json.as_bytes()).unwrap()]).unwrap().remove(0).unwrap();
}

/// Attaches `content` under `name` to a new document or to revision `base`.
pub(crate) fn attach(
    db: &Database,
    id: &str,
    base: Option<&Rev>,
    name: &str,
    content: &[u8],
) -> Rev {
    let mut upload = db.upload(name, "application/octet-stream");
    content.chunks(700).for_each(|piece| upload.write(piece).unwrap());
    let rev = base.map_or(String::new(), |rev| format!("\"_rev\":\"{rev}\","));
    let json = format!("{{{rev}\"_attachments\":{{\"{name}\":{{\"follows\":true}}}}}}");
    let mut made = DocEdit::parse(id, json.as_bytes()).unwrap();
    made.uploads.push(upload.finish().unwrap());
    db.edit(vec![made]).unwrap().remove(0).unwrap()
}

/// Everything that a compaction must keep, as text.
pub(crate) fn told(snapshot: &DbSnapshot) -> Vec<String> {
    let mut told = Vec::new();
    let mut ids = Vec::new();
    snapshot
        .changes(0, Direction::Ascending, &mut |change| {
            told.push(format!("{} {} {:?}", change.seq, change.id, change.leaves));
            ids.push(change.id);
            ControlFlow::Continue(())
        })
        .unwrap();
    for id in ids {
        for leaf in snapshot.open_revs(&id, None, false).unwrap() {
            let leaf = leaf.unwrap();
            let show = Show { revisions: true, ..Show::default() };
            told.push(format!("{id} {}", leaf.to_json(&show)));
            for attachment in &leaf.attachments {
                let rev = leaf.rev().unwrap();
                let content = snapshot.attachment(&id, Some(&rev), &attachment.name).unwrap();
                told.push(format!("{}: {:?}", attachment.name, content.read_all().unwrap()));
            }
        }
    }
    snapshot
        .locals(&mut |local| {
            told.push(format!("{local:?}"));
            ControlFlow::Continue(())
        })
        .unwrap();
    told.push(format!("{:?}", snapshot.purges(0).unwrap()));
    let info = snapshot.info();
    told.push(format!("{} {} {}", info.doc_count, info.doc_del_count, info.update_seq));
    told
}

// spec: COMPACT-7, DB-7
#[test]
pub(crate) fn a_compaction_keeps_all_but_the_bodies_of_inner_revisions() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let first = edit(&db, "plain", r#"{"v":1}"#);
    let second = edit(&db, "plain", &format!(r#"{{"_rev":"{first}","v":2}}"#));
    for branch in ["aa", "bb", "cc"] {
        let deleted = if branch == "bb" { r#""_deleted":true,"# } else { "" };
        let path = format!(r#""_revisions":{{"start":2,"ids":["{branch}","00"]}}"#);
        let json = format!(r#"{{"_rev":"2-{branch}",{deleted}{path},"from":"{branch}"}}"#);
        merge(&db, "conflict", &json);
    }
    let gone = edit(&db, "gone", r#"{"v":1}"#);
    let tombstone = format!(r#"{{"_rev":"{gone}","_deleted":true,"why":"told"}}"#);
    edit(&db, "gone", &tombstone);
    let image = attach(&db, "image", None, "one", &[5; 2_500]);
    attach(&db, "image", Some(&image), "two", &[6; 10]);
    edit(&db, "_local/checkpoint", r#"{"seq":7}"#);
    let purged = edit(&db, "purged", "{}");
    db.purge(vec![("purged".into(), vec![purged.clone()])]).unwrap();
    let before = told(&db.snapshot().unwrap());
    assert!(before.len() > 10, "{before:#?}");
    assert!(db.snapshot().unwrap().document("plain", Some(&first)).is_ok());

    db.compact(&mut unwatched()).unwrap();
    let after = db.snapshot().unwrap();
    assert_eq!(told(&after), before);
    assert!(after.check().unwrap().is_sound());
    assert_eq!(class(after.document("plain", Some(&first))), ErrorClass::Missing);
    assert_eq!(after.document("plain", Some(&second)).unwrap().rev(), Some(second));
    drop((db, after));
    assert_eq!(told(&open(&disk).snapshot().unwrap()), before);
}

// spec: ATTACH-1
#[test]
pub(crate) fn equal_content_is_stored_once_for_a_document_also_after_a_compaction() {
    const CONTENT: usize = 200_000;
    // Bytes that do not repeat, so that nothing but sharing makes them few.
    let content: Vec<u8> =
        (0..CONTENT as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 41) as u8).collect();
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let appended = |work: &mut dyn FnMut() -> Rev| {
        let before = bytes_of(&disk).len();
        let rev = work();
        (rev, bytes_of(&disk).len() - before)
    };
    let text: String = content.iter().map(|byte| format!("{:02x}", byte)).collect();
    let inline = |rev: Option<&Rev>, names: &[&str]| {
        let rev = rev.map_or(String::new(), |rev| format!("\"_rev\":\"{rev}\","));
        // Hexadecimal digits are base64 too, of some other bytes.
        let one = |name: &&str| {
            let media = "application/octet-stream";
            format!("\"{name}\":{{\"content_type\":\"{media}\",\"data\":\"{text}\"}}")
        };
        let all: Vec<String> = names.iter().map(one).collect();
        format!("{{{rev}\"_attachments\":{{{}}}}}", all.join(","))
    };
    let (first, bytes) = appended(&mut || edit(&db, "a", &inline(None, &["one"])));
    assert!(bytes > CONTENT, "{bytes} bytes");
    let (second, bytes) = appended(&mut || edit(&db, "a", &inline(Some(&first), &["one", "two"])));
    assert!(bytes < 20_000, "the same content under two names: {bytes} bytes");
    let stub =
        |rev: &Rev| format!(r#"{{"_rev":"{rev}","_attachments":{{"one":{{"stub":true}}}},"v":1}}"#);
    let (_, bytes) = appended(&mut || edit(&db, "a", &stub(&second)));
    assert!(bytes < 20_000, "a stub: {bytes} bytes");
    // A conflicting revision of the same document shares it too.
    let conflict = inline(None, &["three"]);
    let conflict = conflict.replacen('{', r#"{"_rev":"1-ff","#, 1);
    let (_, bytes) = appended(&mut || {
        merge(&db, "a", &conflict);
        "1-ff".parse().unwrap()
    });
    assert!(bytes < 20_000, "a replicated revision without common ancestor: {bytes} bytes");

    db.compact(&mut unwatched()).unwrap();
    let size = bytes_of(&disk).len();
    let once = text.len() * 3 / 4;
    assert!((once..once + 30_000).contains(&size), "{size} bytes");
    assert!(db.snapshot().unwrap().check().unwrap().is_sound());
}

// spec: ATTACH-1, COMPACT-7
#[test]
pub(crate) fn revisions_that_share_an_attachment_share_it_in_the_compacted_file() {
    let disk = MemoryDisk::new();
    let db = open(&disk);
    let rev = attach(&db, "a", None, "one", &[9; 150_000]);
    // Two leaves that took the attachment over from the same ancestor.
    for branch in ["aa", "bb"] {
        let path = format!(r#""_revisions":{{"start":2,"ids":["{branch}","{}"]}}"#, rev.id);
        let stub = r#""_attachments":{"one":{"stub":true,"revpos":1}}"#;
        merge(&db, "a", &format!(r#"{{"_rev":"2-{branch}",{path},{stub}}}"#));
    }
    for round in 0..2 {
        db.compact(&mut unwatched()).unwrap();
        let size = bytes_of(&disk).len();
        assert!((150_000..180_000).contains(&size), "round {round}: {size} bytes");
        let after = db.snapshot().unwrap();
        for branch in ["2-aa", "2-bb"] {
            let content = after.attachment("a", Some(&branch.parse().unwrap()), "one").unwrap();
            assert_eq!(content.read_all().unwrap(), [9; 150_000]);
        }
    }
}

// spec: COMPACT-6
#[test]
pub(crate) fn a_compacted_database_is_as_small_as_a_fresh_sorted_load() {
    let rows: Vec<(String, String)> = (0..3_000u32)
        .map(|row| (format!("id{:06}", row.wrapping_mul(7_919) % 10_007), format!("{row:0100}")))
        .collect();
    let load = |disk: &MemoryDisk, rows: &[(String, String)], batch: usize| {
        let db = open(disk);
        for batch in rows.chunks(batch) {
            let edits = batch.iter().map(|(id, value)| {
                DocEdit::parse(id, format!(r#"{{"v":"{value}"}}"#).as_bytes()).unwrap()
            });
            db.edit(edits.collect()).unwrap().into_iter().for_each(|reply| drop(reply.unwrap()));
        }
        db
    };
    let random = MemoryDisk::new();
    let db = load(&random, &rows, 100);
    for (id, _) in &rows[..300] {
        let rev = db.snapshot().unwrap().document(id, None).unwrap().rev().unwrap();
        db.edit(vec![DocEdit::deletion(id, rev.clone()).unwrap()]).unwrap();
        db.purge(vec![(id.clone(), vec![db.snapshot().unwrap().leaves(id).unwrap()[0].0.clone()])])
            .unwrap();
    }
    db.set_purge_infos_limit(1).unwrap();
    let before = bytes_of(&random).len();
    db.compact(&mut unwatched()).unwrap();

    let fresh = MemoryDisk::new();
    let mut sorted = rows[300..].to_vec();
    sorted.sort();
    load(&fresh, &sorted, sorted.len()).close().unwrap();
    let (compacted, fresh) = (bytes_of(&random).len(), bytes_of(&fresh).len());
    assert!(before > 2 * fresh, "{before} bytes before");
    assert!(compacted as f64 <= fresh as f64 * 1.02, "{compacted} compacted, {fresh} fresh");
}

// spec: COMPACT-1, ATTACH-1
#[test]
pub(crate) fn an_upload_that_a_compaction_overtakes_arrives_in_the_new_file() {
    mark::reset();
    let content: Vec<u8> = (0..5_000_u32).map(|n| (n % 251) as u8).collect();
    // The compaction comes after so many bytes of the upload, or between it and its edit.
    for overtaken_at in (0..=content.len()).step_by(500) {
        let disk = MemoryDisk::new();
        let db = open(&disk);
        edit(&db, "other", "{}");
        let mut upload = db.upload("one", "application/octet-stream");
        upload.write(&content[..overtaken_at]).unwrap();
        if overtaken_at < content.len() {
            db.compact(&mut unwatched()).unwrap();
        }
        upload.write(&content[overtaken_at..]).unwrap();
        let uploaded = upload.finish().unwrap();
        if overtaken_at == content.len() {
            db.compact(&mut unwatched()).unwrap();
        }
        let json = br#"{"_attachments":{"one":{"follows":true}}}"#;
        let mut made = DocEdit::parse("a", json).unwrap();
        made.uploads.push(uploaded);
        db.edit(vec![made]).unwrap().remove(0).unwrap();
        drop(db);
        let snapshot = open(&disk).snapshot().unwrap();
        let read = snapshot.attachment("a", None, "one").unwrap().read_all().unwrap();
        assert!(read == content, "overtaken after {overtaken_at} bytes");
        assert!(snapshot.check().unwrap().is_sound());
    }
    assert!(mark::hits().contains_key("upload-crossed-swap"));
}
