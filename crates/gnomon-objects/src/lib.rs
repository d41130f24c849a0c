//! Complex objects under multi-level transactions (Hasse and Weikum: A Performance Evaluation of Multi-Level
//! Transaction Management, 1991).
//!
//! An object is a cluster of pages with its own subobjects and references to subobjects of others (`access`). A
//! transaction works on objects by *operations* ([`ObjectTransaction::operate`]): a piece of code of the caller's that
//! reads and changes any number of subobjects, and is atomic by itself. There are two levels:
//!
//! - Level 1, objects: an operation locks the subobjects that it reads and changes, or objects as a whole, and the
//!   locks are kept until the transaction ends.
//! - Level 0, pages: each operation is a subtransaction of the store, with locks on pages until it ends.
//!
//! So two transactions that change different subobjects do not wait for each other, although these are on the same
//! pages, but for the time of an operation. That is what the [`Strategy`] decides when a database is made: with one
//! level there are no locks on subobjects, and those on pages are kept until the transaction ends.
//!
//! # Promises
//!
//! - Transactions are atomic, durable when [`ObjectTransaction::commit`] returns, and serializable: as if they ran one
//!   after another in the order of their commits.
//! - An operation that fails has done nothing, and the transaction goes on unless the error asks for a retry.
//! - A deadlock over pages costs, with two levels, only an operation, which runs again without an error. One over
//!   subobjects costs a transaction ([`Error::Deadlock`]), which [`ObjectOptions::victim`] chooses.
//! - Operations of one transaction that run at once ([`ObjectTransaction::operate_in_parallel`]) do as if they ran one
//!   after another.
//!
//! # How a transaction is undone
//!
//! Others may have changed the pages since, so their images from before are of no use: each operation leaves an undo
//! record with what its subobjects were, and undoing it is an operation of its own that gives them back. That happens
//! when a transaction is rolled back, when it goes back to a savepoint, and for all that were running when the database
//! stopped.
//!
//! A subobject that has become shorter may find its room taken when it is to get its value back, and need pages more.
//! The header of its object keeps room for their places until the transaction ends; an operation that would take that
//! fails with [`Error::ObjectFull`].
//!
//! # Locks within an operation
//!
//! No operation waits for a lock of level 1 while it holds pages: if one is not free then, the operation is taken back,
//! waits without pages, and runs again. An operation that locks first what it will use ([`Operation::lock`]) avoids
//! that.
//!
//! # Over the engine
//!
//! The crate is a level 1 of its own over the page WAL store of `gnomon-engine` (`gnomon_engine::level0`), whose pages,
//! locks, disks and errors it uses. As the engine, it promises no stability.
//!
//! # Not done
//!
//! Snapshots of objects (readers wait for writers), and a directory of objects: an object is found by its
//! [`ObjectId`], which others keep, in references or elsewhere.

mod access;
mod background;
mod locks;
mod operation;
mod transaction;
mod undo;

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::{collections::HashMap, path::Path, time::Duration};

pub use access::{Header, ObjectShape, Reference};
pub use gnomon_engine::{
    LogShape, Strategy,
    level0::LoggedActivity,
    lock::{LevelWaits, Victim},
};
pub use operation::Operation;
pub use transaction::{ObjectSavepoint, ObjectTransaction};

use gnomon_engine::{
    Csn, Error, PageId, PageSize, Result,
    disk::DiskSet,
    env::{Clock, Rng, SystemClock},
    level0::{Contents, GroupCommit, Limits, LoggedStore, Opening},
    lock::{KEY_MODES, LockInfo, LockManager, LockTable, TREE_MODES, TableId, WaitCounter, WaitOptions},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use self::background::Background;

/// An object, by the page of its header.
pub type ObjectId = PageId;

/// The lock table of pages.
const PAGES: TableId = TableId::new(0);
/// The lock table of objects, which are locked as a whole or with the intention to lock subobjects.
const OBJECTS: TableId = TableId::new(1);
/// The lock table of subobjects.
const SUBOBJECTS: TableId = TableId::new(2);

/// Options for opening a database of objects.
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    /// Make the database if there is none.
    pub create: bool,
    /// The strategy of a database that is made.
    pub strategy: Strategy,
    /// The logs of a database that is made.
    pub logs: LogShape,
    /// The size in bytes of the smallest pages of a database that is made: 512, 1024, 2048 or 4096.
    pub page_bytes_min: usize,
    /// The buffer pool's size in bytes.
    pub pool_bytes: usize,
    /// The log may be so many bytes long, about, before its beginning is given up: what a crash recovery reads at most.
    pub log_bytes_max: u64,
    /// A persistence sphere of more pages than this is written in the background.
    pub sphere_pages_max: usize,
    /// Longest wait for a lock; none waits for ever, zero fails instead of waiting.
    pub lock_timeout: Option<Duration>,
    /// The rule that chooses the transaction of a deadlock that is rolled back. With two levels, of a deadlock over
    /// pages it is an operation, the one with the least to lose (until it was that 16 times), and runs again.
    pub victim: Victim,
    /// The seed of random numbers; none takes a seed that no other run has.
    pub seed: Option<u64>,
}

impl Default for ObjectOptions {
    fn default() -> ObjectOptions {
        ObjectOptions {
            create: true,
            strategy: Strategy::default(),
            logs: LogShape::default(),
            page_bytes_min: 2048,
            pool_bytes: 64 << 20,
            log_bytes_max: 64 << 20,
            sphere_pages_max: 1024,
            lock_timeout: None,
            victim: Victim::default(),
            seed: None,
        }
    }
}

/// Counts of work since a database of objects was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectActivity {
    /// Locks on pages.
    pub pages: LevelWaits,
    /// Locks on objects and subobjects.
    pub objects: LevelWaits,
    /// Number of operations that were run again, after a deadlock over pages or for a lock that was not free.
    pub repeated_operations: u64,
    /// Logs and pages.
    pub store: LoggedActivity,
}

/// The state that the transactions of a database share.
struct Inner {
    store: LoggedStore,
    locks: Arc<LockManager>,
    clock: Arc<dyn Clock>,
    lock_timeout: Option<Duration>,
    victim: Victim,
    object_waits: WaitCounter,
    repeated_operations: AtomicU64,
    /// Room that the headers of objects must keep, in pages or references, so that running transactions can be undone.
    owed: Mutex<HashMap<ObjectId, usize>>,
    background: Arc<Background>,
    /// The result of closing it; none while it is open.
    closed: Mutex<Option<Result<()>>>,
    /// Held open, so that no other process or handle opens them.
    _disks: DiskSet,
}

impl Inner {
    fn check_open(&self) -> Result<()> {
        if self.closed.lock().is_some() { Err(Error::Closed) } else { self.store.check() }
    }

    fn wait_options(&self) -> WaitOptions<'static> {
        let timeout = self.lock_timeout;
        WaitOptions { timeout, nowait: timeout == Some(Duration::ZERO), ..WaitOptions::default() }
    }

    fn close(&self) -> Result<()> {
        self.background.stop();
        let mut closed = self.closed.lock();
        if let Some(result) = &*closed {
            return result.clone();
        }
        closed.insert(self.store.close()).clone()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A caller that wants the result calls `ObjectDatabase::close`.
        let _ = self.close();
    }
}

/// An open database of objects. Clones are handles of the same one; the last one closes it.
#[derive(Clone)]
pub struct ObjectDatabase(Arc<Inner>);

impl ObjectDatabase {
    /// Opens the database in a directory, recovering it if need be.
    ///
    /// # Errors
    /// Those of [`Database::open`](gnomon_engine::Database::open).
    pub fn open(path: impl AsRef<Path>, options: ObjectOptions) -> Result<ObjectDatabase> {
        ObjectDatabase::open_on(DiskSet::open(path, &[], false, options.create)?, options)
    }

    /// Opens the database on a disk.
    pub fn open_on(disks: impl Into<DiskSet>, options: ObjectOptions) -> Result<ObjectDatabase> {
        ObjectDatabase::open_store(disks.into(), options, |_| ())
    }

    fn open_store(
        disks: DiskSet,
        options: ObjectOptions,
        prepare: impl FnOnce(&mut LoggedStore),
    ) -> Result<ObjectDatabase> {
        let unit = PageSize::smallest(options.page_bytes_min)?;
        let Some(disk) = disks.disks().next().cloned() else {
            return Err(Error::BadOption("a database of objects has one disk".into()));
        };
        let mut rng = options.seed.map_or_else(Rng::from_entropy, Rng::from_seed);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let how = Opening {
            create: options.create.then(|| rng.next_u64()),
            read_only: false,
            unit,
            contents: Contents::Objects,
            strategy: options.strategy,
            logs: options.logs,
            pool_bytes: options.pool_bytes,
            limits: Limits {
                dirty_bytes_max: options.pool_bytes / 2,
                log_bytes_max: options.log_bytes_max,
                sphere_pages_max: options.sphere_pages_max,
            },
            page_locks: PAGES,
            clock: clock.clone(),
        };
        let (mut store, losers) = LoggedStore::open_on(&disk, how)?;
        prepare(&mut store);
        let locks = LockManager::new(
            [
                LockTable::new("page", KEY_MODES),
                LockTable::new("object", TREE_MODES),
                LockTable::new("subobject", KEY_MODES),
            ],
            clock.clone(),
        );
        let inner = Arc::new(Inner {
            store,
            locks,
            clock,
            lock_timeout: options.lock_timeout,
            victim: options.victim,
            object_waits: WaitCounter::default(),
            repeated_operations: AtomicU64::new(0),
            owed: Mutex::default(),
            background: Arc::default(),
            closed: Mutex::new(None),
            _disks: disks,
        });
        transaction::undo_losers(&inner, &losers)?;
        background::start(&inner);
        Ok(ObjectDatabase(inner))
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Result<ObjectTransaction> {
        self.0.check_open()?;
        Ok(ObjectTransaction::new(self.0.clone(), self.0.store.new_id()))
    }

    /// The strategy that the database was made with.
    pub fn strategy(&self) -> Strategy {
        self.0.store.strategy()
    }

    /// The newest durable commit.
    pub fn durable_csn(&self) -> Csn {
        self.0.store.durable_csn()
    }

    /// Returns counts of work since the database was opened.
    pub fn activity(&self) -> ObjectActivity {
        ObjectActivity {
            pages: self.0.store.page_waits(),
            objects: self.0.object_waits.read(),
            repeated_operations: self.0.repeated_operations.load(Ordering::Relaxed),
            store: self.0.store.log_activity(),
        }
    }

    /// Every lock that is held or awaited.
    pub fn locks(&self) -> Vec<LockInfo> {
        self.0.locks.snapshot()
    }

    /// Returns the length of the log of pages, in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.0.store.log_bytes()
    }

    /// Makes everything durable and closes the database. Transactions that are still open fail from here on.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }
}
