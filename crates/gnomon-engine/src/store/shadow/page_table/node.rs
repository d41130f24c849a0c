//! The page table: a tree that maps logical pages to physical ones.
//!
//! A node of level 1 maps [`FANOUT`] data pages, a node of level `l` maps `FANOUT` nodes of level `l - 1`; the node
//! of level `l` for logical page `L` begins at [`node_base`]. The depth grows when a page number does not fit.
//! (Shadows, section 2: "a tree structure with a fixed number N of slots in each node".)
//!
//! An entry has the paper's 16 bytes: two 40-bit physical page numbers (the second is zero unless the page is
//! mirrored), the 40-bit number of the commit batch that wrote the page, 4 bits of its size (log2 of bytes, less 9), 4
//! bits of flags: bit 0, the page was written before its batch was known (and may carry a smaller number). Zero is "no
//! such page".

use super::place::Place;
use crate::page::{BODY_BYTES, Page, PageSize};

/// The size of an entry in bytes.
pub const ENTRY_BYTES: usize = 16;
/// How many entries a node has.
pub const FANOUT: u64 = (BODY_BYTES / ENTRY_BYTES) as u64;
/// The deepest page table: `FANOUT` to this power exceeds 2^39 pages, 2 PiB.
pub const DEPTH_MAX: u8 = 5;
const FIELD_BITS: u32 = 40;
/// Where the flags begin.
const FLAGS_AT: u32 = 3 * FIELD_BITS + 4;
const EARLY: u128 = 1 << FLAGS_AT;
/// The size of a node of the page table, and of a bitmap of space.
pub const BLOCK: PageSize = PageSize::DEFAULT;

/// Where a page is, how large, and which batch wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageEntry {
    /// The first physical page of each copy.
    pub place: Place,
    pub batch: u64,
    pub size: PageSize,
    /// True if the page was written before its batch was known, and so may carry a smaller number.
    pub early: bool,
}

impl PageEntry {
    /// Returns the entry of a block that this batch wrote, under its own number.
    pub fn new(place: Place, batch: u64) -> PageEntry {
        PageEntry::sized(place, BLOCK, batch)
    }

    /// Returns the entry of a page that this batch wrote, under its own number.
    pub fn sized(place: Place, size: PageSize, batch: u64) -> PageEntry {
        PageEntry { place, batch, size, early: false }
    }

    pub fn encode(self) -> [u8; ENTRY_BYTES] {
        let Place { first, second } = self.place;
        debug_assert!([first, second, self.batch].iter().all(|field| *field < 1 << FIELD_BITS));
        let word = u128::from(first)
            | u128::from(second) << FIELD_BITS
            | u128::from(self.batch) << (2 * FIELD_BITS)
            | if first == 0 { 0 } else { u128::from(self.size.code()) << (3 * FIELD_BITS) }
            | if self.early { EARLY } else { 0 };
        word.to_le_bytes()
    }

    pub fn decode(bytes: &[u8]) -> PageEntry {
        let word = u128::from_le_bytes(bytes.try_into().expect("16 bytes"));
        let field = |index: u32| (word >> (index * FIELD_BITS)) as u64 & ((1 << FIELD_BITS) - 1);
        let place = Place { first: field(0), second: field(1) };
        // A size that there is not is found out when the page is read.
        let size = PageSize::from_code((word >> (3 * FIELD_BITS)) as u8 & 0xf).filter(|_| place.first != 0);
        PageEntry { place, batch: field(2), size: size.unwrap_or_default(), early: word & EARLY != 0 }
    }

    /// Returns the entry, unless it says that there is no page.
    pub fn present(self) -> Option<PageEntry> {
        (self.place.first != 0).then_some(self)
    }
}

/// Returns the number of logical pages that a node of this level maps.
pub fn span(level: u8) -> u64 {
    FANOUT.pow(u32::from(level))
}

/// Returns the first logical page that the node of this level over `logical` maps.
pub fn node_base(level: u8, logical: u64) -> u64 {
    logical - logical % span(level)
}

/// Returns the slot, within its node of `level`, of the child over `logical`.
pub fn slot(level: u8, logical: u64) -> usize {
    (logical / span(level - 1) % FANOUT) as usize
}

/// Returns the entry in a slot of a node.
pub fn entry(node: &Page, slot: usize) -> PageEntry {
    PageEntry::decode(&node.body()[slot * ENTRY_BYTES..][..ENTRY_BYTES])
}

/// Changes the entry in a slot of a node.
pub fn set_entry(node: &mut Page, slot: usize, entry: PageEntry) {
    node.body_mut()[slot * ENTRY_BYTES..][..ENTRY_BYTES].copy_from_slice(&entry.encode());
}

const _: () = assert!(FANOUT.pow(DEPTH_MAX as u32) > 1 << 39);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let place = Place { first: (1 << 40) - 1, second: (1 << 40) - 3 };
        for size in PageSize::all() {
            let far = PageEntry::sized(place, size, (1 << 40) - 2);
            assert_eq!(PageEntry::decode(&far.encode()), far);
            let early = PageEntry { early: true, ..far };
            assert_eq!(PageEntry::decode(&early.encode()), early);
        }
        assert_eq!(PageEntry::decode(&[0; ENTRY_BYTES]), PageEntry::default());
        assert_eq!(PageEntry::default().encode(), [0; ENTRY_BYTES]);
    }

    #[test]
    fn a_page_has_one_path() {
        let logical = 3 * FANOUT * FANOUT + 5 * FANOUT + 7;
        assert_eq!((slot(1, logical), slot(2, logical), slot(3, logical)), (7, 5, 3));
        assert_eq!(node_base(1, logical), logical - 7);
        assert_eq!(node_base(2, logical), 3 * FANOUT * FANOUT);
    }
}
