//! Transactions, as their users see them: each call goes to the feature that does it, with the core that it needs.

use std::time::Duration;

use super::{
    apply::{self, Applied},
    commit,
    core::Core,
    cursor::{self, Cursor},
    get, large,
    load::{self, Duplicate, Load},
    options::{Isolation, TxnOptions},
    ordering,
    partition::Confined,
    row_lock::{self, KeyLock},
    savepoint::{self, Savepoint},
    shared::Handle,
    shared_keys,
    shared_snapshot::SharedSnapshot,
    strength::{RowLock, TreeLock},
    ticket::Ticket,
    trees, two_phase,
    used::Used,
    write::{self, Wanted},
};
use crate::{
    Csn, Error, Result, TreeId, TxnId,
    access::{Direction, KeyRange, TreeOptions},
    lock::LockName,
    mvcc::NAMES,
    op::Call,
    recovery::Command,
    sync::Arc,
    write_set::WriteSet,
};

/// A transaction. Dropped without commit, it is rolled back.
///
/// After [`Error::Deadlock`], [`Error::Serialization`] or any other error than [`Error::KeyExists`],
/// [`Error::LockTimeout`], [`Error::Interrupted`] and those of bad input, only rolling back makes sense; the caller
/// does it. What failed has then changed nothing.
pub struct Transaction {
    core: Core,
}

impl Transaction {
    /// Begins a transaction of an open database.
    pub(crate) fn begin(handle: Arc<Handle>, options: TxnOptions) -> Result<Transaction> {
        handle.check_begin()?;
        let id = handle.inner.new_txn_id();
        let read_only = options.read_only || handle.inner.store.is_read_only();
        let mut core = Core::new(handle, id, TxnOptions { read_only, ..options });
        ordering::observe_for_others(&mut core);
        Ok(Transaction { core })
    }

    /// Makes a transaction of a call that runs serially, in the partitions of these executors.
    pub(crate) fn confined(handle: Arc<Handle>, executors: Vec<u32>) -> Transaction {
        let options = TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() };
        let id = handle.inner.new_txn_id();
        let mut core = Core::new(handle, id, options);
        core.confined = Confined::To(executors);
        Transaction { core }
    }

    /// Makes a transaction that locks nothing, for when no other one changes what it uses. It is not to be committed
    /// itself. Its writes may take so many bytes; none sets no limit.
    pub(crate) fn alone(handle: Arc<Handle>, writes_bytes_max: Option<usize>) -> Transaction {
        let mut core = Core::alone(handle);
        if let Some(bytes) = writes_bytes_max {
            core.relieve_at = bytes;
        }
        Transaction { core }
    }

    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the handle of its database.
    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.core.handle
    }

    /// Returns the trees that it has used, and its writes.
    pub(crate) fn accesses(&self) -> (&[Used], &WriteSet) {
        (&self.core.used, &self.core.writes)
    }

    /// Takes its writes, and ends it.
    pub(crate) fn into_writes(mut self) -> WriteSet {
        std::mem::take(&mut self.core.writes)
    }

    /// Sets the call that may stand for it in a log of commits.
    pub(crate) fn set_command(&mut self, command: Command) {
        self.core.command = Some(command);
    }

    /// Returns the transaction's number among those running.
    pub fn id(&self) -> TxnId {
        self.core.id
    }

    /// Returns the newest commit that it may have seen by now. A caller that answers from it without committing it
    /// (an error, say) tells of durable things only after [`Database::wait_durable`](crate::Database::wait_durable)
    /// for it.
    pub fn seen(&self) -> Csn {
        self.core.seen
    }

    /// Makes its later snapshots include at least this commit.
    pub fn see_at_least(&mut self, csn: Csn) {
        self.core.see_at_least(csn);
    }

    /// Returns the options that it was begun with, as changed since.
    pub fn options(&self) -> &TxnOptions {
        &self.core.options
    }

    /// Changes the time that it waits for a lock from now on; none takes the database's, zero fails instead of
    /// waiting.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.core.options.lock_timeout = timeout;
    }

    /// Changes the time that it waits for a lock from now on before it looks for a deadlock.
    pub fn set_deadlock_after(&mut self, after: Duration) {
        self.core.options.deadlock_after = after;
    }

    /// Begins a statement: under READ COMMITTED, all its plain reads see what is committed when the first of them is
    /// made, or at [`Transaction::fix_snapshot`]. Writes of this transaction are seen at once, by the statement that
    /// makes them too. Cursors of earlier statements end.
    pub fn start_statement(&mut self) -> Result<()> {
        self.core.end_statement()?;
        self.core.check()?;
        ordering::tell_statements(&mut self.core)?;
        // Under READ COMMITTED what only locks and writes needs none.
        if self.core.options.isolation == Isolation::Snapshot {
            self.core.fix_snapshot()?;
        }
        Ok(())
    }

    /// Returns its snapshot, under [`Isolation::Snapshot`], for other transactions that are to read the same state
    /// ([`TxnOptions::snapshot`]); they do not see what this one writes. Waits until all that it has is durable.
    ///
    /// # Errors
    /// Those of taking the snapshot, if it is the first use of it, and that the database has stopped.
    pub fn share_snapshot(&mut self) -> Result<SharedSnapshot> {
        self.core.share_snapshot()
    }

    /// Makes the statement's plain reads see what is committed now, if none was made yet.
    pub fn fix_snapshot(&mut self) -> Result<()> {
        self.core.fix_snapshot()
    }

    /// Ends the statement: a transaction that waits for its client keeps no old versions alive, unless it is under
    /// SNAPSHOT. Where a log of pages recovers, pages are changed now, if not before.
    ///
    /// # Errors
    /// Of changing pages, [`Error::DiskFull`] among them.
    pub fn end_statement(&mut self) -> Result<()> {
        self.core.end_statement()
    }

    /// Makes a new, empty tree, which exists for others when this transaction has committed. The first tree of a
    /// database is number 1.
    pub fn create_tree(&mut self) -> Result<TreeId> {
        self.create_tree_with(TreeOptions::default())
    }

    /// As [`Transaction::create_tree`], with pages of another size.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the pages are smaller than the database's smallest.
    pub fn create_tree_with(&mut self, options: TreeOptions) -> Result<TreeId> {
        write::create_tree_with(&mut self.core, options)
    }

    /// As [`Transaction::create_tree_with`], of a tree with a number that the layer above has chosen, from
    /// [`RESERVED_TREES`](crate::RESERVED_TREES) on. Others that want to use the tree wait until this transaction ends.
    /// It cannot be dropped.
    ///
    /// # Errors
    /// Also [`Error::KeyExists`] if there is such a tree, and [`Error::BadOption`] of another number.
    pub fn create_reserved_tree(&mut self, id: TreeId, options: TreeOptions) -> Result<()> {
        write::create_reserved_tree(&mut self.core, id, options)
    }

    /// Drops a tree with all that it holds, when this transaction commits. Locks it exclusively.
    pub fn drop_tree(&mut self, tree: TreeId) -> Result<()> {
        write::drop_tree(&mut self.core, tree)
    }

    /// Locks a whole tree until the transaction ends.
    pub fn lock_tree(&mut self, tree: TreeId, lock: TreeLock) -> Result<()> {
        trees::lock_tree(&mut self.core, tree, lock)
    }

    /// Tells that keys of a tree are about to be used: what is in memory of their places is fetched into the
    /// processor's caches for all of them at once, which takes less time than one after the other. A hint, which reads
    /// nothing and locks no key. It is worth its while for dozens of keys at most that lie apart, in a database that is
    /// larger than the caches; in ascending order they take less of it.
    ///
    /// # Errors
    /// Of locking the tree, which the use of any key of it would do.
    pub fn prefetch(&mut self, tree: TreeId, keys: &[impl AsRef<[u8]>]) -> Result<()> {
        trees::prefetch(&mut self.core, tree, keys)
    }

    /// Returns the value of a key as this transaction sees it: its own write, else by its isolation.
    pub fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        get::get(&mut self.core, tree, key)
    }

    /// Writes a key that must be absent; [`Error::KeyExists`] otherwise, and then nothing is written and the
    /// transaction can go on. Waits for others that write the key, and looks at what they committed.
    pub fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.core.check_write(value)?;
        match write::write(&mut self.core, tree, key, Some(value), Wanted::Absent)? {
            true => Err(Error::KeyExists),
            false => Ok(()),
        }
    }

    /// Writes a key, present or not.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.core.check_write(value)?;
        write::write(&mut self.core, tree, key, Some(value), Wanted::Any).map(|_| ())
    }

    /// Replaces the value of a key that is present; false if it is absent, and then nothing is written. Unlike
    /// [`Transaction::put`], it admits locks that want no more than that the key stays
    /// ([`RowLock::KeyShare`]).
    pub fn replace(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<bool> {
        self.core.check_write(value)?;
        write::write(&mut self.core, tree, key, Some(value), Wanted::Present)
    }

    /// Deletes a key; false if it was absent.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        self.core.check_write(&[])?;
        write::write(&mut self.core, tree, key, None, Wanted::Any)
    }

    /// Applies an operation to the value of a key, which it does not see. Other transactions may apply operations
    /// that commute with it to the same key meanwhile ([`op`](crate::op)).
    ///
    /// If the operation claims something of the value that depends on transactions that have not ended, it waits for
    /// them. What it was granted then holds until this transaction ends.
    ///
    /// # Errors
    /// [`Error::NoSuchOperation`]; [`Error::Operation`] if the value or the arguments do not suit it. Under
    /// [`Isolation::Snapshot`], [`Error::Serialization`] if others have changed the key since otherwise than by
    /// operations, or so that a condition cannot hold which does in the snapshot, and the snapshot cannot be a newer
    /// one. And those of [`Transaction::put`].
    pub fn apply(&mut self, tree: TreeId, key: &[u8], call: &Call) -> Result<Applied> {
        apply::apply(&mut self.core, tree, key, call)
    }

    /// Prepares a statement that reads a tree at a snapshot, and has read nothing of it yet. Under READ COMMITTED,
    /// that snapshot must include what others have changed of keys of the tree that this transaction has applied
    /// operations to, or the statement would see a part of what they did: the locks on all such keys, whichever of
    /// them it will read, are converted to exclusive ones. Under SNAPSHOT the same is done while the snapshot may
    /// still be a newer one, which keeps what others have done meanwhile from being a conflict. [`Transaction::scan`]
    /// does the same for its own tree.
    ///
    /// # Errors
    /// Those of locks.
    pub fn observe_tree(&mut self, tree: TreeId) -> Result<()> {
        shared_keys::observe_tree(&mut self.core, tree)
    }

    /// Begins a scan; entries come by [`Cursor::next`], which borrows the transaction only for the call, so that
    /// it can write between two entries. The scan sees the transaction's own writes.
    pub fn scan(&mut self, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
        cursor::scan(&mut self.core, tree, range, direction)
    }

    /// Begins a scan of the newest committed entries, whatever the isolation, together with the transaction's own. It
    /// locks no keys: what it passes can change unless the whole tree is locked.
    pub fn scan_newest(&mut self, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
        cursor::scan_newest(&mut self.core, tree, range, direction)
    }

    /// Returns the last key of a tree, whatever the isolation: committed, of this transaction, or about to be
    /// inserted by another one that is running or prepared. It locks no key.
    pub fn last_key(&mut self, tree: TreeId) -> Result<Option<Vec<u8>>> {
        cursor::last_key(&mut self.core, tree)
    }

    /// Locks a key until the transaction ends, then returns its own write or the newest committed value (which may
    /// be newer than the statement's snapshot). A key that is absent is locked too: no other transaction inserts it.
    pub fn get_locked(&mut self, tree: TreeId, key: &[u8], lock: RowLock) -> Result<Option<Vec<u8>>> {
        row_lock::get_locked(&mut self.core, tree, key, lock)
    }

    /// As [`Transaction::get_locked`], with what it took, for [`Transaction::give_back`].
    pub fn lock_key(
        &mut self,
        tree: TreeId,
        key: &[u8],
        lock: RowLock,
    ) -> Result<(Option<Vec<u8>>, KeyLock)> {
        row_lock::lock_key(&mut self.core, tree, key, lock)
    }

    /// As [`Transaction::lock_key`], of a key that the statement is to see: one that is absent there, and that others
    /// are about to insert, is absent at once. Not under SERIALIZABLE.
    pub fn lock_seen_key(
        &mut self,
        tree: TreeId,
        key: &[u8],
        lock: RowLock,
    ) -> Result<(Option<Vec<u8>>, KeyLock)> {
        row_lock::lock_seen_key(&mut self.core, tree, key, lock)
    }

    /// Takes the lock on a key back to what it was before [`Transaction::lock_key`]: nothing that it told need stay as
    /// it is. Under SERIALIZABLE it stays, since what was seen is to stay so. What the transaction's own operations on
    /// the key were shared by stays exclusive.
    pub fn give_back(&mut self, tree: TreeId, key: &[u8], lock: KeyLock) {
        row_lock::give_back(&mut self.core, tree, key, lock)
    }

    /// Returns the newest committed value of a key, or its own write, as soon as no other transaction is about to
    /// insert or delete the key: other locks on it, and changes of its value, are not waited for. It locks nothing,
    /// unless the transaction is SERIALIZABLE: then the key is locked as for an insert.
    pub fn look_up(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        row_lock::look_up(&mut self.core, tree, key)
    }

    /// Locks a name of the caller's until the transaction ends, or goes back to a savepoint from before: a number that
    /// is no tree's, in the modes of trees. A prepared transaction keeps it until the database is closed.
    ///
    /// # Errors
    /// Those of locks.
    pub fn lock_name(&mut self, name: u64, lock: TreeLock) -> Result<()> {
        self.core.check()?;
        match self.core.alone {
            true => Ok(()),
            false => self.core.lock(LockName::whole(NAMES, name), lock.mode()),
        }
    }

    /// Sets a savepoint, to which [`Transaction::rollback_to`] goes back.
    pub fn savepoint(&mut self) -> Savepoint {
        savepoint::savepoint(&mut self.core)
    }

    /// Undoes what was written since the savepoint, which stays; later ones are gone. The locks taken since then are
    /// released, but for those on whole trees that were taken for want of memory; under SERIALIZABLE they stay, as read
    /// locks: what was seen must stay as it is. May be called after an error, whichever it was, and the transaction can
    /// go on then.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        savepoint::rollback_to(&mut self.core, savepoint)
    }

    /// Forgets a savepoint and all later ones; what was written since stays.
    pub fn release_savepoint(&mut self, savepoint: Savepoint) -> Result<()> {
        savepoint::release_savepoint(&mut self.core, savepoint)
    }

    /// Does what can be done of a commit beforehand: writes what a large transaction has changed on pages. Calling it
    /// is never needed; an application that holds locks of its own during the commit holds them shorter.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and those of reading pages.
    pub fn settle(&mut self) -> Result<()> {
        large::settle(&mut self.core)
    }

    /// Notes, in a member of a cluster, that the transaction counts on a key that it has read elsewhere and that is
    /// what it is now. Where others order commits, each later change of the key contradicts it.
    ///
    /// # Errors
    /// Those of taking the snapshot, which must not be newer.
    pub fn rest_on(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        self.core.rest_on_key(tree, key)
    }

    /// Logs this transaction by its writes, even if a call could stand for it: it depends on something that another
    /// run would not find.
    pub fn log_by_value(&mut self) {
        self.core.by_value = true;
    }

    /// Runs the first phase of a two-phase commit: makes all checks of a commit, reserves the space for it, and returns
    /// when the transaction and all that it read are durable. From then on it belongs to no session. It ends by
    /// [`Database::commit_prepared`](crate::Database::commit_prepared) or
    /// [`Database::rollback_prepared`](crate::Database::rollback_prepared) with the same `gid`, in this run or in a
    /// later one, and its locks are held until then. `note` is kept with it for its owner. Returns the commit that
    /// stored it.
    ///
    /// # Errors
    /// [`Error::GidInUse`], [`Error::GidTooLong`], [`Error::TooManyPrepared`]; [`Error::CannotPrepare`] if it has made
    /// or dropped trees, or is [too large](crate::Options::escalate_bytes); [`Error::BadOption`] if the note is longer
    /// than [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX); and those of [`Transaction::commit`]. The transaction is rolled
    /// back then.
    pub fn prepare(self, gid: &str, note: &[u8]) -> Result<Csn> {
        two_phase::prepare(self.core, gid, note)
    }

    /// Commits, and returns when the commit is durable, unless the database acknowledges commits before that
    /// ([`Options::commits`](crate::Options::commits)). A transaction that wrote nothing returns when all that it read
    /// is durable.
    pub fn commit(self) -> Result<Csn> {
        commit::finish(self.core)?.acknowledge()
    }

    /// Takes its place in the order of commits, and releases its locks. It is durable when the ticket has been waited
    /// for, or a later commit is; until then no thread is asked to force it.
    pub fn order(self) -> Result<Ticket> {
        commit::finish(self.core)
    }

    /// Commits and returns at once; the ticket tells when the commit is durable, which it soon is, waited for or not.
    /// Locks are released already.
    pub fn commit_ticket(self) -> Result<Ticket> {
        let ticket = commit::finish(self.core)?;
        ticket.request_flush();
        Ok(ticket)
    }

    /// Undoes everything. The same as dropping it.
    pub fn rollback(self) {}
}

impl Cursor {
    /// Returns the next entry (key, value), or none at the end of the range. `txn` must be the one that began the
    /// scan.
    pub fn next(&mut self, txn: &mut Transaction) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.next_in(&mut txn.core)
    }

    /// As [`Cursor::next`]; lends the entry until the next step, mostly from where it is stored.
    pub fn next_ref(&mut self, txn: &mut Transaction) -> Result<Option<(&[u8], &[u8])>> {
        self.next_ref_in(&mut txn.core)
    }
}

impl Load {
    /// Begins to fill a tree, which the transaction has made and not written to, with entries that come in any order.
    /// They take about so many bytes of memory, and are sorted; the tree is built from that at the end
    /// ([`Load::finish`]), and is as if it were empty until then. No savepoint may be set or gone back to before.
    ///
    /// # Errors
    /// [`Error::BadOption`] of another tree.
    pub fn begin(txn: &mut Transaction, tree: TreeId, memory_bytes: usize) -> Result<Load> {
        load::begin(&mut txn.core, tree, memory_bytes)
    }

    /// Adds an entry, in any order. `txn` must be the transaction that began the load.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], and those of writing pages.
    pub fn add(&mut self, txn: &mut Transaction, key: &[u8], value: &[u8]) -> Result<()> {
        load::add(self, &mut txn.core, key, value)
    }

    /// Ends the load: the tree has all entries. `txn` must be the transaction that began the load. Returns an entry
    /// whose key another one had too, if there is one; then the transaction can only be rolled back, or go back to a
    /// savepoint from before.
    ///
    /// # Errors
    /// Those of writing pages.
    pub fn finish(self, txn: &mut Transaction) -> Result<Option<Duplicate>> {
        load::finish(self, &mut txn.core)
    }
}
