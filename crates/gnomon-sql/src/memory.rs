//! Memory that sessions take, in bytes: counted against a limit of each session and one of all sessions together.
//!
//! Counted is what a session keeps between statements (prepared statements, portals and cursors with their names and
//! parameters, rows that they have yet to return) and what a statement takes while it runs (its syntax tree, its sorts and
//! hashes). A [`Held`] is a part of that; dropped, it is given back. What does not fit fails with 53200, and the session
//! goes on. The figures are estimates; rows of small values take more.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::PathBuf,
};

use gnomon_engine::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::{Result, SqlError, SqlState};

/// The most temporary files of all sessions together: each takes a file descriptor.
const FILES_MAX: usize = 128;

/// How much memory sessions may take.
#[derive(Clone, Debug)]
pub struct MemoryLimits {
    /// The most for a session, in bytes.
    pub session_bytes: usize,
    /// The most for all sessions of a database together, in bytes.
    pub total_bytes: usize,
    /// How many bytes of the rows that a cursor or suspended portal has yet to return stay in memory; the others go to a
    /// temporary file.
    pub rows_bytes: usize,
    /// The directory of these files; none is the system's for temporary files. They have no names in it.
    pub directory: Option<PathBuf>,
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits { session_bytes: 1 << 30, total_bytes: 4 << 30, rows_bytes: 4 << 20, directory: None }
    }
}

/// The memory of all sessions of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that are taken now.
    pub bytes: u64,
    /// Bytes of rows in temporary files.
    pub file_bytes: u64,
    /// Number of times that memory was refused.
    pub refused: u64,
}

/// The account of all sessions together.
#[derive(Debug, Default)]
pub(crate) struct Total {
    bytes: AtomicUsize,
    files: AtomicUsize,
    file_bytes: AtomicU64,
    refused: AtomicU64,
}

impl Total {
    pub(crate) fn read(&self) -> MemoryUse {
        MemoryUse {
            bytes: self.bytes.load(Ordering::Relaxed) as u64,
            file_bytes: self.file_bytes.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

/// The account of a session.
#[derive(Debug)]
pub struct Account {
    total: Arc<Total>,
    limits: Arc<MemoryLimits>,
    bytes: AtomicUsize,
}

impl Account {
    /// An account within that of all sessions.
    pub(crate) fn new(total: Arc<Total>, limits: Arc<MemoryLimits>) -> Arc<Account> {
        Arc::new(Account { total, limits, bytes: AtomicUsize::new(0) })
    }

    /// The limits that it has.
    pub(crate) fn limits(&self) -> &MemoryLimits {
        &self.limits
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// 53200.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Result<Held> {
        let mut held = Held { account: self.clone(), bytes: 0 };
        held.grow(bytes)?;
        Ok(held)
    }

    fn take(&self, bytes: usize) -> Result<()> {
        if !add_within(&self.bytes, bytes, self.limits.session_bytes) {
            return Err(self.refused("A session", self.limits.session_bytes).hint(
                "Deallocate prepared statements, close portals and cursors, or make smaller statements of this one.",
            ));
        }
        if !add_within(&self.total.bytes, bytes, self.limits.total_bytes) {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(self
                .refused("All sessions together", self.limits.total_bytes)
                .hint("Try again when other sessions have ended their statements."));
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.total.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cold]
    fn refused(&self, whose: &str, limit: usize) -> SqlError {
        self.total.refused.fetch_add(1, Ordering::Relaxed);
        let limit =
            if limit < 1 << 20 { format!("{} kB", limit >> 10) } else { format!("{} MB", limit >> 20) };
        SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(format!("{whose} may take {limit} for statements, portals, cursors, sorts and hashes."))
    }

    /// Opens a temporary file for rows. None if there are as many as there may be.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn open_file(&self) -> io::Result<Option<RowsFile>> {
        if !add_within(&self.total.files, 1, FILES_MAX) {
            return Ok(None);
        }
        let opened = match &self.limits.directory {
            Some(directory) => tempfile::tempfile_in(directory),
            None => tempfile::tempfile(),
        };
        match opened {
            Ok(file) => Ok(Some(RowsFile { file, bytes: 0, total: self.total.clone() })),
            Err(error) => {
                self.total.files.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

/// A temporary file without a name, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RowsFile {
    file: File,
    bytes: u64,
    total: Arc<Total>,
}

impl RowsFile {
    /// Returns how many bytes were written to it.
    pub(crate) fn length(&self) -> u64 {
        self.bytes
    }
}

impl Write for RowsFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        self.total.file_bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Read for RowsFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for RowsFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for RowsFile {
    fn drop(&mut self) {
        self.total.files.fetch_sub(1, Ordering::Relaxed);
        self.total.file_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Adds to a counter, unless it would pass `max` by that.
fn add_within(counter: &AtomicUsize, bytes: usize, max: usize) -> bool {
    let add = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= max);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
}

/// Memory of an account, given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    account: Arc<Account>,
    bytes: usize,
}

impl Held {
    /// Returns how many bytes it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more.
    ///
    /// # Errors
    /// 53200; then it is as it was.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if bytes > 0 {
            self.account.take(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Takes as many more, or gives as many back, as make it `bytes`.
    ///
    /// # Errors
    /// As [`Held::grow`].
    pub fn set(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.account.give_back(self.bytes - bytes);
                self.bytes = bytes;
                Ok(())
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let total = Arc::new(Total::default());
        let limits = MemoryLimits { session_bytes: 100, total_bytes: 150, ..MemoryLimits::default() };
        let [one, two] = [(); 2].map(|()| Account::new(total.clone(), Arc::new(limits.clone())));
        let mut held = one.hold(60).unwrap();
        assert_eq!(held.grow(41).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        held.grow(40).unwrap();
        assert_eq!(two.hold(51).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        assert_eq!(total.read(), MemoryUse { bytes: 100, file_bytes: 0, refused: 2 });
        held.set(30).unwrap();
        let other = two.hold(100).unwrap();
        drop(held);
        assert_eq!(total.read().bytes, 100);
        assert_eq!(one.hold(usize::MAX).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
        drop(other);
        assert_eq!(total.read().bytes, 0);
    }
}
