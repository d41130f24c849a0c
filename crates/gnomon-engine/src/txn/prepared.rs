//! Two-phase commit: transactions that are prepared to commit, and wait for the call that ends them.
//!
//! Promises: when [`Transaction::prepare`] returns, the transaction is durable as it is, with all that it read; nothing
//! but a full disk can keep it from committing, and that only for as long as the disk is full. It ends by
//! [`PreparedTransaction::commit`] or [`PreparedTransaction::rollback`] only, in this run or in a later one. Until then
//! others meet it as a running transaction: its locks, with their ranges, and its pending keys hold.
//!
//! How:
//!
//! - *PREPARE* reserves the space for the end, which no other transaction gets ([`Reservation`]), then stores the
//!   entry ([`Entry`]) in the directory of trees, as a commit with a CSN of its own. So it is durable only with all
//!   commits before, those that it read among them.
//! - *COMMIT PREPARED* is one commit that applies the write set and removes the entry; *ROLLBACK PREPARED* is one that
//!   removes the entry. The locks go after it, as after every commit. What fails before the CSN leaves the transaction
//!   prepared.
//! - *Opening* reads the entries before any transaction can begin, and takes their locks. Each was granted beside the
//!   others before, so each is granted again, if those that are weaker come first: a share that is held admits an
//!   update, but not the other way round.
//!
//! The space is enough unless others split the leaves that it writes to more than once in the meantime. Then ending it
//! takes more, and fails with [`Error::DiskFull`] if there is none; it can be tried again.
//!
//! Not here: trees that a prepared transaction makes or drops; that it was refused an operation, where that is to stay
//! so until its end.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry as MapEntry};

use super::{
    apply::LENGTH,
    commit::{
        Grown, Ticket, apply_in_order, in_parts, pages_changed, pages_changed_later, pages_of_sequence,
    },
    database::{Database, GAPS, Handle, Inner, KEYS, PARTITIONS},
    entry::{Entry, HeldLock, Outgoing},
    immediate::{self, EntryPart, Immediate, Keys},
    log::Logged,
    transaction::Transaction,
    tree::{Placement, Scanning, TreeRef, directory_damage},
    writes::{BoundCall, Calls, Write, WriteSet},
};
use crate::{
    Csn, Error, KEY_BYTES_MAX, Result, TreeId, TxnId,
    failpoint::Failpoint,
    lock::{LockName, LockOwner, Part},
    op,
    page::{PageCounts, PageSize},
    store::{
        GroupCommit, Store,
        logged::LoggedStore,
        shadow::{Reservation, ShadowStore},
    },
    sync::{Arc, Mutex},
};

/// The longest identifier of a prepared transaction, in bytes (as in PostgreSQL).
pub const GID_BYTES_MAX: usize = 199;
/// The longest note that its owner keeps with it, in bytes.
pub const NOTE_BYTES_MAX: usize = 4096;

/// An entry is stored in parts of this length.
pub(super) const PART_BYTES: usize = 1 << 20;
/// The longest key of a part.
const PART_KEY_BYTES: usize = GID_BYTES_MAX + 6;

/// The description of a prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedInfo {
    /// Its identifier, given by the caller of [`Transaction::prepare`].
    pub gid: String,
    /// Its number in this run, by which [`Database::locks`] names it.
    pub txn: TxnId,
    /// The note that its owner gave at [`Transaction::prepare`].
    pub note: Vec<u8>,
}

/// The state of a prepared transaction, kept until its end.
struct Prepared {
    writes: WriteSet,
    locks: LockOwner,
    pending: Vec<(TreeRef, Box<[u8]>)>,
    /// The trees in which it may have locked gaps.
    scanning: Vec<Scanning>,
    /// None where a log of pages recovers: a transaction can be undone there, so its end needs no reserved space.
    kept: Option<Kept>,
    /// Parts of the stored entry.
    parts: u32,
    /// True if it has ended by a commit, and its changes are in the trees.
    committed: bool,
}

/// The space that is kept for the end of a prepared transaction.
struct Kept {
    reservation: Reservation,
    /// The largest pages that it counts on for parts of large values.
    part_max: PageSize,
    /// Pages that change when the entry is removed.
    pages_removed: PageCounts,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for (tree, key) in self.pending.drain(..) {
            tree.remove_pending(&key);
        }
        match self.committed {
            true => self.locks.release_committed(),
            false => self.locks.release_all(),
        }
    }
}

enum Slot {
    /// It is being prepared, and is not listed yet.
    Preparing,
    /// It is prepared, with its description. Its state is none while a [`PreparedTransaction`] has it.
    Waiting(PreparedInfo, Option<Box<Prepared>>),
}

/// The prepared transactions of a database.
pub(super) struct AllPrepared {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<Arc<str>, Slot>,
    /// The newest commit that ended one.
    ended: Csn,
}

impl AllPrepared {
    /// `max`: how many transactions may be prepared at a time.
    pub fn new(max: usize) -> AllPrepared {
        AllPrepared { max, state: Mutex::default() }
    }

    fn put(&self, gid: &Arc<str>, info: PreparedInfo, prepared: Box<Prepared>) {
        self.state.lock().slots.insert(gid.clone(), Slot::Waiting(info, Some(prepared)));
    }
}

/// An identifier, taken for a transaction that is about to be prepared.
struct Claim<'a> {
    all: &'a AllPrepared,
    gid: Arc<str>,
    done: bool,
}

impl<'a> Claim<'a> {
    fn new(all: &'a AllPrepared, gid: &str) -> Result<Claim<'a>> {
        let gid: Arc<str> = gid.into();
        let mut state = all.state.lock();
        let count = state.slots.len();
        match state.slots.entry(gid.clone()) {
            MapEntry::Occupied(_) => return Err(Error::GidInUse(gid)),
            MapEntry::Vacant(_) if count >= all.max => return Err(Error::TooManyPrepared { max: all.max }),
            MapEntry::Vacant(slot) => slot.insert(Slot::Preparing),
        };
        drop(state);
        Ok(Claim { all, gid, done: false })
    }

    fn keep(mut self, info: PreparedInfo, prepared: Box<Prepared>) {
        self.done = true;
        self.all.put(&self.gid, info, prepared);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.all.state.lock().slots.remove(&self.gid);
        }
    }
}

impl Transaction {
    /// Runs the first phase of a two-phase commit: makes all checks of a commit, reserves the space for it, and
    /// returns when the transaction and all that it read are durable. From then on it belongs to no session. It ends
    /// by [`Database::commit_prepared`] or [`Database::rollback_prepared`] with the same `gid`, in this run or in a
    /// later one, and its locks are held until then. `note` is kept with it for its owner. Returns the commit that
    /// stored it.
    ///
    /// # Errors
    /// [`Error::GidInUse`], [`Error::GidTooLong`], [`Error::TooManyPrepared`]; [`Error::CannotPrepare`] if it has made
    /// or dropped trees, or is [too large](crate::Options::escalate_bytes); [`Error::BadOption`] if the note is longer
    /// than [`NOTE_BYTES_MAX`]; and those of [`Transaction::commit`]. The transaction is rolled back then.
    pub fn prepare(mut self, gid: &str, note: &[u8]) -> Result<Csn> {
        if gid.len() > GID_BYTES_MAX {
            return Err(Error::GidTooLong { bytes: gid.len() });
        }
        if note.len() > NOTE_BYTES_MAX {
            return Err(Error::BadOption(format!("a note has at most {NOTE_BYTES_MAX} bytes")));
        }
        self.check_preparable()?;
        let handle = self.handle.clone();
        let inner = &handle.inner;
        self.release_snapshot();
        self.check_committable()?;
        let claim = Claim::new(&inner.prepared, gid)?;
        self.writes.forget_marks();
        let is_pending = |tree, key: &[u8]| inner.tree(tree).is_ok_and(|state| state.is_pending(key));
        let mut outgoing = Outgoing::new(&self.writes, &self.locks, note, &is_pending);
        let (parts, _, pages_removed) = pages_of_entry(outgoing.length(), PageSize::DEFAULT)?;
        let (csn, kept) = match &inner.store {
            Store::Shadow(store) => {
                let (part_max, reservation) = in_parts(|part_max| {
                    outgoing.pages = pages_changed_later(inner, &self.writes, part_max)? + pages_removed;
                    Ok((part_max, Reservation::new(store, outgoing.pages)?))
                })?;
                let entry = outgoing.parts()?;
                let record = inner.record(&Logged::Entry { gid, parts: &entry })?;
                let pages = in_parts(|part_max| {
                    let (_, pages_put, _) = pages_of_entry(outgoing.length(), part_max)?;
                    let mut pages = store.begin(pages_put)?;
                    pages.set_part_size_max(part_max);
                    Ok(pages)
                })?;
                // Inside the gate, as in every commit.
                inner.check_open()?;
                let (csn, _) = apply_in_order(inner, pages, record, WriteSet::default(), |pages, _| {
                    (0..).zip(&entry).try_for_each(|(part, bytes)| {
                        inner.directory.set_prepared(pages, gid, part, Some(bytes)).map(drop)
                    })
                })?;
                (csn, Some(Kept { reservation, part_max, pages_removed }))
            }
            Store::Logged(store) => {
                // It is kept as its write set. Changes left in trees would be those of a transaction that has not
                // ended.
                self.immediate.undo_all(inner, self.id())?;
                let parts = (0..).zip(outgoing.parts()?);
                let entry = parts.map(|(part, bytes)| EntryPart { gid, part, bytes: Some(bytes) }).collect();
                (end_in_log(inner, store, &WriteSet::default(), entry)?.0, None)
            }
        };
        drop(outgoing);
        let info = PreparedInfo { gid: gid.into(), txn: self.id(), note: note.into() };
        let mut locks = std::mem::replace(&mut self.locks, inner.locks.owner(info.txn));
        locks.leave_lists();
        let prepared = Prepared {
            writes: std::mem::take(&mut self.writes),
            locks,
            pending: std::mem::take(&mut self.pending),
            scanning: std::mem::take(&mut self.scanning),
            kept,
            parts,
            committed: false,
        };
        drop(self);
        // It is listed only when it is durable. If it never will be, the database has stopped; the locks stay.
        let durable = Ticket::new(handle.clone(), csn).wait();
        claim.keep(info, Box::new(prepared));
        durable
    }
}

impl Transaction {
    /// Fails if it has done something that its entry cannot hold.
    fn check_preparable(&self) -> Result<()> {
        if self.writes.trees().any(|(_, tree)| tree.created || tree.dropped) {
            return Err(Error::CannotPrepare("has made or dropped trees"));
        }
        if self.has_pages() {
            return Err(Error::CannotPrepare(
                "is so large that it has changed whole trees on pages of its own",
            ));
        }
        if self.observed.is_some() {
            return Err(Error::CannotPrepare("is one of a member of a cluster, whose commits others order"));
        }
        let (mut has_long_key, mut saw_refusal) = (false, self.holds_unnamed()?);
        let mut has_partition = false;
        self.locks.visit_held(|name, mode| {
            has_partition |= name.table == PARTITIONS;
            let Part::Key(key) = name.part else { return };
            has_long_key |= key.len() > KEY_BYTES_MAX;
            let is_written = || self.writes.get(TreeId(name.space), key).is_some();
            saw_refusal |= name.table == KEYS && op::is_shared(mode) && !is_written();
        });
        if has_partition {
            return Err(Error::CannotPrepare("uses trees that calls use serially"));
        }
        if saw_refusal {
            return Err(Error::CannotPrepare(
                "was refused an operation on a key, which is to stay so until it ends",
            ));
        }
        if has_long_key {
            return Err(Error::CannotPrepare("has read a key that is longer than keys can be"));
        }
        Ok(())
    }

    /// True if it holds something of a quantity that none of its operations claims (any more): the committed value of
    /// that could not be found later.
    fn holds_unnamed(&self) -> Result<bool> {
        for (tree, writes) in self.writes.trees() {
            for (key, write) in writes.entries() {
                let Write::Apply(calls) = write else { continue };
                for (quantity, _) in self.locks.claimed(LockName::key(KEYS, tree.0, key)) {
                    if committed(self.inner(), calls, tree, key, quantity)?.is_none() {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

/// Returns the number of parts of an entry of so many bytes, and the pages that change at most when they are put and
/// when they are removed.
pub(super) fn pages_of_entry(bytes: u64, part_max: PageSize) -> Result<(u32, PageCounts, PageCounts)> {
    let parts = bytes.div_ceil(PART_BYTES as u64);
    let count = u32::try_from(parts).map_err(|_| Error::TransactionTooLarge)?;
    let lengths = (0..parts).map(|part| (bytes - part * PART_BYTES as u64).min(PART_BYTES as u64) as usize);
    let (put, removed) = pages_of_sequence(part_max, PART_KEY_BYTES, lengths);
    Ok((count, put, removed))
}

impl Database {
    /// Returns the prepared transactions, in the order of their identifiers. One that is missing has ended durably.
    pub fn prepared(&self) -> Result<Vec<PreparedInfo>> {
        let (infos, ended) = {
            let state = self.0.inner.prepared.state.lock();
            let infos = state.slots.values().filter_map(|slot| match slot {
                Slot::Waiting(info, _) => Some(info.clone()),
                Slot::Preparing => None,
            });
            (infos.collect(), state.ended)
        };
        self.wait_durable(ended)?;
        Ok(infos)
    }

    /// Returns how many transactions may be prepared at a time
    /// ([`Options::prepared_max`](crate::Options::prepared_max)).
    pub fn prepared_max(&self) -> usize {
        self.0.inner.prepared.max
    }

    /// Takes a prepared transaction, to look at it and to end it. No other caller can have it meanwhile.
    ///
    /// # Errors
    /// [`Error::NoSuchGid`]; [`Error::GidBusy`] if another caller has it.
    pub fn claim_prepared(&self, gid: &str) -> Result<PreparedTransaction> {
        self.0.inner.check_open()?;
        let mut state = self.0.inner.prepared.state.lock();
        if let Some((gid, _)) = state.slots.get_key_value(gid) {
            let gid = gid.clone();
            match state.slots.get_mut(&gid) {
                Some(Slot::Waiting(info, prepared @ Some(_))) => {
                    let (info, prepared) = (info.clone(), prepared.take());
                    return Ok(PreparedTransaction { handle: self.0.clone(), gid, info, prepared });
                }
                Some(Slot::Waiting(_, None)) => return Err(Error::GidBusy(gid)),
                Some(Slot::Preparing) | None => {}
            }
        }
        let ended = state.ended;
        drop(state);
        self.wait_durable(ended)?;
        Err(Error::NoSuchGid(gid.into()))
    }

    /// Commits a prepared transaction, and returns when that is durable.
    ///
    /// # Errors
    /// As [`Database::claim_prepared`] and [`PreparedTransaction::commit`].
    pub fn commit_prepared(&self, gid: &str) -> Result<Csn> {
        self.claim_prepared(gid)?.commit()
    }

    /// Undoes a prepared transaction, and returns when that is durable.
    ///
    /// # Errors
    /// As [`Database::claim_prepared`] and [`PreparedTransaction::rollback`].
    pub fn rollback_prepared(&self, gid: &str) -> Result<Csn> {
        self.claim_prepared(gid)?.rollback()
    }
}

/// A prepared transaction that its caller is to end. Dropped before that, it stays prepared.
pub struct PreparedTransaction {
    handle: Arc<Handle>,
    gid: Arc<str>,
    info: PreparedInfo,
    /// None when it has ended.
    prepared: Option<Box<Prepared>>,
}

impl PreparedTransaction {
    /// Returns its description.
    pub fn info(&self) -> &PreparedInfo {
        &self.info
    }

    /// Commits it, and returns when that is durable.
    ///
    /// # Errors
    /// Those of [`Transaction::commit`]. It stays prepared after [`Error::DiskFull`], and whenever the database has to
    /// be opened again and the commit did not become durable.
    pub fn commit(self) -> Result<Csn> {
        self.end(true)?.wait()
    }

    /// Commits it and returns at once; the ticket tells when that is durable. Its locks are released already.
    ///
    /// # Errors
    /// As [`PreparedTransaction::commit`].
    pub fn commit_ticket(self) -> Result<Ticket> {
        let ticket = self.end(true)?;
        ticket.request_flush();
        Ok(ticket)
    }

    /// Undoes it, and returns when that is durable.
    ///
    /// # Errors
    /// As [`PreparedTransaction::commit`].
    pub fn rollback(self) -> Result<Csn> {
        self.end(false)?.wait()
    }

    fn end(mut self, commit: bool) -> Result<Ticket> {
        let (handle, gid) = (self.handle.clone(), self.gid.clone());
        let inner = &handle.inner;
        inner.check_open()?;
        inner.store.check()?;
        let prepared = self.prepared.as_deref_mut().expect("it has not ended");
        let parts = prepared.parts;
        let changed = prepared.writes.keys();
        let (csn, grown) = match (&inner.store, &mut prepared.kept) {
            (Store::Shadow(store), Some(kept)) => {
                let pages_removed = kept.pages_removed;
                if inner.store.failpoints().is_on(Failpoint::EntryRemovedFirst) {
                    let pages = store.begin(pages_removed)?;
                    inner.directory.remove_prepared(&pages, &gid, parts)?;
                    drop(pages);
                    store.flush()?;
                }
                let part_max = in_parts(|max| {
                    // What is reserved is for parts of that size.
                    let part_max = max.min(kept.part_max);
                    let applied = match commit {
                        true => pages_changed(inner, &prepared.writes, part_max)?,
                        false => PageCounts::default(),
                    };
                    kept.reservation.cover(&(applied + pages_removed)).map(|()| part_max)
                })?;
                let nothing = WriteSet::default();
                let writes = if commit { &prepared.writes } else { &nothing };
                let record = inner.record(&Logged::End { gid: &gid, parts, writes })?;
                let pages = kept.reservation.begin(part_max)?;
                // Inside the gate, as in every commit.
                inner.check_open()?;
                let writes = if commit { std::mem::take(&mut prepared.writes) } else { WriteSet::default() };
                apply_in_order(inner, pages, record, writes, |pages, _| {
                    if inner.store.failpoints().is_on(Failpoint::LocksBeforeApply) {
                        prepared.locks.release_all();
                    }
                    inner.directory.remove_prepared(pages, &gid, parts)
                })?
            }
            (Store::Logged(store), _) => {
                let nothing = WriteSet::default();
                let writes = if commit { &prepared.writes } else { &nothing };
                let entry = (0..parts).map(|part| EntryPart { gid: &gid, part, bytes: None }).collect();
                end_in_log(inner, store, writes, entry)?
            }
            (Store::Shadow(_), None) => unreachable!("space is kept in such a store"),
        };
        grown.settle(&mut prepared.locks);
        prepared.committed = commit;
        let mut state = inner.prepared.state.lock();
        state.slots.remove(&gid);
        state.ended = state.ended.max(csn);
        drop(state);
        // With it go its pending keys, which are in the trees by now or never will be, and its locks.
        self.prepared = None;
        inner.forget_after(changed);
        Ok(Ticket::new(handle, csn))
    }
}

impl Drop for PreparedTransaction {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            self.handle.inner.prepared.put(&self.gid, self.info.clone(), prepared);
        }
    }
}

/// Commits `writes` and the changes of an entry as a transaction of its own.
fn end_in_log(
    inner: &Arc<Inner>,
    store: &LoggedStore,
    writes: &WriteSet,
    entry: Vec<EntryPart<'_>>,
) -> Result<(Csn, Grown)> {
    if store.is_read_only() {
        return Err(Error::ReadOnly);
    }
    let (txn, mut immediate) = (inner.new_txn_id(), Immediate::default());
    immediate::commit(inner, store, txn, &mut immediate, writes, Keys::ToChange, entry)
}

/// Takes over the transactions that an earlier run left prepared. No other transaction has begun yet.
pub(super) fn restore(inner: &Arc<Inner>) -> Result<()> {
    let read_only = inner.store.is_read_only();
    let mut locks: Vec<(HeldLock, usize)> = Vec::new();
    let mut holds = Vec::new();
    let mut restored: Vec<(Arc<str>, PreparedInfo, Box<Prepared>)> = Vec::new();
    inner.directory.visit_prepared(&inner.store, |gid, parts, bytes| {
        let damaged = |what: &str| directory_damage(format!("the prepared transaction '{gid}': {what}"));
        let bind = |family: &str, name: &str| inner.operations.get(family, name).cloned();
        let entry = Entry::decode(&bytes, &bind)?.map_err(damaged)?;
        let tree_of = |tree| {
            inner.tree(tree).map_err(|error| match error {
                Error::NoSuchTree(tree) => damaged(&format!("tree {tree} does not exist")),
                error => error,
            })
        };
        let trees =
            entry.writes.trees().map(|(tree, _)| tree).chain(entry.locks.iter().map(|lock| lock.tree));
        for tree in trees.collect::<BTreeSet<_>>() {
            if tree_of(tree)?.placement != Placement::Anywhere && inner.is_serial {
                return Err(Error::BadOption(format!(
                    "the transaction '{gid}' is prepared and has locks in partitions, which serial execution does not \
                     know: open the database with locked execution, and commit or roll back what is prepared"
                )));
            }
        }
        let info = PreparedInfo { gid: gid.clone(), txn: inner.new_txn_id(), note: entry.note.into_vec() };
        let keep = |store: &Arc<ShadowStore>| {
            let reservation = match Reservation::new(store, entry.pages) {
                // A read-only database does not end it. On a full disk, its end looks for space again.
                Err(Error::ReadOnly | Error::DiskFull) => Reservation::none(store),
                reservation => reservation?,
            };
            let (_, _, pages_removed) = pages_of_entry(bytes.len() as u64, PageSize::DEFAULT)?;
            Ok::<_, Error>(Kept { reservation, part_max: PageSize::MAX, pages_removed })
        };
        let mut prepared = Prepared {
            writes: entry.writes,
            locks: inner.locks.owner(info.txn),
            pending: Vec::new(),
            scanning: Vec::new(),
            kept: inner.store.shadow().map(keep).transpose()?,
            parts,
            committed: false,
        };
        // A read-only database is not written to, and its prepared transactions cannot be ended.
        if !read_only {
            for (tree, key) in entry.pending {
                let state = tree_of(tree)?;
                state.add_pending(&key);
                prepared.pending.push((state, key));
            }
            let scanned = entry.locks.iter().filter(|lock| lock.table == GAPS).map(|lock| lock.tree);
            for tree in scanned.collect::<BTreeSet<_>>() {
                prepared.scanning.push(Scanning::new(tree_of(tree)?));
            }
            locks.extend(entry.locks.into_iter().map(|lock| (lock, restored.len())));
            holds.extend(entry.holds.into_iter().map(|hold| (hold, restored.len())));
        }
        restored.push((gid.into(), info, Box::new(prepared)));
        Ok(())
    })?;
    // Where a mode admits another and not the reverse, as S admits U, the first has the smaller number.
    locks.sort_by_key(|(lock, _)| lock.mode.index());
    for (_, _, prepared) in &mut restored {
        prepared.locks.leave_lists();
    }
    for (lock, of) in locks {
        let (gid, _, prepared) = &mut restored[of];
        if !prepared.locks.try_lock(lock.name(), lock.mode) {
            let what = format!("a lock of the prepared transaction '{gid}' is held by another one");
            return Err(directory_damage(what));
        }
    }
    for ((tree, key, quantity, hold), of) in holds {
        let (gid, _, prepared) = &mut restored[of];
        let Some(Write::Apply(calls)) = prepared.writes.get(tree, &key) else { continue };
        let value = committed(inner, calls, tree, &key, quantity)?.ok_or_else(|| {
            directory_damage(format!(
                "the prepared transaction '{gid}' holds something of a key that is gone"
            ))
        })?;
        prepared.locks.take_up(LockName::key(KEYS, tree.0, &key), quantity, value, hold);
    }
    for (gid, info, prepared) in restored {
        inner.prepared.put(&gid, info, prepared);
    }
    Ok(())
}

/// Returns the committed value of a quantity under a key that operations are applied to; none if none of them claims
/// it, or the key is absent.
fn committed(inner: &Inner, calls: &Calls, tree: TreeId, key: &[u8], quantity: u32) -> Result<Option<i128>> {
    let Some(there) = inner.tree(tree)?.tree.get(&inner.store, key)? else { return Ok(None) };
    if quantity == LENGTH {
        return Ok(Some(there.len() as i128));
    }
    for BoundCall { operation, args } in calls.iter() {
        let claims = operation.operation.claims(args, &there)?;
        if let Some(claim) = claims.iter().find(|claim| claim.quantity == quantity) {
            return Ok(Some(claim.value));
        }
    }
    Ok(None)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
