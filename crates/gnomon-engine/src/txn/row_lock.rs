//! Locks on single keys that are asked for by themselves: what is locked, and what is given back when it turns out that
//! nothing of it is to stay.
//!
//! A statement that locks a row looks at the newest committed value behind the lock, and may find that the row is
//! none of those that it is for. What it was told of the row then need not stay as it is, unless the transaction is
//! SERIALIZABLE, so [`Transaction::give_back`] takes the key's lock back to what it was before.

use super::{
    database::{KEYS, NAMES},
    strength::{RowLock, TreeLock},
    transaction::{Covered, Isolation, Transaction, Used},
    writes::Write,
};
use crate::{
    Result, TreeId,
    lock::{LockName, Mark, Mode, key_mode, tree_mode},
};

/// A lock that [`Transaction::lock_key`] took of a key, beside what was held of it before.
#[derive(Clone, Copy, Debug)]
pub struct KeyLock {
    /// The mark of the locks before.
    since: Mark,
    /// Number of keys that the transaction rests on and that were still to be told of.
    untold: usize,
}

impl Transaction {
    /// Locks a key until the transaction ends, then returns its own write or the newest committed value (which may
    /// be newer than the statement's snapshot). A key that is absent is locked too: no other transaction inserts it.
    pub fn get_locked(&mut self, tree: TreeId, key: &[u8], lock: RowLock) -> Result<Option<Vec<u8>>> {
        self.lock_key(tree, key, lock).map(|(value, _)| value)
    }

    /// As [`Transaction::get_locked`], with what it took, for [`Transaction::give_back`].
    pub fn lock_key(
        &mut self,
        tree: TreeId,
        key: &[u8],
        lock: RowLock,
    ) -> Result<(Option<Vec<u8>>, KeyLock)> {
        self.lock_key_of(tree, key, lock, false)
    }

    /// As [`Transaction::lock_key`], of a key that the statement is to see: one that is absent there, and that others are
    /// about to insert, is absent at once. Not under SERIALIZABLE.
    pub fn lock_seen_key(
        &mut self,
        tree: TreeId,
        key: &[u8],
        lock: RowLock,
    ) -> Result<(Option<Vec<u8>>, KeyLock)> {
        self.lock_key_of(tree, key, lock, !self.keeps_what_it_sees())
    }

    fn lock_key_of(
        &mut self,
        tree: TreeId,
        key: &[u8],
        lock: RowLock,
        is_to_be_seen: bool,
    ) -> Result<(Option<Vec<u8>>, KeyLock)> {
        self.relieve()?;
        // A lock alone changes nothing, so it is no matter for a lock on the tree that keeps writers away.
        let intention = if lock == RowLock::Update { tree_mode::IX } else { tree_mode::IS };
        let used = self.use_tree(tree, intention)?;
        let is_applied = matches!(self.writes.get(tree, key), Some(Write::Apply(_)));
        if is_applied && !self.covers(&used, lock) {
            // What it shares with others by operations is converted, and stays so: it is seen.
            self.lock_alone(&used, key)?;
        }
        let taken = KeyLock {
            since: self.locks.mark(),
            untold: self.observed.as_ref().map_or(0, |observed| observed.untold_count()),
        };
        if !self.covers(&used, lock) {
            let mode = self.key_mode(lock);
            if is_to_be_seen && !self.sees_or_locks(&used, key, mode)? {
                return Ok((None, taken));
            }
            self.lock_again(&used, key, mode)?;
        }
        match self.writes.get(tree, key) {
            Some(Write::Put(value)) => return Ok((Some(value.to_vec()), taken)),
            Some(Write::Delete) => return Ok((None, taken)),
            Some(Write::Apply(_)) | None => {}
        }
        self.check_first_committer(&used, key)?;
        self.note_read(tree, key);
        self.rest_on_key(tree, key)?;
        // Others may go on to change it.
        self.snapshot_told |= lock == RowLock::KeyShare;
        let at = self.newest();
        let mut search = self.ahead.search(tree, key);
        let stored = self.stored_at(tree, used.state.as_deref(), key, at, &mut search)?;
        let place = self.ahead.searched(tree, key, search);
        if stored.is_some() && lock > RowLock::Share {
            self.found.tree = Some(tree);
            self.found.key.clear();
            self.found.key.extend_from_slice(key);
            self.found.place = place;
        }
        let value = if is_applied { self.with_own(tree, key, stored)? } else { stored };
        Ok((value, taken))
    }

    /// Takes the lock on a key back to what it was before [`Transaction::lock_key`]: nothing that it told need stay as it is.
    /// Under SERIALIZABLE it stays, since what was seen is to stay so. What the transaction's own operations on the key
    /// were shared by stays exclusive.
    pub fn give_back(&mut self, tree: TreeId, key: &[u8], lock: KeyLock) {
        if self.keeps_what_it_sees() {
            return;
        }
        self.snapshot_told = true;
        self.locks.take_back(LockName::key(KEYS, tree.0, key), lock.since);
        if self.is_found(tree, key) {
            self.found.tree = None;
        }
        if self.options.isolation == Isolation::ReadCommitted
            && let Some(observed) = &mut self.observed
        {
            observed.forget_untold(tree, key, lock.untold);
        }
    }

    /// Returns the newest committed value of a key, or its own write, as soon as no other transaction is about to
    /// insert or delete the key: other locks on it, and changes of its value, are not waited for. It locks nothing,
    /// unless the transaction is SERIALIZABLE: then the key is locked as for an insert.
    pub fn look_up(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let used = self.use_tree(tree, tree_mode::IS)?;
        match self.writes.get(tree, key) {
            Some(Write::Put(value)) => return Ok(Some(value.to_vec())),
            Some(Write::Delete) => return Ok(None),
            Some(Write::Apply(_)) | None => {}
        }
        if self.keeps_what_it_sees() {
            return self.get_locked(tree, key, RowLock::Exclusive);
        }
        self.snapshot_told = true;
        if used.covered() < Covered::Writes {
            self.lock(LockName::key(KEYS, tree.0, key), key_mode::P)?;
        }
        let at = self.newest();
        let mut search = self.ahead.search(tree, key);
        let stored = self.stored_at(tree, used.state.as_deref(), key, at, &mut search)?;
        self.ahead.searched(tree, key, search);
        Ok(stored)
    }

    /// True if a key that is to be absent is locked by others and there, whatever they do to it: an insert
    /// need not wait for that. Locks the key for a write if it is free.
    pub(super) fn is_taken(&mut self, used: &Used, key: &[u8]) -> Result<bool> {
        let is_own = self.writes.get(used.id, key).is_some();
        if is_own || used.covered() == Covered::Writes || self.keeps_what_it_sees() {
            return Ok(false);
        }
        let name = LockName::key(KEYS, used.id.0, key);
        if self.locks.try_lock(name, key_mode::X) {
            return Ok(false);
        }
        self.lock(name, key_mode::P)?;
        self.newest();
        let mut search = self.ahead.search(used.id, key);
        self.is_stored(used, key, &mut search)
    }

    /// Locks a key if it is free. False if it is not, and absent for the statement.
    pub(super) fn sees_or_locks(&mut self, used: &Used, key: &[u8], mode: Mode) -> Result<bool> {
        let name = LockName::key(KEYS, used.id.0, key);
        let is_own = self.writes.get(used.id, key).is_some();
        if is_own || self.is_placed(used) || self.locks.try_lock(name, mode) {
            return Ok(true);
        }
        let mut search = self.ahead.search(used.id, key);
        // Nearly always it is in the tree, where it is committed: then it costs no snapshot to know.
        if self.inner().store.logged().is_none() && self.is_stored(used, key, &mut search)? {
            return Ok(true);
        }
        let was_told = self.snapshot_told;
        let (at, _) = self.plain_read(used)?;
        let is_seen = self.stored_at(used.id, used.state.as_deref(), key, at, &mut search)?.is_some();
        if is_seen {
            self.snapshot_told = was_told;
        }
        Ok(is_seen)
    }

    /// Locks a name of the caller's until the transaction ends, or goes back to a savepoint from before: a number that is
    /// no tree's, in the modes of trees. A prepared transaction keeps it until the database is closed.
    ///
    /// # Errors
    /// Those of locks.
    pub fn lock_name(&mut self, name: u64, lock: TreeLock) -> Result<()> {
        self.check()?;
        match self.alone {
            true => Ok(()),
            false => self.lock(LockName::whole(NAMES, name), lock.mode()),
        }
    }

    /// True if what it is told of keys is to stay so: it is SERIALIZABLE, here or where others order commits.
    pub(super) fn keeps_what_it_sees(&self) -> bool {
        self.options.isolation == Isolation::Serializable
            || self.observed.as_ref().is_some_and(|observed| observed.is_serializable)
    }

    /// True if a lock on the whole tree stands for one on the key.
    fn covers(&self, used: &Used, lock: RowLock) -> bool {
        // A lock on the tree that keeps writers away admits others that lock single keys, and change nothing.
        let is_read = lock <= RowLock::Share && self.options.isolation == Isolation::Serializable;
        used.covered() >= if is_read { Covered::Reads } else { Covered::Writes }
    }

    /// The mode of a lock. Under SERIALIZABLE what it tells of the value is to stay so.
    fn key_mode(&self, lock: RowLock) -> Mode {
        match (lock, self.options.isolation) {
            (RowLock::KeyShare, Isolation::Serializable) => key_mode::S,
            _ => lock.mode(),
        }
    }
}
