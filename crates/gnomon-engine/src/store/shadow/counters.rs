//! Counters of the work that a store did since it was opened.
//!
//! Promises: counting costs an addition without order; each number alone is exact, several of them read while others
//! write need not belong to the same moment. When there are no writes, the bytes written are those of the pages
//! written, of every kind.
//!
//! Bytes and syncs are counted where they pass, in a [`File`] around the real one ([`Counted`]); pages are counted by
//! kind where they are written. What opening writes before the store exists is not counted.

use std::io;

use super::page_table::place::SUPERBLOCK_PAGES;
use crate::{
    disk::File,
    page::PAGE_BYTES,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Counts of the work that a database did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Number of accesses to data pages through the buffer pool.
    pub page_accesses: u64,
    /// Translations of logical to physical pages that the translation cache served.
    pub translation_hits: u64,
    /// Those that needed the page table.
    pub translation_misses: u64,
    /// Commit batches written.
    pub batches: u64,
    /// Number of syncs of the disks.
    pub syncs: u64,
    /// Bytes written to the disk: all pages below, of whichever sizes.
    pub bytes_written: u64,
    /// Data pages written with their batch.
    pub data_pages: u64,
    /// Data pages written before their batch was closed, for want of memory.
    pub early_pages: u64,
    /// Data pages that the cleaner or a repair copied elsewhere.
    pub moved_pages: u64,
    /// Of the data pages that batches and early flushes wrote, inner nodes of trees.
    pub inner_pages: u64,
    /// Nodes of the page table written.
    pub table_pages: u64,
    /// Bitmaps of space written.
    pub bitmap_pages: u64,
    /// Copies of the superblock written.
    pub root_pages: u64,
    /// Physical pages of zeros written where the file grew, and over torn ones.
    pub zeroed_pages: u64,
    /// Bytes of the keys and values that committed transactions changed.
    pub bytes_changed: u64,
    /// Bytes read from the disk, by the buffer pool, the cleaner and others.
    pub bytes_read: u64,
    /// Number of times that the log of commits or of pages was made durable, if there is one; not among `syncs`.
    pub log_forces: u64,
    /// Bytes written to it, in all of its files; not among `bytes_written`.
    pub log_bytes_written: u64,
}

impl Activity {
    /// Returns the work done since `before`, which was taken of the same open database.
    pub fn since(&self, before: &Activity) -> Activity {
        Activity {
            page_accesses: self.page_accesses - before.page_accesses,
            translation_hits: self.translation_hits - before.translation_hits,
            translation_misses: self.translation_misses - before.translation_misses,
            batches: self.batches - before.batches,
            syncs: self.syncs - before.syncs,
            bytes_written: self.bytes_written - before.bytes_written,
            data_pages: self.data_pages - before.data_pages,
            early_pages: self.early_pages - before.early_pages,
            moved_pages: self.moved_pages - before.moved_pages,
            inner_pages: self.inner_pages - before.inner_pages,
            table_pages: self.table_pages - before.table_pages,
            bitmap_pages: self.bitmap_pages - before.bitmap_pages,
            root_pages: self.root_pages - before.root_pages,
            zeroed_pages: self.zeroed_pages - before.zeroed_pages,
            bytes_changed: self.bytes_changed - before.bytes_changed,
            bytes_read: self.bytes_read - before.bytes_read,
            log_forces: self.log_forces - before.log_forces,
            log_bytes_written: self.log_bytes_written - before.log_bytes_written,
        }
    }

    /// Returns the number of pages written, of every kind.
    pub fn pages_written(&self) -> u64 {
        self.data_pages
            + self.early_pages
            + self.moved_pages
            + self.table_pages
            + self.bitmap_pages
            + self.root_pages
            + self.zeroed_pages
    }

    /// Returns the bytes written for each byte changed; none if nothing was changed.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.bytes_changed > 0).then(|| self.bytes_written as f64 / self.bytes_changed as f64)
    }

    /// Returns the share of translations that the translation cache served; none if there was no translation.
    pub fn translation_hit_rate(&self) -> Option<f64> {
        let all = self.translation_hits + self.translation_misses;
        (all > 0).then(|| self.translation_hits as f64 / all as f64)
    }
}

/// A number that only grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a store; [`Activity`] says what they mean.
#[derive(Default)]
pub struct Counters {
    pub batches: Counter,
    pub syncs: Counter,
    pub bytes_written: Counter,
    pub data_pages: Counter,
    pub early_pages: Counter,
    pub inner_pages: Counter,
    pub table_pages: Counter,
    pub bitmap_pages: Counter,
    pub root_pages: Counter,
    pub zeroed_pages: Counter,
    pub bytes_changed: Counter,
    pub bytes_read: Counter,
    pub moved_pages: Counter,
}

impl Counters {
    /// Returns the numbers as they are now, with those of the buffer pool and of the translation cache.
    pub fn activity(&self, page_accesses: u64, translations: (u64, u64)) -> Activity {
        let (translation_hits, translation_misses) = translations;
        Activity {
            page_accesses,
            translation_hits,
            translation_misses,
            batches: self.batches.get(),
            syncs: self.syncs.get(),
            bytes_written: self.bytes_written.get(),
            data_pages: self.data_pages.get(),
            early_pages: self.early_pages.get(),
            moved_pages: self.moved_pages.get(),
            inner_pages: self.inner_pages.get(),
            table_pages: self.table_pages.get(),
            bitmap_pages: self.bitmap_pages.get(),
            root_pages: self.root_pages.get(),
            zeroed_pages: self.zeroed_pages.get(),
            bytes_changed: self.bytes_changed.get(),
            bytes_read: self.bytes_read.get(),
            log_forces: 0,
            log_bytes_written: 0,
        }
    }
}

/// A file whose reads, writes and syncs are counted, and its superblock pages, which are known by where they are.
pub(super) struct Counted {
    pub file: Arc<dyn File>,
    pub counters: Arc<Counters>,
}

impl File for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.counters.bytes_read.add(buf.len() as u64);
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<()> {
        self.counters.bytes_written.add(buf.len() as u64);
        if offset < SUPERBLOCK_PAGES * PAGE_BYTES as u64 {
            self.counters.root_pages.add((buf.len() / PAGE_BYTES) as u64);
        }
        self.file.write_at(offset, buf)
    }

    fn sync(&self) -> io::Result<()> {
        self.counters.syncs.add(1);
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use crate::store::GroupCommit;
    use crate::{
        disk::MemDisk,
        page::{BODY_BYTES, PageKind},
        store::{PageGuard, PageWrite, shadow::ShadowStore},
    };

    #[test]
    fn bytes_written_are_those_of_the_pages_of_every_kind() {
        let store = ShadowStore::open(&MemDisk::new(), Some(7), 1 << 20, false).unwrap();
        store.batcher.set_dirty_bytes_max(32 * 4096);
        let before = store.stats().activity;
        assert_eq!((before.pages_written(), before.syncs, before.batches), (0, 0, 0));
        let mut ids = Vec::new();
        for _ in 0..3 {
            let pages = store.begin(100).unwrap();
            for _ in 0..100 {
                let mut page = pages.allocate(PageKind::TreeLeaf, crate::PageSize::DEFAULT).unwrap();
                page.body_mut()[BODY_BYTES - 1] = 1;
                ids.push(page.id());
            }
            drop(pages);
            store.flush().unwrap();
        }
        store.repairer.mend_some(0).unwrap();
        store.close().unwrap();
        let after = store.stats().activity;
        assert_eq!(after.bytes_written, after.pages_written() * 4096);
        assert!(after.early_pages >= 100, "a smaller pool flushes early: {after:?}");
        assert_eq!(after.data_pages + after.early_pages, 300, "{after:?}");
        assert!(after.batches == 3 && after.bitmap_pages == 3 && after.table_pages >= 3, "{after:?}");
        // Three batches, closing, and the first write of the run.
        assert!(after.root_pages >= 8 && after.syncs >= 4 && after.zeroed_pages > 0, "{after:?}");
        // 300 pages of one node, and the bitmap.
        assert_eq!(store.stats().table_pages, 3);
        let now = store.stats().activity;
        assert_eq!(now.since(&now).pages_written(), 0);
    }
}
