//! The tables of `spec/assumptions.md`, and whether they speak of the kinds that there are.

use rereduce_crash_sim::{FaultClass, FaultKind};

/// The rows of the table whose header begins with these columns, cell by cell, without backticks.
pub(crate) fn table(header: &str) -> Vec<Vec<String>> {
    let text = include_str!("../../spec/assumptions.md");
    let rows = text.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let rows: Vec<Vec<String>> = rows.take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "no table begins with {header}");
    rows
}

fn cells(line: &str) -> Vec<String> {
    let inside = line.trim().trim_start_matches('|').trim_end_matches('|');
    inside.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
}

// spec: DISK-13
#[test]
fn the_page_lists_every_kind_with_its_number_and_class() {
    let listed: Vec<(String, String, String)> = table("| number | name | class |")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone(), row[2].clone()))
        .collect();
    let known = FaultKind::ALL
        .map(|kind| (kind.number().to_string(), kind.name().to_owned(), kind.class().to_string()));
    assert_eq!(listed, known);
}

// spec: DISK-13
#[test]
fn each_kind_is_of_a_crash_of_a_call_or_of_rot() {
    let mut kinds = FaultKind::CRASH.to_vec();
    kinds.push(FaultKind::CrashInRecovery);
    kinds.extend(FaultKind::CALL);
    kinds.extend(FaultKind::ROT);
    kinds.sort();
    assert_eq!(kinds, FaultKind::ALL);
    for kind in FaultKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        let rots = FaultKind::ROT.contains(&kind);
        assert_eq!(kind.class() == FaultClass::C, rots, "{kind}");
    }
    assert!("rot".parse::<FaultKind>().unwrap_err().contains("bit-flip"));
}
