//! Commit tickets.

use super::shared::Handle;
use crate::{Csn, Result, recovery::Commits, sync::Arc};

/// A commit ticket: the promise that a commit will be durable.
pub struct Ticket {
    handle: Arc<Handle>,
    csn: Csn,
    /// True if a replicator orders the commits of this database: it has all of them up to this one durable.
    is_elsewhere: bool,
}

impl Ticket {
    pub(crate) fn new(handle: Arc<Handle>, csn: Csn) -> Ticket {
        Ticket { handle, csn, is_elsewhere: false }
    }

    /// As [`Ticket::new`], of a transaction in a member of a cluster that has written nothing.
    pub(crate) fn of_reader(handle: Arc<Handle>, csn: Csn) -> Ticket {
        Ticket { handle, csn, is_elsewhere: true }
    }

    /// Returns the commit's place in the order of commits; of a transaction that wrote nothing, that of the newest
    /// commit that it may have seen.
    pub fn csn(&self) -> Csn {
        self.csn
    }

    /// Waits until the commit is durable.
    pub fn wait(self) -> Result<Csn> {
        let inner = &self.handle.inner;
        if self.is_elsewhere {
            return inner.store.check().map(|()| self.csn);
        }
        inner.wait_durable(self.csn)?;
        self.handle.host.maintain();
        inner.prune_unless_busy();
        Ok(self.csn)
    }

    /// Returns true if the commit is durable by now; an error if it never will be.
    pub fn is_durable(&self) -> Result<bool> {
        if self.handle.inner.last_durable() >= self.csn {
            return Ok(true);
        }
        self.handle.inner.store.check().map(|()| self.is_elsewhere)
    }

    /// Calls `f` once the commit is durable or has failed, on a thread of the engine's or at once on this one. That
    /// is soon, unless commits are not forced ([`Commits::Unforced`]). `f` must not block.
    pub fn on_durable(self, f: impl FnOnce(Result<Csn>) + Send + 'static) {
        if self.is_elsewhere {
            return f(self.handle.inner.store.check().map(|()| self.csn));
        }
        self.handle.inner.method.when_durable(self.csn, Box::new(f));
        self.request_flush();
    }

    /// Waits until the commit may be acknowledged: until it is durable, if commits are synchronous.
    pub(crate) fn acknowledge(self) -> Result<Csn> {
        if self.handle.inner.commits == Commits::Synchronous {
            return self.wait();
        }
        self.request_flush();
        self.handle.inner.store.check().map(|()| self.csn)
    }

    /// Does as [`Ticket::acknowledge`], but returns at once, and calls `f` with the result.
    pub(crate) fn acknowledge_then(self, f: impl FnOnce(Result<Csn>) + Send + 'static) {
        match self.handle.inner.commits {
            Commits::Synchronous => self.on_durable(f),
            Commits::Asynchronous | Commits::Unforced => f(self.acknowledge()),
        }
    }

    /// Hands the commit to the thread that makes commits durable. If commits are not forced, or it is durable, prunes
    /// old versions instead.
    pub(crate) fn request_flush(&self) {
        let inner = &self.handle.inner;
        if inner.commits != Commits::Unforced && !self.is_elsewhere && inner.last_durable() < self.csn {
            self.handle.host.make_durable(self.csn);
        } else {
            inner.prune();
            self.handle.host.maintain();
        }
    }
}
