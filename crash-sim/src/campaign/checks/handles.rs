//! Writers, readers, compactions and uploads of one database: who may do what, and who sees it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use rereduce::Error;
use rereduce::db::{DatabaseOptions, DocEdit};
use rereduce::env::Env;
use rereduce::mark;
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::Edit;

use super::files::{WIDE, wide};
use super::{Outcome, disk, expect, open_database, open_store};
use crate::campaign::Context;
use crate::disk::SimDisk;
use crate::oracle::{DATABASE, environment};
use crate::plan::{Plan, Verb};

#[path = "../../../../tests/storage/disks.rs"]
pub(super) mod disks;
use disks::Hooked;

pub(super) fn keep_to_their_place(context: &Context) -> Outcome {
    one_writer_and_any_readers(context)?;
    readers_tell_what_is_witnessed(context)?;
    a_failed_look_is_repeated(context)?;
    looks_follow_one_another(context)?;
    a_cancelled_compaction_changes_nothing(context)?;
    an_upload_survives_a_compaction(context)?;
    permissions_stay()
}

fn reader(env: Env) -> rereduce::Result<Store> {
    Store::open_read_only(env, Path::new(DATABASE), StoreOptions::default())
}

fn one_writer_and_any_readers(context: &Context) -> Outcome {
    let disk = SimDisk::new();
    let store = open_store(&disk, context, StoreOptions::default())?;
    store.commit(vec![Edit::put("a", "1")])?;
    let second = open_store(&disk, context, StoreOptions::default()).err();
    expect(matches!(second, Some(Error::Locked { .. })), format!("a second writer: {second:?}"))?;
    let before = disk.changes();
    let readers = [reader(environment(&disk, 2))?, reader(environment(&disk, 3))?];
    store.commit(vec![Edit::put("b", "2")])?;
    let written = disk.changes();
    for reader in &readers {
        expect(reader.snapshot()?.row_count() == 2, "a reader misses a commit")?;
        let refused = reader.commit(vec![Edit::put("c", "3")]).is_err();
        expect(refused, "a handle for reading wrote")?;
    }
    expect(before > 0 && disk.changes() == written, "readers changed the disk")
}

fn readers_tell_what_is_witnessed(context: &Context) -> Outcome {
    let disk = disk();
    let store = open_store(&disk, context, StoreOptions::default())?;
    store.commit(vec![Edit::put("a", "1")])?;
    let reader = reader(environment(&disk, context.seed))?;
    let early = reader.snapshot()?;
    expect(!early.is_witnessed()?, "a commit that no later footer names counts as witnessed")?;
    store.commit(vec![Edit::put("b", "1")])?;
    expect(early.is_witnessed()?, "a commit that a later footer names is not witnessed")?;
    store.close()?;
    expect(reader.snapshot()?.is_witnessed()?, "a sealed commit is not witnessed")
}

/// Each read of a look fails in turn; the look after it sees the newest commit. The roots are long,
/// so that they are read behind the footer.
fn a_failed_look_is_repeated(context: &Context) -> Outcome {
    let disk = disk();
    let store = open_store(&disk, context, wide(WIDE))?;
    store.commit(vec![Edit::put("a", "1")])?;
    let env = environment(&disk, context.seed);
    let reader = Store::open_read_only(env, Path::new(DATABASE), wide(WIDE))?;
    for nth in 1..=12 {
        let number = store.commit(vec![Edit::put("a", nth.to_string().repeat(900))])?;
        disk.set_plan(format!("read {nth} EIO").parse::<Plan>()?);
        // Whether this look comes as far as the failing read is not the question.
        let _ = reader.snapshot();
        disk.set_plan(Plan::default());
        let seen = reader.snapshot()?.number();
        expect(seen == number, format!("read {nth} failed: commit {seen} instead of {number}"))?;
    }
    Ok(())
}

/// Between the two halves of a look the file is replaced and another thread looks: nobody may see
/// an older commit than somebody saw before.
fn looks_follow_one_another(context: &Context) -> Outcome {
    let disk = disk();
    let store = Arc::new(open_store(&disk, context, StoreOptions::default())?);
    store.commit(vec![Edit::put("a", "1")])?;
    let shared = Arc::new(OnceLock::<Store>::new());
    let calls = Arc::new(AtomicU64::new(u64::MAX / 2));
    let earlier = Arc::new(Mutex::new(None));
    let hook = {
        let (shared, calls, earlier, store) =
            (shared.clone(), calls.clone(), earlier.clone(), store.clone());
        let planted = mark::planted_here();
        move |verb, _: &Path| {
            if verb == Verb::Identify && calls.fetch_add(1, Ordering::AcqRel) == 1 {
                store.commit(vec![Edit::put("a", "2")])?;
                store.compact(&mut || ControlFlow::Continue(()))?;
                store.commit(vec![Edit::put("a", "3")])?;
                let (told, wait) = mpsc::channel();
                let shared = shared.clone();
                std::thread::spawn(move || {
                    mark::plant(planted);
                    let seen = shared.get().and_then(|reader| reader.snapshot().ok());
                    // Nobody listens any more if the first look was over before.
                    let _ = told.send(seen.map(|snapshot| snapshot.number()));
                });
                // A look that has to wait for this one says nothing for now.
                let seen = wait.recv_timeout(Duration::from_millis(100)).ok().flatten();
                if let Ok(mut earlier) = earlier.lock() {
                    *earlier = seen;
                }
            }
            Ok(())
        }
    };
    let hooked = Hooked::new(disk.clone(), hook);
    let env = Env { disk: Arc::new(hooked), ..environment(&disk, context.seed) };
    let reader = shared.get_or_init(|| reader(env).expect("a sound file opens for reading"));
    calls.store(0, Ordering::Release);
    let seen = reader.snapshot()?.number();
    let earlier = earlier.lock().map(|earlier| *earlier).unwrap_or_default();
    let back = earlier.is_some_and(|earlier| earlier > seen);
    expect(!back, format!("after commit {earlier:?} a reader saw commit {seen}"))?;
    let seen = reader.snapshot()?.number();
    expect(seen == 3, format!("a reader sees commit {seen} instead of the newest"))
}

fn a_cancelled_compaction_changes_nothing(context: &Context) -> Outcome {
    let disk = disk();
    let store = open_store(&disk, context, StoreOptions::default())?;
    for value in ["1", "2", "3"] {
        store.commit((0..300).map(|key| Edit::put(key.to_string(), value)).collect())?;
    }
    let before = disk.bytes(Path::new(DATABASE));
    let cancelled = store.compact(&mut || ControlFlow::Break(()));
    expect(matches!(cancelled, Err(Error::Cancelled { .. })), format!("{cancelled:?}"))?;
    expect(disk.bytes(Path::new(DATABASE)) == before, "a cancelled compaction changed the file")?;
    expect(store.snapshot_at(1)?.row_count() == 300, "a cancelled compaction took the history")
}

/// What was uploaded before a compaction and named in an edit after it is in the new file.
fn an_upload_survives_a_compaction(context: &Context) -> Outcome {
    for length in [10, 3_000, 70_000] {
        let disk = disk();
        let options = || DatabaseOptions { attachment_chunk_bytes: 512, ..Default::default() };
        let db = open_database(&disk, context, options())?;
        db.edit(vec![DocEdit::parse("other", b"{}")?])?;
        let content: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        let mut upload = db.upload("a", "image/png");
        let (first, rest) = content.split_at(content.len() / 2);
        upload.write(first)?;
        db.compact(&mut || ControlFlow::Continue(()))?;
        upload.write(rest)?;
        let uploaded = upload.finish()?;
        let promised = br#"{"_attachments":{"a":{"follows":true,"content_type":"image/png"}}}"#;
        let mut edit = DocEdit::parse("d", promised)?;
        edit.uploads.push(uploaded);
        db.edit(vec![edit])?.remove(0)?;
        drop(db);
        let db = open_database(&disk, context, options())?;
        let found = db.snapshot()?.attachment("d", None, "a")?.read_all()?;
        expect(found == content, format!("an upload of {length} bytes is other bytes now"))?;
    }
    Ok(())
}

/// A compacted file on a real disk keeps its mode.
fn permissions_stay() -> Outcome {
    let folder = std::env::temp_dir().join(format!("rereduce-planted-{}", unique()));
    std::fs::create_dir(&folder)?;
    let outcome = mode_stays(&folder.join("db"));
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn mode_stays(path: &Path) -> Outcome {
    let store = Store::open(Env::real(), path, StoreOptions::default())?;
    store.commit(vec![Edit::put("a", "1")])?;
    set_unusual_mode(path)?;
    let before = std::fs::metadata(path)?.permissions();
    store.compact(&mut || ControlFlow::Continue(()))?;
    let after = std::fs::metadata(path)?.permissions();
    expect(before == after, format!("a compaction turned {before:?} into {after:?}"))
}

#[cfg(unix)]
fn set_unusual_mode(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn set_unusual_mode(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A name that no other run on this machine uses at the same time.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
