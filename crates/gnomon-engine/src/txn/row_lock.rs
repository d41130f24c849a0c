//! Locks on single keys that are asked for by themselves: what is locked, and what is given back when it turns out that
//! nothing of it is to stay.
//!
//! A statement that locks a row looks at the newest committed value behind the lock, and may find that the row is
//! none of those that it is for. What it was told of the row then need not stay as it is, unless the transaction is
//! SERIALIZABLE, so [`give_back`] takes the key's lock back to what it was before.

use super::{
    core::Core,
    large,
    options::Isolation,
    read, shared_keys,
    strength::RowLock,
    trees,
    used::{Covered, Used},
};
use crate::{
    Result, TreeId,
    lock::{LockName, Mark, Mode, key_mode, tree_mode},
    mvcc::{KEYS, Since},
    write_set::Write,
};

/// A lock that [`Transaction::lock_key`](crate::Transaction::lock_key) took of a key, beside what was held of it
/// before.
#[derive(Clone, Copy, Debug)]
pub struct KeyLock {
    /// The mark of the locks before.
    since: Mark,
    /// Number of keys that the transaction rests on and that were still to be told of.
    untold: usize,
    others: ChangeByOthers,
}

impl KeyLock {
    /// Returns what others have done to the key since the statement's snapshot, as far as its versions are kept.
    pub fn others(&self) -> ChangeByOthers {
        self.others
    }
}

/// The changes of a key that other transactions have committed since a statement's snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeByOthers {
    /// None, or nothing was read at a snapshot.
    #[default]
    None,
    /// Its value was changed, or it was deleted, or inserted.
    Changed,
    /// It was there, one transaction has deleted it, and a later one has inserted it again.
    Replaced,
}

/// See [`Transaction::get_locked`](crate::Transaction::get_locked).
pub(super) fn get_locked(
    core: &mut Core,
    tree: TreeId,
    key: &[u8],
    lock: RowLock,
) -> Result<Option<Vec<u8>>> {
    lock_key(core, tree, key, lock).map(|(value, _)| value)
}

/// See [`Transaction::lock_key`](crate::Transaction::lock_key).
pub(super) fn lock_key(
    core: &mut Core,
    tree: TreeId,
    key: &[u8],
    lock: RowLock,
) -> Result<(Option<Vec<u8>>, KeyLock)> {
    lock_key_of(core, tree, key, lock, false)
}

/// See [`Transaction::lock_seen_key`](crate::Transaction::lock_seen_key).
pub(super) fn lock_seen_key(
    core: &mut Core,
    tree: TreeId,
    key: &[u8],
    lock: RowLock,
) -> Result<(Option<Vec<u8>>, KeyLock)> {
    lock_key_of(core, tree, key, lock, !core.keeps_what_it_sees())
}

fn lock_key_of(
    core: &mut Core,
    tree: TreeId,
    key: &[u8],
    lock: RowLock,
    is_to_be_seen: bool,
) -> Result<(Option<Vec<u8>>, KeyLock)> {
    large::relieve(core)?;
    // A lock alone changes nothing, so it is no matter for a lock on the tree that keeps writers away.
    let intention = if lock == RowLock::Update { tree_mode::IX } else { tree_mode::IS };
    let used = trees::use_tree(core, tree, intention)?;
    let is_applied = matches!(core.writes.get(tree, key), Some(Write::Apply(_)));
    if is_applied && !covers(core, &used, lock) {
        // What it shares with others by operations is converted, and stays so: it is seen.
        shared_keys::lock_alone(core, &used, key)?;
    }
    let mut taken = KeyLock {
        since: core.locks.mark(),
        untold: core.observed.as_ref().map_or(0, |observed| observed.untold_count()),
        others: ChangeByOthers::None,
    };
    if !covers(core, &used, lock) {
        let mode = key_mode(core, lock);
        if is_to_be_seen && !sees_or_locks(core, &used, key, mode)? {
            return Ok((None, taken));
        }
        shared_keys::lock_again(core, &used, key, mode)?;
    }
    match core.writes.get(tree, key) {
        Some(Write::Put(value)) => return Ok((Some(value.to_vec()), taken)),
        Some(Write::Delete) => return Ok((None, taken)),
        Some(Write::Apply(_)) | None => {}
    }
    read::check_first_committer(core, &used, key)?;
    core.note_read(tree, key);
    core.rest_on_key(tree, key)?;
    // Others may go on to change it.
    core.snapshot_told |= lock == RowLock::KeyShare;
    let at = core.newest();
    let mut search = core.ahead.search(tree, key);
    let stored = read::stored_at(core, tree, used.state.as_deref(), key, at, &mut search)?;
    let place = core.ahead.searched(tree, key, search);
    if stored.is_some() && lock > RowLock::Share {
        core.found.tree = Some(tree);
        core.found.key.clear();
        core.found.key.extend_from_slice(key);
        core.found.place = place;
    }
    let value = if is_applied { shared_keys::with_own(core, tree, key, stored)? } else { stored };
    taken.others = change_by_others(core, &used, key, value.is_some());
    Ok((value, taken))
}

/// Returns what others have done to a key since the statement's snapshot, if it has one. Behind the key's lock.
fn change_by_others(core: &Core, used: &Used, key: &[u8], is_there: bool) -> ChangeByOthers {
    let snapshot = core.statement_of(used.id).or(core.snapshot);
    let (Some(state), Some(snapshot), false) = (&used.state, snapshot, core.is_own(used.id, key)) else {
        return ChangeByOthers::None;
    };
    match state.versions.since(key, snapshot) {
        Since::Changes { was_deleted: true, .. } if is_there => ChangeByOthers::Replaced,
        Since::Changes { .. } | Since::Operations => ChangeByOthers::Changed,
        // All pages were replaced, perhaps not those of this key.
        Since::Nothing if state.generations.last() > snapshot => ChangeByOthers::Changed,
        Since::Nothing => ChangeByOthers::None,
    }
}

/// See [`Transaction::give_back`](crate::Transaction::give_back).
pub(super) fn give_back(core: &mut Core, tree: TreeId, key: &[u8], lock: KeyLock) {
    if core.keeps_what_it_sees() {
        return;
    }
    core.snapshot_told = true;
    core.locks.take_back(LockName::key(KEYS, tree.0, key), lock.since);
    if core.is_found(tree, key) {
        core.found.tree = None;
    }
    if core.options.isolation == Isolation::ReadCommitted
        && let Some(observed) = &mut core.observed
    {
        observed.forget_untold(tree, key, lock.untold);
    }
}

/// See [`Transaction::look_up`](crate::Transaction::look_up).
pub(super) fn look_up(core: &mut Core, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let used = trees::use_tree(core, tree, tree_mode::IS)?;
    match core.writes.get(tree, key) {
        Some(Write::Put(value)) => return Ok(Some(value.to_vec())),
        Some(Write::Delete) => return Ok(None),
        Some(Write::Apply(_)) | None => {}
    }
    if core.keeps_what_it_sees() {
        return get_locked(core, tree, key, RowLock::Exclusive);
    }
    core.snapshot_told = true;
    if used.covered() < Covered::Writes {
        core.lock(LockName::key(KEYS, tree.0, key), key_mode::P)?;
    }
    let at = core.newest();
    let mut search = core.ahead.search(tree, key);
    let stored = read::stored_at(core, tree, used.state.as_deref(), key, at, &mut search)?;
    core.ahead.searched(tree, key, search);
    Ok(stored)
}

/// True if a key that is to be absent is locked by others and there, whatever they do to it: an insert
/// need not wait for that. Locks the key for a write if it is free.
pub(super) fn is_taken(core: &mut Core, used: &Used, key: &[u8]) -> Result<bool> {
    let is_own = core.writes.get(used.id, key).is_some();
    if is_own || used.covered() == Covered::Writes || core.keeps_what_it_sees() {
        return Ok(false);
    }
    let name = LockName::key(KEYS, used.id.0, key);
    if core.locks.try_lock(name, key_mode::X) {
        return Ok(false);
    }
    core.lock(name, key_mode::P)?;
    core.newest();
    let mut search = core.ahead.search(used.id, key);
    read::is_stored(core, used, key, &mut search)
}

/// Locks a key if it is free. False if it is not, and absent for the statement.
pub(super) fn sees_or_locks(core: &mut Core, used: &Used, key: &[u8], mode: Mode) -> Result<bool> {
    let name = LockName::key(KEYS, used.id.0, key);
    let is_own = core.writes.get(used.id, key).is_some();
    if is_own || core.is_placed(used) || core.locks.try_lock(name, mode) {
        return Ok(true);
    }
    let mut search = core.ahead.search(used.id, key);
    // Nearly always it is in the tree, where it is committed: then it costs no snapshot to know.
    if !core.inner().properties.in_place && read::is_stored(core, used, key, &mut search)? {
        return Ok(true);
    }
    let was_told = core.snapshot_told;
    let (at, _) = read::plain_read(core, used)?;
    let is_seen = read::stored_at(core, used.id, used.state.as_deref(), key, at, &mut search)?.is_some();
    if is_seen {
        core.snapshot_told = was_told;
    }
    Ok(is_seen)
}

/// True if a lock on the whole tree stands for one on the key.
fn covers(core: &Core, used: &Used, lock: RowLock) -> bool {
    // A lock on the tree that keeps writers away admits others that lock single keys, and change nothing.
    let is_read = lock <= RowLock::Share && core.options.isolation == Isolation::Serializable;
    used.covered() >= if is_read { Covered::Reads } else { Covered::Writes }
}

/// The mode of a lock. Under SERIALIZABLE what it tells of the value is to stay so.
fn key_mode(core: &Core, lock: RowLock) -> Mode {
    match (lock, core.options.isolation) {
        (RowLock::KeyShare, Isolation::Serializable) => key_mode::S,
        _ => lock.mode(),
    }
}
