//! A closed loop: each client runs one transaction after another, as fast as it is answered, or is ahead of the answers
//! by so many transactions.
//!
//! Promises: what is measured began after the warm-up and ended before the stop; a transaction that has to be run
//! again counts as aborted, and its latency runs from its first attempt; one that is refused counts as such and has no
//! latency; the first failure of a client ends the run, and so does a client that says there is nothing left to do.
//! Every client is seeded by the run's seed and its own number, so that each repeats its operations.

mod window;

use std::time::Duration;

use gnomon_engine::{
    env::{Clock, Rng, SystemClock},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
        thread,
    },
};
use hdrhistogram::Histogram;

use crate::store::{Committed, Result, Store, StoreError};

pub(crate) use window::Window;

/// How long the loop runs and with how many clients.
#[derive(Clone, Debug)]
pub struct Load {
    /// Clients, a thread each.
    pub clients: usize,
    /// Before anything is measured.
    pub warm_up: Duration,
    /// How long to measure.
    pub measured: Duration,
    /// Where random numbers begin.
    pub seed: u64,
    /// Set to end the run early, which then fails.
    pub cancel: Arc<AtomicBool>,
}

/// The measurements of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// Transactions that were committed while it was measured.
    pub committed: u64,
    /// Attempts that had to be run again while it was measured.
    pub aborted: u64,
    /// Transactions that were refused while it was measured.
    pub refused: u64,
    /// Calls of procedures that were given up while it was measured: there was no place for them in a queue, or they
    /// failed for now once too often.
    pub busy: u64,
    /// Committed transactions of the whole run, warm-up included: what the workload's check is to find. Of calls, those
    /// whose answers say so.
    pub committed_in_all: u64,
    /// Latencies of the committed transactions, in microseconds.
    pub latency_us: Histogram<u64>,
    /// Of the clients' time while it was measured, the part that they waited for locks, if the store tells: a wait
    /// counts as a whole when it ends, so that of a short run it may be more than all.
    pub lock_wait_share: Option<f64>,
}

impl Measured {
    /// Of a run that has not begun.
    pub(crate) fn nothing() -> Measured {
        Measured {
            seconds: 0.0,
            committed: 0,
            aborted: 0,
            refused: 0,
            busy: 0,
            committed_in_all: 0,
            latency_us: Histogram::new_with_max(LATENCY_US_MAX, 3)
                .expect("the bounds are constants that fit"),
            lock_wait_share: None,
        }
    }

    /// Adds what another client did in the same time, or what was done of another kind of transactions.
    pub(crate) fn add(&mut self, other: &Measured) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.refused += other.refused;
        self.busy += other.busy;
        self.committed_in_all += other.committed_in_all;
        self.latency_us.add(&other.latency_us).expect("all histograms have the same bounds");
    }

    /// All kinds of transactions together.
    pub fn of_all(kinds: &[Measured]) -> Measured {
        let mut all = Measured::nothing();
        for kind in kinds {
            all.seconds = kind.seconds;
            all.add(kind);
        }
        all
    }
}

/// A client of a workload.
pub trait Client: Send {
    /// Chooses the next transaction.
    fn choose(&mut self, rng: &mut Rng);
    /// The kind of the chosen transaction: a number below that of the kinds which [`drive_kinds`] is told.
    fn kind(&self) -> usize {
        0
    }
    /// Runs it; called again if it returns [`StoreError::Retry`].
    fn attempt(&mut self) -> Result<Committed>;
    /// True if nothing is left to do, for any client.
    fn is_over(&self) -> bool {
        false
    }
}

/// The phases of a run.
pub(crate) const WARMING_UP: u8 = 0;
pub(crate) const MEASURING: u8 = 1;
pub(crate) const STOPPED: u8 = 2;

/// Latencies are kept to three digits, up to a minute.
pub(crate) const LATENCY_US_MAX: u64 = 60_000_000;

/// How far a run is, for all of its threads.
struct Stage {
    clock: SystemClock,
    phase: AtomicU8,
    /// When there was nothing left to do.
    over_at: OnceLock<Duration>,
}

/// Runs the clients that `client` makes, one for each number below `load.clients`, on a store. Each has at most so many
/// transactions under way that are committed and not durable yet; with 1 it waits for each.
///
/// # Errors
/// The first failure of a client, that the run was canceled, or that there was nothing left to measure.
pub fn drive<C: Client>(
    store: &dyn Store,
    load: &Load,
    outstanding: usize,
    client: impl FnMut(usize) -> C,
) -> Result<Measured> {
    let (kinds, lock_wait_share) = run_clients(1, load, outstanding, || store.lock_wait(), client)?;
    Ok(Measured { lock_wait_share, ..Measured::of_all(&kinds) })
}

/// As [`drive`], for clients that wait for each transaction, and whose transactions are of so many kinds. Returns what
/// was measured of each.
///
/// # Errors
/// As [`drive`].
pub fn drive_kinds<C: Client>(
    kinds: usize,
    load: &Load,
    client: impl FnMut(usize) -> C,
) -> Result<Vec<Measured>> {
    Ok(run_clients(kinds, load, 1, || None, client)?.0)
}

/// Runs the clients. Returns what was measured of each kind of transactions, and the share of time that was waited for
/// locks.
fn run_clients<C: Client>(
    kinds: usize,
    load: &Load,
    outstanding: usize,
    lock_wait: impl Fn() -> Option<Duration>,
    mut client: impl FnMut(usize) -> C,
) -> Result<(Vec<Measured>, Option<f64>)> {
    let stage = Arc::new(Stage {
        clock: SystemClock::new(),
        phase: AtomicU8::new(WARMING_UP),
        over_at: OnceLock::new(),
    });
    let mut seeds = Rng::from_seed(load.seed);
    let clients: Vec<(C, Rng)> =
        (0..load.clients).map(|number| (client(number), Rng::from_seed(seeds.next_u64()))).collect();
    thread::scope(|scope| {
        let Stage { clock, phase, over_at } = &*stage;
        let stage = &stage;
        let threads: Vec<_> = clients
            .into_iter()
            .map(|(client, rng)| scope.spawn(move || run_client(client, rng, kinds, outstanding, stage)))
            .collect();
        sleep_unless_stopped(load.warm_up, phase, &load.cancel);
        let (waited_before, began) = (lock_wait(), clock.now());
        // Unless a client has stopped it meanwhile.
        let _ = phase.compare_exchange(WARMING_UP, MEASURING, Ordering::AcqRel, Ordering::Acquire);
        sleep_unless_stopped(load.measured, phase, &load.cancel);
        phase.store(STOPPED, Ordering::Release);
        let (ended, waited) = (over_at.get().copied().unwrap_or_else(|| clock.now()), lock_wait());
        let seconds = ended.saturating_sub(began).as_secs_f64();
        let mut all = vec![Measured { seconds, ..Measured::nothing() }; kinds];
        let lock_wait_share = waited.zip(waited_before).map(|(waited, before)| {
            waited.saturating_sub(before).as_secs_f64() / (load.clients as f64 * seconds)
        });
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(one)) => all.iter_mut().zip(&one).for_each(|(all, one)| all.add(one)),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match failure {
            Some(error) => Err(error),
            None if load.cancel.load(Ordering::Acquire) => Err(StoreError::unexpected("canceled")),
            None if seconds == 0.0 => {
                Err(StoreError::unexpected("nothing was left to do when the warm-up ended: make it shorter"))
            }
            None => Ok((all, lock_wait_share)),
        }
    })
}

/// Sleeps in steps, so that a failure shows soon.
pub(crate) fn sleep_unless_stopped(duration: Duration, phase: &AtomicU8, cancel: &AtomicBool) {
    const STEP: Duration = Duration::from_millis(50);
    let clock = SystemClock::new();
    while phase.load(Ordering::Acquire) != STOPPED && !cancel.load(Ordering::Acquire) {
        let left = duration.saturating_sub(clock.now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(STEP));
    }
}

/// How a transaction ended.
enum Ended {
    Committed,
    Refused,
    /// It was to be run again when the run stopped.
    Aborted,
}

/// A transaction that a client has begun.
struct Begun {
    at: Duration,
    kind: usize,
    is_measured: bool,
    /// Attempts that had to be run again.
    aborted: u64,
}

/// The count of a client's transactions, and its wait for those that are not durable yet.
struct Tally {
    stage: Arc<Stage>,
    done: Mutex<Done>,
    window: Window,
}

struct Done {
    /// The measurements of each kind of transactions.
    kinds: Vec<Measured>,
    failure: Option<StoreError>,
}

impl Tally {
    fn count(&self, begun: &Begun, ended: Ended) {
        let stage = &self.stage;
        let taken = stage.clock.now() - begun.at;
        let is_measured = begun.is_measured && stage.phase.load(Ordering::Acquire) == MEASURING;
        let mut done = self.done.lock();
        let one = &mut done.kinds[begun.kind];
        one.committed_in_all += u64::from(matches!(ended, Ended::Committed));
        if is_measured {
            one.aborted += begun.aborted;
            match ended {
                Ended::Committed => {
                    one.committed += 1;
                    let latency_us = u64::try_from(taken.as_micros()).unwrap_or(LATENCY_US_MAX);
                    one.latency_us.saturating_record(latency_us);
                }
                Ended::Refused => one.refused += 1,
                Ended::Aborted => {}
            }
        }
    }

    /// Counts a transaction when it is durable, and has its client go on meanwhile.
    fn count_when_durable(self: &Arc<Self>, begun: Begun, committed: Committed) {
        self.window.take();
        let tally = self.clone();
        committed.then(move |durable| {
            match durable {
                Ok(()) => tally.count(&begun, Ended::Committed),
                Err(error) => {
                    tally.done.lock().failure.get_or_insert(error);
                    tally.stage.phase.store(STOPPED, Ordering::Release);
                }
            }
            tally.window.give_back();
        });
    }
}

/// Returns what it did of each kind of transactions. A failure stops the run.
fn run_client(
    client: impl Client,
    rng: Rng,
    kinds: usize,
    outstanding: usize,
    stage: &Arc<Stage>,
) -> Result<Vec<Measured>> {
    let done = Done { kinds: vec![Measured::nothing(); kinds], failure: None };
    let tally =
        Arc::new(Tally { stage: stage.clone(), done: Mutex::new(done), window: Window::new(outstanding) });
    let run = run_transactions(client, rng, outstanding, stage, &tally);
    tally.window.wait_until_empty();
    let failure = tally.done.lock().failure.take();
    run.and(failure.map_or(Ok(()), Err)).inspect_err(|_| stage.phase.store(STOPPED, Ordering::Release))?;
    let kinds = std::mem::take(&mut tally.done.lock().kinds);
    Ok(kinds)
}

fn run_transactions(
    mut client: impl Client,
    mut rng: Rng,
    outstanding: usize,
    stage: &Arc<Stage>,
    tally: &Arc<Tally>,
) -> Result<()> {
    let Stage { clock, phase, over_at } = &**stage;
    loop {
        let now = phase.load(Ordering::Acquire);
        if now == STOPPED {
            return Ok(());
        }
        client.choose(&mut rng);
        let mut begun =
            Begun { at: clock.now(), kind: client.kind(), is_measured: now == MEASURING, aborted: 0 };
        let ended = loop {
            match client.attempt() {
                Ok(committed) => break Ok(committed),
                Err(StoreError::Refused) => break Err(Ended::Refused),
                Err(StoreError::Retry) => begun.aborted += 1,
                Err(error) => return Err(error),
            }
            if phase.load(Ordering::Acquire) == STOPPED {
                break Err(Ended::Aborted);
            }
        };
        match ended {
            Ok(committed) if outstanding == 1 => {
                committed.wait()?;
                tally.count(&begun, Ended::Committed);
            }
            Ok(committed) => {
                tally.count_when_durable(begun, committed);
                tally.window.wait_for_place();
            }
            Err(ended) => tally.count(&begun, ended),
        }
        if client.is_over() {
            let _ = over_at.set(clock.now());
            phase.store(STOPPED, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Operations, Row, Table, Visitor};

    /// Clients do not ask it for anything; it tells a second of waiting at each look.
    #[derive(Default)]
    struct Nowhere(Mutex<u64>);

    impl Store for Nowhere {
        fn name(&self) -> &str {
            "nowhere"
        }

        fn load(&self, _: Table, _: &[Row]) -> Result<()> {
            Ok(())
        }

        fn run(&self, _: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
            Ok(Committed::Durable)
        }

        fn visit(&self, _: Table, _: Visitor<'_>) -> Result<()> {
            Ok(())
        }

        fn lock_wait(&self) -> Option<Duration> {
            let mut looks = self.0.lock();
            *looks += 1;
            Some(Duration::from_secs(*looks))
        }
    }

    struct Counter {
        attempts: u64,
        chosen: Vec<u64>,
        seen: Arc<Mutex<Vec<Vec<u64>>>>,
        fails: bool,
        over_after: u64,
    }

    impl Client for Counter {
        fn choose(&mut self, rng: &mut Rng) {
            self.chosen.push(rng.next_u64());
        }

        fn attempt(&mut self) -> Result<Committed> {
            self.attempts += 1;
            thread::sleep(Duration::from_micros(200));
            match self.attempts {
                20 if self.fails => Err(StoreError::unexpected("broken")),
                attempts if attempts % 3 == 0 => Err(StoreError::Retry),
                attempts if attempts % 5 == 0 => Err(StoreError::Refused),
                _ => Ok(Committed::Durable),
            }
        }

        fn is_over(&self) -> bool {
            self.attempts > self.over_after
        }
    }

    impl Drop for Counter {
        fn drop(&mut self) {
            self.seen.lock().push(std::mem::take(&mut self.chosen));
        }
    }

    fn run(
        warm_up_ms: u64,
        measured_ms: u64,
        fails: bool,
        over_after: u64,
    ) -> (Result<Measured>, Vec<Vec<u64>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let load = Load {
            clients: 2,
            warm_up: Duration::from_millis(warm_up_ms),
            measured: Duration::from_millis(measured_ms),
            seed: 7,
            cancel: Arc::default(),
        };
        let result = drive(&Nowhere::default(), &load, 1, |_| Counter {
            attempts: 0,
            chosen: Vec::new(),
            seen: seen.clone(),
            fails,
            over_after,
        });
        let mut seen = std::mem::take(&mut *seen.lock());
        seen.iter_mut().for_each(|chosen| chosen.truncate(10));
        seen.sort();
        (result, seen)
    }

    #[test]
    fn what_is_measured_adds_up_and_a_seed_repeats_its_operations() {
        let (measured, first) = run(20, 100, false, u64::MAX);
        let measured = measured.unwrap();
        assert!(measured.committed > 0 && measured.aborted > 0 && measured.refused > 0, "{measured:?}");
        assert!(measured.committed < measured.committed_in_all, "the warm-up is not measured");
        assert_eq!(measured.latency_us.len(), measured.committed);
        assert!(measured.latency_us.min() >= 150 && measured.seconds >= 0.1);
        // A second of waiting, of two clients' time.
        let share = measured.lock_wait_share.unwrap();
        assert!((share - 0.5 / measured.seconds).abs() < 1e-6, "{measured:?}");
        assert!(first[0] != first[1] && run(20, 100, false, u64::MAX).1 == first);
    }

    #[test]
    fn a_failure_of_one_client_ends_the_run() {
        assert_eq!(run(20, 100, true, u64::MAX).0.unwrap_err().to_string(), "broken");
    }

    #[test]
    fn a_run_is_over_when_nothing_is_left_to_do() {
        let measured = run(0, 60_000, false, 100).0.unwrap();
        assert!(measured.committed > 0 && measured.seconds < 30.0, "{measured:?}");
        let error = run(10_000, 60_000, false, 100).0.unwrap_err().to_string();
        assert!(error.starts_with("nothing was left to do when the warm-up ended"), "{error}");
    }
}
