//! A [`Machine`] as `stateright` sees it, and what an exploration of it says.
//!
//! Invariant: one thread and breadth first, so that the counts are the same on every run.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

use crate::machine::{Machine, Reach};

/// The adapter. Remembers which rules it reported, for `stateright` would go on to replace each
/// discovery by a later one, and the first is the shortest.
struct Explored<M> {
    machine: M,
    reported: [AtomicBool; RULES_MAX],
}

const RULES_MAX: usize = 16;

/// What an exploration said.
pub(crate) struct Findings<E> {
    /// Different states.
    pub(crate) states: usize,
    /// Steps of the longest shortest way to a state, plus one for the first state.
    pub(crate) depth: usize,
    /// Rules for every state that fail in one, with the shortest way there.
    pub(crate) broken: Vec<(&'static str, Vec<E>)>,
    /// Rules for some state that hold in none.
    pub(crate) unreached: Vec<&'static str>,
}

/// Rule `INDEX` of a machine; `stateright` takes plain functions only.
fn rule<M: Machine + 'static, const INDEX: usize>(model: &Explored<M>, state: &M::State) -> bool {
    let rule = &M::rules()[INDEX];
    let holds = (rule.holds)(&model.machine, state);
    match rule.reach {
        Reach::Always => holds || model.reported[INDEX].swap(true, Relaxed),
        Reach::Sometimes => holds && !model.reported[INDEX].swap(true, Relaxed),
    }
}

impl<M: Machine + 'static> Model for Explored<M> {
    type State = M::State;
    type Action = M::Event;

    fn init_states(&self) -> Vec<M::State> {
        vec![self.machine.start()]
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::Event>) {
        self.machine.events(state, actions);
    }

    fn next_state(&self, state: &M::State, event: M::Event) -> Option<M::State> {
        self.machine.next(state, &event)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let conditions: [fn(&Self, &M::State) -> bool; RULES_MAX] = [
            rule::<M, 0>,
            rule::<M, 1>,
            rule::<M, 2>,
            rule::<M, 3>,
            rule::<M, 4>,
            rule::<M, 5>,
            rule::<M, 6>,
            rule::<M, 7>,
            rule::<M, 8>,
            rule::<M, 9>,
            rule::<M, 10>,
            rule::<M, 11>,
            rule::<M, 12>,
            rule::<M, 13>,
            rule::<M, 14>,
            rule::<M, 15>,
        ];
        assert!(M::rules().len() <= conditions.len(), "add a line above for each rule");
        let rules = M::rules().iter().zip(conditions);
        let named = rules.map(|(rule, condition)| match rule.reach {
            Reach::Always => Property::always(rule.name, condition),
            Reach::Sometimes => Property::sometimes(rule.name, condition),
        });
        named.collect()
    }
}

/// Explores `machine` from its start to the bounds of its events, and prints what it found.
pub(crate) fn explore<M>(name: &str, machine: M) -> Findings<M::Event>
where
    M: Machine + Send + Sync + 'static,
    M::State: Send + Sync + Debug,
    M::Event: Send + Sync + Debug,
{
    let found = explore_until(machine, HasDiscoveries::All);
    println!("{name}: {} states, depth {}", found.states, found.depth);
    for (rule, events) in &found.broken {
        println!("  not always: {rule}");
        events.iter().for_each(|event| println!("    {event:?}"));
    }
    found.unreached.iter().for_each(|rule| println!("  never: {rule}"));
    found
}

/// The shortest way to a state of `machine` in which `rule` fails.
///
/// # Panics
///
/// If it holds in every state.
pub(crate) fn refute<M>(name: &str, machine: M, rule: &'static str) -> Vec<M::Event>
where
    M: Machine + Send + Sync + 'static,
    M::State: Send + Sync + Debug,
    M::Event: Send + Sync + Debug,
{
    let found = explore_until(machine, HasDiscoveries::AnyOf([rule].into()));
    let broken = found.broken.into_iter().find(|(broken, _)| *broken == rule);
    let (_, events) = broken.unwrap_or_else(|| panic!("{name}: always {rule}"));
    println!("{name}: not always {rule}");
    events.iter().for_each(|event| println!("    {event:?}"));
    events
}

fn explore_until<M>(machine: M, finish_when: HasDiscoveries) -> Findings<M::Event>
where
    M: Machine + Send + Sync + 'static,
    M::State: Send + Sync + Debug,
    M::Event: Send + Sync + Debug,
{
    let model = Explored { machine, reported: Default::default() };
    let checker = model.checker().finish_when(finish_when).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    let mut discoveries = checker.discoveries();
    let (mut broken, mut unreached) = (Vec::new(), Vec::new());
    for property in checker.model().properties() {
        let discovery = discoveries.remove(property.name);
        match (property.expectation, discovery) {
            (Expectation::Always, Some(path)) => broken.push((property.name, path.into_actions())),
            (Expectation::Sometimes, None) => unreached.push(property.name),
            _ => {}
        }
    }
    Findings { states, depth, broken, unreached }
}
