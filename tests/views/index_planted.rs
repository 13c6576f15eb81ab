//! Each test of an index here can fail: a bug that is planted in the index makes it red.

use rereduce::mark;
use rereduce_crash_sim::guarded;

use crate::{index, index_files, index_sharing, index_standing};

const BUGS: &[(&str, fn())] = &[
    ("view-old-rows-stay", index::old_rows_go_beside_documents_that_have_none),
    ("get-many-skips-behind-missing", index::old_rows_go_beside_documents_that_have_none),
    ("view-deletions-skipped", index::an_index_has_the_rows_of_all_documents_after_every_change),
    ("view-emit-number-left-out", index::an_index_has_the_rows_of_all_documents_after_every_change),
    (
        "view-any-finished-state-will-do",
        index::deleting_the_winning_branch_leaves_the_rows_of_the_other,
    ),
    ("view-maps-design-documents", index::map_functions_are_shown_what_couchdb_shows_them),
    ("view-conflicts-left-out", index::map_functions_are_shown_what_couchdb_shows_them),
    ("view-local-seq-left-out", index::design_documents_and_sequences_are_shown_if_asked_for),
    ("view-shares-out-of-order", index::what_is_stored_does_not_depend_on_threads_and_batches),
    (
        "view-error-is-an-empty-document",
        index::a_function_that_fails_leaves_the_index_at_its_last_commit,
    ),
    (
        "view-unfinished-state-served",
        index::a_function_that_fails_leaves_the_index_at_its_last_commit,
    ),
    ("view-sequence-ahead", index::a_function_that_fails_leaves_the_index_at_its_last_commit),
    ("view-check-counts-no-rows", index::a_check_finds_rows_that_no_document_names),
    (
        "view-documents-of-the-newest-state",
        index_sharing::rows_and_documents_are_of_one_state_while_writers_go_on,
    ),
    ("view-waiting-query-updates-again", index_sharing::queries_that_wait_share_the_error_too),
    ("view-purges-skipped", index_standing::a_purge_takes_the_rows_of_its_document),
    ("view-purged-document-is-gone", index_standing::a_purged_branch_leaves_the_rows_of_the_other),
    ("view-purge-floor-ignored", index_standing::purges_that_were_forgotten_build_the_index_anew),
    ("view-standing-ignored", index_standing::an_index_ahead_of_its_database_is_built_anew),
    ("view-standing-is-a-number", index_standing::an_index_ahead_of_its_database_is_built_anew),
    (
        "view-collation-version-ignored",
        index_standing::another_version_of_the_collation_builds_the_index_anew,
    ),
    ("view-compaction-forgets-its-place", index_files::a_compacted_index_keeps_its_place),
    (
        "view-batch-on-roots-before-the-swap",
        index_files::an_update_that_began_before_a_compaction_ends_in_the_new_file,
    ),
    ("view-catch-up-left-out", index_files::a_compaction_catches_up_with_updates),
    ("view-clean-up-takes-all", index_files::a_clean_up_takes_the_files_of_old_signatures_alone),
    ("view-damage-is-an-error", index_files::a_damaged_file_is_built_anew),
    (
        "view-damage-forgotten",
        index_files::damage_that_a_query_meets_is_gone_before_the_next_answer,
    ),
    ("view-begins-anew-each-time", index_files::an_update_goes_on_where_a_crash_ended_it),
    (
        "view-failed-write-not-recovered",
        index_files::a_failed_write_ends_the_update_and_the_next_query_recovers,
    ),
    (
        "view-locked-index-not-served",
        index_files::an_index_that_another_handle_writes_is_served_if_it_is_up_to_date,
    ),
];

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
