//! An open database.

use std::{io::Write, path::Path};

use gnomon_engine::{
    TxnOptions,
    sync::{Arc, Mutex},
};

use crate::{
    Backup, Builder, Commits, Csn, Error, PreparedTransaction, ReadTransaction, Result, Transaction, Tree,
    names, options::TransactionOptions, report::BackupId,
};

/// A transaction that is in vain so often ends with the error that it met.
const RUNS_MAX: u32 = 1000;

/// An open database. Clones are handles of the same one, and threads share them; the last one closes it.
#[derive(Clone)]
pub struct Database {
    engine: gnomon_engine::Database,
    /// True if there is a directory of names. Held while it is made.
    has_names: Arc<Mutex<bool>>,
}

impl Database {
    pub(crate) fn new(engine: gnomon_engine::Database) -> Result<Database> {
        let has_names = Arc::new(Mutex::new(names::exist(&engine)?));
        Ok(Database { engine, has_names })
    }

    /// Opens the database in the directory `path`, or makes it if there is none.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::builder(path).open()
    }

    /// Makes a database that lives in memory, and ends with its last handle.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn in_memory() -> Result<Database> {
        Builder::in_memory().open()
    }

    /// Begins with the options of a database in the directory `path`.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(Some(path.as_ref().into()))
    }

    /// Begins a transaction that reads and writes.
    ///
    /// # Errors
    /// [`Error::Closed`], and that the database has stopped.
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(|_| ())
    }

    /// Begins a transaction with other options.
    ///
    /// # Errors
    /// As [`Database::begin`].
    pub fn begin_with(&self, change: impl FnOnce(&mut TransactionOptions)) -> Result<Transaction> {
        let mut options = TransactionOptions::default();
        change(&mut options);
        let TransactionOptions { isolation, lock_timeout } = options;
        let inner = self.engine.begin(TxnOptions { isolation, lock_timeout, ..TxnOptions::default() })?;
        Ok(Transaction::new(self.clone(), inner))
    }

    /// Runs a transaction and commits it. Where it meets a deadlock or a conflict with others, it runs again, so what
    /// `run` does beside the database may happen more than once.
    ///
    /// ```
    /// # fn main() -> gnomon::Result<()> {
    /// # let db = gnomon::Database::in_memory()?;
    /// let tree = db.tree("visits")?;
    /// let visits = db.transact(|txn| {
    ///     let visits = txn.get(tree, "alice")?.map_or(0, |visits| u64::from_be_bytes(visits.try_into().unwrap()));
    ///     txn.put(tree, "alice", (visits + 1).to_be_bytes())?;
    ///     Ok(visits + 1)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `run` and of [`Transaction::commit`]; the transaction is rolled back then.
    pub fn transact<T>(&self, mut run: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut runs = 1;
        loop {
            let mut txn = self.begin()?;
            let (seen, error) = match run(&mut txn) {
                Ok(done) => match txn.commit() {
                    Ok(_) => return Ok(done),
                    Err(error) => (Csn(0), error),
                },
                Err(error) => (txn.seen(), error),
            };
            let is_passing =
                matches!(error, Error::Deadlock | Error::Serialization(_) | Error::SnapshotTooOld);
            if is_passing && runs < RUNS_MAX {
                runs += 1;
                continue;
            }
            // The error may tell of what the transaction saw.
            if self.engine.commits() == Commits::Synchronous {
                self.engine.wait_durable(seen)?;
            }
            return Err(error);
        }
    }

    /// Begins a transaction that only reads. It sees every commit that a caller was told of, and nothing that a crash
    /// could undo, unless commits are acknowledged before they are durable ([`Builder::commits`]). It waits for no other
    /// transaction.
    ///
    /// # Errors
    /// [`Error::Closed`], and that the database has stopped.
    pub fn read(&self) -> Result<ReadTransaction> {
        self.read_after(Csn(0))
    }

    /// As [`Database::read`], and at least of this commit, of which a ticket may tell that it is not durable yet.
    ///
    /// # Errors
    /// As [`Database::read`].
    pub fn read_after(&self, commit: Csn) -> Result<ReadTransaction> {
        let told = match self.engine.commits() {
            Commits::Synchronous => self.engine.durable_csn(),
            Commits::Asynchronous | Commits::Unforced => self.engine.newest_csn(),
        };
        self.engine.snapshot(commit.max(told)).map(ReadTransaction::new)
    }

    /// Returns the tree of this name, and makes it if there is none, in a transaction of its own.
    ///
    /// # Errors
    /// [`Error::BadOption`] of a name that is empty or has more than 255 bytes, and those of a transaction.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        match self.find_tree(name)? {
            Some(tree) => Ok(tree),
            None => self.transact(|txn| txn.tree(name)),
        }
    }

    /// Returns the tree of this name, if there is one.
    ///
    /// # Errors
    /// As [`Database::tree`].
    pub fn find_tree(&self, name: &str) -> Result<Option<Tree>> {
        self.transact(|txn| txn.find_tree(name))
    }

    /// Returns the named trees, in the order of their names.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn trees(&self) -> Result<Vec<(String, Tree)>> {
        match self.has_names() {
            true => self.transact(|txn| names::list(txn.inner())),
            false => Ok(Vec::new()),
        }
    }

    /// Calls a procedure in a transaction of its own, and returns its answer when that is durable, or as
    /// [`Builder::commits`] says.
    ///
    /// # Errors
    /// [`Error::NoSuchProcedure`], the procedure's own, and those of a transaction; a deadlock runs it again. Where
    /// procedures run serially, [`Error::Busy`] if too many calls wait.
    pub fn call(&self, procedure: &str, params: &[u8]) -> Result<Vec<u8>> {
        self.engine.call(procedure, params)
    }

    /// As [`Database::call`], but returns without waiting for the answer, which `done` is called with, on a thread of
    /// the database's or on this one. It must not block.
    ///
    /// # Errors
    /// [`Error::NoSuchProcedure`], [`Error::BadOption`] of parameters that are too long, [`Error::Busy`],
    /// [`Error::Closed`]; `done` gets all others.
    pub fn call_then(
        &self,
        procedure: &str,
        params: &[u8],
        done: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) -> Result<()> {
        self.engine.call_then(procedure, params, done)
    }

    /// Returns the names of the prepared transactions ([`Transaction::prepare`]).
    ///
    /// # Errors
    /// That the database has stopped.
    pub fn prepared(&self) -> Result<Vec<String>> {
        Ok(self.engine.prepared()?.into_iter().map(|info| info.gid).collect())
    }

    /// Takes a prepared transaction, to end it. No other caller has it meanwhile.
    ///
    /// # Errors
    /// [`Error::NoSuchGid`]; [`Error::GidBusy`] if another caller has it.
    pub fn claim_prepared(&self, name: &str) -> Result<PreparedTransaction> {
        self.engine.claim_prepared(name)
    }

    /// Writes a backup of the whole database to `out`: the state of one moment, while others read and write.
    ///
    /// # Errors
    /// [`Error::BackupStream`] if `out` fails; [`Error::Unsupported`] where a log of pages recovers.
    pub fn backup(&self, out: &mut dyn Write) -> Result<Backup> {
        self.engine.backup(None, out, &mut |_, _| ())
    }

    /// Writes a backup of what has changed since another one.
    ///
    /// # Errors
    /// As [`Database::backup`]; [`Error::BackupChain`] if `since` is no earlier state of this database.
    pub fn backup_since(&self, since: BackupId, out: &mut dyn Write) -> Result<Backup> {
        self.engine.backup(Some(since), out, &mut |_, _| ())
    }

    /// Waits until a commit is durable.
    ///
    /// # Errors
    /// That it never will be, since the database has stopped.
    pub fn wait_durable(&self, commit: Csn) -> Result<()> {
        self.engine.wait_durable(commit)
    }

    /// Takes a checkpoint: opening reads no log from before.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where a log of pages recovers, which takes its own; those of writing.
    pub fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint()
    }

    /// Makes all commits durable and closes the database, for all handles.
    ///
    /// # Errors
    /// Those of writing.
    pub fn close(&self) -> Result<()> {
        self.engine.close()
    }

    /// Returns the engine beneath, for the crates beside this one (`gnomon-sql`) and for what is not here. It promises
    /// no stability.
    pub fn engine(&self) -> &gnomon_engine::Database {
        &self.engine
    }

    /// True if there is a directory of names.
    pub(crate) fn has_names(&self) -> bool {
        *self.has_names.lock()
    }

    /// Makes the directory of names, if there is none.
    pub(crate) fn make_names(&self) -> Result<()> {
        let mut has_names = self.has_names.lock();
        if !*has_names {
            names::make(&self.engine)?;
            *has_names = true;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}
