//! Names, files and who reads them: creating a database, and swapping in its compacted file.
//!
//! ```text
//! the process                             directory (cache)       directory (platter)
//! create, header                          db -> 0  new -> 1       db -> 0
//! copy, catch up, hold the writer,
//!   last round, footers, flush            db -> 0  new -> 1       db -> 0
//! rename                                  db -> 1                 db -> 0
//! flush the directory                     db -> 1                 db -> 1
//! acknowledge further commits
//! ```
//!
//! How a commit gets into one file is the business of [`crate::commit`]; here a commit is appended
//! and flushed in one step each. A file is known by its index. Creating a database is the same
//! dance without anything to copy. A power cut keeps any subset of the changes to the directory
//! that were not flushed; the death of the process loses nothing, and leaves the half-made file.
//!
//! Invariant: a file only grows, and an index never means another file while somebody can reach it.

mod rules;
#[cfg(test)]
mod tests;

use crate::machine::{Machine, Rule};

/// Index in [`State::names`] of the database's name.
pub const NAME: usize = 0;
/// Index in [`State::names`] of the name of a file that is being made.
pub const NEW: usize = 1;

/// A wrong transition, made on purpose to see a rule fail.
// spec: SPECMODEL-2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slip {
    /// The new file is renamed before it is flushed.
    RenameBeforeFlush,
    /// Commits are acknowledged in the new file before the directory is flushed.
    DirectorySyncLeftOut,
    /// A process that finds the database trusts that its name is flushed. It may not be: the one
    /// before may have died between a rename and the flush of the directory.
    FoundNameTrusted,
    /// What was committed since the last round is not copied.
    LastRoundLeftOut,
    /// Writers go on during the last round.
    WriterNotHeld,
    /// A reader that follows a swap takes the roots from the file it had.
    ReaderKeepsRoots,
    /// A reader does not look whether the name means another file, and so stays with the old one.
    ReaderStays,
}

/// How many of each there are in an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Commits.
    pub commits: u8,
    /// Files made.
    pub files: u8,
    /// Power cuts.
    pub crashes: u8,
    /// Processes that died.
    pub deaths: u8,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Swaps {
    /// Readers in other processes.
    pub readers: usize,
    /// Bounds of the exploration; [`Machine::next`] does not look at them.
    pub bounds: Counts,
    /// What is wrong, if anything.
    pub slip: Option<Slip>,
}

impl Default for Swaps {
    fn default() -> Swaps {
        let bounds = Counts { commits: 3, files: 3, crashes: 2, deaths: 1 };
        Swaps { readers: 1, bounds, slip: None }
    }
}

/// A file, by what a crash may leave of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct File {
    /// The newest commit in the cache; 0 with a header only, `None` without one.
    pub holds: Option<u64>,
    /// The same of what is flushed.
    pub flushed: Option<u64>,
    /// The commit whose rows it has.
    pub rows: u64,
}

/// A change of the directory that is not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// This file got the name [`NEW`].
    Create(usize),
    /// The name [`NEW`] was removed.
    Remove,
    /// This file got the name [`NAME`], and lost the other one.
    Rename(usize),
}

/// How far the making of a new file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// None is made.
    Idle,
    /// It has its name, and soon a header.
    Created,
    /// It has the rows of this commit.
    Copied(u64),
    /// The same, and the writer is held.
    Held(u64),
    /// It has its footers.
    Written,
    /// It has the database's name.
    Renamed,
}

/// The process that may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The file it commits to; `None` while it makes the first one.
    pub file: Option<usize>,
    /// It knows that the name of that file is flushed.
    pub name_flushed: bool,
    /// How far it is with a new file.
    pub step: Step,
}

/// A reader in a process of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    /// The file it has open.
    pub file: Option<usize>,
    /// The file that its roots are from.
    pub roots_of: usize,
    /// The commit it shows.
    pub commit: u64,
    /// What the name meant when it last looked, until it has read.
    pub looked: Option<usize>,
    /// What was acknowledged then.
    pub promised: u64,
    /// It showed something older than before.
    pub went_back: bool,
    /// Its last look led to another file.
    pub followed: bool,
}

/// What opening found, until something else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opened {
    /// The commit; 0 for a database without one, or none at all.
    pub commit: u64,
    /// Half of a new file lies about.
    pub leftover: bool,
}

/// Names, files, processes, and what was promised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Files by index.
    pub files: Vec<File>,
    /// What [`NAME`] and [`NEW`] mean.
    pub names: [Option<usize>; 2],
    /// What they mean on the platter.
    pub flushed_names: [Option<usize>; 2],
    /// The changes between the two.
    pub changes: Vec<Change>,
    /// The process that may write.
    pub process: Option<Process>,
    /// Readers in other processes.
    pub readers: Vec<Reader>,
    /// The newest acknowledged commit.
    pub acknowledged: u64,
    /// What opening found.
    pub opened: Option<Opened>,
    /// A crash undid a rename, until something else happens.
    pub undone: bool,
    /// What was done so far.
    pub counts: Counts,
}

/// One step of a process, a reader or the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process opens the database for writing.
    Open,
    /// A half-made file is removed.
    Remove,
    /// A new file is made.
    Create,
    /// It gets its header.
    Header,
    /// It gets the rows of the newest commit.
    Copy,
    /// No commit begins from here on.
    Hold,
    /// It gets footers for this commit.
    Write(u64),
    /// The file with this index is flushed.
    Flush(usize),
    /// The new file gets the database's name.
    Rename,
    /// The directory is flushed.
    SyncDir,
    /// A commit is appended.
    Commit,
    /// The caller is told that all commits so far are made.
    Acknowledge,
    /// A reader looks what the name means.
    Look(usize),
    /// A reader reads the newest commit.
    Read(usize),
    /// The process dies.
    Death,
    /// The power is cut. Of the changes and of the files that are not flushed those survive whose
    /// bits are set.
    Crash {
        /// Bits of changes.
        changes: u32,
        /// Bits of files, by index.
        files: u32,
    },
}

impl State {
    /// The file that commits go to.
    pub fn current(&self) -> Option<File> {
        let index = self.process?.file?;
        self.files.get(index).copied()
    }

    /// The newest commit of the file that commits go to.
    pub fn newest(&self) -> u64 {
        self.current().and_then(|file| file.holds).unwrap_or(0)
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, change);
        self.changes.push(change);
    }
}

fn apply(names: &mut [Option<usize>; 2], change: Change) {
    match change {
        Change::Create(index) => names[NEW] = Some(index),
        Change::Remove => names[NEW] = None,
        Change::Rename(index) => {
            names[NAME] = Some(index);
            names[NEW] = names[NEW].filter(|other| *other != index);
        }
    }
}

impl Swaps {
    fn slips(&self, slip: Slip) -> bool {
        self.slip == Some(slip)
    }

    /// A step of the process that may write.
    // spec: COMPACT-1, COMPACT-2, COMPACT-3, FILE-4
    fn write(&self, state: &mut State, event: &Event) -> Option<()> {
        let mut process = state.process?;
        let idle = process.step == Step::Idle;
        let settled = state.current().is_some_and(|file| file.holds == file.flushed);
        match *event {
            // What another process left, or what this one gives up.
            Event::Remove if process.step != Step::Renamed && state.names[NEW].is_some() => {
                state.change(Change::Remove);
                process.step = Step::Idle;
            }
            Event::Create if idle && state.names[NEW].is_none() => {
                state.change(Change::Create(state.files.len()));
                state.files.push(File::default());
                state.counts.files = state.counts.files.saturating_add(1);
                process.step = Step::Created;
            }
            Event::Header if process.step == Step::Created => {
                let file = state.files.get_mut(state.names[NEW]?)?;
                if file.holds.replace(0).is_some() {
                    return None;
                }
            }
            Event::Copy => {
                let reached = state.current()?.flushed?;
                process.step = match process.step {
                    Step::Created if state.files.get(state.names[NEW]?)?.holds == Some(0) => {
                        Step::Copied(reached)
                    }
                    Step::Copied(_) => Step::Copied(reached),
                    Step::Held(_) => Step::Held(reached),
                    _ => return None,
                };
            }
            Event::Hold if settled => match process.step {
                Step::Copied(reached) => process.step = Step::Held(reached),
                _ => return None,
            },
            Event::Write(number) => {
                let Step::Held(rows) = process.step else { return None };
                let complete = rows == state.newest() || self.slips(Slip::LastRoundLeftOut);
                if number != state.newest() || !complete {
                    return None;
                }
                let file = state.files.get_mut(state.names[NEW]?)?;
                (file.holds, file.rows) = (Some(number), rows);
                process.step = Step::Written;
            }
            Event::Flush(index) => {
                let file = state.files.get_mut(index)?;
                file.flushed = file.holds;
            }
            Event::Rename => {
                let index = state.names[NEW]?;
                let file = state.files.get(index)?;
                let first = process.file.is_none() && process.step == Step::Created;
                let flushed = file.holds.is_some() && file.flushed == file.holds;
                let complete = first || process.step == Step::Written;
                if !complete || !flushed && !self.slips(Slip::RenameBeforeFlush) {
                    return None;
                }
                state.change(Change::Rename(index));
                process.step = Step::Renamed;
                if self.slips(Slip::DirectorySyncLeftOut) {
                    process = serving(index);
                }
            }
            Event::SyncDir if process.step == Step::Renamed => {
                state.sync_dir();
                process = serving(state.names[NAME]?);
            }
            Event::SyncDir if process.file.is_some() && !process.name_flushed => {
                state.sync_dir();
                process.name_flushed = true;
            }
            Event::Commit if settled => {
                let held = matches!(process.step, Step::Held(_) | Step::Written | Step::Renamed);
                if held && !self.slips(Slip::WriterNotHeld) {
                    return None;
                }
                let file = state.files.get_mut(process.file?)?;
                file.rows += 1;
                file.holds = file.holds.map(|newest| newest + 1);
                state.counts.commits = state.counts.commits.saturating_add(1);
            }
            // spec: COMMIT-1
            Event::Acknowledge => {
                let news = state.newest() > state.acknowledged;
                let held = process.step == Step::Renamed && !self.slips(Slip::WriterNotHeld);
                if !settled || held || news && !process.name_flushed {
                    return None;
                }
                state.acknowledged = state.newest();
            }
            _ => return None,
        }
        state.process = Some(process);
        Some(())
    }

    // spec: COMPACT-3
    fn open(&self, state: &mut State) {
        let file = state.names[NAME].filter(|index| state.files[*index].holds.is_some());
        let name_flushed = self.slips(Slip::FoundNameTrusted);
        state.process = Some(Process { file, name_flushed, step: Step::Idle });
        let leftover = state.names[NEW].is_some();
        state.opened = Some(Opened { commit: state.newest(), leftover });
    }

    /// A step of the reader with this index.
    // spec: PROCESS-4, COMPACT-4
    fn read(&self, state: &mut State, index: usize, event: &Event) -> Option<()> {
        let reader = state.readers.get_mut(index)?;
        let named = state.names[NAME]?;
        let Event::Read(_) = event else {
            reader.looked = Some(named);
            reader.promised = state.acknowledged;
            return Some(());
        };
        let looked = reader.looked.take()?;
        let stays = reader.file.is_some() && self.slips(Slip::ReaderStays);
        let swapped = reader.file != Some(looked) && !stays;
        reader.followed = reader.file.is_some() && swapped;
        if swapped {
            // Between the look and this the name may have come to mean yet another file.
            let keeps = reader.file.is_some() && self.slips(Slip::ReaderKeepsRoots);
            reader.file = Some(named);
            reader.roots_of = if keeps { reader.roots_of } else { named };
        }
        let newest = state.files.get(reader.file?)?.holds.unwrap_or(0);
        reader.went_back |= newest < reader.commit;
        reader.commit = newest;
        Some(())
    }

    fn crash(&self, state: &mut State, changes: u32, files: u32) {
        let mut names = state.flushed_names;
        for (bit, change) in state.changes.iter().enumerate() {
            let kept = changes >> bit & 1 == 1;
            if kept {
                apply(&mut names, *change);
            }
            state.undone |= !kept && matches!(change, Change::Rename(_));
        }
        let mut left = Vec::new();
        for name in &mut names {
            *name = name.map(|index| {
                let file = state.files[index];
                let kept = files >> index & 1 == 1;
                let lost = File { rows: file.flushed.unwrap_or(0), ..file };
                let file = if kept { file } else { File { holds: file.flushed, ..lost } };
                left.push(File { flushed: file.holds, ..file });
                left.len() - 1
            });
        }
        state.files = left;
        state.names = names;
        state.flushed_names = names;
        state.changes.clear();
        state.process = None;
        state.readers = vec![Reader::default(); state.readers.len()];
        state.counts.crashes = state.counts.crashes.saturating_add(1);
    }
}

/// A process that commits to the file with this index, whose name it flushed.
fn serving(index: usize) -> Process {
    Process { file: Some(index), name_flushed: true, step: Step::Idle }
}

impl State {
    fn sync_dir(&mut self) {
        self.flushed_names = self.names;
        self.changes.clear();
    }

    /// Crashes that leave something different.
    fn crashes(&self) -> Vec<Event> {
        let mut crashes = Vec::new();
        let unflushed = |index: &usize| self.files[*index].holds != self.files[*index].flushed;
        let open: Vec<usize> = (0..self.files.len()).filter(unflushed).collect();
        for changes in 0..1 << self.changes.len() {
            for kept in 0..1_u32 << open.len() {
                let bits = open.iter().enumerate().filter(|(bit, _)| kept >> bit & 1 == 1);
                let files = bits.map(|(_, index)| 1 << index).sum();
                crashes.push(Event::Crash { changes, files });
            }
        }
        crashes
    }
}

impl Machine for Swaps {
    type State = State;
    type Event = Event;

    fn start(&self) -> State {
        State {
            files: Vec::new(),
            names: [None; 2],
            flushed_names: [None; 2],
            changes: Vec::new(),
            process: None,
            readers: vec![Reader::default(); self.readers],
            acknowledged: 0,
            opened: None,
            undone: false,
            counts: Counts::default(),
        }
    }

    fn events(&self, state: &State, events: &mut Vec<Event>) {
        let (used, bounds) = (state.counts, self.bounds);
        for reader in 0..state.readers.len() {
            events.push(match state.readers[reader].looked {
                None => Event::Look(reader),
                Some(_) => Event::Read(reader),
            });
        }
        let Some(process) = state.process else {
            events.push(Event::Open);
            return;
        };
        if state.opened.is_none() && used.crashes < bounds.crashes {
            events.extend(state.crashes());
        }
        if state.opened.is_none() && used.deaths < bounds.deaths {
            events.push(Event::Death);
        }
        // Nothing else is done before the caller of a commit is told.
        let due = state.current().is_some_and(|file| file.flushed > Some(state.acknowledged));
        if due && process.name_flushed && process.step != Step::Renamed {
            events.push(Event::Acknowledge);
            return;
        }
        events.extend([Event::Header, Event::Hold, Event::Rename, Event::SyncDir]);
        events.push(Event::Write(state.newest()));
        let unflushed = |index: &usize| state.files[*index].holds != state.files[*index].flushed;
        let reached = [process.file, state.names[NEW]].into_iter().flatten();
        events.extend(reached.filter(unflushed).map(Event::Flush));
        let behind = match process.step {
            Step::Created => true,
            Step::Copied(reached) | Step::Held(reached) => reached < state.newest(),
            _ => false,
        };
        if behind {
            events.push(Event::Copy);
        }
        if used.files < bounds.files && (process.file.is_none() || state.newest() > 0) {
            events.extend([Event::Remove, Event::Create]);
        }
        if used.commits < bounds.commits {
            events.push(Event::Commit);
        }
        if state.newest() > state.acknowledged {
            events.push(Event::Acknowledge);
        }
    }

    fn next(&self, state: &State, event: &Event) -> Option<State> {
        let mut next = State { opened: None, undone: false, ..state.clone() };
        match *event {
            Event::Open => self.open(&mut next),
            Event::Look(index) | Event::Read(index) => {
                // A look of another process changes nothing for the one that writes.
                (next.opened, next.undone) = (state.opened, state.undone);
                self.read(&mut next, index, event)?;
            }
            Event::Death => {
                next.process = None;
                next.counts.deaths = next.counts.deaths.saturating_add(1);
            }
            Event::Crash { changes, files } => self.crash(&mut next, changes, files),
            _ => self.write(&mut next, event)?,
        }
        Some(next)
    }

    fn rules() -> &'static [Rule<Swaps>] {
        rules::RULES
    }
}
