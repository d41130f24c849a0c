//! Workloads over tables, and the parts that they have in common: duration, place and clients of a run; loading; and the
//! course of a run.
//!
//! Promises: a workload that is a [`Workload`] runs in this process and on a server in the same way ([`bench()`]): its
//! tables are made anew and loaded, its clients run in a closed loop, and then its invariant is checked, in this
//! process once more after closing and opening the database. Whatever fails or is canceled leaves no report.

pub mod counter;
pub mod hotspot;
pub mod inserts;
pub mod stock;
pub mod tpcb;
pub mod zipf;

use std::{path::PathBuf, time::Duration};

use gnomon_engine::{
    Options,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use gnomon_program::Progress;
use serde::Serialize;

use crate::{
    drive::{Load, Measured},
    recovery::{self, Recovery},
    report::{Invariant, Report, Storage},
    store::{
        GnomonStore, Layout, Result, Row, Store, StoreError, Table,
        server::{Server, SqlStore},
    },
    workspace::directory_of,
};

/// Rows that are loaded in one transaction.
const CHUNK_ROWS: u64 = 10_000;

/// Transactions over tables, with something that holds of these at the end. Its fields are its own settings.
pub trait Workload: Serialize {
    /// Its name.
    const NAME: &'static str;
    /// Its tables.
    const TABLES: &'static [Layout];

    /// Puts into a store's empty tables what is there at the beginning. `cancel` ends it early, which then fails.
    fn load(&self, store: &dyn Store, progress: &mut Progress, cancel: &AtomicBool) -> Result<()>;

    /// Runs the clients' closed loop. Each client has at most so many transactions under way that are not durable yet.
    fn run(&self, store: &dyn Store, load: &Load, outstanding: usize) -> Result<Measured>;

    /// Compares the stored data with the changes of `committed` transactions.
    fn check(&self, store: &dyn Store, committed: u64) -> Result<Invariant>;
}

/// How a workload runs, whichever it is.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Clients, a thread each.
    pub clients: usize,
    /// How long to run before measuring, in seconds.
    pub warm_up_seconds: f64,
    /// How long to measure, in seconds.
    pub measured_seconds: f64,
    /// True if additions take semantic locks, false if they lock rows exclusively. Servers other than Gnomon's are not told.
    #[serde(skip)]
    pub semantic_locks: bool,
    /// Where it runs.
    #[serde(flatten)]
    pub place: Place,
}

/// Where a workload runs.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// On a new database of Gnomon's in this process.
    Process {
        /// How the database survives a crash.
        #[serde(serialize_with = "recovery::serialize")]
        recovery: Recovery,
        /// How many transactions each client has under way that are not durable yet: see [`drive`](crate::drive::drive).
        outstanding: usize,
        /// How long commits wait for others before they are made durable together.
        group_commit_ms: f64,
        /// The buffer pool's size.
        pool_mib: usize,
        /// The database's directory; none takes a temporary one and removes it afterwards.
        dir: Option<PathBuf>,
    },
    /// On a server, by SQL.
    Server(Box<Server>),
}

/// A workload's own settings, and those that all have.
#[derive(Serialize)]
struct AllSettings<'a, W> {
    #[serde(flatten)]
    own: &'a W,
    #[serde(flatten)]
    common: &'a Settings,
    semantic_locks: Option<bool>,
}

/// Loads a workload's tables, runs its clients, and checks its invariant. `cancel` ends it early, which then fails.
pub fn bench<W: Workload>(
    workload: &W,
    settings: &Settings,
    seed: u64,
    progress: &mut Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Report> {
    let load = Load {
        clients: settings.clients,
        warm_up: Duration::from_secs_f64(settings.warm_up_seconds),
        measured: Duration::from_secs_f64(settings.measured_seconds),
        seed,
        cancel: cancel.clone(),
    };
    // Servers other than Gnomon's have no semantic locks.
    let mut semantic_locks = Some(settings.semantic_locks);
    let mut storage = None;
    let (name, measured, invariant) = match &settings.place {
        Place::Process { recovery, outstanding, group_commit_ms, pool_mib, dir } => {
            let (directory, _temporary) = directory_of(dir.as_deref())?;
            let pool_bytes = pool_mib << 20;
            let options = Options {
                pool_bytes,
                recovery: Some(*recovery),
                group_commit_interval: Duration::from_secs_f64(group_commit_ms / 1000.0),
                ..Options::default()
            };
            let store = GnomonStore::create(&directory, W::TABLES.len(), options)?;
            let store = store.with_semantic_locks(settings.semantic_locks);
            let name = store.name().to_owned();
            let (measured, mut invariant) = run(workload, &store, &load, *outstanding, progress)?;
            // What was committed and waits for its batch is written work, too.
            store.checkpoint()?;
            storage = Some(Storage::of(&store.database().stats()));
            store.close()?;
            if invariant.holds {
                let reopened = GnomonStore::open(&directory, pool_bytes)?;
                invariant = workload.check(&reopened, measured.committed_in_all)?;
                invariant.detail +=
                    if invariant.holds { ", also after reopening" } else { " after reopening" };
                reopened.close()?;
            }
            (name, measured, invariant)
        }
        Place::Server(server) => {
            let store = SqlStore::create(server, W::TABLES, settings.clients, settings.semantic_locks)?;
            semantic_locks = store.semantic_locks();
            let (measured, invariant) = run(workload, &store, &load, 1, progress)?;
            (store.name().to_owned(), measured, invariant)
        }
    };
    let settings = AllSettings { own: workload, common: settings, semantic_locks };
    let report = Report::new(W::NAME, &name, &settings, seed, &measured, invariant);
    Ok(report.with_storage(storage))
}

fn run<W: Workload>(
    workload: &W,
    store: &dyn Store,
    load: &Load,
    outstanding: usize,
    progress: &mut Progress,
) -> Result<(Measured, Invariant)> {
    workload.load(store, progress, &load.cancel)?;
    let measured = workload.run(store, load, outstanding)?;
    let invariant = workload.check(store, measured.committed_in_all)?;
    Ok((measured, invariant))
}

/// Rows with the keys from zero to below a number.
pub struct Rows<'a> {
    /// Their table.
    pub table: Table,
    /// How many they are.
    pub count: u64,
    /// Makes the value of a key.
    pub value: &'a dyn Fn(u64) -> Vec<u8>,
}

/// Loads rows into a store's empty tables. `cancel` ends it early, which then fails.
pub fn load_rows(
    store: &dyn Store,
    tables: &[Rows<'_>],
    progress: &mut Progress,
    cancel: &AtomicBool,
) -> Result<()> {
    let total = tables.iter().map(|rows| rows.count).sum();
    let mut done = 0;
    for rows in tables {
        for start in (0..rows.count).step_by(CHUNK_ROWS as usize) {
            if cancel.load(Ordering::Acquire) {
                return Err(StoreError::unexpected("canceled"));
            }
            let end = rows.count.min(start + CHUNK_ROWS);
            let chunk: Vec<Row> =
                (start..end).map(|key| (key.to_be_bytes().to_vec(), (rows.value)(key))).collect();
            store.load(rows.table, &chunk)?;
            done += end - start;
            progress.set(done, total);
        }
    }
    Ok(())
}

/// Milliseconds that a transaction thinks.
pub fn think(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// Sleeps within a transaction, unless it is not to.
pub fn sleep(think: Duration) {
    if !think.is_zero() {
        thread::sleep(think);
    }
}

/// The number of a key that is one.
pub fn key_number(key: &[u8]) -> Result<u64> {
    key.try_into().map(u64::from_be_bytes).map_err(|_| StoreError::unexpected("a key is no number"))
}

/// A number of a value that is not at its head.
pub fn value_number(value: &[u8], index: usize) -> Result<i64> {
    value
        .get(index * 8..)
        .and_then(|rest| rest.first_chunk())
        .map(|bytes| i64::from_le_bytes(*bytes))
        .ok_or_else(|| StoreError::unexpected("a row is shorter than its numbers"))
}

/// Settings of a short run for tests.
#[cfg(test)]
pub(crate) fn short_run(dir: Option<PathBuf>, semantic_locks: bool) -> Settings {
    Settings {
        clients: 4,
        warm_up_seconds: 0.05,
        measured_seconds: 0.2,
        semantic_locks,
        place: Place::Process {
            recovery: Recovery::Shadow,
            outstanding: 1,
            group_commit_ms: 0.0,
            pool_mib: 4,
            dir,
        },
    }
}
