//! Pages of 512 bytes to 1 MiB ([`PageSize`]), each with a checksum, a format version and its own identity, and the
//! buffer pool that keeps them in memory ([`pool`]).
//!
//! The first [`HEADER_BYTES`] belong to level 0 and say what the page is and where it belongs, so that a damaged,
//! misdirected, stale or torn block is detected when it is read; the body belongs to the page's owner. The header
//! is made when a page is written ([`Page::seal`]) and checked when it is read ([`Page::unseal`]); in memory there
//! is only the body and its kind.
//!
//! Every sector of [`SECTOR_BYTES`](crate::disk::SECTOR_BYTES) begins with a checksum of its own, so that of any piece
//! that is left of a page, in free space, it can be told whether it is as it was written ([`damaged_sector`]). That a
//! page's sectors belong together, the checksum of their checksums tells. The first sector:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of the sector's other bytes |
//! | 4 | format version, [`FORMAT_VERSION`] |
//! | 5 | [`PageKind`] |
//! | 6 | level: 0 for data, 1 and up for nodes of the page table |
//! | 7 | low 4 bits: size, log2 of the page's bytes, less 9; bit 4: it was written before its batch was known ([`Identity::early`]) |
//! | 8..16 | logical page number; for a node of the page table the first that it maps |
//! | 16..24 | the commit batch that wrote it; if that was not known, the one that was next then |
//! | 24..32 | the database's identity |
//! | 32..36 | crc32c of the checksums of the other sectors, one after the other |
//! | 36..512 | the first part of the body |
//!
//! Each other sector:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of the sector's other bytes |
//! | 4..512 | the next part of the body |
//!
//! All numbers are little-endian.

pub mod pool;
mod size;

pub use self::size::PageSize;
pub(crate) use self::size::{PageCounts, SIZES};
pub use crate::id::PageId;
use crate::{disk::SECTOR_BYTES, sync::Arc};

/// The size of a page of [`PageSize::DEFAULT`] in bytes.
pub const PAGE_BYTES: usize = PageSize::DEFAULT.bytes();
/// The size of the header that level 0 keeps in the first sector of each page, in bytes.
pub const HEADER_BYTES: usize = 36;
/// The size of the checksum that a sector begins with, in bytes.
const SUM_BYTES: usize = 4;
/// Bytes of a page of [`PageSize::DEFAULT`] that its owner has.
pub const BODY_BYTES: usize = PageSize::DEFAULT.body_bytes();
/// The version of the page format. Version 1 had one size, version 2 one checksum for all sectors.
pub const FORMAT_VERSION: u8 = 3;
/// In the header's byte 7, beside the size.
const EARLY: u8 = 0x10;

/// The kinds of contents of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// A node of the page table.
    PageTable = 1,
    /// A part of the map of physical pages in use.
    SpaceMap = 2,
    /// A leaf of a B+tree.
    TreeLeaf = 3,
    /// An inner node of a B+tree.
    TreeInner = 4,
    /// A part of a large value.
    Overflow = 5,
    /// The header of a complex object.
    ObjectHeader = 6,
    /// Subobjects of a complex object.
    ObjectData = 7,
}

impl PageKind {
    /// The kind with this code, if there is one.
    pub fn from_code(code: u8) -> Option<PageKind> {
        Some(match code {
            1 => PageKind::PageTable,
            2 => PageKind::SpaceMap,
            3 => PageKind::TreeLeaf,
            4 => PageKind::TreeInner,
            5 => PageKind::Overflow,
            6 => PageKind::ObjectHeader,
            7 => PageKind::ObjectData,
            _ => return None,
        })
    }
}

/// The identity of a page, as its header on disk states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The database that it belongs to.
    pub database: u64,
    /// 0 for data, 1 and up for nodes of the page table.
    pub level: u8,
    /// Its logical page number; for a node of the page table the first that it maps.
    pub logical: u64,
    /// The commit batch that wrote it.
    pub batch: u64,
    /// True if it was written before its batch was known. Then `batch` is the one that was next at the time, and its
    /// own is that or a later one.
    pub early: bool,
}

impl Identity {
    /// True if a page with this identity is the one that is expected.
    pub(crate) fn fits(&self, expected: &Identity) -> bool {
        let batch_fits =
            if expected.early { self.batch <= expected.batch } else { self.batch == expected.batch };
        batch_fits && Identity { batch: expected.batch, ..*self } == *expected
    }
}

/// The image of a page in memory. Clones share its bytes until one of them is changed.
#[derive(Clone)]
pub struct Page {
    kind: PageKind,
    size: PageSize,
    /// As long as the size says.
    body: Arc<[u8]>,
}

impl Page {
    /// A page of zeros, of [`PageSize::DEFAULT`].
    pub fn new(kind: PageKind) -> Page {
        Page::sized(kind, PageSize::DEFAULT)
    }

    /// A page of zeros.
    pub fn sized(kind: PageKind, size: PageSize) -> Page {
        Page { kind, size, body: vec![0; size.body_bytes()].into() }
    }

    /// A page with this body, which is as long as the size says.
    pub(crate) fn from_body(kind: PageKind, size: PageSize, body: &[u8]) -> Page {
        debug_assert_eq!(body.len(), size.body_bytes());
        Page { kind, size, body: body.into() }
    }

    /// The page's size.
    pub fn size(&self) -> PageSize {
        self.size
    }

    /// Returns the kind of the page's contents.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Changes the kind of the page's contents.
    pub fn set_kind(&mut self, kind: PageKind) {
        self.kind = kind;
    }

    /// The owner's bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The owner's bytes, for changing: copied if another image shares them.
    pub fn body_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.body)
    }

    /// Writes the page into `block`, which has the page's size.
    pub(crate) fn seal(&self, identity: Identity, block: &mut [u8]) {
        block[4] = FORMAT_VERSION;
        block[5] = self.kind as u8;
        block[6] = identity.level;
        block[7] = self.size.code() | if identity.early { EARLY } else { 0 };
        block[8..16].copy_from_slice(&identity.logical.to_le_bytes());
        block[16..24].copy_from_slice(&identity.batch.to_le_bytes());
        block[24..32].copy_from_slice(&identity.database.to_le_bytes());
        let (first, others) = block.split_at_mut(SECTOR_BYTES);
        let (first_part, parts) = self.body.split_at(SECTOR_BYTES - HEADER_BYTES);
        let parts = parts.chunks_exact(SECTOR_BYTES - SUM_BYTES);
        first[HEADER_BYTES..].copy_from_slice(first_part);
        for (sector, part) in others.chunks_exact_mut(SECTOR_BYTES).zip(parts) {
            sector[SUM_BYTES..].copy_from_slice(part);
        }
        Page::set_sums(block);
    }

    fn set_sums(block: &mut [u8]) {
        let (first, others) = block.split_at_mut(SECTOR_BYTES);
        let mut sums = 0;
        for sector in others.chunks_exact_mut(SECTOR_BYTES) {
            set_sum(sector);
            sums = crc32c::crc32c_append(sums, &sector[..SUM_BYTES]);
        }
        first[32..HEADER_BYTES].copy_from_slice(&sums.to_le_bytes());
        set_sum(first);
    }

    /// Reads a block, checking its checksum; the text tells what is wrong with it.
    pub(crate) fn unseal(block: &[u8]) -> Result<(Page, Identity), String> {
        let (kind, size, identity) = Page::parse(block)?;
        let mut body = Vec::with_capacity(size.body_bytes());
        let (first, others) = block.split_at(SECTOR_BYTES);
        body.extend_from_slice(&first[HEADER_BYTES..]);
        for sector in others.chunks_exact(SECTOR_BYTES) {
            body.extend_from_slice(&sector[SUM_BYTES..]);
        }
        Ok((Page { kind, size, body: body.into() }, identity))
    }

    /// Checks a block's checksums, version, kind and size, and returns its kind and identity.
    pub(crate) fn check(block: &[u8]) -> Result<(PageKind, Identity), String> {
        Page::parse(block).map(|(kind, _, identity)| (kind, identity))
    }

    fn parse(block: &[u8]) -> Result<(PageKind, PageSize, Identity), String> {
        let Some((first, others)) = block.split_at_checked(SECTOR_BYTES) else {
            return Err(format!("it has {} bytes", block.len()));
        };
        check_sum(first)?;
        let header = &first[..HEADER_BYTES];
        if header[4] != FORMAT_VERSION {
            return Err(format!("its format version is {}, known is {FORMAT_VERSION}", header[4]));
        }
        let kind = PageKind::from_code(header[5]).ok_or_else(|| format!("its kind is {}", header[5]))?;
        let size = PageSize::from_code(header[7] & !EARLY)
            .filter(|size| size.bytes() == block.len())
            .ok_or_else(|| format!("its size is {}, but it has {} bytes", header[7], block.len()))?;
        let mut sums = 0;
        for (sector, number) in others.chunks_exact(SECTOR_BYTES).zip(1..) {
            check_sum(sector).map_err(|fault| format!("in sector {number} {fault}"))?;
            sums = crc32c::crc32c_append(sums, &sector[..SUM_BYTES]);
        }
        if u32::from_le_bytes(field(header, 32)) != sums {
            return Err("its sectors were not written together".into());
        }
        let identity = Identity {
            database: u64::from_le_bytes(field(header, 24)),
            level: header[6],
            logical: u64::from_le_bytes(field(header, 8)),
            batch: u64::from_le_bytes(field(header, 16)),
            early: header[7] & EARLY != 0,
        };
        Ok((kind, size, identity))
    }

    /// The size that a block says that its page has, of which it is the beginning. Nothing is checked.
    pub(crate) fn size_told(block: &[u8]) -> Option<PageSize> {
        PageSize::from_code(*block.get(7)? & !EARLY)
    }

    /// As [`Page::check`], of a block that must have this identity.
    pub(crate) fn check_expected(block: &[u8], expected: Identity) -> Result<PageKind, String> {
        let (kind, found) = Page::check(block)?;
        if !found.fits(&expected) {
            return Err(format!("it says that it is {found:?}, expected is {expected:?}"));
        }
        Ok(kind)
    }

    /// Makes a whole block that of another database.
    pub(crate) fn move_to(block: &mut [u8], database: u64) {
        block[24..32].copy_from_slice(&database.to_le_bytes());
        set_sum(&mut block[..SECTOR_BYTES]);
    }

    /// Makes a block whole: sets its checksums for the bytes that it contains.
    pub(crate) fn make_whole(block: &mut [u8]) {
        Page::set_sums(block);
    }

    /// Notes in a whole block the batch that its page belongs to, now that it is known.
    pub(crate) fn set_batch(block: &mut [u8], batch: u64) {
        block[7] &= !EARLY;
        block[16..24].copy_from_slice(&batch.to_le_bytes());
        set_sum(&mut block[..SECTOR_BYTES]);
    }

    /// Reads a block that must be the page with this identity.
    pub(crate) fn unseal_expected(block: &[u8], expected: Identity) -> Result<Page, String> {
        let (page, found) = Page::unseal(block)?;
        if !found.fits(&expected) {
            return Err(format!("it says that it is {found:?}, expected is {expected:?}"));
        }
        Ok(page)
    }
}

/// Bytes that fit into a block of so many bytes beside the checksums of its sectors.
pub(crate) const fn record_bytes(block_bytes: usize) -> usize {
    block_bytes / SECTOR_BYTES * (SECTOR_BYTES - SUM_BYTES)
}

/// Writes a record into a block, each sector with its checksum first.
pub(crate) fn into_sectors(record: &[u8], block: &mut [u8]) {
    let parts = record.chunks_exact(SECTOR_BYTES - SUM_BYTES);
    for (sector, part) in block.chunks_exact_mut(SECTOR_BYTES).zip(parts) {
        sector[SUM_BYTES..].copy_from_slice(part);
        set_sum(sector);
    }
}

/// The record in a block; none if a sector is not as it was written. Whether its sectors were written together, the
/// record itself must tell.
pub(crate) fn out_of_sectors(block: &[u8]) -> Option<Vec<u8>> {
    let mut record = Vec::with_capacity(record_bytes(block.len()));
    for sector in block.chunks_exact(SECTOR_BYTES) {
        check_sum(sector).ok()?;
        record.extend_from_slice(&sector[SUM_BYTES..]);
    }
    Some(record)
}

/// Returns a sector of free space that is neither zero nor as it was written, and its defect.
pub(crate) fn damaged_sector(space: &[u8]) -> Option<(usize, String)> {
    let sectors = space.chunks(SECTOR_BYTES).enumerate();
    sectors
        .filter(|(_, sector)| sector.iter().any(|byte| *byte != 0))
        .find_map(|(number, sector)| Some((number, check_sum(sector).err()?)))
}

/// A block with each of its sectors that is not whole taken from another copy of it, where that is whole. The page tells
/// by its header whether they were written together.
pub(crate) fn combine(block: &[u8], other: &[u8]) -> Vec<u8> {
    let pairs = block.chunks_exact(SECTOR_BYTES).zip(other.chunks_exact(SECTOR_BYTES));
    let choose = |(one, other): (&'_ [u8], &'_ [u8])| match (check_sum(one), check_sum(other)) {
        (Err(_), Ok(())) => other.to_vec(),
        _ => one.to_vec(),
    };
    pairs.flat_map(choose).collect()
}

fn set_sum(sector: &mut [u8]) {
    let sum = crc32c::crc32c(&sector[SUM_BYTES..]);
    sector[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
}

fn check_sum(sector: &[u8]) -> Result<(), String> {
    let stored = u32::from_le_bytes(field(sector, 0));
    let sum = crc32c::crc32c(&sector[SUM_BYTES..]);
    if stored == sum {
        Ok(())
    } else {
        Err(format!("its checksum is {stored:08x}, its contents give {sum:08x}"))
    }
}

fn field<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block[at..at + N].try_into().expect("N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_sealed_page_is_detected() {
        for size in [PageSize::MIN, PageSize::DEFAULT] {
            let mut page = Page::sized(PageKind::TreeLeaf, size);
            for (at, byte) in page.body_mut().iter_mut().enumerate() {
                *byte = (at * 7) as u8;
            }
            let identity = Identity { database: 77, level: 0, logical: 5, batch: 9, early: false };
            let mut block = vec![0; size.bytes()];
            page.seal(identity, &mut block);
            assert_eq!(Page::unseal_expected(&block, identity).unwrap().body(), page.body());
            for at in 0..size.bytes() {
                for bit in 0..8 {
                    block[at] ^= 1 << bit;
                    assert!(Page::unseal(&block).is_err(), "bit {bit} of byte {at}");
                    block[at] ^= 1 << bit;
                }
            }
        }
    }

    #[test]
    fn pages_of_every_size_round_trip_and_are_of_no_other_size() {
        for size in PageSize::all() {
            let mut page = Page::sized(PageKind::Overflow, size);
            page.body_mut().fill(size.code() + 1);
            let identity = Identity { database: 7, level: 0, logical: 1 << 40, batch: 3, early: false };
            let mut block = vec![0; size.bytes() * 2];
            page.seal(identity, &mut block[..size.bytes()]);
            let found = Page::unseal_expected(&block[..size.bytes()], identity).unwrap();
            assert_eq!((found.size(), found.body() == page.body()), (size, true));
            assert_eq!(Page::size_told(&block), Some(size));
            assert!(Page::unseal(&block).is_err() && Page::unseal(&block[..size.bytes() / 2]).is_err());
            // Whole, but for its size.
            assert!(Page::check(&block).unwrap_err().starts_with("its size"));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_piece_of_a_page_is_detected() {
        let mut page = Page::new(PageKind::TreeLeaf);
        page.body_mut()[..BODY_BYTES / 2].fill(7);
        let mut block = vec![0; PAGE_BYTES];
        page.seal(Identity { database: 77, level: 0, logical: 5, batch: 9, early: false }, &mut block);
        // Others were written to some of its sectors, and some are zero.
        let mut piece = block.clone();
        piece[SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
        piece.copy_within(..SECTOR_BYTES, 5 * SECTOR_BYTES);
        assert_eq!(damaged_sector(&piece), None);
        assert!(Page::check(&piece).is_err());
        for at in 0..piece.len() {
            for bit in 0..8 {
                piece[at] ^= 1 << bit;
                assert_eq!(damaged_sector(&piece).unwrap().0, at / SECTOR_BYTES, "bit {bit} of byte {at}");
                piece[at] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn sectors_of_two_versions_of_a_page_are_told_apart() {
        let identity = Identity { database: 77, level: 0, logical: 5, batch: 9, early: false };
        let [mut torn, new] = [1, 2].map(|fill| {
            let mut page = Page::new(PageKind::TreeLeaf);
            page.body_mut().fill(fill);
            let mut block = vec![0; PAGE_BYTES];
            page.seal(identity, &mut block);
            block
        });
        for sectors in 1..PAGE_BYTES / SECTOR_BYTES {
            torn[..sectors * SECTOR_BYTES].copy_from_slice(&new[..sectors * SECTOR_BYTES]);
            assert_eq!(Page::check(&torn).unwrap_err(), "its sectors were not written together");
        }
    }

    #[test]
    fn a_page_in_the_wrong_place_is_detected() {
        let identity = Identity { database: 77, level: 0, logical: 5, batch: 9, early: false };
        let mut block = vec![0; PAGE_BYTES];
        Page::new(PageKind::TreeLeaf).seal(identity, &mut block);
        for wrong in [
            Identity { database: 78, ..identity },
            Identity { level: 1, ..identity },
            Identity { logical: 6, ..identity },
            Identity { batch: 8, ..identity },
            Identity { early: true, ..identity },
        ] {
            assert!(Page::unseal_expected(&block, wrong).is_err());
        }
    }

    #[test]
    fn a_page_that_was_written_early_may_belong_to_a_later_batch() {
        let written = Identity { database: 77, level: 0, logical: 5, batch: 9, early: true };
        let mut block = vec![0; PAGE_BYTES];
        Page::new(PageKind::TreeLeaf).seal(written, &mut block);
        for batch in 9..12 {
            assert!(Page::unseal_expected(&block, Identity { batch, ..written }).is_ok());
        }
        for wrong in [
            Identity { batch: 8, ..written },
            Identity { early: false, ..written },
            Identity { logical: 6, batch: 10, ..written },
            Identity { database: 78, batch: 10, ..written },
        ] {
            assert!(Page::unseal_expected(&block, wrong).is_err());
        }
        Page::set_batch(&mut block, 11);
        assert!(Page::unseal_expected(&block, Identity { batch: 11, early: false, ..written }).is_ok());
    }
}
