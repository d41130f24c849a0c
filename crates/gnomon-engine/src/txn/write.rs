//! Writes: keys that are put and deleted, trees that are made and dropped. They go into the write set.

use std::ops::Bound;

use super::{
    core::Core,
    large, read, row_lock, shared_keys,
    trees::{self, gap_name},
    used::{Covered, Used},
};
use crate::{
    Error, Result, TreeId,
    access::{self, RESERVED_NUMBERS, TreeOptions},
    lock::{LockName, gap_mode, key_mode, tree_mode},
    mvcc::{GAPS, TREES, TreeRef},
    write_set::{Write, Written},
};

/// A write's demand on its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    Absent,
    Present,
}

/// See [`Transaction::write`](crate::Transaction::write).
pub(super) fn write(
    core: &mut Core,
    tree: TreeId,
    key: &[u8],
    value: Option<&[u8]>,
    wanted: Wanted,
) -> Result<bool> {
    large::relieve(core)?;
    let used = trees::use_tree(core, tree, tree_mode::IX)?;
    let max = access::key_bytes_max(core.page_size(&used));
    if key.len() > max {
        return Err(Error::KeyTooLong { bytes: key.len(), max });
    }
    if wanted == Wanted::Absent && row_lock::is_taken(core, &used, key)? {
        return Ok(true);
    }
    if used.covered() < Covered::Writes {
        let mode = if wanted == Wanted::Present { key_mode::NKU } else { key_mode::X };
        shared_keys::lock_again(core, &used, key, mode)?;
    }
    core.rest_on_key(tree, key)?;
    let is_found = core.is_found(tree, key);
    let own = match core.writes.get(tree, key) {
        // It was looked for when the key was found.
        _ if is_found => None,
        Some(Write::Put(_)) => Some(true),
        Some(Write::Delete) => Some(false),
        // Changes by others since are looked for as if nothing was written yet.
        Some(Write::Apply(_)) | None => None,
    };
    let mut place = None;
    let present = match own {
        Some(present) => present,
        None => {
            let is_covered = used.covered() == Covered::Writes;
            let is_asked = wanted != Wanted::Any || value.is_none() || !is_covered;
            let stored = if is_found {
                place = core.found.place;
                true
            } else {
                let mut search = core.ahead.search(tree, key);
                let stored = is_asked && read::is_stored(core, &used, key, &mut search)?;
                place = core.ahead.searched(tree, key, search);
                stored
            };
            if let Some(state) = &used.state {
                core.newest();
                // A key of its own that becomes visible to others: where scans must notice it.
                if !stored && value.is_some() && !is_covered && wanted != Wanted::Present {
                    make_pending(core, tree, state, key)?;
                }
            }
            stored
        }
    };
    if (present && wanted == Wanted::Absent) || (!present && wanted == Wanted::Present) {
        return Ok(present);
    }
    if own.is_none() {
        read::check_first_committer(core, &used, key)?;
    }
    // To delete what is absent is no write: it would make a key out of nothing for every reader to step over.
    if present || value.is_some() || own.is_some() {
        core.found.tree = None;
        core.writes.write(tree, key, Written { write: Write::of(value), place });
        core.change_soon(&used, key, value)?;
    }
    Ok(present)
}

/// Makes a new key known to scans, waiting for those whose range it falls into.
fn make_pending(core: &mut Core, tree: TreeId, state: &TreeRef, key: &[u8]) -> Result<()> {
    if state.add_pending_unless_scanned(key) {
        core.pending.push((state.clone(), key.into()));
        return Ok(());
    }
    loop {
        let next = state.next_key(&core.inner().store, Bound::Excluded(key))?;
        let gap = gap_name(tree, next.as_deref());
        // A scan of its own has locked the gap; both parts of it stay locked.
        if core.locks.held_mode(gap) == Some(gap_mode::SCAN) {
            core.lock(LockName::key(GAPS, tree.0, key), gap_mode::SCAN)?;
        }
        let mark = core.locks.mark();
        core.lock(gap, gap_mode::INSERT)?;
        // Pending first, then looked at again: if the next key has gone meanwhile, a scan that locked the larger
        // gap either found this key or is found by it.
        state.add_pending(key);
        core.pending.push((state.clone(), key.into()));
        let same = state.next_key(&core.inner().store, Bound::Excluded(key))? == next;
        core.locks.release_since(mark);
        if same {
            return Ok(());
        }
        state.remove_pending(key);
        core.pending.pop();
    }
}

/// See [`Transaction::create_tree_with`](crate::Transaction::create_tree_with).
pub(super) fn create_tree_with(core: &mut Core, options: TreeOptions) -> Result<TreeId> {
    check_new_tree(core, options)?;
    let id = core.inner().new_tree_id();
    if core.inner().properties.in_place {
        // It is in the directory for a moment before its commit has a CSN.
        core.lock(LockName::whole(TREES, id.0), tree_mode::X)?;
    }
    add_new_tree(core, id, options);
    Ok(id)
}

/// See [`Transaction::create_reserved_tree`](crate::Transaction::create_reserved_tree).
pub(super) fn create_reserved_tree(core: &mut Core, id: TreeId, options: TreeOptions) -> Result<()> {
    check_new_tree(core, options)?;
    if !RESERVED_NUMBERS.contains(&id.0) {
        return Err(Error::BadOption(format!("tree {id} has no reserved number")));
    }
    core.lock(LockName::whole(TREES, id.0), tree_mode::X)?;
    match core.inner().tree(id) {
        Err(Error::NoSuchTree(_)) if core.writes.tree(id).is_none() => {
            add_new_tree(core, id, options);
            Ok(())
        }
        Err(Error::NoSuchTree(_)) | Ok(_) => Err(Error::KeyExists),
        Err(error) => Err(error),
    }
}

fn check_new_tree(core: &Core, options: TreeOptions) -> Result<()> {
    core.check_write(&[])?;
    core.inner().store.check_page_size(options.page_size)?;
    options.placement.check()
}

fn add_new_tree(core: &mut Core, id: TreeId, options: TreeOptions) {
    core.writes.create_tree(id, options);
    core.used.push(Used { id, state: None, mode: tree_mode::X });
}

/// See [`Transaction::drop_tree`](crate::Transaction::drop_tree).
pub(super) fn drop_tree(core: &mut Core, tree: TreeId) -> Result<()> {
    core.check_write(&[])?;
    if RESERVED_NUMBERS.contains(&tree.0) {
        return Err(Error::BadOption(format!("tree {tree} has a reserved number, and stays")));
    }
    trees::use_tree(core, tree, tree_mode::X)?;
    large::drop_private(core, tree)?;
    core.writes.drop_tree(tree);
    Ok(())
}
