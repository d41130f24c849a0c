//! The pages of a batch that were written before it was closed: where they are.

use super::{place::Place, table::PageEntry, words::Words};

/// Set in the word of a page that was written by a transaction of its own, before its batch was known.
const BEFORE_BATCH: u128 = 1 << Place::WORD_BITS;

/// Where pages are that were written before their batch was closed.
#[derive(Clone, Default)]
pub(super) struct EarlyPages(Words);

fn entry(word: u128, batch: u64) -> PageEntry {
    PageEntry { place: Place::of_word(word), batch, early: word & BEFORE_BATCH != 0 }
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

    /// The entry that a page will have in the page table when it is published with this batch.
    pub fn get(&self, logical: u64, batch: u64) -> Option<PageEntry> {
        self.0.get(logical).map(|word| entry(word, batch))
    }

    /// Notes where a page was written, and whether its batch was not known then. Returns where it was before.
    pub fn insert(&mut self, logical: u64, place: Place, before_batch: bool) -> Option<Place> {
        let before = self.0.insert(logical, place.word() | if before_batch { BEFORE_BATCH } else { 0 });
        before.map(Place::of_word)
    }

    /// Forgets a page. Returns where it was.
    pub fn remove(&mut self, logical: u64) -> Option<Place> {
        self.0.remove(logical).map(Place::of_word)
    }

    /// All entries, for this batch, in the order of logical pages.
    pub fn iter(&self, batch: u64) -> impl Iterator<Item = (u64, PageEntry)> {
        self.0.iter().map(move |(logical, word)| (logical, entry(word, batch)))
    }
}
