//! A stranger's engine, held against the model: `std`'s `BTreeMap` and a log file of its edits.
//!
//! All that plugging in takes stands between the two lines: under 40 lines.

use std::collections::BTreeMap;
use std::{fs, io::Write, path::Path, sync::Mutex};

use rereduce::Result;
use rereduce::kv::{KvSnapshot, OrderedKv, Visit};
use rereduce::vocabulary::{Direction, Edit, KeyRange, KvOp};
use rereduce_model::{CheckConfig, KvHandle, check_kv};

// ------------------------------------------------------------------------------------------------
type Map = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
struct MapLog(fs::File, Mutex<Map>);
struct MapSnapshot(Map);
fn open(path: &Path) -> Result<Box<dyn KvHandle>> {
    let log = fs::File::options().create(true).append(true).open(path).unwrap();
    let map = Mutex::new(Map::new());
    for line in fs::read_to_string(path).unwrap().lines() {
        let KvOp::Commit(edits) = line.parse()? else { continue };
        map.lock().unwrap().extend(edits.into_iter().map(|edit| (edit.key, edit.value)));
    }
    Ok(Box::new(MapLog(log, map)))
}
impl KvHandle for MapLog {}
impl OrderedKv for MapLog {
    fn commit(&self, edits: &[Edit]) -> Result<()> {
        writeln!(&self.0, "{}", KvOp::Commit(edits.to_vec())).unwrap();
        let edits = edits.iter().cloned().map(|edit| (edit.key, edit.value));
        self.1.lock().unwrap().extend(edits);
        Ok(())
    }
    fn snapshot(&self) -> Result<Box<dyn KvSnapshot>> {
        Ok(Box::new(MapSnapshot(self.1.lock().unwrap().clone())))
    }
}
impl KvSnapshot for MapSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key).cloned().flatten())
    }
    fn scan(&self, range: &KeyRange, way: Direction, visit: &mut Visit<'_>) -> Result<()> {
        let live = self.0.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        let mut rows: Vec<_> = live.filter(|row| range.contains(row.0)).collect();
        rows.sort_by(|a, b| if way == Direction::Ascending { a.cmp(b) } else { b.cmp(a) });
        let _ = rows.into_iter().try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}
// ------------------------------------------------------------------------------------------------

// spec: MODEL-2
#[test]
fn a_strangers_engine_is_checked_in_under_forty_lines() {
    let directory = tempfile::tempdir().unwrap();
    let engine = |name: &str| open(&directory.path().join(name));
    let report = check_kv(&engine, &CheckConfig::default());
    let report = report.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{report}");
    assert_eq!(report.histories, 100);
    for kind in ["compact", "history", "reduce"] {
        assert!(report.not_offered.contains(kind), "this engine does not offer {kind}");
    }
    let mut parts = include_str!("plug_in.rs").split("\n// ------");
    let lines = parts.nth(1).unwrap().trim().lines().count() - 1;
    assert!(lines < 40, "plugging in takes {lines} lines");
}
