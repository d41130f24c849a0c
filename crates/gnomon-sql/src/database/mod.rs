//! A database as SQL sees it: the engine, the committed catalog and what else its sessions share.
//!
//! - [`SqlDatabase`] is the handle that programs have, [`Shared`] what stands behind it;
//! - [`registry`]: the sessions, as others see and interrupt them; [`progress`]: how far their statements are;
//! - [`sequences`] and [`row_numbers`]: numbers that are given out once, outside of transactions;
//! - [`statistics`]: counts of transactions and of accesses to tables; [`statements`]: of statements by their form;
//! - [`advisory`]: locks on numbers; [`exported`]: snapshots that transactions share; [`timer`]: the alarms of statements; [`member`]: the catalog as members of a
//!   cluster change it.

pub(crate) mod advisory;
pub(crate) mod exported;
mod member;
pub(crate) mod progress;
pub(crate) mod registry;
mod retries;
mod row_numbers;
pub(crate) mod sequences;
pub(crate) mod statements;
pub(crate) mod statistics;
pub(crate) mod timer;

pub use retries::RetryCounts;
pub(crate) use row_numbers::RowNumbers;

use std::fmt;

use gnomon_engine::{
    Database, Records,
    env::{Clock, SystemClock},
    sync::{
        Arc, OnceLock, RwLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use advisory::AdvisoryLocks;
use exported::ExportedSnapshots;
use registry::Registry;
use row_numbers::AllRowNumbers;
use sequences::Positions;
use statements::AllStatements;
use statistics::Statistics;
use timer::Timer;

use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Catalog,
        model::Oid,
        store,
        system::{Cluster, ConnectedBy, Encryption},
    },
    memory::{MemoryLimits, MemoryUse, Total},
};

/// A database that speaks SQL. Clones are handles of the same one.
#[derive(Clone)]
pub struct SqlDatabase(pub(crate) Arc<Shared>);

/// State that the sessions of a database share.
pub(crate) struct Shared {
    pub(crate) engine: Database,
    /// The kind of records that its log of commits keeps, if it has one.
    pub(crate) records: Option<Records>,
    /// The committed catalog. Held for writing while a commit that changes it takes place: a transaction with a lock
    /// that such a commit released can no longer read the catalog of before it.
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    /// The next version of the catalog, committed or not: no two states share one.
    next_version: AtomicU64,
    /// The next identifier. Those of transactions that are rolled back are not used again before the next start.
    next_oid: AtomicU32,
    /// The newest commit that was acknowledged without being durable. All sessions see it from then on.
    pub(crate) acknowledged_early: AtomicU64,
    pub(crate) sequences: Positions,
    pub(crate) row_numbers: AllRowNumbers,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timer: Timer,
    pub(crate) registry: Arc<Registry>,
    pub(crate) advisory: Arc<AdvisoryLocks>,
    pub(crate) exported: Arc<ExportedSnapshots>,
    /// The memory of all sessions, and how much new ones may take.
    pub(crate) memory: Arc<Total>,
    pub(crate) memory_limits: RwLock<Arc<MemoryLimits>>,
    pub(crate) retries: Arc<RetryCounts>,
    pub(crate) statistics: Arc<Statistics>,
    /// The statistics of statements by their form.
    pub(crate) statements: Arc<AllStatements>,
    /// Source of the state of the cluster that the database is a member of.
    pub(crate) cluster: OnceLock<Arc<dyn Cluster>>,
    /// When the database was opened, in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) started: i64,
}

/// The client of a session, and the settings that it begins with.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The user's name.
    pub user: String,
    /// The database's name, as the client asked for it.
    pub database: String,
    /// The session's number: `pg_backend_pid()`.
    pub process_id: i32,
    /// True if it may end prepared transactions of other users, as a program with the database's files may.
    pub is_owner: bool,
    /// Settings that the client gives when it connects (`application_name`, `TimeZone`, ...): what RESET goes back
    /// to.
    pub settings: Vec<(String, String)>,
    /// Values of settings that cannot be set, given by the server of the session: `max_connections`, `ssl`.
    pub facts: Vec<(&'static str, String)>,
    /// How the client is connected; none in the process itself.
    pub connection: Option<ConnectedBy>,
    /// The encryption of the connection, if it is encrypted.
    pub encryption: Option<Encryption>,
}

/// The user's and the database's name, if a client gives none.
pub(crate) const NAME_DEFAULT: &str = "gnomon";

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            user: NAME_DEFAULT.into(),
            database: NAME_DEFAULT.into(),
            process_id: 0,
            is_owner: false,
            settings: Vec::new(),
            facts: Vec::new(),
            connection: None,
            encryption: None,
        }
    }
}

impl fmt::Debug for SqlDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlDatabase")
            .field("catalog_version", &self.0.catalog().version)
            .finish_non_exhaustive()
    }
}

impl SqlDatabase {
    /// Reads the catalog of an open database, or makes it if the database is empty.
    ///
    /// # Errors
    /// 3D000 if the database is another program's, XX001 if its catalog is damaged, and the engine's.
    pub fn open(engine: Database) -> Result<SqlDatabase> {
        SqlDatabase::open_with_clock(engine, Arc::new(SystemClock::new()))
    }

    /// As [`SqlDatabase::open`], with another clock: what `now()` and timeouts go by.
    pub fn open_with_clock(engine: Database, clock: Arc<dyn Clock>) -> Result<SqlDatabase> {
        let (catalog, next_oid) = store::open(&engine)?;
        if member::marks(&engine)?.is_some() {
            return Err(member::not_alone());
        }
        sequences::remove_orphans(&engine, &catalog)?;
        Ok(SqlDatabase(Arc::new(Shared::new(engine, catalog, next_oid, clock))))
    }

    /// As [`SqlDatabase::open`], for a database that is about to be a member of a cluster: nothing is changed in it.
    ///
    /// # Errors
    /// As there.
    pub fn open_member(engine: Database) -> Result<SqlDatabase> {
        let (catalog, next_oid) = store::open(&engine)?;
        Ok(SqlDatabase(Arc::new(Shared::new(engine, catalog, next_oid, Arc::new(SystemClock::new())))))
    }

    /// Gives back what sequences have in reserve, makes all commits durable and closes the engine. Sessions that are
    /// still there fail from here on.
    ///
    /// # Errors
    /// Those of [`Database::close`].
    pub fn close(&self) -> Result<(), gnomon_engine::Error> {
        self.0.give_back();
        self.0.engine.close()
    }

    /// Returns how often statements were run again since others were ahead of them: those of a member of a cluster.
    pub fn retries(&self) -> Arc<RetryCounts> {
        self.0.retries.clone()
    }

    /// Limits the memory of sessions that begin from now on. Before, [`MemoryLimits::default`] holds.
    pub fn limit_memory(&self, limits: MemoryLimits) {
        *self.0.memory_limits.write() = Arc::new(limits);
    }

    /// Returns the memory that all sessions take now.
    pub fn memory_use(&self) -> MemoryUse {
        self.0.memory.read()
    }

    /// The engine underneath.
    pub fn engine(&self) -> &Database {
        &self.0.engine
    }

    /// The committed catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.catalog()
    }
}

impl Shared {
    pub(crate) fn new(engine: Database, catalog: Catalog, next_oid: Oid, clock: Arc<dyn Clock>) -> Shared {
        Shared {
            records: engine.stats().recovery.records(),
            engine,
            next_version: AtomicU64::new(catalog.version + 1),
            catalog: RwLock::new(Arc::new(catalog)),
            next_oid: AtomicU32::new(next_oid),
            acknowledged_early: AtomicU64::new(0),
            sequences: Positions::default(),
            row_numbers: AllRowNumbers::default(),
            timer: Timer::new(clock.clone()),
            registry: Arc::default(),
            advisory: Arc::default(),
            exported: Arc::default(),
            memory: Arc::default(),
            memory_limits: RwLock::default(),
            cluster: OnceLock::new(),
            retries: Arc::default(),
            statistics: Arc::default(),
            statements: Arc::default(),
            started: clock_micros(&*clock),
            clock,
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().clone()
    }

    /// Returns the time in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) fn now(&self) -> i64 {
        clock_micros(&*self.clock)
    }

    pub(crate) fn next_version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// An identifier that no object has or had since the database was opened.
    pub(crate) fn new_oid(&self) -> Result<Oid> {
        let next = self.next_oid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |oid| oid.checked_add(1));
        next.map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "no object identifier is left"))
    }

    pub(crate) fn next_oid(&self) -> Oid {
        self.next_oid.load(Ordering::Relaxed)
    }

    /// Identifiers below this one were given out by other members of the cluster.
    pub(crate) fn see_next_oid(&self, next: Oid) {
        self.next_oid.fetch_max(next, Ordering::Relaxed);
    }

    /// A new catalog was published: forgets what is kept in memory of things that are not in it. Called before others can
    /// add what that catalog does not know of.
    pub(crate) fn forget_others(&self, catalog: &Catalog) {
        self.sequences.retain(catalog);
        self.row_numbers.retain(|tree| catalog.tables().any(|table| table.tree == tree));
    }
}

impl Shared {
    fn give_back(&self) {
        // If this fails, values of sequences are skipped, as after a crash.
        let _ = self.sequences.give_back(&self.engine);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A clock's time in microseconds since 2000-01-01 00:00 UTC.
fn clock_micros(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.unix_time().as_micros()).map_or(i64::MAX, |micros| micros - EPOCH_MICROS)
}
