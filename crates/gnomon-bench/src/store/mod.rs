//! The interface between workloads and stores: tables of keys and values, and transactions over them.
//!
//! Promises: a workload that is written against [`Store`] issues the same operations to every store. The trait is as
//! small as the workloads allow and leaves to each store how it isolates and how it makes commits durable.

pub mod row;
pub mod server;

use std::{error, fmt, path::Path, time::Duration};

use gnomon_engine::{
    Applied, Csn, Database, Direction, Error, KeyRange, Options, Reaction, RowLock, Ticket, Transaction,
    TreeId, TreeLock, TxnOptions, disk::Disk, sync::Arc,
};

/// The number of a table, from zero.
pub type Table = usize;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// The columns of a table, for stores that have columns: a key of numbers (8 bytes each, big-endian), and a
/// value of numbers (8 bytes each, little-endian) and filler, which is text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The table's name.
    pub name: &'static str,
    /// The names of the key's numbers.
    pub key: &'static [&'static str],
    /// The names of the value's numbers. The first is the one that is added to.
    pub numbers: &'static [&'static str],
    /// How long the filler is.
    pub filler_bytes: usize,
}

impl Layout {
    /// The value that has these numbers.
    pub fn value(&self, numbers: &[i64]) -> Vec<u8> {
        debug_assert_eq!(numbers.len(), self.numbers.len(), "{}", self.name);
        let mut value: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        value.resize(value.len() + self.filler_bytes, b' ');
        value
    }
}

/// Why an operation did not succeed.
#[derive(Debug)]
pub enum StoreError {
    /// The transaction is to be run again (a deadlock, a conflict).
    Retry,
    /// The transaction found that it cannot do what it was to do (an overdraft), and was rolled back. It is not to be
    /// run again.
    Refused,
    /// The store failed.
    Failed(Box<dyn error::Error + Send + Sync>),
}

impl StoreError {
    /// A failure of the workload's own: what it found is not what it stored.
    pub fn unexpected(what: impl Into<String>) -> StoreError {
        StoreError::Failed(what.into().into())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Retry => f.write_str("the transaction must be run again"),
            StoreError::Refused => f.write_str("the transaction was refused"),
            StoreError::Failed(error) => error.fmt(f),
        }
    }
}

impl error::Error for StoreError {}

impl From<Error> for StoreError {
    fn from(error: Error) -> StoreError {
        if error.reaction() == Reaction::Retry { StoreError::Retry } else { StoreError::Failed(error.into()) }
    }
}

/// A transaction that is committed, which others see and will see after a crash if this one does.
#[must_use]
pub enum Committed {
    /// It is durable.
    Durable,
    /// It will be soon.
    Soon(Ticket),
}

impl Committed {
    /// Waits until it is durable.
    pub fn wait(self) -> Result<()> {
        match self {
            Committed::Durable => Ok(()),
            Committed::Soon(ticket) => Ok(ticket.wait().map(|_| ())?),
        }
    }

    /// Calls `f` when it is durable or has failed, at once or on another thread.
    pub fn then(self, f: impl FnOnce(Result<()>) + Send + 'static) {
        match self {
            Committed::Durable => f(Ok(())),
            Committed::Soon(ticket) => {
                ticket.on_durable(|durable| f(durable.map(|_| ()).map_err(StoreError::from)))
            }
        }
    }
}

/// Takes the rows of a table, key and value.
pub type Visitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// The result of a store's operation.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A store of tables.
pub trait Store: Sync {
    /// Its name, for reports.
    fn name(&self) -> &str;

    /// Writes rows in one transaction, with no other beside it. Returns when they are durable.
    fn load(&self, table: Table, rows: &[Row]) -> Result<()>;

    /// Runs a transaction. After an error of the body it is rolled back. After [`StoreError::Retry`], of the body or of
    /// the commit, nothing of it has happened.
    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed>;

    /// As [`Store::run`], for a body of one operation: a store need not be told where it begins and ends.
    fn run_one(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        self.run(body)
    }

    /// Visits every row of a table in the order of the keys.
    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()>;

    /// How long transactions have waited for locks since the store was opened, all of them together, if it tells.
    fn lock_wait(&self) -> Option<Duration> {
        None
    }
}

/// The result of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is done, and made the number what it is now.
    To(i64),
    /// It is done; others may add to the number, too, so the sum was not read.
    Blind,
    /// The number would not be within its bounds: nothing is done.
    Refused,
}

/// The operations of a transaction.
pub trait Operations {
    /// The value of a key as the transaction sees it.
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// The number at the head of a row as the transaction sees it.
    fn number(&mut self, table: Table, key: &[u8]) -> Result<Option<i64>> {
        Ok(self.get(table, key)?.as_deref().and_then(row::number))
    }
    /// The newest value of a key, which no other transaction changes until this one ends.
    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Writes a key, present or not.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// Adds to the number at the head of a row, if it is within `min..=max` afterwards.
    fn add(&mut self, table: Table, key: &[u8], delta: i64, min: i64, max: i64) -> Result<Added> {
        let missing = || StoreError::unexpected(format!("a row of table {table} is missing"));
        let mut row = self.get_for_update(table, key)?.ok_or_else(missing)?;
        let sum = row::number(&row).ok_or_else(missing)?.checked_add(delta);
        let Some(sum) = sum.filter(|sum| (min..=max).contains(sum)) else { return Ok(Added::Refused) };
        row[..8].copy_from_slice(&sum.to_le_bytes());
        self.put(table, key, &row)?;
        Ok(Added::To(sum))
    }
    /// Adds the number at the head of `row` to that of the row that is there, or inserts `row` if there is none.
    fn add_or_insert(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<()> {
        if self.get_for_update(table, key)?.is_none() {
            return self.insert(table, key, row);
        }
        match self.add(table, key, number_of(row)?, i64::MIN, i64::MAX)? {
            Added::To(_) | Added::Blind => Ok(()),
            Added::Refused => Err(StoreError::unexpected(format!("a number of table {table} overflows"))),
        }
    }
    /// Writes a key that is absent.
    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()>;
}

/// The number at the head of a row, which must have one.
pub fn number_of(row: &[u8]) -> Result<i64> {
    row::number(row).ok_or_else(|| StoreError::unexpected("a row is shorter than its number"))
}

/// Gnomon, in this process, without SQL: a tree a table.
pub struct GnomonStore {
    database: Database,
    /// How transactions begin.
    options: TxnOptions,
}

impl GnomonStore {
    /// Chooses between semantic locks for additions and exclusive locks of rows.
    pub fn with_semantic_locks(mut self, on: bool) -> GnomonStore {
        self.options.exclusive_operations = !on;
        self
    }

    /// Makes a database with so many tables in a directory that holds none.
    pub fn create(directory: &Path, tables: usize, options: Options) -> Result<GnomonStore> {
        // Before it is opened: it may have been made by other options.
        if gnomon_engine::has_database(directory) {
            return Err(holds_one(directory.display()));
        }
        let options = Options { operations: vec![row::family()], ..options };
        let database = Database::open(directory, options)?;
        GnomonStore::fill(database, tables, || holds_one(directory.display()))
    }

    /// Makes a database with so many tables on a disk that holds none.
    pub fn create_on(disk: Arc<dyn Disk>, tables: usize, options: Options) -> Result<GnomonStore> {
        let options = Options { operations: vec![row::family()], ..options };
        let database = Database::open_on(disk, options)?;
        GnomonStore::fill(database, tables, || holds_one("the disk"))
    }

    /// Makes the tables. The first tree of a database is number 1; otherwise it is not new.
    fn fill(database: Database, tables: usize, not_new: impl Fn() -> StoreError) -> Result<GnomonStore> {
        let mut txn = database.begin(TxnOptions::default())?;
        for table in 0..tables {
            if txn.create_tree()? != tree(table) {
                return Err(not_new());
            }
        }
        txn.commit()?;
        Ok(GnomonStore { database, options: TxnOptions::default() })
    }

    /// Opens a database that [`GnomonStore::create`] made.
    pub fn open(directory: &Path, pool_bytes: usize) -> Result<GnomonStore> {
        let operations = vec![row::family()];
        let options = Options { create: false, pool_bytes, operations, ..Options::default() };
        let database = Database::open(directory, options)?;
        Ok(GnomonStore { database, options: TxnOptions::default() })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Takes a checkpoint, if the recovery method leaves that to others.
    pub fn checkpoint(&self) -> Result<()> {
        match self.database.checkpoint() {
            Err(Error::Unsupported(_)) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Closes the database.
    pub fn close(self) -> Result<()> {
        Ok(self.database.close()?)
    }
}

/// Fails if something was committed to the database in a directory.
pub(crate) fn check_is_new(durable: Csn, directory: &Path) -> Result<()> {
    match durable.0 {
        0 => Ok(()),
        _ => Err(holds_one(directory.display())),
    }
}

fn holds_one(place: impl fmt::Display) -> StoreError {
    StoreError::unexpected(format!("{place} holds a database already: give another directory"))
}

/// The tree of a table in [`GnomonStore`]: the first tree of a database is number 1.
pub fn tree(table: Table) -> TreeId {
    TreeId(table as u64 + 1)
}

impl Store for GnomonStore {
    fn name(&self) -> &str {
        "gnomon"
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        let mut txn = self.database.begin(TxnOptions::default())?;
        txn.lock_tree(tree(table), TreeLock::Exclusive)?;
        for (key, value) in rows {
            txn.put(tree(table), key, value)?;
        }
        txn.commit()?;
        Ok(())
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        let mut txn = self.database.begin(self.options.clone())?;
        body(&mut txn)?;
        Ok(Committed::Soon(txn.order()?))
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        let mut txn = self.database.begin(TxnOptions { read_only: true, ..TxnOptions::default() })?;
        let mut cursor = txn.scan(tree(table), KeyRange::all(), Direction::Forward)?;
        while let Some((key, value)) = cursor.next(&mut txn)? {
            visit(&key, &value)?;
        }
        Ok(())
    }

    fn lock_wait(&self) -> Option<Duration> {
        Some(self.database.stats().lock_waits.time)
    }
}

impl Operations for Transaction {
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.start_statement()?;
        Ok(Transaction::get(self, tree(table), key)?)
    }

    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.start_statement()?;
        Ok(self.get_locked(tree(table), key, RowLock::Exclusive)?)
    }

    fn add(&mut self, table: Table, key: &[u8], delta: i64, min: i64, max: i64) -> Result<Added> {
        self.start_statement()?;
        match self.apply(tree(table), key, &row::add(delta, min, max))? {
            // Behind an exclusive lock it is final, and an own write is as cheap to read as to know.
            Applied::Done if self.options().exclusive_operations => {
                let row = Transaction::get(self, tree(table), key)?;
                let number = row.as_deref().and_then(row::number);
                number.map(Added::To).ok_or_else(|| StoreError::unexpected("an added-to row is gone"))
            }
            Applied::Done => Ok(Added::Blind),
            Applied::Refused(_) => Ok(Added::Refused),
            Applied::Absent => Err(StoreError::unexpected(format!("a row of table {table} is missing"))),
        }
    }

    fn add_or_insert(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<()> {
        let call = row::add(number_of(row)?, i64::MIN, i64::MAX);
        loop {
            self.start_statement()?;
            match self.apply(tree(table), key, &call)? {
                Applied::Done => return Ok(()),
                Applied::Refused(_) => {
                    return Err(StoreError::unexpected(format!("a number of table {table} overflows")));
                }
                // Another transaction may insert it first: then it can be added to.
                Applied::Absent => match Transaction::insert(self, tree(table), key, row) {
                    Err(Error::KeyExists) => {}
                    inserted => return Ok(inserted?),
                },
            }
        }
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(Transaction::put(self, tree(table), key, value)?)
    }

    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.start_statement()?;
        Ok(Transaction::insert(self, tree(table), key, value)?)
    }
}
