//! The space of one disk: which pages of its file are in use, and where the next ones go. Pages are known here by where
//! they are on the disk; [`Spaces`](super::spaces::Spaces) has all disks.
//!
//! The file is covered by chunks of [`CHUNK_PAGES`] pages, each with a bitmap. A bitmap is a page like any other, with
//! a logical number ([`place::bitmap`](crate::store::shadow::page_table::place::bitmap)), written with the batch that
//! changes it. So a database opens without reading its bitmaps; they are loaded when the allocator first comes to their
//! chunk.
//!
//! A chunk in memory has two bitmaps. `reachable` is what the last closed batch's superblock reaches, and is what is
//! stored. `taken` is what may not be handed out: reachable pages, pages allocated since, and pages that the batch in
//! flight gives up but the durable superblock still reaches (invariant 4). A page given up becomes free when the batch
//! that gives it up is durable.
//!
//! Chunks are divided into segments of [`SEGMENT_PAGES`] pages (Shadows, section 2.1). Pages are written to segments
//! that were empty, from the beginning on, so that a batch is one long write; pages with a short life expectancy
//! ([`Life`]) and pages with a long one go to different segments, because those of the first kind soon become empty by
//! themselves, and those of the second stay full. The cleaner ([cleaner](crate::store::shadow::cleaner)) empties
//! segments by moving what lives in them. When there is no empty segment, pages fill those with the fewest pages taken,
//! so that the runs between these are as long as can be: whatever is free can be used, always.
//!
//! Physical pages have one size, that of the smallest page that the database can have. A larger page takes several that
//! follow each other, its *extent*: a power of two of them, `n`, beginning at a multiple of `n` within its chunk. So
//! extents of up to a segment lie within one, larger ones take whole segments, and none crosses a chunk. Each size
//! fills segments of its own, and what is free of them later has room for the same size again.
//!
//! The file grows when more than a given share of it would be in use otherwise. When it is far larger than that, its
//! end is lowered: nothing is handed out from there on, the cleaner moves what is there, and the file is cut.

mod chunk;

use std::collections::{BTreeMap, BTreeSet};

use self::chunk::{CHUNK_SEGMENTS, Chunk, ones};
pub use self::chunk::{SEGMENT_PAGES, marked};
use crate::{
    page::{Page, PageKind},
    store::shadow::page_table::place::{CHUNK_PAGES, SUPERBLOCK_PAGES},
};

/// Segments that can be filled at a time: one for each life expectancy, one for each size of extents up to a segment.
const FILLING: usize = 2 + SEGMENT_PAGES.trailing_zeros() as usize + 1;

/// The file grows by a sixteenth at least, within these bounds (1 to 4 MiB).
const GROWTH_PAGES: std::ops::RangeInclusive<u64> = 256..=1024;
/// Pages in use beyond which a segment is not worth cleaning.
const VICTIM_PAGES_MAX: u64 = SEGMENT_PAGES * 9 / 10;
/// Pages taken up to which a segment is as good as empty for pages: its free pages are in long runs. (If a file has
/// twice the pages in use, most of its segments come to that by themselves before it is their turn again.)
const SPARSE_PAGES_MAX: u64 = SEGMENT_PAGES / 4;
/// Classes of segments by how many of their pages are taken, from sparse to nearly full.
const CLASSES: usize = (SEGMENT_PAGES / SPARSE_PAGES_MAX) as usize;
/// Bounds of the number of segments that the cleaner keeps empty or sparse: a sixteenth of all, within these.
const EMPTY_SEGMENTS: std::ops::RangeInclusive<u64> = 2..=32;

/// Bounds of the length of the file.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The share of the file in use beyond which it grows.
    pub fill_max: f64,
    /// The file is cut when it has this many pages more than half as much again as are in use.
    pub spare_pages_max: u64,
}

impl Default for Extent {
    fn default() -> Extent {
        // 64 MiB.
        Extent { fill_max: 0.7, spare_pages_max: 16384 }
    }
}

/// A sequence of physical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: u64,
    pub len: u64,
}

/// The time for which a page is expected to stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    Short,
    Long,
}

/// Treatment of young segments: those that can be written to as they are, and those that were written not long ago,
/// since when less was written than is free. When pages are changed often, most of these become sparse before it is
/// their turn to be written again. Moving their pages made others come to their turn sooner, and be moved in turn:
/// more pages were moved than written, in TPC-B with one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Young {
    Leave,
    /// Tests move all that can be.
    #[cfg(test)]
    Move,
}

/// The result of a search for a run.
#[derive(Debug, PartialEq, Eq)]
pub enum Search {
    Found(Run),
    /// The bitmap of this chunk is to be loaded first.
    Load(u64),
    /// Every page is taken.
    Nothing,
}

/// Returns the class of a segment with so many pages taken, of which there is one at least.
fn class(taken: u64) -> usize {
    ((taken - 1) / SPARSE_PAGES_MAX) as usize
}

/// The state of the file's space.
pub struct Space {
    /// Chunks as they are loaded, by number.
    chunks: BTreeMap<u64, Chunk>,
    /// Segments below the end without a taken page, of loaded chunks, but for those being filled.
    empty: BTreeSet<u64>,
    /// Those with taken and free pages, by [class](CLASSES).
    partly: [BTreeSet<u64>; CLASSES],
    /// Where to look for the next of them to fill.
    partly_hand: u64,
    /// There is nothing to clean until so many pages were handed out.
    rested_until: u64,
    /// The segments being filled, by life expectancy of pages and then by size of extents: where each goes on.
    filling: [Option<u64>; FILLING],
    /// Segments with a damaged page: not to be cleaned.
    damaged: BTreeSet<u64>,
    /// Pages of the file that may be handed out are below this.
    end: u64,
    /// Pages of the file.
    file_end: u64,
    pub extent: Extent,
    /// Where the next search for a hole begins.
    cursor: u64,
    /// Where the next search for one that has room for an extent begins.
    extent_cursor: u64,
    /// Pages to leave free when the file is shortened, since moving the pages beyond its end needed them.
    room: u64,
    /// Number of physical pages in 4 KiB: the factor of bounds in pages.
    scale: u64,
    /// Pages taken, over all chunks, loaded or not.
    taken: u64,
    /// Pages reachable, over all chunks.
    reachable: u64,
    /// Pages promised and not yet taken.
    promised: u64,
    /// Pages handed out since it was opened: the clock for the age of a segment.
    handed_out: u64,
}

impl Space {
    pub fn new(end: u64, used: u64, cursor: u64) -> Space {
        Space {
            chunks: BTreeMap::new(),
            empty: BTreeSet::new(),
            partly: Default::default(),
            partly_hand: 0,
            rested_until: 0,
            filling: [None; FILLING],
            damaged: BTreeSet::new(),
            end,
            file_end: end,
            extent: Extent::default(),
            cursor,
            extent_cursor: 0,
            room: 0,
            scale: 1,
            taken: used,
            reachable: used,
            promised: 0,
            handed_out: 0,
        }
    }

    /// Sets the number of physical pages in 4 KiB.
    pub fn set_scale(&mut self, scale: u64) {
        self.scale = scale;
        self.extent.spare_pages_max *= scale;
    }

    /// Returns the end: pages of the file that may be handed out are below it.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of pages of the file.
    pub fn file_end(&self) -> u64 {
        self.file_end
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Returns the number of pages that the last closed batch's superblock reaches.
    pub fn reachable(&self) -> u64 {
        self.reachable
    }

    /// Returns the number of pages that may not be handed out.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    pub fn chunk_count(&self) -> u64 {
        self.end.div_ceil(CHUNK_PAGES)
    }

    /// Returns the number of segments of the file, and of those that are known to be empty.
    pub fn segments(&self) -> (u64, u64) {
        (self.file_end / SEGMENT_PAGES, self.empty.len() as u64)
    }

    /// True if the bitmap of a chunk is in memory.
    pub fn is_loaded(&self, chunk: u64) -> bool {
        self.chunks.contains_key(&chunk)
    }

    /// Returns a chunk whose bitmap is not in memory, if there is one: that in which searching goes on, or one after
    /// it.
    pub fn unloaded_chunk(&self) -> Option<u64> {
        let count = self.chunk_count();
        if self.chunks.len() as u64 >= count && self.end == self.file_end {
            return None;
        }
        let from = self.cursor / CHUNK_PAGES;
        (from..count).chain(0..from.min(count)).find(|chunk| !self.is_loaded(*chunk))
    }

    /// Adds the bitmap of a chunk as stored; none if none was ever stored.
    pub fn load(&mut self, chunk: u64, stored: Option<&Page>) {
        self.chunks.insert(chunk, Chunk::new(stored));
        let first = chunk * CHUNK_SEGMENTS as u64;
        self.note_segments(first, first + CHUNK_SEGMENTS as u64);
    }

    fn loaded(&mut self, page: u64) -> (&mut Chunk, u64) {
        let chunk =
            self.chunks.get_mut(&(page / CHUNK_PAGES)).expect("the store loads chunks before it uses them");
        (chunk, page % CHUNK_PAGES)
    }

    /// Returns the number of taken pages of a segment; none if its chunk is not loaded.
    fn taken_of(&self, segment: u64) -> Option<u64> {
        let (chunk, index) = (segment / CHUNK_SEGMENTS as u64, segment % CHUNK_SEGMENTS as u64);
        Some(ones(self.chunks.get(&chunk)?.segment(index as usize).0))
    }

    fn is_filling(&self, segment: u64) -> bool {
        self.filling.iter().flatten().any(|at| *at / SEGMENT_PAGES == segment)
    }

    /// Notes which segments from `first` up to `end` are empty, and which have some free pages.
    fn note_segments(&mut self, first: u64, end: u64) {
        for segment in first..end.min(self.end / SEGMENT_PAGES) {
            self.empty.remove(&segment);
            for partly in &mut self.partly {
                partly.remove(&segment);
            }
            match self.taken_of(segment) {
                _ if self.is_filling(segment) => {}
                Some(0) => _ = self.empty.insert(segment),
                Some(taken @ 1..SEGMENT_PAGES) => _ = self.partly[class(taken)].insert(segment),
                _ => {}
            }
        }
    }

    /// Sets how many pages are promised beside those that are taken.
    pub fn set_promised(&mut self, pages: u64) {
        self.promised = pages;
    }

    /// Returns the number of pages taken or promised.
    fn needed(&self) -> u64 {
        self.taken + self.promised
    }

    /// Returns the number of free pages.
    pub fn free(&self) -> u64 {
        self.end.saturating_sub(self.taken)
    }

    /// Returns the least length that the file should have for the pages in use and promised. A small file has more
    /// room than its share: that saves most of its cleaning, and costs little. Promised pages have their place there:
    /// most of them are not taken in the end, and come and go so fast that the file would grow and be cut all the
    /// time.
    fn end_needed(&self) -> u64 {
        let needed = (self.taken as f64 / self.extent.fill_max) as u64;
        let more = (2 * self.taken).min(self.extent.spare_pages_max * 3 / 4).max(self.promised);
        (needed + more + 2 * SEGMENT_PAGES).next_multiple_of(SEGMENT_PAGES)
    }

    /// Returns the length that the file should have, in pages.
    pub fn end_wanted(&self) -> u64 {
        let needed = self.end_needed();
        if self.end >= needed {
            return self.end;
        }
        needed.max(self.end + self.growth()).next_multiple_of(SEGMENT_PAGES)
    }

    /// Returns the number of pages by which the file grows at a time.
    fn growth(&self) -> u64 {
        (self.end / 16).clamp(GROWTH_PAGES.start() * self.scale, GROWTH_PAGES.end() * self.scale)
    }

    /// Notes that the file has `end` pages at least, all of which may be handed out.
    pub fn grown(&mut self, end: u64) {
        let before = self.end;
        self.end = before.max(end);
        self.file_end = self.file_end.max(end);
        self.note_segments(before / SEGMENT_PAGES, self.end / SEGMENT_PAGES);
    }

    /// Marks the pages of the superblock, which count as used already, in the first bitmap of a new disk.
    pub fn mark_superblocks(&mut self) {
        let superblocks = SUPERBLOCK_PAGES * self.scale;
        let (chunk, _) = self.loaded(0);
        for word in [&mut chunk.taken[0], &mut chunk.reachable[0]] {
            *word |= (1 << superblocks) - 1;
        }
        self.note_segments(0, 1);
    }

    /// Takes at most `pages` pages in one run.
    pub fn take_run(&mut self, pages: u64, life: Life) -> Search {
        loop {
            if let Some(run) = self.take_from_filling(pages, life) {
                return Search::Found(run);
            }
            let sparse = |space: &mut Space| if space.uses_sparse() { space.take_partly(0) } else { None };
            match self.empty.pop_first().or_else(|| sparse(self)) {
                Some(segment) => self.filling[life as usize] = Some(segment * SEGMENT_PAGES),
                None => break,
            }
        }
        if let Some(chunk) = self.unloaded_chunk() {
            return Search::Load(chunk);
        }
        while let Some(segment) = (0..CLASSES).find_map(|class| self.take_partly(class)) {
            self.filling[life as usize] = Some(segment * SEGMENT_PAGES);
            if let Some(run) = self.take_from_filling(pages, life) {
                return Search::Found(run);
            }
        }
        self.take_hole(pages).map_or(Search::Nothing, Search::Found)
    }

    /// Takes, of some segments of a class that follow the last one that was taken, the one with the fewest pages taken:
    /// those that were filled longest ago have few mostly, and the fewer pages are in use, the longer are the runs
    /// between them.
    fn take_partly(&mut self, class: usize) -> Option<u64> {
        const LOOKED_AT: usize = 64;
        let (segments, hand) = (&self.partly[class], self.partly_hand);
        let after = segments.range(hand..).chain(segments.range(..hand));
        let segment = after.take(LOOKED_AT).copied().min_by_key(|segment| self.taken_of(*segment))?;
        self.partly[class].remove(&segment);
        self.partly_hand = segment + 1;
        Some(segment)
    }

    /// Takes an extent of `pages` pages, a power of two.
    pub fn take_extent(&mut self, pages: u64) -> Search {
        debug_assert!(pages.is_power_of_two() && pages <= CHUNK_PAGES / 2);
        let found = match pages <= SEGMENT_PAGES {
            true => self.extent_from_filling(pages),
            false => self.extent_of_segments(pages),
        };
        if let Some(run) = found {
            return Search::Found(run);
        }
        match self.unloaded_chunk() {
            Some(chunk) => Search::Load(chunk),
            None => self.extent_from_holes(pages).map_or(Search::Nothing, Search::Found),
        }
    }

    /// Takes an extent from the segment that is filled with such, or from an empty one.
    fn extent_from_filling(&mut self, pages: u64) -> Option<Run> {
        let which = 2 + pages.trailing_zeros() as usize;
        loop {
            if let Some(from) = self.filling[which] {
                let segment = from / SEGMENT_PAGES;
                let limit = (segment + 1) * SEGMENT_PAGES;
                if let Some(run) = self.extent_within(from..limit, pages) {
                    // The last page's place, as for pages.
                    self.filling[which] = Some((run.start + pages).min(limit - 1));
                    self.take_all(run);
                    return Some(run);
                }
                self.filling[which] = None;
                self.note_segments(segment, segment + 1);
            }
            self.filling[which] = Some(self.empty.pop_first()? * SEGMENT_PAGES);
        }
    }

    /// Takes empty segments that follow each other.
    fn extent_of_segments(&mut self, pages: u64) -> Option<Run> {
        let count = pages / SEGMENT_PAGES;
        let is_extent = |first: &&u64| {
            let offset = **first % CHUNK_SEGMENTS as u64;
            offset.is_multiple_of(count)
                && offset + count <= CHUNK_SEGMENTS as u64
                && self.empty.range(**first..**first + count).count() as u64 == count
        };
        let run = Run { start: self.empty.iter().find(is_extent)? * SEGMENT_PAGES, len: pages };
        self.take_all(run);
        Some(run)
    }

    /// Takes an extent wherever there is one, all chunks being loaded.
    fn extent_from_holes(&mut self, pages: u64) -> Option<Run> {
        for _ in 0..=self.chunk_count() {
            if self.extent_cursor >= self.end {
                self.extent_cursor = 0;
            }
            let from = self.extent_cursor;
            let limit = ((from / CHUNK_PAGES + 1) * CHUNK_PAGES).min(self.end);
            if let Some(run) = self.extent_within(from..limit, pages) {
                self.extent_cursor = run.start + run.len;
                self.take_all(run);
                return Some(run);
            }
            self.extent_cursor = limit;
        }
        None
    }

    /// Returns the first free extent within a part of a loaded chunk.
    fn extent_within(&mut self, part: std::ops::Range<u64>, pages: u64) -> Option<Run> {
        let (chunk, offset) = self.loaded(part.start);
        let base = part.start - offset;
        let limit = part.end - base;
        let mut at = offset.next_multiple_of(pages);
        while at + pages <= limit {
            let taken = chunk.find(at, true);
            if taken >= at + pages {
                return Some(Run { start: base + at, len: pages });
            }
            at = chunk.find(taken, false).next_multiple_of(pages);
        }
        None
    }

    /// Returns the length that the file needs to have room for an extent at its end, whatever is in use.
    pub fn end_with_extent(&self, pages: u64) -> u64 {
        let (end, chunk) = (self.file_end, self.file_end - self.file_end % CHUNK_PAGES);
        let start = (end - chunk).next_multiple_of(pages);
        let start = if start + pages <= CHUNK_PAGES { chunk + start } else { chunk + CHUNK_PAGES };
        (start + pages).next_multiple_of(SEGMENT_PAGES)
    }

    /// Gives extents of `pages` pages back that were not used. Filling goes on at the first of them, so that
    /// reservations that were not used up leave no gaps.
    pub fn release_unused(&mut self, starts: &[u64], pages: u64) {
        for &start in starts {
            self.release_run(Run { start, len: pages });
        }
        let which = 2 + pages.trailing_zeros() as usize;
        if let (Some(&first), Some(Some(from))) = (starts.iter().min(), self.filling.get(which).copied())
            && first + pages <= self.end
            && !self
                .filling
                .iter()
                .flatten()
                .any(|at| at / SEGMENT_PAGES == first / SEGMENT_PAGES && *at != from)
        {
            self.filling[which] = Some(first);
            for at in [first, from] {
                self.note_segments(at / SEGMENT_PAGES, at / SEGMENT_PAGES + 1);
            }
        }
    }

    /// Takes a run from the segment that is being filled, if it has one left.
    fn take_from_filling(&mut self, pages: u64, life: Life) -> Option<Run> {
        let from = self.filling[life as usize]?;
        let segment = from / SEGMENT_PAGES;
        let (chunk, offset) = self.loaded(from);
        let base = from - offset;
        let limit = offset - offset % SEGMENT_PAGES + SEGMENT_PAGES;
        let at = chunk.find(offset, false);
        if at >= limit {
            self.filling[life as usize] = None;
            // What was taken of it may be free again.
            self.note_segments(segment, segment + 1);
            return None;
        }
        let len = (chunk.find(at, true).min(limit) - at).min(pages);
        let run = Run { start: base + at, len };
        let next = run.start + len;
        // The last page's place: the segment is known by it, and found to be full from there.
        self.filling[life as usize] = Some(next.min((segment + 1) * SEGMENT_PAGES - 1));
        self.take_all(run);
        Some(run)
    }

    /// Takes the next run, all chunks being loaded: what is left are segments that others fill, and the end of the
    /// file.
    fn take_hole(&mut self, pages: u64) -> Option<Run> {
        // The chunk in which the search begins is looked at twice: from there, and up to there.
        for _ in 0..=self.chunk_count() {
            if self.cursor >= self.end {
                self.cursor = 0;
            }
            let from = self.cursor % CHUNK_PAGES;
            let base = self.cursor - from;
            let limit = (self.end - base).min(CHUNK_PAGES);
            let (chunk, _) = self.loaded(base);
            let at = chunk.find(from, false);
            if at < limit {
                let len = (chunk.find(at, true).min(limit) - at).min(pages);
                let run = Run { start: base + at, len };
                self.cursor = run.start + len;
                self.take_all(run);
                return Some(run);
            }
            self.cursor = base + limit;
        }
        None
    }

    /// Takes a run within a chunk.
    fn take_all(&mut self, run: Run) {
        self.handed_out += run.len;
        let now = self.handed_out;
        let (chunk, offset) = self.loaded(run.start);
        for offset in offset..offset + run.len {
            chunk.take(offset);
        }
        let segments = offset / SEGMENT_PAGES..(offset + run.len).div_ceil(SEGMENT_PAGES);
        for index in segments {
            chunk.filled[index as usize] = now;
        }
        self.taken += run.len;
        self.note_segments(run.start / SEGMENT_PAGES, (run.start + run.len).div_ceil(SEGMENT_PAGES));
    }

    /// Notes that a taken page is reachable from the superblock of the batch being built.
    pub fn reach(&mut self, page: u64) {
        let (chunk, offset) = self.loaded(page);
        debug_assert!(chunk.is_taken(offset));
        let word = &mut chunk.reachable[(offset / 64) as usize];
        debug_assert!(*word >> (offset % 64) & 1 == 0, "page {page} is reached twice");
        *word |= 1 << (offset % 64);
        self.reachable += 1;
    }

    /// Notes that the superblock of the batch being built does not reach a page any more. The page stays taken until
    /// [`Space::release`].
    pub fn abandon(&mut self, page: u64) {
        let (chunk, offset) = self.loaded(page);
        let word = &mut chunk.reachable[(offset / 64) as usize];
        debug_assert!(*word >> (offset % 64) & 1 == 1, "page {page} is abandoned twice");
        *word &= !(1 << (offset % 64));
        self.reachable -= 1;
    }

    /// Frees a taken page that no durable or future superblock reaches.
    #[cfg(test)]
    pub fn release(&mut self, page: u64) {
        self.release_run(Run { start: page, len: 1 });
    }

    /// Frees taken pages of a chunk that no durable or future superblock reaches.
    pub fn release_run(&mut self, run: Run) {
        let (chunk, offset) = self.loaded(run.start);
        for offset in offset..offset + run.len {
            debug_assert!(
                chunk.reachable[(offset / 64) as usize] >> (offset % 64) & 1 == 0,
                "page {offset} of a chunk is still reached"
            );
            chunk.give_back(offset);
        }
        self.taken -= run.len;
        self.note_segments(run.start / SEGMENT_PAGES, (run.start + run.len).div_ceil(SEGMENT_PAGES));
    }

    /// Takes one given page, of a loaded chunk, if it is free.
    pub fn take(&mut self, page: u64) -> bool {
        let (chunk, offset) = self.loaded(page);
        if chunk.is_taken(offset) {
            return false;
        }
        chunk.take(offset);
        self.taken += 1;
        self.note_segments(page / SEGMENT_PAGES, page / SEGMENT_PAGES + 1);
        true
    }

    /// Returns the bitmap of a chunk as it is to be stored.
    pub fn bitmap(&self, chunk: u64) -> Page {
        let mut page = Page::new(PageKind::SpaceMap);
        for (bytes, word) in page.body_mut().chunks_exact_mut(8).zip(&self.chunks[&chunk].reachable) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        page
    }
}

/// Methods for the cleaner.
impl Space {
    /// Returns the measures of the cleaner's progress: free pages in segments that can be filled or are being filled,
    /// and taken pages beyond the end.
    pub fn progress(&self) -> (u64, std::cmp::Reverse<u64>) {
        let filling = self.filling.iter().flatten().map(|at| at / SEGMENT_PAGES);
        let sparse = self.partly[0].iter().copied().filter(|_| self.uses_sparse());
        let ready = filling.chain(sparse).chain(self.empty.iter().copied());
        let ready = ready.map(|segment| SEGMENT_PAGES - self.taken_of(segment).unwrap_or_default()).sum();
        let first = self.end / SEGMENT_PAGES;
        let beyond = self.chunks.range(self.end / CHUNK_PAGES..).map(|(number, chunk)| {
            let segments =
                (0..CHUNK_SEGMENTS).filter(|&index| number * CHUNK_SEGMENTS as u64 + index as u64 >= first);
            segments.map(|index| ones(chunk.segment(index).0)).sum::<u64>()
        });
        (ready, std::cmp::Reverse(beyond.sum()))
    }

    /// True if sparse segments are as good as empty ones. Extents need empty ones.
    fn uses_sparse(&self) -> bool {
        self.filling[Life::Long as usize + 1..].iter().all(Option::is_none)
    }

    /// Returns the number of segments that can be filled next.
    fn ready(&self) -> u64 {
        let sparse = if self.uses_sparse() { self.partly[0].len() } else { 0 };
        (self.empty.len() + sparse) as u64
    }

    fn empty_wanted(&self) -> u64 {
        (self.end / SEGMENT_PAGES / 16).clamp(*EMPTY_SEGMENTS.start(), *EMPTY_SEGMENTS.end())
    }

    /// True if there are so few empty and sparse segments that some should be made, or the file is to be cut.
    pub fn wants_cleaning(&self) -> bool {
        self.ready() < self.empty_wanted() && self.handed_out >= self.rested_until
            || self.end < self.file_end
            || self.is_too_long()
    }

    /// True if the cleaner, once at work, should make more segments empty.
    pub fn wants_more_cleaning(&self) -> bool {
        self.ready() < 2 * self.empty_wanted() || self.end < self.file_end
    }

    /// True if the file is much longer than it should be.
    pub fn is_too_long(&self) -> bool {
        let needed = self.needed();
        self.end == self.file_end
            && self.end > needed + needed / 2 + self.extent.spare_pages_max
            && self.end > self.end_least() + self.growth()
    }

    /// Returns the shortest length of the file: segments that cannot be moved stay.
    fn end_least(&self) -> u64 {
        let immovable = self.damaged.last().map_or(0, |segment| (segment + 1) * SEGMENT_PAGES);
        (self.end_needed() + self.room).max(immovable)
    }

    /// Raises the end, because there was no room below it to move `pages` pages. False if all of the file stays
    /// already.
    pub fn leave_room(&mut self, pages: u64) -> bool {
        let shrinks = self.end < self.file_end;
        if shrinks {
            self.room = (2 * self.room).max(2 * pages).next_multiple_of(SEGMENT_PAGES);
            self.grown((self.end + self.room).min(self.file_end));
        }
        shrinks
    }

    /// Lowers the end if the file is much longer than it should be.
    pub fn begin_shrinking(&mut self) {
        if self.is_too_long() {
            self.end = self.end_least();
            let end = self.end;
            self.empty.split_off(&(end / SEGMENT_PAGES));
            for partly in &mut self.partly {
                partly.split_off(&(end / SEGMENT_PAGES));
            }
            for filling in &mut self.filling {
                filling.take_if(|at| *at >= end);
            }
        }
    }

    /// True if nothing is in use from the end on, so that the file can be cut there.
    pub fn can_be_cut(&self) -> bool {
        let above = self.end / CHUNK_PAGES;
        self.end < self.file_end
            && self.chunks.range(above..).all(|(number, chunk)| {
                let from = self.end.saturating_sub(number * CHUNK_PAGES).min(CHUNK_PAGES);
                chunk.find(from, true) == CHUNK_PAGES
            })
    }

    /// Notes that the file was cut at its end.
    pub fn cut(&mut self) {
        self.file_end = self.end;
        let count = self.chunk_count();
        self.chunks.retain(|chunk, _| *chunk < count);
    }

    /// Marks a segment as one that cannot be cleaned.
    pub fn leave(&mut self, segment: u64) {
        self.damaged.insert(segment);
        let after = (segment + 1) * SEGMENT_PAGES;
        if after > self.end {
            // The file cannot be cut below it.
            self.grown(after.min(self.file_end));
        }
    }

    /// Returns the segments that are best to clean, until `pages_max` pages are to be moved: those beyond the end,
    /// then by the free space that is gained, its age and the cost of reading the segment and writing its live pages
    /// (Rosenblum and Ousterhout 1992, section 3.5). Takes only segments in which the last closed batch's superblock
    /// reaches every taken page, and none that can be written to as it is. If there are none, the next search waits
    /// until an eighth of the free pages was handed out.
    pub fn victims(&mut self, pages_max: u64, young: Young) -> Vec<u64> {
        let mut candidates: Vec<(f64, u64, u64)> = Vec::new();
        for (number, chunk) in &self.chunks {
            for index in 0..CHUNK_SEGMENTS {
                let (taken, reachable) = chunk.segment(index);
                let live = ones(reachable);
                let segment = number * CHUNK_SEGMENTS as u64 + index as u64;
                if live == 0
                    || taken != reachable
                    || self.is_filling(segment)
                    || self.damaged.contains(&segment)
                    || young == Young::Leave && self.uses_sparse() && self.partly[0].contains(&segment)
                {
                    continue;
                }
                if segment * SEGMENT_PAGES >= self.end {
                    candidates.push((f64::INFINITY, segment, live));
                } else if live <= VICTIM_PAGES_MAX {
                    // Pages that an earlier run wrote are old.
                    let age = match chunk.filled[index] {
                        0 => self.handed_out + self.end,
                        filled => self.handed_out - filled + 1,
                    };
                    if young == Young::Leave && age < self.free() {
                        continue;
                    }
                    let gain = (SEGMENT_PAGES - live) as f64 / (SEGMENT_PAGES + live) as f64;
                    candidates.push((gain * age as f64, segment, live));
                }
            }
        }
        candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let mut pages = 0;
        let fits = |(_, segment, live): (f64, u64, u64)| {
            pages += live;
            (pages <= pages_max).then_some(segment)
        };
        let victims: Vec<u64> = candidates.into_iter().map_while(fits).collect();
        let rest = if victims.is_empty() { self.free() / 8 } else { 0 };
        self.rested_until = self.handed_out + rest;
        victims
    }

    /// Returns the pages of a segment that the last closed batch's superblock reaches.
    pub fn live(&self, segment: u64) -> Vec<u64> {
        let first = segment * SEGMENT_PAGES;
        let Some(chunk) = self.chunks.get(&(first / CHUNK_PAGES)) else { return Vec::new() };
        let is_live = |page: &u64| {
            let offset = page % CHUNK_PAGES;
            chunk.reachable[(offset / 64) as usize] >> (offset % 64) & 1 == 1
        };
        (first..first + SEGMENT_PAGES).filter(is_live).collect()
    }
}

#[cfg(test)]
mod tests;
