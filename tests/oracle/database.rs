//! `rereduce::db` against the model of a document database.

use rereduce::env::Env;
use rereduce::mark;
use rereduce::vocabulary::DbOp;
use rereduce::{Error, Result};
use rereduce_crash_sim::DatabaseOpener;
use rereduce_model::{CheckConfig, DbEngine, DbHandle, Generator, check_db, check_db_history};

/// Databases in memory.
struct DatabaseEngine {
    env: Env,
    opener: DatabaseOpener,
}

impl DatabaseEngine {
    fn new(settings: &str) -> DatabaseEngine {
        let mut opener = DatabaseOpener::default();
        for setting in settings.split_whitespace() {
            let (key, value) = setting.split_once('=').unwrap();
            opener.set(key, value).unwrap();
        }
        DatabaseEngine { env: Env::memory(), opener }
    }
}

impl DbEngine for DatabaseEngine {
    fn open(&self, name: &str) -> Result<Box<dyn DbHandle>> {
        self.opener.open(&self.env, name.as_ref())
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.env.disk.remove(name.as_ref()) {
            Err(Error::NoSuchFile { .. }) => Ok(()),
            removed => removed,
        }
    }
}

// spec: DB-1, DB-2, DB-3, DB-5, DB-6, DB-7, DB-8, DB-9, ATTACH-2, ATTACH-3, COMPACT-7
#[test]
fn a_database_equals_the_model_after_every_operation() {
    for (seed, settings) in [
        (1, "fan-out=2"),
        (2, "fan-out=3 cache=2000 protocol=barrier"),
        (3, "fan-out=4 cache=1000000 protocol=guide"),
        (4, "fan-out=1000000 cache=1000000"),
    ] {
        for generator in Generator::ALL {
            let config = CheckConfig { seed, generator, ..CheckConfig::default() };
            let report = check_db(&DatabaseEngine::new(settings), &config);
            let report = report.unwrap_or_else(|wrong| panic!("{wrong}"));
            assert!(report.not_offered.is_empty(), "{report}");
            println!("{generator}: {report}");
        }
    }
}

// spec: DB-5
#[test]
fn a_document_whose_news_are_stemmed_away_keeps_its_sequence() {
    let script = [
        "revslimit 2",
        "merge a@unknown+x+y+z~3=1",
        "merge b@new+a~0=1",
        // The oldest ancestors come along once more; the limit takes them again.
        "merge a@unknown+x+y+z~3=1",
        "changes since 0",
    ];
    let ops: Vec<DbOp> = script.iter().map(|line| line.parse().unwrap()).collect();
    let play = || check_db_history(&DatabaseEngine::new("fan-out=2"), &ops);
    mark::reset();
    play().unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(mark::hits().contains_key("merge-stemmed-away"));
    mark::plant(Some("merge-without-effect-takes-a-sequence"));
    let planted = play();
    mark::plant(None);
    assert!(planted.is_err(), "a planted bug is noticed");
}
