//! `reduce_limit`: a reduction that does not shrink is refused, as a value.
//!
//! Invariant: what is over the limit depends on two sizes alone, so that the caller decides what
//! they are sizes of.

use crate::mark;

/// From this many bytes on a reduction must be at most half of what it was made of.
pub const REDUCE_LIMIT_BYTES: usize = 5000;

/// What happens to a reduction that is over the limit.
///
/// ```
/// use rereduce::view::limit::ReduceLimit;
/// assert!(ReduceLimit::exceeds(6000, 5001));
/// assert!(!ReduceLimit::exceeds(6000, 5000), "short enough");
/// assert!(!ReduceLimit::exceeds(10_002, 5001), "shrinks enough");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReduceLimit {
    /// An error takes its place, and the place of all that it becomes part of.
    #[default]
    Error,
    /// It stands, and is counted.
    Log,
    /// It stands.
    Off,
}

impl ReduceLimit {
    /// Whether `output_bytes` are too many for a reduction of `input_bytes`.
    // spec: REDUCE-11
    pub fn exceeds(input_bytes: usize, output_bytes: usize) -> bool {
        let doubled = if mark::planted("reduce-limit-one-to-one") { 1 } else { 2 };
        output_bytes > REDUCE_LIMIT_BYTES && output_bytes.saturating_mul(doubled) > input_bytes
    }

    /// The reason that an overflow error gives.
    pub fn reason(input_bytes: u64, output_bytes: u64) -> String {
        format!(
            "Reduce output must shrink more rapidly: input size: {input_bytes} \
             output size: {output_bytes}"
        )
    }
}
