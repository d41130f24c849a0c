//! A chunk of a disk's file: which of its pages are in use, in memory and as its bitmap has it.

use crate::{page::Page, store::shadow::page_table::place::CHUNK_PAGES};

/// How many pages a segment has (512 KiB). Schedules are short, and have smaller ones.
pub const SEGMENT_PAGES: u64 = if cfg!(shuttle) { 64 } else { 128 };

pub struct Chunk {
    pub reachable: Box<[u64]>,
    pub taken: Box<[u64]>,
    /// For each segment, what [`Space::handed_out`] was when a page of it was last handed out.
    pub filled: Box<[u64]>,
}

const CHUNK_WORDS: usize = (CHUNK_PAGES / 64) as usize;
pub const CHUNK_SEGMENTS: usize = (CHUNK_PAGES / SEGMENT_PAGES) as usize;
const SEGMENT_WORDS: usize = (SEGMENT_PAGES / 64) as usize;

const _: () = assert!(CHUNK_PAGES.is_multiple_of(SEGMENT_PAGES) && SEGMENT_PAGES.is_multiple_of(64));

pub fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

impl Chunk {
    pub fn new(stored: Option<&Page>) -> Chunk {
        let reachable: Box<[u64]> = match stored {
            Some(page) => page
                .body()
                .chunks_exact(8)
                .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
                .collect(),
            None => vec![0; CHUNK_WORDS].into(),
        };
        Chunk { taken: reachable.clone(), reachable, filled: vec![0; CHUNK_SEGMENTS].into() }
    }

    pub fn is_taken(&self, offset: u64) -> bool {
        self.taken[(offset / 64) as usize] >> (offset % 64) & 1 == 1
    }

    pub fn take(&mut self, offset: u64) {
        debug_assert!(!self.is_taken(offset), "page {offset} of a chunk is handed out twice");
        self.taken[(offset / 64) as usize] |= 1 << (offset % 64);
    }

    pub fn give_back(&mut self, offset: u64) {
        debug_assert!(self.is_taken(offset), "page {offset} of a chunk is given back twice");
        self.taken[(offset / 64) as usize] &= !(1 << (offset % 64));
    }

    /// Returns the words of a segment's taken and reachable pages.
    pub fn segment(&self, index: usize) -> (&[u64], &[u64]) {
        let words = index * SEGMENT_WORDS..(index + 1) * SEGMENT_WORDS;
        (&self.taken[words.clone()], &self.reachable[words])
    }

    /// Returns the first page at or after `offset` that is free (or taken, if `taken`).
    pub fn find(&self, offset: u64, taken: bool) -> u64 {
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

/// Returns the pages marked in a stored bitmap, as offsets within its chunk.
pub fn marked(bitmap: &Page) -> impl Iterator<Item = u64> + '_ {
    (0..CHUNK_PAGES).filter(|&offset| bitmap.body()[(offset / 8) as usize] >> (offset % 8) & 1 == 1)
}
