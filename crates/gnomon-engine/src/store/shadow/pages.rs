//! Page transactions: reading and changing pages inside the commit gate, and the numbers of new ones.

use super::{ShadowStore, place::is_bitmap, table};
use crate::{
    Csn, Error, Result,
    page::{
        Page, PageCounts, PageId, PageKind, PageSize,
        pool::{PoolKey, ReadLatch, WriteLatch},
    },
    store::{PageGuard, PageRead, PageWrite, check_page_size},
    sync::{RwLockReadGuard, atomic::Ordering},
};

/// A page transaction: inside the commit gate from its beginning to its end (drop). What it changes goes into the
/// next commit batch as a whole.
pub struct PageTxn<'a> {
    store: &'a ShadowStore,
    /// The pages that are reserved for it.
    reserved: PageCounts,
    part_size_max: PageSize,
    _gate: RwLockReadGuard<'a, ()>,
}

impl<'a> PageTxn<'a> {
    pub(super) fn new(
        store: &'a ShadowStore,
        gate: RwLockReadGuard<'a, ()>,
        reserved: PageCounts,
    ) -> PageTxn<'a> {
        PageTxn { store, reserved, part_size_max: PageSize::MAX, _gate: gate }
    }

    /// Takes the next CSN. Everything that this page transaction changes belongs to it.
    pub fn take_csn(&mut self) -> Csn {
        Csn(self.store.last_csn.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Takes all CSNs up to this one. For commits that are replayed together, while there are no other commits.
    pub fn replay_to(&mut self, csn: Csn) {
        self.store.last_csn.store(csn.0, Ordering::Release);
    }

    /// Counts `bytes` bytes of keys and values that it changes.
    pub fn note_changed(&self, bytes: usize) {
        self.store.note_changed(bytes);
    }

    pub(super) fn store(&self) -> &'a ShadowStore {
        self.store
    }

    /// Sets the size of the largest pages for the parts of large values: the one that the reservation counts on.
    pub fn set_part_size_max(&mut self, size: PageSize) {
        self.part_size_max = size;
    }

    /// Writes changed pages early, if there are too many for one more.
    fn make_room(&self) -> Result<()> {
        // An estimate is good enough here: the mutex is released before anything is written.
        let dirty_bytes = self.store.accumulating.lock().dirty.bytes;
        let waits = self.store.disks.batches_can_wait.load(Ordering::Relaxed);
        let dirty_bytes_max = self.store.dirty_bytes_max * if waits { 4 } else { 1 };
        if dirty_bytes > dirty_bytes_max { self.store.write_early() } else { Ok(()) }
    }
}

impl Drop for PageTxn<'_> {
    /// Ends the transaction, still inside the gate. The reservation goes with its batch, but for the part that was
    /// not needed. If a panic cut the transaction short, the store is poisoned, so that no batch holds half of it.
    fn drop(&mut self) {
        let nodes = super::nodes(self.store.logical.lock().end);
        let excess = {
            let mut accumulating = self.store.accumulating.lock();
            accumulating.reserved_open = accumulating.reserved_open.beyond(&self.reserved);
            accumulating.take_excess(nodes)
        };
        self.store.unreserve(&excess);
        if std::thread::panicking() {
            self.store.poison(&Error::Poisoned("a panic while pages were changed".into()));
        }
    }
}

impl PageRead for PageTxn<'_> {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.store.read(id)
    }

    fn restructured(&self) -> Option<u64> {
        self.store.restructured()
    }

    fn read_again(&self, id: PageId, restructured: u64) -> Option<ReadLatch> {
        self.store.read_again(id, restructured)
    }
}

impl<'a> PageWrite for PageTxn<'a> {
    type WriteGuard = PageMut<'a>;

    fn write(&self, id: PageId) -> Result<PageMut<'a>> {
        self.store.check()?;
        loop {
            let pin = self.store.data(id)?;
            // A page that is changed already takes no more room.
            if !pin.frame().dirty.load(Ordering::Relaxed) {
                self.make_room()?;
            }
            if let Some(latch) = pin.write() {
                return Ok(PageMut { store: self.store, latch });
            }
        }
    }

    fn write_again(&self, id: PageId, restructured: u64) -> Option<PageMut<'a>> {
        let pin = self.store.pool.get(PoolKey { level: 0, index: id.0 })?;
        if !pin.frame().dirty.load(Ordering::Relaxed) {
            // It takes room to change it.
            return None;
        }
        let latch = pin.write()?;
        (self.restructured() == Some(restructured)).then_some(PageMut { store: self.store, latch })
    }

    fn note_restructured(&self) {
        self.store.restructured.fetch_add(1, Ordering::AcqRel);
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<PageMut<'a>> {
        check_page_size(self.store.unit, size)?;
        self.store.check()?;
        self.make_room()?;
        let index = self.store.allocate_logical()?;
        self.store.accumulating.lock().freed.remove(&index);
        let pin = self.store.pool.put(PoolKey { level: 0, index }, Page::sized(kind, size));
        let latch = pin.write().expect("it has just got an image");
        self.store.mark_dirty(latch.frame(), size);
        Ok(PageMut { store: self.store, latch })
    }

    fn part_size_max(&self) -> PageSize {
        self.part_size_max
    }

    fn free(&self, guard: PageMut<'a>) -> Result<()> {
        let frame = guard.latch.frame().clone();
        let index = frame.key.index;
        self.store.pool.remove(&frame);
        let early = {
            let mut accumulating = self.store.accumulating.lock();
            accumulating.dirty.remove(index);
            accumulating.freed.insert(index);
            accumulating.early.remove(index)
        };
        frame.dirty.store(false, Ordering::Release);
        if let Some(early) = early {
            self.store.release_early(early);
        }
        drop(guard);
        self.store.free_logical(index);
        Ok(())
    }
}

/// A page latched exclusively by a page transaction.
pub struct PageMut<'a> {
    store: &'a ShadowStore,
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
        self.store.mark_dirty(self.latch.frame(), self.latch.page().size());
        self.latch.page_mut()
    }
}

impl PageGuard for PageMut<'_> {
    fn id(&self) -> PageId {
        PageId(self.latch.frame().key.index)
    }
}

impl ShadowStore {
    /// Returns a logical page number that is not in use: one given back, else one that the page table shows unused
    /// (each node is looked through once after opening), else a new one.
    pub(super) fn allocate_logical(&self) -> Result<u64> {
        loop {
            let scan = {
                let mut logical = self.logical.lock();
                if let Some(number) = logical.free.pop() {
                    return Ok(number);
                }
                if logical.scanned >= logical.scan_end {
                    if is_bitmap(logical.end) {
                        logical.end += 1;
                    }
                    logical.end += 1;
                    return Ok(logical.end - 1);
                }
                let base = logical.scanned;
                logical.scanned += table::FANOUT;
                base..(base + table::FANOUT).min(logical.scan_end)
            };
            let node = self.node(1, scan.start)?;
            let is_mapped = |number| {
                node.as_ref()
                    .is_some_and(|node| table::entry(node, table::slot(1, number)).present().is_some())
            };
            let found: Vec<u64> =
                scan.rev().filter(|number| !is_bitmap(*number) && !is_mapped(*number)).collect();
            self.logical.lock().free.extend(found);
        }
    }

    pub(super) fn free_logical(&self, number: u64) {
        let mut logical = self.logical.lock();
        // A node still to be looked through will show it.
        if number < logical.scanned || number >= logical.scan_end {
            logical.free.push(number);
        }
    }
}
