//! Which pages of the file are in use.
//!
//! The file is an array of units, the size of the smallest page; a page has a run of them, a power of two, at a
//! multiple of its length, and its number is that of its first unit. One bit a unit says whether it is in use. The bits
//! of [`CHUNK_UNITS`] units are a page of their own, the map of the chunk, which stands first in it.
//!
//! There are two states of the map. *Taken* is what must not be handed out: pages of subtransactions that have not
//! ended or are in no log yet included, and pages that were given back until the log has that. *Logged* is what the
//! units in the log come to; that alone is ever written. A unit tells which pages it gives back, and those that it
//! holds are in use, so the log needs no images of maps: these are made when the beginning of the log is given up.
//! So maps belong to no subtransaction, and no persistence spheres meet in them.

use std::collections::BTreeSet;

use crate::page::{Page, PageKind, PageSize};

/// Number of units that share a map.
pub(super) const CHUNK_UNITS: u64 = 1 << 14;
/// The size of a map.
pub(super) const MAP_SIZE: PageSize = PageSize::DEFAULT;

const WORDS: usize = CHUNK_UNITS as usize / 64;
const _: () = assert!(WORDS * 8 <= MAP_SIZE.body_bytes());

type Bits = Box<[u64; WORDS]>;

struct Chunk {
    taken: Bits,
    logged: Bits,
}

/// The map of a file.
pub struct SpaceMap {
    unit: PageSize,
    chunks: Vec<Chunk>,
    /// The file reaches to this unit.
    end: u64,
    /// Chunks whose logged state is not in the file.
    changed: BTreeSet<u64>,
    /// Where looking for free units begins.
    hint: u64,
    /// Number of units that are taken.
    in_use: u64,
}

fn set(bits: &mut Bits, run: std::ops::Range<u64>, to: bool) {
    for unit in run {
        let (word, bit) = ((unit / 64) as usize, unit % 64);
        if to {
            bits[word] |= 1 << bit;
        } else {
            bits[word] &= !(1 << bit);
        }
    }
}

fn is_free(bits: &Bits, run: std::ops::Range<u64>) -> bool {
    run.into_iter().all(|unit| bits[(unit / 64) as usize] & 1 << (unit % 64) == 0)
}

impl SpaceMap {
    /// That of an empty file which has units of this size.
    pub fn new(unit: PageSize) -> SpaceMap {
        SpaceMap { unit, chunks: Vec::new(), end: 0, changed: BTreeSet::new(), hint: 0, in_use: 0 }
    }

    /// The units of a page.
    pub fn units_of(&self, size: PageSize) -> u64 {
        (size.bytes() / self.unit.bytes()).max(1) as u64
    }

    /// The file reaches to this unit now.
    pub fn grown(&mut self, end: u64) {
        let map_units = self.units_of(MAP_SIZE);
        while (self.chunks.len() as u64) * CHUNK_UNITS < end {
            let mut chunk = Chunk { taken: Box::new([0; WORDS]), logged: Box::new([0; WORDS]) };
            set(&mut chunk.taken, 0..map_units, true);
            set(&mut chunk.logged, 0..map_units, true);
            self.in_use += map_units;
            self.changed.insert(self.chunks.len() as u64);
            self.chunks.push(chunk);
        }
        self.end = self.end.max(end);
    }

    /// Where the file ends, in units.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of units in use.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Returns the number of maps that have changed since they were logged.
    pub fn changed_count(&self) -> usize {
        self.changed.len()
    }

    /// The units in use but for those of maps.
    pub fn all_in_use(&self) -> impl Iterator<Item = u64> {
        let map_units = self.units_of(MAP_SIZE);
        self.chunks.iter().enumerate().flat_map(move |(chunk, bits)| {
            let units = (map_units..CHUNK_UNITS).filter(|unit| !is_free(&bits.taken, *unit..*unit + 1));
            units.map(move |unit| chunk as u64 * CHUNK_UNITS + unit)
        })
    }

    /// The page of the map of a chunk.
    pub fn map_page(chunk: u64) -> u64 {
        chunk * CHUNK_UNITS
    }

    /// True if a page number can be that of a page of this size.
    pub fn fits(&self, page: u64, size: PageSize) -> bool {
        let units = self.units_of(size);
        size >= self.unit && page.is_multiple_of(units) && page % CHUNK_UNITS >= self.units_of(MAP_SIZE)
    }

    /// Takes a page into use; none if the file has no room for it.
    pub fn take(&mut self, size: PageSize) -> Option<u64> {
        let units = self.units_of(size);
        let begin = self.hint.next_multiple_of(units);
        let found =
            self.search(begin, self.end, units).or_else(|| self.search(0, begin.min(self.end), units))?;
        set(
            &mut self.chunks[(found / CHUNK_UNITS) as usize].taken,
            found % CHUNK_UNITS..found % CHUNK_UNITS + units,
            true,
        );
        self.hint = found + units;
        self.in_use += units;
        Some(found)
    }

    fn search(&self, from: u64, to: u64, units: u64) -> Option<u64> {
        let mut at = from;
        while at + units <= to {
            let bits = &self.chunks[(at / CHUNK_UNITS) as usize].taken;
            let within = at % CHUNK_UNITS;
            if within.is_multiple_of(64) && bits[(within / 64) as usize] == u64::MAX {
                at += units.max(64);
            } else if is_free(bits, within..within + units) {
                return Some(at);
            } else {
                at += units;
            }
        }
        None
    }

    /// True if a page, or one that has a part of it, is in use.
    pub fn is_taken(&self, page: u64) -> bool {
        let chunk = self.chunks.get((page / CHUNK_UNITS) as usize);
        chunk.is_some_and(|chunk| !is_free(&chunk.taken, page % CHUNK_UNITS..page % CHUNK_UNITS + 1))
    }

    /// Gives back a page that no log has.
    pub fn untake(&mut self, page: u64, size: PageSize) {
        let (chunk, run) = self.run(page, size);
        set(&mut self.chunks[chunk].taken, run, false);
        self.in_use -= self.units_of(size);
        self.hint = self.hint.min(page);
    }

    fn run(&self, page: u64, size: PageSize) -> (usize, std::ops::Range<u64>) {
        let within = page % CHUNK_UNITS;
        ((page / CHUNK_UNITS) as usize, within..within + self.units_of(size))
    }

    /// A unit of the log holds the page.
    pub fn log_taken(&mut self, page: u64, size: PageSize) {
        let (chunk, run) = self.run(page, size);
        let bits = &mut self.chunks[chunk];
        if is_free(&bits.logged, run.clone()) {
            set(&mut bits.logged, run, true);
            self.changed.insert(chunk as u64);
        }
    }

    /// A unit of the log gives the page back.
    pub fn log_freed(&mut self, page: u64, size: PageSize) {
        let (chunk, run) = self.run(page, size);
        set(&mut self.chunks[chunk].logged, run, false);
        self.changed.insert(chunk as u64);
    }

    /// As when nothing but the log is known: what is logged is taken.
    pub fn settle(&mut self) {
        self.in_use = 0;
        for chunk in &mut self.chunks {
            chunk.taken = chunk.logged.clone();
            self.in_use += chunk.taken.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        self.hint = 0;
    }

    /// Reads the map of a chunk.
    pub fn load(&mut self, chunk: u64, map: &Page) {
        let words = map.body().as_chunks::<8>().0;
        let logged = &mut self.chunks[chunk as usize].logged;
        for (bits, word) in logged.iter_mut().zip(words) {
            *bits = u64::from_le_bytes(*word);
        }
        let map_units = self.units_of(MAP_SIZE);
        set(&mut self.chunks[chunk as usize].logged, 0..map_units, true);
        self.changed.remove(&chunk);
    }

    /// The maps that have changed, as they are logged, to be written; they count as written from now on.
    pub fn take_changed(&mut self) -> Vec<(u64, Page)> {
        let changed = std::mem::take(&mut self.changed);
        let map = |chunk: u64| {
            let mut page = Page::sized(PageKind::SpaceMap, MAP_SIZE);
            let words = self.chunks[chunk as usize].logged.iter().flat_map(|word| word.to_le_bytes());
            page.body_mut().iter_mut().zip(words).for_each(|(byte, value)| *byte = value);
            (SpaceMap::map_page(chunk), page)
        };
        changed.into_iter().map(map).collect()
    }

    /// Returns the number of chunks.
    pub fn chunk_count(&self) -> u64 {
        self.chunks.len() as u64
    }

    /// True if a page is in use according to the log.
    #[cfg(test)]
    pub fn is_logged(&self, page: u64) -> bool {
        !is_free(
            &self.chunks[(page / CHUNK_UNITS) as usize].logged,
            page % CHUNK_UNITS..page % CHUNK_UNITS + 1,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_apart_aligned_and_can_be_had_again() {
        let unit = PageSize::MIN;
        let mut space = SpaceMap::new(unit);
        assert_eq!(space.take(PageSize::MIN), None);
        space.grown(3 * CHUNK_UNITS);
        let mut taken: Vec<(u64, PageSize)> = Vec::new();
        let sizes = [512, 4096, 1 << 20, 2048].map(|bytes| PageSize::from_bytes(bytes).unwrap());
        for round in 0..2 {
            for number in 0.. {
                let size = sizes[number % sizes.len()];
                let Some(page) = space.take(size) else { break };
                assert!(space.fits(page, size), "{page} {size}");
                taken.push((page, size));
            }
            taken.sort_unstable();
            for pair in taken.windows(2) {
                assert!(pair[0].0 + space.units_of(pair[0].1) <= pair[1].0, "round {round}: {pair:?}");
            }
            assert_eq!(space.take(PageSize::MAX), None);
            for (page, size) in taken.drain(..) {
                space.untake(page, size);
            }
            assert_eq!(space.in_use(), 3 * 8);
        }
    }

    #[test]
    fn what_is_not_logged_is_free_after_a_crash() {
        let mut space = SpaceMap::new(PageSize::DEFAULT);
        space.grown(100);
        let [kept, lost, freed] = [(); 3].map(|()| space.take(PageSize::DEFAULT).unwrap());
        assert_eq!(kept, 1, "the first page comes behind the map");
        space.log_taken(kept, PageSize::DEFAULT);
        space.log_taken(freed, PageSize::DEFAULT);
        space.log_freed(freed, PageSize::DEFAULT);
        space.untake(freed, PageSize::DEFAULT);
        let maps = space.take_changed();
        assert!(space.take_changed().is_empty());
        let mut again = SpaceMap::new(PageSize::DEFAULT);
        again.grown(100);
        maps.iter().for_each(|(page, map)| again.load(page / CHUNK_UNITS, map));
        again.settle();
        assert_eq!(again.in_use(), 2);
        assert_eq!([kept, lost, freed].map(|page| again.is_logged(page)), [true, false, false]);
    }
}
