//! Compactions while others go on: readers, commits, a second compaction, a busy writer.

use std::ops::ControlFlow;
use std::path::Path;

use rereduce::db::{DatabaseOptions, DocEdit};
use rereduce::doc::{AttachmentDraft, AttachmentSource};
use rereduce::mark;
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::{Edit, RevPath};

use super::{Outcome, disk, open_database, open_store};
use crate::campaign::Context;
use crate::oracle::{DATABASE, environment};

/// One attachment in every revision of a document, under two names: stored once, compacted or not.
pub(super) fn sharing(context: &Context) -> Outcome {
    const CONTENT_BYTES: usize = 100_000;
    let db = open_database(&disk(), context, DatabaseOptions::default())?;
    let content = vec![1; CONTENT_BYTES];
    let mut base = None;
    for number in 0..4 {
        let mut edit = DocEdit::parse("a", format!("{{\"v\":{number}}}").as_bytes());
        for made in edit.iter_mut() {
            made.draft.path = base.clone().map(RevPath::of).unwrap_or_default();
            for name in ["n", "m"] {
                made.draft.attachments.push(AttachmentDraft {
                    name: name.to_owned(),
                    content_type: "image/png".to_owned(),
                    source: AttachmentSource::Inline { data: content.clone(), revpos: None },
                });
            }
        }
        base = db.edit(vec![edit?])?.remove(0).ok();
    }
    for when in ["before", "after"] {
        let bytes = db.snapshot()?.info().file_bytes;
        if bytes >= 2 * CONTENT_BYTES as u64 {
            return Err(format!("{when} a compaction one attachment takes {bytes} bytes").into());
        }
        db.compact(&mut || ControlFlow::Continue(()))?;
    }
    Ok(())
}

/// Commits, a second compaction and a reader, all while a compaction copies.
pub(super) fn beside_readers(context: &Context) -> Outcome {
    let disk = disk();
    let store = open_store(&disk, context, StoreOptions::default())?;
    let edit = |number: u32| Edit::put(format!("{:05}", number % 900), number.to_string());
    store.commit((0..900).map(edit).collect())?;
    let (env, path) = (environment(&disk, context.seed), Path::new(DATABASE));
    let reader = Store::open_read_only(env, path, StoreOptions::default())?;
    let (mut commits, mut second, mut wrong) = (900, None, None);
    let watch = &mut || {
        if second.is_none() {
            second = Some(store.compact(&mut || ControlFlow::Continue(())).err());
        }
        if commits < 1000 {
            wrong = store.commit(vec![edit(commits)]).err().or(wrong.take());
            commits += 1;
        }
        ControlFlow::Continue(())
    };
    store.compact(watch)?;
    if let Some(error) = wrong {
        return Err(format!("a commit during a compaction: {error}").into());
    }
    if !matches!(second, Some(Some(rereduce::Error::CompactionRunning { .. }))) {
        return Err(format!("a second compaction at once was not refused: {second:?}").into());
    }
    store.commit(vec![Edit::put("last", "1")])?;
    let newest = |number: u32| commits - 1 - (commits - 1 - number) % 900;
    for (who, snapshot) in [("writer", store.snapshot()), ("reader", reader.snapshot())] {
        let snapshot = snapshot?;
        for number in 0..900 {
            let found = snapshot.get(&edit(number).key)?;
            let expected = newest(number).to_string().into_bytes();
            if found.as_ref() != Some(&expected) {
                return Err(
                    format!("after a compaction the {who} misses an edit of {number}").into()
                );
            }
        }
        if snapshot.get(b"last")?.is_none() {
            return Err(format!("after a compaction the {who} misses the newest commit").into());
        }
    }
    Ok(())
}

/// A thread commits without a pause while compactions follow each other: the last round of each has
/// something to catch up with.
pub(super) fn beside_a_writer(context: &Context) -> Outcome {
    const COMMITS: u64 = 2000;
    let store = open_store(&disk(), context, StoreOptions::default())?;
    store.commit(vec![Edit::put("first", "1")])?;
    // Compactions go on until the writer is through, so that they surely meet.
    let planted = mark::planted_here();
    let (compacted, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            mark::plant(planted);
            let put = |number: u64| {
                store.commit(vec![Edit::put(number.to_be_bytes(), number.to_string())]).map(drop)
            };
            (0..COMMITS).try_for_each(put)
        });
        let mut compacted = Ok(());
        while !writer.is_finished() && compacted.is_ok() {
            compacted = store.compact(&mut || ControlFlow::Continue(()));
        }
        (compacted, writer.join())
    });
    compacted?;
    written.map_err(|_| "the writer panicked")??;
    let snapshot = store.snapshot()?;
    if snapshot.row_count() != COMMITS + 1 {
        let found = snapshot.row_count();
        return Err(format!("{COMMITS} commits beside compactions left {found} rows").into());
    }
    let checked = snapshot.check()?;
    if checked.violations.is_empty() {
        Ok(())
    } else {
        Err(format!("{:?}", checked.violations).into())
    }
}
