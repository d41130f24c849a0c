//! redb: transactions commit without durability, and an empty durable commit makes those before it durable, in
//! groups.

use std::path::Path;

use gnomon_bench::store::{Committed, Operations, Result, Row, Store, Table, Visitor};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::{failed, group::GroupCommit};

const NAMES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(NAMES[table])
}

/// redb.
pub struct Redb {
    database: Database,
    group: GroupCommit,
}

impl Redb {
    pub fn create(directory: &Path, tables: usize, cache_bytes: usize) -> Result<Redb> {
        let database =
            Database::builder().set_cache_size(cache_bytes).create(directory.join("redb")).map_err(failed)?;
        let txn = database.begin_write().map_err(failed)?;
        for table in 0..tables {
            txn.open_table(definition(table)).map_err(failed)?;
        }
        txn.commit().map_err(failed)?;
        Ok(Redb { database, group: GroupCommit::default() })
    }

    fn sync(&self) -> Result<()> {
        self.database.begin_write().map_err(failed)?.commit().map_err(failed)
    }
}

impl Store for Redb {
    fn name(&self) -> &str {
        "redb"
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        let mut txn = Txn(self.database.begin_write().map_err(failed)?);
        for (key, value) in rows {
            txn.put(table, key, value)?;
        }
        txn.0.commit().map_err(failed)
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        let mut txn = Txn(self.database.begin_write().map_err(failed)?);
        txn.0.set_durability(Durability::None).map_err(failed)?;
        body(&mut txn)?;
        txn.0.commit().map_err(failed)?;
        self.group.wait(|| self.sync())?;
        Ok(Committed::Durable)
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        let txn = self.database.begin_read().map_err(failed)?;
        let opened = txn.open_table(definition(table)).map_err(failed)?;
        for row in opened.iter().map_err(failed)? {
            let (key, value) = row.map_err(failed)?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }
}

struct Txn(WriteTransaction);

impl Operations for Txn {
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let opened = self.0.open_table(definition(table)).map_err(failed)?;
        let value = opened.get(key).map_err(failed)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(table, key)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let mut opened = self.0.open_table(definition(table)).map_err(failed)?;
        opened.insert(key, value).map_err(failed)?;
        Ok(())
    }

    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(table, key, value)
    }
}
