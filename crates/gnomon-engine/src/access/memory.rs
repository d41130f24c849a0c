//! A store in memory for the tests of this folder: pages under latches, and nothing else.

use std::ops::{Deref, DerefMut};

use crate::{
    Error, PageId, Result,
    page::{Page, PageCounts, PageKind, PageSize},
    store::{PageGuard, PageRead, PageWrite},
    sync::{
        Arc, Latch, LatchRead, LatchWrite, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

type Frame = Arc<Latch<Page>>;

/// The store. Page numbers are not used again, so that a stale one is noticed.
#[derive(Default)]
pub struct MemoryPages {
    /// None where the page was freed.
    frames: RwLock<Vec<Option<Frame>>>,
    changes: Arc<AtomicU64>,
    allocations_left: Mutex<Option<usize>>,
    restructured: AtomicU64,
    /// A bug that the tests must catch: splits and merges are not counted.
    pub forgets_splits: bool,
}

/// Holds a page exclusively.
pub struct WriteGuard {
    id: PageId,
    page: LatchWrite<Page>,
    changes: Arc<AtomicU64>,
}

impl Deref for WriteGuard {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

impl DerefMut for WriteGuard {
    fn deref_mut(&mut self) -> &mut Page {
        self.changes.fetch_add(1, Ordering::Relaxed);
        &mut self.page
    }
}

impl PageGuard for WriteGuard {
    fn id(&self) -> PageId {
        self.id
    }
}

impl MemoryPages {
    /// Returns the number of pages.
    pub fn count(&self) -> usize {
        self.ids().len()
    }

    /// The pages there are.
    pub fn ids(&self) -> Vec<PageId> {
        let frames = self.frames.read();
        (0..).map(PageId).zip(frames.iter()).filter(|(_, frame)| frame.is_some()).map(|(id, _)| id).collect()
    }

    /// Returns the number of pages of each size.
    pub fn sizes(&self) -> PageCounts {
        let mut counts = PageCounts::default();
        self.ids().into_iter().for_each(|id| counts[self.read(id).unwrap().size()] += 1);
        counts
    }

    /// Returns the number of times that a page was changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Lets so many allocations succeed, and no more; none lifts the limit.
    pub fn limit_allocations(&self, count: Option<usize>) {
        *self.allocations_left.lock() = count;
    }

    /// Changes a page without the knowledge of the tree.
    pub fn damage(&self, id: PageId, f: impl FnOnce(&mut [u8])) {
        f(self.write(id).unwrap().body_mut());
    }

    fn frame(&self, id: PageId) -> Result<Frame> {
        let frame =
            usize::try_from(id.0).ok().and_then(|index| self.frames.read().get(index).cloned().flatten());
        frame.ok_or_else(|| Error::Corrupt {
            file: crate::LOGICAL_PAGES.into(),
            page: id.0,
            detail: "there is no such page".into(),
        })
    }
}

impl PageRead for MemoryPages {
    type ReadGuard = LatchRead<Page>;

    fn read(&self, id: PageId) -> Result<Self::ReadGuard> {
        Ok(self.frame(id)?.read_arc())
    }

    fn restructured(&self) -> Option<u64> {
        Some(self.restructured.load(Ordering::Acquire))
    }

    fn try_read_all(&self, ids: &[PageId], guards: &mut Vec<Option<Self::ReadGuard>>) {
        guards.extend(ids.iter().map(|id| Latch::try_read_arc(&self.frame(*id).ok()?)));
    }

    fn read_again(&self, id: PageId, restructured: u64) -> Option<Self::ReadGuard> {
        let guard = self.read(id).ok()?;
        (self.restructured() == Some(restructured)).then_some(guard)
    }
}

impl PageWrite for MemoryPages {
    type WriteGuard = WriteGuard;

    fn write(&self, id: PageId) -> Result<WriteGuard> {
        Ok(WriteGuard { id, page: self.frame(id)?.write_arc(), changes: Arc::clone(&self.changes) })
    }

    fn write_again(&self, id: PageId, restructured: u64) -> Option<WriteGuard> {
        let guard = self.write(id).ok()?;
        (self.restructured() == Some(restructured)).then_some(guard)
    }

    fn note_restructured(&self) {
        self.restructured.fetch_add(u64::from(!self.forgets_splits), Ordering::AcqRel);
    }

    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<WriteGuard> {
        if let Some(left) = &mut *self.allocations_left.lock() {
            *left = left.checked_sub(1).ok_or(Error::DiskFull)?;
        }
        let frame = Arc::new(Latch::new(Page::sized(kind, size)));
        let page = frame.write_arc();
        let mut frames = self.frames.write();
        frames.push(Some(frame));
        Ok(WriteGuard { id: PageId(frames.len() as u64 - 1), page, changes: Arc::clone(&self.changes) })
    }

    fn free(&self, guard: WriteGuard) -> Result<()> {
        let mut frames = self.frames.write();
        let frame = usize::try_from(guard.id.0).ok().and_then(|index| frames.get_mut(index));
        *frame.expect("a latched page is one of the store") = None;
        Ok(())
    }
}

/// A small generator of random numbers (SplitMix64, Steele et al. 2014).
pub struct Random(u64);

impl Random {
    /// Makes a generator that repeats its numbers for the same seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number less than `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }
}
