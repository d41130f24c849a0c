//! The disk: every byte of a database passes through these two traits.
//!
//! Promises: a read returns what was last written; after [`File::sync`] returns, all writes to that file that
//! had returned before it was called survive a crash. Nothing else survives for sure: unsynced writes may be lost,
//! kept, torn at sector boundaries and reordered. A failed sync leaves the writes since the last good one in
//! doubt for ever; callers must not retry it.

use crate::sync::Arc;
use std::io;

/// The smallest unit that a disk writes whole, in bytes.
pub const SECTOR_BYTES: usize = 512;

/// A directory of named files, held exclusively by whoever opened it.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing. With `create`, makes an empty one if there is none, durably:
    /// the name itself survives a crash once this returned.
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>>;
    /// The names of the files present.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file, durably.
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
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Grows the file to at least `len` bytes, reserving the space: later writes below `len` do not run out of
    /// it. A full disk is [`io::ErrorKind::StorageFull`]. New bytes read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Gives the space of a range (bytes) back to the file system; it reads as zero afterwards.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
}
