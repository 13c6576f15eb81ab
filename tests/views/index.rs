//! What an update of an index does: which documents are mapped, and what becomes of their rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rereduce::db::DocEdit;
use rereduce::env::MemoryDisk;
use rereduce::mark;
use rereduce::reduce::{Count, Reducer, Row};
use rereduce::view::builtin::Builtin;
use rereduce::view::design::{DesignDoc, Reduce};
use rereduce::view::functions::{Language, RustMaps};
use rereduce::view::index::{Update, ViewsOptions};
use rereduce::view::limit::ReduceLimit;
use rereduce::view::reducer::{ShownReducer, ViewReducer};
use rereduce::view::rows::ViewRows;
use rereduce::vocabulary::{Json, KeyRange, Rev, RevPath};
use rereduce::{Error, Result};

use super::index_support::{Failing, Kind, Scene, by_n, fresh, ids, on, rows, tiny};

// spec: VIEW-1, VIEW-3
#[test]
pub(crate) fn an_index_has_the_rows_of_all_documents_after_every_change() {
    let scene = fresh();
    scene.query();
    for n in 0..23 {
        scene.put(&format!("d{:02}", n * 7 % 23), &format!("{{\"n\":[{n},{},{n}]}}", n % 3));
        if n % 4 == 0 {
            scene.query();
        }
    }
    scene.query();
    for n in 0..11 {
        scene.put(&format!("d{:02}", n * 5 % 23), &format!("{{\"n\":{}}}", n % 2));
        if n % 3 == 0 {
            scene.delete(&format!("d{:02}", n * 2 % 23));
        }
        scene.query();
    }
    let scene = scene.again();
    let (mapped, _) = scene.mapped(|| scene.query());
    assert_eq!(mapped, 0, "all of it is in the file");
    assert!(scene.ids(Update::False).len() > 5);
}

// spec: VIEW-1
// case: B18
#[test]
pub(crate) fn old_rows_go_beside_documents_that_have_none() {
    let scene = fresh();
    ["b", "d", "f"].iter().for_each(|id| drop(scene.put(id, r#"{"n":1}"#)));
    scene.query();
    let new = ["a", "c", "e"].map(|id| DocEdit::parse(id, br#"{"n":2}"#).unwrap());
    let mut edits = new.to_vec();
    edits.push(DocEdit::deletion("d", scene.winner("d")).unwrap());
    let mut replaced = DocEdit::parse("f", br#"{"n":3}"#).unwrap();
    replaced.draft.path = RevPath::of(scene.winner("f"));
    edits.push(replaced);
    scene.db.edit(edits).unwrap().into_iter().for_each(|reply| drop(reply.unwrap()));
    let snapshot = scene.query();
    assert_eq!(ids(&snapshot), ["a", "b", "c", "e", "f"]);
    let keys: Vec<String> =
        rows(&snapshot.view(0).unwrap()).into_iter().map(|row| row.3 + &row.1).collect();
    assert_eq!(keys, ["1b", "2a", "2c", "2e", "3f"]);
}

/// Revisions of document `d` made elsewhere: their paths, the newest id first.
fn merge(scene: &Scene, paths: &[(u64, &[&str], &str)]) {
    let edits = paths.iter().map(|(start, ids, json)| {
        let mut edit = DocEdit::parse("d", json.as_bytes()).unwrap();
        let ids = ids.iter().map(|id| id.parse().unwrap()).collect();
        edit.draft.path = RevPath { start: *start, ids };
        edit
    });
    let replies = scene.db.merge(edits.collect()).unwrap();
    replies.into_iter().for_each(|reply| drop(reply.unwrap()));
}

// spec: VIEW-1, VIEW-4
// case: B19
#[test]
pub(crate) fn deleting_the_winning_branch_leaves_the_rows_of_the_other() {
    let scene = fresh();
    merge(&scene, &[(2, &["b", "a"], r#"{"n":"b"}"#), (2, &["c", "a"], r#"{"n":"c"}"#)]);
    let value = |scene: &Scene| rows(&scene.query().view(0).unwrap())[0].4.clone();
    assert_eq!(value(&scene), "\"2-c\"");
    let winner: Rev = "2-c".parse().unwrap();
    scene.db.edit(vec![DocEdit::deletion("d", winner).unwrap()]).unwrap().remove(0).unwrap();
    assert_eq!(value(&scene), "\"2-b\"");
}

/// A view of whatever the map function is shown.
fn shown_documents(options: &str) -> Kind {
    let text = format!("{{\"options\":{options},\"views\":{{\"v\":{{\"map\":\"shown\"}}}}}}");
    let design = DesignDoc::parse(&Json::parse(text.as_bytes()).unwrap()).unwrap();
    let shown = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        emit(document.member("_id").cloned().unwrap(), document.clone());
    };
    let language = Arc::new(RustMaps::new(vec![Arc::new(shown)]));
    Kind { design, language, options: tiny() }
}

// spec: VIEW-4
#[test]
pub(crate) fn map_functions_are_shown_what_couchdb_shows_them() {
    let scene = shown_documents("{}").open(&on(&MemoryDisk::new())).unwrap();
    merge(&scene, &[(2, &["b", "a"], "{}"), (2, &["c", "a"], r#"{"n":1}"#)]);
    merge(&scene, &[(2, &["x", "a"], r#"{"_deleted":true}"#)]);
    scene.put("t", r#"{"_attachments":{"t":{"content_type":"text/plain","data":"aGVsbG8="}}}"#);
    scene.put("_design/x", r#"{"views":{}}"#);
    scene.put("_local/l", "{}");
    scene.put("gone", "{}");
    scene.delete("gone");
    let shown: Vec<String> =
        rows(&scene.query().view(0).unwrap()).into_iter().map(|row| row.4).collect();
    let rev = scene.winner("t");
    let attachment = concat!(
        r#"{"content_type":"text/plain","revpos":1,"digest":"md5-iMaiC8wqiFlD2NjLTemvCQ==","#,
        r#""length":5,"stub":true}"#
    );
    let expected = [
        r#"{"_id":"d","_rev":"2-c","n":1,"_conflicts":["2-b"],"_deleted_conflicts":["2-x"]}"#
            .to_owned(),
        format!(r#"{{"_id":"t","_rev":"{rev}","_attachments":{{"t":{attachment}}}}}"#),
    ];
    assert_eq!(shown, expected);
}

// spec: VIEW-4
#[test]
pub(crate) fn design_documents_and_sequences_are_shown_if_asked_for() {
    let options = r#"{"include_design":true,"local_seq":true}"#;
    let scene = shown_documents(options).open(&on(&MemoryDisk::new())).unwrap();
    scene.put("a", "{}");
    scene.put("_design/x", "{}");
    scene.put("a", r#"{"n":1}"#);
    let seqs = |scene: &Scene| -> Vec<(String, String)> {
        let rows = rows(&scene.query().view(0).unwrap());
        let seq = |value: &str| Json::parse(value.as_bytes()).unwrap();
        let seq = |value: &str| seq(value).member("_local_seq").unwrap().to_string();
        rows.into_iter().map(|row| (row.1, seq(&row.4))).collect()
    };
    let pair = |id: &str, seq: &str| (id.to_owned(), seq.to_owned());
    assert_eq!(seqs(&scene), [pair("_design/x", "2"), pair("a", "3")]);
    scene.delete("_design/x");
    assert_eq!(seqs(&scene), [pair("a", "3")]);
}

// spec: VIEW-5
#[test]
pub(crate) fn what_is_stored_does_not_depend_on_threads_and_batches() {
    let mut usual = Kind::usual();
    let mut stored = Vec::new();
    for (threads, batch_docs) in [(1, 1000), (4, 1000), (3, 130), (4, 7)] {
        usual.options = ViewsOptions { threads, batch_docs, ..tiny() };
        let scene = usual.open(&on(&MemoryDisk::new())).unwrap();
        let edits = (0..300).map(|n| {
            let json = format!("{{\"n\":[{},{}]}}", n * 37 % 100, n % 7);
            DocEdit::parse(&format!("d{n:03}"), json.as_bytes()).unwrap()
        });
        scene.db.edit(edits.collect()).unwrap();
        let snapshot = scene.query();
        stored.push([0, 1].map(|view| rows(&snapshot.view(view).unwrap())));
        assert_eq!(scene.index.counts().mapped, 300);
        assert_eq!(scene.index.counts().writes.commits, 300_u64.div_ceil(batch_docs as u64));
    }
    assert!(stored.windows(2).all(|pair| pair[0] == pair[1]));
}

fn failing() -> (Kind, Failing) {
    let (map, usual) = (Failing::default(), Kind::usual());
    let design = DesignDoc::of_rust("failing-1", &[("by_n", None)]);
    (Kind { design, language: Arc::new(map.clone()), ..usual }, map)
}

// spec: VIEW-17, VIEW-6
#[test]
pub(crate) fn a_function_that_fails_leaves_the_index_at_its_last_commit() {
    let (kind, map) = failing();
    let scene = kind.open(&on(&MemoryDisk::new())).unwrap();
    (0..6).for_each(|n| drop(scene.put(&format!("a{n}"), r#"{"n":1}"#)));
    scene.query();
    // The third batch of the next update has the document that fails.
    (0..9).for_each(|n| drop(scene.put(&format!("b{n}"), r#"{"n":2}"#)));
    scene.put("b6", r#"{"fails":"no more"}"#);
    (0..2).for_each(|n| drop(scene.put(&format!("c{n}"), r#"{"n":2}"#)));
    for _ in 0..2 {
        let before = map.0.load(Ordering::Relaxed);
        let error = scene.index.snapshot(Update::True).map(drop).unwrap_err();
        assert!(matches!(error, Error::Function { .. }), "{error}");
        assert_eq!(error.to_string(), "fatal: no more");
        assert!(map.0.load(Ordering::Relaxed) > before, "it is tried again");
        let old = scene.index.snapshot(Update::False).unwrap();
        assert_eq!((old.update_seq(), ids(&old).len()), (6, 6), "batches of it are not shown");
        kind.compare(&old);
        assert!(scene.index.check().unwrap().is_sound());
    }
    let committed = scene.index.info().unwrap().update_seq;
    assert_eq!(committed, 15, "batches before the one that fails stay");
    // Nothing of that changes behind a restart.
    let scene = scene.again();
    let old = scene.index.snapshot(Update::False).unwrap();
    assert_eq!((old.update_seq(), ids(&old).len()), (6, 6));
    kind.compare(&old);
    scene.put("b6", r#"{"n":3}"#);
    let (mapped, snapshot) = scene.mapped(|| scene.query());
    assert_eq!((mapped, ids(&snapshot).len()), (3, 17));
}

// spec: VIEW-17
#[test]
pub(crate) fn a_panic_in_a_map_function_is_not_the_end_of_the_index() {
    let disk = MemoryDisk::new();
    let panics = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        assert!(document.member("fails").is_none(), "a map function's own panic");
        by_n(document, emit);
    };
    let language = Arc::new(RustMaps::new(vec![Arc::new(panics)]));
    let design = DesignDoc::of_rust("panics-1", &[("v", None)]);
    let scene = Kind { design, language, options: tiny() }.open(&on(&disk)).unwrap();
    scene.put("a", r#"{"fails":true}"#);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let index = scene.index.clone();
    let ended = std::thread::spawn(move || index.snapshot(Update::True).is_ok()).join();
    std::panic::set_hook(hook);
    assert!(ended.is_err(), "the panic goes to whoever asked");
    assert_eq!(scene.index.progress(), None);
    scene.put("a", r#"{"n":1}"#);
    assert_eq!(ids(&scene.query()), ["a"]);
}

// spec: VIEW-17
#[test]
pub(crate) fn a_value_that_statistics_cannot_take_stops_its_views_alone() {
    let disk = MemoryDisk::new();
    let env = on(&disk);
    let values = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        let value = document.member("n").cloned().unwrap_or(Json::Null);
        emit(Json::Null, value);
    };
    let language: Arc<dyn Language> =
        Arc::new(RustMaps::new(vec![Arc::new(values), Arc::new(values)]));
    let stats = Some(Reduce::Builtin(Builtin::Stats));
    let design = DesignDoc::of_rust("stats-1", &[("stats", stats), ("rows", None)]);
    let scene = Kind { design, language, ..Kind::usual() }.open(&env).unwrap();
    let other = scene.views.index(&Kind::usual().design, &Kind::usual().language).unwrap();
    scene.put("a", r#"{"n":1}"#);
    scene.query();
    scene.put("b", r#"{"n":"x"}"#);
    for _ in 0..2 {
        let error = scene.index.snapshot(Update::True).map(drop).unwrap_err();
        assert!(matches!(error, Error::InvalidValue { .. }), "{error}");
        assert_eq!(scene.index.snapshot(Update::False).unwrap().update_seq(), 1);
    }
    assert_eq!(other.snapshot(Update::True).unwrap().update_seq(), 2, "other indexes go on");
    scene.put("b", r#"{"n":2}"#);
    assert_eq!(scene.query().view(1).unwrap().total_rows(), 2);
}

// case: B25
// spec: VIEW-16
#[test]
pub(crate) fn a_sum_that_grows_becomes_an_error_value_and_the_file_stays_small() {
    let fields = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        let id = document.member("_id").and_then(Json::as_str).unwrap_or_default();
        let fields = (0..50).map(|n| (format!("{id}-{n}"), Json::from(1))).collect();
        emit(Json::from(id), Json::Object(fields));
    };
    let sum = Some(Reduce::Builtin(Builtin::Sum));
    let count = Some(Reduce::Builtin(Builtin::Count));
    let design = DesignDoc::of_rust("grows-1", &[("sum", sum), ("count", count)]);
    let language = Arc::new(RustMaps::new(vec![Arc::new(fields), Arc::new(fields)]));
    let options = ViewsOptions { reduce_limit: ReduceLimit::Error, ..ViewsOptions::default() };
    let kind = Kind { design, language, options };
    let scene = kind.open(&on(&MemoryDisk::new())).unwrap();
    let edits = (0..2000).map(|n| DocEdit::parse(&format!("d{n}"), b"{}").unwrap());
    scene.db.edit(edits.collect()).unwrap();
    let snapshot = scene.index.snapshot(Update::True).unwrap();
    let shown = |number: usize| {
        let view = snapshot.view(number).unwrap();
        let ViewReducer::Some(reducer) = view.reducer().clone() else { panic!("it has one") };
        reducer.show(&view.reduce(&KeyRange::all()).unwrap()).unwrap()
    };
    let error = shown(0);
    let reason = error.member("reason").and_then(Json::as_str).unwrap_or_default();
    assert!(reason.starts_with("Reduce output must shrink more rapidly"), "{error}");
    assert_eq!(shown(1), Json::from(2000), "the other view of the group is built");
    let info = scene.index.info().unwrap();
    assert!(info.file_bytes < 3 * info.active_bytes, "{info:?}");
    scene.index.compact(&mut || std::ops::ControlFlow::Continue(())).unwrap();
    let compacted = scene.index.info().unwrap();
    assert!(compacted.file_bytes < 3 * info.active_bytes, "{compacted:?}");
}

/// Counts rows, and shows how many tens there are.
struct Tens;

impl Reducer for Tens {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        Count.reduce(rows, out)
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        Count.rereduce(parts, out)
    }
}

impl ShownReducer for Tens {
    fn show(&self, reduction: &[u8]) -> Result<Json> {
        Ok(Json::unsigned(Count::decode(reduction).unwrap_or(0) / 10))
    }
}

#[test]
fn reducers_in_rust_stand_beside_the_functions_of_their_language() {
    let maps = RustMaps::new(vec![Arc::new(by_n)]).with_reducers(vec![Arc::new(Tens)]);
    let design = DesignDoc::of_rust("tens-1", &[("v", Some(Reduce::Function(0)))]);
    let kind = Kind { design: design.clone(), language: Arc::new(maps), ..Kind::usual() };
    let scene = kind.open(&on(&MemoryDisk::new())).unwrap();
    (0..37).for_each(|n| drop(scene.put(&format!("d{n}"), r#"{"n":1}"#)));
    let view = scene.query().view(0).unwrap();
    let ViewReducer::Some(reducer) = view.reducer() else { panic!("it has one") };
    let reduced = view.reduce(&KeyRange::all()).unwrap();
    assert_eq!(reducer.show(&reduced).unwrap(), Json::from(3));
    // Without it nothing is built.
    let language: Arc<dyn Language> = Arc::new(RustMaps::new(vec![Arc::new(by_n)]));
    let scene = Kind { design, language, ..Kind::usual() }.open(&on(&MemoryDisk::new())).unwrap();
    scene.put("d", r#"{"n":1}"#);
    let refused = scene.index.snapshot(Update::True);
    assert!(matches!(refused.map(drop), Err(Error::InvalidDesignDoc { .. })));
    assert_eq!(scene.index.counts().writes.commits, 0);
}

#[test]
fn keys_of_any_length_are_taken() {
    let mut kind = Kind::usual();
    kind.options = ViewsOptions::default();
    let scene = kind.open(&on(&MemoryDisk::new())).unwrap();
    let key = "long ".repeat(40_000);
    scene.put("a", &format!("{{\"n\":\"{key}\"}}"));
    scene.put("b", &format!("{{\"n\":\"{key}r\"}}"));
    assert_eq!(rows(&scene.query().view(0).unwrap()).len(), 2);
}

// spec: VIEW-15
#[test]
pub(crate) fn a_check_finds_rows_that_no_document_names() {
    let before = mark::plant(Some("view-old-rows-stay"));
    let scene = fresh();
    scene.put("a", r#"{"n":1}"#);
    scene.index.snapshot(Update::True).unwrap();
    scene.put("a", r#"{"n":2}"#);
    scene.index.snapshot(Update::True).unwrap();
    mark::plant(before);
    let violations = scene.index.check().unwrap().violations;
    let found: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["view 0: 2 rows, of which the id tree names 1"]);
}
