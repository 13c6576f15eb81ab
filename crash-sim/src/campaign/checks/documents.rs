//! The rules of documents: sequences, stubs, stemming, purges, local documents, counts.

use std::ops::ControlFlow;

use rereduce::Error;
use rereduce::codec::Reader;
use rereduce::db::{Database, DatabaseOptions, DocEdit, Standing};
use rereduce::doc::{RevData, RevTree};
use rereduce::vocabulary::{Direction, Rev, RevId, RevPath};

use super::{Outcome, disk, environment, expect, open_database};
use crate::campaign::Context;
use crate::disk::SimDisk;
use crate::image::Image;
use crate::oracle::DATABASE;

pub(super) fn obey_their_rules(context: &Context) -> Outcome {
    sequences_rise_with_changes_only(context)?;
    stubs_are_those_of_the_base(context)?;
    purges_are_remembered_for_a_while(context)?;
    local_documents_count_for_themselves(context)?;
    missing_revisions_are_those_nobody_knows(context)?;
    damage_in_an_attachment_is_reported(context)?;
    pasts_are_recognised(context)?;
    leaves_have_data()
}

fn open(context: &Context) -> rereduce::Result<Database> {
    open_database(&disk(), context, DatabaseOptions::default())
}

fn edit(db: &Database, id: &str, json: &str) -> rereduce::Result<Rev> {
    db.edit(vec![DocEdit::parse(id, json.as_bytes())?])?.remove(0)
}

/// The path to revision `start` with these ids, the newest first.
fn path(start: u64, ids: &str) -> RevPath {
    RevPath { start, ids: ids.split(' ').map(RevId::from_bytes).collect() }
}

fn merge(db: &Database, id: &str, path: RevPath) -> rereduce::Result<Rev> {
    let mut revision = DocEdit::parse(id, b"{}")?;
    revision.draft.path = path;
    db.merge(vec![revision])?.remove(0)
}

fn update_seq(db: &Database) -> rereduce::Result<u64> {
    Ok(db.snapshot()?.info().update_seq)
}

/// The ids in the order of their sequences.
fn feed(db: &Database) -> rereduce::Result<Vec<String>> {
    let mut ids = Vec::new();
    db.snapshot()?.changes(0, Direction::Ascending, &mut |change| {
        ids.push(change.id.clone());
        ControlFlow::Continue(())
    })?;
    Ok(ids)
}

fn sequences_rise_with_changes_only(context: &Context) -> Outcome {
    let db = open(context)?;
    let batch = ["c", "a", "b"].map(|id| DocEdit::parse(id, b"{}"));
    db.edit(batch.into_iter().collect::<rereduce::Result<_>>()?)?;
    expect(feed(&db)? == ["a", "b", "c"], format!("one call in the order {:?}", feed(&db)?))?;
    db.set_revs_limit(2)?;
    merge(&db, "d", path(4, "z y x w"))?;
    let before = update_seq(&db)?;
    // Known, with ancestors that the limit takes again.
    merge(&db, "d", path(4, "z y x w"))?;
    expect(update_seq(&db)? == before, "a merge without effect took a sequence")?;
    // The same hash at another depth is another revision.
    merge(&db, "d", path(5, "z q"))?;
    let leaves = db.snapshot()?.leaves("d")?;
    expect(leaves.len() == 2, format!("one hash at two depths: {leaves:?}"))?;
    db.set_revs_limit(7)?;
    expect(update_seq(&db)? == before + 2, "a new limit took no sequence")?;
    let info = db.snapshot()?.info();
    let what = format!("{} documents, {} deleted", info.doc_count, info.doc_del_count);
    expect((info.doc_count, info.doc_del_count) == (4, 0), what)
}

fn stubs_are_those_of_the_base(context: &Context) -> Outcome {
    let db = open(context)?;
    let first = edit(&db, "d", r#"{"_attachments":{"a":{"data":"AAEC"}}}"#)?;
    let second = edit(&db, "d", &format!(r#"{{"_rev":"{first}"}}"#))?;
    let stub = format!(r#"{{"_rev":"{second}","_attachments":{{"a":{{"stub":true}}}}}}"#);
    let refused = edit(&db, "d", &stub);
    let missing = matches!(refused, Err(Error::Missing { .. }));
    expect(missing, format!("a stub of what the base does not have: {refused:?}"))
}

fn purges_are_remembered_for_a_while(context: &Context) -> Outcome {
    let db = open(context)?;
    db.set_purge_infos_limit(3)?;
    for number in 0..8 {
        let id = format!("d{number}");
        let rev = edit(&db, &id, "{}")?;
        let before = update_seq(&db)?;
        db.purge(vec![(id, vec![rev])])?;
        expect(update_seq(&db)? > before, "a purge took no sequence")?;
    }
    db.purge(vec![("nobody".to_owned(), vec!["1-aa".parse()?])])?;
    let last = db.snapshot()?.purges(0)?.last().map(|purge| purge.0);
    db.compact(&mut || ControlFlow::Continue(()))?;
    let kept = db.snapshot()?.purges(0)?;
    let newest = kept.last().map(|purge| purge.0);
    let what = format!("{} purges are remembered, up to {newest:?} of {last:?}", kept.len());
    expect(kept.len() == 3 && newest == last && feed(&db)?.is_empty(), what)
}

fn local_documents_count_for_themselves(context: &Context) -> Outcome {
    let db = open(context)?;
    let mut base = edit(&db, "_local/a", r#"{"v":0}"#)?;
    for number in 1..4 {
        base = edit(&db, "_local/a", &format!(r#"{{"_rev":"{base}","v":{number}}}"#))?;
    }
    let local = db.snapshot()?.local("_local/a")?.ok_or("a local document is gone")?;
    let what = format!("a local document after four writes: {}", local.number);
    expect(local.number == 4 && feed(&db)?.is_empty(), what)
}

fn missing_revisions_are_those_nobody_knows(context: &Context) -> Outcome {
    let db = open(context)?;
    merge(&db, "d", path(3, "c b a"))?;
    merge(&db, "d", path(2, "x a"))?;
    let snapshot = db.snapshot()?;
    let revs: Vec<Rev> = ["1-a", "2-b", "2-q", "3-c"]
        .into_iter()
        .map(str::parse)
        .collect::<rereduce::Result<_>>()?;
    let missing = snapshot.missing_revs("d", &revs)?;
    expect(missing == ["2-q".parse()?], format!("missing {missing:?}"))?;
    let opened = snapshot.open_revs("d", Some(&["1-a".parse()?]), true)?;
    expect(opened.len() == 2, format!("the leaves below 1-a: {opened:?}"))
}

fn damage_in_an_attachment_is_reported(context: &Context) -> Outcome {
    let disk = disk();
    let db = open_database(&disk, context, DatabaseOptions::default())?;
    let content = r#"{"content_type":"image/png","data":"cm90dGVuIHRleHQgaGVyZQ=="}"#;
    edit(&db, "d", &format!(r#"{{"_attachments":{{"a":{content}}}}}"#))?;
    db.close()?;
    let mut bytes = disk.bytes(DATABASE.as_ref()).unwrap_or_default();
    let marker = b"rotten text here";
    let at = bytes.windows(marker.len()).position(|window| window == marker);
    let at = at.ok_or("the attachment is nowhere in the file")?;
    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
    let disk = SimDisk::open_image(&Image::of_files([(DATABASE, &bytes[..])]));
    let db = open_database(&disk, context, DatabaseOptions::default())?;
    let checked = db.snapshot()?.check();
    let sound = checked.is_ok_and(|checked| checked.is_sound());
    expect(!sound, "a rotten attachment counts as sound")
}

/// A copy of commit 1 goes another way: it has what both share, and nothing else of the first.
fn pasts_are_recognised(context: &Context) -> Outcome {
    let disk = disk();
    let db = open_database(&disk, context, DatabaseOptions::default())?;
    edit(&db, "a", "{}")?;
    let shared = db.snapshot()?.standing();
    let copy = disk.bytes(DATABASE.as_ref()).unwrap_or_default();
    edit(&db, "b", "{}")?;
    let lost = db.snapshot()?.standing();
    let copy = SimDisk::open_image(&Image::of_files([(DATABASE, &copy[..])]));
    let open = |disk, seed| {
        Database::open(environment(disk, seed), DATABASE.as_ref(), DatabaseOptions::default())
    };
    let other = open(&copy, context.seed ^ 1)?;
    edit(&other, "c", "{}")?;
    edit(&other, "d", "{}")?;
    other.compact(&mut || ControlFlow::Continue(()))?;
    let here = other.snapshot()?;
    expect(here.has(&shared) && !here.has(&lost), "a copy took the original's future for its own")?;
    let before = here.standing();
    other.reopen()?;
    edit(&other, "e", "{}")?;
    let after = other.snapshot()?.standing();
    expect(after.timeline != before.timeline, "a recovery in place went on as before")?;
    let stranger = open(&self::disk(), context.seed ^ 2)?;
    edit(&stranger, "a", "{}")?;
    let nothing = Standing { timeline: 0, commit: 0, ..shared };
    expect(!stranger.snapshot()?.has(&nothing), "one database is taken for another")
}

/// Data of a revision: a number.
#[derive(Clone, Debug, PartialEq)]
struct Mark(u8);

impl RevData for Mark {
    fn is_deleted(&self) -> bool {
        false
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Mark> {
        reader.u8().map(Mark)
    }
}

/// A leaf without data is no leaf, and a revision keeps the data it came with.
fn leaves_have_data() -> Outcome {
    let mut tree = RevTree::default();
    tree.merge(&path(2, "b a"), Mark(1))?;
    tree.merge(&path(2, "b a"), Mark(2))?;
    let kept: Vec<&Mark> = tree.leaves().into_iter().map(|(_, mark)| mark).collect();
    expect(kept == [&Mark(1)], format!("a second merge left the data {kept:?}"))?;
    let mut bytes = Vec::new();
    tree.encode(&mut bytes);
    let whole = RevTree::<Mark>::decode(&mut Reader::new(&bytes));
    expect(whole.as_ref() == Some(&tree), format!("decoded {whole:?}"))?;
    // The last revision again, without its data: bit 2 of its flags, four bytes from the end.
    bytes.pop();
    if let Some(flags) = bytes.iter_mut().rev().nth(2) {
        *flags &= !(1 << 2);
    }
    let bare = RevTree::<Mark>::decode(&mut Reader::new(&bytes));
    expect(bare.is_none(), format!("a leaf without data was taken for {bare:?}"))
}
