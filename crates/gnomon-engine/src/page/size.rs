//! The sizes that pages can have.

use std::{
    fmt,
    ops::{Add, AddAssign, Index, IndexMut},
};

use super::{HEADER_BYTES, SUM_BYTES};
use crate::{Error, Result, disk::SECTOR_BYTES};

/// The size of a page: a power of two from 512 bytes to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u8);

/// Number of sizes.
pub(crate) const SIZES: usize = 12;

impl PageSize {
    /// 512 bytes.
    pub const MIN: PageSize = PageSize(0);
    /// 4 KiB: of tables and indexes unless they say otherwise, and of what a store keeps for itself.
    pub const DEFAULT: PageSize = PageSize(3);
    /// 1 MiB.
    pub const MAX: PageSize = PageSize(SIZES as u8 - 1);

    /// The size of so many bytes, if pages can have it.
    pub const fn from_bytes(bytes: usize) -> Option<PageSize> {
        if bytes.is_power_of_two() && PageSize::MIN.bytes() <= bytes && bytes <= PageSize::MAX.bytes() {
            return Some(PageSize((bytes.trailing_zeros() - 9) as u8));
        }
        None
    }

    /// The smallest size of at least so many bytes; none if that is more than the largest.
    pub const fn at_least(bytes: usize) -> Option<PageSize> {
        match bytes.checked_next_power_of_two() {
            Some(bytes) if bytes < PageSize::MIN.bytes() => Some(PageSize::MIN),
            Some(bytes) => PageSize::from_bytes(bytes),
            None => None,
        }
    }

    /// The size of the smallest page of a database, as an option gives it in bytes: at most the default one, which a
    /// store keeps its own in.
    pub fn smallest(bytes: usize) -> Result<PageSize> {
        PageSize::from_bytes(bytes).filter(|size| *size <= PageSize::DEFAULT).ok_or_else(|| {
            Error::BadOption(format!("page_bytes_min is {bytes}: give it 512, 1024, 2048 or 4096"))
        })
    }

    /// All sizes, from the smallest on.
    pub fn all() -> impl DoubleEndedIterator<Item = PageSize> {
        (0..SIZES as u8).map(PageSize)
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        512 << self.0
    }

    /// Bytes of the page that its owner has.
    pub const fn body_bytes(self) -> usize {
        self.bytes() - HEADER_BYTES - (self.bytes() / SECTOR_BYTES - 1) * SUM_BYTES
    }

    /// The number by which it is stored: log2 of its bytes, less 9.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The size with this number, if there is one.
    pub const fn from_code(code: u8) -> Option<PageSize> {
        if code <= PageSize::MAX.0 { Some(PageSize(code)) } else { None }
    }

    /// The size of half as many bytes, if there is one.
    pub(crate) const fn half(self) -> Option<PageSize> {
        match self.0.checked_sub(1) {
            Some(code) => Some(PageSize(code)),
            None => None,
        }
    }
}

impl Default for PageSize {
    fn default() -> PageSize {
        PageSize::DEFAULT
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes() {
            bytes @ ..1024 => write!(f, "{bytes} bytes"),
            bytes if bytes < 1 << 20 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{} MiB", bytes >> 20),
        }
    }
}

/// Number of pages of each size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts([u64; SIZES]);

impl PageCounts {
    /// Returns the counts of `count` pages of one size.
    pub fn of(size: PageSize, count: u64) -> PageCounts {
        let mut counts = PageCounts::default();
        counts[size] = count;
        counts
    }

    /// Pages of all sizes.
    pub fn pages(&self) -> u64 {
        self.0.iter().sum()
    }

    /// As many of each size as there are here, from the smallest size on.
    pub fn from_array(counts: [u64; SIZES]) -> PageCounts {
        PageCounts(counts)
    }

    /// Returns the number of pages of each size, from the smallest on.
    pub fn to_array(self) -> [u64; SIZES] {
        self.0
    }

    /// Returns these less `others`, and 0 where there are more of `others`.
    pub fn beyond(&self, others: &PageCounts) -> PageCounts {
        PageCounts(std::array::from_fn(|code| self.0[code].saturating_sub(others.0[code])))
    }

    /// Returns the lower number of the two for each size.
    pub fn at_most(&self, others: &PageCounts) -> PageCounts {
        PageCounts(std::array::from_fn(|code| self.0[code].min(others.0[code])))
    }

    /// The sizes of which there are some, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (PageSize, u64)> + '_ {
        PageSize::all().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

/// The counts of so many pages of the default size.
impl From<u64> for PageCounts {
    fn from(count: u64) -> PageCounts {
        PageCounts::of(PageSize::DEFAULT, count)
    }
}

impl Add for PageCounts {
    type Output = PageCounts;
    fn add(mut self, more: PageCounts) -> PageCounts {
        self += more;
        self
    }
}

impl Index<PageSize> for PageCounts {
    type Output = u64;
    fn index(&self, size: PageSize) -> &u64 {
        &self.0[usize::from(size.0)]
    }
}

impl IndexMut<PageSize> for PageCounts {
    fn index_mut(&mut self, size: PageSize) -> &mut u64 {
        &mut self.0[usize::from(size.0)]
    }
}

impl AddAssign for PageCounts {
    fn add_assign(&mut self, more: PageCounts) {
        self.0.iter_mut().zip(more.0).for_each(|(count, more)| *count += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_powers_of_two_from_512_bytes_to_1_mib() {
        let sizes: Vec<usize> = PageSize::all().map(PageSize::bytes).collect();
        assert_eq!((sizes[0], sizes[3], sizes[11], sizes.len()), (512, 4096, 1 << 20, SIZES));
        for size in PageSize::all() {
            assert_eq!(PageSize::from_bytes(size.bytes()), Some(size));
            assert_eq!(PageSize::from_code(size.code()), Some(size));
            assert_eq!(PageSize::at_least(size.bytes() - 1), Some(size));
            assert_eq!(PageSize::at_least(size.bytes()), Some(size));
            assert_eq!(size.half().map_or(256, PageSize::bytes) * 2, size.bytes());
        }
        for bytes in [0, 1, 256, 513, 6000, 2 << 20, usize::MAX] {
            assert_eq!(PageSize::from_bytes(bytes), None);
        }
        assert_eq!(PageSize::from_code(12), None);
        assert_eq!(PageSize::at_least((1 << 20) + 1), None);
        let texts: Vec<String> =
            [PageSize::MIN, PageSize::DEFAULT, PageSize::MAX].map(|s| s.to_string()).into();
        assert_eq!(texts, ["512 bytes", "4 KiB", "1 MiB"]);
    }
}
