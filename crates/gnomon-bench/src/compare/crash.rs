//! A disk that can be stopped: what a crash of the process leaves, without a crash.
//!
//! Promises: until it is stopped it is the directory of files that it was made of. From then on nothing reaches the
//! files any more, so that they are as they would be after SIGKILL: a change fails, as on a disk that is gone, and
//! reading continues.
//!
//! Not done here: the further losses of a power failure, which the engine's own tests have.

use std::io;

use gnomon_engine::{
    disk::{Disk, File, FileDisk},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Stops the disk that it was made with.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops the disk, for good.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn check(&self) -> io::Result<()> {
        match self.0.load(Ordering::Acquire) {
            true => Err(io::Error::other("the disk was stopped")),
            false => Ok(()),
        }
    }
}

/// A directory that can be stopped.
pub struct CrashDisk {
    disk: FileDisk,
    stop: Stop,
}

struct CrashFile {
    file: Arc<dyn File>,
    stop: Stop,
}

impl CrashDisk {
    /// Makes it of an open directory.
    pub fn new(disk: FileDisk, stop: Stop) -> CrashDisk {
        CrashDisk { disk, stop }
    }
}

impl Disk for CrashDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        if create {
            self.stop.check()?;
        }
        Ok(Arc::new(CrashFile { file: self.disk.open(name, create)?, stop: self.stop.clone() }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.stop.check()?;
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.stop.check()?;
        self.disk.remove(name)
    }
}

impl File for CrashFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.stop.check()?;
        self.file.write_at(offset, buf)
    }

    fn sync(&self) -> io::Result<()> {
        self.stop.check()?;
        self.file.sync()
    }

    fn write_durably_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.stop.check()?;
        self.file.write_durably_at(offset, buf)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.stop.check()?;
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.stop.check()?;
        self.file.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.stop.check()?;
        self.file.punch(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_after_the_stop() {
        let directory = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let disk = CrashDisk::new(FileDisk::open(directory.path(), true).unwrap(), stop.clone());
        let file = disk.open("a", true).unwrap();
        file.write_durably_at(0, b"before").unwrap();
        stop.stop();
        let changes = [
            file.write_at(0, b"after").is_err(),
            file.write_durably_at(0, b"after").is_err(),
            file.sync().is_err(),
            file.allocate(100).is_err(),
            file.truncate(1).is_err(),
            file.punch(0, 1).is_err(),
            disk.rename("a", "b").is_err(),
            disk.remove("a").is_err(),
            disk.open("c", true).is_err(),
        ];
        assert_eq!(changes, [true; 9]);
        let mut read = [0; 6];
        disk.open("a", false).unwrap().read_at(0, &mut read).unwrap();
        assert_eq!((&read, disk.list().unwrap(), file.len().unwrap()), (b"before", vec!["a".into()], 6));
    }
}
