//! Each test here can fail: a bug that is planted in a reducer makes it red.

use rereduce::mark;
use rereduce_crash_sim::guarded;

use crate::{exact, golden, laws, names};

const BUGS: &[(&str, fn())] = &[
    ("exact-sum-rounds", exact::nothing_is_lost_to_cancellation),
    ("exact-sum-half-up", exact::nothing_is_lost_to_cancellation),
    ("exact-sum-wraps", exact::nothing_is_lost_to_cancellation),
    ("exact-sum-forgets-kind", exact::sums_keep_their_kind),
    ("exact-sum-not-canonical", exact::equal_sums_have_equal_bytes),
    ("stats-square-unrounded", exact::squares_of_floats_are_rounded_each),
    ("stats-bad-value-skipped", names::bad_values_of_statistics_are_errors_with_their_reason),
    ("stats-last-of-equals", names::the_first_of_equal_numbers_gives_its_kind),
    ("sum-number-drops-array", names::sums_of_mixtures_are_total),
    ("sum-first-cause-stands", names::sums_of_mixtures_are_total),
    ("sum-error-does-not-absorb", laws::sums_of_odd_values_keep_the_laws),
    ("sum-trailing-bytes-ignored", names::damaged_reductions_do_not_panic),
    ("distinct-without-the-one", golden_answers),
    ("distinct-bias-kept", golden_answers),
    ("rank-last-of-equals", names::of_equal_values_the_first_stays),
    ("last-is-first", names::of_equal_values_the_first_stays),
    ("reduce-limit-one-to-one", names::a_reduction_that_does_not_shrink_is_an_error_that_absorbs),
    ("reduce-names-match-whole", names::names_are_known_by_how_they_begin),
    ("laws-cut-in-two-only", laws::toys_are_found),
];

fn golden_answers() {
    golden::every_recorded_reduction_is_answered(&golden::RECORDINGS);
}

#[test]
fn planted_bugs_turn_the_tests_red() {
    for (bug, test) in BUGS {
        let before = mark::plant(Some(bug));
        let outcome = guarded(|| {
            test();
            Ok(())
        });
        mark::plant(before);
        assert!(outcome.is_err(), "{bug} went unnoticed");
    }
}
