//! The disks that an open database holds, and those that wait to be taken.

use std::path::{Path, PathBuf};

use crate::{Result, disk::DiskSet, recovery::Copies, store::DiskInfo, sync::Mutex};

/// The disks of an open database.
pub(crate) struct Disks {
    /// The disks, held open, so that no other process and no other handle opens them.
    set: Mutex<DiskSet>,
    /// Directories on fresh disks.
    spares: Mutex<Vec<PathBuf>>,
}

impl Disks {
    pub fn new(set: DiskSet, spares: Vec<PathBuf>) -> Disks {
        Disks { set: Mutex::new(set), spares: Mutex::new(spares) }
    }

    pub fn add(&self, copies: &Copies, path: &Path, mirror: bool) -> Result<usize> {
        // One at a time.
        copies.add_disk(&mut self.set.lock(), path, mirror)
    }

    /// True if a disk was lost that a spare one can stand in for.
    pub fn wants_spare(&self, copies: &Copies) -> bool {
        copies.wants_disk() && !self.spares.lock().is_empty()
    }

    /// Takes a spare disk in a lost one's stead, if there is one that can be used.
    pub fn take_spare(&self, copies: &Copies) {
        while copies.wants_disk() {
            let Some(path) = self.spares.lock().pop() else { return };
            if let Err(error) = self.add(copies, &path, false) {
                copies.report(format!("the spare disk {} cannot be used: {error}", path.display()));
            }
        }
    }

    /// Returns the disks, by number, each with its directory unless it is lost or has none.
    pub fn list(&self, copies: &Copies) -> Vec<(DiskInfo, Option<PathBuf>)> {
        let set = self.set.lock();
        let with_path =
            |info: DiskInfo| (info.clone(), info.given.and_then(|given| Some(set.path(given)?.to_owned())));
        copies.disks().into_iter().map(with_path).collect()
    }
}
