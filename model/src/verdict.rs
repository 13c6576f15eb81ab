//! What a check function answers: a report, or a violation with its shortest history.
//!
//! Invariant: a run that never exercised a kind of operation is a violation, not a success.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::generator::Generator;

/// How much to check.
///
/// ```
/// use rereduce_model::CheckConfig;
/// let config = CheckConfig { seed: 7, ..CheckConfig::default() };
/// assert!(!config.faults);
/// ```
#[derive(Clone, Debug)]
pub struct CheckConfig {
    /// Everything is a function of this.
    pub seed: u64,
    /// Histories, each against a storage of its own.
    pub histories: u64,
    /// Operations in one history; quickcheck and proptest make about so many on average.
    pub operations: usize,
    /// Whether the disk may fail; the relaxed checks for that exist only then.
    pub faults: bool,
    /// Who makes the histories.
    pub generator: Generator,
}

impl Default for CheckConfig {
    fn default() -> CheckConfig {
        CheckConfig {
            seed: 1,
            histories: 100,
            operations: 60,
            faults: false,
            generator: Generator::Ours,
        }
    }
}

/// What was compared.
///
/// ```
/// let report = rereduce_model::Report::default();
/// assert_eq!(report.operations(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Histories that were run.
    pub histories: u64,
    /// Operations compared, by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Kinds that the engine does not offer.
    pub not_offered: BTreeSet<&'static str>,
    /// Operations that failed because the disk was told to.
    pub failed_by_fault: u64,
}

impl Report {
    /// Operations compared.
    pub fn operations(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// Adds what another run compared.
    pub fn add(&mut self, other: &Report) {
        self.histories += other.histories;
        self.failed_by_fault += other.failed_by_fault;
        self.not_offered.extend(&other.not_offered);
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }

    pub(crate) fn count(&mut self, kind: &'static str) {
        *self.kinds.entry(kind).or_default() += 1;
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} operations in {} histories", self.operations(), self.histories)?;
        for (kind, count) in &self.kinds {
            write!(out, ", {kind} {count}")?;
        }
        if !self.not_offered.is_empty() {
            let names: Vec<_> = self.not_offered.iter().copied().collect();
            write!(out, "; not offered: {}", names.join(", "))?;
        }
        Ok(())
    }
}

/// Where engine and model part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The index of the operation.
    pub(crate) step: usize,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// An engine is not what the model says, with the shortest history found that shows it.
///
/// ```
/// use rereduce_model::Violation;
/// let violation = Violation {
///     seed: 1,
///     history: 0,
///     script: vec!["commit a=1".into(), "get a".into()],
///     step: 1,
///     expected: "1".into(),
///     found: "nothing".into(),
/// };
/// assert!(violation.to_string().contains("> get a"));
/// ```
#[derive(Clone, Debug)]
pub struct Violation {
    /// The seed of the run.
    pub seed: u64,
    /// Which history of the run, from 0.
    pub history: u64,
    /// The operations, one a line.
    pub script: Vec<String>,
    /// The index of the operation that was answered wrongly; behind the last: the closing.
    pub step: usize,
    /// What the model says.
    pub expected: String,
    /// What the engine said.
    pub found: String,
}

impl Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "engine and model differ (seed {}, history {}):", self.seed, self.history)?;
        for (step, line) in self.script.iter().enumerate() {
            writeln!(out, "{} {line}", if step == self.step { ">" } else { " " })?;
        }
        if self.step >= self.script.len() {
            writeln!(out, "> (the end: close and open again)")?;
        }
        write!(out, "expected  {}\nfound     {}", self.expected, self.found)
    }
}

impl std::error::Error for Violation {}

/// Runs all histories of `config` and stops at the first that fails, which it shrinks.
///
/// `generate` makes the history with an index, `run` plays operations against a fresh storage,
/// and `simpler` proposes simpler operations for one.
pub(crate) fn check<Op: Clone + Display>(
    config: &CheckConfig,
    kinds: &[&'static str],
    generate: impl Fn(u64) -> Vec<Op>,
    run: impl Fn(&[Op], &mut Report) -> Result<(), Mismatch>,
    simpler: impl Fn(&Op) -> Vec<Op>,
) -> Result<Report, Violation> {
    let mut report = Report::default();
    for history in 0..config.histories {
        let ops = generate(history);
        if let Err(mut violation) = check_history(&ops, &mut report, &run, &simpler) {
            (violation.seed, violation.history) = (config.seed, history);
            return Err(violation);
        }
    }
    // spec: MODEL-3
    let never = kinds.iter().find(|kind| {
        let exempt = report.not_offered.contains(*kind) || (**kind == "fault" && !config.faults);
        !exempt && !report.kinds.contains_key(*kind)
    });
    match never {
        None => Ok(report),
        Some(kind) => Err(Violation {
            seed: config.seed,
            history: config.histories,
            script: Vec::new(),
            step: 0,
            expected: format!("operation {kind:?} at least once; raise histories or operations"),
            found: format!("{report}"),
        }),
    }
}

/// Runs one history, and shrinks it if it fails.
pub(crate) fn check_history<Op: Clone + Display>(
    ops: &[Op],
    report: &mut Report,
    run: &impl Fn(&[Op], &mut Report) -> Result<(), Mismatch>,
    simpler: &impl Fn(&Op) -> Vec<Op>,
) -> Result<(), Violation> {
    report.histories += 1;
    let Err(mismatch) = run_caught(ops, report, run) else {
        return Ok(());
    };
    let (ops, mismatch) = shrink(ops.to_vec(), mismatch, run, simpler);
    Err(Violation {
        seed: 0,
        history: 0,
        script: ops.iter().map(Op::to_string).collect(),
        step: mismatch.step,
        expected: mismatch.expected,
        found: mismatch.found,
    })
}

/// A panic of the engine is a wrong answer like any other.
fn run_caught<Op>(
    ops: &[Op],
    report: &mut Report,
    run: &impl Fn(&[Op], &mut Report) -> Result<(), Mismatch>,
) -> Result<(), Mismatch> {
    let before = report.operations();
    let shared = RefCell::new(report);
    let caught = catch_unwind(AssertUnwindSafe(|| run(ops, &mut shared.borrow_mut())));
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        let ran = shared.borrow().operations().saturating_sub(before) as usize;
        Err(Mismatch {
            step: ran.saturating_sub(1).min(ops.len().saturating_sub(1)),
            expected: "an answer".to_owned(),
            found: format!("a panic: {}", text.unwrap_or_default()),
        })
    })
}

/// Runs that shrinking one history may cost.
const SHRINK_RUNS_MAX: usize = 3000;

/// Drops operations greedily, first halves, at last single ones, then simplifies what is left.
// spec: MODEL-2
fn shrink<Op: Clone>(
    mut ops: Vec<Op>,
    mut mismatch: Mismatch,
    run: &impl Fn(&[Op], &mut Report) -> Result<(), Mismatch>,
    simpler: &impl Fn(&Op) -> Vec<Op>,
) -> (Vec<Op>, Mismatch) {
    let mut runs = 0;
    let mut fails = |ops: &[Op]| {
        runs += 1;
        let over = runs > SHRINK_RUNS_MAX;
        if over { None } else { run_caught(ops, &mut Report::default(), run).err() }
    };
    ops.truncate(mismatch.step + 1);
    loop {
        let before = ops.len();
        let mut size = (ops.len() / 2).max(1);
        loop {
            let mut start = 0;
            while start < ops.len() {
                let mut fewer = ops.clone();
                fewer.drain(start..(start + size).min(ops.len()));
                match fails(&fewer) {
                    Some(shorter) => (ops, mismatch) = (fewer, shorter),
                    None => start += size,
                }
            }
            if size == 1 {
                break;
            }
            size /= 2;
        }
        let mut index = 0;
        while index < ops.len() {
            let shorter = simpler(&ops[index]).into_iter().find_map(|op| {
                let mut candidate = ops.clone();
                candidate[index] = op;
                fails(&candidate).map(|mismatch| (candidate, mismatch))
            });
            match shorter {
                Some(found) => (ops, mismatch) = found,
                None => index += 1,
            }
        }
        if ops.len() == before {
            return (ops, mismatch);
        }
    }
}
