//! Opening databases: options are gathered, and checked for what the database at hand would ignore.

use std::{path::PathBuf, time::Duration};

use crate::{
    Commits, Database, Error, Procedure, Recovery, Result, VerifyReport,
    backup::verify_with,
    op::Family,
    options::{Execution, Log, Memory, Storage},
};

/// The options of a database that is to be opened: see [`Database::builder`].
///
/// ```
/// use gnomon::{Builder, Commits};
/// # fn main() -> gnomon::Result<()> {
/// let db = Builder::in_memory()
///     .memory(|memory| memory.pool_bytes = 256 << 20)
///     .commits(Commits::Asynchronous)
///     .open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a database is opened by `open`"]
pub struct Builder {
    /// None of a database in memory.
    path: Option<PathBuf>,
    storage: Storage,
    memory: Memory,
    log: Log,
    recovery: Option<Recovery>,
    commits: Commits,
    group_commit_interval: Duration,
    lock_timeout: Option<Duration>,
    prepared_max: usize,
    operations: Vec<Family>,
    procedures: Vec<Procedure>,
    execution: Execution,
}

impl Builder {
    pub(crate) fn new(path: Option<PathBuf>) -> Builder {
        let engine = gnomon_engine::Options::default();
        Builder {
            path,
            storage: Storage::default(),
            memory: Memory::default(),
            log: Log::default(),
            recovery: None,
            commits: engine.commits,
            group_commit_interval: engine.group_commit_interval,
            lock_timeout: engine.lock_timeout,
            prepared_max: engine.prepared_max,
            operations: Vec::new(),
            procedures: Vec::new(),
            execution: engine.execution,
        }
    }

    /// Begins with a database that lives in memory, and ends with its last handle.
    pub fn in_memory() -> Builder {
        Builder::new(None)
    }

    /// Changes where the database is, and how it uses its files.
    pub fn storage(mut self, change: impl FnOnce(&mut Storage)) -> Builder {
        change(&mut self.storage);
        self
    }

    /// Changes limits of memory.
    pub fn memory(mut self, change: impl FnOnce(&mut Memory)) -> Builder {
        change(&mut self.memory);
        self
    }

    /// Changes options of its logs.
    pub fn log(mut self, change: impl FnOnce(&mut Log)) -> Builder {
        change(&mut self.log);
        self
    }

    /// Sets how a new database recovers; another way than that of a database that exists is refused. Without it, a
    /// database on one disk logs the values that commits write, and others have shadow paging.
    pub fn recovery(self, recovery: Recovery) -> Builder {
        Builder { recovery: Some(recovery), ..self }
    }

    /// Sets when commits are acknowledged: when they are durable, unless changed.
    pub fn commits(self, commits: Commits) -> Builder {
        Builder { commits, ..self }
    }

    /// Sets the time that commits wait for others, to be made durable together; zero unless changed. Those that come
    /// while others are made durable are together all the same.
    pub fn group_commit_interval(self, interval: Duration) -> Builder {
        Builder { group_commit_interval: interval, ..self }
    }

    /// Sets the longest wait of a transaction for a lock; unless changed, it has no end but that of a deadlock.
    pub fn lock_timeout(self, timeout: Duration) -> Builder {
        Builder { lock_timeout: Some(timeout), ..self }
    }

    /// Sets the number of transactions that may be prepared at a time.
    pub fn prepared_max(self, max: usize) -> Builder {
        Builder { prepared_max: max, ..self }
    }

    /// Adds a family of operations to those that are built in.
    pub fn operations(mut self, family: Family) -> Builder {
        self.operations.push(family);
        self
    }

    /// Adds a procedure.
    pub fn procedure(mut self, procedure: impl Into<Procedure>) -> Builder {
        self.procedures.push(procedure.into());
        self
    }

    /// Sets how calls of procedures run: beside each other under locks, unless changed.
    pub fn execution(self, execution: Execution) -> Builder {
        Builder { execution, ..self }
    }

    /// Opens the database, and recovers it if need be.
    ///
    /// # Errors
    /// [`Error::InUse`] if it is open already, [`Error::BadOption`] of options that it cannot honour, and those of the
    /// disk and of recovery.
    pub fn open(self) -> Result<Database> {
        self.recovery.map_or(Ok(()), |recovery| self.check_used(recovery))?;
        let engine = match &self.path {
            Some(path) => gnomon_engine::Database::open(path, self.engine_options())?,
            None => {
                let storage = Storage {
                    page_bytes_min: self.storage.page_bytes_min,
                    fill_max: self.storage.fill_max,
                    cleaner: self.storage.cleaner,
                    ..Storage::default()
                };
                if self.storage != storage {
                    return Err(Error::BadOption(
                        "a database in memory is made, and has no disks: leave these options out".into(),
                    ));
                }
                gnomon_engine::Database::in_memory(self.engine_options())?
            }
        };
        self.finish(engine)
    }

    /// Opens the database for reading only, which several processes may do at a time. It changes no byte.
    ///
    /// # Errors
    /// As [`Builder::open`]; [`Error::BadOption`] also of options that concern writing; [`Error::NotADatabase`] if
    /// nothing was ever committed to it.
    pub fn open_read_only(self) -> Result<Database> {
        let path = self.path_to_read()?;
        let (memory, log) = (self.memory, self.log);
        let reading = Builder {
            memory: Memory {
                pool_bytes: memory.pool_bytes,
                version_bytes_max: memory.version_bytes_max,
                ..Memory::default()
            },
            log: Log {
                replay_threads: log.replay_threads,
                replay_bytes_max: log.replay_bytes_max,
                ..Log::default()
            },
            recovery: self.recovery,
            lock_timeout: self.lock_timeout,
            operations: self.operations.clone(),
            procedures: self.procedures.clone(),
            ..Builder::new(self.path.clone())
        };
        self.refuse_unlike(&reading, "opened for reading only")?;
        let engine = gnomon_engine::Database::open_read_only(path, self.engine_options())?;
        self.finish(engine)
    }

    /// Reads everything that the database has and says what is wrong with it, as [`verify`](crate::verify) does. Of
    /// its options it takes operations and procedures, which a log may need.
    ///
    /// # Errors
    /// As [`verify`](crate::verify); [`Error::BadOption`] of other options.
    pub fn verify(self) -> Result<VerifyReport> {
        let path = self.path_to_read()?;
        let reading = Builder {
            operations: self.operations.clone(),
            procedures: self.procedures.clone(),
            ..Builder::new(self.path.clone())
        };
        self.refuse_unlike(&reading, "verified")?;
        verify_with(&path, self.engine_options())
    }

    fn path_to_read(&self) -> Result<PathBuf> {
        self.path.clone().ok_or_else(|| Error::BadOption("a database in memory is empty: open it".into()))
    }

    /// Refuses options that differ from `other`.
    fn refuse_unlike(&self, other: &Builder, what: &str) -> Result<()> {
        let differs = [
            (self.storage != other.storage, "storage"),
            (self.memory != other.memory, "memory"),
            (self.log != other.log, "log"),
            (self.recovery != other.recovery, "recovery"),
            (self.commits != other.commits, "commits"),
            (self.group_commit_interval != other.group_commit_interval, "group_commit_interval"),
            (self.lock_timeout != other.lock_timeout, "lock_timeout"),
            (self.prepared_max != other.prepared_max, "prepared_max"),
            (self.execution != other.execution, "execution"),
        ];
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, name)) => Err(Error::BadOption(format!(
                "a database that is {what} has no use for the options `{name}`: leave them out"
            ))),
            None => Ok(()),
        }
    }

    fn finish(&self, engine: gnomon_engine::Database) -> Result<Database> {
        self.check_used(engine.stats().recovery)?;
        Database::new(engine)
    }

    /// Refuses options that a database which recovers so has no use for.
    fn check_used(&self, recovery: Recovery) -> Result<()> {
        match self.log.unused(recovery).or(self.storage.unused(recovery)) {
            Some(name) => Err(Error::BadOption(format!(
                "a database that recovers by {} has no use for the option `{name}`: leave it out",
                recovery.name()
            ))),
            None => Ok(()),
        }
    }

    fn engine_options(&self) -> gnomon_engine::Options {
        let default = gnomon_engine::Options::default();
        let (storage, memory, log) = (self.storage.clone(), self.memory, self.log);
        gnomon_engine::Options {
            create: storage.create,
            disks: storage.disks,
            mirrored: storage.mirrored,
            spares: storage.spares,
            degraded: storage.degraded,
            page_bytes_min: storage.page_bytes_min,
            fill_max: storage.fill_max,
            cleaner: storage.cleaner,
            pool_bytes: memory.pool_bytes,
            escalate_bytes: memory.escalate_bytes,
            write_bytes_max: memory.write_bytes_max,
            version_bytes_max: memory.version_bytes_max,
            log_bytes_max: log.bytes_max.unwrap_or(default.log_bytes_max),
            replay_threads: log.replay_threads.unwrap_or(default.replay_threads),
            replay_bytes_max: log.replay_bytes_max.unwrap_or(default.replay_bytes_max),
            replay_weight: log.replay_weight.unwrap_or(default.replay_weight),
            sphere_pages_max: log.sphere_pages_max.unwrap_or(default.sphere_pages_max),
            recovery: self.recovery,
            commits: self.commits,
            group_commit_interval: self.group_commit_interval,
            lock_timeout: self.lock_timeout,
            prepared_max: self.prepared_max,
            operations: self.operations.clone(),
            procedures: self.procedures.iter().map(|procedure| procedure.0.clone()).collect(),
            execution: self.execution,
            ..default
        }
    }
}
