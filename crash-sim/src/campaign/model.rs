//! `model`: random histories of operations against the engine and the model, every answer compared.
//!
//! The unit of `passed` is an operation that was compared.

use rereduce::env::Disk;
use rereduce_model::{CheckConfig, KvEngine, KvHandle, Report, check_kv};

use super::{Context, Progress};
use crate::disk::SimDisk;
use crate::figures::Figures;
use crate::oracle::environment;
use crate::plan::{Errno, Failure, Fault, Plan, Verb};
use crate::targets::{KvOpener, StoreOpener};

/// Operations that the quick form must compare.
const FLOOR: u64 = 100_000;

/// Histories per engine profile.
const QUICK_HISTORIES: u64 = 500;

/// An engine on a simulated disk that fails on demand.
pub(super) struct OnSimDisk {
    opener: StoreOpener,
    disk: SimDisk,
    seed: u64,
    offers_faults: bool,
}

impl OnSimDisk {
    /// The store with these options, on an empty disk.
    pub(super) fn new(settings: &str, seed: u64, offers_faults: bool) -> Result<Self, String> {
        let mut opener = StoreOpener::default();
        for setting in settings.split_whitespace() {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            opener.set(key, value)?;
        }
        Ok(OnSimDisk {
            opener,
            disk: SimDisk::open_image(&crate::Image::empty()),
            seed,
            offers_faults,
        })
    }
}

impl KvEngine for OnSimDisk {
    fn open(&self, name: &str) -> rereduce::Result<Box<dyn KvHandle>> {
        self.opener.open(&environment(&self.disk, self.seed), name.as_ref())
    }

    fn remove(&self, name: &str) -> rereduce::Result<()> {
        match self.disk.remove(name.as_ref()) {
            Err(rereduce::Error::NoSuchFile { .. }) => Ok(()),
            removed => removed,
        }
    }

    fn fail_disk(&self, calls: Option<u64>) -> bool {
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

/// Options under which the store is compared: tiny nodes and no cache, up to what users run with.
pub(super) const PROFILES: [&str; 4] = [
    "fan-out=2",
    "fan-out=3 cache=1000 protocol=barrier",
    "fan-out=4 cache=1000000 protocol=guide",
    "fan-out=1000000 cache=1000000",
];

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("model", FLOOR);
    let mut sum = Report::default();
    let histories = if context.quick { QUICK_HISTORIES } else { QUICK_HISTORIES * 15 };
    let progress = Progress::new(context);
    // Small portions, so that Ctrl-C is heard.
    const PORTION: u64 = 100;
    for portion in 0..histories / PORTION {
        for (index, profile) in PROFILES.iter().enumerate() {
            if context.stopped() {
                break;
            }
            progress.show(format_args!("{} operations", sum.operations()));
            let faults = portion % 2 == 1;
            let seed = context.seed.wrapping_mul(1_000_003) + portion * 10 + index as u64;
            let engine = OnSimDisk::new(profile, seed, faults)?;
            let config = CheckConfig { seed, histories: PORTION, faults, ..CheckConfig::default() };
            match check_kv(&engine, &config) {
                Ok(report) => sum.add(&report),
                Err(violation) => {
                    figures.failed += 1;
                    context.say(format_args!("store {profile}, seed {seed}:\n{violation}"));
                }
            }
        }
    }
    drop(progress);
    figures.count("histories", sum.histories);
    figures.count("failed by fault", sum.failed_by_fault);
    for (kind, count) in &sum.kinds {
        figures.count(*kind, *count);
    }
    figures.passed = sum.operations();
    figures.interrupted = context.stopped();
    Ok(figures)
}
