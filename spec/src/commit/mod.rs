//! One file, its writer, the page cache and the disk: the three commit protocols with recovery.
//!
//! ```text
//! unit      data  A1  B1  data  A2  B2          one unit is one run of data or one footer copy
//! held      P     P   P   P     C   c           P on the platter
//!                         '--- cover of A2 ---' C in the cache, waiting to be written
//!                                               c in the cache alone: a flush failed, and none
//!                                                 will write it until it is written anew
//! ```
//!
//! A power cut keeps `P`, loses `c`, and keeps any subset of `C` (on a disk that keeps the order of
//! writes: a prefix of it). The death of a process loses nothing. Opening applies the one rule of
//! recovery, whatever came before.
//!
//! Invariant: what a writer may do next depends on its [`Writer`] alone, never on what the platter
//! holds, which no writer can see.

mod recovery;
mod rules;
#[cfg(test)]
mod tests;

pub use recovery::{Found, Opened};

use crate::machine::{Machine, Rule};
use recovery::{flushed_end, recover, whole};

/// What a writer does between the first byte of a commit and its acknowledgement.
// spec: COMMIT-2
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Data and copy A, flush, copy B, flush.
    Guide,
    /// Data, flush, both copies, flush.
    Barrier,
    /// Data and both copies, flush; a large commit as [`Protocol::Barrier`].
    #[default]
    Verified,
}

/// A wrong transition, made on purpose to see a rule fail.
// spec: SPECMODEL-2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// A commit counts as made when its copies are appended.
    FlushLeftOut,
    /// `Barrier` appends the footer before the flush of the data.
    FooterEarly,
    /// `Verified` covers nothing.
    CoverStartsLate,
    /// Recovery believes a footer without looking at what it covers.
    CoverNotChecked,
    /// A footer names its own commit as flushed.
    WitnessOfItself,
    /// A new writer flushes an unsealed tail without writing it anew.
    TailNotRewritten,
    /// The tail is written anew from behind the place of the flushed commit's copy B, though a
    /// crash may have cut that copy off and data lies there.
    RewriteBehindTheTwin,
    /// After a failed flush the writer goes on.
    WritesAfterFailure,
}

/// How many of each there are in an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Commits that were begun.
    pub commits: u8,
    /// Power cuts.
    pub crashes: u8,
    /// Processes that died, and handles that were opened anew after a failure.
    pub deaths: u8,
    /// Flushes that failed.
    pub failures: u8,
    /// Seals.
    pub seals: u8,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Commits {
    /// What the writer does.
    pub protocol: Protocol,
    /// Whether the disk keeps the order of writes between two flushes.
    pub keeps_order: bool,
    /// Bounds of the exploration; [`Machine::next`] does not look at them.
    pub bounds: Counts,
    /// What is wrong, if anything.
    pub slip: Option<Slip>,
}

impl Default for Commits {
    fn default() -> Commits {
        let bounds = Counts { commits: 3, crashes: 2, deaths: 1, failures: 1, seals: 1 };
        Commits { protocol: Protocol::default(), keeps_order: false, bounds, slip: None }
    }
}

/// What both copies of a footer say. Places are indexes of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Said {
    /// Number of the commit.
    pub number: u64,
    /// The newest commit known to be flushed.
    pub witness: u64,
    /// Where the cover begins; it ends at copy A.
    pub cover_from: usize,
    /// Copy A of the commit before.
    pub previous: Option<usize>,
    /// For a seal, copy A of the sealed commit.
    pub seals: Option<usize>,
}

/// A footer in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Footer {
    /// What it says.
    pub said: Said,
    /// Where its copy A is.
    pub place: usize,
    /// Where the data of its commit begins. No real footer says so: it is what rules judge by.
    pub data_from: usize,
}

/// What a unit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// Chunks or padding.
    Data,
    /// The first copy of a footer.
    CopyA(Footer),
    /// The second one.
    CopyB(Footer),
    /// Whatever the disk shows where a write was lost.
    Lost,
}

/// Where a unit is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// On the platter; a crash cannot take it.
    Platter,
    /// In the cache; the next flush writes it.
    Cache,
    /// In the cache, which takes it for written although it was not.
    CacheAlone,
}

/// A run of data, or one copy of a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// What readers see.
    pub what: What,
    /// What a crash would leave of it.
    pub held: Held,
}

/// How far the writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It found an unsealed tail, which it must write anew before anything else.
    Unsealed,
    /// The tail is written anew, and not flushed.
    Rewritten,
    /// Between two commits; chunks may have gone ahead.
    Idle,
    /// The data of a commit is flushed, and its footer follows.
    DataFlushed,
    /// Copy A is appended.
    CopyA,
    /// Copy A is flushed (`Guide`).
    CopyAFlushed,
    /// Both copies are appended.
    CopyB,
    /// A write failed: it never writes again.
    Poisoned,
}

/// All that a writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    /// How far it is.
    pub step: Step,
    /// Copy A of the newest commit it made or found.
    pub head: Option<usize>,
    /// Everything before this unit is known to be flushed.
    pub flushed_end: usize,
    /// Where the data of the next commit begins.
    pub data_from: usize,
    /// There is more data since the last flush than a cover may have.
    pub large: bool,
    /// The file ends in a seal, or has no commit.
    pub sealed: bool,
}

/// The file, who writes it, and what was promised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What lies behind the header, as readers see it.
    pub units: Vec<Unit>,
    /// `None` while nobody has the file open.
    pub writer: Option<Writer>,
    /// Number of the first commit of this file.
    pub first: u64,
    /// Copy A of the newest acknowledged commit.
    pub acknowledged: Option<usize>,
    /// What opening found, until something else happens.
    pub opened: Option<Opened>,
    /// What was done so far.
    pub counts: Counts,
}

/// What an append puts at the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A run of data; `large` if there is now more since the last flush than a cover may have.
    Data {
        /// Whether there is.
        large: bool,
    },
    /// The first copy of a footer.
    CopyA(Said),
    /// The second one.
    CopyB(Said),
}

/// One step of the writer or of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process opens the file for writing; one that had it open is dead.
    Open,
    /// The writer appends.
    Append(Piece),
    /// The writer writes the same bytes once more, from this unit to the end.
    Rewrite {
        /// The unit.
        from: usize,
    },
    /// The writer flushes.
    Sync,
    /// A flush fails, having written those waiting units whose bits are set.
    SyncFails(u32),
    /// The caller is told that all commits so far are made.
    Acknowledge,
    /// The power is cut. Of the waiting units those whose bits are set reach the platter.
    Crash {
        /// Their bits.
        survivors: u32,
        /// The file keeps its length even where its end was lost.
        full_length: bool,
    },
}

impl State {
    /// A file that holds a header only and has a writer, as a compaction makes it.
    pub fn created(first: u64) -> State {
        let writer = Writer {
            step: Step::Idle,
            head: None,
            flushed_end: 0,
            data_from: 0,
            large: false,
            sealed: true,
        };
        State { writer: Some(writer), first, ..Commits::default().start() }
    }

    /// The footer whose copy A is at `place`, if one of its copies is there.
    pub fn footer(&self, place: usize) -> Option<Footer> {
        whole(&self.units, place)
    }

    /// The number of the newest commit the writer made or found; 0 before the first.
    pub fn newest(&self) -> u64 {
        let head = self.writer.and_then(|writer| writer.head);
        head.and_then(|place| self.footer(place)).map_or(0, |footer| footer.said.number)
    }

    fn waiting(&self) -> usize {
        self.units.iter().filter(|unit| unit.held == Held::Cache).count()
    }

    fn push(&mut self, what: What) {
        self.units.push(Unit { what, held: Held::Cache });
    }

    /// Marks each waiting unit as on the platter or as `otherwise`, by its bit.
    fn settle(&mut self, mut written: u32, otherwise: Held) {
        for unit in self.units.iter_mut().filter(|unit| unit.held == Held::Cache) {
            unit.held = if written & 1 == 1 { Held::Platter } else { otherwise };
            written >>= 1;
        }
    }
}

impl Commits {
    fn slips(&self, slip: Slip) -> bool {
        self.slip == Some(slip)
    }

    /// What the footer of the next commit must say.
    // spec: COMMIT-3, COMMIT-6
    fn due(&self, state: &State, writer: &Writer) -> Said {
        let head = writer.head.and_then(|place| state.footer(place));
        let number = head.map_or(state.first, |head| head.said.number + 1);
        let end = state.units.len();
        let covers = self.protocol == Protocol::Verified && writer.step == Step::Idle;
        let late = self.slips(Slip::CoverStartsLate);
        let witness = if self.slips(Slip::WitnessOfItself) { number } else { number - 1 };
        Said {
            number,
            witness: if head.is_some() { witness } else { 0 },
            cover_from: if covers && !late { writer.flushed_end } else { end },
            previous: writer.head,
            seals: None,
        }
    }

    /// What a seal must say; `None` if there is nothing to seal.
    // spec: COMMIT-6
    fn seal_due(&self, state: &State, writer: &Writer) -> Option<Said> {
        let head = state.footer(writer.head?).filter(|_| !writer.sealed)?;
        let (number, cover_from) = (head.said.number, state.units.len());
        let seals = Some(head.place);
        Some(Said { witness: number, cover_from, seals, ..head.said })
    }

    /// Whether a commit may go on with its footer.
    // spec: COMMIT-2, COMMIT-4
    fn footer_may_follow(&self, writer: &Writer) -> bool {
        match (self.protocol, writer.step) {
            (Protocol::Guide, Step::Idle) | (_, Step::DataFlushed) => true,
            (Protocol::Verified, Step::Idle) => !writer.large,
            (Protocol::Barrier, Step::Idle) => self.slips(Slip::FooterEarly),
            _ => false,
        }
    }

    // spec: COMMIT-1, COMMIT-2
    fn append(&self, state: &mut State, writer: &mut Writer, piece: Piece) -> Option<()> {
        match (piece, writer.step) {
            (Piece::Data { large }, Step::Idle) => {
                if state.units.len() == writer.data_from {
                    state.counts.commits = state.counts.commits.saturating_add(1);
                }
                writer.large |= large;
                writer.sealed = false;
                state.push(What::Data);
            }
            (Piece::CopyA(said), step) => {
                let place = state.units.len();
                let is_seal = step == Step::Idle && Some(said) == self.seal_due(state, writer);
                let is_due = self.footer_may_follow(writer) && said == self.due(state, writer);
                if !is_seal && !is_due {
                    return None;
                }
                state.counts.seals = state.counts.seals.saturating_add(u8::from(is_seal));
                let data_from = if is_seal { place } else { writer.data_from };
                state.push(What::CopyA(Footer { said, place, data_from }));
                writer.step = Step::CopyA;
                writer.sealed = false;
            }
            (Piece::CopyB(said), Step::CopyA | Step::CopyAFlushed) => {
                let What::CopyA(footer) = state.units.last()?.what else { return None };
                let is_seal = said.seals.is_some();
                let flushed_between = self.protocol == Protocol::Guide && !is_seal;
                let flushed = writer.step == Step::CopyAFlushed;
                if said != footer.said || flushed != flushed_between {
                    return None;
                }
                state.push(What::CopyB(footer));
                writer.step = Step::CopyB;
                if self.slips(Slip::FlushLeftOut) {
                    self.complete(state, writer);
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Both copies of a commit or of a seal are there.
    fn complete(&self, state: &State, writer: &mut Writer) {
        let place = state.units.len() - 2;
        let footer = state.footer(place);
        let seals = footer.and_then(|footer| footer.said.seals);
        writer.sealed = seals.is_some();
        writer.head = seals.or(Some(place));
        writer.data_from = state.units.len();
        writer.step = Step::Idle;
    }

    /// What a flush means to the writer; `None` if it is not due.
    // spec: COMMIT-2, COMMIT-4, RECOVER-4
    fn flushed(&self, state: &State, writer: &mut Writer) -> Option<()> {
        let end = state.units.len();
        match (writer.step, self.protocol) {
            (Step::Unsealed, _) => {
                if writer.flushed_end < end && !self.slips(Slip::TailNotRewritten) {
                    return None;
                }
                writer.step = Step::Idle;
            }
            (Step::Rewritten, _) => writer.step = Step::Idle,
            (Step::Idle, Protocol::Barrier) => writer.step = Step::DataFlushed,
            (Step::Idle, Protocol::Verified) if writer.large => writer.step = Step::DataFlushed,
            (Step::CopyA, Protocol::Guide) => {
                let What::CopyA(footer) = state.units.last()?.what else { return None };
                if footer.said.seals.is_some() {
                    return None;
                }
                writer.step = Step::CopyAFlushed;
            }
            (Step::CopyB, _) => self.complete(state, writer),
            _ => return None,
        }
        writer.flushed_end = end;
        writer.large = false;
        Some(())
    }

    // spec: RECOVER-1, RECOVER-4
    fn open(&self, state: &mut State) {
        let opened = recover(&state.units, !self.slips(Slip::CoverNotChecked));
        let end = state.units.len();
        let head = match opened.found {
            Found::Commit(place) => Some(place),
            Found::Nothing | Found::Damage => None,
        };
        let sealed = opened.sealed || (head.is_none() && end == 0);
        let twin = self.slips(Slip::RewriteBehindTheTwin);
        let flushed_end = flushed_end(&state.units, &opened, twin);
        state.writer = (opened.found != Found::Damage).then_some(Writer {
            step: if sealed { Step::Idle } else { Step::Unsealed },
            head,
            flushed_end: if sealed { end } else { flushed_end },
            data_from: end,
            large: false,
            sealed,
        });
        state.opened = Some(opened);
    }

    /// A step that only a writer can make.
    fn write(&self, state: &mut State, event: &Event) -> Option<()> {
        let mut writer = state.writer?;
        match *event {
            Event::Append(piece) => self.append(state, &mut writer, piece)?,
            Event::Rewrite { from } => {
                if writer.step != Step::Unsealed || from != writer.flushed_end {
                    return None;
                }
                // What is on the platter already stays there: the bytes are the same.
                let tail = state.units.iter_mut().skip(from);
                for unit in tail.filter(|unit| unit.held == Held::CacheAlone) {
                    unit.held = Held::Cache;
                }
                writer.step = Step::Rewritten;
            }
            Event::Sync => {
                self.flushed(state, &mut writer)?;
                state.settle(u32::MAX, Held::Platter);
            }
            // spec: COMMIT-5
            Event::SyncFails(written) => {
                self.flushed(state, &mut writer.clone())?;
                state.counts.failures = state.counts.failures.saturating_add(1);
                state.settle(written, Held::CacheAlone);
                writer.step = match self.slips(Slip::WritesAfterFailure) {
                    true => Step::Idle,
                    false => Step::Poisoned,
                };
            }
            // spec: COMMIT-1
            Event::Acknowledge => {
                if !matches!(writer.step, Step::Idle | Step::DataFlushed) {
                    return None;
                }
                state.acknowledged = writer.head;
            }
            Event::Open | Event::Crash { .. } => return None,
        }
        state.writer = Some(writer);
        Some(())
    }

    fn crash(&self, state: &mut State, survivors: u32, full_length: bool) {
        state.counts.crashes = state.counts.crashes.saturating_add(1);
        state.settle(survivors, Held::CacheAlone);
        for unit in state.units.iter_mut().filter(|unit| unit.held != Held::Platter) {
            *unit = Unit { what: What::Lost, held: Held::Platter };
        }
        while !full_length && state.units.last().is_some_and(|unit| unit.what == What::Lost) {
            state.units.pop();
        }
        state.writer = None;
    }

    /// Which units survive: any subset, or any prefix.
    fn subsets(&self, count: usize) -> Vec<u32> {
        match self.keeps_order {
            true => (0..=count).map(|kept| (1 << kept) - 1).collect(),
            false => (0..1 << count).collect(),
        }
    }
}

impl Machine for Commits {
    type State = State;
    type Event = Event;

    fn start(&self) -> State {
        State {
            units: Vec::new(),
            writer: None,
            first: 1,
            acknowledged: None,
            opened: None,
            counts: Counts::default(),
        }
    }

    fn events(&self, state: &State, events: &mut Vec<Event>) {
        let (used, bounds) = (state.counts, self.bounds);
        if state.opened.is_some_and(|opened| opened.found == Found::Damage) {
            return;
        }
        let waiting = state.waiting();
        if used.crashes < bounds.crashes && state.opened.is_none() && state.writer.is_some() {
            for survivors in self.subsets(waiting) {
                events.push(Event::Crash { survivors, full_length: false });
                if waiting > 0 && survivors >> (waiting - 1) == 0 {
                    events.push(Event::Crash { survivors, full_length: true });
                }
            }
        }
        let Some(writer) = state.writer else {
            events.push(Event::Open);
            return;
        };
        if used.deaths < bounds.deaths && state.opened.is_none() {
            events.push(Event::Open);
        }
        // Nothing else is done before the caller of a commit is told.
        if state.acknowledged != writer.head && writer.step == Step::Idle {
            events.push(Event::Acknowledge);
            return;
        }
        events.push(Event::Rewrite { from: writer.flushed_end });
        events.push(Event::Sync);
        if used.failures < bounds.failures {
            events.extend(self.subsets(waiting).into_iter().map(Event::SyncFails));
        }
        let has_data = state.units.len() > writer.data_from;
        if !has_data && used.commits < bounds.commits && writer.step == Step::Idle {
            events.push(Event::Append(Piece::Data { large: false }));
            if self.protocol == Protocol::Verified {
                events.push(Event::Append(Piece::Data { large: true }));
            }
        }
        if has_data {
            events.push(Event::Append(Piece::CopyA(self.due(state, &writer))));
        }
        if let Some(seal) = self.seal_due(state, &writer).filter(|_| used.seals < bounds.seals) {
            events.push(Event::Append(Piece::CopyA(seal)));
        }
        if let Some(What::CopyA(footer)) = state.units.last().map(|unit| unit.what) {
            events.push(Event::Append(Piece::CopyB(footer.said)));
        }
    }

    fn next(&self, state: &State, event: &Event) -> Option<State> {
        let mut next = State { opened: None, ..state.clone() };
        match *event {
            Event::Open => {
                // The one that had it open died, or gave up after a failure.
                let died = u8::from(next.writer.is_some());
                next.counts.deaths = next.counts.deaths.saturating_add(died);
                self.open(&mut next);
            }
            Event::Crash { survivors, full_length } => {
                self.crash(&mut next, survivors, full_length);
            }
            _ => self.write(&mut next, event)?,
        }
        Some(next)
    }

    fn rules() -> &'static [Rule<Commits>] {
        rules::RULES
    }
}
