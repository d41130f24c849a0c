//! A store, whichever way it recovers: what level 1 asks of all of them.

use std::time::Duration;

use super::{
    GroupCommit, PageRead, check_page_size,
    page_wal::LoggedStore,
    shadow::{Activity, ShadowStore},
};
use crate::{
    Csn, Error, PageId, Result,
    failpoint::Failpoints,
    page::{PageSize, pool::ReadLatch},
    sync::Arc,
};

/// The parts of a store that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStats {
    /// The version of the file's format.
    pub format_version: u32,
    /// The database's identity.
    pub identity: u64,
    /// Commit batches since the database was created; with a log of pages, units written to it since it was opened.
    pub batch: u64,
    /// The newest durable commit.
    pub durable_csn: Csn,
    /// The size of a physical page, and of the smallest page.
    pub unit: PageSize,
    /// Physical pages of all files.
    pub file_pages: u64,
    /// Of these, pages that the durable state uses.
    pub used_pages: u64,
    /// Physical pages that only pinned states use.
    pub held_pages: u64,
    /// Segments of the file, and how many of them are known to be empty.
    pub segments: (u64, u64),
    /// Logical page numbers handed out so far.
    pub logical_pages: u64,
    /// Levels of the page table.
    pub table_depth: u8,
    /// Nodes of the page table, at most: so many as the page numbers handed out need.
    pub table_pages: u64,
    /// Frames of the buffer pool in use.
    pub pool_frames: usize,
    /// Bytes of the buffer pool in use, and at most.
    pub pool_bytes: (usize, usize),
    /// Work done since it was opened.
    pub activity: Activity,
}

/// An open store.
#[derive(Clone)]
pub enum Store {
    /// It recovers by shadow paging.
    Shadow(Arc<ShadowStore>),
    /// It recovers by a log of pages.
    Logged(Arc<LoggedStore>),
}

/// Does the same with either store.
macro_rules! on_either {
    ($of:expr, $store:ident => $what:expr) => {
        match $of {
            Store::Shadow($store) => $what,
            Store::Logged($store) => $what,
        }
    };
}

impl Store {
    /// The store, if it recovers by shadow paging.
    pub fn shadow(&self) -> Option<&Arc<ShadowStore>> {
        match self {
            Store::Shadow(store) => Some(store),
            Store::Logged(_) => None,
        }
    }

    /// The store, if it recovers by a log of pages.
    pub fn logged(&self) -> Option<&Arc<LoggedStore>> {
        match self {
            Store::Shadow(_) => None,
            Store::Logged(store) => Some(store),
        }
    }

    /// The first page of a store, in reports of damage that is found beneath whole pages.
    pub const FIRST_PAGE: PageId = ShadowStore::FIRST_PAGE;

    /// The first page that a new store allocates.
    pub fn first_page(&self) -> PageId {
        match self {
            Store::Shadow(_) => ShadowStore::FIRST_PAGE,
            Store::Logged(store) => store.first_page(),
        }
    }

    /// True if nothing was ever written to it.
    pub fn is_new(&self) -> bool {
        on_either!(self, store => store.is_new())
    }

    /// True if it was opened read-only.
    pub fn is_read_only(&self) -> bool {
        on_either!(self, store => store.is_read_only())
    }

    /// Fails if there can be no pages of this size.
    pub fn check_page_size(&self, size: PageSize) -> Result<()> {
        check_page_size(on_either!(self, store => store.unit()), size)
    }

    /// Returns the place of a logical page, as far as that is known: the name of a file, and which physical page of
    /// it.
    pub fn place_of(&self, page: PageId) -> Option<(String, u64)> {
        match self {
            Store::Shadow(store) => store.place_of(page),
            Store::Logged(store) => Some(store.place_of(page)),
        }
    }

    /// Fails if the store is poisoned.
    pub fn check(&self) -> Result<()> {
        on_either!(self, store => GroupCommit::check(&**store))
    }

    /// Stops the store: every later call fails with this cause, in the error returned.
    pub fn poison(&self, cause: &Error) -> Error {
        on_either!(self, store => GroupCommit::poison(&**store, cause))
    }

    /// The last CSN that was taken.
    pub fn last_csn(&self) -> Csn {
        on_either!(self, store => GroupCommit::last_csn(&**store))
    }

    /// Waits until a commit is durable.
    pub fn wait_durable(&self, csn: Csn) -> Result<()> {
        on_either!(self, store => store.wait_durable(csn))
    }

    /// Calls `call` when the store fails, or at once if it has.
    pub fn when_failed(&self, call: impl FnOnce() + Send + 'static) {
        on_either!(self, store => store.durability().when_failed(call));
    }

    /// Sets the time that commits wait for others before they are made durable together.
    pub fn set_commit_interval(&self, interval: Duration) {
        on_either!(self, store => store.durability().set_interval(interval));
    }

    /// Returns how much of it is in use.
    pub fn stats(&self) -> StoreStats {
        on_either!(self, store => store.stats())
    }

    /// Returns the store, which must be one that recovers by shadow paging.
    #[cfg(all(test, not(shuttle)))]
    pub fn as_shadow(&self) -> &Arc<ShadowStore> {
        self.shadow().expect("the test is about such a store")
    }

    /// Returns the same for changing. This must be its only handle.
    #[cfg(test)]
    pub fn shadow_mut(&mut self) -> &mut ShadowStore {
        match self {
            Store::Shadow(store) => Arc::get_mut(store).expect("nobody else has it"),
            Store::Logged(_) => panic!("the test is about shadow paging"),
        }
    }

    /// Returns the faults that tests ask for.
    pub fn failpoints(&self) -> &Failpoints {
        on_either!(self, store => &store.failpoints)
    }
}

impl PageRead for Store {
    type ReadGuard = ReadLatch;

    #[inline]
    fn read(&self, id: PageId) -> Result<ReadLatch> {
        on_either!(self, store => PageRead::read(&**store, id))
    }

    fn restructured(&self) -> Option<u64> {
        on_either!(self, store => store.restructured())
    }

    fn try_read_all(&self, ids: &[PageId], guards: &mut Vec<Option<ReadLatch>>) {
        on_either!(self, store => store.try_read_all(ids, guards))
    }

    fn read_again(&self, id: PageId, restructured: u64) -> Option<ReadLatch> {
        on_either!(self, store => store.read_again(id, restructured))
    }
}
