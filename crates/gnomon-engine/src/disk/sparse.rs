//! An array of bytes in memory, with holes: what the files of the memory and the simulated disk are made of.
//!
//! Bytes that were never written read as zero and take no space. A clone shares its blocks until one side writes.

use crate::sync::Arc;
use std::{collections::BTreeMap, io};

/// The unit in which bytes are kept: a page of the engine, and a block of common file systems.
pub(super) const BLOCK_BYTES: usize = 4096;

type Block = [u8; BLOCK_BYTES];

/// The bytes. Those at and beyond the length are zero.
#[derive(Clone, Default)]
pub(super) struct SparseBytes {
    blocks: BTreeMap<u64, Arc<Block>>,
    len: u64,
}

/// The end of a range of `len` bytes at `offset`; an error where a file cannot reach so far.
pub(super) fn range_end(offset: u64, len: u64) -> io::Result<u64> {
    let end = offset.checked_add(len).filter(|&end| i64::try_from(end).is_ok());
    end.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the range ends beyond the largest file"))
}

/// The parts of the range of `len` bytes at `offset` by block: block number, offset within the block, offset within
/// the range, length.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % BLOCK_BYTES as u64) as usize;
        let count = (BLOCK_BYTES - within).min(len - done);
        let part = (at / BLOCK_BYTES as u64, within, done, count);
        done += count;
        Some(part)
    })
}

impl SparseBytes {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads exactly `buf.len()` bytes, or fails at the end.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if range_end(offset, buf.len() as u64)? > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_padded(offset, buf);
        Ok(())
    }

    /// Reads as if zeros went on beyond the end.
    pub fn read_padded(&self, offset: u64, buf: &mut [u8]) {
        for (number, within, done, count) in parts(offset, buf.len()) {
            let target = &mut buf[done..done + count];
            match self.blocks.get(&number) {
                Some(block) => target.copy_from_slice(&block[within..within + count]),
                None => target.fill(0),
            }
        }
    }

    /// Writes, growing if need be. The caller has checked the range.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for (number, within, done, count) in parts(offset, data.len()) {
            let block = self.blocks.entry(number).or_insert_with(|| Arc::new([0; BLOCK_BYTES]));
            Arc::make_mut(block)[within..within + count].copy_from_slice(&data[done..done + count]);
        }
        self.len = self.len.max(offset + data.len() as u64);
    }

    /// Makes a range zero, as far as the length goes; whole blocks are given back.
    pub fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len);
        if offset >= end {
            return;
        }
        let block_bytes = BLOCK_BYTES as u64;
        let whole = offset.div_ceil(block_bytes)..end / block_bytes;
        if whole.start > whole.end {
            // Within one block, neither of whose ends it reaches.
            return self.zero_part(offset / block_bytes, offset % block_bytes, end % block_bytes);
        }
        let mut tail = self.blocks.split_off(&whole.start);
        self.blocks.append(&mut tail.split_off(&whole.end));
        if !offset.is_multiple_of(block_bytes) {
            self.zero_part(whole.start - 1, offset % block_bytes, block_bytes);
        }
        self.zero_part(whole.end, 0, end % block_bytes);
    }

    fn zero_part(&mut self, number: u64, start: u64, end: u64) {
        if start < end
            && let Some(block) = self.blocks.get_mut(&number)
        {
            Arc::make_mut(block)[start as usize..end as usize].fill(0);
        }
    }

    /// Cuts, or grows by zeros, to a length.
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len, self.len - len);
        }
        self.len = len;
    }
}
