//! Mending free space: pages of it with damaged sectors are zeroed, so that what is found later is new damage. A crash
//! leaves no such sectors, as long as the disk writes each of its own as a whole.

use std::ops::Range;

use super::repair::Repairer;
use crate::store::shadow::page_table::place::{self, CHUNK_PAGES};
use crate::{Result, page::damaged_sector};

/// Pages looked at in one step. Free ones among them are out of the allocator's reach meanwhile.
const STEP_PAGES: u64 = 64;

impl Repairer {
    /// Mends the free ones among some pages from physical page `from` on. Returns where to go on, none at the end of
    /// the last disk; and how many were zeroed.
    pub fn mend_some(&self, from: u64) -> Result<(Option<u64>, u64)> {
        let (disk, page) = (place::disk_of(from), place::page_of(from));
        let end = self.allocator.space.lock().disk_mut(disk).map_or(0, |space| space.end());
        if page >= end {
            let next = self.mirror.disks.present().iter().map(|(disk, _)| *disk).find(|other| *other > disk);
            return Ok((next.map(|next| place::physical(next, 0)), 0));
        }
        let until = (page + STEP_PAGES).min((page / CHUNK_PAGES + 1) * CHUNK_PAGES).min(end);
        let until = place::physical(disk, until);
        let zeroed = self.mend(from..until)?;
        Ok((Some(until), zeroed))
    }

    /// Mends the free ones among pages of one bitmap; returns how many were zeroed. Pages that are promised on a full
    /// disk, or kept for an older state, stay as they are.
    pub fn mend(&self, pages: Range<u64>) -> Result<u64> {
        self.batcher.before_writing()?;
        let disk = place::disk_of(pages.start);
        if self.mirror.disks.member(disk).is_none() {
            return Ok(0);
        }
        let bitmap = place::bitmap_of(pages.start);
        self.allocator.load_bitmap(bitmap)?;
        let claimed: Vec<u64> = {
            let mut space = self.allocator.space.lock();
            // The file may have been cut since.
            let end = space.disk_mut(disk).map_or(0, |space| space.end());
            if !space.is_loaded(bitmap) {
                return Ok(0);
            }
            pages
                .filter(|copy| place::page_of(*copy) < end && space.has_spare(1) && space.take(*copy))
                .collect()
        };
        let mended = claimed.iter().try_fold(0, |zeroed, copy| match self.mend_page(*copy) {
            Ok(is_zeroed) => Ok(zeroed + u64::from(is_zeroed)),
            Err(error) => self.mirror.lose(disk, error).map(|()| zeroed),
        });
        let mut space = self.allocator.space.lock();
        claimed.into_iter().for_each(|copy| space.release(place::Place::single(copy), 1));
        mended
    }

    /// Zeroes a page if it is damaged. Returns true if it was.
    fn mend_page(&self, copy: u64) -> std::io::Result<bool> {
        let mut block = vec![0; self.allocator.unit.bytes()];
        let Some(member) = self.mirror.disks.member(place::disk_of(copy)) else { return Ok(false) };
        let at = self.mirror.disks.offset(copy);
        let read = member.file.read_at(at, &mut block);
        if read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof) {
            return Ok(false);
        }
        let is_damaged = read.is_err() || damaged_sector(&block).is_some();
        if is_damaged {
            block.fill(0);
            member.file.write_at(at, &block)?;
            self.mirror.counters.zeroed_pages.add(1);
        }
        Ok(is_damaged)
    }
}
