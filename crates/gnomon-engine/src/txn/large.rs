//! Large transactions: escalation when a transaction's changes and locks take too much memory (Shadows, section 4.2).
//!
//! 1. *Escalation.* The transaction locks its largest trees as a whole, against all but readers at snapshots, and
//!    gives its locks on keys of them back. It does not wait for that until its memory is twice what it should be.
//!    The lock stays until the transaction ends, whatever savepoint it goes back to.
//! 2. *Private pages.* What the write set says of such a tree is applied to pages of the transaction's own
//!    ([`PrivatePages`]), in the order of keys, and taken out of the write set. Further changes need no locks; they are
//!    collected in the write set as before, and applied when that is full again. So a key is looked for in the write
//!    set first, then on the private pages.
//! 3. *Savepoints.* The write set's log says what was written after which savepoint. It is applied in that order, each
//!    part in a layer of the private pages. Going back drops layers.
//! 4. *Commit.* What is left in the write set of these trees is applied, everything is written, the state of the store
//!    is made durable and pinned ([`epoch`](super::epoch)). Then, within the passage through the gate that applies the
//!    rest of the write set, the private pages take the place of the old ones.
//!
//! If locks are what takes the memory and nothing is written, the tree is locked shared, and that is all.
//!
//! Where a log of pages recovers, there are no private pages: the tree is locked as a whole, and what the transaction
//! has changed is bounded by [`Options::write_bytes_max`](crate::Options::write_bytes_max), since undo records and
//! versions of it are in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    database::{GAPS, Inner, KEYS, TREES},
    epoch::NO_END,
    transaction::{Covered, Isolation, Transaction},
    tree::TreeRef,
};
use crate::{
    Csn, Error, Result, TreeId,
    access::{Change, Tree},
    lock::{LockName, key_mode, tree_mode},
    store::{
        GroupCommit,
        shadow::{PageTxn, PinnedRoot, PrivatePages},
    },
    sync::Arc,
};

/// Bytes that a lock takes in memory with its key, about.
const LOCK_BYTES: usize = 160;
/// Bytes that a page takes in the cache.
const CACHED_BYTES: usize = crate::page::PAGE_BYTES + 128;
/// Number of keys that are applied between two looks at the interrupt.
const KEYS_BETWEEN_CHECKS: usize = 256;

/// The trees that a transaction changes on pages of its own, and these pages.
pub(super) struct Large {
    pages: PrivatePages,
    trees: BTreeMap<TreeId, LargeTree>,
    /// Number of times that changes were applied to the pages: what was read ahead before counts no more.
    applied: u64,
    /// Bytes of keys and values that were applied.
    changed_bytes: usize,
}

struct LargeTree {
    /// None as long as the transaction makes it and it is empty.
    tree: Option<Tree>,
    /// The layer that it was made in; zero if it was there before.
    made_in: u64,
    /// The uppermost layer that it was changed in, or one above.
    changed_in: u64,
    /// Under READ COMMITTED, the snapshot of the statement that was under way when the tree was locked: it sees nothing
    /// newer.
    statement: Option<Csn>,
    /// Keys that have a version after that snapshot and were written by this transaction, so that the version does not
    /// count.
    own: BTreeSet<Box<[u8]>>,
}

/// Everything that is needed to commit private pages.
pub(super) struct Finished {
    pages: PrivatePages,
    /// The trees that others know.
    replaced: Vec<TreeRef>,
    before: Option<Arc<PinnedRoot>>,
    changed_bytes: usize,
}

/// The share of a tree in the transaction's memory.
#[derive(Default)]
struct Cost {
    bytes: usize,
    /// True if keys of it are written, or locked for more than reading.
    exclusive: bool,
}

impl Large {
    pub fn layer_of(savepoint: u64) -> u64 {
        savepoint + 1
    }

    /// Undoes what was applied since a savepoint.
    pub fn go_back(&mut self, savepoint: u64) {
        let layer = Large::layer_of(savepoint);
        self.pages.drop_layers(layer);
        self.trees.retain(|_, tree| tree.made_in < layer);
        let uppermost = self.pages.uppermost();
        self.trees.values_mut().for_each(|tree| tree.changed_in = tree.changed_in.min(uppermost));
        self.applied += 1;
    }

    /// Forgets a savepoint and those after it; `before` is the one before.
    pub fn release(&mut self, savepoint: u64, before: Option<u64>) {
        let (layer, into) = (Large::layer_of(savepoint), before.map_or(0, Large::layer_of));
        self.pages.merge_layers(layer, into);
        for tree in self.trees.values_mut() {
            for number in [&mut tree.made_in, &mut tree.changed_in] {
                *number = if *number >= layer { into } else { *number };
            }
        }
    }

    pub fn end_statement(&mut self) {
        for tree in self.trees.values_mut() {
            tree.statement = None;
            tree.own.clear();
        }
    }
}

impl Transaction {
    fn memory_bytes(&self) -> usize {
        self.writes.bytes() + self.immediate.bytes() + self.locks.held_count() as usize * LOCK_BYTES
    }

    /// Frees memory if changes and locks take too much of it. To be called before there are more of them.
    pub(super) fn relieve(&mut self) -> Result<()> {
        if self.memory_bytes() < self.relieve_at { Ok(()) } else { self.relieve_now() }
    }

    fn relieve_now(&mut self) -> Result<()> {
        if self.alone {
            return Err(Error::TransactionTooLarge);
        }
        let limit = self.inner().escalate_bytes;
        if self.observed.is_some() {
            // Others order what it changes, as a whole: it has no pages of its own.
            let left = self.memory_bytes();
            self.relieve_at = limit.max(left + limit / 4);
            return if left > self.inner().write_bytes_max {
                Err(Error::TransactionTooLarge)
            } else {
                Ok(())
            };
        }
        let wait = self.memory_bytes() >= limit.saturating_mul(2);
        let mut costs: BTreeMap<TreeId, Cost> = BTreeMap::new();
        for (tree, writes) in self.writes.trees().filter(|(_, writes)| !writes.dropped) {
            let cost = costs.entry(tree).or_default();
            *cost = Cost { bytes: writes.bytes, exclusive: !writes.keys.is_empty() };
        }
        self.locks.visit_held(|name, mode| {
            if matches!(name.table, KEYS | GAPS) {
                let cost = costs.entry(TreeId(name.space)).or_default();
                cost.bytes += LOCK_BYTES;
                cost.exclusive |= name.table == KEYS && !matches!(mode, key_mode::S | key_mode::KS);
            }
        });
        let mut costs: Vec<(TreeId, Cost)> = costs.into_iter().collect();
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.bytes));
        for (tree, cost) in costs {
            if cost.bytes == 0 || self.memory_bytes() <= limit / 2 {
                break;
            }
            if self.escalate(tree, cost.exclusive, wait)? {
                self.apply_privately(tree)?;
            }
        }
        let left = self.memory_bytes();
        let mapped = self.large.as_ref().map_or(0, |large| large.pages.map_bytes());
        if left.saturating_add(mapped) > self.inner().write_bytes_max {
            return Err(Error::TransactionTooLarge);
        }
        self.relieve_at = limit.max(left + limit / 4);
        Ok(())
    }

    /// Locks a tree as a whole instead of its keys. Returns true if the tree is changed on private pages from then
    /// on. False if the lock would have to be waited for, and must not; if it is not `exclusive`; or if there are no
    /// private pages.
    fn escalate(&mut self, id: TreeId, exclusive: bool, wait: bool) -> Result<bool> {
        if self.is_large(id) {
            return Ok(true);
        }
        let Some(at) = self.used.iter().position(|used| used.id == id) else { return Ok(false) };
        let was_covered = self.used[at].covered() >= Covered::Reads;
        let state = self.used[at].state.clone();
        if state.is_some() {
            let wanted = if exclusive { tree_mode::E } else { tree_mode::S };
            let mode = self.inner().locks.modes(TREES).supremum(self.used[at].mode, wanted);
            let name = LockName::whole(TREES, id.0);
            match wait {
                true => self.lock(name, mode)?,
                false if !self.locks.try_lock(name, mode) => return Ok(false),
                false => {}
            }
            self.used[at].mode = mode;
            // What is changed, or was read, was so before any savepoint perhaps.
            self.locks.keep(name);
            self.locks.release_where(|name| name.space == id.0 && (name.table == KEYS || name.table == GAPS));
        }
        if !exclusive {
            return Ok(false);
        }
        self.forget_pending(id);
        if self.inner().store.logged().is_some() {
            // Its changes are on pages already, or will be when it commits.
            return Ok(false);
        }
        self.resolve(id)?;
        let statement = match (&state, self.options().isolation) {
            (Some(state), Isolation::ReadCommitted) if !was_covered => {
                self.snapshot().filter(|snapshot| state.epochs.last() <= *snapshot)
            }
            _ => None,
        };
        let tree = state.map(|state| state.tree);
        let store = self.inner().store.shadow_for("private pages")?.clone();
        let bytes = self.inner().escalate_bytes;
        let large = self.large.get_or_insert_with(|| {
            Box::new(Large {
                pages: PrivatePages::new(&store, bytes / CACHED_BYTES),
                trees: BTreeMap::new(),
                applied: 0,
                changed_bytes: 0,
            })
        });
        large
            .trees
            .insert(id, LargeTree { tree, made_in: 0, changed_in: 0, statement, own: BTreeSet::new() });
        Ok(true)
    }

    /// Takes back what the transaction made pending in a tree, which is locked as a whole now.
    fn forget_pending(&mut self, id: TreeId) {
        let Some(state) = self.used.iter().find(|used| used.id == id).and_then(|used| used.state.clone())
        else {
            return;
        };
        let (mut stay, mut count) = (Vec::with_capacity(self.pending.len() + 1), 0);
        for (tree, key) in &self.pending {
            stay.push(count);
            if tree.is_same(&state) {
                tree.remove_pending(key);
            } else {
                count += 1;
            }
        }
        stay.push(count);
        self.pending.retain(|(tree, _)| !tree.is_same(&state));
        for savepoint in &mut self.savepoints {
            savepoint.pending = stay[savepoint.pending];
        }
    }

    /// Applies what the write set says of a tree's keys to the private pages, and takes it out of the write set.
    ///
    /// After an error the write set is as it was. What has been applied of it by then does no harm, since the write set
    /// counts first; and of each savepoint's layer only what was so at that savepoint.
    fn apply_privately(&mut self, id: TreeId) -> Result<()> {
        let Some(large) = &mut self.large else { return Ok(()) };
        let Some(large_tree) = large.trees.get_mut(&id) else { return Ok(()) };
        let LargeTree { tree, made_in, changed_in, statement, own } = large_tree;
        if self.writes.tree(id).is_none_or(|writes| writes.keys.is_empty()) {
            return Ok(());
        }
        let state = self.used.iter().find(|used| used.id == id).and_then(|used| used.state.as_deref());
        let marks: Vec<usize> = self.savepoints.iter().map(|savepoint| savepoint.writes).collect();
        let layers = self.savepoints.iter().map(|savepoint| Large::layer_of(savepoint.number));
        let pages = &large.pages;
        let mut bytes = 0;
        for (layer, delta) in std::iter::once(0).chain(layers).zip(self.writes.deltas(id, &marks)) {
            if delta.is_empty() {
                continue;
            }
            // After an error, part of what comes later is there already.
            *changed_in = layer.max(*changed_in);
            pages.change_in(*changed_in);
            let tree = match tree {
                Some(tree) => *tree,
                None => {
                    let size =
                        self.writes.tree(id).map(|writes| writes.options.page_size).unwrap_or_default();
                    let made = Tree::create(&pages, size)?;
                    (*tree, *made_in) = (Some(made), *changed_in);
                    made
                }
            };
            for (number, (key, write)) in delta.into_iter().enumerate() {
                if number % KEYS_BETWEEN_CHECKS == 0 {
                    if let Some(interrupt) = &self.options.interrupt {
                        interrupt.check()?;
                    }
                    self.handle.inner.check_open()?;
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
        self.writes.take_out(id, self.savepoints.iter_mut().map(|savepoint| &mut savepoint.writes));
        Ok(())
    }

    /// True if the transaction changes a tree on pages of its own.
    pub(super) fn is_large(&self, tree: TreeId) -> bool {
        self.large.as_ref().is_some_and(|large| large.trees.contains_key(&tree))
    }

    /// True if the transaction has changed pages of its own.
    pub(super) fn has_pages(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.pages.len().0 > 0)
    }

    /// Returns the private pages and the tree in them, if it is changed there.
    pub(super) fn private(&self, id: TreeId) -> Option<(&PrivatePages, Option<Tree>)> {
        let large = self.large.as_ref()?;
        large.trees.get(&id).map(|tree| (&large.pages, tree.tree))
    }

    /// Returns how often changes were applied to private pages.
    pub(super) fn applied(&self) -> u64 {
        self.large.as_ref().map_or(0, |large| large.applied)
    }

    /// Returns the snapshot at which the statement under way still reads a tree that the transaction has locked as a
    /// whole.
    pub(super) fn statement_of(&self, id: TreeId) -> Option<Csn> {
        self.large.as_ref()?.trees.get(&id)?.statement
    }

    /// True if versions of a key do not count, since the transaction has written it.
    pub(super) fn is_own(&self, id: TreeId, key: &[u8]) -> bool {
        self.large.as_ref().and_then(|large| large.trees.get(&id)).is_some_and(|tree| tree.own.contains(key))
    }

    /// Gives up the private pages of a tree that this transaction has made, and that ends with it.
    pub(super) fn drop_private(&mut self, id: TreeId) -> Result<()> {
        let layer = self.savepoints.last().map_or(0, |savepoint| Large::layer_of(savepoint.number));
        if let Some(large) = &mut self.large
            && self.writes.tree(id).is_some_and(|writes| writes.created)
            && let Some(LargeTree { tree: Some(tree), changed_in, .. }) = large.trees.get_mut(&id)
        {
            *changed_in = layer.max(*changed_in);
            large.pages.change_in(*changed_in);
            tree.reclaim(&&large.pages, usize::MAX)?;
        }
        Ok(())
    }

    /// Does what can be done of a commit beforehand: writes what a large transaction has changed on pages. Calling it
    /// is never needed; an application that holds locks of its own during the commit holds them shorter.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and those of reading pages.
    pub fn settle(&mut self) -> Result<()> {
        let Some(large) = &self.large else { return Ok(()) };
        let trees: Vec<TreeId> = large.trees.keys().copied().collect();
        for tree in trees {
            if self.writes.tree(tree).is_some_and(|writes| !writes.dropped) {
                self.apply_privately(tree)?;
            }
        }
        match &self.large {
            Some(large) if self.savepoints.is_empty() => large.pages.finish(),
            _ => Ok(()),
        }
    }

    /// Makes private pages ready to be committed.
    pub(super) fn finish_large(&mut self) -> Result<Option<Finished>> {
        self.savepoints.clear();
        self.writes.forget_marks();
        self.settle()?;
        let Some(large) = self.large.take().filter(|large| large.pages.len().0 > 0) else { return Ok(None) };
        let mut replaced = Vec::new();
        for (id, tree) in &large.trees {
            let used = self.used.iter().find(|used| used.id == *id);
            let dropped = self.writes.tree(*id).is_some_and(|writes| writes.dropped);
            match (used.and_then(|used| used.state.clone()), tree.tree) {
                (Some(state), _) if !dropped => replaced.push(state),
                (None, Some(tree)) if !dropped => self.writes.set_made(*id, tree),
                _ => {}
            }
        }
        let before = if replaced.is_empty() {
            None
        } else {
            // Everything that was committed of these trees is applied, since they are locked.
            let store = self.inner().store.shadow_for("private pages")?;
            store.flush()?;
            Some(Arc::new(store.pin()))
        };
        let Large { pages, changed_bytes, .. } = *large;
        Ok(Some(Finished { pages, replaced, before, changed_bytes }))
    }
}

impl Finished {
    pub fn pages(&self) -> &PrivatePages {
        &self.pages
    }

    /// Puts the pages in the place of the old ones, as part of commit `csn`.
    pub fn publish(self, inner: &Inner, pages: &PageTxn<'_>, csn: Csn) {
        if let Some(before) = self.before {
            for state in &self.replaced {
                state.epochs.begin(csn, before.clone());
            }
            inner.timeline.replaced(csn, self.replaced);
        }
        pages.publish(self.pages);
        pages.note_changed(self.changed_bytes);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
