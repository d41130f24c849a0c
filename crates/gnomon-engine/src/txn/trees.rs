//! The trees that a transaction uses: locked as a whole, in the mode that its accesses need.

use super::{
    core::Core,
    partition::{Confined, Partitions, executors_of, partitions_of, replicated},
    strength::TreeLock,
    used::Used,
};
use crate::{
    Error, Result, TreeId,
    access::Placement,
    lock::{LockName, Mode, key_mode, tree_mode},
    mvcc::{GAPS, TREES},
};

/// Locks a tree as a whole in at least `mode`, and returns it.
pub(super) fn use_tree(core: &mut Core, id: TreeId, mode: Mode) -> Result<Used> {
    if core.writes.tree(id).is_some_and(|writes| writes.dropped) {
        return Err(Error::NoSuchTree(id));
    }
    // No other transaction uses it.
    let mode = if core.alone { tree_mode::X } else { mode };
    let at = core.used.iter().position(|used| used.id == id);
    // What it holds, and what that is to become.
    let modes = at.map(|at| {
        let held = core.used[at].mode;
        (held, core.inner().locks.modes(TREES).supremum(held, mode))
    });
    if !core.alone
        && modes.is_none_or(|(held, wanted)| wanted != held)
        && let Some(used) = use_placed(core, id, mode)?
    {
        return Ok(used);
    }
    if let (Some(at), Some((held, wanted))) = (at, modes) {
        if wanted != held {
            if core.used[at].state.is_some() {
                core.lock(LockName::whole(TREES, id.0), wanted)?;
            }
            core.used[at].mode = wanted;
        }
        let used = core.used[at].clone();
        if wanted != held {
            core.rest_on_tree(&used)?;
        }
        return Ok(used);
    }
    core.check()?;
    if !core.alone {
        core.lock(LockName::whole(TREES, id.0), mode)?;
    }
    // After the lock: a transaction that dropped the tree held it exclusively.
    let state = core.inner().tree(id)?;
    let used = Used { id, state: Some(state), mode };
    core.used.push(used.clone());
    core.rest_on_tree(&used)?;
    Ok(used)
}

/// Uses a tree that is placed: a transaction that has its partitions needs no lock on it. None if the tree is in
/// no partition, or new, or calls run under locks.
pub(super) fn use_placed(core: &mut Core, id: TreeId, mode: Mode) -> Result<Option<Used>> {
    let executors = core.inner().executors;
    if executors == 0 {
        return Ok(None);
    }
    let state = match core.used.iter().find(|used| used.id == id) {
        Some(Used { state: None, .. }) => return Ok(None),
        Some(Used { state: Some(state), .. }) => state.clone(),
        None => core.inner().tree(id)?,
    };
    let writes = !tree_mode::only_reads(mode);
    let needed = match (state.placement, writes) {
        (Placement::Anywhere, _) => match core.confined {
            Confined::No => return Ok(None),
            Confined::To(_) => {
                return Err(Error::NotRouted(
                    format!(
                        "tree {id} is in no partition, and a call that runs serially uses none such: make it with a \
                         placement"
                    )
                    .into(),
                ));
            }
        },
        (Placement::Partition(partition), _) => executors_of(executors, &Partitions::One(partition)),
        (Placement::Replicated, true) => executors_of(executors, &Partitions::All),
        (Placement::Replicated, false) => match &core.confined {
            Confined::To(held) => held[..1].to_vec(),
            Confined::No => Vec::new(),
        },
    };
    match &core.confined {
        Confined::To(held) => {
            if let Some(lacking) = needed.iter().find(|executor| !held.contains(executor)) {
                return Err(Error::NotRouted(
                    format!(
                        "tree {id} is in partitions of executor {lacking}, and the call was not routed there: what \
                         its procedure gives `with_partitions` must tell all partitions that it uses"
                    )
                    .into(),
                ));
            }
        }
        Confined::No => {
            core.check()?;
            // A client that reads a partition may come to write it: two that both waited for that would be a
            // deadlock.
            let is_own = matches!(state.placement, Placement::Partition(_)) && !core.options.read_only;
            for executor in needed {
                let mode = if writes || is_own { key_mode::X } else { key_mode::S };
                core.lock(partitions_of(executor), mode)?;
            }
            if state.placement == Placement::Replicated {
                core.lock(replicated(), if writes { key_mode::X } else { key_mode::S })?;
            }
        }
    }
    let state = match &core.confined {
        Confined::To(_) => state,
        // After the lock: a transaction that dropped the tree had it.
        Confined::No => core.inner().tree(id)?,
    };
    // A call that may read what is replicated may not write it for that.
    let is_own = matches!((state.placement, &core.confined), (Placement::Partition(_), Confined::To(_)));
    let mode = if writes || is_own { tree_mode::X } else { tree_mode::S };
    let used = Used { id, state: Some(state), mode };
    match core.used.iter_mut().find(|used| used.id == id) {
        Some(known) => *known = used.clone(),
        None => core.used.push(used.clone()),
    }
    Ok(Some(used))
}

/// See [`Transaction::lock_tree`](crate::Transaction::lock_tree).
pub(super) fn lock_tree(core: &mut Core, tree: TreeId, lock: TreeLock) -> Result<()> {
    let mode = if lock == TreeLock::Access { core.read_mode() } else { lock.mode() };
    use_tree(core, tree, mode).map(|_| ())
}

/// See [`Transaction::prefetch`](crate::Transaction::prefetch).
pub(super) fn prefetch(core: &mut Core, tree: TreeId, keys: &[impl AsRef<[u8]>]) -> Result<()> {
    let used = use_tree(core, tree, core.read_mode())?;
    let Some(state) = used.state.as_deref().filter(|_| core.private(tree).is_none()) else {
        return Ok(());
    };
    let mut found = vec![None; keys.len()];
    state.tree.prefetch(&core.inner().store, keys, &mut found);
    core.ahead.note(tree, keys.iter().map(AsRef::as_ref).zip(found));
    Ok(())
}

/// Returns the lock on the gap before a key; with none, on what is after the last key.
pub(super) fn gap_name(tree: TreeId, before: Option<&[u8]>) -> LockName<'_> {
    match before {
        Some(key) => LockName::key(GAPS, tree.0, key),
        None => LockName::end(GAPS, tree.0),
    }
}
