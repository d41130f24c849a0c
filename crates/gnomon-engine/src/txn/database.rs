//! An open database: the state that its transactions share, opening and closing.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    background::Background,
    commit::Commits,
    immediate,
    log::{BYTES_OF_RUN, CommitLog, Logged, Pending},
    prepared::{self, AllPrepared},
    procedure::{Procedure, Procedures},
    recovery::{self, Opened, Recovery},
    replicated::Replicator,
    serial::{Execution, Executors},
    transaction::{Transaction, TxnOptions},
    tree::{Directory, TreeRef, TreeState, Trees},
    versions::Timeline,
};
use crate::{
    Csn, Error, Result, TreeId, TxnId,
    disk::{DiskSet, MemDisk},
    env::{Clock, Rng, SystemClock, processors},
    lock::{GAP_MODES, KEY_MODES, LockInfo, LockManager, LockTable, LockWaits, TREE_MODES, TableId},
    op::{Family, Registry},
    page::PageSize,
    store::{GroupCommit, Store, logged::LogShape, shadow::Activity},
    sync::{
        Arc, Line, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The lock table of whole trees.
pub(super) const TREES: TableId = TableId::new(0);
/// The lock table of keys.
pub(super) const KEYS: TableId = TableId::new(1);
/// The lock table of the gaps before keys.
pub(super) const GAPS: TableId = TableId::new(2);
/// The lock table of pages, for a store that locks them.
pub(super) const PAGES: TableId = TableId::new(3);

/// The lock table of executors, which stand for their partitions.
pub(super) const PARTITIONS: TableId = TableId::new(4);
/// Locks on names that the caller gives.
pub(super) const NAMES: TableId = TableId::new(5);

/// The number of the first tree that a replay makes and drops. No other trees have such numbers.
const REPLAY_TREES: u64 = 1 << 62;
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
    /// How a new database recovers; none takes what the environment variable `GNOMON_RECOVERY` names
    /// ([`Recovery::from_name`]), and if there is none, a log of what commits write on one disk, and shadow paging on
    /// several and in memory. Of a database that exists another one is refused.
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
    /// Operations beside those that are built in, for [`Transaction::apply`].
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
    /// Where calls are logged as whatever is [cheaper](super::Records::Cheaper): how much a second of replay counts
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

impl Options {
    /// Returns the number of threads that replay a log.
    pub(super) fn replay_threads(&self) -> usize {
        match self.replay_threads {
            0 => processors(),
            threads => threads.min(REPLAY_THREADS_MAX),
        }
    }
}

#[cfg(test)]
impl Options {
    /// Returns options for tests of what only databases have that recover by shadow paging.
    pub fn shadow() -> Options {
        Options { recovery: Some(Recovery::Shadow), ..Options::default() }
    }
}

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
    /// The size of the smallest page ([`Options::page_bytes_min`]), and of the physical pages that are counted below.
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
    /// Returns the figures of a store, without what a log of commits adds.
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
            log_bytes: store.logged().map_or(0, |logged| logged.log_bytes()),
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

/// The purpose that a database is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// An error with the path that was given, if it does not say which one it is of.
fn with_path(error: Error, given: &Path) -> Error {
    match error {
        Error::NotADatabase { path, detail } if path.is_empty() => {
            Error::NotADatabase { path: given.display().to_string(), detail }
        }
        error => error,
    }
}

/// Number of pages that change at most when the directory gets another procedure.
const PROCEDURE_PAGES: u64 = 8;
/// Number of mutexes for keys with operations: enough that two threads seldom want the same for different keys.
pub(super) const APPLIERS: usize = 64;

/// The state that the transactions of a database share.
pub(super) struct Inner {
    pub store: Store,
    pub recovery: Recovery,
    /// The log of commits. Set when it was replayed.
    log: OnceLock<Arc<CommitLog>>,
    pub locks: Arc<LockManager>,
    pub timeline: Timeline,
    pub directory: Directory,
    pub prepared: AllPrepared,
    trees: Trees,
    next_txn: Line<AtomicU64>,
    pub next_tree: AtomicU64,
    pub lock_timeout: Option<Duration>,
    pub escalate_bytes: usize,
    pub write_bytes_max: usize,
    /// True once it has been recovered, so that transactions can begin.
    is_open: AtomicBool,
    closed: AtomicBool,
    /// The operations that its transactions can apply.
    pub operations: Registry,
    pub procedures: Procedures,
    /// True if procedures run serially.
    pub is_serial: bool,
    pub commits: Commits,
    pub replay_weight: f64,
    pub clock: Arc<dyn Clock>,
    /// Mutexes of keys. A commit that applies operations to a key holds the mutex of the key, which comes before any
    /// latch.
    pub appliers: [Line<Mutex<()>>; APPLIERS],
    /// Trees that commits under way make or drop, and dropped trees with the CSN of that: when it is durable, their
    /// pages may be given back.
    pub unfinished: Mutex<BTreeMap<TreeId, Option<Csn>>>,
    /// The replicator that orders its commits, if there is one.
    pub replicator: OnceLock<Arc<dyn Replicator>>,
    /// The disks, held open, so that no other process and no other handle opens them.
    pub disks: Mutex<DiskSet>,
    /// Directories on fresh disks.
    pub spares: Mutex<Vec<PathBuf>>,
}

impl Inner {
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    pub fn tree(&self, id: TreeId) -> Result<TreeRef> {
        self.trees.get(id, || Ok(TreeState::new(self.directory.get(&self.store, id)?, Csn(0))))
    }

    /// Adds the state of a tree that a commit makes, before a transaction can find the tree in the directory.
    pub fn add_tree(&self, id: TreeId, tree: TreeState) {
        self.trees.add(id, tree);
    }

    pub fn new_txn_id(&self) -> TxnId {
        if let Some(logged) = self.store.logged() {
            // Undo records in the log name transactions.
            return TxnId(logged.new_id());
        }
        TxnId(self.next_txn.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the log of commits, if there is one.
    pub fn log(&self) -> Option<&Arc<CommitLog>> {
        self.log.get()
    }

    /// Makes the record of a commit, and room for it, if there is a log.
    pub fn record(&self, change: &Logged<'_>) -> Result<Option<Pending>> {
        self.log().map(|log| log.prepare(change)).transpose()
    }

    /// Returns the newest durable commit.
    pub fn last_durable(&self) -> Csn {
        self.log().map_or_else(|| self.store.durable_csn(), |log| log.durable_csn())
    }

    /// Waits until a commit is durable.
    pub fn wait_durable(&self, csn: Csn) -> Result<()> {
        match self.log() {
            Some(log) => log.wait_durable(csn),
            None => self.store.wait_durable(csn),
        }
    }

    /// Calls `call` once a commit is durable or has failed.
    pub fn when_durable(&self, csn: Csn, call: impl FnOnce(Result<Csn>) + Send + 'static) {
        match self.log() {
            Some(log) => log.when_durable(csn, call),
            None => self.store.when_durable(csn, call),
        }
    }

    /// Returns the newest commit that snapshots have, which is durable unless commits are acknowledged whatever may
    /// become of them. All its changes are there, with those of all before: in a log, a commit may be durable before
    /// its transaction has told the versions.
    pub fn settled_csn(&self) -> Csn {
        let watermark = self.timeline.watermark();
        match self.commits {
            Commits::Unforced => watermark,
            // The replicator has its commits durable.
            _ if self.replicator().is_some() => watermark,
            Commits::Synchronous | Commits::Asynchronous => self.last_durable().min(watermark),
        }
    }

    pub fn new_tree_id(&self) -> TreeId {
        TreeId(self.next_tree.fetch_add(1, Ordering::Relaxed))
    }

    pub fn forget_tree(&self, id: TreeId) {
        self.trees.remove(id);
    }

    /// Stores the registered procedures in the directory, and takes a checkpoint, so that the log has no calls of
    /// what they were before.
    fn store_procedures(&self, log: &CommitLog) -> Result<()> {
        let unstored = self.procedures.unstored();
        let (false, Some(store)) = (unstored.is_empty(), self.store.shadow()) else { return Ok(()) };
        let pages = store.begin(PROCEDURE_PAGES * unstored.len() as u64)?;
        let stored =
            unstored.iter().try_for_each(|procedure| self.directory.set_procedure(&pages, procedure));
        // A page transaction has no way back.
        stored.map_err(|error| store.poison(&error))?;
        drop(pages);
        log.checkpoint()
    }

    pub fn prune(&self) {
        self.timeline.prune(|| self.settled_csn());
    }

    /// Forgets versions after a commit that has added `changed` of them: more than that, if there are many.
    pub fn forget_after(&self, changed: usize) {
        self.timeline.forget_after(changed, || self.settled_csn());
    }

    /// Forgets versions if the newest commit is durable, or if there are many. Otherwise commits under way forget as
    /// many as they add.
    pub fn prune_unless_busy(&self) {
        if self.store.last_csn() == self.last_durable() || self.timeline.has_much() {
            self.prune();
        }
    }
}

/// The parts of a database that live as long as handles or transactions do. Background threads hold [`Inner`] only,
/// so that none of them ends itself; an executor may: [`Executors::stop`] does not wait for the thread that it is
/// called on.
pub(super) struct Handle {
    pub inner: Arc<Inner>,
    pub background: Background,
    /// The executors that run procedures serially, if they run so.
    pub executors: Option<Executors>,
    /// The result of closing; none while the database is open. Until it is open, that there is nothing to close. The
    /// mutex is held while closing lasts, so that a second caller waits for the first.
    closing: Mutex<Option<Result<()>>>,
}

impl Handle {
    fn close(&self) -> Result<()> {
        let mut result = self.closing.lock();
        if let Some(result) = &*result {
            return result.clone();
        }
        self.inner.closed.store(true, Ordering::Release);
        if let Some(executors) = &self.executors {
            executors.stop();
        }
        self.background.stop();
        let closed = match self.inner.log() {
            Some(log) => log.close(),
            None => self.inner.store.close(),
        };
        result.insert(closed).clone()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A caller that wants the result calls `Database::close`.
        let _ = self.close();
        // If it was never open.
        self.background.stop();
    }
}

/// An open database. Clones are handles of the same one; the last one closes it.
#[derive(Clone)]
pub struct Database(pub(super) Arc<Handle>);

impl Database {
    /// Opens the database in the directory `path`, or of several disks in any of its directories, recovering it if need
    /// be. No other process, and no other handle that is not a clone of this one, can have it open ([`Error::InUse`]).
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        Database::open_with(path, options, &mut |_, _| ())
    }

    /// As [`Database::open`]. While a log of commits is replayed, `progress` is told now and then how many bytes of it
    /// are done, and of how many.
    pub fn open_with(
        path: impl AsRef<Path>,
        options: Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Database> {
        recovery::check_disks(path.as_ref(), &options)?;
        let mut open = |options: Options| {
            let disks = DiskSet::open(&path, &options.disks, options.mirrored, options.create)?;
            Database::open_store_with(disks, options, Access::Write, |_| (), progress)
        };
        let opened = match open(options.clone()) {
            // Roots in between make room, but not while several threads replay a log, or much of it.
            Err(Error::DiskFull)
                if options.replay_threads() > 1 || options.replay_bytes_max > BYTES_OF_RUN =>
            {
                open(Options { replay_threads: 1, replay_bytes_max: BYTES_OF_RUN, ..options })
            }
            opened => opened,
        };
        opened.map_err(|error| with_path(error, path.as_ref()))
    }

    /// Opens the database in the directory `path` for reading only, which several processes may do at a time. It
    /// changes no byte of the database and needs no right to. All transactions are read-only. `options.create` is
    /// ignored.
    ///
    /// # Errors
    /// As [`Database::open`]; [`Error::NotADatabase`] also if nothing was ever committed to it.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let disks = DiskSet::open_read_only(&path)?;
        Database::open_store(disks, options, Access::Read, |_| ())
            .map_err(|error| with_path(error, path.as_ref()))
    }

    /// Makes a database that lives in memory and ends with its last handle.
    pub fn in_memory(options: Options) -> Result<Database> {
        // Nothing outlives it, so a log would only take memory.
        let recovery = Recovery::asked_for(&options)?.unwrap_or(Recovery::Shadow);
        Database::open_on(&MemDisk::new(), Options { create: true, recovery: Some(recovery), ..options })
    }

    /// Opens the database on its disks.
    pub fn open_on(disks: impl Into<DiskSet>, options: Options) -> Result<Database> {
        Database::open_store(disks.into(), options, Access::Write, |_| ())
    }

    pub(crate) fn open_store(
        disks: DiskSet,
        options: Options,
        access: Access,
        prepare: impl FnOnce(&mut Store),
    ) -> Result<Database> {
        Database::open_store_with(disks, options, access, prepare, &mut |_, _| ())
    }

    fn open_store_with(
        mut disks: DiskSet,
        options: Options,
        access: Access,
        prepare: impl FnOnce(&mut Store),
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Database> {
        if options.pool_bytes < POOL_BYTES_MIN {
            return Err(Error::BadOption(format!(
                "a buffer pool of {} bytes is too small: give it at least {POOL_BYTES_MIN}",
                options.pool_bytes
            )));
        }
        if !(0.3..=0.95).contains(&options.fill_max) {
            let detail = format!("fill_max is {}: give it a share from 0.3 to 0.95", options.fill_max);
            return Err(Error::BadOption(detail));
        }
        let executors = Executors::new(options.execution)?;
        if options.group_commit_interval > GROUP_COMMIT_INTERVAL_MAX {
            return Err(Error::BadOption(format!(
                "group_commit_interval is {:?}: give it {GROUP_COMMIT_INTERVAL_MAX:?} at most",
                options.group_commit_interval
            )));
        }
        let operations = Registry::new(&options.operations)?;
        let mut rng = options.seed.map_or_else(Rng::from_entropy, Rng::from_seed);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let Opened { store, losers, recovery, log } =
            recovery::open(&mut disks, &options, access, || rng.next_u64(), &clock, prepare)?;
        recovery::check_made(&options, &store, recovery)?;
        store.set_commit_interval(options.group_commit_interval);
        if options.commits == Commits::Unforced {
            match (&store, recovery) {
                (Store::Shadow(store), Recovery::Shadow) => store.let_pages_wait(),
                _ => {
                    return Err(Error::BadOption(
                        "commits are made durable by the log of this database: unforced ones need shadow paging".into(),
                    ));
                }
            }
        }
        let locks = LockManager::new(
            [
                LockTable::new("tree", TREE_MODES).by_thread(),
                LockTable::new("key", operations.key_modes()),
                LockTable::new("gap", GAP_MODES),
                LockTable::new("page", KEY_MODES),
                LockTable::new("partition", KEY_MODES).in_order(),
                LockTable::new("name", TREE_MODES).by_thread(),
            ],
            clock.clone(),
        );
        let directory = recovery::directory(&store, recovery, &locks)?;
        let procedures = Procedures::new(&options.procedures, directory.procedures(&store)?)?;
        let inner = Arc::new(Inner {
            timeline: Timeline::new(store.last_csn(), options.version_bytes_max),
            store,
            recovery,
            log: OnceLock::new(),
            locks,
            directory,
            prepared: AllPrepared::new(options.prepared_max),
            trees: Trees::default(),
            next_txn: Line(AtomicU64::new(1)),
            next_tree: AtomicU64::new(REPLAY_TREES),
            lock_timeout: options.lock_timeout,
            escalate_bytes: options.escalate_bytes,
            write_bytes_max: options.write_bytes_max,
            is_open: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            operations,
            procedures,
            is_serial: options.execution != Execution::Locked,
            commits: options.commits,
            replay_weight: options.replay_weight,
            clock,
            appliers: std::array::from_fn(|_| Line::default()),
            unfinished: Mutex::default(),
            replicator: OnceLock::new(),
            disks: Mutex::new(disks),
            spares: Mutex::new(options.spares.clone()),
        });
        let background = Background::new(&inner, options.cleaner);
        let closing = Mutex::new(Some(Err(Error::Closed)));
        let handle = Arc::new(Handle { inner, background, executors, closing });
        let inner = &handle.inner;
        if let Some(unread) = log {
            let log = CommitLog::open(&handle, unread, &options, access, progress)?;
            match inner.store.shadow() {
                Some(store) if access == Access::Read => store.end_writing(),
                _ => inner.store_procedures(&log)?,
            }
            let _ = inner.log.set(log);
        } else if let (Access::Read, Some(store)) = (access, inner.store.shadow()) {
            store.end_writing();
        }
        inner.next_tree.store(inner.directory.last(&inner.store)?.0 + 1, Ordering::Relaxed);
        immediate::undo_losers(inner, &losers)?;
        prepared::restore(inner)?;
        *handle.closing.lock() = None;
        inner.is_open.store(true, Ordering::Release);
        if access == Access::Write {
            if inner.directory.dropped(&inner.store, |_| false)?.is_some() {
                handle.background.reclaim();
            }
            handle.background.maintain();
        }
        if let Some(executors) = &handle.executors {
            executors.start(&handle);
        }
        Ok(Database(handle))
    }

    /// Begins a transaction.
    pub fn begin(&self, options: TxnOptions) -> Result<Transaction> {
        if !self.0.inner.is_open.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.0.inner.check_open()?;
        self.0.inner.store.check()?;
        if self.0.inner.store.shadow().is_some_and(|store| store.wants_repair()) {
            self.0.background.maintain();
        }
        let id = self.0.inner.new_txn_id();
        let read_only = options.read_only || self.0.inner.store.is_read_only();
        let mut txn = Transaction::new(self.0.clone(), id, TxnOptions { read_only, ..options });
        txn.observe_for_others();
        Ok(txn)
    }

    /// Returns when it acknowledges commits.
    pub fn commits(&self) -> Commits {
        self.0.inner.commits
    }

    /// Returns the newest durable commit.
    pub fn durable_csn(&self) -> Csn {
        self.0.inner.last_durable()
    }

    /// Waits until a commit is durable.
    pub fn wait_durable(&self, csn: Csn) -> Result<()> {
        self.0.inner.wait_durable(csn.min(self.0.inner.store.last_csn()))?;
        self.0.background.maintain();
        Ok(())
    }

    /// Calls `call` with the cause when a failure stops the database, or at once if one has: on the thread that met it,
    /// so `call` must not block.
    pub fn when_stopped(&self, call: impl FnOnce(Error) + Send + 'static) {
        let inner = Arc::downgrade(&self.0.inner);
        let tell = move || {
            if let Some(Err(error)) = inner.upgrade().map(|inner| inner.store.check()) {
                call(error);
            }
        };
        match &self.0.inner.store {
            Store::Shadow(store) => store.durability().when_failed(tell),
            Store::Logged(store) => store.durability().when_failed(tell),
        }
    }

    /// Returns how much of the database is in use.
    pub fn stats(&self) -> Stats {
        let inner = &self.0.inner;
        let stats =
            Stats::new(&inner.store, inner.recovery, inner.timeline.version_bytes(), inner.locks.waits());
        let Some(log) = inner.log() else { return stats };
        let counts = log.counts();
        Stats {
            durable_csn: log.durable_csn(),
            log_bytes: log.live_bytes(),
            activity: Activity {
                log_forces: counts.forces,
                log_bytes_written: counts.bytes,
                ..stats.activity
            },
            ..stats
        }
    }

    /// Takes a checkpoint. With a log of commits, a root gets every commit so far and the log before it is given up, so
    /// that opening reads little and the space of what was deleted is free; with shadow paging each commit batch is
    /// one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] by a database that recovers by a log of pages, which takes its own; of writing.
    pub fn checkpoint(&self) -> Result<()> {
        let inner = &self.0.inner;
        inner.check_open()?;
        inner.store.shadow_for("a checkpoint: it takes its own as its log grows")?;
        inner.log().map_or(Ok(()), |log| log.checkpoint())
    }

    /// Returns every lock that is held or awaited.
    pub fn locks(&self) -> Vec<LockInfo> {
        self.0.inner.locks.snapshot()
    }

    /// Makes all commits durable, then closes the database. Transactions that are still open fail from here on, but
    /// are to be dropped before the files can be opened again.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }
}
