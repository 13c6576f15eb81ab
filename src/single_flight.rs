//! One at a time brings something up to date, and all who wait share what comes of it.
//!
//! ```text
//!   wants 7 ── takes the worker, works up to 7 ──┬─> has 7
//!   wants 7 ── waits ────────────────────────────┼─> has 7, and did nothing
//!   wants 9 ── waits ────────────────────────────┴─> takes the worker, works up to 9 ──> has 9
//! ```
//!
//! A *flight* is one piece of work, from taking the worker to giving it back. The state that a
//! flight ends with is kept for all who come later; its failure is told to those alone who waited
//! for it.
//!
//! Invariant: the worker is in one hand, and whoever takes it has looked, since it was free, that
//! the newest state is not enough. `tests/loom` runs this file under every interleaving.

use crate::sync::{Condvar, Mutex, lock, mark, mem, wait_while};

/// A state `S` that a worker `W` brings up to date; its failures are `F`.
///
/// ```
/// use rereduce::single_flight::SingleFlight;
/// let flights: SingleFlight<u32, Vec<u32>, String> = SingleFlight::new(Vec::new());
/// let up_to = |wanted: u32| {
///     let reached = |state: &u32| Ok(*state >= wanted);
///     flights.bring_up(&reached, &|_| true, |done| {
///         done.push(wanted);
///         Ok(wanted)
///     })
/// };
/// assert_eq!((up_to(7), up_to(5), up_to(9)), (Ok(7), Ok(7), Ok(9)));
/// assert_eq!(flights.alone(|done| done.clone()), [7, 9]);
/// ```
pub struct SingleFlight<S, W, F> {
    inner: Mutex<Inner<S, W, F>>,
    landed: Condvar,
}

struct Inner<S, W, F> {
    state: Option<S>,
    /// How often the state was put in place.
    version: u64,
    /// `None` while it is in somebody's hand.
    worker: Option<W>,
    /// Flights that have ended.
    flights: u64,
    waiting: u64,
    /// What went wrong in the flight that ended last, while those who waited for it look.
    failure: Option<F>,
}

impl<S: Clone, W, F: Clone> SingleFlight<S, W, F> {
    /// Begins without a state.
    pub fn new(worker: W) -> SingleFlight<S, W, F> {
        let inner = Inner {
            state: None,
            version: 0,
            worker: Some(worker),
            flights: 0,
            waiting: 0,
            failure: None,
        };
        SingleFlight { inner: Mutex::new(inner), landed: Condvar::new() }
    }

    /// The newest state, if there is one. Never waits for a flight.
    pub fn state(&self) -> Option<S> {
        lock(&self.inner).state.clone()
    }

    /// Replaces the state by what `change` makes of it, if that is anything. A flight that ends
    /// meanwhile is newer, and its state stays.
    pub fn replace(&self, change: impl FnOnce(&S) -> Option<S>) {
        let (Some(state), version) = self.state_and_version() else { return };
        let Some(changed) = change(&state) else { return };
        let mut inner = lock(&self.inner);
        if inner.version == version {
            inner.version += 1;
            inner.state = Some(changed);
        }
    }

    /// How many wait for a flight to end.
    pub fn waiting(&self) -> u64 {
        lock(&self.inner).waiting
    }

    /// Gives a state for which `reached` holds: the newest one, or what a flight ends with that
    /// others have begun, or else what `work` ends with. If the flight that was waited for fails
    /// and `shared` holds for its failure, that is the answer; otherwise the next flight begins.
    ///
    /// `reached` and `work` run without a lock. A panic of `work` ends its flight, and the worker
    /// is free for the next.
    // spec: FLIGHT-1, FLIGHT-2, FLIGHT-3
    pub fn bring_up(
        &self,
        reached: &dyn Fn(&S) -> Result<bool, F>,
        shared: &dyn Fn(&F) -> bool,
        work: impl FnOnce(&mut W) -> Result<S, F>,
    ) -> Result<S, F> {
        let mut has_waited = false;
        let worker = loop {
            let (state, version) = self.state_and_version();
            if let Some(state) = state
                && reached(&state)?
            {
                if has_waited {
                    mark::hit("flight-shared");
                }
                return Ok(state);
            }
            let mut inner = lock(&self.inner);
            if inner.version != version && !mark::planted("flight-without-another-look") {
                continue;
            }
            if let Some(worker) = inner.worker.take() {
                break worker;
            }
            has_waited = true;
            if let Some(failure) = self.wait_for_flight(inner)
                && shared(&failure)
            {
                mark::hit("flight-failure-shared");
                return Err(failure);
            }
        };
        let mut flight = Flight { flights: self, worker: Some(worker), ended: None };
        // The worker is there until the flight is dropped.
        let outcome = flight.worker.as_mut().map(work);
        let outcome = outcome.unwrap_or_else(|| unreachable!("a flight has its worker"));
        flight.ended = Some(outcome.clone());
        drop(flight);
        outcome
    }

    /// Runs `work` with the worker while nobody else has it.
    // spec: FLIGHT-4
    pub fn alone<T>(&self, work: impl FnOnce(&mut W) -> T) -> T {
        let worker = loop {
            let mut inner = lock(&self.inner);
            match inner.worker.take() {
                Some(worker) => break worker,
                None => drop(self.wait_for_flight(inner)),
            }
        };
        let mut flight = Flight { flights: self, worker: Some(worker), ended: None };
        let done = flight.worker.as_mut().map(work);
        done.unwrap_or_else(|| unreachable!("a flight has its worker"))
    }

    fn state_and_version(&self) -> (Option<S>, u64) {
        let inner = lock(&self.inner);
        (inner.state.clone(), inner.version)
    }

    /// Waits until the flight that is in the air ends; its failure, if it failed and none has
    /// ended since.
    fn wait_for_flight(&self, mut inner: crate::sync::MutexGuard<'_, Inner<S, W, F>>) -> Option<F> {
        let seen = inner.flights;
        inner.waiting += 1;
        let mut inner = wait_while(&self.landed, inner, None, |inner| inner.flights == seen);
        inner.waiting -= 1;
        let failure = inner.failure.clone();
        if inner.waiting == 0 {
            // It may hold much, and nobody is left to look at it.
            inner.failure = None;
        }
        failure
    }
}

/// A piece of work that has begun. Dropping it ends it, whatever became of it.
struct Flight<'a, S: Clone, W, F: Clone> {
    flights: &'a SingleFlight<S, W, F>,
    worker: Option<W>,
    /// `None` if there is nothing to tell: the work panicked, or was no update.
    ended: Option<Result<S, F>>,
}

impl<S: Clone, W, F: Clone> Drop for Flight<'_, S, W, F> {
    fn drop(&mut self) {
        let mut inner = lock(&self.flights.inner);
        inner.worker = self.worker.take();
        inner.flights += 1;
        let mut before = None;
        let mut failure = None;
        match self.ended.take() {
            Some(Ok(state)) => {
                inner.version += 1;
                before = inner.state.replace(state);
            }
            Some(Err(failed)) if inner.waiting > 0 => failure = Some(failed),
            _ => {}
        }
        let old = mem::replace(&mut inner.failure, failure);
        drop(inner);
        if !mark::planted("flight-wakes-nobody") {
            self.flights.landed.notify_all();
        }
        // States may hold whole caches, whose end is not for under the lock.
        drop((before, old));
    }
}
