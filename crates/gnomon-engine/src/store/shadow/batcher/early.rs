//! The pages of a batch that were written before it was closed: where they are.

use crate::{
    page::PageSize,
    store::shadow::{
        page_table::{node::PageEntry, place::Place},
        words::Words,
    },
};

/// Set in the word of a page that was written by a transaction of its own, before its batch was known.
const BEFORE_BATCH: u128 = 1 << Place::WORD_BITS;
/// Where the code of the page's size begins.
const SIZE_AT: u32 = Place::WORD_BITS + 1;

/// Where pages are that were written before their batch was closed.
#[derive(Clone, Default)]
pub struct EarlyPages(Words);

fn entry(word: u128, batch: u64) -> PageEntry {
    let size = PageSize::from_code((word >> SIZE_AT) as u8 & 0xf).unwrap_or_default();
    PageEntry { place: Place::of_word(word), batch, size, early: word & BEFORE_BATCH != 0 }
}

impl EarlyPages {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, logical: u64) -> bool {
        self.0.contains(logical)
    }

    /// Returns the entry that a page will have in the page table when it is published with this batch.
    pub fn get(&self, logical: u64, batch: u64) -> Option<PageEntry> {
        self.0.get(logical).map(|word| entry(word, batch))
    }

    /// Notes where a page was written. Returns where it was before.
    pub fn insert(&mut self, logical: u64, page: PageEntry) -> Option<PageEntry> {
        let flag = if page.early { BEFORE_BATCH } else { 0 };
        let word = page.place.word() | flag | u128::from(page.size.code()) << SIZE_AT;
        self.0.insert(logical, word).map(|word| entry(word, page.batch))
    }

    /// Forgets a page. Returns where it was.
    pub fn remove(&mut self, logical: u64) -> Option<PageEntry> {
        self.0.remove(logical).map(|word| entry(word, 0))
    }

    /// Returns all entries, for this batch, in the order of logical pages.
    pub fn iter(&self, batch: u64) -> impl Iterator<Item = (u64, PageEntry)> {
        self.0.iter().map(move |(logical, word)| (logical, entry(word, batch)))
    }
}
