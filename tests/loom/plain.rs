//! What loom cannot say: time, and how many groups real threads need. On the engine's own types.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rereduce::commit_queue::CommitQueue;
use rereduce::mark;
use rereduce::publish::{Published, Waited};

// spec: PUBLISH-2, PUBLISH-3
#[test]
fn a_wait_ends_with_its_timeout_or_with_the_close() {
    let published = Published::new(std::sync::Arc::new(0));
    let short = Some(Duration::from_millis(1));
    assert_eq!(published.wait_newer(0, short), Waited::TimedOut);
    published.publish(std::sync::Arc::new(1));
    assert_eq!(published.wait_newer(0, short), Waited::Newer);
    assert_eq!(published.wait_newer(1, short), Waited::TimedOut);
    published.close();
    assert_eq!(published.wait_newer(0, short), Waited::Newer);
    assert_eq!(published.wait_newer(1, None), Waited::Closed);
}

/// How many groups `writers` threads need that each submit `rounds` requests one after the other,
/// with a patience that no scheduling delay outlasts.
fn groups_of_a_closed_loop(writers: u32, rounds: u32) -> u32 {
    let queue = CommitQueue::with_patience(Duration::from_secs(1));
    let groups = AtomicU32::new(0);
    let start = Barrier::new(writers as usize);
    let bug = mark::planted_here();
    let commit = |group: Vec<u32>| {
        groups.fetch_add(1, Ordering::Relaxed);
        // In place of a flush: everybody else may run.
        (0..100).for_each(|_| thread::yield_now());
        group
    };
    thread::scope(|scope| {
        for writer in 0..writers {
            let (queue, commit, start) = (&queue, &commit, &start);
            scope.spawn(move || {
                mark::plant(bug);
                start.wait();
                for round in 0..rounds {
                    let request = writer * rounds + round;
                    assert_eq!(queue.submit(request, commit), Ok(request));
                }
            });
        }
    });
    groups.into_inner()
}

// spec: QUEUE-3
#[test]
fn eight_writers_in_a_closed_loop_need_at_most_1_3_groups_per_eight_commits() {
    let (writers, rounds) = (8, 200);
    let groups = groups_of_a_closed_loop(writers, rounds);
    println!("commit queue: {groups} groups for {rounds} x {writers} commits");
    assert!(10 * groups <= 13 * rounds, "{groups} groups for {rounds} rounds");

    mark::plant(Some("queue-no-gathering"));
    let groups = groups_of_a_closed_loop(writers, rounds);
    mark::plant(None);
    println!("commit queue: {groups} groups without gathering");
    assert!(10 * groups > 13 * rounds, "{groups} groups even without gathering");
}

// spec: QUEUE-4
#[test]
fn a_lone_writer_never_waits() {
    let gatherings = || mark::hits().get("queue-gathering").copied().unwrap_or_default();
    let queue = CommitQueue::with_patience(Duration::from_millis(1));
    mark::reset();
    for request in 0..100 {
        assert_eq!(queue.submit(request, |group| group), Ok(request));
    }
    assert_eq!(gatherings(), 0);

    mark::plant(Some("queue-lone-wait"));
    assert_eq!(queue.submit(0, |group| group), Ok(0));
    mark::plant(None);
    assert_eq!(gatherings(), 1, "the mark is at the place where a leader waits");
}
