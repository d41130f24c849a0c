//! Several disks that crash together: parts of one simulated disk, whose events are counted over all of them.

use super::SimDisk;
use crate::{
    disk::{Disk, DiskSet, File},
    sync::Arc,
};
use std::io;

/// A part of a simulated disk: a disk with files of its own. Once removed, it fails every call.
#[derive(Clone)]
pub(super) struct SimPart {
    disk: SimDisk,
    number: usize,
}

impl SimDisk {
    /// An empty disk of so many parts, on which a database is mirrored.
    pub fn of_parts(seed: u64, parts: usize) -> SimDisk {
        let disk = SimDisk::striped(seed, parts);
        disk.state.lock().mirrored = parts > 0;
        disk
    }

    /// An empty disk of so many parts, over which a database is striped.
    pub fn striped(seed: u64, parts: usize) -> SimDisk {
        let disk = SimDisk::new(seed);
        disk.state.lock().parts = vec![true; parts];
        disk
    }

    /// True if a database on its parts is mirrored.
    pub fn is_mirrored(&self) -> bool {
        self.state.lock().mirrored
    }

    /// Removes a part: every call of it fails from now on, and it cannot be opened again. Images have all parts.
    pub fn remove_part(&self, number: usize) {
        self.state.lock().parts[number] = false;
    }

    /// Removes a part at an event.
    pub fn remove_part_at(&self, event: u64, number: usize) {
        self.state.lock().plan.remove_part = Some((event, number));
    }

    /// Returns the number of parts; 0 if it is one disk.
    pub fn parts(&self) -> usize {
        self.state.lock().parts.len()
    }

    /// True if a part is there.
    pub fn has_part(&self, number: usize) -> bool {
        self.state.lock().parts[number]
    }

    /// True if a part was removed.
    pub fn lacks_parts(&self) -> bool {
        self.state.lock().parts.contains(&false)
    }

    /// The disks of a database on it: its parts, but for those removed; or itself.
    pub fn set(&self) -> DiskSet {
        let parts = self.state.lock().parts.clone();
        if parts.is_empty() {
            return self.into();
        }
        let there = parts.iter().enumerate().filter(|(_, there)| **there);
        let part = |(number, _)| Arc::new(SimPart { disk: self.clone(), number }) as Arc<dyn Disk>;
        DiskSet::of(there.map(part).collect(), self.is_mirrored())
    }
}

impl SimPart {
    fn check(&self) -> io::Result<()> {
        match self.disk.state.lock().parts[self.number] {
            true => Ok(()),
            false => Err(io::Error::other("simulated removal of a disk")),
        }
    }

    fn prefix(&self) -> String {
        format!("{}-", self.number)
    }
}

impl Disk for SimPart {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        self.check()?;
        let file = self.disk.open(&(self.prefix() + name), create)?;
        Ok(Arc::new(PartFile { part: self.clone(), file }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.check()?;
        let names = self.disk.list()?;
        Ok(names.iter().filter_map(|name| Some(name.strip_prefix(&self.prefix())?.to_owned())).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check()?;
        self.disk.rename(&(self.prefix() + from), &(self.prefix() + to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check()?;
        self.disk.remove(&(self.prefix() + name))
    }
}

struct PartFile {
    part: SimPart,
    file: Arc<dyn File>,
}

impl File for PartFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.part.check()?;
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.part.check()?;
        self.file.write_at(offset, buf)
    }

    fn sync(&self) -> io::Result<()> {
        self.part.check()?;
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.part.check()?;
        self.file.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.part.check()?;
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.part.check()?;
        self.file.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.part.check()?;
        self.file.punch(offset, len)
    }
}
