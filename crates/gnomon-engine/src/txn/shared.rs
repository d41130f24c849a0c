//! The state that the transactions of an open database share, and their hold on the database.

use std::{any::Any, ops::Deref, time::Duration};

use super::{prepared::AllPrepared, replicator::Replicator};
use crate::{
    Csn, Error, Result, TreeId, TxnId,
    lock::{LockName, tree_mode},
    mvcc::{Keyspace, TREES},
    recovery::{Commits, Copies, Method, Properties},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The state that the transactions of a database share.
pub(crate) struct Shared {
    pub keyspace: Keyspace,
    pub method: Box<dyn Method>,
    /// The answers of the method, asked once.
    pub properties: Properties,
    pub prepared: AllPrepared,
    pub lock_timeout: Option<Duration>,
    pub escalate_bytes: usize,
    pub write_bytes_max: usize,
    pub commits: Commits,
    /// Number of executors that run procedures serially; zero if their callers' threads do.
    pub executors: u32,
    /// True once it has been recovered, so that transactions can begin.
    pub is_open: AtomicBool,
    /// The component that orders its commits, if there is one.
    pub replicator: OnceLock<Arc<dyn Replicator>>,
}

impl Deref for Shared {
    type Target = Keyspace;
    fn deref(&self) -> &Keyspace {
        &self.keyspace
    }
}

impl Shared {
    /// True once transactions can begin.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Returns a number for a transaction that no other one has.
    pub fn new_txn_id(&self) -> TxnId {
        self.method.new_txn_id()
    }

    /// Returns the newest durable commit.
    pub fn last_durable(&self) -> Csn {
        self.method.last_durable()
    }

    /// Waits until a commit is durable.
    pub fn wait_durable(&self, csn: Csn) -> Result<()> {
        self.method.wait_durable(csn)
    }

    /// Returns the newest commit that snapshots have, which is durable unless commits are acknowledged whatever may
    /// become of them. All its changes are there, with those of all before: in a log, a commit may be durable before
    /// its transaction has told the versions.
    pub fn settled_csn(&self) -> Csn {
        let watermark = self.timeline.watermark();
        match self.commits {
            Commits::Unforced => watermark,
            // The replicator has its commits durable.
            _ if self.replicator().is_some() => watermark,
            Commits::Synchronous | Commits::Asynchronous => self.last_durable().min(watermark),
        }
    }

    pub fn prune(&self) {
        self.timeline.prune(|| self.settled_csn());
    }

    /// Forgets versions after a commit that has added `changed` of them: more than that, if there are many.
    pub fn forget_after(&self, changed: usize) {
        self.timeline.forget_after(changed, || self.settled_csn());
    }

    /// Forgets versions if the newest commit is durable, or if there are many. Otherwise commits under way forget as
    /// many as they add.
    pub fn prune_unless_busy(&self) {
        if self.store.last_csn() == self.last_durable() || self.timeline.has_much() {
            self.prune();
        }
    }

    /// Returns the component that orders commits, if this database is a member.
    pub fn replicator(&self) -> Option<&Arc<dyn Replicator>> {
        self.replicator.get()
    }

    /// True if transactions still use a dropped tree: another member has dropped it, without a lock here.
    pub fn is_in_use(&self, tree: TreeId) -> bool {
        self.replicator().is_some()
            && !self.locks.owner(self.new_txn_id()).try_lock(LockName::whole(TREES, tree.0), tree_mode::X)
    }

    /// True if a member has a dropped tree left. After reclaiming, that is one that transactions still use.
    pub fn has_dropped_in_use(&self) -> bool {
        self.replicator().is_some()
            && self.directory.dropped(&self.store, |_| false).is_ok_and(|tree| tree.is_some())
    }
}

/// The database that transactions run in, as far as they know it beside the state that they share.
pub(crate) trait Host: Any + Send + Sync {
    /// Makes a commit durable soon.
    fn make_durable(&self, csn: Csn);

    /// Starts the chores that are due, to be called when a commit is durable.
    fn maintain(&self);

    /// Gives back the pages of dropped trees, in the background.
    fn reclaim(&self);

    /// Closes the database, if it is open. No handle is there any more.
    fn end(&self);
}

/// A hold on an open database: while one is there, the database stays open unless it is closed. Background threads have
/// [`Shared`] only, so that none of them ends itself.
pub(crate) struct Handle {
    pub inner: Arc<Shared>,
    pub host: Box<dyn Host>,
}

impl Handle {
    /// Fails if no transaction can begin. Has work done that waits for one to.
    pub fn check_begin(&self) -> Result<()> {
        let inner = &self.inner;
        if !inner.is_open() {
            return Err(Error::Closed);
        }
        inner.check_open()?;
        inner.store.check()?;
        if inner.method.copies().is_some_and(Copies::wants_repair) {
            self.host.maintain();
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.host.end();
    }
}
