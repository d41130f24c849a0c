//! A closed loop: each client runs one transaction after another, as fast as it is answered.
//!
//! Promises: what is measured began after the warm-up and ended before the stop; a transaction that has to be run
//! again counts as aborted, and its latency runs from its first attempt; the first failure of a client ends the run.
//! Every client is seeded by the run's seed and its own number, so that each repeats its operations.

use std::time::Duration;

use gnomon::{
    env::{Clock, Rng, SystemClock},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
        thread,
    },
};
use hdrhistogram::Histogram;

use crate::store::{Result, StoreError};

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

/// What a run did.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// Transactions that were committed while it was measured.
    pub committed: u64,
    /// Attempts that had to be run again while it was measured.
    pub aborted: u64,
    /// Committed transactions of the whole run, warm-up included.
    pub committed_in_all: u64,
    /// Latencies of the committed transactions, in microseconds.
    pub latency_us: Histogram<u64>,
}

/// A client of a workload.
pub trait Client: Send {
    /// Chooses the next transaction.
    fn choose(&mut self, rng: &mut Rng);
    /// Runs it until it is durable; called again if it returns [`StoreError::Retry`].
    fn attempt(&mut self) -> Result<()>;
}

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

/// Latencies are kept to three digits, up to a minute.
const LATENCY_US_MAX: u64 = 60_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_US_MAX, 3).expect("the bounds are constants that fit")
}

/// Runs the clients that `client` makes, one for each number below `load.clients`.
///
/// # Errors
/// The first failure of a client, or that the run was canceled.
pub fn drive<C: Client>(load: &Load, client: impl Fn(usize) -> C) -> Result<Measured> {
    let clock = SystemClock::new();
    let phase = AtomicU8::new(WARMING_UP);
    let mut seeds = Rng::from_seed(load.seed);
    let clients: Vec<(C, Rng)> =
        (0..load.clients).map(|number| (client(number), Rng::from_seed(seeds.next_u64()))).collect();
    thread::scope(|scope| {
        let (clock, phase) = (&clock, &phase);
        let threads: Vec<_> = clients
            .into_iter()
            .map(|(client, rng)| scope.spawn(move || run_client(client, rng, clock, phase)))
            .collect();
        sleep_unless_stopped(load.warm_up, phase, &load.cancel);
        let began = clock.now();
        // Unless a client has failed meanwhile.
        let _ = phase.compare_exchange(WARMING_UP, MEASURING, Ordering::AcqRel, Ordering::Acquire);
        sleep_unless_stopped(load.measured, phase, &load.cancel);
        phase.store(STOPPED, Ordering::Release);
        let seconds = (clock.now() - began).as_secs_f64();
        let mut all =
            Measured { seconds, committed: 0, aborted: 0, committed_in_all: 0, latency_us: histogram() };
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(one)) => {
                    all.committed += one.committed;
                    all.aborted += one.aborted;
                    all.committed_in_all += one.committed_in_all;
                    all.latency_us.add(&one.latency_us).expect("all histograms have the same bounds");
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match failure {
            Some(error) => Err(error),
            None if load.cancel.load(Ordering::Acquire) => Err(StoreError::unexpected("canceled")),
            None => Ok(all),
        }
    })
}

/// Sleeps in steps, so that a failure shows soon.
fn sleep_unless_stopped(duration: Duration, phase: &AtomicU8, cancel: &AtomicBool) {
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

fn run_client(
    mut client: impl Client,
    mut rng: Rng,
    clock: &dyn Clock,
    phase: &AtomicU8,
) -> Result<Measured> {
    let mut one =
        Measured { seconds: 0.0, committed: 0, aborted: 0, committed_in_all: 0, latency_us: histogram() };
    let mut now = phase.load(Ordering::Acquire);
    while now != STOPPED {
        client.choose(&mut rng);
        let began = clock.now();
        let mut aborted = 0;
        let committed = loop {
            match client.attempt() {
                Ok(()) => break true,
                Err(StoreError::Retry) => aborted += 1,
                Err(error) => {
                    phase.store(STOPPED, Ordering::Release);
                    return Err(error);
                }
            }
            if phase.load(Ordering::Acquire) == STOPPED {
                break false;
            }
        };
        let latency = clock.now() - began;
        one.committed_in_all += u64::from(committed);
        let before = std::mem::replace(&mut now, phase.load(Ordering::Acquire));
        if before == MEASURING && now == MEASURING {
            one.aborted += aborted;
            one.committed += u64::from(committed);
            let latency_us = u64::try_from(latency.as_micros()).unwrap_or(LATENCY_US_MAX);
            one.latency_us.saturating_record(latency_us);
        }
    }
    Ok(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnomon::sync::Mutex;

    struct Counter {
        attempts: u64,
        chosen: Vec<u64>,
        seen: Arc<Mutex<Vec<Vec<u64>>>>,
        fail: bool,
    }

    impl Client for Counter {
        fn choose(&mut self, rng: &mut Rng) {
            self.chosen.push(rng.next_u64());
        }

        fn attempt(&mut self) -> Result<()> {
            self.attempts += 1;
            thread::sleep(Duration::from_micros(200));
            match self.attempts {
                20 if self.fail => Err(StoreError::unexpected("broken")),
                attempts if attempts % 3 == 0 => Err(StoreError::Retry),
                _ => Ok(()),
            }
        }
    }

    impl Drop for Counter {
        fn drop(&mut self) {
            self.seen.lock().push(std::mem::take(&mut self.chosen));
        }
    }

    fn run(fail: bool) -> (Result<Measured>, Vec<Vec<u64>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let load = Load {
            clients: 2,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(100),
            seed: 7,
            cancel: Arc::default(),
        };
        let result = drive(&load, |_| Counter { attempts: 0, chosen: Vec::new(), seen: seen.clone(), fail });
        let mut seen = std::mem::take(&mut *seen.lock());
        seen.iter_mut().for_each(|chosen| chosen.truncate(10));
        seen.sort();
        (result, seen)
    }

    #[test]
    fn what_is_measured_adds_up_and_a_seed_repeats_its_operations() {
        let (measured, first) = run(false);
        let measured = measured.unwrap();
        assert!(measured.committed > 0 && measured.aborted > 0, "{measured:?}");
        assert!(measured.committed < measured.committed_in_all, "the warm-up is not measured");
        assert_eq!(measured.latency_us.len(), measured.committed);
        assert!(measured.latency_us.min() >= 150 && measured.seconds >= 0.1);
        assert!(first[0] != first[1] && run(false).1 == first);
    }

    #[test]
    fn a_failure_of_one_client_ends_the_run() {
        assert_eq!(run(true).0.unwrap_err().to_string(), "broken");
    }
}
