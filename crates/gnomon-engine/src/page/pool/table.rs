//! Which frame of a shard holds a page: a hash table with open addressing.
//!
//! Everything that is known of a page stands in one entry, and entries that hash to the same place lie side by side
//! (linear probing, Knuth, TAOCP 3, section 6.4, algorithms L and R). So a page is found by one access to memory that
//! is not in the processor's cache, nearly always, and that access can be asked for in advance ([`Table::prefetch`]).

use super::{PoolKey, Slot};
use crate::sync::prefetch;

/// The least number of places.
const PLACES_MIN: usize = 8;

/// The table. At most two thirds of its places are taken, and their number is a power of two.
pub(super) struct Table {
    places: Box<[Option<Slot>]>,
    count: usize,
}

impl Default for Table {
    fn default() -> Table {
        Table { places: empty(PLACES_MIN), count: 0 }
    }
}

fn empty(places: usize) -> Box<[Option<Slot>]> {
    (0..places).map(|_| None).collect()
}

impl Table {
    /// Where a page is looked for first.
    #[inline]
    fn home(&self, key: PoolKey) -> usize {
        // The lowest bits of a product spread little, so the highest are mixed in; what chose the shard is the same for
        // all.
        let spread = key.spread();
        ((spread ^ (spread >> 32)) as usize) & (self.places.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The place of a page, or the free one where it would be put.
    #[inline]
    fn place(&self, key: PoolKey) -> Result<usize, usize> {
        let mut place = self.home(key);
        loop {
            match &self.places[place] {
                None => return Err(place),
                Some(slot) if slot.key() == key => return Ok(place),
                Some(_) => place = self.next(place),
            }
        }
    }

    /// Asks for the memory that tells of a page.
    #[inline]
    pub(super) fn prefetch(&self, key: PoolKey) {
        prefetch(&self.places[self.home(key)]);
    }

    #[inline]
    pub(super) fn get(&self, key: PoolKey) -> Option<&Slot> {
        let place = self.place(key).ok()?;
        self.places[place].as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: PoolKey) -> Option<&mut Slot> {
        let place = self.place(key).ok()?;
        self.places[place].as_mut()
    }

    /// Adds a page, which must not be there.
    pub(super) fn insert(&mut self, slot: Slot) {
        if (self.count + 1) * 3 > self.places.len() * 2 {
            let larger = empty(self.places.len() * 2);
            for slot in std::mem::replace(&mut self.places, larger).into_iter().flatten() {
                self.put(slot);
            }
        }
        self.put(slot);
        self.count += 1;
    }

    fn put(&mut self, slot: Slot) {
        match self.place(slot.key()) {
            Err(free) => self.places[free] = Some(slot),
            Ok(_) => unreachable!("the caller looked first"),
        }
    }

    /// Removes a page, if it is there. Those behind it move up whose way leads over its place.
    pub(super) fn remove(&mut self, key: PoolKey) -> Option<Slot> {
        let mut gap = self.place(key).ok()?;
        let removed = self.places[gap].take();
        self.count -= 1;
        let mut place = self.next(gap);
        while let Some(slot) = &self.places[place] {
            let mask = self.places.len() - 1;
            let (from_home, from_gap) =
                (place.wrapping_sub(self.home(slot.key())) & mask, place.wrapping_sub(gap) & mask);
            if from_home >= from_gap {
                self.places.swap(place, gap);
                gap = place;
            }
            place = self.next(place);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{page::pool::Frame, sync::Arc};

    /// Few places and many removals: clusters that go round the end, of pages that come and go.
    #[test]
    fn holds_what_a_map_of_std_holds() {
        for size in [5, 20, 1000] {
            let (mut table, mut model) = (Table::default(), HashMap::new());
            let mut random: u64 = 1;
            for step in 0..20_000 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let key = PoolKey { level: (random >> 60) as u8 % 2, index: (random >> 33) % size };
                match model.remove(&key) {
                    Some(place) => assert_eq!(table.remove(key).map(|slot| slot.place), Some(place)),
                    None => {
                        model.insert(key, step);
                        table.insert(Slot::new(Arc::new(Frame::new(key, 0)), step));
                    }
                }
                assert_eq!(table.count, model.len());
                if step % 100 == 0 {
                    for index in 0..size {
                        for key in [0, 1].map(|level| PoolKey { level, index }) {
                            let found = table.get(key).map(|slot| slot.place);
                            assert_eq!(found, model.get(&key).copied(), "after {step} steps");
                        }
                    }
                }
            }
        }
    }
}
