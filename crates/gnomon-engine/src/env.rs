//! The engine's surroundings beside the disk: time and randomness, injected so that a run can be repeated from its
//! seed; and the number of processors.
//!
//! [`SystemClock`] and [`Rng::from_entropy`] are the only doors to the real ones. A wait in the engine does not end
//! by a clock but by [`Condvar::wait_for`](crate::sync::Condvar::wait_for); clocks measure, and stamp.

use crate::sync::Mutex;
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    num::NonZero,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Returns the number of processors that this process may use; one, if the system does not tell.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time since the clock was started. Never goes back.
    fn now(&self) -> Duration;
    /// The time since 1970-01-01 00:00 UTC. May jump either way, when the system's clock is set.
    fn unix_time(&self) -> Duration;
    /// The processor time that the calling thread has used, as far as the clock knows.
    fn thread_time(&self) -> Duration {
        self.now()
    }
}

/// The clock of the system.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts the clock.
    #[expect(clippy::disallowed_methods, reason = "this is where the engine's time comes from")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the engine's time comes from")]
    fn unix_time(&self) -> Duration {
        // A system set to before 1970 has no time worth telling.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn thread_time(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).unwrap_or_default()
    }
}

/// A clock that stands still until it is told to go on.
#[derive(Debug, Default)]
pub struct ManualClock {
    start: Duration,
    elapsed: Mutex<Duration>,
}

impl ManualClock {
    /// A clock that was started at a given time since 1970-01-01 00:00 UTC.
    pub fn new(unix_time: Duration) -> ManualClock {
        ManualClock { start: unix_time, elapsed: Mutex::default() }
    }

    /// Lets time pass.
    pub fn advance(&self, duration: Duration) {
        let mut elapsed = self.elapsed.lock();
        *elapsed = elapsed.saturating_add(duration);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.elapsed.lock()
    }

    fn unix_time(&self) -> Duration {
        self.start.saturating_add(self.now())
    }
}

/// A small generator of pseudo-random numbers: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom
/// Number Generators", 2014), whose 64 bits of state make any seed a good one. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The generator of a seed: the same seed, the same numbers.
    pub fn from_seed(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// A generator that no other run repeats, seeded from what the system keys its hash tables with.
    pub fn from_entropy() -> Rng {
        Rng::from_seed(RandomState::new().build_hasher().finish())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, all equally likely (Lemire, "Fast Random Integer Generation in an Interval", 2019);
    /// zero if `bound` is.
    pub fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            // Of the 2^64 numbers, those whose low half falls below 2^64 mod bound are one too many.
            if bound == 0 || product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        // The 53 bits that an f64 holds exactly.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts a slice into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(shuttle))]
    #[test]
    fn clocks_tell_the_time() {
        let system = SystemClock::new();
        let before = system.now();
        assert!(system.now() >= before && system.unix_time() > Duration::from_secs(1_700_000_000));
        let manual = ManualClock::new(Duration::from_secs(1_000));
        manual.advance(Duration::from_secs(5));
        assert_eq!((manual.now(), manual.unix_time()), (Duration::from_secs(5), Duration::from_secs(1_005)));
    }

    #[test]
    fn a_seed_repeats_its_numbers() {
        // The first numbers of the reference implementation for this seed.
        let mut rng = Rng::from_seed(1234567);
        assert_eq!(rng.next_u64(), 6457827717110365317);
        assert_eq!(rng.next_u64(), 3203168211198807973);
        assert_ne!(Rng::from_entropy().next_u64(), Rng::from_entropy().next_u64());
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut rng = Rng::from_seed(1);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        assert!(rng.below(u64::MAX) < u64::MAX);
        assert!((0.0..1.0).contains(&rng.unit()));
        assert!(rng.chance(1, 1) && !rng.chance(0, 1));
    }

    #[test]
    fn a_shuffle_keeps_what_it_shuffles() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::from_seed(7).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
