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
//! 1. *Operations.* A write takes its locks and goes into the transaction's write set (`write_set`); no page changes.
//!    A read sees the tree with the own write set laid over it ([`cursor`] does that for scans).
//! 2. *Commit* ([`commit`]). Through the store's gate, taking the CSN; the write set is applied to the trees, key
//!    by key, each before-image published in the version store first; then the CSN counts as applied, the gate is
//!    left, and all locks are released. Others can see the changes now.
//! 3. *Durability.* The commit waits, or its ticket is asked, until the store has made the CSN durable. A transaction
//!    that saw the changes has a larger CSN or waits for this one, so a crash undoes no acknowledged commit.
//!
//! *What reads see.* Trees hold the newest applied value of each key. Under READ COMMITTED a statement has a snapshot:
//! the watermark, up to which every CSN is applied. Where a key has changed since, the version store
//! ([`mvcc`](crate::mvcc)) has the value from before. A reader looks at the tree first and at the version store after.
//! An application does it the other way round, so the reader never sees a change that its snapshot does not hold. Under
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
//! *Two-phase commit* ([`two_phase`]). PREPARE stores the write set and the locks (`entry`) by a commit of its own,
//! and keeps what is needed to end the transaction: its locks, its pending keys, space. Opening takes them again.
//! COMMIT PREPARED applies the write set and removes the entry in one commit.
//!
//! *Large transactions* ([`large`]). A transaction whose changes and locks take much memory locks whole trees, and
//! changes copies of their pages, which become the tree's when it commits. Older snapshots read the pages from before
//! ([`mvcc`](crate::mvcc)).
//!
//! *Bulk loads* ([`load`]). The entries of a new tree are sorted, and built into pages of the transaction's own.
//!
//! *Recovery* ([`recovery`](crate::recovery)). How a commit reaches the trees, and when it is durable, is the matter of
//! the database's recovery method. A transaction hands over its write set, and does not know which method that is.
//!
//! *Reads without a transaction* ([`snapshot`]) share one snapshot between threads.
//!
//! *Where others order commits* ([`replicator`]), as in a member of a cluster, a transaction hands over what it has
//! written and what that rests on ([`observed`]), and its changes come back in their place
//! ([`replication`](crate::replication)).
//!
//! *Where calls run serially* ([`procedure`](crate::procedure)), each in the partitions that it is routed to, these are
//! locked as a whole, and what is in them has neither locks nor versions.
//!
//! # Rooms
//!
//! [`Core`](core::Core) is what every feature needs: locks, snapshot, write set, what was seen. A feature is a module
//! of functions on the core; [`Transaction`] is the face of all of them. Each builds on those before it: `core`,
//! `trees`, `read`, `shared_keys`, `large`, `row_lock`, then `get`, `write`, `load`, `apply`, `cursor`,
//! `savepoint`, `ordering`, then `commit` and `two_phase`.

mod ahead;
mod apply;
mod commit;
mod core;
mod cursor;
mod get;
mod large;
mod leaf_part;
mod load;
mod observed;
mod options;
mod ordering;
mod partition;
mod prepared;
mod private;
mod read;
mod replicator;
mod row_lock;
mod savepoint;
mod shared;
mod shared_keys;
mod shared_snapshot;
mod snapshot;
mod strength;
mod ticket;
mod transaction;
mod trees;
mod two_phase;
mod used;
mod write;

pub use apply::Applied;
pub use cursor::Cursor;
pub use load::{Duplicate, Load};
pub use options::{Isolation, TxnOptions};
pub use partition::Partitions;
pub(crate) use partition::{executors_of, partitions_of, replicated};
pub(crate) use prepared::AllPrepared;
pub use replicator::{Abandoned, CommitRequest, Note, Replicator, Touch, Touching};
pub use row_lock::{ChangeByOthers, KeyLock};
pub use savepoint::Savepoint;
pub(crate) use shared::{Handle, Host, Shared};
pub use shared_snapshot::SharedSnapshot;
pub use snapshot::{Snapshot, SnapshotRange};
pub use strength::{RowLock, TreeLock};
pub use ticket::Ticket;
pub use transaction::Transaction;
pub use two_phase::{NOTE_BYTES_MAX, PreparedInfo, PreparedTransaction};
pub(crate) use two_phase::{
    check_entry, claim as claim_prepared, list as list_prepared, restore as restore_prepared,
};
pub(crate) use used::Used;
