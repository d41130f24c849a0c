//! Looking at a database at intervals while a workload runs on it.

use std::time::Duration;

use gnomon_bench::store::{Committed, GnomonStore, Operations, Result, Row, Store, Table, Visitor};
use gnomon_engine::{
    Activity,
    env::{Clock, SystemClock},
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};
use serde::Serialize;

/// What a run did in an interval, and how things stood at its end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sample {
    /// When the interval ended, from the run's beginning.
    pub seconds: f64,
    pub tps: f64,
    pub file_pages: u64,
    /// Live: what the durable state uses.
    pub used_pages: u64,
    /// Segments of the file, and those known to be empty.
    pub segments: u64,
    pub segments_empty: u64,
    /// In the interval, of every kind, with those moved.
    pub pages_written: u64,
    /// By the cleaner.
    pub moved_pages: u64,
    /// Of the pages written, those moved.
    pub cleaner_share: f64,
    /// Bytes written for each byte changed.
    pub write_amplification: Option<f64>,
    /// What old versions of keys take in memory.
    pub version_bytes: usize,
    /// Pages that only pinned states need.
    pub held_pages: u64,
}

impl Sample {
    /// The file's length over that of the live pages.
    pub fn file_ratio(&self) -> f64 {
        self.file_pages as f64 / self.used_pages.max(1) as f64
    }
}

/// A store whose commits are counted while it runs.
pub struct Counted<'a> {
    store: &'a GnomonStore,
    committed: AtomicU64,
}

impl<'a> Counted<'a> {
    /// Nothing is counted yet.
    pub fn new(store: &'a GnomonStore) -> Counted<'a> {
        Counted { store, committed: AtomicU64::new(0) }
    }
}

impl Store for Counted<'_> {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        self.store.load(table, rows)
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        self.store.run(body)?.wait()?;
        self.committed.fetch_add(1, Ordering::Relaxed);
        Ok(Committed::Durable)
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        self.store.visit(table, visit)
    }

    fn lock_wait(&self) -> Option<Duration> {
        self.store.lock_wait()
    }
}

/// Does the work, and looks at the database at intervals meanwhile.
pub fn sampled<T>(
    counted: &Counted<'_>,
    interval: Duration,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<Sample>)> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(counted, interval, &done));
        let result = work();
        done.store(true, Ordering::Release);
        let samples = sampler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((result?, samples))
    })
}

fn sample(counted: &Counted<'_>, interval: Duration, done: &AtomicBool) -> Vec<Sample> {
    const STEP: Duration = Duration::from_millis(20);
    let (database, committed) = (counted.store.database(), &counted.committed);
    let clock = SystemClock::new();
    let (mut samples, mut last) = (Vec::new(), Duration::ZERO);
    let mut before: (u64, Activity) = (committed.load(Ordering::Relaxed), database.stats().activity);
    while !done.load(Ordering::Acquire) {
        let due = last + interval;
        let now = clock.now();
        if now < due {
            thread::sleep((due - now).min(STEP));
            continue;
        }
        let stats = database.stats();
        let after = (committed.load(Ordering::Relaxed), stats.activity);
        let written = after.1.since(&before.1);
        samples.push(Sample {
            seconds: now.as_secs_f64(),
            tps: (after.0 - before.0) as f64 / (now - last).as_secs_f64(),
            file_pages: stats.file_pages,
            used_pages: stats.used_pages,
            segments: stats.segments,
            segments_empty: stats.segments_empty,
            pages_written: written.pages_written(),
            moved_pages: written.moved_pages,
            cleaner_share: written.moved_pages as f64 / written.pages_written().max(1) as f64,
            write_amplification: written.write_amplification(),
            version_bytes: stats.version_bytes,
            held_pages: stats.held_pages,
        });
        (before, last) = (after, now);
    }
    samples
}
