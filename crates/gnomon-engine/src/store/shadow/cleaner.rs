//! The cleaner: keeps segments empty, and the file short, by moving the pages that live in them (Shadows, section 2.1).
//!
//! A step takes the segments that gain most ([`Space::victims`](allocator::space::Space::victims)), reads them, and
//! copies their data pages unchanged, with the batch number that they carry, to segments for long-lived pages; nodes of
//! the page table and bitmaps are written anew by any batch, and need no copy. The copies are synced. Only then the
//! moves join the next commit batch: it points the page table to the copies, and what was moved is free when that batch
//! is durable. A page that was changed or freed meanwhile has moved by itself, and its copy is free space again.
//!
//! So a commit waits for no copy, a crash finds each page at its old place or its new one, and a page's batch number
//! stays the time of its last change.
//!
//! While a state is pinned ([`snapshots`](super::snapshots)) nothing is moved: it would take twice the space until the
//! state is let go.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    allocator::{
        self, Allocator, Grow, Purpose,
        space::{Life, SEGMENT_PAGES, Young},
    },
    batcher::{Batcher, Move},
    mirror::Mirror,
    page_table::{
        PageTable,
        node::{BLOCK, PageEntry},
        place::{self, CHUNK_PAGES, Place, is_bitmap},
    },
    snapshots::Snapshots,
    superblock::Superblock,
};
use crate::{
    Csn, Error, Result,
    failpoint::Failpoint,
    page::{Identity, Page, PageCounts, PageSize, pool::PoolKey},
    store::GroupCommit,
    sync::Arc,
};

/// Bytes that are moved in a step at most, about: the batch that they join takes longer by that.
const STEP_BYTES: usize = 2 << 20;

/// The contents of a segment.
struct Found {
    /// Data pages: logical number, entry, the copy that is in the segment, and its block.
    data: Vec<(u64, PageEntry, u64, Vec<u8>)>,
    /// Objects that a batch rewrites: nodes, and bitmaps as their logical pages.
    rewritten: Vec<PoolKey>,
    /// Places of the pages that were found. A page of several segments is found in each.
    seen: BTreeSet<u64>,
}

/// A copy of a page, as it was found.
struct FoundCopy {
    copy: u64,
    size: PageSize,
    owner: Identity,
    block: Vec<u8>,
}

/// The cleaner of a store.
pub struct Cleaner {
    mirror: Arc<Mirror>,
    table: Arc<PageTable>,
    allocator: Arc<Allocator>,
    snapshots: Arc<Snapshots>,
    batcher: Arc<Batcher>,
}

impl Cleaner {
    pub fn new(batcher: &Arc<Batcher>) -> Cleaner {
        Cleaner {
            mirror: batcher.mirror.clone(),
            table: batcher.table.clone(),
            allocator: batcher.allocator.clone(),
            snapshots: batcher.snapshots.clone(),
            batcher: batcher.clone(),
        }
    }

    /// True if the cleaner has something to do.
    pub fn wants_cleaning(&self) -> bool {
        self.allocator.wants_cleaning()
    }

    /// Does one step of cleaning, and makes it durable. True if there is more to do.
    pub fn clean_some(&self) -> Result<bool> {
        self.allocator.load_bitmaps()?;
        let is_pinned = self.snapshots.is_pinned();
        let before = {
            let mut space = self.allocator.space.lock();
            if !is_pinned {
                space.begin_shrinking();
            }
            space.progress()
        };
        let moved = self.move_some(Young::Leave)?;
        if moved {
            self.batcher.flush()?;
        }
        let cut = self.cut_file()?;
        let space = self.allocator.space.lock();
        // If pages were only moved about, going on is of no use.
        let (ready, beyond) = space.progress();
        let progressed = moved && (ready > before.0 || beyond > before.1);
        let wanted = (progressed || cut) && space.wants_more_cleaning();
        drop(space);
        self.allocator.set_wants_cleaning(wanted);
        Ok(wanted)
    }

    /// Copies the contents of some segments, and moves them with the next batch. False if nothing can be moved.
    pub fn move_some(&self, young: Young) -> Result<bool> {
        self.batcher.commits.check()?;
        if self.batcher.has_moves() {
            return Ok(true);
        }
        if self.snapshots.is_pinned() {
            // The old place of a moved page would be held, too.
            return Ok(false);
        }
        self.allocator.load_bitmaps()?;
        let victims = {
            let mut space = self.allocator.space.lock();
            space.begin_shrinking();
            // In a small file copies count, too.
            let step_pages = (STEP_BYTES / self.allocator.unit.bytes()) as u64;
            let pages_max = (space.reachable() / 16).clamp(SEGMENT_PAGES, step_pages);
            space.victims(pages_max, young)
        };
        self.allocator.move_waiting()?;
        let mut found = Found { data: Vec::new(), rewritten: Vec::new(), seen: BTreeSet::new() };
        for first in victims {
            self.find_live(first, &mut found)?;
        }
        // Space that is lost with its disk meanwhile is no matter: these pages are repaired like all others.
        let (mut objects, mut extents) =
            (PageCounts::of(BLOCK, found.rewritten.len() as u64), PageCounts::default());
        for (_, entry, ..) in &found.data {
            objects[entry.size] += 1;
            // Each is taken where it is to be, on the disk that its copy is on, and not reserved.
            extents[entry.size] += u64::from(self.allocator.is_extent(entry.size));
        }
        if objects.pages() == 0 {
            return Ok(false);
        }
        let all = allocator::pages_written(&objects, self.table.logical_end());
        let physical = self.allocator.physical_pages_of(&all);
        let mut reserved = all.beyond(&extents);
        let mut has_room = self.allocator.space.lock().reserve_spare(physical);
        if has_room {
            self.allocator.space.lock().unreserve(self.allocator.physical_pages_of(&extents));
            match self.allocator.reserve_extents(Purpose::Use, &reserved, Grow::No) {
                Err(Error::DiskFull) => has_room = false,
                done => done?,
            }
        }
        let moved = match has_room {
            true => self
                .copy_live(&found.data, &mut reserved)
                .inspect_err(|_| self.allocator.unreserve(&reserved))?,
            false => Vec::new(),
        };
        if !has_room || moved.is_empty() && found.rewritten.is_empty() {
            if has_room {
                self.allocator.unreserve(&reserved);
            }
            let again = self.allocator.space.lock().leave_room(physical);
            return if again { self.move_some(young) } else { Ok(false) };
        }
        self.batcher.join(moved, found.rewritten, reserved);
        Ok(true)
    }

    /// Copies the live pages of segments to others of the same disk, durably.
    fn copy_live(
        &self,
        data: &[(u64, PageEntry, u64, Vec<u8>)],
        reserved: &mut PageCounts,
    ) -> Result<Vec<Move>> {
        let mut moves: BTreeMap<u64, Move> = BTreeMap::new();
        let mut blocks = Vec::with_capacity(data.len());
        // The pages of a disk follow each other in `data`. By size, so that each size gets its places together.
        let mut data: Vec<&(u64, PageEntry, u64, Vec<u8>)> = data.iter().collect();
        data.sort_by_key(|(_, entry, copy, _)| (place::disk_of(*copy), entry.size));
        for (logical, entry, copy, block) in data {
            let moved = moves.entry(*logical).or_insert(Move { logical: *logical, from: *entry, to: *entry });
            if moved.from != *entry {
                // It was written anew between the looks at its copies.
                continue;
            }
            let to = self.allocator.take_copy_on(place::disk_of(*copy), entry.size, Life::Long, Grow::No)?;
            let Some(to) = to else { continue };
            self.allocator.use_reserved(entry.size, 1, reserved);
            moved.to.place = moved.to.place.moved(*copy, to);
            blocks.push((Place::single(to), entry.size, |target: &mut [u8]| target.copy_from_slice(block)));
        }
        self.batcher.write_copies(&blocks)?;
        Ok(moves.into_values().filter(|moved| moved.to != moved.from).collect())
    }

    /// Cuts the file if it is much too long and that needs no moving. For closing: a program that loads much and ends
    /// leaves no time for the cleaner.
    pub fn trim(&self) -> Result<()> {
        if self.allocator.space.lock().is_too_long() {
            self.allocator.load_bitmaps()?;
            self.allocator.space.lock().begin_shrinking();
            self.cut_file()?;
        }
        Ok(())
    }

    /// Reads the segment that begins at `first`, and finds the objects in it that the newest superblock reaches.
    fn find_live(&self, first: u64, found: &mut Found) -> Result<()> {
        let live = self.allocator.space.lock().live(first);
        let Some(last) = live.last() else { return Ok(()) };
        let unit = self.allocator.unit.bytes();
        let mut blocks = vec![0; (last - first + 1) as usize * unit];
        if let Err(error) = self.mirror.read_block(first, &mut blocks) {
            if self.mirror.disks.is_mirrored() {
                self.allocator.space.lock().leave(first);
                return Ok(());
            }
            return Err(error);
        }
        // Physical pages before this one belong to pages that were found.
        let mut next = first;
        for physical in live {
            if physical < next {
                continue;
            }
            let begin = &blocks[(physical - first) as usize * unit..];
            let page = match self.page_at(physical, begin)? {
                None if physical == first => self.page_into(first)?,
                page => page,
            };
            let Some(FoundCopy { copy, size, owner, block }) = page else {
                let mut space = self.allocator.space.lock();
                // Otherwise it was given up since, and is being written over.
                if space.live(first).contains(&physical) {
                    // The reader that needs it reports the damage.
                    space.leave(first);
                }
                continue;
            };
            next = copy + self.allocator.physical_pages(size);
            if !found.seen.insert(copy) {
                continue;
            }
            let entry = self.table.entry(owner.level, owner.logical)?;
            let is_here = |entry: &PageEntry| entry.place.has(copy) && entry.size == size;
            // A page of an earlier time, which was here before the one that belongs here.
            let fits =
                |entry: &PageEntry| owner.fits(&self.mirror.identity_of(owner.level, owner.logical, *entry));
            let Some(entry) = entry.filter(is_here).filter(fits) else { continue };
            match owner.level {
                0 if !is_bitmap(owner.logical) => found.data.push((owner.logical, entry, copy, block)),
                level => found.rewritten.push(PoolKey { level, index: owner.logical }),
            }
        }
        Ok(())
    }

    /// Returns the whole page of this database that begins at a physical page, if one does; `begin` is read already.
    fn page_at(&self, copy: u64, begin: &[u8]) -> Result<Option<FoundCopy>> {
        let Some(size) = Page::size_told(begin) else { return Ok(None) };
        let (pages, page) = (self.allocator.physical_pages(size), place::page_of(copy));
        let offset = page % CHUNK_PAGES;
        if !offset.is_multiple_of(pages)
            || offset + pages > CHUNK_PAGES
            || page + pages > self.allocator.space.lock().file_end(place::disk_of(copy))
        {
            return Ok(None);
        }
        let block = match begin.get(..size.bytes()) {
            Some(block) => block.to_vec(),
            None => {
                let mut block = vec![0; size.bytes()];
                self.mirror.read_block(copy, &mut block)?;
                block
            }
        };
        let owner = Page::check(&block).ok().map(|(_, identity)| identity);
        let owner = owner.filter(|owner| owner.database == self.mirror.database);
        Ok(owner.map(|owner| FoundCopy { copy, size, owner, block }))
    }

    /// Returns the page that reaches into the segment that begins at `first` from one before it.
    fn page_into(&self, first: u64) -> Result<Option<FoundCopy>> {
        let offset = place::page_of(first) % CHUNK_PAGES;
        let most = self.allocator.physical_pages(PageSize::MAX);
        let mut pages = 2 * SEGMENT_PAGES;
        while pages <= most {
            let before = offset % pages;
            if before > 0 {
                let mut begin = vec![0; self.allocator.unit.bytes()];
                self.mirror.read_block(first - before, &mut begin)?;
                let page = self.page_at(first - before, &begin)?;
                if let Some(page) = page.filter(|page| self.allocator.physical_pages(page.size) == pages) {
                    return Ok(Some(page));
                }
            }
            pages *= 2;
        }
        Ok(None)
    }

    /// Cuts the files whose end was lowered and that have nothing left beyond.
    fn cut_file(&self) -> Result<bool> {
        let disks = self.allocator.space.lock().can_be_cut();
        if disks.is_empty() {
            return Ok(false);
        }
        self.batcher.flush()?;
        self.batcher.lead_next(|_| self.write_superblock_and_cut())?;
        let mut space = self.allocator.space.lock();
        Ok(disks.iter().all(|disk| space.disk_mut(*disk).is_none_or(|space| space.end() == space.file_end())))
    }

    /// Writes the superblock, then cuts the files: a file must never be shorter than the newest superblock says.
    fn write_superblock_and_cut(&self) -> Result<Csn> {
        let _growing = self.allocator.growing.lock();
        // They may have grown again meanwhile.
        let disks = self.allocator.space.lock().can_be_cut();
        let superblock = self.table.superblock();
        if disks.is_empty() {
            return Ok(superblock.csn);
        }
        if !self.batcher.skip_number() {
            return Ok(superblock.csn);
        }
        let mut ends = Vec::new();
        for &disk in &disks {
            if let Some(space) = self.allocator.space.lock().disk_mut(disk) {
                ends.push((disk, space.end() * self.allocator.unit.bytes() as u64));
                space.cut();
            }
        }
        let cut = || -> Result<()> {
            for &(disk, end) in &ends {
                if let Some(Err(error)) =
                    self.mirror.disks.member(disk).map(|member| member.file.truncate(end))
                {
                    self.mirror.lose(disk, error)?;
                }
            }
            Ok(())
        };
        if self.batcher.failpoints.is_on(Failpoint::CutBeforeSuperblock) {
            cut()?;
        }
        self.batcher
            .write_superblock_alone(Superblock { batch: superblock.batch + 1, ..superblock })
            .and_then(|()| self.batcher.record_losses())
            .and_then(|()| cut())
            .map_err(|error| self.batcher.commits.poison(&error))?;
        Ok(superblock.csn)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        disk::{Disk, MemDisk, SimDisk},
        env::Rng,
        page::{PAGE_BYTES, PageId, PageKind},
        store::{
            PageGuard, PageRead, PageWrite,
            shadow::{FILE, ShadowStore},
        },
        sync::Arc,
    };

    /// A store and what its pages should hold.
    struct World {
        store: Arc<ShadowStore>,
        pages: BTreeMap<PageId, u64>,
    }

    impl World {
        fn new(disk: &dyn Disk, planted: Option<Failpoint>) -> Result<World> {
            let store = ShadowStore::open(disk, Some(7), 1 << 20, false)?;
            store.failpoints.turn_on(planted);
            store.allocator.space.lock().set_spare_pages_max(256);
            Ok(World { store: Arc::new(store), pages: BTreeMap::new() })
        }

        fn add(&mut self, value: u64) -> Result<()> {
            let pages = self.store.begin(1)?;
            let mut page = pages.allocate(PageKind::TreeLeaf, PageSize::DEFAULT)?;
            page.body_mut()[..8].copy_from_slice(&value.to_le_bytes());
            self.pages.insert(page.id(), value);
            Ok(())
        }

        fn change(&mut self, id: PageId, value: u64) -> Result<()> {
            let pages = self.store.begin(1)?;
            pages.write(id)?.body_mut()[..8].copy_from_slice(&value.to_le_bytes());
            self.pages.insert(id, value);
            Ok(())
        }

        fn free(&mut self, id: PageId) -> Result<()> {
            let pages = self.store.begin(1)?;
            let page = pages.write(id)?;
            pages.free(page)?;
            self.pages.remove(&id);
            Ok(())
        }

        fn any(&self, rng: &mut Rng) -> PageId {
            *self.pages.keys().nth(rng.below(self.pages.len() as u64) as usize).expect("some are left")
        }
    }

    fn check(store: &impl PageRead, pages: &BTreeMap<PageId, u64>) -> Result<(), String> {
        for (id, value) in pages {
            let page = store.read(*id).map_err(|error| format!("page {id}: {error}"))?;
            if page.body()[..8] != value.to_le_bytes() {
                return Err(format!("page {id} is not {value}"));
            }
        }
        Ok(())
    }

    /// True if a crash left every page.
    fn check_image(image: &SimDisk, pages: &BTreeMap<PageId, u64>) -> Result<(), String> {
        let store =
            ShadowStore::open(image, None, 1 << 20, false).map_err(|error| format!("not opened: {error}"))?;
        check(&store, pages)?;
        let found = store.verify(&mut |_, _| ()).map_err(|error| format!("not verified: {error}"))?.findings;
        match found.iter().find(|found| found.severity != super::super::Severity::Trace) {
            Some(found) => Err(format!("{found:?}")),
            None => Ok(()),
        }
    }

    /// Pages come, change and go at random while the cleaner works and states are pinned: all stay as they are, runs
    /// stay long, and the file stays short.
    #[test]
    fn cleaning_changes_nothing_and_bounds_the_file() {
        let disk = MemDisk::new();
        let mut rng = Rng::from_seed(5);
        let mut world = World::new(&disk, None).unwrap();
        let mut pinned = None;
        for number in 0..6000 {
            world.add(number).unwrap();
        }
        world.store.flush().unwrap();
        let mut cleaned = 0;
        for round in 0..800 {
            for _ in 0..rng.below(25) {
                let id = world.any(&mut rng);
                match rng.below(20) {
                    0 => world.add(round).unwrap(),
                    1 => world.free(id).unwrap(),
                    _ => world.change(id, round).unwrap(),
                }
            }
            // Half of the moves meet changes of the same batch.
            match rng.below(4) {
                0 => cleaned += u64::from(world.store.cleaner.move_some(Young::Move).unwrap()),
                1 => world.store.flush().unwrap(),
                _ => {
                    while world.store.cleaner.wants_cleaning() && world.store.cleaner.clean_some().unwrap() {
                        cleaned += 1;
                    }
                }
            }
            if round % 50 == 49 {
                world.store.flush().unwrap();
                check(&*world.store, &world.pages).unwrap();
                // What is under way takes space, too.
                let stats = world.store.stats();
                let needed = stats.used_pages + stats.held_pages;
                assert!(stats.file_pages <= needed * 3 / 2 + 2048, "{stats:?}");
                let now = (round % 100 == 99).then(|| (world.store.pin(), world.pages.clone()));
                if let Some((superblock, pages)) = std::mem::replace(&mut pinned, now) {
                    check(&superblock, &pages).unwrap();
                }
            }
        }
        assert!(cleaned > 40, "{cleaned}");
        drop(pinned);
        // Most of it goes.
        while world.pages.len() > 300 {
            let id = world.any(&mut rng);
            world.free(id).unwrap();
        }
        world.store.flush().unwrap();
        while world.store.cleaner.clean_some().unwrap() {}
        let stats = world.store.stats();
        assert!(stats.file_pages <= stats.used_pages * 3 / 2 + 256 + 3 * SEGMENT_PAGES, "{stats:?}");
        world.store.close().unwrap();
        let len = disk.open(FILE, false).unwrap().len().unwrap();
        assert_eq!(len, stats.file_pages * PAGE_BYTES as u64);
        let store = ShadowStore::open(&disk, None, 1 << 20, true).unwrap();
        check(&store, &world.pages).unwrap();
        let report = store.verify(&mut |_, _| ()).unwrap();
        assert_eq!(report.findings, []);
        store.allocator.load_bitmap(0).unwrap();
        assert_eq!((stats.segments.0, report.segments_empty), store.allocator.space.lock().segments());
    }

    /// Repair may copy a page that the cleaner has copied and no batch has moved yet.
    #[test]
    fn a_page_that_is_moved_twice_is_moved_once() {
        let disk = MemDisk::new();
        let mut world = World::new(&disk, None).unwrap();
        (0..300).for_each(|number| world.add(number).unwrap());
        world.store.flush().unwrap();
        let mut found = Found { data: Vec::new(), rewritten: Vec::new(), seen: BTreeSet::new() };
        world.store.cleaner.find_live(SEGMENT_PAGES, &mut found).unwrap();
        assert!(found.data.len() > 50, "{}", found.data.len());
        for _ in 0..2 {
            let moves = world.store.cleaner.copy_live(&found.data, &mut PageCounts::default()).unwrap();
            world.store.batcher.join(moves, Vec::new(), PageCounts::default());
        }
        world.store.flush().unwrap();
        check(&*world.store, &world.pages).unwrap();
        let space = world.store.allocator.space.lock();
        assert_eq!(space.taken(), space.reachable(), "nothing is out of reach and not free");
    }

    /// What was only reserved leaves nothing to move.
    #[test]
    fn a_file_that_is_empty_at_its_end_is_cut_at_once() {
        let disk = MemDisk::new();
        let mut world = World::new(&disk, None).unwrap();
        drop(world.store.begin(20_000).unwrap());
        world.add(1).unwrap();
        world.store.flush().unwrap();
        let before = world.store.stats().file_pages;
        assert!(before > 20_000 && world.store.cleaner.wants_cleaning());
        world.store.cleaner.clean_some().unwrap();
        let after = world.store.stats();
        assert!(after.file_pages < 600 && after.activity.moved_pages == 0, "{before} {after:?}");
        // Closing does the same, and opening sees what is left to be done.
        drop(world.store.begin(20_000).unwrap());
        world.add(1).unwrap();
        world.store.close().unwrap();
        assert!(world.store.stats().file_pages < 600);
        drop(world.store.begin(20_000).unwrap());
        drop(world);
        let store = ShadowStore::open(&disk, None, 1 << 20, false).unwrap();
        assert!(store.cleaner.wants_cleaning());
    }

    /// Runs until the file has been cut, or the disk crashes. Returns what is durable for sure.
    fn shrink(disk: &SimDisk, planted: Option<Failpoint>) -> Option<BTreeMap<PageId, u64>> {
        let mut world = World::new(disk, planted).ok()?;
        for number in 0..1000 {
            world.add(number).ok()?;
        }
        world.store.flush().ok()?;
        let all: Vec<PageId> = world.pages.keys().copied().collect();
        for id in all.into_iter().filter(|id| id.0 % 10 != 0) {
            world.free(id).ok()?;
        }
        world.store.flush().ok()?;
        let _ = (|| {
            while world.store.cleaner.clean_some()? {}
            world.store.close()
        })();
        Some(world.pages)
    }

    /// The first crash image of shrinking that is not what it should be.
    fn first_bad_image(planted: Option<Failpoint>) -> Option<String> {
        let whole = SimDisk::new(1);
        let pages = shrink(&whole, planted).expect("nothing fails");
        let events = whole.events();
        let len = whole.open(FILE, false).unwrap().len().unwrap();
        assert!(len < 700 * PAGE_BYTES as u64, "the file was cut: {len}");
        for event in 0..events {
            let disk = SimDisk::new(1);
            disk.crash_at(event);
            let Some(acknowledged) = shrink(&disk, planted) else { continue };
            assert_eq!(acknowledged, pages);
            for image in disk.crash_images(3) {
                if let Err(wrong) = check_image(&image, &pages) {
                    return Some(format!("crash at event {event} of {events}: {wrong}"));
                }
            }
        }
        None
    }

    #[test]
    fn a_crash_while_the_file_is_cut_loses_nothing() {
        assert_eq!(first_bad_image(None), None);
        let caught = first_bad_image(Some(Failpoint::CutBeforeSuperblock)).expect("a planted bug is caught");
        println!("{caught}");
    }
}
