//! Models of group commit.

use std::sync::Mutex as StdMutex;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::commit_queue::{Abandoned, CommitQueue};
use crate::sync::{Arc, AssertUnwindSafe, catch_unwind, mark};
use crate::{UNBOUNDED, explore};

/// What the groups work on: notes which requests were run, and that nobody else was at work.
///
/// The notes are behind std's locks, which are no steps to loom. At `busy`, which is loom's, any
/// other thread may go on.
struct Log {
    run: StdMutex<Vec<u32>>,
    groups: StdMutex<Vec<usize>>,
    busy: AtomicBool,
}

impl Log {
    fn new() -> Log {
        Log { run: StdMutex::default(), groups: StdMutex::default(), busy: AtomicBool::new(false) }
    }

    /// Runs one group; the reply to a request is ten times the request.
    fn commit(&self, group: Vec<u32>) -> Vec<u32> {
        self.alone(|| {
            self.groups.lock().unwrap().push(group.len());
            self.run.lock().unwrap().extend(&group);
        });
        group.into_iter().map(|request| 10 * request).collect()
    }

    fn alone(&self, work: impl FnOnce()) {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two are at work at once");
        work();
        self.busy.store(false, Ordering::SeqCst);
    }

    fn assert_each_was_run_once(&self, requests: &[u32]) {
        let mut run = self.run.lock().unwrap().clone();
        run.sort();
        assert_eq!(run, requests);
        let groups = self.groups.lock().unwrap();
        assert!(groups.iter().all(|&size| size > 0), "an empty group was run");
    }
}

type Shared = Arc<(CommitQueue<u32, u32>, Log)>;

fn shared() -> Shared {
    Arc::new((CommitQueue::new(), Log::new()))
}

fn submit(shared: &Shared, request: u32) {
    let (queue, log) = &**shared;
    let reply = queue.submit(request, |group| log.commit(group));
    assert_eq!(reply, Ok(10 * request), "a reply goes to the writer that asked");
}

fn writer(shared: &Shared, requests: &'static [u32]) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || {
        for &request in requests {
            submit(&shared, request);
        }
    })
}

// spec: QUEUE-1, QUEUE-2
#[test]
fn two_writers_get_their_own_replies() {
    explore(UNBOUNDED, 10, &[], || {
        let shared = shared();
        let other = writer(&shared, &[1]);
        submit(&shared, 2);
        other.join().unwrap();
        shared.1.assert_each_was_run_once(&[1, 2]);
    });
}

// spec: QUEUE-1, QUEUE-2
#[test]
fn three_writers_get_their_own_replies_and_every_leader_hands_over() {
    explore(UNBOUNDED, 10_000, &["queue-swapped-replies"], || {
        let shared = shared();
        let others = [writer(&shared, &[1]), writer(&shared, &[2])];
        submit(&shared, 3);
        for other in others {
            other.join().unwrap();
        }
        shared.1.assert_each_was_run_once(&[1, 2, 3]);
    });
}

// spec: QUEUE-1, QUEUE-2
#[test]
fn the_writers_of_one_group_all_get_their_replies() {
    // One writer leads alone while three come; one of the three then has two replies to hand out.
    explore(Some(2), 1_000, &["queue-one-woken", "queue-swapped-replies"], || {
        let shared = shared();
        let others = [writer(&shared, &[1]), writer(&shared, &[2]), writer(&shared, &[3])];
        submit(&shared, 4);
        for other in others {
            other.join().unwrap();
        }
        shared.1.assert_each_was_run_once(&[1, 2, 3, 4]);
    });
}

// spec: QUEUE-1, QUEUE-3
#[test]
fn a_leader_that_gathers_meets_writers_that_come_back() {
    explore(UNBOUNDED, 1_000, &[], || {
        let shared = shared();
        let other = writer(&shared, &[1, 2]);
        submit(&shared, 3);
        submit(&shared, 4);
        other.join().unwrap();
        shared.1.assert_each_was_run_once(&[1, 2, 3, 4]);
    });
    assert!(mark::was_hit("queue-gathering"));
}

// spec: QUEUE-2
#[test]
fn an_exclusive_section_runs_between_groups() {
    explore(UNBOUNDED, 10_000, &["queue-exclusive-beside", "queue-one-woken"], || {
        let shared = shared();
        let other = writer(&shared, &[1]);
        let third = writer(&shared, &[2]);
        let (queue, log) = &*shared;
        assert_eq!(queue.exclusive(|| log.alone(|| ())), Ok(()));
        other.join().unwrap();
        third.join().unwrap();
        log.assert_each_was_run_once(&[1, 2]);
    });
}

// spec: QUEUE-2
#[test]
fn two_exclusive_sections_take_turns() {
    explore(UNBOUNDED, 10_000, &["queue-exclusive-beside"], || {
        let shared = shared();
        let other = writer(&shared, &[1]);
        let copy = shared.clone();
        let section = thread::spawn(move || copy.0.exclusive(|| copy.1.alone(|| ())).unwrap());
        let (queue, log) = &*shared;
        assert_eq!(queue.exclusive(|| log.alone(|| ())), Ok(()));
        other.join().unwrap();
        section.join().unwrap();
        log.assert_each_was_run_once(&[1]);
    });
}

// spec: QUEUE-5
#[test]
fn a_leader_that_panics_leaves_nobody_waiting() {
    // Of two writers the one with request 1 panics when it leads.
    explore(UNBOUNDED, 10, &["queue-panic-unnoticed"], || {
        let shared = shared();
        let attempt = |shared: Shared, panics: bool| {
            let (queue, log) = &*shared;
            let run = |group| if panics { panic!("planned") } else { log.commit(group) };
            catch_unwind(AssertUnwindSafe(|| queue.submit(u32::from(panics), run)))
        };
        let copy = shared.clone();
        let other = thread::spawn(move || attempt(copy, true));
        let mine = attempt(shared.clone(), false).expect("only its own run panics in a writer");
        let panicked = other.join().unwrap().is_err();
        assert!(mine == Ok(0) || (panicked && mine == Err(Abandoned)));
        if panicked {
            let (queue, log) = &*shared;
            assert_eq!(queue.submit(2, |group| log.commit(group)), Err(Abandoned));
            assert_eq!(queue.exclusive(|| ()), Err(Abandoned));
            queue.revive(|| ());
        }
        submit(&shared, 2);
    });
}

// case: B08
// spec: QUEUE-1
#[test]
fn a_group_in_which_every_request_is_rejected_leaves_the_queue_live() {
    explore(UNBOUNDED, 10, &[], || {
        let shared = Arc::new(CommitQueue::<u32, Result<u32, &str>>::new());
        let reject = |group: Vec<u32>| group.iter().map(|_| Err("conflict")).collect();
        let copy = shared.clone();
        let other = thread::spawn(move || copy.submit(1, reject));
        assert_eq!(shared.submit(2, reject), Ok(Err("conflict")));
        assert_eq!(other.join().unwrap(), Ok(Err("conflict")));
        assert_eq!(shared.submit(3, |group| group.into_iter().map(Ok).collect()), Ok(Ok(3)));
    });
}
