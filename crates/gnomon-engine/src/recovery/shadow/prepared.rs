//! Prepared transactions under shadow paging: the space for their end, which no other transaction gets.

use super::{
    Journal, Logged, ShadowPaging,
    apply::{apply_in_order, in_parts},
    estimate::{pages_changed, pages_changed_later, pages_of_entry},
};
use crate::{
    Csn, Error, Result,
    failpoint::Failpoint,
    mvcc::Keyspace,
    page::{PageCounts, PageSize},
    recovery::{EndOfEntry, Grown, NewEntry},
    store::GroupCommit,
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
    pages_removed: PageCounts,
}

impl KeptSpace {
    /// Reserves the space of a transaction that an earlier run has prepared.
    pub(super) fn again(store: &Arc<ShadowStore>, pages: PageCounts, entry_bytes: u64) -> Result<KeptSpace> {
        let reservation = match Reservation::new(store, pages) {
            // A read-only database does not end it. On a full disk, its end looks for space again.
            Err(Error::ReadOnly | Error::DiskFull) => Reservation::none(store),
            reservation => reservation?,
        };
        let (_, _, pages_removed) = pages_of_entry(entry_bytes, PageSize::DEFAULT)?;
        Ok(KeptSpace { reservation, part_max: PageSize::MAX, pages_removed })
    }
}

impl<J: Journal> ShadowPaging<J> {
    /// Reserves the space for the end, then stores the entry.
    pub(super) fn prepare_entry(
        &self,
        keyspace: &Keyspace,
        NewEntry { gid, writes, bytes, encode, .. }: NewEntry<'_>,
    ) -> Result<(Csn, Option<KeptSpace>)> {
        let (_, _, pages_removed) = pages_of_entry(bytes, PageSize::DEFAULT)?;
        let mut pages = PageCounts::default();
        let (part_max, reservation) = in_parts(|part_max| {
            pages = pages_changed_later(keyspace, writes, part_max)? + pages_removed;
            Ok((part_max, Reservation::new(&self.store, pages)?))
        })?;
        let entry = encode(pages)?;
        let record = self.journal.record(&Logged::Entry { gid, parts: &entry })?;
        let pages = in_parts(|part_max| {
            let (_, pages_put, _) = pages_of_entry(bytes, part_max)?;
            let mut pages = self.store.begin(pages_put)?;
            pages.set_part_size_max(part_max);
            Ok(pages)
        })?;
        // Inside the gate, as in every commit.
        keyspace.check_open()?;
        let take_csn = |pages: &mut PageTxn<'_>| J::order(record, pages);
        let (csn, _) = apply_in_order(keyspace, pages, take_csn, WriteSet::default(), |pages, _| {
            (0..).zip(&entry).try_for_each(|(part, bytes)| {
                keyspace.directory.set_prepared(pages, gid, part, Some(bytes)).map(drop)
            })
        })?;
        Ok((csn, Some(KeptSpace { reservation, part_max, pages_removed })))
    }

    /// Applies the writes, if there are to be some, and removes the entry, with the space that was kept.
    pub(super) fn end_entry(&self, keyspace: &Keyspace, end: EndOfEntry<'_>) -> Result<(Csn, Grown)> {
        let EndOfEntry { gid, parts, writes, kept } = end;
        let kept = kept.as_mut().expect("space is kept in such a store");
        let pages_removed = kept.pages_removed;
        if keyspace.store.failpoints().is_on(Failpoint::EntryRemovedFirst) {
            let pages = self.store.begin(pages_removed)?;
            keyspace.directory.remove_prepared(&pages, gid, parts)?;
            drop(pages);
            self.store.flush()?;
        }
        let part_max = in_parts(|max| {
            // What is reserved is for parts of that size.
            let part_max = max.min(kept.part_max);
            let applied = match &writes {
                Some(writes) => pages_changed(keyspace, writes, part_max)?,
                None => PageCounts::default(),
            };
            kept.reservation.cover(&(applied + pages_removed)).map(|()| part_max)
        })?;
        let nothing = WriteSet::default();
        let logged = Logged::End { gid, parts, writes: writes.as_deref().unwrap_or(&nothing) };
        let record = self.journal.record(&logged)?;
        let pages = kept.reservation.begin(part_max)?;
        // Inside the gate, as in every commit.
        keyspace.check_open()?;
        let writes = writes.map(std::mem::take).unwrap_or_default();
        let take_csn = |pages: &mut PageTxn<'_>| J::order(record, pages);
        apply_in_order(keyspace, pages, take_csn, writes, |pages, _| {
            keyspace.directory.remove_prepared(pages, gid, parts)
        })
    }
}
