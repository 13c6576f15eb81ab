//! What views cost: a build and where its time goes, one changed document, groups, exact sums.
//!
//! ```text
//! cargo bench --bench views                       200,000 flights, indexes of 10^3 to 10^5 rows
//! cargo bench --bench views -- --full             and of 10^6
//! REREDUCE_FLIGHTS=flights.json cargo bench ...   a JSON array of flights in place of the few here
//! ```
//!
//! Tables come first, each measured once; what criterion measures many times follows.
//!
//! Invariant: databases and indexes lie on a disk, and each commit is flushed, unless a line says
//! otherwise.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use rereduce::btree::{NodeCache, Shape, Tree};
use rereduce::collate::Collation;
use rereduce::db::{Database, DatabaseOptions, DocEdit};
use rereduce::doc::{DocId, Draft, Show};
use rereduce::env::Env;
use rereduce::file::MemoryChunks;
use rereduce::reduce::{Reducer, Row};
use rereduce::view::builtin::Builtin;
use rereduce::view::design::{DesignDoc, Reduce};
use rereduce::view::functions::{Emitted, Language, ReducedRow, Runner, RustMaps, Sources};
use rereduce::view::index::{Update, Views, ViewsOptions};
use rereduce::view::query::{ViewQuery, run};
use rereduce::view::reducer::{ShownReducer, ViewReducer};
use rereduce::view::row::{RowPlace, ViewRow};
use rereduce::vocabulary::{Edit, Json};

mod documents;
mod indexes;
use documents::{Numbers, id};
use indexes::Indexed;

/// CouchDB 3.5.2's build with a JavaScript map and `_sum` on a machine of this kind: documents of
/// 300 bytes in a second.
const COUCHDB_DOCUMENTS_A_SECOND: f64 = 4_355.0;

const FLIGHTS: usize = 200_000;

fn main() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let flights = load(directory.path().join("flights"), flights());
    profile(&flights);
    exact_sums(&flights);
    #[cfg(feature = "javascript")]
    javascript::builds(directory.path());
    let full = std::env::args().any(|argument| argument == "--full");
    changes(if full { 1_000_000 } else { 100_000 });
    groups();
    measured(&flights);
}

/// A database and where it lies.
struct Loaded {
    db: Arc<Database>,
    path: std::path::PathBuf,
    count: usize,
}

/// As many flights as are asked for; of a small file again and again, each a little different.
fn flights() -> Vec<Json> {
    let here = format!("{}/tests/data/flights-200.json", env!("CARGO_MANIFEST_DIR"));
    let path = std::env::var("REREDUCE_FLIGHTS").unwrap_or(here);
    let Json::Array(flights) = Json::parse(&std::fs::read(&path).unwrap()).unwrap() else {
        panic!("{path} is no array");
    };
    let known = flights.len();
    let flight = |n: usize| {
        let Json::Object(mut members) = flights[n % known].clone() else { panic!("no flight") };
        if n >= known {
            members.retain(|(name, _)| name != "time");
            members.push(("time".to_owned(), Json::from((n % 9600) as f64 / 100.0)));
        }
        Json::Object(members)
    };
    (0..FLIGHTS).map(flight).collect()
}

fn load(path: std::path::PathBuf, documents: Vec<Json>) -> Loaded {
    let db = Database::open(Env::real(), &path, DatabaseOptions::default()).unwrap();
    let count = documents.len();
    let edits = documents.into_iter().enumerate().map(|(n, json)| DocEdit {
        id: DocId::new(id(n as u64)).unwrap(),
        draft: Draft::from_json(json).unwrap(),
        uploads: Vec::new(),
    });
    let edits: Vec<DocEdit> = edits.collect();
    for batch in edits.chunks(1000) {
        db.edit(batch.to_vec()).unwrap();
    }
    Loaded { db: Arc::new(db), path, count }
}

/// Distance and delay as key, the delay as value.
fn by_distance(document: &Json, emit: &mut dyn FnMut(Json, Json)) {
    let member = |name| document.member(name).cloned().unwrap_or(Json::Null);
    emit(Json::Array(vec![member("distance"), member("delay")]), member("delay"));
}

fn sums() -> (DesignDoc, RustMaps) {
    let views = [("by_distance", Some(Reduce::Builtin(Builtin::Sum)))];
    (DesignDoc::of_rust("flights-1", &views), RustMaps::new(vec![Arc::new(by_distance)]))
}

/// Builds the index of `design` from nothing; what it took, and the rows of its first view.
fn build(
    loaded: &Loaded,
    env: Env,
    design: &DesignDoc,
    language: Arc<dyn Language>,
    threads: usize,
) -> (Duration, Views) {
    let options = ViewsOptions { threads, ..ViewsOptions::default() };
    let views = Views::open(env, loaded.db.clone(), &loaded.path, options).unwrap();
    views.clean_up(&[]).unwrap();
    let began = Instant::now();
    let index = views.index(design, &language).unwrap();
    index.snapshot(Update::True).unwrap();
    assert_eq!(index.counts().mapped, loaded.count as u64);
    (began.elapsed(), views)
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let done = work();
    (began.elapsed(), done)
}

/// Where the time of a build goes: each part by itself, beside the whole in one thread.
fn profile(flights: &Loaded) {
    let (design, language) = sums();
    let language: Arc<dyn Language> = Arc::new(language);
    let (on_disk, _) = build(flights, Env::real(), &design, language.clone(), 1);
    let (in_memory, _) = build(flights, Env::memory(), &design, language.clone(), 1);
    let all = ViewsOptions::default().threads;
    let (parallel, _) = build(flights, Env::real(), &design, language, all);
    let snapshot = flights.db.snapshot().unwrap();
    let ids: Vec<String> = (0..flights.count as u64).map(id).collect();
    let (read, documents) = timed(|| {
        let read = |id: &String| snapshot.document(id, None).unwrap().to_json(&Show::default());
        ids.iter().map(read).collect::<Vec<Json>>()
    });
    let (map, emitted) = timed(|| {
        let emit = |document| rereduce::view::functions::emitted_by(&by_distance, document);
        documents.iter().map(emit).collect::<Vec<Vec<Emitted>>>()
    });
    let (keys, places) = timed(|| {
        let place = |(id, rows): (&String, &Vec<Emitted>)| {
            let mut sort_key = Vec::new();
            Collation::Unicode.sort_key(&rows[0].0, &mut sort_key);
            RowPlace { sort_key: &sort_key, id: id.into(), emit: 0 }.encode()
        };
        ids.iter().zip(&emitted).map(place).collect::<Vec<Vec<u8>>>()
    });
    let (encoding, values) = timed(|| {
        let value = |rows: &Vec<Emitted>| ViewRow::encode(&rows[0].0, &rows[0].1);
        emitted.iter().map(value).collect::<Vec<Vec<u8>>>()
    });
    let rows: Vec<Edit> =
        places.into_iter().zip(values).map(|(key, value)| Edit::put(key, value)).collect();
    let by_id: Vec<Edit> = ids.iter().map(|id| Edit::put(id.as_bytes(), vec![7; 16])).collect();
    let order = Arc::new(|one: &Json, two: &Json| Collation::Unicode.compare(one, two));
    let sum = Builtin::Sum.reducer(order, ViewsOptions::default().reduce_limit);
    let sum = Shape::with_reducer(ViewReducer::Some(Arc::new(sum)));
    let (view_tree, _) = timed(|| tree(&sum, &rows));
    let (bare_tree, _) = timed(|| tree(&Shape::with_reducer(ViewReducer::None), &rows));
    let (id_tree, _) = timed(|| tree(&Shape::with_reducer(ViewReducer::None), &by_id));
    println!("\nBuild of {} rows, a Rust map with _sum, one thread", flights.count);
    let whole = on_disk.as_secs_f64();
    let line = |what: &str, spent: Duration| {
        let seconds = spent.as_secs_f64();
        println!("| {what} | {seconds:.2} | {:.0} % |", seconds / whole * 100.0);
    };
    println!("| part | seconds | of the build |\n|---|---:|---:|");
    line("documents read and parsed", read);
    line("map function", map);
    line("sort keys and places", keys);
    line("rows encoded", encoding);
    line("tree of the view, rows sorted and written", bare_tree);
    line("... its sums", view_tree.saturating_sub(bare_tree));
    line("tree of ids", id_tree);
    line("disk: appends and flushes", on_disk.saturating_sub(in_memory));
    let parts = read + map + keys + encoding + view_tree + id_tree;
    line("everything else", in_memory.saturating_sub(parts));
    line("whole", on_disk);
    line(&format!("whole, {all} threads map"), parallel);
    let rate = flights.count as f64 / whole;
    println!("{rate:.0} documents/s in one thread\n");
}

/// A tree of these rows, put in batches as an index puts them.
fn tree(shape: &Shape, rows: &[Edit]) -> Tree {
    let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(16 << 20));
    rows.chunks(ViewsOptions::default().batch_docs)
        .fold(Tree::empty(), |tree, batch| tree.apply(&mut chunks, &cache, shape, batch).unwrap())
}

/// The least a sum can do: parse a number, add it to a double, store eight bytes.
struct Plain;

impl Reducer for Plain {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> rereduce::Result<()> {
        let number = |row: &Row<'_>| {
            let value = ViewRow::decode(row.1).map_or(&b"0"[..], |row| row.value);
            let text = std::str::from_utf8(value).unwrap_or_default();
            text.parse::<i64>().map_or_else(|_| text.parse().unwrap_or_default(), |n| n as f64)
        };
        out.extend(rows.iter().map(number).sum::<f64>().to_le_bytes());
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> rereduce::Result<()> {
        let part = |part: &&[u8]| (*part).try_into().map_or(0.0, f64::from_le_bytes);
        out.extend(parts.iter().map(part).sum::<f64>().to_le_bytes());
        Ok(())
    }
}

impl ShownReducer for Plain {
    fn show(&self, reduction: &[u8]) -> rereduce::Result<Json> {
        Ok(Json::from(reduction.try_into().map_or(0.0, f64::from_le_bytes)))
    }
}

/// Exact sums beside plain ones, end to end: build and queries, taking turns.
fn exact_sums(flights: &Loaded) {
    let (exact, maps) = sums();
    let plain = DesignDoc::of_rust("plain-1", &[("by_distance", Some(Reduce::Function(0)))]);
    let plain_maps = maps.clone().with_reducers(vec![Arc::new(Plain)]);
    let mut built = [Duration::MAX; 2];
    let mut queried = [Duration::MAX; 2];
    let mut whole = [Duration::MAX; 2];
    for _ in 0..5 {
        for (at, (design, maps)) in [(&exact, &maps), (&plain, &plain_maps)].into_iter().enumerate()
        {
            let language: Arc<dyn Language> = Arc::new(maps.clone());
            let (spent, views) = build(flights, Env::memory(), design, language.clone(), 1);
            built[at] = built[at].min(spent);
            let index = views.index(design, &language).unwrap();
            let view = index.snapshot(Update::True).unwrap().view(0).unwrap();
            for (level, spent) in [(1, &mut queried[at]), (0, &mut whole[at])] {
                let query = ViewQuery { group_level: Some(level), ..ViewQuery::default() };
                let go_on = &mut |row: rereduce::view::query::QueryRow<'_>| {
                    black_box(row);
                    Ok(ControlFlow::Continue(()))
                };
                *spent = timed(|| run(&view, None, &query, go_on).unwrap()).0.min(*spent);
            }
        }
    }
    println!("Exact sums beside plain ones, index in memory, the best of 5");
    println!("| | exact, ms | plain, ms | ratio |\n|---|---:|---:|---:|");
    for (what, [exact, plain]) in
        [("build", built), ("query by group_level 1", queried), ("query of everything", whole)]
    {
        let (exact, plain) = (exact.as_secs_f64() * 1e3, plain.as_secs_f64() * 1e3);
        println!("| {what} | {exact:.3} | {plain:.3} | {:.2} |", exact / plain);
    }
    println!();
}

/// A language that says how long its functions ran.
struct Timed {
    language: Arc<dyn Language>,
    nanoseconds: Arc<AtomicU64>,
}

struct TimedRunner {
    runner: Box<dyn Runner>,
    nanoseconds: Arc<AtomicU64>,
}

impl Language for Timed {
    fn start(&self, sources: &Sources) -> rereduce::Result<Box<dyn Runner>> {
        let runner = self.language.start(sources)?;
        Ok(Box::new(TimedRunner { runner, nanoseconds: self.nanoseconds.clone() }))
    }
}

impl Runner for TimedRunner {
    fn map(&mut self, document: &Json) -> rereduce::Result<Vec<Vec<Emitted>>> {
        let (spent, rows) = timed(|| self.runner.map(document));
        self.nanoseconds.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
        rows
    }

    fn reduce(&mut self, number: usize, rows: &[ReducedRow]) -> rereduce::Result<Json> {
        self.runner.reduce(number, rows)
    }

    fn rereduce(&mut self, number: usize, values: &[Json]) -> rereduce::Result<Json> {
        self.runner.rereduce(number, values)
    }
}

#[cfg(feature = "javascript")]
mod javascript {
    use rereduce::view::javascript::{JavaScript, Limits};

    use super::*;

    /// Builds with a JavaScript map and `_sum` over documents of 280 bytes.
    pub(super) fn builds(directory: &Path) {
        let body = |n| Json::parse(documents::body(n, 0).as_bytes()).unwrap();
        let loaded = load(directory.join("observations"), (0..100_000).map(body).collect());
        let view = br#"{"views":{"rain":{"reduce":"_sum",
            "map":"function(doc) { emit([doc.station, doc.day], doc.rain); }"}}}"#;
        let design = DesignDoc::parse(&Json::parse(view).unwrap()).unwrap();
        println!("Build of {} rows, a JavaScript map with _sum", loaded.count);
        println!(
            "| threads | seconds | documents/s | to CouchDB's {COUCHDB_DOCUMENTS_A_SECOND} | in QuickJS |"
        );
        println!("|---:|---:|---:|---:|---:|");
        for threads in [1, ViewsOptions::default().threads] {
            let nanoseconds = Arc::new(AtomicU64::new(0));
            let language = Arc::new(JavaScript::new(Limits::default()));
            let timed = Timed { language, nanoseconds: nanoseconds.clone() };
            let (spent, _) = build(&loaded, Env::real(), &design, Arc::new(timed), threads);
            let seconds = spent.as_secs_f64();
            let rate = loaded.count as f64 / seconds;
            let inside = nanoseconds.load(Ordering::Relaxed) as f64 / 1e9 / threads as f64;
            println!(
                "| {threads} | {seconds:.2} | {rate:.0} | {:.1} x | {:.0} % |",
                rate / COUCHDB_DOCUMENTS_A_SECOND,
                inside / seconds * 100.0
            );
        }
        println!();
    }
}

/// What one changed document costs indexes of several sizes, in counts.
fn changes(rows_max: u64) {
    println!("One changed document, its row moved; means of 50, nothing cached");
    println!("| rows | heights | nodes written | nodes read | bytes appended |");
    println!("|---:|---:|---:|---:|---:|");
    let sizes = (3..).map(|power| 10u64.pow(power)).take_while(|rows| *rows <= rows_max);
    for rows in sizes {
        let (mut indexed, mut numbers) = (Indexed::new(rows), Numbers::new(rows));
        let costs: Vec<_> = (0..50).map(|_| indexed.change(&mut numbers)).collect();
        let mean = |of: fn(&indexes::Cost) -> u64| {
            costs.iter().map(of).sum::<u64>() as f64 / costs.len() as f64
        };
        println!(
            "| {rows} | {:.1} | {:.1} | {:.1} | {:.0} |",
            mean(|cost| cost.heights),
            mean(|cost| cost.written),
            mean(|cost| cost.read),
            mean(|cost| cost.bytes)
        );
    }
    println!();
}

/// What queries by group read, in counts.
fn groups() {
    let indexed = Indexed::new(100_000);
    let view = indexed.index.snapshot(Update::True).unwrap().view(0).unwrap();
    let height = u64::from(view.height());
    println!("Groups of 100,000 rows, a tree of height {height}, nothing cached");
    println!("| group_level | groups | nodes read | groups x height |\n|---:|---:|---:|---:|");
    for level in 0..=2 {
        let query = ViewQuery { group_level: Some(level), ..ViewQuery::default() };
        let (mut groups, before) = (0, view.nodes_read());
        run(&view, None, &query, &mut |_| {
            groups += 1;
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        let read = view.nodes_read() - before;
        println!("| {level} | {groups} | {read} | {} |", groups * height);
    }
    println!();
}

/// Queries and updates, many times.
fn measured(flights: &Loaded) {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let (design, language) = sums();
    let language: Arc<dyn Language> = Arc::new(language);
    let (_, views) = build(flights, Env::real(), &design, language.clone(), 1);
    let index = views.index(&design, &language).unwrap();
    let view = index.snapshot(Update::True).unwrap().view(0).unwrap();
    let mut group = criterion.benchmark_group("views");
    let mut numbers = Numbers::new(3);
    group.bench_function("sum of a random range", |bencher| {
        let range = || {
            let from = numbers.below(2000) as i64;
            let edge = |distance: i64| Some(Json::Array(vec![Json::from(distance)]));
            ViewQuery { start_key: edge(from), end_key: edge(from + 300), ..ViewQuery::default() }
        };
        let sum = |query| run(&view, None, &query, &mut |_| Ok(ControlFlow::Continue(()))).unwrap();
        bencher.iter_batched(range, sum, BatchSize::SmallInput);
    });
    group.bench_function("1,000 rows", |bencher| {
        let query = ViewQuery { reduce: Some(false), limit: Some(1000), ..ViewQuery::default() };
        bencher.iter(|| run(&view, None, &query, &mut |_| Ok(ControlFlow::Continue(()))).unwrap());
    });
    let mut nth = flights.count as u64;
    group.bench_function("a document written, then the sum of everything", |bencher| {
        let edit = || {
            nth += 1;
            let json = format!("{{\"delay\":{},\"distance\":{}}}", nth % 300, nth % 2000);
            vec![DocEdit::parse(&id(nth), json.as_bytes()).unwrap()]
        };
        let query = |edit| {
            flights.db.edit(edit).unwrap();
            let view = index.snapshot(Update::True).unwrap().view(0).unwrap();
            let sum = ViewQuery::default();
            run(&view, None, &sum, &mut |_| Ok(ControlFlow::Continue(()))).unwrap()
        };
        bencher.iter_batched(edit, query, BatchSize::PerIteration);
    });
    group.finish();
    criterion.final_summary();
}
