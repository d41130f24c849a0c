//! Options, in groups: change what differs from the default in the closures that [`Builder`](crate::Builder),
//! [`Database::begin_with`](crate::Database::begin_with) and
//! [`Transaction::create_tree`](crate::Transaction::create_tree) take.
//!
//! An option that a database or a call cannot honour is refused ([`Error::BadOption`](crate::Error)), never ignored.

use std::{path::PathBuf, time::Duration};

#[doc(inline)]
pub use gnomon_engine::{AccessSet, Execution, PageSize, Partitions, Placement, Records, Strategy};

use crate::{Isolation, Recovery};

/// Where a database is, and how it uses its files.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// True if the database is made when there is none at the path.
    pub create: bool,
    /// Directories on further disks, over which a database that is made is spread.
    pub disks: Vec<PathBuf>,
    /// True if a database that is made has two copies of each page, on different disks.
    pub mirrored: bool,
    /// Directories on fresh disks: a mirrored database that loses a disk takes one in its stead.
    pub spares: Vec<PathBuf>,
    /// True if a mirrored database is opened without disks that are missing, for good.
    pub degraded: bool,
    /// The size in bytes of the smallest pages that trees of a new database can have: 512, 1024, 2048 or 4096, which
    /// it is without.
    pub page_bytes_min: Option<usize>,
    /// The share of the file that may be in use before it grows, from 0.3 to 0.95.
    pub fill_max: f64,
    /// True if a background thread moves pages, so that the file stays short.
    pub cleaner: bool,
}

/// Limits of memory, in bytes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The size of the buffer pool, at least 512 KiB.
    pub pool_bytes: usize,
    /// The changes and locks of one transaction, before it locks whole trees and changes pages of its own.
    pub escalate_bytes: usize,
    /// All that one transaction may take beside its pages ([`Error::TransactionTooLarge`](crate::Error)).
    pub write_bytes_max: usize,
    /// Old versions, before the oldest snapshots are ended ([`Error::SnapshotTooOld`](crate::Error)).
    pub version_bytes_max: usize,
}

/// The logs of a database that recovers by some. With none a field is left to the database.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Log {
    /// The length of the log, about, before its beginning is given up: what opening reads at most.
    pub bytes_max: Option<u64>,
    /// Number of threads that replay a log of commits.
    pub replay_threads: Option<usize>,
    /// Bytes of memory that writes take which are replayed together from a log of commits.
    pub replay_bytes_max: Option<usize>,
    /// The weight of a second of replay beside one of logging, where the cheaper record is logged
    /// ([`Records::Cheaper`]).
    pub replay_weight: Option<f64>,
    /// A persistence sphere of a log of pages that is larger is written in the background.
    pub sphere_pages_max: Option<usize>,
}

/// The options of a transaction.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    /// Which commits of others it sees: SERIALIZABLE unless changed. Under READ COMMITTED each call sees what was
    /// committed when it began.
    pub isolation: Isolation,
    /// The longest wait for a lock; none takes the database's. Zero fails instead of waiting.
    pub lock_timeout: Option<Duration>,
}

/// The options of a new tree.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeOptions {
    /// The size of its pages. A key has at most a quarter of a page, and 1024 bytes.
    pub page_size: PageSize,
    /// The partition that it is in, where procedures run serially ([`Execution::Serial`]).
    pub placement: Placement,
}

impl Default for Storage {
    fn default() -> Storage {
        let engine = gnomon_engine::Options::default();
        Storage {
            create: engine.create,
            disks: engine.disks,
            mirrored: engine.mirrored,
            spares: engine.spares,
            degraded: engine.degraded,
            page_bytes_min: engine.page_bytes_min,
            fill_max: engine.fill_max,
            cleaner: engine.cleaner,
        }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        let engine = gnomon_engine::Options::default();
        Memory {
            pool_bytes: engine.pool_bytes,
            escalate_bytes: engine.escalate_bytes,
            write_bytes_max: engine.write_bytes_max,
            version_bytes_max: engine.version_bytes_max,
        }
    }
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions { isolation: Isolation::Serializable, lock_timeout: None }
    }
}

impl Log {
    /// Returns an option that a database which recovers so has no use for.
    pub(crate) fn unused(&self, recovery: Recovery) -> Option<&'static str> {
        let (commits, pages) = (recovery.records().is_some(), !recovery.has_page_table());
        let unused = [
            (self.bytes_max.is_some() && !commits && !pages, "bytes_max"),
            (self.replay_threads.is_some() && !commits, "replay_threads"),
            (self.replay_bytes_max.is_some() && !commits, "replay_bytes_max"),
            (self.replay_weight.is_some() && recovery.records() != Some(Records::Cheaper), "replay_weight"),
            (self.sphere_pages_max.is_some() && !pages, "sphere_pages_max"),
        ];
        unused.into_iter().find_map(|(unused, name)| unused.then_some(name))
    }
}

impl Storage {
    /// Returns an option that a database which recovers so has no use for.
    pub(crate) fn unused(&self, recovery: Recovery) -> Option<&'static str> {
        let (pages, default) = (!recovery.has_page_table(), Storage::default());
        let unused =
            [(self.fill_max != default.fill_max, "fill_max"), (self.cleaner != default.cleaner, "cleaner")];
        unused.into_iter().find_map(|(changed, name)| (changed && pages).then_some(name))
    }
}
