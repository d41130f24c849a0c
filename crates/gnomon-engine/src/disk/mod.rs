//! The disk: every byte of a database passes through these two traits.
//!
//! Promises: a read returns what was last written; after [`File::sync`] returns, all writes to that file that
//! had returned before it was called survive a crash. Nothing else survives for sure: unsynced writes may be lost,
//! kept, torn at sector boundaries and reordered. A failed sync leaves the writes since the last good one in
//! doubt for ever; callers must not retry it.
//!
//! [`FileDisk`] is a directory, [`MemDisk`] lives in memory, and [`SimDisk`] does to tests what the promises leave
//! open. One suite of tests holds all three to them.

mod file;
mod memory;
mod names;
mod overlay;
mod set;
mod sim;
mod sparse;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use file::FileDisk;
pub use memory::MemDisk;
pub(crate) use overlay::Overlay;
pub use set::{DiskSet, LIST_FILE};
pub(crate) use set::{LIST_FILES, RESTORING_FILE, refuse_interrupted_restore};
pub use sim::{Event, EventKind, Outcome, SimDisk};

use crate::sync::Arc;
use std::io;

/// The smallest unit that a disk writes whole, in bytes.
pub const SECTOR_BYTES: usize = 512;

/// A directory of named files. A [`FileDisk`] holds it exclusively, or with other readers if it was opened read-only.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing. With `create`, makes an empty one if there is none, and durably in either
    /// case: the name itself survives a crash once this returned. Absent is [`io::ErrorKind::NotFound`].
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>>;
    /// The names of the files present, in order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Gives a file another name, durably, in place of the file that had it. A crash meanwhile leaves either the old
    /// names or the new ones. Absent is [`io::ErrorKind::NotFound`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file, durably. Absent is [`io::ErrorKind::NotFound`]. Open handles go on working with it, unnamed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// One file: an array of bytes. Calls may come from many threads at once.
pub trait File: Send + Sync {
    /// Reads exactly `buf.len()` bytes at `offset` (bytes). Past the end is [`io::ErrorKind::UnexpectedEof`].
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Writes all of `buf` at `offset` (bytes), growing the file if need be.
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()>;
    /// Makes every write and length change that has returned durable.
    fn sync(&self) -> io::Result<()>;
    /// The same as [`File::write_at`] and then [`File::sync`], by one call of the system where it has one.
    fn write_durably_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.write_at(offset, buf)?;
        self.sync()
    }
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns true if the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Grows the file to at least `len` bytes, reserving the space: later writes below `len` do not run out of
    /// it. A full disk is [`io::ErrorKind::StorageFull`]. New bytes read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file to `len` bytes; one that is shorter stays so.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Gives the space of a range (bytes) back to the file system; it reads as zero afterwards. The length stays.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
}

/// Refuses what is not the plain name of a file in the directory.
fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not the name of a file"),
        ));
    }
    Ok(())
}
