//! Savepoints: points within a transaction to go back to.
//!
//! Promises: after going back, the transaction reads and writes as if it had done nothing since; the claims and locks
//! taken since are given back, so that others need not wait for what was undone. What it saw under SERIALIZABLE stays
//! as it saw it. A savepoint costs nothing but its marks; going back takes back what has reached the trees.

use super::{
    database::{KEYS, TREES},
    transaction::{Isolation, Transaction},
};
use crate::{
    Error, Result,
    lock::{LockName, Mark, Mode, TableId, key_mode, tree_mode},
    op,
};

/// A point within a transaction to go back to: see [`Transaction::savepoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(pub(super) u64);

pub(super) struct SavepointState {
    pub number: u64,
    pub writes: usize,
    changes: usize,
    locks: Mark,
    pub pending: usize,
    refusals: usize,
}

impl Transaction {
    /// Sets a savepoint, to which [`Transaction::rollback_to`] goes back.
    pub fn savepoint(&mut self) -> Savepoint {
        let number = self.savepoint_count;
        self.savepoint_count += 1;
        self.savepoints.push(SavepointState {
            number,
            writes: self.writes.mark(),
            changes: self.immediate.mark(),
            locks: self.locks.mark(),
            pending: self.pending.len(),
            refusals: self.refusals.len(),
        });
        Savepoint(number)
    }

    fn savepoint_at(&self, savepoint: Savepoint) -> Result<usize> {
        let at = self.savepoints.binary_search_by_key(&savepoint.0, |state| state.number);
        at.map_err(|_| {
            Error::BadOption("the savepoint was released, or an earlier one was gone back to".into())
        })
    }

    /// Undoes what was written since the savepoint, which stays; later ones are gone. The locks taken since then are
    /// released, but for those on whole trees that were taken for want of memory; under SERIALIZABLE they stay, as read
    /// locks: what was seen must stay as it is. May be called after an error, whichever it was, and the transaction can
    /// go on then.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.savepoint_at(savepoint)?;
        if self.doomed {
            return Err(Error::Deadlock);
        }
        self.savepoints.truncate(at + 1);
        let (changes, writes) = (self.savepoints[at].changes, self.savepoints[at].writes);
        self.go_back_to(changes, |of| of.go_back(writes))?;
        let state = &self.savepoints[at];
        if let Some(large) = &mut self.large {
            large.go_back(state.number);
        }
        // Its lock may go, and what locks kept as the snapshot has it may change.
        self.found.tree = None;
        self.snapshot_told = true;
        for (tree, key) in self.pending.drain(state.pending..) {
            tree.remove_pending(&key);
        }
        match self.options.isolation {
            Isolation::Serializable => self.locks.weaken_since(state.locks, without_writes),
            _ => {
                self.locks.release_since(state.locks);
                self.refusals.truncate(state.refusals);
            }
        }
        // Locks may be shared again.
        if self.options.isolation != Isolation::Serializable {
            self.unobserved = self.writes.keys_with_calls().map(|(tree, key)| (tree, key.into())).collect();
        }
        let (locks, writes) = (&self.locks, &self.writes);
        self.used.retain_mut(|used| {
            match (&used.state, locks.held_mode(LockName::whole(TREES, used.id.0))) {
                (None, _) => writes.tree(used.id).is_some_and(|writes| writes.created),
                (Some(_), Some(mode)) => {
                    used.mode = mode;
                    true
                }
                (Some(_), None) => false,
            }
        });
        Ok(())
    }

    /// Forgets a savepoint and all later ones; what was written since stays.
    pub fn release_savepoint(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.savepoint_at(savepoint)?;
        self.savepoints.truncate(at);
        if let Some(large) = &mut self.large {
            large.release(savepoint.0, self.savepoints.last().map(|before| before.number));
        }
        if at == 0 {
            self.writes.forget_marks();
        }
        Ok(())
    }
}

/// Returns what is left of the mode of a lock when its holder's writes are undone, and its reads are not.
fn without_writes(table: TableId, mode: Mode) -> Mode {
    match (table, mode) {
        // Other transactions that apply operations hold it, too; what it was told of quantities stays with it.
        (KEYS, mode) if op::is_shared(mode) => mode,
        (KEYS, _) => key_mode::S,
        (TREES, tree_mode::IX) => tree_mode::IS,
        (TREES, tree_mode::SIX | tree_mode::U | tree_mode::X) => tree_mode::S,
        (TREES, tree_mode::M) => tree_mode::IS,
        (_, mode) => mode,
    }
}
