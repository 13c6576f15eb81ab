//! CouchDB's recorded answers, put to the engine through [`rereduce::http::handle`].
//!
//! ```text
//!   recorded request ──> Request ──handle──> Response
//!                                               ║ equal: status, headers, body
//!   recorded answer ────────────────────────────╝
//! ```
//!
//! Bodies are compared byte by byte; where a recording says that some of a body is volatile, member
//! by member, with the kinds of numbers and the order of members. Steps at which CouchDB itself
//! failed must be answered in good order, whatever the answer is.
//!
//! Invariant: every step of every file is sent, and each is compared or counted as a crash.

mod compare;
mod orders;
mod planted;
mod play;
mod rust;
mod texts;

use std::path::{Path, PathBuf};

use play::{Tally, replay};

/// What is replayed: the file, how many answers it has, and how many of them are crashes.
const RECORDINGS: [(&str, usize, usize); 14] = [
    ("1-collation", 892, 0),
    ("2-reduce-dates", 430, 0),
    ("2-reduce-large", 171, 0),
    ("2-reduce-random-1", 358, 0),
    ("2-reduce-random-2", 228, 0),
    ("2-reduce-random-3", 152, 0),
    ("2-view-errors", 365, 14),
    ("2-view-incremental", 313, 0),
    ("2-view-params", 135, 0),
    ("5-error-places", 63, 0),
    ("5-kinds", 51, 0),
    ("5-ranked", 60, 0),
    ("7-libs", 62, 0),
    ("7-maps", 304, 7),
];

fn folders() -> [PathBuf; 2] {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    [data.join("golden"), data]
}

fn path_of(name: &str) -> PathBuf {
    let file = format!("{name}.json");
    let found = folders().into_iter().map(|folder| folder.join(&file)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing"))
}

fn check(name: &str) {
    let (_, steps, crashes) = RECORDINGS.into_iter().find(|known| known.0 == name).unwrap();
    let Tally { compared, crashed, differences } = replay(&path_of(name));
    println!("{name}: {} of {compared} equal, {crashed} crashes", compared - differences.len());
    let shown: Vec<String> = differences.iter().take(10).cloned().collect();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), shown.join("\n"));
    assert_eq!((compared + crashed, crashed), (steps, crashes), "{name}");
}

/// One test a file, so that they run side by side.
macro_rules! replayed {
    ($($test:ident: $name:literal;)*) => {
        $(
            // spec: HTTP-1, HTTP-2, HTTP-3, HTTP-4, HTTP-5, HTTP-6
            #[test]
            fn $test() {
                check($name);
            }
        )*

        const TESTED: &[&str] = &[$($name),*];
    };
}

replayed! {
    collation_is_answered_as_recorded: "1-collation";
    reduced_dates_are_answered_as_recorded: "2-reduce-dates";
    reductions_of_many_rows_are_answered_as_recorded: "2-reduce-large";
    random_reductions_are_answered_as_recorded: "2-reduce-random-1";
    random_statistics_are_answered_as_recorded: "2-reduce-random-2";
    random_functions_are_answered_as_recorded: "2-reduce-random-3";
    refusals_are_answered_as_recorded: "2-view-errors";
    updated_views_are_answered_as_recorded: "2-view-incremental";
    parameters_are_answered_as_recorded: "2-view-params";
    places_of_errors_are_answered_as_recorded: "5-error-places";
    kinds_of_numbers_are_answered_as_recorded: "5-kinds";
    ranked_values_are_answered_as_recorded: "5-ranked";
    libraries_are_answered_as_recorded: "7-libs";
    map_functions_are_answered_as_recorded: "7-maps";
}

#[test]
fn no_recording_is_left_out() {
    let listed: Vec<&str> = RECORDINGS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(listed, TESTED, "each has its test");
    let mut found = Vec::new();
    for folder in folders() {
        for file in std::fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let Some(name) = name.strip_suffix(".json") else { continue };
            let here = ["1-", "2-", "5-"].iter().any(|group| name.starts_with(group));
            if here || ["7-libs", "7-maps"].contains(&name) {
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    assert_eq!(found, listed);
}
