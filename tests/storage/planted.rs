//! Each test here can fail: a bug that is planted in the engine makes it red.
//!
//! Invariant: a bug is planted for the test's thread; tests that start threads hand it on.

use rereduce::mark;
use rereduce_crash_sim::guarded;

use crate::{compaction, crashes, errors, groups, history, layout, processes, swap, torn};

/// A bug, and a test that must notice it.
type Row = (&'static str, fn());

const TORN: &[Row] = &[
    ("footer-checksum-ignored", torn::one_bad_commit_record_does_not_hide_the_good_one),
    ("second-copy-left-out", torn::one_bad_commit_record_does_not_hide_the_good_one),
    (
        "witness-ignored",
        torn::damage_to_a_witnessed_commit_is_named_and_older_commits_open_by_number,
    ),
    (
        "old-commits-need-a-sound-newest",
        torn::damage_to_a_witnessed_commit_is_named_and_older_commits_open_by_number,
    ),
    ("append-at-torn-end", torn::what_is_appended_after_a_torn_tail_stays_reachable),
    ("cover-not-checked", torn::a_valid_footer_above_data_that_never_landed_gives_no_wrong_answer),
    ("footer-of-any-file", torn::footers_of_another_file_do_not_count),
    ("foreign-file-replaced", torn::a_file_that_never_had_our_header_is_refused_and_not_touched),
    ("header-copy-b-ignored", torn::either_copy_of_the_header_will_do),
    (
        "marker-follows-content",
        torn::an_attachment_that_holds_this_very_file_cannot_forge_its_footers,
    ),
    ("leftover-stays", torn::leftovers_of_a_creation_are_in_nobodys_way),
    ("close-without-seal", torn::a_clean_close_seals_the_file_so_that_opening_reads_a_few_blocks),
];

const LAYOUT: &[Row] = &[
    ("cover-begins-in-cut-header", torn::what_is_written_behind_a_cut_header_is_found_again),
    ("failed-look-remembered", layout::a_reader_whose_look_failed_looks_again),
    ("long-roots-cut-off", layout::a_footer_payload_larger_than_its_frame_comes_back),
    ("roots-may-lie-behind", layout::roots_that_lie_behind_their_footer_do_not_count),
    ("large-commit-flushed-once", layout::a_large_commit_flushes_its_data_before_its_footer),
    (
        "unsealed-tail-not-rewritten",
        layout::an_unsealed_tail_is_written_again_before_it_is_built_on,
    ),
    ("swap-without-directory-sync", layout::a_compaction_flushes_renames_and_flushes_the_directory),
];

const FAILING: &[Row] = &[
    ("failed-write-not-poisoned", errors::after_a_failed_append_nothing_trusts_the_old_end_of_file),
    (
        "failed-write-not-poisoned",
        errors::an_append_that_fails_is_not_tried_again_at_the_same_place,
    ),
    ("read-error-means-older-commit", errors::a_read_error_is_not_a_torn_footer),
    ("publish-before-flush", errors::a_failed_footer_fsync_leaves_no_half_visible_commit),
    ("unsealed-tail-not-rewritten", errors::a_failed_footer_fsync_leaves_no_half_visible_commit),
    ("failed-write-not-poisoned", errors::a_failed_footer_fsync_leaves_no_half_visible_commit),
    (
        "every-commit-is-witnessed",
        errors::another_handle_can_tell_that_the_commit_it_sees_was_never_witnessed,
    ),
];

const CRASHES: &[Row] = &[
    (
        "commit-without-flush",
        crashes::every_kind_of_write_to_a_database_survives_a_crash_at_every_call,
    ),
    ("footer-checksum-ignored", crashes::recovery_never_gives_a_torn_record_a_fresh_checksum),
    ("commit-without-flush", crashes::recovery_never_gives_a_torn_record_a_fresh_checksum),
    (
        "swap-without-directory-sync",
        crashes::the_rename_of_a_compaction_is_durable_before_success_is_reported,
    ),
    ("cover-starts-late", crashes::a_database_that_was_created_is_there_after_a_crash),
    ("create-without-directory-sync", crashes::a_database_that_was_created_is_there_after_a_crash),
    (
        "found-name-trusted",
        crashes::commits_into_a_file_whose_name_only_the_cache_had_survive_a_power_cut,
    ),
    (
        "leftover-stays",
        crashes::a_compaction_that_died_at_any_write_is_done_again_and_skips_nothing,
    ),
];

const COMPACTION: &[Row] = &[
    (
        "leftover-stays",
        compaction::a_leftover_compaction_file_is_ignored_by_opening_and_removed_by_the_next,
    ),
    (
        "swap-keeps-the-cache",
        compaction::old_snapshots_stay_readable_and_numbers_go_on_across_a_compaction,
    ),
    (
        "compaction-copies-for-each-leaf",
        compaction::revisions_that_share_an_attachment_share_it_in_the_compacted_file,
    ),
    ("cancelled-compaction-swaps", compaction::a_cancelled_compaction_changes_nothing),
    (
        "compaction-drops-tombstones",
        compaction::a_compaction_keeps_all_but_the_bodies_of_inner_revisions,
    ),
    (
        "attachments-not-shared",
        compaction::equal_content_is_stored_once_for_a_document_also_after_a_compaction,
    ),
    ("purges-never-forgotten", compaction::a_compacted_database_is_as_small_as_a_fresh_sorted_load),
    (
        "last-round-left-out",
        swap::what_is_written_during_each_round_of_a_compaction_is_in_the_swapped_file,
    ),
    (
        "swap-without-agreement",
        swap::what_is_written_during_each_round_of_a_compaction_is_in_the_swapped_file,
    ),
    (
        "pending-chunks-lost-at-swap",
        compaction::an_upload_that_a_compaction_overtakes_arrives_in_the_new_file,
    ),
    ("two-compactions-at-once", swap::a_second_compaction_is_refused_at_every_call_of_the_first),
];

const SHARING: &[Row] = &[
    ("publish-before-flush", groups::a_commit_is_shown_to_nobody_before_its_flush),
    ("commit-without-flush", groups::a_commit_is_shown_to_nobody_before_its_flush),
    (
        "equal-value-is-a-change",
        groups::edits_that_change_nothing_append_nothing_and_leave_the_queue_live,
    ),
    ("group-fails-together", groups::a_damaged_document_fails_its_own_edit_and_nobody_elses),
    (
        "reader-waits-without-looking",
        groups::a_wait_for_changes_ends_with_every_commit_also_in_another_handle,
    ),
    (
        "history-goes-step-by-step",
        history::any_commit_opens_by_number_in_logarithmically_many_reads,
    ),
    ("compacted-looks-like-damage", history::numbers_outside_of_the_history_are_told_apart),
    ("second-writer-let-in", processes::a_second_writer_is_refused_in_this_process),
    ("reader-takes-the-lock", processes::opening_for_reading_creates_nothing_and_takes_no_lock),
    ("reader-takes-the-lock", processes::opening_for_reading_works_where_nothing_can_be_written),
    ("every-commit-is-witnessed", processes::a_reading_handle_follows_commits_and_a_compaction),
    ("reader-stays-on-old-file", processes::a_reading_handle_follows_commits_and_a_compaction),
    ("readers-look-side-by-side", processes::readers_that_look_at_the_same_time_never_go_back),
    ("permissions-not-kept", processes::a_compaction_keeps_the_permissions_of_the_file),
];

fn each_is_noticed(rows: &[Row]) {
    for (bug, test) in rows {
        let before = mark::plant(Some(bug));
        let outcome = guarded(|| {
            test();
            Ok(())
        });
        mark::plant(before);
        assert!(outcome.is_err(), "the bug {bug} was not noticed");
    }
}

#[test]
fn bugs_planted_in_footers_and_recovery_are_noticed() {
    each_is_noticed(TORN);
}

#[test]
fn bugs_planted_in_the_layout_are_noticed() {
    each_is_noticed(LAYOUT);
}

#[test]
fn bugs_planted_where_calls_fail_are_noticed() {
    each_is_noticed(FAILING);
}

#[test]
fn bugs_planted_in_the_order_of_flushes_are_noticed() {
    each_is_noticed(CRASHES);
}

#[test]
fn bugs_planted_in_compaction_are_noticed() {
    each_is_noticed(COMPACTION);
}

#[test]
fn bugs_planted_in_what_handles_share_are_noticed() {
    each_is_noticed(SHARING);
}
