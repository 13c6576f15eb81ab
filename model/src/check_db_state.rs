//! Compares a whole state of a document database with the model's.
//!
//! Invariant: nothing that can be read is left out.

use std::collections::BTreeSet;
use std::fmt::Debug;

use rereduce::vocabulary::{Direction, Rev};
use rereduce::{Error, ErrorClass};

use crate::check_db::{DbChange, DbDocument, DbView, DbWanted};
use crate::check_stop::{Stop, differs};
use crate::db::{Attachment, Document, State};
use crate::verdict::Mismatch;

pub(crate) fn same<T: Debug + PartialEq>(expected: &T, found: &T) -> Result<(), Stop> {
    if expected == found {
        return Ok(());
    }
    Err(differs(short(expected), short(found)))
}

/// Enough of a value to tell it from another.
fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let cut: String = text.chars().take(600).collect();
    if cut.len() < text.len() { cut + "..." } else { cut }
}

/// What reading `rev` must answer; `None` if its body is not known.
pub(crate) fn known_document(document: &Document, rev: &Rev) -> Option<DbDocument> {
    let revision = document.revisions.get(rev)?;
    let mut attachments: Vec<_> = revision
        .attachments
        .iter()
        .map(|kept| (kept.name.clone(), kept.media.clone(), kept.content.len() as u64))
        .collect();
    attachments.sort();
    Some(DbDocument {
        rev: rev.clone(),
        deleted: revision.deleted,
        body: revision.body.clone(),
        history: document.history(rev),
        attachments,
    })
}

/// What reading answers, in ascending order; "missing" is nothing.
pub(crate) fn open_document(
    view: &dyn DbView,
    id: &str,
    wanted: &DbWanted,
) -> Result<Vec<DbDocument>, Error> {
    let mut found = match view.read(id, wanted) {
        Err(error) if error.class() == ErrorClass::Missing => Vec::new(),
        found => found?,
    };
    for document in &mut found {
        document.attachments.sort();
    }
    found.sort();
    Ok(found)
}

/// Compares everything that `view` shows with `state`: for engines that are judged by more than
/// their answers, such as one that opens what a crash has left.
///
/// # Errors
/// What differs, for people.
pub fn compare_db(state: &State, view: &dyn DbView) -> Result<(), String> {
    let locals = state.locals.keys().cloned().collect();
    compare(state, view, &locals).map_err(|stop| {
        let Mismatch { expected, found, .. } = stop.at(0);
        format!("expected {expected}, found {found}")
    })
}

/// Everything: changes both ways, counts, limits, every leaf with its attachments, all local
/// documents, those named by `locals` also one by one.
pub(crate) fn compare(
    state: &State,
    view: &dyn DbView,
    locals: &BTreeSet<String>,
) -> Result<(), Stop> {
    compare_changes(state, view, 0, Direction::Ascending, None)?;
    compare_changes(state, view, 0, Direction::Descending, None)?;
    same(&state.counts(), &view.counts()?)?;
    for (id, document) in &state.documents {
        let leaves = document.leaves();
        let expected: Vec<_> =
            leaves.iter().filter_map(|leaf| known_document(document, leaf)).collect();
        same(&expected, &open_document(view, id, &DbWanted::Leaves)?)?;
        let live = document.winner().filter(|_| !document.deleted());
        let winner: Vec<_> = live.iter().filter_map(|rev| known_document(document, rev)).collect();
        same(&winner, &open_document(view, id, &DbWanted::Winner)?)?;
        for leaf in &leaves {
            for kept in document.revisions.get(leaf).into_iter().flat_map(|leaf| &leaf.attachments)
            {
                let middle = (1, kept.content.len() as u64 / 2);
                compare_attachment(view, id, leaf, kept, None)?;
                compare_attachment(view, id, leaf, kept, Some(middle))?;
            }
        }
    }
    if let Some(limits) = view.limits() {
        same(&(state.revs_limit, state.purge_limit), &limits)?;
    }
    if let Some(found) = view.locals() {
        same(&state.locals, &found?)?;
    }
    for id in locals {
        if let Some(found) = view.local(id) {
            same(&state.locals.get(id), &found?.as_ref())?;
        }
    }
    Ok(())
}

fn compare_attachment(
    view: &dyn DbView,
    id: &str,
    leaf: &Rev,
    kept: &Attachment,
    range: Option<(u64, u64)>,
) -> Result<(), Stop> {
    let Some(found) = view.attachment(id, leaf, &kept.name, range) else { return Ok(()) };
    let (expected, found) = (cut(&kept.content, range), found?);
    if expected == found {
        return Ok(());
    }
    let what = format!("attachment {:?} of {id:?} {leaf}, range {range:?}", kept.name);
    let bytes = |bytes: &[u8]| format!("{} bytes {}", bytes.len(), short(&bytes));
    Err(differs(format!("{what}: {}", bytes(&expected)), bytes(&found)))
}

/// The part of an attachment that a range asks for.
pub(crate) fn cut(content: &[u8], range: Option<(u64, u64)>) -> Vec<u8> {
    let (start, length) = range.unwrap_or((0, u64::MAX));
    content.iter().skip(start as usize).take(length as usize).copied().collect()
}

/// The whole list is compared with the model, where documents that changed in one commit may come
/// in any order; every other list must be a part of the whole one.
// spec: MODEL-11
pub(crate) fn compare_changes(
    state: &State,
    view: &dyn DbView,
    since: u64,
    direction: Direction,
    limit: Option<u64>,
) -> Result<(), Stop> {
    let all = view.changes(0, Direction::Ascending, None)?;
    compare_all_changes(state, &all)?;
    let skipped = match direction {
        Direction::Ascending => (since as usize).min(all.len()),
        Direction::Descending => 0,
    };
    let seq = skipped.checked_sub(1).map_or(0, |last| all[last].seq);
    let mut expected = all[skipped..].to_vec();
    if direction == Direction::Descending {
        expected.reverse();
    }
    expected.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
    same(&expected, &view.changes(seq, direction, limit)?)
}

fn compare_all_changes(state: &State, all: &[DbChange]) -> Result<(), Stop> {
    if let Some(pair) = all.windows(2).find(|pair| pair[0].seq >= pair[1].seq) {
        let expected = format!("a sequence after {} for {:?}", pair[0].seq, pair[1].id);
        return Err(differs(expected, pair[1].seq));
    }
    let mut rest = all;
    for ids in state.changes().into_values() {
        let (group, behind) = rest.split_at(ids.len().min(rest.len()));
        let mut found: Vec<&str> = group.iter().map(|change| change.id.as_str()).collect();
        found.sort_unstable();
        if !ids.iter().eq(&found) {
            return Err(differs(format!("changes of {ids:?}"), format!("of {found:?}")));
        }
        rest = behind;
    }
    if let Some(change) = rest.first() {
        return Err(differs("no more changes", format!("one of {:?}", change.id)));
    }
    for change in all {
        let document = &state.documents[&change.id];
        let mut leaves = change.leaves.clone();
        leaves.sort();
        let expected = (document.winner(), document.deleted(), document.leaves());
        same(&expected, &(Some(change.winner.clone()), change.deleted, leaves))?;
    }
    Ok(())
}
