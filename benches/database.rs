//! What the document database costs: JSON, revision ids, revision trees and the sequence index on
//! top of what the store costs.
//!
//! `cargo bench --bench database` works on 20,000 documents; `REREDUCE_BENCH_ROWS=1000000` sets
//! another number.
//!
//! Invariant: every write is durable when it is counted.

use std::ops::ControlFlow;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::env::Env;
use rereduce::vocabulary::Direction;

mod documents;
use documents::{Numbers, body, body_with, id, id_behind, rows};

fn texts(from: u64, count: u64) -> Vec<(String, String)> {
    (from..from + count).map(|n| (id(n), body(n, 0))).collect()
}

fn parse(texts: &[(String, String)]) -> Vec<DocEdit> {
    texts.iter().map(|(id, json)| DocEdit::parse(id, json.as_bytes()).unwrap()).collect()
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = DatabaseOptions { cache_bytes: 1 << 30, ..DatabaseOptions::default() };
    let path = directory.path().join("documents.rereduce");
    let db = Database::open(Env::real(), &path, options).unwrap();
    for first in (0..rows()).step_by(1000) {
        db.edit(parse(&texts(first, 1000))).unwrap();
    }
    writes(&mut criterion, &db);
    reads(&mut criterion, &db);
    let mut group = criterion.benchmark_group("database");
    group.throughput(Throughput::Bytes(rows() * 297));
    group.bench_function("compaction", |bencher| {
        bencher.iter(|| db.compact(&mut || ControlFlow::Continue(())).unwrap());
    });
    group.finish();
    criterion.final_summary();
}

fn writes(criterion: &mut Criterion, db: &Database) {
    let mut group = criterion.benchmark_group("database");
    group.throughput(Throughput::Elements(1000));
    let texts_to_parse = texts(0, 1000);
    group.bench_function("parsing of 1,000 documents", |bencher| {
        bencher.iter(|| parse(&texts_to_parse));
    });
    let mut next = rows();
    group.bench_function("sorted load, batches of 1,000, parsing included", |bencher| {
        let batch = || {
            next += 1000;
            texts(next - 1000, 1000)
        };
        let edit = |texts: Vec<(String, String)>| db.edit(parse(&texts)).unwrap();
        bencher.iter_batched(batch, edit, BatchSize::PerIteration);
    });
    group.throughput(Throughput::Elements(1));
    let mut numbers = Numbers::new(1);
    let mut nth = 0;
    group.bench_function("durable insert", |bencher| {
        let edit = || {
            nth += 1;
            let id = id_behind(numbers.below(rows()), nth);
            vec![DocEdit::parse(&id, body(nth, 0).as_bytes()).unwrap()]
        };
        bencher.iter_batched(edit, |edit| db.edit(edit).unwrap(), BatchSize::PerIteration);
    });
    group.bench_function("durable update", |bencher| {
        let edit = || {
            let n = numbers.below(rows());
            let rev = db.snapshot().unwrap().document(&id(n), None).unwrap().rev().unwrap();
            let json = body_with(n, numbers.next(), &format!("\"_rev\":\"{rev}\","));
            vec![DocEdit::parse(&id(n), json.as_bytes()).unwrap()]
        };
        bencher.iter_batched(edit, |edit| db.edit(edit).unwrap(), BatchSize::PerIteration);
    });
    group.finish();
}

fn reads(criterion: &mut Criterion, db: &Database) {
    let snapshot = db.snapshot().unwrap();
    let mut group = criterion.benchmark_group("database");
    let mut numbers = Numbers::new(2);
    group.bench_function("random document", |bencher| {
        let id = || id(numbers.below(rows()));
        let read = |id: String| snapshot.document(&id, None).unwrap();
        bencher.iter_batched(id, read, BatchSize::SmallInput);
    });
    group.throughput(Throughput::Elements(snapshot.info().doc_count));
    group.bench_function("all changes", |bencher| {
        bencher.iter(|| {
            let mut count = 0;
            let mut visit = |_| {
                count += 1;
                ControlFlow::Continue(())
            };
            snapshot.changes(0, Direction::Ascending, &mut visit).unwrap();
            count
        });
    });
    group.finish();
}
