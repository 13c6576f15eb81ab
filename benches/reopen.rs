//! How long it takes to open a file again, after a clean close and after a kill.
//!
//! `cargo bench --bench reopen` works on 20,000 rows; `REREDUCE_BENCH_ROWS=1000000` sets another
//! number. A copy of the file of a running store is what SIGKILL would leave.
//!
//! Invariant: every opening reads a file that no handle has open.

use std::time::Duration;

use criterion::Criterion;
use rereduce::env::Env;
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::Edit;

mod documents;
use documents::{body, id, rows};

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (live, killed) = (directory.path().join("a.rereduce"), directory.path().join("b.rereduce"));
    let open = |path| Store::open(Env::real(), path, StoreOptions::default()).unwrap();
    let store = open(&live);
    let put = |n| Edit::put(id(n), body(n, 0));
    for first in (0..rows()).step_by(1000) {
        store.commit((first..first + 1000).map(put).collect()).unwrap();
    }
    std::fs::copy(&live, &killed).unwrap();
    store.close().unwrap();
    let mut group = criterion.benchmark_group("reopen");
    group.bench_function("after a close", |bencher| bencher.iter(|| open(&live)));
    group.bench_function("after a kill", |bencher| bencher.iter(|| open(&killed)));
    // A crash in the middle of a large commit leaves bytes behind the last one.
    let mut torn = std::fs::OpenOptions::new().append(true).open(&killed).unwrap();
    std::io::Write::write_all(&mut torn, &vec![0x5a; 900 << 10]).unwrap();
    group.bench_function("after a kill, 900 KiB of a torn commit", |bencher| {
        bencher.iter(|| open(&killed));
    });
    group.finish();
    criterion.final_summary();
}
