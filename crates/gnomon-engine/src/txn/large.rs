//! Large transactions: escalation when a transaction's changes and locks take too much memory (Shadows, section 4.2).
//!
//! 1. *Escalation.* The transaction locks its largest trees as a whole, against all but readers at snapshots, and
//!    gives its locks on keys of them back. It does not wait for that until its memory is twice what it should be.
//!    The lock stays until the transaction ends, whatever savepoint it goes back to.
//! 2. *Private pages.* What the write set says of such a tree is applied to pages of the transaction's own
//!    (`PrivatePages`), in the order of keys, and taken out of the write set. Further changes need no locks; they are
//!    collected in the write set as before, and applied when that is full again. So a key is looked for in the write
//!    set first, then on the private pages.
//! 3. *Savepoints.* The write set's log says what was written after which savepoint. It is applied in that order, each
//!    part in a layer of the private pages. Going back drops layers.
//! 4. *Commit.* What is left in the write set of these trees is applied, everything is written, the state of the store
//!    is made durable and pinned ([`mvcc`](crate::mvcc)). Then, within the passage through the gate that applies the
//!    rest of the write set, the private pages take the place of the old ones.
//!
//! If locks are what takes the memory and nothing is written, the tree is locked shared, and that is all.
//!
//! Where a log of pages recovers, there are no private pages: the tree is locked as a whole, and what the transaction
//! has changed is bounded by [`Options::write_bytes_max`](crate::Options::write_bytes_max), since undo records and
//! versions of it are in memory.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    core::Core,
    options::Isolation,
    private::{Large, LargeTree},
    shared_keys,
    used::Covered,
};
use crate::{
    Error, Result, TreeId,
    access::{Change, Tree},
    lock::{LockName, key_mode, tree_mode},
    mvcc::{GAPS, KEYS, NO_END, TREES},
    recovery::PrivateChanges,
};

/// Bytes that a lock takes in memory with its key, about.
const LOCK_BYTES: usize = 160;
/// Bytes that a page takes in the cache.
const CACHED_BYTES: usize = crate::page::PAGE_BYTES + 128;
/// Number of keys that are applied between two looks at the interrupt.
const KEYS_BETWEEN_CHECKS: usize = 256;

/// The share of a tree in the transaction's memory.
#[derive(Default)]
struct Cost {
    bytes: usize,
    /// True if keys of it are written, or locked for more than reading.
    exclusive: bool,
}

fn memory_bytes(core: &Core) -> usize {
    core.writes.bytes() + core.state.bytes + core.locks.held_count() as usize * LOCK_BYTES
}

/// Frees memory if changes and locks take too much of it. To be called before there are more of them.
pub(super) fn relieve(core: &mut Core) -> Result<()> {
    if memory_bytes(core) < core.relieve_at { Ok(()) } else { relieve_now(core) }
}

fn relieve_now(core: &mut Core) -> Result<()> {
    if core.alone {
        return Err(Error::TransactionTooLarge);
    }
    let limit = core.inner().escalate_bytes;
    if core.observed.is_some() {
        // Others order what it changes, as a whole: it has no pages of its own.
        let left = memory_bytes(core);
        core.relieve_at = limit.max(left + limit / 4);
        return if left > core.inner().write_bytes_max { Err(Error::TransactionTooLarge) } else { Ok(()) };
    }
    let wait = memory_bytes(core) >= limit.saturating_mul(2);
    let mut costs: BTreeMap<TreeId, Cost> = BTreeMap::new();
    for (tree, writes) in core.writes.trees().filter(|(_, writes)| !writes.dropped) {
        let cost = costs.entry(tree).or_default();
        *cost = Cost { bytes: writes.bytes, exclusive: !writes.keys.is_empty() };
    }
    core.locks.visit_held(|name, mode| {
        if matches!(name.table, KEYS | GAPS) {
            let cost = costs.entry(TreeId(name.space)).or_default();
            cost.bytes += LOCK_BYTES;
            cost.exclusive |= name.table == KEYS && !matches!(mode, key_mode::S | key_mode::KS);
        }
    });
    let mut costs: Vec<(TreeId, Cost)> = costs.into_iter().collect();
    costs.sort_by_key(|(_, cost)| Reverse(cost.bytes));
    for (tree, cost) in costs {
        if cost.bytes == 0 || memory_bytes(core) <= limit / 2 {
            break;
        }
        if escalate(core, tree, cost.exclusive, wait)? {
            apply_privately(core, tree)?;
        }
    }
    let left = memory_bytes(core);
    let mapped = core.large.as_ref().map_or(0, |large| large.pages.map_bytes());
    if left.saturating_add(mapped) > core.inner().write_bytes_max {
        return Err(Error::TransactionTooLarge);
    }
    core.relieve_at = limit.max(left + limit / 4);
    Ok(())
}

/// Locks a tree as a whole instead of its keys. Returns true if the tree is changed on private pages from then
/// on. False if the lock would have to be waited for, and must not; if it is not `exclusive`; or if there are no
/// private pages.
fn escalate(core: &mut Core, id: TreeId, exclusive: bool, wait: bool) -> Result<bool> {
    if core.is_large(id) {
        return Ok(true);
    }
    let Some(at) = core.used.iter().position(|used| used.id == id) else { return Ok(false) };
    let was_covered = core.used[at].covered() >= Covered::Reads;
    let state = core.used[at].state.clone();
    if state.is_some() {
        let wanted = if exclusive { tree_mode::E } else { tree_mode::S };
        let mode = core.inner().locks.modes(TREES).supremum(core.used[at].mode, wanted);
        let name = LockName::whole(TREES, id.0);
        match wait {
            true => core.lock(name, mode)?,
            false if !core.locks.try_lock(name, mode) => return Ok(false),
            false => {}
        }
        core.used[at].mode = mode;
        // What is changed, or was read, was so before any savepoint perhaps.
        core.locks.keep(name);
        core.locks.release_where(|name| name.space == id.0 && (name.table == KEYS || name.table == GAPS));
    }
    if !exclusive {
        return Ok(false);
    }
    forget_pending(core, id);
    if !core.inner().properties.has_private_pages {
        // Its changes are on pages already, or will be when it commits.
        return Ok(false);
    }
    shared_keys::resolve(core, id)?;
    let statement = match (&state, core.options.isolation) {
        (Some(state), Isolation::ReadCommitted) if !was_covered => {
            core.snapshot.filter(|snapshot| state.generations.last() <= *snapshot)
        }
        _ => None,
    };
    let tree = state.map(|state| state.tree);
    let large = begin_pages(core)?;
    large.trees.insert(id, LargeTree { tree, made_in: 0, changed_in: 0, statement, own: BTreeSet::new() });
    Ok(true)
}

/// Returns the pages of the transaction's own, which it has from now on if not before.
///
/// # Errors
/// [`Error::Unsupported`] if the recovery method has none.
pub(super) fn begin_pages(core: &mut Core) -> Result<&mut Large> {
    let inner = &core.handle.inner;
    if core.large.is_none() {
        let pages = inner.method.private_pages(inner.escalate_bytes / CACHED_BYTES);
        core.large = pages.map(|pages| Box::new(Large::new(pages)));
    }
    core.large.as_deref_mut().ok_or(Error::Unsupported("private pages"))
}

/// Takes back what the transaction made pending in a tree, which is locked as a whole now.
fn forget_pending(core: &mut Core, id: TreeId) {
    let Some(state) = core.used.iter().find(|used| used.id == id).and_then(|used| used.state.clone()) else {
        return;
    };
    let (mut stay, mut count) = (Vec::with_capacity(core.pending.len() + 1), 0);
    for (tree, key) in &core.pending {
        stay.push(count);
        if tree.is_same(&state) {
            tree.remove_pending(key);
        } else {
            count += 1;
        }
    }
    stay.push(count);
    core.pending.retain(|(tree, _)| !tree.is_same(&state));
    for savepoint in &mut core.savepoints {
        savepoint.pending = stay[savepoint.pending];
    }
}

/// Applies what the write set says of a tree's keys to the private pages, and takes it out of the write set.
///
/// After an error the write set is as it was. What has been applied of it by then does no harm, since the write set
/// counts first; and of each savepoint's layer only what was so at that savepoint.
fn apply_privately(core: &mut Core, id: TreeId) -> Result<()> {
    let Some(large) = &mut core.large else { return Ok(()) };
    let Some(large_tree) = large.trees.get_mut(&id) else { return Ok(()) };
    let LargeTree { tree, made_in, changed_in, statement, own } = large_tree;
    if core.writes.tree(id).is_none_or(|writes| writes.keys.is_empty()) {
        return Ok(());
    }
    let state = core.used.iter().find(|used| used.id == id).and_then(|used| used.state.as_deref());
    let marks: Vec<usize> = core.savepoints.iter().map(|savepoint| savepoint.writes).collect();
    let layers = core.savepoints.iter().map(|savepoint| Large::layer_of(savepoint.number));
    let pages = &large.pages;
    let mut bytes = 0;
    for (layer, delta) in std::iter::once(0).chain(layers).zip(core.writes.deltas(id, &marks)) {
        if delta.is_empty() {
            continue;
        }
        // After an error, part of what comes later is there already.
        *changed_in = layer.max(*changed_in);
        pages.change_in(*changed_in);
        let tree = match tree {
            Some(tree) => *tree,
            None => {
                let size = core.writes.tree(id).map(|writes| writes.options.page_size).unwrap_or_default();
                let made = Tree::create(&pages, size)?;
                (*tree, *made_in) = (Some(made), *changed_in);
                made
            }
        };
        for (number, (key, write)) in delta.into_iter().enumerate() {
            if number % KEYS_BETWEEN_CHECKS == 0 {
                if let Some(interrupt) = &core.options.interrupt {
                    interrupt.check()?;
                }
                core.handle.inner.check_open()?;
            }
            if let (Some(snapshot), Some(state)) = (*statement, state)
                && state.versions.before(key, snapshot, NO_END).is_some()
            {
                own.insert(key.into());
            }
            bytes += key.len() + write.value_bytes().unwrap_or(0);
            // Operations were resolved when the tree was locked.
            let value = write.value(None)?;
            tree.update(&pages, key, &mut |_| match &value {
                Some(value) => Change::Put((&**value).into()),
                None => Change::Delete,
            })?;
        }
    }
    large.applied += 1;
    large.changed_bytes += bytes;
    core.writes.take_out(id, core.savepoints.iter_mut().map(|savepoint| &mut savepoint.writes));
    Ok(())
}

/// Gives up the private pages of a tree that this transaction has made, and that ends with it.
pub(super) fn drop_private(core: &mut Core, id: TreeId) -> Result<()> {
    let layer = core.layer();
    if let Some(large) = &mut core.large
        && core.writes.tree(id).is_some_and(|writes| writes.created)
        && let Some(LargeTree { tree: Some(tree), changed_in, .. }) = large.trees.get_mut(&id)
    {
        *changed_in = layer.max(*changed_in);
        large.pages.change_in(*changed_in);
        tree.reclaim(&&large.pages, usize::MAX)?;
    }
    Ok(())
}

/// See [`Transaction::settle`](crate::Transaction::settle).
pub(super) fn settle(core: &mut Core) -> Result<()> {
    let Some(large) = &core.large else { return Ok(()) };
    let trees: Vec<TreeId> = large.trees.keys().copied().collect();
    for tree in trees {
        if core.writes.tree(tree).is_some_and(|writes| !writes.dropped) {
            apply_privately(core, tree)?;
        }
    }
    match &core.large {
        Some(large) if core.savepoints.is_empty() => large.pages.finish(),
        _ => Ok(()),
    }
}

/// Makes private pages ready to be committed.
pub(super) fn finish_large(core: &mut Core) -> Result<Option<PrivateChanges>> {
    core.savepoints.clear();
    core.writes.forget_marks();
    if let Some(large) = &mut core.large {
        large.end_loads()?;
    }
    settle(core)?;
    let Some(large) = core.large.take().filter(|large| large.pages.len().0 > 0) else { return Ok(None) };
    let mut replaced = Vec::new();
    for (id, tree) in &large.trees {
        let used = core.used.iter().find(|used| used.id == *id);
        let dropped = core.writes.tree(*id).is_some_and(|writes| writes.dropped);
        match (used.and_then(|used| used.state.clone()), tree.tree) {
            (Some(state), _) if !dropped => replaced.push(state),
            (None, Some(tree)) if !dropped => core.writes.set_made(*id, tree),
            _ => {}
        }
    }
    let before = if replaced.is_empty() {
        None
    } else {
        // Everything that was committed of these trees is applied, since they are locked.
        Some(core.inner().method.pin()?)
    };
    let Large { pages, changed_bytes, .. } = *large;
    Ok(Some(PrivateChanges { pages, replaced, before, changed_bytes }))
}

#[cfg(all(test, not(shuttle)))]
mod tests;
