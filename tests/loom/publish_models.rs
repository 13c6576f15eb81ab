//! Models of the hand-over from the writer to readers.

use loom::thread;

use crate::publish::{Published, Waited};
use crate::sync::{Arc, Duration};
use crate::{UNBOUNDED, explore};

/// A state whose parts must belong together, and to its version.
struct State {
    commit: u64,
    documents: u64,
}

fn state(commit: u64) -> Arc<State> {
    Arc::new(State { commit, documents: 10 * commit })
}

// spec: PUBLISH-1
#[test]
fn a_reader_sees_whole_states_whose_versions_only_rise() {
    explore(UNBOUNDED, 10, &["publish-torn"], || {
        let published = Arc::new(Published::new(state(0)));
        let shared = published.clone();
        let writer = thread::spawn(move || {
            assert_eq!(shared.publish(state(1)), 1);
            assert_eq!(shared.publish(state(2)), 2);
        });
        let mut last = 0;
        for _ in 0..3 {
            let (seen, version) = published.load_with_version();
            assert_eq!(seen.documents, 10 * seen.commit, "a state is whole");
            assert_eq!(seen.commit, version, "a state has its own version");
            assert!(seen.commit >= last, "versions only rise");
            last = seen.commit;
        }
        writer.join().unwrap();
        assert_eq!(published.load().commit, 2);
    });
}

// spec: PUBLISH-1
#[test]
fn two_readers_see_whole_states() {
    explore(Some(4), 500, &["publish-torn"], || {
        let published = Arc::new(Published::new(state(0)));
        let reader = || {
            let shared = published.clone();
            thread::spawn(move || {
                let (first, version) = shared.load_with_version();
                assert_eq!(first.commit, version, "a state has its own version");
                assert!(shared.load().commit >= version, "versions only rise");
            })
        };
        let readers = [reader(), reader()];
        published.publish(state(1));
        published.publish(state(2));
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

// case: B34
// spec: PUBLISH-2
#[test]
fn a_commit_at_any_point_of_a_scan_wakes_the_reader_that_waits_afterwards() {
    // The reader takes a snapshot, works through it, and waits; the writer commits once at any
    // point. Without a second commit the reader must come to see the first.
    explore(UNBOUNDED, 5, &["publish-lost-wakeup"], || {
        let published = Arc::new(Published::new(state(0)));
        let shared = published.clone();
        let reader = thread::spawn(move || {
            let (mut seen, mut version) = shared.load_with_version();
            while seen.commit == 0 {
                assert_eq!(shared.wait_newer(version, None), Waited::Newer);
                (seen, version) = shared.load_with_version();
            }
        });
        published.publish(state(1));
        reader.join().unwrap();
    });
}

// case: B34
// spec: PUBLISH-2
#[test]
fn every_waiter_wakes_for_the_version_it_waits_for() {
    explore(UNBOUNDED, 500, &["publish-lost-wakeup"], || {
        let published = Arc::new(Published::new(state(0)));
        let waiter = |seen| {
            let shared = published.clone();
            thread::spawn(move || {
                assert_eq!(shared.wait_newer(seen, None), Waited::Newer);
                assert!(shared.version() > seen);
            })
        };
        let waiters = [waiter(0), waiter(1)];
        published.publish(state(1));
        published.publish(state(2));
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

// spec: PUBLISH-3
#[test]
fn closing_wakes_a_reader_after_it_saw_everything() {
    explore(UNBOUNDED, 5, &["publish-silent-close"], || {
        let published = Arc::new(Published::new(state(0)));
        let shared = published.clone();
        let reader = thread::spawn(move || {
            let mut version = 0;
            while shared.wait_newer(version, None) == Waited::Newer {
                version = shared.load_with_version().1;
            }
            assert_eq!(version, 1, "what was published before the close is seen before the end");
            assert_eq!(shared.load().commit, 1, "a closed place still hands out its state");
        });
        published.publish(state(1));
        published.close();
        reader.join().unwrap();
    });
}

// spec: PUBLISH-2
#[test]
fn a_wait_that_times_out_tells_the_truth() {
    explore(UNBOUNDED, 5, &[], || {
        let published = Arc::new(Published::new(state(0)));
        let shared = published.clone();
        let reader =
            thread::spawn(move || match shared.wait_newer(0, Some(Duration::from_secs(1))) {
                Waited::Newer => assert_eq!(shared.version(), 1),
                Waited::TimedOut => assert!(shared.version() <= 1),
                Waited::Closed => panic!("nobody closed it"),
            });
        published.publish(state(1));
        reader.join().unwrap();
    });
}
