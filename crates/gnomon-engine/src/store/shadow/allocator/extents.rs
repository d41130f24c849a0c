//! Space for pages that take more than one physical page: extents.
//!
//! Promises: a page transaction that has reserved pages of any sizes gets them, in one piece each. The number of free
//! physical pages says nothing about that, so extents are not promised but taken when they are reserved, and the file
//! grows if it has no hole for one. Pages that were reserved and are not needed go back.
//!
//! Extents that are taken and not written yet wait here, by size; those of one size are all alike. They are no
//! superblock's, so a crash forgets them. Physical pages that are pages by themselves are counted only, by
//! [`Space`](super::Space).

use std::collections::BTreeSet;

use super::{
    Allocator, Grow, Purpose,
    space::{Life, Search},
};
use crate::store::shadow::page_table::{
    node::{BLOCK, PageEntry},
    place::{DISKS_MAX, Place, disk_of},
};
use crate::{
    Error, Result,
    page::{PageCounts, PageSize, SIZES},
};

/// Number of blocks, if these are extents, that are kept for page transactions that give pages back: they, too, write
/// before they free.
const KEPT_BLOCKS: u64 = 64;

/// The extents that are taken and not written yet.
#[derive(Default)]
pub struct Extents {
    /// Their places, by size. Those at the beginning of a file are used first.
    waiting: [BTreeSet<Place>; SIZES],
    /// Number of them that are promised to page transactions and batches.
    promised: PageCounts,
    /// Number of further ones of [`BLOCK`] that are kept for every batch, if these are extents.
    standing: u64,
}

impl Extents {
    fn waiting(&mut self, size: PageSize) -> &mut BTreeSet<Place> {
        &mut self.waiting[usize::from(size.code())]
    }

    /// Returns the number that a reservation for this purpose must leave: those promised, those kept for every batch
    /// and, with [`Purpose::Use`], those kept for transactions that free space.
    fn wanted(&self, size: PageSize, purpose: Purpose) -> u64 {
        let kept = match purpose {
            _ if size != BLOCK || self.standing == 0 => 0,
            Purpose::Use => self.standing + KEPT_BLOCKS,
            Purpose::Free => self.standing,
        };
        self.promised[size] + kept
    }

    /// Takes one that waits, if more than `more_than` wait.
    fn pop(&mut self, size: PageSize, more_than: u64) -> Option<Place> {
        let waiting = self.waiting(size);
        if waiting.len() as u64 > more_than { waiting.pop_first() } else { None }
    }

    /// Takes one that is neither promised nor kept.
    fn pop_unwanted(&mut self, size: PageSize) -> Option<Place> {
        let wanted = self.wanted(size, Purpose::Use);
        let waiting = self.waiting(size);
        if waiting.len() as u64 > wanted { waiting.pop_last() } else { None }
    }
}

impl Allocator {
    /// Takes the extents among these pages, and promises them. Their space has been reserved already, as for pages.
    pub fn reserve_extents(&self, purpose: Purpose, pages: &PageCounts, grow: Grow) -> Result<()> {
        let mut done = PageCounts::default();
        for (size, count) in pages.iter().filter(|(size, _)| self.is_extent(*size)) {
            // Some may wait that are kept for this.
            let waiting = {
                let mut extents = self.extents.lock();
                let wanted = extents.wanted(size, purpose);
                let waiting = (extents.waiting(size).len() as u64).saturating_sub(wanted).min(count);
                extents.promised[size] += waiting;
                waiting
            };
            match self.take_extents(size, count - waiting, grow) {
                Ok(taken) => {
                    // Not promised any more, but taken.
                    self.space.lock().unreserve(count * self.physical_pages(size));
                    let mut extents = self.extents.lock();
                    extents.promised[size] += taken.len() as u64;
                    extents.waiting(size).extend(taken);
                    done[size] += count;
                }
                Err(error) => {
                    self.unreserve(&done);
                    self.unreserve(&PageCounts::of(size, waiting));
                    let mut rest = *pages;
                    done.iter().for_each(|(size, count)| rest[size] -= count);
                    self.space.lock().unreserve(self.physical_pages_of(&rest));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Keeps `blocks` blocks for every batch, if these are extents, and some for transactions that free space.
    pub fn keep_standing(&self, purpose: Purpose, blocks: u64) -> Result<()> {
        if !self.is_extent(BLOCK) {
            return Ok(());
        }
        let missing = {
            let mut extents = self.extents.lock();
            extents.standing = blocks;
            extents.wanted(BLOCK, purpose).saturating_sub(extents.waiting(BLOCK).len() as u64)
        };
        let taken = self.take_extents(BLOCK, missing, Grow::Yes)?;
        self.extents.lock().waiting(BLOCK).extend(taken);
        Ok(())
    }

    /// Gives reserved pages back.
    pub fn unreserve(&self, pages: &PageCounts) {
        for (size, count) in pages.iter() {
            if self.is_extent(size) {
                self.extents.lock().promised[size] -= count;
                self.release_unwanted(size);
            } else {
                self.space.lock().unreserve(count);
            }
        }
    }

    fn release_unwanted(&self, size: PageSize) {
        let mut extents = self.extents.lock();
        let unwanted: Vec<Place> = std::iter::from_fn(|| extents.pop_unwanted(size)).collect();
        drop(extents);
        self.space.lock().release_unused(&unwanted, self.physical_pages(size));
    }

    /// Takes extents, and grows files, if they may, where there are no holes for them. In a mirrored store a page has
    /// one copy only if there is room for no other, or no other disk.
    fn take_extents(&self, size: PageSize, count: u64, grow: Grow) -> Result<Vec<Place>> {
        let len = self.physical_pages(size);
        let mut taken = Vec::with_capacity(count as usize);
        let mut chosen = [0; DISKS_MAX];
        while (taken.len() as u64) < count {
            match self.take_extent(len, &mut chosen, grow) {
                Ok(Some(place)) => taken.push(place),
                nothing => {
                    self.space.lock().release_unused(&taken, len);
                    return Err(nothing.err().unwrap_or(Error::DiskFull));
                }
            }
        }
        Ok(taken)
    }

    /// Takes an extent for each copy of a page.
    fn take_extent(&self, len: u64, chosen: &mut [u64; DISKS_MAX], grow: Grow) -> Result<Option<Place>> {
        let copies = self.space.lock().copies();
        let mut found: Vec<u64> = Vec::with_capacity(copies);
        // The files as they are first, then longer ones.
        for grow in [Grow::No, grow] {
            let mut full: Vec<usize> = found.iter().map(|copy| disk_of(*copy)).collect();
            while found.len() < copies {
                let (disks, _) = {
                    let space = self.space.lock();
                    self.mirror.disks.choose(&space, copies - found.len(), chosen, &full)
                };
                if disks.is_empty() {
                    break;
                }
                for disk in disks {
                    full.push(disk);
                    if let Some(copy) = self.take_extent_on(disk, len, grow)? {
                        chosen[disk] += len;
                        found.push(copy);
                    }
                }
            }
        }
        if self.mirror.disks.is_mirrored() && found.len() == 1 {
            self.mirror.note_missing_copies();
        }
        Ok(Place::of(found).present())
    }

    /// Takes an extent of a disk; none if it has none, or is lost.
    pub fn take_extent_on(&self, disk: usize, len: u64, grow: Grow) -> Result<Option<u64>> {
        loop {
            let (found, growth) = {
                let mut space = self.space.lock();
                (space.take_extent(disk, len), space.growth_for_extent(disk, len))
            };
            match (found, growth) {
                (Search::Found(run), _) => return Ok(Some(run.start)),
                (Search::Load(bitmap), _) => self.load_bitmap(bitmap)?,
                (Search::Nothing, Some(growth)) if grow == Grow::Yes => {
                    let _growing = self.growing.lock();
                    // Unless another thread has just done so.
                    if self.space.lock().file_end(disk) == growth.from && !self.grow_file(growth)? {
                        return Ok(None);
                    }
                }
                (Search::Nothing, _) => return Ok(None),
            }
        }
    }

    /// Replaces waiting extents that lie beyond an end by others, so that the file can be cut there.
    pub fn move_waiting(&self) -> Result<()> {
        for size in PageSize::all().filter(|size| self.is_extent(*size)) {
            let beyond: Vec<Place> = {
                let (mut extents, space) = (self.extents.lock(), self.space.lock());
                let is_beyond = |place: &&Place| place.copies().any(|copy| space.is_beyond(copy));
                extents.waiting(size).iter().filter(is_beyond).copied().collect()
            };
            let taken = match self.take_extents(size, beyond.len() as u64, Grow::No) {
                Ok(taken) => taken,
                Err(Error::DiskFull) => continue,
                Err(error) => return Err(error),
            };
            let mut extents = self.extents.lock();
            let waiting = extents.waiting(size);
            // Another thread may have taken one meanwhile.
            let replaced = |(before, now): (Place, Place)| match waiting.remove(&before) {
                true => {
                    waiting.insert(now);
                    before
                }
                false => now,
            };
            let unwanted: Vec<Place> = beyond.into_iter().zip(taken).map(replaced).collect();
            drop(extents);
            self.space.lock().release_unused(&unwanted, self.physical_pages(size));
        }
        Ok(())
    }

    /// Removes lost disks from waiting extents, and replaces those that are on no other disk. False if there is no
    /// room for that.
    pub fn forget_lost_extents(&self) -> Result<bool> {
        let there = |place: &Place| {
            Place::of(place.copies().filter(|copy| self.mirror.disks.is_there(*copy))).present()
        };
        for size in PageSize::all().filter(|size| self.is_extent(*size)) {
            let is_nowhere = |place: &Place| there(place).is_none();
            let lost = self.extents.lock().waiting(size).iter().filter(|place| is_nowhere(place)).count();
            let others = match self.take_extents(size, lost as u64, Grow::Yes) {
                Ok(others) => others,
                Err(Error::DiskFull) => return Ok(false),
                Err(error) => return Err(error),
            };
            let mut extents = self.extents.lock();
            let waiting = extents.waiting(size);
            let nowhere: Vec<Place> = waiting.iter().filter(|place| is_nowhere(place)).copied().collect();
            let count = nowhere.len();
            nowhere.iter().zip(&others).for_each(|(place, other)| {
                waiting.remove(place);
                waiting.insert(*other);
            });
            *waiting = waiting.iter().map(|place| there(place).unwrap_or(*place)).collect();
            drop(extents);
            self.space.lock().release_unused(&others[count.min(others.len())..], self.physical_pages(size));
            if count > others.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes places for `count` pages of one size from what is left of `reserved`, a reservation that covers them.
    pub fn take_places(
        &self,
        size: PageSize,
        count: u64,
        life: Life,
        reserved: &mut PageCounts,
    ) -> Result<Vec<Place>> {
        if !self.is_extent(size) {
            return self.take_space(count, life, &mut reserved[size]);
        }
        let mut waited = Vec::with_capacity(count as usize);
        let covered = count.min(reserved[size]);
        let mut extents = self.extents.lock();
        while (waited.len() as u64) < covered {
            waited.push(extents.pop(size, 0).expect("what is promised waits"));
        }
        extents.promised[size] -= covered;
        reserved[size] -= covered;
        while (waited.len() as u64) < count {
            // Extents that are kept for every batch.
            let promised = extents.promised[size];
            let Some(place) = extents.pop(size, promised) else { break };
            waited.push(place);
        }
        drop(extents);
        // A disk may have been lost while they waited.
        let there =
            |place: &Place| Place::of(place.copies().filter(|copy| self.mirror.disks.is_there(*copy)));
        let mut places: Vec<Place> = waited.iter().filter_map(|place| there(place).present()).collect();
        if self.mirror.disks.is_mirrored() && places.iter().any(|place| place.second == 0) {
            self.mirror.note_missing_copies();
        }
        match self.take_extents(size, count - places.len() as u64, Grow::Yes) {
            Ok(more) => {
                places.extend(more);
                Ok(places)
            }
            Err(error) => {
                let mut extents = self.extents.lock();
                extents.waiting(size).extend(waited);
                extents.promised[size] += covered;
                reserved[size] += covered;
                Err(error)
            }
        }
    }

    /// Gives up the place of a page that no durable or future superblock reaches, and promises another in its stead.
    pub fn release_for_reservation(&self, page: PageEntry) {
        if self.is_extent(page.size) {
            let mut extents = self.extents.lock();
            extents.waiting(page.size).insert(page.place);
            extents.promised[page.size] += 1;
        } else {
            let mut space = self.space.lock();
            space.release(page.place, 1);
            space.reserve(1);
        }
    }

    /// Frees the places of pages that no durable or future superblock reaches.
    pub fn release(&self, pages: impl IntoIterator<Item = PageEntry>) {
        let mut space = self.space.lock();
        pages.into_iter().for_each(|page| space.release(page.place, self.physical_pages(page.size)));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use crate::store::GroupCommit;
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        disk::{Disk, MemDisk, SimDisk},
        env::Rng,
        page::{PageId, PageKind},
        store::{
            PageGuard, PageRead, PageWrite,
            shadow::{Opening, ShadowStore, Young},
        },
        sync::{Arc, thread},
    };

    fn open(disk: &dyn Disk, unit: PageSize) -> Arc<ShadowStore> {
        let how = Opening {
            create: Some(7),
            unit,
            mirrored: false,
            degraded: false,
            pool_bytes: 2 << 20,
            read_only: false,
        };
        Arc::new(ShadowStore::open_on(&[disk], how).unwrap())
    }

    /// Pages by number: their sizes, and what fills them.
    type Pages = BTreeMap<PageId, (PageSize, u8)>;

    fn check(pages: &Pages, store: &impl PageRead) {
        for (id, (size, fill)) in pages {
            let page = store.read(*id).unwrap();
            assert_eq!(page.size(), *size, "page {id}");
            assert!(page.body().iter().all(|byte| byte == fill), "page {id}");
        }
    }

    fn one_of(size: PageSize) -> PageCounts {
        PageCounts::of(size, 1)
    }

    fn add(store: &ShadowStore, pages: &mut Pages, size: PageSize, fill: u8) -> Result<()> {
        let txn = store.begin(one_of(size))?;
        let mut page = txn.allocate(PageKind::Overflow, size)?;
        page.body_mut().fill(fill);
        pages.insert(page.id(), (size, fill));
        Ok(())
    }

    /// Checks that the pages taken are those that the newest superblock reaches and those that wait.
    fn check_accounts(store: &ShadowStore) {
        let mut extents = store.allocator.extents.lock();
        assert_eq!(extents.promised, PageCounts::default(), "nothing is under way");
        let waiting: u64 = PageSize::all()
            .map(|size| extents.waiting(size).len() as u64 * store.allocator.physical_pages(size))
            .sum();
        let standing = match extents.standing {
            0 => 0,
            standing => (standing + KEPT_BLOCKS) * store.allocator.physical_pages(BLOCK),
        };
        assert!(waiting <= standing, "{waiting} wait, {standing} may");
        let space = store.allocator.space.lock();
        assert_eq!(space.taken(), space.reachable() + waiting);
    }

    /// Pages of all sizes come, change and go while the cleaner works and states are pinned.
    #[test]
    fn pages_of_all_sizes_stay_as_they_are() {
        for (seed, unit) in
            [(1, PageSize::MIN), (2, PageSize::DEFAULT), (3, PageSize::from_bytes(2048).unwrap())]
        {
            let disk = MemDisk::new();
            let store = open(&disk, unit);
            store.allocator.space.lock().set_spare_pages_max((16 << 20) / unit.bytes() as u64);
            let mut rng = Rng::from_seed(seed);
            let sizes: Vec<PageSize> = PageSize::all().filter(|size| *size >= unit).collect();
            let mut pages = Pages::new();
            let mut pinned = None;
            let mut cleaned = 0;
            for round in 0..600u32 {
                let fill = round as u8;
                let live: usize = pages.values().map(|(size, _)| size.bytes()).sum();
                for _ in 0..rng.below(12) {
                    let any = (!pages.is_empty())
                        .then(|| *pages.keys().nth(rng.below(pages.len() as u64) as usize).unwrap());
                    match (rng.below(8), any) {
                        (0..3, Some(id)) => {
                            let (size, _) = pages[&id];
                            let txn = store.begin(one_of(size)).unwrap();
                            txn.write(id).unwrap().body_mut().fill(fill);
                            pages.insert(id, (size, fill));
                        }
                        (3..5, Some(id)) => {
                            let txn = store.begin(1).unwrap();
                            let page = txn.write(id).unwrap();
                            txn.free(page).unwrap();
                            pages.remove(&id);
                        }
                        _ if live < 24 << 20 => {
                            // Small ones are more frequent.
                            let most = 1 + rng.below(sizes.len() as u64);
                            add(&store, &mut pages, sizes[rng.below(most) as usize], fill).unwrap();
                        }
                        _ => {}
                    }
                }
                match rng.below(4) {
                    0 => cleaned += u64::from(store.cleaner.move_some(Young::Move).unwrap()),
                    1 => store.flush().unwrap(),
                    2 => {
                        while store.cleaner.wants_cleaning() && store.cleaner.clean_some().unwrap() {
                            cleaned += 1;
                        }
                    }
                    _ => {}
                }
                if round % 60 == 59 {
                    store.flush().unwrap();
                    check(&pages, &*store);
                    let stats = store.stats();
                    let needed = stats.used_pages + stats.held_pages;
                    let constant = (40 << 20) / unit.bytes() as u64;
                    assert!(stats.file_pages <= needed * 3 / 2 + constant, "{stats:?}");
                    let now = (round % 120 == 119).then(|| (store.pin(), pages.clone()));
                    if let Some((superblock, pages)) = std::mem::replace(&mut pinned, now) {
                        check(&pages, &superblock);
                    }
                }
            }
            drop(pinned);
            assert!(cleaned > 10, "{cleaned}");
            store.flush().unwrap();
            check_accounts(&store);
            // Most of it goes, and the file with it.
            let ids: Vec<PageId> = pages.keys().copied().collect();
            for id in ids.into_iter().skip(20) {
                let txn = store.begin(1).unwrap();
                let page = txn.write(id).unwrap();
                txn.free(page).unwrap();
                pages.remove(&id);
            }
            store.flush().unwrap();
            while store.cleaner.clean_some().unwrap() {}
            let stats = store.stats();
            let constant = (17 << 20) / unit.bytes() as u64;
            assert!(stats.file_pages <= stats.used_pages * 3 / 2 + constant, "{stats:?}");
            store.close().unwrap();
            drop(store);
            let store = open(&disk, PageSize::DEFAULT);
            assert_eq!(store.allocator.unit, unit, "it never changes");
            check(&pages, &*store);
            assert_eq!(store.verify(&mut |_, _| ()).unwrap().findings, []);
        }
    }

    /// What a page transaction cannot have fails it alone, leaves nothing behind, and is there for others.
    #[test]
    fn a_full_disk_gives_everything_back() {
        for unit in [PageSize::MIN, PageSize::DEFAULT] {
            let disk = SimDisk::new(1);
            let store = open(&disk, unit);
            let mut pages = Pages::new();
            add(&store, &mut pages, BLOCK, 1).unwrap();
            store.flush().unwrap();
            disk.full_after(Some(6 << 20));
            let mut refused = 0;
            for round in 0..200u8 {
                let size =
                    [PageSize::MAX, BLOCK, PageSize::from_bytes(64 << 10).unwrap()][usize::from(round % 3)];
                let before = store.allocator.space.lock().taken();
                match add(&store, &mut pages, size, round) {
                    Ok(()) => store.flush().unwrap(),
                    Err(Error::DiskFull) => {
                        refused += 1;
                        assert_eq!(store.allocator.space.lock().taken(), before);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(refused > 50 && pages.len() > 10, "{refused} refused, {} there", pages.len());
            check(&pages, &*store);
            check_accounts(&store);
            // What is given back is room for the same again.
            let large = *pages.iter().find(|(_, (size, _))| *size == PageSize::MAX).unwrap().0;
            let txn = store.begin_for(super::super::Purpose::Free, 1).unwrap();
            let page = txn.write(large).unwrap();
            txn.free(page).unwrap();
            drop(txn);
            pages.remove(&large);
            store.flush().unwrap();
            let txn = store.begin_for(super::super::Purpose::Free, one_of(PageSize::MAX)).unwrap();
            txn.allocate(PageKind::Overflow, PageSize::MAX).unwrap();
            drop(txn);
            store.flush().unwrap();
            check(&pages, &*store);
        }
    }

    /// Threads reserve, use some of it, write early and flush; at the end nothing is promised, and nothing is lost.
    #[test]
    fn reservations_of_threads_are_their_own() {
        for unit in [PageSize::MIN, PageSize::DEFAULT] {
            let store = open(&MemDisk::new(), unit);
            let all: Vec<Pages> = thread::scope(|scope| {
                let workers: Vec<_> = (0..4u64)
                    .map(|worker| {
                        let store = &store;
                        scope.spawn(move || {
                            let mut rng = Rng::from_seed(worker);
                            let mut pages = Pages::new();
                            for round in 0..120 {
                                let mut counts = PageCounts::default();
                                let sizes: Vec<PageSize> =
                                    PageSize::all().filter(|size| *size >= unit).collect();
                                let chosen: Vec<PageSize> = (0..1 + rng.below(4))
                                    .map(|_| {
                                        let most = 1 + rng.below(sizes.len() as u64);
                                        sizes[rng.below(most) as usize]
                                    })
                                    .collect();
                                chosen.iter().for_each(|size| counts[*size] += 2);
                                let txn = store.begin(counts).unwrap();
                                for size in chosen {
                                    let mut page = txn.allocate(PageKind::Overflow, size).unwrap();
                                    page.body_mut().fill(round);
                                    pages.insert(page.id(), (size, round));
                                }
                                if let Some((&id, _)) = pages.iter().next().filter(|_| rng.chance(1, 2)) {
                                    let page = txn.write(id).unwrap();
                                    txn.free(page).unwrap();
                                    pages.remove(&id);
                                }
                                drop(txn);
                                if rng.chance(1, 6) {
                                    store.flush().unwrap();
                                }
                            }
                            pages
                        })
                    })
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).collect()
            });
            store.flush().unwrap();
            for pages in &all {
                check(pages, &*store);
            }
            check_accounts(&store);
            assert!(store.stats().activity.early_pages > 0);
        }
    }
}
