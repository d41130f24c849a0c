//! Runs the benchmark's clients and measures them.
//!
//! A transaction is long beside the time that is measured, so whatever commits in that time counts, whenever it began,
//! and when the time is over what is under way is rolled back. Counters of the engine are read at both ends of the
//! time; a wait counts as a whole when it ends.

use std::{collections::HashMap, time::Duration};

use gnomon_engine::{
    env::{Clock, Rng, SystemClock},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
        thread,
    },
};
use gnomon_objects::LevelWaits;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{
    Objects, Retry,
    choose::Plan,
    place::{At, Place},
};
use crate::{
    drive::Load,
    recovery::{self, Recovery},
    report::Invariant,
    store::{Result, StoreError},
};

/// The interval at which clients that sleep check whether the run is over.
const STEP: Duration = Duration::from_millis(20);
/// Response times are kept to three digits, up to ten minutes.
const RESPONSE_US_MAX: u64 = 600_000_000;

/// The processors: a client that is served sleeps for the service time, at most so many at a time.
pub(super) struct Service {
    time: Duration,
    free: Mutex<u32>,
    freed: Condvar,
}

impl Service {
    pub fn new(settings: &Objects) -> Service {
        Service {
            time: Duration::from_secs_f64(settings.service_ms / 1e3),
            free: Mutex::new(settings.processors),
            freed: Condvar::new(),
        }
    }

    /// Serves an access.
    pub fn serve(&self) {
        if self.time.is_zero() {
            return;
        }
        let mut free = self.free.lock();
        while *free == 0 {
            self.freed.wait(&mut free);
        }
        *free -= 1;
        drop(free);
        thread::sleep(self.time);
        *self.free.lock() += 1;
        self.freed.notify_one();
    }
}

/// The end of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Enough {
    /// Committed transactions, and half of them while warming up.
    pub transactions: u64,
    /// It takes so many times as long as it was to, at most.
    pub times_max: u32,
}

impl Enough {
    /// The time.
    pub const TIME: Enough = Enough { transactions: 0, times_max: 1 };
}

/// The additions of committed transactions to each subobject; the others have nothing.
#[derive(Debug, Default)]
pub struct Tally {
    transactions: u64,
    added: HashMap<At, u64>,
}

impl Tally {
    fn add(&mut self, changed: &[At]) {
        self.transactions += 1;
        for at in changed {
            *self.added.entry(*at).or_default() += 1;
        }
    }

    /// Committed transactions.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Adds what another has.
    pub fn merge(&mut self, other: Tally) {
        self.transactions += other.transactions;
        for (at, added) in other.added {
            *self.added.entry(at).or_default() += added;
        }
    }

    pub(super) fn of(&self, at: At) -> u64 {
        self.added.get(&at).copied().unwrap_or_default()
    }
}

/// The measurements of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The recovery method.
    #[serde(serialize_with = "recovery::serialize")]
    pub method: Recovery,
    /// The degree of multiprogramming: clients, a thread each.
    pub clients: usize,
    /// How long was measured.
    pub seconds: f64,
    /// Transactions that were committed in that time.
    pub committed: u64,
    /// The same a second.
    pub tps: f64,
    /// Attempts that ended by a deadlock.
    pub restarted: u64,
    /// Response times of the committed transactions, from their first attempts on.
    pub response: Response,
    /// Locks on pages, if there are any.
    pub pages: Option<Level>,
    /// Locks on objects and subobjects; on shadow pages, on rows.
    pub objects: Level,
    /// Operations that were run again, after a deadlock over pages or for a lock that was not free.
    pub repeated_operations: u64,
    /// Log I/Os of level 0; on shadow pages, batches.
    pub page_log: Force,
    /// Log I/Os of level 1.
    pub operation_log: Force,
    /// Persistence spheres that were written, or several at a time.
    pub units: u64,
    /// Pages in one of them, on average; on shadow pages, data pages in a batch.
    pub sphere_pages: f64,
    /// Pages in the largest of them since the database was opened, if it tells.
    pub sphere_pages_max: Option<u64>,
    /// Pages in a log I/O of level 0.
    pub pages_per_force: f64,
    /// Pages written for a committed transaction, to logs, to their places and elsewhere.
    pub pages_written: f64,
    /// Of these, to the log of pages; on shadow pages, data pages in batches.
    pub pages_logged: f64,
    /// Response times of the committed transactions, in microseconds.
    #[serde(skip)]
    pub response_us: Histogram<u64>,
}

/// Response times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Response {
    /// The mean; not a number if there are none.
    pub mean_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// 99 of 100 are not above.
    pub p99_ms: f64,
}

/// Locks at one level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Level {
    /// How long was waited for a committed transaction, restarts included.
    pub wait_ms: f64,
    /// Waits of requests, if both are counted.
    pub conflict_rate: Option<f64>,
    /// Waits that ended by a deadlock, if they are counted.
    pub deadlocks: Option<u64>,
}

/// Log I/Os at one level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Force {
    /// A second.
    pub per_second: f64,
    /// For a committed transaction.
    pub per_transaction: f64,
}

impl Measured {
    /// How long was waited for locks for a committed transaction, in milliseconds.
    pub fn wait_ms(&self) -> f64 {
        self.objects.wait_ms + self.pages.map_or(0.0, |pages| pages.wait_ms)
    }

    /// Restarts for each committed transaction.
    pub fn restarts(&self) -> f64 {
        self.restarted as f64 / self.committed as f64
    }

    /// Waits of requests, at the level of pages or, if that has no locks, at the other.
    pub fn conflict_rate(&self) -> Option<f64> {
        self.pages.map_or(self.objects.conflict_rate, |pages| pages.conflict_rate)
    }
}

/// Counters at one end of the time that is measured.
#[derive(Clone, Copy, Default)]
struct Counts {
    at: Duration,
    committed: u64,
    restarted: u64,
    pages: LevelWaits,
    objects: LevelWaits,
    repeated_operations: u64,
    page_forces: u64,
    operation_forces: u64,
    units: u64,
    unit_pages: u64,
    unit_pages_max: u64,
    pages_written: u64,
}

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

/// The state that the clients of a run share.
struct Run<'a> {
    place: &'a Place,
    settings: &'a Objects,
    service: Service,
    clock: SystemClock,
    phase: AtomicU8,
    committed: AtomicU64,
    restarted: AtomicU64,
}

/// The results of a client.
struct Done {
    tally: Tally,
    response_us: Histogram<u64>,
}

/// Runs clients on a database, for the time that the load says, and longer until it is enough. Returns also what they
/// have committed, to be compared with what the database has, best when it was opened again ([`Tally::check`]): figures
/// count for nothing before that.
///
/// # Errors
/// The first failure of a client, and that the run was canceled.
pub fn measure(place: &Place, settings: &Objects, load: &Load, enough: Enough) -> Result<(Measured, Tally)> {
    settings.check()?;
    let run = Run {
        place,
        settings,
        service: Service::new(settings),
        clock: SystemClock::new(),
        phase: AtomicU8::new(WARMING_UP),
        committed: AtomicU64::new(0),
        restarted: AtomicU64::new(0),
    };
    let mut seeds = Rng::from_seed(load.seed);
    let (before, after, done) = thread::scope(|scope| {
        let run = &run;
        let clients: Vec<_> = (0..load.clients)
            .map(|_| {
                let rng = Rng::from_seed(seeds.next_u64());
                scope.spawn(move || run.client(rng))
            })
            .collect();
        run.wait(
            load.warm_up,
            load.measured,
            Enough { transactions: enough.transactions / 2, ..enough },
            load,
        );
        let before = run.counts();
        // Unless a client has failed meanwhile.
        let _ = run.phase.compare_exchange(WARMING_UP, MEASURING, Ordering::AcqRel, Ordering::Acquire);
        run.wait(load.measured, load.measured, enough, load);
        run.phase.store(STOPPED, Ordering::Release);
        let after = run.counts();
        let done: Vec<Result<Done>> = clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        (before, after, done)
    });
    if load.cancel.load(Ordering::Acquire) {
        return Err(StoreError::unexpected("canceled"));
    }
    let mut all = Done::default();
    for one in done {
        let one = one?;
        all.tally.merge(one.tally);
        all.response_us.add(&one.response_us).expect("all histograms have the same bounds");
    }
    Ok((measured(place.method(), load.clients, &before, &after, all.response_us), all.tally))
}

impl Tally {
    /// Compares every subobject of a database with what was added to it.
    ///
    /// # Errors
    /// Those of the database.
    pub fn invariant(&self, place: &Place, settings: &Objects) -> Result<Invariant> {
        let broken = place.compare(settings, self)?;
        Ok(Invariant {
            holds: broken.is_none(),
            detail: broken.unwrap_or_else(|| {
                let changes: u64 = self.added.values().sum();
                format!(
                    "{} committed transactions made the {changes} changes that are stored",
                    self.transactions
                )
            }),
        })
    }

    /// The same.
    ///
    /// # Errors
    /// The first that differs.
    pub fn check(&self, place: &Place, settings: &Objects) -> Result<()> {
        match self.invariant(place, settings)? {
            Invariant { holds: true, .. } => Ok(()),
            Invariant { detail, .. } => {
                Err(StoreError::unexpected(format!("the invariant is broken: {detail}")))
            }
        }
    }
}

impl Default for Done {
    fn default() -> Done {
        let response_us =
            Histogram::new_with_max(RESPONSE_US_MAX, 3).expect("the bounds are constants that fit");
        Done { tally: Tally::default(), response_us }
    }
}

impl Run<'_> {
    fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Acquire) == STOPPED
    }

    /// Sleeps for a time, and longer until it is enough, measured by another time.
    fn wait(&self, least: Duration, measured: Duration, enough: Enough, load: &Load) {
        let (begin, committed) = (self.clock.now(), self.committed.load(Ordering::Relaxed));
        self.sleep(least, &load.cancel);
        let is_enough = || {
            self.committed.load(Ordering::Relaxed) - committed >= enough.transactions
                || self.clock.now() - begin >= measured * enough.times_max
        };
        while !is_enough() && !self.is_stopped() && !load.cancel.load(Ordering::Acquire) {
            self.sleep(STEP, &load.cancel);
        }
    }

    /// Sleeps, in steps, so that what ends the run early is seen soon.
    fn sleep(&self, duration: Duration, cancel: &AtomicBool) {
        let until = self.clock.now() + duration;
        while !self.is_stopped() && !cancel.load(Ordering::Acquire) {
            let left = until.saturating_sub(self.clock.now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(STEP));
        }
    }

    fn client(&self, rng: Rng) -> Result<Done> {
        let result = self.run_transactions(rng);
        if result.is_err() {
            self.phase.store(STOPPED, Ordering::Release);
        }
        result
    }

    fn run_transactions(&self, mut rng: Rng) -> Result<Done> {
        let never = AtomicBool::new(false);
        let mut done = Done::default();
        let mut changed = Vec::new();
        while !self.is_stopped() {
            let mut plan = Plan::choose(self.settings, &mut rng);
            let began = self.clock.now();
            let mut attempted = began;
            loop {
                match self.place.attempt(&plan, &self.service, || self.is_stopped(), &mut changed) {
                    Ok(()) => break,
                    Err(StoreError::Retry) if self.is_stopped() => return Ok(done),
                    Err(StoreError::Retry) => {}
                    Err(error) => return Err(error),
                }
                self.restarted.fetch_add(1, Ordering::Relaxed);
                match self.settings.retry {
                    Retry::Same => {}
                    Retry::Delayed => {
                        let taken = self.clock.now().saturating_sub(attempted);
                        self.sleep(taken.mul_f64(rng.unit()), &never);
                    }
                    Retry::New => plan = Plan::choose(self.settings, &mut rng),
                }
                attempted = self.clock.now();
            }
            done.tally.add(&changed);
            self.committed.fetch_add(1, Ordering::Relaxed);
            if self.phase.load(Ordering::Acquire) == MEASURING {
                let response_us = (self.clock.now() - began).as_micros();
                done.response_us.saturating_record(u64::try_from(response_us).unwrap_or(RESPONSE_US_MAX));
            }
        }
        Ok(done)
    }

    fn counts(&self) -> Counts {
        let counts = Counts {
            at: self.clock.now(),
            committed: self.committed.load(Ordering::Relaxed),
            restarted: self.restarted.load(Ordering::Relaxed),
            ..Counts::default()
        };
        if let Some(database) = self.place.objects() {
            let done = database.activity();
            return Counts {
                pages: done.pages,
                objects: done.objects,
                repeated_operations: done.repeated_operations,
                page_forces: done.store.redo_forces,
                operation_forces: done.store.ops_forces,
                units: done.store.units,
                unit_pages: done.store.unit_pages,
                unit_pages_max: done.store.unit_pages_max,
                pages_written: done.store.unit_pages + done.store.placed_pages,
                ..counts
            };
        }
        let Some(database) = self.place.trees() else { return counts };
        let stats = database.stats();
        let (waits, done) = (stats.lock_waits, stats.activity);
        Counts {
            objects: LevelWaits { waits: waits.count, time: waits.time, ..LevelWaits::default() },
            page_forces: done.batches,
            operation_forces: done.log_forces,
            units: done.batches,
            unit_pages: done.data_pages,
            pages_written: done.pages_written(),
            ..counts
        }
    }
}

fn measured(
    method: Recovery,
    clients: usize,
    before: &Counts,
    after: &Counts,
    response_us: Histogram<u64>,
) -> Measured {
    let of = |count: fn(&Counts) -> u64| count(after) - count(before);
    let seconds = (after.at - before.at).as_secs_f64();
    let committed = of(|counts| counts.committed);
    let per_transaction = |what: f64| what / committed.max(1) as f64;
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    let ms = |us: u64| us as f64 / 1e3;
    let level = |waits: fn(&Counts) -> LevelWaits, counts_all: bool| {
        let (before, after) = (waits(before), waits(after));
        Level {
            wait_ms: per_transaction((after.time - before.time).as_secs_f64() * 1e3),
            conflict_rate: counts_all
                .then(|| ratio(after.waits - before.waits, after.requests - before.requests)),
            deadlocks: counts_all.then(|| after.deadlocks - before.deadlocks),
        }
    };
    let force = |forces: u64| Force {
        per_second: forces as f64 / seconds,
        per_transaction: per_transaction(forces as f64),
    };
    let has_levels = matches!(method, Recovery::PageLog(_));
    Measured {
        method,
        clients,
        seconds,
        committed,
        tps: committed as f64 / seconds,
        restarted: of(|counts| counts.restarted),
        response: Response {
            mean_ms: if response_us.is_empty() { f64::NAN } else { response_us.mean() / 1e3 },
            p50_ms: ms(response_us.value_at_quantile(0.5)),
            p99_ms: ms(response_us.value_at_quantile(0.99)),
        },
        pages: has_levels.then(|| level(|counts| counts.pages, true)),
        objects: level(|counts| counts.objects, has_levels),
        repeated_operations: of(|counts| counts.repeated_operations),
        page_log: force(of(|counts| counts.page_forces)),
        operation_log: force(of(|counts| counts.operation_forces)),
        units: of(|counts| counts.units),
        sphere_pages: ratio(of(|counts| counts.unit_pages), of(|counts| counts.units)),
        sphere_pages_max: has_levels.then_some(after.unit_pages_max),
        pages_per_force: ratio(of(|counts| counts.unit_pages), of(|counts| counts.page_forces)),
        pages_written: per_transaction(of(|counts| counts.pages_written) as f64),
        pages_logged: per_transaction(of(|counts| counts.unit_pages) as f64),
        response_us,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        objects::{Loaded, place::object_options},
        recovery::{VALUE_LOG, without_calls},
    };
    use gnomon_engine::sync::Arc;

    fn load(clients: usize) -> Load {
        Load {
            clients,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(200),
            seed: 7,
            cancel: Arc::default(),
        }
    }

    #[test]
    fn every_method_keeps_the_invariant_also_after_opening_again_and_a_broken_one_is_noticed() {
        for (method, retry) in
            without_calls().zip([Retry::Same, Retry::Delayed, Retry::New].into_iter().cycle())
        {
            let settings = Objects { retry, ..Objects::small() };
            let (dir, options) = (tempfile::tempdir().unwrap(), object_options(&settings));
            let path = dir.path().join("database");
            let loaded =
                Loaded::make(method, &settings, options.clone(), path, 3, &AtomicBool::new(false)).unwrap();
            let place = loaded.open(&settings, options.clone()).unwrap();
            let (measured, mut tally) = measure(&place, &settings, &load(4), Enough::TIME).unwrap();
            assert!(measured.committed > 0 && measured.seconds >= 0.2, "{measured:?}");
            let forces = measured.page_log.per_second + measured.operation_log.per_second;
            // With a log of commits pages wait for the next checkpoint.
            assert!(measured.pages_written > 0.0 || method == VALUE_LOG, "{measured:?}");
            assert!(forces > 0.0, "{measured:?}");
            // Served one after the other at the least.
            assert!(measured.response.p50_ms >= 1.5, "{measured:?}");
            tally.check(&place, &settings).unwrap();
            place.close().unwrap();
            let place = loaded.open(&settings, options).unwrap();
            tally.check(&place, &settings).unwrap();
            // One more than was added, to a subobject that was changed and to one that was not.
            for at in [*tally.added.keys().next().unwrap(), (0, 0)] {
                *tally.added.entry(at).or_default() += 1;
                let error = tally.check(&place, &settings).unwrap_err().to_string();
                assert!(error.starts_with("the invariant is broken"), "{error}");
                *tally.added.get_mut(&at).unwrap() -= 1;
            }
        }
    }

    #[test]
    fn no_more_are_served_at_a_time_than_there_are_processors() {
        let settings = Objects { service_ms: 20.0, processors: 2, ..Objects::small() };
        let (service, clock) = (Service::new(&settings), SystemClock::new());
        thread::scope(|scope| {
            (0..6).for_each(|_| drop(scope.spawn(|| service.serve())));
        });
        let taken = clock.now();
        assert!((Duration::from_millis(60)..Duration::from_millis(110)).contains(&taken), "{taken:?}");
        assert_eq!(*service.free.lock(), 2);
    }
}
