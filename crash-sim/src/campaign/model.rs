//! `model`: random histories of operations against the engine and the model, every answer compared:
//! the key-value store and the document database, with and without calls that fail.
//!
//! The unit of `passed` is an operation that was compared.

use std::collections::BTreeMap;

use rereduce::env::{Disk, Env};
use rereduce_model::{
    CheckConfig, DbEngine, DbHandle, Generator, KvEngine, KvHandle, Report, Violation, check_db,
    check_kv,
};

use super::{Context, side_by_side};
use crate::disk::SimDisk;
use crate::figures::Figures;
use crate::oracle::environment;
use crate::plan::{Errno, Failure, Fault, Plan, Verb};
use crate::targets::{DatabaseOpener, KvOpener, StoreOpener};

/// Operations that the quick form must compare.
const FLOOR: u64 = 100_000;

/// Histories in one go: between two looks at Ctrl-C, and from one seed.
const PORTION: u64 = 50;

/// Portions for each profile and generator in the quick form; every second one with failing calls.
const QUICK_PORTIONS: u64 = 2;

/// The same in the full form: half of the operations come from proptest.
const FULL_PORTIONS: [(Generator, u64); 3] =
    [(Generator::Ours, 76), (Generator::Quickcheck, 76), (Generator::Proptest, 140)];

/// Operations of a history.
const HISTORY_OPERATIONS: usize = 100;

/// An engine on a simulated disk that fails on demand.
pub(super) struct OnSimDisk<E> {
    opener: E,
    disk: SimDisk,
    seed: u64,
    offers_faults: bool,
}

impl<E> OnSimDisk<E> {
    fn new(opener: E, seed: u64, offers_faults: bool) -> OnSimDisk<E> {
        OnSimDisk { opener, disk: SimDisk::open_image(&crate::Image::empty()), seed, offers_faults }
    }

    fn env(&self) -> Env {
        environment(&self.disk, self.seed)
    }

    fn remove_file(&self, name: &str) -> rereduce::Result<()> {
        match self.disk.remove(name.as_ref()) {
            Err(rereduce::Error::NoSuchFile { .. }) => Ok(()),
            removed => removed,
        }
    }

    fn fail(&self, calls: Option<u64>) -> bool {
        if self.offers_faults {
            let failure = Failure::new(Errno::InputOutput);
            self.disk.set_plan(match calls {
                Some(calls) => Plan::default().and(Fault {
                    verb: Verb::Any,
                    nth: calls + 1,
                    failure,
                    forever: false,
                }),
                None => Plan::default(),
            });
        }
        self.offers_faults
    }
}

impl KvEngine for OnSimDisk<StoreOpener> {
    fn open(&self, name: &str) -> rereduce::Result<Box<dyn KvHandle>> {
        self.opener.open(&self.env(), name.as_ref())
    }

    fn remove(&self, name: &str) -> rereduce::Result<()> {
        self.remove_file(name)
    }

    fn fail_disk(&self, calls: Option<u64>) -> bool {
        self.fail(calls)
    }
}

impl DbEngine for OnSimDisk<DatabaseOpener> {
    fn open(&self, name: &str) -> rereduce::Result<Box<dyn DbHandle>> {
        self.opener.open(&self.env(), name.as_ref())
    }

    fn remove(&self, name: &str) -> rereduce::Result<()> {
        self.remove_file(name)
    }

    fn fail_disk(&self, calls: Option<u64>) -> bool {
        self.fail(calls)
    }
}

/// An engine with its options, held against the model.
#[derive(Clone, Copy)]
pub(super) struct Profile {
    pub(super) engine: &'static str,
    settings: &'static str,
}

/// Options under which engines are compared: tiny nodes and no cache, up to what users run with.
pub(super) const PROFILES: [Profile; 8] = [
    Profile { engine: "store", settings: "fan-out=2" },
    Profile { engine: "store", settings: "fan-out=3 cache=1000 protocol=barrier" },
    Profile { engine: "store", settings: "fan-out=4 cache=1000000 protocol=guide" },
    Profile { engine: "store", settings: "fan-out=1000000 cache=1000000" },
    Profile { engine: "db", settings: "fan-out=2" },
    Profile { engine: "db", settings: "fan-out=3 cache=1000 chunk=16 protocol=barrier" },
    Profile { engine: "db", settings: "fan-out=4 cache=1000000 protocol=guide" },
    Profile { engine: "db", settings: "fan-out=1000000 cache=1000000 chunk=65536" },
];

impl Profile {
    /// Plays `histories` histories from `seed`.
    pub(super) fn check(
        &self,
        seed: u64,
        histories: u64,
        faults: bool,
    ) -> Result<Report, Box<Violation>> {
        self.hold(&CheckConfig { seed, histories, faults, ..CheckConfig::default() })
    }

    fn hold(&self, config: &CheckConfig) -> Result<Report, Box<Violation>> {
        let CheckConfig { seed, faults, .. } = *config;
        let settings = || {
            let words = self.settings.split_whitespace();
            words.map(|setting| setting.split_once('=').unwrap_or((setting, "")))
        };
        // The settings above are ones that the openers know.
        let known = "a profile of known settings";
        let report = if self.engine == "store" {
            let mut opener = StoreOpener::default();
            settings().for_each(|(key, value)| opener.set(key, value).expect(known));
            check_kv(&OnSimDisk::new(opener, seed, faults), config)
        } else {
            let mut opener = DatabaseOpener::default();
            settings().for_each(|(key, value)| opener.set(key, value).expect(known));
            check_db(&OnSimDisk::new(opener, seed, faults), config)
        };
        report.map_err(Box::new)
    }
}

/// Some histories of one profile.
struct Job {
    profile: Profile,
    config: CheckConfig,
}

fn jobs(context: &Context) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (generator, full) in FULL_PORTIONS {
        for portion in 0..if context.quick { QUICK_PORTIONS } else { full } {
            for profile in PROFILES {
                let seed = context.seed.wrapping_mul(1_000_003) + jobs.len() as u64;
                let (histories, operations) = (PORTION, HISTORY_OPERATIONS);
                let faults = portion % 2 == 1;
                let config = CheckConfig { seed, histories, operations, faults, generator };
                jobs.push(Job { profile, config });
            }
        }
    }
    jobs
}

/// What the histories of some jobs came to, each with the job's index.
type Outcomes = Vec<(usize, Result<Report, Box<Violation>>)>;

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let jobs = jobs(context);
    let shown = |index: usize, job: &Job| {
        let Profile { engine, settings } = job.profile;
        let count = PORTION as usize;
        format!("{} histories of {}, now {engine} {settings}", index * count, jobs.len() * count)
    };
    let work = |index: usize, job: &Job, outcomes: &mut Outcomes| {
        outcomes.push((index, job.profile.hold(&job.config)));
        Ok(())
    };
    let mut outcomes =
        side_by_side(context, &jobs, shown, work, |all: &mut Outcomes, mut some| {
            all.append(&mut some);
        })?;
    outcomes.sort_by_key(|(index, _)| *index);
    let mut figures = Figures::new("model", FLOOR);
    let (mut sum, mut shares) = (Report::default(), BTreeMap::<String, Report>::new());
    for (index, outcome) in outcomes {
        let Job { profile: Profile { engine, settings }, config } = &jobs[index];
        match outcome {
            Ok(report) => {
                shares.entry(format!("of {engine}")).or_default().add(&report);
                shares.entry(format!("by {}", config.generator)).or_default().add(&report);
                sum.add(&report);
            }
            Err(violation) => {
                figures.failed += 1;
                let CheckConfig { seed, generator, .. } = config;
                context.say(format_args!("{engine} {settings}, {generator} {seed}:\n{violation}"));
            }
        }
    }
    figures.count("histories", sum.histories);
    for (share, report) in &shares {
        figures.count(format!("operations {share}"), report.operations());
        figures.count(format!("histories {share}"), report.histories);
    }
    figures.count("failed by fault", sum.failed_by_fault);
    for (kind, count) in &sum.kinds {
        figures.count(*kind, *count);
    }
    figures.passed = sum.operations();
    figures.interrupted = context.stopped();
    Ok(figures)
}
