//! The place where one owner sleeps while its request waits.
//!
//! A thread that takes a request of another out of its queue owes the owner an [`Outcome`]. [`Outcome::Victim`] comes
//! once, and the owner does not go on before it has got it, so it never reaches a later wait of the same owner.
//! [`Outcome::Granted`] may come more than once and late, and so says only that the owner should look at the state of
//! its request.
//!
//! A sleeper does not spin first: it waits for a chain of other owners, which need the cores that it would spin on.
//! With 32 threads on 2 cores and one hot lock, spinning for 5 to 60 us changed nothing or cost throughput.

use std::time::Duration;

use crate::{
    failpoint::{Failpoint, Failpoints},
    sync::{Condvar, Mutex},
};

/// The outcome of a wait, if another thread ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The lock was passed on to the owner, which may have been overtaken since.
    Granted,
    /// The owner was chosen as the victim of a deadlock.
    Victim,
}

/// The reason for which a sleeper wakes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    Ended(Outcome),
    /// An interrupt was raised; the request is still in its queue, or an outcome is under way.
    Poked,
    TimedOut,
}

#[derive(Debug, Default)]
pub(super) struct Parking {
    signal: Mutex<Option<Wakeup>>,
    changed: Condvar,
    failpoints: Failpoints,
}

impl Parking {
    pub(super) fn new(failpoints: Failpoints) -> Parking {
        Parking { failpoints, ..Parking::default() }
    }

    /// Sleeps until an outcome or a poke comes, or for `timeout`. Takes the signal.
    pub(super) fn sleep(&self, timeout: Option<Duration>) -> Wakeup {
        let mut signal = self.signal.lock();
        if self.failpoints.is_on(Failpoint::LockWakeupLost) && signal.is_none() {
            // A signal that comes now is not looked at.
            drop(signal);
            signal = self.signal.lock();
            self.changed.wait(&mut signal);
        }
        loop {
            if let Some(wakeup) = signal.take() {
                return wakeup;
            }
            match timeout {
                None => self.changed.wait(&mut signal),
                Some(timeout) => {
                    if self.changed.wait_for(&mut signal, timeout).timed_out() {
                        return signal.take().unwrap_or(Wakeup::TimedOut);
                    }
                }
            }
        }
    }

    /// Sleeps until the owner is told that it is a victim, which it is known to be.
    pub(super) fn victim(&self) -> Outcome {
        while self.sleep(None) != Wakeup::Ended(Outcome::Victim) {}
        Outcome::Victim
    }

    /// The outcome, if it has come.
    #[cfg(all(test, not(shuttle)))]
    pub(super) fn try_outcome(&self) -> Option<Outcome> {
        match *self.signal.lock() {
            Some(Wakeup::Ended(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// Ends the wait.
    pub(super) fn end(&self, outcome: Outcome) {
        let mut signal = self.signal.lock();
        if *signal != Some(Wakeup::Ended(Outcome::Victim)) {
            *signal = Some(Wakeup::Ended(outcome));
        }
        drop(signal);
        self.changed.notify_one();
    }

    /// Wakes the sleeper to look at its interrupt.
    pub(super) fn poke(&self) {
        self.signal.lock().get_or_insert(Wakeup::Poked);
        self.changed.notify_one();
    }

    /// Forgets a poke that came after the wait had ended.
    pub(super) fn reset(&self) {
        *self.signal.lock() = None;
    }
}
