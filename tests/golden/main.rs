//! Golden scripts: small stories about each layer, and what it answered.
//!
//! ```text
//! tests/golden/scripts/LAYER/NAME
//!     # A comment that says what is shown and why.
//!     commands, one a line
//!     ---
//!     what they answered, up to an empty line
//! ```
//!
//! The commands of a layer are the variants of its `Command`. `UPDATE_GOLDEN=1 cargo test --test
//! golden` writes the answers anew; read the difference before you commit it.
//!
//! Invariant: an answer depends on the script alone, so a difference is a change of the engine.

mod btree;
mod database;
mod documents;
mod draw;
mod files;
mod script;
mod views;

use script::{Layer, run_all};

/// How the scripts of a layer are begun with.
type NewLayer = fn() -> Box<dyn Layer>;

fn planted(bug: &'static str, layer: NewLayer, directories: &[&str]) {
    let before = rereduce::mark::plant(Some(bug));
    let wrong = directories.iter().any(|directory| {
        let outcome = std::panic::catch_unwind(|| run_all(directory, layer, false));
        outcome.map_or(true, |differences| !differences.is_empty())
    });
    rereduce::mark::plant(before);
    assert!(wrong, "{bug} changed no answer");
}

/// Everything that differs in any layer; `cargo oracle planted` asks this.
pub(crate) fn differences_in_all() -> Vec<String> {
    let layers: [(&str, NewLayer); 6] = [
        ("file", files::layer),
        ("btree", btree::layer),
        ("store", files::layer),
        ("documents", documents::layer),
        ("database", database::layer),
        ("views", views::layer),
    ];
    layers.into_iter().flat_map(|(directory, layer)| run_all(directory, layer, false)).collect()
}

fn check(directory: &str, layer: NewLayer) {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let differences = run_all(directory, layer, update);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_file_answers_as_its_scripts_say() {
    check("file", files::layer);
}

#[test]
fn the_tree_answers_as_its_scripts_say() {
    check("btree", btree::layer);
}

#[test]
fn the_store_answers_as_its_scripts_say() {
    check("store", files::layer);
}

#[test]
fn documents_answer_as_their_scripts_say() {
    check("documents", documents::layer);
}

#[test]
fn the_database_answers_as_its_scripts_say() {
    check("database", database::layer);
}

#[test]
fn views_answer_as_their_scripts_say() {
    check("views", views::layer);
}

#[test]
fn planted_bugs_change_the_answers() {
    let differences = differences_in_all();
    assert!(differences.is_empty(), "without a bug: {}", differences.join("\n"));
    for bug in [
        "second-copy-left-out",
        "footer-checksum-ignored",
        "cover-not-checked",
        "commit-without-flush",
        "barrier-flush-left-out",
        "create-without-directory-sync",
        "failed-write-not-poisoned",
        "unsealed-tail-not-rewritten",
        "swap-without-directory-sync",
        "witness-ignored",
        "equal-value-is-a-change",
    ] {
        planted(bug, files::layer, &["file", "store"]);
    }
    for bug in [
        "neighbours-not-merged",
        "reduction-misses-last-row",
        "reduce-end-off-by-one",
        "group-leaves-range",
        "root-keeps-one-child",
        "first-duplicate-wins",
        "appending-splits-evenly",
    ] {
        planted(bug, btree::layer, &["btree"]);
    }
    for bug in [
        "revtree-winner-ignores-deleted",
        "revtree-first-root-only",
        "revtree-stem-by-farthest-leaf",
        "revtree-latest-doubles",
        "revtree-recreated-at-generation-1",
        "revid-members-sorted",
        "revid-zero-unsigned",
        "json-first-member-stays",
    ] {
        planted(bug, documents::layer, &["documents"]);
    }
    for bug in [
        "old-sequence-stays",
        "attachments-not-shared",
        "purges-never-forgotten",
        "rejected-group-commits",
        "local-revision-stays",
        "inner-bodies-kept",
        "sequences-in-reverse",
        "tombstones-count-as-live",
        "range-takes-its-end",
        "setting-without-sequence",
    ] {
        planted(bug, database::layer, &["database"]);
    }
    for bug in [
        "docid-bounds-ignored",
        "end-always-included",
        "group-key-not-cut",
        "links-not-followed",
        "nothing-reduces-to-a-row",
        "offset-without-skip",
    ] {
        planted(bug, views::layer, &["views"]);
    }
}
