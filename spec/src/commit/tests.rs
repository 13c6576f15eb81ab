//! Explores the commit protocols, and shows that each rule about every state can fail.
//!
//! The counts are pinned: a change of the model shows as a change of them, and belongs into
//! `spec/models.md` too.

use super::*;
use crate::explored::{explore, refute};

fn explored(name: &str, machine: Commits) -> (usize, usize) {
    let found = explore(name, machine);
    assert!(found.broken.is_empty(), "{name}");
    assert_eq!(found.unreached, [""; 0], "{name}");
    (found.states, found.depth)
}

// spec: SPECMODEL-1, COMMIT-1, COMMIT-2, COMMIT-5, RECOVER-1, RECOVER-3, RECOVER-4
#[test]
fn barrier_keeps_every_promise_on_a_disk_that_reorders_writes() {
    let machine = Commits { protocol: Protocol::Barrier, ..Commits::default() };
    assert_eq!(explored("barrier", machine), (113_515, 32));
}

// spec: SPECMODEL-1, COMMIT-1, COMMIT-2, COMMIT-3, COMMIT-4, COMMIT-5, RECOVER-1, RECOVER-3
// spec: RECOVER-4
#[test]
fn verified_keeps_every_promise_on_a_disk_that_reorders_writes() {
    assert_eq!(explored("verified", Commits::default()), (723_472, 32));
}

// spec: SPECMODEL-1, COMMIT-2
#[test]
fn guide_keeps_every_promise_on_a_disk_that_keeps_the_order_of_writes() {
    let machine = Commits { protocol: Protocol::Guide, keeps_order: true, ..Commits::default() };
    assert_eq!(explored("guide, ordered disk", machine), (56_040, 32));
}

// spec: SPECMODEL-1, COMMIT-2
#[test]
fn guide_believes_a_footer_over_missing_data_where_the_disk_reorders_writes() {
    let machine = Commits { protocol: Protocol::Guide, ..Commits::default() };
    let events = refute("guide", machine, "what an opening believes is all there");
    let lost_data = Event::Crash { survivors: 0b10, full_length: false };
    assert_eq!(events[3..], [lost_data, Event::Open], "copy A survives without its data");
    refute("guide", machine, "a witnessed commit is on the platter");
}

/// Shows that `machine` breaks `rule` with the slip, and returns the way there.
fn breaks(slip: Slip, machine: Commits, rule: &'static str) -> Vec<Event> {
    refute(&format!("{slip:?}"), Commits { slip: Some(slip), ..machine }, rule)
}

// spec: SPECMODEL-2
#[test]
fn each_wrong_transition_breaks_a_rule() {
    let verified = Commits::default();
    let barrier = Commits { protocol: Protocol::Barrier, ..verified };
    breaks(Slip::FlushLeftOut, verified, "an acknowledged commit is on the platter");
    breaks(Slip::FooterEarly, barrier, "what an opening believes is all there");
    breaks(Slip::CoverStartsLate, verified, "what an opening believes is all there");
    breaks(Slip::CoverNotChecked, verified, "what an opening believes is all there");
    breaks(Slip::WitnessOfItself, verified, "a witnessed commit never vanishes");
    breaks(Slip::TailNotRewritten, verified, "an acknowledged commit is on the platter");
    breaks(Slip::WritesAfterFailure, verified, "an acknowledged commit is on the platter");
    let knows = "a writer that goes on knows the acknowledged commit";
    breaks(Slip::RewriteBehindTheTwin, verified, knows);
}

// spec: SPECMODEL-2, COMMIT-1, COMMIT-5, RECOVER-4
#[test]
fn each_way_to_lose_an_acknowledged_commit_ends_in_an_opening_that_does_not_find_it() {
    for slip in [Slip::FlushLeftOut, Slip::TailNotRewritten, Slip::WritesAfterFailure] {
        let rule = "an acknowledged commit is found by every opening";
        let events = breaks(slip, Commits::default(), rule);
        assert_eq!(events.last(), Some(&Event::Open));
    }
}

/// A crash cuts copy B of a commit off, the data of the next one lies in its place, its flush
/// fails, and the handle is opened anew.
// spec: SPECMODEL-2, RECOVER-4
#[test]
fn a_tail_written_anew_from_behind_the_twin_loses_a_commit() {
    let rule = "an acknowledged commit is found by every opening";
    let events = breaks(Slip::RewriteBehindTheTwin, Commits::default(), rule);
    let crashes = events.iter().filter(|event| matches!(event, Event::Crash { .. })).count();
    let failures = events.iter().filter(|event| matches!(event, Event::SyncFails(_))).count();
    assert_eq!((crashes, failures), (2, 1));
}
