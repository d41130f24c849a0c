//! Operations on keys: writes that do not see the value that they change. Transactions whose operations commute
//! change the same key at the same time.
//!
//! [`apply`] locks the key in the mode that its operation shares with those that it commutes with,
//! claims what the operation demands of quantities, and puts the call into the write set. The commit applies it
//! (`commit.rs`). While the lock is held the key exists, since an insert or a delete locks it exclusively.
//!
//! The operation is done at once instead, behind an exclusive lock and on a value that no other transaction changes,
//! where the value is seen anyway: when the transaction has put the key itself, has locked it exclusively before, or
//! has locked the tree as a whole; when a value could grow beyond what fits its leaf, so that its number of pages
//! depends on others; and under SNAPSHOT when the transaction has read the key. The result is the same. Exclusive
//! locks of operations admit requests that want the key to stay ([`RowLock::KeyShare`]), which it does.
//!
//! By isolation:
//!
//! - READ COMMITTED: conditions are asked of the newest value, as everything is behind a lock. To read a key
//!   afterwards converts the lock to an exclusive one, and the value is as if it had been that from the beginning. A
//!   refusal stays true until the transaction ends if it had applied an operation to the key before.
//! - SNAPSHOT: operations of others since the snapshot are no conflict, all other changes are. A condition that does
//!   not hold in the snapshot is refused; one that does, but cannot hold any more, is a conflict. A transaction that
//!   reads a key and applies operations to it, in whatever order, conflicts with every change since the snapshot: the
//!   first committer wins. As long as the transaction was told nothing but what its locks keep true, there is no
//!   conflict: its snapshot becomes a newer one ([`Core::renew_snapshot`]).
//! - SERIALIZABLE: a refusal stays true until the transaction ends, since it was seen. To read a key converts the
//!   lock to an exclusive one.
//!
//! Two transactions that convert their locks on one key are in a deadlock, and so are two that each wait for what the
//! other has claimed. One of them steps back and lets the other go first: it has seen nothing of the key but that its
//! operations may be applied. To keep that rare, later operations on the tree lock exclusively at once, for as long
//! as some of them turn out to need it. A first claim is granted beside others only if as much as all have claimed
//! would be left for them once more; else it waits for them behind an exclusive lock.

use super::{
    core::Core,
    large,
    options::Isolation,
    read, row_lock,
    shared_keys::{lock_alone, note_deadlock, observe, step_back, with_calls},
    strength::RowLock,
    trees,
    used::{Covered, Used},
};
use crate::{
    Conflict, Error, Result, TreeId,
    access::{self, Search},
    lock::{Claim, LockName, first_refused, key_mode, tree_mode},
    mvcc::{KEYS, ReadAt, Since},
    op::{self, BoundCall, Call, LENGTH, Length, Registered, absent},
    sync::Arc,
    write_set::Write,
};

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It will be applied when the transaction commits, or was at once.
    Done,
    /// There is no such key.
    Absent,
    /// The claim at this place of those that the operation makes cannot be met: nothing is done.
    Refused(usize),
}

/// See [`Transaction::apply`](crate::Transaction::apply).
pub(super) fn apply(core: &mut Core, tree: TreeId, key: &[u8], call: &Call) -> Result<Applied> {
    core.check_write(&[])?;
    large::relieve(core)?;
    loop {
        let operation = core.inner().operations.get(call.family, call.operation)?.clone();
        let used = trees::use_tree(core, tree, tree_mode::IX)?;
        let max = access::key_bytes_max(core.page_size(&used));
        if key.len() > max {
            return Err(Error::KeyTooLong { bytes: key.len(), max });
        }
        let mark = core.locks.mark();
        let is_applied = matches!(core.writes.get(tree, key), Some(Write::Apply(_)));
        let mut applied = apply_in(core, &used, key, &operation, &call.args, false);
        if matches!(applied, Err(Error::Deadlock)) {
            note_deadlock(core, &used, key);
            // Two that have each applied something, and want more than is certain to be left.
            applied = match step_back(core, &used, key) {
                Ok(()) => apply_in(core, &used, key, &operation, &call.args, false),
                Err(error) => Err(error),
            };
        }
        let applied = match (applied, core.options.isolation) {
            (Ok(applied), _) => applied,
            // The error tells something of the value, which is to stay so.
            (Err(error @ Error::Operation(_)), Isolation::Serializable) => {
                core.locks.weaken_since(mark, |_, mode| mode);
                return Err(error);
            }
            (Err(error), _) => {
                core.locks.release_since(mark);
                return Err(error);
            }
        };
        match (applied, core.options.isolation) {
            (Applied::Done, _) => return Ok(applied),
            // A key that it has changed would be locked otherwise: what it was told of it stays so.
            (Applied::Refused(_), isolation) if is_applied || isolation == Isolation::Serializable => {
                core.snapshot_told = true;
                core.refusals.push((tree, key.into()));
                return Ok(applied);
            }
            (_, Isolation::ReadCommitted | Isolation::Snapshot) => {
                // Nothing was changed, and nothing that was seen needs to stay.
                core.snapshot_told = true;
                core.locks.release_since(mark);
                return Ok(applied);
            }
            (_, Isolation::Serializable) => {
                // The key must stay absent. A shared lock sees to that, and admits other readers.
                core.locks.release_since(mark);
                if row_lock::get_locked(core, tree, key, RowLock::Share)?.is_none() {
                    return Ok(Applied::Absent);
                }
            }
        }
    }
}

/// Applies an operation to a key of a tree in use. With `takes_turn`, the first operation on the key locks it
/// exclusively.
fn apply_in(
    core: &mut Core,
    used: &Used,
    key: &[u8],
    operation: &Arc<Registered>,
    args: &[u8],
    takes_turn: bool,
) -> Result<Applied> {
    let is_put = matches!(core.writes.get(used.id, key), Some(Write::Put(_) | Write::Delete));
    let is_read = core.reads.has(used.id, key);
    let is_alone = used.covered() == Covered::Writes || is_put || is_read;
    if is_alone || core.options.exclusive_operations || !op::is_shared(operation.mode) {
        return apply_alone(core, used, key, operation, args);
    }
    let name = LockName::key(KEYS, used.id.0, key);
    let mark = core.locks.mark();
    let is_applied = matches!(core.writes.get(used.id, key), Some(Write::Apply(_)));
    let is_exclusive = match is_applied {
        // Operations stay operations behind an exclusive lock: others under SNAPSHOT need not know of it.
        true => core.locks.held_mode(name).is_some_and(key_mode::is_alone),
        false => takes_turn || takes_turn_alone(core, used, name),
    };
    let mode = if is_exclusive { key_mode::NKU } else { operation.mode };
    let held_count = core.locks.held_count();
    if !core.keeps_what_it_sees() && !row_lock::sees_or_locks(core, used, key, mode)? {
        return Ok(Applied::Absent);
    }
    core.lock(name, mode)?;
    core.rest_on_key(used.id, key)?;
    let is_first = core.locks.held_count() > held_count;
    if !is_first && core.locks.held_mode(name).is_none_or(|held| held != mode && !is_exclusive) {
        return apply_alone(core, used, key, operation, args);
    }
    // A key that is there stays there, and one that is not stays away.
    let at = core.newest();
    let mut search = match core.writes.written(used.id, key) {
        Some(written) => Search::at(written.place),
        None => core.ahead.search(used.id, key),
    };
    let there = read::stored_at(core, used.id, used.state.as_deref(), key, at, &mut search)?;
    let place = core.ahead.searched(used.id, key, search);
    if core.options.isolation == Isolation::Snapshot {
        let Some(seen) = in_snapshot(core, used, key)? else { return Ok(Applied::Absent) };
        let seen = with_calls(core, used.id, key, seen)?;
        let claims = operation.operation.claims(args, &seen)?;
        if let Some(refused) = first_refused(&claims) {
            if has_moved(core, used, key)? && core.renew_snapshot()? {
                return apply_in(core, used, key, operation, args, takes_turn);
            }
            // It has seen that, so others must not have changed it if it writes the key, before or after.
            match is_applied {
                true => observe(core, used, key).map(|_| ())?,
                false => core.note_read(used.id, key),
            }
            return Ok(Applied::Refused(refused));
        }
    }
    let Some(there) = there else { return Ok(Applied::Absent) };
    let growth = operation.operation.length(args).growth_bytes();
    let inline_max = access::inline_bytes_max(core.page_size(used), key.len());
    // Behind an exclusive lock the value is known, and nothing is to be claimed. Where a replicator orders
    // commits, the claims are checked again there, and bind no other transaction here.
    let is_asked = is_exclusive || core.observed.is_some();
    let known = if is_asked { Some(with_calls(core, used.id, key, there.clone())?) } else { None };
    let value = known.as_ref().unwrap_or(&there);
    let mut claims = operation.operation.claims(args, value)?;
    if claims.iter().any(|claim| claim.quantity == LENGTH) {
        return Err(Error::Operation(format!("quantity {LENGTH} is the engine's own").into()));
    }
    let demanded = claims.len();
    // What makes it shorter claims nothing, and tells in the end by how much it did.
    if operation.operation.length(args) != Length::Same {
        let max = if growth > 0 { inline_max as i128 } else { i128::MAX };
        let (value, delta) = (value.len() as i128, growth as i128);
        claims.push(Claim { quantity: LENGTH, value, delta, min: i128::MIN, max });
    }
    let keeps_refusal = core.options.isolation == Isolation::Serializable || is_applied;
    let refused = if is_asked || claims.is_empty() {
        first_refused(&claims)
    } else if !is_first {
        let interrupt = core.options.interrupt.clone();
        let options = core.wait_options(interrupt.as_deref());
        core.locks.claim(name, &claims, keeps_refusal, &options)?
    } else if let Some(refused) = core.locks.try_claim(name, &claims, keeps_refusal) {
        refused
    } else {
        // It depends on others, which may want more of it: as if it was nothing that can be shared, it waits until
        // they have ended.
        core.locks.release_since(mark);
        return apply_in(core, used, key, operation, args, true);
    };
    // What was granted or refused may rest on commits that came meanwhile.
    core.seen = core.seen.max(core.inner().store.last_csn());
    match refused {
        Some(place) if place == demanded => {
            // It has seen nothing, so it gives up the shared lock: others that hold it may want an exclusive one,
            // too.
            if is_first && !is_exclusive {
                core.locks.release_since(mark);
            }
            return apply_alone(core, used, key, operation, args);
        }
        // It is met in the snapshot.
        Some(place) if core.options.isolation == Isolation::Snapshot => match core.renew_snapshot()? {
            true => return Ok(Applied::Refused(place)),
            false => return Err(core.refuse(Conflict::Write)),
        },
        Some(place) => return Ok(Applied::Refused(place)),
        None => {}
    }
    let value_bytes_max = if growth > 0 { inline_max } else { there.len() };
    // The value may have changed during the wait.
    if check_applicable(core, used, key, there, operation, args).is_err() {
        let there = read::stored(core, used.id, used.state.as_deref(), key, ReadAt::Newest)?;
        check_applicable(core, used, key, there.ok_or_else(absent)?, operation, args)?;
    }
    core.writes.apply(
        used.id,
        key,
        BoundCall { operation: operation.clone(), args: args.into() },
        value_bytes_max,
        place,
    );
    if !is_exclusive && !is_applied && core.options.isolation != Isolation::Serializable {
        core.unobserved.push((used.id, key.into()));
    }
    Ok(Applied::Done)
}

/// True if an operation is to lock its key exclusively at once.
fn takes_turn_alone(core: &Core, used: &Used, name: LockName<'_>) -> bool {
    used.state.as_ref().is_some_and(|state| {
        state.takes_turns() && core.locks.held_mode(name).is_none() && state.take_turn_alone()
    })
}

/// Fails if an operation cannot be applied to a value at all. That must be known before the commit.
fn check_applicable(
    core: &Core,
    used: &Used,
    key: &[u8],
    there: Vec<u8>,
    operation: &Registered,
    args: &[u8],
) -> Result<()> {
    let own = with_calls(core, used.id, key, there)?;
    operation.operation.apply(args, &own).map(|_| ())
}

/// Applies an operation at once, to a value that no other transaction changes.
fn apply_alone(
    core: &mut Core,
    used: &Used,
    key: &[u8],
    operation: &Registered,
    args: &[u8],
) -> Result<Applied> {
    if used.covered() < Covered::Writes {
        lock_alone(core, used, key)?;
    }
    let there = match core.writes.get(used.id, key) {
        Some(Write::Put(value)) => value.to_vec(),
        Some(Write::Delete) => return Ok(Applied::Absent),
        _ => {
            let at = core.newest();
            let stored = read::stored(core, used.id, used.state.as_deref(), key, at)?;
            if core.options.isolation == Isolation::Snapshot
                && used.covered() < Covered::Writes
                && in_snapshot(core, used, key)?.is_none()
            {
                return Ok(Applied::Absent);
            }
            read::check_first_committer(core, used, key)?;
            let Some(stored) = stored else { return Ok(Applied::Absent) };
            with_calls(core, used.id, key, stored)?
        }
    };
    if let Some(refused) = first_refused(&operation.operation.claims(args, &there)?) {
        core.note_read(used.id, key);
        return Ok(Applied::Refused(refused));
    }
    let value = operation.operation.apply(args, &there)?;
    core.check_write(&value)?;
    core.writes.put(used.id, key, Some(&value));
    core.change_soon(used, key, Some(&value))?;
    Ok(Applied::Done)
}

/// Returns the value of a key in the snapshot, if it is there. If others have changed it since otherwise than by
/// operations, the snapshot becomes a newer one; if it cannot, that is a conflict.
fn in_snapshot(core: &mut Core, used: &Used, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let snapshot = read::tree_snapshot(core, used)?;
    if let Some(state) = &used.state {
        if state.generations.last() > snapshot {
            return match core.renew_snapshot()? {
                true => in_snapshot(core, used, key),
                false => Err(core.refuse(Conflict::Write)),
            };
        }
        let since = state.versions.since(key, snapshot);
        core.inner().timeline.check_snapshot(snapshot)?;
        match since {
            Since::Nothing | Since::Operations => {}
            Since::Changes { was_there: true, .. } => match core.renew_snapshot()? {
                true => return in_snapshot(core, used, key),
                false => return Err(core.refuse(Conflict::Write)),
            },
            Since::Changes { was_there: false, .. } => return Ok(None),
        }
    }
    read::stored(core, used.id, used.state.as_deref(), key, ReadAt::Snapshot(snapshot))
}

/// True if operations of others have changed a key since the snapshot.
fn has_moved(core: &mut Core, used: &Used, key: &[u8]) -> Result<bool> {
    let snapshot = core.untold_snapshot()?;
    let since = used.state.as_ref().map(|state| state.versions.since(key, snapshot));
    Ok(matches!(since, Some(Since::Operations)))
}

#[cfg(all(test, not(shuttle)))]
mod tests;
