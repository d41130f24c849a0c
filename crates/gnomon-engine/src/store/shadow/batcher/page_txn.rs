//! Page transactions: reading and changing pages inside the commit gate, and the numbers of new ones.

use super::Batcher;
use crate::{
    Csn, Error, Result,
    failpoint::Failpoint,
    page::{
        Page, PageCounts, PageId, PageKind, PageSize,
        pool::{PoolKey, ReadLatch, WriteLatch},
    },
    store::{
        PageGuard, PageRead, PageWrite, check_page_size,
        shadow::{allocator, page_table::node::PageEntry},
    },
    sync::{RwLockReadGuard, atomic::Ordering},
};

/// A page transaction: inside the commit gate from its beginning to its end (drop). What it changes goes into the
/// next commit batch as a whole.
pub struct PageTxn<'a> {
    batcher: &'a Batcher,
    /// The pages that are reserved for it.
    reserved: PageCounts,
    part_size_max: PageSize,
    _gate: RwLockReadGuard<'a, ()>,
}

impl<'a> PageTxn<'a> {
    pub fn new(batcher: &'a Batcher, gate: RwLockReadGuard<'a, ()>, reserved: PageCounts) -> PageTxn<'a> {
        PageTxn { batcher, reserved, part_size_max: PageSize::MAX, _gate: gate }
    }

    /// Takes the next CSN. Everything that this page transaction changes belongs to it.
    pub fn take_csn(&mut self) -> Csn {
        self.batcher.commits.take_csn()
    }

    /// Takes all CSNs up to this one. For commits that are replayed together, while there are no other commits.
    pub fn replay_to(&mut self, csn: Csn) {
        self.batcher.commits.replay_to(csn);
    }

    /// Counts `bytes` bytes of keys and values that it changes.
    pub fn note_changed(&self, bytes: usize) {
        self.batcher.mirror.counters.bytes_changed.add(bytes as u64);
    }

    /// Puts pages that were written before their batch was known in the place of those of the same numbers, or takes
    /// these away. No other transaction may change them meanwhile.
    pub fn replace_pages(&self, pages: impl Iterator<Item = (u64, Option<PageEntry>)>) {
        let batcher = self.batcher;
        let copies = batcher.allocator.space.lock().copies();
        for (logical, entry) in pages {
            let key = PoolKey { level: 0, index: logical };
            // If a dirty page is being flushed early, this waits: its old contents are outdated now.
            let is_dirty = batcher.accumulating.lock().dirty.frames.contains_key(&logical);
            let latch = if is_dirty { batcher.pool.get(key).and_then(|pin| pin.write()) } else { None };
            let mut accumulating = batcher.accumulating.lock();
            if let Some(frame) = accumulating.dirty.remove(logical) {
                frame.dirty.store(false, Ordering::Release);
            }
            let outdated = match entry {
                Some(entry) => {
                    // A disk was lost since it was written, or is new, or there was no room.
                    let is_there = |copy: &u64| batcher.mirror.disks.is_there(*copy);
                    if entry.place.copies().filter(is_there).count() < copies {
                        batcher.mirror.note_missing_copies();
                    }
                    accumulating.flushed_early |= !batcher.failpoints.is_on(Failpoint::PublishedUnsynced);
                    accumulating.freed.remove(&logical);
                    accumulating.early.insert(logical, entry)
                }
                None => {
                    accumulating.freed.insert(logical);
                    accumulating.early.remove(logical)
                }
            };
            drop(accumulating);
            // After that: a thread that loads the page from now on finds the new one. A thread that has begun to load
            // it before has put a frame there.
            if let Some(pin) = batcher.pool.get(key) {
                batcher.pool.remove(pin.frame());
            }
            drop(latch);
            if let Some(outdated) = outdated {
                batcher.release_early(outdated);
            }
        }
    }

    /// Sets the size of the largest pages for the parts of large values: the one that the reservation counts on.
    pub fn set_part_size_max(&mut self, size: PageSize) {
        self.part_size_max = size;
    }
}

impl Drop for PageTxn<'_> {
    /// Ends the transaction, still inside the gate. The reservation goes with its batch, but for the part that was
    /// not needed. If a panic cut the transaction short, the store is poisoned, so that no batch holds half of it.
    fn drop(&mut self) {
        let nodes = allocator::nodes(self.batcher.table.logical_end());
        let excess = {
            let mut accumulating = self.batcher.accumulating.lock();
            accumulating.reserved_open = accumulating.reserved_open.beyond(&self.reserved);
            accumulating.take_excess(nodes)
        };
        self.batcher.allocator.unreserve(&excess);
        if std::thread::panicking() {
            self.batcher.commits.poison(&Error::Poisoned("a panic while pages were changed".into()));
        }
    }
}

impl PageRead for PageTxn<'_> {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.batcher.read(id)
    }

    fn restructured(&self) -> Option<u64> {
        self.batcher.restructured()
    }

    fn read_again(&self, id: PageId, restructured: u64) -> Option<ReadLatch> {
        self.batcher.read_again(id, restructured)
    }
}

impl<'a> PageWrite for PageTxn<'a> {
    type WriteGuard = PageMut<'a>;

    fn write(&self, id: PageId) -> Result<PageMut<'a>> {
        self.batcher.commits.check()?;
        loop {
            let pin = self.batcher.data(id)?;
            // A page that is changed already takes no more room.
            if !pin.frame().dirty.load(Ordering::Relaxed) {
                self.batcher.make_room()?;
            }
            if let Some(latch) = pin.write() {
                return Ok(PageMut { batcher: self.batcher, latch });
            }
        }
    }

    fn write_again(&self, id: PageId, restructured: u64) -> Option<PageMut<'a>> {
        let pin = self.batcher.pool.get(PoolKey { level: 0, index: id.0 })?;
        if !pin.frame().dirty.load(Ordering::Relaxed) {
            // It takes room to change it.
            return None;
        }
        let latch = pin.write()?;
        (self.restructured() == Some(restructured)).then_some(PageMut { batcher: self.batcher, latch })
    }

    fn note_restructured(&self) {
        self.batcher.restructured.fetch_add(1, Ordering::AcqRel);
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<PageMut<'a>> {
        check_page_size(self.batcher.allocator.unit, size)?;
        self.batcher.commits.check()?;
        self.batcher.make_room()?;
        let index = self.batcher.table.allocate_logical()?;
        self.batcher.accumulating.lock().freed.remove(&index);
        let pin = self.batcher.pool.put(PoolKey { level: 0, index }, Page::sized(kind, size));
        let latch = pin.write().expect("it has just got an image");
        self.batcher.mark_dirty(latch.frame(), size);
        Ok(PageMut { batcher: self.batcher, latch })
    }

    fn part_size_max(&self) -> PageSize {
        self.part_size_max
    }

    fn free(&self, guard: PageMut<'a>) -> Result<()> {
        let frame = guard.latch.frame().clone();
        let index = frame.key.index;
        self.batcher.pool.remove(&frame);
        let early = {
            let mut accumulating = self.batcher.accumulating.lock();
            accumulating.dirty.remove(index);
            accumulating.freed.insert(index);
            accumulating.early.remove(index)
        };
        frame.dirty.store(false, Ordering::Release);
        if let Some(early) = early {
            self.batcher.release_early(early);
        }
        drop(guard);
        self.batcher.table.free_logical(index);
        Ok(())
    }
}

/// A page latched exclusively by a page transaction.
pub struct PageMut<'a> {
    batcher: &'a Batcher,
    latch: WriteLatch,
}

impl std::ops::Deref for PageMut<'_> {
    type Target = Page;
    fn deref(&self) -> &Page {
        self.latch.page()
    }
}

impl std::ops::DerefMut for PageMut<'_> {
    fn deref_mut(&mut self) -> &mut Page {
        self.batcher.mark_dirty(self.latch.frame(), self.latch.page().size());
        self.latch.page_mut()
    }
}

impl PageGuard for PageMut<'_> {
    fn id(&self) -> PageId {
        PageId(self.latch.frame().key.index)
    }
}
