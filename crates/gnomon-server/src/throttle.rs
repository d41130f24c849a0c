//! Slows the guessing of passwords down, for each address on its own.
//!
//! The first [`FREE`] wrong passwords from an address cost nothing. After each further one the address waits for its
//! next try, twice as long each time, up to [`DELAY_MAX`]. The wait comes before the exchange: a wrong password cannot
//! be told from a right one by a quick answer. Tries that began while the address was not slowed are looked at one after
//! another: one that comes to its end behind too many wrong passwords waits like a new one before its proof is looked
//! at, so that guesses side by side are no faster. Tries of an address that waits already queue up, each for its own
//! turn; those that would wait too long, or be too many, are refused at once and hold no place among the connections. A
//! turn that ends without a wrong password is given back, so that right ones of the same address follow without a pause.
//!
//! A network of 64 bits counts as one address of IPv6, since one customer has all of it, and all Unix-domain sockets as
//! one. The table holds [`ADDRESSES_MAX`] addresses, and forgets the one that failed the longest time ago. An address
//! without a failure for [`FORGET`] is as new; a right password forgives nothing, since the guesser may know one.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use gnomon_engine::sync::Mutex;

/// Wrong passwords of an address that cost nothing.
pub(crate) const FREE: u32 = 5;
const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(10);
/// One that would wait longer is refused.
const WAIT_MAX: Duration = DELAY_MAX;
/// Tries of a slowed address that may be under way.
const UNDER_WAY_MAX: u32 = 8;
const FORGET: Duration = Duration::from_secs(15 * 60);
const ADDRESSES_MAX: usize = 4096;

/// The clients that count as one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Unix,
    V4(Ipv4Addr),
    /// The first four of eight numbers.
    V6([u16; 4]),
}

impl Source {
    /// Returns the source of a connection from an address, or from a Unix-domain socket.
    pub(crate) fn of(address: Option<IpAddr>) -> Source {
        match address.map(|address| address.to_canonical()) {
            None => Source::Unix,
            Some(IpAddr::V4(address)) => Source::V4(address),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Source::V6([a, b, c, d])
            }
        }
    }
}

/// An address with wrong passwords. Times are of the server's clock.
#[derive(Default)]
struct Entry {
    failures: u32,
    last_failure: Duration,
    /// The time when the next try may begin.
    free_at: Duration,
    under_way: u32,
    /// True if a refusal was told of since the last failure.
    is_told: bool,
}

/// The addresses that are slowed down.
#[derive(Default)]
pub(crate) struct Throttle {
    entries: Mutex<HashMap<Source, Entry>>,
}

/// The answer to an address that wants to try a password.
pub(crate) enum Permit<'a> {
    /// After a while.
    Turn(Turn<'a>),
    /// Not before this time has passed.
    Refused {
        after: Duration,
        /// True for the first refusal since the last wrong password.
        is_first: bool,
    },
}

/// A try; dropped, it is over without a wrong password.
pub(crate) struct Turn<'a> {
    throttle: &'a Throttle,
    source: Source,
    /// Time that it waits before it begins.
    pub(crate) wait: Duration,
    /// Time that the next turn waits for this one; none if the address is not slowed.
    charged: Option<Duration>,
}

fn delay_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(excess) => DELAY_MIN.saturating_mul(1 << excess.min(16)).min(DELAY_MAX),
    }
}

impl Throttle {
    /// Asks for a turn at the time `now`.
    pub(crate) fn ask(&self, source: Source, now: Duration) -> Permit<'_> {
        let free = Turn { throttle: self, source, wait: Duration::ZERO, charged: None };
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&source) else { return Permit::Turn(free) };
        if now.saturating_sub(entry.last_failure) >= FORGET && entry.under_way == 0 {
            entries.remove(&source);
            return Permit::Turn(free);
        }
        let delay = delay_after(entry.failures);
        if delay.is_zero() {
            return Permit::Turn(free);
        }
        let start = entry.free_at.max(now);
        let wait = start - now;
        if wait > WAIT_MAX || entry.under_way >= UNDER_WAY_MAX {
            let is_first = !std::mem::replace(&mut entry.is_told, true);
            return Permit::Refused { after: wait, is_first };
        }
        entry.free_at = start.saturating_add(delay);
        entry.under_way += 1;
        Permit::Turn(Turn { wait, charged: Some(delay), ..free })
    }
}

impl Turn<'_> {
    /// Looks at a proof, at the time `now`: `is_wrong` tells of its result that it is a wrong password, which is
    /// counted. None, and nothing is looked at, if the address is slowed and was not when the turn was asked for: then
    /// another turn is needed.
    pub(crate) fn prove<T>(
        mut self,
        now: Duration,
        look: impl FnOnce() -> T,
        is_wrong: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let mut entries = self.throttle.entries.lock();
        let is_slowed = |entry: &Entry| !delay_after(entry.failures).is_zero();
        if self.charged.is_none() && entries.get(&self.source).is_some_and(is_slowed) {
            return None;
        }
        let result = look();
        if is_wrong(&result) {
            let entry = count_failure(&mut entries, self.source, now);
            if self.charged.take().is_some() {
                entry.under_way = entry.under_way.saturating_sub(1);
            }
        }
        Some(result)
    }
}

fn count_failure(entries: &mut HashMap<Source, Entry>, source: Source, now: Duration) -> &mut Entry {
    if entries.len() >= ADDRESSES_MAX && !entries.contains_key(&source) {
        make_room(entries);
    }
    let entry = entries.entry(source).or_default();
    entry.failures = entry.failures.saturating_add(1);
    entry.last_failure = now;
    entry.free_at = entry.free_at.max(now.saturating_add(delay_after(entry.failures)));
    entry.is_told = false;
    entry
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(charged) = self.charged else { return };
        if let Some(entry) = self.throttle.entries.lock().get_mut(&self.source) {
            entry.under_way = entry.under_way.saturating_sub(1);
            entry.free_at = entry.free_at.saturating_sub(charged);
        }
    }
}

/// Forgets the address whose last failure is the oldest.
fn make_room(entries: &mut HashMap<Source, Entry>) {
    let oldest = entries.iter().min_by_key(|(_, entry)| entry.last_failure).map(|(source, _)| *source);
    if let Some(oldest) = oldest {
        entries.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn source(number: u32) -> Source {
        Source::of(Some(IpAddr::V4(number.into())))
    }

    /// Takes a turn; none if it is refused.
    fn turn(throttle: &Throttle, source: Source, now: Duration) -> Option<Turn<'_>> {
        match throttle.ask(source, now) {
            Permit::Turn(turn) => Some(turn),
            Permit::Refused { .. } => None,
        }
    }

    /// Makes `source` fail so often, each time as soon as it may; returns when that is done.
    fn fail(throttle: &Throttle, source: Source, count: u32, mut now: Duration) -> Duration {
        for _ in 0..count {
            let turn = turn(throttle, source, now).expect("not refused");
            now += turn.wait;
            turn.prove(now, || (), |()| true);
        }
        now
    }

    #[test]
    fn wrong_passwords_take_longer_and_longer() {
        let throttle = Throttle::default();
        let mut now = fail(&throttle, source(1), FREE, Duration::ZERO);
        assert_eq!(now, Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..10 {
            let turn = turn(&throttle, source(1), now).unwrap();
            waits.push(turn.wait.as_millis());
            now += turn.wait;
            turn.prove(now, || (), |()| true);
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        // Others are not slowed.
        assert_eq!(turn(&throttle, source(2), now).unwrap().wait, Duration::ZERO);
        // In an hour of guesses without a pause.
        let begun = now;
        let mut guesses = 0;
        while now < begun + 3600 * SECOND {
            now = fail(&throttle, source(1), 1, now);
            guesses += 1;
        }
        assert_eq!(guesses, 360);
        // And all is forgotten in the end.
        assert_eq!(turn(&throttle, source(1), now + FORGET).unwrap().wait, Duration::ZERO);
        assert!(throttle.entries.lock().is_empty());
    }

    #[test]
    fn guesses_side_by_side_are_no_faster() {
        let throttle = Throttle::default();
        let now = fail(&throttle, source(1), FREE + 4, Duration::ZERO);
        let turns: Vec<_> = std::iter::from_fn(|| turn(&throttle, source(1), now)).take(100).collect();
        let waits: Vec<_> = turns.iter().map(|turn| turn.wait.as_millis()).collect();
        assert_eq!(waits, [1600, 3200, 4800, 6400, 8000, 9600], "the rest is refused");
        let refused = |expected| match throttle.ask(source(1), now) {
            Permit::Refused { after, is_first } => {
                assert!(after > WAIT_MAX && is_first == expected, "{after:?}, {is_first}");
            }
            Permit::Turn(turn) => panic!("a turn after {:?}", turn.wait),
        };
        refused(false); // the iterator's last one was the first
        for turn in turns {
            turn.prove(now + 10 * SECOND, || (), |()| true);
        }
        assert!(turn(&throttle, source(1), now + 10 * SECOND).unwrap().wait >= 10 * SECOND);
    }

    #[test]
    fn guesses_that_began_before_the_address_was_slowed_need_another_turn() {
        let throttle = Throttle::default();
        let turns: Vec<_> =
            std::iter::from_fn(|| turn(&throttle, source(1), Duration::ZERO)).take(150).collect();
        assert!(turns.iter().all(|turn| turn.wait.is_zero()));
        let proved = turns.into_iter().filter_map(|turn| turn.prove(Duration::ZERO, || (), |()| true));
        assert_eq!(proved.count(), usize::try_from(FREE).unwrap());
        assert_eq!(turn(&throttle, source(1), Duration::ZERO).unwrap().wait, DELAY_MIN);

        // A pool whose passwords are right is not slowed.
        let pool: Vec<_> = (0..100).filter_map(|_| turn(&throttle, source(2), Duration::ZERO)).collect();
        let proved = pool.into_iter().filter_map(|turn| turn.prove(Duration::ZERO, || (), |()| false));
        assert_eq!(proved.count(), 100);
    }

    #[test]
    fn right_passwords_of_a_slowed_address_follow_without_a_pause() {
        let throttle = Throttle::default();
        let mut now = fail(&throttle, source(1), FREE + 20, Duration::ZERO);
        let first = turn(&throttle, source(1), now).unwrap();
        now += first.wait;
        drop(first);
        for _ in 0..3 {
            assert_eq!(turn(&throttle, source(1), now).unwrap().wait, Duration::ZERO);
        }
        assert_eq!(throttle.entries.lock()[&source(1)].under_way, 0);
    }

    #[test]
    fn the_table_is_bounded() {
        let throttle = Throttle::default();
        let many = u32::try_from(ADDRESSES_MAX).unwrap() + 10;
        for number in 0..many {
            fail(&throttle, source(number), 1, SECOND * number);
        }
        let entries = throttle.entries.lock();
        assert_eq!(entries.len(), ADDRESSES_MAX);
        assert!(!entries.contains_key(&source(9)) && entries.contains_key(&source(10)));
    }

    #[test]
    fn what_counts_as_one_address() {
        let of = |text: &str| Source::of(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_ne!(Source::of(None), of("127.0.0.1"));
    }
}
