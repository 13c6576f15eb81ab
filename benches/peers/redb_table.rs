//! redb: one table of byte strings.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{CACHE_BYTES, Engine, Row};

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");

struct Redb(Database);

pub(crate) fn open(directory: &Path) -> Box<dyn Engine> {
    let path = directory.join("rows.redb");
    Box::new(Redb(Database::builder().set_cache_size(CACHE_BYTES).create(path).unwrap()))
}

impl Engine for Redb {
    fn put(&mut self, rows: &[Row]) {
        let transaction = self.0.begin_write().unwrap();
        let mut table = transaction.open_table(ROWS).unwrap();
        for (key, value) in rows {
            table.insert(key.as_slice(), value.as_slice()).unwrap();
        }
        drop(table);
        transaction.commit().unwrap();
    }

    fn get(&self, keys: &[Vec<u8>]) -> u64 {
        let table = self.0.begin_read().unwrap().open_table(ROWS).unwrap();
        let size =
            |key: &Vec<u8>| table.get(key.as_slice()).unwrap().map_or(0, |v| v.value().len());
        keys.iter().map(|key| size(key) as u64).sum()
    }

    fn scan(&self) -> u64 {
        let table = self.0.begin_read().unwrap().open_table(ROWS).unwrap();
        let mut bytes = 0;
        let mut rows = 0;
        for row in table.iter().unwrap() {
            let (key, value) = row.unwrap();
            bytes += key.value().len() + value.value().len();
            rows += 1;
        }
        std::hint::black_box(bytes);
        rows
    }

    fn count(&self, _from: &[u8], _to: &[u8]) -> Option<u64> {
        None
    }

    fn compact(&mut self) {
        self.0.compact().unwrap();
    }
}
