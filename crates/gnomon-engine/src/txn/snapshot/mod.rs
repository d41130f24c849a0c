//! Snapshots as handles: one state of the database, read from several threads and by several scans at a time.
//!
//! Promises: all reads of a [`Snapshot`] and of its clones see what was committed at one CSN, and nothing later. They
//! lock no keys and wait for no other transaction, but the first read of a tree waits for one that is about to end the
//! tree (drop, truncation). A [`SnapshotRange`] goes from both ends of its range, gives each entry once, and ends when
//! the ends meet.
//!
//! How: the timeline counts the snapshot once, whatever the number of clones, and the version store keeps what it
//! needs. When a tree is read first, it is locked as every transaction that reads at a snapshot locks it
//! ([`TreeLock::Access`](super::TreeLock)), until the last clone is dropped: its pages stay. A range keeps the part of
//! itself that was not read yet. Either end takes a leaf from it and shortens it, so the ends need not know of each other.
//!
//! Not here: own writes and isolation levels, which a [`Transaction`](super::Transaction) has; trees in partitions
//! where procedures run serially, which have no versions. Two threads that use one snapshot wait for each other while
//! one of them waits for a tree; deadlock detection does not see that, the lock timeout ends it.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use super::{
    leaf_part::{LeafPart, Passed, seek},
    shared::Handle,
};
use crate::{
    Csn, Error, Result, TreeId,
    access::{Direction, EntryPlace, Extent, KeyRange, Placement},
    lock::{LockName, LockOwner, WaitOptions, tree_mode},
    mvcc::{ReadAt, TREES, TreeRef, TreeState},
    sync::{Arc, Mutex, RwLock},
};

/// One state of the database, to be read. Clones are handles of the same one.
#[derive(Clone)]
pub struct Snapshot(Arc<State>);

struct State {
    handle: Arc<Handle>,
    csn: Csn,
    /// The trees that were read, each locked against its end.
    trees: RwLock<BTreeMap<TreeId, TreeRef>>,
    locks: Mutex<LockOwner>,
}

impl Snapshot {
    /// See [`Database::snapshot`](crate::Database::snapshot).
    pub(crate) fn take(handle: Arc<Handle>, after: Csn) -> Result<Snapshot> {
        handle.check_begin()?;
        let inner = &handle.inner;
        let after = after.min(inner.store.last_csn());
        inner.timeline.wait_for(after, || inner.store.check())?;
        let csn = inner.timeline.take_snapshot(|| inner.settled_csn().max(after));
        let locks = Mutex::new(inner.locks.owner(inner.new_txn_id()));
        Ok(Snapshot(Arc::new(State { handle, csn, trees: RwLock::default(), locks })))
    }

    /// Returns the newest commit that it has.
    pub fn csn(&self) -> Csn {
        self.0.csn
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::NoSuchTree`], also of a tree that was made later; [`Error::SnapshotTooOld`] if the snapshot was ended;
    /// [`Error::NotRouted`] of a tree in a partition, where procedures run serially; those of locks and of reading.
    pub fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let tree = self.0.tree(tree)?;
        self.0.value(&tree, key)
    }

    /// Returns how many entries and bytes a tree has, about: large ones are estimated from a few of their pages.
    /// Changes that are not applied yet do not count. None if a transaction is about to end the tree, which is not
    /// waited for, and in a partition where procedures run serially.
    ///
    /// # Errors
    /// [`Error::NoSuchTree`], also of a tree that was made later; those of reading.
    pub fn extent(&self, tree: TreeId) -> Result<Option<Extent>> {
        let tree = match self.0.tree_within(tree, Some(Duration::ZERO)) {
            Ok(tree) => tree,
            Err(Error::LockTimeout | Error::NotRouted(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let inner = &self.0.handle.inner;
        let extent = tree.generations.read(&inner.store, ReadAt::Newest, |pages, _| tree.tree.extent(pages));
        extent.map(Some)
    }

    /// Returns the entries of a range, from both ends.
    ///
    /// # Errors
    /// As [`Snapshot::get`]; what fails later is given by the range.
    pub fn range(&self, tree: TreeId, range: KeyRange) -> Result<SnapshotRange> {
        let tree = self.0.tree(tree)?;
        let unread = (!range.is_empty()).then_some(range);
        let (snapshot, key, value) = (self.clone(), Vec::new(), Vec::new());
        Ok(SnapshotRange { snapshot, tree, unread, low: None, high: None, key, value })
    }
}

impl State {
    /// Returns a tree, which is locked against its end from the first time on.
    fn tree(&self, id: TreeId) -> Result<TreeRef> {
        self.tree_within(id, self.handle.inner.lock_timeout)
    }

    /// Returns a tree, whose lock is waited for no longer than this.
    fn tree_within(&self, id: TreeId, timeout: Option<Duration>) -> Result<TreeRef> {
        let inner = &self.handle.inner;
        inner.check_open()?;
        inner.store.check()?;
        if let Some(tree) = self.trees.read().get(&id) {
            return Ok(tree.clone());
        }
        let options = WaitOptions {
            timeout,
            interrupt: None,
            nowait: timeout == Some(Duration::ZERO),
            ..WaitOptions::default()
        };
        self.locks.lock().lock(LockName::whole(TREES, id.0), tree_mode::A, &options)?;
        // After the lock: a transaction that dropped the tree held it exclusively.
        let tree = inner.tree(id)?;
        if tree.created > self.csn {
            return Err(Error::NoSuchTree(id));
        }
        if inner.is_serial && tree.placement != Placement::Anywhere {
            return Err(Error::NotRouted(
                format!("tree {id} is in a partition, which has no snapshots: read it in a transaction")
                    .into(),
            ));
        }
        self.trees.write().insert(id, tree.clone());
        Ok(tree)
    }

    fn value(&self, tree: &TreeState, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let inner = &self.handle.inner;
        let value = tree.generations.read(&inner.store, ReadAt::Snapshot(self.csn), |pages, end| {
            let newest = tree.tree.get(pages, key)?;
            // Looked up after the tree was read: see the version store.
            let before = tree.versions.before(key, self.csn, end);
            Ok(before.map_or(newest, |before| before.map(|before| before.to_vec())))
        });
        inner.timeline.check_snapshot(self.csn)?;
        value
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.locks.get_mut().release_all();
        let inner = &self.handle.inner;
        if inner.timeline.release_snapshot(self.csn) {
            inner.prune();
        }
    }
}

/// The entries of a range at a snapshot, from both ends: keys with their values. It ends behind an error.
pub struct SnapshotRange {
    snapshot: Snapshot,
    tree: TreeRef,
    /// The part between the ends that was not read yet; none if all was.
    unread: Option<KeyRange>,
    /// The leaf that was read last at the lower end.
    low: Option<LeafPart>,
    /// The leaf that was read last at the upper end.
    high: Option<LeafPart>,
    /// The entry that was returned last, if it is not in a leaf.
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The place of an entry that a range returns.
#[derive(Clone, Copy)]
enum Found {
    /// The leaf at an end of the range.
    InLeaf(Direction, EntryPlace),
    /// The buffers of the range.
    Copied,
}

impl SnapshotRange {
    /// Returns the next entry, a key with its value; none at the end. Lends it until the next step, mostly from where
    /// it is stored.
    ///
    /// # Errors
    /// As of the entries of the iterator.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.lend(Direction::Forward)
    }

    /// As [`SnapshotRange::next_ref`], from the upper end.
    ///
    /// # Errors
    /// The same.
    pub fn next_back_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.lend(Direction::Backward)
    }

    fn lend(&mut self, from: Direction) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.find(from)?.map(|found| self.found(found)))
    }

    fn copy_next(&mut self, from: Direction) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(self.find(from)?.map(|found| match found {
            Found::Copied => (std::mem::take(&mut self.key), std::mem::take(&mut self.value)),
            found => {
                let (key, value) = self.found(found);
                (key.to_vec(), value.to_vec())
            }
        }))
    }

    #[inline]
    fn found(&self, found: Found) -> (&[u8], &[u8]) {
        if let Found::InLeaf(end, place) = found
            && let Some(part) = self.end(end)
        {
            return part.at(place);
        }
        (&self.key, &self.value)
    }

    /// The leaf at an end.
    #[inline]
    fn end(&self, end: Direction) -> Option<&LeafPart> {
        match end {
            Direction::Forward => self.low.as_ref(),
            Direction::Backward => self.high.as_ref(),
        }
    }

    fn find(&mut self, from: Direction) -> Result<Option<Found>> {
        let found = self.try_find(from);
        if found.is_err() {
            (self.unread, self.low, self.high) = (None, None, None);
        }
        found
    }

    fn try_find(&mut self, from: Direction) -> Result<Option<Found>> {
        let other = match from {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        // Nearly always: an entry of the leaf that was read last.
        if let Some(index) = self.end_mut(from).as_mut().and_then(|part| part.pass_unchanged(from))
            && let Some(found) = self.show_stored(from, index)?
        {
            return Ok(Some(found));
        }
        loop {
            if let Some(passed) = self.pass(from, from)? {
                match self.show(from, passed)? {
                    None => continue,
                    found => return Ok(found),
                }
            }
            if self.unread.is_some() {
                self.read_leaf(from)?;
                continue;
            }
            // The ends have met.
            let Some(passed) = self.pass(other, from)? else { return Ok(None) };
            if let Some(found) = self.show(other, passed)? {
                return Ok(Some(found));
            }
        }
    }

    #[inline]
    fn end_mut(&mut self, end: Direction) -> &mut Option<LeafPart> {
        match end {
            Direction::Forward => &mut self.low,
            Direction::Backward => &mut self.high,
        }
    }

    /// Passes an entry of the leaf at an end of the range, in a direction.
    fn pass(&mut self, end: Direction, from: Direction) -> Result<Option<Passed>> {
        self.end_mut(end).as_mut().map_or(Ok(None), |part| part.pass(from))
    }

    /// Returns an entry that was passed, of the leaf at an end; none if it is not there at the snapshot.
    fn show(&mut self, end: Direction, passed: Passed) -> Result<Option<Found>> {
        match passed {
            Passed::InLeaf(index) => self.show_stored(end, index),
            Passed::Version(key, value) => {
                (self.key, self.value) = (key.into_vec(), value.to_vec());
                Ok(Some(Found::Copied))
            }
        }
    }

    /// As [`SnapshotRange::show`], of an entry of the leaf.
    #[inline]
    fn show_stored(&mut self, end: Direction, index: usize) -> Result<Option<Found>> {
        let Some(part) = self.end(end) else { return Ok(None) };
        if let Some(place) = part.place(index)? {
            return Ok(Some(Found::InLeaf(end, place)));
        }
        let key = part.entry(index)?.0.to_vec();
        let Some(value) = self.snapshot.0.value(&self.tree, &key)? else { return Ok(None) };
        (self.key, self.value) = (key, value);
        Ok(Some(Found::Copied))
    }

    /// Reads the next leaf at one end.
    fn read_leaf(&mut self, from: Direction) -> Result<()> {
        let Some(unread) = &self.unread else { return Ok(()) };
        let unread = unread.as_bounds();
        let (state, tree) = (&*self.snapshot.0, &*self.tree);
        let inner = &state.handle.inner;
        inner.check_open()?;
        let read = tree.generations.read(&inner.store, ReadAt::Snapshot(state.csn), |pages, end| {
            let view = match self.end(from) {
                Some(part) => tree.tree.leaf_near(pages, part.view(), seek(unread, from))?,
                None => tree.tree.leaf(pages, seek(unread, from))?,
            };
            // Looked up after the leaf was read: see the version store.
            LeafPart::of_scan(view, unread, from, |bounds| tree.versions.changed(bounds, state.csn, end))
        });
        inner.timeline.check_snapshot(state.csn)?;
        let (part, rest) = read?;
        let unread = self.unread.take().zip(rest).map(|(unread, rest)| match from {
            Direction::Forward => KeyRange { start: rest, ..unread },
            Direction::Backward => KeyRange { end: rest, ..unread },
        });
        self.unread = unread.filter(|unread| !unread.is_empty());
        *self.end_mut(from) = Some(part);
        Ok(())
    }
}

impl Iterator for SnapshotRange {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.copy_next(Direction::Forward).transpose()
    }
}

impl DoubleEndedIterator for SnapshotRange {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.copy_next(Direction::Backward).transpose()
    }
}

impl std::iter::FusedIterator for SnapshotRange {}
