//! Pinned superblocks: states of the store that stay readable while others commit, for as long as they are needed (for
//! backups, and for readers that are older than a change of whole pages).
//!
//! Promises: a pinned state is one that was published, and so durable; reading it takes no latch and no part of the
//! buffer pool. The pages that it reaches are not used again until it is let go: a page that batch `w` wrote and batch
//! `n` gave up is held while a state between them, `w <= state < n`, is pinned. What is held costs space, never memory
//! beyond a few bytes a page, and is free after a crash.

use std::collections::{BTreeMap, HashMap};

use super::Snapshots;
use crate::store::shadow::{
    mirror::Mirror,
    page_table::node::{self, PageEntry},
    superblock::Superblock,
};
use crate::{
    Csn, Result,
    page::{Page, PageId},
    store::PageRead,
    sync::{Arc, Mutex},
};

/// Bytes of pages that a pinned state keeps in memory at most, nodes of the page table included.
const CACHED_BYTES_MAX: usize = 4 << 20;

/// The pinned states of a store, and the pages held for them.
#[derive(Default)]
pub struct Pins {
    /// Number of pins of a state, by its batch.
    states: BTreeMap<u64, usize>,
    pub held: Vec<Held>,
}

/// Copies of a page that only pinned states reach.
pub struct Held {
    pub page: PageEntry,
    given_up: u64,
}

impl Pins {
    /// True if a pinned state reaches a page that batch `written` wrote and `given_up` gave up.
    fn is_needed(&self, written: u64, given_up: u64) -> bool {
        written < given_up && self.states.range(written..given_up).next().is_some()
    }

    /// Returns those of the pages that batch `given_up` gave up that are free now. Holds the others.
    pub fn give_up(&mut self, pages: Vec<PageEntry>, given_up: u64) -> Vec<PageEntry> {
        let (needed, free): (Vec<PageEntry>, Vec<PageEntry>) =
            pages.into_iter().partition(|page| self.is_needed(page.batch, given_up));
        self.held.extend(needed.into_iter().map(|page| Held { page, given_up }));
        free
    }

    pub fn is_pinned(&self) -> bool {
        !self.states.is_empty()
    }

    fn pin(&mut self, batch: u64) {
        *self.states.entry(batch).or_default() += 1;
    }

    /// Unpins a state once. Returns the pages that are free by that.
    fn unpin(&mut self, batch: u64) -> Vec<PageEntry> {
        let count = self.states.get_mut(&batch).expect("it was pinned");
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        self.states.remove(&batch);
        let (needed, free): (Vec<Held>, Vec<Held>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|held| self.is_needed(held.page.batch, held.given_up));
        self.held = needed;
        free.into_iter().map(|held| held.page).collect()
    }
}

/// Pages in memory, by level and logical number.
#[derive(Default)]
struct Cached {
    pages: HashMap<(u8, u64), Page>,
    bytes: usize,
}

impl Cached {
    fn clear(&mut self) {
        *self = Cached::default();
    }

    fn insert(&mut self, level: u8, logical: u64, page: Page) {
        if self.bytes + page.size().bytes() > CACHED_BYTES_MAX {
            self.clear();
        }
        self.bytes += page.size().bytes();
        if let Some(before) = self.pages.insert((level, logical), page) {
            self.bytes -= before.size().bytes();
        }
    }
}

impl PinnedRoot {
    /// Pins the newest durable state.
    pub(super) fn new(snapshots: &Arc<Snapshots>) -> PinnedRoot {
        // The mutex first: a batch is published under it.
        let mut pins = snapshots.pins.lock();
        let superblock = snapshots.table.superblock();
        pins.pin(superblock.batch);
        drop(pins);
        PinnedRoot { snapshots: snapshots.clone(), superblock, cached: Mutex::default() }
    }
}

/// A durable state of the store, which stays as it is while this lives.
pub struct PinnedRoot {
    snapshots: Arc<Snapshots>,
    pub superblock: Superblock,
    /// Pages read lately, by level and logical number.
    cached: Mutex<Cached>,
}

impl PinnedRoot {
    /// Returns the disks that its pages are on.
    pub(in crate::store::shadow) fn mirror(&self) -> &Mirror {
        &self.snapshots.mirror
    }

    /// Returns the last commit in it.
    pub fn csn(&self) -> Csn {
        self.superblock.csn
    }

    /// Returns the batch that made it: pages that a later one wrote carry a larger number.
    pub fn batch(&self) -> u64 {
        self.superblock.batch
    }

    fn page(&self, level: u8, logical: u64, entry: PageEntry) -> Result<Page> {
        if let Some(page) = self.cached.lock().pages.get(&(level, logical)) {
            return Ok(page.clone());
        }
        let page = self.snapshots.mirror.read_page(level, logical, entry)?;
        self.cached.lock().insert(level, logical, page.clone());
        Ok(page)
    }

    /// Returns the page table's entry for a data page.
    fn entry(&self, logical: u64) -> Result<Option<PageEntry>> {
        if self.superblock.depth == 0 || logical >= node::span(self.superblock.depth) {
            return Ok(None);
        }
        let mut entry = self.superblock.table;
        for level in (1..=self.superblock.depth).rev() {
            let Some(present) = entry.present() else { return Ok(None) };
            let node = self.page(level, node::node_base(level, logical), present)?;
            entry = node::entry(&node, node::slot(level, logical));
        }
        Ok(entry.present())
    }
}

impl Drop for PinnedRoot {
    fn drop(&mut self) {
        let mut pins = self.snapshots.pins.lock();
        let free = pins.unpin(self.superblock.batch);
        self.snapshots.allocator.release(free);
        self.snapshots.allocator.note_cleaning();
    }
}

/// A page of a pinned state.
pub struct PinnedPage(Page);

impl std::ops::Deref for PinnedPage {
    type Target = Page;
    fn deref(&self) -> &Page {
        &self.0
    }
}

impl PageRead for PinnedRoot {
    type ReadGuard = PinnedPage;

    fn read(&self, id: PageId) -> Result<PinnedPage> {
        let entry = self.entry(id.0)?.ok_or_else(|| {
            self.snapshots.mirror.corrupt(0, format!("logical page {id} is pointed to, but does not exist"))
        })?;
        Ok(PinnedPage(self.page(0, id.0, entry)?))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::store::GroupCommit;
    use crate::{
        disk::MemDisk,
        env::Rng,
        page::PageKind,
        store::{PageGuard, PageWrite, shadow::ShadowStore},
    };

    fn store() -> Arc<ShadowStore> {
        Arc::new(ShadowStore::open(&MemDisk::new(), Some(7), 1 << 20, false).unwrap())
    }

    fn write(store: &ShadowStore, page: PageId, value: u8) {
        let pages = store.begin(1).unwrap();
        pages.write(page).unwrap().body_mut()[0] = value;
    }

    #[test]
    fn pinned_states_stay_as_they_are_and_let_go_of_everything() {
        let store = store();
        let mut rng = Rng::from_seed(4);
        let ids: Vec<PageId> = (0..40)
            .map(|_| {
                store.begin(1).unwrap().allocate(PageKind::TreeLeaf, crate::PageSize::DEFAULT).unwrap().id()
            })
            .collect();
        store.flush().unwrap();
        let mut now = vec![0; ids.len()];
        let mut pinned: Vec<(PinnedRoot, Vec<u8>)> = Vec::new();
        for round in 0..2000u32 {
            for _ in 0..rng.below(10) {
                let which = rng.below(ids.len() as u64) as usize;
                now[which] = round as u8;
                write(&store, ids[which], round as u8);
            }
            store.flush().unwrap();
            match rng.below(40) {
                0 => pinned.push((store.pin(), now.clone())),
                1 if !pinned.is_empty() => drop(pinned.swap_remove(rng.below(pinned.len() as u64) as usize)),
                _ => {}
            }
            // Seldom, so that places that were let go of too early are used again.
            for (superblock, values) in pinned.iter().filter(|_| round % 20 == 0) {
                superblock.cached.lock().clear();
                for (id, value) in ids.iter().zip(values) {
                    assert_eq!(superblock.read(*id).unwrap().body()[0], *value, "round {round}");
                }
            }
        }
        assert!(store.snapshots.held_pages() > 0);
        pinned.clear();
        assert_eq!(store.snapshots.held_pages(), 0);
        let space = store.allocator.space.lock();
        assert_eq!(space.taken(), space.reachable(), "nothing is out of reach and not free");
    }
}
