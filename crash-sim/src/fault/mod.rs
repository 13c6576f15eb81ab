//! Fault models: disks, told apart by what a crash may do on them.
//!
//! Invariant: a fault model only takes freedom away from the general one ([`FaultModel::POWER`]):
//! whatever it can leave behind, a power cut on the general disk can leave behind too.

mod kind;

use std::fmt;
use std::str::FromStr;

pub use kind::{FaultClass, FaultKind, KindSet};

/// Which of the changes in flight a crash may leave behind.
///
/// ```
/// assert_ne!(rereduce_crash_sim::Survival::Prefix, rereduce_crash_sim::Survival::Subset);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All of what returned; of the call in flight, a beginning.
    Returned,
    /// The first so many, in the order in which they were made.
    Prefix,
    /// Any of them.
    Subset,
}

/// How a file's length may differ from the data that survived.
///
/// ```
/// use rereduce_crash_sim::Length;
/// assert_eq!("full".parse::<Length>().unwrap(), Length::Full);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Length {
    /// The file ends behind the last byte that survived.
    Tight,
    /// The file is as long as the writes made it.
    Full,
    /// The length of the last surviving write did not land: the file ends where an earlier one did.
    Short,
}

/// What reads show of bytes inside the length that no surviving write brought.
///
/// ```
/// use rereduce_crash_sim::Gap;
/// assert_eq!("stale".parse::<Gap>().unwrap(), Gap::Stale);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// Zeros.
    Zeros,
    /// What the place held for an earlier owner: here, the file's own last whole page, which may
    /// well be a valid footer.
    Stale,
}

/// A disk, as an experimenter thinks of it: what a crash may do on it.
///
/// ```
/// use rereduce_crash_sim::FaultModel;
/// assert_eq!("reorder".parse::<FaultModel>().unwrap(), FaultModel::REORDER);
/// assert!("lossless".parse::<FaultModel>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultModel {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// Which changes in flight survive.
    pub survival: Survival,
    /// Bytes of a block; a block of a write survives whole or not at all.
    pub block_bytes: u64,
    /// How lengths may come out.
    pub lengths: &'static [Length],
    /// What gaps may show.
    pub gaps: &'static [Gap],
}

impl FaultModel {
    /// The process dies, the machine does not: everything written survives.
    pub const PROCESS_KILL: FaultModel = FaultModel {
        name: "process-kill",
        survival: Survival::Returned,
        block_bytes: 512,
        lengths: &[Length::Tight],
        gaps: &[Gap::Zeros],
    };

    /// Power cut on a disk that keeps write order: a beginning of what was done survives.
    // spec: DISK-5
    pub const ORDERED: FaultModel =
        FaultModel { name: "ordered", survival: Survival::Prefix, ..FaultModel::PROCESS_KILL };

    /// Power cut on a disk that writes pages of 4,096 bytes in any order.
    pub const REORDER: FaultModel = FaultModel {
        name: "reorder",
        survival: Survival::Subset,
        block_bytes: 4096,
        ..FaultModel::PROCESS_KILL
    };

    /// The same in sectors of 512 bytes: a page may be half old and half new.
    pub const TORN: FaultModel =
        FaultModel { name: "torn", block_bytes: 512, ..FaultModel::REORDER };

    /// The same, and files may be longer than what survived, with zeros or old bytes in between.
    pub const ZEROS: FaultModel = FaultModel {
        name: "zeros",
        lengths: &[Length::Full],
        gaps: &[Gap::Zeros, Gap::Stale],
        ..FaultModel::TORN
    };

    /// Everything that a power cut can do: all of the above in one.
    pub const POWER: FaultModel = FaultModel {
        name: "power",
        lengths: &[Length::Tight, Length::Full, Length::Short],
        ..FaultModel::ZEROS
    };

    /// The models of the table of commit protocols, from kind to cruel, and the general one.
    pub const ALL: [FaultModel; 6] = [
        FaultModel::PROCESS_KILL,
        FaultModel::ORDERED,
        FaultModel::REORDER,
        FaultModel::TORN,
        FaultModel::ZEROS,
        FaultModel::POWER,
    ];
}

impl FromStr for FaultModel {
    type Err = String;

    fn from_str(text: &str) -> Result<FaultModel, String> {
        let found = FaultModel::ALL.into_iter().find(|model| model.name == text);
        found.ok_or_else(|| {
            let names = FaultModel::ALL.map(|model| model.name).join(", ");
            format!("unknown fault model {text:?}; there are {names}")
        })
    }
}

impl fmt::Display for Length {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Length::Tight => "tight",
            Length::Full => "full",
            Length::Short => "short",
        })
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        match text {
            "tight" => Ok(Length::Tight),
            "full" => Ok(Length::Full),
            "short" => Ok(Length::Short),
            _ => Err(format!("{text:?} is not a length: expected tight, full or short")),
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Gap::Zeros => "zeros",
            Gap::Stale => "stale",
        })
    }
}

impl FromStr for Gap {
    type Err = String;

    fn from_str(text: &str) -> Result<Gap, String> {
        match text {
            "zeros" => Ok(Gap::Zeros),
            "stale" => Ok(Gap::Stale),
            _ => Err(format!("{text:?} is not a gap: expected zeros or stale")),
        }
    }
}
