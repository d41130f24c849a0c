//! Immediate updates: how transactions change trees in a database that recovers by a log of pages (Hasse and Weikum: A
//! Performance Evaluation of Multi-Level Transaction Management, 1991, section 2).
//!
//! With two levels, keys are changed in their trees when an operation ends, by a subtransaction of the store. An
//! operation is a statement, or a part of it if that is long ([`CHANGED_TOGETHER`]); a transaction without statements
//! is one operation. The delay cannot be seen within it, since a transaction sees its write set. Until the
//! transaction ends, the lock on the key keeps others from changing it, and its version
//! ([`versions`](super::versions)) shows readers what is committed. A compensation takes a subtransaction back by
//! doing the reverse, whatever others have made of the same pages since: when the transaction is undone, when it goes
//! back to a savepoint, and for all that were running when the database stopped.
//!
//! What waits for the commit:
//!
//! - Operations on keys that are shared with others ([`apply`](super::apply)). Their order is that of commits, so a
//!   commit that applies some holds the mutexes of their keys from then until it has its CSN: no other comes between,
//!   and the value of the key before takes them back.
//! - Trees that are made or dropped. One that is made stands in the directory as dropped until it is whole, so a crash
//!   leaves nothing to be undone but its pages, which are given back as those of any dropped tree.
//! - With one level, everything. The transaction is one subtransaction, which runs when it commits: its page locks are
//!   held from then to its end, and what fails is taken back by images. The locks on keys before that are those that
//!   SQL's isolation needs anyway.
//!
//! A transaction that is undone takes a CSN, too: its changes were in the trees for a moment. That of the last
//! compensation is when they are gone for all readers.

use super::{
    commit::{Grown, Unapplied},
    database::{APPLIERS, Inner},
    key::Key,
    transaction::{Transaction, TreeOptions, Used},
    tree::{Directory, DirectoryEntry, Listed, TreeRef, TreeState},
    undo::{self, DIRECTORY, Step, change},
    versions::ChangedKey,
    writes::{Calls, Write, WriteSet, absent},
};
use crate::{
    Csn, Error, Result, TreeId, TxnId,
    access::{Change, Tree},
    failpoint::Failpoint,
    id::SubtxnId,
    lock::LockOwner,
    store::logged::{LoggedStore, Loser, Strategy, TreeAccess, TreeSubtxn, Undo},
    sync::{Arc, MutexGuard},
};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of entries of a new tree that one subtransaction puts there, about.
const FILLED_AT_ONCE_BYTES: usize = 1 << 20;

/// Number of keys that are changed by one subtransaction: it has the leaves of all of them locked.
const CHANGED_TOGETHER: usize = 256;
/// Bytes of such keys and their values, about.
const CHANGED_TOGETHER_BYTES: usize = 256 << 10;

/// The changes of a transaction in trees.
#[derive(Default)]
pub(super) struct Immediate {
    page_locks: Option<LockOwner>,
    /// Keys that the operation under way has changed, whose trees do not have that yet.
    waiting: BTreeMap<(TreeId, Box<[u8]>), TreeRef>,
    /// Bytes of these keys and of the values that were put under them.
    waiting_bytes: usize,
    /// The subtransactions that have ended, in their order.
    done: Vec<Done>,
    /// Bytes of the steps that take them back.
    undo_bytes: usize,
    changed: Changed,
    /// True if the store knows of the transaction.
    has_run: bool,
}

/// A subtransaction, and the steps that take it back.
struct Done {
    subtxn: SubtxnId,
    undo: Vec<Step>,
}

/// The keys that have a pending version.
#[derive(Default)]
struct Changed {
    keys: Vec<Pending>,
    /// Bytes of the versions.
    bytes: usize,
}

/// A key that has a pending version.
struct Pending {
    tree: TreeId,
    state: TreeRef,
    key: Box<[u8]>,
    /// Bytes of the version.
    bytes: usize,
}

/// A part of a commit.
enum Piece<'a> {
    /// Puts a key or deletes it.
    Key(TreeId, TreeRef, &'a [u8], Option<&'a [u8]>),
    /// Applies operations to a key.
    Calls(TreeId, TreeRef, &'a [u8], Arc<Calls>),
    /// Makes a tree that no transaction finds yet.
    Create(TreeId, TreeOptions),
    /// Puts entries into such a tree.
    Fill(TreeId, Vec<(&'a [u8], &'a [u8])>),
    /// Makes such a tree live in the directory, where transactions find it.
    Publish(TreeId),
    Drop(TreeId),
    /// Stores a part of the entry of a prepared transaction, or removes it.
    Entry(EntryPart<'a>),
}

/// A part of the entry of a prepared transaction.
pub(super) struct EntryPart<'a> {
    pub gid: &'a str,
    pub part: u32,
    /// The bytes of the part; none removes it.
    pub bytes: Option<Vec<u8>>,
}

/// A commit under way.
struct Commit<'a> {
    inner: &'a Arc<Inner>,
    logged: &'a LoggedStore,
    txn: TxnId,
    /// The trees that it has made.
    made: BTreeMap<TreeId, Listed>,
    grown: Vec<(TreeId, Key, i128)>,
}

impl Immediate {
    fn locks<'l>(page_locks: &'l mut Option<LockOwner>, inner: &Inner) -> &'l mut LockOwner {
        // Not those of the transaction: no thread waits for a lock of level 1 while it holds pages, so no deadlock is
        // about both.
        page_locks.get_or_insert_with(|| inner.locks.owner(inner.new_txn_id()))
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
    fn run(
        &mut self,
        inner: &Inner,
        logged: &LoggedStore,
        txn: TxnId,
        mut body: impl FnMut(&TreeAccess<'_>, &mut Changed) -> Result<Vec<Step>>,
    ) -> Result<()> {
        let locks = Immediate::locks(&mut self.page_locks, inner);
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
    fn undo_to(&mut self, inner: &Inner, logged: &LoggedStore, txn: TxnId, count: usize) -> Result<()> {
        while self.done.len() > count {
            let locks = Immediate::locks(&mut self.page_locks, inner);
            // Together, as far as they were made: that takes less of the log.
            let mut steps = 0;
            let few = self.done[count..].iter().rev().take_while(|done| {
                steps += done.undo.len();
                steps <= CHANGED_TOGETHER
            });
            let from = self.done.len() - few.count().max(1);
            compensate(inner, logged, txn, locks, &self.done[from..])
                .map_err(|error| undo_failed(inner, error))?;
            let undone = self.done.drain(from..).flat_map(|done| done.undo);
            self.undo_bytes -= undone.map(|step| step.bytes()).sum::<usize>();
        }
        Ok(())
    }

    /// Takes everything back that a transaction has done, as [`Immediate::undo_to`] does. Returns the CSN of that, if
    /// it had changed anything.
    pub fn undo_all(&mut self, inner: &Inner, txn: TxnId) -> Result<Option<Csn>> {
        let Some(logged) = inner.store.logged() else { return Ok(None) };
        self.waiting.clear();
        if !self.changed.keys.is_empty() {
            self.undo_to(inner, logged, txn, 0)?;
            self.has_run = false;
            let settled = self.changed.settle(inner, || logged.commit(txn), true);
            return settled.map(Some).map_err(|error| undo_failed(inner, error));
        }
        if std::mem::take(&mut self.has_run) {
            self.undo_to(inner, logged, txn, 0)?;
            logged.end_undone(txn);
        }
        Ok(None)
    }
}

impl Changed {
    /// Publishes what a key holds before its transaction changes it, unless that was done.
    fn publish(
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
    fn settle(&mut self, inner: &Inner, take: impl FnOnce() -> Result<Csn>, undone: bool) -> Result<Csn> {
        let unapplied = Unapplied(inner);
        let csn = take()?;
        for pending in &self.keys {
            pending.state.versions.stamp(&pending.key, csn, undone);
        }
        let keys: Vec<ChangedKey> =
            self.keys.drain(..).map(|pending| (pending.state, (&*pending.key).into())).collect();
        inner.timeline.applied(csn, keys, std::mem::take(&mut self.bytes));
        std::mem::forget(unapplied);
        Ok(csn)
    }
}

/// Stops the database after a failed undo, unless it is closed: the rest is undone when it is opened again, not
/// before.
fn undo_failed(inner: &Inner, error: Error) -> Error {
    match error {
        Error::Closed => error,
        error => inner.store.poison(&error),
    }
}

/// Takes subtransactions back, which followed each other, by one compensation. The transaction that made them holds
/// the locks on their keys, or no other transaction is there.
fn compensate(
    inner: &Inner,
    logged: &LoggedStore,
    txn: TxnId,
    page_locks: &mut LockOwner,
    done: &[Done],
) -> Result<()> {
    let (subtxn, ()) = logged.change_trees_back(txn, page_locks, |pages| {
        let steps = done.iter().rev().flat_map(|done| done.undo.iter().rev());
        steps.into_iter().try_for_each(|step| step.apply(inner, pages))
    })?;
    let undoes: Vec<SubtxnId> = done.iter().map(|done| done.subtxn).collect();
    let unrecorded = logged.failpoints.is_on(Failpoint::CompensationUnrecorded);
    let ended = logged.end_trees(subtxn, if unrecorded { Undo::Nothing } else { Undo::Compensates(&undoes) });
    page_locks.release_all();
    ended
}

/// Runs the undo pass of a crash recovery. No other transaction is there.
pub(super) fn undo_losers(inner: &Inner, losers: &[Loser]) -> Result<()> {
    let Some(logged) = inner.store.logged() else { return Ok(()) };
    for loser in losers {
        let mut page_locks = inner.locks.owner(loser.txn);
        for (index, (subtxn, _)) in loser.undo.iter().enumerate() {
            let undo = undo::decode(&logged.undo_record(loser, index)?)?;
            compensate(inner, logged, loser.txn, &mut page_locks, &[Done { subtxn: *subtxn, undo }])?;
        }
        logged.end_undone(loser.txn);
    }
    Ok(())
}

/// Makes the directory of trees of a new store.
pub(super) fn create_directory(logged: &LoggedStore, page_locks: &mut LockOwner) -> Result<Directory> {
    let txn = page_locks.txn();
    let (subtxn, directory) = logged.change_trees(txn, page_locks, |pages| Directory::create(pages))?;
    logged.commit_trees(subtxn)?;
    page_locks.release_all();
    Ok(directory)
}

/// Gives back some pages of a dropped tree; true if there may be more to do.
pub(super) fn reclaim(inner: &Arc<Inner>, logged: &LoggedStore, pages_max: usize) -> Result<bool> {
    let is_running = |tree| matches!(inner.unfinished.lock().get(&tree), Some(None));
    let Some((id, tree)) = inner.directory.dropped(&inner.store, is_running)? else { return Ok(false) };
    // What is given back must not be in the log before the commit that drops the tree.
    let dropped_by = inner.unfinished.lock().get(&id).copied().flatten();
    if let Some(csn) = dropped_by {
        inner.store.wait_durable(csn)?;
    }
    let mut page_locks = inner.locks.owner(inner.new_txn_id());
    let txn = page_locks.txn();
    let (subtxn, all) = logged.change_trees(txn, &mut page_locks, |pages| {
        let all = tree.reclaim(pages, pages_max)?;
        if all {
            inner.directory.remove(pages, id)?;
        }
        Ok(all)
    })?;
    Changed::default().settle(inner, || logged.commit_trees(subtxn), false)?;
    if all {
        inner.unfinished.lock().remove(&id);
    }
    Ok(true)
}

impl Inner {
    /// Returns the store if transactions change keys at once, with two levels.
    fn changes_at_once(&self) -> Option<&LoggedStore> {
        self.store
            .logged()
            .map(|logged| &**logged)
            .filter(|logged| logged.strategy() != Strategy::SingleLevel)
    }
}

impl Transaction {
    /// Notes a key to be changed in its tree soon. The transaction has locked it, and its write set puts or deletes
    /// it.
    pub(super) fn change_soon(&mut self, used: &Used, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let (Some(state), true) = (&used.state, self.inner().changes_at_once().is_some()) else {
            return Ok(());
        };
        // A key that is no longer in the tree exists until the deletion is committed.
        if value.is_none() && !state.is_pending(key) {
            state.hide(key);
            self.pending.push((state.clone(), key.into()));
        }
        self.immediate.waiting.insert((used.id, key.into()), state.clone());
        self.immediate.waiting_bytes += key.len() + value.map_or(0, <[u8]>::len);
        let is_long = self.immediate.waiting.len() >= CHANGED_TOGETHER
            || self.immediate.waiting_bytes >= CHANGED_TOGETHER_BYTES;
        if is_long { self.change_now() } else { Ok(()) }
    }

    /// Changes the keys in their trees that wait for that. After an error they still wait.
    pub(super) fn change_now(&mut self) -> Result<()> {
        if self.immediate.waiting.is_empty() {
            return Ok(());
        }
        let (inner, id) = (self.inner().clone(), self.id());
        let Some(logged) = inner.changes_at_once() else { return Ok(()) };
        let waiting = std::mem::take(&mut self.immediate.waiting);
        let writes = &self.writes;
        let changed = self.immediate.run(&inner, logged, id, |pages, changed| {
            let keys = changes(&waiting, writes);
            keys.map(|(tree, state, key, value)| put_key(pages, changed, tree, state, key, value)).collect()
        });
        match changed {
            Ok(()) => self.immediate.waiting_bytes = 0,
            Err(_) => self.immediate.waiting = waiting,
        }
        changed
    }

    /// Goes back to when there were so many subtransactions. `go_back` takes the write set back to then. The locks on
    /// the keys are still held.
    pub(super) fn go_back_to(&mut self, mark: usize, go_back: impl FnOnce(&mut WriteSet)) -> Result<()> {
        let inner = self.inner().clone();
        let Some(logged) = inner.changes_at_once() else {
            go_back(&mut self.writes);
            return Ok(());
        };
        let keys_of = |done: &[Done]| -> BTreeSet<(TreeId, Box<[u8]>)> {
            done.iter().flat_map(|done| &done.undo).map(|step| (step.tree, step.key.clone())).collect()
        };
        let mut touched = keys_of(self.immediate.done.get(mark..).unwrap_or_default());
        // Those that could not be changed have a version, perhaps.
        touched.extend(std::mem::take(&mut self.immediate.waiting).into_keys());
        self.immediate.waiting_bytes = 0;
        let id = self.id();
        self.immediate.undo_to(&inner, logged, id, mark)?;
        go_back(&mut self.writes);
        // What the write set still says of such a key was not in its tree before, perhaps.
        for (tree, key) in &touched {
            let value_len = match self.writes.get(*tree, key) {
                Some(Write::Put(value)) => value.len(),
                Some(Write::Delete) => 0,
                Some(Write::Apply(_)) | None => continue,
            };
            self.immediate.waiting.insert((*tree, key.clone()), inner.tree(*tree)?);
            self.immediate.waiting_bytes += key.len() + value_len;
        }
        if touched.is_empty() {
            return Ok(());
        }
        let Immediate { done, waiting, changed, .. } = &mut self.immediate;
        let left = keys_of(done);
        let mut undone = changed.take(|tree, key| {
            let key = (tree, Box::from(key));
            touched.contains(&key) && !left.contains(&key) && !waiting.contains_key(&key)
        });
        if undone.keys.is_empty() {
            return Ok(());
        }
        let csn = undone.settle(&inner, || logged.order_undone(id), true)?;
        self.have_pruned(csn);
        Ok(())
    }

    /// Prunes the versions that were needed until a CSN that no thread waits for, in the background, if versions take
    /// much memory.
    pub(super) fn have_pruned(&self, csn: Csn) {
        const MUCH_BYTES: usize = 1 << 20;
        if self.inner().timeline.version_bytes() > MUCH_BYTES {
            self.handle.background.make_durable(csn);
        }
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn has_changed_at_once(&self) -> bool {
        !self.immediate.changed.keys.is_empty()
    }
}

/// Returns those of the keys that a write set puts or deletes, with their values.
fn changes<'a>(
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
fn put_key(
    pages: &TreeAccess<'_>,
    changed: &mut Changed,
    tree: TreeId,
    state: &TreeRef,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<Step> {
    let mut undo = Step::new(tree, key, None);
    state.tree.update(pages, key, &mut |before| {
        changed.publish(tree, state, key, before, None);
        undo.value = before.map(Into::into);
        change(value)
    })?;
    Ok(undo)
}

/// The state of the keys that a write set puts and deletes: changed in their trees already, or to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Changed,
    ToChange,
}

/// Commits a transaction: changes what is not changed yet, and takes its CSN. An error leaves the transaction as if it
/// had done nothing.
pub(super) fn commit(
    inner: &Arc<Inner>,
    logged: &LoggedStore,
    txn: TxnId,
    immediate: &mut Immediate,
    writes: &WriteSet,
    keys: Keys,
    entry: Vec<EntryPart<'_>>,
) -> Result<(Csn, Grown)> {
    let waiting = std::mem::take(&mut immediate.waiting);
    let mut pieces = pieces(inner, writes, keys, entry)?;
    let late = changes(&waiting, writes);
    pieces.extend(late.map(|(tree, state, key, value)| Piece::Key(tree, state.clone(), key, value)));
    // Keys that go exist for others until the transaction has its CSN.
    let mut hidden = Vec::new();
    for piece in &pieces {
        if let Piece::Key(_, state, key, None) = piece
            && !state.is_pending(key)
        {
            state.hide(key);
            hidden.push((state.clone(), *key));
        }
    }
    // From here until they have their CSN: see above.
    let _appliers = lock_appliers(inner, &pieces);
    let mut commit = Commit { inner, logged, txn, made: BTreeMap::new(), grown: Vec::new() };
    commit.note_unfinished(writes, |unfinished, tree| {
        unfinished.insert(tree, None);
    });
    let committed = commit.run(immediate, &pieces).and_then(|whole| {
        let take = || match whole {
            Some(whole) => logged.commit_trees(whole),
            None => logged.commit(txn),
        };
        // With their keys locked, and those of a new tree unknown.
        let csn = immediate.changed.settle(inner, take, false)?;
        (immediate.done, immediate.has_run) = (Vec::new(), false);
        Ok(csn)
    });
    match &committed {
        Ok(csn) => {
            for (id, listed) in &commit.made {
                inner.add_tree(*id, TreeState::new(*listed, *csn));
            }
            commit.note_unfinished(writes, |unfinished, tree| match commit.made.contains_key(&tree) {
                true => drop(unfinished.remove(&tree)),
                false => drop(unfinished.insert(tree, Some(*csn))),
            });
            for (id, _) in writes.trees().filter(|(_, tree)| tree.dropped) {
                inner.forget_tree(id);
            }
        }
        Err(_) => {
            immediate.undo_all(inner, txn)?;
            // What is left of trees that were to be made goes as dropped ones do.
            commit.note_unfinished(writes, |unfinished, tree| {
                unfinished.remove(&tree);
            });
        }
    }
    hidden.into_iter().for_each(|(state, key)| state.remove_pending(key));
    if let Some(locks) = &mut immediate.page_locks {
        locks.release_all();
    }
    committed.map(|csn| (csn, Grown(commit.grown)))
}

/// Splits a commit into pieces.
fn pieces<'a>(
    inner: &Inner,
    writes: &'a WriteSet,
    keys: Keys,
    entry: Vec<EntryPart<'a>>,
) -> Result<Vec<Piece<'a>>> {
    let all = keys == Keys::ToChange || inner.changes_at_once().is_none();
    let mut pieces = Vec::new();
    for (id, tree) in writes.trees() {
        match (tree.created, tree.dropped) {
            (true, true) => {}
            (true, false) => {
                pieces.push(Piece::Create(id, tree.options));
                let (mut filled, mut bytes) = (Vec::new(), 0);
                for (key, write) in tree.entries() {
                    // Operations on what is not stored yet were applied when they were called.
                    let Write::Put(value) = write else { continue };
                    filled.push((key, &**value));
                    bytes += key.len() + value.len();
                    if bytes >= FILLED_AT_ONCE_BYTES {
                        pieces.push(Piece::Fill(id, std::mem::take(&mut filled)));
                        bytes = 0;
                    }
                }
                pieces.push(Piece::Fill(id, filled));
                pieces.push(Piece::Publish(id));
            }
            (false, true) => pieces.push(Piece::Drop(id)),
            (false, false) => {
                let state = inner.tree(id)?;
                for (key, write) in tree.entries() {
                    match write {
                        Write::Put(value) if all => {
                            pieces.push(Piece::Key(id, state.clone(), key, Some(value)));
                        }
                        Write::Delete if all => pieces.push(Piece::Key(id, state.clone(), key, None)),
                        Write::Put(_) | Write::Delete => {}
                        Write::Apply(calls) => {
                            pieces.push(Piece::Calls(id, state.clone(), key, Arc::new(calls.clone())));
                        }
                    }
                }
            }
        }
    }
    // Last: to take back that it was removed needs most space.
    pieces.extend(entry.into_iter().map(Piece::Entry));
    Ok(pieces)
}

/// Locks the mutexes of the keys that operations are applied to, in the order of the mutexes.
fn lock_appliers<'a>(inner: &'a Inner, pieces: &[Piece<'_>]) -> Vec<MutexGuard<'a, ()>> {
    let keys = pieces.iter().filter_map(|piece| match piece {
        Piece::Calls(_, _, key, _) => Some(super::commit::applier(key)),
        _ => None,
    });
    let mutexes: BTreeSet<usize> = keys.collect();
    debug_assert!(mutexes.len() <= APPLIERS);
    mutexes.into_iter().map(|mutex| inner.appliers[mutex].lock()).collect()
}

impl Commit<'_> {
    /// Does the pieces: with two levels by subtransactions, with one level by one, which is returned.
    fn run(&mut self, immediate: &mut Immediate, pieces: &[Piece<'_>]) -> Result<Option<TreeSubtxn>> {
        let (inner, logged, txn) = (self.inner, self.logged, self.txn);
        if inner.changes_at_once().is_some() {
            let is_key = |piece: &&Piece<'_>| matches!(piece, Piece::Key(..) | Piece::Calls(..));
            let (keys, others): (Vec<_>, Vec<_>) = pieces.iter().partition(is_key);
            for pieces in keys.chunks(CHANGED_TOGETHER).chain(others.chunks(1)) {
                immediate.run(inner, logged, txn, |pages, changed| {
                    let mut undo = Vec::new();
                    for piece in pieces {
                        undo.extend(self.run_piece(pages, changed, piece)?);
                    }
                    Ok(undo)
                })?;
            }
            return Ok(None);
        }
        let locks = Immediate::locks(&mut immediate.page_locks, inner);
        let changed = &mut immediate.changed;
        let (whole, ()) = logged.change_trees(txn, locks, |pages| {
            self.grown.clear();
            pieces.iter().try_for_each(|piece| self.run_piece(pages, changed, piece).map(drop))
        })?;
        Ok(Some(whole))
    }

    /// Does a piece. Returns the steps that take it back. It may be called again after an attempt that was taken
    /// back.
    fn run_piece(
        &mut self,
        pages: &TreeAccess<'_>,
        changed: &mut Changed,
        piece: &Piece<'_>,
    ) -> Result<Vec<Step>> {
        let directory = &self.inner.directory;
        Ok(match piece {
            Piece::Key(tree, state, key, value) => vec![put_key(pages, changed, *tree, state, key, *value)?],
            Piece::Calls(tree, state, key, calls) => {
                let (undo, longer) = apply(pages, changed, *tree, state, key, calls)?;
                if !calls.keep_length() {
                    self.grown.retain(|(of, known, _)| (of, &**known) != (tree, key));
                    self.grown.push((*tree, (*key).into(), longer));
                }
                vec![undo]
            }
            Piece::Create(id, options) => {
                let tree = Tree::create(pages, options.page_size)?;
                let listed = Listed { tree, placement: options.placement };
                directory.insert_dropped(pages, *id, &listed)?;
                self.made.insert(*id, listed);
                Vec::new()
            }
            Piece::Fill(id, entries) => {
                let tree = self.made[id].tree;
                for (key, value) in entries {
                    tree.update(pages, key, &mut |_| change(Some(value)))?;
                }
                Vec::new()
            }
            Piece::Publish(id) => steps(directory.make_live(pages, *id, &self.made[id])?),
            Piece::Drop(id) => {
                let tree = self.inner.tree(*id)?.tree;
                steps(directory.drop_tree(pages, *id, &tree)?)
            }
            Piece::Entry(EntryPart { gid, part, bytes }) => {
                steps([directory.set_prepared(pages, gid, *part, bytes.as_deref())?])
            }
        })
    }

    /// Notes something of all trees that the transaction makes or drops.
    fn note_unfinished(&self, writes: &WriteSet, note: impl Fn(&mut BTreeMap<TreeId, Option<Csn>>, TreeId)) {
        let trees = writes.trees().filter(|(_, tree)| tree.created != tree.dropped);
        let mut unfinished = None;
        for (id, _) in trees {
            note(unfinished.get_or_insert_with(|| self.inner.unfinished.lock()), id);
        }
    }
}

/// Returns the steps that take changes of the directory back.
fn steps(before: impl IntoIterator<Item = DirectoryEntry>) -> Vec<Step> {
    before.into_iter().map(|(key, value)| Step::new(DIRECTORY, &key, value.as_deref())).collect()
}

/// Applies operations to a key whose value no other transaction changes before they are committed. Returns the step
/// that takes them back, and by how much the value is longer, in bytes.
fn apply(
    pages: &TreeAccess<'_>,
    changed: &mut Changed,
    tree: TreeId,
    state: &TreeRef,
    key: &[u8],
    calls: &Arc<Calls>,
) -> Result<(Step, i128)> {
    let (mut undo, mut longer, mut failed) = (Step::new(tree, key, None), 0, None);
    state.tree.update(pages, key, &mut |before| {
        let applied = before.ok_or_else(absent).and_then(|before| Ok((before, calls.apply(before)?)));
        match applied {
            Ok((before, value)) => {
                changed.publish(tree, state, key, Some(before), Some(calls));
                undo.value = Some(before.into());
                longer = value.len() as i128 - before.len() as i128;
                Change::Put(value.into())
            }
            Err(error) => {
                failed = Some(error);
                Change::Keep
            }
        }
    })?;
    failed.map_or(Ok((undo, longer)), Err)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
