//! The space of all disks of a store: what is promised, what is taken, on which disk.
//!
//! Every page goes to one disk, or in a mirrored store to two different ones, which are chosen when it is written
//! ([`Disks::choose`](crate::store::shadow::mirror::disks::Disks::choose)). So space is promised of the disks together.
//! A promise can be kept while the free pages of all, counting of each no more than are promised, are as many as copies
//! are to be written. As soon as space is short, pages are taken from the disks with most of it, which keeps that so.
//!
//! A disk that is lost has no space here: what is given up of it is forgotten.

use std::collections::BTreeMap;

use super::space::{Life, Run, SEGMENT_PAGES, Search, Space, Young};
use crate::{
    page::Page,
    store::shadow::page_table::place::{self, DISK_PAGES_MAX, Place},
    sync::{Line, Mutex},
};

/// The space of a store, which the allocator and the mirror share.
pub type SpaceMap = Line<Mutex<Spaces>>;

/// Bounds of the number of pages of a full file that are kept for page transactions that give pages back: they, too,
/// write before they free.
const KEPT_PAGES: std::ops::RangeInclusive<u64> = 64..=4096;

/// The space of all disks that are there.
pub struct Spaces {
    disks: BTreeMap<usize, Space>,
    mirrored: bool,
    /// Number of physical pages in 4 KiB: the factor of bounds in pages.
    scale: u64,
    /// Pages promised to page transactions and not yet allocated.
    reserved: u64,
    /// Pages promised to every batch.
    standing: u64,
    /// Average number of batches after which a page is written again.
    life_batches: f64,
}

/// A disk whose file should grow: from how many pages to how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    pub disk: usize,
    pub from: u64,
    pub to: u64,
}

impl Spaces {
    /// Returns the space of no disks, with `scale` physical pages in 4 KiB.
    pub fn new(mirrored: bool, scale: u64) -> Spaces {
        Spaces { disks: BTreeMap::new(), mirrored, scale, reserved: 0, standing: 0, life_batches: 0.0 }
    }

    pub fn set_mirrored(&mut self) {
        self.mirrored = true;
        self.share_promises();
    }

    /// Adds a disk.
    pub fn add(&mut self, disk: usize, mut space: Space) {
        space.set_scale(self.scale);
        self.disks.insert(disk, space);
        self.share_promises();
    }

    /// Forgets a disk that is lost.
    pub fn remove(&mut self, disk: usize) {
        self.disks.remove(&disk);
        self.share_promises();
    }

    pub fn disks(&self) -> impl Iterator<Item = (usize, &Space)> {
        self.disks.iter().map(|(disk, space)| (*disk, space))
    }

    pub fn disk_mut(&mut self, disk: usize) -> Option<&mut Space> {
        self.disks.get_mut(&disk)
    }

    fn of(&mut self, physical: u64) -> Option<(&mut Space, u64)> {
        let space = self.disks.get_mut(&place::disk_of(physical))?;
        Some((space, place::page_of(physical)))
    }

    /// Returns the number of copies of a page that are written: two in a mirrored store with a second disk, else one.
    pub fn copies(&self) -> usize {
        if self.mirrored { self.disks.len().clamp(1, 2) } else { 1 }
    }

    pub fn set_fill_max(&mut self, fill_max: f64) {
        self.disks.values_mut().for_each(|space| space.extent.fill_max = fill_max);
    }

    #[cfg(all(test, not(shuttle)))]
    pub fn set_spare_pages_max(&mut self, pages: u64) {
        self.disks.values_mut().for_each(|space| space.extent.spare_pages_max = pages);
    }

    /// Returns the number of pages promised and not yet taken.
    pub fn promised(&self) -> u64 {
        self.reserved + self.standing
    }

    /// Returns the number of pages of all files.
    pub fn file_pages(&self) -> u64 {
        self.disks.values().map(Space::file_end).sum()
    }

    /// Returns the number of pages that the last closed batch's superblock reaches, over all disks.
    pub fn reachable(&self) -> u64 {
        self.disks.values().map(Space::reachable).sum()
    }

    /// Returns the number of pages that may not be handed out.
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.disks.values().map(Space::taken).sum()
    }

    /// Returns the number of segments of all files, and of those that are known to be empty.
    pub fn segments(&self) -> (u64, u64) {
        self.disks
            .values()
            .map(Space::segments)
            .fold((0, 0), |(all, empty), (more, more_empty)| (all + more, empty + more_empty))
    }

    /// Returns the numbers of the bitmaps of all files.
    pub fn bitmaps(&self) -> Vec<u64> {
        let of_disk = |(disk, space): (usize, &Space)| {
            let chunks = 0..space.chunk_count();
            chunks.map(move |chunk| place::bitmap(disk, chunk)).collect::<Vec<u64>>()
        };
        self.disks().flat_map(of_disk).collect()
    }

    /// Returns the number of chunks of all files.
    pub fn chunk_count(&self) -> u64 {
        self.disks.values().map(Space::chunk_count).sum()
    }

    /// True if a bitmap is in memory, or its disk is not there any more.
    pub fn is_loaded(&self, bitmap: u64) -> bool {
        let (disk, chunk) = place::chunk_of(bitmap);
        self.disks.get(&disk).is_none_or(|space| space.is_loaded(chunk))
    }

    /// Returns a bitmap that is not in memory, if there is one.
    pub fn unloaded(&self) -> Option<u64> {
        self.disks().find_map(|(disk, space)| Some(place::bitmap(disk, space.unloaded_chunk()?)))
    }

    /// Adds a bitmap as stored; none if it was never stored.
    pub fn load(&mut self, bitmap: u64, stored: Option<&Page>) {
        let (disk, chunk) = place::chunk_of(bitmap);
        if let Some(space) = self.disks.get_mut(&disk) {
            space.load(chunk, stored);
            if chunk == 0 && stored.is_none() {
                space.mark_superblocks();
            }
        }
    }

    /// Returns a bitmap as it is to be stored; none if its disk is lost.
    pub fn bitmap(&self, bitmap: u64) -> Option<Page> {
        let (disk, chunk) = place::chunk_of(bitmap);
        Some(self.disks.get(&disk)?.bitmap(chunk))
    }
}

/// Methods that make and keep promises of space.
impl Spaces {
    /// Promises `pages` pages to every batch, beside what its page transactions reserve.
    pub fn set_standing(&mut self, pages: u64) {
        self.standing = pages;
        self.share_promises();
    }

    /// Tells each disk its share of the promised pages.
    fn share_promises(&mut self) {
        let copies = self.copies() as u64;
        let promised = self.promised();
        let count = self.disks.len() as u64;
        for space in self.disks.values_mut() {
            space.set_promised((promised * copies).div_ceil(count));
        }
    }

    /// True if all promises, and `pages` more pages, can be kept, as long as pages are taken from the disks with most
    /// space.
    pub fn has_spare(&self, pages: u64) -> bool {
        self.missing(pages) == 0
    }

    /// Returns how many copies of the promised pages, and of `pages` more, find no room.
    fn missing(&self, pages: u64) -> u64 {
        let promised = self.promised() + pages;
        let room: u64 = self.disks.values().map(|space| space.free().min(promised)).sum();
        (promised * self.copies() as u64).saturating_sub(room)
    }

    /// Promises `pages` pages. True if a file should grow for that: the caller sees to it, and if that fails and
    /// [`Spaces::has_spare`] does not hold for the pages kept, calls [`Spaces::unreserve`].
    pub fn reserve(&mut self, pages: u64) -> bool {
        self.reserved += pages;
        self.share_promises();
        self.disks.values().any(|space| space.end_wanted() > space.end())
    }

    /// Promises `pages` pages if that needs no growth and leaves the pages that are kept.
    pub fn reserve_spare(&mut self, pages: u64) -> bool {
        let spare = self.has_spare(pages + self.kept());
        if spare {
            self.reserved += pages;
            self.share_promises();
        }
        spare
    }

    pub fn unreserve(&mut self, pages: u64) {
        self.reserved -= pages;
        self.share_promises();
    }

    /// Returns the number of pages of files that cannot grow which only a page transaction that gives pages back may
    /// use.
    pub fn kept(&self) -> u64 {
        let end: u64 = self.disks.values().map(Space::end).sum();
        (end / self.copies() as u64 / 32)
            .clamp(KEPT_PAGES.start() * self.scale, KEPT_PAGES.end() * self.scale)
    }

    /// Returns the files that should grow for what is promised.
    pub fn growths(&self) -> Vec<Growth> {
        let wanted = self.disks().map(|(disk, space)| (disk, space, space.end_wanted()));
        wanted
            .filter(|(_, space, wanted)| *wanted > space.end())
            .map(|(disk, space, wanted)| growth(disk, space, wanted))
            .collect()
    }

    /// Returns the files that could grow instead of those that are `full`, if there is still too little space.
    pub fn growths_instead(&self, full: &[usize]) -> Vec<Growth> {
        let missing = self.missing(0);
        let others = self.disks().filter(|(disk, _)| missing > 0 && !full.contains(disk));
        others.map(|(disk, space)| growth(disk, space, space.end() + missing)).collect()
    }
}

fn growth(disk: usize, space: &Space, to: u64) -> Growth {
    // Where the file has not been cut yet there is nothing to be done.
    Growth { disk, from: space.file_end(), to: to.next_multiple_of(SEGMENT_PAGES).min(DISK_PAGES_MAX) }
}

/// Pages.
impl Spaces {
    /// Returns the life expectancy of a page that was written before `batches` batches, from how long others lasted.
    pub fn life(&mut self, batches: u64) -> Life {
        /// A page that lasted so many times longer than the average lives long.
        const LONG: f64 = 4.0;
        /// So many pages back the average reaches.
        const WINDOW_PAGES: f64 = 1024.0;
        let batches = batches as f64;
        let life = if batches > LONG * self.life_batches { Life::Long } else { Life::Short };
        self.life_batches += (batches - self.life_batches) / WINDOW_PAGES;
        life
    }

    /// Takes at most `pages` pages of a disk in one run. What [`Search::Load`] asks for is a bitmap's logical number.
    pub fn take_run(&mut self, disk: usize, pages: u64, life: Life) -> Search {
        let Some(space) = self.disks.get_mut(&disk) else { return Search::Nothing };
        match space.take_run(pages, life) {
            Search::Found(run) => Search::Found(Run { start: place::physical(disk, run.start), ..run }),
            Search::Load(chunk) => Search::Load(place::bitmap(disk, chunk)),
            Search::Nothing => Search::Nothing,
        }
    }

    /// Takes an extent of `pages` pages of a disk, a power of two. As [`Spaces::take_run`].
    pub fn take_extent(&mut self, disk: usize, pages: u64) -> Search {
        let Some(space) = self.disks.get_mut(&disk) else { return Search::Nothing };
        match space.take_extent(pages) {
            Search::Found(run) => Search::Found(Run { start: place::physical(disk, run.start), ..run }),
            Search::Load(chunk) => Search::Load(place::bitmap(disk, chunk)),
            Search::Nothing => Search::Nothing,
        }
    }

    /// Returns the growth of a file that makes room for an extent; none if it cannot be that long.
    pub fn growth_for_extent(&self, disk: usize, pages: u64) -> Option<Growth> {
        let space = self.disks.get(&disk)?;
        let to = space.end_with_extent(pages);
        (to < DISK_PAGES_MAX).then_some(Growth { disk, from: space.file_end(), to })
    }

    /// Notes that the superblock of the batch being built reaches `pages` pages from one on; gives their bitmap.
    pub fn reach(&mut self, physical: u64, pages: u64) -> Option<u64> {
        let (space, page) = self.of(physical)?;
        (page..page + pages).for_each(|page| space.reach(page));
        Some(place::bitmap_of(physical))
    }

    /// Notes that the superblock of the batch being built does not reach `pages` pages from one on any more; gives
    /// their bitmap. They stay taken until [`Spaces::release`].
    pub fn abandon(&mut self, physical: u64, pages: u64) -> Option<u64> {
        let (space, page) = self.of(physical)?;
        (page..page + pages).for_each(|page| space.abandon(page));
        Some(place::bitmap_of(physical))
    }

    /// Frees `pages` taken pages from each copy of a place on, which no durable or future superblock reaches.
    pub fn release(&mut self, place: Place, pages: u64) {
        for copy in place.copies() {
            if let Some((space, start)) = self.of(copy) {
                space.release_run(Run { start, len: pages });
            }
        }
    }

    /// As [`Space::release_unused`], of each disk.
    pub fn release_unused(&mut self, places: &[Place], pages: u64) {
        let mut starts: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for copy in places.iter().flat_map(|place| place.copies()) {
            starts.entry(place::disk_of(copy)).or_default().push(place::page_of(copy));
        }
        for (disk, starts) in starts {
            if let Some(space) = self.disks.get_mut(&disk) {
                space.release_unused(&starts, pages);
            }
        }
    }

    /// Takes one given page, of a loaded chunk, if it is free.
    pub fn take(&mut self, physical: u64) -> bool {
        self.of(physical).is_some_and(|(space, page)| space.take(page))
    }
}

/// Methods for the cleaner.
impl Spaces {
    pub fn wants_cleaning(&self) -> bool {
        self.disks.values().any(Space::wants_cleaning)
    }

    pub fn wants_more_cleaning(&self) -> bool {
        self.disks.values().any(Space::wants_more_cleaning)
    }

    pub fn is_too_long(&self) -> bool {
        self.disks.values().any(Space::is_too_long)
    }

    pub fn begin_shrinking(&mut self) {
        self.disks.values_mut().for_each(Space::begin_shrinking);
    }

    /// As [`Space::progress`], of all disks.
    pub fn progress(&self) -> (u64, std::cmp::Reverse<u64>) {
        self.disks.values().map(Space::progress).fold((0, std::cmp::Reverse(0)), |(ready, beyond), more| {
            (ready + more.0, std::cmp::Reverse(beyond.0 + more.1.0))
        })
    }

    /// As [`Space::leave_room`], on each disk; false if no file is to be shortened.
    pub fn leave_room(&mut self, pages: u64) -> bool {
        self.disks.values_mut().fold(false, |any, space| space.leave_room(pages) | any)
    }

    /// True if a physical page lies where its file is to be cut.
    pub fn is_beyond(&self, physical: u64) -> bool {
        self.disks.get(&place::disk_of(physical)).is_some_and(|space| place::page_of(physical) >= space.end())
    }

    /// Returns the number of pages of the file of a disk.
    pub fn file_end(&self, disk: usize) -> u64 {
        self.disks.get(&disk).map_or(0, Space::file_end)
    }

    /// Returns the disks whose files can be cut.
    pub fn can_be_cut(&self) -> Vec<usize> {
        self.disks().filter(|(_, space)| space.can_be_cut()).map(|(disk, _)| disk).collect()
    }

    /// Returns the first pages of the segments that are best to clean, at most `pages_max` pages altogether, but at
    /// least a segment for each disk.
    pub fn victims(&mut self, pages_max: u64, young: Young) -> Vec<u64> {
        let each = (pages_max / self.disks.len().max(1) as u64).max(SEGMENT_PAGES);
        self.disks
            .iter_mut()
            .flat_map(|(&disk, space)| {
                let segments = space.victims(each, young).into_iter();
                segments.map(move |segment| place::physical(disk, segment * SEGMENT_PAGES))
            })
            .collect()
    }

    /// Returns the pages that the last closed batch's superblock reaches of the segment that begins at `first`.
    pub fn live(&self, first: u64) -> Vec<u64> {
        let disk = place::disk_of(first);
        let Some(space) = self.disks.get(&disk) else { return Vec::new() };
        let live = space.live(place::page_of(first) / SEGMENT_PAGES);
        live.into_iter().map(|page| place::physical(disk, page)).collect()
    }

    /// Marks the segment that begins at `first` as one that cannot be cleaned.
    pub fn leave(&mut self, first: u64) {
        if let Some((space, page)) = self.of(first) {
            space.leave(page / SEGMENT_PAGES);
        }
    }
}
