//! What mapping a document in JavaScript costs, and where: text in, QuickJS, rows out.
//!
//! ```text
//!   map            all of it
//!     text         the document as text
//!     empty        what a runner without functions does: text in, parse, freeze
//!     rows         reading the text of the rows
//! ```
//!
//! The profile printed at the end is made of these; what is left is the function itself and writing
//! its rows.
//!
//! Invariant: what is measured is checked first.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use rereduce::doc::write_stored;
use rereduce::view::functions::{Language, ReducedRow, Runner, Sources};
use rereduce::view::javascript::{JavaScript, Limits};
use rereduce::vocabulary::Json;

/// About 300 bytes, as the documents by which CouchDB was measured.
const DOCUMENT: &str = r#"{"_id":"0000000001","_rev":"1-05141c03ff5da55cdf341afb65cacd50","type":"flight","origin":"JFK","destination":"LAX","year":2001,"month":1,"day":17,"delay":12,"speed":-3.5,"carrier":"AA","tail":"N12345","distance":2475,"air":{"minutes":345,"gate":"B22","stops":[1,2,3]},"note":"long enough for three hundred bytes"}"#;

const MAP: &str = "function(doc) { emit([doc.year, doc.month, doc.day], doc.delay); }";

const ROWS: &str = "[[[[2001,1,17],12]]]";

const REDUCE: &str = "function(keys, values, rereduce) { return sum(values); }";

/// Rows of a leaf, about as many as 4 KiB hold.
const LEAF_ROWS: usize = 100;

/// Documents for the profile.
const PROFILE_DOCUMENTS: u32 = 50_000;

fn runner(maps: &[&str]) -> Box<dyn Runner> {
    let sources = Sources {
        maps: maps.iter().map(|&source| source.to_owned()).collect(),
        reduces: vec![REDUCE.to_owned()],
        ..Sources::default()
    };
    JavaScript::new(Limits::default()).start(&sources).unwrap()
}

/// Seconds a document.
fn seconds(mut work: impl FnMut()) -> f64 {
    let begin = Instant::now();
    (0..PROFILE_DOCUMENTS).for_each(|_| work());
    begin.elapsed().as_secs_f64() / f64::from(PROFILE_DOCUMENTS)
}

fn main() {
    let document = Json::parse(DOCUMENT.as_bytes()).unwrap();
    let (mut mapping, mut empty) = (runner(&[MAP]), runner(&[]));
    let rows = mapping.map(&document).unwrap();
    assert_eq!(format!("{} {}", rows[0][0].0, rows[0][0].1), "[2001,1,17] 12");
    let row = |index: usize| -> ReducedRow {
        (Json::from(index as i64), format!("{index:010}"), Json::from(index as f64 / 4.0))
    };
    let leaf: Vec<ReducedRow> = (0..LEAF_ROWS).map(row).collect();
    let text = || {
        let mut text = Vec::with_capacity(DOCUMENT.len());
        write_stored(&document, &mut text);
        black_box(text);
    };

    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    let mut group = criterion.benchmark_group("javascript");
    group.throughput(Throughput::Elements(1));
    group.bench_function("map", |bench| bench.iter(|| mapping.map(&document).unwrap()));
    group.bench_function("text", |bench| bench.iter(text));
    group.bench_function("empty", |bench| bench.iter(|| empty.map(&document).unwrap()));
    group.bench_function("rows", |bench| {
        bench.iter(|| Json::parse(black_box(ROWS).as_bytes()).unwrap());
    });
    group.throughput(Throughput::Elements(LEAF_ROWS as u64));
    group.bench_function("reduce", |bench| bench.iter(|| mapping.reduce(0, &leaf).unwrap()));
    group.finish();

    let whole = seconds(|| drop(black_box(mapping.map(&document).unwrap())));
    let text = seconds(text);
    let parsed = seconds(|| drop(black_box(empty.map(&document).unwrap()))) - text;
    let rows = seconds(|| drop(black_box(Json::parse(black_box(ROWS).as_bytes()).unwrap())));
    let share = |part: f64| 100.0 * part / whole;
    println!(
        "profile: {:.0} documents/s; text in {:.0} %, parse and freeze {:.0} %, function and text \
         out {:.0} %, rows {:.0} %",
        1.0 / whole,
        share(text),
        share(parsed),
        share(whole - text - parsed - rows),
        share(rows)
    );
    criterion.final_summary();
}
