//! The disks of a database: listing them, adding one, checking and repairing what is on them.

#[cfg(all(test, not(shuttle)))]
mod tests;

pub(super) mod set;

use std::path::{Path, PathBuf};

use super::{Database, background::ScrubProgress};
use crate::{
    Error, Result,
    recovery::Copies,
    store::{DiskInfo, ScrubReport},
};

const COPIES: &str = "copies of its pages on other disks";

impl Database {
    fn copies(&self) -> Result<&Copies> {
        self.0.inner.method.copies().ok_or(Error::Unsupported(COPIES))
    }

    /// Returns the disks, by number, each with its directory unless it is lost or has none. Empty for a database that
    /// recovers by a log of pages, which has one disk.
    pub fn disks(&self) -> Vec<(DiskInfo, Option<PathBuf>)> {
        self.0.inner.method.copies().map(|copies| self.parts().disks.list(copies)).unwrap_or_default()
    }

    /// Returns two flags: true if each page has two copies on different disks, and true if all have them by now, as
    /// far as is known.
    pub fn mirroring(&self) -> (bool, bool) {
        self.0.inner.method.copies().map_or((false, true), Copies::mirroring)
    }

    /// Adds a disk, of which `path` is a directory that is empty or not there. With `mirror`, or if the database is
    /// mirrored, pages get copies on it in the background, beside all others; otherwise new pages go to it. Returns its
    /// number.
    ///
    /// # Errors
    /// [`BadOption`](crate::Error::BadOption) if the directory is not empty, or the database has 16 disks or recovers
    /// by a log; of the disk.
    pub fn add_disk(&self, path: impl AsRef<Path>, mirror: bool) -> Result<usize> {
        self.0.inner.check_open()?;
        let added = self.copies().and_then(|copies| self.parts().disks.add(copies, path.as_ref(), mirror));
        self.parts().background.maintain();
        added
    }

    /// Makes the copies that pages lack, on this thread, until all have theirs; false if there is no room for some.
    /// Without it the same happens in the background. `progress` is called with pages used on the disk that has fewest,
    /// and on the one that has most.
    pub fn make_copies(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        let copies = self.copies()?;
        self.0.inner.check_open()?;
        copies.repair_all(progress)
    }

    /// Reads all copies of everything, and repairs what is damaged from its copies. Transactions go on meanwhile.
    /// `progress` is called with the copies read and, about, the copies in all.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport> {
        self.0.inner.check_open()?;
        let report = self.copies()?.scrub(progress);
        self.parts().background.maintain();
        report
    }

    /// Sets the rate of the background scrub, about so many bytes a second: it reads all copies of all pages again and
    /// again, and repairs damaged ones from their copies; 0 ends it. [`Database::take_reports`] returns its findings,
    /// [`Database::scrub_progress`] their numbers.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) by a database that recovers by a log of pages;
    /// [`ReadOnly`](crate::Error::ReadOnly).
    pub fn scrub_in_background(&self, bytes_per_second: u64) -> Result<()> {
        self.0.inner.check_open()?;
        if self.0.inner.method.copies().is_none() {
            return Err(Error::Unsupported(
                "scrubbing: `gnomon verify` reads it all while nothing has it open",
            ));
        }
        if self.0.inner.store.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.parts().background.scrub(bytes_per_second);
        Ok(())
    }

    /// Returns the progress of the background scrub since the database was opened.
    pub fn scrub_progress(&self) -> ScrubProgress {
        self.parts().background.scrubbed()
    }

    /// Returns the faults of disks and copies that were found since the last call, repaired or not: sentences for an
    /// operator of the database.
    pub fn take_reports(&self) -> Vec<String> {
        self.0.inner.method.copies().map(Copies::take_reports).unwrap_or_default()
    }
}
