//! What the commit protocols promise, and what an exploration must have seen.
//!
//! Invariant: rules judge by what really happened (units, where they are held, what was
//! acknowledged), never by what the writer believes.

use super::{Commits, Footer, Found, Held, Protocol, State, What};
use crate::machine::{Rule, always, sometimes};

/// The commits from the one at `place` back to the first; ends early if a footer is missing.
fn chain(state: &State, place: Option<usize>) -> Vec<Option<Footer>> {
    let mut chain = Vec::new();
    let mut at = place;
    while let Some(place) = at {
        let footer = state.footer(place);
        chain.push(footer);
        at = footer.and_then(|footer| footer.said.previous);
    }
    chain
}

fn all_there(state: &State, place: usize) -> bool {
    chain(state, Some(place)).into_iter().all(|footer| {
        footer.is_some_and(|footer| {
            let mut data = state.units[footer.data_from..footer.place].iter();
            data.all(|unit| unit.what == What::Data)
        })
    })
}

fn durable(state: &State, place: usize) -> bool {
    let held = |index: usize| state.units.get(index).is_some_and(|unit| unit.held == Held::Platter);
    chain(state, Some(place)).into_iter().all(|footer| {
        footer.is_some_and(|footer| {
            let copy = |index: usize| {
                let what = state.units.get(index).map(|unit| unit.what);
                held(index)
                    && [Some(What::CopyA(footer)), Some(What::CopyB(footer))].contains(&what)
            };
            let data = |index: usize| held(index) && state.units[index].what == What::Data;
            let all = (footer.data_from..footer.place).all(data);
            all && (copy(footer.place) || copy(footer.place + 1))
        })
    })
}

fn found(state: &State) -> Option<Option<usize>> {
    match state.opened?.found {
        Found::Nothing => Some(None),
        Found::Commit(place) => Some(Some(place)),
        Found::Damage => None,
    }
}

/// Every whole footer's witness, with the place of the commit that it means.
fn witnessed(state: &State) -> impl Iterator<Item = usize> + '_ {
    let footers = state.units.iter().filter_map(|unit| match unit.what {
        What::CopyA(footer) | What::CopyB(footer) => Some(footer),
        What::Data | What::Lost => None,
    });
    footers.filter_map(|footer| {
        let of_parent = footer.said.previous.filter(|_| footer.said.witness > 0);
        let is_own = footer.said.witness == footer.said.number;
        if is_own { footer.said.seals.or(Some(footer.place)) } else { of_parent }
    })
}

// spec: SPECMODEL-1
pub(super) const RULES: &[Rule<Commits>] = &[
    always("an acknowledged commit is found by every opening", |_, state: &State| {
        let Some(found) = found(state) else { return true };
        let has = |place| chain(state, found).iter().flatten().any(|it| it.place == place);
        state.acknowledged.is_none_or(has)
    }),
    always("what an opening believes is all there", |_, state: &State| {
        found(state).flatten().is_none_or(|place| all_there(state, place))
    }),
    always("a witnessed commit never vanishes", |_, state: &State| {
        state.opened.is_none_or(|opened| opened.found != Found::Damage)
    }),
    always("an acknowledged commit is on the platter", |_, state: &State| {
        state.acknowledged.is_none_or(|place| durable(state, place))
    }),
    always("a witnessed commit is on the platter", |_, state: &State| {
        witnessed(state).all(|place| durable(state, place))
    }),
    always("a writer that goes on knows the acknowledged commit", |_, state: &State| {
        let head = state.writer.and_then(|writer| writer.head);
        let knows = |place| chain(state, head).iter().flatten().any(|it| it.place == place);
        state.writer.is_none() || state.acknowledged.is_none_or(knows)
    }),
    sometimes("opening falls back over a torn tail", |_, state: &State| {
        state.opened.is_some_and(|opened| opened.tail > 0)
    }),
    sometimes("a commit that nobody was told of survives", |_, state: &State| {
        found(state).is_some_and(|found| found.is_some() && found != state.acknowledged)
    }),
    sometimes("one copy of a footer is enough", |_, state: &State| {
        state.opened.is_some_and(|opened| opened.one_copy)
    }),
    sometimes("opening finds a seal", |_, state: &State| {
        state.opened.is_some_and(|opened| opened.sealed)
    }),
    sometimes(
        "a footer is not believed because of its cover",
        |machine: &Commits, state: &State| {
            // Under the other protocols covers are empty, so this cannot be asked of them.
            machine.protocol != Protocol::Verified
                || state.opened.is_some_and(|opened| opened.cover_failed)
        },
    ),
    sometimes("the cache shows what the disk never got", |_, state: &State| {
        let alone = |place: usize| state.units[place].held == Held::CacheAlone;
        found(state).flatten().is_some_and(alone)
    }),
    sometimes("the last commit is made after two crashes", |machine: &Commits, state: &State| {
        let all = state.counts.commits == machine.bounds.commits;
        let last =
            state.writer.is_some_and(|it| it.head.is_some() && it.head == state.acknowledged);
        all && last && state.counts.crashes == 2
    }),
];
