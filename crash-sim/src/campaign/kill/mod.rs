//! `kill`: the real program on the real disk, killed at random moments, and asked afterwards.
//!
//! ```text
//! this process     load generator and log      checks every acknowledged document
//!                     │ records   ▲ lines              ▲ check, dump
//! the program      rereduce load ──── SIGKILL       rereduce ...
//!                     │
//! a directory      db (and what compactions leave)
//! ```
//!
//! The unit of `passed` is a kill after which everything was there, or a scene on a full or
//! unwritable disk in which nothing was lost. This shows the death of a process only: what it had
//! handed to the system survives it. A power cut is what `crash` is about.
//!
//! Invariant: what is acknowledged is known to this process alone, which is not killed.

mod log;
mod process;
mod scenes;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub use log::SentLog;

use super::{Context, Progress};
use crate::figures::Figures;
use crate::random::Random;
use process::Desk;
use scenes::{SCENES, Staged};

/// Kills that the quick form must survive, and with which it stops.
const FLOOR: u64 = 10;

/// Kills of the full form.
const KILLS: u64 = 400;

/// Kills of one database; then another begins.
const KILLS_OF_A_DATABASE: u64 = 12;

/// Batches sent in one load at most; it is killed before it has them all.
const BATCHES_MAX: usize = 2_000;

/// Acknowledgements before a kill, at most.
const ACKNOWLEDGED_MAX: u64 = 60;

/// Documents in a batch.
const SIZES: [usize; 4] = [1, 1, 3, 20];

/// Tries for one kill; the child may always end first.
const TRIES_MAX: u64 = 50;

const SIGKILL: i32 = 9;

/// What happened so far.
#[derive(Default)]
struct Seen {
    in_load: u64,
    in_compaction: u64,
    doubtful: u64,
    documents: u64,
    leftovers: u64,
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let program = find_program(context)?;
    let parent = context.argument("dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let kills = match context.argument("kills") {
        Some(kills) => kills.parse().map_err(|_| format!("--kills {kills}: not a number"))?,
        None if context.quick => FLOOR,
        None => KILLS,
    };
    let mut figures = Figures::new("kill", FLOOR.min(kills));
    let mut seen = Seen::default();
    let progress = Progress::new(context);
    let mut number = 0;
    while number * KILLS_OF_A_DATABASE < kills && !context.stopped() {
        progress.show(format_args!("{} kills", seen.in_load + seen.in_compaction));
        let seed = context.seed.wrapping_mul(1000).wrapping_add(number);
        let count = KILLS_OF_A_DATABASE.min(kills - number * KILLS_OF_A_DATABASE);
        let desk = desk(context, &program, &parent, &format!("db{number}"))?;
        if let Err(found) = session(&desk, seed, count, &mut seen) {
            context.say(format_args!("kill --seed {}, database {number}: {found}", context.seed));
            figures.failed += 1;
        }
        number += 1;
    }
    let mut staged = 0;
    for (index, scene) in (0..).zip(&SCENES) {
        if context.stopped() {
            break;
        }
        progress.show(scene.name);
        let desk = desk(context, &program, &parent, &format!("scene{index}"))?;
        match (scene.play)(&desk, context.seed + index) {
            Ok(Staged::Passed) => staged += 1,
            Ok(Staged::LeftOut(why)) => {
                context.say(format_args!("left out: {}: {why}", scene.name));
            }
            Err(found) => {
                context.say(format_args!("{}: {found}", scene.name));
                figures.failed += 1;
            }
        }
    }
    drop(progress);
    context.say("this shows the death of a process only, not the loss of power: see crash");
    let killed = seen.in_load + seen.in_compaction;
    figures.count("kills", killed);
    figures.count("in a load", seen.in_load);
    figures.count("in a compaction", seen.in_compaction);
    figures.count("half-made copies left", seen.leftovers);
    figures.count("acknowledged documents found", seen.documents);
    figures.count("batches written and not acknowledged", seen.doubtful);
    figures.count("scenes of full and unwritable disks", staged);
    figures.passed = killed + staged;
    figures.interrupted = context.stopped();
    Ok(figures)
}

fn desk(context: &Context, program: &Path, parent: &Path, name: &str) -> Result<Desk, String> {
    Desk::new(program, parent, name, context.argument("plant"))
}

/// One database from its creation through `count` kills to its end.
// spec: CRASH-22
fn session(desk: &Desk, seed: u64, count: u64, seen: &mut Seen) -> Result<(), String> {
    let (mut log, mut random) = (SentLog::new(seed), Random::new(seed ^ 1));
    let mut compaction = Duration::from_millis(10);
    let (mut killed, mut tries) = (0, 0);
    while killed < count {
        tries += 1;
        if tries > TRIES_MAX * count {
            return Err(format!("{tries} tries gave {killed} kills only: the child ends too soon"));
        }
        let in_compaction = killed % 3 == 2 && desk.path("db").exists();
        let was_killed = match in_compaction {
            true => kill_compaction(desk, &mut random, &mut compaction)?,
            false => kill_load(desk, &mut random, &mut log)?,
        };
        if was_killed && in_compaction {
            seen.leftovers += u64::from(desk.path("db.rereduce.compact").exists());
        }
        let kind = if in_compaction { "compaction" } else { "load" };
        let judged = desk.judge("db", &mut log);
        seen.doubtful +=
            judged.map_err(|found| format!("after a kill in a {kind}: {found}"))? as u64;
        seen.documents += log.sure_documents() as u64;
        if was_killed {
            killed += 1;
            *(if in_compaction { &mut seen.in_compaction } else { &mut seen.in_load }) += 1;
        }
    }
    // What was killed so often still works.
    desk.run(desk.program("compact db"))?.done()?;
    let load = &mut desk.program(&load_words(3));
    desk.feed(load, &mut log, (3, 5), |_, _| ())?.done()?;
    desk.judge("db", &mut log).map(drop)
}

fn load_words(size: usize) -> String {
    format!("load db - --format ndjson --batch {size} --acknowledge --json")
}

/// Kills a load a moment after some acknowledgement; `false` if it was through already.
fn kill_load(desk: &Desk, random: &mut Random, log: &mut SentLog) -> Result<bool, String> {
    let size = SIZES[random.below(SIZES.len() as u64) as usize];
    let after = random.below(ACKNOWLEDGED_MAX) as usize;
    let moment = Duration::from_micros(random.below(3000));
    let ran = desk.feed(
        &mut desk.program(&load_words(size)),
        log,
        (size, BATCHES_MAX),
        |count, child| {
            if count == after {
                std::thread::sleep(moment);
                // One that is dead already cannot be killed, which its status will show.
                let _ = child.kill();
            }
        },
    )?;
    match (ran.status.signal(), ran.status.success()) {
        (Some(SIGKILL), _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(format!("a load failed: {ran}")),
    }
}

/// Kills a compaction somewhere in the time that one takes; `false` if it was through already.
fn kill_compaction(desk: &Desk, random: &mut Random, takes: &mut Duration) -> Result<bool, String> {
    let began = Instant::now();
    let mut child = desk.start(&mut desk.program("compact db"))?;
    let longest = takes.as_micros() as u64 + 1;
    std::thread::sleep(Duration::from_micros(random.below(longest)));
    // As above: the status shows whether it came too late.
    let _ = child.kill();
    let output = child.wait_with_output().map_err(|error| format!("cannot wait: {error}"))?;
    if output.status.signal() == Some(SIGKILL) {
        return Ok(true);
    }
    *takes = began.elapsed().max(Duration::from_millis(2));
    match output.status.success() {
        true => Ok(false),
        false => Err(format!("a compaction failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The program: as given, or the one beside this one, built anew where cargo runs us, so that it is
/// made of the same source.
fn find_program(context: &Context) -> Result<PathBuf, String> {
    if let Some(program) = context.argument("program") {
        return Ok(PathBuf::from(program));
    }
    let own = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let directory = own.parent().unwrap_or(Path::new("."));
    let program = directory.join("rereduce");
    let hint = "run `cargo build --release --bin rereduce`, or give --program PATH";
    if let Some(cargo) = std::env::var_os("CARGO") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut build = Command::new(cargo);
        build.args(["build", "--release", "--quiet", "--bin", "rereduce", "--manifest-path"]);
        build.arg(root.join("Cargo.toml"));
        if let Some(target) = directory.parent() {
            build.arg("--target-dir").arg(target);
        }
        let built = build.status().map_err(|error| format!("cannot run cargo: {error}; {hint}"))?;
        if !built.success() {
            return Err(format!("the program could not be built; {hint}"));
        }
    }
    match program.exists() {
        true => Ok(program),
        false => Err(format!("there is no program at {}; {hint}", program.display())),
    }
}
