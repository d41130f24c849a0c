//! statement_timeout: one thread for a database, which raises the interrupts of statements whose time is up.
//!
//! The thread starts with the first timeout that is set and ends with the database. An alarm that is dropped before
//! its time never rings: it is taken out under the mutex that the thread holds while it rings.

use std::{collections::BTreeMap, time::Duration};

use gnomon_engine::{
    Interrupt, InterruptReason,
    env::Clock,
    sync::{Arc, Condvar, Mutex, thread},
};

/// Rings alarms.
pub(crate) struct Timer(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By the clock's time, and by number among those of the same time.
    alarms: BTreeMap<(Duration, u64), Arc<Interrupt>>,
    next_number: u64,
    running: bool,
    closed: bool,
}

/// An alarm that is set; dropped, it is taken back.
pub(crate) struct Alarm {
    inner: Arc<Inner>,
    at: (Duration, u64),
}

impl Timer {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Timer {
        Timer(Arc::new(Inner { clock, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Raises `interrupt` once `after` has passed, unless the alarm is dropped before.
    pub(crate) fn set(&self, after: Duration, interrupt: Arc<Interrupt>) -> Alarm {
        let mut state = self.0.state.lock();
        state.next_number += 1;
        let at = (self.0.clock.now().saturating_add(after), state.next_number);
        let first = state.alarms.first_key_value().is_none_or(|(next, _)| at < *next);
        state.alarms.insert(at, interrupt);
        if !state.running {
            state.running = true;
            let inner = self.0.clone();
            thread::spawn(move || inner.run());
        } else if first {
            self.0.changed.notify_one();
        }
        Alarm { inner: self.0.clone(), at }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.inner.state.lock().alarms.remove(&self.at);
    }
}

impl Inner {
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.closed {
            let Some((at, interrupt)) = state.alarms.first_key_value().map(|(at, i)| (*at, i.clone())) else {
                self.changed.wait(&mut state);
                continue;
            };
            match at.0.checked_sub(self.clock.now()) {
                Some(left) if !left.is_zero() => {
                    self.changed.wait_for(&mut state, left);
                }
                _ => {
                    state.alarms.remove(&at);
                    interrupt.raise(InterruptReason::Timeout);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gnomon_engine::env::SystemClock;

    use super::*;

    #[test]
    fn alarms_ring_in_their_order_unless_taken_back() {
        let timer = Timer::new(Arc::new(SystemClock::new()));
        let interrupts: Vec<Arc<Interrupt>> = (0..3).map(|_| Arc::default()).collect();
        let late = timer.set(Duration::from_secs(3600), interrupts[0].clone());
        let _soon = timer.set(Duration::from_millis(5), interrupts[1].clone());
        let back = timer.set(Duration::from_millis(1), interrupts[2].clone());
        drop(back);
        while interrupts[1].check().is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(interrupts[0].check().is_ok());
        drop(late);
    }
}
