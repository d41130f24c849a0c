//! Space that is reserved for longer than a batch: for a page transaction that comes at an unknown time.

use super::{Batcher, PageTxn};
use crate::{
    Result,
    page::{PageCounts, PageSize},
    store::shadow::{ShadowStore, allocator::Purpose},
    sync::Arc,
};

/// Reserved space in the file, which no other transaction gets. Given back when it is dropped.
pub struct Reservation {
    batcher: Arc<Batcher>,
    pages: PageCounts,
}

impl Reservation {
    /// Returns a reservation of nothing.
    pub fn none(store: &ShadowStore) -> Reservation {
        Reservation { batcher: store.batcher.clone(), pages: PageCounts::default() }
    }

    /// Reserves space for a page transaction that will change at most `pages` pages.
    ///
    /// # Errors
    /// As [`ShadowStore::begin`].
    pub fn new(store: &ShadowStore, pages: PageCounts) -> Result<Reservation> {
        let pages = store.allocator.reserve(Purpose::Use, &pages, &PageCounts::default())?;
        Ok(Reservation { batcher: store.batcher.clone(), pages })
    }

    /// Makes the reservation cover a page transaction that will change at most `pages` pages. It takes more if less
    /// than that is reserved by now, because the store has grown or the disk was full when the reservation was made;
    /// then it may use the space that is kept on a full disk too. If there is not enough, the reservation stays as it
    /// is.
    pub fn cover(&mut self, pages: &PageCounts) -> Result<()> {
        self.pages += self.batcher.allocator.reserve(Purpose::Free, pages, &self.pages)?;
        Ok(())
    }

    /// Begins a page transaction with what is reserved, which goes to its batch. The parts of its large values have
    /// pages of up to `part_max`.
    pub fn begin(&mut self, part_max: PageSize) -> Result<PageTxn<'_>> {
        let mut pages = self.batcher.enter(std::mem::take(&mut self.pages))?;
        pages.set_part_size_max(part_max);
        Ok(pages)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.batcher.allocator.unreserve(&self.pages);
    }
}
