//! The engine's `store` as a target.
//!
//! Invariant: nodes are small and the cache holds nothing unless a workload asks otherwise, so that
//! a few keys make a tree of several levels and every read goes to the disk.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use rereduce::Result;
use rereduce::btree::{Rule, TreeOptions};
use rereduce::env::Env;
use rereduce::file::Protocol;
use rereduce::kv::{KvSnapshot, OrderedKv};
use rereduce::reduce::{Reducer, Row, SumDecimal};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Edit, KeyRange};
use rereduce_model::{KvHandle, Reduced};

use super::kv::KvOpener;

/// Opens `rereduce::store::Store`.
///
/// ```
/// use rereduce_crash_sim::{KvOpener, StoreOpener};
/// let mut opener = StoreOpener::default();
/// opener.set("protocol", "guide").unwrap();
/// assert_eq!(opener.settings(), ["protocol=guide"]);
/// assert!(opener.set("protocol", "hope").is_err());
/// ```
#[derive(Clone)]
pub struct StoreOpener {
    protocol: Protocol,
    fan_out_max: usize,
    cache_bytes: usize,
}

const FAN_OUT_MAX: usize = 3;

impl Default for StoreOpener {
    fn default() -> StoreOpener {
        let protocol = Protocol::default();
        StoreOpener { protocol, fan_out_max: FAN_OUT_MAX, cache_bytes: 0 }
    }
}

impl StoreOpener {
    /// The options as the engine takes them.
    pub fn options(&self) -> StoreOptions {
        StoreOptions {
            protocol: self.protocol,
            tree: TreeOptions { fan_out_max: self.fan_out_max, ..TreeOptions::default() },
            reducer: Arc::new(CountAndSum),
            cache_bytes: self.cache_bytes,
            ..StoreOptions::default()
        }
    }
}

impl KvOpener for StoreOpener {
    fn name(&self) -> &'static str {
        "store"
    }

    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
        let number = || value.parse().map_err(|_| format!("{key}={value}: not a number"));
        match key {
            "protocol" => {
                let found = PROTOCOLS.iter().find(|(name, _)| *name == value);
                let unknown = format!("protocol={value}: expected guide, barrier or verified");
                self.protocol = found.ok_or(unknown)?.1;
            }
            "fan-out" => self.fan_out_max = number()?,
            "cache" => self.cache_bytes = number()?,
            _ => return Err(format!("store has no option {key}")),
        }
        Ok(())
    }

    fn settings(&self) -> Vec<String> {
        let mut settings = Vec::new();
        if self.protocol != Protocol::default() {
            let named = PROTOCOLS.iter().find(|(_, protocol)| *protocol == self.protocol);
            settings.push(format!("protocol={}", named.map_or("", |(name, _)| name)));
        }
        if self.fan_out_max != FAN_OUT_MAX {
            settings.push(format!("fan-out={}", self.fan_out_max));
        }
        if self.cache_bytes != 0 {
            settings.push(format!("cache={}", self.cache_bytes));
        }
        settings
    }

    fn open(&self, env: &Env, path: &Path) -> Result<Box<dyn KvHandle>> {
        Ok(Box::new(StoreHandle(Store::open(env.clone(), path, self.options())?)))
    }
}

pub(crate) const PROTOCOLS: [(&str, Protocol); 3] =
    [("guide", Protocol::Guide), ("barrier", Protocol::Barrier), ("verified", Protocol::Verified)];

/// Count and sum in one reduction, as the model answers both.
struct CountAndSum;

impl Reducer for CountAndSum {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        out.extend((rows.len() as u64).to_le_bytes());
        SumDecimal.reduce(rows, out)
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let count: u64 = parts.iter().filter_map(|part| count(part)).sum();
        out.extend(count.to_le_bytes());
        let sums: Vec<&[u8]> = parts.iter().map(|part| part.get(8..).unwrap_or(&[])).collect();
        SumDecimal.rereduce(&sums, out)
    }
}

/// The count at the beginning of a stored reduction, which passed its chunk's checksum.
fn count(part: &[u8]) -> Option<u64> {
    part.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

struct StoreHandle(Store);

impl OrderedKv for StoreHandle {
    fn commit(&self, edits: &[Edit]) -> Result<()> {
        OrderedKv::commit(&self.0, edits)
    }

    fn snapshot(&self) -> Result<Box<dyn KvSnapshot>> {
        OrderedKv::snapshot(&self.0)
    }
}

impl KvHandle for StoreHandle {
    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }

    fn reduce(&self, range: &KeyRange) -> Option<Result<Reduced>> {
        let reduced = self.0.snapshot().and_then(|snapshot| snapshot.reduce(range));
        Some(reduced.map(|bytes| {
            let sum = bytes.get(8..).and_then(SumDecimal::decode).unwrap_or(0);
            Reduced { count: count(&bytes).unwrap_or(0), sum }
        }))
    }

    fn compact(&self) -> Option<Result<()>> {
        Some(self.0.compact(&mut || ControlFlow::Continue(())))
    }

    fn commit_number(&self) -> Option<u64> {
        self.0.snapshot().ok().map(|snapshot| snapshot.number())
    }

    fn open_commit(&self, number: u64) -> Option<Result<Box<dyn KvSnapshot>>> {
        let opened = self.0.snapshot_at(number);
        Some(opened.map(|snapshot| Box::new(snapshot) as Box<dyn KvSnapshot>))
    }

    fn check(&self) -> Option<Result<()>> {
        let checked = self.0.snapshot().and_then(|snapshot| snapshot.check());
        Some(checked.and_then(|checked| {
            let damage = checked.violations.iter().find_map(|violation| match &violation.rule {
                Rule::Damaged(error) => Some(error),
                _ => None,
            });
            if let Some(error) = damage {
                return Err(error.clone());
            }
            // A tree that breaks its own rules is a bug of the engine, which the oracle reports.
            assert!(checked.violations.is_empty(), "tree rules broken: {:?}", checked.violations);
            Ok(())
        }))
    }
}
