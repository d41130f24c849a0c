//! Commit batches: from closing to publishing (the steps are named in the module above; Shadows, Figure 2).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    ShadowStore, When,
    clean::Move,
    disks::StateOf,
    early::EarlyPages,
    place::{self, Place, is_bitmap},
    root::{LISTED_BYTES_MAX, ListedRun, RUNS_MAX, Root},
    space::Life,
    table::{self, BLOCK, PageEntry},
};
use crate::{
    Csn, Result,
    disk::File,
    failpoint::Failpoint,
    page::{
        Page, PageCounts, PageKind, PageSize,
        pool::{Frame, Pin, PoolKey},
    },
    sync::{Arc, atomic::Ordering},
};

/// The contents of a batch, as it was closed.
struct Closed {
    batch: u64,
    csn: Csn,
    logical_end: u64,
    /// Changed pages: their frames, and their images as they were at closing.
    images: BTreeMap<u64, (Arc<Frame>, Page)>,
    /// Pages written early and unchanged since.
    early: Arc<EarlyPages>,
    /// Early places of pages that changed again.
    early_outdated: Vec<PageEntry>,
    freed: BTreeSet<u64>,
    /// The pages that the cleaner or a repair moves.
    moved: Vec<Move>,
    rewritten: Vec<PoolKey>,
    /// True if pages were written early, and so perhaps twice under this batch's number.
    wrote_early: bool,
    reserved: PageCounts,
}

/// A batch while it is built.
struct Building {
    batch: u64,
    /// The depth of the new page table.
    depth: u8,
    /// New copies of nodes, by level and first logical page; their children's entries are set as these are placed.
    nodes: BTreeMap<PoolKey, Page>,
    /// Keeps the old copies in the pool until the new ones are published, so that no reader goes to the disk for them.
    pins: Vec<Pin>,
    /// Where the objects of this batch go: data pages, bitmaps, nodes.
    places: HashMap<PoolKey, Place>,
    /// Objects that have no place yet: their sizes, and how long they are expected to stay as they are.
    unplaced: Vec<(PoolKey, PageSize, Life)>,
    /// Bitmaps that change, by their logical numbers.
    bitmaps: BTreeSet<u64>,
    /// The new entries of data pages that were not written early, for the translation cache.
    translations: BTreeMap<u64, PageEntry>,
    /// Copies that the new root does not reach any more.
    abandoned: Vec<PageEntry>,
}

impl ShadowStore {
    /// Writes one commit batch: everything applied by now becomes durable. The caller is the only one to do so.
    /// Returns the CSN up to which commits are durable.
    pub(super) fn write_batch(&self) -> Result<Csn> {
        self.check()?;
        let Some(closed) = self.close_batch()? else {
            return Ok(self.root.lock().csn);
        };
        let csn = closed.csn;
        self.build_and_write(closed)
            .and_then(|()| self.record_losses())
            .map_err(|error| self.poison(&error))?;
        Ok(csn)
    }

    /// Writes the root once more if a disk was lost since the last that says which are there: otherwise the lost one,
    /// should it come back, could be taken for one that has everything.
    pub(super) fn record_losses(&self) -> Result<()> {
        while self.disks.has_unrecorded_loss() && !self.failpoints.is_on(Failpoint::LossUnrecorded) {
            self.write_next_root()?;
        }
        Ok(())
    }

    /// Writes the root of the last batch once more, without a list. The caller is the only one to write roots.
    pub(super) fn confirm_root(&self) -> Result<Csn> {
        {
            let mut accumulating = self.accumulating.lock();
            // Pages written early carry the number of a batch that is not durable: no root may have that, or what has
            // changed since it could not be told by numbers. The batch that they belong to will list nothing anyway.
            if accumulating.wrote_early && !self.failpoints.is_on(Failpoint::ConfirmedOverEarlyFlush) {
                return Ok(self.root.lock().csn);
            }
            accumulating.batch += 1;
        }
        let root = *self.root.lock();
        self.write_root_alone(Root { batch: root.batch + 1, ..root })
            .and_then(|()| self.record_losses())
            .map_err(|error| self.poison(&error))?;
        Ok(root.csn)
    }

    fn close_batch(&self) -> Result<Option<Closed>> {
        let _gate = self.gate.write();
        let _gate = (!self.failpoints.is_on(Failpoint::GateLeftOpen)).then_some(_gate);
        // Inside the gate: a transaction that poisoned the store in it has left half of its changes behind.
        let whole = self.check();
        if !self.failpoints.is_on(Failpoint::PoisonUnseen) {
            whole?;
        }
        let mut accumulating = self.accumulating.lock();
        let csn = self.last_csn();
        if accumulating.dirty.frames.is_empty()
            && accumulating.early.is_empty()
            && accumulating.freed.is_empty()
            && accumulating.moved.is_empty()
            && accumulating.rewritten.is_empty()
            && csn == self.root.lock().csn
        {
            let reserved = std::mem::take(&mut accumulating.reserved);
            accumulating.wrote_early = false;
            drop(accumulating);
            self.unreserve(&reserved);
            return Ok(None);
        }
        let batch = accumulating.batch;
        accumulating.batch += 1;
        let dirty = std::mem::take(&mut accumulating.dirty);
        let mut early = std::mem::take(&mut accumulating.early);
        let freed = std::mem::take(&mut accumulating.freed);
        let moved = std::mem::take(&mut accumulating.moved);
        let rewritten = std::mem::take(&mut accumulating.rewritten);
        let reserved = std::mem::take(&mut accumulating.reserved);
        let wrote_early = std::mem::take(&mut accumulating.wrote_early);
        let early_outdated = dirty.frames.keys().filter_map(|logical| early.remove(*logical)).collect();
        let early = Arc::new(early);
        accumulating.early_in_flight = (batch, early.clone());
        drop(accumulating);
        let images = dirty
            .frames
            .into_iter()
            .map(|(logical, (frame, _))| {
                frame.in_flight.store(true, Ordering::Release);
                frame.dirty.store(false, Ordering::Release);
                let image =
                    frame.try_read().expect("outside the gate nobody latches a changed page exclusively");
                let image = Page::clone(&image);
                (logical, (frame, image))
            })
            .collect();
        let logical_end = self.logical.lock().end;
        Ok(Some(Closed {
            batch,
            csn,
            logical_end,
            images,
            early,
            early_outdated,
            freed,
            moved,
            rewritten,
            wrote_early,
            reserved,
        }))
    }

    fn build_and_write(&self, mut closed: Closed) -> Result<()> {
        let old = *self.root.lock();
        let batch = closed.batch;
        for &page in &closed.early_outdated {
            self.release_for_reservation(page);
            closed.reserved[page.size] += 1;
        }
        let mut building = self.build(&mut closed, &old)?;
        let table = building.places.get(&PoolKey { level: building.depth, index: 0 }).copied();
        let root = Root {
            batch,
            csn: closed.csn,
            logical_end: closed.logical_end,
            used: self.space.lock().reachable(),
            depth: building.depth,
            closed: false,
            copies_whole: self.copies_whole.load(Ordering::Acquire),
            table: table.map_or(old.table, |place| PageEntry::new(place, batch)),
            log: self.next_mark(&old)?,
            ..old
        };
        let nodes: Vec<(PoolKey, Page)> = std::mem::take(&mut building.nodes).into_iter().collect();
        let mut pages: Vec<(Place, PoolKey, Page)> =
            nodes.iter().map(|(key, page)| (building.places[key], *key, page.clone())).collect();
        for (&index, (_, image)) in &closed.images {
            let key = PoolKey { level: 0, index };
            pages.push((building.places[&key], key, image.clone()));
        }
        for &index in &building.bitmaps {
            let key = PoolKey { level: 0, index };
            // The bitmap of a disk that was lost just now has no meaning any more.
            let bitmap = self.space.lock().bitmap(index).unwrap_or_else(|| Page::new(PageKind::SpaceMap));
            pages.push((building.places[&key], key, bitmap));
        }

        let listed = match closed.wrote_early {
            // The list would have to name these too, and could not tell an earlier write of a page from the last.
            true => None,
            false => {
                let run = |(place, _, page): &(Place, PoolKey, Page)| ListedRun {
                    place: *place,
                    pages: self.physical_pages(page.size()),
                };
                list(pages.iter().map(run).collect(), (LISTED_BYTES_MAX / self.unit.bytes()) as u64)
            }
        };
        self.write_pages_and_root(&root, &pages, listed.as_deref())?;
        self.counters.batches.add(1);

        for (key, page) in nodes {
            self.pool.put(key, page);
        }
        let free = {
            let mut pins = self.pins.lock();
            *self.root.lock() = root;
            for (&logical, entry) in &building.translations {
                self.translations.publish(logical, entry.present());
            }
            for (logical, entry) in closed.early.iter(batch) {
                self.translations.publish(logical, Some(entry));
            }
            if self.failpoints.is_on(Failpoint::PinsIgnored) {
                building.abandoned
            } else {
                pins.give_up(building.abandoned, batch)
            }
        };
        self.accumulating.lock().early_in_flight = Default::default();
        for (frame, _) in closed.images.values() {
            frame.in_flight.store(false, Ordering::Release);
        }
        drop(building.pins);
        if self.failpoints.is_on(Failpoint::FreeScribbled) {
            self.scribble(&free)?;
        }
        self.release(free);
        self.unreserve(&closed.reserved);
        let wanted = self.space.lock().wants_cleaning();
        self.cleaning_wanted.store(wanted, Ordering::Release);
        Ok(())
    }

    /// Writes the pages of a batch and its root, durably. With a list of the pages all is synced at once.
    fn write_pages_and_root(
        &self,
        root: &Root,
        pages: &[(Place, PoolKey, Page)],
        listed: Option<&[ListedRun]>,
    ) -> Result<()> {
        let written = if self.failpoints.is_on(Failpoint::ListMissing) { None } else { listed };
        let table = self.disk_table(StateOf::Built);
        let finish = |disk: usize, file: &dyn File| {
            root.write(file, &table, disk, written.unwrap_or_default())?;
            if self.failpoints.is_on(Failpoint::SyncNotWaitedFor) { Ok(()) } else { file.sync() }
        };
        if listed.is_some() {
            self.write_pages(root.batch, When::WithBatch, pages, finish)?;
        } else {
            let sync = |_: usize, file: &dyn File| match self.failpoints.is_on(Failpoint::BatchUnsynced) {
                true => Ok(()),
                false => file.sync(),
            };
            self.write_pages(root.batch, When::WithBatch, pages, sync)?;
            self.on_all(|disk, member| finish(disk, &*member.file))?;
        }
        self.root_written(table);
        self.confirmed.store(listed.is_none(), Ordering::Release);
        Ok(())
    }

    /// Finds every object that the batch writes, gives each a place, and sets the entries of the page table.
    fn build(&self, closed: &mut Closed, old: &Root) -> Result<Building> {
        let mut building = Building {
            batch: closed.batch,
            depth: old.depth.max(1),
            nodes: BTreeMap::new(),
            pins: Vec::new(),
            places: HashMap::new(),
            unplaced: Vec::new(),
            bitmaps: BTreeSet::new(),
            translations: BTreeMap::new(),
            abandoned: Vec::new(),
        };
        self.deepen(&mut building, old, closed.logical_end)?;
        for (&logical, (_, image)) in &closed.images {
            self.touch(&mut building, old, PoolKey { level: 0, index: logical }, image.size())?;
        }
        for (logical, entry) in closed.early.iter(closed.batch) {
            self.point(&mut building, old, logical, entry)?;
        }
        for &logical in &closed.freed {
            building.translations.insert(logical, PageEntry::default());
            self.point(&mut building, old, logical, PageEntry::default())?;
        }
        for &Move { logical, from, to } in &closed.moved {
            // A page that was changed after it was copied has moved by that.
            let changed = closed.images.contains_key(&logical)
                || closed.early.contains(logical)
                || closed.freed.contains(&logical)
                // By another move: the cleaner and repair do not know of each other.
                || building.translations.contains_key(&logical)
                || self.entry(0, logical)? != Some(from);
            if changed && !self.failpoints.is_on(Failpoint::MovedOutdated) {
                // The copies that stay where they are are not new.
                let new = Place::of(to.place.copies().filter(|copy| !from.place.has(*copy)));
                self.release([PageEntry { place: new, ..to }]);
            } else {
                building.translations.insert(logical, to);
                self.point(&mut building, old, logical, to)?;
            }
        }
        for &key in &closed.rewritten {
            match key.level {
                _ if self.entry(key.level, key.index)?.is_none() => {}
                0 => {
                    self.load_bitmap(key.index)?;
                    building.bitmaps.insert(key.index);
                }
                level => self.touch_node(&mut building, old, level, key.index)?,
            }
        }
        // Placing changes bitmaps, and a bitmap is an object to place: until nothing is left.
        loop {
            let bitmaps: Vec<u64> = building
                .bitmaps
                .iter()
                .copied()
                .filter(|&index| {
                    let key = PoolKey { level: 0, index };
                    !building.places.contains_key(&key)
                        && !building.unplaced.iter().any(|(other, ..)| *other == key)
                })
                .collect();
            for index in bitmaps {
                self.deepen(&mut building, old, index + 1)?;
                self.touch(&mut building, old, PoolKey { level: 0, index }, BLOCK)?;
            }
            let unplaced = std::mem::take(&mut building.unplaced);
            if unplaced.is_empty() {
                return Ok(building);
            }
            let mut alike: BTreeMap<(PageSize, Life), Vec<PoolKey>> = BTreeMap::new();
            for (key, size, life) in unplaced {
                alike.entry((size, life)).or_default().push(key);
            }
            for ((size, life), keys) in alike {
                let places = self.take_places(size, keys.len() as u64, life, &mut closed.reserved)?;
                for (key, place) in keys.into_iter().zip(places) {
                    let place = match self.failpoints.is_on(Failpoint::OverwriteInPlace) {
                        true => self.old_place(&mut building, key, old, place)?,
                        false => place,
                    };
                    self.reach(&mut building, place, size)?;
                    building.places.insert(key, place);
                    let entry = PageEntry::sized(place, size, closed.batch);
                    if key.level == 0 {
                        building.translations.insert(key.index, entry);
                    }
                    self.set(&mut building, key, entry);
                }
            }
        }
    }

    /// Adds levels to the page table until it maps `logical_end` pages.
    fn deepen(&self, building: &mut Building, old: &Root, logical_end: u64) -> Result<()> {
        while table::span(building.depth) < logical_end {
            let below = PoolKey { level: building.depth, index: 0 };
            building.depth += 1;
            self.touch_node(building, old, building.depth, 0)?;
            if let Some(&place) = building.places.get(&below) {
                self.set(building, below, PageEntry::new(place, building.batch));
            } else if below.level == old.depth {
                self.set(building, below, old.table);
            }
        }
        Ok(())
    }

    /// Notes that an object is written by this batch, and with it every node above it.
    fn touch(&self, building: &mut Building, old: &Root, key: PoolKey, size: PageSize) -> Result<()> {
        let before = self.abandon(building, old, key, Place::default())?;
        let life = match before {
            Some(before) if key.level == 0 && !is_bitmap(key.index) => {
                self.space.lock().life(building.batch - before.batch)
            }
            _ => Life::Short,
        };
        building.unplaced.push((key, size, life));
        if key.level < building.depth {
            self.touch_node(building, old, key.level + 1, table::node_base(key.level + 1, key.index))?;
        }
        Ok(())
    }

    /// Sets the page table's entry of a page that is at its place already, or that is gone.
    fn point(&self, building: &mut Building, old: &Root, logical: u64, entry: PageEntry) -> Result<()> {
        let key = PoolKey { level: 0, index: logical };
        let before = self.abandon(building, old, key, entry.place)?.unwrap_or_default();
        self.touch_node(building, old, 1, table::node_base(1, logical))?;
        self.set(building, key, entry);
        let new = entry.place.copies().filter(|copy| !before.place.has(*copy));
        self.reach(building, Place::of(new), entry.size)
    }

    /// Marks copies in the bitmaps.
    fn reach(&self, building: &mut Building, place: Place, size: PageSize) -> Result<()> {
        let pages = self.physical_pages(size);
        for copy in place.copies() {
            let bitmap = self.space_of(copy, |space| space.reach(copy, pages))?;
            building.bitmaps.extend(bitmap);
        }
        Ok(())
    }

    fn touch_node(&self, building: &mut Building, old: &Root, level: u8, base: u64) -> Result<()> {
        let key = PoolKey { level, index: base };
        if building.nodes.contains_key(&key) {
            return Ok(());
        }
        let node = match self.node(level, base)? {
            Some(latch) => {
                let page = Page::clone(&latch);
                building.pins.extend(self.pool.get(key));
                page
            }
            None => Page::new(PageKind::PageTable),
        };
        building.nodes.insert(key, node);
        self.touch(building, old, key, BLOCK)
    }

    /// Notes that the old copies of an object, but for those that it `keeps`, are given up. Returns its old entry.
    fn abandon(
        &self,
        building: &mut Building,
        old: &Root,
        key: PoolKey,
        keeps: Place,
    ) -> Result<Option<PageEntry>> {
        // Beyond the old depth there are new nodes only.
        if key.level > old.depth {
            return Ok(None);
        }
        let entry = self.entry(key.level, key.index)?;
        if let Some(entry) = entry {
            let given_up = Place::of(entry.place.copies().filter(|copy| !keeps.has(*copy)));
            let pages = self.physical_pages(entry.size);
            let short = self.failpoints.is_on(Failpoint::ExtentFreedShort) && pages > 1;
            for copy in given_up.copies() {
                let bitmap = self.space_of(copy, |space| space.abandon(copy, pages - u64::from(short)))?;
                building.bitmaps.extend(bitmap);
            }
            if given_up != Place::default() && !short {
                building.abandoned.push(PageEntry { place: given_up, ..entry });
            }
        }
        Ok(entry)
    }

    /// Sets an object's entry in the new copy of the node above it.
    fn set(&self, building: &mut Building, key: PoolKey, entry: PageEntry) {
        if key.level == building.depth {
            return;
        }
        let level = key.level + 1;
        let above = PoolKey { level, index: table::node_base(level, key.index) };
        let node =
            building.nodes.get_mut(&above).expect("an object is touched together with the nodes above it");
        table::set_entry(node, table::slot(level, key.index), entry);
    }

    fn space_of<T>(&self, copy: u64, f: impl FnOnce(&mut super::Spaces) -> T) -> Result<T> {
        self.load_bitmap(place::bitmap_of(copy))?;
        Ok(f(&mut self.space.lock()))
    }

    /// Overwrites free places, so that a reader that still reads one notices it.
    fn scribble(&self, free: &[PageEntry]) -> Result<()> {
        let nonsense: Vec<_> =
            free.iter().map(|page| (page.place, page.size, |block: &mut [u8]| block.fill(0xff))).collect();
        self.write_blocks(&nonsense, |_, _| Ok(()))
    }

    /// Returns the place where a page was, instead of its new one: see [`Failpoint::OverwriteInPlace`].
    fn old_place(&self, building: &mut Building, key: PoolKey, old: &Root, place: Place) -> Result<Place> {
        if key.level == 0
            && !is_bitmap(key.index)
            && old.depth > 0
            && let Some(entry) = self.entry(0, key.index)?
        {
            building.abandoned.retain(|page| *page != entry);
            return Ok(entry.place);
        }
        Ok(place)
    }
}

/// Returns the pages as runs, if they are few enough for a root to list, and for opening to read.
fn list(mut pages: Vec<ListedRun>, physical_pages_max: u64) -> Option<Vec<ListedRun>> {
    if pages.iter().map(|page| page.pages).sum::<u64>() > physical_pages_max {
        return None;
    }
    pages.sort_unstable_by_key(|page| page.place);
    let mut runs: Vec<ListedRun> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.place.after(run.pages) == page.place => run.pages += page.pages,
            _ => runs.push(page),
        }
    }
    (runs.len() <= RUNS_MAX).then_some(runs)
}
