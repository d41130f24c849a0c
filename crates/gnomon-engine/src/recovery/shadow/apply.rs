//! How a commit changes pages under shadow paging: behind its CSN, under latches, key by key.

use super::estimate::pages_changed;
use crate::{
    Csn, Error, Result, TreeId,
    access::{Change, HeldLeaf, Listed, Place, Placement, Search, Tree},
    failpoint::Failpoint,
    mvcc::{ChangedKey, Keyspace, TreeState, Unapplied, applier},
    op::{Calls, absent},
    page::PageSize,
    recovery::{Grown, PrivateChanges},
    store::{
        GroupCommit,
        shadow::{PageTxn, Purpose, ShadowStore},
    },
    write_set::{TreeWrites, Write, WriteSet, Written},
};

/// A commit inside the gate, from before its CSN until it is applied.
pub(in crate::recovery) struct GatedCommit<'a> {
    keyspace: &'a Keyspace,
    pub pages: PageTxn<'a>,
    /// Ends after the page transaction, which stops the database if there is a panic.
    unapplied: Unapplied<'a>,
}

/// Begins the page transaction of a commit, and notes in `writes` where its keys are. `is_logged`: a log has the
/// commit, and pages follow later.
pub(in crate::recovery) fn begin_commit<'a>(
    keyspace: &'a Keyspace,
    store: &'a ShadowStore,
    writes: &mut WriteSet,
    large: Option<&PrivateChanges>,
    is_logged: bool,
) -> Result<GatedCommit<'a>> {
    let purpose = if writes.gives_space_back() { Purpose::Free } else { Purpose::Use };
    let pages = match begin_for(keyspace, store, purpose, writes, large) {
        // What commits before it gave back, and what was reserved for them, is free when a root says so.
        Err(Error::DiskFull) if purpose == Purpose::Free || is_logged => {
            store.flush()?;
            begin_for(keyspace, store, purpose, writes, large)
        }
        begun => begun,
    }?;
    load_leaves(keyspace, store, writes, !is_logged)?;
    GatedCommit::enter(keyspace, pages)
}

/// Reads the pages that are to be applied, as far as they are not in memory any more. Behind the CSN a failed read
/// would stop the database; here it is an error of this transaction alone. Notes where the keys are, so that they are
/// not looked for again.
fn load_leaves(
    keyspace: &Keyspace,
    store: &ShadowStore,
    writes: &mut WriteSet,
    has_own_batch: bool,
) -> Result<()> {
    for (id, tree) in writes.trees_mut() {
        if tree.created || tree.dropped {
            match keyspace.directory.get(&keyspace.store, id) {
                Ok(_) | Err(Error::NoSuchTree(_)) => continue,
                Err(error) => return Err(error),
            }
        }
        let state = tree.state(|| keyspace.tree(id))?;
        for (key, written) in &mut tree.keys {
            let known = written.place.map(|place| place.leaf()).filter(|leaf| store.is_loaded(*leaf));
            let leaf = match known {
                Some(leaf) => leaf,
                None => {
                    let mut search = Search::default();
                    let leaf = state.tree.locate(&keyspace.store, key, &mut search)?;
                    written.place = search.place();
                    leaf
                }
            };
            if has_own_batch {
                store.load_nodes(leaf)?;
            }
        }
    }
    Ok(())
}

fn begin_for<'a>(
    keyspace: &Keyspace,
    store: &'a ShadowStore,
    purpose: Purpose,
    writes: &WriteSet,
    large: Option<&PrivateChanges>,
) -> Result<PageTxn<'a>> {
    in_parts(|part_max| {
        let changed = pages_changed(keyspace, writes, part_max)?;
        let mut pages = match large {
            Some(large) => store.begin_publishing(Purpose::Use, changed, &large.pages)?,
            None => store.begin_for(purpose, changed)?,
        };
        pages.set_part_size_max(part_max);
        Ok(pages)
    })
}

/// Tries something that reserves space with large values on pages of the sizes that fit them, and if the disk is too
/// full for such pages, because its free space is scattered, with smaller ones.
pub(in crate::recovery) fn in_parts<T>(mut reserve: impl FnMut(PageSize) -> Result<T>) -> Result<T> {
    const SMALLER: PageSize = PageSize::at_least(32 << 10).expect("there is such a size");
    for part_max in [PageSize::MAX, SMALLER] {
        match reserve(part_max) {
            Err(Error::DiskFull) => continue,
            done => return done,
        }
    }
    reserve(PageSize::DEFAULT)
}

impl<'a> GatedCommit<'a> {
    /// Makes a commit of a page transaction that may take its CSN next: closing the database waits for the gate, and
    /// then makes everything durable.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn enter(keyspace: &'a Keyspace, pages: PageTxn<'a>) -> Result<GatedCommit<'a>> {
        keyspace.check_open()?;
        Ok(GatedCommit { keyspace, pages, unapplied: Unapplied(&keyspace.timeline) })
    }

    /// Puts private pages in the place of the old ones, as part of commit `csn`.
    pub fn publish(&self, csn: Csn, private: PrivateChanges) {
        let PrivateChanges { pages: own, replaced, before, changed_bytes } = private;
        if let Some(before) = before {
            for state in &replaced {
                state.generations.begin(csn, before.clone());
            }
            self.keyspace.timeline.replaced(csn, replaced);
        }
        self.pages.publish(own);
        self.pages.note_changed(changed_bytes);
    }

    /// Applies `writes` as commit `csn`, and ends it. A failure stops the database.
    pub fn apply(self, csn: Csn, writes: WriteSet) -> Result<(Csn, Grown)> {
        let GatedCommit { keyspace, pages, .. } = &self;
        let changed_bytes = writes.changed_bytes();
        let is_next = keyspace.timeline.watermark().0 + 1 == csn.0;
        if keyspace.store.failpoints().is_on(Failpoint::WatermarkOutOfOrder) {
            keyspace.timeline.jump(csn);
        }
        let AppliedWrites { changed, bytes, grown } =
            apply_writes(&At { keyspace, pages, csn, is_next }, writes)
                .map_err(|error| keyspace.store.poison(&error))?;
        keyspace.timeline.applied(csn, changed, bytes);
        pages.note_changed(changed_bytes);
        std::mem::forget(self.unapplied);
        Ok((csn, grown))
    }
}

/// The result of applying.
#[derive(Default)]
struct AppliedWrites {
    /// The keys that have a new version.
    changed: Vec<ChangedKey>,
    /// Bytes of these versions.
    bytes: usize,
    grown: Grown,
}

/// The place where a commit is applied: its page transaction and its CSN.
struct At<'a> {
    keyspace: &'a Keyspace,
    pages: &'a PageTxn<'a>,
    csn: Csn,
    /// True if all commits before it were applied when its application began.
    is_next: bool,
}

/// Changes the pages.
fn apply_writes(at: &At<'_>, writes: WriteSet) -> Result<AppliedWrites> {
    let &At { keyspace, pages, csn, .. } = at;
    let mut applied = AppliedWrites::default();
    for (id, writes) in writes.into_trees() {
        match (writes.created, writes.dropped) {
            (true, true) => {}
            (true, false) => create(keyspace, pages, csn, id, writes)?,
            (false, true) => {
                let state = writes.state(|| keyspace.tree(id))?;
                keyspace.directory.drop_tree(pages, id, &state.tree)?;
                keyspace.forget_tree(id);
            }
            (false, false) => {
                let state = writes.state(|| keyspace.tree(id))?;
                let has_versions = !keyspace.is_serial || state.placement == Placement::Anywhere;
                let mut leaf = HeldLeaf::default();
                for (key, Written { write, place }) in writes.keys {
                    let value = match write {
                        Write::Put(value) => Some(value),
                        Write::Delete => None,
                        Write::Apply(calls) => {
                            // Others take the mutex of an operation's key before the leaf.
                            leaf.release();
                            let keeps_length = calls.keep_length();
                            let (version, longer) = apply(at, &state, &key, place, calls)?;
                            applied.bytes += version;
                            if !keeps_length {
                                applied.grown.add(id, key.clone(), longer);
                            }
                            applied.changed.push((state.clone(), key));
                            continue;
                        }
                    };
                    if keyspace.store.failpoints().is_on(Failpoint::VersionAfterChange) {
                        applied.bytes += change_before_version(at, &state, &key, value.as_deref())?;
                        applied.changed.push((state.clone(), key));
                        continue;
                    }
                    let mut change = |old: Option<&[u8]>| {
                        if has_versions {
                            applied.bytes += state.versions.publish(&key, csn, old);
                        }
                        value.as_deref().map_or(Change::Delete, |value| Change::Put(value.into()))
                    };
                    state.tree.update_next(pages, &key, place, &mut leaf, &mut change)?;
                    if !has_versions {
                        continue;
                    }
                    applied.changed.push((state.clone(), key));
                }
            }
        }
    }
    Ok(applied)
}

/// Applies operations to a key. Returns what its version takes, and by how much its value is longer, in bytes.
fn apply(
    at: &At<'_>,
    state: &TreeState,
    key: &[u8],
    place: Option<Place>,
    calls: Calls,
) -> Result<(usize, i128)> {
    let &At { keyspace, pages, csn, is_next } = at;
    // Others may apply operations to the same key, and the tree relies on one change of a key at a time.
    let _alone = keyspace.appliers[applier(key)].lock();
    let entry = state.tree.entry(pages, key, place)?;
    let there = entry.value()?.ok_or_else(absent)?;
    let (value, bytes) = match keyspace.store.failpoints().is_on(Failpoint::VersionsInApplyOrder) {
        true => state.versions.publish_in_apply_order(key, csn, &there, &calls)?,
        false => state.versions.publish_calls(key, csn, &there, calls, is_next)?,
    };
    let longer = value.len() as i128 - there.len() as i128;
    entry.change(Change::Put(value.into()))?;
    Ok((bytes, longer))
}

/// Changes a key and publishes its version in the wrong order: see [`Failpoint::VersionAfterChange`]. Returns what the
/// version takes.
fn change_before_version(at: &At<'_>, state: &TreeState, key: &[u8], value: Option<&[u8]>) -> Result<usize> {
    let mut before = None;
    state.tree.update(at.pages, key, &mut |old| {
        before = old.map(<[u8]>::to_vec);
        value.map_or(Change::Delete, |value| Change::Put(value.into()))
    })?;
    Ok(state.versions.publish(key, at.csn, before.as_deref()))
}

/// Makes a tree of this transaction's own. It needs no versions: an older snapshot does not read it.
pub(in crate::recovery) fn create(
    keyspace: &Keyspace,
    pages: &PageTxn<'_>,
    csn: Csn,
    id: TreeId,
    writes: TreeWrites,
) -> Result<()> {
    let tree = match writes.made {
        Some(made) => made,
        None => Tree::create(pages, writes.options.page_size)?,
    };
    let mut leaf = HeldLeaf::default();
    for (key, write) in writes.entries() {
        if let Some(value) = write.value(None)? {
            tree.update_next(pages, key, None, &mut leaf, &mut |_| Change::Put((&*value).into()))?;
        }
    }
    drop(leaf);
    let listed = Listed { tree, placement: writes.options.placement };
    keyspace.add_tree(id, TreeState::new(listed, csn));
    keyspace.directory.insert(pages, id, &listed).map(drop)
}
