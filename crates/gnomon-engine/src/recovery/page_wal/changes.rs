//! The changes of a transaction in trees before its commit: subtransactions, and how they are taken back.

use std::collections::{BTreeMap, BTreeSet};

use super::undo::{self, Step, change};
use crate::{
    Csn, Error, Result, TreeId, TxnId,
    failpoint::Failpoint,
    id::SubtxnId,
    lock::LockOwner,
    mvcc::{ChangedKey, Keyspace, TreeRef, Unapplied},
    op::Calls,
    store::page_wal::{LoggedStore, Loser, TreeAccess, Undo},
    sync::Arc,
    write_set::{Write, WriteSet},
};

/// Number of keys that are changed by one subtransaction: it has the leaves of all of them locked.
pub(super) const CHANGED_TOGETHER: usize = 256;
/// Bytes of such keys and their values, about.
const CHANGED_TOGETHER_BYTES: usize = 256 << 10;

/// The changes of a transaction in trees.
#[derive(Default)]
pub(super) struct Immediate {
    pub(super) page_locks: Option<LockOwner>,
    /// Keys that the operation under way has changed, whose trees do not have that yet.
    pub(super) waiting: BTreeMap<(TreeId, Box<[u8]>), TreeRef>,
    /// Bytes of these keys and of the values that were put under them.
    waiting_bytes: usize,
    /// The subtransactions that have ended, in their order.
    pub(super) done: Vec<Done>,
    /// Bytes of the steps that take them back.
    undo_bytes: usize,
    pub(super) changed: Changed,
    /// True if the store knows of the transaction.
    pub(super) has_run: bool,
}

/// A subtransaction, and the steps that take it back.
pub(super) struct Done {
    subtxn: SubtxnId,
    undo: Vec<Step>,
}

/// The keys that have a pending version.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) keys: Vec<Pending>,
    /// Bytes of the versions.
    bytes: usize,
}

/// A key that has a pending version.
pub(super) struct Pending {
    tree: TreeId,
    state: TreeRef,
    key: Box<[u8]>,
    /// Bytes of the version.
    bytes: usize,
}

impl Immediate {
    /// Returns the owner of the page locks of a subtransaction. It is not that of the transaction's locks: no thread
    /// waits for a lock of level 1 while it holds pages, so no deadlock is about both.
    pub fn locks<'l>(
        page_locks: &'l mut Option<LockOwner>,
        keyspace: &Keyspace,
        store: &LoggedStore,
    ) -> &'l mut LockOwner {
        page_locks.get_or_insert_with(|| keyspace.locks.owner(store.new_id()))
    }

    /// Returns the number of subtransactions.
    pub fn mark(&self) -> usize {
        self.done.len()
    }

    /// Returns the bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        const WAITING_BYTES: usize = 64;
        self.undo_bytes + self.changed.bytes + self.waiting.len() * WAITING_BYTES
    }

    /// Runs `body` as a subtransaction with an undo record of the steps that it returns.
    pub fn run(
        &mut self,
        keyspace: &Keyspace,
        logged: &LoggedStore,
        txn: TxnId,
        mut body: impl FnMut(&TreeAccess<'_>, &mut Changed) -> Result<Vec<Step>>,
    ) -> Result<()> {
        let locks = Immediate::locks(&mut self.page_locks, keyspace, logged);
        let changed = &mut self.changed;
        let (subtxn, undo) = logged.change_trees(txn, locks, |pages| body(pages, changed))?;
        let id = subtxn.id();
        self.has_run = true;
        let ended = match undo.is_empty() {
            true => logged.end_trees(subtxn, Undo::Nothing),
            false => logged.end_trees(subtxn, Undo::Operation(&undo::encode(&undo))),
        };
        locks.release_all();
        ended?;
        if !undo.is_empty() {
            self.undo_bytes += undo.iter().map(Step::bytes).sum::<usize>();
            self.done.push(Done { subtxn: id, undo });
        }
        Ok(())
    }

    /// Takes subtransactions back, the newest first, until so many are left. A failure stops the database, which undoes
    /// the rest when it is opened again.
    pub fn undo_to(
        &mut self,
        keyspace: &Keyspace,
        logged: &LoggedStore,
        txn: TxnId,
        count: usize,
    ) -> Result<()> {
        while self.done.len() > count {
            let locks = Immediate::locks(&mut self.page_locks, keyspace, logged);
            // Together, as far as they were made: that takes less of the log.
            let mut steps = 0;
            let few = self.done[count..].iter().rev().take_while(|done| {
                steps += done.undo.len();
                steps <= CHANGED_TOGETHER
            });
            let from = self.done.len() - few.count().max(1);
            compensate(keyspace, logged, txn, locks, &self.done[from..])
                .map_err(|error| undo_failed(keyspace, error))?;
            let undone = self.done.drain(from..).flat_map(|done| done.undo);
            self.undo_bytes -= undone.map(|step| step.bytes()).sum::<usize>();
        }
        Ok(())
    }

    /// Takes everything back that a transaction has done, as [`Immediate::undo_to`] does. Returns the CSN of that, if
    /// it had changed anything.
    pub fn undo_all(&mut self, keyspace: &Keyspace, logged: &LoggedStore, txn: TxnId) -> Result<Option<Csn>> {
        self.waiting.clear();
        if !self.changed.keys.is_empty() {
            self.undo_to(keyspace, logged, txn, 0)?;
            self.has_run = false;
            let settled = self.changed.settle(keyspace, || logged.commit(txn), true);
            return settled.map(Some).map_err(|error| undo_failed(keyspace, error));
        }
        if std::mem::take(&mut self.has_run) {
            self.undo_to(keyspace, logged, txn, 0)?;
            logged.end_undone(txn);
        }
        Ok(None)
    }

    /// Notes a key to be changed in its tree soon. The transaction has locked it, and its write set puts or deletes it.
    /// True if that is to be done now.
    pub fn note(&mut self, tree: TreeId, state: &TreeRef, key: &[u8], value: Option<&[u8]>) -> bool {
        self.waiting.insert((tree, key.into()), state.clone());
        self.waiting_bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.waiting.len() >= CHANGED_TOGETHER || self.waiting_bytes >= CHANGED_TOGETHER_BYTES
    }

    /// Changes the keys in their trees that wait for that. After an error they still wait.
    pub fn change_now(
        &mut self,
        keyspace: &Keyspace,
        logged: &LoggedStore,
        txn: TxnId,
        writes: &WriteSet,
    ) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        let changed = self.run(keyspace, logged, txn, |pages, changed| {
            let keys = changes(&waiting, writes);
            keys.map(|(tree, state, key, value)| put_key(pages, changed, tree, state, key, value)).collect()
        });
        match changed {
            Ok(()) => self.waiting_bytes = 0,
            Err(_) => self.waiting = waiting,
        }
        changed
    }

    /// Goes back to when there were so many subtransactions, and takes the write set back to a mark. The locks on the
    /// keys are still held. Returns the CSN of that, if it took one.
    pub fn go_back(
        &mut self,
        keyspace: &Keyspace,
        logged: &LoggedStore,
        txn: TxnId,
        mark: usize,
        (writes, writes_mark): (&mut WriteSet, usize),
    ) -> Result<Option<Csn>> {
        let keys_of = |done: &[Done]| -> BTreeSet<(TreeId, Box<[u8]>)> {
            done.iter().flat_map(|done| &done.undo).map(|step| (step.tree, step.key.clone())).collect()
        };
        let mut touched = keys_of(self.done.get(mark..).unwrap_or_default());
        // Those that could not be changed have a version, perhaps.
        touched.extend(std::mem::take(&mut self.waiting).into_keys());
        self.waiting_bytes = 0;
        self.undo_to(keyspace, logged, txn, mark)?;
        writes.go_back(writes_mark);
        // What the write set still says of such a key was not in its tree before, perhaps.
        for (tree, key) in &touched {
            let value_len = match writes.get(*tree, key) {
                Some(Write::Put(value)) => value.len(),
                Some(Write::Delete) => 0,
                Some(Write::Apply(_)) | None => continue,
            };
            self.waiting.insert((*tree, key.clone()), keyspace.tree(*tree)?);
            self.waiting_bytes += key.len() + value_len;
        }
        if touched.is_empty() {
            return Ok(None);
        }
        let Immediate { done, waiting, changed, .. } = self;
        let left = keys_of(done);
        let mut undone = changed.take(|tree, key| {
            let key = (tree, Box::from(key));
            touched.contains(&key) && !left.contains(&key) && !waiting.contains_key(&key)
        });
        if undone.keys.is_empty() {
            return Ok(None);
        }
        undone.settle(keyspace, || logged.order_undone(txn), true).map(Some)
    }
}

impl Changed {
    /// Publishes what a key holds before its transaction changes it, unless that was done.
    pub fn publish(
        &mut self,
        tree: TreeId,
        state: &TreeRef,
        key: &[u8],
        before: Option<&[u8]>,
        calls: Option<&Arc<Calls>>,
    ) {
        if let Some(bytes) = state.versions.publish_pending(key, before, calls) {
            self.bytes += bytes;
            self.keys.push(Pending { tree, state: state.clone(), key: key.into(), bytes });
        }
    }

    /// Takes out the keys of which `which` returns true.
    fn take(&mut self, which: impl Fn(TreeId, &[u8]) -> bool) -> Changed {
        let keys: Vec<Pending> =
            self.keys.extract_if(.., |pending| which(pending.tree, &pending.key)).collect();
        let bytes = keys.iter().map(|pending| pending.bytes).sum();
        self.bytes -= bytes;
        Changed { keys, bytes }
    }

    /// Gives the versions the CSN that `take` takes; `undone` if the changes were taken back. If there is none, they
    /// stay pending.
    pub fn settle(
        &mut self,
        keyspace: &Keyspace,
        take: impl FnOnce() -> Result<Csn>,
        undone: bool,
    ) -> Result<Csn> {
        let unapplied = Unapplied(&keyspace.timeline);
        let csn = take()?;
        for pending in &self.keys {
            pending.state.versions.stamp(&pending.key, csn, undone);
        }
        let keys: Vec<ChangedKey> =
            self.keys.drain(..).map(|pending| (pending.state, (&*pending.key).into())).collect();
        keyspace.timeline.applied(csn, keys, std::mem::take(&mut self.bytes));
        std::mem::forget(unapplied);
        Ok(csn)
    }
}

/// Stops the database after a failed undo, unless it is closed: the rest is undone when it is opened again, not
/// before.
fn undo_failed(keyspace: &Keyspace, error: Error) -> Error {
    match error {
        Error::Closed => error,
        error => keyspace.store.poison(&error),
    }
}

/// Takes subtransactions back, which followed each other, by one compensation. The transaction that made them holds
/// the locks on their keys, or no other transaction is there.
fn compensate(
    keyspace: &Keyspace,
    logged: &LoggedStore,
    txn: TxnId,
    page_locks: &mut LockOwner,
    done: &[Done],
) -> Result<()> {
    let (subtxn, ()) = logged.change_trees_back(txn, page_locks, |pages| {
        let steps = done.iter().rev().flat_map(|done| done.undo.iter().rev());
        steps.into_iter().try_for_each(|step| step.apply(keyspace, pages))
    })?;
    let undoes: Vec<SubtxnId> = done.iter().map(|done| done.subtxn).collect();
    let unrecorded = logged.failpoints.is_on(Failpoint::CompensationUnrecorded);
    let ended = logged.end_trees(subtxn, if unrecorded { Undo::Nothing } else { Undo::Compensates(&undoes) });
    page_locks.release_all();
    ended
}

/// Runs the undo pass of a crash recovery. No other transaction is there.
pub(super) fn undo_losers(keyspace: &Keyspace, logged: &LoggedStore, losers: &[Loser]) -> Result<()> {
    for loser in losers {
        let mut page_locks = keyspace.locks.owner(loser.txn);
        for (index, (subtxn, _)) in loser.undo.iter().enumerate() {
            let undo = undo::decode(&logged.undo_record(loser, index)?)?;
            compensate(keyspace, logged, loser.txn, &mut page_locks, &[Done { subtxn: *subtxn, undo }])?;
        }
        logged.end_undone(loser.txn);
    }
    Ok(())
}

/// Returns those of the keys that a write set puts or deletes, with their values.
pub(super) fn changes<'a>(
    keys: &'a BTreeMap<(TreeId, Box<[u8]>), TreeRef>,
    writes: &'a WriteSet,
) -> impl Iterator<Item = (TreeId, &'a TreeRef, &'a [u8], Option<&'a [u8]>)> {
    keys.iter().filter_map(|((tree, key), state)| match writes.get(*tree, key)? {
        Write::Put(value) => Some((*tree, state, &**key, Some(&**value))),
        Write::Delete => Some((*tree, state, &**key, None)),
        Write::Apply(_) => None,
    })
}

/// Puts a key or deletes it. Returns the step that takes that back.
pub(super) fn put_key(
    pages: &TreeAccess<'_>,
    changed: &mut Changed,
    tree: TreeId,
    state: &TreeRef,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<Step> {
    let entry = state.tree.entry(pages, key, None)?;
    let before = entry.value()?;
    changed.publish(tree, state, key, before.as_deref(), None);
    let undo = Step::new(tree, key, before.as_deref());
    entry.change(change(value))?;
    Ok(undo)
}
