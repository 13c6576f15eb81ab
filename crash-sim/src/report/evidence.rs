//! One crash, told for every protocol: the shortest script by which `Guide` loses what it had
//! acknowledged, and what the same script leaves under the others.
//!
//! Invariant: nothing here knows a script or a crash point; the measurement found them.

use std::path::Path;

use rereduce::env::Access;
use rereduce::file::{BLOCK_BYTES, FileMap, OpenFile, recover};

use super::csv::Table;
use super::measure::{Loss, Measures};
use crate::choices::choices;
use crate::disk::SimDisk;
use crate::explore::{Explorer, Violation};
use crate::fault::FaultModel;
use crate::image::Image;
use crate::oracle::{DATABASE, environment};
use crate::scene::{Choice, Scene};
use crate::subject::Subject;
use crate::target::Workload;
use crate::trace::{Call, Entry};

/// A script and a crash by which something is lost.
pub(crate) struct Found {
    /// The operations up to the crash, with the protocol set.
    pub(crate) workload: Workload,
    pub(crate) model: FaultModel,
    pub(crate) loss: Loss,
}

/// The tables about one crash.
pub(crate) struct Evidence {
    /// `crash.csv`: a row for each protocol.
    pub(crate) crash: Table,
    /// `blocks.csv`: the file after the crash, block by block, for each protocol.
    pub(crate) blocks: Table,
    /// `calls.csv`: the calls of the last commit, for each protocol.
    pub(crate) calls: Table,
}

/// The same workload with another commit protocol.
pub(crate) fn under(workload: &Workload, protocol: &str) -> Workload {
    let mut workload = workload.clone();
    workload.settings.retain(|(key, _)| key != PROTOCOL);
    workload.settings.push((PROTOCOL.to_owned(), protocol.to_owned()));
    workload
}

/// The option that names the commit protocol.
pub(crate) const PROTOCOL: &str = "protocol";

/// Of one protocol: what the crash left.
struct Left {
    /// What the file would be without the crash.
    whole: Vec<u8>,
    /// What each block of it holds.
    holds: Vec<String>,
    /// Everything written when the crash came.
    written: Vec<u8>,
    /// What had been flushed by then.
    sure: Vec<u8>,
    image: Image,
}

/// Images in which a footer of the newest commit stands over data that never came.
#[derive(Default)]
struct Bare {
    images: u64,
    bare: u64,
    survive: u64,
}

impl Found {
    /// The violation as the explorer tells it, when it looks at this one image again.
    // spec: REPORT-4
    pub(crate) fn violation(
        &self,
        subject: &dyn Subject,
        how: &Measures<'_>,
    ) -> Result<Violation, String> {
        let explorer = Explorer { seed: how.seed, ..Explorer::new(self.model) };
        let choice = self.loss.choice.to_string();
        let again = subject.replay(&explorer, &self.workload, Some((self.loss.point, &choice)))?;
        again.ok_or_else(|| format!("{}: the loss does not show again", self.workload.name))
    }
}

impl Evidence {
    /// Runs the script of `found` under each of `protocols`.
    pub(crate) fn collect(
        subject: &dyn Subject,
        found: &Found,
        protocols: &[String],
        how: &Measures<'_>,
    ) -> Result<Evidence, String> {
        let mut evidence = Evidence {
            crash: Table::new(
                "crash.csv",
                &[
                    "protocol",
                    "model",
                    "script",
                    "acknowledged",
                    "images",
                    "bare_footers",
                    "bare_footers_survived",
                    "commit_found",
                    "footers_skipped",
                    "outcome",
                    "answer",
                    "replay",
                ],
            ),
            blocks: Table::new(
                "blocks.csv",
                &["protocol", "block", "offset", "bytes", "holds", "state"],
            ),
            calls: Table::new("calls.csv", &["protocol", "call", "bytes", "holds"]),
        };
        for protocol in protocols {
            let workload = under(&found.workload, protocol);
            let own = workload == found.workload;
            evidence.add(subject, found, (protocol, &workload), own, how)?;
        }
        Ok(evidence)
    }

    fn add(
        &mut self,
        subject: &dyn Subject,
        found: &Found,
        (protocol, workload): (&str, &Workload),
        own: bool,
        how: &Measures<'_>,
    ) -> Result<(), String> {
        let trace = subject.trace(workload, how.seed)?;
        let scenes = Scene::all(&trace, &Image::empty(), found.model);
        let at_end = scenes.last().ok_or("a trace without an end")?;
        let whole = at_end.image(&Choice::all(at_end.unit_count())).0;
        let holds = holds(&whole, how.seed)?;
        let whole = bytes(&whole);
        let number = found.loss.begun;
        self.add_calls(protocol, &trace, number, &holds);
        let (mut bare, mut shown) = (Bare::default(), None::<((bool, bool, usize), Left)>);
        for (point, scene) in scenes.iter().enumerate() {
            if scene.begun != number || scene.acknowledged + 1 != number {
                continue;
            }
            for choice in choices(scene, found.model, how.seed, how.sets_max) {
                let left = Left::new(&whole, &holds, scene, &choice);
                bare.images += 1;
                let stands = left.is_bare(number);
                if stands {
                    bare.bare += 1;
                    let answer = subject.answer(workload, how.seed, &left.image)?;
                    bare.survive += u64::from(answer.is_ok());
                }
                // The very crash, or the one most like it: a footer came, as little else as can be.
                let same = own && point == found.loss.point && choice == found.loss.choice;
                let like = if own { same } else { stands || left.has_footer(number) };
                let rank = (!like, !stands, choice.survivors());
                if like && shown.as_ref().is_none_or(|(best, _)| rank < *best) {
                    shown = Some((rank, left));
                }
            }
        }
        // A protocol that lets no footer through has nothing to show.
        let Some((_, left)) = shown else { return Ok(()) };
        self.add_blocks(protocol, &left);
        let answer = subject.answer(workload, how.seed, &left.image)?;
        let replay = if own { found.violation(subject, how)?.replay_command() } else { "-".into() };
        let (commit, skipped) = recovered(&left.image, how.seed);
        let outcome = if answer.is_ok() { "survives" } else { "loses" };
        let answer = answer.unwrap_or_else(|error| error);
        let script = workload.lines.join("; ");
        self.crash.push([
            &protocol,
            &found.model.name,
            &script,
            &(number - 1),
            &bare.images,
            &bare.bare,
            &bare.survive,
            &commit,
            &skipped,
            &outcome,
            &answer,
            &replay,
        ]);
        Ok(())
    }

    /// The calls between the last operation's beginning and its acknowledgement.
    fn add_calls(&mut self, protocol: &str, trace: &[Entry], number: usize, holds: &[String]) {
        let began = trace.iter().skip_while(|entry| **entry != Entry::Began(number));
        for entry in began.take_while(|entry| **entry != Entry::Acknowledged(number)) {
            match entry {
                Entry::Call(Call::Append { offset, bytes, .. }, _) => {
                    let first = offset / BLOCK_BYTES;
                    let last = (offset + bytes.len() as u64).div_ceil(BLOCK_BYTES);
                    let mut parts: Vec<&str> = Vec::new();
                    for block in first..last {
                        let held = holds.get(block as usize).map_or("", |held| held);
                        let part = held.rsplit(", ").next().unwrap_or(held);
                        let part = part.split(" of ").next().unwrap_or(part);
                        if parts.last() != Some(&part) {
                            parts.push(part);
                        }
                    }
                    self.calls.push([&protocol, &"append", &bytes.len(), &parts.join(", ")]);
                }
                Entry::Call(Call::Sync { .. }, _) => {
                    self.calls.push([&protocol, &"flush", &0, &""]);
                }
                _ => {}
            }
        }
    }

    fn add_blocks(&mut self, protocol: &str, left: &Left) {
        for (block, holds) in left.holds.iter().enumerate() {
            let offset = block as u64 * BLOCK_BYTES;
            let state = left.state(block);
            self.blocks.push([&protocol, &block, &offset, &BLOCK_BYTES, holds, &state]);
        }
    }
}

impl Left {
    fn new(whole: &[u8], holds: &[String], scene: &Scene, choice: &Choice) -> Left {
        let all = Choice::all(scene.unit_count());
        let none = Choice { keep: vec![false; scene.unit_count()], ..all.clone() };
        Left {
            whole: whole.to_vec(),
            holds: holds.to_vec(),
            written: bytes(&scene.image(&all).0),
            sure: bytes(&scene.image(&none).0),
            image: scene.image(choice).0,
        }
    }

    /// What became of a block, in words.
    fn state(&self, block: usize) -> &'static str {
        let whole = part(&self.whole, block);
        let left = bytes(&self.image);
        if part(&self.sure, block) == whole {
            "flushed before"
        } else if part(&self.written, block) != whole {
            "not yet written"
        } else if part(&left, block) == whole {
            "came"
        } else {
            "never came"
        }
    }

    /// Whether a copy of the footer of commit `number` came.
    fn has_footer(&self, number: usize) -> bool {
        let footer = format!("footer of commit {number},");
        let mut held = self.holds.iter().enumerate();
        held.any(|(block, holds)| holds.starts_with(&footer) && self.state(block) == "came")
    }

    /// Whether a copy of the footer of commit `number` came, and data of that commit did not.
    fn is_bare(&self, number: usize) -> bool {
        let data = format!("data of commit {number}");
        let mut held = self.holds.iter().enumerate();
        self.has_footer(number)
            && held.any(|(block, holds)| *holds == data && self.state(block) == "never came")
    }
}

fn part(bytes: &[u8], block: usize) -> &[u8] {
    let start = (block * BLOCK_BYTES as usize).min(bytes.len());
    let end = (start + BLOCK_BYTES as usize).min(bytes.len());
    &bytes[start..end]
}

fn bytes(image: &Image) -> Vec<u8> {
    image.bytes(Path::new(DATABASE)).unwrap_or_default()
}

/// What each block of an unharmed file holds, in words.
fn holds(image: &Image, seed: u64) -> Result<Vec<String>, String> {
    let env = environment(&SimDisk::open_image(image), seed);
    let file = OpenFile::open(&env, Path::new(DATABASE), Access::Read);
    let map = file.and_then(|file| FileMap::read(&file)).map_err(|error| error.to_string())?;
    let blocks = map.file_bytes.div_ceil(BLOCK_BYTES) as usize;
    let mut holds = vec![String::new(); blocks];
    let mut from = 1;
    for footer in &map.footers {
        let at = (footer.offset / BLOCK_BYTES) as usize;
        let kind = if footer.seal { "seal" } else { "footer" };
        for (block, held) in holds.iter_mut().enumerate().skip(from) {
            *held = match block.checked_sub(at) {
                None => format!("data of commit {}", footer.number),
                Some(0) => format!("{kind} of commit {}, copy A", footer.number),
                Some(1) => format!("{kind} of commit {}, copy B", footer.number),
                Some(_) => break,
            };
        }
        from = at + 2;
    }
    if let Some(first) = holds.first_mut() {
        *first = "header".to_owned();
    }
    Ok(holds)
}

/// The commit that opening finds, and the footers that it passes over.
fn recovered(image: &Image, seed: u64) -> (String, String) {
    let env = environment(&SimDisk::open_image(image), seed);
    let file = OpenFile::open(&env, Path::new(DATABASE), Access::Read);
    match file.and_then(|file| recover(&file)) {
        Ok(found) => {
            let skipped: Vec<String> =
                found.report.skipped.iter().map(|footer| footer.to_string()).collect();
            (found.report.number.to_string(), skipped.join("; "))
        }
        Err(error) => ("-".to_owned(), error.to_string()),
    }
}
