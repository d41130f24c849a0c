//! Statistics: how much of a database is in use.

use crate::{
    Csn,
    lock::LockWaits,
    page::PageSize,
    recovery::Recovery,
    store::{Activity, Store},
};

/// How much of a database is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The version of the file's format.
    pub format_version: u32,
    /// The database's identity: random, given when it was created.
    pub identity: u64,
    /// How it recovers.
    pub recovery: Recovery,
    /// Bytes of its log of pages or of commits that a restart would read; none with shadow paging.
    pub log_bytes: u64,
    /// Commit batches since the database was created; with a log of pages, units written to it since it was opened.
    pub batches: u64,
    /// The newest durable commit.
    pub durable_csn: Csn,
    /// The size of the smallest page ([`Options::page_bytes_min`](crate::Options::page_bytes_min)), and of the physical
    /// pages that are counted below.
    pub page_size_min: PageSize,
    /// The length of all files in physical pages.
    pub file_pages: u64,
    /// Of these, pages that the durable state uses.
    pub used_pages: u64,
    /// Segments (runs of 128 physical pages) of the file.
    pub segments: u64,
    /// Of these, segments known to be empty: what was not looked at since opening does not count.
    pub segments_empty: u64,
    /// Physical pages that are kept only for backups under way, and for snapshots older than a large transaction's
    /// commit.
    pub held_pages: u64,
    /// Logical page numbers handed out so far.
    pub logical_pages: u64,
    /// Levels of the page table.
    pub table_depth: u8,
    /// Nodes of the page table, at most: so many as the page numbers handed out need.
    pub table_pages: u64,
    /// Pages in the buffer pool.
    pub pool_frames: usize,
    /// Bytes that these pages take, about.
    pub pool_bytes: usize,
    /// Bytes that they may take, unless more are needed at a time.
    pub pool_bytes_max: usize,
    /// Bytes that old versions take in memory.
    pub version_bytes: usize,
    /// Waits for locks since the database was opened.
    pub lock_waits: LockWaits,
    /// Counts of the work since the database was opened.
    pub activity: Activity,
}

impl Stats {
    /// Returns the figures of a store, without those of a log.
    pub(super) fn new(
        store: &Store,
        recovery: Recovery,
        version_bytes: usize,
        lock_waits: LockWaits,
    ) -> Stats {
        let stats = store.stats();
        Stats {
            format_version: stats.format_version,
            identity: stats.identity,
            recovery,
            log_bytes: 0,
            batches: stats.batch,
            durable_csn: stats.durable_csn,
            page_size_min: stats.unit,
            file_pages: stats.file_pages,
            used_pages: stats.used_pages,
            segments: stats.segments.0,
            segments_empty: stats.segments.1,
            held_pages: stats.held_pages,
            logical_pages: stats.logical_pages,
            table_depth: stats.table_depth,
            table_pages: stats.table_pages,
            pool_frames: stats.pool_frames,
            pool_bytes: stats.pool_bytes.0,
            pool_bytes_max: stats.pool_bytes.1,
            version_bytes,
            lock_waits,
            activity: stats.activity,
        }
    }
}
