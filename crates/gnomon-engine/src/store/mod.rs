//! Level 0: page transactions. The interface of a store to the access methods, whichever way it recovers.
//!
//! Reading and writing are two traits, so that a read path cannot allocate. A guard is a latch: short, for
//! memory, ordered by its holder (trees latch top-down); never held while waiting for a lock.

mod any;
mod commits;
mod durable;
pub mod page_wal;
pub mod shadow;

pub use any::{Store, StoreStats};
pub use durable::{Durability, GroupCommit};
pub use shadow::{Activity, DiskInfo, FILE, Finding, Repair, ScrubReport, Severity};
pub(crate) use shadow::{PinnedRoot, PrivatePages};

use std::ops::{Deref, DerefMut};

use crate::{
    Error, Result,
    disk::File,
    page::{Page, PageId, PageKind, PageSize},
};

/// Reads from a file, and once more if that fails: the fault may have been of that moment.
fn read_twice(file: &dyn File, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    match file.read_at(offset, bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => file.read_at(offset, bytes),
        read => read,
    }
}

/// Reads pages under shared latches.
pub trait PageRead {
    /// Holds the shared latch; the image may be kept (cloned) after the latch is gone, and is then a copy of the
    /// page as it was.
    type ReadGuard: Deref<Target = Page>;

    /// Latches a page shared and returns its image. Waits while another thread holds it exclusively.
    fn read(&self, id: PageId) -> Result<Self::ReadGuard>;

    /// Returns how often the range that a page covers has changed so far, of any page
    /// ([`PageWrite::note_restructured`]); none where that is not counted.
    fn restructured(&self) -> Option<u64> {
        None
    }

    /// Latches pages shared, each if it is in memory and no thread has it exclusively, and prefetches them all at
    /// once. Adds one for each of `ids`; none says nothing.
    fn try_read_all(&self, ids: &[PageId], guards: &mut Vec<Option<Self::ReadGuard>>) {
        guards.extend(ids.iter().map(|_| None));
    }

    /// Latches a page shared, if it is in memory and nothing has been restructured since the count was this. None says
    /// nothing: it is to be looked for again.
    fn read_again(&self, _id: PageId, _restructured: u64) -> Option<Self::ReadGuard> {
        None
    }
}

/// Changes pages under exclusive latches, as part of one page transaction.
pub trait PageWrite: PageRead {
    /// Holds the exclusive latch; the page counts as changed by the page transaction from `deref_mut` on.
    type WriteGuard: Deref<Target = Page> + DerefMut + PageGuard;

    /// Latches a page exclusively.
    fn write(&self, id: PageId) -> Result<Self::WriteGuard>;
    /// As [`PageRead::read_again`], exclusively.
    fn write_again(&self, _id: PageId, _restructured: u64) -> Option<Self::WriteGuard> {
        None
    }
    /// Notes that entries are about to go from one page to another, or that a page is about to be freed. Both are
    /// latched exclusively until that is done: a thread that latches one of them afterwards sees the count. (The
    /// pages of a dropped tree are given back without: no thread has a place in it any more.)
    fn note_restructured(&self) {}
    /// A new page of zeros of the given kind and size, latched exclusively.
    fn allocate(&self, kind: PageKind, size: PageSize) -> Result<Self::WriteGuard>;
    /// The largest page that it makes sense to allocate for a part of something: smaller ones can be had on a disk that
    /// is nearly full.
    fn part_size_max(&self) -> PageSize {
        PageSize::MAX
    }
    /// Gives a page back. Nothing may point to it any more.
    fn free(&self, guard: Self::WriteGuard) -> Result<()>;
}

/// Fails if a store whose smallest pages have the size `unit` can have none of `size`.
fn check_page_size(unit: PageSize, size: PageSize) -> Result<()> {
    if size >= unit {
        return Ok(());
    }
    Err(Error::BadOption(format!(
        "pages of {size} are smaller than the smallest of this database, {unit}: ask for larger ones, or create a database with a smaller page_bytes_min"
    )))
}

/// A latched page knows which one it is.
pub trait PageGuard {
    /// The page's logical number.
    fn id(&self) -> PageId;
}
