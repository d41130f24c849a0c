//! A disk of limited size: files do not grow beyond it, as on a disk that is full.

use std::io;

use gnomon_engine::{
    disk::{Disk, File},
    sync::Arc,
};

/// A disk whose files have at most so many bytes each.
pub(super) struct LimitedDisk {
    pub disk: Arc<dyn Disk>,
    pub bytes_max: u64,
}

impl Disk for LimitedDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(LimitedFile { file: self.disk.open(name, create)?, bytes_max: self.bytes_max }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
}

struct LimitedFile {
    file: Arc<dyn File>,
    bytes_max: u64,
}

impl LimitedFile {
    fn check(&self, end: u64) -> io::Result<()> {
        if end > self.bytes_max { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl File for LimitedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.check(offset.saturating_add(buf.len() as u64))?;
        self.file.write_at(offset, buf)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.check(len)?;
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }
}
