//! A database, the index of a view over it, and who brings the index up to date.
//!
//! ```text
//! database   commit 1 ── 2 ── 3 ── 4        by_seq:  b 2   a 4      purges: 1 (a)
//!                        ^         ^
//!                   index was     a query's snapshot
//!
//! index      { of commit 4, up to sequence 2, purges up to 1, rows }
//! ```
//!
//! A query takes a snapshot and brings the index up to it: first the purges the index has not
//! seen, then what changed behind the index's sequence, one batch after another, each batch one
//! commit of the index (how that commit reaches the disk is the business of [`crate::commit`]).
//! A batch records the snapshot's commit, its own sequence, and the purges it has seen. Crashes
//! lose the batch in flight or keep it whole. The index file is compacted meanwhile.
//!
//! The index may be *behind* its database (the usual case), *ahead* of it (the database was
//! restored from a backup) or *beside* it (restored, and then it went another way, or purges were
//! forgotten that the index has not seen). What tells is the identity of the commit: if the
//! snapshot's history has it, the index goes on, else it is built anew.
//!
//! Invariant: a commit has an identity that no other commit ever has, whatever is restored.

mod rules;
#[cfg(test)]
mod tests;

use crate::machine::{Machine, Rule};

/// Documents in the model.
pub const DOCUMENTS: usize = 2;

/// How many purges a database remembers.
const PURGES_KEPT: usize = 1;

/// A wrong transition, made on purpose to see a rule fail.
// spec: SPECMODEL-2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// The index is compared by the number of its commit, not by its identity.
    NumberCompared,
    /// Unfinished batches record the commit that the index was at, not the snapshot's.
    BatchRecordsOldCommit,
    /// Purges are not looked at.
    PurgesSkipped,
    /// That purges were forgotten is not noticed.
    FloorIgnored,
    /// A batch records more changes than it holds.
    SequenceAhead,
    /// A compaction of the index swaps in a copy without what was committed meanwhile.
    CatchUpLeftOut,
    /// Rows of the document's older version stay.
    OldRowsStay,
}

/// How many of each there are in an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Commits of the database.
    pub commits: u8,
    /// Restored backups.
    pub restores: u8,
    /// Crashes of the process that updates.
    pub crashes: u8,
    /// Compactions of the index.
    pub compactions: u8,
    /// Queries.
    pub queries: u8,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Views {
    /// Bounds of the exploration; [`Machine::next`] does not look at them.
    pub bounds: Counts,
    /// What is wrong, if anything.
    pub slip: Option<Slip>,
}

impl Default for Views {
    fn default() -> Views {
        let bounds = Counts { commits: 4, restores: 1, crashes: 1, compactions: 1, queries: 2 };
        Views { bounds, slip: None }
    }
}

/// One document in a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Document {
    /// Its version, which is the identity of the commit that wrote it; 0 if it does not exist.
    pub version: u8,
    /// The map function emits a row for it.
    pub emits: bool,
    /// Its place in by_seq.
    pub seq: u8,
}

/// One commit of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Commit {
    /// Its identity: no two commits have the same.
    pub identity: u8,
    /// The documents.
    pub documents: [Document; DOCUMENTS],
    /// The newest sequence.
    pub seq: u8,
    /// Purges so far.
    pub purge_seq: u8,
    /// The newest of them: number and document.
    pub purges: Vec<(u8, usize)>,
}

/// What one commit of the index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Index {
    /// The database's commit it was made from.
    pub identity: u8,
    /// The number of that commit.
    pub number: usize,
    /// It has all changes up to this sequence.
    pub seq: u8,
    /// It has all purges up to this one.
    pub purge_seq: u8,
    /// The version whose row is there, for each document; 0 for none.
    pub rows: [u8; DOCUMENTS],
}

/// Why an index cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Its commit is newer than the database.
    Ahead,
    /// The database went another way.
    Beside,
    /// The database forgot purges that it has not seen.
    PurgesForgotten,
}

/// How far a query is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// None is asked.
    None,
    /// It brings the index up to its snapshot.
    Updating {
        /// The snapshot.
        snapshot: Commit,
        /// Its number.
        number: usize,
        /// The batch that is written and not flushed.
        batch: Option<Index>,
        /// The index must be built anew, which begins with the next batch.
        anew: bool,
        /// Why, or why it was.
        rebuilt: Option<Why>,
    },
    /// The index is there.
    Answered {
        /// The snapshot.
        snapshot: Commit,
        /// The rows it was answered with.
        rows: [u8; DOCUMENTS],
        /// Why the index was built anew for it, if it was.
        rebuilt: Option<Why>,
    },
}

/// The database, its index, and a query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The history of the database; the first is the empty state.
    pub commits: Vec<Commit>,
    /// The next identity.
    pub identities: u8,
    /// The newest commit of the index.
    pub index: Index,
    /// The copy that a compaction of the index has made so far.
    pub copy: Option<Index>,
    /// The query.
    pub query: Query,
    /// A crash interrupted an update that had committed batches.
    pub resumes: bool,
    /// A compaction of the index lost a batch.
    pub went_back: bool,
    /// What was done so far.
    pub counts: Counts,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A document is written.
    Write {
        /// Which.
        at: usize,
        /// The map function emits a row for it.
        emits: bool,
    },
    /// A document is purged.
    Purge(usize),
    /// The database is restored to its state at this number.
    Restore(usize),
    /// A query takes its snapshot.
    Ask,
    /// The updater writes a batch: all purges, and the next change.
    Batch,
    /// The batch is flushed.
    Flush,
    /// The query reads the index.
    Answer,
    /// The process that updates dies; the batch in flight is there, or is not.
    Crash {
        /// It is there.
        survives: bool,
    },
    /// A compaction of the index copies its newest commit.
    Copy,
    /// The copy, brought up to date, becomes the index.
    Swap,
}

impl Document {
    /// The version whose row the view has for it; 0 for none.
    pub fn row(&self) -> u8 {
        if self.emits { self.version } else { 0 }
    }
}

impl State {
    fn newest(&self) -> Commit {
        self.commits.last().cloned().unwrap_or_default()
    }

    fn commit(&mut self, change: impl FnOnce(&mut Commit)) {
        let mut commit = self.newest();
        commit.seq += 1;
        commit.identity = self.identities;
        self.identities += 1;
        change(&mut commit);
        self.commits.push(commit);
        self.counts.commits = self.counts.commits.saturating_add(1);
    }
}

impl Views {
    fn slips(&self, slip: Slip) -> bool {
        self.slip == Some(slip)
    }

    /// Why an index cannot be brought up to the newest of these commits.
    fn in_the_way(&self, index: &Index, history: &[Commit]) -> Option<Why> {
        let snapshot = history.last()?;
        let floor = snapshot.purge_seq - snapshot.purges.len() as u8;
        let known = match self.slips(Slip::NumberCompared) {
            true => index.number < history.len(),
            false => history.iter().any(|commit| commit.identity == index.identity),
        };
        if !known {
            return Some(if index.number < history.len() { Why::Beside } else { Why::Ahead });
        }
        let forgotten = index.purge_seq < floor && !self.slips(Slip::FloorIgnored);
        forgotten.then_some(Why::PurgesForgotten)
    }

    /// The index after one more batch towards the snapshot.
    fn batch(&self, index: &Index, snapshot: &Commit, number: usize) -> Index {
        let mut next = *index;
        for (purge, document) in &snapshot.purges {
            if *purge > index.purge_seq && !self.slips(Slip::PurgesSkipped) {
                next.rows[*document] = 0;
            }
        }
        next.purge_seq = snapshot.purge_seq;
        let behind = snapshot.documents.iter().enumerate();
        let behind = behind.filter(|(_, document)| document.seq > index.seq);
        let changed = behind.min_by_key(|(_, document)| document.seq);
        next.seq = snapshot.seq;
        if let Some((at, document)) = changed {
            let row = document.row();
            let stays = row == 0 && self.slips(Slip::OldRowsStay);
            next.rows[at] = if stays { next.rows[at] } else { row };
            let last = snapshot.documents.iter().all(|other| other.seq <= document.seq);
            if !last && !self.slips(Slip::SequenceAhead) {
                next.seq = document.seq;
            }
        }
        let finished = next.seq == snapshot.seq;
        if finished || !self.slips(Slip::BatchRecordsOldCommit) {
            (next.identity, next.number) = (snapshot.identity, number);
        }
        next
    }

    fn ask(&self, state: &mut State) -> Option<()> {
        if !matches!(state.query, Query::None | Query::Answered { .. }) {
            return None;
        }
        let rebuilt = self.in_the_way(&state.index, &state.commits);
        let (snapshot, number) = (state.newest(), state.commits.len() - 1);
        let anew = rebuilt.is_some();
        state.query = Query::Updating { snapshot, number, batch: None, anew, rebuilt };
        state.counts.queries = state.counts.queries.saturating_add(1);
        Some(())
    }

    /// A step of the updater.
    fn update(&self, state: &mut State, event: &Event) -> Option<()> {
        let Query::Updating { snapshot, number, batch, anew, rebuilt } = &mut state.query else {
            return None;
        };
        let reached = state.index.identity == snapshot.identity && state.index.seq == snapshot.seq;
        let done = reached && !*anew;
        match event {
            Event::Batch if batch.is_none() && !done => {
                let from = if *anew { Index::default() } else { state.index };
                *batch = Some(self.batch(&from, snapshot, *number));
            }
            Event::Flush => {
                state.index = batch.take()?;
                // Of an index that is built anew a copy of the old one is of no use.
                state.copy = state.copy.filter(|_| !*anew);
                *anew = false;
            }
            Event::Answer if batch.is_none() && done => {
                let (snapshot, rebuilt) = (snapshot.clone(), *rebuilt);
                state.query = Query::Answered { snapshot, rows: state.index.rows, rebuilt };
                state.resumes = false;
            }
            _ => return None,
        }
        Some(())
    }

    fn crash(&self, state: &mut State, survives: bool) -> Option<()> {
        let Query::Updating { snapshot, batch, .. } = &state.query else { return None };
        if survives {
            state.index = (*batch)?;
        }
        state.resumes = state.index.seq > 0 && state.index.seq < snapshot.seq;
        state.query = Query::None;
        state.copy = None;
        state.counts.crashes = state.counts.crashes.saturating_add(1);
        Some(())
    }

    fn swap(&self, state: &mut State) -> Option<()> {
        let copy = state.copy.take()?;
        let swapped = if self.slips(Slip::CatchUpLeftOut) { copy } else { state.index };
        state.went_back = swapped != state.index;
        state.index = swapped;
        Some(())
    }
}

impl Machine for Views {
    type State = State;
    type Event = Event;

    fn start(&self) -> State {
        State {
            commits: vec![Commit::default()],
            identities: 1,
            index: Index::default(),
            copy: None,
            query: Query::None,
            resumes: false,
            went_back: false,
            counts: Counts::default(),
        }
    }

    fn events(&self, state: &State, events: &mut Vec<Event>) {
        let (used, bounds) = (state.counts, self.bounds);
        if used.commits < bounds.commits {
            for at in 0..DOCUMENTS {
                events.extend([true, false].map(|emits| Event::Write { at, emits }));
                events.push(Event::Purge(at));
            }
        }
        if used.restores < bounds.restores {
            events.extend((0..state.commits.len() - 1).map(Event::Restore));
        }
        if used.queries < bounds.queries {
            events.push(Event::Ask);
        }
        events.extend([Event::Batch, Event::Flush, Event::Answer, Event::Swap]);
        if used.crashes < bounds.crashes {
            events.extend([true, false].map(|survives| Event::Crash { survives }));
        }
        if used.compactions < bounds.compactions && state.index.seq > 0 {
            events.push(Event::Copy);
        }
    }

    fn next(&self, state: &State, event: &Event) -> Option<State> {
        let mut next = state.clone();
        match *event {
            Event::Write { at, emits } => next.commit(|commit| {
                let (version, seq) = (commit.identity, commit.seq);
                commit.documents[at] = Document { version, emits, seq };
            }),
            Event::Purge(at) => {
                if state.newest().documents[at].version == 0 {
                    return None;
                }
                next.commit(|commit| {
                    commit.documents[at] = Document::default();
                    commit.purge_seq += 1;
                    commit.purges.push((commit.purge_seq, at));
                    let excess = commit.purges.len().saturating_sub(PURGES_KEPT);
                    commit.purges.drain(..excess);
                });
            }
            Event::Restore(number) => {
                next.commits.truncate(number + 1);
                next.counts.restores = next.counts.restores.saturating_add(1);
            }
            Event::Ask => self.ask(&mut next)?,
            Event::Batch | Event::Flush | Event::Answer => self.update(&mut next, event)?,
            Event::Crash { survives } => self.crash(&mut next, survives)?,
            Event::Copy => {
                if next.copy.replace(next.index).is_some() {
                    return None;
                }
                next.counts.compactions = next.counts.compactions.saturating_add(1);
            }
            Event::Swap => self.swap(&mut next)?,
        }
        Some(next)
    }

    fn rules() -> &'static [Rule<Views>] {
        rules::RULES
    }
}
