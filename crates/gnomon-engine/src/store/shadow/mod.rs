//! The shadow store: pages are never overwritten; a new page table, then a new pointer to it, commits (Shadows,
//! T. Ylönen 1995, sections 2 and 3). There is no log.
//!
//! A page is known by its logical number. The page table maps it to a physical page, the superblock ([`superblock`])
//! points to the page table. Dirty pages stay in the buffer pool, and many transactions become durable together in a
//! commit batch:
//!
//! 1. *Applying.* A transaction begins a [`PageTxn`], which holds the commit gate shared, takes its CSN, changes
//!    pages under latches, and leaves the gate. Its changes are seen by others from then on.
//! 2. *Closing.* A leader ([`GroupCommit`]) takes the gate exclusively for a moment and takes the images of all dirty
//!    pages. Whole transactions are inside, with all CSNs up to the last one taken (invariant 2).
//! 3. *Building.* New places are allocated for the images and for new copies of the page table's nodes above them.
//!    Others go on applying: they un-share an image before they change it.
//! 4. *Writing.* Everything is written to free space in long runs, then the superblock, which lists these runs, and all
//!    is synced at once. Now the batch is durable. The superblock of a large batch, or of one with an early flush,
//!    lists nothing; it is written after a sync of its own.
//! 5. *Publishing.* The new page table is what readers use, waiting transactions are told, and the pages that the
//!    old state used are free.
//!
//! # Parts
//!
//! Each part owns its fields and mutexes, and knows those above it in this list only:
//!
//! - [`Commits`]: the last CSN, the durable one, and the failure that stops the store.
//! - [`mirror`]: reads and writes pages on the disks, with all their copies. Its upper half, the
//!   [`Repairer`](mirror::repair::Repairer), which makes missing copies, stands at the end of the list.
//! - [`page_table`]: where each logical page is.
//! - [`allocator`]: which places are free, and promises of them.
//! - [`snapshots`]: states that stay readable. [Private pages](snapshots::private) use the whole store.
//! - [`batcher`]: the commit gate, dirty pages, and commit batches.
//! - [`cleaner`]: keeps long free runs available, and the file short.
//!
//! [`ShadowStore`] wires them together.
//!
//! # Invariants kept here
//!
//! A page that the last durable superblock reaches is never overwritten (invariant 4: the allocator hands out no page
//! that is reachable, and `release` comes after the superblock's sync). A failure from closing on poisons the store
//! (invariant 5). Durable winners are a prefix of CSN order (invariant 2).
//!
//! # Latches and mutexes
//!
//! In the order in which one thread takes them: the commit gate; frame latches (each access method has its order among
//! data pages; then a loader's, upward through the levels of the page table); the batcher's `early`, the allocator's
//! `growing` or the batcher's `has_written`, which are held over I/O; `pins`; `extents`; then the space map, what is
//! accumulating, the superblock, logical numbers or a group of the translation cache, never during I/O.

mod allocator;
mod backup;
mod batcher;
mod cleaner;
mod counters;
mod finding;
mod mirror;
mod open;
mod page_table;
#[cfg(all(test, shuttle))]
mod schedules;
mod snapshots;
mod superblock;
mod verify;
mod words;

use self::{
    allocator::Allocator,
    batcher::Batcher,
    cleaner::Cleaner,
    mirror::{Mirror, files::file_name, repair::Repairer},
    page_table::{PageTable, node, place},
    snapshots::Snapshots,
};
use super::{Durability, GroupCommit, PageRead, StoreStats, commits::Commits};
use crate::{
    Csn, Error, Result,
    disk::Disk,
    failpoint::Failpoints,
    page::{
        PageCounts, PageId, PageSize,
        pool::{PoolKey, ReadLatch},
    },
    sync::{Arc, atomic::Ordering},
};

pub use allocator::Purpose;
#[cfg(test)]
pub(crate) use allocator::space::Young;
pub use backup::{Backup, BackupHeader, BackupId, RestorePhase, check_backup, read_header, restore};
pub use batcher::{PageTxn, Reservation};
pub use counters::Activity;
pub use finding::{Finding, Severity};
pub use mirror::files::{FILE, UNFINISHED_FILE};
pub use mirror::repair::{DiskInfo, Repair, ScrubReport};
pub use open::Opening;
pub(crate) use snapshots::pin::PinnedRoot;
pub(crate) use snapshots::private::PrivatePages;
pub(crate) use superblock::LogMark;

/// A store of pages in one file on each of its disks.
pub struct ShadowStore {
    commits: Arc<Commits>,
    pub mirror: Arc<Mirror>,
    table: Arc<PageTable>,
    allocator: Arc<Allocator>,
    snapshots: Arc<Snapshots>,
    pub batcher: Arc<Batcher>,
    pub cleaner: Cleaner,
    pub repairer: Repairer,
    pub(crate) failpoints: Failpoints,
}

impl ShadowStore {
    /// The first page that a new store allocates: where the owner of the store finds what it keeps.
    pub const FIRST_PAGE: PageId = PageId(1);

    /// Sets the share of a file in use beyond which it grows.
    pub fn set_fill_max(&mut self, fill_max: f64) {
        self.allocator.space.lock().set_fill_max(fill_max);
    }

    /// True if the store was opened for reading only, or writing was ended.
    pub fn is_read_only(&self) -> bool {
        self.commits.is_read_only()
    }

    /// Makes the store read-only: it was opened for reading, and the changes that this needs are made.
    pub fn end_writing(&self) {
        self.commits.end_writing();
    }

    /// Lets many more dirty pages wait, and makes the writes of batches yield to syncs of the log. For a store where few
    /// commits wait for their batch, and that flushes early in the background ([`Batcher::flush_some`]).
    pub fn let_pages_wait(&self) {
        self.mirror.disks.batches_can_wait.store(true, Ordering::Relaxed);
    }

    /// Sets the function that is called when the store is poisoned. It must not block. Set once.
    pub fn tell_when_poisoned(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.commits.tell_when_poisoned(tell);
    }

    /// Returns the mark of the logical WAL in the newest superblock.
    pub fn log_mark(&self) -> LogMark {
        self.table.superblock().log
    }

    /// True if the store was closed, and nothing was written since.
    pub fn was_closed(&self) -> bool {
        self.table.superblock().closed
    }

    /// True if nothing was ever committed to the store.
    pub fn is_new(&self) -> bool {
        self.table.superblock().depth == 0
    }

    /// True if a disk has a file of such a store that is not empty.
    pub fn is_on(disk: &dyn Disk) -> Result<bool> {
        match disk.open(FILE, false) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            opened => Ok(!opened?.is_empty()?),
        }
    }

    /// Returns the size of a physical page, which is that of the smallest page.
    pub fn unit(&self) -> PageSize {
        self.allocator.unit
    }

    /// Begins a page transaction that will change at most `pages` pages. Waits at the gate; reserves space, and fails
    /// with [`Error::DiskFull`] if there is not enough.
    pub fn begin(&self, pages: impl Into<PageCounts>) -> Result<PageTxn<'_>> {
        self.batcher.begin_for(Purpose::Use, pages)
    }

    /// Begins a page transaction as [`ShadowStore::begin`] does. One with [`Purpose::Free`] may also use the space
    /// that is kept on a full disk for transactions that free more than they use.
    pub fn begin_for(&self, purpose: Purpose, pages: impl Into<PageCounts>) -> Result<PageTxn<'_>> {
        self.batcher.begin_for(purpose, pages)
    }

    /// Begins a page transaction that will change at most `pages` pages and publish private ones.
    ///
    /// # Errors
    /// As [`ShadowStore::begin`].
    pub fn begin_publishing(
        &self,
        purpose: Purpose,
        pages: impl Into<PageCounts>,
        private: &PrivatePages,
    ) -> Result<PageTxn<'_>> {
        self.batcher.begin_with(purpose, pages, private.standing())
    }

    /// Pins the newest durable state.
    pub fn pin(&self) -> PinnedRoot {
        self.snapshots.pin()
    }

    /// Returns the counters and the use of space of the store.
    pub fn stats(&self) -> StoreStats {
        let superblock = self.table.superblock();
        let (file_pages, segments, bitmaps) = {
            let space = self.allocator.space.lock();
            (space.file_pages(), space.segments(), space.bitmaps())
        };
        let pool = &self.batcher.pool;
        StoreStats {
            format_version: superblock::FORMAT_VERSION,
            identity: superblock.database,
            batch: superblock.batch,
            durable_csn: superblock.csn,
            unit: self.unit(),
            file_pages,
            used_pages: superblock.used,
            held_pages: self.snapshots.held_pages(),
            segments,
            logical_pages: self.table.logical_end(),
            table_depth: superblock.depth,
            table_pages: self.table.nodes(&superblock, &bitmaps),
            pool_frames: pool.len(),
            pool_bytes: (pool.bytes(), pool.capacity()),
            activity: self.mirror.counters.activity(pool.data_fetches(), self.table.hits_and_misses()),
        }
    }

    /// Returns where a logical page is, as far as the page table can be read: the name of a file, and which page of
    /// it.
    pub fn place_of(&self, page: PageId) -> Option<(String, u64)> {
        let first = self.table.entry(0, page.0).ok()??.place.first;
        Some((file_name(place::disk_of(first)), place::page_of(first)))
    }

    /// True if the page's contents are in memory.
    pub fn is_loaded(&self, id: PageId) -> bool {
        self.batcher.pool.get(PoolKey { level: 0, index: id.0 }).is_some()
    }

    /// Reads the pages that a batch needs to rewrite a data page: the nodes of the page table above it, and the
    /// bitmap of the space that it is in.
    pub fn load_nodes(&self, id: PageId) -> Result<()> {
        let Some(entry) = self.table.entry(0, id.0)? else { return Ok(()) };
        entry.place.copies().try_for_each(|copy| self.allocator.load_bitmap(place::bitmap_of(copy)))?;
        let depth = self.table.superblock().depth;
        (1..=depth).try_for_each(|level| self.table.node(level, node::node_base(level, id.0)).map(drop))
    }

    /// Makes everything durable and notes that no write was cut short. The caller must change nothing any more.
    pub fn close(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        self.flush()?;
        // Damage that it meets is no reason not to close; a disk that fails stops the store.
        let _ = self.cleaner.trim();
        self.commits.check()?;
        self.batcher.close()
    }
}

#[cfg(all(test, not(shuttle)))]
impl ShadowStore {
    /// Returns the number of physical pages that may not be handed out, and of those that the last closed batch's
    /// superblock reaches.
    pub(crate) fn taken_and_reachable(&self) -> (u64, u64) {
        let space = self.allocator.space.lock();
        (space.taken(), space.reachable())
    }

    /// Writes several disks one after the other, so that events are counted alike in each run.
    pub(crate) fn write_in_order(&self) {
        self.mirror.disks.parallel.store(false, Ordering::Relaxed);
    }

    /// Returns the number of the next batch.
    pub(crate) fn next_batch(&self) -> u64 {
        self.batcher.next_batch()
    }
}

impl GroupCommit for ShadowStore {
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
        self.batcher.write_batch()
    }
}

impl PageRead for ShadowStore {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.batcher.read(id)
    }

    fn restructured(&self) -> Option<u64> {
        self.batcher.restructured()
    }

    fn try_read_all(&self, ids: &[PageId], guards: &mut Vec<Option<ReadLatch>>) {
        self.batcher.try_read_all(ids, guards);
    }

    fn read_again(&self, id: PageId, restructured: u64) -> Option<ReadLatch> {
        self.batcher.read_again(id, restructured)
    }
}
