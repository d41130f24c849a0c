//! Mending free space: pages of it with damaged sectors are zeroed, so that what is found later is new damage. A crash
//! leaves no such sectors, as long as the disk writes each of its own as a whole.

use std::ops::Range;

use super::{ShadowStore, place, space::CHUNK_PAGES};
use crate::{Result, page::damaged_sector};

/// Pages looked at in one step. Free ones among them are out of the allocator's reach meanwhile.
const STEP_PAGES: u64 = 64;

impl ShadowStore {
    /// Mends the free ones among some pages from physical page `from` on. Returns where to go on; none at the end of the
    /// last disk.
    pub(super) fn mend_some(&self, from: u64) -> Result<Option<u64>> {
        let (disk, page) = (place::disk_of(from), place::page_of(from));
        let end = self.space.lock().disk_mut(disk).map_or(0, |space| space.end());
        if page >= end {
            let next = self.disks.present().iter().map(|(disk, _)| *disk).find(|other| *other > disk);
            return Ok(next.map(|next| place::physical(next, 0)));
        }
        let until = (page + STEP_PAGES).min((page / CHUNK_PAGES + 1) * CHUNK_PAGES).min(end);
        let until = place::physical(disk, until);
        self.mend(from..until)?;
        Ok(Some(until))
    }

    /// Mends the free ones among pages of one bitmap. When the disk is nearly full, and every free page is promised, they
    /// stay as they are.
    pub(super) fn mend(&self, pages: Range<u64>) -> Result<()> {
        self.before_writing()?;
        let disk = place::disk_of(pages.start);
        if self.disks.member(disk).is_none() {
            return Ok(());
        }
        let bitmap = place::bitmap_of(pages.start);
        self.load_bitmap(bitmap)?;
        let claimed: Vec<u64> = {
            let mut space = self.space.lock();
            // The file may have been cut since.
            let end = space.disk_mut(disk).map_or(0, |space| space.end());
            if !space.has_spare(pages.end - pages.start) || !space.is_loaded(bitmap) {
                return Ok(());
            }
            pages.filter(|copy| place::page_of(*copy) < end && space.take(*copy)).collect()
        };
        let mended =
            claimed.iter().try_for_each(|copy| self.mend_page(*copy).or_else(|error| self.lose(disk, error)));
        let mut space = self.space.lock();
        claimed.into_iter().for_each(|copy| space.release(place::Place::single(copy), 1));
        mended
    }

    fn mend_page(&self, copy: u64) -> std::io::Result<()> {
        let mut block = vec![0; self.unit.bytes()];
        let Some(member) = self.disks.member(place::disk_of(copy)) else { return Ok(()) };
        let at = self.disks.offset(copy);
        let read = member.file.read_at(at, &mut block);
        if read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof) {
            return Ok(());
        }
        if read.is_err() || damaged_sector(&block).is_some() {
            block.fill(0);
            member.file.write_at(at, &block)?;
            self.counters.zeroed_pages.add(1);
        }
        Ok(())
    }
}
