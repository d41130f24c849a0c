//! The space of all disks of a store: what is promised, what is taken, on which disk.
//!
//! Every page goes to one disk, or in a mirrored store to two different ones; which, is decided when it is written
//! ([`Disks::choose`](super::disks::Disks::choose)). So what is promised is promised of the disks together: it can be
//! kept while the free pages of all, counting of each no more than are promised, are as many as copies are to be
//! written. Whoever takes space takes from those with most of it as soon as it is short, which keeps that so.
//!
//! A disk that is lost has no space here: what is given up of it is forgotten.

use std::collections::BTreeMap;

use super::{
    place::{self, DISK_PAGES_MAX, Place},
    space::{Life, Run, SEGMENT_PAGES, Search, Space, Young},
};
use crate::page::Page;

/// So much of a full file is kept for page transactions that give pages back: they, too, write before they free.
const KEPT_PAGES: std::ops::RangeInclusive<u64> = 64..=4096;

/// The space of all disks that are there.
pub(crate) struct Spaces {
    disks: BTreeMap<usize, Space>,
    mirrored: bool,
    /// Physical pages of 4 KiB: what bounds in pages are multiplied with.
    scale: u64,
    /// Pages promised to page transactions and not yet allocated.
    reserved: u64,
    /// Pages promised to every batch.
    standing: u64,
    /// After how many batches a page that is written was written before, on average.
    life_batches: f64,
}

/// A disk whose file should grow: from how many pages to how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    pub disk: usize,
    pub from: u64,
    pub to: u64,
}

impl Spaces {
    /// No disks, on which so many physical pages have 4 KiB.
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

    /// How many copies of a page are written, as many disks as there are.
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

    /// Pages promised and not yet taken.
    pub fn promised(&self) -> u64 {
        self.reserved + self.standing
    }

    /// Pages of all files.
    pub fn file_pages(&self) -> u64 {
        self.disks.values().map(Space::file_end).sum()
    }

    /// Pages that the last closed batch's root reaches, over all disks.
    pub fn reachable(&self) -> u64 {
        self.disks.values().map(Space::reachable).sum()
    }

    /// Pages that may not be handed out.
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.disks.values().map(Space::taken).sum()
    }

    /// Segments of all files, and how many of them are known to be empty.
    pub fn segments(&self) -> (u64, u64) {
        self.disks
            .values()
            .map(Space::segments)
            .fold((0, 0), |(all, empty), (more, more_empty)| (all + more, empty + more_empty))
    }

    /// Chunks of all files.
    pub fn chunk_count(&self) -> u64 {
        self.disks.values().map(Space::chunk_count).sum()
    }

    /// Whether a bitmap is in memory, or is nobody's any more.
    pub fn is_loaded(&self, bitmap: u64) -> bool {
        let (disk, chunk) = place::chunk_of(bitmap);
        self.disks.get(&disk).is_none_or(|space| space.is_loaded(chunk))
    }

    /// A bitmap that is not in memory, if there is one.
    pub fn unloaded(&self) -> Option<u64> {
        self.disks().find_map(|(disk, space)| Some(place::bitmap(disk, space.unloaded_chunk()?)))
    }

    /// Adds a bitmap as stored; none if it was never stored.
    pub fn load(&mut self, bitmap: u64, stored: Option<&Page>) {
        let (disk, chunk) = place::chunk_of(bitmap);
        if let Some(space) = self.disks.get_mut(&disk) {
            space.load(chunk, stored);
            if chunk == 0 && stored.is_none() {
                space.mark_roots();
            }
        }
    }

    /// A bitmap as it is to be stored; none if its disk is lost.
    pub fn bitmap(&self, bitmap: u64) -> Option<Page> {
        let (disk, chunk) = place::chunk_of(bitmap);
        Some(self.disks.get(&disk)?.bitmap(chunk))
    }
}

/// Promises.
impl Spaces {
    /// Promises `pages` pages to every batch, beside what its page transactions reserve.
    pub fn set_standing(&mut self, pages: u64) {
        self.standing = pages;
        self.share_promises();
    }

    /// Has each disk count with its share of what is promised.
    fn share_promises(&mut self) {
        let copies = self.copies() as u64;
        let promised = self.promised();
        let count = self.disks.len() as u64;
        for space in self.disks.values_mut() {
            space.set_promised((promised * copies).div_ceil(count));
        }
    }

    /// Whether what is promised, and `pages` more, can be kept: whichever disks are chosen, as long as those with most
    /// space are.
    pub fn has_spare(&self, pages: u64) -> bool {
        self.missing(pages) == 0
    }

    /// How many copies of what is promised, and of `pages` more, find no room.
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

    /// Promises `pages` pages if that needs no growth and leaves what is kept.
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

    /// Pages of files that cannot grow which only a page transaction that gives pages back may use.
    pub fn kept(&self) -> u64 {
        let end: u64 = self.disks.values().map(Space::end).sum();
        (end / self.copies() as u64 / 32)
            .clamp(KEPT_PAGES.start() * self.scale, KEPT_PAGES.end() * self.scale)
    }

    /// The files that should grow for what is promised.
    pub fn growths(&self) -> Vec<Growth> {
        let wanted = self.disks().map(|(disk, space)| (disk, space, space.end_wanted()));
        wanted
            .filter(|(_, space, wanted)| *wanted > space.end())
            .map(|(disk, space, wanted)| growth(disk, space, wanted))
            .collect()
    }

    /// The files that could grow instead of those that are `full`, if there is still too little space.
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
    /// The life expectancy of a page that was written before `batches` batches, from how long others lasted.
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

    /// How a file is to grow to have room for an extent; none if it cannot be that long.
    pub fn growth_for_extent(&self, disk: usize, pages: u64) -> Option<Growth> {
        let space = self.disks.get(&disk)?;
        let to = space.end_with_extent(pages);
        (to < DISK_PAGES_MAX).then_some(Growth { disk, from: space.file_end(), to })
    }

    /// Notes that the root of the batch being built reaches `pages` pages from one on; gives their bitmap.
    pub fn reach(&mut self, physical: u64, pages: u64) -> Option<u64> {
        let (space, page) = self.of(physical)?;
        (page..page + pages).for_each(|page| space.reach(page));
        Some(place::bitmap_of(physical))
    }

    /// Notes that the root of the batch being built does not reach `pages` pages from one on any more; gives their
    /// bitmap. They stay taken until [`Spaces::release`].
    pub fn abandon(&mut self, physical: u64, pages: u64) -> Option<u64> {
        let (space, page) = self.of(physical)?;
        (page..page + pages).for_each(|page| space.abandon(page));
        Some(place::bitmap_of(physical))
    }

    /// Frees `pages` taken pages from each copy of a place on, which no durable or future root reaches.
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

/// What the cleaner needs to know.
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

    /// Whether a physical page lies where its file is to be cut.
    pub fn is_beyond(&self, physical: u64) -> bool {
        self.disks.get(&place::disk_of(physical)).is_some_and(|space| place::page_of(physical) >= space.end())
    }

    /// Pages of the file of a disk.
    pub fn file_end(&self, disk: usize) -> u64 {
        self.disks.get(&disk).map_or(0, Space::file_end)
    }

    /// The disks whose files can be cut.
    pub fn can_be_cut(&self) -> Vec<usize> {
        self.disks().filter(|(_, space)| space.can_be_cut()).map(|(disk, _)| disk).collect()
    }

    /// The first pages of the segments that are best to clean, at most `pages_max` pages altogether.
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

    /// The pages that the newest root reaches of the segment that begins at `first`.
    pub fn live(&self, first: u64) -> Vec<u64> {
        let disk = place::disk_of(first);
        let Some(space) = self.disks.get(&disk) else { return Vec::new() };
        let live = space.live(place::page_of(first) / SEGMENT_PAGES);
        live.into_iter().map(|page| place::physical(disk, page)).collect()
    }

    /// The segment that begins at `first` cannot be cleaned.
    pub fn leave(&mut self, first: u64) {
        if let Some((space, page)) = self.of(first) {
            space.leave(page / SEGMENT_PAGES);
        }
    }
}
