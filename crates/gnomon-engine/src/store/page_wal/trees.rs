//! Subtransactions on trees. Two things protect a page of a tree, for different times: a latch while a thread reads
//! or changes its image, and a page lock until the subtransaction that has changed it ends.
//!
//! Trees latch their pages top-down, and a thread that has latched one must not wait for a lock: the lock's holder
//! may need that latch to come to its end. So a lock that is not free ends the attempt. Its changes are taken back,
//! its locks are released, the page is waited for without latches and page locks, and the subtransaction begins again
//! from the root of its tree.
//!
//! A subtransaction that is a single change of a leaf which has room for it is light, where spheres are written
//! later: it keeps the latch of that page until it has ended, so no other thread ever finds it incomplete and no lock
//! is needed. When it uses another page, or the same once more, it locks that page first and lets go of the latch.
//!
//! Going down a tree takes no locks and merges no spheres, though it may pass pages that an incomplete subtransaction
//! has changed: whatever becomes of that, keys move only between pages that it has locked, so a page that is not locked
//! covers the same keys before and after it. Nor does it matter to the log: a page that is reached through a new parent
//! is either changed together with that, and in the same sphere, or was reached through the old one as well. If
//! traversals merged spheres, all of them would meet in the roots.

use std::cell::{Cell, RefCell};

use super::{
    LoggedStore, Strategy, Subtxn, Undo, checkpoint::LOG_SPARE_BYTES, sphere::After, subtxn::ChangedPage,
};
use crate::{
    Csn, Error, PageId, Result, TxnId,
    failpoint::Failpoint,
    id::SubtxnId,
    lock::{LockOwner, WaitOptions, key_mode},
    page::{
        PageKind, PageSize,
        pool::{ReadLatch, WriteLatch},
    },
    store::{GroupCommit, PageRead, PageWrite},
};

/// A single page that is not larger can be changed under its latch alone: the log has room for its image, and for what
/// takes a single change of it back.
const LIGHT_PAGE_BYTES_MAX: usize = 16 << 10;
const _: () = assert!(2 * LIGHT_PAGE_BYTES_MAX as u64 <= LOG_SPARE_BYTES / 4);

/// A subtransaction on trees that has not ended. It must come to its end by [`LoggedStore::end_trees`] or
/// [`LoggedStore::commit_trees`].
#[must_use]
pub struct TreeSubtxn {
    subtxn: Subtxn,
    light: RefCell<Light>,
}

/// The pages that a subtransaction has latched or locked: at first a single latch may stand for its page locks.
pub(super) enum Light {
    /// It has used no page.
    Fresh,
    /// It has this page latched and not locked.
    Used(PageId),
    /// It has this page latched and not locked, and does not use it at the moment.
    Kept(WriteLatch),
    /// Its pages are locked.
    Locked,
}

impl TreeSubtxn {
    /// Its number.
    pub fn id(&self) -> SubtxnId {
        self.subtxn.id()
    }
}

impl Light {
    /// Keeps the latch of a page that is not used any more, unless the page was locked meanwhile.
    pub fn keep(&mut self, latch: WriteLatch) {
        if let Light::Used(_) = self {
            *self = Light::Kept(latch);
        }
    }
}

/// Reads and changes the pages of trees for a subtransaction.
pub struct TreeAccess<'a> {
    store: &'a LoggedStore,
    subtxn: &'a Subtxn,
    light: &'a RefCell<Light>,
    owner: RefCell<&'a mut LockOwner>,
    /// The page whose lock was not free.
    wanted: Cell<Option<PageId>>,
}

/// Poisons the store on a panic in the middle of a change: such pages cannot be taken back.
struct StopOnPanic<'a>(&'a LoggedStore);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(&Error::Poisoned("a panic in a subtransaction".into()));
        }
    }
}

impl LoggedStore {
    /// Runs `body`, which changes trees, as a subtransaction of a transaction. It may be called several times, after
    /// what an earlier call did was taken back. The subtransaction is to be ended, or kept until the transaction ends,
    /// and the locks of `owner` on its pages are to be released then.
    ///
    /// # Errors
    /// Those of `body`, with nothing changed; [`Error::DiskFull`].
    pub fn change_trees<R>(
        &self,
        txn: TxnId,
        owner: &mut LockOwner,
        body: impl FnMut(&TreeAccess<'_>) -> Result<R>,
    ) -> Result<(TreeSubtxn, R)> {
        self.attempt(|| self.begin_subtxn(txn), owner, body).inspect_err(|_| owner.release_all())
    }

    /// The same, to take another subtransaction back.
    pub fn change_trees_back<R>(
        &self,
        txn: TxnId,
        owner: &mut LockOwner,
        mut body: impl FnMut(&TreeAccess<'_>) -> Result<R>,
    ) -> Result<(TreeSubtxn, R)> {
        let begin = || self.begin_compensation(txn);
        let changed = match self.attempt(begin, owner, &mut body) {
            Err(Error::DiskFull) => {
                // The pages that it gave back can be used again when the log has that.
                owner.release_all();
                let spheres = self.log.state.lock().spheres.of_txn(txn);
                self.log.write_spheres(spheres)?;
                self.attempt(begin, owner, &mut body)
            }
            changed => changed,
        };
        changed.inspect_err(|_| owner.release_all())
    }

    fn attempt<R>(
        &self,
        begin: impl Fn() -> Result<Subtxn>,
        owner: &mut LockOwner,
        mut body: impl FnMut(&TreeAccess<'_>) -> Result<R>,
    ) -> Result<(TreeSubtxn, R)> {
        // With one level it may be long until it ends; where its sphere is written then, its pages stay locked as long.
        let mut light = match self.log.strategy {
            Strategy::TwoLevelDeferred => Light::Fresh,
            Strategy::SingleLevel | Strategy::TwoLevel => Light::Locked,
        };
        loop {
            let trees = TreeSubtxn {
                subtxn: begin()?,
                light: RefCell::new(std::mem::replace(&mut light, Light::Locked)),
            };
            // Before the latch of its page goes.
            let _panicked = StopOnPanic(self);
            let (result, wanted) = {
                let (subtxn, light) = (&trees.subtxn, &trees.light);
                let owner = RefCell::new(&mut *owner);
                let access = TreeAccess { store: self, subtxn, light, owner, wanted: Cell::new(None) };
                let result = body(&access);
                (result, access.wanted.get())
            };
            match (result, wanted) {
                (Ok(result), None) => break Ok((trees, result)),
                (result, wanted) => {
                    self.abort_trees(trees)?;
                    owner.release_all();
                    match (wanted, result) {
                        (Some(page), _) => self.wait_for_page(owner, page)?,
                        (None, Err(error)) => break Err(error),
                        (None, Ok(_)) => unreachable!("it would have ended"),
                    }
                }
            }
        }
    }

    /// Ends a subtransaction (EOS), as [`LoggedStore::end`] does.
    pub fn end_trees(&self, trees: TreeSubtxn, undo: Undo<'_>) -> Result<()> {
        match trees.light.into_inner() {
            Light::Kept(latch) if trees.subtxn.has_changed() => self.end_light(trees.subtxn, latch, undo),
            _ => self.end(trees.subtxn, undo),
        }
    }

    /// Ends the subtransaction that is a transaction, as [`LoggedStore::commit_whole`] does.
    pub fn commit_trees(&self, trees: TreeSubtxn) -> Result<Csn> {
        if self.log.strategy == Strategy::SingleLevel {
            return self.commit_whole(trees.subtxn);
        }
        let txn = trees.subtxn.txn;
        self.end_trees(trees, Undo::Nothing)?;
        self.commit(txn)
    }

    fn abort_trees(&self, trees: TreeSubtxn) -> Result<()> {
        match trees.light.into_inner() {
            Light::Kept(mut latch) => self.abort_latched(trees.subtxn, &mut latch),
            _ => self.abort(trees.subtxn)?,
        }
        Ok(())
    }

    /// Ends a subtransaction of which the only page is latched. Larger pages than the log has room for anyway are
    /// locked before they come here.
    fn end_light(&self, subtxn: Subtxn, mut latch: WriteLatch, undo: Undo<'_>) -> Result<()> {
        // Tried, since it comes before latches.
        let open = self.closed.try_read().filter(|closed| !**closed).ok_or(Error::Closed);
        let open = match self.log.commits.check().and(open) {
            Ok(open) => open,
            Err(error) => {
                self.abort_latched(subtxn, &mut latch);
                return Err(error);
            }
        };
        let page = latch.frame().key.index;
        let after = vec![(page, After::Image(latch.page().clone()))];
        let mut state = self.log.state.lock();
        self.end_in(&mut state, subtxn, after, undo);
        drop((state, latch, open));
        Ok(())
    }

    /// Latches the first page of a subtransaction, without a lock; none if another one has changed it and has not
    /// ended.
    fn latch_light<'a>(
        &'a self,
        subtxn: &'a Subtxn,
        light: &'a RefCell<Light>,
        id: PageId,
    ) -> Result<Option<ChangedPage<'a>>> {
        let mut page = self.latch_for(subtxn, id)?;
        // A subtransaction that is about to change it needs the latch.
        let is_changed = self.log.state.lock().active.contains_key(&id.0);
        let is_changed = is_changed && !self.log.failpoints.is_on(Failpoint::LightUnchecked);
        if is_changed || page.size().bytes() > LIGHT_PAGE_BYTES_MAX {
            return Ok(None);
        }
        light.replace(Light::Used(id));
        page.keeper = Some(light);
        Ok(Some(page))
    }

    /// Waits for the lock of a page. The waiting thread holds nothing that others wait for but locks of level 1, and
    /// no thread waits for these while it holds pages.
    fn wait_for_page(&self, owner: &mut LockOwner, page: PageId) -> Result<()> {
        self.locks.lock(owner, page, key_mode::X, &WaitOptions::default())
    }
}

impl TreeAccess<'_> {
    /// Locks a page exclusively if that is free.
    fn lock(&self, page: PageId) -> Result<()> {
        let wait = WaitOptions { nowait: true, ..WaitOptions::default() };
        let mut owner = self.owner.borrow_mut();
        let locked = self.store.locks.lock(&mut owner, page, key_mode::X, &wait);
        locked.inspect_err(|_| self.wanted.set(Some(page)))
    }
}

impl TreeAccess<'_> {
    /// Locks pages from here on, with the one that was not: before anything else is latched or waited for.
    pub fn lock_first(&self) -> Result<()> {
        let light = self.light.replace(Light::Locked);
        let locked = match &light {
            Light::Fresh | Light::Locked => return Ok(()),
            Light::Used(page) => self.lock(*page),
            Light::Kept(latch) => self.lock(PageId(latch.frame().key.index)),
        };
        // It is latched still, so that it can be taken back without a lock.
        locked.inspect_err(|_| drop(self.light.replace(light)))
    }
}

impl PageRead for TreeAccess<'_> {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        if !matches!(*self.light.borrow(), Light::Fresh) {
            self.lock_first()?;
        }
        self.store.read(id)
    }
}

impl<'a> PageWrite for TreeAccess<'a> {
    type WriteGuard = ChangedPage<'a>;

    fn write(&self, id: PageId) -> Result<ChangedPage<'a>> {
        if matches!(*self.light.borrow(), Light::Fresh)
            && let Some(page) = self.store.latch_light(self.subtxn, self.light, id)?
        {
            return Ok(page);
        }
        self.lock_first()?;
        self.lock(id)?;
        self.store.latch_for(self.subtxn, id)
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<ChangedPage<'a>> {
        self.lock_first()?;
        self.store.allocate_for(self.subtxn, kind, size, |page| self.lock(page))
    }

    fn free(&self, guard: ChangedPage<'a>) -> Result<()> {
        self.lock_first()?;
        self.store.free_for(self.subtxn, guard);
        Ok(())
    }
}
