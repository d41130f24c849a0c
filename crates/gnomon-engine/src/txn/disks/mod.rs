//! The disks of a database: listing them, adding one, checking and repairing what is on them.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::path::{Path, PathBuf};

use super::{
    Database,
    background::ScrubProgress,
    database::Inner,
    recovery::{self, Recovery},
};
use crate::{
    Result,
    store::shadow::{DiskInfo, Repair, ScrubReport},
};

const COPIES: &str = "copies of its pages on other disks";

impl Inner {
    fn add_disk(&self, path: &Path, mirror: bool) -> Result<usize> {
        // One at a time.
        let mut set = self.disks.lock();
        let store = self.store.shadow_for(COPIES)?;
        if self.recovery != Recovery::Shadow {
            return Err(recovery::one_disk());
        }
        store.check_room_for_disk()?;
        let mirrored = mirror || store.is_mirrored();
        let given = set.add(path, mirrored, |given| store.uses_disk(given))?;
        let disk = set.disks().nth(given).expect("it was added").clone();
        store.add_disk(&*disk, given, mirror)
    }

    /// True if a disk was lost that a spare one can stand in for.
    pub(super) fn wants_spare(&self) -> bool {
        self.store.shadow().is_some_and(|store| store.wants_disk()) && !self.spares.lock().is_empty()
    }

    /// Takes a spare disk in a lost one's stead, if there is one that can be used.
    pub(super) fn take_spare(&self) {
        let Some(store) = self.store.shadow() else { return };
        while store.wants_disk() {
            let Some(path) = self.spares.lock().pop() else { return };
            if let Err(error) = self.add_disk(&path, false) {
                store.report(format!("the spare disk {} cannot be used: {error}", path.display()));
            }
        }
    }
}

impl Database {
    /// Returns the disks, by number, each with its directory unless it is lost or has none. Empty for a database that
    /// recovers by a log of pages, which has one disk.
    pub fn disks(&self) -> Vec<(DiskInfo, Option<PathBuf>)> {
        let set = self.0.inner.disks.lock();
        let infos = self.0.inner.store.shadow().map(|store| store.disk_infos()).unwrap_or_default();
        infos
            .into_iter()
            .map(|info| (info.clone(), info.given.and_then(|given| Some(set.path(given)?.to_owned()))))
            .collect()
    }

    /// Returns two flags: true if each page has two copies on different disks, and true if all have them by now, as
    /// far as is known.
    pub fn mirroring(&self) -> (bool, bool) {
        let store = self.0.inner.store.shadow();
        store.map_or((false, true), |store| (store.is_mirrored(), store.has_all_copies()))
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
        let added = self.0.inner.add_disk(path.as_ref(), mirror);
        self.0.background.maintain();
        added
    }

    /// Makes the copies that pages lack, on this thread, until all have theirs; false if there is no room for some.
    /// Without it the same happens in the background. `progress` is called with pages used on the disk that has fewest,
    /// and on the one that has most.
    pub fn make_copies(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        let store = self.0.inner.store.shadow_for(COPIES)?;
        self.0.inner.check_open()?;
        loop {
            let repair = store.repair_some()?;
            let used = || {
                store.disk_infos().into_iter().filter(|info| info.given.is_some()).map(|info| info.used_pages)
            };
            progress(used().min().unwrap_or_default(), used().max().unwrap_or_default());
            match repair {
                Repair::More => {}
                Repair::Done => return Ok(true),
                Repair::NoRoom => return Ok(false),
            }
        }
    }

    /// Reads all copies of everything, and repairs what is damaged from its copies. Transactions go on meanwhile.
    /// `progress` is called with the copies read and, about, the copies in all.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport> {
        self.0.inner.check_open()?;
        let report = self.0.inner.store.shadow_for(COPIES)?.scrub(progress);
        self.0.background.maintain();
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
        let store = self
            .0
            .inner
            .store
            .shadow_for("scrubbing: `gnomon verify` reads it all while nothing has it open")?;
        if store.is_read_only() {
            return Err(crate::Error::ReadOnly);
        }
        self.0.background.scrub(bytes_per_second);
        Ok(())
    }

    /// Returns the progress of the background scrub since the database was opened.
    pub fn scrub_progress(&self) -> ScrubProgress {
        self.0.background.scrubbed()
    }

    /// Returns the faults of disks and copies that were found since the last call, repaired or not: sentences for an
    /// operator of the database.
    pub fn take_reports(&self) -> Vec<String> {
        self.0.inner.store.take_reports()
    }
}
