//! fjall: transactions are committed into its journal and made durable by `persist` in groups, which is faster than
//! making each of them durable inside its commit: that would hold the journal's lock during the sync.

use std::path::Path;

use fjall::{
    Conflict, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode,
    Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace,
};
use gnomon_bench::store::{Committed, Operations, Result, Row, Store, StoreError, Table, Visitor};

use crate::{failed, group::GroupCommit};

/// What both kinds of transactions do.
trait Write: Readable {
    type Table: AsRef<Keyspace>;

    fn write(&mut self, table: &Self::Table, key: &[u8], value: &[u8]);
}

impl Write for fjall::SingleWriterWriteTx<'_> {
    type Table = SingleWriterTxKeyspace;

    fn write(&mut self, table: &SingleWriterTxKeyspace, key: &[u8], value: &[u8]) {
        self.insert(table, key, value);
    }
}

impl Write for fjall::OptimisticWriteTx {
    type Table = OptimisticTxKeyspace;

    fn write(&mut self, table: &OptimisticTxKeyspace, key: &[u8], value: &[u8]) {
        self.insert(table, key, value);
    }
}

struct Txn<'a, T: Write> {
    txn: T,
    tables: &'a [T::Table],
}

impl<T: Write> Operations for Txn<'_, T> {
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.txn.get(&self.tables[table], key).map_err(failed)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(table, key)
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.write(&self.tables[table], key, value);
        Ok(())
    }

    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(table, key, value)
    }
}

fn visit_all(snapshot: &impl Readable, table: &impl AsRef<Keyspace>, visit: Visitor<'_>) -> Result<()> {
    for row in snapshot.iter(table) {
        let (key, value) = row.into_inner().map_err(failed)?;
        visit(&key, &value)?;
    }
    Ok(())
}

/// With single-writer transactions.
pub struct SingleWriter {
    database: SingleWriterTxDatabase,
    tables: Vec<SingleWriterTxKeyspace>,
    group: GroupCommit,
}

impl SingleWriter {
    pub fn create(directory: &Path, tables: usize, cache_bytes: usize) -> Result<SingleWriter> {
        let database = SingleWriterTxDatabase::builder(directory)
            .cache_size(cache_bytes as u64)
            .open()
            .map_err(failed)?;
        let tables = (0..tables)
            .map(|table| database.keyspace(&table.to_string(), KeyspaceCreateOptions::default))
            .collect::<fjall::Result<_>>()
            .map_err(failed)?;
        Ok(SingleWriter { database, tables, group: GroupCommit::default() })
    }
}

impl Store for SingleWriter {
    fn name(&self) -> &str {
        "fjall"
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        let mut txn = self.database.write_tx().durability(Some(PersistMode::SyncAll));
        rows.iter().for_each(|(key, value)| txn.write(&self.tables[table], key, value));
        txn.commit().map_err(failed)
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        let mut txn = Txn { txn: self.database.write_tx(), tables: &self.tables };
        body(&mut txn)?;
        txn.txn.commit().map_err(failed)?;
        self.group.wait(|| self.database.persist(PersistMode::SyncAll)).map_err(failed)?;
        Ok(Committed::Durable)
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        visit_all(&self.database.read_tx(), &self.tables[table], visit)
    }
}

/// With optimistic transactions.
pub struct Optimistic {
    database: OptimisticTxDatabase,
    tables: Vec<OptimisticTxKeyspace>,
    group: GroupCommit,
}

impl Optimistic {
    pub fn create(directory: &Path, tables: usize, cache_bytes: usize) -> Result<Optimistic> {
        let database =
            OptimisticTxDatabase::builder(directory).cache_size(cache_bytes as u64).open().map_err(failed)?;
        let tables = (0..tables)
            .map(|table| database.keyspace(&table.to_string(), KeyspaceCreateOptions::default))
            .collect::<fjall::Result<_>>()
            .map_err(failed)?;
        Ok(Optimistic { database, tables, group: GroupCommit::default() })
    }
}

impl Store for Optimistic {
    fn name(&self) -> &str {
        "fjall-optimistic"
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        let mut txn = self.database.write_tx().map_err(failed)?.durability(Some(PersistMode::SyncAll));
        rows.iter().for_each(|(key, value)| txn.write(&self.tables[table], key, value));
        txn.commit().map_err(failed)?.map_err(|Conflict| StoreError::Retry)
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        let txn = self.database.write_tx().map_err(failed)?;
        let mut txn = Txn { txn, tables: &self.tables };
        body(&mut txn)?;
        txn.txn.commit().map_err(failed)?.map_err(|Conflict| StoreError::Retry)?;
        self.group.wait(|| self.database.persist(PersistMode::SyncAll)).map_err(failed)?;
        Ok(Committed::Durable)
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        visit_all(&self.database.read_tx(), &self.tables[table], visit)
    }
}
