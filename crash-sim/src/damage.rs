//! Damage at rest: what a medium does to bytes that were written and flushed, as plain text.
//!
//! ```text
//! flip 4097.3          bit 3 of byte 4097 is another
//! zero 5               block 5 holds zeros            (s20: the 512-byte sector 20)
//! swap 5 9             blocks 5 and 9 changed places
//! misdirect 5 9        the write of block 5 landed at block 9; where 5 should be nothing came
//! stale 5 3            block 5 is what it was after commit 3
//! lie child-rows       the newest commit says something untrue under right checksums
//! ```
//!
//! Invariant: damage is a function of a file and its history alone, so a line of text and the
//! script that made the file give the same bytes again.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use rereduce::file::BLOCK_BYTES;

use crate::disk::SECTOR_BYTES;
use crate::fault::FaultKind;
use crate::lies;

/// A file, and what it held after each of its commits.
///
/// ```
/// use rereduce_crash_sim::AgedFile;
/// let file = AgedFile { bytes: vec![1; 4096].into(), history: vec![(0, vec![1; 2048].into())] };
/// assert_eq!(file.before(0).len(), 2048);
/// assert_eq!(file.before(7).len(), 0, "it has no such commit");
/// ```
#[derive(Clone, Debug)]
pub struct AgedFile {
    /// The file now.
    pub bytes: Arc<[u8]>,
    /// The file after the commit of this number; 0 before the first one. A compaction in between
    /// makes it another file under the same name.
    pub history: Vec<(u64, Arc<[u8]>)>,
}

impl AgedFile {
    /// What the file held after commit `number`; nothing if there is none.
    pub fn before(&self, number: u64) -> &[u8] {
        let found = self.history.iter().rev().find(|(commit, _)| *commit == number);
        found.map_or(&[], |(_, bytes)| bytes)
    }
}

/// What a disk reads and writes as a whole: a block of 2,048 bytes or a sector of 512.
///
/// ```
/// use rereduce_crash_sim::Unit;
/// assert_eq!("5".parse::<Unit>().unwrap(), Unit::Block(5));
/// assert_eq!(Unit::Sector(20).to_string(), "s20");
/// assert_eq!(Unit::Sector(4).range(), Unit::Block(1).range().start..2560);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A block, by its number in the file.
    Block(u64),
    /// A sector, by its number in the file.
    Sector(u64),
}

impl Unit {
    /// The bytes of the file that it holds.
    pub fn range(self) -> Range<u64> {
        let (number, bytes) = match self {
            Unit::Block(number) => (number, BLOCK_BYTES),
            Unit::Sector(number) => (number, SECTOR_BYTES),
        };
        let start = number.saturating_mul(bytes);
        start..start.saturating_add(bytes)
    }

    /// What the unit holds in `bytes`, with zeros behind their end.
    fn of(self, bytes: &[u8]) -> Vec<u8> {
        let Range { start, end } = self.range();
        let size = (end - start) as usize;
        let mut held: Vec<u8> = bytes.iter().skip(start as usize).take(size).copied().collect();
        held.resize(size, 0);
        held
    }
}

/// One piece of damage.
///
/// ```
/// use rereduce_crash_sim::{AgedFile, Damage};
/// let file = AgedFile { bytes: vec![0xff; 4096].into(), history: Vec::new() };
/// let damage: Damage = "zero s1".parse().unwrap();
/// let hurt = damage.apply(&file).unwrap();
/// assert_eq!((hurt[511], hurt[512], hurt[1024]), (0xff, 0, 0xff));
/// assert_eq!("flip 9.0".parse::<Damage>().unwrap().to_string(), "flip 9.0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// 19: one bit is another: `flip OFFSET.BIT`.
    Flip {
        /// The byte.
        offset: u64,
        /// The bit, 0 for the lowest.
        bit: u8,
    },
    /// 20: a unit holds zeros: `zero UNIT`.
    Zero(Unit),
    /// 20: two units of one size changed places: `swap UNIT UNIT`.
    Swap(Unit, Unit),
    /// 21: the write meant for one unit landed at another: `misdirect FROM TO`. The place it was
    /// meant for holds what it held before, which in a file that only grows is nothing.
    Misdirect {
        /// Where the write was meant to go.
        from: Unit,
        /// Where it went.
        to: Unit,
    },
    /// 22: a unit is what it was after an older commit: `stale UNIT COMMIT`. Where the file was
    /// shorter then, the unit is torn or zeros.
    Stale {
        /// The unit.
        unit: Unit,
        /// The commit; 0 stands for the file before its first one.
        commit: u64,
    },
    /// 23: the newest commit says something untrue under right checksums: `lie NAME`.
    Lie(&'static str),
}

impl Damage {
    /// The words that damage begins with, in the order of the kinds.
    pub const WORDS: [&str; 6] = ["flip", "zero", "swap", "misdirect", "stale", "lie"];

    /// Which of [`Damage::WORDS`] it begins with.
    pub fn word(&self) -> &'static str {
        Damage::WORDS[match self {
            Damage::Flip { .. } => 0,
            Damage::Zero(_) => 1,
            Damage::Swap(..) => 2,
            Damage::Misdirect { .. } => 3,
            Damage::Stale { .. } => 4,
            Damage::Lie(_) => 5,
        }]
    }

    /// Which kind of fault it is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Damage::Flip { .. } => FaultKind::BitFlip,
            Damage::Zero(_) | Damage::Swap(..) => FaultKind::ZeroedBlock,
            Damage::Misdirect { .. } => FaultKind::MisdirectedWrite,
            Damage::Stale { .. } => FaultKind::StaleBlock,
            Damage::Lie(_) => FaultKind::Lie,
        }
    }

    /// The parts of `file` that come out otherwise, each with its new bytes. A lie is told behind
    /// the end of the file.
    ///
    /// # Errors
    ///
    /// If the damage lies outside the file, or there is nothing to lie about.
    pub fn patches(&self, file: &AgedFile) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let bytes = &file.bytes;
        let inside = |unit: Unit| match unit.range().end <= bytes.len() as u64 {
            true => Ok(unit.range().start),
            false => Err(format!("{unit} is not in a file of {} bytes", bytes.len())),
        };
        match *self {
            Damage::Flip { offset, bit } => {
                let byte = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset));
                let byte = byte.filter(|_| bit < 8);
                let byte = byte.ok_or_else(|| format!("there is no bit {offset}.{bit}"))?;
                Ok(vec![(offset, vec![byte ^ 1 << bit])])
            }
            Damage::Zero(unit) => Ok(vec![(inside(unit)?, unit.of(&[]))]),
            Damage::Swap(one, other) => {
                Ok(vec![(inside(one)?, other.of(bytes)), (inside(other)?, one.of(bytes))])
            }
            Damage::Misdirect { from, to } => {
                Ok(vec![(inside(from)?, from.of(&[])), (inside(to)?, from.of(bytes))])
            }
            Damage::Stale { unit, commit } => {
                Ok(vec![(inside(unit)?, unit.of(file.before(commit)))])
            }
            Damage::Lie(name) => {
                let told = lies::find(name)?.tell(bytes)?;
                Ok(vec![(bytes.len() as u64, told[bytes.len()..].to_vec())])
            }
        }
    }

    /// The bytes of `file` with this damage.
    ///
    /// # Errors
    ///
    /// As for [`Damage::patches`].
    pub fn apply(&self, file: &AgedFile) -> Result<Vec<u8>, String> {
        let mut bytes = file.bytes.to_vec();
        for (offset, patch) in self.patches(file)? {
            let start = offset as usize;
            if bytes.len() < start + patch.len() {
                bytes.resize(start + patch.len(), 0);
            }
            bytes[start..start + patch.len()].copy_from_slice(&patch);
        }
        Ok(bytes)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Block(number) => write!(out, "{number}"),
            Unit::Sector(number) => write!(out, "s{number}"),
        }
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Unit, String> {
        match text.strip_prefix('s') {
            Some(sector) => Ok(Unit::Sector(number(sector)?)),
            None => Ok(Unit::Block(number(text)?)),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Flip { offset, bit } => write!(out, "flip {offset}.{bit}"),
            Damage::Zero(unit) => write!(out, "zero {unit}"),
            Damage::Swap(one, other) => write!(out, "swap {one} {other}"),
            Damage::Misdirect { from, to } => write!(out, "misdirect {from} {to}"),
            Damage::Stale { unit, commit } => write!(out, "stale {unit} {commit}"),
            Damage::Lie(name) => write!(out, "lie {name}"),
        }
    }
}

impl FromStr for Damage {
    type Err = String;

    // spec: ROT-1
    fn from_str(text: &str) -> Result<Damage, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["flip", place] => {
                let (offset, bit) =
                    place.split_once('.').ok_or_else(|| format!("{place:?} is not OFFSET.BIT"))?;
                let bit = number(bit)?;
                match u8::try_from(bit).ok().filter(|bit| *bit < 8) {
                    Some(bit) => Ok(Damage::Flip { offset: number(offset)?, bit }),
                    None => Err(format!("a byte has no bit {bit}")),
                }
            }
            ["zero", unit] => Ok(Damage::Zero(unit.parse()?)),
            ["swap", one, other] => {
                let (one, other) = two(one, other)?;
                Ok(Damage::Swap(one, other))
            }
            ["misdirect", from, to] => {
                let (from, to) = two(from, to)?;
                Ok(Damage::Misdirect { from, to })
            }
            ["stale", unit, commit] => {
                Ok(Damage::Stale { unit: unit.parse()?, commit: number(commit)? })
            }
            ["lie", name] => lies::find(name).map(|lie| Damage::Lie(lie.name)),
            _ => Err(format!(
                "{text:?} is no damage: expected flip, zero, swap, misdirect, stale or lie"
            )),
        }
    }
}

/// Two units of one size.
fn two(one: &str, other: &str) -> Result<(Unit, Unit), String> {
    match (one.parse()?, other.parse()?) {
        pair @ ((Unit::Block(_), Unit::Block(_)) | (Unit::Sector(_), Unit::Sector(_))) => Ok(pair),
        (one, other) => Err(format!("{one} and {other} are not of one size")),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}
