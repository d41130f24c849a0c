//! Recovery methods: how a database comes back to its last durable commit, and so how a commit changes it.
//!
//! [`Method`] is the seam between transactions and what recovers them. Above it, a transaction has locks, a snapshot
//! and a write set, and does not know which method its database has. Below it, a method decides when the write set
//! reaches the trees, what is logged, when a commit is durable, and what a crash leaves to be done. Whatever differs
//! between methods stands in the folder of a method here, in `deferred.rs`, or in its store; where the level of
//! transactions has to act differently, it asks a question of its own ([`Properties`]), not which method it is.
//!
//! | folder | method | updates | a commit is durable by |
//! |---|---|---|---|
//! | `shadow` | shadow paging | deferred, under latches, behind the CSN | a commit batch: a new superblock |
//! | `logical_wal` | the same with a logical WAL | as above | its record; commit batches are checkpoints |
//! | `page_wal` | page WAL, pages in place | immediate, by subtransactions | its record, with those of its pages |
//!
//! `deferred.rs` is the [`Method`] of the first two.
//!
//! # Adding a method
//!
//! | name on the command line | variant of [`Recovery`] | folder | variant of [`Store`](crate::store::Store) |
//! |---|---|---|---|
//! | `shadow` | `Shadow` | `shadow` | `Shadow` |
//! | `value-log`, `command-log`, `adaptive` | `CommitLog` | `logical_wal` | `Shadow`, with a log beside it |
//! | `single-level`, `two-level`, `two-level-deferred` | `PageLog` | `page_wal` | `Logged` |
//!
//! First decide which of two a new method is:
//!
//! - Shadow paging with a log beside it. Then its folder has the log, and `deferred.rs` the steps that differ with it,
//!   as for `logical_wal`.
//! - Anything else. Then its folder has a type that implements [`Method`]. What only some methods can do (backups,
//!   copies on several disks) has a default there that refuses it. A store of its own is a variant of
//!   [`Store`](crate::store::Store); `store/any.rs` has what level 1 asks of every store.
//!
//! The other places are the same for both:
//!
//! - `kind.rs`: a variant of [`Recovery`], its name, its place in [`Recovery::ALL`], and the answers to all questions
//!   there; a code for the directory of trees, unless the files of the store tell the method.
//! - `open.rs`: [`open`](open::open) finds the store on the disks or makes it, and its log; [`verify_unopened`]
//!   verifies its pages before that, or leaves it; [`has_database`] knows the file of each store.
//! - `disk/names.rs`: the names of its files, which must not be links.
//! - The options that only this method has: `Setup` (`open.rs`), `database/options.rs`, and `gnomon/src/options.rs`,
//!   where `unused` refuses them for other methods.
//! - The help of `--recovery` in `gnomon-cli/src/storage.rs` and in the commands of `gnomon-bench/src/program`.
//! - Measurements: `without_calls` in `gnomon-bench/src/recovery.rs`, if it differs only where procedures are called;
//!   the layout of complex objects in `gnomon-bench/src/objects/place.rs`, their counts in
//!   `gnomon-bench/src/objects/run.rs`; the name in a paper: `gnomon-lab/src/experiment/multilevel/bench.rs`.
//! - Tests: the loop in `test.sh`; the constants and the three loops over methods in `src/tests/crash_sweep.rs`; a
//!   planted bug in `failpoint.rs`; the variants listed by `gnomon-bench/src/compare/tests.rs`,
//!   `gnomon-lab/src/experiment/logging/clients.rs`, `gnomon-cli/tests/process/failures.rs`,
//!   `gnomon-cli/tests/process/bench.rs`, `gnomon/tests/names.rs`, `gnomon/tests/database.rs` and `tools/house.py`.
//! - `docs/recovery.md`, `docs/formats.md` for its files, and the number of methods in `README.md` and `CHANGELOG.md`.
//!
//! # Order of a commit
//!
//! [`Method::commit`] takes a CSN, applies the write set to the trees, publishes what keys held before, and reports the
//! commit to the [timeline](crate::mvcc::Timeline); its caller releases the locks afterwards (invariant 1). What fails
//! before the CSN leaves nothing; a failure behind it stops the database.

mod deferred;
mod kind;
mod logical_wal;
mod open;
mod page_wal;
mod shadow;

use std::{any::Any, io::Write, time::Duration};

pub use kind::{Commits, Records, Recovery};
pub(crate) use logical_wal::BYTES_OF_RUN;
pub(crate) use logical_wal::{decode_writes, encode_writes};
pub use open::has_database;
pub(crate) use open::{Access, Opened, Replaying, Setup, check_disks, open, verify_unopened};
use open::{one_disk, unforced_by_log};
pub(crate) use shadow::{Copies, KeptSpace, VerifiedPages, verify_pages};

use crate::{
    Csn, Error, PageId, Result, TreeId, TxnId,
    access::{Directory, Key, StoredProcedure},
    lock::{LockManager, LockName, LockOwner},
    mvcc::{KEYS, Keyspace, TreeRef},
    op::LENGTH,
    page::PageCounts,
    store::shadow::{Backup, BackupId, PinnedRoot, PrivatePages},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    wal::LogCounts,
    write_set::WriteSet,
};

/// Number of keys and trees that a call can declare. With more it has declared nothing: to look for each would take
/// long.
pub(crate) const ACCESSES_MAX: usize = 1000;
/// The entry of a prepared transaction is stored in parts of this length.
pub(crate) const ENTRY_PART_BYTES: usize = 1 << 20;
/// The longest identifier of a prepared transaction, in bytes (as in PostgreSQL).
pub const GID_BYTES_MAX: usize = 199;

/// A recovery method at work in an open database.
pub(crate) trait Method: Any + Send + Sync {
    /// Returns its name in the list.
    fn recovery(&self) -> Recovery;

    /// Returns the answers to what the level of transactions has to know.
    fn properties(&self) -> Properties;

    // The way to an open database.

    /// Makes the directory of trees of a new store.
    fn create_directory(&self, locks: &Arc<LockManager>) -> Result<Directory>;

    /// Brings the trees to the state of the last durable commit: replays, or undoes. No other transaction is there.
    fn recover(&self, keyspace: &Keyspace, recovering: Recovering<'_>) -> Result<()>;

    /// Stores procedures in the directory before any of them is called, if a log may have calls of them, and sees to it
    /// that the log has no calls of what they were before.
    fn store_procedures(&self, _keyspace: &Keyspace, _procedures: &[StoredProcedure]) -> Result<()> {
        Ok(())
    }

    /// Makes everything durable; nothing may be changed any more.
    fn close(&self) -> Result<()>;

    // A transaction.

    /// Returns a number for a transaction that no other one has.
    fn new_txn_id(&self) -> TxnId;

    /// Notes that a transaction has put or deleted a key that it has locked. Returns true if
    /// [`Method::change_now`] is due.
    fn note_change(
        &self,
        _state: &mut TxnState,
        _tree: (TreeId, &TreeRef),
        _key: &[u8],
        _value: Option<&[u8]>,
    ) -> bool {
        false
    }

    /// Changes the keys in their trees that wait for that. After an error they still wait.
    fn change_now(
        &self,
        _keyspace: &Keyspace,
        _txn: TxnId,
        _state: &mut TxnState,
        _writes: &WriteSet,
    ) -> Result<()> {
        Ok(())
    }

    /// Returns a mark of what a transaction has changed in trees so far, for [`Method::go_back`].
    fn mark(&self, _state: &TxnState) -> usize {
        0
    }

    /// Goes back to marks of the changed trees and of the write set. The locks on the keys are still held. Returns the
    /// CSN of that, if it took one.
    fn go_back(
        &self,
        _keyspace: &Keyspace,
        _txn: TxnId,
        _state: &mut TxnState,
        _changes: usize,
        writes: (&mut WriteSet, usize),
    ) -> Result<Option<Csn>> {
        writes.0.go_back(writes.1);
        Ok(None)
    }

    /// Takes back all that a transaction has changed in trees. Returns the CSN of that, if it took one.
    fn undo_all(&self, _keyspace: &Keyspace, _txn: TxnId, _state: &mut TxnState) -> Result<Option<Csn>> {
        Ok(None)
    }

    /// Returns pages for a transaction that is larger than memory, with a cache of so many pages; none if the method
    /// has none.
    fn private_pages(&self, _cached: usize) -> Option<PrivatePages> {
        None
    }

    /// Makes the state of the store durable and pins it: what private pages are about to replace.
    fn pin(&self) -> Result<Arc<PinnedRoot>> {
        Err(Error::Unsupported("private pages"))
    }

    /// Orders a commit and applies it.
    fn commit(&self, keyspace: &Keyspace, commit: Commit<'_>) -> Result<(Csn, Grown)>;

    /// Stores the entry of a transaction that is prepared to commit, as a commit of its own, and reserves what its end
    /// needs.
    fn prepare(&self, keyspace: &Keyspace, entry: NewEntry<'_>) -> Result<(Csn, Option<KeptSpace>)>;

    /// Reserves what the end of a transaction needs that an earlier run has prepared.
    fn keep_space(&self, _pages: PageCounts, _entry_bytes: u64) -> Result<Option<KeptSpace>> {
        Ok(None)
    }

    /// Removes the entry of a prepared transaction and applies its writes, if it commits, in one commit.
    fn end_prepared(&self, keyspace: &Keyspace, end: EndOfEntry<'_>) -> Result<(Csn, Grown)>;

    // Durability.

    /// Returns the newest durable commit.
    fn last_durable(&self) -> Csn;

    /// Waits until a commit is durable.
    fn wait_durable(&self, csn: Csn) -> Result<()>;

    /// Calls `call` once a commit is durable or has failed.
    fn when_durable(&self, csn: Csn, call: Box<dyn FnOnce(Result<Csn>) + Send>);

    // Work that commits leave behind.

    /// Returns the chores that are due.
    fn due(&self) -> Due;

    /// Takes a checkpoint because one is due.
    fn take_due_checkpoint(&self) -> Result<()> {
        Ok(())
    }

    /// Does some of the cleaning; true if there is more.
    fn clean_some(&self) -> bool {
        false
    }

    /// Confirms the last commit batch, if there is such a thing.
    fn confirm(&self) {}

    /// Gives back some pages of a dropped tree that is not in use; true if there may be more to do.
    fn reclaim_some(&self, keyspace: &Keyspace, is_in_use: &dyn Fn(TreeId) -> bool) -> Result<bool>;

    // Administration.

    /// Takes a checkpoint because an operator asks for it.
    fn checkpoint(&self) -> Result<()>;

    /// Returns the length of the log that opening would read, and counts of what was written to it.
    fn log(&self) -> (u64, Option<LogCounts>) {
        (0, None)
    }

    /// Writes a backup of the newest state, or of what has changed since another backup.
    fn backup(
        &self,
        _since: Option<BackupId>,
        _out: &mut dyn Write,
        _progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup> {
        Err(Error::Unsupported("backups: copy its directory while nothing has it open"))
    }

    /// Returns the copies of pages on several disks, if the method has them.
    fn copies(&self) -> Option<&Copies> {
        None
    }

    /// Returns all pages of the smallest size that are in use, where the method can tell while it is open; none where
    /// that is verified before.
    fn pages_in_use(&self) -> Option<Vec<PageId>> {
        None
    }
}

/// The answers of a method to what the level of transactions has to know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Properties {
    /// True if trees may hold values that are not committed, beneath pending versions.
    pub in_place: bool,
    /// True if keys are changed in their trees before the commit ([`Method::note_change`]).
    pub is_immediate: bool,
    /// True if transactions can have pages of their own ([`Method::private_pages`]).
    pub has_private_pages: bool,
    /// True if others can order the commits of such a database.
    pub is_replicable: bool,
    /// True if it wants to know how long calls of procedures take.
    pub measures_calls: bool,
}

/// The state of one transaction that a method keeps.
#[derive(Default)]
pub(crate) struct TxnState {
    /// Bytes that it takes in memory, about.
    pub bytes: usize,
    slot: Option<Box<dyn Any + Send + Sync>>,
}

impl TxnState {
    /// Returns what the method has put there, if it has.
    fn get<T: 'static>(&self) -> Option<&T> {
        self.slot.as_ref()?.downcast_ref()
    }

    /// The same for changing.
    fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.slot.as_mut()?.downcast_mut()
    }

    /// The same, put there if nothing was.
    fn get_or_default<T: Default + Send + Sync + 'static>(&mut self) -> &mut T {
        let slot = self.slot.get_or_insert_with(|| Box::new(T::default()));
        slot.downcast_mut().expect("a database has one method")
    }
}

/// The input of a recovery.
pub(crate) struct Recovering<'a> {
    pub access: Access,
    /// The procedures, of whose calls there may be records.
    pub calls: &'a dyn Calls,
    /// Told now and then how many bytes of a log are read, and of how many.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// The procedures of a database, whose calls a log may have in the place of writes. All calls are by number.
pub(crate) trait Calls: Sync {
    /// Checks that a procedure is there as it was when it was called; false if there never was one.
    ///
    /// # Errors
    /// [`Error::ProcedureUnknown`], [`Error::ProcedureChanged`].
    fn check(&self, procedure: u32) -> Result<bool>;

    /// Returns what a call uses at most, as it declares; none if that may be anything.
    fn accesses(&self, procedure: u32, params: &[u8]) -> Option<Vec<CallAccess>>;

    /// Runs a call again, while no other one uses what it uses. Returns what it writes.
    ///
    /// # Errors
    /// [`Error::ProcedureDiverged`] if it does something else than before, by its checksum; and what can fail besides.
    fn run(&self, procedure: u32, digest: u32, params: &[u8]) -> Result<WriteSet>;

    /// Returns a function that runs calls again while no other one runs.
    fn alone(&self) -> Box<RunAlone<'_>>;
}

/// As [`Calls::run`].
pub(crate) type RunAlone<'a> = dyn FnMut(u32, u32, &[u8]) -> Result<WriteSet> + 'a;

/// Something that a call uses.
pub(crate) enum CallAccess {
    /// The trees of a partition.
    Partition(u32),
    /// A key of a tree, or all of the tree.
    Tree { tree: TreeId, key: Option<Box<[u8]>>, writes: bool },
}

/// The call of a procedure that may stand for a transaction in a log, in the place of its writes.
pub(crate) struct Command {
    /// The procedure's number.
    pub procedure: u32,
    /// The checksum of what it has written.
    pub digest: u32,
    /// True if it has used only what it declares.
    pub is_within: bool,
    pub params: Box<[u8]>,
    /// Processor time that a run takes, about.
    pub run_time: Duration,
    /// The counts of the procedure.
    pub counts: Arc<CallCounts>,
}

/// Counts of the calls of a procedure that have committed something.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    commits: AtomicU64,
    log_bytes: AtomicU64,
}

impl CallCounts {
    /// Counts a call, with so many bytes of the log.
    pub fn note_commit(&self, log_bytes: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.log_bytes.fetch_add(log_bytes as u64, Ordering::Relaxed);
    }

    /// Returns the number of calls, and the bytes of their records.
    pub fn get(&self) -> (u64, u64) {
        (self.commits.load(Ordering::Relaxed), self.log_bytes.load(Ordering::Relaxed))
    }
}

/// A transaction that is to be ordered and applied.
pub(crate) struct Commit<'a> {
    pub txn: TxnId,
    pub state: &'a mut TxnState,
    pub writes: WriteSet,
    /// Private pages that become those of their trees.
    pub pages: Option<PrivateChanges>,
    /// The call that it is, if it is one.
    pub command: Option<&'a Command>,
    /// True if the call may not be logged in the place of the writes.
    pub by_value: bool,
}

/// The changes of a transaction on pages of its own, ready to be committed.
pub(crate) struct PrivateChanges {
    pub pages: PrivatePages,
    /// The trees that others know.
    pub replaced: Vec<TreeRef>,
    /// The state from before, if there are such trees.
    pub before: Option<Arc<PinnedRoot>>,
    /// Bytes of keys and values that were changed.
    pub changed_bytes: usize,
}

/// A transaction that is to be prepared to commit.
pub(crate) struct NewEntry<'a> {
    pub txn: TxnId,
    pub state: &'a mut TxnState,
    pub gid: &'a str,
    pub writes: &'a WriteSet,
    /// The bytes of its entry.
    pub bytes: u64,
    /// Makes the entry, in parts of [`ENTRY_PART_BYTES`], with the pages that its end changes at most.
    pub encode: &'a mut dyn FnMut(PageCounts) -> Result<Vec<Vec<u8>>>,
}

/// The end of a prepared transaction.
pub(crate) struct EndOfEntry<'a> {
    pub gid: &'a str,
    /// Parts of the stored entry.
    pub parts: u32,
    /// The writes that are applied, and taken from here then; none if it is rolled back.
    pub writes: Option<&'a mut WriteSet>,
    pub kept: &'a mut Option<KeptSpace>,
}

/// Growth of values by operations that may change their length, in bytes: for each change, the difference to the
/// length that was there, so the sum is right in whatever order commits are applied.
#[derive(Default)]
pub(crate) struct Grown(Vec<(TreeId, Key, i128)>);

impl Grown {
    /// Adds the growth of a value.
    fn add(&mut self, tree: TreeId, key: Key, bytes: i128) {
        self.0.push((tree, key, bytes));
    }

    /// Settles the claims on lengths with the growth. The locks are released next, and others go on with that.
    pub fn settle(&self, locks: &mut LockOwner) {
        for (tree, key, bytes) in &self.0 {
            locks.settle(LockName::key(KEYS, tree.0, key), LENGTH, *bytes);
        }
    }
}

/// The chores that are due after a commit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// The last commit batch is to be confirmed when the database is idle.
    pub confirm: bool,
    /// Copies are damaged or missing.
    pub repair: bool,
    /// The log is long, or too much is in memory only.
    pub checkpoint: bool,
    /// Something is to be cleaned, whether or not the cleaner works.
    pub clean: bool,
    /// There are pages to be moved, if the cleaner works.
    pub move_pages: bool,
}
