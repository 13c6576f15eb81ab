//! `rereduce::store` against the model: plain and reopened, with tiny nodes and with large ones,
//! under every commit protocol.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use rereduce::btree::TreeOptions;
use rereduce::env::{Env, MemoryDisk};
use rereduce::file::Protocol;
use rereduce::kv::{KvSnapshot, OrderedKv};
use rereduce::reduce::{Reducer, Row, SumDecimal};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Edit, KeyRange};
use rereduce::{Error, Result};
use rereduce_model::{CheckConfig, KvEngine, KvHandle, Reduced, check_kv};

/// Count and sum in one reduction, as the model answers both.
struct CountAndSum;

impl Reducer for CountAndSum {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        out.extend((rows.len() as u64).to_le_bytes());
        SumDecimal.reduce(rows, out)
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let counts = parts.iter().map(|part| u64::from_le_bytes(part[..8].try_into().unwrap()));
        out.extend(counts.sum::<u64>().to_le_bytes());
        let sums: Vec<&[u8]> = parts.iter().map(|part| &part[8..]).collect();
        SumDecimal.rereduce(&sums, out)
    }
}

struct StoreEngine {
    env: Env,
    options: StoreOptions,
}

struct StoreHandle(Store);

impl KvEngine for StoreEngine {
    fn open(&self, name: &str) -> Result<Box<dyn KvHandle>> {
        let store = Store::open(self.env.clone(), name.as_ref(), self.options.clone())?;
        Ok(Box::new(StoreHandle(store)))
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.env.disk.remove(name.as_ref()) {
            Err(Error::NoSuchFile { .. }) => Ok(()),
            removed => removed,
        }
    }
}

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
            let (count, sum) = bytes.split_at(8);
            let sum = SumDecimal::decode(sum).unwrap();
            Reduced { count: u64::from_le_bytes(count.try_into().unwrap()), sum }
        }))
    }

    fn compact(&self) -> Option<Result<()>> {
        Some(self.0.compact(&mut || ControlFlow::Continue(())))
    }

    fn commit_number(&self) -> Option<u64> {
        Some(self.0.snapshot().unwrap().number())
    }

    fn open_commit(&self, number: u64) -> Option<Result<Box<dyn KvSnapshot>>> {
        let opened = self.0.snapshot_at(number);
        Some(opened.map(|snapshot| Box::new(snapshot) as Box<dyn KvSnapshot>))
    }

    fn check(&self) -> Option<Result<()>> {
        Some(self.0.snapshot().and_then(|snapshot| snapshot.check()).map(|checked| {
            assert!(checked.violations.is_empty(), "{:?}", checked.violations);
        }))
    }
}

fn options(fan_out_max: usize, protocol: Protocol, cache_bytes: usize) -> StoreOptions {
    StoreOptions {
        tree: TreeOptions { fan_out_max, ..TreeOptions::default() },
        reducer: Arc::new(CountAndSum),
        protocol,
        cache_bytes,
        ..StoreOptions::default()
    }
}

// spec: RECOVER-1, HISTORY-1, COMPACT-1, COMMIT-6
#[test]
fn a_store_equals_the_model_after_every_operation() {
    for (seed, fan_out, protocol, cache_bytes) in [
        (1, 2, Protocol::Verified, 0),
        (2, 3, Protocol::Barrier, 1000),
        (3, 4, Protocol::Guide, 1 << 20),
        (4, usize::MAX, Protocol::Verified, 1 << 20),
    ] {
        let engine =
            StoreEngine { env: Env::memory(), options: options(fan_out, protocol, cache_bytes) };
        let config = CheckConfig { seed, ..CheckConfig::default() };
        let report = check_kv(&engine, &config).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert!(report.not_offered.is_empty(), "{report}");
        println!("{report}");
    }
}

// spec: COMPACT-6
#[test]
fn a_compacted_store_is_as_small_as_a_fresh_sorted_load() {
    let disk = MemoryDisk::new();
    let env = Env { disk: Arc::new(disk.clone()), ..Env::real() };
    let size = |name: &str| disk.bytes(&PathBuf::from(name)).unwrap().len();
    let rows = 20_000u32;
    let key = |row: u32| format!("key{:08}", row.wrapping_mul(2_654_435_761) % 100_000_007);
    let edit = |row: u32| Edit::put(key(row), format!("{row:050}"));

    let random = Store::open(env.clone(), "random".as_ref(), StoreOptions::default()).unwrap();
    for batch in 0..rows / 500 {
        random.commit((batch * 500..(batch + 1) * 500).map(edit).collect()).unwrap();
    }
    random.compact(&mut || ControlFlow::Continue(())).unwrap();
    random.close().unwrap();

    let sorted = Store::open(env, "sorted".as_ref(), StoreOptions::default()).unwrap();
    let mut edits: Vec<Edit> = (0..rows).map(edit).collect();
    edits.sort();
    sorted.commit(edits).unwrap();
    sorted.close().unwrap();
    let (compacted, fresh) = (size("random") as f64, size("sorted") as f64);
    assert!(compacted <= fresh * 1.01, "{compacted} bytes compacted, {fresh} bytes fresh");
}
