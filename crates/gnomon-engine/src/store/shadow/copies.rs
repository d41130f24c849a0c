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
//! Damage that is not known is looked for only by [`ShadowStore::scrub`] and, a little at a time,
//! [`ShadowStore::scrub_some`].

use super::{
    FILE, Finding, PoolKey, Purpose, Severity, ShadowStore, UNFINISHED_FILE,
    clean::Move,
    counters::Counted,
    disks::{Member, StateOf},
    extents::Grow,
    open::{self, file_name},
    place::{self, DISKS_MAX, Place, is_bitmap},
    root::{self, DiskEntry, DiskState, Root},
    space::{Life, Space},
    table::{self, BLOCK, FANOUT, PageEntry},
};
use crate::{
    Error, Result,
    disk::{Disk, SECTOR_BYTES},
    page::{PAGE_BYTES, Page, PageCounts, PageKind, PageSize, combine},
    store::GroupCommit,
    sync::{Arc, atomic::Ordering},
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

impl ShadowStore {
    /// Returns the disks, by number.
    pub fn disk_infos(&self) -> Vec<DiskInfo> {
        let table = self.disk_table(StateOf::Published);
        let disks = table.disks.iter().enumerate().filter(|(_, entry)| entry.state != DiskState::Absent);
        disks
            .map(|(number, entry)| DiskInfo {
                number,
                given: self.disks.member(number).map(|member| member.given),
                file_pages: entry.end,
                used_pages: entry.used,
            })
            .collect()
    }

    /// True if each page has two copies.
    pub fn is_mirrored(&self) -> bool {
        self.disks.is_mirrored()
    }

    /// True if every page has as many copies as it should, and no copy is damaged, as far as is known.
    pub fn has_all_copies(&self) -> bool {
        self.copies_whole.load(Ordering::Acquire) && self.damaged.lock().is_empty()
    }

    /// Adds an empty disk, the one that was `given` after all others, to the store; with `mirror`, has each page copied
    /// to another disk from now on, old ones by and by ([`ShadowStore::repair_some`]). Returns its number.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there is no number left, or files are on the disk; of the disk.
    pub fn add_disk(&self, disk: &dyn Disk, given: usize, mirror: bool) -> Result<usize> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if let Some(other) = open::foreign_file(disk)? {
            return Err(Error::BadOption(format!(
                "a disk to be added must be empty, but it has files such as '{other}'"
            )));
        }
        self.flush()?;
        let mut added = Err(Error::Closed);
        self.lead_next(|store| {
            added = store.add_disk_alone(disk, given, mirror);
            // A fault of the new disk is no fault of the store.
            Ok(store.root.lock().csn)
        })?;
        let number = added?;
        self.report(format!("disk {number} was added"));
        Ok(number)
    }

    /// Checks that a disk can be added. The error says why not.
    pub fn check_room_for_disk(&self) -> Result<()> {
        self.check()?;
        match (self.is_read_only(), self.disks.unused()) {
            (true, _) => Err(Error::ReadOnly),
            (false, None) => Err(Error::BadOption(format!("a database has at most {DISKS_MAX} disks"))),
            (false, Some(_)) => Ok(()),
        }
    }

    /// True if disk number `given`, of those given at opening or added since, is one of the store's.
    pub fn uses_disk(&self, given: usize) -> bool {
        self.disks.present().iter().any(|(_, member)| member.given == given)
    }

    /// Adds a disk. The caller is the only one to write roots.
    fn add_disk_alone(&self, disk: &dyn Disk, given: usize, mirror: bool) -> Result<usize> {
        let Some(number) = self.disks.unused() else {
            return Err(Error::BadOption(format!("a database has at most {DISKS_MAX} disks")));
        };
        self.before_writing()?;
        let root = *self.root.lock();
        let mut table = self.disk_table(StateOf::Published);
        table.mirrored |= mirror;
        table.disks.resize(table.disks.len().max(number + 1), DiskEntry::default());
        let identity = open::disk_identity(self.database, number, root.batch);
        let root_pages = root::physical_pages(self.unit);
        let entry = DiskEntry {
            identity,
            end: root_pages,
            used: root_pages,
            cursor: root_pages,
            state: DiskState::Present,
        };
        table.disks[number] = entry;
        // The same state as on the others, and of the same batch: should a crash come now, either may be taken.
        let unfilled = Root { copies_whole: root.copies_whole && !table.mirrored, ..root };
        let file = open::make_file(disk, &unfilled, &table, number)?;
        disk.rename(UNFINISHED_FILE, FILE)?;
        let file = Arc::new(Counted { file, counters: self.counters.clone() });
        self.disks.add(number, Member::new(file, identity, given), entry);
        let mut space = self.space.lock();
        space.add(number, Space::new(entry.end, entry.used, entry.cursor));
        if mirror {
            self.disks.set_mirrored();
            space.set_mirrored();
        }
        drop(space);
        if self.disks.is_mirrored() {
            self.note_missing_copies();
            self.wants_disk.store(false, Ordering::Release);
        }
        self.write_next_root().map_err(|error| self.poison(&error))?;
        Ok(number)
    }

    /// Writes the root under the next number, or if pages were written early under that one, their batch. The caller is
    /// the only one to write roots.
    pub(super) fn write_next_root(&self) -> Result<()> {
        self.before_writing()?;
        {
            let mut accumulating = self.accumulating.lock();
            if accumulating.wrote_early {
                drop(accumulating);
                return self.write_batch().map(|_| ());
            }
            accumulating.batch += 1;
        }
        let root = *self.root.lock();
        self.write_root_alone(Root { batch: root.batch + 1, ..root })
    }

    /// Notes that pages have fewer copies than they should.
    pub(super) fn note_missing_copies(&self) {
        // In this order: see `end_filling`.
        self.fill_found.store(true, Ordering::Release);
        self.copies_whole.store(false, Ordering::Release);
    }

    /// True if a disk was lost and no other has taken its place since.
    pub fn wants_disk(&self) -> bool {
        self.wants_disk.load(Ordering::Acquire)
    }

    /// True if there is something to repair that can be repaired.
    pub fn wants_repair(&self) -> bool {
        let copies_whole = self.copies_whole.load(Ordering::Relaxed);
        !self.is_read_only()
            && self.disks.is_mirrored()
            && (!copies_whole && self.space.lock().copies() > 1 || !self.damaged.lock().is_empty())
    }

    /// Repairs copies that were found damaged, or makes some of those that are missing.
    pub fn repair_some(&self) -> Result<Repair> {
        self.check()?;
        let mut filled = self.filled.lock();
        if !self.wants_repair() {
            return Ok(Repair::Done);
        }
        let keys: Vec<PoolKey> = {
            let mut damaged = self.damaged.lock();
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
                self.damaged.lock().extend(&keys);
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
            self.report(format!(
                "{}, page {}: {}; repaired from its copy",
                finding.file, finding.page, finding.detail
            ));
        }
        for finding in &report.lost {
            self.report(format!(
                "{}, page {}: {}; it has no other copy",
                finding.file, finding.page, finding.detail
            ));
        }
        Ok(Repair::More)
    }

    /// Goes on with making missing copies.
    fn fill_some(&self, filling: &mut Filling, report: &mut ScrubReport) -> Result<Repair> {
        if filling.from == 0 {
            // Flushes first: a batch in flight, and pages written early, must be in the page table before it is
            // looked at.
            filling.lost = self.disks.lost().into_iter().map(|(disk, _)| disk).collect();
            self.fill_found.store(false, Ordering::Release);
            self.flush()?;
        }
        let mut repairs = Repairs::default();
        let mut next = Some(filling.from);
        while let Some(base) = next.filter(|_| repairs.len() < STEP_OBJECTS) {
            next = self.inspect_some(base, false, u64::MAX, &mut repairs, report)?;
        }
        if repairs.len() > 0 {
            self.fill_found.store(true, Ordering::Release);
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
        if self.fill_found.load(Ordering::Acquire) {
            return Ok(false);
        }
        let extents_left = self.forget_lost_extents()?;
        let mut ended = false;
        self.lead_next(|store| {
            // A thread that notes missing copies sets `fill_found` first.
            store.copies_whole.store(true, Ordering::Release);
            ended = !store.fill_found.load(Ordering::Acquire);
            store.copies_whole.store(ended, Ordering::Release);
            // Pinned states and private pages may name these disks.
            let is_named = store.pins.lock().is_pinned() || store.private_views.load(Ordering::Acquire) > 0;
            if ended && extents_left && !is_named {
                store.disks.forget(lost);
            }
            store.write_next_root().map_err(|error| store.poison(&error))?;
            Ok(store.root.lock().csn)
        })?;
        if ended {
            self.report("every page has two copies again".into());
        }
        Ok(ended)
    }

    /// Reads all copies of all pages and of the root, repairs those that are damaged or missing, and zeroes damaged
    /// free pages. Others read and write meanwhile. `progress` is called with copies read and, about, copies in all.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let mut report = ScrubReport::default();
        self.flush()?;
        self.scrub_roots(&mut report)?;
        let mut next = Some(0);
        while let Some(base) = next {
            let mut repairs = Repairs::default();
            next = self.inspect_some(base, true, u64::MAX, &mut repairs, &mut report)?;
            self.carry_out(repairs, &mut report)?;
            let used = self.root.lock().used;
            progress(report.copies_checked.min(used), used);
        }
        while report.missing == 0 && self.repair_some()? == Repair::More {}
        let mut free = Some(0);
        while let Some(from) = free {
            let zeroed;
            (free, zeroed) = self.mend_some(from)?;
            report.zeroed += zeroed;
        }
        self.sync()?;
        Ok(report)
    }

    /// Reads all copies of some objects from logical page `from` on, about `bytes_max` bytes, and repairs them if it
    /// can; at the first page, those of the root too. Returns where to go on; none at the end.
    pub fn scrub_some(&self, from: u64, bytes_max: u64, report: &mut ScrubReport) -> Result<Option<u64>> {
        self.check()?;
        if from == 0 {
            self.scrub_roots(report)?;
        }
        let mut repairs = Repairs::default();
        let next = self.inspect_some(from, true, bytes_max, &mut repairs, report)?;
        self.carry_out(repairs, report)?;
        Ok(next)
    }

    /// Returns the page put together from the whole sectors of both of its copies, and its block.
    pub(super) fn combined(&self, level: u8, logical: u64, entry: PageEntry) -> Option<(Page, Vec<u8>)> {
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

    /// Reads all copies of the root, and if some are not whole, writes both pairs anew.
    fn scrub_roots(&self, report: &mut ScrubReport) -> Result<()> {
        self.lead_next(|store| {
            let before = report.repaired.len();
            for (disk, member) in store.disks.present() {
                for (at, copy) in root::read_copies(&*member.file)?.into_iter().enumerate() {
                    report.copies_checked += 1;
                    report.bytes_checked += PAGE_BYTES as u64;
                    let detail = match copy {
                        Err(root::RootFault::Damaged(detail)) => Some(detail),
                        Err(root::RootFault::Torn) => Some("it was cut short by a crash"),
                        _ => None,
                    };
                    if let Some(detail) = detail {
                        report.repaired.push(Finding {
                            file: file_name(disk),
                            page: at as u64 * (root::physical_pages(store.unit) / root::ROOT_PAGES),
                            detail: format!("copy {at} of the page table pointer: {detail}"),
                            severity: Severity::Spare,
                        });
                    }
                }
            }
            if report.repaired.len() > before {
                let written = store.write_next_root().and_then(|()| store.write_next_root());
                written.map_err(|error| store.poison(&error))?;
            }
            Ok(store.root.lock().csn)
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
        let depth = self.root.lock().depth;
        let end = table::span(depth);
        let base = table::node_base(1, from);
        let bytes_before = report.bytes_checked;
        // From above, so that a part of the page table that is not there is passed over.
        for level in (1..=depth).rev().filter(|level| from.is_multiple_of(table::span(*level))) {
            let behind = |level: u8| {
                let next = table::node_base(level, base) + table::span(level);
                Ok((next < end).then_some(next))
            };
            match self.entry(level, base) {
                Ok(Some(_)) => self.inspect(PoolKey { level, index: base }, reads_all, repairs, report)?,
                Ok(None) => return behind(level),
                // Pages below a damaged node cannot be found; the node itself was noted.
                Err(Error::Corrupt { .. }) => return behind(level + 1),
                Err(error) => return Err(error),
            }
        }
        let entries: Vec<u64> = match self.node(1, base) {
            Ok(Some(node)) => {
                let present = |slot: &u64| table::entry(&node, *slot as usize).present().is_some();
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
        let Some(entry) = self.entry(level, index)? else { return Ok(()) };
        if level == 0 && is_bitmap(index) && self.disks.member(place::chunk_of(index).0).is_none() {
            // Of a disk that is lost.
            repairs.freed.push(index);
            return Ok(());
        }
        let wanted = self.space.lock().copies();
        let there: Vec<u64> = entry.place.copies().filter(|copy| self.disks.is_there(*copy)).collect();
        if !reads_all && there.len() >= wanted {
            return Ok(());
        }
        let (mut whole, mut wrong) = (Vec::new(), Vec::new());
        let mut found = None;
        for &copy in &there {
            report.copies_checked += 1;
            report.bytes_checked += entry.size.bytes() as u64;
            let mut block = vec![0; entry.size.bytes()];
            match self.read_copy_into(level, index, copy, entry, &mut block) {
                Ok(page) => {
                    whole.push(copy);
                    found = Some((page.kind(), block));
                }
                Err(Error::Corrupt { detail, .. }) => wrong.push((copy, detail)),
                Err(error) => wrong.push((copy, error.to_string())),
            }
        }
        if self.entry(level, index)? != Some(entry) {
            // It was rewritten meanwhile, and the copies that were read are outdated.
            return Ok(());
        }
        if found.is_none() {
            found = self.combined(level, index, entry).map(|(page, block)| (page.kind(), block));
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
        let mut reserved = match self.reserve(Purpose::Free, &objects, &PageCounts::default()) {
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
                self.unreserve(&reserved);
                return Err(error);
            }
        };
        if !repairs.freed.is_empty() {
            let _gate = self.gate.read();
            self.accumulating.lock().freed.extend(repairs.freed);
        }
        self.join(moves, repairs.rewritten, reserved);
        self.flush()?;
        for (copy, size) in repairs.damaged {
            self.mend(copy..copy + self.physical_pages(size))?;
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
                let space = self.space.lock();
                self.disks.choose(&space, 2 - kept.len(), &chosen, &kept).0
            };
            let size = moved.from.size;
            // A bitmap that cannot be read is as good as no space there.
            let take = |disk: usize| self.take_copy_on(disk, size, Life::Long, Grow::Yes).unwrap_or(None);
            let new: Vec<u64> = others.into_iter().filter_map(take).collect();
            if new.len() + kept.len() < 2 {
                report.missing += 1;
            }
            if new.is_empty() {
                continue;
            }
            new.iter().for_each(|copy| chosen[place::disk_of(*copy)] += self.physical_pages(size));
            self.use_reserved(size, 1, reserved);
            moved.to = PageEntry { place: Place::of(whole.into_iter().chain(new.clone())), ..moved.from };
            moves.push(moved);
            let block: Arc<[u8]> = block.into();
            for copy in new {
                let block = block.clone();
                let write = move |target: &mut [u8]| target.copy_from_slice(&block);
                blocks.push((Place::single(copy), size, write));
            }
        }
        self.write_copies(&blocks)?;
        Ok(moves)
    }
}

/// Progress of making missing copies.
#[derive(Default)]
pub(super) struct Filling {
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
