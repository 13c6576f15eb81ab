//! The file that will be damaged: how it is made, what must be read of it, what can happen to it.
//!
//! Invariant: what must be read was read of the sound file, which was compared with the model after
//! every operation.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rereduce::Error;
use rereduce::env::Env;
use rereduce::file::BLOCK_BYTES;

use super::judge::{Hurt, Judged, Outcome, must_show};
use super::{Extent, Tally, locked};
use crate::campaign::{Context, side_by_side};
use crate::damage::{AgedFile, Damage, Unit};
use crate::disk::{SECTOR_BYTES, SimDisk};
use crate::forge::{field, footers, newest_footer, number_at};
use crate::lies::LIES;
use crate::oracle::{DATABASE, environment, guarded};
use crate::random::{Random, SeededEntropy, StillClock};
use crate::reading::{Answer, Question, Rotting};
use crate::rotten::RottenDisk;
use crate::target::{Target, Workload};
use crate::targets::{DatabaseTarget, KvTarget, StoreOpener};

/// Images that a thread takes at a time.
const PORTION: usize = 256;

/// An image must be read within this time, in one of so many tries.
const SLOWEST: Duration = Duration::from_secs(1);
const TRIES: usize = 3;

/// Bytes that one read may ask for beyond the file's size: one block, which holds the header.
const READ_SLACK: u64 = BLOCK_BYTES;

/// Bytes that all reads of one image may ask for, in files.
const READ_FILES: u64 = 200;

/// Failures that are printed for each form.
const SHOWN: usize = 8;

/// A file that will be damaged, and what must be read of it.
pub(super) struct Patient {
    pub(super) engine: Box<dyn Rotting>,
    pub(super) file: AgedFile,
    pub(super) sealed: bool,
    pub(super) newest: Expected,
    pub(super) parent: Option<Expected>,
    /// Of each byte, whether it lies under the current root.
    reachable: Vec<bool>,
    /// Where a structure begins that an error may name, and the bytes it is about.
    pub(super) structures: BTreeMap<u64, Range<u64>>,
    replay: String,
}

/// A commit, and the right answer to every question about it.
pub(super) struct Expected {
    pub(super) number: u64,
    pub(super) answers: Vec<(Question, Answer)>,
}

impl Patient {
    /// Runs the script, compares with the model after each operation, and takes down what must be
    /// read of the outcome.
    pub(super) fn grow(
        context: &Context,
        workload: &Workload,
        sealed: bool,
    ) -> Result<Patient, String> {
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
    pub(super) fn damages(&self, seed: u64, extent: Extent) -> Vec<Damage> {
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
            // Where bits are drawn, those of the blocks' markers would hardly come up.
            let offset = match group * extent.bits / 8 % BLOCK_BYTES {
                0 => bit / 8 / BLOCK_BYTES * BLOCK_BYTES,
                _ => bit / 8,
            };
            let offset = if extent.bits == 1 { bit / 8 } else { offset };
            damages.push(Damage::Flip { offset, bit: (bit % 8) as u8 });
        }
        damages
    }

    /// Judges all images; `title` says on a terminal which these are.
    pub(super) fn all(
        &self,
        context: &Context,
        damages: &[Damage],
        title: &str,
    ) -> Result<Tally, String> {
        let (seen, failures) = (Mutex::default(), AtomicUsize::new(0));
        let portions: Vec<&[Damage]> = damages.chunks(PORTION).collect();
        let shown = |index: usize, _: &&[Damage]| {
            format!("{} of {} images, {title}", index * PORTION, damages.len())
        };
        let work = |_: usize, portion: &&[Damage], tally: &mut Tally| {
            for damage in portion.iter() {
                self.one(context, damage, &seen, &failures, tally);
            }
            Ok(())
        };
        side_by_side(context, &portions, shown, work, Tally::add)
    }

    fn one(
        &self,
        context: &Context,
        damage: &Damage,
        seen: &Mutex<HashSet<u64>>,
        failures: &AtomicUsize,
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
            && failures.fetch_add(1, Ordering::Relaxed) < SHOWN
        {
            context.say(format_args!("{damage}: {failure}\n{} --damage '{damage}'", self.replay));
        }
        tally.count(damage, outcome);
    }

    /// Reads everything from the image with all this damage; `None` if it is the file as it was.
    pub(super) fn judge(&self, damages: &[Damage]) -> Result<Option<Outcome>, String> {
        self.judge_if(damages, |_| true)
    }

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
        let mut outcome = self.read_image(damages, &hurt, &patches);
        // A busy machine is slow by chance; a file that is slow to read is so every time.
        for _ in 1..TRIES {
            if outcome.took > SLOWEST {
                outcome = self.read_image(damages, &hurt, &patches);
            }
        }
        if outcome.took > SLOWEST {
            outcome.failure = outcome.failure.or(Some(format!("took {:?}", outcome.took)));
        }
        Ok(Some(outcome))
    }

    // spec: ROT-2, ROT-3, ROT-4, ROT-5, ROT-6
    fn read_image(&self, damages: &[Damage], hurt: &Hurt, patches: &[(u64, Vec<u8>)]) -> Outcome {
        let disk = RottenDisk::new(DATABASE, self.file.bytes.clone(), patches.to_vec());
        let env = on(&disk);
        let is_lie = damages.iter().any(|damage| matches!(damage, Damage::Lie(_)));
        let is_reachable = |range: &Range<u64>| {
            self.reachable[range.start as usize..range.end as usize].contains(&true)
        };
        let reachable = is_lie || hurt.ranges.iter().any(is_reachable);
        let mut outcome = Outcome { reachable, ..Outcome::default() };
        let began = Instant::now();
        let judged = Judged { patient: self, hurt, size: disk.size(), is_lie };
        let read = guarded(|| judged.read(&env, &mut outcome));
        outcome.took = began.elapsed();
        let reads = disk.reads();
        let largest = reads.largest.load(Ordering::Relaxed);
        let bytes = reads.bytes.load(Ordering::Relaxed);
        outcome.failure = match read {
            Err(failure) => Some(failure),
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
        outcome
    }
}

/// An environment with `disk`, in which nothing is random and time stands still.
fn on(disk: &RottenDisk) -> Env {
    Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(StillClock),
        entropy: Arc::new(SeededEntropy::new(0)),
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
    let env = on(&RottenDisk::new(DATABASE, bytes.into(), Vec::new()));
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
