//! `rereduce::store` against the model: plain and reopened, with tiny nodes and with large ones,
//! under every commit protocol.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use rereduce::env::{Env, MemoryDisk};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::Edit;
use rereduce_crash_sim::{KvOpener, StoreOpener};
use rereduce_model::{CheckConfig, Generator, check_kv};

// spec: RECOVER-1, HISTORY-1, COMPACT-1, COMMIT-6
#[test]
fn a_store_equals_the_model_after_every_operation() {
    for (seed, fan_out, protocol, cache_bytes) in [
        (1, 2, "verified", 0),
        (2, 3, "barrier", 1000),
        (3, 4, "guide", 1 << 20),
        (4, usize::MAX, "verified", 1 << 20),
    ] {
        let mut opener = StoreOpener::default();
        opener.set("fan-out", &fan_out.to_string()).unwrap();
        opener.set("protocol", protocol).unwrap();
        opener.set("cache", &cache_bytes.to_string()).unwrap();
        let env = Env::memory();
        let engine = |name: &str| opener.open(&env, name.as_ref());
        for generator in Generator::ALL {
            let config = CheckConfig { seed, generator, ..CheckConfig::default() };
            let report = check_kv(&engine, &config).unwrap_or_else(|wrong| panic!("{wrong}"));
            assert!(report.not_offered.is_empty(), "{report}");
            println!("{generator}: {report}");
        }
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
