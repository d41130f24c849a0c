//! Keys whose lock a transaction shares with others that apply operations to them, and what it takes to see their
//! values.
//!
//! To read a key that the transaction has applied operations to converts its lock to an exclusive one. Two transactions
//! that do so are in a deadlock; one of them steps back and lets the other go first: it has seen nothing of the key but
//! that its operations may be applied.

use super::{
    core::Core,
    options::Isolation,
    read, trees,
    used::{Covered, Used},
};
use crate::{
    Conflict, Error, Result, TreeId,
    lock::{LockName, Mode, first_refused, key_mode, tree_mode},
    mvcc::{KEYS, TreeState},
    op::{self, BoundCall, Calls},
    write_set::Write,
};

/// Prepares to read a key that the transaction has applied operations to: from now on no other transaction
/// changes it. Under SNAPSHOT no other may have changed it since. Under READ COMMITTED it is as if the key had
/// been locked exclusively from the beginning: a snapshot that is taken later includes all changes of it. Returns
/// true if the newest value is to be read, since there is no snapshot yet, or the one in use lacks a change.
pub(super) fn observe(core: &mut Core, used: &Used, key: &[u8]) -> Result<bool> {
    core.note_read(used.id, key);
    if used.covered() < Covered::Writes {
        lock_alone(core, used, key)?;
    }
    read::check_first_committer(core, used, key)?;
    if core.options.isolation != Isolation::ReadCommitted {
        return Ok(false);
    }
    // Later snapshots include what this was built on.
    core.newest();
    let Some(snapshot) = core.snapshot else { return Ok(true) };
    let newest = used.state.as_ref().and_then(|state| state.versions.newest(key));
    Ok(newest.is_some_and(|newest| snapshot < newest))
}

/// Calls [`observe`] for a key in a tree that is scanned.
pub(super) fn observe_in(core: &mut Core, tree: TreeId, key: &[u8]) -> Result<bool> {
    let used = trees::use_tree(core, tree, tree_mode::IX)?;
    observe(core, &used, key)
}

/// See [`Transaction::observe_tree`](crate::Transaction::observe_tree).
pub(super) fn observe_tree(core: &mut Core, tree: TreeId) -> Result<()> {
    let is_fixed = match core.options.isolation {
        Isolation::ReadCommitted => core.snapshot.is_some(),
        Isolation::Snapshot => core.snapshot_told,
        Isolation::Serializable => true,
    };
    if is_fixed {
        return Ok(());
    }
    let mut keys: Vec<_> = core.unobserved.extract_if(.., |(of, _)| *of == tree).collect();
    // In one order: two transactions that do the same wait for each other, without a deadlock.
    keys.sort_unstable_by(|(_, a), (_, b)| b.cmp(a));
    let mut observed = Ok(());
    while observed.is_ok()
        && let Some((_, key)) = keys.last()
    {
        if matches!(core.writes.get(tree, key), Some(Write::Apply(_))) {
            observed = observe_in(core, tree, key).map(drop);
        }
        if observed.is_ok() {
            keys.pop();
        }
    }
    // They stay in the list if that fails: the transaction may go on.
    core.unobserved.append(&mut keys);
    observed
}

/// Locks a key exclusively, to read or change its value. Its lock may have been shared until now.
pub(super) fn lock_alone(core: &mut Core, used: &Used, key: &[u8]) -> Result<()> {
    lock_again(core, used, key, key_mode::NKU)
}

/// Locks a key whose lock may be shared with other transactions that apply operations to it, and notes a
/// deadlock.
pub(super) fn lock_again(core: &mut Core, used: &Used, key: &[u8], mode: Mode) -> Result<()> {
    let name = LockName::key(KEYS, used.id.0, key);
    let locked = core.lock(name, mode);
    if let Err(Error::Deadlock) = locked {
        note_deadlock(core, used, key);
        step_back(core, used, key)?;
        return core.lock(name, mode);
    }
    if let Some(state) = state_of_applied(core, used, key) {
        state.note_needed();
    }
    locked
}

/// Steps back after a deadlock about a key that is shared with others: lets them go first, as if this transaction
/// had applied its operations after them. It has seen nothing of the key but that they may be applied, which must
/// still be so then.
///
/// # Errors
/// [`Error::Deadlock`] if it is not, or the deadlock is about something else; then the operations cannot stay.
/// Under SNAPSHOT the former is [`Error::Serialization`].
pub(super) fn step_back(core: &mut Core, used: &Used, key: &[u8]) -> Result<()> {
    let name = LockName::key(KEYS, used.id.0, key);
    let shares = core.locks.held_mode(name).is_some_and(op::is_shared);
    let saw_refusal = core.refusals.iter().any(|(tree, refused)| *tree == used.id && **refused == *key);
    let Some(Write::Apply(calls)) = core.writes.get(used.id, key).filter(|_| shares && !saw_refusal) else {
        return Err(Error::Deadlock);
    };
    let calls = calls.clone();
    // Until it has the lock again, nothing keeps what it has applied possible.
    core.doomed = true;
    core.locks.release(name);
    core.lock(name, key_mode::NKU).map_err(|_| Error::Deadlock)?;
    // What it covers may have been done before a savepoint.
    core.locks.keep(name);
    let at = core.newest();
    let now = read::stored(core, used.id, used.state.as_deref(), key, at)?;
    if now.is_some_and(|now| are_possible(&calls, now)) {
        core.doomed = false;
        return Ok(());
    }
    match core.options.isolation {
        Isolation::Snapshot => Err(core.refuse(Conflict::Write)),
        _ => Err(Error::Deadlock),
    }
}

/// Notes a deadlock about a key that the transaction has applied operations to: others like it will do the same.
pub(super) fn note_deadlock(core: &Core, used: &Used, key: &[u8]) {
    if let Some(state) = state_of_applied(core, used, key) {
        state.note_deadlock();
    }
}

/// The state of a tree, if others could profit from knowing what becomes of an operation that was applied to the
/// key.
fn state_of_applied<'u>(core: &Core, used: &'u Used, key: &[u8]) -> Option<&'u TreeState> {
    let is_applied = matches!(core.writes.get(used.id, key), Some(Write::Apply(_)));
    used.state.as_deref().filter(|_| is_applied)
}

/// Applies the operations of this transaction to a value.
pub(super) fn with_calls(core: &Core, tree: TreeId, key: &[u8], value: Vec<u8>) -> Result<Vec<u8>> {
    match core.writes.get(tree, key) {
        Some(Write::Apply(calls)) => calls.apply(&value),
        _ => Ok(value),
    }
}

/// Applies the operations of this transaction to the value that is stored under a key, if there is one.
pub(super) fn with_own(
    core: &Core,
    tree: TreeId,
    key: &[u8],
    stored: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    stored.map(|stored| with_calls(core, tree, key, stored)).transpose()
}

/// Replaces operations in the write set by the values that they make: the tree is locked as a whole.
pub(super) fn resolve(core: &mut Core, tree: TreeId) -> Result<()> {
    let state = core.used.iter().find(|used| used.id == tree).and_then(|used| used.state.clone());
    let at = core.newest();
    let bytes_max = core.inner().write_bytes_max;
    let mut writes = std::mem::take(&mut core.writes);
    let resolved = writes.resolve(tree, bytes_max, |key| read::stored(core, tree, state.as_deref(), key, at));
    core.writes = writes;
    resolved
}

/// True if operations can be applied to a value, one after the other.
fn are_possible(calls: &Calls, mut value: Vec<u8>) -> bool {
    calls.iter().all(|BoundCall { operation, args }| {
        let claims = operation.operation.claims(args, &value);
        let is_met = claims.is_ok_and(|claims| first_refused(&claims).is_none());
        let applied = operation.operation.apply(args, &value);
        is_met && applied.map(|applied| value = applied).is_ok()
    })
}
