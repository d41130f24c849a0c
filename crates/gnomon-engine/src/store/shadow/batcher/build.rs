//! Building a batch: a place for each object that it writes, and the new page table over them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Batcher, Move, early::EarlyPages};
use crate::{
    Csn, Result,
    failpoint::Failpoint,
    page::{
        Page, PageCounts, PageKind, PageSize,
        pool::{Frame, Pin, PoolKey},
    },
    store::shadow::{
        allocator::{space::Life, spaces::Spaces},
        page_table::{
            node::{self, BLOCK, PageEntry},
            place::{self, Place, is_bitmap},
        },
        superblock::Superblock,
    },
    sync::Arc,
};

/// The contents of a batch, as it was closed.
pub struct Closed {
    pub batch: u64,
    pub csn: Csn,
    pub logical_end: u64,
    /// Dirty pages: their frames, and their images as they were at closing.
    pub images: BTreeMap<u64, (Arc<Frame>, Page)>,
    /// Pages flushed early and unchanged since.
    pub early: Arc<EarlyPages>,
    /// Early places of pages that changed again.
    pub early_outdated: Vec<PageEntry>,
    pub freed: BTreeSet<u64>,
    /// The pages that the cleaner or a repair moves.
    pub moved: Vec<Move>,
    pub rewritten: Vec<PoolKey>,
    /// True if pages were flushed early, and so perhaps twice under this batch's number.
    pub flushed_early: bool,
    pub reserved: PageCounts,
}

/// A batch while it is built.
pub struct Builder<'a> {
    batcher: &'a Batcher,
    /// The state that the batch changes.
    old: Superblock,
    batch: u64,
    /// The depth of the new page table.
    pub depth: u8,
    /// New copies of nodes, by level and first logical page; their children's entries are set as these are placed.
    pub nodes: BTreeMap<PoolKey, Page>,
    /// Keeps the old copies in the pool until the new ones are published, so that no reader goes to the disk for them.
    pub pins: Vec<Pin>,
    /// Where the objects of this batch go: data pages, bitmaps, nodes.
    pub places: HashMap<PoolKey, Place>,
    /// Objects that have no place yet: their sizes, and how long they are expected to stay as they are.
    unplaced: Vec<(PoolKey, PageSize, Life)>,
    /// Bitmaps that change, by their logical numbers.
    pub bitmaps: BTreeSet<u64>,
    /// The new entries of data pages that were not flushed early, for the translation cache.
    pub translations: BTreeMap<u64, PageEntry>,
    /// Copies that the new superblock does not reach any more.
    pub abandoned: Vec<PageEntry>,
}

impl<'a> Builder<'a> {
    /// Finds every object that the batch writes, gives each a place, and sets the entries of the page table.
    pub fn build(batcher: &'a Batcher, closed: &mut Closed, old: Superblock) -> Result<Builder<'a>> {
        let mut builder = Builder {
            batcher,
            batch: closed.batch,
            depth: old.depth.max(1),
            old,
            nodes: BTreeMap::new(),
            pins: Vec::new(),
            places: HashMap::new(),
            unplaced: Vec::new(),
            bitmaps: BTreeSet::new(),
            translations: BTreeMap::new(),
            abandoned: Vec::new(),
        };
        builder.place_all(closed)?;
        Ok(builder)
    }

    fn place_all(&mut self, closed: &mut Closed) -> Result<()> {
        self.deepen(closed.logical_end)?;
        for (&logical, (_, image)) in &closed.images {
            self.touch(PoolKey { level: 0, index: logical }, image.size())?;
        }
        for (logical, entry) in closed.early.iter(closed.batch) {
            self.point(logical, entry)?;
        }
        for &logical in &closed.freed {
            self.translations.insert(logical, PageEntry::default());
            self.point(logical, PageEntry::default())?;
        }
        for &Move { logical, from, to } in &closed.moved {
            // A page that was changed after it was copied has moved by that.
            let changed = closed.images.contains_key(&logical)
                || closed.early.contains(logical)
                || closed.freed.contains(&logical)
                // By another move: the cleaner and repair do not know of each other.
                || self.translations.contains_key(&logical)
                || self.batcher.table.entry(0, logical)? != Some(from);
            if changed && !self.batcher.failpoints.is_on(Failpoint::MovedOutdated) {
                // The copies that stay where they are are not new.
                let new = Place::of(to.place.copies().filter(|copy| !from.place.has(*copy)));
                self.batcher.allocator.release([PageEntry { place: new, ..to }]);
            } else {
                self.translations.insert(logical, to);
                self.point(logical, to)?;
            }
        }
        for &key in &closed.rewritten {
            match key.level {
                _ if self.batcher.table.entry(key.level, key.index)?.is_none() => {}
                0 => {
                    self.batcher.allocator.load_bitmap(key.index)?;
                    self.bitmaps.insert(key.index);
                }
                level => self.touch_node(level, key.index)?,
            }
        }
        // Placing changes bitmaps, and a bitmap is an object to place: until nothing is left.
        loop {
            let bitmaps: Vec<u64> = self
                .bitmaps
                .iter()
                .copied()
                .filter(|&index| {
                    let key = PoolKey { level: 0, index };
                    !self.places.contains_key(&key) && !self.unplaced.iter().any(|(other, ..)| *other == key)
                })
                .collect();
            for index in bitmaps {
                self.deepen(index + 1)?;
                self.touch(PoolKey { level: 0, index }, BLOCK)?;
            }
            let unplaced = std::mem::take(&mut self.unplaced);
            if unplaced.is_empty() {
                return Ok(());
            }
            let mut alike: BTreeMap<(PageSize, Life), Vec<PoolKey>> = BTreeMap::new();
            for (key, size, life) in unplaced {
                alike.entry((size, life)).or_default().push(key);
            }
            for ((size, life), keys) in alike {
                let places = self.batcher.allocator.take_places(
                    size,
                    keys.len() as u64,
                    life,
                    &mut closed.reserved,
                )?;
                for (key, place) in keys.into_iter().zip(places) {
                    let place = match self.batcher.failpoints.is_on(Failpoint::OverwriteInPlace) {
                        true => self.old_place(key, place)?,
                        false => place,
                    };
                    self.reach(place, size)?;
                    self.places.insert(key, place);
                    let entry = PageEntry::sized(place, size, closed.batch);
                    if key.level == 0 {
                        self.translations.insert(key.index, entry);
                    }
                    self.set(key, entry);
                }
            }
        }
    }

    /// Adds levels to the page table until it maps `logical_end` pages.
    fn deepen(&mut self, logical_end: u64) -> Result<()> {
        while node::span(self.depth) < logical_end {
            let below = PoolKey { level: self.depth, index: 0 };
            self.depth += 1;
            self.touch_node(self.depth, 0)?;
            if let Some(&place) = self.places.get(&below) {
                self.set(below, PageEntry::new(place, self.batch));
            } else if below.level == self.old.depth {
                self.set(below, self.old.table);
            }
        }
        Ok(())
    }

    /// Notes that an object is written by this batch, and with it every node above it.
    fn touch(&mut self, key: PoolKey, size: PageSize) -> Result<()> {
        let before = self.abandon(key, Place::default())?;
        let life = match before {
            Some(before) if key.level == 0 && !is_bitmap(key.index) => {
                self.batcher.allocator.space.lock().life(self.batch - before.batch)
            }
            _ => Life::Short,
        };
        self.unplaced.push((key, size, life));
        if key.level < self.depth {
            self.touch_node(key.level + 1, node::node_base(key.level + 1, key.index))?;
        }
        Ok(())
    }

    /// Sets the page table's entry of a page that is at its place already, or that is gone.
    fn point(&mut self, logical: u64, entry: PageEntry) -> Result<()> {
        let key = PoolKey { level: 0, index: logical };
        let before = self.abandon(key, entry.place)?.unwrap_or_default();
        self.touch_node(1, node::node_base(1, logical))?;
        self.set(key, entry);
        let new = entry.place.copies().filter(|copy| !before.place.has(*copy));
        self.reach(Place::of(new), entry.size)
    }

    /// Marks copies in the bitmaps.
    fn reach(&mut self, place: Place, size: PageSize) -> Result<()> {
        let pages = self.batcher.allocator.physical_pages(size);
        for copy in place.copies() {
            let bitmap = self.space_of(copy, |space| space.reach(copy, pages))?;
            self.bitmaps.extend(bitmap);
        }
        Ok(())
    }

    fn touch_node(&mut self, level: u8, base: u64) -> Result<()> {
        let key = PoolKey { level, index: base };
        if self.nodes.contains_key(&key) {
            return Ok(());
        }
        let node = match self.batcher.table.node(level, base)? {
            Some(latch) => {
                let page = Page::clone(&latch);
                self.pins.extend(self.batcher.pool.get(key));
                page
            }
            None => Page::new(PageKind::PageTable),
        };
        self.nodes.insert(key, node);
        self.touch(key, BLOCK)
    }

    /// Notes that the old copies of an object, but for those that it `keeps`, are given up. Returns its old entry.
    fn abandon(&mut self, key: PoolKey, keeps: Place) -> Result<Option<PageEntry>> {
        // Beyond the old depth there are new nodes only.
        if key.level > self.old.depth {
            return Ok(None);
        }
        let entry = self.batcher.table.entry(key.level, key.index)?;
        if let Some(entry) = entry {
            let given_up = Place::of(entry.place.copies().filter(|copy| !keeps.has(*copy)));
            let pages = self.batcher.allocator.physical_pages(entry.size);
            let short = self.batcher.failpoints.is_on(Failpoint::ExtentFreedShort) && pages > 1;
            for copy in given_up.copies() {
                let bitmap = self.space_of(copy, |space| space.abandon(copy, pages - u64::from(short)))?;
                self.bitmaps.extend(bitmap);
            }
            if given_up != Place::default() && !short {
                self.abandoned.push(PageEntry { place: given_up, ..entry });
            }
        }
        Ok(entry)
    }

    /// Sets an object's entry in the new copy of the node above it.
    fn set(&mut self, key: PoolKey, entry: PageEntry) {
        if key.level == self.depth {
            return;
        }
        let level = key.level + 1;
        let above = PoolKey { level, index: node::node_base(level, key.index) };
        let node = self.nodes.get_mut(&above).expect("an object is touched together with the nodes above it");
        node::set_entry(node, node::slot(level, key.index), entry);
    }

    fn space_of<T>(&self, copy: u64, f: impl FnOnce(&mut Spaces) -> T) -> Result<T> {
        self.batcher.allocator.load_bitmap(place::bitmap_of(copy))?;
        Ok(f(&mut self.batcher.allocator.space.lock()))
    }

    /// Returns the place where a page was, instead of its new one: see [`Failpoint::OverwriteInPlace`].
    fn old_place(&mut self, key: PoolKey, place: Place) -> Result<Place> {
        if key.level == 0
            && !is_bitmap(key.index)
            && self.old.depth > 0
            && let Some(entry) = self.batcher.table.entry(0, key.index)?
        {
            self.abandoned.retain(|page| *page != entry);
            return Ok(entry.place);
        }
        Ok(place)
    }
}
