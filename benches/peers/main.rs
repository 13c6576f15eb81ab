//! Measures rereduce and its peers in one process run and prints one table.
//!
//! ```text
//! cargo bench --manifest-path benches/peers/Cargo.toml                  10,000 and 100,000 rows
//! cargo bench --manifest-path benches/peers/Cargo.toml -- --full        and 1,000,000
//! cargo bench --manifest-path benches/peers/Cargo.toml -- --rows 50000  one size
//! ```
//!
//! All engines are open side by side and take turns batch by batch, so that whatever else the
//! machine does hits them alike. Times are medians of these turns, rates come from their sum.
//! What waits for the disk is measured by the clock on the wall; lookups, scans and reductions,
//! which do not, by the processor time of their thread.
//!
//! Invariant: a figure of ours stands in the table only beside the figure of a peer, or beside
//! plain appends, from the same run.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use rereduce_peers::{DATABASE, Engine, Kind, NEBARI, NEBARI_VERSIONED, REDB, Row, SQLITE, STORE};

#[path = "../documents.rs"]
mod documents;
use documents::{Numbers, body, id, id_behind};

/// Every engine, ours first.
const KINDS: [Kind; 6] = [STORE, DATABASE, REDB, SQLITE, NEBARI, NEBARI_VERSIONED];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mut sizes = vec![10_000, 100_000];
    if arguments.iter().any(|argument| argument == "--full") {
        sizes.push(1_000_000);
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--rows") {
        sizes = vec![arguments[at + 1].parse().expect("--rows takes a number")];
    }
    let runs: Vec<Vec<Figures>> = sizes.iter().map(|&rows| measure(rows)).collect();
    for (rows, figures) in sizes.iter().zip(&runs) {
        print_table(*rows, figures);
    }
    print_growth(&sizes, &runs);
}

/// What was measured of one engine.
#[derive(Clone, Default)]
struct Figures {
    /// Rows a second of a sorted load in durable batches of 1,000.
    load: f64,
    /// The same, the time for reading JSON not counted.
    load_parsed: f64,
    /// Microseconds of processor time a row of that load, in all threads.
    load_cpu: f64,
    /// Rows a second of random upserts in durable batches of 100.
    upsert: f64,
    /// Microseconds of one durable insert, and bytes appended by it.
    insert: f64,
    insert_bytes: Option<f64>,
    /// Microseconds of a plain append and flush of as many bytes, taking turns with it.
    append: f64,
    /// Microseconds of a random lookup in memory.
    get: f64,
    /// Rows a second of a scan.
    scan: f64,
    /// Microseconds of a reduction over a random range.
    count: Option<f64>,
    /// Milliseconds to open a copy of the files of an engine that was not closed.
    reopen: f64,
    /// Bytes of live data a second, and a second of processor time.
    compact: f64,
    compact_cpu: f64,
    /// Bytes of the files after the load, and after the compaction that follows the upserts.
    loaded_bytes: f64,
    compacted_bytes: f64,
}

struct Runner {
    kind: Kind,
    directory: tempfile::TempDir,
    engine: Box<dyn Engine>,
    figures: Figures,
}

fn measure(rows: u64) -> Vec<Figures> {
    let mut runners: Vec<Runner> = KINDS
        .iter()
        .map(|kind| {
            let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let engine = (kind.open)(directory.path());
            Runner { kind: *kind, directory, engine, figures: Figures::default() }
        })
        .collect();
    eprintln!("{rows} rows: load");
    load(&mut runners, rows);
    eprintln!("{rows} rows: inserts");
    inserts(&mut runners, rows);
    eprintln!("{rows} rows: reads");
    reads(&mut runners, rows);
    eprintln!("{rows} rows: upserts");
    upserts(&mut runners, rows);
    eprintln!("{rows} rows: reopen and compact");
    // All reopen before the first compaction: that one frees a cache of a million small pieces, and
    // the allocator sorts them at the expense of whoever asks for memory next.
    runners.iter_mut().for_each(Runner::reopen);
    runners.iter_mut().for_each(|runner| runner.compact(rows));
    runners.into_iter().map(|runner| runner.figures).collect()
}

fn load(runners: &mut [Runner], rows: u64) {
    let mut spent = vec![(Duration::ZERO, Duration::ZERO); runners.len()];
    for batch in (0..rows).step_by(1000) {
        let batch: Vec<Row> =
            (batch..batch + 1000).map(|n| (id(n).into_bytes(), body(n, 0).into_bytes())).collect();
        for (runner, spent) in runners.iter_mut().zip(&mut spent) {
            let begin = cpu(ClockId::ProcessCPUTime);
            spent.0 += timed(|| runner.engine.put(&batch));
            spent.1 += cpu(ClockId::ProcessCPUTime) - begin;
        }
    }
    for (runner, spent) in runners.iter_mut().zip(spent) {
        runner.figures.load = rows as f64 / spent.0.as_secs_f64();
        let parsed = spent.0 - runner.engine.parsing();
        runner.figures.load_parsed = rows as f64 / parsed.as_secs_f64();
        runner.figures.load_cpu = spent.1.as_secs_f64() * 1e6 / rows as f64;
        runner.figures.loaded_bytes = bytes_in(runner.directory.path()) as f64;
    }
}

/// Single inserts at random places, each followed by a plain append of as many bytes. Here one
/// engine comes after the other, since a lone commit is small enough to feel a cold processor.
fn inserts(runners: &mut [Runner], rows: u64) {
    const TURNS: u64 = 500;
    let plain_directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for runner in runners {
        let mut plain = File::create(plain_directory.path().join(runner.kind.name)).unwrap();
        let mut numbers = Numbers::new(1);
        let (mut puts, mut appends) = (Vec::new(), Vec::new());
        let first = runner.engine.written();
        for turn in 0..TURNS {
            let n = numbers.below(rows);
            let row = [(id_behind(n, turn).into_bytes(), body(n, 1).into_bytes())];
            let before = runner.engine.written();
            puts.push(timed(|| runner.engine.put(&row)));
            let bytes = match (before, runner.engine.written()) {
                (Some(before), Some(after)) => after.0 - before.0,
                _ => 280,
            };
            let bytes = vec![7; bytes as usize];
            appends.push(timed(|| {
                plain.write_all(&bytes).unwrap();
                plain.sync_data().unwrap();
            }));
        }
        runner.figures.insert = median_us(puts);
        runner.figures.append = median_us(appends);
        if let (Some(first), Some(last)) = (first, runner.engine.written()) {
            assert_eq!(last.1 - first.1, TURNS, "one flush a commit");
            runner.figures.insert_bytes = Some((last.0 - first.0) as f64 / TURNS as f64);
        }
    }
}

fn reads(runners: &mut [Runner], rows: u64) {
    let mut numbers = Numbers::new(2);
    let keys: Vec<Vec<u8>> = (0..20_000).map(|_| id(numbers.below(rows)).into_bytes()).collect();
    for runner in runners.iter_mut() {
        runner.engine.scan();
        runner.engine.get(&keys);
    }
    let (mut gets, mut scans) = (vec![Vec::new(); runners.len()], vec![Vec::new(); runners.len()]);
    for _ in 0..5 {
        for ((runner, gets), scans) in runners.iter_mut().zip(&mut gets).zip(&mut scans) {
            gets.push(worked(|| assert!(runner.engine.get(&keys) > 0)));
            scans.push(worked(|| assert!(runner.engine.scan() >= rows)));
        }
    }
    for ((runner, gets), scans) in runners.iter_mut().zip(gets).zip(scans) {
        runner.figures.get = median_us(gets) / keys.len() as f64;
        runner.figures.scan = rows as f64 / (median_us(scans) / 1e6);
        let mut counts = Vec::new();
        let begin = Instant::now();
        while counts.len() < 2000 && (counts.len() < 20 || begin.elapsed().as_millis() < 500) {
            let (one, two) = (numbers.below(rows), numbers.below(rows));
            let (from, to) = (id(one.min(two)), id(one.max(two)));
            let mut counted = None;
            counts.push(worked(|| {
                counted = runner.engine.count(from.as_bytes(), to.as_bytes());
            }));
            runner.figures.count = counted.map(|_| 0.0);
        }
        runner.figures.count = runner.figures.count.map(|_| median_us(counts));
    }
}

/// Upserts of random rows, for all engines but our database, whose edits name revisions.
fn upserts(runners: &mut [Runner], rows: u64) {
    let mut numbers = Numbers::new(3);
    let turns = (rows / 1000).clamp(50, 300);
    let mut spent = vec![Duration::ZERO; runners.len()];
    for turn in 0..turns {
        let mut chosen: Vec<u64> = (0..100).map(|_| numbers.below(rows)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let row = |n: &u64| (id(*n).into_bytes(), body(*n, 2 + turn).into_bytes());
        let batch: Vec<Row> = chosen.iter().map(row).collect();
        for (runner, spent) in runners.iter_mut().zip(&mut spent) {
            if runner.kind.name != DATABASE.name {
                *spent += timed(|| runner.engine.put(&batch));
            }
        }
    }
    for (runner, spent) in runners.iter_mut().zip(spent) {
        runner.figures.upsert = turns as f64 * 100.0 / spent.as_secs_f64();
    }
}

impl Runner {
    /// Opens copies of the files as they are while the engine runs: what SIGKILL leaves behind.
    fn reopen(&mut self) {
        let mut spent = Vec::new();
        for _ in 0..3 {
            let copy = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            copy_files(self.directory.path(), copy.path());
            let mut engine = None;
            spent.push(timed(|| engine = Some((self.kind.open)(copy.path()))));
        }
        self.figures.reopen = median_us(spent) / 1e3;
    }

    fn compact(&mut self, rows: u64) {
        let begin = cpu(ClockId::ProcessCPUTime);
        let spent = timed(|| self.engine.compact());
        let worked = cpu(ClockId::ProcessCPUTime) - begin;
        self.figures.compacted_bytes = bytes_in(self.directory.path()) as f64;
        let live: u64 = (0..1000).map(|n| (id(n).len() + body(n, 0).len()) as u64).sum();
        let live = (live * rows / 1000) as f64;
        self.figures.compact = live / spent.as_secs_f64();
        self.figures.compact_cpu = live / worked.as_secs_f64();
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// Processor time of this thread for `work`.
fn worked(work: impl FnOnce()) -> Duration {
    let begin = cpu(ClockId::ThreadCPUTime);
    work();
    cpu(ClockId::ThreadCPUTime) - begin
}

fn cpu(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn files(directory: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, visit) } else { visit(&path) }
    }
}

fn bytes_in(directory: &Path) -> u64 {
    let mut bytes = 0;
    files(directory, &mut |path| bytes += path.metadata().unwrap().len());
    bytes
}

fn copy_files(from: &Path, to: &Path) {
    files(from, &mut |path| {
        let target = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(path, &target).unwrap();
        // What opens it next is not to wait for the disk to take the copy.
        std::fs::File::open(target).unwrap().sync_all().unwrap();
    });
}

fn print_table(rows: u64, figures: &[Figures]) {
    println!("\n## {rows} rows\n");
    print!("| |");
    KINDS.iter().for_each(|kind| print!(" {} |", kind.name));
    println!("\n|---|{}", "---:|".repeat(KINDS.len()));
    let line = |what: &str, of: &dyn Fn(&Figures) -> Option<String>| {
        print!("| {what} |");
        figures.iter().for_each(|f| print!(" {} |", of(f).unwrap_or_else(|| "–".to_string())));
        println!();
    };
    let thousands = |rate: f64| Some(format!("{:.0} k/s", rate / 1e3));
    line("sorted load, batches of 1,000", &|f| thousands(f.load));
    line("... reading JSON not counted", &|f| {
        (f.load_parsed != f.load).then(|| thousands(f.load_parsed)).flatten()
    });
    line("... processor time a row", &|f| Some(format!("{:.1} us", f.load_cpu)));
    line("random upserts, batches of 100", &|f| {
        (f.upsert.is_finite()).then(|| thousands(f.upsert)).flatten()
    });
    line("durable insert", &|f| Some(format!("{:.0} us", f.insert)));
    line("... bytes appended", &|f| f.insert_bytes.map(|bytes| format!("{bytes:.0}")));
    line("... times a plain append of as many bytes (peers: 280)", &|f| {
        Some(format!("{:.2}", f.insert / f.append))
    });
    line("random get", &|f| Some(format!("{:.2} us", f.get)));
    line("scan", &|f| Some(format!("{:.2} M/s", f.scan / 1e6)));
    line("count of a random range", &|f| f.count.map(|us| format!("{us:.1} us")));
    line("reopen after a kill", &|f| Some(format!("{:.2} ms", f.reopen)));
    line("compaction, live data", &|f| Some(format!("{:.0} MB/s", f.compact / 1e6)));
    line("... a second of processor time", &|f| Some(format!("{:.0} MB/s", f.compact_cpu / 1e6)));
    line("bytes after the load / compacted", &|f| {
        Some(format!("{:.1} / {:.1} MB", f.loaded_bytes / 1e6, f.compacted_bytes / 1e6))
    });
    println!(
        "\nours to peer: sorted load of the store {:.2} x redb, {:.2} x SQLite; of the database {:.2} x nebari versioned; upserts {:.2} x redb; get {:.2} x redb's time",
        figures[0].load / figures[2].load,
        figures[0].load / figures[3].load,
        figures[1].load_parsed / figures[5].load,
        figures[0].upsert / figures[2].upsert,
        figures[0].get / figures[2].get,
    );
}

/// The exponent k of cost ~ rows^k between the smallest and the largest size.
fn print_growth(sizes: &[u64], runs: &[Vec<Figures>]) {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return };
    if runs.len() < 2 {
        return;
    }
    let times = (sizes[sizes.len() - 1] as f64 / sizes[0] as f64).ln();
    println!("\n## Growth of cost per operation with the number of rows (exponents)\n");
    println!("| | load | insert | bytes | get | scan a row | count | reopen |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for (kind, (small, large)) in KINDS.iter().zip(first.iter().zip(last)) {
        let exponent = |small: f64, large: f64| format!("{:.2}", (large / small).ln() / times);
        let maybe = |small: Option<f64>, large: Option<f64>| match (small, large) {
            (Some(small), Some(large)) => exponent(small, large),
            _ => "–".to_string(),
        };
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            kind.name,
            exponent(1.0 / small.load, 1.0 / large.load),
            exponent(small.insert, large.insert),
            maybe(small.insert_bytes, large.insert_bytes),
            exponent(small.get, large.get),
            exponent(1.0 / small.scan, 1.0 / large.scan),
            maybe(small.count, large.count),
            exponent(small.reopen, large.reopen),
        );
    }
}
