//! Reading all of a store: the checks of `gnomon verify`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ShadowStore,
    allocator::space::{self, SEGMENT_PAGES},
    finding::{Finding, Severity},
    mirror::{disks::StateOf, files::file_name},
    page_table::{
        node::{self, FANOUT, PageEntry},
        place::{self, CHUNK_PAGES, SUPERBLOCK_PAGES},
    },
    superblock::{self, ListedRun, SuperblockFault},
};
use crate::{
    Error, Result,
    page::{PageId, PageKind, PageSize, damaged_sector},
    sync::atomic::Ordering,
};

/// The contents of a store, as found by reading all of it.
#[derive(Clone, Debug, Default)]
pub struct StoreReport {
    /// The faults.
    pub findings: Vec<Finding>,
    /// Logical pages in use, without bitmaps: the owner of the store accounts for each.
    pub data_pages: BTreeSet<PageId>,
    /// Physical pages read.
    pub pages_read: u64,
    /// Nodes of the page table.
    pub table_pages: u64,
    /// Pages of the file that are not in use.
    pub free_pages: u64,
    /// Segments of the file without a page in use.
    pub segments_empty: u64,
}

impl ShadowStore {
    /// Reads every page of every disk: checks the copies of the superblock, every copy of every page that it reaches,
    /// that the bitmaps say the same, and that the sectors of free space are zero or whole. The store must not change
    /// meanwhile. `progress` is called with pages read and pages in all.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<StoreReport> {
        let mut walk = Walk {
            store: self,
            report: StoreReport::default(),
            reached: BTreeMap::new(),
            copies: self.allocator.space.lock().copies(),
            newest: Vec::new(),
            incomplete: Vec::new(),
            complete: true,
            progress,
        };
        walk.superblocks()?;
        let superblock = self.table.superblock();
        if let (Some(entry), 1..) = (superblock.table.present(), superblock.depth) {
            walk.object(superblock.depth, 0, entry)?;
        }
        for (disk, _) in self.mirror.disks.present() {
            walk.space(disk)?;
        }
        walk.doubt_incomplete();
        Ok(walk.report)
    }
}

struct Walk<'a> {
    store: &'a ShadowStore,
    report: StoreReport,
    /// Every reached physical page, with its level and logical number.
    reached: BTreeMap<u64, (u8, u64)>,
    /// Copies that each page should have.
    copies: usize,
    /// Where the newest batch wrote, if it lists its pages: there a crash may have left only one copy of each, and
    /// opening the store for writing writes the other.
    newest: Vec<std::ops::Range<u64>>,
    /// Indices of the findings about a batch after the newest whole one.
    incomplete: Vec<usize>,
    /// True if no damage hides other pages that are reached.
    complete: bool,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Walk<'_> {
    fn find(&mut self, physical: u64, detail: impl Into<String>, severity: Severity) {
        self.report.findings.push(Finding {
            file: file_name(place::disk_of(physical)),
            page: place::page_of(physical),
            detail: detail.into(),
            severity,
        });
    }

    /// Raises the severity of incomplete batches if there is other damage. A crash that cuts a batch short leaves no
    /// damaged sector. Where there is one, the batch may have been whole, and its commits acknowledged.
    fn doubt_incomplete(&mut self) {
        let findings = &mut self.report.findings;
        if findings.iter().all(|finding| finding.severity == Severity::Trace) {
            return;
        }
        for at in &self.incomplete {
            findings[*at].severity = Severity::Data;
            findings[*at].detail += ", or damaged since, as other sectors are: then its commits are lost";
        }
    }

    /// Notes damage of an object, and so of the objects that may be below it.
    fn damaged(&mut self, page: u64, detail: impl Into<String>) {
        self.complete = false;
        self.find(page, detail, Severity::Data);
    }

    fn superblocks(&mut self) -> Result<()> {
        let newest = self.store.table.superblock();
        let copies = self.store.mirror.disks.present().into_iter().map(|(disk, member)| {
            let copies = superblock::read_copies(&*member.file)?.into_iter().enumerate();
            Ok(copies.map(move |(at, copy)| (disk, at as u64, copy)))
        });
        let copies: Vec<_> = copies.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        for (disk, at, copy) in copies {
            let pages = superblock::physical_pages(newest.unit) / SUPERBLOCK_PAGES;
            let place = place::physical(disk, at * pages);
            self.reached.extend((place..place + pages).map(|physical| (physical, (0, 0))));
            match copy {
                Err(SuperblockFault::Damaged(detail)) => {
                    let detail = format!("copy {at} of the page table pointer (another is whole): {detail}");
                    self.find(place, detail, Severity::Spare);
                }
                Err(SuperblockFault::Torn) => {
                    let detail = format!("copy {at} of the page table pointer was cut short by a crash");
                    self.find(place, detail, Severity::Trace);
                }
                Err(SuperblockFault::TooNew(found)) => {
                    return Err(Error::TooNew { found, known: superblock::FORMAT_VERSION });
                }
                Err(SuperblockFault::TooOld(found)) => {
                    return Err(Error::TooOld { found, oldest: superblock::FORMAT_VERSION });
                }
                Ok(copy) if copy.superblock.batch > newest.batch => {
                    let detail = format!(
                        "batch {} is incomplete: cut short by a crash before it was acknowledged",
                        copy.superblock.batch
                    );
                    self.incomplete.push(self.report.findings.len());
                    self.find(place, detail, Severity::Trace);
                }
                Ok(copy) if copy.superblock.batch == newest.batch && self.copies > 1 => {
                    let copies = |run: &ListedRun| -> Vec<std::ops::Range<u64>> {
                        run.place.copies().map(|copy| copy..copy + run.pages).collect()
                    };
                    self.newest = copy.listed.iter().flat_map(copies).collect();
                }
                Ok(copy) if copy.superblock.database != newest.database => {
                    self.find(
                        place,
                        "this copy of the page table pointer is another database's",
                        Severity::Spare,
                    );
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// True if the fault of a copy can be left by a crash while the newest batch was written: whole sectors, or a
    /// file that had not grown yet.
    fn is_cut_short(&self, copy: u64, size: PageSize) -> bool {
        if !self.newest.iter().any(|run| run.contains(&copy)) {
            return false;
        }
        let mut block = vec![0; size.bytes()];
        match self.store.mirror.disks.read(copy, &mut block) {
            Ok(()) => damaged_sector(&block).is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
        }
    }

    /// Checks a page and all below it.
    fn object(&mut self, level: u8, logical: u64, entry: PageEntry) -> Result<()> {
        let mut whole = None;
        let mut wrong = Vec::new();
        let there = entry.place.copies().filter(|copy| self.store.mirror.disks.is_there(*copy)).count();
        if there < self.copies && self.store.mirror.copies_whole.load(Ordering::Acquire) {
            let detail = format!("page {logical} of level {level} has {there} copies, not {}", self.copies);
            self.find(entry.place.first, detail, Severity::Spare);
        }
        for copy in entry.place.copies().filter(|copy| self.store.mirror.disks.is_there(*copy)) {
            let pages = self.store.allocator.physical_pages(entry.size);
            for physical in copy..copy + pages {
                if let Some((other_level, other)) = self.reached.insert(physical, (level, logical)) {
                    self.damaged(
                        physical,
                        format!("both page {other} of level {other_level} and page {logical} of level {level} are mapped to it"),
                    );
                    return Ok(());
                }
            }
            self.report.pages_read += pages;
            (self.progress)(self.report.pages_read, self.store.table.superblock().used);
            match self.store.mirror.read_copy(level, logical, copy, entry) {
                Ok(page) => whole = Some(page),
                Err(Error::Corrupt { detail, .. }) => wrong.push((copy, detail)),
                Err(error) => wrong.push((copy, error.to_string())),
            }
        }
        let whole = whole.map(|page| (page, "the other copy is whole"));
        let put_together =
            || Some((self.store.mirror.combined(level, logical, entry)?.0, "both copies together are whole"));
        let Some((page, how)) = whole.or_else(put_together) else {
            if wrong.is_empty() {
                wrong.push((entry.place.first, "the disks that it was on are lost".to_owned()));
            }
            for (copy, detail) in wrong {
                self.damaged(copy, detail);
            }
            return Ok(());
        };
        for (copy, detail) in wrong {
            let (severity, repair) = match self.is_cut_short(copy, entry.size) {
                true => {
                    (Severity::Trace, "a crash cut its writing short, and opening the database repairs it")
                }
                false => (Severity::Spare, "`gnomon scrub` repairs this one"),
            };
            self.find(copy, format!("{detail} ({how}: {repair})"), severity);
        }
        let expected_table = level > 0;
        if (page.kind() == PageKind::PageTable) != expected_table
            || (level == 0 && (page.kind() == PageKind::SpaceMap) != place::is_bitmap(logical))
        {
            self.damaged(
                entry.place.first,
                format!("page {logical} of level {level} is of kind {:?}", page.kind()),
            );
            return Ok(());
        }
        if level == 0 {
            if !place::is_bitmap(logical) {
                self.report.data_pages.insert(PageId(logical));
            }
            return Ok(());
        }
        self.report.table_pages += 1;
        for slot in 0..FANOUT {
            if let Some(child) = node::entry(&page, slot as usize).present() {
                self.object(level - 1, logical + slot * node::span(level - 1), child)?;
            }
        }
        Ok(())
    }

    /// Compares the bitmaps of a disk with what is reached of it, and reads what is free.
    fn space(&mut self, disk: usize) -> Result<()> {
        let Some(member) = self.store.mirror.disks.member(disk) else { return Ok(()) };
        let told =
            self.store.mirror.disk_table(StateOf::Published).disks.get(disk).copied().unwrap_or_default();
        let end = told.end;
        let mut marked = BTreeSet::new();
        for chunk in 0..end.div_ceil(CHUNK_PAGES) {
            let logical = place::bitmap(disk, chunk);
            let Ok(Some(entry)) = self.store.table.entry(0, logical) else {
                // A new disk has none yet.
                let superblocks =
                    if chunk == 0 { superblock::physical_pages(self.store.allocator.unit) } else { 0 };
                marked.extend((0..superblocks).map(|page| place::physical(disk, page)));
                continue;
            };
            // A damaged bitmap was reported when the page table was walked.
            if let Ok(bitmap) = self.store.mirror.read_page(0, logical, entry) {
                let first = place::physical(disk, chunk * CHUNK_PAGES);
                marked.extend(space::marked(&bitmap).map(|offset| first + offset));
            } else {
                return Ok(());
            }
        }
        let first = place::physical(disk, 0);
        let range = first..place::physical(disk, place::DISK_PAGES_MAX - 1);
        let reached: BTreeSet<u64> = self.reached.range(range).map(|(page, _)| *page).collect();
        // Below damage nothing was reached: differences would tell nothing new.
        if self.complete && !self.store.is_new() {
            for &page in marked.symmetric_difference(&reached) {
                let detail = match self.reached.get(&page) {
                    Some((level, logical)) => {
                        format!("page {logical} of level {level} is here, but its bitmap says free")
                    }
                    None => "its bitmap says in use, but nothing points to it".to_owned(),
                };
                self.find(page, detail, Severity::Data);
            }
        }
        if self.complete && told.used != reached.len() as u64 {
            let detail = format!(
                "the page table pointer says that {} pages of the file are in use, but {} are",
                told.used,
                reached.len()
            );
            self.find(first, detail, Severity::Data);
        }
        let occupied: BTreeSet<u64> =
            reached.union(&marked).map(|page| place::page_of(*page) / SEGMENT_PAGES).collect();
        let is_empty = |segment: &u64| !occupied.contains(segment);
        self.report.segments_empty += (0..end / SEGMENT_PAGES).filter(is_empty).count() as u64;
        let unit = self.store.allocator.unit.bytes();
        let len = member.file.len()?;
        let file_end = len / unit as u64;
        if !len.is_multiple_of(unit as u64) {
            let detail = format!("the file goes on for {} bytes behind its last page", len % unit as u64);
            self.find(place::physical(disk, file_end), detail, Severity::Spare);
        }
        let mut block = vec![0; unit];
        let free = (0..file_end).map(|page| place::physical(disk, page));
        for page in free.filter(|page| !reached.contains(page) && !marked.contains(page)) {
            self.report.free_pages += 1;
            self.report.pages_read += 1;
            (self.progress)(self.report.pages_read, file_end);
            let damage = match member.file.read_at(self.store.mirror.disks.offset(page), &mut block) {
                Ok(()) => {
                    damaged_sector(&block).map(|(sector, detail)| format!("in sector {sector} {detail}"))
                }
                Err(error) => Some(format!("it cannot be read: {error}")),
            };
            if let Some(detail) = damage {
                let detail = format!("this free page is damaged (it holds no data): {detail}");
                self.find(page, detail, Severity::Spare);
            }
        }
        Ok(())
    }
}
