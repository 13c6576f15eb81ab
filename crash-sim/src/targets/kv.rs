//! Any key-value engine as a target: operations and model are those of `rereduce-model`.
//!
//! Invariant: the state is all rows of the newest commit; a snapshot that the workload holds must
//! show the rows that it showed first, and this is checked whenever the database is.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rereduce::env::Env;
use rereduce::kv::KvSnapshot;
use rereduce::vocabulary::{Direction, Edit, KeyRange, KvOp, Slot, Word};
use rereduce::{Error, ErrorClass, Result};
use rereduce_model::{KvHandle, KvModel, Rows};

use crate::random::Random;
use crate::target::Target;

/// How an engine is opened; what is particular to one engine.
pub trait KvOpener: Clone + Send + Sync {
    /// The engine's name on the command line.
    fn name(&self) -> &'static str;

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// A message for the user if there is no such option or value.
    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String>;

    /// The options that differ from the default, as `KEY=VALUE`.
    fn settings(&self) -> Vec<String>;

    /// Opens the database at `path`, creating it if it is missing.
    fn open(&self, env: &Env, path: &Path) -> Result<Box<dyn KvHandle>>;
}

/// A key-value engine under test.
#[derive(Clone)]
pub struct KvTarget<E>(pub E);

/// An open key-value engine, with the snapshots that the workload holds.
pub struct OpenKv {
    env: Env,
    path: PathBuf,
    engine: Option<Box<dyn KvHandle>>,
    slots: BTreeMap<Slot, (Box<dyn KvSnapshot>, Rows)>,
}

/// All rows; prints as a script writes them.
///
/// ```
/// use rereduce_crash_sim::KvState;
/// let rows = [(b"a".to_vec(), vec![b'z'; 3000])].into();
/// assert_eq!(format!("{:?}", KvState(rows)), "{a=z*3000}");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KvState(pub Rows);

impl fmt::Debug for KvState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{}={}", Word(key), Word(value))).collect();
        write!(out, "{{{}}}", rows.join(" "))
    }
}

impl OpenKv {
    fn engine(&self) -> Result<&dyn KvHandle> {
        let closed = || Error::Closed { path: self.path.clone() };
        self.engine.as_deref().ok_or_else(closed)
    }
}

/// All rows of a snapshot.
pub(crate) fn rows(snapshot: &dyn KvSnapshot) -> Result<Rows> {
    let mut rows = Rows::new();
    snapshot.scan(&KeyRange::all(), Direction::Ascending, &mut |key, value| {
        rows.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

impl<E: KvOpener> KvTarget<E> {
    fn reopen(&self, handle: &mut OpenKv) -> Result<()> {
        handle.slots.clear();
        handle.engine = None;
        handle.engine = Some(self.0.open(&handle.env, &handle.path)?);
        Ok(())
    }

    fn history(&self, handle: &mut OpenKv, slot: Slot, back: u64) -> Result<()> {
        let Some(newest) = handle.engine()?.commit_number() else { return Ok(()) };
        let number = newest.saturating_sub(back);
        match handle.engine()?.open_commit(number) {
            Some(Ok(snapshot)) => {
                let shown = rows(&*snapshot)?;
                handle.slots.insert(slot, (snapshot, shown));
                Ok(())
            }
            // Compacted away, or from before the first commit.
            Some(Err(error)) if error.class() == ErrorClass::Missing => Ok(()),
            Some(Err(error)) => Err(error),
            None => Ok(()),
        }
    }
}

impl<E: KvOpener> Target for KvTarget<E> {
    type Op = KvOp;
    type State = KvState;
    type Handle = OpenKv;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
        self.0.set(key, value)
    }

    fn settings(&self) -> Vec<String> {
        self.0.settings()
    }

    fn open(&self, env: &Env, path: &Path) -> Result<OpenKv> {
        let engine = Some(self.0.open(env, path)?);
        let (env, path) = (env.clone(), path.to_path_buf());
        Ok(OpenKv { env, path, engine, slots: BTreeMap::new() })
    }

    fn apply(&self, handle: &mut OpenKv, op: &KvOp) -> Result<()> {
        match op {
            KvOp::Commit(edits) => handle.engine()?.commit(edits)?,
            KvOp::Snapshot(slot) => {
                let snapshot = handle.engine()?.snapshot()?;
                let shown = rows(&*snapshot)?;
                handle.slots.insert(*slot, (snapshot, shown));
            }
            KvOp::History { slot, back } => self.history(handle, *slot, *back)?,
            KvOp::Release(slot) => drop(handle.slots.remove(slot)),
            KvOp::Compact => handle.engine()?.compact().unwrap_or(Ok(()))?,
            KvOp::Reopen => {
                handle.slots.clear();
                if let Some(engine) = handle.engine.take() {
                    engine.close()?;
                }
                self.reopen(handle)?;
            }
            KvOp::Crash => {
                handle.slots.clear();
                if let Some(engine) = handle.engine.take() {
                    engine.crash();
                }
                self.reopen(handle)?;
            }
            // The whole state is read after every operation; the disk fails by plan only.
            KvOp::Get { .. } | KvOp::Scan { .. } | KvOp::Reduce { .. } | KvOp::Fault { .. } => {}
        }
        Ok(())
    }

    fn state(&self, handle: &OpenKv) -> Result<KvState> {
        Ok(KvState(rows(&*handle.engine()?.snapshot()?)?))
    }

    fn check(&self, handle: &OpenKv) -> std::result::Result<(), String> {
        let failed = |error: Error| error.to_string();
        handle.engine().map_err(failed)?.check().unwrap_or(Ok(())).map_err(failed)?;
        for (slot, (snapshot, shown)) in &handle.slots {
            let shows = rows(&**snapshot).map_err(|error| format!("snapshot {slot}: {error}"))?;
            if shows != *shown {
                let (shown, shows) = (KvState(shown.clone()), KvState(shows));
                return Err(format!("snapshot {slot} showed {shown:?} and now {shows:?}"));
            }
        }
        Ok(())
    }

    fn empty(&self) -> KvState {
        KvState(KvModel::default().newest().clone())
    }

    fn expect(&self, state: &KvState, op: &KvOp) -> KvState {
        let KvOp::Commit(edits) = op else { return state.clone() };
        let mut model = KvModel::default();
        let before = state.0.iter().map(|(key, value)| Edit::put(key.clone(), value.clone()));
        model.commit(&before.collect::<Vec<_>>());
        model.commit(edits);
        KvState(model.newest().clone())
    }

    fn generate(&self, count: usize, seed: u64) -> Vec<KvOp> {
        let mut random = Random::new(seed);
        (0..count).map(|_| generate(&mut random)).collect()
    }

    fn simpler(&self, op: &KvOp) -> Vec<KvOp> {
        let KvOp::Commit(edits) = op else { return Vec::new() };
        let mut simpler = Vec::new();
        for index in 0..edits.len() {
            let mut fewer = edits.clone();
            if fewer.remove(index).value.is_some_and(|value| value.len() > 8) {
                let mut shorter = edits.clone();
                shorter[index].value = Some(b"1".to_vec());
                simpler.push(KvOp::Commit(shorter));
            }
            if !fewer.is_empty() {
                simpler.push(KvOp::Commit(fewer));
            }
        }
        simpler
    }
}

/// Mostly commits, of one to three keys of eight, with values from one byte to a few blocks.
fn generate(random: &mut Random) -> KvOp {
    let slot = Slot(random.below(2) as u8);
    match random.below(20) {
        0 => KvOp::Compact,
        1 => KvOp::Reopen,
        2 => KvOp::Crash,
        3 => KvOp::Snapshot(slot),
        4 => KvOp::History { slot, back: random.below(3) },
        _ => KvOp::Commit((0..=random.below(3)).map(|_| generate_edit(random)).collect()),
    }
}

fn generate_edit(random: &mut Random) -> Edit {
    let key = vec![b'a' + random.below(8) as u8];
    match random.below(8) {
        0 => Edit::remove(key),
        1 | 2 => {
            let filler = b'k' + random.below(16) as u8;
            Edit::put(key, vec![filler; 1 + random.below(5000) as usize])
        }
        _ => Edit::put(key, random.below(100).to_string()),
    }
}
