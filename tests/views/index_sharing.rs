//! Who updates, who waits, and what is seen meanwhile. Map functions are where these tests get a
//! word in while an update runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;

use rereduce::db::{Database, DocEdit};
use rereduce::env::MemoryDisk;
use rereduce::mark;
use rereduce::view::design::DesignDoc;
use rereduce::view::functions::RustMaps;
use rereduce::view::index::{Index, Progress, Update, ViewsOptions};
use rereduce::view::rows::ViewRows;
use rereduce::vocabulary::{Json, RevPath};

use super::index_support::{Failing, Kind, Scene, by_n, fresh, ids, on, rows, tiny};

/// Called for each document that is mapped.
type Meanwhile = Arc<dyn Fn(&Json) + Send + Sync>;

/// A scene whose map function is `by_n`, and calls back while it runs.
fn interrupted(meanwhile: Meanwhile) -> Scene {
    let map = move |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        meanwhile(document);
        by_n(document, emit);
    };
    let language = Arc::new(RustMaps::new(vec![Arc::new(map)]));
    let design = DesignDoc::of_rust("interrupted-1", &[("v", None)]);
    let options = ViewsOptions { threads: 1, ..tiny() };
    Kind { design, language, options }.open(&on(&MemoryDisk::new())).unwrap()
}

fn update(db: &Database, id: &str, json: &str) {
    let mut edit = DocEdit::parse(id, json.as_bytes()).unwrap();
    if let Ok(found) = db.snapshot().unwrap().document(id, None) {
        edit.draft.path = RevPath::of(found.rev().unwrap());
    }
    db.edit(vec![edit]).unwrap().remove(0).unwrap();
}

// spec: VIEW-6
// case: B17
#[test]
pub(crate) fn rows_and_documents_are_of_one_state_while_writers_go_on() {
    let target: Arc<OnceLock<Weak<Database>>> = Arc::default();
    let (db, writes) = (target.clone(), Arc::new(AtomicU64::new(0)));
    let scene = interrupted(Arc::new(move |_| {
        // Every document changes at every moment of every update.
        if let Some(db) = db.get().and_then(Weak::upgrade) {
            let n = writes.fetch_add(1, Ordering::Relaxed);
            ["a", "b", "c"].iter().for_each(|id| update(&db, id, &format!("{{\"n\":{n}}}")));
        }
    }));
    ["a", "b", "c"].iter().for_each(|id| drop(scene.put(id, r#"{"n":0}"#)));
    target.set(Arc::downgrade(&scene.db)).unwrap();
    for _ in 0..4 {
        let snapshot = scene.index.snapshot(Update::True).unwrap();
        let shown = rows(&snapshot.view(0).unwrap());
        assert_eq!(shown.len(), 3);
        for (_, id, _, _, rev) in shown {
            let document = snapshot.db().document(&id, None).unwrap();
            assert_eq!(rev, format!("\"{}\"", document.rev().unwrap()));
        }
        assert!(snapshot.db().number() < scene.db.snapshot().unwrap().number());
        assert_eq!(
            scene.index.snapshot(Update::False).unwrap().update_seq(),
            snapshot.update_seq()
        );
    }
}

// spec: VIEW-6
#[test]
pub(crate) fn an_update_in_progress_is_shown_to_nobody_and_can_be_watched() {
    let watched: Arc<OnceLock<Weak<Index>>> = Arc::default();
    let seen: Arc<Mutex<Vec<(Progress, usize, u64)>>> = Arc::default();
    let (index, log) = (watched.clone(), seen.clone());
    let scene = interrupted(Arc::new(move |_| {
        let Some(index) = index.get().and_then(Weak::upgrade) else { return };
        let Some(progress) = index.progress() else { return };
        let old = index.snapshot(Update::False).unwrap();
        log.lock().unwrap().push((progress, ids(&old).len(), old.update_seq()));
        assert!(index.info().unwrap().updater_running);
    }));
    watched.set(Arc::downgrade(&scene.index)).unwrap();
    (0..10).for_each(|n| drop(scene.put(&format!("a{n}"), r#"{"n":1}"#)));
    assert_eq!(scene.index.progress(), None);
    scene.query();
    scene.put("b", r#"{"n":1}"#);
    scene.query();
    assert_eq!(scene.index.progress(), None);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 11);
    let first: Vec<_> = seen.iter().filter(|(progress, ..)| progress.total == 10).collect();
    assert!(first.iter().all(|(_, rows, seq)| (*rows, *seq) == (0, 0)), "{seen:?}");
    assert!(first.iter().any(|(progress, ..)| progress.done >= 4), "{seen:?}");
    assert!(seen.contains(&(Progress { done: 0, total: 1 }, 10, 10)), "{seen:?}");
}

// spec: VIEW-14
#[test]
pub(crate) fn queries_that_wait_share_one_update() {
    const QUERIES: usize = 5;
    let watched: Arc<OnceLock<Weak<Index>>> = Arc::default();
    let index = watched.clone();
    let scene = interrupted(Arc::new(move |_| {
        // The first update goes on when all others wait for it.
        let Some(index) = index.get().and_then(Weak::upgrade) else { return };
        while index.info().unwrap().waiting_clients < QUERIES as u64 - 1 {
            thread::yield_now();
        }
    }));
    (0..3).for_each(|n| drop(scene.put(&format!("a{n}"), r#"{"n":1}"#)));
    watched.set(Arc::downgrade(&scene.index)).unwrap();
    let planted = mark::planted_here();
    let shared: u64 = thread::scope(|scope| {
        let query = || {
            mark::plant(planted);
            assert_eq!(ids(&scene.index.snapshot(Update::True).unwrap()).len(), 3);
            mark::hits().get("flight-shared").copied().unwrap_or(0)
        };
        let running: Vec<_> = (0..QUERIES).map(|_| scope.spawn(query)).collect();
        running.into_iter().map(|query| query.join().unwrap()).sum()
    });
    assert_eq!(shared, QUERIES as u64 - 1);
    assert_eq!((scene.index.counts().mapped, scene.index.counts().updates), (3, 1));
}

// spec: VIEW-14, VIEW-17
#[test]
pub(crate) fn queries_that_wait_share_the_error_too() {
    let (map, usual) = (Failing::default(), Kind::usual());
    let design = DesignDoc::of_rust("failing-2", &[("v", None)]);
    let gate: Arc<Mutex<Option<Weak<Index>>>> = Arc::default();
    let language = Arc::new(Gated { map: map.clone(), gate: gate.clone() });
    let scene = Kind { design, language, ..usual }.open(&on(&MemoryDisk::new())).unwrap();
    scene.put("a", r#"{"fails":"no"}"#);
    *gate.lock().unwrap() = Some(Arc::downgrade(&scene.index));
    let planted = mark::planted_here();
    thread::scope(|scope| {
        let query = || {
            mark::plant(planted);
            scene.index.snapshot(Update::True).map(drop).unwrap_err().to_string()
        };
        let running: Vec<_> = (0..3).map(|_| scope.spawn(query)).collect();
        for query in running {
            assert_eq!(query.join().unwrap(), "fatal: no");
        }
    });
    assert_eq!(map.0.load(Ordering::Relaxed), 1, "nobody tried again what had just failed");
}

/// A language that starts for the first time when two queries wait.
struct Gated {
    map: Failing,
    gate: Arc<Mutex<Option<Weak<Index>>>>,
}

impl rereduce::view::functions::Language for Gated {
    fn start(
        &self,
        sources: &rereduce::view::functions::Sources,
    ) -> rereduce::Result<Box<dyn rereduce::view::functions::Runner>> {
        let gate = self.gate.lock().unwrap().take();
        if let Some(index) = gate.and_then(|gate| gate.upgrade()) {
            while index.info()?.waiting_clients < 2 {
                thread::yield_now();
            }
        }
        self.map.start(sources)
    }
}

// spec: VIEW-1, VIEW-6
#[test]
pub(crate) fn a_query_that_does_not_update_sees_the_last_finished_state() {
    let scene = fresh();
    assert!(scene.ids(Update::False).is_empty(), "nothing was built yet");
    scene.put("a", r#"{"n":1}"#);
    assert!(scene.ids(Update::False).is_empty());
    assert_eq!(scene.index.counts().mapped, 0);
    scene.query();
    scene.put("b", r#"{"n":2}"#);
    let old = scene.index.snapshot(Update::False).unwrap();
    scene.kind.compare(&old);
    assert_eq!((ids(&old), old.update_seq()), (vec!["a".to_owned()], 1));
    let scene = scene.again();
    let old = scene.index.snapshot(Update::False).unwrap();
    scene.kind.compare(&old);
    assert_eq!((ids(&old), old.update_seq()), (vec!["a".to_owned()], 1));
    assert_eq!(ids(&scene.query()), ["a", "b"]);
}

// spec: VIEW-6
#[test]
pub(crate) fn a_lazy_query_answers_first_and_updates_behind() {
    let scene = fresh();
    scene.put("a", r#"{"n":1}"#);
    assert!(scene.ids(Update::Lazy).is_empty());
    scene.index.wait_for_lazy_update();
    assert_eq!(scene.ids(Update::False), ["a"]);
    scene.put("b", r#"{"n":1}"#);
    assert_eq!(scene.ids(Update::Lazy), ["a"]);
    scene.index.wait_for_lazy_update();
    assert_eq!(scene.ids(Update::False), ["a", "b"]);
    scene.query();
}

#[test]
fn a_closed_index_refuses_and_what_was_read_stays_readable() {
    let scene = fresh();
    scene.put("a", r#"{"n":1}"#);
    let snapshot = scene.query();
    scene.views.close().unwrap();
    scene.put("b", r#"{"n":1}"#);
    let refused = scene.index.snapshot(Update::True).map(drop);
    assert!(matches!(refused, Err(rereduce::Error::Closed { .. })), "{refused:?}");
    assert_eq!(snapshot.view(0).unwrap().total_rows(), 1);
    scene.kind.compare(&snapshot);
    let index = scene.views.index(&scene.kind.design, &scene.kind.language).unwrap();
    assert_eq!(ids(&index.snapshot(Update::True).unwrap()), ["a", "b"]);
}
