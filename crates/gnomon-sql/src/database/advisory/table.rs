//! The table of advisory locks: holders, queues, waits, and the search for deadlocks.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use gnomon_engine::{
    Error, Interrupt,
    sync::{Arc, Condvar, Mutex, MutexGuard},
};

use crate::{Result, database::Shared};

/// The time that a wait first goes without a look at its interrupt and for deadlocks; each look doubles it.
const STEP_MIN: Duration = Duration::from_millis(5);
const STEP_MAX: Duration = Duration::from_millis(100);

/// A lock's name: one number, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

/// The strength of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

impl Mode {
    fn excludes(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    /// PostgreSQL's name of the mode.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Shared => "ShareLock",
            Mode::Exclusive => "ExclusiveLock",
        }
    }
}

/// A session: its number in the registry, which no other session has, and the number that clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) session: u64,
    pub(crate) process_id: i32,
}

/// A lock that a session holds or waits for.
pub(crate) struct Listed {
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    pub(crate) owner: Owner,
    pub(crate) granted: bool,
}

/// The ends of a wait other than the lock.
pub(super) struct Patience<'a> {
    pub(super) interrupt: &'a Interrupt,
    /// The longest wait, if there is one.
    pub(super) timeout: Option<Duration>,
    /// The time before the first search for deadlocks.
    pub(super) deadlock_after: Duration,
}

/// The advisory locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    locks: Mutex<HashMap<Key, Lock>>,
    /// Notified when a request may be granted that could not be before.
    changed: Condvar,
}

/// Holders of a lock and the queue of those that wait. A session waits for one lock at a time.
#[derive(Default)]
struct Lock {
    holders: Vec<Holder>,
    queue: Vec<Waiter>,
}

struct Holder {
    owner: Owner,
    mode: Mode,
    count: usize,
}

#[derive(Clone, Copy)]
struct Waiter {
    owner: Owner,
    mode: Mode,
}

impl Lock {
    /// The sessions that a request waits for which stands at this place of the queue: holders that exclude it, and those
    /// ahead of it.
    fn blockers(&self, request: Waiter, place: usize) -> impl Iterator<Item = u64> + '_ {
        let others = move |owner: Owner, mode: Mode| owner != request.owner && mode.excludes(request.mode);
        let holders = self.holders.iter().filter(move |holder| others(holder.owner, holder.mode));
        let ahead = self.queue[..place].iter().filter(move |waiter| others(waiter.owner, waiter.mode));
        holders.map(|holder| holder.owner.session).chain(ahead.map(|waiter| waiter.owner.session))
    }

    fn holds(&self, owner: Owner, mode: Mode) -> bool {
        self.holders.iter().any(|holder| holder.owner == owner && holder.mode == mode)
    }

    /// Grants a request at once, unless others are before it.
    fn try_grant(&mut self, request: Waiter) -> bool {
        let is_held = self.holds(request.owner, request.mode);
        if !is_held && self.blockers(request, self.queue.len()).next().is_some() {
            return false;
        }
        self.grant(request);
        true
    }

    /// Grants a request of the queue, if none of those ahead and no holder excludes it.
    fn grant_first(&mut self, request: Waiter) -> bool {
        let place = self.queue.iter().position(|waiter| waiter.owner == request.owner);
        if self.blockers(request, place.unwrap_or_default()).next().is_some() {
            return false;
        }
        self.grant(request);
        true
    }

    fn grant(&mut self, Waiter { owner, mode }: Waiter) {
        match self.holders.iter_mut().find(|holder| holder.owner == owner && holder.mode == mode) {
            Some(holder) => holder.count += 1,
            None => self.holders.push(Holder { owner, mode, count: 1 }),
        }
    }

    /// Enters a request in the queue: at its end, but ahead of requests that wait for its own session.
    fn enqueue(&mut self, request: Waiter) {
        let own = self.holders.iter().filter(|holder| holder.owner == request.owner);
        let own: Vec<Mode> = own.map(|holder| holder.mode).collect();
        let waits = |waiter: &Waiter| own.iter().any(|mode| mode.excludes(waiter.mode));
        let place = self.queue.iter().position(waits).unwrap_or(self.queue.len());
        self.queue.insert(place, request);
    }
}

impl AdvisoryLocks {
    /// Takes a lock, unless that would have to be waited for.
    pub(super) fn try_take(self: &Arc<Self>, owner: Owner, key: Key, mode: Mode) -> Option<Guard> {
        let mut locks = self.locks.lock();
        let is_granted = locks.entry(key).or_default().try_grant(Waiter { owner, mode });
        is_granted.then(|| self.guard(owner, key, mode))
    }

    /// Takes a lock when all that exclude it are gone that hold it or asked for it before.
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::LockTimeout`], [`Error::Interrupted`].
    pub(super) fn take(
        self: &Arc<Self>,
        shared: &Shared,
        owner: Owner,
        (key, mode): (Key, Mode),
        patience: &Patience<'_>,
    ) -> Result<Guard> {
        let request = Waiter { owner, mode };
        let mut locks = self.locks.lock();
        let lock = locks.entry(key).or_default();
        if lock.try_grant(request) {
            return Ok(self.guard(owner, key, mode));
        }
        lock.enqueue(request);
        let outcome = self.wait(&mut locks, shared, (key, request), patience);
        if let Some(lock) = locks.get_mut(&key) {
            lock.queue.retain(|waiter| waiter.owner != owner);
            if lock.holders.is_empty() && lock.queue.is_empty() {
                locks.remove(&key);
            }
        }
        self.changed.notify_all();
        outcome.map(|()| self.guard(owner, key, mode)).map_err(Into::into)
    }

    /// Waits until a request in the queue is granted.
    fn wait(
        &self,
        locks: &mut MutexGuard<'_, HashMap<Key, Lock>>,
        shared: &Shared,
        (key, request): (Key, Waiter),
        patience: &Patience<'_>,
    ) -> gnomon_engine::Result<()> {
        let begun = shared.clock.now();
        let mut step = STEP_MIN;
        while !locks.entry(key).or_default().grant_first(request) {
            patience.interrupt.check()?;
            let waited = shared.clock.now().saturating_sub(begun);
            let left = patience.timeout.map_or(STEP_MAX, |timeout| timeout.saturating_sub(waited));
            if left.is_zero() {
                return Err(Error::LockTimeout);
            }
            let until_search = patience.deadlock_after.saturating_sub(waited);
            if until_search.is_zero() && is_deadlock(locks, shared, request.owner.session) {
                return Err(Error::Deadlock);
            }
            let until_search = if until_search.is_zero() { STEP_MAX } else { until_search };
            self.changed.wait_for(locks, step.min(until_search).min(left));
            step = (step * 2).min(STEP_MAX);
        }
        Ok(())
    }

    /// All locks that are held or waited for.
    pub(crate) fn list(&self) -> Vec<Listed> {
        let locks = self.locks.lock();
        let listed = locks.iter().flat_map(|(&key, lock)| {
            let held = lock.holders.iter().map(|holder| (holder.owner, holder.mode, true));
            let awaited = lock.queue.iter().map(|waiter| (waiter.owner, waiter.mode, false));
            held.chain(awaited).map(move |(owner, mode, granted)| Listed { key, mode, owner, granted })
        });
        listed.collect()
    }

    fn guard(self: &Arc<Self>, owner: Owner, key: Key, mode: Mode) -> Guard {
        Guard { locks: self.clone(), owner, key, mode }
    }

    fn give_back(&self, owner: Owner, key: Key, mode: Mode) {
        let mut locks = self.locks.lock();
        let Some(lock) = locks.get_mut(&key) else { return };
        let held = lock.holders.iter().position(|holder| holder.owner == owner && holder.mode == mode);
        if let Some(at) = held {
            lock.holders[at].count -= 1;
            if lock.holders[at].count == 0 {
                lock.holders.swap_remove(at);
                self.changed.notify_all();
            }
        }
        if lock.holders.is_empty() && lock.queue.is_empty() {
            locks.remove(&key);
        }
    }
}

/// True if a session that waits for an advisory lock waits for itself.
///
/// A cycle is read twice: sessions that wait in the engine are read one after another, and one may have gone on
/// meanwhile.
fn is_deadlock(locks: &HashMap<Key, Lock>, shared: &Shared, session: u64) -> bool {
    let cycle = find_cycle(locks, shared, session);
    cycle.is_some() && cycle == find_cycle(locks, shared, session)
}

/// The sessions of a cycle of waits through `start`, by depth-first search.
fn find_cycle(locks: &HashMap<Key, Lock>, shared: &Shared, start: u64) -> Option<Vec<u64>> {
    let mut waits = HashMap::new();
    for lock in locks.values() {
        for (place, waiter) in lock.queue.iter().enumerate() {
            waits.insert(waiter.owner.session, lock.blockers(*waiter, place).collect::<Vec<_>>());
        }
    }
    let transactions = shared.registry.transactions();
    let sessions: HashMap<_, _> = transactions.iter().map(|(session, txn)| (*txn, *session)).collect();
    let transactions: HashMap<_, _> = transactions.into_iter().collect();
    let blockers = |session: u64| match (waits.get(&session), transactions.get(&session)) {
        (Some(blockers), _) => blockers.clone(),
        (None, Some(txn)) => {
            let blockers = shared.engine.lock_blockers(*txn).into_iter();
            blockers.filter_map(|txn| sessions.get(&txn).copied()).collect()
        }
        (None, None) => Vec::new(),
    };
    let mut seen = HashSet::new();
    let mut path = vec![(start, blockers(start))];
    while let Some((_, untried)) = path.last_mut() {
        match untried.pop() {
            None => {
                path.pop();
            }
            Some(next) if next == start => {
                return Some(path.into_iter().map(|(session, _)| session).collect());
            }
            Some(next) if seen.insert(next) => path.push((next, blockers(next))),
            Some(_) => {}
        }
    }
    None
}

/// One taking of a lock, which ends when this is dropped.
pub(crate) struct Guard {
    locks: Arc<AdvisoryLocks>,
    owner: Owner,
    pub(super) key: Key,
    pub(super) mode: Mode,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.locks.give_back(self.owner, self.key, self.mode);
    }
}
