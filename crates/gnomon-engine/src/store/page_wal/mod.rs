//! The logged store: pages in place, after-images in a sequential log, and undo by operations (Hasse and Weikum: A
//! Performance Evaluation of Multi-Level Transaction Management, 1991, section 2; the log of pages after Elhardt and
//! Bayer's DB Cache, 1984).
//!
//! Two levels of transactions use it. At level 0, a *subtransaction* ([`subtxn`]) changes pages, under page locks; it
//! ends (EOS) or never was. At level 1, a transaction is made of subtransactions and ends by a commit (EOT) or is
//! undone by compensating subtransactions, which level 1 makes from the undo records that it has given along with each
//! subtransaction. There are three strategies ([`Strategy`]):
//!
//! - *single-level*: one subtransaction is the whole transaction. Its pages reach the log when it commits, in one unit;
//!   nothing is ever undone from the log.
//! - *two-level*: every subtransaction is forced to the log when it ends, its undo record first.
//! - *two-level-deferred*: what has ended stays in memory, in persistence spheres ([`sphere`]), until a transaction
//!   commits that has something in them.
//!
//! # Where a page is
//!
//! 1. *Active*: an incomplete subtransaction has changed it. Its frame in the pool has the new image, the
//!    subtransaction the one from before (no-steal).
//! 2. *In a sphere*: subtransactions that have ended changed it; the sphere has the image of that moment.
//! 3. *Logged*: a unit of the log has it. When the log is durable up to there, it may be written to its place.
//! 4. *Placed*: it was written to its place, which is not known to be durable.
//! 5. *Clean*: the file has it, and no unit of the log is needed for it.
//!
//! A page may be in several of these states with different images; its frame is `dirty`, and stays in the pool, while
//! it is in one of the first three.
//!
//! # Promises
//!
//! - What a unit of the log holds is made of whole subtransactions, and a unit is in the log as a whole or not at all.
//! - The undo record of a subtransaction is durable before a unit holds what it did, unless that unit commits it too.
//! - A page is written to its place only when the unit that has it is durable, and that unit is needed until the place
//!   is durable.
//! - Commits are durable in the order of their CSNs.
//! - A failure to write the log or a page stops the store. On a full disk a transaction fails, and
//!   room that was reserved serves to take it back.
//!
//! # Crash recovery
//!
//! The redo pass ([`open`]) reads the log forward and writes the newest image of each page to its place. The undo pass
//! is level 1's: it is given the [`Loser`]s, compensates them by subtransactions of their own, newest first, and those
//! leave records of what they undid. So a crash in the course of it is one more crash: what was compensated durably is
//! not compensated again, since a subtransaction's number tells whether it is in the log.
//!
//! # Keeping the log short
//!
//! By checkpoints of a part of the pages ([`checkpoint`]): when the log is longer than it should be, the pages that its
//! beginning is needed for are written to their places, and then its first segments are used again. Running
//! transactions go on meanwhile.
//!
//! # Parts
//!
//! [`places`] is the file of pages, [`logs`] the files of the logs. [`log`], the page log, has both, the buffer pool and
//! the state of pages and transactions; it writes units ([`unit`]) and checkpoints ([`checkpoint`]), and
//! keeps room to take transactions back ([`reserve`]). [`LoggedStore`] has subtransactions over it ([`subtxn`],
//! [`trees`]), with the locks on pages.
//!
//! # Order of mutexes
//!
//! Page locks are waited for without any latch or mutex. `closed` (shared, but to close; tried after a latch by light
//! subtransactions); frame latches, of which these keep one between changes of trees; `placing`,
//! `growing`, `root` (over I/O); `state`; pool shards and logs are leaves.

mod checkpoint;
mod log;
mod logs;
mod open;
mod places;
mod record;
mod reserve;
mod root;
#[cfg(all(test, shuttle))]
mod schedules;
mod space;
mod sphere;
mod subtxn;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod trees;
mod unit;

use self::{log::PageLog, root::PAGES_AT};
use super::{Durability, GroupCommit, PageRead, StoreStats, shadow::Activity};
use crate::{
    Csn, Error, PageId, Result, TxnId,
    env::Clock,
    failpoint::Failpoints,
    id::SubtxnId,
    lock::{LevelWaits, LockName, LockOwner, Mode, TableId, WaitCounter, WaitOptions},
    page::{
        PageSize,
        pool::{PoolKey, ReadLatch},
    },
    sync::{Arc, RwLock, RwLockReadGuard, atomic::Ordering},
};

pub use open::{Loser, Opening};
pub use root::LOG_FILES_MAX;
pub use subtxn::{PageAccess, Subtxn};
pub use trees::{TreeAccess, TreeSubtxn};

/// The file of pages.
pub const FILE: &str = "logged-pages";

/// At which levels transactions lock and recover, and when the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Pages are locked until the transaction ends; its pages are forced to the log then (S1).
    SingleLevel,
    /// Pages are locked until an operation ends; its undo record and its pages are forced to the logs then (S2).
    TwoLevel,
    /// As two-level; the pages are forced when the transaction ends, with all that they cannot be without (S2/PS).
    #[default]
    TwoLevelDeferred,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 3] = [Strategy::SingleLevel, Strategy::TwoLevel, Strategy::TwoLevelDeferred];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::SingleLevel => "single-level",
            Strategy::TwoLevel => "two-level",
            Strategy::TwoLevelDeferred => "two-level-deferred",
        }
    }

    fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.code() == code)
    }
}

/// The files of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Number of files over which the log of pages is spread, by page number: they are written and replayed in
    /// parallel. At most 16.
    pub redo_files: usize,
    /// True if undo records stand in the (first file of the) log of pages, instead of a log of their own.
    pub shared: bool,
    /// The size of a segment of a log in bytes, a multiple of 4096.
    pub segment_bytes: u64,
}

impl Default for LogShape {
    fn default() -> LogShape {
        LogShape { redo_files: 1, shared: true, segment_bytes: 4 << 20 }
    }
}

/// The kinds of data that level 1 keeps in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Trees of keys.
    Trees = 1,
    /// Complex objects.
    Objects = 2,
}

/// The undo of a subtransaction, as level 1 sees it.
#[derive(Clone, Copy, Debug)]
pub enum Undo<'a> {
    /// Nothing needs to: there is one level only, or others cannot see it.
    Nothing,
    /// An operation that level 1 makes of these bytes.
    Operation(&'a [u8]),
    /// It is itself what takes other subtransactions back.
    Compensates(&'a [SubtxnId]),
}

/// A store of pages that are written in place behind a log.
pub struct LoggedStore {
    log: PageLog,
    locks: PageLocks,
    /// True if it was closed. Held shared while a subtransaction or a transaction ends.
    closed: RwLock<bool>,
    /// Faults that tests have turned on.
    pub failpoints: Failpoints,
}

/// The locks on pages, of which the lock manager is the owner's.
struct PageLocks {
    table: TableId,
    waits: WaitCounter,
    clock: Arc<dyn Clock>,
}

impl PageLocks {
    fn lock(&self, owner: &mut LockOwner, page: PageId, mode: Mode, wait: &WaitOptions<'_>) -> Result<()> {
        self.waits.lock(owner, LockName::whole(self.table, page.0), mode, wait, &*self.clock)
    }
}

/// Limits for the dirty pages, the log and the spheres of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that changed pages may take before some are written to their places.
    pub dirty_bytes_max: usize,
    /// Bytes that the log of pages may have, about, before its beginning is given up.
    pub log_bytes_max: u64,
    /// A sphere of more pages than this is written in the background.
    pub sphere_pages_max: usize,
}

/// Counts of writes since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoggedActivity {
    /// Forces of the log of pages, and bytes written by them. With several files, of all together.
    pub redo_forces: u64,
    /// Bytes that these wrote.
    pub redo_bytes: u64,
    /// Forces of the log of operations; none if it has no file of its own.
    pub ops_forces: u64,
    /// Bytes that these wrote.
    pub ops_bytes: u64,
    /// Units: persistence spheres that were written, or several at a time.
    pub units: u64,
    /// Pages in all units.
    pub unit_pages: u64,
    /// Pages in the largest of them.
    pub unit_pages_max: u64,
    /// Pages written to their places.
    pub placed_pages: u64,
    /// Bytes that these have.
    pub placed_bytes: u64,
    /// Syncs of the file of pages, before the beginning of the log was given up.
    pub place_syncs: u64,
}

impl LoggedStore {
    /// The first page that a new store allocates: where the owner of the store finds what it keeps.
    pub fn first_page(&self) -> PageId {
        PageId(self.log.state.lock().space.units_of(space::MAP_SIZE))
    }

    /// True if nothing was ever written to it.
    pub fn is_new(&self) -> bool {
        self.log.state.lock().next_unit == 1
    }

    /// The size of the smallest pages.
    pub fn unit(&self) -> PageSize {
        self.log.places.unit
    }

    /// The strategy that it was made with.
    pub fn strategy(&self) -> Strategy {
        self.log.strategy
    }

    /// Where a page is: the name of the file, and which of its physical pages.
    pub fn place_of(&self, page: PageId) -> (String, u64) {
        (FILE.into(), page.0 + PAGES_AT / self.log.places.unit.bytes() as u64)
    }

    /// Returns a number for a transaction, which no other and no subtransaction has had before.
    pub fn new_id(&self) -> TxnId {
        TxnId(self.log.new_id())
    }

    /// Reads an undo record of a loser.
    ///
    /// # Errors
    /// Of reading the log.
    pub fn undo_record(&self, loser: &Loser, index: usize) -> Result<Vec<u8>> {
        self.log.undo_record(loser, index)
    }

    /// True if a sphere has become so large that it should be written ([`LoggedStore::write_large_spheres`]).
    pub fn has_large_sphere(&self) -> bool {
        self.log.has_large_sphere()
    }

    /// Writes spheres that have grown large, which would keep a commit waiting.
    pub fn write_large_spheres(&self) -> Result<()> {
        self.log.write_large_spheres()
    }

    /// Returns the length of the log of pages in bytes, which a crash recovery would read.
    pub fn log_bytes(&self) -> u64 {
        self.log.log_bytes()
    }

    /// Returns the counts of writes since the store was opened.
    pub fn log_activity(&self) -> LoggedActivity {
        self.log.activity()
    }

    /// True if it was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.log.commits.is_read_only()
    }

    /// The physical pages that pages in use have, by the number of a page that begins there, but for maps of these.
    pub fn units_in_use(&self) -> Vec<PageId> {
        self.log.state.lock().space.all_in_use().map(PageId).collect()
    }

    /// Commits a transaction all of whose subtransactions have ended (EOT): takes its CSN. It is durable when that is
    /// ([`GroupCommit::wait_durable`]).
    pub fn commit(&self, txn: TxnId) -> Result<Csn> {
        let _open = self.stay_open()?;
        Ok(self.log.commit_in(&mut self.log.state.lock(), txn))
    }

    /// Takes a CSN for the changes that a running transaction has taken back. It is in the log when a later commit
    /// is, so that no transaction builds on the keys before.
    pub fn order_undone(&self, txn: TxnId) -> Result<Csn> {
        let _open = self.stay_open()?;
        Ok(self.log.order_in(&mut self.log.state.lock(), txn, false))
    }

    /// Keeps the store from being closed for a moment.
    fn stay_open(&self) -> Result<RwLockReadGuard<'_, bool>> {
        self.log.commits.check()?;
        let closed = self.closed.read();
        if *closed { Err(Error::Closed) } else { Ok(closed) }
    }

    /// Ends a transaction that level 1 has undone, or that has done nothing.
    pub fn end_undone(&self, txn: TxnId) {
        let mut state = self.log.state.lock();
        if let Some(known) = state.txns.get_mut(&txn) {
            known.ended = Some(None);
            known.reserve = reserve::Reserve::default();
        }
        self.log.forget_ended(&mut state);
    }

    /// Returns the waits for locks on pages.
    pub fn page_waits(&self) -> LevelWaits {
        self.locks.waits.read()
    }

    /// Notes that a transaction changed so many bytes of keys and values.
    pub fn note_changed(&self, bytes: usize) {
        self.log.counters.changed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns how much of it is in use.
    pub fn stats(&self) -> StoreStats {
        let unit = self.log.places.unit.bytes() as u64;
        let (units, in_use) = {
            let state = self.log.state.lock();
            (state.space.end(), state.space.in_use())
        };
        let activity = self.log.activity();
        StoreStats {
            format_version: root::FORMAT_VERSION,
            identity: self.log.places.database(),
            batch: activity.units,
            durable_csn: self.durable_csn(),
            unit: self.log.places.unit,
            file_pages: units + PAGES_AT / unit,
            used_pages: in_use,
            held_pages: 0,
            segments: (0, 0),
            logical_pages: units,
            table_depth: 0,
            table_pages: 0,
            pool_frames: self.log.pool.len(),
            pool_bytes: (self.log.pool.bytes(), self.log.pool.capacity()),
            activity: Activity {
                page_accesses: self.log.pool.data_fetches(),
                batches: activity.units,
                syncs: activity.place_syncs,
                bytes_written: activity.placed_bytes,
                data_pages: activity.placed_pages,
                log_forces: activity.redo_forces + activity.ops_forces,
                log_bytes_written: activity.redo_bytes + activity.ops_bytes,
                bytes_changed: self.log.counters.changed_bytes.load(Ordering::Relaxed),
                ..Activity::default()
            },
        }
    }

    /// Makes everything durable and the log empty; on a full disk the log stays as it is. Nothing can be ended or
    /// committed any more; what transactions that are running have done is undone when the store is opened again.
    pub fn close(&self) -> Result<()> {
        self.log.commits.check()?;
        *self.closed.write() = true;
        self.flush()?;
        let all = self.log.state.lock().spheres.all();
        self.log.write_spheres(all)?;
        match self.log.give_up_log(u64::MAX) {
            // Everything is durable: the next opening reads the log, as after a crash.
            Err(Error::DiskFull) => Ok(()),
            given_up => given_up,
        }
    }
}

impl PageRead for LoggedStore {
    type ReadGuard = ReadLatch;

    /// Reads a page under a latch, whichever transaction has locked it.
    fn read(&self, id: PageId) -> Result<ReadLatch> {
        self.log.commits.check()?;
        if let Some(latch) = self.log.pool.read(PoolKey { level: 0, index: id.0 }) {
            return Ok(latch);
        }
        loop {
            if let Some(latch) = self.log.data(id)?.read() {
                return Ok(latch);
            }
        }
    }
}

impl GroupCommit for LoggedStore {
    fn durability(&self) -> &Durability {
        self.log.commits.durability()
    }

    fn last_csn(&self) -> Csn {
        self.log.commits.last_csn()
    }

    fn check(&self) -> Result<()> {
        self.log.commits.check()
    }

    fn poison(&self, cause: &Error) -> Error {
        self.log.commits.poison(cause)
    }

    fn write_batch(&self) -> Result<Csn> {
        self.log.commits.check()?;
        let durable = self.log.write_commits().map_err(|error| self.log.commits.poison(&error))?;
        match self.log.shorten_log() {
            // The commits are durable; the log stays as long as it is.
            Ok(()) | Err(Error::DiskFull) => Ok(durable),
            Err(error) => Err(error),
        }
    }
}
