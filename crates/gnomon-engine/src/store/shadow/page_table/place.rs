//! Where a page is: which disk, which page of it, and for a mirrored page its other copy; and the logical numbers of
//! the bitmaps that say which pages of a disk are in use.

/// The copies of the superblock on a disk: two pairs, each copy of 4 KiB, at the beginning of the file.
pub const SUPERBLOCK_PAGES: u64 = 4;
/// How many pages one bitmap covers.
pub const CHUNK_PAGES: u64 = BODY_BYTES as u64 * 8;
use crate::page::BODY_BYTES;

/// Number of disks that a store can have at a time.
pub const DISKS_MAX: usize = 16;
/// The bits of a physical page number that say which page of its disk it is; the 4 above say which disk.
const PAGE_BITS: u32 = 36;
/// Pages that a disk can have.
pub const DISK_PAGES_MAX: u64 = 1 << PAGE_BITS;

/// Returns the physical number of a page of a disk.
pub fn physical(disk: usize, page: u64) -> u64 {
    debug_assert!(disk < DISKS_MAX && page < DISK_PAGES_MAX);
    (disk as u64) << PAGE_BITS | page
}

/// Returns the disk that a physical page is on.
pub fn disk_of(physical: u64) -> usize {
    (physical >> PAGE_BITS) as usize
}

/// Returns the page of its disk that a physical page is.
pub fn page_of(physical: u64) -> u64 {
    physical & (DISK_PAGES_MAX - 1)
}

/// Distance between the logical numbers that only bitmaps can have.
const BITMAP_STRIDE: u64 = CHUNK_PAGES / DISKS_MAX as u64;

const _: () = assert!(CHUNK_PAGES.is_multiple_of(DISKS_MAX as u64));

/// True if a logical number is kept for bitmaps.
pub fn is_bitmap(logical: u64) -> bool {
    logical.is_multiple_of(BITMAP_STRIDE)
}

/// Returns the logical number of the bitmap of a disk's chunk.
pub fn bitmap(disk: usize, chunk: u64) -> u64 {
    chunk * CHUNK_PAGES + disk as u64 * BITMAP_STRIDE
}

/// Returns the logical number of the bitmap that a physical page is marked in.
pub fn bitmap_of(physical: u64) -> u64 {
    bitmap(disk_of(physical), page_of(physical) / CHUNK_PAGES)
}

/// Returns the disk and the chunk of a bitmap.
pub fn chunk_of(bitmap: u64) -> (usize, u64) {
    ((bitmap % CHUNK_PAGES / BITMAP_STRIDE) as usize, bitmap / CHUNK_PAGES)
}

/// The place of a page: one physical page, or two copies on different disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Zero only if there is no page.
    pub first: u64,
    /// Zero if there is no second copy.
    pub second: u64,
}

impl Place {
    /// Returns a place without a second copy.
    pub fn single(physical: u64) -> Place {
        Place { first: physical, second: 0 }
    }

    /// Returns the place of these copies, two at most.
    pub fn of(copies: impl IntoIterator<Item = u64>) -> Place {
        let mut copies = copies.into_iter();
        Place { first: copies.next().unwrap_or_default(), second: copies.next().unwrap_or_default() }
    }

    /// So many bits of a word hold a place.
    pub const WORD_BITS: u32 = 80;

    /// Returns the place as the low bits of a word.
    pub fn word(self) -> u128 {
        u128::from(self.first) | u128::from(self.second) << (Place::WORD_BITS / 2)
    }

    /// Returns the place in the low bits of a word.
    pub fn of_word(word: u128) -> Place {
        let half = |at: u32| (word >> at) as u64 & ((1 << (Place::WORD_BITS / 2)) - 1);
        Place { first: half(0), second: half(Place::WORD_BITS / 2) }
    }

    /// Returns the place, unless it is none.
    pub fn present(self) -> Option<Place> {
        (self.first != 0).then_some(self)
    }

    /// Returns its copies.
    pub fn copies(self) -> impl Iterator<Item = u64> + Clone {
        [self.first, self.second].into_iter().filter(|copy| *copy != 0)
    }

    /// True if a physical page is one of its copies.
    pub fn has(self, physical: u64) -> bool {
        self.copies().any(|copy| copy == physical)
    }

    /// Returns the place that follows on the disk, of each copy.
    pub fn after(self, pages: u64) -> Place {
        Place { first: self.first + pages, second: if self.second == 0 { 0 } else { self.second + pages } }
    }

    /// Returns the place with one copy elsewhere.
    pub fn moved(self, from: u64, to: u64) -> Place {
        Place::of(self.copies().map(|copy| if copy == from { to } else { copy }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bitmaps_belong_to_one_chunk_of_one_disk() {
        for disk in 0..DISKS_MAX {
            for chunk in [0, 1, 77] {
                let number = bitmap(disk, chunk);
                assert!(is_bitmap(number));
                assert_eq!(chunk_of(number), (disk, chunk));
                assert_eq!(bitmap_of(physical(disk, chunk * CHUNK_PAGES + 5)), number);
            }
        }
        assert!(!is_bitmap(1) && !is_bitmap(CHUNK_PAGES - 1));
        assert_eq!((disk_of(physical(3, 9)), page_of(physical(3, 9))), (3, 9));
    }

    #[test]
    fn copies_move_one_by_one() {
        let place = Place { first: 7, second: 9 };
        assert_eq!(place.moved(9, 11), Place { first: 7, second: 11 });
        assert_eq!(place.after(2), Place { first: 9, second: 11 });
        assert_eq!(Place::of_word(place.word() | 1 << Place::WORD_BITS), place);
        assert_eq!(Place::single(7).after(2).copies().collect::<Vec<_>>(), [9]);
    }
}
