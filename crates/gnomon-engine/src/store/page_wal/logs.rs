//! The logs: that of pages, in one or several files, and that of operations.

use crate::{
    Result,
    id::Lsn,
    sync::thread,
    wal::{Log, LogCounts},
};

use super::root::Reaches;

/// The files of the logs.
pub struct Logs {
    /// The log of pages, in one or several files.
    pub redo: Vec<Log>,
    /// The log of operations, if it is one of its own.
    pub ops: Option<Log>,
}

impl Logs {
    /// Returns the log of operations.
    pub fn ops(&self) -> &Log {
        self.ops.as_ref().unwrap_or(&self.redo[0])
    }

    /// Returns all files.
    pub fn all(&self) -> impl Iterator<Item = &Log> {
        self.redo.iter().chain(&self.ops)
    }

    /// Returns where the files of the log of pages end.
    pub fn ends(&self) -> Vec<Lsn> {
        self.redo.iter().map(Log::end).collect()
    }

    /// Returns the length of the log of pages in bytes.
    pub fn live_bytes(&self) -> u64 {
        self.redo.iter().map(Log::live_bytes).sum()
    }

    /// Returns the counts of writes to the log of pages, and to that of operations if it has a file of its own.
    pub fn counts(&self) -> (LogCounts, LogCounts) {
        let redo = self.redo.iter().map(Log::counts).fold(LogCounts::default(), |all, log| LogCounts {
            forces: all.forces + log.forces,
            bytes: all.bytes + log.bytes,
        });
        (redo, self.ops.as_ref().map(Log::counts).unwrap_or_default())
    }

    /// Sees to it that the logs have room for so many bytes of pages and of undo records, and for `spare` more in each
    /// file.
    ///
    /// # Errors
    /// [`DiskFull`](crate::Error::DiskFull).
    pub fn ensure(&self, bytes: u64, undo: u64, spare: u64) -> Result<()> {
        let shared = if self.ops.is_none() { undo } else { 0 };
        let each = bytes / self.redo.len() as u64 + shared + spare;
        self.redo.iter().try_for_each(|log| log.ensure(each))?;
        self.ops.as_ref().map_or(Ok(()), |ops| ops.ensure(undo + spare))
    }

    /// Returns the positions up to which the logs are durable.
    pub fn reaches(&self) -> Reaches {
        let ops = self.ops.as_ref().map_or(Lsn(0), Log::forced);
        Reaches { ops, redo: self.redo.iter().map(Log::forced).collect() }
    }

    /// The file of the log of pages that has a page. Neighbours are in different ones, so that a sphere is written in
    /// parallel, whatever their size.
    pub fn file_of(&self, page: u64) -> usize {
        // Fibonacci hashing: page numbers may all be multiples of the same number.
        (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.redo.len()
    }

    /// Forces the files of the log of pages up to these ends.
    pub fn force(&self, ends: &[Lsn]) -> Result<()> {
        let behind: Vec<_> = self.redo.iter().zip(ends).filter(|(log, end)| log.forced() < **end).collect();
        match behind.split_first() {
            None => Ok(()),
            Some(((log, end), [])) => log.force(**end),
            Some(((log, end), others)) => thread::scope(|scope| {
                let running: Vec<_> =
                    others.iter().map(|(log, end)| scope.spawn(move || log.force(**end))).collect();
                let first = log.force(**end);
                let joined = running.into_iter().map(|other| other.join().expect("forcing does not panic"));
                joined.fold(first, |all, one| all.and(one))
            }),
        }
    }
}
