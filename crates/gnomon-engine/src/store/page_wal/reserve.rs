//! The room of the log that a transaction has reserved, so that it can be taken back on a full disk.

use std::collections::HashMap;

use super::{Strategy, sphere::After};
use crate::{disk::SECTOR_BYTES, id::SubtxnId};

/// Bytes of the log that taking back a transaction may need.
///
/// The steps back change the same pages, but for some that they split. Where each subtransaction is forced by itself, so
/// is each that takes one back, and needs room of its own. Otherwise they are gathered in spheres, and need room for a
/// page once.
///
/// A rollback can still fail for space, and then stops the store: if its pages are written more than once meanwhile (by
/// commits that share spheres with it, or since it changes more pages than a large sphere has), or if other
/// transactions have taken the pages that it gave back. A crash recovery reserves nothing for the losers.
#[derive(Default)]
pub struct Reserve {
    /// Bytes for a subtransaction, if each is forced by itself; otherwise for a page.
    parts: HashMap<u64, u64>,
    bytes: u64,
    /// Number of subtransactions that may have to be taken back.
    undoable: u64,
}

impl Reserve {
    /// Reserves what a subtransaction needs that has changed these pages.
    pub fn add(&mut self, strategy: Strategy, subtxn: SubtxnId, after: &[(u64, After)]) {
        self.undoable += 1;
        if strategy == Strategy::TwoLevel {
            self.set(subtxn.0, compensation_bytes(after));
        } else {
            after.iter().for_each(|(page, after)| self.set(*page, after.size().bytes() as u64));
        }
    }

    fn set(&mut self, part: u64, bytes: u64) {
        let before = self.parts.insert(part, bytes).unwrap_or(0);
        self.bytes = self.bytes - before + bytes;
    }

    /// Gives up what was reserved for subtransactions that have been taken back. A crash recovery reserves nothing for
    /// those of the run before.
    pub fn remove(&mut self, strategy: Strategy, subtxns: &[SubtxnId]) {
        self.undoable = self.undoable.saturating_sub(subtxns.len() as u64);
        if strategy == Strategy::TwoLevel {
            self.bytes -= subtxns.iter().filter_map(|subtxn| self.parts.remove(&subtxn.0)).sum::<u64>();
        }
    }

    /// Returns the bytes of pages.
    pub fn page_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of records of compensations, each of which may fill a sector.
    pub fn record_bytes(&self) -> u64 {
        self.undoable * SECTOR_BYTES as u64
    }
}

/// Returns the bytes of pages that taking back a subtransaction with these changes may need, with the padding of a block.
pub fn compensation_bytes(after: &[(u64, After)]) -> u64 {
    let pages: usize = after.iter().map(|(_, after)| after.size().bytes()).sum();
    (pages + SECTOR_BYTES) as u64
}
