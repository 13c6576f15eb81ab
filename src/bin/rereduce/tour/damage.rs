//! The act about damage: footers torn, ends cut off, a witnessed commit broken.
//!
//! Invariant: all of it is done to copies, by plain writes to files, as a crash or a bad disk would
//! do it.

use std::path::{Path, PathBuf};

use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::env::{Access, Env};
use rereduce::error::Error;
use rereduce::file::{BLOCK_BYTES, FileMap, OpenFile, RecoveryReport};
use rereduce::mark;

use super::documents::{Scene, open};
use super::stage::Stage;
use super::{read_file, write_file};
use crate::outcome::Outcome;

/// A copy of the database as bytes, and where its commits end.
struct Image {
    bytes: Vec<u8>,
    /// Offset of each commit's footer; index 0 is commit 1.
    footers: Vec<u64>,
    path: PathBuf,
}

const BLOCK: usize = BLOCK_BYTES as usize;

/// Bytes between two cuts in the sweep over truncations: the sector of a disk.
const SECTOR: usize = 512;

pub(super) fn show(stage: &mut Stage<'_>, scene: &Scene) -> Outcome {
    stage.act("Crash: the process dies now, and the disk does its worst")?;
    let bytes = read_file(&scene.path)?;
    let file = OpenFile::open(&Env::real(), &scene.path, Access::Read)?;
    let footers: Vec<u64> =
        FileMap::read(&file)?.footers.iter().map(|footer| footer.offset).collect();
    let path = stage.path("damaged.rereduce");
    let image = Image { bytes, footers, path };
    let newest = scene.model.newest();
    stage.say("A commit ends with two equal copies of a footer, each a block of its own:")?;
    stage.show("… commit 7 ┊ A ┊ B ┊ data of commit 8 ┊ A ┊ B ┊")?;

    stage.say("")?;
    stage.say("Copy A of the last footer is torn. Copy B says the same:")?;
    let mut bytes = image.bytes.clone();
    garble(&mut bytes, image.footer(newest), BLOCK / 2);
    recover(stage, scene, &image, &bytes, newest)?;

    stage.say("Both copies are torn. No later footer says that commit 8 was ever flushed,")?;
    stage.say("so this is what a crash in the middle of it leaves, and commit 7 stands:")?;
    let mut bytes = image.bytes.clone();
    garble(&mut bytes, image.footer(newest), 2 * BLOCK);
    recover(stage, scene, &image, &bytes, newest - 1)?;
    write_on(stage, scene, &image, &bytes)?;

    stage.say("The end is cut off in the middle of the data of commit 8:")?;
    let cut = (image.footer(newest - 1) + 2 * BLOCK + image.footer(newest)) / 2;
    recover(stage, scene, &image, image.bytes.get(..cut).unwrap_or_default(), newest - 1)?;

    sweep(stage, scene, &image)?;
    break_witnessed(stage, scene, &image)
}

impl Image {
    /// Where the footer of commit `number` begins.
    fn footer(&self, number: u64) -> usize {
        let at = (number as usize).checked_sub(1);
        at.and_then(|at| self.footers.get(at)).map_or(0, |offset| *offset as usize)
    }
}

/// Turns `count` bytes from `at` on into others.
fn garble(bytes: &mut [u8], at: usize, count: usize) {
    for byte in bytes.iter_mut().skip(at + 1).take(count - 1) {
        *byte = !*byte;
    }
}

/// Opens an image, tells what recovery decided, and compares every commit that survived.
fn recover(
    stage: &mut Stage<'_>,
    scene: &Scene,
    image: &Image,
    bytes: &[u8],
    expected: u64,
) -> Outcome {
    write_file(&image.path, bytes)?;
    let db = open_to_read(&image.path)?;
    tell(stage, &db.recovery())?;
    let mut equal = 0;
    for number in 1..=expected {
        equal += u64::from(scene.model.agrees(&db.snapshot_at(number)?, number)?);
    }
    let stands = db.snapshot()?.number() == expected;
    stage.check("recoveries that chose the right commit", u64::from(stands), 1)?;
    stage.check("surviving commits equal to the model", equal, expected)?;
    stage.say("")
}

fn tell(stage: &mut Stage<'_>, report: &RecoveryReport) -> Outcome {
    let mut lines: Vec<String> = report.skipped.iter().map(|footer| footer.to_string()).collect();
    lines.push(format!(
        "commit {} stands, {} bytes behind it belong to none ({} bytes read)",
        report.number, report.tail_bytes, report.bytes_read
    ));
    stage.show(&lines.join("\n"))
}

/// A torn database takes new commits, which step over the garbage.
fn write_on(stage: &mut Stage<'_>, scene: &Scene, image: &Image, bytes: &[u8]) -> Outcome {
    write_file(&image.path, bytes)?;
    let db = open(&image.path)?;
    let before = db.snapshot()?;
    let id = "2016-01-01";
    let written = db.edit(vec![DocEdit::parse(id, br#"{"weather":"sun"}"#)?])?;
    db.close()?;
    drop(db);
    let again = open_to_read(&image.path)?;
    let parent = again.snapshot_at(before.number())?;
    let there = again.snapshot()?.document(id, None)?.rev();
    let kept = scene.model.agrees(&parent, before.number())?;
    let right = there.is_some() && there == written.into_iter().next().and_then(Result::ok) && kept;
    stage.say("Writing goes on behind the garbage, and what is written is found again:")?;
    stage.check("commits made after a torn one, found again", u64::from(right), 1)?;
    stage.say("")
}

/// Cuts the file at every sector of the last two commits.
fn sweep(stage: &mut Stage<'_>, scene: &Scene, image: &Image) -> Outcome {
    let newest = scene.model.newest();
    let from = image.footer(newest - 2) + 2 * BLOCK;
    let (mut cuts, mut right) = (0, 0);
    let from = match mark::planted("cli-tour-cuts-nothing") {
        true => image.bytes.len() + 1,
        false => from,
    };
    for cut in (from..=image.bytes.len()).step_by(SECTOR) {
        // One whole copy is enough.
        let holds = |number: &u64| image.footer(*number) + BLOCK <= cut;
        let expected = (1..=newest).rev().find(holds).unwrap_or(0);
        write_file(&image.path, image.bytes.get(..cut).unwrap_or_default())?;
        let snapshot = open_to_read(&image.path)?.snapshot()?;
        cuts += 1;
        right += u64::from(scene.model.agrees(&snapshot, expected)?);
    }
    stage.say("The same for every sector of 512 bytes at which the last two commits can be")?;
    stage.say("cut; each time all documents of the commit that stands are compared:")?;
    stage.check("truncations that left the right commit", right, cuts)?;
    stage.say("")
}

/// Damage below a commit that is known to be flushed is no torn tail, and must not pass for one.
fn break_witnessed(stage: &mut Stage<'_>, scene: &Scene, image: &Image) -> Outcome {
    let newest = scene.model.newest();
    let mut bytes = image.bytes.clone();
    garble(&mut bytes, image.footer(newest - 1), 2 * BLOCK);
    garble(&mut bytes, image.footer(newest) - 8, 8);
    write_file(&image.path, &bytes)?;
    stage.say("Last, damage that no crash explains: the footer of commit 7 and bytes of")?;
    stage.say("commit 8 are gone, and footer 8 says that commit 7 was flushed. Falling back")?;
    stage.say("would lose what was acknowledged, so opening refuses, and says so:")?;
    let refused = match open_to_read(&image.path) {
        Err(crate::outcome::Failure::Said { code: 4, message }) => {
            let name = image.path.display().to_string();
            wrap(stage, &message.replace(&name, "damaged.rereduce"))?;
            true
        }
        _ => false,
    };
    stage.check("damaged databases refused", u64::from(refused), 1)?;
    stage.say("What is whole can still be read, by number:")?;
    let options = DatabaseOptions::default();
    let older = Database::open_commit(&Env::real(), &image.path, newest - 2, &options);
    let equal = match older {
        Ok(older) => scene.model.agrees(&older, newest - 2)?,
        Err(Error::Io { .. } | Error::Corrupt(_)) => false,
        Err(error) => return Err(error.into()),
    };
    stage.check("surviving commits equal to the model", u64::from(equal), 1)
}

fn wrap(stage: &mut Stage<'_>, text: &str) -> Outcome {
    let mut line = String::new();
    for word in text.split(' ') {
        if line.len() + word.len() > 68 {
            stage.show(&std::mem::take(&mut line))?;
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    stage.show(&line)
}

fn open_to_read(path: &Path) -> Outcome<Database> {
    crate::opening::to_read(path)
}
