//! Group commit: writers that wait together share one commit and one flush.
//!
//! ```text
//! a  submit ─ leads [a] ──────── reply   submit ─ waits ─────────────── reply
//! b     submit ─ waits ─ leads [b c ·····a] ─ flush ─ reply
//! c       submit ─ waits ───────────────────────────── reply
//!                               ^ gathering: a was just released and comes back
//! ```
//!
//! A writer puts its request into the queue. If nobody is at work it becomes the leader: it takes
//! all waiting requests as one group, runs them, and hands the replies out; then one of those who
//! came meanwhile leads the next group.
//!
//! Writers in a loop come back right after they were released, and a leader that set off at once
//! would leave them all behind. So it gathers first: it waits for as many requests as there were
//! writers when the group before ended, but never longer than a moment after the last arrival. A
//! lone writer expects nobody and waits for nobody.
//!
//! Invariant: a request is in `waiting`, or in the one group at work, or has its reply in
//! `replies`, or its ticket is below `abandoned`. `tests/loom` runs this file under every
//! interleaving.

use crate::sync::{
    AssertUnwindSafe, BTreeMap, Condvar, Duration, Mutex, MutexGuard, catch_unwind, lock, mark,
    mem, resume_unwind, wait_while,
};

/// How long a leader waits for the next of the writers it expects: well below one flush of a
/// disk, and well above the time a thread takes to wake up and ask again.
pub const PATIENCE: Duration = Duration::from_micros(300);

/// A queue of requests that are run in groups, one group at a time.
///
/// ```
/// use rereduce::commit_queue::CommitQueue;
/// let queue = CommitQueue::new();
/// let double = |group: Vec<u32>| group.into_iter().map(|n| 2 * n).collect();
/// assert_eq!(queue.submit(21, double), Ok(42));
/// assert_eq!(queue.exclusive(|| "no group runs now"), Ok("no group runs now"));
/// ```
pub struct CommitQueue<Request, Reply> {
    state: Mutex<State<Request, Reply>>,
    /// Something to do for those who wait for a reply or for their turn.
    turn: Condvar,
    /// A request came while a leader may be gathering.
    arrival: Condvar,
    patience: Duration,
}

/// The request was not run to its end: the writer that ran its group panicked, or an earlier group
/// ended so. What it did up to then is not known; see [`CommitQueue::revive`].
///
/// ```
/// use rereduce::commit_queue::{Abandoned, CommitQueue};
/// let queue = CommitQueue::<u32, u32>::new();
/// let leader = || queue.submit(1, |_| panic!("a bug in the commit"));
/// assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(leader)).is_err());
/// assert_eq!(queue.submit(2, |group| group), Err(Abandoned));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned;

struct State<Request, Reply> {
    /// Requests with their tickets, in the order in which they came.
    waiting: Vec<(u64, Request)>,
    /// Replies that their writers have not picked up yet.
    replies: BTreeMap<u64, Reply>,
    next_ticket: u64,
    /// A ticket below this that has no reply will never get one.
    abandoned: u64,
    /// A leader or an exclusive section is at work.
    at_work: bool,
    /// How many wait for an exclusive section; they go before the next group.
    exclusives: usize,
    /// How many requests the next leader waits for.
    expected: usize,
    /// A leader panicked; nothing is run until [`CommitQueue::revive`].
    poisoned: bool,
}

impl<Request, Reply> Default for CommitQueue<Request, Reply> {
    fn default() -> Self {
        CommitQueue::new()
    }
}

impl<Request, Reply> CommitQueue<Request, Reply> {
    /// An empty queue with the usual [`PATIENCE`].
    pub fn new() -> Self {
        CommitQueue::with_patience(PATIENCE)
    }

    /// An empty queue whose leaders wait up to `patience` for each writer they expect.
    pub fn with_patience(patience: Duration) -> Self {
        let state = State {
            waiting: Vec::new(),
            replies: BTreeMap::new(),
            next_ticket: 0,
            abandoned: 0,
            at_work: false,
            exclusives: 0,
            expected: 1,
            poisoned: false,
        };
        CommitQueue {
            state: Mutex::new(state),
            turn: Condvar::new(),
            arrival: Condvar::new(),
            patience,
        }
    }

    /// Has `request` run in a group and returns its reply. If this writer becomes the leader,
    /// `run` is called once with the requests of the whole group, in the order in which they came,
    /// and must return as many replies in the same order; otherwise another writer's `run` does
    /// that. `run` must not use this queue.
    ///
    /// Errors: [`Abandoned`] if a leader panicked. A panic of this writer's own `run` goes on in
    /// this writer.
    // spec: QUEUE-1, QUEUE-2
    pub fn submit(
        &self,
        request: Request,
        run: impl FnOnce(Vec<Request>) -> Vec<Reply>,
    ) -> Result<Reply, Abandoned> {
        let mut state = lock(&self.state);
        if state.poisoned {
            return Err(Abandoned);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push((ticket, request));
        self.arrival.notify_one();
        let mut state = wait_while(&self.turn, state, None, |state| !state.has_news_for(ticket));
        if let Some(reply) = state.replies.remove(&ticket) {
            return Ok(reply);
        }
        if ticket < state.abandoned {
            return Err(Abandoned);
        }
        state.at_work = true;
        self.lead(self.gather(state), ticket, run)
    }

    /// Runs `run` alone: after the group at work, before the next one. For what must not happen
    /// during a commit: the last round of a compaction, closing. `run` must not use this queue.
    ///
    /// Errors: [`Abandoned`] if a leader panicked, then `run` is not called.
    // spec: QUEUE-2
    pub fn exclusive<T>(&self, run: impl FnOnce() -> T) -> Result<T, Abandoned> {
        let state = self.enter();
        if state.poisoned {
            drop(state);
            self.turn.notify_all();
            return Err(Abandoned);
        }
        Ok(self.alone(state, run, false))
    }

    /// Like [`CommitQueue::exclusive`], but also after a leader's panic; the queue then takes
    /// requests again. `run` must bring what the groups work on back to a known state.
    // spec: QUEUE-5
    pub fn revive<T>(&self, run: impl FnOnce() -> T) -> T {
        let state = self.enter();
        self.alone(state, run, true)
    }

    /// Waits, as the leader, for the writers that were released by the group before.
    // spec: QUEUE-3, QUEUE-4
    fn gather<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<Request, Reply>>,
    ) -> MutexGuard<'a, State<Request, Reply>> {
        let expected = match state.expected {
            _ if mark::planted("queue-no-gathering") => 1,
            1 if mark::planted("queue-lone-wait") => 2,
            expected => expected,
        };
        while state.waiting.len() < expected {
            mark::hit("queue-gathering");
            let before = state.waiting.len();
            state = wait_while(&self.arrival, state, Some(self.patience), |state| {
                state.waiting.len() == before
            });
            if state.waiting.len() == before {
                break;
            }
        }
        state
    }

    /// Runs everything that waits as one group and hands out the replies.
    // spec: QUEUE-1, QUEUE-5
    fn lead(
        &self,
        mut state: MutexGuard<'_, State<Request, Reply>>,
        own_ticket: u64,
        run: impl FnOnce(Vec<Request>) -> Vec<Reply>,
    ) -> Result<Reply, Abandoned> {
        let group = mem::take(&mut state.waiting);
        drop(state);
        let (tickets, requests): (Vec<u64>, Vec<Request>) = group.into_iter().unzip();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let replies = run(requests);
            assert_eq!(replies.len(), tickets.len(), "a group gets one reply a request");
            replies
        }));
        let mut state = lock(&self.state);
        let mut replies = match outcome {
            Ok(replies) => replies,
            Err(panic) => {
                self.abandon(state);
                resume_unwind(panic)
            }
        };
        if mark::planted("queue-swapped-replies") {
            replies.reverse();
        }
        state.expected = tickets.len() + state.waiting.len();
        let mut own = Err(Abandoned);
        for (ticket, reply) in tickets.into_iter().zip(replies) {
            // The leader's own request was waiting when it took the group, so its reply is there.
            if ticket == own_ticket {
                own = Ok(reply);
            } else {
                state.replies.insert(ticket, reply);
            }
        }
        state.at_work = false;
        drop(state);
        if mark::planted("queue-one-woken") {
            self.turn.notify_one();
        } else {
            self.turn.notify_all();
        }
        own
    }

    /// Waits until nobody is at work, before all who wait to lead a group.
    fn enter(&self) -> MutexGuard<'_, State<Request, Reply>> {
        let mut state = lock(&self.state);
        state.exclusives += 1;
        let mut state = wait_while(&self.turn, state, None, |state| {
            state.at_work && !mark::planted("queue-exclusive-beside")
        });
        state.exclusives -= 1;
        state
    }

    fn alone<T>(
        &self,
        mut state: MutexGuard<'_, State<Request, Reply>>,
        run: impl FnOnce() -> T,
        revives: bool,
    ) -> T {
        state.at_work = true;
        drop(state);
        let outcome = catch_unwind(AssertUnwindSafe(run));
        let mut state = lock(&self.state);
        match outcome {
            Ok(value) => {
                state.at_work = false;
                state.poisoned &= !revives;
                drop(state);
                self.turn.notify_all();
                value
            }
            Err(panic) => {
                self.abandon(state);
                resume_unwind(panic)
            }
        }
    }

    /// Ends the work of a leader that panicked: nobody waits for it any longer.
    fn abandon(&self, mut state: MutexGuard<'_, State<Request, Reply>>) {
        state.poisoned = true;
        state.abandoned = state.next_ticket;
        state.at_work = mark::planted("queue-panic-unnoticed");
        let dropped = mem::take(&mut state.waiting);
        drop(state);
        self.turn.notify_all();
        drop(dropped);
    }
}

impl<Request, Reply> State<Request, Reply> {
    /// Whether the writer with `ticket` has a reply, will never get one, or is to lead.
    fn has_news_for(&self, ticket: u64) -> bool {
        self.replies.contains_key(&ticket)
            || ticket < self.abandoned
            || (!self.at_work && self.exclusives == 0)
    }
}
