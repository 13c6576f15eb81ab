//! Fault plans: which calls go wrong, and how; plain text that parses back to itself.
//!
//! ```text
//! plan    ITEM; ITEM; ...
//! item    CALL N ANSWER [written=BYTES] [pages=kept|reverted] [forever]
//!         quota BYTES
//!         DAMAGE                              flip 4097.3, zero 5, ...: see `damage`
//! answer  EIO [late] | ENOSPC [late] | EINTR | lies | short written=BYTES | short=BYTES
//! ```
//!
//! Invariant: a plan counts calls of one verb from the moment it is set, so that the same plan on
//! the same run strikes the same call.

mod failure;

use std::fmt;
use std::str::FromStr;

pub use failure::{Answer, Errno, Failure, Fault, Pages, Verb};

use crate::damage::Damage;
use crate::trace::Call;
use failure::number;

/// One thing that a plan asks for.
///
/// ```
/// use rereduce_crash_sim::PlanItem;
/// assert_eq!("quota 4096".parse::<PlanItem>().unwrap(), PlanItem::Quota(4096));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanItem {
    /// A call goes wrong.
    Fault(Fault),
    /// The named files of the disk have room for this many bytes together: the append that crosses
    /// it writes what fits, and the disk is full.
    Quota(u64),
    /// A file rots. This strikes no call: whoever opens the file lays it over the bytes before.
    Damage(Damage),
}

impl fmt::Display for PlanItem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanItem::Fault(fault) => write!(out, "{fault}"),
            PlanItem::Quota(bytes) => write!(out, "quota {bytes}"),
            PlanItem::Damage(damage) => write!(out, "{damage}"),
        }
    }
}

impl FromStr for PlanItem {
    type Err = String;

    fn from_str(text: &str) -> Result<PlanItem, String> {
        match text.split_once(char::is_whitespace).unwrap_or((text, "")) {
            ("quota", bytes) => {
                let bytes = number(bytes.trim());
                Ok(PlanItem::Quota(bytes.map_err(|_| format!("{text:?}: expected quota BYTES"))?))
            }
            (word, _) if Damage::WORDS.contains(&word) => text.parse().map(PlanItem::Damage),
            _ => text.parse().map(PlanItem::Fault),
        }
    }
}

/// A list of things that go wrong, and how far each has counted.
///
/// ```
/// use rereduce_crash_sim::Plan;
/// let text = "sync 2 EIO pages=reverted; read 9 short=1; quota 100000";
/// assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
/// assert_eq!("".parse::<Plan>().unwrap(), Plan::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    items: Vec<(PlanItem, u64)>,
}

impl Plan {
    /// Adds a fault.
    ///
    /// # Panics
    ///
    /// If there is no such fault ([`Fault::makes_sense`]).
    pub fn and(self, fault: Fault) -> Plan {
        if let Err(expected) = fault.makes_sense() {
            panic!("{fault}: {expected}");
        }
        self.with(PlanItem::Fault(fault))
    }

    /// Adds a limit to what the disk holds.
    pub fn quota(self, bytes: u64) -> Plan {
        self.with(PlanItem::Quota(bytes))
    }

    fn with(mut self, item: PlanItem) -> Plan {
        self.items.push((item, 0));
        self
    }

    /// What it asks for, in order.
    pub fn items(&self) -> impl Iterator<Item = &PlanItem> {
        self.items.iter().map(|(item, _)| item)
    }

    /// Counts `call`, and says how it goes wrong if it does. The first fault that fits decides.
    // spec: DISK-12
    pub(crate) fn strike(&mut self, call: &Call) -> Option<Failure> {
        let mut struck = None;
        for (item, seen) in &mut self.items {
            let PlanItem::Fault(fault) = item else { continue };
            if !fault.verb.matches(call) {
                continue;
            }
            *seen += 1;
            let fails = *seen == fault.nth || (fault.forever && *seen > fault.nth);
            if fails && struck.is_none() {
                struck = Some(fault.failure);
            }
        }
        struck
    }

    /// What rots, in order.
    pub fn damages(&self) -> impl Iterator<Item = Damage> {
        self.items().filter_map(|item| match item {
            PlanItem::Damage(damage) => Some(*damage),
            PlanItem::Fault(_) | PlanItem::Quota(_) => None,
        })
    }

    /// How many bytes the disk holds at most, if there is a limit.
    pub(crate) fn room(&self) -> Option<u64> {
        let quotas = self.items().filter_map(|item| match item {
            PlanItem::Quota(bytes) => Some(*bytes),
            PlanItem::Fault(_) | PlanItem::Damage(_) => None,
        });
        quotas.min()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(out, "{comma}{item}")?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::parse).try_fold(Plan::default(), |plan, item| Ok(plan.with(item?)))
    }
}
