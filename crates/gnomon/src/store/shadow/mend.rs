//! Mending free space after a crash: torn pages in it are zeroed, so that later damage of free pages can be told from
//! them again (see [`Root::free_pages_whole`](super::root::Root::free_pages_whole)).

use super::{ShadowStore, place, space::CHUNK_PAGES};
use crate::Result;

/// Pages looked at in one step. Free ones among them are out of the allocator's reach meanwhile.
const STEP_PAGES: u64 = 64;

impl ShadowStore {
    /// Whether torn pages may be in free space.
    pub fn needs_mending(&self) -> bool {
        !self.free_pages.lock().whole
    }

    /// Looks at some pages from physical page `from` on, and zeroes those that are free and torn. Returns where to go
    /// on; none at the end of the last disk, when free space is known to be whole.
    pub fn mend_some(&self, from: u64) -> Result<Option<u64>> {
        self.check()?;
        let (disk, page) = (place::disk_of(from), place::page_of(from));
        let end = self.space.lock().disk_mut(disk).map_or(0, |space| space.end());
        if page >= end {
            let next = self.disks.present().iter().map(|(disk, _)| *disk).find(|other| *other > disk);
            if let Some(next) = next {
                return Ok(Some(place::physical(next, 0)));
            }
            // The zeros before the word that there are no torn pages.
            self.sync()?;
            self.free_pages.lock().whole = true;
            return Ok(None);
        }
        self.before_writing()?;
        self.load_bitmap(place::bitmap_of(from))?;
        let until = (page + STEP_PAGES).min((page / CHUNK_PAGES + 1) * CHUNK_PAGES).min(end);
        let claimed = {
            let mut space = self.space.lock();
            if !space.has_spare(STEP_PAGES) {
                // Nearly full: every free page is promised. Leave it as it is until the database is opened again.
                return Ok(None);
            }
            // The file may have been cut since.
            let end = space.disk_mut(disk).map_or(0, |space| space.end());
            let until = if space.is_loaded(place::bitmap_of(from)) { until.min(end) } else { page };
            let claimed = (page..until).map(|page| place::physical(disk, page));
            claimed.filter(|&copy| space.take(copy)).collect::<Vec<u64>>()
        };
        let mended =
            claimed.iter().try_for_each(|&copy| self.mend(copy).or_else(|error| self.lose(disk, error)));
        let mut space = self.space.lock();
        for copy in claimed {
            space.release(place::Place::single(copy), 1);
        }
        drop(space);
        mended.map(|()| Some(place::physical(disk, until)))
    }

    fn mend(&self, copy: u64) -> std::io::Result<()> {
        let mut block = vec![0; self.unit.bytes()];
        let Some(member) = self.disks.member(place::disk_of(copy)) else { return Ok(()) };
        let at = self.disks.offset(copy);
        let read = member.file.read_at(at, &mut block);
        if read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof) {
            return Ok(());
        }
        if read.is_err() || self.damage_of_free(&block).is_some() {
            block.fill(0);
            member.file.write_at(at, &block)?;
            self.counters.zeroed_pages.add(1);
        }
        Ok(())
    }
}
