//! What commits cost, counted in the trace of a run.
//!
//! Invariant: a commit is an operation that changed what readers see; its cost is what the disk
//! saw between its beginning and its acknowledgement, so its flushes are those that it waited for.

use crate::trace::{Call, Entry};

/// What one commit cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Flushes of files and of directories.
    pub flushes: u64,
    /// Calls that appended.
    pub appends: u64,
    /// Bytes appended.
    pub bytes: u64,
}

impl Cost {
    /// The costs of all operations in `trace` that `changes` says changed something.
    // spec: REPORT-3
    pub fn of_trace(trace: &[Entry], changes: &dyn Fn(usize) -> bool) -> Vec<Cost> {
        let (mut costs, mut cost) = (Vec::new(), Cost::default());
        for entry in trace {
            match entry {
                Entry::Began(_) => cost = Cost::default(),
                Entry::Acknowledged(number) if changes(*number) => costs.push(cost),
                Entry::Call(call, _) if is_flush(call) => cost.flushes += 1,
                Entry::Call(Call::Append { bytes, .. }, _) => {
                    cost.appends += 1;
                    cost.bytes += bytes.len() as u64;
                }
                Entry::Acknowledged(_) | Entry::Call(..) => {}
            }
        }
        costs
    }
}

/// How many flushes there are in `trace`.
pub(crate) fn flushes(trace: &[Entry]) -> u64 {
    let flush = |entry: &&Entry| matches!(entry, Entry::Call(call, _) if is_flush(call));
    trace.iter().filter(flush).count() as u64
}

/// Whether the call returns when something is on the disk, be it bytes or names.
fn is_flush(call: &Call) -> bool {
    matches!(call, Call::Sync { .. } | Call::SyncDir { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: REPORT-3
    #[test]
    fn a_flush_after_the_acknowledgement_is_not_waited_for() {
        let path: std::sync::Arc<std::path::Path> = std::path::Path::new("a").into();
        let append = Call::Append { inode: 1, path: path.clone(), offset: 0, bytes: [7; 3].into() };
        let sync = Entry::Call(Call::Sync { inode: 1, path }, None);
        let trace = [
            sync.clone(),
            Entry::Began(1),
            Entry::Call(append, None),
            sync.clone(),
            Entry::Acknowledged(1),
            sync.clone(),
            Entry::Began(2),
            sync,
            Entry::Acknowledged(2),
        ];
        let costs = Cost::of_trace(&trace, &|number| number == 1);
        assert_eq!(costs, [Cost { flushes: 1, appends: 1, bytes: 3 }]);
        assert_eq!(flushes(&trace), 4);
    }
}
