//! Early flush: dirty pages that are written before their batch is closed, and where they are.

use std::collections::BTreeMap;

use super::{Batcher, Dirty, When};
use crate::{
    Error, Result,
    failpoint::Failpoint,
    page::{
        PAGE_BYTES, Page, PageCounts, PageSize,
        pool::{Frame, ReadLatch},
    },
    store::shadow::{
        allocator::space::Life,
        page_table::{node::PageEntry, place::Place},
        words::Words,
    },
    sync::{Arc, MutexGuard, atomic::Ordering},
};

/// Bytes of dirty pages that are flushed early at a time, about.
const EARLY_BYTES: usize = 256 << 10;

/// Where batches can wait, how many times `dirty_bytes_max` may be dirty before the background flushes early.
const DIRTY_IN_BACKGROUND: usize = 4;
/// The same before page transactions do so.
const DIRTY_AT_ONCE: usize = 6;
/// How many times `dirty_bytes_max` may be dirty or flushed early, about, before a batch is due.
const DIRTY_IN_BATCH: usize = 8;

/// Set in the word of a page that was written by a transaction of its own, before its batch was known.
const BEFORE_BATCH: u128 = 1 << Place::WORD_BITS;
/// Where the code of the page's size begins.
const SIZE_AT: u32 = Place::WORD_BITS + 1;

/// Where pages are that were written before their batch was closed.
#[derive(Clone, Default)]
pub struct EarlyPages(Words);

fn entry(word: u128, batch: u64) -> PageEntry {
    let size = PageSize::from_code((word >> SIZE_AT) as u8 & 0xf).unwrap_or_default();
    PageEntry { place: Place::of_word(word), batch, size, early: word & BEFORE_BATCH != 0 }
}

impl EarlyPages {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, logical: u64) -> bool {
        self.0.contains(logical)
    }

    /// Returns the entry that a page will have in the page table when it is published with this batch.
    pub fn get(&self, logical: u64, batch: u64) -> Option<PageEntry> {
        self.0.get(logical).map(|word| entry(word, batch))
    }

    /// Notes where a page was written. Returns where it was before.
    pub fn insert(&mut self, logical: u64, page: PageEntry) -> Option<PageEntry> {
        let flag = if page.early { BEFORE_BATCH } else { 0 };
        let word = page.place.word() | flag | u128::from(page.size.code()) << SIZE_AT;
        self.0.insert(logical, word).map(|word| entry(word, page.batch))
    }

    /// Forgets a page. Returns where it was.
    pub fn remove(&mut self, logical: u64) -> Option<PageEntry> {
        self.0.remove(logical).map(|word| entry(word, 0))
    }

    /// Returns all entries, for this batch, in the order of logical pages.
    pub fn iter(&self, batch: u64) -> impl Iterator<Item = (u64, PageEntry)> {
        self.0.iter().map(move |(logical, word)| (logical, entry(word, batch)))
    }
}

/// The urgency of an early flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    /// Pages that were changed lately can wait.
    Cold,
    /// Some pages are flushed, whichever.
    Now,
}

impl Dirty {
    /// Returns about [`EARLY_BYTES`] of pages by their numbers, latched: of those that follow the last ones, the first
    /// that were not changed since the search came by. A frame that a thread (perhaps this one) holds exclusively is
    /// passed over, not waited for.
    fn coldest(&mut self, flush: Flush) -> BTreeMap<u64, (Arc<Frame>, PageSize, ReadLatch)> {
        let (mut chosen, mut bytes) = (BTreeMap::new(), 0);
        let round = || self.frames.range(self.hand..).chain(self.frames.range(..self.hand));
        // In the second round none is passed over for having been changed.
        let rounds = if flush == Flush::Now { 2 } else { 1 };
        for (&logical, (frame, size)) in (0..rounds).flat_map(|_| round()) {
            if bytes >= EARLY_BYTES {
                self.hand = logical;
                break;
            }
            if frame.recently_changed.swap(false, Ordering::Relaxed) || chosen.contains_key(&logical) {
                continue;
            }
            if let Some(latch) = frame.try_read() {
                bytes += size.bytes();
                chosen.insert(logical, (frame.clone(), *size, latch));
            }
        }
        chosen
    }
}

impl Batcher {
    /// True if so many dirty pages wait that a batch should be written.
    pub fn has_many_dirty_pages(&self) -> bool {
        let dirty_bytes_max = self.dirty_bytes_max.load(Ordering::Relaxed);
        let accumulating = self.accumulating.lock();
        match self.batches_can_wait() {
            true => {
                let early_bytes = accumulating.early.len() * PAGE_BYTES;
                accumulating.dirty.bytes + early_bytes > DIRTY_IN_BATCH * dirty_bytes_max
            }
            false => accumulating.dirty.bytes > 2 * dirty_bytes_max,
        }
    }

    /// True if commits do not wait for batches.
    fn batches_can_wait(&self) -> bool {
        self.mirror.disks.batches_can_wait.load(Ordering::Relaxed)
    }

    /// True if the background should flush dirty pages early ([`Batcher::flush_some`]).
    pub fn wants_flush(&self) -> bool {
        self.batches_can_wait() && self.has_dirty_beyond(DIRTY_IN_BACKGROUND)
    }

    /// True if more than so many times `dirty_bytes_max` are dirty.
    fn has_dirty_beyond(&self, times: usize) -> bool {
        self.accumulating.lock().dirty.bytes > times * self.dirty_bytes_max.load(Ordering::Relaxed)
    }

    /// Flushes dirty pages early, outside of page transactions, until so few wait that no more is wanted, or until all
    /// that wait were changed since the last flush.
    pub fn flush_some(&self) -> Result<()> {
        // What must be read is read before anything is taken: a read that fails is no reason to stop the store, and
        // commits go on without this flush.
        if !self.wants_flush() || self.allocator.load_bitmaps().is_err() {
            return Ok(());
        }
        while self.wants_flush() {
            let _gate = (!self.failpoints.is_on(Failpoint::FlushedOutsideGate)).then(|| self.gate.read());
            let early = self.early.lock();
            let flushed =
                self.flush_early(Flush::Cold, &early).map_err(|error| self.commits.poison(&error))?;
            if flushed == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Flushes dirty pages early if there are too many for one more. The caller is inside the gate.
    pub fn make_room(&self) -> Result<()> {
        if !self.batches_can_wait() {
            // Another thread that is at it is enough.
            return match self.has_dirty_beyond(1).then(|| self.early.try_lock()).flatten() {
                Some(early) => self.flush_early(Flush::Now, &early).map(drop),
                None => Ok(()),
            };
        }
        if self.has_dirty_beyond(DIRTY_AT_ONCE) {
            let early = self.early.lock();
            // Another thread may have made room meanwhile.
            if self.has_dirty_beyond(DIRTY_AT_ONCE) {
                self.flush_early(Flush::Now, &early)?;
            }
        }
        Ok(())
    }

    /// Flushes some dirty pages before their batch is closed. The caller is inside the gate. Returns how many.
    fn flush_early(&self, flush: Flush, _one: &MutexGuard<'_, ()>) -> Result<usize> {
        let mut chosen: Vec<(Arc<Frame>, ReadLatch)> = Vec::new();
        let mut wanted = PageCounts::default();
        let (batch, mut reserved) = {
            let mut accumulating = self.accumulating.lock();
            for (frame, size, latch) in accumulating.dirty.coldest(flush).into_values() {
                wanted[size] += 1;
                chosen.push((frame, latch));
            }
            let covered = accumulating.reserved.at_most(&wanted);
            accumulating.reserved = accumulating.reserved.beyond(&covered);
            accumulating.flushed_early |= !chosen.is_empty();
            (accumulating.batch, covered)
        };
        // By size, so that each size gets its places together.
        chosen.sort_by_key(|(frame, latch)| (latch.size(), frame.key.index));
        let mut places: Vec<PageEntry> = Vec::with_capacity(chosen.len());
        let taken = wanted.iter().try_for_each(|(size, count)| {
            let found = self.allocator.take_places(size, count, Life::Long, &mut reserved)?;
            places.extend(found.into_iter().map(|place| PageEntry::sized(place, size, batch)));
            Ok(())
        });
        self.accumulating.lock().reserved += reserved;
        match taken {
            // The batch itself has its reservation: only memory is short, for a while.
            Err(Error::DiskFull) => {
                places.into_iter().for_each(|place| self.release_early(place));
                return Ok(0);
            }
            taken => taken?,
        }
        let pages: Vec<_> = chosen
            .iter()
            .zip(&places)
            .map(|((frame, image), at)| (at.place, frame.key, Page::clone(image)))
            .collect();
        self.write_pages(batch, When::Early, &pages, |_, _| Ok(()))?;
        let flushed = pages.len();
        drop(pages);
        for ((frame, latch), place) in chosen.into_iter().zip(places) {
            let mut accumulating = self.accumulating.lock();
            let before = accumulating.early.insert(frame.key.index, place);
            accumulating.dirty.remove(frame.key.index);
            drop(accumulating);
            frame.dirty.store(false, Ordering::Release);
            drop(latch);
            if let Some(before) = before {
                self.release_early(before);
            }
        }
        Ok(flushed)
    }

    /// Gives up the place of an early flush, and gives its pages back to the batch's reservation.
    pub fn release_early(&self, page: PageEntry) {
        // In this order: the reservation of the batch must be promised already.
        self.allocator.release_for_reservation(page);
        self.accumulating.lock().reserved[page.size] += 1;
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use crate::{
        PageSize,
        disk::MemDisk,
        page::{PageId, PageKind},
        store::{GroupCommit, PageGuard, PageWrite, shadow::ShadowStore},
    };

    /// A store that flushes early in the background beyond 32 pages, and these pages, durable.
    fn store(pages: usize) -> (ShadowStore, Vec<PageId>) {
        let store = ShadowStore::open(&MemDisk::new(), Some(7), 4 << 20, false).unwrap();
        store.let_pages_wait();
        store.batcher.set_dirty_bytes_max(8 * 4096);
        let allocate =
            |_| store.begin(1).unwrap().allocate(PageKind::TreeLeaf, PageSize::DEFAULT).unwrap().id();
        let ids = (0..pages).map(allocate).collect();
        store.flush().unwrap();
        (store, ids)
    }

    fn change(store: &ShadowStore, page: PageId) {
        store.begin(1).unwrap().write(page).unwrap().body_mut()[0] += 1;
    }

    #[test]
    fn pages_that_are_changed_often_wait_for_their_batch() {
        let (store, ids) = store(100);
        let (hot, cold) = ids.split_at(4);
        let before = store.stats().activity;
        for round in cold.chunks(8) {
            hot.iter().chain(round).for_each(|page| change(&store, *page));
            store.batcher.flush_some().unwrap();
        }
        let early = &store.batcher.accumulating.lock().early;
        assert!(early.len() >= 64, "{}", early.len());
        assert!(hot.iter().all(|page| !early.contains(page.0)));
        let done = store.stats().activity.since(&before);
        assert_eq!((done.early_pages, done.batches), (early.len() as u64, 0), "each is written once");
    }

    #[test]
    fn page_transactions_flush_what_the_background_does_not() {
        let (store, ids) = store(100);
        assert!(!store.batcher.wants_flush() && !store.batcher.has_many_dirty_pages());
        ids[..33].iter().for_each(|page| change(&store, *page));
        assert!(store.batcher.wants_flush() && !store.batcher.has_many_dirty_pages());
        assert_eq!(store.batcher.accumulating.lock().early.len(), 0);
        ids[33..].iter().for_each(|page| change(&store, *page));
        let accumulating = store.batcher.accumulating.lock();
        assert!(accumulating.dirty.frames.len() <= 49 && accumulating.early.len() >= 51);
        drop(accumulating);
        assert!(store.batcher.has_many_dirty_pages(), "a batch is due by those that were flushed, too");
        store.flush().unwrap();
        assert!(!store.batcher.has_many_dirty_pages() && !store.batcher.wants_flush());
        assert!(ids.iter().all(|page| crate::store::PageRead::read(&store, *page).unwrap().body()[0] == 1));
    }
}
