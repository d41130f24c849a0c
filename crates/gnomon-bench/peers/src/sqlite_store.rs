//! SQLite with a write-ahead log that is synced by each commit. It has one writer at a time and no group commit: a
//! connection behind a mutex is faster than many that wait for its file lock.

use std::path::Path;

use gnomon_bench::store::{Committed, Operations, Result, Row, Store, Table, Visitor};
use gnomon_engine::sync::Mutex;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::failed;

/// SQLite.
pub struct Sqlite(Mutex<Connection>);

impl Sqlite {
    pub fn create(directory: &Path, tables: usize, cache_bytes: usize) -> Result<Sqlite> {
        let connection = Connection::open(directory.join("sqlite")).map_err(failed)?;
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -{};",
                cache_bytes >> 10
            ))
            .map_err(failed)?;
        for table in 0..tables {
            connection
                .execute_batch(&format!(
                    "CREATE TABLE t{table} (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
                ))
                .map_err(failed)?;
        }
        Ok(Sqlite(Mutex::new(connection)))
    }
}

impl Store for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        self.run(&mut |operations| {
            rows.iter().try_for_each(|(key, value)| operations.insert(table, key, value))
        })
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        let mut connection = self.0.lock();
        let txn = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let mut txn = Txn(txn);
        body(&mut txn)?;
        txn.0.commit().map_err(failed)?;
        Ok(Committed::Durable)
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        let connection = self.0.lock();
        let mut statement =
            connection.prepare(&format!("SELECT k, v FROM t{table} ORDER BY k")).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let key = row.get_ref(0).map_err(failed)?.as_blob().map_err(failed)?;
            let value = row.get_ref(1).map_err(failed)?.as_blob().map_err(failed)?;
            visit(key, value)?;
        }
        Ok(())
    }
}

struct Txn<'a>(Transaction<'a>);

impl Operations for Txn<'_> {
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0
            .prepare_cached(&format!("SELECT v FROM t{table} WHERE k = ?"))
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(failed)
    }

    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(table, key)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.0
            .prepare_cached(&format!(
                "INSERT INTO t{table} VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
            ))
            .and_then(|mut statement| statement.execute(params![key, value]))
            .map_err(failed)?;
        Ok(())
    }

    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.0
            .prepare_cached(&format!("INSERT INTO t{table} VALUES (?, ?)"))
            .and_then(|mut statement| statement.execute(params![key, value]))
            .map_err(failed)?;
        Ok(())
    }
}
