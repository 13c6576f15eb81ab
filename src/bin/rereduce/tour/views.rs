//! The act about views: the days of the database by year, month and day, and what one change costs.
//!
//! Invariant: what the view answers is compared with sums that are made by hand from the tour's own
//! model, for every group of every level.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use rereduce::btree::TreeOptions;
use rereduce::env::Env;
use rereduce::view::functions::Language;
use rereduce::view::index::{Index, IndexSnapshot, Update, Views, ViewsOptions};
use rereduce::view::query::{QueryRow, ViewQuery, run};
use rereduce::vocabulary::{Json, Number};

use super::documents::{Scene, edit_of, one};
use super::model::State;
use super::stage::Stage;
use crate::outcome::{Failure, Outcome};

/// Entries of a node: small, so that the trees have a few levels.
const FAN_OUT: usize = 16;

/// The day that is changed.
const DAY: &str = "2014-05-17";

pub(super) fn show(stage: &mut Stage<'_>, scene: &mut Scene) -> Outcome {
    stage.act("Views: rows that a function emits, reduced by year, month and day")?;
    let (design, language) = functions::rain()?;
    let options = ViewsOptions {
        tree: TreeOptions { fan_out_max: FAN_OUT, ..ViewsOptions::default().tree },
        // Nothing is kept in memory, so every node that is needed is read, and counted.
        cache_bytes: 0,
        ..ViewsOptions::default()
    };
    let views = Views::open(Env::real(), scene.db.clone(), &scene.path, options)?;
    let index = views.index(&design, &language)?;
    stage.say("The map function of the view, in a design document:")?;
    stage.show(functions::RAIN)?;
    stage.say("Its rows are reduced by _stats. A key is a list, so its first elements name a")?;
    stage.say("group: none of them all days, one a year, two a month, three a day.")?;
    let before = index.snapshot(Update::True)?;
    levels(stage, &before, scene)?;
    let mapped = index.counts().mapped;
    stage.check("documents mapped once for the first query", mapped, 1461)?;
    change_one_day(stage, scene, &index, &before)?;
    views.close()?;
    Ok(())
}

/// Shows the first groups of each level, and compares all of them.
fn levels(stage: &mut Stage<'_>, state: &IndexSnapshot, scene: &Scene) -> Outcome {
    let mut table = Vec::new();
    for level in 0..=3 {
        let found = groups(state, level)?;
        if let Some((key, value)) = found.first() {
            let shown = ["sum", "count", "max"]
                .map(|name| value.member(name).map_or(String::new(), |number| number.to_string()));
            let (level, count) = (level.to_string(), found.len().to_string());
            table.push([level, count, key.to_string()].into_iter().chain(shown).collect());
        }
    }
    stage.table(&["level", "groups", "the first", "rain, mm", "days", "most"], &table)?;
    compare(stage, state, scene)
}

/// The groups of a level: their keys, and what their rows reduce to.
fn groups(state: &IndexSnapshot, level: u64) -> Outcome<Vec<(Json, Json)>> {
    let view = state.view(0).ok_or_else(|| Failure::no("the view is gone; please report it"))?;
    let query = ViewQuery { group_level: Some(level), ..ViewQuery::default() };
    let mut found = Vec::new();
    run(&view, None, &query, &mut |row| {
        if let QueryRow::Group { key, value } = row {
            found.push((key, value));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Rain of a group, by hand: days, and tenths of a millimetre.
#[derive(Default)]
struct Rain {
    days: i64,
    sum: i64,
    most: i64,
}

/// Compares every group of every level with what the model's documents add up to.
fn compare(stage: &mut Stage<'_>, state: &IndexSnapshot, scene: &Scene) -> Outcome {
    let newest = scene.model.newest();
    let documents = scene.model.at(newest).ok_or_else(|| Failure::no("no such commit"))?;
    let (mut right, mut total) = (0, 0);
    for level in 0..=3 {
        let by_hand = by_hand(documents, level)?;
        let found = groups(state, level as u64)?;
        total += by_hand.len().max(found.len()) as u64;
        // Groups come in the order of their keys, which is that of the calendar.
        for ((key, value), (prefix, rain)) in found.iter().zip(&by_hand) {
            let tenths = |name| value.member(name).and_then(tenths).unwrap_or(-1);
            let days = value.member("count") == Some(&Json::from(rain.days));
            let sums = tenths("sum") == rain.sum && tenths("max") == rain.most;
            right += u64::from(key.to_string() == shown_key(prefix) && days && sums);
        }
    }
    stage.check("groups of the view equal to sums by hand", right, total)
}

fn by_hand(documents: &State, level: usize) -> Outcome<BTreeMap<Vec<i64>, Rain>> {
    let mut groups: BTreeMap<Vec<i64>, Rain> = BTreeMap::new();
    for (date, (_, body)) in documents {
        let parts = date.split('-').take(level).filter_map(|part| part.parse().ok());
        let day = Json::parse(body.as_bytes())?;
        let rain = day.member("precipitation").and_then(tenths).unwrap_or_default();
        let group = groups.entry(parts.collect()).or_default();
        group.days += 1;
        group.sum += rain;
        group.most = group.most.max(rain);
    }
    Ok(groups)
}

/// A number in tenths, so that sums by hand are whole numbers.
fn tenths(number: &Json) -> Option<i64> {
    match number {
        Json::Number(Number::Integer(whole)) => Some(whole * 10),
        Json::Number(Number::Float(value)) => Some((value * 10.0).round() as i64),
        _ => None,
    }
}

/// All days are one group without a key.
fn shown_key(prefix: &[i64]) -> String {
    match prefix {
        [] => "null".to_owned(),
        _ => Json::Array(prefix.iter().map(|part| Json::from(*part)).collect()).to_string(),
    }
}

/// One document is edited; the index follows with one call of the map function.
fn change_one_day(
    stage: &mut Stage<'_>,
    scene: &mut Scene,
    index: &Arc<Index>,
    before: &IndexSnapshot,
) -> Outcome {
    let document = scene.db.snapshot()?.document(DAY, None)?;
    let change = |(name, value): (String, Json)| match name.as_str() {
        "precipitation" => (name, Json::from(99.9)),
        _ => (name, value),
    };
    let body = Json::Object(document.body.into_iter().map(change).collect());
    let mut edit = edit_of(DAY, body.clone())?;
    edit.draft.path = document.path;
    let rev = one(scene.db.edit(vec![edit])?)?;
    scene.model.commit(|state| {
        state.insert(DAY.to_owned(), (rev, body.to_string()));
    });
    let counts = index.counts();
    let after = index.snapshot(Update::True)?;
    let spent = index.counts();
    let (mapped, read) = (spent.mapped - counts.mapped, spent.nodes_read - counts.nodes_read);
    let (old, new) = (before.nodes()?, after.nodes()?);
    let written = new.difference(&old).count() as u64;
    let heights = after.heights();
    stage.say("")?;
    stage
        .say(&format!("Rain of 99.9 mm on {DAY} is commit 5. The next query updates the index:"))?;
    let table = [
        vec!["calls of the map function".to_owned(), mapped.to_string(), "1,461".to_owned()],
        vec!["nodes read".to_owned(), read.to_string(), new.len().to_string()],
        vec!["nodes written".to_owned(), written.to_string(), new.len().to_string()],
    ];
    stage.table(&["", "for this change", "of"], &table)?;
    stage.say("Of its two trees one finds the rows of a document by id, one has the rows.")?;
    stage.say(&format!(
        "Their heights are {heights} in all; this change kept its key and wrote a path of one."
    ))?;
    stage.check("map calls for one changed document", u64::from(mapped == 1), 1)?;
    let height = after.view(0).map_or(0, |view| u64::from(view.height()));
    let one_path = u64::from((1..=height).contains(&written));
    stage.check("nodes written, at most the height of a tree", one_path, 1)?;
    stage.check(
        "nodes read, at most twice the heights",
        u64::from((1..=2 * heights).contains(&read)),
        1,
    )?;
    stage.say("No group was reduced from all of its rows again, and yet every one is right:")?;
    compare(stage, &after, scene)?;
    let groups_of_before = groups(before, 3)?.len() as u64;
    stage.check("groups of the snapshot from before, still there", groups_of_before, 1461)
}

/// The view's functions.
#[cfg(feature = "javascript")]
mod functions {
    use rereduce::view::design::DesignDoc;
    use rereduce::view::javascript::{JavaScript, Limits};

    use super::{Arc, Json, Language, Outcome};
    use crate::output::object;

    pub(super) const RAIN: &str = "function (doc) {
  emit(doc.date.split('-').map(Number), doc.precipitation);
}";

    pub(super) fn rain() -> Outcome<(DesignDoc, Arc<dyn Language>)> {
        let view = object([("map", Json::from(RAIN)), ("reduce", Json::from("_stats"))]);
        let design = DesignDoc::parse(&object([("views", object([("rain", view)]))]))?;
        Ok((design, Arc::new(JavaScript::new(Limits::default()))))
    }
}

/// The view's functions, where there is no JavaScript.
#[cfg(not(feature = "javascript"))]
mod functions {
    use rereduce::view::builtin::Builtin;
    use rereduce::view::design::{DesignDoc, Reduce};
    use rereduce::view::functions::RustMaps;

    use super::{Arc, Json, Language, Outcome};

    pub(super) const RAIN: &str = "|doc, emit| emit(numbers(doc.date), doc.precipitation)";

    pub(super) fn rain() -> Outcome<(DesignDoc, Arc<dyn Language>)> {
        let map = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
            let date = document.member("date").and_then(Json::as_str).unwrap_or_default();
            let parts = date.split('-').filter_map(|part| part.parse::<i64>().ok());
            let rain = document.member("precipitation").cloned().unwrap_or(Json::Null);
            emit(Json::Array(parts.map(Json::from).collect()), rain);
        };
        let views = [("rain", Some(Reduce::Builtin(Builtin::Stats)))];
        let design = DesignDoc::of_rust("rain-1", &views);
        Ok((design, Arc::new(RustMaps::new(vec![Arc::new(map)]))))
    }
}
