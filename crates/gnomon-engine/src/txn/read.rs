//! Where a transaction's reads stand in time, and what they find in trees, without its own writes.

use std::cell::Cell;

use super::{
    core::Core,
    options::Isolation,
    used::{Covered, Used},
};
use crate::{
    Conflict, Csn, Result, TreeId,
    access::{Search, Tree},
    lock::{LockName, key_mode},
    mvcc::{KEYS, NO_END, Pages, ReadAt, TreeState},
};

/// Returns where a plain read stands, after taking the lock that its isolation asks for. Under READ COMMITTED, a
/// transaction that has locked the whole tree against writers reads the newest values: the watermark may still be
/// below the commit whose lock it waited for, held up by a commit elsewhere.
pub(super) fn read_at(core: &mut Core, used: &Used, key: &[u8]) -> Result<ReadAt> {
    let (at, locked) = plain_read(core, used)?;
    if locked {
        core.lock(LockName::key(KEYS, used.id.0, key), key_mode::S)?;
        return Ok(core.newest());
    }
    Ok(at)
}

/// Returns where a plain read stands, and true if it must lock its keys first.
pub(super) fn plain_read(core: &mut Core, used: &Used) -> Result<(ReadAt, bool)> {
    if core.is_placed(used) {
        return Ok((core.newest(), false));
    }
    let covered = used.covered() >= Covered::Reads;
    match core.options.isolation {
        Isolation::Snapshot => {
            core.snapshot_told = true;
            Ok((ReadAt::Snapshot(tree_snapshot(core, used)?), false))
        }
        Isolation::ReadCommitted if !covered => Ok((ReadAt::Snapshot(core.statement_snapshot()?), false)),
        isolation => match core.statement_of(used.id) {
            // That it has locked the tree for want of memory does not change what the statement sees.
            Some(snapshot) if isolation == Isolation::ReadCommitted => {
                Ok((ReadAt::Snapshot(snapshot), false))
            }
            _ => Ok((core.newest(), !covered)),
        },
    }
}

/// Returns the snapshot, which must not be older than the tree: of the entries that a tree was made with there
/// are no versions.
pub(super) fn tree_snapshot(core: &mut Core, used: &Used) -> Result<Csn> {
    let snapshot = core.untold_snapshot()?;
    match &used.state {
        Some(state) if state.created > snapshot => match core.renew_snapshot()? {
            true => core.untold_snapshot(),
            false => Err(core.refuse(Conflict::Write)),
        },
        _ => Ok(snapshot),
    }
}

/// Under SNAPSHOT, fails if another transaction has committed a change of the key since, unless the snapshot can be a
/// newer one. Behind the key's lock.
pub(super) fn check_first_committer(core: &mut Core, used: &Used, key: &[u8]) -> Result<()> {
    if core.options.isolation != Isolation::Snapshot || core.is_placed(used) {
        return Ok(());
    }
    let Some(state) = &used.state else { return Ok(()) };
    let has_changed =
        |snapshot| state.generations.last() > snapshot || state.versions.changed_since(key, snapshot);
    let mut snapshot = tree_snapshot(core, used)?;
    if has_changed(snapshot) {
        if !core.renew_snapshot()? {
            return Err(core.refuse(Conflict::Write));
        }
        snapshot = core.untold_snapshot()?;
        if has_changed(snapshot) {
            return Err(core.refuse(Conflict::Write));
        }
    }
    core.inner().timeline.check_snapshot(snapshot)
}

/// Reads a tree, without the write set, by `read`: it is given the tree, where its pages are, and the commit from
/// which on versions do not count. None if the transaction makes the tree and nothing is stored of it.
pub(super) fn read_stored<T>(
    core: &Core,
    id: TreeId,
    state: Option<&TreeState>,
    at: ReadAt,
    read: impl Fn(&Tree, &Pages<'_>, Csn) -> Result<T>,
) -> Result<Option<T>> {
    match (core.private(id), state) {
        (Some((pages, tree)), _) => tree.map(|tree| read(&tree, &Pages::Private(pages), NO_END)).transpose(),
        (None, Some(state)) => {
            let store = &core.inner().store;
            state.generations.read(store, at, |pages, end| read(&state.tree, pages, end)).map(Some)
        }
        (None, None) => Ok(None),
    }
}

/// Returns the value that the tree holds, without the write set.
pub(super) fn stored(
    core: &Core,
    id: TreeId,
    state: Option<&TreeState>,
    key: &[u8],
    at: ReadAt,
) -> Result<Option<Vec<u8>>> {
    stored_at(core, id, state, key, at, &mut Search::default())
}

/// As [`stored`]. Looks where the key was before, and tells where it is now.
pub(super) fn stored_at(
    core: &Core,
    id: TreeId,
    state: Option<&TreeState>,
    key: &[u8],
    at: ReadAt,
    search: &mut Search,
) -> Result<Option<Vec<u8>>> {
    let snapshot_read = core.snapshot_of(at);
    let found = Cell::new(std::mem::take(search));
    let stored = read_stored(core, id, state, at, |tree, pages, end| {
        let mut search = found.take();
        let newest = tree.get_at(pages, key, &mut search)?;
        found.set(search);
        let (Some(snapshot), Some(state)) = (snapshot_read, state) else { return Ok(newest) };
        let before = state.versions.before(key, snapshot, end).filter(|_| !core.is_own(id, key));
        Ok(before.map_or(newest, |before| before.map(|before| before.to_vec())))
    });
    *search = found.take();
    if let ReadAt::Snapshot(snapshot) = at {
        core.inner().timeline.check_snapshot(snapshot)?;
    }
    Ok(stored?.flatten())
}

/// True if a key is stored. Looks where it was before, and tells where it is, or would be.
pub(super) fn is_stored(core: &Core, used: &Used, key: &[u8], search: &mut Search) -> Result<bool> {
    let state = used.state.as_deref();
    let found_at = Cell::new(std::mem::take(search));
    let found = read_stored(core, used.id, state, ReadAt::Newest, |tree, pages, _| {
        let mut search = found_at.take();
        let found = tree.contains(pages, key, &mut search)?;
        found_at.set(search);
        Ok(found)
    })?;
    *search = found_at.take();
    Ok(found.unwrap_or(false))
}
