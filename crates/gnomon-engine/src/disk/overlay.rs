//! A disk over another one: what is written stays in memory, and the disk beneath is only read. For looking at a
//! database that would have to be recovered, which it is in memory then.

use super::{Disk, File, check_name, sparse::range_end};
use crate::sync::{Arc, Mutex, RwLock};
use std::{collections::BTreeMap, io};

/// The unit in which bytes are kept.
const BLOCK_BYTES: usize = 4096;

/// A disk whose changes are in memory.
pub(crate) struct Overlay {
    beneath: Arc<dyn Disk>,
    /// Files that were opened; none if they were removed.
    files: Mutex<BTreeMap<String, Option<Arc<OverlayFile>>>>,
}

struct OverlayFile {
    beneath: Option<Arc<dyn File>>,
    state: RwLock<State>,
}

struct State {
    len: u64,
    /// Bytes of the file beneath that count.
    beneath_len: u64,
    /// Blocks that were written.
    blocks: BTreeMap<u64, Box<[u8; BLOCK_BYTES]>>,
}

impl Overlay {
    pub fn over(beneath: Arc<dyn Disk>) -> Overlay {
        Overlay { beneath, files: Mutex::default() }
    }
}

impl OverlayFile {
    fn new(beneath: Option<Arc<dyn File>>) -> io::Result<OverlayFile> {
        let len = beneath.as_ref().map_or(Ok(0), |file| file.len())?;
        let state = State { len, beneath_len: len, blocks: BTreeMap::new() };
        Ok(OverlayFile { beneath, state: RwLock::new(state) })
    }

    /// Reads into `buf` what the file beneath has at `offset`, and zeros beyond.
    fn read_beneath(&self, state: &State, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let there = state.beneath_len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (read, zeros) = buf.split_at_mut(there);
        zeros.fill(0);
        match &self.beneath {
            Some(file) if there > 0 => file.read_at(offset, read),
            _ => Ok(()),
        }
    }

    /// Calls `change` with the parts of a range by block: the block, to be written, and which part of the range.
    fn change(
        &self,
        offset: u64,
        len: u64,
        mut change: impl FnMut(&mut [u8], std::ops::Range<usize>),
    ) -> io::Result<()> {
        let end = range_end(offset, len)?;
        let mut state = self.state.write();
        let mut at = offset;
        while at < end {
            let (number, within) = (at / BLOCK_BYTES as u64, (at % BLOCK_BYTES as u64) as usize);
            let count = (BLOCK_BYTES - within).min(usize::try_from(end - at).unwrap_or(BLOCK_BYTES));
            if !state.blocks.contains_key(&number) {
                let mut block = Box::new([0; BLOCK_BYTES]);
                self.read_beneath(&state, number * BLOCK_BYTES as u64, &mut *block)?;
                state.blocks.insert(number, block);
            }
            let done = (at - offset) as usize;
            if let Some(block) = state.blocks.get_mut(&number) {
                change(&mut block[within..within + count], done..done + count);
            }
            at += count as u64;
        }
        Ok(())
    }
}

impl Disk for Overlay {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut files = self.files.lock();
        if let Some(Some(file)) = files.get(name) {
            return Ok(file.clone());
        }
        let beneath = match files.contains_key(name) {
            true => None,
            false => match self.beneath.open(name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                opened => Some(opened?),
            },
        };
        if beneath.is_none() && !create {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = Arc::new(OverlayFile::new(beneath)?);
        files.insert(name.to_owned(), Some(file.clone()));
        Ok(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let files = self.files.lock();
        let mut names = self.beneath.list()?;
        names.retain(|name| !files.contains_key(name));
        names.extend(files.iter().filter(|(_, file)| file.is_some()).map(|(name, _)| name.clone()));
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        self.open(from, false)?;
        let mut files = self.files.lock();
        let file = files.insert(from.to_owned(), None).flatten();
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.open(name, false)?;
        self.files.lock().insert(name.to_owned(), None);
        Ok(())
    }
}

impl File for OverlayFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let state = self.state.read();
        if range_end(offset, buf.len() as u64)? > state.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_beneath(&state, offset, buf)?;
        let end = offset + buf.len() as u64;
        let blocks = offset / BLOCK_BYTES as u64..end.div_ceil(BLOCK_BYTES as u64);
        for (number, block) in state.blocks.range(blocks) {
            let begin = number * BLOCK_BYTES as u64;
            let (from, to) = (begin.max(offset), (begin + BLOCK_BYTES as u64).min(end));
            buf[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&block[(from - begin) as usize..(to - begin) as usize]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        let len = buf.len() as u64;
        self.change(offset, len, |block, part| block.copy_from_slice(&buf[part]))?;
        let mut state = self.state.write();
        state.len = state.len.max(offset + len);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state.read().len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let len = range_end(0, len)?;
        let mut state = self.state.write();
        state.len = state.len.max(len);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let end = self.len()?;
        if len < end {
            // What of its last block is beyond the new end.
            self.change(len, (end - len).min(BLOCK_BYTES as u64 - len % BLOCK_BYTES as u64), |block, _| {
                block.fill(0);
            })?;
            let mut state = self.state.write();
            state.len = len;
            state.beneath_len = state.beneath_len.min(len);
            state.blocks.split_off(&len.div_ceil(BLOCK_BYTES as u64));
        }
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.saturating_add(len).min(self.len()?);
        self.change(offset.min(end), end.saturating_sub(offset), |block, _| block.fill(0))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{disk::MemDisk, env::Rng};

    /// Against a disk in memory that is changed itself; the one beneath stays what it was.
    #[test]
    fn it_is_the_disk_beneath_with_what_was_written_since() {
        for seed in 0..40 {
            let mut rng = Rng::from_seed(seed);
            let (beneath, model) = (MemDisk::new(), MemDisk::new());
            let before: Vec<u8> = (0..30_000).map(|_| rng.below(255) as u8 + 1).collect();
            for disk in [&beneath, &model] {
                disk.open("a", true).unwrap().write_at(0, &before).unwrap();
                disk.open("b", true).unwrap().write_at(0, b"b").unwrap();
            }
            let overlay = Overlay::over(Arc::new(beneath.clone()));
            for _ in 0..40 {
                let (at, len) = (rng.below(40_000), rng.below(9000));
                let bytes = vec![rng.below(256) as u8; len as usize];
                let what = rng.below(8);
                for disk in [&overlay as &dyn Disk, &model] {
                    let file = disk.open("a", true).unwrap();
                    match what {
                        0..4 => file.write_at(at, &bytes).unwrap(),
                        4 => file.truncate(at).unwrap(),
                        5 => file.punch(at, len).unwrap(),
                        6 => file.allocate(at).unwrap(),
                        _ if seed % 3 == 0 => {
                            disk.rename("a", "c").and_then(|()| disk.rename("c", "a")).unwrap()
                        }
                        _ if seed % 3 == 1 => drop(disk.remove("b")),
                        _ => drop(disk.remove("a")),
                    }
                }
                let read = |disk: &dyn Disk| {
                    let file = disk.open("a", true).unwrap();
                    let mut bytes = vec![0; file.len().unwrap() as usize];
                    file.read_at(0, &mut bytes).unwrap();
                    let mut part = vec![0; len as usize];
                    let part = file.read_at(at, &mut part).map(|()| part).map_err(|error| error.kind());
                    (bytes, part, disk.list().unwrap())
                };
                assert_eq!(read(&overlay), read(&model), "seed {seed}");
            }
            let mut after = vec![0; before.len()];
            beneath.open("a", false).unwrap().read_at(0, &mut after).unwrap();
            assert_eq!((after, beneath.list().unwrap().len()), (before, 2));
        }
    }
}
