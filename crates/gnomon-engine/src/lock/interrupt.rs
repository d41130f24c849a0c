//! Interrupts: ending a transaction's waits and scans from elsewhere.

use super::park::Parking;
use crate::{
    Error, Result,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
};

/// Why a waiting or scanning transaction was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterruptReason {
    /// A cancel was requested.
    #[error("canceled on request")]
    Cancel,
    /// Its time ran out.
    #[error("canceled by the statement timeout")]
    Timeout,
    /// The database is closing.
    #[error("the database is shutting down")]
    Shutdown,
}

/// Ends a transaction's waits and scans from another thread. Shared by the thread that runs the transaction and those
/// that may interrupt it; stays raised until it is cleared.
#[derive(Debug, Default)]
pub struct Interrupt {
    /// Zero, or the reason's [`code`]. Written under `sleepers`, so that no thread goes to sleep on a raised one.
    raised: AtomicU8,
    sleepers: Mutex<Vec<Arc<Parking>>>,
}

const fn code(reason: InterruptReason) -> u8 {
    match reason {
        InterruptReason::Cancel => 1,
        InterruptReason::Timeout => 2,
        InterruptReason::Shutdown => 3,
    }
}

impl Interrupt {
    /// Raises it: the transaction's present wait, or its next wait or scan step, ends with
    /// [`Error::Interrupted`]. A wait for a lock that is granted at the same moment may still succeed.
    pub fn raise(&self, reason: InterruptReason) {
        let sleepers = self.sleepers.lock();
        self.raised.store(code(reason), Ordering::Release);
        // Under the mutex: a poke that came later could hit the sleeper's next wait.
        sleepers.iter().for_each(|sleeper| sleeper.poke());
    }

    /// Lowers it, before the next statement.
    pub fn clear(&self) {
        let _sleepers = self.sleepers.lock();
        self.raised.store(0, Ordering::Release);
    }

    /// Fails if it is raised. Costs one load.
    pub fn check(&self) -> Result<()> {
        match self.raised.load(Ordering::Acquire) {
            0 => Ok(()),
            1 => Err(Error::Interrupted(InterruptReason::Cancel)),
            2 => Err(Error::Interrupted(InterruptReason::Timeout)),
            _ => Err(Error::Interrupted(InterruptReason::Shutdown)),
        }
    }

    /// Registers `sleeper` to be poked when the interrupt is raised, until the guard is dropped. Fails if it is
    /// raised now.
    pub(super) fn watch<'a>(&'a self, sleeper: &'a Arc<Parking>) -> Result<Watch<'a>> {
        let mut sleepers = self.sleepers.lock();
        self.check()?;
        sleepers.push(sleeper.clone());
        Ok(Watch { interrupt: self, sleeper })
    }
}

/// See [`Interrupt::watch`].
pub(super) struct Watch<'a> {
    interrupt: &'a Interrupt,
    sleeper: &'a Arc<Parking>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.interrupt.sleepers.lock().retain(|sleeper| !Arc::ptr_eq(sleeper, self.sleeper));
    }
}
