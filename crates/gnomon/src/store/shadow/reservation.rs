//! Space that is reserved for longer than a batch: for a page transaction of which nobody knows when it comes.

use super::{PageTxn, Purpose, ShadowStore};
use crate::{
    Result,
    page::{PageCounts, PageSize},
    sync::Arc,
};

/// Space in the file that nobody else gets. Given back when it is dropped.
pub struct Reservation {
    store: Arc<ShadowStore>,
    pages: PageCounts,
}

impl Reservation {
    /// A reservation of nothing.
    pub fn none(store: &Arc<ShadowStore>) -> Reservation {
        Reservation { store: store.clone(), pages: PageCounts::default() }
    }

    /// Reserves space for a page transaction that will change at most `pages` pages.
    ///
    /// # Errors
    /// As [`ShadowStore::begin`].
    pub fn new(store: &Arc<ShadowStore>, pages: PageCounts) -> Result<Reservation> {
        let pages = store.reserve(Purpose::Use, &pages, &PageCounts::default())?;
        Ok(Reservation { store: store.clone(), pages })
    }

    /// Has it cover a page transaction that will change at most `pages` pages. If what is reserved is less than that by
    /// now, because the store has grown or the disk was full when the reservation was made, it takes more, of what is
    /// kept on a full disk too; if there is not enough, what is reserved stays so.
    pub fn cover(&mut self, pages: &PageCounts) -> Result<()> {
        self.pages += self.store.reserve(Purpose::Free, pages, &self.pages)?;
        Ok(())
    }

    /// Begins a page transaction with what is reserved, which goes to its batch. The parts of its large values have
    /// pages of up to `part_max`.
    pub fn begin(&mut self, part_max: PageSize) -> Result<PageTxn<'_>> {
        let mut pages = self.store.enter(std::mem::take(&mut self.pages))?;
        pages.set_part_size_max(part_max);
        Ok(pages)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.store.unreserve(&self.pages);
    }
}
