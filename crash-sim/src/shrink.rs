//! Makes a violation small: fewest operations first, then the earliest crash point, then the
//! fewest survivors.
//!
//! Invariant: what comes out was seen to fail; a smaller workload is believed only after it failed
//! by itself.

use std::sync::Arc;

use crate::explore::{Explorer, Violation};
use crate::false_success::class_of;
use crate::fault::FaultClass;
use crate::plan::Plan;
use crate::run::Evidence;
use crate::target::Target;

/// Sets of survivors tried at each crash point of a candidate.
const SETS_MAX: usize = 2000;

/// The smallest violation of `target` that can be reached from `ops` (which gave `violation`) by
/// leaving out operations and making them simpler.
// spec: CRASH-5
pub fn shrink<T: Target>(
    explorer: &Explorer,
    target: &T,
    ops: &[T::Op],
    violation: Violation,
) -> Violation {
    let sets_max = explorer.sets_max.min(SETS_MAX);
    // Images of candidates are no news.
    let explorer = Explorer { sets_max, distinct: Arc::default(), ..explorer.clone() };
    fewest(target, ops, violation, |ops| explorer.explore(target, ops).1)
}

/// The same for a run whose calls fail: of each smaller workload, `plans` are tried one after the
/// other, the earliest failing call first, until one fails nothing any more.
// spec: CRASH-5
pub(crate) fn shrink_failing<T: Target>(
    explorer: &Explorer,
    target: &T,
    ops: &[T::Op],
    power: bool,
    plans: &dyn Fn(u64) -> Option<Plan>,
    violation: Violation,
) -> Violation {
    let explorer = Explorer { distinct: Arc::default(), threads: 1, ..explorer.clone() };
    let fails = |ops: &[T::Op]| {
        for plan in (1..).map_while(plans) {
            let (mut evidence, explorer) =
                (Evidence::default(), Explorer { plan, ..explorer.clone() });
            let (_, found) = match class_of(&explorer.plan) {
                FaultClass::B => explorer.believe(target, ops, &mut evidence),
                _ => explorer.endure(target, ops, power, &mut evidence),
            };
            if found.is_some() || !evidence.is_struck() {
                return found;
            }
        }
        None
    };
    let earliest = fails(ops).unwrap_or(violation);
    fewest(target, ops, earliest, fails)
}

/// The violation with the fewest and simplest operations that `fails` still gives, from `ops` which
/// gave `violation`.
pub(crate) fn fewest<T: Target, V>(
    target: &T,
    ops: &[T::Op],
    violation: V,
    fails: impl Fn(&[T::Op]) -> Option<V>,
) -> V {
    let (mut ops, mut smallest) = (ops.to_vec(), violation);
    let mut again = true;
    while again {
        again = false;
        let mut index = ops.len();
        while index > 0 {
            index -= 1;
            let mut fewer = ops.clone();
            fewer.remove(index);
            if let Some(found) = fails(&fewer) {
                (ops, smallest, again) = (fewer, found, true);
                continue;
            }
            for simpler in target.simpler(&ops[index]) {
                let mut candidate = ops.clone();
                candidate[index] = simpler;
                if let Some(found) = fails(&candidate) {
                    (ops, smallest, again) = (candidate, found, true);
                    break;
                }
            }
        }
    }
    smallest
}
