//! The 24 kinds of fault, and what an engine owes its users under each.
//!
//! Invariant: numbers, names and classes are those of the table in `spec/assumptions.md`;
//! `tests/crash_litmus` compares the two, and holds two programs against each kind.

use std::fmt;
use std::str::FromStr;

/// The kinds of fault, numbered as in `spec/assumptions.md`.
///
/// ```
/// use rereduce_crash_sim::{FaultClass, FaultKind};
/// assert_eq!(FaultKind::TornWrite.to_string(), "torn-write");
/// assert_eq!("stale-block".parse::<FaultKind>().unwrap().number(), 22);
/// assert_eq!(FaultKind::LyingSync.class(), FaultClass::B);
/// assert_eq!(FaultKind::ALL.len(), 24);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// 1: the crash fell between two calls, or during one that left nothing.
    CallBoundary,
    /// 2: the crash fell inside a call that left something.
    InsideCall,
    /// 3: a returned write is missing.
    DroppedWrite,
    /// 4: of one write, some blocks are there and some are not.
    TornWrite,
    /// 5: the file is as long as a write made it, and the write's data is not there.
    LengthWithoutData,
    /// 6: data landed and the length that would show it did not.
    DataWithoutLength,
    /// 7: a rename is missing.
    LostRename,
    /// 8: a rename is there, and data of the renamed file is not.
    RenameWithoutData,
    /// 9: a creation or removal is missing.
    LostName,
    /// 10: a second crash fell while the engine recovered from the first.
    CrashInRecovery,
    /// 11: a flush said that it succeeded and flushed nothing.
    LyingSync,
    /// 12: a flush failed; reads still show the pages, which count as clean.
    SyncErrorKept,
    /// 13: a flush failed; reads show what was there before.
    SyncErrorReverted,
    /// 14: a flush failed and said that it succeeded; the next one reports the error.
    SyncErrorLate,
    /// 15: bytes could not be read, or a file not be opened.
    ReadError,
    /// 16: bytes or names could not be written.
    WriteError,
    /// 17: the disk is full, perhaps after a part of a write.
    NoSpace,
    /// 18: a call did a part of its work, or none, or was interrupted.
    ShortWrite,
    /// 19: one bit is another.
    BitFlip,
    /// 20: a block reads as zeros, or two blocks changed places.
    ZeroedBlock,
    /// 21: a write went to another place than it was meant for.
    MisdirectedWrite,
    /// 22: a block holds an older version of itself.
    StaleBlock,
    /// 23: the bytes are not what an engine would have written, and their checksum is right.
    Lie,
    /// 24: there is no more of something: the quota of the disk, memory, depth.
    ResourceLimit,
}

/// What an engine owes its users while a fault is at work.
///
/// ```
/// use rereduce_crash_sim::{FaultClass, FaultKind};
/// let rot = FaultKind::ALL.into_iter().filter(|kind| kind.class() == FaultClass::C);
/// assert_eq!(rot.count(), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultClass {
    /// Nothing acknowledged is lost, and each answer is right or an error.
    A,
    /// What rests on a false success may be lost; each answer is some commit's or an error.
    B,
    /// Damage at rest: each answer is right or an error that names the damage.
    C,
}

/// Kinds with their names and classes, in the order of their numbers.
const KINDS: [(FaultKind, &str, FaultClass); 24] = [
    (FaultKind::CallBoundary, "call-boundary", FaultClass::A),
    (FaultKind::InsideCall, "inside-call", FaultClass::A),
    (FaultKind::DroppedWrite, "dropped-write", FaultClass::A),
    (FaultKind::TornWrite, "torn-write", FaultClass::A),
    (FaultKind::LengthWithoutData, "length-without-data", FaultClass::A),
    (FaultKind::DataWithoutLength, "data-without-length", FaultClass::A),
    (FaultKind::LostRename, "lost-rename", FaultClass::A),
    (FaultKind::RenameWithoutData, "rename-without-data", FaultClass::A),
    (FaultKind::LostName, "lost-name", FaultClass::A),
    (FaultKind::CrashInRecovery, "crash-in-recovery", FaultClass::A),
    (FaultKind::LyingSync, "lying-sync", FaultClass::B),
    (FaultKind::SyncErrorKept, "sync-error-kept", FaultClass::A),
    (FaultKind::SyncErrorReverted, "sync-error-reverted", FaultClass::A),
    (FaultKind::SyncErrorLate, "sync-error-late", FaultClass::B),
    (FaultKind::ReadError, "read-error", FaultClass::A),
    (FaultKind::WriteError, "write-error", FaultClass::A),
    (FaultKind::NoSpace, "no-space", FaultClass::A),
    (FaultKind::ShortWrite, "short-write", FaultClass::A),
    (FaultKind::BitFlip, "bit-flip", FaultClass::C),
    (FaultKind::ZeroedBlock, "zeroed-block", FaultClass::C),
    (FaultKind::MisdirectedWrite, "misdirected-write", FaultClass::C),
    (FaultKind::StaleBlock, "stale-block", FaultClass::C),
    (FaultKind::Lie, "lie", FaultClass::C),
    (FaultKind::ResourceLimit, "resource-limit", FaultClass::A),
];

impl FaultKind {
    /// All kinds, in the order of their numbers.
    // spec: DISK-13
    pub const ALL: [FaultKind; 24] = {
        let mut all = [FaultKind::CallBoundary; 24];
        let mut index = 0;
        while index < all.len() {
            all[index] = KINDS[index].0;
            index += 1;
        }
        all
    };

    /// The kinds that an image of a single crash can show.
    pub const CRASH: [FaultKind; 9] = [
        FaultKind::CallBoundary,
        FaultKind::InsideCall,
        FaultKind::DroppedWrite,
        FaultKind::TornWrite,
        FaultKind::LengthWithoutData,
        FaultKind::DataWithoutLength,
        FaultKind::LostRename,
        FaultKind::RenameWithoutData,
        FaultKind::LostName,
    ];

    /// The kinds that strike a call, by plan; [`SimDisk::struck`](crate::SimDisk::struck) counts
    /// them.
    pub const CALL: [FaultKind; 9] = [
        FaultKind::LyingSync,
        FaultKind::SyncErrorKept,
        FaultKind::SyncErrorReverted,
        FaultKind::SyncErrorLate,
        FaultKind::ReadError,
        FaultKind::WriteError,
        FaultKind::NoSpace,
        FaultKind::ShortWrite,
        FaultKind::ResourceLimit,
    ];

    /// The kinds that damage a file at rest.
    pub const ROT: [FaultKind; 5] = [
        FaultKind::BitFlip,
        FaultKind::ZeroedBlock,
        FaultKind::MisdirectedWrite,
        FaultKind::StaleBlock,
        FaultKind::Lie,
    ];

    /// Its number, from 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Its name, in tables and on the command line.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// What an engine owes its users under it.
    pub fn class(self) -> FaultClass {
        KINDS[self as usize].2
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<FaultKind, String> {
        let found = FaultKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names = FaultKind::ALL.map(FaultKind::name).join(", ");
            format!("unknown fault kind {text:?}: expected one of {names}")
        })
    }
}

impl fmt::Display for FaultClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// A set of fault kinds.
///
/// ```
/// use rereduce_crash_sim::{FaultKind, KindSet};
/// let mut kinds = KindSet::default();
/// kinds.insert(FaultKind::TornWrite);
/// assert!(kinds.contains(FaultKind::TornWrite) && !kinds.contains(FaultKind::LostName));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindSet(u32);

impl KindSet {
    /// Adds a kind.
    pub fn insert(&mut self, kind: FaultKind) {
        self.0 |= 1 << kind as u32;
    }

    /// Whether the kind is in the set.
    pub fn contains(&self, kind: FaultKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }
}
