//! Level 1: transactions over trees of keys, with deferred updates (Shadows, section 4).
//!
//! Promises: a transaction is atomic and, once its commit is acknowledged, durable. Under READ COMMITTED each statement
//! sees the commits before it; under SNAPSHOT the whole transaction sees those before its first statement, and of two
//! that change the same key the first to commit wins; under SERIALIZABLE transactions behave as if they ran one after
//! another in the order of their CSNs. Readers under READ COMMITTED and SNAPSHOT neither wait nor make others wait, but
//! for keys that they have applied operations to themselves ([`apply`]).
//!
//! How a transaction runs:
//!
//! 1. *Operations.* A write takes its locks and goes into the transaction's write set ([`writes`]); no page changes.
//!    A read sees the tree with the own write set laid over it ([`cursor`] does that for scans).
//! 2. *Commit* ([`commit`]). Through the store's gate, taking the CSN; the write set is applied to the trees, key
//!    by key, each before-image published in the version store first; then the CSN counts as applied, the gate is
//!    left, and all locks are released. Others can see the changes now.
//! 3. *Durability.* The commit waits, or its ticket is asked, until the store has made the CSN durable. A transaction
//!    that saw the changes has a larger CSN or waits for this one, so a crash undoes no acknowledged commit.
//!
//! *What reads see.* Trees hold the newest applied value of each key. Under READ COMMITTED a statement has a
//! snapshot: the watermark, up to which every CSN is applied. Where a key has changed since, the version store
//! ([`versions`]) has the value from before. A reader looks at the tree first and at the version store after. An
//! application does it the other way round, so the reader never sees a change that its snapshot does not hold. Under
//! SERIALIZABLE and behind a lock, a reader takes the newest value: the transaction that changed it has applied it
//! before it released the lock (invariant 1).
//!
//! *Operations* ([`apply`], [`op`](crate::op)). A write that does not see what it changes (a blind update) goes into
//! the write set as an operation, under a lock that other transactions with such operations hold too. It is applied
//! at the commit, in the order of CSNs: changes of one key may come in another order, and the version store puts that
//! right. A condition of the operation that was found to hold for the value holds until the transaction ends: the
//! lock manager sees to it ([`lock`](crate::lock), escrow).
//!
//! *Phantoms.* A key that is about to be inserted is `pending` in its tree until its transaction ends, so that others
//! find it ("uncommitted changes of all transactions for an index are stored in a global data structure ordered by key
//! value", Shadows, section 4.5). The existing keys of a tree are those in it and those pending. Under SERIALIZABLE
//! a scan locks each existing key of its range, the first one beyond, and the gap before each of them, against
//! inserts. An insert locks the gap that it falls into for as long as it takes to become pending. Both look again
//! after a lock was granted, until what they locked is what there is.
//!
//! *Two-phase commit* ([`prepared`]). PREPARE stores the write set and the locks ([`entry`]) by a commit of its own,
//! and keeps what is needed to end the transaction: its locks, its pending keys, space. Opening takes them again.
//! COMMIT PREPARED applies the write set and removes the entry in one commit.
//!
//! *Large transactions* ([`large`]). A transaction whose changes and locks take much memory locks whole trees, and
//! changes copies of their pages, which become the tree's when it commits. Older snapshots read the pages from before
//! ([`epoch`]).
//!
//! *Where a log of commits is what recovers* ([`log`]), a commit is durable by its record, and commit batches are
//! checkpoints. The record of a registered procedure's call ([`procedure`]) may be its parameters.
//!
//! *Where others order commits* ([`replicated`]), as in a member of a cluster, a transaction hands over what it has
//! written and what that rests on, and its changes come back in their place.
//!
//! *Where calls run serially* ([`serial`]), each in the partitions that it is routed to, these are locked as a whole,
//! and what is in them has neither locks nor versions.
//!
//! *Where a log of pages is what recovers* ([`immediate`]), trees hold the changes of running transactions, too. These
//! have a version that is pending, so readers see what they would see otherwise; at the commit only operations are
//! applied, and the versions get their CSN.

mod ahead;
mod apply;
mod background;
mod backup;
mod bytes;
mod commit;
#[cfg(all(test, not(shuttle)))]
mod crash_sweep;
mod cursor;
mod database;
mod declared;
mod disks;
mod entry;
mod epoch;
mod immediate;
mod key;
mod large;
mod log;
mod prepared;
mod procedure;
mod range;
mod read;
mod recovery;
mod replicated;
mod row_lock;
mod savepoint;
#[cfg(all(test, shuttle))]
mod schedules;
mod serial;
mod strength;
#[cfg(all(test, not(shuttle)))]
mod stress;
#[cfg(all(test, not(shuttle)))]
mod swapped_files;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod transaction;
mod tree;
mod undo;
mod verify;
mod versions;
mod writes;

pub use apply::Applied;
pub use background::ScrubProgress;
pub use backup::{Restored, restore};
pub use commit::{Commits, Ticket};
pub use cursor::Cursor;
pub use database::{Database, Options, Stats};
pub use declared::AccessSet;
pub use prepared::{GID_BYTES_MAX, NOTE_BYTES_MAX, PreparedInfo, PreparedTransaction};
pub use procedure::{Call, Partitions, Procedure, ProcedureStats, Replayer};
pub use range::{Direction, KeyRange};
pub use recovery::{Records, Recovery};
pub use replicated::{
    Abandoned, Applier, Called, CommitRequest, Mark, Note, Ordered, Replicator, Touch, Touching,
};
pub use row_lock::KeyLock;
pub use savepoint::Savepoint;
pub use serial::Execution;
pub use strength::{RowLock, TreeLock};
pub use transaction::{Isolation, Transaction, TreeOptions, TxnOptions};
pub use tree::Placement;
pub use verify::{VerifiedTree, VerifyReport, verify, verify_with};
