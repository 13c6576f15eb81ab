//! A toy engine on `std`'s maps that offers every capability, right or wrong on purpose.
//!
//! The right one must pass; each wrong one must be caught, with a short history.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rereduce::kv::{KvSnapshot, OrderedKv, Visit};
use rereduce::vocabulary::{Direction, Edit, KeyRange, KvOp};
use rereduce::{Error, ErrorClass, Result};
use rereduce_model::{CheckConfig, KvEngine, KvHandle, KvHistory, Reduced, check_kv};
use rereduce_model::{KvModel, check_kv_history};

/// How an engine is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    LosesTheLastCommitOnReopen,
    LosesTheLastCommitInACrash,
    TakesTheRangeEndInclusively,
    LeavesTheRangeStartOut,
    LetsTheFirstDuplicateWin,
    ShowsLaterCommitsInASnapshot,
    ForgetsToReverse,
    CallsTheVisitorAfterItsEnd,
    CountsOneRowTooMany,
    ShowsAFailedCommit,
    LosesAKeyInCompaction,
    OpensTheWrongCommit,
    PanicsOnTheEmptyKey,
    AppliesHalfOfAFailedCommit,
    RejectsForNoReason,
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Disk {
    /// Commits by number; number 0 is the empty state.
    commits: BTreeMap<u64, Map>,
    /// Calls that succeed before one fails.
    fault: Option<u64>,
}

impl Disk {
    fn call(&mut self) -> Result<()> {
        match self.fault {
            Some(0) => {
                self.fault = None;
                let source = std::io::Error::other("told to fail");
                Err(Error::io("append", "toy", source))
            }
            calls => {
                self.fault = calls.map(|calls| calls - 1);
                Ok(())
            }
        }
    }
}

struct Toy {
    wrong: Wrong,
    disk: Arc<Mutex<Disk>>,
}

struct ToyHandle {
    wrong: Wrong,
    disk: Arc<Mutex<Disk>>,
    /// The newest acknowledged commit, and whether a write failed since.
    state: Mutex<(u64, bool)>,
}

struct ToySnapshot {
    wrong: Wrong,
    map: Map,
    disk: Option<Arc<Mutex<Disk>>>,
}

impl KvEngine for Toy {
    fn open(&self, _name: &str) -> Result<Box<dyn KvHandle>> {
        let mut disk = self.disk.lock().unwrap();
        disk.call()?;
        disk.commits.entry(0).or_default();
        let newest = *disk.commits.keys().next_back().unwrap();
        let state = Mutex::new((newest, false));
        Ok(Box::new(ToyHandle { wrong: self.wrong, disk: self.disk.clone(), state }))
    }

    fn remove(&self, _name: &str) -> Result<()> {
        self.disk.lock().unwrap().commits.clear();
        Ok(())
    }

    fn fail_disk(&self, calls: Option<u64>) -> bool {
        self.disk.lock().unwrap().fault = calls;
        true
    }
}

impl ToyHandle {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    fn lose_last(&self) {
        let mut disk = self.disk();
        if disk.commits.len() > 1 {
            disk.commits.pop_last();
        }
    }
}

impl OrderedKv for ToyHandle {
    fn commit(&self, edits: &[Edit]) -> Result<()> {
        if self.wrong == Wrong::PanicsOnTheEmptyKey {
            assert!(edits.iter().all(|edit| !edit.key.is_empty()), "an empty key");
        }
        let mut disk = self.disk();
        let mut state = self.state.lock().unwrap();
        if state.1 {
            return Err(Error::Poisoned { path: "toy".into() });
        }
        let mut map = disk.commits[&state.0].clone();
        let mut first: Vec<&Edit> = edits.iter().collect();
        if self.wrong == Wrong::LetsTheFirstDuplicateWin {
            first.reverse();
        }
        if self.wrong == Wrong::RejectsForNoReason && edits.len() == 4 {
            return Err(Error::TooLarge { what: "batch", size: 4, limit: 3 });
        }
        for edit in &first {
            match &edit.value {
                Some(value) => map.insert(edit.key.clone(), value.clone()),
                None => map.remove(&edit.key),
            };
        }
        let number = state.0 + 1;
        let written = disk.call();
        let half = Edit::put("half", "1");
        if written.is_err() && self.wrong == Wrong::AppliesHalfOfAFailedCommit {
            map.insert(half.key, b"1".to_vec());
        }
        // Written but not flushed: a failed flush leaves it to the next open.
        disk.commits.insert(number, map);
        let flushed = written.and_then(|()| disk.call());
        state.1 = flushed.is_err();
        if flushed.is_ok() || self.wrong == Wrong::ShowsAFailedCommit {
            state.0 = number;
        }
        flushed
    }

    fn snapshot(&self) -> Result<Box<dyn KvSnapshot>> {
        let mut disk = self.disk();
        disk.call()?;
        let map = disk.commits[&self.state.lock().unwrap().0].clone();
        let live = self.wrong == Wrong::ShowsLaterCommitsInASnapshot;
        let disk = live.then(|| self.disk.clone());
        Ok(Box::new(ToySnapshot { wrong: self.wrong, map, disk }))
    }
}

impl KvHandle for ToyHandle {
    fn close(self: Box<Self>) -> Result<()> {
        if self.wrong == Wrong::LosesTheLastCommitOnReopen {
            self.lose_last();
        }
        self.disk().call()
    }

    fn crash(self: Box<Self>) {
        if self.wrong == Wrong::LosesTheLastCommitInACrash {
            self.lose_last();
        }
    }

    fn reduce(&self, range: &KeyRange) -> Option<Result<Reduced>> {
        let disk = self.disk();
        let map = &disk.commits[&self.state.lock().unwrap().0];
        let mut reduced = Reduced::default();
        for (_, value) in map.iter().filter(|row| range.contains(row.0)) {
            let number = String::from_utf8_lossy(value).parse::<i64>().unwrap_or(0);
            reduced.count += 1;
            reduced.sum = reduced.sum.wrapping_add(number);
        }
        if self.wrong == Wrong::CountsOneRowTooMany && reduced.count == 3 {
            reduced.count += 1;
        }
        Some(Ok(reduced))
    }

    fn compact(&self) -> Option<Result<()>> {
        let mut disk = self.disk();
        let newest = self.state.lock().unwrap().0;
        if let Err(error) = disk.call() {
            return Some(Err(error));
        }
        disk.commits.retain(|number, _| *number == newest);
        if self.wrong == Wrong::LosesAKeyInCompaction {
            let map = disk.commits.get_mut(&newest).unwrap();
            if map.len() > 2 {
                map.pop_last();
            }
        }
        Some(Ok(()))
    }

    fn commit_number(&self) -> Option<u64> {
        Some(self.state.lock().unwrap().0)
    }

    fn open_commit(&self, number: u64) -> Option<Result<Box<dyn KvSnapshot>>> {
        let mut disk = self.disk();
        if let Err(error) = disk.call() {
            return Some(Err(error));
        }
        let number = number - u64::from(self.wrong == Wrong::OpensTheWrongCommit && number > 1);
        let oldest = *disk.commits.keys().next().unwrap();
        Some(match disk.commits.get(&number) {
            Some(map) => {
                Ok(Box::new(ToySnapshot { wrong: self.wrong, map: map.clone(), disk: None }))
            }
            None => Err(Error::Compacted { asked: number, oldest }),
        })
    }
}

impl KvSnapshot for ToySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.map.get(key).cloned())
    }

    fn scan(&self, range: &KeyRange, way: Direction, visit: &mut Visit<'_>) -> Result<()> {
        use std::ops::Bound;
        let live = self.disk.as_ref().map(|disk| disk.lock().unwrap().commits.clone());
        let map = live.and_then(|commits| commits.into_values().next_back());
        let map = map.as_ref().unwrap_or(&self.map);
        let mut range = range.clone();
        match (self.wrong, &range.start, &range.end) {
            (Wrong::TakesTheRangeEndInclusively, _, Bound::Excluded(end)) => {
                range.end = Bound::Included(end.clone());
            }
            (Wrong::LeavesTheRangeStartOut, Bound::Included(start), _) => {
                range.start = Bound::Excluded(start.clone());
            }
            _ => {}
        }
        let mut rows: Vec<_> = map.iter().filter(|row| range.contains(row.0)).collect();
        if way == Direction::Descending && self.wrong != Wrong::ForgetsToReverse {
            rows.reverse();
        }
        for (key, value) in rows {
            if visit(key, value).is_break() && self.wrong != Wrong::CallsTheVisitorAfterItsEnd {
                break;
            }
        }
        Ok(())
    }
}

fn toy(wrong: Wrong) -> Toy {
    Toy { wrong, disk: Arc::default() }
}

fn config(faults: bool) -> CheckConfig {
    CheckConfig { seed: 11, histories: 300, operations: 80, faults, ..CheckConfig::default() }
}

// spec: MODEL-2, MODEL-4
#[test]
fn a_right_engine_passes_with_and_without_faults() {
    for faults in [false, true] {
        let report = check_kv(&toy(Wrong::Nothing), &config(faults));
        let report = report.unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{report}");
        assert_eq!(report.operations(), 300 * 80);
        assert!(report.not_offered.is_empty());
        assert_eq!(report.failed_by_fault > 0, faults);
    }
}

// spec: MODEL-2
#[test]
fn every_wrong_engine_is_caught_with_a_short_history() {
    let wrongs = [
        (Wrong::LosesTheLastCommitOnReopen, 2),
        (Wrong::LosesTheLastCommitInACrash, 2),
        (Wrong::TakesTheRangeEndInclusively, 2),
        (Wrong::LeavesTheRangeStartOut, 2),
        (Wrong::LetsTheFirstDuplicateWin, 2),
        (Wrong::ShowsLaterCommitsInASnapshot, 3),
        (Wrong::ForgetsToReverse, 2),
        (Wrong::CallsTheVisitorAfterItsEnd, 2),
        (Wrong::CountsOneRowTooMany, 2),
        (Wrong::ShowsAFailedCommit, 3),
        (Wrong::LosesAKeyInCompaction, 2),
        (Wrong::OpensTheWrongCommit, 6),
        (Wrong::PanicsOnTheEmptyKey, 1),
        (Wrong::AppliesHalfOfAFailedCommit, 2),
        (Wrong::RejectsForNoReason, 1),
    ];
    for (wrong, operations_max) in wrongs {
        let violation = check_kv(&toy(wrong), &config(true)).expect_err(&format!("{wrong:?}"));
        println!("{wrong:?}: {violation}\n");
        assert!(!violation.script.is_empty(), "{wrong:?} is caught by an operation");
        assert!(violation.script.len() <= operations_max, "{wrong:?}: {violation}");
        // The script that is printed shows the same difference again.
        let ops: Vec<KvOp> = violation.script.iter().map(|line| line.parse().unwrap()).collect();
        let again = check_kv_history(&toy(wrong), &ops).expect_err("the script replays");
        assert_eq!(again.found, violation.found);
    }
}

// spec: MODEL-3
#[test]
fn a_run_that_never_played_some_operation_fails() {
    let config = CheckConfig { histories: 1, operations: 3, ..CheckConfig::default() };
    let violation = check_kv(&toy(Wrong::Nothing), &config).expect_err("too small a run");
    assert!(violation.to_string().contains("at least once"), "{violation}");
}

// spec: MODEL-2
#[test]
fn quickcheck_and_proptest_histories_pass_on_a_right_engine() {
    fn law(history: &KvHistory) {
        check_kv_history(&toy(Wrong::Nothing), &history.0)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    quickcheck::quickcheck((|history: KvHistory| law(&history)) as fn(KvHistory));
    proptest::proptest!(|(history in KvHistory::strategy(60))| law(&history));
}

#[test]
fn equal_seeds_make_equal_runs() {
    let run = || check_kv(&toy(Wrong::ForgetsToReverse), &config(true)).unwrap_err().to_string();
    assert_eq!(run(), run());
}

// spec: MODEL-1
#[test]
fn operations_print_and_parse_as_themselves() {
    let printed = RefCell::new(std::collections::BTreeSet::new());
    let count = Cell::new(0);
    fn law(history: &KvHistory) {
        for op in &history.0 {
            assert_eq!(op.to_string().parse::<KvOp>().unwrap(), *op, "{op}");
        }
    }
    for seed in 0..200 {
        let history = rereduce_model::kv_history_of_seed(seed, 0, 50, true);
        law(&KvHistory(history.clone()));
        count.set(count.get() + history.len());
        printed.borrow_mut().extend(history.iter().map(KvOp::kind));
    }
    assert_eq!(printed.borrow().len(), KvOp::KINDS.len());
    quickcheck::quickcheck((|history: KvHistory| law(&history)) as fn(KvHistory));
    proptest::proptest!(|(history in KvHistory::strategy(30))| law(&history));
}

#[test]
fn lines_that_are_no_operation_are_refused() {
    for line in [
        "",
        "put a",
        "commit a",
        "commit a=1 b",
        "get",
        "scan a",
        "get a in 3",
        "get \"a",
        "compact now",
        "fault",
        "fault -1",
        "get z*3",
        "get zz*300",
        "get a\\",
        "snapshot s300",
    ] {
        let error = line.parse::<KvOp>().expect_err(line);
        assert_eq!(error.class(), ErrorClass::BadInput);
    }
}

#[test]
fn a_failed_commit_is_found_or_not_found_after_a_reopen() {
    let mut model = KvModel::default();
    model.commit(&[Edit::put("a", "1")]);
    model.doubt(&[Edit::put("a", "2")]);
    let (one, two) = (model.newest().clone(), Map::from([(b"a".to_vec(), b"2".to_vec())]));
    assert!(model.clone().reopened(&one), "it may be gone");
    assert!(model.clone().reopened(&two), "it may be there");
    assert!(!model.reopened(&Map::new()), "nothing else may");
}
