//! `footer`: a small file, damaged in every way around its last footers.
//!
//! ```text
//! ... commit 2 | A | B | ... commit 3 | A | B |        and the same once more with a seal behind
//!                                     `-------' every byte x {flip 1, flip 128, make 255}
//!              `---------------------------------' every truncation
//!                                     8 sectors: every mix of new and {zeros, old, noise}
//! ```
//!
//! The unit of `passed` is a damaged image that was opened and answered as it must: the newest
//! commit that has a whole copy of its footer. A lie, that is wrong fields under a right checksum,
//! may also be answered by the commit before or by an error that says where the damage is.

use std::path::Path;

use rereduce::checksum::Cover;
use rereduce::{Error, ErrorClass};

use super::{Context, Progress};
use crate::disk::SimDisk;
use crate::figures::Figures;
use crate::image::Image;
use crate::oracle::{DATABASE, environment, guarded};
use crate::random::Random;
use crate::target::Target;
use crate::targets::{KvOpener, KvState, KvTarget, StoreOpener, rows};

/// Byte damages of the last pair: 4,096 bytes in three ways.
const FLOOR: u64 = 12_288;

const COPY_BYTES: usize = 2048;
const SECTOR_BYTES: usize = 512;
const PAIR_BYTES: usize = 2 * COPY_BYTES;

/// Lies told to a file.
const LIES: usize = 64;

/// A file, and the state after each commit with the offset where its footer pair begins.
struct Sample {
    bytes: Vec<u8>,
    commits: Vec<(usize, KvState)>,
    sealed: bool,
}

/// What the campaign went through and found.
struct Judge<'a> {
    context: &'a Context,
    target: KvTarget<StoreOpener>,
    figures: Figures,
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let target = KvTarget(StoreOpener::default());
    let figures = Figures::new("footer", FLOOR);
    let mut judge = Judge { context, target, figures };
    let progress = Progress::new(context);
    for sealed in [false, true] {
        let sample = judge.sample(sealed)?;
        let kind = if sealed { "sealed" } else { "unsealed" };
        progress.show(format_args!("a file that is {kind}"));
        judge.count(&format!("{kind} byte damages"), |judge| judge.bytes(&sample));
        judge.count(&format!("{kind} truncations"), |judge| judge.truncations(&sample));
        judge.count(&format!("{kind} sector mixes"), |judge| judge.mixes(&sample));
        judge.count(&format!("{kind} lies"), |judge| judge.lies(&sample));
        judge.count(&format!("{kind} data damages"), |judge| judge.data(&sample));
        judge.count(&format!("{kind} witnesses"), |judge| judge.witnesses(&sample));
        judge.count(&format!("{kind} histories"), |judge| judge.histories(&sample));
        // The same work on a file of another id.
        let other = judge.sample_of(sealed, context.seed ^ 1)?;
        judge.count(&format!("{kind} foreign footers"), |judge| judge.foreign(&sample, &other));
    }
    drop(progress);
    judge.figures.interrupted = context.stopped();
    Ok(judge.figures)
}

impl Judge<'_> {
    fn count(&mut self, what: &str, part: impl FnOnce(&mut Self)) {
        let before = self.figures.passed;
        part(self);
        self.figures.count(what, self.figures.passed - before);
    }

    /// Three commits; the footer pair of each ends where the file ended after it.
    fn sample(&self, sealed: bool) -> Result<Sample, String> {
        self.sample_of(sealed, self.context.seed)
    }

    /// The same with the file id that comes of `seed`.
    fn sample_of(&self, sealed: bool, seed: u64) -> Result<Sample, String> {
        let disk = SimDisk::new();
        let env = environment(&disk, seed);
        let failed = |error: Error| error.to_string();
        let path = Path::new(DATABASE);
        let mut handle = self.target.open(&env, path).map_err(failed)?;
        let (mut state, mut commits) = (self.target.empty(), Vec::new());
        let bytes = || disk.bytes(path).ok_or("the database has no file".to_owned());
        for script in ["commit a=1 b=k*600", "commit c=2", "commit a=3 d=4 b=-"] {
            let op = script.parse().map_err(failed)?;
            self.target.apply(&mut handle, &op).map_err(failed)?;
            state = self.target.expect(&state, &op);
            commits.push((bytes()?.len() - PAIR_BYTES, state.clone()));
        }
        if sealed {
            let close = "reopen".parse().map_err(failed)?;
            self.target.apply(&mut handle, &close).map_err(failed)?;
            // A seal is one more pair, for the same state.
            commits.push((bytes()?.len() - PAIR_BYTES, state));
        }
        Ok(Sample { bytes: bytes()?, commits, sealed })
    }

    /// Opens a file of these bytes and reads everything.
    fn look(&self, bytes: &[u8]) -> Result<Result<KvState, Error>, String> {
        let disk = SimDisk::open_image(&Image::of_files([(DATABASE, bytes)]));
        guarded(|| {
            let env = environment(&disk, self.context.seed);
            let handle = self.target.open(&env, Path::new(DATABASE));
            Ok(handle.and_then(|handle| self.target.state(&handle)))
        })
    }

    /// Counts what was found: one of `allowed`, or damage that was reported.
    fn expect_or_damage(&mut self, what: &str, bytes: &[u8], allowed: &[&KvState]) {
        let found = match self.look(bytes) {
            Ok(Ok(state)) if allowed.contains(&&state) => None,
            Ok(Ok(state)) => Some(format!("{state:?}")),
            Ok(Err(error)) if error.class() == ErrorClass::Corrupt => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(panic),
        };
        match found {
            None => self.figures.passed += 1,
            Some(found) => {
                self.figures.failed += 1;
                self.context.say(format_args!("{what}: found {found}"));
            }
        }
    }

    fn expect(&mut self, what: &str, bytes: &[u8], expected: &KvState) {
        let found = match self.look(bytes) {
            Ok(Ok(state)) if state == *expected => {
                self.figures.passed += 1;
                return;
            }
            Ok(Ok(state)) => format!("{state:?}"),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic,
        };
        self.figures.failed += 1;
        self.context.say(format_args!("{what}: expected {expected:?}, found {found}"));
    }

    // spec: FOOTER-1, FOOTER-2
    fn bytes(&mut self, sample: &Sample) {
        let Some((_, newest)) = sample.commits.last() else { return };
        for offset in sample.bytes.len() - PAIR_BYTES..sample.bytes.len() {
            if self.context.stopped() {
                return;
            }
            for (how, damage) in DAMAGES {
                let mut bytes = sample.bytes.clone();
                bytes[offset] = damage(bytes[offset]);
                self.expect(&format!("byte {offset}, {how}"), &bytes, newest);
                if offset % 64 == 0 {
                    self.works_on(&format!("byte {offset}, {how}, then a commit"), &bytes);
                }
            }
        }
    }

    /// The next commit leaves a fresh pair of whole copies and touches nothing before.
    fn works_on(&mut self, what: &str, bytes: &[u8]) {
        let disk = SimDisk::open_image(&Image::of_files([(DATABASE, bytes)]));
        let worked = guarded(|| {
            let failed = |error: Error| error.to_string();
            let env = environment(&disk, self.context.seed);
            let mut handle = self.target.open(&env, Path::new(DATABASE)).map_err(failed)?;
            let op = "commit z=9".parse().map_err(failed)?;
            self.target.apply(&mut handle, &op).map_err(failed)?;
            disk.bytes(Path::new(DATABASE)).ok_or_else(|| "the file is gone".to_owned())
        });
        let wrong = match worked {
            Err(error) => error,
            Ok(after) if !after.starts_with(bytes) => "bytes were overwritten".to_owned(),
            Ok(after) => {
                let (a, b) = after[after.len() - PAIR_BYTES..].split_at(COPY_BYTES);
                if a == b {
                    return;
                }
                "the new copies differ".to_owned()
            }
        };
        self.figures.failed += 1;
        self.context.say(format_args!("{what}: {wrong}"));
    }

    // spec: RECOVER-1
    fn truncations(&mut self, sample: &Sample) {
        let [.., (first, _), _, _] = sample.commits.as_slice() else { return };
        for length in first + PAIR_BYTES..sample.bytes.len() {
            let whole = |(offset, _): &&(usize, KvState)| offset + COPY_BYTES <= length;
            let Some((_, expected)) = sample.commits.iter().rev().find(whole) else { return };
            self.expect(&format!("cut to {length} bytes"), &sample.bytes[..length], expected);
        }
    }

    // spec: FOOTER-2, RECOVER-1
    fn mixes(&mut self, sample: &Sample) {
        let [.., (old, before), (new, newest)] = sample.commits.as_slice() else { return };
        let mut random = Random::new(self.context.seed);
        let noise: Vec<u8> = (0..PAIR_BYTES).map(|_| random.next() as u8).collect();
        let zeros = vec![0; PAIR_BYTES];
        let stale = &sample.bytes[*old..old + PAIR_BYTES];
        for (name, filler) in [("zeros", &zeros[..]), ("old", stale), ("noise", &noise[..])] {
            for kept in 0..1_u32 << (PAIR_BYTES / SECTOR_BYTES) {
                let mut bytes = sample.bytes.clone();
                let pair = &mut bytes[*new..];
                for (index, sector) in pair.chunks_mut(SECTOR_BYTES).enumerate() {
                    if kept & (1 << index) == 0 {
                        sector.copy_from_slice(&filler[index * SECTOR_BYTES..][..SECTOR_BYTES]);
                    }
                }
                let whole = |copy: usize| {
                    let copy = new + copy * COPY_BYTES..new + (copy + 1) * COPY_BYTES;
                    bytes[copy.clone()] == sample.bytes[copy]
                };
                let expected = if whole(0) || whole(1) { newest } else { before };
                self.expect(&format!("sectors {kept:#010b}, rest {name}"), &bytes, expected);
            }
        }
    }

    /// Both copies say the same untruth, and their checksums are right.
    // spec: RECOVER-1, CHUNK-1, CHUNK-2
    fn lies(&mut self, sample: &Sample) {
        let [.., (_, before), (new, newest)] = sample.commits.as_slice() else { return };
        let mut random = Random::new(self.context.seed ^ u64::from(sample.sealed));
        for lie in 0..LIES {
            let (offset, width) = LIED_FIELDS[lie % LIED_FIELDS.len()];
            let mut copy = sample.bytes[*new..new + COPY_BYTES].to_vec();
            let field = &mut copy[offset..offset + width];
            let value = match lie / LIED_FIELDS.len() {
                0 => 0,
                1 => u64::MAX,
                2 => *new as u64,
                _ => random.next(),
            };
            let truth = field.to_vec();
            field.copy_from_slice(&value.to_le_bytes()[..width]);
            if field == truth {
                field[0] ^= 1;
            }
            sign(&mut copy);
            let mut bytes = sample.bytes[..*new].to_vec();
            bytes.extend_from_slice(&copy);
            bytes.extend_from_slice(&copy);
            let what = format!("the field at {offset} says {value}");
            self.expect_or_damage(&what, &bytes, &[newest, before]);
        }
    }

    /// One bit of each byte between the header and the last pair.
    // spec: CHUNK-1, RECOVER-3
    fn data(&mut self, sample: &Sample) {
        let [.., (_, before), (end, newest)] = sample.commits.as_slice() else { return };
        for offset in COPY_BYTES..*end {
            let mut bytes = sample.bytes.clone();
            bytes[offset] ^= 1 << (offset % 8);
            self.expect_or_damage(&format!("data byte {offset}"), &bytes, &[newest, before]);
        }
    }

    /// The last commit's data is damaged, and so are both footers of the commit before, which the
    /// last footers name as flushed: to go back further would lose it in silence.
    // spec: RECOVER-3
    fn witnesses(&mut self, sample: &Sample) {
        let [_, (second, _), (third, _), ..] = sample.commits.as_slice() else { return };
        if sample.sealed {
            return;
        }
        for step in 0..64 {
            let mut bytes = sample.bytes.clone();
            for offset in [second + step, second + COPY_BYTES + step, second + PAIR_BYTES + step] {
                assert!(offset < *third, "the third commit has data behind the second's footers");
                bytes[offset] ^= 1;
            }
            self.expect_or_damage(&format!("witnessed commit lost, byte {step}"), &bytes, &[]);
        }
    }

    /// Each commit opens by its number, whichever copy of its footer is damaged.
    // spec: FOOTER-2, HISTORY-1
    fn histories(&mut self, sample: &Sample) {
        for (index, (offset, state)) in sample.commits.iter().take(3).enumerate() {
            for copy in 0..2 {
                let mut bytes = sample.bytes.clone();
                bytes[offset + copy * COPY_BYTES + 100] ^= 1;
                let disk = SimDisk::open_image(&Image::of_files([(DATABASE, &bytes[..])]));
                let shown = guarded(|| {
                    let env = environment(&disk, self.context.seed);
                    let handle = self.target.0.open(&env, Path::new(DATABASE));
                    let opened = handle.map(|handle| handle.open_commit(index as u64 + 1));
                    let Ok(Some(Ok(commit))) = opened else { return Err("not opened".into()) };
                    rows(&*commit).map(KvState).map_err(|error| error.to_string())
                });
                if shown.as_ref() == Ok(state) {
                    self.figures.passed += 1;
                } else {
                    self.figures.failed += 1;
                    let what = format!("commit {}, copy {copy} damaged", index + 1);
                    self.context.say(format_args!("{what}: {shown:?}"));
                }
            }
        }
    }

    /// The last footers are those of another file with the same data: they do not count.
    // spec: FOOTER-1
    fn foreign(&mut self, sample: &Sample, other: &Sample) {
        let [.., (_, before), (new, _)] = sample.commits.as_slice() else { return };
        let mut bytes = sample.bytes.clone();
        bytes[*new..].copy_from_slice(&other.bytes[*new..]);
        self.expect("footers of another file", &bytes, before);
    }
}

/// One way to damage a byte: its name, and what becomes of the byte.
type Damage = (&'static str, fn(u8) -> u8);

const DAMAGES: [Damage; 3] = [
    ("lowest bit flipped", |byte| byte ^ 0x01),
    ("highest bit flipped", |byte| byte ^ 0x80),
    // A byte that is 255 already gets another value, so that each image is damaged.
    ("made 255", |byte| if byte == 0xff { 0x7f } else { 0xff }),
];

/// Offset and width of the fields of a footer, as `src/file/footer.rs` draws them; the last ones
/// lie in the root's pointer and counts.
const LIED_FIELDS: [(usize, usize); 16] = [
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 8),
    (64, 1),
    (65, 1),
    (66, 2),
    (68, 1),
    (72, 8),
    (80, 8),
    (88, 8),
    (336, 8),
    (344, 8),
    (352, 6),
    (358, 4),
    (362, 4),
];

/// Gives a copy the checksum that its bytes should have.
fn sign(copy: &mut [u8]) {
    let (fields, checksum) = copy.split_at_mut(COPY_BYTES - 8);
    let word = |offset: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&fields[offset..offset + 8]);
        u64::from_le_bytes(bytes)
    };
    let mut right = Cover::new(word(8) ^ word(16) ^ word(24));
    right.update(fields);
    checksum.copy_from_slice(&right.finish().to_le_bytes());
}
