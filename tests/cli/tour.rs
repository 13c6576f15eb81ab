//! The tour: everything it claims is checked, and it fails when the engine does.

use super::support::Desk;

/// Whether the tour ends well and compared a lot.
pub(crate) fn tour_passes(desk: &Desk) -> bool {
    let ran = desk.run("tour");
    let last = ran.out.lines().last().unwrap_or_default();
    let figures = last.split("; ").nth(1).unwrap_or_default();
    let passed = figures.split(' ').next().unwrap_or_default().replace(',', "");
    ran.code == Some(0)
        && last.trim_start().starts_with("tour: ")
        && last.ends_with(" passed, 0 failed")
        && passed.parse::<u64>().is_ok_and(|passed| passed >= 7_000)
}

// spec: CLI-7
#[test]
fn the_tour_checks_all_that_it_claims() {
    let desk = Desk::new();
    assert!(tour_passes(&desk));
    let said = desk.run("tour").done();
    let wide = said.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "80 columns are enough");
    assert!(!said.contains('\x1b'), "no colours where nobody sees them");
    assert!(!said.contains("WRONG"));
    let said = desk.run("tour --json").done();
    let parsed: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(parsed["passed"], parsed["total"]);
}

#[test]
fn the_files_of_the_tour_stay_on_request() {
    let desk = Desk::new();
    desk.run("tour --keep kept").done();
    desk.run("check kept/seattle.rereduce").done();
    assert!(desk.run("inspect kept/damaged.rereduce").done().contains("torn"));
    desk.run("tour --keep kept").fails(3, "kept");
}

// spec: CLI-7
#[cfg(feature = "planted")]
#[test]
fn the_tour_fails_when_the_engine_does() {
    let bugs = ["witness-ignored", "cover-not-checked", "old-sequence-stays"];
    for bug in bugs.into_iter().chain(["view-any-finished-state-will-do"]) {
        let ran = Desk::with_planted(bug).run("tour");
        assert_ne!(ran.code, Some(0), "{bug}");
    }
}
