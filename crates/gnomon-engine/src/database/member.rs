//! A database that is a member of a cluster: others order its commits.

use std::time::Duration;

use super::Database;
use crate::{
    Csn, Error, Result,
    lock::Interrupt,
    replication::{self, Called, Ordered},
    sync::Arc,
    txn::{Replicator, Ticket},
};

/// The target of changes in their order: a database, or a component that keeps some of its data in memory beside it.
pub trait Applier: Send + Sync {
    /// The database.
    fn database(&self) -> &Database;

    /// As [`Database::apply_replicated`].
    ///
    /// # Errors
    /// As there.
    fn apply(&self, ordered: &Ordered<'_>) -> Result<Option<Ticket>>;
}

impl Applier for Database {
    fn database(&self) -> &Database {
        self
    }

    fn apply(&self, ordered: &Ordered<'_>) -> Result<Option<Ticket>> {
        self.apply_replicated(ordered)
    }
}

impl Database {
    /// True if it is a member of a cluster: others order its commits.
    pub fn is_member(&self) -> bool {
        self.0.inner.replicator().is_some()
    }

    /// Waits until a member has all that was ordered up to so long ago, and returns the newest commit of that.
    ///
    /// # Errors
    /// Those of [`Replicator::freshen`].
    pub fn freshen(&self, age_max: Duration, interrupt: Option<&Interrupt>) -> Result<Csn> {
        match self.0.inner.replicator() {
            Some(replicator) => replicator.freshen(age_max, interrupt),
            None => Ok(Csn(0)),
        }
    }

    /// Sets the component that orders the commits of this database from now on.
    ///
    /// # Errors
    /// [`Error::BadOption`] if it has a log of pages, runs procedures serially, has prepared transactions, or has a
    /// replicator already.
    pub fn set_replicator(&self, replicator: Arc<dyn Replicator>) -> Result<()> {
        let inner = &self.0.inner;
        let refuse = |why: &str| Err(Error::BadOption(format!("a member of a cluster {why}")));
        if !inner.properties.is_replicable {
            return refuse(
                "recovers by shadow paging or a log of commits: make the database anew with --recovery value-log",
            );
        }
        if inner.is_serial {
            return refuse("runs procedures by locks: leave --execution serial out");
        }
        if !self.prepared()?.is_empty() {
            return refuse("has no prepared transactions: commit or roll back those that there are first");
        }
        match inner.replicator.set(replicator) {
            Ok(()) => Ok(()),
            Err(_) => refuse("is one of one cluster"),
        }
    }

    /// Runs a call in its place in the order of all members: all before it is applied, and nothing else is until its
    /// own changes are. It locks nothing, and finds what is committed.
    ///
    /// # Errors
    /// Those that another member need not meet, [`Error::NoSuchProcedure`] and [`Error::ProcedureDiffers`] among them,
    /// if this one has not the procedure that was called.
    pub fn run_replicated(&self, call: &[u8]) -> Result<Called> {
        replication::run(&self.0, &self.parts().procedures, call)
    }

    /// Applies changes in their place in the order of all members, and their mark with them. None if that is not
    /// possible, because an operation's condition does not hold there: then nothing has changed. It is called for one
    /// commit after another.
    ///
    /// # Errors
    /// Of the disk, before anything has changed; [`Error::Corrupt`] if the changes do not fit this database.
    pub fn apply_replicated(&self, ordered: &Ordered<'_>) -> Result<Option<Ticket>> {
        replication::apply(&self.0, ordered)
    }
}
