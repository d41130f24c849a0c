//! The batcher: collects what page transactions change, and makes it durable in commit batches (Shadows, sections 2
//! and 3; Figure 2).
//!
//! A [`PageTxn`] passes the commit gate shared, and its changes stay in the buffer pool as dirty pages. A leader
//! ([`GroupCommit`]) closes the gate for a moment, takes the images of all dirty pages, [builds](build) the new page
//! table over them, writes both to free space with a new superblock, and publishes the state ([`batch`]).
//!
//! Promises: a batch holds whole page transactions, all of them up to its CSN (invariant 2), since a CSN is taken and
//! its changes are made within one passage through the gate. A failure from closing on stops the store (invariant 5).
//!
//! *Early flush.* When dirty pages take more than an eighth of the pool, a page transaction writes some to free space
//! before their batch is closed, and [remembers](early) the places. No superblock reaches them, so a crash forgets
//! them. A page transaction can thus be larger than the pool. If batches can wait, since a log makes commits durable, a
//! thread in the background does so beyond half of the pool, and page transactions beyond three quarters; a batch is
//! due when the pages that wait and those flushed early are as large as the pool. Pages that were changed since the
//! last flush came by are passed over once (second chance), so that what is changed often waits for its batch.
//!
//! *Confirming.* A superblock that lists its batch's pages loses the batch if one of them is damaged later, since that
//! looks like a crash. So after a moment without writes, and when the database is closed, the superblock is written
//! once more without the list ([`Batcher::confirm`]).

mod batch;
mod build;
mod early;
mod page_txn;
mod reservation;

use std::collections::{BTreeMap, BTreeSet};

use self::early::EarlyPages;
use super::{
    allocator::{Allocator, Purpose},
    mirror::{Mirror, disks::StateOf},
    page_table::{
        PageTable,
        node::{BLOCK, PageEntry},
        place::{Place, is_bitmap},
    },
    snapshots::Snapshots,
    superblock::{LogMark, Superblock},
};
use crate::{
    Csn, Error, Result,
    disk::File,
    failpoint::{Failpoint, Failpoints},
    page::{
        PAGE_BYTES, Page, PageCounts, PageId, PageKind, PageSize,
        pool::{Frame, Pin, Pool, PoolKey, ReadLatch},
    },
    store::{Durability, GroupCommit, PageRead, commits::Commits},
    sync::{
        Arc, Line, Mutex, OnceLock, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

pub use page_txn::PageTxn;
pub use reservation::Reservation;

/// The batcher of a store.
pub struct Batcher {
    pub commits: Arc<Commits>,
    pub mirror: Arc<Mirror>,
    pub table: Arc<PageTable>,
    pub allocator: Arc<Allocator>,
    pub snapshots: Arc<Snapshots>,
    pub pool: Pool,
    /// The commit gate: shared while a page transaction changes pages, exclusive while a batch is closed.
    gate: Line<RwLock<()>>,
    accumulating: Line<Mutex<Accumulating>>,
    /// Held by the one thread that flushes early.
    early: Mutex<()>,
    /// Bytes of dirty pages beyond which a page transaction flushes some early, unless batches can wait.
    dirty_bytes_max: AtomicUsize,
    /// Number of changes of the ranges that pages cover, since the store was opened.
    restructured: Line<AtomicU64>,
    /// Returns the mark of the log that a superblock needs beside it.
    mark_superblocks: OnceLock<Box<dyn Fn() -> Result<Option<LogMark>> + Send + Sync>>,
    /// True if something was written since the store was opened.
    has_written: Mutex<bool>,
    /// True if the superblock in the files has no list. Not in the superblock, which every commit copies under its
    /// mutex.
    confirmed: AtomicBool,
    pub failpoints: Failpoints,
}

/// The contents of the next commit batch.
#[derive(Default)]
pub struct Accumulating {
    /// The number of that batch.
    pub batch: u64,
    /// Dirty pages, by logical number.
    pub dirty: Dirty,
    /// Places of dirty pages that were flushed early.
    pub early: EarlyPages,
    /// Number of the batch in flight, and its pages that were flushed early, until the page table has them.
    pub early_in_flight: (u64, Arc<EarlyPages>),
    /// Logical pages given back.
    pub freed: BTreeSet<u64>,
    /// Pages that the cleaner or a repair copied elsewhere.
    pub moved: Vec<Move>,
    /// Nodes and bitmaps that the cleaner or a repair moves by rewriting them.
    pub rewritten: Vec<PoolKey>,
    /// True if pages were written under the batch's number before it was closed.
    pub flushed_early: bool,
    /// Space reserved for it.
    pub reserved: PageCounts,
    /// The part of it that belongs to page transactions that have not ended.
    pub reserved_open: PageCounts,
}

/// Dirty pages.
#[derive(Default)]
pub struct Dirty {
    pub frames: BTreeMap<u64, (Arc<Frame>, PageSize)>,
    pub counts: PageCounts,
    pub bytes: usize,
    /// Where the search for pages to flush early goes on.
    hand: u64,
}

impl Dirty {
    pub fn insert(&mut self, frame: Arc<Frame>, size: PageSize) {
        self.remove(frame.key.index);
        self.counts[size] += 1;
        self.bytes += size.bytes();
        self.frames.insert(frame.key.index, (frame, size));
    }

    pub fn remove(&mut self, logical: u64) -> Option<Arc<Frame>> {
        let (frame, size) = self.frames.remove(&logical)?;
        self.counts[size] -= 1;
        self.bytes -= size.bytes();
        Some(frame)
    }
}

impl Accumulating {
    /// Returns the pages that the batch will need if nothing is added, in a page table with `nodes` nodes of level 1.
    /// Nodes above and bitmaps have a reservation of their own, see
    /// [`standing_pages`](super::allocator::standing_pages).
    pub fn needed(&self, nodes: u64) -> PageCounts {
        let written = self.dirty.frames.len() + self.rewritten.len();
        let changed = written + self.early.len() + self.freed.len() + self.moved.len();
        self.dirty.counts + PageCounts::of(BLOCK, self.rewritten.len() as u64 + nodes.min(changed as u64))
    }

    /// Takes the pages that will not be needed out of the reservation, and returns them.
    pub fn take_excess(&mut self, nodes: u64) -> PageCounts {
        let excess = self.reserved.beyond(&(self.reserved_open + self.needed(nodes)));
        self.reserved = self.reserved.beyond(&excess);
        excess
    }
}

/// When pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before their batch is closed.
    Early,
    /// As part of their batch.
    WithBatch,
    /// Before it is known which batch that will be.
    BeforeBatch,
}

/// A data page with copies elsewhere: its entry as it is, and as it is to be.
#[derive(Clone, Copy)]
pub struct Move {
    pub logical: u64,
    pub from: PageEntry,
    pub to: PageEntry,
}

impl Batcher {
    pub fn new(
        commits: Arc<Commits>,
        mirror: Arc<Mirror>,
        table: Arc<PageTable>,
        allocator: Arc<Allocator>,
        snapshots: Arc<Snapshots>,
        pool: Pool,
        failpoints: Failpoints,
    ) -> Batcher {
        Batcher {
            commits,
            gate: Line::default(),
            accumulating: Line(Mutex::new(Accumulating {
                batch: table.superblock().of_new_run().batch + 1,
                ..Accumulating::default()
            })),
            early: Mutex::new(()),
            dirty_bytes_max: AtomicUsize::new((pool.capacity() / 8).max(8 * PAGE_BYTES)),
            restructured: Line::default(),
            mark_superblocks: OnceLock::new(),
            has_written: Mutex::new(false),
            confirmed: AtomicBool::new(true),
            mirror,
            table,
            allocator,
            snapshots,
            pool,
            failpoints,
        }
    }

    /// Begins a page transaction that will change at most `pages` pages.
    pub fn begin_for(&self, purpose: Purpose, pages: impl Into<PageCounts>) -> Result<PageTxn<'_>> {
        let reserved = self.allocator.reserve(purpose, &pages.into(), &PageCounts::default())?;
        self.enter(reserved)
    }

    /// Begins a page transaction that will also put `standing` blocks more in its batch.
    pub fn begin_with(
        &self,
        purpose: Purpose,
        pages: impl Into<PageCounts>,
        standing: u64,
    ) -> Result<PageTxn<'_>> {
        let standing = PageCounts::of(BLOCK, standing);
        self.allocator.reserve_space(purpose, &standing)?;
        match self.allocator.reserve(purpose, &pages.into(), &PageCounts::default()) {
            Ok(reserved) => self.enter(reserved + standing),
            Err(error) => {
                self.allocator.unreserve(&standing);
                Err(error)
            }
        }
    }

    /// Sets the bytes of dirty pages beyond which page transactions flush early.
    #[cfg(test)]
    pub fn set_dirty_bytes_max(&self, bytes: usize) {
        self.dirty_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Sets the function by which each superblock with more commits than the one before notes the state of the logical
    /// WAL; `mark` makes the WAL durable that far. Set once.
    pub fn mark_superblocks(&self, mark: impl Fn() -> Result<Option<LogMark>> + Send + Sync + 'static) {
        let _ = self.mark_superblocks.set(Box::new(mark));
    }

    /// True if the superblock lists no pages: all that it reaches is known to be durable without a look at it.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Acquire)
    }

    /// Writes the superblock once more without a list of its batch's pages, unless a batch is being written.
    pub fn confirm(&self) -> Result<()> {
        self.commits.check()?;
        if self.is_confirmed() { Ok(()) } else { self.lead_if_free(Self::confirm_superblock) }
    }

    /// Makes everything durable and notes that no write was cut short. The caller must change nothing any more.
    pub fn close(&self) -> Result<()> {
        let has_written = self.has_written.lock();
        let superblock = self.table.superblock();
        if *has_written || !superblock.closed {
            let log = self.next_mark(&superblock)?;
            self.write_superblock_alone(Superblock {
                batch: superblock.batch + 1,
                closed: true,
                log,
                ..superblock
            })?;
            drop(has_written);
            self.record_losses()?;
        }
        Ok(())
    }

    /// Returns the frame of a data page.
    pub fn data(&self, id: PageId) -> Result<Pin> {
        self.pool
            .fetch(PoolKey { level: 0, index: id.0 }, || {
                let early = {
                    let accumulating = self.accumulating.lock();
                    let (in_flight, early) = &accumulating.early_in_flight;
                    let entry = accumulating.early.get(id.0, accumulating.batch);
                    entry.or_else(|| early.get(id.0, *in_flight))
                };
                if let Some(entry) = early {
                    return self.mirror.read_page(0, id.0, entry).map(Some);
                }
                let mut entry = self.table.entry(0, id.0)?;
                loop {
                    let Some(at) = entry else { return Ok(None) };
                    match self.mirror.read_page(0, id.0, at) {
                        Err(error @ Error::Corrupt { .. }) => {
                            // The cleaner may have moved it meanwhile, and its old place may have been used again.
                            entry = self.table.entry(0, id.0)?;
                            if entry == Some(at) || self.failpoints.is_on(Failpoint::MovedUnseen) {
                                return Err(error);
                            }
                        }
                        page => return page.map(Some),
                    }
                }
            })?
            .ok_or_else(|| {
                self.mirror.corrupt(0, format!("logical page {id} is pointed to, but does not exist"))
            })
    }

    pub fn mark_dirty(&self, frame: &Arc<Frame>, size: PageSize) {
        // What many threads look at is written only if it changes.
        if !frame.recently_changed.load(Ordering::Relaxed) {
            frame.recently_changed.store(true, Ordering::Relaxed);
        }
        if !frame.dirty.swap(true, Ordering::AcqRel) {
            self.accumulating.lock().dirty.insert(frame.clone(), size);
        }
    }

    /// Enters the gate with `reserved` reserved.
    pub fn enter(&self, reserved: PageCounts) -> Result<PageTxn<'_>> {
        let gate = self.gate.read();
        // From inside the gate: it belongs to the batch that closes next, and goes with it.
        let mut accumulating = self.accumulating.lock();
        accumulating.reserved += reserved;
        accumulating.reserved_open += reserved;
        drop(accumulating);
        let pages = PageTxn::new(self, gate, reserved);
        self.commits.check()?;
        Ok(pages)
    }

    /// Notes in the superblock, before the first write of this run, that the store is open. Also writes the state that
    /// the run begins with to both pairs of copies, since the first batch overwrites the pair that the superblock
    /// stands in.
    pub fn before_writing(&self) -> Result<()> {
        let mut has_written = self.has_written.lock();
        let superblock = self.table.superblock();
        // Otherwise opening it has just done that.
        if !*has_written && superblock.closed {
            let copies_whole = self.mirror.copies_whole.load(Ordering::Acquire);
            let superblock =
                Superblock { closed: false, copies_whole, log: self.next_mark(&superblock)?, ..superblock };
            let table = self.mirror.disk_table(StateOf::Published);
            // One copy after the other, as when it is opened: see `open::renew`.
            let (first, renewed) = (superblock.first_place(), superblock.of_new_run());
            self.mirror.on_all(|disk, member| {
                member
                    .file
                    .write_at((first + 1) * PAGE_BYTES as u64, &superblock.encode(&table, disk, &[]))?;
                member.file.sync()
            })?;
            self.mirror.on_all(|disk, member| {
                renewed.write(&*member.file, &table, disk, &[])?;
                member.file.sync()
            })?;
            self.table.set_superblock(renewed);
        }
        *has_written = true;
        Ok(())
    }

    /// Returns the mark for a superblock that follows another one.
    pub fn next_mark(&self, before: &Superblock) -> Result<LogMark> {
        let marked = self.mark_superblocks.get().map_or(Ok(None), |mark| mark())?;
        Ok(marked.unwrap_or(before.log))
    }

    /// Writes a superblock that reaches durable pages only.
    pub fn write_superblock_alone(&self, superblock: Superblock) -> Result<()> {
        let superblock =
            Superblock { copies_whole: self.mirror.copies_whole.load(Ordering::Acquire), ..superblock };
        self.mirror.write_superblock(&superblock, &[])?;
        self.table.set_superblock(superblock);
        self.confirmed.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes the superblock under the next number, or if pages were flushed early under that one, their batch. The
    /// caller is the only one to write superblocks.
    pub fn write_next_superblock(&self) -> Result<()> {
        self.before_writing()?;
        if !self.skip_number() {
            return self.write_batch().map(|_| ());
        }
        let superblock = self.table.superblock();
        self.write_superblock_alone(Superblock { batch: superblock.batch + 1, ..superblock })
    }

    /// Writes the superblock once more if a disk was lost since the last that says which are there: otherwise the lost
    /// one, should it come back, could be taken for one that has everything.
    pub fn record_losses(&self) -> Result<()> {
        while self.mirror.disks.has_unrecorded_loss() && !self.failpoints.is_on(Failpoint::LossUnrecorded) {
            self.write_next_superblock()?;
        }
        Ok(())
    }

    /// Writes the superblock of the last batch once more, without a list. The caller is the only one to write
    /// superblocks.
    pub fn confirm_superblock(&self) -> Result<Csn> {
        if !self.skip_number() {
            return Ok(self.table.superblock().csn);
        }
        let superblock = self.table.superblock();
        self.write_superblock_alone(Superblock { batch: superblock.batch + 1, ..superblock })
            .and_then(|()| self.record_losses())
            .map_err(|error| self.commits.poison(&error))?;
        Ok(superblock.csn)
    }

    /// Takes the number of the next batch for a superblock. False if pages that were flushed early carry that number,
    /// which are not durable: no superblock may have it, or what has changed since could not be told by numbers. The
    /// batch that they belong to will list nothing anyway.
    pub fn skip_number(&self) -> bool {
        let mut accumulating = self.accumulating.lock();
        if accumulating.flushed_early && !self.failpoints.is_on(Failpoint::ConfirmedOverEarlyFlush) {
            return false;
        }
        accumulating.batch += 1;
        true
    }

    /// Returns the number of the next batch.
    pub fn next_batch(&self) -> u64 {
        self.accumulating.lock().batch
    }

    /// True if the next batch moves pages.
    pub fn has_moves(&self) -> bool {
        !self.accumulating.lock().moved.is_empty()
    }

    /// Gives up logical pages with the next batch.
    pub fn free(&self, pages: Vec<u64>) {
        if !pages.is_empty() {
            let _gate = self.gate.read();
            self.accumulating.lock().freed.extend(pages);
        }
    }

    /// Writes pages to the places given, in long writes, and then calls `then` for each disk.
    pub fn write_pages(
        &self,
        batch: u64,
        when: When,
        pages: &[(Place, PoolKey, Page)],
        then: impl Fn(usize, &dyn File) -> std::io::Result<()> + Sync,
    ) -> Result<()> {
        self.before_writing()?;
        let blocks: Vec<_> = pages
            .iter()
            .map(|(place, key, page)| {
                let entry = PageEntry::sized(*place, page.size(), batch);
                let entry = PageEntry { early: when == When::BeforeBatch, ..entry };
                let identity = self.mirror.identity_of(key.level, key.index, entry);
                (*place, page.size(), move |block: &mut [u8]| page.seal(identity, block))
            })
            .collect();
        self.mirror.write_blocks(&blocks, then)?;
        let (mut data_pages, mut inner_pages, mut table_pages, mut bitmap_pages) = (0, 0, 0, 0);
        for (place, key, page) in pages {
            let copies = place.copies().count() as u64;
            inner_pages += if page.kind() == PageKind::TreeInner { copies } else { 0 };
            match key.level {
                0 if is_bitmap(key.index) => bitmap_pages += copies,
                0 => data_pages += copies,
                _ => table_pages += copies,
            }
        }
        match when {
            When::Early | When::BeforeBatch => self.mirror.counters.early_pages.add(data_pages),
            When::WithBatch => self.mirror.counters.data_pages.add(data_pages),
        }
        self.mirror.counters.inner_pages.add(inner_pages);
        self.mirror.counters.table_pages.add(table_pages);
        self.mirror.counters.bitmap_pages.add(bitmap_pages);
        Ok(())
    }

    /// Adds moves, and nodes and bitmaps to rewrite, to the next batch, with the reservation for them.
    pub fn join(&self, moves: Vec<Move>, rewritten: Vec<PoolKey>, reserved: PageCounts) {
        // From inside the gate: what is reserved belongs to the batch that closes next, and goes with it.
        let gate = self.gate.read();
        let mut accumulating = self.accumulating.lock();
        accumulating.reserved += reserved;
        accumulating.moved.extend(moves);
        accumulating.rewritten.extend(rewritten);
        drop(accumulating);
        drop(gate);
    }

    /// Writes copies of pages to the places given, durably.
    pub fn write_copies<F: Fn(&mut [u8]) + Sync>(&self, blocks: &[(Place, PageSize, F)]) -> Result<()> {
        let written = self.before_writing().and_then(|()| {
            self.mirror.write_blocks(blocks, |_, file| match self.failpoints.is_on(Failpoint::MoveUnsynced) {
                true => Ok(()),
                false => file.sync(),
            })
        });
        written.map_err(|error| self.commits.poison(&error))?;
        self.mirror.counters.moved_pages.add(blocks.len() as u64);
        Ok(())
    }
}

impl GroupCommit for Batcher {
    fn durability(&self) -> &Durability {
        self.commits.durability()
    }

    fn last_csn(&self) -> Csn {
        self.commits.last_csn()
    }

    fn check(&self) -> Result<()> {
        self.commits.check()
    }

    fn poison(&self, cause: &Error) -> Error {
        self.commits.poison(cause)
    }

    fn write_batch(&self) -> Result<Csn> {
        self.write_one_batch()
    }
}

impl PageRead for Batcher {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.commits.check()?;
        if let Some(latch) = self.pool.read(PoolKey { level: 0, index: id.0 }) {
            return Ok(latch);
        }
        loop {
            if let Some(latch) = self.data(id)?.read() {
                return Ok(latch);
            }
        }
    }

    fn restructured(&self) -> Option<u64> {
        Some(self.restructured.load(Ordering::Acquire))
    }

    fn try_read_all(&self, ids: &[PageId], guards: &mut Vec<Option<ReadLatch>>) {
        self.pool.try_read_all(ids, guards);
    }

    fn read_again(&self, id: PageId, restructured: u64) -> Option<ReadLatch> {
        let latch = self.pool.read(PoolKey { level: 0, index: id.0 })?;
        // Behind the latch: a thread that changes the range that the page covers notes that before it releases the
        // latch.
        (self.restructured() == Some(restructured)).then_some(latch)
    }
}
