//! Compactions while others write, read and compact.
//!
//! ```text
//! compaction   copy ... catch up ... catch up ... (nobody commits) last round, rename
//! writers         ^ at any call        ^               ^ waits
//! ```

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};

use rereduce::env::{Env, MemoryDisk};
use rereduce::{Error, mark};
use rereduce_crash_sim::Verb;

use crate::disks::Hooked;
use crate::support::{Handle, KINDS, Kind, PATH, Rows, bytes_of, error, over};

/// A handle that a disk's callback can reach.
type Shared = Arc<OnceLock<Handle>>;

fn hooked(
    disk: &MemoryDisk,
    hook: impl Fn(&Handle, Verb, &Path) + Send + Sync + 'static,
) -> (Env, Shared) {
    let shared = Shared::default();
    let seen = shared.clone();
    let disk = Hooked::new(disk.clone(), move |verb, path| {
        if let Some(handle) = seen.get() {
            hook(handle, verb, path);
        }
        Ok(())
    });
    (over(disk), shared)
}

fn filled(kind: Kind, env: &Env, shared: &Shared) -> Rows {
    let handle = kind.small().open(env).unwrap();
    let keys: Vec<String> = (0..12).map(|row| format!("k{row:02}")).collect();
    let edits: Vec<(&str, Option<&str>)> =
        keys.iter().map(|key| (key.as_str(), Some("0"))).collect();
    handle.write(&edits).unwrap();
    let rows = handle.rows().unwrap();
    assert!(shared.set(handle).is_ok());
    rows
}

// spec: COMPACT-1
// case: B12
#[test]
pub(crate) fn what_is_written_during_each_round_of_a_compaction_is_in_the_swapped_file() {
    for kind in KINDS {
        mark::reset();
        let disk = MemoryDisk::new();
        let armed = Arc::new(AtomicBool::new(true));
        let written = Arc::new(AtomicU64::new(0));
        let (trigger, count) = (armed.clone(), written.clone());
        // One commit in the middle of the copy and of each free round; the one that comes in the
        // last of them is left for the round in which nobody commits.
        let (env, shared) = hooked(&disk, move |handle, verb, _| {
            if verb == Verb::Read && trigger.swap(false, Ordering::AcqRel) {
                let value = (count.fetch_add(1, Ordering::AcqRel) + 1).to_string();
                handle.write(&[("k03", Some(&value)), (&format!("n{value}"), Some("1"))]).unwrap();
            }
        });
        armed.store(false, Ordering::Release);
        let mut expected = filled(kind, &env, &shared);
        let handle = shared.get().unwrap();
        armed.store(true, Ordering::Release);
        handle
            .compact_watched(&mut || {
                armed.store(true, Ordering::Release);
                ControlFlow::Continue(())
            })
            .unwrap();
        armed.store(false, Ordering::Release);
        let written = written.load(Ordering::Acquire);
        assert!(written >= 9, "{written} commits came in between");
        assert!(mark::hits()["compaction-caught-up"] >= 8);
        expected.insert("k03".into(), written.to_string());
        expected.extend((1..=written).map(|n| (format!("n{n}"), "1".into())));
        assert_eq!(handle.rows().unwrap(), expected);
        assert_eq!(handle.number(), 1 + written, "the swapped state has the newest number");
        handle.put("z", "1").unwrap();
        expected.insert("z".into(), "1".into());
        assert_eq!(kind.small().read(&env).unwrap().rows().unwrap(), expected);
    }
}

// spec: COMPACT-5
// case: B16
#[test]
pub(crate) fn a_second_compaction_is_refused_at_every_call_of_the_first() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let watching = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(AtomicU64::new(0));
        let renames = Arc::new(AtomicU64::new(0));
        let (on, no, swaps) = (watching.clone(), refused.clone(), renames.clone());
        let (env, shared) = hooked(&disk, move |handle, verb, path| {
            let swap = verb == Verb::Rename && path == Path::new(PATH);
            swaps.fetch_add(u64::from(swap), Ordering::AcqRel);
            // A compaction that is let in would call back for ever: once is enough to see it.
            if on.swap(false, Ordering::AcqRel) {
                let second = error(handle.compact());
                assert!(matches!(second, Error::CompactionRunning { .. }), "{second}");
                no.fetch_add(1, Ordering::AcqRel);
                on.store(true, Ordering::Release);
            }
        });
        let expected = filled(kind, &env, &shared);
        let handle = shared.get().unwrap();
        renames.store(0, Ordering::Release);
        watching.store(true, Ordering::Release);
        handle.compact().unwrap();
        watching.store(false, Ordering::Release);
        let refused = refused.load(Ordering::Acquire);
        assert!(refused > 12, "{refused} calls");
        assert_eq!(renames.load(Ordering::Acquire), 1, "one swap");
        assert_eq!(handle.rows().unwrap(), expected);
        // A third one, afterwards, works.
        handle.compact().unwrap();
        assert_eq!(handle.rows().unwrap(), expected);
    }
}

// spec: COMPACT-5
// case: B16
#[test]
fn of_compactions_that_begin_together_each_swaps_once_or_is_refused() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let renames = Arc::new(AtomicU64::new(0));
        let swaps = renames.clone();
        let (env, shared) = hooked(&disk, move |_, verb, path| {
            let swap = verb == Verb::Rename && path == Path::new(PATH);
            swaps.fetch_add(u64::from(swap), Ordering::AcqRel);
        });
        let mut expected = filled(kind, &env, &shared);
        renames.store(0, Ordering::Release);
        let handle = shared.get().unwrap();
        let mut done = 0;
        for round in 0..40 {
            let barrier = Barrier::new(3);
            let value = round.to_string();
            std::thread::scope(|scope| {
                let compact = || {
                    barrier.wait();
                    handle.compact()
                };
                let both = [scope.spawn(compact), scope.spawn(compact)];
                barrier.wait();
                handle.put("k05", &value).unwrap();
                let results = both.map(|thread| thread.join().unwrap());
                for result in &results {
                    match result {
                        Ok(()) => done += 1,
                        Err(Error::CompactionRunning { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                assert!(results.iter().any(|result| result.is_ok()), "one of them works");
            });
            expected.insert("k05".into(), value);
            assert_eq!(handle.rows().unwrap(), expected);
        }
        assert_eq!(renames.load(Ordering::Acquire), done, "as many swaps as successes");
    }
}

// spec: COMPACT-1, COMPACT-4
#[test]
fn compactions_beside_writers_and_readers_lose_nothing_and_show_nothing_twice() {
    const WRITERS: usize = 3;
    const ROUNDS: usize = 60;
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let (env, shared) = hooked(&disk, |_, _, _| {});
        let mut expected = filled(kind, &env, &shared);
        let handle = shared.get().unwrap();
        let working = AtomicU64::new(WRITERS as u64);
        let models = Mutex::new(Vec::new());
        let mut compactions = 0;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (working, models) = (&working, &models);
                scope.spawn(move || {
                    let mut rows = Rows::new();
                    for round in 0..ROUNDS {
                        let key = format!("w{writer}-{}", round % 7);
                        let value = round.to_string();
                        if round % 11 == 10 && rows.remove(&key).is_some() {
                            handle.write(&[(&key, None)]).unwrap();
                        } else {
                            handle.put(&key, &value).unwrap();
                            rows.insert(key, value);
                        }
                        let seen = handle.view().unwrap().scan().unwrap();
                        let mine = |key: &&String| key.starts_with(&format!("w{writer}-"));
                        let own: Rows = seen
                            .iter()
                            .filter(|(key, _)| mine(key))
                            .map(|(key, value)| (key.clone(), value.clone()))
                            .collect();
                        assert_eq!(own, rows, "a writer sees what it wrote");
                    }
                    models.lock().unwrap().push(rows);
                    working.fetch_sub(1, Ordering::AcqRel);
                });
            }
            let mut held = Vec::new();
            while working.load(Ordering::Acquire) > 0 || compactions < 3 {
                let view = handle.view().unwrap();
                let rows = view.rows().unwrap();
                held.push((view, rows));
                handle.compact().unwrap();
                compactions += 1;
                for (view, rows) in held.iter().rev().take(3) {
                    assert_eq!(view.scan().unwrap(), *rows, "a held snapshot");
                }
            }
        });
        assert!(compactions >= 3, "{compactions} compactions");
        expected.extend(models.into_inner().unwrap().into_iter().flatten());
        assert_eq!(handle.rows().unwrap(), expected);
        let before = bytes_of(&disk).len();
        handle.compact().unwrap();
        assert!(bytes_of(&disk).len() <= before);
        assert_eq!(kind.small().read(&env).unwrap().rows().unwrap(), expected);
    }
}
