//! One file of a simulated disk: its current bytes, its durable bytes, and the changes between the two.

use crate::{
    disk::{
        SECTOR_BYTES,
        sparse::{BLOCK_BYTES, SparseBytes},
    },
    env::Rng,
};
use std::collections::BTreeSet;

const SECTOR: u64 = SECTOR_BYTES as u64;
const BLOCK: u64 = BLOCK_BYTES as u64;

pub(super) struct SimFile {
    /// The last name that it was given.
    pub name: String,
    /// Contents that the process reads.
    pub current: SparseBytes,
    /// Contents that survive a crash for certain.
    durable: SparseBytes,
    /// The changes since the last sync, in their order.
    unsynced: Vec<Change>,
    /// The numbers of the blocks that have space of their own.
    pub reserved: BTreeSet<u64>,
}

/// Whole sectors that a call changed, and the length that it left. As a disk is written from a cache, each sector
/// that reaches it contains every earlier change of the same sector.
struct Change {
    sectors: Vec<Sectors>,
    len_after: u64,
}

/// Consecutive sectors, from the byte `offset` on.
enum Sectors {
    Content { offset: u64, bytes: Vec<u8> },
    Zero { offset: u64, count: u64 },
}

/// The unsynced changes that survive a crash.
#[derive(Clone, Copy)]
pub(super) enum Keep {
    Nothing,
    Everything,
    /// Each change is lost, torn or kept with probabilities in this proportion.
    Some {
        lost: u64,
        torn: u64,
        kept: u64,
    },
}

fn blocks(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / BLOCK..(offset + len).div_ceil(BLOCK)
}

impl SimFile {
    pub fn from_durable(name: String, bytes: SparseBytes) -> SimFile {
        let reserved = blocks(0, bytes.len()).collect();
        SimFile { name, current: bytes.clone(), durable: bytes, unsynced: Vec::new(), reserved }
    }

    pub fn unreserved_bytes(&self, offset: u64, len: u64) -> u64 {
        let range = blocks(offset, len);
        let reserved = self.reserved.range(range.clone()).count() as u64;
        (range.end - range.start - reserved) * BLOCK
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.current.write(offset, data);
        self.reserved.extend(blocks(offset, data.len() as u64));
        let sectors = vec![self.content(offset, offset + data.len() as u64)];
        self.push(sectors);
    }

    pub fn allocate(&mut self, len: u64) {
        self.current.set_len(len.max(self.current.len()));
        self.reserved.extend(blocks(0, len));
        self.push(Vec::new());
    }

    pub fn truncate(&mut self, len: u64) {
        let before = self.current.len();
        if len < before {
            self.current.set_len(len);
            self.reserved.split_off(&len.div_ceil(BLOCK));
            let sectors = self.zeroed(len, before);
            self.push(sectors);
        }
    }

    pub fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.current.len());
        if offset < end {
            self.current.zero(offset, len);
            for block in offset.div_ceil(BLOCK)..end / BLOCK {
                self.reserved.remove(&block);
            }
            let sectors = self.zeroed(offset, end);
            self.push(sectors);
        }
    }

    fn push(&mut self, sectors: Vec<Sectors>) {
        self.unsynced.push(Change { sectors, len_after: self.current.len() });
    }

    /// The sectors of a range as they are now.
    fn content(&self, start: u64, end: u64) -> Sectors {
        let offset = start / SECTOR * SECTOR;
        let mut bytes = vec![0; (end.next_multiple_of(SECTOR) - offset) as usize];
        self.current.read_padded(offset, &mut bytes);
        Sectors::Content { offset, bytes }
    }

    /// The sectors of a range that has just become zero; those at its ends may have other bytes beside.
    fn zeroed(&self, start: u64, end: u64) -> Vec<Sectors> {
        let whole = start.next_multiple_of(SECTOR)..end / SECTOR * SECTOR;
        if whole.start >= whole.end {
            return vec![self.content(start, end)];
        }
        let mut sectors =
            vec![Sectors::Zero { offset: whole.start, count: (whole.end - whole.start) / SECTOR }];
        if start < whole.start {
            sectors.push(self.content(start, whole.start));
        }
        if whole.end < end {
            sectors.push(self.content(whole.end, end));
        }
        sectors
    }

    pub fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.sectors.iter().for_each(|sectors| sectors.keep(&mut self.durable));
            // Not only at the end: what is cut off reads as zero when the file grows again.
            self.durable.set_len(change.len_after);
        }
    }

    /// Some of the changes become durable. The others never will: they are forgotten as if they had been written.
    pub fn fail_sync(&mut self, rng: &mut Rng) {
        self.durable = self.crash_image(rng, Keep::Some { lost: 1, torn: 1, kept: 1 });
        self.unsynced.clear();
        if rng.chance(1, 2) {
            self.current = self.durable.clone();
            self.reserved.extend(blocks(0, self.current.len()));
        }
    }

    /// The bytes that a crash leaves.
    pub fn crash_image(&self, rng: &mut Rng, keep: Keep) -> SparseBytes {
        let mut image = self.durable.clone();
        let mut lens = vec![image.len()];
        for change in &self.unsynced {
            lens.push(change.len_after);
            let (lost, torn, kept) = match keep {
                Keep::Nothing => (1, 0, 0),
                Keep::Everything => (0, 0, 1),
                Keep::Some { lost, torn, kept } => (lost, torn, kept),
            };
            let choice = rng.below(lost + torn + kept);
            for sectors in &change.sectors {
                if choice >= lost + torn {
                    sectors.keep(&mut image);
                } else if choice >= lost {
                    sectors.keep_some(&mut image, rng);
                }
            }
        }
        let last = lens.len() - 1;
        let len = lens[match keep {
            Keep::Nothing => 0,
            Keep::Everything => last,
            Keep::Some { .. } if rng.chance(1, 2) => last,
            Keep::Some { .. } => rng.below(lens.len() as u64) as usize,
        }];
        image.set_len(len);
        image
    }

    pub fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        let mut byte = [0];
        let present = self.current.read(offset, &mut byte).is_ok();
        for bytes in [&mut self.current, &mut self.durable] {
            if bytes.read(offset, &mut byte).is_ok() {
                bytes.write(offset, &[byte[0] ^ (1 << (bit % 8))]);
            }
        }
        present
    }
}

impl Sectors {
    /// All of them reach the image.
    fn keep(&self, image: &mut SparseBytes) {
        match self {
            Sectors::Content { offset, bytes } => image.write(*offset, bytes),
            Sectors::Zero { offset, count } => image.zero(*offset, count * SECTOR),
        }
    }

    /// Each of them reaches the image or not.
    fn keep_some(&self, image: &mut SparseBytes, rng: &mut Rng) {
        let (offset, count) = match self {
            Sectors::Content { offset, bytes } => (*offset, bytes.len() as u64 / SECTOR),
            Sectors::Zero { offset, count } => (*offset, *count),
        };
        for index in (0..count).filter(|_| rng.chance(1, 2)) {
            match self {
                Sectors::Content { bytes, .. } => {
                    let start = index as usize * SECTOR_BYTES;
                    image.write(offset + index * SECTOR, &bytes[start..start + SECTOR_BYTES]);
                }
                Sectors::Zero { .. } => image.zero(offset + index * SECTOR, SECTOR),
            }
        }
    }
}
