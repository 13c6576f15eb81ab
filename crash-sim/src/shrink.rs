//! Makes a violation small: fewest operations first, then the earliest crash point, then the
//! fewest survivors.
//!
//! Invariant: what comes out was seen to fail; a smaller workload is believed only after it failed
//! by itself.

use std::sync::Arc;

use crate::explore::{Explorer, Violation};
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
    let fails = |ops: &[T::Op]| explorer.explore(target, ops).1;
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
