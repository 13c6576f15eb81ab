//! What the database should hold: a map for each commit, kept by the tour.
//!
//! Invariant: nothing here asks the engine what it did, except for the revision that it answered.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rereduce::db::DbSnapshot;
use rereduce::vocabulary::{Direction, Json, KeyRange, Rev};

use crate::input::Records;
use crate::outcome::Outcome;

/// Days of weather in Seattle, 2012 to 2015, from NOAA.
const WEATHER: &str = include_str!("../../../../tests/data/seattle-weather.csv");

/// The rows of the weather, with their dates.
pub(super) fn weather() -> Outcome<Vec<(String, Json)>> {
    let mut records = Records::begin(WEATHER.as_bytes(), "seattle-weather.csv", None, false)?;
    let mut rows = Vec::new();
    while let Some(row) = records.next_record()? {
        let date = row.member("date").and_then(Json::as_str).unwrap_or_default().to_string();
        rows.push((date, row));
    }
    Ok(rows)
}

/// The documents that are not deleted, with winner and body.
pub(super) type State = BTreeMap<String, (Rev, String)>;

/// What every commit should hold.
pub(super) struct Model {
    /// Index n is the state after commit n; commit 0 is the empty database.
    states: Vec<State>,
}

impl Model {
    pub(super) fn new() -> Model {
        Model { states: vec![State::new()] }
    }

    /// The number of the newest commit.
    pub(super) fn newest(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// Makes a commit.
    pub(super) fn commit(&mut self, change: impl FnOnce(&mut State)) {
        let mut state = self.states.last().cloned().unwrap_or_default();
        change(&mut state);
        self.states.push(state);
    }

    /// The state after commit `number`.
    pub(super) fn at(&self, number: u64) -> Option<&State> {
        self.states.get(usize::try_from(number).ok()?)
    }

    /// Whether `snapshot` is commit `number` and holds what the model says: every document, its
    /// winner and its body, read one by one, and nothing else.
    pub(super) fn agrees(&self, snapshot: &DbSnapshot, number: u64) -> Outcome<bool> {
        let Some(state) = self.at(number) else { return Ok(false) };
        let (mut found, mut failed) = (State::new(), Ok(()));
        snapshot.all_docs(&KeyRange::all(), Direction::Ascending, &mut |summary| {
            if summary.deleted {
                return ControlFlow::Continue(());
            }
            match snapshot.document(&summary.id, None) {
                Ok(document) => {
                    let body = Json::Object(document.body).to_string();
                    found.insert(summary.id, (summary.rev, body));
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed?;
        let count = snapshot.info().doc_count == state.len() as u64;
        Ok(snapshot.number() == number && count && found == *state)
    }
}
