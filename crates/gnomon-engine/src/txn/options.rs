//! The options of a transaction.

use std::time::Duration;

use super::shared_snapshot::SharedSnapshot;
use crate::{Csn, Interrupt, sync::Arc};

/// The isolation level of a transaction: which commits of others it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    #[default]
    ReadCommitted,
    /// The transaction sees what was committed when its first statement began, and nothing later. It does not write
    /// what others have changed since ([`Error::Serialization`](crate::Error::Serialization): the first committer
    /// wins), but two transactions may each write what the other has read (write skew). Called REPEATABLE READ by
    /// PostgreSQL.
    Snapshot,
    /// As if transactions ran one after another, in the order of their commits (two-phase, next-key locks).
    Serializable,
}

/// The options of a new transaction.
#[derive(Clone, Debug, Default)]
pub struct TxnOptions {
    /// Its isolation level.
    pub isolation: Isolation,
    /// It promises to write nothing. Unless it is SERIALIZABLE it then sees only durable commits (and at least
    /// `after`), and its own commit waits for nothing.
    pub read_only: bool,
    /// Its snapshots include at least this commit: a session passes the last one that it was told of.
    pub after: Csn,
    /// Its lock timeout; none takes the database's. Zero fails instead of waiting.
    pub lock_timeout: Option<Duration>,
    /// Time that it waits for a lock before it looks for a deadlock; zero is at once.
    pub deadlock_after: Duration,
    /// True if its operations ([`Transaction::apply`](crate::Transaction::apply)) lock keys exclusively, for
    /// comparison.
    pub exclusive_operations: bool,
    /// In a member of a cluster ([`Replicator`](crate::replication::Replicator)), under SNAPSHOT: of what it reads, its
    /// snapshot may have missed so many of the commits that were ordered before it began; with none, any number.
    pub missed_max: Option<u32>,
    /// In a member of a cluster: its snapshots have all that was ordered up to so long before they are taken; with
    /// none, they may be older.
    pub age_max: Option<Duration>,
    /// Its snapshot, if it is to read what another transaction reads
    /// ([`Transaction::share_snapshot`](crate::Transaction::share_snapshot)), under SNAPSHOT.
    pub snapshot: Option<SharedSnapshot>,
    /// Ends its waits and scans from elsewhere.
    pub interrupt: Option<Arc<Interrupt>>,
}
