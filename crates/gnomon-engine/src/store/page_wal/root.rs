//! The root of a logged store: what opening begins with, in two copies at the head of the file of pages, written in
//! turn.
//!
//! Layout (little-endian, one sector): magic (8 bytes), format version (4), epoch (4), number of the root (8), database
//! (8), code of the smallest page's size (1), strategy (1), files of the log of pages (1), whether both levels share a
//! log (1), what level 1 keeps in the store (1), 3 bytes of zeros, bytes of a segment (8), first unit that is needed
//! (8), next number of a transaction or subtransaction (8), last commit before that unit (8), beginning of the log of
//! operations (8), beginnings of the files of the log of pages (8 each, 16 of them); how far at least these reached (8
//! each, 16), how far the log of operations did (8), the smallest pages of the file (8; zeros, these and those before, in
//! roots of older programs); the checksum (crc32c) of all that in the last 4 bytes.

use super::{Contents, LogShape, Strategy};
use crate::{
    Csn, Error, Result,
    disk::{File, SECTOR_BYTES},
    id::Lsn,
    page::PageSize,
};

/// The version of the format of files and logs.
pub(super) const FORMAT_VERSION: u32 = 2;
const MAGIC: &[u8; 8] = b"gnomonpl";
/// Each copy of the root has so many bytes to itself; pages begin behind them.
const SLOT_BYTES: u64 = 4096;
/// Where the first page is in the file, in bytes.
pub(super) const PAGES_AT: u64 = 2 * SLOT_BYTES;
const TAILS_AT: usize = 80;
const REACHES_AT: usize = TAILS_AT + LOG_FILES_MAX * 8;
/// Number of files that the log of pages has at most.
pub const LOG_FILES_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub number: u64,
    pub epoch: u32,
    pub database: u64,
    pub unit: PageSize,
    pub strategy: Strategy,
    pub logs: LogShape,
    pub contents: Contents,
    /// The first unit of the log of pages that is needed.
    pub first_unit: u64,
    pub next_id: u64,
    pub csn: Csn,
    pub ops_tail: Lsn,
    pub tails: Vec<Lsn>,
    /// The logs were durable up to there when this was written: files that end before are not those that belong to it.
    pub reaches: Reaches,
    /// The file had so many smallest pages, durably.
    pub end: u64,
}

/// The positions up to which the logs were durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaches {
    pub ops: Lsn,
    /// The files of the log of pages.
    pub redo: Vec<Lsn>,
}

impl Root {
    fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        let mut at = 0;
        let mut put = |value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        };
        put(MAGIC);
        put(&FORMAT_VERSION.to_le_bytes());
        put(&self.epoch.to_le_bytes());
        put(&self.number.to_le_bytes());
        put(&self.database.to_le_bytes());
        put(&[self.unit.code(), self.strategy.code(), self.logs.redo_files as u8]);
        put(&[u8::from(self.logs.shared), self.contents as u8, 0, 0, 0]);
        for number in [self.logs.segment_bytes, self.first_unit, self.next_id, self.csn.0, self.ops_tail.0] {
            put(&number.to_le_bytes());
        }
        for positions in [&self.tails, &self.reaches.redo] {
            let all = positions.iter().map(|at| at.0).chain(std::iter::repeat(0));
            all.take(LOG_FILES_MAX).for_each(|at| put(&at.to_le_bytes()));
        }
        put(&self.reaches.ops.0.to_le_bytes());
        put(&self.end.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..SECTOR_BYTES - 4]);
        bytes[SECTOR_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a copy; none if there is none, or it is not as it was written.
    fn decode(bytes: &[u8; SECTOR_BYTES]) -> Result<Option<Root>> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        if &bytes[..8] != MAGIC || half(SECTOR_BYTES - 4) != crc32c::crc32c(&bytes[..SECTOR_BYTES - 4]) {
            return Ok(None);
        }
        if half(8) > FORMAT_VERSION {
            return Err(Error::TooNew { found: half(8), known: FORMAT_VERSION });
        }
        if half(8) < FORMAT_VERSION {
            return Err(Error::TooOld { found: half(8), oldest: FORMAT_VERSION });
        }
        let contents =
            [Contents::Trees, Contents::Objects].into_iter().find(|known| *known as u8 == bytes[36]);
        let (Some(unit), Some(strategy), redo_files @ 1..=LOG_FILES_MAX, Some(contents)) =
            (PageSize::from_code(bytes[32]), Strategy::from_code(bytes[33]), bytes[34].into(), contents)
        else {
            return Ok(None);
        };
        if number(40) == 0 || !number(40).is_multiple_of(4096) {
            return Ok(None);
        }
        Ok(Some(Root {
            epoch: half(12),
            number: number(16),
            database: number(24),
            unit,
            strategy,
            logs: LogShape { redo_files, shared: bytes[35] != 0, segment_bytes: number(40) },
            contents,
            first_unit: number(48),
            next_id: number(56),
            csn: Csn(number(64)),
            ops_tail: Lsn(number(72)),
            tails: (0..redo_files).map(|file| Lsn(number(TAILS_AT + file * 8))).collect(),
            reaches: Reaches {
                ops: Lsn(number(REACHES_AT + LOG_FILES_MAX * 8)),
                redo: (0..redo_files).map(|file| Lsn(number(REACHES_AT + file * 8))).collect(),
            },
            end: number(REACHES_AT + LOG_FILES_MAX * 8 + 8),
        }))
    }

    /// Reads the newest copy; none if there is none.
    pub fn read(file: &dyn File) -> Result<Option<Root>> {
        let mut newest: Option<Root> = None;
        for slot in 0..2 {
            let mut bytes = [0; SECTOR_BYTES];
            match file.read_at(slot * SLOT_BYTES, &mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => continue,
                read => read?,
            }
            if let Some(root) = Root::decode(&bytes)?
                && newest.as_ref().is_none_or(|newest| newest.number < root.number)
            {
                newest = Some(root);
            }
        }
        Ok(newest)
    }

    /// Writes it in the place of the older copy, durably.
    pub fn write(&self, file: &dyn File) -> Result<()> {
        file.write_at(self.number % 2 * SLOT_BYTES, &self.encode())?;
        Ok(file.sync()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, MemDisk};

    #[test]
    fn the_newer_copy_counts_and_a_damaged_one_does_not() {
        let disk = MemDisk::new();
        let file = disk.open("pages", true).unwrap();
        assert_eq!(Root::read(&*file).unwrap(), None);
        let root = Root {
            number: 1,
            epoch: 2,
            database: 3,
            unit: PageSize::MIN,
            strategy: Strategy::TwoLevelDeferred,
            logs: LogShape { redo_files: 3, shared: true, segment_bytes: 1 << 20 },
            contents: Contents::Objects,
            first_unit: 4,
            next_id: 5,
            csn: Csn(6),
            ops_tail: Lsn(7),
            tails: vec![Lsn(8), Lsn(9), Lsn(10)],
            reaches: Reaches { ops: Lsn(11), redo: vec![Lsn(12), Lsn(13), Lsn(14)] },
            end: 15,
        };
        root.write(&*file).unwrap();
        assert_eq!(Root::read(&*file).unwrap(), Some(root.clone()));
        let next = Root { number: 2, ..root.clone() };
        next.write(&*file).unwrap();
        assert_eq!(Root::read(&*file).unwrap(), Some(next));
        file.write_at(100, &[1]).unwrap();
        assert_eq!(Root::read(&*file).unwrap(), Some(root));
    }
}
