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
//! - A failure to write the log or a page stops the store.
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
//! Without checkpoints ([`place`]): when the log is longer than it should be, the pages that its beginning is needed
//! for are written to their places, and then its first segments are used again. Running transactions go on meanwhile.
//!
//! # Order of mutexes
//!
//! Page locks are waited for without any latch or mutex. `closed` (shared, but to close; tried after a latch by light
//! subtransactions); frame latches, of which these keep one between changes of trees; `placing`,
//! `growing`, `root` (over I/O); `state`; pool shards and logs are leaves.

mod open;
mod place;
mod record;
mod root;
#[cfg(all(test, shuttle))]
mod schedules;
mod space;
mod sphere;
mod subtxn;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod trees;
mod unit;

use std::collections::{BTreeSet, HashMap, VecDeque};

use self::{
    root::{PAGES_AT, Reaches, Root},
    space::Space,
    sphere::Spheres,
};
use super::{Durability, GroupCommit, PageRead, StoreStats, check_page_size, read_twice, shadow::Activity};
use crate::{
    Csn, Error, PageId, Result, TxnId,
    disk::File,
    env::Clock,
    failpoint::Failpoints,
    id::{Lsn, SubtxnId},
    lock::{LevelWaits, TableId, WaitCounter},
    page::{
        Identity, Page, PageSize,
        pool::{Pin, Pool, PoolKey, ReadLatch},
    },
    sync::{
        Arc, Mutex, OnceLock, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
    wal::Log,
};

pub use open::{Loser, Opening};
pub use root::LOG_FILES_MAX;
pub use subtxn::{PageAccess, Subtxn};
#[cfg(all(test, not(shuttle)))]
pub(crate) use tests::{LogEntry, log_entries};
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
    file: Arc<dyn File>,
    /// The log of pages, in one or several files.
    redo: Vec<Log>,
    /// The log of operations, if it is one of its own.
    ops: Option<Log>,
    unit: PageSize,
    read_only: bool,
    strategy: Strategy,
    database: u64,
    page_locks: TableId,
    page_waits: WaitCounter,
    clock: Arc<dyn Clock>,
    pool: Pool,
    state: Mutex<State>,
    /// True if it was closed. Held shared while a subtransaction or a transaction ends.
    closed: RwLock<bool>,
    /// Writing pages to their places; held over I/O.
    placing: Mutex<()>,
    /// Growing the file; held over I/O.
    growing: Mutex<()>,
    root: Mutex<Root>,
    /// The log is not shortened before it is longer than this, in bytes.
    shorten_beyond: AtomicU64,
    next_id: AtomicU64,
    last_csn: AtomicU64,
    durability: Durability,
    poison: OnceLock<Arc<str>>,
    limits: Limits,
    counters: Counters,
    pub(crate) failpoints: Failpoints,
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

#[derive(Default)]
struct Counters {
    units: AtomicU64,
    unit_pages: AtomicU64,
    unit_pages_max: AtomicU64,
    placed_pages: AtomicU64,
    placed_bytes: AtomicU64,
    place_syncs: AtomicU64,
    changed_bytes: AtomicU64,
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

struct State {
    spheres: Spheres,
    /// Pages that incomplete subtransactions have changed.
    active: HashMap<u64, SubtxnId>,
    /// Pages that are in the log and not in their places: the newest unit that has them, and the image.
    logged: HashMap<u64, Logged>,
    /// The same by age.
    by_age: BTreeSet<(u64, u64)>,
    logged_bytes: usize,
    /// Pages whose places are not known to be durable: the unit that has them.
    placed: HashMap<u64, u64>,
    /// Units, and the oldest one that is needed in case that they do not become durable: they have a newer image of a
    /// page that it has, too.
    superseded: VecDeque<(u64, u64)>,
    /// Where units begin in the files of the log, for those that are needed.
    units: VecDeque<UnitStart>,
    next_unit: u64,
    /// Every unit before this one is durable.
    forced_unit: u64,
    /// The newest commit that is in a log, durable or not.
    logged_csn: Csn,
    /// Commits that are in no unit yet, in their order.
    committed: Vec<Ordered>,
    txns: HashMap<TxnId, TxnState>,
    space: Space,
}

/// A commit, or the CSN of what a transaction has taken back.
#[derive(Clone, Copy)]
struct Ordered {
    txn: TxnId,
    csn: Csn,
    commits: bool,
}

impl Ordered {
    /// As the log has it.
    fn logged(self) -> (TxnId, Csn) {
        (if self.commits { self.txn } else { NOBODY }, self.csn)
    }
}

/// No transaction has this number.
const NOBODY: TxnId = TxnId(0);

struct Logged {
    unit: u64,
    image: Page,
}

#[derive(Clone)]
struct UnitStart {
    unit: u64,
    at: Vec<Lsn>,
    /// The newest commit before it.
    csn: Csn,
}

/// The state of a transaction that has ended subtransactions.
#[derive(Default)]
struct TxnState {
    /// Its first undo record.
    first_undo: Option<Lsn>,
    /// Number of subtransactions that have ended and are in no unit.
    unwritten: usize,
    /// Those that are in a unit, with the unit, as long as that is needed.
    written: Vec<(u64, SubtxnId)>,
    last_unit: u64,
    /// Set when it has ended: its CSN if it committed, none if it was undone.
    ended: Option<Option<Csn>>,
}

impl TxnState {
    /// A subtransaction of it has ended; its undo record is there.
    fn note_end(&mut self, undo: Option<Lsn>) {
        self.unwritten += 1;
        self.first_undo = self.first_undo.or(undo);
    }
}

impl State {
    /// True if a page is in use.
    fn has_page(&self, page: u64) -> bool {
        self.space.is_taken(page) && !self.spheres.has_freed(page)
    }
}

impl LoggedStore {
    /// The first page that a new store allocates: where the owner of the store finds what it keeps.
    pub fn first_page(&self) -> PageId {
        PageId(self.state.lock().space.units_of(space::MAP_SIZE))
    }

    /// True if nothing was ever written to it.
    pub fn is_new(&self) -> bool {
        self.state.lock().next_unit == 1
    }

    /// The size of the smallest pages.
    pub fn unit(&self) -> PageSize {
        self.unit
    }

    /// The strategy that it was made with.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// A number for a transaction or a subtransaction, that none has had before.
    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The log of operations.
    fn ops(&self) -> &Log {
        self.ops.as_ref().unwrap_or(&self.redo[0])
    }

    fn writes_at_eos(&self) -> bool {
        self.strategy == Strategy::TwoLevel
    }

    fn corrupt(&self, page: u64, detail: impl Into<String>) -> Error {
        let (file, page) = self.place_of(PageId(page));
        Error::Corrupt { file, page, detail: detail.into() }
    }

    /// Where a page is: the name of the file, and which of its physical pages.
    pub fn place_of(&self, page: PageId) -> (String, u64) {
        (FILE.into(), page.0 + PAGES_AT / self.unit.bytes() as u64)
    }

    /// True if it was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The physical pages that pages in use have, by the number of a page that begins there, but for maps of these.
    pub fn units_in_use(&self) -> Vec<PageId> {
        self.state.lock().space.all_in_use().map(PageId).collect()
    }

    /// Commits a transaction all of whose subtransactions have ended (EOT): takes its CSN. It is durable when that is
    /// ([`GroupCommit::wait_durable`]).
    pub fn commit(&self, txn: TxnId) -> Result<Csn> {
        let _open = self.stay_open()?;
        Ok(self.commit_in(&mut self.state.lock(), txn))
    }

    /// Takes a CSN for the changes that a running transaction has taken back. It is in the log when a later commit
    /// is, so that no transaction builds on the keys before.
    pub fn order_undone(&self, txn: TxnId) -> Result<Csn> {
        let _open = self.stay_open()?;
        Ok(self.order_in(&mut self.state.lock(), txn, false))
    }

    /// Keeps the store from being closed for a moment.
    fn stay_open(&self) -> Result<RwLockReadGuard<'_, bool>> {
        self.check()?;
        let closed = self.closed.read();
        if *closed { Err(Error::Closed) } else { Ok(closed) }
    }

    fn commit_in(&self, state: &mut State, txn: TxnId) -> Csn {
        let csn = self.order_in(state, txn, true);
        if let Some(known) = state.txns.get_mut(&txn) {
            known.ended = Some(Some(csn));
        }
        if self.writes_at_eos() {
            state.txns.remove(&txn);
        }
        csn
    }

    fn order_in(&self, state: &mut State, txn: TxnId, commits: bool) -> Csn {
        let csn = Csn(self.last_csn.fetch_add(1, Ordering::AcqRel) + 1);
        let ordered = Ordered { txn, csn, commits };
        if self.writes_at_eos() {
            // All that it did is in the log: this is what commits it.
            let (ops, (txn, csn)) = (self.ops(), ordered.logged());
            record::Record::End { txn, committed: Some(csn) }.encode(|pieces| ops.append(pieces));
            state.logged_csn = csn;
        }
        state.committed.push(ordered);
        csn
    }

    /// Ends a transaction that level 1 has undone, or that has done nothing.
    pub fn end_undone(&self, txn: TxnId) {
        let mut state = self.state.lock();
        if let Some(known) = state.txns.get_mut(&txn) {
            known.ended = Some(None);
        }
        self.forget_ended(&mut state);
    }

    /// True if a sphere has become so large that it should be written ([`LoggedStore::write_large_spheres`]).
    pub fn has_large_sphere(&self) -> bool {
        self.state.lock().spheres.largest().is_some_and(|(_, pages)| pages > self.limits.sphere_pages_max)
    }

    /// Reads an undo record of a loser.
    ///
    /// # Errors
    /// Of reading the log.
    pub fn undo_record(&self, loser: &Loser, index: usize) -> Result<Vec<u8>> {
        let record = self.ops().read(loser.undo[index].1)?;
        match record::Record::decode(&record) {
            Some(record::Record::Undo { undo, .. }) => Ok(undo.to_vec()),
            _ => Err(Error::Corrupt {
                file: "log".into(),
                page: loser.undo[index].1.0,
                detail: "an undo record is none any more".into(),
            }),
        }
    }

    /// Returns the waits for locks on pages.
    pub fn page_waits(&self) -> LevelWaits {
        self.page_waits.read()
    }

    /// Returns the counts of writes since the store was opened.
    pub fn activity(&self) -> LoggedActivity {
        let redo = self.redo.iter().map(Log::counts);
        let (redo_forces, redo_bytes) =
            redo.fold((0, 0), |(forces, bytes), counts| (forces + counts.forces, bytes + counts.bytes));
        let ops = self.ops.as_ref().map(Log::counts).unwrap_or_default();
        LoggedActivity {
            redo_forces,
            redo_bytes,
            ops_forces: ops.forces,
            ops_bytes: ops.bytes,
            units: self.counters.units.load(Ordering::Relaxed),
            unit_pages: self.counters.unit_pages.load(Ordering::Relaxed),
            unit_pages_max: self.counters.unit_pages_max.load(Ordering::Relaxed),
            placed_pages: self.counters.placed_pages.load(Ordering::Relaxed),
            placed_bytes: self.counters.placed_bytes.load(Ordering::Relaxed),
            place_syncs: self.counters.place_syncs.load(Ordering::Relaxed),
        }
    }

    /// Notes that a transaction changed so many bytes of keys and values.
    pub fn note_changed(&self, bytes: usize) {
        self.counters.changed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns how much of it is in use.
    pub fn stats(&self) -> StoreStats {
        let unit = self.unit.bytes() as u64;
        let (units, in_use) = {
            let state = self.state.lock();
            (state.space.end(), state.space.in_use())
        };
        let activity = self.activity();
        StoreStats {
            format_version: root::FORMAT_VERSION,
            identity: self.database,
            batch: activity.units,
            durable_csn: self.durable_csn(),
            unit: self.unit,
            file_pages: units + PAGES_AT / unit,
            used_pages: in_use,
            held_pages: 0,
            segments: (0, 0),
            logical_pages: units,
            table_depth: 0,
            table_pages: 0,
            pool_frames: self.pool.len(),
            pool_bytes: (self.pool.bytes(), self.pool.capacity()),
            activity: Activity {
                page_accesses: self.pool.data_fetches(),
                batches: activity.units,
                syncs: activity.place_syncs,
                bytes_written: activity.placed_bytes,
                data_pages: activity.placed_pages,
                log_forces: activity.redo_forces + activity.ops_forces,
                log_bytes_written: activity.redo_bytes + activity.ops_bytes,
                bytes_changed: self.counters.changed_bytes.load(Ordering::Relaxed),
                ..Activity::default()
            },
        }
    }

    /// Returns the length of the log of pages in bytes, which a crash recovery would read.
    pub fn log_bytes(&self) -> u64 {
        self.redo.iter().map(Log::live_bytes).sum()
    }

    /// Returns the positions up to which the logs are durable.
    fn reaches(&self) -> Reaches {
        let ops = self.ops.as_ref().map_or(Lsn(0), Log::forced);
        Reaches { ops, redo: self.redo.iter().map(Log::forced).collect() }
    }

    /// Returns the identity that the page at a place has. It does not depend on when the page was written.
    fn identity_of(&self, page: u64) -> Identity {
        Identity { database: self.database, level: 0, logical: page, batch: 0, early: false }
    }

    fn offset_of(&self, page: u64) -> u64 {
        PAGES_AT + page * self.unit.bytes() as u64
    }

    /// The frame of a page.
    fn data(&self, id: PageId) -> Result<Pin> {
        let pin = self.pool.fetch(PoolKey { level: 0, index: id.0 }, || self.read_place(id.0).map(Some))?;
        pin.ok_or_else(|| self.corrupt(id.0, "there is no such page"))
    }

    /// Reads a page from its place.
    fn read_place(&self, page: u64) -> Result<Page> {
        let past_end = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt(page, "it lies past the end of the file"),
            _ => error.into(),
        };
        if !self.state.lock().has_page(page) {
            return Err(self.corrupt(page, "it is in no use"));
        }
        let offset = self.offset_of(page);
        let mut block = vec![0; self.unit.bytes()];
        read_twice(&*self.file, offset, &mut block).map_err(past_end)?;
        let size = Page::size_told(&block).filter(|size| size.bytes() >= block.len());
        if let Some(size) = size.filter(|size| size.bytes() > self.unit.bytes()) {
            block.resize(size.bytes(), 0);
            let (_, rest) = block.split_at_mut(self.unit.bytes());
            read_twice(&*self.file, offset + self.unit.bytes() as u64, rest).map_err(past_end)?;
        }
        Page::unseal_expected(&block, self.identity_of(page)).map_err(|detail| self.corrupt(page, detail))
    }

    /// A page number that is in no use. The file grows if it has none.
    fn take_page(&self, size: PageSize) -> Result<u64> {
        check_page_size(self.unit, size)?;
        loop {
            let end = {
                let mut state = self.state.lock();
                if let Some(page) = state.space.take(size) {
                    return Ok(page);
                }
                state.space.end()
            };
            self.grow(size, end)?;
        }
    }

    /// Grows the file by at least a page of this size, unless it reaches further than `end` by now.
    fn grow(&self, size: PageSize, end: u64) -> Result<()> {
        const STEP_BYTES: u64 = 1 << 20;
        let _one = self.growing.lock();
        if self.state.lock().space.end() > end {
            return Ok(());
        }
        let unit = self.unit.bytes() as u64;
        // With room for a map, and for what has to be left out so that the page is where it can be.
        let least = 2 * (size.bytes().max(PageSize::DEFAULT.bytes()) as u64 / unit);
        let step = (end / 8).max(STEP_BYTES / unit).max(least);
        for step in [step, least] {
            match self.file.allocate(PAGES_AT + (end + step) * unit) {
                Ok(()) => {
                    self.state.lock().space.grown(end + step);
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
                Err(error) => return Err(self.poison(&error.into())),
            }
        }
        Err(Error::DiskFull)
    }

    /// Makes everything durable and the log empty; on a full disk the log stays as it is. Nothing can be ended or
    /// committed any more; what transactions that are running have done is undone when the store is opened again.
    pub fn close(&self) -> Result<()> {
        self.check()?;
        *self.closed.write() = true;
        self.flush()?;
        let all = self.state.lock().spheres.all();
        self.write_spheres(all)?;
        match self.give_up_log(u64::MAX) {
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
        self.check()?;
        if let Some(latch) = self.pool.read(PoolKey { level: 0, index: id.0 }) {
            return Ok(latch);
        }
        loop {
            if let Some(latch) = self.data(id)?.read() {
                return Ok(latch);
            }
        }
    }
}

impl GroupCommit for LoggedStore {
    fn durability(&self) -> &Durability {
        &self.durability
    }

    fn last_csn(&self) -> Csn {
        Csn(self.last_csn.load(Ordering::Acquire))
    }

    fn check(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned(cause.clone())),
            None => Ok(()),
        }
    }

    fn poison(&self, cause: &Error) -> Error {
        let _ = self.poison.set(cause.as_cause());
        self.durability.fail();
        self.check().err().unwrap_or(Error::Closed)
    }

    fn write_batch(&self) -> Result<Csn> {
        self.check()?;
        let durable = self.write_commits().map_err(|error| self.poison(&error))?;
        match self.shorten_log() {
            // The commits are durable; the log stays as long as it is.
            Ok(()) | Err(Error::DiskFull) => Ok(durable),
            Err(error) => Err(error),
        }
    }
}
