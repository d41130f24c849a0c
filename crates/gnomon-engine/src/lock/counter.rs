//! Counts the requests and the waits for one kind of locks.

use std::time::Duration;

use super::{LockName, LockOwner, Mode, WaitOptions};
use crate::{
    Error, Result,
    env::Clock,
    sync::atomic::{AtomicU64, Ordering},
};

/// Lock requests and lock waits at one level of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelWaits {
    /// Number of locks that were asked for.
    pub requests: u64,
    /// Number of those that were waited for.
    pub waits: u64,
    /// Time of all waits together.
    pub time: Duration,
    /// Number of waits that ended by a deadlock.
    pub deadlocks: u64,
}

/// Counts for [`LevelWaits`].
#[derive(Default)]
pub struct WaitCounter {
    requests: AtomicU64,
    waits: AtomicU64,
    waited_ns: AtomicU64,
    deadlocks: AtomicU64,
}

impl WaitCounter {
    /// Locks, as [`LockOwner::lock`] does.
    pub fn lock(
        &self,
        owner: &mut LockOwner,
        name: LockName<'_>,
        mode: Mode,
        wait: &WaitOptions<'_>,
        clock: &dyn Clock,
    ) -> Result<()> {
        match self.try_lock(owner, name, mode) {
            true => Ok(()),
            false if wait.nowait => Err(Error::LockTimeout),
            false => self.wait(owner, name, mode, wait, clock),
        }
    }

    /// Locks without waiting; false if it would have to.
    pub fn try_lock(&self, owner: &mut LockOwner, name: LockName<'_>, mode: Mode) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed);
        owner.try_lock(name, mode)
    }

    /// Locks after [`WaitCounter::try_lock`] has failed; waits if it must.
    pub fn wait(
        &self,
        owner: &mut LockOwner,
        name: LockName<'_>,
        mode: Mode,
        wait: &WaitOptions<'_>,
        clock: &dyn Clock,
    ) -> Result<()> {
        let begin = clock.now();
        let locked = owner.lock(name, mode, wait);
        let waited = clock.now().saturating_sub(begin);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if matches!(locked, Err(Error::Deadlock)) {
            self.deadlocks.fetch_add(1, Ordering::Relaxed);
        }
        locked
    }

    /// Returns the counts.
    pub fn read(&self) -> LevelWaits {
        LevelWaits {
            requests: self.requests.load(Ordering::Relaxed),
            waits: self.waits.load(Ordering::Relaxed),
            time: Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed)),
            deadlocks: self.deadlocks.load(Ordering::Relaxed),
        }
    }
}
