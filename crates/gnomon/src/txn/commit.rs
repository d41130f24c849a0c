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
    access::{self, Change, Seek, Tree},
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
        let mut pages = begin(inner, &writes)?;
        // Inside the gate: who closes the database waits for it, and then makes everything durable.
        inner.check_open()?;
        let dropped = writes.trees().any(|(_, tree)| tree.dropped && !tree.created);
        let changed_bytes = writes.changed_bytes();
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
        inner.store.note_changed(changed_bytes);
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

/// Begins the page transaction of a commit.
fn begin<'a>(inner: &'a Inner, writes: &WriteSet) -> Result<PageTxn<'a>> {
    let purpose = if writes.gives_space_back() { Purpose::Free } else { Purpose::Use };
    inner.store.begin_for(purpose, pages_changed(inner, writes)?)
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

/// At most so many pages change when `writes` are patched.
fn pages_changed(inner: &Inner, writes: &WriteSet) -> Result<u64> {
    // A leaf that is changed may be split, or merged with a neighbour, which changes their parent.
    const PAGES_A_LEAF: u64 = 3;
    /// Splits of nodes further up, and of leaves by others before this transaction comes to them.
    const PAGES_A_TREE: u64 = 8;
    // Looking at the leaves of a few keys costs more than it saves.
    const KEYS_FEW: usize = 16;
    let mut pages = 0;
    for (id, tree) in writes.trees() {
        let mut put_bytes = 0;
        let mut overflow_pages = 0;
        for (key, value) in tree.keys.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            let (bytes, pages) = access::room_for(key.len(), value.len());
            put_bytes += bytes;
            overflow_pages += pages;
        }
        let leaves = match tree.keys.len() {
            _ if tree.created || tree.dropped => 0,
            few if few <= KEYS_FEW => few as u64,
            _ => leaves_of(inner, id, tree)?,
        };
        // A split leaves pages at least a quarter full.
        let new = put_bytes / (BODY_BYTES / 4) + overflow_pages;
        pages += PAGES_A_LEAF * leaves + new as u64 + PAGES_A_TREE;
    }
    Ok(pages)
}

/// How many leaves have the keys that are written.
fn leaves_of(inner: &Inner, id: TreeId, writes: &TreeWrites) -> Result<u64> {
    let state = inner.tree(id)?;
    let mut leaves = 0;
    let mut keys = writes.keys.keys().peekable();
    while let Some(key) = keys.next() {
        leaves += 1;
        let leaf = state.tree.leaf(&*inner.store, Seek::At(key))?;
        while keys.next_if(|next| leaf.upper().is_none_or(|upper| ***next < *upper)).is_some() {}
    }
    Ok(leaves)
}
