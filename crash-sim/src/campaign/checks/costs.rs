//! What operations cost, counted: flushes, bytes appended, reads.
//!
//! Invariant: only counts are compared, never time.

use std::path::Path;

use rereduce::db::{DatabaseOptions, DocEdit};
use rereduce::file::Protocol;
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::Edit;

use super::{Outcome, disk, expect, open_database, open_store};
use crate::campaign::Context;
use crate::disk::SimDisk;
use crate::oracle::{DATABASE, environment};
use crate::trace::{Call, Entry};

/// Bytes that a small commit appends at most: a path of the tree, and a footer pair.
const COMMIT_BYTES_MAX: u64 = 16 << 10;

/// Commits of the history that is gone back in.
const HISTORY: u64 = 400;

/// Reads that finding one of them may take: a footer for each bit of the distance, twice.
const LOOK_BACK_READS_MAX: usize = 60;

pub(super) fn are_as_stated(context: &Context) -> Outcome {
    commits_cost_what_their_protocol_says(context)?;
    nothing_changed_costs_nothing(context)?;
    large_commits_are_flushed_before_their_footer(context)?;
    old_commits_are_found_in_few_reads(context)?;
    a_sealed_file_opens_in_few_reads(context)?;
    a_sorted_load_writes_little_more_than_its_rows(context)
}

fn commits_cost_what_their_protocol_says(context: &Context) -> Outcome {
    for (protocol, flushes) in
        [(Protocol::Verified, 1), (Protocol::Barrier, 2), (Protocol::Guide, 2)]
    {
        let options = StoreOptions { protocol, ..StoreOptions::default() };
        let store = open_store(&disk(), context, options)?;
        store.commit((0..500).map(|key| Edit::put(format!("{key:03}"), "v")).collect())?;
        for round in 0..20 {
            let before = store.counts();
            store.commit(vec![Edit::put(format!("{:03}", round * 23), round.to_string())])?;
            let after = store.counts();
            let (flushed, appended) =
                (after.flushes - before.flushes, after.bytes_appended - before.bytes_appended);
            let what = format!("{protocol:?}: {flushed} flushes, {appended} bytes a commit");
            expect(flushed == flushes && appended <= COMMIT_BYTES_MAX, what)?;
        }
    }
    Ok(())
}

fn nothing_changed_costs_nothing(context: &Context) -> Outcome {
    let store = open_store(&disk(), context, StoreOptions::default())?;
    store.commit(vec![Edit::put("a", "1"), Edit::put("b", "2")])?;
    let before = store.counts();
    for edits in [vec![Edit::put("a", "1")], vec![Edit::remove("c"), Edit::put("b", "2")], vec![]] {
        store.commit(edits)?;
    }
    let same = store.counts() == before && store.snapshot()?.number() == 1;
    expect(same, "edits that change nothing made a commit")?;

    let db = open_database(&disk(), context, DatabaseOptions::default())?;
    db.edit(vec![DocEdit::parse("a", b"{}")?])?.remove(0)?;
    let (before, number) = (db.counts(), db.snapshot()?.number());
    for _ in 0..2 {
        let refused = db.edit(vec![DocEdit::parse("a", b"{\"v\":1}")?])?.remove(0).is_err();
        expect(refused, "an edit without its base was taken")?;
    }
    let same = db.counts() == before && db.snapshot()?.number() == number;
    expect(same, "a group in which every edit is rejected made a commit")
}

fn large_commits_are_flushed_before_their_footer(context: &Context) -> Outcome {
    for (size, flushes) in [(500_000, 1), (1_200_000, 2), (5_000_000, 2)] {
        let store = open_store(&disk(), context, StoreOptions::default())?;
        store.commit(vec![Edit::put("a", "1")])?;
        let before = store.counts().flushes;
        store.commit(vec![Edit::put("large", vec![b'l'; size])])?;
        let flushed = store.counts().flushes - before;
        expect(flushed == flushes, format!("{flushed} flushes for a commit of {size} bytes"))?;
    }
    Ok(())
}

fn reads(disk: &SimDisk, before: usize) -> usize {
    let trace = disk.trace();
    let since = trace.iter().skip(before);
    since.filter(|entry| matches!(entry, Entry::Call(Call::Read { .. }, _))).count()
}

fn old_commits_are_found_in_few_reads(context: &Context) -> Outcome {
    let disk = SimDisk::new();
    let options = StoreOptions { cache_bytes: 0, ..StoreOptions::default() };
    let store = open_store(&disk, context, options)?;
    for number in 1..=HISTORY {
        store.commit(vec![Edit::put("k", number.to_string())])?;
    }
    for number in [1, 2, 97, 200, HISTORY - 1] {
        let before = disk.trace().len();
        let found = store.snapshot_at(number)?.get(b"k")?;
        let reads = reads(&disk, before);
        let right = found == Some(number.to_string().into_bytes());
        let what = format!("commit {number} of {HISTORY}: right {right}, {reads} reads");
        expect(right && reads <= LOOK_BACK_READS_MAX, what)?;
    }
    Ok(())
}

/// A file that was closed opens without a look at what its last commit covers.
fn a_sealed_file_opens_in_few_reads(context: &Context) -> Outcome {
    let disk = SimDisk::new();
    let store = open_store(&disk, context, StoreOptions::default())?;
    store.commit(vec![Edit::put("k", vec![b'v'; 600_000])])?;
    store.close()?;
    drop(store);
    let env = environment(&disk, context.seed);
    let store = Store::open(env, Path::new(DATABASE), StoreOptions::default())?;
    let read = store.recovery().bytes_read;
    expect(read < 100_000, format!("opening a sealed file read {read} bytes"))
}

fn a_sorted_load_writes_little_more_than_its_rows(context: &Context) -> Outcome {
    let store = open_store(&disk(), context, StoreOptions::default())?;
    let mut rows = 0;
    for batch in 0..10 {
        let put = |number: u32| Edit::put(format!("key-{number:06}"), vec![b'v'; 200]);
        store.commit((batch * 500..batch * 500 + 500).map(put).collect())?;
        rows += 500 * 210;
    }
    let appended = store.counts().bytes_appended;
    expect(appended * 100 <= rows * 130, format!("{appended} bytes appended for {rows} of rows"))
}
