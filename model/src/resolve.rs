//! What symbolic revisions and bodies stand for.
//!
//! Invariant: the answer depends on the operation and the model's state alone.

use rereduce::vocabulary::{Base, Replica, Rev, RevId};

use crate::db::State;
use crate::revtree::Path;

/// The JSON body that a number stands for; deletions have an empty one. Every seventh is longer
/// than a block.
///
/// ```
/// assert_eq!(rereduce_model::body_text(Some(5)), r#"{"v":5}"#);
/// assert!(rereduce_model::body_text(Some(6)).len() > 2048);
/// ```
pub fn body_text(body: Option<u64>) -> String {
    match body {
        None => "{}".to_owned(),
        Some(number) if number % 7 == 6 => {
            format!(r#"{{"v":{number},"pad":"{}"}}"#, "p".repeat(2100))
        }
        Some(number) => format!(r#"{{"v":{number}}}"#),
    }
}

/// `size` bytes that depend on `seed`.
///
/// ```
/// assert_eq!(rereduce_model::content(3, 5).len(), 5);
/// ```
pub fn content(seed: u64, size: u64) -> Vec<u8> {
    (0..size).map(|index| (index * (seed * 2 + 7) + seed + index / 251) as u8).collect()
}

/// The revision that `base` stands for.
///
/// ```
/// use rereduce::vocabulary::Base;
/// use rereduce_model::{State, resolve};
/// assert_eq!(resolve(&State::default(), "a", Base::Winner), None);
/// ```
pub fn resolve(state: &State, id: &str, base: Base) -> Option<Rev> {
    let document = state.documents.get(id);
    let nth = |revs: Vec<Rev>, index: u64| {
        let count = revs.len().max(1) as u64;
        revs.into_iter().nth((index % count) as usize)
    };
    match base {
        Base::New => None,
        Base::Winner => document?.winner(),
        Base::Leaf(index) => nth(document?.leaves(), index),
        Base::Old(index) => {
            let old = document.and_then(|document| nth(document.old(), index));
            Some(old.unwrap_or_else(unknown))
        }
        Base::Unknown => Some(unknown()),
    }
}

/// A revision that nobody ever wrote.
pub(crate) fn unknown() -> Rev {
    Rev::new(7, RevId::from_bytes([0xee; 16]))
}

/// The history that a replicated revision arrives with, the oldest first.
pub fn replica_path(state: &State, replica: &Replica) -> Path {
    let mut path = match resolve(state, &replica.id, replica.onto) {
        None => Path::new(),
        Some(rev) => {
            let known = state.documents.get(&replica.id).map(|document| document.history(&rev));
            known.filter(|history| !history.is_empty()).unwrap_or_else(|| vec![rev])
        }
    };
    for letter in &replica.letters {
        // The id depends on the parent, as real ones do: no revision has two histories.
        let parent = path.last().map(Rev::to_string).unwrap_or_default();
        let mut mixed = 0xcbf2_9ce4u32;
        for byte in parent.bytes() {
            mixed = (mixed ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
        let generation = path.last().map_or(0, |rev| rev.generation) + 1;
        let id = format!("{}{mixed:08x}", char::from(*letter));
        path.push(Rev::new(generation, RevId::from_bytes(id.into_bytes())));
    }
    let kept = (replica.ancestors as usize).saturating_add(replica.letters.len().max(1));
    path.split_off(path.len().saturating_sub(kept))
}
