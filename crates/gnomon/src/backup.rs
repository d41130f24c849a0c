//! Restoring backups, and verification.

use std::{io::Read, path::Path};

#[doc(inline)]
pub use gnomon_engine::Backup;
use gnomon_engine::{
    Options,
    disk::{DiskSet, FileDisk},
};

#[cfg(doc)]
use crate::{Builder, report::Severity};
use crate::{Csn, Database, Error, Result, report::Finding};

/// The result of a verification.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct VerifyReport {
    /// The newest commit.
    pub csn: Csn,
    /// Number of trees.
    pub trees: usize,
    /// Number of entries of all trees.
    pub entries: u64,
    /// Pages read.
    pub pages_read: u64,
    /// True if nothing is wrong but traces of a crash ([`Severity::Trace`]), and the database opens as it stands.
    pub is_sound: bool,
    /// The problems that were found.
    pub findings: Vec<Finding>,
}

/// Makes a database in the directory `path`, which is empty or made, of a full backup and those that go on from it, in
/// the order in which they were taken. The database is that of the last one, and was [verified](verify).
///
/// # Errors
/// [`Error::BackupChain`] if they do not go on from each other, [`Error::BackupDamaged`], [`Error::NotADatabase`] if
/// there are files already, and those of the disk.
pub fn restore<R: Read>(chain: impl IntoIterator<Item = R>, path: impl AsRef<Path>) -> Result<Backup> {
    let disk = FileDisk::open(&path, true)?;
    let restored = gnomon_engine::restore(chain, &disk, None, &mut |_, _, _| ());
    restored.map(|restored| restored.backup).map_err(|error| match error {
        Error::NotADatabase { detail, .. } => {
            Error::NotADatabase { path: path.as_ref().display().to_string(), detail }
        }
        error => error,
    })
}

/// Reads everything that the database in the directory `path` has and says what is wrong with it: each page's checksum,
/// version and identity, the map of space, and every tree's structure. Changes nothing; no process that writes may have
/// it open. One whose log needs its own operations or procedures is verified by [`Builder::verify`].
///
/// # Errors
/// Of opening and reading. Damage is no error but a finding, unless there is no state of the database to check.
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport> {
    Database::builder(path).verify()
}

pub(crate) fn verify_with(path: &Path, options: Options) -> Result<VerifyReport> {
    let disks = DiskSet::open_read_only(path)?;
    let report = gnomon_engine::verify_with(disks, options, &mut |_, _| ())?;
    Ok(VerifyReport {
        csn: report.csn,
        trees: report.trees.iter().filter(|tree| !tree.dropped).count(),
        entries: report.trees.iter().map(|tree| tree.entries).sum(),
        pages_read: report.pages_read,
        is_sound: report.is_sound(),
        findings: report.findings,
    })
}
