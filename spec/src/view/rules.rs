//! What an index promises, and what an exploration must have seen.
//!
//! Invariant: rules compare the index with the documents themselves, computed from nothing.

use super::{Commit, DOCUMENTS, Query, State, Views, Why};
use crate::machine::{Rule, always, sometimes};

/// The commit that the index says it was made from, if it still exists or a query holds it.
fn commit_of_index(state: &State) -> Option<&Commit> {
    let held = match &state.query {
        Query::Updating { snapshot, .. } | Query::Answered { snapshot, .. } => Some(snapshot),
        Query::None => None,
    };
    let mut all = state.commits.iter().chain(held);
    all.find(|commit| commit.identity == state.index.identity)
}

fn view(commit: &Commit) -> [u8; DOCUMENTS] {
    commit.documents.map(|document| document.row())
}

fn rebuilt(state: &State) -> Option<Why> {
    match state.query {
        Query::Answered { rebuilt, .. } => rebuilt,
        Query::None | Query::Updating { .. } => None,
    }
}

// spec: SPECMODEL-1
pub(super) const RULES: &[Rule<Views>] = &[
    always("a query is answered with the view of its snapshot", |_, state: &State| {
        match &state.query {
            Query::Answered { snapshot, rows, .. } => *rows == view(snapshot),
            Query::None | Query::Updating { .. } => true,
        }
    }),
    always(
        "the index is its commit up to its sequence, and older behind it",
        |_, state: &State| {
            let Some(commit) = commit_of_index(state) else { return true };
            let fits = |(row, document): (&u8, &super::Document)| match document.version {
                0 => true,
                _ if document.seq <= state.index.seq => *row == document.row(),
                version => *row < version,
            };
            state.index.seq <= commit.seq
                && state.index.rows.iter().zip(&commit.documents).all(fits)
        },
    ),
    always("no row of a purged document is left", |_, state: &State| {
        let Some(commit) = commit_of_index(state) else { return true };
        let pairs = state.index.rows.iter().zip(&commit.documents);
        pairs.into_iter().all(|(row, document)| document.version > 0 || *row == 0)
    }),
    always("a compaction of the index loses no batch", |_, state: &State| !state.went_back),
    sometimes("a query finds the index behind and goes on", |_, state: &State| {
        let behind = state.index.seq > 0 && rebuilt(state).is_none();
        matches!(state.query, Query::Answered { .. }) && behind && state.counts.queries == 2
    }),
    sometimes("an index ahead of its database is built anew", |_, state: &State| {
        rebuilt(state) == Some(Why::Ahead)
    }),
    sometimes("an index beside its database is built anew", |_, state: &State| {
        rebuilt(state) == Some(Why::Beside)
    }),
    sometimes("an index that missed forgotten purges is built anew", |_, state: &State| {
        rebuilt(state) == Some(Why::PurgesForgotten)
    }),
    sometimes("an update goes on from the batches before a crash", |_, state: &State| {
        let going_on = matches!(state.query, Query::Updating { rebuilt: None, .. });
        state.resumes && going_on && state.index.seq > 0
    }),
    sometimes("the batch in flight survives a crash", |_, state: &State| {
        matches!(state.query, Query::None) && state.counts.crashes > 0 && state.index.seq > 0
    }),
    sometimes(
        "the database changes while the index is brought up",
        |_, state: &State| match &state.query {
            Query::Updating { number, batch, .. } => {
                batch.is_some() && *number + 1 < state.commits.len()
            }
            Query::None | Query::Answered { .. } => false,
        },
    ),
    sometimes("a purge takes a row out of the index", |_, state: &State| match &state.query {
        Query::Updating { batch: Some(batch), anew: false, .. } => {
            let newly = batch.purge_seq > state.index.purge_seq;
            newly && (0..DOCUMENTS).any(|at| state.index.rows[at] > 0 && batch.rows[at] == 0)
        }
        _ => false,
    }),
    sometimes("a compaction of the index has to catch up", |_, state: &State| {
        state.copy.is_some_and(|copy| copy != state.index)
    }),
];
