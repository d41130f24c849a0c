//! A block of records: what one force writes.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | crc32c of all other bytes, with the padding |
//! | 4..8 | [`MAGIC`], its last byte the version of the format |
//! | 8..16 | the block's own position |
//! | 16..24 | the database's identity |
//! | 24..32 | length in bytes, without the padding |
//! | 32..36 | epoch: the run that wrote it |
//! | 36..40 | count of records |
//! | 40.. | the records: length (4 bytes) and payload of each |
//!
//! Zeros fill it up to the next sector. All numbers are little-endian.

use crate::disk::SECTOR_BYTES;

/// The size of a block's header in bytes.
pub(super) const HEADER_BYTES: usize = 40;
/// The size of the length in front of a payload, in bytes.
const LENGTH_BYTES: usize = 4;
const MAGIC: [u8; 4] = *b"GnL\x01";

/// The header of a block, with the block's position and length.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// Its own position.
    pub start: u64,
    pub database: u64,
    /// Without the padding.
    pub bytes: u64,
    pub epoch: u32,
    pub records: u32,
}

impl Header {
    /// Reads the header of what may be a block. Only the magic is checked, and that the length has room for the header.
    pub fn parse(sector: &[u8]) -> Option<Header> {
        (field(sector, 4) == Some(MAGIC)).then_some(())?;
        let header = Header {
            start: u64::from_le_bytes(field(sector, 8)?),
            database: u64::from_le_bytes(field(sector, 16)?),
            bytes: u64::from_le_bytes(field(sector, 24)?),
            epoch: u32::from_le_bytes(field(sector, 32)?),
            records: u32::from_le_bytes(field(sector, 36)?),
        };
        (header.bytes >= HEADER_BYTES as u64).then_some(header)
    }

    /// Where the next block begins; none if there is no such position.
    pub fn end(&self) -> Option<u64> {
        self.start.checked_add(self.bytes)?.checked_next_multiple_of(SECTOR_BYTES as u64)
    }
}

/// A block. In the files its bytes have their padding.
pub(super) struct Block {
    pub header: Header,
    pub bytes: Vec<u8>,
}

/// Adds a record to a block that is being gathered. It has space for the header, or nothing yet.
pub(super) fn push(block: &mut Vec<u8>, parts: &[&[u8]]) {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(bytes).expect("a record is shorter than 4 GiB");
    block.extend_from_slice(&length.to_le_bytes());
    parts.iter().for_each(|part| block.extend_from_slice(part));
}

impl Block {
    /// Pads a block that has gathered, and writes its header.
    pub fn seal(&mut self) {
        let Block { header, bytes } = self;
        bytes.resize(bytes.len().next_multiple_of(SECTOR_BYTES), 0);
        bytes[4..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&header.start.to_le_bytes());
        bytes[16..24].copy_from_slice(&header.database.to_le_bytes());
        bytes[24..32].copy_from_slice(&header.bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&header.epoch.to_le_bytes());
        bytes[36..40].copy_from_slice(&header.records.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    }

    /// True if the whole block is as it was written.
    pub fn is_whole(&self) -> bool {
        let (mut count, mut end) = (0, HEADER_BYTES);
        for (at, payload) in self.records() {
            count += 1;
            end = at + LENGTH_BYTES + payload.len();
        }
        field(&self.bytes, 0).map(u32::from_le_bytes) == Some(crc32c::crc32c(&self.bytes[4..]))
            && (count, end as u64) == (self.header.records, self.header.bytes)
    }

    /// The records: where in it each begins, and its payload. Ends where a length does not fit.
    pub fn records(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut next = HEADER_BYTES;
        (0..self.header.records).map_while(move |_| {
            let at = next;
            let length = u32::from_le_bytes(field(&self.bytes, at)?) as usize;
            let payload = self.bytes.get(at + LENGTH_BYTES..)?.get(..length)?;
            next = at + LENGTH_BYTES + length;
            Some((at, payload))
        })
    }
}

/// The bytes of a field, if they are there.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
