//! `rot`: one file with everything in it, and every way in which a medium may damage it.
//!
//! ```text
//! script ──► file, unsealed and sealed ──► every bit flipped, every block and sector zeroed,
//!                                          swapped, misdirected, stale; every lie
//!                each image: open, ask everything, check ──► right | error with its place | wrong
//! ```
//!
//! A sealed file must answer as the model does or name the damage. An unsealed one may also be at
//! the commit before its last, which nothing witnesses, if its recovery report says so. `check` must
//! speak of all damage under the current root. A lie may be believed by readers where its checksums
//! are right and only its neighbours know better; then `check` must notice.
//!
//! The unit of `passed` is a distinct damaged image.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rereduce::env::Env;
use rereduce::file::BLOCK_BYTES;
use rereduce::{Error, mark};
use xxhash_rust::xxh3::Xxh3;

use super::{Context, Progress, scripts};
use crate::damage::{AgedFile, Damage, Unit};
use crate::disk::{SECTOR_BYTES, SimDisk};
use crate::figures::Figures;
use crate::forge::{field, footers, newest_footer, number_at};
use crate::lies::{self, LIES};
use crate::oracle::{DATABASE, environment, guarded};
use crate::plan::Plan;
use crate::random::{Random, SeededEntropy, StillClock};
use crate::reading::{Answer, Question, Reading, Rotting};
use crate::rotten::RottenDisk;
use crate::target::{Target, Workload};
use crate::targets::{DatabaseTarget, KvTarget, StoreOpener};

const FLOOR: u64 = 10_000;

/// Threads that share the images.
const THREADS: usize = 2;

/// An image must be read within this time.
const SLOWEST: Duration = Duration::from_secs(1);

/// Bytes that one read may ask for beyond the file's size: one block, which holds the header.
const READ_SLACK: u64 = BLOCK_BYTES;

/// Bytes that all reads of one image may ask for, in files.
const READ_FILES: u64 = 200;

/// Failures that are printed for each form.
const SHOWN: usize = 8;

/// Which images are made.
#[derive(Clone, Copy)]
struct Extent {
    /// One bit of so many.
    bits: u64,
    /// Pairs of units drawn for swaps, and as many for misdirected writes; all if `None`.
    pairs: Option<u64>,
}

const FULL: Extent = Extent { bits: 1, pairs: None };
const QUICK: Extent = Extent { bits: 64, pairs: Some(400) };
const SMALL: Extent = Extent { bits: 128, pairs: Some(40) };

/// Small enough for a check that many bugs are tried on, and something of everything.
const SMALL_SCRIPT: &str = "with fan-out=3 chunk=64 cache=0; \
    edit a@new=1 b@new=2 c@new=3 d@new=4 e@new=5; merge a@winner+a~1=2 a@winner+b~1=3; \
    attach b@winner n image/png 1 150; attach c@winner t text/plain 2 900; local l=1; \
    purge d@winner; compact; edit b@winner=7 e@winner=-; edit f@new=8";

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let workload = workload_of(context)?;
    let extent = if context.quick { QUICK } else { FULL };
    explore(context, &workload, extent)
}

/// The small form, as a check for planted bugs.
pub(super) fn check(context: &Context) -> Result<(), String> {
    let context = Context { loud: false, arguments: Vec::new(), ..context.clone() };
    let figures = explore(&context, &Workload::parse("small", SMALL_SCRIPT)?, SMALL)?;
    if figures.failed == 0 { Ok(()) } else { Err(figures.to_string()) }
}

/// One image again, from the command that it was printed with.
pub(super) fn replay(context: &Context, damage: &str) -> Result<Figures, String> {
    let workload = workload_of(context)?;
    let sealed = match context.argument("form") {
        Some("sealed") => true,
        Some("unsealed") | None => false,
        Some(form) => return Err(format!("--form {form}: expected sealed or unsealed")),
    };
    let patient = Patient::grow(context, &workload, sealed)?;
    let mut figures = Figures::new("replay", 1);
    figures.count("image", 1);
    let plan: Plan = damage.parse()?;
    let damages: Vec<Damage> = plan.damages().collect();
    if damages.len() != plan.items().count() {
        return Err(format!("{damage:?}: only {} rot", Damage::WORDS.join(", ")));
    }
    let outcome = patient.judge(&damages)?.ok_or("nothing in the file is damaged then")?;
    match &outcome.failure {
        Some(failure) => {
            context.say(failure);
            figures.failed = 1;
        }
        None => {
            context.say(outcome.describe());
            figures.passed = 1;
        }
    }
    Ok(figures)
}

/// The script that was given, or that of the directory.
fn workload_of(context: &Context) -> Result<Workload, String> {
    let mut workload = match context.argument("script") {
        Some(script) => Workload::parse("script", script)?,
        None => scripts(context, "rot")?.into_iter().next().ok_or("there is no script to rot")?,
    };
    for (name, value) in &context.arguments {
        if let ("set", Some((key, value))) = (name.as_str(), value.split_once('=')) {
            workload.settings.push((key.to_owned(), value.to_owned()));
        }
    }
    Ok(workload)
}

fn explore(context: &Context, workload: &Workload, extent: Extent) -> Result<Figures, String> {
    let mut figures = Figures::new("rot", FLOOR);
    let progress = Progress::new(context);
    let mut tally = Tally::default();
    for sealed in [false, true] {
        let form = if sealed { "sealed" } else { "unsealed" };
        let patient = Patient::grow(context, workload, sealed)?;
        let damages = patient.damages(context.seed, extent);
        let found = patient.all(context, &damages, &|done| {
            progress.show(format_args!("{done} of {} images, {form}", damages.len()));
        });
        figures.count(format!("bytes {form}"), patient.file.bytes.len() as u64);
        tally.add(found);
    }
    drop(progress);
    for kind in Damage::WORDS {
        let hits = tally.kinds.get(kind).copied().unwrap_or(0);
        figures.count(kind, hits);
        if hits == 0 && !context.stopped() {
            context.say(format_args!("no image of kind {kind}"));
            tally.failed += 1;
        }
    }
    for (what, count) in [
        ("duplicates", tally.duplicates),
        ("answered in full", tally.whole),
        ("with answers refused", tally.partial),
        ("refused on opening", tally.refused),
        ("at the commit before", tally.fell_back),
        ("reachable", tally.reachable),
        ("reported", tally.reported),
        ("in garbage", tally.garbage),
        ("lies that readers notice", tally.noticed.len() as u64),
        ("that only check does", tally.only_check.len() as u64),
        ("ms for the slowest", tally.slowest.as_millis() as u64),
    ] {
        figures.count(what, count);
    }
    for (by, names) in [("readers", &tally.noticed), ("only check", &tally.only_check)] {
        for (name, what) in names {
            context.say(format_args!("lie\t{name}\t{by}\t{what}"));
        }
    }
    (figures.passed, figures.failed) = (tally.passed, tally.failed);
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// A file that will be damaged, and what must be read of it.
struct Patient {
    engine: Box<dyn Rotting>,
    file: AgedFile,
    sealed: bool,
    newest: Expected,
    parent: Option<Expected>,
    /// Of each byte, whether it lies under the current root.
    reachable: Vec<bool>,
    /// Where a structure begins that an error may name, and the bytes it is about.
    structures: BTreeMap<u64, Range<u64>>,
    replay: String,
}

/// A commit, and the right answer to every question about it.
struct Expected {
    number: u64,
    answers: Vec<(Question, Answer)>,
}

/// What became of one image.
#[derive(Default)]
struct Outcome {
    reachable: bool,
    reported: bool,
    /// How opening ended, if not with an answer from the newest commit.
    refused: Option<String>,
    fell_back: bool,
    /// What could not be answered.
    errors: Vec<(&'static str, String)>,
    /// Answers that a lie made wrong.
    misled: Vec<&'static str>,
    check: Vec<String>,
    took: Duration,
    failure: Option<String>,
}

/// Sums of outcomes.
#[derive(Default)]
struct Tally {
    kinds: BTreeMap<&'static str, u64>,
    passed: u64,
    failed: u64,
    duplicates: u64,
    whole: u64,
    partial: u64,
    refused: u64,
    fell_back: u64,
    reachable: u64,
    reported: u64,
    garbage: u64,
    slowest: Duration,
    /// Lies by name, and what was noticed.
    noticed: BTreeMap<String, String>,
    only_check: BTreeMap<String, String>,
}

impl Patient {
    /// Runs the script, compares with the model after each operation, and takes down what must be
    /// read of the outcome.
    fn grow(context: &Context, workload: &Workload, sealed: bool) -> Result<Patient, String> {
        let seed = context.seed;
        let (engine, file): (Box<dyn Rotting>, AgedFile) =
            match context.argument("target").unwrap_or("db") {
                "db" => {
                    let (target, ops) = workload.prepare(&DatabaseTarget::default())?;
                    let file = grow(&target, &ops, seed, sealed)?;
                    (Box::new(target.0), file)
                }
                "store" => {
                    let (target, ops) = workload.prepare(&KvTarget(StoreOpener::default()))?;
                    let file = grow(&target, &ops, seed, sealed)?;
                    (Box::new(target.0), file)
                }
                name => return Err(format!("unknown target {name:?}; there are db, store")),
            };
        let settings = workload.settings.iter().map(|(key, value)| format!(" --set {key}={value}"));
        let replay = format!(
            "cargo oracle replay --target {} --form {} --seed {seed}{} --script '{}'",
            engine.engine(),
            if sealed { "sealed" } else { "unsealed" },
            settings.collect::<String>(),
            workload.lines.join("; "),
        );
        let newest = read_sound(&*engine, &file.bytes)?;
        let parent = newest.0.number.checked_sub(1).filter(|number| *number > 0 && !sealed);
        let parent = parent.map(|number| read_sound(&*engine, file.before(number))).transpose()?;
        let mut reachable = vec![false; file.bytes.len()];
        let mut structures = footer_structures(&file.bytes);
        structures.insert(0, 0..BLOCK_BYTES);
        let of_parent = parent.iter().flat_map(|(_, chunks)| chunks);
        for chunk in newest.1.iter().chain(of_parent) {
            structures.insert(chunk.start, chunk.clone());
        }
        for range in newest.1.iter().cloned().chain(twins(&file.bytes)) {
            reachable[range.start as usize..range.end as usize].fill(true);
        }
        let (newest, parent) = (newest.0, parent.map(|(parent, _)| parent));
        Ok(Patient { engine, file, sealed, newest, parent, reachable, structures, replay })
    }

    /// Every damage of `extent`, lies first.
    fn damages(&self, seed: u64, extent: Extent) -> Vec<Damage> {
        let bytes = self.file.bytes.len() as u64;
        let mut random = Random::new(seed);
        let mut damages = Vec::new();
        if self.engine.engine() == "db" {
            let told =
                LIES.iter().filter(|lie| lie.needs_seal.is_none_or(|seal| seal == self.sealed));
            damages.extend(told.map(|lie| Damage::Lie(lie.name)));
        }
        let commits: Vec<u64> = self.file.history.iter().map(|(number, _)| *number).collect();
        for (unit, size) in
            [(Unit::Block as fn(u64) -> Unit, BLOCK_BYTES), (Unit::Sector, SECTOR_BYTES)]
        {
            let count = bytes / size;
            damages.extend((0..count).map(|number| Damage::Zero(unit(number))));
            for commit in &commits {
                let stale = |number| Damage::Stale { unit: unit(number), commit: *commit };
                damages.extend((0..count).map(stale));
            }
            let pairs: Vec<(u64, u64)> = match extent.pairs {
                None => (0..count).flat_map(|one| (0..count).map(move |two| (one, two))).collect(),
                Some(pairs) => {
                    (0..pairs).map(|_| (random.below(count), random.below(count))).collect()
                }
            };
            for (one, two) in pairs.into_iter().filter(|(one, two)| one != two) {
                damages.push(Damage::Swap(unit(one.min(two)), unit(one.max(two))));
                damages.push(Damage::Misdirect { from: unit(one), to: unit(two) });
            }
        }
        for group in 0..bytes * 8 / extent.bits {
            let bit = group * extent.bits + random.below(extent.bits);
            damages.push(Damage::Flip { offset: bit / 8, bit: (bit % 8) as u8 });
        }
        damages
    }

    /// Judges all images, on several threads.
    fn all(&self, context: &Context, damages: &[Damage], progress: &dyn Fn(usize)) -> Tally {
        let (next, seen) = (AtomicUsize::new(0), Mutex::default());
        let sum = Mutex::new(Tally::default());
        let (planted, shown) = (mark::planted_here(), AtomicUsize::new(0));
        let work = |progress: &dyn Fn(usize)| {
            mark::plant(planted);
            let mut tally = Tally::default();
            while !context.stopped() {
                let from = next.fetch_add(256, Ordering::Relaxed);
                let Some(some) = damages.get(from..damages.len().min(from + 256)) else { break };
                progress(from);
                for damage in some.iter() {
                    self.one(context, damage, &seen, &shown, &mut tally);
                }
            }
            locked(&sum).add(tally);
        };
        std::thread::scope(|scope| {
            (1..THREADS).for_each(|_| drop(scope.spawn(|| work(&|_| {}))));
            work(progress);
        });
        sum.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn one(
        &self,
        context: &Context,
        damage: &Damage,
        seen: &Mutex<HashSet<u64>>,
        shown: &AtomicUsize,
        tally: &mut Tally,
    ) {
        let is_flip = matches!(damage, Damage::Flip { .. });
        let is_new = |hurt: &Hurt| is_flip || (!hurt.is_one_bit && locked(seen).insert(hurt.hash));
        let outcome = match self.judge_if(std::slice::from_ref(damage), is_new) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                tally.duplicates += 1;
                return;
            }
            Err(failure) => Outcome { failure: Some(failure), ..Outcome::default() },
        };
        if let Some(failure) = &outcome.failure
            && shown.fetch_add(1, Ordering::Relaxed) < SHOWN
        {
            context.say(format_args!("{damage}: {failure}\n{} --damage '{damage}'", self.replay));
        }
        tally.count(damage, outcome);
    }

    /// Reads everything from the image with all this damage; `None` if it is the file as it was.
    fn judge(&self, damages: &[Damage]) -> Result<Option<Outcome>, String> {
        self.judge_if(damages, |_| true)
    }

    // spec: ROT-2, ROT-3, ROT-4, ROT-5, ROT-6
    fn judge_if(
        &self,
        damages: &[Damage],
        is_wanted: impl FnOnce(&Hurt) -> bool,
    ) -> Result<Option<Outcome>, String> {
        let patches: Result<Vec<_>, String> =
            guarded(|| damages.iter().map(|damage| damage.patches(&self.file)).collect());
        let patches: Vec<(u64, Vec<u8>)> = patches?.into_iter().flatten().collect();
        let hurt = Hurt::new(&self.file.bytes, &patches);
        if hurt.ranges.is_empty() || !is_wanted(&hurt) {
            return Ok(None);
        }
        let disk = RottenDisk::new(DATABASE, self.file.bytes.clone(), patches);
        let env = Env {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(StillClock),
            entropy: Arc::new(SeededEntropy::new(0)),
        };
        let is_lie = damages.iter().any(|damage| matches!(damage, Damage::Lie(_)));
        let mut outcome = Outcome::default();
        outcome.reachable = is_lie
            || hurt.ranges.iter().any(|range| {
                let reachable = &self.reachable[range.start as usize..range.end as usize];
                reachable.contains(&true)
            });
        let began = Instant::now();
        let place = Judged { patient: self, hurt: &hurt, size: disk.size(), is_lie };
        let read = guarded(|| place.read(&env, &mut outcome));
        outcome.took = began.elapsed();
        let reads = disk.reads();
        let largest = reads.largest.load(Ordering::Relaxed);
        let bytes = reads.bytes.load(Ordering::Relaxed);
        outcome.failure = match read {
            Err(failure) => Some(failure),
            Ok(()) if outcome.took > SLOWEST => Some(format!("took {:?}", outcome.took)),
            Ok(()) if largest > disk.size() + READ_SLACK || bytes > READ_FILES * disk.size() => {
                Some(format!("read {bytes} bytes, {largest} at once"))
            }
            Ok(()) if reads.changes.load(Ordering::Relaxed) > 0 => {
                Some("reading changed something".to_owned())
            }
            Ok(()) if must_show(damages) && !outcome.shows() => {
                Some("readers do not notice a lie that they can see".to_owned())
            }
            Ok(()) if outcome.reachable && !outcome.reported => {
                Some("nothing reports damage under the current root".to_owned())
            }
            Ok(()) => None,
        };
        Ok(Some(outcome))
    }
}

/// Whether readers must notice damage by themselves.
fn must_show(damages: &[Damage]) -> bool {
    damages.iter().any(|damage| match damage {
        Damage::Lie(name) => lies::find(name).is_ok_and(|lie| lie.shows),
        _ => false,
    })
}

/// One image under judgement.
struct Judged<'a> {
    patient: &'a Patient,
    hurt: &'a Hurt,
    size: u64,
    is_lie: bool,
}

impl Judged<'_> {
    /// Opens, asks everything, checks. An error is a failure.
    fn read(&self, env: &Env, outcome: &mut Outcome) -> Result<(), String> {
        let reading = match self.patient.engine.open(env) {
            Ok(reading) => reading,
            Err(error) => {
                outcome.refused = Some(self.placed("open", error)?);
                outcome.reported = true;
                return Ok(());
            }
        };
        let expected = self.expected(&*reading, outcome)?;
        for (question, right) in &expected.answers {
            match reading.ask(question) {
                Ok(answer) if answer == *right => {}
                Ok(_) if self.is_lie => outcome.misled.push(question.topic()),
                Ok(answer) => {
                    return Err(format!("{question:?}: expected {right:?}, found {answer:?}"));
                }
                Err(error) => {
                    let shown = self.placed(&format!("{question:?}"), error)?;
                    outcome.errors.push((question.topic(), shown));
                }
            }
        }
        match reading.check() {
            Ok(checked) => {
                outcome.check = checked.wrong;
                outcome.check.extend(checked.lost.iter().map(|lost| lost.to_string()));
            }
            Err(error) => outcome.check = vec![self.placed("check", error)?],
        }
        outcome.reported |= !outcome.check.is_empty();
        let hidden = outcome.check.is_empty() && !outcome.fell_back;
        if hidden && !(outcome.errors.is_empty() && outcome.misled.is_empty()) {
            return Err(format!("check is silent where readers are not: {:?}", outcome.errors));
        }
        Ok(())
    }

    /// What the commit that was opened must answer.
    fn expected<'a>(
        &'a self,
        reading: &dyn Reading,
        outcome: &mut Outcome,
    ) -> Result<&'a Expected, String> {
        let (patient, number, report) = (self.patient, reading.number(), reading.recovery());
        let newest = &patient.newest;
        if self.is_lie && number > newest.number {
            return Ok(newest);
        }
        let skipped = !report.skipped.is_empty() || report.tail_bytes > 0;
        if self.is_lie && number == newest.number && skipped {
            (outcome.fell_back, outcome.reported) = (true, true);
            return Ok(newest);
        }
        if number == newest.number && !self.is_lie {
            return Ok(newest);
        }
        match &patient.parent {
            Some(parent) if parent.number == number && skipped => {
                // The report must name the damage: a footer whose bytes are hurt.
                let named = report.skipped.iter().any(|skipped| self.is_about(skipped.offset));
                if !named {
                    return Err(format!("the report names something else: {report:?}"));
                }
                (outcome.fell_back, outcome.reported) = (true, true);
                Ok(parent)
            }
            _ => Err(format!("opened commit {number} instead of {}: {report:?}", newest.number)),
        }
    }

    /// The error in words, if it says which file is damaged, and where.
    fn placed(&self, when: &str, error: Error) -> Result<String, String> {
        let header = 0..BLOCK_BYTES;
        match &error {
            Error::Corrupt(damage) if damage.file == Path::new(DATABASE) => {
                let inside = damage.offset > 0 && damage.offset < self.size;
                let is_right = if self.is_lie { inside } else { self.is_about(damage.offset) };
                if is_right {
                    return Ok(error.to_string());
                }
                Err(format!("{when}: {error}, and the damage is elsewhere: {:?}", self.hurt.ranges))
            }
            // Of a file that does not begin like ours nobody can say that it once did.
            Error::NotADatabase { .. } if self.hurt.touches(&header) => Ok(error.to_string()),
            _ => Err(format!("{when}: {error}, which is no report of damage")),
        }
    }

    /// Whether the structure at `offset` is hurt.
    fn is_about(&self, offset: u64) -> bool {
        let block = offset..offset / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES;
        let known = self.patient.structures.get(&offset);
        self.hurt.touches(known.unwrap_or(&block))
    }
}

/// Which bytes of a file came out otherwise.
struct Hurt {
    ranges: Vec<Range<u64>>,
    hash: u64,
    is_one_bit: bool,
}

impl Hurt {
    fn new(bytes: &[u8], patches: &[(u64, Vec<u8>)]) -> Hurt {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let (mut hash, mut bits) = (Xxh3::new(), 0);
        for (start, patch) in patches {
            let before = bytes.get(*start as usize..).unwrap_or_default();
            for (index, byte) in patch.iter().enumerate() {
                let old = before.get(index);
                if old == Some(byte) {
                    continue;
                }
                let at = start + index as u64;
                hash.update(&at.to_le_bytes());
                hash.update(&[*byte]);
                bits += old.map_or(8, |old| (old ^ byte).count_ones());
                match ranges.last_mut() {
                    Some(range) if range.end == at => range.end += 1,
                    _ => ranges.push(at..at + 1),
                }
            }
        }
        Hurt { ranges, hash: hash.digest(), is_one_bit: bits == 1 }
    }

    fn touches(&self, range: &Range<u64>) -> bool {
        self.ranges.iter().any(|hurt| hurt.start < range.end && range.start < hurt.end)
    }
}

impl Outcome {
    /// Whether a reader notices.
    fn shows(&self) -> bool {
        self.refused.is_some() || self.fell_back || !self.errors.is_empty()
    }

    /// What happened, for a replay that found nothing wrong.
    fn describe(&self) -> String {
        let mut lines = Vec::new();
        lines.extend(self.refused.iter().map(|error| format!("open: {error}")));
        if self.fell_back {
            lines.push("opened at the commit before, and the report says so".to_owned());
        }
        lines.extend(self.errors.iter().map(|(topic, error)| format!("{topic}: {error}")));
        lines.extend(self.misled.iter().map(|topic| format!("{topic}: not what it should be")));
        lines.extend(self.check.iter().map(|found| format!("check: {found}")));
        if lines.is_empty() {
            lines.push("answered in full; the damage is in garbage or padding".to_owned());
        }
        lines.dedup();
        lines.join("\n")
    }
}

impl Tally {
    fn count(&mut self, damage: &Damage, outcome: Outcome) {
        match outcome.failure {
            Some(_) => self.failed += 1,
            None => self.passed += 1,
        }
        *self.kinds.entry(damage.word()).or_default() += 1;
        self.slowest = self.slowest.max(outcome.took);
        self.refused += u64::from(outcome.refused.is_some());
        self.fell_back += u64::from(outcome.fell_back);
        let complete = outcome.errors.is_empty() && outcome.refused.is_none();
        self.whole += u64::from(complete);
        self.partial += u64::from(!outcome.errors.is_empty());
        self.reachable += u64::from(outcome.reachable);
        self.reported += u64::from(outcome.reachable && outcome.reported);
        self.garbage += u64::from(!outcome.reachable);
        if let Damage::Lie(name) = damage {
            let mut by: Vec<&str> = outcome.errors.iter().map(|(topic, _)| *topic).collect();
            by.dedup();
            let noticed = match (&outcome.refused, outcome.fell_back) {
                (Some(_), _) => Some("opening".to_owned()),
                (None, true) => Some("recovery".to_owned()),
                (None, false) => (!by.is_empty()).then(|| by.join(", ")),
            };
            match noticed {
                Some(by) => self.noticed.insert((*name).to_owned(), by),
                None => {
                    let mut misled = outcome.misled;
                    misled.dedup();
                    let misled = match misled.is_empty() {
                        true => "answers are right".to_owned(),
                        false => format!("misleads {}", misled.join(", ")),
                    };
                    self.only_check.insert((*name).to_owned(), misled)
                }
            };
        }
    }

    fn add(&mut self, other: Tally) {
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        for (sum, more) in [
            (&mut self.passed, other.passed),
            (&mut self.failed, other.failed),
            (&mut self.duplicates, other.duplicates),
            (&mut self.whole, other.whole),
            (&mut self.partial, other.partial),
            (&mut self.refused, other.refused),
            (&mut self.fell_back, other.fell_back),
            (&mut self.reachable, other.reachable),
            (&mut self.reported, other.reported),
            (&mut self.garbage, other.garbage),
        ] {
            *sum += more;
        }
        self.slowest = self.slowest.max(other.slowest);
        self.noticed.extend(other.noticed);
        self.only_check.extend(other.only_check);
    }
}

/// Runs `ops`, comparing with the model after each, and keeps what the file held on the way.
fn grow<T: Target>(target: &T, ops: &[T::Op], seed: u64, sealed: bool) -> Result<AgedFile, String> {
    let disk = SimDisk::new();
    let env = environment(&disk, seed);
    let path = Path::new(DATABASE);
    let failed = |error: Error| error.to_string();
    let bytes = || disk.bytes(path).map(Arc::<[u8]>::from).ok_or("there is no file".to_owned());
    let mut handle = target.open(&env, path).map_err(failed)?;
    let mut history = vec![(0, bytes()?)];
    let mut state = target.empty();
    let closing = "reopen".parse::<T::Op>().ok().filter(|_| sealed);
    for op in ops.iter().chain(&closing) {
        target.apply(&mut handle, op).map_err(failed)?;
        state = target.expect(&state, op);
        if target.state(&handle).map_err(failed)? != state {
            return Err(format!("after {op} the sound file is not what the model says"));
        }
        target.check(&handle)?;
        let now = bytes()?;
        let number = newest_footer(&now).map_or(0, |copy| number_at(&copy, field::NUMBER));
        history.push((number, now));
    }
    Ok(AgedFile { bytes: bytes()?, history })
}

/// Every answer of a sound file, and the chunks that they come from.
fn read_sound(engine: &dyn Rotting, bytes: &[u8]) -> Result<(Expected, Vec<Range<u64>>), String> {
    let disk = RottenDisk::new(DATABASE, bytes.into(), Vec::new());
    let env = Env {
        disk: Arc::new(disk),
        clock: Arc::new(StillClock),
        entropy: Arc::new(SeededEntropy::new(0)),
    };
    guarded(|| {
        let read = || {
            let reading = engine.open(&env)?;
            let checked = reading.check()?;
            let asked = reading.questions()?.into_iter().map(|question| {
                let answer = reading.ask(&question)?;
                Ok((question, answer))
            });
            let answers = asked.collect::<Result<Vec<_>, Error>>()?;
            Ok((Expected { number: reading.number(), answers }, reading.chunks()?, checked))
        };
        let (expected, chunks, checked) = read().map_err(|error: Error| error.to_string())?;
        match checked.wrong.is_empty() && checked.lost.is_empty() {
            true => Ok((expected, chunks)),
            false => Err(format!("check complains about a sound file: {checked:?}")),
        }
    })
}

/// Both copies of the header and of the newest commit's footers, its seal among them.
fn twins(bytes: &[u8]) -> Vec<Range<u64>> {
    const HEADER_COPY_BYTES: u64 = 64;
    let mut twins = vec![0..HEADER_COPY_BYTES, 1024..1024 + HEADER_COPY_BYTES];
    if let Some(newest) = newest_footer(bytes) {
        for at in [field::OFFSET, field::COMMIT_OFFSET].map(|at| number_at(&newest, at)) {
            twins.push(at..at + 2 * BLOCK_BYTES);
        }
    }
    twins
}

/// The footers of a file by the places of their copies, each with what it covers.
fn footer_structures(bytes: &[u8]) -> BTreeMap<u64, Range<u64>> {
    let mut structures = BTreeMap::new();
    for copy in footers(bytes) {
        let (at, from) = (number_at(&copy, field::OFFSET), number_at(&copy, field::COVER_FROM));
        structures.insert(at, from..at + 2 * BLOCK_BYTES);
        structures.insert(at + BLOCK_BYTES, from..at + 2 * BLOCK_BYTES);
    }
    structures
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic under these locks is a bug of the campaign; sums stay sums.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
