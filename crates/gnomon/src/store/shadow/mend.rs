//! Mending free space after a crash: torn pages in it are zeroed, so that later damage of free pages can be told from
//! them again (see [`Root::free_pages_whole`](super::root::Root::free_pages_whole)).

use super::{ShadowStore, space::CHUNK_PAGES};
use crate::{
    Result,
    page::{PAGE_BYTES, Page},
};

/// Pages looked at in one step. Free ones among them are out of the allocator's reach meanwhile.
const STEP_PAGES: u64 = 64;

impl ShadowStore {
    /// Whether torn pages may be in free space.
    pub fn needs_mending(&self) -> bool {
        !self.free_pages.lock().whole
    }

    /// Looks at some pages from physical page `from` on, and zeroes those that are free and torn. Returns where to go
    /// on; none at the end, when free space is known to be whole.
    pub fn mend_some(&self, from: u64) -> Result<Option<u64>> {
        self.check()?;
        if from >= self.space.lock().end() {
            // The zeros before the word that there are no torn pages.
            self.file.sync()?;
            self.free_pages.lock().whole = true;
            return Ok(None);
        }
        self.before_writing()?;
        self.load_chunk(from / CHUNK_PAGES)?;
        let until = (from + STEP_PAGES).min((from / CHUNK_PAGES + 1) * CHUNK_PAGES);
        let claimed = {
            let mut space = self.space.lock();
            if !space.has_spare(STEP_PAGES) {
                // Nearly full: every free page is promised. Leave it as it is until the database is opened again.
                return Ok(None);
            }
            let until = until.min(space.end());
            (from..until).filter(|&page| space.take(page)).collect::<Vec<u64>>()
        };
        let mended = claimed.iter().try_for_each(|&page| self.mend(page));
        let mut space = self.space.lock();
        for page in claimed {
            space.release(page);
        }
        drop(space);
        mended.map(|()| Some(until))
    }

    fn mend(&self, page: u64) -> Result<()> {
        let mut block = [0; PAGE_BYTES];
        let at = page * PAGE_BYTES as u64;
        self.file.read_at(at, &mut block)?;
        if block.iter().any(|&byte| byte != 0) && Page::unseal(&block).is_err() {
            self.file.write_at(at, &[0; PAGE_BYTES])?;
            self.counters.zeroed_pages.add(1);
        }
        Ok(())
    }
}
