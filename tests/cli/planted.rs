//! Bugs planted in the command line, each of which turns one of the checks red.

use super::commands::{backup_is_the_newest_commit, dump_loads_back};
use super::crashes::interrupted_load_reports_what_is_there;
use super::endings::{readers_leave_no_trace, wrong_endings};
use super::support::Desk;
use super::tour::tour_passes;

type Check = fn(&Desk) -> bool;

/// The bugs, and the check that must notice each.
const BUGS: [(&str, Check); 8] = [
    ("cli-all-errors-are-one", |desk| wrong_endings(desk).is_empty()),
    ("cli-errors-of-many-lines", |desk| wrong_endings(desk).is_empty()),
    ("cli-counts-what-it-drops", interrupted_load_reports_what_is_there),
    ("cli-readers-lock", readers_leave_no_trace),
    ("cli-dump-without-ancestors", dump_loads_back),
    ("cli-load-edits-revisions", dump_loads_back),
    ("cli-backup-cuts-the-footer", backup_is_the_newest_commit),
    ("cli-tour-cuts-nothing", tour_passes),
];

/// Bugs of `view`, which needs functions to show them.
#[cfg(feature = "javascript")]
const VIEW_BUGS: [(&str, Check); 4] = [
    ("cli-view-locks-the-database", super::view::view_leaves_the_database_alone),
    ("cli-view-deaf-to-ctrl-c", super::view::interrupted_build_is_kept),
    ("cli-view-without-advice", super::view::foreign_index_is_read),
    ("cli-view-parameters-lost", super::view::parameters_show_their_rows),
];

#[test]
fn every_bug_planted_in_the_command_line_is_noticed() {
    let planted = Desk::new().run("--version --json").done().contains("\"planted\":true");
    assert_eq!(planted, cfg!(feature = "planted"), "program and tests are one build");
    if !planted {
        return;
    }
    #[cfg(feature = "javascript")]
    let bugs = BUGS.iter().chain(&VIEW_BUGS);
    #[cfg(not(feature = "javascript"))]
    let bugs = BUGS.iter();
    for &(bug, check) in bugs {
        let noticed = std::panic::catch_unwind(|| !check(&Desk::with_planted(bug)));
        assert!(noticed.unwrap_or(true), "{bug} went unnoticed");
    }
}
