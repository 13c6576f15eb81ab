//! What exact sums cost beside plain ones: the fold alone, and building and reducing a tree.
//!
//! `plain` reads a number by the standard library alone, adds it to a double and stores 8 bytes,
//! which is the least a reducer that parses its rows can do.
//!
//! Invariant: both reducers parse the same stored rows, and their sums are checked against each
//! other before anything is measured.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use rereduce::reduce::{Reducer, Row};
use rereduce::view::builtin::{Builtin, BuiltinReducer};
use rereduce::view::limit::ReduceLimit;
use rereduce::view::row::ViewRow;
use rereduce::vocabulary::{Json, Number};

/// Rows of a leaf, about as many as 4 KiB hold.
const LEAF_ROWS: usize = 100;

/// Children of an inner node.
const FAN_OUT: usize = 60;

struct Plain;

impl Reducer for Plain {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> rereduce::Result<()> {
        let mut sum = 0.0;
        for row in rows {
            let value = ViewRow::decode(row.1).map_or(&b"null"[..], |row| row.value);
            let text = std::str::from_utf8(value).unwrap_or_default();
            sum += match text.parse::<i64>() {
                Ok(whole) => whole as f64,
                Err(_) => text.parse().unwrap_or_default(),
            };
        }
        out.extend(f64::to_le_bytes(sum));
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> rereduce::Result<()> {
        let part = |part: &&[u8]| (*part).try_into().map_or(0.0, f64::from_le_bytes);
        let sum: f64 = parts.iter().map(part).sum();
        out.extend(sum.to_le_bytes());
        Ok(())
    }
}

fn exact() -> BuiltinReducer {
    let order = Arc::new(|_: &Json, _: &Json| std::cmp::Ordering::Equal);
    Builtin::Sum.reducer(order, ReduceLimit::Off)
}

/// Temperatures and rain as in a weather table: one decimal, some of them whole.
fn rows(count: usize, whole: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |index: usize| {
        let tenths = (index * 7919 % 1000) as i64 - 300;
        let value = match whole {
            true => Json::from(tenths),
            false => Json::from(tenths as f64 / 10.0),
        };
        let key = Json::Array(vec![Json::from(2012), Json::from((index / 31) as i64)]);
        (index.to_be_bytes().to_vec(), ViewRow::encode(&key, &value))
    };
    (0..count).map(row).collect()
}

/// All leaves and inner nodes of a tree over `rows`, as a build reduces them.
fn build(reducer: &dyn Reducer, rows: &[Row<'_>]) -> Vec<u8> {
    let mut level: Vec<Vec<u8>> = rows
        .chunks(LEAF_ROWS)
        .map(|rows| {
            let mut out = Vec::new();
            reducer.reduce(rows, &mut out).unwrap();
            out
        })
        .collect();
    while level.len() > 1 {
        level = level
            .chunks(FAN_OUT)
            .map(|parts| {
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                let mut out = Vec::new();
                reducer.rereduce(&parts, &mut out).unwrap();
                out
            })
            .collect();
    }
    level.pop().unwrap_or_default()
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for (name, whole) in [("floats", false), ("integers", true)] {
        let stored = rows(100_000, whole);
        let rows: Vec<Row<'_>> = stored.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let (exact, plain) = (exact(), build(&Plain, &rows));
        let shown = exact.show(&build(&exact, &rows)).unwrap();
        let plain = f64::from_le_bytes(plain.try_into().unwrap());
        let Json::Number(Number::Integer(_) | Number::Float(_)) = shown else { panic!("{shown}") };
        assert!((shown.to_string().parse::<f64>().unwrap() - plain).abs() < 1e-6);

        let mut group = criterion.benchmark_group(format!("sum/{name}"));
        group.throughput(Throughput::Elements(rows.len() as u64));
        group.bench_function("plain", |bench| bench.iter(|| build(&Plain, black_box(&rows))));
        group.bench_function("exact", |bench| bench.iter(|| build(&exact, black_box(&rows))));
        group.finish();
        let parts: Vec<Vec<u8>> =
            rows.chunks(LEAF_ROWS).map(|rows| build(&exact, rows)).take(FAN_OUT).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        println!("sum/{name}: {} bytes a reduction", parts[0].len());
    }
}
