//! The acts about documents: loading, reading, editing, compacting.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use rereduce::db::{Database, DatabaseOptions, DbSnapshot, DocEdit};
use rereduce::doc::{DocId, Draft, Show};
use rereduce::env::Env;
use rereduce::error::Error;
use rereduce::vocabulary::{Direction, Json, Rev, RevPath};

use super::model::Model;
use super::stage::Stage;
use crate::outcome::{Failure, Outcome};
use crate::output::grouped;

/// The tour's database and what it should hold.
pub(super) struct Scene {
    pub(super) path: PathBuf,
    pub(super) db: Arc<Database>,
    pub(super) model: Model,
}

pub(super) fn open(path: &std::path::Path) -> Outcome<Database> {
    Ok(Database::open(Env::real(), path, DatabaseOptions::default())?)
}

pub(super) fn load(stage: &mut Stage<'_>, rows: &[(String, Json)]) -> Outcome<Scene> {
    stage.act("Load: every commit is durable when its call returns")?;
    stage.say("1,461 days of weather in Seattle: a document a day, a commit a year.")?;
    let path = stage.path("seattle.rereduce");
    let mut scene = Scene { db: Arc::new(open(&path)?), path, model: Model::new() };
    let mut table = Vec::new();
    for year in ["2012", "2013", "2014", "2015"] {
        let days: Vec<_> = rows.iter().filter(|(date, _)| date.starts_with(year)).collect();
        let before = scene.db.counts();
        let edits = days.iter().map(|(date, row)| edit_of(date, row.clone()));
        let edits = edits.collect::<Outcome<Vec<DocEdit>>>()?;
        let revs = scene.db.edit(edits)?.into_iter().collect::<Result<Vec<Rev>, Error>>()?;
        scene.model.commit(|state| {
            for ((date, row), rev) in days.iter().zip(revs) {
                state.insert(date.clone(), (rev, row.to_string()));
            }
        });
        let after = scene.db.counts();
        table.push(vec![
            scene.model.newest().to_string(),
            year.to_string(),
            days.len().to_string(),
            grouped(after.bytes_appended - before.bytes_appended),
            (after.flushes - before.flushes).to_string(),
        ]);
    }
    stage.table(&["commit", "year", "documents", "bytes appended", "flushes"], &table)?;
    stage.say("One flush makes data and footer durable together: the footer carries a")?;
    stage.say("checksum of all bytes since the last flush, and recovery verifies it.")?;
    let newest = scene.model.newest();
    let agrees = scene.model.agrees(&scene.db.snapshot()?, newest)?;
    stage.check("commits equal to the model", u64::from(agrees), 1)?;
    Ok(scene)
}

pub(super) fn edit_of(id: &str, json: Json) -> Outcome<DocEdit> {
    Ok(DocEdit { id: DocId::new(id)?, draft: Draft::from_json(json)?, uploads: Vec::new() })
}

pub(super) fn show(stage: &mut Stage<'_>, scene: &Scene) -> Outcome {
    stage.act("Read: a document, and the feed of changes")?;
    let snapshot = scene.db.snapshot()?;
    let document = snapshot.document("2012-01-01", None)?;
    stage.show(&folded(&document.to_json(&Show::default())))?;
    stage.say("The revision is a digest of the edit, as CouchDB computes it: the same edit")?;
    stage.say("makes the same revision there. The feed lists each document at its newest")?;
    stage.say("change; anybody can go on from any sequence.")?;
    let mut newest = Vec::new();
    snapshot.changes(0, Direction::Descending, &mut |change| {
        let rev = change.winner().to_string();
        newest.push(vec![change.seq.to_string(), change.id, rev]);
        if newest.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    stage.table(&["seq", "id", "revision"], &newest)?;
    let (mut listed, mut ascending) = (Vec::new(), 0);
    snapshot.changes(0, Direction::Ascending, &mut |change| {
        ascending += u64::from(change.seq == listed.len() as u64 + 1);
        listed.push(change.id);
        ControlFlow::Continue(())
    })?;
    listed.sort();
    let state = scene.model.at(snapshot.number());
    let ids: Vec<String> = state.into_iter().flat_map(|state| state.keys().cloned()).collect();
    let whole = if listed == ids { ascending } else { 0 };
    stage.check("documents in the feed, each once and in order", whole, ids.len() as u64)
}

/// JSON on lines of its members, for reading.
fn folded(json: &Json) -> String {
    let Json::Object(members) = json else { return json.to_string() };
    let (mut lines, mut line) = (Vec::new(), String::from("{"));
    for (at, (name, value)) in members.iter().enumerate() {
        let end = if at + 1 == members.len() { "}" } else { "," };
        let member = format!("{}:{value}{end}", Json::from(name.as_str()));
        if line.len() + member.len() > 70 {
            lines.push(std::mem::replace(&mut line, String::from(" ")));
        }
        line.push_str(&member);
    }
    lines.push(line);
    lines.join("\n")
}

pub(super) fn edit(stage: &mut Stage<'_>, scene: &mut Scene) -> Outcome {
    stage.act("Edit: an edit names the revision it replaces")?;
    let before = scene.db.snapshot()?;
    update(stage, scene)?;
    delete(stage, scene)?;
    conflict(stage, scene)?;
    stage.say("Nothing is overwritten, so all commits are still there, by number:")?;
    show_history(stage, &scene.db.snapshot()?)?;
    let newest = scene.model.newest();
    let mut equal = 0;
    for number in 1..=newest {
        let snapshot = scene.db.snapshot_at(number)?;
        equal += u64::from(scene.model.agrees(&snapshot, number)?);
    }
    stage.check("commits equal to the model", equal, newest)?;
    let unmoved = scene.model.agrees(&before, 5)?;
    stage.check("snapshots that stayed as they were", u64::from(unmoved), 1)
}

fn update(stage: &mut Stage<'_>, scene: &mut Scene) -> Outcome {
    let id = "2012-12-25";
    let document = scene.db.snapshot()?.document(id, None)?;
    let set = |(name, value): (String, Json)| match name.as_str() {
        "weather" => (name, Json::from("snow")),
        _ => (name, value),
    };
    let body = Json::Object(document.body.clone().into_iter().map(set).collect());
    let stale = scene.db.edit(vec![edit_of(id, body.clone())?])?;
    let refused = matches!(stale.first(), Some(Err(Error::Conflict { .. })));
    stage.say("An edit of 2012-12-25 without a revision is refused: somebody else may have")?;
    stage.say("edited it. With the revision it succeeds, and becomes commit 6.")?;
    stage.check("edits refused that must be", u64::from(refused), 1)?;
    let mut edit = edit_of(id, body.clone())?;
    edit.draft.path = document.path;
    let rev = one(scene.db.edit(vec![edit])?)?;
    scene.model.commit(|state| {
        state.insert(id.to_string(), (rev, body.to_string()));
    });
    Ok(())
}

fn delete(stage: &mut Stage<'_>, scene: &mut Scene) -> Outcome {
    let id = "2012-02-29";
    let rev = scene.db.snapshot()?.document(id, None)?.rev().ok_or_else(no_reply)?;
    let tombstone = one(scene.db.edit(vec![DocEdit::deletion(id, rev)?])?)?;
    scene.model.commit(|state| {
        state.remove(id);
    });
    stage.say("A deletion of 2012-02-29 is commit 7. It leaves a tombstone, a revision like")?;
    stage.say("any other, so that other copies of the database learn of it:")?;
    stage.show(&tombstone.to_string())
}

fn conflict(stage: &mut Stage<'_>, scene: &mut Scene) -> Outcome {
    let id = "2015-07-04";
    let snapshot = scene.db.snapshot()?;
    let document = snapshot.document(id, None)?;
    let ours = document.rev().ok_or_else(no_reply)?;
    // Another copy of the database edited the same day twice.
    let theirs: Rev = "2-00000000000000000000000000000abc".parse()?;
    let body = Json::Object(vec![("weather".to_string(), Json::from("fireworks"))]);
    let mut edit = edit_of(id, body.clone())?;
    let other: Rev = "1-00000000000000000000000000000def".parse()?;
    edit.draft.path = RevPath { start: 2, ids: vec![theirs.id.clone(), other.id] };
    one(scene.db.merge(vec![edit])?)?;
    scene.model.commit(|state| {
        state.insert(id.to_string(), (theirs.clone(), body.to_string()));
    });
    stage.say("Commit 8 merges a revision of 2015-07-04 that was made elsewhere. Both stay;")?;
    stage.say("every copy chooses the same winner, here the longer branch:")?;
    let leaves = scene.db.snapshot()?.leaves(id)?;
    let rows = leaves.iter().enumerate().map(|(at, (rev, _))| {
        vec![rev.to_string(), if at == 0 { "winner" } else { "conflict" }.to_string()]
    });
    stage.table(&["leaf", ""], &rows.collect::<Vec<_>>())?;
    let kept = leaves == [(theirs, false), (ours, false)];
    stage.check("conflicts kept, with the right winner", u64::from(kept), 1)
}

pub(super) fn one(replies: Vec<Result<Rev, Error>>) -> Outcome<Rev> {
    Ok(replies.into_iter().next().ok_or_else(no_reply)??)
}

fn no_reply() -> Failure {
    Failure::no("the engine gave no answer; please report it")
}

pub(super) fn show_history(stage: &mut Stage<'_>, snapshot: &DbSnapshot) -> Outcome {
    let mut rows = Vec::new();
    snapshot.history(&mut |commit| {
        let counts = [commit.number, commit.update_seq, commit.doc_count, commit.offset];
        rows.push(counts.iter().map(|count| grouped(*count)).collect());
        ControlFlow::Continue(())
    })?;
    stage.table(&["commit", "seq", "documents", "footer at byte"], &rows)
}

pub(super) fn compact(stage: &mut Stage<'_>, scene: Scene) -> Outcome {
    let Scene { path, db, model } = scene;
    stage.act("Compact: the live data moves to a new file, readers stay")?;
    // Not closed: the crash of the act before, for the file itself.
    drop(db);
    let db = open(&path)?;
    let newest = model.newest();
    let old = db.snapshot()?;
    db.compact(&mut || ControlFlow::Continue(()))?;
    let new = db.snapshot()?;
    let (before, after) = (old.info().file_bytes, new.info().file_bytes);
    stage.say(&format!(
        "{} bytes became {}; history and garbage are gone, and the",
        grouped(before),
        grouped(after)
    ))?;
    stage.say("number of the commit stays. A snapshot from before reads the old file on.")?;
    show_history(stage, &new)?;
    let compacted = matches!(db.snapshot_at(1), Err(Error::Compacted { .. }));
    stage.check("commits compacted away, and said so", u64::from(compacted), 1)?;
    let agree = [&old, &new].map(|snapshot| model.agrees(snapshot, newest));
    let mut equal = 0;
    for agrees in agree {
        equal += u64::from(agrees?);
    }
    stage.check("commits equal to the model", equal, 2)?;
    let checked = new.check()?;
    stage.say(&format!(
        "A full check read {} tree nodes and {} revisions, and computed every",
        checked.nodes, checked.bodies
    ))?;
    stage.say("count and reduction anew.")?;
    stage.check("databases found sound", u64::from(checked.is_sound()), 1)?;
    db.close()?;
    Ok(())
}
