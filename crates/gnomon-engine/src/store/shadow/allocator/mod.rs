//! The allocator: promises space, hands out places for pages, and takes them back.
//!
//! Promises: what was [reserved](Allocator::reserve) can be taken, however full the disks become; no place that the last
//! durable superblock reaches is handed out before it is [released](Allocator::release) (invariant 4).
//! A page transaction reserves before it enters the gate, so a full disk is an error of that transaction alone.
//!
//! [`space`] knows which pages of one disk are in use, [`spaces`] promises the space of all, [`extents`] holds what
//! pages larger than a physical one have taken and not written. Bitmaps are loaded when the allocator first comes to
//! their chunk, by the page table.

mod extents;
pub mod space;
pub mod spaces;

use self::{
    extents::Extents,
    space::{Life, SEGMENT_PAGES, Search},
    spaces::{Growth, SpaceMap},
};
use super::{
    mirror::Mirror,
    page_table::{
        PageTable,
        node::{self, BLOCK},
        place::{DISKS_MAX, Place},
    },
};
use crate::{
    Error, Result,
    page::{PageCounts, PageSize},
    store::commits::Commits,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// Growth of a file, in bytes, up to which it is filled with zeros where commits wait for batches.
const ZEROED_BYTES_MAX: u64 = 8 << 20;

/// The allocator of a store.
pub struct Allocator {
    commits: Arc<Commits>,
    mirror: Arc<Mirror>,
    table: Arc<PageTable>,
    /// The size of a physical page, and of the smallest page.
    pub unit: PageSize,
    pub space: Arc<SpaceMap>,
    extents: Mutex<Extents>,
    /// Held by the one thread that grows a file.
    pub growing: Mutex<()>,
    /// True if the cleaner has something to do, as far as the last batch could tell.
    cleaning_wanted: AtomicBool,
}

/// The effect of a page transaction on the number of pages in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It uses as many pages as before, or more.
    Use,
    /// It gives pages back.
    Free,
}

/// Permission for the file to grow for an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grow {
    Yes,
    No,
}

impl Allocator {
    pub fn new(
        commits: Arc<Commits>,
        mirror: Arc<Mirror>,
        table: Arc<PageTable>,
        space: Arc<SpaceMap>,
        unit: PageSize,
    ) -> Allocator {
        let is_too_long = space.lock().is_too_long();
        Allocator {
            cleaning_wanted: AtomicBool::new(is_too_long),
            commits,
            mirror,
            table,
            unit,
            space,
            extents: Mutex::default(),
            growing: Mutex::new(()),
        }
    }

    /// True if the cleaner has something to do.
    pub fn wants_cleaning(&self) -> bool {
        self.cleaning_wanted.load(Ordering::Acquire)
    }

    /// Sets whether the cleaner has something to do.
    pub fn set_wants_cleaning(&self, wanted: bool) {
        self.cleaning_wanted.store(wanted, Ordering::Release);
    }

    /// Looks whether the cleaner has something to do, now that places were released.
    pub fn note_cleaning(&self) {
        let wanted = self.space.lock().wants_cleaning();
        self.set_wants_cleaning(wanted);
    }

    /// Returns the number of physical pages that a page takes.
    pub fn physical_pages(&self, size: PageSize) -> u64 {
        (size.bytes() / self.unit.bytes()).max(1) as u64
    }

    /// Returns the number of physical pages that these pages take.
    pub fn physical_pages_of(&self, pages: &PageCounts) -> u64 {
        pages.iter().map(|(size, count)| count * self.physical_pages(size)).sum()
    }

    pub fn is_extent(&self, size: PageSize) -> bool {
        size > self.unit
    }

    /// Reserves the pages that a page transaction that changes `pages` may write, beyond those that are `held` for it
    /// already. Returns them.
    pub fn reserve(&self, purpose: Purpose, pages: &PageCounts, held: &PageCounts) -> Result<PageCounts> {
        if self.commits.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let logical_end = self.table.logical_end();
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
    pub fn reserve_space(&self, purpose: Purpose, reserved: &PageCounts) -> Result<()> {
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
                return Err(if is_full { error } else { self.commits.poison(&error) });
            }
        }
        self.reserve_extents(purpose, reserved, Grow::Yes)
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
        match self.space.lock().has_spare(0) && full.len() < self.mirror.disks.present().len() {
            true => Ok(()),
            false => Err(Error::DiskFull),
        }
    }

    /// Grows the file of a disk. Returns false if the disk has no room for all of it; the file may have grown by a
    /// part.
    fn grow_file(&self, Growth { disk, from, to: wanted }: Growth) -> Result<bool> {
        let Some(member) = self.mirror.disks.member(disk) else { return Ok(true) };
        let grow = |to: u64| -> std::io::Result<()> {
            if to <= from {
                return Ok(());
            }
            let unit = self.unit.bytes() as u64;
            member.file.allocate(to * unit)?;
            let bytes = (to - from) * unit;
            let batches_wait = self.mirror.disks.batches_can_wait.load(Ordering::Relaxed);
            if bytes <= ZEROED_BYTES_MAX && !batches_wait {
                // Blocks that were written once are overwritten without a journal entry of the file system at each
                // sync, which commits wait for.
                member.file.write_at(from * unit, &vec![0; bytes as usize])?;
                self.mirror.counters.zeroed_pages.add(to - from);
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
                Err(error) => return self.mirror.lose(disk, error).map(|()| true),
            }
        }
        // The superblocks on the other disks tell of it, too, and may be durable before this one is synced.
        if self.mirror.disks.present().len() > 1
            && let Err(error) = member.file.sync()
        {
            return self.mirror.lose(disk, error).map(|()| true);
        }
        if let Some(space) = self.space.lock().disk_mut(disk) {
            space.grown(to);
        }
        Ok(to == wanted)
    }

    /// Loads a bitmap if it is not in memory.
    pub fn load_bitmap(&self, bitmap: u64) -> Result<()> {
        if self.space.lock().is_loaded(bitmap) {
            return Ok(());
        }
        let stored = match self.table.entry(0, bitmap)? {
            Some(entry) => self.mirror.read_page(0, bitmap, entry).map(Some),
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

    pub fn load_bitmaps(&self) -> Result<()> {
        loop {
            let unloaded = self.space.lock().unloaded();
            match unloaded {
                Some(bitmap) => self.load_bitmap(bitmap)?,
                None => return Ok(()),
            }
        }
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
                self.mirror.disks.choose(&space, space.copies(), &chosen, &full)
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
            if self.mirror.disks.is_mirrored() && places.iter().any(|place| place.second == 0) {
                self.mirror.note_missing_copies();
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
    pub fn take_on(&self, disk: usize, mut pages: u64, life: Life) -> Result<Vec<u64>> {
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

    /// Takes the place for a copy of a page on a disk, if it has one and is not lost.
    pub fn take_copy_on(&self, disk: usize, size: PageSize, life: Life, grow: Grow) -> Result<Option<u64>> {
        match self.is_extent(size) {
            true => self.take_extent_on(disk, self.physical_pages(size), grow),
            false => Ok(self.take_on(disk, 1, life)?.pop()),
        }
    }

    /// Counts pages that were taken against their reservation, if they are not extents.
    pub fn use_reserved(&self, size: PageSize, pages: u64, reserved: &mut PageCounts) {
        if !self.is_extent(size) {
            let used = pages.min(reserved[size]);
            reserved[size] -= used;
            self.space.lock().unreserve(used);
        }
    }
}

/// Returns the most pages that are written for a page transaction that changes `pages` in a store of `logical_end`,
/// beside the [`standing_pages`].
pub fn pages_written(pages: &PageCounts, logical_end: u64) -> PageCounts {
    let count = pages.pages();
    // The last are nodes above and bitmaps that do not exist yet.
    *pages + PageCounts::of(BLOCK, count.min(nodes(logical_end + count)) + count / node::FANOUT)
}

/// Returns the number of nodes of level 1 that map `logical_end` pages, at most.
pub fn nodes(logical_end: u64) -> u64 {
    logical_end / node::FANOUT + 1
}

/// Returns the most blocks (nodes of higher levels, bitmaps, and nodes above these) that are written for a batch,
/// whatever it changes. Those that they replace are free when it is durable, so this number is always reserved, and
/// used once for every batch.
fn standing_pages(logical_end: u64, chunks: u64) -> u64 {
    let bitmaps = chunks + 2;
    let mut level = nodes(logical_end);
    let upper: u64 = (2..=node::DEPTH_MAX)
        .map(|_| {
            level = level / node::FANOUT + 2;
            level
        })
        .sum();
    2 * bitmaps + upper
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::shadow::page_table::place::CHUNK_PAGES;

    #[test]
    fn reservations_cover_the_nodes_of_new_pages() {
        for old in [1u64, 500, 100_000] {
            for new in [1u64, 300, 75_000, 2_000_000] {
                let mut needed = new;
                let mut level = old + new;
                while level > 1 {
                    level = level.div_ceil(node::FANOUT);
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
