//! What a swap promises, and what an exploration must have seen.
//!
//! Invariant: rules judge by files and names, not by what the process believes.

use super::{Change, NAME, NEW, State, Step, Swaps};
use crate::machine::{Rule, always, sometimes};

/// Every file that the database's name could mean after a crash now.
fn candidates(state: &State) -> impl Iterator<Item = usize> + '_ {
    let renamed = state.changes.iter().filter_map(|change| match change {
        Change::Rename(index) => Some(*index),
        Change::Create(_) | Change::Remove => None,
    });
    state.flushed_names[NAME].into_iter().chain(renamed)
}

// spec: SPECMODEL-1
pub(super) const RULES: &[Rule<Swaps>] = &[
    always("an acknowledged commit is found by every opening", |_, state: &State| {
        state.opened.is_none_or(|opened| opened.commit >= state.acknowledged)
    }),
    always("a crash now would lose no acknowledged commit", |_, state: &State| {
        let named = state.flushed_names[NAME].is_some() || state.acknowledged == 0;
        let kept = |index: usize| state.files[index].flushed >= Some(state.acknowledged);
        named && candidates(state).all(kept)
    }),
    always("a file has the rows that its newest footer is about", |_, state: &State| {
        state.files.iter().all(|file| file.holds.is_none_or(|holds| holds == file.rows))
    }),
    always("the name means a whole file or nothing", |_, state: &State| {
        state.names[NAME].is_none_or(|index| state.files[index].holds.is_some())
    }),
    always("a reader never goes back", |_, state: &State| {
        state.readers.iter().all(|reader| !reader.went_back)
    }),
    always("a reader shows one file", |_, state: &State| {
        let shows_one = |file: usize, roots_of: usize, commit: u64| {
            roots_of == file && state.files[file].holds.unwrap_or(0) >= commit
        };
        state.readers.iter().all(|reader| {
            reader.file.is_none_or(|file| shows_one(file, reader.roots_of, reader.commit))
        })
    }),
    always("a reader shows what was acknowledged when it looked", |_, state: &State| {
        let shows = |reader: &super::Reader| reader.commit >= reader.promised;
        state.readers.iter().all(|reader| reader.looked.is_some() || shows(reader))
    }),
    sometimes("a reader follows a swap", |_, state: &State| {
        state.readers.iter().any(|reader| reader.followed)
    }),
    sometimes("a reader holds the old file while the new one has more", |_, state: &State| {
        let behind = |reader: &super::Reader| {
            reader.file.is_some() && reader.file != state.names[NAME] && reader.commit > 0
        };
        state.readers.iter().any(|reader| behind(reader) && reader.commit < state.newest())
    }),
    sometimes("opening ignores a half-made file", |_, state: &State| {
        state.opened.is_some_and(|opened| opened.leftover && opened.commit > 0)
    }),
    sometimes("a half-made file is removed, and another one takes its name", |_, state: &State| {
        state.changes.contains(&Change::Remove) && state.names[NEW].is_some()
    }),
    sometimes("a commit is made while a compaction copies", |_, state: &State| {
        let copied = state.process.map(|process| process.step);
        matches!(copied, Some(Step::Copied(reached)) if reached < state.newest())
    }),
    sometimes("the last round has something to do", |_, state: &State| {
        let held = state.process.map(|process| process.step);
        matches!(held, Some(Step::Held(reached)) if reached < state.newest())
    }),
    sometimes("a crash undoes a rename, and nothing is lost", |_, state: &State| {
        state.undone && state.acknowledged > 0
    }),
    sometimes("a process dies between rename and flush, and the next one goes on", |_, state| {
        let state: &State = state;
        let unflushed = state.changes.iter().any(|change| matches!(change, Change::Rename(_)));
        state.opened.is_some_and(|opened| opened.commit > 0) && unflushed
    }),
];
