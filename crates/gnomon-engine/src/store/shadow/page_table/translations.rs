//! The translation cache: a small table of page table entries of data pages, in front of the page table (Shadows,
//! section 2.3: "a small 4096-entry 2-way set-associative cache").
//!
//! Promises: what it says of a page is what the page table says, from the moment a batch is published to the next one
//! that gives the page another place or takes it away. It allocates nothing after opening and holds no mutex over a
//! walk down the page table or over I/O.
//!
//! How. [`Translations::get`] finds an entry, or returns a [`Miss`], with which the caller walks the page table and
//! then fills the entry in. Publishing a batch changes the entries of its pages right after the new superblock is in
//! place and before any old place is given up ([`Translations::publish`]); so an old place that can be used again is no
//! longer in here. One case remains: a walk that began before and ends after. It found the old place, and would fill it
//! in when no later publication removes it. A miss therefore remembers how often entries of its group of sets were
//! published, and filling in does nothing if that has changed. A walk that begins after publishing finds the new
//! superblock and its nodes.
//!
//! Groups of sets have a mutex each, held for a few instructions: an entry is two words, which atomics could tear.
//!
//! Not done here: nodes of the page table (the buffer pool has them), absent pages, older states.

use super::node::PageEntry;
use crate::{
    failpoint::{Failpoint, Failpoints},
    sync::Mutex,
};

/// Entries of one set.
const WAYS: usize = 2;
/// Sets: 4096 entries. Schedules have one, so that few pages do not fit.
const SETS: usize = if cfg!(shuttle) { 1 } else { 2048 };
/// Groups of sets.
const GROUPS: usize = if cfg!(shuttle) { 1 } else { 64 };

/// The translation cache of a store.
pub struct Translations {
    groups: Box<[Mutex<Group>]>,
    failpoints: Failpoints,
}

struct Group {
    sets: [Set; SETS / GROUPS],
    /// How often an entry of these sets was published.
    published: u64,
    hits: u64,
    misses: u64,
}

/// The entries of some pages, the latest used first. A physical page of zero means that there is none.
#[derive(Clone, Copy, Default)]
struct Set([Way; WAYS]);

#[derive(Clone, Copy, Default)]
struct Way {
    logical: u64,
    entry: PageEntry,
}

impl Set {
    /// Returns the entry of a page, which becomes the latest.
    fn find(&mut self, logical: u64) -> Option<PageEntry> {
        let way = self.0.iter().position(|way| way.logical == logical && way.entry.present().is_some())?;
        self.0[..=way].rotate_right(1);
        Some(self.0[0].entry)
    }

    /// Puts an entry in as the latest, in place of the page's own or of the one longest unused.
    fn insert(&mut self, logical: u64, entry: PageEntry) {
        if self.find(logical).is_none() {
            self.0.rotate_right(1);
        }
        self.0[0] = Way { logical, entry };
    }

    fn remove(&mut self, logical: u64) {
        if self.find(logical).is_some() {
            self.0[0] = Way::default();
            self.0.rotate_left(1);
        }
    }
}

/// The right to fill an entry in.
pub struct Miss {
    logical: u64,
    published: u64,
}

/// Returns the group of a page, and its set therein. Neighbours are in different groups.
fn place(logical: u64) -> (usize, usize) {
    let set = (logical % SETS as u64) as usize;
    (set % GROUPS, set / GROUPS)
}

impl Translations {
    pub fn new(failpoints: Failpoints) -> Translations {
        let group = || Group { sets: [Set::default(); SETS / GROUPS], published: 0, hits: 0, misses: 0 };
        Translations { groups: (0..GROUPS).map(|_| Mutex::new(group())).collect(), failpoints }
    }

    /// Returns the entry of a data page; if it is not here, the right to fill it in.
    pub fn get(&self, logical: u64) -> Result<PageEntry, Miss> {
        let (group, set) = place(logical);
        let mut group = self.groups[group].lock();
        match group.sets[set].find(logical) {
            Some(entry) => {
                group.hits += 1;
                Ok(entry)
            }
            None => {
                group.misses += 1;
                Err(Miss { logical, published: group.published })
            }
        }
    }

    /// Fills in the entry that a walk found that began after the miss, unless a batch was published meanwhile.
    pub fn fill(&self, miss: &Miss, entry: PageEntry) {
        self.failpoints.linger(Failpoint::TranslationOutdated);
        let (group, set) = place(miss.logical);
        let mut group = self.groups[group].lock();
        if group.published == miss.published || self.failpoints.is_on(Failpoint::TranslationOutdated) {
            group.sets[set].insert(miss.logical, entry);
        }
    }

    /// Changes what is known of a page: its entry under the new superblock, or that it has none. The caller publishes
    /// that superblock.
    pub fn publish(&self, logical: u64, entry: Option<PageEntry>) {
        let (group, set) = place(logical);
        let mut group = self.groups[group].lock();
        group.published += 1;
        match entry {
            Some(entry) => group.sets[set].insert(logical, entry),
            None => group.sets[set].remove(logical),
        }
    }

    /// Returns the number of translations that found their entry here, and of those that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        self.groups.iter().fold((0, 0), |(hits, misses), group| {
            let group = group.lock();
            (hits + group.hits, misses + group.misses)
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::store::shadow::page_table::place::Place;

    fn entry(physical: u64) -> PageEntry {
        let early = physical.is_multiple_of(2);
        PageEntry { early, ..PageEntry::new(Place::single(physical), physical + 1) }
    }

    #[test]
    fn a_set_keeps_the_two_pages_used_last() {
        let cache = Translations::new(Failpoints::default());
        let page = |number: u64| 5 + number * SETS as u64;
        for number in 0..2 {
            let miss = cache.get(page(number)).unwrap_err();
            cache.fill(&miss, entry(number + 1));
        }
        assert_eq!(cache.get(page(0)).ok(), Some(entry(1)));
        let miss = cache.get(page(2)).unwrap_err();
        cache.fill(&miss, entry(3));
        assert!(cache.get(page(1)).is_err(), "it was used the longest ago");
        assert_eq!(cache.get(page(0)).ok(), Some(entry(1)));
        cache.publish(page(0), None);
        assert!(cache.get(page(0)).is_err());
        assert_eq!(cache.get(page(2)).ok(), Some(entry(3)));
        assert_eq!(cache.hits_and_misses(), (3, 5));
    }

    #[test]
    fn it_has_4096_entries() {
        let cache = Translations::new(Failpoints::default());
        (0..4096).for_each(|logical| cache.publish(logical, Some(entry(logical + 1))));
        assert!((0..4096).all(|logical| cache.get(logical).ok() == Some(entry(logical + 1))));
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Look a page up, and walk the page table if need be.
        Look(usize),
        /// Fill in what one of the walks found, however long ago.
        Fill(usize),
        /// Publish a batch: pages with their new places (0: taken away).
        Publish(Vec<(usize, u64)>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..PAGES).prop_map(Step::Look),
            3 => any::<usize>().prop_map(Step::Fill),
            1 => prop::collection::vec((0..PAGES, 0..1000_u64), 1..4).prop_map(Step::Publish),
        ];
        prop::collection::vec(step, 1..200)
    }

    const PAGES: usize = 8;

    /// Six pages share a set, two have neighbouring ones.
    fn logical(page: usize) -> u64 {
        match page {
            0..6 => 7 + (page * SETS) as u64,
            _ => page as u64 + 2,
        }
    }

    proptest! {
        #[test]
        fn what_it_says_is_what_the_page_table_says(steps in steps()) {
            let cache = Translations::new(Failpoints::default());
            let mut table: HashMap<u64, PageEntry> = HashMap::new();
            let mut walks = Vec::new();
            let (mut looked, mut hits) = (0, 0);
            for step in steps {
                match step {
                    Step::Look(page) => {
                        looked += 1;
                        let logical = logical(page);
                        match cache.get(logical) {
                            Ok(found) => {
                                hits += 1;
                                prop_assert_eq!(Some(&found), table.get(&logical));
                            }
                            Err(miss) => walks.push((miss, table.get(&logical).copied())),
                        }
                    }
                    Step::Fill(index) => {
                        if !walks.is_empty() {
                            let index = index % walks.len();
                            if let (miss, Some(found)) = walks.swap_remove(index) {
                                cache.fill(&miss, found);
                            }
                        }
                    }
                    Step::Publish(pages) => {
                        for (page, physical) in pages {
                            let new = entry(physical).present();
                            match new {
                                Some(new) => table.insert(logical(page), new),
                                None => table.remove(&logical(page)),
                            };
                            cache.publish(logical(page), new);
                        }
                    }
                }
            }
            prop_assert_eq!(cache.hits_and_misses(), (hits, looked - hits));
        }
    }
}
