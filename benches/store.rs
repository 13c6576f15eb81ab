//! What the key-value store costs: load, upserts, lookups, scans, reductions, compaction.
//!
//! `cargo bench --bench store` works on 20,000 rows; `REREDUCE_BENCH_ROWS=1000000` sets another
//! number.
//!
//! Invariant: every write is durable when it is counted, on a real file in the target's temporary
//! directory.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use rereduce::env::Env;
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Direction, Edit, KeyRange};

mod documents;
use documents::{Numbers, body, id, id_behind, rows};

fn put(n: u64, version: u64) -> Edit {
    Edit::put(id(n), body(n, version))
}

fn open(directory: &tempfile::TempDir) -> Store {
    let options = StoreOptions { cache_bytes: 1 << 30, ..StoreOptions::default() };
    Store::open(Env::real(), &directory.path().join("rows.rereduce"), options).unwrap()
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = open(&directory);
    for first in (0..rows()).step_by(1000) {
        store.commit((first..first + 1000).map(|n| put(n, 0)).collect()).unwrap();
    }
    writes(&mut criterion, &store);
    reads(&mut criterion, &store);
    let mut group = criterion.benchmark_group("store");
    group.throughput(Throughput::Bytes(rows() * 297));
    group.bench_function("compaction", |bencher| {
        bencher.iter(|| store.compact(&mut || ControlFlow::Continue(())).unwrap());
    });
    group.finish();
    criterion.final_summary();
}

fn writes(criterion: &mut Criterion, store: &Store) {
    let mut group = criterion.benchmark_group("store");
    let mut next = rows();
    group.throughput(Throughput::Elements(1000));
    group.bench_function("sorted load, batches of 1,000", |bencher| {
        let batch = || {
            next += 1000;
            (next - 1000..next).map(|n| put(n, 0)).collect::<Vec<Edit>>()
        };
        bencher.iter_batched(batch, |batch| store.commit(batch).unwrap(), BatchSize::PerIteration);
    });
    let mut numbers = Numbers::new(1);
    group.throughput(Throughput::Elements(100));
    group.bench_function("random upserts, batches of 100", |bencher| {
        let batch =
            || (0..100).map(|_| put(numbers.below(rows()), numbers.next())).collect::<Vec<Edit>>();
        bencher.iter_batched(batch, |batch| store.commit(batch).unwrap(), BatchSize::PerIteration);
    });
    group.throughput(Throughput::Elements(1));
    let mut nth = 0;
    group.bench_function("durable insert", |bencher| {
        let edit = || {
            nth += 1;
            vec![Edit::put(id_behind(numbers.below(rows()), nth), body(nth, 1))]
        };
        bencher.iter_batched(edit, |edit| store.commit(edit).unwrap(), BatchSize::PerIteration);
    });
    group.finish();
}

fn reads(criterion: &mut Criterion, store: &Store) {
    let snapshot = store.snapshot().unwrap();
    let mut group = criterion.benchmark_group("store");
    let mut numbers = Numbers::new(2);
    group.throughput(Throughput::Elements(1));
    group.bench_function("random get", |bencher| {
        let key = || id(numbers.below(rows())).into_bytes();
        bencher.iter_batched(key, |key| snapshot.get(&key).unwrap(), BatchSize::SmallInput);
    });
    group.bench_function("reduction of a random range", |bencher| {
        let range = || {
            let (one, two) = (numbers.below(rows()), numbers.below(rows()));
            KeyRange::of(id(one.min(two)).as_bytes()..id(one.max(two)).as_bytes())
        };
        bencher.iter_batched(
            range,
            |range| snapshot.reduce(&range).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.throughput(Throughput::Elements(snapshot.row_count()));
    group.bench_function("scan", |bencher| {
        bencher.iter(|| {
            let mut bytes = 0;
            let mut visit = |key: &[u8], value: &[u8]| {
                bytes += key.len() + value.len();
                ControlFlow::Continue(())
            };
            snapshot.scan(&KeyRange::all(), Direction::Ascending, &mut visit).unwrap();
            black_box(bytes)
        });
    });
    group.finish();
}
