//! Locks between processes of a simulation: shared and exclusive, first come, first served, with a moment at which a
//! process waits no longer.
//!
//! Not here: deadlocks. Whoever waits in one waits until his moment.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
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

/// The moment came before the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

/// The locks of a simulation. Owners and what they lock are numbers.
pub struct LockTable {
    simulation: Simulation,
    locks: RefCell<HashMap<u64, Lock>>,
    waits: Cell<u64>,
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
            waits: Cell::new(0),
            waited: Cell::new(0),
        }
    }

    /// Waits for a lock until a moment. An owner may have it already: who has it shared and wants it alone waits before
    /// all others.
    pub async fn acquire(&self, owner: u64, lock: u64, mode: Mode, until: Duration) -> Result<(), TimedOut> {
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
            let is_granted = Rc::new(Cell::new(false));
            let process = self.simulation.running();
            let waiting = Waiting { owner, mode, process, is_granted: is_granted.clone() };
            match held {
                Some(_) => lock.waiting.push_front(waiting),
                None => lock.waiting.push_back(waiting),
            }
            is_granted
        };
        let began = self.simulation.now();
        self.simulation.wake_at(nanos(until), self.simulation.running());
        let ended = poll_fn(|_| match is_granted.get() {
            true => Poll::Ready(Ok(())),
            false if self.simulation.now() >= until => Poll::Ready(Err(TimedOut)),
            false => Poll::Pending,
        })
        .await;
        self.waits.set(self.waits.get() + 1);
        self.waited.set(self.waited.get() + nanos(self.simulation.now() - began));
        if ended.is_err() {
            self.change(lock, |lock| lock.waiting.retain(|waiting| waiting.owner != owner));
        }
        ended
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

    /// How many waits there were.
    pub fn waits(&self) -> u64 {
        self.waits.get()
    }

    /// What they took together.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.get())
    }
}
