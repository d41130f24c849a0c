//! Locks between processes of a simulation: shared and exclusive, first come, first served, with a moment at which a
//! process waits no longer.
//!
//! Of deadlocks a table knows nothing, so that whoever waits in one waits until his moment; or it refuses the request
//! that would complete one ([`LockTable::detecting`]).

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet, VecDeque},
    future::poll_fn,
    rc::Rc,
    task::Poll,
    time::Duration,
};

use super::{ProcessId, Simulation, nanos};

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// With others.
    Shared,
    /// Alone.
    Exclusive,
}

/// The moment came before the lock, or to wait for it would be a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotGranted;

/// The locks of a simulation. Owners and what they lock are numbers.
pub struct LockTable {
    simulation: Simulation,
    locks: RefCell<HashMap<u64, Lock>>,
    /// Which lock each owner who waits waits for, if deadlocks are looked for.
    waiting_for: Option<RefCell<HashMap<u64, u64>>>,
    waited: Cell<u64>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<(u64, Mode)>,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    owner: u64,
    mode: Mode,
    process: ProcessId,
    is_granted: Rc<Cell<bool>>,
}

impl Lock {
    /// Whether an owner can have it beside its holders.
    fn is_free_for(&self, owner: u64, mode: Mode) -> bool {
        self.holders
            .iter()
            .all(|(holder, held)| *holder == owner || (mode == Mode::Shared && *held == Mode::Shared))
    }

    /// Whom an owner who waits for it waits for: who holds it in a mode that excludes his, and who waits before him.
    fn blockers(&self, owner: u64) -> Vec<u64> {
        let Some(place) = self.waiting.iter().position(|waiting| waiting.owner == owner) else {
            return Vec::new();
        };
        let mode = self.waiting[place].mode;
        let excludes = |held: Mode| mode == Mode::Exclusive || held == Mode::Exclusive;
        let holders = self.holders.iter().filter(|(holder, held)| *holder != owner && excludes(*held));
        let before = self.waiting.range(..place).map(|waiting| waiting.owner);
        holders.map(|(holder, _)| *holder).chain(before).collect()
    }

    fn grant(&mut self, owner: u64, mode: Mode) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == owner) {
            Some((_, held)) => *held = mode.max(*held),
            None => self.holders.push((owner, mode)),
        }
    }

    /// Grants it to those who wait and can have it, in their order. Returns their processes.
    fn grant_waiting(&mut self) -> Vec<ProcessId> {
        let mut woken = Vec::new();
        while let Some(first) = self.waiting.front()
            && self.is_free_for(first.owner, first.mode)
            && let Some(first) = self.waiting.pop_front()
        {
            self.grant(first.owner, first.mode);
            first.is_granted.set(true);
            woken.push(first.process);
        }
        woken
    }
}

impl LockTable {
    /// Nothing is locked.
    pub fn new(simulation: &Simulation) -> LockTable {
        LockTable {
            simulation: simulation.clone(),
            locks: RefCell::default(),
            waiting_for: None,
            waited: Cell::new(0),
        }
    }

    /// The same; a request that would complete a deadlock is not granted.
    pub fn detecting(simulation: &Simulation) -> LockTable {
        LockTable { waiting_for: Some(RefCell::default()), ..LockTable::new(simulation) }
    }

    /// Waits for a lock until a moment ([`Duration::MAX`] for none), not at all if that is over. An owner may have it already: who has it shared and
    /// wants it alone waits before all others.
    pub async fn acquire(
        &self,
        owner: u64,
        lock: u64,
        mode: Mode,
        until: Duration,
    ) -> Result<(), NotGranted> {
        let is_granted = {
            let mut locks = self.locks.borrow_mut();
            let lock = locks.entry(lock).or_default();
            let held = lock.holders.iter().find(|(holder, _)| *holder == owner).map(|(_, held)| *held);
            if held.is_some_and(|held| held >= mode) {
                return Ok(());
            }
            let is_first = held.is_some() || lock.waiting.is_empty();
            if is_first && lock.is_free_for(owner, mode) {
                lock.grant(owner, mode);
                return Ok(());
            }
            if self.simulation.now() >= until {
                return Err(NotGranted);
            }
            let is_granted = Rc::new(Cell::new(false));
            let process = self.simulation.running();
            let waiting = Waiting { owner, mode, process, is_granted: is_granted.clone() };
            match held {
                Some(_) => lock.waiting.push_front(waiting),
                None => lock.waiting.push_back(waiting),
            }
            is_granted
        };
        if self.completes_deadlock(owner, lock) {
            self.change(lock, |lock| lock.waiting.retain(|waiting| waiting.owner != owner));
            return Err(NotGranted);
        }
        let began = self.simulation.now();
        if until < Duration::MAX {
            self.simulation.wake_at(nanos(until), self.simulation.running());
        }
        let ended = poll_fn(|_| match is_granted.get() {
            true => Poll::Ready(Ok(())),
            false if self.simulation.now() >= until => Poll::Ready(Err(NotGranted)),
            false => Poll::Pending,
        })
        .await;
        if let Some(waiting_for) = &self.waiting_for {
            waiting_for.borrow_mut().remove(&owner);
        }
        self.waited.set(self.waited.get() + nanos(self.simulation.now() - began));
        if ended.is_err() {
            self.change(lock, |lock| lock.waiting.retain(|waiting| waiting.owner != owner));
        }
        ended
    }

    /// Whether an owner who waits for a lock from now on waits for himself; if not, that he waits is noted.
    fn completes_deadlock(&self, owner: u64, lock: u64) -> bool {
        let Some(waiting_for) = &self.waiting_for else { return false };
        let (locks, mut waiting_for) = (self.locks.borrow(), waiting_for.borrow_mut());
        let blockers = |owner, lock| locks.get(&lock).map_or_else(Vec::new, |lock| lock.blockers(owner));
        let mut reached = blockers(owner, lock);
        let mut known = HashSet::new();
        while let Some(one) = reached.pop() {
            if one == owner {
                return true;
            }
            if known.insert(one)
                && let Some(lock) = waiting_for.get(&one)
            {
                reached.extend(blockers(one, *lock));
            }
        }
        waiting_for.insert(owner, lock);
        false
    }

    /// Gives a lock back.
    pub fn release(&self, owner: u64, lock: u64) {
        self.change(lock, |lock| lock.holders.retain(|(holder, _)| *holder != owner));
    }

    /// Changes a lock, and wakes those who have it then.
    fn change(&self, number: u64, change: impl FnOnce(&mut Lock)) {
        let mut locks = self.locks.borrow_mut();
        let Some(lock) = locks.get_mut(&number) else { return };
        change(lock);
        let woken = lock.grant_waiting();
        if lock.holders.is_empty() && lock.waiting.is_empty() {
            locks.remove(&number);
        }
        for process in woken {
            self.simulation.wake_at(nanos(self.simulation.now()), process);
        }
    }

    /// What was waited for them, together.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.get())
    }
}
