//! One handle for both engines, so that a test says once what holds for each.
//!
//! Invariant: a handle is compared with plain maps, and whenever its rows are read the engine's
//! own check must be silent and its counts must be those of the rows.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use rereduce::btree::TreeOptions;
use rereduce::db::{Database, DatabaseOptions, DbSnapshot, DocEdit};
use rereduce::env::{Disk, Env, MemoryDisk};
use rereduce::file::{CommitId, Protocol, RecoveryReport, WriteCounts};
use rereduce::reduce::Count;
use rereduce::store::{Store, StoreOptions, StoreSnapshot};
use rereduce::vocabulary::{Direction, Edit, Json, KeyRange};
use rereduce::{Error, Result};

/// Where tests keep their file.
pub(crate) const PATH: &str = "data/db";

/// Bytes of a block, and of one copy of a footer.
pub(crate) const BLOCK: usize = 2048;
/// Bytes of both copies of a footer.
pub(crate) const PAIR: usize = 2 * BLOCK;

/// What a state holds.
pub(crate) type Rows = BTreeMap<String, String>;

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Store,
    Database,
}

pub(crate) const KINDS: [Kind; 2] = [Kind::Store, Kind::Database];

/// How an engine is opened: tiny nodes and no cache, so that every read goes to the disk.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) kind: Kind,
    pub(crate) protocol: Protocol,
    pub(crate) fan_out_max: usize,
    pub(crate) cache_bytes: usize,
}

/// An open engine.
pub(crate) enum Handle {
    Store(Store),
    Database(Database),
}

/// A state of an engine.
pub(crate) enum View {
    Store(StoreSnapshot),
    Database(DbSnapshot),
}

impl Kind {
    pub(crate) fn small(self) -> Setting {
        let protocol = Protocol::default();
        Setting { kind: self, protocol, fan_out_max: 3, cache_bytes: 0 }
    }

    /// As users have it.
    pub(crate) fn usual(self) -> Setting {
        Setting { fan_out_max: usize::MAX, cache_bytes: 4 << 20, ..self.small() }
    }

    pub(crate) fn open(self, disk: &MemoryDisk) -> Result<Handle> {
        self.small().open(&on(disk))
    }
}

impl Setting {
    fn tree(&self) -> TreeOptions {
        TreeOptions { fan_out_max: self.fan_out_max, ..TreeOptions::default() }
    }

    pub(crate) fn store_options(&self) -> StoreOptions {
        let (tree, protocol, cache_bytes) = (self.tree(), self.protocol, self.cache_bytes);
        StoreOptions { tree, protocol, cache_bytes, ..StoreOptions::default() }
    }

    pub(crate) fn database_options(&self) -> DatabaseOptions {
        let (tree, protocol, cache_bytes) = (self.tree(), self.protocol, self.cache_bytes);
        DatabaseOptions { tree, protocol, cache_bytes, ..DatabaseOptions::default() }
    }

    pub(crate) fn open(&self, env: &Env) -> Result<Handle> {
        self.open_at(env, Path::new(PATH))
    }

    pub(crate) fn open_at(&self, env: &Env, path: &Path) -> Result<Handle> {
        let env = env.clone();
        Ok(match self.kind {
            Kind::Store => Handle::Store(Store::open(env, path, self.store_options())?),
            Kind::Database => Handle::Database(Database::open(env, path, self.database_options())?),
        })
    }

    pub(crate) fn read(&self, env: &Env) -> Result<Handle> {
        self.read_at(env, Path::new(PATH))
    }

    pub(crate) fn read_at(&self, env: &Env, path: &Path) -> Result<Handle> {
        let env = env.clone();
        Ok(match self.kind {
            Kind::Store => Handle::Store(Store::open_read_only(env, path, self.store_options())?),
            Kind::Database => {
                Handle::Database(Database::open_read_only(env, path, self.database_options())?)
            }
        })
    }

    /// A commit of a file that need not open as a whole.
    pub(crate) fn commit_at(&self, env: &Env, number: u64) -> Result<View> {
        let path = Path::new(PATH);
        Ok(match self.kind {
            Kind::Store => {
                View::Store(Store::open_commit(env, path, number, &self.store_options())?)
            }
            Kind::Database => {
                View::Database(Database::open_commit(env, path, number, &self.database_options())?)
            }
        })
    }
}

/// An environment on `disk`, with the real clock and real randomness.
pub(crate) fn on(disk: &MemoryDisk) -> Env {
    over(disk.clone())
}

pub(crate) fn over(disk: impl Disk + 'static) -> Env {
    Env { disk: Arc::new(disk), ..Env::real() }
}

/// A disk with one file of these bytes.
pub(crate) fn disk_of(bytes: Vec<u8>) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.place(Path::new(PATH), bytes);
    disk
}

pub(crate) fn bytes_of(disk: &MemoryDisk) -> Vec<u8> {
    disk.bytes(Path::new(PATH)).unwrap()
}

pub(crate) fn rows_of<const N: usize>(rows: [(&str, &str); N]) -> Rows {
    rows.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Watches nothing and never cancels.
pub(crate) fn unwatched() -> impl FnMut() -> ControlFlow<()> {
    || ControlFlow::Continue(())
}

/// The edit that sets a document to `value`, or deletes it.
pub(crate) fn doc_edit(snapshot: &DbSnapshot, id: &str, value: Option<&str>) -> Result<DocEdit> {
    let winner = snapshot.winner(id)?.filter(|found| !found.deleted);
    let rev = winner.and_then(|found| found.rev());
    let Some(value) = value else {
        let name = || id.to_owned();
        let rev = rev.ok_or_else(|| Error::Missing { what: "document", name: name() })?;
        return DocEdit::deletion(id, rev);
    };
    let rev = rev.map_or(String::new(), |rev| format!("\"_rev\":\"{rev}\","));
    DocEdit::parse(id, format!("{{{rev}\"v\":\"{value}\"}}").as_bytes())
}

impl Handle {
    /// Sets one key and returns the number of the commit.
    pub(crate) fn put(&self, key: &str, value: &str) -> Result<u64> {
        self.write(&[(key, Some(value))])
    }

    /// Sets and removes keys in one commit.
    pub(crate) fn write(&self, edits: &[(&str, Option<&str>)]) -> Result<u64> {
        match self {
            Handle::Store(store) => {
                let edit = |(key, value): &(&str, Option<&str>)| match value {
                    Some(value) => Edit::put(*key, *value),
                    None => Edit::remove(*key),
                };
                store.commit(edits.iter().map(edit).collect())
            }
            Handle::Database(db) => {
                let before = db.snapshot()?;
                let edits: Result<Vec<DocEdit>> =
                    edits.iter().map(|(id, value)| doc_edit(&before, id, *value)).collect();
                for reply in db.edit(edits?)? {
                    reply?;
                }
                Ok(db.snapshot()?.number())
            }
        }
    }

    pub(crate) fn view(&self) -> Result<View> {
        Ok(match self {
            Handle::Store(store) => View::Store(store.snapshot()?),
            Handle::Database(db) => View::Database(db.snapshot()?),
        })
    }

    pub(crate) fn view_at(&self, number: u64) -> Result<View> {
        Ok(match self {
            Handle::Store(store) => View::Store(store.snapshot_at(number)?),
            Handle::Database(db) => View::Database(db.snapshot_at(number)?),
        })
    }

    pub(crate) fn rows(&self) -> Result<Rows> {
        self.view()?.rows()
    }

    pub(crate) fn number(&self) -> u64 {
        self.view().unwrap().number()
    }

    pub(crate) fn compact(&self) -> Result<()> {
        self.compact_watched(&mut unwatched())
    }

    pub(crate) fn compact_watched(&self, watch: &mut dyn FnMut() -> ControlFlow<()>) -> Result<()> {
        match self {
            Handle::Store(store) => store.compact(watch),
            Handle::Database(db) => db.compact(watch),
        }
    }

    pub(crate) fn reopen(&self) -> Result<RecoveryReport> {
        match self {
            Handle::Store(store) => store.reopen(),
            Handle::Database(db) => db.reopen(),
        }
    }

    pub(crate) fn recovery(&self) -> RecoveryReport {
        match self {
            Handle::Store(store) => store.recovery(),
            Handle::Database(db) => db.recovery(),
        }
    }

    pub(crate) fn counts(&self) -> WriteCounts {
        match self {
            Handle::Store(store) => store.counts(),
            Handle::Database(db) => db.counts(),
        }
    }

    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Handle::Store(store) => store.close(),
            Handle::Database(db) => db.close(),
        }
    }

    pub(crate) fn database(&self) -> &Database {
        match self {
            Handle::Database(db) => db,
            Handle::Store(_) => panic!("a database was asked for"),
        }
    }
}

impl View {
    pub(crate) fn number(&self) -> u64 {
        match self {
            View::Store(snapshot) => snapshot.number(),
            View::Database(snapshot) => snapshot.number(),
        }
    }

    pub(crate) fn id(&self) -> Option<CommitId> {
        match self {
            View::Store(snapshot) => snapshot.id(),
            View::Database(snapshot) => snapshot.id(),
        }
    }

    pub(crate) fn is_witnessed(&self) -> Result<bool> {
        match self {
            View::Store(snapshot) => snapshot.is_witnessed(),
            View::Database(snapshot) => snapshot.is_witnessed(),
        }
    }

    /// The value of one key.
    pub(crate) fn value(&self, key: &str) -> Result<Option<String>> {
        match self {
            View::Store(snapshot) => {
                let value = snapshot.get(key.as_bytes())?;
                Ok(value.map(|value| String::from_utf8(value).unwrap()))
            }
            View::Database(snapshot) => {
                let found = snapshot.winner(key)?.filter(|found| !found.deleted);
                Ok(found.map(|found| member_v(&found.body)))
            }
        }
    }

    /// Every key with its value, in one scan; documents are read one by one besides.
    pub(crate) fn scan(&self) -> Result<Rows> {
        let mut rows = Rows::new();
        match self {
            View::Store(snapshot) => {
                let all = KeyRange::all();
                snapshot.scan(&all, Direction::Ascending, &mut |key, value| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    rows.insert(text(key), text(value));
                    ControlFlow::Continue(())
                })?;
            }
            View::Database(snapshot) => {
                let mut ids = Vec::new();
                snapshot.changes(0, Direction::Ascending, &mut |change| {
                    if !change.deleted() {
                        ids.push(change.id);
                    }
                    ControlFlow::Continue(())
                })?;
                for id in ids {
                    let found = snapshot.document(&id, None)?;
                    rows.insert(id, member_v(&found.body));
                }
            }
        }
        Ok(rows)
    }

    /// How many rows the reduction at the root says there are.
    pub(crate) fn count(&self) -> Result<u64> {
        match self {
            View::Store(snapshot) => {
                Ok(Count::decode(&snapshot.reduce(&KeyRange::all())?).unwrap_or(0))
            }
            View::Database(snapshot) => Ok(snapshot.count_docs(&KeyRange::all())?.live),
        }
    }

    /// Whether the engine's own check finds nothing.
    pub(crate) fn is_sound(&self) -> Result<bool> {
        match self {
            View::Store(snapshot) => Ok(snapshot.check()?.violations.is_empty()),
            View::Database(snapshot) => Ok(snapshot.check()?.is_sound()),
        }
    }

    /// All rows, having checked that everything in the state agrees with them.
    pub(crate) fn rows(&self) -> Result<Rows> {
        let rows = self.scan()?;
        assert!(self.is_sound()?, "the check complains about commit {}", self.number());
        assert_eq!(self.count()?, rows.len() as u64, "the count at the root");
        Ok(rows)
    }

    pub(crate) fn database(&self) -> &DbSnapshot {
        match self {
            View::Database(snapshot) => snapshot,
            View::Store(_) => panic!("a database was asked for"),
        }
    }
}

fn member_v(body: &[(String, Json)]) -> String {
    let found = body.iter().find(|(name, _)| name == "v");
    found.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
}

/// The class of an error, for assertions that show what came instead.
pub(crate) fn class<T>(result: Result<T>) -> rereduce::ErrorClass {
    match result {
        Ok(_) => panic!("it worked"),
        Err(error) => error.class(),
    }
}

/// The error, for results whose value cannot be shown.
pub(crate) fn error<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("it worked"),
        Err(error) => error,
    }
}
