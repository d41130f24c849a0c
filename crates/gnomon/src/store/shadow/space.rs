//! Physical space: which pages of the file are in use, and where the next ones go.
//!
//! The file is covered by chunks of [`CHUNK_PAGES`] pages, each with a bitmap. A bitmap is a page like any other:
//! logical page `chunk * CHUNK_PAGES`, written with the batch that changes it. So a database opens without reading
//! its bitmaps; they are loaded when the allocator first comes to their chunk.
//!
//! A chunk in memory has two bitmaps. `reachable` is what the last closed batch's root reaches, and is what is
//! stored. `taken` is what may not be handed out: reachable pages, pages allocated since, and pages that the batch in
//! flight gives up but the durable root still reaches (invariant 4). A page given up becomes free when the batch that
//! gives it up is durable.
//!
//! Allocation is next-fit in runs, so that a batch is written in few long writes: first only holes that are worth a
//! write of their own, then any. The file grows when less than a third of it would be free otherwise.

use std::collections::BTreeMap;

use crate::page::{BODY_BYTES, Page, PageKind};

/// How many pages one bitmap covers.
pub(crate) const CHUNK_PAGES: u64 = BODY_BYTES as u64 * 8;
/// The file grows by at least this many pages (1 MiB).
const GROWTH_PAGES_MIN: u64 = 256;
/// The file grows by at most this many pages (4 MiB) beyond what is needed.
const GROWTH_PAGES_MAX: u64 = 1024;
/// So much of a full file is kept for page transactions that give pages back: they, too, write before they free.
const KEPT_PAGES: std::ops::RangeInclusive<u64> = 64..=4096;
/// A shorter hole is passed over in the allocator's first round.
const RUN_PAGES_MIN: u64 = 16;

/// A sequence of physical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub start: u64,
    pub len: u64,
}

struct Chunk {
    reachable: Box<[u64]>,
    taken: Box<[u64]>,
    taken_pages: u64,
}

const CHUNK_WORDS: usize = (CHUNK_PAGES / 64) as usize;

impl Chunk {
    fn new(stored: Option<&Page>) -> Chunk {
        let reachable: Box<[u64]> = match stored {
            Some(page) => page
                .body()
                .chunks_exact(8)
                .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
                .collect(),
            None => vec![0; CHUNK_WORDS].into(),
        };
        let taken_pages = reachable.iter().map(|word| u64::from(word.count_ones())).sum();
        Chunk { taken: reachable.clone(), reachable, taken_pages }
    }

    fn is_taken(&self, offset: u64) -> bool {
        self.taken[(offset / 64) as usize] >> (offset % 64) & 1 == 1
    }

    fn take(&mut self, offset: u64) {
        debug_assert!(!self.is_taken(offset), "page {offset} of a chunk is handed out twice");
        self.taken[(offset / 64) as usize] |= 1 << (offset % 64);
        self.taken_pages += 1;
    }

    fn give_back(&mut self, offset: u64) {
        debug_assert!(self.is_taken(offset), "page {offset} of a chunk is given back twice");
        self.taken[(offset / 64) as usize] &= !(1 << (offset % 64));
        self.taken_pages -= 1;
    }

    /// The first page at or after `offset` that is free (or taken, if `taken`).
    fn find(&self, offset: u64, taken: bool) -> u64 {
        let mut at = offset;
        while at < CHUNK_PAGES {
            let word = self.taken[(at / 64) as usize] ^ if taken { 0 } else { u64::MAX };
            let rest = word >> (at % 64);
            if rest != 0 {
                return (at + u64::from(rest.trailing_zeros())).min(CHUNK_PAGES);
            }
            at = (at / 64 + 1) * 64;
        }
        CHUNK_PAGES
    }
}

/// The state of the file's space.
pub(crate) struct Space {
    /// Chunks as they are loaded, by number.
    chunks: BTreeMap<u64, Chunk>,
    /// Pages of the file.
    end: u64,
    /// Where the next search begins.
    cursor: u64,
    /// Pages taken, over all chunks, loaded or not.
    taken: u64,
    /// Pages reachable, over all chunks.
    reachable: u64,
    /// Pages promised to page transactions and not yet allocated.
    reserved: u64,
}

impl Space {
    pub fn new(end: u64, used: u64, cursor: u64) -> Space {
        Space { chunks: BTreeMap::new(), end, cursor, taken: used, reachable: used, reserved: 0 }
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Pages that the last closed batch's root reaches.
    pub fn reachable(&self) -> u64 {
        self.reachable
    }

    /// Pages that may not be handed out.
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    pub fn chunk_count(&self) -> u64 {
        self.end.div_ceil(CHUNK_PAGES)
    }

    /// Whether the bitmap of a chunk is in memory.
    pub fn is_loaded(&self, chunk: u64) -> bool {
        self.chunks.contains_key(&chunk)
    }

    /// Adds the bitmap of a chunk as stored; none if none was ever stored.
    pub fn load(&mut self, chunk: u64, stored: Option<&Page>) {
        self.chunks.insert(chunk, Chunk::new(stored));
    }

    fn loaded(&mut self, page: u64) -> (&mut Chunk, u64) {
        let chunk =
            self.chunks.get_mut(&(page / CHUNK_PAGES)).expect("the store loads chunks before it uses them");
        (chunk, page % CHUNK_PAGES)
    }

    /// Promises `pages` pages. True if the file should grow for that: the caller sees to it, and if that fails and
    /// [`Space::has_spare`] does not hold for the pages kept, calls [`Space::unreserve`].
    pub fn reserve(&mut self, pages: u64) -> bool {
        self.reserved += pages;
        self.end_wanted(pages) > self.end
    }

    /// How long the file should be, in pages, after a reservation of `pages`.
    pub fn end_wanted(&self, pages: u64) -> u64 {
        let needed = self.taken + self.reserved;
        // A third of the file stays free, for long runs.
        if self.end >= needed && (self.end - needed) * 2 >= needed {
            return self.end;
        }
        let growth = pages.max((self.end / 4).clamp(GROWTH_PAGES_MIN, GROWTH_PAGES_MAX));
        (self.end + growth).max(needed + GROWTH_PAGES_MIN)
    }

    pub fn grown(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Whether so many pages can be out of reach for a moment without breaking a promise.
    pub fn has_spare(&self, pages: u64) -> bool {
        self.taken + self.reserved + pages <= self.end
    }

    /// Pages of a file that cannot grow which only a page transaction that gives pages back may use.
    pub fn kept(&self) -> u64 {
        (self.end / 32).clamp(*KEPT_PAGES.start(), *KEPT_PAGES.end())
    }

    pub fn unreserve(&mut self, pages: u64) {
        self.reserved -= pages;
    }

    /// Gives back a page that no durable root reaches, and promises another in its stead.
    pub fn release_for_reservation(&mut self, page: u64) {
        self.release(page);
        self.reserved += 1;
    }

    /// The chunk in which the search for a run goes on, so that the caller can load it first.
    pub fn next_chunk(&self) -> u64 {
        if self.cursor >= self.end { 0 } else { self.cursor / CHUNK_PAGES }
    }

    /// Takes at most `pages` pages in one run from the chunk [`Space::next_chunk`], which must be loaded. None if the
    /// rest of that chunk has no fitting run; the cursor has moved on then. In the first rounds of a search pass
    /// `any` as false to skip short holes.
    pub fn take_run(&mut self, pages: u64, any: bool) -> Option<Run> {
        let number = self.next_chunk();
        let end = self.end;
        let base = number * CHUNK_PAGES;
        let limit = (end - base).min(CHUNK_PAGES);
        let from = if self.cursor >= end { 0 } else { self.cursor - base };
        let wanted = if any { 1 } else { pages.min(RUN_PAGES_MIN) };
        let chunk = self.chunks.get_mut(&number).expect("the caller loaded it");
        let mut at = chunk.find(from, false);
        while at < limit {
            let len = (chunk.find(at, true).min(limit) - at).min(pages);
            if len >= wanted {
                for offset in at..at + len {
                    chunk.take(offset);
                }
                self.taken += len;
                self.cursor = base + at + len;
                return Some(Run { start: base + at, len });
            }
            at = chunk.find(at + len, false);
        }
        self.cursor = base + limit;
        None
    }

    /// Notes that a taken page is reachable from the root of the batch being built; gives its chunk.
    pub fn reach(&mut self, page: u64) -> u64 {
        let (chunk, offset) = self.loaded(page);
        debug_assert!(chunk.is_taken(offset));
        let word = &mut chunk.reachable[(offset / 64) as usize];
        debug_assert!(*word >> (offset % 64) & 1 == 0, "page {page} is reached twice");
        *word |= 1 << (offset % 64);
        self.reachable += 1;
        page / CHUNK_PAGES
    }

    /// Notes that the root of the batch being built does not reach a page any more; gives its chunk. The page stays
    /// taken until [`Space::release`].
    pub fn abandon(&mut self, page: u64) -> u64 {
        let (chunk, offset) = self.loaded(page);
        let word = &mut chunk.reachable[(offset / 64) as usize];
        debug_assert!(*word >> (offset % 64) & 1 == 1, "page {page} is abandoned twice");
        *word &= !(1 << (offset % 64));
        self.reachable -= 1;
        page / CHUNK_PAGES
    }

    /// Frees a taken page that no durable or future root reaches.
    pub fn release(&mut self, page: u64) {
        let (chunk, offset) = self.loaded(page);
        debug_assert!(
            chunk.reachable[(offset / 64) as usize] >> (offset % 64) & 1 == 0,
            "page {page} is still reached"
        );
        chunk.give_back(offset);
        self.taken -= 1;
    }

    /// Takes one given page, of a loaded chunk, if it is free.
    pub fn take(&mut self, page: u64) -> bool {
        let (chunk, offset) = self.loaded(page);
        if chunk.is_taken(offset) {
            return false;
        }
        chunk.take(offset);
        self.taken += 1;
        true
    }

    /// The bitmap of a chunk as it is to be stored.
    pub fn bitmap(&self, chunk: u64) -> Page {
        let mut page = Page::new(PageKind::SpaceMap);
        for (bytes, word) in page.body_mut().chunks_exact_mut(8).zip(&self.chunks[&chunk].reachable) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        page
    }
}

/// The pages marked in a stored bitmap, as offsets within its chunk.
pub(crate) fn marked(bitmap: &Page) -> impl Iterator<Item = u64> + '_ {
    (0..CHUNK_PAGES).filter(|&offset| bitmap.body()[(offset / 8) as usize] >> (offset % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_given_up_is_free_only_when_its_batch_is_durable() {
        let mut space = Space::new(100, 0, 0);
        space.load(0, None);
        let run = space.take_run(100, true).unwrap();
        assert_eq!(run, Run { start: 0, len: 100 });
        for page in 0..100 {
            space.reach(page);
        }
        space.abandon(42);
        assert!(space.take_run(1, true).is_none(), "the durable root still reaches page 42");
        space.release(42);
        space.take_run(1, true);
        assert_eq!(
            space.take_run(1, true).or_else(|| space.take_run(1, true)),
            None,
            "it was handed out once"
        );
    }

    #[test]
    fn the_first_round_passes_over_short_holes() {
        let mut space = Space::new(200, 0, 0);
        space.load(0, None);
        space.take_run(200, true).unwrap();
        for page in (0..20).chain(50..55).chain(100..164) {
            space.release(page);
        }
        space.cursor = 30;
        assert_eq!(space.take_run(40, false), Some(Run { start: 100, len: 40 }));
        assert_eq!(space.take_run(40, false), Some(Run { start: 140, len: 24 }));
        space.cursor = 30;
        assert_eq!(space.take_run(40, true), Some(Run { start: 50, len: 5 }));
    }

    #[test]
    fn bitmaps_round_trip() {
        let mut space = Space::new(CHUNK_PAGES, 0, 0);
        space.load(0, None);
        space.take_run(70, true);
        for page in [0, 1, 63, 64, 69] {
            space.reach(page);
        }
        let bitmap = space.bitmap(0);
        assert_eq!(marked(&bitmap).collect::<Vec<_>>(), [0, 1, 63, 64, 69]);
        let mut again = Space::new(CHUNK_PAGES, 5, 0);
        again.load(0, Some(&bitmap));
        assert_eq!(again.take_run(2, true), Some(Run { start: 2, len: 2 }));
    }
}
