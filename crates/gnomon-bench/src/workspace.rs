//! The surroundings of a measurement.
//!
//! Promises: databases of a [`Workspace`] are made in a directory of the run's own, which is removed when it ends, however it ends.

use std::path::{Path, PathBuf};

use gnomon_engine::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use gnomon_program::Progress;
use tempfile::TempDir;

use crate::{
    result::machine::Machine,
    store::{Result, StoreError},
};

/// The surroundings of a measurement.
pub struct Workspace {
    /// Tells how far it is.
    pub progress: Progress,
    /// Ends it early when it is set.
    pub cancel: Arc<AtomicBool>,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The machine that it runs on.
    pub machine: Machine,
    directory: TempDir,
    databases: usize,
}

impl Workspace {
    /// Makes a directory for databases in `dir`, or in the system's temporary one.
    ///
    /// # Errors
    /// A directory that cannot be made.
    pub fn new(
        progress: Progress,
        cancel: &Arc<AtomicBool>,
        seed: u64,
        dir: Option<&Path>,
    ) -> Result<Workspace> {
        let directory = match dir {
            Some(dir) => std::fs::create_dir_all(dir).and_then(|()| TempDir::with_prefix_in("bench-", dir)),
            None => TempDir::with_prefix("gnomon-bench-"),
        };
        let directory = directory.map_err(|error| {
            let place = dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
            StoreError::unexpected(format!("cannot make databases in {}: {error}", place.display()))
        })?;
        let machine = Machine::here(directory.path());
        Ok(Workspace { progress, cancel: cancel.clone(), seed, machine, directory, databases: 0 })
    }

    /// Fails if the measurement is to end early.
    ///
    /// # Errors
    /// That it is canceled.
    pub fn check_canceled(&self) -> Result<()> {
        match self.cancel.load(Ordering::Acquire) {
            true => Err(StoreError::unexpected("canceled")),
            false => Ok(()),
        }
    }

    /// Returns a path for a new database.
    pub fn new_path(&mut self) -> PathBuf {
        self.databases += 1;
        self.directory.path().join(format!("database-{}", self.databases))
    }

    /// Copies a database that is closed, or does not change meanwhile. Returns the copy's path.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn copy(&mut self, database: &Path) -> Result<PathBuf> {
        let path = self.new_path();
        let copied = (|| {
            std::fs::create_dir(&path)?;
            for entry in std::fs::read_dir(database)? {
                let entry = entry?;
                let copy = path.join(entry.file_name());
                std::fs::copy(entry.path(), &copy)?;
                // No run is to wait for a copy to reach the disk.
                #[expect(clippy::disallowed_methods, reason = "the copy is not open")]
                std::fs::File::open(copy)?.sync_all()?;
            }
            std::io::Result::Ok(())
        })();
        copied.map_err(|error| StoreError::Failed(error.into()))?;
        Ok(path)
    }

    /// Removes a closed database, to have its room.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, database: &Path) -> Result<()> {
        std::fs::remove_dir_all(database).map_err(|error| StoreError::Failed(error.into()))
    }
}

/// Returns the directory of a run with one database: the given one, or a temporary one, which goes with the second value.
pub(crate) fn directory_of(given: Option<&Path>) -> Result<(PathBuf, Option<TempDir>)> {
    if let Some(path) = given {
        return Ok((path.into(), None));
    }
    let temporary = tempfile::tempdir().map_err(|error| StoreError::Failed(error.into()))?;
    Ok((temporary.path().into(), Some(temporary)))
}
