//! Models of queries that want an index brought up to date, and of what they have to do with
//! compactions and purges.

use loom::thread;

use crate::publish::Published;
use crate::single_flight::SingleFlight;
use crate::sync::{Arc, AssertUnwindSafe, Mutex, catch_unwind, lock, mark};
use crate::{UNBOUNDED, explore};

/// A state that knows how far it is; a worker that counts its flights.
type Flights = Arc<SingleFlight<u64, Vec<u64>, &'static str>>;

fn flights() -> Flights {
    Arc::new(SingleFlight::new(Vec::new()))
}

/// A query that wants state `wanted`, of a database that is at `newest`.
fn query(flights: &Flights, wanted: u64, newest: u64) -> u64 {
    let reached = |state: &u64| Ok(*state >= wanted);
    let work = |log: &mut Vec<u64>| {
        log.push(newest);
        Ok(newest)
    };
    let state = flights.bring_up(&reached, &|_| true, work).unwrap();
    assert!(state >= wanted, "a query has what it wants");
    state
}

fn spawn(flights: &Flights, wanted: u64, newest: u64) -> thread::JoinHandle<u64> {
    let flights = flights.clone();
    thread::spawn(move || query(&flights, wanted, newest))
}

// spec: FLIGHT-1, FLIGHT-2
#[test]
fn queries_that_wait_share_what_comes_of_an_update() {
    explore(Some(3), 100, &["flight-without-another-look", "flight-wakes-nobody"], || {
        let flights = flights();
        let others = [spawn(&flights, 1, 1), spawn(&flights, 1, 1)];
        query(&flights, 1, 1);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(flights.alone(|log| log.clone()), [1], "one updates, whoever comes first");
    });
}

// spec: FLIGHT-1
#[test]
fn a_query_that_wants_more_than_an_update_gives_makes_its_own() {
    explore(Some(3), 100, &["flight-wakes-nobody"], || {
        let flights = flights();
        let others = [spawn(&flights, 1, 1), spawn(&flights, 2, 2)];
        query(&flights, 1, 1);
        for other in others {
            other.join().unwrap();
        }
        let log = flights.alone(|log| log.clone());
        assert!(log == [2] || log == [1, 2], "no update is made twice: {log:?}");
        assert_eq!(flights.state(), Some(2));
    });
}

// spec: FLIGHT-3
#[test]
fn a_failure_is_told_to_those_who_waited_and_to_nobody_later() {
    explore(UNBOUNDED, 20, &["flight-wakes-nobody"], || {
        let flights = flights();
        let attempt = |flights: &Flights| {
            let work = |log: &mut Vec<u64>| {
                log.push(0);
                Err("broken")
            };
            flights.bring_up(&|_| Ok(false), &|_| true, work)
        };
        let copy = flights.clone();
        let other = thread::spawn(move || attempt(&copy));
        assert_eq!(attempt(&flights), Err("broken"));
        assert_eq!(other.join().unwrap(), Err("broken"));
        let tried = flights.alone(|log| log.len());
        assert!((1..=2).contains(&tried));
        assert_eq!(query(&flights, 1, 1), 1, "mended since: the next query tries again");
    });
}

// spec: FLIGHT-3
#[test]
fn an_update_that_panics_leaves_nobody_waiting() {
    explore(UNBOUNDED, 10, &["flight-wakes-nobody"], || {
        let flights = flights();
        let copy = flights.clone();
        let other = thread::spawn(move || {
            let panics = |_: &mut Vec<u64>| panic!("planned");
            let attempt = || copy.bring_up(&|state| Ok(*state >= 1), &|_| true, panics);
            drop(catch_unwind(AssertUnwindSafe(attempt)));
        });
        query(&flights, 1, 1);
        other.join().unwrap();
        assert_eq!(flights.state(), Some(1));
    });
}

// spec: FLIGHT-4
#[test]
fn closing_waits_for_the_update_that_runs() {
    explore(UNBOUNDED, 10, &["flight-wakes-nobody"], || {
        let flights = flights();
        let other = spawn(&flights, 1, 1);
        let (log, state) = flights.alone(|log| (log.clone(), flights.state()));
        assert_eq!(log.is_empty(), state.is_none(), "before the update or after it");
        other.join().unwrap();
    });
}

/// A commit of an index: the file it is in, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Commit {
    file: u32,
    reached: u64,
}

/// An index file: the writer, which knows its file, and the newest commit.
struct IndexFile {
    writer: Mutex<u32>,
    published: Published<Commit>,
}

/// One batch of an update: under the writer's lock the newest commit is looked up, continued and
/// published. The planted bug looks it up before, as an updater would that keeps its state.
fn batch(index: &IndexFile) {
    let kept = index.published.load();
    let writer = lock(&index.writer);
    let newest = index.published.load();
    let newest = if mark::planted("model-updater-keeps-its-state") { kept } else { newest };
    assert_eq!(newest.file, *writer, "the newest commit is in the writer's file");
    let next = Commit { file: newest.file, reached: newest.reached + 1 };
    index.published.publish(Arc::new(next));
}

// case: B15
// spec: VIEW-10
#[test]
fn an_update_that_ends_after_the_swap_is_in_the_new_file() {
    explore(UNBOUNDED, 20, &["model-updater-keeps-its-state"], || {
        let first = Arc::new(Commit { file: 1, reached: 0 });
        let index = Arc::new(IndexFile { writer: Mutex::new(1), published: Published::new(first) });
        let shared = index.clone();
        let updater = thread::spawn(move || {
            batch(&shared);
            batch(&shared);
        });
        // The compaction: a copy, and under the writer's lock what has come since.
        let copied = *index.published.load();
        {
            let mut writer = lock(&index.writer);
            let newest = index.published.load();
            assert!(newest.reached >= copied.reached);
            let swapped = Commit { file: 2, reached: newest.reached };
            *writer = 2;
            index.published.publish(Arc::new(swapped));
        }
        updater.join().unwrap();
        assert_eq!(*index.published.load(), Commit { file: 2, reached: 2 });
    });
}

/// A commit of a database: its purges so far, and the first one that is remembered.
#[derive(Clone, Copy, Debug)]
struct Purges {
    newest: u64,
    first_kept: u64,
}

// case: B14
// spec: VIEW-8
#[test]
fn purges_that_were_forgotten_are_noticed_in_the_snapshot_that_is_mapped() {
    explore(UNBOUNDED, 20, &["model-floor-of-another-snapshot"], || {
        let database = Arc::new(Published::new(Arc::new(Purges { newest: 0, first_kept: 1 })));
        let shared = database.clone();
        let writer = thread::spawn(move || {
            shared.publish(Arc::new(Purges { newest: 1, first_kept: 1 }));
            shared.publish(Arc::new(Purges { newest: 2, first_kept: 1 }));
            // A compaction that remembers one purge.
            shared.publish(Arc::new(Purges { newest: 2, first_kept: 2 }));
        });
        // An index that has seen none. The planted bug asks for the floor, and then for the purges.
        let floor = database.load();
        let snapshot = database.load();
        let floor =
            if mark::planted("model-floor-of-another-snapshot") { floor } else { snapshot.clone() };
        let rebuilds = floor.first_kept > 1;
        let applied = snapshot.newest + 1 - snapshot.first_kept;
        assert!(rebuilds || applied == snapshot.newest, "a purge is neither seen nor noticed");
        writer.join().unwrap();
    });
}
