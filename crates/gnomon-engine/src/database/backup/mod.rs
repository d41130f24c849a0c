//! Backups of databases.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::io::{self, Read, Write};

use super::{Database, VerifyReport, verify::verify_disks};
use crate::{
    Error, Result,
    disk::{Disk, File, RESTORING_FILE},
    env::Rng,
    store::shadow::{self, Backup, BackupId, FILE, RestorePhase, UNFINISHED_FILE},
    sync::Arc,
};

/// The files that making or restoring a database leaves when it is cut short.
const LEFTOVERS: [&str; 2] = [UNFINISHED_FILE, RESTORING_FILE];

/// A database that was restored, as verification found it.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The last backup of its chain: its state is the database's.
    pub backup: Backup,
    /// The report of the verification. It has no findings.
    pub report: VerifyReport,
}

impl Database {
    /// Writes a backup to `out`: of all of the database, or of what has changed `since` a state that another backup
    /// holds. It holds the state of one moment after the call: all commits that ended before it and none after. Others
    /// read and write meanwhile; the space that they give up is not used again before the backup has ended, so the
    /// file grows by about what they change.
    ///
    /// `progress` is called with logical pages passed and logical pages in all.
    ///
    /// # Errors
    /// [`Error::BackupChain`] if `since` is no earlier state of this database; [`Error::Corrupt`] if a page is damaged;
    /// [`Error::BackupStream`] if `out` fails; [`Error::BadOption`] if the database is open for reading only and was
    /// not closed, since its newest state may be in memory only. What was written until then is of no use.
    pub fn backup(
        &self,
        since: Option<BackupId>,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup> {
        let inner = &self.0.inner;
        inner.check_open()?;
        let backup = inner.method.backup(since, out, progress);
        // What was held for it is free now.
        self.parts().background.maintain();
        backup
    }
}

/// Makes a database of backups on an empty disk: a full one, then those that go on from it, in the order in which they
/// were taken. It is the state of the last, with an identity of its own, and was verified as [`verify`](crate::verify)
/// does. Nothing is a database until this has succeeded: where it is cut short, opening refuses the disk until it was
/// restored to again.
///
/// `seed` is where random numbers begin, as in [`Options::seed`](crate::Options::seed). `progress` is called with the
/// phase, and pages done and to do in it.
///
/// # Errors
/// [`Error::BackupChain`] if the backups do not go on from each other, [`Error::BackupDamaged`],
/// [`Error::BackupStream`], [`Error::TooNew`]; [`Error::NotADatabase`] if there are files already; of the disk.
pub fn restore<R: Read>(
    chain: impl IntoIterator<Item = R>,
    disk: &dyn Disk,
    seed: Option<u64>,
    progress: &mut dyn FnMut(RestorePhase, u64, u64),
) -> Result<Restored> {
    if let Some(other) = disk.list()?.into_iter().find(|name| !LEFTOVERS.contains(&name.as_str())) {
        return Err(Error::NotADatabase {
            path: String::new(),
            detail: format!(
                "files such as '{other}' are there already; restore to an empty directory or a new one"
            ),
        });
    }
    // Of a database whose making was cut short; restoring begins with its own file empty.
    match disk.remove(UNFINISHED_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    let restored = restore_unfinished(chain, disk, seed, progress);
    match &restored {
        Ok(_) => disk.rename(RESTORING_FILE, FILE)?,
        // If that fails too, the first error is the one to know, and the file is no database.
        Err(_) => _ = disk.remove(RESTORING_FILE),
    }
    restored
}

fn restore_unfinished<R: Read>(
    chain: impl IntoIterator<Item = R>,
    disk: &dyn Disk,
    seed: Option<u64>,
    progress: &mut dyn FnMut(RestorePhase, u64, u64),
) -> Result<Restored> {
    let mut rng = seed.map_or_else(Rng::from_entropy, Rng::from_seed);
    let identity = |original: BackupId| loop {
        let identity = rng.next_u64();
        if identity != original.database {
            return identity;
        }
    };
    let backup = shadow::restore(chain, disk, RESTORING_FILE, identity, &mut |done, total| {
        progress(RestorePhase::Writing, done, total);
    })?;
    let report = verify_disks(&[&Unfinished(disk)], &mut |done, total| {
        progress(RestorePhase::Verifying, done, total);
    })?;
    // The pages are those that were backed up, so the database was not sound then.
    if let Some(finding) = report.findings.first() {
        return Err(Error::Corrupt {
            file: finding.file.clone(),
            page: finding.page,
            detail: format!(
                "{} (in the restored database, one of {} findings: the database that was backed up had them)",
                finding.detail,
                report.findings.len()
            ),
        });
    }
    Ok(Restored { backup, report })
}

/// The disk of a database that has not got its name yet.
struct Unfinished<'a>(&'a dyn Disk);

impl Disk for Unfinished<'_> {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        self.0.open(if name == FILE { RESTORING_FILE } else { name }, create)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.0.list()?;
        names.iter_mut().filter(|name| *name == RESTORING_FILE).for_each(|name| FILE.clone_into(name));
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
}
