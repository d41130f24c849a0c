//! The mirror: the disks of a store, and pages read and written there with all their copies.
//!
//! Promises: a page is read if a copy of it is whole, or both together are, and damage that is met is noted for the
//! [`Repairer`](repair::Repairer). What is written reaches every disk that it is meant for; a mirrored store goes on
//! without a disk that fails ([`disks`]). The mirror does not know what pages mean: where they are is told by the page
//! table, and which places are free by the allocator, whose map loses the space of a lost disk.

pub mod disks;
pub mod files;
mod mend;
pub mod repair;

use std::collections::{BTreeSet, VecDeque};

use self::disks::{Disks, Member};
use super::{
    allocator::spaces::SpaceMap,
    counters::Counters,
    page_table::{node::PageEntry, place},
};
use crate::{
    Error, Result,
    disk::SECTOR_BYTES,
    failpoint::{Failpoint, Failpoints},
    page::{Identity, Page, PageSize, combine, pool::PoolKey},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// The disks of a store with what is known about the copies on them.
pub struct Mirror {
    pub disks: Disks,
    /// The allocator's map: a lost disk has no space.
    space: Arc<SpaceMap>,
    pub database: u64,
    /// The size of a physical page, and of the smallest page.
    unit: PageSize,
    pub counters: Arc<Counters>,
    /// True if every page has as many copies as it should, as far as is known.
    pub copies_whole: AtomicBool,
    /// True if a page without all its copies was found since making missing copies began from the first page.
    fill_found: AtomicBool,
    /// True if a disk was lost and no other has taken its place since.
    wants_disk: AtomicBool,
    /// Objects with a copy that was found damaged: nodes by their first page.
    damaged: Mutex<BTreeSet<PoolKey>>,
    /// Messages about disks and copies that were not taken yet.
    reports: Mutex<VecDeque<String>>,
    failpoints: Failpoints,
}

/// The state of the copies that opening has found.
pub struct FoundCopies {
    /// True if every page has as many copies as it should.
    pub whole: bool,
    /// True if a disk is missing.
    pub wants_disk: bool,
    /// The reasons why disks were left behind.
    pub reports: Vec<String>,
}

impl Mirror {
    pub fn new(
        disks: Disks,
        space: Arc<SpaceMap>,
        database: u64,
        counters: Arc<Counters>,
        found: FoundCopies,
        failpoints: Failpoints,
    ) -> Mirror {
        Mirror {
            unit: disks.unit(),
            disks,
            space,
            database,
            counters,
            copies_whole: AtomicBool::new(found.whole),
            fill_found: AtomicBool::new(true),
            wants_disk: AtomicBool::new(found.wants_disk),
            damaged: Mutex::default(),
            reports: Mutex::new(found.reports.into()),
            failpoints,
        }
    }

    /// True if each page has two copies.
    pub fn is_mirrored(&self) -> bool {
        self.disks.is_mirrored()
    }

    /// True if every page has as many copies as it should, and no copy is damaged, as far as is known.
    pub fn has_all_copies(&self) -> bool {
        self.copies_whole.load(Ordering::Acquire) && self.damaged.lock().is_empty()
    }

    /// True if a disk was lost and no other has taken its place since.
    pub fn wants_disk(&self) -> bool {
        self.wants_disk.load(Ordering::Acquire)
    }

    /// True if disk number `given`, of those given at opening or added since, is one of the store's.
    pub fn uses_disk(&self, given: usize) -> bool {
        self.disks.present().iter().any(|(_, member)| member.given == given)
    }

    /// Adds a disk; with `mirror`, each page has copies from now on.
    fn add(&self, number: usize, member: Member, entry: super::superblock::DiskEntry, mirror: bool) {
        self.disks.add(number, member, entry);
        let mut space = self.space.lock();
        space.add(number, super::allocator::space::Space::new(entry.end, entry.used, entry.cursor));
        if mirror {
            self.disks.set_mirrored();
            space.set_mirrored();
        }
        drop(space);
        if self.disks.is_mirrored() {
            self.note_missing_copies();
            self.wants_disk.store(false, Ordering::Release);
        }
    }

    /// Notes that pages have fewer copies than they should.
    pub fn note_missing_copies(&self) {
        // In this order: see `end_filling`.
        self.fill_found.store(true, Ordering::Release);
        self.copies_whole.store(false, Ordering::Release);
    }

    /// Records a message about disks and copies for the operator of the database.
    pub fn report(&self, text: String) {
        /// Number of messages that are kept at most; the oldest are dropped.
        const REPORTS_MAX: usize = 100;
        let mut reports = self.reports.lock();
        if reports.len() == REPORTS_MAX {
            reports.pop_front();
        }
        reports.push_back(text);
    }

    /// Takes the messages about disks and copies that were recorded since the last call.
    pub fn take_reports(&self) -> Vec<String> {
        self.reports.lock().drain(..).collect()
    }

    /// Returns the identity that the page at `entry` must carry.
    pub fn identity_of(&self, level: u8, logical: u64, entry: PageEntry) -> Identity {
        Identity { database: self.database, level, logical, batch: entry.batch, early: entry.early }
    }

    pub fn corrupt(&self, physical: u64, detail: impl Into<String>) -> Error {
        Error::Corrupt {
            file: files::file_name(place::disk_of(physical)),
            page: place::page_of(physical),
            detail: detail.into(),
        }
    }

    /// Reads the page at `entry`, and checks its identity. Reads the copy whose disk has less to do; if that is not
    /// whole, the other one; if neither is, combines their whole sectors. Notes damage, so that it is repaired.
    pub fn read_page(&self, level: u8, logical: u64, entry: PageEntry) -> Result<Page> {
        let mut failed = None;
        for copy in self.disks.readable(entry.place) {
            match self.read_copy(level, logical, copy, entry) {
                Ok(page) => {
                    if failed.is_some() {
                        self.damaged.lock().insert(PoolKey { level, index: logical });
                    }
                    return Ok(page);
                }
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        if let Some((page, _)) = self.combined(level, logical, entry) {
            self.damaged.lock().insert(PoolKey { level, index: logical });
            return Ok(page);
        }
        Err(failed.unwrap_or_else(|| self.corrupt(entry.place.first, "the disks that it was on are lost")))
    }

    pub fn read_copy(&self, level: u8, logical: u64, copy: u64, entry: PageEntry) -> Result<Page> {
        let mut block = vec![0; entry.size.bytes()];
        self.read_copy_into(level, logical, copy, entry, &mut block)
    }

    /// Reads a copy as it stands on the disk, and checks it.
    pub fn read_copy_into(
        &self,
        level: u8,
        logical: u64,
        copy: u64,
        entry: PageEntry,
        block: &mut [u8],
    ) -> Result<Page> {
        self.read_block(copy, block)?;
        let expected = self.identity_of(level, logical, entry);
        if self.failpoints.is_on(Failpoint::ChecksumUnchecked) {
            Page::make_whole(block);
        }
        Page::unseal_expected(block, expected)
            .map_err(|detail| self.corrupt(copy, format!("logical page {logical}, level {level}: {detail}")))
    }

    /// Reads pages that follow each other on a disk.
    pub fn read_block(&self, physical: u64, blocks: &mut [u8]) -> Result<()> {
        self.disks.read(physical, blocks).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt(physical, "it lies past the end of the file"),
            std::io::ErrorKind::NotFound => self.corrupt(physical, "the disk that it was on is lost"),
            _ => error.into(),
        })
    }

    /// Returns the page put together from the whole sectors of both of its copies, and its block.
    pub fn combined(&self, level: u8, logical: u64, entry: PageEntry) -> Option<(Page, Vec<u8>)> {
        let there: Vec<u64> = entry.place.copies().filter(|copy| self.disks.is_there(*copy)).collect();
        let [one, other] = there[..] else { return None };
        let [one, other] = [one, other].map(|copy| self.read_sectors(copy, entry.size.bytes()));
        let expected = self.identity_of(level, logical, entry);
        [(&one, &other), (&other, &one)].into_iter().find_map(|(block, other)| {
            let block = combine(block, other);
            Page::unseal_expected(&block, expected).ok().map(|page| (page, block))
        })
    }

    /// Reads a copy; if it cannot be read as a whole, sector by sector. Sectors that cannot be read are zero.
    fn read_sectors(&self, copy: u64, bytes: usize) -> Vec<u8> {
        let mut block = vec![0; bytes];
        if self.disks.read(copy, &mut block).is_ok() {
            return block;
        }
        let Some(member) = self.disks.member(place::disk_of(copy)) else { return block };
        let offsets = (self.disks.offset(copy)..).step_by(SECTOR_BYTES);
        for (sector, offset) in block.chunks_exact_mut(SECTOR_BYTES).zip(offsets) {
            if member.file.read_at(offset, sector).is_err() {
                sector.fill(0);
            }
        }
        block
    }
}
