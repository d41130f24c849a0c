//! The wait of a request for a lock, from its owner's side.

use std::time::Duration;

use super::{LockManager, LockOwner, Requested};
use crate::{
    Conflict, Error, Result, TxnId,
    failpoint::Failpoint,
    lock::{
        Interrupt, Mode,
        deadlock::{Place, wake},
        escrow::Claimed,
        park::{Outcome, Parking, Wakeup},
        shard::{Claims, Fate, Waiter},
    },
    sync::Arc,
};

/// The limits of a request's wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitOptions<'a> {
    /// The longest wait, after which the request fails with [`Error::LockTimeout`]; none waits for ever.
    pub timeout: Option<Duration>,
    /// Ends the wait with [`Error::Interrupted`] when it is raised.
    pub interrupt: Option<&'a Interrupt>,
    /// Fails with [`Error::LockTimeout`] instead of waiting.
    pub nowait: bool,
    /// Time that a request waits before it looks for a deadlock; zero looks at once.
    pub deadlock_after: Duration,
    /// The longest wait for an owner in doubt (`LockOwner::mark_in_doubt`), after which the request fails with
    /// [`Error::Serialization`]; none waits for ever.
    pub in_doubt_max: Option<Duration>,
}

/// The course of a request that is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lock) enum Patience {
    /// It fails.
    None,
    /// It waits, and looks for a deadlock first.
    Wait,
    /// It waits, and looks for a deadlock later.
    Later,
}

impl WaitOptions<'_> {
    pub(super) fn patience(&self) -> Patience {
        match (self.nowait, self.deadlock_after.is_zero()) {
            (true, _) => Patience::None,
            (false, true) => Patience::Wait,
            (false, false) => Patience::Later,
        }
    }
}

/// The waits of an owner.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Number of waits so far.
    pub(super) count: u64,
    /// Made when the owner first blocks.
    parking: Option<Arc<Parking>>,
}

impl Waits {
    /// Makes the queue entry of a request that is about to wait.
    pub(super) fn begin(
        &mut self,
        manager: &LockManager,
        txn: TxnId,
        mode: Mode,
        conversion: bool,
        claims: Option<Claims>,
    ) -> Waiter {
        let parking = self.parking.get_or_insert_with(|| manager.parking()).clone();
        parking.reset();
        self.count += 1;
        let (number, since) = (self.count, manager.clock.now());
        Waiter { txn, number, mode, conversion, since, parking, overtaken: 0, claims }
    }
}

/// The reasons to wake up from a wait by time. Of those at the same moment the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// The longest wait is over.
    Timeout,
    /// A deadlock is to be looked for.
    Deadlock,
    /// An owner in doubt is to be looked for.
    InDoubt,
}

/// A request in a queue, from its owner's side.
#[derive(Debug)]
pub(in crate::lock) struct Wait {
    place: Place,
    kind: WaitKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WaitKind {
    /// For a lock that is held in a mode, or not yet.
    Lock(Option<Mode>),
    /// For a lock in a mode that cannot be held.
    Instant,
    /// For claims under a lock that is held.
    Claims,
}

impl LockOwner {
    /// Returns the place where its request waits.
    pub(super) fn place(&self, shard: usize, slot: u32) -> Place {
        Place { shard, slot, number: self.waits.count, weight: self.weight.saturating_add(self.held_count) }
    }

    /// Registers a request that is in its queue, and looks for a deadlock at once unless it is to do so later.
    pub(super) fn waiting(&self, place: Place, kind: WaitKind, patience: Patience) -> Result<Requested> {
        if patience == Patience::Later {
            self.manager.register(self.txn, place);
            return Ok(Requested::Waiting(Wait { place, kind }));
        }
        if self.manager.failpoints.is_on(Failpoint::DeadlocksIgnored) {
            return Ok(Requested::Waiting(Wait { place, kind }));
        }
        if self.manager.break_deadlocks(self.txn, place, self.victim) {
            return Err(Error::Deadlock);
        }
        Ok(Requested::Waiting(Wait { place, kind }))
    }

    /// Sleeps until the request is granted, its claims are decided, or it fails.
    pub(super) fn wait(&mut self, wait: Wait, options: &WaitOptions<'_>) -> Result<Option<Claimed>> {
        let begun = self.manager.clock.now();
        let ended = self.sleep(wait, begun, options);
        self.manager.note_wait(self.manager.clock.now().saturating_sub(begun));
        ended
    }

    fn sleep(&mut self, wait: Wait, begun: Duration, options: &WaitOptions<'_>) -> Result<Option<Claimed>> {
        let parking = self.waits.parking.clone().expect("a request in a queue has its sleeper");
        // The time until it looks for a deadlock; none once it has looked.
        let mut deadlock_after = Some(options.deadlock_after).filter(|after| !after.is_zero());
        // The time until it looks for an owner in doubt; then it does so again after as long a time.
        let mut in_doubt_after = options.in_doubt_max;
        let gave_up = match options.interrupt.map(|i| i.watch(&parking)).transpose() {
            Err(error) => error,
            Ok(_watch) => loop {
                // It may wake up for nothing.
                let slept = self.manager.clock.now().saturating_sub(begun);
                let timers = [
                    (options.timeout, Timer::Timeout),
                    (deadlock_after, Timer::Deadlock),
                    (in_doubt_after, Timer::InDoubt),
                ];
                let timers = timers.into_iter().filter_map(|(after, timer)| Some((after?, timer)));
                let next = timers.min_by_key(|(after, _)| *after);
                let woken = parking.sleep(next.map(|(after, _)| after.saturating_sub(slept)));
                match (woken, next.map(|(_, timer)| timer)) {
                    (Wakeup::Ended(Outcome::Victim), _) => return Err(Error::Deadlock),
                    (Wakeup::TimedOut, Some(Timer::Deadlock)) => {
                        deadlock_after = None;
                        if self.manager.break_deadlocks(self.txn, wait.place, self.victim) {
                            return Err(Error::Deadlock);
                        }
                    }
                    (Wakeup::TimedOut, Some(Timer::InDoubt)) => {
                        if self.manager.waits_for_in_doubt(self.txn) {
                            break Error::Serialization(Conflict::Prepared);
                        }
                        in_doubt_after =
                            in_doubt_after.zip(options.in_doubt_max).map(|(now, more)| now + more);
                    }
                    (Wakeup::TimedOut, _) => break Error::LockTimeout,
                    // One signal may stand for both: the request was overtaken, and the interrupt was raised.
                    (Wakeup::Ended(Outcome::Granted) | Wakeup::Poked, _) => match self.fate(&wait) {
                        Fate::Waits => match options.interrupt.map_or(Ok(()), Interrupt::check) {
                            Err(error) => break error,
                            Ok(()) => continue,
                        },
                        fate => return self.ended(&wait, fate).expect("it has ended"),
                    },
                }
            },
        };
        let fate = self.give_up(&wait);
        self.ended(&wait, fate).unwrap_or(Err(gave_up))
    }

    /// Returns the state of a request. Its owner asks, and is awake.
    pub(in crate::lock) fn fate(&self, wait: &Wait) -> Fate {
        self.manager.shard(wait.place.shard).lock().fate(wait.place.slot, self.txn, wait.place.number)
    }

    /// Withdraws a request if it still waits, and returns its state before that.
    pub(in crate::lock) fn give_up(&mut self, wait: &Wait) -> Fate {
        let (manager, place, mut woken) = (&self.manager, &wait.place, Vec::new());
        let mut shard = manager.shard(place.shard).lock();
        let fate = shard.fate(place.slot, self.txn, place.number);
        if matches!(fate, Fate::Waits) {
            shard.withdraw(&manager.tables, place.slot, self.txn, place.number, &mut woken);
        }
        drop(shard);
        wake(woken);
        fate
    }

    /// Records the end of a wait, and returns its result; none if it has not ended.
    pub(in crate::lock) fn ended(&mut self, wait: &Wait, fate: Fate) -> Option<Result<Option<Claimed>>> {
        let Wait { place, kind } = wait;
        match (fate, kind) {
            (Fate::Waits, _) => return None,
            (Fate::Withdrawn, _) => {
                if let Some(parking) = &self.waits.parking {
                    parking.victim();
                }
                return Some(Err(Error::Deadlock));
            }
            (Fate::Claimed(claimed), _) => {
                self.note_claimed(place.shard, place.slot, claimed.clone());
                return Some(Ok(Some(claimed)));
            }
            (Fate::Granted, WaitKind::Lock(before)) => self.acquired(place.shard, place.slot, *before),
            (Fate::Granted, WaitKind::Instant | WaitKind::Claims) => {}
        }
        Some(Ok(None))
    }

    /// Returns the outcome of a wait, if it has ended.
    #[cfg(all(test, not(shuttle)))]
    pub(in crate::lock) fn try_outcome(&self) -> Option<Outcome> {
        self.waits.parking.as_ref()?.try_outcome()
    }
}
