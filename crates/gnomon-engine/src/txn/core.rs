//! The core of a transaction: its locks, its snapshot, its write set, and what it has seen. Features work on it.
//!
//! The core has what all features need: checks, waiting for locks, taking and renewing the snapshot, and noting
//! what the transaction rests on where others order commits. The trees that it uses are in [`trees`](super::trees),
//! what it reads of them in [`read`](super::read).

use std::time::Duration;

use super::{
    ahead::Ahead,
    observed::Observed,
    options::{Isolation, TxnOptions},
    partition::Confined,
    private::Large,
    shared::{Handle, Shared},
    shared_snapshot::SharedSnapshot,
    used::{Covered, Found, Reads, Used},
};
use crate::{
    Conflict, Csn, Error, Interrupt, Result, TreeId, TxnId, VALUE_BYTES_MAX,
    access::{KeyRange, Placement, Tree},
    failpoint::Failpoint,
    lock::{LockName, LockOwner, Mark, Mode, WaitOptions, tree_mode},
    mvcc::{ReadAt, Scanning, TreeRef},
    page::PageSize,
    recovery::{Command, TxnState},
    store::PrivatePages,
    sync::Arc,
    write_set::WriteSet,
};

/// The longest wait of a SERIALIZABLE transaction for a prepared one.
const PREPARED_WAIT_MAX: Duration = Duration::from_secs(1);

/// The lengths of a transaction's lists when a savepoint was set.
pub(crate) struct SavepointState {
    pub number: u64,
    pub writes: usize,
    pub changes: usize,
    pub locks: Mark,
    pub pending: usize,
    pub refusals: usize,
}

/// The core of a transaction. Dropped without commit, it is rolled back.
pub(crate) struct Core {
    pub handle: Arc<Handle>,
    pub(super) id: TxnId,
    pub options: TxnOptions,
    pub locks: LockOwner,
    pub writes: WriteSet,
    /// The state that the recovery method keeps of it.
    pub state: TxnState,
    pub used: Vec<Used>,
    /// The trees that it changes on pages of its own.
    pub large: Option<Box<Large>>,
    /// The bytes of its changes and locks from which on there are to be less.
    pub relieve_at: usize,
    /// The snapshot of the statement under way, or of the transaction under SNAPSHOT; the timeline knows of it.
    pub(super) snapshot: Option<Csn>,
    /// True if something of the snapshot was told that locks do not keep as it is: it cannot be another one.
    pub snapshot_told: bool,
    /// The newest commit that it may have seen.
    pub seen: Csn,
    /// The key that it has locked and found last, to write it.
    pub found: Found,
    /// Where it may find keys that it uses next.
    pub ahead: Ahead,
    /// The keys that it has read under SNAPSHOT: operations that it applies to them can be conflicts.
    pub reads: Reads,
    /// Unless it is SERIALIZABLE, keys that it has applied operations to together with others, each once.
    pub unobserved: Vec<(TreeId, Box<[u8]>)>,
    /// Keys of which it was told that an operation cannot be applied, which others leave true.
    pub refusals: Vec<(TreeId, Box<[u8]>)>,
    /// Keys that it made pending.
    pub pending: Vec<(TreeRef, Box<[u8]>)>,
    /// The trees in which it may have locked gaps.
    pub scanning: Vec<Scanning>,
    pub savepoints: Vec<SavepointState>,
    /// True if it can only be rolled back: it has applied operations that may not be possible any more.
    pub doomed: bool,
    /// Number of savepoints so far.
    pub savepoint_count: u64,
    /// The call that may stand for it in the log of commits.
    pub command: Option<Command>,
    /// True if only its writes may stand for it there.
    pub by_value: bool,
    /// True if no other transaction changes what it uses, so that it locks nothing.
    pub alone: bool,
    /// The partitions that it may use, where procedures run serially.
    pub confined: Confined,
    /// The keys, trees and reads that it rests on, where others order commits.
    pub observed: Option<Box<Observed>>,
}

impl Core {
    pub fn new(handle: Arc<Handle>, id: TxnId, options: TxnOptions) -> Core {
        let locks = handle.inner.locks.owner(id);
        let relieve_at = handle.inner.escalate_bytes;
        Core {
            handle,
            id,
            options,
            locks,
            writes: WriteSet::default(),
            state: TxnState::default(),
            used: Vec::new(),
            large: None,
            relieve_at,
            snapshot: None,
            snapshot_told: false,
            seen: Csn(0),
            found: Found::default(),
            ahead: Ahead::default(),
            reads: Reads::default(),
            unobserved: Vec::new(),
            refusals: Vec::new(),
            pending: Vec::new(),
            scanning: Vec::new(),
            savepoints: Vec::new(),
            doomed: false,
            savepoint_count: 0,
            command: None,
            by_value: false,
            alone: false,
            confined: Confined::No,
            observed: None,
        }
    }

    /// Makes a transaction that locks nothing, for when no other one changes what it uses. It is not to be committed
    /// itself.
    pub fn alone(handle: Arc<Handle>) -> Core {
        let id = handle.inner.new_txn_id();
        let options = TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() };
        let mut txn = Core::new(handle, id, options);
        txn.alone = true;
        // What is larger than memory when it commits is not logged as a call.
        txn.relieve_at = usize::MAX;
        txn
    }

    pub fn inner(&self) -> &Arc<Shared> {
        &self.handle.inner
    }

    /// True if a tree is used as a whole, by transactions that have its partitions.
    pub fn is_placed(&self, used: &Used) -> bool {
        self.inner().is_serial
            && used.state.as_ref().is_some_and(|state| state.placement != Placement::Anywhere)
    }

    /// Fails if the transaction cannot go on.
    pub fn check(&self) -> Result<()> {
        if let Some(interrupt) = &self.options.interrupt {
            interrupt.check()?;
        }
        if self.doomed {
            return Err(Error::Deadlock);
        }
        self.inner().check_open()?;
        self.inner().store.check()
    }

    pub fn check_write(&self, value: &[u8]) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong { bytes: value.len() });
        }
        Ok(())
    }

    /// Fails if the transaction is doomed, or the database is closed or has stopped.
    pub fn check_committable(&self) -> Result<()> {
        if self.doomed {
            return Err(Error::Deadlock);
        }
        self.inner().check_open()?;
        self.inner().store.check()
    }

    pub fn lock(&mut self, name: LockName<'_>, mode: Mode) -> Result<()> {
        let interrupt = self.options.interrupt.clone();
        let options = self.wait_options(interrupt.as_deref());
        self.locks.lock(name, mode, &options)
    }

    pub fn wait_options<'a>(&self, interrupt: Option<&'a Interrupt>) -> WaitOptions<'a> {
        let timeout = self.options.lock_timeout.or(self.handle.inner.lock_timeout);
        let deadlock_after = self.options.deadlock_after;
        // The client that is to end a prepared transaction may be the one that waits for it, and knows only of what that
        // has written, not of what it has read.
        let in_doubt_max = (self.options.isolation == Isolation::Serializable).then_some(PREPARED_WAIT_MAX);
        let nowait = timeout == Some(Duration::ZERO);
        WaitOptions { timeout, interrupt, nowait, deadlock_after, in_doubt_max }
    }

    /// Stands at the newest value, behind a lock. To be called when the lock is granted: the transaction that wrote
    /// the value has taken its CSN before. The watermark may still be below that, held up by another commit.
    pub fn newest(&mut self) -> ReadAt {
        self.seen = self.seen.max(self.inner().store.last_csn());
        ReadAt::Newest
    }

    /// Returns the snapshot that a read stands at, where the newest values in trees need not be committed. To be
    /// asked before the tree is read: of what is undone meanwhile, the versions are newer.
    pub fn snapshot_of(&self, at: ReadAt) -> Option<Csn> {
        match at {
            ReadAt::Snapshot(snapshot) => Some(snapshot),
            ReadAt::Newest => {
                let inner = self.inner();
                inner.properties.in_place.then(|| inner.store.last_csn())
            }
        }
    }

    /// Returns the size of a tree's nodes.
    pub fn page_size(&self, used: &Used) -> PageSize {
        match &used.state {
            Some(state) => state.tree.size(),
            None => self.writes.tree(used.id).map(|writes| writes.options.page_size).unwrap_or_default(),
        }
    }

    /// True if this is the key that it has locked last, to write it, and found: then it is still there.
    pub fn is_found(&self, tree: TreeId, key: &[u8]) -> bool {
        self.found.tree == Some(tree) && self.found.key == key
    }

    /// True if what it is told of keys is to stay so: it is SERIALIZABLE, here or where others order commits.
    pub fn keeps_what_it_sees(&self) -> bool {
        self.options.isolation == Isolation::Serializable
            || self.observed.as_ref().is_some_and(|observed| observed.is_serializable)
    }

    /// Returns the mode in which a tree is locked that is read.
    pub(super) fn read_mode(&self) -> Mode {
        if self.reads_snapshots() { tree_mode::A } else { tree_mode::IS }
    }

    /// True if plain reads stand at a snapshot, and lock nothing.
    pub(super) fn reads_snapshots(&self) -> bool {
        self.options.isolation != Isolation::Serializable
    }

    /// Makes the statement's plain reads see what is committed now, if none was made yet.
    pub fn fix_snapshot(&mut self) -> Result<()> {
        if self.reads_snapshots() && self.snapshot.is_none() {
            self.take_snapshot()?;
        }
        Ok(())
    }

    pub fn release_snapshot(&mut self) {
        if let Some(snapshot) = self.snapshot.take()
            && self.inner().timeline.release_snapshot(snapshot)
        {
            self.inner().prune();
        }
    }

    pub(super) fn take_snapshot(&mut self) -> Result<Csn> {
        if let Some(shared) = self.options.snapshot.as_ref().map(SharedSnapshot::csn) {
            let snapshot = self.inner().timeline.take_snapshot(|| shared);
            return Ok(self.stand_at(snapshot));
        }
        self.see_at_least(self.freshen()?);
        let inner = self.inner();
        // A session that holds a ticket, or has read or written behind a lock, may be ahead of the application of
        // another transaction: the snapshot must have all that it knows already.
        let seen = match inner.store.failpoints().is_on(Failpoint::SnapshotBehindOwnWrites) {
            true => Csn(0),
            false => self.seen,
        };
        let after = self.options.after.max(seen).min(inner.store.last_csn());
        inner.timeline.wait_for(after, || inner.store.check())?;
        let snapshot = inner.timeline.take_snapshot(|| match self.options.read_only {
            true => inner.settled_csn().max(after),
            false => inner.timeline.watermark(),
        });
        Ok(self.stand_at(snapshot))
    }

    fn stand_at(&mut self, snapshot: Csn) -> Csn {
        self.seen = self.seen.max(snapshot);
        self.snapshot = Some(snapshot);
        self.tell_begin(snapshot);
        snapshot
    }

    /// See [`Transaction::share_snapshot`](super::Transaction::share_snapshot).
    pub fn share_snapshot(&mut self) -> Result<SharedSnapshot> {
        let csn = self.statement_snapshot()?;
        let shared = SharedSnapshot::of(self.handle.clone(), csn);
        self.inner().wait_durable(csn)?;
        Ok(shared)
    }

    /// Returns the snapshot of the statement under way, or of the transaction, of which something is about to be
    /// told.
    pub fn statement_snapshot(&mut self) -> Result<Csn> {
        self.snapshot_told = true;
        self.untold_snapshot()
    }

    /// The same, of which nothing is told.
    pub fn untold_snapshot(&mut self) -> Result<Csn> {
        self.snapshot.map_or_else(|| self.take_snapshot(), Ok)
    }

    /// Under SNAPSHOT, renews the snapshot, as if the transaction had begun now: all that it was told so far is what
    /// it has locked, and is so still. False if it was told more, others order commits, or the snapshot is shared.
    pub fn renew_snapshot(&mut self) -> Result<bool> {
        if self.snapshot_told
            || self.options.snapshot.is_some()
            || self.observed.is_some()
            || self.options.isolation != Isolation::Snapshot
        {
            return Ok(false);
        }
        self.newest();
        self.release_snapshot();
        self.take_snapshot().map(|_| true)
    }

    /// Ends the statement: a transaction that waits for its client keeps no old versions alive, unless it is under
    /// SNAPSHOT. Where a log of pages recovers, pages are changed now, if not before.
    ///
    /// # Errors
    /// Of changing pages, [`Error::DiskFull`] among them.
    pub fn end_statement(&mut self) -> Result<()> {
        if self.options.isolation != Isolation::Snapshot {
            self.release_snapshot();
        }
        if let Some(large) = &mut self.large {
            large.end_statement();
        }
        self.change_now()
    }

    /// Notes that a key was read, so that operations on it are conflicts from now on.
    pub fn note_read(&mut self, tree: TreeId, key: &[u8]) {
        if self.options.isolation == Isolation::Snapshot && !self.options.read_only {
            self.reads.note(tree, key);
        }
    }

    /// Takes the one snapshot of a transaction before it looks at what is newest: others do not wait for its locks to
    /// change that, and what they change behind the snapshot contradicts it.
    pub(super) fn fix_base(&mut self) -> Result<()> {
        match (&self.observed, self.options.isolation) {
            (Some(_), Isolation::Snapshot) => self.fix_snapshot(),
            _ => Ok(()),
        }
    }

    /// Notes that a key is about to be looked at behind a lock.
    ///
    /// # Errors
    /// Those of taking the snapshot, which must not have what the look does not see.
    pub fn rest_on_key(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        self.fix_base()?;
        let Some(observed) = &mut self.observed else { return Ok(()) };
        let newest = self.handle.inner.timeline.watermark();
        observed.note_key(tree, key, newest);
        Ok(())
    }

    /// Notes that a tree is locked as a whole, if it is.
    ///
    /// # Errors
    /// Those of [`Core::rest_on_key`].
    pub fn rest_on_tree(&mut self, used: &Used) -> Result<()> {
        if used.covered() < Covered::Reads {
            return Ok(());
        }
        self.fix_base()?;
        let Some(observed) = &mut self.observed else { return Ok(()) };
        let newest = self.handle.inner.timeline.watermark();
        observed.note_tree(used.id, newest);
        Ok(())
    }

    pub fn notes_reads(&self) -> bool {
        let Some(observed) = &self.observed else { return false };
        observed.is_serializable || self.options.missed_max.is_some()
    }

    /// Notes that keys were read.
    pub fn note_range(&mut self, tree: TreeId, range: impl FnOnce() -> KeyRange) {
        if !self.notes_reads() {
            return;
        }
        if let Some(observed) = &mut self.observed {
            observed.note_range(tree, range());
        }
    }

    /// Returns the newest commit that a snapshot must have that may not be old. To be called before it is taken.
    pub fn freshen(&self) -> Result<Csn> {
        let replicator = self.handle.inner.replicator().filter(|_| self.observed.is_some());
        match (self.options.age_max, replicator) {
            (Some(age_max), Some(replicator)) => {
                let interrupt = self.options.interrupt.clone();
                replicator.freshen(age_max, interrupt.as_deref())
            }
            _ => Ok(Csn(0)),
        }
    }

    /// Tells of a snapshot that may not have missed much.
    pub fn tell_begin(&mut self, snapshot: Csn) {
        if let (Some(observed), Some(missed_max)) = (&mut self.observed, self.options.missed_max)
            && let Some(replicator) = self.handle.inner.replicator()
            && !std::mem::replace(&mut observed.is_begun, true)
        {
            replicator.begin(self.id, missed_max, snapshot);
        }
    }

    /// Returns the error of a transaction that cannot be serialized with what is committed here.
    pub fn refuse(&mut self, conflict: Conflict) -> Error {
        if let Some(observed) = &mut self.observed {
            observed.refused = Some(conflict);
        }
        Error::Serialization(conflict)
    }

    /// Tells the replicator of the end of a transaction that it was told of, or that was refused.
    pub fn tell_end(&mut self) {
        if let Some(observed) = self.observed.take()
            && let Some(replicator) = self.handle.inner.replicator()
        {
            observed.tell_end(&**replicator, self.id, self.options.isolation, self.options.missed_max);
        }
    }

    /// True if the transaction changes a tree on pages of its own.
    pub fn is_large(&self, tree: TreeId) -> bool {
        self.large.as_ref().is_some_and(|large| large.trees.contains_key(&tree))
    }

    /// Returns the layer of private pages that belongs to the last savepoint.
    pub fn layer(&self) -> u64 {
        self.savepoints.last().map_or(0, |savepoint| Large::layer_of(savepoint.number))
    }

    /// True if the transaction has changed pages of its own.
    pub fn has_pages(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.pages.len().0 > 0)
    }

    /// Returns the private pages and the tree in them, if it is changed there.
    pub fn private(&self, id: TreeId) -> Option<(&PrivatePages, Option<Tree>)> {
        self.large.as_ref()?.private(id)
    }

    /// Returns how often changes were applied to private pages.
    pub fn applied(&self) -> u64 {
        self.large.as_ref().map_or(0, |large| large.applied)
    }

    /// Returns the snapshot at which the statement under way still reads a tree that the transaction has locked as a
    /// whole.
    pub fn statement_of(&self, id: TreeId) -> Option<Csn> {
        self.large.as_ref()?.trees.get(&id)?.statement
    }

    /// True if versions of a key do not count, since the transaction has written it.
    pub fn is_own(&self, id: TreeId, key: &[u8]) -> bool {
        self.large.as_ref().and_then(|large| large.trees.get(&id)).is_some_and(|tree| tree.own.contains(key))
    }

    /// Ends the transaction for others: its pending keys are in the trees by now, or will never be.
    pub fn release(&mut self, committed: bool) {
        if !committed {
            let inner = &self.handle.inner;
            // An error has stopped the database, or it is closed.
            if let Ok(Some(csn)) = inner.method.undo_all(inner, self.id, &mut self.state) {
                self.have_pruned(csn);
            }
        }
        for (tree, key) in self.pending.drain(..) {
            tree.remove_pending(&key);
        }
        match committed {
            true => self.locks.release_committed(),
            false => self.locks.release_all(),
        }
    }

    /// Makes its later snapshots include at least this commit.
    pub fn see_at_least(&mut self, csn: Csn) {
        self.options.after = self.options.after.max(csn);
    }

    /// Notes that the write set puts or deletes a key of a tree, which may have to be changed there before the commit.
    pub fn change_soon(&mut self, used: &Used, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let (Some(state), true) = (&used.state, self.inner().properties.is_immediate) else {
            return Ok(());
        };
        // A key that is no longer in the tree exists until the deletion is committed.
        if value.is_none() && !state.is_pending(key) {
            state.hide(key);
            self.pending.push((state.clone(), key.into()));
        }
        let method = &self.handle.inner.method;
        let is_long = method.note_change(&mut self.state, (used.id, state), key, value);
        if is_long { self.change_now() } else { Ok(()) }
    }

    /// Changes the keys in their trees that wait for that. After an error they still wait.
    pub fn change_now(&mut self) -> Result<()> {
        let inner = &self.handle.inner;
        match inner.properties.is_immediate {
            true => inner.method.change_now(inner, self.id, &mut self.state, &self.writes),
            false => Ok(()),
        }
    }

    /// Prunes the versions that were needed until a CSN that no thread waits for, in the background, if versions take
    /// much memory.
    pub fn have_pruned(&self, csn: Csn) {
        const MUCH_BYTES: usize = 1 << 20;
        if self.inner().timeline.version_bytes() > MUCH_BYTES {
            self.handle.host.make_durable(csn);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.tell_end();
        self.release_snapshot();
        self.release(false);
    }
}
