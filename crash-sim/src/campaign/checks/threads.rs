//! Real threads on the commit queue and on the place where states are published.
//!
//! Invariant: what is asserted holds under every schedule, and a wait is only called lost after
//! seconds in which nothing came, so that a slow machine raises no alarm.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rereduce::commit_queue::{Abandoned, CommitQueue};
use rereduce::mark;
use rereduce::publish::{Published, Waited};

use super::{Outcome, expect};
use crate::campaign::Context;
use crate::oracle::guarded;

/// A thread that did nothing for so long is lost.
const LOST: Duration = Duration::from_secs(3);

const WRITERS: u32 = 4;
const ROUNDS: u32 = 30;

pub(super) fn queue_and_publish(_: &Context) -> Outcome {
    a_commit_before_the_wait_ends_it()?;
    a_close_ends_every_wait()?;
    states_go_with_their_versions()?;
    a_lone_writer_never_waits()?;
    everybody_gets_an_own_reply()?;
    writers_in_a_loop_share_groups()?;
    nothing_runs_beside_an_exclusive_section()?;
    a_panic_is_over_when_the_queue_is_revived()
}

/// Runs `work` in a thread of its own, with this thread's planted bug; the receiver hears when it
/// is done. A thread that never is stays behind: that is what was to be found out.
fn start<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
    let (done, receiver) = mpsc::channel();
    let planted = mark::planted_here();
    std::thread::spawn(move || {
        mark::plant(planted);
        let result = guarded(|| Ok(work()));
        // Nobody listens any more if another thread was found lost before.
        result.map(|result| done.send(result).is_ok())
    });
    receiver
}

/// What a thread says at its end, however slow the machine is: it is lost if `progress` stands.
fn heard<R>(thread: &Receiver<R>, progress: &AtomicU32) -> Result<R, &'static str> {
    loop {
        let before = progress.load(Ordering::Acquire);
        match thread.recv_timeout(LOST) {
            Ok(said) => return Ok(said),
            Err(_) if progress.load(Ordering::Acquire) != before => {}
            Err(_) => return Err("a thread waits for ever"),
        }
    }
}

fn a_commit_before_the_wait_ends_it() -> Outcome {
    let published = Published::new(Arc::new(0));
    let (_, seen) = published.load_with_version();
    published.publish(Arc::new(1));
    let waited = published.wait_newer(seen, Some(Duration::ZERO));
    expect(waited == Waited::Newer, format!("a commit before the wait: {waited:?}"))
}

fn a_close_ends_every_wait() -> Outcome {
    for _ in 0..5 {
        let published = Arc::new(Published::new(Arc::new(0)));
        let (waits, shared) = (Arc::new(AtomicBool::new(false)), published.clone());
        let tells = waits.clone();
        let waiter = start(move || {
            tells.store(true, Ordering::Release);
            shared.wait_newer(0, None)
        });
        while !waits.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        // Most of the time the other thread sleeps by now; whether it does changes no answer.
        (0..100).for_each(|_| std::thread::yield_now());
        published.close();
        let waited = waiter.recv_timeout(LOST);
        if waited.is_err() {
            // Whatever was found, the thread can go.
            published.publish(Arc::new(1));
        }
        expect(waited == Ok(Waited::Closed), format!("a close while a reader waits: {waited:?}"))?;
    }
    Ok(())
}

fn states_go_with_their_versions() -> Outcome {
    let published = Arc::new(Published::new(Arc::new(0)));
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<Receiver<Option<(u64, u64)>>> = (0..2)
        .map(|_| {
            let (published, over) = (published.clone(), over.clone());
            start(move || {
                let mut last = 0;
                while !over.load(Ordering::Acquire) {
                    let (state, version) = published.load_with_version();
                    if *state != version || version < last {
                        return Some((*state, version));
                    }
                    last = version;
                }
                None
            })
        })
        .collect();
    for number in 1..=100_000 {
        published.publish(Arc::new(number));
    }
    over.store(true, Ordering::Release);
    for reader in readers {
        let torn = reader.recv_timeout(LOST)?;
        expect(torn.is_none(), format!("a state with another's version: {torn:?}"))?;
    }
    Ok(())
}

fn a_lone_writer_never_waits() -> Outcome {
    const PATIENCE: Duration = Duration::from_millis(250);
    let queue = CommitQueue::with_patience(PATIENCE);
    let began = Instant::now();
    for request in 0..8 {
        let reply = queue.submit(request, |group| group);
        expect(reply == Ok(request), format!("request {request} got {reply:?}"))?;
    }
    let waited = began.elapsed() >= 8 * PATIENCE;
    expect(!waited, "a lone writer waited for others each time")
}

/// Writers that submit one request after the other. Says how many groups they needed, or that
/// somebody is lost.
fn closed_loop(patience: Duration) -> Result<u32, Box<dyn std::error::Error>> {
    let queue = Arc::new(CommitQueue::with_patience(patience));
    let (groups, barrier) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(WRITERS as usize)));
    let writers: Vec<Receiver<Result<(), String>>> = (0..WRITERS)
        .map(|writer| {
            let (queue, groups, barrier) = (queue.clone(), groups.clone(), barrier.clone());
            start(move || {
                barrier.wait();
                for request in writer * ROUNDS..(writer + 1) * ROUNDS {
                    let reply = queue.submit(request, |group: Vec<u32>| {
                        groups.fetch_add(1, Ordering::Relaxed);
                        (0..10).for_each(|_| std::thread::yield_now());
                        group
                    });
                    if reply != Ok(request) {
                        return Err(format!("request {request} got {reply:?}"));
                    }
                }
                Ok(())
            })
        })
        .collect();
    for writer in writers {
        heard(&writer, &groups)??;
    }
    Ok(groups.load(Ordering::Relaxed))
}

fn everybody_gets_an_own_reply() -> Outcome {
    closed_loop(Duration::from_micros(300)).map(drop)
}

/// With a patience that delays of the scheduler do not use up, groups are as large as they can be.
fn writers_in_a_loop_share_groups() -> Outcome {
    let most = ROUNDS * 3 / 2;
    let mut groups = u32::MAX;
    for _ in 0..3 {
        groups = groups.min(closed_loop(Duration::from_millis(300))?);
        if groups <= most {
            return Ok(());
        }
    }
    expect(false, format!("{groups} groups for {ROUNDS} rounds of {WRITERS} writers"))
}

fn nothing_runs_beside_an_exclusive_section() -> Outcome {
    let queue = Arc::new(CommitQueue::new());
    let (inside, visits) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let visit = {
        let (inside, visits) = (inside, visits.clone());
        move || {
            let alone = inside.fetch_add(1, Ordering::AcqRel) == 0;
            (0..5).for_each(|_| std::thread::yield_now());
            inside.fetch_sub(1, Ordering::AcqRel);
            visits.fetch_add(1, Ordering::AcqRel);
            alone
        }
    };
    let (shared, within) = (queue.clone(), visit.clone());
    let writer = start(move || {
        (0..100).all(|_| shared.submit((), |group| vec![within(); group.len()]) == Ok(true))
    });
    let alone = (0..100).all(|_| queue.exclusive(&visit) == Ok(true));
    let undisturbed = heard(&writer, &visits)?;
    expect(alone && undisturbed, "a group ran beside an exclusive section")
}

fn a_panic_is_over_when_the_queue_is_revived() -> Outcome {
    let queue = Arc::new(CommitQueue::<u32, u32>::new());
    let shared = queue.clone();
    // The thread ends in its panic, so that nothing comes from it.
    let _ = start(move || shared.submit(1, |_| panic!("a bug in a commit"))).recv_timeout(LOST);
    let refused = queue.submit(2, |group| group);
    expect(refused == Err(Abandoned), format!("after a panic: {refused:?}"))?;
    let shared = queue.clone();
    let revived = start(move || shared.revive(|| "revived")).recv_timeout(LOST);
    expect(revived == Ok("revived"), "a queue is not revived after a panic")?;
    let reply = queue.submit(3, |group| group);
    expect(reply == Ok(3), format!("a revived queue replies {reply:?}"))
}
