//! Space that is reserved for longer than a batch: for a page transaction of which nobody knows when it comes.

use super::{PageTxn, Purpose, ShadowStore};
use crate::{Result, sync::Arc};

/// Space in the file, in physical pages, that nobody else gets. Given back when it is dropped.
pub struct Reservation {
    store: Arc<ShadowStore>,
    pages: u64,
}

impl Reservation {
    /// A reservation of nothing.
    pub fn none(store: &Arc<ShadowStore>) -> Reservation {
        Reservation { store: store.clone(), pages: 0 }
    }

    /// Reserves space for a page transaction that will change at most `pages` pages.
    ///
    /// # Errors
    /// As [`ShadowStore::begin`].
    pub fn new(store: &Arc<ShadowStore>, pages: u64) -> Result<Reservation> {
        let pages = store.reserve(Purpose::Use, pages, 0)?;
        Ok(Reservation { store: store.clone(), pages })
    }

    /// Begins a page transaction that will change at most `pages` pages with what is reserved, which goes to its batch.
    /// If that is less than it needs by now, because the store has grown or the disk was full when the reservation was
    /// made, it takes more, of what is kept on a full disk too; if there is not enough, what is reserved stays so.
    pub fn begin(&mut self, pages: u64) -> Result<PageTxn<'_>> {
        let more = self.store.reserve(Purpose::Free, pages, self.pages)?;
        self.store.enter(std::mem::take(&mut self.pages) + more)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.pages > 0 {
            self.store.space.lock().unreserve(self.pages);
        }
    }
}
