//! Waiting for changes, and groups in which one edit meets damage.
//!
//! Invariant: a wait is called lost only if it lasted as long as it could.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rereduce::Error;
use rereduce::db::{ChangesOptions, Database, DatabaseOptions, DocEdit};
use rereduce::env::{Clock, Env, RealClock};
use rereduce::mark;

use super::handles::disks::Hooked;
use super::{Outcome, disk, expect, open_database};
use crate::campaign::Context;
use crate::disk::SimDisk;
use crate::image::Image;
use crate::oracle::{DATABASE, environment};
use crate::plan::Verb;

/// How long a wait may last; one that was lost lasts as long.
const WAIT: Duration = Duration::from_secs(3);

pub(super) fn end_with_every_commit(context: &Context) -> Outcome {
    a_commit_after_the_look_ends_the_wait(context)?;
    a_commit_of_another_handle_ends_the_wait(context)?;
    damage_fails_one_edit_of_a_group(context)
}

fn put(db: &Database, id: &str) -> rereduce::Result<()> {
    db.edit(vec![DocEdit::parse(id, b"{}")?])?.remove(0).map(drop)
}

fn waiting() -> ChangesOptions {
    ChangesOptions { wait: Some(WAIT), ..ChangesOptions::default() }
}

/// Waits for the change that comes, and says whether it came before the time was over.
fn comes_at_once(db: &Database, since: u64) -> Result<bool, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let found = db.changes(since, &waiting())?;
    Ok(found.changes.len() == 1 && began.elapsed() < WAIT)
}

/// One commit that another thread would make, kept until the moment for it has come.
type Late = Arc<Mutex<Option<Arc<Database>>>>;

/// The commit falls into the look: after the state was taken, before the wait.
fn a_commit_after_the_look_ends_the_wait(context: &Context) -> Outcome {
    let late = Late::default();
    let writer = late.clone();
    let hooked = Hooked::new(disk(), move |verb, _: &Path| {
        // Taken out first: what a commit does may read.
        let due = (verb == Verb::Read).then(|| writer.lock().ok()?.take()).flatten();
        due.map_or(Ok(()), |db| put(&db, "late"))
    });
    let env = Env {
        disk: Arc::new(hooked),
        clock: Arc::new(RealClock),
        ..environment(&disk(), context.seed)
    };
    let options = DatabaseOptions { cache_bytes: 0, ..DatabaseOptions::default() };
    let db = Arc::new(Database::open(env, Path::new(DATABASE), options)?);
    put(&db, "early")?;
    if let Ok(mut late) = late.lock() {
        *late = Some(db.clone());
    }
    expect(comes_at_once(&db, 1)?, "a commit between the look and the wait woke nobody")
}

/// A clock that goes right; asked for the second time, it commits. A wait asks it once before the
/// look and once after.
struct CommittingClock {
    writer: Database,
    asked: AtomicU64,
}

impl Clock for CommittingClock {
    fn now(&self) -> Duration {
        if self.asked.fetch_add(1, Ordering::AcqRel) == 1 {
            // If this fails, the change does not come, and that is complained about.
            let _ = put(&self.writer, "late");
        }
        RealClock.now()
    }
}

/// A reader's handle hears of nothing by itself; it has to look.
fn a_commit_of_another_handle_ends_the_wait(context: &Context) -> Outcome {
    let disk = disk();
    let writer = open_database(&disk, context, DatabaseOptions::default())?;
    put(&writer, "early")?;
    let clock = Arc::new(CommittingClock { writer, asked: AtomicU64::new(0) });
    let env = Env { clock, ..environment(&disk, context.seed) };
    let reader = Database::open_read_only(env, Path::new(DATABASE), DatabaseOptions::default())?;
    expect(comes_at_once(&reader, 1)?, "a commit of another handle woke no reader")
}

/// The bytes of a database whose document `bad` has a damaged body, and the edit that meets it.
fn with_damage(context: &Context) -> Result<(Vec<u8>, DocEdit), Box<dyn std::error::Error>> {
    let disk = disk();
    let db = open_database(&disk, context, DatabaseOptions::default())?;
    let json = br#"{"v":"words to be damaged","_attachments":{"t":{"data":"AAEC"}}}"#;
    let base = db.edit(vec![DocEdit::parse("bad", json)?])?.remove(0)?;
    db.close()?;
    let mut bytes = disk.bytes(Path::new(DATABASE)).unwrap_or_default();
    let marker = b"words to be damaged";
    let at = bytes.windows(marker.len()).position(|window| window == marker);
    let at = at.ok_or("the body is nowhere in the file")?;
    bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
    let stub = format!(r#"{{"_rev":"{base}","_attachments":{{"t":{{"stub":true}}}}}}"#);
    Ok((bytes, DocEdit::parse("bad", stub.as_bytes())?))
}

/// Two writers, of whom one meets damage, come while a third flushes: they share a group, and the
/// other's edit is done all the same.
fn damage_fails_one_edit_of_a_group(context: &Context) -> Outcome {
    let (bytes, bad) = with_damage(context)?;
    for round in 0..20 {
        let disk = SimDisk::open_image(&Image::of_files([(DATABASE, &bytes[..])]));
        let (come, holds) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, hold) = (come.clone(), holds.clone());
        let hooked = Hooked::new(disk, move |verb, _: &Path| {
            if verb == Verb::Sync && hold.swap(false, Ordering::AcqRel) {
                while seen.load(Ordering::Acquire) < 2 {
                    std::thread::yield_now();
                }
                (0..50 * (round + 1)).for_each(|_| std::thread::yield_now());
            }
            Ok(())
        });
        let env = Env { disk: Arc::new(hooked), ..environment(&SimDisk::new(), context.seed) };
        let db = Database::open(env, Path::new(DATABASE), DatabaseOptions::default())?;
        holds.store(true, Ordering::Release);
        let planted = mark::planted_here();
        let write = |edit: DocEdit| {
            mark::plant(planted);
            mark::reset();
            come.fetch_add(1, Ordering::AcqRel);
            let reply = db.edit(vec![edit]).and_then(|mut replies| replies.remove(0));
            (reply, mark::hits().contains_key("group-taken-apart"))
        };
        let good = DocEdit::parse("good", b"{}")?;
        let (first, bad, good) = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                mark::plant(planted);
                put(&db, "first")
            });
            while holds.load(Ordering::Acquire) && !first.is_finished() {
                std::thread::yield_now();
            }
            let bad = scope.spawn(|| write(bad.clone()));
            let good = scope.spawn(|| write(good));
            (first.join(), bad.join(), good.join())
        });
        let panicked = |_| "a writer panicked";
        first.map_err(panicked)??;
        let ((bad, apart), (good, also)) = (bad.map_err(panicked)?, good.map_err(panicked)?);
        expect(matches!(bad, Err(Error::Corrupt(_))), format!("an edit that met damage: {bad:?}"))?;
        good.map_err(|error| format!("an edit beside one that met damage: {error}"))?;
        if apart || also {
            break;
        }
    }
    Ok(())
}
