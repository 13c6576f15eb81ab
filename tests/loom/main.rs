//! `publish`, `commit_queue` and `single_flight` under every interleaving.
//!
//! The files are compiled here a second time, beside a [`sync`] made of loom's locks. Loom runs
//! each model once for every order in which the threads can take their steps (with the preemption
//! bound where one is named), and fails on a panic, a deadlock or a leaked state. Each model is
//! also run against bugs planted in the very same files, and must then fail.

#[path = "../../src/commit_queue.rs"]
#[allow(dead_code, unreachable_pub)]
mod commit_queue;
#[path = "../../src/publish.rs"]
#[allow(dead_code, unreachable_pub)]
mod publish;
#[path = "../../src/single_flight.rs"]
#[allow(dead_code, unreachable_pub)]
mod single_flight;

mod commit_queue_models;
mod flight_models;
mod plain;
mod publish_models;
mod sync;

use std::any::type_name;
use std::env;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No bound on preemptions: every interleaving there is.
const UNBOUNDED: Option<usize> = None;

/// Names the bug that a child process plants before it runs the one test it was started for.
const PLANTED: &str = "REREDUCE_LOOM_PLANTED";

/// Runs `model`, a closure in the test itself, under every interleaving with at most `preemptions`
/// preemptions. Prints how many there were, and fails if there were fewer than `at_least`: the
/// model then tests less than it did when the number was written down. Afterwards each of `bugs`
/// is planted in turn, and some interleaving must show it.
fn explore<Model>(preemptions: Option<usize>, at_least: u64, bugs: &[&str], model: Model)
where
    Model: Fn() + Send + Sync + 'static,
{
    if let Ok(bug) = env::var(PLANTED) {
        sync::mark::plant(Some(bug.leak()));
        run(preemptions, model);
        return;
    }
    let test = type_name::<Model>().trim_start_matches("loom::").trim_end_matches("::{{closure}}");
    let count = run(preemptions, model);
    let bound = preemptions.map_or("no bound".into(), |bound| format!("preemption bound {bound}"));
    println!("loom {test}: {count} interleavings, {bound}, exhausted; 1 passed, 0 failed");
    assert!(count >= at_least, "{test}: {count} interleavings, expected at least {at_least}");
    for bug in bugs {
        assert!(fails(test, bug), "{test}: no interleaving shows the planted bug {bug}");
        println!("loom {test}: planted {bug}, found");
    }
}

fn run(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    count.load(Ordering::Relaxed)
}

/// Whether `test` fails with `bug` planted. In a process of its own: when loom finds a deadlock it
/// cannot unwind the threads that are in it, and aborts.
fn fails(test: &str, bug: &str) -> bool {
    let program = env::current_exe().expect("a test knows its own program");
    let mut child = Command::new(program);
    child.args(["--exact", test]).env(PLANTED, bug).env("RUST_BACKTRACE", "0");
    let output = child.output().expect("a test can be started again");
    !output.status.success()
}
