//! A disk in memory, for databases that end with their process.
//!
//! Promises what [`Disk`] does as long as the process lives: there is no crash to survive, so a sync does nothing.
//! Running out of memory ends the process, as it does everywhere else in it; nothing is ever
//! [`StorageFull`](io::ErrorKind::StorageFull).

use super::{
    Disk, File, check_name,
    sparse::{SparseBytes, range_end},
};
use crate::sync::{Arc, Mutex, RwLock};
use std::{collections::BTreeMap, io};

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemDisk {
    files: Arc<Mutex<BTreeMap<String, Arc<MemFile>>>>,
}

#[derive(Default)]
struct MemFile {
    bytes: RwLock<SparseBytes>,
}

impl MemDisk {
    /// An empty disk.
    pub fn new() -> MemDisk {
        MemDisk::default()
    }
}

impl Disk for MemDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut files = self.files.lock();
        match files.get(name) {
            Some(file) => Ok(file.clone()),
            None if create => Ok(files.entry(name.to_owned()).or_default().clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl File for MemFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.bytes.read().read(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        range_end(offset, buf.len() as u64)?;
        if !buf.is_empty() {
            self.bytes.write().write(offset, buf);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let len = range_end(0, len)?;
        let mut bytes = self.bytes.write();
        let len = len.max(bytes.len());
        bytes.set_len(len);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let len = len.min(bytes.len());
        bytes.set_len(len);
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        range_end(offset, len)?;
        self.bytes.write().zero(offset, len);
        Ok(())
    }
}
