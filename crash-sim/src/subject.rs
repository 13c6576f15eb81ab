//! A [`Target`] whose types are forgotten, so that campaigns can hold several in one list.
//!
//! Invariant: operations cross this border as text only, which is what scripts and replay commands
//! hold anyway.

use crate::campaign::Rerun;
use crate::explore::{Explorer, Tally, Violation};
use crate::false_success::class_of;
use crate::fault::FaultClass;
use crate::nested::{Met, NestedTally, NestedViolation, Nesting};
use crate::plan::Plan;
use crate::report::Measure;
use crate::run::{Evidence, record};
use crate::shrink::{shrink, shrink_failing};
use crate::target::{Target, Workload};
use crate::trace::Entry;

/// What a run did to the disk.
pub struct Traced {
    /// All calls, with notes of what began and what was acknowledged.
    pub entries: Vec<Entry>,
    /// For each operation, whether it changed what readers see.
    pub changed: Vec<bool>,
}

/// An engine under test, by name; every [`Target`] is one.
pub trait Subject: Measure + Send + Sync {
    /// The name on the command line.
    fn called(&self) -> &'static str;

    /// Explores a workload and shrinks the violation if there is one.
    ///
    /// # Errors
    ///
    /// If the workload does not parse.
    fn crash(
        &self,
        explorer: &Explorer,
        workload: &Workload,
    ) -> Result<(Tally, Option<Violation>), String>;

    /// The same, without shrinking.
    ///
    /// # Errors
    ///
    /// If the workload does not parse.
    fn find(
        &self,
        explorer: &Explorer,
        workload: &Workload,
    ) -> Result<(Tally, Option<Violation>), String>;

    /// Looks at one choice at one crash point again, or at the run itself if there is none.
    ///
    /// # Errors
    ///
    /// If the workload, point or choice makes no sense.
    fn replay(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        crash: Option<(usize, &str)>,
    ) -> Result<Option<Violation>, String>;

    /// What a run without failures did to the disk.
    ///
    /// # Errors
    ///
    /// If the workload does not parse, or the run went wrong.
    fn traced(&self, seed: u64, workload: &Workload) -> Result<Traced, String>;

    /// One run whose calls fail as the explorer's plan says, judged by the class of the plan; with
    /// `power`, everything that a power cut after the first failure can leave is opened too (after
    /// a lie it always is).
    ///
    /// # Errors
    ///
    /// If the workload does not parse.
    fn endure(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        power: bool,
        evidence: &mut Evidence,
    ) -> Result<(Tally, Option<Violation>), String>;

    /// The same violation with fewer operations and an earlier failing call, if there is one:
    /// `plans(n)` lets the n-th call fail.
    ///
    /// # Errors
    ///
    /// If the workload does not parse.
    fn endure_less(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        power: bool,
        plans: &dyn Fn(u64) -> Option<Plan>,
        violation: Violation,
    ) -> Result<Violation, String>;

    /// Cuts the power again and again; see [`Explorer::nest`].
    ///
    /// # Errors
    ///
    /// If the workload does not parse.
    fn nest(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        nesting: Nesting,
        met: &Met,
    ) -> Result<(NestedTally, Option<NestedViolation>), String>;

    /// The same violation with fewer operations, if there is one.
    ///
    /// # Errors
    ///
    /// If the workload does not parse.
    fn nest_less(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        nesting: Nesting,
        violation: NestedViolation,
    ) -> Result<NestedViolation, String>;

    /// Follows one chain of crash points and choices.
    ///
    /// # Errors
    ///
    /// If the workload, a point or a choice makes no sense.
    fn nest_again(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        chain: &[(usize, &str)],
    ) -> Result<Option<NestedViolation>, String>;

    /// Runs a workload whose calls fail as `plan` says, and tells everything that happened.
    ///
    /// # Errors
    ///
    /// If the workload does not parse, or the engine panics.
    fn rerun(&self, workload: &Workload, seed: u64, plan: &Plan) -> Result<Rerun, String>;

    /// A workload of `count` operations from `seed`.
    fn workload(&self, count: usize, seed: u64) -> Workload;
}

impl<T: Target> Subject for T {
    fn called(&self) -> &'static str {
        self.name()
    }

    fn crash(
        &self,
        explorer: &Explorer,
        workload: &Workload,
    ) -> Result<(Tally, Option<Violation>), String> {
        let (target, ops) = workload.prepare(self)?;
        let (tally, violation) = explorer.explore(&target, &ops);
        Ok((tally, violation.map(|violation| shrink(explorer, &target, &ops, violation))))
    }

    fn find(
        &self,
        explorer: &Explorer,
        workload: &Workload,
    ) -> Result<(Tally, Option<Violation>), String> {
        let (target, ops) = workload.prepare(self)?;
        Ok(explorer.explore(&target, &ops))
    }

    fn replay(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        crash: Option<(usize, &str)>,
    ) -> Result<Option<Violation>, String> {
        let (target, ops) = workload.prepare(self)?;
        match (class_of(&explorer.plan), crash) {
            (FaultClass::B, Some((point, choice))) => {
                explorer.believe_again(&target, &ops, point, choice)
            }
            (FaultClass::B, None) => {
                Ok(explorer.believe(&target, &ops, &mut Evidence::default()).1)
            }
            (_, Some((point, choice))) => explorer.replay(&target, &ops, point, choice),
            (_, None) => Ok(explorer.explore(&target, &ops).1),
        }
    }

    fn traced(&self, seed: u64, workload: &Workload) -> Result<Traced, String> {
        let (target, ops) = workload.prepare(self)?;
        let recording = record(&target, &ops, seed, &Plan::default())?;
        let changed = recording.states.windows(2).map(|pair| pair[0] != pair[1]).collect();
        Ok(Traced { entries: recording.trace, changed })
    }

    fn endure(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        power: bool,
        evidence: &mut Evidence,
    ) -> Result<(Tally, Option<Violation>), String> {
        let (target, ops) = workload.prepare(self)?;
        Ok(match class_of(&explorer.plan) {
            FaultClass::B => explorer.believe(&target, &ops, evidence),
            _ => explorer.endure(&target, &ops, power, evidence),
        })
    }

    fn endure_less(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        power: bool,
        plans: &dyn Fn(u64) -> Option<Plan>,
        violation: Violation,
    ) -> Result<Violation, String> {
        let (target, ops) = workload.prepare(self)?;
        Ok(shrink_failing(explorer, &target, &ops, power, plans, violation))
    }

    fn nest(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        nesting: Nesting,
        met: &Met,
    ) -> Result<(NestedTally, Option<NestedViolation>), String> {
        let (target, ops) = workload.prepare(self)?;
        Ok(explorer.nest(&target, &ops, nesting, met))
    }

    fn nest_less(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        nesting: Nesting,
        violation: NestedViolation,
    ) -> Result<NestedViolation, String> {
        let (target, ops) = workload.prepare(self)?;
        Ok(explorer.nest_less(&target, &ops, nesting, violation))
    }

    fn nest_again(
        &self,
        explorer: &Explorer,
        workload: &Workload,
        chain: &[(usize, &str)],
    ) -> Result<Option<NestedViolation>, String> {
        let (target, ops) = workload.prepare(self)?;
        explorer.nest_again(&target, &ops, chain)
    }

    fn rerun(&self, workload: &Workload, seed: u64, plan: &Plan) -> Result<Rerun, String> {
        let (target, ops) = workload.prepare(self)?;
        Rerun::of(&target, &ops, seed, plan)
    }

    fn workload(&self, count: usize, seed: u64) -> Workload {
        Workload {
            name: format!("generated-{count}-{seed}"),
            title: String::new(),
            settings: Vec::new(),
            lines: self.generate(count, seed).iter().map(T::Op::to_string).collect(),
        }
    }
}
