//! Copies of pages on several disks: adding disks, repairing and checking what is on them.

use std::path::Path;

use crate::{
    Result,
    disk::DiskSet,
    recovery::one_disk,
    store::shadow::{DiskInfo, Repair, ScrubReport, ShadowStore},
    sync::Arc,
};

/// The disks of a store, and the copies of pages on them.
pub(crate) struct Copies {
    store: Arc<ShadowStore>,
    /// True if there can be more than one disk.
    takes_disks: bool,
}

impl Copies {
    pub(in crate::recovery) fn new(store: Arc<ShadowStore>, takes_disks: bool) -> Copies {
        Copies { store, takes_disks }
    }

    /// Returns the disks, by number.
    pub fn disks(&self) -> Vec<DiskInfo> {
        self.store.repairer.disk_infos()
    }

    /// Returns two flags: true if each page has two copies, and true if all have them by now.
    pub fn mirroring(&self) -> (bool, bool) {
        (self.store.mirror.is_mirrored(), self.store.mirror.has_all_copies())
    }

    /// Adds a disk, of which `path` is a directory, to the set and to the store. Returns its number.
    pub fn add_disk(&self, set: &mut DiskSet, path: &Path, mirror: bool) -> Result<usize> {
        if !self.takes_disks {
            return Err(one_disk());
        }
        self.store.repairer.check_room_for_disk()?;
        let mirrored = mirror || self.store.mirror.is_mirrored();
        let given = set.add(path, mirrored, |given| self.store.mirror.uses_disk(given))?;
        let disk = set.disks().nth(given).expect("it was added").clone();
        self.store.repairer.add_disk(&*disk, given, mirror)
    }

    /// True if a disk was lost that another one can stand in for.
    pub fn wants_disk(&self) -> bool {
        self.store.mirror.wants_disk()
    }

    /// True if copies are damaged or missing.
    pub fn wants_repair(&self) -> bool {
        self.store.repairer.wants_repair()
    }

    /// Makes some of the copies that are missing.
    pub fn repair_some(&self) -> Result<Repair> {
        self.store.repairer.repair_some()
    }

    /// Makes the copies that pages lack, until all have theirs; false if there is no room for some. `progress` is
    /// called with pages used on the disk that has fewest, and on the one that has most.
    pub fn repair_all(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        loop {
            let repair = self.store.repairer.repair_some()?;
            let used = || {
                let there = self.store.repairer.disk_infos().into_iter().filter(|info| info.given.is_some());
                there.map(|info| info.used_pages)
            };
            progress(used().min().unwrap_or_default(), used().max().unwrap_or_default());
            match repair {
                Repair::More => {}
                Repair::Done => return Ok(true),
                Repair::NoRoom => return Ok(false),
            }
        }
    }

    /// Reads all copies, and repairs what is damaged.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport> {
        self.store.repairer.scrub(progress)
    }

    /// The same of about so many bytes, from a logical page on. Returns where to go on; none at the end.
    pub fn scrub_some(&self, from: u64, bytes: u64, report: &mut ScrubReport) -> Result<Option<u64>> {
        self.store.repairer.scrub_some(from, bytes, report)
    }

    /// Adds a sentence for an operator of the database.
    pub fn report(&self, what: String) {
        self.store.mirror.report(what);
    }

    /// Returns the reports since the last call.
    pub fn take_reports(&self) -> Vec<String> {
        self.store.mirror.take_reports()
    }
}
