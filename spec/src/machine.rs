//! What the three models have in common: a state, events, one function that goes from state to
//! state, and rules about states.
//!
//! Invariant: [`Machine::next`] is the only place that changes a state. The explorer asks it for
//! every event that [`Machine::events`] proposes, the [acceptor](crate::acceptor) asks it for every
//! call that a real run made; neither knows more than its answer.

use std::fmt::Debug;
use std::hash::Hash;

/// A transition system.
///
/// ```
/// use rereduce_spec::commit::{Commits, Event};
/// use rereduce_spec::machine::Machine;
/// let machine = Commits::default();
/// let opened = machine.next(&machine.start(), &Event::Open).unwrap();
/// assert_eq!(machine.next(&opened, &Event::Sync), None, "there is nothing to flush yet");
/// ```
// spec: SPECMODEL-1
pub trait Machine: Sized {
    /// Everything there is at one moment.
    type State: Clone + Debug + Eq + Hash;
    /// One step.
    type Event: Clone + Debug + PartialEq;

    /// Where every run begins.
    fn start(&self) -> Self::State;

    /// The events that an exploration tries in `state`, within the bounds of the model.
    fn events(&self, state: &Self::State, events: &mut Vec<Self::Event>);

    /// The state after `event`; `None` if the protocol does not allow it in `state`.
    fn next(&self, state: &Self::State, event: &Self::Event) -> Option<Self::State>;

    /// What must hold in every state, and what must be reachable.
    fn rules() -> &'static [Rule<Self>];
}

/// Whether a rule is about every state or about some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It holds in every reachable state.
    Always,
    /// It holds in at least one reachable state, which shows that the model gets there.
    Sometimes,
}

/// A property of the reachable states.
pub struct Rule<M: Machine> {
    /// Of every state, or of some.
    pub reach: Reach,
    /// A sentence.
    pub name: &'static str,
    /// Whether it holds in one state.
    pub holds: fn(&M, &M::State) -> bool,
}

/// A rule that must hold in every state.
pub const fn always<M: Machine>(name: &'static str, holds: fn(&M, &M::State) -> bool) -> Rule<M> {
    Rule { reach: Reach::Always, name, holds }
}

/// A rule that must hold in some state.
pub const fn sometimes<M: Machine>(
    name: &'static str,
    holds: fn(&M, &M::State) -> bool,
) -> Rule<M> {
    Rule { reach: Reach::Sometimes, name, holds }
}
