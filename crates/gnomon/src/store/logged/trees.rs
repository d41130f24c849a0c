//! Subtransactions on trees. Two things protect a page of a tree, for different times: a latch while somebody reads or
//! changes its image, and a page lock until the subtransaction that has changed it ends.
//!
//! Trees latch their pages top-down, and whoever has latched one must not wait for a lock: its holder may need that
//! latch to come to its end. So a lock that is not free ends the attempt. What it has changed is taken back, its locks
//! are released, the page is waited for with nothing in hand, and the subtransaction begins again from the root of its
//! tree.
//!
//! Going down a tree takes no locks and merges no spheres, though it may pass pages that an incomplete subtransaction
//! has changed: whatever becomes of that, keys move only between pages that it has locked, so a page that is not locked
//! covers the same keys before and after it. Nor does it matter to the log: a page that is reached through a new parent
//! is either changed together with that, and in the same sphere, or was reached through the old one as well. If
//! traversals merged spheres, all of them would meet in the roots.

use std::cell::{Cell, RefCell};

use super::{LoggedStore, Subtxn, subtxn::ChangedPage};
use crate::{
    Error, PageId, Result, TxnId,
    lock::{LockName, LockOwner, WaitOptions, key_mode},
    page::{PageKind, PageSize, pool::ReadLatch},
    store::{PageRead, PageWrite},
};

/// Reads and changes the pages of trees for a subtransaction.
pub struct TreeAccess<'a> {
    store: &'a LoggedStore,
    subtxn: &'a Subtxn,
    owner: RefCell<&'a mut LockOwner>,
    /// The page whose lock was not free.
    wanted: Cell<Option<PageId>>,
}

/// A panic in the middle of a change leaves pages that nobody can take back.
struct StopOnPanic<'a>(&'a LoggedStore);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        use crate::store::GroupCommit as _;
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
    ) -> Result<(Subtxn, R)> {
        self.attempt(|| self.begin_subtxn(txn), owner, body).inspect_err(|_| owner.release_all())
    }

    /// The same, to take another subtransaction back.
    pub fn change_trees_back<R>(
        &self,
        txn: TxnId,
        owner: &mut LockOwner,
        body: impl FnMut(&TreeAccess<'_>) -> Result<R>,
    ) -> Result<(Subtxn, R)> {
        self.attempt(|| self.begin_compensation(txn), owner, body).inspect_err(|_| owner.release_all())
    }

    fn attempt<R>(
        &self,
        begin: impl Fn() -> Result<Subtxn>,
        owner: &mut LockOwner,
        mut body: impl FnMut(&TreeAccess<'_>) -> Result<R>,
    ) -> Result<(Subtxn, R)> {
        let panicked = StopOnPanic(self);
        let changed = loop {
            let subtxn = begin()?;
            let (result, wanted) = {
                let owner = RefCell::new(&mut *owner);
                let access = TreeAccess { store: self, subtxn: &subtxn, owner, wanted: Cell::new(None) };
                let result = body(&access);
                (result, access.wanted.get())
            };
            match (result, wanted) {
                (Ok(result), None) => break Ok((subtxn, result)),
                (result, wanted) => {
                    self.abort(subtxn)?;
                    owner.release_all();
                    match (wanted, result) {
                        (Some(page), _) => self.wait_for_page(owner, page)?,
                        (None, Err(error)) => break Err(error),
                        (None, Ok(_)) => unreachable!("it would have ended"),
                    }
                }
            }
        };
        drop(panicked);
        changed
    }

    /// Waits for the lock of a page. Whoever waits so holds nothing that others wait for but locks of level 1, and
    /// nobody waits for these while it holds pages.
    fn wait_for_page(&self, owner: &mut LockOwner, page: PageId) -> Result<()> {
        let name = LockName::whole(self.page_locks, page.0);
        self.page_waits.lock(owner, name, key_mode::X, &WaitOptions::default(), &*self.clock)
    }
}

impl TreeAccess<'_> {
    /// Locks a page exclusively if that is free.
    fn lock(&self, page: PageId) -> Result<()> {
        let name = LockName::whole(self.store.page_locks, page.0);
        let wait = WaitOptions { nowait: true, ..WaitOptions::default() };
        let mut owner = self.owner.borrow_mut();
        let locked = self.store.page_waits.lock(&mut owner, name, key_mode::X, &wait, &*self.store.clock);
        locked.inspect_err(|_| self.wanted.set(Some(page)))
    }
}

impl PageRead for TreeAccess<'_> {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.store.read(id)
    }
}

impl<'a> PageWrite for TreeAccess<'a> {
    type WriteGuard = ChangedPage<'a>;

    fn write(&self, id: PageId) -> Result<ChangedPage<'a>> {
        self.lock(id)?;
        self.store.latch_for(self.subtxn, id)
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<ChangedPage<'a>> {
        self.store.allocate_for(self.subtxn, kind, size, |page| self.lock(page))
    }

    fn free(&self, guard: ChangedPage<'a>) -> Result<()> {
        self.store.free_for(self.subtxn, guard);
        Ok(())
    }
}
