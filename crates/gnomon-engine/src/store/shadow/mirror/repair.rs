//! Copies of pages in a mirrored store: repairing those that are damaged, making those that are missing, checking all
//! of them; and adding disks.
//!
//! Promises: a page of which a copy is whole is read, whatever happened to the other, and has two whole copies again as
//! soon as there is another disk with room for one. A copy that is damaged is not repaired in its place: the page gets
//! a new copy elsewhere, as when the cleaner moves it ([`clean`](super::clean)), so a crash finds it with the old
//! copies or with the new ones. A disk that is added is filled like that while others read and write. A disk that is
//! lost has its number until no entry of the page table names it any more; then another can have it.
//!
//! A page of which both copies are damaged is put together from the sectors of each that are whole.
//!
//! Damage that is not known is looked for only by [`Repairer::scrub`] and, a little at a time,
//! [`Repairer::scrub_some`].

use super::{
    Mirror,
    disks::{Member, StateOf},
    files::{self, FILE, UNFINISHED_FILE, file_name},
};
use crate::store::shadow::{
    allocator::{Allocator, Grow, Purpose, space::Life},
    batcher::{Batcher, Move},
    counters::Counted,
    finding::{Finding, Severity},
    page_table::{
        PageTable,
        node::{self, BLOCK, FANOUT, PageEntry},
        place::{self, DISKS_MAX, Place, SUPERBLOCK_PAGES, is_bitmap},
    },
    snapshots::Snapshots,
    superblock::{self, DiskEntry, DiskState, Superblock},
};
use crate::{
    Error, Result,
    disk::Disk,
    failpoint::Failpoint,
    page::{PAGE_BYTES, PageCounts, PageKind, PageSize, pool::PoolKey},
    store::GroupCommit,
    sync::{Arc, Mutex, atomic::Ordering},
};

/// Number of objects that are repaired in a step.
const STEP_OBJECTS: usize = 512;

/// A disk of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskInfo {
    /// Its number, by which pages name it.
    pub number: usize,
    /// Which of the disks it is that were given when the store was opened, and were added since; none if it is lost.
    pub given: Option<usize>,
    /// Pages of its file.
    pub file_pages: u64,
    /// Of these, pages that the newest state uses.
    pub used_pages: u64,
}

/// The result of scrubbing.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// Copies of pages that were read and checked.
    pub copies_checked: u64,
    /// Their bytes.
    pub bytes_checked: u64,
    /// Copies that were damaged or missing, and were made anew.
    pub repaired: Vec<Finding>,
    /// Free pages with damaged sectors, which were zeroed. Those that are kept for an older state, such as that of a
    /// backup under way, or promised on a full disk, were not looked at.
    pub zeroed: u64,
    /// Pages of which no copy is whole.
    pub lost: Vec<Finding>,
    /// Copies that are missing and could not be made: there is no other disk, or none with room.
    pub missing: u64,
}

/// The state of repair after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Every page has its copies, as far as is known, or there is no second disk for them.
    Done,
    /// There is more to do.
    More,
    /// There is more to do, and no room for it.
    NoRoom,
}

/// The repairs that some objects need.
#[derive(Default)]
struct Repairs {
    /// Pages: the move, the copy that is whole, if one is, and the block.
    moves: Vec<(Move, Option<u64>, Vec<u8>)>,
    rewritten: Vec<PoolKey>,
    freed: Vec<u64>,
    /// Places that are given up because their contents are damaged.
    damaged: Vec<(u64, PageSize)>,
}

/// Repairs the copies of a store.
pub struct Repairer {
    pub(super) mirror: Arc<Mirror>,
    table: Arc<PageTable>,
    pub(super) allocator: Arc<Allocator>,
    snapshots: Arc<Snapshots>,
    pub(super) batcher: Arc<Batcher>,
    /// Progress of making missing copies. Its mutex is held over I/O, and taken before any other.
    filled: Mutex<Filling>,
}

impl Repairer {
    pub fn new(batcher: &Arc<Batcher>) -> Repairer {
        Repairer {
            mirror: batcher.mirror.clone(),
            table: batcher.table.clone(),
            allocator: batcher.allocator.clone(),
            snapshots: batcher.snapshots.clone(),
            batcher: batcher.clone(),
            filled: Mutex::default(),
        }
    }

    /// Returns the disks, by number.
    pub fn disk_infos(&self) -> Vec<DiskInfo> {
        let table = self.mirror.disk_table(StateOf::Published);
        let disks = table.disks.iter().enumerate().filter(|(_, entry)| entry.state != DiskState::Absent);
        disks
            .map(|(number, entry)| DiskInfo {
                number,
                given: self.mirror.disks.member(number).map(|member| member.given),
                file_pages: entry.end,
                used_pages: entry.used,
            })
            .collect()
    }

    /// Adds an empty disk, the one that was `given` after all others, to the store; with `mirror`, has each page copied
    /// to another disk from now on, old ones by and by ([`Repairer::repair_some`]). Returns its number.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there is no number left, or files are on the disk; of the disk.
    pub fn add_disk(&self, disk: &dyn Disk, given: usize, mirror: bool) -> Result<usize> {
        if self.batcher.commits.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if let Some(other) = files::foreign_file(disk)? {
            return Err(Error::BadOption(format!(
                "a disk to be added must be empty, but it has files such as '{other}'"
            )));
        }
        self.batcher.flush()?;
        let mut added = Err(Error::Closed);
        self.batcher.lead_next(|_| {
            added = self.add_disk_alone(disk, given, mirror);
            // A fault of the new disk is no fault of the store.
            Ok(self.table.superblock().csn)
        })?;
        let number = added?;
        self.mirror.report(format!("disk {number} was added"));
        Ok(number)
    }

    /// Checks that a disk can be added. The error says why not.
    pub fn check_room_for_disk(&self) -> Result<()> {
        self.batcher.commits.check()?;
        match (self.batcher.commits.is_read_only(), self.mirror.disks.unused()) {
            (true, _) => Err(Error::ReadOnly),
            (false, None) => Err(Error::BadOption(format!("a database has at most {DISKS_MAX} disks"))),
            (false, Some(_)) => Ok(()),
        }
    }

    /// Adds a disk. The caller is the only one to write superblocks.
    fn add_disk_alone(&self, disk: &dyn Disk, given: usize, mirror: bool) -> Result<usize> {
        let Some(number) = self.mirror.disks.unused() else {
            return Err(Error::BadOption(format!("a database has at most {DISKS_MAX} disks")));
        };
        self.batcher.before_writing()?;
        let superblock = self.table.superblock();
        let mut table = self.mirror.disk_table(StateOf::Published);
        table.mirrored |= mirror;
        table.disks.resize(table.disks.len().max(number + 1), DiskEntry::default());
        let identity = files::disk_identity(self.mirror.database, number, superblock.batch);
        let root_pages = superblock::physical_pages(self.allocator.unit);
        let entry = DiskEntry {
            identity,
            end: root_pages,
            used: root_pages,
            cursor: root_pages,
            state: DiskState::Present,
        };
        table.disks[number] = entry;
        // The same state as on the others, and of the same batch: should a crash come now, either may be taken.
        let unfilled = Superblock { copies_whole: superblock.copies_whole && !table.mirrored, ..superblock };
        let file = files::make_file(disk, &unfilled, &table, number)?;
        disk.rename(UNFINISHED_FILE, FILE)?;
        let file = Arc::new(Counted { file, counters: self.mirror.counters.clone() });
        self.mirror.add(number, Member::new(file, identity, given), entry, mirror);
        self.batcher.write_next_superblock().map_err(|error| self.batcher.commits.poison(&error))?;
        Ok(number)
    }

    /// True if there is something to repair that can be repaired.
    pub fn wants_repair(&self) -> bool {
        let copies_whole = self.mirror.copies_whole.load(Ordering::Relaxed);
        !self.batcher.commits.is_read_only()
            && self.mirror.disks.is_mirrored()
            && (!copies_whole && self.allocator.space.lock().copies() > 1
                || !self.mirror.damaged.lock().is_empty())
    }

    /// Repairs copies that were found damaged, or makes some of those that are missing.
    pub fn repair_some(&self) -> Result<Repair> {
        self.batcher.commits.check()?;
        let mut filled = self.filled.lock();
        if !self.wants_repair() {
            return Ok(Repair::Done);
        }
        let keys: Vec<PoolKey> = {
            let mut damaged = self.mirror.damaged.lock();
            let keys: Vec<PoolKey> = damaged.iter().take(STEP_OBJECTS).copied().collect();
            keys.iter().for_each(|key| _ = damaged.remove(key));
            keys
        };
        let mut report = ScrubReport::default();
        if keys.is_empty() {
            return self.fill_some(&mut filled, &mut report);
        }
        drop(filled);
        let put_back = |report: &ScrubReport| {
            if report.missing > 0 {
                self.mirror.damaged.lock().extend(&keys);
            }
        };
        let mut repairs = Repairs::default();
        for &key in &keys {
            self.inspect(key, true, &mut repairs, &mut report)?;
        }
        self.carry_out(repairs, &mut report)?;
        put_back(&report);
        if report.missing > 0 {
            return Ok(Repair::NoRoom);
        }
        for finding in &report.repaired {
            self.mirror.report(format!(
                "{}, page {}: {}; repaired from its copy",
                finding.file, finding.page, finding.detail
            ));
        }
        for finding in &report.lost {
            self.mirror.report(format!(
                "{}, page {}: {}; it has no other copy",
                finding.file, finding.page, finding.detail
            ));
        }
        Ok(Repair::More)
    }

    /// Goes on with making missing copies.
    fn fill_some(&self, filling: &mut Filling, report: &mut ScrubReport) -> Result<Repair> {
        if filling.from == 0 {
            // Flushes first: a batch in flight, and pages flushed early, must be in the page table before it is
            // looked at.
            filling.lost = self.mirror.disks.lost().into_iter().map(|(disk, _)| disk).collect();
            self.mirror.fill_found.store(false, Ordering::Release);
            self.batcher.flush()?;
        }
        let mut repairs = Repairs::default();
        let mut next = Some(filling.from);
        while let Some(base) = next.filter(|_| repairs.len() < STEP_OBJECTS) {
            next = self.inspect_some(base, false, u64::MAX, &mut repairs, report)?;
        }
        if repairs.len() > 0 {
            self.mirror.fill_found.store(true, Ordering::Release);
        }
        self.carry_out(repairs, report)?;
        if report.missing > 0 {
            return Ok(Repair::NoRoom);
        }
        filling.from = next.unwrap_or(0);
        if next.is_none() && self.end_filling(&filling.lost)? {
            return Ok(Repair::Done);
        }
        Ok(Repair::More)
    }

    /// Ends making missing copies, if no page was found that lacks a copy: all pages have theirs, and none is on the
    /// disks that were `lost` when the pass began. Returns false if it goes on.
    fn end_filling(&self, lost: &[usize]) -> Result<bool> {
        if self.mirror.fill_found.load(Ordering::Acquire) {
            return Ok(false);
        }
        let extents_left = self.allocator.forget_lost_extents()?;
        let mut ended = false;
        self.batcher.lead_next(|batcher| {
            // A thread that notes missing copies sets `fill_found` first.
            self.mirror.copies_whole.store(true, Ordering::Release);
            ended = !self.mirror.fill_found.load(Ordering::Acquire);
            self.mirror.copies_whole.store(ended, Ordering::Release);
            // Pinned states and private pages may name these disks.
            let is_named = self.snapshots.name_places();
            if ended && extents_left && !is_named {
                self.mirror.disks.forget(lost);
            }
            batcher.write_next_superblock().map_err(|error| batcher.commits.poison(&error))?;
            Ok(self.table.superblock().csn)
        })?;
        if ended {
            self.mirror.report("every page has two copies again".into());
        }
        Ok(ended)
    }

    /// Reads all copies of all pages and of the superblock, repairs those that are damaged or missing, and zeroes
    /// damaged free pages. Others read and write meanwhile. `progress` is called with copies read and, about, copies in
    /// all.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport> {
        if self.batcher.commits.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let mut report = ScrubReport::default();
        self.batcher.flush()?;
        self.scrub_superblocks(&mut report)?;
        let mut next = Some(0);
        while let Some(base) = next {
            let mut repairs = Repairs::default();
            next = self.inspect_some(base, true, u64::MAX, &mut repairs, &mut report)?;
            self.carry_out(repairs, &mut report)?;
            let used = self.table.superblock().used;
            progress(report.copies_checked.min(used), used);
        }
        while report.missing == 0 && self.repair_some()? == Repair::More {}
        let mut free = Some(0);
        while let Some(from) = free {
            let zeroed;
            (free, zeroed) = self.mend_some(from)?;
            report.zeroed += zeroed;
        }
        self.mirror.sync()?;
        Ok(report)
    }

    /// Reads all copies of some objects from logical page `from` on, about `bytes_max` bytes, and repairs them if it
    /// can; at the first page, those of the superblock too. Returns where to go on; none at the end.
    pub fn scrub_some(&self, from: u64, bytes_max: u64, report: &mut ScrubReport) -> Result<Option<u64>> {
        self.batcher.commits.check()?;
        if from == 0 {
            self.scrub_superblocks(report)?;
        }
        let mut repairs = Repairs::default();
        let next = self.inspect_some(from, true, bytes_max, &mut repairs, report)?;
        self.carry_out(repairs, report)?;
        Ok(next)
    }

    /// Reads all copies of the superblock, and if some are not whole, writes both pairs anew.
    fn scrub_superblocks(&self, report: &mut ScrubReport) -> Result<()> {
        self.batcher.lead_next(|batcher| {
            let before = report.repaired.len();
            for (disk, member) in self.mirror.disks.present() {
                for (at, copy) in superblock::read_copies(&*member.file)?.into_iter().enumerate() {
                    report.copies_checked += 1;
                    report.bytes_checked += PAGE_BYTES as u64;
                    let detail = match copy {
                        Err(superblock::SuperblockFault::Damaged(detail)) => Some(detail),
                        Err(superblock::SuperblockFault::Torn) => Some("it was cut short by a crash"),
                        _ => None,
                    };
                    if let Some(detail) = detail {
                        report.repaired.push(Finding {
                            file: file_name(disk),
                            page: at as u64
                                * (superblock::physical_pages(self.allocator.unit) / SUPERBLOCK_PAGES),
                            detail: format!("copy {at} of the page table pointer: {detail}"),
                            severity: Severity::Spare,
                        });
                    }
                }
            }
            if report.repaired.len() > before {
                let written = batcher.write_next_superblock().and_then(|()| batcher.write_next_superblock());
                written.map_err(|error| batcher.commits.poison(&error))?;
            }
            Ok(self.table.superblock().csn)
        })
    }

    /// Inspects the pages that a node of level 1 maps from a logical page on, until about `bytes_max` bytes were
    /// read; before the first of these pages, the node, and the nodes that begin there too. Returns where to go on;
    /// none at the end.
    fn inspect_some(
        &self,
        from: u64,
        reads_all: bool,
        bytes_max: u64,
        repairs: &mut Repairs,
        report: &mut ScrubReport,
    ) -> Result<Option<u64>> {
        let depth = self.table.superblock().depth;
        let end = node::span(depth);
        let base = node::node_base(1, from);
        let bytes_before = report.bytes_checked;
        // From above, so that a part of the page table that is not there is passed over.
        for level in (1..=depth).rev().filter(|level| from.is_multiple_of(node::span(*level))) {
            let behind = |level: u8| {
                let next = node::node_base(level, base) + node::span(level);
                Ok((next < end).then_some(next))
            };
            match self.table.entry(level, base) {
                Ok(Some(_)) => self.inspect(PoolKey { level, index: base }, reads_all, repairs, report)?,
                Ok(None) => return behind(level),
                // Pages below a damaged node cannot be found; the node itself was noted.
                Err(Error::Corrupt { .. }) => return behind(level + 1),
                Err(error) => return Err(error),
            }
        }
        let entries: Vec<u64> = match self.table.node(1, base) {
            Ok(Some(node)) => {
                let present = |slot: &u64| node::entry(&node, *slot as usize).present().is_some();
                (0..FANOUT).filter(present).map(|slot| base + slot).collect()
            }
            Ok(None) | Err(Error::Corrupt { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        for (number, logical) in entries.into_iter().filter(|logical| *logical >= from).enumerate() {
            // At least one, so that repeated calls come to the end.
            if number > 0 && report.bytes_checked - bytes_before >= bytes_max {
                return Ok(Some(logical));
            }
            self.inspect(PoolKey { level: 0, index: logical }, reads_all, repairs, report)?;
        }
        let next = base + FANOUT;
        Ok((next < end).then_some(next))
    }

    /// Checks the copies of an object, and notes the repairs that they need. Without `reads_all`, copies on disks
    /// that are there are taken for whole.
    fn inspect(
        &self,
        key: PoolKey,
        reads_all: bool,
        repairs: &mut Repairs,
        report: &mut ScrubReport,
    ) -> Result<()> {
        let PoolKey { level, index } = key;
        let Some(entry) = self.table.entry(level, index)? else { return Ok(()) };
        if level == 0 && is_bitmap(index) && self.mirror.disks.member(place::chunk_of(index).0).is_none() {
            // Of a disk that is lost.
            repairs.freed.push(index);
            return Ok(());
        }
        let wanted = self.allocator.space.lock().copies();
        let there: Vec<u64> = entry.place.copies().filter(|copy| self.mirror.disks.is_there(*copy)).collect();
        if !reads_all && there.len() >= wanted {
            return Ok(());
        }
        let (mut whole, mut wrong) = (Vec::new(), Vec::new());
        let mut found = None;
        for &copy in &there {
            report.copies_checked += 1;
            report.bytes_checked += entry.size.bytes() as u64;
            let mut block = vec![0; entry.size.bytes()];
            match self.mirror.read_copy_into(level, index, copy, entry, &mut block) {
                Ok(page) => {
                    whole.push(copy);
                    found = Some((page.kind(), block));
                }
                Err(Error::Corrupt { detail, .. }) => wrong.push((copy, detail)),
                Err(error) => wrong.push((copy, error.to_string())),
            }
        }
        if found.is_none() {
            found = self.mirror.combined(level, index, entry).map(|(page, block)| (page.kind(), block));
        }
        // After the last read: a page that was moved or rewritten meanwhile has left nothing at its old place.
        let is_moved = self.table.entry(level, index)? != Some(entry);
        if is_moved && !self.mirror.failpoints.is_on(Failpoint::MovedUnseen) {
            return Ok(());
        }
        let findings = wrong.into_iter().map(|(copy, detail)| Finding {
            file: file_name(place::disk_of(copy)),
            page: place::page_of(copy),
            detail,
            severity: if found.is_none() { Severity::Data } else { Severity::Spare },
        });
        let findings: Vec<Finding> = findings.collect();
        let Some((kind, block)) = found else {
            report.lost.extend(findings);
            if there.is_empty() {
                report.lost.push(Finding {
                    file: file_name(place::disk_of(entry.place.first)),
                    page: place::page_of(entry.place.first),
                    detail: format!("logical page {index}, level {level}: the disks that it was on are lost"),
                    severity: Severity::Data,
                });
            }
            return Ok(());
        };
        let is_wrong = |copy: &u64| !whole.contains(copy);
        repairs.damaged.extend(there.iter().copied().filter(is_wrong).map(|copy| (copy, entry.size)));
        report.repaired.extend(findings);
        if whole.len() >= wanted {
            return Ok(());
        }
        if level > 0 || kind == PageKind::SpaceMap {
            repairs.rewritten.push(key);
            return Ok(());
        }
        // As it stands in its other place: a page that was written before its batch was known says so.
        let moved = Move { logical: index, from: entry, to: entry };
        repairs.moves.push((moved, whole.first().copied(), block));
        Ok(())
    }

    /// Makes new copies, durably.
    fn carry_out(&self, repairs: Repairs, report: &mut ScrubReport) -> Result<()> {
        let count = repairs.len() as u64;
        if count == 0 {
            return Ok(());
        }
        // Extents are taken where they are to be, on one disk, and not reserved.
        let mut objects = PageCounts::of(BLOCK, (repairs.rewritten.len() + repairs.freed.len()) as u64);
        for (moved, ..) in &repairs.moves {
            objects[moved.from.size.min(BLOCK)] += 1;
        }
        let mut reserved = match self.allocator.reserve(Purpose::Free, &objects, &PageCounts::default()) {
            Err(Error::DiskFull) => {
                report.missing += count;
                return Ok(());
            }
            reserved => reserved?,
        };
        let copied = self.copy_to_others(repairs.moves, &mut reserved, report);
        let moves = match copied {
            Ok(moves) => moves,
            Err(error) => {
                self.allocator.unreserve(&reserved);
                return Err(error);
            }
        };
        self.batcher.free(repairs.freed);
        self.batcher.join(moves, repairs.rewritten, reserved);
        self.batcher.flush()?;
        for (copy, size) in repairs.damaged {
            self.mend(copy..copy + self.allocator.physical_pages(size))?;
        }
        Ok(())
    }

    /// Gives each page a copy on another disk than the one that it has a whole copy on, or two if it has none.
    fn copy_to_others(
        &self,
        pages: Vec<(Move, Option<u64>, Vec<u8>)>,
        reserved: &mut PageCounts,
        report: &mut ScrubReport,
    ) -> Result<Vec<Move>> {
        let mut moves = Vec::with_capacity(pages.len());
        let mut blocks = Vec::with_capacity(pages.len());
        let mut chosen = [0; DISKS_MAX];
        for (mut moved, whole, block) in pages {
            let kept: Vec<usize> = whole.map(place::disk_of).into_iter().collect();
            let others = {
                let space = self.allocator.space.lock();
                self.mirror.disks.choose(&space, 2 - kept.len(), &chosen, &kept).0
            };
            let size = moved.from.size;
            // A bitmap that cannot be read is as good as no space there.
            let take =
                |disk: usize| self.allocator.take_copy_on(disk, size, Life::Long, Grow::Yes).unwrap_or(None);
            let new: Vec<u64> = others.into_iter().filter_map(take).collect();
            if new.len() + kept.len() < 2 {
                report.missing += 1;
            }
            if new.is_empty() {
                continue;
            }
            new.iter().for_each(|copy| chosen[place::disk_of(*copy)] += self.allocator.physical_pages(size));
            self.allocator.use_reserved(size, 1, reserved);
            moved.to = PageEntry { place: Place::of(whole.into_iter().chain(new.clone())), ..moved.from };
            moves.push(moved);
            let block: Arc<[u8]> = block.into();
            for copy in new {
                let block = block.clone();
                let write = move |target: &mut [u8]| target.copy_from_slice(&block);
                blocks.push((Place::single(copy), size, write));
            }
        }
        self.batcher.write_copies(&blocks)?;
        Ok(moves)
    }
}

/// Progress of making missing copies.
#[derive(Default)]
struct Filling {
    /// The logical page that is looked at next.
    from: u64,
    /// The disks that were lost when the first was looked at.
    lost: Vec<usize>,
}

impl Repairs {
    fn len(&self) -> usize {
        self.moves.len() + self.rewritten.len() + self.freed.len()
    }
}
