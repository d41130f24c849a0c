//! Commit: a transaction takes its CSN in the gate, applies the trees and releases its locks. A [`Ticket`] stands for
//! what remains, to become durable.

use super::{
    apply::LENGTH,
    database::{APPLIERS, Handle, Inner, KEYS},
    immediate::{self, Keys},
    key::Key,
    large::Finished,
    log::{Logged, Pending, is_call_cheaper},
    procedure::Command,
    recovery::Records,
    transaction::Transaction,
    tree::{Listed, Placement, TreeState},
    versions::ChangedKey,
    writes::{Calls, TreeWrites, Write, WriteSet, Written, absent},
};
use crate::{
    Csn, Error, Result, TreeId,
    access::{self, Change, HeldLeaf, Place, Search, Seek, Tree},
    failpoint::Failpoint,
    lock::{LockName, LockOwner},
    page::{PageCounts, PageSize},
    store::{
        GroupCommit, Store,
        shadow::{PageTxn, Purpose, ShadowStore},
    },
    sync::Arc,
};

/// When a commit is acknowledged. Whichever, a crash leaves the state after some commit, with all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commits {
    /// When it is durable.
    #[default]
    Synchronous,
    /// At once; it is durable a moment later. A crash may lose what was acknowledged in that moment.
    Asynchronous,
    /// At once; it is durable when the database is closed, or memory is short, or a thread waits for it
    /// ([`Database::wait_durable`](crate::Database::wait_durable)). Only with shadow paging.
    Unforced,
}

/// A commit ticket: the promise that a commit will be durable.
pub struct Ticket {
    handle: Arc<Handle>,
    csn: Csn,
    /// True if a replicator orders the commits of this database: it has all of them up to this one durable.
    is_elsewhere: bool,
}

impl Ticket {
    pub(super) fn new(handle: Arc<Handle>, csn: Csn) -> Ticket {
        Ticket { handle, csn, is_elsewhere: false }
    }

    /// Returns the commit's place in the order of commits; of a transaction that wrote nothing, that of the newest
    /// commit that it may have seen.
    pub fn csn(&self) -> Csn {
        self.csn
    }

    /// Waits until the commit is durable.
    pub fn wait(self) -> Result<Csn> {
        let inner = &self.handle.inner;
        if self.is_elsewhere {
            return inner.store.check().map(|()| self.csn);
        }
        inner.wait_durable(self.csn)?;
        self.handle.background.maintain();
        inner.prune_unless_busy();
        Ok(self.csn)
    }

    /// Returns true if the commit is durable by now; an error if it never will be.
    pub fn is_durable(&self) -> Result<bool> {
        if self.handle.inner.last_durable() >= self.csn {
            return Ok(true);
        }
        self.handle.inner.store.check().map(|()| self.is_elsewhere)
    }

    /// Calls `f` once the commit is durable or has failed, on a thread of the engine's or at once on this one. That
    /// is soon, unless commits are not forced ([`Commits::Unforced`]). `f` must not block.
    pub fn on_durable(self, f: impl FnOnce(Result<Csn>) + Send + 'static) {
        if self.is_elsewhere {
            return f(self.handle.inner.store.check().map(|()| self.csn));
        }
        self.handle.inner.when_durable(self.csn, f);
        self.request_flush();
    }

    /// Waits until the commit may be acknowledged: until it is durable, if commits are synchronous.
    pub(super) fn acknowledge(self) -> Result<Csn> {
        if self.handle.inner.commits == Commits::Synchronous {
            return self.wait();
        }
        self.request_flush();
        self.handle.inner.store.check().map(|()| self.csn)
    }

    /// Does as [`Ticket::acknowledge`], but returns at once, and calls `f` with the result.
    pub(super) fn acknowledge_then(self, f: impl FnOnce(Result<Csn>) + Send + 'static) {
        match self.handle.inner.commits {
            Commits::Synchronous => self.on_durable(f),
            Commits::Asynchronous | Commits::Unforced => f(self.acknowledge()),
        }
    }

    /// Hands the commit to the thread that makes commits durable. If commits are not forced, or it is durable, prunes
    /// old versions instead.
    pub(super) fn request_flush(&self) {
        let inner = &self.handle.inner;
        if inner.commits != Commits::Unforced && !self.is_elsewhere && inner.last_durable() < self.csn {
            self.handle.background.make_durable(self.csn);
        } else {
            inner.prune();
            self.handle.background.maintain();
        }
    }
}

impl Transaction {
    /// Orders and applies the transaction and releases its locks. Returns its commit ticket.
    pub(super) fn finish(mut self) -> Result<Ticket> {
        let handle = self.handle.clone();
        if let Some(csn) = self.hand_over()? {
            return Ok(Ticket::new(handle, csn));
        }
        self.release_snapshot();
        self.check_committable()?;
        let mut large = self.finish_large()?;
        if self.writes.is_empty() && large.is_none() {
            let is_elsewhere = self.observed.is_some();
            return Ok(Ticket { handle, csn: self.seen, is_elsewhere });
        }
        let mut writes = std::mem::take(&mut self.writes);
        writes.know(&self.used);
        let inner = &handle.inner;
        let dropped = writes.trees().any(|(_, tree)| tree.dropped && !tree.created);
        let changed = writes.keys();
        let store = match &inner.store {
            Store::Shadow(store) => store,
            Store::Logged(logged) => {
                let (id, keys) = (self.id(), Keys::Changed);
                let committed =
                    immediate::commit(inner, logged, id, &mut self.immediate, &writes, keys, Vec::new());
                if dropped || (committed.is_err() && writes.trees().any(|(_, tree)| tree.created)) {
                    handle.background.reclaim();
                }
                let (csn, grown) = committed?;
                logged.note_changed(writes.changed_bytes());
                grown.settle(&mut self.locks);
                self.release(true);
                inner.forget_after(changed);
                return Ok(Ticket::new(handle, csn));
            }
        };
        let record = inner.record(&match (&large, &self.command) {
            (Some(_), _) => Logged::InRoot,
            (None, Some(command)) if !self.by_value && is_logged_as_call(inner, command, &writes) => {
                Logged::Call(command)
            }
            (None, _) => Logged::Writes(&writes),
        })?;
        let pages = begin(inner, store, &mut writes, large.as_ref())?;
        // Inside the gate: closing the database waits for it, and then makes everything durable.
        inner.check_open()?;
        if let Some(command) = &self.command {
            inner.procedures.note_commit(command.procedure, record.as_ref().map_or(0, Pending::bytes));
        }
        let (csn, grown) = apply_in_order(inner, pages, record, writes, |pages, csn| {
            if let Some(large) = large.take() {
                large.publish(inner, pages, csn);
            }
            let failpoints = inner.store.failpoints();
            if failpoints.is_on(Failpoint::LocksBeforeApply) {
                self.release(true);
            }
            if failpoints.is_on(Failpoint::WatermarkOutOfOrder) {
                inner.timeline.jump(csn);
            }
            Ok(())
        })?;
        grown.settle(&mut self.locks);
        self.release(true);
        inner.forget_after(changed);
        if dropped {
            handle.background.reclaim();
        }
        Ok(Ticket::new(handle, csn))
    }

    /// Fails if the transaction is doomed, or the database is closed or has stopped.
    pub(super) fn check_committable(&self) -> Result<()> {
        if self.doomed {
            return Err(Error::Deadlock);
        }
        self.inner().check_open()?;
        self.inner().store.check()
    }
}

/// True if a transaction that a call stands for is logged as that call.
fn is_logged_as_call(inner: &Inner, command: &Command, writes: &WriteSet) -> bool {
    let is_preferred = match inner.recovery.records() {
        None | Some(Records::Values) => false,
        Some(Records::Calls) => true,
        Some(Records::Cheaper) => is_call_cheaper(command, writes, inner.replay_weight),
    };
    // Trees have numbers that another run would not give them.
    is_preferred && writes.trees().all(|(_, writes)| writes.created == writes.dropped)
}

/// Begins the page transaction of a commit, and notes in `writes` where its keys are.
pub(super) fn begin<'a>(
    inner: &Inner,
    store: &'a ShadowStore,
    writes: &mut WriteSet,
    large: Option<&Finished>,
) -> Result<PageTxn<'a>> {
    let purpose = if writes.gives_space_back() { Purpose::Free } else { Purpose::Use };
    let pages = match begin_for(inner, store, purpose, writes, large) {
        // What commits before it gave back, and what was reserved for them, is free when a root says so.
        Err(Error::DiskFull) if purpose == Purpose::Free || inner.log().is_some() => {
            store.flush()?;
            begin_for(inner, store, purpose, writes, large)
        }
        begun => begun,
    }?;
    load_leaves(inner, store, writes)?;
    Ok(pages)
}

/// Reads the pages that are to be applied, as far as they are not in memory any more. Behind the CSN a failed read
/// would stop the database; here it is an error of this transaction alone. Notes where the keys are, so that they are
/// not looked for again.
fn load_leaves(inner: &Inner, store: &ShadowStore, writes: &mut WriteSet) -> Result<()> {
    // Where a log has the commit, the pages follow later.
    let has_own_batch = inner.log().is_none();
    for (id, tree) in writes.trees_mut() {
        if tree.created || tree.dropped {
            match inner.directory.get(&inner.store, id) {
                Ok(_) | Err(Error::NoSuchTree(_)) => continue,
                Err(error) => return Err(error),
            }
        }
        let state = tree.state(inner, id)?;
        for (key, written) in &mut tree.keys {
            let known = written.place.map(|place| place.leaf()).filter(|leaf| store.is_loaded(*leaf));
            let leaf = match known {
                Some(leaf) => leaf,
                None => {
                    let mut search = Search::default();
                    let leaf = state.tree.locate(&inner.store, key, &mut search)?;
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
    inner: &Inner,
    store: &'a ShadowStore,
    purpose: Purpose,
    writes: &WriteSet,
    large: Option<&Finished>,
) -> Result<PageTxn<'a>> {
    in_parts(|part_max| {
        let changed = pages_changed(inner, writes, part_max)?;
        let mut pages = match large {
            Some(large) => store.begin_publishing(Purpose::Use, changed, large.pages())?,
            None => store.begin_for(purpose, changed)?,
        };
        pages.set_part_size_max(part_max);
        Ok(pages)
    })
}

/// Tries something that reserves space with large values on pages of the sizes that fit them, and if the disk is too
/// full for such pages, because its free space is scattered, with smaller ones.
pub(super) fn in_parts<T>(mut reserve: impl FnMut(PageSize) -> Result<T>) -> Result<T> {
    const SMALLER: PageSize = PageSize::at_least(32 << 10).expect("there is such a size");
    for part_max in [PageSize::MAX, SMALLER] {
        match reserve(part_max) {
            Err(Error::DiskFull) => continue,
            done => return done,
        }
    }
    reserve(PageSize::DEFAULT)
}

/// Takes the CSN of a page transaction, with its place in the log, and applies `writes` and what `first` changes, which
/// is called before. A failure from here on stops the database.
pub(super) fn apply_in_order(
    inner: &Arc<Inner>,
    pages: PageTxn<'_>,
    record: Option<Pending>,
    writes: WriteSet,
    first: impl FnOnce(&PageTxn<'_>, Csn) -> Result<()>,
) -> Result<(Csn, Grown)> {
    // Ends after the page transaction, which stops the database if there is a panic.
    let unapplied = Unapplied(inner);
    let mut pages = pages;
    let changed_bytes = writes.changed_bytes();
    let csn = match record {
        Some(record) => record.append(&mut pages),
        None => pages.take_csn(),
    };
    let is_next = inner.timeline.watermark().0 + 1 == csn.0;
    let AppliedWrites { changed, bytes, grown } = first(&pages, csn)
        .and_then(|()| apply_writes(&At { inner, pages: &pages, csn, is_next }, writes))
        .map_err(|error| inner.store.poison(&error))?;
    inner.timeline.applied(csn, changed, bytes);
    pages.note_changed(changed_bytes);
    std::mem::forget(unapplied);
    drop(pages);
    Ok((csn, grown))
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

/// Growth of values by operations that may change their length, in bytes: for each change, the difference to the
/// length that was there, so the sum is right in whatever order commits are applied.
#[derive(Default)]
pub(super) struct Grown(pub Vec<(TreeId, Key, i128)>);

impl Grown {
    /// Settles the claims on lengths with the growth. The locks are released next, and others go on with that.
    pub fn settle(&self, locks: &mut LockOwner) {
        for (tree, key, bytes) in &self.0 {
            locks.settle(LockName::key(KEYS, tree.0, key), LENGTH, *bytes);
        }
    }
}

/// A guard from the CSN of a commit to the end of its application. An application cannot be taken back in part, so an
/// error or a panic before its end has stopped the database; the guard then tells the threads that wait for the
/// application.
pub(super) struct Unapplied<'a>(pub &'a Inner);

impl Drop for Unapplied<'_> {
    fn drop(&mut self) {
        self.0.timeline.failed();
    }
}

/// The place where a commit is applied: its page transaction and its CSN.
struct At<'a> {
    inner: &'a Arc<Inner>,
    pages: &'a PageTxn<'a>,
    csn: Csn,
    /// True if all commits before it were applied when its application began.
    is_next: bool,
}

/// Changes the pages.
fn apply_writes(at: &At<'_>, writes: WriteSet) -> Result<AppliedWrites> {
    let &At { inner, pages, csn, .. } = at;
    let mut applied = AppliedWrites::default();
    for (id, writes) in writes.into_trees() {
        match (writes.created, writes.dropped) {
            (true, true) => {}
            (true, false) => create(inner, pages, csn, id, writes)?,
            (false, true) => {
                let state = writes.state(inner, id)?;
                inner.directory.drop_tree(pages, id, &state.tree)?;
                inner.forget_tree(id);
            }
            (false, false) => {
                let state = writes.state(inner, id)?;
                let has_versions = !inner.is_serial || state.placement == Placement::Anywhere;
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
                                applied.grown.0.push((id, key.clone(), longer));
                            }
                            applied.changed.push((state.clone(), key));
                            continue;
                        }
                    };
                    if inner.store.failpoints().is_on(Failpoint::VersionAfterChange) {
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
    let &At { inner, pages, csn, is_next } = at;
    let mut calls = Some(calls);
    // Others may apply operations to the same key, and the tree relies on one change of a key at a time.
    let _alone = inner.appliers[applier(key)].lock();
    let mut published = Err(absent());
    let mut longer = 0;
    state.tree.update_at(pages, key, place, &mut |there| {
        let Some(there) = there else { return Change::Keep };
        if inner.store.failpoints().is_on(Failpoint::VersionsInApplyOrder) {
            let calls = calls.as_ref().expect("it is called once");
            published = state.versions.publish_in_apply_order(key, csn, there, calls);
            return published.as_ref().map_or(Change::Keep, |(value, _)| Change::Put(value.clone().into()));
        }
        let calls = calls.take().expect("it is called once");
        published = state.versions.publish_calls(key, csn, there, calls, is_next);
        match &mut published {
            Ok((value, _)) => {
                longer = value.len() as i128 - there.len() as i128;
                Change::Put(std::mem::take(value).into())
            }
            Err(_) => Change::Keep,
        }
    })?;
    published.map(|(_, bytes)| (bytes, longer))
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

/// Returns the index of a key's mutex in `Inner::appliers`.
pub(super) fn applier(key: &[u8]) -> usize {
    crc32c::crc32c(key) as usize % APPLIERS
}

/// Makes a tree of this transaction's own. It needs no versions: an older snapshot does not read it.
pub(super) fn create(
    inner: &Inner,
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
    inner.add_tree(id, TreeState::new(listed, csn));
    inner.directory.insert(pages, id, &listed).map(drop)
}

// A leaf that is changed may be split, or merged with a neighbour, which changes their parent.
const PAGES_A_LEAF: u64 = 3;
/// Splits of nodes further up, and of leaves by others before this transaction comes to them.
const PAGES_A_TREE: u64 = 8;

/// Returns how many pages change at most when `writes` are applied now, with large values on pages of up to
/// `part_max`.
pub(super) fn pages_changed(inner: &Inner, writes: &WriteSet, part_max: PageSize) -> Result<PageCounts> {
    pages_changed_in(inner, writes, part_max, |leaves| leaves)
}

/// Returns how many pages change at most when `writes` are applied at some time to come: unless others have split
/// each of the leaves that have the keys more than once until then.
pub(super) fn pages_changed_later(
    inner: &Inner,
    writes: &WriteSet,
    part_max: PageSize,
) -> Result<PageCounts> {
    pages_changed_in(inner, writes, part_max, |leaves| 2 * leaves)
}

/// Counts the pages that change at most. `later` maps the leaves of now to how many they can be then, were there keys
/// enough.
fn pages_changed_in(
    inner: &Inner,
    writes: &WriteSet,
    part_max: PageSize,
    later: impl Fn(u64) -> u64,
) -> Result<PageCounts> {
    let mut pages = PageCounts::default();
    for (id, tree) in writes.trees() {
        if tree.created || tree.dropped {
            // The directory's.
            pages += PageCounts::from(PAGES_A_TREE);
        }
        if tree.dropped {
            continue;
        }
        if !tree.created {
            let keys = || tree.keys.keys().map(|key| &**key);
            let mut changed = LeavesChanged::new(tree.state(inner, id)?.tree, part_max);
            tree.entries()
                .for_each(|(key, write)| changed.add(key, write.value_bytes(), write.keeps_length()));
            pages += changed.pages(|tree| leaves_of(inner, tree, keys()).map(&later))?;
            continue;
        }
        let size = tree.options.page_size;
        let mut put_bytes = 0;
        for (key, write) in tree.entries() {
            let Some(value_bytes) = write.value_bytes() else { continue };
            put_bytes += access::room_for(size, part_max, key.len(), value_bytes, &mut pages);
        }
        pages[size] += match put_bytes < size.body_bytes() * 3 / 4 {
            // Its root has room for all of it.
            true => 1,
            false => new_leaves(size, put_bytes) + PAGES_A_TREE,
        };
    }
    Ok(pages)
}

/// A count of the pages that change at most when keys of an existing tree are changed.
pub(super) struct LeavesChanged {
    tree: Tree,
    part_max: PageSize,
    /// Number of entries that change without changing their length. Their leaves are neither split nor merged.
    in_place: u64,
    others: u64,
    put_bytes: usize,
    beside: PageCounts,
}

impl LeavesChanged {
    pub fn new(tree: Tree, part_max: PageSize) -> LeavesChanged {
        LeavesChanged { tree, part_max, in_place: 0, others: 0, put_bytes: 0, beside: PageCounts::default() }
    }

    /// Adds a key, and how long its value can be; none if it is deleted.
    pub fn add(&mut self, key: &[u8], value_bytes: Option<usize>, keeps_length: bool) {
        let (size, part_max) = (self.tree.size(), self.part_max);
        let bytes = value_bytes.map_or(0, |value_bytes| {
            access::room_for(size, part_max, key.len(), value_bytes, &mut self.beside)
        });
        if keeps_length {
            self.in_place += 1;
        } else {
            self.others += 1;
            self.put_bytes += bytes;
        }
    }

    /// Returns how many pages change at most. `leaves` counts the leaves of the keys, if there are many keys.
    pub fn pages(self, leaves: impl FnOnce(&Tree) -> Result<u64>) -> Result<PageCounts> {
        // Looking at the leaves of a few keys costs more than it saves.
        const KEYS_FEW: u64 = 16;
        let size = self.tree.size();
        let mut pages = self.beside;
        pages[size] += self.in_place;
        if self.others > 0 {
            let leaves =
                if self.others <= KEYS_FEW { self.others } else { leaves(&self.tree)?.min(self.others) };
            pages[size] += PAGES_A_LEAF * leaves + new_leaves(size, self.put_bytes) + PAGES_A_TREE;
        }
        Ok(pages)
    }
}

/// Returns how many nodes of `size` are new at most when entries of so many bytes are put into leaves.
fn new_leaves(size: PageSize, put_bytes: usize) -> u64 {
    // A split leaves pages at least a quarter full.
    (put_bytes / (size.body_bytes() / 4)) as u64
}

/// Returns how many pages change at most when entries with keys of `key_bytes` are put into a tree with nodes of the
/// default size that follow each other, and when they are deleted. `values` are the lengths of their values.
pub(super) fn pages_of_sequence(
    part_max: PageSize,
    key_bytes: usize,
    values: impl Iterator<Item = usize>,
) -> (PageCounts, PageCounts) {
    // Beside the nodes above them in the page table, one for many of those that are given back together.
    const FREED_A_NODE: u64 = 8;
    let size = PageSize::DEFAULT;
    let (mut count, mut put_bytes, mut beside) = (0, 0, PageCounts::default());
    for value_bytes in values {
        put_bytes += access::room_for(size, part_max, key_bytes, value_bytes, &mut beside);
        count += 1;
    }
    let leaves = PAGES_A_LEAF * count + PAGES_A_TREE;
    let removed = leaves + beside.pages().div_ceil(FREED_A_NODE);
    (beside + PageCounts::from(leaves + new_leaves(size, put_bytes)), PageCounts::from(removed))
}

/// Counts the leaves that have the keys that are written.
pub(super) fn leaves_of<'k>(inner: &Inner, tree: &Tree, keys: impl Iterator<Item = &'k [u8]>) -> Result<u64> {
    let mut leaves = 0;
    let mut keys = keys.peekable();
    while let Some(key) = keys.next() {
        leaves += 1;
        let leaf = tree.leaf(&inner.store, Seek::At(key))?;
        while keys.next_if(|next| leaf.upper().is_none_or(|upper| *next < upper)).is_some() {}
    }
    Ok(leaves)
}
