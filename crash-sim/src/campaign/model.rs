//! `model`: random histories of operations against the engine and the model, every answer compared:
//! the key-value store and the document database, with and without calls that fail.
//!
//! The unit of `passed` is an operation that was compared.

use rereduce::env::{Disk, Env};
use rereduce_model::{
    CheckConfig, DbEngine, DbHandle, KvEngine, KvHandle, Report, Violation, check_db, check_kv,
};

use super::{Context, Progress};
use crate::disk::SimDisk;
use crate::figures::Figures;
use crate::oracle::environment;
use crate::plan::{Errno, Failure, Fault, Plan, Verb};
use crate::targets::{DatabaseOpener, KvOpener, StoreOpener};

/// Operations that the quick form must compare.
const FLOOR: u64 = 100_000;

/// Histories per engine profile of the store, and of the database.
const QUICK_HISTORIES: (u64, u64) = (400, 300);

/// What the full form does, as a multiple of the quick form.
const FULL: u64 = 15;

/// Histories between two looks at the clock and at Ctrl-C.
const PORTION: u64 = 50;

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
        let config = CheckConfig { seed, histories, faults, ..CheckConfig::default() };
        let settings = || {
            let words = self.settings.split_whitespace();
            words.map(|setting| setting.split_once('=').unwrap_or((setting, "")))
        };
        // The settings above are ones that the openers know.
        let known = "a profile of known settings";
        let report = if self.engine == "store" {
            let mut opener = StoreOpener::default();
            settings().for_each(|(key, value)| opener.set(key, value).expect(known));
            check_kv(&OnSimDisk::new(opener, seed, faults), &config)
        } else {
            let mut opener = DatabaseOpener::default();
            settings().for_each(|(key, value)| opener.set(key, value).expect(known));
            check_db(&OnSimDisk::new(opener, seed, faults), &config)
        };
        report.map_err(Box::new)
    }

    fn histories(&self, quick: bool) -> u64 {
        let quickly = if self.engine == "store" { QUICK_HISTORIES.0 } else { QUICK_HISTORIES.1 };
        if quick { quickly } else { quickly * FULL }
    }
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("model", FLOOR);
    let (mut sum, mut of_db) = (Report::default(), 0);
    let progress = Progress::new(context);
    let most = PROFILES.iter().map(|profile| profile.histories(context.quick)).max().unwrap_or(0);
    for portion in 0..most / PORTION {
        for (index, profile) in (0..).zip(&PROFILES) {
            let Profile { engine, settings } = profile;
            if context.stopped() || portion * PORTION >= profile.histories(context.quick) {
                continue;
            }
            progress.show(format_args!("{} operations, now {engine}", sum.operations()));
            let faults = portion % 2 == 1;
            let seed = context.seed.wrapping_mul(1_000_003) + portion * 10 + index;
            match profile.check(seed, PORTION, faults) {
                Ok(report) => {
                    of_db += if *engine == "db" { report.operations() } else { 0 };
                    sum.add(&report);
                }
                Err(violation) => {
                    figures.failed += 1;
                    context.say(format_args!("{engine} {settings}, seed {seed}:\n{violation}"));
                }
            }
        }
    }
    drop(progress);
    figures.count("histories", sum.histories);
    figures.count("operations of store", sum.operations() - of_db);
    figures.count("operations of db", of_db);
    figures.count("failed by fault", sum.failed_by_fault);
    for (kind, count) in &sum.kinds {
        figures.count(*kind, *count);
    }
    figures.passed = sum.operations();
    figures.interrupted = context.stopped();
    Ok(figures)
}
