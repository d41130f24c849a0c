//! Prepared transactions under shadow paging: the space for their end, which no other transaction gets.

use super::{
    apply::in_parts,
    estimate::{pages_changed, pages_changed_later, pages_of_entry},
};
use crate::{
    Error, Result,
    mvcc::Keyspace,
    page::{PageCounts, PageSize},
    store::shadow::{PageTxn, Reservation, ShadowStore},
    sync::Arc,
    write_set::WriteSet,
};

/// The space that is kept for the end of a prepared transaction.
pub(crate) struct KeptSpace {
    reservation: Reservation,
    /// The largest pages that it counts on for parts of large values.
    part_max: PageSize,
    /// Pages that change when the entry is removed.
    pub(in crate::recovery) pages_removed: PageCounts,
}

impl KeptSpace {
    /// Reserves the space of a transaction that is being prepared, whose entry has so many bytes. Returns the pages too
    /// that its end changes at most.
    pub(in crate::recovery) fn reserve(
        keyspace: &Keyspace,
        store: &Arc<ShadowStore>,
        writes: &WriteSet,
        entry_bytes: u64,
    ) -> Result<(KeptSpace, PageCounts)> {
        let (_, _, pages_removed) = pages_of_entry(entry_bytes, PageSize::DEFAULT)?;
        in_parts(|part_max| {
            let pages = pages_changed_later(keyspace, writes, part_max)? + pages_removed;
            let reservation = Reservation::new(store, pages)?;
            Ok((KeptSpace { reservation, part_max, pages_removed }, pages))
        })
    }

    /// Reserves the space of a transaction that an earlier run has prepared.
    pub(in crate::recovery) fn again(
        store: &Arc<ShadowStore>,
        pages: PageCounts,
        entry_bytes: u64,
    ) -> Result<KeptSpace> {
        let reservation = match Reservation::new(store, pages) {
            // A read-only database does not end it. On a full disk, its end looks for space again.
            Err(Error::ReadOnly | Error::DiskFull) => Reservation::none(store),
            reservation => reservation?,
        };
        let (_, _, pages_removed) = pages_of_entry(entry_bytes, PageSize::DEFAULT)?;
        Ok(KeptSpace { reservation, part_max: PageSize::MAX, pages_removed })
    }

    /// Makes the space cover an end now, which applies `writes`.
    pub(in crate::recovery) fn cover(&mut self, keyspace: &Keyspace, writes: &WriteSet) -> Result<()> {
        self.part_max = in_parts(|max| {
            // What is reserved is for parts of that size.
            let part_max = max.min(self.part_max);
            let pages = pages_changed(keyspace, writes, part_max)? + self.pages_removed;
            self.reservation.cover(&pages).map(|()| part_max)
        })?;
        Ok(())
    }

    /// Begins the page transaction of the end, which the space covers.
    pub(in crate::recovery) fn begin(&mut self) -> Result<PageTxn<'_>> {
        self.reservation.begin(self.part_max)
    }
}

/// Begins a page transaction that stores an entry of so many bytes.
pub(in crate::recovery) fn begin_entry(store: &ShadowStore, bytes: u64) -> Result<PageTxn<'_>> {
    in_parts(|part_max| {
        let (_, pages_put, _) = pages_of_entry(bytes, part_max)?;
        let mut pages = store.begin(pages_put)?;
        pages.set_part_size_max(part_max);
        Ok(pages)
    })
}
