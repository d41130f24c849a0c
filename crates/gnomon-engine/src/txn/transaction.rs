//! Transactions: operations, their locks, and what they see.

use std::{ops::Bound, time::Duration};

use super::{
    ahead::Ahead,
    apply::Reads,
    commit::Ticket,
    cursor::Cursor,
    database::{GAPS, Handle, Inner, TREES},
    immediate::Immediate,
    large::Large,
    procedure::Command,
    range::{Direction, KeyRange},
    read::ReadAt,
    replicated::Observed,
    savepoint::SavepointState,
    serial::Confined,
    strength::TreeLock,
    tree::{Placement, Scanning, TreeRef},
    writes::{Write, WriteSet, Written},
};
use crate::{
    Csn, Error, Interrupt, Result, TreeId, TxnId, VALUE_BYTES_MAX,
    access::{self, Place, Search},
    failpoint::Failpoint,
    lock::{LockName, LockOwner, Mode, WaitOptions, gap_mode, key_mode, tree_mode},
    page::PageSize,
    sync::Arc,
};

/// The options of a new tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    /// The size of its pages, at least [`Options::page_bytes_min`](crate::Options::page_bytes_min). Small pages write
    /// less for a small change; large ones make long scans and large entries cheap. A key has at most a quarter of a
    /// page. Values that do not fit a third of one get pages of their own, as large as they need.
    pub page_size: PageSize,
    /// The partition that it is in, where procedures run serially.
    pub placement: Placement,
}

/// The isolation level of a transaction: which commits of others it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    #[default]
    ReadCommitted,
    /// The transaction sees what was committed when its first statement began, and nothing later. It does not write
    /// what others have changed since ([`Error::Serialization`]: the first committer wins), but two transactions may
    /// each write what the other has read (write skew). Called REPEATABLE READ by PostgreSQL.
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
    /// True if its operations ([`Transaction::apply`]) lock keys exclusively, for comparison.
    pub exclusive_operations: bool,
    /// In a member of a cluster ([`Replicator`](crate::replication::Replicator)), under SNAPSHOT: of what it reads, its
    /// snapshot may have missed so many of the commits that were ordered before it began; with none, any number.
    pub missed_max: Option<u32>,
    /// In a member of a cluster: its snapshots have all that was ordered up to so long before they are taken; with
    /// none, they may be older.
    pub age_max: Option<Duration>,
    /// Ends its waits and scans from elsewhere.
    pub interrupt: Option<Arc<Interrupt>>,
}

/// The accesses for which a lock on the whole tree stands for locks on its keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Covered {
    /// None: keys are to be locked.
    Nothing,
    /// Reads: no other transaction writes.
    Reads,
    /// Reads and writes: no other transaction reads, but at a snapshot.
    Writes,
}

/// A tree that the transaction has used.
#[derive(Clone)]
pub(super) struct Used {
    pub id: TreeId,
    /// None if this transaction created it: it has no pages yet, and no other transaction can know it.
    pub state: Option<TreeRef>,
    pub mode: Mode,
}

impl Used {
    pub fn covered(&self) -> Covered {
        match self.mode {
            _ if self.state.is_none() => Covered::Writes,
            tree_mode::X | tree_mode::E => Covered::Writes,
            tree_mode::S | tree_mode::U | tree_mode::SIX => Covered::Reads,
            _ => Covered::Nothing,
        }
    }
}

/// A key that was locked and found.
#[derive(Default)]
pub(super) struct Found {
    /// None if no key was.
    pub tree: Option<TreeId>,
    pub key: Vec<u8>,
    pub place: Option<Place>,
}

/// A write's demand on its key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Any,
    Absent,
    Present,
}

/// A transaction. Dropped without commit, it is rolled back.
///
/// After [`Error::Deadlock`], [`Error::Serialization`] or any other error than [`Error::KeyExists`],
/// [`Error::LockTimeout`], [`Error::Interrupted`] and those of bad input, only rolling back makes sense; the caller
/// does it. What failed has then changed nothing.
pub struct Transaction {
    pub(super) handle: Arc<Handle>,
    id: TxnId,
    pub(super) options: TxnOptions,
    pub(super) locks: LockOwner,
    pub(super) writes: WriteSet,
    /// Its changes that are in trees already.
    pub(super) immediate: Immediate,
    pub(super) used: Vec<Used>,
    /// The trees that it changes on pages of its own.
    pub(super) large: Option<Box<Large>>,
    /// The bytes of its changes and locks from which on there are to be less.
    pub(super) relieve_at: usize,
    /// The snapshot of the statement under way, or of the transaction under SNAPSHOT; the timeline knows of it.
    snapshot: Option<Csn>,
    /// True if something of the snapshot was told that locks do not keep as it is: it cannot be another one.
    pub(super) snapshot_told: bool,
    /// The newest commit that it may have seen.
    pub(super) seen: Csn,
    /// The key that it has locked and found last, to write it.
    pub(super) found: Found,
    /// Where it may find keys that it uses next.
    pub(super) ahead: Ahead,
    /// The keys that it has read under SNAPSHOT: operations that it applies to them can be conflicts.
    pub(super) reads: Reads,
    /// Unless it is SERIALIZABLE, keys that it has applied operations to together with others, each once.
    pub(super) unobserved: Vec<(TreeId, Box<[u8]>)>,
    /// Keys of which it was told that an operation cannot be applied, which others leave true.
    pub(super) refusals: Vec<(TreeId, Box<[u8]>)>,
    /// Keys that it made pending.
    pub(super) pending: Vec<(TreeRef, Box<[u8]>)>,
    /// The trees in which it may have locked gaps.
    pub(super) scanning: Vec<Scanning>,
    pub(super) savepoints: Vec<SavepointState>,
    /// True if it can only be rolled back: it has applied operations that may not be possible any more.
    pub(super) doomed: bool,
    /// Number of savepoints so far.
    pub(super) savepoint_count: u64,
    /// The call that may stand for it in the log of commits.
    pub(super) command: Option<Command>,
    /// True if only its writes may stand for it there.
    pub(super) by_value: bool,
    /// True if no other transaction changes what it uses, so that it locks nothing.
    pub(super) alone: bool,
    /// The partitions that it may use, where procedures run serially.
    pub(super) confined: Confined,
    /// The keys, trees and reads that it rests on, where others order commits.
    pub(super) observed: Option<Box<Observed>>,
}

impl Transaction {
    pub(super) fn new(handle: Arc<Handle>, id: TxnId, options: TxnOptions) -> Transaction {
        let locks = handle.inner.locks.owner(id);
        let relieve_at = handle.inner.escalate_bytes;
        Transaction {
            handle,
            id,
            options,
            locks,
            writes: WriteSet::default(),
            immediate: Immediate::default(),
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
    pub(super) fn alone(handle: Arc<Handle>) -> Transaction {
        let id = handle.inner.new_txn_id();
        let options = TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() };
        let mut txn = Transaction::new(handle, id, options);
        txn.alone = true;
        // What is larger than memory when it commits is not logged as a call.
        txn.relieve_at = usize::MAX;
        txn
    }

    /// Returns the transaction's number among those running.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Returns the newest commit that it may have seen by now. A caller that answers from it without committing it
    /// (an error, say) tells of durable things only after [`Database::wait_durable`](crate::Database::wait_durable)
    /// for it.
    pub fn seen(&self) -> Csn {
        self.seen
    }

    /// Makes its later snapshots include at least this commit.
    pub fn see_at_least(&mut self, csn: Csn) {
        self.options.after = self.options.after.max(csn);
    }

    /// Returns the options that it was begun with, as changed since.
    pub fn options(&self) -> &TxnOptions {
        &self.options
    }

    /// Changes the time that it waits for a lock from now on; none takes the database's, zero fails instead of
    /// waiting.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.options.lock_timeout = timeout;
    }

    /// Changes the time that it waits for a lock from now on before it looks for a deadlock.
    pub fn set_deadlock_after(&mut self, after: Duration) {
        self.options.deadlock_after = after;
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }

    /// Begins a statement: under READ COMMITTED, all its plain reads see what is committed when the first of them is
    /// made, or at [`Transaction::fix_snapshot`]. Writes of this transaction are seen at once, by the statement that
    /// makes them too. Cursors of earlier statements end.
    pub fn start_statement(&mut self) -> Result<()> {
        self.end_statement()?;
        self.check()?;
        self.tell_statements()?;
        // Under READ COMMITTED what only locks and writes needs none.
        if self.options.isolation == Isolation::Snapshot {
            self.fix_snapshot()?;
        }
        Ok(())
    }

    /// Makes the statement's plain reads see what is committed now, if none was made yet.
    pub fn fix_snapshot(&mut self) -> Result<()> {
        if self.reads_snapshots() && self.snapshot.is_none() {
            self.take_snapshot()?;
        }
        Ok(())
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

    /// Returns the snapshot of the statement under way, or of the transaction.
    pub(super) fn snapshot(&self) -> Option<Csn> {
        self.snapshot
    }

    /// Returns the mode in which a tree is locked that is read.
    fn read_mode(&self) -> Mode {
        if self.reads_snapshots() { tree_mode::A } else { tree_mode::IS }
    }

    /// True if plain reads stand at a snapshot, and lock nothing.
    fn reads_snapshots(&self) -> bool {
        self.options.isolation != Isolation::Serializable
    }

    pub(super) fn release_snapshot(&mut self) {
        if let Some(snapshot) = self.snapshot.take()
            && self.inner().timeline.release_snapshot(snapshot)
        {
            self.inner().prune();
        }
    }

    fn take_snapshot(&mut self) -> Result<Csn> {
        let inner = self.handle.inner.clone();
        self.see_at_least(self.freshen()?);
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
        self.seen = self.seen.max(snapshot);
        self.snapshot = Some(snapshot);
        self.tell_begin(snapshot);
        Ok(snapshot)
    }

    /// Returns the snapshot of the statement under way, or of the transaction, of which something is about to be
    /// told.
    pub(super) fn statement_snapshot(&mut self) -> Result<Csn> {
        self.snapshot_told = true;
        self.untold_snapshot()
    }

    /// The same, of which nothing is told.
    pub(super) fn untold_snapshot(&mut self) -> Result<Csn> {
        self.snapshot.map_or_else(|| self.take_snapshot(), Ok)
    }

    /// Under SNAPSHOT, renews the snapshot, as if the transaction had begun now: all that it was told so far is what
    /// it has locked, and is so still. False if it was told more, or others order commits.
    pub(super) fn renew_snapshot(&mut self) -> Result<bool> {
        if self.snapshot_told || self.observed.is_some() || self.options.isolation != Isolation::Snapshot {
            return Ok(false);
        }
        self.newest();
        self.release_snapshot();
        self.take_snapshot().map(|_| true)
    }

    /// Fails if the transaction cannot go on.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(interrupt) = &self.options.interrupt {
            interrupt.check()?;
        }
        if self.doomed {
            return Err(Error::Deadlock);
        }
        self.inner().check_open()?;
        self.inner().store.check()
    }

    pub(super) fn check_write(&self, value: &[u8]) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong { bytes: value.len() });
        }
        Ok(())
    }

    pub(super) fn lock(&mut self, name: LockName<'_>, mode: Mode) -> Result<()> {
        let interrupt = self.options.interrupt.clone();
        let options = self.wait_options(interrupt.as_deref());
        self.locks.lock(name, mode, &options)
    }

    pub(super) fn wait_options<'a>(&self, interrupt: Option<&'a Interrupt>) -> WaitOptions<'a> {
        let timeout = self.options.lock_timeout.or(self.handle.inner.lock_timeout);
        let deadlock_after = self.options.deadlock_after;
        WaitOptions { timeout, interrupt, nowait: timeout == Some(Duration::ZERO), deadlock_after }
    }

    /// Locks a tree as a whole in at least `mode`, and returns it.
    pub(super) fn use_tree(&mut self, id: TreeId, mode: Mode) -> Result<Used> {
        if self.writes.tree(id).is_some_and(|writes| writes.dropped) {
            return Err(Error::NoSuchTree(id));
        }
        // No other transaction uses it.
        let mode = if self.alone { tree_mode::X } else { mode };
        let at = self.used.iter().position(|used| used.id == id);
        // What it holds, and what that is to become.
        let modes = at.map(|at| {
            let held = self.used[at].mode;
            (held, self.inner().locks.modes(TREES).supremum(held, mode))
        });
        if !self.alone
            && modes.is_none_or(|(held, wanted)| wanted != held)
            && let Some(used) = self.use_placed(id, mode)?
        {
            return Ok(used);
        }
        if let (Some(at), Some((held, wanted))) = (at, modes) {
            if wanted != held {
                if self.used[at].state.is_some() {
                    self.lock(LockName::whole(TREES, id.0), wanted)?;
                }
                self.used[at].mode = wanted;
            }
            let used = self.used[at].clone();
            if wanted != held {
                self.rest_on_tree(&used)?;
            }
            return Ok(used);
        }
        self.check()?;
        if !self.alone {
            self.lock(LockName::whole(TREES, id.0), mode)?;
        }
        // After the lock: a transaction that dropped the tree held it exclusively.
        let state = self.inner().tree(id)?;
        let used = Used { id, state: Some(state), mode };
        self.used.push(used.clone());
        self.rest_on_tree(&used)?;
        Ok(used)
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
        self.check_write(&[])?;
        self.inner().store.check_page_size(options.page_size)?;
        options.placement.check()?;
        let id = self.inner().new_tree_id();
        if self.inner().store.logged().is_some() {
            // It is in the directory for a moment before its commit has a CSN.
            self.lock(LockName::whole(TREES, id.0), tree_mode::X)?;
        }
        self.writes.create_tree(id, options);
        self.used.push(Used { id, state: None, mode: tree_mode::X });
        Ok(id)
    }

    /// Drops a tree with all that it holds, when this transaction commits. Locks it exclusively.
    pub fn drop_tree(&mut self, tree: TreeId) -> Result<()> {
        self.check_write(&[])?;
        self.use_tree(tree, tree_mode::X)?;
        self.drop_private(tree)?;
        self.writes.drop_tree(tree);
        Ok(())
    }

    /// Returns the size of a tree's nodes.
    pub(super) fn page_size(&self, used: &Used) -> PageSize {
        match &used.state {
            Some(state) => state.tree.size(),
            None => self.writes.tree(used.id).map(|writes| writes.options.page_size).unwrap_or_default(),
        }
    }

    /// Locks a whole tree until the transaction ends.
    pub fn lock_tree(&mut self, tree: TreeId, lock: TreeLock) -> Result<()> {
        let mode = if lock == TreeLock::Access { self.read_mode() } else { lock.mode() };
        self.use_tree(tree, mode).map(|_| ())
    }

    /// Tells that keys of a tree are about to be used: what is in memory of their places is fetched into the
    /// processor's caches for all of them at once, which takes less time than one after the other. A hint, which reads
    /// nothing and locks no key. It is worth its while for dozens of keys at most that lie apart, in a database that is
    /// larger than the caches; in ascending order they take less of it.
    ///
    /// # Errors
    /// Of locking the tree, which the use of any key of it would do.
    pub fn prefetch(&mut self, tree: TreeId, keys: &[impl AsRef<[u8]>]) -> Result<()> {
        let used = self.use_tree(tree, self.read_mode())?;
        let Some(state) = used.state.as_deref().filter(|_| self.private(tree).is_none()) else {
            return Ok(());
        };
        let mut found = vec![None; keys.len()];
        state.tree.prefetch(&self.inner().store, keys, &mut found);
        self.ahead.note(tree, keys.iter().map(AsRef::as_ref).zip(found));
        Ok(())
    }

    /// Returns the value of a key as this transaction sees it: its own write, else by its isolation.
    pub fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let used = self.use_tree(tree, self.read_mode())?;
        let (mut search, is_applied) = match self.writes.written(tree, key) {
            Some(Written { write: Write::Put(value), .. }) => return Ok(Some(value.to_vec())),
            Some(Written { write: Write::Delete, .. }) => return Ok(None),
            Some(Written { write: Write::Apply(_), place }) => (Search::at(*place), true),
            None => (self.ahead.search(tree, key), false),
        };
        let is_newest = is_applied && self.observe(&used, key)?;
        if !is_applied {
            self.note_read(tree, key);
        }
        self.note_range(tree, || KeyRange::only(key));
        let at = if is_newest { self.newest() } else { self.read_at(&used, key)? };
        let stored = self.stored_at(tree, used.state.as_deref(), key, at, &mut search)?;
        self.ahead.searched(tree, key, search);
        if is_applied { self.with_own(tree, key, stored) } else { Ok(stored) }
    }

    /// True if this is the key that it has locked last, to write it, and found: then it is still there.
    pub(super) fn is_found(&self, tree: TreeId, key: &[u8]) -> bool {
        self.found.tree == Some(tree) && self.found.key == key
    }

    /// Writes a key that must be absent; [`Error::KeyExists`] otherwise, and then nothing is written and the
    /// transaction can go on. Waits for others that write the key, and looks at what they committed.
    pub fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_write(value)?;
        match self.write(tree, key, Some(value), Wanted::Absent)? {
            true => Err(Error::KeyExists),
            false => Ok(()),
        }
    }

    /// Writes a key, present or not.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_write(value)?;
        self.write(tree, key, Some(value), Wanted::Any).map(|_| ())
    }

    /// Replaces the value of a key that is present; false if it is absent, and then nothing is written. Unlike
    /// [`Transaction::put`], it admits locks that want no more than that the key stays
    /// ([`RowLock::KeyShare`](super::RowLock)).
    pub fn replace(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_write(value)?;
        self.write(tree, key, Some(value), Wanted::Present)
    }

    /// Deletes a key; false if it was absent.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        self.check_write(&[])?;
        self.write(tree, key, None, Wanted::Any)
    }

    /// Locks a key and writes it, unless it is present and must not be, or the reverse; tells whether it was, where
    /// that makes a difference.
    fn write(&mut self, tree: TreeId, key: &[u8], value: Option<&[u8]>, wanted: Wanted) -> Result<bool> {
        self.relieve()?;
        let used = self.use_tree(tree, tree_mode::IX)?;
        let max = access::key_bytes_max(self.page_size(&used));
        if key.len() > max {
            return Err(Error::KeyTooLong { bytes: key.len(), max });
        }
        if wanted == Wanted::Absent && self.is_taken(&used, key)? {
            return Ok(true);
        }
        if used.covered() < Covered::Writes {
            let mode = if wanted == Wanted::Present { key_mode::NKU } else { key_mode::X };
            self.lock_again(&used, key, mode)?;
        }
        self.rest_on_key(tree, key)?;
        let is_found = self.is_found(tree, key);
        let own = match self.writes.get(tree, key) {
            // It was looked for when the key was found.
            _ if is_found => None,
            Some(Write::Put(_)) => Some(true),
            Some(Write::Delete) => Some(false),
            // Changes by others since are looked for as if nothing was written yet.
            Some(Write::Apply(_)) | None => None,
        };
        let mut place = None;
        let present = match own {
            Some(present) => present,
            None => {
                let is_covered = used.covered() == Covered::Writes;
                let is_asked = wanted != Wanted::Any || value.is_none() || !is_covered;
                let stored = if is_found {
                    place = self.found.place;
                    true
                } else {
                    let mut search = self.ahead.search(tree, key);
                    let stored = is_asked && self.is_stored(&used, key, &mut search)?;
                    place = self.ahead.searched(tree, key, search);
                    stored
                };
                if let Some(state) = &used.state {
                    self.newest();
                    // A key of its own that becomes visible to others: where scans must notice it.
                    if !stored && value.is_some() && !is_covered && wanted != Wanted::Present {
                        self.make_pending(tree, state, key)?;
                    }
                }
                stored
            }
        };
        if (present && wanted == Wanted::Absent) || (!present && wanted == Wanted::Present) {
            return Ok(present);
        }
        if own.is_none() {
            self.check_first_committer(&used, key)?;
        }
        // To delete what is absent is no write: it would make a key out of nothing for every reader to step over.
        if present || value.is_some() || own.is_some() {
            self.found.tree = None;
            self.writes.put_at(tree, key, value, place);
            self.change_soon(&used, key, value)?;
        }
        Ok(present)
    }

    /// Makes a new key known to scans, waiting for those whose range it falls into.
    fn make_pending(&mut self, tree: TreeId, state: &TreeRef, key: &[u8]) -> Result<()> {
        if state.add_pending_unless_scanned(key) {
            self.pending.push((state.clone(), key.into()));
            return Ok(());
        }
        loop {
            let next = state.next_key(&self.inner().store, Bound::Excluded(key))?;
            let gap = gap_name(tree, next.as_deref());
            // A scan of its own has locked the gap; both parts of it stay locked.
            if self.locks.held_mode(gap) == Some(gap_mode::SCAN) {
                self.lock(LockName::key(GAPS, tree.0, key), gap_mode::SCAN)?;
            }
            let mark = self.locks.mark();
            self.lock(gap, gap_mode::INSERT)?;
            // Pending first, then looked at again: if the next key has gone meanwhile, a scan that locked the larger
            // gap either found this key or is found by it.
            state.add_pending(key);
            self.pending.push((state.clone(), key.into()));
            let same = state.next_key(&self.inner().store, Bound::Excluded(key))? == next;
            self.locks.release_since(mark);
            if same {
                return Ok(());
            }
            state.remove_pending(key);
            self.pending.pop();
        }
    }

    /// Begins a scan; entries come by [`Cursor::next`], which borrows the transaction only for the call, so that
    /// it can write between two entries. The scan sees the transaction's own writes.
    pub fn scan(&mut self, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
        let used = self.use_tree(tree, self.read_mode())?;
        self.observe_tree(tree)?;
        self.fix_snapshot()?;
        Ok(Cursor::new(self, tree, used.state, range, direction, false))
    }

    /// Begins a scan of the newest committed entries, whatever the isolation, together with the transaction's own. It
    /// locks no keys: what it passes can change unless the whole tree is locked.
    pub fn scan_newest(&mut self, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
        let used = self.use_tree(tree, self.read_mode())?;
        Ok(Cursor::new(self, tree, used.state, range, direction, true))
    }

    /// Returns the last key of a tree, whatever the isolation: committed, of this transaction, or about to be
    /// inserted by another one that is running or prepared. It locks no key.
    pub fn last_key(&mut self, tree: TreeId) -> Result<Option<Vec<u8>>> {
        let used = self.use_tree(tree, self.read_mode())?;
        // The tree last: a key stops to be pending after it is in the tree.
        let pending = used.state.and_then(|state| state.last_pending()).map(<[u8]>::into_vec);
        let stored = self.scan_newest(tree, KeyRange::all(), Direction::Backward)?.next(self)?;
        Ok(pending.max(stored.map(|(key, _)| key)))
    }

    /// Returns where a scan's next step reads: a snapshot, or the newest values, with true if their keys are to be
    /// locked.
    pub(super) fn scan_at(&mut self, tree: TreeId) -> Result<(ReadAt, bool)> {
        self.check()?;
        let used = self.use_tree(tree, self.read_mode())?;
        self.plain_read(&used)
    }

    /// Locks an existing key and the gap before it against others' writes; with none, what is after the last key.
    pub(super) fn lock_scanned(&mut self, tree: TreeId, key: Option<&[u8]>) -> Result<()> {
        self.relieve()?;
        let used = self.use_tree(tree, self.read_mode())?;
        if let Some(state) = &used.state {
            self.count_scan(state);
        }
        if let Some(key) = key {
            self.lock_again(&used, key, key_mode::S)?;
        }
        self.lock(gap_name(tree, key), gap_mode::SCAN)
    }

    /// Tells inserts that gaps of a tree may be locked.
    fn count_scan(&mut self, state: &TreeRef) {
        if self.inner().store.failpoints().is_on(Failpoint::ScanNotCounted) {
            return;
        }
        if !self.scanning.iter().any(|scanning| scanning.is_of(state)) {
            self.scanning.push(Scanning::new(state.clone()));
        }
    }

    /// Commits, and returns when the commit is durable, unless the database acknowledges commits before that
    /// ([`Options::commits`](crate::Options::commits)). A transaction that wrote nothing returns when all that it read
    /// is durable.
    pub fn commit(self) -> Result<Csn> {
        self.finish()?.acknowledge()
    }

    /// Takes its place in the order of commits, and releases its locks. It is durable when the ticket has been waited
    /// for, or a later commit is; until then no thread is asked to force it.
    pub fn order(self) -> Result<Ticket> {
        self.finish()
    }

    /// Commits and returns at once; the ticket tells when the commit is durable, which it soon is, waited for or not.
    /// Locks are released already.
    pub fn commit_ticket(self) -> Result<Ticket> {
        let ticket = self.finish()?;
        ticket.request_flush();
        Ok(ticket)
    }

    /// Undoes everything. The same as dropping it.
    pub fn rollback(self) {}

    /// Ends the transaction for others: its pending keys are in the trees by now, or will never be.
    pub(super) fn release(&mut self, committed: bool) {
        if !committed {
            // An error has stopped the database, or it is closed.
            let (inner, id) = (self.inner().clone(), self.id);
            if let Ok(Some(csn)) = self.immediate.undo_all(&inner, id) {
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
}

fn gap_name(tree: TreeId, before: Option<&[u8]>) -> LockName<'_> {
    match before {
        Some(key) => LockName::key(GAPS, tree.0, key),
        None => LockName::end(GAPS, tree.0),
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.tell_end();
        self.release_snapshot();
        self.release(false);
    }
}
