//! The shadow store: pages are never overwritten; a new page table, then a new pointer to it, commits (Shadows,
//! T. Ylönen 1995, sections 2 and 3). There is no log.
//!
//! A page is known by its logical number. The page table ([`table`]) maps it to a physical page, the root
//! ([`root`]) points to the page table. Changed pages stay in the buffer pool, and many transactions become durable
//! together in a commit batch ([`batch`]):
//!
//! 1. *Patching.* A transaction begins a [`PageTxn`], which holds the commit gate shared, takes its CSN, changes
//!    pages under latches, and leaves the gate. Its changes are seen by others from then on.
//! 2. *Closing.* A leader ([`GroupCommit`]) takes the gate exclusively for a moment and takes the images of all changed
//!    pages. Whole transactions are inside, with all CSNs up to the last one taken (invariant 2), because a CSN is
//!    taken and its changes are made within one passage through the gate.
//! 3. *Building.* New places are allocated for the images and for new copies of the page table's nodes above them.
//!    Others go on applying: they un-share an image before they change it.
//! 4. *Writing.* Everything is written to free space in long runs, then the root, which lists these runs, and all is
//!    synced at once. Now the batch is durable. The root of a large batch, or of one with early writes, lists nothing;
//!    it is written after a sync of its own.
//! 5. *Publishing.* The new page table is what readers use, waiting transactions are told, and the pages that the
//!    old state used are free.
//!
//! Invariants kept here: a page that the last durable root reaches is never overwritten (invariant 4: [`space`]
//! hands out no page that is reachable, and `release` comes after the root's sync). A failure from closing on
//! poisons the store (invariant 5). Durable winners are a prefix of CSN order (invariant 2).
//!
//! *Early writes.* When more than an eighth of the pool is changed (half, if batches can wait), a page transaction
//! writes some changed pages to free space before their batch is closed, and remembers the places. No root reaches
//! them, so a crash forgets them. A page transaction can thus be larger than the pool. A transaction that has locked
//! whole trees changes and writes pages of its own before it enters the gate ([`private`]).
//!
//! *Latches and mutexes, in the order in which one thread takes them:* the commit gate; frame latches (each access
//! method has its order among data pages; then a loader's, upward through the levels of the page table); `early` or
//! `growing` or `has_written`, which are held over I/O; `pins`; `space` or `accumulating` or `root` or `logical` or a
//! group of the translation cache, never during I/O.
//!
//! *Confirming.* A root that lists its batch's pages loses the batch if one of them is damaged later, since that looks
//! like a crash. So after a moment without writes, and when the database is closed, the root is written once more
//! without the list ([`ShadowStore::confirm`]).
//!
//! *Cleaning.* [`clean`] keeps long free runs available, and the file short.
//!
//! *Disks.* A store has one or several, each with a file; a mirrored store has two copies of each page, on different
//! ones ([`disks`], [`copies`]).

mod backup;
mod batch;
mod clean;
mod copies;
mod counters;
mod disks;
mod early;
mod extents;
mod mend;
mod open;
mod pages;
mod pin;
mod place;
mod private;
mod reservation;
mod root;
#[cfg(all(test, shuttle))]
mod schedules;
mod space;
mod spaces;
mod table;
mod translate;
mod verify;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::{
    counters::Counters,
    disks::{Disks, StateOf},
    early::EarlyPages,
    extents::{Extents, Grow},
    place::{DISKS_MAX, Place, is_bitmap},
    root::Root,
    space::{Life, SEGMENT_PAGES, Search},
    spaces::{Growth, Spaces},
    table::{BLOCK, PageEntry},
    translate::Translations,
};
use super::{Durability, GroupCommit, PageRead, StoreStats};
use crate::{
    Csn, Error, Result,
    disk::{Disk, File},
    failpoint::{Failpoint, Failpoints},
    page::{
        Identity, PAGE_BYTES, Page, PageCounts, PageId, PageSize,
        pool::{Frame, Pin, Pool, PoolKey, ReadLatch},
    },
    sync::{
        Arc, Line, Mutex, OnceLock, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub use backup::{Backup, BackupHeader, BackupId, RestorePhase, check_backup, read_header, restore};
pub use copies::{DiskInfo, Repair, ScrubReport};
pub use counters::Activity;
pub use open::Opening;
pub use pages::PageTxn;
pub(crate) use pin::PinnedRoot;
pub use private::PrivatePages;
pub use reservation::Reservation;
pub(crate) use root::LogMark;
#[cfg(test)]
pub(crate) use space::Young;
pub use verify::{Finding, Severity};

/// The file of a disk, which holds all its pages.
pub const FILE: &str = "pages";
/// Its name until it is a database.
pub(crate) const UNFINISHED_FILE: &str = "pages.new";

/// Bytes of changed pages that are written early at a time, about.
const EARLY_BYTES: usize = 256 << 10;
/// Growth of a file, in bytes, up to which it is filled with zeros.
const ZEROED_BYTES_MAX: u64 = 8 << 20;

/// A store of pages in one file on each of its disks.
pub struct ShadowStore {
    disks: Disks,
    database: u64,
    /// The size of a physical page, and of the smallest page.
    unit: PageSize,
    pool: Pool,
    /// Bytes of changed pages beyond which a page transaction writes some early; four times as many if batches can
    /// wait.
    pub(crate) dirty_bytes_max: usize,
    /// The commit gate: shared while a page transaction changes pages, exclusive while a batch is closed.
    gate: Line<RwLock<()>>,
    accumulating: Line<Mutex<Accumulating>>,
    /// Held by the one thread that writes early.
    early: Mutex<()>,
    /// Held by the one thread that grows a file.
    growing: Mutex<()>,
    space: Line<Mutex<Spaces>>,
    extents: Mutex<Extents>,
    /// The published root: durable, and the root of the page table in memory.
    root: Mutex<Root>,
    logical: Line<Mutex<Logical>>,
    pins: Mutex<pin::Pins>,
    translations: Translations,
    counters: Arc<Counters>,
    /// Number of changes of the ranges that pages cover, since the store was opened.
    restructured: Line<AtomicU64>,
    /// The last CSN that was taken.
    last_csn: Line<AtomicU64>,
    durability: Durability,
    poison: OnceLock<Arc<str>>,
    /// Called when the store is poisoned.
    tell_poisoned: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Returns the mark of the log that a root needs beside it.
    mark_roots: OnceLock<Box<dyn Fn() -> Result<Option<LogMark>> + Send + Sync>>,
    read_only: AtomicBool,
    /// True if something was written since the store was opened.
    has_written: Mutex<bool>,
    /// True if the cleaner has something to do, as far as the last batch could tell.
    cleaning_wanted: AtomicBool,
    /// True if every page has as many copies as it should, as far as is known.
    copies_whole: AtomicBool,
    /// True if a disk was lost and no other has taken its place since.
    wants_disk: AtomicBool,
    /// Number of transactions that have private pages, on any disk.
    private_views: AtomicU64,
    /// True if a page without all its copies was found since making missing copies began from the first page.
    fill_found: AtomicBool,
    /// Progress of making missing copies. Its mutex is held over I/O, and taken before any other.
    filled: Mutex<copies::Filling>,
    /// Objects with a copy that was found damaged: nodes by their first page.
    damaged: Mutex<BTreeSet<PoolKey>>,
    /// Messages about disks and copies that were not taken yet.
    reports: Mutex<VecDeque<String>>,
    /// True if the root in the files has no list. Not in `Root`, which every commit copies under its mutex.
    confirmed: AtomicBool,
    pub(crate) failpoints: Failpoints,
}

/// The contents of the next commit batch.
#[derive(Default)]
struct Accumulating {
    /// The number of that batch.
    batch: u64,
    /// Changed pages, by logical number.
    dirty: Dirty,
    /// Places of changed pages that were written early.
    early: EarlyPages,
    /// Number of the batch in flight, and its pages that were written early, until the page table has them.
    early_in_flight: (u64, Arc<EarlyPages>),
    /// Logical pages given back.
    freed: BTreeSet<u64>,
    /// Pages that the cleaner or a repair copied elsewhere.
    moved: Vec<clean::Move>,
    /// Nodes and bitmaps that the cleaner or a repair moves by rewriting them.
    rewritten: Vec<PoolKey>,
    /// True if pages were written under the batch's number before it was closed.
    wrote_early: bool,
    /// Space reserved for it.
    reserved: PageCounts,
    /// The part of it that belongs to page transactions that have not ended.
    reserved_open: PageCounts,
}

/// Changed pages.
#[derive(Default)]
struct Dirty {
    frames: BTreeMap<u64, (Arc<Frame>, PageSize)>,
    counts: PageCounts,
    bytes: usize,
}

impl Dirty {
    fn insert(&mut self, frame: Arc<Frame>, size: PageSize) {
        self.remove(frame.key.index);
        self.counts[size] += 1;
        self.bytes += size.bytes();
        self.frames.insert(frame.key.index, (frame, size));
    }

    fn remove(&mut self, logical: u64) -> Option<Arc<Frame>> {
        let (frame, size) = self.frames.remove(&logical)?;
        self.counts[size] -= 1;
        self.bytes -= size.bytes();
        Some(frame)
    }
}

impl Accumulating {
    /// Returns the pages that the batch will need if nothing is added, in a page table with `nodes` nodes of level 1.
    /// Nodes above and bitmaps have a reservation of their own, see [`standing_pages`].
    fn needed(&self, nodes: u64) -> PageCounts {
        let written = self.dirty.frames.len() + self.rewritten.len();
        let changed = written + self.early.len() + self.freed.len() + self.moved.len();
        self.dirty.counts + PageCounts::of(BLOCK, self.rewritten.len() as u64 + nodes.min(changed as u64))
    }

    /// Takes the pages that will not be needed out of the reservation, and returns them.
    fn take_excess(&mut self, nodes: u64) -> PageCounts {
        let excess = self.reserved.beyond(&(self.reserved_open + self.needed(nodes)));
        self.reserved = self.reserved.beyond(&excess);
        excess
    }
}

/// The allocator of logical page numbers.
struct Logical {
    /// Numbers known to be free.
    free: Vec<u64>,
    /// All numbers from here on were never used.
    end: u64,
    /// Where the search for unused numbers in the page table goes on; nodes below were searched.
    scanned: u64,
    /// Where that search ends: numbers from here on were handed out in this run.
    scan_end: u64,
}

/// When pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Before their batch is closed.
    Early,
    /// As part of their batch.
    WithBatch,
    /// Before it is known which batch that will be.
    BeforeBatch,
}

/// The effect of a page transaction on the number of pages in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It uses as many pages as before, or more.
    Use,
    /// It gives pages back.
    Free,
}

impl ShadowStore {
    /// The first page that a new store allocates: where the owner of the store finds what it keeps.
    pub const FIRST_PAGE: PageId = PageId(1);

    /// Sets the share of a file in use beyond which it grows.
    pub fn set_fill_max(&mut self, fill_max: f64) {
        self.space.lock().set_fill_max(fill_max);
    }

    /// True if the store was opened for reading only, or writing was ended.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// Makes the store read-only: it was opened for reading, and the changes that this needs are made.
    pub fn end_writing(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// Lets four times as many changed pages wait, and makes the writes of batches yield to syncs of the log. For a
    /// store where few commits wait for their batch.
    pub fn let_pages_wait(&self) {
        self.disks.batches_can_wait.store(true, Ordering::Relaxed);
    }

    /// True if so many changed pages wait that a batch should be written, before page transactions write some early.
    pub fn has_many_changed_pages(&self) -> bool {
        self.accumulating.lock().dirty.bytes > 2 * self.dirty_bytes_max
    }

    /// Sets the function that is called when the store is poisoned. It must not block. Set once.
    pub fn tell_when_poisoned(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.tell_poisoned.set(Box::new(tell));
    }

    /// Sets the function by which each root with more commits than the one before notes the state of the logical WAL;
    /// `mark` makes the log durable that far. Set once.
    pub fn mark_roots(&self, mark: impl Fn() -> Result<Option<LogMark>> + Send + Sync + 'static) {
        let _ = self.mark_roots.set(Box::new(mark));
    }

    /// Returns the mark of the log of commits in the newest root.
    pub fn log_mark(&self) -> LogMark {
        self.root.lock().log
    }

    /// Returns the mark for a root that follows another one.
    fn next_mark(&self, before: &Root) -> Result<LogMark> {
        let marked = self.mark_roots.get().map_or(Ok(None), |mark| mark())?;
        Ok(marked.unwrap_or(before.log))
    }

    /// True if the store was closed, and nothing was written since.
    pub fn was_closed(&self) -> bool {
        self.root.lock().closed
    }

    /// True if nothing was ever committed to the store.
    pub fn is_new(&self) -> bool {
        self.root.lock().depth == 0
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
        self.unit
    }

    /// Begins a page transaction that will change at most `pages` pages. Waits at the gate; reserves space, and fails
    /// with [`Error::DiskFull`] if there is not enough.
    pub fn begin(&self, pages: impl Into<PageCounts>) -> Result<PageTxn<'_>> {
        self.begin_for(Purpose::Use, pages)
    }

    /// Begins a page transaction as [`ShadowStore::begin`] does. One with [`Purpose::Free`] may also use the space
    /// that is kept on a full disk for transactions that free more than they use.
    pub fn begin_for(&self, purpose: Purpose, pages: impl Into<PageCounts>) -> Result<PageTxn<'_>> {
        let reserved = self.reserve(purpose, &pages.into(), &PageCounts::default())?;
        self.enter(reserved)
    }

    /// Reserves the pages that a page transaction that changes `pages` may write, beyond those that are `held` for it
    /// already. Returns them.
    fn reserve(&self, purpose: Purpose, pages: &PageCounts, held: &PageCounts) -> Result<PageCounts> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let logical_end = self.logical.lock().end;
        let reserved = pages_written(pages, logical_end).beyond(held);
        let mut space = self.space.lock();
        let standing = standing_pages(logical_end, space.chunk_count());
        if self.unit == BLOCK {
            space.set_standing(standing);
        }
        drop(space);
        self.reserve_space(purpose, &reserved)?;
        self.keep_standing(purpose, standing).inspect_err(|_| self.unreserve(&reserved))?;
        Ok(reserved)
    }

    /// Reserves space for these pages, and for nothing above them.
    fn reserve_space(&self, purpose: Purpose, reserved: &PageCounts) -> Result<()> {
        let physical = self.physical_pages_of(reserved);
        let mut space = self.space.lock();
        let needs_growth = space.reserve(physical);
        drop(space);
        if needs_growth && let Err(error) = self.grow() {
            let mut space = self.space.lock();
            // A full disk is no matter as long as the files as they are have room.
            let kept = match purpose {
                Purpose::Use => space.kept(),
                Purpose::Free => 0,
            };
            let is_full = matches!(error, Error::DiskFull);
            if !is_full || !space.has_spare(kept) {
                space.unreserve(physical);
                drop(space);
                return Err(if is_full { error } else { self.poison(&error) });
            }
        }
        self.reserve_extents(purpose, reserved, Grow::Yes)
    }

    /// Enters the gate with `reserved` reserved.
    fn enter(&self, reserved: PageCounts) -> Result<PageTxn<'_>> {
        let gate = self.gate.read();
        // From inside the gate: it belongs to the batch that closes next, and goes with it.
        let mut accumulating = self.accumulating.lock();
        accumulating.reserved += reserved;
        accumulating.reserved_open += reserved;
        drop(accumulating);
        let pages = PageTxn::new(self, gate, reserved);
        self.check()?;
        Ok(pages)
    }

    /// Grows the files for a reservation, unless another thread has just done so.
    fn grow(&self) -> Result<()> {
        // One thread at a time: pages that one zeroes must not be handed out by another meanwhile.
        let _growing = self.growing.lock();
        let mut full = Vec::new();
        let growths = self.space.lock().growths();
        for growth in growths {
            if !self.grow_file(growth)? {
                full.push(growth.disk);
            }
        }
        if full.is_empty() {
            return Ok(());
        }
        // The others may have room for what that disk should have taken.
        let growths = self.space.lock().growths_instead(&full);
        for growth in growths {
            if !self.grow_file(growth)? {
                full.push(growth.disk);
            }
        }
        match self.space.lock().has_spare(0) && full.len() < self.disks.present().len() {
            true => Ok(()),
            false => Err(Error::DiskFull),
        }
    }

    /// Grows the file of a disk. Returns false if the disk has no room for all of it; the file may have grown by a
    /// part.
    fn grow_file(&self, Growth { disk, from, to: wanted }: Growth) -> Result<bool> {
        let Some(member) = self.disks.member(disk) else { return Ok(true) };
        let grow = |to: u64| -> std::io::Result<()> {
            if to <= from {
                return Ok(());
            }
            let unit = self.unit.bytes() as u64;
            member.file.allocate(to * unit)?;
            let bytes = (to - from) * unit;
            if bytes <= ZEROED_BYTES_MAX {
                // Blocks that were written once are overwritten without a journal entry of the file system at each
                // sync.
                member.file.write_at(from * unit, &vec![0; bytes as usize])?;
                self.counters.zeroed_pages.add(to - from);
            }
            Ok(())
        };
        let mut to = wanted;
        loop {
            match grow(to) {
                Ok(()) => break,
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                    // More is asked for than is needed at once. A full disk is asked in vain each time.
                    to = from.midpoint(to) / SEGMENT_PAGES * SEGMENT_PAGES;
                    if to <= from {
                        return Ok(false);
                    }
                }
                Err(error) => return self.lose(disk, error).map(|()| true),
            }
        }
        // The roots on the other disks tell of it, too, and may be durable before this one is synced.
        if self.disks.present().len() > 1
            && let Err(error) = member.file.sync()
        {
            return self.lose(disk, error).map(|()| true);
        }
        if let Some(space) = self.space.lock().disk_mut(disk) {
            space.grown(to);
        }
        Ok(to == wanted)
    }

    /// Fails if the store is poisoned.
    pub fn check(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned(cause.clone())),
            None => Ok(()),
        }
    }

    /// Poisons the store: every later call fails with this cause (the first one counts), which is in the error
    /// returned. The durable CSN can still be asked for.
    pub fn poison(&self, cause: &Error) -> Error {
        let _ = self.poison.set(cause.as_cause());
        self.durability.fail();
        if let Some(tell) = self.tell_poisoned.get() {
            tell();
        }
        self.check().err().unwrap_or(Error::Closed)
    }

    /// Returns the last CSN that was taken.
    pub fn last_csn(&self) -> Csn {
        Csn(self.last_csn.load(Ordering::Acquire))
    }

    /// Writes the root once more without a list of its batch's pages, unless a batch is being written.
    pub fn confirm(&self) -> Result<()> {
        self.check()?;
        if self.is_confirmed() { Ok(()) } else { self.lead_if_free(Self::confirm_root) }
    }

    /// Returns the counters and the use of space of the store.
    pub fn stats(&self) -> StoreStats {
        let root = *self.root.lock();
        let held_pages = self.held_pages();
        let (file_pages, segments) = {
            let space = self.space.lock();
            (space.file_pages(), space.segments())
        };
        StoreStats {
            format_version: root::FORMAT_VERSION,
            identity: root.database,
            batch: root.batch,
            durable_csn: root.csn,
            unit: self.unit,
            file_pages,
            used_pages: root.used,
            held_pages,
            segments,
            logical_pages: self.logical.lock().end,
            table_depth: root.depth,
            table_pages: self.table_pages(&root),
            pool_frames: self.pool.len(),
            pool_bytes: (self.pool.bytes(), self.pool.capacity()),
            activity: self.counters.activity(self.pool.data_fetches(), self.translations.hits_and_misses()),
        }
    }

    /// Counts `bytes` bytes of keys and values that a transaction changed.
    pub fn note_changed(&self, bytes: usize) {
        self.counters.bytes_changed.add(bytes as u64);
    }

    /// Returns the number of physical pages that may not be handed out, and of those that the last closed batch's
    /// root reaches.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn taken_and_reachable(&self) -> (u64, u64) {
        let space = self.space.lock();
        (space.taken(), space.reachable())
    }

    /// Writes several disks one after the other, so that events are counted alike in each run.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn write_in_order(&mut self) {
        self.disks.parallel = false;
    }

    /// Returns the number of the next batch.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn next_batch(&self) -> u64 {
        self.accumulating.lock().batch
    }

    /// Returns where a logical page is, as far as the page table can be read: the name of a file, and which page of
    /// it.
    pub fn place_of(&self, page: PageId) -> Option<(String, u64)> {
        let first = self.entry(0, page.0).ok()??.place.first;
        Some((open::file_name(place::disk_of(first)), place::page_of(first)))
    }

    /// Returns the identity that the page at `entry` must carry.
    fn identity_of(&self, level: u8, logical: u64, entry: PageEntry) -> Identity {
        Identity { database: self.database, level, logical, batch: entry.batch, early: entry.early }
    }

    fn corrupt(&self, physical: u64, detail: impl Into<String>) -> Error {
        Error::Corrupt {
            file: open::file_name(place::disk_of(physical)),
            page: place::page_of(physical),
            detail: detail.into(),
        }
    }

    /// Reads the page at `entry`, and checks its identity. Reads the copy whose disk has less to do; if that is not
    /// whole, the other one; if neither is, combines their whole sectors. Notes damage, so that it is repaired.
    fn read_page(&self, level: u8, logical: u64, entry: PageEntry) -> Result<Page> {
        let mut failed = None;
        for copy in self.disks.readable(entry.place) {
            match self.read_copy(level, logical, copy, entry) {
                Ok(page) => {
                    if failed.is_some() {
                        self.damaged.lock().insert(PoolKey { level, index: logical });
                    }
                    return Ok(page);
                }
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        if let Some((page, _)) = self.combined(level, logical, entry) {
            self.damaged.lock().insert(PoolKey { level, index: logical });
            return Ok(page);
        }
        Err(failed.unwrap_or_else(|| self.corrupt(entry.place.first, "the disks that it was on are lost")))
    }

    fn read_copy(&self, level: u8, logical: u64, copy: u64, entry: PageEntry) -> Result<Page> {
        let mut block = vec![0; entry.size.bytes()];
        self.read_copy_into(level, logical, copy, entry, &mut block)
    }

    /// Reads a copy as it stands on the disk, and checks it.
    fn read_copy_into(
        &self,
        level: u8,
        logical: u64,
        copy: u64,
        entry: PageEntry,
        block: &mut [u8],
    ) -> Result<Page> {
        self.read_block(copy, block)?;
        let expected = self.identity_of(level, logical, entry);
        if self.failpoints.is_on(Failpoint::ChecksumUnchecked) {
            Page::make_whole(block);
        }
        Page::unseal_expected(block, expected)
            .map_err(|detail| self.corrupt(copy, format!("logical page {logical}, level {level}: {detail}")))
    }

    /// Reads pages that follow each other on a disk.
    fn read_block(&self, physical: u64, blocks: &mut [u8]) -> Result<()> {
        self.disks.read(physical, blocks).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt(physical, "it lies past the end of the file"),
            std::io::ErrorKind::NotFound => self.corrupt(physical, "the disk that it was on is lost"),
            _ => error.into(),
        })
    }

    /// True if the page's contents are in memory.
    pub fn is_loaded(&self, id: PageId) -> bool {
        self.pool.get(PoolKey { level: 0, index: id.0 }).is_some()
    }

    /// Reads the pages that a batch needs to rewrite a data page: the nodes of the page table above it, and the
    /// bitmap of the space that it is in.
    pub fn load_nodes(&self, id: PageId) -> Result<()> {
        let Some(entry) = self.entry(0, id.0)? else { return Ok(()) };
        entry.place.copies().try_for_each(|copy| self.load_bitmap(place::bitmap_of(copy)))?;
        let depth = self.root.lock().depth;
        (1..=depth).try_for_each(|level| self.node(level, table::node_base(level, id.0)).map(drop))
    }

    /// Returns the page table's entry for the object of `level` over `logical`: a data page (0) or a node.
    fn entry(&self, level: u8, logical: u64) -> Result<Option<PageEntry>> {
        if level > 0 {
            return self.walk(level, logical);
        }
        let miss = match self.translations.get(logical) {
            Ok(entry) => return Ok(Some(entry)),
            Err(miss) => miss,
        };
        let found = self.walk(0, logical)?;
        if let Some(entry) = found {
            self.translations.fill(&miss, entry);
        }
        Ok(found)
    }

    /// Finds an entry by the page table's nodes.
    fn walk(&self, level: u8, logical: u64) -> Result<Option<PageEntry>> {
        let root = *self.root.lock();
        if root.depth == 0 || logical >= table::span(root.depth) || level > root.depth {
            return Ok(None);
        }
        if level == root.depth {
            return Ok(root.table.present());
        }
        let Some(node) = self.node(level + 1, table::node_base(level + 1, logical))? else {
            return Ok(None);
        };
        Ok(table::entry(&node, table::slot(level + 1, logical)).present())
    }

    /// Returns a node of the page table as published, if there is one.
    fn node(&self, level: u8, base: u64) -> Result<Option<ReadLatch>> {
        let key = PoolKey { level, index: base };
        if let Some(latch) = self.pool.read(key) {
            return Ok(Some(latch));
        }
        loop {
            let pin = self.pool.fetch(key, || match self.entry(level, base)? {
                Some(entry) => Ok(Some(self.read_page(level, base, entry)?)),
                None => Ok(None),
            })?;
            let Some(pin) = pin else { return Ok(None) };
            match pin.read() {
                Some(latch) => return Ok(Some(latch)),
                // Another thread's load failed: see for ourselves.
                None => continue,
            }
        }
    }

    /// Returns the frame of a data page.
    fn data(&self, id: PageId) -> Result<Pin> {
        self.pool
            .fetch(PoolKey { level: 0, index: id.0 }, || {
                let early = {
                    let accumulating = self.accumulating.lock();
                    let (in_flight, early) = &accumulating.early_in_flight;
                    let entry = accumulating.early.get(id.0, accumulating.batch);
                    entry.or_else(|| early.get(id.0, *in_flight))
                };
                if let Some(entry) = early {
                    return self.read_page(0, id.0, entry).map(Some);
                }
                let mut entry = self.entry(0, id.0)?;
                loop {
                    let Some(at) = entry else { return Ok(None) };
                    match self.read_page(0, id.0, at) {
                        Err(error @ Error::Corrupt { .. }) => {
                            // The cleaner may have moved it meanwhile, and its old place may have been used again.
                            entry = self.entry(0, id.0)?;
                            if entry == Some(at) || self.failpoints.is_on(Failpoint::MovedUnseen) {
                                return Err(error);
                            }
                        }
                        page => return page.map(Some),
                    }
                }
            })?
            .ok_or_else(|| self.corrupt(0, format!("logical page {id} is pointed to, but does not exist")))
    }

    fn mark_dirty(&self, frame: &Arc<Frame>, size: PageSize) {
        if !frame.dirty.swap(true, Ordering::AcqRel) {
            self.accumulating.lock().dirty.insert(frame.clone(), size);
        }
    }

    /// Loads a bitmap if it is not in memory.
    fn load_bitmap(&self, bitmap: u64) -> Result<()> {
        if self.space.lock().is_loaded(bitmap) {
            return Ok(());
        }
        let stored = match self.entry(0, bitmap)? {
            Some(entry) => self.read_page(0, bitmap, entry).map(Some),
            None => Ok(None),
        };
        let mut space = self.space.lock();
        // Another thread may have loaded it meanwhile, changed it, and written it elsewhere. Then the result of this
        // read does not count, not even an error.
        if !space.is_loaded(bitmap) {
            space.load(bitmap, stored?.as_ref());
        }
        Ok(())
    }

    /// Takes places for `pages` pages, in as few runs as there are, from what is left of `reserved`, a reservation that
    /// covers them. In a mirrored store a page has one copy only if there is room for no other, or no other disk.
    fn take_space(&self, pages: u64, life: Life, reserved: &mut u64) -> Result<Vec<Place>> {
        let mut taken: Vec<Place> = Vec::with_capacity(pages as usize);
        // Pages of the reservation that were used up.
        let mut covered = 0;
        let mut chosen = [0; DISKS_MAX];
        let mut full: Vec<usize> = Vec::new();
        while (taken.len() as u64) < pages {
            let (disks, most) = {
                let space = self.space.lock();
                self.disks.choose(&space, space.copies(), &chosen, &full)
            };
            let wanted = (pages - taken.len() as u64).min(most);
            if disks.is_empty() {
                let mut space = self.space.lock();
                for place in taken {
                    space.release(place, 1);
                }
                space.reserve(covered);
                *reserved += covered;
                return Err(Error::DiskFull);
            }
            let mut columns: Vec<Vec<u64>> = Vec::new();
            for disk in disks {
                // As many as there are of the copy before.
                let wanted = columns.last().map_or(wanted, |column| column.len() as u64);
                // A bitmap that cannot be read is as good as no space there.
                let column = self.take_on(disk, wanted, life).or_else(|error| match error {
                    Error::Corrupt { .. } => Ok(Vec::new()),
                    error => Err(error),
                })?;
                if (column.len() as u64) < wanted {
                    full.push(disk);
                }
                chosen[disk] += column.len() as u64;
                if !column.is_empty() {
                    columns.push(column);
                }
            }
            let found = columns.first().map_or(0, Vec::len);
            let place = |at: usize| Place::of(columns.iter().filter_map(|column| column.get(at).copied()));
            let places: Vec<Place> = (0..found).map(place).collect();
            if self.disks.is_mirrored() && places.iter().any(|place| place.second == 0) {
                self.note_missing_copies();
            }
            taken.extend(places);
            let used = (found as u64).min(*reserved);
            *reserved -= used;
            covered += used;
            self.space.lock().unreserve(used);
        }
        Ok(taken)
    }

    /// Takes at most `pages` pages of a disk: fewer if it has no more, or is lost.
    fn take_on(&self, disk: usize, mut pages: u64, life: Life) -> Result<Vec<u64>> {
        let mut taken = Vec::with_capacity(pages as usize);
        while pages > 0 {
            let mut space = self.space.lock();
            match space.take_run(disk, pages, life) {
                Search::Found(run) => {
                    taken.extend(run.start..run.start + run.len);
                    pages -= run.len;
                }
                Search::Load(bitmap) => {
                    drop(space);
                    self.load_bitmap(bitmap)?;
                }
                Search::Nothing => break,
            }
        }
        Ok(taken)
    }

    /// Notes in the root, before the first write of this run, that the store is open. Also writes the state that the
    /// run begins with to both pairs of copies, since the first batch overwrites the pair that the root stands in.
    pub fn before_writing(&self) -> Result<()> {
        let mut has_written = self.has_written.lock();
        let root = *self.root.lock();
        // Otherwise opening it has just done that.
        if !*has_written && root.closed {
            let copies_whole = self.copies_whole.load(Ordering::Acquire);
            let root = Root { closed: false, copies_whole, log: self.next_mark(&root)?, ..root };
            let table = self.disk_table(StateOf::Published);
            // One copy after the other, as when it is opened: see `open::renew`.
            let (first, renewed) = (root.first_place(), root.of_new_run());
            self.on_all(|disk, member| {
                member.file.write_at((first + 1) * PAGE_BYTES as u64, &root.encode(&table, disk, &[]))?;
                member.file.sync()
            })?;
            self.on_all(|disk, member| {
                renewed.write(&*member.file, &table, disk, &[])?;
                member.file.sync()
            })?;
            *self.root.lock() = renewed;
        }
        *has_written = true;
        Ok(())
    }

    /// Writes a root that reaches durable pages only.
    fn write_root_alone(&self, root: Root) -> Result<()> {
        let root = Root { copies_whole: self.copies_whole.load(Ordering::Acquire), ..root };
        self.write_root(&root, &[])?;
        *self.root.lock() = root;
        self.confirmed.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns the number of nodes of the page table: over all page numbers handed out, and over the bitmaps beyond
    /// them.
    fn table_pages(&self, root: &Root) -> u64 {
        let space = self.space.lock();
        let bitmaps: Vec<u64> = space
            .disks()
            .flat_map(|(disk, space)| (0..space.chunk_count()).map(move |chunk| place::bitmap(disk, chunk)))
            .collect();
        let levels = 1..=root.depth;
        levels
            .map(|level| {
                let dense = root.logical_end.div_ceil(table::span(level));
                let bitmaps = bitmaps.iter().map(|bitmap| bitmap / table::span(level));
                dense + bitmaps.filter(|&node| node >= dense).collect::<BTreeSet<u64>>().len() as u64
            })
            .sum()
    }

    /// Records a message about disks and copies for the operator of the database.
    pub fn report(&self, text: String) {
        /// Number of messages that are kept at most; the oldest are dropped.
        const REPORTS_MAX: usize = 100;
        let mut reports = self.reports.lock();
        if reports.len() == REPORTS_MAX {
            reports.pop_front();
        }
        reports.push_back(text);
    }

    /// Takes the messages about disks and copies that were recorded since the last call.
    pub fn take_reports(&self) -> Vec<String> {
        self.reports.lock().drain(..).collect()
    }

    /// Makes everything durable and notes that no write was cut short. The caller must change nothing any more.
    pub fn close(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        self.flush()?;
        // Damage that it meets is no reason not to close; a disk that fails stops the store.
        let _ = self.trim();
        self.check()?;
        let has_written = self.has_written.lock();
        let root = *self.root.lock();
        if *has_written || !root.closed {
            let log = self.next_mark(&root)?;
            self.write_root_alone(Root { batch: root.batch + 1, closed: true, log, ..root })?;
            drop(has_written);
            self.record_losses()?;
        }
        Ok(())
    }

    /// True if the root lists no pages: all that it reaches is known to be durable without a look at it.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Acquire)
    }

    /// Writes pages to the places given, in long writes, and then calls `then` for each disk.
    fn write_pages(
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
                let identity = self.identity_of(key.level, key.index, entry);
                (*place, page.size(), move |block: &mut [u8]| page.seal(identity, block))
            })
            .collect();
        self.write_blocks(&blocks, then)?;
        let (mut data_pages, mut table_pages, mut bitmap_pages) = (0, 0, 0);
        for (place, key, _) in pages {
            let copies = place.copies().count() as u64;
            match key.level {
                0 if is_bitmap(key.index) => bitmap_pages += copies,
                0 => data_pages += copies,
                _ => table_pages += copies,
            }
        }
        match when {
            When::Early | When::BeforeBatch => self.counters.early_pages.add(data_pages),
            When::WithBatch => self.counters.data_pages.add(data_pages),
        }
        self.counters.table_pages.add(table_pages);
        self.counters.bitmap_pages.add(bitmap_pages);
        Ok(())
    }

    /// Writes some changed pages before their batch is closed. The caller is inside the gate.
    fn write_early(&self) -> Result<()> {
        let Some(_one) = self.early.try_lock() else { return Ok(()) };
        let mut chosen: Vec<(Arc<Frame>, ReadLatch)> = Vec::new();
        let mut wanted = PageCounts::default();
        let (batch, mut reserved) = {
            let mut accumulating = self.accumulating.lock();
            let mut bytes = 0;
            // A frame that a thread (perhaps this one) holds exclusively is passed over, not waited for.
            for (frame, size) in accumulating.dirty.frames.values() {
                if bytes >= EARLY_BYTES {
                    break;
                }
                if let Some(latch) = frame.try_read() {
                    chosen.push((frame.clone(), latch));
                    wanted[*size] += 1;
                    bytes += size.bytes();
                }
            }
            let covered = accumulating.reserved.at_most(&wanted);
            accumulating.reserved = accumulating.reserved.beyond(&covered);
            accumulating.wrote_early |= !chosen.is_empty();
            (accumulating.batch, covered)
        };
        // By size, so that each size gets its places together.
        chosen.sort_by_key(|(frame, latch)| (latch.size(), frame.key.index));
        let mut places: Vec<PageEntry> = Vec::with_capacity(chosen.len());
        let taken = wanted.iter().try_for_each(|(size, count)| {
            let found = self.take_places(size, count, Life::Long, &mut reserved)?;
            places.extend(found.into_iter().map(|place| PageEntry::sized(place, size, batch)));
            Ok(())
        });
        self.accumulating.lock().reserved += reserved;
        match taken {
            // The batch itself has its reservation: only memory is short, for a while.
            Err(Error::DiskFull) => {
                places.into_iter().for_each(|place| self.release_early(place));
                return Ok(());
            }
            taken => taken?,
        }
        let pages: Vec<_> = chosen
            .iter()
            .zip(&places)
            .map(|((frame, image), at)| (at.place, frame.key, Page::clone(image)))
            .collect();
        self.write_pages(batch, When::Early, &pages, |_, _| Ok(()))?;
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
        Ok(())
    }

    /// Gives up the place of an early write, and gives its pages back to the batch's reservation.
    fn release_early(&self, page: PageEntry) {
        // In this order: the reservation of the batch must be promised already.
        self.release_for_reservation(page);
        self.accumulating.lock().reserved[page.size] += 1;
    }
}

/// Returns the most pages that are written for a page transaction that changes `pages` in a store of `logical_end`,
/// beside the [`standing_pages`].
fn pages_written(pages: &PageCounts, logical_end: u64) -> PageCounts {
    let count = pages.pages();
    // The last are nodes above and bitmaps that do not exist yet.
    *pages + PageCounts::of(BLOCK, count.min(nodes(logical_end + count)) + count / table::FANOUT)
}

/// Returns the number of nodes of level 1 that map `logical_end` pages, at most.
fn nodes(logical_end: u64) -> u64 {
    logical_end / table::FANOUT + 1
}

/// Returns the most blocks (nodes of higher levels, bitmaps, and nodes above these) that are written for a batch,
/// whatever it changes. Those that they replace are free when it is durable, so this number is always reserved, and
/// used once for every batch.
fn standing_pages(logical_end: u64, chunks: u64) -> u64 {
    let bitmaps = chunks + 2;
    let mut level = nodes(logical_end);
    let upper: u64 = (2..=table::DEPTH_MAX)
        .map(|_| {
            level = level / table::FANOUT + 2;
            level
        })
        .sum();
    2 * bitmaps + upper
}

impl GroupCommit for ShadowStore {
    fn durability(&self) -> &Durability {
        &self.durability
    }

    fn last_csn(&self) -> Csn {
        ShadowStore::last_csn(self)
    }

    fn check(&self) -> Result<()> {
        ShadowStore::check(self)
    }

    fn poison(&self, cause: &Error) -> Error {
        ShadowStore::poison(self, cause)
    }

    fn write_batch(&self) -> Result<Csn> {
        ShadowStore::write_batch(self)
    }
}

impl PageRead for ShadowStore {
    type ReadGuard = ReadLatch;

    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.check()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shadow::space::CHUNK_PAGES;

    #[test]
    fn reservations_cover_the_nodes_of_new_pages() {
        for old in [1u64, 500, 100_000] {
            for new in [1u64, 300, 75_000, 2_000_000] {
                let mut needed = new;
                let mut level = old + new;
                while level > 1 {
                    level = level.div_ceil(table::FANOUT);
                    needed += level.min(new);
                }
                let reserved =
                    pages_written(&new.into(), old).pages() + standing_pages(old, old.div_ceil(CHUNK_PAGES));
                assert!(reserved >= needed + new / CHUNK_PAGES, "{old} + {new}: {reserved} < {needed}");
                assert!(reserved < needed + needed / 50 + 64, "{old} + {new}: {reserved}, not {needed}");
            }
        }
    }
}
