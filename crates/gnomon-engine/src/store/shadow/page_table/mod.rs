//! The page table: where each logical page is, and which numbers of logical pages are free.
//!
//! The superblock points to the superblock of a tree of [nodes](node), which are pages themselves and stand in the
//! buffer pool. What is found here is the state that the last batch has published: durable, and replaced as a whole
//! ([`PageTable::publish`]). Entries used lately are kept in front of the tree ([`translations`]).
//!
//! Not here: pages written ahead of their batch, which the batcher knows; pinned states, which have tables of their
//! own.

pub mod node;
pub mod place;
pub mod translations;

use std::collections::BTreeSet;

use self::{node::PageEntry, place::is_bitmap, translations::Translations};
use super::{mirror::Mirror, superblock::Superblock};
use crate::{
    Result,
    failpoint::Failpoints,
    page::pool::{Pool, PoolKey, ReadLatch},
    sync::{Arc, Line, Mutex},
};

/// The page table of a store.
pub struct PageTable {
    mirror: Arc<Mirror>,
    pool: Pool,
    /// The published superblock: durable, and the root of the page table in memory.
    superblock: Mutex<Superblock>,
    translations: Translations,
    logical: Line<Mutex<Logical>>,
}

/// The allocator of logical page numbers.
struct Logical {
    /// Numbers known to be free.
    free: Vec<u64>,
    /// All numbers from here on were never used.
    end: u64,
    /// Where the search for unused numbers in the page table goes on; nodes below were searched.
    scanned: u64,
    /// Where that search ends: numbers from here on were handed out in this run.
    scan_end: u64,
}

impl PageTable {
    pub fn new(superblock: Superblock, mirror: Arc<Mirror>, pool: Pool, failpoints: Failpoints) -> PageTable {
        PageTable {
            mirror,
            pool,
            translations: Translations::new(failpoints),
            logical: Line(Mutex::new(Logical {
                free: Vec::new(),
                end: superblock.logical_end,
                scanned: 0,
                scan_end: superblock.logical_end,
            })),
            superblock: Mutex::new(superblock),
        }
    }

    /// Returns the published superblock.
    pub fn superblock(&self) -> Superblock {
        *self.superblock.lock()
    }

    /// Notes that the superblock was written once more, for the same table.
    pub fn set_superblock(&self, superblock: Superblock) {
        *self.superblock.lock() = superblock;
    }

    /// Makes a new state the one that readers find: its superblock, and the entries of the pages that it has changed.
    pub fn publish(&self, superblock: Superblock, entries: impl IntoIterator<Item = (u64, PageEntry)>) {
        *self.superblock.lock() = superblock;
        for (logical, entry) in entries {
            self.translations.publish(logical, entry.present());
        }
    }

    /// Returns the number from which on no logical page was ever used.
    pub fn logical_end(&self) -> u64 {
        self.logical.lock().end
    }

    /// Returns how many numbers of logical pages are known to be free.
    #[cfg(all(test, not(shuttle)))]
    pub fn free_numbers(&self) -> u64 {
        self.logical.lock().free.len() as u64
    }

    /// Returns the number of translations that found their entry in the cache, and of those that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        self.translations.hits_and_misses()
    }

    /// Returns the number of nodes: over all page numbers handed out, and over the bitmaps beyond them.
    pub fn nodes(&self, superblock: &Superblock, bitmaps: &[u64]) -> u64 {
        let levels = 1..=superblock.depth;
        levels
            .map(|level| {
                let dense = superblock.logical_end.div_ceil(node::span(level));
                let bitmaps = bitmaps.iter().map(|bitmap| bitmap / node::span(level));
                dense + bitmaps.filter(|&node| node >= dense).collect::<BTreeSet<u64>>().len() as u64
            })
            .sum()
    }

    /// Returns the page table's entry for the object of `level` over `logical`: a data page (0) or a node.
    pub fn entry(&self, level: u8, logical: u64) -> Result<Option<PageEntry>> {
        if level > 0 {
            return self.walk(level, logical);
        }
        let miss = match self.translations.get(logical) {
            Ok(entry) => return Ok(Some(entry)),
            Err(miss) => miss,
        };
        let found = self.walk(0, logical)?;
        if let Some(entry) = found {
            self.translations.fill(&miss, entry);
        }
        Ok(found)
    }

    /// Finds an entry by the page table's nodes.
    pub fn walk(&self, level: u8, logical: u64) -> Result<Option<PageEntry>> {
        let superblock = *self.superblock.lock();
        if superblock.depth == 0 || logical >= node::span(superblock.depth) || level > superblock.depth {
            return Ok(None);
        }
        if level == superblock.depth {
            return Ok(superblock.table.present());
        }
        let Some(node) = self.node(level + 1, node::node_base(level + 1, logical))? else {
            return Ok(None);
        };
        Ok(node::entry(&node, node::slot(level + 1, logical)).present())
    }

    /// Returns a node of the page table as published, if there is one.
    pub fn node(&self, level: u8, base: u64) -> Result<Option<ReadLatch>> {
        let key = PoolKey { level, index: base };
        if let Some(latch) = self.pool.read(key) {
            return Ok(Some(latch));
        }
        loop {
            let pin = self.pool.fetch(key, || match self.entry(level, base)? {
                Some(entry) => Ok(Some(self.mirror.read_page(level, base, entry)?)),
                None => Ok(None),
            })?;
            let Some(pin) = pin else { return Ok(None) };
            match pin.read() {
                Some(latch) => return Ok(Some(latch)),
                // Another thread's load failed: see for ourselves.
                None => continue,
            }
        }
    }

    /// Returns a logical page number that is not in use: one given back, else one that the page table shows unused
    /// (each node is looked through once after opening), else a new one.
    pub fn allocate_logical(&self) -> Result<u64> {
        loop {
            let scan = {
                let mut logical = self.logical.lock();
                if let Some(number) = logical.free.pop() {
                    return Ok(number);
                }
                if logical.scanned >= logical.scan_end {
                    if is_bitmap(logical.end) {
                        logical.end += 1;
                    }
                    logical.end += 1;
                    return Ok(logical.end - 1);
                }
                let base = logical.scanned;
                logical.scanned += node::FANOUT;
                base..(base + node::FANOUT).min(logical.scan_end)
            };
            let node = self.node(1, scan.start)?;
            let is_mapped = |number| {
                node.as_ref().is_some_and(|node| node::entry(node, node::slot(1, number)).present().is_some())
            };
            let found: Vec<u64> =
                scan.rev().filter(|number| !is_bitmap(*number) && !is_mapped(*number)).collect();
            self.logical.lock().free.extend(found);
        }
    }

    pub fn free_logical(&self, number: u64) {
        let mut logical = self.logical.lock();
        // A node still to be looked through will show it.
        if number < logical.scanned || number >= logical.scan_end {
            logical.free.push(number);
        }
    }
}
