//! What can be done to edits before their turn comes: their text and their revision ids.
//!
//! ```text
//!   caller's thread    edit  edit  edit  edit  edit  edit  edit  edit
//!                      `---- this thread ----'  `---- a second one ---'   bodies become text,
//!                                                                         ids are guessed
//!   leader of a group  one after the other: a guess is taken if the edit builds on what it named
//! ```
//!
//! An edit that is accepted nearly always builds on the revision that it names, or on nothing, so
//! its id can be computed without knowing the database. Writers that wait for a group do so side
//! by side, and a long batch does so on several threads.
//!
//! Invariant: what is prepared depends on the edit alone. A guess belongs to one parent and is used
//! for no other.

use std::borrow::Cow;
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use super::DocEdit;
use crate::doc::{revision_id, write_stored_object};
use crate::error::Result;
use crate::mark;
use crate::vocabulary::{Json, Rev};

/// Documents that a thread must have to do for starting it to pay: each takes some 2 us, and to
/// start a thread takes as long as 20 of them.
const ITEMS_PER_THREAD_MIN: usize = 250;

/// Threads that work on one batch.
const THREADS_MAX: usize = 4;

/// Room for the text of one body; most documents are small.
const TEXT_BYTES_EXPECTED: usize = 384;

/// Consecutive edits of one call, prepared.
pub(crate) struct Prepared {
    edits: Vec<PreparedEdit>,
    /// The stored text of all bodies, one behind the other.
    text: Vec<u8>,
}

struct PreparedEdit {
    /// Without its body, unless its id depends on attachments too.
    edit: DocEdit,
    text: Range<usize>,
    guess: Option<Rev>,
}

/// One prepared edit, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Ready<'a> {
    /// The edit; see [`Ready::body`] for its body.
    pub(crate) edit: &'a DocEdit,
    /// The body as it is stored.
    pub(crate) text: &'a [u8],
    guess: Option<&'a Rev>,
}

impl Ready<'_> {
    /// The id of the revision that this edit makes on the one that it names, or as the first one
    /// if it names none, without attachments.
    pub(crate) fn guess(&self) -> Option<&Rev> {
        self.guess
    }

    /// The members of the body. Cost: reads the text once more, unless there are attachments.
    pub(crate) fn body(&self) -> Result<Cow<'_, [(String, Json)]>> {
        if !self.edit.draft.attachments.is_empty() {
            return Ok(Cow::Borrowed(&self.edit.draft.body));
        }
        match Json::parse(self.text)? {
            Json::Object(members) => Ok(Cow::Owned(members)),
            _ => unreachable!("the text is that of an object"),
        }
    }
}

impl Prepared {
    /// The edits, in their order.
    pub(crate) fn edits(&self) -> impl Iterator<Item = Ready<'_>> {
        self.edits.iter().map(|PreparedEdit { edit, text, guess }| {
            // The ranges were taken from this text.
            Ready { edit, text: &self.text[text.clone()], guess: guess.as_ref() }
        })
    }

    fn of(edits: Vec<DocEdit>, replicated: bool) -> Prepared {
        let mut text = Vec::with_capacity(edits.len() * TEXT_BYTES_EXPECTED);
        let prepare = |mut edit: DocEdit| {
            let (draft, begin) = (&mut edit.draft, text.len());
            write_stored_object(&draft.body, &mut text);
            let mut guess = None;
            if draft.attachments.is_empty() {
                // Whoever prepares a body also frees it.
                let body = std::mem::take(&mut draft.body);
                if !replicated && !edit.id.is_local() {
                    let named = draft.path.newest();
                    guess = revision_id(draft.deleted, named.as_ref(), &body, &[]);
                }
            }
            PreparedEdit { edit, text: begin..text.len(), guess }
        };
        let edits = edits.into_iter().map(prepare).collect();
        Prepared { edits, text }
    }
}

/// Prepares the edits of one call; the parts hold them in their order.
pub(crate) fn prepare(edits: Vec<DocEdit>, replicated: bool) -> Vec<Prepared> {
    in_shares(edits, |share| Prepared::of(share, replicated))
}

/// Does `work` on all `items`, on several threads if there are many. The answers are those for
/// consecutive shares.
fn in_shares<T: Send, R: Send>(mut items: Vec<T>, work: impl Fn(Vec<T>) -> R + Sync) -> Vec<R> {
    let threads = (items.len() / ITEMS_PER_THREAD_MIN).min(threads_max());
    if threads <= 1 {
        return vec![work(items)];
    }
    let share = items.len().div_ceil(threads);
    let mut shares = Vec::with_capacity(threads);
    while !items.is_empty() {
        shares.push(items.split_off((items.len() - 1) / share * share));
    }
    let waiting = Mutex::new(shares.into_iter().rev().enumerate());
    let done = Mutex::new(Vec::with_capacity(threads));
    let take_shares = || {
        loop {
            let next = locked(&waiting).next();
            let Some((index, share)) = next else { break };
            let answer = work(share);
            locked(&done).push((index, answer));
        }
    };
    let planted = mark::here();
    let other = || {
        mark::take_over(planted);
        take_shares();
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // A machine that has no thread to give away does without.
            drop(thread::Builder::new().spawn_scoped(scope, other));
        }
        take_shares();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}

/// Nothing panics while it holds one of these locks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads are worth starting on this machine; asking the system takes longer than
/// preparing a few edits.
fn threads_max() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        let available = thread::available_parallelism().map_or(1, NonZero::get);
        available.min(THREADS_MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{Database, DatabaseOptions};
    use crate::env::Env;

    #[test]
    fn shares_come_back_in_their_order_whatever_the_number_of_items() {
        for count in [0, 1, 249, 499, 500, 501, 999, 1000, 1003, 4001] {
            let items: Vec<u32> = (0..count).collect();
            assert_eq!(in_shares(items.clone(), |share| share).concat(), items);
        }
    }

    // spec: DB-1, DOC-8
    #[test]
    fn a_long_batch_makes_the_revisions_that_single_edits_make() {
        let open = || Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default());
        let (batch, single) = (open().unwrap(), open().unwrap());
        let mut documents: Vec<(String, String)> = Vec::new();
        for n in 0..1100 {
            // Every tenth one is a second first edit, and conflicts.
            documents.push((format!("{}", n - n % 10 / 9), format!("{{\"n\":{n},\"f\":{n}.5}}")));
        }
        let edit = |(id, json): &(String, String)| DocEdit::parse(id, json.as_bytes()).unwrap();
        let edits: Vec<DocEdit> = documents.iter().map(edit).collect();
        let answers = batch.edit(edits.clone()).unwrap();
        assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 110);
        for (edit, answer) in edits.into_iter().zip(answers) {
            let alone = single.edit(vec![edit]).unwrap().remove(0);
            assert_eq!(alone.ok(), answer.ok());
        }
    }

    // spec: DOC-8
    #[test]
    fn a_guess_is_not_taken_for_a_document_that_is_written_again() {
        let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default()).unwrap();
        let edit = |json: &str| db.edit(vec![DocEdit::parse("a", json.as_bytes()).unwrap()]);
        let first = edit("{\"v\":1}").unwrap().remove(0).unwrap();
        edit(&format!("{{\"_rev\":\"{first}\",\"_deleted\":true}}")).unwrap().remove(0).unwrap();
        let again = edit("{\"v\":1}").unwrap().remove(0).unwrap();
        assert_eq!((first.generation, again.generation), (1, 3));
    }
}
