//! An open database: it wires the rooms beneath it together, and is what embedders hold.
//!
//! [`Database`] is a handle; its parts are made when it is opened ([`open`]). Transactions know the state that they
//! share and ask the rest of it by [`Host`], which [`Parts`] is.

mod background;
mod backup;
mod calls;
mod disks;
mod member;
mod open;
mod options;
mod prepared;
mod stats;
mod verify;

use std::any::Any;

pub use background::ScrubProgress;
#[cfg(all(test, not(shuttle)))]
pub(crate) use background::reclaim_some;
pub use backup::{Restored, restore};
pub use calls::Replayer;
pub use member::Applier;
pub use options::Options;
pub use stats::Stats;
pub use verify::{VerifiedTree, VerifyReport, verify, verify_with};

use crate::{
    Csn, Error, Result, TxnId,
    env::Clock,
    lock::LockInfo,
    procedure::{Executors, Procedures},
    recovery::Commits,
    store::Activity,
    sync::{Arc, Mutex},
    txn::{Handle, Host, Shared, Snapshot, Transaction, TxnOptions},
};
use background::Background;
use disks::set::Disks;

/// An open database. Clones are handles of the same one; the last one closes it.
#[derive(Clone)]
pub struct Database(pub(crate) Arc<Handle>);

/// The parts of an open database beside what its transactions share.
pub(crate) struct Parts {
    pub inner: Arc<Shared>,
    pub background: Background,
    /// The executors that run procedures serially, if they run so.
    pub executors: Option<Executors>,
    pub procedures: Procedures,
    pub disks: Arc<Disks>,
    pub clock: Arc<dyn Clock>,
    /// The result of closing; none while the database is open. Until it is open, that there is nothing to close. The
    /// mutex is held while closing lasts, so that a second caller waits for the first.
    closing: Mutex<Option<Result<()>>>,
}

impl Parts {
    fn close(&self) -> Result<()> {
        let mut result = self.closing.lock();
        if let Some(result) = &*result {
            return result.clone();
        }
        self.inner.close();
        if let Some(executors) = &self.executors {
            executors.stop();
        }
        self.background.stop();
        result.insert(self.inner.method.close()).clone()
    }
}

impl Host for Parts {
    fn make_durable(&self, csn: Csn) {
        self.background.make_durable(csn);
    }

    fn maintain(&self) {
        self.background.maintain();
    }

    fn reclaim(&self) {
        self.background.reclaim();
    }

    fn end(&self) {
        // A caller that wants the result calls `Database::close`.
        let _ = self.close();
        // If it was never open.
        self.background.stop();
    }
}

impl Database {
    /// Returns its parts. Transactions hold a handle without knowing of them.
    pub(crate) fn parts(&self) -> &Parts {
        let host: &dyn Any = &*self.0.host;
        host.downcast_ref().expect("opening makes handles of parts")
    }

    /// Begins a transaction.
    pub fn begin(&self, options: TxnOptions) -> Result<Transaction> {
        Transaction::begin(self.0.clone(), options)
    }

    /// Returns when it acknowledges commits.
    pub fn commits(&self) -> Commits {
        self.0.inner.commits
    }

    /// Returns the newest durable commit.
    pub fn durable_csn(&self) -> Csn {
        self.0.inner.last_durable()
    }

    /// Returns the newest commit, durable or not.
    pub fn newest_csn(&self) -> Csn {
        self.0.inner.store.last_csn()
    }

    /// Takes a snapshot, as a read-only transaction does: of the newest durable state, and at least of the commit
    /// `after`, whose application it waits for.
    ///
    /// # Errors
    /// [`Error::Closed`], and that the database has stopped.
    pub fn snapshot(&self, after: Csn) -> Result<Snapshot> {
        Snapshot::take(self.0.clone(), after)
    }

    /// Waits until a commit is durable.
    pub fn wait_durable(&self, csn: Csn) -> Result<()> {
        self.0.inner.wait_durable(csn.min(self.0.inner.store.last_csn()))?;
        self.parts().background.maintain();
        Ok(())
    }

    /// Calls `call` with the cause when a failure stops the database, or at once if one has: on the thread that met it,
    /// so `call` must not block.
    pub fn when_stopped(&self, call: impl FnOnce(Error) + Send + 'static) {
        let inner = Arc::downgrade(&self.0.inner);
        let tell = move || {
            if let Some(Err(error)) = inner.upgrade().map(|inner| inner.store.check()) {
                call(error);
            }
        };
        self.0.inner.store.when_failed(tell);
    }

    /// Returns how much of the database is in use.
    pub fn stats(&self) -> Stats {
        let inner = &self.0.inner;
        let (recovery, waits) = (inner.method.recovery(), inner.locks.waits());
        let stats = Stats::new(&inner.store, recovery, inner.timeline.version_bytes(), waits);
        let (log_bytes, counts) = inner.method.log();
        let stats = Stats { log_bytes, durable_csn: inner.last_durable(), ..stats };
        match counts {
            None => stats,
            Some(counts) => Stats {
                activity: Activity {
                    log_forces: counts.forces,
                    log_bytes_written: counts.bytes,
                    ..stats.activity
                },
                ..stats
            },
        }
    }

    /// Takes a checkpoint. With a log of commits, a root gets every commit so far and the log before it is given up, so
    /// that opening reads little and the space of what was deleted is free; with shadow paging each commit batch is
    /// one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] by a database that recovers by a log of pages, which takes its own; of writing.
    pub fn checkpoint(&self) -> Result<()> {
        let inner = &self.0.inner;
        inner.check_open()?;
        inner.method.checkpoint()
    }

    /// Returns every lock that is held or awaited.
    pub fn locks(&self) -> Vec<LockInfo> {
        self.0.inner.locks.snapshot()
    }

    /// Returns the transactions that a transaction waits for now: holders of the lock, and those ahead of it in the queue.
    pub fn lock_blockers(&self, txn: TxnId) -> Vec<TxnId> {
        self.0.inner.locks.blockers(txn)
    }

    /// Makes all commits durable, then closes the database. Transactions that are still open fail from here on, but
    /// are to be dropped before the files can be opened again.
    pub fn close(&self) -> Result<()> {
        self.parts().close()
    }
}
