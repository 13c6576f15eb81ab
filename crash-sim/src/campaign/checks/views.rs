//! Short histories of a database and the index over it: what an index must follow, and what it
//! must notice.
//!
//! Invariant: after each step the rows are those that this file's own map gives for the documents
//! that the database lists, computed without the engine's index, keys or trees.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rereduce::Error;
use rereduce::btree::TreeOptions;
use rereduce::db::{Database, DatabaseOptions, DbSnapshot, DocEdit};
use rereduce::env::Disk;
use rereduce::mark;
use rereduce::view::design::DesignDoc;
use rereduce::view::functions::{Emitted, Language, ReducedRow, Runner, Sources};
use rereduce::view::index::{Index, IndexSnapshot, Rebuilt, Update, Views, ViewsOptions};
use rereduce::view::row::{RowPlace, ViewRow};
use rereduce::view::rows::ViewRows;
use rereduce::vocabulary::{Direction, Json, KeyRange, Rev, RevPath};

use super::{Outcome, disk, expect, open_database};
use crate::campaign::Context;
use crate::disk::SimDisk;
use crate::oracle::{DATABASE, environment};
use crate::plan::Plan;

pub(super) fn follow_their_database(context: &Context) -> Outcome {
    changes_are_followed(context)?;
    purges_are_followed(context)?;
    restored_backups_are_noticed(context)?;
    other_collations_are_noticed(context)?;
    compactions_change_nothing(context)?;
    functions_may_fail(context)?;
    writers_go_on(context)?;
    threads_change_nothing(context)?;
    files_may_be_damaged(context)?;
    only_old_files_are_cleaned_up(context)?;
    readers_are_served(context)
}

/// Something to do while a document with the member `now` is mapped.
type Now = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;

/// One view: a row for each element of `keys`, and one for `shown` of all else that is shown. A
/// document with `fails` ends the update.
#[derive(Clone, Default)]
struct Toy {
    now: Now,
}

impl Language for Toy {
    fn start(&self, _sources: &Sources) -> rereduce::Result<Box<dyn Runner>> {
        Ok(Box::new(self.clone()))
    }
}

/// The rows of the toy's view for a document.
fn emitted(document: &Json) -> Vec<Emitted> {
    let mut rows = Vec::new();
    if let Some(Json::Array(keys)) = document.member("keys") {
        let rev = document.member("_rev").cloned().unwrap_or(Json::Null);
        rows.extend(keys.iter().map(|key| (key.clone(), rev.clone())));
    }
    for name in ["_conflicts", "_local_seq"] {
        if let Some(shown) = document.member(name) {
            rows.push((Json::from(name), shown.clone()));
        }
    }
    rows
}

impl Runner for Toy {
    fn map(&mut self, document: &Json) -> rereduce::Result<Vec<Vec<Emitted>>> {
        if document.member("now").is_some()
            && let Ok(mut now) = self.now.lock()
            && let Some(work) = &mut *now
        {
            work();
        }
        match document.member("fails") {
            Some(_) => Err(Error::Function { name: "toy".to_owned(), reason: "no".to_owned() }),
            None => Ok(vec![emitted(document)]),
        }
    }

    fn reduce(&mut self, _: usize, _: &[ReducedRow]) -> rereduce::Result<Json> {
        Ok(Json::Null)
    }

    fn rereduce(&mut self, _: usize, _: &[Json]) -> rereduce::Result<Json> {
        Ok(Json::Null)
    }
}

struct History {
    context: Context,
    disk: SimDisk,
    toy: Toy,
    design: DesignDoc,
    options: ViewsOptions,
    db: Arc<Database>,
    views: Views,
    index: Arc<Index>,
}

type Found<T> = Result<T, Box<dyn std::error::Error>>;

/// Id, emit number, key and value as text.
type Shown = BTreeSet<(String, u32, String, String)>;

impl History {
    fn begin(context: &Context) -> Found<History> {
        History::with(context, |_, _| {})
    }

    fn with(
        context: &Context,
        adapt: impl FnOnce(&mut DesignDoc, &mut ViewsOptions),
    ) -> Found<History> {
        let mut design = DesignDoc::of_rust("toy-1", &[("toy", None)]);
        let tree = TreeOptions { fan_out_max: 3, ..ViewsOptions::default().tree };
        let mut options = ViewsOptions {
            tree,
            cache_bytes: 0,
            batch_docs: 3,
            threads: 1,
            ..ViewsOptions::default()
        };
        adapt(&mut design, &mut options);
        History::open(context.clone(), disk(), Toy::default(), design, options)
    }

    fn open(
        context: Context,
        disk: SimDisk,
        toy: Toy,
        design: DesignDoc,
        options: ViewsOptions,
    ) -> Found<History> {
        let db = Arc::new(open_database(&disk, &context, DatabaseOptions::default())?);
        let (env, path) = (environment(&disk, context.seed + 1), Path::new(DATABASE));
        let views = Views::open(env, db.clone(), path, options.clone())?;
        let language: Arc<dyn Language> = Arc::new(toy.clone());
        let index = views.index(&design, &language)?;
        Ok(History { context, disk, toy, design, options, db, views, index })
    }

    /// The process dies, and another one takes over.
    fn again(self) -> Found<History> {
        let History { context, disk, toy, design, options, db, views, index } = self;
        drop((db, views, index));
        let context = Context { seed: context.seed + 2, ..context };
        History::open(context, disk, toy, design, options)
    }

    fn edit(&self, id: &str, json: &str) -> Found<Rev> {
        let mut edit = DocEdit::parse(id, json.as_bytes())?;
        if let Ok(document) = self.db.snapshot()?.document(id, None) {
            edit.draft.path = document.rev().map(RevPath::of).unwrap_or_default();
        }
        Ok(self.db.edit(vec![edit])?.remove(0)?)
    }

    fn fill(&self, numbers: std::ops::Range<u32>) -> Outcome {
        for number in numbers {
            self.edit(&format!("d{number:02}"), &format!("{{\"keys\":[{},7,7]}}", number % 4))?;
        }
        Ok(())
    }

    fn purge(&self, id: &str) -> Outcome {
        let leaves = self.db.snapshot()?.leaves(id)?;
        self.db.purge(vec![(id.to_owned(), leaves.into_iter().map(|leaf| leaf.0).collect())])?;
        Ok(())
    }

    /// Brings the index up, and compares it with its documents. Returns how many were mapped.
    fn follows(&self, what: &str) -> Found<u64> {
        let before = self.index.counts().mapped;
        let snapshot = self.index.snapshot(Update::True)?;
        let mapped = self.index.counts().mapped - before;
        self.compare(&snapshot, what)?;
        let sound = self.index.check()?;
        expect(sound.is_sound(), format!("{what}: {:?}", sound.violations))?;
        Ok(mapped)
    }

    fn compare(&self, snapshot: &IndexSnapshot, what: &str) -> Outcome {
        let rows = shown(snapshot)?;
        let expected = self.expected(snapshot.db())?;
        let differs = format!("{what}: the view is {rows:?} instead of {expected:?}");
        expect(rows == expected, differs)
    }

    fn expected(&self, db: &DbSnapshot) -> Found<Shown> {
        let mut rows = Shown::new();
        let mut documents = Vec::new();
        db.all_docs(&KeyRange::all(), Direction::Ascending, &mut |document| {
            documents.push(document);
            ControlFlow::Continue(())
        })?;
        for summary in documents {
            let is_design = summary.id.starts_with("_design/");
            if summary.deleted || (is_design && !self.design.include_design) {
                continue;
            }
            let mut members = db.document(&summary.id, None)?.body;
            members.push(("_rev".to_owned(), Json::from(summary.rev.to_string().as_str())));
            let (conflicts, _) = db.conflicts(&summary.id)?;
            if !conflicts.is_empty() {
                let revs = conflicts.iter().map(|rev| Json::from(rev.to_string().as_str()));
                members.push(("_conflicts".to_owned(), Json::Array(revs.collect())));
            }
            if self.design.local_seq {
                members.push(("_local_seq".to_owned(), Json::unsigned(summary.seq)));
            }
            for (number, (key, value)) in emitted(&Json::Object(members)).iter().enumerate() {
                let (key, value) = (key.to_string(), value.to_string());
                rows.insert((summary.id.clone(), number as u32, key, value));
            }
        }
        Ok(rows)
    }

    /// Does `work` while a document with `now` is mapped, once.
    fn when_mapped(&self, mut work: impl FnMut() + Send + 'static) {
        if let Ok(mut now) = self.toy.now.lock() {
            let mut done = false;
            *now = Some(Box::new(move || {
                if !std::mem::replace(&mut done, true) {
                    work();
                }
            }));
        }
    }

    fn rebuilt(&self) -> Found<Option<Rebuilt>> {
        Ok(self.index.info()?.rebuilt)
    }
}

fn shown(snapshot: &IndexSnapshot) -> Found<Shown> {
    let view = snapshot.view(0).ok_or("there is no view")?;
    let (mut rows, mut count) = (Shown::new(), 0);
    let nonsense = || Error::InvalidValue { reason: "a row that is none".to_owned() };
    let text = |json: &[u8]| Ok::<String, Error>(Json::parse(json)?.to_string());
    view.scan(&KeyRange::all(), Direction::Ascending, &mut |place, row| {
        let place = RowPlace::decode(view.collation(), place).ok_or_else(nonsense)?;
        let row = ViewRow::decode(row).ok_or_else(nonsense)?;
        rows.insert((place.id.into_owned(), place.emit, text(row.key)?, text(row.value)?));
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    expect(count == rows.len() && count as u64 == view.total_rows(), "rows do not count up")?;
    Ok(rows)
}

fn changes_are_followed(context: &Context) -> Outcome {
    let history = History::with(context, |design, _| design.local_seq = true)?;
    history.follows("nothing")?;
    history.fill(0..8)?;
    history.edit("_design/d", r#"{"keys":[1]}"#)?;
    history.follows("new documents")?;
    history.edit("d03", r#"{"keys":["moved"]}"#)?;
    history.edit("d04", r#"{"_deleted":true}"#)?;
    history.fill(8..10)?;
    let mapped = history.follows("changes")?;
    expect(mapped == 3, format!("{mapped} documents were mapped for 3 that changed"))?;
    let mut merged = Vec::new();
    for (id, json) in [("x", r#"{"keys":["x"]}"#), ("y", r#"{"keys":["y"]}"#)] {
        let mut edit = DocEdit::parse("c", json.as_bytes())?;
        edit.draft.path = RevPath { start: 2, ids: vec![id.parse()?, "a".parse()?] };
        merged.push(edit);
    }
    history.db.merge(merged)?.into_iter().collect::<rereduce::Result<Vec<_>>>()?;
    history.follows("a conflict")?;
    history.db.edit(vec![DocEdit::deletion("c", "2-y".parse()?)?])?.remove(0)?;
    history.follows("the winner of a conflict is deleted")?;
    history.edit("d05", r#"{"keys":[1]}"#)?;
    let history = history.again()?;
    let mapped = history.follows("behind a restart")?;
    expect(mapped == 1, format!("behind a restart {mapped} documents were mapped for one"))
}

fn purges_are_followed(context: &Context) -> Outcome {
    let history = History::begin(context)?;
    history.db.set_purge_infos_limit(2)?;
    history.fill(0..9)?;
    history.follows("before purges")?;
    history.purge("d01")?;
    history.db.purge(vec![("d02".to_owned(), vec!["1-aa".parse()?])])?;
    history.follows("a purge, and one that hits nothing")?;
    for number in 3..7 {
        history.purge(&format!("d{number:02}"))?;
    }
    history.db.compact(&mut || ControlFlow::Continue(()))?;
    history.follows("purges that were forgotten")?;
    let why = history.rebuilt()?;
    expect(why == Some(Rebuilt::PurgesForgotten), format!("forgotten purges: {why:?}"))
}

fn restored_backups_are_noticed(context: &Context) -> Outcome {
    let history = History::begin(context)?;
    history.fill(0..4)?;
    let path = Path::new(DATABASE);
    let backup = history.disk.bytes(path).ok_or("there is no database")?;
    history.fill(4..8)?;
    history.follows("before a backup is restored")?;
    let disk = history.disk.clone();
    let History { context, toy, design, options, db, views, index, .. } = history;
    drop((db, views, index));
    disk.remove(path)?;
    disk.create(path)?.append(&backup)?;
    let context = Context { seed: context.seed + 2, ..context };
    let history = History::open(context, disk, toy, design, options)?;
    // As many commits as before, and other ones.
    history.fill(20..24)?;
    history.follows("a restored backup that went another way")?;
    let why = history.rebuilt()?;
    expect(why == Some(Rebuilt::Beside), format!("an index beside its database: {why:?}"))
}

fn other_collations_are_noticed(context: &Context) -> Outcome {
    let bug = mark::plant(Some("collate-version-without-data"));
    let built = History::begin(context).and_then(|history| {
        history.fill(0..5)?;
        history.follows("under another version of the collation")?;
        Ok(history)
    });
    mark::plant(bug);
    let history = built?.again()?;
    let mapped = history.follows("another version of the collation")?;
    expect(mapped == 5, format!("under another collation {mapped} of 5 documents were mapped"))
}

fn compactions_change_nothing(context: &Context) -> Outcome {
    let history = History::begin(context)?;
    history.fill(0..12)?;
    history.follows("before a compaction")?;
    let mut rounds = 0;
    let mut wrong = Ok(());
    history.index.compact(&mut || {
        rounds += 1;
        if rounds == 1 && wrong.is_ok() {
            wrong = history.fill(3..7).and_then(|()| history.follows("meanwhile").map(drop));
        }
        ControlFlow::Continue(())
    })?;
    wrong?;
    let mapped = history.follows("a compaction")?;
    expect(mapped == 0, format!("behind a compaction {mapped} documents were mapped"))?;
    let index = Arc::downgrade(&history.index);
    history.when_mapped(move || {
        if let Some(index) = index.upgrade() {
            // Its error would show as a file that was not swapped.
            drop(index.compact(&mut || ControlFlow::Continue(())));
        }
    });
    history.fill(0..2)?;
    history.edit("now", r#"{"keys":["now"],"now":true}"#)?;
    history.fill(2..6)?;
    history.follows("a compaction in the midst of an update")?;
    let why = history.rebuilt()?;
    expect(why.is_none(), format!("a compaction in the midst of an update: {why:?}"))?;
    let history = history.again()?;
    let mapped = history.follows("behind that")?;
    expect(mapped == 0, format!("{mapped} documents were mapped again"))
}

fn functions_may_fail(context: &Context) -> Outcome {
    let history = History::begin(context)?;
    history.fill(0..4)?;
    history.follows("before a function fails")?;
    history.fill(4..9)?;
    history.edit("f", r#"{"fails":true}"#)?;
    history.fill(9..12)?;
    let failed = history.index.snapshot(Update::True).map(drop);
    let right = matches!(failed, Err(Error::Function { .. }));
    expect(right, format!("a function that fails: {failed:?}"))?;
    let history = history.again()?;
    let old = history.index.snapshot(Update::False)?;
    history.compare(&old, "the state before a function failed")?;
    expect(old.update_seq() == 4, format!("a state at {} is shown", old.update_seq()))?;
    history.edit("f", "{}")?;
    let mapped = history.follows("the function is mended")?;
    expect(mapped < 9, format!("{mapped} documents were mapped for what was not yet committed"))?;
    // A write fails, and the next query recovers.
    history.fill(0..2)?;
    history.disk.set_plan("sync 1 EIO".parse::<Plan>()?);
    let failed = history.index.snapshot(Update::True).map(drop);
    history.disk.set_plan(Plan::default());
    expect(failed.is_err(), "a flush that failed went unnoticed")?;
    history.follows("a write that failed").map(drop)
}

fn writers_go_on(context: &Context) -> Outcome {
    let history = History::begin(context)?;
    history.edit("a", r#"{"keys":["a"],"now":true}"#)?;
    history.fill(0..2)?;
    let db = Arc::downgrade(&history.db);
    history.when_mapped(move || {
        if let Some(db) = db.upgrade()
            && let Ok(snapshot) = db.snapshot()
            && let Ok(document) = snapshot.document("d01", None)
            && let Ok(mut edit) = DocEdit::parse("d01", br#"{"keys":["meanwhile"]}"#)
        {
            edit.draft.path = document.rev().map(RevPath::of).unwrap_or_default();
            drop(db.edit(vec![edit]));
        }
    });
    let snapshot = history.index.snapshot(Update::True)?;
    history.compare(&snapshot, "a write in the midst of an update")?;
    let newer = history.db.snapshot()?.number();
    expect(snapshot.db().number() < newer, "the write came into the update's own snapshot")?;
    history.follows("behind it").map(drop)
}

fn threads_change_nothing(context: &Context) -> Outcome {
    let history = History::with(context, |_, options| {
        (options.threads, options.batch_docs) = (4, 1000);
    })?;
    let edits = (0..160).map(|number| {
        DocEdit::parse(&format!("d{number:03}"), format!("{{\"keys\":[{number}]}}").as_bytes())
    });
    history.db.edit(edits.collect::<rereduce::Result<_>>()?)?;
    history.follows("four threads").map(drop)
}

/// The file of the index.
fn file(history: &History) -> Found<std::path::PathBuf> {
    let signature = history.index.signature().to_string();
    let mut names = history.disk.names().into_iter();
    let found = names.find(|name| name.file_name().is_some_and(|name| *name == *signature));
    found.ok_or_else(|| "there is no file of the index".into())
}

fn files_may_be_damaged(context: &Context) -> Outcome {
    for all in [true, false] {
        let history = History::begin(context)?;
        history.fill(0..20)?;
        history.follows("before damage")?;
        history.views.close()?;
        let path = file(&history)?;
        let mut bytes = history.disk.bytes(&path).ok_or("there is no index")?;
        // All of it, or all but the header and the last commit, which opening reads.
        let (begin, end) = match all {
            true => (0, bytes.len()),
            false => (2049, bytes.len().saturating_sub(8 * 2048)),
        };
        bytes.iter_mut().take(end).skip(begin).for_each(|byte| *byte ^= 0x11);
        history.disk.remove(&path)?;
        history.disk.create(&path)?.append(&bytes)?;
        let history = history.again()?;
        // A query that meets the damage is told, the one behind it is not.
        drop(history.follows("damage"));
        history.follows("behind damage")?;
        let why = history.rebuilt()?;
        expect(why == Some(Rebuilt::Damaged), format!("a damaged index: {why:?}"))?;
    }
    rows_that_nobody_names_are_found(context)
}

/// The check of an index is checked: old rows that stay are rows that no document names.
fn rows_that_nobody_names_are_found(context: &Context) -> Outcome {
    let bug = mark::planted_here();
    if bug.is_some_and(|bug| bug != "view-check-counts-no-rows") {
        return Ok(());
    }
    mark::plant(Some("view-old-rows-stay"));
    let built = History::begin(context).and_then(|history| {
        history.fill(0..3)?;
        history.index.snapshot(Update::True)?;
        history.edit("d01", r#"{"keys":["other"]}"#)?;
        history.index.snapshot(Update::True)?;
        Ok(history)
    });
    mark::plant(bug);
    let sound = built?.index.check()?.is_sound();
    expect(!sound, "rows of no document count as sound")
}

fn only_old_files_are_cleaned_up(context: &Context) -> Outcome {
    let history = History::begin(context)?;
    history.fill(0..3)?;
    history.follows("before a clean-up")?;
    let design = DesignDoc::of_rust("toy-0", &[("toy", None)]);
    let language: Arc<dyn Language> = Arc::new(history.toy.clone());
    history.views.index(&design, &language)?.snapshot(Update::True)?;
    history.views.close()?;
    let kept = file(&history)?;
    let removed = history.views.clean_up(&[history.index.signature()])?;
    let gone = history.disk.bytes(&kept).is_none();
    let what = format!("a clean-up took {removed:?}");
    expect(removed.len() == 1 && !gone && !removed.contains(&kept), what)
}

fn readers_are_served(context: &Context) -> Outcome {
    let history = History::begin(context)?;
    history.fill(0..4)?;
    history.follows("before somebody reads")?;
    let (env, path) = (environment(&history.disk, context.seed + 9), Path::new(DATABASE));
    let db = Database::open_read_only(env.clone(), path, DatabaseOptions::default())?;
    let views = Views::open(env, Arc::new(db), path, history.options.clone())?;
    let language: Arc<dyn Language> = Arc::new(history.toy.clone());
    let index = views.index(&history.design, &language)?;
    history.compare(&index.snapshot(Update::True)?, "beside a writer")?;
    history.fill(4..5)?;
    let refused = index.snapshot(Update::True).map(drop);
    let right = matches!(refused, Err(Error::Locked { .. }));
    expect(right, format!("an old index that another handle writes: {refused:?}"))
}
