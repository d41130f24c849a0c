//! Pages of 4 KiB, each with a checksum, a format version and its own identity, and the buffer pool that keeps
//! them in memory ([`pool`]).
//!
//! The first [`HEADER_BYTES`] belong to level 0 and say what the page is and where it belongs, so that a damaged,
//! misdirected, stale or torn block is detected when it is read; the body belongs to the page's owner. The header
//! is made when a page is written ([`Page::seal`]) and checked when it is read ([`Page::unseal`]); in memory there
//! is only the body and its kind.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of bytes 4..4096 |
//! | 4 | format version, [`FORMAT_VERSION`] |
//! | 5 | [`PageKind`] |
//! | 6 | level: 0 for data, 1 and up for nodes of the page table |
//! | 7 | flags: bit 0, it was written before its batch was known ([`Identity::early`]) |
//! | 8..16 | logical page number; for a node of the page table the first that it maps |
//! | 16..24 | the commit batch that wrote it; if that was not known, the one that was next then |
//! | 24..32 | the database's identity |
//! | 32..4096 | body |
//!
//! All numbers are little-endian.

pub mod pool;

pub use crate::id::PageId;

/// The size of a page in bytes.
pub const PAGE_BYTES: usize = 4096;
/// The size of the header that level 0 keeps in each page, in bytes.
pub const HEADER_BYTES: usize = 32;
/// What a page's owner has, in bytes.
pub const BODY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;
/// The version of the page format.
pub const FORMAT_VERSION: u8 = 1;

/// What a page holds.
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
            _ => return None,
        })
    }
}

/// What a page says of itself on disk.
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
    /// Whether it was written before its batch was known. Then `batch` is the one that was next at the time, and its
    /// own is that or a later one.
    pub early: bool,
}

impl Identity {
    /// Whether a page that says this of itself is the one that is expected.
    pub(crate) fn fits(&self, expected: &Identity) -> bool {
        let batch_fits =
            if expected.early { self.batch <= expected.batch } else { self.batch == expected.batch };
        batch_fits && Identity { batch: expected.batch, ..*self } == *expected
    }
}

/// The image of a page in memory.
#[derive(Clone)]
pub struct Page {
    kind: PageKind,
    body: Box<[u8; BODY_BYTES]>,
}

impl Page {
    /// A page of zeros.
    pub fn new(kind: PageKind) -> Page {
        Page { kind, body: Box::new([0; BODY_BYTES]) }
    }

    /// What the page holds.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Changes what the page holds.
    pub fn set_kind(&mut self, kind: PageKind) {
        self.kind = kind;
    }

    /// The owner's bytes.
    pub fn body(&self) -> &[u8; BODY_BYTES] {
        &self.body
    }

    /// The owner's bytes.
    pub fn body_mut(&mut self) -> &mut [u8; BODY_BYTES] {
        &mut self.body
    }

    /// Writes the page as a block of [`PAGE_BYTES`] into `block`.
    pub(crate) fn seal(&self, identity: Identity, block: &mut [u8]) {
        block[4] = FORMAT_VERSION;
        block[5] = self.kind as u8;
        block[6] = identity.level;
        block[7] = u8::from(identity.early);
        block[8..16].copy_from_slice(&identity.logical.to_le_bytes());
        block[16..24].copy_from_slice(&identity.batch.to_le_bytes());
        block[24..32].copy_from_slice(&identity.database.to_le_bytes());
        block[HEADER_BYTES..PAGE_BYTES].copy_from_slice(&self.body[..]);
        Page::set_sum(block);
    }

    /// Reads a block of [`PAGE_BYTES`], checking its checksum; the text tells what is wrong with it.
    pub(crate) fn unseal(block: &[u8]) -> Result<(Page, Identity), String> {
        let (kind, identity) = Page::check(block)?;
        let mut page = Page::new(kind);
        page.body.copy_from_slice(&block[HEADER_BYTES..PAGE_BYTES]);
        Ok((page, identity))
    }

    /// What a block of [`PAGE_BYTES`] says that it is, if its checksum, version and kind are right.
    pub(crate) fn check(block: &[u8]) -> Result<(PageKind, Identity), String> {
        let stored = u32::from_le_bytes(field(block, 0));
        let sum = crc32c::crc32c(&block[4..PAGE_BYTES]);
        if stored != sum {
            return Err(format!("its checksum is {stored:08x}, its contents give {sum:08x}"));
        }
        if block[4] != FORMAT_VERSION {
            return Err(format!("its format version is {}, known is {FORMAT_VERSION}", block[4]));
        }
        let kind = PageKind::from_code(block[5]).ok_or_else(|| format!("its kind is {}", block[5]))?;
        let identity = Identity {
            database: u64::from_le_bytes(field(block, 24)),
            level: block[6],
            logical: u64::from_le_bytes(field(block, 8)),
            batch: u64::from_le_bytes(field(block, 16)),
            early: block[7] & 1 == 1,
        };
        Ok((kind, identity))
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
        Page::set_sum(block);
    }

    /// Notes in a whole block the batch that its page belongs to, now that it is known.
    pub(crate) fn set_batch(block: &mut [u8], batch: u64) {
        block[7] = 0;
        block[16..24].copy_from_slice(&batch.to_le_bytes());
        Page::set_sum(block);
    }

    fn set_sum(block: &mut [u8]) {
        let sum = crc32c::crc32c(&block[4..PAGE_BYTES]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
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

fn field<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block[at..at + N].try_into().expect("N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_sealed_page_is_detected() {
        let mut page = Page::new(PageKind::TreeLeaf);
        for (at, byte) in page.body_mut().iter_mut().enumerate() {
            *byte = (at * 7) as u8;
        }
        let identity = Identity { database: 77, level: 0, logical: 5, batch: 9, early: false };
        let mut block = vec![0; PAGE_BYTES];
        page.seal(identity, &mut block);
        assert_eq!(Page::unseal_expected(&block, identity).unwrap().body(), page.body());
        for at in 0..PAGE_BYTES {
            for bit in 0..8 {
                block[at] ^= 1 << bit;
                assert!(Page::unseal(&block).is_err(), "bit {bit} of byte {at}");
                block[at] ^= 1 << bit;
            }
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
