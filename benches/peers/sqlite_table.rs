//! SQLite: one table clustered by its key, a write-ahead log that is flushed at each commit.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use crate::{CACHE_BYTES, Engine, Row};

struct Sqlite(Connection);

pub(crate) fn open(directory: &Path) -> Box<dyn Engine> {
    let connection = Connection::open(directory.join("rows.sqlite")).unwrap();
    connection
        .execute_batch(&format!(
            "pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -{};
             create table if not exists rows (key blob primary key, value blob) without rowid;",
            CACHE_BYTES / 1024
        ))
        .unwrap();
    Box::new(Sqlite(connection))
}

impl Engine for Sqlite {
    fn put(&mut self, rows: &[Row]) {
        let transaction = self.0.transaction().unwrap();
        let mut insert =
            transaction.prepare_cached("insert or replace into rows values (?, ?)").unwrap();
        for row in rows {
            insert.execute((&row.0, &row.1)).unwrap();
        }
        drop(insert);
        transaction.commit().unwrap();
    }

    fn get(&self, keys: &[Vec<u8>]) -> u64 {
        let transaction = self.0.unchecked_transaction().unwrap();
        let mut find = transaction.prepare_cached("select value from rows where key = ?").unwrap();
        let mut size = |key: &Vec<u8>| {
            let size = find.query_row([key], |row| Ok(row.get_ref(0)?.as_blob()?.len()));
            size.optional().unwrap().unwrap_or(0)
        };
        keys.iter().map(|key| size(key) as u64).sum()
    }

    fn scan(&self) -> u64 {
        let mut all = self.0.prepare_cached("select key, value from rows order by key").unwrap();
        let mut rows = all.query([]).unwrap();
        let (mut count, mut bytes) = (0, 0);
        while let Some(row) = rows.next().unwrap() {
            let size = |column| row.get_ref(column).unwrap().as_blob().unwrap().len();
            bytes += size(0) + size(1);
            count += 1;
        }
        std::hint::black_box(bytes);
        count
    }

    fn count(&self, from: &[u8], to: &[u8]) -> Option<u64> {
        let sql = "select count(*) from rows where key >= ? and key < ?";
        let mut count = self.0.prepare_cached(sql).unwrap();
        let count: i64 = count.query_row([from, to], |row| row.get(0)).unwrap();
        Some(count as u64)
    }

    fn compact(&mut self) {
        self.0.execute_batch("vacuum; pragma wal_checkpoint(truncate)").unwrap();
    }
}
