//! The buffer pool: frames that hold pages in memory, of a bounded number of bytes together.
//!
//! Promises: one frame a page at most; a pinned, changed or in-flight frame stays; every other may be evicted by a
//! clock (second chance). The pool holds at most its capacity, but for frames that cannot be evicted at the moment:
//! it then grows by what is asked for, and shrinks again with the next fetches. A page costs its size, so a large one
//! evicts many small ones; the clock does not ask how large a page is.
//!
//! A frame's latch guards an image, which shares its bytes with clones of it. A thread that changes a page replaces
//! or un-shares them, so that a commit batch and readers keep theirs unchanged without copying it beforehand.
//!
//! Loading: a frame enters the table latched exclusively and without an image, and its loader runs after that. So
//! while a loader looks for the page's place on disk no other thread can load the page, change it, or give it another
//! place. A loader may fetch other pages, of higher levels only.
//!
//! The pool does no I/O and does not know what changed frames are for; the store does.

#[cfg(all(test, shuttle))]
mod schedules;
mod table;

use self::table::Table;
use super::{PAGE_BYTES, Page, PageId};
use crate::{
    Result,
    failpoint::{Failpoint, Failpoints},
    sync::{
        Arc, Latch, LatchRead, LatchWrite, Line, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
        prefetch,
    },
};

/// Bytes of a page's body that are prefetched: the part that a search in most nodes looks at.
const PREFETCHED_BYTES: usize = 384;
/// Bytes that a frame and its place in tables cost beside the page, about.
const FRAME_OVERHEAD_BYTES: usize = 256;
/// Bytes counted for a frame whose page is of the default size, or not known yet.
const FRAME_BYTES: usize = PAGE_BYTES + FRAME_OVERHEAD_BYTES;

/// Returns the bytes counted for a frame with this page.
fn frame_bytes(page: &Page) -> usize {
    page.size().bytes() + FRAME_OVERHEAD_BYTES
}

/// The page of a frame: its level (0 for data, 1 and up for nodes of the page table) and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolKey {
    pub level: u8,
    pub index: u64,
}

impl PoolKey {
    /// Fibonacci hashing: page numbers are dense and not chosen by a client, so one multiplication spreads them.
    fn spread(self) -> u64 {
        (self.index ^ (u64::from(self.level) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

type Image = Option<Page>;

/// A place for one page.
pub(crate) struct Frame {
    pub key: PoolKey,
    latch: Arc<Latch<Image>>,
    /// Raised under the shard's mutex only, so that an evictor that holds it can trust a zero.
    pins: AtomicU32,
    /// Bytes counted for it in the pool. Changed under the shard's mutex only.
    bytes: AtomicUsize,
    /// Changed since the last commit batch was closed: the image exists nowhere else.
    pub dirty: AtomicBool,
    /// Changed since an early flush last came by.
    pub recently_changed: AtomicBool,
    /// Part of the commit batch that is being written.
    pub in_flight: AtomicBool,
}

impl Frame {
    /// One without an image, which counts so many bytes.
    fn new(key: PoolKey, bytes: usize) -> Frame {
        Frame {
            key,
            latch: Arc::new(Latch::new(None)),
            pins: AtomicU32::new(0),
            bytes: AtomicUsize::new(bytes),
            dirty: AtomicBool::new(false),
            recently_changed: AtomicBool::new(false),
            in_flight: AtomicBool::new(false),
        }
    }

    /// Returns the image, unless a thread holds the frame exclusively at the moment.
    pub fn try_read(self: &Arc<Frame>) -> Option<ReadLatch> {
        let latch = Latch::try_read_arc(&self.latch)?;
        latch.is_some().then_some(ReadLatch { latch })
    }

    /// True if the image exists nowhere else, or is about to be written.
    fn is_changed(&self) -> bool {
        self.dirty.load(Ordering::Acquire) || self.in_flight.load(Ordering::Acquire)
    }
}

/// Keeps a frame in the pool while it lives.
pub(crate) struct Pin(Arc<Frame>);

impl Pin {
    fn new(frame: &Arc<Frame>) -> Pin {
        frame.pins.fetch_add(1, Ordering::Relaxed);
        Pin(frame.clone())
    }

    pub fn frame(&self) -> &Arc<Frame> {
        &self.0
    }

    /// Latches the frame shared, which keeps it pinned; none if loading it failed.
    pub fn read(self) -> Option<ReadLatch> {
        let latch = Latch::read_arc(&self.0.latch);
        latch.is_some().then_some(ReadLatch { latch })
    }

    /// Latches the frame exclusively; none if loading it failed.
    pub fn write(self) -> Option<WriteLatch> {
        let latch = Latch::write_arc(&self.0.latch);
        latch.is_some().then_some(WriteLatch { latch, pin: self })
    }

    /// Latches the frame exclusively, unless a thread has it latched; none, too, if loading it failed.
    pub fn try_write(self) -> Option<WriteLatch> {
        let latch = Latch::try_write_arc(&self.0.latch)?;
        latch.is_some().then_some(WriteLatch { latch, pin: self })
    }

    /// Replaces the image.
    fn replace(&self, page: Page) {
        *Latch::write_arc(&self.0.latch) = Some(page);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Ordering::Release);
    }
}

/// A frame latched shared. It stays in the pool: its latch has one holder more than the frame and the table.
pub struct ReadLatch {
    latch: LatchRead<Image>,
}

impl std::ops::Deref for ReadLatch {
    type Target = Page;
    fn deref(&self) -> &Page {
        self.latch.as_ref().expect("checked when it was latched")
    }
}

/// A frame latched exclusively.
pub struct WriteLatch {
    latch: LatchWrite<Image>,
    pin: Pin,
}

impl WriteLatch {
    pub(crate) fn frame(&self) -> &Arc<Frame> {
        self.pin.frame()
    }

    pub fn page(&self) -> &Page {
        self.latch.as_ref().expect("checked when it was latched")
    }

    /// Puts an image back that it had before.
    pub fn restore(&mut self, before: Page) {
        *self.latch = Some(before);
    }

    /// Returns the image for changing: its bytes are copied if a clone still shares them.
    pub fn page_mut(&mut self) -> &mut Page {
        self.latch.as_mut().expect("checked when it was latched")
    }
}

/// The table's entry of a frame, so that a reader of its page need not touch the frame.
struct Slot {
    frame: Arc<Frame>,
    /// The frame's.
    latch: Arc<Latch<Image>>,
    /// The page's number and level: apart, so that two slots are on a cache line.
    page: u64,
    level: u8,
    /// Asked for since the clock came by.
    recent: bool,
    /// Its place in the clock.
    place: u32,
}

const _: () = assert!(size_of::<Option<Slot>>() == 32);

impl Slot {
    fn new(frame: Arc<Frame>, place: u32) -> Slot {
        let PoolKey { level, index: page } = frame.key;
        Slot { latch: frame.latch.clone(), frame, page, level, recent: true, place }
    }

    fn key(&self) -> PoolKey {
        PoolKey { level: self.level, index: self.page }
    }

    /// True if the frame or its latch is in use. The latch is cloned under the shard's mutex only.
    fn is_pinned(&self) -> bool {
        const OWNERS: usize = 2;
        self.frame.pins.load(Ordering::Acquire) > 0 || Arc::strong_count(&self.latch) > OWNERS
    }
}

#[derive(Default)]
struct Shard {
    slots: Table,
    /// The pages that have frames, round which the clock turns.
    clock: Vec<PoolKey>,
    /// Bytes counted for all frames.
    bytes: usize,
    hand: usize,
    /// Number of times that a data page was asked for.
    data_fetches: u64,
    failpoints: Failpoints,
}

impl Shard {
    fn slot(&mut self, key: PoolKey) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(key)?;
        // What many threads look at is written only if it changes.
        if !slot.recent {
            slot.recent = true;
        }
        Some(slot)
    }

    fn get(&mut self, key: PoolKey) -> Option<&Arc<Frame>> {
        self.slot(key).map(|slot| &slot.frame)
    }

    /// Adds a frame that counts so many bytes.
    fn insert(&mut self, key: PoolKey, bytes: usize, capacity: usize) -> Arc<Frame> {
        self.bytes += bytes;
        self.fit(capacity);
        let frame = Arc::new(Frame::new(key, bytes));
        let place = u32::try_from(self.clock.len()).expect("a shard has fewer frames than memory has pages");
        self.slots.insert(Slot::new(frame.clone(), place));
        self.clock.push(key);
        frame
    }

    /// Evicts until what is here fits, or nothing can go.
    fn fit(&mut self, capacity: usize) {
        while self.bytes > capacity && self.evict_one() {}
    }

    /// The place in the clock of a frame that is still its page's.
    fn index_of(&self, frame: &Arc<Frame>) -> Option<usize> {
        let slot = self.slots.get(frame.key).filter(|slot| Arc::ptr_eq(&slot.frame, frame))?;
        Some(slot.place as usize)
    }

    /// Notes what a pinned frame counts.
    fn recount(&mut self, frame: &Arc<Frame>, bytes: usize, capacity: usize) {
        if self.index_of(frame).is_some() {
            self.bytes += bytes;
            self.bytes -= frame.bytes.swap(bytes, Ordering::Relaxed);
            self.fit(capacity);
        }
    }

    fn remove(&mut self, frame: &Arc<Frame>) {
        if let Some(index) = self.index_of(frame) {
            self.remove_at(index);
        }
    }

    fn remove_at(&mut self, index: usize) {
        let key = self.clock.swap_remove(index);
        let slot = self.slots.remove(key).expect("every page in the clock has one");
        self.bytes -= slot.frame.bytes.load(Ordering::Relaxed);
        if let Some(moved) = self.clock.get(index) {
            self.slots.get_mut(*moved).expect("every page in the clock has one").place = index as u32;
        }
    }

    /// Turns the clock until a frame can go: at most twice round, once to take second chances away.
    fn evict_one(&mut self) -> bool {
        for _ in 0..self.clock.len() * 2 {
            if self.hand >= self.clock.len() {
                self.hand = 0;
            }
            let slot = self.slots.get_mut(self.clock[self.hand]).expect("every page in the clock has one");
            let pinned = slot.is_pinned() && !self.failpoints.is_on(Failpoint::UnpinnedEarly);
            if pinned || slot.frame.is_changed() || std::mem::take(&mut slot.recent) {
                self.hand += 1;
                continue;
            }
            self.remove_at(self.hand);
            return true;
        }
        false
    }
}

/// The frames of a store. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct Pool {
    shards: Arc<[Line<Mutex<Shard>>]>,
    shard_bytes: usize,
}

/// The fewest frames of pages of the default size that a pool works with: a deep descent of every level pins a dozen.
const FRAMES_MIN: usize = 64;
/// Number of shards, at most: so many that threads with pages of their own seldom meet in one. Threads that meet wait
/// less for the mutex than for the memory that another processor had last.
const SHARDS_MAX: usize = 256;

impl Pool {
    /// A pool of `bytes` bytes.
    pub fn new(bytes: usize) -> Pool {
        let bytes = bytes.max(FRAMES_MIN * FRAME_BYTES);
        // A power of two, which makes it cheap to find a page's.
        let most = (bytes / (FRAMES_MIN * FRAME_BYTES)).clamp(1, SHARDS_MAX);
        let shards = 1 << most.ilog2();
        Pool { shards: (0..shards).map(|_| Line::default()).collect(), shard_bytes: bytes / shards }
    }

    /// Returns the bytes that it holds at most while all can be evicted.
    pub fn capacity(&self) -> usize {
        self.shard_bytes * self.shards.len()
    }

    /// Returns the bytes that it holds now.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    /// Returns the number of frames that it holds now.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().clock.len()).sum()
    }

    /// Returns the number of times that a data page was asked for, in memory or not.
    pub fn data_fetches(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().data_fetches).sum()
    }

    fn shard(&self, key: PoolKey) -> &Mutex<Shard> {
        // Other bits than the shard's own table looks at.
        &self.shards[(key.spread() >> 40) as usize & (self.shards.len() - 1)]
    }

    /// The frame of a page if it is in memory (or being loaded).
    pub fn get(&self, key: PoolKey) -> Option<Pin> {
        self.shard(key).lock().get(key).map(Pin::new)
    }

    /// A page latched shared, if it is in memory.
    pub fn read(&self, key: PoolKey) -> Option<ReadLatch> {
        let latch = {
            let mut shard = self.shard(key).lock();
            let latch = &shard.slot(key)?.latch;
            let latch = Latch::try_read_arc(latch).ok_or_else(|| latch.clone());
            shard.data_fetches += u64::from(key.level == 0);
            latch
        };
        let latch = latch.unwrap_or_else(|busy| Latch::read_arc(&busy));
        latch.is_some().then_some(ReadLatch { latch })
    }

    /// Latches data pages shared, each if it is in memory and no thread has it exclusively. Prefetches the table
    /// entries, latches and frames of all at once, and then the beginnings of their bodies.
    pub fn try_read_all(&self, pages: &[PageId], latches: &mut Vec<Option<ReadLatch>>) {
        let keys = || pages.iter().map(|id| PoolKey { level: 0, index: id.0 });
        for key in keys() {
            self.shard(key).lock().slots.prefetch(key);
        }
        for key in keys() {
            if let Some(slot) = self.shard(key).lock().slots.get(key) {
                prefetch(&*slot.latch);
                prefetch(&*slot.frame);
            }
        }
        latches.extend(keys().map(|key| {
            let mut shard = self.shard(key).lock();
            shard.data_fetches += 1;
            let latch = Latch::try_read_arc(&shard.slot(key)?.latch)?;
            drop(shard);
            let body = latch.as_ref()?.body();
            prefetch(&body[..body.len().min(PREFETCHED_BYTES)]);
            Some(ReadLatch { latch })
        }));
    }

    /// The frame of a page, loaded by `load` if it is not in memory. None if `load` finds that there is no such
    /// page. Latching a frame whose load failed on another thread gives none: fetch again.
    pub fn fetch(&self, key: PoolKey, load: impl FnOnce() -> Result<Option<Page>>) -> Result<Option<Pin>> {
        let mut shard = self.shard(key).lock();
        shard.data_fetches += u64::from(key.level == 0);
        if let Some(frame) = shard.get(key) {
            return Ok(Some(Pin::new(frame)));
        }
        let frame = shard.insert(key, FRAME_BYTES, self.shard_bytes);
        let pin = Pin::new(&frame);
        let mut latch = Latch::write_arc(&frame.latch);
        drop(shard);
        match load() {
            Ok(Some(page)) => {
                let bytes = frame_bytes(&page);
                *latch = Some(page);
                drop(latch);
                if bytes != FRAME_BYTES {
                    self.shard(key).lock().recount(&frame, bytes, self.shard_bytes);
                }
                Ok(Some(pin))
            }
            missing => {
                self.shard(key).lock().remove(&frame);
                drop(latch);
                missing.map(|_| None)
            }
        }
    }

    /// The frame of a page whose image is given: in place of the one in memory, if there is one.
    pub fn put(&self, key: PoolKey, page: Page) -> Pin {
        let bytes = frame_bytes(&page);
        let mut shard = self.shard(key).lock();
        match shard.get(key).cloned() {
            Some(frame) => {
                let pin = Pin::new(&frame);
                shard.recount(&frame, bytes, self.shard_bytes);
                drop(shard);
                pin.replace(page);
                pin
            }
            None => {
                let pin = Pin::new(&shard.insert(key, bytes, self.shard_bytes));
                // Before another thread finds the frame: none can hold its latch yet.
                pin.replace(page);
                pin
            }
        }
    }

    /// Takes a frame out of the table: its page is no more. A thread that holds the frame keeps it to itself.
    pub fn remove(&self, frame: &Arc<Frame>) {
        self.shard(frame.key).lock().remove(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        page::{PageKind, PageSize},
    };

    fn key(index: u64) -> PoolKey {
        PoolKey { level: 0, index }
    }

    fn page(byte: u8) -> Page {
        let mut page = Page::new(PageKind::TreeLeaf);
        page.body_mut()[0] = byte;
        page
    }

    fn load(pool: &Pool, index: u64) -> Pin {
        pool.fetch(key(index), || Ok(Some(page(index as u8)))).unwrap().unwrap()
    }

    #[test]
    fn stays_within_its_capacity_and_keeps_what_must_stay() {
        let pool = Pool::new(0);
        let pinned = load(&pool, 1);
        let dirty = load(&pool, 2);
        dirty.frame().dirty.store(true, Ordering::Release);
        drop(dirty);
        let flying = load(&pool, 3);
        flying.frame().in_flight.store(true, Ordering::Release);
        drop(flying);
        for index in 4..1000 {
            load(&pool, index);
            assert!(pool.bytes() <= pool.capacity());
        }
        assert_eq!(pool.len(), FRAMES_MIN);
        for index in 1..4 {
            assert!(pool.get(key(index)).is_some(), "page {index} was evicted");
        }
        assert!(pool.get(key(4)).is_none());
        assert_eq!(pinned.read().unwrap().body()[0], 1);
    }

    #[test]
    fn grows_when_nothing_can_go_and_shrinks_again() {
        let pool = Pool::new(0);
        let pins: Vec<_> = (0..100).map(|index| load(&pool, index)).collect();
        assert_eq!(pool.len(), 100);
        drop(pins);
        load(&pool, 1000);
        assert!(pool.bytes() <= pool.capacity());
    }

    /// Pages of all sizes come and go, some of them in the place of one of another size.
    #[test]
    fn pages_count_what_they_take() {
        let pool = Pool::new(4 << 20);
        let sizes: Vec<PageSize> = PageSize::all().collect();
        let sized = |index: u64| Page::sized(PageKind::Overflow, sizes[index as usize * 7 % sizes.len()]);
        for index in 0..3000 {
            let pin = match index % 3 {
                0 => pool.put(key(index % 50), sized(index)),
                _ => pool.fetch(key(index), || Ok(Some(sized(index)))).unwrap().unwrap(),
            };
            drop(pin);
            if index % 10 == 0 {
                pool.remove(pool.get(key(index % 50)).unwrap_or_else(|| load(&pool, index)).frame());
            }
            // A page that is larger than its shard is there alone.
            for shard in &*pool.shards {
                let keys = shard.lock().clock.clone();
                let frames: Vec<_> =
                    keys.iter().map(|key| shard.lock().slots.get(*key).unwrap().frame.clone()).collect();
                let images = frames.iter().filter_map(Frame::try_read);
                let bytes: usize = images.map(|image| frame_bytes(&image)).sum();
                assert_eq!(shard.lock().bytes, bytes);
                assert!(bytes <= pool.shard_bytes || frames.len() == 1, "{bytes} of {}", pool.shard_bytes);
            }
        }
        assert!(pool.len() > 10);
    }

    #[test]
    fn a_failed_load_leaves_nothing_behind() {
        let pool = Pool::new(0);
        assert!(pool.fetch(key(1), || Err(Error::Closed)).is_err());
        assert!(pool.fetch(key(1), || Ok(None)).unwrap().is_none());
        assert_eq!(load(&pool, 1).read().unwrap().body()[0], 1);
    }

    #[test]
    fn a_kept_image_does_not_change() {
        let pool = Pool::new(0);
        let kept = load(&pool, 1).read().unwrap().clone();
        let mut latch = load(&pool, 1).write().unwrap();
        latch.page_mut().body_mut()[0] = 99;
        drop(latch);
        assert_eq!(kept.body()[0], 1);
        assert_eq!(load(&pool, 1).read().unwrap().body()[0], 99);
    }
}
