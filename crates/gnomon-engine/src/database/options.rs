//! The options of a database.

use std::{path::PathBuf, time::Duration};

#[cfg(test)]
use crate::tests::recovery as recovery_of_tests;
use crate::{
    Error, Result,
    env::{Clock, Rng, processors},
    op::Family,
    procedure::{Execution, Procedure},
    recovery::{Access, Commits, Recovery, Replaying, Setup},
    store::page_wal::LogShape,
    sync::Arc,
};

/// The largest number of threads that replay a log.
const REPLAY_THREADS_MAX: usize = 256;
/// The longest time that commits wait for others.
const GROUP_COMMIT_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// The smallest buffer pool, in bytes.
const POOL_BYTES_MIN: usize = 512 << 10;

/// Options for opening a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// True if the database is made when there is none at the path.
    pub create: bool,
    /// Directories on further disks, over which a database that is made is spread. One that is there knows its own.
    pub disks: Vec<PathBuf>,
    /// True if a database that is made has two copies of each page, on different disks.
    pub mirrored: bool,
    /// Directories on fresh disks, empty or to be made: a mirrored database that loses a disk takes one in its stead.
    pub spares: Vec<PathBuf>,
    /// True if a mirrored database is opened without disks that are missing. They are not used again, for good.
    /// Commits that were made while one of them alone was there are not in it.
    pub degraded: bool,
    /// The buffer pool's size in bytes, at least 512 KiB.
    pub pool_bytes: usize,
    /// Time that a transaction waits for a lock unless it says otherwise; none waits for ever.
    pub lock_timeout: Option<Duration>,
    /// Bytes of memory that the changes and locks of one transaction take, about, before it locks whole trees and
    /// changes pages of its own. These pages take as much again; the rest is on the disk, whatever the transaction's
    /// size. It may be twice as many where the transaction would have to wait for the lock.
    pub escalate_bytes: usize,
    /// Bytes of memory that one transaction may take beside its pages, about ([`Error::TransactionTooLarge`]): more
    /// than twice `escalate_bytes`, for it has to remember where each changed page is (19 bytes for each of 4 KiB,
    /// where neighbours are changed).
    pub write_bytes_max: usize,
    /// Bytes of memory that old versions may take, about. Beyond that, the oldest snapshots that need some are
    /// ended ([`Error::SnapshotTooOld`]).
    pub version_bytes_max: usize,
    /// Number of transactions that may be prepared at a time; none if zero. Those that are there when the database is
    /// opened stay, even if they are more.
    pub prepared_max: usize,
    /// The share of the file that may be in use before it grows, from 0.3 to 0.95. The fuller it is, the more the
    /// cleaner has to move. Small files may be up to 48 MiB longer.
    pub fill_max: f64,
    /// True if the cleaner works: it moves pages, so that there is free space in long runs and the file stays short.
    pub cleaner: bool,
    /// How a new database recovers; none takes a log of what commits write on one disk, and shadow paging on several
    /// and in memory. Of a database that exists another one is refused.
    pub recovery: Option<Recovery>,
    /// The logs of a new database that recovers by some.
    pub logs: LogShape,
    /// The log of pages or of commits may be so many bytes long, about, before its beginning is given up: what opening
    /// reads at most.
    pub log_bytes_max: u64,
    /// A persistence sphere of more pages than this is written in the background.
    pub sphere_pages_max: usize,
    /// The size in bytes of the smallest pages that trees of a new database can have: 512, 1024, 2048 or 4096, which it
    /// is without. Space is given out in such pieces. It never changes: of a database that exists another one is
    /// refused.
    pub page_bytes_min: Option<usize>,
    /// Operations beside those that are built in, for [`Transaction::apply`](crate::Transaction::apply).
    pub operations: Vec<Family>,
    /// Procedures for [`Database::call`](crate::Database::call), among them those that the log has calls of.
    pub procedures: Vec<Procedure>,
    /// How calls of procedures run.
    pub execution: Execution,
    /// When commits are acknowledged.
    pub commits: Commits,
    /// Time that commits wait for others before they are made durable together. Without it they do not wait, and those
    /// that come while others are made durable are together all the same: it helps slow disks and few clients.
    pub group_commit_interval: Duration,
    /// Where calls are logged as whatever is [cheaper](crate::Records::Cheaper): how much a second of replay counts
    /// beside one of logging. Every commit is logged, and few are replayed.
    pub replay_weight: f64,
    /// Number of threads that replay a log of commits; zero stands for as many as there are processors.
    pub replay_threads: usize,
    /// About so many bytes of memory the writes take that are gathered from a log of commits, to be replayed together.
    /// The more they are, the fewer times is a page changed.
    pub replay_bytes_max: usize,
    /// Where random numbers begin; none takes a seed that no other run has. The only ones are the identities of new
    /// databases.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            create: true,
            disks: Vec::new(),
            mirrored: false,
            spares: Vec::new(),
            degraded: false,
            pool_bytes: 64 << 20,
            lock_timeout: None,
            escalate_bytes: 16 << 20,
            write_bytes_max: 256 << 20,
            version_bytes_max: 256 << 20,
            fill_max: 0.7,
            cleaner: true,
            prepared_max: 64,
            recovery: None,
            logs: LogShape::default(),
            log_bytes_max: 64 << 20,
            sphere_pages_max: 1024,
            page_bytes_min: None,
            operations: Vec::new(),
            procedures: Vec::new(),
            execution: Execution::default(),
            commits: Commits::default(),
            group_commit_interval: Duration::ZERO,
            replay_weight: 0.01,
            replay_threads: 0,
            replay_bytes_max: 64 << 20,
            seed: None,
        }
    }
}

/// Returns no method: this is no test.
#[cfg(not(test))]
fn recovery_of_tests() -> Option<Recovery> {
    None
}

impl Options {
    /// Checks the options that do not depend on the database.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(super) fn check(&self) -> Result<()> {
        if self.pool_bytes < POOL_BYTES_MIN {
            return Err(Error::BadOption(format!(
                "a buffer pool of {} bytes is too small: give it at least {POOL_BYTES_MIN}",
                self.pool_bytes
            )));
        }
        if !(0.3..=0.95).contains(&self.fill_max) {
            let detail = format!("fill_max is {}: give it a share from 0.3 to 0.95", self.fill_max);
            return Err(Error::BadOption(detail));
        }
        if self.group_commit_interval > GROUP_COMMIT_INTERVAL_MAX {
            return Err(Error::BadOption(format!(
                "group_commit_interval is {:?}: give it {GROUP_COMMIT_INTERVAL_MAX:?} at most",
                self.group_commit_interval
            )));
        }
        Ok(())
    }

    /// Returns what a recovery method needs of them.
    pub(super) fn setup<'a>(&self, access: Access, clock: &'a Arc<dyn Clock>) -> Setup<'a> {
        let mut rng = self.seed.map_or_else(Rng::from_entropy, Rng::from_seed);
        Setup {
            access,
            create: self.create.then(|| rng.next_u64()),
            recovery: self.recovery,
            recovery_of_new: self.recovery_of_new(),
            has_spares: !self.spares.is_empty(),
            degraded: self.degraded,
            pool_bytes: self.pool_bytes,
            fill_max: self.fill_max,
            page_bytes_min: self.page_bytes_min,
            logs: self.logs,
            log_bytes_max: self.log_bytes_max,
            sphere_pages_max: self.sphere_pages_max,
            commits: self.commits,
            group_commit_interval: self.group_commit_interval,
            replay: Replaying {
                weight: self.replay_weight,
                threads: self.replay_threads(),
                bytes_max: self.replay_bytes_max,
            },
            clock,
        }
    }

    /// Returns the method that is asked for, for a new database. Tests that ask for none can be run under each.
    pub(super) fn recovery_of_new(&self) -> Option<Recovery> {
        self.recovery.or_else(recovery_of_tests)
    }

    /// Returns the number of threads that replay a log.
    pub(super) fn replay_threads(&self) -> usize {
        match self.replay_threads {
            0 => processors(),
            threads => threads.min(REPLAY_THREADS_MAX),
        }
    }
}
