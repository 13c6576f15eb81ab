//! The campaigns: each a command that prints figures, `cargo oracle NAME`.
//!
//! Invariant: what a campaign tries depends on its seed and form alone. Time only decides when an
//! interrupted one stops.

mod accounting;
mod ace;
mod checks;
mod ci;
mod collate;
mod crash;
mod footer;
mod ioerr;
mod kill;
mod model;
mod nested;
mod planted;
mod protocols;
mod reduce;
mod replay;
mod report;
mod revtree;
mod rot;
mod twice;
mod views;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use accounting::{Account, account};
pub use ace::{ScopeTally, Sequence, SmallScope};
pub use kill::SentLog;
pub use protocols::{Cell, expected_cells};
pub use twice::{Rerun, run_twice, same_on_any_threads};

use rereduce::mark;

use crate::explore::{Explorer, Violation};
use crate::fault::FaultModel;
use crate::figures::Figures;
use crate::subject::Subject;
use crate::target::Workload;
use crate::targets;

/// What every campaign is told.
#[derive(Clone)]
pub struct Context {
    /// Whether the quick form is wanted.
    pub quick: bool,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Set when the user wants to end.
    pub stop: Arc<AtomicBool>,
    /// Where workload scripts are.
    pub workloads: PathBuf,
    /// Whether lines go to standard output; checks inside other campaigns are silent.
    pub loud: bool,
    /// Further arguments, `--NAME VALUE`.
    pub arguments: Vec<(String, String)>,
}

/// A campaign by name.
pub struct Campaign {
    /// The first word after `cargo oracle`.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Whether `ci` runs its quick form.
    pub in_ci: bool,
    /// Runs it. An error is a usage error.
    pub run: fn(&Context) -> Result<Figures, String>,
}

/// All campaigns.
pub const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "crash",
        about: "every crash point of every workload, every image a power cut can leave",
        in_ci: true,
        run: crash::run,
    },
    Campaign {
        name: "nested",
        about: "crash --nested: crashes in the recovery from crashes, to depth 3",
        in_ci: true,
        run: |context| nested::run(context, "nested"),
    },
    Campaign {
        name: "ace",
        about: "every sequence of up to 3 of 18 operations; --storage: of 4 of 8",
        in_ci: true,
        run: ace::run,
    },
    Campaign {
        name: "protocols",
        about: "which commit protocol survives which kind of disk, with counter-examples",
        in_ci: true,
        run: protocols::run,
    },
    Campaign {
        name: "footer",
        about: "a file damaged in every way around its last footers",
        in_ci: true,
        run: footer::run,
    },
    Campaign {
        name: "rot",
        about: "a file with everything in it, damaged at rest in every way",
        in_ci: true,
        run: rot::run,
    },
    Campaign {
        name: "ioerr",
        about: "every disk call of every workload fails in turn, once and for ever",
        in_ci: true,
        run: ioerr::run,
    },
    Campaign {
        name: "model",
        about: "random histories, every answer compared with the model's",
        in_ci: true,
        run: model::run,
    },
    Campaign {
        name: "revtree",
        about: "every small revision tree in every order of arrival",
        in_ci: true,
        run: revtree::run,
    },
    Campaign {
        name: "collate",
        about: "the keys of views: laws of order on all triples of 220 values, against the model",
        in_ci: true,
        run: collate::run,
    },
    Campaign {
        name: "reduce",
        about: "reductions by an index, by a fold over the rows and by the model",
        in_ci: true,
        run: reduce::run,
    },
    Campaign {
        name: "views",
        about: "random histories of a database and its views, against the model and fresh builds",
        in_ci: true,
        run: views::run,
    },
    Campaign {
        name: "planted",
        about: "engines broken on purpose, each of which a check must notice",
        in_ci: true,
        run: planted::run,
    },
    Campaign {
        name: "twice",
        about: "every seed twice: the same calls, bytes and answers, on any number of threads",
        in_ci: true,
        run: twice::run,
    },
    Campaign {
        name: "kill",
        about: "the real program, killed at random moments; full and unwritable disks",
        in_ci: true,
        run: kill::run,
    },
    Campaign {
        name: "report",
        about: "protocols on disks under workloads, as a page and CSV files: --out DIR",
        in_ci: true,
        run: report::run,
    },
    Campaign {
        name: "replay",
        about: "one violation again: --target, --script, --model, --plan, --point, --choice, --set, --damage",
        in_ci: false,
        run: replay::run,
    },
    Campaign {
        name: "ci",
        about: "the quick form of all others, in one process",
        in_ci: false,
        run: ci::run,
    },
];

impl Context {
    /// The full form, seed 1, loud.
    pub fn new(workloads: PathBuf) -> Context {
        let stop = Arc::default();
        Context { quick: false, seed: 1, stop, workloads, loud: true, arguments: Vec::new() }
    }

    /// Whether the user wants to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The value of `--name`, if it was given.
    pub fn argument(&self, name: &str) -> Option<&str> {
        let found = self.arguments.iter().rev().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    fn say(&self, line: impl std::fmt::Display) {
        if self.loud {
            println!("{line}");
        }
    }

    fn explorer(&self, model: FaultModel) -> Explorer {
        Explorer { seed: self.seed, stop: self.stop.clone(), ..Explorer::new(model) }
    }

    fn report(&self, violation: &Violation) {
        self.say(format_args!("{violation}\n"));
    }
}

/// The target called `name`.
fn subject(name: &str) -> Result<Box<dyn Subject>, String> {
    let all = targets::all();
    let names: Vec<&str> = all.iter().map(|subject| subject.called()).collect();
    let unknown = format!("unknown target {name:?}; there are {}", names.join(", "));
    all.into_iter().find(|subject| subject.called() == name).ok_or(unknown)
}

/// The scripts of `DIRECTORY/TARGET/*.txt`, sorted by name.
fn scripts(context: &Context, target: &str) -> Result<Vec<Workload>, String> {
    let directory = context.workloads.join(target);
    let failed = |error| format!("cannot read {}: {error}", directory.display());
    let mut workloads = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            workloads.push(Workload::parse(&name, &text)?);
        }
    }
    workloads.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(workloads)
}

/// Does all `jobs` on as many threads as an explorer uses, and adds up what each `work` gave, in an
/// order that is not that of the jobs. Nothing is begun any more once the user wants to end.
fn side_by_side<J: Sync, S: Send + Default>(
    context: &Context,
    jobs: &[J],
    shown: impl Fn(usize, &J) -> String + Sync,
    work: impl Fn(usize, &J, &mut S) -> Result<(), String> + Sync,
    add: impl Fn(&mut S, S) + Sync,
) -> Result<S, String> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Ok(S::default())));
    let progress = Progress::new(context);
    let planted = mark::planted_here();
    let worker = |shows: bool| {
        mark::plant(planted);
        let mut sum = S::default();
        let done = loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index).filter(|_| !context.stopped()) else { break Ok(()) };
            if shows && progress.shown {
                progress.show(shown(index, job));
            }
            if let Err(error) = work(index, job, &mut sum) {
                break Err(error);
            }
        };
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *all, done) {
            (Ok(all), Ok(())) => add(all, sum),
            (Ok(_), Err(error)) => *all = Err(error),
            (Err(_), _) => {}
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..Explorer::new(FaultModel::POWER).threads {
            scope.spawn(|| worker(false));
        }
        worker(true);
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// One line on a terminal that tells how far a campaign is.
struct Progress {
    shown: bool,
    began: Instant,
}

impl Progress {
    fn new(context: &Context) -> Progress {
        let shown = context.loud && std::io::stderr().is_terminal();
        Progress { shown, began: Instant::now() }
    }

    fn show(&self, line: impl std::fmt::Display) {
        if self.shown {
            // Progress that cannot be shown is no reason to stop.
            let seconds = self.began.elapsed().as_secs();
            let _ = write!(std::io::stderr(), "\r\x1b[K{seconds:>4} s  {line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
