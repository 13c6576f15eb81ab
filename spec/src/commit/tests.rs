//! Explores the commit protocols.

use super::*;
use crate::explored::{Findings, explore};

fn explored(name: &str, machine: Commits) -> Findings<Event> {
    explore(name, machine)
}

#[test]
fn barrier() {
    let machine = Commits { protocol: Protocol::Barrier, ..Commits::default() };
    explored("barrier", machine);
}

#[test]
fn verified() {
    explored("verified", Commits::default());
}

#[test]
fn guide() {
    let machine = Commits { protocol: Protocol::Guide, ..Commits::default() };
    explored("guide reorder", machine);
    explored("guide ordered", Commits { keeps_order: true, ..machine });
}
#[test]
fn twin() {
    let machine = Commits { slip: Some(Slip::RewriteBehindTheTwin), ..Commits::default() };
    explored("twin", machine);
    explored("twin b", Commits { protocol: Protocol::Barrier, ..machine });
}
