//! The superblock, the page table pointer: the one thing that is overwritten, and so what commits a batch.
//!
//! Stable storage: the superblock stands in two copies, and there are two pairs of copies. Batch `n` writes the pair
//! `n % 2` (physical pages 0 and 1, or 2 and 3). A crash while a pair is written can tear both of its copies, and
//! leaves the other pair, which is the state before the batch; a copy that decays later leaves its twin.
//!
//! A store of several disks has two pairs on each, and every superblock is written to all of them; so the superblock of
//! any disk tells of all the others.
//!
//! A superblock that lists the pages of its batch was written together with them, before one sync for all: it counts
//! only if of each of these pages a copy is whole and of its batch ([`SuperblockCopy::counts`]). A superblock without a
//! list was written when everything that it reaches was durable. Opening takes the newest copy that is whole and
//! counts.
//!
//! A copy is a record of 4064 bytes in 8 sectors, each of which begins with its checksum. So a copy that was torn by a
//! crash, of whole sectors, is told from a damaged one.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of bytes 4..4064 |
//! | 4..8 | format version |
//! | 8..16 | `GNOMONDB` |
//! | 16..24 | the database's identity |
//! | 24..32 | commit batch number |
//! | 32..40 | CSN: every commit up to it is in this state, and none after it |
//! | 40..48 | logical pages: each page number below was in use at some time |
//! | 48..56 | physical pages in use, over all disks |
//! | 56 | depth of the page table |
//! | 57 | bit 0: `closed`; bit 1: `copies_whole`; bit 2: pages are mirrored; bit 3: bytes 4052..4064 tell of a log |
//! | 58 | the number of the disk that this copy is on |
//! | 59 | how many numbers of disks are in use |
//! | 60..62 | how many runs of pages are listed |
//! | 62 | log2 of the bytes of a physical page, less 9 |
//! | 64..80 | page table entry of the page table's root node |
//! | 80..592 | for each number of a disk: its identity (8 bytes), the pages of its file (8), its pages in use (8), where its allocator goes on (7), its state (1) |
//! | 592..4052 | the runs: 5 bytes for the first physical page, 5 for that of their second copies, 3 for how many pages |
//! | 4052..4064 | if bit 3 of byte 57 is set, of the log of commits: its run (4 bytes), how far it reached (8); else the runs go on |

use super::page_table::{
    node::{self, BLOCK, DEPTH_MAX, PageEntry},
    place::{self, DISK_PAGES_MAX, DISKS_MAX, Place, SUPERBLOCK_PAGES},
};
use crate::{
    Csn, Error, Result,
    disk::File,
    page::{PAGE_BYTES, Page, PageSize, into_sectors, out_of_sectors, record_bytes},
    sync::Arc,
};

/// The version of the database format that this code reads and writes. Older ones were never released.
pub(crate) const FORMAT_VERSION: u32 = 6;
const MAGIC: [u8; 8] = *b"GNOMONDB";

/// Returns the number of physical pages of this size that hold the copies of the superblock.
pub(crate) fn physical_pages(unit: PageSize) -> u64 {
    SUPERBLOCK_PAGES * (PAGE_BYTES / unit.bytes()) as u64
}

const RECORD_BYTES: usize = record_bytes(PAGE_BYTES);
const DISKS_AT: usize = 80;
const DISK_BYTES: usize = 32;
const RUNS_AT: usize = DISKS_AT + DISKS_MAX * DISK_BYTES;
const RUN_BYTES: usize = 13;
/// Bytes of a batch up to which its superblock lists its pages: so much is read when a database is opened after a
/// crash. A larger batch is synced before its superblock is written.
pub(crate) const LISTED_BYTES_MAX: usize = 4 << 20;
/// Number of runs that can be listed at most.
pub(crate) const RUNS_MAX: usize = (LOG_AT - RUNS_AT) / RUN_BYTES;
const LOG_AT: usize = RECORD_BYTES - 12;

/// Physical pages and batches have 40 bits in the page table.
pub(crate) const NUMBER_MAX: u64 = 1 << 40;

/// A committed state of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub database: u64,
    /// The size of a physical page, and of the smallest page. It never changes.
    pub unit: PageSize,
    pub batch: u64,
    pub csn: Csn,
    pub logical_end: u64,
    pub used: u64,
    pub depth: u8,
    /// True if the database was closed with this superblock. Otherwise the pages that can be read of it need not be
    /// durable.
    pub closed: bool,
    /// True if every page has as many copies as it should, as far as is known: no disk was lost since the last time
    /// that all were looked at, and none was too full for one.
    pub copies_whole: bool,
    pub table: PageEntry,
    /// The mark of the log of commits that belongs to it.
    pub log: LogMark,
}

/// The log of commits, as a superblock describes it: a log that ends before is not the one that was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogMark {
    /// The run of the log; 0 if there is no log, or superblocks did not describe it yet.
    pub epoch: u32,
    /// The position up to which the log was durable.
    pub reaches: u64,
}

/// The disks of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskTable {
    /// True if each page has two copies, on different disks.
    pub mirrored: bool,
    /// By number.
    pub disks: Vec<DiskEntry>,
}

/// A disk, as a superblock describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskEntry {
    /// Given when it was added; no other disk has it.
    pub identity: u64,
    /// Pages that belong to its file, used or free.
    pub end: u64,
    /// Pages in use.
    pub used: u64,
    /// Where the allocator goes on.
    pub cursor: u64,
    pub state: DiskState,
}

/// The state of the disk with a number, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiskState {
    /// There is none.
    #[default]
    Absent,
    Present,
    /// It failed or was missing, and is not used again. Entries of the page table may still name it.
    Lost,
}

/// A run of pages that was written together with a superblock: pages that follow each other, and so do their second
/// copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedRun {
    pub place: Place,
    pub pages: u64,
}

impl DiskTable {
    /// Returns the table of a store whose only disk has `end` pages, of which `used` are in use.
    pub fn of_one(identity: u64, end: u64, used: u64) -> DiskTable {
        let disk = DiskEntry { identity, end, used, cursor: end, state: DiskState::Present };
        DiskTable { mirrored: false, disks: vec![disk] }
    }

    pub fn present(&self) -> impl Iterator<Item = (usize, &DiskEntry)> {
        self.disks.iter().enumerate().filter(|(_, disk)| disk.state == DiskState::Present)
    }
}

impl Superblock {
    /// Returns the same state under a number that no page on the disk has: the run before may have written pages of
    /// its next two batches (the one in flight, and the one after it early), so the first batch of a new run, the one
    /// after this, is by four larger. It stands in the other pair of copies.
    pub fn of_new_run(&self) -> Superblock {
        Superblock { batch: self.batch + 3, ..*self }
    }

    /// Returns the copy for a disk. `listed`: at most [`RUNS_MAX`] runs of less than 2^24 pages each.
    pub fn encode(&self, table: &DiskTable, disk: usize, listed: &[ListedRun]) -> [u8; PAGE_BYTES] {
        let mut block = [0; RECORD_BYTES];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(4, &FORMAT_VERSION.to_le_bytes());
        put(8, &MAGIC);
        put(16, &self.database.to_le_bytes());
        put(24, &self.batch.to_le_bytes());
        put(32, &self.csn.0.to_le_bytes());
        put(40, &self.logical_end.to_le_bytes());
        put(48, &self.used.to_le_bytes());
        let has_log = self.log != LogMark::default();
        let flags = [self.closed, self.copies_whole, table.mirrored, has_log];
        let flags = flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u8::from(flag));
        put(56, &[self.depth, flags, disk as u8, table.disks.len() as u8]);
        put(60, &(listed.len() as u16).to_le_bytes());
        put(62, &[self.unit.code()]);
        put(64, &self.table.encode());
        for (disk, at) in table.disks.iter().zip((DISKS_AT..).step_by(DISK_BYTES)) {
            put(at, &disk.identity.to_le_bytes());
            put(at + 8, &disk.end.to_le_bytes());
            put(at + 16, &disk.used.to_le_bytes());
            put(at + 24, &disk.cursor.to_le_bytes()[..7]);
            put(at + 31, &[disk.state as u8]);
        }
        for (run, at) in listed.iter().zip((RUNS_AT..).step_by(RUN_BYTES)) {
            put(at, &run.place.first.to_le_bytes()[..5]);
            put(at + 5, &run.place.second.to_le_bytes()[..5]);
            put(at + 10, &run.pages.to_le_bytes()[..3]);
        }
        if has_log {
            block[LOG_AT..LOG_AT + 4].copy_from_slice(&self.log.epoch.to_le_bytes());
            block[LOG_AT + 4..].copy_from_slice(&self.log.reaches.to_le_bytes());
        }
        let sum = crc32c::crc32c(&block[4..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        let mut sectors = [0; PAGE_BYTES];
        into_sectors(&block, &mut sectors);
        sectors
    }

    fn decode(sectors: &[u8; PAGE_BYTES]) -> Result<SuperblockCopy, SuperblockFault> {
        let Some(block) = out_of_sectors(sectors) else {
            let older = Superblock::older_format(sectors).map(SuperblockFault::TooOld);
            return Err(
                older.unwrap_or(SuperblockFault::Damaged("a sector's checksum does not fit its contents"))
            );
        };
        let number = |at: usize, bytes: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&block[at..at + bytes]);
            u64::from_le_bytes(word)
        };
        if number(0, 4) != u64::from(crc32c::crc32c(&block[4..])) {
            return Err(SuperblockFault::Torn);
        }
        if block[8..16] != MAGIC {
            return Err(SuperblockFault::Damaged("it does not begin as a Gnomon database does"));
        }
        let version = number(4, 4) as u32;
        if version > FORMAT_VERSION {
            return Err(SuperblockFault::TooNew(version));
        }
        if version < FORMAT_VERSION {
            return Err(SuperblockFault::TooOld(version));
        }
        let unit = PageSize::from_code(block[62]).filter(|unit| *unit <= BLOCK);
        let unit =
            unit.ok_or(SuperblockFault::Damaged("its physical pages have no size that they can have"))?;
        let flag = |bit: u8| block[57] >> bit & 1 == 1;
        let log = match flag(3) {
            true => LogMark { epoch: number(LOG_AT, 4) as u32, reaches: number(LOG_AT + 4, 8) },
            false => LogMark::default(),
        };
        let superblock = Superblock {
            database: number(16, 8),
            unit,
            batch: number(24, 8),
            csn: Csn(number(32, 8)),
            logical_end: number(40, 8),
            used: number(48, 8),
            depth: block[56],
            closed: flag(0),
            copies_whole: flag(1),
            table: PageEntry::decode(&block[64..80]),
            log,
        };
        let damaged = SuperblockFault::Damaged("its numbers do not fit each other");
        let (disk, count) = (usize::from(block[58]), usize::from(block[59]));
        let mut disks = Vec::with_capacity(count);
        for at in (DISKS_AT..).step_by(DISK_BYTES).take(count.min(DISKS_MAX)) {
            let state = match block[at + 31] {
                0 => DiskState::Absent,
                1 => DiskState::Present,
                2 => DiskState::Lost,
                _ => return Err(damaged),
            };
            let [identity, end, used] = [at, at + 8, at + 16].map(|at| number(at, 8));
            if end > DISK_PAGES_MAX || used > end {
                return Err(damaged);
            }
            disks.push(DiskEntry { identity, end, used, cursor: number(at + 24, 7), state });
        }
        // This code writes numbers that fit; the checksum alone does not prove that this code wrote them.
        let fits = superblock.depth <= DEPTH_MAX
            && superblock.batch < NUMBER_MAX
            && superblock.logical_end <= if superblock.depth == 0 { 1 } else { node::span(superblock.depth) }
            && count <= DISKS_MAX
            && disks.get(disk).is_some_and(|disk| disk.state == DiskState::Present);
        let runs = block[RUNS_AT..].chunks_exact(RUN_BYTES).take(number(60, 2) as usize);
        let mut listed = Vec::with_capacity(runs.len());
        for at in (RUNS_AT..).step_by(RUN_BYTES).take(number(60, 2) as usize) {
            if at + RUN_BYTES > RECORD_BYTES {
                return Err(damaged);
            }
            let place = Place { first: number(at, 5), second: number(at + 5, 5) };
            listed.push(ListedRun { place, pages: number(at + 10, 3) });
        }
        let in_file = |run: &ListedRun| {
            run.place.first != 0
                && run.place.copies().all(|copy| {
                    let page = place::page_of(copy);
                    let end = disks.get(place::disk_of(copy)).map_or(0, |disk| disk.end);
                    page >= physical_pages(unit) && page + run.pages <= end
                })
        };
        let pages: u64 = listed.iter().map(|run| run.pages).sum();
        let listed_max = (LISTED_BYTES_MAX / unit.bytes()) as u64;
        if fits && pages <= listed_max && listed.iter().all(in_file) {
            let disks = DiskTable { mirrored: flag(2), disks };
            Ok(SuperblockCopy { superblock, disks, disk, listed, place: 0 })
        } else {
            Err(damaged)
        }
    }

    /// Returns the version of a copy of before version 6, whose checksum was over all of it.
    fn older_format(block: &[u8; PAGE_BYTES]) -> Option<u32> {
        let [sum, version] =
            [0, 4].map(|at| u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes")));
        (block[8..16] == MAGIC && sum == crc32c::crc32c(&block[4..])).then_some(version)
    }

    /// Writes both copies of the pair of this batch on a disk, in one call, with a list of the pages that were not
    /// synced before. Not synced.
    pub fn write(
        &self,
        file: &dyn File,
        table: &DiskTable,
        disk: usize,
        listed: &[ListedRun],
    ) -> std::io::Result<()> {
        let block = self.encode(table, disk, listed);
        file.write_at(self.first_place() * PAGE_BYTES as u64, &[block, block].concat())
    }

    /// Returns the first place of its pair of copies, in steps of 4 KiB.
    pub fn first_place(&self) -> u64 {
        self.batch % 2 * 2
    }

    /// Writes both pairs of a new disk. Not synced.
    pub fn write_all(&self, file: &dyn File, table: &DiskTable, disk: usize) -> std::io::Result<()> {
        let block = self.encode(table, disk, &[]);
        file.write_at(0, &[block, block, block, block].concat())
    }
}

/// A copy of the superblock, as it stands in the file of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SuperblockCopy {
    pub superblock: Superblock,
    pub disks: DiskTable,
    /// The number of the disk that it is on.
    pub disk: usize,
    /// The pages that were written together with it.
    pub listed: Vec<ListedRun>,
    /// The place that it stands in, in steps of 4 KiB.
    pub place: u64,
}

/// The files that a state is read from, by the number of their disk; none where it is missing.
pub(crate) type Files<'a> = &'a dyn Fn(usize) -> Option<Arc<dyn File>>;

impl SuperblockCopy {
    /// True if every listed page has a copy that is whole and of this batch. Otherwise the batch was cut short by a
    /// crash, and was never reported durable.
    pub fn counts(&self, files: Files) -> Result<bool> {
        if !self.listed.is_empty() && !self.disks.mirrored {
            // A file may have grown for more than is written yet. Mirrored ones are made as long as they should be.
            for (disk, entry) in self.disks.present() {
                if let Some(file) = files(disk)
                    && file.len()? / (self.superblock.unit.bytes() as u64) < entry.end
                {
                    return Ok(false);
                }
            }
        }
        for run in &self.listed {
            let copies: Vec<Option<Vec<u8>>> = run
                .place
                .copies()
                .map(|copy| self.read_run(files, copy, run.pages))
                .collect::<Result<_>>()?;
            let bytes = run.pages as usize * self.superblock.unit.bytes();
            let mut at = 0;
            while at < bytes {
                let size = copies.iter().flatten().find_map(|blocks| self.whole_at(blocks, at));
                let Some(size) = size else { return Ok(false) };
                at += size;
            }
        }
        Ok(true)
    }

    /// Returns the bytes of the page that begins there, if it is whole and of this batch.
    fn whole_at(&self, blocks: &[u8], at: usize) -> Option<usize> {
        let rest = blocks.get(at..)?;
        let size = Page::size_told(rest)?.bytes();
        let (_, identity) = Page::check(rest.get(..size)?).ok()?;
        (identity.database == self.superblock.database && identity.batch == self.superblock.batch)
            .then_some(size)
    }

    /// Writes the listed pages once more, as they are: the contents that can be read may still be in memory only, or
    /// count as written after a sync that failed. Where one copy of a page is not whole it gets the other's contents.
    /// Not synced.
    pub fn write_listed(&self, files: Files) -> Result<()> {
        for run in &self.listed {
            let copies: Vec<u64> = run.place.copies().collect();
            let blocks: Vec<Option<Vec<u8>>> =
                copies.iter().map(|&copy| self.read_run(files, copy, run.pages)).collect::<Result<_>>()?;
            let unit = self.superblock.unit.bytes();
            let mut whole = vec![0; run.pages as usize * unit];
            let mut at = 0;
            while at < whole.len() {
                let from =
                    blocks.iter().flatten().find_map(|blocks| Some((blocks, self.whole_at(blocks, at)?)));
                // Otherwise the state would not count.
                let Some((from, size)) = from else { break };
                whole[at..at + size].copy_from_slice(&from[at..at + size]);
                at += size;
            }
            for copy in copies {
                if let Some(file) = files(place::disk_of(copy)) {
                    file.write_at(place::page_of(copy) * unit as u64, &whole)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the blocks of a run on one disk; none if the disk is missing or the file ends before.
    fn read_run(&self, files: Files, first: u64, pages: u64) -> Result<Option<Vec<u8>>> {
        let Some(file) = files(place::disk_of(first)) else { return Ok(None) };
        let unit = self.superblock.unit.bytes();
        let mut blocks = vec![0; pages as usize * unit];
        match file.read_at(place::page_of(first) * unit as u64, &mut blocks) {
            Ok(()) => Ok(Some(blocks)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            // Another copy may be readable.
            Err(_) if self.disks.mirrored => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The reason why a copy of the superblock cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuperblockFault {
    Damaged(&'static str),
    /// Each of its sectors is as it was written, but not all were written together: a crash came between.
    Torn,
    TooNew(u32),
    TooOld(u32),
}

/// The contents of the four places of the superblock.
pub(crate) type SuperblockCopies = [Result<SuperblockCopy, SuperblockFault>; SUPERBLOCK_PAGES as usize];

/// Reads all copies of the superblock.
///
/// # Errors
/// Of the disk, if for them no copy is whole: that is no damage that is known of.
pub(crate) fn read_copies(file: &dyn File) -> Result<SuperblockCopies> {
    let mut copies =
        [const { Err(SuperblockFault::Damaged("the file ends before it")) }; SUPERBLOCK_PAGES as usize];
    let len = file.len()?;
    let mut unread = None;
    for (place, copy) in copies.iter_mut().enumerate() {
        let at = (place * PAGE_BYTES) as u64;
        if at + PAGE_BYTES as u64 <= len {
            let mut block = [0; PAGE_BYTES];
            *copy = match file.read_at(at, &mut block) {
                Ok(()) => {
                    Superblock::decode(&block).map(|copy| SuperblockCopy { place: place as u64, ..copy })
                }
                // Another copy may be readable.
                Err(error) => {
                    unread = Some(error);
                    Err(SuperblockFault::Damaged("it cannot be read"))
                }
            };
        }
    }
    match unread {
        Some(error) if copies.iter().all(Result::is_err) => Err(error.into()),
        _ => Ok(copies),
    }
}

/// Returns the newest of the copies on all disks that is whole and counts.
pub(crate) fn newest(
    files: Files,
    copies: &[Result<SuperblockCopy, SuperblockFault>],
) -> Result<SuperblockCopy> {
    if let Some(found) = copies.iter().find_map(|copy| match copy {
        Err(SuperblockFault::TooNew(found)) => Some(*found),
        _ => None,
    }) {
        return Err(Error::TooNew { found, known: FORMAT_VERSION });
    }
    if let Some(found) = copies.iter().find_map(|copy| match copy {
        Err(SuperblockFault::TooOld(found)) => Some(*found),
        _ => None,
    }) {
        return Err(Error::TooOld { found, oldest: FORMAT_VERSION });
    }
    let newest = copies.iter().flatten().max_by_key(|copy| copy.superblock.batch);
    if let Some(newest) = newest {
        if newest.counts(files)? {
            return Ok(newest.clone());
        }
        // The batch before was durable when this one began.
        let before = copies.iter().flatten().filter(|copy| copy.superblock.batch < newest.superblock.batch);
        if let Some(before) = before.max_by_key(|copy| copy.superblock.batch) {
            return Ok(SuperblockCopy { listed: Vec::new(), ..before.clone() });
        }
    }
    Err(Error::Corrupt {
        file: super::FILE.into(),
        page: 0,
        detail: match newest {
            None => "none of the four copies of the page table pointer is whole: restore a backup".into(),
            Some(newest) => format!(
                "batch {} is not whole, and nothing is left of the one before: restore a backup",
                newest.superblock.batch
            ),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::GroupCommit;
    use crate::{
        disk::{Disk, MemDisk},
        page::{Identity, PageKind},
    };

    fn superblock(batch: u64) -> Superblock {
        Superblock {
            database: 7,
            unit: BLOCK,
            batch,
            csn: Csn(batch * 10),
            logical_end: 100,
            used: 50,
            depth: 2,
            closed: false,
            copies_whole: true,
            table: PageEntry::new(Place::single(9), batch),
            log: LogMark { epoch: 3, reaches: batch * 512 },
        }
    }

    /// A disk, all of whose 200 pages are in use.
    fn table() -> DiskTable {
        DiskTable::of_one(5, 200, 200)
    }

    fn found(file: &Arc<dyn File>) -> SuperblockCopy {
        newest(&|disk| (disk == 0).then(|| file.clone()), &read_copies(&**file).unwrap()).unwrap()
    }

    #[test]
    fn the_newest_whole_copy_counts_and_one_flipped_byte_loses_nothing() {
        let file = MemDisk::new().open("pages", true).unwrap();
        superblock(4).write_all(&*file, &table(), 0).unwrap();
        for batch in 5..9 {
            superblock(batch).write(&*file, &table(), 0, &[]).unwrap();
            assert_eq!(found(&file).superblock, superblock(batch));
        }
        for at in 0..SUPERBLOCK_PAGES * PAGE_BYTES as u64 {
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ 0x10]).unwrap();
            let copies = read_copies(&*file).unwrap();
            let faults: Vec<_> = copies.iter().filter_map(|copy| copy.as_ref().err()).collect();
            assert!(matches!(*faults, [SuperblockFault::Damaged(_)]), "flip at {at}: {faults:?}");
            assert_eq!(found(&file).superblock, superblock(8));
            file.write_at(at, &byte).unwrap();
        }
    }

    #[test]
    fn a_torn_pair_leaves_the_batch_before() {
        let file = MemDisk::new().open("pages", true).unwrap();
        superblock(4).write_all(&*file, &table(), 0).unwrap();
        superblock(5).write(&*file, &table(), 0, &[]).unwrap();
        let runs: Vec<_> = (16..116).map(|page| ListedRun { place: Place::single(page), pages: 1 }).collect();
        superblock(6).write(&*file, &table(), 0, &runs).unwrap();
        let mut older = [0; PAGE_BYTES - 1024];
        file.read_at(2 * PAGE_BYTES as u64 + 1024, &mut older).unwrap();
        file.write_at(1024, &older).unwrap();
        assert!(matches!(read_copies(&*file).unwrap()[0], Err(SuperblockFault::Torn)));
        file.write_at(PAGE_BYTES as u64 + 100, &[1; 3000]).unwrap();
        assert!(matches!(read_copies(&*file).unwrap()[1], Err(SuperblockFault::Damaged(_))));
        assert_eq!(found(&file).superblock, superblock(5));
    }

    #[test]
    fn a_superblock_counts_if_the_pages_that_it_lists_are_there() {
        let file = MemDisk::new().open("pages", true).unwrap();
        superblock(4).write_all(&*file, &table(), 0).unwrap();
        file.allocate(200 * PAGE_BYTES as u64).unwrap();
        let run = |first, pages| ListedRun { place: Place::single(first), pages };
        let runs = [run(7, 2), run(199, 1)];
        let write = |physical: u64, batch| {
            let mut block = [0; PAGE_BYTES];
            let identity = Identity { database: 7, level: 0, logical: physical, batch, early: false };
            Page::new(PageKind::TreeLeaf).seal(identity, &mut block);
            file.write_at(physical * PAGE_BYTES as u64, &block).unwrap();
        };
        let newest = || found(&file);
        let copy = |superblock, listed: &[ListedRun], place| SuperblockCopy {
            superblock,
            disks: table(),
            disk: 0,
            listed: listed.to_vec(),
            place,
        };
        superblock(5).write(&*file, &table(), 0, &runs).unwrap();
        assert_eq!(newest(), copy(superblock(4), &[], 1));
        for page in [7, 8, 199] {
            assert_eq!(newest().superblock, superblock(4));
            write(page, 5);
        }
        assert_eq!(newest(), copy(superblock(5), &runs, 3));
        write(8, 4);
        assert_eq!(newest().superblock, superblock(4), "a page of an earlier batch is not the one listed");
        write(8, 5);
        file.truncate(199 * PAGE_BYTES as u64).unwrap();
        assert_eq!(newest().superblock, superblock(4), "the file had not grown yet");
    }

    /// A batch never writes over the only pair that holds the state before it, in the first batch after a crash
    /// neither.
    #[test]
    fn the_state_before_a_batch_stands_in_the_other_pair() {
        use crate::{disk::SimDisk, store::PageWrite, store::shadow::ShadowStore};

        let mut disk = SimDisk::new(1);
        let mut before = 0;
        for run in 0..4 {
            let store = ShadowStore::open(&disk, Some(7), 1 << 20, false).unwrap();
            for _ in 0..1 + run % 2 {
                let pages = store.begin(1).unwrap();
                pages.allocate(PageKind::TreeLeaf, crate::PageSize::DEFAULT).unwrap();
                drop(pages);
                store.flush().unwrap();
                let file = disk.open(super::super::FILE, false).unwrap();
                let batches = read_copies(&*file).unwrap().map(|copy| copy.unwrap().superblock.batch);
                let [older, newer] = [*batches.iter().min().unwrap(), *batches.iter().max().unwrap()];
                assert!(
                    older >= before,
                    "run {run}: {older} was left beside {newer}, but {before} was durable"
                );
                before = newer;
            }
            // As if the machine stopped: it is not closed.
            disk = disk.crash_image_synced();
        }
    }

    #[test]
    fn another_format_is_refused() {
        let file = MemDisk::new().open("pages", true).unwrap();
        let write = |version| {
            let mut block = [0; PAGE_BYTES];
            let mut record = out_of_sectors(&superblock(1).encode(&table(), 0, &[])).unwrap();
            record[4] = version;
            // Older ones had no checksums of sectors.
            let bytes = if version < 6 { &mut block[..] } else { &mut record[..] };
            bytes[4] = version;
            bytes[8..16].copy_from_slice(&MAGIC);
            let sum = crc32c::crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
            if version >= 6 {
                into_sectors(&record, &mut block);
            }
            file.write_at(0, &block).unwrap();
            newest(&|_| Some(file.clone()), &read_copies(&*file).unwrap())
        };
        assert!(matches!(write(7), Err(Error::TooNew { found: 7, known: 6 })));
        assert!(matches!(write(5), Err(Error::TooOld { found: 5, oldest: 6 })));
    }
}
