//! The page table pointer, here called the root: the one thing that is overwritten, and so what commits a batch.
//!
//! Stable storage: the root stands in two copies, and there are two pairs of copies. Batch `n` writes the pair
//! `n % 2` (physical pages 0 and 1, or 2 and 3). A crash while a pair is written can tear both of its copies, and
//! leaves the other pair, which is the state before the batch; a copy that decays later leaves its twin.
//!
//! A root that lists the pages of its batch was written together with them, before one sync for all: it counts only
//! if each of these pages is whole and of its batch ([`RootCopy::counts`]). A root without a list was written when
//! everything that it reaches was durable. Opening takes the newest copy that is whole and counts.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of bytes 4..4096 |
//! | 4..8 | format version |
//! | 8..16 | `GNOMONDB` |
//! | 16..24 | the database's identity |
//! | 24..32 | commit batch number |
//! | 32..40 | CSN: every commit up to it is in this state, and none after it |
//! | 40..48 | logical pages: each page number below was in use at some time |
//! | 48..56 | physical pages that belong to the file, used or free |
//! | 56..64 | physical pages in use |
//! | 64..72 | where the allocator goes on |
//! | 72 | depth of the page table |
//! | 73 | bit 0: every free page is whole (see `free_pages_whole`); bit 1: `closed` |
//! | 74..76 | how many runs of pages are listed |
//! | 80..96 | page table entry of the page table's root node |
//! | 96..4096 | the runs: 5 bytes for the first physical page, 3 for how many pages |

use super::{
    space::Run,
    table::{self, DEPTH_MAX, PageEntry},
};
use crate::{
    Csn, Error, Result,
    disk::File,
    page::{PAGE_BYTES, Page},
};

/// The version of the database format that this code writes and the newest that it reads.
pub(crate) const FORMAT_VERSION: u32 = 2;
const MAGIC: [u8; 8] = *b"GNOMONDB";
/// The physical pages that hold the copies of the root: two pairs.
pub(crate) const ROOT_PAGES: u64 = 4;

const RUNS_AT: usize = 96;
const RUN_BYTES: usize = 8;
/// A batch of more pages is synced before its root is written (4 MiB): so much is read when a database is opened after
/// a crash.
pub(crate) const LISTED_PAGES_MAX: u64 = 1024;
/// At most so many runs can be listed.
pub(crate) const RUNS_MAX: usize = (PAGE_BYTES - RUNS_AT) / RUN_BYTES;

/// Physical pages and batches have 40 bits in the page table.
pub(crate) const NUMBER_MAX: u64 = 1 << 40;

/// A committed state of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub database: u64,
    pub batch: u64,
    pub csn: Csn,
    pub logical_end: u64,
    pub physical_end: u64,
    pub used: u64,
    pub cursor: u64,
    pub depth: u8,
    /// Whether each free page is either zero or was once written whole. A crash in a batch leaves torn pages in free
    /// space, which hold nothing and harm nothing; from then on damage of free pages cannot be told from that.
    pub free_pages_whole: bool,
    /// Whether the database was closed with this root. Otherwise what can be read of it need not be durable.
    pub closed: bool,
    pub table: PageEntry,
}

impl Root {
    /// The same state under a number that no page on the disk has: the run before may have written pages of its next
    /// two batches (the one in flight, and the one after it early), so the first batch of a new run, the one after
    /// this, is by four larger. It stands in the other pair of copies.
    pub fn of_new_run(&self) -> Root {
        Root { batch: self.batch + 3, ..*self }
    }

    /// `listed`: at most [`RUNS_MAX`] runs of less than 2^24 pages each.
    fn encode(&self, listed: &[Run]) -> [u8; PAGE_BYTES] {
        let mut block = [0; PAGE_BYTES];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(4, &FORMAT_VERSION.to_le_bytes());
        put(8, &MAGIC);
        put(16, &self.database.to_le_bytes());
        put(24, &self.batch.to_le_bytes());
        put(32, &self.csn.0.to_le_bytes());
        put(40, &self.logical_end.to_le_bytes());
        put(48, &self.physical_end.to_le_bytes());
        put(56, &self.used.to_le_bytes());
        put(64, &self.cursor.to_le_bytes());
        put(72, &[self.depth, u8::from(self.free_pages_whole) | u8::from(self.closed) << 1]);
        put(74, &(listed.len() as u16).to_le_bytes());
        put(80, &self.table.encode());
        for (run, at) in listed.iter().zip((RUNS_AT..).step_by(RUN_BYTES)) {
            put(at, &run.start.to_le_bytes()[..5]);
            put(at + 5, &run.len.to_le_bytes()[..3]);
        }
        let sum = crc32c::crc32c(&block[4..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        block
    }

    fn decode(block: &[u8; PAGE_BYTES]) -> Result<RootCopy, RootFault> {
        let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes"));
        if half(0) != crc32c::crc32c(&block[4..]) {
            return Err(RootFault::Damaged("its checksum does not fit its contents"));
        }
        if block[8..16] != MAGIC {
            return Err(RootFault::Damaged("it does not begin as a Gnomon database does"));
        }
        if half(4) > FORMAT_VERSION {
            return Err(RootFault::TooNew(half(4)));
        }
        let root = Root {
            database: word(16),
            batch: word(24),
            csn: Csn(word(32)),
            logical_end: word(40),
            physical_end: word(48),
            used: word(56),
            cursor: word(64),
            depth: block[72],
            free_pages_whole: block[73] & 1 == 1,
            closed: block[73] & 2 == 2,
            table: PageEntry::decode(&block[80..96]),
        };
        // Written by this code, they fit; the sum alone does not prove who wrote them.
        let fits = root.depth <= DEPTH_MAX
            && root.batch < NUMBER_MAX
            && root.physical_end < NUMBER_MAX
            && root.used <= root.physical_end
            && root.logical_end <= if root.depth == 0 { 1 } else { table::span(root.depth) };
        let count = usize::from(u16::from_le_bytes([block[74], block[75]]));
        let runs = block[RUNS_AT..].chunks_exact(RUN_BYTES).take(count);
        let listed: Vec<Run> = runs
            .map(|run| {
                let number = u64::from_le_bytes(run.try_into().expect("8 bytes"));
                Run { start: number & (NUMBER_MAX - 1), len: number >> 40 }
            })
            .collect();
        let in_file = |run: &Run| run.start >= ROOT_PAGES && run.start + run.len <= root.physical_end;
        let pages: u64 = listed.iter().map(|run| run.len).sum();
        if fits && listed.len() == count && pages <= LISTED_PAGES_MAX && listed.iter().all(in_file) {
            Ok(RootCopy { root, listed, place: 0 })
        } else {
            Err(RootFault::Damaged("its numbers do not fit each other"))
        }
    }

    /// Writes both copies of the pair of this batch, in one call, with a list of the pages that were not synced
    /// before. Not synced.
    pub fn write(&self, file: &dyn File, listed: &[Run]) -> std::io::Result<()> {
        let block = self.encode(listed);
        file.write_at(self.first_place() * PAGE_BYTES as u64, &[block, block].concat())
    }

    /// Writes the root anew under the number of a new run, into the other pair of copies, durably. `place` is where it
    /// was read.
    ///
    /// After a sync that failed it may have been read from memory only, and the other pair may be all that the disk
    /// has. So it is made durable first in its own pair, beside the copy that was read: if the disk does have that, it
    /// survives there; if not, the other pair holds the state.
    pub fn renew(&self, file: &dyn File, place: u64) -> Result<Root> {
        file.write_at((place ^ 1) * PAGE_BYTES as u64, &self.encode(&[]))?;
        file.sync()?;
        let root = self.of_new_run();
        root.write(file, &[])?;
        file.sync()?;
        Ok(root)
    }

    /// The first physical page of its pair of copies.
    pub fn first_place(&self) -> u64 {
        self.batch % 2 * 2
    }

    /// Writes both pairs of a new database. Not synced.
    pub fn write_all(&self, file: &dyn File) -> std::io::Result<()> {
        let block = self.encode(&[]);
        file.write_at(0, &[block, block, block, block].concat())
    }
}

/// A copy of the root, as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootCopy {
    pub root: Root,
    /// The pages that were written together with it.
    pub listed: Vec<Run>,
    /// The physical page that it stands in.
    pub place: u64,
}

impl RootCopy {
    /// Whether every listed page is there, whole and of this batch. Without that, its batch was cut short by a crash,
    /// and nobody was told that it is durable.
    pub fn counts(&self, file: &dyn File) -> Result<bool> {
        if self.listed.is_empty() {
            return Ok(true);
        }
        if file.len()? / (PAGE_BYTES as u64) < self.root.physical_end {
            return Ok(false);
        }
        for run in &self.listed {
            let blocks = read_run(file, run)?;
            let whole = |block: &[u8]| {
                Page::unseal(block).is_ok_and(|(_, identity)| {
                    identity.database == self.root.database && identity.batch == self.root.batch
                })
            };
            if !blocks.chunks_exact(PAGE_BYTES).all(whole) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the listed pages once more, as they are: what can be read may still be in memory only, or be thought
    /// written after a sync that failed. Not synced.
    pub fn write_listed(&self, file: &dyn File) -> Result<()> {
        for run in &self.listed {
            file.write_at(run.start * PAGE_BYTES as u64, &read_run(file, run)?)?;
        }
        Ok(())
    }
}

fn read_run(file: &dyn File, run: &Run) -> Result<Vec<u8>> {
    let mut blocks = vec![0; run.len as usize * PAGE_BYTES];
    file.read_at(run.start * PAGE_BYTES as u64, &mut blocks)?;
    Ok(blocks)
}

/// Why a copy of the root cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootFault {
    Damaged(&'static str),
    TooNew(u32),
}

/// What the four places of the root hold.
pub(crate) type RootCopies = [Result<RootCopy, RootFault>; ROOT_PAGES as usize];

/// Reads all copies of the root.
pub(crate) fn read_copies(file: &dyn File) -> Result<RootCopies> {
    let mut copies = [const { Err(RootFault::Damaged("the file ends before it")) }; ROOT_PAGES as usize];
    let len = file.len()?;
    for (place, copy) in copies.iter_mut().enumerate() {
        let at = (place * PAGE_BYTES) as u64;
        if at + PAGE_BYTES as u64 <= len {
            let mut block = [0; PAGE_BYTES];
            file.read_at(at, &mut block)?;
            *copy = Root::decode(&block).map(|copy| RootCopy { place: place as u64, ..copy });
        }
    }
    Ok(copies)
}

/// The newest copy that is whole and counts.
pub(crate) fn newest(file: &dyn File, copies: &RootCopies) -> Result<RootCopy> {
    if let Some(found) = copies.iter().find_map(|copy| match copy {
        Err(RootFault::TooNew(found)) => Some(*found),
        _ => None,
    }) {
        return Err(Error::TooNew { found, known: FORMAT_VERSION });
    }
    let newest = copies.iter().flatten().max_by_key(|copy| copy.root.batch);
    if let Some(newest) = newest {
        if newest.counts(file)? {
            return Ok(newest.clone());
        }
        // The batch before was durable when this one began.
        let before = copies.iter().flatten().filter(|copy| copy.root.batch < newest.root.batch);
        if let Some(before) = before.max_by_key(|copy| copy.root.batch) {
            return Ok(RootCopy { listed: Vec::new(), ..before.clone() });
        }
    }
    Err(Error::Corrupt {
        file: super::FILE.into(),
        page: 0,
        detail: match newest {
            None => "none of the four copies of the page table pointer is whole: restore a backup".into(),
            Some(newest) => format!(
                "batch {} is not whole, and nothing is left of the one before: restore a backup",
                newest.root.batch
            ),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disk::{Disk, MemDisk},
        page::{Identity, PageKind},
    };

    fn root(batch: u64) -> Root {
        Root {
            database: 7,
            batch,
            csn: Csn(batch * 10),
            logical_end: 100,
            physical_end: 200,
            used: 50,
            cursor: 60,
            depth: 2,
            free_pages_whole: true,
            closed: false,
            table: PageEntry { physical: 9, batch, ..PageEntry::default() },
        }
    }

    #[test]
    fn the_newest_whole_copy_counts_and_one_flipped_byte_loses_nothing() {
        let file = MemDisk::new().open("pages", true).unwrap();
        root(4).write_all(&*file).unwrap();
        for batch in 5..9 {
            root(batch).write(&*file, &[]).unwrap();
            assert_eq!(newest(&*file, &read_copies(&*file).unwrap()).unwrap().root, root(batch));
        }
        for at in 0..ROOT_PAGES * PAGE_BYTES as u64 {
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ 0x10]).unwrap();
            let copies = read_copies(&*file).unwrap();
            assert_eq!(copies.iter().filter(|copy| copy.is_err()).count(), 1, "flip at {at}");
            assert_eq!(newest(&*file, &copies).unwrap().root, root(8));
            file.write_at(at, &byte).unwrap();
        }
    }

    #[test]
    fn a_torn_pair_leaves_the_batch_before() {
        let file = MemDisk::new().open("pages", true).unwrap();
        root(4).write_all(&*file).unwrap();
        root(5).write(&*file, &[]).unwrap();
        root(6).write(&*file, &[]).unwrap();
        file.write_at(100, &[1; 5000]).unwrap();
        assert_eq!(newest(&*file, &read_copies(&*file).unwrap()).unwrap().root, root(5));
    }

    #[test]
    fn a_root_counts_if_the_pages_that_it_lists_are_there() {
        let file = MemDisk::new().open("pages", true).unwrap();
        root(4).write_all(&*file).unwrap();
        file.allocate(200 * PAGE_BYTES as u64).unwrap();
        let runs = [Run { start: 7, len: 2 }, Run { start: 199, len: 1 }];
        let write = |physical: u64, batch| {
            let mut block = [0; PAGE_BYTES];
            let identity = Identity { database: 7, level: 0, logical: physical, batch, early: false };
            Page::new(PageKind::TreeLeaf).seal(identity, &mut block);
            file.write_at(physical * PAGE_BYTES as u64, &block).unwrap();
        };
        let newest = || newest(&*file, &read_copies(&*file).unwrap()).unwrap();
        root(5).write(&*file, &runs).unwrap();
        assert_eq!(newest(), RootCopy { root: root(4), listed: Vec::new(), place: 1 });
        for page in [7, 8, 199] {
            assert_eq!(newest().root, root(4));
            write(page, 5);
        }
        assert_eq!(newest(), RootCopy { root: root(5), listed: runs.to_vec(), place: 3 });
        write(8, 4);
        assert_eq!(newest().root, root(4), "a page of an earlier batch is not the one listed");
        write(8, 5);
        file.truncate(199 * PAGE_BYTES as u64).unwrap();
        assert_eq!(newest().root, root(4), "the file had not grown yet");
    }

    /// The copy that was read, and the other pair, are not written before a copy is durable beside the first.
    #[test]
    fn renewing_writes_one_place_at_a_time() {
        let disk = crate::disk::SimDisk::new(1);
        let file = disk.open("pages", true).unwrap();
        root(4).write_all(&*file).unwrap();
        let renewed = root(4).renew(&*file, 1).unwrap();
        let events: Vec<String> = disk.trace()[2..].iter().map(ToString::to_string).collect();
        assert_eq!(
            events,
            ["2 write pages 0+4096", "3 sync pages", "4 write pages 8192+8192", "5 sync pages"]
        );
        let copies = read_copies(&*file).unwrap();
        assert_eq!(newest(&*file, &copies).unwrap().root, renewed);
        assert_eq!(renewed, Root { batch: 7, ..root(4) });
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
                pages.allocate(PageKind::TreeLeaf).unwrap();
                drop(pages);
                store.flush().unwrap();
                let file = disk.open(super::super::FILE, false).unwrap();
                let batches = read_copies(&*file).unwrap().map(|copy| copy.unwrap().root.batch);
                let [older, newer] = [*batches.iter().min().unwrap(), *batches.iter().max().unwrap()];
                assert!(
                    older >= before,
                    "run {run}: {older} was left beside {newer}, but {before} was durable"
                );
                before = newer;
            }
            // As if the machine stopped: nobody closes it.
            disk = disk.crash_image_synced();
        }
    }

    #[test]
    fn a_newer_format_is_refused() {
        let file = MemDisk::new().open("pages", true).unwrap();
        let mut block = root(1).encode(&[]);
        block[4] = 3;
        let sum = crc32c::crc32c(&block[4..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        file.write_at(0, &block).unwrap();
        assert!(matches!(
            newest(&*file, &read_copies(&*file).unwrap()),
            Err(Error::TooNew { found: 3, known: 2 })
        ));
    }
}
