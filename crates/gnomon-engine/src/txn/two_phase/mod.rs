//! Two-phase commit: transactions that are prepared to commit, and wait for the call that ends them.
//!
//! Promises: when [`Transaction::prepare`](crate::Transaction::prepare) returns, the transaction is durable as it is,
//! with all that it read; nothing but a full disk can keep it from committing, and that only for as long as the disk is
//! full. It ends by [`PreparedTransaction::commit`] or [`PreparedTransaction::rollback`] only, in this run or in a
//! later one. Until then others meet it as a running transaction: its locks, with their ranges, and its pending keys
//! hold. A SERIALIZABLE transaction that has waited a second for one of these fails with
//! [`Error::Serialization`]: no deadlock shows that its own caller is the one that ends the prepared transaction.
//!
//! How:
//!
//! - *PREPARE* reserves the space for the end, which no other transaction gets, then stores the
//!   entry ([`entry`]) in the directory of trees, as a commit with a CSN of its own. So it is durable only with all
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

mod entry;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::collections::BTreeSet;

use super::{
    core::Core,
    prepared::{AllPrepared, Claim, Prepared, Slot},
    shared::{Handle, Shared},
    ticket::Ticket,
};
use crate::{
    Csn, Error, KEY_BYTES_MAX, Result, TreeId,
    access::{Placement, directory_damage},
    failpoint::Failpoint,
    lock::{LockName, Part},
    mvcc::{GAPS, KEYS, Keyspace, PARTITIONS, Scanning},
    op::{self, BoundCall, Calls, LENGTH},
    recovery::{EndOfEntry, GID_BYTES_MAX, NewEntry},
    sync::Arc,
    write_set::Write,
};
pub(crate) use entry::check_entry;
use entry::{Entry, HeldLock, Outgoing};

pub use super::prepared::PreparedInfo;

/// The longest note that its owner keeps with it, in bytes.
pub const NOTE_BYTES_MAX: usize = 4096;

/// Runs the first phase: see [`Transaction::prepare`](crate::Transaction::prepare).
pub(super) fn prepare(mut core: Core, gid: &str, note: &[u8]) -> Result<Csn> {
    if gid.len() > GID_BYTES_MAX {
        return Err(Error::GidTooLong { bytes: gid.len() });
    }
    if note.len() > NOTE_BYTES_MAX {
        return Err(Error::BadOption(format!("a note has at most {NOTE_BYTES_MAX} bytes")));
    }
    check_preparable(&core)?;
    let handle = core.handle.clone();
    let inner = &handle.inner;
    core.release_snapshot();
    core.check_committable()?;
    let claim = Claim::new(&inner.prepared, gid)?;
    core.writes.forget_marks();
    let is_pending = |tree, key: &[u8]| inner.tree(tree).is_ok_and(|state| state.is_pending(key));
    let mut outgoing = Outgoing::new(&core.writes, &core.locks, note, &is_pending);
    let mut parts = 0;
    let entry = NewEntry {
        txn: core.id,
        state: &mut core.state,
        gid,
        writes: &core.writes,
        bytes: outgoing.length(),
        encode: &mut |pages| {
            outgoing.pages = pages;
            let encoded = outgoing.parts()?;
            parts = u32::try_from(encoded.len()).map_err(|_| Error::TransactionTooLarge)?;
            Ok(encoded)
        },
    };
    let (csn, kept) = inner.method.prepare(&inner.keyspace, entry)?;
    let info = PreparedInfo { gid: gid.into(), txn: core.id, note: note.into() };
    let mut locks = std::mem::replace(&mut core.locks, inner.locks.owner(info.txn));
    locks.mark_in_doubt();
    let prepared = Prepared {
        writes: std::mem::take(&mut core.writes),
        locks,
        pending: std::mem::take(&mut core.pending),
        scanning: std::mem::take(&mut core.scanning),
        kept,
        parts,
        committed: false,
    };
    drop(core);
    // It is listed only when it is durable. If it never will be, the database has stopped; the locks stay.
    let durable = Ticket::new(handle.clone(), csn).wait();
    claim.keep(info, Box::new(prepared));
    durable
}

/// Fails if it has done something that its entry cannot hold.
fn check_preparable(core: &Core) -> Result<()> {
    if core.writes.trees().any(|(_, tree)| tree.created || tree.dropped) {
        return Err(Error::CannotPrepare("has made or dropped trees"));
    }
    if core.has_pages() {
        return Err(Error::CannotPrepare("is so large that it has changed whole trees on pages of its own"));
    }
    if core.observed.is_some() {
        return Err(Error::CannotPrepare("is one of a member of a cluster, whose commits others order"));
    }
    let (mut has_long_key, mut saw_refusal) = (false, holds_unnamed(core)?);
    let mut has_partition = false;
    core.locks.visit_held(|name, mode| {
        has_partition |= name.table == PARTITIONS;
        let Part::Key(key) = name.part else { return };
        has_long_key |= key.len() > KEY_BYTES_MAX;
        let is_written = || core.writes.get(TreeId(name.space), key).is_some();
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
fn holds_unnamed(core: &Core) -> Result<bool> {
    for (tree, writes) in core.writes.trees() {
        for (key, write) in writes.entries() {
            let Write::Apply(calls) = write else { continue };
            for (quantity, _) in core.locks.claimed(LockName::key(KEYS, tree.0, key)) {
                if committed(core.inner(), calls, tree, key, quantity)?.is_none() {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Returns the prepared transactions, in the order of their identifiers, and the newest commit that ended one.
pub(crate) fn list(all: &AllPrepared) -> (Vec<PreparedInfo>, Csn) {
    let state = all.state.lock();
    let infos = state.slots.values().filter_map(|slot| match slot {
        Slot::Waiting(info, _) => Some(info.clone()),
        Slot::Preparing => None,
    });
    (infos.collect(), state.ended)
}

/// Takes a prepared transaction, to look at it and to end it. No other caller can have it meanwhile.
pub(crate) fn claim(handle: &Arc<Handle>, gid: &str) -> Result<PreparedTransaction> {
    let inner = &handle.inner;
    inner.check_open()?;
    let mut state = inner.prepared.state.lock();
    if let Some((gid, _)) = state.slots.get_key_value(gid) {
        let gid = gid.clone();
        match state.slots.get_mut(&gid) {
            Some(Slot::Waiting(info, prepared @ Some(_))) => {
                let (info, prepared) = (info.clone(), prepared.take());
                return Ok(PreparedTransaction { handle: handle.clone(), gid, info, prepared });
            }
            Some(Slot::Waiting(_, None)) => return Err(Error::GidBusy(gid)),
            Some(Slot::Preparing) | None => {}
        }
    }
    let ended = state.ended;
    drop(state);
    // What is told is durable: that it is gone, too.
    inner.wait_durable(ended.min(inner.store.last_csn()))?;
    handle.host.maintain();
    Err(Error::NoSuchGid(gid.into()))
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
    /// Those of [`Transaction::commit`](crate::Transaction::commit). It stays prepared after [`Error::DiskFull`], and
    /// whenever the database has to be opened again and the commit did not become durable.
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
        let changed = prepared.writes.keys();
        let end = EndOfEntry {
            gid: &gid,
            parts: prepared.parts,
            writes: commit.then_some(&mut prepared.writes),
            kept: &mut prepared.kept,
        };
        if inner.store.failpoints().is_on(Failpoint::LocksBeforeApply) {
            prepared.locks.release_all();
        }
        let (csn, grown) = inner.method.end_prepared(&inner.keyspace, end)?;
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

/// Takes over the transactions that an earlier run left prepared. No other transaction has begun yet.
pub(crate) fn restore(inner: &Arc<Shared>) -> Result<()> {
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
        let mut prepared = Prepared {
            writes: entry.writes,
            locks: inner.locks.owner(info.txn),
            pending: Vec::new(),
            scanning: Vec::new(),
            kept: inner.method.keep_space(entry.pages, bytes.len() as u64)?,
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
        prepared.locks.mark_in_doubt();
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
fn committed(
    keyspace: &Keyspace,
    calls: &Calls,
    tree: TreeId,
    key: &[u8],
    quantity: u32,
) -> Result<Option<i128>> {
    let Some(there) = keyspace.tree(tree)?.tree.get(&keyspace.store, key)? else { return Ok(None) };
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
