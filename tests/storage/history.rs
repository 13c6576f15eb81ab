//! Old commits by number.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rereduce::Error;
use rereduce::env::MemoryDisk;
use rereduce_crash_sim::Verb;

use crate::disks::Hooked;
use crate::support::{KINDS, Rows, error, on, over};

// spec: HISTORY-1
#[test]
pub(crate) fn any_commit_opens_by_number_in_logarithmically_many_reads() {
    const COMMITS: u64 = 1_500;
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let handle = kind.usual().open(&on(&disk)).unwrap();
        for number in 1..=COMMITS {
            assert_eq!(handle.put("a", &number.to_string()).unwrap(), number);
        }
        drop(handle);
        let reads = Arc::new(AtomicU64::new(0));
        let count = reads.clone();
        let counting = Hooked::new(disk, move |verb, _: &Path| {
            count.fetch_add(u64::from(verb == Verb::Read), Ordering::Relaxed);
            Ok(())
        });
        let handle = kind.usual().open(&over(counting)).unwrap();
        for number in (1..=COMMITS).step_by(7).chain([COMMITS - 1, COMMITS]) {
            let before = reads.load(Ordering::Relaxed);
            let view = handle.view_at(number).unwrap();
            let cost = reads.load(Ordering::Relaxed) - before;
            // Twice the logarithm: up and down the skip links.
            assert!(cost <= 22, "{cost} reads to commit {number}");
            assert_eq!(view.number(), number);
            assert_eq!(view.value("a").unwrap(), Some(number.to_string()));
        }
    }
}

// spec: HISTORY-1, HISTORY-2
#[test]
pub(crate) fn numbers_outside_of_the_history_are_told_apart() {
    for kind in KINDS {
        let disk = MemoryDisk::new();
        let handle = kind.open(&disk).unwrap();
        assert_eq!(handle.view_at(0).unwrap().rows().unwrap(), Rows::new());
        assert!(matches!(error(handle.view_at(1)), Error::NoSuchCommit { asked: 1, newest: 0 }));
        for number in 1..=6 {
            handle.put("a", &number.to_string()).unwrap();
        }
        assert_eq!(handle.view_at(0).unwrap().rows().unwrap(), Rows::new(), "before the first");
        assert!(matches!(error(handle.view_at(7)), Error::NoSuchCommit { asked: 7, newest: 6 }));
        handle.compact().unwrap();
        handle.put("a", "7").unwrap();
        for number in 0..6 {
            let gone = error(handle.view_at(number));
            let right = matches!(gone, Error::Compacted { asked, oldest: 6 } if asked == number);
            assert!(right, "commit {number}: {gone}");
        }
        for number in 6..=7 {
            assert_eq!(
                handle.view_at(number).unwrap().value("a").unwrap(),
                Some(number.to_string())
            );
        }
        assert!(matches!(error(handle.view_at(8)), Error::NoSuchCommit { asked: 8, newest: 7 }));
    }
}
