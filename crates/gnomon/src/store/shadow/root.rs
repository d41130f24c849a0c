//! The page table pointer, here called the root: the one thing that is overwritten, and so what commits a batch.
//!
//! Stable storage: the root stands in two copies, and there are two pairs of copies. Batch `n` writes the pair
//! `n % 2` (physical pages 0 and 1, or 2 and 3). A crash while a pair is written can tear both of its copies, and
//! leaves the other pair, which is the state before the batch; a copy that decays later leaves its twin. Opening
//! takes the newest copy that is whole.
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
//! | 73 | 1 if every free page is whole (see `free_pages_whole`) |
//! | 80..96 | page table entry of the page table's root node |
//! | 96..4096 | zero |

use super::table::{self, DEPTH_MAX, PageEntry};
use crate::{Csn, Error, Result, disk::File, page::PAGE_BYTES};

/// The version of the database format that this code writes and the newest that it reads.
pub(crate) const FORMAT_VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"GNOMONDB";
/// The physical pages that hold the copies of the root: two pairs.
pub(crate) const ROOT_PAGES: u64 = 4;

/// Physical pages and batches have 40 bits in the page table.
const NUMBER_MAX: u64 = 1 << 40;

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
    pub table: PageEntry,
}

impl Root {
    fn encode(&self) -> [u8; PAGE_BYTES] {
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
        put(72, &[self.depth, self.free_pages_whole as u8]);
        put(80, &self.table.encode());
        let sum = crc32c::crc32c(&block[4..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        block
    }

    fn decode(block: &[u8; PAGE_BYTES]) -> Result<Root, RootFault> {
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
            free_pages_whole: block[73] == 1,
            table: PageEntry::decode(&block[80..96]),
        };
        // Written by this code, they fit; the sum alone does not prove who wrote them.
        let fits = root.depth <= DEPTH_MAX
            && root.batch < NUMBER_MAX
            && root.physical_end < NUMBER_MAX
            && root.used <= root.physical_end
            && root.logical_end <= if root.depth == 0 { 1 } else { table::span(root.depth) };
        if fits { Ok(root) } else { Err(RootFault::Damaged("its numbers do not fit each other")) }
    }

    /// Writes both copies of the pair of this batch, in one call. Not synced.
    pub fn write(&self, file: &dyn File) -> std::io::Result<()> {
        let block = self.encode();
        let pair = self.batch % 2 * 2;
        file.write_at(pair * PAGE_BYTES as u64, &[block, block].concat())
    }

    /// Writes both pairs: for a new database, and to mend copies that a crash or decay left.
    pub fn write_all(&self, file: &dyn File) -> std::io::Result<()> {
        let block = self.encode();
        file.write_at(0, &[block, block, block, block].concat())
    }
}

/// Why a copy of the root cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootFault {
    Damaged(&'static str),
    TooNew(u32),
}

/// What the four places of the root hold.
pub(crate) type RootCopies = [Result<Root, RootFault>; ROOT_PAGES as usize];

/// Reads all copies of the root.
pub(crate) fn read_copies(file: &dyn File) -> Result<RootCopies> {
    let mut copies = [Err(RootFault::Damaged("the file ends before it")); ROOT_PAGES as usize];
    let len = file.len()?;
    for (place, copy) in copies.iter_mut().enumerate() {
        let at = (place * PAGE_BYTES) as u64;
        if at + PAGE_BYTES as u64 <= len {
            let mut block = [0; PAGE_BYTES];
            file.read_at(at, &mut block)?;
            *copy = Root::decode(&block);
        }
    }
    Ok(copies)
}

/// The newest whole copy.
pub(crate) fn newest(copies: &RootCopies) -> Result<Root> {
    if let Some(found) = copies.iter().find_map(|copy| match copy {
        Err(RootFault::TooNew(found)) => Some(*found),
        _ => None,
    }) {
        return Err(Error::TooNew { found, known: FORMAT_VERSION });
    }
    copies.iter().filter_map(|copy| copy.ok()).max_by_key(|root| root.batch).ok_or_else(|| Error::Corrupt {
        file: super::FILE.into(),
        page: 0,
        detail: "none of the four copies of the page table pointer is whole: restore a backup".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, MemDisk};

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
            table: PageEntry { physical: 9, batch },
        }
    }

    #[test]
    fn the_newest_whole_copy_counts_and_one_flipped_byte_loses_nothing() {
        let file = MemDisk::new().open("pages", true).unwrap();
        root(4).write_all(&*file).unwrap();
        for batch in 5..9 {
            root(batch).write(&*file).unwrap();
            assert_eq!(newest(&read_copies(&*file).unwrap()).unwrap(), root(batch));
        }
        for at in 0..ROOT_PAGES * PAGE_BYTES as u64 {
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ 0x10]).unwrap();
            let copies = read_copies(&*file).unwrap();
            assert_eq!(copies.iter().filter(|copy| copy.is_err()).count(), 1, "flip at {at}");
            assert_eq!(newest(&copies).unwrap(), root(8));
            file.write_at(at, &byte).unwrap();
        }
    }

    #[test]
    fn a_torn_pair_leaves_the_batch_before() {
        let file = MemDisk::new().open("pages", true).unwrap();
        root(4).write_all(&*file).unwrap();
        root(5).write(&*file).unwrap();
        root(6).write(&*file).unwrap();
        file.write_at(100, &[1; 5000]).unwrap();
        assert_eq!(newest(&read_copies(&*file).unwrap()).unwrap(), root(5));
    }

    /// A batch never writes over the only pair that holds the state before it, in the first batch after a crash
    /// neither.
    #[test]
    fn the_state_before_a_batch_stands_in_the_other_pair() {
        use crate::{disk::SimDisk, page::PageKind, store::PageWrite, store::shadow::ShadowStore};

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
                let batches = read_copies(&*file).unwrap().map(|copy| copy.unwrap().batch);
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
        let mut block = root(1).encode();
        block[4] = 2;
        let sum = crc32c::crc32c(&block[4..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        file.write_at(0, &block).unwrap();
        assert!(matches!(newest(&read_copies(&*file).unwrap()), Err(Error::TooNew { found: 2, known: 1 })));
    }
}
