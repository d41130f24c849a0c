//! Commit: through the gate, into the trees, out of the locks; and the ticket for what remains, to become durable.

use super::{
    database::{Handle, Inner},
    transaction::Transaction,
    tree::TreeState,
    versions::ChangedKey,
    writes::{TreeWrites, WriteSet},
};
#[cfg(all(test, shuttle))]
use crate::store::shadow::PlantedRace;
use crate::{
    Csn, Result, TreeId,
    access::{self, Change, Tree},
    page::BODY_BYTES,
    store::shadow::{PageTxn, Purpose},
    sync::Arc,
};

/// The promise that a commit will be durable.
pub struct Ticket {
    handle: Arc<Handle>,
    csn: Csn,
}

impl Ticket {
    /// The commit's place in the order of commits; of a transaction that wrote nothing, that of the newest commit
    /// that it may have seen.
    pub fn csn(&self) -> Csn {
        self.csn
    }

    /// Waits until the commit is durable.
    pub fn wait(self) -> Result<Csn> {
        let inner = &self.handle.inner;
        inner.store.wait_durable(self.csn)?;
        self.handle.background.confirm();
        inner.prune();
        Ok(self.csn)
    }

    /// Whether the commit is durable by now; an error if it never will be.
    pub fn is_durable(&self) -> Result<bool> {
        if self.handle.inner.store.durable_csn() >= self.csn {
            return Ok(true);
        }
        self.handle.inner.store.check().map(|()| false)
    }

    /// Calls `f` once the commit is durable or has failed, on a thread of the engine's or at once on this one.
    /// `f` must not block.
    pub fn on_durable(self, f: impl FnOnce(Result<Csn>) + Send + 'static) {
        self.handle.inner.store.when_durable(self.csn, f);
        self.hurry();
    }

    /// Has somebody else make it durable.
    pub(super) fn hurry(&self) {
        if self.handle.inner.store.durable_csn() < self.csn {
            self.handle.background.make_durable(self.csn);
        } else {
            self.handle.background.confirm();
        }
    }
}

impl Transaction {
    /// Orders and patches the transaction and releases its locks.
    pub(super) fn finish(mut self) -> Result<Ticket> {
        let handle = self.handle.clone();
        self.release_snapshot();
        self.check_committable()?;
        if self.writes.is_empty() {
            return Ok(Ticket { handle, csn: self.seen });
        }
        let writes = std::mem::take(&mut self.writes);
        let inner = &handle.inner;
        // Ends after the page transaction, which stops the database if there is a panic.
        let unpatched = Unpatched(inner);
        let purpose = if writes.gives_space_back() { Purpose::Free } else { Purpose::Use };
        let mut pages =
            inner.store.begin_for(purpose, pages_changed(&writes, inner.store.logical_pages()))?;
        // Inside the gate: who closes the database waits for it, and then makes everything durable.
        inner.check_open()?;
        let dropped = writes.trees().any(|(_, tree)| tree.dropped && !tree.created);
        let csn = pages.take_csn();
        #[cfg(all(test, shuttle))]
        match inner.store.race {
            Some(PlantedRace::LocksBeforePatch) => self.release(),
            Some(PlantedRace::WatermarkOutOfOrder) => inner.timeline.jump(csn),
            _ => {}
        }
        let (changed, bytes) =
            patch(inner, &pages, csn, writes).map_err(|error| inner.store.poison(&error))?;
        inner.timeline.patched(csn, changed, bytes);
        std::mem::forget(unpatched);
        drop(pages);
        self.release();
        inner.prune();
        if dropped {
            handle.background.reclaim();
        }
        Ok(Ticket { handle, csn })
    }

    /// What can fail for this transaction alone fails here.
    fn check_committable(&self) -> Result<()> {
        self.inner().check_open()?;
        self.inner().store.check()
    }
}

/// A CSN that is taken must be patched as a whole; half of it cannot be taken back. Whoever leaves before that, by an
/// error or a panic, has stopped the database, and tells those who wait for the patch.
struct Unpatched<'a>(&'a Inner);

impl Drop for Unpatched<'_> {
    fn drop(&mut self) {
        self.0.timeline.failed();
    }
}

/// Changes the pages. Returns the keys that have a new version, and what the versions take, in bytes.
fn patch(
    inner: &Arc<Inner>,
    pages: &PageTxn<'_>,
    csn: Csn,
    writes: WriteSet,
) -> Result<(Vec<ChangedKey>, usize)> {
    let mut changed = Vec::new();
    let mut bytes = 0;
    for (id, writes) in writes.into_trees() {
        match (writes.created, writes.dropped) {
            (true, true) => {}
            (true, false) => create(inner, pages, csn, id, writes)?,
            (false, true) => {
                let state = inner.tree(id)?;
                inner.directory.drop_tree(pages, id, state.tree.root())?;
                inner.forget_tree(id);
            }
            (false, false) => {
                let state = inner.tree(id)?;
                for (key, value) in writes.keys {
                    #[cfg(all(test, shuttle))]
                    if inner.store.race == Some(PlantedRace::VersionAfterChange) {
                        let mut before = None;
                        state.tree.update(pages, &key, &mut |old| {
                            before = old.map(<[u8]>::to_vec);
                            value.as_deref().map_or(Change::Delete, |value| Change::Put(value.into()))
                        })?;
                        bytes += state.versions.publish(&key, csn, before.as_deref());
                        changed.push((state.clone(), key));
                        continue;
                    }
                    state.tree.update(pages, &key, &mut |old| {
                        bytes += state.versions.publish(&key, csn, old);
                        value.as_deref().map_or(Change::Delete, |value| Change::Put(value.into()))
                    })?;
                    changed.push((state.clone(), key));
                }
            }
        }
    }
    Ok((changed, bytes))
}

/// Makes a tree of this transaction's own. It needs no versions: an older snapshot does not read it.
fn create(inner: &Inner, pages: &PageTxn<'_>, csn: Csn, id: TreeId, writes: TreeWrites) -> Result<()> {
    let tree = Tree::create(pages)?;
    for (key, value) in writes.keys {
        if let Some(value) = value {
            tree.update(pages, &key, &mut |_| Change::Put((&*value).into()))?;
        }
    }
    let root = tree.root();
    inner.add_tree(id, TreeState::new(tree, csn));
    inner.directory.insert(pages, id, root)
}

/// At most so many pages change when `writes` are patched into a store of `logical_pages`.
fn pages_changed(writes: &WriteSet, logical_pages: u64) -> u64 {
    let mut existing = 0;
    let mut new = 0;
    for (_, tree) in writes.trees() {
        let keys = tree.keys.len() as u64;
        let (mut leaf_bytes, mut overflow_pages) = (0, 0);
        for (key, value) in &tree.keys {
            let (bytes, pages) = access::room_for(key.len(), value.as_ref().map_or(0, |value| value.len()));
            leaf_bytes += bytes;
            overflow_pages += pages;
        }
        // A split leaves pages at least a quarter full, and one key splits at most once a level.
        new += (leaf_bytes / (BODY_BYTES / 4) + overflow_pages) as u64 + keys.min(8) + 2;
        existing += 3 * keys + 4;
    }
    new + existing.min(logical_pages)
}
