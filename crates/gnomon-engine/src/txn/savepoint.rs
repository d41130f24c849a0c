//! Savepoints: points within a transaction to go back to.
//!
//! Promises: after going back, the transaction reads and writes as if it had done nothing since; the claims and locks
//! taken since are given back, so that others need not wait for what was undone. What it saw under SERIALIZABLE stays
//! as it saw it. A savepoint costs nothing but its marks; going back takes back what has reached the trees.

use super::{
    core::{Core, SavepointState},
    options::Isolation,
};
use crate::{
    Error, Result,
    lock::{LockName, Mode, TableId, key_mode, tree_mode},
    mvcc::{KEYS, TREES},
    op,
};

/// A point within a transaction to go back to: see [`Transaction::savepoint`](crate::Transaction::savepoint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(pub(crate) u64);

/// See [`Transaction::savepoint`](crate::Transaction::savepoint).
pub(super) fn savepoint(core: &mut Core) -> Savepoint {
    let number = core.savepoint_count;
    core.savepoint_count += 1;
    core.savepoints.push(SavepointState {
        number,
        writes: core.writes.mark(),
        changes: core.inner().method.mark(&core.state),
        locks: core.locks.mark(),
        pending: core.pending.len(),
        refusals: core.refusals.len(),
    });
    Savepoint(number)
}

fn savepoint_at(core: &Core, savepoint: Savepoint) -> Result<usize> {
    let at = core.savepoints.binary_search_by_key(&savepoint.0, |state| state.number);
    at.map_err(|_| Error::BadOption("the savepoint was released, or an earlier one was gone back to".into()))
}

/// See [`Transaction::rollback_to`](crate::Transaction::rollback_to).
pub(super) fn rollback_to(core: &mut Core, savepoint: Savepoint) -> Result<()> {
    let at = savepoint_at(core, savepoint)?;
    if core.doomed {
        return Err(Error::Deadlock);
    }
    core.savepoints.truncate(at + 1);
    let (changes, writes) = (core.savepoints[at].changes, core.savepoints[at].writes);
    let inner = &core.handle.inner;
    let undone =
        inner.method.go_back(inner, core.id, &mut core.state, changes, (&mut core.writes, writes))?;
    if let Some(csn) = undone {
        core.have_pruned(csn);
    }
    let state = &core.savepoints[at];
    if let Some(large) = &mut core.large {
        large.go_back(state.number);
    }
    // Its lock may go, and what locks kept as the snapshot has it may change.
    core.found.tree = None;
    core.snapshot_told = true;
    for (tree, key) in core.pending.drain(state.pending..) {
        tree.remove_pending(&key);
    }
    match core.options.isolation {
        Isolation::Serializable => core.locks.weaken_since(state.locks, without_writes),
        _ => {
            core.locks.release_since(state.locks);
            core.refusals.truncate(state.refusals);
        }
    }
    // Locks may be shared again.
    if core.options.isolation != Isolation::Serializable {
        core.unobserved = core.writes.keys_with_calls().map(|(tree, key)| (tree, key.into())).collect();
    }
    let (locks, writes) = (&core.locks, &core.writes);
    core.used.retain_mut(|used| match (&used.state, locks.held_mode(LockName::whole(TREES, used.id.0))) {
        (None, _) => writes.tree(used.id).is_some_and(|writes| writes.created),
        (Some(_), Some(mode)) => {
            used.mode = mode;
            true
        }
        (Some(_), None) => false,
    });
    Ok(())
}

/// See [`Transaction::release_savepoint`](crate::Transaction::release_savepoint).
pub(super) fn release_savepoint(core: &mut Core, savepoint: Savepoint) -> Result<()> {
    let at = savepoint_at(core, savepoint)?;
    core.savepoints.truncate(at);
    if let Some(large) = &mut core.large {
        large.release(savepoint.0, core.savepoints.last().map(|before| before.number));
    }
    if at == 0 {
        core.writes.forget_marks();
    }
    Ok(())
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
