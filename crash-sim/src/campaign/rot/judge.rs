//! The judge of one damaged image: what opening, reading and checking may say of it.
//!
//! Invariant: an answer counts as right only if it equals the sound file's, and an error only if
//! the structure that it names is one that was hurt.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rereduce::Error;
use rereduce::env::Env;
use rereduce::file::BLOCK_BYTES;
use xxhash_rust::xxh3::Xxh3;

use super::patient::{Expected, Patient};
use crate::damage::Damage;
use crate::lies;
use crate::oracle::DATABASE;
use crate::reading::Reading;

/// What became of one image.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) reachable: bool,
    pub(super) reported: bool,
    /// How opening ended, if not with an answer from the newest commit.
    pub(super) refused: Option<String>,
    pub(super) fell_back: bool,
    /// What could not be answered.
    pub(super) errors: Vec<(&'static str, String)>,
    /// Answers that a lie made wrong.
    pub(super) misled: Vec<&'static str>,
    pub(super) check: Vec<String>,
    pub(super) took: Duration,
    pub(super) failure: Option<String>,
}

/// Whether readers must notice damage by themselves.
pub(super) fn must_show(damages: &[Damage]) -> bool {
    damages.iter().any(|damage| match damage {
        Damage::Lie(name) => lies::find(name).is_ok_and(|lie| lie.shows),
        _ => false,
    })
}

/// One image under judgement.
pub(super) struct Judged<'a> {
    pub(super) patient: &'a Patient,
    pub(super) hurt: &'a Hurt,
    pub(super) size: u64,
    pub(super) is_lie: bool,
}

impl Judged<'_> {
    /// Opens, asks everything, checks. An error is a failure.
    pub(super) fn read(&self, env: &Env, outcome: &mut Outcome) -> Result<(), String> {
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
            // A seal both of whose copies are gone is missed by opening, which says so.
            outcome.reported |= report.skipped.iter().any(|it| self.is_about(it.offset));
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
pub(super) struct Hurt {
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) hash: u64,
    pub(super) is_one_bit: bool,
}

impl Hurt {
    pub(super) fn new(bytes: &[u8], patches: &[(u64, Vec<u8>)]) -> Hurt {
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
    pub(super) fn shows(&self) -> bool {
        self.refused.is_some() || self.fell_back || !self.errors.is_empty()
    }

    /// What happened, for a replay that found nothing wrong.
    pub(super) fn describe(&self) -> String {
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
