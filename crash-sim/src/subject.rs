//! A [`Target`] whose types are forgotten, so that campaigns can hold several in one list.
//!
//! Invariant: operations cross this border as text only, which is what scripts and replay commands
//! hold anyway.

use crate::explore::{Explorer, Tally, Violation};
use crate::report::Measure;
use crate::shrink::shrink;
use crate::target::{Target, Workload};

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
        match crash {
            Some((point, choice)) => explorer.replay(&target, &ops, point, choice),
            None => Ok(explorer.explore(&target, &ops).1),
        }
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
