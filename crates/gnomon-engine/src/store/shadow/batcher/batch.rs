//! Commit batches: from closing to publishing (the steps are named in the module above; Shadows, Figure 2).

use super::{
    Batcher, When,
    build::{Builder, Closed},
};
use crate::store::shadow::{
    mirror::disks::StateOf,
    page_table::{node::PageEntry, place::Place},
    superblock::{LISTED_BYTES_MAX, ListedRun, RUNS_MAX, Superblock},
};
use crate::{
    Csn, Result,
    disk::File,
    failpoint::Failpoint,
    page::{Page, PageKind, pool::PoolKey},
    sync::{Arc, atomic::Ordering},
};

impl Batcher {
    /// Writes one commit batch: everything applied by now becomes durable. The caller is the only one to do so.
    /// Returns the CSN up to which commits are durable.
    pub fn write_one_batch(&self) -> Result<Csn> {
        self.commits.check()?;
        let Some(closed) = self.close_batch()? else {
            return Ok(self.table.superblock().csn);
        };
        let csn = closed.csn;
        self.build_and_write(closed)
            .and_then(|()| self.record_losses())
            .map_err(|error| self.commits.poison(&error))?;
        Ok(csn)
    }

    fn close_batch(&self) -> Result<Option<Closed>> {
        let _gate = self.gate.write();
        let _gate = (!self.failpoints.is_on(Failpoint::GateLeftOpen)).then_some(_gate);
        // Inside the gate: a transaction that poisoned the store in it has left half of its changes behind.
        let whole = self.commits.check();
        if !self.failpoints.is_on(Failpoint::PoisonUnseen) {
            whole?;
        }
        let mut accumulating = self.accumulating.lock();
        let csn = self.commits.last_csn();
        if accumulating.dirty.frames.is_empty()
            && accumulating.early.is_empty()
            && accumulating.freed.is_empty()
            && accumulating.moved.is_empty()
            && accumulating.rewritten.is_empty()
            && csn == self.table.superblock().csn
        {
            let reserved = std::mem::take(&mut accumulating.reserved);
            accumulating.flushed_early = false;
            drop(accumulating);
            self.allocator.unreserve(&reserved);
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
        let flushed_early = std::mem::take(&mut accumulating.flushed_early);
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
        let logical_end = self.table.logical_end();
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
            flushed_early,
            reserved,
        }))
    }

    fn build_and_write(&self, mut closed: Closed) -> Result<()> {
        let old = self.table.superblock();
        let batch = closed.batch;
        for &page in &closed.early_outdated {
            self.allocator.release_for_reservation(page);
            closed.reserved[page.size] += 1;
        }
        let mut building = Builder::build(self, &mut closed, old)?;
        let table = building.places.get(&PoolKey { level: building.depth, index: 0 }).copied();
        let superblock = Superblock {
            batch,
            csn: closed.csn,
            logical_end: closed.logical_end,
            used: self.allocator.space.lock().reachable(),
            depth: building.depth,
            closed: false,
            copies_whole: self.mirror.copies_whole.load(Ordering::Acquire),
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
            let bitmap =
                self.allocator.space.lock().bitmap(index).unwrap_or_else(|| Page::new(PageKind::SpaceMap));
            pages.push((building.places[&key], key, bitmap));
        }

        let listed = match closed.flushed_early {
            // The list would have to name these too, and could not tell an earlier write of a page from the last.
            true => None,
            false => {
                let run = |(place, _, page): &(Place, PoolKey, Page)| ListedRun {
                    place: *place,
                    pages: self.allocator.physical_pages(page.size()),
                };
                list(pages.iter().map(run).collect(), (LISTED_BYTES_MAX / self.allocator.unit.bytes()) as u64)
            }
        };
        self.write_pages_and_superblock(&superblock, &pages, listed.as_deref())?;
        self.mirror.counters.batches.add(1);

        for (key, page) in nodes {
            self.pool.put(key, page);
        }
        let free = {
            let mut pins = self.snapshots.pins.lock();
            let written = building.translations.iter().map(|(&logical, &entry)| (logical, entry));
            self.table.publish(superblock, written.chain(closed.early.iter(batch)));
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
        self.allocator.release(free);
        self.allocator.unreserve(&closed.reserved);
        self.allocator.note_cleaning();
        Ok(())
    }

    /// Writes the pages of a batch and its superblock, durably. With a list of the pages all is synced at once.
    fn write_pages_and_superblock(
        &self,
        superblock: &Superblock,
        pages: &[(Place, PoolKey, Page)],
        listed: Option<&[ListedRun]>,
    ) -> Result<()> {
        let written = if self.failpoints.is_on(Failpoint::ListMissing) { None } else { listed };
        let table = self.mirror.disk_table(StateOf::Built);
        let finish = |disk: usize, file: &dyn File| {
            superblock.write(file, &table, disk, written.unwrap_or_default())?;
            if self.failpoints.is_on(Failpoint::SyncNotWaitedFor) { Ok(()) } else { file.sync() }
        };
        if listed.is_some() {
            self.write_pages(superblock.batch, When::WithBatch, pages, finish)?;
        } else {
            let sync = |_: usize, file: &dyn File| match self.failpoints.is_on(Failpoint::BatchUnsynced) {
                true => Ok(()),
                false => file.sync(),
            };
            self.write_pages(superblock.batch, When::WithBatch, pages, sync)?;
            self.mirror.on_all(|disk, member| finish(disk, &*member.file))?;
        }
        self.mirror.superblock_written(table);
        self.confirmed.store(listed.is_none(), Ordering::Release);
        Ok(())
    }

    /// Overwrites free places, so that a reader that still reads one notices it.
    fn scribble(&self, free: &[PageEntry]) -> Result<()> {
        let nonsense: Vec<_> =
            free.iter().map(|page| (page.place, page.size, |block: &mut [u8]| block.fill(0xff))).collect();
        self.mirror.write_blocks(&nonsense, |_, _| Ok(()))
    }
}

/// Returns the pages as runs, if they are few enough for a superblock to list, and for opening to read.
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
