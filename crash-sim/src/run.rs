//! Runs a workload on a disk whose calls fail by plan, and compares every answer with the model.
//!
//! ```text
//! operation      the disk        what must hold
//! acknowledged   whatever        readers see the model's next state
//! failed         a call failed   readers see the state before; the next one is in doubt
//! failed         wrote badly     also: the handle refuses every write until it is opened anew
//! the end        faults lifted   it opens, shows a state that may be, works on, opens once more
//! ```
//!
//! Invariant: an operation may fail only if a call failed in it, or because an earlier failed write
//! made the handle refuse; whatever succeeds is right.

use std::path::Path;

use rereduce::env::Env;
use rereduce::{Error, ErrorClass};

use crate::disk::{Badly, SimDisk};
use crate::fault::FaultKind;
use crate::oracle::{DATABASE, environment, guarded};
use crate::plan::Plan;
use crate::target::Target;
use crate::trace::Entry;

/// Operations that a run makes after its last one if calls failed before.
const AFTER_FAILURE_OPERATIONS: usize = 3;

/// Operations among which one is sought that changes the state.
const PROBES_MAX: usize = 40;

/// A run of a workload, and what may be found at each point of it.
pub struct Recording<T: Target> {
    /// All calls, with notes of what began and what was acknowledged.
    pub trace: Vec<Entry>,
    /// The model's states: `states[n]` is what it holds after `n` operations.
    pub states: Vec<T::State>,
    /// States that failed operations may have left.
    pub doubts: Vec<Doubt<T::State>>,
}

/// What an operation that failed may have left behind.
pub struct Doubt<S> {
    /// The operation, counted from 1.
    pub operation: usize,
    /// The first later operation that changed something and was acknowledged: then the doubt ends.
    pub settled_by: usize,
    /// The state as if it had worked.
    pub state: S,
}

/// What a run showed about failing calls, also if something was wrong in it.
///
/// ```
/// let evidence = rereduce_crash_sim::Evidence::default();
/// assert_eq!((evidence.failures, evidence.poisonings, evidence.refusals), (0, 0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Calls that suffered each kind of fault, in the order of [`FaultKind::ALL`].
    pub struck: [u64; FaultKind::ALL.len()],
    /// Calls that failed, so that the engine could tell.
    pub failures: u64,
    /// How often a write or flush of the database failed, and a further write was tried.
    pub poisonings: u64,
    /// How often that further write was refused, and changed nothing.
    pub refusals: u64,
}

impl Evidence {
    /// Whether any call suffered a fault.
    pub fn is_struck(&self) -> bool {
        self.struck.iter().any(|count| *count > 0)
    }

    /// Adds what happened to the calls of a run on `disk`.
    pub(crate) fn note(&mut self, disk: &SimDisk) {
        self.failures += disk.failures();
        for (mine, kind) in self.struck.iter_mut().zip(FaultKind::ALL) {
            *mine += disk.struck(kind);
        }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: Evidence) {
        for (mine, others) in self.struck.iter_mut().zip(other.struck) {
            *mine += others;
        }
        self.failures += other.failures;
        self.poisonings += other.poisonings;
        self.refusals += other.refusals;
    }
}

/// Runs `ops` on an empty recording disk whose calls fail as `plan` says, and compares with the
/// model after each operation.
///
/// After a failure the faults are lifted at the end, the database is opened once more, and a few
/// more operations must work.
///
/// # Errors
///
/// What went wrong, for people: an operation failed though no call had, or something was wrong.
pub fn record<T: Target>(
    target: &T,
    ops: &[T::Op],
    seed: u64,
    plan: &Plan,
) -> Result<Recording<T>, String> {
    record_evidence(target, ops, seed, plan, &mut Evidence::default())
}

/// The same as [`record`], and adds to `evidence` what the run showed until it ended.
///
/// # Errors
///
/// Those of [`record`].
// spec: CRASH-10, CRASH-11
pub fn record_evidence<T: Target>(
    target: &T,
    ops: &[T::Op],
    seed: u64,
    plan: &Plan,
    evidence: &mut Evidence,
) -> Result<Recording<T>, String> {
    let disk = SimDisk::new();
    disk.set_plan(plan.clone());
    let recorded = guarded(|| {
        let env = environment(&disk, seed);
        let states = vec![target.empty()];
        let disk = disk.clone();
        let mut run =
            Run { target, disk, env, seed, handle: None, states, doubts: Vec::new(), evidence };
        run.open()?;
        for op in ops {
            run.step(op)?;
        }
        if run.disk.is_struck() {
            run.work_on()?;
        }
        run.handle = None;
        Ok(Recording { trace: run.disk.trace(), states: run.states, doubts: run.doubts })
    });
    evidence.note(&disk);
    recorded
}

/// A run at work.
struct Run<'a, T: Target> {
    target: &'a T,
    disk: SimDisk,
    env: Env,
    seed: u64,
    handle: Option<T::Handle>,
    states: Vec<T::State>,
    doubts: Vec<Doubt<T::State>>,
    evidence: &'a mut Evidence,
}

/// How far the disk was at some moment.
#[derive(Clone, Copy)]
struct Moment {
    entries: usize,
    changes: u64,
    failures: u64,
}

impl Moment {
    fn now(disk: &SimDisk) -> Moment {
        Moment { entries: disk.entry_count(), changes: disk.changes(), failures: disk.failures() }
    }
}

impl<T: Target> Run<'_, T> {
    /// Opens the database, unless a planned failure keeps it from opening.
    fn open(&mut self) -> Result<(), String> {
        let before = self.disk.failures();
        match self.target.open(&self.env, Path::new(DATABASE)) {
            Ok(handle) => self.handle = Some(handle),
            Err(_) if self.disk.failures() > before => {}
            Err(error) => return Err(format!("open, with no call failing: {error}")),
        }
        Ok(())
    }

    fn step(&mut self, op: &T::Op) -> Result<(), String> {
        if self.handle.is_none() {
            self.open()?;
            self.look("opening again")?;
        }
        let number = self.states.len();
        let expected = self.target.expect(&self.states[number - 1], op);
        let Some(handle) = &mut self.handle else { return Ok(()) };
        self.disk.note(Entry::Began(number));
        let before = Moment::now(&self.disk);
        match self.target.apply(handle, op) {
            Ok(()) => self.acknowledged(number, op, expected)?,
            Err(error) => self.failed(number, op, expected, &error, before)?,
        }
        match self.written_badly_since(before) {
            Some(_) => self.refuses_writes(op),
            None => Ok(()),
        }
    }

    fn acknowledged(
        &mut self,
        number: usize,
        op: &T::Op,
        expected: T::State,
    ) -> Result<(), String> {
        self.disk.note(Entry::Acknowledged(number));
        let settles = expected != self.states[number - 1];
        self.states.push(expected);
        self.look(&op.to_string())?;
        if settles {
            for doubt in &mut self.doubts {
                doubt.settled_by = doubt.settled_by.min(number);
            }
        }
        Ok(())
    }

    fn failed(
        &mut self,
        number: usize,
        op: &T::Op,
        expected: T::State,
        error: &Error,
        before: Moment,
    ) -> Result<(), String> {
        let failures = self.disk.failures();
        let refused = failures > 0 && error.class() == ErrorClass::Refused;
        if failures == before.failures && !refused {
            return Err(format!("{op}, with no call failing: {error}"));
        }
        self.states.push(self.states[number - 1].clone());
        let after = format!("the failure of {op}");
        // Readers stay on the last acknowledged commit whatever the disk may hold.
        if self.written_badly_since(before) == Some(Badly::File) {
            self.look(&after)?;
        }
        // What was never written cannot come back.
        if self.disk.changes() > before.changes {
            let settled_by = usize::MAX;
            self.doubts.push(Doubt { operation: number, settled_by, state: expected });
        }
        self.look(&after)
    }

    fn written_badly_since(&self, before: Moment) -> Option<Badly> {
        self.disk.written_badly_since(before.entries, Path::new(DATABASE))
    }

    /// Reads everything; what can be read must be the newest state or one in doubt.
    fn look(&mut self, after: &str) -> Result<(), String> {
        let before = self.disk.failures();
        let excused = |disk: &SimDisk| disk.failures() > before;
        let Some(handle) = &self.handle else { return Ok(()) };
        let found = match self.target.state(handle) {
            Ok(found) => found,
            Err(_) if excused(&self.disk) => return Ok(()),
            // Closing failed, and it is closed.
            Err(error) if before > 0 && error.class() == ErrorClass::Refused => return Ok(()),
            Err(error) => return Err(format!("after {after}, read: {error}")),
        };
        match self.target.check(handle) {
            Err(error) if !excused(&self.disk) => Err(format!("after {after}, check: {error}")),
            _ => self.adopt(&found, after),
        }
    }

    /// Goes on from `found`, if it is the newest state or one in doubt.
    fn adopt(&mut self, found: &T::State, after: &str) -> Result<(), String> {
        let doubted =
            |doubt: &Doubt<T::State>| doubt.settled_by == usize::MAX && doubt.state == *found;
        let newest = self.states.len() - 1;
        if self.states[newest] == *found {
            return Ok(());
        }
        if self.doubts.iter().any(doubted) {
            // The state as it was stays possible until something settles it.
            let state = std::mem::replace(&mut self.states[newest], found.clone());
            self.doubts.push(Doubt { operation: newest, settled_by: usize::MAX, state });
            return Ok(());
        }
        Err(format!("after {after}: expected {:?}, found {found:?}", self.states[newest]))
    }

    /// After a failed write or flush of the database: one more write must be refused without a call
    /// that changes the disk.
    fn refuses_writes(&mut self, op: &T::Op) -> Result<(), String> {
        let Some(handle) = &mut self.handle else { return Ok(()) };
        let newest = &self.states[self.states.len() - 1];
        let changes = |probe: &T::Op| self.target.expect(newest, probe) != *newest;
        let probes = self.target.generate(PROBES_MAX, self.seed);
        let Some(probe) = probes.into_iter().find(changes) else { return Ok(()) };
        let before = Moment::now(&self.disk);
        let answer = self.target.apply(handle, &probe);
        let wrote = self.disk.changes() > before.changes;
        if self.disk.failures() > before.failures && answer.is_err() && !wrote {
            // It could not even read what it would change.
            return Ok(());
        }
        self.evidence.poisonings += 1;
        let refused = matches!(&answer, Err(error) if error.class() == ErrorClass::Refused);
        if refused && !wrote {
            self.evidence.refusals += 1;
            return Ok(());
        }
        let answer = answer.map_or_else(|error| error.to_string(), |()| "done".to_owned());
        Err(format!(
            "after a write failed in {op}, the handle must refuse {probe}; it said: {answer}"
        ))
    }

    /// The faults are lifted: it opens, works, and opens once more.
    fn work_on(&mut self) -> Result<(), String> {
        self.handle = None;
        self.disk.set_plan(Plan::default());
        self.open()?;
        self.look("opening after a failure")?;
        for op in self.target.generate(AFTER_FAILURE_OPERATIONS, self.seed) {
            self.step(&op)?;
        }
        self.handle = None;
        self.open()?;
        self.look("a few more operations and a reopen")
    }
}
