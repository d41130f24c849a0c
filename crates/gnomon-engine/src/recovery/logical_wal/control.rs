//! The file that opening a log begins with, in two copies that are written in turn.
//!
//! Layout (little-endian, one sector): magic (8 bytes), format version (4), epoch (4), number of the copy (8), the
//! database's identity (8), bytes of a segment (8), where the part of the log begins that is needed (8), the last
//! commit before that (8), how far the log reached at least (8; both are zero in files of older programs); the checksum
//! (crc32c) of all that in the last 4 bytes.

use crate::{
    Csn, Error, Result,
    disk::{Disk, File, SECTOR_BYTES},
    id::Lsn,
    sync::Arc,
};

/// The version of the format of the log: of this and of records.
const FORMAT_VERSION: u32 = 3;
const MAGIC: &[u8; 8] = b"gnomoncl";
/// Bytes of the file that each copy has to itself.
const SLOT_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    pub number: u64,
    /// The number of the run.
    pub epoch: u32,
    pub database: u64,
    pub segment_bytes: u64,
    /// No record before it is needed.
    pub tail: Lsn,
    /// The pages have every commit up to this one, whose records may be gone.
    pub base: Csn,
    /// The log was durable up to there when this was written.
    pub reaches: u64,
}

impl Control {
    fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.epoch.to_le_bytes());
        let numbers =
            [self.number, self.database, self.segment_bytes, self.tail.0, self.base.0, self.reaches];
        for (at, number) in numbers.iter().enumerate() {
            bytes[16 + at * 8..24 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes[..SECTOR_BYTES - 4]);
        bytes[SECTOR_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a copy; none if there is none, or it is not as it was written.
    fn decode(bytes: &[u8; SECTOR_BYTES]) -> Result<Option<Control>> {
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
        let control = Control {
            epoch: half(12),
            number: number(16),
            database: number(24),
            segment_bytes: number(32),
            tail: Lsn(number(40)),
            base: Csn(number(48)),
            reaches: number(56),
        };
        let fits = control.segment_bytes > 0 && control.segment_bytes.is_multiple_of(4096);
        Ok(fits.then_some(control))
    }
}

/// The file of both copies, and the content of the newer one.
pub(super) struct ControlFile {
    file: Arc<dyn File>,
    control: Control,
}

impl ControlFile {
    /// Makes the file, or both copies in it anew, durably.
    pub fn create(disk: &dyn Disk, name: &str, control: Control) -> Result<ControlFile> {
        let mut created = ControlFile { file: disk.open(name, true)?, control };
        // In both, so that what is left of another one does not count.
        created.write(control)?;
        created.write(control)?;
        Ok(created)
    }

    /// Reads the file; none if there is none. The inner none is a file of which neither copy is whole.
    pub fn open(disk: &dyn Disk, name: &str) -> Result<Option<Option<ControlFile>>> {
        let file = match disk.open(name, false) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut newest: Option<Control> = None;
        for slot in 0..2 {
            let mut bytes = [0; SECTOR_BYTES];
            match file.read_at(slot * SLOT_BYTES, &mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => continue,
                read => read?,
            }
            if let Some(control) = Control::decode(&bytes)?
                && newest.is_none_or(|newest| newest.number < control.number)
            {
                newest = Some(control);
            }
        }
        Ok(Some(newest.map(|control| ControlFile { file, control })))
    }

    pub fn control(&self) -> Control {
        self.control
    }

    /// Writes in the place of the older copy, durably; the number is the next one.
    pub fn write(&mut self, control: Control) -> Result<()> {
        let control = Control { number: self.control.number + 1, ..control };
        self.file.write_at(control.number % 2 * SLOT_BYTES, &control.encode())?;
        self.file.sync()?;
        self.control = control;
        Ok(())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::disk::MemDisk;

    #[test]
    fn the_newer_copy_counts_and_a_damaged_one_does_not() {
        let disk = MemDisk::new();
        assert!(ControlFile::open(&disk, "commits").unwrap().is_none());
        let first = Control {
            number: 7,
            epoch: 1,
            database: 2,
            segment_bytes: 4096,
            tail: Lsn(3),
            base: Csn(4),
            reaches: 5,
        };
        let mut file = ControlFile::create(&disk, "commits", first).unwrap();
        let next = Control { epoch: 2, tail: Lsn(99), ..first };
        file.write(next).unwrap();
        let newest = file.control();
        assert_eq!(newest, Control { number: 10, ..next });
        let read = || ControlFile::open(&disk, "commits").unwrap().unwrap().map(|file| file.control());
        assert_eq!(read(), Some(newest));
        let damage = |slot: u64| {
            disk.open("commits", false).unwrap().write_at(slot * SLOT_BYTES + 20, &[0xee]).unwrap();
        };
        damage(newest.number % 2);
        assert_eq!(read(), Some(Control { number: 9, ..first }));
        damage(1 - newest.number % 2);
        assert_eq!(read(), None);
        let mut older = first.encode();
        older[8..12].copy_from_slice(&(FORMAT_VERSION - 1).to_le_bytes());
        let sum = crc32c::crc32c(&older[..SECTOR_BYTES - 4]);
        older[SECTOR_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        disk.open("commits", false).unwrap().write_at(0, &older).unwrap();
        assert!(matches!(ControlFile::open(&disk, "commits"), Err(Error::TooOld { .. })));
    }
}
