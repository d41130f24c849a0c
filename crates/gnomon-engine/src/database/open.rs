//! Opening a database: its store, its recovery method, and what runs on top of them.

use std::path::Path;

use super::{Database, Parts, background::Background, disks::set::Disks, options::Options};
use crate::{
    Error, Result,
    access::Directory,
    disk::{DiskSet, MemDisk},
    env::{Clock, SystemClock},
    mvcc::{Keyspace, Timeline, lock_manager},
    op::Registry,
    procedure::{Executors, Procedures, Rerun},
    recovery::{self, Access, BYTES_OF_RUN, Opened, Recovering, Recovery},
    store::Store,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    txn::{AllPrepared, Handle, Shared, restore_prepared},
};

/// The number of the first tree that a replay makes and drops. No other trees have such numbers.
const REPLAY_TREES: u64 = 1 << 62;

/// An error with the path that was given, if it does not say which one it is of.
fn with_path(error: Error, given: &Path) -> Error {
    match error {
        Error::NotADatabase { path, detail } if path.is_empty() => {
            Error::NotADatabase { path: given.display().to_string(), detail }
        }
        error => error,
    }
}

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
        if options.create {
            let has_spares = !options.spares.is_empty();
            let wants_disks = !options.disks.is_empty() || options.mirrored || has_spares;
            let recovery = options.recovery_of_new();
            let mirrored = options.mirrored;
            recovery::check_disks(path.as_ref(), recovery, wants_disks, has_spares, mirrored)?;
        }
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
        let recovery = options.recovery_of_new().unwrap_or_else(Recovery::in_memory);
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
        options.check()?;
        let executors = Executors::new(options.execution)?;
        let operations = Registry::new(&options.operations)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let setup = options.setup(access, &clock);
        let Opened { store, method } = recovery::open(&mut disks, &setup, prepare)?;
        store.set_commit_interval(options.group_commit_interval);
        let locks = lock_manager(&operations, clock.clone());
        let directory = match store.is_new() {
            false => Directory::open(store.first_page()),
            true if store.is_read_only() => {
                let detail = "nothing was ever committed to it".into();
                return Err(Error::NotADatabase { path: String::new(), detail });
            }
            true => method.create_directory(&locks)?,
        };
        assert_eq!(
            directory.tree().root(),
            store.first_page(),
            "the directory is the first thing in a store"
        );
        let procedures = Procedures::new(&options.procedures, directory.procedures(&store)?)?;
        let timeline = Timeline::new(store.last_csn(), options.version_bytes_max);
        let keyspace =
            Keyspace::new(store, directory, timeline, locks, operations, executors.is_some(), REPLAY_TREES);
        let inner = Arc::new(Shared {
            keyspace,
            properties: method.properties(),
            method,
            prepared: AllPrepared::new(options.prepared_max),
            lock_timeout: options.lock_timeout,
            escalate_bytes: options.escalate_bytes,
            write_bytes_max: options.write_bytes_max,
            commits: options.commits,
            executors: options.execution.executors(),
            is_open: AtomicBool::new(false),
            replicator: OnceLock::new(),
        });
        let disks = Arc::new(Disks::new(disks, options.spares.clone()));
        let parts = Parts {
            background: Background::new(&inner, &disks, &clock, options.cleaner),
            inner: inner.clone(),
            executors,
            procedures,
            disks,
            clock,
            closing: Mutex::new(Some(Err(Error::Closed))),
        };
        let db = Database(Arc::new(Handle { inner, host: Box::new(parts) }));
        db.recover(access, progress)?;
        Ok(db)
    }

    /// Brings the trees to the state of the last commit, and opens the database to transactions.
    fn recover(&self, access: Access, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let (inner, parts) = (&self.0.inner, self.parts());
        let calls = Rerun::new(&self.0, &parts.procedures);
        inner.method.recover(&inner.keyspace, Recovering { access, calls: &calls, progress })?;
        if access == Access::Write {
            inner.method.store_procedures(&inner.keyspace, parts.procedures.unstored())?;
        }
        inner.set_next_tree(inner.directory.last(&inner.store)?.0 + 1);
        restore_prepared(inner)?;
        *parts.closing.lock() = None;
        inner.is_open.store(true, Ordering::Release);
        if access == Access::Write {
            if inner.directory.dropped(&inner.store, |_| false)?.is_some() {
                parts.background.reclaim();
            }
            parts.background.maintain();
        }
        if let Some(executors) = &parts.executors {
            executors.start(&self.0, &parts.clock);
        }
        Ok(())
    }
}
